/*
 * Numbers are computed in the default floating-point environment, whatever the caller's is: rounded to nearest, denormals kept,
 * nothing trapped. So neither a program's rounding nor what a library that it loads has set changes a bit.
 */
#ifndef ATTN_FLOATENV_H
#define ATTN_FLOATENV_H

#include <fenv.h>

/* Followed by fesetenv(callers), which gives the caller's back. */
static inline void default_floats(fenv_t *callers) {
    fegetenv(callers);
    fesetenv(FE_DFL_ENV);
}

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "attn needs floats as IEEE 754 has them: leave out -ffast-math, -Ofast and -ffinite-math-only"
#endif

#endif
