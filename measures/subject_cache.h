/*
 * This stays from one subject to the next of the same model, so that a text which grows, or is asked about again, is not
 * computed anew: a session that still holds the text, the residual stream that ablations begin from, and what depends on
 * the weights alone. Measures find it in their Subject (subject_resume, subject_streams), and give the same numbers
 * without it but for the last bits: a head that was watched rounds differently (probe.h).
 */
#ifndef ATTN_SUBJECT_CACHE_H
#define ATTN_SUBJECT_CACHE_H

#include "measures/arena.h"
#include "model.h"

/* Starts as {0}. One subject at a time uses it. Its size follows the longest text. */
typedef struct SubjectCache {
    Session *session; /* its cache is whole; NULL: none yet, or it has been taken */
    DType kv_dtype;   /* of its cache */

    bool keeps_streams;  /* someone has asked for them */
    float *streams;      /* [n_layer + 1][n_ctx of the session][d_model]; or NULL */
    Probe probe;         /* takes them in while … */
    const Probe *looker; /* … this one looks, or NULL */
    size_t n_layer, n_ctx;

    Session *ablated; /* the text without some parts, with as much room; NULL: none, or it has been taken */
    int32_t *ablated_ids; /* [n_ctx] its tokens */
    float *
        ablated_factors; /* [n_layer·(n_head + 1)] of these parts (ablation.h), and −1 of those that are as they were */

    float **roots;     /* [n_layer·n_head] of outputnorms.h, those that were asked for; or NULL */
    size_t root_bytes; /* what they take */
    Arena weights;     /* holds them */
} SubjectCache;

/* Frees what is kept; it may be used again. */
void subject_cache_free(SubjectCache *cache);

#endif
