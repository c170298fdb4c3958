/* Values of templates as text (jinja.h): what Python's str() and repr() make of them. */
#include "base/utf8.h"
#include "jinja/jinja.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The shortest digits that read back as the same, laid out as Python's repr does (David Gay's rule of 16 digits). */
static void emit_real(Render *r, double x) {
    char digits[32], text[64];
    if (isnan(x) || isinf(x)) {
        emit_word(r, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return;
    }
    int precision = 0;
    charge(r, 150); /* what follows takes some microseconds */
    do snprintf(digits, sizeof digits, "%.*e", precision, x);
    while (++precision < 17 && strtod(digits, NULL) != x);
    int exponent = atoi(strchr(digits, 'e') + 1), decimals = precision - 1 - exponent;
    if (exponent < -4 || exponent >= 16)
        snprintf(text, sizeof text, "%s", digits);
    else
        snprintf(text, sizeof text, "%.*f", decimals < 1 ? 1 : decimals, x);
    emit_word(r, text);
}

/* Prints a string as Python's repr does. */
static void emit_repr(Render *r, Text s) {
    bool has_single = memchr(s.data, '\'', s.n) != NULL, has_double = memchr(s.data, '"', s.n) != NULL;
    char quote[] = {has_single && !has_double ? '"' : '\'', 0}, text[16];
    size_t plain = 0; /* from here on as it is */
    emit_word(r, quote);
    for (size_t at = 0, n; at < s.n && charge(r, 1); at += n) {
        uint32_t c;
        n = utf8_decode(s.data + at, s.n - at, &c);
        bool shown = c == ' ' || (utf8_is_safe(c) && !utf8_is_space(c));
        if (c == (unsigned char)*quote || c == '\\')
            snprintf(text, sizeof text, "\\%c", (char)c);
        else if (c == '\n' || c == '\t' || c == '\r')
            snprintf(text, sizeof text, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
        else if (c < 0x110000 && !shown)
            snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        else
            continue;
        emit(r, text_part(s, plain, at - plain));
        emit_for(r, text, text_part(s, at, n));
        plain = at + n;
    }
    emit(r, text_part(s, plain, s.n - plain));
    emit_word(r, quote);
}

static void emit_items(Render *r, Any v) {
    bool is_dict = v.kind == VALUE_DICT || v.kind == VALUE_NAMESPACE;
    if (v.kind == VALUE_NAMESPACE) emit_word(r, "<Namespace ");
    emit_word(r, is_dict ? "{" : v.kind == VALUE_TUPLE ? "(" : "[");
    for (size_t i = 0; !r->failed && i < v.items->n; i++) {
        if (i > 0) emit_word(r, is_dict && i % 2 ? ": " : ", ");
        emit_value(r, v.items->items[i], true);
    }
    if (v.kind == VALUE_TUPLE && v.items->n == 1) emit_word(r, ",");
    emit_word(r, is_dict ? "}" : v.kind == VALUE_TUPLE ? ")" : "]");
    if (v.kind == VALUE_NAMESPACE) emit_word(r, ">");
}

void emit_value(Render *r, Any v, bool repr) {
    char number[64];
    switch ((ValueKind)v.kind) {
    case VALUE_ABSENT: break;
    case VALUE_UNDEFINED: emit_word(r, repr ? "Undefined" : ""); break;
    case VALUE_NONE: emit_word(r, "None"); break;
    case VALUE_BOOL: emit_word(r, v.integer ? "True" : "False"); break;
    case VALUE_INT:
        snprintf(number, sizeof number, "%lld", (long long)v.integer);
        emit_word(r, number);
        break;
    case VALUE_FLOAT: emit_real(r, v.real); break;
    case VALUE_STRING:
        if (repr)
            emit_repr(r, text_of(v));
        else
            emit(r, text_of(v));
        break;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT:
    case VALUE_NAMESPACE:
        if (descend(r)) emit_items(r, v);
        r->depth--;
        break;
    case VALUE_LOOP:
        snprintf(number, sizeof number, "<LoopContext %zu/%zu>", v.loop->index + 1, v.loop->n);
        emit_word(r, number);
        break;
    default: fail(r, "%s has no text", value_type(v));
    }
}

Any value_to_text(Render *r, Any v) {
    size_t start = r->out->n;
    if (v.kind == VALUE_STRING) return v;
    emit_value(r, v, false);
    return cut(r, start);
}
