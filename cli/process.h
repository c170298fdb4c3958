/*
 * A program as a process: its exit code, the signals that ask it to end, its clock and its memory.
 */
#ifndef ATTN_PROCESS_H
#define ATTN_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Exit codes. */
enum { EXIT_BAD_INPUT = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

/*
 * From now on Ctrl-C sets what interrupted() tells, and the program has a tenth of a second to notice. When that is
 * over, or at a second Ctrl-C or another signal that ends a process, the file that is not whole goes (output.h), and the
 * process ends as that signal ends one; once a file has its name the first such signal waits for the end, however long
 * that takes. Signals that were ignored stay ignored. Writing to a closed pipe, or beyond a limit on files, fails; so
 * does using a standard stream that was closed at the start. Where a mapped file has been cut short meanwhile `program`
 * says so and ends with EXIT_BAD_INPUT. For the main thread.
 */
void catch_signals(const char *program);
bool interrupted(void);

/*
 * From now on Ctrl-C and SIGTERM do no more than that, and write a byte to the file `wake`: for a program that ends in
 * order whenever it is asked to. A second one ends it as if nobody had caught it. After catch_signals.
 */
void catch_ends(int wake);

/*
 * From now on the program notices Ctrl-C when it can, however late, and only a second one ends it; until
 * forget_interrupt, after which it goes on as if Ctrl-C had not come. No other signal is forgotten.
 */
void expect_interrupt(void);
void forget_interrupt(void);

/* Sets what is done before a signal ends the process, within a handler; NULL: nothing more. */
void before_end(void (*restore)(void));

/* A program that has noticed Ctrl-C in time may print what it has, however long that takes. */
void last_words(void);

/*
 * The exit code, for main to return when all else is done. 0 says that all was done that was asked for, even after a
 * signal that came too late; any other code ends the process by the signal that came, so that a shell's loop ends, too.
 */
int end_program(int code);

/* A seed from the clock, below 2^53, so that readers of JSON who know doubles only can give it back to -s. */
uint64_t clock_seed(void);

/* Milliseconds of a clock that only goes forward, and the most memory the process has had. */
double now_ms(void);
uint64_t peak_rss_bytes(void);

#endif
