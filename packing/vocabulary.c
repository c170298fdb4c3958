#include "packing/vocabulary.h"

#include "checkpoint/format.h"
#include "packing/layout.h"
#include "tokenizer.h"
#include "vocab/vocab_keys.h"

#include <stdio.h>
#include <string.h>

enum { MAX_SPECIALS = 64 /* that are tried: kinds of them are few */ };

/* Whether the text becomes the same tokens. What one of the two cannot write tells nothing. */
static bool agree_on(const Tokenizer *a, const Tokenizer *b, const char *text) {
    Tokens of_a = {0}, of_b = {0};
    Error error;
    bool ok = tokenizer_encode(a, text, strlen(text), ENCODE_SPECIAL, &of_a, &error) &&
              tokenizer_encode(b, text, strlen(text), ENCODE_SPECIAL, &of_b, &error);
    bool same =
        !ok || (of_a.n == of_b.n && (!of_a.n || memcmp(of_a.ids, of_b.ids, of_a.n * sizeof *of_a.ids) == 0));
    tokens_free(&of_a);
    tokens_free(&of_b);
    return same;
}

static bool agree_beside_specials(const Tokenizer *a, const Tokenizer *b) {
    static const char *const beside[] = {"%.*sa", "%.*s a", "a %.*s", "a%.*s\n"};
    size_t n = tokenizer_n_vocab(a), tried = 0;
    for (size_t id = 0; id < n && tried < MAX_SPECIALS; id++) {
        String name = tokenizer_piece(a, (int32_t)id, true);
        char text[128];
        if (name.n == 0 || name.n > 100 || tokenizer_piece(a, (int32_t)id, false).n) continue;
        tried++;
        for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
            snprintf(text, sizeof text, beside[i], (int)name.n, name.data);
            if (!agree_on(a, b, text)) return false;
        }
    }
    return true;
}

/* Lists what of texts the two make other tokens of. */
static void compare(const Tokenizer *a, const Tokenizer *b, Error *differs) {
    static const struct {
        const char *text, *what;
    } probes[] = {
        {" a", "a space at the start"},
        {"a  e", "several spaces"},
        {"a ", "a space at the end"},
        {"a\n", "a line's end"},
        {"A", "capitals"},
        {"e\xcc\x81", "characters that NFC composes"},
        {"\xef\xac\x81", "characters that NFKC changes"},
        {"a\xe2\x96\x81", "the sign ▁"},
    };
    char list[256] = "";
    size_t n = sizeof probes / sizeof *probes;
    for (size_t i = 0; i <= n; i++) {
        bool same = i < n ? agree_on(a, b, probes[i].text) : agree_beside_specials(a, b);
        const char *what = i < n ? probes[i].what : "text beside special tokens";
        size_t used = strlen(list);
        if (!same) snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", what);
    }
    if (*list) error_set(differs, "%s", list);
}

/* GGUF names two more tokens that end a text, beside the first of a folder's list; attn reads the list itself, too. */
static bool add_ends(Checkpoint *checkpoint, size_t n_vocab, Error *error) {
    static const char *const names[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
    NumberArray ends;
    if (!checkpoint_i32s(checkpoint, "attn.eos_token_ids", &ends, error)) return false;
    for (size_t i = 0, used = 0; i < ends.n && used < 2; i++) {
        const int32_t id = i32_at(&ends, i);
        const Value value = {
            .key = string_from(names[used]), .type = VALUE_U32, .data = &id, .n_bytes = sizeof id};
        if (i == 0 || id < 0 || (size_t)id >= n_vocab) continue;
        if (!checkpoint_add(checkpoint, &value, error)) return false;
        used++;
    }
    return true;
}

bool vocabulary_add(Checkpoint *checkpoint, Error *why, Error *differs, Error *error) {
    VocabKeys keys = {0};
    if (checkpoint_has(checkpoint, "tokenizer.ggml.model") ||
        !checkpoint_has(checkpoint, "tokenizer.huggingface.json"))
        return true;
    if (!vocab_keys_make(&keys, checkpoint, why)) return true;
    Tokenizer *by_json = tokenizer_new(checkpoint, error), *by_keys = NULL;
    bool ok = by_json != NULL;
    for (size_t i = 0; ok && i < keys.n; i++) ok = checkpoint_add(checkpoint, &keys.values[i], error);
    vocab_keys_free(&keys);
    ok = ok && add_ends(checkpoint, tokenizer_n_vocab(by_json), error);
    ok = ok && (by_keys = tokenizer_new(checkpoint, error)) != NULL;
    if (ok) compare(by_json, by_keys, differs);
    tokenizer_free(by_json);
    tokenizer_free(by_keys);
    return ok;
}
