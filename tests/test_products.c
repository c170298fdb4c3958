/*
 * Products of weights of every type by every kernel set that this CPU runs, compared with sums in double. Sizes are odd and
 * pointers unaligned on purpose.
 */
#include "tests/weights.h"

enum { MAX_ROWS = 37, MAX_TOKENS = 19, GAP = 5 };

/* Memory for a matrix, its x and its y; y has a stride larger than it must be. */
typedef struct Multiplication {
    Matrix w;
    unsigned char *memory;
    float *x, *bias; /* x [n][cols] */
    size_t n;
    bool whole; /* x is such that no set rounds it */

    /*
     * By the formula, without bias, [n][rows]: Σ w·x; Σ |w·x|, where the w of 32 columns that are quantised count as their
     * largest, because what is added up are whole numbers above 0, and then what is too much is taken away; and what Σ w·x
     * changes when, in each block of 32 columns, every x but 0 changes by half of the largest one.
     */
    double *sums, *sizes, *changes;
} Multiplication;

static Multiplication multiplication_new(DType dtype, size_t rows, size_t cols, size_t n) {
    size_t offset = dtype == DTYPE_F32 ? 4 : dtype_info(dtype)->block_bytes % 2 ? 1 : 2;
    size_t bytes = rows * dtype_bytes(dtype, cols);
    Multiplication p = {.n = n};
    p.memory = allocate(offset + bytes);
    p.w = (Matrix){p.memory + offset, dtype, rows, cols};
    random_weights(p.memory + offset, dtype, rows * cols);
    p.x = allocate(n * cols * sizeof *p.x);
    random_floats(p.x, n * cols);
    for (size_t t = 0; t < n; t++)
        for (size_t begin = 0; begin < cols; begin += 32) {
            float factor = 2.5f + 2 * random_float(); /* blocks of different sizes */
            for (size_t c = begin; c < begin + 32 && c < cols; c++) p.x[t * cols + c] *= factor;
        }
    p.bias = allocate(rows * sizeof *p.bias);
    random_floats(p.bias, rows);
    p.sums = allocate(3 * n * rows * sizeof *p.sums);
    p.sizes = p.sums + n * rows;
    p.changes = p.sizes + n * rows;
    return p;
}

static void multiplication_free(Multiplication *p) {
    free(p->memory);
    free(p->x);
    free(p->bias);
    free(p->sums);
}

/* Fills sums, sizes and changes. */
static void multiply_in_double(Multiplication *p) {
    size_t cols = p->w.cols, rows = p->w.rows;
    double *weights = allocate(3 * cols * sizeof *weights), *magnitudes = weights + cols,
           *largest = magnitudes + cols;
    size_t block = dtype_is_quantised(p->w.dtype) ? 32 : 1;
    for (size_t r = 0; r < rows; r++) {
        const unsigned char *data = (const unsigned char *)p->w.data + r * dtype_bytes(p->w.dtype, cols);
        for (size_t c = 0; c < cols; c++) {
            Weight weight = weight_value(p->w.dtype, data, c);
            weights[c] = weight.whole - weight.min;
            magnitudes[c] = fabs(weight.whole) + fabs(weight.min);
        }
        for (size_t begin = 0; begin < cols; begin += block) {
            double most = 0;
            for (size_t c = begin; c < begin + block; c++) most = fmax(most, magnitudes[c]);
            for (size_t c = begin; c < begin + block; c++) largest[c] = most;
        }
        for (size_t t = 0; t < p->n; t++) {
            const float *x = p->x + t * cols;
            double sum = 0, size = 0, change = 0;
            for (size_t begin = 0; begin < cols; begin += 32) {
                double max = 0, magnitude = 0;
                for (size_t c = begin; c < begin + 32 && c < cols; c++) {
                    double x_size = fabs((double)x[c]);
                    sum += weights[c] * (double)x[c];
                    size += largest[c] * x_size;
                    magnitude += x_size > 0 ? magnitudes[c] : 0;
                    max = x_size > max ? x_size : max;
                }
                change += max / 2 * magnitude;
            }
            p->sums[t * rows + r] = sum;
            p->sizes[t * rows + r] = size;
            p->changes[t * rows + r] = change;
        }
    }
    free(weights);
}

/* The kernels that multiply a set's tokens. */
static const Product *product_of(const Kernels *set, const Multiplication *m, size_t n) {
    return kernels_product(set, m->w.dtype, n, m->w.cols);
}

/*
 * BF16 may change each w·x by so much, relative to it. Rounding to BF16 is 2^-8 of a number; two of them leave 2^-16 of
 * it, and what their three products lack is as much. x of whole numbers is not rounded.
 */
static double bf16_error(const Rounding *rounding, const Multiplication *m) {
    if (rounding->x_bf16 == 2 && rounding->w_bf16 == 2) return 3 * 0x1p-16;
    double x = rounding->x_bf16 && !m->whole ? 0x1p-8 : 0, w = rounding->w_bf16 ? 0x1p-8 : 0;
    return x + w + x * w;
}

/*
 * The first n tokens' y [n][rows + GAP], computed for so many together, against the sums in double. A product passes
 * through at most cols + 2 roundings on its way into a sum, each of relative size EPS, or 3 cols + 2 where it is three;
 * Higham 2002, section 3.1. x may be rounded to whole steps of 1/largest_q of a block's largest.
 */
static void check_multiplication(const Kernels *set, const Multiplication *m, const float *bias,
                                 const float *y, size_t n, size_t together) {
    const Rounding *rounding = &product_of(set, m, together)->rounding;
    size_t cols = m->w.cols, rows = m->w.rows;
    double error = bf16_error(rounding, m),
           steps = rounding->largest_q && !m->whole ? rounding->largest_q : HUGE_VAL;
    for (size_t r = 0; r < rows; r++)
        for (size_t t = 0; t < n; t++) {
            double shift = bias ? (double)bias[r] : 0, sum = m->sums[t * rows + r] + shift,
                   size = m->sizes[t * rows + r] + fabs(shift), got = (double)y[t * (rows + GAP) + r];
            double tolerance = ((error > 0 ? 3 : 1) * (double)cols + 2) * EPS * size + error * size +
                               1.001 * m->changes[t * rows + r] / steps;
            CHECK(fabs(got - sum) <= tolerance, "%s %s, row %zu, token %zu, %zu columns: %g against %g",
                  set->name, dtype_info(m->w.dtype)->name, r, t, cols, got, sum);
        }
}

/* Whether sets before s multiply any number of tokens by the same functions. Then they are tested there. */
static bool is_tested(size_t s, const Multiplication *m) {
    for (size_t earlier = 0; earlier < s; earlier++) {
        size_t n = 1;
        while (n <= 128 && product_of(sets[earlier], m, n) == product_of(sets[s], m, n)) n++;
        if (n > 128) return true;
    }
    return false;
}

/*
 * y [n][y_stride] = rows [begin, end) of w · x, tokens [t, t + n), by way of pack. No float to spare: packed has room for
 * whole groups of 16 tokens.
 */
static void multiply(const Kernels *set, const Multiplication *m, const float *bias, size_t begin, size_t end,
                     size_t t, size_t n, float *y, size_t y_stride) {
    const Product *product = product_of(set, m, n);
    float *packed = allocate(packed_floats(n, m->w.cols) * sizeof *packed);
    for (size_t i = 0; i * product->pack_tokens < n; i++)
        product->pack(packed, m->w.dtype, m->x + t * m->w.cols, n, m->w.cols, i);
    product->multiply(y, y_stride, &m->w, bias, begin, end, packed, n);
    free(packed);
}

/* All rows of tokens [t, t + n). */
static void multiply_all(const Kernels *set, const Multiplication *m, const float *bias, size_t t, size_t n,
                         float *y) {
    multiply(set, m, bias, 0, m->w.rows, t, n, y, m->w.rows + GAP);
}

/* Each of the first n tokens alone. */
static void multiply_each(const Kernels *set, const Multiplication *m, const float *bias, size_t n,
                          float *y) {
    for (size_t t = 0; t < n; t++) multiply_all(set, m, bias, t, 1, y + t * (m->w.rows + GAP));
}

/* Rows [begin, end) for n tokens have the bits that `all` has, and nothing else is touched. */
static void check_part(const Kernels *set, const Multiplication *p, const float *all, size_t begin,
                       size_t end, size_t n) {
    float y[MAX_TOKENS * (MAX_ROWS + GAP)];
    size_t stride = p->w.rows + GAP;
    for (size_t i = 0; i < n * stride; i++) y[i] = 1e30f;
    multiply(set, p, p->bias, begin, end, 0, n, y, stride);
    for (size_t i = 0; i < n * stride; i++) {
        size_t row = i % stride;
        int inside = row < p->w.rows && row >= begin && row < end;
        CHECK(same_bits(y[i], inside ? all[i] : 1e30f), "%s %s: rows [%zu, %zu), %zu tokens, %zu columns",
              set->name, dtype_info(p->w.dtype)->name, begin, end, n, p->w.cols);
    }
}

/* Whether n tokens together have the bits that each has alone: with AMX only a few have. */
static bool is_promised(const Kernels *set, size_t n) {
    return n <= PACKED_TOKENS || !strstr(set->name, "amx");
}

static void check_matmul(DType dtype, size_t cols) {
    enum { STRIDE = MAX_ROWS + GAP };
    Multiplication p = multiplication_new(dtype, MAX_ROWS, cols, MAX_TOKENS);
    float all[MAX_TOKENS * STRIDE], each[MAX_TOKENS * STRIDE];
    multiply_in_double(&p);
    for (size_t s = 0; s < n_sets; s++) {
        if (is_tested(s, &p)) continue;
        multiply_each(sets[s], &p, NULL, 1, each);
        check_multiplication(sets[s], &p, NULL, each, 1, 1);
        multiply_each(sets[s], &p, p.bias, MAX_TOKENS, each);
        check_multiplication(sets[s], &p, p.bias, each, MAX_TOKENS, 1);
        multiply_all(sets[s], &p, NULL, 0, MAX_TOKENS, all);
        check_multiplication(sets[s], &p, NULL, all, MAX_TOKENS, MAX_TOKENS);
        multiply_all(sets[s], &p, p.bias, 0, MAX_TOKENS, all);
        check_multiplication(sets[s], &p, p.bias, all, MAX_TOKENS, MAX_TOKENS);
        for (size_t n = 1; n <= MAX_TOKENS; n++) {
            const float *expected = is_promised(sets[s], n) ? each : all;
            bool all_parts = n <= 2 || n == MAX_TOKENS || /* the first and the last of each way */
                             product_of(sets[s], &p, n - 1) != product_of(sets[s], &p, n) ||
                             product_of(sets[s], &p, n + 1) != product_of(sets[s], &p, n);
            check_part(sets[s], &p, expected, 0, MAX_ROWS, n);
            check_part(sets[s], &p, expected, MAX_ROWS / 3, MAX_ROWS / 2, n);
            for (size_t edge = 1; edge < MAX_ROWS && all_parts; edge++) {
                check_part(sets[s], &p, expected, 0, edge, n);
                check_part(sets[s], &p, expected, edge, MAX_ROWS, n);
            }
        }
    }
    multiplication_free(&p);
}

static void test_matmul(void) {
    static const size_t wide[] = {511, 512, 513, 1100}; /* around a panel, and over two of them */
    for (size_t d = 0; d < N_DTYPES; d++) {
        size_t block = dtype_info(dtypes[d])->block, narrow = block == 1 ? 70 : block == 32 ? 128 : 512;
        for (size_t cols = block; cols <= narrow; cols += block) check_matmul(dtypes[d], cols);
        for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
            size_t cols = (wide[i] + block - 1) / block * block;
            if (cols > narrow && (i == 0 || block == 1 || wide[i] > 512)) check_matmul(dtypes[d], cols);
        }
    }
}

/* A chunk of tokens that is too large for one block of any cache, and each of its tokens alone. */
static void test_matmul_chunk(void) {
    enum { ROWS = 41, TOKENS = 101, STRIDE = ROWS + GAP, SOME = 20, SOME_ROWS = 35 };
    for (size_t d = 0; d < N_DTYPES; d++) {
        Multiplication p =
            multiplication_new(dtypes[d], ROWS, dtype_info(dtypes[d])->block == 256 ? 2304 : 2144, TOKENS);
        float *all = allocate(TOKENS * STRIDE * sizeof *all), some[SOME * STRIDE];
        multiply_in_double(&p);
        for (size_t s = 0; s < n_sets; s++) {
            if (is_tested(s, &p)) continue;
            multiply_all(sets[s], &p, p.bias, 0, TOKENS, all);
            check_multiplication(sets[s], &p, p.bias, all, TOKENS, TOKENS);
            for (size_t t = 0; t + SOME <= TOKENS; t += 27) { /* 17: a tile of 16 and a lone one */
                size_t n = t ? SOME : 17;
                multiply(sets[s], &p, p.bias, 0, SOME_ROWS, t, n, some, STRIDE);
                for (size_t i = 0; i < n; i++)
                    CHECK(memcmp(some + i * STRIDE, all + (t + i) * STRIDE, SOME_ROWS * sizeof *all) == 0,
                          "%s %s: token %zu", sets[s]->name, dtype_info(dtypes[d])->name, t + i);
            }
            multiply_each(sets[s], &p, p.bias, TOKENS, all);
            check_multiplication(sets[s], &p, p.bias, all, TOKENS, 1);
        }
        free(all);
        multiplication_free(&p);
    }
}

/* More rows and tokens than are summed at a time. */
static void test_matmul_of_many(void) {
    enum { ROWS = 275, TOKENS = 301, STRIDE = ROWS + GAP };
    static const DType kinds[] = {DTYPE_F32, DTYPE_Q4_0, DTYPE_Q6_K};
    float *all = allocate(2 * TOKENS * STRIDE * sizeof *all), *each = all + TOKENS * STRIDE;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        Multiplication p = multiplication_new(kinds[k], ROWS, kinds[k] == DTYPE_Q6_K ? 256 : 32, TOKENS);
        multiply_in_double(&p);
        for (size_t s = 0; s < n_sets; s++) {
            if (is_tested(s, &p)) continue;
            multiply_all(sets[s], &p, p.bias, 0, TOKENS, all);
            check_multiplication(sets[s], &p, p.bias, all, TOKENS, TOKENS);
            if (!is_promised(sets[s], TOKENS)) continue;
            multiply_each(sets[s], &p, p.bias, TOKENS, each);
            for (size_t t = 0; t < TOKENS; t++)
                CHECK(memcmp(all + t * STRIDE, each + t * STRIDE, ROWS * sizeof *all) == 0,
                      "%s %s: token %zu", sets[s]->name, dtype_info(kinds[k])->name, t);
        }
        multiplication_free(&p);
    }
    free(all);
}

/* A token has the bits that it has alone in whatever company. Groups begin at different tokens. */
static void check_company(const Kernels *set, const Multiplication *p, const float *each, float *y) {
    size_t stride = p->w.rows + GAP;
    static const size_t together[] = {2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13,
                                      14, 15, 16, 17, 20, 24, 25, 33, 48, 50, 101};
    for (size_t i = 0; i < sizeof together / sizeof *together; i++) {
        size_t n = together[i], first = n * 7 % (p->n - n + 1), differing = 0;
        if (!is_promised(set, n)) break;
        multiply_all(set, p, p->bias, first, n, y);
        for (size_t t = 0; t < n; t++)
            differing += memcmp(y + t * stride, each + (first + t) * stride, p->w.rows * sizeof *y) != 0;
        CHECK(!differing, "%s %s, %zu rows, %zu columns: %zu of %zu tokens differ from what they are alone",
              set->name, dtype_info(p->w.dtype)->name, p->w.rows, p->w.cols, differing, n);
    }
}

static void test_company_changes_nothing(void) {
    enum { TOKENS = 101, WIDEST = 70 };
    static const size_t shapes[][2] = {{1, 32}, {3, 70}, {17, 96}, {37, 544}, {WIDEST, 1100}};
    float *each = allocate(2 * TOKENS * (WIDEST + GAP) * sizeof *each), *y = each + TOKENS * (WIDEST + GAP);
    for (size_t d = 0; d < N_DTYPES; d++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            size_t block = dtype_info(dtypes[d])->block, cols = (shapes[i][1] + block - 1) / block * block;
            Multiplication p = multiplication_new(dtypes[d], shapes[i][0], cols, TOKENS);
            for (size_t s = 0; s < n_sets; s++) {
                if (is_tested(s, &p)) continue;
                multiply_each(sets[s], &p, p.bias, TOKENS, each);
                check_company(sets[s], &p, each, y);
            }
            multiplication_free(&p);
        }
    free(each);
}

/* The largest whole number that neither of a set's products rounds. */
static int largest_exact(const Kernels *set, const Multiplication *m) {
    int alone = product_of(set, m, 1)->rounding.largest_q,
        many = product_of(set, m, m->n)->rounding.largest_q;
    if (!alone) alone = 256; /* so far BF16 holds all of them */
    if (!many) many = 256;
    return alone < many ? alone : many;
}

/*
 * Whole numbers up to the largest that a set rounds to, which occurs in each block. So nothing is rounded, and sums of
 * integers must be exact, also those of nothing but the largest number, or the lowest: the first two tokens.
 */
static void test_matmul_of_whole_numbers(void) {
    enum { ROWS = 37, TOKENS = 13, STRIDE = ROWS + GAP };
    static const size_t wide[] = {32, 256, 1120};
    for (size_t d = 0; d < N_DTYPES; d++)
        for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
            size_t block = dtype_info(dtypes[d])->block, cols = (wide[i] + block - 1) / block * block;
            Multiplication p = multiplication_new(dtypes[d], ROWS, cols, TOKENS);
            float y[TOKENS * STRIDE];
            int computed = 0;
            p.whole = true;
            for (size_t s = 0; s < n_sets; s++) {
                int largest = largest_exact(sets[s], &p);
                for (size_t j = 0; j < TOKENS * cols && largest != computed; j++)
                    p.x[j] = (float)(j < cols       ? largest
                                     : j < 2 * cols ? -largest
                                     : j % 32 ? (int)(random_bits() % (2 * (unsigned)largest + 1)) - largest
                                              : largest);
                if (largest != computed) multiply_in_double(&p);
                computed = largest;
                multiply_all(sets[s], &p, p.bias, 0, TOKENS, y);
                check_multiplication(sets[s], &p, p.bias, y, TOKENS, TOKENS);
                multiply_each(sets[s], &p, p.bias, TOKENS, y);
                check_multiplication(sets[s], &p, p.bias, y, TOKENS, 1);
            }
            multiplication_free(&p);
        }
}

/* The columns of the tests that follow: two large blocks, or three small ones. */
static size_t few_cols(DType dtype) { return dtype_info(dtype)->block == 256 ? 512 : 96; }

/* Rounding errors of many x hide each other; those of two in a block, all else being 0, do not. */
static void test_matmul_of_two_numbers(void) {
    enum { ROWS = 37, TOKENS = 50, STRIDE = ROWS + GAP };
    for (size_t d = 0; d < N_DTYPES; d++) {
        size_t cols = few_cols(dtypes[d]);
        Multiplication p = multiplication_new(dtypes[d], ROWS, cols, TOKENS);
        float y[TOKENS * STRIDE];
        for (size_t t = 0; t < TOKENS; t++) {
            float *x = p.x + t * cols;
            size_t block = (size_t)(random_bits() % (cols / 32)), largest = random_bits() % 32;
            memset(x, 0, cols * sizeof *x);
            x[32 * block + (largest + 1 + random_bits() % 31) % 32] = random_float();
            x[32 * block + largest] = 2 + random_float();
        }
        multiply_in_double(&p);
        for (size_t s = 0; s < n_sets; s++) {
            if (is_tested(s, &p)) continue;
            multiply_all(sets[s], &p, NULL, 0, TOKENS, y);
            check_multiplication(sets[s], &p, NULL, y, TOKENS, TOKENS);
            multiply_each(sets[s], &p, NULL, TOKENS, y);
            check_multiplication(sets[s], &p, NULL, y, TOKENS, 1);
        }
        multiplication_free(&p);
    }
}

/* Nothing but exponents changes with those of x. */
static void test_matmul_of_all_sizes(void) {
    enum { ROWS = 5, TOKENS = 19, STRIDE = ROWS + GAP };
    for (size_t d = 0; d < N_DTYPES; d++) {
        Multiplication p = multiplication_new(dtypes[d], ROWS, few_cols(dtypes[d]), TOKENS);
        float usual[TOKENS * STRIDE], y[TOKENS * STRIDE];
        for (size_t s = 0; s < n_sets; s++)
            for (size_t n = 1; n <= TOKENS; n += TOKENS - 1) {
                multiply_all(sets[s], &p, NULL, 0, n, usual);
                for (int exponent = -60; exponent <= 60; exponent += 120) {
                    for (size_t j = 0; j < n * p.w.cols; j++) p.x[j] = ldexpf(p.x[j], exponent);
                    multiply_all(sets[s], &p, NULL, 0, n, y);
                    for (size_t j = 0; j < n * p.w.cols; j++) p.x[j] = ldexpf(p.x[j], -exponent);
                    for (size_t i = 0; i < n * STRIDE; i++)
                        CHECK(i % STRIDE >= ROWS || same_bits(y[i], ldexpf(usual[i], exponent)),
                              "%s %s, 2^%d: %a, %a", sets[s]->name, dtype_info(dtypes[d])->name, exponent,
                              (double)y[i], (double)usual[i]);
                }
            }
        multiplication_free(&p);
    }
}

/* A number that is not finite stays so, however x is packed, and changes no other token; a very small one does no harm. */
static void test_matmul_of_odd_numbers(void) {
    enum { ROWS = 5, TOKENS = 19, STRIDE = ROWS + GAP };
    static const float odd[] = {INFINITY, -INFINITY, NAN};
    for (size_t d = 0; d < N_DTYPES; d++) {
        size_t cols = few_cols(dtypes[d]);
        Multiplication p = multiplication_new(dtypes[d], ROWS, cols, TOKENS);
        float usual[TOKENS * STRIDE], y[TOKENS * STRIDE];
        for (size_t s = 0; s < n_sets; s++)
            for (size_t n = 1; n <= TOKENS; n += TOKENS - 1) {
                float *last = p.x + (n - 1) * cols, *y_last = y + (n - 1) * STRIDE, kept = last[40];
                multiply_all(sets[s], &p, NULL, 0, n, usual);
                for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
                    last[40] = odd[i];
                    multiply_all(sets[s], &p, NULL, 0, n, y);
                    for (size_t r = 0; r < ROWS; r++)
                        CHECK(!isfinite(y_last[r]), "%s %s: %g of %g", sets[s]->name,
                              dtype_info(dtypes[d])->name, (double)y_last[r], (double)odd[i]);
                    for (size_t j = 0; j < (n - 1) * STRIDE; j++)
                        CHECK(j % STRIDE >= ROWS || same_bits(y[j], usual[j]), "%s %s: another token's %g",
                              sets[s]->name, dtype_info(dtypes[d])->name, (double)y[j]);
                }
                last[40] = kept;
                float all_kept[512];
                memcpy(all_kept, last, cols * sizeof *last);
                for (size_t c = 0; c < cols; c++) last[c] = c < 64 ? 0x1p-149f : 0;
                multiply_all(sets[s], &p, NULL, 0, n, y);
                for (size_t r = 0; r < ROWS; r++) CHECK_NEAR(y_last[r], 0, 0x1p-130);
                memcpy(last, all_kept, cols * sizeof *last);
            }
        multiplication_free(&p);
    }
}

/* A row with a weight, or a block's scale or minimum, that is not finite, has no finite output; all others stay as they are. */
static void test_matmul_with_odd_scales(void) {
    enum { ROWS = 37, TOKENS = 19, STRIDE = ROWS + GAP };
    static const unsigned odd[] = {0x7c00, 0xfc00, 0x7e00}; /* ∞, −∞, NaN */
    for (size_t d = 0; d < N_DTYPES; d++) {
        const DTypeInfo *info = dtype_info(dtypes[d]);
        const Halves halves = halves_of(dtypes[d]);
        size_t cols = few_cols(dtypes[d]), n_blocks = cols / info->block;
        Multiplication p = multiplication_new(dtypes[d], ROWS, cols, TOKENS);
        for (size_t i = 0; i < 32; i++) p.x[cols - 1 - i] = 0; /* 0·∞ is NaN */
        float usual[TOKENS * STRIDE], y[TOKENS * STRIDE];
        for (size_t s = 0; s < n_sets; s++)
            for (size_t n = 1; n <= TOKENS; n += TOKENS - 1) {
                multiply_all(sets[s], &p, NULL, 0, n, usual);
                for (size_t i = 0; i < 3 * halves.n * 3; i++) {
                    size_t row = i * 5 % ROWS, block = i % 2 ? 0 : n_blocks - 1;
                    unsigned char *at = (unsigned char *)p.w.data +
                                        (row * n_blocks + block) * info->block_bytes + halves.at[i / 9],
                                  kept[2];
                    memcpy(kept, at, 2);
                    at[0] = (unsigned char)odd[i % 3];
                    at[1] = (unsigned char)(odd[i % 3] >> 8);
                    multiply_all(sets[s], &p, NULL, 0, n, y);
                    memcpy(at, kept, 2);
                    for (size_t j = 0; j < n * STRIDE; j++) {
                        size_t r = j % STRIDE;
                        CHECK(r >= ROWS || (r == row ? !isfinite(y[j]) : same_bits(y[j], usual[j])),
                              "%s %s: row %zu of %g for scale %04x of row %zu, %zu tokens", sets[s]->name,
                              info->name, r, (double)y[j], odd[i % 3], row, n);
                    }
                }
            }
        multiplication_free(&p);
    }
}

/*
 * Three matrices at once, with room to pack `room` tokens and no more, give the bits of each alone, for any number of
 * threads.
 */
static void check_linear_forward(const Kernels *set, unsigned n_threads, size_t cols, size_t n, size_t room) {
    static const size_t rows[3] = {37, 5, 150};
    static const DType mixed[3] = {DTYPE_F32, DTYPE_Q4_0, DTYPE_F16},
                       k_m[3] = {DTYPE_Q4_K, DTYPE_Q6_K, DTYPE_Q4_K};
    const DType *kinds = cols == 256 ? k_m : mixed;
    Threads *threads = threads_new(n_threads, NULL);
    CHECK(threads, "%u threads", n_threads);
    if (!threads) return;
    float *x = allocate(n * cols * sizeof *x), *alone = allocate(n * 150 * sizeof *alone);
    random_floats(x, n * cols);
    Multiplication p[3];
    Linear linears[3];
    LinearOutput outputs[3];
    for (size_t i = 0; i < 3; i++) {
        p[i] = multiplication_new(kinds[i], rows[i], cols, n);
        linears[i] = (Linear){p[i].w, i == 1 ? NULL : p[i].bias};
        outputs[i] = (LinearOutput){allocate(n * rows[i] * sizeof(float)), &linears[i]};
    }
    const size_t n_packed = room * cols, n_guards = PACKED_TOKENS * cols;
    float *packed = allocate((n_packed + n_guards) * sizeof *packed);
    for (size_t i = 0; i < n_guards; i++) packed[n_packed + i] = 7;
    linear_forward(&(Compute){set, threads, packed, n_packed}, outputs, 3, x, n);
    for (size_t i = 0; i < n_guards; i++)
        CHECK(packed[n_packed + i] == 7, "%s packs %zu tokens where %zu have room", set->name, n, room);
    free(packed);
    for (size_t i = 0; i < 3; i++) {
        memcpy(p[i].x, x, n * cols * sizeof *x);
        multiply(set, &p[i], linears[i].bias, 0, p[i].w.rows, 0, n, alone, rows[i]);
        CHECK(memcmp(alone, outputs[i].y, n * rows[i] * sizeof *alone) == 0,
              "%s, output %zu, %u threads, %zu tokens", set->name, i, n_threads, n);
        free(outputs[i].y);
        multiplication_free(&p[i]);
    }
    free(alone);
    free(x);
    threads_free(threads);
}

static void test_linear_forward(void) {
    static const unsigned counts[] = {1, 2, 3, 8};
    for (size_t s = 0; s < n_sets; s++) {
        for (size_t i = 0; i < 4; i++) {
            check_linear_forward(sets[s], counts[i], 96, 1, 16); /* little work: one piece */
            check_linear_forward(sets[s], counts[i], 96, 5, 16);
            check_linear_forward(sets[s], counts[i], 96, 11, 16);
            check_linear_forward(sets[s], counts[i], 96, 64, 32); /* a room that holds not all */
            check_linear_forward(sets[s], counts[i], 96, 50, 39); /* nor whole groups of tokens; 18 remain */
            check_linear_forward(sets[s], counts[i], 256, 19, 32);
            check_linear_forward(sets[s], counts[i], 2048, 1, 16);
        }
    }
}

int main(void) {
    find_sets();
    RUN(test_matmul);
    RUN(test_matmul_chunk);
    RUN(test_matmul_of_many);
    RUN(test_company_changes_nothing);
    RUN(test_matmul_of_whole_numbers);
    RUN(test_matmul_of_two_numbers);
    RUN(test_matmul_of_all_sizes);
    RUN(test_matmul_of_odd_numbers);
    RUN(test_matmul_with_odd_scales);
    RUN(test_linear_forward);
    free(sets);
    return test_end();
}
