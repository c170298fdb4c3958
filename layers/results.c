#include "layers/results.h"

#include <string.h>

enum { ROWS = PACKED_TOKENS /* tokens of a visit */ };

size_t results_floats(size_t d_model, size_t d_z) { return ROWS * (2 * d_model + d_z); }

static size_t rows_from(const Results *results, size_t first) {
    return results->n - first < ROWS ? results->n - first : ROWS;
}

/* Takes a head's columns of `rest` for its own, and leaves zeros there: alone [n][d_z], zeros otherwise. */
static void take_head(const Results *results, size_t head, size_t first, size_t n, float *alone) {
    size_t d_z = results->project->w.cols, d_head = d_z / results->n_head;
    memset(alone, 0, n * d_z * sizeof *alone);
    for (size_t t = 0; t < n; t++) {
        float *from = results->rest + (first + t) * d_z + head * d_head;
        memcpy(alone + t * d_z + head * d_head, from, d_head * sizeof *from);
        memset(from, 0, d_head * sizeof *from);
    }
}

/* Shows a head's results and adds them to out. Whether the probe wrote to them. */
static bool show_head(const Results *results, const Probe *probe, size_t head, float *out) {
    const Linear project = {results->project->w, NULL};
    size_t d = project.w.rows;
    float *result = results->scratch, *before = result + ROWS * d, *alone = before + ROWS * d;
    bool written = false;
    for (size_t first = 0, n; first < results->n; first += n) {
        n = rows_from(results, first);
        take_head(results, head, first, n, alone);
        linear_forward(results->compute, &(LinearOutput){result, &project}, 1, alone, n);
        memcpy(before, result, n * d * sizeof *result);
        probe->visit(probe->user, &(Activation){PROBE_RESULT, results->layer, head, results->position + first,
                                                n, d, d, result});
        written = written || memcmp(before, result, n * d * sizeof *result) != 0;
        results->compute->kernels->add(out + first * d, result, n * d);
    }
    return written;
}

bool results_forward(const Results *results, const Probe *probe, float *out) {
    size_t d = results->project->w.rows, d_z = results->project->w.cols;
    bool any = false, written = false;
    for (size_t head = 0; head < results->n_head; head++) {
        if (!probe->wants(probe->user, PROBE_RESULT, results->layer, head)) continue;
        if (!any) {
            memcpy(results->rest, results->z, results->n * d_z * sizeof *results->rest);
            memset(out, 0, results->n * d * sizeof *out);
        }
        any = true;
        if (show_head(results, probe, head, out)) written = true;
    }
    for (size_t first = 0, n; written && first < results->n; first += n) {
        n = rows_from(results, first);
        linear_forward(results->compute, &(LinearOutput){results->scratch, results->project}, 1,
                       results->rest + first * d_z, n);
        results->compute->kernels->add(out + first * d, results->scratch, n * d);
    }
    return written;
}
