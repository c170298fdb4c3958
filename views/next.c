/*
 * next: what the model expects after the text: the likeliest tokens at temperature 1, how much probability
 * they hold together, and what temperature, top-k, top-p and min-p, in the sampler's hands, would leave of
 * each.
 */
#include "views/study.h"

#include <math.h>
#include <stdlib.h>

enum { TOP = 10, ROW_WIDTH = 62, AFTER_WIDTH = 10, BAR_WIDTH = 20 /* columns */ };

typedef struct Next {
    float *logits; /* [n_vocab] after the last token */
    size_t n_vocab, n_top;
    int32_t *top; /* [n_top] likeliest first */
    Distribution distribution;

    SamplerOptions sampling;
    double *after;          /* [n_vocab] probability that a token is drawn; 0 when it is filtered out */
    size_t n_kept;          /* tokens that may be drawn */
    double mass;            /* what they hold at temperature 1, unfiltered */
    double entropy_of_kept; /* nats, of what is drawn */
} Next;

static bool feed(const Study *study, Next *next, Error *error) {
    const Tokens *tokens = &study->tokens;
    Session *session = study_session(study, 0, NULL, error);
    bool ok = session && study_feed(study, session, tokens->ids, tokens->n - 1, NULL, NULL, error) &&
              session_feed(session, tokens->ids + tokens->n - 1, 1, next->logits, 1, error);
    session_free(session);
    return ok;
}

static double probability(const Next *next, int32_t id) {
    return exp((double)next->logits[id] - next->distribution.log_sum);
}

/* 1 + the number of tokens with a larger logit than the i-th likeliest. */
static size_t rank_of(const Next *next, size_t i) {
    while (i > 0 && next->logits[next->top[i - 1]] == next->logits[next->top[i]]) i--;
    return i + 1;
}

/* Lets a sampler filter the logits. */
static bool filter(Next *next, Error *error) {
    Sampler *sampler = sampler_new(&next->sampling, next->n_vocab, error);
    if (!sampler) return false;
    Candidates kept = sampler_candidates(sampler, next->logits);
    double sum = 0;
    for (size_t i = 0; i < kept.n; i++) sum += (double)kept.items[i].p;
    next->n_kept = kept.n;
    for (size_t i = 0; i < kept.n; i++) {
        double p = (double)kept.items[i].p / sum;
        next->after[kept.items[i].id] = p;
        next->mass += probability(next, kept.items[i].id);
        if (p > 0) next->entropy_of_kept -= p * log(p);
    }
    sampler_free(sampler);
    return true;
}

static void print_json(Report *report, const Study *study, const Next *next) {
    const SamplerOptions *sampling = &next->sampling;
    double cumulative = 0;
    json_real(report, "entropy_nats", next->distribution.entropy);
    json_array(report, "top");
    for (size_t i = 0; i < next->n_top; i++) {
        int32_t id = next->top[i];
        double logit = (double)next->logits[id];
        cumulative += probability(next, id);
        json_object(report, NULL);
        json_token(report, id, study);
        json_int(report, "rank", (int64_t)rank_of(next, i));
        json_real(report, "probability", probability(next, id));
        json_real(report, "logprob_nats", logit - next->distribution.log_sum);
        json_real(report, "logit", logit);
        json_real(report, "cumulative", cumulative);
        json_real(report, "after", next->after[id]);
        json_end_object(report);
    }
    json_end_array(report);
    json_object(report, "after");
    json_real(report, "temperature", (double)sampling->temperature);
    json_int(report, "top_k", (int64_t)sampling->top_k);
    json_real(report, "top_p", (double)sampling->top_p);
    json_real(report, "min_p", (double)sampling->min_p);
    json_int(report, "n_kept", (int64_t)next->n_kept);
    json_real(report, "mass", next->mass);
    json_real(report, "entropy_nats", next->entropy_of_kept);
    json_end_object(report);
}

static bool keeps_top_p(const SamplerOptions *sampling) { return sampling->top_p > 0 && sampling->top_p < 1; }

/* Whether the sampler's options change anything: without them "after" is the probability itself. */
static bool filters(const SamplerOptions *sampling) {
    return sampling->temperature != 1 || sampling->top_k > 0 || keeps_top_p(sampling) || sampling->min_p > 0;
}

/* Columns left for the bar: 0 where there is to be none. */
static size_t bar_width(const Report *report, bool after) {
    size_t row = ROW_WIDTH + (after ? AFTER_WIDTH : 0) + 2;
    return report->width > row ? at_most(report->width - row, BAR_WIDTH) : 0;
}

static void print_table(const Report *report, const Study *study, const Next *next) {
    bool after = filters(&next->sampling);
    size_t width = bar_width(report, after);
    double cumulative = 0;
    print_styled(report, STYLE_DIM, "p: probability of coming next; bits: -log2 p; sum: p down to here%s\n",
                 after ? "; after: p once filtered" : "");
    print_styled(report, STYLE_BOLD, " rank  token                    p    bits      logit       sum%s\n",
                 after ? "     after" : "");
    for (size_t i = 0; i < next->n_top; i++) {
        int32_t id = next->top[i];
        double p = probability(next, id), logit = (double)next->logits[id];
        cumulative += p;
        printf("%5zu  ", rank_of(next, i));
        print_token(report, study, id, 16);
        printf("  %7.3f%%  %6.2f  %9.3f  %7.3f%%", 100 * p,
               (next->distribution.log_sum - logit) * BITS_PER_NAT, logit, 100 * cumulative);
        if (after && next->after[id] > 0)
            printf("  %7.3f%%", 100 * next->after[id]);
        else if (after)
            printf("  %8s", "-");
        print_bar(report, p, width);
        putchar('\n');
    }
}

static void print_text(const Report *report, const Study *study, const Next *next) {
    const SamplerOptions *sampling = &next->sampling;
    double entropy = next->distribution.entropy;
    print_table(report, study, next);
    printf("\nentropy %.3f bits: as open as an even choice among %.1f of the %zu tokens\n",
           entropy * BITS_PER_NAT, exp(entropy), next->n_vocab);
    if (!filters(sampling)) {
        print_styled(report, STYLE_DIM,
                     "--temp, --top-k, --top-p, --min-p show what a sampler would leave of it\n");
        return;
    }
    fputs("after", stdout);
    if (sampling->temperature != 1) printf(" temperature %g,", (double)sampling->temperature);
    if (sampling->top_k > 0) printf(" top-k %zu,", sampling->top_k);
    if (keeps_top_p(sampling)) printf(" top-p %g,", (double)sampling->top_p);
    if (sampling->min_p > 0) printf(" min-p %g,", (double)sampling->min_p);
    printf(" %zu token%s may be drawn, with %.3f%% of p; entropy %.3f bits\n", next->n_kept,
           next->n_kept == 1 ? "" : "s", 100 * next->mass, next->entropy_of_kept * BITS_PER_NAT);
}

bool view_next(Study *study, Error *error) {
    const StudyOptions *options = study->options;
    Report *report = &study->report;
    Next next = {
        .n_vocab = model_config(study->model)->n_vocab,
        .n_top = study_top(study, TOP),
        .sampling = {.temperature = options->temp < 0 ? 1 : options->temp,
                     .top_k = (size_t)options->top_k,
                     .top_p = options->top_p,
                     .min_p = options->min_p,
                     .repeat_penalty = 1},
    };
    next.logits = floats_new(1, next.n_vocab);
    next.after = calloc(next.n_vocab, sizeof *next.after);
    next.top = calloc(next.n_top + 1, sizeof *next.top);
    bool ok = (next.logits && next.after && next.top) || error_set(error, "not enough memory for the logits");
    ok = ok && feed(study, &next, error);
    if (ok) {
        next.distribution = distribution_of(next.logits, next.n_vocab);
        next.n_top = logits_top(next.logits, next.n_vocab, next.n_top, next.top);
        ok = filter(&next, error);
    }
    if (ok) {
        report_open(report, study);
        if (report->json)
            print_json(report, study, &next);
        else
            print_text(report, study, &next);
        report_close(report);
    }
    free(next.logits);
    free(next.after);
    free(next.top);
    return ok;
}
