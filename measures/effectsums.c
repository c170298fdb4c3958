#include "measures/effectsums.h"

#include <math.h>

void effect_add(EffectSums *sums, double metric, double clean, double corrupted) {
    double moved = metric - corrupted, whole = clean - corrupted;
    sums->n++;
    sums->moved += moved;
    sums->moved_squares += moved * moved;
    sums->whole += whole;
    sums->whole_squares += whole * whole;
    sums->products += moved * whole;
    sums->metric += metric;
    sums->metric_squares += metric * metric;
}

/* The standard error of a mean of n numbers, from the sum of the squares of what they are off by. */
static double error_of(double squares, size_t n) {
    return n < 2 ? NAN : sqrt(fmax(squares, 0) / ((double)n * (double)(n - 1)));
}

double effect_mean(const EffectSums *sums) { return sums->moved / sums->whole; }

double effect_error(const EffectSums *sums) {
    double r = effect_mean(sums);
    double squares = sums->moved_squares - 2 * r * sums->products + r * r * sums->whole_squares;
    return error_of(squares, sums->n) / fabs(sums->whole / (double)sums->n);
}

double effect_metric(const EffectSums *sums) { return sums->metric / (double)sums->n; }

double effect_metric_error(const EffectSums *sums) {
    return error_of(sums->metric_squares - sums->metric * sums->metric / (double)sums->n, sums->n);
}
