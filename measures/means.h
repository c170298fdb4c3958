/* The mean of some numbers, and how sure it is. */
#ifndef ATTN_MEANS_H
#define ATTN_MEANS_H

#include <stddef.h>

/* Starts as {0}. */
typedef struct Mean {
    size_t n;
    double sum, squares;
} Mean;

void mean_add(Mean *mean, double x);

/* NaN of none. */
double mean_value(const Mean *mean);

/* The standard error of it; NaN of fewer than two. */
double mean_error(const Mean *mean);

#endif
