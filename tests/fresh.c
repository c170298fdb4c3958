/*
 * fresh PROGRAM [ARGUMENT…]: runs it with no signal ignored or blocked, as a shell on a terminal does. Under nohup, or in the
 * background of a script, some are ignored, and no shell can take that back.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 1; i < 65; i++) signal(i, SIG_DFL); /* those that are none fail */
    if (argc > 1) execvp(argv[1], argv + 1);
    perror(argc > 1 ? argv[1] : "fresh: no program is named");
    return 127;
}
