/*
 * Edges between heads, MLPs and embeddings, by identities that hold for every family: senders add up to the stream, all
 * edges in are the run itself and none the other, all but one are path patching of that one, and an edge's score is the
 * slope of the metric along it. Whether whole views are right is test_study.c's.
 */
#include "base/json.h"
#include "measures/edgescores.h"
#include "measures/mixture.h"
#include "measures/nodescores.h"
#include "measures/paths.h"
#include "open.h"
#include "test.h"
#include "views/edge_drawing.h"

#include <glob.h>

#define MODELS "tests/data/reference/"
#define FOLDER "tests/data/gradients/"

typedef struct Texts {
    const char *name;
    Model *model;
    const Config *config;
    Subject subject;
    Threads *threads;
    size_t n;
    int32_t *ids[2]; /* the clean and the corrupted text */
    Metric metric;
    Arena arena;
    EdgeGraph graph;
    bool rounds; /* activations are rounded for quantised weights, where a slope is one of steps */
} Texts;

static bool texts_open(Texts *t, const char *path) {
    static char model_path[256];
    Error error;
    snprintf(model_path, sizeof model_path, MODELS "%s", path + strlen(FOLDER));
    *t = (Texts){.name = path + strlen(FOLDER)};
    Checkpoint *expected = checkpoint_open(path, &error);
    t->model = model_open(model_path, &error);
    CHECK(expected && t->model, "%s", error.message);
    if (!expected || !t->model) return false;
    const Tensor *tokens = checkpoint_find(expected, "tokens");
    t->n = at_most((size_t)tokens->dims[0], 8);
    t->config = model_config(t->model);
    for (int i = 0; i < 2; i++) t->ids[i] = calloc(t->n, sizeof *t->ids[i]);
    for (size_t i = 0; i < t->n; i++) {
        t->ids[0][i] = t->ids[1][i] = (int32_t)((const float *)tokens->data)[i];
        if (i == 2 || i == t->n - 2)
            t->ids[1][i] = (int32_t)(((size_t)t->ids[1][i] + 5) % t->config->n_vocab);
    }
    checkpoint_close(expected);
    t->threads = threads_new(2, &error);
    t->subject = (Subject){.model = t->model,
                           .compute = {.kernels = kernels_pick(NULL, &error), .threads = t->threads},
                           .kv_dtype = DTYPE_F32};
    t->metric = (Metric){METRIC_LOGIT_DIFF, t->ids[0][0], (t->ids[0][0] + 1) % (int32_t)t->config->n_vocab,
                         t->config->n_vocab, NULL};
    const Checkpoint *checkpoint = model_checkpoint(t->model);
    for (size_t i = 0; i < checkpoint_n_tensors(checkpoint); i++)
        if (dtype_is_quantised(checkpoint_tensor(checkpoint, i)->dtype)) t->rounds = true;
    return true;
}

static void texts_close(Texts *t) {
    arena_free(&t->arena);
    for (int i = 0; i < 2; i++) free(t->ids[i]);
    threads_free(t->threads);
    model_close(t->model);
}

static void for_each_model(void (*check)(Texts *t)) {
    glob_t found;
    int status = glob(FOLDER "*.gguf", 0, NULL, &found);
    CHECK(status == 0 && found.gl_pathc > 60, "checkpoints in " FOLDER);
    for (size_t i = 0; status == 0 && i < found.gl_pathc; i++) {
        Texts t;
        Error error;
        bool ok = texts_open(&t, found.gl_pathv[i]);
        if (ok && t.config->n_layer <= 4 && edgegraph_begin(&t.graph, t.model, &t.arena, &error)) check(&t);
        texts_close(&t);
    }
    if (status == 0) globfree(&found);
}

/* Sums of everything that the final norm reads. */
static double worst_sum(const Texts *t, const Contributions *contributions, const float *final) {
    double worst = 0, scale = 0;
    for (size_t i = 0; i < t->config->d_model; i++) {
        double sum = 0;
        for (size_t sender = 0; sender < t->graph.n_senders; sender++)
            sum += (double)contribution(contributions, sender, t->n - 1)[i];
        worst = fmax(worst, fabs(sum - (double) final[i]));
        scale = fmax(scale, fabs((double) final[i]));
    }
    return worst / scale;
}

static void check_mixtures(Texts *t) {
    Error error = {{0}};
    Mixture mixture = {.subject = &t->subject, .graph = &t->graph, .n = t->n, .metric = t->metric};
    double clean, corrupted, all, none;
    bool *in = arena_new(&t->arena, t->graph.n_edges, 1);
    bool ok =
        mixture_begin(&mixture, &t->arena, &error) && mixture_outside(&mixture, t->ids[0], &clean, &error);
    CHECK(ok, "%s: %s", t->name, error.message);
    if (!ok) return;
    double worst = worst_sum(t, &mixture.outside, mixture.final);
    CHECK(worst < 1e-5, "%s: senders miss the stream by %.2g", t->name, worst);
    ok = mixture_outside(&mixture, t->ids[1], &corrupted, &error) &&
         mixture_run(&mixture, t->ids[0], in, &none, &error);
    memset(in, true, t->graph.n_edges);
    ok = ok && mixture_run(&mixture, t->ids[0], in, &all, &error);
    double bound = (t->rounds             ? 2e-3
                    : t->config->n_expert ? 1e-4
                                          : 2e-5) *
                   fmax(fabs(clean - corrupted), 0.5);
    CHECK(ok && fabs(all - clean) <= bound, "%s: all in: %.9g, clean %.9g %s", t->name, all, clean,
          error.message);
    CHECK(ok && fabs(none - corrupted) <= bound, "%s: none in: %.9g, corrupted %.9g", t->name, none,
          corrupted);
    mixture_free(&mixture);
}

/* A run that begins where it differs from the one before gives the bits of a whole one. */
static void check_resumed(Texts *t) {
    Error error = {{0}};
    Mixture mixture = {.subject = &t->subject, .graph = &t->graph, .n = t->n, .metric = t->metric};
    bool *in = arena_new(&t->arena, t->graph.n_edges, 1);
    double value, resumed, whole;
    bool ok =
        mixture_begin(&mixture, &t->arena, &error) && mixture_outside(&mixture, t->ids[1], &value, &error);
    memset(in, true, t->graph.n_edges);
    ok = ok && mixture_run(&mixture, t->ids[0], in, &value, &error);
    for (size_t edge = t->graph.n_edges - 1, step = 1; ok && edge > step; edge -= step, step += 3) {
        in[edge] = !in[edge];
        in[edge / 2] = step % 2;
        ok = mixture_run(&mixture, t->ids[0], in, &resumed, &error);
        mixture.has_last = false;
        ok = ok && mixture_run(&mixture, t->ids[0], in, &whole, &error);
        CHECK(ok && resumed == whole, "%s: edge %zu: %.17g resumed, %.17g %s", t->name, edge, resumed, whole,
              error.message);
    }
    CHECK(ok, "%s: %s", t->name, error.message);
    mixture_free(&mixture);
}

static void test_resumed_runs_have_the_same_bits(void) { for_each_model(check_resumed); }

static void test_all_edges_and_none(void) { for_each_model(check_mixtures); }

/* Heads of layer 0 at the last position: what they make, and what they are said to add. */
typedef struct Shared {
    Contributions made;
    float results[8][64]; /* of a head, before the norm */
} Shared;

static bool wants_shared(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)head;
    return contributions_want(&((Shared *)user)->made, site, layer);
}

static void see_shared(void *user, const Activation *seen) {
    Shared *shared = user;
    if (seen->site == PROBE_RESULT && seen->layer == 0)
        memcpy(shared->results[seen->head], seen->data + (seen->n_rows - 1) * seen->stride,
               seen->n_cols * sizeof(float));
    contributions_add(&shared->made, seen);
}

/*
 * A bias behind heads, in front of a norm, as no reference file has: the norm divides by the root mean square of heads and
 * bias together, and what the bias makes is shared out, so that two heads differ by what they made, so divided.
 */
static void test_bias_before_norm(void) {
    static float bias[64];
    static Shared shared;
    Texts t;
    Error error;
    for (size_t i = 0; i < 64; i++) bias[i] = (float)(i % 7) / 4 - 0.6f;
    if (!texts_open(&t, FOLDER "gemma2.gguf")) return;
    CHECK(t.config->d_model <= 64 && t.config->n_head <= 8 &&
              edgegraph_begin(&t.graph, t.model, &t.arena, &error),
          "%s", error.message);
    for (size_t layer = 0; layer < t.config->n_layer; layer++)
        ((LayerWeights *)model_weights(t.model)->layers)[layer].attention.out.bias = bias;
    check_mixtures(&t);
    shared.made = (Contributions){.model = t.model, .graph = &t.graph, .n = t.n};
    const Probe probe = {&shared, wants_shared, see_shared};
    Session *session = contributions_begin(&shared.made, 1, &t.arena, &error)
                           ? subject_session(&t.subject, t.n, &probe, &error)
                           : NULL;
    CHECK(session && session_feed(session, t.ids[0], t.n, NULL, 0, &error), "%s", error.message);
    const Norm *norm = &model_weights(t.model)->layers[0].attn_post_norm;
    const float *added[2];
    double square = 0;
    for (size_t i = 0; i < norm->n; i++) {
        double sum = (double)bias[i];
        for (size_t head = 0; head < t.config->n_head; head++) sum += (double)shared.results[head][i];
        square += sum * sum / (double)norm->n;
    }
    for (size_t head = 0; head < 2; head++)
        added[head] = contribution(&shared.made, sender_of(&t.graph, (Part){PART_HEAD, 0, head}), t.n - 1);
    for (size_t i = 0; i < norm->n; i++)
        CHECK_NEAR(added[0][i] - added[1][i],
                   ((double)shared.results[0][i] - (double)shared.results[1][i]) * (double)norm->gain[i] /
                       sqrt(square + (double)norm->eps),
                   1e-5);
    session_free(session);
    texts_close(&t);
}

static PathEnd end_of(Part part) {
    static const ProbeSite sites[] = {
        [PART_HEAD] = PROBE_Z,      [PART_MLP] = PROBE_MLP_OUT,    [PART_QUERY] = PROBE_Q,
        [PART_KEY] = PROBE_K,       [PART_VALUE] = PROBE_V,        [PART_FINAL] = PROBE_LOGITS,
        [PART_EMBED] = PROBE_EMBED, [PART_STATE] = PROBE_ATTN_OUT, [PART_GATE] = PROBE_GATE_INPUT};
    return (PathEnd){sites[part.kind], part.layer, part.head};
}

/*
 * Every seventh edge that a path can be, but where a norm behind attention, or a gate, makes two things of them: a path sends
 * the other run's z through this run's gate.
 */
static size_t choose_paths(const Texts *t, Path *paths, size_t *edges) {
    size_t n = 0;
    for (size_t edge = 1; edge < t->graph.n_edges; edge += 7) {
        EdgeEnds ends = edge_ends(&t->graph, edge);
        Part from = sender_part(&t->graph, ends.sender);
        bool behind = from.kind == PART_HEAD &&
                      (t->graph.gated || model_weights(t->model)->layers[from.layer].attn_post_norm.gain);
        Part to = reader_part(&t->graph, ends.reader);
        if (from.kind == PART_EMBED || behind) continue;
        edges[n] = edge;
        paths[n++] = (Path){.from = end_of(from), .to = end_of(to)};
    }
    return n;
}

static void check_paths(Texts *t) {
    Error error = {{0}};
    Arena arena = {0};
    Path *paths = arena_new(&arena, t->graph.n_edges, sizeof *paths);
    size_t *edges = arena_new(&arena, t->graph.n_edges, sizeof *edges);
    bool *in = arena_new(&arena, t->graph.n_edges, 1);
    Paths task = {.subject = &t->subject,
                  .paths = paths,
                  .n_paths = choose_paths(t, paths, edges),
                  .n = t->n,
                  .noising = true};
    Mixture mixture = {.subject = &t->subject, .graph = &t->graph, .n = t->n, .metric = t->metric};
    double value;
    bool ok = paths_run(&task, t->ids[0], t->ids[1], &t->metric, &arena, &error) &&
              mixture_begin(&mixture, &arena, &error) && mixture_outside(&mixture, t->ids[1], &value, &error);
    CHECK(ok, "%s: %s", t->name, error.message);
    memset(in, true, t->graph.n_edges);
    for (size_t i = 0; ok && i < task.n_paths; i++) {
        char names[2][64];
        EdgeEnds ends = edge_ends(&t->graph, edges[i]);
        in[edges[i]] = false;
        ok = mixture_run(&mixture, t->ids[0], in, &value, &error);
        in[edges[i]] = true;
        double bound = (t->rounds             ? 2e-3
                        : t->config->n_expert ? 1e-4
                                              : 2e-5) *
                       fmax(fabs(task.values[0] - task.values[1]), 0.5);
        CHECK(ok && fabs(value - paths[i].value) <= bound, "%s: %s:%s: %.9g, path %.9g (run %.9g)", t->name,
              graph_name(names[0], sender_part(&t->graph, ends.sender)),
              graph_name(names[1], reader_part(&t->graph, ends.reader)), value, paths[i].value,
              task.values[0]);
    }
    mixture_free(&mixture);
    paths_free(&task);
    arena_free(&arena);
}

static void test_all_but_one_is_path_patching(void) { for_each_model(check_paths); }

/* The metric of the base with a sender's contribution to one reader moved by `step` of the way to the source's. */
static double moved(const Texts *t, Mixture *mixture, const EdgeScores *scores, bool *in, size_t edge,
                    double step) {
    Error error = {{0}};
    EdgeEnds ends = edge_ends(&t->graph, edge);
    size_t count = t->n * t->config->d_model;
    const float *delta = contribution(&scores->delta, ends.sender, 0),
                *own = contribution(&scores->other, ends.sender, 0);
    float *to = contribution(&mixture->outside, ends.sender, 0);
    double value = NAN;
    for (size_t i = 0; i < count; i++) to[i] = (float)((double)own[i] + step * (double)delta[i]);
    in[edge] = false;
    mixture->has_last = false;
    CHECK(mixture_run(mixture, t->ids[1], in, &value, &error), "%s: %s", t->name, error.message);
    in[edge] = true;
    return value;
}

static void check_slopes(Texts *t) {
    if (t->rounds || t->config->n_expert) return;
    Error error = {{0}};
    Arena arena = {0};
    EdgeScores scores = {.subject = &t->subject, .graph = &t->graph, .n = t->n, .metric = t->metric};
    Mixture mixture = {.subject = &t->subject, .graph = &t->graph, .n = t->n, .metric = t->metric};
    bool *in = arena_new(&arena, t->graph.n_edges, 1);
    bool ok = edgescores_run(&scores, t->ids[1], t->ids[0], &arena, &error) &&
              mixture_begin(&mixture, &arena, &error);
    CHECK(ok, "%s: %s", t->name, error.message);
    memset(in, true, t->graph.n_edges);
    double most = 0;
    for (size_t edge = 0; ok && edge < t->graph.n_edges; edge++) most = fmax(most, fabs(scores.scores[edge]));
    for (size_t edge = 0; ok && edge < t->graph.n_edges; edge += 11) {
        const double step = 3e-3;
        char names[2][64];
        EdgeEnds ends = edge_ends(&t->graph, edge);
        double slope =
            (moved(t, &mixture, &scores, in, edge, step) - moved(t, &mixture, &scores, in, edge, -step)) / 2 /
            step;
        CHECK(fabs(slope - scores.scores[edge]) <= 2e-3 * most + 1e-3 * fabs(slope),
              "%s: %s:%s: score %.9g, slope %.9g of at most %.3g", t->name,
              graph_name(names[0], sender_part(&t->graph, ends.sender)),
              graph_name(names[1], reader_part(&t->graph, ends.reader)), scores.scores[edge], slope, most);
    }
    mixture_free(&mixture);
    edgescores_free(&scores);
    arena_free(&arena);
}

static void test_scores_are_slopes(void) { for_each_model(check_slopes); }

/* With many steps the embeddings' scores come to the metric's difference; and edges out of them to what is sent. */
static void check_completeness(Texts *t) {
    Error error = {{0}};
    NodeScores nodes = {.subject = &t->subject, .n = t->n, .steps = 100, .metric = t->metric};
    if (strcmp(t->name, "gpt2-f32.gguf") && strcmp(t->name, "llama-f32.gguf") &&
        strcmp(t->name, "gptneox.gguf") && strcmp(t->name, "gemma2.gguf"))
        return;
    bool ok = nodescores_run(&nodes, t->ids[1], t->ids[0], &t->arena, &error);
    double whole = nodes.values[0] - nodes.values[1];
    CHECK(ok, "%s: %s", t->name, error.message);
    if (ok) CHECK_NEAR(nodescores_embed(&nodes), -whole, 1e-3 * fabs(whole));
    nodescores_free(&nodes);
}

static void test_integrated_gradients_are_complete(void) { for_each_model(check_completeness); }

static void check_names(const char *path, size_t n_senders, size_t n_readers) {
    Error error;
    Arena arena = {0};
    EdgeGraph graph;
    Model *model = model_open(path, &error);
    CHECK(edgegraph_begin(&graph, model, &arena, &error), "%s", error.message);
    CHECK(graph.n_senders == n_senders && graph.n_readers == n_readers, "%s: %zu senders, %zu readers", path,
          graph.n_senders, graph.n_readers);
    for (size_t edge = 0; edge < graph.n_edges; edge++) {
        char names[2][64];
        EdgeEnds ends = edge_ends(&graph, edge);
        Part parts[] = {sender_part(&graph, ends.sender), reader_part(&graph, ends.reader)}, read[2];
        for (int i = 0; i < 2; i++) {
            const char *at = graph_name(names[i], parts[i]);
            CHECK(parse_part(&graph, &at, i == 0, &read[i]) && !*at, "%s", names[i]);
        }
        CHECK(sender_of(&graph, read[0]) == ends.sender && reader_of(&graph, read[1]) == ends.reader, "%s:%s",
              names[0], names[1]);
    }
    static const char *const bad[] = {"",
                                      "L",
                                      "L9MLP",
                                      "L0H",
                                      "L0H99",
                                      "L0H0.x",
                                      "final",
                                      "L0H0",
                                      "L0STATE",
                                      "L1STATE",
                                      "L0H0.g x",
                                      "L1H3.v",
                                      "L99999999999999999999H0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Part part;
        const char *at = bad[i];
        bool is_whole = parse_part(&graph, &at, i == 6, &part) && !*at;
        CHECK(!is_whole || (i == 8 && graph_keeps_state(&graph, 0)), "%s: %s is no %s", path, bad[i],
              i == 6 ? "sender" : "reader");
    }
    arena_free(&arena);
    model_close(model);
}

static void test_names(void) {
    check_names(MODELS "llama-f32.gguf", 1 + 2 * 5, 2 * (4 + 2 * 2 + 1) + 1);
    check_names(MODELS "lfm2.gguf", 1 + 2 + 3 + 2, 2 + (2 + 2 * 1 + 1) + 2 + 1);
    check_names(MODELS "qwen35.gguf", 1 + 2 * (2 + 3), 2 * (2 + (2 + 2 * 1 + 2 + 1)) + 1);
}

static char *written(void (*write)(FILE *, const EdgeDrawing *), const EdgeDrawing *drawing, size_t *n) {
    FILE *file = tmpfile();
    write(file, drawing);
    *n = (size_t)ftell(file);
    rewind(file);
    char *text = calloc(*n + 1, 1);
    CHECK(fread(text, 1, *n, file) == *n, "cannot be read again");
    fclose(file);
    return text;
}

static size_t times_in(const char *text, const char *word) {
    size_t n = 0;
    while ((text = strstr(text, word))) text += strlen(word), n++;
    return n;
}

static bool same_text(String a, String b) { return a.n == b.n && memcmp(a.data, b.data, a.n) == 0; }

/* A kv head hands on what enters it, which its own links have counted. */
static bool is_kv_head(const Json *nodes, const Json *id) {
    bool is_one = false;
    for (size_t i = 0; i < nodes->n; i++)
        is_one =
            is_one || (same_text(json_string(json_get(json_item(nodes, i), "node_id")), json_string(id)) &&
                       json_equals(json_get(json_item(nodes, i), "feature_type"), "attention kv head"));
    return is_one;
}

static size_t nodes_called(const Json *nodes, const Json *id) {
    size_t n = 0;
    for (size_t i = 0; i < nodes->n; i++)
        n += same_text(json_string(json_get(json_item(nodes, i), "node_id")), json_string(id));
    return n;
}

/* Every link joins two nodes, whose names are their own; and no score is lost, nor counted twice. */
static void check_graph(const EdgeDrawing *drawing, const char *text, size_t n) {
    Error error = {{0}};
    Json *graph = json_parse(text, n, &error);
    const Json *nodes = json_get(graph, "nodes"), *links = json_get(graph, "links");
    CHECK(nodes && links, "%s", error.message);
    double weights = 0, scores = 0;
    for (size_t i = 0; nodes && i < nodes->n; i++) {
        const Json *node = json_item(nodes, i);
        size_t at = (size_t)json_get(node, "ctx_idx")->number;
        char name[64];
        CHECK(nodes_called(nodes, json_get(node, "node_id")) == 1, "node %zu", i);
        if (strncmp(json_string(json_get(node, "node_id")).data, "E_", 2) != 0) continue;
        int length = snprintf(name, sizeof name, "E_%d-%zu", (int)drawing->tokens[at], at);
        CHECK(same_text(json_string(json_get(node, "jsNodeId")), (String){name, (size_t)length}), "not %s",
              name);
    }
    for (size_t i = 0; links && i < links->n; i++) {
        const Json *link = json_item(links, i);
        CHECK(nodes_called(nodes, json_get(link, "source")) == 1, "link %zu has no source", i);
        CHECK(nodes_called(nodes, json_get(link, "target")) == 1, "link %zu has no target", i);
        if (!is_kv_head(nodes, json_get(link, "source"))) weights += json_get(link, "weight")->number;
    }
    for (size_t i = 0; i < drawing->n_edges; i++) scores += drawing->edges[i].score;
    CHECK_NEAR(weights, scores, 1e-6 * fabs(scores));
    json_free(graph);
}

/* Where the edges to a reader end. */
static double x_of(const char *text, Part reader) {
    char name[64], title[80];
    double x = NAN;
    snprintf(title, sizeof title, " to %s: ", graph_name(name, reader));
    const char *at = strstr(text, title);
    while (at && at > text && strncmp(at, "<path", 5) != 0) at--;
    if (at) sscanf(at, "<path d=\"M%*f %*fC%*f %*f %*f %*f %lf", &x);
    return x;
}

/* A gate's edges end beside the queries', where keys have boxes of their own, else behind the values'. */
static void check_gate(const char *text, bool own_keys) {
    double q = x_of(text, (Part){PART_QUERY, 1, 0}), k = x_of(text, (Part){PART_KEY, 1, 0}),
           v = x_of(text, (Part){PART_VALUE, 1, 0}), gate = x_of(text, (Part){PART_GATE, 1, 0});
    CHECK(v - k > 3, "keys and values at %g and %g", k, v);
    CHECK_NEAR(gate - q, (own_keys ? 2.5 : 1) * (v - k), 0.3);
    if (own_keys) CHECK_NEAR(k - q, v - k, 0.21);
}

/* All edges of a model, with a score each; the vocabulary is another's. own_keys: as if each head had its own keys. */
static void check_drawing(const char *path, bool own_keys) {
    Error error = {{0}};
    Arena arena = {0};
    EdgeGraph graph;
    Model *model = model_open(path, &error), *vocabulary = model_open(MODELS "gpt2-f32.gguf", &error);
    Tokenizer *tokenizer = tokenizer_new(model_checkpoint(vocabulary), &error);
    if (own_keys) ((Config *)model_config(model))->n_head_kv = model_config(model)->n_head;
    CHECK(edgegraph_begin(&graph, model, &arena, &error), "%s", error.message);
    const int32_t tokens[] = {34, 0, 200, 4};
    DrawnEdge *edges = arena_new(&arena, graph.n_edges, sizeof *edges);
    double *of_tokens = arena_new(&arena, graph.n_edges * 4, sizeof *of_tokens);
    for (size_t i = 0; i < graph.n_edges; i++) {
        edges[i] = (DrawnEdge){edge_ends(&graph, i), i % 3 ? 0.5 + (double)i : -(double)i, NULL};
        if (edges[i].ends.sender == 0) edges[i].tokens = of_tokens + 4 * i;
        for (size_t j = 0; j < 4; j++) of_tokens[4 * i + j] = edges[i].score * (j < 2 ? 0.375 : 0.125);
    }
    Report report = {.tokenizer = tokenizer};
    EdgeDrawing drawing = {&graph,          edges, graph.n_edges, &report,           tokens, 4,
                           {"C!\xc8\"", 4}, 34,    0.25,          "a \"model\".gguf"};
    size_t n;
    char *text = written(drawing_graph, &drawing, &n);
    check_graph(&drawing, text, n);
    free(text);
    text = written(drawing_dot, &drawing, &n);
    CHECK(times_in(text, "penwidth=") == graph.n_edges, "%s: edges for Graphviz", path);
    free(text);
    text = written(drawing_svg, &drawing, &n);
    CHECK(times_in(text, "<path ") == graph.n_edges && times_in(text, "nan") == 0, "%s: edges drawn", path);
    if (graph.gated) check_gate(text, own_keys);
    free(text);
    arena_free(&arena);
    tokenizer_free(tokenizer);
    model_close(vocabulary);
    model_close(model);
}

static void test_drawings(void) {
    check_drawing(MODELS "gpt2-f32.gguf", false);
    check_drawing(MODELS "llama-f32.gguf", false);
    check_drawing(MODELS "lfm2.gguf", false);
    check_drawing(MODELS "qwen35.gguf", false);
    check_drawing(MODELS "qwen35.gguf", true);
}

/* Rows of ±3·10^38, behind a norm that makes numbers of 10^-38: logits are finite, and what goes back is not. */
static void test_gradients_that_are_not_finite(void) {
    Texts t;
    Error error = {{0}};
    if (!texts_open(&t, FOLDER "gpt2-f32-untied.gguf")) return;
    size_t d = t.config->d_model, n_vocab = t.config->n_vocab;
    Weights *weights = (Weights *)model_weights(t.model);
    float *rows = arena_floats(&t.arena, n_vocab, d), *small = arena_floats(&t.arena, 1, d);
    for (size_t i = 0; i < n_vocab * d; i++) rows[i] = (i / d + i % d % 3) % 2 ? 3e38f : -3e38f;
    for (size_t i = 0; i < d; i++) small[i] = 1e-38f;
    weights->unembedding = (Linear){{rows, DTYPE_F32, n_vocab, d}, NULL};
    weights->final_norm.gain = weights->final_norm.bias = small;
    CHECK(edgegraph_begin(&t.graph, t.model, &t.arena, &error), "%s", error.message);
    EdgeScores edges = {.subject = &t.subject, .graph = &t.graph, .n = t.n, .metric = t.metric};
    NodeScores nodes = {.subject = &t.subject, .n = t.n, .metric = t.metric};
    CHECK(!edgescores_run(&edges, t.ids[0], t.ids[1], &t.arena, &error) &&
              strstr(error.message, "gradients are not finite"),
          "%s", error.message);
    error = (Error){{0}};
    CHECK(!nodescores_run(&nodes, t.ids[0], t.ids[1], &t.arena, &error) &&
              strstr(error.message, "gradients are not finite"),
          "%s", error.message);
    edgescores_free(&edges);
    nodescores_free(&nodes);
    texts_close(&t);
}

int main(void) {
    RUN(test_names);
    RUN(test_drawings);
    RUN(test_all_edges_and_none);
    RUN(test_bias_before_norm);
    RUN(test_resumed_runs_have_the_same_bits);
    RUN(test_all_but_one_is_path_patching);
    RUN(test_scores_are_slopes);
    RUN(test_integrated_gradients_are_complete);
    RUN(test_gradients_that_are_not_finite);
    return test_end();
}
