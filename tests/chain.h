/*
 * A model that says after each token always the same one, and run on a terminal of its own, where a test types and sees what
 * comes.
 */
#ifndef ATTN_TEST_CHAIN_H
#define ATTN_TEST_CHAIN_H

#define _GNU_SOURCE /* posix_openpt */

#include "bad.h"
#include "test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

/* ---- A chain of tokens ---- */

enum { CHAIN = 25, UNKNOWN = 2, CONTROL = 3, USER = 4 };

static struct {
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
    {"so", 1, 17}, /* tags of thoughts in pieces */
    {"well<think>hm</th", 1, 18},
    {"ing</thi", 1, 19},
    {"nk>finished", 1, 20},
    {"<", 1, 2},
    {"<|start|>", CONTROL, 22},
    {"final", 1, 11},
    {"go", 1, 21},
    {"at", 1, 11},
};

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
static struct termios at_first; /* the terminal's modes before the program has it */

static const char *run_path(void) {
    const char *run = getenv("RUN");
    return run ? run : "./run";
}

/*
 * Starts a program on a terminal of its own, 60 columns wide, which it may be interrupted from; with `out` its stdout is that
 * file.
 */
static pid_t start_with(const char *program, const char *const *arguments, const char *out) {
    struct winsize size = {.ws_row = 20, .ws_col = 60};
    master = posix_openpt(O_RDWR | O_NOCTTY);
    n_seen = 0;
    seen[0] = '\0';
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0 || tcgetattr(master, &at_first) != 0)
        return -1;
    pid_t pid = fork();
    if (pid != 0) return pid;
    setsid();
    int slave = open(ptsname(master), O_RDWR);
    close(master); /* or the terminal would never go away */
    if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) != 0 || ioctl(slave, TIOCSWINSZ, &size) != 0) _exit(9);
    for (int i = 0; i < 3; i++) dup2(slave, i);
    if (out) dup2(open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    execv(program, (char *const *)(uintptr_t)arguments);
    _exit(9);
}

static pid_t __attribute__((unused)) start(const char *const *arguments) {
    return start_with(run_path(), arguments, NULL);
}

/* Waits until the terminal has been given that text, behind `from`, for a minute; where it then ends, or 0. */
static size_t __attribute__((unused)) await(const char *words, size_t from) {
    for (int i = 0; i < 6000; i++) {
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

static void __attribute__((unused)) type(const char *keys) {
    CHECK(write(master, keys, strlen(keys)) == (ssize_t)strlen(keys), "cannot type");
}

static int __attribute__((unused)) finish(pid_t pid) {
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

#endif
