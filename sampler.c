/*
 * From logits to a token: penalties, temperature, softmax, filters, one draw. Arithmetic and order are
 * float, as in llama2.c (karpathy/llama2.c, run.c), so that its published samples can be reproduced.
 */
#include "sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct Sampler {
    SamplerOptions options;
    size_t n_vocab;
    uint64_t state;        /* of xorshift64* */
    float *p;              /* [n_vocab] */
    Candidate *candidates; /* [n_vocab] */
    int32_t *recent;       /* [penalty_window] ring of the last tokens */
    uint32_t *counts;      /* [n_vocab] how often each token is in it */
    size_t n_recent, next_recent;
};

Sampler *sampler_new(const SamplerOptions *options, size_t n_vocab, Error *error) {
    Sampler *sampler = calloc(1, sizeof *sampler);
    if (sampler) {
        *sampler =
            (Sampler){.options = *options, .n_vocab = n_vocab, .state = options->seed ? options->seed : 1};
        sampler->p = calloc(n_vocab, sizeof *sampler->p);
        sampler->candidates = calloc(n_vocab, sizeof *sampler->candidates);
        if (options->penalty_window < SIZE_MAX)
            sampler->recent = calloc(options->penalty_window + 1, sizeof *sampler->recent);
        sampler->counts = calloc(n_vocab, sizeof *sampler->counts);
        if (sampler->p && sampler->candidates && sampler->recent && sampler->counts) return sampler;
    }
    error_set(error, "not enough memory to sample from %zu tokens and remember %zu", n_vocab,
              options->penalty_window);
    sampler_free(sampler);
    return NULL;
}

void sampler_free(Sampler *sampler) {
    if (!sampler) return;
    free(sampler->p);
    free(sampler->candidates);
    free(sampler->recent);
    free(sampler->counts);
    free(sampler);
}

void sampler_accept(Sampler *sampler, int32_t id) {
    size_t window = sampler->options.penalty_window;
    if (window == 0) return;
    if (sampler->n_recent == window)
        sampler->counts[sampler->recent[sampler->next_recent]]--;
    else
        sampler->n_recent++;
    sampler->counts[id]++;
    sampler->recent[sampler->next_recent] = id;
    sampler->next_recent = (sampler->next_recent + 1) % window;
}

uint32_t random_draw(uint64_t *state) {
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return (uint32_t)((x * 0x2545F4914F6CDD1Dull) >> 32);
}

/* 24 bits as a float in [0, 1). */
static float draw_float(uint64_t *state) { return (float)(random_draw(state) >> 8) / 16777216.0f; }

static bool penalises(const SamplerOptions *options) {
    return options->repeat_penalty != 1 || options->presence_penalty != 0 || options->frequency_penalty != 0;
}

/* Each recent token pays repeat and presence once, and frequency for every time it occurs. */
static void penalise(const Sampler *sampler, float *logits) {
    const SamplerOptions *options = &sampler->options;
    for (size_t id = 0; id < sampler->n_vocab; id++) {
        if (sampler->counts[id] == 0) continue;
        if (logits[id] > 0)
            logits[id] /= options->repeat_penalty;
        else
            logits[id] *= options->repeat_penalty;
        logits[id] -= options->presence_penalty + options->frequency_penalty * (float)sampler->counts[id];
    }
}

static int32_t likeliest(const float *p, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (p[i] > p[best]) best = i;
    return (int32_t)best;
}

static void softmax(float *x, size_t n, float temperature) {
    float sum = 0;
    for (size_t i = 0; i < n; i++) x[i] /= temperature;
    float max = x[likeliest(x, n)];
    for (size_t i = 0; i < n; i++) {
        x[i] = expf(x[i] - max);
        sum += x[i];
    }
    for (size_t i = 0; i < n; i++) x[i] /= sum;
}

/* Likelier first; of equals the lower id. */
static int by_probability(const void *a, const void *b) {
    const Candidate *x = a, *y = b;
    if (x->p != y->p) return x->p > y->p ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Moves the k ≤ n likeliest of n candidates to the front, in any order (Hoare 1961, algorithm 65: FIND). */
static void select_top(Candidate *candidates, size_t n, size_t k) {
    ptrdiff_t low = 0, high = (ptrdiff_t)n - 1, last = (ptrdiff_t)k - 1;
    while (low < high) {
        Candidate pivot = candidates[last];
        ptrdiff_t i = low, j = high;
        while (i <= j) {
            while (by_probability(&candidates[i], &pivot) < 0) i++;
            while (by_probability(&candidates[j], &pivot) > 0) j--;
            if (i > j) break;
            Candidate swap = candidates[i];
            candidates[i++] = candidates[j];
            candidates[j--] = swap;
        }
        if (j < last) low = i;
        if (last < i) high = j;
    }
}

static bool keeps_top_k(const Sampler *sampler) {
    return sampler->options.top_k > 0 && sampler->options.top_k < sampler->n_vocab;
}

static bool keeps_top_p(const SamplerOptions *options) { return options->top_p > 0 && options->top_p < 1; }

/*
 * Returns what the filters keep, likeliest first. Tokens that cannot pass are left out before the sort, unless
 * top-k chooses among all tokens.
 */
static Candidates filter(const Sampler *sampler) {
    const SamplerOptions *options = &sampler->options;
    const float *p = sampler->p;
    Candidate *candidates = sampler->candidates;
    size_t n_vocab = sampler->n_vocab, n = 0;
    bool top_k = keeps_top_k(sampler), top_p = keeps_top_p(options);
    float best = p[likeliest(p, n_vocab)], floor = options->min_p * best;

    /* All tokens below (1 − top_p)/(n_vocab − 1) together weigh too little for top_p to keep any. */
    float cut = top_p && !top_k ? (1.0f - options->top_p) / (float)(n_vocab - 1) : 0;
    if (!top_k && cut < floor) cut = floor;
    if (!(cut <= best)) cut = best;
    for (size_t i = 0; i < n_vocab; i++)
        if (p[i] >= cut) candidates[n++] = (Candidate){p[i], (int32_t)i};
    if (top_k) {
        select_top(candidates, n, options->top_k);
        n = options->top_k;
    }
    qsort(candidates, n, sizeof *candidates, by_probability);

    float whole = 1; /* what top_p is a share of: the mass that top_k left */
    if (top_k) {
        whole = 0;
        for (size_t i = 0; i < n; i++) whole += candidates[i].p;
    }
    Candidates kept = {candidates, 0, 0};
    while (kept.n < n) {
        if (kept.n > 0 && candidates[kept.n].p < floor) break;
        kept.mass += candidates[kept.n++].p;
        if (top_p && kept.mass > options->top_p * whole) break;
    }
    return kept;
}

Candidates sampler_candidates(Sampler *sampler, const float *logits) {
    const SamplerOptions *options = &sampler->options;
    size_t n_vocab = sampler->n_vocab;
    float *p = sampler->p;
    Candidate *candidates = sampler->candidates;
    memcpy(p, logits, n_vocab * sizeof *p);
    if (penalises(options)) penalise(sampler, p);
    int32_t best = likeliest(p, n_vocab);
    if (options->temperature == 0 || !isfinite(p[best] / options->temperature)) {
        candidates[0] = (Candidate){1, best};
        return (Candidates){candidates, 1, 1};
    }
    softmax(p, n_vocab, options->temperature);
    if (options->top_k > 0 || keeps_top_p(options) || options->min_p > 0) return filter(sampler);
    for (size_t i = 0; i < n_vocab; i++) candidates[i] = (Candidate){p[i], (int32_t)i};
    return (Candidates){candidates, n_vocab, 1};
}

void sampler_skip(Sampler *sampler, size_t n) {
    while (n-- > 0) random_draw(&sampler->state);
}

int32_t sampler_next(Sampler *sampler, const float *logits) {
    Candidates candidates = sampler_candidates(sampler, logits);
    float coin = draw_float(&sampler->state), sum = 0;
    for (size_t i = 0; i < candidates.n; i++)
        if (coin * candidates.mass < (sum += candidates.items[i].p)) return candidates.items[i].id;
    return candidates.items[candidates.n - 1].id; /* rounding left the sum below the coin */
}

double sampler_logprob(const float *logits, size_t n_vocab, int32_t id) {
    double max = (double)logits[likeliest(logits, n_vocab)], sum = 0;
    for (size_t i = 0; i < n_vocab; i++) sum += exp((double)logits[i] - max);
    return (double)logits[id] - max - log(sum);
}
