/*
 * How a program reports: text for people (bits; colour and bars on a terminal only) or, with --json, one object
 * for programs (nats). Both go to stdout, but JSON to a file where it is embedded in one.
 */
#ifndef ATTN_REPORT_H
#define ATTN_REPORT_H

#include "tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct Report {
    bool json, ascii;
    bool bars, colour; /* bars: on a terminal, or with --ascii */
    size_t width;      /* columns of the terminal; 100 when stdout is none */
    FILE *out;         /* of JSON: stdout */
    int depth;         /* of open JSON objects and arrays */
    bool needs_comma;
    const Tokenizer *tokenizer; /* whose tokens are shown, or NULL; borrowed */
} Report;

/* From the options, the terminal, and NO_COLOR (no-color.org). */
Report report_begin(bool json, bool ascii);

/* A page asks for JSON alone, so its engine has no text for people. */
static inline bool is_json(const Report *report) {
#if defined(__wasm__)
    (void)report;
    return true;
#else
    return report->json;
#endif
}

/* JSON, commas and all. key is NULL inside an array. A number that is not finite is written as null. */
void json_object(Report *report, const char *key);
void json_array(Report *report, const char *key);
void json_end_object(Report *report);
void json_end_array(Report *report);
void json_text(Report *report, const char *key, const char *text, size_t n); /* n bytes; (size_t)-1: strlen */
void json_int(Report *report, const char *key, int64_t value);
void json_real(Report *report, const char *key, double value);    /* nine digits */
void json_rounded(Report *report, const char *key, double value); /* six */
void json_reals(Report *report, const char *key, const double *values, size_t n);
void json_bool(Report *report, const char *key, bool value);
void json_null(Report *report, const char *key);
void json_base64(Report *report, const char *key, const void *bytes, size_t n); /* a text: RFC 4648 */

/*
 * A token's "id" and "token", its text; where that is no UTF-8 of its own, as when a character is split over
 * tokens, "hex" gives the bytes. json_piece: such a text under `key`, or in its place {"hex"}.
 */
void json_token(Report *report, int32_t id);
void json_piece(Report *report, const char *key, int32_t id);

/*
 * Characters that are not safe within a line (base/utf8.h), or that nobody would see in a token: a joiner, a soft
 * hyphen.
 */
bool is_control(uint32_t c);

/*
 * Shows people the character at text[0, n), n > 0: as itself, or "\n", "\u200e" for a control, "\xff"
 * for a byte that is none. Returns its length in bytes; *width is the columns that it takes.
 */
size_t show_char(const Report *report, const char *text, size_t n, char shown[16], size_t *width);

/*
 * For people: n bytes of any text, control characters and (with --ascii) all beyond ASCII escaped, cut to
 * `width` columns and padded to it (0: neither). text_width: the columns that it takes uncut.
 */
void print_column(const Report *report, const char *text, size_t n, size_t width);
size_t text_width(const Report *report, const char *text, size_t n);
void print_path(const Report *report, const char *path); /* a text of any width */

/* The same uncut, on lines of its own that break at spaces where the window ends. */
void print_wrapped(const Report *report, const char *text, size_t n);

/* Likewise in double quotes; print_token: a token as it appears in text. */
void print_quoted(const Report *report, const char *text, size_t n, size_t width);
void print_token(const Report *report, int32_t id, size_t width);

/*
 * Two spaces and a bar that is `width` columns at a share of 1; nothing at 0, or where bars are off. Returns
 * the columns it took.
 */
size_t print_bar(const Report *report, double share, size_t width);

/* One cell of a heat map, two columns wide, darker (or a denser character) from 0 to 1. */
void print_heat(const Report *report, double share);

/* Switches bold, dim or plain where colour is on. */
typedef enum Style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GOOD, STYLE_BAD } Style;
void print_style(const Report *report, Style style);

/* printf in a style, and back to plain. */
void print_styled(const Report *report, Style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
