/*
 * explain: one head at one query, step by step as in a textbook: dot products, scaling, mask, softmax,
 * weighted values, and what the head's output does to the next token's logits if it goes straight to the
 * unembedding (measures/effects.h).
 */
#include "measures/effects.h"
#include "measures/scores.h"
#include "views/view.h"

#include <math.h>
#include <string.h>

enum { TOKEN_WIDTH = 14 };

/* A key. */
typedef struct ExplainRow {
    size_t key, mask; /* mask: what is added to the score, 0 */
    int32_t id;
    double dot, score, weight, value_norm; /* dot: NAN where a cap has bent it */
    double weighted;                       /* weight·‖v‖ */
    double share;                          /* of it in the sum over all keys */
} ExplainRow;

typedef struct Explain {
    const char *query_text;
    size_t layer, head, query, n_top;

    size_t kv_head;
    ScoreRule rule;
    size_t first;        /* the first key that the query sees */
    float *weight;       /* [query + 1] */
    ExplainRow *rows;    /* [query + 1] */
    double weights;      /* their sum */
    double learned;      /* what the head's learned sink takes */
    Effects effects;     /* without heads where a gate stands behind z, */
    HeadEffects written; /* … of which nothing is known then */
} Explain;

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const Explain *explain = user;
    bool here = layer == explain->layer;
    switch (site) {
    case PROBE_SCORES:
    case PROBE_PATTERN: return here && head == explain->head;
    default: return effects_want(&explain->effects, site, layer);
    }
}

static void visit(void *user, const Activation *seen) {
    Explain *explain = user;
    size_t bytes = seen->n_cols * sizeof *seen->data;
    switch (seen->site) {
    case PROBE_SCORES:
        for (size_t key = 0; key < seen->n_cols; key++) explain->rows[key].score = (double)seen->data[key];
        break;
    case PROBE_PATTERN: memcpy(explain->weight, seen->data, bytes); break;
    default: effects_add(&explain->effects, seen); break;
    }
}

/* Up to the query, without the tokens after it, which it cannot see. Values are those that the cache holds. */
static bool feed(Study *study, Explain *explain, Error *error) {
    Probe probe = {explain, wants, visit};
    size_t n = explain->query + 1, d_head = model_config(study->model)->d_head;
    float *values = arena_floats(&study->arena, n, d_head);
    if (!arena_ok(&study->arena, error, "the values of %zu keys", n) ||
        !study_feed(study, &probe, explain->query, n, error))
        return false;
    session_values(study->session, explain->layer, explain->kv_head, n, values);
    for (size_t key = 0; key < n; key++)
        explain->rows[key].value_norm = vector_norm(values + key * d_head, d_head);
    return true;
}

static void fill_rows(const Subject *subject, Explain *explain) {
    double weighted = 0;
    for (size_t key = explain->first; key <= explain->query; key++) {
        ExplainRow *row = &explain->rows[key];
        row->key = key;
        row->id = subject->tokens.ids[key];
        row->dot = rule_dot(&explain->rule, row->score, explain->query - key);
        row->weight = (double)explain->weight[key];
        row->weighted = row->weight * row->value_norm;
        explain->weights += row->weight;
        weighted += row->weighted;
    }
    for (size_t key = explain->first; key <= explain->query; key++)
        explain->rows[key].share = explain->rows[key].weighted / weighted;
    explain->learned = rule_learned_share(&explain->rule, explain->weights);
}

static bool begin_effects(Study *study, Explain *explain, Error *error) {
    if (has_gated_heads(study->model)) return true;
    explain->effects = (Effects){.layer = explain->layer,
                                 .n_layers = 1,
                                 .head = explain->head,
                                 .n_heads = 1,
                                 .query = explain->query,
                                 .n_top = explain->n_top};
    return effects_begin(&explain->effects, &study->subject, &study->arena, error);
}

static bool finish_effects(Explain *explain, Error *error) {
    if (!effects_finish(&explain->effects, error)) return false;
    explain->written = *effects_of(&explain->effects, explain->layer, explain->head);
    return true;
}

static bool check(const StudyOptions *options, const void *own, Error *error) {
    const Explain *explain = own;
    (void)options;
    return (explain->layer != NOT_GIVEN && explain->head != NOT_GIVEN) ||
           error_set(error, "explain takes one head: name it with --layer and --head");
}

static bool compute(Study *study, void *own, Error *error) {
    Explain *explain = own;
    const Subject *subject = &study->subject;
    const Config *config = model_config(study->model);
    Arena *arena = &study->arena;
    if (!study_check_place(study, explain->layer, explain->head, NOT_GIVEN, 0, error) ||
        !study_check_heads(study, explain->layer, error) ||
        !study_query(study, explain->query_text, NULL, &explain->query, error))
        return false;
    explain->kv_head = kv_head_of(config, explain->head);
    explain->rule = score_rule(study->model, explain->layer, explain->head);
    explain->first = rule_first_key(&explain->rule, explain->query);
    size_t n = explain->query + 1;
    explain->weight = arena_floats(arena, 1, n);
    explain->rows = arena_new(arena, n, sizeof *explain->rows);
    explain->written.output_norm = NAN;
    if (!arena_ok(arena, error, "%zu keys", n) || !begin_effects(study, explain, error) ||
        !feed(study, explain, error))
        return false;
    fill_rows(subject, explain);
    return !explain->effects.n_heads || finish_effects(explain, error);
}

#define ROW(member) offsetof(ExplainRow, member)

static const Column key_columns[] = {
    {"key", "  key", CELL_SIZE, ROW(key), 5},
    {"token", "token", CELL_TOKEN, ROW(id), TOKEN_WIDTH + 1, TOKEN_WIDTH},
    {"dot", "q·k", CELL_REAL, ROW(dot), 10, 3, .ascii = "q.k"},
    {"score", "÷√d_head", CELL_REAL, ROW(score), 9, 3, .ascii = "/sqrt(d)"},
    {"score", "score", CELL_REAL, ROW(score), 9, 3},
    {NULL, "+mask", CELL_SIZE, ROW(mask), 7},
    {"weight", "weight", CELL_REAL, ROW(weight), 8, 4},
    {"value_norm", "‖v‖", CELL_REAL, ROW(value_norm), 9, 3, .ascii = "|v|"},
    {"weighted", "weight×‖v‖", CELL_REAL, ROW(weighted), 11, 4, .ascii = "weight*|v|"},
    {NULL, "", CELL_BAR, ROW(share), 24},
};

enum { DIVIDED = 1 << 3, SCORED = 1 << 4 }; /* columns of it, one of which is shown */

static const Table keys_table = TABLE("keys", key_columns);

static bool is_normed_behind(const Study *study, const Explain *explain) {
    return model_weights(study->model)->layers[explain->layer].attn_post_norm.gain;
}

/* Says how q and k were changed before they are multiplied: "; q, k after RoPE". */
static const char *turned(const Study *study, const Explain *explain) {
    bool normed = model_weights(study->model)->layers[explain->layer].attention.q_norm.gain;
    bool rotated = config_rope(model_config(study->model), explain->layer);
    return normed && rotated ? "; q, k after their norm and RoPE"
           : normed          ? "; q, k after their norm"
           : rotated         ? "; q, k after RoPE"
                             : "";
}

/* A formula, and spaces up to where the words beside it begin. */
static void print_side(const Report *report, const char *name, const char *formula) {
    size_t n = strlen(formula), width = text_width(report, formula, n), beside = report->ascii ? 34 : 31;
    printf("  %-8s = ", name);
    print_column(report, formula, n, width < beside ? beside : width);
    fputs("  ", stdout);
}

static void print_formula(const Study *study, const Explain *explain) {
    const Report *report = &study->report;
    const Config *config = model_config(study->model);
    const ScoreRule *rule = &explain->rule;
    bool ascii = report->ascii, gated = has_gated_heads(study->model);
    const char *sum = ascii ? "sum" : "Σ", *least = ascii ? "<=" : "≤";
    char name[32], formula[128], factor[32] = "";
    print_styled(report, STYLE_BOLD, "%s", head_name(name, explain->layer, explain->head));
    printf(", query %zu ", explain->query);
    print_token(report, study->subject.tokens.ids[explain->query], 0);
    if (config->n_head_kv < config->n_head)
        printf(" (it shares kv head %zu with other heads)", explain->kv_head);
    putchar('\n');

    print_side(report, "score_k", score_formula(formula, rule, ascii));
    printf("d_head = %zu", config->d_head);
    if (rule->by_root) printf(ascii ? ", sqrt(d_head) = %.4g" : ", √d_head = %.4g", 1 / rule->scale);
    if (rule->slope != 0) printf(", slope = %.4g", rule->slope);
    puts(turned(study, explain));

    snprintf(formula, sizeof formula, "exp(score_k) / %s%s_j exp(score_j)%s",
             rule->has_sink ? "(exp(sink) + " : "", sum, rule->has_sink ? ")" : "");
    print_side(report, "weight_k", formula);
    if (explain->first > 0)
        printf("over keys %zu to %zu; others masked\n", explain->first, explain->query);
    else
        printf("over keys j %s %zu; later ones are masked\n", least, explain->query);

    if (config->residual_scale != 1)
        snprintf(factor, sizeof factor, "%.4g%s", (double)config->residual_scale, ascii ? "*" : "·");
    snprintf(formula, sizeof formula,
             is_normed_behind(study, explain) ? "%snorm(W_O %s_k weight_k v_k)"
             : gated                          ? "%sW_O (gate %s_k weight_k v_k)"
                                              : "%sW_O %s_k weight_k v_k",
             factor, sum);
    print_side(report, "output", formula);
    puts("added to the residual stream\n");
}

/* The column of scores that is not shown. */
static Columns other_score(const Explain *explain) {
    const ScoreRule *rule = &explain->rule;
    return rule->by_root && rule->cap == 0 && rule->slope == 0 ? SCORED : DIVIDED;
}

/* The least weight of a key in the table, so that about MAX_KEYS are there. */
static double least_shown(const Explain *explain) {
    int32_t heaviest[MAX_KEYS];
    if (explain->query < MAX_KEYS) return 0;
    logits_top(explain->weight, explain->query + 1, MAX_KEYS, heaviest);
    return (double)explain->weight[heaviest[MAX_KEYS - 1]];
}

/* Tokens before a window, and those after the query: their scores are −∞, so their weights exp(−∞) = 0. */
static void print_before(const Report *report, const Explain *explain) {
    if (explain->first > 0)
        print_styled(report, STYLE_DIM, "      %zu before the window of %zu are masked\n", explain->first,
                     explain->rule.window);
}

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
    Columns other = other_score(explain);
    table_print_titles(report, &keys_table, other, NULL);
    print_before(report, explain);
    for (size_t key = explain->first; key <= explain->query; key++) {
        const ExplainRow *row = &explain->rows[key];
        if (row->weight < least) {
            left_out += row->weight;
            n_left_out++;
            continue;
        }
        table_print_line(report, &keys_table, other, row);
    }
    if (n_left_out)
        printf("      %zu lighter keys left out: %.4f in all (--json has every one)\n", n_left_out, left_out);
    print_masked(study, explain);
    if (explain->rule.has_sink)
        printf("      %-*s %9s %8.3f %6s %7.4f\n", TOKEN_WIDTH, "learned sink", "", explain->rule.sink, "",
               explain->learned);
    printf("      %-*s %9s %8s %6s %7.4f\n\n", TOKEN_WIDTH, "sum", "", "", "",
           explain->weights + explain->learned);
}

static void print_effects(const Study *study, Report *report, const Explain *explain) {
    const Config *config = model_config(study->model);
    bool normed = is_normed_behind(study, explain);
    if (has_gated_heads(study->model)) {
        puts("A gate of its own, which is not shown, multiplies the sum before W_O reads it:\n"
             "what the head adds is not known from its weights and values.");
        return;
    }
    printf(normed || config->residual_scale != 1 ? report->ascii ? "|output|" : "‖output‖"
           : report->ascii                       ? "|z W_O|"
                                                 : "‖z W_O‖");
    printf(" = %.4f: the length of what the head adds, without bias. Straight to the\n",
           explain->written.output_norm);
    puts("unembedding it changes the next token's logits most at:");
    effects_show(report, &explain->written, explain->effects.n_top);
    if (normed)
        print_styled(report, STYLE_DIM,
                     "The norm behind attention divides by what it does here for all heads together.\n");
    if (config->logit_cap != 0)
        print_styled(report, STYLE_DIM, "Logits before their soft cap of %.4g.\n", (double)config->logit_cap);
}

static double or_null(double value) { return value != 0 ? value : NAN; }

static void json_rule(Report *report, const Explain *explain) {
    const ScoreRule *rule = &explain->rule;
    json_real(report, "scale", rule->scale);
    json_real(report, "soft_cap", or_null(rule->cap));
    json_real(report, "slope", or_null(rule->slope));
    json_real(report, "window", or_null((double)rule->window));
    json_real(report, "learned_sink_score", rule->sink);
    json_real(report, "learned_sink", rule->has_sink ? explain->learned : NAN);
}

static bool show(Study *study, void *own, Error *error) {
    const Explain *explain = own;
    Report *report = &study->report;
    (void)error;
    if (!is_json(report)) {
        print_formula(study, explain);
        print_keys(study, explain);
        print_effects(study, report, explain);
        return true;
    }
    json_int(report, "layer", (int64_t)explain->layer);
    json_int(report, "head", (int64_t)explain->head);
    json_int(report, "kv_head", (int64_t)explain->kv_head);
    json_int(report, "query", (int64_t)explain->query);
    json_int(report, "d_head", (int64_t)model_config(study->model)->d_head);
    json_rule(report, explain);
    table_show(report, &keys_table, other_score(explain), explain->rows + explain->first,
               explain->query + 1 - explain->first, sizeof *explain->rows);
    json_real(report, "output_norm", explain->written.output_norm);
    effects_show(report, &explain->written, explain->effects.n_top);
    return true;
}

static const Explain defaults = {.layer = NOT_GIVEN, .head = NOT_GIVEN, .n_top = N_EFFECTS};

#define AT(member) offsetof(Explain, member)

static const Option options[] = {
    {"--layer", NULL, OPTION_SIZE, AT(layer), 0, 1e9},
    {"--head", NULL, OPTION_SIZE, AT(head), 0, 1e9},
    {"--query", NULL, OPTION_ONCE, AT(query_text)},
    {"--top", NULL, OPTION_SIZE, AT(n_top), 0, 1000},
};

const View view_explain = {
    .name = "explain",
    .summary = "one head and query, step by step",
    .help = HELP(
        "q.k, divided by the root of d_head, masked, softmax, weight * |v|, and the tokens that the head's\n"
        "output raises and lowers most.\n"
        "\n"
        "  --layer L, --head H   which (needed)     --query Q   whose row (the last)     --top K  (5)\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(Explain),
    .check = check,
    .compute = compute,
    .show = show,
};
