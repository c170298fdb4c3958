#include "measures/surprisal.h"

#include <math.h>

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
