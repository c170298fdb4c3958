#include "measures/gradients.h"

#include "backward.h"

#include <math.h>
#include <string.h>

enum { MAX_STREAMS_MIB = 1280 };

static const Config *config_of(const Gradients *gradients) { return model_config(gradients->subject->model); }

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const Gradients *gradients = user;
    const Probe *also = gradients->also;
    return saved_wants(&gradients->saved, site, layer) ||
           (also && also->wants(also->user, site, layer, head));
}

static void visit(void *user, const Activation *seen) {
    const Gradients *gradients = user;
    const Probe *also = gradients->also;
    if (also && also->wants(also->user, seen->site, seen->layer, seen->head)) also->visit(also->user, seen);
    if (saved_wants(&gradients->saved, seen->site, seen->layer)) saved_visit(&gradients->saved, seen);
}

static bool check_size(const Gradients *gradients, Error *error) {
    size_t floats = (config_of(gradients)->n_layer + 1) * config_of(gradients)->d_model;
    size_t limit = ((size_t)MAX_STREAMS_MIB << 20) / sizeof(float) / floats;
    if (gradients->n > subject_n_ctx(gradients->subject))
        return error_set(error, "a text of %zu tokens is more than the context of %zu: shorten it",
                         gradients->n, subject_n_ctx(gradients->subject));
    if (gradients->text && gradients->n < 2)
        return error_set(error, "a single token has no nll: give a longer text");
    return gradients->n <= limit ||
           error_set(
               error,
               "the way back would hold more than %d MiB of residual streams: shorten the text from %zu "
               "tokens to %zu",
               MAX_STREAMS_MIB, gradients->n, limit);
}

bool gradients_begin(Gradients *gradients, Arena *arena, Error *error) {
    const Config *config = config_of(gradients);
    size_t n = gradients->n, d = config->d_model;
    if (!check_size(gradients, error)) return false;
    gradients->own = (Probe){gradients, wants, visit};
    gradients->logits = arena_floats(arena, PACKED_TOKENS, config->n_vocab);
    gradients->between = arena_floats(arena, n, d);
    if (!arena_ok(arena, error, "the logits of %zu tokens", n) ||
        !backward_room(&gradients->saved, gradients->subject->model, n, BACKWARD_SAVED, error))
        return false;
    gradients->session = subject_session(gradients->subject, n, &gradients->own, error);
    if (gradients->session) gradients->n_ctx = session_n_ctx(gradients->session);
    return gradients->session;
}

void gradients_leave(Gradients *gradients) {
    session_free(gradients->session);
    gradients->session = NULL;
}

void gradients_free(Gradients *gradients) {
    gradients_leave(gradients);
    saved_free(&gradients->saved);
}

static size_t first_counted(const Gradients *gradients) { return gradients->text ? 0 : gradients->n - 1; }

/* The tokens from t on whose nll counts; the last of a text has none behind it. */
static size_t n_followed(const Gradients *gradients, size_t t, size_t n) {
    return at_most(n, gradients->n - 1 - t);
}

static double value_of_rows(const Gradients *gradients, size_t t, size_t n) {
    double sum = 0;
    size_t n_vocab = gradients->metric.n_vocab;
    if (!gradients->text) return metric_value(&gradients->metric, gradients->logits);
    for (size_t i = 0; i < n_followed(gradients, t, n); i++)
        sum += metric_value(&(Metric){METRIC_NLL, .answer = gradients->text[t + i + 1], .n_vocab = n_vocab},
                            gradients->logits + i * n_vocab);
    return sum / (double)(gradients->n - 1);
}

static bool find_value(Gradients *gradients, double *value, Error *error) {
    const Config *config = config_of(gradients);
    *value = 0;
    for (size_t t = first_counted(gradients), m; t < gradients->n; t += m) {
        m = at_most(gradients->n - t, PACKED_TOKENS);
        const float *resid = gradients->saved.layers[config->n_layer].pre + t * config->d_model;
        session_unembed(gradients->session, resid, m, gradients->logits);
        *value += value_of_rows(gradients, t, m);
    }
    return isfinite(*value) ||
           error_set(error, "%s: the logits are not finite; the weights hold NaN or infinity",
                     checkpoint_path(model_checkpoint(gradients->subject->model)));
}

bool gradients_there(Gradients *gradients, const int32_t *ids, const float *embed, const Probe *also,
                     double *value, Error *error) {
    gradients->also = also;
    session_rewind(gradients->session, 0);
    bool ok = ids ? session_feed(gradients->session, ids, gradients->n, NULL, 0, error)
                  : session_resume(gradients->session, 0, embed, gradients->n, NULL, 0, error);
    gradients->also = NULL;
    return ok && find_value(gradients, value, error);
}

static bool logits_gradient(void *user, size_t position, size_t n, float *logits, Error *error) {
    const Gradients *gradients = user;
    size_t n_vocab = gradients->metric.n_vocab;
    (void)error;
    if (!gradients->text) {
        metric_gradient(&gradients->metric, 1, logits);
        return true;
    }
    size_t n_rows = n_followed(gradients, position, n);
    for (size_t i = 0; i < n_rows; i++)
        metric_gradient(
            &(Metric){METRIC_NLL, .answer = gradients->text[position + i + 1], .n_vocab = n_vocab},
            1 / (double)(gradients->n - 1), logits + i * n_vocab);
    memset(logits + n_rows * n_vocab, 0, (n - n_rows) * n_vocab * sizeof *logits);
    return true;
}

static bool go_back(Gradients *gradients, const GradientProbe *probe, Error *error) {
    Backward task = {.model = gradients->subject->model,
                     .compute = gradients->subject->compute,
                     .n = gradients->n,
                     .n_ctx = gradients->n_ctx,
                     .saved = &gradients->saved,
                     .first_logits = first_counted(gradients),
                     .logits = gradients->text ? NULL : gradients->logits,
                     .logits_gradient = logits_gradient,
                     .user = gradients,
                     .probe = probe,
                     .stop = gradients->subject->stop,
                     .stop_user = gradients->subject->stop_user};
    return backward_run(&task, error);
}

bool gradients_back(Gradients *gradients, float *const embed[2], size_t steps, const GradientProbe *probe,
                    Error *error) {
    size_t count = gradients->n * config_of(gradients)->d_model;
    double value;
    if (steps == 0) return go_back(gradients, probe, error);
    for (size_t step = 0; step < steps; step++) {
        double share = ((double)step + 0.5) / (double)steps;
        for (size_t i = 0; i < count; i++)
            gradients->between[i] = (float)((1 - share) * (double)embed[0][i] + share * (double)embed[1][i]);
        if (!subject_go_on(gradients->subject, steps > 1 ? "steps" : NULL, step, steps, error) ||
            !gradients_there(gradients, NULL, gradients->between, NULL, &value, error) ||
            !go_back(gradients, probe, error))
            return false;
    }
    if (steps > 1) subject_go_on(gradients->subject, "steps", steps, steps, NULL);
    return true;
}

bool gradients_check(const Gradients *gradients, const double *scores, size_t n, Error *error) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(scores[i]))
            return error_set(error, "%s: the gradients are not finite; its weights are too large for them",
                             checkpoint_path(model_checkpoint(gradients->subject->model)));
    return true;
}
