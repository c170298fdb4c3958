#include "batch/choice.h"

#include "sampler.h"

#include <stdlib.h>

/* Writes the n likeliest tokens, the lower id first of two alike; n ≤ n_vocab. */
static void find_top(Foreseen *top, size_t n, const float *logits, size_t n_vocab) {
    size_t found = 0;
    for (size_t id = 0; id < n_vocab; id++) {
        if (found == n && (n == 0 || logits[id] <= logits[top[n - 1].id])) continue;
        size_t at = found < n ? found++ : n - 1;
        for (; at > 0 && logits[id] > logits[top[at - 1].id]; at--) top[at] = top[at - 1];
        top[at].id = (int32_t)id;
    }
}

bool choice_add(Choice *choice, int32_t id, bool foreseen, size_t n_top, const float *logits,
                size_t n_vocab) {
    size_t at = choice->n_predicted * (1 + n_top);
    choice->n_predicted++;
    if (!foreseen) return true;
    Foreseen *all = grow(choice->foreseen, sizeof *all, at + 1 + n_top, &choice->room);
    if (!all) return false;
    choice->foreseen = all;
    Foreseen *own = all + at, *top = own + 1;
    *own = (Foreseen){id, sampler_logprob(logits, n_vocab, id)};
    find_top(top, n_top, logits, n_vocab);
    for (size_t i = 0; i < n_top; i++)
        top[i].logprob = own->logprob + ((double)logits[top[i].id] - (double)logits[id]);
    return true;
}

void choice_free(Choice *choice) {
    free(choice->text.data);
    free(choice->foreseen);
    *choice = (Choice){0};
}
