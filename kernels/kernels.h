/*
 * The arithmetic of the engine behind one table of functions, one table for each instruction set. scalar.c is the one
 * in plain C. All of them, that one too, are tested against closed formulas in double. Nothing here knows what a layer
 * is.
 */
#ifndef ATTN_KERNELS_H
#define ATTN_KERNELS_H

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "dtype.h"

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

/* The roundings of a product, beyond those of each operation on floats. All 0: there are none. */
typedef struct Rounding {
    /*
     * x is rounded by blocks of 32 columns, to whole multiples of max |x| / largest_q: 127 makes that 8 bits, 32767 makes
     * it 16. Each x errs by up to half of such a step. 0: it is not.
     */
    int largest_q;

    /*
     * x, or w, is rounded to a sum of so many BF16, which have 8 bits each. It errs by up to 2^-8 of itself with one. If
     * both have two, w·x errs by up to 3·2^-16. Numbers smaller than 2^-110 err by more, and from 2^128 − 2^119 on they
     * become infinite. 0: it is not.
     */
    int x_bf16, w_bf16;
} Rounding;

/*
 * One way to multiply weights of a type: y[t][r] = bias[r] + Σ_c w[r][c]·x[t][c]. Rows may be dealt
 * to threads. The order of each sum depends on w's shape alone, never on n or on which rows are done together.
 */
typedef struct Product {
    size_t pack_tokens;              /* tokens that one call of pack packs */
    size_t whole_cols;               /* cols must be a multiple of this; 0: any number will do */
    const struct Product *otherwise; /* what is taken where they are not */
    Rounding rounding;

    /*
     * Lays activations as multiply by weights of a type wants them: x [n][cols], contiguous, to packed, which has room
     * for packed_floats(n, cols). Call i < ⌈n / pack_tokens⌉ packs the tokens [pack_tokens·i, min(n, pack_tokens·(i + 1)))
     * and touches no others.
     */
    void (*pack)(void *packed, DType dtype, const float *x, size_t n, size_t cols, size_t i);

    /*
     * Rows [begin, end) for the n tokens that were packed together. Rows of y lie y_stride floats apart; bias may be
     * NULL. Needs up to 512 KB of stack.
     */
    void (*multiply)(float *y, size_t y_stride, const Matrix *w, const float *bias, size_t begin, size_t end,
                     const void *packed, size_t n);
} Product;

enum { PACKED_TOKENS = 16 }; /* a product may take so many at a time, and fill up with zeros */

static inline size_t packed_floats(size_t n, size_t cols) {
    return (n + PACKED_TOKENS - 1) / PACKED_TOKENS * PACKED_TOKENS * cols;
}

/*
 * How weights of one type are multiplied: by the first way that takes so many tokens. All ways give a token's numbers
 * the same bits, whatever comes with it; but the last way of a set for tiles, which PACKED_TOKENS tokens do not take.
 */
typedef struct Products {
    struct {
        size_t tokens; /* at most: those that were measured to be fastest that way */
        const Product *product;
    } ways[4]; /* to the first whose tokens are SIZE_MAX */
} Products;

enum { MAX_WAYS = sizeof(Products) / sizeof(((Products *)0)->ways[0]) };

typedef struct Kernels {
    const char *name;        /* what kernels_pick chooses by: "avx2" */
    bool (*runs_here)(void); /* whether this CPU and its system run the set; NULL: this build lacks it */
    bool (*pays_here)(void); /* whether it is faster here than the sets before it; NULL: wherever it runs */

    Products products[DTYPE_LIMIT]; /* [dtype of the weights] */

    /*
     * weighted_sums may split p and v into so many BF16, with errors of up to 3·2^-15 of each product; with one, which F32 is
     * spared, up to 2^-8. 0: it does not.
     */
    int sums_bf16;

    /* Where that is 1: the same set, but for attention in floats; NULL elsewhere. */
    const struct Kernels *float_attention;

    /* dst[i] = src[i] as float, i in [0, n), n a multiple of the dtype's block. */
    void (*unpack)(float *dst, DType dtype, const void *src, size_t n);

    /* dst[i] = src[i] as binary16, rounded to nearest even. */
    void (*pack_f16)(uint16_t *dst, const float *src, size_t n);

    /* y[i] += x[i]. */
    void (*add)(float *y, const float *x, size_t n);

    /* y[r][c] += a[c]·x[r][c], r < rows and c < cols, all contiguous. */
    void (*add_scaled)(float *y, const float *x, const float *a, size_t rows, size_t cols);

    /* y[r][c] = fade·y[r][c] + a[r]·x[c], r < rows and c < cols. */
    void (*fade_add)(float *y, float fade, const float *a, const float *x, size_t rows, size_t cols);

    /* y[i] *= a. */
    void (*scale)(float *y, float a, size_t n);

    /*
     * n weighted sums of the same vectors: z[t][i] += Σ_j p[t][j]·v[j][i] for t < n, j < n_v, i < d, one j after
     * another. That is what attention does twice: its values weighted by the pattern, and its scores, where p is
     * queries and v[j] is dimension j of d keys. v is F32, F16 or I8; its rows lie
     * v_stride numbers apart, those of z and p z_stride and p_stride floats.
     */
    void (*weighted_sums)(float *z, size_t z_stride, const float *p, size_t p_stride, size_t n, DType dtype,
                          const void *v, size_t v_stride, size_t n_v, size_t d);

    /* The same for up to PACKED_TOKENS tokens, where weighted_sums gives a row other bits in other company; or NULL. */
    void (*few_sums)(float *z, size_t z_stride, const float *p, size_t p_stride, size_t n, DType dtype,
                     const void *v, size_t v_stride, size_t n_v, size_t d);

    /* max_i x[i]; n ≥ 1. NaN may be passed over. */
    float (*max)(const float *x, size_t n);

    /* x[i] = exp(x[i] − max) in place; returns their sum. exp(−inf) is 0; x[i] ≤ max expected. */
    float (*exp_sum)(float *x, float max, size_t n);

    /*
     * A step of a running softmax, over n ≥ 1 scores more: *max becomes the largest of them and itself, x[i] becomes
     * exp(x[i] − *max), to 2^-15 of itself, and *sum, shrunk as the maximum has grown, gains what they add up to. Returns by how
     * much it shrank: exp(old max − new max). NULL: max, exp_sum and scale have to do.
     */
    float (*softmax_step)(float *x, size_t n, float *max, float *sum);

    /* y = (x − mean)/√(var + eps)·gain + bias; bias may be NULL. Ba et al. 2016, arXiv:1607.06450. */
    void (*layer_norm)(float *y, const float *x, const float *gain, const float *bias, size_t n, float eps);

    /* y = x/√(mean x² + eps)·gain. Zhang & Sennrich 2019, arXiv:1910.07467. */
    void (*rms_norm)(float *y, const float *x, const float *gain, size_t n, float eps);

    /*
     * x = GELU(x) by the tanh formula of GPT-2, in place, off by up to 2^-22·|x|; −∞ becomes NaN. Hendrycks & Gimpel 2016,
     * arXiv:1606.08415.
     */
    void (*gelu_tanh)(float *x, size_t n);

    /* x = ½·x·(1 + erf(x/√2)), GELU as it was defined there, in place, off by up to 2^-21·|x|; −∞ becomes NaN. */
    void (*gelu_erf)(float *x, size_t n);

    /* x = cap·tanh(x/cap) in place, off by up to 2^-21 of itself: it may be beyond the cap by as much. */
    void (*soft_cap)(float *x, float cap, size_t n);

    /* gate = SiLU(gate)·up in place: SwiGLU's middle. Shazeer 2020, arXiv:2002.05202. */
    void (*silu_mul)(float *gate, const float *up, size_t n);
} Kernels;

/* A row of a matrix as floats: to [cols]. */
static inline void matrix_row(const Kernels *kernels, const Matrix *matrix, size_t row, float *to) {
    const char *rows = matrix->data;
    kernels->unpack(to, matrix->dtype, rows + row * dtype_bytes(matrix->dtype, matrix->cols), matrix->cols);
}

/* Set i, from the slowest, which is plain C, to the fastest, whether or not this CPU runs it; NULL beyond the last. */
const Kernels *kernels_set(size_t i);

/* The function that multiplies n tokens of so many columns by weights of a type. */
const Product *kernels_product(const Kernels *kernels, DType dtype, size_t n, size_t cols);

/*
 * Tokens that may go through a pass together, at most, so that each gets the bits that it gets alone: any number, but of sets
 * with a way for tiles PACKED_TOKENS.
 */
size_t kernels_company(const Kernels *kernels);

/*
 * The set for attention behind weights, and over a cache, of these types, where so many queries of a token share a key. It is the
 * set itself, unless its attention rounds to BF16 what its products with such weights, or the cache, have not rounded so far, or
 * packs keys in pairs for so few queries that a lone token takes longer by it: then one whose attention is in floats.
 */
const Kernels *kernels_attention(const Kernels *kernels, DType weights, DType cache, size_t n_queries);

/*
 * The set called `name`. When name is NULL or empty, the fastest that this CPU runs and that rounds nothing to 8 bits. Its
 * logits are those of float64 but for 2e-5 of their span, or 5e-4 where weights are quantised; whoever watches heads, or
 * compares two such sets, sees as much. How a text is fed, whole or token by token, changes no bit.
 * NULL with an error for an unknown name, or for a set that this CPU cannot run.
 */
const Kernels *kernels_pick(const char *name, Error *error);

/*
 * The fastest of all: with AVX2 prompts of Q4_0 go 1.7 times as fast, with AMX 3.5 times. It changes a text's
 * perplexity by 0.13 % at most, but single logits by 1e-2 of their span, in models of few columns by up to 1e-1; and whoever
 * watches heads moves them by up to 1.5e-2. For generating text, not for comparing two runs.
 */
const Kernels *kernels_fastest(void);

/* Every room that computes is handed this: the instruction set, the pool, and scratch. Borrowed. */
typedef struct Compute {
    const Kernels *kernels;
    Threads *threads;
    float *packed;   /* what linear_forward packs activations in; from floats_new */
    size_t n_packed; /* floats: packed_floats of one token at least, better of a whole chunk */
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
