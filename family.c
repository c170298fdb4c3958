/*
 * From a checkpoint's names to a model's Config and Weights. The table of families comes first: to add
 * one, add its row, and if its tensors or keys have names that are not yet here, their names below.
 */
#include "family.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const Family families[] = {
    {"gpt2", .norm = NORM_LAYER, .learned_positions = true, .mlp = MLP_GELU_TANH, .fused_qkv = true,
     .biases = true},
    {"llama", .norm = NORM_RMS, .rope = ROPE_NEIGHBOURS, .mlp = MLP_SWIGLU},
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
};

/* The metadata of one checkpoint, read key by key: `ok` turns false at the first error, and stays so. */
typedef struct KeyReader {
    const Checkpoint *checkpoint;
    const char *architecture;
    Error *error;
    bool ok;
} KeyReader;

static bool fail(KeyReader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(KeyReader *reader, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (reader->ok) error_set(reader->error, "%s: %s", checkpoint_path(reader->checkpoint), text);
    return reader->ok = false;
}

typedef struct Key {
    char name[128];
} Key;

/* "llama" and "block_count" make "llama.block_count". */
static Key family_key(const KeyReader *reader, const char *suffix) {
    Key key;
    snprintf(key.name, sizeof key.name, "%s.%s", reader->architecture, suffix);
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

/* Likewise a positive float; `otherwise` 0: it must not be missing. */
static float read_float(KeyReader *reader, const char *suffix, float otherwise) {
    Key key = family_key(reader, suffix);
    float value = otherwise;
    if (!reader->ok) return 1;
    if (otherwise == 0 && !checkpoint_has(reader->checkpoint, key.name))
        fail(reader, "metadata key '%s' is missing", key.name);
    else if (!checkpoint_f32(reader->checkpoint, key.name, &value, reader->error))
        reader->ok = false;
    else if (!(value > 0) || !isfinite(value))
        fail(reader, "'%s' is %g, expected a positive number", key.name, (double)value);
    return reader->ok ? value : 1;
}

static const Family *read_family(KeyReader *reader) {
    String name = {"", 0};
    char known[128] = "";
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
    fail(reader,
         "architecture '%.*s' is not supported; these are: %s. Take a model of one of them, or run this one "
         "with llama.cpp",
         string_shown(name), name.data, known);
    return NULL;
}

/*
 * Linear scaling under its present key and its two older ones; any other kind is refused. A factor
 * without a type is linear: the files are older than the other types.
 */
static float read_rope_scale(KeyReader *reader) {
    String type = {"linear", 6};
    if (reader->ok)
        reader->ok = checkpoint_string(reader->checkpoint, family_key(reader, "rope.scaling.type").name,
                                       &type, reader->error);
    if (!reader->ok || string_equals(type, "none")) return 1;
    if (!string_equals(type, "linear"))
        fail(reader, "RoPE scaling '%.*s' is not supported; 'linear' is", string_shown(type), type.data);
    float scale = read_float(reader, "rope.scale_linear", read_float(reader, "rope.scale", 1));
    return read_float(reader, "rope.scaling.factor", scale);
}

/* What a file of these families may ask for and is not computed here: better no answer than a wrong one. */
static void refuse_unsupported(KeyReader *reader) {
    static const char *const numbers[] = {"attention.max_alibi_bias", "attention.clamp_kqv"};
    uint64_t n_expert = 0, window = 0;
    Key key = family_key(reader, "expert_count");
    if (!reader->ok) return;
    reader->ok = checkpoint_u64(reader->checkpoint, key.name, &n_expert, reader->error);
    if (reader->ok && n_expert > 0)
        fail(reader, "a mixture of %" PRIu64 " experts is not supported", n_expert);
    key = family_key(reader, "attention.sliding_window");
    if (reader->ok) reader->ok = checkpoint_u64(reader->checkpoint, key.name, &window, reader->error);
    if (reader->ok && window > 0) fail(reader, "a sliding window ('%s') is not supported", key.name);
    for (size_t i = 0; reader->ok && i < sizeof numbers / sizeof *numbers; i++) {
        float value = 0;
        key = family_key(reader, numbers[i]);
        reader->ok = checkpoint_f32(reader->checkpoint, key.name, &value, reader->error);
        if (reader->ok && value != 0)
            fail(reader, "'%s' is %g, which is not supported", key.name, (double)value);
    }
    /* Both layouts have q and k as the family's RoPE pairing expects them. */
    String layout = {"reference", 9};
    key = family_key(reader, "tensor_data_layout");
    if (reader->ok) reader->ok = checkpoint_string(reader->checkpoint, key.name, &layout, reader->error);
    if (reader->ok && !string_equals(layout, "reference") && !string_equals(layout, "Meta AI original pth"))
        fail(reader, "'%s' is '%.*s', which is not supported", key.name, string_shown(layout), layout.data);
}

static void check_config(KeyReader *reader, const Config *config) {
    if (config->n_head % config->n_head_kv != 0)
        fail(reader, "%zu heads cannot share %zu kv heads evenly", config->n_head, config->n_head_kv);
    else if (config->family->rope != ROPE_NONE &&
             (config->rope_dim % 2 != 0 || config->rope_dim > config->d_head))
        fail(reader, "RoPE over %zu dimensions of heads of %zu: it must be even and no more",
             config->rope_dim, config->d_head);
}

bool config_read(Config *config, const Checkpoint *checkpoint, Error *error) {
    KeyReader reader = {.checkpoint = checkpoint, .error = error, .ok = true};
    *config = (Config){.family = read_family(&reader)};
    if (!reader.ok) return false;
    reader.architecture = config->family->architecture;

    config->n_layer = read_number(&reader, "block_count", MAX_NUMBER, 0);
    config->d_model = read_number(&reader, "embedding_length", MAX_NUMBER, 0);
    config->d_ff = read_number(&reader, "feed_forward_length", MAX_NUMBER, 4 * config->d_model);
    config->n_ctx = read_number(&reader, "context_length", MAX_CONTEXT, 0);
    config->n_head = read_number(&reader, "attention.head_count", MAX_NUMBER, 0);
    config->n_head_kv = read_number(&reader, "attention.head_count_kv", MAX_NUMBER, config->n_head);
    bool has_d_head = checkpoint_has(checkpoint, family_key(&reader, "attention.key_length").name);
    if (!has_d_head && config->d_model % config->n_head != 0)
        fail(&reader, "d_model %zu is not divisible by %zu heads", config->d_model, config->n_head);
    config->d_head =
        read_number(&reader, "attention.key_length", MAX_NUMBER, config->d_model / config->n_head);
    if (read_number(&reader, "attention.value_length", MAX_NUMBER, config->d_head) != config->d_head)
        fail(&reader, "keys and values of different lengths are not supported");
    config->norm_eps = read_float(&reader,
                                  config->family->norm == NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                                                   : "attention.layer_norm_epsilon",
                                  0);
    if (config->family->rope != ROPE_NONE) {
        config->rope_dim = read_number(&reader, "rope.dimension_count", MAX_NUMBER, config->d_head);
        config->rope_base = read_float(&reader, "rope.freq_base", 10000);
        config->rope_scale = read_rope_scale(&reader);
    }
    if (reader.ok)
        reader.ok = checkpoint_bool(checkpoint, family_key(&reader, "use_parallel_residual").name,
                                    &config->parallel_residual, error);
    refuse_unsupported(&reader);
    if (reader.ok) check_config(&reader, config);

    const Tensor *embedding = checkpoint_find(checkpoint, "token_embd.weight");
    if (reader.ok && !embedding) fail(&reader, "tensor 'token_embd.weight' is missing");
    if (reader.ok && embedding->dims[1] > MAX_NUMBER)
        fail(&reader, "a vocabulary of %" PRIu64 " is absurd", embedding->dims[1]);
    if (reader.ok) config->n_vocab = (size_t)embedding->dims[1];
    config->tied = !checkpoint_find(checkpoint, "output.weight");
    return reader.ok;
}

/* Finds tensors by name, like KeyReader: the first error stays, and `bound` marks what was taken. */
typedef struct Binder {
    KeyReader reader;
    Weights *weights;
    size_t n_unpacked; /* floats of weights->unpacked in use */
    bool *bound;       /* [n_tensors] in the checkpoint's order */
} Binder;

static const size_t NO_LAYER = SIZE_MAX;

/* "blk.3.attn_q.weight", or "output.weight" with NO_LAYER; the kind is weight or bias. */
static Key tensor_name(const char *name, size_t layer, const char *kind) {
    Key key;
    if (layer == NO_LAYER)
        snprintf(key.name, sizeof key.name, "%s.%s", name, kind);
    else
        snprintf(key.name, sizeof key.name, "blk.%zu.%s.%s", layer, name, kind);
    return key;
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
    fail(&binder->reader,
         "tensor '%.*s' has type %s, which is not supported; these are: %s. Get the model in one of them%s",
         string_shown(tensor->name), tensor->name.data, info ? info->name : number, known,
         is_convertible(refused)
             ? ", or convert it: llama-quantize (of llama.cpp) --allow-requantize IN OUT Q8_0"
             : "");
}

/*
 * The tensor [rows][cols], or [cols] when rows is 0. NULL if its type is not supported, if it is misshapen, or
 * missing (if required).
 */
static const Tensor *find(Binder *binder, const char *name, bool required, size_t rows, size_t cols) {
    const Checkpoint *checkpoint = binder->reader.checkpoint;
    const Tensor *tensor = checkpoint_find(checkpoint, name);
    if (!binder->reader.ok) return NULL;
    if (!tensor) {
        if (required) fail(&binder->reader, "tensor '%s' is missing", name);
        return NULL;
    }
    if (!dtype_info(tensor->dtype)) {
        refuse_dtype(binder, tensor);
        return NULL;
    }
    uint64_t n_rows = rows ? rows : 1;
    if (tensor->dims[0] != cols || tensor->dims[1] != n_rows || tensor->dims[2] != 1 ||
        tensor->dims[3] != 1) {
        fail(&binder->reader,
             "tensor '%s' has shape [%" PRIu64 "][%" PRIu64 "]%s, expected [%" PRIu64 "][%zu]", name,
             tensor->dims[1], tensor->dims[0], tensor->dims[2] * tensor->dims[3] > 1 ? " and more" : "",
             n_rows, cols);
        return NULL;
    }
    binder->bound[tensor - checkpoint_tensor(checkpoint, 0)] = true;
    return tensor;
}

static Matrix bind_matrix(Binder *binder, const char *name, size_t layer, size_t rows, size_t cols) {
    const Tensor *tensor = find(binder, tensor_name(name, layer, "weight").name, true, rows, cols);
    return tensor ? (Matrix){tensor->data, tensor->dtype, rows, cols} : (Matrix){0};
}

/* A norm's gain or a bias: used where it lies if it is F32, else unpacked into a small copy. */
static const float *bind_vector(Binder *binder, Key name, bool required, size_t n) {
    const Tensor *tensor = find(binder, name.name, required, 0, n);
    if (!tensor) return NULL;
    if (tensor->dtype == DTYPE_F32) return tensor->data;
    float *copy = binder->weights->unpacked + binder->n_unpacked;
    binder->n_unpacked += n;
    dtype_unpack(copy, tensor->dtype, tensor->data, n);
    return copy;
}

static Linear bind_linear(Binder *binder, const Config *config, const char *name, size_t layer, size_t rows,
                          size_t cols) {
    Linear linear = {.w = bind_matrix(binder, name, layer, rows, cols)};
    linear.bias = bind_vector(binder, tensor_name(name, layer, "bias"), config->family->biases, rows);
    return linear;
}

static Norm bind_norm(Binder *binder, const Config *config, const char *name, size_t layer) {
    bool has_bias = config->family->norm == NORM_LAYER;
    Norm norm = {.gain = bind_vector(binder, tensor_name(name, layer, "weight"), true, config->d_model)};
    if (has_bias)
        norm.bias =
            bind_vector(binder, tensor_name(name, layer, "bias"), config->family->biases, config->d_model);
    return norm;
}

/* Rows [begin, begin + rows) of a linear layer. */
static Linear linear_rows(const Linear *linear, size_t begin, size_t rows) {
    Linear part = *linear;
    if (!linear->w.data) return part;
    part.w.data = (const char *)linear->w.data + begin * dtype_bytes(linear->w.dtype, linear->w.cols);
    part.w.rows = rows;
    part.bias = linear->bias ? linear->bias + begin : NULL;
    return part;
}

static void bind_layer(Binder *binder, const Config *config, size_t layer) {
    LayerWeights *weights = &binder->weights->layers[layer];
    size_t d = config->d_model, d_q = config->n_head * config->d_head,
           d_kv = config->n_head_kv * config->d_head;
    weights->attn_norm = bind_norm(binder, config, "attn_norm", layer);
    if (config->family->fused_qkv) {
        Linear qkv = bind_linear(binder, config, "attn_qkv", layer, d_q + 2 * d_kv, d);
        weights->attention.q = linear_rows(&qkv, 0, d_q);
        weights->attention.k = linear_rows(&qkv, d_q, d_kv);
        weights->attention.v = linear_rows(&qkv, d_q + d_kv, d_kv);
    } else {
        weights->attention.q = bind_linear(binder, config, "attn_q", layer, d_q, d);
        weights->attention.k = bind_linear(binder, config, "attn_k", layer, d_kv, d);
        weights->attention.v = bind_linear(binder, config, "attn_v", layer, d_kv, d);
    }
    weights->attention.out = bind_linear(binder, config, "attn_output", layer, d, d_q);
    weights->mlp_norm = bind_norm(binder, config, "ffn_norm", layer);
    weights->mlp.up = bind_linear(binder, config, "ffn_up", layer, config->d_ff, d);
    if (mlp_has_gate(config->family->mlp))
        weights->mlp.gate = bind_linear(binder, config, "ffn_gate", layer, config->d_ff, d);
    weights->mlp.down = bind_linear(binder, config, "ffn_down", layer, d, config->d_ff);
}

/* Pair i turns by θ^(−2i/rope_dim)/scale, over its factor where the file has some (Llama 3.1's rope_freqs).
 */
static void bind_rope(Binder *binder, const Config *config) {
    size_t n_pairs = config->rope_dim / 2;
    if (!binder->reader.ok) return;
    double *freq = binder->weights->rope_freq = malloc((n_pairs ? n_pairs : 1) * sizeof *freq);
    if (!freq) {
        fail(&binder->reader, "not enough memory for the RoPE frequencies");
        return;
    }
    const float *factor = bind_vector(binder, tensor_name("rope_freqs", NO_LAYER, "weight"), false, n_pairs);
    for (size_t i = 0; i < n_pairs && binder->reader.ok; i++) {
        const double divisor = factor ? (double)factor[i] : 1;
        freq[i] = pow((double)config->rope_base, -2.0 * (double)i / (double)config->rope_dim) /
                  (double)config->rope_scale / divisor;
        if (!(divisor > 0 && isfinite(divisor)))
            fail(&binder->reader, "tensor 'rope_freqs.weight' holds %g; factors must be positive", divisor);
    }
}

/* Room for what bind_vector may have to unpack: all vectors that are not F32. */
static bool reserve(Binder *binder, const Config *config) {
    const Checkpoint *checkpoint = binder->reader.checkpoint;
    size_t n_tensors = checkpoint_n_tensors(checkpoint), n_floats = 0;
    for (size_t i = 0; i < n_tensors; i++) {
        const Tensor *tensor = checkpoint_tensor(checkpoint, i);
        bool has_copy = tensor->dims[1] == 1 && tensor->dtype != DTYPE_F32 && dtype_info(tensor->dtype);
        if (has_copy) n_floats += (size_t)tensor->dims[0];
    }
    if (config->n_layer > n_tensors)
        return fail(&binder->reader, "%zu layers, but only %zu tensors", config->n_layer, n_tensors);
    binder->bound = calloc(n_tensors, sizeof *binder->bound);
    binder->weights->layers = calloc(config->n_layer, sizeof *binder->weights->layers);
    binder->weights->unpacked = calloc(n_floats + 1, sizeof(float));
    if (!binder->bound || !binder->weights->layers || !binder->weights->unpacked)
        return fail(&binder->reader, "not enough memory to bind %zu tensors", n_tensors);
    return true;
}

bool weights_bind(Weights *weights, const Config *config, const Checkpoint *checkpoint, Error *error) {
    Binder binder = {{checkpoint, config->family->architecture, error, true}, .weights = weights};
    *weights = (Weights){0};
    if (reserve(&binder, config)) {
        weights->embedding = bind_matrix(&binder, "token_embd", NO_LAYER, config->n_vocab, config->d_model);
        if (config->family->learned_positions)
            weights->positions =
                bind_matrix(&binder, "position_embd", NO_LAYER, config->n_ctx, config->d_model);
        for (size_t layer = 0; layer < config->n_layer && binder.reader.ok; layer++)
            bind_layer(&binder, config, layer);
        /* After the layers: their tensors have confirmed d_head, so that a claimed rope_dim costs nothing. */
        if (config->family->rope != ROPE_NONE) bind_rope(&binder, config);
        weights->final_norm = bind_norm(&binder, config, "output_norm", NO_LAYER);
        weights->unembedding.w =
            config->tied ? weights->embedding
                         : bind_matrix(&binder, "output", NO_LAYER, config->n_vocab, config->d_model);
        for (size_t i = 0; i < checkpoint_n_tensors(checkpoint) && binder.reader.ok; i++) {
            String name = checkpoint_tensor(checkpoint, i)->name;
            if (!binder.bound[i])
                fail(&binder.reader, "tensor '%.*s' is not part of a model of family '%s'",
                     string_shown(name), name.data, config->family->architecture);
        }
    }
    free(binder.bound);
    return binder.reader.ok;
}

void weights_free(Weights *weights) {
    free(weights->layers);
    free(weights->rope_freq);
    free(weights->unpacked);
    *weights = (Weights){0};
}
