/*
 * docs/JSON.md is a contract: every key that a program prints with --json stands there, and every key there is printed.
 * Each view is run with options that make all of its keys appear; a key is its path, "top[].rank".
 *
 * The text that the same commands print for people is held against their JSON: every number of a line must be in the object, as it
 * is or in another unit, and rounded as it is printed; and of an array that is printed as a table, every row must have its
 * line, with all numbers of the line in that row.
 */
#include "json.h"
#include "test.h"

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

enum { MAX_KEYS = 1000, MAX_PATH = 128 };

/* A key of a section of docs/JSON.md. */
typedef struct Key {
    char section[16], path[MAX_PATH];
    bool printed;
} Key;

static Key keys[MAX_KEYS];
static size_t n_keys;

static Key *find_key(const char *section, const char *path) {
    for (size_t i = 0; i < n_keys; i++)
        if (strcmp(keys[i].section, section) == 0 && strcmp(keys[i].path, path) == 0) return &keys[i];
    return NULL;
}

/* A section begins with "## name"; what stands in backquotes in the first cell of a row are its keys. */
static void read_document(void) {
    char line[1024], section[16] = "";
    FILE *file = fopen("docs/JSON.md", "r");
    CHECK(file != NULL, "docs/JSON.md cannot be read");
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "## %15s", section);
        if (strncmp(line, "| `", 3) != 0) continue;
        line[1 + strcspn(line + 1, "|")] = '\0';
        for (char *at = strtok(line + 2, "`"); at; at = strtok(NULL, "`")) {
            if (*at == ',' || *at == ' ') continue;
            Key *key = &keys[n_keys];
            if (n_keys == MAX_KEYS || strlen(at) >= sizeof key->path) exit(1);
            CHECK(!find_key(section, at), "docs/JSON.md: %s has `%s` twice", section, at);
            strcpy(key->section, section);
            strcpy(key->path, at);
            n_keys++;
        }
    }
    if (file) fclose(file);
}

/* The keys of `vocabulary` are ids; `hex` is a part of any token. */
static void mark(const char *section, const char *path) {
    static const char vocabulary[] = "vocabulary.";
    const char *last = strrchr(path, '.');
    if (last && strcmp(last, ".hex") == 0)
        path = "hex";
    else if (strncmp(path, vocabulary, sizeof vocabulary - 1) == 0)
        path = "vocabulary.ID";
    Key *key = find_key(section, path);
    if (!key && strcmp(section, "run") != 0 && strcmp(section, "batch") != 0) key = find_key("all", path);
    CHECK(key != NULL, "docs/JSON.md: %s has no `%s`, which is printed", section, path);
    if (key) key->printed = true;
}

static void mark_all(const char *section, const Json *value, const char *path) {
    char part[MAX_PATH];
    for (size_t i = 0; i < n_items(value); i++) {
        bool is_object = value->kind == JSON_OBJECT;
        if (is_object)
            snprintf(part, sizeof part, "%s%s%s", path, *path ? "." : "", c_text(json_key(value, i)));
        else
            snprintf(part, sizeof part, "%s[]", path);
        if (is_object) mark(section, part);
        mark_all(section, json_item(value, i), part);
    }
}

static char scratch[64]; /* a file of this process */

/* Gives what `study SECTION arguments more`, or run, prints: `n` bytes, to be freed. "@" in arguments: the scratch file. */
static char *output_of(const char *section, const char *arguments, const char *more, size_t *n) {
    enum { MOST = 1 << 22 };
    bool is_batch = strcmp(section, "batch") == 0, is_run = is_batch || strcmp(section, "run") == 0;
    const char *program = getenv(is_run ? "RUN" : "STUDY"), *at = strchr(arguments, '@');
    char command[2048];
    if (!program) program = is_run ? "./run" : "./study";
    snprintf(command, sizeof command, "'%s' %s %.*s%s%s %s </dev/null 2>/dev/null", program,
             is_run ? "" : section, (int)(at ? at - arguments : (long)strlen(arguments)), arguments,
             at ? scratch : "", at ? at + 1 : "", is_batch ? "" : more); /* which prints JSON anyway */
    char *text = malloc(MOST);
    FILE *pipe = popen(command, "r");
    if (!text || !pipe) exit(1);
    *n = fread(text, 1, MOST - 1, pipe);
    text[*n] = '\0';
    int status = pclose(pipe);
    CHECK(status == 0, "%s: status %d", command, status);
    return text;
}

static Json *json_of(const char *section, const char *arguments) {
    size_t n;
    Error error = {{0}};
    char *text = output_of(section, arguments, "--json", &n);
    Json *json = json_take(text, n, &error);
    CHECK(json != NULL, "%s %s: %s", section, arguments, error.message);
    return json;
}

#define GPT2 "tests/data/reference/gpt2-f32.gguf "
#define LLAMA "tests/data/reference/llama-f32.gguf "
#define LETTERS "-z tests/data/study/letters.gguf "
#define GEMMA2 "tests/data/reference/gemma2.gguf " LETTERS
#define GPT_OSS "tests/data/reference/gpt-oss.gguf " LETTERS
#define Q4_0 "tests/data/reference/gpt2-q4_0.gguf "

/* Options under which every key of every view appears; and arrays whose rows the text of these does not show. */
static const struct {
    const char *section, *arguments, *not_shown;
} commands[] = {
    {"tokens", GPT2 "-p 'e\xc3\xaf'", "*"},
    {"next", GPT2 "-p 'na\xc3\xafve' --token a --draw 2 --temp 2 --top-p 1 --ablate L0H1"},
    {"score", GPT2 "-p 'the mole, the mole' --words", "positions"},
    {"score", GPT2 "-p oooooo"},
    {"score", GPT2 "-p 'the mole, the mole, the mole' --chunks -c 8"},
    {"attend", GPT2 "-p 'the mole' --query 2 --no-sink"},
    {"attend", GPT2 "-p 'the mole' --query 1 --words"},
    {"attend", GPT2 "-p 'the mole' --layer 0 --head 0 -n 2 --no-sink"},
    {"attend", GPT_OSS "-p 'the mole' --query 2"},
    {"attend", GPT_OSS "-p 'the mole' --layer 0 --head 0 -n 1"},
    {"heads", GPT2 "--repeat 4 --batch 2"},
    {"heads", GPT_OSS "-p 'the mole'"},
    {"lens", GPT2 "-p 'the mole' --token a --mid"},
    {"explain", GPT2 "-p 'the mole' --layer 0 --head 1"},
    {"ablate", GPT2 "-p 'the mole' --heads L0H1"},
    {"ablate", GPT2 "-p 'the mole' --sweep heads"},
    {"patch", GPT2 "-p 'the mole' --corrupted 'one mole' --answer a --wrong e --top 100 --what attn_out "
                   "--freeze pattern"},
    {"patch", GPT2 "-p 'the mole' --corrupted 'the male' --answer a --what z"},
    {"patch", GPT2 "-p 'the mole' --corrupted 'the male' --answer a --what neurons --layer 1 --top 500"},
    {"patch", GPT2 "--pairs tests/data/study/pairs.jsonl --what q"},
    {"patch", GPT2 "--pairs tests/data/study/pairs.jsonl --path L0H0:L1H1.q,L0H1:final"},
    {"experts", GPT_OSS "-p 'the'", "*"},
    {"attribute", GPT2 "-p 'the mole' --answer a --wrong e --head L0H1 --neurons 1"},
    {"attribute", GPT2 "--pairs tests/data/study/pairs.jsonl --neurons 0 --top 3", "parts"},
    {"attribute", GPT2 "-p 'the mole' --score 'L1H0:7>2'", "*"},
    {"attribute", GEMMA2 "-p 'the mole' --score 'L1H0:7>6' --top 3", "*"},
    {"attribute", GPT2 "-p 'the mole' --corrupted 'one mole' --answer a --wrong e --by ig --steps 2", "*"},
    {"attribute", GPT2 "-p 'the mole' --by gradient", "*"},
    {"attribute", GPT2 "--pairs tests/data/study/pairs.jsonl --by gradient --edges --check 3", "*"},
    {"attribute", GPT2 "--pairs tests/data/study/pairs.jsonl --by gradient", "*"},
    {"faithful", GPT2 "-p 'the mole' --corrupted 'one mole' --answer a --wrong e --keep L0H1,L1H0", "*"},
    {"faithful", GPT2 "--pairs tests/data/study/pairs.jsonl"},
    {"faithful", GPT2 "-p 'the mole' --corrupted 'one mole' --answer a --find 0.1", "*"},
    {"faithful", GPT2 "-p 'the mole' --corrupted 'one mole' --answer a --find 0.1 --kl --nodes", "*"},
    {"faithful", GPT2 "--pairs tests/data/study/pairs.jsonl --nodes"},
    {"meaning", GPT2 "--word mole -p 'the mole' -p 'a mole digs' --centred --top 2"},
    {"meaning", GPT2 "-w a -p aa -p 'a b' -p a -p ca -p 'd a' --top 0", "*"},
    {"rollout", GPT2 "-p 'the mole' --flow"},
    {"rollout", GPT2 "-p 'the mole digs' --top 3", "*"},
    {"neurons", GPT2 "-p 'the mole'"},
    {"neurons", GPT2 "-p 'the mole' --neuron L1N3"},
    {"neurons", GPT2 "-p 'the mole' --head L0H1"},
    {"neurons", GPT2 "--head L0H1 --corpus tests/data/study/long.txt -c 20", "*"},
    {"circuit", GPT2},
    {"circuit", GPT2 "--head L1H0 --token a --top 2", "*"},
    {"circuit", GPT2 "--composition q", "*"},
    {"steer", GPT2 "-p 'the mole' --plus abc --minus 'a b' --answer a -n 3 --site resid_post -o @"},
    {"steer", GPT2 "-p 'the mole' --token a --sweep", "*"},
    {"steer", GPT2 "-p 'the mole' --token a --sweep --answer b --strengths 1,2", "*"},
    {"compare", GPT2 Q4_0 "-p 'the mole'"},
    {"dump", GPT2 "-p 'the mole' -o @"},
    {"view", GPT2 "-p 'the mole' --ablate L0H1", "*"},
    {"view", GPT2 "-p 'the mole' --from 2 --parts lens,writes", "*"},
    {"selfcheck", GPT2},
    {"shape", GPT2},
    {"shape", LLAMA},
    {"shape", "--preset gpt2"},
    {"case", "docs/cases/5-heads.json", "*"},
    {"run", GPT2 "-p 'the mole' -n 2", "*"},
    {"batch", GPT2 "--batch tests/data/batch/text.jsonl", "*"},
    {"batch", GPT2 "--batch tests/data/batch/continuation.jsonl", "*"},
    {"batch", GPT2 "--batch tests/data/batch/choices.jsonl", "*"},
    {"batch", GPT2 "--batch tests/data/batch/error.jsonl", "*"},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void test_printed_keys(void) {
    for (size_t i = 0; i < N_COMMANDS; i++) {
        Json *json = json_of(commands[i].section, commands[i].arguments);
        if (json) mark_all(commands[i].section, json, "");
        json_free(json);
    }
}

static void test_documented_keys(void) {
    CHECK(n_keys > 300, "only %zu keys", n_keys);
    for (size_t i = 0; i < n_keys; i++)
        CHECK(keys[i].printed, "docs/JSON.md: %s has `%s`, which nothing prints", keys[i].section,
              keys[i].path);
}

/* A number of a line: "93.020%", "1,234", "4.50 MiB", "-1.79e+04". */
typedef struct Printed {
    double value, half; /* half: of its last digit */
} Printed;

enum { MAX_NUMBERS = 64, MAX_LINES = 500 };

typedef struct Line {
    char text[512];
    Printed numbers[MAX_NUMBERS];
    size_t n;
} Line;

/* The factor of a unit behind a number; 1 of any other word. */
static double unit_of(const char *word) {
    static const char letters[] = "kMGTPE";
    const char *letter = *word ? strchr(letters, *word == 'K' ? 'k' : *word) : NULL;
    bool binary = letter && strncmp(word + 1, "iB", 2) == 0;
    bool decimal = letter && (strncmp(word + 1, "FLOPs", 5) == 0 || !word[1] || strchr(" \nB", word[1]));
    return binary    ? pow(1024, (double)(letter - letters + 1))
           : decimal ? pow(1000, (double)(letter - letters + 1))
                     : 1;
}

/* Whether a word is a number, brackets and stops around it aside; "L0H1" and "8>3" are none. */
static bool read_number(const char *word, const char *after, Printed *number) {
    char digits[64];
    size_t n = 0, length = strcspn(word, " \n");
    if (*word == '(') word++, length--;
    while (length && strchr("),:;.", word[length - 1])) length--;
    bool percent = length && word[length - 1] == '%';
    length -= percent;
    for (size_t i = 0; i < length && n + 1 < sizeof digits; i++)
        if (word[i] != ',') digits[n++] = word[i];
    digits[n] = '\0';
    if (!n || !strpbrk(digits, "0123456789") || strspn(digits, "+-.0123456789e") != n ||
        !strchr("+-0123456789", *digits))
        return false;
    char *end, *point = strchr(digits, '.'), *e = strchr(digits, 'e');
    double unit = (percent ? 0.01 : 1) * unit_of(after), value = strtod(digits, &end);
    int decimals = point ? (int)((e ? e : digits + n) - point) - 1 : 0, exponent = e ? atoi(e + 1) : 0;
    *number = (Printed){value * unit, 0.5 * pow(10, exponent - decimals) * unit};
    return *end == '\0';
}

/* The numbers of a line, but for those within quotation marks: tokens. */
static void read_numbers(Line *line) {
    for (const char *at = line->text; *at && line->n < MAX_NUMBERS;) {
        size_t length = strcspn(at, " \n");
        if (*at == '"') { /* a token may hold spaces; '"""' is one, too */
            const char *end = strchr(at + 1 + (at[1] == '"'), '"');
            at = end ? end + 1 : at + 1;
        } else if (length == 0) {
            at++;
        } else {
            line->n += read_number(at, at + length + (at[length] == ' '), &line->numbers[line->n]);
            at += length;
        }
    }
}

/* As it is; in bits, or as so many bits of surprise; e to its power: a perplexity; its root: √d_head; in millions: MB. */
static bool says(const Printed *printed, double value) {
    const double forms[] = {value, value / log(2), -value / log(2), exp(value), sqrt(value), value / 1e6};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (fabs(forms[i] - printed->value) <= printed->half * 1.000001 + 1e-8 * fabs(printed->value))
            return true;
    return false;
}

static bool holds(const Json *json, const Printed *printed) {
    if (json->kind == JSON_NUMBER) return says(printed, json->number);
    if (json->kind == JSON_ARRAY && says(printed, (double)json->n)) return true; /* "25 arrays" */
    for (size_t i = 0; i < n_items(json); i++)
        if (holds(json_item(json, i), printed)) return true;
    return false;
}

/* A side of a matrix, "80 x 72": the product with its neighbour is there. */
static bool holds_product(const Json *json, const Line *line, size_t i) {
    for (size_t other = i ? i - 1 : i + 1; other <= i + 1 && other < line->n; other += 2) {
        Printed product = {line->numbers[i].value * line->numbers[other].value, 0.5};
        if (strstr(line->text, " x ") && holds(json, &product)) return true;
    }
    return false;
}

/* A row's own texts stand in its line, if they are short and plain. */
static bool names_row(const Json *row, const char *line) {
    const Json *layer = json_get(row, "layer"), *head = json_get(row, "head");
    char name[32] = "";
    if (layer && head) snprintf(name, sizeof name, "L%.0fH%.0f", layer->number, head->number);
    if (!strstr(line, name)) return false;
    for (size_t i = 0; i < row->n; i++) {
        const Json *text = json_item(row, i);
        bool plain = text->kind == JSON_TEXT && text->n < 10 && !string_equals(json_key(row, i), "text") &&
                     !json_get(row, "hex");
        for (size_t j = 0; plain && j < text->n; j++) plain = text->text[j] >= ' ' && text->text[j] < 0x7f;
        if (plain && !strstr(line, c_text(json_string(text)))) return false;
    }
    return true;
}

/* Its numbers are in row i, two of them at least; or number the row; or are the whole object's, which sizes may be. */
static bool is_line_of(const Line *line, const Json *json, const Json *row, size_t i) {
    size_t n_own = 0;
    for (size_t j = 0; j < line->n; j++) {
        const Printed *number = &line->numbers[j];
        bool own = holds(row, number) || holds_product(row, line, j),
             known = own || number->value == (double)(i + 1);
        for (size_t k = 0; k < json->n && !known; k++)
            known = json_item(json, k)->kind == JSON_NUMBER && number->value == json_item(json, k)->number;
        if (!known) return false;
        n_own += own;
    }
    return n_own >= 2 && names_row(row, line->text);
}

/* Of an object's arrays of objects: where one row has its line, all have. Returns how many rows have. */
static size_t check_rows(const char *what, const char *not_shown, const Json *json, const Line *lines,
                         size_t n_lines) {
    size_t n_all = 0;
    for (size_t key = 0; key < json->n; key++) {
        const Json *rows = json_item(json, key);
        size_t n_found = 0, missing = 0;
        const char *name = c_text(json_key(json, key));
        if (strcmp(name, "tokens") == 0 || (not_shown && strcmp(name, not_shown) == 0)) continue;
        for (size_t i = 0; rows->kind == JSON_ARRAY && i < rows->n && rows->items[i].kind == JSON_OBJECT;
             i++) {
            size_t j = 0;
            while (j < n_lines && !is_line_of(&lines[j], json, &rows->items[i], i)) j++;
            n_found += j < n_lines;
            if (j == n_lines) missing = i;
        }
        CHECK(!n_found || n_found == rows->n, "%s: \"%s\" has %u rows, and %zu have a line; not row %zu",
              what, c_text(json_key(json, key)), rows->n, n_found, missing);
        n_all += n_found;
    }
    return n_all;
}

/* Numbers of explanations, which no object holds. */
static bool is_explained(const char *line) {
    static const char *const explanations[] = {
        "(both over the ", "load: how many",    "label ",     "they must be as many", "tl_...  ",
        "cells: ",         "attn a tile of 64", "keys by 64", "with these",           "A causal model",
        "if all looked"};
    for (size_t i = 0; i < sizeof explanations / sizeof *explanations; i++)
        if (strstr(line, explanations[i])) return true;
    return false;
}

/* "n_head 4": a number behind a key of the object is that one. */
static void check_named(const char *what, const Json *json, const char *line) {
    for (size_t i = 0; i < json->n; i++) {
        const Json *value = json_item(json, i);
        const char *key = c_text(json_key(json, i)), *at = strstr(line, key);
        size_t n = strlen(key);
        if (value->kind != JSON_NUMBER) continue;
        if (!at || (at > line && at[-1] != ' ') || at[n] != ' ' || at[n + 1] < '0' || at[n + 1] > '9')
            continue;
        CHECK(atof(at + n) == value->number, "%s: \"%s\" is %g: %s", what, key, value->number, line);
    }
}

/* How much the second of the two numbers before it is above the first. */
static bool is_change(const Line *line, size_t i) {
    const Printed *number = &line->numbers[i];
    return i >= 2 && fabs(number[-1].value - number[-2].value - number->value) <=
                         1.000001 * (number->half + number[-1].half + number[-2].half);
}

static void check_text(const char *section, const char *arguments, const char *not_shown) {
    static Line lines[MAX_LINES];
    char what[256];
    size_t n, n_lines = 0;
    snprintf(what, sizeof what, "study %s %s", section, arguments);
    Json *json = json_of(section, arguments);
    char *text = output_of(section, arguments, "", &n);
    for (char *at = strtok(text, "\n"); json && at && n_lines < MAX_LINES; at = strtok(NULL, "\n")) {
        Line *line = &lines[n_lines++];
        *line = (Line){.n = 0};
        snprintf(line->text, sizeof line->text, "%s", at);
        read_numbers(line);
        check_named(what, json, at);
        for (size_t i = 0; i < line->n && !is_explained(at); i++)
            CHECK(holds(json, &line->numbers[i]) || is_change(line, i) || holds_product(json, line, i),
                  "%s: no %g in the JSON: %s", what, line->numbers[i].value, at);
    }
    bool rows = !not_shown || *not_shown != '*';
    CHECK(!json || !rows || check_rows(what, not_shown, json, lines, n_lines) > 0, "%s: no rows", what);
    json_free(json);
    free(text);
}

static void test_texts(void) {
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const char *section = commands[i].section;
        if (strcmp(section, "run") != 0 && strcmp(section, "view") != 0) /* these write texts and pages */
            check_text(section, commands[i].arguments, commands[i].not_shown);
    }
}

int main(void) {
    snprintf(scratch, sizeof scratch, "/tmp/attn-test-keys-%ld.npz", (long)getpid());
    RUN(read_document);
    RUN(test_printed_keys);
    RUN(test_documented_keys);
    RUN(test_texts);
    remove(scratch);
    return test_end();
}
