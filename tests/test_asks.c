/*
 * A page that lives asks a model that stays open: every answer must be the one that a fresh program gives, but for
 * the last bits, whatever was asked before, and be it of some positions or of all.
 */
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

static void world_open_file(World *world, const char *path, const char *vocabulary) {
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

static void world_open(World *world, size_t i) {
    world_open_file(world, models[i].path, models[i].vocabulary);
}

static void world_close(World *world) {
    subject_cache_free(&world->cache);
    tokenizer_free(world->opened.tokenizer);
    checkpoint_close(world->vocabulary);
    model_close(world->opened.model);
    threads_free(world->opened.threads);
}

/* The answer to a question of words with spaces between them, the text last; NULL where it is refused. */
static Json *ask(OpenModel *opened, const char *words, const char *text, Error *error) {
    static const View *const views[] = {&view_tokens, &view_next,    &view_attend, &view_lens,
                                        &view_page,   &view_explain, &view_ablate};
    char copy[512], *argv[32], *json = NULL;
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

static void differ(Compared *compared, const char *path, double want, double got) {
    if (compared->n_wrong++ < 4) CHECK(false, "%s: %s: %.9g, not %.9g", compared->what, path, got, want);
}

static void compare_numbers(Compared *compared, const char *path, double want, double got) {
    bool is_rank = strstr(path, "rank") || strstr(path, "lens.positions");
    double allowed = compared->tolerance * fmax(1, fabs(want));
    if (is_rank && want > 1 && want == floor(want)) allowed = fmax(1, 0.02 * want);
    if (!(fabs(want - got) <= allowed)) differ(compared, path, want, got);
}

static void compare_patterns(Compared *compared, const char *path, const Json *want, const Json *got) {
    unsigned char *cells[2] = {calloc(compared->cells, 1), calloc(compared->cells, 1)};
    if (unpack(cells[0], compared->cells, want) && unpack(cells[1], compared->cells, got))
        for (size_t i = 0; i < compared->cells; i++)
            if (abs(cells[0][i] - cells[1][i]) > 1) differ(compared, path, cells[0][i], cells[1][i]);
    free(cells[0]);
    free(cells[1]);
}

/* Norms in 16 bits, or scores. */
static void compare_bytes(Compared *compared, const char *path, const Json *want, const Json *got) {
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

static void compare(Compared *compared, const char *path, const Json *want, const Json *got) {
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
static size_t cells_of(const Json *view) {
    const Json *from = json_get(view, "from"), *to = json_get(view, "to");
    size_t first = from ? (size_t)from->number : 0,
           end = (size_t)(to ? to : json_get(view, "n_tokens"))->number;
    return end * (end + 1) / 2 - first * (first + 1) / 2;
}

/* The two must be the same but for rounding. */
static void check_same(const char *what, size_t model, const Json *want, const Json *got) {
    char name[600];
    snprintf(name, sizeof name, "%s: %s", models[model].path, what);
    Compared compared = {.what = name, .tolerance = model == 0 ? TOLERANCE_2 : TOLERANCE};
    if (json_get(want, "n_tokens")) compared.cells = cells_of(want);
    compare(&compared, "", want, got);
}

/* A session on one model: typing, looking back, another branch, ablations, refusals. %s: the layer. */
static const struct {
    const char *words, *text;
    bool refused;
} questions[] = {
    {"view --parts predictions,patterns,writes --top 3", TEXT},
    {"view --from 7 --parts predictions,patterns,writes --top 3", TEXT " a"},
    {"view --from 8 --parts predictions --top 3", TEXT " a hole"},
    {"view --from 8 --parts patterns", TEXT " a hole"},
    {"lens --query 3 --top 1", TEXT " a hole"},
    {"explain --layer %s --head 1 --query 4 --top 1", TEXT " a hole"},
    {"view --from 5 --to 6 --parts predictions,patterns,writes --top 3", TEXT " a hole"},
    {"attend --layer %s --head 0 --query 6", TEXT " a hole"},
    {"view --from 900", TEXT " a hole", true},
    {"next --top 2 --ablate L%sH0,L0MLP=0.5 --draw 1", TEXT " a hole"},
    {"next --top 2 --ablate L%sH0,L0MLP=0.5 --draw 2", TEXT " a hole of"},
    {"next --top 2 --ablate L99", TEXT " a hole of", true},
    {"view --from 8 --parts predictions,patterns --top 3", TEXT " a hole of"},
    {"ablate --heads L%sH1", TEXT " a hole of"},
    {"view --from 4 --parts predictions,patterns --top 3 --ablate L%sH0=0.5,L0MLP", TEXT " a hole of"},
    {"view --from 4 --parts predictions,patterns --top 3 --ablate L%sH0=0.5,L0MLP", TEXT " a hole or"},
    {"explain --layer 99 --head 1", TEXT " a hole or", true},
    {"view --from 9 --parts predictions,patterns --top 3 --ablate L%sH0,L0MLP", TEXT " a hole of"},
    {"view --from 10 --parts predictions,patterns --top 3 --ablate L%sH0,L0MLP", TEXT " a hole of it"},
    {"view --from 10 --parts predictions --top 3 --ablate L%sH0,L0MLP=0.5", TEXT " a hole of it"},
    {"view --from 9 --parts predictions,patterns --top 3 --ablate L%sH0,L0MLP=0.5",
     "the male dug a hole of it and dug"},
    {"view --from 999 --ablate L0MLP", TEXT, true},
    {"view --from 6 --to 8 --parts lens,writes --ablate L%sH0,L0MLP=0.5 --ablated-only",
     "the male dug a hole of it and dug"},
    {"view --from 9 --to 10 --parts explained --layers %s --ablate L%sH0,L0MLP=0.5 --ablated-only",
     "the male dug a hole of it and dug"},
    {"next --top 2 --ablate L%sH0", "the male dug a hole of it and dug"},
    {"next --top 2 --ablate L%sH0", "the male dug a hole of it and dug in"},
    {"view --from 10 --parts predictions,patterns,writes,lens --ablate L%sH0 --ablated-only",
     "the male dug a hole of it and dug in"},
    {"view --parts text --ablate L%sH0 --ablated-only", "the male dug a hole of it and dug in"},
    {"view --from 0 --parts predictions,patterns --ablate L0MLP --ablated-only", "t"},
    {"ablate --heads L%sH0,L0MLP=0.5", "the male dug a hole of it and dug"},
    {"ablate --heads L0MLP", "the male dug"},
    {"next --top 2 --draw 3", "the male"},
    {"next --top 2", "the mole dug"},
    {"next --top 2", "thy"},
    {"next --top 2 --ablate L0MLP", "t"},
    {"next --top 2", "thy mole dug"},
    {"next --top 2 --kv q8_0", TEXT},
    {"view --from 3 --parts predictions,patterns,writes --top 3", TEXT},
    {"next --top 2", TEXT},
    {"next --top 2", TEXT},
};

static void test_nothing_depends_on_what_was_asked_before(void) {
    for (size_t m = 0; m < N_MODELS; m++) {
        World world;
        world_open(&world, m);
        for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
            char words[256];
            Error error = {{0}}, fresh_error = {{0}};
            snprintf(words, sizeof words, questions[i].words, models[m].layer, models[m].layer);
            Json *got = ask(&world.opened, words, questions[i].text, &error),
                 *want = ask(&world.fresh, words, questions[i].text, &fresh_error);
            CHECK(!want == questions[i].refused && !got == !want, "%s: %s: %s", models[m].path, words,
                  error.message);
            CHECK(want || strcmp(error.message, fresh_error.message) == 0, "%s", error.message);
            if (want && got) check_same(words, m, want, got);
            json_free(got);
            json_free(want);
        }
        world_close(&world);
    }
}

static bool stop_soon(void *user) {
    int *left = user;
    return (*left)-- <= 0;
}

/* Given up between any two layers, an ask leaves what is kept as good as it was. */
static void test_stopped(void) {
    static const char *const words[] = {"view --from 9 --parts predictions,patterns --top 3 --ablate L%sH0",
                                        "view --from 2 --parts predictions,patterns,explained --top 3",
                                        "next --top 3 --ablate L%sH0"};
    for (size_t m = 1; m < N_MODELS; m++) {
        World world;
        Error error = {{0}};
        size_t n_stopped = 0;
        world_open(&world, m);
        for (int left = 0; left < 24; left++) {
            int until = left;
            char question[128];
            snprintf(question, sizeof question, words[left % 3], models[m].layer);
            world.opened.stop = stop_soon;
            world.opened.stop_user = &until;
            Json *stopped = ask(&world.opened, question, left % 2 ? TEXT " a hole" : TEXT " a male", &error);
            n_stopped += !stopped;
            json_free(stopped);
            world.opened.stop = NULL;
            Json *got = ask(&world.opened, question, TEXT " a hole or", &error),
                 *want = ask(&world.fresh, question, TEXT " a hole or", &error);
            CHECK(got && want, "%s: %s", models[m].path, error.message);
            if (got && want) check_same(question, m, want, got);
            json_free(got);
            json_free(want);
        }
        CHECK(n_stopped > 4, "%s: only %zu were stopped", models[m].path, n_stopped);
        world_close(&world);
    }
}

/* An array's items from..to, as one of their own: that is what an ask for them must give. */
static Json slice_of(const Json *array, size_t from, size_t to) {
    Json slice = *array;
    slice.items = array->items + from;
    slice.n = (uint32_t)(to - from);
    return slice;
}

static const Json *traced(const Json *view, const char *path, size_t head) {
    const Json *layers = json_at(view, path);
    return &layers->items[layers->n - 1].items[head];
}

/* The rows of a pattern from a query on. */
static void check_rows(const Json *whole, const Json *some, size_t from, size_t to) {
    size_t n = (size_t)json_get(whole, "n_tokens")->number, before = from * (from + 1) / 2,
           size = to * (to + 1) / 2 - before;
    unsigned char *all = calloc(n * (n + 1) / 2, 1), *part = calloc(size, 1);
    if (unpack(all, n * (n + 1) / 2, traced(whole, "patterns.data", 1)) &&
        unpack(part, size, traced(some, "patterns.data", 1)))
        for (size_t i = 0; i < size; i++)
            CHECK(abs(all[before + i] - part[i]) <= 1, "cell %zu: %d, not %d", i, part[i], all[before + i]);
    free(all);
    free(part);
}

/* Norms: [scale, uint16 of each position]. */
static void check_norms(const char *what, const Json *whole, const Json *some, size_t from, size_t to) {
    size_t n_all = SIZE_MAX, n_some = 2 * (to - from);
    double scales[2] = {whole->items[0].number, some->items[0].number};
    unsigned char *all = decode(&whole->items[1], &n_all), *part = decode(&some->items[1], &n_some);
    for (size_t i = 0; all && part && i < to - from; i++) {
        double want = scales[0] * (all[2 * (from + i)] | all[2 * (from + i) + 1] << 8),
               got = scales[1] * (part[2 * i] | part[2 * i + 1] << 8);
        if (fabs(want - got) > scales[0] + 1e-3 * want)
            CHECK(false, "%s %zu: %g, not %g", what, i, got, want);
    }
    free(all);
    free(part);
}

static void check_pieces(size_t model, const Json *whole, const Json *some, size_t from, size_t to) {
    static const char *const arrays[] = {"positions", "next", "lens.positions"};
    for (size_t i = 0; i < 3; i++) {
        Json want = slice_of(json_at(whole, arrays[i]), from, to);
        if (model == 0 && i == 2) continue; /* of the first layers many are about as likely */
        check_same(arrays[i], model, &want, json_at(some, arrays[i]));
    }
    check_rows(whole, some, from, to);
    if (json_get(whole, "output_norms")->kind == JSON_ARRAY) {
        check_norms("output_norms", traced(whole, "output_norms", 0), traced(some, "output_norms", 0), from,
                    to);
        check_norms("heads", traced(whole, "writes.heads", 1), traced(some, "writes.heads", 1), from, to);
    }
    check_norms("value_norms", traced(whole, "value_norms", 0), traced(some, "value_norms", 0), from, to);
    check_norms("resid", json_at(whole, "writes.resid.1"), json_at(some, "writes.resid.1"), from, to);
    check_norms("attn", json_at(whole, "writes.attn.1"), json_at(some, "writes.attn.1"), from, to);
    check_norms("mlp", json_at(whole, "writes.mlp.0"), json_at(some, "writes.mlp.0"), from, to);
    double sum = 0, n = 0;
    for (size_t at = from > 0 ? from : 1; at < to; at++, n++)
        sum += json_get(&json_get(whole, "positions")->items[at], "surprisal_nats")->number;
    const Json *totals = json_get(some, "totals");
    CHECK(n > 0 || totals->kind == JSON_NULL, "totals of nothing");
    if (n > 0 && totals->kind == JSON_OBJECT) {
        CHECK_NEAR(json_get(totals, "n")->number, n, 0);
        CHECK_NEAR(json_get(totals, "nll_nats")->number, sum / n, TOLERANCE_2);
    }
}

static void test_some_positions_are_those_of_all(void) {
    static const size_t ranges[][2] = {{0, 1}, {0, 3}, {2, 5}, {5, 6}, {7, 0}};
    for (size_t m = 0; m < N_MODELS; m++) {
        World world;
        Error error = {{0}};
        world_open(&world, m);
        Json *whole = ask(&world.fresh, "view --top 3", TEXT, &error);
        for (size_t i = 0; whole && i < sizeof ranges / sizeof *ranges; i++) {
            char words[128];
            size_t n = (size_t)json_get(whole, "n_tokens")->number, to = ranges[i][1] ? ranges[i][1] : n;
            snprintf(words, sizeof words, "view --top 3 --from %zu --to %zu", ranges[i][0], to);
            for (int kept = 0; kept < 2; kept++) {
                Json *some = ask(kept ? &world.opened : &world.fresh, words, TEXT, &error);
                CHECK(some, "%s: %s", words, error.message);
                if (some) check_pieces(m, whole, some, ranges[i][0], to);
                json_free(some);
            }
        }
        CHECK(whole, "%s: %s", models[m].path, error.message);
        json_free(whole);
        world_close(&world);
    }
}

/* A probe of the test's own, at one position. */
typedef struct Seen {
    const Model *model;
    size_t position;
    float *resid, *attn, *mlp; /* [n_layer + 1][d_model], [n_layer][d_model] */
    float *z;                  /* [n_layer][n_head][d_head] */
} Seen;

static bool wants_all(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)user, (void)layer, (void)head;
    return site == PROBE_RESID_PRE || site == PROBE_RESID_POST || site == PROBE_ATTN_OUT ||
           site == PROBE_MLP_OUT || site == PROBE_Z;
}

static void keep(void *user, const Activation *activation) {
    const Seen *seen = user;
    const Config *config = model_config(seen->model);
    float *to = activation->site == PROBE_ATTN_OUT    ? seen->attn
                : activation->site == PROBE_MLP_OUT   ? seen->mlp
                : activation->site == PROBE_RESID_PRE ? seen->resid
                : activation->site == PROBE_Z         ? seen->z
                                                      : seen->resid + config->d_model;
    size_t row = activation->site == PROBE_Z ? activation->layer * config->n_head + activation->head
                                             : activation->layer;
    if (activation->position <= seen->position && seen->position < activation->position + activation->n_rows)
        memcpy(to + row * activation->n_cols,
               activation->data + (seen->position - activation->position) * activation->stride,
               activation->n_cols * sizeof *to);
}

static double norm_of(const float *x, size_t n) {
    double square = 0;
    for (size_t i = 0; i < n; i++) square += (double)x[i] * (double)x[i];
    return sqrt(square);
}

/* The norm in an answer about one position. */
static void check_norm(const Json *norm, double want, const char *what, size_t layer) {
    size_t n = 2;
    unsigned char *bytes = norm ? decode(&norm->items[1], &n) : NULL;
    double got = bytes ? norm->items[0].number * (bytes[0] | bytes[1] << 8) : NAN;
    CHECK(fabs(got - want) <= 1e-5 * want, "%s of layer %zu: %g, not %g", what, layer, got, want);
    free(bytes);
}

/* ‖W_O^h z‖, by the columns of the weights themselves. */
static double output_norm_of(const Subject *subject, const float *z, size_t layer, size_t head) {
    Arena arena = {0};
    Error error;
    const Config *config = model_config(subject->model);
    const float *w = head_outputs(subject, &arena, layer, head, 1, &error);
    double square = 0;
    for (size_t i = 0; w && i < config->d_model; i++) {
        double sum = 0;
        for (size_t j = 0; j < config->d_head; j++) sum += (double)w[i * config->d_head + j] * (double)z[j];
        square += sum * sum;
    }
    arena_free(&arena);
    return sqrt(square);
}

static void check_writes(World *world, size_t position) {
    Error error = {{0}};
    char words[96];
    snprintf(words, sizeof words, "view --parts writes --from %zu --to %zu", position, position + 1);
    Json *view = ask(&world->opened, words, TEXT, &error);
    CHECK(view, "%s", error.message);
    if (!view) return;
    const Config *config = model_config(world->opened.model);
    size_t n_layer = config->n_layer, d = config->d_model, d_head = config->d_head;
    Seen seen = {world->opened.model,        position,
                 floats_new(n_layer + 1, d), floats_new(n_layer, d),
                 floats_new(n_layer, d),     floats_new(n_layer * config->n_head, d_head)};
    Probe probe = {&seen, wants_all, keep};
    const Json *tokens = json_get(view, "tokens");
    Subject subject = {.model = world->opened.model,
                       .compute = {.kernels = kernels_pick(NULL, &error), .threads = world->opened.threads}};
    for (size_t i = 0; i < tokens->n; i++)
        tokens_push(&subject.tokens, (int32_t)json_get(&tokens->items[i], "id")->number, &error);
    Session *session = subject_session(&subject, 0, &probe, &error);
    CHECK(session &&
              subject_feed(&subject, session, subject.tokens.ids, subject.tokens.n, NULL, NULL, &error),
          "%s", error.message);
    const Json *writes = json_get(view, "writes");
    for (size_t layer = 0; layer <= n_layer; layer++) {
        check_norm(&json_get(writes, "resid")->items[layer], norm_of(seen.resid + layer * d, d), "resid",
                   layer);
        if (layer == n_layer) break;
        check_norm(&json_get(writes, "attn")->items[layer], norm_of(seen.attn + layer * d, d), "attn", layer);
        check_norm(&json_get(writes, "mlp")->items[layer], norm_of(seen.mlp + layer * d, d), "mlp", layer);
        for (size_t head = 0; head < config->n_head; head++)
            check_norm(
                &json_get(writes, "heads")->items[layer].items[head],
                output_norm_of(&subject, seen.z + (layer * config->n_head + head) * d_head, layer, head),
                "a head", layer);
    }
    session_free(session);
    tokens_free(&subject.tokens);
    free(seen.resid);
    free(seen.attn);
    free(seen.mlp);
    free(seen.z);
    json_free(view);
}

static void test_writes(void) {
    for (size_t m = 0; m < 4; m++) {
        World world;
        world_open(&world, m);
        check_writes(&world, 3);
        check_writes(&world, 7);
        world_close(&world);
    }
}

/* A flat list of ids and effects against a table of `explain`. */
static void check_effects(const char *what, const Json *view, const Json *flat, const Json *table) {
    CHECK(flat->n == 10 && table->n == 5, "%s: %u and %u", what, flat->n, table->n);
    for (size_t i = 0; flat->n == 10 && i < 5; i++) {
        char key[24];
        const Json *token = &table->items[i];
        double effect = json_get(token, "effect")->number, id = json_get(token, "id")->number;
        snprintf(key, sizeof key, "%.0f", id);
        CHECK(fabs(flat->items[2 * i + 1].number - effect) <= TOLERANCE * fmax(1, fabs(effect)),
              "%s: %g, not %g", what, flat->items[2 * i + 1].number, effect);
        CHECK(flat->items[2 * i].number == id && json_get(json_get(view, "vocabulary"), key),
              "%s: token %zu is %g, not %g", what, i, flat->items[2 * i].number, id);
    }
}

static void check_explained(World *world, const char *words, size_t query) {
    Error error = {{0}};
    Json *view = ask(&world->opened, words, TEXT, &error);
    const Json *heads = view ? json_at(view, "explained.heads") : NULL;
    CHECK(heads, "%s: %s: %s", world->opened.path, words, error.message);
    if (heads) CHECK_NEAR(json_at(view, "explained.query")->number, (double)query, 0);
    bool traced[64] = {0};
    size_t n = 0;
    parse_list(strstr(words, "--layers 1") ? "1" : NULL, "layer", model_config(world->opened.model)->n_layer,
               traced, &error);
    for (size_t layer = 0; heads && layer < model_config(world->opened.model)->n_layer; layer++) {
        if (!traced[layer] || !layer_has_heads(world->opened.model, layer)) continue;
        for (size_t head = 0; head < heads->items[n].n; head++) {
            char question[96], what[160];
            snprintf(question, sizeof question, "explain --layer %zu --head %zu --query %zu", layer, head,
                     query);
            snprintf(what, sizeof what, "%s: %s", world->opened.path, question);
            Json *explain = ask(&world->fresh, question, TEXT, &error);
            const Json *got = &heads->items[n].items[head];
            CHECK(explain, "%s: %s", what, error.message);
            if (!explain) continue;
            double norm = json_get(explain, "output_norm")->number;
            CHECK_NEAR(json_get(got, "output_norm")->number, norm, TOLERANCE * norm);
            check_effects(what, view, json_get(got, "raised"), json_get(explain, "raised"));
            check_effects(what, view, json_get(got, "lowered"), json_get(explain, "lowered"));
            json_free(explain);
        }
        n++;
    }
    CHECK(!heads || n == heads->n, "%s: %zu layers of %u", words, n, heads ? heads->n : 0);
    json_free(view);
}

/* Every head writes what `explain` says of it, in any family; null behind gates. */
static void test_explained(void) {
    for (size_t m = 0; m < N_MODELS; m++) {
        World world;
        Error error = {{0}};
        world_open(&world, m);
        if (has_gated_heads(world.opened.model)) {
            Json *view = ask(&world.opened, "view --parts explained", TEXT, &error);
            CHECK(view && json_get(view, "explained")->kind == JSON_NULL, "%s", error.message);
            json_free(view);
        } else {
            check_explained(&world, "view --parts explained --query 5", 5);
            check_explained(&world, "view --parts explained,patterns --from 2 --to 8 --layers 1", 7);
        }
        world_close(&world);
    }
}

/* Layers left out are null; the others have the numbers that they have among all. */
static void test_parts(void) {
    static const struct {
        const char *name, *members[6];
    } parts[] = {
        {"predictions", {"positions", "totals", "next"}},
        {"patterns", {"patterns", "output_norms", "value_norms", "steps"}},
        {"lens", {"lens"}},
        {"text", {"heads.text"}},
        {"repeat", {"heads.repeat"}},
        {"writes", {"writes"}},
        {"explained", {"explained"}},
    };
    enum { N_PARTS = sizeof parts / sizeof *parts };
    World world;
    Error error = {{0}};
    world_open(&world, 1);
    Json *whole = ask(&world.fresh, "view", TEXT, &error);
    for (size_t i = 0; whole && i < N_PARTS; i++) {
        char words[64];
        snprintf(words, sizeof words, "view --parts %s", parts[i].name);
        Json *some = ask(&world.opened, words, TEXT, &error);
        for (size_t j = 0; some && j < N_PARTS; j++)
            for (size_t k = 0; parts[j].members[k]; k++) {
                const Json *value = json_at(some, parts[j].members[k]);
                CHECK(value && (value->kind == JSON_NULL) == (i != j), "%s: %s", words, parts[j].members[k]);
                Compared compared = {.what = words, .tolerance = TOLERANCE, .cells = cells_of(whole)};
                if (i == j && value)
                    compare(&compared, ".patterns", json_at(whole, parts[j].members[k]), value);
            }
        CHECK(some && json_get(some, "n_layer") && json_get(some, "vocabulary"), "%s: %s", words,
              error.message);
        json_free(some);
    }
    json_free(whole);
    world_close(&world);
}

/* A mark in what is kept of the prefix is still there after the text has grown, and gone where another text came. */
static void test_a_prefix_is_not_fed_again(void) {
    World world;
    Error error = {{0}};
    world_open(&world, 1);
    json_free(ask(&world.opened, "ablate --heads L1H0", "the mole dug", &error));
    CHECK(world.cache.session && session_position(world.cache.session) == 12, "all of the text is kept");
    const Config *config = model_config(world.opened.model);
    /* of what enters layer 1 at position 3 */
    float *mark = world.cache.streams + (world.cache.n_ctx + 3) * config->d_model, known = *mark;
    *mark = 7;
    json_free(ask(&world.opened, "next", "the mole dug a hole", &error));
    CHECK(*mark == 7 && session_position(world.cache.session) == 19, "the prefix was fed again");
    float *later = mark + 10 * config->d_model, before = *later;
    *later = 7;
    json_free(ask(&world.opened, "lens --query 4", "the mole dug a hole", &error));
    json_free(ask(&world.opened, "view --from 18 --parts predictions", "the mole dug a hole", &error));
    CHECK(*mark == 7 && *later == 7 && session_position(world.cache.session) == 19,
          "looking back forgot what was behind");
    json_free(ask(&world.opened, "next", "the mole dig", &error));
    json_free(ask(&world.opened, "next", "the mole dug a hole", &error));
    CHECK(*mark == 7 && *later == before, "what stood behind another token was taken for this text's");
    json_free(ask(&world.opened, "view --from 18 --ablate L1H0", "the mole dug a hole", &error));
    world.cache.streams[3 * config->d_model] = 7; /* from which a run without the head would begin */
    Json *got = ask(&world.opened, "view --from 19 --parts predictions --ablate L1H0", "the mole dug a hole.",
                    &error),
         *want = ask(&world.fresh, "view --from 19 --parts predictions --ablate L1H0", "the mole dug a hole.",
                     &error);
    CHECK(got && want, "%s", error.message);
    if (got && want) check_same("the run without a head was fed again", 1, want, got);
    json_free(got);
    json_free(want);
    json_free(ask(&world.opened, "next", "thy mole", &error));
    CHECK(*mark != 7 && *mark != known, "another text's stream");
    json_free(ask(&world.opened, "next", "the mole dug", &error));
    CHECK(*mark == known, "and this one's again");
    world_close(&world);
}

/* The logits after the last token, as `next` lists the likeliest. */
static void check_next_without(size_t model, const char *list, const Json *next, const Json *view) {
    const Json *all = json_at(view, "ablation.next"), *want = json_get(&all->items[all->n - 1], "top"),
               *top = json_get(next, "top");
    double tolerance = model == 0 ? TOLERANCE_2 : TOLERANCE;
    CHECK(json_equals(json_at(next, "ablated.0"), list) && json_at(next, "factors.0")->number == 0, "%s",
          list);
    CHECK(top->n == 4 && want->n == 8, "%u of %u", top->n, want->n);
    for (size_t i = 0; i < top->n; i++) {
        double logit = json_get(&top->items[i], "logit")->number;
        CHECK(fabs(logit - want->items[2 * i + 1].number) <= tolerance * fmax(1, fabs(logit)),
              "%s: %s: %g, not %g", models[model].path, list, logit, want->items[2 * i + 1].number);
        CHECK(json_get(&top->items[i], "id")->number == want->items[2 * i].number, "%s: token %zu", list, i);
    }
    CHECK(json_at(next, "drawn.id")->number == want->items[0].number, "%s: drawn", list);
}

/* `next --ablate` is the distribution that `view --ablate` ends with, and not that of the model as it is. */
static void test_next_without(void) {
    for (size_t m = 0; m < N_MODELS; m++) {
        static const char *const texts[] = {TEXT " a", TEXT " a hole", TEXT " a male", "t"};
        World world;
        Error error = {{0}};
        char name[32], next[96], view[96];
        world_open(&world, m);
        snprintf(name, sizeof name, "L%sH1", models[m].layer);
        snprintf(next, sizeof next, "next --top 4 --temp 0 --draw 0 --ablate %s", name);
        snprintf(view, sizeof view, "view --parts predictions --top 4 --from 0 --ablate %s", name);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            Json *want = ask(&world.fresh, view, texts[i], &error),
                 *plain = ask(&world.fresh, "next", texts[i], &error),
                 *got = ask(&world.opened, next, texts[i], &error),
                 *fresh = ask(&world.fresh, next, texts[i], &error);
            CHECK(want && plain && got && fresh, "%s: %s", models[m].path, error.message);
            if (want && plain && got && fresh) {
                check_next_without(m, name, got, want);
                check_next_without(m, name, fresh, want);
                CHECK(json_at(plain, "top.0.logit")->number != json_at(got, "top.0.logit")->number,
                      "%s: nothing is off", models[m].path);
            }
            Json *answers[] = {want, plain, got, fresh};
            for (size_t j = 0; j < 4; j++) json_free(answers[j]);
        }
        world_close(&world);
    }
}

/* Drawing on with a head off feeds the new token alone: a mark before it is not read. */
static void test_next_without_goes_on(void) {
    World world;
    Error error = {{0}};
    world_open(&world, 1);
    json_free(ask(&world.opened, "next --ablate L1H0", "the mole dug a hole", &error));
    CHECK(world.cache.ablated && session_position(world.cache.ablated) == 19, "the run without is kept");
    /* of what enters layer 0 at position 3, from which a run without the head begins */
    world.cache.streams[3 * model_config(world.opened.model)->d_model] = 7;
    Json *got = ask(&world.opened, "next --ablate L1H0", "the mole dug a hole.", &error),
         *want = ask(&world.fresh, "next --ablate L1H0", "the mole dug a hole.", &error),
         *other = ask(&world.opened, "next --ablate L1H1", "the mole dug a hole.", &error);
    CHECK(got && want && other, "%s", error.message);
    if (got && want) check_same("the run without a head was fed again", 1, want, got);
    if (other && want)
        CHECK(json_at(other, "top.0.logit")->number != json_at(want, "top.0.logit")->number, "another head");
    json_free(got);
    json_free(want);
    json_free(other);
    world_close(&world);
}

/* Ablating is the same for `view` and `ablate`; a factor of 1 changes nothing, 0 is what no factor is. */
static void test_factors(void) {
    World world;
    Error error = {{0}};
    world_open(&world, 2);
    Json *one = ask(&world.opened, "ablate --heads L0H1=1,L1MLP=1", TEXT, &error),
         *none = ask(&world.opened, "ablate --heads L0H1,L1MLP", TEXT, &error),
         *zero = ask(&world.opened, "ablate --heads L0H1=0,L1MLP=0", TEXT, &error),
         *both = ask(&world.opened, "ablate --heads L0H1 --mlps 1", TEXT, &error),
         *half = ask(&world.opened, "ablate --heads L0H1=0.5,L1MLP=0.5", TEXT, &error),
         *view = ask(&world.opened, "view --parts predictions --ablate L0H1=0.5,L1MLP=0.5", TEXT, &error);
    CHECK(one && none && zero && both && half && view, "%s", error.message);
    if (one && none && zero && both && half && view) {
        CHECK(json_at(one, "ablation.kl_nats")->number == 0 &&
                  json_at(one, "ablation.delta_nll_nats")->number == 0,
              "a factor of 1");
        double kl = json_at(none, "ablation.kl_nats")->number,
               kl_half = json_at(half, "ablation.kl_nats")->number;
        CHECK(kl == json_at(zero, "ablation.kl_nats")->number &&
                  kl == json_at(both, "ablation.kl_nats")->number,
              "a factor of 0");
        CHECK(kl_half > 0 && kl_half != kl, "half");
        CHECK_NEAR(json_at(view, "ablation.kl_nats")->number, kl_half, 1e-6);
        CHECK(json_at(half, "factors.1")->number == 0.5 && json_equals(json_at(half, "ablated.1"), "L1MLP"),
              "names");
    }
    Json *answers[] = {one, none, zero, both, half, view};
    for (size_t i = 0; i < 6; i++) json_free(answers[i]);
    static const char *const refused[] = {"L0H1=",  "L0H1=5", "L0H1=-1", "L0H1=x",
                                          "L0MLPx", "L9MLP",  "L0H1=nan"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char words[64];
        snprintf(words, sizeof words, "ablate --heads %s", refused[i]);
        CHECK(!ask(&world.opened, words, TEXT, &error), "%s was taken", refused[i]);
    }
    world_close(&world);
}

/* A head's z at a factor of its own gives what the formula says: the logits between those with and without it. */
static double surprisal_of_last(World *world, const char *list) {
    char words[128];
    Error error = {{0}};
    snprintf(words, sizeof words, "view --from 8 --parts predictions --top 3 --ablate %s", list);
    Json *view = ask(&world->opened, words, TEXT, &error);
    const Json *last = view ? json_at(view, "ablation.positions.0.surprisal_nats") : NULL;
    double surprisal = last ? last->number : NAN;
    json_free(view);
    return surprisal;
}

static void test_a_factor_between(void) {
    World world;
    world_open(&world, 1);
    double off = surprisal_of_last(&world, "L1H0"), little = surprisal_of_last(&world, "L1H0=0.001"),
           on = surprisal_of_last(&world, "L1H0=1"), more = surprisal_of_last(&world, "L1H0=1.001");
    CHECK(off != on && fabs(little - off) < 0.01 * fabs(on - off) + 1e-5 && little != off, "%g near %g",
          little, off);
    CHECK(more != on && fabs(more - on) < 0.01 * fabs(on - off) + 1e-5, "%g near %g", more, on);
    world_close(&world);
}

/* Patterns without the parts: those of `view` in layers below, others above. */
static void test_changed_patterns(void) {
    World world;
    Error error = {{0}};
    world_open(&world, 1);
    Json *view = ask(&world.opened, "view --parts patterns --ablate L0MLP", TEXT, &error),
         *same = ask(&world.opened, "view --parts patterns --ablate L0MLP=1", TEXT, &error);
    CHECK(view && same, "%s", error.message);
    if (view && same) {
        CHECK(json_at(view, "ablation.patterns.0")->kind == JSON_NULL, "a layer that nothing reaches");
        const Json *changed = json_at(view, "ablation.patterns.1.0"),
                   *plain = json_at(view, "patterns.data.1.0");
        CHECK(changed->n != plain->n || memcmp(changed->text, plain->text, plain->n) != 0,
              "nothing has changed");
        Compared compared = {.what = "factor 1", .tolerance = TOLERANCE, .cells = cells_of(view)};
        compare(&compared, ".patterns", plain, json_at(same, "ablation.patterns.1.0"));
    }
    Json *only = ask(&world.opened, "view --parts predictions,patterns --top 3 --ablate L0MLP --ablated-only",
                     TEXT, &error),
         *all = ask(&world.opened, "view --parts predictions,patterns --top 3 --ablate L0MLP", TEXT, &error);
    CHECK(only && all, "%s", error.message);
    if (only && all) {
        CHECK(json_get(only, "positions")->kind == JSON_NULL && json_get(only, "patterns")->kind == JSON_NULL,
              "what is known already");
        Compared compared = {.what = "--ablated-only", .tolerance = TOLERANCE, .cells = cells_of(all)};
        compare(&compared, ".ablation", json_get(all, "ablation"), json_get(only, "ablation"));
    }
    CHECK(!ask(&world.opened, "view --ablated-only", TEXT, &error), "nothing is off");
    json_free(only);
    json_free(all);
    json_free(view);
    json_free(same);
    world_close(&world);
}

enum { N_DRAWN = 24 };

/* Token by token `next --draw` writes what ./run does with the same options: their ids are then at `list`. */
static void check_drawn(World *world, const char *options, char list[16 * N_DRAWN]) {
    Error error = {{0}};
    char question[32 * N_DRAWN], copy[256];
    const char *const words[] = {"-p", "The king and the king", "-n", "24", "--kv", "f32", "--json"};
    setenv("ATTN_KERNEL", kernels_pick(NULL, &error)->name, 1);
    Command command = command_of("RUN", "./run");
    command_add(&command, world->opened.path, strlen(world->opened.path));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        command_add(&command, words[i], strlen(words[i]));
    snprintf(copy, sizeof copy, "%s", options);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        command_add(&command, word, strlen(word));
    size_t n;
    char *output = output_of(command, &n);
    Json *run = json_take(output, n, &error);
    unsetenv("ATTN_KERNEL");
    *list = '\0';
    if (!run) return;
    const Json *ids = json_get(run, "tokens");
    bool ended = json_equals(json_get(run, "stop"), "end"); /* by its last token */
    CHECK(ids->n > 4, "%s: %u tokens tell little", options, ids->n);
    for (size_t k = 0; k < ids->n && k < N_DRAWN; k++) {
        snprintf(question, sizeof question, "next --draw %zu %s%s%s", k, options, *list ? " --ids " : "",
                 list);
        Json *next = ask(&world->opened, question, words[1], &error);
        CHECK(next, "%s: %s", question, error.message);
        if (!next) break;
        double id = json_at(next, "drawn.id")->number;
        CHECK(json_at(next, "drawn.end")->boolean == (ended && k + 1 == ids->n), "%s: the end at %zu",
              options, k);
        CHECK(id == ids->items[k].number, "%s: %s: token %zu is %g, not %g", world->opened.path, options, k,
              id, ids->items[k].number);
        json_free(next);
        n = strlen(list);
        snprintf(list + n, 16 * N_DRAWN - n, "%s%.0f", *list ? "," : "", id);
    }
    json_free(run);
}

static void test_draws_what_run_draws(void) {
    static const char *const options[] = {
        "-s 1 --temp 0.8 --top-p 0.9",
        "-s 7 --temp 1 --top-p 1",
        "-s 42 --temp 1.5 --top-p 0.95",
        "-s 3 --temp 0 --top-p 1",
        "-s 5",
        "-s 6 --temp 1.2 --top-k 9 --min-p 0.05 --repeat-penalty 1.4 --repeat-last-n 7",
        "-s 6 --top-p 1 --presence-penalty 1.5 --frequency-penalty 0.5 --samplers temp;penalties",
    };
    World world;
    char drawn[16 * N_DRAWN];
    world_open(&world, 0);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) check_drawn(&world, options[i], drawn);
    world_close(&world);
}

static void put_key(FILE *file, const char *name, uint32_t type, const void *value, size_t n) {
    uint64_t length = strlen(name);
    fwrite(&length, sizeof length, 1, file);
    fwrite(name, 1, length, file);
    fwrite(&type, sizeof type, 1, file);
    fwrite(value, 1, n, file);
}

static void put_text(FILE *file, const char *name, const char *text, uint64_t n) {
    enum { STRING = 8 };
    put_key(file, name, STRING, &n, sizeof n);
    fwrite(text, 1, n, file);
}

#define OWN_KEY "general.sampling."

/* Where `text` stands in n bytes; NULL where it does not. */
static char *find(char *at, size_t n, const char *text) {
    size_t length = strlen(text);
    for (; n >= length; at++, n--)
        if (memcmp(at, text, length) == 0) return at;
    return NULL;
}

/* Copies our own model, and puts keys in front of its own: their bytes are whole blocks of the file's alignment. */
static void write_asking(const char *path, const char *order) {
    enum { HEADER = 24, ALIGNMENT = 32, F32 = 6, N_KEYS = 6 };
    static const struct {
        const char *name;
        float value;
    } keys[N_KEYS] = {
        {"general.sampling.temp", 1.3f},           {"general.sampling.top_k", 30},
        {"general.sampling.top_p", 0.9f},          {"general.sampling.min_p", 0.02f},
        {"general.sampling.penalty_repeat", 1.3f}, {"general.sampling.penalty_last_n", 12},
    };
    static const char zeros[ALIGNMENT];
    FILE *from = fopen(OWN, "rb"), *to = fopen(path, "wb");
    uint64_t n_keys;
    char bytes[4096];
    if (!from || !to || fread(bytes, 1, HEADER, from) != HEADER) exit(1);
    memcpy(&n_keys, bytes + 16, sizeof n_keys);
    n_keys += order ? N_KEYS + 2 : N_KEYS + 1;
    memcpy(bytes + 16, &n_keys, sizeof n_keys);
    fwrite(bytes, 1, HEADER, to);
    for (size_t i = 0; i < N_KEYS; i++) put_key(to, keys[i].name, F32, &keys[i].value, sizeof keys[i].value);
    if (order) put_text(to, "general.sampling.sequence", order, strlen(order));
    uint64_t with_empty = (uint64_t)ftell(to) - HEADER + 8 + strlen("filler") + 4 + 8;
    put_text(to, "filler", zeros, (ALIGNMENT - with_empty % ALIGNMENT) % ALIGNMENT);
    bool first = true; /* 4 KB, which hold the model's own keys of this kind: they get another name */
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, from)) > 0; first = false) {
        for (char *at = bytes; first && (at = find(at, (size_t)(bytes + n - at), OWN_KEY));)
            memcpy(at, "generic", 7);
        fwrite(bytes, 1, n, to);
    }
    fclose(from);
    fclose(to);
}

/* Without options it draws as the file asks, as ./run does; with some, these go before it. */
static void test_draws_as_the_file_asks(void) {
    static const char *const orders[] = {NULL, "top_k;penalties;min_p;temperature;top_p"};
    char drawn[3][16 * N_DRAWN], given[16 * N_DRAWN];
    World world;
    Error error = {{0}};
    world_open(&world, 0);
    check_drawn(&world, "-s 2", drawn[2]);
    world_close(&world);
    for (size_t i = 0; i < 2; i++) {
        const char *path = scratch_path("asks.gguf");
        write_asking(path, orders[i]);
        world_open_file(&world, path, NULL);
        check_drawn(&world, "-s 2", drawn[i]);
        check_drawn(&world, "-s 2 --temp 0.3 --top-k 0 --repeat-penalty 1", given);
        CHECK(strcmp(given, drawn[i]) != 0, "options say nothing");
        Json *next = ask(&world.opened, "next --draw 0", "The king", &error),
             *plain = ask(&world.opened, "next", "The king", &error);
        CHECK(next && plain, "%s", error.message);
        if (next && plain) {
            static const struct {
                const char *key;
                double asked, off;
            } values[] = {{"after.temperature", 1.3, 1},    {"after.top_k", 30, 0},
                          {"after.top_p", 0.9, 1},          {"after.min_p", 0.02, 0},
                          {"after.repeat_penalty", 1.3, 1}, {"after.repeat_last_n", 12, 64},
                          {"after.presence_penalty", 0, 0}, {"after.frequency_penalty", 0, 0}};
            for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
                CHECK_NEAR(json_at(next, values[j].key)->number, values[j].asked, 1e-6);
                CHECK_NEAR(json_at(plain, values[j].key)->number, values[j].off, 1e-6);
            }
        }
        json_free(next);
        json_free(plain);
        world_close(&world);
        unlink(path);
    }
    CHECK(strcmp(drawn[0], drawn[1]) != 0 && strcmp(drawn[0], drawn[2]) != 0, "the file says nothing: %s",
          drawn[0]);
}

static void test_ids_are_tokens(void) {
    World world;
    Error error = {{0}};
    world_open(&world, 0);
    Json *text = ask(&world.opened, "tokens", "The Eiffel \xe5\xa1\x94", &error),
         *ids = ask(&world.opened, "tokens --ids 4136,220,161,94,242", "The", &error);
    CHECK(text && ids, "%s", error.message);
    if (text && ids) compare(&(Compared){.what = "--ids"}, "", text, ids);
    CHECK(!world.cache.session, "the model ran");
    json_free(text);
    json_free(ids);
    static const char *const refused[] = {"1,", ",1", "x", "1,x", "99999", "-1", "1 2"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char *argv[] = {"tokens", "--json", "--ids", (char *)refused[i], NULL};
        world.opened.out = stderr;
        CHECK(view_command(&view_tokens, &world.opened, 4, argv, &error) != 0, "--ids %s", refused[i]);
    }
    world_close(&world);
}

/* A text outgrows the room that was kept for it. */
static void test_a_text_that_grows(void) {
    World world;
    Error error = {{0}};
    char text[2048] = "";
    world_open(&world, 0);
    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < 8 * (i + 1); j++) strcat(text, " The mole dug a hole.");
        if (strlen(text) > 1400) break;
        Json *got = ask(&world.opened, "next --top 2", text, &error),
             *want = ask(&world.fresh, "next --top 2", text, &error);
        CHECK(got && want, "%s", error.message);
        if (got && want) check_same("a longer text", 0, want, got);
        json_free(got);
        json_free(want);
    }
    world_close(&world);
}

int main(void) {
    if (!scratch_begin()) return 1;
    RUN(test_nothing_depends_on_what_was_asked_before);
    RUN(test_stopped);
    RUN(test_some_positions_are_those_of_all);
    RUN(test_writes);
    RUN(test_explained);
    RUN(test_parts);
    RUN(test_a_prefix_is_not_fed_again);
    RUN(test_next_without);
    RUN(test_next_without_goes_on);
    RUN(test_factors);
    RUN(test_a_factor_between);
    RUN(test_changed_patterns);
    RUN(test_draws_what_run_draws);
    RUN(test_draws_as_the_file_asks);
    RUN(test_ids_are_tokens);
    RUN(test_a_text_that_grows);
    scratch_end();
    return test_end();
}
