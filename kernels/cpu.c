#include "cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

bool cpu_is_any(void) { return true; }

#if defined(__x86_64__)
/* CPUID's leaf 7, subleaf 1. Compilers' builtins learnt these names late or never. */
static bool has_feature(unsigned eax_bit) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & eax_bit);
}

bool cpu_has_avx2(void) {
    unsigned eax, ebx, ecx, edx; /* F16C is asked for by hand: clang's builtin does not know the name */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

bool cpu_has_avx_vnni(void) { return cpu_has_avx2() && has_feature(1 << 4); }

bool cpu_has_avx512(void) {
    return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

bool cpu_has_avx512_vnni(void) { return cpu_has_avx512() && __builtin_cpu_supports("avx512vnni"); }

bool cpu_has_avx512_bf16(void) { return cpu_has_avx512_vnni() && has_feature(1 << 5); }

bool cpu_has_fast_bf16_dot(void) {
    unsigned eax, ebx, ecx, edx;
    return cpu_has_avx512_bf16() && __get_cpuid(0, &eax, &ebx, &ecx, &edx) && ebx != signature_INTEL_ebx;
}

bool cpu_has_amx_bf16(void) {
#if defined(__linux__)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18, TILES = 1 << 24, BF16_TILES = 1 << 22 };
    unsigned eax, ebx, ecx, edx;
    return cpu_has_avx512_bf16() && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & TILES) &&
           (edx & BF16_TILES) && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}
#elif defined(__aarch64__)
bool cpu_has_dot(void) {
#if defined(__linux__)
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#else
    return false;
#endif
}
#endif
