/*
 * Programs' words for people: notes and legends, what gives way where a line is too narrow, refusals. Each case is a command
 * line of a shell, on a terminal as wide as it says or into a pipe, and words that must be printed. The models are the
 * reference files, and small ones made here, whose answers can be told by looking at them.
 */
#ifndef ATTN_TEST_WORDS_H
#define ATTN_TEST_WORDS_H

#define _GNU_SOURCE /* posix_openpt */

#include "bad.h"
#include "pseudo_terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

/* ---- Models made here: family llama, 1 layer, 8 tokens, 8 positions ---- */

static void fill(Gguf *gguf, const char *name, size_t from, size_t n, float value) {
    for (size_t i = from; i < from + n; i++)
        memcpy(file + gguf_find_tensor(gguf, name)->data_at + 4 * i, &value, sizeof value);
}

static void save_model(Gguf *gguf, const char *name) {
    n_file = gguf_write(gguf, file);
    scratch_put(name, file, n_file);
}

/* With other texts for the last three tokens, the last of which is always a token where it stands. */
static void save_vocabulary(const char *name, const char *five, const char *six, const char *seven) {
    static const int32_t types[] = {2, 3, 3, 6, 1, 1, 1, 4};
    Gguf gguf = good_model(LLAMA);
    gguf_strings(&gguf, "tokenizer.ggml.tokens",
                 (const char *const[]){"<unk>", "<s>", "</s>", "<0x0A>", "\xe2\x96\x81", five, six, seven},
                 8);
    gguf_array(&gguf, "tokenizer.ggml.token_type", I32, 8, types, sizeof types);
    save_model(&gguf, name);
}

static void make_models(void) {
    Gguf gguf = good_model(LLAMA);
    save_model(&gguf, "one");
    save_vocabulary("swapped", "a", "ab", "b");
    save_vocabulary("renamed", "c", "b", "ab");
    save_vocabulary("long", "aa", "b", "ab");
    save_vocabulary("longest", "a", "b", "an extraordinary length");
    save_vocabulary("blank", "a", "", "b");
    save_vocabulary("twenty", "a", "b", "an extraordinary day");
    gguf_u32(&gguf, "llama.context_length", 1024);
    save_model(&gguf, "wide");
    gguf_u32(&gguf, "llama.context_length", 1);
    save_model(&gguf, "tiny");
    gguf_u32(&gguf, "llama.context_length", N_CTX);
    gguf_u32(&gguf, "llama.attention.head_count", 64);
    resize(&gguf, "blk.0.attn_q.weight", 128, D_MODEL);
    resize(&gguf, "blk.0.attn_output.weight", D_MODEL, 128);
    save_model(&gguf, "heads");
    gguf = good_model(LLAMA); /* asks for what nobody does */
    gguf_f32(&gguf, "general.sampling.xtc_probability", 0.5f);
    gguf_f32(&gguf, "general.sampling.\x1b[2J", 1);
    save_model(&gguf, "wishes");
    gguf = good_model(LLAMA);
    gguf_f32(&gguf, "general.sampling.temp", -1);
    save_model(&gguf, "nonsense");

    /* Nothing is added to the residual stream, and all tokens are alike. */
    gguf = good_model(LLAMA);
    n_file = gguf_write(&gguf, file);
    fill(&gguf, "blk.0.attn_output.weight", 0, D_MODEL * D_MODEL, 0);
    fill(&gguf, "blk.0.attn_v.weight", 0, D_KV * D_MODEL, 0);
    fill(&gguf, "blk.0.ffn_down.weight", 0, D_MODEL * D_FF, 0);
    fill(&gguf, "token_embd.weight", 0, N_VOCAB * D_MODEL, 1);
    fill(&gguf, "output_norm.weight", 0, D_MODEL, 1);
    scratch_put("same", file, n_file);
    fill(&gguf, "token_embd.weight", 2 * D_MODEL, D_MODEL, 2); /* but </s> is likelier */
    scratch_put("ends", file, n_file);
    fill(&gguf, "output_norm.weight", 0, D_MODEL, NAN);
    scratch_put("nan", file, n_file);
    fill(&gguf, "output_norm.weight", 0, D_MODEL, 1);
    fill(&gguf, "token_embd.weight", 0, N_VOCAB * D_MODEL, 1e6f);
    scratch_put("loud", file, n_file);
    fill(&gguf, "token_embd.weight", 0, N_VOCAB * D_MODEL, 1);
    fill(&gguf, "token_embd.weight", 5 * D_MODEL, D_MODEL, 0); /* "a" is nowhere */
    scratch_put("hollow", file, n_file);
    fill(&gguf, "token_embd.weight", 5 * D_MODEL, D_MODEL, 1);
    fill(&gguf, "token_embd.weight", 7 * D_MODEL, 1, INFINITY);
    scratch_put("endless", file, n_file);

    /* Heads that look, and give nothing; weights that are no numbers; a head that looks at its sink alone. */
    gguf = good_model(LLAMA);
    n_file = gguf_write(&gguf, file);
    fill(&gguf, "blk.0.attn_v.weight", 0, D_KV * D_MODEL, 0);
    scratch_put("deaf", file, n_file);
    fill(&gguf, "blk.0.attn_v.weight", 0, D_KV * D_MODEL, NAN);
    scratch_put("broken", file, n_file);
    gguf = good_model(LLAMA);
    gguf_tensor(&gguf, "blk.0.attn_sinks.weight", T_F32, 0, N_HEAD);
    n_file = gguf_write(&gguf, file);
    fill(&gguf, "blk.0.attn_sinks.weight", 0, N_HEAD, 1e9f);
    scratch_put("sunk", file, n_file);

    gguf = good_model(LLAMA); /* a token that breaks what follows it */
    gguf_tensor(&gguf, "output.weight", T_F32, N_VOCAB, D_MODEL);
    n_file = gguf_write(&gguf, file);
    fill(&gguf, "token_embd.weight", 6 * D_MODEL, D_MODEL, NAN);
    scratch_put("unsung", file, n_file);
    gguf = model_as("gemma2"); /* queries are cut, and then normed; scores have a cap */
    gguf_f32(&gguf, "gemma2.attention.clamp_kqv", 0.1f);
    gguf_f32(&gguf, "gemma2.attn_logit_softcapping", 0.5f);
    gguf_tensor(&gguf, "blk.0.attn_q_norm.weight", T_F32, 0, D_HEAD);
    gguf_tensor(&gguf, "blk.0.post_attention_norm.weight", T_F32, 0, D_MODEL);
    gguf_tensor(&gguf, "blk.0.post_ffw_norm.weight", T_F32, 0, D_MODEL);
    save_model(&gguf, "clamped");
    gguf = gguf_begin(3); /* a state, and no heads */
    gguf_string(&gguf, "general.architecture", "lfm2");
    gguf_u32(&gguf, "lfm2.context_length", N_CTX);
    gguf_u32(&gguf, "lfm2.embedding_length", D_MODEL);
    gguf_u32(&gguf, "lfm2.feed_forward_length", D_FF);
    gguf_u32(&gguf, "lfm2.block_count", 1);
    gguf_u32(&gguf, "lfm2.attention.head_count", N_HEAD);
    gguf_u32(&gguf, "lfm2.shortconv.l_cache", 3);
    gguf_f32(&gguf, "lfm2.attention.layer_norm_rms_epsilon", 1e-6f);
    add_vocabulary(&gguf, LLAMA);
    for (size_t i = 0; i < COUNT(model_tensors); i++)
        if (model_tensors[i].in[LLAMA] && !strstr(model_tensors[i].name, "attn_") &&
            !strstr(model_tensors[i].name, "output_norm"))
            gguf_tensor(&gguf, model_tensors[i].name, T_F32, model_tensors[i].rows, model_tensors[i].cols);
    gguf_tensor(&gguf, "token_embd_norm.weight", T_F32, 0, D_MODEL);
    gguf_tensor(&gguf, "blk.0.attn_norm.weight", T_F32, 0, D_MODEL);
    gguf_tensor(&gguf, "blk.0.shortconv.conv.weight", T_F32, D_MODEL, 3);
    gguf_tensor(&gguf, "blk.0.shortconv.in_proj.weight", T_F32, 3 * D_MODEL, D_MODEL);
    gguf_tensor(&gguf, "blk.0.shortconv.out_proj.weight", T_F32, D_MODEL, D_MODEL);
    save_model(&gguf, "states");
    gguf_u32(&gguf, "lfm2.context_length", 1024);
    save_model(&gguf, "headless");

    gguf = good_model(LLAMA); /* no token stands for text */
    gguf_array(&gguf, "tokenizer.ggml.token_type", I32, 8, (const int32_t[]){2, 3, 3, 3, 3, 3, 3, 3}, 32);
    save_model(&gguf, "mute");
    gguf = good_model(LLAMA);
    n_file = gguf_write(&gguf, file);
    fill(&gguf, "blk.0.attn_q.weight", 0, D_MODEL * D_MODEL, NAN);
    scratch_put("scoreless", file, n_file);
    gguf = good_model(LLAMA); /* "a" or "b" comes next, and nothing finite behind it */
    gguf_tensor(&gguf, "output.weight", T_F32, N_VOCAB, D_MODEL);
    n_file = gguf_write(&gguf, file);
    fill(&gguf, "output.weight", 0, N_VOCAB * D_MODEL, 0);
    fill(&gguf, "output.weight", 5 * D_MODEL, D_MODEL, 100);
    fill(&gguf, "output.weight", 6 * D_MODEL, D_MODEL, -100);
    fill(&gguf, "token_embd.weight", 5 * D_MODEL, 2 * D_MODEL, INFINITY);
    scratch_put("late", file, n_file);

    /* Three tokens, vectors of 4 numbers, heads of 6. */
    gguf = good_model(LLAMA);
    gguf_strings(&gguf, "tokenizer.ggml.tokens", (const char *const[]){"<unk>", "<s>", "a"}, 3);
    gguf_array(&gguf, "tokenizer.ggml.token_type", I32, 3, (const int32_t[]){2, 3, 1}, 12);
    gguf_array(&gguf, "tokenizer.ggml.scores", F32, 3, (const float[]){0, 0, 0}, 12);
    gguf_u32(&gguf, "llama.attention.key_length", 6);
    gguf_u32(&gguf, "llama.attention.value_length", 6);
    gguf_u32(&gguf, "llama.rope.dimension_count", 6);
    resize(&gguf, "token_embd.weight", 3, D_MODEL);
    resize(&gguf, "blk.0.attn_q.weight", 12, D_MODEL);
    resize(&gguf, "blk.0.attn_k.weight", 6, D_MODEL);
    resize(&gguf, "blk.0.attn_v.weight", 6, D_MODEL);
    resize(&gguf, "blk.0.attn_output.weight", D_MODEL, 12);
    save_model(&gguf, "narrow");

    gguf = good_model(GPT2); /* no token begins a text */
    gguf_drop(&gguf, gguf_find(&gguf, "tokenizer.ggml.bos_token_id"));
    gguf_drop(&gguf, gguf_find(&gguf, "tokenizer.ggml.add_bos_token"));
    save_model(&gguf, "nobos");
    gguf = good_model(GPT2); /* norms of queries and keys, and no RoPE */
    gguf_tensor(&gguf, "blk.0.attn_q_norm.weight", T_F32, 0, D_HEAD);
    gguf_tensor(&gguf, "blk.0.attn_k_norm.weight", T_F32, 0, D_HEAD);
    save_model(&gguf, "normed");

    gguf = good_model(LLAMA);
    gguf_u32(&gguf, "llama.block_count", 2);
    static char names[COUNT(model_tensors)][40];
    for (size_t i = 0; i < COUNT(model_tensors); i++) {
        const struct ModelTensor *tensor = &model_tensors[i];
        if (!tensor->in[LLAMA] || strncmp(tensor->name, "blk.0.", 6) != 0) continue;
        snprintf(names[i], sizeof names[i], "blk.1.%s", tensor->name + 6);
        gguf_tensor(&gguf, names[i], T_F32, tensor->rows, tensor->cols);
    }
    save_model(&gguf, "two");
    static const char *const gone[] = {"blk.1.ffn_gate.weight", "blk.1.ffn_up.weight",
                                       "blk.1.ffn_down.weight"};
    Gguf mixed = gguf; /* experts in the second layer */
    for (size_t i = 0; i < COUNT(gone); i++) gguf_drop_tensor(&mixed, gguf_find_tensor(&mixed, gone[i]));
    gguf_u32(&mixed, "llama.expert_count", 1);
    gguf_u32(&mixed, "llama.expert_used_count", 1);
    gguf_tensor(&mixed, "blk.1.ffn_gate_inp.weight", T_F32, 1, D_MODEL);
    gguf_tensor(&mixed, "blk.1.ffn_up_exps.weight", T_F32, D_FF, D_MODEL);
    gguf_tensor(&mixed, "blk.1.ffn_gate_exps.weight", T_F32, D_FF, D_MODEL);
    gguf_tensor(&mixed, "blk.1.ffn_down_exps.weight", T_F32, D_MODEL, D_FF);
    save_model(&mixed, "mixed");
    n_file = gguf_write(&gguf, file);
    for (size_t i = 0; i < gguf.n_tensors; i++)
        if (strstr(gguf.tensors[i].name, ".attn_v.") || strstr(gguf.tensors[i].name, ".attn_output."))
            fill(&gguf, gguf.tensors[i].name, 0, gguf.tensors[i].n_bytes / 4, 0);
    scratch_put("still", file, n_file);
}

/* ---- Commands ---- */

static char text[1 << 20]; /* what the last one printed: stdout, then stderr */
static const char *typed;  /* on its terminal, before it asks; or NULL */

static int terminal_of(int columns, int *slave) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) exit(1);
    *slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    struct winsize size = {.ws_row = 25, .ws_col = (unsigned short)columns};
    if (*slave < 0 || ioctl(master, TIOCSWINSZ, &size) != 0) exit(1);
    return master;
}

/* Reads to the end of a pipe. */
static size_t read_all(int from, size_t n) {
    for (ssize_t got; (got = read(from, text + n, sizeof text - 1 - n)) > 0;) n += (size_t)got;
    text[n] = '\0';
    close(from);
    return n;
}

/* Runs a shell's command, stdout being a terminal if `columns` is not 0, all three streams if it is below 0; its exit code. */
static int shell(int columns, const char *command) {
    int out[2], err[2], status = -1;
    if (pipe(err) != 0) exit(1);
    if (columns) out[0] = terminal_of(abs(columns), &out[1]);
    if (columns && typed && write(out[0], typed, strlen(typed)) < 0) exit(1);
    if (!columns && pipe(out) != 0) exit(1);
    pid_t child = fork();
    if (child == 0) {
        dup2(columns < 0 ? out[1] : open("/dev/null", O_RDONLY), STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        dup2(columns < 0 ? out[1] : err[1], STDERR_FILENO);
        for (int i = 0; i < 2; i++) close(out[i]), close(err[i]);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(err[1]);
    if (columns) {
        read_all(err[0], read_terminal(out[0], out[1], child, &status, text, sizeof text));
    } else {
        close(out[1]);
        read_all(err[0], read_all(out[0], 0));
        waitpid(child, &status, 0);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

typedef struct Case {
    const char *command;
    const char *has[7]; /* words that are printed; a first '!': that are not */
    int code, columns;  /* columns: of the terminal that it prints to, as `shell` takes them */
} Case;

/* Each style ends before the next begins, and before the text does. */
static void check_styles(const char *command) {
    bool styled = false;
    for (const char *at = text; (at = strstr(at, "\033[")); at++) {
        size_t n = strspn(at + 2, "0123456789;");
        if (at[2 + n] != 'm') continue; /* a line of progress is wiped */
        bool ends = n == 1 && at[2] == '0';
        CHECK(ends == styled, "%s: %s: %.80s", command, ends ? "nothing to end" : "one style in another", at);
        styled = !ends;
    }
    CHECK(!styled, "%s: a style does not end", command);
}

static inline void check_cases(const Case *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int code = shell(cases[i].columns, cases[i].command);
        CHECK(code == cases[i].code, "%s: %d: %.1200s", cases[i].command, code, text);
        check_styles(cases[i].command);
        for (size_t k = 0; k < COUNT(cases[i].has) && cases[i].has[k]; k++) {
            const char *has = cases[i].has[k];
            bool wanted = *has != '!';
            CHECK((strstr(text, has + !wanted) != NULL) == wanted, "%s: '%s' in:\n%.1200s", cases[i].command,
                  has, text);
        }
    }
}
#define CHECK_CASES(cases) check_cases(cases, COUNT(cases))

static void write_text(const char *name, const char *unit, size_t times) {
    n_file = 0;
    for (size_t i = 0; i < times; i++, n_file += strlen(unit)) memcpy(file + n_file, unit, strlen(unit));
    scratch_put(name, file, n_file);
}

static void set_program(const char *variable, const char *from, const char *fallback) {
    const char *program = getenv(from);
    char *path = realpath(program ? program : fallback, NULL);
    if (!path) perror(fallback);
    setenv(variable, path ? path : fallback, 1);
    free(path);
}

/* The models and texts, and the names that commands have for them and for the programs. */
static void words_begin(void) {
    scratch_begin();
    set_program("study", "STUDY", "./study");
    set_program("run", "RUN", "./run");
    char faulty[1024];
    snprintf(faulty, sizeof faulty, "%srun", getenv("FAULTY") ? getenv("FAULTY") : "build/tests/faulty_");
    setenv("faulty", faulty, 1);
    setenv("T", scratch_folder, 1);
    setenv("g", "tests/data/reference/gpt2-f32.gguf", 1);
    setenv("l", "tests/data/reference/llama-f32.gguf", 1);
    setenv("p", "tests/data/reference/gptneox.gguf -z tests/data/study/letters.gguf", 1);
    setenv("o", "tests/data/reference/gpt-oss.gguf -z tests/data/study/letters.gguf", 1);
    setenv("G", "tests/data/reference/gemma2.gguf -z tests/data/study/letters.gguf", 1);
    setenv("m", "weights/model.gguf", 1);
    unsetenv("NO_COLOR");
    unsetenv("ATTN_KERNEL");
    make_models();
    write_text("500", "a", 500);
    write_text("60", "a", 60);
    write_text("words", "a ", 50);
}

/* Takes all of that away; what main returns. */
static int words_end(void) {
    if (shell(0, "rm -rf \"$T\"") != 0) perror(scratch_folder);
    return test_end();
}

#endif
