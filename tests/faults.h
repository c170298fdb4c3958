/* For a test that is linked with tests/faults.c and calls the library in its own process. */
#ifndef ATTN_TESTS_FAULTS_H
#define ATTN_TESTS_FAULTS_H

/*
 * From now on what `given` says fails, as ATTN_FAULT does ("": nothing), calls counted anew. No other thread may be at
 * work. Returns how many calls a fault has struck since this was called last.
 */
unsigned long faults_arm(const char *given);

#endif
