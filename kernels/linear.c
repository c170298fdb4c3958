/*
 * y = W·x + bias for several matrices at once. The rows of all of them, laid end to end, are one loop:
 * a piece of it is cut where one matrix ends and the next begins.
 */
#include "kernels.h"

enum {
    ROW_TILE = 8,            /* rows that the kernel sets take at once; pieces are multiples of it */
    PIECES_PER_WORKER = 4,   /* so that one slow worker holds the others up by little */
    MAX_PIECE_ROWS = 128,    /* so that a piece's part of y stays in cache while a chunk of tokens passes */
    MIN_PIECE_MADDS = 16384, /* multiply-adds worth the trouble of dealing them: a few µs */
};

typedef struct LinearLoop {
    const Kernels *kernels;
    const LinearOutput *outputs;
    size_t n_outputs;
    const float *x;
    size_t n;
} LinearLoop;

static void linear_rows(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const LinearLoop *loop = context;
    size_t first = 0; /* where the rows of output i begin in the loop */
    for (size_t i = 0; i < loop->n_outputs && first < end; i++) {
        const Linear *linear = loop->outputs[i].linear;
        size_t rows = linear->w.rows;
        if (begin < first + rows) {
            size_t row_begin = begin > first ? begin - first : 0;
            size_t row_end = end < first + rows ? end - first : rows;
            loop->kernels->matmul(loop->outputs[i].y, rows, &linear->w, linear->bias, row_begin, row_end,
                                  loop->x, linear->w.cols, loop->n);
        }
        first += rows;
    }
}

static size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

void linear_forward(const Compute *compute, const LinearOutput *outputs, size_t n_outputs, const float *x,
                    size_t n) {
    LinearLoop loop = {compute->kernels, outputs, n_outputs, x, n};
    size_t rows = 0;
    for (size_t i = 0; i < n_outputs; i++) rows += outputs[i].linear->w.rows;
    if (rows == 0 || n == 0) return;

    size_t row_madds = outputs[0].linear->w.cols * n + 1;
    size_t grain = rows / (PIECES_PER_WORKER * threads_count(compute->threads));
    if (grain > MAX_PIECE_ROWS) grain = MAX_PIECE_ROWS;
    if (grain < MIN_PIECE_MADDS / row_madds) grain = MIN_PIECE_MADDS / row_madds;
    parallel_for(compute->threads, rows, round_up(grain + !grain, ROW_TILE), linear_rows, &loop);
}
