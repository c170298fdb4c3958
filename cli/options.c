#include "cli/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One letter lost, added, changed, or changed places with its neighbour: each is a slip. */
static size_t slips_between(const char *a, const char *b) {
    enum { LONGEST = 32 };
    size_t n_a = strlen(a), n_b = strlen(b),
           rows[3][LONGEST + 1]; /* of prefixes: this one's, the two before */
    if (n_a > LONGEST || n_b > LONGEST) return LONGEST;
    for (size_t j = 0; j <= n_b; j++) rows[0][j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t *row = rows[i % 3], *before = rows[(i + 2) % 3], *twice = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t least = before[j - 1] + (a[i - 1] != b[j - 1]);
            if (before[j] + 1 < least) least = before[j] + 1;
            if (row[j - 1] + 1 < least) least = row[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && twice[j - 2] + 1 < least) least = twice[j - 2] + 1;
            row[j] = least;
        }
    }
    return rows[n_a % 3][n_b];
}

const char *nearest_name(const char *word, const char *const *names, size_t n) {
    const char *nearest = NULL;
    size_t least = strlen(word) < 6 ? 2 : 3; /* from here on it is another word */
    for (size_t i = 0; i < n; i++) {
        size_t slips = slips_between(word, names[i]);
        if (slips < least) least = slips, nearest = names[i];
    }
    return nearest;
}

static bool set_int(const Option *option, const char *text, int64_t *to, Error *error) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || (double)value < option->min || (double)value > option->max)
        return error_set(error, "%s takes a whole number from %.0f to %.0f, not '%s'", option->name,
                         option->min, option->max, text);
    *to = value;
    return true;
}

static bool set_size(const Option *option, const char *text, size_t *to, Error *error) {
    int64_t value = 0;
    if (!set_int(option, text, &value, error)) return false;
    *to = (size_t)value;
    return true;
}

static bool set_real(const Option *option, const char *text, float *to, Error *error) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= option->min && value <= option->max))
        return error_set(error, "%s takes a number from %g to %g, not '%s'", option->name, option->min,
                         option->max, text);
    *to = (float)value;
    return true;
}

static bool set_once(const Option *option, const char *text, const char **to, Error *error) {
    if (*to) return error_set(error, "%s is given twice: '%s' and '%s'; choose one", option->name, *to, text);
    *to = text;
    return true;
}

static bool append(const Option *option, const char *text, StringList *list, Error *error) {
    size_t most = sizeof list->items / sizeof *list->items;
    if (list->n == most) return error_set(error, "%s may be given %zu times at most", option->name, most);
    list->items[list->n++] = text;
    return true;
}

static bool set(const Option *option, void *values, const char *text, Error *error) {
    void *value = (char *)values + option->offset;
    switch (option->kind) {
    case OPTION_ON: *(bool *)value = true; return true;
    case OPTION_OFF: *(bool *)value = false; return true;
    case OPTION_TEXT: *(const char **)value = text; return true;
    case OPTION_ONCE: return set_once(option, text, value, error);
    case OPTION_LIST: return append(option, text, value, error);
    case OPTION_INT: return set_int(option, text, value, error);
    case OPTION_SIZE: return set_size(option, text, value, error);
    case OPTION_REAL: return set_real(option, text, value, error);
    }
    return false;
}

/* The number behind a letter, as the 3 of "L3"; false, and nothing read, where there is none. */
static bool read_numbered(const char **at, char letter, unsigned long long *number) {
    if (**at != letter || (*at)[1] < '0' || (*at)[1] > '9') return false;
    char *end;
    *number = strtoull(*at + 1, &end, 10); /* what is too large becomes the largest: refused all the same */
    *at = end;
    return true;
}

bool parse_head(const char **at, unsigned long long *layer, unsigned long long *head, bool *one) {
    if (!read_numbered(at, 'L', layer)) return false;
    *one = read_numbered(at, 'H', head);
    return true;
}

bool parse_list(const char *list, const char *what, size_t n, bool *chosen, Error *error) {
    for (size_t i = 0; i < n; i++) chosen[i] = !list;
    const char *at = list;
    while (at) {
        char *end;
        errno = 0;
        unsigned long long first = strtoull(at, &end, 10), last = first;
        bool ok = *at >= '0' && *at <= '9';
        if (ok && *end == '-') {
            ok = end[1] >= '0' && end[1] <= '9';
            last = strtoull(end + 1, &end, 10);
        }
        if (!ok || errno || first > last || (*end && *end != ','))
            return error_set(error, "'%s' is no list of %ss such as 0,3,5-7", list, what);
        if (last >= n)
            return error_set(error, "%s %llu does not exist: there are %zu, from 0 on", what, last, n);
        for (size_t i = (size_t)first; i <= last; i++) chosen[i] = true;
        at = *end ? end + 1 : NULL;
    }
    return true;
}

bool parse_choice(const char *option, const char *value, const char *const *names, size_t n, size_t *choice,
                  Error *error) {
    char all[128] = "";
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(all);
        *choice = value ? i : 0;
        if (!value || strcmp(value, names[i]) == 0) return true;
        snprintf(all + used, sizeof all - used, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", names[i]);
    }
    return error_set(error, "%s takes %s, not '%s'", option, all, value);
}

bool parse_kv(const char *value, DType *dtype, Error *error) {
    static const char *const names[] = {"f32", "f16", "q8_0"};
    static const DType types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    size_t choice;
    if (!parse_choice("--kv", value, names, sizeof types / sizeof *types, &choice, error)) return false;
    if (value) *dtype = types[choice];
    return true;
}

/* The option that a word is, and the table that has it. */
static const Option *find_option(const Options *tables, size_t n_tables, const char *word,
                                 const Options **its_table) {
    for (size_t i = 0; i < n_tables; i++)
        for (size_t j = 0; j < tables[i].n; j++) {
            const Option *option = &tables[i].table[j];
            *its_table = &tables[i];
            if (strcmp(word, option->name) == 0 ||
                (option->short_name && strcmp(word, option->short_name) == 0))
                return option;
        }
    return NULL;
}

static bool unknown_option(const Options *tables, size_t n_tables, const char *word, Error *error) {
    enum { MOST = 128 };
    const char *names[MOST], *nearest;
    size_t n = 0;
    if (strchr(word, '='))
        return error_set(error, "unknown option %s (its value is a word of its own)", word);
    for (size_t i = 0; i < n_tables; i++)
        for (size_t j = 0; j < tables[i].n && n < MOST; j++) names[n++] = tables[i].table[j].name;
    nearest = nearest_name(word, names, n);
    return nearest ? error_set(error, "unknown option %s; did you mean %s?", word, nearest)
                   : error_set(error, "unknown option %s", word);
}

bool options_parse(const Options *tables, size_t n_tables, int argc, char **argv, const char **words,
                   size_t n_words, Error *error) {
    size_t n = 0;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        const Options *table = NULL;
        const Option *option = find_option(tables, n_tables, word, &table);
        if (!option && word[0] == '-' && word[1]) return unknown_option(tables, n_tables, word, error);
        if (!option && n == n_words)
            return n == 0 ? error_set(error, "unexpected word '%s'", word)
                          : error_set(error, "%s: '%s' after '%s'",
                                      n == 1   ? "one model at a time"
                                      : n == 2 ? "two models at most"
                                               : "one word too many",
                                      word, words[n - 1]);
        if (!option) {
            words[n++] = word;
            continue;
        }
        if (option->file && table->no_files)
            return error_set(error, "%s names a file, which cannot be asked for here", word);
        bool takes_value = option->kind != OPTION_ON && option->kind != OPTION_OFF;
        if (takes_value && i + 1 == argc) return error_set(error, "%s needs a value", word);
        if (!set(option, table->values, takes_value ? argv[++i] : NULL, error)) return false;
    }
    return true;
}
