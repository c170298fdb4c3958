#include "measures/means.h"

#include <math.h>

void mean_add(Mean *mean, double x) {
    mean->n++;
    mean->sum += x;
    mean->squares += x * x;
}

double mean_value(const Mean *mean) { return mean->sum / (double)mean->n; }

double mean_error(const Mean *mean) {
    double n = (double)mean->n, rest = mean->squares - mean->sum * mean->sum / n;
    return mean->n < 2 ? NAN : sqrt(fmax(rest, 0) / (n - 1) / n);
}
