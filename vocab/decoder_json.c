/*
 * The decoder of a tokenizer.json. Its steps for each token are taken here, once; what it does to the joined text can only
 * be stripping characters from its start.
 */
#include "base/utf8.h"
#include "vocab/pipeline_json.h"
#include "vocab/spelling.h"

#include <stdlib.h>
#include <string.h>

typedef enum DecodeKind { DECODE_REPLACE, DECODE_BYTES, DECODE_STRIP, DECODE_UNSPELL } DecodeKind;

/* The steps of a decoder. */
typedef struct Decode {
    DecodeKind kind;
    Needle needle;
    String text;  /* what replaces; the character that is stripped */
    int64_t most; /* of these */
} Decode;

typedef struct Decoder {
    TokenizerReader *reader;
    Vocab *vocab;
    Decode steps[PIPELINE_STEPS];
    size_t n;
    bool fused; /* what follows is done to the joined text */
} Decoder;

static bool refuse(const Decoder *decoder, const char *what, String name) {
    return tokenizer_refuse(decoder->reader, what, name);
}

static Decode *add_step(Decoder *decoder, DecodeKind kind, String type) {
    if (decoder->fused || decoder->n == PIPELINE_STEPS) {
        refuse(decoder,
               decoder->fused ? "behind Fuse, in the decoder:" : "more than 32 steps in the decoder:", type);
        return NULL;
    }
    decoder->steps[decoder->n].kind = kind;
    return &decoder->steps[decoder->n++];
}

static bool keep(const Decoder *decoder, const Json *text, String *kept) {
    if (!text || text->kind != JSON_TEXT)
        return refuse(decoder, "not a text, in the decoder:", json_string(text));
    if (text->n > PIPELINE_TEXT)
        return refuse(decoder, "longer than 256 bytes, in the decoder:", json_string(text));
    *kept = tokenizer_keep(decoder->reader, json_string(text));
    return kept->data || tokenizer_no_memory(decoder->reader);
}

static bool read_strip(Decoder *decoder, const Json *json, String type) {
    int64_t start, stop;
    String content = json_string(json_get(json, "content"));
    uint32_t c;
    if (!json_integer(json_get(json, "start"), &start) || !json_integer(json_get(json, "stop"), &stop) ||
        start < 0)
        return refuse(decoder, "without start and stop, in the decoder:", type);
    if (stop != 0) return refuse(decoder, "a stop other than 0 is not supported, in the decoder:", type);
    if (content.n == 0 || content.n > sizeof decoder->vocab->stripped ||
        utf8_decode(content.data, content.n, &c) != content.n)
        return refuse(decoder, "not one character, in the decoder:", content);
    if (decoder->fused) {
        if (decoder->vocab->n_strips) return refuse(decoder, "twice, in the decoder:", type);
        memcpy(decoder->vocab->stripped, content.data, content.n);
        decoder->vocab->stripped_length = content.n;
        decoder->vocab->n_strips = (size_t)start;
        return true;
    }
    Decode *step = add_step(decoder, DECODE_STRIP, type);
    if (!step) return false;
    step->most = start;
    return keep(decoder, json_get(json, "content"), &step->text);
}

static bool read_metaspace(Decoder *decoder, const Json *json, String type) {
    bool prefix = true;
    const Json *replacement = json_get(json, "replacement"), *scheme = json_get(json, "prepend_scheme");
    Decode *step = add_step(decoder, DECODE_REPLACE, type);
    if (!step || !keep(decoder, replacement, &step->needle.text) ||
        !tokenizer_flag(decoder->reader, json, "add_prefix_space", false, &prefix))
        return false;
    step->text = string_from(" ");
    decoder->vocab->bare_first = prefix && !json_equals(scheme, "never");
    return true;
}

static bool read_steps(Decoder *decoder, const Json *json) {
    String type = tokenizer_type(json);
    Decode *step;
    if (string_equals(type, "ByteLevel")) return add_step(decoder, DECODE_UNSPELL, type);
    if (string_equals(type, "ByteFallback")) return add_step(decoder, DECODE_BYTES, type);
    if (string_equals(type, "Metaspace")) return read_metaspace(decoder, json, type);
    if (string_equals(type, "Strip")) return read_strip(decoder, json, type);
    if (string_equals(type, "Fuse")) return decoder->fused = true;
    if (string_equals(type, "Replace"))
        return (step = add_step(decoder, DECODE_REPLACE, type)) &&
               tokenizer_needle(decoder->reader, json_get(json, "pattern"), &step->needle) &&
               keep(decoder, json_get(json, "content"), &step->text);
    if (!string_equals(type, "Sequence"))
        return refuse(decoder, "a decoder of a type that is not known:", type);
    const Json *list = json_get(json, "decoders");
    bool ok = list && list->kind == JSON_ARRAY;
    if (!ok) return refuse(decoder, "a list is missing in the decoder:", type);
    for (size_t i = 0; ok && i < list->n; i++) ok = read_steps(decoder, json_item(list, i));
    return ok;
}

/* Appends what the step makes of a token's text. */
static bool decode(const Decode *step, String text, TextBuffer *out) {
    size_t start = 0;
    int byte;
    switch (step->kind) {
    case DECODE_REPLACE: return pipeline_replace(&step->needle, step->text, text, out);
    case DECODE_BYTES:
        if ((byte = named_byte(text, true)) < 0) return text_append(out, text.data, text.n);
        return text_append(out, &(char){(char)byte}, 1);
    case DECODE_STRIP:
        for (int64_t i = 0; i < step->most && text.n - start >= step->text.n &&
                            memcmp(text.data + start, step->text.data, step->text.n) == 0;
             i++)
            start += step->text.n;
        return text_append(out, text.data + start, text.n - start);
    case DECODE_UNSPELL: return append_unspelt(text, out);
    }
    return false;
}

/* Honest decoders shorten tokens. A hostile one may make their texts so many times longer, and a little more; each step as much. */
enum { SHOWN_OF_A_BYTE = 16, SHOWN_BESIDE = 1 << 16 };

static bool show_tokens(const Decoder *decoder, const String *texts, TextBuffer buffers[2]) {
    Vocab *vocab = decoder->vocab;
    size_t n_bytes = 0;
    for (size_t id = 0; id < vocab->n; id++) n_bytes += texts[id].n;
    TextBuffer shown = {.most = SHOWN_OF_A_BYTE * n_bytes + SHOWN_BESIDE};
    size_t left = PIPELINE_STEPS * shown.most;
    bool ok = (vocab->shown_starts = malloc((vocab->n + 1) * sizeof *vocab->shown_starts)) != NULL;
    for (size_t id = 0; ok && id < vocab->n; id++) {
        String text = texts[id].n ? texts[id] : (String){"", 0};
        vocab->shown_starts[id] = (uint32_t)shown.n;
        for (size_t i = 0; ok && i < decoder->n; i++) {
            TextBuffer *out = &buffers[i % 2];
            out->n = 0, out->most = left < shown.most ? left : shown.most;
            ok = left > 0 && decode(&decoder->steps[i], text, out);
            left -= out->n;
            text = text_string(out);
        }
        ok = ok && text_append(&shown, text.data, text.n) && shown.n <= UINT32_MAX;
        vocab->shown_starts[id + 1] = (uint32_t)shown.n;
    }
    vocab->shown = shown.data;
    return ok ||
           refuse(decoder, "not enough memory for what is made of tokens by the", string_from("decoder"));
}

bool tokenizer_read_decoder(TokenizerReader *reader, const Json *json, Vocab *vocab, const String *texts) {
    Decoder decoder = {.reader = reader, .vocab = vocab};
    TextBuffer buffers[2] = {{0}};
    if (!json || json->kind == JSON_NULL) return refuse(&decoder, "missing:", string_from("decoder"));
    bool ok = read_steps(&decoder, json) && show_tokens(&decoder, texts, buffers);
    for (size_t i = 0; i < decoder.n; i++) pattern_free(decoder.steps[i].needle.pattern);
    free(buffers[0].data);
    free(buffers[1].data);
    return ok;
}
