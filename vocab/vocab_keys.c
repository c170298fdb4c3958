#include "vocab/vocab_keys.h"

#include "base/json.h"
#include "base/utf8.h"
#include "checkpoint/format.h"
#include "vocab/pieces_json.h"
#include "vocab/pipeline.h"
#include "vocab/vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct KeyMaker {
    VocabKeys *keys;
    const Checkpoint *checkpoint;
    Error *error;
    Vocab vocab;
    Json *root;
    String *texts; /* [vocab.n] as the file has them; data is NULL where there is no such token */
} KeyMaker;

static bool refuse(const KeyMaker *builder, const char *what) {
    return error_set(builder->error, "%s: tokenizer.json cannot be written as GGUF: %s",
                     checkpoint_path(builder->checkpoint), what);
}

static bool no_memory(const KeyMaker *builder) {
    return error_set(builder->error, "%s: not enough memory for the vocabulary",
                     checkpoint_path(builder->checkpoint));
}

/* Adds a key whose data the keys own from now on. data is NULL when memory ran out for it. */
static bool add_key(KeyMaker *builder, const char *name, uint32_t type, uint32_t element, uint64_t n,
                    void *data, size_t n_bytes) {
    if (!data) return no_memory(builder);
    builder->keys->values[builder->keys->n++] = (Value){string_from(name), type, element, n, data, n_bytes};
    return true;
}

static void *copy(const void *bytes, size_t n) {
    void *data = malloc(n + !n);
    if (data) memcpy(data, bytes, n);
    return data;
}

static bool append_string(TextBuffer *out, const char *text, size_t n) {
    uint64_t length = n;
    return text_append(out, &length, sizeof length) && text_append(out, text, n);
}

static bool add_text(KeyMaker *builder, const char *name, const char *text, size_t n) {
    TextBuffer out = {0};
    if (append_string(&out, text, n)) return add_key(builder, name, VALUE_STRING, 0, n, out.data, out.n);
    free(out.data);
    return no_memory(builder);
}

/* Adds an array of n strings that lie in *out, or fails if not ok. */
static bool add_strings(KeyMaker *builder, const char *name, size_t n, TextBuffer *out, bool ok) {
    if (ok)
        return add_key(builder, name, VALUE_ARRAY, VALUE_STRING, n, out->data ? out->data : copy("", 0),
                       out->n);
    free(out->data);
    return no_memory(builder);
}

/* Adds an id or a flag, unless the checkpoint has the key, or the id is none. */
static bool add_number(KeyMaker *builder, const char *name, uint32_t type, int32_t value) {
    if (value < 0 || checkpoint_has(builder->checkpoint, name)) return true;
    uint32_t id = (uint32_t)value;
    unsigned char flag = (unsigned char)value;
    return type == VALUE_BOOL ? add_key(builder, name, type, 0, 1, copy(&flag, 1), 1)
                              : add_key(builder, name, type, 0, 1, copy(&id, sizeof id), sizeof id);
}

static bool find_texts(KeyMaker *builder) {
    const Json *vocab = json_get(json_get(builder->root, "model"), "vocab");
    const Pipeline *pipeline = builder->vocab.pipeline;
    const Json *added = json_get(builder->root, "added_tokens");
    builder->texts = calloc(builder->vocab.n, sizeof *builder->texts);
    if (!builder->texts) return no_memory(builder);
    for (size_t i = 0; i < vocab->n; i++) {
        int64_t id = 0;
        json_integer(json_item(vocab, i), &id); /* as vocab_load_json did */
        builder->texts[id] = json_key(vocab, i);
    }
    for (size_t i = 0; i < pipeline->n_added; i++)
        builder->texts[pipeline->added[i].id] = json_string(json_get(json_item(added, i), "content"));
    return true;
}

static bool add_tokens(KeyMaker *builder) {
    const Vocab *vocab = &builder->vocab;
    TextBuffer out = {0};
    int32_t *types = malloc(vocab->n * sizeof *types);
    bool ok = types != NULL;
    for (size_t id = 0; ok && id < vocab->n; id++) {
        char name[32];
        int n = snprintf(name, sizeof name, "[PAD%zu]", id);
        bool is_unknown = (int32_t)id == vocab->unknown && !vocab->byte_level;
        types[id] = is_unknown ? TOKEN_UNKNOWN : vocab->types[id];
        ok = builder->texts[id].data ? append_string(&out, builder->texts[id].data, builder->texts[id].n)
                                     : append_string(&out, name, (size_t)n);
    }
    for (int byte = 0; ok && byte < 256; byte++)
        if (!vocab->byte_level && vocab->byte_ids[byte] >= 0) types[vocab->byte_ids[byte]] = TOKEN_BYTE;
    if (!add_strings(builder, "tokenizer.ggml.tokens", vocab->n, &out, ok)) {
        free(types);
        return false;
    }
    return add_key(builder, "tokenizer.ggml.token_type", VALUE_ARRAY, VALUE_I32, vocab->n, types,
                   vocab->n * sizeof *types);
}

static bool add_merges(KeyMaker *builder) {
    const Json *merges = json_get(json_get(builder->root, "model"), "merges");
    TextBuffer out = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < merges->n; i++) {
        const Json *merge = json_item(merges, i);
        if (merge->kind == JSON_TEXT) {
            ok = append_string(&out, merge->text, merge->n);
            continue;
        }
        String left = json_string(json_item(merge, 0)), right = json_string(json_item(merge, 1));
        uint64_t n = (uint64_t)left.n + 1 + right.n;
        ok = text_append(&out, &n, sizeof n) && text_append(&out, left.data, left.n) &&
             text_append(&out, " ", 1) && text_append(&out, right.data, right.n);
    }
    return add_strings(builder, "tokenizer.ggml.merges", merges->n, &out, ok);
}

/* Where text[0, n) is cut: [n + 1], 1 where a piece begins. */
typedef struct CutPlaces {
    String text;
    size_t at;    /* what pieces have covered so far */
    bool is_text; /* the pieces are the text */
    unsigned char *begins;
} CutPlaces;

static bool take_no_token(void *context, int32_t id) {
    (void)context;
    return id >= 0;
}

static bool take_piece(void *context, const char *text, size_t n) {
    CutPlaces *places = context;
    places->is_text = places->is_text && places->text.n - places->at >= n &&
                      memcmp(places->text.data + places->at, text, n) == 0;
    if (!places->is_text) return true;
    places->begins[places->at] = 1;
    places->at += n;
    return true;
}

/* False when memory runs out. */
static bool cut(Pattern *const *patterns, size_t n_patterns, const char *text, size_t n,
                unsigned char *begins) {
    if (n == 0) return true;
    *begins = 1;
    uint16_t *states = n_patterns ? malloc(n * sizeof *states) : NULL;
    if (!states) return n_patterns == 0;
    Matches matches = pattern_begin(*patterns, text, n, states);
    size_t done = 0, start, end;
    bool ok = true;
    while (ok && pattern_next(&matches, &start, &end)) {
        ok = cut(patterns + 1, n_patterns - 1, text + done, start - done, begins + done) &&
             cut(patterns + 1, n_patterns - 1, text + start, end - start, begins + start);
        done = end;
    }
    free(states);
    return ok && cut(patterns + 1, n_patterns - 1, text + done, n - done, begins + done);
}

/* Whether the row's patterns cut the text at these places; *ok becomes false when memory runs out. */
static bool cuts_likewise(const Pretokenizer *pre, const CutPlaces *places, bool *ok) {
    Pattern *patterns[MAX_PATTERNS] = {0};
    size_t n = 0;
    for (; *ok && n < MAX_PATTERNS && pre->patterns[n]; n++)
        *ok = (patterns[n] = pattern_new(string_from(pre->patterns[n]), NULL)) != NULL;
    unsigned char *begins = calloc(places->text.n + 1, 1);
    *ok = *ok && begins && cut(patterns, n, places->text.data, places->text.n, begins);
    bool likewise = *ok && memcmp(begins, places->begins, places->text.n) == 0;
    for (size_t i = 0; i < MAX_PATTERNS; i++) pattern_free(patterns[i]);
    free(begins);
    return likewise;
}

/* This text is cut differently by every two patterns of pretokenizers.c. NFC would not change it. */
static const char probe[] =
    "It's we'LL they'Re I'd 'tis x'S'T 'D'm  a   b    \t\tc \n d\n\n\ne \r\n\r\nf\r g\n \n  h  \n\n   i\n1 12 123 1234 12345 "
    "1234567 a1b2 3c x9y 1,234.5 007 3\n4 foo.Bar FooBAR fooBarBAZ HTTPServer iOS aB // a/b /* c */\n!=\n?!... ...\n\n(x) [y] "
    "{z} <w> $+<=>^`|~ #tag @me _under_score __init__ a-b--c-d !a #b .c ,d -e =f !\r\n .\n/ ;/\n\" \"a\"b 'a'b end 12\n  if "
    "(x > 0) { return; }\n\treturn 0; // 10%  'm ſ's can’t ½ ² ⅷ ① ١٢٣٤ १२३ １２３４５ ǅx ʰa ªº Straße ÉCOLE école Ωmega "
    "Привет мир ПРИВЕТ x\xcc\x81y \xcc\x81z नमस्ते ไทยดี שלום مرحبا، كيف؟ 日本語です。カタカナ 中文字符，测试！ 한국어 텍스트 "
    "ㄅㄆ ㄱㄴ 𠀀𝒜𝟙 😀👍🏽 👩‍👩‍👧 c—d …“q” ‘r’ «s» \xc2\xa0nbsp\xe2\x80\x83z \xe2\x80\xa8 ﬁ Ⅳ  \n ";

static Pipeline without_added(const KeyMaker *builder) {
    Pipeline bare = *builder->vocab.pipeline;
    bare.as_is.n = bare.normalized.n = 0;
    return bare;
}

static bool add_pre(KeyMaker *builder) {
    const Vocab *vocab = &builder->vocab;
    Pipeline bare = without_added(builder);
    size_t n = sizeof probe - 1;
    CutPlaces places = {.text = {probe, n}, .is_text = true, .begins = calloc(n + 1, 1)};
    const PieceTaker taker = {&places, take_no_token, take_piece};
    if (!places.begins) return no_memory(builder);
    const Pretokenizer *pre = NULL;
    bool has_memory = true, ok = pipeline_run(&bare, &(Uncut){.text = {probe, n}}, &taker, builder->error);
    for (size_t i = 0; ok && places.is_text && places.at == n && (pre = pretokenizer_row(i)); i++)
        if (pre->whole_words == vocab->whole_words &&
            (cuts_likewise(pre, &places, &has_memory) || !has_memory))
            break;
    free(places.begins);
    if (!has_memory) return no_memory(builder);
    if (!ok) return false;
    if (!pre)
        return refuse(builder, "no name of tokenizer.ggml.pre stands for how it cuts and normalises text");
    const char *name = pre->names;
    if (strncmp(name, "default ", 8) == 0) name += 8;
    return add_text(builder, "tokenizer.ggml.pre", name, strcspn(name, " "));
}

static bool is_run(String text) {
    uint32_t first = 0, c = 0;
    for (size_t i = 0; i < text.n;) {
        i += utf8_decode(text.data + i, text.n - i, &c);
        if (first && c != first) return false;
        first = c;
    }
    return true;
}

/* Whether the token is made of any two tokens that it can be cut into. */
static bool is_complete(const Vocab *vocab, int32_t id) {
    String text = vocab_text(vocab, id);
    uint32_t c, order;
    for (size_t left = 0; left < text.n;) {
        left += utf8_decode(text.data + left, text.n - left, &c);
        bool are_tokens = left < text.n && vocab_find(vocab, (String){text.data, left}) >= 0 &&
                          vocab_find(vocab, (String){text.data + left, text.n - left}) >= 0;
        if (are_tokens && vocab_find_merge(vocab, text, left, &order) < 0) return false;
    }
    return true;
}

/*
 * "llama" merges what makes the token of the highest score, wherever parts of it meet; of equal ones the leftmost. So all
 * such merges must be there, sorted by what they make. Only runs of one character may mix (Gemma's do): all get one score, as they grow
 * from the left either way.
 */
static bool add_scores(KeyMaker *builder, size_t n_merges) {
    Vocab *vocab = &builder->vocab;
    float *scores = calloc(vocab->n, sizeof *scores), score = 0;
    int32_t *made = malloc((n_merges + 1) * sizeof *made), last = -1; /* by order: the token */
    uint32_t *lasts = calloc(vocab->n, sizeof *lasts),
             end = 0; /* the last order of a token; of those that mix */
    bool ok = scores && made && lasts, is_sorted = true;
    for (size_t i = 0; ok && i <= n_merges; i++) made[i] = -1;
    for (size_t id = 0; ok && id < vocab->n; id++)
        for (uint32_t order = vocab->orders[id]; order; order = vocab->merges[order].next) {
            made[order] = (int32_t)id;
            if (order > lasts[id]) lasts[id] = order;
        }
    for (size_t order = 1; ok && order <= n_merges; order++) {
        int32_t id = made[order];
        if (id < 0 || id == last) continue;
        if (order > end) score -= 1;
        if (order < end)
            is_sorted = is_sorted && is_run(vocab_text(vocab, id)) && is_run(vocab_text(vocab, last));
        if (lasts[id] > end) end = lasts[id];
        scores[last = id] = score;
    }
    for (size_t id = 0; ok && id < vocab->n; id++)
        if (vocab->types[id] == TOKEN_NORMAL && !is_complete(vocab, (int32_t)id)) is_sorted = false;
    free(made);
    free(lasts);
    if (ok && is_sorted)
        return add_key(builder, "tokenizer.ggml.scores", VALUE_ARRAY, VALUE_F32, vocab->n, scores,
                       vocab->n * sizeof *scores);
    free(scores);
    return ok ? refuse(builder, "its merges are not all that make a token, sorted by these")
              : no_memory(builder);
}

static bool take_text(void *context, const char *text, size_t n) { return text_append(context, text, n); }

/* A text must stay as it is, but for ▁ in the place of spaces, and perhaps one in front. */
static bool add_spaces(KeyMaker *builder) {
    TextBuffer made = {0}, text = {0};
    const PieceTaker taker = {&made, take_no_token, take_text};
    size_t n = sizeof probe - 1;
    Pipeline bare = without_added(builder);
    bool ok = pipeline_run(&bare, &(Uncut){.text = {probe, n}}, &taker, builder->error) &&
              swap_spaces(text_string(&made), &text);
    size_t n_front = ok && text.n > 0 && *text.data == ' ';
    bool stays = ok && text.n == n_front + n && memcmp(text.data + n_front, probe, n) == 0;
    free(made.data);
    free(text.data);
    if (!ok) return no_memory(builder);
    return stays ? add_number(builder, "tokenizer.ggml.add_space_prefix", VALUE_BOOL, (int32_t)n_front)
                 : refuse(builder, "normalises text in a way that \"llama\" does not");
}

static bool add_all(KeyMaker *builder) {
    const Vocab *vocab = &builder->vocab;
    if (vocab->unigram) return refuse(builder, "Unigram");
    if (!vocab->byte_level && !vocab->swaps_spaces)
        return refuse(builder, "BPE of characters without ▁ for spaces");
    const char *model = vocab->byte_level ? "gpt2" : "llama";
    return find_texts(builder) && add_text(builder, "tokenizer.ggml.model", model, strlen(model)) &&
           add_tokens(builder) &&
           (vocab->byte_level
                ? add_pre(builder) && add_merges(builder)
                : add_spaces(builder) &&
                      add_scores(builder, json_get(json_get(builder->root, "model"), "merges")->n)) &&
           add_number(builder, "tokenizer.ggml.bos_token_id", VALUE_U32, vocab->bos) &&
           add_number(builder, "tokenizer.ggml.eos_token_id", VALUE_U32, vocab->eos) &&
           add_number(builder, "tokenizer.ggml.unknown_token_id", VALUE_U32, vocab->unknown) &&
           add_number(builder, "tokenizer.ggml.add_bos_token", VALUE_BOOL, vocab->add_bos) &&
           add_number(builder, "tokenizer.ggml.add_eos_token", VALUE_BOOL, vocab->add_eos);
}

bool vocab_keys_make(VocabKeys *keys, const Checkpoint *checkpoint, Error *error) {
    KeyMaker builder = {.keys = keys, .checkpoint = checkpoint, .error = error};
    String text = {0};
    bool ok = vocab_load_json(&builder.vocab, checkpoint, error) &&
              checkpoint_string(checkpoint, "tokenizer.huggingface.json", &text, error) &&
              (builder.root = json_parse(text.data, text.n, error)) && add_all(&builder);
    json_free(builder.root);
    vocab_free(&builder.vocab);
    free(builder.texts);
    if (!ok) vocab_keys_free(keys);
    return ok;
}

void vocab_keys_free(VocabKeys *keys) {
    for (size_t i = 0; i < keys->n; i++) free((void *)(uintptr_t)keys->values[i].data);
    *keys = (VocabKeys){0};
}
