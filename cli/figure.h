/* A grid of numbers as a figure for a paper: Scalable Vector Graphics 1.1. */
#ifndef ATTN_FIGURE_H
#define ATTN_FIGURE_H

#include "cli/report.h"

/* A label before a row, or above a column: a word of ours, a token, or one token of each of two texts. */
typedef struct FigureLabel {
    char word[24];        /* "": a token */
    int32_t token, other; /* other −1: there is none */
} FigureLabel;

typedef struct Figure {
    const Report *report;      /* whose tokens are shown */
    const char *title, *about; /* words of ours, safe in XML */
    size_t n_rows, n_cols;
    double most;    /* the number that has the full colour: > 0 */
    bool scale;     /* below the grid stands what the colours mean, numbers below 0 included */
    const char *to; /* between a row's label and a column's, where a cell is pointed at: XML */

    const void *user;
    FigureLabel (*label)(const void *user, bool is_col, size_t at);
    double (*value)(const void *user, size_t row, size_t col); /* NaN: nothing is drawn */
} Figure;

/* Rows downward, columns to the right. Whether all was written, only `file` knows. */
void figure_write(FILE *file, const Figure *figure);

#endif
