/*
 * dx = Wᵀ dy is a weighted sum of the rows of W, so that they are read as they lie. A piece of the work is some tokens and
 * some columns: it unpacks these columns of a few rows at a time into a panel, which stays in L1 while the tokens pass.
 */
#include "gradients/linear_back.h"

#include <stdbool.h>
#include <string.h>

enum {
    PANEL_ROWS = 64,
    PANEL_COLS = 64,
    PIECE_COLS = 256, /* of a piece at most: a multiple of every type's block, and of PANEL_COLS */
    FEW_TOKENS = 24,
    LEAST_TOKENS = 64,
    PIECES_PER_WORKER = 2,
};

typedef struct LinearBackLoop {
    const Compute *compute;
    const Matrix *w;
    size_t row_bytes; /* of w */
    size_t begin, end;
    const float *dy;
    float *dx;
    size_t dy_stride, n;
    size_t piece_tokens, piece_cols, n_col_pieces;
} LinearBackLoop;

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static const unsigned char *weights_at(const LinearBackLoop *loop, size_t row, size_t col) {
    return (const unsigned char *)loop->w->data + row * loop->row_bytes + dtype_bytes(loop->w->dtype, col);
}

/* Fetches the rows of the panel behind the one at `row` into L2: memory does not see by itself what comes next. */
static void fetch_next(const LinearBackLoop *loop, size_t row, size_t first, size_t n_cols) {
    size_t end = smaller(row + 2 * PANEL_ROWS, loop->end), n_bytes = dtype_bytes(loop->w->dtype, n_cols);
    const unsigned char *from = weights_at(loop, row + PANEL_ROWS, first);
    for (size_t r = row + PANEL_ROWS; r < end; r++, from += loop->row_bytes)
        for (size_t i = 0; i < n_bytes; i += 64) __builtin_prefetch(from + i, 0, 2);
}

/* Rows [row, row + n_rows) of W from column `first` on, n_cols of them, as panels of PANEL_COLS columns each. */
static void unpack_panels(const LinearBackLoop *loop, size_t row, size_t n_rows, size_t first, size_t n_cols,
                          float panels[][PANEL_ROWS][PANEL_COLS]) {
    const DType dtype = loop->w->dtype;
    const unsigned char *from = weights_at(loop, row, first);
    float unpacked[PIECE_COLS];
    for (size_t r = 0; r < n_rows; r++, from += loop->row_bytes) {
        const void *floats = dtype == DTYPE_F32 ? (const void *)from : unpacked;
        if (dtype != DTYPE_F32) loop->compute->kernels->unpack(unpacked, dtype, from, n_cols);
        for (size_t c = 0; c < n_cols; c += PANEL_COLS)
            memcpy(panels[c / PANEL_COLS][r], (const char *)floats + c * sizeof(float),
                   smaller(PANEL_COLS, n_cols - c) * sizeof(float));
    }
}

/* Whether nothing comes back through rows [row, row + m): only few logits may count. */
static bool is_silent(const LinearBackLoop *loop, size_t token, size_t n, size_t row, size_t m) {
    for (size_t t = token; t < token + n; t++)
        for (size_t r = 0; r < m; r++)
            if (loop->dy[t * loop->dy_stride + row - loop->begin + r] != 0) return false;
    return true;
}

/* Adds what comes back through rows [row, row + m) to columns [first, first + n_cols) of n tokens. */
static void back_rows(const LinearBackLoop *loop, size_t token, size_t n, size_t row, size_t m, size_t first,
                      size_t n_cols) {
    const Matrix *w = loop->w;
    const Kernels *kernels = loop->compute->kernels;
    float panels[PIECE_COLS / PANEL_COLS][PANEL_ROWS][PANEL_COLS], *dx = loop->dx + token * w->cols + first;
    const float *dy = loop->dy + token * loop->dy_stride + row - loop->begin;
    if (w->dtype == DTYPE_F32 && n <= FEW_TOKENS) { /* not worth a copy */
        kernels->weighted_sums(dx, w->cols, dy, loop->dy_stride, n, DTYPE_F32, weights_at(loop, row, first),
                               w->cols, m, n_cols);
        return;
    }
    unpack_panels(loop, row, m, first, n_cols, panels);
    fetch_next(loop, row, first, n_cols);
    for (size_t c = 0; c < n_cols; c += PANEL_COLS)
        kernels->weighted_sums(dx + c, w->cols, dy, loop->dy_stride, n, DTYPE_F32, panels[c / PANEL_COLS],
                               PANEL_COLS, m, smaller(PANEL_COLS, n_cols - c));
}

static void back_pieces(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    const LinearBackLoop *loop = context;
    for (size_t piece = begin; piece < end; piece++) {
        size_t token = piece / loop->n_col_pieces * loop->piece_tokens,
               first = piece % loop->n_col_pieces * loop->piece_cols,
               n = smaller(loop->piece_tokens, loop->n - token),
               n_cols = smaller(loop->piece_cols, loop->w->cols - first);
        for (size_t row = loop->begin, m; row < loop->end; row += m) {
            m = smaller(PANEL_ROWS, loop->end - row);
            if (!is_silent(loop, token, n, row, m)) back_rows(loop, token, n, row, m, first, n_cols);
        }
    }
}

static size_t count_pieces(size_t n, size_t size) { return (n + size - 1) / size; }

/*
 * Cuts columns alone, so that weights are read once, if that makes enough pieces and as many for each worker. Otherwise tokens
 * are cut, too.
 */
static void cut(LinearBackLoop *loop, size_t n_workers) {
    const size_t cols = loop->w->cols, pieces = PIECES_PER_WORKER * n_workers,
                 step = dtype_info(loop->w->dtype)->block > PANEL_COLS ? PIECE_COLS : PANEL_COLS;
    loop->piece_tokens = loop->n;
    for (loop->piece_cols = PIECE_COLS; loop->piece_cols >= step; loop->piece_cols -= step) {
        loop->n_col_pieces = count_pieces(cols, loop->piece_cols);
        if (loop->n_col_pieces >= pieces && loop->n_col_pieces % n_workers == 0) return;
    }
    loop->piece_cols = PIECE_COLS;
    loop->n_col_pieces = count_pieces(cols, PIECE_COLS);
    size_t wanted = count_pieces(pieces, loop->n_col_pieces);
    loop->piece_tokens =
        loop->n / wanted > LEAST_TOKENS ? count_pieces(loop->n, wanted) : smaller(loop->n, LEAST_TOKENS);
}

void linear_back(const Compute *compute, const Matrix *w, size_t begin, size_t end, const float *dy,
                 size_t dy_stride, size_t n, float *dx) {
    LinearBackLoop loop = {compute, w, dtype_bytes(w->dtype, w->cols), begin, end, dy, dx, dy_stride, n};
    cut(&loop, threads_count(compute->threads));
    parallel_for(compute->threads, count_pieces(n, loop.piece_tokens) * loop.n_col_pieces, 1, back_pieces,
                 &loop);
}
