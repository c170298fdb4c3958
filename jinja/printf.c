/* Python's "…%s…" % values, which the filter format is, too. */
#include "jinja/jinja.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A place for a value begins with '%': flags, width, precision, and the value's kind follow. */
typedef struct Place {
    bool left, zeros;
    char sign;            /* in front of what is not negative; 0: nothing */
    char kind;            /* 0: there is none */
    int width, precision; /* precision −1: none */
} Place;

enum { PLACE_MAX = 1 << 24, PRECISION_MAX = 300, ROOM = 700 /* 309 digits and PRECISION_MAX decimals */ };

static char next_of(Any s, size_t *at) { return *at < s.n ? s.text[(*at)++] : 0; }

/* Digits, the last of which is followed by *c. */
static int take_number(Any s, size_t *at, char *c) {
    int number = 0;
    for (; *c >= '0' && *c <= '9'; *c = next_of(s, at))
        if (number < PLACE_MAX) number = number * 10 + (*c - '0');
    return number;
}

static Place read_place(Any s, size_t *at) {
    Place place = {.precision = -1};
    char c = next_of(s, at);
    for (; c && strchr("-+ 0", c); c = next_of(s, at)) {
        place.left |= c == '-';
        place.zeros |= c == '0';
        if (c == '+' || (c == ' ' && !place.sign)) place.sign = c;
    }
    place.width = take_number(s, at, &c);
    if (c == '.') c = next_of(s, at), place.precision = take_number(s, at, &c);
    place.kind = c;
    return place;
}

static void emit_times(Render *r, const char *word, int64_t n) {
    for (; n > 0 && charge(r, 1); n--) emit_word(r, word);
}

/* A text, with its sign in front, in the place's width. */
static void emit_field(Render *r, const Place *place, const char *sign, Text body, bool zeros) {
    int64_t room = place->width - (int64_t)(strlen(sign) + text_characters(r, body));
    if (!place->left && !zeros) emit_times(r, " ", room);
    emit_word(r, sign);
    if (!place->left && zeros) emit_times(r, "0", room);
    emit(r, body);
    if (place->left) emit_times(r, " ", room);
}

static void emit_text(Render *r, Any v, const Place *place) {
    size_t start = r->out->n;
    emit_value(r, v, place->kind == 'r');
    Text text = text_of(cut(r, start));
    if (place->precision >= 0) text.n = text_offset(r, text, (size_t)place->precision);
    emit_field(r, place, "", text, false);
}

static void emit_number(Render *r, Any v, const Place *place) {
    char digits[ROOM];
    const bool is_real = strchr("eEfFgG", place->kind) != NULL, is_whole = strchr("diu", place->kind) != NULL;
    const double x = is_number(v) ? number_of(v) : 0;
    if (!is_number(v) || (v.kind == VALUE_FLOAT && !is_real && (!is_whole || isnan(x) || isinf(x)))) {
        fail(r, "a format wants %s, not %s", is_real || is_whole ? "a number" : "an integer", value_type(v));
        return;
    }
    if (place->precision > PRECISION_MAX) {
        fail(r, "a format has too large a number");
        return;
    }
    charge(r, 10);
    int decimals = place->precision < 0 ? 6 : place->precision, least = place->precision;
    bool negative = v.kind == VALUE_FLOAT ? signbit(x) && (is_real || x <= -1) : v.integer < 0;
    const unsigned long long size = v.kind == VALUE_FLOAT ? 0
                                    : negative            ? 0 - (unsigned long long)v.integer
                                                          : (unsigned long long)v.integer;
    switch (place->kind) {
    case 'e':
    case 'E': snprintf(digits, ROOM, "%.*e", decimals, fabs(x)); break;
    case 'f':
    case 'F': snprintf(digits, ROOM, "%.*f", decimals, fabs(x)); break;
    case 'g':
    case 'G': snprintf(digits, ROOM, "%.*g", decimals, fabs(x)); break;
    case 'o': snprintf(digits, ROOM, "%.*llo", least < 1 ? 1 : least, size); break;
    case 'x':
    case 'X': snprintf(digits, ROOM, "%.*llx", least < 1 ? 1 : least, size); break;
    default:
        if (v.kind == VALUE_FLOAT)
            snprintf(digits, ROOM, "%.0f", trunc(fabs(x)));
        else
            snprintf(digits, ROOM, "%.*llu", least < 1 ? 1 : least, size);
    }
    if (strchr("EFGX", place->kind))
        for (char *c = digits; *c; c++) *c = (char)toupper((unsigned char)*c);
    const char sign[] = {negative ? '-' : place->sign, 0};
    emit_field(r, place, sign, text_own(digits, strlen(digits)), place->zeros);
}

Any string_printf(Render *r, Any self, const Any *p, const Args *args) {
    (void)p;
    Text s = text_of(self);
    size_t start = r->out->n;
    uint32_t next = 0;
    charge_bytes(r, s.n);
    for (size_t at = 0; at < s.n && charge(r, 1);) {
        const char *percent = memchr(s.data + at, '%', s.n - at);
        size_t n = percent ? (size_t)(percent - s.data) - at : s.n - at;
        emit(r, text_part(s, at, n));
        at += n;
        if (at++ == s.n) break;
        Place place = read_place(self, &at);
        if (place.kind == '%' && s.data[at - 2] == '%') {
            emit(r, text_part(s, at - 1, 1));
            continue;
        }
        if (!place.kind || !strchr("srdiueEfFgGoxX", place.kind))
            return fail(r, "a format has a '%%' that is not known here");
        if (place.width >= PLACE_MAX) return fail(r, "a format has too large a number");
        if (next == args->list.n) return fail(r, "a format has more places than there are arguments");
        Any v = args->list.items[next++];
        if (place.kind == 's' || place.kind == 'r')
            emit_text(r, v, &place);
        else
            emit_number(r, v, &place);
    }
    return next < args->list.n ? fail(r, "a format has more arguments than places") : cut(r, start);
}
