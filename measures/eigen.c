#include "measures/eigen.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 60 /* of QR for an eigenvalue */, MAX_SWEEPS = 60 };

/* The reflection I − β v vᵀ of three numbers at most, or of n. */
static double make_reflector(double *v, size_t n) {
    double square = 0;
    for (size_t i = 0; i < n; i++) square += v[i] * v[i];
    if (square == 0) return 0;
    v[0] += copysign(sqrt(square), v[0]);
    square = 0;
    for (size_t i = 0; i < n; i++) square += v[i] * v[i];
    return 2 / square;
}

/* Rows first … first + k − 1 of columns [from, to) become those of (I − β v vᵀ)·A. */
static void reflect_rows(double *a, size_t n, const double *v, double beta, size_t first, size_t k,
                         size_t from, size_t to) {
    for (size_t j = from; j < to; j++) {
        double sum = 0;
        for (size_t i = 0; i < k; i++) sum += v[i] * a[(first + i) * n + j];
        for (size_t i = 0; i < k; i++) a[(first + i) * n + j] -= beta * sum * v[i];
    }
}

/* Reflects columns likewise, of rows [from, to): A·(I − β v vᵀ). */
static void reflect_columns(double *a, size_t n, const double *v, double beta, size_t first, size_t k,
                            size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        double sum = 0, *row = a + i * n + first;
        for (size_t j = 0; j < k; j++) sum += v[j] * row[j];
        for (size_t j = 0; j < k; j++) row[j] -= beta * sum * v[j];
    }
}

/* Makes zeros below the first subdiagonal. */
static void reduce(double *a, size_t n, double *v) {
    for (size_t c = 0; c + 2 < n; c++) {
        size_t k = n - c - 1;
        for (size_t i = 0; i < k; i++) v[i] = a[(c + 1 + i) * n + c];
        double beta = make_reflector(v, k);
        reflect_rows(a, n, v, beta, c + 1, k, c, n);
        reflect_columns(a, n, v, beta, c + 1, k, 0, n);
        for (size_t i = c + 2; i < n; i++) a[i * n + c] = 0;
    }
}

/* The first row of the block that ends with row `last` and has no zero on its subdiagonal; what is negligible becomes 0. */
static size_t find_block(double *a, size_t n, size_t last) {
    size_t i = last;
    for (; i > 0; i--) {
        double beside = fabs(a[(i - 1) * n + i - 1]) + fabs(a[i * n + i]);
        if (fabs(a[i * n + i - 1]) <= DBL_EPSILON * beside || fabs(a[i * n + i - 1]) < DBL_MIN) {
            a[i * n + i - 1] = 0;
            break;
        }
    }
    return i;
}

/* The two of a block of two rows from i on. */
static void solve_two(const double *a, size_t n, size_t i, Eigenvalue *values) {
    double p = a[i * n + i], q = a[i * n + i + 1], r = a[(i + 1) * n + i], s = a[(i + 1) * n + i + 1];
    double half = (p - s) / 2, mean = (p + s) / 2, square = half * half + q * r, root = sqrt(fabs(square));
    if (square < 0) {
        values[i] = (Eigenvalue){mean, root};
        values[i + 1] = (Eigenvalue){mean, -root};
        return;
    }
    double far = half + copysign(root, half); /* no two large numbers are taken from each other */
    values[i] = (Eigenvalue){s + far, 0};
    values[i + 1] = (Eigenvalue){far != 0 ? s - q * r / far : s, 0};
}

/* One of Francis's steps on the rows first … last, three or more; `odd`: with shifts that leave a circle. */
static void step(double *a, size_t n, size_t first, size_t last, bool odd) {
    const double *end = a + (last - 1) * n + last - 1, *begin = a + first * n + first;
    double sum = end[0] + end[n + 1], product = end[0] * end[n + 1] - end[1] * end[n];
    if (odd) {
        double size = fabs(end[n]) + fabs(a[(last - 1) * n + last - 2]);
        sum = 1.5 * size, product = size * size;
    }
    double v[3] = {begin[0] * begin[0] + begin[1] * begin[n] - sum * begin[0] + product,
                   begin[n] * (begin[0] + begin[n + 1] - sum), begin[n] * begin[2 * n + 1]};
    for (size_t row = first; row < last; row++) {
        size_t k = row + 2 <= last ? 3 : 2, from = row > first ? row - 1 : first;
        double beta = make_reflector(v, k);
        reflect_rows(a, n, v, beta, row, k, from, last + 1);
        reflect_columns(a, n, v, beta, row, k, first, row + 4 <= last + 1 ? row + 4 : last + 1);
        for (size_t i = 0; i < 3 && row + 1 + i <= last; i++) v[i] = a[(row + 1 + i) * n + row];
        for (size_t i = row + 1; row > first && i <= last && i < row + 3; i++) a[i * n + row - 1] = 0;
    }
}

static double size_of(const Eigenvalue *value) { return hypot(value->re, value->im); }

/* The larger first; of those of one size what lies further right, and of a pair the one above the real axis. */
static int order(const void *a, const void *b) {
    const Eigenvalue *x = a, *y = b;
    double of_x = size_of(x), of_y = size_of(y);
    if (of_x != of_y) return of_x < of_y ? 1 : -1;
    if (x->re != y->re) return x->re < y->re ? 1 : -1;
    return (x->im < y->im) - (x->im > y->im);
}

bool eigenvalues(double *a, size_t n, Eigenvalue *values) {
    bool ok = true;
    for (size_t i = 0; ok && i < n * n; i++) ok = isfinite(a[i]);
    if (ok) reduce(a, n, (double *)values); /* which has room for a vector until they are found */
    for (size_t left = n, steps = 0; ok && left > 0; steps++) {
        size_t last = left - 1, first = find_block(a, n, last);
        if (first == last)
            values[last] = (Eigenvalue){a[last * n + last], 0}, left -= 1, steps = 0;
        else if (first + 1 == last)
            solve_two(a, n, first, values), left -= 2, steps = 0;
        else if ((ok = steps < MAX_STEPS))
            step(a, n, first, last, steps % 10 == 9);
    }
    if (ok) qsort(values, n, sizeof *values, order);
    return ok;
}

/* Rotates rows and columns p and q so that a[p][q] becomes 0. */
static void rotate(double *a, size_t n, size_t p, size_t q, double *vectors) {
    double off = a[p * n + q], theta = (a[q * n + q] - a[p * n + p]) / (2 * off);
    double t = copysign(1, theta) / (fabs(theta) + hypot(theta, 1)), c = 1 / hypot(t, 1), s = t * c;
    for (size_t i = 0; i < n; i++) {
        double x = a[i * n + p], y = a[i * n + q];
        a[i * n + p] = c * x - s * y;
        a[i * n + q] = s * x + c * y;
    }
    for (size_t i = 0; i < n; i++) {
        double x = a[p * n + i], y = a[q * n + i];
        a[p * n + i] = c * x - s * y;
        a[q * n + i] = s * x + c * y;
        x = vectors[p * n + i], y = vectors[q * n + i];
        vectors[p * n + i] = c * x - s * y;
        vectors[q * n + i] = s * x + c * y;
    }
}

/* One sweep over all pairs; whether any of them was not negligible. */
static bool sweep(double *a, size_t n, double *vectors) {
    bool any = false;
    for (size_t p = 0; p < n; p++)
        for (size_t q = p + 1; q < n; q++)
            if (fabs(a[p * n + q]) > DBL_EPSILON * sqrt(fabs(a[p * n + p] * a[q * n + q])) &&
                fabs(a[p * n + q]) > DBL_MIN)
                rotate(a, n, p, q, vectors), any = true;
    return any;
}

void symmetric_eigen(double *a, size_t n, double *values, double *vectors) {
    memset(vectors, 0, n * n * sizeof *vectors);
    for (size_t i = 0; i < n; i++) vectors[i * n + i] = 1;
    for (int i = 0; i < MAX_SWEEPS && sweep(a, n, vectors); i++) continue;
    for (size_t i = 0; i < n; i++) {
        size_t best = i;
        for (size_t j = i; j < n; j++)
            if (a[j * n + j] > a[best * n + best]) best = j;
        values[i] = a[best * n + best];
        a[best * n + best] = a[i * n + i];
        for (size_t k = 0; k < n; k++) {
            double x = vectors[i * n + k];
            vectors[i * n + k] = vectors[best * n + k];
            vectors[best * n + k] = x;
        }
    }
}
