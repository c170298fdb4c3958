#include "measures/writers.h"

#include "measures/frozennorm.h"
#include "measures/scores.h"

#include <stdio.h>
#include <string.h>

static void list_one(Writers *writers, WriterKind kind, size_t layer, size_t head) {
    writers->list[writers->n++] = (Writer){kind, layer, head};
}

static void list_all(Writers *writers) {
    const Model *model = writers->subject->model;
    size_t n_head = model_config(model)->n_head;
    list_one(writers, WRITER_EMBED, SIZE_MAX, SIZE_MAX);
    if (model_weights(model)->positions.data) list_one(writers, WRITER_POSITION, SIZE_MAX, SIZE_MAX);
    for (size_t layer = 0; layer < writers->n_layer; layer++) {
        bool has_heads = layer_has_heads(model, layer);
        writers->first[layer] = writers->n;
        if (!has_heads) list_one(writers, WRITER_ATTENTION, layer, SIZE_MAX);
        for (size_t head = 0; has_heads && head < n_head; head++) list_one(writers, WRITER_HEAD, layer, head);
        list_one(writers, WRITER_MLP, layer, SIZE_MAX);
    }
    writers->first[writers->n_layer] = writers->n;
    list_one(writers, WRITER_BIAS, SIZE_MAX, SIZE_MAX);
}

bool writers_begin(Writers *writers, const Subject *subject, size_t n_layer, Arena *arena, Error *error) {
    const Config *config = model_config(subject->model);
    size_t most = 3 + n_layer * (config->n_head + 1);
    *writers = (Writers){
        .subject = subject,
        .n_layer = n_layer,
        .list = arena_new(arena, most, sizeof *writers->list),
        .first = arena_new(arena, n_layer + 1, sizeof *writers->first),
        .vectors = arena_new(arena, most, config->d_model * sizeof *writers->vectors),
        .scales = arena_new(arena, n_layer, sizeof *writers->scales),
    };
    if (!arena_ok(arena, error, "what %zu parts of the model write", most)) return false;
    list_all(writers);
    return true;
}

bool writers_want(const Writers *writers, ProbeSite site, size_t layer) {
    if (layer >= writers->n_layer) return layer == 0 && (site == PROBE_EMBED || site == PROBE_POS_EMBED);
    switch (site) {
    case PROBE_EMBED:
    case PROBE_POS_EMBED:
    case PROBE_RESULT:
    case PROBE_MLP_OUT: return true;
    case PROBE_ATTN_OUT: return !layer_has_heads(writers->subject->model, layer);
    default: return false;
    }
}

/* Tells whose output this is. */
static size_t place_of(const Writers *writers, const Activation *seen) {
    switch (seen->site) {
    case PROBE_EMBED: return 0;
    case PROBE_POS_EMBED: return 1;
    case PROBE_MLP_OUT: return writers->first[seen->layer + 1] - 1;
    default: return writers->first[seen->layer] + seen->head;
    }
}

void writers_add(Writers *writers, const Activation *seen) {
    memcpy(writers->vectors + place_of(writers, seen) * seen->n_cols, seen->data,
           seen->n_cols * sizeof *seen->data);
}

/* made: what heads and the bias add up to before a norm behind attention. */
static void add_up(const Writers *writers, size_t layer, size_t d, float *made) {
    const float *bias = model_weights(writers->subject->model)->layers[layer].attention.out.bias;
    for (size_t i = 0; i < d; i++) {
        double sum = bias ? (double)bias[i] : 0;
        for (size_t w = writers->first[layer]; w + 1 < writers->first[layer + 1]; w++)
            sum += (double)writers->vectors[w * d + i];
        made[i] = (float)sum;
    }
}

/* Turns what a layer's heads made into what they add; its biases join the others. scratch [d_model] */
static void finish_heads(Writers *writers, size_t layer, float *scratch) {
    const Config *config = model_config(writers->subject->model);
    const LayerWeights *weights = &model_weights(writers->subject->model)->layers[layer];
    const Norm *norm = &weights->attn_post_norm;
    size_t d = config->d_model;
    double times = (double)config->residual_scale;
    float *biases = writers->vectors + (writers->n - 1) * d;
    add_up(writers, layer, d, scratch);
    double scale = norm->gain ? norm_scale(norm, scratch) : 1;
    writers->scales[layer] = scale;
    for (size_t w = writers->first[layer]; w + 1 < writers->first[layer + 1]; w++)
        frozen_norm(norm, scale, times, d, writers->vectors + w * d, writers->vectors + w * d);
    if (!weights->attention.out.bias) return;
    frozen_norm(norm, scale, times, d, weights->attention.out.bias, scratch);
    for (size_t i = 0; i < d; i++) biases[i] += scratch[i];
}

bool writers_finish(Writers *writers, Arena *arena, Error *error) {
    size_t d = model_config(writers->subject->model)->d_model;
    float *scratch = arena_floats(arena, 1, d);
    if (!arena_ok(arena, error, "what heads write")) return false;
    memset(writers->vectors + (writers->n - 1) * d, 0, d * sizeof *writers->vectors);
    for (size_t layer = 0; layer < writers->n_layer; layer++) {
        writers->scales[layer] = 1;
        if (layer_has_heads(writers->subject->model, layer)) finish_heads(writers, layer, scratch);
    }
    return true;
}

const char *writer_name(char *buffer, const Writer *writer) {
    static const char *const plain[] = {[WRITER_EMBED] = "embed",
                                        [WRITER_POSITION] = "pos_embed",
                                        [WRITER_BIAS] = "bias",
                                        [WRITER_CLAMP] = "clamp"};
    switch (writer->kind) {
    case WRITER_HEAD: return head_name(buffer, writer->layer, writer->head);
    case WRITER_ATTENTION:
    case WRITER_MLP:
        snprintf(buffer, 32, "L%zu%s", writer->layer, writer->kind == WRITER_MLP ? "MLP" : "attn");
        return buffer;
    default: snprintf(buffer, 32, "%s", plain[writer->kind]); return buffer;
    }
}
