/*
 * The number formats, read plainly and by every kernel set that this CPU runs, compared with formulas in double that are
 * written here once more, and with ggml's own reader. They must be right to the bit. Pointers are unaligned on purpose.
 */
#include "checkpoint/checkpoint.h"
#include "open.h"
#include "tests/weights.h"

/* The half nearest to a finite x, ties to even, as a double. */
static double nearest_half(float x) {
    if (x == 0) return (double)x;
    int exponent = ilogb((double)x) < -14 ? -14 : ilogb((double)x);
    double step = ldexp(1, exponent - 10);
    double nearest = rint((double)x / step) * step;
    return fabs(nearest) > 65504 ? copysign((double)INFINITY, nearest) : nearest;
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

/* Random blocks, scales that are not finite among them, and what ggml's own reader makes of them (scripts/expect/blocks.py). */
static void test_unpack_as_ggml(void) {
    Error error;
    Checkpoint *checkpoint = checkpoint_open("tests/data/blocks.gguf", &error);
    CHECK(checkpoint, "%s", error.message);
    size_t n_types = 0;
    for (size_t k = 0; checkpoint && k < checkpoint_n_tensors(checkpoint); k += 2) {
        const Tensor *blocks = checkpoint_tensor(checkpoint, k), *floats = blocks + 1;
        const float *expected = floats->data;
        size_t n = (size_t)blocks->dims[0];
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

int main(void) {
    find_sets();
    RUN(test_dtype_info);
    RUN(test_every_half);
    RUN(test_floats_to_halves);
    RUN(test_blocks_by_hand);
    RUN(test_sparse_blocks_by_hand);
    RUN(test_unpack);
    RUN(test_unpack_as_ggml);
    free(sets);
    return test_end();
}
