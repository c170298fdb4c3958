/* The pool of a WebAssembly module, which is the calling thread: a page from a file has no memory that threads share. */
#include "base/threads.h"

#include <stdlib.h>

struct Threads {
    unsigned n_threads;
};

unsigned threads_physical_cores(void) { return 1; }

Threads *threads_new(unsigned n_threads, Error *error) {
    Threads *threads = n_threads ? malloc(sizeof *threads) : NULL;
    if (threads)
        threads->n_threads = n_threads;
    else
        error_set(error,
                  n_threads ? "not enough memory for the thread pool" : "a pool needs at least 1 thread");
    return threads;
}

void threads_free(Threads *threads) { free(threads); }

unsigned threads_count(const Threads *threads) { return threads->n_threads; }

void parallel_for(Threads *threads, size_t n, size_t grain, LoopBody *body, void *context) {
    (void)threads;
    for (size_t begin = 0; begin < n; begin += grain)
        body(context, begin, n - begin < grain ? n : begin + grain, 0);
}
