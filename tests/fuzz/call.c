/*
 * Makes a call of run, study or quantize within this process, and checks it: the exit code, the one line of a failure, JSON
 * that reads back, files that quantize makes open, none left half written, none changed that was read, and now and then that the same call says the same
 * again. What differs from one process to the next (clock, memory, terminal, signals) is put in the place of by the linker's
 * --wrap.
 */
#include "tests/anyfile.h" /* first, because it needs more of the system's headers */
#include "tests/anykeys.h"
#include "tests/fuzz/fuzz.h"

#include "base/json.h"
#include "base/threads.h"
#include "base/utf8.h"
#include "cli/llamacpp.h"
#include "cli/process.h"
#include "open.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int __wrap_isatty(int file);
const char *__asan_default_options(void);
void __wrap_catch_signals(const char *program);
uint64_t __wrap_clock_seed(void);
double __wrap_now_ms(void);
uint64_t __wrap_peak_rss_bytes(void);
void *__wrap_mmap(void *at, size_t n, int protection, int flags, int file, off_t offset);
void *__real_mmap(void *at, size_t n, int protection, int flags, int file, off_t offset);
int __wrap_open(const char *path, int flags, ...);
int __real_open(const char *path, int flags, ...);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__real_fopen(const char *path, const char *mode);
int __wrap_munmap(void *at, size_t n);
int __real_munmap(void *at, size_t n);
bool __wrap_tokenizer_encode_marked(const Tokenizer *tokenizer, String text, const char *marks,
                                    Tokens *tokens, Error *error);
bool __real_tokenizer_encode_marked(const Tokenizer *tokenizer, String text, const char *marks,
                                    Tokens *tokens, Error *error);

enum { MAX_WORDS = 48, WORD_BYTES = 4096, MAX_TEXT = 1000 /* bytes of a text that is read */ };

/* Larger sizes are "not enough memory", which programs must bear. */
__attribute__((visibility("default"))) const char *__asan_default_options(void) {
    return "max_allocation_size_mb=256:allocator_may_return_null=1";
}

/* The call under way. */
static bool has_stdin, has_terminal;
static double clock_ms;
static bool twice; /* it is made again */

/*
 * A mapped file becomes a copy with as many bytes, so that ASan sees each one that is read behind them: the rest of a page
 * it does not.
 */
static void *copies[16];

void *__wrap_mmap(void *at, size_t n, int protection, int flags, int file, off_t offset) {
    if (file < 0) return __real_mmap(at, n, protection, flags, file, offset);
    size_t i = 0;
    while (i < 16 && copies[i]) i++;
    if (i == 16 || posix_memalign(&copies[i], 4096, n) != 0) return MAP_FAILED;
    if (pread(file, copies[i], n, offset) != (ssize_t)n) abort();
    return copies[i];
}

int __wrap_munmap(void *at, size_t n) {
    for (size_t i = 0; i < 16; i++)
        if (copies[i] == at) {
            free(at);
            copies[i] = NULL;
            return 0;
        }
    return __real_munmap(at, n);
}

int __wrap_isatty(int file) { return file == STDIN_FILENO ? !has_stdin : has_terminal; }
void __wrap_catch_signals(const char *program) { (void)program; }
uint64_t __wrap_clock_seed(void) { return 42; }
double __wrap_now_ms(void) { return clock_ms++; }
uint64_t __wrap_peak_rss_bytes(void) { return 1 << 20; }

/* Whether a token that is no text stands for what is unknown: then some byte becomes it without being asked for. */
static bool is_unknown(const Tokenizer *tokenizer, int32_t id) {
    Tokens tokens = {0};
    bool is = false;
    for (int byte = 0; byte < 256 && !is; byte++) {
        char text = (char)byte;
        Error error;
        tokens.n = 0;
        tokenizer_encode(tokenizer, &text, 1, 0, &tokens, &error);
        for (size_t i = 0; i < tokens.n; i++) is = is || tokens.ids[i] == id;
    }
    tokens_free(&tokens);
    return is;
}

/* How many of them are control tokens. */
static size_t count_control(const Tokenizer *tokenizer, const int32_t *ids, size_t n) {
    size_t n_control = 0;
    for (size_t i = 0; i < n; i++)
        n_control += tokenizer_piece(tokenizer, ids[i], false).n == 0 &&
                     tokenizer_piece(tokenizer, ids[i], true).n > 0 && !is_unknown(tokenizer, ids[i]);
    return n_control;
}

/* The control tokens of a conversation are those that it has where all that is from outside is DELs, of which none is made. */
bool __wrap_tokenizer_encode_marked(const Tokenizer *tokenizer, String text, const char *marks,
                                    Tokens *tokens, Error *error) {
    size_t first = tokens->n;
    bool ok = __real_tokenizer_encode_marked(tokenizer, text, marks, tokens, error), has_del = false;
    for (size_t id = 0; id < tokenizer_n_vocab(tokenizer); id++) {
        String name = tokenizer_piece(tokenizer, (int32_t)id, true);
        has_del = has_del || memchr(name.data, 0x7f, name.n);
    }
    char *other = malloc(text.n + 1);
    Tokens wanted = {0};
    Error why;
    for (size_t i = 0; other && i < text.n; i++) other[i] = marks[i] ? 0x7f : text.data[i];
    bool judged =
        ok && other && !has_del && tokenizer_encode(tokenizer, other, text.n, ENCODE_SPECIAL, &wanted, &why);
    size_t n = judged ? count_control(tokenizer, tokens->ids + first, tokens->n - first) : 0;
    if (judged && n != count_control(tokenizer, wanted.ids, wanted.n)) {
        fprintf(stderr, "WRONG: %zu control tokens of '%.*s', and the template wrote %zu\n", n, (int)text.n,
                text.data, count_control(tokenizer, wanted.ids, wanted.n));
        abort();
    }
    tokens_free(&wanted);
    free(other);
    return ok;
}

/* ---- Calls as bytes ---- */

Call call_read(const unsigned char *bytes, size_t n) {
    Call call = {.n = 0};
    size_t at = 0;
    while (call.n < MAX_PARTS && n - at > 4 && bytes[at + 1] == ' ') {
        size_t length = 0, i = at + 2;
        while (i < n && isdigit(bytes[i]) && length <= n) length = 10 * length + bytes[i++] - '0';
        if (i == n || bytes[i] != '\n' || length > n - i - 1) break;
        call.parts[call.n++] = (Part){(char)bytes[at], bytes + i + 1, length};
        at = i + 1 + length;
        if (at == n || bytes[at] != '\n') break;
        at++;
    }
    return call;
}

size_t call_write(const Call *call, unsigned char *bytes, size_t room) {
    size_t n = 0;
    for (size_t i = 0; i < call->n; i++) {
        const Part *part = &call->parts[i];
        char head[32];
        size_t n_head = (size_t)snprintf(head, sizeof head, "%c %zu\n", part->tag, part->n);
        if (n_head + part->n + 1 > room - n) continue;
        memcpy(bytes + n, head, n_head);
        if (part->n) memcpy(bytes + n + n_head, part->bytes, part->n);
        n += n_head + part->n;
        bytes[n++] = '\n';
    }
    return n;
}

void call_add(Call *call, char tag, const void *bytes, size_t n) {
    if (call->n < MAX_PARTS) call->parts[call->n++] = (Part){tag, bytes, n};
}

Part *call_find(Call *call, char tag) {
    for (size_t i = 0; i < call->n; i++)
        if (call->parts[i].tag == tag) return &call->parts[i];
    return NULL;
}

/* ---- The folder where calls are made ---- */

static int folder = -1, home = -1;

/* Removes the files in the folder that `keep` does not want kept. */
static void empty_folder(bool (*keep)(const char *name)) {
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY);
    DIR *entries = fdopendir(copy);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (entry->d_name[0] != '.' && !keep(entry->d_name)) unlinkat(folder, entry->d_name, 0);
    closedir(entries);
}

static char folder_path[256];

static bool none(const char *name) {
    (void)name;
    return false;
}

static void folder_end(void) {
    empty_folder(none);
    rmdir(folder_path);
}

static void folder_begin(void) {
    const char *parent = getenv("TMPDIR");
    snprintf(folder_path, sizeof folder_path, "%.200s/attn-fuzz.XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(folder_path)) {
        perror(folder_path);
        exit(1);
    }
    home = open(".", O_RDONLY | O_DIRECTORY);
    folder = open(folder_path, O_RDONLY | O_DIRECTORY);
    atexit(folder_end);
}

const char file_tags[] = "abmcsjovrdlpu";
const char *const file_names[] = {"a",
                                  "b",
                                  "model.bin",
                                  "config.json",
                                  "model.safetensors",
                                  "tokenizer.json",
                                  "tokenizer.model",
                                  "vocab.json",
                                  "merges.txt",
                                  "tokenizer_config.json",
                                  "added_tokens.json",
                                  "pytorch_model.bin",
                                  "answers"};

static const char *file_of(char tag) {
    const char *at = tag ? strchr(file_tags, tag) : NULL;
    return at ? file_names[at - file_tags] : NULL;
}

/* Which of these files the call has opened to read them; it must leave them as they are. */
static bool was_read[sizeof file_tags];

static void note_reading(const char *path) {
    const char *slash = strrchr(path, '/');
    for (size_t i = 0; file_tags[i]; i++)
        was_read[i] = was_read[i] || strcmp(slash ? slash + 1 : path, file_names[i]) == 0;
}

int __wrap_open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    bool makes = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
    mode_t mode = makes ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if ((flags & (O_ACCMODE | O_DIRECTORY)) == O_RDONLY) note_reading(path);
    return __real_open(path, flags, mode);
}

FILE *__wrap_fopen(const char *path, const char *mode) {
    if (*mode == 'r') note_reading(path);
    return __real_fopen(path, mode);
}

static void write_file(const char *name, const unsigned char *bytes, size_t n) {
    int file = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || (n && write(file, bytes, n) != (ssize_t)n)) abort();
    close(file);
}

/* ---- The call ---- */

static char words[MAX_WORDS][WORD_BYTES];
static char *arguments[MAX_WORDS + 8];
static int n_arguments;

/* Whether a word is this option, with or without a value behind "=". */
static bool is_named(const char *word, const char *name) {
    size_t n = name ? strlen(name) : 0;
    return n > 0 && strncmp(word, name, n) == 0 && (!word[n] || (word[n] == '=' && name[1] == '-'));
}

static const Option *find_option(const Options *options, const char *word) {
    for (size_t i = 0; i < options->n; i++) {
        const Option *option = &options->table[i];
        if (is_named(word, option->name) || is_named(word, option->short_name)) return option;
    }
    return NULL;
}

static bool calls(const char *program) { return strcmp(arguments[0], program) == 0; }

/* The option of llama.cpp that a word is to run. */
static const ForeignOption *find_foreign(const char *word) {
    for (size_t i = 0; calls("run") && i < llamacpp_options.n; i++)
        for (size_t k = 0; k < 3; k++)
            if (is_named(word, llamacpp_options.table[i].names[k])) return &llamacpp_options.table[i];
    return NULL;
}

/* The option that a word is to the program that is called, if it is one. */
static const Option *known(const char *word) {
    const ForeignOption *foreign = find_foreign(word);
    if (calls("run")) return find_option(&fuzz_run_options, foreign && foreign->ours ? foreign->ours : word);
    if (calls("quantize")) return find_option(&fuzz_quantize_options, word);
    const Option *option = NULL;
    for (size_t i = 0; i < 3 && !option; i++) option = find_option(&shared_options[i], word);
    for (size_t i = 0; i < fuzz_n_views && !option; i++)
        if (strcmp(fuzz_views[i]->name, arguments[1]) == 0)
            option = find_option(&(Options){fuzz_views[i]->options, fuzz_views[i]->n_options, NULL}, word);
    return option;
}

/* Whether the next word is the value of word i. */
static bool takes_next(int i) {
    const Option *option = known(arguments[i]);
    const ForeignOption *foreign = find_foreign(arguments[i]);
    if (strncmp(arguments[i], "--", 2) == 0 && strchr(arguments[i], '=')) return false;
    bool is_last = i + 1 >= n_arguments;
    if (option && option->kind == OPTION_SWITCH) return !is_last && arguments[i + 1][0] != '-';
    if (option) return option->kind != OPTION_ON && option->kind != OPTION_OFF;
    return foreign && (foreign->takes == TAKES_VALUE ||
                       (foreign->takes == TAKES_SWITCH && !is_last && is_switch(arguments[i + 1])));
}

/* Where the word stands as an option, or as a file, and not as the value of an option; 0: nowhere. */
static int said(const char *word) {
    for (int i = 1; i < n_arguments; i += 1 + takes_next(i)) {
        const ForeignOption *foreign = find_foreign(arguments[i]);
        if (strcmp(arguments[i], word) == 0) return i;
        if (foreign && foreign->ours && strcmp(foreign->ours, word) == 0) return i;
    }
    return 0;
}

/* The value behind word i if that is this option, behind "=" or as the next word; NULL: there is none. */
static char *value_at(int i, const char *name, const char *short_name) {
    char *equals = strchr(arguments[i], '=');
    if (!is_named(arguments[i], name) && !is_named(arguments[i], short_name)) return NULL;
    if (strncmp(arguments[i], "--", 2) == 0 && equals) return equals + 1;
    return i + 1 < n_arguments ? arguments[i + 1] : NULL;
}

/* The value of an option that is said; or NULL. */
static char *given(const char *name, const char *short_name) {
    for (int i = 1; i < n_arguments; i += 1 + takes_next(i)) {
        char *value = value_at(i, name, short_name);
        if (value) return value;
    }
    return NULL;
}

/* The file of requests, if they are run's to answer; or NULL. */
static char *data_set(void) { return calls("run") ? given("--batch", NULL) : NULL; }

/* Whether a file is read as a text; a long one would take long. */
static bool is_text(const char *name) {
    static const char *const options[][2] = {{"--file", "-f"}, {"--with", NULL}, {"--batch", NULL}};
    for (int i = 1; i < n_arguments; i++)
        for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
            const char *value = value_at(i, options[k][0], options[k][1]);
            if (value && strcmp(value, name) == 0) return true;
        }
    return false;
}

/* "--logits=out" */
static bool is_value(const char *argument, const char *word) {
    const char *equals = strncmp(argument, "--", 2) == 0 ? strchr(argument, '=') : NULL;
    return equals && strcmp(equals + 1, word) == 0;
}

static bool is_argument(const char *word) {
    for (int i = 1; i < n_arguments; i++)
        if (strcmp(arguments[i], word) == 0 || is_value(arguments[i], word)) return true;
    return false;
}

/* No word leads out of the folder: "/" becomes "_", but of devices that bear it. */
static void add_word(const char *text, size_t n) {
    if (n_arguments == MAX_WORDS) return;
    char *word = words[n_arguments];
    if (n >= WORD_BYTES) n = WORD_BYTES - 1;
    memcpy(word, text, n);
    word[n] = '\0';
    bool device = strcmp(word, "/dev/full") == 0 || strcmp(word, "/dev/null") == 0;
    for (char *c = word; *c && !device; c++)
        if (*c == '/') *c = '_';
    arguments[n_arguments++] = word;
}

/* A count that is legal but would take long becomes a small one; which are refused stay. */
static void limit(const char *name, const char *short_name, long long most) {
    for (int i = 1; i < n_arguments; i++) {
        char *text = value_at(i, name, short_name), *end;
        long long value = text ? strtoll(text, &end, 10) : 0;
        if (text && !*end && (value > most || value == -1) && value <= 1000000000)
            snprintf(text, WORD_BYTES / 2, "%lld", value < 0 ? most : value % most + 1);
    }
}

/* "-n 4" and the like where none is given, right behind the program's or the view's name. */
static void give(int at, const char *name, const char *short_name, const char *value) {
    if (said(name) || said(short_name) || n_arguments + 2 > MAX_WORDS || n_arguments < at) return;
    memmove(arguments + at + 2, arguments + at, (size_t)(n_arguments - at) * sizeof *arguments);
    static char extra[4][2][16];
    static int used;
    used = (used + 1) % 4;
    snprintf(extra[used][0], 16, "%s", short_name);
    snprintf(extra[used][1], 16, "%s", value);
    arguments[at] = extra[used][0], arguments[at + 1] = extra[used][1];
    n_arguments += 2;
}

static void ask(const Call *call) {
    n_arguments = 0;
    for (size_t i = 0; i < call->n; i++)
        if (call->parts[i].tag == 'w') add_word((const char *)call->parts[i].bytes, call->parts[i].n);
    if (n_arguments == 0) add_word("load", 4);
    const char *view = n_arguments > 1 ? arguments[1] : "";
    limit("--threads", "-t", 3);
    limit("--predict", "-n", 8);
    limit("--n-predict", NULL, 8);
    limit("--batch", NULL, 3);
    limit("--repeat", NULL, 40);
    limit("--parallel", "-np", 4);
    if (strcmp(view, "shape") != 0) limit("--ctx-size", "-c", 96);
    if (calls("run") && n_arguments > 1) give(1, "--predict", "-n", "3");
    if (!calls("study") && n_arguments > 1) give(1, "--threads", "-t", "1");
    if (calls("study") && n_arguments > 2 && strcmp(view, "case") != 0 && strcmp(view, "shape") != 0)
        give(2, "--threads", "-t", "1");
    arguments[n_arguments] = NULL;
    if (data_set() && strcmp(data_set(), "/dev/full") == 0)
        strcpy(data_set(), "/dev/null"); /* that has no end */
}

/* ---- Its outcome ---- */

typedef struct Outcome {
    int code;
    char *out, *err;
    size_t n_out, n_err;
} Outcome;

static void __attribute__((noreturn)) wrong(const Outcome *outcome, const char *what) {
    fprintf(stderr, "WRONG: %s; exit %d\n  ", what, outcome->code);
    for (int i = 0; i < n_arguments; i++) fprintf(stderr, " '%s'", arguments[i]);
    fprintf(stderr, "\n  stderr: %.2000s\n  stdout: %.400s\n", outcome->err, outcome->out);
    fflush(stderr);
    abort();
}

/* The bytes of a style or a progress line of our own that the text begins with, of those that report.c knows; or 0. */
static size_t own_escape(const char *text) {
    static const char *const escapes[] = {"\r",      "\033[K",   "\033[0m", "\033[1m",
                                          "\033[2m", "\033[31m", "\033[32m"};
    static const char blue[] = "\033[48;5;";
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
        if (strncmp(text, escapes[i], strlen(escapes[i])) == 0) return strlen(escapes[i]);
    size_t digits =
        strncmp(text, blue, sizeof blue - 1) == 0 ? strspn(text + sizeof blue - 1, "0123456789") : 0;
    return digits && text[sizeof blue - 1 + digits] == 'm' ? sizeof blue + digits : 0;
}

/* A terminal is given lines, tabs, our own escapes, and what is safe. */
static void check_terminal(const Outcome *outcome, const char *text, size_t n) {
    uint32_t c;
    for (size_t at = 0; at < n;) {
        size_t own = own_escape(text + at);
        if (own) {
            at += own;
            continue;
        }
        at += utf8_decode(text + at, n - at, &c);
        if (!utf8_is_safe(c)) wrong(outcome, "an unsafe character on a terminal");
    }
}

/* One line for a failure, besides notes, and each begins with the program's name. */
static void check_stderr(const Outcome *outcome, const char *program) {
    size_t n_program = strlen(program), n_failures = 0;
    if (has_terminal) {
        check_terminal(outcome, outcome->out, outcome->n_out);
        check_terminal(outcome, outcome->err, outcome->n_err);
        return;
    }
    for (const char *line = outcome->err, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        if (!end) wrong(outcome, "a line on stderr without an end");
        bool timing = outcome->code == 0 && (said("-v") || said("--verbose"));
        if (!is_safe_line(line, (size_t)(end - line))) wrong(outcome, "an unsafe character on stderr");
        if (timing || *line == ' ') continue; /* of -v; of /help */
        if (strncmp(line, program, n_program) != 0 || strncmp(line + n_program, ": ", 2) != 0)
            wrong(outcome, "a line on stderr without the program's name");
        n_failures += strncmp(line + n_program, ": note: ", 8) != 0;
    }
    if (strlen(outcome->err) != outcome->n_err) wrong(outcome, "a NUL on stderr");
    if (outcome->code != 0 && n_failures != 1) wrong(outcome, "a failure should say one line");
}

static void check_stdout(const Outcome *outcome) {
    const char *view = n_arguments > 1 ? arguments[1] : "";
    bool verdict = strcmp(view, "case") == 0 || strcmp(view, "selfcheck") == 0;
    if (outcome->code == 2 && outcome->n_out) wrong(outcome, "wrong usage, and a report all the same");
    if (outcome->code == 1 && outcome->n_out && !calls("run") && !verdict)
        wrong(outcome, "a failure with half a report");
    bool helps = said("--help") || said("-h") || said("--version");
    if (!said("--json") || helps || (outcome->code == 1 && outcome->n_out == 0) || outcome->code == 2) return;
    if (calls("run") && (said("--info") || said("--tokens"))) return;
    Error error;
    Json *json = json_parse(outcome->out, outcome->n_out, &error);
    if (!json) {
        fprintf(stderr, "JSON: %s\n", error.message);
        if (strstr(error.message, "not enough memory") == NULL)
            wrong(outcome, "JSON that cannot be read back");
    }
    json_free(json);
}

/* A file that quantize has made opens. */
static void check_made(const Outcome *outcome) {
    Error error;
    bool made = fchdir(folder) == 0 && outcome->code == 0 && access("out", F_OK) == 0;
    Checkpoint *checkpoint = made ? checkpoint_open("out", &error) : NULL;
    if (made && !checkpoint)
        fprintf(stderr, "%s\n", error.message), wrong(outcome, "a file that does not open");
    checkpoint_close(checkpoint);
    if (fchdir(home) != 0) abort();
}

/* A file that the call read is what the part is, of which n bytes were written. */
static void check_kept(const Outcome *outcome, const Part *part, const char *name, size_t n) {
    static unsigned char bytes[1 << 18];
    int file = openat(folder, name, O_RDONLY);
    ssize_t got = file < 0 ? -1 : read(file, bytes, sizeof bytes);
    close(file);
    if (n < sizeof bytes && (got != (ssize_t)n || memcmp(bytes, part->bytes, n) != 0))
        wrong(outcome, "a file that was read is another now");
}

static const Outcome *being_checked;

static bool was_asked_for(const char *name) {
    for (size_t i = 0; file_tags[i]; i++)
        if (strcmp(name, file_names[i]) == 0) return true;
    bool may_fail_later =
        said("-i") || said("--interactive") || data_set(); /* than --logits is written, or some answers */
    if (said("--chat")) return false;                      /* /save */
    if (!is_argument(name) || (being_checked->code != 0 && !may_fail_later))
        wrong(being_checked, "a file left behind");
    return false;
}

/* ---- The call ---- */

/* Typed lines lead out of the folder no more than words do. */
static const unsigned char *typed_bytes(const Part *typed) {
    static unsigned char bytes[MAX_TEXT];
    for (size_t i = 0; i < typed->n && i < MAX_TEXT; i++) {
        bool within = i > 0 && typed->bytes[i - 1] != '\n';
        bytes[i] = typed->bytes[i] == '/' && within ? '_' : typed->bytes[i];
    }
    return bytes;
}

/* A file without a name, at its beginning. */
static int unnamed_file(const void *bytes, size_t n) {
    int file = openat(folder, ".stream", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || unlinkat(folder, ".stream", 0) != 0 || write(file, n ? bytes : "", n) != (ssize_t)n ||
        lseek(file, 0, SEEK_SET) != 0)
        abort();
    return file;
}

/* Puts a file in the place of another, of which a copy is returned. */
static int put_in_place(int file, int other) {
    int copy = dup(file);
    if (copy < 0 || dup2(other, file) < 0) abort();
    return copy;
}

static void put_back(int file, int copy) {
    if (dup2(copy, file) < 0) abort();
    close(copy);
}

/* A data set is read and written without streams: what was written that way is appended to `out`. */
static int call_with_files(const void *bytes, size_t n, FILE *out, char **argv) {
    char block[4096];
    ssize_t got;
    int files[] = {unnamed_file(bytes, n), unnamed_file(NULL, 0)};
    int kept[] = {put_in_place(STDIN_FILENO, files[0]), put_in_place(STDOUT_FILENO, files[1])};
    int code = run_main(n_arguments, argv);
    for (int i = 0; i < 2; i++) put_back(i, kept[i]);
    if (lseek(files[1], 0, SEEK_SET) != 0) abort();
    while ((got = read(files[1], block, sizeof block)) > 0) fwrite(block, 1, (size_t)got, out);
    close(files[0]), close(files[1]);
    return code;
}

static Outcome perform(const Part *input) {
    FILE *const streams[] = {stdin, stdout, stderr};
    size_t n_input = !input ? 0 : input->n < MAX_TEXT ? input->n : MAX_TEXT;
    Outcome outcome = {0};
    const unsigned char *bytes = n_input && input->tag == 'y' ? typed_bytes(input)
                                 : n_input                    ? input->bytes
                                                              : NULL;
    FILE *in = fmemopen(n_input ? (void *)(uintptr_t)bytes : "", n_input, "r");
    FILE *out = open_memstream(&outcome.out, &outcome.n_out);
    FILE *err = open_memstream(&outcome.err, &outcome.n_err);
    if (!in || !out || !err || fchdir(folder) != 0) abort();
    stdin = in, stdout = out, stderr = err;
    clock_ms = 0;
    char *argv[MAX_WORDS + 8]; /* programs may not change it, but views keep it */
    memcpy(argv, arguments, sizeof argv);
    if (data_set())
        outcome.code = call_with_files(bytes, n_input, out, argv);
    else
        outcome.code = (calls("run")     ? run_main
                        : calls("study") ? study_main
                                         : quantize_main)(n_arguments, argv);
    stdin = streams[0], stdout = streams[1], stderr = streams[2];
    fclose(in), fclose(out), fclose(err);
    if (fchdir(home) != 0) abort();
    return outcome;
}

static void release(Outcome *outcome) {
    free(outcome->out);
    free(outcome->err);
}

static void show(const Outcome *outcome) {
    for (int i = 0; i < n_arguments; i++) fprintf(stderr, "'%s' ", arguments[i]);
    fprintf(stderr, "\nexit %d\n%.*s%.*s", outcome->code, (int)outcome->n_out, outcome->out,
            (int)outcome->n_err, outcome->err);
}

/* How much of a part is written to its file. */
static size_t written(const Part *part, const char *name) {
    return part->n > MAX_TEXT && is_text(name) ? MAX_TEXT : part->n;
}

static void check_read(const Outcome *outcome, Call *call) {
    for (size_t i = call->n; i-- > 0;) {
        const char *name = file_of(call->parts[i].tag);
        bool *read_it = name ? &was_read[strchr(file_tags, call->parts[i].tag) - file_tags] : NULL;
        if (read_it && *read_it) check_kept(outcome, &call->parts[i], name, written(&call->parts[i], name));
        if (read_it) *read_it = false; /* of two parts with a name the last was written last */
    }
}

/* ---- Data sets ---- */

enum { MOST_ANSWERS = 1 << 20 /* bytes */ };

static bool is_blank(const char *line, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') return false;
    return true;
}

static size_t count_requests(const char *text, size_t n) {
    size_t count = 0;
    for (size_t at = 0, end; at < n; at = end + 1) {
        const char *newline = memchr(text + at, '\n', n - at);
        end = newline ? (size_t)(newline - text) : n;
        count += !is_blank(text + at, end - at);
    }
    return count;
}

/* Each line is whole, and an object. Returns how many there are. */
static size_t check_lines(const Outcome *outcome, const char *text, size_t n) {
    size_t count = 0;
    Error error;
    for (const char *end; n > 0; n -= (size_t)(end + 1 - text), text = end + 1, count++) {
        end = memchr(text, '\n', n);
        if (!end) wrong(outcome, "an answer that is torn");
        Json *json = json_parse(text, (size_t)(end - text), &error);
        if (json ? json->kind != JSON_OBJECT : !strstr(error.message, "not enough memory"))
            fprintf(stderr, "%.*s\n", (int)(end - text), text), wrong(outcome, "an answer that is no object");
        json_free(json);
    }
    return count;
}

/* The bytes of a file in the folder, of at most MOST_ANSWERS; false where there is no such file. */
static bool read_back(const char *name, char *bytes, size_t *n) {
    struct stat status;
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode)) return false;
    int file = openat(folder, name, O_RDONLY);
    ssize_t got = file < 0 ? -1 : read(file, bytes, MOST_ANSWERS);
    if (got < 0 || got == MOST_ANSWERS) abort();
    close(file);
    *n = (size_t)got;
    return true;
}

/* The part that was the file of that name before the call; or NULL. */
static const Part *part_named(const Call *call, const char *name) {
    for (size_t i = call->n; i-- > 0;) {
        const char *own = file_of(call->parts[i].tag);
        if (own && strcmp(own, name) == 0) return &call->parts[i];
    }
    return NULL;
}

/* A sum of its lines, whatever their order. */
static uint64_t sum_of_lines(const char *text, size_t n) {
    uint64_t sum = 0, line = 0;
    for (size_t i = 0; i < n; i++) {
        line = (line ^ (unsigned char)text[i]) * 0x100000001b3u;
        if (text[i] == '\n') sum += line, line = 0;
    }
    return sum;
}

/* The answers, cut at some byte, become the same again. */
static void check_resumed(const Outcome *outcome, const Part *input, size_t cut, const char *name,
                          const char *bytes, size_t n) {
    static char again[MOST_ANSWERS];
    size_t n_again = 0;
    write_file(name, (const unsigned char *)bytes, cut);
    Outcome second = perform(input);
    if (second.code != 0) show(&second), wrong(outcome, "answers that were cut, and no others");
    bool same = read_back(name, again, &n_again) && n_again == n;
    if (same && said("--in-order")) same = memcmp(bytes, again, n) == 0;
    if (!same || sum_of_lines(bytes, n) != sum_of_lines(again, n))
        fprintf(stderr, "%.*s\n%.*s\n", (int)n, bytes, (int)n_again, again),
            wrong(outcome, "answers that were cut are others now");
    release(&second);
}

/* An answer for each request; a file of answers keeps the lines that it had, or, where that is refused, all. */
static void check_answers(const Outcome *outcome, Call *call, const Part *input) {
    static char bytes[MOST_ANSWERS], requests[MOST_ANSWERS];
    char number[16];
    const char *from = data_set(), *to = given("--output", "-o");
    size_t n = 0, n_requests = 0, n_lines = check_lines(outcome, outcome->out, outcome->n_out);
    const Part *cut = call_find(call, 'h'), *old = to ? part_named(call, to) : NULL;
    if (!to && outcome->code == 0) {
        bool is_stdin = strcmp(from, "-") == 0;
        if (is_stdin && input)
            n_requests = count_requests((const char *)(input->tag == 'y' ? typed_bytes(input) : input->bytes),
                                        input->n < MAX_TEXT ? input->n : MAX_TEXT);
        else if (!is_stdin && read_back(from, requests, &n))
            n_requests = count_requests(requests, n);
        if (n_lines != n_requests) wrong(outcome, "another number of answers than of requests");
    }
    if (!to || strcmp(to, from) == 0 || !read_back(to, bytes, &n)) return;
    size_t n_old = old ? written(old, to) : 0;
    if (outcome->code != 0) {
        if (old && (n != n_old || memcmp(bytes, old->bytes, n) != 0))
            wrong(outcome, "a file of answers that was refused is another now");
        return;
    }
    n_lines = check_lines(outcome, bytes, n);
    if (n_lines == 0 || strncmp(bytes, "{\"answers_of\": ", 15) != 0)
        wrong(outcome, "answers without a first line");
    while (n_old > 0 && old->bytes[n_old - 1] != '\n') n_old--;
    if (n_old > n || (n_old && memcmp(bytes, old->bytes, n_old) != 0))
        wrong(outcome, "answers that are lost");
    if (!cut || old) return;
    snprintf(number, sizeof number, "%.*s", (int)cut->n, (const char *)cut->bytes);
    check_resumed(outcome, input, n, to, bytes, n);
    check_resumed(outcome, input, strtoul(number, NULL, 10) % (n + 1), to, bytes, n);
}

static void call_program(Call *call) {
    const Part *input = call_find(call, 'i'), *kernel = call_find(call, 'k');
    char name[16] = "";
    has_stdin = input != NULL;
    if (!input) input = call_find(call, 'y');
    has_terminal = call_find(call, 't') != NULL;
    if (kernel) snprintf(name, sizeof name, "%.*s", (int)kernel->n, (const char *)kernel->bytes);
    setenv("ATTN_KERNEL", name, 1);
    setenv("TERM", "dumb", 1); /* keys are none that this process could read */
    memset(was_read, 0, sizeof was_read);
    Outcome outcome = perform(input);
    check_read(&outcome, call);
    being_checked = &outcome;
    if (getenv("FUZZ_SHOW")) show(&outcome);
    if (outcome.code < 0 || outcome.code > 2) wrong(&outcome, "an exit code that there is none of");
    check_stderr(&outcome, arguments[0]);
    check_stdout(&outcome);
    if (calls("quantize")) check_made(&outcome);
    bool tells = said("--help") || said("-h") || said("--version");
    if (data_set() && !tells) check_answers(&outcome, call, input);
    empty_folder(was_asked_for);
    if (twice) {
        Outcome again = perform(input);
        if (again.code != outcome.code || again.n_out != outcome.n_out ||
            memcmp(again.out, outcome.out, outcome.n_out) != 0)
            show(&again), wrong(&outcome, "the same call says something else");
        release(&again);
    }
    release(&outcome);
}

void fuzz_call(const unsigned char *bytes, size_t n) {
    if (folder < 0) folder_begin();
    Call call = call_read(bytes, n);
    twice = n % 16 == 0;
    ask(&call);
    if (calls("keys")) {
        const Part *keys = call_find(&call, 'i');
        const char *problem = keys ? try_keys(keys->bytes, keys->n) : NULL;
        if (problem) fprintf(stderr, "WRONG: %s\n", problem), abort();
        return;
    }
    if (!calls("run") && !calls("study") && !calls("quantize")) {
        const Part *seed = call_find(&call, 'A'), *file = call_find(&call, 'a'),
                   whole = seed ? seed_file(seed) : (Part){0};
        if (seed) file = &whole;
        if (file) try_any_file(file->bytes, file->n);
        return;
    }
    empty_folder(none);
    for (size_t i = 0; i < call.n; i++) {
        Part *part = &call.parts[i];
        if (strchr("ABM", part->tag)) *part = seed_file(part);
        const char *name = file_of(part->tag);
        if (name) write_file(name, part->bytes, written(part, name));
    }
    call_program(&call);
}
