#include "packing/vocabulary.h"

#include "checkpoint/json.h"
#include "text/buffer.h"
#include "text/pre.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TYPE_U32 = 4,
    TYPE_I32 = 5,
    TYPE_F32 = 6,
    TYPE_BOOL = 7,
    TYPE_STRING = 8,
    TYPE_ARRAY = 9
};                                                                 /* GGUF's */
enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE }; /* types of tokens */
enum { MAX_TOKENS = 1 << 24 };

typedef struct Tokens {
    Checkpoint *checkpoint;
    Error *error;
    const Json *root, *model;
    const char *why;
    String *texts; /* [n]; without data: no token has the id */
    int32_t *types;
    float *scores; /* of SentencePiece's kind */
    size_t n;
    bool ok;
} Tokens;

static void no_memory(Tokens *tokens) {
    if (tokens->ok)
        checkpoint_error(tokens->checkpoint, tokens->error, "not enough memory for its vocabulary");
    tokens->ok = false;
}

static void give_up(Tokens *tokens, const char *why) {
    if (!*tokens->why) tokens->why = why;
}

static void add(Tokens *tokens, const char *key, uint32_t type, uint32_t element, size_t n, const void *data,
                size_t n_bytes) {
    Value value = {{key, strlen(key)}, type, element, n, data, n_bytes};
    tokens->ok = tokens->ok && checkpoint_add(tokens->checkpoint, &value, tokens->error);
}

static void append_string(Tokens *tokens, TextBuffer *out, String text) {
    uint64_t n = text.n;
    if (!text_append(out, (const char *)&n, sizeof n) || !text_append(out, text.data, text.n))
        no_memory(tokens);
}

static void add_text(Tokens *tokens, const char *key, String text) {
    TextBuffer out = {0};
    append_string(tokens, &out, text);
    if (tokens->ok) add(tokens, key, TYPE_STRING, 0, text.n, out.data, out.n);
    free(out.data);
}

static bool is_type(const Json *json, const char *type) { return json_equals(json_get(json, "type"), type); }

/* Every id that the vocabulary and the added tokens have. */
static void count(Tokens *tokens, const Json *vocab, const Json *added) {
    for (size_t i = 0; i < (vocab ? vocab->n : 0) + (added ? added->n : 0); i++) {
        int64_t id = -1;
        const Json *value =
            i < vocab->n ? json_item(vocab, i) : json_get(json_item(added, i - vocab->n), "id");
        if (!json_integer(value, &id) || id < 0 || id >= MAX_TOKENS) give_up(tokens, "it has odd ids");
        if (id >= 0 && id < MAX_TOKENS && (size_t)id >= tokens->n) tokens->n = (size_t)id + 1;
    }
}

/* "<0x0A>" */
static bool is_byte(String text) {
    return text.n == 6 && memcmp(text.data, "<0x", 3) == 0 && text.data[5] == '>';
}

static void place(Tokens *tokens, bool has_bytes) {
    const Json *vocab = json_get(tokens->model, "vocab"), *added = json_get(tokens->root, "added_tokens"),
               *unknown = json_get(tokens->model, "unk_token");
    if (!vocab || vocab->kind != JSON_OBJECT || (added && added->kind != JSON_ARRAY)) {
        give_up(tokens, "its vocabulary is no list of tokens with ids");
        return;
    }
    count(tokens, vocab, added);
    tokens->texts = calloc(tokens->n + 1, sizeof *tokens->texts);
    tokens->types = malloc((tokens->n + 1) * sizeof *tokens->types);
    if (!tokens->texts || !tokens->types) no_memory(tokens);
    if (!tokens->ok || *tokens->why) return;
    for (size_t id = 0; id < tokens->n; id++) tokens->types[id] = UNUSED;
    for (size_t i = 0; i < vocab->n; i++) {
        int64_t id = 0;
        String text = json_key(vocab, i);
        json_integer(json_item(vocab, i), &id);
        tokens->texts[id] = text;
        tokens->types[id] = has_bytes && is_byte(text) ? BYTE : NORMAL;
        if (unknown && has_bytes && string_compare(json_string(unknown), text) == 0)
            tokens->types[id] = UNKNOWN;
    }
    for (size_t i = 0; added && i < added->n; i++) {
        int64_t id = 0;
        const Json *token = json_item(added, i), *special = json_get(token, "special");
        json_integer(json_get(token, "id"), &id);
        tokens->texts[id] = json_string(json_get(token, "content"));
        if (tokens->types[id] != UNKNOWN)
            tokens->types[id] = special && special->boolean ? CONTROL : USER_DEFINED;
    }
}

/* The two parts of a merge, which stands in a text or in a list. */
static bool split_merge(const Json *merge, String *left, String *right) {
    *left = json_string(merge), *right = (String){0};
    if (merge->kind == JSON_ARRAY && merge->n == 2) {
        *left = json_string(json_item(merge, 0)), *right = json_string(json_item(merge, 1));
    } else {
        const char *space = left->n ? memchr(left->data, ' ', left->n) : NULL;
        if (!space) return false;
        *right = (String){space + 1, left->n - (size_t)(space + 1 - left->data)};
        left->n = (size_t)(space - left->data);
    }
    return left->n > 0 && right->n > 0 && !memchr(left->data, ' ', left->n) &&
           !memchr(right->data, ' ', right->n);
}

static void add_merges(Tokens *tokens) {
    const Json *merges = json_get(tokens->model, "merges");
    TextBuffer out = {0};
    size_t n = merges && merges->kind == JSON_ARRAY ? merges->n : 0;
    for (size_t i = 0; tokens->ok && i < n; i++) {
        String left, right;
        if (!split_merge(json_item(merges, i), &left, &right)) {
            give_up(tokens, "a merge of it is not of two parts without spaces");
            break;
        }
        uint64_t length = left.n + 1 + right.n;
        if (!text_append(&out, (const char *)&length, sizeof length) ||
            !text_append(&out, left.data, left.n) || !text_append(&out, " ", 1) ||
            !text_append(&out, right.data, right.n))
            no_memory(tokens);
    }
    if (tokens->ok && !*tokens->why)
        add(tokens, "tokenizer.ggml.merges", TYPE_ARRAY, TYPE_STRING, n, out.data ? out.data : "", out.n);
    free(out.data);
}

/* An entry of a sorted list of texts. */
typedef struct Found {
    String text;
    size_t id;
} Found;

static int compare_found(const void *a, const void *b) {
    return string_compare(((const Found *)a)->text, ((const Found *)b)->text);
}

/*
 * SentencePiece merges what makes the token of the highest score. Its tokenizer.json lists the merges in that order, so
 * that minus the place of the first merge that makes a token orders them in the same way.
 */
static void rank(Tokens *tokens) {
    const Json *merges = json_get(tokens->model, "merges");
    size_t n = merges && merges->kind == JSON_ARRAY ? merges->n : 0;
    Found *sorted = malloc((tokens->n + 1) * sizeof *sorted);
    tokens->scores = calloc(tokens->n + 1, sizeof *tokens->scores);
    if (!sorted || !tokens->scores) no_memory(tokens);
    for (size_t id = 0; tokens->ok && id < tokens->n; id++) {
        sorted[id] = (Found){tokens->texts[id].data ? tokens->texts[id] : (String){"", 0}, id};
        tokens->scores[id] = tokens->types[id] == NORMAL ? -1e6f : 0;
    }
    if (tokens->ok) qsort(sorted, tokens->n, sizeof *sorted, compare_found);
    TextBuffer whole = {0};
    for (size_t i = 0; tokens->ok && i < n; i++) {
        String left, right;
        whole.n = 0;
        if (!split_merge(json_item(merges, i), &left, &right)) {
            give_up(tokens, "a merge of it is not of two parts without spaces");
            break;
        }
        if (!text_append(&whole, left.data, left.n) || !text_append(&whole, right.data, right.n))
            no_memory(tokens);
        if (!tokens->ok) break;
        Found key = {{whole.data, whole.n}, 0};
        const Found *found = bsearch(&key, sorted, tokens->n, sizeof *sorted, compare_found);
        if (found && tokens->scores[found->id] == -1e6f) tokens->scores[found->id] = -(float)i;
    }
    free(whole.data);
    free(sorted);
}

/* The expressions of pre_tokenizer, as many as `patterns` has room for; SIZE_MAX where it does something else. */
static size_t list_patterns(const Json *pre, String patterns[static MAX_PATTERNS], size_t n,
                            bool *byte_level) {
    static const char gpt2[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    const Json *list = json_get(pre, "pretokenizers"), *regex = json_get(json_get(pre, "pattern"), "Regex"),
               *use = json_get(pre, "use_regex"), *prefix = json_get(pre, "add_prefix_space"),
               *each = json_get(pre, "individual_digits");
    if (is_type(pre, "Sequence") && list && list->kind == JSON_ARRAY) {
        for (size_t i = 0; i < list->n && n != SIZE_MAX; i++)
            n = list_patterns(json_item(list, i), patterns, n, byte_level);
        return n;
    }
    if (n >= MAX_PATTERNS) return SIZE_MAX;
    if (is_type(pre, "ByteLevel")) {
        *byte_level = true;
        if (prefix && prefix->boolean) return SIZE_MAX;
        if (use && !use->boolean) return n;
        patterns[n] = (String){gpt2, sizeof gpt2 - 1};
        return n + 1;
    }
    if (is_type(pre, "Digits") && each && each->boolean) {
        patterns[n] = (String){"\\p{N}", 5};
        return n + 1;
    }
    if (!is_type(pre, "Split") || !regex || regex->kind != JSON_TEXT) return SIZE_MAX;
    patterns[n] = json_string(regex);
    return n + 1;
}

static void add_byte_level(Tokens *tokens) {
    String patterns[MAX_PATTERNS];
    bool byte_level = false;
    const Json *whole = json_get(tokens->model, "ignore_merges");
    size_t n = list_patterns(json_get(tokens->root, "pre_tokenizer"), patterns, 0, &byte_level);
    String name = byte_level && n != SIZE_MAX ? pre_name(patterns, n, whole && whole->boolean) : (String){0};
    if (!name.n) {
        give_up(tokens, "GGUF has no name for how it cuts a text");
        return;
    }
    add_merges(tokens);
    if (*tokens->why) return;
    add_text(tokens, "tokenizer.ggml.model", (String){"gpt2", 4});
    add_text(tokens, "tokenizer.ggml.pre", name);
}

/* Whether a text gets a space in front: by the normaliser that prepends ▁, or by Metaspace. */
static bool adds_space(const Tokens *tokens) {
    const Json *normalizer = json_get(tokens->root, "normalizer"),
               *list = json_get(normalizer, "normalizers"), *pre = json_get(tokens->root, "pre_tokenizer"),
               *scheme = json_get(pre, "prepend_scheme");
    if (is_type(normalizer, "Prepend")) return true;
    for (size_t i = 0; list && list->kind == JSON_ARRAY && i < list->n; i++)
        if (is_type(json_item(list, i), "Prepend")) return true;
    return is_type(pre, "Metaspace") && !json_equals(scheme, "never");
}

static void add_sentencepiece(Tokens *tokens) {
    rank(tokens);
    if (!tokens->ok || *tokens->why) return;
    bool space = adds_space(tokens);
    add_text(tokens, "tokenizer.ggml.model", (String){"llama", 5});
    add_text(tokens, "tokenizer.ggml.pre", (String){"default", 7});
    add(tokens, "tokenizer.ggml.add_space_prefix", TYPE_BOOL, 0, 0, &(unsigned char){space}, 1);
}

/* Ids up to the rows of the embedding that no token has are named as llama.cpp's converter names them. */
static void add_list(Tokens *tokens) {
    const Tensor *embedding = checkpoint_find(tokens->checkpoint, "token_embd.weight");
    uint64_t rows = embedding ? embedding->dims[1] : 0;
    size_t n = rows > tokens->n && rows <= MAX_TOKENS ? (size_t)rows : tokens->n;
    int32_t *types = malloc((n + 1) * sizeof *types);
    float *scores = calloc(n + 1, sizeof *scores);
    TextBuffer out = {0};
    if (!types || !scores) no_memory(tokens);
    for (size_t id = 0; tokens->ok && id < n; id++) {
        char pad[32];
        bool is_there = id < tokens->n && tokens->texts[id].data;
        int length = snprintf(pad, sizeof pad, "[PAD%zu]", id);
        types[id] = is_there ? tokens->types[id] : UNUSED;
        if (tokens->scores && is_there) scores[id] = tokens->scores[id];
        append_string(tokens, &out, is_there ? tokens->texts[id] : (String){pad, (size_t)length});
    }
    add(tokens, "tokenizer.ggml.tokens", TYPE_ARRAY, TYPE_STRING, n, out.data ? out.data : "", out.n);
    add(tokens, "tokenizer.ggml.token_type", TYPE_ARRAY, TYPE_I32, n, types, n * sizeof *types);
    if (tokens->scores)
        add(tokens, "tokenizer.ggml.scores", TYPE_ARRAY, TYPE_F32, n, scores, n * sizeof *scores);
    free(types);
    free(scores);
    free(out.data);
}

/* A post-processor that puts BOS in front, where nothing has said whether one is. */
static void add_bos(Tokens *tokens) {
    uint64_t bos = UINT64_MAX;
    const Json *post = json_get(tokens->root, "post_processor"), *list = json_get(post, "processors");
    checkpoint_u64(tokens->checkpoint, "tokenizer.ggml.bos_token_id", &bos, NULL);
    if (checkpoint_has(tokens->checkpoint, "tokenizer.ggml.add_bos_token")) return;
    for (size_t i = 0; list && list->kind == JSON_ARRAY && i < list->n; i++)
        if (is_type(json_item(list, i), "TemplateProcessing")) post = json_item(list, i);
    const Json *single = json_get(post, "single"), *first = NULL;
    if (is_type(post, "TemplateProcessing") && single && single->kind == JSON_ARRAY && single->n)
        first = json_get(json_item(single, 0), "SpecialToken");
    String name = json_string(json_get(first, "id"));
    bool adds =
        bos < tokens->n && name.n && tokens->texts[bos].data && string_compare(name, tokens->texts[bos]) == 0;
    add(tokens, "tokenizer.ggml.add_bos_token", TYPE_BOOL, 0, 0, &(unsigned char){adds}, 1);
}

static void convert(Tokens *tokens) {
    const Json *fallback = json_get(tokens->model, "byte_fallback");
    bool has_bytes = fallback && fallback->boolean;
    if (!is_type(tokens->model, "BPE")) {
        give_up(tokens, "it is no BPE");
        return;
    }
    place(tokens, has_bytes);
    if (!tokens->ok || *tokens->why) return;
    (has_bytes ? add_sentencepiece : add_byte_level)(tokens);
    if (!tokens->ok || *tokens->why) return;
    add_list(tokens);
    add_bos(tokens);
}

bool vocabulary_add(Checkpoint *checkpoint, const char **why, Error *error) {
    String text = {"", 0};
    Error where = {{0}};
    *why = "";
    if (checkpoint_has(checkpoint, "tokenizer.ggml.model") ||
        !checkpoint_has(checkpoint, "tokenizer.huggingface.json"))
        return true;
    if (!checkpoint_string(checkpoint, "tokenizer.huggingface.json", &text, error)) return false;
    Json *root = json_parse(text.data, text.n, &where);
    if (!root) return checkpoint_error(checkpoint, error, "tokenizer.json: %s", where.message);
    Tokens tokens = {.checkpoint = checkpoint,
                     .error = error,
                     .root = root,
                     .model = json_get(root, "model"),
                     .why = "",
                     .ok = true};
    convert(&tokens);
    *why = tokens.why;
    free(tokens.texts);
    free(tokens.types);
    free(tokens.scores);
    json_free(root);
    return tokens.ok;
}
