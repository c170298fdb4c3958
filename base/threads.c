/*
 * The pool. A loop is cut into pieces, and one atomic counter holds how many are still to be dealt.
 * Whoever takes it down by one owns a piece. While somebody owns a piece the loop cannot end, so its
 * description stays valid. A worker that sleeps through a whole loop is simply not missed.
 *
 * Whoever waits, for a loop or for its end, spins for a moment and then sleeps: the loops of one
 * forward pass follow each other within microseconds.
 *
 * With OpenMP (make OPENMP=1), OpenMP's runtime is the pool.
 */
#define _GNU_SOURCE /* sched_getaffinity */

#include "base/threads.h"

#include "base/floatenv.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#else
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#endif

/* Takes the CPUs of one core, those that share it with `cpu`, from `cpus`; false when the kernel does not list them. */
static bool remove_core(size_t cpu, cpu_set_t *cpus) {
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list", cpu);
    FILE *stream = fopen(path, "r"); /* as "0,64" or "0-1" */
    if (!stream) return false;
    unsigned first, last;
    bool ok = false;
    while (fscanf(stream, "%u", &first) == 1) {
        ok = true;
        last = first;
        if (fscanf(stream, "-%u", &last) != 1) last = first;
        for (unsigned i = first; i <= last && i < CPU_SETSIZE; i++) CPU_CLR(i, cpus);
        if (getc(stream) != ',') break;
    }
    fclose(stream);
    return ok;
}

/* Fills `cpus` with the CPUs this process may run on, those online where there are more than the set can tell; how many. */
static unsigned allowed_cpus(cpu_set_t *cpus) {
    CPU_ZERO(cpus);
    if (sched_getaffinity(0, sizeof *cpus, cpus) != 0) {
        const long n = sysconf(_SC_NPROCESSORS_ONLN);
        for (long cpu = 0; cpu < n && cpu < CPU_SETSIZE; cpu++) CPU_SET((size_t)cpu, cpus);
    }
    return (unsigned)CPU_COUNT(cpus);
}

unsigned threads_physical_cores(void) {
    cpu_set_t cpus;
    unsigned n_cpus = allowed_cpus(&cpus), n_cores = 0;
    for (size_t cpu = 0; n_cpus && cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &cpus)) continue;
        if (!remove_core(cpu, &cpus)) return n_cpus;
        n_cores++;
    }
    return n_cores ? n_cores : 1;
}

static size_t count_pieces(size_t n, size_t grain) { return n / grain + (n % grain != 0); }

static void run_piece(LoopBody *body, void *context, size_t n, size_t grain, size_t piece, unsigned worker) {
    size_t begin = piece * grain;
    body(context, begin, n - begin < grain ? n : begin + grain, worker);
}

#ifdef _OPENMP

struct Threads {
    unsigned n_threads;
};

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
    size_t n_pieces = count_pieces(n, grain);
#pragma omp parallel for schedule(dynamic) num_threads((int)threads->n_threads) if (n_pieces > 1)
    for (size_t piece = 0; piece < n_pieces; piece++)
        run_piece(body, context, n, grain, piece, (unsigned)omp_get_thread_num());
}

#else

enum {
    SPIN_NS = 40000,      /* longer than the serial stretch between two loops, shorter than anybody notices */
    SPINS_PER_CLOCK = 32, /* looks at the counter between two looks at the clock */
    STACK_BYTES =
        1 << 20, /* a worker needs this much: unpacked weights lie on it, and some systems give 128 KB */
};

struct Threads {
    /* The loop in progress: written between loops only, read by owners of a piece. */
    LoopBody *body;
    void *context;
    size_t n, grain, n_pieces;

    atomic_size_t to_deal;   /* pieces that nobody owns yet; taking one down by one makes it yours */
    atomic_size_t to_finish; /* pieces not finished, dealt or not */
    atomic_bool quit;

    pthread_mutex_t mutex;
    pthread_cond_t wake, finished;
    atomic_uint n_sleepers;    /* workers that sleep at `wake`, or are about to */
    atomic_bool caller_sleeps; /* at `finished`, or is about to */

    bool spin; /* false when there are more workers than CPUs: spinning would keep the others from theirs */
    unsigned n_threads, n_started;
    unsigned n_forks; /* before this pool was made: a child has none of the workers */
    struct Worker {
        Threads *threads;
        unsigned index;
        pthread_t handle;
    } workers[]; /* [n_threads − 1]: the calling thread is worker 0 and needs no entry */
};

static void pause_cpu(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool work_or_quit(Threads *threads) {
    return atomic_load(&threads->to_deal) > 0 || atomic_load(&threads->quit);
}

static bool all_finished(Threads *threads) { return atomic_load(&threads->to_finish) == 0; }

/* Spins until condition holds, or SPIN_NS have passed; returns whether it holds. */
static bool spin_until(Threads *threads, bool (*condition)(Threads *)) {
    if (!threads->spin) return condition(threads);
    int64_t start = now_ns();
    do {
        for (int i = 0; i < SPINS_PER_CLOCK; i++) {
            if (condition(threads)) return true;
            pause_cpu();
        }
    } while (now_ns() - start < SPIN_NS);
    return false;
}

/*
 * Both sleeps pair with a wake-up the same way. The sleeper announces itself and then looks at the
 * condition once more; the waker makes the condition true and then looks for announcements. In the
 * one order of all these (sequentially consistent) operations, either the sleeper sees the condition
 * or the waker sees the sleeper, and takes the mutex, which waits until the sleeper really sleeps.
 * They are exchanges where stores would do: qemu 7.2 lets an arm64 program's loads pass its stores.
 */
static void wait_for_work(Threads *threads) {
    if (spin_until(threads, work_or_quit)) return;
    pthread_mutex_lock(&threads->mutex);
    atomic_fetch_add(&threads->n_sleepers, 1);
    while (!work_or_quit(threads)) pthread_cond_wait(&threads->wake, &threads->mutex);
    atomic_fetch_sub(&threads->n_sleepers, 1);
    pthread_mutex_unlock(&threads->mutex);
}

static void wait_for_end(Threads *threads) {
    if (spin_until(threads, all_finished)) return;
    pthread_mutex_lock(&threads->mutex);
    atomic_exchange(&threads->caller_sleeps, true);
    while (!all_finished(threads)) pthread_cond_wait(&threads->finished, &threads->mutex);
    atomic_store(&threads->caller_sleeps, false);
    pthread_mutex_unlock(&threads->mutex);
}

static void wake_workers(Threads *threads) {
    if (atomic_load(&threads->n_sleepers) == 0) return;
    pthread_mutex_lock(&threads->mutex);
    pthread_cond_broadcast(&threads->wake);
    pthread_mutex_unlock(&threads->mutex);
}

static void wake_caller(Threads *threads) {
    if (!atomic_load(&threads->caller_sleeps)) return;
    pthread_mutex_lock(&threads->mutex);
    pthread_cond_signal(&threads->finished);
    pthread_mutex_unlock(&threads->mutex);
}

/* Takes pieces until none is left to deal. */
static void work(Threads *threads, unsigned worker) {
    size_t left = atomic_load(&threads->to_deal);
    while (left > 0) {
        /* A failed exchange reloads `left`. A stale `left` may fit again in a later loop; that does no harm. */
        if (!atomic_compare_exchange_weak(&threads->to_deal, &left, left - 1)) continue;
        size_t piece = threads->n_pieces - left;
        run_piece(threads->body, threads->context, threads->n, threads->grain, piece, worker);
        if (atomic_fetch_sub(&threads->to_finish, 1) == 1) wake_caller(threads);
        left = atomic_load(&threads->to_deal);
    }
}

static void *worker_main(void *argument) {
    struct Worker *worker = argument;
    fesetenv(FE_DFL_ENV);
    while (!atomic_load(&worker->threads->quit)) {
        work(worker->threads, worker->index);
        wait_for_work(worker->threads);
    }
    return NULL;
}

/* Of this process and those that it comes from; changed in a child that has one thread. */
static unsigned n_forks;
static pthread_once_t watched = PTHREAD_ONCE_INIT;
static void count_fork(void) { n_forks++; }
static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

/* Those that a program is sent: its own threads are to have them, and blocked ones are to stay so. A fault's come where it is. */
static void block_signals(sigset_t *callers) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF};
    sigset_t all;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_BLOCK, &all, callers);
}

Threads *threads_new(unsigned n_threads, Error *error) {
    if (n_threads == 0) {
        error_set(error, "a pool needs at least 1 thread");
        return NULL;
    }
    Threads *threads = calloc(1, sizeof *threads + (n_threads - 1) * sizeof *threads->workers);
    if (!threads) {
        error_set(error, "not enough memory for a pool of %u threads", n_threads);
        return NULL;
    }
    cpu_set_t cpus;
    sigset_t callers;
    pthread_attr_t attributes;
    size_t stack_bytes;
    threads->n_threads = n_threads;
    pthread_once(&watched, watch_forks);
    threads->n_forks = n_forks;
    threads->spin = n_threads <= allowed_cpus(&cpus);
    pthread_mutex_init(&threads->mutex, NULL);
    pthread_cond_init(&threads->wake, NULL);
    pthread_cond_init(&threads->finished, NULL);
    pthread_attr_init(&attributes);
    pthread_attr_getstacksize(&attributes, &stack_bytes);
    if (stack_bytes < STACK_BYTES) pthread_attr_setstacksize(&attributes, STACK_BYTES);
    block_signals(&callers);
    for (unsigned i = 0; i + 1 < n_threads; i++) {
        struct Worker *worker = &threads->workers[i];
        worker->threads = threads;
        worker->index = i + 1;
        int failure = pthread_create(&worker->handle, &attributes, worker_main, worker);
        if (failure) {
            error_set(error, "the system refuses thread %u of %u (%s); ask for fewer", i + 2, n_threads,
                      strerror(failure));
            break;
        }
        threads->n_started++;
    }
    pthread_sigmask(SIG_SETMASK, &callers, NULL);
    pthread_attr_destroy(&attributes);
    if (threads->n_started + 1 == n_threads) return threads;
    threads_free(threads);
    return NULL;
}

/* In a forked child mutex and conditions stay as they are: they may be held by, or wait for, who is not there. */
static bool has_workers(const Threads *threads) { return threads->n_forks == n_forks; }

void threads_free(Threads *threads) {
    if (!threads) return;
    if (!has_workers(threads)) {
        free(threads);
        return;
    }
    atomic_exchange(&threads->quit, true);
    wake_workers(threads);
    for (unsigned i = 0; i < threads->n_started; i++) pthread_join(threads->workers[i].handle, NULL);
    pthread_cond_destroy(&threads->finished);
    pthread_cond_destroy(&threads->wake);
    pthread_mutex_destroy(&threads->mutex);
    free(threads);
}

unsigned threads_count(const Threads *threads) { return threads->n_threads; }

void parallel_for(Threads *threads, size_t n, size_t grain, LoopBody *body, void *context) {
    size_t n_pieces = count_pieces(n, grain);
    if (threads->n_threads == 1 || n_pieces <= 1 || !has_workers(threads)) {
        for (size_t piece = 0; piece < n_pieces; piece++) run_piece(body, context, n, grain, piece, 0);
        return;
    }
    threads->body = body;
    threads->context = context;
    threads->n = n;
    threads->grain = grain;
    threads->n_pieces = n_pieces;
    atomic_store(&threads->to_finish, n_pieces);
    atomic_exchange(&threads->to_deal, n_pieces);
    wake_workers(threads);
    work(threads, 0);
    wait_for_end(threads);
}

#endif
