/* One pair of texts after another, from the command line or a file, with the metric that each is held by. */
#ifndef ATTN_PAIRLOOP_H
#define ATTN_PAIRLOOP_H

#include "measures/effectsums.h"
#include "measures/metric.h"
#include "views/pairs.h"

/* Starts as {0}, but for the caller's fields. */
typedef struct PairLoop {
    const PairOptions *options;
    const char
        *metric_name; /* of --metric, or NULL: a difference where there is a wrong answer, else logprob */
    bool in_bits;     /* people are shown a logprob in bits; else all is in nats, and said so */

    Study *study;
    Pairs pairs;
    Metric metric; /* of the pair under way */
    bool has_metric;
    size_t n_pairs, n_left_out, n_cut; /* n_cut: of n_pairs, with answers of several tokens */
    Error left_out;                    /* why the first was */
    size_t n_tokens;                   /* of the pair under way */
    bool unfit;                        /* of it, as its run may say with an error: of many it is left out */
    int32_t *corrupted;                /* [n_tokens] of a single pair, or NULL */
    EffectSums clean, corrupted_sums;  /* the metric of both runs, as the caller tells by pairloop_note */
} PairLoop;

/*
 * Whether --metric (or NULL) names one, and the options of a single pair have the answers that it takes, and no others: for a
 * view's `check`, behind pairs_check.
 */
bool metric_check(const char *name, const PairOptions *options, Error *error);

/* Runs one pair; the arena is the pair's alone. */
typedef bool PairRun(void *user, const Pair *pair, Arena *arena, Error *error);

/* Runs all; errors of a file name the line. Call pairloop_free in any case. */
bool pairloop_run(PairLoop *loop, Study *study, PairRun *run, void *user, Error *error);
void pairloop_free(PairLoop *loop);

/* Tells the metric of both runs of the pair under way, which is then done. */
void pairloop_note(PairLoop *loop, double clean, double corrupted);

/* Members "metric", "corrupted_tokens", "answer", "wrong", "n_pairs", "n_left_out", "left_out", "n_cut", "clean_nats", "corrupted_nats". */
void pairloop_json(Report *report, const PairLoop *loop);

/* For people: which metric, and its values; and behind all else, which pairs were left out. */
void pairloop_print(Report *report, const PairLoop *loop);
void pairloop_print_notes(Report *report, const PairLoop *loop);

#endif
