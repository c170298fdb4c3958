#include "measures/metric.h"

#include "measures/difference.h"

#include <math.h>
#include <string.h>

const char *const metric_names[N_METRIC_KINDS] = {"logit_diff", "logit", "logprob", "nll", "kl"};

size_t metric_tokens(const Metric *metric, int32_t tokens[2]) {
    tokens[0] = metric->answer;
    tokens[1] = metric->wrong;
    return metric->kind == METRIC_LOGIT_DIFF ? 2 : metric->kind == METRIC_LOGIT ? 1 : 0;
}

double metric_of_tokens(const Metric *metric, const double logits[2]) {
    return metric->kind == METRIC_LOGIT_DIFF ? logits[0] - logits[1] : logits[0];
}

double metric_value(const Metric *metric, const float *logits) {
    int32_t tokens[2];
    size_t n = metric_tokens(metric, tokens);
    if (n > 0)
        return metric_of_tokens(metric, (double[]){(double)logits[tokens[0]], (double)logits[tokens[n - 1]]});
    if (metric->kind == METRIC_KL) return logits_kl(metric->reference, logits, metric->n_vocab);
    double surprisal = surprisal_of(logits, metric->answer, distribution_of(logits, metric->n_vocab).log_sum);
    return metric->kind == METRIC_NLL ? surprisal : -surprisal;
}

/* Logits become times·p. */
static void make_probabilities(float *logits, size_t n_vocab, double times) {
    double log_sum = distribution_of(logits, n_vocab).log_sum;
    for (size_t i = 0; i < n_vocab; i++) logits[i] = (float)(times * exp((double)logits[i] - log_sum));
}

static void add_to(float *logits, int32_t id, double x) { logits[id] = (float)((double)logits[id] + x); }

/* d KL(r ‖ p) / d z = p − r */
static void kl_gradient(const Metric *metric, double times, float *logits) {
    double log_sum = distribution_of(metric->reference, metric->n_vocab).log_sum;
    make_probabilities(logits, metric->n_vocab, times);
    for (size_t i = 0; i < metric->n_vocab; i++)
        add_to(logits, (int32_t)i, -times * exp((double)metric->reference[i] - log_sum));
}

void metric_gradient(const Metric *metric, double times, float *logits) {
    double sign = metric->kind == METRIC_NLL ? -1 : 1; /* of what the answer gets */
    switch (metric->kind) {
    case METRIC_KL: kl_gradient(metric, times, logits); return;
    case METRIC_LOGPROB:
    case METRIC_NLL: make_probabilities(logits, metric->n_vocab, -sign * times); break;
    default: memset(logits, 0, metric->n_vocab * sizeof *logits);
    }
    add_to(logits, metric->answer, sign * times);
    if (metric->kind == METRIC_LOGIT_DIFF) add_to(logits, metric->wrong, -times);
}
