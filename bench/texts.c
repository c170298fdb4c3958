/*
 * How many tokens a second several texts make together, one of each in a pass, over what one text alone makes: passes of all
 * numbers of texts in turns, since a machine that others share changes from second to second.
 */
#include "cli/print.h"
#include "model.h"
#include "shapes.h"

#include <stdlib.h>
#include <time.h>

static const char help[] =
    "usage: texts MODEL|Q4_K_M|gpt2-124m:Q8_0 [REPEATS]\n"
    "Feeds 1, 2, 4 … 64 texts of 64 tokens a token each in one pass, by a checkpoint, or by random weights in TinyLlama's\n"
    "or other shapes. Two threads, an F16 cache; medians of REPEATS (9) passes.\n";

enum { N_TEXTS = 64, LENGTH = 64 /* tokens before the first pass */, N_SIZES = 7, MAX_REPEATS = 99 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One pass of the first n texts, behind one that is not timed: it finds in the caches what it leaves there itself. */
static bool pass(const FeedPart *parts, size_t n, double *seconds, Error *error) {
    bool ok = true;
    for (size_t twice = 0; ok && twice < 2; twice++) {
        double begun = now();
        ok = session_feed_many(parts, n, error);
        *seconds = now() - begun;
        for (size_t i = 0; ok && i < n; i++) session_rewind(parts[i].session, LENGTH);
    }
    return ok;
}

static bool measure(const FeedPart *parts, size_t n_repeats, Error *error) {
    static double seconds[N_SIZES][MAX_REPEATS];
    double alone = 0;
    for (size_t repeat = 0; repeat < n_repeats; repeat++)
        for (size_t size = 0; size < N_SIZES; size++)
            if (!pass(parts, (size_t)1 << size, &seconds[size][repeat], error)) return false;
    for (size_t size = 0; size < N_SIZES; size++) {
        qsort(seconds[size], n_repeats, sizeof **seconds, by_size);
        double rate = (double)((size_t)1 << size) / seconds[size][n_repeats / 2];
        if (size == 0) alone = rate;
        printf("%2zu texts: %7.1f tokens/s, %.2f times one text's\n", (size_t)1 << size, rate, rate / alone);
    }
    return true;
}

int main(int argc, char **argv) {
    Error error = {""};
    FeedPart parts[N_TEXTS] = {{0}};
    const size_t n_repeats = argc > 2 ? strtoul(argv[2], NULL, 10) : 9;
    if (argc < 2 || argc > 3 || n_repeats < 1 || n_repeats > MAX_REPEATS) {
        fputs(help, stderr);
        return 2;
    }
    Threads *threads = threads_new(2, &error);
    Model *model = threads ? shape_open(argv[1], &error) : NULL;
    const size_t n_vocab = model ? model_config(model)->n_vocab : 0;
    float *logits = calloc(N_TEXTS * (n_vocab + 1), sizeof *logits);
    int32_t ids[LENGTH];
    for (size_t i = 0; i < LENGTH; i++) ids[i] = (int32_t)(i * 7919 % (n_vocab + 1) % 250);
    bool ok = model && logits;
    for (size_t i = 0; ok && i < N_TEXTS; i++) {
        SessionOptions options = {.kv_dtype = DTYPE_F16,
                                  .n_ctx = LENGTH + 1,
                                  .compute = {.kernels = kernels_fastest(), .threads = threads},
                                  .beside = i ? parts[0].session : NULL};
        parts[i] = (FeedPart){session_new(model, &options, &error), ids, 1, logits + i * n_vocab, 1};
        ok = parts[i].session &&
             session_feed_all(parts[i].session, ids, LENGTH, parts[i].logits, &(Feed){0}, &error);
    }
    ok = ok && measure(parts, n_repeats, &error);
    if (!ok) print_error("texts", &error);
    for (size_t i = N_TEXTS; i--;) session_free(parts[i].session);
    model_close(model);
    threads_free(threads);
    free(logits);
    return !ok;
}
