/*
 * Filling: texts and types of the tokens ─► hash of texts ─► merges or scores ─► special tokens. A file spells
 * bytes in its own way (byte-level BPE writes a space as Ġ, SentencePiece as ▁); that is undone here, once, so that
 * encoding and decoding see bytes.
 *
 * Against hostile files, everything is checked against the number of tokens, and memory is a small multiple of
 * the file's size. The hashes have no secret seed, so a file may make its texts collide. Look-ups therefore
 * give up after MAX_PROBES slots, and a vocabulary that needs more is refused.
 */
#include "vocab/vocab.h"

#include "base/memory.h"
#include "vocab/pipeline.h"
#include "vocab/spelling.h"
#include "vocab/unigram.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* Tables are at most half full: an honest vocabulary needs k probes with probability below 0.83^k. */
    MAX_PROBES = 256,
    /* Special tokens are compared with every place of a text; real ones are far shorter. */
    MAX_SPECIAL_BYTES = 256,
};

static bool out_of_memory(const VocabBuilder *builder) {
    return error_set(builder->error, "%s: not enough memory for the vocabulary", builder->path);
}

static bool equal(String a, String b) { return a.n == b.n && memcmp(a.data, b.data, a.n) == 0; }

static uint64_t mix(uint64_t x) {
    x *= 0x9e3779b97f4a7c15u;
    return x ^ x >> 32;
}

static inline uint64_t hash_text(String text, bool padded) {
    uint64_t hash = text.n;
    for (; text.n > 8; text.data += 8, text.n -= 8) hash = mix(hash ^ padded_word(text.data, 8));
    return mix(mix(hash ^ (padded ? padded_word : text_word)(text.data, text.n)));
}

/*
 * A table for n entries has 2n places, and more slots to probe after the last. The place of a hash is its
 * upper half as a fraction of all places. Powers of two would make a table up to twice as large, and a start-up
 * waits for memory.
 */
static size_t table_slots(size_t n) { return 2 * n + MAX_PROBES; }
static size_t table_place(uint64_t hash, size_t n) { return (size_t)((hash >> 32) * (2 * n) >> 32); }

String vocab_shown(const Vocab *vocab, int32_t id) {
    if (!vocab->shown_starts) return vocab_text(vocab, id);
    uint32_t start = vocab->shown_starts[id];
    return (String){vocab->shown + start, vocab->shown_starts[id + 1] - start};
}

String vocab_text(const Vocab *vocab, int32_t id) {
    uint32_t start = vocab->starts[id];
    return (String){vocab->bytes + start, vocab->starts[id + 1] - start};
}

/* The slot that holds the text, or the free one where it belongs; NULL when neither is in reach. */
static uint32_t *text_slot(const Vocab *vocab, String text, uint64_t hash) {
    uint32_t *slot = &vocab->by_text[table_place(hash, vocab->n)], *end = slot + MAX_PROBES;
    uint32_t mask = vocab->id_mask, tag = (uint32_t)hash & ~mask; /* rules out most other texts unread */
    for (; slot < end; slot++)
        if (!*slot ||
            ((*slot & ~mask) == tag && equal(vocab_text(vocab, (int32_t)((*slot & mask) - 1)), text)))
            return slot;
    return NULL;
}

int32_t vocab_find(const Vocab *vocab, String text) {
    if (text.n > vocab->longest) return -1;
    const uint32_t *slot = text_slot(vocab, text, hash_text(text, false));
    return slot && *slot ? (int32_t)((*slot & vocab->id_mask) - 1) : -1;
}

/*
 * Where the order of the merge stands that makes the token of its first `left` bytes and the others; 0 stands there if
 * none does.
 */
static uint32_t *merge_order(const Vocab *vocab, int32_t id, size_t left) {
    uint32_t *order = &vocab->orders[id];
    while (*order && vocab->merges[*order].left != left) order = &vocab->merges[*order].next;
    return order;
}

int32_t vocab_find_merge(const Vocab *vocab, String text, size_t left, uint32_t *order) {
    int32_t id = vocab_find(vocab, text);
    if (id < 0) return -1;
    if (vocab->kind == VOCAB_SPM) {
        *order = vocab->orders[id];
        return id;
    }
    *order = *merge_order(vocab, id, left);
    return *order ? id : -1;
}

static size_t copy_text(String text, char *out) {
    memcpy(out, text.data, text.n);
    return text.n;
}

/* Likewise for a spelling of this vocabulary. */
static size_t unspell_text(const Vocab *vocab, String text, char *out, bool *is_spelt) {
    if (vocab->byte_level) return unspell_bytes(text, out, is_spelt);
    return vocab->verbatim ? copy_text(text, out) : unspell_spaces(text, out);
}

/* Whether byte-level BPE spells a text as itself. */
static bool is_own_spelling(String text) {
    size_t n = 0;
    while (n < text.n && text.data[n] > 0x20 && text.data[n] < 0x7f) n++;
    return n == text.n;
}

/*
 * Rewrites token id from the file's spelling to bytes at `out`, which has room for them; *n is their number.
 * Names of control and unknown tokens are not text and stay as they are. So do user-defined tokens of byte-level BPE.
 * *is_text becomes false for what merging cannot make.
 */
static bool unspell(const VocabBuilder *builder, size_t id, String text, char *out, size_t *n,
                    bool *is_text) {
    Vocab *vocab = builder->vocab;
    TokenType type = vocab->types[id];
    bool byte_level = vocab->byte_level;
    int byte = !byte_level && !vocab->verbatim && (type == TOKEN_NORMAL || type == TOKEN_BYTE)
                   ? named_byte(text, false)
                   : -1;
    if (byte >= 0) {
        vocab->types[id] = TOKEN_BYTE; /* in a file without types, the name tells */
        if (vocab->byte_ids[byte] < 0) vocab->byte_ids[byte] = (int32_t)id;
        *out = (char)byte;
        *n = 1;
        *is_text = false;
    } else if (!byte_level && type == TOKEN_BYTE) {
        return error_set(builder->error, "%s: %s: byte token %zu is named '%.*s', expected <0x00> to <0xFF>",
                         builder->path, builder->tokens, id, string_shown(text), text.data);
    } else if (type == TOKEN_CONTROL || type == TOKEN_UNKNOWN || (type == TOKEN_USER_DEFINED && byte_level)) {
        *n = copy_text(text, out);
        *is_text = byte_level && is_own_spelling(text);
    } else {
        *n = unspell_text(vocab, text, out, is_text);
    }
    return true;
}

/* Adds token id, whose text is known, to by_text. */
static bool index_text(const VocabBuilder *builder, size_t id) {
    Vocab *vocab = builder->vocab;
    String text = vocab_text(vocab, (int32_t)id);
    if (text.n == 0 || builder->apart) return true;
    uint64_t hash = hash_text(text, true);
    uint32_t *slot = text_slot(vocab, text, hash);
    if (!slot)
        return error_set(builder->error, "%s: %s: too many texts share a hash value", builder->path,
                         builder->tokens);
    if (*slot) /* real vocabularies hold some texts twice: the first id counts */
        vocab->distinct = false;
    else
        *slot = ((uint32_t)hash & ~vocab->id_mask) | ((uint32_t)id + 1);
    if (text.n > vocab->longest) vocab->longest = text.n;
    for (size_t i = 1; !vocab->byte_level && i < text.n; i++) {
        unsigned char a = (unsigned char)text.data[i - 1], b = (unsigned char)text.data[i];
        vocab->joined[a][b / 8] |= (unsigned char)(1u << b % 8);
    }
    return true;
}

bool vocab_begin(VocabBuilder *builder, size_t n, size_t n_bytes, size_t n_merges) {
    Vocab *vocab = builder->vocab;
    vocab->n = n;
    vocab->distinct = true;
    if (n == 0)
        return error_set(builder->error, "%s: %s is missing or empty", builder->path, builder->tokens);
    if (n > INT32_MAX || n_bytes > UINT32_MAX)
        return error_set(builder->error, "%s: %s has %zu elements of %zu bytes, more than 32 bits count",
                         builder->path, builder->tokens, n, n_bytes);
    if (n_merges > INT32_MAX)
        return error_set(builder->error, "%s: %s has %zu elements, more than 31 bits count", builder->path,
                         builder->merges, n_merges);
    size_t slots = table_slots(n);
    vocab->bytes = malloc(n_bytes + STRING_PADDING);
    vocab->types = malloc(n);
    /* In 64 bits: where addresses have 32, as in a page, a file of gigabytes may count too much for them. */
    uint64_t n_table = ((uint64_t)slots + 2 * n + 1) * sizeof *vocab->by_text +
                       ((uint64_t)n_merges + 1) * sizeof *vocab->merges;
    vocab->by_text = n_table <= SIZE_MAX ? bytes_new((size_t)n_table) : NULL;
    if (!vocab->bytes || !vocab->types || !vocab->by_text) return out_of_memory(builder);
    vocab->orders = vocab->by_text + slots;
    vocab->starts = vocab->orders + n;
    vocab->merges = (Merge *)(vocab->starts + n + 1);
    memset(vocab->by_text, 0, (slots + n + 1) * sizeof *vocab->by_text);
    memset(vocab->byte_ids, -1, sizeof vocab->byte_ids);
    while (vocab->id_mask < n) vocab->id_mask = 2 * vocab->id_mask + 1;
    return true;
}

bool vocab_add_token(VocabBuilder *builder, String spelt, TokenType type) {
    Vocab *vocab = builder->vocab;
    size_t id = builder->n_tokens++, n = 0;
    bool is_text = true;
    vocab->types[id] = (unsigned char)type;
    if (!unspell(builder, id, spelt, vocab->bytes + vocab->starts[id], &n, &is_text)) return false;
    vocab->starts[id + 1] = vocab->starts[id] + (uint32_t)n;
    if (!is_text && vocab->types[id] == TOKEN_NORMAL)
        vocab->distinct = false; /* its bytes may be another's, spelt */
    return !is_text || index_text(builder, id);
}

/* A number that falls as the score rises. A float's bits, as an integer, keep its order. */
static uint32_t order_of_score(float score) {
    uint32_t bits;
    score += 0.0f; /* −0 is 0 */
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? bits : ~bits ^ 0x80000000u;
}

void vocab_set_score(Vocab *vocab, size_t id, float score) { vocab->orders[id] = order_of_score(score); }

/* Like vocab_find, for a text that is most likely the token `last`, or the one after it. */
static int32_t find_next(const Vocab *vocab, String text, int32_t last) {
    for (int32_t id = last; vocab->distinct && id < last + 2 && (size_t)id < vocab->n; id++)
        if (vocab->types[id] == TOKEN_NORMAL && equal(vocab_text(vocab, id), text)) return id;
    return vocab_find(vocab, text);
}

/*
 * The two must make a token: if a merge were left out silently, text would be split in another way than the model was
 * trained with. A part that is none does no harm: it is never there to merge, since whatever makes it must make a token,
 * and a byte that is none cannot be encoded.
 */
bool vocab_add_merge(VocabBuilder *builder, String left, String right) {
    Vocab *vocab = builder->vocab;
    size_t room = (vocab->byte_level ? 2 : 3) * vocab->longest; /* no byte is spelt by more */
    if (!builder->scratch && !(builder->scratch = malloc(room + 1 + STRING_PADDING)))
        return out_of_memory(builder);
    if (left.n + right.n <= room) {
        char *text = builder->scratch;
        bool is_spelt = true;
        size_t n_left = unspell_text(vocab, left, text, &is_spelt);
        size_t n = n_left + unspell_text(vocab, right, text + n_left, &is_spelt);
        String parts[2] = {{text, n_left}, {text + n_left, n - n_left}};
        for (int i = 0; builder->strict && i < 2; i++)
            if (vocab_find(vocab, parts[i]) < 0)
                return error_set(builder->error, "%s: %s: '%.*s' is not in %s", builder->path,
                                 builder->merges, string_shown(parts[i]), parts[i].data, builder->tokens);
        builder->last = is_spelt ? find_next(vocab, (String){text, n}, builder->last) : -1;
        if (builder->last >= 0) {
            size_t order = ++builder->n_merges;
            vocab->merges[order] = (Merge){.left = (uint32_t)n_left};
            uint32_t *place = merge_order(vocab, builder->last, n_left);
            if (*place && builder->strict) vocab->merges[order].next = vocab->merges[*place].next;
            if (!*place || builder->strict)
                *place = (uint32_t)order; /* of equal pairs, the first one counts */
            return true;
        }
    }
    return error_set(builder->error, "%s: %s: '%.*s %.*s' makes a token that is not in %s", builder->path,
                     builder->merges, string_shown(left), left.data, string_shown(right), right.data,
                     builder->tokens);
}

static bool is_special(const Vocab *vocab, size_t id) {
    TokenType type = vocab->types[id];
    return (type == TOKEN_CONTROL || type == TOKEN_UNKNOWN || type == TOKEN_USER_DEFINED) &&
           vocab_text(vocab, (int32_t)id).n;
}

static bool find_specials(const VocabBuilder *builder) {
    Vocab *vocab = builder->vocab;
    for (size_t id = 0; id < vocab->n; id++) {
        if (!is_special(vocab, id)) continue;
        String text = vocab_text(vocab, (int32_t)id);
        if (text.n > MAX_SPECIAL_BYTES)
            return error_set(builder->error, "%s: %s: special token %zu has %zu bytes, at most %d are read",
                             builder->path, builder->tokens, id, text.n, MAX_SPECIAL_BYTES);
        if (!prefixes_add(&vocab->specials, text, (int32_t)id)) return out_of_memory(builder);
        vocab->begins[(unsigned char)*text.data] |=
            vocab->types[id] == TOKEN_USER_DEFINED ? BEGINS_SPECIAL | BEGINS_DEFINED : BEGINS_SPECIAL;
    }
    prefixes_sort(&vocab->specials);
    return true;
}

bool vocab_end(VocabBuilder *builder, bool ok) {
    Vocab *vocab = builder->vocab;
    free(builder->scratch);
    builder->scratch = NULL;
    for (int byte = 0; ok && vocab->byte_level && byte < 256; byte++) {
        char text = (char)byte;
        vocab->byte_ids[byte] = vocab_find(vocab, (String){&text, 1});
    }
    return ok && find_specials(builder);
}

const Prefix *vocab_find_special(const Vocab *vocab, const char *text, size_t n, bool control) {
    const Prefix *specials = vocab->specials.items;
    int32_t i = prefixes_find(&vocab->specials, text, n);
    while (i >= 0 && !control && vocab->types[specials[i].id] != TOKEN_USER_DEFINED) i = specials[i].shorter;
    return i < 0 ? NULL : &specials[i];
}

void vocab_free(Vocab *vocab) {
    if (vocab->pipeline) pipeline_free(vocab->pipeline);
    if (vocab->unigram) {
        prefixes_free(&vocab->unigram->pieces);
        free(vocab->unigram->scores);
    }
    free(vocab->pipeline);
    free(vocab->unigram);
    free(vocab->shown);
    free(vocab->shown_starts);
    free(vocab->types);
    free(vocab->bytes);
    free(vocab->by_text);
    prefixes_free(&vocab->specials);
    for (size_t i = 0; i < vocab->n_patterns; i++) pattern_free(vocab->patterns[i]);
}
