/* The post-processor of a tokenizer.json puts tokens beside a text: one in front of it, and one behind. */
#include "vocab/pipeline_json.h"

#include <string.h>

typedef struct EndsReader {
    const TokenizerReader *reader;
    size_t n; /* ids */
    Ends ends;
} EndsReader;

static bool refuse(const EndsReader *from, const char *what, String name) {
    return tokenizer_refuse(from->reader, what, name);
}

static bool set_end(const EndsReader *from, int64_t *end, const Json *id) {
    if (*end >= 0)
        return refuse(from, "more than one token put beside the text:", string_from("post_processor"));
    return (json_integer(id, end) && *end >= 0 && (size_t)*end < from->n) ||
           refuse(from, "an id that is no token:", string_from("post_processor"));
}

static bool read_template(EndsReader *from, const Json *json) {
    const Json *single = json_get(json, "single"), *tokens = json_get(json, "special_tokens");
    bool is_behind = false;
    if (!single || single->kind != JSON_ARRAY) return refuse(from, "not a list:", string_from("single"));
    for (size_t i = 0; i < single->n; i++) {
        const Json *special = json_get(json_item(single, i), "SpecialToken"), *name = json_get(special, "id");
        const Json *ids = NULL;
        if (!special) {
            is_behind = true;
            continue;
        }
        for (size_t k = 0; tokens && tokens->kind == JSON_OBJECT && name && k < tokens->n; k++)
            if (name->kind == JSON_TEXT && string_compare(json_key(tokens, k), json_string(name)) == 0)
                ids = json_get(json_item(tokens, k), "ids");
        if (!ids || ids->kind != JSON_ARRAY || ids->n != 1)
            return refuse(from, "not one token, in the post_processor:", json_string(name));
        if (!set_end(from, is_behind ? &from->ends.after : &from->ends.before, json_item(ids, 0)))
            return false;
    }
    return is_behind || refuse(from, "no text in the template:", string_from("post_processor"));
}

static bool read_part(EndsReader *from, const Json *json) {
    String type = tokenizer_type(json);
    if (!json || json->kind == JSON_NULL || string_equals(type, "ByteLevel")) return true;
    if (string_equals(type, "TemplateProcessing")) return read_template(from, json);
    if (string_equals(type, "RobertaProcessing") || string_equals(type, "BertProcessing")) {
        const Json *cls = json_get(json, "cls"), *sep = json_get(json, "sep");
        if (!cls || cls->kind != JSON_ARRAY || cls->n != 2 || !sep || sep->kind != JSON_ARRAY || sep->n != 2)
            return refuse(from, "without cls and sep:", type);
        return set_end(from, &from->ends.before, json_item(cls, 1)) &&
               set_end(from, &from->ends.after, json_item(sep, 1));
    }
    if (!string_equals(type, "Sequence"))
        return refuse(from, "a post_processor of a type that is not known:", type);
    const Json *list = json_get(json, "processors");
    bool ok = list && list->kind == JSON_ARRAY;
    if (!ok) return refuse(from, "not a list:", string_from("processors"));
    for (size_t i = 0; ok && i < list->n; i++) ok = read_part(from, json_item(list, i));
    return ok;
}

bool tokenizer_read_ends(const TokenizerReader *reader, const Json *json, size_t n, Ends *ends) {
    EndsReader from = {reader, n, {-1, -1}};
    bool ok = read_part(&from, json);
    *ends = from.ends;
    return ok;
}
