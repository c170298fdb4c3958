/*
 * The table of families, and a checkpoint's numbers. To add a family, add its row, and what its keys ask for, if no other
 * asks for it yet; what its tensors are called stands in binding.c.
 */
#include "family.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const Family families[] = {
    {"gpt2", NORM_LAYER, MLP_GELU_TANH, .learned_positions = true, .biases = true},
    {"llama", NORM_RMS, MLP_SWIGLU, ROPE_NEIGHBOURS, .renormalises_experts = true},
    {"qwen2", NORM_RMS, MLP_SWIGLU, ROPE_HALVES},
    {"qwen3", NORM_RMS, MLP_SWIGLU, ROPE_HALVES},
    {"gptneox", NORM_LAYER, MLP_GELU_ERF, ROPE_HALVES, .residual = RESIDUAL_BY_KEY, .biases = true},
    {"gemma", NORM_RMS, MLP_GEGLU, ROPE_HALVES, .scales_embedding = true},
    {"gemma2", NORM_RMS, MLP_GEGLU, ROPE_HALVES, NORMS_AROUND, .scales_embedding = true, .window_period = 2,
     .soft_caps = true, .layers_of_odd = 46, .odd_scale = true},
    {"gemma3", NORM_RMS, MLP_GEGLU, ROPE_HALVES, NORMS_AROUND, .scales_embedding = true, .window_period = 6,
     .rope_layers = ROPE_LOCAL_APART, .local_base = 10000, .logit_cap = true, .layers_of_odd = 62,
     .odd_scale = true},
    {"qwen2moe", NORM_RMS, MLP_SWIGLU, ROPE_HALVES},
    {"qwen3moe", NORM_RMS, MLP_SWIGLU, ROPE_HALVES, .renormalises_experts = true},
    {"olmoe", NORM_RMS, MLP_SWIGLU, ROPE_HALVES},
    {"granitemoe", NORM_RMS, MLP_SWIGLU, ROPE_NEIGHBOURS, .divides_logits = true,
     .renormalises_experts = true},
    {"gpt-oss", NORM_RMS, MLP_SWIGLU_CLAMPED, ROPE_HALVES, .mlp_norm = "post_attention_norm",
     .window_period = 2, .renormalises_experts = true, .yarn_exact = true, .biases = true},
    {"phi2", NORM_LAYER, MLP_GELU_TANH, ROPE_HALVES, .residual = RESIDUAL_PARALLEL, .biases = true},
    {"phi3", NORM_RMS, MLP_SWIGLU, ROPE_HALVES},
    {"gptj", NORM_LAYER, MLP_GELU_TANH, ROPE_NEIGHBOURS, .residual = RESIDUAL_PARALLEL,
     .trained_neighbours = true},
    {"codegen", NORM_LAYER, MLP_GELU_TANH, ROPE_NEIGHBOURS, .residual = RESIDUAL_PARALLEL,
     .trained_neighbours = true},
    {"bloom", NORM_LAYER, MLP_GELU_TANH, .max_alibi_bias = 8, .biases = true},
    {"mpt", NORM_LAYER, MLP_GELU_ERF},
    {"opt", NORM_LAYER, MLP_RELU, .learned_positions = true},
    {"gpt_neo", NORM_LAYER, MLP_GELU_TANH, .learned_positions = true},
    {"olmo", NORM_LAYER, MLP_SWIGLU, ROPE_NEIGHBOURS, .bare_norms = true},
    {"olmo2", NORM_RMS, MLP_SWIGLU, ROPE_HALVES, NORMS_BEHIND, .window_period = 4,
     .rope_layers = ROPE_LOCAL_APART},
    {"granite", NORM_RMS, MLP_SWIGLU, ROPE_NEIGHBOURS, .divides_logits = true},
    {"smollm3", NORM_RMS, MLP_SWIGLU, ROPE_NEIGHBOURS, .no_rope_period = 4},
    {"stablelm", NORM_LAYER, MLP_SWIGLU, ROPE_HALVES, .residual = RESIDUAL_BY_KEY},
    {"falcon", NORM_LAYER, MLP_GELU_ERF, ROPE_HALVES, .residual = RESIDUAL_PARALLEL},
    {"starcoder", NORM_LAYER, MLP_GELU_TANH, .learned_positions = true, .biases = true},
    {"starcoder2", NORM_LAYER, MLP_GELU_TANH, ROPE_HALVES, .biases = true},
    {"exaone", NORM_RMS, MLP_SWIGLU, ROPE_HALVES},
    {"internlm2", NORM_RMS, MLP_SWIGLU, ROPE_NEIGHBOURS},
    {"baichuan", NORM_RMS, MLP_SWIGLU, ROPE_NEIGHBOURS, .layers_of_odd = 40, .odd_alibi = true,
     .max_alibi_bias = 8},
    {"command-r", NORM_LAYER, MLP_SWIGLU, ROPE_NEIGHBOURS, .residual = RESIDUAL_PARALLEL,
     .trained_neighbours = true},
    {"cohere2", NORM_LAYER, MLP_SWIGLU, ROPE_NEIGHBOURS, .residual = RESIDUAL_PARALLEL,
     .trained_neighbours = true, .window_period = 4, .rope_layers = ROPE_LOCAL_ONLY},
    {"nemotron", NORM_LAYER, MLP_RELU_SQUARED, ROPE_HALVES},
    {"lfm2", NORM_RMS, MLP_SWIGLU, ROPE_HALVES, .mixer = MIXER_CONVOLUTION, .final_norm = "token_embd_norm"},
    {"qwen35", NORM_RMS, MLP_SWIGLU, ROPE_HALVES, .mixer = MIXER_DELTA_NET, .gated_attention = true,
     .mlp_norm = "post_attention_norm"},
};

enum { N_FAMILIES = sizeof families / sizeof *families };

const Family *family_find(String architecture) {
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (string_equals(architecture, families[i].architecture)) return &families[i];
    return NULL;
}

enum {
    MAX_NUMBER = 1 << 24, /* of heads, dimensions …: keeps every product of three far from overflow */
    MAX_CONTEXT = 1 << 30,
    MAX_WIDTH = 1 << 28, /* of a layer's heads together: far from overflow of 32 bits, too */
};

/* The metadata of one checkpoint, read key by key: `ok` turns false at the first error, and stays so. */
typedef struct KeyReader {
    const Checkpoint *checkpoint;
    const Family *family; /* as soon as it is known */
    Error *error;
    bool ok;
} KeyReader;

/* Keeps the first error. Is false. */
#define fail(reader, ...)                                                                                    \
    ((reader)->ok = (reader)->ok && checkpoint_error((reader)->checkpoint, (reader)->error, __VA_ARGS__))

typedef struct Key {
    char name[128];
} Key;

/* "llama" and "block_count" make "llama.block_count". */
static Key family_key(const KeyReader *reader, const char *suffix) {
    Key key;
    snprintf(key.name, sizeof key.name, "%s.%s", reader->family->architecture, suffix);
    return key;
}

/* The number under a family key: in 1 … max, or `otherwise` when the key is missing (0: it must not be). */
static size_t read_number(KeyReader *reader, const char *suffix, uint64_t max, size_t otherwise) {
    Key key = family_key(reader, suffix);
    uint64_t value = otherwise;
    if (!reader->ok) return 1;
    if (!otherwise && !checkpoint_has(reader->checkpoint, key.name))
        fail(reader, "metadata key '%s' is missing", key.name);
    else if (!checkpoint_u64(reader->checkpoint, key.name, &value, reader->error))
        reader->ok = false;
    else if (value == 0 || value > max)
        fail(reader, "'%s' is %" PRIu64 ", expected 1 to %" PRIu64, key.name, value, max);
    return reader->ok ? (size_t)value : 1;
}

/* Likewise a number that may be 0, which says the same as no key. */
static size_t read_count(KeyReader *reader, const char *suffix, size_t otherwise) {
    Key key = family_key(reader, suffix);
    uint64_t value = otherwise;
    if (reader->ok) reader->ok = checkpoint_u64(reader->checkpoint, key.name, &value, reader->error);
    if (reader->ok && value > MAX_NUMBER)
        fail(reader, "'%s' is %" PRIu64 ", which is absurd", key.name, value);
    return reader->ok && value ? (size_t)value : otherwise;
}

/* Likewise a float in [least, ∞), which is `otherwise` when the key is missing (NAN: it must not be). */
static float read_float(KeyReader *reader, const char *suffix, float least, float otherwise) {
    Key key = family_key(reader, suffix);
    float value = otherwise;
    if (!reader->ok) return 1;
    if (isnan(otherwise) && !checkpoint_has(reader->checkpoint, key.name))
        fail(reader, "metadata key '%s' is missing", key.name);
    else if (!checkpoint_f32(reader->checkpoint, key.name, &value, reader->error))
        reader->ok = false;
    else if (!(value >= least) || !isfinite(value))
        fail(reader, "'%s' is %g, expected a number from %g on", key.name, (double)value, (double)least);
    return reader->ok ? value : 1;
}

/* Likewise one that is not 0; where it is, that says the same as no key. */
static float read_factor(KeyReader *reader, const char *suffix, float otherwise) {
    float value = read_float(reader, suffix, -FLT_MAX, otherwise);
    return value != 0 ? value : otherwise;
}

static String read_text(KeyReader *reader, const char *suffix, const char *otherwise) {
    String text = {otherwise, strlen(otherwise)};
    if (reader->ok)
        reader->ok =
            checkpoint_string(reader->checkpoint, family_key(reader, suffix).name, &text, reader->error);
    return text;
}

static bool read_bool(KeyReader *reader, const char *suffix, bool otherwise) {
    bool value = otherwise;
    if (reader->ok)
        reader->ok =
            checkpoint_bool(reader->checkpoint, family_key(reader, suffix).name, &value, reader->error);
    return value;
}

static const Family *read_family(KeyReader *reader) {
    String name = {"", 0};
    char known[480] = "";
    if (!checkpoint_has(reader->checkpoint, "general.architecture")) {
        fail(reader, "no model in it: metadata key 'general.architecture' is missing");
        return NULL;
    }
    if (!checkpoint_string(reader->checkpoint, "general.architecture", &name, reader->error)) {
        reader->ok = false;
        return NULL;
    }
    if (checkpoint_n_tensors(reader->checkpoint) == 0) {
        fail(reader, "holds a vocabulary only, no weights");
        return NULL;
    }
    const Family *family = family_find(name);
    if (family) return family;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", families[i].architecture);
    }
    fail(reader, "architecture '%.*s' is not supported; these are: %s", string_shown(name), name.data, known);
    return NULL;
}

/*
 * How global layers turn, in config->rope, and how local ones do. Linear scaling has a present key and two older ones; a
 * factor without a type is linear, since the files are older than the other types. LongRoPE's factors are tensors.
 */
static void read_rope(KeyReader *reader, Config *config) {
    const Family *family = config->family;
    RopeConfig *rope = &config->rope;
    String type = read_text(reader, "rope.scaling.type", "linear");
    String pairing = {"", 0};
    bool none = string_equals(type, "none") || string_equals(type, "longrope"),
         yarn = string_equals(type, "yarn");
    if (reader->ok) /* of folders, whose rows of q and k lie as they were trained */
        reader->ok = checkpoint_string(reader->checkpoint, "attn.rope.pairing", &pairing, reader->error);
    if (!none && !yarn && !string_equals(type, "linear"))
        fail(reader, "RoPE scaling '%.*s' is not supported; linear, yarn and longrope are",
             string_shown(type), type.data);
    *rope = (RopeConfig){.pairing = family->rope, .yarn = yarn, .yarn_exact = family->yarn_exact, .scale = 1};
    if (string_equals(pairing, "halves")) rope->pairing = ROPE_HALVES;
    rope->dim = read_number(reader, "rope.dimension_count", MAX_NUMBER, config->d_head);
    rope->base = (double)read_float(reader, "rope.freq_base", FLT_MIN, 10000);
    float scale = read_factor(reader, "rope.scale_linear", read_factor(reader, "rope.scale", 1));
    scale = read_factor(reader, "rope.scaling.factor", scale);
    if (!none) rope->scale = (double)scale;
    rope->magnitude = (double)read_factor(reader, "rope.scaling.attn_factor", 1);
    rope->n_ctx_original =
        read_number(reader, "rope.scaling.original_context_length", MAX_CONTEXT, config->n_ctx);
    if (yarn) {
        rope->beta_fast = (double)read_factor(reader, "rope.scaling.yarn_beta_fast", 32);
        rope->beta_slow = (double)read_factor(reader, "rope.scaling.yarn_beta_slow", 1);
        /* YaRN's section 3.4, or what the file says instead; a multiplier takes that part out again (DeepSeek-V2). */
        double more = 0.1 * (scale > 1 ? log(rope->scale) : 0);
        double multiplier = (double)read_float(reader, "rope.scaling.yarn_log_multiplier", 0, 0);
        float factor = (float)((1 + more) / (1 + more * multiplier));
        rope->magnitude *= (double)read_factor(reader, "rope.scaling.yarn_attn_factor", factor);
    }
    config->local_rope = *rope;
    if (family->rope_layers == ROPE_LOCAL_APART)
        config->local_rope =
            (RopeConfig){rope->pairing, rope->dim, rope->base, 1, 1, .n_ctx_original = config->n_ctx};
    if (family->local_base > 0) config->local_rope.base = (double)family->local_base;
    config->local_rope.base =
        (double)read_float(reader, "rope.freq_base_swa", FLT_MIN, (float)config->local_rope.base);
    if (reader->ok && (rope->dim % 2 != 0 || rope->dim > config->d_head))
        fail(reader, "RoPE over %zu dimensions of heads of %zu: it must be even and no more", rope->dim,
             config->d_head);
}

/* Which layers have a window. The pattern is a period, or tells of each layer. */
static void read_windows(KeyReader *reader, Config *config) {
    Key key = family_key(reader, "attention.sliding_window_pattern");
    uint64_t window = 0, period = config->family->window_period;
    NumberArray layers = {0};
    if (!reader->ok) return;
    reader->ok = checkpoint_u64(reader->checkpoint, family_key(reader, "attention.sliding_window").name,
                                &window, reader->error);
    if (!reader->ok || window == 0) return;
    if (window > MAX_CONTEXT) window = 0; /* no text is as long */
    config->window = (size_t)window;
    if (checkpoint_is_array(reader->checkpoint, key.name)) {
        reader->ok = checkpoint_bools(reader->checkpoint, key.name, &layers, reader->error);
        if (reader->ok && layers.n < config->n_layer)
            fail(reader, "'%s' tells of %zu layers, not of %zu", key.name, layers.n, config->n_layer);
        config->window_layers = layers.data;
    } else {
        reader->ok = checkpoint_u64(reader->checkpoint, key.name, &period, reader->error);
        if (period > MAX_NUMBER) fail(reader, "'%s' is %" PRIu64, key.name, period);
        config->window_period = (uint32_t)period;
    }
}

bool config_is_local(const Config *config, size_t layer) {
    if (config->window == 0) return false;
    if (config->window_layers) return config->window_layers[layer];
    return config->window_period == 0 || layer % config->window_period < config->window_period - 1;
}

const RopeConfig *config_rope(const Config *config, size_t layer) {
    const Family *family = config->family;
    bool local = config_is_local(config, layer);
    if (config->rope.pairing == ROPE_NONE) return NULL;
    if (family->no_rope_period && layer % family->no_rope_period == family->no_rope_period - 1) return NULL;
    if (family->rope_layers == ROPE_LOCAL_ONLY && config->window && !local) return NULL;
    return local ? &config->local_rope : &config->rope;
}

static void read_scales(KeyReader *reader, Config *config) {
    const Family *family = config->family;
    bool odd = family->layers_of_odd && family->layers_of_odd == config->n_layer;
    config->embedding_scale =
        read_factor(reader, "embedding_scale", family->scales_embedding ? sqrtf((float)config->d_model) : 1);
    config->residual_scale = read_factor(reader, "residual_scale", 1);
    config->logit_scale = read_factor(reader, "logit_scale", 1);
    if (family->divides_logits) config->logit_scale = 1 / config->logit_scale;
    float odd_scale = 1 / sqrtf((float)config->d_model / (float)config->n_head);
    config->attention_scale =
        read_factor(reader, "attention.scale", odd && family->odd_scale ? odd_scale : 0);
    config->clamp_qkv = read_float(reader, "attention.clamp_kqv", 0, 0);
    float alibi = family->odd_alibi && !odd ? 0 : family->max_alibi_bias;
    config->max_alibi_bias = read_factor(reader, "attention.max_alibi_bias", alibi);
    if (odd && family->odd_alibi) config->rope.pairing = ROPE_NONE;
    if (family->soft_caps) config->score_cap = read_float(reader, "attn_logit_softcapping", 0, 50);
    if (family->soft_caps || family->logit_cap)
        config->logit_cap = read_float(reader, "final_logit_softcapping", 0, family->soft_caps ? 30 : 0);
}

static void read_experts(KeyReader *reader, Config *config) {
    uint64_t n_expert = 0;
    Key key = family_key(reader, "expert_count");
    if (reader->ok) reader->ok = checkpoint_u64(reader->checkpoint, key.name, &n_expert, reader->error);
    if (!reader->ok || n_expert == 0) return;
    config->n_expert = read_number(reader, "expert_count", 65536, 0);
    config->n_expert_used = read_number(reader, "expert_used_count", config->n_expert, 0);
    config->d_ff_expert = read_count(reader, "expert_feed_forward_length", config->d_ff);
    config->d_ff_shared = read_count(reader, "expert_shared_feed_forward_length", 0);
    config->expert_scale = read_factor(reader, "expert_weights_scale", 1);
}

/* Heads of the layers with attention: an array may say that the others have 0. */
static size_t read_heads(KeyReader *reader, const char *suffix, size_t otherwise) {
    Key key = family_key(reader, suffix);
    NumberArray layers = {0};
    int32_t most = 0;
    if (!reader->ok || reader->family->mixer == MIXER_ATTENTION ||
        !checkpoint_is_array(reader->checkpoint, key.name))
        return read_number(reader, suffix, MAX_NUMBER, otherwise);
    reader->ok = checkpoint_i32s(reader->checkpoint, key.name, &layers, reader->error);
    for (size_t i = 0; i < layers.n; i++)
        if (i32_at(&layers, i) > most) most = i32_at(&layers, i);
    if (most < 1 || most > MAX_NUMBER)
        fail(reader, "'%s' gives a layer %" PRId32 " heads at most", key.name, most);
    return reader->ok ? (size_t)most : 1;
}

static void read_states(KeyReader *reader, Config *config) {
    StateShape *state = &config->state;
    if (config->family->mixer == MIXER_CONVOLUTION)
        *state = (StateShape){.n_taps = read_number(reader, "shortconv.l_cache", MAX_NUMBER, 0),
                              .n_channels = config->d_model,
                              .d_inner = config->d_model};
    if (config->family->mixer != MIXER_DELTA_NET) return;
    state->n_taps = read_number(reader, "ssm.conv_kernel", MAX_NUMBER, 0);
    state->n_head = read_number(reader, "ssm.time_step_rank", MAX_NUMBER, 0);
    state->n_key_head = read_number(reader, "ssm.group_count", MAX_NUMBER, 0);
    state->d_head = read_number(reader, "ssm.state_size", STATE_MAX_HEAD, 0);
    state->d_inner = read_number(reader, "ssm.inner_size", MAX_NUMBER, 0);
    state->n_channels = state->d_inner + 2 * state->n_key_head * state->d_head;
    if (state->d_inner != state->n_head * state->d_head || state->n_head % state->n_key_head != 0)
        fail(reader, "%zu heads of %zu numbers, %zu in all, cannot share %zu key heads evenly", state->n_head,
             state->d_head, state->d_inner, state->n_key_head);
}

/* What a file may ask for and is not computed here: better no answer than a wrong one. */
static void refuse_unsupported(KeyReader *reader, const Config *config) {
    if (!read_bool(reader, "attention.causal", true))
        fail(reader,
             "attention that sees later tokens ('%s' is false) is not supported: this model embeds texts",
             family_key(reader, "attention.causal").name);
    if (config->family->residual == RESIDUAL_SERIAL && config->parallel_residual)
        fail(reader, "'%s' has no meaning in this family", family_key(reader, "use_parallel_residual").name);
    /* These layouts have q and k as the family's RoPE pairing expects them. */
    String layout = read_text(reader, "tensor_data_layout", "reference");
    if (!string_equals(layout, "reference") && !string_equals(layout, "Meta AI original pth") &&
        !string_equals(layout, "jploski"))
        fail(reader, "'%s' is '%.*s', which is not supported", family_key(reader, "tensor_data_layout").name,
             string_shown(layout), layout.data);
}

bool config_read(Config *config, const Checkpoint *checkpoint, Error *error) {
    KeyReader reader = {.checkpoint = checkpoint, .error = error, .ok = true};
    *config = (Config){.family = read_family(&reader)};
    if (!reader.ok) return false;
    const Family *family = config->family;
    reader.family = family;

    config->n_layer = read_number(&reader, "block_count", MAX_NUMBER, 0);
    config->n_unused_layers = read_count(&reader, "nextn_predict_layers", 0);
    if (config->n_unused_layers >= config->n_layer)
        fail(&reader, "of %zu layers %zu predict tokens further on, and none the next", config->n_layer,
             config->n_unused_layers);
    config->n_layer -= config->n_unused_layers;
    config->d_model = read_number(&reader, "embedding_length", MAX_NUMBER, 0);
    config->d_ff = read_number(&reader, "feed_forward_length", MAX_NUMBER, 4 * config->d_model);
    config->n_ctx = read_number(&reader, "context_length", MAX_CONTEXT, 0);
    config->position_offset = read_count(&reader, "position_offset", 0);
    config->n_head = read_heads(&reader, "attention.head_count", 0);
    config->n_head_kv = read_heads(&reader, "attention.head_count_kv", config->n_head);
    bool has_d_head = checkpoint_has(checkpoint, family_key(&reader, "attention.key_length").name);
    if (!has_d_head && config->d_model % config->n_head != 0)
        fail(&reader, "d_model %zu is not divisible by %zu heads", config->d_model, config->n_head);
    config->d_head =
        read_number(&reader, "attention.key_length", MAX_NUMBER, config->d_model / config->n_head);
    if (read_number(&reader, "attention.value_length", MAX_NUMBER, config->d_head) != config->d_head)
        fail(&reader, "keys and values of different lengths are not supported");
    if ((uint64_t)config->n_head * config->d_head > MAX_WIDTH)
        fail(&reader, "%zu heads of %zu numbers each are absurd", config->n_head, config->d_head);
    if (config->n_head % config->n_head_kv != 0)
        fail(&reader, "%zu heads cannot share %zu kv heads evenly", config->n_head, config->n_head_kv);
    config->norm_eps = read_float(&reader,
                                  family->norm == NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                                           : "attention.layer_norm_epsilon",
                                  FLT_MIN, NAN);
    if (family->rope != ROPE_NONE) read_rope(&reader, config);
    read_windows(&reader, config);
    read_scales(&reader, config);
    read_experts(&reader, config);
    read_states(&reader, config);
    config->parallel_residual =
        read_bool(&reader, "use_parallel_residual", family->residual == RESIDUAL_PARALLEL);
    refuse_unsupported(&reader, config);

    const Tensor *embedding = checkpoint_find(checkpoint, "token_embd.weight");
    if (reader.ok && !embedding) fail(&reader, "tensor 'token_embd.weight' is missing");
    if (reader.ok && embedding->dims[1] > MAX_NUMBER)
        fail(&reader, "a vocabulary of %" PRIu64 " is absurd", embedding->dims[1]);
    if (reader.ok) config->n_vocab = (size_t)embedding->dims[1];
    config->tied = !checkpoint_find(checkpoint, "output.weight");
    return reader.ok;
}
