/* The pool: every index handed out exactly once, for pools and loops of many sizes, and no lost wake-up. */
#include "tests/test.h"
#include "threads.h"

#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { MAX_N = 3000, MAX_THREADS = 8 };

typedef struct Visits {
    unsigned count[MAX_N]; /* how often an index was handed out; a piece owns its indices, so no lock */
    unsigned worker[MAX_N];
    size_t n, grain;
} Visits;

static void visit(void *context, size_t begin, size_t end, unsigned worker) {
    Visits *visits = context;
    size_t n = visits->n, grain = visits->grain;
    size_t expected_end = n - begin < grain ? n : begin + grain;
    for (size_t i = begin; i < end && i < n; i++) {
        /* A piece of the wrong shape counts double, so that it is found below. */
        visits->count[i] += begin % grain == 0 && end == expected_end ? 1 : 2;
        visits->worker[i] = worker;
    }
}

static void check_loop(Threads *threads, size_t n, size_t grain) {
    static Visits visits;
    memset(&visits, 0, sizeof visits);
    visits.n = n;
    visits.grain = grain;
    parallel_for(threads, n, grain, visit, &visits);
    unsigned n_threads = threads_count(threads);
    for (size_t i = 0; i < MAX_N; i++) {
        CHECK(visits.count[i] == (i < n), "index %zu of %zu, grain %zu, %u threads: %u times", i, n, grain,
              n_threads, visits.count[i]);
        CHECK(visits.worker[i] < n_threads, "worker %u of %u", visits.worker[i], n_threads);
    }
}

static void test_every_index_once(void) {
    static const size_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 64, 100, 1000, 2999};
    static const size_t grains[] = {1, 2, 3, 8, 64, 999, 5000, (size_t)-1};
    for (unsigned n_threads = 1; n_threads <= MAX_THREADS; n_threads++) {
        Threads *threads = threads_new(n_threads, NULL);
        CHECK(threads && threads_count(threads) == n_threads, "%u", n_threads);
        if (!threads) return;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t j = 0; j < sizeof grains / sizeof *grains; j++)
                check_loop(threads, sizes[i], grains[j]);
        threads_free(threads);
    }
}

static void add_one(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    for (size_t i = begin; i < end; i++) ((unsigned *)context)[i]++;
}

/* Loop after loop without a pause: one missed wake-up or end would hang here. */
static void test_short_loops(void) {
    enum { LOOPS = 10000, N = 5 };
    for (unsigned n_threads = 2; n_threads <= MAX_THREADS; n_threads += 2) {
        Threads *threads = threads_new(n_threads, NULL);
        if (!threads) return;
        unsigned count[N] = {0};
        for (int i = 0; i < LOOPS; i++) parallel_for(threads, N, 1, add_one, count);
        for (size_t i = 0; i < N; i++) CHECK(count[i] == LOOPS, "%u times in %d loops", count[i], LOOPS);
        threads_free(threads);
    }
}

/* Pauses about as long as workers spin, so that loops begin while workers fall asleep. */
static void test_loops_after_pauses(void) {
    enum { LOOPS = 300, N = 16 };
    Threads *threads = threads_new(2, NULL);
    if (!threads) return;
    unsigned count[N] = {0};
    for (int i = 0; i < LOOPS; i++) {
        struct timespec pause = {0, 1000L * (i % 100)};
        nanosleep(&pause, NULL);
        parallel_for(threads, N, 1, add_one, count);
    }
    for (size_t i = 0; i < N; i++) CHECK(count[i] == LOOPS, "%u times in %d loops", count[i], LOOPS);
    threads_free(threads);
}

static void sleep_in_last_piece(void *context, size_t begin, size_t end, unsigned worker) {
    (void)end;
    struct timespec pause = {0, 200000};
    if (worker > 0 || begin == 0) nanosleep(&pause, NULL);
    ((unsigned *)context)[begin]++;
}

/* Workers slower than the caller, so that the caller sleeps too and must be woken. */
static void test_sleeping_caller(void) {
    enum { LOOPS = 200, N = 4 };
    Threads *threads = threads_new(4, NULL);
    if (!threads) return;
    unsigned count[N] = {0};
    for (int i = 0; i < LOOPS; i++) parallel_for(threads, N, 1, sleep_in_last_piece, count);
    for (size_t i = 0; i < N; i++) CHECK(count[i] == LOOPS, "%u times in %d loops", count[i], LOOPS);
    threads_free(threads);
}

static void meet(void *context, size_t begin, size_t end, unsigned worker) {
    (void)begin, (void)end, (void)worker;
    atomic_uint *arrived = context;
    atomic_fetch_add(arrived, 1);
    for (int i = 0; i < 10000 && atomic_load(arrived) < 2; i++) {
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
    }
}

/* Two pieces that wait for each other: a worker fast asleep has to be woken for one of them. */
static void test_workers_take_part(void) {
    Threads *threads = threads_new(2, NULL);
    if (!threads) return;
    for (int i = 0; i < 20; i++) {
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
        atomic_uint arrived = 0;
        time_t start = time(NULL);
        parallel_for(threads, 2, 1, meet, &arrived);
        CHECK(time(NULL) - start < 5, "the caller did both pieces");
    }
    threads_free(threads);
}

static void test_new_and_free(void) {
    for (int i = 0; i < 300; i++) {
        Threads *threads = threads_new(1 + (unsigned)i % MAX_THREADS, NULL);
        CHECK(threads, "%d", i);
        unsigned count[8] = {0};
        if (threads && i % 3) parallel_for(threads, 8, 1, add_one, count);
        if (threads && i % 3) CHECK(count[0] == 1 && count[7] == 1, "%d", i);
        threads_free(threads);
    }
    threads_free(NULL);
    Error error = {""};
    CHECK(threads_new(0, &error) == NULL && error.message[0], "a pool of none must be refused with a reason");
}

static void test_physical_cores(void) {
    long online = sysconf(_SC_NPROCESSORS_CONF);
    unsigned cores = threads_physical_cores();
    CHECK(cores >= 1 && (long)cores <= online, "%u cores of %ld CPUs", cores, online);
}

int main(void) {
    RUN(test_every_index_once);
    RUN(test_short_loops);
    RUN(test_loops_after_pauses);
    RUN(test_sleeping_caller);
    RUN(test_workers_take_part);
    RUN(test_new_and_free);
    RUN(test_physical_cores);
    return test_end();
}
