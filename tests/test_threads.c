/* The pool: every index handed out exactly once, for pools and loops of many sizes, and no lost wake-up. */
#define _GNU_SOURCE /* CPU_SET */

#include "base/threads.h"
#include "model.h"
#include "tests/test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
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

/* CPUs that may run us and are the first of those that share their core; 0 when the kernel does not say. */
static unsigned first_siblings(const cpu_set_t *allowed) {
    unsigned n = 0;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char path[96], list[256] = "";
        if (!CPU_ISSET(cpu, allowed)) continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list", cpu);
        FILE *file = fopen(path, "r");
        if (!file || !fgets(list, sizeof list, file)) return 0;
        fclose(file);
        bool first = true;
        for (char *at = list; *at && *at != '\n'; at += *at == ',') { /* "0,64", "0-1" */
            size_t from = strtoul(at, &at, 10), to = *at == '-' ? strtoul(at + 1, &at, 10) : from;
            for (size_t other = from; other <= to && other < cpu; other++)
                first &= !CPU_ISSET(other, allowed);
        }
        n += first;
    }
    return n;
}

static void test_physical_cores(void) {
    long online = sysconf(_SC_NPROCESSORS_CONF);
    unsigned cores = threads_physical_cores();
    CHECK(cores >= 1 && (long)cores <= online, "%u cores of %ld CPUs", cores, online);

    cpu_set_t allowed, some;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) SKIP("nobody says which CPUs there are");
    unsigned n = first_siblings(&allowed);
    CHECK(n == 0 || cores == n, "%u cores, and %u CPUs are the first of theirs", cores, n);
    size_t last = CPU_SETSIZE - 1;
    while (last > 0 && !CPU_ISSET(last, &allowed)) last--;
    some = allowed;
    for (size_t cpu = 0; cpu < last; cpu++) CPU_CLR(cpu, &some); /* one is left */
    if (sched_setaffinity(0, sizeof some, &some) == 0) cores = threads_physical_cores();
    CHECK(cores == 1, "%u cores of one CPU", cores);
    sched_setaffinity(0, sizeof allowed, &allowed);
}

/* Every loop of the engine passes here: how many there are, and how many have a piece for everyone. */
static size_t n_loops, n_shared;

void __real_parallel_for(Threads *threads, size_t n, size_t grain, LoopBody *body, void *context);
void __wrap_parallel_for(Threads *threads, size_t n, size_t grain, LoopBody *body, void *context);
void __wrap_parallel_for(Threads *threads, size_t n, size_t grain, LoopBody *body, void *context) {
    n_loops++;
    n_shared += (n - 1) / grain + 1 >= threads_count(threads);
    __real_parallel_for(threads, n, grain, body, context);
}

/* Work for all: only then do more threads help, which no result shows. */
static void test_loops_of_a_forward_pass(void) {
    Error error;
    int32_t ids[64] = {0};
    Model *model = model_open("weights/model.gguf", &error);
    Threads *threads = threads_new(4, &error);
    CHECK(model && threads, "%s", error.message);
    if (!model || !threads) return;
    for (size_t n = 1; n <= 64; n *= 64) {
        SessionOptions options = {.kv_dtype = DTYPE_F32,
                                  .compute = {.kernels = kernels_pick("scalar", &error), .threads = threads}};
        Session *session = session_new(model, &options, &error);
        n_loops = n_shared = 0;
        CHECK(session && session_feed(session, ids, n, NULL, 0, &error), "%s", error.message);
        /* Of one token there are rows of matrices (four loops a layer) and heads; of many all but its keys and values. */
        CHECK(n_shared >= (n == 1 ? 5 : 12) * model_config(model)->n_layer, "%zu tokens: %zu of %zu", n,
              n_shared, n_loops);
        session_free(session);
    }
    threads_free(threads);
    model_close(model);
}

/* What whoever has the pool blocks, and waits for, does not end the process by way of a worker. */
static void test_signals(void) {
#ifdef _OPENMP
    SKIP("OpenMP's threads are its own");
#endif
    Error error;
    sigset_t waited, before, pending;
    Threads *threads = threads_new(4, &error);
    sigemptyset(&waited);
    sigaddset(&waited, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &waited, &before);
    kill(getpid(), SIGTERM);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGTERM) == 1, "who has it?");
    int received = 0;
    CHECK(sigwait(&waited, &received) == 0 && received == SIGTERM, "%d", received);
    pthread_sigmask(SIG_SETMASK, &before, &pending);
    CHECK(threads && sigismember(&before, SIGUSR1) == 0, "the caller's own are as they were");
    threads_free(threads);
}

int main(void) {
    RUN(test_every_index_once);
    RUN(test_short_loops);
    RUN(test_loops_after_pauses);
    RUN(test_sleeping_caller);
    RUN(test_workers_take_part);
    RUN(test_new_and_free);
    RUN(test_physical_cores);
    RUN(test_loops_of_a_forward_pass);
    RUN(test_signals);
    return test_end();
}
