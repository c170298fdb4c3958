/*
 * y = W·x + bias for several matrices at once. The rows of all of them, laid end to end, are one loop. A piece of it is
 * cut where one matrix ends and the next begins. Each dtype may want x packed in another way, so each has a loop of its
 * own.
 */
#include "kernels.h"

enum {
    ROW_STEP = 32,           /* a multiple of the rows that any kernel set takes at once; pieces are, too */
    PIECES_PER_WORKER = 4,   /* so that one slow worker hardly holds the others up */
    MAX_PIECE_ROWS = 256,    /* so that a piece's part of y stays in cache while a chunk of tokens passes */
    MIN_PIECE_MADDS = 16384, /* multiply-adds worth the trouble of dealing them: a few µs */
};

typedef struct LinearLoop {
    const Compute *compute;
    const LinearOutput *outputs;
    size_t n_outputs;
    DType dtype; /* which of the outputs this loop is about */
    const Product *product;
    const float *x; /* [n][cols] */
    size_t n, cols;
    size_t token;                  /* where in each y the first of the n goes */
    size_t rows, grain, n_workers; /* of all its outputs; rows of a piece */
} LinearLoop;

static DType dtype_of(const LinearOutput *output) { return output->linear->w.dtype; }

static bool belongs(const LinearLoop *loop, size_t i) { return dtype_of(&loop->outputs[i]) == loop->dtype; }

static void pack_loop_tokens(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const LinearLoop *loop = context;
    for (size_t i = begin; i < end; i++)
        loop->product->pack(loop->compute->packed, loop->dtype, loop->x, loop->n, loop->cols, i);
}

/* Rows [begin, end) of the loop; the last piece may end beyond them all. */
static void linear_rows(const LinearLoop *loop, size_t begin, size_t end) {
    size_t first = 0; /* where the rows of output i begin in the loop */
    for (size_t i = 0; i < loop->n_outputs && first < end; i++) {
        const Linear *linear = loop->outputs[i].linear;
        const size_t rows = linear->w.rows;
        if (!belongs(loop, i)) continue;
        if (begin < first + rows)
            loop->product->multiply(loop->outputs[i].y + loop->token * rows, rows, &linear->w, linear->bias,
                                    begin > first ? begin - first : 0,
                                    end < first + rows ? end - first : rows, loop->compute->packed, loop->n);
        first += rows;
    }
}

static size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

static size_t count_pieces(const LinearLoop *loop) { return (loop->rows + loop->grain - 1) / loop->grain; }

/*
 * Workers that take turns go each through a part of its own, from its first piece to its last, because what a piece fetches
 * ahead is then what its worker wants next.
 */
static size_t piece_of_turn(const LinearLoop *loop, size_t turn) {
    size_t part = count_pieces(loop) / loop->n_workers;
    if (turn >= part * loop->n_workers) return turn;
    return turn % loop->n_workers * part + turn / loop->n_workers;
}

static void linear_turns(void *context, size_t turn, size_t end, unsigned worker) {
    (void)worker;
    const LinearLoop *loop = context;
    for (; turn < end; turn++) {
        size_t first = piece_of_turn(loop, turn) * loop->grain;
        linear_rows(loop, first, first + loop->grain);
    }
}

static void run_loop(LinearLoop *loop) {
    Threads *threads = loop->compute->threads;
    size_t pack_tokens = loop->product->pack_tokens, n_workers = threads_count(threads);
    for (size_t i = 0; i < loop->n_outputs; i++)
        if (belongs(loop, i)) loop->rows += loop->outputs[i].linear->w.rows;

    parallel_for(threads, (loop->n + pack_tokens - 1) / pack_tokens, 1, pack_loop_tokens, loop);

    size_t pieces = round_up(loop->rows / MAX_PIECE_ROWS + 1, n_workers); /* as many for each worker */
    if (pieces < PIECES_PER_WORKER * n_workers) pieces = PIECES_PER_WORKER * n_workers;
    size_t grain = loop->rows / pieces, least = MIN_PIECE_MADDS / (loop->cols * loop->n + 1);
    if (grain < least) grain = least;
    loop->grain = grain > ROW_STEP ? grain / ROW_STEP * ROW_STEP : ROW_STEP;
    loop->n_workers = n_workers;
    parallel_for(threads, count_pieces(loop), 1, linear_turns, loop);
}

void linear_forward(const Compute *compute, const LinearOutput *outputs, size_t n_outputs, const float *x,
                    size_t n) {
    size_t cols = outputs[0].linear->w.cols;
    size_t most = /* tokens that the scratch has room for */
        cols ? compute->n_packed / cols / PACKED_TOKENS * PACKED_TOKENS : n;
    for (size_t token = 0, m; token < n; token += m) {
        m = n - token < most ? n - token : most;
        for (size_t i = 0; i < n_outputs; i++) {
            size_t first = 0; /* output of this dtype */
            DType dtype = dtype_of(&outputs[i]);
            while (dtype_of(&outputs[first]) != dtype) first++;
            if (first == i)
                run_loop(&(LinearLoop){.compute = compute,
                                       .outputs = outputs,
                                       .n_outputs = n_outputs,
                                       .dtype = dtype,
                                       .product = kernels_product(compute->kernels, dtype, m, cols),
                                       .x = x + token * cols,
                                       .n = m,
                                       .cols = cols,
                                       .token = token});
        }
    }
}
