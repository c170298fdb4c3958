/*
 * The table of sets, slowest to fastest, one line each; and what their files share. A file of a set defines
 * `const Kernels kernels_NAME`. One that its compiler is too old for, or that is for another kind of CPU, may have
 * nothing but a name.
 */
#ifndef ATTN_SETS_H
#define ATTN_SETS_H

#include "kernels.h"

#if defined(__x86_64__)
#define KERNEL_SETS(SET)                                                                                     \
    SET(scalar)                                                                                              \
    SET(avx2)                                                                                                \
    SET(avx2_int8)                                                                                           \
    SET(avxvnni_int8)                                                                                        \
    SET(avx512)                                                                                              \
    SET(avx512_int8)                                                                                         \
    SET(avx512_int8_bf16)                                                                                    \
    SET(avx512_int8_amx)
#elif defined(__aarch64__)
#define KERNEL_SETS(SET)                                                                                     \
    SET(scalar)                                                                                              \
    SET(neon)                                                                                                \
    SET(neondot)                                                                                             \
    SET(neondot_int8)
#elif defined(__wasm__)
#define KERNEL_SETS(SET)                                                                                     \
    SET(scalar)                                                                                              \
    SET(wasm)
#else
#define KERNEL_SETS(SET) SET(scalar)
#endif

#define DECLARE_SET(name) extern const Kernels kernels_##name;
KERNEL_SETS(DECLARE_SET)

/* The code that sets on the same lanes share, compiled once: the kernels of vectors.h and the products of floats. */
#define DECLARE_SHARED(lanes)                                                                                \
    void lanes##_unpack(float *dst, DType dtype, const void *src, size_t n);                                 \
    void lanes##_pack_f16(uint16_t *dst, const float *src, size_t n);                                        \
    void lanes##_add(float *restrict y, const float *restrict x, size_t n);                                  \
    void lanes##_add_scaled(float *restrict y, const float *restrict x, const float *restrict a,             \
                            size_t rows, size_t cols);                                                       \
    void lanes##_fade_add(float *restrict y, float fade, const float *restrict a, const float *restrict x,   \
                          size_t rows, size_t cols);                                                         \
    void lanes##_scale(float *y, float a, size_t n);                                                         \
    void lanes##_weighted_sums(float *z, size_t z_stride, const float *p, size_t p_stride, size_t n,         \
                               DType dtype, const void *v, size_t v_stride, size_t n_v, size_t d);           \
    float lanes##_max(const float *x, size_t n);                                                             \
    float lanes##_exp_sum(float *x, float max, size_t n);                                                    \
    void lanes##_layer_norm(float *y, const float *x, const float *gain, const float *bias, size_t n,        \
                            float eps);                                                                      \
    void lanes##_rms_norm(float *y, const float *x, const float *gain, size_t n, float eps);                 \
    void lanes##_gelu_tanh(float *x, size_t n);                                                              \
    void lanes##_gelu_erf(float *x, size_t n);                                                               \
    void lanes##_soft_cap(float *x, float cap, size_t n);                                                    \
    void lanes##_silu_mul(float *gate, const float *up, size_t n);                                           \
    extern const Product lanes##_matvec_floats, lanes##_matmul_floats;

/* The entries of a set's table that it takes from there, but for weighted_sums. */
#define SHARED_KERNELS(lanes)                                                                                \
    .unpack = lanes##_unpack, .pack_f16 = lanes##_pack_f16, .add = lanes##_add,                              \
    .add_scaled = lanes##_add_scaled, .fade_add = lanes##_fade_add, .scale = lanes##_scale,                  \
    .max = lanes##_max, .exp_sum = lanes##_exp_sum, .layer_norm = lanes##_layer_norm,                        \
    .rms_norm = lanes##_rms_norm, .gelu_tanh = lanes##_gelu_tanh, .gelu_erf = lanes##_gelu_erf,              \
    .soft_cap = lanes##_soft_cap, .silu_mul = lanes##_silu_mul

/* The products of such a set. */
#define FLOAT_WAYS(lanes)                                                                                    \
    {                                                                                                        \
        {                                                                                                    \
            {FEW_FLOATS, &lanes##_matvec_floats}, { SIZE_MAX, &lanes##_matmul_floats }                       \
        }                                                                                                    \
    }
#define SHARED_PRODUCTS(lanes)                                                                               \
    [DTYPE_F32] = FLOAT_WAYS(lanes), [DTYPE_F16] = FLOAT_WAYS(lanes), [DTYPE_BF16] = FLOAT_WAYS(lanes)

/* The products of quantised weights: those whose q are below 16, below 64, and the others. Up to `lone` tokens go one by one,
   up to `some` are few; `many` multiplies prompts. */
#if defined(__wasm__) /* four tokens are a vector of a tile there, as they are of a quad elsewhere */
#define INT_WAYS(lanes, name, lone, some, many)                                                              \
    {                                                                                                        \
        {                                                                                                    \
            {lone, &lanes##_matvec_##name}, { SIZE_MAX, &many }                                              \
        }                                                                                                    \
    }
#else
#define INT_WAYS(lanes, name, lone, some, many)                                                              \
    {                                                                                                        \
        {                                                                                                    \
            {lone, &lanes##_matvec_##name}, {some, &lanes##_few_##name}, { SIZE_MAX, &many }                 \
        }                                                                                                    \
    }
#endif
#define NIBBLE_PRODUCTS(...)                                                                                 \
    [DTYPE_Q4_0] = INT_WAYS(__VA_ARGS__), [DTYPE_Q4_1] = INT_WAYS(__VA_ARGS__),                              \
    [DTYPE_Q2_K] = INT_WAYS(__VA_ARGS__), [DTYPE_Q3_K] = INT_WAYS(__VA_ARGS__),                              \
    [DTYPE_Q4_K] = INT_WAYS(__VA_ARGS__)
#define SIX_BIT_PRODUCTS(...)                                                                                \
    [DTYPE_Q5_0] = INT_WAYS(__VA_ARGS__), [DTYPE_Q5_1] = INT_WAYS(__VA_ARGS__),                              \
    [DTYPE_Q5_K] = INT_WAYS(__VA_ARGS__), [DTYPE_Q6_K] = INT_WAYS(__VA_ARGS__),                              \
    [DTYPE_MXFP4] = INT_WAYS(__VA_ARGS__)
#define BYTE_PRODUCTS(...)                                                                                   \
    [DTYPE_Q8_0] = INT_WAYS(__VA_ARGS__), [DTYPE_IQ4_NL] = INT_WAYS(__VA_ARGS__),                            \
    [DTYPE_IQ4_XS] = INT_WAYS(__VA_ARGS__)
#define QUANTISED_PRODUCTS(...)                                                                              \
    NIBBLE_PRODUCTS(__VA_ARGS__), SIX_BIT_PRODUCTS(__VA_ARGS__), BYTE_PRODUCTS(__VA_ARGS__)

/* How many tokens go through matvec, and through few: those that were measured to be faster that way. By q of two bytes, two
   tokens of AVX2 one by one take less time than a stack, which would be four. */
enum { FEW_FLOATS = 8, LONE_INTS = 1, LONE_WORDS = 2, SOME_INTS = PACKED_TOKENS };

#if defined(__x86_64__)
DECLARE_SHARED(avx2)
DECLARE_SHARED(avx512)
extern const Product avx2_matvec_words, avx2_few_words, avx2_matmul_words;       /* by x of 16 bits */
extern const Product avx512_matvec_bytes, avx512_few_bytes, avx512_matmul_bytes; /* by VNNI */
#elif defined(__aarch64__)
DECLARE_SHARED(neon)
#elif defined(__wasm__)
DECLARE_SHARED(wasm)
#endif

#endif
