/*
 * docs/JSON.md is a contract: every key that a program prints with --json stands there, and every key there is printed.
 * Each view is run with options that make all of its keys appear; a key is its path, "top[].rank".
 */
#include "cli/jsonvalue.h"
#include "test.h"

#include <stdbool.h>
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
    if (!key && strcmp(section, "run") != 0) key = find_key("all", path);
    CHECK(key != NULL, "docs/JSON.md: %s has no `%s`, which is printed", section, path);
    if (key) key->printed = true;
}

static void mark_all(const char *section, const JsonValue *value, const char *path) {
    char part[MAX_PATH];
    for (size_t i = 0; i < value->n; i++) {
        bool is_object = value->kind == JSON_OBJECT;
        if (is_object)
            snprintf(part, sizeof part, "%s%s%s", path, *path ? "." : "", value->keys[i]);
        else
            snprintf(part, sizeof part, "%s[]", path);
        if (is_object) mark(section, part);
        mark_all(section, &value->items[i], part);
    }
}

static char scratch[64]; /* a file of this process */

/* Marks what `study SECTION arguments --json` prints, or run; its exit status is 0. "@": the scratch file. */
static void print_and_mark(const char *section, const char *arguments) {
    bool is_run = strcmp(section, "run") == 0;
    const char *program = getenv(is_run ? "RUN" : "STUDY"), *at = strchr(arguments, '@');
    char command[2048];
    if (!program) program = is_run ? "./run" : "./study";
    snprintf(command, sizeof command, "'%s' %s %.*s%s%s --json </dev/null 2>/dev/null", program,
             is_run ? "" : section, (int)(at ? at - arguments : (long)strlen(arguments)), arguments,
             at ? scratch : "", at ? at + 1 : "");
    enum { MOST = 1 << 22 };
    char *text = malloc(MOST);
    FILE *pipe = popen(command, "r");
    if (!text || !pipe) exit(1);
    size_t n = fread(text, 1, MOST, pipe);
    Error error = {{0}};
    int status = pclose(pipe);
    CHECK(status == 0, "%s: status %d", command, status);
    JsonValue *json = jsonvalue_parse(text, n, &error);
    CHECK(json != NULL, "%s: %s", command, error.message);
    if (json) mark_all(section, json, "");
    jsonvalue_free(json);
    free(text);
}

#define GPT2 "tests/data/reference/gpt2-f32.gguf "
#define Q4_0 "tests/data/reference/gpt2-q4_0.gguf "

/* Options under which every key of every view appears. */
static const struct {
    const char *section, *arguments;
} commands[] = {
    {"next", GPT2 "-p 'na\xc3\xafve' --token a"},
    {"score", GPT2 "-p 'the mole, the mole' --words"},
    {"score", GPT2 "-p 'the mole, the mole, the mole' --chunks -c 8"},
    {"attend", GPT2 "-p 'the mole' --query 2 --no-sink"},
    {"attend", GPT2 "-p 'the mole' --query 1 --words"},
    {"attend", GPT2 "-p 'the mole' --layer 0 --head 0 -n 2 --no-sink"},
    {"heads", GPT2 "--repeat 4 --batch 2"},
    {"lens", GPT2 "-p 'the mole' --token a --mid"},
    {"explain", GPT2 "-p 'the mole' --layer 0 --head 1"},
    {"ablate", GPT2 "-p 'the mole' --heads L0H1"},
    {"ablate", GPT2 "-p 'the mole' --sweep heads"},
    {"compare", GPT2 Q4_0 "-p 'the mole'"},
    {"dump", GPT2 "-p 'the mole' -o @"},
    {"view", GPT2 "-p 'the mole' --ablate L0H1"},
    {"selfcheck", GPT2},
    {"shape", GPT2},
    {"shape", "--preset gpt2"},
    {"case", "docs/cases/5-heads.json"},
    {"run", GPT2 "-p 'the mole' -n 2"},
};

static void test_printed_keys(void) {
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        print_and_mark(commands[i].section, commands[i].arguments);
}

static void test_documented_keys(void) {
    CHECK(n_keys > 300, "only %zu keys", n_keys);
    for (size_t i = 0; i < n_keys; i++)
        CHECK(keys[i].printed, "docs/JSON.md: %s has `%s`, which nothing prints", keys[i].section,
              keys[i].path);
}

int main(void) {
    snprintf(scratch, sizeof scratch, "/tmp/attn-test-keys-%ld.npz", (long)getpid());
    RUN(read_document);
    RUN(test_printed_keys);
    RUN(test_documented_keys);
    remove(scratch);
    return test_end();
}
