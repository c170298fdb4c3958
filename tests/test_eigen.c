/*
 * Eigenvalues (measures/eigen.h) against those that are known: of triangles, turns, roots of polynomials, matrices that have
 * fewer vectors than rows; and of random ones by their traces. test_study.c has heads' against NumPy's.
 */
#include "measures/eigen.h"
#include "test.h"

#include <stdint.h>

enum { MOST = 64 };

static uint64_t state = 1;

static double random_number(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 9007199254740992.0 * 2 - 1;
}

/* B becomes S A S⁻¹, whose eigenvalues are A's, by shears, each of which is undone on the other side. */
static void hide(double *a, size_t n) {
    for (int k = 0; k < 300; k++) {
        size_t p = (size_t)(fabs(random_number()) * (double)n),
               q = (size_t)(fabs(random_number()) * (double)n);
        double f = random_number() / 4;
        if (p == q || p >= n || q >= n) continue;
        for (size_t j = 0; j < n; j++) a[p * n + j] += f * a[q * n + j];
        for (size_t i = 0; i < n; i++) a[i * n + q] -= f * a[i * n + p];
    }
}

static void expect(const char *what, double *a, size_t n, const Eigenvalue *want, double tolerance) {
    Eigenvalue got[MOST];
    bool ok = eigenvalues(a, n, got);
    CHECK(ok, "%s", what);
    for (size_t i = 0; ok && i < n; i++)
        CHECK(fabs(got[i].re - want[i].re) <= tolerance && fabs(got[i].im - want[i].im) <= tolerance,
              "%s: %zu is %.15g %+.15gi, not %.15g %+.15gi", what, i, got[i].re, got[i].im, want[i].re,
              want[i].im);
}

static void test_known(void) {
    expect("one", (double[]){-3}, 1, (Eigenvalue[]){{-3, 0}}, 0);
    expect("zeros", (double[16]){0}, 4, (Eigenvalue[4]){{0, 0}}, 0);
    expect("a turn", (double[]){0, -2, 2, 0}, 2, (Eigenvalue[]){{0, 2}, {0, -2}}, 1e-15);
    expect("a swap", (double[]){0, 1, 1, 0}, 2, (Eigenvalue[]){{1, 0}, {-1, 0}}, 1e-15);
    expect("a triangle", (double[]){1, 5, 7, 0, -4, 9, 0, 0, 2}, 3, (Eigenvalue[]){{-4, 0}, {2, 0}, {1, 0}},
           1e-14);
    expect("a shift of three", (double[]){0, 0, 8, 1, 0, 0, 0, 1, 0}, 3,
           (Eigenvalue[]){{-1, sqrt(3)}, {-1, -sqrt(3)}, {2, 0}}, 1e-14);
    /* x⁴ − 10x³ + 35x² − 50x + 24 = (x − 1)(x − 2)(x − 3)(x − 4) */
    expect("a polynomial", (double[]){10, -35, 50, -24, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}, 4,
           (Eigenvalue[]){{4, 0}, {3, 0}, {2, 0}, {1, 0}}, 1e-12);
    /* One vector for all three: the value is good to the third root of the rounding. */
    expect("Jordan's", (double[]){2, 1, 0, 0, 2, 1, 0, 0, 2}, 3, (Eigenvalue[]){{2, 0}, {2, 0}, {2, 0}},
           1e-4);
    expect("of one size", (double[]){-1, 0, 0, 1}, 2, (Eigenvalue[]){{1, 0}, {-1, 0}}, 0);
    expect("one vector, below", (double[]){2, 0, 1, 2}, 2, (Eigenvalue[]){{2, 0}, {2, 0}}, 0);
    expect("next to nothing", (double[]){0, 1e-310, 1e-310, 0}, 2, (Eigenvalue[]){{0, 0}, {0, 0}}, 1e-300);
    Eigenvalue value;
    CHECK(!eigenvalues((double[]){NAN}, 1, &value), "NaN has an eigenvalue");
    CHECK(!eigenvalues((double[]){1, 2, INFINITY, 4}, 2, (Eigenvalue[2]){{0, 0}}),
          "infinity has eigenvalues");
}

/* Numbers and turns of growing size, hidden. */
static void test_hidden(void) {
    for (size_t n = 2; n <= MOST; n += 2) {
        double a[MOST * MOST] = {0};
        Eigenvalue want[MOST];
        for (size_t i = 0; i < n; i += 2) {
            double size = (double)(n - i), angle = 0.3 + (double)i / 50;
            a[i * n + i] = a[(i + 1) * n + i + 1] = size * cos(angle);
            a[i * n + i + 1] = -(a[(i + 1) * n + i] = size * sin(angle));
            want[i] = (Eigenvalue){size * cos(angle), size * sin(angle)};
            want[i + 1] = (Eigenvalue){want[i].re, -want[i].im};
        }
        hide(a, n);
        expect("turns", a, n, want, 1e-8 * (double)n);
        memset(a, 0, sizeof a);
        for (size_t i = 0; i < n; i++) {
            a[i * n + i] = i % 2 ? -(double)(n - i) : (double)(n - i);
            want[i] = (Eigenvalue){a[i * n + i], 0};
        }
        hide(a, n);
        expect("numbers", a, n, want, 1e-8 * (double)n);
    }
}

/* Σλ is the trace, Σλ² that of the square. */
static void test_random(void) {
    for (size_t n = 1; n <= MOST; n++) {
        double a[MOST * MOST], trace = 0, square = 0, sum = 0, squares = 0;
        Eigenvalue values[MOST];
        for (size_t i = 0; i < n * n; i++) a[i] = random_number();
        for (size_t i = 0; i < n; i++) {
            trace += a[i * n + i];
            for (size_t j = 0; j < n; j++) square += a[i * n + j] * a[j * n + i];
        }
        bool ok = eigenvalues(a, n, values);
        CHECK(ok, "%zu random rows", n);
        for (size_t i = 0; ok && i < n; i++) {
            sum += values[i].re;
            squares += values[i].re * values[i].re - values[i].im * values[i].im;
            CHECK(i == 0 || hypot(values[i].re, values[i].im) <= hypot(values[i - 1].re, values[i - 1].im),
                  "order");
        }
        CHECK_NEAR(sum, trace, 1e-11 * (double)n);
        CHECK_NEAR(squares, square, 1e-11 * (double)n);
    }
}

/* Numbers smaller than any normal one are no reason to turn: the vectors stay. */
static void test_tiny(void) {
    double values[2], vectors[4];
    symmetric_eigen((double[]){0, 1e-310, 1e-310, 0}, 2, values, vectors);
    CHECK(values[0] == 0 && values[1] == 0 && vectors[0] == 1 && vectors[1] == 0, "%g, %g", values[0],
          vectors[1]);
}

/* A v = λ v, and vectors are of length 1 and at right angles. */
static void test_symmetric(void) {
    for (size_t n = 1; n <= MOST; n += 7) {
        static double a[MOST * MOST], kept[MOST * MOST], vectors[MOST * MOST];
        double values[MOST];
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j <= i; j++) a[i * n + j] = a[j * n + i] = i % 5 == 4 ? 0 : random_number();
        memcpy(kept, a, sizeof kept);
        symmetric_eigen(a, n, values, vectors);
        for (size_t k = 0; k < n; k++) {
            CHECK(k == 0 || values[k] <= values[k - 1], "order");
            for (size_t i = 0; i < n; i++) {
                double sum = 0, dot = 0;
                for (size_t j = 0; j < n; j++) {
                    sum += kept[i * n + j] * vectors[k * n + j];
                    dot += vectors[k * n + j] * vectors[i * n + j];
                }
                CHECK_NEAR(sum, values[k] * vectors[k * n + i], 1e-12 * (double)n);
                CHECK_NEAR(dot, i == k, 1e-12 * (double)n);
            }
        }
    }
}

int main(void) {
    RUN(test_known);
    RUN(test_hidden);
    RUN(test_random);
    RUN(test_tiny);
    RUN(test_symmetric);
    return test_end();
}
