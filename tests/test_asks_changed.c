/* A page that lives asks of models with parts off, or scaled; and has texts drawn, as ./run draws them. */
#include "asks.h"

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
        snprintf(next, sizeof next, "next --top 4 --temp 0 --repeat-penalty 1 --draw 0 --ablate %s", name);
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
    fwrite(name, 1, (size_t)length, file);
    fwrite(&type, sizeof type, 1, file);
    fwrite(value, 1, n, file);
}

static void put_text(FILE *file, const char *name, const char *text, uint64_t n) {
    enum { STRING = 8 };
    put_key(file, name, STRING, &n, sizeof n);
    fwrite(text, 1, (size_t)n, file);
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
