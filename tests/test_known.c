/*
 * Views on models whose inside is known: programs that scripts/prove compiled to weights (docs/PROOFS.md). tests/data/known
 * has what each answers, its edges, and pairs of texts that tell these from all others.
 */
#include "programs.h"
#include "test.h"

#include <math.h>

#define FOLDER "tests/data/known/"

enum { MOST_EDGES = 100 };

static void add(Command *command, const char *argument) { command_add(command, argument, strlen(argument)); }

/* A command on one of the models; `text` is its prompt. */
static Command begin(const char *view, const char *name, const Json *text) {
    Command command = command_begin();
    add(&command, view);
    char path[100];
    snprintf(path, sizeof path, FOLDER "%s.gguf", name);
    add(&command, path);
    add(&command, "--json");
    add(&command, "-p");
    command_add(&command, text->text, text->n);
    return command;
}

/* JSON, and the text that its strings lie in. */
typedef struct Parsed {
    char *text;
    Json *json;
} Parsed;

/* Takes the text. */
static Parsed parse(const char *name, char *text, size_t n) {
    Error error = {{0}};
    Parsed parsed = {text, text ? json_parse(text, n, &error) : NULL};
    CHECK(parsed.json, "%s: no JSON: %s", name, error.message);
    return parsed;
}

static void parsed_free(Parsed parsed) {
    json_free(parsed.json);
    free(parsed.text);
}

/* Runs a command and returns its output. */
static Parsed run(Command command) {
    size_t n;
    char *output = output_of(command, &n);
    return parse(command.line, output, n);
}

static Parsed open_known(const char *name) {
    char path[100];
    size_t n = 0;
    snprintf(path, sizeof path, FOLDER "%s.json", name);
    char *text = read_whole(path, &n);
    return parse(path, text, n);
}

static void check_answers(const char *name, const Json *known) {
    const Json *answers = json_get(known, "answers");
    CHECK(n_items(answers) >= 4, "%s: %zu answers", name, n_items(answers));
    for (size_t i = 0; i < n_items(answers); i++) {
        const Json *text = &answers->items[i].items[0], *wanted = &answers->items[i].items[1];
        Parsed got = run(begin("next", name, text));
        const Json *token = json_at(got.json, "top.0.token"), *logit = json_at(got.json, "top.0.logit");
        bool same = token && token->n == wanted->n && memcmp(token->text, wanted->text, wanted->n) == 0;
        CHECK(same, "%s: %s: got %s, and not %s", name, c_text(json_string(text)), c_text(json_string(token)),
              c_text(json_string(wanted)));
        CHECK(logit && logit->number > 7.9 && logit->number < 16.1, "%s: its logit is another", name);
        parsed_free(got);
    }
}

/* A view on a pair's texts. */
static Command begin_pair(const char *view, const char *name, const Json *pair) {
    static const char *const options[] = {"", "--corrupted", "--answer", "--wrong"};
    Command command = begin(view, name, &pair->items[0]);
    for (size_t i = 1; i < 4; i++) {
        add(&command, options[i]);
        command_add(&command, pair->items[i].text, pair->items[i].n);
    }
    return command;
}

/* Raises effects [n] to those of a pair's paths, whose order is that of `candidates`. */
static void patch_pair(const char *name, const Json *pair, const char *list, bool noising,
                       const Json *candidates, double *effects) {
    Command command = begin_pair("patch", name, pair);
    add(&command, "--path");
    add(&command, list);
    if (noising) add(&command, "--noising");
    Parsed got = run(command);
    const Json *paths = json_get(got.json, "paths");
    CHECK(paths && paths->n == candidates->n, "%s: not as many paths as were asked for", name);
    for (size_t i = 0; paths && i < paths->n && i < candidates->n; i++) {
        const Json *effect = json_get(&paths->items[i], "effect");
        double size = effect ? fabs(noising ? 1 - effect->number : effect->number) : NAN;
        if (!(size <= effects[i])) effects[i] = size;
    }
    parsed_free(got);
}

static bool holds(const Json *list, const Json *name) {
    for (size_t i = 0; i < n_items(list); i++)
        if (list->items[i].n == name->n && memcmp(list->items[i].text, name->text, name->n) == 0) return true;
    return false;
}

/* The known edges, and no others, change the answer. */
static void check_paths(const char *name, const Json *known) {
    const Json *candidates = json_get(known, "candidates"), *edges = json_get(known, "edges"),
               *pairs = json_get(known, "pairs");
    char list[3000] = "";
    double effects[MOST_EDGES] = {0};
    size_t n = n_items(candidates), n_edges = 0;
    CHECK(n > 0 && n <= MOST_EDGES && n_items(pairs) > 0, "%s: %zu edges, %zu pairs", name, n,
          n_items(pairs));
    if (n > MOST_EDGES) return;
    for (size_t i = 0, at = 0; i < n && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? "," : "",
                               c_text(json_string(&candidates->items[i])));
    for (size_t i = 0; i < n_items(pairs); i++)
        for (int noising = 0; noising < 2; noising++)
            patch_pair(name, &pairs->items[i], list, noising, candidates, effects);
    for (size_t i = 0; i < n; i++) {
        bool known_edge = holds(edges, &candidates->items[i]);
        n_edges += known_edge;
        CHECK(known_edge ? effects[i] > 0.1 : effects[i] < 1e-5, "%s: %s: effect %g", name,
              c_text(json_string(&candidates->items[i])), effects[i]);
    }
    CHECK(n_edges == n_items(edges), "%s: %zu of %zu edges were tried", name, n_edges, n_items(edges));
}

/* Appends names to a list of `size` bytes, but for one. */
static void append_names(char *list, size_t size, const Json *names, const Json *without) {
    for (size_t i = 0; i < n_items(names); i++) {
        size_t at = strlen(list);
        if (&names->items[i] != without)
            snprintf(list + at, size - at, "%s%s", at ? "," : "", c_text(json_string(&names->items[i])));
    }
}

/* How much of a pair's answer the known edges carry alone, but for one. */
static double alone(const char *name, const Json *known, const Json *pair, const Json *without) {
    char list[3000] = "";
    append_names(list, sizeof list, json_get(known, "inputs"), without);
    append_names(list, sizeof list, json_get(known, "edges"), without);
    Command command = begin_pair("faithful", name, pair);
    add(&command, "--keep");
    add(&command, list);
    Parsed got = run(command);
    const Json *share = json_at(got.json, "circuits.0.faithfulness");
    double value = share ? share->number : NAN;
    parsed_free(got);
    return value;
}

/* The known circuit is the whole answer, and without any of its edges it is not, of some pair. */
static void check_alone(const char *name, const Json *known) {
    const Json *pairs = json_get(known, "pairs"), *edges = json_get(known, "edges");
    for (size_t i = 0; i < n_items(pairs); i++)
        CHECK_NEAR(alone(name, known, &pairs->items[i], NULL), 1, 1e-5);
    for (size_t i = 0; i < n_items(edges); i++) {
        double most = 0;
        for (size_t k = 0; k < n_items(pairs); k++) {
            double lost = fabs(1 - alone(name, known, &pairs->items[k], &edges->items[i]));
            if (!(lost <= most)) most = lost;
        }
        CHECK(most > 0.1, "%s: without %s nothing is lost", name, c_text(json_string(&edges->items[i])));
    }
}

/* Gradients see known edges alone: they may miss one, where a step is passed, but see none that is not there. */
static void check_gradients(const char *name, const Json *known, const char *by) {
    const Json *pairs = json_get(known, "pairs");
    for (size_t i = 0; i < n_items(pairs); i++) {
        Command command = begin_pair("attribute", name, &pairs->items[i]);
        add(&command, "--edges");
        add(&command, "--by");
        add(&command, by);
        Parsed got = run(command);
        const Json *edges = json_get(got.json, "edges");
        CHECK(n_items(edges) > 0, "%s: no edges", name);
        for (size_t k = 0; edges && k < edges->n; k++) {
            char edge[64];
            const Json *share = json_get(&edges->items[k], "share");
            snprintf(edge, sizeof edge, "%s:%s", c_text(json_string(json_get(&edges->items[k], "sender"))),
                     c_text(json_string(json_get(&edges->items[k], "reader"))));
            Json text = {.kind = JSON_TEXT, .text = edge, .n = (unsigned)strlen(edge)};
            bool is_known = holds(json_get(known, "edges"), &text) || holds(json_get(known, "inputs"), &text);
            CHECK(share && (is_known || fabs(share->number) < 1e-6), "%s by %s: %s: share %g", name, by, edge,
                  share ? share->number : NAN);
        }
        parsed_free(got);
    }
}

static void check(const char *name) {
    Parsed known = open_known(name);
    if (known.json) {
        check_answers(name, known.json);
        check_paths(name, known.json);
        check_alone(name, known.json);
        check_gradients(name, known.json, "gradient");
        check_gradients(name, known.json, "ig");
    }
    parsed_free(known);
}

static void test_histogram(void) { check("histogram"); }
static void test_induction(void) { check("induction"); }
static void test_two_hops(void) { check("two-hops"); }

int main(void) {
    if (!scratch_begin()) return 1;
    RUN(test_histogram);
    RUN(test_induction);
    RUN(test_two_hops);
    scratch_end();
    return test_end();
}
