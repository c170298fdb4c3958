/* Reading requests of HTTP: what is one, what is none, and that it does not matter in which pieces the bytes come. */
#include "test.h"

#include "page/http.h"

#define HOST "Host: a\r\n"

static void test_reading(void) {
    static const struct {
        const char *bytes;
        int status;
    } cases[] = {
        {"", 0},
        {"GET / HTTP/1.1\r\n" HOST "\r\n", 200},
        {"GET / HTTP/1.1\r\n" HOST "\r\nGET", 200},
        {"GET / HTTP/1.0\r\n\r\n", 200},
        {"POST / HTTP/1.1\r\n" HOST "content-LENGTH:\t3 \r\n\r\nabc", 200},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nab", 0},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1048576\r\n\r\n", 0},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1048577\r\n\r\n", 413},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551619\r\n\r\nabc", 413},
        {"POST / HTTP/1.1\r\n" HOST "\r\n", 411},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 3, 3\r\n\r\nabc", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: +3\r\n\r\nabc", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: -3\r\n\r\nabc", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 0x3\r\n\r\nabc", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: \r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n", 417},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400},
        {"GET / HTTP/2.0\r\n" HOST "\r\n", 505},
        {"PRI * HTTP/2.0\r\n\r\n", 505},
        {"GET / HTTP/1.1\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "\n", 400},
        {"GET / HTTP/1.1\r" HOST, 400},
        {"GET / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "A : b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST ": b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "A\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "A: \x01\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "A: \x7f\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "A: \xff\xe2\r\n\r\n", 200},
        {"\r\n\r\n", 400},
        {"\x16\x03\x01", 400},
        {"GET  / HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET  HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET / HTTP/1/1\r\n" HOST "\r\n", 400},
        {"GET / HTTP//.1\r\n" HOST "\r\n", 400},
        {"GET / HTTP/:.1\r\n" HOST "\r\n", 400},
        {"GET / HTTP/1./\r\n" HOST "\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "X-9_~!: b\r\n\r\n", 200},
        {"GET / HTTP/1.1\r\n" HOST "X{: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "X[: b\r\n\r\n", 400},
        {"GET / HTTP/1.1 \r\n" HOST "\r\n", 400},
        {"GET /\r\n\r\n", 400},
        {"GET / http/1.1\r\n" HOST "\r\n", 400},
        {"GET / HTTP/1.x\r\n" HOST "\r\n", 400},
        {"G@T / HTTP/1.1\r\n" HOST "\r\n", 400},
        {" / HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET http://a/ HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET * HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /\ta HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET \xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", 400},
    };
    HttpRequest request;
    size_t needed;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status = http_read(cases[i].bytes, strlen(cases[i].bytes), &request, &needed);
        CHECK(status == cases[i].status, "%d in place of %d: %s", status, cases[i].status, cases[i].bytes);
    }
    CHECK(http_read("GET / HTTP/1.1\r\nA: \0\r\n", 23, &request, &needed) == 400, "a NUL");
}

/* A request says nothing until it is whole, and then what it says; a head has an end. */
static void test_pieces(void) {
    static const char text[] =
        "POST /a?b HTTP/1.1\r\nHost: x:1\r\nOrigin:  y \t\r\nA: 1\r\na: 2\r\nConnection: x, Close\r\n"
        "Content-Length: 5\r\n\r\nabcdefgh";
    size_t whole = sizeof text - 4, needed = 0;
    HttpRequest request;
    String value = {0};
    for (size_t n = 0; n < whole; n++)
        CHECK(http_read(text, n, &request, &needed) == 0 && needed > n && needed <= whole, "at %zu", n);
    CHECK(http_read(text, sizeof text - 1, &request, &needed) == 200 && needed == whole, "the whole of it");
    CHECK(string_equals(request.method, "POST") && string_equals(request.target, "/a?b"), "its first line");
    CHECK(string_equals(request.body, "abcde") && request.closes, "its body");
    CHECK(http_field(&request, "origin", &value) == 1 && string_equals(value, "y"), "a field once");
    CHECK(http_field(&request, "a", &value) == 2 && string_equals(value, "2"), "a field twice");
    CHECK(http_field(&request, "hos", &value) == 0 && http_field(&request, "hosts", &value) == 0,
          "no such field");
    static const char *const stays[] = {"keep-alive", "closed", "close, x"};
    for (size_t i = 0; i < 3; i++) {
        char short_text[80];
        int n = snprintf(short_text, sizeof short_text, "GET / HTTP/1.1\r\n" HOST "Connection: %s\r\n\r\n",
                         stays[i]);
        CHECK(http_read(short_text, (size_t)n, &request, &needed) == 200 && request.closes == (i == 2), "%s",
              stays[i]);
    }
    char *head = malloc(HTTP_HEAD_BYTES + 1);
    if (!head) exit(1);
    memset(head, 'a', HTTP_HEAD_BYTES + 1);
    CHECK(http_read(head, HTTP_HEAD_BYTES - 1, &request, &needed) == 0, "a head with no end yet");
    CHECK(http_read(head, HTTP_HEAD_BYTES, &request, &needed) == 431, "a head with no end");
    CHECK(http_read(head, HTTP_HEAD_BYTES + 1, &request, &needed) == 431, "a head with no end");
    memcpy(head, "GET / HTTP/1.1\r\n" HOST "A: ", 28);
    memcpy(head + HTTP_HEAD_BYTES - 4, "\r\n\r\n", 4);
    CHECK(http_read(head, HTTP_HEAD_BYTES, &request, &needed) == 200, "the longest head");
    free(head);
}

int main(void) {
    RUN(test_reading);
    RUN(test_pieces);
    return test_end();
}
