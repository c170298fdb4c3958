/*
 * y = W·x + bias for several matrices at once. The rows of all of them, laid end to end, are one loop:
 * a piece of it is cut where one matrix ends and the next begins. Each dtype may want x packed in another way,
 * so where several come together each has a loop of its own.
 */
#include "kernels.h"

enum {
    ROW_TILE = 32,           /* a multiple of the rows that any kernel set takes at once; pieces are, too */
    PIECES_PER_WORKER = 4,   /* so that one slow worker holds the others up by little */
    MAX_PIECE_ROWS = 256,    /* so that a piece's part of y stays in cache while a chunk of tokens passes */
    MIN_PIECE_MADDS = 16384, /* multiply-adds worth the trouble of dealing them: a few µs */
};

typedef struct LinearLoop {
    const Compute *compute;
    const LinearOutput *outputs;
    size_t n_outputs;
    DType dtype;    /* which of the outputs this loop is about */
    const float *x; /* [n][cols] */
    size_t n, cols;
    size_t token; /* where in each y the first of the n goes */
} LinearLoop;

static DType dtype_of(const LinearOutput *output) { return output->linear->w.dtype; }

static bool belongs(const LinearLoop *loop, size_t i) { return dtype_of(&loop->outputs[i]) == loop->dtype; }

static void pack_groups(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const LinearLoop *loop = context;
    for (size_t g = begin; g < end; g++)
        loop->compute->kernels->pack(loop->compute->packed, loop->dtype, loop->x, loop->n, loop->cols, g);
}

static bool few_tokens(const LinearLoop *loop) {
    return loop->n <= loop->compute->kernels->matvec_tokens(loop->dtype);
}

/* What the loop counts of an output: its rows, or for a few tokens the steps of its matvec. */
static size_t count_rows(const LinearLoop *loop, size_t i) {
    size_t rows = loop->outputs[i].linear->w.rows;
    return few_tokens(loop) ? matvec_rows(rows) : rows;
}

static void linear_rows(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const LinearLoop *loop = context;
    const Kernels *kernels = loop->compute->kernels;
    const void *packed = loop->compute->packed;
    size_t first = 0; /* where the rows of output i begin in the loop */
    for (size_t i = 0; i < loop->n_outputs && first < end; i++) {
        const Linear *linear = loop->outputs[i].linear;
        float *y = loop->outputs[i].y + loop->token * linear->w.rows;
        if (!belongs(loop, i)) continue;
        size_t rows = count_rows(loop, i);
        if (begin < first + rows) {
            size_t row_begin = begin > first ? begin - first : 0;
            size_t row_end = end < first + rows ? end - first : rows;
            (few_tokens(loop) ? kernels->matvec : kernels->matmul)(
                y, linear->w.rows, &linear->w, linear->bias, row_begin, row_end, packed, loop->n);
        }
        first += rows;
    }
}

static size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

static void run_loop(LinearLoop *loop) {
    Threads *threads = loop->compute->threads;
    size_t rows = 0, group = loop->compute->kernels->group;
    for (size_t i = 0; i < loop->n_outputs; i++)
        if (belongs(loop, i)) rows += count_rows(loop, i);

    parallel_for(threads, (loop->n + group - 1) / group, 1, pack_groups, loop);

    size_t row_madds = loop->cols * loop->n * (few_tokens(loop) ? MATVEC_STREAMS : 1) + 1;
    size_t step = few_tokens(loop) ? 1 : ROW_TILE, n_workers = threads_count(threads);
    size_t pieces = round_up(rows / MAX_PIECE_ROWS + 1, n_workers); /* as many for each worker */
    if (pieces < PIECES_PER_WORKER * n_workers) pieces = PIECES_PER_WORKER * n_workers;
    size_t grain = rows / pieces;
    if (grain < MIN_PIECE_MADDS / row_madds) grain = MIN_PIECE_MADDS / row_madds;
    parallel_for(threads, rows, grain > step ? grain / step * step : step, linear_rows, loop);
}

void linear_forward(const Compute *compute, const LinearOutput *outputs, size_t n_outputs, const float *x,
                    size_t n) {
    size_t cols = outputs[0].linear->w.cols;
    size_t most = cols ? compute->n_packed / cols : n; /* tokens that the scratch has room for */
    for (size_t token = 0, m; token < n; token += m) {
        m = n - token < most ? n - token : most;
        for (size_t i = 0; i < n_outputs; i++) {
            size_t first = 0; /* output of this dtype */
            while (dtype_of(&outputs[first]) != dtype_of(&outputs[i])) first++;
            if (first == i)
                run_loop(&(LinearLoop){compute, outputs, n_outputs, dtype_of(&outputs[i]), x + token * cols,
                                       m, cols, token});
        }
    }
}
