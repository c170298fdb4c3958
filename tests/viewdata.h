/* The packed data of a page, decoded as a browser would. */
#ifndef TESTS_VIEWDATA_H
#define TESTS_VIEWDATA_H

#include "json.h"
#include "test.h"

#include <stdbool.h>
#include <stdint.h>

/* The bytes of a base64 text, exactly *n of them unless *n is SIZE_MAX; sets *n. NULL, and a failure, if not. */
static inline unsigned char *decode(const Json *text, size_t *n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t length = text ? text->n : 1, found = 0;
    unsigned char *bytes = malloc(length + 1);
    bool ok = bytes && text && text->kind == JSON_TEXT && length % 4 == 0;
    for (size_t i = 0; ok && i < length; i += 4) {
        uint32_t group = 0;
        size_t n_digits = 0;
        for (; n_digits < 4 && text->text[i + n_digits] != '='; n_digits++) {
            const char *digit = strchr(digits, text->text[i + n_digits]);
            ok = ok && digit;
            group |= ok ? (uint32_t)(digit - digits) << (18 - 6 * n_digits) : 0;
        }
        ok = ok && (n_digits == 4 || (n_digits > 1 && i + 4 == length));
        for (size_t j = 0; j + 1 < n_digits; j++) bytes[found++] = (unsigned char)(group >> (16 - 8 * j));
    }
    ok = ok && (*n == SIZE_MAX || *n == found);
    CHECK(ok, "no base64 of %zu bytes: %.40s", *n, c_text(json_string(text)));
    *n = found;
    if (!ok) free(bytes);
    return ok ? bytes : NULL;
}

/* Half a byte; beyond the end 0. */
static inline unsigned nibble_at(const unsigned char *bytes, size_t n, size_t at) {
    return at / 2 < n ? (unsigned)bytes[at / 2] >> (at % 2 * 4) & 15 : 0;
}

/* A pattern's triangle of n rows in [0, 255], from its half bytes. */
static inline bool unpack(unsigned char *triangle, size_t size, const Json *text) {
    size_t n = SIZE_MAX, at = 0, filled = 0;
    unsigned char *bytes = decode(text, &n);
    while (bytes && at < 2 * n && filled < size) {
        unsigned first = nibble_at(bytes, n, at++);
        if (first == 15) {
            triangle[filled++] = (unsigned char)(nibble_at(bytes, n, at) | nibble_at(bytes, n, at + 1) << 4);
            at += 2;
        } else if (first > 0) {
            triangle[filled++] = (unsigned char)first;
        } else {
            size_t run = 0;
            for (int shift = 0;; shift += 3) {
                unsigned group = nibble_at(bytes, n, at++);
                run |= (size_t)(group & 7) << shift;
                if (group < 8) break;
            }
            while (run-- && filled < size) triangle[filled++] = 0;
        }
    }
    CHECK(bytes && (at + 1) / 2 == n && filled == size, "%zu of %zu bytes give %zu of %zu cells",
          (at + 1) / 2, n, filled, size);
    free(bytes);
    return filled == size;
}

#endif
