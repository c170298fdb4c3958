#include "batch/choice.h"

#include "measures/distribution.h"
#include "sampler.h"

#include <stdlib.h>

bool choice_add(Choice *choice, int32_t id, bool foreseen, size_t n_top, const float *logits,
                size_t n_vocab) {
    size_t at = choice->n_predicted * (1 + n_top);
    choice->n_predicted++;
    if (!foreseen) return true;
    Foreseen *all = grow(choice->foreseen, sizeof *all, at + 1 + n_top, &choice->room);
    if (!all) return false;
    choice->foreseen = all;
    Foreseen *own = all + at, *top = own + 1;
    int32_t ids[MAX_TOP];
    *own = (Foreseen){id, sampler_logprob(logits, n_vocab, id)};
    logits_top(logits, n_vocab, n_top, ids);
    for (size_t i = 0; i < n_top; i++)
        top[i] = (Foreseen){ids[i], own->logprob + ((double)logits[ids[i]] - (double)logits[id])};
    return true;
}

void choice_free(Choice *choice) {
    free(choice->text.data);
    free(choice->foreseen);
    *choice = (Choice){0};
}
