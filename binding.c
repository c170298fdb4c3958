/*
 * The names of all families' tensors. A name that says nothing about a family belongs to whoever has such a tensor:
 * a norm of queries, a bias, experts. What a layer cannot do without is what its Family and Config say.
 */
#include "binding.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Finds tensors by name: `ok` turns false at the first error, and stays so. */
typedef struct Binder {
    const Checkpoint *checkpoint;
    const Config *config;
    Error *error;
    bool ok;
    Weights *weights;
    size_t n_unpacked; /* floats of weights->unpacked in use */
    bool *bound;       /* [n_tensors] in the checkpoint's order: what was taken */
} Binder;

/* Keeps the first error. Is false. */
__attribute__((format(printf, 2, 3))) static bool fail(Binder *binder, const char *format, ...) {
    Error error;
    va_list args;
    va_start(args, format);
    vsnprintf(error.message, sizeof error.message, format, args);
    va_end(args);
    if (binder->ok) checkpoint_error(binder->checkpoint, binder->error, "%s", error.message);
    return binder->ok = false;
}

static const size_t NO_LAYER = SIZE_MAX;

/* "blk.3.attn_q.weight", or "output.weight" with NO_LAYER; the kind is weight or bias, or "" where names have none. */
static TensorName tensor_name(const char *name, size_t layer, const char *kind) {
    TensorName full;
    if (layer == NO_LAYER)
        snprintf(full.text, sizeof full.text, "%s.%s", name, kind);
    else
        snprintf(full.text, sizeof full.text, "blk.%zu.%s%s%s", layer, name, *kind ? "." : "", kind);
    return full;
}

static const Tensor *look(const Binder *binder, const char *name, size_t layer) {
    return checkpoint_find(binder->checkpoint, tensor_name(name, layer, "weight").text);
}

/* Whether llama-quantize makes others of it: all but what never lies in files (Q8_1, Q8_K), and what ggml has removed. */
static bool is_convertible(uint32_t type) {
    const DTypeInfo *info = checkpoint_type(type);
    bool removed = (type >= 31 && type <= 33) || (type >= 36 && type <= 38);
    return info && info->block > 1 && type > 15 && !removed;
}

static void refuse_dtype(Binder *binder, const Tensor *tensor) {
    const uint32_t refused = (uint32_t)tensor->dtype;
    const DTypeInfo *info = checkpoint_type(refused);
    char known[160] = "", number[16];
    for (int quantised = 0; quantised < 2; quantised++)
        for (uint32_t type = 0; type < DTYPE_LIMIT; type++) {
            size_t n = strlen(known);
            if (dtype_info(type) && dtype_is_quantised((DType)type) == quantised)
                snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", dtype_info(type)->name);
        }
    snprintf(number, sizeof number, "%" PRIu32, refused);
    fail(binder,
         "tensor '%.*s' has type %s, which is not supported; these are: %s. Get the model in one of them%s",
         string_shown(tensor->name), tensor->name.data, info ? info->name : number, known,
         is_convertible(refused)
             ? ", or convert it: llama-quantize (of llama.cpp) --allow-requantize IN OUT Q8_0"
             : "");
}

/*
 * The tensor [depth][rows][cols]; rows and depth may be 1. NULL if its type is not supported, if it is misshapen, or
 * missing (if required).
 */
static const Tensor *find(Binder *binder, const char *name, bool required, size_t depth, size_t rows,
                          size_t cols) {
    const Checkpoint *checkpoint = binder->checkpoint;
    const Tensor *tensor = checkpoint_find(checkpoint, name);
    if (!binder->ok) return NULL;
    if (!tensor && required)
        fail(binder, "tensor '%s' is missing", checkpoint_told(checkpoint, string_from(name)).text);
    if (!tensor) return NULL;
    if (!dtype_info(tensor->dtype)) {
        refuse_dtype(binder, tensor);
        return NULL;
    }
    if (tensor->dims[0] != cols || tensor->dims[1] != rows || tensor->dims[2] != depth ||
        tensor->dims[3] != 1) {
        char expected[24] = "", shape[3][24];
        if (depth > 1) snprintf(expected, sizeof expected, "[%zu]", depth);
        for (size_t i = 0; i < 3; i++) snprintf(shape[i], sizeof shape[i], "[%" PRIu64 "]", tensor->dims[i]);
        fail(binder, "tensor '%s' has shape %s%s%s%s, expected %s[%zu][%zu]",
             checkpoint_told(checkpoint, tensor->name).text, tensor->dims[2] > 1 ? shape[2] : "", shape[1],
             shape[0], tensor->dims[3] > 1 ? " and more" : "", expected, rows, cols);
        return NULL;
    }
    binder->bound[tensor - checkpoint_tensor(checkpoint, 0)] = true;
    return tensor;
}

static Matrix bind_matrix(Binder *binder, const char *name, size_t layer, size_t rows, size_t cols) {
    const Tensor *tensor = find(binder, tensor_name(name, layer, "weight").text, true, 1, rows, cols);
    return tensor ? (Matrix){tensor->data, tensor->dtype, rows, cols} : (Matrix){0};
}

/* A norm's gains or biases [rows][n]: used where they lie if they are F32, else unpacked into a small copy. */
static const float *bind_rows(Binder *binder, TensorName name, bool required, size_t rows, size_t n) {
    const Tensor *tensor = find(binder, name.text, required, 1, rows, n);
    if (!tensor) return NULL;
    if (tensor->dtype == DTYPE_F32) return tensor->data;
    float *copy = binder->weights->unpacked + binder->n_unpacked;
    binder->n_unpacked += rows * n;
    dtype_unpack(copy, tensor->dtype, tensor->data, rows * n);
    return copy;
}

static const float *bind_vector(Binder *binder, TensorName name, bool required, size_t n) {
    return bind_rows(binder, name, required, 1, n);
}

static Linear bind_linear(Binder *binder, const char *name, size_t layer, size_t rows, size_t cols) {
    Linear linear = {.w = bind_matrix(binder, name, layer, rows, cols)};
    linear.bias = bind_vector(binder, tensor_name(name, layer, "bias"), binder->config->family->biases, rows);
    return linear;
}

/* A norm of d_model numbers; gain NULL if it is not required and not there. */
static Norm bind_norm(Binder *binder, const char *name, size_t layer, bool required) {
    const Config *config = binder->config;
    const Family *family = config->family;
    Norm norm = {.kind = family->norm, .eps = config->norm_eps, .n = config->d_model};
    norm.gain = family->bare_norms
                    ? binder->weights->ones
                    : bind_vector(binder, tensor_name(name, layer, "weight"), required, norm.n);
    if (norm.gain && family->norm == NORM_LAYER && !family->bare_norms)
        norm.bias = bind_vector(binder, tensor_name(name, layer, "bias"), family->biases, norm.n);
    return norm;
}

/* The norm of n_heads heads, all together, each with gains of its own, or each with the same; if there is one. */
static Norm bind_head_norm(Binder *binder, const char *name, size_t layer, size_t n_heads) {
    const Config *config = binder->config;
    Norm norm = {.kind = config->family->norm, .eps = config->norm_eps, .n = config->d_head};
    const Tensor *tensor = look(binder, name, layer);
    if (!tensor) return norm;
    norm.own_gains = tensor->n_dims == 2;
    if (!norm.own_gains && tensor->dims[0] == n_heads * config->d_head) norm.n = n_heads * config->d_head;
    norm.gain =
        bind_rows(binder, tensor_name(name, layer, "weight"), true, norm.own_gains ? n_heads : 1, norm.n);
    norm.bias = bind_vector(binder, tensor_name(name, layer, "bias"), false, norm.n);
    return norm;
}

Matrix matrix_rows(const Matrix *w, size_t begin, size_t n) {
    if (!w->data) return *w;
    return (Matrix){(const char *)w->data + begin * dtype_bytes(w->dtype, w->cols), w->dtype, n, w->cols};
}

Linear linear_rows(const Linear *linear, size_t begin, size_t n) {
    return (Linear){matrix_rows(&linear->w, begin, n), linear->bias ? linear->bias + begin : NULL};
}

/* The other layers of a folder tell which of the two it should have. */
static void refuse_lack_of_queries(Binder *binder, size_t layer) {
    static const char *const names[] = {"attn_q", "attn_qkv"};
    for (size_t i = 0; i < 2; i++) {
        const TensorName name = tensor_name(names[i], layer, "weight"),
                         told = checkpoint_told(binder->checkpoint, string_from(name.text));
        if (strcmp(told.text, name.text) != 0) fail(binder, "tensor '%s' is missing", told.text);
    }
    fail(binder, "tensor 'blk.%zu.attn_q.weight' is missing, and so is 'blk.%zu.attn_qkv.weight'", layer,
         layer);
}

/* q, k and v in tensors of their own, or the rows of all three in turn in one. */
static void bind_attention(Binder *binder, AttentionWeights *attention, size_t layer) {
    const Config *config = binder->config;
    size_t d = config->d_model, d_z = config->n_head * config->d_head,
           d_q = config->family->gated_attention ? 2 * d_z : d_z, d_kv = config->n_head_kv * config->d_head;
    if (look(binder, "attn_qkv", layer)) {
        Linear qkv = bind_linear(binder, "attn_qkv", layer, d_q + 2 * d_kv, d);
        attention->q = linear_rows(&qkv, 0, d_q);
        attention->k = linear_rows(&qkv, d_q, d_kv);
        attention->v = linear_rows(&qkv, d_q + d_kv, d_kv);
    } else {
        if (!look(binder, "attn_q", layer)) refuse_lack_of_queries(binder, layer);
        attention->q = bind_linear(binder, "attn_q", layer, d_q, d);
        attention->k = bind_linear(binder, "attn_k", layer, d_kv, d);
        attention->v = bind_linear(binder, "attn_v", layer, d_kv, d);
    }
    attention->out = bind_linear(binder, "attn_output", layer, d, d_z);
    attention->q_norm = bind_head_norm(binder, "attn_q_norm", layer, config->n_head);
    attention->k_norm = bind_head_norm(binder, "attn_k_norm", layer, config->n_head_kv);
    attention->sinks = bind_vector(binder, tensor_name("attn_sinks", layer, "weight"), false, config->n_head);
}

/* The kernel of a convolution: the file has the taps of a channel together, we want those of a token. */
static const float *bind_kernel(Binder *binder, const char *name, size_t layer) {
    size_t n_channels = binder->config->state.n_channels, n_taps = binder->config->state.n_taps;
    const float *rows = bind_rows(binder, tensor_name(name, layer, "weight"), true, n_channels, n_taps);
    if (!rows) return NULL;
    float *kernel = binder->weights->unpacked + binder->n_unpacked;
    binder->n_unpacked += n_channels * n_taps;
    for (size_t c = 0; c < n_channels; c++)
        for (size_t i = 0; i < n_taps; i++) kernel[i * n_channels + c] = rows[c * n_taps + i];
    return kernel;
}

static const char *kernel_name(const Family *family) {
    return family->mixer == MIXER_CONVOLUTION ? "shortconv.conv" : "ssm_conv1d";
}

static void bind_state(Binder *binder, StateWeights *state, size_t layer) {
    const Config *config = binder->config;
    const StateShape *shape = &config->state;
    size_t d = config->d_model;
    *state = (StateWeights){.mixer = config->family->mixer, .index = binder->weights->n_states++};
    state->kernel = bind_kernel(binder, kernel_name(config->family), layer);
    if (state->mixer == MIXER_CONVOLUTION) {
        Linear in = bind_linear(binder, "shortconv.in_proj", layer, 3 * d, d);
        state->before = linear_rows(&in, 0, d);
        state->gate = linear_rows(&in, d, d);
        state->in = linear_rows(&in, 2 * d, d);
        state->out = bind_linear(binder, "shortconv.out_proj", layer, d, d);
        return;
    }
    state->in = bind_linear(binder, "attn_qkv", layer, shape->n_channels, d);
    state->gate = bind_linear(binder, "attn_gate", layer, shape->d_inner, d);
    state->alpha = bind_linear(binder, "ssm_alpha", layer, shape->n_head, d);
    state->beta = bind_linear(binder, "ssm_beta", layer, shape->n_head, d);
    state->decay = bind_vector(binder, tensor_name("ssm_a", layer, ""), true, shape->n_head);
    state->bias = bind_vector(binder, tensor_name("ssm_dt", layer, "bias"), true, shape->n_head);
    state->norm =
        (Norm){NORM_RMS, config->norm_eps, shape->d_head,
               .gain = bind_vector(binder, tensor_name("ssm_norm", layer, "weight"), true, shape->d_head)};
    state->out = bind_linear(binder, "ssm_out", layer, d, shape->d_inner);
}

/* The gate may be the first half of the rows of `up` (Phi-3). */
static void bind_mlp(Binder *binder, MlpWeights *mlp, size_t layer) {
    const Config *config = binder->config;
    size_t d = config->d_model, d_ff = config->d_ff;
    bool gated = mlp_has_gate(config->mlp);
    const Tensor *up = look(binder, "ffn_up", layer);
    if (gated && up && up->dims[1] == 2 * d_ff && !look(binder, "ffn_gate", layer)) {
        Linear both = bind_linear(binder, "ffn_up", layer, 2 * d_ff, d);
        mlp->gate = linear_rows(&both, 0, d_ff);
        mlp->up = linear_rows(&both, d_ff, d_ff);
    } else {
        mlp->up = bind_linear(binder, "ffn_up", layer, d_ff, d);
        if (gated) mlp->gate = bind_linear(binder, "ffn_gate", layer, d_ff, d);
    }
    mlp->down = bind_linear(binder, "ffn_down", layer, d, d_ff);
}

/* A matrix of every expert, [n_expert][rows][cols] in one tensor, or, in older files, each in a tensor of its own. */
static void bind_expert_matrices(Binder *binder, const char *kind, size_t layer, size_t rows, size_t cols,
                                 MlpWeights *experts, size_t offset) {
    size_t n_expert = binder->config->n_expert;
    char name[40];
    snprintf(name, sizeof name, "ffn_%s_exps", kind);
    Linear first = {0};
    bool together = look(binder, name, layer);
    if (together) {
        const Tensor *tensor =
            find(binder, tensor_name(name, layer, "weight").text, true, n_expert, rows, cols);
        if (!tensor) return;
        first.w = (Matrix){tensor->data, tensor->dtype, n_expert * rows, cols};
        first.bias = bind_rows(binder, tensor_name(name, layer, "bias"), false, n_expert, rows);
    }
    for (size_t e = 0; e < n_expert && binder->ok; e++) {
        Linear *linear = (Linear *)(void *)((char *)&experts[e] + offset);
        snprintf(name, sizeof name, "ffn_%s.%zu", kind, e);
        *linear =
            together ? linear_rows(&first, e * rows, rows) : bind_linear(binder, name, layer, rows, cols);
    }
}

static void bind_experts(Binder *binder, ExpertsWeights *experts, size_t layer) {
    const Config *config = binder->config;
    size_t d = config->d_model, d_ff = config->d_ff_expert, d_shared = config->d_ff_shared;
    *experts = (ExpertsWeights){.n_expert = config->n_expert,
                                .n_used = config->n_expert_used,
                                .renormalise = config->renormalises_experts,
                                .scale = config->expert_scale};
    experts->router = bind_linear(binder, "ffn_gate_inp", layer, config->n_expert, d);
    if (!binder->ok) return;
    experts->experts = calloc(config->n_expert, sizeof *experts->experts);
    if (!experts->experts) {
        fail(binder, "not enough memory for %zu experts", config->n_expert);
        return;
    }
    bind_expert_matrices(binder, "up", layer, d_ff, d, experts->experts, offsetof(MlpWeights, up));
    bind_expert_matrices(binder, "gate", layer, d_ff, d, experts->experts, offsetof(MlpWeights, gate));
    bind_expert_matrices(binder, "down", layer, d, d_ff, experts->experts, offsetof(MlpWeights, down));
    const Tensor *shared = look(binder, "ffn_up_shexp", layer);
    if (!shared) return;
    if (d_shared == 0) d_shared = (size_t)shared->dims[1];
    experts->shared.up = bind_linear(binder, "ffn_up_shexp", layer, d_shared, d);
    experts->shared.gate = bind_linear(binder, "ffn_gate_shexp", layer, d_shared, d);
    experts->shared.down = bind_linear(binder, "ffn_down_shexp", layer, d, d_shared);
    if (look(binder, "ffn_gate_inp_shexp", layer))
        experts->shared_gate = bind_linear(binder, "ffn_gate_inp_shexp", layer, 1, d);
}

static void bind_layer(Binder *binder, size_t layer) {
    const Config *config = binder->config;
    const Family *family = config->family;
    LayerWeights *weights = &binder->weights->layers[layer];
    bool before = family->norm_places != NORMS_BEHIND, behind = family->norm_places != NORMS_BEFORE;
    const char *mlp_norm = family->mlp_norm ? family->mlp_norm : "ffn_norm";
    if (before && look(binder, "attn_norm_2", layer)) { /* Falcon 40B: the first is the MLP's */
        weights->mlp_norm = bind_norm(binder, "attn_norm", layer, true);
        weights->attn_norm = bind_norm(binder, "attn_norm_2", layer, true);
    } else if (before) {
        weights->attn_norm = bind_norm(binder, "attn_norm", layer, true);
        if (!config->parallel_residual ||
            family->residual != RESIDUAL_BY_NORM) /* whose parallel layers have none */
            weights->mlp_norm = bind_norm(binder, mlp_norm, layer, !config->parallel_residual);
    }
    if (family->mixer != MIXER_ATTENTION && look(binder, kernel_name(family), layer))
        bind_state(binder, &weights->state, layer);
    else
        bind_attention(binder, &weights->attention, layer);
    if (behind) weights->attn_post_norm = bind_norm(binder, "post_attention_norm", layer, true);
    if (config->n_expert && look(binder, "ffn_gate_inp", layer))
        bind_experts(binder, &weights->experts, layer);
    else
        bind_mlp(binder, &weights->mlp, layer);
    if (behind) weights->mlp_post_norm = bind_norm(binder, "post_ffw_norm", layer, true);
}

/* The factors of a table of RoPE frequencies, if the file has such; none may be 0. */
static const float *bind_factors(Binder *binder, const char *name, size_t n_pairs) {
    const float *factors = bind_vector(binder, tensor_name(name, NO_LAYER, "weight"), false, n_pairs);
    for (size_t i = 0; factors && i < n_pairs; i++)
        if (!(fabsf(factors[i]) > 0))
            fail(binder, "tensor '%s.weight' holds %g, by which nothing can be divided", name,
                 (double)factors[i]);
    return factors;
}

/* The frequencies of global and local layers, and which layer takes which. */
static void bind_ropes(Binder *binder) {
    const Config *config = binder->config;
    Weights *weights = binder->weights;
    size_t n_pairs = config->rope.dim / 2;
    const float *longer = NULL, *factors = bind_factors(binder, "rope_freqs", n_pairs);
    if (!factors) {
        factors = bind_factors(binder, "rope_factors_short", n_pairs);
        longer = bind_factors(binder, "rope_factors_long", n_pairs);
    }
    for (size_t layer = 0; layer < config->n_layer && binder->ok; layer++) {
        const RopeConfig *rope = config_rope(config, layer);
        AttentionLayer *to = &weights->attention_layers[layer];
        to->absent = weights->layers[layer].state.mixer != MIXER_ATTENTION;
        if (to->absent) continue;
        if (config_is_local(config, layer)) to->window = config->window;
        if (rope) to->rope = &weights->ropes[rope == &config->local_rope];
        if (rope == &config->local_rope) weights->n_ropes = 2;
    }
    if (config->rope.pairing == ROPE_NONE || !binder->ok) return;
    if (weights->n_ropes == 0) weights->n_ropes = 1;
    bool apart = config->family->rope_layers == ROPE_LOCAL_APART;
    if (!rope_open(&weights->ropes[0], &config->rope, factors, longer) ||
        (weights->n_ropes == 2 &&
         !rope_open(&weights->ropes[1], &config->local_rope, apart ? NULL : factors, apart ? NULL : longer)))
        fail(binder, "not enough memory for the RoPE frequencies");
}

/*
 * ALiBi's slopes (Press et al. 2022, section 3): 2^(−8/n), 2^(−16/n) … for n heads if n is a power of two. Otherwise the
 * slopes of the next lower power, then every second of twice as many. A model may have another maximum than 8.
 */
static void bind_slopes(Binder *binder) {
    const Config *config = binder->config;
    size_t n = config->n_head, power = 1;
    if (config->max_alibi_bias == 0 || !binder->ok) return;
    float *slopes = binder->weights->slopes = calloc(n, sizeof *slopes);
    if (!slopes) {
        fail(binder, "not enough memory for %zu heads", n);
        return;
    }
    while (2 * power <= n) power *= 2;
    for (size_t h = 0; h < n; h++) {
        double step = (double)config->max_alibi_bias / (double)power;
        slopes[h] = (float)(h < power ? pow(2, -step * (double)(h + 1))
                                      : pow(2, -step / 2 * (double)(2 * (h - power) + 1)));
    }
}

/* Whether it may be the kernel of a convolution. */
static bool may_be_kernel(const Binder *binder, const Tensor *tensor) {
    return binder->config->family->mixer != MIXER_ATTENTION &&
           (string_ends(tensor->name, ".shortconv.conv.weight") ||
            string_ends(tensor->name, ".ssm_conv1d.weight"));
}

/* Whether bind_rows may be asked for it: a vector, or the biases of experts, or the gains of heads, or a kernel. */
static bool may_be_rows(const Binder *binder, const Tensor *tensor) {
    return tensor->dims[1] == 1 || string_ends(tensor->name, ".bias") ||
           string_ends(tensor->name, "_norm.weight") || may_be_kernel(binder, tensor);
}

/* Room for what bind_rows may have to unpack, all that are not F32, and for kernels. */
static bool reserve(Binder *binder) {
    const Checkpoint *checkpoint = binder->checkpoint;
    const Config *config = binder->config;
    Weights *weights = binder->weights;
    size_t n_tensors = checkpoint_n_tensors(checkpoint), n_floats = 0;
    for (size_t i = 0; i < n_tensors; i++) {
        const Tensor *tensor = checkpoint_tensor(checkpoint, i);
        size_t n = (size_t)(tensor->dims[0] * tensor->dims[1]);
        if (!dtype_info(tensor->dtype)) continue;
        if (tensor->dtype != DTYPE_F32 && may_be_rows(binder, tensor)) n_floats += n;
        if (may_be_kernel(binder, tensor)) n_floats += n;
    }
    if (config->n_layer > n_tensors)
        return fail(binder, "%zu layers, but only %zu tensors", config->n_layer, n_tensors);
    binder->bound = calloc(n_tensors, sizeof *binder->bound);
    weights->layers = calloc(config->n_layer, sizeof *weights->layers);
    weights->attention_layers = calloc(config->n_layer, sizeof *weights->attention_layers);
    weights->unpacked = calloc(n_floats + 1, sizeof(float));
    if (config->family->bare_norms) weights->ones = floats_new(1, config->d_model);
    if (!binder->bound || !weights->layers || !weights->attention_layers || !weights->unpacked ||
        (config->family->bare_norms && !weights->ones))
        return fail(binder, "not enough memory to bind %zu tensors", n_tensors);
    for (size_t i = 0; weights->ones && i < config->d_model; i++) weights->ones[i] = 1;
    return true;
}

bool tensor_reads_pictures(String name) {
    return (name.n > 2 && string_begins(name, "v.")) || (name.n > 3 && string_begins(name, "mm."));
}

/* Whether a tensor is of a layer, or of a tower for pictures, that is left out. */
static bool is_unused(const Config *config, String name) {
    size_t layer = 0, i = 4;
    if (config->family->reads_pictures && tensor_reads_pictures(name)) return true;
    if (!string_begins(name, "blk.")) return false;
    for (; i < name.n && name.data[i] >= '0' && name.data[i] <= '9' && i < 12; i++)
        layer = 10 * layer + (size_t)(name.data[i] - '0');
    return i < name.n && name.data[i] == '.' && layer >= config->n_layer &&
           layer - config->n_layer < config->n_unused_layers;
}

bool weights_bind(Weights *weights, const Config *config, const Checkpoint *checkpoint, Error *error) {
    Binder binder = {checkpoint, config, error, true, weights};
    *weights = (Weights){.n_layer = config->n_layer};
    if (reserve(&binder)) {
        weights->embedding = bind_matrix(&binder, "token_embd", NO_LAYER, config->n_vocab, config->d_model);
        const char *final_norm = config->family->final_norm ? config->family->final_norm : "output_norm";
        weights->final_norm = bind_norm(&binder, final_norm, NO_LAYER, true);
        if (!config->family->final_norm && !config->family->bare_norms)
            weights->embedding_norm = bind_norm(&binder, "token_embd_norm", NO_LAYER, false);
        bool may_learn =
            config->family->rope == ROPE_NONE && look(&binder, "position_embd", NO_LAYER); /* MPT */
        if (config->family->learned_positions || may_learn)
            weights->positions = bind_matrix(&binder, "position_embd", NO_LAYER,
                                             config->position_offset + config->n_ctx, config->d_model);
        for (size_t layer = 0; layer < config->n_layer && binder.ok; layer++) bind_layer(&binder, layer);
        /* After the layers: their tensors have confirmed n_head and d_head, so that a claimed rope_dim costs nothing. */
        bind_ropes(&binder);
        bind_slopes(&binder);
        weights->unembedding.w =
            config->tied ? weights->embedding
                         : bind_matrix(&binder, "output", NO_LAYER, config->n_vocab, config->d_model);
        weights->unembedding.bias =
            bind_vector(&binder, tensor_name("output", NO_LAYER, "bias"), false, config->n_vocab);
        for (size_t i = 0; i < checkpoint_n_tensors(checkpoint) && binder.ok; i++) {
            String name = checkpoint_tensor(checkpoint, i)->name;
            if (!binder.bound[i] && !is_unused(config, name))
                fail(&binder, "tensor '%s' is not part of a model of family '%s'",
                     checkpoint_told(checkpoint, name).text, config->family->architecture);
        }
    }
    free(binder.bound);
    return binder.ok;
}

void weights_free(Weights *weights) {
    for (size_t i = 0; i < 2; i++) rope_close(&weights->ropes[i]);
    for (size_t i = 0; weights->layers && i < weights->n_layer; i++) free(weights->layers[i].experts.experts);
    free(weights->layers);
    free(weights->attention_layers);
    free(weights->slopes);
    free(weights->ones);
    free(weights->unpacked);
    *weights = (Weights){0};
}
