/*
 * A vocabulary out of Hugging Face's tokenizer.json: its added tokens, and its model (BPE or Unigram). What else it has is read
 * beside this: the steps before the model (pipeline_json.c), what puts BOS and EOS (ends_json.c), and how tokens become text
 * (decoder_json.c). Whatever is not known is refused by name.
 */
#include "base/text.h"
#include "vocab/pieces_json.h"
#include "vocab/pipeline_json.h"
#include "vocab/spelling.h"
#include "vocab/unigram.h"
#include "vocab/vocab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The tokens by id, and what is on the way to a Vocab. */
typedef struct VocabReader {
    TokenizerReader reader;
    Vocab *vocab;
    VocabBuilder builder;
    const Json *root, *model;
    size_t n_rows;         /* of the embedding, which may have more than there are tokens; 0: unknown */
    bool rows_are_said;    /* by a key, not by the tensor: no bytes of the file pay for them */
    size_t n;              /* ids */
    String *texts;         /* [n] as the file has them; data is NULL where an id has no token */
    unsigned char *types;  /* [n] TokenType */
    bool *in_model;        /* [n] the model's own, and not special: text may become it */
    String *added;         /* [added_tokens] */
    Prefixes contents;     /* those of the added tokens; id: their index */
    bool *normalized;      /* [added_tokens] */
    TextBuffer scratch[2]; /* texts with ▁ and spaces changed over */
} VocabReader;

static bool refuse(const VocabReader *from, const char *what, String name) {
    return tokenizer_refuse(&from->reader, what, name);
}

/* The model's tokens are the members of an object, or pairs of text and score. */
static bool model_token(const VocabReader *from, const Json *vocab, size_t i, String *text, int64_t *id) {
    const Json *item = json_item(vocab, i);
    *id = (int64_t)i;
    if (vocab->kind == JSON_OBJECT) {
        *text = json_key(vocab, i);
        return (json_integer(item, id) && *id >= 0) || refuse(from, "a token without an id:", *text);
    }
    bool ok = item->kind == JSON_ARRAY && item->n == 2 && json_item(item, 0)->kind == JSON_TEXT &&
              json_item(item, 1)->kind == JSON_NUMBER;
    if (ok) *text = json_string(json_item(item, 0));
    return ok || refuse(from, "not a list of texts and scores:", string_from("vocab"));
}

/* Ids may leave gaps, but no more than a file pays for. */
static bool count_ids(VocabReader *from, const Json *vocab, const Json *added) {
    size_t entries = (size_t)vocab->n + added->n, most = 4 * entries + 4096;
    for (size_t i = 0; i < entries; i++) {
        String text = {0};
        int64_t id;
        const Json *token = i < vocab->n ? NULL : json_item(added, i - vocab->n);
        if (!token && !model_token(from, vocab, i, &text, &id)) return false;
        if (token) {
            const Json *content = json_get(token, "content");
            text = json_string(content);
            if (!content || content->kind != JSON_TEXT || !json_integer(json_get(token, "id"), &id) || id < 0)
                return refuse(from, "an added token without content or id:", text);
        }
        if ((uint64_t)id >= most) return refuse(from, "the id is far beyond all tokens, of", text);
        if ((size_t)id >= from->n) from->n = (size_t)id + 1;
    }
    return from->n > 0 || refuse(from, "no tokens:", string_from("vocab"));
}

static bool builder_room(VocabReader *from, size_t n_added) {
    Pipeline *pipeline = from->reader.pipeline;
    from->texts = calloc(from->n, sizeof *from->texts);
    from->types = malloc(from->n);
    from->in_model = calloc(from->n, sizeof *from->in_model);
    from->added = calloc(n_added + 1, sizeof *from->added);
    from->normalized = calloc(n_added + 1, sizeof *from->normalized);
    pipeline->added = calloc(n_added + 1, sizeof *pipeline->added);
    if (!from->texts || !from->types || !from->in_model || !from->added || !from->normalized ||
        !pipeline->added)
        return tokenizer_no_memory(&from->reader);
    memset(from->types, TOKEN_UNUSED, from->n);
    return true;
}

static bool place_token(VocabReader *from, int64_t id, String text, TokenType type) {
    if (from->texts[id].data) return refuse(from, "an id that another token has, of", text);
    from->texts[id] = text;
    from->types[id] = (unsigned char)type;
    return true;
}

/* The index of the added token of exactly this text, or −1. */
static int32_t find_added(const VocabReader *from, String text) {
    int32_t found = text.n ? prefixes_find(&from->contents, text.data, text.n) : -1;
    return found >= 0 && from->contents.items[found].text.n == text.n ? from->contents.items[found].id : -1;
}

/* Places the model's tokens. An added token that is also one of these has its id from there, as the library does. */
static bool place_model(VocabReader *from, const Json *vocab, int64_t *ids) {
    for (size_t i = 0; i < vocab->n; i++) {
        String text = {0};
        int64_t id;
        model_token(from, vocab, i, &text, &id); /* as count_ids did */
        if (!place_token(from, id, text, TOKEN_NORMAL)) return false;
        from->in_model[id] = true;
        int32_t found = find_added(from, text);
        if (found >= 0) ids[found] = id;
    }
    return true;
}

/* The library numbers added tokens that are not in the model on from its number of tokens, whatever ids the file has. */
static bool read_added(VocabReader *from, const Json *added, const int64_t *ids, int64_t next) {
    Pipeline *pipeline = from->reader.pipeline;
    for (size_t i = 0; i < added->n; i++) {
        const Json *json = json_item(added, i);
        AddedToken *token = &pipeline->added[i];
        int64_t id = ids[i];
        String text = from->added[i] = json_string(json_get(json, "content"));
        if (!tokenizer_flag(&from->reader, json, "special", false, &token->special) ||
            !tokenizer_flag(&from->reader, json, "single_word", false, &token->single_word) ||
            !tokenizer_flag(&from->reader, json, "lstrip", false, &token->lstrip) ||
            !tokenizer_flag(&from->reader, json, "rstrip", false, &token->rstrip))
            return false;
        from->normalized[i] = !token->special;
        if (!tokenizer_flag(&from->reader, json, "normalized", false, &from->normalized[i])) return false;
        if (id < 0) {
            json_integer(json_get(json, "id"), &id);
            if (id != next++) return refuse(from, "the id is not the next behind the vocabulary, of", text);
        }
        TokenType type = token->special ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
        if (ids[i] < 0 && !place_token(from, id, text, type)) return false;
        from->types[id] = (unsigned char)type;
        if (token->special) from->in_model[id] = false;
        token->id = (int32_t)id;
        pipeline->n_added++;
    }
    return true;
}

/* Whether an added token lies behind the embedding's rows. */
static bool is_behind_rows(const VocabReader *from, const Json *token) {
    int64_t id;
    return from->n_rows > 0 && json_integer(json_get(token, "id"), &id) && id >= (int64_t)from->n_rows;
}

/* count_ids refuses a content that is no text. */
static String content_of(const Json *added, size_t i) {
    const String text = json_string(json_get(json_item(added, i), "content"));
    return text.data ? text : (String){"", 0};
}

/* Drops the last added tokens, as many as have no row and are not the model's own: Gemma 3's image token, in its models of text. */
static bool drop_rowless(const VocabReader *from, const Json *vocab, Json *added) {
    uint32_t first = added->n;
    while (first > 0 && is_behind_rows(from, json_item(added, first - 1))) first--;
    const size_t n = added->n - first;
    String *texts = n ? malloc(n * sizeof *texts) : NULL;
    bool *own = n ? calloc(n, sizeof *own) : NULL, ok = (texts && own) || n == 0;
    for (size_t i = 0; ok && i < n; i++) texts[i] = content_of(added, first + i);
    if (ok && n) qsort(texts, n, sizeof *texts, string_order);
    for (size_t i = 0; ok && n && i < vocab->n; i++) {
        String text = {0};
        int64_t id;
        if (!model_token(from, vocab, i, &text, &id)) break; /* which is told later */
        const String *found = bsearch(&text, texts, n, sizeof *texts, string_order);
        if (found) own[found - texts] = true;
    }
    for (bool goes = ok; goes && added->n > first;) {
        const String text = content_of(added, added->n - 1),
                     *found = bsearch(&text, texts, n, sizeof *texts, string_order);
        goes = !own[found - texts];
        added->n -= goes;
    }
    free(texts);
    free(own);
    return ok || tokenizer_no_memory(&from->reader);
}

static bool read_tokens(VocabReader *from) {
    static const Json none = {.kind = JSON_ARRAY};
    const Json *vocab = json_get(from->model, "vocab"), *added = json_get(from->root, "added_tokens");
    if (!vocab || (vocab->kind != JSON_OBJECT && vocab->kind != JSON_ARRAY))
        return refuse(from, "missing in the model:", string_from("vocab"));
    if (!added || added->kind == JSON_NULL) added = &none;
    if (added->kind != JSON_ARRAY) return refuse(from, "not a list:", string_from("added_tokens"));
    Json embedded = *added;
    if (!drop_rowless(from, vocab, &embedded)) return false;
    added = &embedded;
    if (!count_ids(from, vocab, added)) return false;
    size_t most = from->rows_are_said ? 4 * ((size_t)vocab->n + added->n) + 4096 : SIZE_MAX; /* as above */
    if (from->n < from->n_rows && from->n_rows <= most) from->n = from->n_rows;
    if (!builder_room(from, added->n)) return false;
    int64_t *ids = malloc((added->n + 1) * sizeof *ids); /* −1: not in the model */
    bool ok = ids || tokenizer_no_memory(&from->reader);
    for (size_t i = 0; ok && i < added->n; i++) {
        String text = json_string(json_get(json_item(added, i), "content"));
        ids[i] = -1;
        ok = text.n ? prefixes_add(&from->contents, text, (int32_t)i) || tokenizer_no_memory(&from->reader)
                    : refuse(from, "an added token is empty:", string_from("content"));
    }
    if (ok) prefixes_sort(&from->contents);
    ok = ok &&
         (from->contents.n == added->n ||
          refuse(from, "two tokens have the same content:", string_from("added_tokens"))) &&
         place_model(from, vocab, ids) && read_added(from, added, ids, vocab->n);
    free(ids);
    return ok;
}

/* The text as the Vocab holds it, with STRING_PADDING behind it. */
static bool held(VocabReader *from, String *text, TextBuffer *scratch) {
    if (!from->vocab->swaps_spaces) return true;
    bool ok = swap_spaces(*text, scratch) && text_append(scratch, "\0\0\0\0\0\0\0\0", STRING_PADDING);
    if (ok) *text = (String){scratch->data, scratch->n - STRING_PADDING};
    return ok || tokenizer_no_memory(&from->reader);
}

static bool add_tokens(VocabReader *from, size_t n_merges) {
    size_t n_bytes = 0;
    for (size_t id = 0; id < from->n; id++) {
        String text = from->texts[id];
        n_bytes += text.n;
        for (size_t i = 0; from->vocab->swaps_spaces && i < text.n; i++)
            n_bytes += 2 * (size_t)(text.data[i] == ' ');
    }
    if (!vocab_begin(&from->builder, from->n, n_bytes, n_merges)) return false;
    for (size_t id = 0; id < from->n; id++) {
        String text = from->texts[id];
        if (!text.data) text = (String){"\0\0\0\0\0\0\0", 0};
        from->builder.apart = !from->in_model[id];
        if (!held(from, &text, &from->scratch[0]) || !vocab_add_token(&from->builder, text, TOKEN_NORMAL))
            return false;
    }
    return true;
}

/* Whether it is a special token, which text does not become by merging. */
static bool is_special(const VocabReader *from, String text) {
    int32_t found = find_added(from, text);
    return found >= 0 && from->reader.pipeline->added[found].special;
}

/* "left right", or a list of the two. */
static bool add_merge(VocabReader *from, const Json *merge) {
    String left = json_string(merge), right = {0};
    if (merge->kind == JSON_ARRAY && merge->n == 2) {
        left = json_string(json_item(merge, 0)), right = json_string(json_item(merge, 1));
    } else {
        const char *space = left.n ? memchr(left.data, ' ', left.n) : NULL;
        if (space) {
            right = (String){space + 1, left.n - (size_t)(space + 1 - left.data)};
            left.n = (size_t)(space - left.data);
        }
        if (right.n && memchr(right.data, ' ', right.n)) right.n = 0;
    }
    if (left.n == 0 || right.n == 0)
        return refuse(from, "not two parts with a space between:", json_string(merge));
    TextBuffer *whole = &from->scratch[0];
    whole->n = 0;
    if (!text_append(whole, left.data, left.n) || !text_append(whole, right.data, right.n))
        return tokenizer_no_memory(&from->reader);
    if (is_special(from, (String){whole->data, whole->n}) || is_special(from, left) ||
        is_special(from, right))
        return true;
    return held(from, &left, &from->scratch[0]) && held(from, &right, &from->scratch[1]) &&
           vocab_add_merge(&from->builder, left, right);
}

/* An option of BPE that no model of these families has: it must be null, 0 or "". */
static bool is_unset(const VocabReader *from, const char *key) {
    const Json *value = json_get(from->model, key);
    return !value || value->kind == JSON_NULL || (value->kind == JSON_NUMBER && value->number == 0) ||
           (value->kind == JSON_TEXT && value->n == 0) ||
           refuse(from, "an option of BPE that is not supported:", string_from(key));
}

static bool read_bpe(VocabReader *from) {
    Vocab *vocab = from->vocab;
    const Json *merges = json_get(from->model, "merges");
    vocab->kind = VOCAB_BPE;
    if (!is_unset(from, "dropout") || !is_unset(from, "continuing_subword_prefix") ||
        !is_unset(from, "end_of_word_suffix") ||
        !tokenizer_flag(&from->reader, from->model, "fuse_unk", false, &vocab->fuses_unknown) ||
        !tokenizer_flag(&from->reader, from->model, "ignore_merges", false, &vocab->whole_words))
        return false;
    if (!merges || merges->kind != JSON_ARRAY)
        return refuse(from, "missing in the model:", string_from("merges"));
    if (json_get(from->model, "vocab")->kind != JSON_OBJECT)
        return refuse(from, "not an object:", string_from("vocab"));
    if (!add_tokens(from, merges->n)) return false;
    for (size_t i = 0; i < merges->n; i++) {
        const Json *merge = json_item(merges, i);
        if (string_begins(json_string(merge), "#version")) continue;
        if (!add_merge(from, merge)) return false;
    }
    return true;
}

static bool read_unigram(VocabReader *from) {
    Vocab *vocab = from->vocab;
    const Json *tokens = json_get(from->model, "vocab");
    double least = INFINITY;
    vocab->kind = VOCAB_UNIGRAM;
    if (tokens->kind != JSON_ARRAY) return refuse(from, "not a list:", string_from("vocab"));
    if (!add_tokens(from, 0)) return false;
    Unigram *unigram = vocab->unigram = calloc(1, sizeof *unigram);
    if (!unigram || !(unigram->scores = malloc(from->n * sizeof *unigram->scores)))
        return tokenizer_no_memory(&from->reader);
    for (size_t id = 0; id < tokens->n; id++) {
        String text = vocab_text(vocab, (int32_t)id);
        double score = unigram->scores[id] = json_item(json_item(tokens, id), 1)->number;
        if (score < least) least = score;
        if (text.n > UNIGRAM_MAX_PIECE) return refuse(from, "a piece of more than 512 bytes:", text);
        if (from->in_model[id] && text.n && !prefixes_add(&unigram->pieces, text, (int32_t)id))
            return tokenizer_no_memory(&from->reader);
    }
    size_t n = unigram->pieces.n;
    unigram->unknown = -1;
    prefixes_sort(&unigram->pieces);
    if (unigram->pieces.n < n) return refuse(from, "two pieces are the same:", string_from("vocab"));
    unigram->unknown_score = least - 10; /* as SentencePiece has it */
    return true;
}

/* The token for what is unknown: BPE names it, Unigram gives its id. */
static bool read_unknown(VocabReader *from) {
    const Json *name = json_get(from->model, "unk_token"), *number = json_get(from->model, "unk_id");
    int64_t id = -1;
    from->vocab->unknown = -1;
    if (from->vocab->kind == VOCAB_UNIGRAM) {
        if (!number || number->kind == JSON_NULL) return true;
        if (!json_integer(number, &id) || id < 0 || id >= (int64_t)json_get(from->model, "vocab")->n)
            return refuse(from, "not the id of a token:", string_from("unk_id"));
        from->vocab->unigram->unknown = from->vocab->unknown = (int32_t)id;
        return true;
    }
    if (!name || name->kind == JSON_NULL) return true;
    String text = json_string(name);
    for (size_t i = 0; i < from->n && id < 0; i++)
        if (from->texts[i].data && text.n && from->texts[i].n == text.n &&
            memcmp(from->texts[i].data, text.data, text.n) == 0)
            id = (int64_t)i;
    if (id < 0) return refuse(from, "not in the vocabulary: unk_token", text);
    from->vocab->unknown = (int32_t)id;
    return true;
}

/* BPE's byte_fallback: a character that is no token becomes those of its bytes, <0x00> to <0xFF>. */
static bool read_byte_fallback(VocabReader *from) {
    Vocab *vocab = from->vocab;
    bool falls_back = false;
    if (!tokenizer_flag(&from->reader, from->model, "byte_fallback", false, &falls_back)) return false;
    if (!falls_back || vocab->byte_level) return true;
    for (size_t id = 0; id < from->n; id++) {
        int byte = from->in_model[id] ? named_byte(from->texts[id], false) : -1;
        if (byte >= 0) vocab->byte_ids[byte] = (int32_t)id;
    }
    if (vocab->unigram) vocab->unigram->byte_ids = vocab->byte_ids;
    return true;
}

/* Keys of tokenizer.ggml.… say who is BOS and EOS and whether they are put; without them, the post-processor does. */
static bool read_ends(VocabReader *from, const Checkpoint *checkpoint) {
    Vocab *vocab = from->vocab;
    Ends ends;
    if (!tokenizer_read_ends(&from->reader, json_get(from->root, "post_processor"), from->n, &ends))
        return false;
    vocab->bos = (int32_t)ends.before;
    vocab->eos = (int32_t)ends.after;
    vocab->eot = -1;
    vocab->add_bos = ends.before >= 0;
    vocab->add_eos = ends.after >= 0;
    if (!vocab_read_roles(vocab, checkpoint, from->reader.error)) return false;
    bool other_bos = !checkpoint_has(checkpoint, "tokenizer.ggml.add_bos_token") && ends.before >= 0 &&
                     vocab->bos != ends.before;
    bool other_eos = !checkpoint_has(checkpoint, "tokenizer.ggml.add_eos_token") && ends.after >= 0 &&
                     vocab->eos != ends.after;
    return (!other_bos && !other_eos) ||
           refuse(from,
                  "it puts another token beside the text than BOS or EOS:", string_from("post_processor"));
}

/* The text that a token becomes text from: of an added one that is normalised, the normalised text. */
static bool read_decoder(VocabReader *from) {
    Pipeline *pipeline = from->reader.pipeline;
    for (size_t i = 0; i < pipeline->normalized.n; i++) {
        const Prefix *item = &pipeline->normalized.items[i];
        from->texts[pipeline->added[item->id].id] = item->text;
    }
    return tokenizer_read_decoder(&from->reader, json_get(from->root, "decoder"), from->vocab, from->texts);
}

/*
 * The type of the model. Files of 2020 (openai-community/gpt2) name none: then it is the first that has all its members,
 * in the library's order.
 */
static String model_type(const VocabReader *from) {
    static const struct {
        const char *type;
        JsonKind vocab;
        const char *others[3];
    } untagged[] = {
        {"BPE", JSON_OBJECT, {"merges"}},
        {"WordPiece", JSON_OBJECT, {"unk_token", "continuing_subword_prefix", "max_input_chars_per_word"}},
        {"WordLevel", JSON_OBJECT, {"unk_token"}},
        {"Unigram", JSON_ARRAY, {NULL}},
    };
    const JsonKind vocab = json_get(from->model, "vocab")->kind;
    if (json_get(from->model, "type")) return tokenizer_type(from->model);
    for (size_t i = 0; i < sizeof untagged / sizeof *untagged; i++) {
        bool fits = vocab == untagged[i].vocab;
        for (size_t k = 0; k < 3 && untagged[i].others[k]; k++)
            fits = fits && json_get(from->model, untagged[i].others[k]);
        if (fits) return string_from(untagged[i].type);
    }
    return string_from("BPE"); /* which says what is missing */
}

static bool read_model(VocabReader *from) {
    String type = model_type(from);
    from->vocab->verbatim = !from->vocab->byte_level;
    if (string_equals(type, "Unigram")) return read_unigram(from);
    if (!string_equals(type, "BPE")) return refuse(from, "a model of a type that is not supported:", type);
    from->vocab->swaps_spaces = from->reader.spaces && !from->vocab->byte_level;
    return read_bpe(from);
}

static bool read_all(VocabReader *from, const Checkpoint *checkpoint) {
    Pipeline *pipeline = from->reader.pipeline;
    Vocab *vocab = from->vocab;
    if (!from->model) return refuse(from, "missing:", string_from("model"));
    if (!tokenizer_read_normalizer(&from->reader, json_get(from->root, "normalizer")) ||
        !tokenizer_read_pre_tokenizer(&from->reader, json_get(from->root, "pre_tokenizer")))
        return false;
    vocab->byte_level = from->reader.byte_level;
    if (pipeline->n_cuts && pipeline->cuts[pipeline->n_cuts - 1].kind == CUT_SPELL)
        pipeline->n_cuts--; /* what would be spelt last is given as bytes */
    else
        pipeline->spelt = vocab->byte_level;
    if (!read_tokens(from) || !vocab_end(&from->builder, read_model(from))) return false;
    memcpy(vocab->types, from->types, from->n);
    return read_unknown(from) && read_byte_fallback(from) &&
           tokenizer_sort_added(&from->reader, from->added, from->normalized) &&
           read_ends(from, checkpoint) && read_decoder(from);
}

static const char *name_of(const Vocab *vocab) {
    return vocab->unigram      ? "Unigram (tokenizer.json)"
           : vocab->byte_level ? "byte-level BPE (tokenizer.json)"
                               : "BPE (tokenizer.json)";
}

bool vocab_load_json(Vocab *vocab, const Checkpoint *checkpoint, Error *error) {
    VocabReader from = {.reader = {.path = checkpoint_path(checkpoint), .error = error}, .vocab = vocab};
    String text = {0};
    Error where = {{0}};
    *vocab = (Vocab){.cut = pieces_json_cut, .unknown_bytes = true, .control_opens = true};
    const Tensor *embedding = checkpoint_find(checkpoint, "token_embd.weight");
    uint64_t n_rows = embedding ? embedding->dims[1] : 0;
    if (!embedding && !checkpoint_u64(checkpoint, "attn.embedding_rows", &n_rows, error)) return false;
    if (n_rows < 1 << 24) from.n_rows = (size_t)n_rows, from.rows_are_said = !embedding;
    if (!checkpoint_string(checkpoint, "tokenizer.huggingface.json", &text, error)) return false;
    from.builder =
        (VocabBuilder){vocab, error, from.reader.path, "tokenizer.json: vocab", "tokenizer.json: merges"};
    from.builder.strict = true;
    from.reader.pipeline = vocab->pipeline = calloc(1, sizeof *vocab->pipeline);
    if (!vocab->pipeline) return tokenizer_no_memory(&from.reader);
    Json *root = json_parse(text.data, text.n, &where);
    from.root = root;
    from.model = json_get(root, "model");
    bool ok = root ? read_all(&from, checkpoint)
                   : error_set(error, "%s: tokenizer.json: %s", from.reader.path, where.message);
    strcpy(vocab->name, name_of(vocab));
    json_free(root);
    prefixes_free(&from.contents);
    free(from.texts);
    free(from.types);
    free(from.in_model);
    free(from.added);
    free(from.normalized);
    free(from.scratch[0].data);
    free(from.scratch[1].data);
    return ok;
}
