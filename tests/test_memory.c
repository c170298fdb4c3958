/*
 * Each allocation fails in turn (tests/faults.c does it), once or from there on, while what strangers wrote is read: tokenizer.json
 * and what GGUF can say of it, folders of vocabularies and of weights, chat templates, patterns, models of every kind of layer
 * with their way back. What is read says that
 * memory is lacking, or gives what it gives otherwise. Memory that is not freed is a sanitizer's find (make sanitize).
 *
 * Each place in the program that allocates is tried once. Besides, the short form tries a few allocations of each text, the
 * long one (ATTN_LONG_TESTS=1) nearly all of the first hundred.
 */
#include "attn.h"
#include "checkpoint/checkpoint.h"
#include "cli/input.h"
#include "jinja/template.h"
#include "layers/kv_cache.h"
#include "open.h"
#include "regex/pattern.h"
#include "tests/faults.h"
#include "tokenizer.h"
#include "unicode/normalize.h"
#include "vocab/vocab_keys.h"

#include "gguf.h"

#include <errno.h>

enum { MAX_MADE = 1 << 18 };

/* The outcome of a reading. */
typedef struct Made {
    char bytes[MAX_MADE];
    size_t n;
} Made;

static void add(Made *made, const void *bytes, size_t n) {
    size_t room = sizeof made->bytes - made->n;
    if (n > room) n = room;
    if (n) memcpy(made->bytes + made->n, bytes, n);
    made->n += n;
}

/* A reading of a text or a path: false with an error, or what it gives. */
typedef bool Reading(String what, Made *made, Error *error);

static bool read_vocabulary(const Checkpoint *checkpoint, Made *made, Error *error) {
    static const char text[] =
        "A small engine, \xe2\x96\x81the caf\xc3\xa9  e\xcc\x81 <s>12</s> \xef\xac\x81 \xf0\x9f\x98\x80\xff \xed\x95\x9c\xea\xb5\xad\n";
    char marks[sizeof text] = {0};
    memset(marks + 10, 1, 20);
    Tokens tokens = {0};
    TextBuffer shown = {0};
    Tokenizer *tokenizer = tokenizer_new(checkpoint, error);
    bool ok =
        tokenizer &&
        tokenizer_encode(tokenizer, text, sizeof text - 1, ENCODE_SPECIAL | ENCODE_ENDS, &tokens, error) &&
        tokenizer_encode_marked(tokenizer, (String){text, sizeof text - 1}, marks, &tokens, error);
    if (ok) {
        Detokenizer detokenizer = detokenizer_begin(tokenizer, true);
        for (size_t i = 0; ok && i < tokens.n; i++)
            ok = detokenizer_push(&detokenizer, tokens.ids[i], &shown);
        ok = (ok && detokenizer_end(&detokenizer, &shown)) || error_set(error, "not enough memory");
    }
    if (ok) add(made, tokens.ids, tokens.n * sizeof *tokens.ids), add(made, shown.data, shown.n);
    free(shown.data);
    tokens_free(&tokens);
    tokenizer_free(tokenizer);
    return ok;
}

/* A folder: what the checkpoint has, and its vocabulary, if any. */
static bool read_folder(String path, Made *made, Error *error) {
    Checkpoint *checkpoint = checkpoint_open(path.data, error);
    if (!checkpoint) return false;
    for (size_t i = 0; i < checkpoint_n_values(checkpoint); i++) {
        Value value = checkpoint_value(checkpoint, i);
        add(made, value.key.data, value.key.n), add(made, value.data, value.n_bytes);
    }
    for (size_t i = 0; i < checkpoint_n_tensors(checkpoint); i++) {
        const Tensor *tensor = checkpoint_tensor(checkpoint, i);
        add(made, tensor->name.data, tensor->name.n), add(made, tensor->dims, sizeof tensor->dims);
    }
    bool ok = !checkpoint_has_vocabulary(checkpoint) || read_vocabulary(checkpoint, made, error);
    checkpoint_close(checkpoint);
    return ok;
}

/* A vocabulary without a model beside it. */
static bool read_words(String path, Made *made, Error *error) {
    Checkpoint *checkpoint = checkpoint_open_vocabulary(path.data, error);
    bool ok = checkpoint && read_vocabulary(checkpoint, made, error);
    checkpoint_close(checkpoint);
    return ok;
}

/* GGUF's keys of the folder's tokenizer.json. */
static bool read_keys(String path, Made *made, Error *error) {
    VocabKeys keys = {0};
    Checkpoint *checkpoint = checkpoint_open(path.data, error);
    bool ok = checkpoint && vocab_keys_make(&keys, checkpoint, error);
    for (size_t i = 0; i < keys.n; i++) add(made, keys.values[i].data, keys.values[i].n_bytes);
    vocab_keys_free(&keys);
    checkpoint_close(checkpoint);
    return ok;
}

static Json *context;

static bool read_template(String source, Made *made, Error *error) {
    TextBuffer out = {0}, marks = {0};
    Template *template = template_parse(source, error);
    bool ok = template && template_render(template, context, 1721894400, &out, &marks, error);
    add(made, out.data, out.n), add(made, marks.data, marks.n);
    template_free(template);
    free(out.data), free(marks.data);
    return ok;
}

static bool read_pattern(String expression, Made *made, Error *error) {
    static const char text[] = "The 1st caf\xc3\xa9's \xe4\xb8\xad\xe6\x96\x87, it's  OK\n\n <|x|> 12345";
    static uint16_t states[sizeof text];
    Pattern *pattern = pattern_new(expression, error);
    if (!pattern) return false;
    Matches matches = pattern_begin(pattern, text, sizeof text - 1, states);
    for (size_t start, end; pattern_next(&matches, &start, &end);)
        add(made, &start, sizeof start), add(made, &end, sizeof end);
    pattern_free(pattern);
    return true;
}

static bool at_first_layer(void *user, AttnSite site, size_t layer, size_t head) {
    (void)user, (void)head;
    return site == ATTN_RESID_PRE && layer == 0;
}

static void add_gradient(void *user, const AttnActivation *seen, float *gradient) {
    add(user, gradient, seen->n_rows * seen->n_cols * sizeof *gradient);
}

/* A model, its session, a copy of that, logits, and the gradient of one. */
static bool run_model(String path, Made *made, Error *error) {
    static const int32_t tokens[] = {3, 1, 4, 1, 5, 9, 2, 6};
    enum { N = sizeof tokens / sizeof *tokens };
    const AttnTerm term = {N - 1, 5, false, 1};
    const AttnGradientProbe probe = {made, at_first_layer, add_gradient};
    float logits[300];
    double metric;
    AttnError inner = {""};
    AttnModel *model =
        attn_model_open(path.data, &(AttnModelOptions){.tokenizer = "tests/data/study/letters.gguf"}, &inner);
    AttnSession *session =
        model ? attn_session_new(model, &(AttnSessionOptions){.n_ctx = 24, .n_threads = 1}, &inner) : NULL;
    bool ok =
        session && attn_model_shape(model).n_vocab <= 300 && attn_feed(session, tokens, N, logits, 1, &inner);
    if (ok) add(made, logits, attn_model_shape(model).n_vocab * sizeof *logits);
    AttnSession *fork = ok ? attn_session_fork(session, NULL, &inner) : NULL;
    ok = fork && attn_gradient(fork, tokens, N, &term, 1, &probe, &metric, &inner);
    if (!ok) error_set(error, "%s", inner.message);
    attn_session_free(fork);
    attn_session_free(session);
    attn_model_close(model);
    return ok;
}

static Made usual, made;
static size_t n_failed, n_places;

/* Whether the call was reached. */
static bool try_call(Reading *reading, String what, const Error *refused, size_t call, const char *more) {
    char fault[32];
    Error error = {{0}};
    made.n = 0;
    snprintf(fault, sizeof fault, "malloc:%zu%s", call, more);
    faults_arm(fault);
    bool ok = reading(what, &made, &error), struck = faults_arm("") > 0;
    if (ok)
        CHECK(!refused->message[0] && made.n == usual.n && memcmp(made.bytes, usual.bytes, made.n) == 0,
              "%.*s, %s: %zu bytes, not %zu", (int)what.n, what.data, fault, made.n, usual.n);
    else
        CHECK(strstr(error.message, "memory") || strcmp(error.message, refused->message) == 0,
              "%.*s, %s: '%s'", (int)what.n, what.data, fault, error.message);
    n_failed += struck;
    return struck;
}

static void try_all(Reading *reading, String what) {
    static int is_long = -1;
    Error error = {{0}};
    usual.n = 0;
    if (is_long < 0) is_long = getenv("ATTN_LONG_TESTS") != NULL;
    faults_arm("");
    if (reading(what, &usual, &error)) error.message[0] = '\0';
    size_t n;
    const unsigned long *first = faults_first_calls(&n);
    unsigned long *places = calloc(n + 1, sizeof *places);
    for (size_t i = 0; places && i < n; i++) places[i] = first[i];
    for (size_t i = 0; places && i < n; i++) try_call(reading, what, &error, places[i], "");
    free(places);
    n_places += n;
    size_t call = 1; /* ever fewer of them, for what is done thousands of times is much the same */
    for (; try_call(reading, what, &error, call, ""); call += 1 + call / (is_long ? 64 : 4))
        if (is_long || call == 1) try_call(reading, what, &error, call, "+");
}

static void test_tokenizer_json(void) {
    FILE *file = fopen("tests/data/tokenizer/json.cases", "rb");
    char *line = NULL;
    size_t room = 0, n_read = 0;
    CHECK(file, "tests/data/tokenizer/json.cases is missing");
    for (ssize_t n; file && (n = getline(&line, &room, file)) > 0;) {
        if (strncmp(line, "tokenizer ", 10) != 0) continue;
        scratch_put("tokenizer.json", line + 10, (size_t)n - 11);
        try_all(read_words, string_from(scratch_folder));
        try_all(read_keys, string_from(scratch_folder));
        n_read++;
    }
    CHECK(n_read == 24, "%zu tokenizers", n_read);
    if (file) fclose(file);
    free(line);
}

static void test_folders(void) {
    static const char *const paths[] = {"tests/data/torch/opt", "tests/data/torch/gpt_neo"};
    static const char *const words[] = {"tests/data/tokenizer/folders/bytes",
                                        "tests/data/tokenizer/folders/plain",
                                        "tests/data/tokenizer/folders/fallback"};
    for (size_t i = 0; i < 2; i++) try_all(read_folder, string_from(paths[i]));
    for (size_t i = 0; i < 3; i++) try_all(read_words, string_from(words[i]));
}

/* Each text of a folder is read in one piece; what cannot be read is said. */
static void test_reads(void) {
    const char *const paths[] = {"tests/data/torch/opt", "tests/data/tokenizer/folders/fallback",
                                 scratch_folder};
    for (size_t i = 0; i < 3; i++)
        for (size_t call = 1, struck = 1; struck; call++) {
            char fault[32];
            Error error = {{0}};
            snprintf(fault, sizeof fault, "read:%zu", call);
            faults_arm(fault);
            Checkpoint *checkpoint = checkpoint_open(paths[i], &error);
            struck = faults_arm("");
            CHECK(struck ? !checkpoint && strstr(error.message, strerror(EIO)) : checkpoint && call > 1,
                  "%s, %s: %s", paths[i], fault, error.message);
            checkpoint_close(checkpoint);
        }
}

static void test_models(void) {
    static const char *const names[] = {"qwen35", "qwen2moe", "gemma3", "bloom", "olmo", "llama-longrope"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64];
        int n = snprintf(path, sizeof path, "tests/data/reference/%s.gguf", names[i]);
        try_all(run_model, (String){path, (size_t)n});
        CHECK(usual.n > 600, "%s: %zu bytes", names[i], usual.n);
    }
}

/* Folders whose weights are turned or split among experts, or whose config.json makes tensors of its own. Quotes are "'". */
static void test_made_folders(void) {
    static const struct {
        const char *config, *header;
        size_t n_data;
    } folders[] = {
        {"{'model_type': 'gpt_oss', 'hidden_size': 4, 'num_hidden_layers': 2, 'vocab_size': 3, 'num_attention_heads': 2}",
         "{'model.layers.0.mlp.experts.down_proj_blocks': {'dtype': 'U8', 'shape': [2, 2, 1, 16], 'data_offsets': [0, "
         "64]}, 'model.layers.0.mlp.experts.down_proj_scales': {'dtype': 'U8', 'shape': [2, 2, 1], 'data_offsets': [64, "
         "68]}}",
         68},
        {"{'model_type': 'llama', 'hidden_size': 8, 'num_hidden_layers': 1, 'num_attention_heads': 1, 'rope_scaling': "
         "{'rope_type': 'llama3', 'factor': 8, 'original_max_position_embeddings': 64}}",
         "{'model.norm.weight': {'dtype': 'F32', 'shape': [8], 'data_offsets': [0, 32]}}", 32},
        {"{'model_type': 'gpt2', 'n_embd': 4, 'n_layer': 1, 'n_head': 2, 'vocab_size': 3}",
         "{'h.0.mlp.c_fc.weight': {'dtype': 'F32', 'shape': [4, 16], 'data_offsets': [0, 256]}}", 256}};
    unlink(scratch_file("tokenizer.json"));
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char config[512], tensors[1024] = {0};
        uint64_t n = (uint64_t)snprintf(tensors + 8, sizeof tensors - 8, "%s", folders[i].header);
        memcpy(tensors, &n, 8);
        snprintf(config, sizeof config, "%s", folders[i].config);
        for (char *at = config; (at = strchr(at, '\''));) *at = '"';
        for (char *at = tensors + 8; (at = strchr(at, '\''));) *at = '"';
        scratch_put("config.json", config, strlen(config));
        scratch_put("model.safetensors", tensors, 8 + (size_t)n + folders[i].n_data);
        try_all(read_folder, string_from(scratch_folder));
        CHECK(usual.n > 100, "%s: %zu bytes", config, usual.n);
    }
    unlink(scratch_file("config.json"));
    unlink(scratch_file("model.safetensors"));
}

/* llm.c's files: a model of one layer, and the bytes with two tokens more. */
static void test_llmc(void) {
    enum { D = 2, N_WEIGHTS = 4 * D + 4 * D + 13 * D + 12 * D * D + 2 * D };
    static const int32_t model[256] = {20240326, 3, 4, 4, 1, 1, D, 4}, words[256] = {20240328, 2, 258, 257};
    unsigned char file[1024 + 4 * N_WEIGHTS] = {0}, vocabulary[1024 + 2 * 256 + 9],
                                  *at = vocabulary + sizeof words;
    memcpy(file, model, sizeof model);
    scratch_write(file, sizeof file);
    try_all(read_folder, string_from(scratch_path()));
    CHECK(usual.n > 500, "%zu bytes", usual.n);
    memcpy(vocabulary, words, sizeof words);
    for (int byte = 0; byte < 256; byte++) *at++ = 1, *at++ = (unsigned char)byte;
    memcpy(at, "\2ab\5<end>", 9);
    scratch_write(vocabulary, sizeof vocabulary);
    try_all(read_words, string_from(scratch_path()));
    CHECK(usual.n > 100, "%zu bytes", usual.n);
}

static void test_templates(void) {
    Error error = {{0}};
    TextBuffer text = {0};
    bool ok = read_text("tests/data/templates/cases.json", 1 << 20, &text, &error);
    Json *cases = ok ? json_take(text.data, text.n, &error) : NULL;
    CHECK(cases, "%s", error.message);
    if (!cases) return;
    context = (Json *)(uintptr_t)json_item(cases, 0);
    /* Values lie in blocks: a text in front of them moves what does not fit into the first. */
    size_t step = getenv("ATTN_LONG_TESTS") ? 1024 : 2048;
    for (size_t i = 1; i < cases->n; i++)
        for (size_t before = 0; before < 4096; before += step) {
            char source[1024];
            String given = json_string(json_item(json_item(cases, i), 0));
            int n = snprintf(source, sizeof source, "{%% set z = 'x' * %zu %%}%.*s", before, (int)given.n,
                             given.data);
            try_all(read_template, (String){source, (size_t)n});
        }
    context = NULL;
    json_free(cases);
}

static void test_patterns(void) {
    static const char *const patterns[] = {
        "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        "(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}|(?<=x)y|(?<!\\d)st\\b|[[a-f]&&[^c]]{2,}?|\\A.|.\\z|(a|b)*",
        "\\b\\w+\\b|$|^x|\\A\\s|(?i:[a-kS]k)|\\P{Lu}{2}|\\p{Script=Han}|[^\\S\\n]*+|\\d{2,4}?|[\\d&&[1-5]]|x?+y",
    };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        try_all(read_pattern, string_from(patterns[i]));
    /* Tree and nodes grow by doubling, from 64 on: groups of nothing in front, or letters behind, move what does not fit. */
    static const char *const tails[] = {"\\b", "$", "(?=a)b{2,3}+", "c*+", "(?:ab?)*|d", "(?i:[ks])*"};
    size_t step = getenv("ATTN_LONG_TESTS") ? 1 : 4;
    for (size_t before = 48; before < 64; before += step)
        for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
            char expression[128];
            size_t n = before % 2;
            memcpy(expression, "x", n);
            for (size_t k = 0; k < before / 2; k++, n += 2) memcpy(expression + n, "()", 2);
            n += (size_t)sprintf(expression + n, "%s", tails[i]);
            try_all(read_pattern, (String){expression, n});
            n = (size_t)sprintf(expression, "%sa{%zu}", tails[i], before);
            try_all(read_pattern, (String){expression, n});
        }
}

/* Macros in memory that is full at one of them, whatever lies before. */
static void test_macros(void) {
    Json *nothing = json_parse("{}", 2, &(Error){{0}});
    context = nothing;
    for (size_t before = 0; before < 512; before += 16) {
        char source[256];
        int n = snprintf(
            source, sizeof source,
            "{%% set z = 'x' * %zu %%}{%% for i in range(20) %%}{%% macro m(a) %%}{{ a }}{%% endmacro "
            "%%}{%% endfor %%}{{ m(1) }}",
            before);
        try_all(read_template, (String){source, (size_t)n});
    }
    context = NULL;
    json_free(nothing);
}

static Mappings *mappings;

static bool read_decomposed(String text, Made *to, Error *error) {
    TextBuffer out = {0};
    bool ok =
        normalize_form(mappings, FORM_NFD, text.data, text.n, &out) || error_set(error, "not enough memory");
    if (ok) add(to, out.data, out.n);
    free(out.data);
    return ok;
}

/* Syllables that become two or three letters; memory grows at the first, the second and the third of one. */
static void test_syllables(void) {
    static const size_t n_letters[] = {80, 94, 119};
    mappings = mappings_new();
    for (size_t k = 0; k < 3; k++) {
        char text[3 * 40];
        for (size_t i = 0; i < 40; i++) { /* U+AC01 has three, U+AC00 two */
            bool is_long = k == 1 ? i % 3 == 0 : k == 2 && i > 0;
            memcpy(text + 3 * i, is_long ? "\xea\xb0\x81" : "\xea\xb0\x80", 3);
        }
        try_all(read_decomposed, (String){text, sizeof text});
        CHECK(usual.n == 3 * n_letters[k], "%zu bytes", usual.n);
    }
    free(mappings);
}

/* Two caches of one beginning, whose memory is one where the system can; else it is copied. */
static void test_shared_caches(void) {
    enum { N = 2 * KEY_TILE + 3, HEADS = 2, D = 64 };
    static const char *const faults[] = {"",         "malloc:1", "ftruncate:1", "pwrite:1",
                                         "pwrite:3", "mmap:1",   "mmap:2"};
    static float k[N * HEADS * D], values[2][N * D];
    const Kernels *kernels = kernels_pick(NULL, NULL);
    Error error = {{0}};
    for (size_t i = 0; i < N * HEADS * D; i++) k[i] = (float)(i % 97) - 48;
    for (size_t i = 0; i < 2 * sizeof faults / sizeof *faults; i++) {
        KvCache from = {0}, to = {0};
        size_t n_ctx = i % 2 ? 2 * N : N;
        CHECK(kv_cache_open(&from, DTYPE_F32, HEADS, D, N, kernels, &error) &&
                  kv_cache_open(&to, DTYPE_F32, HEADS, D, n_ctx, kernels, &error),
              "%s", error.message);
        for (size_t head = 0; head < HEADS; head++)
            kv_store(&from, head, 0, k + head * D, k + head * D, HEADS * D, N);
        faults_arm(faults[i / 2]);
        kv_cache_share(&to, &from, N);
        faults_arm("");
        const bool tailless =
            strcmp(faults[i / 2], "mmap:2") == 0; /* of the first, which is shared nevertheless */
        CHECK(!to.share || i == 0 || tailless, "%s: shared", faults[i / 2]);
        CHECK(!from.tail || !tailless, "a tail without memory");
        for (size_t head = 0; head < HEADS; head++) {
            kv_values(&from, head, N, values[0]);
            kv_values(&to, head, N, values[1]);
            CHECK(values[0][3] == k[head * D + 3] && memcmp(values[0], values[1], sizeof values[0]) == 0,
                  "%s, a context of %zu: head %zu", faults[i / 2], n_ctx, head);
        }
        kv_cache_close(&from);
        kv_cache_close(&to);
    }
    KvCache none[2] = {{.kernels = kernels}, {.kernels = kernels}}; /* no layer has heads */
    kv_cache_share(&none[0], &none[1], N);
    CHECK(!none[0].share && !none[0].tiles, "a share of nothing");
}

int main(void) {
    scratch_begin();
    RUN(test_tokenizer_json);
    RUN(test_folders);
    RUN(test_reads);
    RUN(test_made_folders);
    RUN(test_llmc);
    RUN(test_models);
    RUN(test_templates);
    RUN(test_macros);
    RUN(test_syllables);
    RUN(test_shared_caches);
    RUN(test_patterns);
    scratch_end();
    CHECK(n_failed > 1000, "%zu allocations failed", n_failed);
    printf("%zu allocations failed, at %zu places\n", n_failed, n_places);
    return test_end();
}
