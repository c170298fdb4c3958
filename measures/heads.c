#include "measures/heads.h"

#include "measures/scores.h"
#include "sampler.h"

#include <math.h>
#include <string.h>

enum { DEFAULT_PERIOD = 50, DEFAULT_BATCH = 10 };

/*
 * Weights up to this are left out of the entropy, to spare a row's long tail its logarithms. Each would add
 * at most 2⁻⁴⁰·ln 2⁴⁰ nats, 3e-11; the float logarithm of the others is good to 1e-7 of the entropy.
 */
static const float NEGLIGIBLE = 0x1p-40f;

void find_earlier(const int32_t *ids, size_t n, size_t *earlier) {
    for (size_t q = 0; q < n; q++) {
        size_t k = q;
        while (k > 0 && ids[k - 1] != ids[q]) k--;
        earlier[q] = k > 0 ? k - 1 : q;
    }
}

/*
 * A row A[q][0 … q] is passed over once for its sums. What it says of repeated tokens touches only the positions where
 * the query's token stood before, along a list of them.
 */
void head_sums_add(HeadSums *sums, const HeadText *text, size_t query, const float *row) {
    size_t period = text->period, n_earlier = 0;
    double total = 0, entropy = 0, distance = 0, duplicate = 0, induction = 0;
    float largest = 0;
    for (size_t k = 0; k <= query; k++) {
        float a = row[k];
        total += (double)a;
        distance += (double)a * (double)(query - k);
        if (a > largest) largest = a;
        if (a > NEGLIGIBLE) entropy -= (double)a * (double)logf(a);
    }
    ScoreRule rule = {.window = sums->window, .has_sink = sums->has_sink};
    double learned = rule_learned_share(&rule, total);
    double places = (double)(rule_n_keys(&rule, query) + sums->has_sink);
    if (learned > 0) entropy -= learned * log(learned);
    for (size_t k = query; text->earlier[k] < k; n_earlier++) {
        k = text->earlier[k];
        duplicate += (double)row[k];
        induction += (double)row[k + 1];
    }

    /* Detection pattern D[q][k] = 1 where x_(k−1) = x_q, k ≤ q: its ones are what induction counts. */
    sums->n_rows++;
    sums->weight += total;
    sums->detected += induction;
    sums->difference += total - induction + ((double)n_earlier - induction);
    if (period && query + 1 >= period) {
        sums->n_diagonal++;
        sums->diagonal += (double)row[query + 1 - period];
    }

    if (query == 0) return;
    sums->n_queries++;
    sums->entropy += entropy;
    sums->entropy_share += places > 1 ? entropy / log(places) : 0;
    sums->confidence += (double)largest;
    sums->sink += (double)row[0];
    sums->self += (double)row[query];
    sums->previous += (double)row[query - 1];
    sums->distance += distance;
    sums->learned += learned;
    if (period ? query >= text->n - period : n_earlier > 0) {
        sums->n_repeated++;
        sums->duplicate += period ? (double)row[query - period] : duplicate;
        sums->induction += period ? (double)row[query - period + 1] : induction;
    }
}

static double mean(double sum, size_t n) { return n ? sum / (double)n : NAN; }

HeadScores head_scores(const HeadSums *sums) {
    size_t n = sums->n_queries;
    return (HeadScores){
        .entropy = mean(sums->entropy, n),
        .entropy_share = mean(sums->entropy_share, n),
        .confidence = mean(sums->confidence, n),
        .sink = mean(sums->sink, n),
        .self = mean(sums->self, n),
        .previous = mean(sums->previous, n),
        .distance = mean(sums->distance, n),
        .learned = mean(sums->learned, n),
        .duplicate = mean(sums->duplicate, sums->n_repeated),
        .induction = mean(sums->induction, sums->n_repeated),
        .tl_diag = mean(sums->diagonal, sums->n_diagonal),
        .tl_mul = sums->n_rows ? sums->detected / sums->weight : NAN,
        .tl_abs = 1 - mean(sums->difference, sums->n_rows),
    };
}

const char *head_label(const HeadScores *scores) {
    if (scores->induction >= HEAD_THRESHOLD) return "induction";
    if (scores->duplicate >= HEAD_THRESHOLD) return "duplicate";
    if (scores->previous >= HEAD_THRESHOLD) return "previous";
    if (scores->sink >= SINK_THRESHOLD) return "parked on first token";
    return "";
}

static bool wants_pattern(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)user, (void)layer, (void)head;
    return site == PROBE_PATTERN;
}

void heads_add(void *user, const Activation *seen) {
    Heads *heads = user;
    head_sums_add(&heads->sums[seen->layer * heads->n_head + seen->head], &heads->text, seen->position,
                  seen->data);
}

/* Each text: BOS, if there is one, then S tokens drawn alike from those that stand for text (control tokens do not), twice. */
static bool draw_texts(Heads *heads, Arena *arena, uint64_t seed, Error *error) {
    const Tokenizer *tokenizer = heads->subject->tokenizer;
    size_t period = heads->text.period, n_ordinary = 0;
    int32_t *ordinary = arena_new(arena, heads->n_vocab, sizeof *ordinary), *id = heads->ids;
    if (!arena_ok(arena, error, "a list of %zu tokens", heads->n_vocab)) return false;
    for (int32_t i = 0; i < (int32_t)heads->n_vocab; i++)
        if (tokenizer_piece(tokenizer, i, false).n > 0) ordinary[n_ordinary++] = i;
    if (n_ordinary == 0) return error_set(error, "no token of this vocabulary stands for text");
    uint64_t state = seed ? seed : 1;
    for (size_t text = 0; text < heads->n_batch; text++) {
        if (heads->bos) *id++ = tokenizer_bos(tokenizer);
        for (size_t i = 0; i < period; i++)
            id[i] = id[period + i] = ordinary[random_draw(&state) % n_ordinary];
        id += 2 * period;
    }
    return true;
}

size_t heads_longest_period(const Subject *subject, bool bos) { return (subject_n_ctx(subject) - bos) / 2; }

bool heads_can_repeat(const Subject *subject, bool bos) {
    size_t id = 0, n_vocab = model_config(subject->model)->n_vocab;
    while (id < n_vocab && tokenizer_piece(subject->tokenizer, (int32_t)id, false).n == 0) id++;
    return id < n_vocab && heads_longest_period(subject, bos) > 0;
}

/* The shape of the random texts. */
static void plan_texts(Heads *heads, const RandomTexts *random) {
    size_t most = heads_longest_period(heads->subject, random->bos);
    heads->random = true;
    heads->bos = random->bos;
    heads->n_batch = random->n ? random->n : DEFAULT_BATCH;
    heads->text.period = at_most(random->period ? random->period : DEFAULT_PERIOD, most);
    heads->text.n = 2 * heads->text.period + heads->bos;
}

bool heads_begin(Heads *heads, const Subject *subject, Arena *arena, const RandomTexts *random,
                 Error *error) {
    const Config *config = model_config(subject->model);
    *heads = (Heads){.subject = subject,
                     .n_layer = config->n_layer,
                     .n_head = config->n_head,
                     .n_vocab = config->n_vocab,
                     .bos = subject->bos,
                     .n_batch = 1,
                     .text.n = subject->tokens.n};
    if (random) plan_texts(heads, random);
    if (heads->text.n < 2)
        return error_set(error, "heads takes a text of two tokens or more: the first sees only itself");
    size_t n = heads->text.n;
    heads->ids = arena_new(arena, heads->n_batch, n * sizeof *heads->ids);
    heads->earlier = arena_new(arena, n, sizeof *heads->earlier);
    heads->uniform = arena_new(arena, n, sizeof *heads->uniform);
    heads->sums = arena_new(arena, heads->n_layer * heads->n_head + 1, sizeof *heads->sums);
    if (!arena_ok(arena, error, "%zu texts of %zu tokens", heads->n_batch, n)) return false;
    heads->text.earlier = heads->earlier;
    for (size_t i = 0; i < heads->n_layer * heads->n_head; i++) {
        ScoreRule rule = score_rule(subject->model, i / heads->n_head, i % heads->n_head);
        heads->sums[i].window = rule.window;
        heads->sums[i].has_sink = rule.has_sink;
    }
    if (random) return draw_texts(heads, arena, random->seed, error);
    memcpy(heads->ids, subject->tokens.ids, n * sizeof *heads->ids);
    return true;
}

/* Adds the nll of the token after this position to that of the copy which it belongs to. */
static void add_nll(void *user, size_t position, const float *logits) {
    Heads *heads = user;
    size_t next = position + 1, n = heads->text.n;
    if (next == n) return;
    bool second = next >= n - heads->text.period;
    heads->copy_nll[second] -= sampler_logprob(logits, heads->n_vocab, heads->row[next]);
    heads->copy_n[second]++;
}

/* The same rows of a head that looks everywhere alike. */
static void add_chance(Heads *heads) {
    HeadSums *chance = &heads->sums[heads->n_layer * heads->n_head];
    for (size_t q = 0; q < heads->text.n; q++) {
        for (size_t k = 0; k <= q; k++) heads->uniform[k] = 1.0f / (float)(q + 1);
        head_sums_add(chance, &heads->text, q, heads->uniform);
    }
}

void heads_start(Heads *heads, size_t text) {
    heads->row = heads->ids + text * heads->text.n;
    find_earlier(heads->row, heads->text.n, heads->earlier);
    add_chance(heads);
}

bool heads_feed(Heads *heads, bool gain, Error *error) {
    Probe probe = {heads, wants_pattern, heads_add};
    const Subject *subject = heads->subject;
    Session *session = subject_session(subject, heads->random ? heads->text.n : 0, &probe, error);
    bool ok = session;
    for (size_t i = 0; ok && i < heads->n_batch; i++) {
        heads_start(heads, i);
        session_rewind(session, 0);
        ok = subject_feed(subject, session, heads->row, heads->text.n, gain ? add_nll : NULL, heads, error);
    }
    session_free(session);
    return ok;
}

double heads_repeat_gain(const Heads *heads) {
    return heads->copy_nll[0] / (double)heads->copy_n[0] - heads->copy_nll[1] / (double)heads->copy_n[1];
}
