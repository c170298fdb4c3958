/* HTTP/1.1 (RFC 9112) as far as a small server on loopback needs it: reading a request strictly, and the head of an answer. */
#ifndef ATTN_HTTP_H
#define ATTN_HTTP_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

enum { HTTP_HEAD_BYTES = 16 << 10, HTTP_BODY_BYTES = 1 << 20 }; /* the most of a request */

/* Borrowed from the bytes that were read. */
typedef struct HttpRequest {
    String method, target; /* target: begins with '/', printable ASCII */
    String fields;         /* the lines behind the first, each with its CRLF */
    String body;
    bool closes; /* no further request comes on this connection */
} HttpRequest;

/*
 * Reads the request that the n bytes begin with. Returns 200 when it is whole, *needed bytes long; 0 when there must be
 * *needed bytes at least before it can be; otherwise the status of a refusal, after which nothing more can be read from
 * where the bytes come. A function of the bytes alone.
 */
int http_read(const char *bytes, size_t n, HttpRequest *request, size_t *needed);

/* How many fields have that name (lower case); *value is the last one's, without white space around it. */
size_t http_field(const HttpRequest *request, const char *name, String *value);

/* "Not Found" */
const char *http_reason(int status);

#endif
