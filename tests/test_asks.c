/*
 * A page that lives asks a model that stays open: every answer must be the one that a fresh program gives, whatever was asked
 * before, and be it of some positions or of all. Models with parts off are in test_asks_changed.c, texts that it draws, too.
 */
#include "asks.h"

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
    {"ablate --sweep heads", "the male"},
    {"ablate --heads L%sH1 --hard-zero", "the male"},
    {"ablate --heads L%sH1,L%sH0=0.5,L%sH1=0.25", "the male dug"},
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
            snprintf(words, sizeof words, questions[i].words, models[m].layer, models[m].layer,
                     models[m].layer);
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

/* A context may say how positions are turned (LongRoPE: by other factors from 17 on), be too large, or too small. */
static void test_context(void) {
    static const struct {
        size_t model;
        const char *words, *text;
        bool refused;
    } asked[] = {
        {5, "next -c 20", "the mole"},
        {5, "next -c 12", "the mole"},
        {5, "next -c 12", "the mule"},
        {5, "next -c 20", "the mole"},
        {5, "next -c 12", TEXT, true},
        {5, "next -c 12", "the mole"},
        {1, "next -c 192", "the mole"},
        {1, "next -c 500", "the mole"},
        {1, "next -c 500", TEXT TEXT TEXT TEXT TEXT TEXT, true},
        {1, "next -c 192", "the mole"},
    };
    World world;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        Error error = {{0}}, fresh_error = {{0}};
        if (i == 0 || asked[i].model != asked[i - 1].model) world_open(&world, asked[i].model);
        Json *got = ask(&world.opened, asked[i].words, asked[i].text, &error),
             *want = ask(&world.fresh, asked[i].words, asked[i].text, &fresh_error);
        CHECK(!got == asked[i].refused && !want == !got, "%zu: %s", i, error.message);
        CHECK(want || strcmp(error.message, fresh_error.message) == 0, "%zu: %s", i, error.message);
        if (got && want) check_same(asked[i].words, asked[i].model, want, got);
        json_free(got);
        json_free(want);
        if (i + 1 == sizeof asked / sizeof *asked || asked[i].model != asked[i + 1].model)
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
    parse_list("--layers", strstr(words, "--layers 1") ? "1" : NULL, "layer",
               model_config(world->opened.model)->n_layer, traced, &error);
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

int main(void) {
    if (!scratch_begin()) return 1;
    RUN(test_nothing_depends_on_what_was_asked_before);
    RUN(test_context);
    RUN(test_stopped);
    RUN(test_some_positions_are_those_of_all);
    RUN(test_writes);
    RUN(test_explained);
    RUN(test_parts);
    RUN(test_a_prefix_is_not_fed_again);
    scratch_end();
    return test_end();
}
