/*
 * In the place of the server's network (the linker's --wrap): one connection, whose bytes are the call's stdin. What the
 * service answers is checked; the token is always 6161….
 */
#include "page/server.h"
#include "tests/fuzz/fuzz.h"

#include "base/json.h"
#include "base/utf8.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __wrap_server_listen(unsigned *port, Error *error);
bool __wrap_server_run(int listener, const Service *service, Error *error);
int __wrap_getentropy(void *noise, size_t n);

int __wrap_getentropy(void *noise, size_t n) {
    memset(noise, 'a', n);
    return 0;
}

int __wrap_server_listen(unsigned *port, Error *error) {
    (void)error;
    if (*port == 0) *port = 80;
    return 0;
}

static void __attribute__((noreturn)) wrong(const HttpAnswer *answer, const char *what) {
    fprintf(stderr, "WRONG: %s; status %d: %.*s\n", what, answer->status, (int)answer->n, answer->body);
    abort();
}

/* JSON reads back, and nothing is said that a terminal must not be given; an error is one line that the JSON names. */
static void check(const HttpAnswer *answer) {
    Error error;
    uint32_t c;
    if (strcmp(answer->type, "application/json") != 0) return;
    for (size_t at = 0; at < answer->n;) {
        at += utf8_decode(answer->body + at, answer->n - at, &c);
        if (c != '\n' && !utf8_is_safe(c)) wrong(answer, "an unsafe character");
    }
    Json *json = json_parse(answer->body, answer->n, &error);
    if (!json && !strstr(error.message, "not enough memory")) wrong(answer, "JSON that cannot be read back");
    if (json && answer->status != 200 && json_string(json_get(json, "error")).n == 0)
        wrong(answer, "no reason");
    json_free(json);
}

/* Legal requests that would take long are not asked. */
static bool takes_long(String body) {
    for (size_t i = 0; i + 12 < body.n; i++) {
        bool batch = memcmp(body.data + i, "--batch", 7) == 0,
             repeat = memcmp(body.data + i, "--repeat", 8) == 0;
        size_t digits = 0;
        for (size_t k = i + 7; (batch || repeat) && k < body.n && k < i + 30; k++)
            digits += isdigit((unsigned char)body.data[k]) != 0;
        if (digits > (repeat ? 2 : 1)) return true;
    }
    return false;
}

bool __wrap_server_run(int listener, const Service *service, Error *error) {
    static char bytes[1 << 12];
    atomic_bool never = false;
    size_t n = fread(bytes, 1, sizeof bytes, stdin), at = 0, needed;
    HttpRequest request;
    (void)listener, (void)error;
    for (int status = 200; status == 200; at += needed) {
        char *copy = malloc(n - at + 1); /* of its own, so that ASan sees what is read behind it */
        if (!copy) abort();
        memcpy(copy, bytes + at, n - at);
        char *exact = realloc(copy, n - at ? n - at : 1);
        status = http_read(exact, n - at, &request, &needed);
        HttpAnswer answer = {0};
        if (status == 0 && needed <= n - at) wrong(&answer, "a request that needs less than is there");
        if (status == 200) {
            if (needed > n - at || needed == 0) wrong(&answer, "a request of another length");
            service->route(service->user, &request, &answer);
            if (answer.status == 0 && !takes_long(request.body)) {
                service->work(service->user, &request, &never, &answer);
                if (answer.status == 0) wrong(&answer, "no answer");
            }
            if (answer.status) check(&answer);
            if (getenv("FUZZ_SHOW"))
                fprintf(stderr, "study: note: %d %.*s\n", answer.status,
                        (int)strcspn(answer.n ? answer.body : "", "\n"), answer.n ? answer.body : "");
            free(answer.owned);
        } else if (status != 0 && strcmp(http_reason(status), "Internal Server Error") == 0) {
            wrong(&answer, "a refusal without a reason");
        }
        free(exact);
    }
    return true;
}
