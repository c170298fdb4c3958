/*
 * Reads a metric off vectors that leave the last layer: the final norm, and of the unembedding the rows of those tokens
 * alone whose logits the metric depends on, which is two rows of some fifty thousand where it is a difference of two.
 */
#ifndef ATTN_READOUT_H
#define ATTN_READOUT_H

#include "measures/metric.h"
#include "measures/subject.h"

typedef struct Readout {
    const Subject *subject;
    Metric metric;
    int32_t tokens[2];
    size_t n_tokens; /* 0: all logits are made */
    float *rows;     /* [n_tokens][d_model] of the unembedding */
    float *normed;   /* [d_model] */
    float *logits;   /* [PACKED_TOKENS][n_vocab], where all are made */
    bool alike;      /* readout_check found both runs' values the same */
} Readout;

bool readout_begin(Readout *readout, const Subject *subject, const Metric *metric, Arena *arena,
                   Error *error);

/* The metric of each of n vectors [n][d_model]; any session of the subject will do. */
void readout_values(const Readout *readout, const Session *session, const float *resid, size_t n,
                    double *values);

/*
 * Whether the metric's values of two runs are numbers, and not the same but for rounding (then it is alike): else nothing
 * tells one from the other.
 */
bool readout_check(Readout *readout, const double values[2], Error *error);

#endif
