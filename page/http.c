#include "page/http.h"

#include <string.h>

/* RFC 9110, section 5.6.2. */
static bool is_token_character(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static bool equals_name(String text, const char *name) {
    size_t i = 0;
    while (i < text.n && name[i] && lower(text.data[i]) == name[i]) i++;
    return i == text.n && !name[i];
}

/*
 * The length of the head, its empty line included; 0: it is not whole. Sets *bad where a byte cannot be part of one: then
 * nobody need wait for the rest.
 */
static size_t head_length(const char *bytes, size_t n, bool *bad) {
    for (size_t i = 0; i < n && i < HTTP_HEAD_BYTES; i++) {
        unsigned char c = (unsigned char)bytes[i];
        bool after_cr = i > 0 && bytes[i - 1] == '\r';
        *bad = (c == '\n') != after_cr || (c < ' ' && c != '\r' && c != '\n' && c != '\t') || c == 0x7f;
        if (*bad) return 0;
        if (c == '\n' && i >= 3 && bytes[i - 2] == '\n') return i + 1;
    }
    return 0;
}

/* Cuts off what stands before `end`, and `end`; false where it does not occur. */
static bool take_until(String *text, char end, String *part) {
    const char *at = memchr(text->data, end, text->n);
    if (!at) return false;
    *part = (String){text->data, (size_t)(at - text->data)};
    *text = (String){at + 1, text->n - part->n - 1};
    return true;
}

/* A line without its CRLF; the text has whole lines only. */
static String take_line(String *text) {
    String line = *text;
    if (take_until(text, '\r', &line)) text->data++, text->n--;
    return line;
}

static String trimmed(String text) {
    while (text.n && (*text.data == ' ' || *text.data == '\t')) text.data++, text.n--;
    while (text.n && (text.data[text.n - 1] == ' ' || text.data[text.n - 1] == '\t')) text.n--;
    return text;
}

static bool is_token(String text) {
    for (size_t i = 0; i < text.n; i++)
        if (!is_token_character(text.data[i])) return false;
    return text.n > 0;
}

/* "GET /path HTTP/1.1"; `old` is set for a version before 1.1. Returns 200, or the status of a refusal. */
static int read_request_line(String line, HttpRequest *request, bool *old) {
    if (!take_until(&line, ' ', &request->method) || !take_until(&line, ' ', &request->target)) return 400;
    if (!is_token(request->method) || line.n != 8 || memcmp(line.data, "HTTP/", 5) != 0) return 400;
    char major = line.data[5], minor = line.data[7];
    if (major < '0' || major > '9' || line.data[6] != '.' || minor < '0' || minor > '9') return 400;
    *old = minor == '0';
    if (major != '1') return 505;
    for (size_t i = 0; i < request->target.n; i++) {
        unsigned char c = (unsigned char)request->target.data[i];
        if (c <= ' ' || c > '~') return 400;
    }
    return request->target.n > 0 && request->target.data[0] == '/' ? 200 : 400;
}

static bool fields_are_right(String fields) {
    while (fields.n) {
        String line = take_line(&fields), name;
        if (!take_until(&line, ':', &name) || !is_token(name)) return false;
    }
    return true;
}

size_t http_field(const HttpRequest *request, const char *name, String *value) {
    String left = request->fields, its_name;
    size_t n = 0;
    while (left.n) {
        String line = take_line(&left);
        if (take_until(&line, ':', &its_name) && equals_name(its_name, name)) *value = trimmed(line), n++;
    }
    return n;
}

/* Whether the value of a field, a list, has that member. */
static bool lists(String list, const char *member) {
    String item;
    while (take_until(&list, ',', &item))
        if (equals_name(trimmed(item), member)) return true;
    return equals_name(trimmed(list), member);
}

/* Content-Length, the only way to say how long a body is; *n is 0 without it. Returns 200, or the status of a refusal. */
static int read_body_length(const HttpRequest *request, size_t *n) {
    String text = {0}, unused;
    size_t times = http_field(request, "content-length", &text);
    *n = 0;
    if (http_field(request, "transfer-encoding", &unused)) return times ? 400 : 501;
    if (times > 1 || (times && text.n == 0)) return 400;
    for (size_t i = 0; i < text.n; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return 400;
        if (*n <= HTTP_BODY_BYTES)
            *n = 10 * *n + (size_t)(text.data[i] - '0'); /* beyond, more digits change nothing */
    }
    if (*n > HTTP_BODY_BYTES) return 413;
    return times || !string_equals(request->method, "POST") ? 200 : 411;
}

int http_read(const char *bytes, size_t n, HttpRequest *request, size_t *needed) {
    bool bad = false, old = false;
    size_t n_head = head_length(bytes, n, &bad), n_body;
    String head = {bytes, n_head - 2}, value;
    *request = (HttpRequest){.closes = true};
    *needed = n + 1;
    if (bad) return 400;
    if (n_head == 0) return n < HTTP_HEAD_BYTES ? 0 : 431;
    int status = read_request_line(take_line(&head), request, &old);
    if (status != 200) return status;
    request->fields = head;
    if (!fields_are_right(head)) return 400;
    size_t hosts = http_field(request, "host", &value);
    if (hosts > 1 || (hosts == 0 && !old)) return 400;
    status = read_body_length(request, &n_body);
    if (status != 200) return status;
    if (http_field(request, "expect", &value))
        return 417; /* who wants to be asked for the body sends it then unasked */
    request->closes = old || (http_field(request, "connection", &value) && lists(value, "close"));
    *needed = n_head + n_body;
    if (n < *needed) return 0;
    request->body = (String){bytes + n_head, n_body};
    return 200;
}

const char *http_reason(int status) {
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {400, "Bad Request"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {411, "Length Required"},
        {413, "Content Too Large"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {431, "Request Header Fields Too Large"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status) return reasons[i].reason;
    return "Internal Server Error";
}
