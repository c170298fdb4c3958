/* For a test that is linked with tests/faults.c and calls the library in its own process. */
#ifndef ATTN_TESTS_FAULTS_H
#define ATTN_TESTS_FAULTS_H

#include <stddef.h>

/*
 * From now on what `given` says fails, as ATTN_FAULT does ("": nothing), calls counted anew. No other thread may be at
 * work. Returns how many calls a fault has struck since this was called last.
 */
unsigned long faults_arm(const char *given);

/*
 * The numbers of the calls since then that came from places in the program from which no call before them came, of all names
 * together; good until the next such call. None where something is to fail.
 */
const unsigned long *faults_first_calls(size_t *n);

#endif
