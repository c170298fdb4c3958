/* A vocabulary out of GGUF's keys, tokenizer.ggml.…: model and pattern ─► tokens ─► merges or scores ─► ids with a role. */
#include "vocab/fragments.h"
#include "vocab/vocab.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Sets how text is cut, by what tokenizer.ggml.pre says. */
static bool set_pre(Vocab *vocab, const Checkpoint *checkpoint, String name, Error *error) {
    const Pretokenizer *pre = pretokenizer_find(name);
    if (!pre)
        return error_set(
            error,
            "%s: tokenizer.ggml.pre '%.*s' is not supported; 'gpt-2', 'llama-bpe', 'qwen2' and many others are",
            checkpoint_path(checkpoint), string_shown(name), name.data);
    snprintf(vocab->name, sizeof vocab->name, "byte-level BPE (%.*s)", (int)name.n, name.data);
    vocab->whole_words = pre->whole_words;
    vocab->add_bos = pre->add_bos;
    for (size_t i = 0; i < MAX_PATTERNS && pre->patterns[i]; i++) {
        String expression = string_from(pre->patterns[i]);
        if (!(vocab->patterns[i] = pattern_new(expression, error))) return false;
        vocab->n_patterns++;
    }
    return true;
}

/* SentencePiece's own is "llama". Gemma 4's is BPE by merges, spelt like SentencePiece. */
static bool read_kind(Vocab *vocab, const Checkpoint *checkpoint, Error *error) {
    const char *path = checkpoint_path(checkpoint);
    String model = {0}, pre = {"gpt-2", 5};
    if (!checkpoint_string(checkpoint, "tokenizer.ggml.model", &model, error) ||
        !checkpoint_string(checkpoint, "tokenizer.ggml.pre", &pre, error))
        return false;
    if (!model.data) return error_set(error, "%s: has no vocabulary (tokenizer.ggml.model is missing)", path);
    vocab->kind = string_equals(model, "llama") ? VOCAB_SPM : VOCAB_BPE;
    vocab->byte_level = string_equals(model, "gpt2");
    vocab->add_bos = !vocab->byte_level;
    vocab->fuses_unknown = vocab->kind == VOCAB_SPM;
    if (vocab->byte_level) return set_pre(vocab, checkpoint, pre, error);
    strcpy(vocab->name, vocab->kind == VOCAB_SPM ? "SentencePiece BPE" : "BPE (gemma4)");
    return vocab->kind == VOCAB_SPM || string_equals(model, "gemma4") ||
           error_set(error,
                     "%s: tokenizer.ggml.model '%.*s' is not supported; 'gpt2', 'llama' and 'gemma4' are",
                     path, string_shown(model), model.data);
}

/* Reads tokenizer.ggml.token_type; data is NULL where the file has none. */
static bool read_types(const Checkpoint *checkpoint, size_t n_tokens, NumberArray *types, Error *error) {
    if (!checkpoint_i32s(checkpoint, "tokenizer.ggml.token_type", types, error)) return false;
    if (types->data && types->n != n_tokens)
        return error_set(error, "%s: tokenizer.ggml.token_type has %zu elements for %zu tokens",
                         checkpoint_path(checkpoint), types->n, n_tokens);
    for (size_t i = 0; i < types->n; i++) {
        int32_t type = i32_at(types, i);
        if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
            return error_set(error,
                             "%s: tokenizer.ggml.token_type of token %zu is %" PRId32 ", expected 1 to 6",
                             checkpoint_path(checkpoint), i, type);
    }
    return true;
}

/* Splits "left right" at its space. */
static bool add_merge(VocabBuilder *builder, String line) {
    const char *space = memchr(line.data, ' ', line.n);
    size_t n_left = space ? (size_t)(space - line.data) : 0, n_right = space ? line.n - n_left - 1 : 0;
    if (n_left == 0 || n_right == 0 || memchr(space + 1, ' ', n_right))
        return error_set(builder->error, "%s: %s: '%.*s' is not two parts with a space between",
                         builder->path, builder->merges, string_shown(line), line.data);
    return vocab_add_merge(builder, (String){line.data, n_left}, (String){space + 1, n_right});
}

static bool read_scores(Vocab *vocab, const Checkpoint *checkpoint, size_t n_listed, Error *error) {
    const char *path = checkpoint_path(checkpoint);
    NumberArray scores;
    if (!checkpoint_f32s(checkpoint, "tokenizer.ggml.scores", &scores, error)) return false;
    if (!scores.data) return error_set(error, "%s: tokenizer.ggml.scores is missing", path);
    if (scores.n != n_listed)
        return error_set(error, "%s: tokenizer.ggml.scores has %zu elements for %zu tokens", path, scores.n,
                         n_listed);
    for (size_t i = 0; i < vocab->n; i++) {
        float score = f32_at(&scores, i);
        if (isnan(score))
            return error_set(error, "%s: tokenizer.ggml.scores of token %zu is not a number", path, i);
        vocab_set_score(vocab, i, score);
    }
    return true;
}

/* Reads a token's id. If the file lacks the key, *id stays; it becomes −1 if the vocabulary has no such id. */
static bool read_id(const Vocab *vocab, const Checkpoint *checkpoint, const char *key, int32_t *id,
                    Error *error) {
    uint64_t value = UINT64_MAX;
    if (!checkpoint_has(checkpoint, key)) {
        if (*id >= (int64_t)vocab->n) *id = -1;
        return true;
    }
    if (!checkpoint_u64(checkpoint, key, &value, error)) return false;
    if (value >= vocab->n)
        return error_set(error, "%s: %s is %" PRIu64 ", but the vocabulary has %zu tokens",
                         checkpoint_path(checkpoint), key, value, vocab->n);
    *id = (int32_t)value;
    return true;
}

/* The end of a message, and those that a folder lists. */
static bool read_ends(Vocab *vocab, const Checkpoint *checkpoint, Error *error) {
    int32_t eom = -1;
    NumberArray listed;
    if (!read_id(vocab, checkpoint, "tokenizer.ggml.eom_token_id", &eom, error) ||
        !checkpoint_i32s(checkpoint, "attn.eos_token_ids", &listed, error))
        return false;
    vocab->n_ends = 0;
    if (eom >= 0) vocab->ends[vocab->n_ends++] = eom;
    for (size_t i = 0; i < listed.n && vocab->n_ends < MAX_ENDS; i++)
        vocab->ends[vocab->n_ends++] = i32_at(&listed, i);
    return true;
}

bool vocab_read_roles(Vocab *vocab, const Checkpoint *checkpoint, Error *error) {
    if (!read_id(vocab, checkpoint, "tokenizer.ggml.bos_token_id", &vocab->bos, error) ||
        !read_id(vocab, checkpoint, "tokenizer.ggml.eos_token_id", &vocab->eos, error) ||
        !read_id(vocab, checkpoint, "tokenizer.ggml.eot_token_id", &vocab->eot, error) ||
        !read_id(vocab, checkpoint, "tokenizer.ggml.unknown_token_id", &vocab->unknown, error))
        return false;
    if (!read_ends(vocab, checkpoint, error)) return false;
    vocab->add_bos = vocab->add_bos && vocab->bos >= 0;
    if (!checkpoint_bool(checkpoint, "tokenizer.ggml.add_bos_token", &vocab->add_bos, error) ||
        !checkpoint_bool(checkpoint, "tokenizer.ggml.add_eos_token", &vocab->add_eos, error))
        return false;
    const char *missing = vocab->add_bos && vocab->bos < 0   ? "bos"
                          : vocab->add_eos && vocab->eos < 0 ? "eos"
                                                             : NULL;
    return !missing ||
           error_set(error,
                     "%s: tokenizer.ggml.add_%s_token is true, but tokenizer.ggml.%s_token_id is missing",
                     checkpoint_path(checkpoint), missing, missing);
}

/* The defaults are llama.cpp's. */
static bool read_roles(Vocab *vocab, const Checkpoint *checkpoint, Error *error) {
    bool is_spm = vocab->kind == VOCAB_SPM;
    vocab->bos = is_spm ? 1 : -1;
    vocab->eos = is_spm ? 2 : -1;
    vocab->unknown = is_spm ? 0 : -1;
    vocab->eot = -1;
    vocab->add_space = is_spm;
    if (!vocab_read_roles(vocab, checkpoint, error) ||
        !checkpoint_bool(checkpoint, "tokenizer.ggml.add_space_prefix", &vocab->add_space, error) ||
        !checkpoint_bool(checkpoint, "tokenizer.ggml.remove_extra_whitespaces", &vocab->squeezes_spaces,
                         error))
        return false;
    vocab->add_space = vocab->add_space && is_spm;
    vocab->n_strips = vocab->add_space; /* what encoding puts there */
    return true;
}

/*
 * How many of the tokens that a file lists it also embeds: behind them may lie some that were added for a larger model, as in
 * Ollama's files of Gemma 3. Ordinary tokens without a row are a mistake, and stay.
 */
static size_t count_embedded(const Checkpoint *checkpoint, size_t n_listed, const NumberArray *types) {
    const Tensor *embedding = checkpoint_find(checkpoint, "token_embd.weight");
    size_t n = n_listed;
    while (embedding && types->data && n > embedding->dims[1] && i32_at(types, n - 1) != TOKEN_NORMAL &&
           i32_at(types, n - 1) != TOKEN_BYTE)
        n--;
    return embedding && n > embedding->dims[1] ? n_listed : n;
}

static bool fill(VocabBuilder *builder, const Checkpoint *checkpoint) {
    Vocab *vocab = builder->vocab;
    Error *error = builder->error;
    StringArray tokens, merges = {0};
    NumberArray types = {0};
    bool has_merges = vocab->kind == VOCAB_BPE;
    if (!checkpoint_strings(checkpoint, builder->tokens, &tokens, error) ||
        (has_merges && !checkpoint_strings(checkpoint, builder->merges, &merges, error)))
        return false;
    const size_t n_listed = tokens.n;
    if (n_listed && !read_types(checkpoint, n_listed, &types, error)) return false;
    const size_t n = count_embedded(checkpoint, n_listed, &types);
    if (!vocab_begin(builder, n, string_array_bytes(&tokens), merges.n)) return false;
    if (has_merges && !merges.next)
        return error_set(error, "%s: %s is missing", builder->path, builder->merges);
    for (size_t id = 0; id < n; id++)
        if (!vocab_add_token(builder, string_array_take(&tokens),
                             types.data ? (TokenType)i32_at(&types, id) : TOKEN_NORMAL))
            return false;
    while (merges.n)
        if (!add_merge(builder, string_array_take(&merges))) return false;
    return has_merges || read_scores(vocab, checkpoint, n_listed, error);
}

/* In Phi-3's vocabulary, as published, these take the white space behind them; GGUF has no key for that. */
static bool read_spaces(Vocab *vocab, const Checkpoint *checkpoint, Error *error) {
    static const char *const others[] = {"<unk>", "<s>", "<|endoftext|>"};
    String family = {0};
    if (!checkpoint_string(checkpoint, "general.architecture", &family, error)) return false;
    for (size_t i = 0; i < vocab->specials.n && vocab->kind == VOCAB_SPM && string_equals(family, "phi3");
         i++) {
        vocab->specials.items[i].takes_space = true;
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            if (string_equals(vocab->specials.items[i].text, others[k]))
                vocab->specials.items[i].takes_space = false;
    }
    return true;
}

bool vocab_load(Vocab *vocab, const Checkpoint *checkpoint, Error *error) {
    VocabBuilder builder = {vocab, error, checkpoint_path(checkpoint), "tokenizer.ggml.tokens",
                            "tokenizer.ggml.merges"};
    *vocab = (Vocab){.cut = fragments_cut, .stripped = " ", .stripped_length = 1};
    return read_kind(vocab, checkpoint, error) && vocab_end(&builder, fill(&builder, checkpoint)) &&
           read_roles(vocab, checkpoint, error) && read_spaces(vocab, checkpoint, error);
}
