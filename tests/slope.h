/* The gradient that attn.h gives of a logit, along a direction, against the slope that two runs of the forward pass give. */
#ifndef ATTN_TESTS_SLOPE_H
#define ATTN_TESTS_SLOPE_H

#include "attn.h"
#include "test.h"

/* A move by `step` along the direction of all that enters the first layer before `last`: the logits there move by mixing alone. */
typedef struct Slope {
    float step;
    size_t last;
    double along, size; /* Σ gradient·direction, and of the products' sizes */
} Slope;

static float slope_direction(const Slope *slope, const AttnActivation *seen, size_t row, size_t i) {
    if (seen->position + row >= slope->last) return 0;
    size_t at = (seen->position + row) * seen->n_cols + i;
    return (float)((uint32_t)(at * 2654435761u) >> 8 & 255) / 128 - 1;
}

static bool slope_wants(void *user, AttnSite site, size_t layer, size_t head) {
    (void)user, (void)head;
    return site == ATTN_RESID_PRE && layer == 0;
}

static void slope_move(void *user, const AttnActivation *seen) {
    const Slope *slope = user;
    for (size_t row = 0; row < seen->n_rows; row++)
        for (size_t i = 0; i < seen->n_cols; i++)
            seen->data[row * seen->stride + i] += slope->step * slope_direction(slope, seen, row, i);
}

static void slope_add(void *user, const AttnActivation *seen, float *gradient) {
    Slope *slope = user;
    for (size_t row = 0; row < seen->n_rows; row++)
        for (size_t i = 0; i < seen->n_cols; i++) {
            double product =
                (double)gradient[row * seen->n_cols + i] * (double)slope_direction(slope, seen, row, i);
            slope->along += product;
            slope->size += fabs(product);
        }
}

/* Checks the logit of token `of` after n tokens, ids[i % n_ids]; the vocabulary has 8. */
static void check_slope(const char *path, const char *what, const int32_t *ids, size_t n_ids, size_t n,
                        int32_t of) {
    const float h = 2e-3f;
    AttnError error = {""};
    Slope slope = {0, n - 1, 0, 0};
    AttnTerm term = {n - 1, of, false, 1};
    int32_t *tokens = calloc(n, sizeof *tokens);
    double metric = 0, moved[2] = {0};
    for (size_t i = 0; i < n; i++) tokens[i] = ids[i % n_ids];
    AttnModel *model = attn_model_open(path, NULL, &error);
    AttnSessionOptions options = {.n_ctx = n, .n_threads = 1, .cache = ATTN_CACHE_F32};
    AttnSession *session = attn_session_new(model, &options, &error);
    CHECK(session && attn_gradient(session, tokens, n, &term, 1,
                                   &(AttnGradientProbe){&slope, slope_wants, slope_add}, &metric, &error),
          "%s: %s", what, error.message);
    attn_session_free(session);
    for (int i = 0; i < 2; i++) {
        float logits[8] = {0};
        Slope move = {i ? h : -h, n - 1, 0, 0};
        options.probe = (AttnProbe){&move, slope_wants, slope_move};
        session = attn_session_new(model, &options, &error);
        CHECK(session && attn_feed(session, tokens, n, logits, 1, &error), "%s: %s", what, error.message);
        moved[i] = (double)logits[of];
        attn_session_free(session);
    }
    CHECK(slope.size > 1e-3, "%s: no gradient", what);
    CHECK_NEAR((moved[1] - moved[0]) / (2 * (double)h), slope.along, 5e-4 * slope.size + 3e-5);
    attn_model_close(model);
    free(tokens);
}

#endif
