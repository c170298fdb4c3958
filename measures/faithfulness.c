#include "measures/faithfulness.h"

#include <math.h>
#include <string.h>

const char *const outside_names[N_OUTSIDES] = {"resample", "mean", "zero"};
const double circuit_shares[N_SHARES] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1};

size_t share_of(double share, size_t n) { return (size_t)(share * (double)n + 1e-9); }

bool faithful_begin(Mixture *mixture, Outside outside, const int32_t *corrupted, Arena *arena, Error *error) {
    double value;
    if (!mixture_begin(mixture, arena, error) || !mixture_outside(mixture, corrupted, &value, error))
        return false;
    if (outside == OUTSIDE_ZERO) mixture_outside_zero(mixture);
    if (outside == OUTSIDE_MEAN) mixture_outside_mean(mixture);
    return true;
}

void choose_units(const EdgeGraph *graph, UnitKind kind, const size_t *order, size_t n, bool *in) {
    memset(in, 0, graph->n_edges * sizeof *in);
    for (size_t i = 0; i < n; i++) unit_put(graph, kind, order[i], in, true);
}

void faithful_areas(const double *f, double *cpr, double *cmd) {
    *cpr = *cmd = 0;
    for (size_t i = 1; i < N_SHARES; i++) {
        double width = circuit_shares[i] - circuit_shares[i - 1];
        *cpr += width * (f[i - 1] + f[i]) / 2;
        *cmd += width * (fabs(1 - f[i - 1]) + fabs(1 - f[i])) / 2;
    }
}
