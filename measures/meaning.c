#include "measures/meaning.h"

#include "measures/distribution.h"

#include <math.h>
#include <string.h>

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const Meaning *meaning = user;
    (void)head;
    return site == PROBE_RESID_PRE || (site == PROBE_RESID_POST && layer + 2 == meaning->n_rows);
}

static void visit(void *user, const Activation *seen) {
    const Meaning *meaning = user;
    const Sentence *sentence = &meaning->sentences[meaning->under_way];
    size_t d = meaning->d_model, row = seen->layer + (seen->site == PROBE_RESID_POST);
    float *word = meaning->streams + (row * meaning->n_sentences + meaning->under_way) * d;
    double *mean = meaning->means + row * d;
    for (size_t t = 0; t < seen->n_rows; t++) {
        const float *x = seen->data + t * seen->stride;
        size_t position = seen->position + t;
        if (position == sentence->word.last) memcpy(word, x, d * sizeof *x);
        if (position == 0 && sentence->bos) continue;
        for (size_t i = 0; i < d; i++) mean[i] += (double)x[i] / (double)meaning->n_positions;
    }
}

static bool feed_sentence(Meaning *meaning, Error *error) {
    const Sentence *sentence = &meaning->sentences[meaning->under_way];
    Subject subject = *meaning->subject;
    Probe probe = {meaning, wants, visit};
    subject.tokens = (Tokens){.ids = subject.tokens.ids + sentence->begin, .n = sentence->n_tokens};
    session_free(meaning->session);
    meaning->session = subject_session(&subject, 0, &probe, error);
    bool ok = meaning->session && subject_feed(&subject, meaning->session, subject.tokens.ids,
                                               subject.tokens.n, NULL, NULL, error);
    if (ok) session_watch(meaning->session, NULL);
    return ok;
}

/* A number of a sentence's stream in a row, less the mean if that is asked for. */
static double number_at(const Meaning *meaning, size_t row, size_t sentence, size_t i) {
    size_t d = meaning->d_model;
    double x = (double)meaning->streams[(row * meaning->n_sentences + sentence) * d + i];
    return meaning->centred ? x - meaning->means[row * d + i] : x;
}

static double cosine(const Meaning *meaning, size_t row, size_t a, size_t b) {
    double dot = 0, of_a = 0, of_b = 0;
    for (size_t i = 0; i < meaning->d_model; i++) {
        double x = number_at(meaning, row, a, i), y = number_at(meaning, row, b, i);
        dot += x * y;
        of_a += x * x;
        of_b += y * y;
    }
    return dot / sqrt(of_a * of_b);
}

static bool make_room(Meaning *meaning, Arena *arena, Error *error) {
    const Config *config = model_config(meaning->subject->model);
    size_t n = meaning->n_sentences;
    meaning->d_model = config->d_model;
    meaning->n_rows = config->n_layer + 1;
    meaning->n_pairs = n * (n - 1) / 2;
    meaning->streams = arena_floats(arena, meaning->n_rows * n, meaning->d_model);
    meaning->means = arena_new(arena, meaning->n_rows, meaning->d_model * sizeof *meaning->means);
    meaning->cosines = arena_new(arena, meaning->n_rows, meaning->n_pairs * sizeof *meaning->cosines);
    for (size_t i = 0; i < n; i++)
        meaning->n_positions += meaning->sentences[i].n_tokens - meaning->sentences[i].bos;
    return arena_ok(arena, error, "a word in %zu sentences", n);
}

bool meaning_measure(Meaning *meaning, Arena *arena, Error *error) {
    size_t n = meaning->n_sentences;
    if (!make_room(meaning, arena, error)) return false;
    for (size_t i = 0; i < n; i++) {
        meaning->under_way = i;
        if (!subject_go_on(meaning->subject, "sentences", i, n, error) || !feed_sentence(meaning, error))
            return false;
    }
    subject_go_on(meaning->subject, "sentences", n, n, NULL);
    double *to = meaning->cosines;
    for (size_t row = 0; row < meaning->n_rows; row++)
        for (size_t a = 0; a < n; a++)
            for (size_t b = a + 1; b < n; b++) *to++ = cosine(meaning, row, a, b);
    return true;
}

void meaning_free(Meaning *meaning) { session_free(meaning->session); }

/* Cosines of a vector x [d] with all rows of the embedding. */
typedef struct EmbeddingLoop {
    const Meaning *meaning;
    const Matrix *embedding;
    const double *x;
    double norm; /* of it */
    float *rows; /* [n_threads][d] scratch */
    float *cosines;
} EmbeddingLoop;

static void compare_embeddings(void *context, size_t begin, size_t end, unsigned worker) {
    const EmbeddingLoop *loop = context;
    const Matrix *w = loop->embedding;
    float *row = loop->rows + worker * w->cols;
    for (size_t id = begin; id < end; id++) {
        double dot = 0, square = 0;
        matrix_row(loop->meaning->subject->compute.kernels, w, id, row);
        for (size_t i = 0; i < w->cols; i++) {
            dot += loop->x[i] * (double)row[i];
            square += (double)row[i] * (double)row[i];
        }
        loop->cosines[id] = square > 0 ? (float)(dot / (loop->norm * sqrt(square))) : 0;
    }
}

static bool near_embeddings(const Meaning *meaning, Arena *arena, size_t row, size_t sentence, float *cosines,
                            Error *error) {
    const Subject *subject = meaning->subject;
    const Matrix *embedding = &model_weights(subject->model)->embedding;
    size_t d = meaning->d_model;
    double square = 0, *x = arena_new(arena, d, sizeof *x);
    EmbeddingLoop loop = {.meaning = meaning,
                          .embedding = embedding,
                          .x = x,
                          .rows = arena_floats(arena, threads_count(subject->compute.threads), d),
                          .cosines = cosines};
    if (!arena_ok(arena, error, "a vector of %zu numbers", d)) return false;
    for (size_t i = 0; i < d; i++) {
        x[i] = number_at(meaning, row, sentence, i);
        square += x[i] * x[i];
    }
    loop.norm = square > 0 ? sqrt(square) : 1;
    parallel_for(subject->compute.threads, embedding->rows, 64, compare_embeddings, &loop);
    return true;
}

static void take_top(const float *values, size_t n_vocab, size_t n, int32_t *ids, NearToken *near) {
    logits_top(values, n_vocab, n, ids);
    for (size_t k = 0; k < n; k++) near[k] = (NearToken){ids[k], (double)values[ids[k]]};
}

bool meaning_near(const Meaning *meaning, Arena *arena, size_t row, size_t sentence, size_t n,
                  NearToken *predicted, NearToken *embedded, Error *error) {
    size_t n_vocab = model_config(meaning->subject->model)->n_vocab;
    const float *stream = meaning->streams + (row * meaning->n_sentences + sentence) * meaning->d_model;
    float *logits = arena_floats(arena, 1, n_vocab), *cosines = arena_floats(arena, 1, n_vocab);
    int32_t *ids = arena_new(arena, n + 1, sizeof *ids);
    if (!arena_ok(arena, error, "%zu logits", n_vocab) ||
        !near_embeddings(meaning, arena, row, sentence, cosines, error))
        return false;
    session_unembed(meaning->session, stream, 1, logits);
    double log_sum = distribution_of(logits, n_vocab).log_sum;
    take_top(logits, n_vocab, n, ids, predicted);
    for (size_t k = 0; k < n; k++) predicted[k].share = probability_of(logits, predicted[k].id, log_sum);
    take_top(cosines, n_vocab, n, ids, embedded);
    return true;
}
