/*
 * What a person says steers nothing, whatever it looks like; and run --chat on a terminal, where reasoning is dim and Ctrl-C
 * ends an answer. The model there is a chain made here, which says after each token always the same one.
 */
#define _GNU_SOURCE /* posix_openpt */

#include "bad.h"
#include "test.h"
#include "tokenizer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

/* ---- Guards ---- */

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

/* A control token's name in words of a user, alone and beside the template's own. */
static void check_name(const Tokenizer *tokenizer, int32_t id, String name) {
    char text[256];
    TextBuffer guarded = {0};
    int n = snprintf(text, sizeof text, "a%.*s b %.*s", (int)name.n, name.data, (int)name.n, name.data);
    CHECK(tokenizer_guard(tokenizer, (String){text, (size_t)n}, &guarded), "no memory");
    Tokens plain = encode(tokenizer, text, (size_t)n, 0),
           control = encode(tokenizer, text, (size_t)n, ENCODE_SPECIAL);
    Tokens said = encode(tokenizer, guarded.data, guarded.n, ENCODE_SPECIAL | ENCODE_GUARDED);
    CHECK(count(&control, id) == 2 && count(&plain, id) == 0, "%.*s: %zu and %zu", (int)name.n, name.data,
          count(&control, id), count(&plain, id));
    CHECK(same(&said, &plain), "%.*s: %zu tokens, not %zu", (int)name.n, name.data, said.n, plain.n);
    CHECK(text_append(&guarded, name.data, name.n), "no memory"); /* by the template */
    Tokens both = encode(tokenizer, guarded.data, guarded.n, ENCODE_SPECIAL | ENCODE_GUARDED);
    CHECK(both.n == plain.n + 1 && both.ids[both.n - 1] == id, "%.*s", (int)name.n, name.data);
    tokens_free(&plain);
    tokens_free(&control);
    tokens_free(&said);
    tokens_free(&both);
    free(guarded.data);
}

static void test_guards(void) {
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

/* A guard that somebody has typed becomes U+FFFD, and guards nothing. */
static void test_typed_guard(void) {
    static const char typed[] = "x\xef\xb7\x90<|endoftext|>\xef\xb7\x90",
                      meant[] = "x\xef\xbf\xbd<|endoftext|>\xef\xbf\xbd";
    Error error = {{0}};
    Checkpoint *opened;
    Tokenizer *tokenizer = tokenizer_open("tests/data/reference/gpt2-f32.gguf", NULL, &opened, &error);
    TextBuffer guarded = {0};
    if (!tokenizer) {
        CHECK(false, "%s", error.message);
        return;
    }
    CHECK(tokenizer_guard(tokenizer, (String){typed, sizeof typed - 1}, &guarded), "no memory");
    Tokens got = encode(tokenizer, guarded.data, guarded.n, ENCODE_SPECIAL | ENCODE_GUARDED);
    Tokens want = encode(tokenizer, meant, sizeof meant - 1, 0);
    CHECK(same(&got, &want), "%zu tokens, not %zu", got.n, want.n);
    tokens_free(&got);
    tokens_free(&want);
    free(guarded.data);
    tokenizer_free(tokenizer);
    checkpoint_close(opened);
}

/* ---- A chain of tokens ---- */

enum { CHAIN = 16, UNKNOWN = 2, CONTROL = 3, USER = 4 };

static const struct {
    const char *text;
    int32_t type, next;
} chain[CHAIN] = {
    {"<unk>", UNKNOWN, 9},
    {"<s>", CONTROL, 2},
    {"</s>", CONTROL, 2},
    {"<|im_start|>", CONTROL, 5},
    {"<|im_end|>", CONTROL, 2},
    {"<think>", USER, 6},
    {"hmm", 1, 7},
    {"</think>", USER, 8},
    {"yes", 1, 4},
    {"<|channel|>", CONTROL, 10},
    {"analysis", 1, 11},
    {"<|message|>", CONTROL, 12},
    {"mull", 1, 13},
    {"<|end|>", CONTROL, 14},
    {"<|return|>", CONTROL, 2},
    {"on", 1, 15},
};

static void resize(Gguf *gguf, const char *name, uint64_t rows, uint64_t cols) {
    GgufTensor *tensor = gguf_find_tensor(gguf, name);
    tensor->dims[0] = cols, tensor->dims[1] = rows;
    tensor->n_bytes = 4 * (rows ? rows : 1) * cols;
}

static void put(Gguf *gguf, const char *name, size_t i, float value) {
    memcpy(file + gguf_find_tensor(gguf, name)->data_at + 4 * i, &value, sizeof value);
}

/* A model whose template ends with the token `begin`, written to scratch_path's file. */
static void write_chain(const char *begin) {
    static const char *const matrices[] = {"blk.0.attn_output.weight", "blk.0.attn_v.weight",
                                           "blk.0.ffn_down.weight"};
    static const size_t sizes[] = {CHAIN * N_HEAD * D_HEAD, D_KV * CHAIN, CHAIN * D_FF};
    const char *texts[CHAIN];
    int32_t types[CHAIN];
    float scores[CHAIN] = {0};
    char template[256];
    Gguf gguf = good_model(LLAMA);
    for (size_t i = 0; i < CHAIN; i++) texts[i] = chain[i].text, types[i] = chain[i].type;
    gguf_strings(&gguf, "tokenizer.ggml.tokens", texts, CHAIN);
    gguf_array(&gguf, "tokenizer.ggml.token_type", I32, CHAIN, types, sizeof types);
    gguf_array(&gguf, "tokenizer.ggml.scores", F32, CHAIN, scores, sizeof scores);
    snprintf(template, sizeof template, "{%% for m in messages %%}{{ m.content }}<|im_end|>{%% endfor %%}%s",
             begin);
    gguf_string(&gguf, "tokenizer.chat_template", template);
    gguf_u32(&gguf, "tokenizer.ggml.eom_token_id", 3);
    gguf_array(&gguf, "attn.eos_token_ids", I32, 2, (const int32_t[]){2, 0}, 8);
    gguf_u32(&gguf, "llama.embedding_length", CHAIN);
    gguf_u32(&gguf, "llama.context_length", 1 << 20);
    resize(&gguf, "token_embd.weight", CHAIN, CHAIN);
    resize(&gguf, "blk.0.attn_norm.weight", 0, CHAIN);
    resize(&gguf, "blk.0.attn_q.weight", N_HEAD * D_HEAD, CHAIN);
    resize(&gguf, "blk.0.attn_k.weight", D_KV, CHAIN);
    resize(&gguf, "blk.0.attn_v.weight", D_KV, CHAIN);
    resize(&gguf, "blk.0.attn_output.weight", CHAIN, N_HEAD * D_HEAD);
    resize(&gguf, "blk.0.ffn_norm.weight", 0, CHAIN);
    resize(&gguf, "blk.0.ffn_gate.weight", D_FF, CHAIN);
    resize(&gguf, "blk.0.ffn_up.weight", D_FF, CHAIN);
    resize(&gguf, "blk.0.ffn_down.weight", CHAIN, D_FF);
    resize(&gguf, "output_norm.weight", 0, CHAIN);
    for (const char **name =
             (const char *[]){"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight", NULL};
         *name; name++)
        gguf_find_tensor(&gguf, *name)->dims[1] = 1;
    gguf_tensor(&gguf, "output.weight", T_F32, CHAIN, CHAIN);
    n_file = gguf_write(&gguf, file);
    for (size_t k = 0; k < COUNT(matrices); k++) /* nothing is added to the residual stream */
        for (size_t i = 0; i < sizes[k]; i++) put(&gguf, matrices[k], i, 0);
    for (size_t i = 0; i < CHAIN; i++) {
        put(&gguf, "output_norm.weight", i, 1);
        for (size_t j = 0; j < CHAIN; j++) {
            put(&gguf, "token_embd.weight", i * CHAIN + j, i == j);
            put(&gguf, "output.weight", i * CHAIN + j, chain[j].next == (int32_t)i ? 10 : 0);
        }
    }
    scratch_write(file, n_file);
}

/* ---- A terminal ---- */

static char seen[1 << 16]; /* what it was given */
static size_t n_seen;
static int master;

/* Starts run on a terminal of its own, which it may be interrupted from. */
static pid_t start(const char *const *arguments) {
    const char *run = getenv("RUN");
    master = posix_openpt(O_RDWR | O_NOCTTY);
    n_seen = 0;
    seen[0] = '\0';
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) return -1;
    pid_t pid = fork();
    if (pid != 0) return pid;
    setsid();
    int slave = open(ptsname(master), O_RDWR);
    if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) != 0) _exit(9);
    for (int i = 0; i < 3; i++) dup2(slave, i);
    execv(run ? run : "./run", (char *const *)(uintptr_t)arguments);
    _exit(9);
}

/* Waits until the terminal has been given that text, behind `from`, for ten seconds; where it then ends, or 0. */
static size_t await(const char *words, size_t from) {
    for (int i = 0; i < 1000; i++) {
        const char *found = from <= n_seen ? strstr(seen + from, words) : NULL;
        struct pollfd ready = {.fd = master, .events = POLLIN};
        if (found) return (size_t)(found - seen) + strlen(words);
        if (poll(&ready, 1, 10) <= 0) continue;
        ssize_t n = read(master, seen + n_seen, sizeof seen - 1 - n_seen);
        if (n <= 0) break;
        n_seen += (size_t)n;
        seen[n_seen] = '\0';
        if (n_seen > sizeof seen / 2) { /* a long answer */
            memmove(seen + from, seen + n_seen - 256, 257);
            n_seen = from + 256;
        }
    }
    CHECK(false, "no '%s' in %s", words, seen + (from < n_seen ? from : n_seen));
    return n_seen;
}

static void type(const char *keys) {
    CHECK(write(master, keys, strlen(keys)) == (ssize_t)strlen(keys), "cannot type");
}

static int finish(pid_t pid) {
    int status = -1;
    char rest[4096];
    for (int i = 0; i < 1000 && waitpid(pid, &status, WNOHANG) == 0; i++) {
        struct pollfd ready = {.fd = master, .events = POLLIN};
        if (poll(&ready, 1, 10) > 0 && read(master, rest, sizeof rest) <= 0) poll(NULL, 0, 10);
        if (i == 999) kill(pid, SIGKILL);
    }
    close(master);
    return status;
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
    at = await("\033[2m<think>hmm</think>\033[0myes\r\n> ", at);
    type("/help\n");
    at = await("/reset", at);
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
        at = await("\r\n> ", at);
    }
    type("\003"); /* at the prompt */
    int status = finish(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "status %x", status);
}

int main(void) {
    scratch_begin();
    RUN(test_guards);
    RUN(test_typed_guard);
    RUN(test_ends);
    RUN(test_thoughts_are_dim);
    RUN(test_channels);
    RUN(test_interrupts);
    scratch_end();
    return test_end();
}
