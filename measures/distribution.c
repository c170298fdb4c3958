#include "measures/distribution.h"

#include <math.h>

double vector_norm(const float *x, size_t n) {
    double squares[8] = {0}, square = 0; /* side by side: a sum alone waits for itself */
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t j = 0; j < 8; j++) squares[j] += (double)x[i + j] * (double)x[i + j];
    for (; i < n; i++) square += (double)x[i] * (double)x[i];
    for (size_t j = 0; j < 8; j++) square += squares[j];
    return sqrt(square);
}

double vector_dot(const float *x, const float *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

Distribution distribution_of(const float *logits, size_t n_vocab) {
    Distribution d = {.max = (double)logits[0]};
    for (size_t i = 1; i < n_vocab; i++)
        if ((double)logits[i] > d.max) d.max = (double)logits[i], d.best = (int32_t)i;
    /* With e_i = exp(x_i − max): H = ln Σe − Σ e·(x − max) / Σe. */
    double sum = 0, weighted = 0;
    for (size_t i = 0; i < n_vocab; i++) {
        double x = (double)logits[i] - d.max, e = exp(x);
        sum += e;
        if (e > 0) weighted += e * x;
    }
    d.log_sum = d.max + log(sum);
    d.entropy = log(sum) - weighted / sum;
    return d;
}

double surprisal_of(const float *logits, int32_t id, double log_sum) { return log_sum - (double)logits[id]; }

double probability_of(const float *logits, int32_t id, double log_sum) {
    return exp(-surprisal_of(logits, id, log_sum));
}

double sum_of_exp(const Kernels *kernels, const float *logits, size_t n_vocab, float max, float temperature) {
    enum { BLOCK = 512 };
    double sum = 0;
    for (size_t begin = 0, n; begin < n_vocab; begin += n) {
        float x[BLOCK];
        n = n_vocab - begin < BLOCK ? n_vocab - begin : BLOCK;
        for (size_t i = 0; i < n; i++) x[i] = (logits[begin + i] - max) / temperature;
        sum += (double)kernels->exp_sum(x, 0, n);
    }
    return sum;
}

size_t logits_rank(const float *logits, size_t n_vocab, int32_t id) {
    size_t rank = 1;
    for (size_t i = 0; i < n_vocab; i++) rank += logits[i] > logits[id];
    return rank;
}

/*
 * The k largest of n values, of either type. The least of those found so far stands last; k is a handful, so a new one
 * is inserted in its place.
 */
#define DEFINE_TOP(name, Value, Place)                                                                       \
    size_t name(const Value *values, size_t n, size_t k, Place *places) {                                    \
        size_t found = 0;                                                                                    \
        for (size_t i = 0; k > 0 && i < n; i++) {                                                            \
            if (found == k && !(values[i] > values[places[k - 1]])) continue;                                \
            size_t at = found < k ? found++ : k - 1;                                                         \
            for (; at > 0 && values[i] > values[places[at - 1]]; at--) places[at] = places[at - 1];          \
            places[at] = (Place)i;                                                                           \
        }                                                                                                    \
        return found;                                                                                        \
    }

DEFINE_TOP(logits_top, float, int32_t)
DEFINE_TOP(largest_of, double, size_t)

TokenScore token_score(const Distribution *expected, const float *logits, size_t n_vocab, int32_t id) {
    return (TokenScore){.surprisal = surprisal_of(logits, id, expected->log_sum),
                        .entropy = expected->entropy,
                        .rank = logits_rank(logits, n_vocab, id),
                        .best = expected->best == id};
}

void totals_add(Totals *totals, const TokenScore *score, size_t n_bytes) {
    totals->n++;
    totals->sum += score->surprisal;
    totals->sum_of_squares += score->surprisal * score->surprisal;
    totals->n_best += score->best;
    totals->n_bytes += n_bytes;
}

TextScore text_score(const Totals *totals) {
    double n = (double)totals->n, mean = totals->sum / n, perplexity = exp(mean);
    double variance = totals->sum_of_squares / n - mean * mean;
    return (TextScore){
        .n = totals->n,
        .n_bytes = totals->n_bytes,
        .nll = mean,
        .perplexity = perplexity,
        .perplexity_error = totals->n < 2 ? NAN : perplexity * sqrt(fmax(variance, 0) / (n - 1)),
        .bits_per_byte = totals->n_bytes ? totals->sum * BITS_PER_NAT / (double)totals->n_bytes : NAN,
        .top1_accuracy = (double)totals->n_best / n,
    };
}
