#include "cli/options.h"

#include "sampling.h"

#include <ctype.h>
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

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

const char *parse_real(const char *text, double *value) {
    const char *digits = text + (*text == '-');
    char *end;
    if (!is_digit(digits[*digits == '.'])) return NULL;
    *value = strtod(text, &end);
    return end;
}

static bool set_int(const Option *option, const char *text, int64_t *to, Error *error) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (!is_digit(text[*text == '-']) || *end || errno || (double)value < option->min ||
        (double)value > option->max)
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
    double value;
    const char *end = parse_real(text, &value);
    if (!end || *end || !(value >= option->min && value <= option->max))
        return error_set(error, "%s takes a number from %g to %g, not '%s'", option->name, option->min,
                         option->max, text);
    *to = (float)value;
    return true;
}

static bool set_steps(const Option *option, const char *text, uint64_t *to, Error *error) {
    Error inner;
    return sampling_parse_order(string_from(text), to, &inner) ||
           error_set(error, "%s %s", option->name, inner.message);
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
    case OPTION_TEXT:
    case OPTION_SWITCH: *(const char **)value = text; return true;
    case OPTION_ONCE: return set_once(option, text, value, error);
    case OPTION_LIST: return append(option, text, value, error);
    case OPTION_INT: return set_int(option, text, value, error);
    case OPTION_SIZE: return set_size(option, text, value, error);
    case OPTION_REAL: return set_real(option, text, value, error);
    case OPTION_STEPS: return set_steps(option, text, value, error);
    }
    return false;
}

/* The number behind a letter, as the 3 of "L3"; false, and nothing read, where there is none. */
static bool read_numbered(const char **at, char letter, unsigned long long *number) {
    if (**at != letter || !is_digit((*at)[1])) return false;
    char *end;
    unsigned long long value = strtoull(*at + 1, &end, 10);
    *number = value < SIZE_MAX ? value : SIZE_MAX - 1; /* SIZE_MAX is none that is given */
    *at = end;
    return true;
}

bool parse_head(const char **at, unsigned long long *layer, unsigned long long *head, bool *one) {
    if (!read_numbered(at, 'L', layer)) return false;
    *one = read_numbered(at, 'H', head);
    return true;
}

bool wrong_usage(Error *error) {
    error->usage = true;
    return false;
}

bool refuse_number(const char *option, const char *what, unsigned long long number, const char *there,
                   size_t n, Error *error) {
    const char *colon = option ? ": " : "";
    if (!option) option = "";
    if (number >= SIZE_MAX - 1)
        return error_set(error, "%s%sno %s has so large a number: %s %zu, from 0 on", option, colon, what,
                         there, n);
    return error_set(error, "%s%s%s %llu does not exist: %s %zu, from 0 on", option, colon, what, number,
                     there, n);
}

bool parse_list(const char *option, const char *list, const char *what, size_t n, bool *chosen,
                Error *error) {
    for (size_t i = 0; i < n; i++) chosen[i] = !list;
    const char *at = list;
    while (at) {
        char *end;
        unsigned long long first = strtoull(at, &end, 10), last = first;
        bool ok = is_digit(*at);
        if (ok && *end == '-') {
            ok = is_digit(end[1]);
            last = strtoull(end + 1, &end, 10);
        }
        if (!ok || first > last || (*end && *end != ','))
            return error_set(error, "%s: '%s' is no list of %ss such as 0,3,5-7", option, list, what) ||
                   wrong_usage(error);
        if (last >= n) return refuse_number(option, what, last, "there are", n, error);
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

bool parse_colour(const char *value, Colour *colour, Error *error) {
    static const char *const names[] = {"auto", "on", "off"}; /* as in Colour */
    size_t choice;
    if (!parse_choice("--color", value, names, 3, &choice, error)) return false;
    *colour = (Colour)choice;
    return true;
}

bool parse_kv(const char *value, DType *dtype, Error *error) {
    static const char *const names[] = {"f32", "f16", "q8_0"};
    static const DType types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    size_t choice;
    if (!parse_choice("--kv", value, names, sizeof types / sizeof *types, &choice, error)) return false;
    if (value) *dtype = types[choice];
    return true;
}

/* A word of the command line that may be an option: "--temp", "--temp=1". */
typedef struct Word {
    const char *text;
    size_t n_name;     /* bytes of it that name the option */
    const char *value; /* behind "=", or NULL */
} Word;

static Word split_word(const char *text) {
    const char *equals = strncmp(text, "--", 2) == 0 ? strchr(text, '=') : NULL;
    return equals ? (Word){text, (size_t)(equals - text), equals + 1} : (Word){text, strlen(text), NULL};
}

static bool is_name(Word word, const char *name) {
    return name && strlen(name) == word.n_name && memcmp(name, word.text, word.n_name) == 0;
}

/* The option that a word names, and the table that has it. */
static const Option *find_option(const Options *tables, size_t n_tables, Word word,
                                 const Options **its_table) {
    for (size_t i = 0; i < n_tables; i++)
        for (size_t j = 0; j < tables[i].n; j++) {
            const Option *option = &tables[i].table[j];
            *its_table = &tables[i];
            if (is_name(word, option->name) || is_name(word, option->short_name)) return option;
        }
    return NULL;
}

static const ForeignOption *find_foreign(const Options *tables, size_t n_tables, Word word,
                                         const Options **its_table) {
    for (size_t i = 0; i < n_tables; i++)
        for (size_t j = 0; tables[i].foreign && j < tables[i].foreign->n; j++)
            for (size_t k = 0; k < 3; k++) {
                *its_table = &tables[i];
                if (is_name(word, tables[i].foreign->table[j].names[k])) return &tables[i].foreign->table[j];
            }
    return NULL;
}

/* Where options may name no file, a page asks, and there is no help. */
static bool unknown_option(const Options *tables, size_t n_tables, Word word, Error *error) {
    enum { MOST = 128 };
    char name[64];
    const char *names[MOST], *nearest;
    size_t n = 0;
    for (size_t i = 0; i < n_tables; i++)
        for (size_t j = 0; j < tables[i].n && n < MOST; j++) names[n++] = tables[i].table[j].name;
    snprintf(name, sizeof name, "%.*s", (int)word.n_name, word.text);
    nearest = nearest_name(name, names, n);
    return nearest ? error_set(error, "unknown option %s; did you mean %s?", name, nearest)
                   : error_set(error, "unknown option %s%s", name, tables->no_files ? "" : ": see --help");
}

bool is_switch(const char *word) {
    static const char *const words[] = {"on", "off",  "auto",  "1",       "0",
                                        "-1", "true", "false", "enabled", "disabled"};
    bool found = false;
    for (size_t i = 0; word && i < sizeof words / sizeof *words; i++) found |= strcmp(word, words[i]) == 0;
    return found;
}

/* Passes over an option of which nothing is asked, and over the next word (NULL: none) where it is its value. */
static bool pass_over(const ForeignOption *option, Word word, const char *next, StringList *idle,
                      bool *takes_next, Error *error) {
    *takes_next =
        !word.value && (option->takes == TAKES_VALUE || (option->takes == TAKES_SWITCH && is_switch(next)));
    if (*takes_next && !next) return error_set(error, "%s needs a value", word.text);
    if (idle->n < sizeof idle->items / sizeof *idle->items) idle->items[idle->n++] = word.text;
    return true;
}

static bool too_many_words(const Options *tables, size_t n_tables, const char *word, const char *before,
                           size_t n, Error *error) {
    const Options *table;
    bool has_prompt = find_option(tables, n_tables, split_word("-p"), &table);
    if (!before) return error_set(error, "unexpected word '%s'", word);
    return error_set(error, "%s: '%s' after '%s'%s",
                     n == 1   ? "one model at a time"
                     : n == 2 ? "two models at most"
                              : "one word too many",
                     word, before, has_prompt ? "; a text to begin with stands behind -p" : "");
}

static bool take_option(const Options *table, const Option *option, Word word, const char *next,
                        bool *takes_next, Error *error) {
    bool takes_value = option->kind != OPTION_ON && option->kind != OPTION_OFF;
    *takes_next = takes_value && !word.value;
    if (option->kind == OPTION_SWITCH && *takes_next && (!next || *next == '-'))
        *takes_next = false, word.value = "on";
    if (option->file && table->no_files)
        return error_set(error, "%.*s names a file, which cannot be asked for here", (int)word.n_name,
                         word.text);
    if (!takes_value && word.value) return error_set(error, "%s takes no value", option->name);
    if (*takes_next && !next) return error_set(error, "%s needs a value", word.text);
    const char *value = *takes_next ? next : word.value;
    if (option->file && !*value) return error_set(error, "%s needs the name of a file", option->name);
    return set(option, table->values, value, error);
}

bool options_parse(const Options *tables, size_t n_tables, int argc, char **argv, const char **words,
                   size_t n_words, Error *error) {
    size_t n = 0;
    for (int i = 1; i < argc; i++) {
        Word word = split_word(argv[i]);
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        bool takes_next = false;
        const Options *table = NULL;
        const Option *option = find_option(tables, n_tables, word, &table);
        const ForeignOption *foreign = option ? NULL : find_foreign(tables, n_tables, word, &table);
        if (foreign && foreign->ours) {
            Word ours = split_word(foreign->ours);
            option = find_option(tables, n_tables, ours, &table);
        }
        if (option) {
            if (!take_option(table, option, word, next, &takes_next, error)) return false;
        } else if (foreign) {
            if (!pass_over(foreign, word, next, table->idle, &takes_next, error)) return false;
        } else if (word.text[0] == '-' && word.text[1]) {
            return unknown_option(tables, n_tables, word, error);
        } else if (n == n_words || words[n]) {
            return too_many_words(tables, n_tables, argv[i],
                                  n < n_words ? words[n]
                                  : n         ? words[n - 1]
                                              : NULL,
                                  n_words, error);
        } else {
            words[n++] = argv[i];
        }
        i += takes_next;
    }
    return true;
}

/* The byte that a backslash at `at` and what follows stand for, and how long they are; 0: they are themselves. */
static size_t escaped(const char *at, char *byte) {
    static const char letters[] = "nrt'\"\\", bytes[] = "\n\r\t'\"\\";
    const char *letter = at[1] ? strchr(letters, at[1]) : NULL;
    char digits[3] = "", *end;
    if (letter) return *byte = bytes[letter - letters], 2;
    if (at[1] != 'x' || !at[2] || !at[3]) return 0;
    memcpy(digits, at + 2, 2);
    *byte = (char)strtol(digits, &end, 16);
    return end == digits + 2 && isxdigit((unsigned char)*digits) && *byte ? 4 : 0;
}

/* Writes the text to `to`, and returns what is behind its end. */
static char *write_unescaped(char *to, const char *text) {
    for (size_t length; *text; text += length, to++) {
        length = *text == '\\' ? escaped(text, to) : 0;
        if (!length) *to = *text, length = 1;
    }
    *to = '\0';
    return to + 1;
}

/* The texts that an option was given. */
static const char **texts_of(const Options *options, size_t i, size_t *n) {
    const Option *option = &options->table[i];
    void *value = (char *)options->values + option->offset;
    StringList *list = value;
    const char **text = value;
    bool is_list = option->kind == OPTION_LIST;
    *n = !option->escape ? 0 : is_list ? list->n : *text != NULL;
    return is_list ? list->items : text;
}

bool options_unescape(const Options *options, char **memory, Error *error) {
    size_t room = 1, n;
    for (size_t i = 0; i < options->n; i++) {
        const char **texts = texts_of(options, i, &n);
        for (size_t k = 0; k < n; k++) room += strlen(texts[k]) + 1;
    }
    char *to = *memory = malloc(room);
    if (!to) return error_set(error, "not enough memory for texts of %zu bytes", room);
    for (size_t i = 0; i < options->n; i++) {
        const char **texts = texts_of(options, i, &n);
        for (size_t k = 0; k < n; k++) {
            const char *text = texts[k];
            texts[k] = to;
            to = write_unescaped(to, text);
        }
    }
    return true;
}
