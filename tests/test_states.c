/*
 * Layers with a state: files that are wrong in one way, and what a state does to a session. That their numbers are right
 * is test_reference's.
 */
#include "bad.h"

#include "cli/counts.h"
#include "cli/info.h"
#include "measures/scoreparts.h"
#include "slope.h"

#define FIRST "blk.0."
#define SECOND "blk.1."

/* A layer with a state, and one with attention. */
static const struct {
    const char *architecture, *key; /* as the key's: "lfm2.shortconv.l_cache" */
    uint32_t value;
} numbers[] = {
    {"lfm2", "lfm2.context_length", N_CTX},
    {"lfm2", "lfm2.embedding_length", D_MODEL},
    {"lfm2", "lfm2.block_count", 2},
    {"lfm2", "lfm2.attention.head_count", N_HEAD},
    {"lfm2", "lfm2.feed_forward_length", D_FF},
    {"lfm2", "lfm2.shortconv.l_cache", 3},
    {"qwen35", "qwen35.context_length", N_CTX},
    {"qwen35", "qwen35.embedding_length", D_MODEL},
    {"qwen35", "qwen35.block_count", 2},
    {"qwen35", "qwen35.attention.head_count", N_HEAD},
    {"qwen35", "qwen35.attention.head_count_kv", 1},
    {"qwen35", "qwen35.feed_forward_length", D_FF},
    {"qwen35", "qwen35.ssm.conv_kernel", 4},
    {"qwen35", "qwen35.ssm.state_size", 3},
    {"qwen35", "qwen35.ssm.time_step_rank", 4},
    {"qwen35", "qwen35.ssm.inner_size", 12},
    {"qwen35", "qwen35.ssm.group_count", 2},
};

static const struct {
    const char *architecture, *name;
    uint64_t rows, cols; /* rows 0: a vector */
} tensors[] = {
    {NULL, "token_embd.weight", N_VOCAB, D_MODEL},
    {"lfm2", "token_embd_norm.weight", 0, D_MODEL},
    {"qwen35", "output_norm.weight", 0, D_MODEL},
    {NULL, FIRST "attn_norm.weight", 0, D_MODEL},
    {"lfm2", FIRST "shortconv.conv.weight", D_MODEL, 3},
    {"lfm2", FIRST "shortconv.in_proj.weight", 3 * D_MODEL, D_MODEL},
    {"lfm2", FIRST "shortconv.out_proj.weight", D_MODEL, D_MODEL},
    {"qwen35", FIRST "ssm_conv1d.weight", 24, 4},
    {"qwen35", FIRST "attn_qkv.weight", 24, D_MODEL},
    {"qwen35", FIRST "attn_gate.weight", 12, D_MODEL},
    {"qwen35", FIRST "ssm_alpha.weight", 4, D_MODEL},
    {"qwen35", FIRST "ssm_beta.weight", 4, D_MODEL},
    {"qwen35", FIRST "ssm_a", 0, 4},
    {"qwen35", FIRST "ssm_dt.bias", 0, 4},
    {"qwen35", FIRST "ssm_norm.weight", 0, 3},
    {"qwen35", FIRST "ssm_out.weight", D_MODEL, 12},
    {"lfm2", FIRST "ffn_norm.weight", 0, D_MODEL},
    {"qwen35", FIRST "post_attention_norm.weight", 0, D_MODEL},
    {NULL, FIRST "ffn_gate.weight", D_FF, D_MODEL},
    {NULL, FIRST "ffn_up.weight", D_FF, D_MODEL},
    {NULL, FIRST "ffn_down.weight", D_MODEL, D_FF},
    {NULL, SECOND "attn_norm.weight", 0, D_MODEL},
    {"lfm2", SECOND "attn_q.weight", D_MODEL, D_MODEL},
    {"qwen35", SECOND "attn_q.weight", 2 * D_MODEL, D_MODEL},
    {NULL, SECOND "attn_k.weight", D_KV, D_MODEL},
    {NULL, SECOND "attn_v.weight", D_KV, D_MODEL},
    {NULL, SECOND "attn_output.weight", D_MODEL, D_MODEL},
    {"lfm2", SECOND "ffn_norm.weight", 0, D_MODEL},
    {"qwen35", SECOND "post_attention_norm.weight", 0, D_MODEL},
    {NULL, SECOND "ffn_gate.weight", D_FF, D_MODEL},
    {NULL, SECOND "ffn_up.weight", D_FF, D_MODEL},
    {NULL, SECOND "ffn_down.weight", D_MODEL, D_FF},
};

static const char *const architectures[] = {"lfm2", "qwen35"};

static bool is_of(const char *architecture, const char *either) {
    return !either || strcmp(architecture, either) == 0;
}

/* lfm2's heads of keys and values: none in the first layer. */
static void set_kv_heads(Gguf *gguf, uint32_t type, int32_t first, int32_t second) {
    gguf_array(gguf, "lfm2.attention.head_count_kv", type, 2, (int32_t[]){first, second}, 8);
}

static Gguf state_model(const char *architecture) {
    static const char *const eps[] = {"lfm2.attention.layer_norm_rms_epsilon",
                                      "qwen35.attention.layer_norm_rms_epsilon"};
    Gguf gguf = gguf_begin(3);
    gguf_string(&gguf, "general.architecture", architecture);
    gguf_f32(&gguf, eps[strcmp(architecture, "lfm2") != 0], 1e-6f);
    for (size_t i = 0; i < COUNT(numbers); i++)
        if (is_of(architecture, numbers[i].architecture)) gguf_u32(&gguf, numbers[i].key, numbers[i].value);
    if (strcmp(architecture, "lfm2") == 0) set_kv_heads(&gguf, I32, 0, 1);
    for (size_t i = 0; i < COUNT(tensors); i++)
        if (is_of(architecture, tensors[i].architecture))
            gguf_tensor(&gguf, tensors[i].name, T_F32, tensors[i].rows, tensors[i].cols);
    return gguf;
}

static void test_keys(void) {
    static const struct {
        const char *key;
        uint32_t value;
        const char *tells; /* 0: the key is missing */
    } edits[] = {
        {"lfm2.shortconv.l_cache", 0, "'lfm2.shortconv.l_cache' is 0"},
        {"lfm2.shortconv.l_cache", (1 << 24) + 1, "'lfm2.shortconv.l_cache' is 16777217"},
        {"lfm2.shortconv.l_cache", 4, "'blk.0.shortconv.conv.weight' has shape [4][3], expected [4][4]"},
        {"qwen35.ssm.conv_kernel", 1 << 24, "'blk.0.ssm_conv1d.weight' has shape"},
        {"qwen35.ssm.state_size", 257, "'qwen35.ssm.state_size' is 257, expected 1 to 256"},
        {"qwen35.ssm.state_size", 6, "4 heads of 6 numbers, 12 in all"},
        {"qwen35.ssm.time_step_rank", 2, "2 heads of 3 numbers, 12 in all"},
        {"qwen35.ssm.time_step_rank", 1 << 24, "16777216 heads of 3 numbers"},
        {"qwen35.ssm.group_count", 3, "cannot share 3 key heads evenly"},
        {"qwen35.ssm.group_count", 4, "'blk.0.ssm_conv1d.weight' has shape [24][4], expected [36][4]"},
        {"qwen35.nextn_predict_layers", 2, "of 2 layers 2 predict tokens further on"},
        {"qwen35.nextn_predict_layers", 1 << 24, "of 2 layers 16777216 predict tokens further on"},
        {"qwen35.nextn_predict_layers", UINT32_MAX, "'qwen35.nextn_predict_layers' is 4294967295"},
    };
    for (size_t i = 0; i < COUNT(edits); i++) {
        Gguf gguf = state_model(architectures[edits[i].key[0] == 'q']);
        gguf_u32(&gguf, edits[i].key, edits[i].value);
        refuse(&gguf, edits[i].tells, edits[i].tells);
    }
    for (size_t i = 0; i < COUNT(numbers); i++) {
        char tells[96];
        if (!strstr(numbers[i].key, ".ssm.") && !strstr(numbers[i].key, ".shortconv.")) continue;
        Gguf gguf = state_model(numbers[i].architecture);
        gguf_drop(&gguf, gguf_find(&gguf, numbers[i].key));
        snprintf(tells, sizeof tells, "'%s' is missing", numbers[i].key);
        refuse(&gguf, tells, tells);
    }
}

static void test_heads_of_layers(void) {
    static const struct {
        uint32_t type;
        int32_t first, second;
        const char *tells;
    } edits[] = {
        {I32, 0, 0, "'lfm2.attention.head_count_kv' gives a layer 0 heads at most"},
        {I32, 0, -1, "gives a layer 0 heads at most"},
        {I32, INT32_MAX, 1, "gives a layer 2147483647 heads at most"},
        {U32, 0, 3, "2 heads cannot share 3 kv heads evenly"},
        {I32, 0, 2, "'blk.1.attn_k.weight' has shape"},
        {F32, 0, 1, "'lfm2.attention.head_count_kv' is of type array of float32"},
    };
    for (size_t i = 0; i < COUNT(edits); i++) {
        Gguf gguf = state_model("lfm2");
        set_kv_heads(&gguf, edits[i].type, edits[i].first, edits[i].second);
        refuse(&gguf, edits[i].tells, edits[i].tells);
    }
}

static void test_tensors(void) {
    for (size_t k = 0; k < COUNT(architectures); k++)
        for (size_t i = 0; i < COUNT(tensors); i++) {
            const char *name = tensors[i].name;
            char tells[96];
            if (!is_of(architectures[k], tensors[i].architecture)) continue;
            Gguf gguf = state_model(architectures[k]);
            gguf_drop_tensor(&gguf, gguf_find_tensor(&gguf, name));
            bool tells_kind = strstr(name, ".conv.") || strstr(name, "conv1d");
            refuse(&gguf, tells_kind ? "attn_q" : name, name);
            snprintf(tells, sizeof tells, "'%s' has shape", name);
            gguf = state_model(architectures[k]);
            gguf_find_tensor(&gguf, name)->dims[0]--;
            refuse(&gguf, tells, tells);
        }
}

/* A kernel that is not F32 is unpacked, and then turned. */
static void test_kernels_of_other_types(void) {
    for (size_t k = 0; k < COUNT(architectures); k++) {
        Gguf gguf = state_model(architectures[k]);
        for (size_t i = 0; i < gguf.n_tensors; i++)
            if (strstr(gguf.tensors[i].name, "conv") || strstr(gguf.tensors[i].name, "ssm_a"))
                gguf.tensors[i].type = T_BF16;
        model_close(accept(&gguf));
    }
}

/* Layers behind the others that predict tokens further on are left out, with whatever they have. */
static void test_layers_left_out(void) {
    Gguf gguf = state_model("qwen35");
    gguf_u32(&gguf, "qwen35.block_count", 4);
    gguf_u32(&gguf, "qwen35.nextn_predict_layers", 2);
    gguf_tensor(&gguf, "blk.2.attn_q.weight", T_F32, 3, 5);
    gguf_tensor(&gguf, "blk.3.nextn.eh_proj.weight", T_F32, 3, 5);
    Model *model = accept(&gguf);
    CHECK(model == NULL || model_config(model)->n_layer == 2, "layers");
    model_close(model);
    static const char *const others[] = {"blk.4.attn_q.weight", "blk.", "blk.2",
                                         "blk.18446744073709551618.a"};
    for (size_t i = 0; i < COUNT(others); i++) {
        Gguf more = gguf;
        gguf_tensor(&more, others[i], T_F32, 3, 5);
        refuse(&more, "is not part of a model of family 'qwen35'", others[i]);
    }
}

static Threads *pool;
static int n_layers; /* that a session has asked for; at the second it is stopped */

static bool at_second_layer(void *user) {
    (void)user;
    return ++n_layers == 2;
}

static Session *begin(const Model *model) {
    Error error = {{0}};
    const SessionOptions options = {.compute = {.kernels = kernels_pick(NULL, &error), .threads = pool},
                                    .stop = at_second_layer};
    Session *session = model ? session_new(model, &options, &error) : NULL;
    CHECK(session != NULL, "%s", error.message);
    return session;
}

/* Nothing is in a layer's cache that has no attention, and a model of such layers alone has no cache. */
static void test_cache(void) {
    Gguf gguf = state_model("qwen35");
    for (size_t i = gguf.n_tensors; i-- > 0;)
        if (strncmp(gguf.tensors[i].name, SECOND, strlen(SECOND)) == 0)
            gguf_drop_tensor(&gguf, &gguf.tensors[i]);
    gguf_u32(&gguf, "qwen35.block_count", 1);
    Error error = {{0}};
    Gguf files[] = {state_model("qwen35"), gguf};
    for (size_t i = 0; i < 2; i++) {
        Model *model = accept(&files[i]);
        if (!model) return;
        AttentionShape shape = model_attention_shape(model);
        size_t bytes = attention_kv_bytes(&shape, DTYPE_F32),
               expected = i == 0 ? 2 * D_KV * sizeof(float) : 0;
        CHECK(bytes == expected, "%zu bytes a token", bytes);
        float logits[N_VOCAB];
        Session *session = begin(model);
        n_layers = 2; /* beyond the second */
        CHECK(!session || session_feed(session, (const int32_t[]){1, 5}, 2, logits, 1, &error), "%s",
              error.message);
        session_free(session);
        model_close(model);
    }
}

/* A token that was given up midway is in a state already: the session begins anew. */
static void test_interrupted(void) {
    static const int32_t tokens[] = {1, 5, 6, 7};
    for (size_t k = 0; k < COUNT(architectures); k++) {
        Gguf gguf = state_model(architectures[k]);
        Model *model = accept(&gguf);
        Error error = {{0}};
        Session *session = begin(model);
        n_layers = 2; /* beyond the second */
        if (session != NULL) {
            float logits[2][N_VOCAB];
            CHECK(session_feed(session, tokens, 4, logits[0], 1, &error), "%s", error.message);
            n_layers = 0;
            CHECK(!session_feed(session, tokens, 1, logits[1], 1, &error), "not interrupted");
            CHECK(session_position(session) == 0, "at %zu", session_position(session));
            CHECK(session_feed(session, tokens, 4, logits[1], 1, &error), "%s", error.message);
            CHECK(memcmp(logits[0], logits[1], sizeof logits[0]) == 0, "%s", architectures[k]);
            session_rewind(session, 4);
            CHECK(session_position(session) == 4, "nothing was to be forgotten");
        }
        session_free(session);
        model_close(model);
    }
}

/* No parameter is left out, and what --info says of the cache and the state is what they take. */
static void test_sizes(void) {
    static const char *const tells[] = {
        "KV cache 8 bytes a token in F16, 16 in F32, 8 in Q8_0\nstate        64 bytes, in 1 of 2 layers\n",
        "KV cache 8 bytes a token in F16, 16 in F32, 8 in Q8_0\nstate        448 bytes, in 1 of 2 layers\n"};
    for (size_t k = 0; k < COUNT(architectures); k++) {
        Gguf gguf = state_model(architectures[k]);
        Model *model = accept(&gguf);
        if (!model) return;
        Count counts[N_COUNTS];
        uint64_t n = 0, expected = 0;
        count_weights(model, counts);
        for (size_t i = 0; i < N_COUNTS; i++) n += counts[i].parameters;
        for (size_t i = 0; i < gguf.n_tensors; i++)
            expected += gguf.tensors[i].dims[0] * gguf.tensors[i].dims[1];
        CHECK(n == expected, "%s: %zu parameters, expected %zu", architectures[k], (size_t)n,
              (size_t)expected);
        model_close(model);
        char text[4096] = "";
        Error error = {{0}};
        FILE *out = tmpfile();
        CHECK(out && print_info(out, scratch_path(), NULL, &error), "%s", error.message);
        if (!out) return;
        rewind(out);
        CHECK(fread(text, 1, sizeof text - 1, out) > 0, "nothing");
        CHECK(strstr(text, tells[k]), "%s", text);
        fclose(out);
    }
}

/* The way back through a state, of more tokens than are kept at once; heads as a folder has them; gates that are wide open. */
static void test_gradients(void) {
    static const int32_t ids[] = {1, 5, 6, 7, 3};
    for (size_t k = 0; k < 4; k++) {
        Gguf gguf = state_model(architectures[k > 0]);
        gguf_u32(&gguf, k ? "qwen35.context_length" : "lfm2.context_length", 64);
        if (k >= 2) gguf_string(&gguf, "attn.delta_heads", "grouped");
        n_file = gguf_write(&gguf, file);
        for (int i = 0; k == 3 && i < 4; i++)
            memcpy(file + gguf_find_tensor(&gguf, FIRST "ssm_dt.bias")->data_at + 4 * i, &(float){20.5f}, 4);
        for (int i = 0; k && i < 4; i++)
            memcpy(file + gguf_find_tensor(&gguf, FIRST "ssm_a")->data_at + 4 * i,
                   &(float){k == 3 ? -0.02f : -0.2f}, 4);
        scratch_write(file, n_file);
        check_slope(scratch_path(), architectures[k > 0], ids, COUNT(ids), 40, 5);
    }
}

/* For those who embed the library: the biases of queries and of their gates by turns; and how a folder's heads lie. */
static void test_parts_by_name(void) {
    for (size_t grouped = 0; grouped < 2; grouped++) {
        AttnError error = {""};
        AttnMatrix shape = {0};
        float bias[2 * D_MODEL], got[D_MODEL];
        Gguf gguf = state_model("qwen35");
        gguf_tensor(&gguf, SECOND "attn_q.bias", T_F32, 0, 2 * D_MODEL);
        if (grouped) gguf_string(&gguf, "attn.delta_heads", "grouped");
        n_file = gguf_write(&gguf, file);
        for (size_t i = 0; i < 2 * D_MODEL; i++) bias[i] = 1 + (float)i;
        memcpy(file + gguf_find_tensor(&gguf, SECOND "attn_q.bias")->data_at, bias, sizeof bias);
        scratch_write(file, n_file);
        AttnModel *model = attn_model_open(scratch_path(), NULL, &error);
        CHECK(model, "%s", error.message);
        CHECK(attn_model_n_striped(model) == (grouped ? 0 : 2), "%zu", attn_model_n_striped(model));
        for (size_t of_gate = 0; of_gate < 2; of_gate++) {
            bool ok =
                attn_weight(model, of_gate ? ATTN_B_Z_GATE : ATTN_B_Q, 1, 0, N_HEAD, got, &shape, &error);
            CHECK(ok && shape.n_rows == N_HEAD && shape.n_cols == D_HEAD, "%s", error.message);
            for (size_t i = 0; ok && i < N_HEAD * D_HEAD; i++)
                CHECK(got[i] == bias[(2 * (i / D_HEAD) + of_gate) * D_HEAD + i % D_HEAD], "%zu: %g", i,
                      (double)got[i]);
        }
        attn_model_close(model);
    }
}

/* Gates behind heads, where no layer keeps a state: a score is taken apart unless a norm is over all heads. */
static void test_gates(void) {
    for (int norm = 0; norm < 3; norm++) { /* none, of a head, of all */
        Gguf gguf = state_model("qwen35");
        for (size_t i = gguf.n_tensors; i-- > 0;)
            if (strncmp(gguf.tensors[i].name, FIRST, strlen(FIRST)) == 0)
                gguf_drop_tensor(&gguf, &gguf.tensors[i]);
        static char names[40][40];
        for (size_t i = 0; i < gguf.n_tensors; i++) {
            if (strncmp(gguf.tensors[i].name, SECOND, strlen(SECOND)) != 0) continue;
            snprintf(names[i], sizeof names[i], FIRST "%s", gguf.tensors[i].name + strlen(SECOND));
            gguf.tensors[i].name = names[i];
        }
        gguf_u32(&gguf, "qwen35.block_count", 1);
        if (norm)
            gguf_tensor(&gguf, FIRST "attn_q_norm.weight", T_F32, 0, norm == 1 ? D_HEAD : N_HEAD * D_HEAD);
        Model *model = accept(&gguf);
        if (!model) return;
        Error error = {{0}};
        bool can = score_parts_can(&(Subject){.model = model}, 0, &error);
        CHECK(can == (norm < 2), "%d: %s", norm, error.message);
        if (!can)
            CHECK(strstr(error.message, "gates between them, and a norm over all"), "%s", error.message);
        model_close(model);
    }
}

int main(void) {
    Error error;
    pool = threads_new(1, &error);
    CHECK(pool != NULL, "%s", error.message);
    scratch_begin();
    RUN(test_keys);
    RUN(test_heads_of_layers);
    RUN(test_tensors);
    RUN(test_kernels_of_other_types);
    RUN(test_layers_left_out);
    RUN(test_cache);
    RUN(test_interrupted);
    RUN(test_sizes);
    RUN(test_gradients);
    RUN(test_parts_by_name);
    RUN(test_gates);
    threads_free(pool);
    scratch_end();
    return test_end();
}
