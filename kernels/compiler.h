/* Attributes and hints for compilers. */
#ifndef ATTN_COMPILER_H
#define ATTN_COMPILER_H

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

/*
 * Bytes that will be read soon are fetched into L2 meanwhile, so many at each of several places in the code. A core can wait for
 * some twenty lines at once, and what comes behind a burst of more waits for them, too: memory and arithmetic would take turns.
 * In L1 they would hold the few buffers that loads wait for until they have come.
 */
typedef struct Ahead {
    const unsigned char *next;
    size_t bytes;
} Ahead;

/* Share i of it: the lines that begin there. */
OPENED void fetch(Ahead ahead, size_t i) {
    for (size_t at = (i * ahead.bytes + 63) / 64 * 64; at < (i + 1) * ahead.bytes; at += 64)
        __builtin_prefetch(ahead.next + at, 0, 2);
}

/*
 * The line at p, after what v was and before what becomes of it: gcc 12 puts the lines of a whole loop side by side. An emulated
 * vector is in no register.
 */
#if defined(__x86_64__) && !defined(EMULATED_AVX512)
#define FETCH_LINE(p, v) __asm__ volatile("prefetcht1 %1" : "+v"(v) : "m"(*(p)))
#else
#define FETCH_LINE(p, v) __builtin_prefetch(p, 0, 2)
#endif

/* Share i likewise, of no more than three lines, where all but p is a constant. A loop would be left, and the loops around it. */
#define FETCH_SHARE(ahead, i, v)                                                                             \
    {                                                                                                        \
        const size_t line = ((i) * (ahead).bytes + 63) / 64 * 64, end = ((i) + 1) * (ahead).bytes;           \
        if (line < end) FETCH_LINE((ahead).next + line, v);                                                  \
        if (line + 64 < end) FETCH_LINE((ahead).next + line + 64, v);                                        \
        if (line + 128 < end) FETCH_LINE((ahead).next + line + 128, v);                                      \
    }

#endif
