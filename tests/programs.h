/* For tests of the study program: a folder of their own, running it, comparing what it prints. */
#ifndef ATTN_TESTS_STUDY_H
#define ATTN_TESTS_STUDY_H

#include "json.h"
#include "test.h"

#include <stdbool.h>
#include <unistd.h>

enum { MAX_REPORTS = 4 /* differences shown for each case */ };

static char scratch[256]; /* a folder of this process */

static bool scratch_begin(void) {
    const char *parent = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%.200s/attn-test.XXXXXX", parent ? parent : "/tmp");
    if (mkdtemp(scratch)) return true;
    perror(scratch);
    return false;
}

static void scratch_end(void) { rmdir(scratch); }

/* The path of a file there; valid until the next but three. */
static const char *scratch_path(const char *name) {
    static char paths[4][sizeof scratch + 32];
    static int last;
    char *path = paths[last = (last + 1) % 4];
    snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
    return path;
}

/* A command line under construction. */
typedef struct Command {
    char line[4096];
    size_t n;
} Command;

/* Appends an argument in quotes, for the shell. */
static void command_add(Command *command, const char *argument, size_t n) {
    command->line[command->n++] = '\'';
    for (size_t i = 0; i < n && command->n + 8 < sizeof command->line; i++) {
        const char *quoted = argument[i] == '\'' ? "'\\''" : (char[]){argument[i], 0};
        while (*quoted) command->line[command->n++] = *quoted++;
    }
    command->line[command->n++] = '\'';
    command->line[command->n++] = ' ';
    command->line[command->n] = '\0';
}

/* One of a program: that of the environment variable, else the one here. */
static Command command_of(const char *variable, const char *program) {
    Command command = {.n = 0};
    const char *other = getenv(variable);
    if (other) program = other;
    command_add(&command, program, strlen(program));
    return command;
}

static inline Command command_begin(void) { return command_of("STUDY", "./study"); }

/* Gives what the program prints: `n` bytes, NUL-terminated, to be freed. Checks that it ends well. */
static inline char *output_of(Command command, size_t *n) {
    size_t capacity = 1 << 16;
    char *text = malloc(capacity);
    char whole[sizeof command.line + sizeof scratch + 32];
    snprintf(whole, sizeof whole, "%s2>'%s' </dev/null", command.line, scratch_path("error"));
    FILE *pipe = popen(whole, "r");
    if (!text || !pipe) {
        perror(command.line);
        exit(1);
    }
    *n = 0;
    for (size_t got; (got = fread(text + *n, 1, capacity - *n - 1, pipe)) > 0;) {
        *n += got;
        if (capacity - *n > 1 << 15) continue;
        text = realloc(text, capacity *= 2);
        if (!text) exit(1);
    }
    text[*n] = '\0';
    int status = pclose(pipe);
    if (status != 0) {
        size_t n_error;
        char *error = read_whole(scratch_path("error"), &n_error);
        CHECK(status == 0, "%s: status %d: %s", command.line, status, error);
        free(error);
    }
    unlink(scratch_path("error"));
    return text;
}

/* One comparison of what was expected with what was printed. */
typedef struct Comparison {
    const char *name; /* of the case */
    double tolerance; /* as a share of max(1, |number|) */
    size_t n_wrong;
    char path[256]; /* of the value in hand: ".rows[3].rank" */
} Comparison;

static void report(Comparison *comparison, const char *what) {
    bool show = comparison->n_wrong++ < MAX_REPORTS;
    if (show) CHECK(false, "%s%s: %s", comparison->name, comparison->path, what);
}

static void compare_values(Comparison *comparison, const Json *want, const Json *got);

/* Compares a part of a value, whose name is put behind the path meanwhile. */
static void compare_part(Comparison *comparison, const char *part, const Json *want, const Json *got) {
    size_t n = strlen(comparison->path);
    snprintf(comparison->path + n, sizeof comparison->path - n, "%s", part);
    compare_values(comparison, want, got);
    comparison->path[n] = '\0';
}

static void compare_values(Comparison *comparison, const Json *want, const Json *got) {
    static const char *const kinds[] = {"null", "a bool", "a number", "a text", "an array", "an object"};
    char line[400];
    if (!got || got->kind != want->kind) {
        snprintf(line, sizeof line, "expected %s, got %s", kinds[want->kind],
                 got ? kinds[got->kind] : "nothing");
        report(comparison, line);
        return;
    }
    switch (want->kind) {
    case JSON_NULL: break;
    case JSON_BOOL:
        if (want->boolean != got->boolean)
            report(comparison, want->boolean ? "expected true" : "expected false");
        break;
    case JSON_NUMBER: {
        double size = fmax(1, fabs(want->number)), off = fabs(want->number - got->number) / size;
        snprintf(line, sizeof line, "expected %.9g, got %.9g", want->number, got->number);
        if (!(off <= comparison->tolerance)) report(comparison, line);
        break;
    }
    case JSON_TEXT:
        snprintf(line, sizeof line, "expected \"%.150s\", got \"%.150s\"", c_text(json_string(want)),
                 c_text(json_string(got)));
        if (want->n != got->n || memcmp(want->text, got->text, want->n) != 0) report(comparison, line);
        break;
    case JSON_ARRAY:
        snprintf(line, sizeof line, "expected %u items, got %u", want->n, got->n);
        if (want->n != got->n) {
            report(comparison, line);
            break;
        }
        for (size_t i = 0; i < want->n; i++) {
            snprintf(line, sizeof line, "[%zu]", i);
            compare_part(comparison, line, &want->items[i], &got->items[i]);
        }
        break;
    case JSON_OBJECT:
        for (size_t i = 0; i < want->n; i++) {
            snprintf(line, sizeof line, ".%s", c_text(json_key(want, i)));
            compare_part(comparison, line, json_item(want, i), json_get(got, line + 1));
        }
        break;
    }
}

/* "rows.1.kl_nats" */
static inline const Json *json_at(const Json *value, const char *path) {
    char part[32];
    for (int n; value && sscanf(path, "%31[^.]%n", part, &n) == 1; path += n + (path[n] == '.')) {
        size_t i = value->kind == JSON_ARRAY ? strtoul(part, NULL, 10) : 0;
        value = value->kind != JSON_ARRAY ? json_get(value, part) : i < value->n ? &value->items[i] : NULL;
    }
    return value;
}

/* A number there, or NaN. */
static inline double number_at(const Json *json, const char *path) {
    const Json *value = json_at(json, path);
    return value && value->kind == JSON_NUMBER ? value->number : NAN;
}

#endif
