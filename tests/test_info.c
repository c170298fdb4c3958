/*
 * The words of --info: of models that run (which test_run.sh and the reference files show at length),
 * and above all of right checkpoints that cannot run.
 */
#define _GNU_SOURCE /* open_memstream */

#include "bad.h"

#include "cli/counts.h"
#include "cli/info.h"
#include "cli/notes.h"

/* Gives what print_info prints, in a buffer that the next call writes over; NULL if it fails. */
static const char *info_at(const char *path, const char *vocabulary, Error *error) {
    static char text[1 << 14];
    char *printed = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&printed, &n);
    if (!out) abort();
    bool ok = print_info(out, path, vocabulary, error);
    fclose(out);
    CHECK(n < sizeof text && (ok || n == 0), "%zu bytes", n);
    snprintf(text, sizeof text, "%s", printed);
    free(printed);
    return ok ? text : NULL;
}

static const char *info_of(const char *vocabulary, Error *error) {
    return info_at(scratch_path(), vocabulary, error);
}

/* Whether the texts agree. A line that is to end with "..." may go on in any way. */
static bool agree(const char *text, const char *expected) {
    for (; *expected; text++, expected++) {
        if (strncmp(expected, "...\n", 4) == 0) expected += 3, text += strcspn(text, "\n");
        if (*text != *expected) return false;
    }
    return !*text;
}

/* The lines of the scratch file, but for the first, which must name the file and its format. */
static void expect(Gguf *gguf, const char *expected) {
    Error error = {{0}};
    scratch_write(file, gguf_write(gguf, file));
    const char *text = info_of(NULL, &error), *second = text ? strchr(text, '\n') : NULL;
    CHECK(text != NULL, "%s", error.message);
    if (!second) return;
    size_t n = strlen(scratch_path());
    CHECK(strncmp(text, "file         ", 13) == 0 && strncmp(text + 13, scratch_path(), n) == 0 &&
              strncmp(text + 13 + n, " (GGUF v3, 0.0 MiB)\n", 20) == 0,
          "%s", text);
    CHECK(agree(second + 1, expected), "\n%s---- expected:\n%s", second + 1, expected);
}

static void test_runs(void) {
    Gguf gguf = good_model(LLAMA);
    expect(&gguf, "model        family llama\n"
                  "shape        n_layer 1, n_head 2, n_head_kv 1, d_model 4, d_head 2, d_ff 6, n_vocab 8\n"
                  "context      8 tokens, KV cache 8 bytes a token in F16, 16 in F32, 8 in Q8_0\n"
                  "tokenizer    SentencePiece BPE, 8 tokens, bos 1 (put in front), eos 2\n"
                  "sampling     temp 0.8, top-p 0.95\n"
                  "types        F32 in 11 tensors \n"
                  "\n"
                  "                  parameters           bytes\n"
                  "embedding                 32             128\n"
                  "query                     16              64\n"
                  "key                        8              32\n"
                  "value                      8              32\n"
                  "output                    16              64\n"
                  "up                        24              96\n"
                  "gate                      24              96\n"
                  "down                      24              96\n"
                  "unembedding      = embedding                \n"
                  "norms                     12              48\n"
                  "all                      164             656\n");
}

/* Only some families have these; scripts/expect/reference.py says how their files are made. */
static void test_families(void) {
    static const struct {
        const char *name, *lines;
    } cases[] = {
        {"gpt-oss", "\nwindow       2 of 3 layers see, and keep, the last 5 tokens\n"
                    "experts      2 of 4 for each token, d_ff 12\ntokenizer "},
        {"gemma3-ollama", "\nwindow       2 of 3 layers see, and keep, the last 4 tokens\n"
                          "left out     2 tensors, which read pictures\ntokenizer "},
        {"gemma3", "\nwindow       6 of 7 layers see, and keep, the last 4 tokens\ntokenizer "},
        {"llama-f32", "176 in Q8_0\ntokenizer "},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char path[256];
        Error error = {{0}};
        snprintf(path, sizeof path, "tests/data/reference/%s.gguf", cases[i].name);
        const char *text = info_at(path, NULL, &error);
        CHECK(text && strstr(text, cases[i].lines), "%s: %s", cases[i].name, text ? text : error.message);
    }
}

/* Keys of the family that nobody reads: the first twelve by name. */
static void test_unread_keys(void) {
    static char names[14][16];
    Gguf gguf = good_model(LLAMA);
    for (size_t i = 0; i < 14; i++) {
        snprintf(names[i], sizeof names[i], "llama.odd_%zu", i);
        gguf_u32(&gguf, names[i], 1);
    }
    scratch_write(file, gguf_write(&gguf, file));
    const char *text = info_of(NULL, NULL);
    CHECK(text && strstr(text, "\nnot read     \"llama.odd_0\", \"llama.odd_1\", ") &&
              strstr(text, ", \"llama.odd_11\" and 2 more\ntokenizer "),
          "%s", text ? text : "nothing");
}

/* How the file is sampled from, what came from it, and what is not done; its own words in their visible form. */
static void test_sampling(void) {
    Gguf gguf = good_model(LLAMA);
    Error error = {{0}};
    gguf_f32(&gguf, "general.sampling.temp", 0.5f);
    gguf_string(&gguf, "general.sampling.sequence", "dry;top_k;xtc;temp");
    scratch_write(file, gguf_write(&gguf, file));
    const char *text = info_of(NULL, &error);
    CHECK(text && strstr(text, "\nsampling     temp 0.5 (file), an order of its own (file) "
                               "without dry, xtc\n"),
          "%s", text);
    gguf_u32(&gguf, "general.sampling.mirostat", 1);
    gguf_f32(&gguf, "general.sampling.\x1b[2J", 1);
    gguf_key(&gguf, "attn.sampling.typical_p", BOOL, &(uint8_t){1}, 1);
    scratch_write(file, gguf_write(&gguf, file));
    text = info_of(NULL, &error);
    CHECK(text && strstr(text, " without dry, xtc; not done here, though the file asks for it: Mirostat, "
                               "general.sampling.\\u001b[2J, typical_p\n"),
          "%s", text);
    static const struct {
        const char *order;
        float temperature;
        const char *told;
    } orders[] = {
        {"top_k;top_p", 0.5f, "\nsampling     top-p 0.95, an order of its own (file)\n"}, /* no temperature */
        {"xtc", 0.5f, "\nsampling     temp 0.5 (file), top-p 0.95, the usual order without xtc\n"},
        {"\x1b[2J;temp", 0.5f,
         "\nsampling     temp 0.5 (file), an order of its own (file); not done here, though the file asks for it: "
         "\\u001b[2J\n"},
        {"penalties", 0.5f, "\nsampling     an order of its own (file)\n"}, /* over no token */
        {"temp", 1, "\nsampling     an order of its own (file)\n"},
    };
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        gguf = good_model(LLAMA);
        gguf_f32(&gguf, "general.sampling.temp", orders[i].temperature);
        gguf_string(&gguf, "general.sampling.sequence", orders[i].order);
        gguf_f32(&gguf, "general.sampling.penalty_repeat", 2);
        gguf_u32(&gguf, "general.sampling.penalty_last_n", 0);
        scratch_write(file, gguf_write(&gguf, file));
        text = info_of(NULL, &error);
        CHECK(text && strstr(text, orders[i].told), "%s", text);
    }
    gguf = good_model(LLAMA);
    gguf_f32(&gguf, "general.sampling.temp", 1);
    gguf_f32(&gguf, "general.sampling.top_p", 1);
    scratch_write(file, gguf_write(&gguf, file));
    text = info_of(NULL, &error);
    CHECK(text && strstr(text, "\nsampling     the model's own probabilities\n"), "%s", text);
    SamplingFields fields = {.n_not_done = MAX_NOT_DONE + 3};
    char *printed = NULL;
    size_t n = 0;
    for (size_t i = 0; i < MAX_NOT_DONE; i++) fields.not_done[i] = (String){"k", 1};
    FILE *out = open_memstream(&printed, &n);
    print_not_done(out, &fields);
    fclose(out);
    CHECK(n == 3 * MAX_NOT_DONE - 2 + 11 && strcmp(printed + n - 17, ", k, k and 3 more") == 0, "%s",
          printed);
    free(printed);
}

/* A family that is not here, whose layers differ, with types that are not here either. */
static void test_unsupported(void) {
    static const char *const texts[] = {"a", "b", "c"};
    Gguf gguf = gguf_begin(3);
    gguf_string(&gguf, "general.architecture", "qwen9\x1b[2J");
    gguf_string(&gguf, "general.type", "merge");
    gguf_string(&gguf, "general.name", "Nine \"9\"");
    gguf_u32(&gguf, "qwen9\x1b[2J.block_count", 3);
    gguf_array(&gguf, "qwen9\x1b[2J.attention.head_count", U32, 3, (const uint32_t[]){16, 12, 20}, 12);
    gguf_array(&gguf, "qwen9\x1b[2J.attention.head_count_kv", I32, 2, (const int32_t[]){4, 4}, 8);
    gguf_key(&gguf, "qwen9\x1b[2J.embedding_length", U64, (const uint64_t[]){1ull << 40}, 8);
    gguf_string(&gguf, "qwen9\x1b[2J.attention.key_length", "no number");
    gguf_array(&gguf, "qwen9\x1b[2J.feed_forward_length", I32, 0, NULL, 0);
    gguf_u32(&gguf, "qwen9\x1b[2J.expert_count", 8);
    gguf_u32(&gguf, "qwen9\x1b[2J.expert_used_count", 2);
    gguf_u32(&gguf, "qwen9\x1b[2J.vocab_size", 3);
    gguf_u32(&gguf, "qwen9\x1b[2J.context_length", 32768);
    gguf_string(&gguf, "tokenizer.ggml.model", "gpt2");
    gguf_string(&gguf, "tokenizer.ggml.pre", "qwen9");
    gguf_strings(&gguf, "tokenizer.ggml.tokens", texts, 3);
    gguf_tensor(&gguf, "token_embd.weight", 12, 3, 512)->n_bytes = 6 * 144;
    gguf_tensor(&gguf, "a", 40, 1, 128)->n_bytes = 2 * 36;
    gguf_tensor(&gguf, "b", T_F32, 0, 7);
    gguf_tensor(&gguf, "c", 12, 1, 256)->n_bytes = 144;
    gguf_tensor(&gguf, "d", 28, 0, 5)->n_bytes = 40;
    static const char head[] =
        "model        architecture \"qwen9\\u001b[2J\", type \"merge\", named \"Nine \\\"9\\\"\"\n"
        "shape        n_layer 3, n_head 12 to 20, n_head_kv 4, d_model 1099511627776, n_expert 8, n_expert_used 2, "
        "n_vocab 3\n"
        "context      32768 tokens\n"
        "tokenizer    \"gpt2\", pre \"qwen9\", 3 tokens\n"
        "\n"
        "               tensors      parameters           bytes\n"
        "F32                  1               7              28\n"
        "Q4_K                 2            1792            1008\n"
        "F64                  1               5              40  not supported\n"
        "NVFP4                1             128              72  not supported\n";
    static const char reasons[] =
        "\n"
        "cannot run: architecture 'qwen9\\u001b[2J' is not supported; these are: gpt2, llama, ...\n"
        "cannot run: tokenizer.ggml.pre 'qwen9' is not supported; 'gpt-2', 'llama-bpe', 'qwen2' and many others are\n";
    char expected[2048];
    snprintf(expected, sizeof expected, "%s%s%s", head,
             "all                  5            1932            1148\n", reasons);
    expect(&gguf, expected);

    for (uint32_t i = 0; i < 2; i++) { /* types without a size: their numbers may be any */
        GgufTensor *tensor =
            gguf_tensor(&gguf, i ? "f" : "e", i ? UINT32_MAX : 64, i ? UINT64_MAX : 2, i ? 1 : 5);
        tensor->n_bytes = 32;
        snprintf(expected, sizeof expected,
                 "%sunknown %14u %15s         unknown  not supported\n"
                 "all     %14u %15s            1148  and more\n%s",
                 head, i + 1, i ? "18446744073709551615" : "10", 6 + i, i ? "18446744073709551615" : "1942",
                 reasons);
        expect(&gguf, expected);
    }
}

/* A family that is here, but something in the file that is not. */
static void test_cannot_run(void) {
    static const char shape[] =
        "shape        n_layer 1, n_head 2, d_model 4, d_ff 6\ncontext      8 tokens\n"
        "tokenizer    byte-level BPE (gpt-2), 8 tokens, bos 7 (put in front), eos -1\n";
    char expected[2048];
    Gguf gguf = good_model(GPT2);
    GgufTensor *tensor = gguf_find_tensor(&gguf, "blk.0.ffn_up.weight");
    tensor->type = 99;
    snprintf(
        expected, sizeof expected,
        "model        architecture \"gpt2\"\n%s\n"
        "               tensors      parameters           bytes\n"
        "F32                 15             202             808\n"
        "unknown              1              24         unknown  not supported\n"
        "all                 16             226             808  and more\n\n"
        "cannot run: tensor 'blk.0.ffn_up.weight' has type 99, which is not supported; these are: F32, F16, BF16, "
        "Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4. Get the model in one of them\n",
        shape);
    expect(&gguf, expected);
    gguf.n_tensors = 0;
    snprintf(expected, sizeof expected,
             "model        architecture \"gpt2\"\n%s\n"
             "cannot run: holds a vocabulary only, no weights\n",
             shape);
    expect(&gguf, expected);

    gguf = good_model(GPT2); /* the model is right, and described as one that runs */
    gguf_u32(&gguf, "tokenizer.ggml.bos_token_id", 9);
    scratch_write(file, gguf_write(&gguf, file));
    const char *text = info_of(NULL, NULL);
    CHECK(text && strstr(text, "model        family gpt2\n") &&
              strstr(text, "\ntokenizer    \"gpt2\", 8 tokens\n") &&
              strstr(text,
                     "\n\ncannot run: tokenizer.ggml.bos_token_id is 9, but the vocabulary has 8 tokens\n"),
          "%s", text);

    gguf = gguf_begin(3);
    expect(&gguf,
           "model        no architecture is named\ntokenizer    none in this file; name one with -z\n\n"
           "cannot run: no model in it: metadata key 'general.architecture' is missing\n");
}

/* The file of -z must go with the model; a file that is no checkpoint is an error as ever. */
/* A value that is not of the kind that its key promises is left out; the reason names it. */
static void test_wrong_kinds(void) {
    Error error = {{0}};
    Gguf gguf = good_model(LLAMA);
    gguf_array(&gguf, "tokenizer.ggml.tokens", I32, 1, "1234", 4);
    gguf_string(&gguf, "general.architecture", "unheard-of");
    gguf_u32(&gguf, "general.name", 1);
    gguf_array(&gguf, "unheard-of.attention.head_count", I32, 2, (const int32_t[]){-4, -4}, 8);
    gguf_array(&gguf, "unheard-of.attention.head_count_kv", I32, 2, (const int32_t[]){-4, 2}, 8);
    scratch_write(file, gguf_write(&gguf, file));
    const char *text = info_of(NULL, &error);
    CHECK(
        text &&
            strstr(text,
                   "\nmodel        architecture \"unheard-of\"\nshape        n_head -4, n_head_kv -4 to 2\n"),
        "%s", text ? text : "nothing");
    CHECK(text && strstr(text, "\ntokenizer    \"llama\"\n"), "%s", text ? text : "nothing");
    CHECK(text &&
              strstr(text,
                     "\ncannot run: metadata key 'tokenizer.ggml.tokens' is of type array of int32, expected "
                     "array of string\n"),
          "%s", text ? text : "nothing");
    gguf_drop(&gguf, gguf_find(&gguf, "tokenizer.ggml.model"));
    gguf_string(&gguf, "tokenizer.huggingface.json", "{");
    scratch_write(file, gguf_write(&gguf, file));
    text = info_of(NULL, &error);
    CHECK(text && strstr(text, "\ntokenizer    tokenizer.json\n") &&
              strstr(text, "\ncannot run: tokenizer.json: "),
          "%s", text ? text : "nothing");
}

/* A model's weights counted one by one, and from its shape alone. */
static void test_counts(void) {
    for (int which = 0; which < 2; which++) {
        Gguf gguf = good_model((Which)which);
        if (which) gguf_tensor(&gguf, "output.weight", T_F32, N_VOCAB, D_MODEL);
        Model *model = accept(&gguf);
        if (!model) return;
        Count counts[N_COUNTS], by_shape[N_COUNTS];
        count_weights(model, counts);
        count_config(model_config(model), DTYPE_F32, by_shape);
        for (CountKind kind = 0; kind < N_COUNTS; kind++)
            CHECK(counts[kind].parameters == by_shape[kind].parameters &&
                      counts[kind].bytes == by_shape[kind].bytes,
                  "%s, %s: %g and %g", families[which], count_name(kind), (double)counts[kind].parameters,
                  (double)by_shape[kind].parameters);
        CHECK(counts[COUNT_UNEMBEDDING].parameters == (which ? N_VOCAB * D_MODEL : 0),
              "the output's own matrix");
        model_close(model);
    }
}

static void test_refused(void) {
    Error error = {{0}};
    Gguf gguf = good_model(LLAMA);
    n_file = gguf_write(&gguf, file);
    scratch_write(file, n_file);
    CHECK(info_of("tests/absent", &error) == NULL && strstr(error.message, "tests/absent: cannot open"), "%s",
          error.message);
    CHECK(info_of("tests/data/reference/gpt2-f32.gguf", &error) == NULL &&
              strstr(error.message, "embeds 8 tokens, but the vocabulary of tests/data"),
          "%s", error.message);
    CHECK(info_of(scratch_path(), &error) != NULL, "%s", error.message);
    scratch_write(file, n_file / 2);
    CHECK(info_of(NULL, &error) == NULL, "half a file");
    check_message(&error, scratch_path(), "is it cut?", "half a file");
}

int main(void) {
    scratch_begin();
    RUN(test_runs);
    RUN(test_families);
    RUN(test_unread_keys);
    RUN(test_sampling);
    RUN(test_unsupported);
    RUN(test_cannot_run);
    RUN(test_wrong_kinds);
    RUN(test_counts);
    RUN(test_refused);
    scratch_end();
    return test_end();
}
