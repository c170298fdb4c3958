/*
 * study serve, asked over its socket by clients that are right, wrong, slow, silent, gone or many. What an ask answers must be
 * what the view prints, to the byte. Waiting for the server's own time limits takes ATTN_LONG_TESTS=1.
 */
#include "programs.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>

static const char model[] = "tests/data/reference/gpt2-f32.gguf";
enum { MAX_CLIENTS = 16, PATIENCE_S = 60 };

/* ---- The server ---- */

typedef struct Server {
    pid_t process;
    char origin[64], path[64]; /* "http://127.0.0.1:80", "/TOKEN/" */
    unsigned port;
} Server;

static void (*on_interrupt)(int) = SIG_DFL; /* what it finds as it starts */

/* Its address is the line that it prints; without one, server.port stays 0. Its log is the file "log". */
static Server server_try(const char *program, const char *option, const char *value) {
    Server server = {.process = -1};
    char line[256] = "";
    int out[2];
    fflush(stdout);
    if (pipe(out) != 0 || (server.process = fork()) < 0) exit(1);
    if (server.process == 0) {
        signal(SIGINT, on_interrupt);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that dies leaves no server */
        if (dup2(out[1], STDOUT_FILENO) < 0 || !freopen(scratch_path("log"), "w", stderr)) _exit(1);
        close(out[0]), close(out[1]);
        execl(program, "study", "serve", model, "-t", "2", option, value, NULL);
        _exit(1);
    }
    close(out[1]);
    FILE *lines = fdopen(out[0], "r");
    bool ok = lines && fgets(line, sizeof line, lines) &&
              sscanf(line, "%63[a-z0-9:/.]", server.origin) == 1 &&
              strncmp(line, "http://127.0.0.1", 16) == 0;
    char *path = ok ? strchr(server.origin + 7, '/') : NULL;
    if (path == server.origin + 16) server.port = 80; /* which is left out */
    if (path && strlen(path) == 34 && (server.port || sscanf(server.origin + 16, ":%u", &server.port) == 1)) {
        strcpy(server.path, path);
        *path = '\0';
    }
    if (lines) fclose(lines);
    return server;
}

static Server server_start_with(const char *option, const char *value) {
    const char *program = getenv("STUDY");
    Server server = server_try(program ? program : "./study", option, value);
    CHECK(server.port, "no address");
    return server;
}

static Server server_start(void) { return server_start_with(NULL, NULL); }

/* Its exit code, after a signal. */
static int server_end(Server *server, int signal_number) {
    int status = -1;
    kill(server->process, signal_number);
    waitpid(server->process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void stop(Server *server) {
    int code = server_end(server, SIGINT);
    size_t n;
    char *log = code == 0 ? NULL : read_whole(scratch_path("log"), &n);
    CHECK(code == 0, "the server ends with %d: %s", code, log);
    free(log);
    unlink(scratch_path("log"));
}

/* ---- A client ---- */

static int client_open(const Server *server) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)server->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int file = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval patience = {.tv_sec = PATIENCE_S};
    setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); /* pieces go at once */
    if (connect(file, (struct sockaddr *)&address, sizeof address) != 0) {
        perror("connect");
        exit(1);
    }
    return file;
}

static void client_send(int file, const char *bytes, size_t n) {
    while (n > 0) {
        ssize_t sent = send(file, bytes, n, MSG_NOSIGNAL);
        if (sent <= 0) return; /* refused before all was sent */
        bytes += sent, n -= (size_t)sent;
    }
}

typedef struct Reply {
    int status; /* 0: none came */
    char head[2048];
    char *body;
    size_t n;
} Reply;

static void release(Reply *reply) { free(reply->body); }

/* The server's answer, with a body unless it is of a HEAD. */
static Reply client_read(int file, bool has_body) {
    Reply reply = {.body = calloc(1, 1)};
    size_t n = 0;
    while (n + 1 < sizeof reply.head && recv(file, reply.head + n, 1, 0) == 1)
        if (++n >= 4 && memcmp(reply.head + n - 4, "\r\n\r\n", 4) == 0) break;
    reply.head[n] = '\0';
    const char *length = strstr(reply.head, "\r\nContent-Length: ");
    if (sscanf(reply.head, "HTTP/1.1 %d ", &reply.status) != 1 || !length) {
        reply.status = 0;
        return reply;
    }
    size_t most = strtoul(length + 18, NULL, 10);
    if (!has_body) return reply;
    reply.body = realloc(reply.body, most + 1);
    for (ssize_t got; reply.n < most && (got = recv(file, reply.body + reply.n, most - reply.n, 0)) > 0;)
        reply.n += (size_t)got;
    if (reply.n < most) reply.status = 0; /* not all of it */
    reply.body[reply.n] = '\0';
    return reply;
}

/* Whether the server has closed. */
static bool is_closed(int file) {
    char byte;
    return recv(file, &byte, 1, 0) <= 0;
}

/* An ask, as the page sends it: its bytes at `to` [room]. Returns how many there are. */
static size_t write_ask(const Server *server, char *to, size_t room, const char *body) {
    return (size_t)snprintf(
        to, room, "POST %sask HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nOrigin: %s\r\nContent-Length: %zu\r\n\r\n%s",
        server->path, server->port, server->origin, strlen(body), body);
}

static void client_ask(const Server *server, int file, const char *body) {
    char request[4096];
    client_send(file, request, write_ask(server, request, sizeof request, body));
}

static Reply asked(const Server *server, int file, const char *body) {
    client_ask(server, file, body);
    return client_read(file, true);
}

/* One request on a connection of its own; "@" stands for the path with the token, "#" for the port. */
static Reply sent(const Server *server, const char *request, bool *closed) {
    char text[2048];
    size_t n = 0;
    for (; *request && n + 64 < sizeof text; request++)
        if (*request == '@')
            n += (size_t)sprintf(text + n, "%s", server->path);
        else if (*request == '#')
            n += (size_t)sprintf(text + n, "%u", server->port);
        else
            text[n++] = *request;
    int file = client_open(server);
    client_send(file, text, n);
    Reply reply = client_read(file, strncmp(text, "HEAD ", 5) != 0);
    if (closed) *closed = is_closed(file);
    close(file);
    return reply;
}

/* ---- Answers ---- */

static void test_page(void) {
    static const char *const fields[] = {"\r\nContent-Type: text/html; charset=utf-8\r\n",
                                         "frame-ancestors 'none'",
                                         "connect-src 'self'",
                                         "\r\nX-Content-Type-Options: nosniff\r\n",
                                         "\r\nReferrer-Policy: no-referrer\r\n",
                                         "\r\nCross-Origin-Resource-Policy: same-origin\r\n",
                                         "\r\nCache-Control: no-store\r\n"};
    Server server = server_start_with("-p", "Hello <script>");
    Reply page = sent(&server, "GET @ HTTP/1.1\r\nHost: 127.0.0.1:#\r\nConnection: close\r\n\r\n", NULL),
          head = sent(&server, "HEAD @ HTTP/1.1\r\nHost: localhost:#\r\nConnection: close\r\n\r\n", NULL);
    CHECK(page.status == 200 && head.status == 200, "the page");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        CHECK(strstr(page.head, fields[i]), "%s in %s", fields[i], page.head);
    CHECK(!strstr(page.head, "Access-Control"), "no other page may read it");
    CHECK(strncmp(page.body, "<!doctype html>", 15) == 0 &&
              strstr(page.body, "<title>attn: Hello &#60;script&#62;"),
          "what strangers wrote stays text");
    CHECK(strstr(page.body, "\"command\": \"view\"") && !strstr(page.body, "lo <script>"),
          "the numbers of the text");
    release(&page), release(&head);
    stop(&server);
}

/* Every view that may be asked, on one connection, and its line of shell. */
static void test_asks(void) {
    static const char *const asks[][2] = {
        {"next -p 'Hello there' --top 5", "\"next\", \"-p\", \"Hello there\", \"--top\", \"5\""},
        {"next -p 'Hello there' --top 5", "\"next\",\"-p\",\"\\u0048ello there\",\"--top\",\"5\""},
        {"score -p 'Hello there' --words", "\"score\", \"-p\", \"Hello there\", \"--words\""},
        {"score -p 'Hello there' -c 6", "\"score\", \"-p\", \"Hello there\", \"-c\", \"6\""},
        {"attend -p 'Hello' --layer 1 --head 0",
         "\"attend\", \"-p\", \"Hello\", \"--layer\", \"1\", \"--head\", \"0\""},
        {"attend -p 'Hello' --layer 1 --head 0 -n 3",
         "\"attend\", \"-p\", \"Hello\", \"--layer\", \"1\", \"--head\", \"0\", \"-n\", \"3\""},
        {"heads -p 'Hello'", "\"heads\", \"-p\", \"Hello\""},
        {"lens -p 'Hello'", "\"lens\", \"-p\", \"Hello\""},
        {"explain -p 'Hello' --layer 0 --head 1",
         "\"explain\", \"-p\", \"Hello\", \"--layer\", \"0\", \"--head\", \"1\""},
        {"ablate -p 'Hello' --heads L0H0", "\"ablate\", \"-p\", \"Hello\", \"--heads\", \"L0H0\""},
        {"selfcheck -p 'Hello'", "\"selfcheck\", \"-p\", \"Hello\""},
        {"shape", "\"shape\""},
    };
    Server server = server_start();
    int file = client_open(&server);
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        char body[256];
        Command command = command_begin();
        size_t n;
        command.n += (size_t)sprintf(command.line + command.n, "%s --json %s ", asks[i][0], model);
        char *expected = output_of(command, &n);
        snprintf(body, sizeof body, "{\"argv\": [%s, \"--json\"]}", asks[i][1]);
        Reply reply = asked(&server, file, body);
        CHECK(reply.status == 200 && reply.n == n && memcmp(reply.body, expected, n) == 0,
              "%d %s: %s in place of %s", reply.status, body, reply.body, expected);
        CHECK(strstr(reply.head, "\r\nContent-Type: application/json;"), "an answer's type");
        release(&reply);
        free(expected);
    }
    close(file);
    stop(&server);
}

/* Wrong asks, and the one line that says so. */
static void test_errors(void) {
    static const struct {
        int status;
        const char *body, *words;
    } cases[] = {
        {400, "", "line 1"},
        {400, "{", "line 1"},
        {400, "{\"argv\": [\"next\"]} x", "line 1"},
        {400, "{\"argv\": \"next\"}", "an ask is"},
        {400, "[\"next\"]", "an ask is"},
        {400, "{\"argv\": [\"next\"], \"more\": 1}", "an ask is"},
        {400, "{\"argv\": [\"next\", 1]}", "word 1 of argv is no text"},
        {400, "{\"argv\": [\"next\", \"-p\", \"a\\u0000b\"]}", "word 2 of argv has a NUL"},
        {400, "{\"argv\": [\"next\", \"-p\", \"\xff\"]}", "UTF-8"},
        {400, "{\"argv\": []}", "there is no view '' here, but tokens, next"},
        {400, "{\"argv\": [\"nxt\"]}", "there is no view 'nxt' here, but tokens, next"},
        {400, "{\"argv\": [\"compare\", \"--json\"]}", "there is no view 'compare'"},
        {400, "{\"argv\": [\"dump\", \"--json\"]}", "there is no view 'dump'"},
        {400, "{\"argv\": [\"case\", \"--json\"]}", "there is no view 'case'"},
        {400, "{\"argv\": [\"serve\"]}", "there is no view 'serve'"},
        {400, "{\"argv\": [\"next\", \"-p\", \"a\"]}", "ask with --json"},
        {400, "{\"argv\": [\"next\", \"--help\", \"--json\"]}", "not for --help"},
        {400, "{\"argv\": [\"next\", \"/etc/passwd\", \"--json\"]}", "unexpected word '/etc/passwd'"},
        {400, "{\"argv\": [\"next\", \"-f\", \"/etc/passwd\", \"--json\"]}", "-f names a file"},
        {400, "{\"argv\": [\"next\", \"--file\", \"/etc/passwd\", \"--json\"]}", "--file names a file"},
        {400, "{\"argv\": [\"next\", \"-z\", \"x\", \"--json\"]}", "-z names a file"},
        {400, "{\"argv\": [\"ablate\", \"--with\", \"x\", \"--json\"]}", "--with names a file"},
        {400, "{\"argv\": [\"next\", \"-o\", \"x\", \"--json\"]}", "unknown option -o"},
        {400, "{\"argv\": [\"next\", \"--tpo\", \"1\", \"--json\"]}", "did you mean --top?"},
        {400, "{\"argv\": [\"attend\", \"-p\", \"a\", \"--reduce\", \"sum\", \"--json\"]}",
         "--reduce takes mean or max"},
        {400, "{\"argv\": [\"explain\", \"-p\", \"a\", \"--json\"]}", "explain takes one head"},
        {400, "{\"argv\": [\"ablate\", \"-p\", \"a\", \"--json\"]}", "say what to switch off"},
        {422, "{\"argv\": [\"next\", \"--json\"]}", "the text is empty"},
        {422, "{\"argv\": [\"next\", \"-p\", \"\", \"--json\"]}", "the text is empty"},
        {422, "{\"argv\": [\"attend\", \"-p\", \"a\", \"--layer\", \"99\", \"--json\"]}",
         "layer 99 does not exist"},
    };
    Server server = server_start();
    int file = client_open(&server);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Reply reply = asked(&server, file, cases[i].body);
        Error error;
        Json *json = json_parse(reply.body, reply.n, &error);
        CHECK(reply.status == cases[i].status && json &&
                  strstr(c_text(json_string(json_get(json, "error"))), cases[i].words),
              "%d %s: %s", reply.status, cases[i].body, reply.body);
        json_free(json);
        release(&reply);
    }
    char words[1024] = "{\"argv\": [\"next\"";
    for (size_t i = 0; i < 64; i++) strcat(words, ", \"a\"");
    strcat(words, "]}");
    Reply reply = asked(&server, file, words);
    CHECK(reply.status == 400 && strstr(reply.body, "64 words at most, not 65"), "%s", reply.body);
    release(&reply);
    close(file);
    stop(&server);
}

#define LOCAL "Host: 127.0.0.1:#\r\n"
#define FROM_PAGE "Origin: http://127.0.0.1:#\r\n"
#define SHAPE "Content-Length: 29\r\n\r\n{\"argv\": [\"shape\", \"--json\"]}"

/* Requests that are refused, by who asks, and words that are no request. */
static void test_refusals(void) {
    static const struct {
        int status;
        const char *request;
        bool closes;
    } cases[] = {
        {200, "POST @ask HTTP/1.1\r\n" LOCAL FROM_PAGE SHAPE, false},
        {200, "POST @ask HTTP/1.1\r\n" LOCAL "Sec-Fetch-Site: same-origin\r\n" SHAPE, false},
        {200, "POST @ask HTTP/1.1\r\nHost: localhost:#\r\nOrigin: http://localhost:#\r\n" SHAPE, false},
        {200, "GET @ HTTP/1.1\r\n" LOCAL "Sec-Fetch-Site: none\r\n\r\n", false},
        {200, "GET @ HTTP/1.0\r\n" LOCAL "\r\n", true},
        {403, "POST @ask HTTP/1.1\r\n" LOCAL SHAPE, false},
        {403, "POST @ask HTTP/1.1\r\n" LOCAL "Origin: null\r\n" SHAPE, false},
        {403, "POST @ask HTTP/1.1\r\n" LOCAL "Origin: http://evil.example\r\n" SHAPE, false},
        {403, "POST @ask HTTP/1.1\r\n" LOCAL "Origin: https://127.0.0.1:#\r\n" SHAPE, false},
        {403, "POST @ask HTTP/1.1\r\n" LOCAL "Origin: http://127.0.0.1\r\n" SHAPE, false},
        {403, "POST @ask HTTP/1.1\r\n" LOCAL "Origin: http://127.0.0.1:#.evil.example\r\n" SHAPE, false},
        {403, "POST @ask HTTP/1.1\r\n" LOCAL FROM_PAGE FROM_PAGE SHAPE, false},
        {403, "POST @ask HTTP/1.1\r\n" LOCAL "Sec-Fetch-Site: cross-site\r\n" SHAPE, false},
        {403, "POST @ask HTTP/1.1\r\n" LOCAL FROM_PAGE "Sec-Fetch-Site: same-site\r\n" SHAPE, false},
        {403, "GET @ HTTP/1.1\r\n" LOCAL "Origin: http://evil.example\r\n\r\n", false},
        {403, "GET @ HTTP/1.1\r\nHost: evil.example:#\r\n\r\n", false},
        {403, "GET @ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", false},
        {403, "GET @ HTTP/1.1\r\nHost: \r\n\r\n", false},
        {403, "GET @ HTTP/1.0\r\n\r\n", true},
        {404, "GET / HTTP/1.1\r\n" LOCAL "\r\n", false},
        {404, "GET /favicon.ico HTTP/1.1\r\n" LOCAL "\r\n", false},
        {404, "GET /0123456789abcdef0123456789abcdef/ HTTP/1.1\r\n" LOCAL "\r\n", false},
        {404, "GET /0123456789abcdef0123456789abcde HTTP/1.1\r\n" LOCAL "\r\n", false},
        {404, "GET @x HTTP/1.1\r\n" LOCAL "\r\n", false},
        {404, "GET @../../../etc/passwd HTTP/1.1\r\n" LOCAL "\r\n", false},
        {404, "GET /@ HTTP/1.1\r\n" LOCAL "\r\n", false},
        {405, "GET @ask HTTP/1.1\r\n" LOCAL "\r\n", false},
        {405, "POST @ HTTP/1.1\r\n" LOCAL FROM_PAGE "Content-Length: 0\r\n\r\n", false},
        {405, "OPTIONS @ask HTTP/1.1\r\n" LOCAL "\r\n", false},
        {405, "DELETE @ HTTP/1.1\r\n" LOCAL "\r\n", false},
        {400, "GET http://127.0.0.1:#@ HTTP/1.1\r\n" LOCAL "\r\n", true},
        {400, "GET @ HTTP/1.1\n", true},
        {411, "POST @ask HTTP/1.1\r\n" LOCAL FROM_PAGE "\r\n", true},
        {413, "POST @ask HTTP/1.1\r\n" LOCAL FROM_PAGE "Content-Length: 99999999\r\n\r\nabc", true},
        {501, "POST @ask HTTP/1.1\r\n" LOCAL FROM_PAGE "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", true},
    };
    Server server = server_start();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Reply reply = sent(&server, cases[i].request, cases[i].closes ? &(bool){false} : NULL);
        CHECK(reply.status == cases[i].status, "%d in place of %d: %s", reply.status, cases[i].status,
              cases[i].request);
        CHECK(!strstr(reply.head, "Connection: close") == !cases[i].closes, "%s", cases[i].request);
        CHECK(strstr(reply.head, "nosniff") && !strstr(reply.head, "Access-Control"), "%s", reply.head);
        CHECK(reply.status != 404 || strcmp(reply.body, "Not Found") == 0, "%s", reply.body);
        const char *methods =
            strstr(cases[i].request, "@ask ") ? "\r\nAllow: POST\r\n" : "\r\nAllow: GET, HEAD\r\n";
        CHECK(!strstr(reply.head, methods) == (reply.status != 405), "%s", reply.head);
        release(&reply);
    }
    /* A token that is wrong at one place, whichever. */
    for (size_t i = 1; i <= 32; i++) {
        Server wrong = server;
        wrong.path[i] = wrong.path[i] == '0' ? '1' : '0';
        Reply reply = sent(&wrong, "GET @ HTTP/1.1\r\n" LOCAL "\r\n", NULL);
        CHECK(reply.status == 404, "%zu", i);
        release(&reply);
    }
    stop(&server);
}

#define TEN(text) text text text text text text text text text text
#define LONG TEN("0123456789") TEN("0123456789")

/* A line for each request, without the token, and without what a terminal must not be given. */
static void test_log(void) {
    Server server = server_start();
    Reply replies[] = {sent(&server, "GET @ HTTP/1.1\r\n" LOCAL "\r\n", NULL),
                       sent(&server, "GET /x@y HTTP/1.1\r\n" LOCAL "\r\n", NULL),
                       sent(&server, "GET /" LONG "secret HTTP/1.1\r\n" LOCAL "\r\n", NULL),
                       sent(&server, "GET /\x9b\xc2\x9b HTTP/1.1\r\n" LOCAL "\r\n", NULL)};
    char token[40];
    snprintf(token, sizeof token, "%.32s", server.path + 1);
    server_end(&server, SIGTERM);
    size_t n, lines = 0;
    char *log = read_whole(scratch_path("log"), &n);
    for (size_t i = 0; i < n; i++) lines += log[i] == '\n';
    CHECK(lines == 4 && !strstr(log, token) && strstr(log, " GET /x/.../y 404 9 bytes "), "%s", log);
    CHECK(strstr(log, "GET /\\x9b\\u009b 400 11 bytes "), "%s", log);
    CHECK(strstr(log, "012345678 404") && !strstr(log, "secret"), "%s", log);
    free(log);
    for (size_t i = 0; i < 4; i++) release(&replies[i]);
    unlink(scratch_path("log"));
}

/* ---- Clients that are no help ---- */

static const char shape[] = "{\"argv\": [\"shape\", \"--json\"]}";
/* Takes minutes. */
static const char endless[] =
    "{\"argv\": [\"heads\", \"--repeat\", \"90\", \"--batch\", \"10000\", \"--json\"]}";

static void answers(const Server *server, const char *when) {
    int file = client_open(server);
    Reply reply = asked(server, file, shape);
    CHECK(reply.status == 200, "%s", when);
    release(&reply);
    close(file);
}

static void test_slow_clients(void) {
    Server server = server_start();
    int silent[2 * MAX_CLIENTS], halves[4];
    for (size_t i = 0; i < 4; i++) {
        halves[i] = client_open(&server);
        client_send(halves[i], "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc",
                    i < 2 ? 20 : 51);
    }
    answers(&server, "half requests");
    /* One byte at a time, with others between. */
    char request[512];
    size_t n = write_ask(&server, request, sizeof request, shape);
    int slow = client_open(&server);
    for (size_t i = 0; i < n; i++) {
        client_send(slow, request + i, 1);
        if (i % 16 == 0) answers(&server, "a slow client");
    }
    Reply reply = client_read(slow, true);
    CHECK(reply.status == 200, "one byte at a time");
    release(&reply);
    close(slow);
    /* More that say nothing than there is room for: the oldest go. */
    for (size_t i = 0; i < 2 * MAX_CLIENTS; i++) {
        silent[i] = client_open(&server);
        if (i % 8 == 0) answers(&server, "silent clients");
    }
    answers(&server, "silent clients");
    CHECK(is_closed(silent[0]) && is_closed(halves[0]), "the oldest");
    int last = silent[2 * MAX_CLIENTS - 1];
    reply = asked(&server, last, shape);
    CHECK(reply.status == 200, "the last of many");
    release(&reply);
    for (size_t i = 0; i < 2 * MAX_CLIENTS; i++) close(silent[i]);
    for (size_t i = 0; i < 4; i++) close(halves[i]);
    stop(&server);
}

/* Those that ask for much and never read it, or late. */
static void test_deaf_clients(void) {
    Server server = server_start();
    int deaf[2];
    char body[1024] = "{\"argv\": [\"attend\", \"-p\", \"";
    for (size_t i = 0; i < 14; i++) strcat(body, "Hello there ");
    strcat(body, "\", \"--json\"]}");
    for (size_t i = 0; i < 2; i++) {
        deaf[i] = client_open(&server);
        setsockopt(deaf[i], SOL_SOCKET, SO_RCVBUF, &(int){1024}, sizeof(int));
        for (size_t k = 0; k < 20; k++) client_ask(&server, deaf[i], body);
    }
    for (size_t i = 0; i < 8; i++) answers(&server, "deaf clients"); /* between their asks */
    close(deaf[0]);
    answers(&server, "a deaf client that has gone");
    /* More than the system holds for a connection: what is left goes out as it is read. */
    int late = client_open(&server), file = client_open(&server);
    setsockopt(late, SOL_SOCKET, SO_RCVBUF, &(int){1 << 16}, sizeof(int));
    for (size_t k = 0; k < 8; k++) client_ask(&server, late, body);
    for (size_t k = 0; k < 8; k++) answers(&server, "one who does not read yet");
    Reply usual = asked(&server, file, body);
    for (size_t k = 0; k < 8; k++) {
        Reply reply = client_read(late, true);
        CHECK(reply.status == 200 && reply.n == usual.n && memcmp(reply.body, usual.body, reply.n) == 0,
              "answer %zu comes late, %zu of %zu bytes", k, reply.n, usual.n);
        release(&reply);
    }
    CHECK(8 * usual.n > 6000000, "%zu bytes are few", usual.n);
    release(&usual);
    close(file);
    close(late);
    stop(&server);
    close(deaf[1]);
}

/* Those that go: at any byte of a request, before the answer, or while it is being worked at. */
static void test_gone_clients(void) {
    Server server = server_start();
    char request[512];
    int n = (int)write_ask(&server, request, sizeof request, shape);
    for (int i = 0; i <= n; i += 3) {
        int file = client_open(&server);
        if (i % 2)
            setsockopt(file, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0},
                       sizeof(struct linger)); /* by RST */
        client_send(file, request, (size_t)i);
        close(file);
    }
    answers(&server, "clients that went");
    int files[MAX_CLIENTS];
    for (size_t i = 0; i < MAX_CLIENTS; i++) {
        files[i] = client_open(&server);
        client_ask(&server, files[i], endless);
    }
    int last = client_open(&server); /* waits until there is room */
    client_ask(&server, last, shape);
    for (size_t i = 0; i < MAX_CLIENTS; i++) close(files[i]);
    Reply reply = client_read(last, true);
    CHECK(reply.status == 200, "asks that nobody waits for");
    release(&reply);
    close(last);
    stop(&server);
}

/* Waiting asks are answered in the order in which they came. */
static void test_order(void) {
    static const char *const bodies[] = {endless, shape, "{}", shape, "{}"};
    enum { N = sizeof bodies / sizeof *bodies };
    Server server = server_start();
    int files[N];
    for (size_t i = 0; i < N; i++) {
        files[i] = client_open(&server);
        client_ask(&server, files[i], bodies[i]);
        Reply page =
            sent(&server, "GET @ HTTP/1.1\r\n" LOCAL "\r\n", NULL); /* then the ask has been read, too */
        release(&page);
    }
    close(files[0]);
    for (size_t i = 1; i < N; i++) {
        Reply reply = client_read(files[i], true);
        CHECK(reply.status == (i % 2 ? 200 : 400), "ask %zu: %d", i, reply.status);
        release(&reply);
        close(files[i]);
    }
    CHECK(server_end(&server, SIGINT) == 0, "its end");
    size_t n;
    char *log = read_whole(scratch_path("log"), &n), *at = strstr(log, "/ask gone");
    for (size_t i = 1; i < N && at; i++) at = strstr(at, i % 2 ? "/ask 200" : "/ask 400");
    CHECK(at, "%s", log);
    free(log);
    unlink(scratch_path("log"));
}

/* Many asks, as one connection and as sixteen send them; none changes what the next one says. */
static void test_many_asks(void) {
    Server server = server_start();
    int files[MAX_CLIENTS];
    static const char *const bodies[] = {
        "{\"argv\": [\"next\", \"-p\", \"Hello\", \"--json\"]}", shape,
        "{\"argv\": [\"next\", \"-p\", \"Hello\"]}",
        "{\"argv\": [\"attend\", \"-p\", \"Hello you\", \"--json\", \"-n\", \"2\", \"--layer\", \"1\", \"--head\", \"0\"]}"};
    Reply first[4];
    files[0] = client_open(&server);
    for (size_t i = 0; i < 4; i++) first[i] = asked(&server, files[0], bodies[i]);
    CHECK(first[0].status == 200 && first[2].status == 400 && first[3].status == 200,
          "what many asks answer at first");
    for (size_t k = 0; k < 1000; k++) {
        size_t i = k % 4;
        Reply reply = asked(&server, files[0], bodies[i]);
        CHECK(reply.status == first[i].status && reply.n == first[i].n &&
                  memcmp(reply.body, first[i].body, reply.n) == 0,
              "ask %zu: %s", k, reply.body);
        release(&reply);
    }
    /* Opened only now: who says nothing for half a minute is sent away, which the asks above may take under a sanitizer. */
    for (size_t i = 1; i < MAX_CLIENTS; i++) files[i] = client_open(&server);
    for (size_t round = 0; round < 10; round++) {
        for (size_t i = 0; i < MAX_CLIENTS; i++) client_ask(&server, files[i], bodies[i % 4]);
        for (size_t i = 0; i < MAX_CLIENTS; i++) {
            Reply reply = client_read(files[i], true);
            CHECK(reply.n == first[i % 4].n && memcmp(reply.body, first[i % 4].body, reply.n) == 0,
                  "client %zu", i);
            release(&reply);
        }
    }
    /* Two requests in one piece are answered one after the other. */
    char both[2048];
    size_t n = write_ask(&server, both, sizeof both, bodies[0]);
    n += write_ask(&server, both + n, sizeof both - n, bodies[2]);
    client_send(files[1], both, n);
    for (size_t i = 0; i < 4; i += 2) {
        Reply reply = client_read(files[1], true);
        CHECK(reply.n == first[i].n && memcmp(reply.body, first[i].body, reply.n) == 0, "of two: %s",
              reply.body);
        release(&reply);
    }
    for (size_t i = 0; i < 4; i++) release(&first[i]);
    for (size_t i = 0; i < MAX_CLIENTS; i++) close(files[i]);
    stop(&server);
}

/* ---- The end ---- */

static void test_signals(void) {
    static const int signals[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < 2; i++) {
        Server server = server_start();
        int idle = client_open(&server), half = client_open(&server), busy = client_open(&server),
            waiting = client_open(&server);
        client_send(half, "POST /x HTTP/1.1\r\n", 18);
        client_ask(&server, busy, endless);
        client_ask(&server, waiting, endless);
        /* The three have been read when a fourth is answered. */
        Reply reply = sent(&server, "GET @ HTTP/1.1\r\n" LOCAL "\r\n", NULL);
        CHECK(reply.status == 200, "the page");
        release(&reply);
        int wrong = client_open(&server);
        client_send(wrong, "\n", 1);
        reply = client_read(wrong, true);
        CHECK(reply.status == 400, "%d", reply.status);
        release(&reply);
        client_send(wrong, "more", 4); /* and does not go */
        int code = server_end(&server, signals[i]);
        CHECK(code == 0, "%d after signal %d", code, signals[i]);
        for (size_t k = 0; k < 2; k++) {
            reply = client_read(k ? busy : waiting, true);
            CHECK(reply.status == 503, "%d", reply.status);
            release(&reply);
        }
        CHECK(is_closed(idle) && is_closed(half), "who asked for nothing");
        close(wrong), close(idle), close(half), close(busy), close(waiting);
        unlink(scratch_path("log"));
    }
    /* As nohup and & start it: Ctrl-C is for others. */
    on_interrupt = SIG_IGN;
    Server server = server_start();
    on_interrupt = SIG_DFL;
    kill(server.process, SIGINT);
    answers(&server, "Ctrl-C that it does not hear");
    int code = server_end(&server, SIGTERM);
    CHECK(code == 0, "%d", code);
    unlink(scratch_path("log"));
}

/* HTTP's own port, which a browser leaves out of all that it says. */
static void test_own_port(void) {
    const char *program = getenv("STUDY");
    Server server = server_try(program ? program : "./study", "--port", "80");
    if (!server.port) server_end(&server, 0);
    if (!server.port) SKIP("port 80 is not to be had");
    Reply page = sent(&server, "GET @ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", NULL);
    Reply asked = sent(&server,
                       "POST @ask HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
                       "Connection: close\r\nContent-Length: 2\r\n\r\n{}",
                       NULL);
    Reply other = sent(&server, "GET @ HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n", NULL);
    CHECK(strcmp(server.origin, "http://127.0.0.1") == 0, "%s", server.origin);
    CHECK(page.status == 200 && asked.status == 400 && other.status == 403, "%d, %d, %d", page.status,
          asked.status, other.status);
    release(&page), release(&asked), release(&other);
    stop(&server);
}

/* Commands that end at once: exit code and line. */
static void test_commands(void) {
    static const char only[] = "serve takes -p, -f, -z, -t and --port";
    Server server = server_start();
    char port[32];
    snprintf(port, sizeof port, "--port %u", server.port);
    FILE *file = fopen(scratch_path("nul"), "wb");
    if (!file || fwrite("a\0b", 1, 3, file) != 3 || fclose(file) != 0) exit(1);
    const struct {
        int code;
        const char *words, *said;
    } cases[] = {{1, port, "cannot listen on 127.0.0.1:"},
                 {2, "--port 65536", "--port takes a whole number from 0 to 65535"},
                 {2, "--json", only},
                 {2, "--ascii", only},
                 {2, "--bos", only},
                 {2, "--no-bos", only},
                 {2, "--special", only},
                 {2, "--kv f16", only},
                 {2, "--ids 1", only},
                 {2, "-c 8", only},
                 {2, "-s 2", only},
                 {1, "-f $T/nul", "has a NUL"},
                 {1, "-f $T/none", "cannot open"},
                 {1, ">/dev/full", "cannot write the address"}};
    setenv("T", scratch, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Command command = command_begin();
        sprintf(command.line + command.n, "serve %s 2>'%s' %s", model, scratch_path("said"), cases[i].words);
        int status = system(command.line);
        size_t n;
        char *said = read_whole(scratch_path("said"), &n);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == cases[i].code && strncmp(said, "study: ", 7) == 0 &&
                  strstr(said, cases[i].said) && strchr(said, '\n') == said + n - 1,
              "%s: %d: %s", cases[i].words, status, said);
        free(said);
    }
    unlink(scratch_path("said")), unlink(scratch_path("nul"));
    stop(&server);
}

/* The text of a file, and a title that is cut. */
static void test_file(void) {
    FILE *file = fopen(scratch_path("text"), "wb");
    if (!file) exit(1);
    for (size_t i = 0; i < 10; i++) fputs("0123456789", file);
    fputs("\n", file);
    fclose(file);
    Server server = server_start_with("-f", scratch_path("text"));
    Reply page = sent(&server, "GET @ HTTP/1.1\r\n" LOCAL "\r\n", NULL);
    CHECK(strstr(page.body, "\"n_prompt\": 100,") && strstr(page.body, "0123456789</title>"), "%.300s",
          page.body);
    release(&page);
    unlink(scratch_path("text"));
    stop(&server);
}

/* ---- Failures ---- */

/*
 * A server of which a call of the system fails (tests/faults.c): it ends with 1 and one line, or costs one answer at most.
 * Returns whether the fault has struck; false, too, where the program is not built.
 */
static bool survives(const char *fault, bool starts) {
    const char *prefix = getenv("FAULTY");
    char program[512];
    size_t n_lost = 0, n;
    snprintf(program, sizeof program, "%sstudy", prefix ? prefix : "build/tests/faulty_");
    if (access(program, X_OK) != 0) return false;
    setenv("ATTN_FAULT", fault, 1), setenv("ATTN_FAULT_LOG", scratch_path("faults"), 1);
    FILE *file_of_text = fopen(scratch_path("text"), "wb");
    if (!file_of_text || fputs("Hello", file_of_text) == EOF || fclose(file_of_text) != 0) exit(1);
    Server server = server_try(program, "-f", scratch_path("text"));
    unsetenv("ATTN_FAULT"), unsetenv("ATTN_FAULT_LOG");
    for (size_t i = 0; server.port && starts && i < 3; i++) {
        int file = client_open(&server);
        Reply reply =
            asked(&server, file, i == 2 ? shape : "{\"argv\": [\"attend\", \"-p\", \"Hello\", \"--json\"]}");
        n_lost += reply.status != 200;
        CHECK(reply.status == 200 || reply.status == 422 || reply.status == 400 || reply.status == 500 ||
                  !reply.status,
              "%s: %d %s", fault, reply.status, reply.body);
        release(&reply);
        close(file);
    }
    int code = server_end(&server, server.port && starts ? SIGINT : 0);
    char *log = read_whole(scratch_path("log"), &n), *faults = read_whole(scratch_path("faults"), &n);
    bool struck = strstr(faults, "struck");
    CHECK(server.port && starts
              ? code == 0 && n_lost <= 1
              : code == 1 && strncmp(log, "study: ", 7) == 0 && strchr(log, '\n') == log + strlen(log) - 1,
          "%s: %d, %zu asks without an answer: %s", fault, code, n_lost, log);
    free(log), free(faults);
    unlink(scratch_path("log")), unlink(scratch_path("faults")), unlink(scratch_path("text"));
    return struck;
}

/* Each allocation in turn. The short form takes some of them, the long one (ATTN_LONG_TESTS=1) all. */
static void test_allocations(void) {
    size_t step = getenv("ATTN_LONG_TESTS") ? 1 : 11;
    char fault[32] = "malloc:1";
    for (size_t k = 1; survives(fault, true); k += step)
        snprintf(fault, sizeof fault, "malloc:%zu", k + step);
    if (strcmp(fault, "malloc:1") == 0) SKIP("tests/faulty_study is not built");
}

static void test_calls(void) {
#ifdef _OPENMP /* whose threads are its own */
    static const char thread[] = "pthread_create:1";
#else
    static const char thread[] = "pthread_create:2"; /* after the pool's, of -t 2 */
#endif
    const char *const at_start[] = {"getentropy:1", "pipe2:1", "socket:1", "setsockopt:1",
                                    "listen:1",     "poll:1",  thread};
    static const char *const later[] = {"accept4:1", "accept4:2", "recv:1", "recv:2",
                                        "send:1",    "send:2",    "send:3", "setsockopt:2"};
    if (!survives("accept4:1", true)) SKIP("tests/faulty_study is not built");
    for (size_t i = 0; i < sizeof at_start / sizeof *at_start; i++)
        CHECK(survives(at_start[i], false), "%s", at_start[i]);
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) CHECK(survives(later[i], true), "%s", later[i]);
}

/* An answer that is there goes out before the server waits again, which here, at the third time, it cannot. */
static void test_answers_at_once(void) {
    const char *prefix = getenv("FAULTY");
    char program[512];
    snprintf(program, sizeof program, "%sstudy", prefix ? prefix : "build/tests/faulty_");
    if (access(program, X_OK) != 0) SKIP("tests/faulty_study is not built");
    setenv("ATTN_FAULT", "poll:3", 1);
    Server server = server_try(program, NULL, NULL);
    unsetenv("ATTN_FAULT");
    CHECK(server.port, "no address");
    bool closed;
    Reply reply = sent(&server, "GET /else HTTP/1.1\r\nHost: 127.0.0.1:#\r\n\r\n", &closed);
    CHECK(reply.status == 404 && closed, "%d %s", reply.status, reply.body);
    release(&reply);
    int code = server_end(&server, 0);
    size_t n;
    char *log = read_whole(scratch_path("log"), &n);
    CHECK(code == 1 && strstr(log, " GET /else 404 ") && strstr(log, "study: cannot wait for requests: "),
          "%d: %s", code, log);
    free(log);
    unlink(scratch_path("log"));
}

/* The limits in time: a request that does not come in whole, and a connection that is not used. */
static void test_patience(void) {
    if (!getenv("ATTN_LONG_TESTS")) SKIP("waiting for half a minute; ATTN_LONG_TESTS=1 does");
    Server server = server_start();
    int half = client_open(&server), silent = client_open(&server);
    client_send(half, "POST /x HTTP/1.1\r\n", 18);
    Reply reply = client_read(half, true);
    CHECK(reply.status == 408 && is_closed(half) && is_closed(silent), "a request that never ends");
    release(&reply);
    close(half), close(silent);
    stop(&server);
}

int main(void) {
    alarm(300); /* a test that hangs is a failure */
    if (!scratch_begin()) return 1;
    RUN(test_page);
    RUN(test_asks);
    RUN(test_errors);
    RUN(test_refusals);
    RUN(test_log);
    RUN(test_slow_clients);
    RUN(test_deaf_clients);
    RUN(test_gone_clients);
    RUN(test_order);
    RUN(test_many_asks);
    RUN(test_signals);
    RUN(test_own_port);
    RUN(test_commands);
    RUN(test_file);
    RUN(test_allocations);
    RUN(test_calls);
    RUN(test_answers_at_once);
    RUN(test_patience);
    scratch_end();
    return test_end();
}
