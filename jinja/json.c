/* tojson as transformers has it: json.dumps, whose texts stay as they are unless ensure_ascii is asked for. */
#include "base/utf8.h"
#include "jinja/jinja.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Style {
    Text indent; /* of a level; data NULL: all is one line */
    Text between, colon;
    bool ascii, sorted;
} Style;

/* A control character, quote or backslash in JSON's way, and with `ascii` whatever is beyond it. */
static bool escape(uint32_t c, const Style *style, char *text, size_t room) {
    const char *letter = c && c < 0x20 ? strchr("\nn\tt\rr\bb\ff", (int)c) : NULL;
    if (c == '"' || c == '\\')
        snprintf(text, room, "\\%c", (char)c);
    else if (letter)
        snprintf(text, room, "\\%c", letter[1]);
    else if (c >= 0x20 && !(style->ascii && c >= 0x7f && c < 0x110000))
        return false;
    else if (c < 0x10000)
        snprintf(text, room, "\\u%04x", c);
    else
        snprintf(text, room, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10), 0xDC00 + (c & 0x3FF));
    return true;
}

static void emit_text(Render *r, Text s, const Style *style) {
    char text[16];
    size_t plain = 0; /* from here on as it is */
    emit_word(r, "\"");
    charge_characters(r, s.n);
    for (size_t at = 0, n; !r->failed && at < s.n; at += n) {
        uint32_t c;
        n = utf8_decode(s.data + at, s.n - at, &c);
        if (!escape(c, style, text, sizeof text)) continue;
        emit(r, text_part(s, plain, at - plain));
        emit_for(r, text, text_part(s, at, n));
        plain = at + n;
    }
    emit(r, text_part(s, plain, s.n - plain));
    emit_word(r, "\"");
}

static void emit_newline(Render *r, const Style *style, size_t level) {
    if (!style->indent.data) return;
    emit_word(r, "\n");
    for (size_t i = 0; i < level; i++) emit(r, style->indent);
}

static void emit_json(Render *r, Any v, const Style *style, size_t level);

/* A key, which JSON knows as text only. */
static void emit_key(Render *r, Any key, const Style *style) {
    if (key.kind == VALUE_STRING) {
        emit_text(r, text_of(key), style);
    } else {
        emit_word(r, "\"");
        emit_json(r, key, style, 0);
        emit_word(r, "\"");
    }
    emit(r, style->colon);
}

static void emit_items(Render *r, Any v, const Style *style, size_t level) {
    bool is_dict = v.kind == VALUE_DICT;
    JinjaItems all = {v.items->items, v.items->n};
    if (is_dict && style->sorted) {
        Args by_bytes = {.list = {.items = (Any[]){value_bool(true)}, .n = 1}}; /* case_sensitive */
        Any pairs = call_filter(r, (String){"dictsort", 8}, v, &by_bytes);
        Any flat = value_new(r, VALUE_LIST);
        for (size_t i = 0; !r->failed && i < pairs.items->n; i++)
            for (size_t j = 0; j < 2; j++) list_push(r, flat, pairs.items->items[i].items->items[j]);
        if (r->failed) return;
        all.items = flat.items->items;
    }
    emit_word(r, is_dict ? "{" : "[");
    for (size_t i = 0; !r->failed && i < all.n; i++) {
        if (i > 0) emit(r, style->between);
        emit_newline(r, style, level + 1);
        if (is_dict) emit_key(r, all.items[i++], style);
        emit_json(r, all.items[i], style, level + 1);
    }
    if (all.n) emit_newline(r, style, level);
    emit_word(r, is_dict ? "}" : "]");
}

static void emit_json(Render *r, Any v, const Style *style, size_t level) {
    switch ((ValueKind)v.kind) {
    case VALUE_NONE: emit_word(r, "null"); break;
    case VALUE_BOOL: emit_word(r, v.integer ? "true" : "false"); break;
    case VALUE_FLOAT:
        if (isnan(v.real) || isinf(v.real)) {
            emit_word(r, isnan(v.real) ? "NaN" : v.real < 0 ? "-Infinity" : "Infinity");
            break;
        } /* fall through */
    case VALUE_INT: emit_value(r, v, false); break;
    case VALUE_STRING: emit_text(r, text_of(v), style); break;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_GENERATOR: /* which json.dumps refuses, and templates have been written without knowing */
    case VALUE_DICT:
        if (descend(r)) emit_items(r, v, style, level);
        r->depth--;
        break;
    default: fail(r, "%s is no JSON", value_type(v));
    }
}

/* Blanks as many as a number says, or a text. */
static Text indent_of(Render *r, Any v) {
    static const char blanks[] = "                                                                ";
    if (v.kind == VALUE_STRING) return text_of(v);
    int64_t most = (int64_t)sizeof blanks - 1;
    if (!is_integer(v) || v.integer > most)
        fail(r, "JSON is indented by a text, or up to %d blanks", (int)most);
    return text_own(blanks, r->failed || v.integer < 0 ? 0 : (size_t)v.integer);
}

Any value_to_json(Render *r, Any self, const Any *p,
                  const Args *args) { /* ensure_ascii indent separators sort_keys */
    (void)args;
    size_t start = r->out->n;
    bool indents = is_given(p[1]) && p[1].kind != VALUE_NONE;
    Style style = {.between = text_own(indents ? "," : ", ", indents ? 1 : 2), .colon = text_own(": ", 2)};
    if (indents) style.indent = indent_of(r, p[1]);
    if (is_given(p[2]) && p[2].kind != VALUE_NONE) {
        bool two = (p[2].kind == VALUE_LIST || p[2].kind == VALUE_TUPLE) && p[2].items->n == 2 &&
                   p[2].items->items[0].kind == VALUE_STRING && p[2].items->items[1].kind == VALUE_STRING;
        if (!two) return fail(r, "separators are two strings");
        style.between = text_of(p[2].items->items[0]);
        style.colon = text_of(p[2].items->items[1]);
    }
    style.ascii = is_given(p[0]) && value_truth(p[0]);
    style.sorted = is_given(p[3]) && value_truth(p[3]);
    if (!r->failed) emit_json(r, self, &style, 0);
    return cut(r, start);
}
