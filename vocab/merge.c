#include "vocab/merge.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t NONE = UINT32_MAX; /* no neighbour */

/* A piece of text that is one token, or one character. */
struct Symbol {
    uint32_t start, n;   /* text[start, start + n); n is 0 once the symbol before has taken it */
    uint32_t prev, next; /* neighbours in symbols[], or NONE */
    int32_t id;          /* −1: not looked up yet */
};

/* A pair that could merge: symbols[left] and the next. */
struct Candidate {
    uint64_t key; /* order << 32 | left: the lowest merges first, so of equal orders the leftmost */
    uint32_t n;   /* bytes of both when the pair was found; another length means that one has merged since */
    int32_t id;   /* what they become */
};

enum { CACHED_BYTES = 15, CACHED_IDS = 4, MAX_CACHE = 1 << 16 };

/* A piece of text that was merged before, and its tokens. Two fill a line of the processor's cache. */
struct CachedPiece {
    uint64_t text[2];        /* its bytes, then zeros; the last byte is their number, 0 in a free slot */
    int32_t ids[CACHED_IDS]; /* −1 after the last */
};

/* Whether text may become that token by merging. */
static bool may_be(const Merger *merger, int32_t id) {
    return !merger->steers || !bit_of(merger->steers, id);
}

static void heap_push(Merger *merger, Candidate candidate) {
    Candidate *heap = merger->heap;
    size_t i = merger->n_heap++;
    for (; i > 0 && candidate.key < heap[(i - 1) / 2].key; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = candidate;
}

static Candidate heap_pop(Merger *merger) {
    Candidate *heap = merger->heap, first = heap[0], last = heap[--merger->n_heap];
    size_t n = merger->n_heap, i = 0;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1].key < heap[child].key) child++;
        if (last.key <= heap[child].key) break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return first;
}

/* Adds the pair of symbols[left] and the next to the heap if the vocabulary merges it. */
static void consider(Merger *merger, uint32_t left) {
    const Symbol *a = &merger->symbols[left];
    if (a->next == NONE) return;
    const Symbol *b = &merger->symbols[a->next];
    Candidate candidate = {.n = a->n + b->n};
    uint32_t order;
    candidate.id =
        vocab_find_merge(merger->vocab, (String){merger->text + a->start, candidate.n}, a->n, &order);
    if (candidate.id < 0 || !may_be(merger, candidate.id)) return;
    candidate.key = (uint64_t)order << 32 | left;
    heap_push(merger, candidate);
}

/* Merges the n symbols, linked in order, until no two neighbours merge. */
static void merge_symbols(Merger *merger, uint32_t n) {
    Symbol *symbols = merger->symbols;
    merger->n_heap = 0;
    for (uint32_t i = 0; i < n; i++) consider(merger, i);
    while (merger->n_heap) {
        Candidate best = heap_pop(merger);
        Symbol *left = &symbols[(uint32_t)best.key];
        if (left->n == 0 || left->next == NONE) continue;
        Symbol *right = &symbols[left->next];
        if (left->n + right->n != best.n) continue;
        left->n = best.n;
        left->id = best.id;
        left->next = right->next;
        right->n = 0;
        if (left->next != NONE) symbols[left->next].prev = (uint32_t)best.key;
        if (left->prev != NONE) consider(merger, left->prev);
        consider(merger, (uint32_t)best.key);
    }
}

/* Makes room for n symbols. */
static bool reserve(Merger *merger, size_t n) {
    if (n <= merger->capacity) return true;
    free(merger->symbols);
    free(merger->heap);
    merger->symbols = NULL;
    merger->heap = NULL;
    merger->capacity = 0;
    if (n < NONE) { /* symbols are counted in 32 bits; more would not fit into memory either */
        size_t capacity = n < 256 ? 256 : n;
        merger->symbols = malloc(capacity * sizeof *merger->symbols);
        merger->heap = malloc(capacity * 2 * sizeof *merger->heap);
        if (merger->symbols && merger->heap) {
            merger->capacity = capacity;
            return true;
        }
    }
    return error_set(merger->error, "not enough memory to tokenize %zu bytes", n);
}

static void set_symbol(Merger *merger, uint32_t i, size_t start, size_t n, bool is_last) {
    merger->symbols[i] = (Symbol){.start = (uint32_t)start,
                                  .n = (uint32_t)n,
                                  .prev = i ? i - 1 : NONE,
                                  .next = is_last ? NONE : i + 1,
                                  .id = -1};
}

bool merge_token(void *context, int32_t id) {
    Merger *merger = context;
    merger->after_unknown = false;
    return tokens_push(merger->tokens, id, merger->error);
}

/* Adds the unknown token, unless it is one with that of the character before. */
static bool push_unknown(Merger *merger) {
    bool is_fused = merger->vocab->fuses_unknown && merger->after_unknown;
    merger->after_unknown = merger->saw_unknown = true;
    return is_fused || tokens_push(merger->tokens, merger->vocab->unknown, merger->error);
}

/* Byte-level BPE of one word. */
static bool merge_word(Merger *merger, const char *text, size_t n) {
    const Vocab *vocab = merger->vocab;
    if (vocab->whole_words) { /* merges do not reach all its tokens: a whole word wins */
        int32_t id = vocab_find(vocab, (String){text, n});
        if (id >= 0 && vocab->types[id] != TOKEN_CONTROL && may_be(merger, id))
            return tokens_push(merger->tokens, id, merger->error);
    }
    if (!reserve(merger, n)) return false;
    merger->text = text;
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)text[i];
        set_symbol(merger, (uint32_t)i, i, 1, i + 1 == n);
        merger->symbols[i].id = vocab->byte_ids[byte];
        if (vocab->byte_ids[byte] < 0 && (!vocab->unknown_bytes || vocab->unknown < 0))
            return error_set(merger->error, "the vocabulary has no token for byte 0x%02x", byte);
    }
    merge_symbols(merger, (uint32_t)n);
    for (uint32_t i = 0; i != NONE; i = merger->symbols[i].next) {
        int32_t id = merger->symbols[i].id;
        if (!(id < 0 ? push_unknown(merger) : merge_token(merger, id))) return false;
    }
    return true;
}

/* Adds a character that did not merge: as its token, or those of its bytes, or the unknown token. */
static bool push_character(Merger *merger, const char *text, size_t n) {
    const Vocab *vocab = merger->vocab;
    int32_t id = vocab_find(vocab, (String){text, n});
    size_t n_bytes = 0;
    if (id >= 0) return merge_token(merger, id);
    if (vocab->swaps_spaces && *text == ' ') text = "\xe2\x96\x81", n = 3; /* what it stands for */
    while (n_bytes < n && vocab->byte_ids[(unsigned char)text[n_bytes]] >= 0) n_bytes++;
    if (n_bytes < n && vocab->unknown_bytes && vocab->unknown < 0)
        return error_set(merger->error,
                         "the vocabulary has no token for '%.*s', and none for what is unknown", (int)n,
                         text);
    if (n_bytes < n) return push_unknown(merger);
    for (size_t i = 0; i < n; i++)
        if (!merge_token(merger, vocab->byte_ids[(unsigned char)text[i]])) return false;
    return true;
}

/* The length of the text up to the first place that no token spans. */
static size_t span_length(const Vocab *vocab, const char *text, size_t n) {
    size_t end = utf8_length(text, n);
    while (end < n && vocab_joins(vocab, text[end - 1], text[end])) end += utf8_length(text + end, n - end);
    return end;
}

/* SentencePiece BPE of such a span. */
static bool merge_span(Merger *merger, const char *text, size_t n) {
    if (!reserve(merger, n)) return false;
    merger->text = text;
    uint32_t n_symbols = 0;
    for (size_t i = 0, length; i < n; i += length) {
        length = utf8_length(text + i, n - i);
        set_symbol(merger, n_symbols++, i, length, i + length == n);
    }
    merge_symbols(merger, n_symbols);
    for (uint32_t i = 0; i != NONE; i = merger->symbols[i].next) {
        const Symbol *symbol = &merger->symbols[i];
        if (!(symbol->id < 0 ? push_character(merger, text + symbol->start, symbol->n)
                             : merge_token(merger, symbol->id)))
            return false;
    }
    return true;
}

/* The slot for a piece of at most CACHED_BYTES, whose bytes become `key`. */
static CachedPiece *cache_slot(const Merger *merger, const char *text, size_t n, uint64_t key[2]) {
    key[0] = text_word(text, n < 8 ? n : 8);
    key[1] = (n > 8 ? text_word(text + 8, n - 8) : 0) | (uint64_t)n << 56;
    uint64_t hash = (key[0] ^ (key[1] << 29 | key[1] >> 35)) * 0x9e3779b97f4a7c15u;
    return &merger->cache[hash >> 32 & (merger->n_cache - 1)];
}

static bool merge_unseen(Merger *merger, const char *text, size_t n) {
    return merger->vocab->byte_level ? merge_word(merger, text, n) : merge_span(merger, text, n);
}

/* A word or a span, from memory if it stood there before. */
static bool merge_remembered(Merger *merger, const char *text, size_t n) {
    if (n > CACHED_BYTES) return merge_unseen(merger, text, n);
    Tokens *tokens = merger->tokens;
    uint64_t key[2];
    CachedPiece *slot = cache_slot(merger, text, n, key);
    if (slot->text[0] == key[0] && slot->text[1] == key[1]) {
        if (!tokens_reserve(tokens, CACHED_IDS, merger->error)) return false;
        memcpy(tokens->ids + tokens->n, slot->ids, sizeof slot->ids);
        tokens->n++;
        for (int i = 1; i < CACHED_IDS; i++) tokens->n += slot->ids[i] >= 0;
        merger->after_unknown = false;
        return true;
    }
    size_t before = tokens->n;
    merger->saw_unknown = false;
    if (!merge_unseen(merger, text, n)) return false;
    size_t n_ids = tokens->n - before;
    if (n_ids <= CACHED_IDS && !merger->saw_unknown) {
        memcpy(slot->text, key, sizeof key);
        memset(slot->ids, -1, sizeof slot->ids);
        memcpy(slot->ids, tokens->ids + before, n_ids * sizeof *slot->ids);
    }
    return true;
}

/* A text cut where no token spans two of its characters. */
static bool merge_spans(Merger *merger, const char *text, size_t n) {
    for (size_t i = 0, length; i < n; i += length) {
        length = span_length(merger->vocab, text + i, n - i);
        if (!merge_remembered(merger, text + i, length)) return false;
    }
    return true;
}

bool merger_begin(Merger *merger, size_t n_bytes) {
    merger->n_cache = 16;
    while (merger->n_cache < n_bytes / 4 && merger->n_cache < MAX_CACHE) merger->n_cache *= 2;
    merger->cache = calloc(merger->n_cache, sizeof *merger->cache);
    return merger->cache;
}

void merger_end(Merger *merger) {
    free(merger->cache);
    free(merger->symbols);
    free(merger->heap);
}

bool merge_piece(void *context, const char *text, size_t n) {
    Merger *merger = context;
    merger->after_unknown = false;
    return merger->vocab->byte_level ? merge_remembered(merger, text, n) : merge_spans(merger, text, n);
}
