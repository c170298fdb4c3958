/*
 * Stock files: what llama-quantize makes, in each of its presets, of a small GPT-2 and a small Llama opens here, and
 * computes what llama.cpp computes. It needs ../shared/oracle built in $ORACLE or $HOME/oracle. The short form takes a
 * few presets, the long one (ATTN_LONG_TESTS=1) all.
 *
 * - Unpacking is ggml's, to the bit: with the plain kernels logits have the bits of those of the file that llama-quantize
 *   unpacks to F32.
 * - Other sets differ from the plain one as kernels.h says: by 1e-4 of the largest logit where activations are rounded to
 *   16 bits, by 4e-2 where they are to 8 bits.
 * - llama.cpp rounds activations to 8 bits, too, and takes GELU from a table of F16; 3.6e-2 measured.
 * - What our own quantize makes has the same metadata and types, tensor by tensor, in as many bytes, and llama.cpp computes
 *   with it what we do.
 */
#include "gguf.h"
#include "model.h"
#include "open.h"

static const double ROUNDED_BOUND = 3e-4, INT8_BOUND = 0.1, ORACLE_BOUND = 0.06;

enum {
    D_MODEL = 256,
    N_HEAD = 4,
    D_KV = 128, /* of the Llama: two heads */
    D_FF = 256,
    D_FF_GPT2 = 288, /* rows of 288 get types of small blocks */
    N_LAYER = 1,
    N_VOCAB = 64,
    N_TOKENS = 21,
    N_LOGITS = N_TOKENS * N_VOCAB,
    SMALL_VOCAB = 37, /* of the models in tests/data/reference */
};

/* The logits compared: of all tokens of the text. */
static size_t n_logits, n_vocab;

/* The options of llama-quantize; those that come first are the short form. (Its MXFP4_MOE is about experts alone.) */
static const char *const presets[] = {
    "Q4_K_M",
    "Q4_0",
    "Q2_K",
    "Q3_K_M",
    "Q5_K_M",
    "Q6_K",
    "--tensor-type ffn=mxfp4 --tensor-type attn=mxfp4 Q8_0",
    "Q4_1",
    "Q5_0",
    "Q5_1",
    "Q8_0",
    "Q3_K_S",
    "Q3_K_L",
    "Q4_K_S",
    "Q5_K_S",
    "IQ4_NL",
    "IQ4_XS",
    "BF16",
    "F16",
    "--pure Q2_K",
    "--pure Q3_K_S",
    "--pure Q4_0",
    "--pure Q4_K_S",
    "--pure Q5_K_S",
    "--pure IQ4_XS",
};

enum { N_PRESETS = sizeof presets / sizeof *presets, N_SHORT = 7 };

static char oracle[256], theirs[300],
    ids[N_TOKENS * 4]; /* where it is; its llama-quantize; the text, as it takes it */
static int32_t tokens[N_TOKENS];

static bool find_oracle(void) {
    const char *given = getenv("ORACLE"), *home = getenv("HOME");
    snprintf(oracle, sizeof oracle, "%s%s", given ? given : home ? home : "", given ? "" : "/oracle");
    snprintf(theirs, sizeof theirs, "%s/build/bin/llama-quantize", oracle);
    return access(theirs, X_OK) == 0;
}

/* Uniform in [-1, 1). Marsaglia 2003, "Xorshift RNGs". */
static float random_float(void) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (float)(state >> 40) * 0x1p-23f - 1.0f;
}

/* NAME.weight, and NAME.bias; rows 0: a vector. */
static void add_linear(Gguf *gguf, const char *name, size_t rows, size_t cols, bool biased) {
    static char names[sizeof gguf->tensors / sizeof *gguf->tensors][32];
    char *weight = names[gguf->n_tensors], *bias = names[gguf->n_tensors + 1];
    snprintf(weight, sizeof *names, "%s.weight", name);
    gguf_tensor(gguf, weight, T_F32, rows, cols);
    if (!biased) return;
    snprintf(bias, sizeof *names, "%s.bias", name);
    gguf_tensor(gguf, bias, T_F32, 0, rows ? rows : cols);
}

/* A model of one layer with random weights, in F32. */
static void write_model(const char *path, bool gpt2) {
    static Gguf gguf;
    static const char *const keys[] = {
        "context_length", "embedding_length",     "feed_forward_length",     "block_count",
        "vocab_size",     "attention.head_count", "attention.head_count_kv",
    };
    const uint32_t values[] = {64,      D_MODEL, gpt2 ? D_FF_GPT2 : D_FF, N_LAYER,
                               N_VOCAB, N_HEAD,  gpt2 ? N_HEAD : 2};
    static char names[8][64];
    const char *family = gpt2 ? "gpt2" : "llama";
    gguf = gguf_begin(3);
    gguf_string(&gguf, "general.architecture", family);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(names[i], sizeof names[i], "%s.%s", family, keys[i]);
        gguf_u32(&gguf, names[i], values[i]);
    }
    snprintf(names[7], sizeof names[7], "%s.attention.layer_norm_%sepsilon", family, gpt2 ? "" : "rms_");
    gguf_f32(&gguf, names[7], 1e-5f);
    gguf_string(&gguf, "tokenizer.ggml.model", "no_vocab");

    add_linear(&gguf, "token_embd", N_VOCAB, D_MODEL, false);
    if (gpt2) {
        add_linear(&gguf, "position_embd", 64, D_MODEL, false);
        add_linear(&gguf, "blk.0.attn_qkv", 3 * D_MODEL, D_MODEL, true);
    } else {
        add_linear(&gguf, "output", N_VOCAB, D_MODEL, false);
        add_linear(&gguf, "blk.0.attn_q", D_MODEL, D_MODEL, false);
        add_linear(&gguf, "blk.0.attn_k", D_KV, D_MODEL, false);
        add_linear(&gguf, "blk.0.attn_v", D_KV, D_MODEL, false);
        add_linear(&gguf, "blk.0.ffn_gate", D_FF, D_MODEL, false);
    }
    add_linear(&gguf, "blk.0.attn_norm", 0, D_MODEL, gpt2);
    add_linear(&gguf, "blk.0.ffn_norm", 0, D_MODEL, gpt2);
    add_linear(&gguf, "output_norm", 0, D_MODEL, gpt2);
    add_linear(&gguf, "blk.0.attn_output", D_MODEL, D_MODEL, gpt2);
    add_linear(&gguf, "blk.0.ffn_up", gpt2 ? D_FF_GPT2 : D_FF, D_MODEL, gpt2);
    add_linear(&gguf, "blk.0.ffn_down", D_MODEL, gpt2 ? D_FF_GPT2 : D_FF, gpt2);

    static unsigned char file[1 << 22];
    size_t n = gguf_write(&gguf, file);
    for (const GgufTensor *tensor = gguf.tensors; tensor < gguf.tensors + gguf.n_tensors; tensor++) {
        bool norm = strstr(tensor->name, "norm.weight") != NULL;
        float scale = tensor->n_dims > 1 ? 1.6f / sqrtf((float)tensor->dims[0]) : 0.3f;
        for (size_t i = 0; i < tensor->n_bytes / 4; i++) {
            float value = scale * (random_float() + random_float()) + (norm ? 1 : 0);
            memcpy(file + tensor->data_at + 4 * i, &value, 4);
        }
    }
    FILE *out = fopen(path, "wb");
    if (!out || fwrite(file, 1, n, out) != n || fclose(out) != 0) exit(2);
}

/* llama-quantize, or ours, OPTIONS FROM TO TYPE, where `how` may be options and a type. */
static bool quantise(const char *program, const char *how, const char *from, const char *to) {
    char command[1400];
    const char *type = strrchr(how, ' ');
    type = type ? type + 1 : how;
    snprintf(command, sizeof command, "'%s' %.*s --allow-requantize '%s' '%s' %s >/dev/null 2>&1", program,
             (int)(type - how), how, from, to, type);
    return system(command) == 0;
}

/* llama.cpp's logits [N_TOKENS][N_VOCAB]. */
static bool read_oracle(const char *path, float *logits) {
    char command[1400];
    const char *out = scratch_file("logits");
    snprintf(command, sizeof command, "'%s/logits' '%s' %s '%s' >/dev/null 2>&1", oracle, path, ids, out);
    if (system(command) != 0) return false;
    FILE *file = fopen(out, "rb");
    bool ok = file && fread(logits, sizeof *logits, n_logits, file) == n_logits;
    if (file) fclose(file);
    unlink(out);
    return ok;
}

/* Ours, of the text fed whole. */
static bool compute(const char *path, const Kernels *kernels, float *logits) {
    Error error = {{0}};
    Model *model = model_open(path, &error);
    Threads *threads = threads_new(2, &error);
    SessionOptions options = {.kv_dtype = DTYPE_F32, .compute = {.kernels = kernels, .threads = threads}};
    Session *session = model && threads ? session_new(model, &options, &error) : NULL;
    bool ok = session && model_config(model)->n_vocab == n_vocab &&
              session_feed(session, tokens, N_TOKENS, logits, N_TOKENS, &error);
    CHECK(ok, "%s", error.message);
    session_free(session);
    threads_free(threads);
    model_close(model);
    return ok;
}

/* The largest difference, as a share of the largest number of b. */
static double difference(const float *a, const float *b) {
    double most = 0, size = 0;
    for (size_t i = 0; i < n_logits; i++) {
        double off = fabs((double)a[i] - (double)b[i]);
        most = off <= most ? most : off; /* NaN stays */
        size = fmax(size, fabs((double)b[i]));
    }
    return most / size;
}

/* Keys may stand in another order. */
static bool have_same_types(const char *a_path, const char *b_path) {
    Error error;
    Checkpoint *a = checkpoint_open(a_path, &error), *b = checkpoint_open(b_path, &error);
    bool same = a && b && checkpoint_n_tensors(a) == checkpoint_n_tensors(b) &&
                checkpoint_n_values(a) == checkpoint_n_values(b) &&
                checkpoint_file_bytes(a) == checkpoint_file_bytes(b);
    uint64_t types[2] = {0, 0}, versions[2] = {0, 0};
    for (size_t i = 0; same && i < checkpoint_n_tensors(a); i++) {
        char name[64];
        const Tensor *tensor = checkpoint_tensor(a, i);
        snprintf(name, sizeof name, "%.*s", string_shown(tensor->name), tensor->name.data);
        const Tensor *other = checkpoint_find(b, name);
        same = other && other->dtype == tensor->dtype;
    }
    for (size_t i = 0; same && i < 2; i++)
        same = checkpoint_u64(i ? b : a, "general.file_type", &types[i], &error) &&
               checkpoint_u64(i ? b : a, "general.quantization_version", &versions[i], &error);
    same = same && types[0] == types[1] && versions[0] == versions[1];
    checkpoint_close(a);
    checkpoint_close(b);
    return same;
}

/* The file that our own quantize makes, beside llama-quantize's. */
static void check_own(const char *family, const char *model, const char *preset, const char *file) {
    static float logits[N_LOGITS], expected[N_LOGITS];
    const char *program = getenv("QUANTIZE"), *own = scratch_file("own");
    bool made = quantise(program ? program : "./quantize", preset, model, own);
    CHECK(made && have_same_types(own, file), "%s %s: quantize makes another file", family, preset);
    if (made && compute(own, kernels_pick("scalar", NULL), logits)) {
        bool ran = read_oracle(own, expected);
        CHECK(ran && difference(logits, expected) <= ORACLE_BOUND,
              "%s %s: quantize's is off by %.3g in llama.cpp", family, preset,
              ran ? difference(logits, expected) : (double)NAN);
    }
    unlink(own);
}

static void check_preset(const char *family, const char *model, const char *preset) {
    static float plain[N_LOGITS], logits[N_LOGITS];
    const char *file = scratch_file("quantised"), *floats = scratch_file("floats");
    const Kernels *const sets[] = {kernels_pick("scalar", NULL), kernels_pick(NULL, NULL), kernels_fastest()};
    bool made = quantise(theirs, preset, model, file) && quantise(theirs, "F32", file, floats);
    CHECK(made, "llama-quantize does not make a %s of %s", family, preset);
    if (made && compute(file, sets[0], plain) && compute(floats, sets[0], logits)) {
        CHECK(memcmp(plain, logits, sizeof plain) == 0,
              "%s %s: off by %.3g from the weights as llama-quantize has them", family, preset,
              difference(plain, logits));
        for (size_t i = 1; i < 3 && compute(file, sets[i], logits); i++)
            CHECK(difference(logits, plain) <= (i == 1 ? ROUNDED_BOUND : INT8_BOUND),
                  "%s %s, %s: off by %.3g", family, preset, sets[i]->name, difference(logits, plain));
        bool ran = read_oracle(file, logits);
        CHECK(ran && difference(plain, logits) <= ORACLE_BOUND, "%s %s: off by %.3g from llama.cpp", family,
              preset, ran ? difference(plain, logits) : (double)NAN);
    }
    if (made && !strstr(preset, "--tensor-type")) check_own(family, model, preset, file);
    unlink(file);
    unlink(floats);
}

/* A text for a model of so many tokens. */
static void choose_text(size_t n) {
    n_vocab = n, n_logits = N_TOKENS * n, *ids = '\0';
    for (size_t i = 0; i < N_TOKENS; i++) {
        tokens[i] = (int32_t)(i * i * 7 % n);
        snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%d,", (int)tokens[i]);
    }
}

static void test_stock_files(void) {
    if (!find_oracle()) SKIP("no llama-quantize in %s (../shared/oracle/README.md)", oracle);
    const char *model = scratch_file("model");
    char path[300];
    snprintf(path, sizeof path, "%s", model);
    choose_text(N_VOCAB);
    for (int gpt2 = 0; gpt2 < 2; gpt2++) {
        write_model(path, gpt2);
        for (size_t i = 0; i < (getenv("ATTN_LONG_TESTS") ? N_PRESETS : N_SHORT); i++)
            check_preset(gpt2 ? "GPT-2" : "Llama", path, presets[i]);
    }
    unlink(path);
}

/*
 * Families that llama.cpp opens. Some are `apart`: Phi-3's window and YaRN's bounds of gpt-oss, as docs/MODELS.md says, and two in
 * which activations rounded to 16 bits change much (an expert that is almost as good as another).
 */
static const struct {
    const char *name;
    bool apart;
} families[] = {
    {"gpt-oss", true},
    {"stablelm-parallel", false},
    {"gemma3", false},
    {"olmo2-3", false},
    {"qwen35", false},
    {"stablelm", false},
    {"gptneox", false},
    {"gptneox-sequential", false},
    {"bloom", false},
    {"mpt", false},
    {"mpt-learned", false},
    {"falcon", false},
    {"falcon-two-norms", false},
    {"llama-yarn", false},
    {"llama-experts", false},
    {"granite", false},
    {"granitemoe", false},
    {"smollm3", true},
    {"internlm2", false},
    {"olmo", false},
    {"olmo2", false},
    {"olmoe", true},
    {"qwen2", false},
    {"qwen2-tied-yarn", false},
    {"qwen2moe", false},
    {"qwen3", false},
    {"qwen3moe", false},
    {"qwen3vl", false},
    {"exaone", false},
    {"gemma", false},
    {"gemma2", false},
    {"phi2", false},
    {"phi3", true},
    {"starcoder", false},
    {"starcoder2", false},
    {"cohere2", false},
    {"nemotron", false},
    {"qwen35-wide", false},
    {"lfm2", false},
};

enum { N_FAMILIES = sizeof families / sizeof *families, N_SHORT_FAMILIES = 5 };

/* A vocabulary of SMALL_VOCAB tokens, without which llama.cpp opens no file. */
static void write_vocabulary(const char *path) {
    static char texts[SMALL_VOCAB][8];
    const char *tokens_of[SMALL_VOCAB];
    int32_t types[SMALL_VOCAB];
    float scores[SMALL_VOCAB] = {0};
    static unsigned char bytes[1 << 14];
    Gguf gguf = gguf_begin(3);
    for (size_t i = 0; i < SMALL_VOCAB; i++) {
        snprintf(texts[i], sizeof texts[i], i ? i == 1 ? "<0x0A>" : "t%zu" : "<unk>", i);
        tokens_of[i] = texts[i], types[i] = i ? i == 1 ? 6 : 1 : 2;
    }
    gguf_string(&gguf, "general.architecture", "llama");
    gguf_string(&gguf, "tokenizer.ggml.model", "llama");
    gguf_strings(&gguf, "tokenizer.ggml.tokens", tokens_of, SMALL_VOCAB);
    gguf_array(&gguf, "tokenizer.ggml.scores", F32, SMALL_VOCAB, scores, sizeof scores);
    gguf_array(&gguf, "tokenizer.ggml.token_type", I32, SMALL_VOCAB, types, sizeof types);
    size_t n = gguf_write(&gguf, bytes);
    FILE *out = fopen(path, "wb");
    if (!out || fwrite(bytes, 1, n, out) != n || fclose(out) != 0) exit(2);
}

/* A folder of each family becomes a GGUF of 16 bits a weight, with which llama.cpp computes what we do. */
static void test_folders_quantised(void) {
    if (!find_oracle()) SKIP("no llama-quantize in %s (../shared/oracle/README.md)", oracle);
    if (system("python3 -c '' 2>/dev/null") != 0) SKIP("no python3, which makes folders");
    const char *program = getenv("QUANTIZE");
    char folder[300], file[300], vocabulary[300], how[320], command[1400];
    snprintf(folder, sizeof folder, "%s", scratch_file("folder"));
    snprintf(file, sizeof file, "%s", scratch_file("of-folder"));
    snprintf(vocabulary, sizeof vocabulary, "%s", scratch_file("vocabulary"));
    snprintf(how, sizeof how, "-z %s BF16", vocabulary);
    write_vocabulary(vocabulary);
    choose_text(SMALL_VOCAB);
    for (size_t i = 0; i < (getenv("ATTN_LONG_TESTS") ? N_FAMILIES : N_SHORT_FAMILIES); i++) {
        static float logits[N_LOGITS], expected[N_LOGITS];
        const char *name = families[i].name;
        snprintf(command, sizeof command,
                 "rm -rf '%s' && python3 scripts/expect/folders.py tests/data/reference/%s.gguf '%s'", folder,
                 name, folder);
        bool made = system(command) == 0 && quantise(program ? program : "./quantize", how, folder, file);
        CHECK(made, "no BF16 of a folder of %s", name);
        if (!made || !compute(file, kernels_pick("scalar", NULL), logits)) continue;
        bool ran = read_oracle(file, expected);
        CHECK(ran, "llama.cpp does not run the BF16 of %s", name);
        CHECK(!ran || families[i].apart || difference(logits, expected) <= ORACLE_BOUND,
              "%s: off by %.3g from llama.cpp", name, difference(logits, expected));
    }
    snprintf(command, sizeof command, "rm -rf '%s' '%s' '%s'", folder, file, vocabulary);
    CHECK(system(command) == 0, "cannot clean up");
}

int main(void) {
    scratch_begin();
    RUN(test_stock_files);
    RUN(test_folders_quantised);
    scratch_end();
    return test_end();
}
