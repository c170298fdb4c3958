/*
 * A model's inside as attn.h shows it: weights are those of the file, to the bit; heads lie side by side in what a probe
 * sees; gradients are those of PyTorch's autograd (scripts/expect/gradients.py); and what is refused.
 */
#include "attn.h"

#include "open.h"
#include "tests/test.h"

#define MODELS "tests/data/reference/"
#define GRADIENTS "tests/data/gradients/"

enum { MAX_TOKENS = 192, N_TERMS = MAX_TOKENS + 2 };

typedef struct World {
    AttnModel *model;
    AttnSession *session;
    AttnShape shape;
} World;

static World open_world(const char *path, const AttnSessionOptions *options) {
    AttnError error;
    World world = {.model = attn_model_open(path, NULL, &error)};
    world.shape = attn_model_shape(world.model);
    world.session = attn_session_new(world.model, options, &error);
    if (world.session) return world;
    printf("%s: %s\n", path, error.message);
    exit(1);
}

static void close_world(World *world) {
    attn_session_free(world->session);
    attn_model_close(world->model);
}

/* Rows [first, first + n) of a tensor of the file, as floats. The caller frees them. */
static float *rows_of(const Checkpoint *file, const char *name, size_t first, size_t n) {
    const Tensor *tensor = checkpoint_find(file, name);
    float *rows = calloc(n, (size_t)tensor->dims[0] * sizeof *rows);
    const char *data =
        (const char *)tensor->data + first * dtype_bytes(tensor->dtype, (size_t)tensor->dims[0]);
    dtype_unpack(rows, tensor->dtype, data, n * (size_t)tensor->dims[0]);
    return rows;
}

/* Rows [at, at + n) of a weight are those of a tensor from row `first` on, asked for in pieces; a row of a tensor may be some of
   the weight's (a bias of all heads). */
static void check_rows(const char *path, AttnWeight weight, const char *name, size_t at, size_t first,
                       size_t n) {
    AttnError error = {""};
    AttnMatrix shape = {0};
    Error inner;
    AttnModel *model = attn_model_open(path, NULL, &error);
    Checkpoint *file = checkpoint_open(path, &inner);
    size_t layer = attn_model_shape(model).n_layer > 1 && strncmp(name, "blk.1.", 6) == 0;
    bool ok = attn_weight(model, weight, layer, 0, 0, NULL, &shape, &error);
    size_t n_cols = (size_t)checkpoint_find(file, name)->dims[0],
           per = shape.n_cols ? n_cols / shape.n_cols : 0;
    CHECK(ok && per > 0 && shape.n_cols * per == n_cols && shape.n_rows >= (at + n) * per,
          "%s of %s: [%zu][%zu], %s", name, path, shape.n_rows, shape.n_cols, error.message);
    float *wanted = rows_of(file, name, first, n), *got = calloc(n, n_cols * sizeof *got);
    at *= per, n *= per;
    for (size_t row = 0, m; row < n; row += m) {
        m = n - row < 7 ? n - row : 7;
        CHECK(attn_weight(model, weight, layer, at + row, m, got + row * shape.n_cols, NULL, &error), "%s",
              error.message);
    }
    CHECK(memcmp(wanted, got, n * shape.n_cols * sizeof *got) == 0, "%s of %s has other numbers", name, path);
    free(wanted);
    free(got);
    checkpoint_close(file);
    attn_model_close(model);
}

static void test_weights_are_the_file_s(void) {
    check_rows(MODELS "gpt2-q4_0.gguf", ATTN_W_E, "token_embd.weight", 0, 0, 257);
    check_rows(MODELS "gpt2-f32.gguf", ATTN_W_POS, "position_embd.weight", 0, 0, 192);
    check_rows(MODELS "opt.gguf", ATTN_W_POS, "position_embd.weight", 0, 2, 32); /* behind two of none */
    check_rows(MODELS "gpt2-f16.gguf", ATTN_W_K, "blk.1.attn_qkv.weight", 0, 72, 72);
    check_rows(MODELS "gpt2-q4_0.gguf", ATTN_W_OUT, "blk.1.ffn_down.weight", 0, 0, 40);
    check_rows(MODELS "gpt2-f32.gguf", ATTN_LN1_B, "blk.1.attn_norm.bias", 0, 0, 1);
    check_rows(MODELS "gpt2-f32.gguf", ATTN_W_U, "token_embd.weight", 0, 0, 257); /* tied */
    check_rows(MODELS "llama-q8_0.gguf", ATTN_W_Q, "blk.1.attn_q.weight", 0, 0, 80);
    check_rows(MODELS "phi3.gguf", ATTN_W_IN, "blk.1.ffn_up.weight", 0, 24, 24);
    check_rows(MODELS "qwen3moe.gguf", ATTN_W_ROUTER, "blk.1.ffn_gate_inp.weight", 0, 0, 6);
    check_rows(MODELS "qwen3moe.gguf", ATTN_W_OUT, "blk.1.ffn_down_exps.weight", 0, 0, 6 * 16);
    check_rows(MODELS "qwen3moe.gguf", ATTN_Q_NORM_W, "blk.1.attn_q_norm.weight", 0, 0, 1);
    for (size_t head = 0; head < 2; head++) { /* between the heads' queries are their gates */
        check_rows(MODELS "qwen35.gguf", ATTN_W_Q, "blk.1.attn_q.weight", 8 * head, 16 * head, 8);
        check_rows(MODELS "qwen35.gguf", ATTN_W_Z_GATE, "blk.1.attn_q.weight", 8 * head, 16 * head + 8, 8);
    }
    check_rows(MODELS "gpt-oss.gguf", ATTN_SINKS, "blk.1.attn_sinks.weight", 0, 0, 1);
    check_rows(MODELS "qwen2moe.gguf", ATTN_SHARED_OUT, "blk.1.ffn_down_shexp.weight", 0, 0, 16);
    check_rows(MODELS "qwen2moe.gguf", ATTN_SHARED_SCALE, "blk.1.ffn_gate_inp_shexp.weight", 0, 0, 1);
    check_rows(MODELS "lfm2.gguf", ATTN_CONV_IN, "blk.0.shortconv.in_proj.weight", 0, 0, 48);
    check_rows(MODELS "lfm2.gguf", ATTN_CONV_OUT, "blk.0.shortconv.out_proj.weight", 0, 0, 16);
    check_rows(MODELS "qwen35.gguf", ATTN_DELTA_QKV, "blk.0.attn_qkv.weight", 0, 0, 48);
    check_rows(MODELS "qwen35.gguf", ATTN_DELTA_ALPHA, "blk.0.ssm_alpha.weight", 0, 0, 4);
    check_rows(MODELS "qwen35.gguf", ATTN_DELTA_A, "blk.0.ssm_a", 0, 0, 1);
    check_rows(MODELS "qwen35.gguf", ATTN_DELTA_OUT, "blk.0.ssm_out.weight", 0, 0, 16);
    check_rows(MODELS "gpt2-f16.gguf", ATTN_W_V, "blk.1.attn_qkv.weight", 0, 144, 72);
    check_rows(MODELS "gpt2-q4_0.gguf", ATTN_W_O, "blk.1.attn_output.weight", 0, 0, 40);
    check_rows(MODELS "gpt2-f32.gguf", ATTN_B_O, "blk.1.attn_output.bias", 0, 0, 1);
    check_rows(MODELS "gpt2-f32.gguf", ATTN_LN2_W, "blk.1.ffn_norm.weight", 0, 0, 1);
    check_rows(MODELS "gpt2-f32.gguf", ATTN_LN2_B, "blk.1.ffn_norm.bias", 0, 0, 1);
    check_rows(MODELS "gpt2-f32.gguf", ATTN_B_IN, "blk.1.ffn_up.bias", 0, 0, 1);
    check_rows(MODELS "gpt2-f32.gguf", ATTN_B_OUT, "blk.1.ffn_down.bias", 0, 0, 1);
    check_rows(MODELS "gpt2-f32.gguf", ATTN_LN_FINAL_W, "output_norm.weight", 0, 0, 1);
    check_rows(MODELS "gpt2-f32.gguf", ATTN_LN_FINAL_B, "output_norm.bias", 0, 0, 1);
    check_rows(MODELS "qwen2.gguf", ATTN_B_Q, "blk.1.attn_q.bias", 0, 0, 1);
    check_rows(MODELS "qwen2.gguf", ATTN_B_K, "blk.1.attn_k.bias", 0, 0, 1);
    check_rows(MODELS "qwen2.gguf", ATTN_B_V, "blk.1.attn_v.bias", 0, 0, 1);
    check_rows(MODELS "qwen3moe.gguf", ATTN_K_NORM_W, "blk.1.attn_k_norm.weight", 0, 0, 1);
    check_rows(MODELS "olmo2.gguf", ATTN_Q_NORM_W, "blk.1.attn_q_norm.weight", 0, 0,
               1); /* of all heads, or of each */
    check_rows(MODELS "command-r-plus.gguf", ATTN_K_NORM_W, "blk.1.attn_k_norm.weight", 0, 0, 2);
    check_rows(MODELS "gpt-oss.gguf", ATTN_B_GATE, "blk.1.ffn_gate_exps.bias", 0, 0, 4);
    check_rows(MODELS "gemma2.gguf", ATTN_LN1_POST_W, "blk.1.post_attention_norm.weight", 0, 0, 1);
    check_rows(MODELS "gemma2.gguf", ATTN_LN2_POST_W, "blk.1.post_ffw_norm.weight", 0, 0, 1);
    check_rows(MODELS "bloom.gguf", ATTN_EMBED_LN_W, "token_embd_norm.weight", 0, 0, 1);
    check_rows(MODELS "bloom.gguf", ATTN_EMBED_LN_B, "token_embd_norm.bias", 0, 0, 1);
    check_rows(MODELS "phi2.gguf", ATTN_B_U, "output.bias", 0, 0, 1);
    check_rows(MODELS "gpt-oss.gguf", ATTN_B_ROUTER, "blk.1.ffn_gate_inp.bias", 0, 0, 1);
    check_rows(MODELS "qwen35.gguf", ATTN_DELTA_BETA, "blk.0.ssm_beta.weight", 0, 0, 4);
    check_rows(MODELS "qwen35.gguf", ATTN_DELTA_DT_BIAS, "blk.0.ssm_dt.bias", 0, 0, 1);
    check_rows(MODELS "qwen35.gguf", ATTN_DELTA_NORM, "blk.0.ssm_norm.weight", 0, 0, 1);
    check_rows(MODELS "qwen35.gguf", ATTN_DELTA_Z, "blk.0.attn_gate.weight", 0, 0, 16);
    check_rows(MODELS "llama-f32-rope.gguf", ATTN_ROPE_FREQS, "rope_freqs.weight", 0, 0, 1);
    check_rows(MODELS "phi3-long.gguf", ATTN_ROPE_LONG, "rope_factors_long.weight", 0, 0, 1);
}

/* A state's kernel [n_taps][n_channels] lies in the file as [n_channels][n_taps]. */
static void check_kernel(const char *path, AttnWeight weight, const char *name) {
    enum { MAX = 512 };
    AttnError error = {""};
    AttnMatrix shape = {0};
    float got[MAX];
    AttnModel *model = attn_model_open(path, NULL, &error);
    Checkpoint *file = checkpoint_open(path, NULL);
    const Tensor *tensor = checkpoint_find(file, name);
    size_t n_taps = (size_t)tensor->dims[0], n_channels = (size_t)tensor->dims[1];
    float *wanted = rows_of(file, name, 0, n_channels);
    bool ok = attn_weight(model, weight, 0, 0, n_taps, got, &shape, &error);
    CHECK(ok && shape.n_rows == n_taps && shape.n_cols == n_channels, "%s: %s", path, error.message);
    for (size_t i = 0; ok && i < n_taps * n_channels; i++)
        CHECK(got[i] == wanted[i % n_channels * n_taps + i / n_channels], "%s: number %zu", name, i);
    free(wanted);
    checkpoint_close(file);
    attn_model_close(model);
}

static void test_kernels_of_states(void) {
    check_kernel(MODELS "lfm2.gguf", ATTN_CONV_KERNEL, "blk.0.shortconv.conv.weight");
    check_kernel(MODELS "qwen35.gguf", ATTN_DELTA_KERNEL, "blk.0.ssm_conv1d.weight");
}

static void test_weights_that_are_not_there(void) {
    AttnError error = {""};
    float row[64];
    AttnMatrix shape;
    AttnModel *gpt2 = attn_model_open(MODELS "gpt2-f32.gguf", NULL, NULL),
              *olmo = attn_model_open(MODELS "olmo.gguf", NULL, NULL),
              *lfm2 = attn_model_open(MODELS "lfm2.gguf", NULL, NULL);
    CHECK(!attn_weight(gpt2, ATTN_W_GATE, 1, 0, 1, row, NULL, &error) &&
              strcmp(error.message, "layer 1 has no mlp.W_gate") == 0,
          "%s", error.message);
    CHECK(!attn_weight(gpt2, ATTN_W_Q, 2, 0, 0, NULL, NULL, &error) &&
              strcmp(error.message, "there is no layer 2: the model has 2") == 0,
          "%s", error.message);
    CHECK(!attn_weight(gpt2, (AttnWeight)(ATTN_ROPE_LONG + 1), 0, 0, 0, NULL, NULL, &error) &&
              strstr(error.message, "see AttnWeight"),
          "%s", error.message);
    for (int way = 0; way < 3; way++) {
        size_t first = (size_t[]){40, 0, SIZE_MAX}[way], n = (size_t[]){1, 41, 2}[way];
        CHECK(!attn_weight(gpt2, ATTN_W_Q, 0, first, n, row, NULL, &error) &&
                  strstr(error.message, "attn.W_Q has 40 rows, not "),
              "%s", error.message);
    }
    CHECK(attn_weight(gpt2, ATTN_W_Q, 0, 40, 0, NULL, &shape, &error) && shape.n_rows == 40 &&
              shape.n_cols == 40,
          "%s", error.message);
    CHECK(!attn_weight(olmo, ATTN_LN1_W, 0, 0, 0, NULL, NULL, NULL), "a norm without gain has one");
    static const struct {
        const char *path;
        AttnWeight weight;
        const char *said;
    } none[] = {
        {MODELS "gpt2-f32.gguf", ATTN_LN1_POST_B, "layer 1 has no ln1_post.b"},
        {MODELS "gpt2-f32.gguf", ATTN_LN2_POST_B, "layer 1 has no ln2_post.b"},
        {MODELS "gpt2-f32.gguf", ATTN_W_E, "embed.W_E belongs to no layer: ask for it with layer 0, not 1"},
        {MODELS "llama-f32.gguf", ATTN_W_POS, "the model has no pos_embed.W_pos"},
        {MODELS "llama-f32.gguf", ATTN_B_U, "the model has no unembed.b_U"},
        {MODELS "qwen35.gguf", ATTN_B_Q, "layer 1 has no attn.b_Q"},
        {MODELS "qwen35.gguf", ATTN_B_Z_GATE, "layer 1 has no attn.b_gate"}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        AttnModel *model = attn_model_open(none[i].path, NULL, NULL);
        CHECK(!attn_weight(model, none[i].weight, 1, 0, 0, NULL, NULL, &error) &&
                  strcmp(error.message, none[i].said) == 0,
              "%s", error.message);
        attn_model_close(model);
    }
    for (int weight = ATTN_W_Z_GATE; weight <= ATTN_ROPE_LONG; weight++)
        CHECK(!attn_weight(gpt2, (AttnWeight)weight, 1, 0, 0, NULL, NULL, &error) &&
                  strstr(error.message, weight < ATTN_ROPE_FREQS ? "layer 1 has no " : "the model has no "),
              "%s", attn_weight_name((AttnWeight)weight));
    for (int weight = ATTN_DELTA_QKV; weight <= ATTN_DELTA_OUT; weight++)
        CHECK(!attn_weight(lfm2, (AttnWeight)weight, 0, 0, 0, NULL, NULL, NULL), "%s",
              attn_weight_name((AttnWeight)weight));
    CHECK(!attn_weight(lfm2, ATTN_CONV_IN, 1, 0, 0, NULL, NULL, NULL), "attention has a convolution");
    size_t n_without = 0;
    for (size_t layer = 0; layer < attn_model_shape(lfm2).n_layer; layer++)
        n_without += !attn_weight(lfm2, ATTN_W_Q, layer, 0, 0, NULL, NULL, NULL);
    CHECK(n_without > 0 && n_without < attn_model_shape(lfm2).n_layer, "%zu layers", n_without);
    CHECK(strcmp(attn_weight_name(ATTN_W_E), "embed.W_E") == 0 &&
              strcmp(attn_weight_name(ATTN_DELTA_A), "linear_attn.A") == 0,
          "names");
    CHECK(attn_weight_name((AttnWeight)(ATTN_ROPE_LONG + 1))[0] == '\0' &&
              attn_weight_name((AttnWeight)-1)[0] == '\0',
          "a weight that does not exist has a name");
    attn_model_close(gpt2);
    attn_model_close(olmo);
    attn_model_close(lfm2);
}

static void test_the_order_of_pairs(void) {
    static const struct {
        const char *path;
        size_t n_paired;  /* the file's rope.dimension_count, or a head */
        size_t n_striped; /* its ssm.group_count */
    } cases[] = {{MODELS "gpt2-f32.gguf", 0, 0}, {MODELS "llama-f32.gguf", 20, 0},
                 {MODELS "gptj.gguf", 0, 0},     {MODELS "qwen3.gguf", 0, 0},
                 {MODELS "lfm2.gguf", 0, 0},     {MODELS "internlm2.gguf", 4, 0},
                 {MODELS "qwen35.gguf", 0, 2},   {MODELS "qwen35-wide.gguf", 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AttnModel *model = attn_model_open(cases[i].path, NULL, NULL);
        CHECK(attn_model_n_paired(model) == cases[i].n_paired, "%s: %zu", cases[i].path,
              attn_model_n_paired(model));
        CHECK(attn_model_n_striped(model) == cases[i].n_striped, "%s: %zu", cases[i].path,
              attn_model_n_striped(model));
        attn_model_close(model);
    }
}

/* Takes parts of what heads make, one visit for all heads or each at its own. */
typedef struct Halver {
    AttnSite site;
    bool all_at_last;
    size_t n_heads, n_visits;
} Halver;

static bool halver_wants(void *user, AttnSite site, size_t layer, size_t head) {
    const Halver *halver = user;
    return site == halver->site && layer == 1 && (!halver->all_at_last || head + 1 == halver->n_heads);
}

static void halve(void *user, const AttnActivation *seen) {
    Halver *halver = user;
    halver->n_visits++;
    size_t first = halver->all_at_last ? 0 : seen->head, last = seen->head;
    for (size_t row = 0; row < seen->n_rows; row++)
        for (size_t head = first; head <= last; head++) {
            float *data = seen->data + row * seen->stride - (seen->head - head) * seen->n_cols;
            for (size_t i = 0; i < seen->n_cols; i++) data[i] *= 0.5f + 0.1f * (float)head;
        }
}

static void test_heads_lie_side_by_side(void) {
    static const AttnSite sites[] = {ATTN_Q, ATTN_K, ATTN_V, ATTN_ROT_Q, ATTN_ROT_K, ATTN_Z};
    static const int32_t tokens[] = {1, 70, 71, 72, 73, 74};
    World plain = open_world(MODELS "llama-f32.gguf", NULL);
    float logits[2][512], unchanged[512];
    attn_feed(plain.session, tokens, 6, unchanged, 1, NULL);
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++) {
        bool of_kv = sites[i] == ATTN_K || sites[i] == ATTN_V || sites[i] == ATTN_ROT_K;
        for (int way = 0; way < 2; way++) {
            Halver halver = {sites[i], way, of_kv ? plain.shape.n_head_kv : plain.shape.n_head, 0};
            AttnSessionOptions options = {.probe = {&halver, halver_wants, halve}};
            AttnSession *session = attn_session_new(plain.model, &options, NULL);
            CHECK(attn_feed(session, tokens, 6, logits[way], 1, NULL), "cannot feed");
            CHECK(halver.n_visits == (way ? 1 : halver.n_heads), "%zu visits", halver.n_visits);
            attn_session_free(session);
        }
        size_t n_bytes = plain.shape.n_vocab * sizeof(float);
        CHECK(memcmp(logits[0], logits[1], n_bytes) == 0, "%s of all heads at the last",
              attn_site_name(sites[i]));
        CHECK(memcmp(logits[0], unchanged, n_bytes) != 0, "%s changes nothing", attn_site_name(sites[i]));
    }
    close_world(&plain);
}

/* PyTorch's gradient, and how far ours is off. */
typedef struct Expected {
    const Checkpoint *file;
    size_t n_rows;
    double worst; /* as a share of a tensor's largest number */
} Expected;

static const Tensor *tensor_of(const Checkpoint *file, AttnSite site, size_t layer) {
    char name[64];
    snprintf(name, sizeof name, "blk.%zu.%s", layer, attn_site_name(site));
    return checkpoint_find(file, name);
}

static bool expected_wants(void *user, AttnSite site, size_t layer, size_t head) {
    (void)head;
    return tensor_of(((Expected *)user)->file, site, layer);
}

static void compare(void *user, const AttnActivation *seen, float *gradient) {
    Expected *expected = user;
    const Tensor *tensor = tensor_of(expected->file, seen->site, seen->layer),
                 *positions = checkpoint_find(expected->file, "positions");
    const float *wanted = tensor->data, *at = positions->data;
    double largest = 1e-12;
    for (size_t i = 0; i < tensor->n_bytes / sizeof *wanted; i++)
        largest = fmax(largest, fabs((double)wanted[i]));
    for (size_t i = 0; i < positions->dims[0]; i++) {
        if ((size_t)at[i] < seen->position || (size_t)at[i] >= seen->position + seen->n_rows) continue;
        const float *got = gradient + ((size_t)at[i] - seen->position) * seen->stride;
        const float *row = wanted + (seen->head * positions->dims[0] + i) * tensor->dims[0];
        for (size_t j = 0; j < seen->n_cols; j++)
            expected->worst = fmax(expected->worst, fabs((double)got[j] - (double)row[j]) / largest);
        expected->n_rows++;
    }
}

/* m of scripts/expect/gradients.py: the text's loss in all, and a logit difference behind its last token. */
static size_t metric_of(const float *ids, size_t n, int32_t *tokens, AttnTerm *terms) {
    for (size_t i = 0; i < n; i++) tokens[i] = (int32_t)ids[i];
    for (size_t i = 0; i + 1 < n; i++) terms[i] = (AttnTerm){i, tokens[i + 1], true, -1};
    terms[n - 1] = (AttnTerm){n - 1, tokens[0], false, 1};
    terms[n] = (AttnTerm){n - 1, tokens[1], false, -1};
    return n + 1;
}

static void check_gradient(const char *name, double bound) {
    char path[128];
    int32_t tokens[MAX_TOKENS];
    AttnTerm terms[N_TERMS];
    AttnError error = {""};
    Error inner;
    double value = 0, alone = 0;
    snprintf(path, sizeof path, GRADIENTS "%s.gguf", name);
    Checkpoint *file = checkpoint_open(path, &inner);
    const Tensor *ids = checkpoint_find(file, "tokens");
    size_t n = (size_t)ids->dims[0], n_terms = metric_of(ids->data, n, tokens, terms), n_held;
    snprintf(path, sizeof path, MODELS "%s.gguf", name);
    World world = open_world(path, &(AttnSessionOptions){.cache = ATTN_CACHE_F32});
    Expected expected = {.file = file};
    const AttnGradientProbe probe = {&expected, expected_wants, compare};
    bool ok = attn_gradient(world.session, tokens, n, terms, n_terms, &probe, &value, &error);
    double m = (double)*(const float *)checkpoint_find(file, "m")->data;
    CHECK(ok && fabs(value - m) <= 10 * bound * fabs(m), "%s: %s %g, not %g", name, error.message, value, m);
    CHECK(expected.n_rows > 100 && expected.worst <= bound, "%s: %zu rows, off by %g", name, expected.n_rows,
          expected.worst);
    const int32_t *held = attn_session_tokens(world.session, &n_held);
    CHECK(n_held == n && memcmp(held, tokens, n * sizeof *tokens) == 0, "%zu tokens are held", n_held);
    CHECK(attn_gradient(world.session, tokens, n, terms, n_terms, NULL, &alone, &error) && alone == value,
          "%s: %.17g without a way back, not %.17g", name, alone, value);
    close_world(&world);
    checkpoint_close(file);
}

static void test_gradients_are_pytorch_s(void) {
    check_gradient("gpt2-f32", 1e-5);
    check_gradient("llama-f32", 1e-5);
    check_gradient("qwen35", 5e-5); /* as tests/test_backward.c allows of states */
}

static void count_visits(void *user, const AttnActivation *seen, float *gradient) {
    size_t *n_visits = user;
    CHECK(seen->site <= ATTN_LOGITS && (seen->data || seen->site == ATTN_RESULT) && gradient, "site %d",
          (int)seen->site);
    n_visits[seen->site]++;
}

/* Without `wants` every site is visited, but for scales. */
static void test_all_gradients_are_seen(void) {
    size_t n_visits[ATTN_LOGITS + 1] = {0};
    static const int32_t tokens[] = {64, 65, 66};
    World world = open_world(MODELS "gpt2-f32.gguf", NULL);
    const AttnTerm term = {2, 67, true, 1};
    const AttnGradientProbe probe = {n_visits, NULL, count_visits};
    CHECK(attn_gradient(world.session, tokens, 3, &term, 1, &probe, NULL, NULL), "no gradient");
    for (int site = 0; site <= ATTN_LOGITS; site++) {
        size_t wanted = 2;
        if (site == ATTN_EMBED || site == ATTN_POS_EMBED || site == ATTN_LOGITS) wanted = 1;
        if (site == ATTN_Q || site == ATTN_K || site == ATTN_V || site == ATTN_Z || site == ATTN_RESULT)
            wanted = 4;
        if (site == ATTN_SCORES || site == ATTN_PATTERN) wanted = 12;
        if (site == ATTN_NORM1_SCALE || site == ATTN_NORM2_SCALE || site == ATTN_FINAL_SCALE) wanted = 0;
        if (site == ATTN_ROT_Q || site == ATTN_ROT_K || site == ATTN_ROUTER || site == ATTN_EXPERT_WEIGHTS ||
            site == ATTN_MLP_PRE_LINEAR)
            wanted = 0; /* there are none */
        CHECK(n_visits[site] == wanted, "%s: %zu visits, not %zu", attn_site_name((AttnSite)site),
              n_visits[site], wanted);
    }
    close_world(&world);
}

/* The gradient at the last layer's end, and at the embeddings. */
typedef struct Passed {
    size_t n_layer;
    float at_end[4096], at_embed[4096];
} Passed;

/* Nothing goes back through attention or MLPs. */
static void cut_branches(void *user, const AttnActivation *seen, float *gradient) {
    Passed *passed = user;
    size_t n_bytes = seen->n_rows * seen->n_cols * sizeof *gradient;
    if (seen->site == ATTN_ATTN_OUT || seen->site == ATTN_MLP_OUT) memset(gradient, 0, n_bytes);
    if (seen->site == ATTN_EMBED) memcpy(passed->at_embed, gradient, n_bytes);
    if (seen->site == ATTN_RESID_POST && seen->layer + 1 == passed->n_layer)
        memcpy(passed->at_end, gradient, n_bytes);
}

/* So the gradient passes the residual stream as it is. */
static void test_what_is_written_goes_on(void) {
    static const int32_t tokens[] = {64, 65, 66};
    World world = open_world(MODELS "gpt2-f32.gguf", NULL);
    Passed passed = {.n_layer = world.shape.n_layer};
    const AttnTerm terms[] = {{2, 67, true, 1}, {0, 68, false, 2}};
    const AttnGradientProbe probe = {&passed, NULL, cut_branches};
    CHECK(attn_gradient(world.session, tokens, 3, terms, 2, &probe, NULL, NULL), "no gradient");
    CHECK(attn_gradient(world.session, tokens, 3, terms, 2, &(AttnGradientProbe){0}, NULL, NULL),
          "nobody looks");
    CHECK(memcmp(passed.at_end, passed.at_embed, 3 * world.shape.d_model * sizeof(float)) == 0,
          "it is %g, not %g", (double)passed.at_embed[0], (double)passed.at_end[0]);
    CHECK(passed.at_end[0] != 0 && passed.at_end[2 * world.shape.d_model] != 0, "nothing passes");
    close_world(&world);
}

static bool no_visit(void *user, AttnSite site, size_t layer, size_t head) {
    (void)user, (void)site, (void)layer, (void)head;
    return false;
}

static void never(void *user, const AttnActivation *seen) {
    (void)user, (void)seen;
    CHECK(false, "the session's probe sees the way there");
}

static void count_fed(void *user, const AttnActivation *seen) {
    size_t *n_fed = user;
    if (seen->site == ATTN_EMBED) *n_fed += seen->n_rows;
}

static bool stop_now(void *user) { return *(bool *)user; }

static void test_gradients_that_are_refused(void) {
    static const int32_t tokens[] = {64, 65, 66};
    bool stops = false;
    size_t n_fed = 0;
    AttnError error = {""};
    AttnSessionOptions options = {
        .probe = {.user = &n_fed, .visit = never}, .stop = stop_now, .stop_user = &stops};
    World world = open_world(MODELS "gpt2-f32.gguf", &options);
    const AttnGradientProbe probe = {.wants = no_visit};
    const struct {
        size_t n, n_terms;
        AttnTerm term;
        const char *words;
    } cases[] = {
        {0, 1, {0, 1, false, 1}, "no tokens are given"},
        {193, 1, {0, 1, false, 1}, "193 tokens are more than the context of 192"},
        {3, 0, {0, 1, false, 1}, "the metric has no terms"},
        {3, 1, {3, 1, false, 1}, "term 1 is of position 3, but there are 3 tokens"},
        {3, 1, {2, 257, false, 1}, "term 1 is of token 257, which is outside the vocabulary of 257"},
        {3, 1, {2, -1, false, 1}, "term 1 is of token -1"},
        {3, 1, {2, 1, true, INFINITY}, "the metric is not finite"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(!attn_gradient(world.session, tokens, cases[i].n, &cases[i].term, cases[i].n_terms, &probe,
                             NULL, &error) &&
                  strstr(error.message, cases[i].words),
              "%s, not %s", error.message, cases[i].words);
    stops = true;
    CHECK(!attn_gradient(world.session, tokens, 3, &(AttnTerm){2, 1, true, 1}, 1, &probe, NULL, &error) &&
              strcmp(error.message, "interrupted") == 0,
          "%s", error.message);
    stops = false;
    CHECK(attn_gradient(world.session, tokens, 3, &(AttnTerm){2, 1, true, 1}, 1, &probe, NULL, &error), "%s",
          error.message);
    attn_session_free(world.session);
    options.probe.visit = count_fed; /* it looks on again afterwards */
    world.session = attn_session_new(world.model, &options, NULL);
    CHECK(attn_gradient(world.session, tokens, 3, &(AttnTerm){2, 1, true, 1}, 1, NULL, NULL, &error) &&
              n_fed == 0 && attn_feed(world.session, tokens, 2, NULL, 0, &error) && n_fed == 2,
          "%zu tokens, %s", n_fed, error.message);
    close_world(&world);
    CHECK(!attn_gradient(NULL, tokens, 3, NULL, 0, NULL, NULL, NULL) &&
              !attn_weight(NULL, ATTN_W_E, 0, 0, 0, NULL, NULL, NULL) && attn_model_n_paired(NULL) == 0 &&
              attn_model_n_striped(NULL) == 0,
          "something of nothing");
}

int main(void) {
    RUN(test_weights_are_the_file_s);
    RUN(test_kernels_of_states);
    RUN(test_weights_that_are_not_there);
    RUN(test_the_order_of_pairs);
    RUN(test_heads_lie_side_by_side);
    RUN(test_gradients_are_pytorch_s);
    RUN(test_all_gradients_are_seen);
    RUN(test_what_is_written_goes_on);
    RUN(test_gradients_that_are_refused);
    return test_end();
}
