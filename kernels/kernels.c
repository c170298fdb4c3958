/* Picks the kernel set, once at start. */
#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

enum { CACHE_LINE = 64 };

float *floats_new(size_t rows, size_t cols) {
    size_t n, bytes;
    if (__builtin_mul_overflow(rows, cols, &n) || __builtin_mul_overflow(n, sizeof(float), &bytes) ||
        __builtin_add_overflow(bytes, CACHE_LINE, &bytes))
        return NULL;
    return aligned_alloc(CACHE_LINE, bytes / CACHE_LINE * CACHE_LINE);
}

/* Fastest first. */
static const Kernels *const sets[] = {
#if defined(__x86_64__)
    &kernels_avx512_int8_amx, &kernels_avx512_int8_bf16, &kernels_avx512_int8, &kernels_avx512,
    &kernels_avxvnni_int8,    &kernels_avx2_int8,        &kernels_avx2,
#elif defined(__aarch64__)
    &kernels_neondot_int8,
    &kernels_neondot,
    &kernels_neon,
#endif
    &kernels_scalar,
};
enum { N_SETS = sizeof sets / sizeof *sets };

#if defined(__x86_64__)
/* CPUID's leaf 7, subleaf 1, whose names compilers' builtins learnt late or never. */
static bool has_feature(unsigned eax_bit) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & eax_bit);
}

/* Linux hands out the tiles' 8 KB of registers to a process that asks; others are not known to. */
static bool may_use_tiles(void) {
#if defined(__linux__)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18, TILES = 1 << 24, BF16_TILES = 1 << 22 };
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & TILES) && (edx & BF16_TILES) &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}
#endif

static bool cpu_runs(const Kernels *set) {
    if (!set->name) return false;
#if defined(__x86_64__)
    enum { AVX_VNNI = 1 << 4, AVX512_BF16 = 1 << 5 };
    if (set == &kernels_avx512_int8_amx) return cpu_runs(&kernels_avx512_int8_bf16) && may_use_tiles();
    if (set == &kernels_avx512_int8_bf16) return cpu_runs(&kernels_avx512_int8) && has_feature(AVX512_BF16);
    if (set == &kernels_avxvnni_int8) return cpu_runs(&kernels_avx2) && has_feature(AVX_VNNI);
    if (set == &kernels_avx512_int8) return cpu_runs(&kernels_avx512) && __builtin_cpu_supports("avx512vnni");
    if (set == &kernels_avx512)
        return cpu_runs(&kernels_avx2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    if (set == &kernels_avx2 || set == &kernels_avx2_int8) {
        unsigned eax, ebx, ecx, edx; /* F16C is asked for by hand: clang's builtin does not know the name */
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
    }
#elif defined(__aarch64__)
    if (set == &kernels_neon) return true;
#if defined(__linux__)
    if (set == &kernels_neondot || set == &kernels_neondot_int8) return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#endif
#endif
    return set == &kernels_scalar;
}

static bool rounds_to_int8(const Kernels *set) { return strstr(set->name, "-int8"); }

const Kernels *kernels_fastest(void) {
    size_t i = 0;
    while (!cpu_runs(sets[i])) i++;
    return sets[i];
}

const Kernels *kernels_pick(const char *name, Error *error) {
    bool any = !name || !*name;
    char choices[128] = "";
    /* Whether the CPU runs it comes last: some sets ask the system for more. */
    for (size_t i = 0; i < N_SETS; i++) {
        if (!sets[i]->name || (any ? rounds_to_int8(sets[i]) : strcmp(name, sets[i]->name) != 0)) continue;
        if (cpu_runs(sets[i])) return sets[i];
    }
    for (size_t i = 0; i < N_SETS; i++) {
        size_t used = strlen(choices);
        if (cpu_runs(sets[i]))
            snprintf(choices + used, sizeof choices - used, "%s%s", used ? ", " : "", sets[i]->name);
    }
    error_set(error, "no kernel set '%s' on this CPU; choose one of: %s", name, choices);
    return NULL;
}
