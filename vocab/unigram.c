/* Viterbi: the best way to every place of the text, from the left; then back along it from the end. */
#include "vocab/unigram.h"

#include "base/utf8.h"

#include <stdlib.h>

/* The best way to a place: its last piece, and where that starts. */
typedef struct Place {
    double score;
    uint32_t start;
    int32_t id; /* −1: a character that is no piece */
} Place;

static const uint32_t UNSEEN = UINT32_MAX; /* the start of a piece to a place that no piece has reached */

static void reach(Place *place, double score, size_t start, int32_t id) {
    if (place->start == UNSEEN || score > place->score) *place = (Place){score, (uint32_t)start, id};
}

static bool may_be(const unsigned char *steers, int32_t id) { return !steers || !bit_of(steers, id); }

static void find_ways(const Unigram *unigram, const char *text, size_t n, const unsigned char *steers,
                      Place *places) {
    places[0].score = 0;
    for (size_t i = 1; i <= n; i++) places[i].start = UNSEEN;
    for (size_t start = 0, length; start < n; start += length) {
        uint32_t c;
        length = utf8_decode(text + start, n - start, &c);
        for (int32_t i = prefixes_find(&unigram->pieces, text + start, n - start); i >= 0;) {
            const Prefix *piece = &unigram->pieces.items[i];
            if (may_be(steers, piece->id))
                reach(&places[start + piece->text.n], places[start].score + unigram->scores[piece->id], start,
                      piece->id);
            i = piece->shorter;
        }
        /* Lower than any piece's score: where the character is one, nothing comes of this. */
        reach(&places[start + length], places[start].score + unigram->unknown_score, start, -1);
    }
}

/* Pushes, the last first, the token of text[0, n), which is unknown in parts, or those of its bytes, or the unknown one. */
static bool push_unknown(const Unigram *unigram, const char *text, size_t n, const unsigned char *steers,
                         Tokens *tokens, Error *error) {
    int32_t i = prefixes_find(&unigram->pieces, text, n);
    if (i >= 0 && unigram->pieces.items[i].text.n == n && may_be(steers, unigram->pieces.items[i].id))
        return tokens_push(tokens, unigram->pieces.items[i].id, error);
    size_t n_bytes = 0;
    while (unigram->byte_ids && n_bytes < n && unigram->byte_ids[(unsigned char)text[n_bytes]] >= 0)
        n_bytes++;
    if (n_bytes < n) {
        if (unigram->unknown >= 0) return tokens_push(tokens, unigram->unknown, error);
        return error_set(error, "the vocabulary has no token for '%.*s', and none for what is unknown",
                         string_shown((String){text, n}), text);
    }
    bool ok = true;
    while (ok && n > 0) ok = tokens_push(tokens, unigram->byte_ids[(unsigned char)text[--n]], error);
    return ok;
}

static bool push_way(const Unigram *unigram, const char *text, size_t n, const unsigned char *steers,
                     const Place *places, Tokens *tokens, Error *error) {
    size_t first = tokens->n;
    bool ok = true;
    for (size_t end = n, start; ok && end > 0; end = start) {
        start = places[end].start;
        int32_t id = places[end].id;
        if (id >= 0 && id != unigram->unknown) {
            ok = tokens_push(tokens, id, error);
            continue;
        }
        while (start > 0 && (places[start].id < 0 || places[start].id == unigram->unknown))
            start = places[start].start;
        ok = push_unknown(unigram, text + start, end - start, steers, tokens, error);
    }
    for (size_t a = first, b = tokens->n; a + 1 < b; a++, b--) {
        int32_t id = tokens->ids[a];
        tokens->ids[a] = tokens->ids[b - 1], tokens->ids[b - 1] = id;
    }
    return ok;
}

bool unigram_encode(const Unigram *unigram, String text, const unsigned char *steers, Tokens *tokens,
                    Error *error) {
    Place *places = text.n < UINT32_MAX ? malloc((text.n + 1) * sizeof *places) : NULL;
    if (!places) return error_set(error, "not enough memory to tokenize %zu bytes", text.n);
    find_ways(unigram, text.data, text.n, steers, places);
    bool ok = push_way(unigram, text.data, text.n, steers, places, tokens, error);
    free(places);
    return ok;
}
