/*
 * A row A[q][0 … q] is passed over once for its shape (total, largest, entropy, distance). What it says of
 * repeated tokens touches only the positions where the query's token stood before, along a list of them.
 */
#include "measures/headscores.h"

#include <math.h>

/*
 * Weights up to this are left out of the entropy, to spare a row's long tail its logarithms. Each would add
 * at most 2⁻⁴⁰·ln 2⁴⁰ nats, 3e-11; the float logarithm of the others is good to 1e-7 of the entropy.
 */
static const float NEGLIGIBLE = 0x1p-40f;

void find_earlier(const int32_t *ids, size_t n, size_t *earlier) {
    for (size_t q = 0; q < n; q++) {
        size_t k = q;
        while (k > 0 && ids[k - 1] != ids[q]) k--;
        earlier[q] = k > 0 ? k - 1 : q;
    }
}

typedef struct RowShape {
    double total, largest, entropy, distance;
} RowShape;

static RowShape row_shape(const float *row, size_t query) {
    double total = 0, entropy = 0, distance = 0;
    float largest = 0;
    for (size_t k = 0; k <= query; k++) {
        float a = row[k];
        total += (double)a;
        distance += (double)a * (double)(query - k);
        if (a > largest) largest = a;
        if (a > NEGLIGIBLE) entropy -= (double)a * (double)logf(a);
    }
    return (RowShape){total, (double)largest, entropy, distance};
}

void head_sums_add(HeadSums *sums, const HeadText *text, size_t query, const float *row) {
    RowShape shape = row_shape(row, query);
    size_t period = text->period, n_earlier = 0;
    double duplicate = 0, induction = 0;
    for (size_t k = query; text->earlier[k] < k; n_earlier++) {
        k = text->earlier[k];
        duplicate += (double)row[k];
        induction += (double)row[k + 1];
    }

    /* Detection pattern D[q][k] = 1 where x_(k−1) = x_q, k ≤ q: its ones are what induction counts. */
    sums->n_rows++;
    sums->weight += shape.total;
    sums->detected += induction;
    sums->difference += shape.total - induction + ((double)n_earlier - induction);
    if (period && query + 1 >= period) {
        sums->n_diagonal++;
        sums->diagonal += (double)row[query + 1 - period];
    }

    if (query == 0) return;
    sums->n_queries++;
    sums->entropy += shape.entropy;
    sums->entropy_share += shape.entropy / log((double)query + 1);
    sums->confidence += shape.largest;
    sums->sink += (double)row[0];
    sums->self += (double)row[query];
    sums->previous += (double)row[query - 1];
    sums->distance += shape.distance;
    if (period ? query >= text->n - period : n_earlier > 0) {
        sums->n_repeated++;
        sums->duplicate += period ? (double)row[query - period] : duplicate;
        sums->induction += period ? (double)row[query - period + 1] : induction;
    }
}

static double mean(double sum, size_t n) { return n ? sum / (double)n : NAN; }

HeadScores head_scores(const HeadSums *sums) {
    size_t n = sums->n_queries;
    return (HeadScores){
        .entropy = mean(sums->entropy, n),
        .entropy_share = mean(sums->entropy_share, n),
        .confidence = mean(sums->confidence, n),
        .sink = mean(sums->sink, n),
        .self = mean(sums->self, n),
        .previous = mean(sums->previous, n),
        .distance = mean(sums->distance, n),
        .duplicate = mean(sums->duplicate, sums->n_repeated),
        .induction = mean(sums->induction, sums->n_repeated),
        .tl_diag = mean(sums->diagonal, sums->n_diagonal),
        .tl_mul = sums->n_rows ? sums->detected / sums->weight : NAN,
        .tl_abs = 1 - mean(sums->difference, sums->n_rows),
    };
}

const char *head_label(const HeadScores *scores) {
    if (scores->induction >= HEAD_THRESHOLD) return "induction";
    if (scores->duplicate >= HEAD_THRESHOLD) return "duplicate";
    if (scores->previous >= HEAD_THRESHOLD) return "previous";
    if (scores->sink >= SINK_THRESHOLD) return "parked on first token";
    return "";
}
