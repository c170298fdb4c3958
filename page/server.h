/*
 * A small HTTP server for one machine: it listens on 127.0.0.1 alone, one thread has all connections, another does what takes
 * long, one request after another. A client that is slow, silent, broken or hostile keeps nobody else waiting. Who may ask
 * for what is the service's matter.
 */
#ifndef ATTN_SERVER_H
#define ATTN_SERVER_H

#include "base/error.h"
#include "page/http.h"

#include <stdatomic.h>

typedef struct HttpAnswer {
    int status;         /* 0: there is none */
    const char *type;   /* of the body: "text/html" */
    const char *policy; /* Content-Security-Policy */
    const char *body;   /* [n] */
    size_t n;
    char *owned;       /* freed when the answer has gone out: the body, or NULL where that lives on */
    const char *allow; /* with status 405: the methods that the target takes */
} HttpAnswer;

typedef struct Service {
    /* Answers a request at once, or leaves answer->status 0: it is then worked at. */
    void (*route)(void *user, const HttpRequest *request, HttpAnswer *answer);
    /* Answers it, on a thread of its own. When *stop is set nobody waits for it any more: any answer does. */
    void (*work)(void *user, const HttpRequest *request, const atomic_bool *stop, HttpAnswer *answer);
    void *user;
    const char *secret; /* that the log must not show where a path has it */
} Service;

/* A socket that listens on 127.0.0.1; of port 0, which becomes the one that it got, any that is free. −1 with an error. */
int server_listen(unsigned *port, Error *error);

/*
 * Serves, and closes the listener in the end, which is at SIGINT or SIGTERM: what is being worked at is then stopped, and
 * what has been answered goes out. One line on stderr tells of each request. For the main thread, after catch_signals.
 */
bool server_run(int listener, const Service *service, Error *error);

#endif
