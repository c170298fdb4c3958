/* config.json: keys of tests/data/config.txt, which has every key of every class, with values that fit or just do not. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 1024, MOST_WORDS = 5 };

/* A line: model_types between commas, key, what a missing key means, another value, a verdict. */
typedef struct Row {
    char *words[MOST_WORDS];
} Row;

static Row rows[MOST_LINES];
static size_t n_rows;

static void read_rows(void) {
    FILE *in = fopen("tests/data/config.txt", "r");
    char line[2048];
    while (in && n_rows < MOST_LINES && fgets(line, sizeof line, in)) {
        size_t n = 0;
        char *rest = NULL;
        if (*line == '#' || *line == '\n') continue;
        for (char *word = strtok_r(line, " \n", &rest); word && n < MOST_WORDS;
             word = strtok_r(NULL, " \n", &rest))
            rows[n_rows].words[n++] = strdup(word);
        n_rows += n == MOST_WORDS;
    }
    if (in) fclose(in);
}

/* Where the value that begins at `at` ends: at a comma or a bracket that is not its own. */
static size_t end_of_value(const unsigned char *bytes, size_t n, size_t at) {
    size_t depth = 0;
    bool quoted = false;
    for (; at < n; at++) {
        unsigned char c = bytes[at];
        if (c == '"' && (at == 0 || bytes[at - 1] != '\\')) quoted = !quoted;
        if (quoted) continue;
        if (depth == 0 && strchr(",]}", c)) break;
        depth += c == '[' || c == '{';
        depth -= c == ']' || c == '}';
    }
    return at;
}

/* The value of a member of the text, or 0. */
static size_t find_value(const unsigned char *bytes, size_t n, const char *key) {
    char quoted[80];
    size_t m = (size_t)snprintf(quoted, sizeof quoted, "\"%s\"", key);
    for (size_t at = 0; at + m < n; at++)
        if (memcmp(bytes + at, quoted, m) == 0) {
            for (at += m; at < n && strchr(": \n", bytes[at]);) at++;
            return at;
        }
    return 0;
}

/* Gives a member a value: in the place of the one that it has, or as the first member. */
static size_t put_member(unsigned char *bytes, size_t n, size_t room, const char *key, const char *value) {
    char text[1200];
    size_t begin = find_value(bytes, n, key), end = begin ? end_of_value(bytes, n, begin) : 1;
    const char *dot = strchr(key, '.');
    size_t m = begin ? (size_t)snprintf(text, sizeof text, "%s", value)
               : dot ? (size_t)snprintf(text, sizeof text, "\"%.*s\":{\"%s\":%s},", (int)(dot - key), key,
                                        dot + 1, value)
                     : (size_t)snprintf(text, sizeof text, "\"%s\":%s,", key, value);
    if (!begin) begin = 1;
    if (m >= sizeof text || n - (end - begin) + m > room) return n;
    memmove(bytes + begin + m, bytes + end, n - end);
    memcpy(bytes + begin, text, m);
    return n - (end - begin) + m;
}

size_t mutate_config(unsigned char *bytes, size_t n, size_t room) {
    static const char *const odd[] = {"null", "true",  "false",      "-1",   "0",
                                      "0.5",  "1e999", "4294967296", "[]",   "{}",
                                      "[1]",  "\"x\"", "1",          "1e-9", "[[[\"local\"],2]]"};
    if (n_rows == 0) read_rows();
    if (n < 2 || bytes[0] != '{' || n_rows == 0 || random_below(4) == 0) return mutate_json(bytes, n, room);
    const Row *row = &rows[random_below(n_rows)];
    const char *value = row->words[2 + random_below(2)];
    if (*value == '-' || random_below(3) == 0) value = odd[random_below(sizeof odd / sizeof *odd)];
    n = put_member(bytes, n, room, row->words[1], value);
    if (row->words[0][0] != '*' && random_below(2)) { /* one of its classes */
        char types[600], type[80], *rest = NULL;
        size_t n_types = 0;
        snprintf(types, sizeof types, "%s", row->words[0]);
        for (char *word = strtok_r(types, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
            if (random_below(++n_types) == 0) snprintf(type, sizeof type, "\"%s\"", word);
        n = put_member(bytes, n, room, "model_type", type);
    }
    return n;
}
