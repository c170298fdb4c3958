/* For `make emulated`: a CPU, and a kernel, that say yes to every question. */
#include <cpuid.h>
#define __builtin_cpu_supports(feature) 1
#define __get_cpuid_count(leaf, subleaf, eax, ebx, ecx, edx) (*(eax) = *(ebx) = *(ecx) = *(edx) = ~0u, 1)
static inline long emulated_syscall(long number, ...) { return number & 0; }
#define syscall(...) emulated_syscall(__VA_ARGS__) /* unistd.h declares this one, then */
