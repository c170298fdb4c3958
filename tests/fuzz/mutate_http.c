/* Other requests made of one, and of what it asks: its lines changed, its body's words, and the length that it tells. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define ONE_OF(table) (table[random_below(COUNT(table))])

enum { ROOM = 1 << 13 };

static const char *const lines[] = {"Host: localhost:80",
                                    "Host: evil.example",
                                    "Origin: http://localhost:80",
                                    "Origin: null",
                                    "Sec-Fetch-Site: same-origin",
                                    "Sec-Fetch-Site: cross-site",
                                    "Transfer-Encoding: chunked",
                                    "Content-Length: 0",
                                    "Content-Length: 1048577",
                                    "Content-Length: 99999999999999999999",
                                    "Content-Length: 1, 1",
                                    "Expect: 100-continue",
                                    "Connection: close",
                                    "Connection: x, keep-alive",
                                    " folded",
                                    "no colon",
                                    "A : b",
                                    ":",
                                    ""};
static const char *const first_lines[] = {"GET /61616161616161616161616161616161/ HTTP/1.1",
                                          "HEAD /61616161616161616161616161616161/ HTTP/1.0",
                                          "POST /61616161616161616161616161616161/ask HTTP/1.1",
                                          "GET /61616161616161616161616161616161/ask HTTP/1.1",
                                          "GET / HTTP/1.1",
                                          "GET * HTTP/1.1",
                                          "PRI * HTTP/2.0",
                                          "OPTIONS /a HTTP/1.1"};
static const char *const values[] = {"0",    "1",    "-1", "99",      "L0H0",           "#1", "all", "a",
                                     "mean", "zero", "b",  "\\u0000", "\\ud83d\\ude00", "x y"};

static size_t find(const unsigned char *bytes, size_t n, const char *what, size_t from) {
    for (size_t i = from; i + strlen(what) <= n; i++)
        if (memcmp(bytes + i, what, strlen(what)) == 0) return i;
    return n;
}

/* Puts a text in the place of bytes [at, end); what has no room stays away. */
static size_t replace(unsigned char *bytes, size_t n, size_t at, size_t end, const char *text) {
    size_t n_text = strlen(text);
    if (n - (end - at) + n_text > ROOM) return n;
    memmove(bytes + at + n_text, bytes + end, n - end);
    memcpy(bytes + at, text, n_text);
    return n - (end - at) + n_text;
}

/* A word more for argv, or two, at the end of it or anywhere between two. */
static size_t add_words(unsigned char *body, size_t n) {
    const View *view = fuzz_views[random_below(fuzz_n_views)];
    Options table = random_below(2) || !view->n_options ? ONE_OF(shared_options)
                                                        : (Options){view->options, view->n_options};
    const Option *option = &table.table[random_below(table.n)];
    const char *name = random_below(6) ? option->name : view->name;
    char words[128];
    bool takes_value = option->kind != OPTION_ON && option->kind != OPTION_OFF;
    size_t at = random_below(3) ? find(body, n, "]", 0) : find(body, n, ",", random_below(n + 1));
    if (takes_value && random_below(8))
        snprintf(words, sizeof words, ",\"%s\",\"%s\"", name, ONE_OF(values));
    else
        snprintf(words, sizeof words, ",\"%s\"", name);
    return replace(body, n, at, at, words);
}

static size_t change_line(unsigned char *head, size_t n) {
    size_t at = random_below(4) ? random_below(n + 1) : 0, end;
    char line[128];
    if (at) at = find(head, n, "\r\n", at) + 2;
    if (at > n) return n;
    end = find(head, n, "\r\n", at) + 2;
    if (end > n) end = n;
    snprintf(line, sizeof line, "%s%s", at ? ONE_OF(lines) : ONE_OF(first_lines),
             random_below(20) ? "\r\n" : "\n");
    return replace(head, n, at, at && random_below(2) ? at : end, line);
}

/* The request's Content-Length becomes what its body has, or nearly. */
static size_t mend_length(unsigned char *head, size_t n, size_t n_body) {
    char line[64];
    size_t at = find(head, n, "Content-Length: ", 0), end = find(head, n, "\r\n", at);
    if (end == n || random_below(30) == 0) return n;
    snprintf(line, sizeof line, "Content-Length: %zu",
             random_below(30) ? n_body : n_body + random_below(5) - 2);
    return replace(head, n, at, end, line);
}

size_t mutate_http(unsigned char *bytes, size_t n, size_t room) {
    static unsigned char head[ROOM], body[ROOM];
    size_t n_head = find(bytes, n, "\r\n\r\n", 0) + 4;
    if (n_head > n || n > ROOM / 2 || random_below(12) == 0) return LLVMFuzzerMutate(bytes, n, room);
    size_t n_body = n - n_head;
    memcpy(head, bytes, n_head), memcpy(body, bytes + n_head, n_body);
    switch (random_below(4)) {
    case 0: n_head = change_line(head, n_head); break;
    case 1: n_body = mutate_json(body, n_body, ROOM / 2); break;
    default: n_body = add_words(body, n_body); break;
    }
    n_head = mend_length(head, n_head, n_body);
    if (n_head + n_body > room) return n;
    memcpy(bytes, head, n_head), memcpy(bytes + n_head, body, n_body);
    return n_head + n_body;
}
