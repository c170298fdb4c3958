/* Pairs from a file: lines of JSON, read one by one. */
#include "base/json.h"
#include "cli/input.h"
#include "cli/process.h"
#include "views/pairs.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* An error of the line just read. */
static bool fail(const Pairs *pairs, Error *error, const char *format, ...) {
    char what[400];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return error_set(error, "%s: line %zu: %s", pairs->options->file, pairs->n_read, what);
}

static bool is_blank(const TextBuffer *text) {
    for (size_t i = 0; i < text->n; i++)
        if (text->data[i] != ' ' && text->data[i] != '\t' && text->data[i] != '\r') return false;
    return true;
}

/* The next line that is not empty, or *ends. */
static bool read_json_line(Pairs *pairs, bool *ends, Error *error) {
    TextBuffer *text = &pairs->text;
    do {
        int next = 0;
        text->n = 0;
        while (text->n <= MAX_LINE_BYTES && (next = getc(pairs->file)) != EOF && next != '\n') {
            char c = (char)next;
            if (!text_append(text, &c, 1))
                return error_set(error, "not enough memory for a line of %zu bytes", text->n);
        }
        *ends = next == EOF && text->n == 0;
        pairs->n_read += !*ends;
        if (interrupted()) return error_set(error, "interrupted");
        if (ferror(pairs->file))
            return error_set(error, "%s: cannot read: %s", pairs->options->file, strerror(errno));
        if (text->n > MAX_LINE_BYTES) return fail(pairs, error, "has more than %d bytes", MAX_LINE_BYTES);
    } while (!*ends && is_blank(text));
    return true;
}

/* A text of the line's object; without bytes where there is none, if it may be missing. */
static bool get_text(const Pairs *pairs, const Json *object, const char *key, bool optional, String *text,
                     Error *error) {
    const Json *value = json_get(object, key);
    *text = json_string(value);
    if (!value || (optional && value->kind == JSON_NULL))
        return optional || fail(pairs, error, "there is no \"%s\"", key);
    if (value->kind != JSON_TEXT) return fail(pairs, error, "\"%s\" is no text", key);
    return text->n > 0 || fail(pairs, error, "\"%s\" is empty", key);
}

static bool encode(const Pairs *pairs, const char *key, String text, Tokens *tokens, Error *error) {
    Error cause = {{0}};
    return study_encode(pairs->study, text.data, text.n, tokens, &pairs->study->subject.bos, &cause) ||
           fail(pairs, error, "\"%s\": %s", key, cause.message);
}

/* The tokens of two texts, one behind the other. */
static bool encode_both(const Pairs *pairs, const char *key, String a, String b, Tokens *tokens,
                        Error *error) {
    TextBuffer both = {0};
    bool ok = (text_append(&both, a.data, a.n) && text_append(&both, b.data, b.n)) ||
              error_set(error, "not enough memory for %zu bytes", a.n + b.n);
    ok = ok && encode(pairs, key, text_string(&both), tokens, error);
    free(both.data);
    return ok;
}

/*
 * The first token of what follows the clean text: of both as one text, if its tokens begin with those of the clean one;
 * else, where the two would grow together, of what follows by itself.
 */
static bool find_following(Pairs *pairs, const char *key, String clean, String text, int32_t *id,
                           Error *error) {
    const Tokens *before = &pairs->pair.clean;
    Tokens tokens = {0};
    Error cause = {{0}};
    bool ok = encode_both(pairs, key, clean, text, &tokens, error);
    size_t at = before->n;
    if (ok && (tokens.n <= at || memcmp(tokens.ids, before->ids, at * sizeof *tokens.ids) != 0)) {
        tokens.n = at = 0;
        ok = tokenizer_encode(pairs->study->tokenizer, text.data, text.n, 0, &tokens, &cause) ||
             fail(pairs, error, "\"%s\": %s", key, cause.message);
    }
    if (ok && tokens.n <= at) ok = fail(pairs, error, "\"%s\" is no token", key);
    if (ok) *id = tokens.ids[at];
    if (ok && tokens.n > at + 1) pairs->pair.cut = true;
    tokens_free(&tokens);
    return ok;
}

static bool read_object(Pairs *pairs, const Json *object, Error *error) {
    Pair *pair = &pairs->pair;
    String clean, corrupted, answer, wrong;
    if (object->kind != JSON_OBJECT) return fail(pairs, error, "is no JSON object");
    return get_text(pairs, object, "clean", false, &clean, error) &&
           get_text(pairs, object, "corrupted", false, &corrupted, error) &&
           get_text(pairs, object, "answer", false, &answer, error) &&
           get_text(pairs, object, "wrong", true, &wrong, error) &&
           encode(pairs, "clean", clean, &pair->clean, error) &&
           encode(pairs, "corrupted", corrupted, &pair->corrupted, error) &&
           find_following(pairs, "answer", clean, answer, &pair->answer, error) &&
           (wrong.n == 0 || find_following(pairs, "wrong", clean, wrong, &pair->wrong, error));
}

bool pairs_read_line(Pairs *pairs, bool *ends, Error *error) {
    Error cause = {{0}};
    if (!read_json_line(pairs, ends, error)) return false;
    if (*ends) return true;
    Json *object = json_parse(pairs->text.data, pairs->text.n, &cause);
    const char *what = strchr(cause.message, ':'); /* behind json_parse's own "line 1" */
    bool ok = object ? read_object(pairs, object, error)
                     : fail(pairs, error, "no JSON: %s", what ? what + 2 : cause.message);
    json_free(object);
    pairs->pair.line = pairs->n_read;
    return ok;
}
