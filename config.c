/* The numbers of a checkpoint, read from its keys and checked. */
#include "config.h"

#include "checkpoint/keys.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

enum {
    MAX_NUMBER = 1 << 24, /* of heads, dimensions …: keeps every product of three far from overflow */
    MAX_CONTEXT = 1 << 30,
    MAX_WIDTH = 1 << 28, /* of a layer's heads together: far from overflow of 32 bits, too */
};

static const Family *read_family(KeyReader *reader) {
    String name = {"", 0}, type = {"", 0};
    char known[480];
    if (checkpoint_n_tensors(reader->checkpoint) == 0 && checkpoint_n_values(reader->checkpoint) > 0) {
        keys_fail(reader, "holds a vocabulary only, no weights");
        return NULL;
    }
    if (!checkpoint_has(reader->checkpoint, "general.architecture")) {
        keys_fail(reader, "no model in it: metadata key 'general.architecture' is missing");
        return NULL;
    }
    if (!checkpoint_string(reader->checkpoint, "general.architecture", &name, reader->error)) {
        reader->ok = false;
        return NULL;
    }
    if (checkpoint_string(reader->checkpoint, "general.type", &type, NULL) &&
        string_equals(type, "adapter")) {
        keys_fail(reader, "an adapter (LoRA) for another model, not a model; merge it into that one first");
        return NULL;
    }
    const Family *family = family_find(name);
    if (family) return family;
    family_list(known, sizeof known);
    keys_fail(reader, "architecture '%.*s' is not supported; these are: %s", string_shown(name), name.data,
              known);
    return NULL;
}

/*
 * How positions are stretched. Linear scaling has a present key and an older one; a factor without a type is linear, since the
 * files are older than the other types. Gemma 3 as Ollama first wrote it leaves out what config.json says of the larger ones.
 */
static float read_stretch(KeyReader *reader, const Config *config) {
    const float stretch = config->family->stretch;
    bool is_bare = stretch > 0 && config->n_ctx >= 131072 && !keys_has(reader, "rope.freq_base");
    return keys_factor(reader, "rope.scaling.factor",
                       keys_factor(reader, "rope.scale_linear", is_bare ? stretch : 1));
}

/* θ under its key, or under the one that Ollama's first files of Gemma 3 have. */
static double read_base(KeyReader *reader, const char *suffix, const char *older, double otherwise) {
    return (double)keys_float(reader, suffix, FLT_MIN, keys_float(reader, older, FLT_MIN, (float)otherwise));
}

/*
 * How global layers turn, in config->rope, and how local ones do. LongRoPE's factors are tensors. YaRN's magnitude is that of
 * its section 3.4 times attn_factor; yarn_attn_factor, which llama.cpp's converter copies from keys of two meanings, says
 * nothing to it nor here.
 */
static void read_rope(KeyReader *reader, Config *config) {
    const Family *family = config->family;
    RopeConfig *rope = &config->rope;
    String type = keys_text(reader, "rope.scaling.type", "linear");
    String pairing = {"", 0};
    bool none = string_equals(type, "none") || string_equals(type, "longrope"),
         yarn = string_equals(type, "yarn");
    if (reader->ok) /* of folders, whose rows of q and k lie as they were trained */
        reader->ok = checkpoint_string(reader->checkpoint, "attn.rope.pairing", &pairing, reader->error);
    config->rope_is_dynamic = keys_bool(reader, "rope.scaling.dynamic", false);
    if (!none && !yarn && !string_equals(type, "linear"))
        keys_fail(reader, "RoPE scaling '%.*s' is not supported; linear, yarn and longrope are",
                  string_shown(type), type.data);
    *rope = (RopeConfig){.pairing = family->rope, .yarn = yarn, .yarn_exact = family->yarn_exact, .scale = 1};
    if (string_equals(pairing, "halves")) rope->pairing = ROPE_HALVES;
    rope->dim = keys_number(reader, "rope.dimension_count", MAX_NUMBER, config->d_head);
    rope->base = read_base(reader, "rope.freq_base", "rope.global.freq_base",
                           family->base > 0 ? (double)family->base : 10000);
    float scale = read_stretch(reader, config);
    if (!none) rope->scale = (double)scale;
    rope->magnitude = (double)keys_factor(reader, "rope.scaling.attn_factor", 1);
    rope->n_ctx_original =
        keys_number(reader, "rope.scaling.original_context_length", MAX_CONTEXT, config->n_ctx);
    if (yarn) {
        rope->beta_fast = (double)keys_factor(reader, "rope.scaling.yarn_beta_fast", 32);
        rope->beta_slow = (double)keys_factor(reader, "rope.scaling.yarn_beta_slow", 1);
        if (scale > 1) rope->magnitude *= 1 + 0.1 * log(rope->scale);
    }
    config->local_rope = *rope;
    if (family->rope_layers == ROPE_LOCAL_APART)
        config->local_rope =
            (RopeConfig){rope->pairing, rope->dim, rope->base, 1, 1, .n_ctx_original = config->n_ctx};
    if (family->local_base > 0) config->local_rope.base = (double)family->local_base;
    config->local_rope.base =
        read_base(reader, "rope.freq_base_swa", "rope.local.freq_base", config->local_rope.base);
    if (reader->ok && (rope->dim % 2 != 0 || rope->dim > config->d_head))
        keys_fail(reader, "RoPE over %zu dimensions of heads of %zu: it must be even and no more", rope->dim,
                  config->d_head);
}

/* Reads what a key tells of each layer, if the file has it. */
static FlagArray read_layers(KeyReader *reader, const Config *config, const char *suffix) {
    const KeyName key = keys_name(reader, suffix);
    FlagArray layers = {0};
    if (reader->ok) reader->ok = checkpoint_flags(reader->checkpoint, key.text, &layers, reader->error);
    if (reader->ok && layers.data && layers.n < config->n_layer)
        keys_fail(reader, "'%s' tells of %zu layers, not of %zu", key.text, layers.n, config->n_layer);
    return layers;
}

/* Which layers have a window. The pattern is a period, or tells of each layer. */
static void read_windows(KeyReader *reader, Config *config) {
    const char *pattern = "attention.sliding_window_pattern";
    const KeyName key = keys_name(reader, pattern);
    uint64_t window = config->family->window, period = config->family->window_period;
    if (!reader->ok) return;
    reader->ok = checkpoint_u64(reader->checkpoint, keys_name(reader, "attention.sliding_window").text,
                                &window, reader->error);
    if (!reader->ok || window == 0) return;
    if (window > MAX_CONTEXT)
        window = MAX_CONTEXT; /* it hides nothing, but its layers may turn otherwise than others */
    config->window = (size_t)window;
    if (checkpoint_is_array(reader->checkpoint, key.text)) {
        config->window_layers = read_layers(reader, config, pattern);
    } else {
        reader->ok = checkpoint_u64(reader->checkpoint, key.text, &period, reader->error);
        if (period > MAX_NUMBER) keys_fail(reader, "'%s' is %" PRIu64, key.text, period);
        config->window_period = (uint32_t)period;
    }
}

static bool flag_at(const FlagArray *flags, size_t i) { return flags->data[i * flags->stride]; }

bool config_is_local(const Config *config, size_t layer) {
    if (config->window == 0) return false;
    if (config->window_layers.data) return flag_at(&config->window_layers, layer);
    return config->window_period == 0 || layer % config->window_period < config->window_period - 1;
}

const RopeConfig *config_rope(const Config *config, size_t layer) {
    const Family *family = config->family;
    const unsigned period = family->no_rope_period;
    bool local = config_is_local(config, layer);
    if (config->rope.pairing == ROPE_NONE) return NULL;
    if (config->rope_layers.data ? !flag_at(&config->rope_layers, layer)
                                 : period && layer % period == period - 1)
        return NULL;
    if (family->rope_layers == ROPE_LOCAL_ONLY && config->window && !local) return NULL;
    return local ? &config->local_rope : &config->rope;
}

/* A cap that nothing reaches is none. It stands for none in files, too: llama.cpp divides by it, so that 0 would not do. */
static float read_cap(KeyReader *reader, const char *suffix, float otherwise) {
    float cap = keys_float(reader, suffix, 0, otherwise);
    return cap < 0x1p50F ? cap : 0;
}

static void read_scales(KeyReader *reader, Config *config) {
    const Family *family = config->family;
    bool odd = family->layers_of_odd && family->layers_of_odd == config->n_layer;
    config->embedding_scale =
        keys_factor(reader, "embedding_scale", family->scales_embedding ? sqrtf((float)config->d_model) : 1);
    config->residual_scale = keys_factor(reader, "residual_scale", 1);
    config->logit_scale = keys_factor(reader, "logit_scale", 1);
    if (family->divides_logits) config->logit_scale = 1 / config->logit_scale;
    float odd_scale = 1 / sqrtf((float)config->d_model / (float)config->n_head);
    config->attention_scale =
        keys_factor(reader, "attention.scale", odd && family->odd_scale ? odd_scale : 0);
    config->clamp_qkv = keys_float(reader, "attention.clamp_kqv", 0, 0);
    float alibi = family->odd_alibi && !odd ? 0 : family->max_alibi_bias;
    config->max_alibi_bias = keys_factor(reader, "attention.max_alibi_bias", alibi);
    if (odd && family->odd_alibi) config->rope.pairing = ROPE_NONE;
    if (family->soft_caps) config->score_cap = read_cap(reader, "attn_logit_softcapping", 50);
    if (family->soft_caps || family->logit_cap)
        config->logit_cap = read_cap(reader, "final_logit_softcapping", family->soft_caps ? 30 : 0);
}

/* The function of the hidden layer, by transformers' names, where it is not the family's. */
static void read_activation(KeyReader *reader, Config *config) {
    static const struct {
        const char *name;
        MlpKind kind;
    } kinds[] = {{"gelu_new", MLP_GELU_TANH}, {"gelu", MLP_GELU_ERF}, {"relu", MLP_RELU},
                 {"relu2", MLP_RELU_SQUARED}, {"silu", MLP_SWIGLU},   {"gelu_new", MLP_GEGLU}};
    const MlpKind own = config->mlp = config->family->mlp;
    const KeyName key = keys_name(reader, "hidden_activation");
    String name = keys_text(reader, "hidden_activation", "");
    bool found = !reader->ok || !checkpoint_has(reader->checkpoint, key.text);
    for (size_t i = 0; !found && own != MLP_SWIGLU_CLAMPED && i < sizeof kinds / sizeof *kinds; i++)
        if (string_equals(name, kinds[i].name) && mlp_has_gate(kinds[i].kind) == mlp_has_gate(own))
            config->mlp = kinds[i].kind, found = true;
    if (!found)
        keys_fail(reader, "'%s' is '%.*s', which is not supported in this family", key.text,
                  string_shown(name), name.data);
}

static void read_experts(KeyReader *reader, Config *config) {
    uint64_t n_expert = 0;
    const KeyName key = keys_name(reader, "expert_count");
    if (reader->ok) reader->ok = checkpoint_u64(reader->checkpoint, key.text, &n_expert, reader->error);
    if (!reader->ok || n_expert == 0) return;
    if (!mlp_has_gate(config->mlp)) keys_fail(reader, "experts whose MLPs have no gate are not supported");
    config->n_expert = keys_number(reader, "expert_count", 65536, 0);
    config->n_expert_used = keys_number(reader, "expert_used_count", config->n_expert, 0);
    config->d_ff_expert = keys_count(reader, "expert_feed_forward_length", MAX_NUMBER, config->d_ff);
    config->d_ff_shared = keys_count(reader, "expert_shared_feed_forward_length", MAX_NUMBER, 0);
    config->expert_scale = keys_factor(reader, "expert_weights_scale", 1);
    config->renormalises_experts =
        keys_bool(reader, "expert_weights_norm", config->family->renormalises_experts);
}

/* Heads of the layers with attention: an array may say that the others have 0. */
static size_t read_heads(KeyReader *reader, const Family *family, const char *suffix, size_t otherwise) {
    const KeyName key = keys_name(reader, suffix);
    NumberArray layers = {0};
    int32_t most = 0;
    if (!reader->ok || family->mixer == MIXER_ATTENTION || !checkpoint_is_array(reader->checkpoint, key.text))
        return keys_number(reader, suffix, MAX_NUMBER, otherwise);
    reader->ok = checkpoint_i32s(reader->checkpoint, key.text, &layers, reader->error);
    for (size_t i = 0; i < layers.n; i++)
        if (i32_at(&layers, i) > most) most = i32_at(&layers, i);
    if (most < 1 || most > MAX_NUMBER)
        keys_fail(reader, "'%s' gives a layer %" PRId32 " heads at most", key.text, most);
    return reader->ok ? (size_t)most : 1;
}

static void read_states(KeyReader *reader, Config *config) {
    StateShape *state = &config->state;
    if (config->family->mixer == MIXER_CONVOLUTION)
        *state = (StateShape){.n_taps = keys_number(reader, "shortconv.l_cache", MAX_NUMBER, 0),
                              .n_channels = config->d_model,
                              .d_inner = config->d_model};
    if (config->family->mixer != MIXER_DELTA_NET) return;
    String heads = {"", 0};
    if (reader->ok) /* of folders, whose heads lie as they were trained */
        reader->ok = checkpoint_string(reader->checkpoint, "attn.delta_heads", &heads, reader->error);
    state->grouped = string_equals(heads, "grouped");
    state->n_taps = keys_number(reader, "ssm.conv_kernel", MAX_NUMBER, 0);
    state->n_head = keys_number(reader, "ssm.time_step_rank", MAX_NUMBER, 0);
    state->n_key_head = keys_number(reader, "ssm.group_count", MAX_NUMBER, 0);
    state->d_head = keys_number(reader, "ssm.state_size", STATE_MAX_HEAD, 0);
    state->d_inner = keys_number(reader, "ssm.inner_size", MAX_NUMBER, 0);
    state->n_channels = state->d_inner + 2 * state->n_key_head * state->d_head;
    if (state->d_inner != state->n_head * state->d_head || state->n_head % state->n_key_head != 0)
        keys_fail(reader, "%zu heads of %zu numbers, %zu in all, cannot share %zu key heads evenly",
                  state->n_head, state->d_head, state->d_inner, state->n_key_head);
}

/* Whether attention and MLP both read resid_pre. The key of that name is of one family alone: converters write it for more. */
static bool read_parallel(KeyReader *reader, Residual residual) {
    if (residual == RESIDUAL_BY_NORM) return !checkpoint_find(reader->checkpoint, "blk.0.ffn_norm.weight");
    if (residual == RESIDUAL_BY_KEY) return keys_bool(reader, "use_parallel_residual", true);
    return residual == RESIDUAL_PARALLEL;
}

/* Refuses what a file may ask for and is not computed here: better no answer than a wrong one. */
static void refuse_unsupported(KeyReader *reader) {
    if (!keys_bool(reader, "attention.causal", true))
        keys_fail(
            reader,
            "attention that sees later tokens ('%s' is false) is not supported: this model embeds texts",
            keys_name(reader, "attention.causal").text);
    /* These layouts have q and k as the family's RoPE pairing expects them. */
    String layout = keys_text(reader, "tensor_data_layout", "reference");
    if (!string_equals(layout, "reference") && !string_equals(layout, "Meta AI original pth") &&
        !string_equals(layout, "jploski"))
        keys_fail(reader, "'%s' is '%.*s', which is not supported",
                  keys_name(reader, "tensor_data_layout").text, string_shown(layout), layout.data);
}

/* Keys that change no number: they inform, or say again what tensors say, or belong to a tower of pictures. */
static const char *const idle[] = {"vocab_size",
                                   "rope.scaling.finetuned",
                                   "rope.dimension_sections",
                                   "attention.recurrent_layers",
                                   "full_attention_interval",
                                   "expert_shared_count",
                                   "vision.",
                                   "mm.",
                                   NULL};

bool config_read(Config *config, const Checkpoint *checkpoint, Error *error) {
    KeyReader reader = {.checkpoint = checkpoint, .error = error, .ok = true};
    *config = (Config){.family = read_family(&reader)};
    if (!reader.ok) return false;
    const Family *family = config->family;
    reader.prefix = family->architecture;

    config->n_layer = keys_number(&reader, "block_count", MAX_NUMBER, 0);
    config->n_unused_layers = keys_count(&reader, "nextn_predict_layers", MAX_NUMBER, 0);
    if (config->n_unused_layers >= config->n_layer)
        keys_fail(&reader, "of %zu layers %zu predict tokens further on, and none the next", config->n_layer,
                  config->n_unused_layers);
    config->n_layer -= config->n_unused_layers;
    config->d_model = keys_number(&reader, "embedding_length", MAX_NUMBER, 0);
    config->d_ff = keys_number(&reader, "feed_forward_length", MAX_NUMBER, 4 * config->d_model);
    config->n_ctx = keys_number(&reader, "context_length", MAX_CONTEXT, 0);
    config->position_offset = keys_count(&reader, "position_offset", MAX_NUMBER, 0);
    config->n_head = read_heads(&reader, family, "attention.head_count", 0);
    config->n_head_kv = read_heads(&reader, family, "attention.head_count_kv", config->n_head);
    bool has_d_head = checkpoint_has(checkpoint, keys_name(&reader, "attention.key_length").text);
    if (!has_d_head && config->d_model % config->n_head != 0)
        keys_fail(&reader, "d_model %zu is not divisible by %zu heads", config->d_model, config->n_head);
    config->d_head =
        keys_number(&reader, "attention.key_length", MAX_NUMBER, config->d_model / config->n_head);
    if (keys_number(&reader, "attention.value_length", MAX_NUMBER, config->d_head) != config->d_head)
        keys_fail(&reader, "keys and values of different lengths are not supported");
    if ((uint64_t)config->n_head * config->d_head > MAX_WIDTH)
        keys_fail(&reader, "%zu heads of %zu numbers each are absurd", config->n_head, config->d_head);
    if (config->n_head % config->n_head_kv != 0)
        keys_fail(&reader, "%zu heads cannot share %zu kv heads evenly", config->n_head, config->n_head_kv);
    config->norm_eps = keys_float(&reader,
                                  family->norm == NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                                           : "attention.layer_norm_epsilon",
                                  FLT_MIN, family->norm_eps > 0 ? family->norm_eps : NAN);
    if (family->rope != ROPE_NONE) read_rope(&reader, config);
    read_windows(&reader, config);
    config->rope_layers = read_layers(&reader, config, "rope.layer_pattern");
    read_activation(&reader, config);
    read_scales(&reader, config);
    read_experts(&reader, config);
    read_states(&reader, config);
    config->parallel_residual = read_parallel(&reader, family->residual);
    refuse_unsupported(&reader);

    const Tensor *embedding = checkpoint_find(checkpoint, "token_embd.weight");
    if (reader.ok && !embedding) keys_fail(&reader, "tensor 'token_embd.weight' is missing");
    if (reader.ok && embedding->dims[1] > MAX_NUMBER)
        keys_fail(&reader, "a vocabulary of %" PRIu64 " is absurd", embedding->dims[1]);
    if (reader.ok) config->n_vocab = (size_t)embedding->dims[1];
    config->tied = !checkpoint_find(checkpoint, "output.weight");
    if (reader.ok) config->n_unread = keys_unread(&reader, idle, config->unread, MAX_UNREAD);
    return reader.ok;
}
