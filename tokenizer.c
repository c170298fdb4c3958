/*
 * Encoding: text ─► special tokens and the fragments between them; a fragment ─► pieces (byte-level BPE:
 * what the pattern calls a word; SentencePiece: the whole fragment) ─► symbols, one per byte or character
 * ─► merged pair by pair, the best pair of the piece first, until none is left ─► ids.
 * Decoding: ids ─► bytes ─► whole UTF-8 characters.
 *
 * Most words of a text stood in it before. So a call remembers short pieces with their ids, as many as the
 * length of the text promises and 2 MiB hold. When two pieces share a slot, the later one stays.
 *
 * Merging keeps the pairs that could merge in a heap and the symbols in a linked list. So n symbols take
 * O(n log n) time, which matters: a megabyte of one letter is a single word.
 */
#include "tokenizer.h"

#include "open.h"

#include "base/utf8.h"
#include "vocab/pipeline.h"
#include "vocab/spelling.h"
#include "vocab/unigram.h"
#include "vocab/vocab.h"

#include <stdlib.h>
#include <string.h>

struct Tokenizer {
    Vocab vocab;
};

/*
 * The length in bytes of the character that text[0, n), n > 0, starts with. Bytes that are not UTF-8 count as characters,
 * one each.
 */
static size_t character_length(const char *text, size_t n) {
    uint32_t c;
    size_t length = utf8_decode(text, n, &c);
    return c < UTF8_INVALID ? length : 1;
}

static const uint32_t NONE = UINT32_MAX; /* no neighbour */

/* A piece of text that is one token, or one character. */
typedef struct Symbol {
    uint32_t start, n;   /* text[start, start + n); n is 0 once the symbol before has taken it */
    uint32_t prev, next; /* neighbours in symbols[], or NONE */
    int32_t id;          /* −1: not looked up yet */
} Symbol;

/* A pair that could merge: symbols[left] and the next. */
typedef struct Candidate {
    uint64_t key; /* order << 32 | left: the lowest merges first, so of equal orders the leftmost */
    uint32_t n;   /* bytes of both when the pair was found; another length means that one has merged since */
    int32_t id;   /* what they become */
} Candidate;

enum { CACHED_BYTES = 15, CACHED_IDS = 4, MAX_CACHE = 1 << 16 };

/* A piece of text that was merged before, and its tokens. Two fill a line of the processor's cache. */
typedef struct CachedPiece {
    uint64_t text[2];        /* its bytes, then zeros; the last byte is their number, 0 in a free slot */
    int32_t ids[CACHED_IDS]; /* −1 after the last */
} CachedPiece;

/* One call of tokenizer_encode. */
typedef struct Encoder {
    const Vocab *vocab;
    Tokens *tokens;
    Error *error;
    CachedPiece *cache;    /* [n_cache] by hash */
    size_t n_cache;        /* a power of two */
    uint16_t *states;      /* [n_patterns][n_states] scratch */
    size_t n_states;       /* bytes of the text */
    const char *marks;     /* [n_states] of tokenizer_encode_marked; or NULL */
    unsigned char *steers; /* a bit for each token that no byte from outside may be a part of; or NULL */
    bool after_unknown;    /* the last character was unknown, and its token is pushed */
    bool saw_unknown;      /* what was encoded has such a character, and depends on more than its own text */
    TextBuffer swapped;    /* a piece of text whose spaces are written as the vocabulary does */
    const char *text;      /* what is being merged */
    Symbol *symbols;       /* [capacity] */
    Candidate *heap; /* [2 · capacity]: n symbols begin with n − 1 pairs, and a merge trades one for two */
    size_t n_heap, capacity;
} Encoder;

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Whether text may become that token by merging. */
static bool may_be(const Encoder *encoder, int32_t id) {
    return !encoder->steers || !bit_of(encoder->steers, id);
}

static void heap_push(Encoder *encoder, Candidate candidate) {
    Candidate *heap = encoder->heap;
    size_t i = encoder->n_heap++;
    for (; i > 0 && candidate.key < heap[(i - 1) / 2].key; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = candidate;
}

static Candidate heap_pop(Encoder *encoder) {
    Candidate *heap = encoder->heap, first = heap[0], last = heap[--encoder->n_heap];
    size_t n = encoder->n_heap, i = 0;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1].key < heap[child].key) child++;
        if (last.key <= heap[child].key) break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return first;
}

/* Adds the pair of symbols[left] and the next to the heap if the vocabulary merges it. */
static void consider(Encoder *encoder, uint32_t left) {
    const Symbol *a = &encoder->symbols[left];
    if (a->next == NONE) return;
    const Symbol *b = &encoder->symbols[a->next];
    Candidate candidate = {.n = a->n + b->n};
    uint32_t order;
    candidate.id =
        vocab_find_merge(encoder->vocab, (String){encoder->text + a->start, candidate.n}, a->n, &order);
    if (candidate.id < 0 || !may_be(encoder, candidate.id)) return;
    candidate.key = (uint64_t)order << 32 | left;
    heap_push(encoder, candidate);
}

/* Merges the n symbols, linked in order, until no two neighbours merge. */
static void merge_symbols(Encoder *encoder, uint32_t n) {
    Symbol *symbols = encoder->symbols;
    encoder->n_heap = 0;
    for (uint32_t i = 0; i < n; i++) consider(encoder, i);
    while (encoder->n_heap) {
        Candidate best = heap_pop(encoder);
        Symbol *left = &symbols[(uint32_t)best.key];
        if (left->n == 0 || left->next == NONE) continue;
        Symbol *right = &symbols[left->next];
        if (left->n + right->n != best.n) continue;
        left->n = best.n;
        left->id = best.id;
        left->next = right->next;
        right->n = 0;
        if (left->next != NONE) symbols[left->next].prev = (uint32_t)best.key;
        if (left->prev != NONE) consider(encoder, left->prev);
        consider(encoder, (uint32_t)best.key);
    }
}

/* Makes room for n symbols. */
static bool reserve(Encoder *encoder, size_t n) {
    if (n <= encoder->capacity) return true;
    free(encoder->symbols);
    free(encoder->heap);
    encoder->symbols = NULL;
    encoder->heap = NULL;
    encoder->capacity = 0;
    if (n < NONE) { /* symbols are counted in 32 bits; more would not fit into memory either */
        size_t capacity = n < 256 ? 256 : n;
        encoder->symbols = malloc(capacity * sizeof *encoder->symbols);
        encoder->heap = malloc(capacity * 2 * sizeof *encoder->heap);
        if (encoder->symbols && encoder->heap) {
            encoder->capacity = capacity;
            return true;
        }
    }
    return error_set(encoder->error, "not enough memory to tokenize %zu bytes", n);
}

static void set_symbol(Encoder *encoder, uint32_t i, size_t start, size_t n, bool is_last) {
    encoder->symbols[i] = (Symbol){.start = (uint32_t)start,
                                   .n = (uint32_t)n,
                                   .prev = i ? i - 1 : NONE,
                                   .next = is_last ? NONE : i + 1,
                                   .id = -1};
}

static bool push_known(Encoder *encoder, int32_t id) {
    encoder->after_unknown = false;
    return tokens_push(encoder->tokens, id, encoder->error);
}

/* Adds the unknown token, unless it is one with that of the character before. */
static bool push_unknown(Encoder *encoder) {
    bool is_fused = encoder->vocab->fuses_unknown && encoder->after_unknown;
    encoder->after_unknown = encoder->saw_unknown = true;
    return is_fused || tokens_push(encoder->tokens, encoder->vocab->unknown, encoder->error);
}

/* Byte-level BPE of one word. */
static bool encode_word(Encoder *encoder, const char *text, size_t n) {
    const Vocab *vocab = encoder->vocab;
    if (vocab->whole_words) { /* merges do not reach all its tokens: a whole word wins */
        int32_t id = vocab_find(vocab, (String){text, n});
        if (id >= 0 && vocab->types[id] != TOKEN_CONTROL && may_be(encoder, id))
            return tokens_push(encoder->tokens, id, encoder->error);
    }
    if (!reserve(encoder, n)) return false;
    encoder->text = text;
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)text[i];
        set_symbol(encoder, (uint32_t)i, i, 1, i + 1 == n);
        encoder->symbols[i].id = vocab->byte_ids[byte];
        if (vocab->byte_ids[byte] < 0 && (!vocab->pipeline || vocab->unknown < 0))
            return error_set(encoder->error, "the vocabulary has no token for byte 0x%02x", byte);
    }
    merge_symbols(encoder, (uint32_t)n);
    for (uint32_t i = 0; i != NONE; i = encoder->symbols[i].next) {
        int32_t id = encoder->symbols[i].id;
        if (!(id < 0 ? push_unknown(encoder) : push_known(encoder, id))) return false;
    }
    return true;
}

/* Adds a character that did not merge: as its token, or those of its bytes, or the unknown token. */
static bool push_character(Encoder *encoder, const char *text, size_t n) {
    const Vocab *vocab = encoder->vocab;
    int32_t id = vocab_find(vocab, (String){text, n});
    size_t n_bytes = 0;
    if (id >= 0) return push_known(encoder, id);
    if (vocab->swaps_spaces && *text == ' ') text = "\xe2\x96\x81", n = 3; /* what it stands for */
    while (n_bytes < n && vocab->byte_ids[(unsigned char)text[n_bytes]] >= 0) n_bytes++;
    if (n_bytes < n && vocab->pipeline && vocab->unknown < 0)
        return error_set(encoder->error,
                         "the vocabulary has no token for '%.*s', and none for what is unknown", (int)n,
                         text);
    if (n_bytes < n) return push_unknown(encoder);
    for (size_t i = 0; i < n; i++)
        if (!push_known(encoder, vocab->byte_ids[(unsigned char)text[i]])) return false;
    return true;
}

/* The length of the text up to the first place that no token spans. */
static size_t span_length(const Vocab *vocab, const char *text, size_t n) {
    size_t end = character_length(text, n);
    while (end < n && vocab_joins(vocab, text[end - 1], text[end]))
        end += character_length(text + end, n - end);
    return end;
}

/* SentencePiece BPE of such a span. */
static bool encode_span(Encoder *encoder, const char *text, size_t n) {
    if (!reserve(encoder, n)) return false;
    encoder->text = text;
    uint32_t n_symbols = 0;
    for (size_t i = 0, length; i < n; i += length) {
        length = character_length(text + i, n - i);
        set_symbol(encoder, n_symbols++, i, length, i + length == n);
    }
    merge_symbols(encoder, n_symbols);
    for (uint32_t i = 0; i != NONE; i = encoder->symbols[i].next) {
        const Symbol *symbol = &encoder->symbols[i];
        if (!(symbol->id < 0 ? push_character(encoder, text + symbol->start, symbol->n)
                             : push_known(encoder, symbol->id)))
            return false;
    }
    return true;
}

/* The slot for a piece of at most CACHED_BYTES, whose bytes become `key`. */
static CachedPiece *cache_slot(const Encoder *encoder, const char *text, size_t n, uint64_t key[2]) {
    key[0] = text_word(text, n < 8 ? n : 8);
    key[1] = (n > 8 ? text_word(text + 8, n - 8) : 0) | (uint64_t)n << 56;
    uint64_t hash = (key[0] ^ (key[1] << 29 | key[1] >> 35)) * 0x9e3779b97f4a7c15u;
    return &encoder->cache[hash >> 32 & (encoder->n_cache - 1)];
}

static bool merge_piece(Encoder *encoder, const char *text, size_t n) {
    return encoder->vocab->byte_level ? encode_word(encoder, text, n) : encode_span(encoder, text, n);
}

/* Encodes a piece of text that merges with nothing around it. */
static bool encode_piece(Encoder *encoder, const char *text, size_t n) {
    if (n > CACHED_BYTES) return merge_piece(encoder, text, n);
    Tokens *tokens = encoder->tokens;
    uint64_t key[2];
    CachedPiece *slot = cache_slot(encoder, text, n, key);
    if (slot->text[0] == key[0] && slot->text[1] == key[1]) {
        if (!tokens_reserve(tokens, CACHED_IDS, encoder->error)) return false;
        memcpy(tokens->ids + tokens->n, slot->ids, sizeof slot->ids);
        tokens->n++;
        for (int i = 1; i < CACHED_IDS; i++) tokens->n += slot->ids[i] >= 0;
        encoder->after_unknown = false;
        return true;
    }
    size_t before = tokens->n;
    encoder->saw_unknown = false;
    if (!merge_piece(encoder, text, n)) return false;
    size_t n_ids = tokens->n - before;
    if (n_ids <= CACHED_IDS && !encoder->saw_unknown) {
        memcpy(slot->text, key, sizeof key);
        memset(slot->ids, -1, sizeof slot->ids);
        memcpy(slot->ids, tokens->ids + before, n_ids * sizeof *slot->ids);
    }
    return true;
}

/* Encodes text[0, n) after the vocabulary's patterns from that level on have cut it. */
static bool encode_words(Encoder *encoder, const char *text, size_t n, size_t level) {
    const Vocab *vocab = encoder->vocab;
    if (level == vocab->n_patterns) return encode_piece(encoder, text, n);
    Matches matches =
        pattern_begin(vocab->patterns[level], text, n, encoder->states + level * encoder->n_states);
    for (size_t done = 0, start = 0, end = 0; done < n; done = end) {
        if (!pattern_next(&matches, &start, &end)) start = end = n;
        if (start > done && !encode_words(encoder, text + done, start - done, level + 1)) return false;
        if (end > start && !encode_words(encoder, text + start, end - start, level + 1)) return false;
    }
    return true;
}

/* A text cut where no token spans two of its characters. */
static bool encode_spans(Encoder *encoder, const char *text, size_t n) {
    for (size_t i = 0, length; i < n; i += length) {
        length = span_length(encoder->vocab, text + i, n - i);
        if (!encode_piece(encoder, text + i, length)) return false;
    }
    return true;
}

/*
 * SentencePiece writes every space as ▁. So it takes a ▁ in the text for a space and cannot give it back.
 * Here every ▁ becomes a space, in the vocabulary and in the text. `first` and `last`: what the text's ends are.
 */
static bool encode_sentence(Encoder *encoder, const char *text, size_t n, bool first, bool last) {
    bool add_space = encoder->vocab->add_space, squeezes = encoder->vocab->squeezes_spaces;
    bool after_space = first || add_space;
    char *spaced = malloc(n + 1), *begin = spaced + add_space, *end = begin;
    if (!spaced) return error_set(encoder->error, "not enough memory to tokenize %zu bytes", n);
    if (add_space) *spaced = ' ';
    for (size_t i = 0; squeezes && i < n; i++) {
        if (text[i] != ' ' || !after_space) *end++ = text[i];
        after_space = text[i] == ' ';
    }
    if (squeezes) text = begin, n = (size_t)(end - begin);
    end = begin + unspell_spaces((String){text, n}, begin);
    while (squeezes && last && end > spaced && end[-1] == ' ') end--;
    encoder->after_unknown = false;
    bool ok = encode_spans(encoder, spaced, (size_t)(end - spaced));
    free(spaced);
    return ok;
}

/* Text between special tokens. As in llama.cpp, each such fragment is a sentence with a space in front. */
static bool encode_fragment(Encoder *encoder, const char *text, size_t n, bool first, bool last) {
    if (n == 0) return true;
    return encoder->vocab->byte_level ? encode_words(encoder, text, n, 0)
                                      : encode_sentence(encoder, text, n, first, last);
}

static bool take_token(void *context, int32_t id) { return push_known(context, id); }

/* A piece of text as the steps of a tokenizer.json have cut it. */
static bool take_piece(void *context, String piece) {
    Encoder *encoder = context;
    const Vocab *vocab = encoder->vocab;
    encoder->after_unknown = false;
    if (vocab->unigram)
        return unigram_encode(vocab->unigram, piece, encoder->steers, encoder->tokens, encoder->error);
    if (vocab->byte_level) return encode_piece(encoder, piece.data, piece.n);
    if (vocab->swaps_spaces) {
        encoder->swapped.n = 0;
        if (!vocab_swap_spaces(piece, &encoder->swapped))
            return error_set(encoder->error, "not enough memory to tokenize %zu bytes", piece.n);
        piece = (String){encoder->swapped.data, encoder->swapped.n};
    }
    int32_t whole = vocab->whole_words ? vocab_find(vocab, piece) : -1;
    return whole >= 0 && may_be(encoder, whole) ? push_known(encoder, whole)
                                                : encode_spans(encoder, piece.data, piece.n);
}

/* The special token that begins at text[i] and may stand there, or NULL. */
static const Prefix *special_at(const Encoder *encoder, const char *text, size_t i, size_t n, bool control) {
    const Vocab *vocab = encoder->vocab;
    if (!encoder->marks) return vocab_find_special(vocab, text + i, n - i, control);
    int32_t found = prefixes_find_own(&vocab->specials, text, encoder->marks, i, n, encoder->steers);
    return found < 0 ? NULL : &vocab->specials.items[found];
}

/* Text between BOS and EOS: special tokens and what lies between. */
static bool encode_text(Encoder *encoder, const char *text, size_t n, unsigned flags) {
    const Vocab *vocab = encoder->vocab;
    const PipelineTaker taker = {encoder, take_token, take_piece};
    size_t start = 0; /* of the fragment */
    if (vocab->pipeline)
        return pipeline_run(vocab->pipeline, (String){text, n}, flags & ENCODE_SPECIAL, encoder->marks,
                            encoder->steers, &taker, encoder->error);
    unsigned char wanted = flags & ENCODE_SPECIAL ? BEGINS_SPECIAL : BEGINS_DEFINED;
    for (size_t i = 0; i < n;) {
        const Prefix *special = NULL;
        if (vocab->begins[(unsigned char)text[i]] & wanted)
            special = special_at(encoder, text, i, n, flags & ENCODE_SPECIAL);
        if (!special) {
            i++;
            continue;
        }
        if (!encode_fragment(encoder, text + start, i - start, start == 0, false) ||
            !tokens_push(encoder->tokens, special->id, encoder->error))
            return false;
        i += special->text.n;
        while (special->takes_space && i < n && is_space(text[i])) i++;
        start = i;
    }
    return encode_fragment(encoder, text + start, n - start, start == 0, true);
}

static bool encode(Encoder *encoder, const char *text, size_t n, unsigned flags) {
    const Vocab *vocab = encoder->vocab;
    bool ends = flags & ENCODE_ENDS;
    return (!ends || !vocab->add_bos || tokens_push(encoder->tokens, vocab->bos, encoder->error)) &&
           encode_text(encoder, text, n, flags) &&
           (!ends || !vocab->add_eos || tokens_push(encoder->tokens, vocab->eos, encoder->error));
}

/* ---- Where a text comes from ---- */

/* Whether a token looks like markup, not like text: <…>, [INST]; white space around it does not count. */
static bool is_markup(String text) {
    while (text.n > 0 && is_space(text.data[0])) text.data++, text.n--;
    while (text.n > 0 && is_space(text.data[text.n - 1])) text.n--;
    char first = text.n > 2 ? text.data[0] : 0, last = text.n > 2 ? text.data[text.n - 1] : 0;
    return (first == '<' && last == '>') || (first == '[' && last == ']');
}

/* Whether a token says anything by being one: neither a single character nor white space. */
static bool is_word(String text) {
    size_t i = 0;
    while (i < text.n && is_space(text.data[i])) i++;
    return i < text.n && character_length(text.data, text.n) < text.n;
}

static void set_bit(unsigned char *bits, int32_t id) { bits[id / 8] |= (unsigned char)(1u << id % 8); }

/* Sets the bits of those texts of a set that the template has written itself; `added`: what their ids count, or NULL. */
static void find_written(Encoder *encoder, const Prefixes *texts, const AddedToken *added, const char *text,
                         size_t n) {
    const char *marks = encoder->marks, *own;
    for (size_t i = 0; texts->n && i < n && (own = memchr(marks + i, 0, n - i)) != NULL; i++) {
        i = (size_t)(own - marks);
        if (!prefixes_begin(texts, text[i])) continue;
        int32_t at = prefixes_find(texts, text + i, n - i);
        while (at >= 0 && memchr(marks + i, 1, texts->items[at].text.n)) at = texts->items[at].shorter;
        if (at < 0) continue;
        int32_t id = texts->items[at].id;
        if (is_word(texts->items[at].text)) set_bit(encoder->steers, added ? added[id].id : id);
        i += texts->items[at].text.n - 1;
    }
}

/*
 * Which tokens steer the model: control tokens, what looks like markup, and what the template itself writes as one token.
 * Files do not agree on which of them are control tokens; and as text they are encoded like any other.
 */
static bool find_steering(Encoder *encoder, const char *text, size_t n) {
    const Vocab *vocab = encoder->vocab;
    const Pipeline *pipeline = vocab->pipeline;
    if (!(encoder->steers = calloc(vocab->n / 8 + 1, 1))) return false;
    for (size_t i = 0; i < vocab->n; i++) {
        TokenType type = vocab->types[i];
        if (type == TOKEN_CONTROL || type == TOKEN_UNKNOWN ||
            (type == TOKEN_USER_DEFINED && is_markup(vocab_text(vocab, (int32_t)i))))
            set_bit(encoder->steers, (int32_t)i);
    }
    if (pipeline) find_written(encoder, &pipeline->as_is, pipeline->added, text, n);
    if (pipeline) find_written(encoder, &pipeline->normalized, pipeline->added, text, n);
    if (!pipeline) find_written(encoder, &vocab->specials, NULL, text, n);
    return true;
}

/* marks: NULL, or of each byte whether it is from outside. */
static bool encode_all(const Tokenizer *tokenizer, String text, const char *marks, unsigned flags,
                       Tokens *tokens, Error *error) {
    Encoder encoder = {
        .vocab = &tokenizer->vocab, .tokens = tokens, .error = error, .marks = marks, .n_cache = 16};
    size_t n_before = tokens->n;
    while (encoder.n_cache < text.n / 4 && encoder.n_cache < MAX_CACHE) encoder.n_cache *= 2;
    encoder.cache = calloc(encoder.n_cache, sizeof *encoder.cache);
    encoder.n_states = text.n;
    if (text.n < SIZE_MAX / 2 / MAX_PATTERNS)
        encoder.states = malloc(tokenizer->vocab.n_patterns * text.n * sizeof *encoder.states + 1);
    bool ok = encoder.cache && encoder.states && (!marks || find_steering(&encoder, text.data, text.n));
    ok = ok ? encode(&encoder, text.data, text.n, flags)
            : error_set(error, "not enough memory to tokenize %zu bytes", text.n);
    if (!ok) tokens->n = n_before;
    free(encoder.cache);
    free(encoder.states);
    free(encoder.steers);
    free(encoder.symbols);
    free(encoder.heap);
    free(encoder.swapped.data);
    return ok;
}

bool tokenizer_encode(const Tokenizer *tokenizer, const char *text, size_t n_bytes, unsigned flags,
                      Tokens *tokens, Error *error) {
    return encode_all(tokenizer, (String){text, n_bytes}, NULL, flags, tokens, error);
}

bool tokenizer_encode_marked(const Tokenizer *tokenizer, String text, const char *marks, Tokens *tokens,
                             Error *error) {
    return encode_all(tokenizer, text, marks, ENCODE_SPECIAL, tokens, error);
}

Tokenizer *tokenizer_new(const Checkpoint *checkpoint, Error *error) {
    Tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer) {
        error_set(error, "%s: not enough memory for the vocabulary", checkpoint_path(checkpoint));
        return NULL;
    }
    bool has_keys = checkpoint_has(checkpoint, "tokenizer.ggml.model") ||
                    !checkpoint_has(checkpoint, "tokenizer.huggingface.json");
    if ((has_keys ? vocab_load : vocab_load_json)(&tokenizer->vocab, checkpoint, error)) return tokenizer;
    tokenizer_free(tokenizer);
    return NULL;
}

void tokenizer_free(Tokenizer *tokenizer) {
    if (!tokenizer) return;
    vocab_free(&tokenizer->vocab);
    free(tokenizer);
}

Tokenizer *tokenizer_open(const char *path, const Checkpoint *own, Checkpoint **file, Error *error) {
    *file = NULL;
    if (path && !(*file = checkpoint_open_vocabulary(path, error))) return NULL;
    const Checkpoint *source = path ? *file : own;
    if (checkpoint_has_vocabulary(source)) return tokenizer_new(source, error);
    error_set(
        error,
        "%s: holds no vocabulary (a folder has it in tokenizer.json, tokenizer.model, or vocab.json and "
        "merges.txt); name a file that does",
        checkpoint_path(source));
    return NULL;
}

size_t tokenizer_n_vocab(const Tokenizer *tokenizer) { return tokenizer->vocab.n; }
int32_t tokenizer_bos(const Tokenizer *tokenizer) { return tokenizer->vocab.bos; }
int32_t tokenizer_eos(const Tokenizer *tokenizer) { return tokenizer->vocab.eos; }
bool tokenizer_adds_bos(const Tokenizer *tokenizer) { return tokenizer->vocab.add_bos; }

const char *tokenizer_kind(const Tokenizer *tokenizer) { return tokenizer->vocab.name; }

static bool is_token(const Vocab *vocab, int32_t id) { return id >= 0 && (size_t)id < vocab->n; }

/* A file often gives the id of only one of a chat model's end tokens. The others are known by name. */
bool tokenizer_is_end(const Tokenizer *tokenizer, int32_t id) {
    static const char *const names[] = {
        "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>",         "<|im_end|>", "<end_of_turn>",
        "<turn|>",    "<|return|>", "<|call|>",        "<end_of_utterance>",    "<EOT>",      "[EOT]",
        "[EOS]",      "</s>",       "<eos>",           "<｜end▁of▁sentence｜>", "<|end|>"};
    static const char returns[] = "<|return|>"; /* where it is, <|end|> ends a message among several */
    const Vocab *vocab = &tokenizer->vocab;
    if (!is_token(vocab, id)) return false;
    if (id == vocab->eos || id == vocab->eot || id == vocab->bos) return true;
    for (size_t i = 0; i < vocab->n_ends; i++)
        if (id == vocab->ends[i]) return true;
    String text = vocab_text(vocab, id);
    bool is_named = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && vocab->types[id] == TOKEN_CONTROL; i++)
        is_named = is_named || string_equals(text, names[i]);
    return is_named &&
           !(string_equals(text, "<|end|>") && vocab_find_special(vocab, returns, sizeof returns - 1, true));
}

String tokenizer_piece(const Tokenizer *tokenizer, int32_t id, bool special) {
    const Vocab *vocab = &tokenizer->vocab;
    bool is_shown = is_token(vocab, id) &&
                    (special || (vocab->types[id] != TOKEN_CONTROL && vocab->types[id] != TOKEN_UNKNOWN));
    return is_shown ? vocab_shown(vocab, id) : (String){"", 0};
}

Detokenizer detokenizer_begin(const Tokenizer *tokenizer, bool special) {
    const Vocab *vocab = &tokenizer->vocab;
    return (Detokenizer){.tokenizer = tokenizer,
                         .special = special,
                         .at_start = vocab->add_space || vocab->n_strips || vocab->bare_first};
}

/* Moves what can no longer change from `pending` to `out`: at the end of the text, everything. */
static bool flush(Detokenizer *detokenizer, bool at_end, TextBuffer *out) {
    bool ok = true;
    while (detokenizer->n_pending) {
        unsigned char *pending = detokenizer->pending;
        uint32_t c;
        size_t n = utf8_decode((const char *)pending, detokenizer->n_pending, &c);
        if (c == UTF8_CUT && !at_end) break;
        ok = (c < UTF8_INVALID ? text_append(out, pending, n) : text_append(out, "\xef\xbf\xbd", 3)) && ok;
        detokenizer->n_pending -= n; /* also if memory ran out: the next byte needs the room */
        memmove(pending, pending + n, detokenizer->n_pending);
    }
    return ok;
}

/* Takes from a piece that opens the text what does not belong there: the space that was put in front to encode it. */
static String open_text(Detokenizer *detokenizer, String piece) {
    const Vocab *vocab = &detokenizer->tokenizer->vocab;
    String space = {vocab->pipeline ? vocab->stripped : " ", vocab->pipeline ? vocab->stripped_length : 1};
    size_t most = vocab->pipeline ? vocab->n_strips : 1;
    while (detokenizer->n_dropped < most && piece.n >= space.n &&
           memcmp(piece.data, space.data, space.n) == 0) {
        piece.data += space.n, piece.n -= space.n;
        detokenizer->n_dropped++;
    }
    detokenizer->at_start = vocab->pipeline && piece.n == 0 && detokenizer->n_dropped < most;
    return piece;
}

bool detokenizer_push(Detokenizer *detokenizer, int32_t id, TextBuffer *out) {
    const Vocab *vocab = &detokenizer->tokenizer->vocab;
    String piece = tokenizer_piece(detokenizer->tokenizer, id, detokenizer->special);
    bool opens = detokenizer->at_start && piece.n && (vocab->pipeline || vocab->types[id] != TOKEN_CONTROL);
    if (opens) piece = open_text(detokenizer, piece);
    for (size_t i = 0; i < piece.n; i++) {
        if (opens && vocab->bare_first && piece.data[i] == ' ') continue;
        detokenizer->pending[detokenizer->n_pending++] = (unsigned char)piece.data[i];
        if (!flush(detokenizer, false, out)) return false;
    }
    return true;
}

bool detokenizer_end(Detokenizer *detokenizer, TextBuffer *out) { return flush(detokenizer, true, out); }
