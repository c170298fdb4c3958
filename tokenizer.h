/* Text to tokens and back. Knows vocabularies, not models. */
#ifndef ATTN_TOKENIZER_H
#define ATTN_TOKENIZER_H

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "vocab/tokens.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Immutable after tokenizer_new; may be shared between threads. */
typedef struct Tokenizer Tokenizer;

/*
 * Builds the tokenizer that the checkpoint's metadata (tokenizer.ggml.…) describes:
 * "gpt2": byte-level BPE with merges (Sennrich et al. 2016, arXiv:1508.07909; Radford et al. 2019), of text that is cut
 * as tokenizer.ggml.pre says (vocab/pretokenizers.c);
 * "gemma4": BPE with merges, ▁ and byte fallback;
 * "llama": SentencePiece BPE with scores, ▁ and byte fallback (Kudo & Richardson 2018, arXiv:1808.06226).
 * Without them, that of the tokenizer.json in tokenizer.huggingface.json: BPE or Unigram (Kudo 2018, arXiv:1804.10959),
 * as Hugging Face's library has it; whatever in it is not known is refused by name. Two things differ: a character that
 * no token can write, and the library drops, fails; and text never becomes a special token by merging.
 * Borrows the checkpoint's bytes: close the checkpoint after tokenizer_free, which accepts NULL.
 */
Tokenizer *tokenizer_new(const Checkpoint *checkpoint, Error *error);
void tokenizer_free(Tokenizer *tokenizer);

/*
 * Likewise for the file at path, or for the checkpoint `own` if path is NULL. *file becomes the checkpoint that was
 * opened for it, or NULL if it is `own`; close it after tokenizer_free.
 */
Tokenizer *tokenizer_open(const char *path, const Checkpoint *own, Checkpoint **file, Error *error);

size_t tokenizer_n_vocab(const Tokenizer *tokenizer);
const char *tokenizer_kind(const Tokenizer *tokenizer); /* for people: "byte-level BPE (gpt-2)" */
int32_t tokenizer_bos(const Tokenizer *tokenizer);      /* −1 when there is none */
int32_t tokenizer_eos(const Tokenizer *tokenizer);      /* −1 when there is none */
bool tokenizer_adds_bos(const Tokenizer *tokenizer);    /* whether ENCODE_ENDS puts BOS in front */

/* Whether a generated id ends the text: EOS, end of a turn or message, by the file or by name; or BOS (which opens the next text). */
bool tokenizer_is_end(const Tokenizer *tokenizer, int32_t id);

/* Flags of tokenizer_encode. */
enum {
    ENCODE_ENDS = 1,    /* BOS before and EOS after, as the metadata says */
    ENCODE_SPECIAL = 2, /* recognise control tokens such as <|endoftext|> in the text */
};

/*
 * Appends the tokens of n_bytes of text to `tokens`. Any bytes will do; the time is near-linear in n_bytes.
 * Fails only when memory runs out, or when the vocabulary has no way to write a byte.
 */
bool tokenizer_encode(const Tokenizer *tokenizer, const char *text, size_t n_bytes, unsigned flags,
                      Tokens *tokens, Error *error);

/* Makes an empty prompt the token that begins every text; it stays empty where the vocabulary has no such token. */
bool prompt_or_bos(const Tokenizer *tokenizer, Tokens *prompt, Error *error);

/*
 * Likewise for what a chat template has made (template_render), with control tokens; marks [text.n] tell of each byte
 * whether it is from outside, as template_render gives them. A token that steers the model has no such byte: whatever a
 * person or the model writes is text, to the last byte, and no token of the template's is lost beside it. What steers are
 * control tokens; added tokens that look like markup, <…> or [INST], for files do not agree on which are control tokens; and
 * added tokens of more than one character, white space aside, that the template itself writes in this text.
 */
bool tokenizer_encode_marked(const Tokenizer *tokenizer, String text, const char *marks, Tokens *tokens,
                             Error *error);

/*
 * The bytes that a token stands for, as they appear in running text (SentencePiece's ▁ is a space).
 * A control or unknown token is empty unless `special`, which gives its name. Borrowed from the tokenizer;
 * an id out of range is empty.
 */
String tokenizer_piece(const Tokenizer *tokenizer, int32_t id, bool special);

/*
 * Turns tokens back into text whole characters at a time: a UTF-8 character split over tokens is
 * held back until it is complete, and bytes that are no character become U+FFFD.
 */
typedef struct Detokenizer {
    const Tokenizer *tokenizer;
    bool special;     /* show control tokens by name */
    bool at_start;    /* the next token opens the text: SentencePiece drops the space it put in front */
    size_t n_dropped; /* characters so far of those that are dropped there */
    unsigned char pending[4];
    size_t n_pending, n_unseen; /* n_unseen: the first of them, which show only if they become a character */
} Detokenizer;

Detokenizer detokenizer_begin(const Tokenizer *tokenizer, bool special);

/* Appends the text that became complete with this token to `out`. False when memory runs out. */
bool detokenizer_push(Detokenizer *detokenizer, int32_t id, TextBuffer *out);

/* Nobody is shown the text so far: what of it is held back is shown only if what follows completes it. */
void detokenizer_hide(Detokenizer *detokenizer);

/* Appends what is still held back, as U+FFFD, at the end of the text. */
bool detokenizer_end(Detokenizer *detokenizer, TextBuffer *out);

#endif
