#include "cli.h"

#include "npy.h"
#include "unicode.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t was_interrupted;
static char cut_short[96]; /* what on_bus_error says: it must not format anything itself */

static bool set_int(const Option *option, const char *text, Error *error) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || (double)value < option->min || (double)value > option->max)
        return error_set(error, "%s takes a whole number from %.0f to %.0f, not '%s'", option->name,
                         option->min, option->max, text);
    *(int64_t *)option->value = value;
    return true;
}

static bool set_real(const Option *option, const char *text, Error *error) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= option->min && value <= option->max))
        return error_set(error, "%s takes a number from %g to %g, not '%s'", option->name, option->min,
                         option->max, text);
    *(float *)option->value = (float)value;
    return true;
}

static bool append(StringList *list, const char *text, Error *error) {
    const char **items = realloc(list->items, (list->n + 1) * sizeof *items);
    if (!items) return error_set(error, "not enough memory");
    list->items = items;
    list->items[list->n++] = text;
    return true;
}

static bool set(const Option *option, const char *text, Error *error) {
    switch (option->kind) {
    case OPTION_ON: *(bool *)option->value = true; return true;
    case OPTION_OFF: *(bool *)option->value = false; return true;
    case OPTION_TEXT: *(const char **)option->value = text; return true;
    case OPTION_LIST: return append(option->value, text, error);
    case OPTION_INT: return set_int(option, text, error);
    case OPTION_REAL: return set_real(option, text, error);
    }
    return false;
}

bool options_parse(const Option *options, size_t n_options, int argc, char **argv, const char **models,
                   size_t n_models, Error *error) {
    size_t n = 0;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        const Option *option = NULL;
        for (size_t j = 0; j < n_options && !option; j++)
            if (strcmp(word, options[j].name) == 0 ||
                (options[j].short_name && strcmp(word, options[j].short_name) == 0))
                option = &options[j];
        if (!option && word[0] == '-' && word[1])
            return error_set(error, "unknown option %s%s", word,
                             strchr(word, '=') ? " (its value is a word of its own)" : "");
        if (!option && n == n_models)
            return n == 0 ? error_set(error, "unexpected word '%s'", word)
                          : error_set(error, "%s: '%s' after '%s'",
                                      n == 1 ? "one model at a time" : "two models at most", word,
                                      models[n - 1]);
        if (!option) {
            models[n++] = word;
            continue;
        }
        bool takes_value = option->kind != OPTION_ON && option->kind != OPTION_OFF;
        if (takes_value && i + 1 == argc) return error_set(error, "%s needs a value", word);
        if (!set(option, takes_value ? argv[++i] : NULL, error)) return false;
    }
    return true;
}

Tokenizer *open_vocabulary(const char *path, const Checkpoint *own, Checkpoint **file, Error *error) {
    *file = NULL;
    if (path && !(*file = checkpoint_open(path, error))) return NULL;
    const Checkpoint *source = path ? *file : own;
    if (checkpoint_has(source, "tokenizer.ggml.model")) return tokenizer_new(source, error);
    error_set(error, "%s: holds no vocabulary; name a file that does with -z", checkpoint_path(source));
    return NULL;
}

bool check_vocabulary(const Model *model, const Tokenizer *tokenizer, const char *path, Error *error) {
    size_t n_vocab = model_config(model)->n_vocab;
    if (tokenizer_n_vocab(tokenizer) == n_vocab) return true;
    return error_set(error, "%s: embeds %zu tokens, but the vocabulary%s%s has %zu",
                     checkpoint_path(model_checkpoint(model)), n_vocab, path ? " of " : "", path ? path : "",
                     tokenizer_n_vocab(tokenizer));
}

bool read_text(const char *path, TextBuffer *text, Error *error) {
    bool from_stdin = strcmp(path, "-") == 0;
    FILE *file = from_stdin ? stdin : fopen(path, "rb");
    if (!file) return error_set(error, "%s: cannot open: %s", path, strerror(errno));
    bool ok = true;
    errno = 0;
    while (ok && !feof(file) && !ferror(file) && !was_interrupted) {
        if (text->capacity - text->n < 65536) {
            size_t capacity = 2 * text->capacity + 65536;
            char *data = realloc(text->data, capacity);
            if (!data)
                ok = error_set(error, "%s: not enough memory for its %zu bytes and more", path, text->n);
            if (ok) text->data = data, text->capacity = capacity;
        }
        if (ok) text->n += fread(text->data + text->n, 1, text->capacity - text->n, file);
    }
    if (ok && ferror(file))
        ok = error_set(error, "%s: cannot read: %s", from_stdin ? "stdin" : path, strerror(errno));
    if (!from_stdin) fclose(file);
    return ok;
}

static void on_interrupt(int signal_number) {
    (void)signal_number;
    was_interrupted = 1;
}

/* Reading a mapping beyond the end that its file has by now, or where its disk fails. */
static void on_bus_error(int signal_number) {
    (void)signal_number;
    ssize_t written = write(STDERR_FILENO, cut_short, strlen(cut_short));
    (void)written;
    output_remove_unfinished();
    _exit(EXIT_BAD_INPUT);
}

void catch_signals(const char *program) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND}, before;
    sigaction(SIGINT, NULL, &before);
    if (before.sa_handler != SIG_IGN) sigaction(SIGINT, &action, NULL); /* nohup and & ask not to be heard */
    signal(SIGPIPE, SIG_IGN);
    snprintf(cut_short, sizeof cut_short,
             "%s: the model's file was cut short, or could not be read further\n", program);
    signal(SIGBUS, on_bus_error);
}

bool interrupted(void) { return was_interrupted; }

void show_progress(const char *what, size_t done, size_t total) {
    if (!isatty(STDERR_FILENO)) return;
    if (done < total)
        fprintf(stderr, "\r%s %zu/%zu", what, done, total);
    else
        fprintf(stderr, "\r\033[K");
}

double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

uint64_t peak_rss_bytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

void print_json_characters(FILE *file, const char *text, size_t n) {
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t c;
        length = utf8_decode(text + i, n - i, &c);
        if (c >= UTF8_INVALID)
            fputs("\\ufffd", file);
        else if (c == '"' || c == '\\')
            fprintf(file, "\\%c", (char)c);
        else if (c == '\n')
            fputs("\\n", file);
        else if (c < 0x20 || c == 0x7f)
            fprintf(file, "\\u%04x", (unsigned)c);
        else
            fwrite(text + i, 1, length, file);
    }
}

void print_json_string(FILE *file, const char *text, size_t n) {
    putc('"', file);
    print_json_characters(file, text, n);
    putc('"', file);
}
