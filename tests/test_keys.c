/*
 * Keys of GGUF, where files differ from what llama.cpp's converter writes today, or hold what nobody obeys. Logits of
 * such files against float64 are in test_reference; here is what the keys become.
 */
#include "bad.h"

#include "vocabulary.h"

static Model *open_scratch(Gguf *gguf, Error *error) {
    scratch_write(file, gguf_write(gguf, file));
    return model_open(scratch_path(), error);
}

static Model *open_reference(const char *name) {
    char path[128];
    Error error = {{0}};
    snprintf(path, sizeof path, "tests/data/reference/%s.gguf", name);
    Model *model = model_open(path, &error);
    CHECK(model, "%s", error.message);
    return model;
}

/* Ignored, since llama.cpp ignores them, and told. What informs is not told, nor what asks for nothing. */
static void test_unread(void) {
    static const char *const unread[] = {"llama.use_parallel_residual", "llama.rope.scaling.yarn_attn_factor",
                                         "llama.attn_logit_softcapping", "llama.rope.global.base",
                                         "llama.classes"};
    Error error = {{0}};
    Gguf gguf = good_model(LLAMA);
    gguf_key(&gguf, unread[0], BOOL, &(uint32_t){1}, 1);
    gguf_f32(&gguf, unread[1], 0.5F);
    gguf_f32(&gguf, unread[2], 30);
    gguf_f32(&gguf, unread[3], 30);
    gguf_strings(&gguf, unread[4], (const char *const[]){""}, 1);
    gguf_f32(&gguf, "llama.final_logit_softcapping", 0);
    gguf_u32(&gguf, "llama.vocab_size", 8);
    gguf_u32(&gguf, "llamas.any", 8);
    gguf_u32(&gguf, "llama", 8);
    Model *model = open_scratch(&gguf, &error);
    CHECK(model, "%s", error.message);
    const Config *config = model ? model_config(model) : NULL;
    CHECK(!config || config->n_unread == COUNT(unread), "%zu keys", config->n_unread);
    for (size_t i = 0; config && i < COUNT(unread) && i < config->n_unread; i++)
        CHECK(string_equals(config->unread[i], unread[i]), "%.*s", (int)config->unread[i].n,
              config->unread[i].data);
    CHECK(!config || (!config->parallel_residual && config->score_cap == 0), "a key was obeyed");
    model_close(model);
}

/* More than are named. */
static void test_many_unread(void) {
    static char names[MAX_UNREAD + 3][24];
    Error error = {{0}};
    Gguf gguf = good_model(LLAMA);
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(names[i], sizeof names[i], "llama.strange.%zu", i);
        gguf_u32(&gguf, names[i], 1);
    }
    Model *model = open_scratch(&gguf, &error);
    CHECK(model && model_config(model)->n_unread == COUNT(names), "%s", error.message);
    model_close(model);
}

static void test_windows(void) {
    Model *model = open_reference("gemma2-june");
    if (model)
        CHECK(model_config(model)->window == 4096 && config_is_local(model_config(model), 0) &&
                  !config_is_local(model_config(model), 1),
              "%zu", model_config(model)->window);
    model_close(model);
}

/* Layers may be told by bools or by integers of 0 and 1, and by nothing else. */
static void test_flags(void) {
    static const struct {
        uint32_t element;
        unsigned char bytes[8];
        size_t n_bytes;
        bool ok;
    } flags[] = {
        {BOOL, {1}, 1, true},          {U8, {1}, 1, true},
        {I32, {1, 0, 0, 0}, 4, true},  {U64, {1}, 8, true},
        {I32, {2, 0, 0, 0}, 4, false}, {I32, {1, 1, 0, 0}, 4, false},
        {F32, {0, 0, 0, 0}, 4, false}, {BOOL, {2}, 1, false},
        {U16, {0, 1}, 2, false},       {F64, {0}, 8, false},
    };
    for (size_t i = 0; i < COUNT(flags); i++) {
        Error error = {{0}};
        Gguf gguf = good_model(LLAMA);
        gguf_u32(&gguf, "llama.attention.sliding_window", 4);
        gguf_array(&gguf, "llama.attention.sliding_window_pattern", flags[i].element, 1, flags[i].bytes,
                   flags[i].n_bytes);
        Model *model = open_scratch(&gguf, &error);
        CHECK((model != NULL) == flags[i].ok, "%zu: %s", i, error.message);
        CHECK(!model || config_is_local(model_config(model), 0), "%zu", i);
        CHECK(model || strstr(error.message, "expected array of bool"), "%s", error.message);
        model_close(model);
    }
}

/* θ, ε, and how far positions are stretched, of Gemma 3 as Ollama first wrote it. */
static void test_ollama(void) {
    Model *model = open_reference("gemma3-ollama");
    if (!model) return;
    const Config *config = model_config(model);
    CHECK(config->rope.base == 300 && config->local_rope.base == 20, "%g %g", config->rope.base,
          config->local_rope.base);
    CHECK(config->rope.scale == 8 && config->local_rope.scale == 1, "%g %g", config->rope.scale,
          config->local_rope.scale);
    CHECK(config->norm_eps == 1e-6F, "%g", (double)config->norm_eps);
    CHECK(config->n_unread == 0, "%.*s", (int)config->unread[0].n, config->unread[0].data);
    model_close(model);
    model = open_reference("gemma3"); /* llama.cpp's converter */
    CHECK(!model || (model_config(model)->rope.base == 1e6 && model_config(model)->local_rope.base == 1e4),
          "θ");
    model_close(model);
}

/* Lists n more tokens than good_model has. */
static void add_tokens(Gguf *gguf, const int32_t *types, size_t n) {
    static const char *const texts[] = {"<x>", "<y>"};
    const uint64_t all = N_VOCAB + n;
    const float score = 0;
    GgufKey *keys[] = {gguf_find(gguf, "tokenizer.ggml.tokens"), gguf_find(gguf, "tokenizer.ggml.token_type"),
                       gguf_find(gguf, "tokenizer.ggml.scores")};
    for (size_t i = 0; i < COUNT(keys); i++) memcpy(keys[i]->value + sizeof(uint32_t), &all, sizeof all);
    for (size_t i = 0; i < n; i++) {
        gguf_put_string(keys[0], texts[i]);
        gguf_put(keys[1], &types[i], sizeof types[i]);
        gguf_put(keys[2], &score, sizeof score);
    }
}

/* Tokens that were added for a larger model have no row, and are left out; ordinary ones may not lack theirs. */
static void test_more_tokens(void) {
    static const int32_t types[][2] = {{4, 3}, {4, 4}, {1, 4}, {4, 1}};
    for (size_t i = 0; i < COUNT(types); i++) {
        Error error = {{0}};
        Gguf gguf = good_model(LLAMA);
        add_tokens(&gguf, types[i], 2);
        Model *model = open_scratch(&gguf, &error);
        CHECK(model, "%s", error.message);
        Tokenizer *tokenizer = model ? tokenizer_new(model_checkpoint(model), &error) : NULL;
        CHECK(tokenizer, "%s", error.message);
        if (tokenizer)
            CHECK(vocabulary_fits(model, tokenizer, NULL, &error) == (i < 2), "%zu: %s", i, error.message);
        tokenizer_free(tokenizer);
        model_close(model);
    }
}

/* A byte token without a row of the embedding stays, as ordinary ones do. */
static void test_byte_behind(void) {
    Error error = {{0}};
    Gguf gguf = good_model(LLAMA);
    add_tokens(&gguf, (const int32_t[]){4, 6}, 2);
    Model *model = open_scratch(&gguf, &error);
    Tokenizer *tokenizer = model ? tokenizer_new(model_checkpoint(model), &error) : NULL;
    CHECK(model && !tokenizer && strstr(error.message, "byte token 9 is named"), "%s", error.message);
    tokenizer_free(tokenizer);
    model_close(model);
}

int main(void) {
    scratch_begin();
    RUN(test_unread);
    RUN(test_many_unread);
    RUN(test_windows);
    RUN(test_flags);
    RUN(test_ollama);
    RUN(test_more_tokens);
    RUN(test_byte_behind);
    scratch_end();
    return test_end();
}
