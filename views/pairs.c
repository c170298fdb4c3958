#include "views/pairs.h"

#include "base/json.h"
#include "cli/input.h"
#include "cli/process.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool pairs_check(const StudyOptions *options, const PairOptions *pairs, Error *error) {
    bool has_text = options->prompt || options->prompt_file || options->ids;
    if (pairs->file && (has_text || pairs->corrupted || pairs->answer || pairs->wrong))
        return error_set(error, "--pairs has texts and answers of its own: leave out %s",
                         has_text           ? "-p, -f and --ids"
                         : pairs->corrupted ? "--corrupted"
                         : pairs->answer    ? "--answer"
                                            : "--wrong");
    if (pairs->file) return true;
    if (!has_text) return error_set(error, "give the clean text with -p or -f, or many by --pairs FILE");
    if (!pairs->corrupted) return error_set(error, "give the corrupted text with --corrupted");
    return (pairs->answer && *pairs->answer && !(pairs->wrong && !*pairs->wrong)) ||
           error_set(error, "%s",
                     pairs->wrong && !*pairs->wrong ? "--wrong is empty: give a token"
                     : pairs->answer                ? "--answer is empty: give a token"
                                                    : "say with --answer which token follows the clean text");
}

bool pairs_open(Pairs *pairs, Study *study, const PairOptions *options, Error *error) {
    *pairs = (Pairs){.study = study, .options = options};
    if (!options->file) return true;
    pairs->file = strcmp(options->file, "-") == 0 ? stdin : fopen(options->file, "rb");
    return pairs->file || error_set(error, "%s: cannot open: %s", options->file, strerror(errno));
}

static void pair_free(Pair *pair) {
    tokens_free(&pair->clean);
    tokens_free(&pair->corrupted);
    *pair = (Pair){0};
}

void pairs_close(Pairs *pairs) {
    if (pairs->file && pairs->file != stdin) fclose(pairs->file);
    free(pairs->text.data);
    pair_free(&pairs->pair);
}

/* An error of the line just read. */
static bool fail(const Pairs *pairs, Error *error, const char *format, ...) {
    char what[400];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return error_set(error, "%s: line %zu: %s", pairs->options->file, pairs->n_read, what);
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
        if (ferror(pairs->file)) return fail(pairs, error, "cannot be read: %s", strerror(errno));
        if (text->n > MAX_LINE_BYTES) return fail(pairs, error, "has more than %d bytes", MAX_LINE_BYTES);
    } while (!*ends && strspn(text->n ? text->data : "", " \t\r") >= text->n);
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
    bool bos;
    return study_encode(pairs->study, text.data, text.n, tokens, &bos, &cause) ||
           fail(pairs, error, "\"%s\": %s", key, cause.message);
}

/* The tokens of two texts, one behind the other. */
static bool encode_both(const Pairs *pairs, const char *key, String a, String b, Tokens *tokens,
                        Error *error) {
    TextBuffer both = {0};
    bool ok = (text_append(&both, a.data, a.n) && text_append(&both, b.data, b.n)) ||
              error_set(error, "not enough memory for %zu bytes", a.n + b.n);
    ok = ok && encode(pairs, key, (String){both.data, both.n}, tokens, error);
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
    if (!object || object->kind != JSON_OBJECT) return fail(pairs, error, "is no JSON object");
    return get_text(pairs, object, "clean", false, &clean, error) &&
           get_text(pairs, object, "corrupted", false, &corrupted, error) &&
           get_text(pairs, object, "answer", false, &answer, error) &&
           get_text(pairs, object, "wrong", true, &wrong, error) &&
           encode(pairs, "clean", clean, &pair->clean, error) &&
           encode(pairs, "corrupted", corrupted, &pair->corrupted, error) &&
           find_following(pairs, "answer", clean, answer, &pair->answer, error) &&
           (wrong.n == 0 || find_following(pairs, "wrong", clean, wrong, &pair->wrong, error));
}

static bool read_file(Pairs *pairs, bool *ends, Error *error) {
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

static bool read_options(Pairs *pairs, Error *error) {
    const PairOptions *options = pairs->options;
    const Study *study = pairs->study;
    Pair *pair = &pairs->pair;
    Error cause = {{0}};
    bool bos;
    pairs->n_read++;
    for (size_t i = 0; i < study->subject.tokens.n; i++)
        if (!tokens_push(&pair->clean, study->subject.tokens.ids[i], error)) return false;
    if (!study_encode(study, options->corrupted, strlen(options->corrupted), &pair->corrupted, &bos, &cause))
        return error_set(error, "--corrupted: %s", cause.message);
    if (!study_token(study, options->answer, &pair->answer, &cause))
        return error_set(error, "--answer: %s", cause.message);
    return !options->wrong || study_token(study, options->wrong, &pair->wrong, &cause) ||
           error_set(error, "--wrong: %s", cause.message);
}

bool pairs_next(Pairs *pairs, bool *ends, Error *error) {
    pair_free(&pairs->pair);
    pairs->pair.wrong = -1;
    *ends = !pairs->file && pairs->n_read > 0;
    if (*ends) return true;
    return pairs->file ? read_file(pairs, ends, error) : read_options(pairs, error);
}

enum { SHOWN = 5 /* tokens of each text in an error */ };

/* Appends some tokens from `from` on, in quotes, to a text of `size` bytes. */
static void append_tokens(const Pairs *pairs, const Tokens *tokens, size_t from, char *text, size_t size) {
    for (size_t i = from; i < tokens->n && i < from + SHOWN; i++) {
        String piece = tokenizer_piece(pairs->study->tokenizer, tokens->ids[i], true);
        size_t n = strlen(text);
        snprintf(text + n, size - n, " \"%.*s\"", string_shown(piece), piece.n ? piece.data : "");
    }
    size_t n = strlen(text);
    snprintf(text + n, size - n, "%s",
             tokens->n > from + SHOWN ? " ..."
             : tokens->n <= from      ? " (its end)"
                                      : "");
}

bool pair_fits(const Pairs *pairs, const Pair *pair, Error *error) {
    char rows[2][200] = {"", ""};
    size_t n = at_most(pair->clean.n, pair->corrupted.n), from = 0;
    while (from < n && pair->clean.ids[from] == pair->corrupted.ids[from]) from++;
    if (pair->clean.n == pair->corrupted.n && from == n)
        return error_set(error, "the clean and the corrupted text are the same %zu tokens", n);
    if (pair->clean.n == pair->corrupted.n)
        return pair->answer != pair->wrong ||
               error_set(error, "the answer and the wrong one begin with the same token");
    append_tokens(pairs, &pair->clean, from, rows[0], sizeof rows[0]);
    append_tokens(pairs, &pair->corrupted, from, rows[1], sizeof rows[1]);
    return error_set(
        error,
        "the clean text has %zu tokens and the corrupted one %zu, and they must be as many; from token %zu "
        "on: clean%s | corrupted%s",
        pair->clean.n, pair->corrupted.n, from, rows[0], rows[1]);
}
