/* Weights as floats, by the names that TransformerLens has for them. */
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
};
enum { N_WEIGHTS = sizeof weight_names / sizeof *weight_names };

const char *attn_weight_name(AttnWeight weight) {
    return (size_t)weight < N_WEIGHTS ? weight_names[weight] : "";
}

static Matrix floats(const float *data, size_t rows, size_t cols) {
    return (Matrix){data, DTYPE_F32, rows, cols};
}

/* Rows [first, first + n) of a matrix, if there is one. */
static Matrix rows_of(const Matrix *w, size_t first, size_t n) {
    if (!w->data) return *w;
    return (Matrix){(const char *)w->data + first * dtype_bytes(w->dtype, w->cols), w->dtype, n, w->cols};
}

/* The gain of a norm that has one in the file. */
static Matrix gain_of(const Weights *weights, const Norm *norm) {
    return floats(norm->gain == weights->ones ? NULL : norm->gain, 1, norm->n);
}

/* That of a norm of heads: of each, or of all. */
static Matrix head_gain(const Norm *norm, size_t n_head, size_t d_head) {
    return floats(norm->gain, norm->own_gains || norm->n > d_head ? n_head : 1, d_head);
}

/* How many matrices stand below each other in a weight: heads' queries, between which gates are, or experts. */
static size_t count_parts(const Config *config, const LayerWeights *w, AttnWeight weight) {
    if (weight == ATTN_W_Q || weight == ATTN_B_Q) return config->family->gated_attention ? config->n_head : 1;
    return w->experts.n_expert && weight >= ATTN_W_GATE && weight <= ATTN_B_OUT ? w->experts.n_expert : 1;
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
    switch (weight) {
    case ATTN_LN1_W: return gain_of(all, &w->attn_norm);
    case ATTN_LN1_B: return floats(w->attn_norm.bias, 1, d);
    case ATTN_W_Q: return gated ? rows_of(&attention->q.w, 2 * i * d_head, d_head) : attention->q.w;
    case ATTN_B_Q:
        return gated && attention->q.bias ? floats(attention->q.bias + 2 * i * d_head, 1, d_head)
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
    default: return (Matrix){0};
    }
}

static Matrix part_of(const Model *model, AttnWeight weight, size_t layer, size_t i) {
    const Config *config = model_config(model);
    const Weights *all = model_weights(model);
    const size_t d = config->d_model;
    switch (weight) {
    case ATTN_W_E: return all->embedding;
    case ATTN_W_POS: return rows_of(&all->positions, config->position_offset, config->n_ctx);
    case ATTN_EMBED_LN_W: return gain_of(all, &all->embedding_norm);
    case ATTN_EMBED_LN_B: return floats(all->embedding_norm.bias, 1, d);
    case ATTN_LN_FINAL_W: return gain_of(all, &all->final_norm);
    case ATTN_LN_FINAL_B: return floats(all->final_norm.bias, 1, d);
    case ATTN_W_U: return all->unembedding.w;
    case ATTN_B_U: return floats(all->unembedding.bias, 1, config->n_vocab);
    default: return layer_part(model, &all->layers[layer], weight, i);
    }
}

static bool give_weight(const Model *model, AttnWeight weight, size_t layer, size_t first, size_t n,
                        float *rows, AttnMatrix *shape, Error *error) {
    const size_t n_layer = model_config(model)->n_layer;
    if ((size_t)weight >= N_WEIGHTS)
        return error_set(error, "there is no weight %d (see AttnWeight)", (int)weight);
    if (layer >= n_layer) return error_set(error, "there is no layer %zu: the model has %zu", layer, n_layer);
    size_t n_parts = count_parts(model_config(model), &model_weights(model)->layers[layer], weight);
    Matrix part = part_of(model, weight, layer, 0);
    if (!part.data) return error_set(error, "layer %zu has no %s", layer, weight_names[weight]);
    AttnMatrix whole = {n_parts * part.rows, part.cols};
    if (n > whole.n_rows || first > whole.n_rows - n)
        return error_set(error, "%s has %zu rows, not %zu from row %zu on", weight_names[weight],
                         whole.n_rows, n, first);
    const Kernels *kernels = kernels_pick(NULL, error);
    for (size_t i = 0; kernels && i < n; i++) {
        const size_t row = first + i;
        part = part_of(model, weight, layer, row / part.rows);
        kernels->unpack(rows + i * part.cols, part.dtype, rows_of(&part, row % part.rows, 1).data, part.cols);
    }
    if (kernels && shape) *shape = whole;
    return kernels;
}

bool attn_weight(const AttnModel *model, AttnWeight weight, size_t layer, size_t first, size_t n, float *rows,
                 AttnMatrix *shape, AttnError *error) {
    Error inner;
    if (!model) return false;
    return give_weight(model->model, weight, layer, first, n, rows, shape, &inner) || tell(error, &inner);
}
