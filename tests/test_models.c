/*
 * Models that no reference file is like: what rare keys and tensors say, experts beside layers without, experts that are all
 * alike, whose sum must be one MLP's.
 */
#include "bad.h"

#include "binding.h"
#include "gradients/mlp_back.h"
#include "open.h"
#include "probe.h"
#include "slope.h"

static Threads *pool;
static const int32_t ids[] = {1, 5, 6, 4, 7, 5};

typedef enum Asked {
    ATTENTION_SCALE,
    PAIRING,
    STRETCH,
    MAGNITUDE,
    WINDOW,
    LAYER_0_TURNS,
    LAYER_3_TURNS
} Asked;

static double asked_of(const Config *config, Asked asked) {
    switch (asked) {
    case ATTENTION_SCALE: return (double)config->attention_scale;
    case PAIRING: return config->rope.pairing;
    case STRETCH: return config->rope.scale;
    case MAGNITUDE: return config->rope.magnitude;
    case WINDOW: return (double)config->window;
    case LAYER_0_TURNS: return config_rope(config, 0) != NULL;
    case LAYER_3_TURNS: return config_rope(config, 3) != NULL;
    }
    return NAN;
}

/* Keys of a good model that are changed, and what that makes of it; NAN: a refusal that tells so. */
static void test_keys(void) {
    enum { DROPPED = 99 };
    static const struct {
        const char *architecture;
        struct {
            const char *name;
            uint32_t type;
            double value;
            const char *text;
        } keys[3];
        Asked asked;
        double is;
        const char *tells;
    } cases[] = {
        /* Gemma 2 of 46 layers scales by its width; of any other number it does not say. */
        {"gemma2", {{"block_count", U32, 46}}, ATTENTION_SCALE, 0.70710678, NULL},
        {"gemma2", {{"block_count", U32, 45}}, ATTENTION_SCALE, 0, NULL},
        {"baichuan", {{"block_count", U32, 40}}, PAIRING, ROPE_NONE, NULL},
        {"gemma2", {{"block_count", U32, 46}}, PAIRING, ROPE_HALVES, NULL},
        {"gemma3", {{"context_length", U32, 131072}, {"rope.scaling.factor", DROPPED}}, STRETCH, 1, NULL},
        {"gemma3",
         {{"context_length", U32, 131072}, {"rope.scaling.factor", DROPPED}, {"rope.freq_base", DROPPED}},
         STRETCH,
         8,
         NULL},
        {"llama", {{"rope.scaling.type", STRING, 0, "yarn"}}, MAGNITUDE, 1.06931472, NULL},
        {"llama",
         {{"rope.scaling.type", STRING, 0, "yarn"}, {"rope.scaling.factor", F32, 1}},
         MAGNITUDE,
         1,
         NULL},
        {"llama",
         {{"rope.scaling.type", STRING, 0, "yarn"}, {"rope.scaling.factor", F32, 0.5}},
         MAGNITUDE,
         1,
         NULL},
        {"llama", {{"attention.sliding_window", U32, 1 << 30}}, WINDOW, 1 << 30, NULL},
        {"llama", {{"attention.sliding_window", U32, (1 << 30) + 1.0}}, WINDOW, 1 << 30, NULL},
        {"cohere2", {{"attention.sliding_window", U32, UINT32_MAX}}, LAYER_3_TURNS, 0, NULL},
        {"cohere2", {{"attention.sliding_window", U32, 4}}, LAYER_0_TURNS, 1, NULL},
        {"cohere2", {{"attention.sliding_window", U32, 4}}, LAYER_3_TURNS, 0, NULL},
        {"cohere2", {{NULL}}, LAYER_3_TURNS, 1, NULL},
        {"llama", {{"tensor_data_layout", STRING, 0, "Meta AI original pth"}}, WINDOW, 0, NULL},
        {"llama", {{"tensor_data_layout", STRING, 0, "jploski"}}, WINDOW, 0, NULL},
        {"llama", {{"tensor_data_layout", STRING, 0, "x"}}, WINDOW, NAN, "tensor_data_layout' is 'x'"},
        {"gpt-oss",
         {{"hidden_activation", STRING, 0, "silu"}},
         WINDOW,
         NAN,
         "'gpt-oss.hidden_activation' is 'silu', which"},
        {"nemotron",
         {{"expert_count", U32, 2}},
         WINDOW,
         NAN,
         "experts whose MLPs have no gate are not supported"},
        {"llama",
         {{"attention.sliding_window", U32, 4}, {"attention.sliding_window_pattern", U32, (1 << 24) + 1.0}},
         WINDOW,
         NAN,
         "'llama.attention.sliding_window_pattern' is 16777217"},
        {"llama",
         {{"block_count", U32, 2}, {"rope.layer_pattern", ARRAY, 1}},
         WINDOW,
         NAN,
         "'llama.rope.layer_pattern' tells of 1 layers, not of 2"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        Gguf gguf = model_as(cases[i].architecture);
        char names[3][64];
        for (size_t k = 0; k < 3 && cases[i].keys[k].name; k++) {
            double value = cases[i].keys[k].value;
            snprintf(names[k], sizeof names[k], "%s.%s", cases[i].architecture, cases[i].keys[k].name);
            switch (cases[i].keys[k].type) {
            case U32: gguf_u32(&gguf, names[k], (uint32_t)value); break;
            case F32: gguf_f32(&gguf, names[k], (float)value); break;
            case STRING: gguf_string(&gguf, names[k], cases[i].keys[k].text); break;
            case ARRAY: gguf_array(&gguf, names[k], BOOL, (uint64_t)value, "\1\1\1", (size_t)value); break;
            default: gguf_drop(&gguf, gguf_find(&gguf, names[k]));
            }
        }
        scratch_write(file, gguf_write(&gguf, file));
        Error error = {{0}};
        Config config;
        Checkpoint *checkpoint = checkpoint_open(scratch_path(), &error);
        bool ok = checkpoint && config_read(&config, checkpoint, &error);
        CHECK(ok == !cases[i].tells, "%zu: %s", i, error.message);
        if (ok) CHECK_NEAR(asked_of(&config, cases[i].asked), cases[i].is, 1e-6);
        if (!ok && cases[i].tells) check_message(&error, scratch_path(), cases[i].tells, cases[i].tells);
        checkpoint_close(checkpoint);
    }
}

/* Which tensors are a tower's for pictures, that Gemma 3 has beside its layers; a family that reads none has no such. */
static void test_pictures(void) {
    static const struct {
        const char *name;
        bool reads;
    } names[] = {{"v.blk.0.attn_q.weight", true},
                 {"mm.input_projection.weight", true},
                 {"v.", false},
                 {"mm.", false},
                 {"v", false},
                 {"mmm.a", false},
                 {"vm.a", false},
                 {"", false}};
    for (size_t i = 0; i < COUNT(names); i++) {
        CHECK(tensor_reads_pictures(string_from(names[i].name)) == names[i].reads, "%s", names[i].name);
        if (!*names[i].name) continue;
        Gguf gguf = model_as("gemma3");
        gguf_tensor(&gguf, "blk.0.post_attention_norm.weight", T_F32, 0, D_MODEL);
        gguf_tensor(&gguf, "blk.0.post_ffw_norm.weight", T_F32, 0, D_MODEL);
        gguf_tensor(&gguf, names[i].name, T_F32, 3, 5);
        if (names[i].reads)
            model_close(accept(&gguf));
        else
            refuse(&gguf, "is not part of a model of family 'gemma3'", names[i].name);
    }
}

enum { MANY = 20, USED = 18 };

/* Numbers that a tensor's name says, and that are all experts' the same. */
static void fill(const GgufTensor *tensor) {
    bool is_expert = strstr(tensor->name, "_exps.");
    size_t seed = 0, n = is_expert ? D_FF * D_MODEL : SIZE_MAX;
    char name[64];
    snprintf(name, sizeof name, "%s", tensor->name);
    if (is_expert)
        memmove(strstr(name, "_exps"), strstr(name, "_exps") + 5, strlen(strstr(name, "_exps")) - 4);
    for (const char *c = name; *c; c++) seed = 31 * seed + (unsigned char)*c;
    for (size_t k = 0; tensor->type == T_F32 && k < tensor->n_bytes / 4; k++)
        memcpy(file + tensor->data_at + 4 * k, &(float){(float)((7 * (k % n) + seed) % 11) / 8 - 0.6f}, 4);
}

static GgufTensor *add_experts(Gguf *gguf, const char *name, size_t n, uint64_t rows, uint64_t cols) {
    GgufTensor *tensor = gguf_tensor(gguf, name, T_F32, n * rows, cols);
    tensor->dims[1] = rows, tensor->dims[2] = n, tensor->n_dims = 3;
    return tensor;
}

/* The MLP as n experts, of which `used` are. */
static Gguf experts_model(size_t n, size_t used) {
    static const char *const gone[] = {"blk.0.ffn_gate.weight", "blk.0.ffn_up.weight",
                                       "blk.0.ffn_down.weight"};
    Gguf gguf = good_model(LLAMA);
    for (size_t i = 0; i < COUNT(gone); i++) gguf_drop_tensor(&gguf, gguf_find_tensor(&gguf, gone[i]));
    gguf_u32(&gguf, "llama.expert_count", (uint32_t)n);
    gguf_u32(&gguf, "llama.expert_used_count", (uint32_t)used);
    gguf_tensor(&gguf, "blk.0.ffn_gate_inp.weight", T_F32, n, D_MODEL);
    add_experts(&gguf, "blk.0.ffn_up_exps.weight", n, D_FF, D_MODEL);
    add_experts(&gguf, "blk.0.ffn_gate_exps.weight", n, D_FF, D_MODEL);
    add_experts(&gguf, "blk.0.ffn_down_exps.weight", n, D_MODEL, D_FF);
    return gguf;
}

/* Logits of a text, fed so many tokens at a time. */
static void logits_of(Gguf *gguf, size_t n_chunk, float logits[N_VOCAB]) {
    Error error = {{0}};
    n_file = gguf_write(gguf, file);
    for (size_t i = 0; i < gguf->n_tensors; i++) fill(&gguf->tensors[i]);
    Model *model = accept_file();
    SessionOptions options = {.kv_dtype = DTYPE_F32,
                              .n_chunk = n_chunk,
                              .compute = {.kernels = kernels_pick(NULL, NULL), .threads = pool}};
    Session *session = model ? session_new(model, &options, &error) : NULL;
    CHECK(session && session_feed(session, ids, COUNT(ids), logits, 1, &error), "%s", error.message);
    session_free(session);
    model_close(model);
}

/* Alike, they are one MLP, however many are asked, and whether a chunk has fewer tokens than a token has experts. */
static void test_experts_alike(void) {
    float plain[N_VOCAB], logits[N_VOCAB];
    Gguf dense = good_model(LLAMA), mixed = experts_model(MANY, USED);
    logits_of(&dense, 0, plain);
    for (size_t i = 0; i < 6; i++) {
        Gguf gguf = experts_model(i < 3 ? 2 : MANY, i < 3 ? 1 : USED);
        if (i == 2) { /* whose width is their own */
            gguf_u32(&gguf, "llama.expert_feed_forward_length", D_FF);
            gguf_u32(&gguf, "llama.feed_forward_length", 3);
        }
        logits_of(&gguf, i % 3, logits);
        for (size_t k = 0; k < N_VOCAB; k++) CHECK_NEAR(logits[k], plain[k], 1e-5);
    }

    /* The same layer twice, the second time without experts. */
    static char names[COUNT(model_tensors)][40];
    for (size_t i = 0; i < COUNT(model_tensors); i++) {
        if (!model_tensors[i].in[LLAMA] || strncmp(model_tensors[i].name, "blk.0.", 6) != 0) continue;
        snprintf(names[i], sizeof names[i], "blk.1.%s", model_tensors[i].name + 6);
        gguf_tensor(&dense, names[i], T_F32, model_tensors[i].rows, model_tensors[i].cols);
        gguf_tensor(&mixed, names[i], T_F32, model_tensors[i].rows, model_tensors[i].cols);
    }
    gguf_u32(&dense, "llama.block_count", 2);
    gguf_u32(&mixed, "llama.block_count", 2);
    gguf_u32(&mixed, "llama.expert_feed_forward_length", D_FF);
    logits_of(&dense, 0, plain);
    logits_of(&mixed, 0, logits);
    for (size_t k = 0; k < N_VOCAB; k++) CHECK_NEAR(logits[k], plain[k], 1e-5);
}

static void check_gradient(Gguf *gguf, const char *what, size_t n) {
    n_file = gguf_write(gguf, file);
    for (size_t i = 0; i < gguf->n_tensors; i++) fill(&gguf->tensors[i]);
    scratch_write(file, n_file);
    check_slope(scratch_path(), what, ids, COUNT(ids), n, 5);
}

/* The way back where no reference file goes: a cap and ALiBi's slopes, experts that no token takes, many tokens for a thread. */
static void test_gradients(void) {
    Gguf gguf = model_as("gemma2");
    gguf_f32(&gguf, "gemma2.attention.max_alibi_bias", 8);
    gguf_f32(&gguf, "gemma2.attn_logit_softcapping", 1);
    gguf_f32(&gguf, "gemma2.attention.scale", 20);
    gguf_tensor(&gguf, "blk.0.post_attention_norm.weight", T_F32, 0, D_MODEL);
    gguf_tensor(&gguf, "blk.0.post_ffw_norm.weight", T_F32, 0, D_MODEL);
    gguf_tensor(&gguf, "blk.0.attn_output.bias", T_F32, 0, D_MODEL);
    check_gradient(&gguf, "a cap and slopes", 8);
    gguf = experts_model(MANY, 1);
    check_gradient(&gguf, "experts", 3);
    gguf = good_model(LLAMA);
    gguf_u32(&gguf, "llama.context_length", 256);
    check_gradient(&gguf, "200 tokens", 200);
}

/* x Φ(x) of 0 is 0, with the slope 1/2. */
static void test_gelu_at_0(void) {
    float zeros[32] = {0}, up[64], down[64];
    for (int i = 0; i < 64; i++) up[i] = down[i] = (float)(i % 5) - 2;
    const MlpWeights mlp = {.up = {{up, DTYPE_F32, 2, 32}, NULL}, .down = {{down, DTYPE_F32, 32, 2}, NULL}};
    float packed[4096];
    const Compute compute = {kernels_pick(NULL, NULL), pool, packed, packed_floats(1, 32)};
    MlpTrace trace = {0};
    CHECK(packed_floats(1, 32) <= 4096 && mlp_trace_open(&trace, 1, 2), "no memory");
    mlp_trace(&compute, MLP_GELU_ERF, &mlp, 1, zeros, &trace);
    for (int i = 0; i < 2; i++) {
        CHECK(trace.post[i] == 0, "%g", (double)trace.post[i]);
        CHECK_NEAR(trace.hidden_slope[i], 0.5, 1e-7);
    }
    mlp_trace_close(&trace);
}

/* A final norm that is no number. */
static void test_hidden_not_finite(void) {
    Gguf gguf = good_model(LLAMA);
    n_file = gguf_write(&gguf, file);
    memcpy(file + gguf_find_tensor(&gguf, "output_norm.weight")->data_at, &(float){(float)NAN}, 4);
    scratch_write(file, n_file);
    AttnError error = {""};
    float hidden[D_MODEL];
    AttnModel *model = attn_model_open(scratch_path(), NULL, &error);
    AttnSession *session = attn_session_new(model, NULL, &error);
    CHECK(session && !attn_hidden(session, ids, 3, hidden, &error), "accepted");
    CHECK(strcmp(error.message, "the hidden state is not finite") == 0, "%s", error.message);
    attn_session_free(session);
    attn_model_close(model);
}

#define SIXTEEN                                                                                              \
    "top_k;top_k;top_k;top_k;top_k;top_k;top_k;top_k;top_k;top_k;top_k;top_k;top_k;top_k;top_k;top_k;"

/* How a file says that it wants to be sampled. */
static void test_sampling_of_files(void) {
    static const struct {
        const char *key;
        uint32_t type;
        uint32_t bits;
        const char *text, *tells;
        int32_t window;
        float penalty;
    } files[] = {
        {"general.sampling.penalty_repeat", F32, 0x40000000, NULL, NULL, 64, 2}, /* 2.0 */
        {"general.sampling.penalty_last_n", U32, 0, NULL, NULL, 0, 1},
        {"general.sampling.temp", F32, 0xbf800000, NULL, "general.sampling.temp is -1", 0, 0},
        {"general.sampling.sequence", STRING, 0, "top_k;min-p;TEMPERATURE", NULL, 64, 1},
        {"general.sampling.sequence", STRING, 0, SIXTEEN "topk",
         "more than 16 steps of sampling are named; give another order", 0, 0},
        {"general.sampling.sequence", STRING, 0, SIXTEEN "dry;top.k;top_kk;to", NULL, 64, 1},
    };
    for (size_t i = 0; i < COUNT(files); i++) {
        Gguf gguf = good_model(LLAMA);
        AttnError error = {""};
        AttnSampling sampling = {0};
        if (files[i].type == STRING)
            gguf_string(&gguf, files[i].key, files[i].text);
        else
            gguf_key(&gguf, files[i].key, files[i].type, &files[i].bits, 4);
        scratch_write(file, gguf_write(&gguf, file));
        AttnModel *model = attn_model_open(scratch_path(), NULL, &error);
        bool ok = attn_sampling(model, &sampling, &error);
        CHECK(model && ok == !files[i].tells, "%zu: %s", i, error.message);
        if (files[i].tells) CHECK(strstr(error.message, files[i].tells), "%s", error.message);
        if (ok)
            CHECK((int32_t)sampling.penalty_window == files[i].window, "%zu: %d", i,
                  (int)sampling.penalty_window);
        if (ok) CHECK_NEAR(sampling.repeat_penalty, files[i].penalty, 0);
        attn_model_close(model);
    }
}

/* <|end|> ends a text, unless there is a token that returns; a conversation where no token begins a text, or an empty one does. */
static void test_words(void) {
    enum { PLAIN, RETURNS, EMPTY, NONE, N_KINDS };
    static const int32_t types[] = {2, 3, 3, 6, 1, 1, 3, 3};
    for (int kind = 0; kind < N_KINDS; kind++) {
        Gguf gguf = good_model(kind == NONE ? GPT2 : LLAMA);
        const char *last = kind == RETURNS ? "<|return|>" : kind == EMPTY ? "" : "b";
        if (kind == NONE) {
            gguf_drop(&gguf, gguf_find(&gguf, "tokenizer.ggml.bos_token_id"));
            gguf_drop(&gguf, gguf_find(&gguf, "tokenizer.ggml.add_bos_token"));
        } else {
            gguf_strings(
                &gguf, "tokenizer.ggml.tokens",
                (const char *const[]){"<unk>", "<s>", "</s>", "<0x0A>", "\xe2\x96\x81", "a", "<|end|>", last},
                8);
            gguf_array(&gguf, "tokenizer.ggml.token_type", I32, 8, types, sizeof types);
            gguf_u32(&gguf, "tokenizer.ggml.bos_token_id", kind == EMPTY ? 7 : 1);
        }
        scratch_write(file, gguf_write(&gguf, file));
        AttnError error = {""};
        AttnModel *model = attn_model_open(scratch_path(), NULL, &error);
        const AttnMessage message = {"user", "a", NULL};
        const AttnChatOptions options = {.source = "{{ bos_token }}{{ messages[0].content }}",
                                         .complete = true};
        int32_t tokens[32] = {0};
        size_t n = 0;
        CHECK(model && attn_chat(model, &message, 1, &options, tokens, 32, &n, &error), "%d: %s", kind,
              error.message);
        if (kind != NONE) CHECK(attn_token_is_end(model, 6) == (kind != RETURNS), "%d", kind);
        CHECK(n > 0 && (tokens[0] == 1) == (kind < EMPTY) && tokens[n - 1] == (kind == NONE ? 0 : 5),
              "%d: %zu tokens, %d", kind, n, tokens[0]);
        attn_model_close(model);
    }
}

/* Behind the positions of the training RoPE would be scaled by the length of the text. */
static void test_dynamic_rope(void) {
    Gguf gguf = model_as("llama");
    Error error = {{0}};
    gguf_key(&gguf, "llama.rope.scaling.dynamic", BOOL, "\1", 1);
    Model *model = accept(&gguf);
    size_t n_ctx = model ? model_config(model)->n_ctx : 0;
    for (size_t more = 0; model && more < 2; more++) {
        SessionOptions options = {.kv_dtype = DTYPE_F32,
                                  .n_ctx = n_ctx + more,
                                  .compute = {.kernels = kernels_pick(NULL, NULL), .threads = pool}};
        Session *session = session_new(model, &options, &error);
        CHECK((session == NULL) == (more == 1) &&
                  (session || strstr(error.message, "scales RoPE dynamically")),
              "%zu: %s", n_ctx + more, error.message);
        session_free(session);
    }
    model_close(model);
}

/* Patterns of a head [N_SEEN][N_SEEN], as a probe sees them. */
enum { N_SEEN = 200 };

static bool wants_pattern(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)user, (void)layer;
    return site == PROBE_PATTERN && head == 0;
}

static void keep_pattern(void *user, const Activation *seen) {
    memcpy((float *)user + seen->position * N_SEEN, seen->data, seen->n_cols * sizeof(float));
}

/* A window of 5: who keeps no more keys than that, in a ring, sees the pattern of who keeps all. */
static void test_watched_ring(void) {
    static float patterns[2][N_SEEN * N_SEEN];
    Gguf gguf = good_model(LLAMA);
    Error error = {{0}};
    gguf_u32(&gguf, "llama.context_length", 1024);
    gguf_u32(&gguf, "llama.attention.sliding_window", 5);
    gguf_u32(&gguf, "llama.attention.sliding_window_pattern", 2);
    Model *model = accept(&gguf);
    CHECK(model && config_is_local(model_config(model), 0), "no window");
    for (int whole = 0; model && whole < 2; whole++) {
        const Probe probe = {patterns[whole], wants_pattern, keep_pattern};
        SessionOptions options = {.kv_dtype = DTYPE_F32,
                                  .n_chunk = 8,
                                  .whole_cache = whole,
                                  .compute = {.kernels = kernels_pick(NULL, NULL), .threads = pool},
                                  .probe = &probe};
        Session *session = session_new(model, &options, &error);
        for (size_t i = 0; session && i < N_SEEN; i++)
            CHECK(session_feed(session, &ids[i % COUNT(ids)], 1, NULL, 0, &error), "%s", error.message);
        session_free(session);
    }
    float *row = patterns[0] + (N_SEEN - 1) * N_SEEN;
    CHECK(row[N_SEEN - 6] == 0 && row[N_SEEN - 5] > 0, "%g, %g", (double)row[N_SEEN - 6],
          (double)row[N_SEEN - 5]);
    CHECK(memcmp(patterns[0], patterns[1], sizeof patterns[0]) == 0, "another pattern");
    model_close(model);
}

/* A file's own template that is none, or no text: the file is named; one that is given: it is not the file's. */
static void test_templates(void) {
    static const char broken[] = "{% x %}";
    for (int i = 0; i < 3; i++) {
        Gguf gguf = good_model(LLAMA);
        if (i == 1)
            gguf_u32(&gguf, "tokenizer.chat_template", 1);
        else
            gguf_string(&gguf, "tokenizer.chat_template", broken);
        scratch_write(file, gguf_write(&gguf, file));
        AttnError error = {""};
        AttnModel *model = attn_model_open(scratch_path(), NULL, &error);
        const AttnMessage message = {"user", "a", NULL};
        size_t n = 0;
        bool ok = attn_chat(model, &message, 1, &(AttnChatOptions){.source = i == 2 ? broken : NULL}, NULL, 0,
                            &n, &error);
        CHECK(model && !ok &&
                  (strncmp(error.message, scratch_path(), strlen(scratch_path())) == 0) == (i < 2),
              "%d: %s", i, error.message);
        CHECK(strstr(error.message, i == 1 ? "'tokenizer.chat_template' is of type uint32" : "x"), "%s",
              error.message);
        attn_model_close(model);
    }
}

/* Shapes of experts, and of others that were not as they should be. */
static void test_shapes(void) {
    static const struct {
        const char *name;
        uint64_t dims[4];
        const char *tells;
    } edits[] = {
        {"blk.0.ffn_gate_inp.weight", {4, 1, 1, 1}, "has shape [1][4], expected [2][4]"},
        {"blk.0.ffn_up_exps.weight", {4, 5, 2, 1}, "has shape [2][5][4], expected [2][6][4]"},
        {"blk.0.ffn_down_exps.weight", {6, 4, 1, 1}, "has shape [4][6], expected [2][4][6]"},
        {"output_norm.weight", {2, 1, 1, 2}, "has shape [1][2] and more, expected [1][4]"},
        {"token_embd.weight", {4, 2, 1, 4}, "has shape [2][4] and more, expected [2][4]"},
    };
    for (size_t i = 0; i < COUNT(edits); i++) {
        Gguf gguf = experts_model(2, 1);
        GgufTensor *tensor = gguf_find_tensor(&gguf, edits[i].name);
        CHECK(tensor, "%s", edits[i].name);
        if (!tensor) continue;
        memcpy(tensor->dims, edits[i].dims, sizeof edits[i].dims);
        tensor->n_dims = 4;
        refuse(&gguf, edits[i].tells, edits[i].name);
    }
    Gguf gguf = good_model(LLAMA); /* gate and up in one, and a gate */
    resize(&gguf, "blk.0.ffn_up.weight", 2 * D_FF, D_MODEL);
    refuse(&gguf, "'blk.0.ffn_up.weight' has shape [12][4], expected [6][4]", "two gates");

    gguf = good_model(LLAMA); /* the first of two errors is told */
    for (size_t i = 0; i < 3; i++)
        gguf_u32(&gguf,
                 (const char *const[]){"llama.attention.key_length", "llama.attention.value_length",
                                       "llama.rope.dimension_count"}[i],
                 4);
    resize(&gguf, "blk.0.attn_q.weight", 8, D_MODEL);
    resize(&gguf, "blk.0.attn_k.weight", 4, D_MODEL);
    resize(&gguf, "blk.0.attn_v.weight", 4, D_MODEL);
    resize(&gguf, "blk.0.attn_output.weight", D_MODEL, 8);
    gguf_tensor(&gguf, "rope_freqs.weight", T_F32, 0, 2);
    n_file = gguf_write(&gguf, file);
    memcpy(file + gguf_find_tensor(&gguf, "rope_freqs.weight")->data_at, (float[]){-0.0f, (float)NAN}, 8);
    refuse_file("'rope_freqs.weight' holds -0, by which", "two factors");

    gguf = good_model(LLAMA); /* slopes are not made of what is not whole */
    gguf_f32(&gguf, "llama.attention.max_alibi_bias", 8);
    gguf_drop_tensor(&gguf, gguf_find_tensor(&gguf, "blk.0.attn_q.weight"));
    refuse(&gguf, "'blk.0.attn_q.weight' is missing", "no queries");

    gguf = experts_model(3, 1); /* experts in tensors of their own, of which the second is missing */
    gguf_drop_tensor(&gguf, gguf_find_tensor(&gguf, "blk.0.ffn_up_exps.weight"));
    gguf_tensor(&gguf, "blk.0.ffn_up.0.weight", T_F32, D_FF, D_MODEL);
    refuse(&gguf, "'blk.0.ffn_up.1.weight' is missing", "an expert");
}

/* A shared expert without a key for its width, wider than all; biases and gains in other types, unpacked. */
static void test_rare_tensors(void) {
    Gguf gguf = experts_model(2, 1);
    gguf_tensor(&gguf, "blk.0.ffn_up_shexp.weight", T_F32, 9, D_MODEL);
    gguf_tensor(&gguf, "blk.0.ffn_gate_shexp.weight", T_F32, 9, D_MODEL);
    gguf_tensor(&gguf, "blk.0.ffn_down_shexp.weight", T_F32, D_MODEL, 9);
    gguf_tensor(&gguf, "blk.0.ffn_up_exps.bias", T_F16, 2, D_FF);
    gguf_tensor(&gguf, "blk.0.attn_q_norm.weight", T_F16, N_HEAD, D_HEAD);
    Model *model = accept(&gguf);
    if (!model) return;
    const LayerWeights *layer = &model_weights(model)->layers[0];
    CHECK(layer->experts.shared.up.w.rows == 9, "%zu rows", layer->experts.shared.up.w.rows);
    CHECK(layer->attention.q_norm.own_gains, "no gains of their own");
    float gains[N_HEAD * D_HEAD], biases[2 * D_FF];
    dtype_unpack(gains, DTYPE_F16, file + gguf_find_tensor(&gguf, "blk.0.attn_q_norm.weight")->data_at,
                 N_HEAD * D_HEAD);
    dtype_unpack(biases, DTYPE_F16, file + gguf_find_tensor(&gguf, "blk.0.ffn_up_exps.bias")->data_at,
                 2 * D_FF);
    CHECK(memcmp(layer->attention.q_norm.gain, gains, sizeof gains) == 0, "other gains");
    CHECK(memcmp(layer->experts.experts[1].up.bias, biases + D_FF, sizeof biases / 2) == 0, "other biases");
    model_close(model);
    float logits[N_VOCAB] = {0};
    logits_of(&gguf, 0, logits);
    CHECK(isfinite(logits[0]) && logits[0] != logits[1], "%g", (double)logits[0]);
}

/* A session is asked for more than there is: logits of more tokens than are fed, a place that it has not been at. */
static bool count_rows(void *user, const float *logits, size_t n_vocab, Error *error) {
    (void)logits, (void)n_vocab, (void)error;
    ++*(size_t *)user;
    return true;
}

static void test_session(void) {
    CHECK(strcmp(probe_site_name((ProbeSite)PROBE_N_BACK_SITES), "?") == 0, "a site that is none");
    Gguf gguf = good_model(LLAMA);
    Model *model = accept(&gguf);
    Error error = {{0}};
    float rows[4][N_VOCAB];
    size_t n_rows = 0;
    SessionOptions options = {.kv_dtype = DTYPE_F32,
                              .compute = {.kernels = kernels_pick(NULL, NULL), .threads = pool}};
    Session *session = model ? session_new(model, &options, &error) : NULL;
    memset(rows, 0, sizeof rows);
    CHECK(session && session_feed(session, ids, 2, rows[0], 9, &error), "%s", error.message);
    CHECK(rows[1][0] != 0 && rows[2][0] == 0, "rows that are not there");
    CHECK(session_feed(session, ids + 2, 2, rows[2], 0, &error) && rows[2][0] == 0, "none was asked for");
    static const size_t places[][3] = {{4, 2, 2}, {2, 1, 2}, {2, 3, 3}, {3, 9, 4}}; /* at, asked, reached */
    for (size_t i = 0; i < COUNT(places); i++) {
        session_rewind(session, places[i][0]);
        size_t reached = session_restore(session, places[i][1]);
        if (i > 0) CHECK(reached == places[i][2], "%zu: %zu", i, reached);
        if (i == 0) session_rewind(session, places[i][2]);
    }
    session_rewind(session, 0);
    CHECK(session_feed_all(session, ids, 4, NULL, &(Feed){.sink = count_rows, .user = &n_rows}, &error) &&
              n_rows == 4,
          "%zu rows: %s", n_rows, error.message);
    session_free(session);
    model_close(model);
}

int main(void) {
    pool = threads_new(2, NULL);
    scratch_begin();
    RUN(test_keys);
    RUN(test_pictures);
    RUN(test_experts_alike);
    RUN(test_gradients);
    RUN(test_gelu_at_0);
    RUN(test_hidden_not_finite);
    RUN(test_sampling_of_files);
    RUN(test_words);
    RUN(test_dynamic_rope);
    RUN(test_watched_ring);
    RUN(test_templates);
    RUN(test_shapes);
    RUN(test_rare_tensors);
    RUN(test_session);
    threads_free(pool);
    scratch_end();
    return test_end();
}
