/*
 * A connection is at all times in one of these states:
 *
 *   READING ─► WAITING ─► WORKING ─► WRITING ─► READING, or LINGERING where no further request can come
 *      └── what is answered at once ──┘
 *
 * All belong to the thread of the network, but the request and the answer of the one that is WORKING, which the worker has
 * meanwhile. While a request waits or is worked at nothing more is read of its connection; that it ends is noticed.
 */
#define _GNU_SOURCE /* accept4, POLLRDHUP */
#include "page/server.h"

#include "base/utf8.h"
#include "cli/process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_CONNECTIONS = 16,
    IDLE_MS = 30000,    /* between two requests */
    REQUEST_MS = 10000, /* from a request's first byte to its last */
    ANSWER_MS = 60000,  /* for a client to take an answer */
    LINGER_MS =
        1000, /* for it to hear that nothing more is read: an answer is lost where a close overtakes it */
    ENDING_MS = 1000, /* for all answers to go out when the server ends */
    RETRY_MS = 100,   /* when there is no room for one more open file */
    BACKLOG = 128,    /* connections that the system keeps until they are accepted */
    HEAD_ROOM = 1024,
    SHOWN_BYTES = 200, /* of a path, in the log */
};

typedef enum State { FREE, READING, WAITING, WORKING, WRITING, LINGERING } State;

typedef struct Connection {
    State state;
    int file; /* −1: FREE, or gone while WORKING */
    double deadline;
    double began; /* the request's first byte came; before that, the connection or the end of the last one */
    unsigned long turn; /* of the request, in order of arrival */
    char *in;           /* [n] of room: what has been read and is not answered */
    size_t n, room, needed;
    HttpRequest request;
    HttpAnswer answer;
    char head[HEAD_ROOM];
    size_t n_head, n_body, sent; /* sent: of both */
    bool closes;                 /* when the answer is out */
} Connection;

typedef struct Server {
    const Service *service;
    int listener;
    int wakes[2]; /* a pipe: what is read there says no more than that there is something to look at */
    bool ending;
    double listen_at; /* not before */
    unsigned long n_turns;
    Connection connections[MAX_CONNECTIONS];
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t has_job;
    Connection *job; /* being worked at, or NULL */
    bool done, closing;
    atomic_bool stop; /* the job is wanted no more */
} Server;

/* ---- The worker ---- */

static void *work(void *user) {
    Server *server = user;
    const Service *service = server->service;
    pthread_mutex_lock(&server->mutex);
    for (;;) {
        while (!server->closing && (!server->job || server->done))
            pthread_cond_wait(&server->has_job, &server->mutex);
        if (server->closing) break;
        Connection *job = server->job;
        pthread_mutex_unlock(&server->mutex);
        service->work(service->user, &job->request, &server->stop, &job->answer);
        pthread_mutex_lock(&server->mutex);
        server->done = true;
        ssize_t written = write(server->wakes[1], "", 1); /* a full pipe wakes, too */
        (void)written;
    }
    pthread_mutex_unlock(&server->mutex);
    return NULL;
}

/* ---- The log ---- */

/* A part of a path, in its visible form; the secret is left out. */
static void print_shown(String path, const char *secret) {
    size_t n_secret = strlen(secret);
    char shown[16];
    for (size_t at = 0; at < path.n && at < SHOWN_BYTES;) {
        if (path.n - at >= n_secret && memcmp(path.data + at, secret, n_secret) == 0) {
            fputs("...", stderr);
            at += n_secret;
            continue;
        }
        at += utf8_show(path.data + at, path.n - at, shown);
        fputs(shown, stderr);
    }
}

/* "14:03:22 POST /.../ask 200 1234 bytes 5.1 ms"; "gone" where the client did not wait for the answer. */
static void log_request(const Server *server, const Connection *c, bool gone) {
    char clock[16];
    time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    strftime(clock, sizeof clock, "%H:%M:%S", &local);
    fprintf(stderr, "%s ", clock);
    print_shown(c->request.method.n ? c->request.method : (String){"-", 1}, server->service->secret);
    putc(' ', stderr);
    print_shown(c->request.target.n ? c->request.target : (String){"-", 1}, server->service->secret);
    if (gone)
        fprintf(stderr, " gone");
    else
        fprintf(stderr, " %d %zu bytes", c->answer.status, c->n_body);
    fprintf(stderr, " %.1f ms\n", now_ms() - c->began);
}

/* ---- Connections ---- */

/* Tells after a call of the system whether it may be made again, later. */
static bool is_passing(void) { return errno == EAGAIN || errno == EINTR; }

static void drop_answer(Connection *c) {
    free(c->answer.owned);
    c->answer = (HttpAnswer){0};
}

static void close_connection(Connection *c) {
    if (c->file >= 0) close(c->file);
    free(c->in);
    drop_answer(c);
    *c = (Connection){.file = -1};
}

static void begin_reading(Connection *c) {
    c->state = READING;
    c->needed = 1;
    c->request = (HttpRequest){0};
    c->began = now_ms();
    c->deadline = c->began + (c->n ? REQUEST_MS : IDLE_MS);
}

/* A client that has gone; its request is no longer of interest. What is being worked at ends by itself, later. */
static void lose(Server *server, Connection *c) {
    if (c->state == WAITING || c->state == WORKING || c->state == WRITING) log_request(server, c, true);
    if (c->state != WORKING) {
        close_connection(c);
        return;
    }
    close(c->file);
    c->file = -1;
    c->deadline = INFINITY;
    atomic_store(&server->stop, true);
}

static void write_more(Server *server, Connection *c) {
    for (;;) {
        bool in_head = c->sent < c->n_head;
        size_t at = in_head ? c->sent : c->sent - c->n_head, end = in_head ? c->n_head : c->n_body;
        if (!in_head && at == end) break;
        int flags = MSG_NOSIGNAL | (in_head && c->n_body ? MSG_MORE : 0);
        ssize_t n = send(c->file, (in_head ? c->head : c->answer.body) + at, end - at, flags);
        if (n < 0) {
            if (!is_passing()) lose(server, c);
            return;
        }
        c->sent += (size_t)n;
        if (!in_head && c->sent < c->n_head + c->n_body) return; /* others come first */
    }
    log_request(server, c, false);
    drop_answer(c);
    if (c->closes && server->ending) {
        close_connection(c);
        return;
    }
    if (c->closes) {
        shutdown(c->file, SHUT_WR);
        c->state = LINGERING;
        c->deadline = now_ms() + (double)LINGER_MS;
        return;
    }
    c->n -= c->needed;
    memmove(c->in, c->in + c->needed, c->n);
    begin_reading(c);
}

static void begin_writing(Server *server, Connection *c) {
    const HttpAnswer *answer = &c->answer;
    char date[40];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &utc);
    c->closes = c->closes || c->request.closes;
    const bool refused = answer->status == 405;
    c->n_head = (size_t)snprintf(
        c->head, sizeof c->head,
        "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s; charset=utf-8\r\nContent-Length: %zu\r\n"
        "%s%s%sConnection: %s\r\nContent-Security-Policy: %s\r\nX-Content-Type-Options: nosniff\r\n"
        "Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n"
        "Cross-Origin-Opener-Policy: same-origin\r\nCache-Control: no-store\r\n\r\n",
        answer->status, http_reason(answer->status), date, answer->type, answer->n, refused ? "Allow: " : "",
        refused ? answer->allow : "", refused ? "\r\n" : "", c->closes ? "close" : "keep-alive",
        answer->policy);
    c->n_body = string_equals(c->request.method, "HEAD") ? 0 : answer->n;
    c->sent = 0;
    c->state = WRITING;
    c->deadline = now_ms() + (server->ending ? ENDING_MS : ANSWER_MS);
    write_more(server, c);
}

/* An answer of the server's own: what is wrong with the request, or with the hour. */
static void answer_plainly(Server *server, Connection *c, int status) {
    const char *reason = http_reason(status);
    c->answer = (HttpAnswer){status, "text/plain", "default-src 'none'; frame-ancestors 'none'", reason,
                             strlen(reason)};
    c->closes = true;
    begin_writing(server, c);
}

/* Answers the request that has been read, if it is whole. */
static void take_request(Server *server, Connection *c) {
    if (c->n < c->needed) return;
    int status = http_read(c->in, c->n, &c->request, &c->needed);
    if (status == 0) {
        c->request = (HttpRequest){0}; /* where it lies may change */
        return;
    }
    if (status != 200) {
        answer_plainly(server, c, status);
        return;
    }
    server->service->route(server->service->user, &c->request, &c->answer);
    if (c->answer.status) {
        begin_writing(server, c);
        return;
    }
    c->state = WAITING;
    c->deadline = INFINITY;
    c->turn = server->n_turns++;
}

static void read_more(Server *server, Connection *c) {
    if (c->room - c->n < 4096) {
        size_t room = c->needed > c->room ? c->needed + 4096 : 2 * c->room + 4096;
        char *in = realloc(c->in, room);
        if (!in) {
            lose(server, c);
            return;
        }
        c->in = in, c->room = room;
    }
    ssize_t n = recv(c->file, c->in + c->n, c->room - c->n, 0);
    if (n <= 0) {
        if (n == 0 || !is_passing()) lose(server, c);
        return;
    }
    if (c->n == 0) c->began = now_ms(), c->deadline = c->began + (double)REQUEST_MS;
    c->n += (size_t)n;
    take_request(server, c);
}

/* Nothing that still comes is looked at. */
static void linger(Server *server, Connection *c) {
    char unread[4096];
    ssize_t n = recv(c->file, unread, sizeof unread, 0);
    if (n == 0 || (n < 0 && !is_passing())) lose(server, c);
}

static void time_out(Server *server, Connection *c) {
    if (c->state == READING && c->n)
        answer_plainly(server, c, 408);
    else
        lose(server, c);
}

/* ---- The server ---- */

/* The connection whose client has kept us waiting longest; NULL: all are at work, or free. */
static Connection *longest_silent(Server *server) {
    Connection *longest = NULL;
    for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
        Connection *c = &server->connections[i];
        bool silent = c->state == READING || c->state == LINGERING;
        if (silent && (!longest || c->began < longest->began)) longest = c;
    }
    return longest;
}

/* A connection for one more client: a free one, or that one; NULL: there is none. */
static Connection *find_room(Server *server) {
    for (size_t i = 0; i < MAX_CONNECTIONS; i++)
        if (server->connections[i].state == FREE) return &server->connections[i];
    return longest_silent(server);
}

static void accept_one(Server *server) {
    Connection *c = find_room(server);
    if (!c) return;
    int file = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (file < 0 && !is_passing() && errno != ECONNABORTED) { /* too many files are open */
        c = longest_silent(server);
        if (c) close_connection(c);
        server->listen_at = now_ms() + (double)RETRY_MS;
    }
    if (file < 0) return;
    close_connection(c);
    setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    c->file = file;
    begin_reading(c);
}

/* Takes what the worker has done, and gives it the oldest request that waits. */
static void deal(Server *server) {
    Connection *next = NULL, *ready = NULL;
    for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
        Connection *c = &server->connections[i];
        if (c->state == WAITING && (!next || c->turn < next->turn)) next = c;
    }
    pthread_mutex_lock(&server->mutex);
    if (server->done) {
        ready = server->job;
        server->job = NULL;
        server->done = false;
    }
    if (!server->job && next) {
        server->job = next;
        next->state = WORKING;
        atomic_store(&server->stop, false);
        pthread_cond_signal(&server->has_job);
    }
    pthread_mutex_unlock(&server->mutex);
    if (!ready) return;
    if (ready->file < 0) {
        close_connection(ready);
    } else if (server->ending) {
        drop_answer(ready);
        answer_plainly(server, ready, 503);
    } else {
        begin_writing(server, ready);
    }
}

/* Once: nothing more is read, and who still waits for an answer hears that there will be none. */
static void begin_ending(Server *server) {
    server->ending = true;
    atomic_store(&server->stop, true);
    for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
        Connection *c = &server->connections[i];
        if (c->state == READING || c->state == LINGERING) close_connection(c);
        if (c->state == WAITING) answer_plainly(server, c, 503);
        if (c->state == WRITING) c->closes = true, c->deadline = now_ms() + (double)ENDING_MS;
    }
}

static bool is_busy(const Server *server) {
    for (size_t i = 0; i < MAX_CONNECTIONS; i++)
        if (server->connections[i].state != FREE) return true;
    return false;
}

/* Whether a request, or a part of one, came in one piece with the last one. */
static bool has_unread(const Connection *c) { return c->state == READING && c->n >= c->needed; }

static void handle(Server *server, Connection *c, short events) {
    bool closed = events & (POLLERR | POLLHUP | POLLNVAL | POLLRDHUP);
    if (c->state == READING && events)
        read_more(server, c);
    else if (c->state == LINGERING && events)
        linger(server, c);
    else if (c->state == WRITING && events)
        write_more(server, c);
    else if ((c->state == WAITING || c->state == WORKING) && closed)
        lose(server, c);
    while (has_unread(c)) take_request(server, c);
    if (c->state != FREE && c->deadline <= now_ms()) time_out(server, c);
}

/* Waits until something happens, and does what is to be done. Returns false where the system does not let us wait. */
static bool turn(Server *server) {
    static const short events[] = {[READING] = POLLIN,
                                   [WAITING] = POLLRDHUP,
                                   [WORKING] = POLLRDHUP,
                                   [WRITING] = POLLOUT,
                                   [LINGERING] = POLLIN};
    struct pollfd files[MAX_CONNECTIONS + 2];
    bool listens = !server->ending && find_room(server);
    double now = now_ms(), until = now + (double)IDLE_MS;
    if (listens && server->listen_at > now) listens = false, until = server->listen_at;
    for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
        const Connection *c = &server->connections[i];
        files[i] = (struct pollfd){.fd = c->file, .events = events[c->state]};
        if (c->state != FREE && c->deadline < until) until = c->deadline;
        if (has_unread(c)) until = now;
    }
    files[MAX_CONNECTIONS] = (struct pollfd){.fd = server->wakes[0], .events = POLLIN};
    files[MAX_CONNECTIONS + 1] = (struct pollfd){.fd = listens ? server->listener : -1, .events = POLLIN};
    if (poll(files, MAX_CONNECTIONS + 2, until > now ? (int)(until - now) + 1 : 0) < 0) return errno == EINTR;
    char unused[64];
    ssize_t woken = files[MAX_CONNECTIONS].revents ? read(server->wakes[0], unused, sizeof unused) : 0;
    (void)woken;
    for (size_t i = 0; i < MAX_CONNECTIONS; i++) handle(server, &server->connections[i], files[i].revents);
    deal(server);
    if (files[MAX_CONNECTIONS + 1].revents) accept_one(server);
    return true;
}

int server_listen(unsigned *port, Error *error) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*port)};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int file = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* A port that a server has just left may be taken at once; two at a time never have one. */
    if (file >= 0 && setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0 &&
        bind(file, (struct sockaddr *)&address, size) == 0 && listen(file, BACKLOG) == 0 &&
        getsockname(file, (struct sockaddr *)&address, &size) == 0) {
        *port = ntohs(address.sin_port);
        return file;
    }
    error_set(error, "cannot listen on 127.0.0.1:%u: %s%s", *port, strerror(errno),
              errno == EADDRINUSE ? "; another --port may be free" : "");
    if (file >= 0) close(file);
    return -1;
}

/* All but the worker's thread. */
static bool start(Server *server, Error *error) {
    if (pipe2(server->wakes, O_NONBLOCK | O_CLOEXEC) != 0)
        return error_set(error, "cannot serve: %s", strerror(errno));
    pthread_mutex_init(&server->mutex, NULL);
    pthread_cond_init(&server->has_job, NULL);
    for (size_t i = 0; i < MAX_CONNECTIONS; i++) server->connections[i].file = -1;
    catch_ends(server->wakes[1]);
    return true;
}

static void stop(Server *server) {
    catch_ends(-1);
    for (size_t i = 0; i < MAX_CONNECTIONS; i++) close_connection(&server->connections[i]);
    pthread_mutex_destroy(&server->mutex);
    pthread_cond_destroy(&server->has_job);
    close(server->wakes[0]), close(server->wakes[1]);
}

static bool serve(Server *server, Error *error) {
    pthread_t worker;
    int failed = pthread_create(&worker, NULL, work, server);
    if (failed) return error_set(error, "cannot start a thread: %s", strerror(failed));
    bool ok = true;
    while (ok && !(server->ending && !is_busy(server))) {
        ok = turn(server) || error_set(error, "cannot wait for requests: %s", strerror(errno));
        if (interrupted() && !server->ending) begin_ending(server);
    }
    pthread_mutex_lock(&server->mutex);
    server->closing = true;
    atomic_store(&server->stop, true);
    pthread_cond_signal(&server->has_job);
    pthread_mutex_unlock(&server->mutex);
    pthread_join(worker, NULL);
    return ok;
}

bool server_run(int listener, const Service *service, Error *error) {
    Server server = {.service = service, .listener = listener};
    bool ok = start(&server, error);
    if (ok) {
        ok = serve(&server, error);
        stop(&server);
    }
    close(listener);
    return ok;
}
