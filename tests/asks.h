/*
 * For tests of a page that lives: models that stay open, beside one that begins anew with every question; and how answers are
 * compared, but for the last bits.
 */
#ifndef ATTN_TEST_ASKS_H
#define ATTN_TEST_ASKS_H

#include "json.h"
#include "measures/outputnorms.h"
#include "measures/scores.h"
#include "measures/subject_cache.h"
#include "programs.h"
#include "test.h"
#include "viewdata.h"
#include "views/view.h"

#include <math.h>

#define FOLDER "tests/data/reference/"
#define LETTERS "tests/data/study/letters.gguf"
#define OWN "weights/model.gguf"
#define TEXT "the mole dug a hole and the mole dug"

/* Of numbers, as a share of those of 1 and more; 2: of quantised weights. Ranks may move by as little. */
static const double TOLERANCE = 2e-4, TOLERANCE_2 = 5e-3;

/* Models that differ in what a cache can do: plain, grouped heads, windows, states. `layer` has heads. */
static const struct {
    const char *path, *vocabulary, *layer;
} models[] = {
    {OWN, NULL, "4"},
    {FOLDER "gpt2-f32.gguf", NULL, "1"},
    {FOLDER "llama-f32.gguf", NULL, "1"},
    {FOLDER "gemma2.gguf", LETTERS, "1"},
    {FOLDER "gpt-oss.gguf", LETTERS, "1"},
    {FOLDER "llama-longrope.gguf", LETTERS, "1"},
    {FOLDER "qwen35.gguf", LETTERS, "3"},
    {FOLDER "lfm2.gguf", LETTERS, "1"},
    {FOLDER "granite.gguf", LETTERS, "1"},
};
enum { N_MODELS = sizeof models / sizeof *models };

/* A model that stays open, with and without what is kept. */
typedef struct World {
    OpenModel opened, fresh;
    SubjectCache cache;
    Checkpoint *vocabulary;
} World;

static inline void world_open_file(World *world, const char *path, const char *vocabulary) {
    Error error;
    *world = (World){0};
    world->opened.path = path;
    world->opened.threads = threads_new(2, &error);
    world->opened.model = model_open(path, &error);
    if (!world->opened.threads || !world->opened.model) exit(1);
    const Checkpoint *own = model_checkpoint(world->opened.model);
    world->opened.tokenizer = tokenizer_open(vocabulary, own, &world->vocabulary, &error);
    if (!world->opened.tokenizer) exit(1);
    world->fresh = world->opened;
    world->opened.cache = &world->cache;
}

static inline void world_open(World *world, size_t i) {
    world_open_file(world, models[i].path, models[i].vocabulary);
}

static inline void world_close(World *world) {
    subject_cache_free(&world->cache);
    tokenizer_free(world->opened.tokenizer);
    checkpoint_close(world->vocabulary);
    model_close(world->opened.model);
    threads_free(world->opened.threads);
}

/* The answer to a question of words with spaces between them, the text last; NULL where it is refused. */
static inline Json *ask(OpenModel *opened, const char *words, const char *text, Error *error) {
    static const View *const views[] = {&view_tokens, &view_next,    &view_attend, &view_lens,
                                        &view_page,   &view_explain, &view_ablate};
    char copy[1024], *argv[32], *json = NULL;
    int argc = 0;
    size_t n;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
    if (model_config(opened->model)->n_ctx < 64) argv[argc++] = "-c", argv[argc++] = "64";
    argv[argc++] = "--json", argv[argc++] = "-p", argv[argc++] = (char *)text, argv[argc] = NULL;
    opened->out = open_memstream(&json, &n);
    size_t view = 0;
    while (strcmp(views[view]->name, argv[0]) != 0) view++;
    int code = view_command(views[view], opened, argc, argv, error);
    fclose(opened->out);
    if (code == EXIT_SUCCESS) return json_take(json, n, error);
    free(json);
    return NULL;
}

/* The difference between two answers. */
typedef struct Compared {
    const char *what;
    double tolerance;
    size_t cells; /* in a pattern */
    size_t n_wrong;
} Compared;

static inline void differ(Compared *compared, const char *path, double want, double got) {
    if (compared->n_wrong++ < 4) CHECK(false, "%s: %s: %.9g, not %.9g", compared->what, path, got, want);
}

static inline void compare_numbers(Compared *compared, const char *path, double want, double got) {
    bool is_rank = strstr(path, "rank") || strstr(path, "lens.positions");
    double allowed = compared->tolerance * fmax(1, fabs(want));
    if (is_rank && want > 1 && want == floor(want)) allowed = fmax(1, 0.02 * want);
    if (!(fabs(want - got) <= allowed)) differ(compared, path, want, got);
}

static inline void compare_patterns(Compared *compared, const char *path, const Json *want, const Json *got) {
    unsigned char *cells[2] = {calloc(compared->cells, 1), calloc(compared->cells, 1)};
    if (unpack(cells[0], compared->cells, want) && unpack(cells[1], compared->cells, got))
        for (size_t i = 0; i < compared->cells; i++)
            if (abs(cells[0][i] - cells[1][i]) > 1) differ(compared, path, cells[0][i], cells[1][i]);
    free(cells[0]);
    free(cells[1]);
}

/* Norms in 16 bits, or scores. */
static inline void compare_bytes(Compared *compared, const char *path, const Json *want, const Json *got) {
    size_t n = SIZE_MAX, n_got = SIZE_MAX;
    bool scores = strstr(path, "scores");
    unsigned char *a = decode(want, &n), *b = decode(got, &n_got);
    if (n != n_got) differ(compared, path, (double)n, (double)n_got);
    for (size_t i = 0; a && b && n == n_got && i + 1 < n; i += scores ? 4 : 2) {
        float x = (float)(a[i] | a[i + 1] << 8) / 256, y = (float)(b[i] | b[i + 1] << 8) / 256;
        if (scores) memcpy(&x, a + i, 4), memcpy(&y, b + i, 4);
        if (!isinf(x) || x != y) compare_numbers(compared, path, (double)x, (double)y);
    }
    free(a);
    free(b);
}

static inline void compare(Compared *compared, const char *path, const Json *want, const Json *got) {
    char part[256];
    if (!got || want->kind != got->kind || n_items(want) != n_items(got)) {
        differ(compared, path, (double)want->kind, got ? (double)got->kind : NAN);
        return;
    }
    switch (want->kind) {
    case JSON_NUMBER: compare_numbers(compared, path, want->number, got->number); break;
    case JSON_TEXT:
        if (strstr(path, "made_by") || (want->n == got->n && memcmp(want->text, got->text, want->n) == 0))
            break;
        if (strstr(path, ".patterns"))
            compare_patterns(compared, path, want, got);
        else if (strstr(path, "norms") || strstr(path, ".writes") || strstr(path, ".steps"))
            compare_bytes(compared, path, want, got);
        else
            CHECK(false, "%s: %s is another text", compared->what, path);
        break;
    default:
        for (size_t i = 0; i < n_items(want); i++) {
            const char *key = want->kind == JSON_OBJECT ? c_text(json_key(want, i)) : "";
            snprintf(part, sizeof part, "%s.%s", path, key);
            compare(compared, part, json_item(want, i), *key ? json_get(got, key) : json_item(got, i));
        }
    }
}

/* Cells of the rows that an answer of `view` has. */
static inline size_t cells_of(const Json *view) {
    const Json *from = json_get(view, "from"), *to = json_get(view, "to");
    size_t first = from ? (size_t)from->number : 0,
           end = (size_t)(to ? to : json_get(view, "n_tokens"))->number;
    return end * (end + 1) / 2 - first * (first + 1) / 2;
}

/* The two must be the same but for rounding. */
static inline void check_same(const char *what, size_t model, const Json *want, const Json *got) {
    char name[600];
    snprintf(name, sizeof name, "%s: %s", models[model].path, what);
    Compared compared = {.what = name, .tolerance = model == 0 ? TOLERANCE_2 : TOLERANCE};
    if (json_get(want, "n_tokens")) compared.cells = cells_of(want);
    compare(&compared, "", want, got);
}

#endif
