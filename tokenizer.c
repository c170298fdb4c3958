/*
 * Encoding: text ─► special tokens and the pieces between them (vocab/pieces.h) ─► each piece merged (vocab/merge.h) ─► ids.
 * Decoding: ids ─► bytes ─► whole UTF-8 characters.
 */
#include "tokenizer.h"

#include "base/utf8.h"
#include "open.h"
#include "vocab/control_tokens.h"
#include "vocab/merge.h"
#include "vocab/pieces.h"
#include "vocab/vocab.h"

#include <stdlib.h>
#include <string.h>

struct Tokenizer {
    Vocab vocab;
};

/* The tokens of a text, and before and behind it those that `ends` asks for. */
static bool encode(Merger *merger, const Uncut *uncut, bool ends) {
    const Vocab *vocab = merger->vocab;
    const PieceTaker taker = {merger, merge_token, merge_piece};
    return (!ends || !vocab->add_bos || merge_token(merger, vocab->bos)) &&
           vocab->cut(vocab, uncut, &taker, merger->error) &&
           (!ends || !vocab->add_eos || merge_token(merger, vocab->eos));
}

/* marks: NULL, or of each byte whether it is from outside. */
static bool encode_all(const Tokenizer *tokenizer, String text, const char *marks, unsigned flags,
                       Tokens *tokens, Error *error) {
    const Vocab *vocab = &tokenizer->vocab;
    size_t n_before = tokens->n;
    unsigned char *steers = marks ? control_tokens(vocab, text.data, text.n, marks) : NULL;
    const Uncut uncut = {text, flags & ENCODE_SPECIAL, marks, steers};
    Merger merger = {vocab, steers, tokens, error};
    bool ok = merger_begin(&merger, text.n) && (steers || !marks);
    ok = ok ? encode(&merger, &uncut, flags & ENCODE_ENDS)
            : error_set(error, "not enough memory to tokenize %zu bytes", text.n);
    if (!ok) tokens->n = n_before;
    merger_end(&merger);
    free(steers);
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

bool prompt_or_bos(const Tokenizer *tokenizer, Tokens *prompt, Error *error) {
    int32_t bos = tokenizer_bos(tokenizer);
    return prompt->n > 0 || bos < 0 || tokens_push(prompt, bos, error);
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
    return (Detokenizer){
        .tokenizer = tokenizer, .special = special, .at_start = vocab->n_strips || vocab->bare_first};
}

/* Moves what can no longer change from `pending` to `out`: at the end of the text, everything. */
static bool flush(Detokenizer *detokenizer, bool at_end, TextBuffer *out) {
    bool ok = true;
    while (detokenizer->n_pending) {
        unsigned char *pending = detokenizer->pending;
        uint32_t c;
        size_t n = utf8_decode((const char *)pending, detokenizer->n_pending, &c);
        if (c == UTF8_CUT && !at_end) break;
        if (c < UTF8_INVALID)
            ok = text_append(out, pending, n) && ok;
        else if (detokenizer->n_unseen == 0)
            ok = text_append(out, "\xef\xbf\xbd", 3) && ok;
        detokenizer->n_unseen -= detokenizer->n_unseen < n ? detokenizer->n_unseen : n;
        detokenizer->n_pending -= n; /* also if memory ran out: the next byte needs the room */
        memmove(pending, pending + n, detokenizer->n_pending);
    }
    return ok;
}

/* Takes from a piece that opens the text what does not belong there: the space that was put in front to encode it. */
static String open_text(Detokenizer *detokenizer, String piece) {
    const Vocab *vocab = &detokenizer->tokenizer->vocab;
    String space = {vocab->stripped, vocab->stripped_length};
    while (detokenizer->n_dropped < vocab->n_strips && piece.n >= space.n &&
           memcmp(piece.data, space.data, space.n) == 0) {
        piece.data += space.n, piece.n -= space.n;
        detokenizer->n_dropped++;
    }
    detokenizer->at_start = piece.n == 0 && detokenizer->n_dropped < vocab->n_strips;
    return piece;
}

bool detokenizer_push(Detokenizer *detokenizer, int32_t id, TextBuffer *out) {
    const Vocab *vocab = &detokenizer->tokenizer->vocab;
    String piece = tokenizer_piece(detokenizer->tokenizer, id, detokenizer->special);
    bool opens =
        detokenizer->at_start && piece.n && (vocab->control_opens || vocab->types[id] != TOKEN_CONTROL);
    if (opens) piece = open_text(detokenizer, piece);
    for (size_t i = 0; i < piece.n; i++) {
        if (opens && vocab->bare_first && piece.data[i] == ' ') continue;
        detokenizer->pending[detokenizer->n_pending++] = (unsigned char)piece.data[i];
        if (!flush(detokenizer, false, out)) return false;
    }
    return true;
}

void detokenizer_hide(Detokenizer *detokenizer) { detokenizer->n_unseen = detokenizer->n_pending; }

bool detokenizer_end(Detokenizer *detokenizer, TextBuffer *out) { return flush(detokenizer, true, out); }
