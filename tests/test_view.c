/*
 * The page of `study view`. Its data, decoded as a browser would, must equal what the other views print, which
 * test_study.c compares with PyTorch. And no text may break out of the place that the page has for it.
 */
#include "cli/base64.h"
#include "measures/traces.h"
#include "page/sha256.h"
#include "programs.h"
#include "test.h"
#include "viewdata.h"

#include <stdarg.h>
#include <stdint.h>

#define GPT2 "tests/data/reference/gpt2-f32.gguf"   /* 2 layers of 2 heads, 257 tokens, 192 positions */
#define LLAMA "tests/data/reference/llama-f32.gguf" /* 2 layers of 4 heads, 2 kv heads */
#define LETTERS "tests/data/study/letters.gguf"
/* A head that is watched is computed row by row, and its sums round differently (probe.h). */
#define TOLERANCE 1e-5

#define TEXT "The Eiffel tower stands, the tower"

/* Gives what the program prints as JSON; arguments end with NULL. Without it there is nothing to go on with. */
static Json *json_of(const char *first, ...) {
    Command command = command_begin();
    va_list arguments;
    va_start(arguments, first);
    for (const char *word = first; word; word = va_arg(arguments, const char *))
        command_add(&command, word, strlen(word));
    va_end(arguments);
    command_add(&command, "--json", 6);
    size_t n;
    Error error = {{0}};
    char *output = output_of(command, &n);
    Json *json = json_take(output, n, &error);
    if (json) return json;
    printf("FAILED: %s: %s\n", command.line, error.message);
    scratch_end();
    exit(1);
}

/* Like number_at, for a path that has numbers in it. */
static double number(const Json *json, const char *format, ...) {
    char path[128];
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    return number_at(json, path);
}

/* ‖v‖ at a place of "value_norms" or "output_norms". */
static double norm_at(const Json *norms, size_t layer, size_t head, size_t n, size_t key) {
    char path[64];
    size_t bytes_n = 2 * n;
    snprintf(path, sizeof path, "%zu.%zu.1", layer, head);
    unsigned char *bytes = decode(json_at(norms, path), &bytes_n);
    double norm =
        bytes ? number(norms, "%zu.%zu.0", layer, head) * (bytes[2 * key] | bytes[2 * key + 1] << 8) : NAN;
    free(bytes);
    return norm;
}

/* The score of a query and a key. The first row kept is that of query `first`. */
static double score_at(const Json *view, size_t layer, size_t head, size_t query, size_t key) {
    char path[80];
    size_t first = (size_t)number_at(view, "steps.first"), n = (size_t)number_at(view, "steps.n"),
           end = first + n;
    size_t bytes_n = 4 * (end * (end + 1) / 2 - first * (first + 1) / 2);
    snprintf(path, sizeof path, "steps.scores.%zu.%zu", layer, head);
    unsigned char *bytes = decode(json_at(view, path), &bytes_n);
    size_t at = 4 * (query * (query + 1) / 2 - first * (first + 1) / 2 + key);
    float score = NAN;
    if (bytes && at + 4 <= bytes_n) memcpy(&score, bytes + at, 4);
    free(bytes);
    return (double)score;
}

static void check_patterns(const Json *view, const char *model) {
    size_t n = (size_t)number_at(view, "n_tokens"), n_head = (size_t)number_at(view, "n_head"),
           n_layer = (size_t)number_at(view, "n_layer"), size = n * (n + 1) / 2;
    Json *attend = json_of("attend", model, "-p", TEXT, NULL);
    Json *by_value = json_of("attend", model, "-p", TEXT, "--by", "value", NULL);
    unsigned char *triangle = calloc(size, 1);
    for (size_t layer = 0; layer < n_layer; layer++)
        for (size_t head = 0; head < n_head; head++) {
            char path[64];
            size_t map = layer * n_head + head, cell = 0;
            snprintf(path, sizeof path, "patterns.data.%zu.%zu", layer, head);
            if (!unpack(triangle, size, json_at(view, path))) continue;
            for (size_t query = 0; query < n; query++)
                for (size_t key = 0; key <= query; key++, cell++)
                    CHECK_NEAR(triangle[cell] / 255.0,
                               number(attend, "patterns.%zu.rows.%zu.%zu", map, query, key),
                               1 / 510.0 + 1e-6);
            for (size_t key = 0; key < n; key++) {
                double weight = number(attend, "patterns.%zu.rows.%zu.%zu", map, n - 1, key);
                double value = number(by_value, "patterns.%zu.rows.%zu.%zu", map, n - 1, key);
                double norm = norm_at(json_get(view, "output_norms"), layer, head, n, key);
                CHECK_NEAR(weight * norm, value, 1e-4 * fmax(value, weight));
            }
        }
    free(triangle);
    json_free(attend);
    json_free(by_value);
}

static void check_steps(const Json *view, const char *model, const char *text, size_t query) {
    size_t n = (size_t)number_at(view, "n_tokens"), n_head = (size_t)number_at(view, "n_head");
    for (size_t layer = 0; layer < 2; layer++)
        for (size_t head = 0; head < n_head; head += n_head - 1) {
            char words[3][24];
            size_t numbers[] = {layer, head, query};
            for (int i = 0; i < 3; i++) snprintf(words[i], sizeof words[i], "%zu", numbers[i]);
            Json *explain = json_of("explain", model, "-p", text, "--layer", words[0], "--head", words[1],
                                    "--query", words[2], NULL);
            size_t kv_head = (size_t)number_at(explain, "kv_head");
            for (size_t key = 0; key <= query; key++) {
                CHECK_NEAR(score_at(view, layer, head, query, key), number(explain, "keys.%zu.score", key),
                           1e-5);
                double norm = number(explain, "keys.%zu.value_norm", key);
                CHECK_NEAR(norm_at(json_get(view, "value_norms"), layer, kv_head, n, key), norm, 1e-4 * norm);
            }
            json_free(explain);
        }
}

/* A page's "next": p of the i-th token at the j-th temperature. */
static double drawn_p(const Json *view, const Json *next, size_t i, size_t j) {
    const Json *top = json_get(next, "top");
    double temperature = number_at(view, "temperature_step") * (double)j, max = number(top, "1"),
           rest = number(next, "rest.%zu", j - 1), sum = isnan(rest) ? 0 : exp(rest);
    for (size_t k = 1; k < top->n; k += 2) sum += exp((top->items[k].number - max) / temperature);
    return exp((top->items[2 * i + 1].number - max) / temperature) / sum;
}

/* The token's text, or the bytes that "hex" gives, as the page knows it by its id. */
static const Json *piece_of(const Json *view, double id) {
    char key[24];
    snprintf(key, sizeof key, "%.0f", id);
    return json_get(json_get(view, "vocabulary"), key);
}

static bool same_piece(const Json *piece, const Json *token) {
    const Json *hex = json_get(token, "hex"), *text = json_get(token, "token");
    if (hex) piece = json_get(piece, "hex"), text = hex;
    return piece && text && piece->kind == JSON_TEXT && piece->n == text->n &&
           memcmp(piece->text, text->text, text->n) == 0;
}

static void check_next(const Json *view, const char *model) {
    static const struct {
        const char *temperature;
        size_t j;
    } drawn[] = {{"0.1", 1}, {"0.5", 5}, {"1", 10}, {"1.3", 13}, {"2", 20}};
    const Json *all = json_get(view, "next"), *next = &all->items[all->n - 1];
    for (size_t t = 0; t < sizeof drawn / sizeof *drawn; t++) {
        Json *expected =
            json_of("next", model, "-p", TEXT, "--top", "20", "--temp", drawn[t].temperature, NULL);
        CHECK_NEAR(number_at(next, "entropy_nats"), number_at(expected, "entropy_nats"), 1e-5);
        for (size_t i = 0; i < 20; i++) {
            const Json *token = &json_get(expected, "top")->items[i];
            double logit = number(next, "top.%zu", 2 * i + 1);
            CHECK_NEAR(number(next, "top.%zu", 2 * i), number_at(token, "id"), 0);
            CHECK_NEAR(logit, number_at(token, "logit"), 1e-5);
            CHECK_NEAR(exp(logit - number_at(next, "log_sum")), number_at(token, "probability"), 1e-6);
            CHECK_NEAR(drawn_p(view, next, i, drawn[t].j), number_at(token, "after"), 2e-5);
            CHECK(same_piece(piece_of(view, number_at(token, "id")), token), "token %zu of next", i);
        }
        json_free(expected);
    }
}

static void check_score(const Json *view, const char *model) {
    Json *score = json_of("score", model, "-p", TEXT, NULL);
    Comparison comparison = {.name = "totals", .tolerance = TOLERANCE};
    compare_values(&comparison, json_get(view, "totals"), json_get(score, "totals"));
    const Json *positions = json_get(view, "positions");
    CHECK(positions->n == (size_t)number_at(view, "n_tokens") && positions->items[0].kind == JSON_NULL,
          "positions");
    for (size_t at = 1; at < positions->n; at++) {
        comparison.name = "positions";
        compare_values(&comparison, &positions->items[at], &json_get(score, "positions")->items[at - 1]);
    }
    json_free(score);
}

static void check_lens(const Json *view, const char *model) {
    for (size_t query = 0; query < 30; query += 9) {
        char word[24];
        snprintf(word, sizeof word, "%zu", query);
        Json *lens = json_of("lens", model, "-p", TEXT, "--query", word, NULL);
        const Json *rows = json_get(lens, "rows"), *got = &json_at(view, "lens.positions")->items[query];
        CHECK_NEAR(number_at(got, "final"), number_at(lens, "final.id"), 0);
        for (size_t i = 0; i < rows->n; i++) {
            const Json *row = &rows->items[i], *name = json_get(row, "row");
            const char *text = c_text(json_string(name));
            CHECK(json_equals(&json_at(view, "lens.rows")->items[i], text), "%s", text);
            CHECK_NEAR(number(got, "rows.%zu.0", i), number_at(row, "final_probability"), 1e-5);
            CHECK_NEAR(number(got, "rows.%zu.1", i), number_at(row, "final_rank"), 0);
            for (size_t k = 0; k < 5; k++) {
                CHECK_NEAR(number(got, "rows.%zu.%zu", i, 2 + 2 * k), number(row, "top.%zu.id", k), 0);
                CHECK_NEAR(number(got, "rows.%zu.%zu", i, 3 + 2 * k), number(row, "top.%zu.probability", k),
                           1e-5);
                CHECK(
                    same_piece(piece_of(view, number(row, "top.%zu.id", k)), &json_get(row, "top")->items[k]),
                    "token %zu of row %zu", k, i);
            }
        }
        json_free(lens);
    }
}

/* The rows of a table against the objects of `heads --json`. */
static void check_scores(const Json *table, const Json *heads) {
    const Json *columns = json_get(table, "columns"), *rows = json_get(table, "rows");
    CHECK(columns->n == 12 && rows->n == json_get(heads, "heads")->n, "%u columns, %u rows", columns->n,
          rows->n);
    CHECK(number_at(table, "n_queries") == number_at(heads, "n_queries"), "queries");
    for (size_t i = 0; i <= rows->n; i++) {
        const Json *row = i < rows->n ? &rows->items[i] : json_get(table, "chance");
        const Json *head = i < rows->n ? &json_get(heads, "heads")->items[i] : json_get(heads, "chance");
        for (size_t j = 0; j < columns->n; j++) {
            const char *column = c_text(json_string(&columns->items[j]));
            const Json *want = json_get(head, column), *got = &row->items[j];
            CHECK(want && want->kind == got->kind, "head %zu: %s", i, column);
            if (got->kind == JSON_NUMBER)
                CHECK_NEAR(got->number, want->number, 1e-5 * fmax(1, fabs(want->number)));
        }
        if (i < rows->n)
            CHECK(string_compare(json_string(&json_get(table, "labels")->items[i]),
                                 json_string(json_get(head, "label"))) == 0,
                  "label %zu", i);
    }
}

static void check_heads(const Json *view, const char *model) {
    Json *text = json_of("heads", model, "-p", TEXT, NULL), *repeat = json_of("heads", model, NULL);
    check_scores(json_at(view, "heads.text"), text);
    check_scores(json_at(view, "heads.repeat"), repeat);
    json_free(text);
    json_free(repeat);
}

static void check_ablation(const Json *view, const char *model) {
    Json *ablate = json_of("ablate", model, "-p", TEXT, "--heads", "L0H1,L1", NULL);
    const Json *ablation = json_get(view, "ablation"), *next = json_get(ablation, "next");
    Comparison comparison = {.name = "ablation", .tolerance = TOLERANCE};
    compare_values(&comparison, json_get(ablate, "ablation"), ablation);
    compare_values(&comparison, json_get(ablate, "baseline"), json_get(ablation, "baseline"));
    compare_values(&comparison, json_get(ablate, "ablated"), json_get(ablation, "heads"));
    double sum = 0, n = number_at(view, "n_tokens");
    for (size_t at = 1; at < (size_t)n; at++) {
        double surprisal = number(ablation, "positions.%zu.surprisal_nats", at),
               id = number(view, "tokens.%zu.id", at);
        const Json *top = json_get(&next->items[at - 1], "top");
        sum += surprisal;
        for (size_t i = 0; i < top->n; i += 2)
            if (top->items[i].number == id)
                CHECK_NEAR(number_at(&next->items[at - 1], "log_sum") - top->items[i + 1].number, surprisal,
                           1e-5);
    }
    CHECK_NEAR(sum / (n - 1), number_at(ablation, "nll_nats"), 1e-6);
    json_free(ablate);
}

/* Weights in 1/255, of a triangle. */
static void check_triangle(const char *name, const Json *want, const Json *got) {
    CHECK(got && (want->kind == JSON_NULL) == (got->kind == JSON_NULL), "%s", name);
    if (want->kind == JSON_NULL || !got) return;
    unsigned char *cells = calloc(want->n, 1);
    if (unpack(cells, want->n, got))
        for (size_t i = 0; i < want->n; i++)
            CHECK_NEAR(cells[i] / 255.0, want->items[i].number, 1 / 510.0 + 1e-5);
    free(cells);
}

static void check_floats(const Json *want, const Json *got) {
    size_t n = 4 * want->n;
    unsigned char *bytes = decode(got, &n);
    for (size_t i = 0; bytes && i < want->n; i++) {
        float x;
        memcpy(&x, bytes + 4 * i, 4);
        CHECK_NEAR((double)x, want->items[i].number, 1e-5 * fmax(1, fabs(want->items[i].number)));
    }
    free(bytes);
}

/* [scale, 16 bits each] */
static void check_norms(const char *name, const Json *want, const Json *got) {
    size_t n = 2 * want->n;
    CHECK(got && got->n == 2, "%s", name);
    unsigned char *bytes = got ? decode(&got->items[1], &n) : NULL;
    for (size_t i = 0; bytes && i < want->n; i++) {
        double scale = got->items[0].number, norm = scale * (bytes[2 * i] | bytes[2 * i + 1] << 8);
        CHECK(fabs(norm - want->items[i].number) <= 0.51 * scale + 2e-5 * fmax(1, norm), "%s: %g, not %g",
              name, norm, want->items[i].number);
    }
    free(bytes);
}

typedef enum Packed { TRIANGLE, FLOATS, NORMS } Packed;

/* Arrays of what `depth` times lies in arrays. */
static void check_packed(const char *name, Packed packed, size_t depth, const Json *want, const Json *got) {
    if (depth > 0) {
        /* a layer whose patterns are as they were */
        bool none = got && got->kind == JSON_NULL && want->items[0].kind == JSON_NULL;
        CHECK(got && (none || got->n == want->n), "%s", name);
        for (size_t i = 0; got && !none && i < want->n; i++)
            check_packed(name, packed, depth - 1, &want->items[i], &got->items[i]);
    } else if (packed == TRIANGLE) {
        check_triangle(name, want, got);
    } else if (packed == FLOATS) {
        check_floats(want, got);
    } else {
        check_norms(name, want, got);
    }
}

static Json *case_at(const char *path, Json **got) {
    Error error = {{0}};
    size_t n, n_output;
    char *text = read_whole(path, &n);
    Json *test = text ? json_take(text, n, &error) : NULL; /* whose texts lie in it */
    const Json *arguments = json_get(test, "arguments");
    CHECK(arguments, "%s: %s", path, error.message);
    Command command = command_begin();
    for (size_t i = 0; arguments && i < arguments->n; i++)
        command_add(&command, arguments->items[i].text, arguments->items[i].n);
    char *output = output_of(command, &n_output);
    *got = json_take(output, n_output, &error);
    CHECK(*got, "%s: %s", path, error.message);
    return test;
}

/* With --ablate all parts of the page are the changed model's: against PyTorch (scripts/expect/study_reference.py). */
static void test_changed(void) {
    static const struct {
        const char *name, *path;
        Packed packed;
        size_t depth;
    } packed[] = {
        {"patterns", "ablation.patterns", TRIANGLE, 2},
        {"scores", "ablation.steps.scores", FLOATS, 2},
        {"value_norms", "ablation.value_norms", NORMS, 2},
        {"output_norms", "ablation.output_norms", NORMS, 2},
        {"resid", "ablation.writes.resid", NORMS, 1},
        {"attn", "ablation.writes.attn", NORMS, 1},
        {"mlp", "ablation.writes.mlp", NORMS, 1},
        {"heads", "ablation.writes.heads", NORMS, 2},
    };
    static const char *const names[] = {"gpt2", "gpt2-scaled", "llama", "llama-upper", "gemma2", "phi2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64];
        snprintf(path, sizeof path, "tests/data/study/view-%s.json", names[i]);
        Json *got = NULL, *test = case_at(path, &got);
        const Json *expect = json_get(test, "expect");
        if (got && expect) {
            Comparison comparison = {.name = path, .tolerance = json_get(test, "tolerance")->number};
            compare_values(&comparison, json_get(expect, "ablation"), json_get(got, "ablation"));
            for (size_t j = 0; j < sizeof packed / sizeof *packed; j++)
                check_packed(packed[j].path, packed[j].packed, packed[j].depth,
                             json_get(json_get(expect, "unpacked"), packed[j].name),
                             json_at(got, packed[j].path));
        }
        json_free(got);
        json_free(test);
    }
}

static void check_model(const char *model) {
    Json *view = json_of("view", model, "-p", TEXT, "--ablate", "L0H1,L1", NULL);
    CHECK(number_at(view, "n_prompt") == number_at(view, "n_tokens"), "nothing was generated");
    check_patterns(view, model);
    check_steps(view, model, TEXT, 1);
    check_steps(view, model, TEXT, (size_t)number_at(view, "n_tokens") - 1);
    check_next(view, model);
    check_score(view, model);
    check_lens(view, model);
    check_heads(view, model);
    check_ablation(view, model);
    json_free(view);
}

static void test_gpt2(void) { check_model(GPT2); }
static void test_llama(void) { check_model(LLAMA); }

/* Beyond 65,536 scores in all, only one query's are kept. --layers leaves out the patterns of other layers. */
static void test_long(void) {
    char text[186];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i % 23);
    text[sizeof text - 1] = '\0';
    Json *view = json_of("view", GPT2, "-p", text, NULL);
    CHECK(number_at(view, "steps.first") == 184 && number_at(view, "steps.n") == 1,
          "the last query's scores");
    check_steps(view, GPT2, text, 184);
    json_free(view);
    view = json_of("view", GPT2, "-p", text, "--query", "100", NULL);
    CHECK(number_at(view, "steps.first") == 100 && number_at(view, "steps.n") == 1, "another's");
    check_steps(view, GPT2, text, 100);
    json_free(view);
    view = json_of("view", GPT2, "-p", text, "--layers", "1", "--top", "2", NULL);
    CHECK(number_at(view, "steps.first") == 0 && number_at(view, "steps.n") == 185, "all again");
    CHECK(number_at(view, "patterns.layers.0") == 1 && json_at(view, "patterns.data")->n == 1 &&
              json_get(view, "output_norms")->n == 1 && json_at(view, "heads.text.rows")->n == 4,
          "one layer's patterns, all heads' scores");
    CHECK(json_at(view, "next.7.top")->n == 4, "--top 2");
    Json *best = json_of("view", GPT2, "-p", text, "--layers", "1", "--top", "1", NULL);
    double rest = number_at(view, "next.7.rest.9"), max = number_at(view, "next.7.top.1");
    CHECK_NEAR(number_at(best, "next.7.rest.9"), log(exp(rest) + exp(number_at(view, "next.7.top.3") - max)),
               1e-5);
    json_free(best);
    json_free(view);
}

/* Where one token has all but e^-97 at the lowest temperature, the others' sum is that of their logits all the same. */
static void test_little_rest(void) {
    Json *view = json_of("view", GPT2, "--ids", "90", "--top", "1", NULL);
    Json *all = json_of("view", GPT2, "--ids", "90", "--top", "257", NULL);
    const Json *top = json_at(all, "next.0.top");
    double first = top->items[1].number, second = top->items[3].number, sum = 0;
    for (size_t k = 3; k < top->n; k += 2) sum += exp((top->items[k].number - second) / 0.1);
    CHECK_NEAR(number_at(view, "next.0.rest.0"), (second - first) / 0.1 + log(sum), 1e-4);
    CHECK((second - first) / 0.1 < -95, "a token that leaves the others little");
    json_free(all);
    json_free(view);
}

/* One token: only its own row, and null for what needs two. With the whole vocabulary in top there is no rest. */
static void test_short(void) {
    Json *view = json_of("view", GPT2, "-p", "H", "--top", "1000", NULL);
    CHECK(json_get(view, "positions")->n == 1 && json_at(view, "heads.text")->kind == JSON_NULL &&
              json_at(view, "totals.nll_nats")->kind == JSON_NULL &&
              json_get(view, "ablation")->kind == JSON_NULL,
          "one token");
    CHECK(json_at(view, "next.0.top")->n == 2 * 257 && json_at(view, "next.0.rest.0")->kind == JSON_NULL,
          "all of the vocabulary");
    CHECK(json_at(view, "heads.repeat.rows")->n == 4, "repeated text");
    json_free(view);
    view = json_of("view", LLAMA, "-p", "", "-c", "2", NULL); /* BOS alone, and no room for it and two more */
    CHECK(json_get(view, "n_tokens")->number == 1 && json_at(view, "heads.repeat")->kind == JSON_NULL, "BOS");
    json_free(view);
}

/* The model writes as with `attend -n`, and the page is about all of it. */
static void test_generated(void) {
    static const char *const temperatures[] = {"0", "1.5"};
    for (int i = 0; i < 2; i++) {
        Json *view =
            json_of("view", LLAMA, "-p", TEXT, "-n", "5", "--temp", temperatures[i], "-s", "7", NULL);
        Json *attend = json_of("attend", LLAMA, "-p", TEXT, "-n", "5", "--temp", temperatures[i], "-s", "7",
                               "--layer", "0", "--head", "0", NULL);
        size_t n_prompt = (size_t)number_at(view, "n_prompt"), n = (size_t)number_at(view, "n_tokens");
        const Json *generated = json_get(attend, "generated");
        CHECK(generated->n == n - n_prompt && n_prompt == json_get(attend, "tokens")->n, "%u", generated->n);
        CHECK(json_get(view, "positions")->n == n && json_get(view, "next")->n == n, "positions of all");
        CHECK_NEAR(number_at(view, "temperature"), atof(temperatures[i]), 1e-6);
        for (size_t j = 0; j < generated->n; j++)
            CHECK_NEAR(number(view, "tokens.%zu.id", n_prompt + j), number_at(&generated->items[j], "id"), 0);
        json_free(view);
        json_free(attend);
    }
}

/* Gives the text between the only `from` and the next `to`: *n bytes. */
static char *between(char *page, const char *from, const char *to, size_t *n) {
    char *begin = strstr(page, from), *end = begin ? strstr(begin + strlen(from), to) : NULL;
    CHECK(end && !strstr(begin + strlen(from), from), "%s … %s", from, to);
    if (!end) return NULL;
    *n = (size_t)(end - begin) - strlen(from);
    return begin + strlen(from);
}

static char *write_page(const char *model, const char *text) {
    Command command = command_begin();
    const char *words[] = {"view", model, "-p", text, "-o", scratch_path("page.html")};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        command_add(&command, words[i], strlen(words[i]));
    size_t n;
    char *output = output_of(command, &n), *page = read_whole(words[5], &n);
    CHECK(strncmp(output, words[5], strlen(words[5])) == 0 && strstr(output, " tokens, "), "%s", output);
    CHECK(page && strlen(page) == n, "a NUL in the page");
    free(output);
    unlink(words[5]);
    return page;
}

/* The policy names what stands in the page, byte for byte. */
static void check_hash(char *page, const char *directive, const char *from, const char *to) {
    size_t n = 0;
    unsigned char digest[SHA256_BYTES];
    char hash[BASE64_SIZE(SHA256_BYTES) + 1] = "", rule[128];
    char *element = between(page, from, to, &n);
    if (!element) return;
    CHECK(n > 0 && !memchr(element, '\r', n), "an empty %s, or one that a browser would change", from);
    sha256(digest, element, n);
    base64_encode(hash, digest, sizeof digest);
    snprintf(rule, sizeof rule, "%s 'sha256-%s';", directive, hash);
    CHECK(strstr(page, rule) && strstr(page, rule) < element, "no %s", rule);
}

/* The text that the tokens of a page stand for, from their bytes. */
static void check_text(const Json *data, const char *text) {
    const Json *tokens = json_get(data, "tokens");
    char got[512] = "";
    size_t n = 0;
    for (size_t i = 0; i < tokens->n; i++) {
        const Json *hex = json_get(&tokens->items[i], "hex"), *token = json_get(&tokens->items[i], "token");
        for (size_t j = 0; hex && j + 1 < hex->n; j += 2) {
            char byte[3] = {hex->text[j], hex->text[j + 1], 0};
            got[n++] = (char)strtol(byte, NULL, 16);
        }
        if (!hex) memcpy(got + n, token->text, token->n), n += token->n;
    }
    CHECK(n == strlen(text) && memcmp(got, text, n) == 0, "'%.*s' for '%s'", (int)n, got, text);
}

static void test_page(void) {
    static const char *const texts[] = {
        TEXT,
        "</script><script>alert(1)</script><!-- <script> {{script}} {{data}}",
        "\"'&amp;<b>\\u003c \x01\x1f\x7f\t\r\n",
        "\xff\xfe \xc0\xaf \xed\xa0\x80 \xe2\x82",
        "\xe2\x80\xae\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d \xf0\x9f\x98\x80\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *page = write_page(GPT2, texts[i]);
        if (!page) continue;
        size_t n = 0, n_scripts = 0;
        Error error = {{0}};
        char *data = between(page, "<script type=\"application/json\" id=\"data\">", "</script>", &n);
        Json *json = data ? json_parse(data, n, &error) : NULL;
        CHECK(json && !memchr(data, '<', n), "%s: %s", texts[i], error.message);
        if (json) check_text(json, texts[i]);
        json_free(json);
        check_hash(page, "script-src", "<script>", "</script>");
        check_hash(page, "style-src", "<style>", "</style>");
        for (const char *at = page; (at = strstr(at, "<script")); at++) n_scripts++;
        CHECK(n_scripts == 5, "%zu elements", n_scripts); /* data, worker, engine, weights, script */
        char *title = between(page, "<title>", "</title>", &n);
        CHECK(title && strncmp(title, "attn: ", 6) == 0 && !memchr(title, '<', n) && n < 512, "%.*s", (int)n,
              title);
        CHECK(strstr(page, "content=\"default-src 'none'; "), "no policy");
        const char *marker = i == 0 ? strstr(page, "{{") : NULL;
        CHECK(!marker, "%.20s is left", marker);
        free(page);
    }
}

/* The next line of the figure, which must be this one; returns what follows it. */
static const char *__attribute__((format(printf, 2, 3)))
expect_line(const char *at, const char *format, ...) {
    char line[400];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    size_t n = strlen(line);
    CHECK(strncmp(at, line, n) == 0 && at[n] == '\n', "not %s, but %.200s", line, at);
    return strchr(at, '\n') ? strchr(at, '\n') + 1 : at;
}

/*
 * A figure of n tokens, each one letter: cells of `cell` pixels, letters 0.65 of that high and 0.62 of this wide, a margin
 * of 8 pixels, 20 for the title; and for each weight that is at least 1/255 a rectangle where it belongs.
 */
static void check_figure(size_t n, double cell) {
    char text[301];
    for (size_t i = 0; i < n; i++) text[i] = (char)('a' + i * i % 23);
    text[n] = '\0';
    size_t n_output;
    const char *file = scratch_path("figure.svg"), *const words[] = {"view", GPT2, "-p",    text,
                                                                     "-o",   file, "--svg", "L1H0"};
    Command command = command_begin();
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        command_add(&command, words[i], strlen(words[i]));
    free(output_of(command, &n_output));
    char *svg = read_whole(file, &n_output);
    unlink(file);
    Json *json = json_of("attend", GPT2, "-p", text, "--layer", "1", "--head", "0", NULL);
    double side = (double)n * cell, font = 0.65 * cell, label = 0.62 * font, x = 8 + label + 4,
           y = 28 + label + 4, width = x + side + 8, height = y + side + 8, down = 0.35 * font;
    const char *at = svg ? strstr(svg, "<svg ") : NULL;
    CHECK(at, "no figure");
    if (!at) return;
    at = expect_line(
        at,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.2f %.2f\" "
        "font-family=\"sans-serif\">",
        width, height, width, height);
    at = expect_line(at, "<title>L1H0</title>");
    CHECK(strncmp(at, "<desc>Attention pattern of head 0 in layer 1: ", 46) == 0, "%.60s", at);
    at =
        expect_line(strstr(at, "<text "),
                    "<text x=\"8\" y=\"22\" font-size=\"14\" font-weight=\"bold\" fill=\"#222\">L1H0</text>");
    at = expect_line(at, "<g font-size=\"%.2f\" fill=\"#222\">", font);
    for (size_t i = 0; i < n; i++) {
        double middle = ((double)i + 0.5) * cell;
        at = expect_line(at, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"end\">%c</text>", x - 4,
                         y + middle + down, text[i]);
        at = expect_line(at, "<text transform=\"translate(%.2f %.2f) rotate(-90)\">%c</text>",
                         x + middle + down, y - 4, text[i]);
    }
    at = expect_line(at, "</g>");
    at = expect_line(at, "<g fill=\"#3b4cc0\">");
    for (size_t q = 0; q < n && !test_broken; q++)
        for (size_t k = 0; k <= q; k++) {
            double weight = number(json, "patterns.0.rows.%zu.%zu", q, k);
            if (weight < 1.0 / 255) continue;
            at = expect_line(
                at,
                "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill-opacity=\"%.3f\"><title>%c "
                "&#8594; %c %.3f</title></rect>",
                x + (double)k * cell, y + (double)q * cell, cell, cell, weight, text[q], text[k], weight);
        }
    at = expect_line(at, "</g>");
    expect_line(
        at,
        "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"none\" stroke=\"#bbb\" stroke-width=\"0.5\"/>",
        x, y, side, side);
    unlink(file);
    json_free(json);
    free(svg);
}

static void test_figure(void) {
    check_figure(5, 18);
    check_figure(60, 18);
    check_figure(120, 9); /* 1080 pixels in all */
}

static void test_sha256(void) {
    char many[1000001];
    memset(many, 'a', sizeof many - 1);
    many[sizeof many - 1] = '\0';
    /* Of NIST's examples for FIPS 180-4, and lengths around the end of a block (by sha256sum). */
    const struct {
        const char *text;
        size_t n;
        const char *digest;
    } known[] = {
        {"", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {many, 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {many, 63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
        {many, 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {many, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        unsigned char digest[SHA256_BYTES];
        char hex[2 * SHA256_BYTES + 1];
        sha256(digest, known[i].text, known[i].n);
        for (size_t j = 0; j < SHA256_BYTES; j++) snprintf(hex + 2 * j, 3, "%02x", digest[j]);
        CHECK(strcmp(hex, known[i].digest) == 0, "%zu bytes: %s", known[i].n, hex);
    }
}

static void test_base64(void) { /* RFC 4648, section 10 */
    static const char *const known[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"},
                                           {"\xfb\xff\xbf", "+/+/"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char text[16] = "";
        size_t n = base64_encode(text, known[i][0], strlen(known[i][0]));
        CHECK(n == strlen(known[i][1]) && memcmp(text, known[i][1], n) == 0, "%s: %s", known[i][0], text);
    }
}

static void test_packed_rows(void) {
    static const size_t runs[] = {0, 1, 7, 8, 63, 64, 16384, 5};
    static const float zeros[16384],
        some[] = {1, 0.4f / 255, 0.6f / 255, 14.0f / 255, 15.0f / 255, 16.0f / 255};
    static const unsigned char levels[] = {255, 0, 1, 14, 15, 16};
    unsigned char triangle[65536];
    Arena arena = {0};
    PackedRows packed = {.arena = &arena};
    size_t size = 0, at = 0;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) { /* each run in two rows */
        size_t half = runs[i] / 2;
        packed_rows_add(&packed, some, 6, 0);
        packed_rows_add(&packed, zeros, half, 0);
        packed_rows_add(&packed, zeros, runs[i] - half, 0);
        size += 6 + runs[i];
    }
    packed_rows_finish(&packed);
    CHECK(!arena.refused && packed.n < 96, "%zu bytes", packed.n);
    char text[BASE64_SIZE(96) + 1];
    Json json = {.kind = JSON_TEXT, .text = text, .n = (uint32_t)base64_encode(text, packed.bytes, packed.n)};
    if (unpack(triangle, size, &json))
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
            CHECK(memcmp(triangle + at, levels, 6) == 0, "before run %zu", i);
            for (size_t j = at + 6; j < at + 6 + runs[i]; j++) CHECK(triangle[j] == 0, "run %zu", i);
            at += 6 + runs[i];
        }

    static const float row[] = {1.0f / 255, 0.9f / 255, 0.2f}; /* of these the second is not kept */
    packed = (PackedRows){.arena = &arena};
    packed_rows_add(&packed, row, 3, 1.0f / 255);
    packed_rows_finish(&packed);
    CHECK(packed.n == 3 && memcmp(packed.bytes, (unsigned char[]){0x01, 0xf1, 0x33}, 3) == 0, "least");
    arena_free(&arena);
}

/* The page makes weights of scores by these numbers: the same as explain says. */
static void check_rules(const char *model, const char *head) {
    Json *view = json_of("view", model, "-z", LETTERS, "-p", "the tin man", NULL);
    Json *explain =
        json_of("explain", model, "-z", LETTERS, "-p", "the tin man", "--layer", "0", "--head", head, NULL);
    static const char *const pairs[][2] = {
        {"score_scale", "scale"}, {"score_cap", "soft_cap"}, {"windows.0", "window"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        double expected = number_at(explain, pairs[i][1]);
        CHECK(isnan(expected) == isnan(number_at(view, pairs[i][0])), "%s: %s", model, pairs[i][0]);
        if (!isnan(expected)) CHECK_NEAR(number_at(view, pairs[i][0]), expected, 0);
    }
    double slope = number_at(explain, "slope"), sink = number_at(explain, "learned_sink_score");
    CHECK(isnan(slope) == (json_at(view, "slopes")->kind == JSON_NULL), "%s: slopes", model);
    CHECK(isnan(sink) == (json_at(view, "sinks")->kind == JSON_NULL), "%s: sinks", model);
    if (!isnan(slope)) CHECK_NEAR(number(view, "slopes.0.%s", head), slope, 0);
    if (!isnan(sink)) CHECK_NEAR(number(view, "sinks.0.%s", head), sink, 0);

    /* The last key's weight, and the first's that is seen, out of the page's scores. */
    size_t query = (size_t)number_at(view, "n_tokens") - 1, h = (size_t)(*head - '0');
    double sum = isnan(sink) ? 0 : exp(sink);
    for (size_t key = 0; key <= query; key++) sum += exp(score_at(view, 0, h, query, key));
    const Json *keys = json_get(explain, "keys");
    for (size_t i = 0; i < keys->n; i++) {
        size_t key = (size_t)number_at(json_item(keys, i), "key");
        CHECK_NEAR(exp(score_at(view, 0, h, query, key)) / sum, number_at(json_item(keys, i), "weight"),
                   1e-5);
    }
    for (size_t key = 0; key + keys->n <= query; key++)
        CHECK(score_at(view, 0, h, query, key) == -(double)INFINITY, "%s: key %zu is seen", model, key);
    json_free(view);
    json_free(explain);
}

static void test_families(void) {
    check_rules("tests/data/reference/gpt-oss.gguf", "1");
    check_rules("tests/data/reference/gemma2.gguf", "3");
    check_rules("tests/data/reference/bloom.gguf", "4");
    check_rules("tests/data/reference/granite.gguf", "2");
    Json *view = json_of("view", "tests/data/reference/smollm3.gguf", "-z", LETTERS, "-p", "hi", NULL);
    for (size_t layer = 0; layer < 5; layer++) {
        char path[16];
        snprintf(path, sizeof path, "turns.%zu", layer);
        CHECK(json_at(view, path)->boolean == (layer != 3), "smollm3: layer %zu", layer);
    }
    json_free(view);
}

int main(void) {
    if (!scratch_begin()) return 1;
    RUN(test_sha256);
    RUN(test_base64);
    RUN(test_packed_rows);
    RUN(test_gpt2);
    RUN(test_llama);
    RUN(test_long);
    RUN(test_little_rest);
    RUN(test_short);
    RUN(test_generated);
    RUN(test_changed);
    RUN(test_page);
    RUN(test_families);
    RUN(test_figure);
    scratch_end();
    return test_end();
}
