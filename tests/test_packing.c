/*
 * Blocks out of floats: exact where the weights lie on a type's grid, near elsewhere, the same on every CPU, and refused
 * where there is no such number. What is written is read by dtype_unpack, which other tests hold against ggml's.
 */
#include "packing/pack.h"
#include "packing/sums.h"
#include "test.h"

#include "kernels/blocks.h"
#include "kernels/cpu.h"

#include <float.h>
#include <math.h>

static const DType types[] = {
    DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1,   DTYPE_Q8_0,   DTYPE_Q2_K,  DTYPE_Q3_K,
    DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_IQ4_NL, DTYPE_IQ4_XS, DTYPE_MXFP4,
};
enum { N_TYPES = sizeof types / sizeof *types, N_RANDOM = 1 << 15 };

/* Whole numbers below n; Marsaglia 2003, "Xorshift RNGs". */
static uint64_t state = 88172645463325252u;
static unsigned random_below(unsigned n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % n;
}

/* Nearly a normal distribution: the sum of twelve uniform numbers; exact in a float. */
static float random_normal(void) {
    unsigned sum = 0;
    for (int i = 0; i < 12; i++) sum += random_below(4096);
    return ((float)sum - 24570) / 4096;
}

static bool pack(unsigned char *bytes, DType dtype, const float *x, size_t n) {
    return pack_row(bytes, dtype, x, n, sum_tries_fastest());
}

/* The squared error of x as a share of its squares. */
static double error_of(DType dtype, const float *x) {
    static unsigned char bytes[N_RANDOM * 4];
    static float y[N_RANDOM];
    double wrong = 0, all = 0;
    CHECK(pack(bytes, dtype, x, N_RANDOM), "%s", dtype_info(dtype)->name);
    dtype_unpack(y, dtype, bytes, N_RANDOM);
    for (size_t i = 0; i < N_RANDOM; i++) {
        wrong += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        all += (double)x[i] * x[i];
    }
    return wrong / all;
}

/*
 * Of the same weights, what ggml_quantize_chunk of llama.cpp (0.5.0, September 2026) makes without an importance matrix errs
 * by this much, normal ones and their cubes (a few large ones among many small).
 */
static const struct {
    DType dtype;
    double normal, cubes;
} of_ggml[] = {
    {DTYPE_Q4_0, 7.1207e-3, 1.2133e-2},   {DTYPE_Q4_1, 6.0476e-3, 1.2782e-2},
    {DTYPE_Q5_0, 1.7821e-3, 3.5814e-3},   {DTYPE_Q5_1, 1.4195e-3, 3.0412e-3},
    {DTYPE_Q8_0, 2.7668e-5, 7.4159e-5},   {DTYPE_Q2_K, 8.6594e-2, 1.5956e-1},
    {DTYPE_Q3_K, 2.2282e-2, 2.4217e-2},   {DTYPE_Q4_K, 4.9986e-3, 8.0852e-3},
    {DTYPE_Q5_K, 1.2799e-3, 2.4731e-3},   {DTYPE_Q6_K, 3.0539e-4, 5.9596e-4},
    {DTYPE_IQ4_NL, 5.6570e-3, 8.3699e-3}, {DTYPE_IQ4_XS, 5.7440e-3, 8.6051e-3},
    {DTYPE_MXFP4, 1.3193e-2, 1.9502e-2},
};

static void test_errors(void) {
    static float x[N_RANDOM];
    for (size_t i = 0; i < N_RANDOM; i++) x[i] = random_normal();
    for (size_t i = 0; i < sizeof of_ggml / sizeof *of_ggml; i++) {
        double error = error_of(of_ggml[i].dtype, x);
        CHECK(error <= of_ggml[i].normal, "%s: %.5e of normal weights", dtype_info(of_ggml[i].dtype)->name,
              error);
    }
    for (size_t i = 0; i < N_RANDOM; i++) x[i] *= x[i] * x[i];
    for (size_t i = 0; i < sizeof of_ggml / sizeof *of_ggml; i++) {
        double error = error_of(of_ggml[i].dtype, x);
        CHECK(error <= of_ggml[i].cubes, "%s: %.5e of their cubes", dtype_info(of_ggml[i].dtype)->name,
              error);
    }
}

/*
 * A large block's spans, or a small block, on the grid of a type: every span has the first and the last level and, where
 * there are several, one has the largest scale and minimum. Then no other scale leaves less than nothing to be desired.
 */
static void make_on_grid(float *x, DType dtype) {
    static const struct {
        DType dtype;
        int lowest, highest, end, largest_min; /* levels, a span's scale */
    } grids[] = {
        {DTYPE_Q4_0, -8, 7, 1, 0},      {DTYPE_Q4_1, 0, 15, 1, 1},     {DTYPE_Q5_0, -16, 15, 1, 0},
        {DTYPE_Q5_1, 0, 31, 1, 1},      {DTYPE_Q8_0, -127, 127, 1, 0}, {DTYPE_Q2_K, 0, 3, 15, 15},
        {DTYPE_Q3_K, -4, 3, -32, 0},    {DTYPE_Q4_K, 0, 15, 63, 63},   {DTYPE_Q5_K, 0, 31, 63, 63},
        {DTYPE_Q6_K, -32, 31, -128, 0}, {DTYPE_IQ4_NL, 0, 15, 1, 0},   {DTYPE_IQ4_XS, 0, 15, -32, 0},
        {DTYPE_MXFP4, 0, 15, 1, 0},
    };
    static const float iq4[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
                       e2m1[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6};
    const float *table = dtype == DTYPE_IQ4_NL || dtype == DTYPE_IQ4_XS ? iq4
                         : dtype == DTYPE_MXFP4                         ? e2m1
                                                                        : NULL;
    size_t length = span_of(dtype), n = dtype_info(dtype)->block / length, k = 0;
    const float d = 0x1p-9f, d_min = n > 1 ? 0x1p-8f : -0.625f; /* halves */
    while (grids[k].dtype != dtype) k++;
    for (size_t j = 0; j < n; j++) {
        int scale = j == 0 || n == 1 ? grids[k].end : (int)random_below((unsigned)abs(grids[k].end)) + 1;
        int min =
            j == 1 || n == 1 ? grids[k].largest_min : (int)random_below((unsigned)grids[k].largest_min + 1);
        if (grids[k].end < 0 && j > 0 && random_below(2)) scale = -scale;
        if (grids[k].end < 0 && j > 0 && scale > 0) scale = scale == -grids[k].end ? scale - 1 : scale;
        for (size_t i = 0; i < length; i++) {
            unsigned range = (unsigned)(grids[k].highest - grids[k].lowest);
            int level = grids[k].lowest + (int)(i == 0 ? 0 : i == 1 ? range : random_below(range + 1));
            float value = table ? table[i == 0 && dtype == DTYPE_MXFP4 ? 7 : level] : (float)level;
            x[j * length + i] = d * (float)scale * value - d_min * (float)min;
        }
    }
}

static void test_grid(void) {
    for (size_t i = 0; i < N_TYPES; i++)
        for (int round = 0; round < 50; round++) {
            float x[256], y[256];
            unsigned char bytes[512];
            size_t n = dtype_info(types[i])->block, wrong = 0;
            make_on_grid(x, types[i]);
            CHECK(pack(bytes, types[i], x, n), "%s", dtype_info(types[i])->name);
            dtype_unpack(y, types[i], bytes, n);
            for (size_t k = 0; k < n; k++) wrong += x[k] != y[k];
            CHECK(wrong == 0, "%s: %zu of %zu weights of its own are others afterwards",
                  dtype_info(types[i])->name, wrong, n);
        }
}

/* A block is packed as if it were alone, by the plain sums as by a set's. */
static void test_same_everywhere(void) {
    enum { N = 4096 };
    static float x[N];
    static unsigned char bytes[N * 4], others[N * 4];
    for (size_t i = 0; i < N; i++) x[i] = random_normal() * (i % 7 ? 1 : 9) + (i / 512 % 3 == 1 ? 2 : 0);
    for (size_t i = 0; i < N_TYPES; i++) {
        const DTypeInfo *info = dtype_info(types[i]);
        size_t n_bytes = dtype_bytes(types[i], N);
        CHECK(pack_row(bytes, types[i], x, N, sum_tries), "%s", info->name);
        for (size_t at = 0; at < N; at += info->block)
            pack_row(others + dtype_bytes(types[i], at), types[i], x + at, info->block, sum_tries);
        CHECK(memcmp(bytes, others, n_bytes) == 0, "%s: blocks depend on their neighbours", info->name);
#if defined(__x86_64__)
        if (!cpu_has_avx2()) continue;
        pack_row(others, types[i], x, N, sum_tries_avx2);
        CHECK(memcmp(bytes, others, n_bytes) == 0, "%s: AVX2 writes another file", info->name);
#endif
    }
}

/* Blocks of one value. */
static void test_constant(void) {
    static const float values[] = {0, -0.f, 1, -1, 0.3f, -300, 1e-20f, -1e-20f, FLT_MIN / 8};
    for (size_t i = 0; i < N_TYPES; i++)
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            float x[256], y[256], allowed = types[i] == DTYPE_MXFP4 ? 0.2f : 3e-3f;
            unsigned char bytes[512];
            size_t n = dtype_info(types[i])->block, wrong = 0;
            for (size_t c = 0; c < n; c++) x[c] = values[k];
            CHECK(pack(bytes, types[i], x, n), "%s", dtype_info(types[i])->name);
            dtype_unpack(y, types[i], bytes, n);
            for (size_t c = 0; c < n; c++) wrong += !(fabsf(y[c] - x[c]) <= allowed * fabsf(x[c]) + 1e-12f);
            CHECK(wrong == 0, "%s: %zu weights of %g; the first becomes %g", dtype_info(types[i])->name,
                  wrong, (double)values[k], (double)y[0]);
        }
}

static void test_refusals(void) {
    static const float too_large[] = {INFINITY, -INFINITY, NAN, 1e9f, -FLT_MAX};
    float x[256] = {0}, y[256];
    unsigned char bytes[1024];
    for (size_t i = 0; i < N_TYPES; i++)
        for (size_t k = 0; k < sizeof too_large / sizeof *too_large; k++) {
            x[31] = too_large[k];
            CHECK(!pack(bytes, types[i], x, dtype_info(types[i])->block), "%s packs %g",
                  dtype_info(types[i])->name, (double)too_large[k]);
        }
    static const struct {
        DType dtype;
        float largest, above; /* that the scales, of F16, surely reach; that none does */
    } limits[] = {
        {DTYPE_F16, 65504, 65520},  {DTYPE_BF16, 3.3895314e38f, 3.4e38f}, {DTYPE_Q8_0, 8.3e6f, 8.4e6f},
        {DTYPE_Q4_0, 4e5f, 6e5f},   {DTYPE_Q4_1, 9e5f, 1.1e6f},           {DTYPE_Q4_K, 5e7f, 7e7f},
        {DTYPE_Q6_K, 2.5e8f, 3e8f},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        DType dtype = limits[i].dtype;
        x[31] = limits[i].largest;
        CHECK(pack(bytes, dtype, x, 256), "%s: %g", dtype_info(dtype)->name, (double)x[31]);
        dtype_unpack(y, dtype, bytes, 256);
        CHECK_NEAR(y[31], x[31], 0.02 * (double)x[31]);
        x[31] = limits[i].above;
        CHECK(!pack(bytes, dtype, x, 256), "%s: %g", dtype_info(dtype)->name, (double)x[31]);
    }
}

/*
 * Weights of any size among small ones, so that scales, minima and sums of the search overflow, or come near: what is not
 * refused is near afterwards. (Where scales end, minima are coarse.)
 */
static void test_sizes(void) {
    for (size_t i = 0; i < N_TYPES; i++)
        for (int round = 0; round < 3000; round++) {
            float x[256], y[256];
            unsigned char bytes[512];
            const float large = ldexpf(1, 10 + (int)random_below(60));
            const unsigned every = 1 + random_below(6), first = random_below(8) * 32;
            double wrong = 0, all = 0;
            size_t n = dtype_info(types[i])->block;
            for (size_t k = 0; k < n; k++) x[k] = random_normal();
            for (size_t k = first % n; k < n && k < first % n + 32; k += every) x[k] *= large;
            if (!pack(bytes, types[i], x, n)) continue;
            dtype_unpack(y, types[i], bytes, n);
            for (size_t k = 0; k < n; k++) {
                wrong += ((double)x[k] - y[k]) * ((double)x[k] - y[k]);
                all += (double)x[k] * x[k];
            }
            CHECK(wrong <= 0.2 * all, "%s: weights up to %g are off by %g of their squares",
                  dtype_info(types[i])->name, (double)large, wrong / all);
        }
}

/* F16 and BF16 round to the nearest, halves to even; F32 stays. */
static void test_floats(void) {
    static const struct {
        DType dtype;
        float from, to;
    } cases[] = {
        {DTYPE_F32, 0.1f, 0.1f},
        {DTYPE_F16, 1 + 0x1p-11f, 1},
        {DTYPE_F16, 1 + 0x3p-11f, 1 + 0x4p-11f},
        {DTYPE_F16, -0x1p-25f, 0},
        {DTYPE_F16, 0x1.8p-24f, 0x2p-24f},
        {DTYPE_BF16, 1 + 0x1p-8f, 1},
        {DTYPE_BF16, 1 + 0x3p-8f, 1 + 0x4p-8f},
        {DTYPE_BF16, -1 - 0x1.01p-8f, -1 - 0x2p-8f},
        {DTYPE_BF16, 0x1p-133f, 0x1p-133f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float y;
        unsigned char bytes[4];
        CHECK(pack(bytes, cases[i].dtype, &cases[i].from, 1), "%zu", i);
        dtype_unpack(&y, cases[i].dtype, bytes, 1);
        CHECK(y == cases[i].to, "%a becomes %a", (double)cases[i].from, (double)y);
    }
}

/* Of weights so small that halves have few bits left, or none, for their scale. */
static void test_small_weights(void) {
    static float x[N_RANDOM];
    static double plain[N_TYPES];
    for (int exponent = 0; exponent <= 18; exponent += 3) {
        state = 88172645463325252u;
        for (size_t i = 0; i < N_RANDOM; i++) x[i] = ldexpf(random_normal(), -exponent);
        for (size_t t = 0; t < N_TYPES; t++) {
            const double error = sqrt(error_of(types[t], x));
            if (exponent == 0) plain[t] = error;
            CHECK(error < 1.5 * plain[t] + 0.01, "%s: 2^-%d, %g, and else %g", dtype_info(types[t])->name,
                  exponent, error, plain[t]);
        }
    }
}

int main(void) {
    RUN(test_errors);
    RUN(test_grid);
    RUN(test_same_everywhere);
    RUN(test_constant);
    RUN(test_refusals);
    RUN(test_sizes);
    RUN(test_floats);
    RUN(test_small_weights);
    return test_end();
}
