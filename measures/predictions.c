#include "measures/predictions.h"

#include <math.h>
#include <string.h>

bool predictions_begin(Predictions *predictions, const Subject *subject, Arena *arena, size_t n_top,
                       Error *error) {
    size_t n = subject->tokens.n, n_vocab = model_config(subject->model)->n_vocab;
    *predictions = (Predictions){
        .subject = subject,
        .n_vocab = n_vocab,
        .n_top = n_top,
        .end = n,
        .items = arena_new(arena, n, sizeof *predictions->items),
        .top = arena_new(arena, n, (n_top + 1) * sizeof *predictions->top),
        .top_logits = arena_new(arena, n, (n_top + 1) * sizeof *predictions->top_logits),
        .others = arena_new(arena, n_vocab, sizeof *predictions->others),
    };
    return arena_ok(arena, error, "the predictions after %zu tokens", n);
}

typedef struct RestLoop {
    const Predictions *predictions;
    float max, largest; /* of all logits, and of the others */
    double *rest;       /* [N_TEMPERATURES] */
} RestLoop;

/* The sum is taken relative to the largest of the others: relative to the largest of all, its terms may be 0 as floats. */
static void sum_rest(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const RestLoop *loop = context;
    const Predictions *predictions = loop->predictions;
    for (size_t j = begin; j < end; j++) {
        float temperature = TEMPERATURE_STEP * (float)(j + 1);
        double sum = sum_of_exp(predictions->subject->compute.kernels, predictions->others,
                                predictions->n_vocab, loop->largest, temperature);
        loop->rest[j] = isinf(loop->largest) /* there are no others */
                            ? -INFINITY
                            : (double)((loop->largest - loop->max) / temperature) + log(sum);
    }
}

/* Logits at a position are the prediction of the token after it. */
void predictions_add(void *user, size_t position, const float *logits) {
    Predictions *predictions = user;
    const Subject *subject = predictions->subject;
    size_t n_vocab = predictions->n_vocab, n_top = predictions->n_top;
    Prediction *item = &predictions->items[position];
    int32_t *top = predictions->top + position * n_top;
    Distribution distribution = distribution_of(logits, n_vocab);
    item->log_sum = distribution.log_sum;
    item->entropy = distribution.entropy;

    logits_top(logits, n_vocab, n_top, top);
    memcpy(predictions->others, logits, n_vocab * sizeof *logits);
    for (size_t i = 0; i < n_top; i++) {
        predictions->top_logits[position * n_top + i] = logits[top[i]];
        predictions->others[top[i]] = -INFINITY;
    }
    float largest = subject->compute.kernels->max(predictions->others, n_vocab);
    RestLoop loop = {predictions, (float)distribution.max, largest, item->rest};
    parallel_for(subject->compute.threads, N_TEMPERATURES, 1, sum_rest, &loop);

    if (position + 1 >= predictions->end) return;
    int32_t id = subject->tokens.ids[position + 1];
    TokenScore score = token_score(&distribution, logits, n_vocab, id);
    item->surprisal = score.surprisal;
    item->rank = score.rank;
    totals_add(&predictions->totals, &score, tokenizer_piece(subject->tokenizer, id, false).n);
}
