/*
 * A test program: functions run by RUN, each counted once as passed, failed or skipped, and a closing
 * line that tests/run.sh adds up. A failed check prints where and what, and the test goes on.
 */
#ifndef ATTN_TEST_H
#define ATTN_TEST_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a test of many schedules: all of them with ATTN_LONG_TESTS=1, some without, and few where a sanitizer slows it down, which
   finds the same in these. */
static inline size_t how_many(size_t all, size_t some, size_t few) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)all, (void)some;
    return few;
#else
    (void)few;
    return getenv("ATTN_LONG_TESTS") ? all : some;
#endif
}

static int test_passed, test_failed, test_skipped;
static int test_broken, test_left_out __attribute__((unused)); /* of the running test */

#define CHECK(condition, ...)                                                                                \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            test_broken = 1;                                                                                 \
            printf("%s:%d: %s: ", __FILE__, __LINE__, #condition);                                           \
            printf("" __VA_ARGS__);                                                                          \
            printf("\n");                                                                                    \
        }                                                                                                    \
    } while (0)

/* |a − b| ≤ tolerance; NaN fails. */
#define CHECK_NEAR(a, b, tolerance)                                                                          \
    do {                                                                                                     \
        double test_a = (double)(a), test_b = (double)(b), test_t = (double)(tolerance);                     \
        CHECK(fabs(test_a - test_b) <= test_t, "%.9g against %.9g, off by %.3g", test_a, test_b,             \
              fabs(test_a - test_b));                                                                        \
    } while (0)

/* Ends the running test as skipped, for instance when a file of ../shared is missing. */
#define SKIP(...)                                                                                            \
    do {                                                                                                     \
        test_left_out = 1;                                                                                   \
        printf("skipped: " __VA_ARGS__);                                                                     \
        printf("\n");                                                                                        \
        return;                                                                                              \
    } while (0)

#define RUN(test)                                                                                            \
    do {                                                                                                     \
        test_broken = test_left_out = 0;                                                                     \
        test();                                                                                              \
        if (test_broken) printf("FAILED %s\n", #test);                                                       \
        test_failed += test_broken;                                                                          \
        test_skipped += !test_broken && test_left_out;                                                       \
        test_passed += !test_broken && !test_left_out;                                                       \
    } while (0)

/* A file's bytes, a NUL behind them, to be freed; a check fails, and there are none, where it cannot be read. */
static inline char *read_whole(const char *path, size_t *n) {
    FILE *file = fopen(path, "rb");
    long size = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    char *bytes = size >= 0 ? malloc((size_t)size + 1) : NULL;
    *n = bytes && fseek(file, 0, SEEK_SET) == 0 ? fread(bytes, 1, (size_t)size, file) : 0;
    CHECK(bytes && *n == (size_t)size, "cannot read %s", path);
    if (bytes) bytes[*n] = '\0';
    if (file) fclose(file);
    return bytes;
}

/* Prints the closing line; the value for main to return. */
static inline int test_end(void) {
    printf("%d passed, %d failed, %d skipped\n", test_passed, test_failed, test_skipped);
    return test_failed != 0;
}

#endif
