/*
 * Effects over pairs of texts: of each pair how far a change moved the metric, and how far it could have. The mean effect
 * is the one sum divided by the other, so that a pair in which there is little to move counts little.
 */
#ifndef ATTN_EFFECTSUMS_H
#define ATTN_EFFECTSUMS_H

#include <stddef.h>

/* Sums over pairs. Starts as {0}. */
typedef struct EffectSums {
    size_t n;
    double moved, moved_squares;   /* metric − metric of corrupted */
    double whole, whole_squares;   /* metric of clean − metric of corrupted */
    double products;               /* moved·whole */
    double metric, metric_squares; /* itself */
} EffectSums;

void effect_add(EffectSums *sums, double metric, double clean, double corrupted);

/* Σ moved / Σ whole; and its standard error, to first order (that of moved − effect·whole): NaN for a single pair. */
double effect_mean(const EffectSums *sums);
double effect_error(const EffectSums *sums);

/* The metric's mean, and its standard error, likewise. */
double effect_metric(const EffectSums *sums);
double effect_metric_error(const EffectSums *sums);

#endif
