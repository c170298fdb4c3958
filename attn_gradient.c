/* The way to a number of the logits and back, for whoever asks what it owes to each site (backward.h). */
#include "attn_inner.h"
#include "backward.h"

#include <math.h>

/* A way there and back. */
typedef struct GradientRun {
    AttnSession *session;
    const AttnTerm *terms;
    size_t n_terms;
    const AttnGradientProbe *probe;
    double value;
} GradientRun;

static bool wants_saved(void *user, ProbeSite site, size_t layer, size_t head) {
    const GradientRun *run = user;
    (void)head;
    return (run->probe || site == PROBE_RESID_POST) && saved_wants(&run->session->saved, site, layer);
}

static void keep(void *user, const Activation *seen) {
    saved_visit(&((GradientRun *)user)->session->saved, seen);
}

static bool wants_gradient(void *user, ProbeSite site, size_t layer, size_t head) {
    const AttnGradientProbe *probe = ((GradientRun *)user)->probe;
    return site < PROBE_N_SITES && (!probe->wants || probe->wants(probe->user, (AttnSite)site, layer, head));
}

static void visit_gradient(void *user, const Activation *seen, float *gradient) {
    const AttnGradientProbe *probe = ((GradientRun *)user)->probe;
    const AttnActivation activation = activation_of(seen);
    probe->visit(probe->user, &activation, gradient);
}

/*
 * A row of logits becomes the gradient of its terms: Σ weight·(one at the token), less, for those of ln p, Σ weight·softmax.
 */
static void differentiate(GradientRun *run, size_t position, float *logits, size_t n_vocab) {
    double logprobs = 0, max = -INFINITY, sum = 0; /* logprobs: the weight of all terms of ln p */
    for (size_t i = 0; i < run->n_terms; i++)
        if (run->terms[i].position == position && run->terms[i].logprob) logprobs += run->terms[i].weight;
    for (size_t i = 0; i < n_vocab; i++) max = fmax(max, (double)logits[i]);
    for (size_t i = 0; i < n_vocab; i++) sum += exp((double)logits[i] - max);
    for (size_t i = 0; i < run->n_terms; i++) {
        const AttnTerm *term = &run->terms[i];
        if (term->position != position) continue;
        run->value += term->weight * ((double)logits[term->token] - (term->logprob ? max + log(sum) : 0));
    }
    for (size_t i = 0; i < n_vocab; i++) logits[i] = (float)(-logprobs * exp((double)logits[i] - max) / sum);
    for (size_t i = 0; i < run->n_terms; i++)
        if (run->terms[i].position == position) logits[run->terms[i].token] += (float)run->terms[i].weight;
}

static bool logits_gradient(void *user, size_t position, size_t n, float *logits, Error *error) {
    GradientRun *run = user;
    const size_t n_vocab = model_config(run->session->model->model)->n_vocab;
    for (size_t i = 0; i < n; i++) differentiate(run, position + i, logits + i * n_vocab, n_vocab);
    return isfinite(run->value) || error_set(error, "the metric is not finite");
}

static bool check_terms(const GradientRun *run, size_t n, Error *error) {
    const size_t n_vocab = model_config(run->session->model->model)->n_vocab;
    if (run->n_terms == 0) return error_set(error, "the metric has no terms");
    for (size_t i = 0; i < run->n_terms; i++) {
        const AttnTerm *term = &run->terms[i];
        if (term->position >= n)
            return error_set(error, "term %zu is of position %zu, but there are %zu tokens", i + 1,
                             term->position, n);
        if (term->token < 0 || (size_t)term->token >= n_vocab)
            return error_set(error, "term %zu is of token %d, which is outside the vocabulary of %zu", i + 1,
                             (int)term->token, n_vocab);
    }
    return true;
}

static bool go_there(GradientRun *run, AttnSession *session, const int32_t *tokens, size_t n, Error *error) {
    const Probe keeper = {run, wants_saved, keep};
    session_rewind(session->session, 0);
    session_watch(session->session, &keeper);
    bool ok = session_feed(session->session, tokens, n, NULL, 0, error);
    session_watch(session->session, session->options.probe.visit ? &session->inner : NULL);
    return ok;
}

static bool go_back(GradientRun *run, size_t n, Error *error) {
    const AttnSession *session = run->session;
    const GradientProbe probe = {run, wants_gradient, visit_gradient};
    Backward task = {.model = session->model->model,
                     .compute = {.kernels = session->kernels, .threads = session->threads},
                     .n = n,
                     .n_ctx = session_n_ctx(session->session),
                     .saved = &session->saved,
                     .first_logits = n,
                     .logits_gradient = logits_gradient,
                     .user = run,
                     .probe = run->probe ? &probe : NULL,
                     .lowest = run->probe ? 0 : model_config(session->model->model)->n_layer,
                     .stop = session->options.stop,
                     .stop_user = session->options.stop_user};
    for (size_t i = 0; i < run->n_terms; i++)
        if (run->terms[i].position < task.first_logits) task.first_logits = run->terms[i].position;
    return backward_run(&task, error);
}

static bool make_room(AttnSession *session, size_t n, Error *error) {
    if (session->saved.n == n) return true;
    saved_free(&session->saved);
    bool ok = backward_room(&session->saved, session->model->model, n, BACKWARD_SAVED, error);
    if (!ok) saved_free(&session->saved);
    return ok;
}

static bool there_and_back(GradientRun *run, AttnSession *session, const int32_t *tokens, size_t n,
                           Error *error) {
    const size_t n_ctx = session_n_ctx(session->session);
    if (n > n_ctx) return error_set(error, "%zu tokens are more than the context of %zu holds", n, n_ctx);
    if (!check_terms(run, n, error)) return false;
    return make_room(session, n, error) && go_there(run, session, tokens, n, error) && go_back(run, n, error);
}

bool attn_gradient(AttnSession *session, const int32_t *tokens, size_t n, const AttnTerm *terms,
                   size_t n_terms, const AttnGradientProbe *probe, double *value, AttnError *error) {
    Error inner;
    if (!session) return false;
    if (n == 0) return refuse(error, "no tokens are given to feed");
    if (probe && !probe->visit) probe = NULL; /* nobody looks */
    GradientRun run = {.session = session, .terms = terms, .n_terms = n_terms, .probe = probe};
    if (!there_and_back(&run, session, tokens, n, &inner)) return tell(error, &inner);
    if (value) *value = run.value;
    return true;
}
