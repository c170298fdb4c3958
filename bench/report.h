/* Results as a table and as JSON. */
#ifndef ATTN_BENCH_REPORT_H
#define ATTN_BENCH_REPORT_H

#include "measure.h"

#include <stdio.h>

enum { MAX_ROWS = 64 };

typedef struct Results {
    const char *kernels;
    unsigned n_threads;
    double limits[N_PEAKS]; /* bytes or operations a second, at the start; 0: the CPU cannot do that */
    Row rows[MAX_ROWS];
    size_t n_rows;
} Results;

/* The table's parts, as they become known: the machine's limits, then the last row, under a header if it needs one. */
void print_limits(const Results *results);
void print_last_row(const Results *results);

/* Rates in bytes or operations a second; null: not known. */
void write_json(FILE *file, const Results *results);

#endif
