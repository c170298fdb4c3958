/*
 * Every kernel set that this CPU runs, compared with formulas in double that are written here once more.
 * What need not be rounded must be right to the bit. Sizes are odd and pointers unaligned on purpose.
 */
#include "kernels/kernels.h"
#include "tests/test.h"

#include <stdint.h>

#define EPS 0x1p-24 /* the rounding of one float operation, relative */

static const DType dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_0};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

/* Those that run here, slowest first. */
static const Kernels **sets;
static size_t n_sets;

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) exit(2);
    return memory;
}

static void find_sets(void) {
    size_t n = 0;
    while (kernels_set(n)) n++;
    sets = allocate(n * sizeof *sets);
    for (size_t i = 0; i < n; i++) {
        const Kernels *set = kernels_set(i);
        if (kernels_pick(set->name, NULL) == set)
            sets[n_sets++] = set;
        else
            printf("this CPU, or this build, does not run %s\n", set->name);
    }
}

static uint64_t random_state = 88172645463325252u;

/* Marsaglia 2003, "Xorshift RNGs". */
static uint64_t random_bits(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Uniform in [-1, 1). */
static float random_float(void) { return (float)(random_bits() >> 40) * 0x1p-23f - 1.0f; }

static void random_floats(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = random_float();
}

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int same_bits(float a, float b) { return memcmp(&a, &b, sizeof a) == 0; }

/* IEEE 754-2008, 3.4: binary16 has a sign, 5 exponent and 10 fraction bits. */
static double half_value(unsigned half) {
    int exponent = (int)(half >> 10 & 31);
    double fraction = (double)(half & 1023) / 1024;
    double magnitude = exponent == 31 ? (half & 1023 ? (double)NAN : (double)INFINITY)
                       : exponent     ? ldexp(1 + fraction, exponent - 15)
                                      : ldexp(fraction, -14);
    return half & 0x8000 ? -magnitude : magnitude;
}

static unsigned u16_at(const unsigned char *bytes) { return bytes[0] | (unsigned)bytes[1] << 8; }

/* The half nearest to a finite x, ties to even, as a double. */
static double nearest_half(float x) {
    if (x == 0) return (double)x;
    int exponent = ilogb((double)x) < -14 ? -14 : ilogb((double)x);
    double step = ldexp(1, exponent - 10);
    double nearest = rint((double)x / step) * step;
    return fabs(nearest) > 65504 ? copysign((double)INFINITY, nearest) : nearest;
}

/* Weight i of a row at data, from the text of the formats. */
static double weight_value(DType dtype, const unsigned char *data, size_t i) {
    size_t block = i / 32, j = i % 32;
    const unsigned char *q8 = data + 34 * block, *q4 = data + 18 * block;
    float f32;
    switch (dtype) {
    case DTYPE_F32: memcpy(&f32, data + 4 * i, 4); return (double)f32;
    case DTYPE_F16: return half_value(u16_at(data + 2 * i));
    case DTYPE_BF16: return (double)float_of_bits((uint32_t)u16_at(data + 2 * i) << 16);
    case DTYPE_Q8_0: return half_value(u16_at(q8)) * (q8[2 + j] < 128 ? q8[2 + j] : q8[2 + j] - 256);
    case DTYPE_Q4_0: return half_value(u16_at(q4)) * ((q4[2 + j % 16] >> (j < 16 ? 0 : 4) & 15) - 8);
    }
    return 0;
}

/* Random rows of n weights, none larger than about 2. */
static void random_weights(unsigned char *data, DType dtype, size_t n) {
    const DTypeInfo *info = dtype_info(dtype);
    for (size_t b = 0; b < n / info->block; b++) {
        unsigned char *at = data + b * info->block_bytes;
        float value = random_float();
        uint32_t bits;
        memcpy(&bits, &value, 4);
        for (size_t i = 0; i < info->block_bytes; i++) at[i] = (unsigned char)random_bits();
        if (dtype == DTYPE_F32) memcpy(at, &value, 4);
        if (dtype == DTYPE_BF16) memcpy(at, (char *)&bits + 2, 2);
        if (dtype == DTYPE_F16) at[1] = (unsigned char)((random_bits() & 0x80) | 0x38);  /* ±[0.5, 1) */
        if (dtype == DTYPE_Q8_0) at[1] = (unsigned char)((random_bits() & 0x80) | 0x20); /* ±2^-7·[1, 2) */
        if (dtype == DTYPE_Q4_0) at[1] = (unsigned char)((random_bits() & 0x80) | 0x30); /* ±2^-3·[1, 2) */
    }
}

static void test_dtype_info(void) {
    static const struct {
        uint32_t number;
        const char *name;
        size_t block, bytes;
    } known[] = {
        {0, "F32", 1, 4}, {1, "F16", 1, 2}, {2, "Q4_0", 32, 18}, {8, "Q8_0", 32, 34}, {30, "BF16", 1, 2},
    };
    size_t n_known = 0;
    for (uint32_t number = 0; number < 300; number++) {
        const DTypeInfo *info = dtype_info(number);
        if (!info) continue;
        CHECK(n_known < 5 && known[n_known].number == number, "%u is supported", number);
        if (n_known >= 5) return;
        CHECK(strcmp(info->name, known[n_known].name) == 0, "%s", info->name);
        CHECK(info->block == known[n_known].block, "%s: %zu", info->name, info->block);
        CHECK(info->block_bytes == known[n_known].bytes, "%s: %zu", info->name, info->block_bytes);
        CHECK(dtype_bytes((DType)number, 96) == 96 / info->block * info->block_bytes, "%s", info->name);
        n_known++;
    }
    CHECK(n_known == 5, "%zu", n_known);
    CHECK(dtype_info(UINT32_MAX) == NULL, "beyond any table");
}

static void test_every_half(void) {
    for (unsigned half = 0; half < 65536; half++) {
        float value = f16_to_f32((uint16_t)half);
        double expected = half_value(half);
        uint16_t back = f32_to_f16(value);
        if (isnan(expected)) {
            CHECK(isnan(value) && isnan(half_value(back)), "%04x", half);
        } else {
            CHECK((double)value == expected, "%04x gives %g", half, (double)value);
            CHECK(!signbit(value) == !(half & 0x8000), "%04x gives %g", half, (double)value);
            CHECK(back == half, "%04x comes back as %04x", half, back);
        }
    }
}

static void check_to_half(float x) {
    uint16_t plain = f32_to_f16(x);
    double expected = isfinite(x) ? nearest_half(x) : (double)x, got = half_value(plain);
    CHECK(isnan(x) ? isnan(got) : got == expected, "%a gives %04x", (double)x, plain);
    CHECK(!signbit(got) == !signbit(x), "%a gives %04x", (double)x, plain);
    for (size_t s = 0; s < n_sets; s++) {
        float many[17];
        uint16_t packed[18] = {0}; /* a vector of sixteen, or two of eight, and one left over */
        for (size_t i = 0; i < 17; i++) many[i] = x;
        packed[17] = 0x1234;
        sets[s]->pack_f16(packed, many, 17);
        for (size_t i = 0; i < 17; i++)
            CHECK(packed[i] == plain, "%s: %a gives %04x", sets[s]->name, (double)x, packed[i]);
        CHECK(packed[17] == 0x1234, "%s writes on", sets[s]->name);
    }
}

static void test_floats_to_halves(void) {
    for (unsigned half = 0; half < 0x7c00; half++) { /* half-way to the next, and a float to either side */
        double next = half == 0x7bff ? 65536 : half_value(half + 1);
        float middle = (float)((half_value(half) + next) / 2);
        check_to_half(middle);
        check_to_half(-middle);
        check_to_half(nextafterf(middle, 0));
        check_to_half(nextafterf(middle, INFINITY));
    }
    for (int i = 0; i < 200000; i++) check_to_half(float_of_bits((uint32_t)random_bits()));
    for (int i = 0; i < 100000; i++) check_to_half(ldexpf(random_float(), (int)(random_bits() % 48) - 30));
    float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 3e38f, 0x1p-149f, float_of_bits(0x7f800001u)};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) check_to_half(special[i]);
}

static void test_blocks_by_hand(void) {
    unsigned char q4[18] = {0x00, 0x38}, q8[34] = {0x00, 0xc0}; /* 0.5 and −2 */
    for (int j = 0; j < 16; j++) q4[2 + j] = (unsigned char)(j | (15 - j) << 4);
    for (int j = 0; j < 32; j++) q8[2 + j] = (unsigned char)(8 * j - 128);
    unsigned char bf16[4] = {0x80, 0x3f, 0xa0, 0xc0}, f16[4] = {0x00, 0x3c, 0x00, 0xc5}; /* 1 and −5 */
    for (size_t s = 0; s < n_sets; s++) {
        float w[32];
        sets[s]->unpack(w, DTYPE_Q4_0, q4, 32);
        for (int j = 0; j < 16; j++) {
            CHECK(w[j] == 0.5f * (float)(j - 8), "%s, %d", sets[s]->name, j);
            CHECK(w[j + 16] == 0.5f * (float)(7 - j), "%s, %d", sets[s]->name, j + 16);
        }
        sets[s]->unpack(w, DTYPE_Q8_0, q8, 32);
        for (int j = 0; j < 32; j++) CHECK(w[j] == -2.0f * (float)(8 * j - 128), "%s, %d", sets[s]->name, j);
        sets[s]->unpack(w, DTYPE_BF16, bf16, 2);
        CHECK(w[0] == 1 && w[1] == -5, "%s", sets[s]->name);
        sets[s]->unpack(w, DTYPE_F16, f16, 2);
        CHECK(w[0] == 1 && w[1] == -5, "%s", sets[s]->name);
    }
}

static void test_unpack(void) {
    for (size_t d = 0; d < N_DTYPES; d++) {
        const DTypeInfo *info = dtype_info(dtypes[d]);
        for (size_t n = info->block; n <= 70 * info->block; n += info->block) {
            size_t offset = dtypes[d] == DTYPE_F32 ? 4 : 2;
            unsigned char *memory = allocate(offset + dtype_bytes(dtypes[d], n)); /* no byte to spare */
            unsigned char *data = memory + offset;
            random_weights(data, dtypes[d], n);
            float *w = allocate(n * sizeof *w);
            for (size_t s = 0; s < n_sets; s++) {
                sets[s]->unpack(w, dtypes[d], data, n);
                for (size_t i = 0; i < n; i++) {
                    float expected = (float)weight_value(dtypes[d], data, i);
                    CHECK(w[i] == expected, "%s %s, %zu of %zu", sets[s]->name, info->name, i, n);
                }
            }
            free(w);
            free(memory);
        }
    }
}

enum { MAX_ROWS = 37, MAX_TOKENS = 13, GAP = 5 };

/* What a matrix, its x and its y need; y has a stride larger than it must be. */
typedef struct Multiplication {
    Matrix w;
    unsigned char *memory;
    float *x, *bias; /* x [n][cols] */
    size_t n;
    bool whole; /* x is such that no set rounds it */
} Multiplication;

static Multiplication multiplication_new(DType dtype, size_t rows, size_t cols, size_t n) {
    size_t offset = dtype == DTYPE_F32 ? 4 : 2;
    size_t bytes = rows * dtype_bytes(dtype, cols);
    Multiplication p = {.n = n};
    p.memory = allocate(offset + bytes);
    p.w = (Matrix){p.memory + offset, dtype, rows, cols};
    random_weights(p.memory + offset, dtype, rows * cols);
    p.x = allocate(n * cols * sizeof *p.x);
    random_floats(p.x, n * cols);
    p.bias = allocate(rows * sizeof *p.bias);
    random_floats(p.bias, rows);
    return p;
}

static void multiplication_free(Multiplication *p) {
    free(p->memory);
    free(p->x);
    free(p->bias);
}

/* What multiplies a set's tokens. */
static const Product *product_of(const Kernels *set, const Multiplication *m, size_t n) {
    return kernels_product(set, m->w.dtype, n, m->w.cols);
}

/*
 * What BF16 may change in each w·x, relative to it. Rounding to BF16 is 2^-8 of a number; two of them leave 2^-16 of
 * it, and what their three products lack is as much. x of whole numbers is not rounded.
 */
static double bf16_error(const Rounding *rounding, const Multiplication *m) {
    if (rounding->x_bf16 == 2 && rounding->w_bf16 == 2) return 3 * 0x1p-16;
    double x = rounding->x_bf16 && !m->whole ? 0x1p-8 : 0, w = rounding->w_bf16 ? 0x1p-8 : 0;
    return x + w + x * w;
}

/* How much rounding x to whole numbers may change Σ w·x: half a step each; a block's step is max |x| / largest. */
static double block_error(int largest, const double *w, const float *x, size_t cols) {
    double change = 0;
    for (size_t b = 0; b < cols && largest; b += 32) {
        double max = 0, weights = 0;
        for (size_t c = b; c < b + 32; c++) {
            max = fmax(max, fabs((double)x[c]));
            weights += fabs(w[c]);
        }
        change += 1.001 * max / largest / 2 * weights;
    }
    return change;
}

/*
 * y [n][rows + GAP], computed for so many tokens together, against the sum in double. A product passes through at most
 * cols + 2 roundings on its way into a sum, each of relative size EPS, or 3 cols + 2 where it is three; Higham 2002,
 * section 3.1.
 */
static void check_multiplication(const Kernels *set, const Multiplication *m, const float *bias,
                                 const float *y, size_t together) {
    const Rounding *rounding = &product_of(set, m, together)->rounding;
    size_t cols = m->w.cols, rows = m->w.rows;
    double *row = allocate(cols * sizeof *row);
    for (size_t r = 0; r < rows; r++) {
        const unsigned char *data = (const unsigned char *)m->w.data + r * dtype_bytes(m->w.dtype, cols);
        for (size_t c = 0; c < cols; c++) row[c] = weight_value(m->w.dtype, data, c);
        for (size_t t = 0; t < m->n; t++) {
            double sum = bias ? (double)bias[r] : 0, size = fabs(sum);
            for (size_t c = 0; c < cols; c++) {
                double term = row[c] * (double)m->x[t * cols + c];
                sum += term;
                size += fabs(term);
            }
            double got = (double)y[t * (rows + GAP) + r], error = bf16_error(rounding, m);
            double tolerance = ((error > 0 ? 3 : 1) * (double)cols + 2) * EPS * size + error * size;
            if (!m->whole) tolerance += block_error(rounding->largest_q, row, m->x + t * cols, cols);
            CHECK(fabs(got - sum) <= tolerance, "%s %s, row %zu, token %zu, %zu columns: %g against %g",
                  set->name, dtype_info(m->w.dtype)->name, r, t, cols, got, sum);
        }
    }
    free(row);
}

/* How many steps a product of n tokens has. */
static size_t steps(const Kernels *set, const Multiplication *m, size_t n) {
    return steps_of(product_of(set, m, n)->streams, m->w.rows);
}

/* y [n][y_stride] = steps [begin, end) of w · x, tokens [t, t + n), by way of pack; no float to spare. */
static void multiply(const Kernels *set, const Multiplication *m, const float *bias, size_t begin, size_t end,
                     size_t t, size_t n, float *y, size_t y_stride) {
    const Product *product = product_of(set, m, n);
    float *packed = allocate(n * m->w.cols * sizeof *packed);
    for (size_t i = 0; i * product->pack_tokens < n; i++)
        product->pack(packed, m->x + t * m->w.cols, n, m->w.cols, i);
    product->multiply(y, y_stride, &m->w, bias, begin, end, packed, n);
    free(packed);
}

/* Steps [begin, end) for n tokens have the bits that `all` has, and nothing else is touched. */
static void check_part(const Kernels *set, const Multiplication *p, const float *all, size_t begin,
                       size_t end, size_t n) {
    float y[MAX_TOKENS * (MAX_ROWS + GAP)];
    size_t stride = p->w.rows + GAP;
    for (size_t i = 0; i < n * stride; i++) y[i] = 1e30f;
    multiply(set, p, p->bias, begin, end, 0, n, y, stride);
    for (size_t i = 0; i < n * stride; i++) {
        size_t row = i % stride, step = row % steps(set, p, n);
        int inside = row < p->w.rows && step >= begin && step < end;
        CHECK(same_bits(y[i], inside ? all[i] : 1e30f), "%s %s: steps [%zu, %zu), %zu tokens, %zu columns",
              set->name, dtype_info(p->w.dtype)->name, begin, end, n, p->w.cols);
    }
}

static void check_matmul(DType dtype, size_t cols) {
    Multiplication p = multiplication_new(dtype, MAX_ROWS, cols, MAX_TOKENS);
    enum { STRIDE = MAX_ROWS + GAP };
    float all[MAX_TOKENS * STRIDE], each[MAX_TOKENS * STRIDE];
    for (size_t s = 0; s < n_sets; s++) {
        size_t most = sets[s]->products[dtype].matvec_tokens, counted = steps(sets[s], &p, 1);
        Multiplication first = p;
        first.n = most;
        multiply(sets[s], &p, NULL, 0, MAX_ROWS, 0, MAX_TOKENS, all, STRIDE);
        check_multiplication(sets[s], &p, NULL, all, MAX_TOKENS);
        multiply(sets[s], &p, p.bias, 0, MAX_ROWS, 0, MAX_TOKENS, all, STRIDE);
        check_multiplication(sets[s], &p, p.bias, all, MAX_TOKENS);
        for (size_t n = most + 1; n <= MAX_TOKENS; n++) {
            for (size_t rows = 1; rows <= MAX_ROWS; rows++) {
                check_part(sets[s], &p, all, 0, rows, n);
                check_part(sets[s], &p, all, MAX_ROWS - rows, MAX_ROWS, n);
            }
            check_part(sets[s], &p, all, 7, 7, n);
        }
        for (size_t t = 0; t < most; t++)
            multiply(sets[s], &p, p.bias, 0, counted, t, 1, each + t * STRIDE, STRIDE);
        check_multiplication(sets[s], &first, p.bias, each, 1);
        for (size_t begin = 0; begin < counted; begin++)
            for (size_t end = begin + 1; end <= counted; end++) check_part(sets[s], &p, each, begin, end, 1);
        for (size_t n = 2; n <= most; n++) {
            check_part(sets[s], &p, each, 0, counted, n);
            check_part(sets[s], &p, each, counted / 3, counted / 2, n);
        }
    }
    multiplication_free(&p);
}

static void test_matmul(void) {
    static const size_t wide[] = {511, 512, 513, 1100}; /* around a panel, and over two of them */
    for (size_t d = 0; d < N_DTYPES; d++) {
        size_t block = dtype_info(dtypes[d])->block, narrow = block == 1 ? 70 : 96;
        for (size_t cols = block; cols <= narrow; cols += block) check_matmul(dtypes[d], cols);
        for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
            check_matmul(dtypes[d], (wide[i] + block - 1) / block * block);
    }
}

/* A chunk of tokens that is too large for one block of any cache, and each of its tokens alone. */
static void test_matmul_chunk(void) {
    enum { ROWS = 41, COLS = 2144, TOKENS = 101, STRIDE = ROWS + GAP, SOME = 20, SOME_ROWS = 35 };
    for (size_t d = 0; d < N_DTYPES; d++) {
        Multiplication p = multiplication_new(dtypes[d], ROWS, COLS, TOKENS);
        float *all = allocate(TOKENS * STRIDE * sizeof *all), some[SOME * STRIDE];
        for (size_t s = 0; s < n_sets; s++) {
            multiply(sets[s], &p, p.bias, 0, ROWS, 0, TOKENS, all, STRIDE);
            check_multiplication(sets[s], &p, p.bias, all, TOKENS);
            for (size_t t = 0; t + SOME <= TOKENS; t += 27) { /* 17: a tile of 16 and a lone one */
                size_t n = t ? SOME : 17;
                multiply(sets[s], &p, p.bias, 0, SOME_ROWS, t, n, some, STRIDE);
                for (size_t i = 0; i < n; i++)
                    CHECK(memcmp(some + i * STRIDE, all + (t + i) * STRIDE, SOME_ROWS * sizeof *all) == 0,
                          "%s %s: token %zu", sets[s]->name, dtype_info(dtypes[d])->name, t + i);
            }
            for (size_t t = 0; t < TOKENS; t++)
                multiply(sets[s], &p, p.bias, 0, steps(sets[s], &p, 1), t, 1, all + t * STRIDE, STRIDE);
            check_multiplication(sets[s], &p, p.bias, all, 1);
        }
        free(all);
        multiplication_free(&p);
    }
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
 * integers must be exact.
 */
static void test_matmul_of_whole_numbers(void) {
    enum { ROWS = 37, TOKENS = 13, STRIDE = ROWS + GAP };
    static const size_t wide[] = {32, 256, 1120};
    for (size_t d = 0; d < N_DTYPES; d++)
        for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
            Multiplication p = multiplication_new(dtypes[d], ROWS, wide[i], TOKENS);
            float y[TOKENS * STRIDE];
            p.whole = true;
            for (size_t s = 0; s < n_sets; s++) {
                int largest = largest_exact(sets[s], &p);
                for (size_t j = 0; j < TOKENS * wide[i]; j++)
                    p.x[j] = (float)(j % 32 ? (int)(random_bits() % (2 * (unsigned)largest + 1)) - largest
                                            : largest);
                multiply(sets[s], &p, p.bias, 0, ROWS, 0, TOKENS, y, STRIDE);
                check_multiplication(sets[s], &p, p.bias, y, TOKENS);
                for (size_t t = 0; t < TOKENS; t++)
                    multiply(sets[s], &p, p.bias, 0, steps(sets[s], &p, 1), t, 1, y + t * STRIDE, STRIDE);
                check_multiplication(sets[s], &p, p.bias, y, 1);
            }
            multiplication_free(&p);
        }
}

/* What is not finite stays so, however x is packed; what is very small does no harm. */
static void test_matmul_of_odd_numbers(void) {
    enum { ROWS = 5, COLS = 96, TOKENS = 11, STRIDE = ROWS + GAP };
    static const float odd[] = {INFINITY, -INFINITY, NAN};
    for (size_t d = 0; d < N_DTYPES; d++) {
        Multiplication p = multiplication_new(dtypes[d], ROWS, COLS, TOKENS);
        float y[TOKENS * STRIDE];
        for (size_t s = 0; s < n_sets; s++)
            for (size_t n = 1; n <= TOKENS; n += TOKENS - 1) {
                for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
                    p.x[(n - 1) * COLS + 40] = odd[i];
                    multiply(sets[s], &p, NULL, 0, steps(sets[s], &p, n), 0, n, y, STRIDE);
                    for (size_t r = 0; r < ROWS; r++)
                        CHECK(!isfinite(y[(n - 1) * STRIDE + r]), "%s %s: %g of %g", sets[s]->name,
                              dtype_info(dtypes[d])->name, (double)y[(n - 1) * STRIDE + r], (double)odd[i]);
                }
                for (size_t c = 0; c < COLS; c++) p.x[(n - 1) * COLS + c] = c < 64 ? 0x1p-149f : 0;
                multiply(sets[s], &p, NULL, 0, steps(sets[s], &p, n), 0, n, y, STRIDE);
                for (size_t r = 0; r < ROWS; r++) CHECK_NEAR(y[(n - 1) * STRIDE + r], 0, 0x1p-130);
            }
        multiplication_free(&p);
    }
}

/* Three matrices at once, with room to pack `room` tokens, give the bits of each alone, for any number of threads. */
static void check_linear_forward(const Kernels *set, unsigned n_threads, size_t cols, size_t n, size_t room) {
    static const size_t rows[3] = {37, 5, 150};
    static const DType kinds[3] = {DTYPE_F32, DTYPE_Q4_0, DTYPE_F16};
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
    float *packed = allocate(room * cols * sizeof *packed);
    linear_forward(&(Compute){set, threads, packed, room * cols}, outputs, 3, x, n);
    free(packed);
    for (size_t i = 0; i < 3; i++) {
        memcpy(p[i].x, x, n * cols * sizeof *x);
        multiply(set, &p[i], linears[i].bias, 0, steps(set, &p[i], n), 0, n, alone, rows[i]);
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
            check_linear_forward(sets[s], counts[i], 96, 1, 1); /* little work: one piece */
            check_linear_forward(sets[s], counts[i], 96, 5, 5);
            check_linear_forward(sets[s], counts[i], 96, 11, 11);
            check_linear_forward(sets[s], counts[i], 96, 22, 11); /* a room that holds not all */
            check_linear_forward(sets[s], counts[i], 2048, 1, 1);
        }
    }
}

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

/* Strides are larger than they must be, and what lies between the rows stays as it is. */
static void check_weighted_sums(const Kernels *set, DType dtype, size_t n, size_t n_v, size_t d) {
    size_t z_stride = d + 3, p_stride = n_v + 1, v_stride = d + 2;
    bool split = set->sums_bf16 && n >= 16 && d % 16 == 0; /* amx_sums.h */
    float *p = allocate(n * p_stride * sizeof *p), *start = allocate(n * z_stride * sizeof *start);
    float *z = allocate(n * z_stride * sizeof *z);
    unsigned char *v = allocate(dtype_bytes(dtype, n_v * v_stride) + 1);
    random_floats(p, n * p_stride);
    for (size_t t = 0; t < n; t++) p[t * p_stride + n_v] = NAN; /* belongs to nobody */
    random_floats(start, n * z_stride);
    random_weights(v, dtype, n_v * v_stride);
    memcpy(z, start, n * z_stride * sizeof *z);
    set->weighted_sums(z, z_stride, p, p_stride, n, dtype, v, v_stride, n_v, d);
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < z_stride; i++) {
            double sum = (double)start[t * z_stride + i], size = fabs(sum);
            for (size_t j = 0; j < n_v && i < d; j++) {
                double term = (double)p[t * p_stride + j] * weight_value(dtype, v, j * v_stride + i);
                sum += term;
                size += fabs(term);
            }
            double tolerance = i < d ? ((double)(split ? 3 : 1) * (double)n_v + 2) * EPS * size : 0;
            if (split && i < d) tolerance += 3 * 0x1p-15 * size;
            CHECK_NEAR(z[t * z_stride + i], sum, tolerance);
        }
    free(p);
    free(start);
    free(z);
    free(v);
}

static void test_weighted_sums(void) {
    static const DType caches[] = {DTYPE_F32, DTYPE_F16};
    for (size_t s = 0; s < n_sets; s++)
        for (size_t k = 0; k < 2; k++) {
            for (size_t d = 1; d <= 140; d++) check_weighted_sums(sets[s], caches[k], d % 15 + 1, d % 34, d);
            for (size_t n = 1; n <= 70; n++) check_weighted_sums(sets[s], caches[k], n, 64, 64);
            for (size_t n = 15; n <= 80; n += 11) /* whole tiles, parts of them, several blocks */
                for (size_t d = 16; d <= 144; d += 32)
                    check_weighted_sums(sets[s], caches[k], n, n + d / 16, d);
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

static double gelu_value(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

/* The rounding of u moves tanh by less than 2·EPS, and 1 + tanh is rounded once more: 4·EPS of |x| in all. */
static void test_gelu(void) {
    enum { N = 40003 };
    float *x = allocate(N * sizeof *x), *y = allocate((N + 1) * sizeof *y);
    mixed_sizes(x, N, 15);
    x[0] = 0;
    x[1] = 1e20f;
    x[2] = -1e20f;
    for (size_t s = 0; s < n_sets; s++) {
        for (size_t n = N - 8; n <= N; n++) { /* every length of the last vector */
            memcpy(y, x, N * sizeof *x);
            y[n] = 7;
            sets[s]->gelu_tanh(y, n);
            for (size_t i = n == N ? 0 : n - 8; i < n; i++) {
                double off = fabs((double)y[i] - gelu_value((double)x[i]));
                CHECK(off <= 4 * EPS * fabs((double)x[i]) + 0x1p-149, "%s: gelu(%a) = %a", sets[s]->name,
                      (double)x[i], (double)y[i]);
            }
            CHECK(y[n] == 7, "%s writes past %zu", sets[s]->name, n);
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
            const Rounding *rounding = &kernels_product(exact, dtypes[d], n, 32)->rounding;
            bool to_8_bits = (rounding->largest_q && rounding->largest_q < 32639) || rounding->x_bf16 == 1;
            CHECK(!to_8_bits, "%s was not asked for", exact->name);
        }
    CHECK(kernels_pick("scalar", &error) == kernels_set(0), "%s", error.message);
    CHECK(n_sets > 0 && fastest == sets[n_sets - 1], "the table of sets begins with the slowest");
    CHECK(kernels_set(SIZE_MAX) == NULL, "beyond the table");
    CHECK(kernels_pick("sse9", &error) == NULL, "there is no such set");
    CHECK(strstr(error.message, "sse9") && strstr(error.message, "scalar"), "%s", error.message);
    CHECK(strstr(error.message, fastest->name) && strstr(error.message, exact->name), "%s", error.message);
}

int main(void) {
    find_sets();
    RUN(test_dtype_info);
    RUN(test_every_half);
    RUN(test_floats_to_halves);
    RUN(test_blocks_by_hand);
    RUN(test_unpack);
    RUN(test_matmul);
    RUN(test_matmul_chunk);
    RUN(test_matmul_of_whole_numbers);
    RUN(test_matmul_of_odd_numbers);
    RUN(test_linear_forward);
    RUN(test_add_scale);
    RUN(test_weighted_sums);
    RUN(test_max);
    RUN(test_exp);
    RUN(test_softmax_rows);
    RUN(test_gelu);
    RUN(test_silu_mul);
    RUN(test_norms);
    RUN(test_kernels_pick);
    free(sets);
    return test_end();
}
