/*
 * A word in several sentences: its residual stream in each, entering every layer and leaving the last, and how alike the
 * sentences make it: cosines of pairs (as Ethayarajh 2019, arXiv:1909.00512, compares a word's contexts). A word of
 * several tokens stands for its last, which has seen the others.
 */
#ifndef ATTN_MEANING_H
#define ATTN_MEANING_H

#include "measures/subject.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Sentence {
    const char *text; /* [n_bytes] borrowed */
    size_t n_bytes;
    size_t begin, n_tokens; /* its tokens among the subject's, BOS included */
    bool bos;               /* it begins with one */
    WordPlace word;         /* counted from `begin` */
} Sentence;

typedef struct Meaning {
    /* The caller's: sentences whose tokens lie end to end in the subject, each with its word. */
    const Subject *subject;
    Sentence *sentences; /* [n_sentences] 2 and up */
    size_t n_sentences;
    bool centred; /* the mean over all positions of the sentences is subtracted; a BOS does not count */

    size_t n_rows, n_pairs, d_model; /* rows: streams entering each layer, and leaving the last */
    size_t n_positions;              /* that the mean is over */
    float *streams;                  /* [n_rows][n_sentences][d_model] of the words */
    double *means;                   /* [n_rows][d_model] */
    double *cosines;                 /* [n_rows][n_pairs] of sentences (0, 1), (0, 2) … (1, 2) … */

    size_t under_way; /* the sentence that the probe looks at */
    Session *session; /* of the last one */
} Meaning;

/* Feeds all sentences and fills what stands behind `centred`. Call meaning_free in any case. */
bool meaning_measure(Meaning *meaning, Arena *arena, Error *error);
void meaning_free(Meaning *meaning);

/* A token near a stream: its probability under the logit lens, or the cosine with its embedding. */
typedef struct NearToken {
    int32_t id;
    double share;
} NearToken;

/*
 * The n tokens that a row's stream of a sentence would predict if it left the model there (the logit lens), and those whose
 * embeddings have the largest cosine with it; from that the mean is subtracted if `centred` is set.
 */
bool meaning_near(const Meaning *meaning, Arena *arena, size_t row, size_t sentence, size_t n,
                  NearToken *predicted, NearToken *embedded, Error *error);

#endif
