/*
 * selfcheck's own way through the engine, which no line that it prints tells: what it runs again it runs from the middle
 * layer, so that keys and values of the layers below are those of the run before. And that it fails where this goes wrong.
 */
#define _GNU_SOURCE /* open_memstream */

#include "test.h"
#include "views/view.h"

/* The layers that it was asked to run again from. */
static size_t layers[8], n_layers;
static float spoil; /* is added to the first logit of such a run */

bool __real_session_resume(Session *session, size_t layer, const float *resid, size_t n, float *logits,
                           size_t n_logits, Error *error);
bool __wrap_session_resume(Session *session, size_t layer, const float *resid, size_t n, float *logits,
                           size_t n_logits, Error *error);
bool __wrap_session_resume(Session *session, size_t layer, const float *resid, size_t n, float *logits,
                           size_t n_logits, Error *error) {
    if (n_layers < sizeof layers / sizeof *layers) layers[n_layers++] = layer;
    bool ok = __real_session_resume(session, layer, resid, n, logits, n_logits, error);
    if (ok && n_logits > 0) *logits += spoil;
    return ok;
}

static void check_model(const char *path, const char *vocabulary, size_t middle) {
    char *argv[] = {"selfcheck", "--json", "-p", "a cat", NULL}, *text = NULL;
    size_t n;
    Error error = {{0}};
    Checkpoint *letters = NULL;
    OpenModel opened = {.path = path, .out = open_memstream(&text, &n)};
    opened.threads = threads_new(2, &error);
    opened.model = model_open(path, &error);
    opened.tokenizer =
        opened.model ? tokenizer_open(vocabulary, model_checkpoint(opened.model), &letters, &error) : NULL;
    if (!opened.out || !opened.threads || !opened.tokenizer) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    n_layers = 0;
    int code = view_command(&view_selfcheck, &opened, 4, argv, &error);
    fclose(opened.out);
    if (spoil == 0)
        CHECK(code == 0 && strstr(text, "\"passed\": true}"), "%s: %s %s", path, text, error.message);
    else
        CHECK(code == 1 && strstr(text, "\"passed\": false}") && strstr(error.message, "the check '") &&
                  strstr(error.message, "' failed: ") && strstr(error.message, " is allowed"),
              "%s: %d %s", path, code, error.message);
    CHECK(n_layers == 1 && *layers == middle, "%s: %zu times, first from layer %zu", path, n_layers, *layers);
    free(text);
    tokenizer_free(opened.tokenizer);
    checkpoint_close(letters);
    model_close(opened.model);
    threads_free(opened.threads);
}

static void test_from_the_middle(void) {
    check_model("tests/data/reference/gpt2-f32.gguf", NULL, 1);       /* of 2 */
    check_model("tests/data/reference/llama-f32-rope.gguf", NULL, 1); /* of 3 */
    check_model("tests/data/reference/qwen35.gguf", "tests/data/study/letters.gguf", 2);
}

static void test_failure(void) {
    spoil = 1;
    check_model("tests/data/reference/gpt2-f32.gguf", NULL, 1);
    spoil = 0;
}

int main(void) {
    RUN(test_from_the_middle);
    RUN(test_failure);
    return test_end();
}
