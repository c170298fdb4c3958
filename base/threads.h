/* A pool of threads that sleeps when idle, and the one way to run a loop on it. */
#ifndef ATTN_THREADS_H
#define ATTN_THREADS_H

#include "base/error.h"

#include <stddef.h>

typedef struct Threads Threads;

/* Cores that this process may run on, hyper-threads of one core counted once; at least 1. */
unsigned threads_physical_cores(void);

/*
 * A pool of n_threads workers, the calling thread among them (n_threads = 1 starts none).
 * Fails when n_threads is 0 or the system refuses a thread. threads_free accepts NULL. In a forked child, which has none of
 * the workers, all goes on with the calling thread alone.
 */
Threads *threads_new(unsigned n_threads, Error *error);
void threads_free(Threads *threads);

/* Number of workers, the calling thread counted. */
unsigned threads_count(const Threads *threads);

/* Part [begin, end) of a loop; worker in [0, threads_count) tells whose scratch memory it may use. */
typedef void LoopBody(void *context, size_t begin, size_t end, unsigned worker);

/*
 * Runs body over [0, n) in pieces of `grain` ≥ 1 (the last may be shorter), dealt to whichever worker is
 * free, and returns when all are done. Pieces may run in any order and on any worker: a body must
 * write outputs that depend on their index alone, never add to what another piece writes. That is
 * what makes results bit-identical for every number of threads. One loop at a time on a pool.
 */
void parallel_for(Threads *threads, size_t n, size_t grain, LoopBody *body, void *context);

#endif
