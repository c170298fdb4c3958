#include "base/utf8.h"
#include "vocab.h"

#include <inttypes.h>
#include <stdio.h>

static void put_text(FolderWriter *writer, const char *text) { put(writer, text, strlen(text)); }

/* A text as it stands between the quotes of JSON. */
static void put_escaped(FolderWriter *writer, String text) {
    char escape[8];
    size_t kept = 0;
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c >= ' ' && c != '"' && c != '\\') continue;
        put(writer, text.data + kept, i - kept);
        snprintf(escape, sizeof escape, "\\u%04x", c);
        put_text(writer, escape);
        kept = i + 1;
    }
    put(writer, text.data + kept, text.n - kept);
}

static void put_added(FolderWriter *writer, const Added *token) {
    static const char *const flags[] = {"single_word", "lstrip", "rstrip", "normalized"};
    char id[48];
    snprintf(id, sizeof id, "{\"id\":%" PRId64 ",\"content\":\"", token->id);
    put_text(writer, id);
    put_escaped(writer, token->text);
    put_text(writer, token->special ? "\",\"special\":true" : "\",\"special\":false");
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const Json *flag = json_get(token->flags, flags[i]);
        if (!flag || flag->kind != JSON_BOOL) continue;
        put_text(writer, ",\"");
        put_text(writer, flags[i]);
        put_text(writer, flag->boolean ? "\":true" : "\":false");
    }
    put_text(writer, "}");
}

/* Each line of merges.txt is two parts with a space between; the first may tell the version. */
static bool put_merges(Folder *folder, FolderWriter *writer) {
    const char *at = folder->vocab->merges, *end = at + folder->vocab->n_merges;
    bool any = false;
    for (size_t line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        String merge = {at, (size_t)((stop ? stop : end) - at)};
        at = stop ? stop + 1 : end;
        if (merge.n && merge.data[merge.n - 1] == '\r') merge.n--;
        if (merge.n == 0 || (line == 1 && string_begins(merge, "#version"))) continue;
        const char *space = memchr(merge.data, ' ', merge.n), *last = merge.data + merge.n - 1;
        if (!space || space == merge.data || space == last ||
            memchr(space + 1, ' ', (size_t)(last - space)) || !utf8_is_valid(merge))
            return builder_fail(&folder->builder,
                                "merges.txt: line %zu: '%.*s' is not two parts with a space between", line,
                                string_shown(merge), merge.data);
        put_text(writer, any ? ",\"" : "\"");
        put_escaped(writer, merge);
        put_text(writer, "\"");
        any = true;
    }
    return true;
}

static bool is_qwen(const Folder *folder) {
    String class = json_string(json_get(folder->tokenizer_config, "tokenizer_class"));
    const char *name = "Qwen2Tokenizer";
    if (!class.n) class = json_string(json_get(folder->config, "model_type")), name = "qwen";
    return string_begins(class, name);
}

static bool put_tokenizer(Folder *folder, FolderWriter *writer) {
    const FolderVocab *vocab = folder->vocab;
    const Json *space = json_get(folder->tokenizer_config, "add_prefix_space");
    put_text(writer, "{\"added_tokens\":[");
    for (size_t i = 0; i < vocab->n_added; i++) {
        if (i) put_text(writer, ",");
        put_added(writer, &vocab->added[i]);
    }
    put_text(writer, "],\"decoder\":{\"type\":\"ByteLevel\"},");
    if (is_qwen(folder))
        put_text(
            writer,
            "\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
            "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}"
            "\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+"
            "(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},"
            "{\"type\":\"ByteLevel\",\"use_regex\":false,\"add_prefix_space\":");
    else
        put_text(writer,
                 "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"use_regex\":true,\"add_prefix_space\":");
    put_text(writer, space && space->kind == JSON_BOOL && space->boolean ? "true}" : "false}");
    if (is_qwen(folder)) put_text(writer, "]}");
    put_text(writer, ",\"model\":{\"type\":\"BPE\",\"vocab\":");
    put(writer, vocab->text, vocab->n_text);
    put_text(writer, ",\"merges\":[");
    bool ok = put_merges(folder, writer);
    put_text(writer, "]}}");
    return ok;
}

void folder_vocab_to_json(Folder *folder) {
    FolderWriter count = {NULL, 0}, writer = {NULL, sizeof(uint64_t)};
    if (!put_tokenizer(folder, &count)) return;
    uint64_t n = count.n;
    writer.out = builder_room(&folder->builder, sizeof n + count.n + STRING_PADDING);
    if (!writer.out) return;
    memcpy(writer.out, &n, sizeof n);
    put_tokenizer(folder, &writer);
    builder_entry(&folder->builder, "tokenizer.huggingface.json",
                  (Entry){.type = VALUE_STRING, .n = n, .data = (const unsigned char *)writer.out});
}
