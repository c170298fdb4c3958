/*
 * The arithmetic of the engine behind one table of functions, one table for each instruction set.
 * scalar.c is the truth; every other set is tested against it. Nothing here knows what a layer is.
 */
#ifndef ATTN_KERNELS_H
#define ATTN_KERNELS_H

#include "dtype.h"
#include "error.h"
#include "threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A weight matrix where it lies: [rows = outputs][cols = inputs], both at least 1, rows contiguous. Borrowed. */
typedef struct Matrix {
    const void *data;
    DType dtype;
    size_t rows, cols;
} Matrix;

/* y = W·x + bias. */
typedef struct Linear {
    Matrix w;
    const float *bias; /* [rows], or NULL */
} Linear;

enum { MATVEC_STREAMS = 4 }; /* rows that matvec reads at once */

/* How far apart those rows lie, and so how many steps a matvec over all rows has. */
static inline size_t matvec_rows(size_t rows) { return (rows + MATVEC_STREAMS - 1) / MATVEC_STREAMS; }

typedef struct Kernels {
    const char *name; /* what kernels_pick chooses by: "avx2" */

    /* Up to so many tokens go through matvec, more through matmul: as many as were measured to be faster that way. */
    size_t (*matvec_tokens)(DType dtype);

    /*
     * Lays activations as matmul and matvec want them for weights of a dtype: x [n][cols], contiguous, to
     * packed, which has room for n·cols floats. A call packs the tokens [group·g, min(n, group·(g + 1))),
     * g < ⌈n/group⌉, and touches no others.
     */
    void (*pack)(void *packed, DType dtype, const float *x, size_t n, size_t cols, size_t g);
    size_t group; /* tokens that lie together, unless they go through matvec */

    /*
     * y[t][r] = bias[r] + Σ_c w[r][c]·x[t][c] for r in [row_begin, row_end) and t in [0, n), of packed x,
     * n > matvec_tokens(w->dtype).
     * Rows of y lie y_stride floats apart; bias may be NULL. The order of each sum depends on w's shape
     * alone, never on n or the row range. With quantised weights a set may round x by blocks of 32, to 16 bits,
     * or to 8 if "-int8" is in its name: errors of up to 2^-16, or 2^-8, of the block's largest. With weights of BF16
     * one with "-bf16" in its name rounds x to that: errors of up to 2^-8 of each x. One with "-amx" rounds x and w
     * to BF16, or F32 and F16 to two of them, if cols is a multiple of 32: errors of up to 2^-7, or 3·2^-16, of w·x;
     * what is smaller than 2^-110 errs by more, and from 2^128 − 2^119 on it is infinite. It needs 512 KB of stack.
     */
    void (*matmul)(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t row_begin,
                   size_t row_end, const void *packed, size_t n);

    /*
     * The same for n ≤ matvec_tokens(w->dtype), which is bound by memory: rows r, r + m, r + 2m and r + 3m for r in
     * [begin, end), m = matvec_rows(w->rows). Four places at once, far apart, are read up to twice as fast as one.
     * A token's sums are the same to the bit whether it comes alone or with others.
     */
    void (*matvec)(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t begin, size_t end,
                   const void *packed, size_t n);

    /* dst[i] = src[i] as float, i in [0, n), n a multiple of the dtype's block. */
    void (*unpack)(float *dst, DType dtype, const void *src, size_t n);

    /* dst[i] = src[i] as binary16, rounded to nearest even. */
    void (*pack_f16)(uint16_t *dst, const float *src, size_t n);

    /* y[i] += x[i]. */
    void (*add)(float *y, const float *x, size_t n);

    /* y[i] *= a. */
    void (*scale)(float *y, float a, size_t n);

    /*
     * n weighted sums of the same vectors: z[t][i] += Σ_j p[t][j]·v[j][i] for t < n, j < n_v, i < d, one j after
     * another. That is what attention does twice: its values weighted by the pattern, and its scores, where p is
     * queries and v[j] is dimension j of d keys. v is F32 or F16, rows v_stride numbers apart; rows of z and p
     * lie z_stride and p_stride floats apart. A set with "-amx" in its name may err by 3·2^-15 of each product.
     */
    void (*weighted_sums)(float *z, size_t z_stride, const float *p, size_t p_stride, size_t n, DType dtype,
                          const void *v, size_t v_stride, size_t n_v, size_t d);

    /* max_i x[i]; n ≥ 1. NaN may be passed over. */
    float (*max)(const float *x, size_t n);

    /* x[i] = exp(x[i] − max) in place; returns their sum. exp(−inf) is 0; x[i] ≤ max expected. */
    float (*exp_sum)(float *x, float max, size_t n);

    /* y = (x − mean)/√(var + eps)·gain + bias; bias may be NULL. Ba et al. 2016, arXiv:1607.06450. */
    void (*layer_norm)(float *y, const float *x, const float *gain, const float *bias, size_t n, float eps);

    /* y = x/√(mean x² + eps)·gain. Zhang & Sennrich 2019, arXiv:1910.07467. */
    void (*rms_norm)(float *y, const float *x, const float *gain, size_t n, float eps);

    /* x = GELU(x) by the tanh formula of GPT-2, in place. Hendrycks & Gimpel 2016, arXiv:1606.08415. */
    void (*gelu_tanh)(float *x, size_t n);

    /* gate = SiLU(gate)·up in place: SwiGLU's middle. Shazeer 2020, arXiv:2002.05202. */
    void (*silu_mul)(float *gate, const float *up, size_t n);
} Kernels;

/* The sets; those that the compiler is too old for have no name. Which of them this CPU runs, kernels_pick tells. */
extern const Kernels kernels_scalar;
#if defined(__x86_64__)
extern const Kernels kernels_avx2, kernels_avx2_int8, kernels_avxvnni_int8, kernels_avx512,
    kernels_avx512_int8, kernels_avx512_int8_bf16, kernels_avx512_int8_amx;
#elif defined(__aarch64__)
extern const Kernels kernels_neon, kernels_neondot, kernels_neondot_int8;
#endif

/*
 * The set called `name`, or, when name is NULL or empty, the fastest that this CPU runs and that rounds nothing
 * to 8 bits: its logits are the same, whichever way a text is fed, but for 1e-5 of their span.
 * NULL with an error for an unknown name, or one that this CPU cannot run.
 */
const Kernels *kernels_pick(const char *name, Error *error);

/*
 * The fastest of all: with AVX2 prompts of Q4_0 go 1.7 times as fast, with AMX 3.5 times. It changes a text's
 * perplexity by 0.05 %, but single logits by up to 1e-2 of their span: for generating text, not for comparing two runs.
 */
const Kernels *kernels_fastest(void);

/*
 * Room for [rows][cols] floats, not set to anything, beginning at a cache line, so that vectors of whole
 * rows do not straddle two. NULL when memory runs out or the size overflows; free() releases it.
 */
float *floats_new(size_t rows, size_t cols);

/* What every room that computes is handed: the instruction set, the pool, and scratch. Borrowed. */
typedef struct Compute {
    const Kernels *kernels;
    Threads *threads;
    float *packed;   /* what linear_forward packs activations in; from floats_new */
    size_t n_packed; /* floats: enough for one token, better for a whole chunk */
} Compute;

/* One output of a pass over x: y [n][linear->w.rows], contiguous. */
typedef struct LinearOutput {
    float *y;
    const Linear *linear;
} LinearOutput;

/*
 * outputs[i].y[t] = outputs[i].linear (x[t]) for every i < n_outputs and t < n, as one parallel loop
 * over all rows of all outputs, so that q, k and v (or gate and up) share one packed x and one barrier.
 * x is [n][cols] contiguous, and all outputs share its cols ≤ compute->n_packed.
 */
void linear_forward(const Compute *compute, const LinearOutput *outputs, size_t n_outputs, const float *x,
                    size_t n);

#endif
