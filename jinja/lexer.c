/* See lexer.h. The rules are those of jinja2's lexer.py (3.1). Behind the source lies a NUL. */
#include "jinja/lexer.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static bool starts(const Lexer *l, size_t at, const char *word) {
    return strncmp(l->source.data + at, word, strlen(word)) == 0;
}

/* Moves to `at`, counting lines. */
static void move_to(Lexer *l, size_t at) {
    for (; l->at < at; l->at++) l->line += l->source.data[l->at] == '\n';
}

/* The bytes of the character at `at` if it is white space, as Python has it; 0 if not. */
static size_t blank_at(const Lexer *l, size_t at) {
    uint32_t c;
    size_t n = at < l->source.n ? utf8_decode(l->source.data + at, l->source.n - at, &c) : 0;
    return n > 0 && utf8_is_space(c) ? n : 0;
}

static size_t after_blanks(const Lexer *l, size_t at) {
    for (size_t n; (n = blank_at(l, at)) > 0;) at += n;
    return at;
}

/* Where the character that ends at `end` begins, if it is white space; else `end`. */
static size_t before_blank(const Lexer *l, size_t from, size_t end) {
    size_t at = end > from ? from + utf8_before(l->source.data + from, end - from) : end;
    return at < end && at + blank_at(l, at) == end ? at : end;
}

/*
 * Goes behind "-%}", "+%}" or "%}" at `at`, or what else closes a tag, and the white space that goes with it: the first
 * newline, if it `trims`. False, and nothing is done, if no tag ends here.
 */
static bool close_tag(Lexer *l, size_t at, const char *close, bool trims) {
    char sign = l->source.data[at];
    bool has_sign = sign == '-' || (sign == '+' && trims);
    if (!starts(l, at + has_sign, close)) return false;
    at += has_sign + 2;
    if (sign == '-')
        at = after_blanks(l, at);
    else if (trims && !has_sign && l->source.data[at] == '\n')
        at++;
    move_to(l, at);
    return true;
}

/* The text before the tag at `to`, without the white space that the tag takes. */
static String text_before(const Lexer *l, size_t to) {
    const char *text = l->source.data;
    size_t from = l->at, end = to;
    char sign = to < l->source.n ? text[to + 2] : '+';
    if (sign == '-') {
        for (size_t at; (at = before_blank(l, from, end)) < end;) end = at;
    } else if (sign != '+' && text[to + 1] != '{') {
        for (size_t at; (at = before_blank(l, from, end)) < end && text[at] != '\n';) end = at;
        if (end > 0 && text[end - 1] != '\n') end = to; /* the tag does not begin its line */
    }
    return (String){text + from, end - from};
}

static size_t find_tag(const Lexer *l) {
    for (size_t at = l->at;; at++) {
        const char *brace = memchr(l->source.data + at, '{', l->source.n - at);
        if (!brace) return l->source.n;
        at = (size_t)(brace - l->source.data);
        if (brace[1] && strchr("%{#", brace[1])) return at;
    }
}

/* Whether at `at` is a tag of this one word; *end is what then follows it. */
static bool is_tag_of(const Lexer *l, size_t at, const char *word, size_t *end) {
    if (!starts(l, at, "{%")) return false;
    at += 2;
    if (l->source.data[at] == '-' || l->source.data[at] == '+') at++;
    at = after_blanks(l, at);
    if (!starts(l, at, word)) return false;
    *end = after_blanks(l, at + strlen(word));
    return starts(l, *end, "%}") || starts(l, *end, "-%}") || starts(l, *end, "+%}");
}

static bool lexer_fail(const Lexer *l, Error *error, const char *what) {
    return error_set(error, "the chat template, line %u: %s", l->line, what);
}

static bool skip_comment(Lexer *l, Error *error) {
    size_t at = l->at + 2;
    if (l->source.data[at] == '-' || l->source.data[at] == '+') at++;
    for (size_t from = at; at < l->source.n; at++) {
        if (!starts(l, at, "#}")) continue;
        char sign = at > from ? l->source.data[at - 1] : 0;
        return close_tag(l, at - (sign == '-' || sign == '+'), "#}", true);
    }
    return lexer_fail(l, error, "a comment has no end");
}

/* Reads the text between tags, or the beginning of a tag. */
static bool next_outside(Lexer *l, Token *token, Error *error) {
    for (;;) {
        size_t to = find_tag(l), end;
        token->line = l->line;
        token->text = text_before(l, to);
        move_to(l, to);
        token->kind = token->text.n ? TEXT_TOKEN : END_TOKEN;
        if (token->text.n || to == l->source.n) return true;
        if (l->source.data[to + 1] == '#') {
            if (!skip_comment(l, error)) return false;
        } else if (is_tag_of(l, to, "raw", &end) && l->source.data[end] != '+') {
            close_tag(l, end, "%}", false);
            size_t close = l->at;
            while (close < l->source.n && !is_tag_of(l, close, "endraw", &end)) close++;
            if (close == l->source.n) return lexer_fail(l, error, "a raw block has no end");
            token->kind = TEXT_TOKEN;
            token->text = text_before(l, close);
            move_to(l, end);
            close_tag(l, end, "%}", true);
            if (token->text.n) return true;
        } else {
            l->tag = l->source.data[to + 1];
            l->brackets = 0;
            token->kind = l->tag == '%' ? STATEMENT_TOKEN : EXPRESSION_TOKEN;
            bool sign = l->source.data[to + 2] == '-' || l->source.data[to + 2] == '+';
            l->at += 2 + (size_t)sign;
            return true;
        }
    }
}

/* The number of up to `most` digits of a base; *at goes behind them. -1: there are fewer than `least`. */
static int64_t escaped_number(String s, size_t *at, unsigned base, size_t least, size_t most) {
    int64_t number = 0;
    size_t n = 0;
    for (; n < most && *at < s.n; n++, ++*at) {
        char c = s.data[*at], lower = (char)(c | 0x20);
        unsigned digit = is_digit(c)                    ? (unsigned)(c - '0')
                         : lower >= 'a' && lower <= 'f' ? (unsigned)(lower - 'a' + 10)
                                                        : 99;
        if (digit >= base) break;
        number = number * base + digit;
    }
    return n < least ? -1 : number;
}

/* Python's escapes in a string, s, which become no longer; out has room for s.n bytes. False: one is wrong. */
static bool unescape(String s, char *out, size_t *n_out) {
    size_t n = 0;
    for (size_t at = 0; at < s.n;) {
        char c = s.data[at++];
        if (c != '\\') {
            out[n++] = c;
            continue;
        }
        c = s.data[at++]; /* there is one: the string would not have ended otherwise */
        const char *simple = "n\nt\tr\rb\bf\fv\va\a\\\\''\"\""; /* each letter, and what it means */
        while (*simple && *simple != c) simple += 2;
        int64_t code = -1;
        if (c == 'x' || c == 'u' || c == 'U') {
            size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
            code = escaped_number(s, &at, 16, digits, digits);
            if (code < 0 || code > 0x10FFFF) return false;
        } else if (c >= '0' && c <= '7') {
            at--;
            code = escaped_number(s, &at, 8, 1, 3);
        }
        if (code >= 0)
            n += utf8_encode(code >= 0xD800 && code < 0xE000 ? 0xFFFD : (uint32_t)code, out + n);
        else if (*simple)
            out[n++] = simple[1];
        else if (c != '\n')
            out[n++] = '\\', out[n++] = c;
    }
    *n_out = n;
    return true;
}

static bool next_string(Lexer *l, Token *token, Error *error) {
    const char *text = l->source.data;
    size_t from = l->at + 1, end = from;
    bool escapes = false;
    while (end < l->source.n && text[end] != text[l->at]) {
        escapes = escapes || text[end] == '\\';
        end += text[end] == '\\' ? 2 : 1;
    }
    if (end >= l->source.n) return lexer_fail(l, error, "a string has no end");
    String s = {text + from, end - from};
    if (escapes) {
        char *out = pool_take(l->pool, s.n + 4);
        if (!out) return lexer_fail(l, error, "not enough memory");
        if (!unescape(s, out, &s.n)) return lexer_fail(l, error, "a string has an escape that is none");
        s.data = out;
    }
    token->kind = CONST_TOKEN;
    token->value = (Any){.kind = VALUE_STRING, .n = (uint32_t)s.n, .text = s.data};
    move_to(l, end + 1);
    return true;
}

/* Of a base up to 10, or of 16. */
static bool is_digit_of(char c, int base) {
    return is_digit(c) || (base == 16 && (c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static bool next_number(Lexer *l, Token *token, Error *error) {
    char digits[64], *end;
    size_t n = 0, at = l->at;
    const char *text = l->source.data;
    char mark = text[at] == '0' ? (char)(text[at + 1] | 0x20) : 0;
    int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    if (base != 10) at += 2;
    bool real = false, has_exponent = false, may_be_real = base == 10 && !l->after_dot;
    for (;; at++) {
        char c = text[at], after = text[at + 1];
        bool is_signed = (after == '+' || after == '-') && is_digit(text[at + 2]);
        bool point = c == '.' && may_be_real && !real && is_digit(after);
        bool exponent = (c | 0x20) == 'e' && may_be_real && !has_exponent && (is_digit(after) || is_signed);
        if (c == '_' && is_digit_of(after, base)) continue;
        if (!is_digit_of(c, base) && !point && !exponent) break;
        real = real || point || exponent;
        has_exponent = has_exponent || exponent;
        if (n + 3 > sizeof digits) return lexer_fail(l, error, "a number has too many digits");
        digits[n++] = c;
        if (exponent && is_signed) digits[n++] = after, at++;
    }
    digits[n] = 0;
    errno = 0;
    token->kind = CONST_TOKEN;
    if (real)
        token->value = (Any){.kind = VALUE_FLOAT, .real = strtod(digits, &end)};
    else
        token->value = (Any){.kind = VALUE_INT, .integer = strtoll(digits, &end, base)};
    bool octal = !real && base == 10 && *digits == '0' && token->value.integer; /* as it was once written */
    if (*end || n == 0 || octal) return lexer_fail(l, error, "a number has a digit that its base has not");
    if (errno && !real) return lexer_fail(l, error, "a number is too large");
    l->at = at;
    return true;
}

static const struct {
    const char text[3];
    uint8_t op;
} operators[] = {{"==", OP_EQUAL},    {"!=", OP_UNEQUAL}, {"<=", OP_AT_MOST},
                 {">=", OP_AT_LEAST}, {"//", OP_FLOOR},   {"**", OP_POWER}};

static bool next_operator(Lexer *l, Token *token, Error *error) {
    char c = l->source.data[l->at];
    if (!c || !strchr("+-*/%~[](){}<>=.:|,", c)) {
        if (strncmp(l->source.data + l->at, "!=", 2) != 0)
            return lexer_fail(l, error, "a character that means nothing here");
    }
    token->kind = OPERATOR_TOKEN;
    token->op = (uint8_t)c;
    size_t n = 1;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (starts(l, l->at, operators[i].text)) token->op = operators[i].op, n = 2;
    if (strchr("([{", c)) l->brackets++;
    if (strchr(")]}", c) && l->brackets-- == 0)
        return lexer_fail(l, error, "a bracket closes that was not opened");
    l->at += n;
    return true;
}

static bool next_inside(Lexer *l, Token *token, Error *error) {
    move_to(l, after_blanks(l, l->at));
    token->line = l->line;
    const char *text = l->source.data;
    if (l->at == l->source.n) return lexer_fail(l, error, "a tag has no end");
    if (l->brackets == 0 && close_tag(l, l->at, l->tag == '%' ? "%}" : "}}", l->tag == '%')) {
        token->kind = CLOSE_TOKEN;
        l->tag = 0;
        return true;
    }
    char c = text[l->at];
    if (is_digit(c)) return next_number(l, token, error);
    if (c == '"' || c == '\'') return next_string(l, token, error);
    if (!is_word(c)) return next_operator(l, token, error);
    token->kind = NAME_TOKEN;
    size_t from = l->at;
    while (is_word(text[l->at]) && blank_at(l, l->at) == 0) l->at++;
    token->text = (String){text + from, l->at - from};
    return true;
}

bool lexer_next(Lexer *l, Token *token, Error *error) {
    *token = (Token){0};
    bool ok = l->tag ? next_inside(l, token, error) : next_outside(l, token, error);
    l->after_dot = ok && token->kind == OPERATOR_TOKEN && token->op == '.';
    return ok;
}
