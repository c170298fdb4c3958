/* Eigenvalues of small dense matrices [n][n], row after row, in double. */
#ifndef ATTN_EIGEN_H
#define ATTN_EIGEN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Eigenvalue {
    double re, im;
} Eigenvalue;

/*
 * All n eigenvalues of a real matrix, the largest |λ| first, of a conjugate pair the one with im > 0: Householder's reduction
 * to Hessenberg form, then Francis's QR steps with two implicit shifts (Golub & Van Loan, section 7.5). The matrix is lost.
 * False where it holds what is not finite, or does not converge.
 */
bool eigenvalues(double *a, size_t n, Eigenvalue *values);

/*
 * Solves a symmetric matrix by Jacobi's rotations: values, the largest first, and in row i of `vectors` the i-th's unit vector.
 * The matrix is lost.
 */
void symmetric_eigen(double *a, size_t n, double *values, double *vectors);

#endif
