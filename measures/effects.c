#include "measures/effects.h"

#include "measures/distribution.h"
#include "measures/outputnorms.h"

#include <math.h>
#include <string.h>

enum { BATCH = PACKED_TOKENS /* heads unembedded together: each gets the bits that it has alone */ };

static bool counts(const Effects *effects, size_t layer) {
    return layer >= effects->layer && layer - effects->layer < effects->n_layers &&
           (!effects->layers || effects->layers[layer]);
}

static size_t place_of(const Effects *effects, size_t layer, size_t head) {
    return (layer - effects->layer) * effects->n_heads + head - effects->head;
}

const HeadEffects *effects_of(const Effects *effects, size_t layer, size_t head) {
    return &effects->heads[place_of(effects, layer, head)];
}

bool effects_begin(Effects *effects, const Subject *subject, Arena *arena, Error *error) {
    const Config *config = model_config(subject->model);
    size_t n = effects->n_layers * effects->n_heads, n_top = at_most(effects->n_top, config->n_vocab);
    effects->subject = subject;
    effects->arena = arena;
    effects->n_top = n_top;
    effects->z = arena_floats(arena, effects->n_layers, config->n_head * config->d_head);
    effects->resid = arena_floats(arena, 1, config->d_model);
    effects->heads = arena_new(arena, n, sizeof *effects->heads);
    Effect *items = arena_new(arena, 2 * n, n_top * sizeof *items);
    if (!arena_ok(arena, error, "what %zu heads write", n)) return false;
    for (size_t i = 0; i < n; i++) {
        effects->heads[i].raised = items + 2 * i * n_top;
        effects->heads[i].lowered = items + (2 * i + 1) * n_top;
    }
    return true;
}

bool effects_want(const Effects *effects, ProbeSite site, size_t layer) {
    if (effects->n_heads == 0) return false;
    if (site == PROBE_Z) return counts(effects, layer);
    return site == PROBE_RESID_POST && layer + 1 == model_config(effects->subject->model)->n_layer;
}

/* z of all heads of a layer. */
static float *layer_z(const Effects *effects, size_t layer) {
    const Config *config = model_config(effects->subject->model);
    return effects->z + (layer - effects->layer) * config->n_head * config->d_head;
}

void effects_add(Effects *effects, const Activation *seen) {
    float *to =
        seen->site == PROBE_Z ? layer_z(effects, seen->layer) + seen->head * seen->n_cols : effects->resid;
    size_t row = effects->query - seen->position;
    if (effects->query >= seen->position && row < seen->n_rows)
        memcpy(to, seen->data + row * seen->stride, seen->n_cols * sizeof *to);
}

/* The divisor of the norm behind attention at the query; 1 where there is no norm. NAN, with an error: no memory. */
static double behind_scale(const Effects *effects, Arena *arena, size_t layer, Error *error) {
    const Subject *subject = effects->subject;
    const LayerWeights *weights = &model_weights(subject->model)->layers[layer];
    const Linear *out = &weights->attention.out;
    if (!weights->attn_post_norm.gain) return 1;
    Compute compute = subject_compute(subject, arena, 1, out->w.cols);
    float *made = arena_floats(arena, 1, out->w.rows);
    if (!arena_ok(arena, error, "the output of attention")) return NAN;
    linear_forward(&compute, &(LinearOutput){made, out}, 1, layer_z(effects, layer), 1);
    return norm_scale(&weights->attn_post_norm, made);
}

void effect_through_norm(const Norm *norm, double scale, float *c, size_t d) {
    double mean = 0;
    for (size_t i = 0; i < d && norm->kind == NORM_LAYER; i++) mean += (double)c[i] / (double)d;
    for (size_t i = 0; i < d; i++) c[i] = (float)(((double)c[i] - mean) * (double)norm->gain[i] / scale);
}

/*
 * The vector that each head of a layer hands to the unembedding, outputs [n_heads][d_model]: c_i·g_i/σ, where c = z
 * W_O^h, divided by the norm behind attention if there is one, and centred where the final norm centres; σ is the scale
 * that the norm has there anyway.
 */
static bool find_outputs(const Effects *effects, size_t layer, float *outputs, Error *error) {
    const Subject *subject = effects->subject;
    const Norm *norm = &model_weights(subject->model)->final_norm;
    size_t d = model_config(subject->model)->d_model, d_head = model_config(subject->model)->d_head;
    Arena scratch = {0};
    const float *columns = head_outputs(subject, &scratch, layer, effects->head, effects->n_heads, error);
    double behind = columns ? behind_scale(effects, &scratch, layer, error) : NAN,
           scale = norm_scale(norm, effects->resid);
    for (size_t h = 0; h < effects->n_heads && !isnan(behind); h++) {
        const float *z = layer_z(effects, layer) + (effects->head + h) * d_head;
        float *c = outputs + h * d;
        for (size_t i = 0; i < d; i++) {
            const float *row = columns + (i * effects->n_heads + h) * d_head;
            double sum = 0;
            for (size_t j = 0; j < d_head; j++) sum += (double)row[j] * (double)z[j];
            c[i] = (float)(sum / behind);
        }
        effects->heads[place_of(effects, layer, effects->head + h)].output_norm = vector_norm(c, d);
        effect_through_norm(norm, scale, c, d);
    }
    arena_free(&scratch);
    return !isnan(behind);
}

/* Heads whose effects on all logits are there. */
typedef struct TopLoop {
    const Config *config;
    HeadEffects *const *heads;
    size_t n_top;
    float *logits; /* [heads][n_vocab] */
    int32_t *ids;  /* [heads][n_top] */
} TopLoop;

/* Effects less their mean over the vocabulary, which the softmax does not feel, times the logits' scale. */
static void find_top(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const TopLoop *loop = context;
    size_t n = loop->config->n_vocab, n_top = loop->n_top;
    for (size_t h = begin; h < end; h++) {
        float *logits = loop->logits + h * n;
        int32_t *ids = loop->ids + h * n_top;
        double mean = 0;
        for (size_t i = 0; i < n; i++) mean += (double)logits[i] / (double)n;
        for (size_t i = 0; i < n; i++)
            logits[i] = (float)((double)logits[i] - mean) * loop->config->logit_scale;
        logits_top(logits, n, n_top, ids);
        for (size_t i = 0; i < n_top; i++)
            loop->heads[h]->raised[i] = (Effect){ids[i], (double)logits[ids[i]]};
        for (size_t i = 0; i < n; i++) logits[i] = -logits[i];
        logits_top(logits, n, n_top, ids);
        for (size_t i = 0; i < n_top; i++)
            loop->heads[h]->lowered[i] = (Effect){ids[i], -(double)logits[ids[i]]};
    }
}

/* effects_v = Σ_i outputs_i·W_U[v][i] */
bool effects_top(const Subject *subject, Arena *arena, const float *outputs, HeadEffects *const *heads,
                 size_t n, size_t n_top, Error *error) {
    const Config *config = model_config(subject->model);
    const Linear unembedding = {model_weights(subject->model)->unembedding.w, NULL};
    size_t d = config->d_model;
    float *logits = arena_floats(arena, at_most(n, BATCH), config->n_vocab);
    int32_t *ids = arena_new(arena, BATCH, n_top * sizeof *ids);
    Compute compute = subject_compute(subject, arena, BATCH, d);
    if (!arena_ok(arena, error, "effects on %zu logits", config->n_vocab)) return false;
    for (size_t done = 0, m; done < n; done += m) {
        m = at_most(n - done, BATCH);
        if (!subject_go_on(subject, NULL, done, n, error)) return false;
        linear_forward(&compute, &(LinearOutput){logits, &unembedding}, 1, outputs + done * d, m);
        TopLoop loop = {config, heads + done, n_top, logits, ids};
        parallel_for(subject->compute.threads, m, 1, find_top, &loop);
    }
    return true;
}

bool effects_finish(Effects *effects, Error *error) {
    const Subject *subject = effects->subject;
    Arena *arena = effects->arena;
    size_t d = model_config(subject->model)->d_model, most = effects->n_layers * effects->n_heads, n = 0;
    HeadEffects **heads = arena_new(arena, most, sizeof *heads);
    float *outputs = arena_floats(arena, most, d);
    if (!arena_ok(arena, error, "what %zu heads write", most)) return false;
    for (size_t i = 0; i < effects->n_layers; i++) {
        size_t layer = effects->layer + i;
        if (!counts(effects, layer)) continue;
        if (!find_outputs(effects, layer, outputs + n * d, error)) return false;
        for (size_t h = 0; h < effects->n_heads; h++) heads[n++] = &effects->heads[i * effects->n_heads + h];
    }
    return effects_top(subject, arena, outputs, heads, n, effects->n_top, error);
}
