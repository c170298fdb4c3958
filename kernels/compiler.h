/* Attributes and hints for compilers. */
#ifndef ATTN_COMPILER_H
#define ATTN_COMPILER_H

#include "cpu.h"

#include <stddef.h>

/* Forces functions open, so that what they are called with is a constant in their loops, and vectors are registers. */
#define OPENED static inline __attribute__((always_inline))

/* Keeps a function one, which is called: neither opened nor copied for what it is called with. */
#if defined(__clang__)
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noinline, noclone))
#endif

/* Keeps it one within its file, in which what all calls agree on is a constant. */
#define CALLED static __attribute__((noinline))

/*
 * Tells the compiler that v may have changed, so that it can neither fetch it once more nor put its sum off. On arm64,
 * for which gcc orders instructions before it deals registers, volatile keeps the order, too, or registers run out.
 */
#if defined(__wasm__)
#define KEEP_IN_REGISTER(v) ((void)0) /* its registers are dealt where it runs */
#elif defined(__x86_64__)
#define KEEP_IN_REGISTER(v) __asm__("" : "+v"(v))
#else
#define KEEP_IN_REGISTER(v) __asm__ volatile("" : "+w"(v))
#endif

/*
 * WebAssembly's code is downloaded, and compiled where it runs, for fewer registers: less is opened there, and a CLOSED loop
 * stays one.
 */
#if defined(__wasm__)
enum { WASM = 1 };
#define CLOSED _Pragma("GCC unroll 1")
#else
enum { WASM = 0 };
#define CLOSED
#endif

/* Keeps the compiler from an address register of its own for each constant distance from p. */
#define KEEP_ADDRESS(p) __asm__("" : "+r"(p))

/* Keeps a loop over i one, whose turns are not opened; gcc 12 opens what a pragma tells it not to. */
#define KEEP_LOOP(i) __asm__("" : "+r"(i))

OPENED void fetch(const unsigned char *from, size_t bytes) {
#if defined(__x86_64__)
    if (cpu_fetches_into_l2) {
        for (size_t i = 0; i < bytes; i += 64) {
            KEEP_LOOP(i); /* it would be as much code again */
            __builtin_prefetch(from + i, 0, 2);
        }
        return;
    }
#endif
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i);
}

#endif
