/*
 * Every kernel set that this CPU runs, compared with formulas in double that are written here once more.
 * What need not be rounded must be right to the bit. Sizes are odd and pointers unaligned on purpose.
 */
#include "checkpoint/checkpoint.h"
#include "kernels/kernels.h"
#include "tests/test.h"

#include <stdint.h>

#define EPS 0x1p-24 /* the rounding of one float operation, relative */

static const DType dtypes[] = {DTYPE_F32,  DTYPE_F16,    DTYPE_BF16,   DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0,
                               DTYPE_Q5_1, DTYPE_Q8_0,   DTYPE_Q2_K,   DTYPE_Q3_K, DTYPE_Q4_K, DTYPE_Q5_K,
                               DTYPE_Q6_K, DTYPE_IQ4_NL, DTYPE_IQ4_XS, DTYPE_MXFP4};
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

/* A weight is whole − min; min is 0 where the format has none. Products may be summed apart. */
typedef struct Weight {
    double whole, min;
} Weight;

/* Bits [shift, shift + n) of a byte. */
static int bits_of(unsigned char byte, size_t shift, int n) { return byte >> shift & ((1 << n) - 1); }

/* The half at a byte. */
static double half_at(const unsigned char *bytes) { return half_value(u16_at(bytes)); }

static double signed_byte(unsigned char byte) { return byte < 128 ? byte : byte - 256; }

/* Nibble i of 32 in 16 bytes: the low ones come first. */
static int nibble(const unsigned char *bytes, size_t i) { return bits_of(bytes[i % 16], i / 16 * 4, 4); }

/* Bit i of 32. */
static int bit(const unsigned char *bytes, size_t i) { return bits_of(bytes[i / 8], i % 8, 1); }

/* E2M1: a sign, two bits of exponent, one of fraction. OCP Microscaling Formats 1.0, section 5.3.3. */
static double e2m1_value(int code) {
    int exponent = code >> 1 & 3, fraction = code & 1;
    double magnitude = exponent ? ldexp(1 + fraction / 2.0, exponent - 1) : fraction / 2.0;
    return code & 8 ? -magnitude : magnitude;
}

static double iq4_value(int code) {
    static const int values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return values[code];
}

/* Weight i < 256 of a large block, from ggml's ggml-common.h. */
static Weight large_value(DType dtype, const unsigned char *at, size_t i) {
    size_t half = i / 128, quarter = i % 128 / 32, span = i / 32, j = i % 32;
    const unsigned char *six = at + 4, *qs = at + (dtype == DTYPE_Q5_K ? 48 : 16);
    int q = 0, scale = 0, min = 0, s = (int)(i / 16);
    switch (dtype) {
    case DTYPE_Q2_K:
        q = bits_of(at[16 + 32 * half + j], 2 * quarter, 2);
        return (Weight){half_at(at + 80) * bits_of(at[s], 0, 4) * q, half_at(at + 82) * bits_of(at[s], 4, 4)};
    case DTYPE_Q3_K:
        q = bits_of(at[32 + 32 * half + j], 2 * quarter, 2) + 4 * bits_of(at[j], span, 1) - 4;
        scale = s < 8 ? at[96 + s] & 15 : at[96 + s - 8] >> 4;
        scale += 16 * bits_of(at[96 + 8 + s % 4], (size_t)(s / 4 * 2), 2);
        return (Weight){half_at(at + 108) * (scale - 32) * q, 0};
    case DTYPE_Q4_K:
    case DTYPE_Q5_K:
        scale = span < 4 ? six[span] & 63 : (six[span + 4] & 15) + 16 * (six[span - 4] >> 6);
        min = span < 4 ? six[span + 4] & 63 : (six[span + 4] >> 4) + 16 * (six[span] >> 6);
        q = bits_of(qs[32 * (span / 2) + j], span % 2 * 4, 4);
        if (dtype == DTYPE_Q5_K) q += 16 * bits_of(at[16 + j], span, 1);
        return (Weight){half_at(at) * scale * q, half_at(at + 2) * min};
    case DTYPE_Q6_K:
        q = bits_of(at[64 * half + 32 * (quarter % 2) + j], quarter / 2 * 4, 4) +
            16 * bits_of(at[128 + 32 * half + j], 2 * quarter, 2) - 32;
        return (Weight){half_at(at + 208) * signed_byte(at[192 + s]) * q, 0};
    default: /* IQ4_XS */
        scale = bits_of(at[4 + span / 2], span % 2 * 4, 4) + 16 * (int)(u16_at(at + 2) >> 2 * span & 3) - 32;
        return (Weight){half_at(at) * scale * iq4_value(nibble(at + 8 + 16 * span, j)), 0};
    }
}

/* Weight i of a row at data, from the text of the formats. */
static Weight weight_value(DType dtype, const unsigned char *data, size_t i) {
    const DTypeInfo *info = dtype_info(dtype);
    size_t j = i % info->block;
    const unsigned char *at = data + i / info->block * info->block_bytes;
    float f32;
    switch (dtype) {
    case DTYPE_F32: memcpy(&f32, at, 4); return (Weight){(double)f32, 0};
    case DTYPE_F16: return (Weight){half_at(at), 0};
    case DTYPE_BF16: return (Weight){(double)float_of_bits((uint32_t)u16_at(at) << 16), 0};
    case DTYPE_Q8_0: return (Weight){half_at(at) * signed_byte(at[2 + j]), 0};
    case DTYPE_Q4_0: return (Weight){half_at(at) * (nibble(at + 2, j) - 8), 0};
    case DTYPE_Q4_1: return (Weight){half_at(at) * nibble(at + 4, j), -half_at(at + 2)};
    case DTYPE_Q5_0: return (Weight){half_at(at) * (nibble(at + 6, j) + 16 * bit(at + 2, j) - 16), 0};
    case DTYPE_Q5_1:
        return (Weight){half_at(at) * (nibble(at + 8, j) + 16 * bit(at + 4, j)), -half_at(at + 2)};
    case DTYPE_IQ4_NL: return (Weight){half_at(at) * iq4_value(nibble(at + 2, j)), 0};
    case DTYPE_MXFP4: return (Weight){ldexp(e2m1_value(nibble(at + 1, j)), at[0] - 127), 0};
    default: return large_value(dtype, at, j);
    }
}

/* Where the halves of a block lie that scale its weights, and exponents for which no weight is larger than about 2. */
typedef struct Halves {
    unsigned n, at[2], high[2]; /* high: of the upper byte, without sign and the two bits of fraction */
} Halves;

static Halves halves_of(DType dtype) {
    switch (dtype) {
    case DTYPE_F16: return (Halves){1, {0}, {0x38}};
    case DTYPE_Q4_0: return (Halves){1, {0}, {0x2c}};
    case DTYPE_Q4_1: return (Halves){2, {0, 2}, {0x2c, 0x34}};
    case DTYPE_Q5_0: return (Halves){1, {0}, {0x28}};
    case DTYPE_Q5_1: return (Halves){2, {0, 2}, {0x28, 0x34}};
    case DTYPE_Q8_0:
    case DTYPE_IQ4_NL: return (Halves){1, {0}, {0x1c}};
    case DTYPE_Q2_K: return (Halves){2, {80, 82}, {0x24, 0x2c}};
    case DTYPE_Q3_K: return (Halves){1, {108}, {0x20}};
    case DTYPE_Q4_K: return (Halves){2, {0, 2}, {0x14, 0x24}};
    case DTYPE_Q5_K: return (Halves){2, {0, 2}, {0x10, 0x24}};
    case DTYPE_Q6_K: return (Halves){1, {208}, {0x0c}};
    case DTYPE_IQ4_XS: return (Halves){1, {0}, {0x0c}};
    default: return (Halves){0};
    }
}

/* Random rows of n weights, none larger than about 2. */
static void random_weights(unsigned char *data, DType dtype, size_t n) {
    const DTypeInfo *info = dtype_info(dtype);
    const Halves halves = halves_of(dtype);
    for (size_t b = 0; b < n / info->block; b++) {
        unsigned char *at = data + b * info->block_bytes;
        float value = random_float();
        uint32_t bits;
        memcpy(&bits, &value, 4);
        for (size_t i = 0; i < info->block_bytes; i++) at[i] = (unsigned char)random_bits();
        for (size_t i = 0; i < halves.n; i++) {
            unsigned char *high = at + halves.at[i] + 1;
            *high = (unsigned char)((*high & 0x83) | halves.high[i]);
        }
        if (dtype == DTYPE_F32) memcpy(at, &value, 4);
        if (dtype == DTYPE_BF16) memcpy(at, (char *)&bits + 2, 2);
        if (dtype == DTYPE_MXFP4) at[0] = (unsigned char)(122 + random_bits() % 4);
    }
}

static void test_dtype_info(void) {
    static const struct {
        uint32_t number;
        const char *name;
        size_t block, bytes;
    } known[] = {
        {0, "F32", 1, 4},       {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},    {3, "Q4_1", 32, 20},
        {6, "Q5_0", 32, 22},    {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},    {10, "Q2_K", 256, 84},
        {11, "Q3_K", 256, 110}, {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176}, {14, "Q6_K", 256, 210},
        {20, "IQ4_NL", 32, 18}, {23, "IQ4_XS", 256, 136}, {30, "BF16", 1, 2},     {39, "MXFP4", 32, 17},
    };
    size_t n_known = 0;
    for (uint32_t number = 0; number < 300; number++) {
        const DTypeInfo *info = dtype_info(number);
        if (!info) continue;
        CHECK(n_known < N_DTYPES && known[n_known].number == number, "%u is supported", number);
        if (n_known >= N_DTYPES) return;
        CHECK(strcmp(info->name, known[n_known].name) == 0, "%s", info->name);
        CHECK(info->block == known[n_known].block, "%s: %zu", info->name, info->block);
        CHECK(info->block_bytes == known[n_known].bytes, "%s: %zu", info->name, info->block_bytes);
        CHECK(dtype_bytes((DType)number, 768) == 768 / info->block * info->block_bytes, "%s", info->name);
        CHECK(dtype_is_quantised((DType)number) == (info->block > 1), "%s", info->name);
        n_known++;
    }
    CHECK(n_known == N_DTYPES, "%zu", n_known);
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

/* A block that is zero but for some bytes, and some of its weights. */
typedef struct SparseBlock {
    DType dtype;
    struct {
        unsigned char at, byte;
    } bytes[12]; /* ends with 0 at 0 */
    struct {
        unsigned char i;
        float weight;
    } weights[4];
} SparseBlock;

static void test_sparse_blocks_by_hand(void) {
    static const SparseBlock blocks[] = {
        /* d ½, m −2 */
        {DTYPE_Q4_1, {{1, 0x38}, {3, 0xc0}, {7, 0x5f}}, {{0, -2}, {3, 5.5f}, {19, 0.5f}, {31, -2}}},
        /* d ½; fifth bits of 3 and 31 */
        {DTYPE_Q5_0, {{1, 0x38}, {2, 8}, {5, 128}, {9, 0x21}}, {{0, -8}, {3, 0.5f}, {19, -7}, {31, 0}}},
        /* d ½, m 1 */
        {DTYPE_Q5_1,
         {{1, 0x38}, {3, 0x3c}, {4, 8}, {7, 128}, {11, 0x21}},
         {{0, 1}, {3, 9.5f}, {19, 2}, {31, 9}}},
        /* d 1, d_min ½; span 9 has scale 3 and min 5, span 15 scale 2 */
        {DTYPE_Q2_K,
         {{81, 0x3c}, {83, 0x38}, {9, 0x53}, {15, 0x02}, {70, 0xe2}},
         {{0, 0}, {144, -2.5f}, {150, 3.5f}, {246, 6}}},
        /* d ½; span 2 has scale 1, the others −32; 37 has its third bit */
        {DTYPE_Q3_K,
         {{109, 0x38}, {5, 2}, {37, 0x0c}, {98, 1}, {106, 2}},
         {{0, 64}, {32, -2}, {37, 1.5f}, {165, 64}}},
        /* d 1, d_min ½; span 1 has scale 3 and min 7, span 6 scale 17 and min 50 */
        {DTYPE_Q4_K,
         {{1, 0x3c}, {3, 0x38}, {5, 3}, {9, 7}, {14, 0x21}, {6, 0x40}, {10, 0xc0}, {24, 0xa0}, {120, 2}},
         {{0, 0}, {32, -3.5f}, {40, 26.5f}, {200, 9}}},
        /* likewise; 200 has its fifth bit */
        {DTYPE_Q5_K,
         {{1, 0x3c},
          {3, 0x38},
          {5, 3},
          {9, 7},
          {14, 0x21},
          {6, 0x40},
          {10, 0xc0},
          {24, 0x40},
          {56, 0xa0},
          {152, 2}},
         {{0, 0}, {32, -3.5f}, {40, 26.5f}, {200, 281}}},
        /* d ½; span 8 has scale 3, span 12 scale −2 */
        {DTYPE_Q6_K,
         {{209, 0x38}, {200, 3}, {204, 0xfe}, {72, 0x50}, {168, 0x30}},
         {{0, 0}, {136, -48}, {200, -21}, {201, 32}}},
        /* d ½ */
        {DTYPE_IQ4_NL, {{1, 0x38}, {5, 0x0f}}, {{0, -63.5f}, {3, 56.5f}, {19, -63.5f}, {31, -63.5f}}},
        /* d ½; span 5 has scale 1, the others −32 */
        {DTYPE_IQ4_XS,
         {{1, 0x38}, {3, 0x08}, {6, 0x10}, {96, 0x0f}},
         {{0, 2032}, {168, 56.5f}, {184, -63.5f}, {255, 2032}}},
        /* 2 */
        {DTYPE_MXFP4, {{0, 128}, {4, 0x7f}, {16, 0x10}}, {{0, 0}, {3, -12}, {19, 12}, {31, 1}}},
    };
    for (size_t s = 0; s < n_sets; s++)
        for (const SparseBlock *block = blocks; block < blocks + sizeof blocks / sizeof *blocks; block++) {
            const DTypeInfo *info = dtype_info(block->dtype);
            unsigned char data[210] = {0};
            float w[256];
            for (size_t i = 0; i < 12; i++)
                if (block->bytes[i].byte) data[block->bytes[i].at] = block->bytes[i].byte;
            sets[s]->unpack(w, block->dtype, data, info->block);
            for (size_t i = 0; i < 4; i++) {
                float got = w[block->weights[i].i];
                CHECK(got == block->weights[i].weight, "%s %s [%d]: %g", sets[s]->name, info->name,
                      block->weights[i].i, (double)got);
            }
        }
}

static void test_unpack(void) {
    for (size_t d = 0; d < N_DTYPES; d++) {
        const DTypeInfo *info = dtype_info(dtypes[d]);
        size_t most = (info->block == 256 ? 9 : 70) * info->block;
        for (size_t n = info->block; n <= most; n += info->block) {
            size_t offset = dtypes[d] == DTYPE_F32 ? 4 : info->block_bytes % 2 ? 1 : 2;
            unsigned char *memory = allocate(offset + dtype_bytes(dtypes[d], n)); /* no byte to spare */
            unsigned char *data = memory + offset;
            random_weights(data, dtypes[d], n);
            float *w = allocate(n * sizeof *w);
            for (size_t s = 0; s < n_sets; s++) {
                sets[s]->unpack(w, dtypes[d], data, n);
                for (size_t i = 0; i < n; i++) {
                    Weight expected = weight_value(dtypes[d], data, i);
                    CHECK(w[i] == (float)(expected.whole - expected.min), "%s %s, %zu of %zu", sets[s]->name,
                          info->name, i, n);
                }
            }
            free(w);
            free(memory);
        }
    }
}

/* Random blocks, scales that are not finite among them, and what ggml's own reader makes of them (scripts/blocks.py). */
static void test_unpack_as_ggml(void) {
    Error error;
    Checkpoint *checkpoint = checkpoint_open("tests/data/blocks.gguf", &error);
    CHECK(checkpoint, "%s", error.message);
    size_t n_types = 0;
    for (size_t k = 0; checkpoint && k < checkpoint_n_tensors(checkpoint); k += 2) {
        const Tensor *blocks = checkpoint_tensor(checkpoint, k), *floats = blocks + 1;
        const float *expected = floats->data;
        size_t n = blocks->dims[0];
        float w[512];
        CHECK(n == 512 && floats->dims[0] == n && floats->dtype == DTYPE_F32, "tensor %zu", k);
        for (size_t s = 0; s < n_sets && n == 512; s++) {
            sets[s]->unpack(w, blocks->dtype, blocks->data, n);
            for (size_t i = 0; i < n; i++)
                CHECK(same_bits(w[i], expected[i]) || (isnan(w[i]) && isnan(expected[i])),
                      "%s %s, %zu: %a against %a", sets[s]->name, dtype_info(blocks->dtype)->name, i,
                      (double)w[i], (double)expected[i]);
        }
        n_types++;
    }
    CHECK(n_types == N_DTYPES - 3, "%zu types", n_types);
    checkpoint_close(checkpoint);
}

enum { MAX_ROWS = 37, MAX_TOKENS = 19, GAP = 5 };

/* What a matrix, its x and its y need; y has a stride larger than it must be. */
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

/* A token has the bits that it has alone in whatever company. Groups begin at different tokens. */
static void check_company(const Kernels *set, const Multiplication *p, const float *each, float *y) {
    size_t stride = p->w.rows + GAP;
    static const size_t together[] = {2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                      12, 13, 14, 15, 16, 17, 33, 48, 50, 101};
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
 * integers must be exact.
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
                    p.x[j] = (float)(j % 32 ? (int)(random_bits() % (2 * (unsigned)largest + 1)) - largest
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
            size_t block = random_bits() % (cols / 32), largest = random_bits() % 32;
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

/* What is not finite stays so, however x is packed, and changes no other token; what is very small does no harm. */
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

/* Three matrices at once, with room to pack `room` tokens, give the bits of each alone, for any number of threads. */
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
    float *packed = allocate(room * cols * sizeof *packed);
    linear_forward(&(Compute){set, threads, packed, room * cols}, outputs, 3, x, n);
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
            check_linear_forward(sets[s], counts[i], 256, 19, 32);
            check_linear_forward(sets[s], counts[i], 2048, 1, 16);
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

/* Number i of what weighted_sums takes: of Q8_0 that is the int8 alone. */
static double cached_value(DType dtype, const unsigned char *v, size_t i) {
    return dtype == DTYPE_Q8_0 ? signed_byte(v[i]) : weight_value(dtype, v, i).whole;
}

/* Strides are larger than they must be, and what lies between the rows stays as it is. */
static void check_weighted_sums(const Kernels *set, DType dtype, size_t n, size_t n_v, size_t d) {
    size_t z_stride = d + 3, p_stride = n_v + 1, v_stride = d + 2;
    bool split = set->sums_bf16 && n >= 16 && d % 16 == 0; /* amx_sums.h */
    float *p = allocate(n * p_stride * sizeof *p), *start = allocate(n * z_stride * sizeof *start);
    float *z = allocate(n * z_stride * sizeof *z);
    size_t v_bytes = dtype == DTYPE_Q8_0 ? n_v * v_stride : dtype_bytes(dtype, n_v * v_stride);
    unsigned char *v = allocate(v_bytes + 1);
    random_floats(p, n * p_stride);
    for (size_t t = 0; t < n; t++) p[t * p_stride + n_v] = NAN; /* belongs to nobody */
    random_floats(start, n * z_stride);
    if (dtype == DTYPE_Q8_0)
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
            CHECK_NEAR(z[t * z_stride + i], sum, tolerance);
        }
    free(values);
    free(p);
    free(start);
    free(z);
    free(v);
}

static void test_weighted_sums(void) {
    static const DType caches[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    for (size_t s = 0; s < n_sets; s++)
        for (size_t k = 0; k < 3; k++) {
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
            const Rounding *rounding = &kernels_product(exact, dtypes[d], n, 256)->rounding;
            bool to_8_bits = (rounding->largest_q && rounding->largest_q <= 127) || rounding->x_bf16 == 1;
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
    RUN(test_sparse_blocks_by_hand);
    RUN(test_unpack);
    RUN(test_unpack_as_ggml);
    RUN(test_matmul);
    RUN(test_matmul_chunk);
    RUN(test_company_changes_nothing);
    RUN(test_matmul_of_whole_numbers);
    RUN(test_matmul_of_two_numbers);
    RUN(test_matmul_of_all_sizes);
    RUN(test_matmul_of_odd_numbers);
    RUN(test_matmul_with_odd_scales);
    RUN(test_linear_forward);
    RUN(test_add_scale);
    RUN(test_add_scaled);
    RUN(test_fade_add);
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
