/*
 * What a person says steers nothing, whatever it looks like; and run --chat on a terminal, where reasoning is dim and Ctrl-C
 * ends an answer. The model there is a chain made here, which says after each token always the same one.
 */
#include "chain.h"

#include "tokenizer.h"

/* ---- Words from outside ---- */

static Tokens encode(const Tokenizer *tokenizer, const char *text, size_t n, unsigned flags) {
    Tokens tokens = {0};
    Error error = {{0}};
    CHECK(tokenizer_encode(tokenizer, text, n, flags, &tokens, &error), "%s", error.message);
    return tokens;
}

static bool same(const Tokens *a, const Tokens *b) {
    return a->n == b->n && (a->n == 0 || memcmp(a->ids, b->ids, a->n * sizeof *a->ids) == 0);
}

static size_t count(const Tokens *tokens, int32_t id) {
    size_t n = 0;
    for (size_t i = 0; i < tokens->n; i++) n += tokens->ids[i] == id;
    return n;
}

/* A text whose last n_own bytes are the template's own. */
static Tokens encode_marked(const Tokenizer *tokenizer, const char *text, size_t n, size_t n_own) {
    Tokens tokens = {0};
    Error error = {{0}};
    char marks[512];
    memset(marks, 1, n);
    memset(marks + n - n_own, 0, n_own);
    CHECK(tokenizer_encode_marked(tokenizer, (String){text, n}, marks, &tokens, &error), "%s", error.message);
    return tokens;
}

/* A control token's name in words of a user, alone and beside the template's own. */
static void check_name(const Tokenizer *tokenizer, int32_t id, String name) {
    char text[256];
    int n = snprintf(text, sizeof text, "a%.*s b %.*s%.*s", (int)name.n, name.data, (int)name.n, name.data,
                     (int)name.n, name.data);
    size_t n_said = (size_t)n - name.n;
    Tokens plain = encode(tokenizer, text, n_said, 0),
           control = encode(tokenizer, text, n_said, ENCODE_SPECIAL);
    Tokens said = encode_marked(tokenizer, text, n_said, 0),
           both = encode_marked(tokenizer, text, (size_t)n, name.n);
    CHECK(count(&control, id) == 2 && count(&plain, id) == 0, "%.*s: %zu and %zu", (int)name.n, name.data,
          count(&control, id), count(&plain, id));
    CHECK(same(&said, &plain), "%.*s: %zu tokens, not %zu", (int)name.n, name.data, said.n, plain.n);
    CHECK(both.n == plain.n + 1 && both.ids[both.n - 1] == id, "%.*s", (int)name.n, name.data);
    tokens_free(&plain);
    tokens_free(&control);
    tokens_free(&said);
    tokens_free(&both);
}

static void test_names(void) {
    static const char *const paths[] = {"tests/data/tokenizer/gpt2.gguf", "tests/data/tokenizer/llama3.gguf",
                                        "tests/data/tokenizer/sentencepiece.gguf"};
    for (size_t i = 0; i < COUNT(paths); i++) {
        Error error = {{0}};
        Checkpoint *opened;
        size_t n_control = 0;
        Tokenizer *tokenizer = tokenizer_open(paths[i], NULL, &opened, &error);
        CHECK(tokenizer != NULL, "%s", error.message);
        for (int32_t id = 0; tokenizer && id < (int32_t)tokenizer_n_vocab(tokenizer); id++) {
            String name = tokenizer_piece(tokenizer, id, true);
            if (tokenizer_piece(tokenizer, id, false).n > 0 || name.n == 0) continue;
            check_name(tokenizer, id, name);
            n_control++;
        }
        CHECK(n_control > 0, "%s has no control tokens", paths[i]);
        tokenizer_free(tokenizer);
        checkpoint_close(opened);
    }
}

/* The ends of a text: BOS and EOS, those that keys name, and those known by name; <|end|> is none where <|return|> is. */
static void test_ends(void) {
    static const bool ends[CHAIN] = {[0] = true, [1] = true, [2] = true, [3] = true, [4] = true, [14] = true};
    Error error = {{0}};
    Checkpoint *opened;
    write_chain("");
    Tokenizer *tokenizer = tokenizer_open(scratch_path(), NULL, &opened, &error);
    CHECK(tokenizer != NULL, "%s", error.message);
    for (int32_t id = 0; tokenizer && id < CHAIN; id++)
        CHECK(tokenizer_is_end(tokenizer, id) == ends[id], "%s", chain[id].text);
    tokenizer_free(tokenizer);
    checkpoint_close(opened);
}

static void test_thoughts_are_dim(void) {
    write_chain("<|im_start|>");
    pid_t pid = start((const char *[]){"run", scratch_path(), "--chat", "--temp", "0", NULL});
    size_t at = await("> ", 0);
    type("b\n");
    at = await("> ", await("\033[2m<think>hmm</think>\033[0myes\r\n", at));
    type("/help\n");
    at = await("> ", await("/reset", at));
    type("\004"); /* Ctrl-D */
    int status = finish(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

static void test_channels(void) {
    write_chain("z"); /* which is unknown */
    pid_t pid = start((const char *[]){"run", scratch_path(), "--chat", "--temp", "0", "-p", "b", NULL});
    await("\033[2mmull\033[0m\r\n", 0); /* the channel's name is not shown, and <|end|> does not end */
    int status = finish(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

static void test_interrupts(void) {
    write_chain("on");
    pid_t pid = start((const char *[]){"run", scratch_path(), "--chat", "--temp", "0", "-n", "-1", NULL});
    size_t at = await("> ", 0);
    for (int i = 0; i < 2; i++) {
        type("b\n");
        at = await("ononon", at);
        type("\003");
        at = await("> ", await("\r\n", at));
    }
    type("\003"); /* at the prompt */
    int status = finish(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "status %x", status);
}

int main(void) {
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    scratch_begin();
    RUN(test_names);
    RUN(test_ends);
    RUN(test_thoughts_are_dim);
    RUN(test_channels);
    RUN(test_interrupts);
    scratch_end();
    return test_end();
}
