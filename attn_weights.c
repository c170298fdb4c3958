/* Weights as floats, by the names that the field has for them. */
#include "attn_inner.h"

/* They stand behind "blocks.3." where they belong to a layer. */
static const char *const weight_names[] = {
    [ATTN_W_E] = "embed.W_E",
    [ATTN_W_POS] = "pos_embed.W_pos",
    [ATTN_EMBED_LN_W] = "embed.ln.w",
    [ATTN_EMBED_LN_B] = "embed.ln.b",
    [ATTN_LN1_W] = "ln1.w",
    [ATTN_LN1_B] = "ln1.b",
    [ATTN_W_Q] = "attn.W_Q",
    [ATTN_B_Q] = "attn.b_Q",
    [ATTN_W_K] = "attn.W_K",
    [ATTN_B_K] = "attn.b_K",
    [ATTN_W_V] = "attn.W_V",
    [ATTN_B_V] = "attn.b_V",
    [ATTN_Q_NORM_W] = "attn.q_norm.w",
    [ATTN_K_NORM_W] = "attn.k_norm.w",
    [ATTN_W_O] = "attn.W_O",
    [ATTN_B_O] = "attn.b_O",
    [ATTN_LN1_POST_W] = "ln1_post.w",
    [ATTN_LN1_POST_B] = "ln1_post.b",
    [ATTN_LN2_W] = "ln2.w",
    [ATTN_LN2_B] = "ln2.b",
    [ATTN_W_ROUTER] = "mlp.W_router",
    [ATTN_B_ROUTER] = "mlp.b_router",
    [ATTN_W_GATE] = "mlp.W_gate",
    [ATTN_B_GATE] = "mlp.b_gate",
    [ATTN_W_IN] = "mlp.W_in",
    [ATTN_B_IN] = "mlp.b_in",
    [ATTN_W_OUT] = "mlp.W_out",
    [ATTN_B_OUT] = "mlp.b_out",
    [ATTN_LN2_POST_W] = "ln2_post.w",
    [ATTN_LN2_POST_B] = "ln2_post.b",
    [ATTN_LN_FINAL_W] = "ln_final.w",
    [ATTN_LN_FINAL_B] = "ln_final.b",
    [ATTN_W_U] = "unembed.W_U",
    [ATTN_B_U] = "unembed.b_U",
    [ATTN_W_Z_GATE] = "attn.W_gate",
    [ATTN_B_Z_GATE] = "attn.b_gate",
    [ATTN_SINKS] = "attn.sinks",
    [ATTN_SHARED_GATE] = "mlp.shared_expert.gate_proj.weight",
    [ATTN_SHARED_IN] = "mlp.shared_expert.up_proj.weight",
    [ATTN_SHARED_OUT] = "mlp.shared_expert.down_proj.weight",
    [ATTN_SHARED_SCALE] = "mlp.shared_expert_gate.weight",
    [ATTN_CONV_IN] = "conv.in_proj.weight",
    [ATTN_CONV_KERNEL] = "conv.conv.weight",
    [ATTN_CONV_OUT] = "conv.out_proj.weight",
    [ATTN_DELTA_QKV] = "linear_attn.in_proj_qkv.weight",
    [ATTN_DELTA_Z] = "linear_attn.in_proj_z.weight",
    [ATTN_DELTA_BETA] = "linear_attn.in_proj_b.weight",
    [ATTN_DELTA_ALPHA] = "linear_attn.in_proj_a.weight",
    [ATTN_DELTA_A] = "linear_attn.A",
    [ATTN_DELTA_DT_BIAS] = "linear_attn.dt_bias",
    [ATTN_DELTA_KERNEL] = "linear_attn.conv1d.weight",
    [ATTN_DELTA_NORM] = "linear_attn.norm.weight",
    [ATTN_DELTA_OUT] = "linear_attn.out_proj.weight",
    [ATTN_ROPE_FREQS] = "rope_freqs.weight",
    [ATTN_ROPE_SHORT] = "rope_factors_short.weight",
    [ATTN_ROPE_LONG] = "rope_factors_long.weight",
};
enum { N_WEIGHTS = sizeof weight_names / sizeof *weight_names };

const char *attn_weight_name(AttnWeight weight) {
    return (size_t)weight < N_WEIGHTS ? weight_names[weight] : "";
}

static Matrix floats(const float *data, size_t rows, size_t cols) {
    return (Matrix){data, DTYPE_F32, rows, cols};
}

/* The gain of a norm that has one in the file. */
static Matrix gain_of(const Weights *weights, const Norm *norm) {
    return floats(norm->gain == weights->ones ? NULL : norm->gain, 1, norm->n);
}

/* The length of a norm of heads: each has one, or all share one. */
static Matrix head_gain(const Norm *norm, size_t n_head, size_t d_head) {
    return floats(norm->gain, norm->own_gains || norm->n > d_head ? n_head : 1, d_head);
}

/*
 * How many matrices stand below each other in a weight: heads' queries, between which gates are, what a convolution reads, or
 * experts.
 */
static size_t count_parts(const Config *config, const LayerWeights *w, AttnWeight weight) {
    if (weight == ATTN_W_Q || weight == ATTN_B_Q) return config->family->gated_attention ? config->n_head : 1;
    if (weight == ATTN_W_Z_GATE || weight == ATTN_B_Z_GATE) return config->n_head;
    if (weight == ATTN_CONV_IN) return 3;
    return w->experts.n_expert && weight >= ATTN_W_GATE && weight <= ATTN_B_OUT ? w->experts.n_expert : 1;
}

/* The matrix of a layer's state; a layer without one has no data. */
static Matrix state_part(const Config *config, const StateWeights *state, AttnWeight weight, size_t i) {
    const StateShape *shape = &config->state;
    const bool is_conv = weight <= ATTN_CONV_OUT;
    if (state->mixer != (is_conv ? MIXER_CONVOLUTION : MIXER_DELTA_NET)) return (Matrix){0};
    switch (weight) {
    case ATTN_CONV_IN: return i == 0 ? state->before.w : i == 1 ? state->gate.w : state->in.w;
    case ATTN_DELTA_QKV: return state->in.w;
    case ATTN_DELTA_Z: return state->gate.w;
    case ATTN_DELTA_BETA: return state->beta.w;
    case ATTN_DELTA_ALPHA: return state->alpha.w;
    case ATTN_DELTA_A: return floats(state->decay, 1, shape->n_head);
    case ATTN_DELTA_DT_BIAS: return floats(state->bias, 1, shape->n_head);
    case ATTN_CONV_KERNEL:
    case ATTN_DELTA_KERNEL: return floats(state->kernel, shape->n_taps, shape->n_channels);
    case ATTN_DELTA_NORM: return floats(state->norm.gain, 1, shape->d_head);
    default: return state->out.w;
    }
}

/* Part i of a weight that belongs to a layer. Without data: it has none. */
static Matrix layer_part(const Model *model, const LayerWeights *w, AttnWeight weight, size_t i) {
    const Config *config = model_config(model);
    const Weights *all = model_weights(model);
    const AttentionWeights *attention = &w->attention;
    const MlpWeights *mlp = w->experts.n_expert ? &w->experts.experts[i] : &w->mlp;
    const size_t n_head = config->n_head, n_head_kv = config->n_head_kv, d_head = config->d_head,
                 d = config->d_model;
    const bool gated = config->family->gated_attention;
    const bool of_gate = weight == ATTN_W_Z_GATE || weight == ATTN_B_Z_GATE;
    const size_t q_row = (2 * i + of_gate) * d_head; /* behind those of a head's query stand its gate's */
    if (of_gate && !gated) return (Matrix){0};
    if (weight >= ATTN_CONV_IN) return state_part(config, &w->state, weight, i);
    switch (weight) {
    case ATTN_LN1_W: return gain_of(all, &w->attn_norm);
    case ATTN_LN1_B: return floats(w->attn_norm.bias, 1, d);
    case ATTN_W_Z_GATE:
    case ATTN_W_Q: return gated ? matrix_rows(&attention->q.w, q_row, d_head) : attention->q.w;
    case ATTN_B_Z_GATE:
    case ATTN_B_Q:
        return gated && attention->q.bias ? floats(attention->q.bias + q_row, 1, d_head)
                                          : floats(attention->q.bias, n_head, d_head);
    case ATTN_W_K: return attention->k.w;
    case ATTN_B_K: return floats(attention->k.bias, n_head_kv, d_head);
    case ATTN_W_V: return attention->v.w;
    case ATTN_B_V: return floats(attention->v.bias, n_head_kv, d_head);
    case ATTN_Q_NORM_W: return head_gain(&attention->q_norm, n_head, d_head);
    case ATTN_K_NORM_W: return head_gain(&attention->k_norm, n_head_kv, d_head);
    case ATTN_W_O: return attention->out.w;
    case ATTN_B_O: return floats(attention->out.bias, 1, d);
    case ATTN_LN1_POST_W: return gain_of(all, &w->attn_post_norm);
    case ATTN_LN1_POST_B: return floats(w->attn_post_norm.bias, 1, d);
    case ATTN_LN2_W: return gain_of(all, &w->mlp_norm);
    case ATTN_LN2_B: return floats(w->mlp_norm.bias, 1, d);
    case ATTN_W_ROUTER: return w->experts.router.w;
    case ATTN_B_ROUTER: return floats(w->experts.router.bias, 1, w->experts.n_expert);
    case ATTN_W_GATE: return mlp->gate.w;
    case ATTN_B_GATE: return floats(mlp->gate.bias, 1, mlp->gate.w.rows);
    case ATTN_W_IN: return mlp->up.w;
    case ATTN_B_IN: return floats(mlp->up.bias, 1, mlp->up.w.rows);
    case ATTN_W_OUT: return mlp->down.w;
    case ATTN_B_OUT: return floats(mlp->down.bias, 1, d);
    case ATTN_LN2_POST_W: return gain_of(all, &w->mlp_post_norm);
    case ATTN_LN2_POST_B: return floats(w->mlp_post_norm.bias, 1, d);
    case ATTN_SINKS: return floats(attention->sinks, 1, n_head);
    case ATTN_SHARED_GATE: return w->experts.shared.gate.w;
    case ATTN_SHARED_IN: return w->experts.shared.up.w;
    case ATTN_SHARED_OUT: return w->experts.shared.down.w;
    case ATTN_SHARED_SCALE: return w->experts.shared_gate.w;
    default: return (Matrix){0};
    }
}

/* A tensor that has no place among the weights, for it has gone into a table. */
static Matrix row_of_file(const Model *model, AttnWeight weight) {
    const Tensor *tensor = checkpoint_find(model_checkpoint(model), weight_names[weight]);
    return tensor ? (Matrix){tensor->data, tensor->dtype, 1, (size_t)tensor->dims[0]} : (Matrix){0};
}

static Matrix part_of(const Model *model, AttnWeight weight, size_t layer, size_t i) {
    const Config *config = model_config(model);
    const Weights *all = model_weights(model);
    const size_t d = config->d_model;
    switch (weight) {
    case ATTN_W_E: return all->embedding;
    case ATTN_W_POS: return matrix_rows(&all->positions, config->position_offset, config->n_ctx);
    case ATTN_EMBED_LN_W: return gain_of(all, &all->embedding_norm);
    case ATTN_EMBED_LN_B: return floats(all->embedding_norm.bias, 1, d);
    case ATTN_LN_FINAL_W: return gain_of(all, &all->final_norm);
    case ATTN_LN_FINAL_B: return floats(all->final_norm.bias, 1, d);
    case ATTN_W_U: return all->unembedding.w;
    case ATTN_B_U: return floats(all->unembedding.bias, 1, config->n_vocab);
    case ATTN_ROPE_FREQS:
    case ATTN_ROPE_SHORT:
    case ATTN_ROPE_LONG: return row_of_file(model, weight);
    default: return layer_part(model, &all->layers[layer], weight, i);
    }
}

static bool is_of_a_layer(AttnWeight weight) {
    return (weight >= ATTN_LN1_W && weight <= ATTN_LN2_POST_B) ||
           (weight >= ATTN_W_Z_GATE && weight <= ATTN_DELTA_OUT);
}

static bool give_weight(const Model *model, AttnWeight weight, size_t layer, size_t first, size_t n,
                        float *rows, AttnMatrix *shape, Error *error) {
    const size_t n_layer = model_config(model)->n_layer;
    if ((size_t)weight >= N_WEIGHTS)
        return error_set(error, "there is no weight %d (see AttnWeight)", (int)weight);
    if (layer >= n_layer) return error_set(error, "there is no layer %zu: the model has %zu", layer, n_layer);
    size_t n_parts = count_parts(model_config(model), &model_weights(model)->layers[layer], weight);
    Matrix part = part_of(model, weight, layer, 0);
    if (!part.data && !is_of_a_layer(weight))
        return error_set(error, "the model has no %s", weight_names[weight]);
    if (layer > 0 && !is_of_a_layer(weight))
        return error_set(error, "%s belongs to no layer: ask for it with layer 0, not %zu",
                         weight_names[weight], layer);
    if (!part.data) return error_set(error, "layer %zu has no %s", layer, weight_names[weight]);
    AttnMatrix whole = {n_parts * part.rows, part.cols};
    if (n > whole.n_rows || first > whole.n_rows - n)
        return error_set(error, "%s has %zu rows, not %zu from row %zu on", weight_names[weight],
                         whole.n_rows, n, first);
    const Kernels *kernels = kernels_pick(NULL, NULL);
    for (size_t i = 0; i < n; i++) {
        const size_t row = first + i;
        part = part_of(model, weight, layer, row / part.rows);
        matrix_row(kernels, &part, row % part.rows, rows + i * part.cols);
    }
    if (shape) *shape = whole;
    return true;
}

bool attn_weight(const AttnModel *model, AttnWeight weight, size_t layer, size_t first, size_t n, float *rows,
                 AttnMatrix *shape, AttnError *error) {
    Error inner;
    fenv_t callers;
    if (!model) return false;
    default_floats(&callers);
    bool ok = give_weight(model->model, weight, layer, first, n, rows, shape, &inner);
    fesetenv(&callers);
    return ok || tell(error, &inner);
}
