#include "views/pairs.h"

#include <errno.h>
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
    return study_token_given(study, "--answer", options->answer, &pair->answer, error) &&
           study_token_given(study, "--wrong", options->wrong, &pair->wrong, error);
}

bool pairs_next(Pairs *pairs, bool *ends, Error *error) {
    pair_free(&pairs->pair);
    pairs->pair.wrong = -1;
    *ends = !pairs->file && pairs->n_read > 0;
    if (*ends) return true;
    return pairs->file ? pairs_read_line(pairs, ends, error) : read_options(pairs, error);
}

enum { SHOWN = 5 /* tokens of each text in an error */ };

/* Appends some tokens from `from` on, in quotes, to a text of `size` bytes. */
static void append_tokens(const Pairs *pairs, const Tokens *tokens, size_t from, char *text, size_t size) {
    for (size_t i = from; i < tokens->n && i < from + SHOWN; i++) {
        String piece = tokenizer_piece(pairs->study->tokenizer, tokens->ids[i], true);
        size_t n = strlen(text);
        snprintf(text + n, size - n, " \"%.*s\"", string_shown(piece), piece.data);
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
