#include "measures/steering.h"

#include "measures/distribution.h"

#include <string.h>

bool steering_has_site(const Model *model, ProbeSite site) {
    bool has_mid = !model_config(model)->parallel_residual;
    return site == PROBE_RESID_PRE || site == PROBE_ATTN_OUT || (site == PROBE_RESID_MID && has_mid) ||
           site == PROBE_MLP_OUT || site == PROBE_RESID_POST;
}

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const Steering *steering = user;
    (void)head;
    return site == steering->site && steering->directions[layer];
}

static void visit(void *user, const Activation *seen) {
    const Steering *steering = user;
    const float *direction = steering->directions[seen->layer];
    double square = steering->project ? vector_dot(direction, direction, seen->n_cols) : 1;
    for (size_t t = 0; t < seen->n_rows; t++) {
        float *x = seen->data + t * seen->stride;
        size_t position = seen->position + t;
        double times = (double)steering->strength;
        if (steering->positions && (position >= steering->n_positions || !steering->positions[position]))
            continue;
        if (steering->project) times *= -vector_dot(x, direction, seen->n_cols) / square;
        for (size_t i = 0; i < seen->n_cols; i++) x[i] = (float)((double)x[i] + times * (double)direction[i]);
    }
}

const Probe *steering_probe(Steering *steering) {
    steering->probe = (Probe){steering, wants, visit};
    return &steering->probe;
}

bool site_means_begin(SiteMeans *means, const Subject *subject, Arena *arena, Error *error) {
    const Config *config = model_config(subject->model);
    means->d_model = config->d_model;
    means->sums = arena_new(arena, config->n_layer, config->d_model * sizeof *means->sums);
    means->norms = arena_new(arena, config->n_layer, sizeof *means->norms);
    return arena_ok(arena, error, "means over texts");
}

static bool counts(const SiteMeans *means, size_t position) {
    if (means->last) return position + 1 == means->text->tokens.n;
    return !means->positions || means->positions[position];
}

void site_means_expect(SiteMeans *means, const Subject *text) {
    size_t n = 0;
    means->text = text;
    means->n_texts++;
    for (size_t i = 1; i < text->tokens.n; i++) n += counts(means, i);
    means->first = text->bos && n > 0;
    n += means->first == 0 && counts(means, 0);
    means->share = 1 / (double)n;
}

bool site_means_want(void *user, ProbeSite site, size_t layer, size_t head) {
    const SiteMeans *means = user;
    (void)head;
    return site == means->site && means->layers[layer];
}

void site_means_see(void *user, const Activation *seen) {
    const SiteMeans *means = user;
    double *sum = means->sums + seen->layer * means->d_model;
    for (size_t t = 0; t < seen->n_rows; t++) {
        const float *x = seen->data + t * seen->stride;
        if (seen->position + t < means->first || !counts(means, seen->position + t)) continue;
        for (size_t i = 0; i < means->d_model; i++) sum[i] += means->share * (double)x[i];
        means->norms[seen->layer] += means->share * vector_norm(x, means->d_model);
    }
}

bool site_means_add(SiteMeans *means, const Subject *text, Error *error) {
    Probe probe = {means, site_means_want, site_means_see};
    Session *session = subject_session(text, 0, &probe, error);
    site_means_expect(means, text);
    bool ok = session && subject_feed(text, session, text->tokens.ids, text->tokens.n, NULL, NULL, error);
    session_free(session);
    return ok;
}

void site_difference(const SiteMeans *plus, const SiteMeans *minus, size_t layer, float *direction) {
    size_t d = plus->d_model;
    for (size_t i = layer * d; i < (layer + 1) * d; i++)
        direction[i - layer * d] =
            (float)(plus->sums[i] / (double)plus->n_texts - minus->sums[i] / (double)minus->n_texts);
}

void token_direction(const Subject *subject, int32_t id, float *direction) {
    matrix_row(subject->compute.kernels, &model_weights(subject->model)->unembedding.w, (size_t)id,
               direction);
}

bool steered_runs(SteeredRuns *runs, const Subject *subject, Arena *arena, size_t n_ctx, const Probe *look,
                  const Probe *steering, Error *error) {
    const Probe *const probes[] = {look, steering};
    const Tokens *tokens = &subject->tokens;
    size_t n_vocab = model_config(subject->model)->n_vocab;
    for (int i = 0; i < 2; i++) {
        runs->logits[i] = arena_floats(arena, at_most(tokens->n, LOGITS_CHUNK), n_vocab);
        runs->last[i] = arena_floats(arena, 1, n_vocab);
        if (!arena_ok(arena, error, "the logits of %zu tokens", tokens->n)) return false;
        if (!(runs->sessions[i] = subject_session(subject, n_ctx, probes[i], error))) return false;
    }
    for (size_t done = 0, m; done < tokens->n; done += m) {
        m = at_most(tokens->n - done, LOGITS_CHUNK);
        if (!subject_go_on(subject, tokens->n > m ? "tokens" : NULL, done, tokens->n, error)) return false;
        for (int i = 0; i < 2; i++)
            if (!session_feed(runs->sessions[i], tokens->ids + done, m, runs->logits[i], m, error))
                return false;
        size_t n_next = done + m < tokens->n ? m : m - 1;
        difference_add(&runs->difference, subject->compute.threads, runs->logits[0], runs->logits[1], m,
                       n_vocab, tokens->ids + done + 1, n_next);
        for (int i = 0; i < 2; i++)
            memcpy(runs->last[i], runs->logits[i] + (m - 1) * n_vocab, n_vocab * sizeof(float));
    }
    subject_go_on(subject, "tokens", tokens->n, tokens->n, NULL);
    return true;
}

void steered_runs_free(SteeredRuns *runs) {
    for (int i = 0; i < 2; i++) session_free(runs->sessions[i]);
}

/* A text being scored. */
typedef struct Scoring {
    const Subject *subject;
    size_t n_vocab;
    double sum;
    float *last;
} Scoring;

static void score(void *user, size_t position, const float *logits) {
    Scoring *scoring = user;
    const Tokens *tokens = &scoring->subject->tokens;
    double log_sum = distribution_of(logits, scoring->n_vocab).log_sum;
    if (position + 1 < tokens->n)
        scoring->sum += surprisal_of(logits, tokens->ids[position + 1], log_sum);
    else
        memcpy(scoring->last, logits, scoring->n_vocab * sizeof *logits);
}

bool steered_score(const Subject *subject, const Probe *steering, double *nll, float *last, Error *error) {
    Scoring scoring = {subject, model_config(subject->model)->n_vocab, 0, last};
    Session *session = subject_session(subject, 0, steering, error);
    bool ok = session &&
              subject_feed(subject, session, subject->tokens.ids, subject->tokens.n, score, &scoring, error);
    session_free(session);
    *nll = scoring.sum / (double)(subject->tokens.n - 1);
    return ok;
}
