#include "vocab/pieces_json.h"

#include "vocab/pipeline.h"
#include "vocab/tokens.h"
#include "vocab/unigram.h"

#include <stdlib.h>
#include <string.h>

/* The pipeline gives its pieces to this, which spells them and hands them on to the taker. */
typedef struct Between {
    const Vocab *vocab;
    const unsigned char *steers;
    const PieceTaker *taker;
    Error *error;
    TextBuffer swapped; /* a piece of text whose spaces are written as the vocabulary does */
    Tokens tokens;      /* of a piece, with Unigram */
} Between;

static bool is_space_sign(String text, size_t i) {
    return text.n - i >= 3 && memcmp(text.data + i, "\xe2\x96\x81", 3) == 0;
}

bool swap_spaces(String text, TextBuffer *out) {
    bool ok = true;
    size_t kept = 0;
    out->n = 0;
    for (size_t i = 0; ok && i < text.n;) {
        bool is_sign = is_space_sign(text, i);
        if (!is_sign && text.data[i] != ' ') {
            i++;
            continue;
        }
        ok = text_append(out, text.data + kept, i - kept) &&
             (is_sign ? text_append(out, " ", 1) : text_append(out, "\xe2\x96\x81", 3));
        kept = i += is_sign ? 3 : 1;
    }
    return ok && text_append(out, text.data + kept, text.n - kept);
}

static bool pass_token(void *context, int32_t id) {
    const Between *between = context;
    return between->taker->token(between->taker->context, id);
}

static bool pass_unigram(void *context, const char *text, size_t n) {
    Between *between = context;
    Tokens *tokens = &between->tokens;
    tokens->n = 0;
    bool ok =
        unigram_encode(between->vocab->unigram, (String){text, n}, between->steers, tokens, between->error);
    for (size_t i = 0; ok && i < tokens->n; i++) ok = pass_token(between, tokens->ids[i]);
    return ok;
}

/* Text becomes no token that steers, by standing for it as a whole either. */
static bool pass_piece(void *context, const char *text, size_t n) {
    Between *between = context;
    const Vocab *vocab = between->vocab;
    if (vocab->swaps_spaces) {
        if (!swap_spaces((String){text, n}, &between->swapped))
            return error_set(between->error, "not enough memory to tokenize %zu bytes", n);
        text = between->swapped.data, n = between->swapped.n;
    }
    int32_t whole = vocab->whole_words ? vocab_find(vocab, (String){text, n}) : -1;
    return whole >= 0 && !(between->steers && bit_of(between->steers, whole))
               ? pass_token(between, whole)
               : between->taker->piece(between->taker->context, text, n);
}

bool pieces_json_cut(const Vocab *vocab, const Uncut *uncut, const PieceTaker *taker, Error *error) {
    if (vocab->byte_level) return pipeline_run(vocab->pipeline, uncut, taker, error);
    Between between = {.vocab = vocab, .steers = uncut->steers, .taker = taker, .error = error};
    const PieceTaker own = {&between, pass_token, vocab->unigram ? pass_unigram : pass_piece};
    bool ok = pipeline_run(vocab->pipeline, uncut, &own, error);
    free(between.swapped.data);
    tokens_free(&between.tokens);
    return ok;
}
