/*
 * From logits to a token: penalties, filters, temperature, softmax, one draw. Arithmetic is float, and each softmax adds
 * in the order of ids, as in llama2.c (karpathy/llama2.c, run.c), so that its published samples can be reproduced.
 */
#include "sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct Sampler {
    SamplerOptions options;
    size_t n_vocab;
    uint64_t state;                /* of xorshift64* */
    Candidate *candidates, *spare; /* [n_vocab] */
    int32_t *recent;               /* [penalty_window] ring of the last tokens */
    uint32_t *counts;              /* [n_vocab] how often each token is in it */
    size_t n_recent, next_recent;
};

enum {
    USUAL_ORDER =
        STEP_PENALTIES | STEP_TOP_K << 4 | STEP_TOP_P << 8 | STEP_MIN_P << 12 | STEP_TEMPERATURE << 16
};

static uint64_t order_of(const SamplerOptions *options) {
    return options->order ? options->order : USUAL_ORDER;
}

/* Whether a step's options leave it anything to do. */
static bool is_on(const SamplerOptions *options, SamplerStep step) {
    switch (step) {
    case STEP_PENALTIES:
        return options->penalty_window > 0 &&
               (options->repeat_penalty != 1 || options->presence_penalty != 0 ||
                options->frequency_penalty != 0);
    case STEP_TOP_K: return options->top_k > 0;
    case STEP_TOP_P: return options->top_p > 0 && options->top_p < 1;
    case STEP_MIN_P: return options->min_p > 0;
    case STEP_TEMPERATURE: return options->temperature != 1;
    }
    return false;
}

bool sampler_does(const SamplerOptions *options, SamplerStep step) {
    uint64_t order = order_of(options);
    while (order && (order & 15) != (uint64_t)step) order >>= 4;
    return order && is_on(options, step);
}

Sampler *sampler_new(const SamplerOptions *options, size_t n_vocab, Error *error) {
    Sampler *sampler = calloc(1, sizeof *sampler);
    if (sampler) {
        *sampler =
            (Sampler){.options = *options, .n_vocab = n_vocab, .state = options->seed ? options->seed : 1};
        sampler->candidates = calloc(n_vocab, sizeof *sampler->candidates);
        sampler->spare = calloc(n_vocab, sizeof *sampler->spare);
        if (options->penalty_window < SIZE_MAX)
            sampler->recent = calloc(options->penalty_window + 1, sizeof *sampler->recent);
        sampler->counts = calloc(n_vocab, sizeof *sampler->counts);
        if (sampler->candidates && sampler->spare && sampler->recent && sampler->counts) return sampler;
    }
    error_set(error, "not enough memory to sample from %zu tokens and remember %zu", n_vocab,
              options->penalty_window);
    sampler_free(sampler);
    return NULL;
}

void sampler_free(Sampler *sampler) {
    if (!sampler) return;
    free(sampler->candidates);
    free(sampler->spare);
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

void sampler_forget(Sampler *sampler) {
    memset(sampler->counts, 0, sampler->n_vocab * sizeof *sampler->counts);
    sampler->n_recent = sampler->next_recent = 0;
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

/* The tokens that the steps have left so far. */
typedef struct Shortlist {
    Candidate *items, *spare; /* spare: room for as many */
    size_t n;
    bool sorted;  /* the likeliest first; otherwise by id */
    bool weighed; /* p is what the logits say */
    float mass;   /* of p, where weighed */
} Shortlist;

static float largest(const Shortlist *list) {
    if (list->sorted) return list->items[0].logit;
    float max = list->items[0].logit;
    for (size_t i = 1; i < list->n; i++)
        if (list->items[i].logit > max) max = list->items[i].logit;
    return max;
}

/* Likelier first; of equals the lower id. */
static int by_likelihood(const void *a, const void *b) {
    const Candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void keep_likeliest(Shortlist *list) {
    Candidate *best = list->items;
    for (size_t i = 1; i < list->n; i++)
        if (by_likelihood(&list->items[i], best) < 0) best = &list->items[i];
    list->items[0] = *best;
    list->items[0].p = 1;
    list->n = 1, list->mass = 1;
    list->sorted = list->weighed = true;
}

enum { DIGIT = 11, BINS = 1 << DIGIT, DIGITS = 3 };

/* A digit of a logit, as an integer that is the smaller the larger the logit is; the last digit comes first. */
static size_t digit_of(float logit, int digit) {
    int32_t bits;
    logit += 0.0f; /* −0 becomes 0 */
    memcpy(&bits, &logit, sizeof bits);
    uint32_t key = bits < 0 ? (uint32_t)bits : INT32_MAX - (uint32_t)bits;
    return key >> digit * DIGIT & (BINS - 1);
}

/* By digits, the last one first. Of equals the lower id was before the other, and stays there. */
static void sort(Shortlist *list) {
    for (int digit = 0; digit < DIGITS && !list->sorted; digit++) {
        size_t places[BINS] = {0};
        for (size_t i = 0; i < list->n; i++) places[digit_of(list->items[i].logit, digit)]++;
        for (size_t bin = 0, place = 0, n; bin < BINS; bin++, place += n)
            n = places[bin], places[bin] = place;
        for (size_t i = 0; i < list->n; i++)
            list->spare[places[digit_of(list->items[i].logit, digit)]++] = list->items[i];
        Candidate *items = list->spare;
        list->spare = list->items, list->items = items;
    }
    list->sorted = true;
}

/* Softmax of what is left. */
static void weigh(Shortlist *list) {
    if (list->weighed) return;
    float max = largest(list), sum = 0;
    for (size_t i = 0; i < list->n; i++) sum += list->items[i].p = expf(list->items[i].logit - max);
    for (size_t i = 0; i < list->n; i++) list->items[i].p /= sum;
    list->mass = 1, list->weighed = true;
}

/* Each recent token pays repeat and presence once, and frequency for every time it occurs. */
static void penalise(const Sampler *sampler, Shortlist *list) {
    const SamplerOptions *options = &sampler->options;
    for (size_t i = 0; i < list->n; i++) {
        Candidate *it = &list->items[i];
        uint32_t count = sampler->counts[it->id];
        if (count == 0) continue;
        it->logit = it->logit > 0 ? it->logit / options->repeat_penalty : it->logit * options->repeat_penalty;
        it->logit -= options->presence_penalty + options->frequency_penalty * (float)count;
    }
    list->weighed = false;
    if (list->sorted) qsort(list->items, list->n, sizeof *list->items, by_likelihood);
    if (!isfinite(largest(list))) keep_likeliest(list);
}

/* How far a logit lies behind the largest, in steps of 1/64, or so far that it does not matter. */
static size_t steps_behind(float largest, float logit) {
    float steps = (largest - logit) * 64;
    return steps < BINS - 1 ? (size_t)steps : BINS - 1;
}

/* Sorts only those that are not more steps behind than the k-th likeliest. */
static void keep_top_k(const Sampler *sampler, Shortlist *list) {
    size_t k = sampler->options.top_k;
    if (k >= list->n) return;
    if (!list->sorted) {
        size_t sizes[BINS] = {0}, last = 0, n = 0;
        float most = largest(list);
        for (size_t i = 0; i < list->n; i++) sizes[steps_behind(most, list->items[i].logit)]++;
        for (size_t sum = sizes[0]; sum < k; sum += sizes[++last]) continue;
        for (size_t i = 0; i < list->n; i++)
            if (steps_behind(most, list->items[i].logit) <= last) list->items[n++] = list->items[i];
        list->n = n;
        sort(list);
    }
    list->n = k, list->weighed = false;
}

/* All tokens below (1 − top_p)/(n − 1) together weigh too little for top_p to keep any: the others are sorted. */
static void keep_top_p(const Sampler *sampler, Shortlist *list) {
    float top_p = sampler->options.top_p, mass = 0;
    if (list->mass < 1) list->weighed = false; /* an earlier top-p has left less */
    weigh(list);
    if (!list->sorted) {
        float best = 0, cut = (1.0f - top_p) / (float)(list->n - 1);
        size_t n = 0;
        for (size_t i = 0; i < list->n; i++)
            if (list->items[i].p > best) best = list->items[i].p;
        if (!(cut <= best)) cut = best;
        for (size_t i = 0; i < list->n; i++)
            if (list->items[i].p >= cut) list->items[n++] = list->items[i];
        list->n = n;
        sort(list);
    }
    size_t n = 0;
    while (n < list->n && mass <= top_p) mass += list->items[n++].p;
    list->n = n, list->mass = mass;
}

static void keep_min_p(const Sampler *sampler, Shortlist *list) {
    float least = largest(list) + fminf(logf(sampler->options.min_p), 0); /* the likeliest stays */
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i].logit >= least) list->items[n++] = list->items[i];
    if (n < list->n) list->weighed = false;
    list->n = n ? n : 1; /* none is as likely as NaN */
    sort(list);
}

static void cool(const Sampler *sampler, Shortlist *list) {
    float temperature = sampler->options.temperature;
    if (temperature == 0 || !isfinite(largest(list) / temperature)) {
        keep_likeliest(list);
        return;
    }
    for (size_t i = 0; i < list->n; i++) list->items[i].logit /= temperature;
    list->weighed = false;
}

/* At temperature 0 no filter decides anything, for each one keeps the likeliest; only penalties that are still to come do. */
static bool is_decided(const SamplerOptions *options, uint64_t order) {
    bool cools = false, pays = false;
    for (; order; order >>= 4) {
        cools |= (order & 15) == STEP_TEMPERATURE;
        pays |= (order & 15) == STEP_PENALTIES && is_on(options, STEP_PENALTIES);
    }
    return options->temperature == 0 && cools && !pays;
}

typedef void Step(const Sampler *sampler, Shortlist *list);

static Step *const steps[] = {
    [STEP_PENALTIES] = penalise, [STEP_TOP_K] = keep_top_k, [STEP_TOP_P] = keep_top_p,
    [STEP_MIN_P] = keep_min_p,   [STEP_TEMPERATURE] = cool,
};

Candidates sampler_candidates(Sampler *sampler, const float *logits) {
    uint64_t order = order_of(&sampler->options);
    Shortlist list = {
        .items = sampler->candidates, .spare = sampler->spare, .n = sampler->n_vocab, .mass = 1};
    for (size_t i = 0; i < list.n; i++) list.items[i] = (Candidate){.logit = logits[i], .id = (int32_t)i};
    for (; order && list.n > 1; order >>= 4)
        if (is_decided(&sampler->options, order))
            keep_likeliest(&list);
        else if (is_on(&sampler->options, (SamplerStep)(order & 15)))
            steps[order & 15](sampler, &list);
    weigh(&list);
    return (Candidates){list.items, list.n, list.mass};
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
    float max = logits[0]; /* as double, gcc 12 for arm64 stops with an internal error in this loop */
    for (size_t i = 1; i < n_vocab; i++) max = fmaxf(max, logits[i]);
    double sum = 0;
    for (size_t i = 0; i < n_vocab; i++) sum += exp((double)logits[i] - (double)max);
    return (double)logits[id] - (double)max - log(sum);
}
