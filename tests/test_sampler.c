/*
 * The sampler against the definitions in sampler.h, computed here by brute force in double: penalties,
 * softmax, and filters over a fully sorted list. The generator's first values come from Python, so every
 * single draw is known beforehand. The limits of each option alone are in closed form.
 */
#include "sampler.h"
#include "test.h"

#include <float.h>
#include <stdbool.h>

enum { MAX_VOCAB = 1000 };

/* If a coin is closer than this to the edge between two tokens, either may be drawn: sums are floats. */
static const double EDGE = 1e-5;

static const SamplerOptions PLAIN = {.temperature = 1, .repeat_penalty = 1, .penalty_window = 64, .seed = 42};

static Sampler *new_sampler(const SamplerOptions *options, size_t n_vocab) {
    Error error;
    Sampler *sampler = sampler_new(options, n_vocab, &error);
    CHECK(sampler != NULL, "%s", error.message);
    if (!sampler) exit(1);
    return sampler;
}

/* One draw of a sampler that has been told the n_recent tokens. */
static int32_t draw_once(const SamplerOptions *options, const float *logits, size_t n_vocab,
                         const int32_t *recent, size_t n_recent) {
    Sampler *sampler = new_sampler(options, n_vocab);
    for (size_t i = 0; i < n_recent; i++) sampler_accept(sampler, recent[i]);
    int32_t id = sampler_next(sampler, logits);
    sampler_free(sampler);
    return id;
}

static double next_coin(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (double)(*state * 0x2545F4914F6CDD1Dull >> 40) / 16777216;
}

/* The tokens that may be drawn, in the order in which the coin passes over it; p adds up to 1. */
typedef struct Expected {
    int32_t ids[MAX_VOCAB];
    double logits[MAX_VOCAB], p[MAX_VOCAB];
    size_t n;
} Expected;

static void penalise(Expected *e, const SamplerOptions *options, const int32_t *recent, size_t n_recent) {
    size_t first = n_recent > options->penalty_window ? n_recent - options->penalty_window : 0;
    for (size_t i = 0; i < e->n; i++) {
        size_t count = 0;
        for (size_t j = first; j < n_recent; j++) count += recent[j] == e->ids[i];
        if (count == 0) continue;
        double repeat = (double)options->repeat_penalty, *logit = &e->logits[i];
        *logit = *logit > 0 ? *logit / repeat : *logit * repeat;
        *logit -= (double)options->presence_penalty + (double)options->frequency_penalty * (double)count;
    }
}

static void sort_likeliest_first(Expected *e) {
    for (size_t i = 1; i < e->n; i++)
        for (size_t j = i; j > 0; j--) {
            double *logits = &e->logits[j];
            int32_t *ids = &e->ids[j];
            if (logits[0] < logits[-1] || (logits[0] == logits[-1] && ids[0] > ids[-1])) break;
            double logit = logits[0];
            int32_t id = ids[0];
            logits[0] = logits[-1], ids[0] = ids[-1];
            logits[-1] = logit, ids[-1] = id;
        }
}

static void softmax(Expected *e) {
    double max = -INFINITY, sum = 0;
    for (size_t i = 0; i < e->n; i++) max = fmax(max, e->logits[i]);
    for (size_t i = 0; i < e->n; i++) sum += e->p[i] = exp(e->logits[i] - max);
    for (size_t i = 0; i < e->n; i++) e->p[i] /= sum;
}

static Expected expect(const SamplerOptions *options, const float *logits, size_t n_vocab,
                       const int32_t *recent, size_t n_recent) {
    const uint64_t usual = 0x54321; /* penalties, top-k, top-p, min-p, temperature */
    Expected e = {.n = n_vocab};
    double top_p = (double)options->top_p, mass = 0;
    bool by_mass = top_p > 0 && top_p < 1;
    for (size_t i = 0; i < n_vocab; i++) e.ids[i] = (int32_t)i, e.logits[i] = (double)logits[i];
    for (uint64_t order = options->order ? options->order : usual; order; order >>= 4) {
        switch (order & 15) {
        case STEP_PENALTIES: penalise(&e, options, recent, n_recent); break;
        case STEP_TOP_K:
            if (options->top_k == 0 || options->top_k >= e.n) break;
            sort_likeliest_first(&e);
            e.n = options->top_k;
            break;
        case STEP_TOP_P:
            if (!by_mass) break;
            sort_likeliest_first(&e);
            softmax(&e);
            mass = 0;
            for (size_t i = 0; i < e.n; i++)
                if ((mass += e.p[i]) > top_p) e.n = i + 1;
            break;
        case STEP_MIN_P:
            if (options->min_p <= 0) break;
            sort_likeliest_first(&e);
            softmax(&e);
            while (e.n > 1 && e.p[e.n - 1] < (double)options->min_p * e.p[0]) e.n--;
            break;
        default:
            for (size_t i = 0; i < e.n; i++) e.logits[i] /= (double)options->temperature;
        }
        if (e.n < n_vocab) sort_likeliest_first(&e);
    }
    softmax(&e);
    return e;
}

/* Whether id is what the coin falls on, give or take EDGE. */
static bool falls_on(const Expected *e, double coin, int32_t id) {
    double from = 0;
    for (size_t i = 0; i < e->n; from += e->p[i++])
        if (e->ids[i] == id) return coin >= from - EDGE && coin < from + e->p[i] + EDGE;
    return false;
}

/* n_draws with these options, each compared with the one that the coin must give. */
static void check_draws(const char *what, const SamplerOptions *options, const float *logits, size_t n_vocab,
                        const int32_t *recent, size_t n_recent, size_t n_draws) {
    const Expected e = expect(options, logits, n_vocab, recent, n_recent);
    Sampler *sampler = new_sampler(options, n_vocab);
    uint64_t state = options->seed;
    for (size_t i = 0; i < n_recent; i++) sampler_accept(sampler, recent[i]);
    for (size_t i = 0; i < n_draws; i++) {
        double coin = next_coin(&state);
        int32_t id = sampler_next(sampler, logits);
        CHECK(falls_on(&e, coin, id), "%s: draw %zu: coin %.6f gave token %d", what, i, coin, (int)id);
        if (test_broken) break;
    }
    sampler_free(sampler);
}

/* Logits that look like a model's: a few likely tokens, a long tail, some equal. */
static void fill_logits(float *logits, size_t n_vocab) {
    uint64_t state = 7;
    for (size_t i = 0; i < n_vocab; i++) logits[i] = (float)(8 * next_coin(&state) - 5);
    for (size_t i = 9; i < n_vocab; i += 9) logits[i] = logits[i - 4];
}

static void test_greedy_takes_the_first_of_the_likeliest(void) {
    SamplerOptions options = PLAIN;
    options.temperature = 0;
    options.top_k = 3, options.top_p = 0.5f, options.min_p = 0.5f; /* of no consequence */
    CHECK(draw_once(&options, (float[]){-3, 2, -1, 2, 2}, 5, NULL, 0) == 1, "first of three");
    CHECK(draw_once(&options, (float[]){-3, -2, -1}, 3, NULL, 0) == 2, "the last");
    CHECK(draw_once(&options, (float[]){0, 0, 0}, 3, NULL, 0) == 0, "all equal");
    CHECK(draw_once(&options, (float[]){-FLT_MAX, FLT_MAX, 0}, 3, NULL, 0) == 1, "extremes");
}

/*
 * Equal logits of 2^16 tokens are exactly 2^−16 each, so that a draw shows the coin's first 16 bits.
 * The coins (x * 0x2545F4914F6CDD1D >> 40) were computed by a few lines of Python.
 */
static void test_coins_are_those_of_xorshift64star(void) {
    enum { N = 65536, N_COINS = 6 };
    static const uint64_t seeds[] = {1, 0, 42, 133742};
    static const int32_t coins[][N_COINS] = {
        {4711630, 11259814, 12177677, 5092376, 942489, 13133643},
        {4711630, 11259814, 12177677, 5092376, 942489, 13133643}, /* seed 0 is taken as 1 */
        {5688906, 13124075, 13256299, 15838407, 12824397, 14021388},
        {11849731, 10446788, 9034627, 8935217, 5501730, 14577920},
    };
    float *logits = calloc(N, sizeof *logits);
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        SamplerOptions options = PLAIN;
        options.seed = seeds[i];
        Sampler *sampler = new_sampler(&options, N);
        for (size_t j = 0; j < N_COINS; j++) {
            int32_t id = sampler_next(sampler, logits);
            CHECK(id == coins[i][j] >> 8, "seed %d, coin %zu: %d", (int)seeds[i], j, (int)id);
        }
        sampler_free(sampler);
    }
    free(logits);
}

/* 753 times 1/753 in floats is 0.999989; the first coin of this seed is 1 − 2^−24. */
static void test_a_coin_beyond_the_sum_takes_the_last(void) {
    static const float logits[753];
    SamplerOptions options = PLAIN;
    options.seed = 1574392;
    CHECK(draw_once(&options, logits, 753, NULL, 0) == 752, "not the last");
}

static void test_temperature_sharpens_and_flattens(void) {
    float logits[200];
    fill_logits(logits, 200);
    for (size_t i = 0; i < 5; i++) {
        SamplerOptions options = PLAIN;
        options.temperature = (float[]){0.1f, 0.5f, 1, 1.7f, 30}[i];
        check_draws("temperature", &options, logits, 200, NULL, 0, 2000);
    }
}

static void test_top_k_keeps_k_and_of_equals_the_lowest_ids(void) {
    SamplerOptions options = PLAIN;
    options.top_k = 2;
    const float logits[] = {1, 3, 3, 3, 2};
    int seen[5] = {0};
    Sampler *sampler = new_sampler(&options, 5);
    for (size_t i = 0; i < 1000; i++) seen[sampler_next(sampler, logits)]++;
    sampler_free(sampler);
    CHECK(seen[1] > 400 && seen[2] > 400 && seen[1] + seen[2] == 1000, "%d and %d of 1000", seen[1], seen[2]);

    float many[200];
    fill_logits(many, 200);
    for (size_t i = 0; i < 6; i++) {
        options.top_k = (size_t[]){1, 2, 40, 199, 200, 5000}[i];
        check_draws("top-k", &options, many, 200, NULL, 0, 1000);
    }
}

/* The tokens that 1000 draws show, as bits. */
static unsigned kept(const SamplerOptions *options, const float *logits, size_t n_vocab) {
    unsigned bits = 0;
    Sampler *sampler = new_sampler(options, n_vocab);
    for (size_t i = 0; i < 1000; i++) bits |= 1u << sampler_next(sampler, logits);
    sampler_free(sampler);
    return bits;
}

static void test_top_p_keeps_the_smallest_set_that_weighs_more(void) {
    SamplerOptions options = PLAIN;
    const float halves[] = {logf(2), logf(8), logf(1), logf(4), logf(1)}; /* 1/8, 1/2, 1/16, 1/4, 1/16 */
    const struct {
        float top_p;
        unsigned kept;
    } cases[] = {{0.49f, 0x02}, {0.51f, 0x0a}, {0.74f, 0x0a}, {0.76f, 0x0b}, {0.93f, 0x0f}, {0.95f, 0x1f},
                 {1, 0x1f},     {0, 0x1f},     {-1, 0x1f},    {2, 0x1f},     {1e-9f, 0x02}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        options.top_p = cases[i].top_p;
        unsigned bits = kept(&options, halves, 5);
        CHECK(bits == cases[i].kept, "top-p %g keeps %#x", (double)options.top_p, bits);
    }
    const float quarters[4] = {0};
    options.top_p = 0.5f; /* two quarters weigh just as much, not more */
    CHECK(kept(&options, quarters, 4) == 0x07, "three of four equals");
    options.top_p = 1e-9f;
    CHECK(kept(&options, quarters, 4) == 0x01, "one of four equals");
    CHECK(kept(&options, (float[]){0, 0, 0.01f, 0}, 4) == 0x04, "one that hardly stands out");
    options.top_p = 0.51f; /* four eighths stand beside one half: none is so light that it may be left out */
    CHECK(kept(&options, (float[]){0, 0, logf(4), 0, 0}, 5) == 0x05, "a half and an eighth");
}

static void test_top_p_is_a_share_of_what_top_k_left(void) {
    SamplerOptions options = PLAIN;
    const float logits[] = {logf(0.4f), logf(0.3f), logf(0.2f), logf(0.1f)};
    options.top_p = 0.5f;
    CHECK(kept(&options, logits, 4) == 0x03, "of all, 0.4 is too little");
    options.top_k = 2;
    CHECK(kept(&options, logits, 4) == 0x01, "of two, it is 4/7");
    options.top_p = 0.6f;
    CHECK(kept(&options, logits, 4) == 0x03, "4/7 is less than 0.6");
    options.top_p = 0.99f;
    CHECK(kept(&options, logits, 4) == 0x03, "nothing comes back that top-k dropped");
}

static void test_min_p_is_a_share_of_the_largest(void) {
    SamplerOptions options = PLAIN;
    const float logits[] = {logf(0.1f), logf(0.4f), logf(0.2f), logf(0.3f)};
    const struct {
        float min_p;
        unsigned kept;
    } cases[] = {{0, 0x0f},     {0.24f, 0x0f}, {0.26f, 0x0e}, {0.49f, 0x0e},   {0.51f, 0x0a},
                 {0.76f, 0x02}, {1, 0x02},     {1.5f, 0x02},  {INFINITY, 0x02}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        options.min_p = cases[i].min_p;
        unsigned bits = kept(&options, logits, 4);
        CHECK(bits == cases[i].kept, "min-p %g keeps %#x", (double)options.min_p, bits);
    }
    const float equal[4] = {0};
    CHECK(kept(&options, equal, 4) == 0x0f, "min-p 1 keeps equals");
    const float nans[4] = {NAN, NAN, NAN, NAN};
    unsigned bits = kept(&options, nans, 4);
    CHECK(bits && !(bits & (bits - 1)), "of no numbers %#x are kept", bits);
}

/* Token 0 leads token 1 by half; greedy shows on which side of that a penalty brings it. */
static void test_penalties_change_logits_by_this_much(void) {
    static const int32_t thrice[] = {0, 0, 0};
    const struct {
        float logits[2], repeat, presence, frequency;
        size_t times;
        int32_t next;
    } cases[] = {
        {{2, 1.5f}, 1.3f, 0, 0, 1, 0},   {{2, 1.5f}, 1.35f, 0, 0, 1, 1},   {{2, 1.5f}, 1.3f, 0, 0, 3, 0},
        {{-1, -1.5f}, 1.4f, 0, 0, 1, 0}, {{-1, -1.5f}, 1.6f, 0, 0, 1, 1},  {{0, -0.5f}, 50, 0, 0, 1, 0},
        {{2, 1.5f}, 1, 0.4f, 0, 3, 0},   {{2, 1.5f}, 1, 0.6f, 0, 1, 1},    {{2, 1.5f}, 1, 0, 0.2f, 2, 0},
        {{2, 1.5f}, 1, 0, 0.2f, 3, 1},   {{2, 1.5f}, 1, 0.2f, 0.2f, 1, 0}, {{2, 1.5f}, 1, 0.2f, 0.2f, 2, 1},
        {{1.5f, 2}, 0.7f, 0, 0, 1, 0},   {{1.5f, 2}, 1, -0.6f, 0, 1, 0},   {{2, 1.5f}, 2, 2, 2, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        SamplerOptions options = PLAIN;
        options.temperature = 0;
        options.repeat_penalty = cases[i].repeat;
        options.presence_penalty = cases[i].presence;
        options.frequency_penalty = cases[i].frequency;
        int32_t next = draw_once(&options, cases[i].logits, 2, thrice, cases[i].times);
        CHECK(next == cases[i].next, "case %zu gives token %d", i, (int)next);
    }
}

static void test_penalties_forget_what_left_the_window(void) {
    SamplerOptions options = PLAIN;
    options.temperature = 0, options.presence_penalty = 1, options.penalty_window = 3;
    const float logits[] = {2, 1.5f, -9};
    static const int32_t recent[] = {0, 2, 2, 2, 0, 2, 2, 2, 2};
    static const int32_t next[] = {0, 1, 1, 1, 0, 1, 1, 1, 0, 0};
    for (size_t n = 0; n < sizeof next / sizeof *next; n++)
        CHECK(draw_once(&options, logits, 3, recent, n) == next[n], "after %zu tokens", n);
    options.top_k = 1, options.order = STEP_TOP_K | STEP_PENALTIES << 4 | STEP_TEMPERATURE << 8;
    CHECK(draw_once(&options, logits, 3, recent, 1) == 0,
          "top-k before penalties leaves them nothing to choose");
    options.top_k = 2, options.order = STEP_TOP_K;
    Sampler *sampler = sampler_new(&options, 3, NULL);
    CHECK(sampler && sampler_candidates(sampler, logits).n == 2,
          "an order without temperature draws from all that are left");
    sampler_free(sampler);
    options.top_k = 0, options.order = 0, options.penalty_window = 0;
    CHECK(draw_once(&options, logits, 3, recent, 1) == 0, "no window");
}

static void test_all_options_apply_in_the_documented_order(void) {
    enum { N = 300 };
    float logits[N], copy[N];
    int32_t recent[100];
    fill_logits(logits, N);
    memcpy(copy, logits, sizeof copy);
    for (size_t i = 0; i < 100; i++) recent[i] = (int32_t)(i * i % N);
    SamplerOptions options = {.temperature = 0.9f,
                              .repeat_penalty = 1.2f,
                              .presence_penalty = 0.3f,
                              .frequency_penalty = 0.1f,
                              .penalty_window = 50};
    for (options.seed = 1; options.seed <= 64; options.seed++) {
        options.top_k = (size_t[]){0, 5, 40, 200}[options.seed % 4];
        options.top_p = (float[]){0, 0.3f, 0.8f, 0.95f}[options.seed / 4 % 4];
        options.min_p = (float[]){0, 0.02f, 0.1f, 0.5f}[options.seed / 16 % 4];
        check_draws("all", &options, logits, N, recent, 100, 200);
    }
    CHECK(memcmp(logits, copy, sizeof copy) == 0, "the logits were changed");
}

/* Every mix of filters, in the usual order and in others, against the brute force; then the greedy case. */
static void test_candidates_are_what_may_be_drawn(void) {
    enum { N = 300, N_ORDERS = 7 };
    static const uint64_t orders[N_ORDERS] = {0,       0x35,     0x12345, 0x425353,
                                              0x35124, 0x134212, 0x3}; /* back to front */
    float logits[N];
    int32_t recent[100];
    fill_logits(logits, N);
    for (size_t i = 0; i < 100; i++) recent[i] = (int32_t)(i * i % N);
    SamplerOptions options = PLAIN;
    options.temperature = 0.9f, options.repeat_penalty = 1.2f, options.presence_penalty = 0.3f;
    for (size_t mix = 0; mix < 64 * N_ORDERS; mix++) {
        options.order = orders[mix / 64];
        options.top_k = (size_t[]){0, 5, 40, 1000}[mix % 4];
        options.top_p = (float[]){0, 0.3f, 0.8f, 0.95f}[mix / 4 % 4];
        options.min_p = (float[]){0, 0.02f, 0.1f, 0.5f}[mix / 16 % 4];
        const Expected e = expect(&options, logits, N, recent, 100);
        Sampler *sampler = new_sampler(&options, N);
        for (size_t i = 0; i < 100; i++) sampler_accept(sampler, recent[i]);
        Candidates kept = sampler_candidates(sampler, logits);
        double sum = 0;
        CHECK(kept.n == e.n, "mix %zu keeps %zu, not %zu", mix, kept.n, e.n);
        for (size_t i = 0; i < e.n && !test_broken; i++) {
            CHECK(kept.items[i].id == e.ids[i], "mix %zu, %zu: token %d", mix, i, (int)kept.items[i].id);
            CHECK_NEAR(kept.items[i].p / kept.mass, e.p[i], 1e-6);
            sum += (double)kept.items[i].p;
        }
        CHECK_NEAR(kept.mass, sum, 1e-5);
        sampler_free(sampler);
    }
    options.temperature = 0, options.order = 0;
    Sampler *greedy = new_sampler(&options, N);
    Candidates kept = sampler_candidates(greedy, (float[N]){[17] = 1, [200] = 1});
    CHECK(kept.n == 1 && kept.items[0].id == 17, "%zu, first %d", kept.n, (int)kept.items[0].id);
    CHECK(kept.items[0].p == 1 && kept.mass == 1, "%g of %g", (double)kept.items[0].p, (double)kept.mass);
    sampler_free(greedy);
}

/* Chi-square of 100000 draws; 24.32 is exceeded by one seed in a thousand at 7 degrees of freedom. */
static void test_frequencies_are_the_probabilities(void) {
    enum { N = 8, N_DRAWS = 100000 };
    const float logits[N] = {0.3f, -1, 2, 1.1f, 0, -2.5f, 1.9f, 0.7f};
    size_t counts[N] = {0};
    double sum = 0, chi_square = 0;
    Sampler *sampler = new_sampler(&PLAIN, N);
    for (size_t i = 0; i < N_DRAWS; i++) counts[sampler_next(sampler, logits)]++;
    sampler_free(sampler);
    for (size_t i = 0; i < N; i++) sum += exp((double)logits[i]);
    for (size_t i = 0; i < N; i++) {
        double expected = N_DRAWS * exp((double)logits[i]) / sum;
        chi_square += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    }
    CHECK(chi_square < 24.32, "chi-square %.2f", chi_square);
}

static void test_seeds_make_the_text(void) {
    enum { N = 100, N_DRAWS = 50 };
    int32_t texts[3][N_DRAWS];
    float logits[N];
    fill_logits(logits, N);
    for (size_t i = 0; i < 3; i++) {
        SamplerOptions options = PLAIN;
        options.seed = (uint64_t[]){5, 5, 6}[i];
        Sampler *sampler = new_sampler(&options, N);
        for (size_t j = 0; j < N_DRAWS; j++) texts[i][j] = sampler_next(sampler, logits);
        sampler_free(sampler);
    }
    CHECK(memcmp(texts[0], texts[1], sizeof texts[0]) == 0, "one seed, two texts");
    CHECK(memcmp(texts[0], texts[2], sizeof texts[0]) != 0, "two seeds, one text");
}

/* Ascending, descending, all equal, organ pipe, its reverse, many equals: orders that trip selections. */
static void test_top_k_selects_from_any_order(void) {
    enum { N = MAX_VOCAB };
    static float logits[N];
    for (size_t order = 0; order < 6; order++)
        for (size_t i = 0; i < 7; i++) {
            for (size_t j = 0; j < N; j++) {
                size_t pipe = j < N / 2 ? j : N - 1 - j;
                logits[j] = (float)(size_t[]){j, N - j, 7, pipe, N - pipe, j * 37 % 11}[order] * 0.004f;
            }
            SamplerOptions options = PLAIN;
            options.top_k = (size_t[]){1, 2, 7, 40, 500, 998, 999}[i];
            char what[64];
            snprintf(what, sizeof what, "order %zu, top-k %zu", order, options.top_k);
            check_draws(what, &options, logits, N, NULL, 0, 200);
        }
}

static void test_one_token_is_always_drawn(void) {
    SamplerOptions options = PLAIN;
    const float logit = -4;
    for (size_t i = 0; i < 16; i++) {
        options.temperature = i & 1 ? 1.0f : 0;
        options.top_k = i & 2 ? 3 : 0;
        options.top_p = i & 4 ? 0.9f : 0;
        options.min_p = i & 8 ? 0.1f : 0;
        CHECK(draw_once(&options, &logit, 1, NULL, 0) == 0, "case %zu", i);
    }
}

/* Finite logits, however large, and any temperature: the likeliest token, which outweighs all others. */
static void test_extremes_do_not_overflow(void) {
    const float logits[][4] = {
        {1e30f, -1e30f, 1e29f, 0}, {3.3e38f, 1, -3.3e38f, 2}, {-3e38f, -3.3e38f, -3.1e38f, -3.2e38f}};
    const float temperatures[] = {1e-9f, 2e-6f, 0.01f, 0.8f, 1, 2};
    for (size_t i = 0; i < sizeof logits / sizeof *logits; i++)
        for (size_t j = 0; j < sizeof temperatures / sizeof *temperatures; j++)
            for (size_t filter = 0; filter < 8; filter++) {
                SamplerOptions options = PLAIN;
                options.temperature = temperatures[j];
                options.top_k = filter & 1 ? 2 : 0;
                options.top_p = filter & 2 ? 0.95f : 0;
                options.min_p = filter & 4 ? 0.1f : 0;
                int32_t id = draw_once(&options, logits[i], 4, NULL, 0);
                CHECK(id == 0, "logits %zu, temperature %g, filters %zu give token %d", i,
                      (double)temperatures[j], filter, (int)id);
            }
    SamplerOptions options = PLAIN;
    options.repeat_penalty = 0.01f;
    CHECK(draw_once(&options, (float[]){3, 1e38f, 5}, 3, (int32_t[]){1}, 1) == 1, "÷ 0.01 overflows");
}

static void test_logprob_is_log_softmax(void) {
    const float zeros[4] = {0}, thirds[] = {-100, -100 + logf(2)}, far[] = {1e30f, -1e30f, 0};
    CHECK_NEAR(sampler_logprob(zeros, 4, 2), -log(4), 1e-15);
    CHECK_NEAR(sampler_logprob(thirds, 2, 0), log(1.0 / 3), 1e-5); /* −100 + ln 2 is rounded to float */
    CHECK_NEAR(sampler_logprob(thirds, 2, 1), log(2.0 / 3), 1e-5);
    CHECK_NEAR(sampler_logprob(far, 3, 0), 0, 0);
    CHECK_NEAR(sampler_logprob(far, 3, 1), -2e30, 1e23);
    CHECK_NEAR(sampler_logprob(zeros, 1, 0), 0, 0);

    float logits[200];
    double sum = 0, mass = 0;
    fill_logits(logits, 200);
    for (size_t i = 0; i < 200; i++) sum += exp((double)logits[i]);
    for (int32_t id = 0; id < 200; id++) {
        CHECK_NEAR(sampler_logprob(logits, 200, id), (double)logits[id] - log(sum), 1e-12);
        mass += exp(sampler_logprob(logits, 200, id));
    }
    CHECK_NEAR(mass, 1, 1e-12);
}

int main(void) {
    RUN(test_greedy_takes_the_first_of_the_likeliest);
    RUN(test_coins_are_those_of_xorshift64star);
    RUN(test_a_coin_beyond_the_sum_takes_the_last);
    RUN(test_temperature_sharpens_and_flattens);
    RUN(test_top_k_keeps_k_and_of_equals_the_lowest_ids);
    RUN(test_top_p_keeps_the_smallest_set_that_weighs_more);
    RUN(test_top_p_is_a_share_of_what_top_k_left);
    RUN(test_min_p_is_a_share_of_the_largest);
    RUN(test_penalties_change_logits_by_this_much);
    RUN(test_penalties_forget_what_left_the_window);
    RUN(test_all_options_apply_in_the_documented_order);
    RUN(test_candidates_are_what_may_be_drawn);
    RUN(test_frequencies_are_the_probabilities);
    RUN(test_seeds_make_the_text);
    RUN(test_top_k_selects_from_any_order);
    RUN(test_one_token_is_always_drawn);
    RUN(test_extremes_do_not_overflow);
    RUN(test_logprob_is_log_softmax);
    return test_end();
}
