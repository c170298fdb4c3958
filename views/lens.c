/*
 * lens: what each layer's residual stream would predict if it left the model there (the logit lens,
 * nostalgebraist 2020), at one position. The final norm is applied to each with its own statistics; with
 * --frozen-norm all are divided by the scale of the last one, as TransformerLens did before 2026.
 */
#include "views/study.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOP = 5 };

typedef struct Lens {
    const Study *study;
    size_t query, n_layer, n_rows, n_top;
    size_t per_layer; /* rows: 1, or 2 with --mid (a parallel layer has no middle) */
    size_t d_model, n_vocab;
    float *resid;   /* [n_rows][d_model] at the query; behind it as much for packing them */
    float *logits;  /* [n_rows][n_vocab] */
    int32_t *top;   /* [n_top] */
    int32_t final;  /* the model's answer */
    int32_t target; /* of --token, or −1 */
} Lens;

/* What one row says. */
typedef struct Row {
    Distribution distribution;
    double kl; /* nats, of the final distribution from this one */
    size_t final_rank, target_rank;
    double final_probability, target_probability;
} Row;

static bool wants_resid(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)head;
    const Lens *lens = user;
    return site == PROBE_RESID_PRE || (site == PROBE_RESID_MID && lens->per_layer == 2) ||
           (site == PROBE_RESID_POST && layer + 1 == lens->n_layer);
}

/* Rows in the order in which the stream comes by. */
static void keep_resid(void *user, const ProbeView *view) {
    Lens *lens = user;
    if (lens->query < view->position || lens->query >= view->position + view->n_rows) return;
    size_t row = view->site == PROBE_RESID_POST
                     ? lens->n_rows - 1
                     : view->layer * lens->per_layer + (view->site == PROBE_RESID_MID);
    memcpy(lens->resid + row * lens->d_model, view->data + (lens->query - view->position) * view->stride,
           lens->d_model * sizeof *lens->resid);
}

/* The final norm of all rows with the scale of the last, in place. */
static void norm_frozen(const Lens *lens) {
    const Config *config = model_config(lens->study->model);
    const Norm *norm = &model_weights(lens->study->model)->final_norm;
    double scale = norm_scale(config, lens->resid + (lens->n_rows - 1) * lens->d_model);
    for (size_t row = 0; row < lens->n_rows; row++) {
        float *x = lens->resid + row * lens->d_model;
        double mean = norm_mean(config, x);
        for (size_t i = 0; i < lens->d_model; i++)
            x[i] = (float)(((double)x[i] - mean) / scale * (double)norm->gain[i] +
                           (norm->bias ? (double)norm->bias[i] : 0));
    }
}

static void unembed(Lens *lens, const Session *session) {
    const Study *study = lens->study;
    size_t n = lens->n_rows;
    if (study->options->frozen_norm) {
        /* The last row is the model's own answer, to the bit. */
        n--;
        session_unembed(session, lens->resid + n * lens->d_model, 1, lens->logits + n * lens->n_vocab);
        norm_frozen(lens);
        LinearOutput output = {lens->logits, &model_weights(study->model)->unembedding};
        Compute compute = study->compute;
        compute.packed = lens->resid + lens->n_rows * lens->d_model;
        compute.n_packed = lens->n_rows * lens->d_model;
        linear_forward(&compute, &output, 1, lens->resid, n);
    } else {
        session_unembed(session, lens->resid, n, lens->logits);
    }
}

static bool prepare(const Study *study, Lens *lens, Error *error) {
    const StudyOptions *options = study->options;
    const Config *config = model_config(study->model);
    if (options->token && !study_token(study, options->token, &lens->target, error)) return false;
    lens->query = options->query >= 0 ? (size_t)options->query : study->tokens.n - 1;
    lens->n_layer = config->n_layer;
    lens->per_layer = options->mid && !config->parallel_residual ? 2 : 1;
    lens->n_rows = lens->n_layer * lens->per_layer + 1;
    lens->d_model = config->d_model;
    lens->n_vocab = config->n_vocab;
    lens->n_top = at_most(study_top(study, TOP), lens->n_vocab);
    lens->resid = floats_new(2 * lens->n_rows, lens->d_model);
    lens->logits = floats_new(lens->n_rows, lens->n_vocab);
    lens->top = calloc(lens->n_top + 1, sizeof *lens->top);
    return (lens->resid && lens->logits && lens->top) ||
           error_set(error, "not enough memory for %zu rows of %zu logits", lens->n_rows, lens->n_vocab);
}

/* What comes after the query changes nothing at it, and is not fed. */
static bool feed(Lens *lens, Error *error) {
    const Study *study = lens->study;
    Probe probe = {lens, wants_resid, keep_resid};
    Session *session = study_session(study, 0, &probe, error);
    bool ok = session && study_feed(study, session, study->tokens.ids, lens->query + 1, NULL, NULL, error);
    if (ok) {
        unembed(lens, session);
        float *last = lens->logits + (lens->n_rows - 1) * lens->n_vocab;
        lens->final = distribution_of(last, lens->n_vocab).best;
    }
    session_free(session);
    return ok;
}

static Row read_row(const Lens *lens, size_t row) {
    const float *logits = lens->logits + row * lens->n_vocab;
    const float *last = lens->logits + (lens->n_rows - 1) * lens->n_vocab;
    Row out = {.distribution = distribution_of(logits, lens->n_vocab),
               .kl = logits_kl(last, logits, lens->n_vocab),
               .final_rank = logits_rank(logits, lens->n_vocab, lens->final)};
    double log_sum = out.distribution.log_sum;
    out.final_probability = exp((double)logits[lens->final] - log_sum);
    if (lens->target >= 0) {
        out.target_rank = logits_rank(logits, lens->n_vocab, lens->target);
        out.target_probability = exp((double)logits[lens->target] - log_sum);
    }
    return out;
}

static double top_probability(const Lens *lens, size_t row, const Distribution *distribution, size_t i) {
    return exp((double)lens->logits[row * lens->n_vocab + (size_t)lens->top[i]] - distribution->log_sum);
}

/* "0_pre", "0_mid", "final_post", as TransformerLens's accumulated_resid labels them. */
static const char *row_name(const Lens *lens, size_t row, char name[32]) {
    if (row + 1 == lens->n_rows) return "final_post";
    snprintf(name, 32, "%zu_%s", row / lens->per_layer, row % lens->per_layer ? "mid" : "pre");
    return name;
}

static void print_json(Report *report, const Lens *lens) {
    json_int(report, "query", (int64_t)lens->query);
    json_object(report, "final");
    json_token(report, lens->final, lens->study);
    json_end_object(report);
    if (lens->target >= 0) {
        json_object(report, "target");
        json_token(report, lens->target, lens->study);
        json_end_object(report);
    }
    json_array(report, "rows");
    for (size_t i = 0; i < lens->n_rows; i++) {
        char name[32];
        Row row = read_row(lens, i);
        json_object(report, NULL);
        json_text(report, "row", row_name(lens, i, name), SIZE_MAX);
        json_array(report, "top");
        logits_top(lens->logits + i * lens->n_vocab, lens->n_vocab, lens->n_top, lens->top);
        for (size_t k = 0; k < lens->n_top; k++) {
            json_object(report, NULL);
            json_token(report, lens->top[k], lens->study);
            json_real(report, "probability", top_probability(lens, i, &row.distribution, k));
            json_end_object(report);
        }
        json_end_array(report);
        json_int(report, "final_rank", (int64_t)row.final_rank);
        json_real(report, "final_probability", row.final_probability);
        if (lens->target >= 0) {
            json_int(report, "target_rank", (int64_t)row.target_rank);
            json_real(report, "target_probability", row.target_probability);
        }
        json_real(report, "kl_nats", row.kl);
        json_real(report, "entropy_nats", row.distribution.entropy);
        json_end_object(report);
    }
    json_end_array(report);
}

/* The first row from which on the answer is on top to the end. */
static size_t settled(const Lens *lens) {
    size_t row = lens->n_rows - 1;
    while (row > 0 && logits_rank(lens->logits + (row - 1) * lens->n_vocab, lens->n_vocab, lens->final) == 1)
        row--;
    return row;
}

static void print_legend(const Report *report, const Lens *lens) {
    const Study *study = lens->study;
    char name[32];
    printf("After ");
    print_token(report, study, study->tokens.ids[lens->query], 0);
    printf(" (position %zu) the model expects ", lens->query);
    print_token(report, study, lens->final, 0);
    printf(": on top from %s on", row_name(lens, settled(lens), name));
    if (lens->target >= 0) {
        printf("; also followed: ");
        print_token(report, study, lens->target, 0);
    }
    putchar('\n');
    print_style(report, STYLE_DIM);
    printf("N_pre    the residual stream entering layer N, unembedded as if it left the model there\n");
    if (lens->per_layer == 2)
        printf("N_mid    the same between the layer's attention and its MLP\n");
    else if (study->options->mid)
        printf("N_mid    does not exist: this model's attention and MLP stand side by side\n");
    printf("rank, p  of the model's answer%s\n",
           lens->target >= 0 ? "; rank', p': of the token that is also followed" : "");
    printf("KL       from the model's distribution to the row's, in bits; entropy of the row, in bits\n");
    if (study->options->frozen_norm) printf("Every row is divided by the scale of the last one's norm.\n");
    print_style(report, STYLE_PLAIN);
}

static void print_numbers(const Report *report, size_t rank, double probability) {
    if (rank == 1) print_style(report, STYLE_BOLD);
    printf(" %6zu %5.3f", rank, probability);
    if (rank == 1) print_style(report, STYLE_PLAIN);
}

/* The likeliest tokens of a row, in n cells. */
static void print_top(const Report *report, const Lens *lens, size_t row, const Distribution *distribution,
                      size_t n, size_t token_width) {
    logits_top(lens->logits + row * lens->n_vocab, lens->n_vocab, n, lens->top);
    for (size_t k = 0; k < n; k++) {
        bool answer = lens->top[k] == lens->final;
        fputs("  ", stdout);
        if (answer) print_style(report, STYLE_BOLD);
        print_token(report, lens->study, lens->top[k], token_width);
        printf(" %4.2f", top_probability(lens, row, distribution, k));
        if (answer) print_style(report, STYLE_PLAIN);
    }
}

static void print_text(const Report *report, const Lens *lens) {
    enum { NARROWEST = 8, WIDEST = 14, BESIDE_TOKEN = 7 };
    size_t used = lens->target >= 0 ? 51 : 38, room = report->width > used ? report->width - used : 0;
    size_t n_shown = room / (NARROWEST + BESIDE_TOKEN), token_width = WIDEST;
    n_shown = at_most(n_shown ? n_shown : 1, lens->n_top);
    while (token_width > NARROWEST && n_shown * (token_width + BESIDE_TOKEN) > room) token_width--;
    print_legend(report, lens);
    print_style(report, STYLE_BOLD);
    printf("\n%-10s %6s %5s", "row", "rank", "p");
    if (lens->target >= 0) printf(" %6s %5s", "rank'", "p'");
    printf(" %6s %7s", "KL", "entropy");
    if (n_shown > 0) printf("  likeliest");
    if (n_shown < lens->n_top) printf(" (%zu of %zu fit)", n_shown, lens->n_top);
    print_style(report, STYLE_PLAIN);
    putchar('\n');
    for (size_t i = 0; i < lens->n_rows; i++) {
        char name[32];
        Row row = read_row(lens, i);
        printf("%-10s", row_name(lens, i, name));
        print_numbers(report, row.final_rank, row.final_probability);
        if (lens->target >= 0) print_numbers(report, row.target_rank, row.target_probability);
        printf(" %6.2f %7.2f", row.kl * BITS_PER_NAT, row.distribution.entropy * BITS_PER_NAT);
        print_top(report, lens, i, &row.distribution, n_shown, token_width);
        putchar('\n');
    }
}

bool view_lens(Study *study, Error *error) {
    Lens lens = {.study = study, .target = -1};
    Report *report = &study->report;
    bool ok = prepare(study, &lens, error) && feed(&lens, error);
    if (ok) {
        report_open(report, study);
        if (report->json)
            print_json(report, &lens);
        else
            print_text(report, &lens);
        report_close(report);
    }
    free(lens.resid);
    free(lens.logits);
    free(lens.top);
    return ok;
}
