/*
 * explain: one head at one query, step by step as in a textbook: dot products, scaling, mask, softmax,
 * weighted values, and what the head's output does to the next token's logits if it goes straight to the
 * unembedding (direct logit attribution; Elhage et al. 2021, "A Mathematical Framework for Transformer
 * Circuits").
 */
#include "views/outputnorms.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOP = 5,
    TOKEN_WIDTH = 14,
    BAR_WIDTH = 24,
    MAX_KEYS = 40,  /* rows of the table; of a longer text the heaviest keys */
    MAX_MASKED = 3, /* masked tokens shown */
};

typedef struct Explain {
    Study *study;
    size_t layer, head, kv_head, query;
    bool at_query;            /* the token being fed is the query */
    float *scores, *weights;  /* [query + 1] */
    double *value_norms;      /* [query + 1] ‖v_k‖ */
    float *z;                 /* [d_head] Σ weight·v */
    float *resid;             /* [d_model] leaving the last layer */
    double output_norm;       /* ‖z W_O^h‖ */
    float *effects, *negated; /* [n_vocab] on the logits, mean 0 */
    int32_t *raised, *lowered;
    size_t n_top;
} Explain;

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const Explain *explain = user;
    bool here = layer == explain->layer;
    switch (site) {
    case PROBE_V: return here && head == explain->kv_head;
    case PROBE_SCORES:
    case PROBE_PATTERN:
    case PROBE_Z: return explain->at_query && here && head == explain->head;
    case PROBE_RESID_POST:
        return explain->at_query && layer + 1 == model_config(explain->study->model)->n_layer;
    default: return false;
    }
}

static void visit(void *user, const ProbeView *view) {
    Explain *explain = user;
    size_t bytes = view->n_cols * sizeof *view->data;
    switch (view->site) {
    case PROBE_V:
        for (size_t t = 0; t < view->n_rows; t++)
            explain->value_norms[view->position + t] =
                vector_norm(view->data + t * view->stride, view->n_cols);
        break;
    case PROBE_SCORES: memcpy(explain->scores, view->data, bytes); break;
    case PROBE_PATTERN: memcpy(explain->weights, view->data, bytes); break;
    case PROBE_Z: memcpy(explain->z, view->data, bytes); break;
    case PROBE_RESID_POST: memcpy(explain->resid, view->data, bytes); break;
    default: break;
    }
}

/*
 * effects_v = Σ_d c_d·g_d/σ·W_U[v][d], minus their mean over the vocabulary, which the softmax does not feel.
 * c = z W_O^h, centred where the final norm centres; σ is the scale that the norm has there anyway.
 */
static bool find_effects(Explain *explain, Error *error) {
    const Study *study = explain->study;
    const Config *config = model_config(study->model);
    const Weights *weights = model_weights(study->model);
    size_t d = config->d_model, d_head = config->d_head, n_vocab = config->n_vocab;
    float *columns = head_output(study, explain->layer, explain->head, error);
    if (!columns) return false;
    float *c = floats_new(2, d); /* and as much for packing it */
    double square = 0, mean = 0, scale = norm_scale(config, explain->resid);
    for (size_t i = 0; c && i < d; i++) {
        double sum = 0;
        for (size_t j = 0; j < d_head; j++) sum += (double)columns[i * d_head + j] * (double)explain->z[j];
        c[i] = (float)sum;
        square += sum * sum;
        mean += sum / (double)d;
    }
    free(columns);
    if (!c) return error_set(error, "not enough memory for the output of a head");
    explain->output_norm = sqrt(square);
    if (config->family->norm != NORM_LAYER) mean = 0;
    for (size_t i = 0; i < d; i++)
        c[i] = (float)(((double)c[i] - mean) * (double)weights->final_norm.gain[i] / scale);
    Linear unembedding = {weights->unembedding.w, NULL};
    Compute compute = {study->compute.kernels, study->compute.threads, c + d, d};
    linear_forward(&compute, &(LinearOutput){explain->effects, &unembedding}, 1, c, 1);
    free(c);

    mean = 0;
    for (size_t i = 0; i < n_vocab; i++) mean += (double)explain->effects[i] / (double)n_vocab;
    for (size_t i = 0; i < n_vocab; i++) {
        explain->effects[i] = (float)((double)explain->effects[i] - mean);
        explain->negated[i] = -explain->effects[i];
    }
    explain->n_top = logits_top(explain->effects, n_vocab, explain->n_top, explain->raised);
    logits_top(explain->negated, n_vocab, explain->n_top, explain->lowered);
    return true;
}

static bool allocate(Explain *explain, Error *error) {
    const Config *config = model_config(explain->study->model);
    size_t n = explain->query + 1;
    explain->scores = floats_new(1, n);
    explain->weights = floats_new(1, n);
    explain->value_norms = calloc(n, sizeof *explain->value_norms);
    explain->z = floats_new(1, config->d_head);
    explain->resid = floats_new(1, config->d_model);
    explain->effects = floats_new(1, config->n_vocab);
    explain->negated = floats_new(1, config->n_vocab);
    explain->raised = calloc(explain->n_top + 1, sizeof *explain->raised);
    explain->lowered = calloc(explain->n_top + 1, sizeof *explain->lowered);
    return (explain->scores && explain->weights && explain->value_norms && explain->z && explain->resid &&
            explain->effects && explain->negated && explain->raised && explain->lowered) ||
           error_set(error, "not enough memory to explain %zu keys", n);
}

/* Up to the query, without the tokens after it, which it cannot see. */
static bool feed(Explain *explain, Error *error) {
    const Study *study = explain->study;
    Probe probe = {explain, wants, visit};
    Session *session = study_session(study, 0, &probe, error);
    bool ok = session && study_feed(study, session, study->tokens.ids, explain->query, NULL, NULL, error);
    explain->at_query = true;
    ok = ok && study_feed(study, session, study->tokens.ids + explain->query, 1, NULL, NULL, error);
    session_free(session);
    return ok;
}

static double root_of_d_head(const Explain *explain) {
    return sqrt((double)model_config(explain->study->model)->d_head);
}

static void json_effects(const Explain *explain, Report *report, const char *key, const int32_t *ids) {
    json_array(report, key);
    for (size_t i = 0; i < explain->n_top; i++) {
        json_object(report, NULL);
        json_token(report, ids[i], explain->study);
        json_real(report, "effect", (double)explain->effects[ids[i]]);
        json_end_object(report);
    }
    json_end_array(report);
}

static void print_json(const Explain *explain, Report *report) {
    const Study *study = explain->study;
    json_int(report, "layer", (int64_t)explain->layer);
    json_int(report, "head", (int64_t)explain->head);
    json_int(report, "kv_head", (int64_t)explain->kv_head);
    json_int(report, "query", (int64_t)explain->query);
    json_int(report, "d_head", (int64_t)model_config(study->model)->d_head);
    json_array(report, "keys");
    for (size_t key = 0; key <= explain->query; key++) {
        double weight = (double)explain->weights[key];
        json_object(report, NULL);
        json_int(report, "key", (int64_t)key);
        json_token(report, study->tokens.ids[key], study);
        json_real(report, "dot", (double)explain->scores[key] * root_of_d_head(explain));
        json_real(report, "score", (double)explain->scores[key]);
        json_real(report, "weight", weight);
        json_real(report, "value_norm", explain->value_norms[key]);
        json_real(report, "weighted", weight * explain->value_norms[key]);
        json_end_object(report);
    }
    json_end_array(report);
    json_real(report, "output_norm", explain->output_norm);
    json_effects(explain, report, "raised", explain->raised);
    json_effects(explain, report, "lowered", explain->lowered);
}

static void print_formula(const Explain *explain) {
    const Study *study = explain->study;
    const Report *report = &study->report;
    const Config *config = model_config(study->model);
    char name[32];
    bool rope = config->family->rope != ROPE_NONE;
    print_styled(report, STYLE_BOLD, "%s", head_name(name, explain->layer, explain->head));
    printf(", query %zu ", explain->query);
    print_token(report, study, study->tokens.ids[explain->query], 0);
    if (config->n_head_kv < config->n_head)
        printf(" (it shares kv head %zu with other heads)", explain->kv_head);
    putchar('\n');
    if (report->ascii)
        printf("  score_k  = q.k_k / sqrt(d_head)                d_head = %zu, sqrt(d_head) = %.4g%s\n"
               "  weight_k = exp(score_k) / sum_j exp(score_j)   over keys j <= %zu; later ones are masked\n"
               "  output   = W_O sum_k weight_k v_k              added to the residual stream\n",
               config->d_head, root_of_d_head(explain), rope ? "; q, k after RoPE" : "", explain->query);
    else
        printf("  score_k  = q·k_k / √d_head                  d_head = %zu, √d_head = %.4g%s\n"
               "  weight_k = exp(score_k) / Σ_j exp(score_j)  over keys j ≤ %zu; later ones are masked\n"
               "  output   = W_O Σ_k weight_k v_k             added to the residual stream\n",
               config->d_head, root_of_d_head(explain), rope ? "; q, k after RoPE" : "", explain->query);
}

/* The weight from which on a key is in the table, so that about MAX_KEYS are. */
static double least_shown(const Explain *explain) {
    size_t n = explain->query + 1;
    int32_t heaviest[MAX_KEYS];
    if (n <= MAX_KEYS) return 0;
    return (double)explain->weights[heaviest[logits_top(explain->weights, n, MAX_KEYS, heaviest) - 1]];
}

/* The bar is the key's share in the sum of weight·‖v‖. */
static void print_key(const Explain *explain, size_t key, double sum) {
    const Study *study = explain->study;
    const Report *report = &study->report;
    double score = (double)explain->scores[key], weight = (double)explain->weights[key];
    double weighted = weight * explain->value_norms[key];
    printf("%5zu ", key);
    print_token(report, study, study->tokens.ids[key], TOKEN_WIDTH);
    printf(" %9.3f %8.3f %6d %7.4f %8.3f %10.4f", score * root_of_d_head(explain), score, 0, weight,
           explain->value_norms[key], weighted);
    print_bar(report, weighted / sum, BAR_WIDTH);
    putchar('\n');
}

/* Tokens after the query: their scores are −∞, so their weights exp(−∞) = 0. */
static void print_masked(const Explain *explain) {
    const Study *study = explain->study;
    const Report *report = &study->report;
    size_t first = explain->query + 1, n = study->tokens.n - first, shown = at_most(n, MAX_MASKED);
    print_style(report, STYLE_DIM);
    for (size_t key = first; key < first + shown; key++) {
        printf("%5zu ", key);
        print_token(report, study, study->tokens.ids[key], TOKEN_WIDTH);
        printf(" %9s %8s %*s %7d\n", "-", "-", report->ascii ? 6 : 10, report->ascii ? "-inf" : "−∞", 0);
    }
    if (n > shown) printf("      %zu more are masked\n", n - shown);
    if (!n) puts("      (the query is the last token: there is none after it to mask)");
    print_style(report, STYLE_PLAIN);
}

static void print_keys(const Explain *explain) {
    const Report *report = &explain->study->report;
    double least = least_shown(explain), weights = 0, weighted = 0, left_out = 0;
    size_t n_left_out = 0;
    print_styled(report, STYLE_BOLD, "%s\n",
                 report->ascii
                     ? "  key token                q.k /sqrt(d)  +mask  weight      |v| weight*|v|"
                     : "  key token                q·k ÷√d_head  +mask  weight      ‖v‖ weight×‖v‖");
    for (size_t key = 0; key <= explain->query; key++) {
        weights += (double)explain->weights[key];
        weighted += (double)explain->weights[key] * explain->value_norms[key];
    }
    for (size_t key = 0; key <= explain->query; key++) {
        double weight = (double)explain->weights[key];
        if (weight >= least) {
            print_key(explain, key, weighted);
        } else {
            left_out += weight;
            n_left_out++;
        }
    }
    if (n_left_out)
        printf("      %zu lighter keys left out: %.4f in all (--json has every one)\n", n_left_out, left_out);
    print_masked(explain);
    printf("      %-*s %9s %8s %6s %7.4f\n", TOKEN_WIDTH, "sum", "", "", "", weights);
}

static void print_effects(const Explain *explain) {
    const Study *study = explain->study;
    const Report *report = &study->report;
    printf(report->ascii
               ? "|z W_O| = %.4f: the length of what the head adds, without bias. Straight to the\n"
               : "‖z W_O‖ = %.4f: the length of what the head adds, without bias. Straight to the\n",
           explain->output_norm);
    puts("unembedding it changes the next token's logits most at:");
    print_styled(report, STYLE_BOLD, "  raised                  lowered\n");
    for (size_t i = 0; i < explain->n_top; i++) {
        fputs("  ", stdout);
        print_token(report, study, explain->raised[i], TOKEN_WIDTH);
        printf("%+8.3f  ", (double)explain->effects[explain->raised[i]]);
        print_token(report, study, explain->lowered[i], TOKEN_WIDTH);
        printf("%+8.3f\n", (double)explain->effects[explain->lowered[i]]);
    }
    print_styled(report, STYLE_DIM,
                 "Relative to the mean over the vocabulary; what later layers make of it is not counted.\n");
}

static void explain_free(const Explain *explain) {
    free(explain->scores);
    free(explain->weights);
    free(explain->value_norms);
    free(explain->z);
    free(explain->resid);
    free(explain->effects);
    free(explain->negated);
    free(explain->raised);
    free(explain->lowered);
}

bool view_explain(Study *study, Error *error) {
    const StudyOptions *o = study->options;
    Report *report = &study->report;
    if (o->layer < 0 || o->head < 0)
        return error_set(error, "explain takes one head: name it with --layer and --head");
    const Config *config = model_config(study->model);
    Explain explain = {.study = study,
                       .layer = (size_t)o->layer,
                       .head = (size_t)o->head,
                       .kv_head = kv_head_of(config, (size_t)o->head),
                       .query = o->query < 0 ? study->tokens.n - 1 : (size_t)o->query,
                       .n_top = study_top(study, TOP)};
    bool ok = allocate(&explain, error) && feed(&explain, error) && find_effects(&explain, error);
    if (ok) {
        report_open(report, study);
        if (report->json) {
            print_json(&explain, report);
        } else {
            print_formula(&explain);
            putchar('\n');
            print_keys(&explain);
            putchar('\n');
            print_effects(&explain);
        }
        report_close(report);
    }
    explain_free(&explain);
    return ok;
}
