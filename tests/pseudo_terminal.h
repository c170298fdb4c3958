/* Everything that a program writes to a pseudo-terminal, which a kernel may drop when the last writer goes. */
#ifndef PSEUDO_TERMINAL_H
#define PSEUDO_TERMINAL_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Reads into `text` until the program has ended, and closes both ends. The slave stays open meanwhile: a mark that is
 * written to it last says that all before it has come. Returns how many bytes there are, a 0 behind them.
 */
static size_t read_terminal(int master, int slave, pid_t program, int *status, char *text, size_t size) {
    static const char mark[] = "\001end\002";
    size_t n_mark = sizeof mark - 1, n = 0;
    for (bool ended = false;;) {
        struct pollfd ready = {.fd = master, .events = POLLIN};
        if (!ended && poll(&ready, 1, 5) == 0 && waitpid(program, status, WNOHANG) == program) {
            ended = true;
            if (write(slave, mark, n_mark) != (ssize_t)n_mark) break;
        }
        if (!ended && !(ready.revents & POLLIN)) continue;
        ssize_t got = read(master, text + n, size - 1 - n);
        if (got <= 0) break;
        n += (size_t)got;
        if (ended && n >= n_mark && memcmp(text + n - n_mark, mark, n_mark) == 0) {
            n -= n_mark;
            break;
        }
    }
    text[n] = '\0';
    close(slave);
    close(master);
    return n;
}

#endif
