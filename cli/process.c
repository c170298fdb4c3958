#include "cli/process.h"

#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { GRACE_US = 100000 }; /* after Ctrl-C, to notice it and end in order */

static atomic_int stopped_by; /* a signal that asked for an end, or 0; any thread may look */
static pthread_t main_thread;
static char cut_short[96]; /* what on_bus_error says: it must not format anything itself */

/* setitimer is on no list of what a handler may call, but it is no more than a call of the system. */
static void set_grace(suseconds_t us) {
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = us}, NULL);
}

/* Ends the process as if nobody had caught the signal; within its handler, when that returns. */
static void end_by(int signal_number) {
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void (*volatile restore_first)(void);
static volatile sig_atomic_t is_patient;

/* The main thread writes files, and is not to go on with one that is removed meanwhile. */
static void on_signal(int signal_number) {
    if (!pthread_equal(pthread_self(), main_thread)) {
        pthread_kill(main_thread, signal_number);
        return;
    }
    if (!stopped_by && (signal_number == SIGINT || output_is_finished())) {
        stopped_by = signal_number;
        if (!output_is_finished() && !is_patient) set_grace(GRACE_US);
        return;
    }
    bool grace_is_over = signal_number == SIGALRM && stopped_by;
    if (grace_is_over && output_is_finished()) return; /* it began before that: all is done */
    output_remove_unfinished();
    if (restore_first) restore_first();
    end_by(grace_is_over ? stopped_by : signal_number);
}

static volatile sig_atomic_t wake_file;

static void on_end(int signal_number) {
    int before = errno;
    if (stopped_by) {
        end_by(signal_number);
        return;
    }
    stopped_by = signal_number;
    ssize_t written = write((int)wake_file, "", 1);
    (void)written;
    errno = before;
}

/* Reading a mapping beyond the end that its file has by now, or where its disk fails. Of several threads one speaks. */
static void on_bus_error(int signal_number) {
    static atomic_flag told = ATOMIC_FLAG_INIT;
    (void)signal_number;
    while (atomic_flag_test_and_set(&told)) pause();
    ssize_t written = write(STDERR_FILENO, cut_short, strlen(cut_short));
    (void)written;
    output_remove_unfinished();
    if (restore_first) restore_first();
    _exit(EXIT_BAD_INPUT);
}

/*
 * A standard stream that is closed would be the next file that is opened: a model read as the prompt, a text written into
 * an output. Each is opened the wrong way round, so that reading or writing fails as it does while it is closed.
 */
static void occupy_closed_streams(void) {
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
        if (fcntl(i, F_GETFD) < 0) open("/dev/null", i == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/* Catches signals but those that are ignored, as nohup and & ask; the alarm is ours. */
static void catch_all(const int *signals, size_t n, void (*handler)(int)) {
    /* Restarted, or a text half written would be lost. Reading goes on, too, until the grace is over. */
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < n; i++) {
        sigaction(signals[i], NULL, &before);
        if (before.sa_handler != SIG_IGN || signals[i] == SIGALRM) sigaction(signals[i], &action, NULL);
    }
}

void catch_signals(const char *program) {
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2};
    occupy_closed_streams();
    main_thread = pthread_self();
    catch_all(ends, sizeof ends / sizeof *ends, on_signal);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    snprintf(cut_short, sizeof cut_short,
             "%s: the model's file was cut short, or could not be read further\n", program);
    signal(SIGBUS, on_bus_error);
}

void catch_ends(int wake) {
    static const int ends[] = {SIGINT, SIGTERM};
    wake_file = wake;
    catch_all(ends, sizeof ends / sizeof *ends, on_end);
}

bool interrupted(void) { return stopped_by; }

void expect_interrupt(void) { is_patient = true; }

void before_end(void (*restore)(void)) { restore_first = restore; }

void forget_interrupt(void) {
    is_patient = false;
    if (stopped_by != SIGINT) return;
    set_grace(0);
    stopped_by = 0;
}

void last_words(void) { set_grace(0); }

int end_program(int code) {
    if (code == EXIT_SUCCESS || !stopped_by) return code;
    fflush(NULL);
    end_by(stopped_by);
    return EXIT_INTERRUPTED;
}

uint64_t clock_seed(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec) & (((uint64_t)1 << 53) - 1);
}

double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

uint64_t peak_rss_bytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}
