/*
 * The KV cache against the formula of what it keeps, on every kernel set. Sums with weights of 0 and one 1 give each
 * number back as it was kept.
 */
#include "layers/kv_cache.h"
#include "tests/test.h"

#include <stdint.h>

#if defined(__linux__)
enum { SHARES = 1 };
#else
enum { SHARES = 0 }; /* each cache has its own memory */
#endif
enum { HEADS = 2, POSITIONS = 150, MOST_DIMS = 256, ROWS = 64 };

static const size_t dims[] = {1, 7, 31, 33, 64, 80, MOST_DIMS};
static const DType types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
enum { N_DIMS = sizeof dims / sizeof *dims, N_TYPES = sizeof types / sizeof *types };

static float room[KEY_TILE * MOST_DIMS];
static float keys[POSITIONS * HEADS * MOST_DIMS], values[POSITIONS * HEADS * MOST_DIMS];

static uint64_t random_state = 88172645463325252u;

/* In [-1, 1) times a power of 2, by Marsaglia 2003, "Xorshift RNGs". */
static float random_float(int exponent) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return ldexpf((float)(random_state >> 40) * 0x1p-23f - 1.0f, exponent);
}

/* Blocks of one vector differ in size, some far beyond what F16 holds; some are all zero. */
static void random_vectors(float *x, size_t d_head, DType dtype) {
    int exponent = 0;
    for (size_t i = 0; i < POSITIONS * HEADS * d_head; i++) {
        if (i % d_head % 32 == 0) exponent = (int)(random_float(0) * (dtype == DTYPE_F16 ? 10 : 90));
        x[i] = exponent % 13 == 12 ? 0 : random_float(exponent);
    }
}

static KvCache open_cache(DType dtype, size_t d_head, const Kernels *kernels) {
    KvCache cache;
    Error error;
    if (!kv_cache_open(&cache, dtype, HEADS, d_head, POSITIONS, kernels, &error)) exit(2);
    return cache;
}

/* Stores positions [begin, end) of all heads, n at a time. */
static void store(const KvCache *cache, size_t begin, size_t end, size_t n) {
    size_t stride = HEADS * cache->d_head;
    for (size_t i = begin, m; i < end; i += m) {
        m = end - i < n ? end - i : n;
        for (size_t head = 0; head < HEADS; head++) {
            size_t at = i * stride + head * cache->d_head;
            kv_store(cache, head, i, keys + at, values + at, stride, m);
        }
    }
}

/* A float to its nearest BF16; of two the even one. */
static float to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The kept number i of a vector x [d_head] may lie so far from the number itself; sums may have rounded it to BF16. */
static void check_number(const KvCache *cache, const float *x, size_t i, bool bf16, float kept,
                         const char *what) {
    const size_t d_head = cache->d_head;
    const DType dtype = cache->dtype;
    double largest = 0, number = (double)x[i];
    size_t first = i / 32 * 32;
    int exponent;
    for (size_t j = first; j < d_head && j < first + 32; j++) largest = fmax(largest, fabs((double)x[j]));
    if (dtype == DTYPE_F32) CHECK(kept == x[i], "%s %zu of %zu", what, i, d_head);
    if (dtype == DTYPE_F16) {
        float half = f16_to_f32(f32_to_f16(x[i]));
        CHECK(kept == (bf16 ? to_bf16(half) : half), "%s %zu of %zu: %g for %g", what, i, d_head,
              (double)kept, number);
    }
    if (dtype != DTYPE_Q8_0) return;
    double step = frexp((double)((float)largest / 127), &exponent);
    step = ldexp(ceil(ldexp(step, 8)), exponent - 8); /* BF16 has 8 bits */
    CHECK(fabs((double)kept - number) <= step / 2 * (1 + 1e-6), "%s %zu of %zu: %g for %g, step %g", what, i,
          d_head, (double)kept, number, step);
    CHECK(step == 0 || fmod((double)kept, step) == 0, "%s %zu of %zu: %g is between steps of %g", what, i,
          d_head, (double)kept, step);
}

static void check_keys(const KvCache *cache, size_t head, size_t begin, size_t end) {
    static float ones[ROWS * MOST_DIMS], scores[ROWS * KEY_TILE];
    size_t d_head = cache->d_head;
    for (size_t first = begin / KEY_TILE * KEY_TILE; first < end; first += KEY_TILE)
        for (size_t i = 0, n; i < d_head; i += n) {
            n = d_head - i < ROWS ? d_head - i : ROWS;
            memset(ones, 0, sizeof ones);
            for (size_t row = 0; row < n; row++) ones[row * d_head + i + row] = 1;
            kv_scores(cache, head, first, ones, n, true, room, scores);
            for (size_t at = first > begin ? first : begin; at < end && at < first + KEY_TILE; at++)
                for (size_t row = 0; row < n; row++)
                    check_number(cache, keys + (at * HEADS + head) * d_head, i + row,
                                 cache->kernels->sums_bf16 == 1, scores[row * KEY_TILE + at - first], "key");
        }
}

static void check_values(const KvCache *cache, size_t head, size_t begin, size_t end) {
    static float pattern[KEY_TILE * KEY_TILE], z[KEY_TILE * MOST_DIMS];
    size_t d_head = cache->d_head;
    for (size_t first = begin / KEY_TILE * KEY_TILE; first < end; first += KEY_TILE) {
        size_t n = end - first < KEY_TILE ? end - first : KEY_TILE;
        memset(pattern, 0, sizeof pattern);
        memset(z, 0, sizeof z);
        for (size_t row = 0; row < n; row++) pattern[row * KEY_TILE + row] = 1;
        kv_add_values(cache, head, first, n, pattern, n, true, room, z);
        for (size_t row = first < begin ? begin - first : 0; row < n; row++)
            for (size_t i = 0; i < d_head; i++)
                check_number(cache, values + ((first + row) * HEADS + head) * d_head, i,
                             cache->kernels->sums_bf16 == 1 && d_head % 16 == 0, z[row * d_head + i],
                             "value");
    }
}

static void for_each_cache(void (*check)(DType dtype, size_t d_head, const Kernels *kernels)) {
    for (size_t set = 0; kernels_set(set); set++)
        for (size_t i = 0; i < N_DIMS * N_TYPES && kernels_pick(kernels_set(set)->name, NULL); i++)
            check(types[i % N_TYPES], dims[i / N_TYPES], kernels_set(set));
}

/* Positions that are written again, as after a rewind, change no others. */
static void check_kept(DType dtype, size_t d_head, const Kernels *kernels) {
    KvCache cache = open_cache(dtype, d_head, kernels);
    for (int again = 0; again < 2; again++) {
        size_t begin = again ? 50 : 0, end = again ? 70 : POSITIONS, stride = HEADS * d_head;
        static float fresh[2][POSITIONS * HEADS * MOST_DIMS];
        random_vectors(fresh[0], d_head, dtype);
        random_vectors(fresh[1], d_head, dtype);
        memcpy(keys + begin * stride, fresh[0], (end - begin) * stride * sizeof *keys);
        memcpy(values + begin * stride, fresh[1], (end - begin) * stride * sizeof *values);
        store(&cache, begin, end, 17);
    }
    for (size_t head = 0; head < HEADS; head++) {
        check_keys(&cache, head, 0, POSITIONS);
        check_values(&cache, head, 0, POSITIONS);
    }
    kv_cache_close(&cache);
}

static void test_what_is_kept(void) { for_each_cache(check_kept); }

/* However many are stored together, the cache holds the same bytes. */
static void check_pieces(DType dtype, size_t d_head, const Kernels *kernels) {
    static const size_t pieces[] = {1, 5, 16, 63};
    random_vectors(keys, d_head, dtype);
    random_vectors(values, d_head, dtype);
    KvCache whole = open_cache(dtype, d_head, kernels);
    store(&whole, 0, POSITIONS, POSITIONS);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        KvCache cache = open_cache(dtype, d_head, kernels);
        store(&cache, 0, POSITIONS, pieces[i]);
        CHECK(memcmp(whole.tiles, cache.tiles, whole.n_bytes) == 0, "%s, d_head %zu, %zu at a time",
              kernels->name, d_head, pieces[i]);
        kv_cache_close(&cache);
    }
    kv_cache_close(&whole);
}

static void test_pieces(void) { for_each_cache(check_pieces); }

/* Σ over many numbers in double, of q or a pattern with what the cache says it keeps. */
static void check_sums(DType dtype, size_t d_head, const Kernels *kernels) {
    static float q[ROWS * MOST_DIMS], scores[ROWS * KEY_TILE], pattern[ROWS * KEY_TILE], z[ROWS * MOST_DIMS],
        ones[KEY_TILE * KEY_TILE], kept[KEY_TILE * MOST_DIMS];
    size_t n = 3 + d_head % 62, n_keys = 41;
    for (size_t i = 0; i < POSITIONS * HEADS * d_head; i++) keys[i] = values[i] = random_float(0);
    for (size_t i = 0; i < n * d_head; i++) q[i] = random_float(0), z[i] = random_float(0);
    for (size_t i = 0; i < n * KEY_TILE; i++) pattern[i] = random_float(0);
    KvCache cache = open_cache(dtype, d_head, kernels);
    store(&cache, 0, POSITIONS, 40);
    memset(ones, 0, sizeof ones);
    memset(kept, 0, sizeof kept);
    for (size_t i = 0; i < KEY_TILE; i++) ones[i * KEY_TILE + i] = 1;
    kv_add_values(&cache, 1, KEY_TILE, KEY_TILE, ones, KEY_TILE, true, room, kept);
    double split = kernels->sums_bf16 == 2 && n > PACKED_TOKENS    ? 0x1p-13
                   : kernels->sums_bf16 == 1 && dtype != DTYPE_F32 ? 0x1p-8
                                                                   : 0;
    double tolerance = ((double)(d_head + KEY_TILE) * 0x1p-24 + split);
    static float before[ROWS * MOST_DIMS];
    memcpy(before, z, sizeof z);
    kv_scores(&cache, 1, KEY_TILE, q, n, n <= PACKED_TOKENS, room, scores);
    kv_add_values(&cache, 1, KEY_TILE, n_keys, pattern, n, n <= PACKED_TOKENS, room, z);
    for (size_t t = 0; t < n; t++) {
        for (size_t key = 0; key < KEY_TILE; key++) { /* keys are the values */
            double sum = 0;
            for (size_t i = 0; i < d_head; i++)
                sum += (double)q[t * d_head + i] * (double)kept[key * d_head + i];
            CHECK_NEAR(scores[t * KEY_TILE + key], sum, tolerance * (double)d_head);
        }
        for (size_t i = 0; i < d_head; i++) {
            double sum = (double)before[t * d_head + i];
            for (size_t key = 0; key < n_keys; key++)
                sum += (double)pattern[t * KEY_TILE + key] * (double)kept[key * d_head + i];
            CHECK_NEAR(z[t * d_head + i], sum, tolerance * (double)(n_keys + 1));
        }
    }
    kv_cache_close(&cache);
}

static void test_sums(void) { for_each_cache(check_sums); }

/* A number that is not finite makes sums that are not, of its own position alone. */
static void check_not_finite(DType dtype, size_t d_head, const Kernels *kernels) {
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static float q[MOST_DIMS], scores[KEY_TILE], z[2 * MOST_DIMS], pattern[2 * KEY_TILE];
    uint32_t last_nan = 0x7fffffff;
    for (size_t i = 0; i < d_head; i++) q[i] = 0.5f;
    for (size_t i = 0; i < KEY_TILE; i++) pattern[i] = i != 20, pattern[KEY_TILE + i] = i == 20;
    for (size_t which = 0; which < 4; which++) {
        for (size_t i = 0; i < POSITIONS * HEADS * d_head; i++) keys[i] = values[i] = random_float(0);
        size_t at = 20 * HEADS * d_head + which * (d_head - 1) / 3;
        keys[at] = which < 3 ? bad[which] : 0;
        if (which == 3) memcpy(keys + at, &last_nan, sizeof last_nan);
        values[at] = keys[at];
        KvCache cache = open_cache(dtype, d_head, kernels);
        store(&cache, 0, KEY_TILE, 16);
        kv_scores(&cache, 0, 0, q, 1, true, room, scores);
        for (size_t key = 0; key < KEY_TILE; key++)
            CHECK(!isfinite(scores[key]) == (key == 20), "%s, d_head %zu: key %zu gives %g", kernels->name,
                  d_head, key, (double)scores[key]);
        bool finite[2] = {true, true};
        memset(z, 0, sizeof z);
        kv_add_values(&cache, 0, 0, 20, pattern, 1, true, room, z);
        kv_add_values(&cache, 0, 0, KEY_TILE, pattern + KEY_TILE, 1, true, room, z + d_head);
        for (size_t i = 0; i < 2 * d_head; i++) finite[i / d_head] = finite[i / d_head] && isfinite(z[i]);
        CHECK(finite[0] && !finite[1], "%s, d_head %zu: values", kernels->name, d_head);
        kv_cache_close(&cache);
    }
}

static void test_not_finite(void) { for_each_cache(check_not_finite); }

/* Whether the sums over the first n positions of both have the same bits. */
static bool sums_alike(const KvCache *a, const KvCache *b, size_t n, const float *q) {
    static float scores[2][KEY_TILE], z[2][MOST_DIMS];
    bool alike = true;
    for (size_t head = 0; head < HEADS; head++)
        for (size_t first = 0; first < n; first += KEY_TILE) {
            size_t n_keys = n - first < KEY_TILE ? n - first : KEY_TILE;
            for (size_t k = 0; k < 2; k++) {
                memset(z[k], 0, sizeof z[k]);
                memset(room, 0xff, sizeof room); /* NaN */
                kv_scores(k ? b : a, head, first, q, 1, true, room, scores[k]);
                kv_add_values(k ? b : a, head, first, n_keys, scores[k], 1, true, room, z[k]);
            }
            alike = alike && memcmp(scores[0], scores[1], n_keys * sizeof **scores) == 0 &&
                    memcmp(z[0], z[1], a->d_head * sizeof **z) == 0;
        }
    return alike;
}

/*
 * A text that goes on behind a share, token by token or several at once, goes back, is shared again, copied or settled, gives the
 * sums that a cache of its own gives; `n_tails` counts the looks at a tail.
 */
static void check_tail(DType dtype, size_t d_head, const Kernels *kernels) {
    static float q[MOST_DIMS];
    size_t n_tails = 0;
    KvCache plain = open_cache(dtype, d_head, kernels), base = open_cache(dtype, d_head, kernels),
            fork = open_cache(dtype, d_head, kernels), longer;
    if (!kv_cache_open(&longer, dtype, HEADS, d_head, 2 * POSITIONS, kernels, NULL)) exit(2);
    for (size_t i = 0; i < d_head; i++) q[i] = random_float(0);
    for (size_t i = 0; i < POSITIONS * HEADS * d_head; i++) keys[i] = values[i] = random_float(0);
    store(&plain, 0, POSITIONS, POSITIONS);
    store(&base, 0, POSITIONS, POSITIONS);
    for (size_t round = 0; round < 40; round++) {
        size_t begin = (size_t)((random_float(0) + 1) * 32) + (round % 2 ? 40 : 65), n = begin;
        kv_cache_share(&fork, &base, begin);
        while (n < POSITIONS) {
            size_t m = 1 + (size_t)((random_float(0) + 1) * (round % 3 ? 4 : 20)),
                   back = round % 5 == 4 ? 2 : 0;
            if (n >= begin + 2 * back) n -= back;
            if (m > POSITIONS - n) m = POSITIONS - n;
            for (size_t i = n * HEADS * d_head; i < (n + m) * HEADS * d_head; i++)
                keys[i] = values[i] = random_float(0);
            store(&plain, n, n + m, m);
            kv_cache_change(&fork, n, m);
            store(&fork, n, n + m, m);
            n += m;
            n_tails += fork.tail != NULL;
            CHECK(sums_alike(&plain, &fork, n, q), "%s, type %d, d_head %zu: %zu behind %zu", kernels->name,
                  (int)dtype, d_head, n - begin, begin);
            if (round % 7 == 6) kv_cache_settle(&fork);
            if (round % 7 != 5 || n < begin + 5) continue;
            kv_cache_share(&longer, &fork, n);
            CHECK(sums_alike(&plain, &longer, n, q) && sums_alike(&plain, &fork, n, q),
                  "%s, type %d, d_head %zu: copied", kernels->name, (int)dtype, d_head);
        }
        kv_cache_change(&base, begin, POSITIONS - begin);
        store(&base, begin, POSITIONS, POSITIONS);
    }
    CHECK(n_tails > 0 || !SHARES || 2 * HEADS * kv_bytes(dtype, d_head) * KEY_TILE < 1 << 16,
          "no tail of d_head %zu", d_head);
    kv_cache_close(&plain);
    kv_cache_close(&base);
    kv_cache_close(&fork);
    kv_cache_close(&longer);
}

static void test_tail(void) { for_each_cache(check_tail); }

static void test_bytes(void) {
    static const struct {
        DType dtype;
        size_t d_head, bytes;
    } cases[] = {{DTYPE_F32, 64, 256}, {DTYPE_F16, 64, 128}, {DTYPE_F16, 7, 14},  {DTYPE_Q8_0, 64, 68},
                 {DTYPE_Q8_0, 1, 3},   {DTYPE_Q8_0, 33, 37}, {DTYPE_Q8_0, 80, 86}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        KvCache cache = open_cache(cases[i].dtype, cases[i].d_head, kernels_set(0));
        CHECK(kv_bytes(cases[i].dtype, cases[i].d_head) == cases[i].bytes, "%zu: %zu", i,
              kv_bytes(cases[i].dtype, cases[i].d_head));
        CHECK(cache.n_room == 192 && cache.n_bytes == 2 * HEADS * cases[i].bytes * 192, "%zu", cache.n_bytes);
        kv_cache_close(&cache);
    }
}

static void test_too_much(void) {
    static const size_t positions[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 200};
    for (size_t i = 0; i < 3; i++) {
        KvCache cache;
        Error error;
        CHECK(!kv_cache_open(&cache, DTYPE_Q8_0, HEADS, 64, positions[i], kernels_set(0), &error), "%zu", i);
        CHECK(strstr(error.message, "ask for a smaller context"), "%s", error.message);
        kv_cache_close(&cache);
    }
}

int main(void) {
    RUN(test_what_is_kept);
    RUN(test_pieces);
    RUN(test_sums);
    RUN(test_not_finite);
    RUN(test_tail);
    RUN(test_bytes);
    RUN(test_too_much);
    return test_end();
}
