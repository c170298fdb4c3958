/*
 * Every kernel set that this CPU runs, but for its products (test_products.c) and formats (test_dtypes.c), compared with
 * formulas in double that are written here once more. Sizes are odd on purpose.
 */
#include "tests/weights.h"

static void test_add_scale(void) {
    float x[70], y[70], z[71];
    for (size_t n = 0; n <= 70; n++) {
        random_floats(x, n);
        random_floats(y, n);
        for (size_t s = 0; s < n_sets; s++) {
            z[n] = 7;
            memcpy(z, y, n * sizeof *z);
            sets[s]->add(z, x, n);
            for (size_t i = 0; i < n; i++)
                CHECK(same_bits(z[i], y[i] + x[i]), "%s, %zu of %zu", sets[s]->name, i, n);
            sets[s]->scale(z, 0.3f, n);
            for (size_t i = 0; i < n; i++)
                CHECK(same_bits(z[i], (y[i] + x[i]) * 0.3f), "%s, %zu of %zu", sets[s]->name, i, n);
            CHECK(z[n] == 7, "%s writes past %zu", sets[s]->name, n);
        }
    }
}

static void test_add_scaled(void) {
    enum { ROWS = 3, COLS = 70 };
    float x[ROWS * COLS], y[ROWS * COLS], z[ROWS * COLS + 1], a[COLS];
    for (size_t n = 0; n <= COLS; n++) {
        random_floats(x, ROWS * n);
        random_floats(y, ROWS * n);
        random_floats(a, n);
        for (size_t s = 0; s < n_sets; s++) {
            z[ROWS * n] = 7;
            memcpy(z, y, ROWS * n * sizeof *z);
            sets[s]->add_scaled(z, x, a, ROWS, n);
            for (size_t i = 0; i < ROWS * n; i++)
                CHECK(same_bits(z[i], y[i] + a[i % n] * x[i]), "%s, %zu of %zu", sets[s]->name, i, n);
            CHECK(z[ROWS * n] == 7, "%s writes past %zu", sets[s]->name, n);
        }
    }
}

static void test_fade_add(void) {
    enum { ROWS = 3, COLS = 70 };
    float x[COLS], y[ROWS * COLS], z[ROWS * COLS + 1], a[ROWS];
    for (size_t n = 0; n <= COLS; n++) {
        random_floats(x, n);
        random_floats(y, ROWS * n);
        random_floats(a, ROWS);
        for (size_t s = 0; s < n_sets; s++) {
            z[ROWS * n] = 7;
            memcpy(z, y, ROWS * n * sizeof *z);
            sets[s]->fade_add(z, 0.75f, a, x, ROWS, n);
            for (size_t i = 0; i < ROWS * n; i++)
                CHECK(same_bits(z[i], 0.75f * y[i] + a[i / n] * x[i % n]), "%s, %zu of %zu", sets[s]->name, i,
                      n);
            CHECK(z[ROWS * n] == 7, "%s writes past %zu", sets[s]->name, n);
        }
    }
}

/* Number i of what weighted_sums takes. */
static double cached_value(DType dtype, const unsigned char *v, size_t i) {
    return dtype == DTYPE_I8 ? signed_byte(v[i]) : weight_value(dtype, v, i).whole;
}

/* Strides are larger than they must be, and what lies between the rows stays as it is. */
static void check_weighted_sums(const Kernels *set, DType dtype, size_t n, size_t n_v, size_t d) {
    size_t z_stride = d + 3, p_stride = n_v + 1, v_stride = d + 2;
    bool split = set->sums_bf16 == 2 && n >= 16 && d % 16 == 0;              /* amx_sums.h */
    bool rounded = set->sums_bf16 == 1 && dtype != DTYPE_F32 && d % 16 == 0; /* bf16_sums.h */
    float *p = allocate(n * p_stride * sizeof *p), *start = allocate(n * z_stride * sizeof *start);
    float *z = allocate(n * z_stride * sizeof *z);
    size_t v_bytes = dtype_bytes(dtype, n_v * v_stride);
    unsigned char *v = allocate(v_bytes + 1);
    random_floats(p, n * p_stride);
    for (size_t t = 0; t < n; t++) p[t * p_stride + n_v] = NAN; /* belongs to nobody */
    random_floats(start, n * z_stride);
    if (dtype == DTYPE_I8)
        for (size_t i = 0; i < v_bytes; i++) v[i] = (unsigned char)random_bits();
    else
        random_weights(v, dtype, n_v * v_stride);
    memcpy(z, start, n * z_stride * sizeof *z);
    set->weighted_sums(z, z_stride, p, p_stride, n, dtype, v, v_stride, n_v, d);
    double *values = allocate((n_v * d + 1) * sizeof *values);
    for (size_t j = 0; j < n_v; j++)
        for (size_t i = 0; i < d; i++) values[j * d + i] = cached_value(dtype, v, j * v_stride + i);
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < z_stride; i++) {
            double sum = (double)start[t * z_stride + i], size = fabs(sum);
            for (size_t j = 0; j < n_v && i < d; j++) {
                double term = (double)p[t * p_stride + j] * values[j * d + i];
                sum += term;
                size += fabs(term);
            }
            double tolerance = i < d ? ((double)(split ? 3 : 1) * (double)n_v + 2) * EPS * size : 0;
            if (split && i < d) tolerance += 3 * 0x1p-15 * size;
            if (rounded && i < d) tolerance += 1.01 * 0x1p-8 * size;
            CHECK_NEAR(z[t * z_stride + i], sum, tolerance);
        }
    free(values);
    free(p);
    free(start);
    free(z);
    free(v);
}

static void test_weighted_sums(void) {
    static const DType caches[] = {DTYPE_F32, DTYPE_F16, DTYPE_I8};
    for (size_t s = 0; s < n_sets; s++)
        for (size_t k = 0; k < 3; k++) {
            for (size_t d = 1; d <= 140; d++) check_weighted_sums(sets[s], caches[k], d % 15 + 1, d % 34, d);
            for (size_t n = 1; n <= 70; n++) check_weighted_sums(sets[s], caches[k], n, 64, 64);
            for (size_t n = 15; n <= 80; n += 11) /* whole tiles, parts of them, several blocks */
                for (size_t d = 16; d <= 144; d += 32)
                    check_weighted_sums(sets[s], caches[k], n, n + d / 16, d);
        }
}

/* Scores in steps of 1 to 70: what each has become, and their sum, once shrunk as often as the maximum grew. */
static void check_softmax_steps(const Kernels *set) {
    float x[70 * 70], max = -INFINITY, sum = 0;
    double scores[70 * 70], largest = -INFINITY, whole = 0;
    for (size_t n = 1, at = 0; n <= 70; at += n, n++) {
        double before = largest;
        for (size_t i = 0; i < n; i++) {
            x[at + i] = n % 9 ? 40 * random_float() - 40 : -200 - (float)i; /* e^-200 is 0 */
            scores[at + i] = (double)x[at + i];
            largest = fmax(largest, scores[at + i]);
        }
        float shrink = set->softmax_step(x + at, n, &max, &sum);
        CHECK((double)max == largest, "%s, step %zu: %g is the largest", set->name, n, (double)max);
        CHECK_NEAR(shrink, exp(before - largest), 2 * EPS);
        whole *= exp(before - largest);
        for (size_t i = at; i < at + n; i++) {
            double weight = exp(scores[i] - largest);
            CHECK_NEAR(x[i], weight, 0x1p-15 * weight + 0x1p-140);
            whole += weight;
        }
        CHECK_NEAR(sum, whole, 0x1p-15 * whole);
    }
    x[0] = NAN, x[1] = 0;
    (void)set->softmax_step(x, 2, &max, &sum);
    CHECK(isnan(x[0]) && isnan(sum), "%s: NaN is lost", set->name);
}

static void test_softmax_step(void) {
    for (size_t s = 0; s < n_sets; s++)
        if (sets[s]->softmax_step) check_softmax_steps(sets[s]);
}

/*
 * Attention rounds to BF16 only where weights, or what they are multiplied with, are rounded that much, the cache as well, and
 * where several queries share a key.
 */
static void test_attention_sets(void) {
    for (size_t s = 0; s < n_sets; s++) {
        CHECK(kernels_attention(sets[s], DTYPE_F32, DTYPE_F16, 8)->sums_bf16 != 1, "%s: F32", sets[s]->name);
        CHECK(kernels_attention(sets[s], DTYPE_F16, DTYPE_Q8_0, 8)->sums_bf16 != 1, "%s: F16", sets[s]->name);
        CHECK(kernels_attention(sets[s], DTYPE_Q8_0, DTYPE_F32, 8)->sums_bf16 != 1, "%s: cache",
              sets[s]->name);
        CHECK(kernels_attention(sets[s], DTYPE_Q8_0, DTYPE_F16, 8) == sets[s], "%s: Q8_0", sets[s]->name);
        CHECK(kernels_attention(sets[s], DTYPE_BF16, DTYPE_F16, 8) == sets[s], "%s: BF16", sets[s]->name);
        CHECK(kernels_attention(sets[s], DTYPE_Q8_0, DTYPE_F16, 1)->sums_bf16 != 1, "%s: a query",
              sets[s]->name);
    }
}

static void test_max(void) {
    float x[70];
    for (size_t s = 0; s < n_sets; s++) {
        for (size_t n = 1; n <= 70; n++) {
            for (size_t i = n; i < 70; i++) x[i] = 9; /* beyond the end */
            for (size_t at = 0; at < n; at++) {
                for (size_t i = 0; i < n; i++) x[i] = random_float() - 5;
                x[at] = -1.5f;
                CHECK(sets[s]->max(x, n) == -1.5f, "%s, %zu of %zu", sets[s]->name, at, n);
            }
            for (size_t i = 0; i < n; i++) x[i] = -INFINITY;
            CHECK(sets[s]->max(x, n) == -INFINITY, "%s, %zu", sets[s]->name, n);
            x[n / 2] = NAN;
            (void)sets[s]->max(x, n); /* any answer will do */
        }
    }
}

/* |got − expected| in units of the last place of a float of expected's size, denormal ones included. */
static double ulps(float got, double expected) {
    if ((double)got == expected) return 0;
    int exponent = expected == 0 || ilogb(expected) < -126 ? -126 : ilogb(expected);
    return fabs((double)got - expected) / ldexp(1, exponent - 23);
}

static void test_exp(void) {
    enum { N = 100003 };
    float *x = allocate(N * sizeof *x), *e = allocate(N * sizeof *e);
    for (size_t i = 0; i < N; i++) x[i] = -110.0f * (float)i / N; /* down to where floats end, at −103.97 */
    for (size_t i = 0; i < 1000; i++) x[i] = -ldexpf(1.0f, -(int)i / 6);
    x[1000] = 0;
    x[1001] = -3e38f;
    x[1002] = -INFINITY;
    for (size_t s = 0; s < n_sets; s++) {
        memcpy(e, x, N * sizeof *x);
        double sum = 0, got = (double)sets[s]->exp_sum(e, 0, N);
        for (size_t i = 0; i < N; i++) {
            double expected = exp((double)x[i]);
            CHECK(ulps(e[i], expected) <= 2, "%s: exp(%a) off by %.2f ulp", sets[s]->name, (double)x[i],
                  ulps(e[i], expected));
            sum += (double)e[i];
        }
        CHECK(e[1000] == 1 && e[1001] == 0 && e[1002] == 0, "%s", sets[s]->name);
        CHECK_NEAR(got, sum, (N / 8 + 16) * EPS * sum); /* eight lanes of positive terms */
    }
    free(x);
    free(e);
}

static void test_softmax_rows(void) {
    float x[70], e[71];
    for (size_t s = 0; s < n_sets; s++) {
        for (size_t n = 1; n <= 70; n++) {
            for (size_t i = 0; i < n; i++) x[i] = i % 5 == 3 ? -INFINITY : 500 + 9 * random_float();
            float largest = sets[s]->max(x, n);
            memcpy(e, x, n * sizeof *x);
            e[n] = 7;
            double sum = 0, got = (double)sets[s]->exp_sum(e, largest, n);
            for (size_t i = 0; i < n; i++) {
                double expected = exp((double)x[i] - (double)largest);
                CHECK(ulps(e[i], expected) <= 2, "%s, %zu of %zu", sets[s]->name, i, n);
                sum += expected;
            }
            CHECK_NEAR(got, sum, 16 * EPS * sum);
            CHECK(e[n] == 7, "%s writes past %zu", sets[s]->name, n);
            e[n / 2] = NAN;
            CHECK(isnan(sets[s]->exp_sum(e, 1, n)), "%s loses a NaN of %zu", sets[s]->name, n);
        }
    }
}

/* Half of them up to `largest`, half of them anywhere between 1 and nearly nothing. */
static void mixed_sizes(float *x, size_t n, float largest) {
    random_floats(x, n);
    for (size_t i = 0; i < n; i++) x[i] = i % 2 ? largest * x[i] : ldexpf(x[i], -(int)(i % 120));
}

/* Numbers of all sizes, up to `largest`, and those at the edges; three that are not finite come last. */
static void all_sizes(float *x, size_t n, float largest) {
    static const float edges[] = {0,      -0.0f,   0x1p-149f, -0x1p-149f, 0x1.8p-127f, 1e20f,
                                  -1e20f, 3.4e38f, -3.4e38f,  INFINITY,   -INFINITY,   NAN};
    mixed_sizes(x, n, largest);
    memcpy(x + n - sizeof edges / sizeof *edges, edges, sizeof edges);
}

static double gelu_by_tanh(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double gelu_by_erf(double x) { return 0.5 * x * erfc(-x / sqrt(2)); }

/*
 * Off by up to so many EPS of |x|, but far below 0 nothing is left of x; −∞, of which neither formula makes a number, gives
 * none.
 */
static void check_gelu(bool by_erf, double epsilons) {
    enum { N = 40003 };
    float *x = allocate(N * sizeof *x), *y = allocate((N + 1) * sizeof *y);
    all_sizes(x, N, 15);
    for (size_t s = 0; s < n_sets; s++) {
        for (size_t n = N; n >= N - 8; n--) { /* every length of the last vector */
            memcpy(y, x, N * sizeof *x);
            y[n] = 7;
            (by_erf ? sets[s]->gelu_erf : sets[s]->gelu_tanh)(y, n);
            for (size_t i = n == N ? 0 : n - 24; i < n; i++) {
                double at = (double)x[i], expected = by_erf ? gelu_by_erf(at) : gelu_by_tanh(at);
                if (isfinite(at))
                    CHECK(fabs((double)y[i] - expected) <= epsilons * EPS * fabs(at) + 0x1p-149,
                          "%s: gelu(%a) = %a", sets[s]->name, at, (double)y[i]);
                else
                    CHECK(at > 0 ? y[i] == INFINITY : isnan(y[i]), "%s: gelu(%g) = %g", sets[s]->name, at,
                          (double)y[i]);
            }
            for (size_t i = 0; i < n; i++)
                CHECK(!(x[i] < -6 && isfinite(x[i])) || fabsf(y[i]) < 1e-8f, "%s: gelu(%g) = %g",
                      sets[s]->name, (double)x[i], (double)y[i]);
            CHECK(y[n] == 7, "%s writes past %zu", sets[s]->name, n);
        }
    }
    free(x);
    free(y);
}

/* The rounding of u moves tanh by less than 2·EPS, and 1 + tanh is rounded once more: 4·EPS of |x| in all. */
static void test_gelu_tanh(void) { check_gelu(false, 4); }

static void test_gelu_erf(void) { check_gelu(true, 8); }

static void test_soft_cap(void) {
    enum { N = 10003 };
    static const float caps[] = {30, 50, 1, 0.3f};
    float *x = allocate(N * sizeof *x), *y = allocate((N + 1) * sizeof *y);
    for (size_t c = 0; c < sizeof caps / sizeof *caps; c++) {
        const double cap = (double)caps[c];
        all_sizes(x, N, 12 * caps[c]);
        for (size_t s = 0; s < n_sets; s++) {
            for (size_t n = N; n >= N - 8; n--) {
                memcpy(y, x, N * sizeof *x);
                y[n] = 7;
                sets[s]->soft_cap(y, caps[c], n);
                for (size_t i = n == N ? 0 : n - 24; i < n; i++) {
                    double expected = cap * tanh((double)x[i] / cap),
                           tolerance = 8 * EPS * fabs(expected) + 0x1p-149 * fmax(cap, 1);
                    if (isnan(x[i]))
                        CHECK(isnan(y[i]), "%s: %g of NaN", sets[s]->name, (double)y[i]);
                    else
                        CHECK(fabs((double)y[i] - expected) <= tolerance, "%s: %a below %g is %a",
                              sets[s]->name, (double)x[i], cap, (double)y[i]);
                }
                CHECK(y[n] == 7, "%s writes past %zu", sets[s]->name, n);
            }
        }
    }
    free(x);
    free(y);
}

static void test_silu_mul(void) {
    enum { N = 40003 };
    float *x = allocate(N * sizeof *x), *up = allocate(N * sizeof *up), *y = allocate((N + 1) * sizeof *y);
    mixed_sizes(x, N, 80);
    random_floats(up, N);
    x[0] = 0;
    x[1] = 1e20f;
    x[2] = -1e20f;
    up[2] = 1;
    for (size_t s = 0; s < n_sets; s++) {
        for (size_t n = N - 8; n <= N; n++) {
            memcpy(y, x, N * sizeof *x);
            y[n] = 7;
            sets[s]->silu_mul(y, up, n);
            for (size_t i = n == N ? 0 : n - 8; i < n; i++) {
                double silu = (double)x[i] / (1 + exp(-(double)x[i])) * (double)up[i];
                CHECK(ulps(y[i], silu) <= 5, "%s: silu(%a)·%a off by %.2f ulp", sets[s]->name, (double)x[i],
                      (double)up[i], ulps(y[i], silu));
            }
            CHECK(y[n] == 7, "%s writes past %zu", sets[s]->name, n);
        }
    }
    free(x);
    free(up);
    free(y);
}

/*
 * Rounding the mean to float moves every difference by |mean|·EPS, and the spread divides that. The rest is a
 * handful of roundings and the relative error of a sum of squares in eight lanes.
 */
static void check_norms(const float *x, size_t n) {
    float *gain = allocate(n * sizeof *gain), *bias = allocate(n * sizeof *bias);
    float *y = allocate(n * sizeof *y);
    random_floats(gain, n);
    random_floats(bias, n);
    const double eps = 1e-5;
    double mean = 0, squares = 0, var = 0;
    for (size_t i = 0; i < n; i++) mean += (double)x[i] / (double)n;
    for (size_t i = 0; i < n; i++) squares += (double)x[i] * (double)x[i] / (double)n;
    for (size_t i = 0; i < n; i++) var += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
    double root = sqrt(var + (double)(float)eps), relative = ((double)n / 8 + 16) * EPS;
    for (size_t s = 0; s < n_sets; s++) {
        for (int with_bias = 0; with_bias < 2; with_bias++) {
            sets[s]->layer_norm(y, x, gain, with_bias ? bias : NULL, n, (float)eps);
            for (size_t i = 0; i < n; i++) {
                double g = (double)gain[i] / root, shift = with_bias ? (double)bias[i] : 0;
                double scaled = ((double)x[i] - mean) * g;
                double tolerance = relative * fabs(scaled) + 2 * EPS * (fabs(mean * g) + fabs(shift));
                CHECK_NEAR(y[i], scaled + shift, tolerance);
            }
        }
        sets[s]->rms_norm(y, x, gain, n, (float)eps);
        for (size_t i = 0; i < n; i++) {
            double expected = (double)x[i] / sqrt(squares + (double)(float)eps) * (double)gain[i];
            CHECK_NEAR(y[i], expected, relative * fabs(expected));
        }
    }
    free(gain);
    free(bias);
    free(y);
}

static void test_norms(void) {
    enum { N = 4099 };
    static float x[N];
    for (size_t n = 1; n <= 70; n++) {
        random_floats(x, n);
        check_norms(x, n);
    }
    for (size_t i = 0; i < N; i++) x[i] = 1000 + 0.01f * random_float(); /* a mean far above the spread */
    check_norms(x, N);
    for (size_t i = 0; i < N; i++) x[i] = 0; /* nothing but eps in the root */
    check_norms(x, N);
}

static void test_kernels_pick(void) {
    Error error = {""};
    const Kernels *fastest = kernels_fastest(), *exact = kernels_pick(NULL, &error);
    CHECK(exact && exact == kernels_pick("", &error), "NULL and an empty name mean the same");
    for (size_t d = 0; exact && d < N_DTYPES; d++)
        for (size_t n = 1; n <= 1000; n += 999) {
            const Rounding *rounding = &kernels_product(exact, dtypes[d], n, 256)->rounding;
            bool to_8_bits = (rounding->largest_q && rounding->largest_q <= 127) || rounding->x_bf16 == 1;
            CHECK(!to_8_bits, "%s was not asked for", exact->name);
        }
    CHECK(kernels_pick("scalar", &error) == kernels_set(0), "%s", error.message);
    size_t n_paying = n_sets;
    while (n_paying && sets[n_paying - 1]->pays_here && !sets[n_paying - 1]->pays_here()) n_paying--;
    CHECK(n_paying && fastest == sets[n_paying - 1], "the table of sets begins with the slowest");
    CHECK(kernels_set(SIZE_MAX) == NULL, "beyond the table");
    CHECK(kernels_pick("sse9", &error) == NULL, "there is no such set");
    CHECK(strstr(error.message, "sse9") && strstr(error.message, "scalar"), "%s", error.message);
    CHECK(strstr(error.message, fastest->name) && strstr(error.message, exact->name), "%s", error.message);
}

int main(void) {
    find_sets();
    RUN(test_add_scale);
    RUN(test_add_scaled);
    RUN(test_fade_add);
    RUN(test_weighted_sums);
    RUN(test_softmax_step);
    RUN(test_attention_sets);
    RUN(test_max);
    RUN(test_exp);
    RUN(test_softmax_rows);
    RUN(test_gelu_tanh);
    RUN(test_gelu_erf);
    RUN(test_soft_cap);
    RUN(test_silu_mul);
    RUN(test_norms);
    RUN(test_kernels_pick);
    free(sets);
    return test_end();
}
