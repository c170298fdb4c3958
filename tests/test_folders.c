/*
 * Hugging Face folders against the GGUF files with the same weights: names, shapes, values and keys, and what the model
 * computes. scripts/expect/folders.py makes the folders, from what transformers' classes call things; in tests/data/torch are some
 * whose weights PyTorch wrote.
 */
#include "checkpoint/checkpoint.h"
#include "gguf.h"
#include "model.h"
#include "open.h"
#include "packing/layout.h"
#include "test.h"

#include <inttypes.h>
#include <unistd.h>

#define REFERENCE "tests/data/reference/"
#define TORCH "tests/data/torch/"

/* The reference models that a folder can hold. Rows of q and k are turned where the pairing says so. */
static const struct {
    const char *name;
    bool other_rope; /* its factors of RoPE are none that config.json can say */
    bool turned;     /* some weights have no place in the file */
} models[] = {
    {"gpt2-f32", false, true},
    {"gpt2-f16", false, true},
    {"gpt2-bf16", false, true},
    {"gpt2-f32-untied", false, true},
    {"gpt_neo", false, false},
    {"gptneox", false, true},
    {"gptneox-sequential", false, true},
    {"gptneox-tanh", false, true},
    {"gptj", false, false},
    {"opt", false, false},
    {"bloom", false, true},
    {"mpt", false, false},
    {"mpt-learned", false, false},
    {"mpt-scale", false, false},
    {"falcon", false, false},
    {"falcon-two-norms", false, true},
    {"llama-f32", false, false},
    {"llama-f16", false, false},
    {"llama-bf16", false, false},
    {"llama-yarn", false, false},
    {"llama-longrope", false, false},
    {"llama-experts", false, false},
    {"granite", false, false},
    {"granitemoe", false, false},
    {"smollm3", false, false},
    {"smollm3-layers", false, false},
    {"internlm2", false, true},
    {"baichuan", false, false},
    {"baichuan-alibi", false, false},
    {"olmo", false, false},
    {"olmo2", false, false},
    {"olmo2-3", false, false},
    {"olmoe", false, false},
    {"olmoe-clipped", false, false},
    {"qwen2", false, false},
    {"qwen2-tied-yarn", false, false},
    {"qwen2moe", false, false},
    {"qwen3", false, false},
    {"qwen3moe", false, false},
    {"qwen3moe-raw", false, false},
    {"gpt-oss", false, true},
    {"gpt-oss-mxfp4", false, true},
    {"stablelm", false, false},
    {"exaone", true, false},
    {"gemma", false, true},
    {"gemma2", false, true},
    {"gemma2-bare", false, true},
    {"gemma3", false, true},
    {"gemma3-long", false, true},
    {"phi2", false, false},
    {"phi3", false, false},
    {"phi3-long", false, false},
    {"phi3-short", false, false},
    {"starcoder", false, false},
    {"starcoder2", false, false},
    {"command-r", false, false},
    {"command-r-plus", false, false},
    {"cohere2", false, false},
    {"nemotron", false, true},
    {"qwen35", false, true}, /* its heads are grouped; a part of a model that sees */
    {"qwen35-wide", false, true},
    {"qwen3vl", false, false},
    {"lfm2", false, false},
};

enum { N_MODELS = sizeof models / sizeof *models };

static const char *extra(const char *suffix) {
    static char paths[2][512];
    static size_t next;
    char *path = paths[next++ % 2];
    snprintf(path, sizeof paths[0], "%s/x-%s", scratch_folder, suffix);
    return path;
}

static uint64_t number_at(const Checkpoint *checkpoint, const char *suffix, uint64_t otherwise) {
    String architecture = {"", 0};
    char key[128];
    checkpoint_string(checkpoint, "general.architecture", &architecture, NULL);
    snprintf(key, sizeof key, "%.*s.%s", (int)architecture.n, architecture.data, suffix);
    checkpoint_u64(checkpoint, key, &otherwise, NULL);
    return otherwise;
}

/* The value under a key, or one without a key. */
static Value value_of(const Checkpoint *checkpoint, String key) {
    for (size_t i = 0; i < checkpoint_n_values(checkpoint); i++) {
        Value value = checkpoint_value(checkpoint, i);
        if (string_compare(value.key, key) == 0) return value;
    }
    return (Value){0};
}

/* Whether a key says nothing about what is computed, or the same as its absence. */
static bool is_idle(const Checkpoint *gguf, String key) {
    static const char *const idle[] = {
        "attention.head_count_kv",           "rope.scaling.type",
        "rope.scaling.attn_factor",          "rope.scaling.yarn_attn_factor",
        "expert_shared_feed_forward_length", "attention.sliding_window_pattern",
        "expert_feed_forward_length",        "feed_forward_length"};
    String architecture = {"", 0};
    checkpoint_string(gguf, "general.architecture", &architecture, NULL);
    if (key.n < architecture.n + 1 || memcmp(key.data, architecture.data, architecture.n) != 0)
        return !string_equals(key, "general.architecture");
    String suffix = {key.data + architecture.n + 1, key.n - architecture.n - 1};
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (string_equals(suffix, idle[i])) return true;
    return false;
}

static void compare_keys(const char *name, const Checkpoint *gguf, const Checkpoint *folder) {
    for (size_t i = 0; i < checkpoint_n_values(gguf); i++) {
        Value want = checkpoint_value(gguf, i), got = value_of(folder, want.key);
        if (!got.key.data && is_idle(gguf, want.key)) continue;
        if (string_equals(want.key, "stablelm.use_parallel_residual"))
            continue; /* what tensors tell is obeyed */
        if (!got.key.data || (!is_idle(gguf, want.key) && got.n_bytes != want.n_bytes)) {
            CHECK(false, "%s: %.*s is missing or of another type", name, (int)want.key.n, want.key.data);
        } else if (want.type == 6) {
            float a, b;
            memcpy(&a, want.data, 4), memcpy(&b, got.data, 4);
            CHECK(fabsf(a - b) <= 2e-6f * fabsf(a), "%s: %.*s is %g, not %g", name, (int)want.key.n,
                  want.key.data, (double)b, (double)a);
        } else if (!is_idle(gguf, want.key)) {
            CHECK(memcmp(got.data, want.data, want.n_bytes) == 0, "%s: %.*s", name, (int)want.key.n,
                  want.key.data);
        }
    }
}

/* Row `row` of q or k, heads of d rows, as a folder has it whose RoPE pairs the halves of the first n_rope. */
static uint64_t paired_row(uint64_t row, uint64_t d, uint64_t n_rope) {
    uint64_t i = row % d;
    return i >= n_rope ? row : row - i + i % 2 * (n_rope / 2) + i / 2;
}

/* Row by row; gains that were stored as gain − 1 may differ by a rounding. */
static bool same_weights(const Checkpoint *gguf, const Tensor *want, const Tensor *got, bool halves) {
    uint64_t n_rows = want->dims[1] * want->dims[2], n_bytes = want->n_bytes / n_rows,
             d = number_at(gguf, "attention.key_length",
                           number_at(gguf, "embedding_length", 0) /
                               number_at(gguf, "attention.head_count", 1)),
             n_rope = number_at(gguf, "rope.dimension_count", d);
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)want->name.n, want->name.data);
    bool is_paired = halves && (strstr(name, "attn_q.") || strstr(name, "attn_k."));
    if (got->n_bytes != want->n_bytes) return false;
    for (uint64_t row = 0; row < n_rows; row++) {
        const char *a = (const char *)want->data + row * n_bytes,
                   *b = (const char *)got->data + (is_paired ? paired_row(row, d, n_rope) : row) * n_bytes;
        if (memcmp(a, b, (size_t)n_bytes) == 0) continue;
        if (want->dims[1] > 1 || want->dtype != DTYPE_F32) return false;
        for (size_t i = 0; i < n_bytes / 4; i++)
            if (fabsf(((const float *)want->data)[i] - ((const float *)got->data)[i]) > 2e-7f * 4)
                return false;
    }
    return true;
}

/* Expert i of a tensor "…_exps.weight", alone. */
static Tensor expert_of(const Tensor *tensor, uint64_t i) {
    Tensor one = *tensor;
    one.n_bytes = tensor->n_bytes / tensor->dims[2];
    one.dims[2] = 1;
    one.data = (const char *)tensor->data + i * one.n_bytes;
    return one;
}

/* A delta net's value heads stand in another order where a key head has several. */
static bool is_of_heads(const char *name) {
    return strstr(name, ".ssm_") ? !strstr(name, ".ssm_norm.")
                                 : strstr(name, ".attn_qkv.") || strstr(name, ".attn_gate.");
}

static void compare_tensors(const char *name, const Checkpoint *gguf, const Checkpoint *folder) {
    String pairing = {"", 0}, heads = {"", 0};
    size_t n_found = 0;
    checkpoint_string(folder, "attn.delta_heads", &heads, NULL);
    checkpoint_string(folder, "attn.rope.pairing", &pairing, NULL);
    bool halves = string_equals(pairing, "halves");
    for (size_t i = 0; i < checkpoint_n_tensors(gguf); i++) {
        const Tensor *want = checkpoint_tensor(gguf, i);
        char text[128];
        snprintf(text, sizeof text, "%.*s", (int)want->name.n, want->name.data);
        const Tensor *got = checkpoint_find(folder, text);
        char *experts = strstr(text, "_exps.weight");
        if (got) {
            n_found++;
            CHECK(memcmp(got->dims, want->dims, sizeof want->dims) == 0 && got->n_dims == want->n_dims &&
                      got->dtype == want->dtype,
                  "%s: %s: shape or type", name, text);
            bool is_spread = heads.n && is_of_heads(text); /* test_lay_out compares these */
            CHECK(is_spread || same_weights(gguf, want, got, halves), "%s: %s: weights", name, text);
            continue;
        }
        for (uint64_t e = 0; experts && e < want->dims[2]; e++) {
            snprintf(experts, sizeof text - (size_t)(experts - text), ".%" PRIu64 ".weight", e);
            Tensor one = expert_of(want, e);
            got = checkpoint_find(folder, text);
            CHECK(got && got->dims[0] == one.dims[0] && got->dims[1] == one.dims[1] && got->dims[2] == 1 &&
                      same_weights(gguf, &one, got, false),
                  "%s: %s", name, text);
            n_found += got != NULL;
        }
        CHECK(experts || strcmp(text, "rope_freqs.weight") == 0, "%s: %s is missing", name, text);
    }
    CHECK(n_found == checkpoint_n_tensors(folder), "%s: %zu tensors of %zu", name,
          checkpoint_n_tensors(folder), n_found);
}

static void test_same_checkpoint(void) {
    for (size_t i = 0; i < N_MODELS; i++) {
        Error error = {{0}};
        char path[256];
        snprintf(path, sizeof path, REFERENCE "%s.gguf", models[i].name);
        Checkpoint *gguf = checkpoint_open(path, &error),
                   *folder = checkpoint_open(scratch_file(models[i].name), &error);
        CHECK(gguf && folder, "%s", error.message);
        if (gguf && folder) {
            compare_tensors(models[i].name, gguf, folder);
            compare_keys(models[i].name, gguf, folder);
            CHECK((checkpoint_turned_bytes(folder) > 0) == models[i].turned,
                  "%s: %" PRIu64 " bytes were turned", models[i].name, checkpoint_turned_bytes(folder));
        }
        checkpoint_close(gguf);
        checkpoint_close(folder);
    }
}

static void check_same(const char *name, const char *path, const char *folder_path) {
    Error error = {{0}};
    Checkpoint *gguf = checkpoint_open(path, &error), *folder = checkpoint_open(folder_path, &error);
    CHECK(gguf && folder, "%s", error.message);
    if (gguf && folder) compare_tensors(name, gguf, folder);
    checkpoint_close(gguf);
    checkpoint_close(folder);
}

/* CodeGen is GPT-J with q, k and v in one tensor, in four parts, and CodeGen2's small sizes in eight. */
static void test_codegen(void) {
    check_same("codegen", REFERENCE "gptj.gguf", extra("codegen"));
    check_same("codegen", REFERENCE "gptj.gguf", extra("codegen2"));
}

/* The same weights in three files. */
static void test_parts(void) { check_same("three files", REFERENCE "qwen3moe.gguf", extra("parts")); }

/* For who writes a GGUF file: the same tensors, one by one, in the same order of rows. */
static void test_lay_out(void) {
    for (size_t i = 0; i < N_MODELS; i++) {
        Error error = {{0}};
        char path[256];
        snprintf(path, sizeof path, REFERENCE "%s.gguf", models[i].name);
        Checkpoint *gguf = checkpoint_open(path, &error),
                   *folder = checkpoint_open(scratch_file(models[i].name), &error);
        CHECK(gguf && folder && checkpoint_lay_out(folder, &error), "%s", error.message);
        size_t n = folder ? checkpoint_n_tensors(folder) : 0, n_found = 0;
        for (size_t k = 0; gguf && k < n; k++) {
            const Tensor *got = checkpoint_tensor(folder, k);
            char name[128];
            snprintf(name, sizeof name, "%.*s", (int)got->name.n, got->name.data);
            const Tensor *want = checkpoint_find(gguf, name);
            const float *a = want ? want->data : NULL, *b = checkpoint_weights(folder, k, &error);
            bool same = want && b && want->n_bytes == got->n_bytes && want->dtype == got->dtype &&
                        want->n_dims == got->n_dims && memcmp(want->dims, got->dims, sizeof want->dims) == 0;
            if (same && memcmp(a, b, (size_t)got->n_bytes) != 0)
                for (size_t j = 0; j < got->n_bytes / 4 && same; j++) /* a gain that was stored as gain - 1 */
                    same = got->n_dims == 1 && fabsf(a[j] - b[j]) <= 8e-7f;
            CHECK(same, "%s: %s", models[i].name, name);
            n_found += want != NULL;
        }
        CHECK(gguf && n_found + models[i].other_rope == checkpoint_n_tensors(gguf), "%s: %zu tensors",
              models[i].name, n);
        CHECK(!folder || (!checkpoint_has(folder, "attn.rope.pairing") &&
                          checkpoint_has(folder, "general.architecture")),
              "%s: keys", models[i].name);
        checkpoint_close(gguf);
        checkpoint_close(folder);
    }
}

/* Tensors that are no part of the text model are left out, and counted. */
static void test_beside(void) {
    static const struct {
        const char *name;
        uint64_t n_bytes;
    } cases[] = {{"qwen35", 4 * 96 + 4 * 12 + 16},
                 {"qwen3vl", 4 * 96 + 4 * 12 + 16},
                 {"qwen35-wide", 0},
                 {"qwen3", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {{0}};
        char path[512];
        snprintf(path, sizeof path, "%s/%s", scratch_folder, cases[i].name);
        Checkpoint *folder = checkpoint_open(path, &error);
        CHECK(folder && checkpoint_left_out_bytes(folder) == cases[i].n_bytes, "%s: %" PRIu64 " bytes %s",
              cases[i].name, folder ? checkpoint_left_out_bytes(folder) : 0, error.message);
        checkpoint_close(folder);
        char command[1200];
        const char *program = getenv("RUN");
        snprintf(command, sizeof command,
                 "'%s' %s --info | grep -q '^left out  .* MiB of weights beside the text model'",
                 program ? program : "./run", path);
        CHECK((system(command) == 0) == (cases[i].n_bytes > 0), "%s", command);
    }
}

/* quantize makes the GGUF of it again, and never of a part of the model itself. */
static void test_quantize(void) {
    static const char *const names[] = {"llama-f32", "olmoe", "qwen35", "lfm2", "qwen3vl", "gpt-oss-mxfp4"};
    enum { N_SAME = 5 };
    const char *program = getenv("QUANTIZE");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Error error = {{0}};
        char command[1600], path[256], folder[600];
        snprintf(folder, sizeof folder, "%s/%s", scratch_folder, names[i]);
        snprintf(path, sizeof path, REFERENCE "%s.gguf", names[i]);
        snprintf(command, sizeof command, "'%s' %s %s F32 --allow-requantize >%s 2>&1",
                 program ? program : "./quantize", folder, extra("out"), extra("said"));
        CHECK(system(command) == 0, "%s", command);
        Checkpoint *gguf = checkpoint_open(path, &error), *out = checkpoint_open(extra("out"), &error);
        CHECK(gguf && out, "%s", error.message);
        if (gguf && out && i < N_SAME) compare_tensors(names[i], gguf, out);
        if (gguf && out) compare_keys(names[i], gguf, out);
        CHECK(out && checkpoint_n_tensors(out) == checkpoint_n_tensors(gguf) &&
                  !checkpoint_has(out, "attn.rope.pairing") && !checkpoint_has(out, "attn.delta_heads"),
              "%s: tensors or keys", names[i]);
        checkpoint_close(gguf);
        checkpoint_close(out);
        snprintf(command, sizeof command, "'%s' %s %s/model.safetensors F32 --allow-requantize 2>%s",
                 program ? program : "./quantize", folder, folder, extra("said"));
        CHECK(system(command) != 0, "the model was written over");
    }
}

/* The folders of BF16, of which quantize makes files: each with a matrix that ggml has in F32 alone. */
static const struct {
    const char *name, *vector;
} cut[] = {{"lfm2", "blk.0.shortconv.conv.weight"},
           {"qwen35", "blk.0.ssm_conv1d.weight"},
           {"gpt-oss", "blk.0.ffn_gate_exps.bias"},
           {"gpt-oss", "blk.1.ffn_down_exps.bias"},
           {"command-r-plus", "blk.0.attn_q_norm.weight"}};

enum { N_CUT = sizeof cut / sizeof *cut };

static bool ends_in(String name, const char *end) {
    size_t n = strlen(end);
    return name.n >= n && memcmp(name.data + name.n - n, end, n) == 0;
}

/* Vectors, biases, norms and kernels are F32 in it, whatever their rank, and have the same numbers. */
static void test_quantize_vectors(void) {
    const char *program = getenv("QUANTIZE");
    for (size_t i = 0; i < 2 * N_CUT; i++) {
        Error error = {{0}};
        char command[1600], path[256];
        const char *type = i < N_CUT ? "BF16" : "F16", *name = cut[i % N_CUT].name;
        const DType dtype = i < N_CUT ? DTYPE_BF16 : DTYPE_F16;
        snprintf(path, sizeof path, REFERENCE "%s.gguf", name);
        snprintf(command, sizeof command, "'%s' %s/%s-cut %s %s >%s 2>&1", program ? program : "./quantize",
                 scratch_folder, name, extra("out"), type, extra("said"));
        CHECK(system(command) == 0, "%s", command);
        Checkpoint *gguf = checkpoint_open(path, &error), *out = checkpoint_open(extra("out"), &error);
        CHECK(gguf && out, "%s", error.message);
        for (size_t k = 0; out && k < checkpoint_n_tensors(out); k++) {
            const Tensor *tensor = checkpoint_tensor(out, k);
            const String full = tensor->name;
            bool is_vector = tensor->n_dims == 1 || !ends_in(full, ".weight") ||
                             ends_in(full, "_norm.weight") || ends_in(full, "conv.weight") ||
                             ends_in(full, "conv1d.weight"),
                 is_kept = ends_in(full, "ffn_gate_inp.weight");
            CHECK(tensor->dtype == (is_vector ? DTYPE_F32
                                    : is_kept ? DTYPE_BF16
                                              : dtype),
                  "%s %s: %.*s", name, type, (int)full.n, full.data);
        }
        const Tensor *want = gguf ? checkpoint_find(gguf, cut[i % N_CUT].vector) : NULL,
                     *got = out ? checkpoint_find(out, cut[i % N_CUT].vector) : NULL;
        CHECK(want && got && got->n_bytes == want->n_bytes, "%s: %s", name, cut[i % N_CUT].vector);
        for (size_t j = 0; want && got && got->n_bytes == want->n_bytes && j < want->n_bytes / 4; j++)
            CHECK(((const uint32_t *)got->data)[j] == (((const uint32_t *)want->data)[j] & 0xffff0000),
                  "%s: %s: number %zu", name, cut[i % N_CUT].vector, j);
        checkpoint_close(gguf);
        checkpoint_close(out);
    }
}

enum { N_TOKENS = 24, N_VOCAB = 512 };

/* Logits [N_TOKENS][n_vocab] of a text, or NULL; *n_vocab. */
static float *logits_of(const char *path, size_t *n_vocab) {
    Error error = {{0}};
    Model *model = model_open(path, &error);
    Threads *threads = threads_new(1, &error);
    const Kernels *kernels = kernels_pick(false, &error);
    SessionOptions options = {.kv_dtype = DTYPE_F32, .compute = {.kernels = kernels, .threads = threads}};
    Session *session = model && threads && kernels ? session_new(model, &options, &error) : NULL;
    *n_vocab = model ? model_config(model)->n_vocab : 0;
    int32_t tokens[N_TOKENS];
    for (size_t i = 0; i < N_TOKENS && *n_vocab; i++) tokens[i] = (int32_t)(i * i * 7 % *n_vocab);
    float *logits = session ? calloc(N_TOKENS * *n_vocab, sizeof *logits) : NULL;
    bool ok = logits && session_feed(session, tokens, N_TOKENS, logits, N_TOKENS, &error);
    CHECK(ok, "%s: %s", path, error.message);
    session_free(session);
    threads_free(threads);
    model_close(model);
    if (!ok) free(logits);
    return ok ? logits : NULL;
}

/* The reference model's logits are those of the folder, but for that share of the largest. */
static void compare_logits(const char *name, const char *folder, double tolerance) {
    char path[256];
    size_t n, n_folder;
    snprintf(path, sizeof path, REFERENCE "%s.gguf", name);
    float *want = logits_of(path, &n), *got = logits_of(folder, &n_folder);
    CHECK(n == n_folder, "%s: %zu tokens, not %zu", name, n_folder, n);
    double off = 0, most = 0;
    for (size_t k = 0; want && got && k < N_TOKENS * n && n == n_folder; k++) {
        off = fmax(off, fabs((double)want[k] - (double)got[k]));
        most = fmax(most, fabs((double)want[k]));
    }
    CHECK(off <= tolerance * most, "%s: logits are off by %g of %g", name, off, most);
    free(want);
    free(got);
}

/* Baichuan 2's code divides the head's rows by their lengths, and so its logits. */
static void test_unit_head(void) {
    Error error = {{0}};
    Checkpoint *gguf = checkpoint_open(REFERENCE "baichuan.gguf", &error),
               *folder = checkpoint_open(extra("baichuan2"), &error);
    CHECK(gguf && folder, "%s", error.message);
    const Tensor *head = gguf ? checkpoint_find(gguf, "output.weight") : NULL;
    CHECK(head && folder && checkpoint_turned_bytes(folder) == head->n_bytes, "the head is not turned");
    size_t n, n_folder, d = head ? (size_t)head->dims[0] : 0;
    float *plain = logits_of(REFERENCE "baichuan.gguf", &n), *got = logits_of(extra("baichuan2"), &n_folder);
    for (size_t k = 0; head && plain && got && n == n_folder && k < N_TOKENS * n; k++) {
        const float *row = (const float *)head->data + k % n * d;
        double square = 0;
        for (size_t i = 0; i < d; i++) square += (double)row[i] * (double)row[i];
        CHECK_NEAR(got[k], (double)plain[k] / sqrt(square), 1e-4);
    }
    free(plain);
    free(got);
    checkpoint_close(gguf);
    checkpoint_close(folder);
}

/* A file that quantize made computes what the folder does; keys that llama.cpp does not read are told. */
static void test_quantize_tells(void) {
    static const struct {
        const char *name, *unread;
        const char *from, *edit; /* of another folder's config.json, of which there is no reference */
    } cases[] = {{"llama-f32", NULL},
                 {"olmoe", NULL},
                 {"qwen3moe", NULL},
                 {"gemma2", NULL},
                 {"gptneox-tanh", NULL}, /* llama.cpp computes this GELU for all of the family */
                 {"olmoe-clipped", "olmoe.attention.clamp_kqv"},
                 {"qwen3moe-raw", "qwen3moe.expert_weights_norm"},
                 {"smollm3-layers", "smollm3.rope.layer_pattern"},
                 {"gemma2-bare", "gemma2.attention.scale"},
                 {"mpt-scale", "mpt.attention.scale"},
                 {"phi3-short", NULL}, /* its window is as long as its context */
                 {"phi3", "phi3.attention.sliding_window"},
                 {"unwindowed", NULL, "phi3", "/\"sliding_window\"/d"},
                 {"relu", "gpt_neo.hidden_activation", "\"$OLDPWD\"/" TORCH "gpt_neo", "s/gelu_new/relu/"},
                 {"gelu_new", "opt.hidden_activation", "\"$OLDPWD\"/" TORCH "opt", "s/relu/gelu_new/"}};
    const char *program = getenv("QUANTIZE");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[1600], said[2000] = "";
        snprintf(command, sizeof command, "cd %s && cp -r %s %s && sed -i '%s' %s/config.json",
                 scratch_folder, cases[i].from, cases[i].name, cases[i].edit, cases[i].name);
        CHECK(!cases[i].from || system(command) == 0, "%s", command);
        snprintf(command, sizeof command, "'%s' %s/%s %s F32 >%s 2>&1", program ? program : "./quantize",
                 scratch_folder, cases[i].name, extra("out"), extra("said"));
        CHECK(system(command) == 0, "%s", command);
        FILE *in = fopen(extra("said"), "r");
        size_t n = in ? fread(said, 1, sizeof said - 1, in) : 0;
        said[n] = '\0';
        if (in) fclose(in);
        const char *note = strstr(said, "llama.cpp does not read '");
        CHECK((note != NULL) == (cases[i].unread != NULL), "%s: %s", cases[i].name, said);
        CHECK(!note || strstr(note, cases[i].unread), "%s: %s", cases[i].name, said);
        if (!cases[i].from) compare_logits(cases[i].name, extra("out"), 2e-5);
    }
}

static void test_same_logits(void) {
    for (size_t i = 0; i < N_MODELS; i++)
        if (!models[i].other_rope) compare_logits(models[i].name, scratch_file(models[i].name), 2e-5);
}

/* Folders that torch.save itself has written (scripts/expect/torch_folders.py): F32, masks, a tied head. */
static void test_torch(void) {
    Error error = {{0}};
    Checkpoint *gguf = checkpoint_open(REFERENCE "gpt_neo.gguf", &error),
               *folder = checkpoint_open(TORCH "gpt_neo", &error);
    CHECK(gguf && folder, "%s", error.message);
    if (gguf && folder) {
        compare_tensors("gpt_neo", gguf, folder);
        compare_keys("gpt_neo", gguf, folder);
        CHECK(checkpoint_turned_bytes(folder) == 0, "not used in place");
    }
    checkpoint_close(gguf);
    checkpoint_close(folder);
    compare_logits("gpt_neo", TORCH "gpt_neo", 0);
    compare_logits("gpt_neo", TORCH "gpt_neo/pytorch_model.bin", 0);
}

/* Likewise: in two parts, rounded to F16. */
static void test_torch_parts(void) {
    Error error = {{0}};
    Checkpoint *gguf = checkpoint_open(REFERENCE "opt.gguf", &error),
               *folder = checkpoint_open(TORCH "opt", &error);
    CHECK(gguf && folder && checkpoint_n_tensors(gguf) == checkpoint_n_tensors(folder) &&
              checkpoint_turned_bytes(folder) == 0,
          "%s", error.message);
    for (size_t i = 0; gguf && folder && i < checkpoint_n_tensors(gguf); i++) {
        const Tensor *want = checkpoint_tensor(gguf, i);
        char name[128];
        float got[1024];
        snprintf(name, sizeof name, "%.*s", (int)want->name.n, want->name.data);
        const Tensor *half = checkpoint_find(folder, name);
        size_t n = (size_t)want->n_bytes / sizeof(float), n_off = 0;
        if (!half || half->dtype != DTYPE_F16 || half->n_bytes != 2 * n || n > 1024 ||
            memcmp(half->dims, want->dims, sizeof want->dims) != 0) {
            CHECK(false, "%s", name);
            continue;
        }
        dtype_unpack(got, DTYPE_F16, half->data, n);
        for (size_t k = 0; k < n; k++) {
            float x = ((const float *)want->data)[k];
            n_off += fabsf(got[k] - x) > fabsf(x) / 2048 + 3e-8f; /* half a step */
        }
        CHECK(n_off == 0, "%s: %zu weights of %zu", name, n_off, n);
    }
    checkpoint_close(gguf);
    checkpoint_close(folder);
    compare_logits("opt", TORCH "opt", 2e-3);
    compare_logits("opt", TORCH "opt/pytorch_model-00002-of-00002.bin", 2e-3);
}

/* The weights of a folder, in which the first `from` that stands there has become `to`, of as many bytes. */
static void change_weights(const char *folder, const char *from, const char *to) {
    char path[600];
    static char bytes[1 << 20];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *file = fopen(path, "r+b");
    size_t n = file ? fread(bytes, 1, sizeof bytes, file) : 0, n_from = strlen(from), at = 8;
    while (at + n_from < n && memcmp(bytes + at, from, n_from) != 0) at++;
    CHECK(at + n_from < n && strlen(to) == n_from, "%s has no %s", path, from);
    if (file && at + n_from < n) fseek(file, (long)at, SEEK_SET), fwrite(to, 1, n_from, file);
    if (file) fclose(file);
}

/*
 * A tensor that is missing, since it has become one of a tower for pictures, or misshapen, since its shape is turned, is told
 * by the name that the folder has for it.
 */
static void test_own_names(void) {
    static const struct {
        const char *name, *from, *to, *tells;
    } cases[] = {
        {"llama-f32", "\"model.layers.0.self_attn.q_proj.w", "\"visual.ayers.0.self_attn.q_proj.w",
         "/llama-f32: tensor 'model.layers.0.self_attn.q_proj.weight' is missing"},
        {"llama-f32", "\"model.layers.1.mlp.down_proj.w", "\"visual.ayers.1.mlp.down_proj.w",
         "/llama-f32: tensor 'model.layers.1.mlp.down_proj.weight' is missing"},
        {"gpt2-f32", "\"transformer.h.1.attn.c_attn.w", "\"visual.rmer.h.1.attn.c_attn.w",
         "/gpt2-f32: tensor 'transformer.h.1.attn.c_attn.weight' is missing"},
        {"llama-experts", "\"model.layers.1.block_sparse_moe.experts.1.w3.w",
         "\"visual.ayers.1.block_sparse_moe.experts.1.w3.w",
         "/llama-experts: tensor 'model.layers.1.block_sparse_moe.experts.1.w3.weight' is missing"},
        {"llama-f32", "mlp.up_proj.weight\": {\"dtype\": \"F32\", \"shape\": [60, 72]",
         "mlp.up_proj.weight\": {\"dtype\": \"F32\", \"shape\": [72, 60]",
         "/llama-f32: tensor 'model.layers.0.mlp.up_proj.weight' has shape [72][60], expected [60][72]"},
        {"llama-f32", "\"model.layers.0.self_attn.q_proj.w", "\"model.layers.0.self_attn.q_norm.w",
         "/llama-f32: tensor 'model.layers.0.self_attn.q_proj.weight' is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {{0}};
        char folder[512];
        snprintf(folder, sizeof folder, "%s/%s", scratch_folder, cases[i].name);
        change_weights(folder, cases[i].from, cases[i].to);
        CHECK(!model_open(folder, &error) && ends_in(string_from(error.message), cases[i].tells), "%s: %s",
              cases[i].tells, error.message);
        change_weights(folder, cases[i].to, cases[i].from);
    }
    Error error = {{0}};
    char folder[512];
    snprintf(folder, sizeof folder, "%s/llama-f32", scratch_folder);
    change_weights(folder, cases[0].from, cases[0].to);
    change_weights(folder, "\"model.layers.1.self_attn.q", "\"model.h.000001.self_attn.q");
    CHECK(!model_open(folder, &error) && strstr(error.message, "tensor 'blk.0.attn_q.weight' is missing"),
          "a number that is written otherwise: %s", error.message);
}

int main(void) {
    char command[16384];
    size_t n = (size_t)snprintf(command, sizeof command, "python3 scripts/expect/folders.py");
    RUN(test_torch);
    RUN(test_torch_parts);
    scratch_begin();
    for (size_t i = 0; i < N_MODELS; i++)
        n += (size_t)snprintf(command + n, sizeof command - n, " " REFERENCE "%s.gguf %s", models[i].name,
                              scratch_file(models[i].name));
    n += (size_t)snprintf(command + n, sizeof command - n, " " REFERENCE "gptj.gguf %s", extra("codegen"));
    n += (size_t)snprintf(command + n, sizeof command - n, " " REFERENCE "gptj.gguf %s", extra("codegen2"));
    n += (size_t)snprintf(command + n, sizeof command - n, " " REFERENCE "baichuan.gguf %s",
                          extra("baichuan2"));
    n += (size_t)snprintf(command + n, sizeof command - n, " " REFERENCE "qwen3moe.gguf %s", extra("parts"));
    for (size_t i = 0; i < N_CUT; i++)
        n += (size_t)snprintf(command + n, sizeof command - n, " " REFERENCE "%s.gguf %s/%s-cut", cut[i].name,
                              scratch_folder, cut[i].name);
    if (system(command) != 0) {
        printf("skipped: python3 scripts/expect/folders.py does not run\n");
        test_skipped++;
        return test_end();
    }
    RUN(test_same_checkpoint);
    RUN(test_codegen);
    RUN(test_unit_head);
    RUN(test_parts);
    RUN(test_lay_out);
    RUN(test_beside);
    RUN(test_quantize);
    RUN(test_quantize_vectors);
    RUN(test_same_logits);
    RUN(test_quantize_tells);
    RUN(test_own_names);
    snprintf(command, sizeof command, "rm -r %s", scratch_folder);
    if (system(command) != 0) perror("rm");
    return test_end();
}
