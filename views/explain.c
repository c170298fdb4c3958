/*
 * explain: one head at one query, step by step as in a textbook: dot products, scaling, mask, softmax,
 * weighted values, and what the head's output does to the next token's logits if it goes straight to the
 * unembedding (direct logit attribution; Elhage et al. 2021, "A Mathematical Framework for Transformer
 * Circuits").
 */
#include "measures/outputnorms.h"
#include "views/view.h"

#include <math.h>
#include <string.h>

enum { TOKEN_WIDTH = 14 };

/* A key. */
typedef struct Row {
    size_t key, mask; /* mask: what is added to the score, 0 */
    int32_t id;
    double dot, score, weight, value_norm;
    double weighted; /* weight·‖v‖ */
    double share;    /* of it in the sum over all keys */
} Row;

typedef struct Effect {
    int32_t id;
    double logit; /* what is added to it, the mean over the vocabulary left out */
} Effect;

typedef struct Explain {
    size_t layer, head, query, n_top;

    size_t kv_head, n_layer;
    double root_of_d_head;
    bool at_query;            /* the token being fed is the query */
    float *weight;            /* [query + 1] */
    Row *rows;                /* [query + 1] */
    double weights;           /* their sum */
    float *z;                 /* [d_head] Σ weight·v */
    float *resid;             /* [d_model] leaving the last layer */
    double output_norm;       /* ‖z W_O^h‖ */
    Effect *raised, *lowered; /* [n_top] */
} Explain;

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const Explain *explain = user;
    bool here = layer == explain->layer;
    switch (site) {
    case PROBE_V: return here && head == explain->kv_head;
    case PROBE_SCORES:
    case PROBE_PATTERN:
    case PROBE_Z: return explain->at_query && here && head == explain->head;
    case PROBE_RESID_POST: return explain->at_query && layer + 1 == explain->n_layer;
    default: return false;
    }
}

static void visit(void *user, const Activation *seen) {
    Explain *explain = user;
    size_t bytes = seen->n_cols * sizeof *seen->data;
    switch (seen->site) {
    case PROBE_V:
        for (size_t t = 0; t < seen->n_rows; t++)
            explain->rows[seen->position + t].value_norm =
                vector_norm(seen->data + t * seen->stride, seen->n_cols);
        break;
    case PROBE_SCORES:
        for (size_t key = 0; key < seen->n_cols; key++) explain->rows[key].score = (double)seen->data[key];
        break;
    case PROBE_PATTERN: memcpy(explain->weight, seen->data, bytes); break;
    case PROBE_Z: memcpy(explain->z, seen->data, bytes); break;
    case PROBE_RESID_POST: memcpy(explain->resid, seen->data, bytes); break;
    default: break;
    }
}

/* Up to the query, without the tokens after it, which it cannot see. */
static bool feed(Study *study, Explain *explain, Error *error) {
    Probe probe = {explain, wants, visit};
    const int32_t *query = study->subject.tokens.ids + explain->query;
    if (!study_feed(study, &probe, explain->query, error)) return false;
    explain->at_query = true;
    return subject_feed(&study->subject, study->session, query, 1, NULL, NULL, error);
}

static void fill_rows(const Subject *subject, Explain *explain) {
    double weighted = 0;
    for (size_t key = 0; key <= explain->query; key++) {
        Row *row = &explain->rows[key];
        row->key = key;
        row->id = subject->tokens.ids[key];
        row->dot = row->score * explain->root_of_d_head;
        row->weight = (double)explain->weight[key];
        row->weighted = row->weight * row->value_norm;
        explain->weights += row->weight;
        weighted += row->weighted;
    }
    for (size_t key = 0; key <= explain->query; key++)
        explain->rows[key].share = explain->rows[key].weighted / weighted;
}

/*
 * effects_v = Σ_d c_d·g_d/σ·W_U[v][d], minus their mean over the vocabulary, which the softmax does not feel.
 * c = z W_O^h, centred where the final norm centres; σ is the scale that the norm has there anyway.
 */
static bool find_effects(Study *study, Explain *explain, Error *error) {
    Arena *arena = &study->arena;
    const Config *config = model_config(study->model);
    const Weights *weights = model_weights(study->model);
    size_t d = config->d_model, d_head = config->d_head, n_vocab = config->n_vocab;
    size_t n_top = explain->n_top = at_most(explain->n_top, n_vocab);
    const float *columns = head_output(&study->subject, arena, explain->layer, explain->head, error);
    float *c = arena_floats(arena, 1, d), *packed = arena_floats(arena, 1, packed_floats(1, d));
    float *effects = arena_floats(arena, 1, n_vocab), *negated = arena_floats(arena, 1, n_vocab);
    explain->raised = arena_new(arena, n_top, sizeof *explain->raised);
    explain->lowered = arena_new(arena, n_top, sizeof *explain->lowered);
    int32_t *ids = arena_new(arena, n_top, sizeof *ids);
    if (!columns || !arena_ok(arena, error, "the output of a head")) return false;
    double square = 0, mean = 0, scale = norm_scale(config, explain->resid);
    for (size_t i = 0; i < d; i++) {
        double sum = 0;
        for (size_t j = 0; j < d_head; j++) sum += (double)columns[i * d_head + j] * (double)explain->z[j];
        c[i] = (float)sum;
        square += sum * sum;
        mean += sum / (double)d;
    }
    explain->output_norm = sqrt(square);
    if (config->family->norm != NORM_LAYER) mean = 0;
    for (size_t i = 0; i < d; i++)
        c[i] = (float)(((double)c[i] - mean) * (double)weights->final_norm.gain[i] / scale);
    Linear unembedding = {weights->unembedding.w, NULL};
    Compute compute = {study->subject.compute.kernels, study->subject.compute.threads, packed,
                       packed_floats(1, d)};
    linear_forward(&compute, &(LinearOutput){effects, &unembedding}, 1, c, 1);

    mean = 0;
    for (size_t i = 0; i < n_vocab; i++) mean += (double)effects[i] / (double)n_vocab;
    for (size_t i = 0; i < n_vocab; i++) {
        effects[i] = (float)((double)effects[i] - mean);
        negated[i] = -effects[i];
    }
    logits_top(effects, n_vocab, n_top, ids);
    for (size_t i = 0; i < n_top; i++) explain->raised[i] = (Effect){ids[i], (double)effects[ids[i]]};
    logits_top(negated, n_vocab, n_top, ids);
    for (size_t i = 0; i < n_top; i++) explain->lowered[i] = (Effect){ids[i], (double)effects[ids[i]]};
    return true;
}

static bool compute(Study *study, void *own, Error *error) {
    Explain *explain = own;
    const Subject *subject = &study->subject;
    const Config *config = model_config(study->model);
    Arena *arena = &study->arena;
    if (!study_check_place(study, explain->layer, explain->head, explain->query, subject->tokens.n, error))
        return false;
    if (explain->layer == NOT_GIVEN || explain->head == NOT_GIVEN)
        return error_set(error, "explain takes one head: name it with --layer and --head");
    explain->kv_head = kv_head_of(config, explain->head);
    if (explain->query == NOT_GIVEN) explain->query = subject->tokens.n - 1;
    explain->n_layer = config->n_layer;
    explain->root_of_d_head = sqrt((double)config->d_head);
    size_t n = explain->query + 1;
    explain->weight = arena_floats(arena, 1, n);
    explain->rows = arena_new(arena, n, sizeof *explain->rows);
    explain->z = arena_floats(arena, 1, config->d_head);
    explain->resid = arena_floats(arena, 1, config->d_model);
    if (!arena_ok(arena, error, "%zu keys", n) || !feed(study, explain, error)) return false;
    fill_rows(subject, explain);
    return find_effects(study, explain, error);
}

#define ROW(member) offsetof(Row, member)

static const Column key_columns[] = {
    {"key", "  key", CELL_SIZE, ROW(key), 5},
    {"token", "token", CELL_TOKEN, ROW(id), TOKEN_WIDTH + 1, TOKEN_WIDTH},
    {"dot", "q·k", CELL_REAL, ROW(dot), 10, 3, .ascii = "q.k"},
    {"score", "÷√d_head", CELL_REAL, ROW(score), 9, 3, .ascii = "/sqrt(d)"},
    {NULL, "+mask", CELL_SIZE, ROW(mask), 7},
    {"weight", "weight", CELL_REAL, ROW(weight), 8, 4},
    {"value_norm", "‖v‖", CELL_REAL, ROW(value_norm), 9, 3, .ascii = "|v|"},
    {"weighted", "weight×‖v‖", CELL_REAL, ROW(weighted), 11, 4, .ascii = "weight*|v|"},
    {NULL, "", CELL_BAR, ROW(share), 24},
};

static const Column effect_columns[] = {
    {"token", "", CELL_TOKEN, offsetof(Effect, id), TOKEN_WIDTH + 2, TOKEN_WIDTH},
    {"effect", "", CELL_REAL, offsetof(Effect, logit), 8, 3, .format = '+'},
};

static const Table keys_table = TABLE("keys", key_columns), raised_table = TABLE("raised", effect_columns),
                   lowered_table = TABLE("lowered", effect_columns);

static void print_formula(const Study *study, const Explain *explain) {
    const Report *report = &study->report;
    const Config *config = model_config(study->model);
    const char *rope = config->rope.pairing != ROPE_NONE ? "; q, k after RoPE" : "";
    char name[32];
    print_styled(report, STYLE_BOLD, "%s", head_name(name, explain->layer, explain->head));
    printf(", query %zu ", explain->query);
    print_token(report, study->subject.tokens.ids[explain->query], 0);
    if (config->n_head_kv < config->n_head)
        printf(" (it shares kv head %zu with other heads)", explain->kv_head);
    putchar('\n');
    printf(
        report->ascii
            ? "  score_k  = q.k_k / sqrt(d_head)                d_head = %zu, sqrt(d_head) = %.4g%s\n"
              "  weight_k = exp(score_k) / sum_j exp(score_j)   over keys j <= %zu; later ones are masked\n"
              "  output   = W_O sum_k weight_k v_k              added to the residual stream\n\n"
            : "  score_k  = q·k_k / √d_head                  d_head = %zu, √d_head = %.4g%s\n"
              "  weight_k = exp(score_k) / Σ_j exp(score_j)  over keys j ≤ %zu; later ones are masked\n"
              "  output   = W_O Σ_k weight_k v_k             added to the residual stream\n\n",
        config->d_head, explain->root_of_d_head, rope, explain->query);
}

/* The weight from which on a key is in the table, so that about MAX_KEYS are. */
static double least_shown(const Explain *explain) {
    int32_t heaviest[MAX_KEYS];
    if (explain->query < MAX_KEYS) return 0;
    logits_top(explain->weight, explain->query + 1, MAX_KEYS, heaviest);
    return (double)explain->weight[heaviest[MAX_KEYS - 1]];
}

/* Tokens after the query: their scores are −∞, so their weights exp(−∞) = 0. */
static void print_masked(const Study *study, const Explain *explain) {
    const Report *report = &study->report;
    size_t first = explain->query + 1, n = study->subject.tokens.n - first, shown = at_most(n, MAX_MASKED);
    print_style(report, STYLE_DIM);
    for (size_t key = first; key < first + shown; key++) {
        printf("%5zu ", key);
        print_token(report, study->subject.tokens.ids[key], TOKEN_WIDTH);
        printf(" %9s %8s   %s %7d\n", "-", "-", report->ascii ? "-inf" : "  −∞", 0);
    }
    if (n > shown) printf("      %zu more are masked\n", n - shown);
    if (!n) puts("      (the query is the last token: there is none after it to mask)");
    print_style(report, STYLE_PLAIN);
}

static void print_keys(Study *study, const Explain *explain) {
    Report *report = &study->report;
    double least = least_shown(explain), left_out = 0;
    size_t n_left_out = 0;
    table_print_titles(report, &keys_table, 0, NULL);
    for (size_t key = 0; key <= explain->query; key++) {
        const Row *row = &explain->rows[key];
        if (row->weight < least) {
            left_out += row->weight;
            n_left_out++;
            continue;
        }
        table_print_line(report, &keys_table, 0, row);
    }
    if (n_left_out)
        printf("      %zu lighter keys left out: %.4f in all (--json has every one)\n", n_left_out, left_out);
    print_masked(study, explain);
    printf("      %-*s %9s %8s %6s %7.4f\n\n", TOKEN_WIDTH, "sum", "", "", "", explain->weights);
}

static void print_effects(Report *report, const Explain *explain) {
    printf(report->ascii
               ? "|z W_O| = %.4f: the length of what the head adds, without bias. Straight to the\n"
               : "‖z W_O‖ = %.4f: the length of what the head adds, without bias. Straight to the\n",
           explain->output_norm);
    puts("unembedding it changes the next token's logits most at:");
    print_styled(report, STYLE_BOLD, "  raised                  lowered\n");
    for (size_t i = 0; i < explain->n_top; i++) {
        table_print_row(report, &raised_table, 0, &explain->raised[i]);
        table_print_line(report, &lowered_table, 0, &explain->lowered[i]);
    }
    print_styled(report, STYLE_DIM,
                 "Relative to the mean over the vocabulary; what later layers make of it is not counted.\n");
}

static bool show(Study *study, void *own, Error *error) {
    const Explain *explain = own;
    Report *report = &study->report;
    (void)error;
    if (!report->json) {
        print_formula(study, explain);
        print_keys(study, explain);
        print_effects(report, explain);
        return true;
    }
    json_int(report, "layer", (int64_t)explain->layer);
    json_int(report, "head", (int64_t)explain->head);
    json_int(report, "kv_head", (int64_t)explain->kv_head);
    json_int(report, "query", (int64_t)explain->query);
    json_int(report, "d_head", (int64_t)model_config(study->model)->d_head);
    table_show(report, &keys_table, 0, explain->rows, explain->query + 1, sizeof *explain->rows);
    json_real(report, "output_norm", explain->output_norm);
    table_show(report, &raised_table, 0, explain->raised, explain->n_top, sizeof *explain->raised);
    table_show(report, &lowered_table, 0, explain->lowered, explain->n_top, sizeof *explain->lowered);
    return true;
}

static const Explain defaults = {.layer = NOT_GIVEN, .head = NOT_GIVEN, .query = NOT_GIVEN, .n_top = 5};

#define AT(member) offsetof(Explain, member)

static const Option options[] = {
    {"--layer", NULL, OPTION_SIZE, AT(layer), 0, 1e9},
    {"--head", NULL, OPTION_SIZE, AT(head), 0, 1e9},
    {"--query", NULL, OPTION_SIZE, AT(query), 0, 1e9},
    {"--top", NULL, OPTION_SIZE, AT(n_top), 0, 1000},
};

const View view_explain = {
    .name = "explain",
    .summary = "one head and query, step by step",
    .help =
        "q.k, divided by the root of d_head, masked, softmax, weight * |v|, and the tokens that the head's\n"
        "output raises and lowers most.\n"
        "\n"
        "  --layer L, --head H   which (needed)     --query Q   whose row (the last)     --top K  (5)\n",
    .needs = NEEDS_MODEL | NEEDS_TEXT,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(Explain),
    .compute = compute,
    .show = show,
};
