#include "views/pairloop.h"

#include "cli/process.h"

#include <stdio.h>
#include <string.h>

bool metric_check(const char *name, const PairOptions *options, Error *error) {
    size_t kind;
    if (!parse_choice("--metric", name, metric_names, METRIC_LOGPROB + 1, &kind, error)) return false;
    if (!name || options->file) return true;
    if (kind == METRIC_LOGIT_DIFF)
        return options->wrong ||
               error_set(error, "--metric logit_diff takes a wrong answer: give it with --wrong");
    return !options->wrong || error_set(error, "--metric %s is of the answer alone: leave out --wrong", name);
}

static bool choose_metric(PairLoop *loop, const Pair *pair, Error *error) {
    bool has_wrong = pair->wrong >= 0;
    size_t kind;
    parse_choice("--metric", loop->metric_name, metric_names, METRIC_LOGPROB + 1, &kind,
                 error); /* as metric_check did */
    if (!loop->metric_name) kind = has_wrong ? METRIC_LOGIT_DIFF : METRIC_LOGPROB;
    if (!loop->has_metric) loop->metric.kind = (MetricKind)kind;
    loop->has_metric = true;
    loop->metric.answer = pair->answer;
    loop->metric.wrong = pair->wrong;
    loop->metric.n_vocab = model_config(loop->study->model)->n_vocab;
    return has_wrong || loop->metric.kind != METRIC_LOGIT_DIFF ||
           error_set(error, "there is no \"wrong\", which the metric takes");
}

static bool keep_corrupted(PairLoop *loop, const Tokens *tokens, Error *error) {
    loop->corrupted = arena_new(&loop->study->arena, tokens->n, sizeof *loop->corrupted);
    if (!arena_ok(&loop->study->arena, error, "%zu tokens", tokens->n)) return false;
    memcpy(loop->corrupted, tokens->ids, tokens->n * sizeof *tokens->ids);
    return true;
}

/* Of many the pair under way is left out, and why is kept of the first; a single one is an error. */
static bool leave_out(PairLoop *loop, const Error *why, Error *error) {
    if (!loop->options->file) return error_set(error, "%s", why->message);
    if (loop->n_left_out++ == 0)
        error_set(&loop->left_out, "line %zu: %s", loop->pairs.pair.line, why->message);
    return true;
}

static bool run_pair(PairLoop *loop, PairRun *run, void *user, Error *error) {
    const Pair *pair = &loop->pairs.pair;
    bool single = !loop->options->file;
    Arena arena = {0};
    Error why;
    if (!pair_fits(&loop->pairs, pair, &why)) return leave_out(loop, &why, error);
    loop->n_tokens = pair->clean.n;
    loop->unfit = false;
    bool ok = choose_metric(loop, pair, error) &&
              (!single || keep_corrupted(loop, &pair->corrupted, error)) && run(user, pair, &arena, error);
    arena_free(&arena);
    if (ok || single || interrupted()) return ok;
    error_set(&why, "%s", error->message);
    if (loop->unfit) return leave_out(loop, &why, error);
    return error_set(error, "%s: line %zu: %s", loop->options->file, pair->line, why.message);
}

static bool stops(void *user) {
    (void)user;
    return interrupted();
}

bool pairloop_run(PairLoop *loop, Study *study, PairRun *run, void *user, Error *error) {
    loop->study = study;
    if (!study->subject.stop) study->subject.stop = stops;
    if (!pairs_open(&loop->pairs, study, loop->options, error)) return false;
    for (bool ends = false;;) {
        if (!pairs_next(&loop->pairs, &ends, error)) return false;
        if (ends) break;
        if (!run_pair(loop, run, user, error)) return false;
    }
    if (loop->n_pairs > 0) return true;
    return loop->n_left_out ? error_set(error, "%s: none of the %zu pairs fits; %s", loop->options->file,
                                        loop->n_left_out, loop->left_out.message)
                            : error_set(error, "%s: holds no pairs", loop->options->file);
}

void pairloop_free(PairLoop *loop) { pairs_close(&loop->pairs); }

void pairloop_note(PairLoop *loop, double clean, double corrupted) {
    effect_add(&loop->clean, clean, clean, corrupted);
    effect_add(&loop->corrupted_sums, corrupted, clean, corrupted);
    loop->n_cut += loop->pairs.pair.cut;
    loop->n_pairs++;
}

void pairloop_json(Report *report, const PairLoop *loop) {
    json_text(report, "metric", metric_names[loop->metric.kind], SIZE_MAX);
    if (!loop->options->file) {
        json_array(report, "corrupted_tokens");
        for (size_t i = 0; i < loop->n_tokens; i++) {
            json_object(report, NULL);
            json_token(report, loop->corrupted[i]);
            json_end_object(report);
        }
        json_end_array(report);
        json_token_or_null(report, "answer", loop->metric.answer);
        json_token_or_null(report, "wrong", loop->metric.wrong);
    }
    json_int(report, "n_pairs", (int64_t)loop->n_pairs);
    json_int(report, "n_left_out", (int64_t)loop->n_left_out);
    if (loop->n_left_out > 0) json_text(report, "left_out", loop->left_out.message, SIZE_MAX);
    json_int(report, "n_cut", (int64_t)loop->n_cut);
    json_real(report, "clean_nats", effect_metric(&loop->clean));
    json_real(report, "corrupted_nats", effect_metric(&loop->corrupted_sums));
}

void pairloop_print(Report *report, const PairLoop *loop) {
    static const char *const of_many[] = {"logit of the answer less that of the wrong one",
                                          "logit of the answer"};
    bool is_log = loop->metric.kind == METRIC_LOGPROB, bits = loop->in_bits;
    double unit = is_log && bits ? BITS_PER_NAT : 1;
    fputs(bits ? "metric: " : "metric, in nats: ", stdout);
    if (loop->options->file) {
        printf("%s; mean of %zu pair%s\n",
               !is_log ? of_many[loop->metric.kind]
               : bits  ? "log-probability of the answer, in bits"
                       : "ln of the answer's probability",
               loop->n_pairs, loop->n_pairs == 1 ? "" : "s");
    } else {
        printf(!is_log ? "logit of " : bits ? "log2 of the probability of " : "ln of the probability of ");
        print_token(report, loop->metric.answer, 0);
        if (loop->metric.kind == METRIC_LOGIT_DIFF) {
            fputs(" less that of ", stdout);
            print_token(report, loop->metric.wrong, 0);
        }
        fputs(", after the last token\n", stdout);
    }
    printf("clean %+.4f, corrupted %+.4f\n", unit * effect_metric(&loop->clean),
           unit * effect_metric(&loop->corrupted_sums));
}

void pairloop_print_notes(Report *report, const PairLoop *loop) {
    if (loop->n_cut)
        printf("%zu pair%s an answer of several tokens: the first of them is taken\n", loop->n_cut,
               loop->n_cut == 1 ? " has" : "s have");
    if (!loop->n_left_out) return;
    printf("%zu pair%s left out; %s\n", loop->n_left_out, loop->n_left_out == 1 ? "" : "s",
           loop->n_left_out == 1 ? "it does not fit:" : "the first:");
    print_wrapped(report, loop->left_out.message, strlen(loop->left_out.message));
    putchar('\n');
}
