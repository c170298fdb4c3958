/*
 * Files that others write to while they are loaded. What a checkpoint says of itself stays what it was when it was
 * opened, whatever is then written over it; and while it is opened, any mixture of old and new bytes is either
 * loaded or refused. The programs under the same attack are test_changing.sh's.
 */
#include "bad.h"
#include "open.h"

#include "cli/process.h"
#include "tokenizer.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { N_TEXTS = 3000, LOADS_OF_A_PROCESS = 8 };

/* The cases are made of these; `end` is where the weights begin, or the file's end. */
typedef enum Base { LLAMA_MODEL, GPT2_MODEL, LLAMA2C_MODEL, LLAMA2C_TEXTS, N_BASES } Base;

static size_t write_base(Base base) {
    if (base == LLAMA2C_MODEL) {
        write_llama2c_model();
        return 28;
    }
    if (base == LLAMA2C_TEXTS) {
        write_llama2c_vocabulary(300);
        return n_file;
    }
    Gguf gguf = good_model(base == GPT2_MODEL ? GPT2 : LLAMA);
    n_file = gguf_write(&gguf, file);
    return gguf.tensors[0].data_at;
}

static void write_config(FILE *out, const Checkpoint *checkpoint) {
    Config config;
    Weights weights = {0};
    Error error = {{0}};
    if (!config_read(&config, checkpoint, &error) || !weights_bind(&weights, &config, checkpoint, &error)) {
        fprintf(out, "%s\n", error.message);
    } else {
        fprintf(out, "%zu layers %zu %zu heads %zu %zu %zu vectors %zu tokens %zu positions\n",
                config.n_layer, config.n_head, config.n_head_kv, config.d_model, config.d_head, config.d_ff,
                config.n_vocab, config.n_ctx);
        fprintf(out, "%g %g %g %zu %d %d\n", (double)config.norm_eps, config.rope.base, config.rope.scale,
                config.rope.dim, config.parallel_residual, config.tied);
    }
    weights_free(&weights);
}

static void write_tokens(FILE *out, const Checkpoint *checkpoint) {
    static const char text[] = "ab bc<s>a\n<|endoftext|>";
    Error error = {{0}};
    Tokens tokens = {0};
    Tokenizer *tokenizer = tokenizer_new(checkpoint, &error);
    if (!tokenizer || !tokenizer_encode(tokenizer, text, sizeof text - 1, 0, &tokens, &error))
        fprintf(out, "%s\n", error.message);
    for (size_t i = 0; i < tokens.n; i++) fprintf(out, "%d ", (int)tokens.ids[i]);
    for (size_t i = 0; tokenizer && i < tokenizer_n_vocab(tokenizer); i++) {
        String piece = tokenizer_piece(tokenizer, (int32_t)i, true);
        fprintf(out, "%.*s|", (int)piece.n, piece.data);
    }
    tokens_free(&tokens);
    tokenizer_free(tokenizer);
}

/* All that a checkpoint tells, weights left alone; to be freed. */
static char *describe(const Checkpoint *checkpoint) {
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    if (!out) abort();
    for (size_t i = 0; i < checkpoint_n_tensors(checkpoint); i++) {
        const Tensor *tensor = checkpoint_tensor(checkpoint, i);
        fprintf(out, "%.*s %d %u %zu at %zd\n", (int)tensor->name.n, tensor->name.data, (int)tensor->dtype,
                tensor->n_dims, (size_t)tensor->n_bytes,
                (const char *)tensor->data - (const char *)checkpoint_tensor(checkpoint, 0)->data);
    }
    write_config(out, checkpoint);
    write_tokens(out, checkpoint);
    fclose(out);
    return text;
}

/* Clocks of files stand still for some milliseconds: so a later write is seen. */
static void write_long_ago(void) {
    static const struct timespec long_ago[2] = {{1000000000, 0}, {1000000000, 0}};
    scratch_write(file, n_file);
    CHECK(utimensat(AT_FDCWD, scratch_path(), long_ago, 0) == 0, "the time of the file");
}

/* Writes n equal bytes over the file's first, or cuts it to nothing if byte < 0. */
static void spoil(int byte, size_t n) {
    int out = open(scratch_path(), O_WRONLY);
    memset(file, byte, n);
    CHECK(byte < 0 ? ftruncate(out, 0) == 0 : pwrite(out, file, n, 0) == (ssize_t)n, "spoiling the file");
    close(out);
}

static void test_opened_is_kept(void) {
    static const int bytes[] = {0, 0xff, 'A', 1, -1};
    for (Base base = 0; base < N_BASES; base++)
        for (size_t i = 0; i < COUNT(bytes); i++) {
            Error error = {{0}};
            size_t end = write_base(base);
            write_long_ago();
            Checkpoint *checkpoint = checkpoint_open(scratch_path(), &error);
            CHECK(checkpoint, "%s", error.message);
            if (!checkpoint) continue;
            char *before = describe(checkpoint);
            CHECK(!checkpoint_changed(checkpoint), "file %d has changed by itself", (int)base);
            spoil(bytes[i], end);
            CHECK(checkpoint_changed(checkpoint), "nobody sees that file %d was written to", (int)base);
            char *after = describe(checkpoint);
            size_t same = 0;
            while (before[same] && before[same] == after[same]) same++;
            CHECK(strcmp(before, after) == 0, "file %d, byte %d: '%.40s' became '%.40s'", (int)base, bytes[i],
                  before + same, after + same);
            free(before);
            free(after);
            checkpoint_close(checkpoint);
        }
}

static void test_replaced_is_not_changed(void) {
    Error error = {{0}};
    write_base(LLAMA_MODEL);
    write_long_ago();
    Checkpoint *checkpoint = checkpoint_open(scratch_path(), &error);
    unlink(scratch_path());
    CHECK(checkpoint && !checkpoint_changed(checkpoint), "a file is deleted");
    scratch_write((const unsigned char *)"another", 7);
    CHECK(checkpoint && !checkpoint_changed(checkpoint), "a file is replaced");
    checkpoint_close(checkpoint);
}

/* ---- A second process writes ---- */

/* A number in the file that is small or large, as the writer likes; `bytes` many lower bytes of it are written. */
typedef struct Flip {
    size_t at, bytes;
    uint64_t small, large;
} Flip;

static Flip flips[N_TEXTS];
static size_t n_flips;

/* The writer's ways: one number is large for a moment; numbers stay large or small for long; the file is cut. */
typedef enum Attack { DAMAGE, MIX, CUT } Attack;

static void add_flip(size_t at, size_t bytes, uint64_t small, uint64_t large) {
    flips[n_flips++] = (Flip){at, bytes, small, large};
}

static unsigned char *end_of_file(void) { return file + n_file; }

static void add_bytes(const void *bytes, size_t n) {
    memcpy(end_of_file(), bytes, n);
    n_file += n;
}

static void add_text(const char *text) {
    uint64_t n = strlen(text);
    add_bytes(&n, sizeof n);
    add_bytes(text, (size_t)n);
}

/* An array's key, type and counts. Its strings, which come next, end the header, however long they become. */
static void add_strings_key(const char *key) {
    const uint64_t n = N_TEXTS;
    add_text(key);
    add_bytes(&(uint32_t){ARRAY}, 4);
    add_bytes(&(uint32_t){STRING}, 4);
    add_bytes(&n, sizeof n);
}

/*
 * Vocabularies alone, whose strings are a multiple of one length apart, so that a string that swallows the next ends
 * where another begins, and every mixture can be read. There are twice as many as the array counts.
 */
static void write_flipping_texts(void) {
    Gguf gguf = gguf_begin(3);
    add_vocabulary(&gguf, LLAMA);
    gguf_drop(&gguf, gguf_find(&gguf, "tokenizer.ggml.tokens"));
    gguf_drop(&gguf, gguf_find(&gguf, "tokenizer.ggml.token_type"));
    gguf_drop(&gguf, gguf_find(&gguf, "tokenizer.ggml.scores"));
    n_file = gguf_write(&gguf, file);
    file[16] = (unsigned char)(gguf.n_keys + 2);
    add_text("tokenizer.ggml.scores");
    add_bytes(&(uint32_t){ARRAY}, 4);
    add_bytes(&(uint32_t){F32}, 4);
    add_bytes(&(uint64_t){N_TEXTS}, 8);
    for (size_t i = 0; i < N_TEXTS; i++) add_bytes(&(float){-(float)i}, 4);
    add_strings_key("tokenizer.ggml.tokens");
    for (size_t i = 0; i < 2 * N_TEXTS; i++) {
        char text[8];
        snprintf(text, sizeof text, "%04x", (unsigned)i);
        if (i < N_TEXTS) add_flip(n_file, 1, 4, 16);
        add_text(text);
    }
}

/* A merge that is "a b", or that and all of the next string. */
static void write_flipping_merges(void) {
    Gguf gguf = gguf_begin(3);
    add_vocabulary(&gguf, GPT2);
    gguf_drop(&gguf, gguf_find(&gguf, "tokenizer.ggml.merges"));
    n_file = gguf_write(&gguf, file);
    file[16] = (unsigned char)(gguf.n_keys + 1);
    add_strings_key("tokenizer.ggml.merges");
    for (size_t i = 0; i < 2 * N_TEXTS; i++) {
        if (i == N_TEXTS - 1) add_flip(n_file, 1, 3, 3 + 8 + 29);
        add_text(i == N_TEXTS ? "bbbbbbbbbbbbbbbbbbbbbbbbbbbbb" : "a b");
    }
}

/* llama2.c's vocabulary, whose pieces are 8 + 6 bytes apart. */
static void write_flipping_pieces(void) {
    write_llama2c_vocabulary(259);
    for (size_t i = 0; i < N_TEXTS; i++) {
        add_bytes(&(float){-1}, 4);
        if (i + 1 < N_TEXTS) add_flip(n_file, 1, 6, 20);
        add_bytes(&(int32_t){6}, 4);
        add_bytes("      ", 6); /* each is three bytes to us */
    }
}

/* Every number that the header of a small file may have, at any place: most are refused, or make no difference. */
static void write_damaged(Base base) {
    static const uint64_t extremes[] = {0, 1, 7, 255, 1 << 24, INT32_MAX, UINT32_MAX, 1ull << 61, UINT64_MAX};
    size_t end = write_base(base);
    for (size_t at = 4; n_flips < N_TEXTS && at + 8 <= end; at++) {
        uint64_t value = 0;
        size_t bytes = at % 3 ? 4 : 8;
        memcpy(&value, file + at, bytes);
        add_flip(at, bytes, value, extremes[at % COUNT(extremes)]);
    }
}

static void wait_a_moment(void) {
    for (size_t n = any_below(4000); n > 0; n--) __asm__ volatile("");
}

/* Never returns. */
static void write_for_ever(Attack attack) {
    pid_t parent = getppid();
    int out = open(scratch_path(), O_RDWR);
    unsigned char *bytes = mmap(NULL, n_file, PROT_READ | PROT_WRITE, MAP_SHARED, out, 0);
    if (bytes == MAP_FAILED) _exit(1);
    for (;;) {
        const Flip *flip = &flips[any_below(n_flips)];
        if (attack == MIX) {
            memcpy(bytes + flip->at, any_below(2) ? &flip->large : &flip->small, flip->bytes);
        } else if (attack == CUT) {
            if (ftruncate(out, (off_t)any_below(n_file)) != 0 ||
                pwrite(out, file, n_file, 0) != (ssize_t)n_file)
                _exit(1);
            usleep(50);
        } else {
            memcpy(bytes + flip->at, &flip->large, flip->bytes);
            wait_a_moment();
            memcpy(bytes + flip->at, &flip->small, flip->bytes);
            wait_a_moment();
        }
        if (getppid() != parent) _exit(1);
    }
}

/* Loads the file and speaks its language, or is told in one line why not; returns whether it was loaded. */
static bool load(void) {
    Error error = {{0}};
    Tokens tokens = {0};
    Model *model = model_open(scratch_path(), &error);
    Checkpoint *own = model ? NULL : checkpoint_open(scratch_path(), &error);
    const Checkpoint *checkpoint = model ? model_checkpoint(model) : own;
    Tokenizer *tokenizer = checkpoint ? tokenizer_new(checkpoint, &error) : NULL;
    bool ok = tokenizer || model;
    if (tokenizer) tokenizer_encode(tokenizer, "ab 0001", 7, ENCODE_SPECIAL, &tokens, &error);
    if (!ok) check_message(&error, scratch_path(), "", "a file that changes");
    tokens_free(&tokens);
    tokenizer_free(tokenizer);
    checkpoint_close(own);
    model_close(model);
    return ok;
}

enum { LOADED = 0, NEVER_LOADED = 3, WRONG_MESSAGE = 4 }; /* exit codes, of which 1 is the signal handler's */

#if ADDRESS_SANITIZER /* its own is 1 otherwise */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "exitcode=99"; }
#endif

/* A process that loads the file some times. */
static pid_t start_loading(Attack attack) {
    pid_t child = fork();
    if (child != 0) return child;
    bool loaded = false;
    test_broken = 0;
    if (attack == CUT) catch_signals("changing"); /* and end with 1: no other file has an end to be met */
    for (int i = 0; i < LOADS_OF_A_PROCESS; i++) loaded = load() || loaded;
    fflush(stdout);
    _exit(test_broken ? WRONG_MESSAGE : loaded ? LOADED : NEVER_LOADED);
}

/* Loads the file, while another process writes to it, for some time. */
static void load_under(Attack attack, const char *what) {
    int n = 0, n_loaded = 0, n_wrong = 0, last = 0;
    scratch_write(file, n_file);
    fflush(stdout);
    pid_t writer = fork();
    if (writer == 0) write_for_ever(attack);
    double start = now_ms(), limit = getenv("ATTN_LONG_TESTS") ? 1500 : 120, spent = 0;
    for (; spent < limit || (n_loaded == 0 && spent < 20000); n++, spent = now_ms() - start) {
        int status = 0;
        waitpid(start_loading(attack), &status, 0);
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        bool ended = code == LOADED || code == NEVER_LOADED || (attack == CUT && code == EXIT_BAD_INPUT);
        n_loaded += code == LOADED;
        n_wrong += !ended;
        if (!ended) last = status;
    }
    kill(writer, SIGKILL);
    waitpid(writer, NULL, 0);
    CHECK(n_wrong == 0, "%s: %d of %d processes of %d loads each ended wrongly, the last with %s %d", what,
          n_wrong, n, LOADS_OF_A_PROCESS, WIFSIGNALED(last) ? "signal" : "exit code",
          WIFSIGNALED(last) ? WTERMSIG(last) : WEXITSTATUS(last));
    CHECK(n_loaded > 0, "%s: never loaded in %d processes", what, n);
}

static void test_texts(void) {
    n_flips = 0;
    write_flipping_texts();
    load_under(MIX, "texts of a vocabulary");
}

static void test_merges(void) {
    n_flips = 0;
    write_flipping_merges();
    load_under(MIX, "merges");
}

static void test_pieces(void) {
    n_flips = 0;
    write_flipping_pieces();
    load_under(MIX, "llama2.c's vocabulary");
}

static void test_headers(void) {
    static const char *const names[] = {"a Llama", "a GPT-2", "llama2.c's model", "a small vocabulary"};
    for (Base base = 0; base < N_BASES; base++) {
        n_flips = 0;
        write_damaged(base);
        load_under(DAMAGE, names[base]);
    }
}

/* Nobody's stderr is looked at here, but the exit code: a line of its own kind, not a signal. */
static void test_cuts(void) {
    int before = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
    n_flips = 0;
    write_flipping_texts();
    load_under(CUT, "a file cut again and again");
    dup2(before, STDERR_FILENO);
    close(before);
    close(nowhere);
}

/* ---- Many threads meet the end of a file ---- */

static void *raise_bus_error(void *unused) {
    raise(SIGBUS);
    return unused;
}

/* stderr is a full pipe, so that whoever speaks waits for the reader, who comes late. */
static void meet_the_end(int out) {
    pthread_t threads[8];
    static char filling[4096];
    memset(filling, '.', sizeof filling);
    fcntl(out, F_SETFL, O_NONBLOCK);
    while (write(out, filling, sizeof filling) > 0) continue;
    fcntl(out, F_SETFL, 0);
    dup2(out, STDERR_FILENO);
    catch_signals("changing");
    for (size_t i = 0; i < COUNT(threads); i++) pthread_create(&threads[i], NULL, raise_bus_error, NULL);
    for (size_t i = 0; i < COUNT(threads); i++) pthread_join(threads[i], NULL);
    _exit(98);
}

static void test_one_thread_speaks(void) {
    static char text[1 << 18];
    int ends[2], status = 0;
    size_t n = 0;
    CHECK(pipe(ends) == 0, "a pipe");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) meet_the_end(ends[1]);
    close(ends[1]);
    usleep(100000);
    for (ssize_t got; (got = read(ends[0], text + n, sizeof text - 1 - n)) > 0;) n += (size_t)got;
    close(ends[0]);
    waitpid(child, &status, 0);
    const char *line = strstr(text, "changing: the model's file was cut short");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_BAD_INPUT, "status %d", status);
    CHECK(line && strchr(line, '\n') == text + n - 1, "not one line: '%s'", line ? line : text);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash must not lose what was found before it */
    alarm(300);                       /* a test that hangs is a failure */
    scratch_begin();
    RUN(test_opened_is_kept);
    RUN(test_replaced_is_not_changed);
    RUN(test_one_thread_speaks);
    RUN(test_texts);
    RUN(test_merges);
    RUN(test_pieces);
    RUN(test_headers);
    RUN(test_cuts);
    scratch_end();
    return test_end();
}
