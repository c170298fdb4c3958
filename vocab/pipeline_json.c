#include "vocab/pipeline_json.h"

#include <stdlib.h>
#include <string.h>

/* GPT-2's pattern (Radford et al. 2019, encoder.py), which ByteLevel cuts by. */
static const char byte_level_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static const char space[] = "\xe2\x96\x81"; /* ▁ */

bool tokenizer_refuse(const TokenizerReader *reader, const char *what, String name) {
    return error_set(reader->error, "%s: tokenizer.json: %s '%.*s'", reader->path, what, string_shown(name),
                     name.data);
}

bool tokenizer_no_memory(const TokenizerReader *reader) {
    return error_set(reader->error, "%s: not enough memory for the vocabulary", reader->path);
}

static bool is_there(const Json *json) { return json && json->kind != JSON_NULL; }

bool tokenizer_flag(const TokenizerReader *reader, const Json *json, const char *key, bool must,
                    bool *value) {
    const Json *flag = json_get(json, key);
    if (!is_there(flag) && !must) return true;
    if (!flag || flag->kind != JSON_BOOL)
        return tokenizer_refuse(reader, "not true or false:", string_from(key));
    *value = flag->boolean;
    return true;
}

String tokenizer_type(const Json *json) { return json_string(json_get(json, "type")); }

String tokenizer_keep(const TokenizerReader *reader, String text) {
    Pipeline *pipeline = reader->pipeline;
    if (pipeline->n_owned == pipeline->owned_capacity) {
        char **owned = grow(pipeline->owned, sizeof *owned, pipeline->n_owned + 1, &pipeline->owned_capacity);
        if (!owned) return (String){0};
        pipeline->owned = owned;
    }
    char *copy = malloc(text.n + 1);
    if (!copy) return (String){0};
    memcpy(copy, text.data, text.n);
    pipeline->owned[pipeline->n_owned++] = copy;
    return (String){copy, text.n};
}

/* Keeps the text that is the member `key`, of at most PIPELINE_TEXT bytes. */
static bool read_text(const TokenizerReader *reader, const Json *json, const char *key, String *text) {
    const Json *value = json_get(json, key);
    if (!value || value->kind != JSON_TEXT) return tokenizer_refuse(reader, "not a text:", string_from(key));
    if (value->n > PIPELINE_TEXT)
        return tokenizer_refuse(reader, "longer than 256 bytes:", json_string(value));
    *text = tokenizer_keep(reader, json_string(value));
    return text->data || tokenizer_no_memory(reader);
}

static bool compile(const TokenizerReader *reader, String source, Needle *needle) {
    Error error = {{0}};
    needle->pattern = pattern_new(source, &error);
    return needle->pattern || tokenizer_refuse(reader, error.message, source);
}

bool tokenizer_needle(const TokenizerReader *reader, const Json *pattern, Needle *needle) {
    const Json *regex = json_get(pattern, "Regex");
    if (!regex) return read_text(reader, pattern, "String", &needle->text);
    return compile(reader, json_string(regex), needle);
}

static Rewrite *add_rewrite(TokenizerReader *reader, RewriteKind kind) {
    Pipeline *pipeline = reader->pipeline;
    if (pipeline->n_rewrites == PIPELINE_STEPS) {
        tokenizer_refuse(reader, "more steps than 32:", string_from("normalizer"));
        return NULL;
    }
    Rewrite *step = &pipeline->rewrites[pipeline->n_rewrites++];
    step->kind = kind;
    return step;
}

/* A step that replaces what matches the pattern by `text`. */
static bool add_replacement(TokenizerReader *reader, const char *pattern, const char *text) {
    Rewrite *step = add_rewrite(reader, REWRITE_REPLACE);
    if (!step || !compile(reader, string_from(pattern), &step->needle)) return false;
    step->text = tokenizer_keep(reader, string_from(text));
    return step->text.data || tokenizer_no_memory(reader);
}

/* SentencePiece's nmt rule: some controls go, other white space and invisible characters become spaces. */
static bool add_nmt(TokenizerReader *reader) {
    return add_replacement(reader, "[\\x01-\\x08\\x0b\\x0e-\\x1f\\x7f\\x{8f}\\x{9f}]", "") &&
           add_replacement(
               reader,
               "[\\t\\n\\f\\r\\x{1680}\\x{200b}-\\x{200f}\\x{2028}\\x{2029}\\x{2581}\\x{feff}\\x{fffd}]",
               " ");
}

static bool read_replace(TokenizerReader *reader, const Json *json) {
    Rewrite *step = add_rewrite(reader, REWRITE_REPLACE);
    if (!step || !tokenizer_needle(reader, json_get(json, "pattern"), &step->needle) ||
        !read_text(reader, json, "content", &step->text))
        return false;
    if (!step->needle.pattern && string_equals(step->needle.text, " ") && string_equals(step->text, space))
        reader->spaces = true;
    return true;
}

static bool read_strip(TokenizerReader *reader, const Json *json) {
    Rewrite *step = add_rewrite(reader, REWRITE_STRIP);
    return step && tokenizer_flag(reader, json, "strip_left", true, &step->left) &&
           tokenizer_flag(reader, json, "strip_right", true, &step->right);
}

bool tokenizer_read_normalizer(TokenizerReader *reader, const Json *json) {
    static const struct {
        const char *type;
        RewriteKind kind;
        NormalForm form;
    } plain[] = {{"NFC", REWRITE_FORM, FORM_NFC},
                 {"NFD", REWRITE_FORM, FORM_NFD},
                 {"NFKC", REWRITE_FORM, FORM_NFKC},
                 {"NFKD", REWRITE_FORM, FORM_NFKD},
                 {"Lowercase", REWRITE_LOWER, FORM_NFC}};
    String type = tokenizer_type(json);
    Rewrite *step;
    if (!is_there(json)) return true;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        Pipeline *pipeline = reader->pipeline;
        if (!string_equals(type, plain[i].type)) continue;
        if (!(step = add_rewrite(reader, plain[i].kind))) return false;
        step->form = plain[i].form;
        if (!pipeline->mappings) pipeline->mappings = mappings_new();
        return pipeline->mappings || tokenizer_no_memory(reader);
    }
    if (string_equals(type, "Prepend"))
        return (step = add_rewrite(reader, REWRITE_PREPEND)) &&
               read_text(reader, json, "prepend", &step->text);
    if (string_equals(type, "Replace")) return read_replace(reader, json);
    if (string_equals(type, "Strip")) return read_strip(reader, json);
    if (string_equals(type, "StripAccents")) return add_replacement(reader, "\\p{M}", "");
    if (string_equals(type, "Nmt")) return add_nmt(reader);
    if (!string_equals(type, "Sequence"))
        return tokenizer_refuse(reader, "a normalizer of a type that is not known:", type);
    const Json *list = json_get(json, "normalizers");
    bool ok = list && list->kind == JSON_ARRAY;
    if (!ok) return tokenizer_refuse(reader, "not a list:", string_from("normalizers"));
    for (size_t i = 0; ok && i < list->n; i++) ok = tokenizer_read_normalizer(reader, json_item(list, i));
    return ok;
}

static Cut *add_cut(TokenizerReader *reader, CutKind kind) {
    Pipeline *pipeline = reader->pipeline;
    if (pipeline->n_cuts == PIPELINE_STEPS) {
        tokenizer_refuse(reader, "more steps than 32:", string_from("pre_tokenizer"));
        return NULL;
    }
    if (reader->byte_level && kind != CUT_SPLIT) { /* another ByteLevel is refused where it is read */
        tokenizer_refuse(reader, "behind ByteLevel, in the pre_tokenizer:", string_from("Metaspace"));
        return NULL;
    }
    Cut *step = &pipeline->cuts[pipeline->n_cuts++];
    step->kind = kind;
    return step;
}

/* A step that splits by matches of the pattern. */
static bool add_split(TokenizerReader *reader, const char *pattern, CutBehavior behavior, bool invert) {
    Cut *step = add_cut(reader, CUT_SPLIT);
    if (!step) return false;
    step->behavior = behavior;
    step->invert = invert;
    return compile(reader, string_from(pattern), &step->needle);
}

/* Puts the text in front of pieces, or of the whole text, that do not begin with it. */
static bool add_prefix(TokenizerReader *reader, String text, bool first_only) {
    Cut *step = add_cut(reader, CUT_PREPEND);
    if (!step) return false;
    step->first_only = first_only;
    step->text = tokenizer_keep(reader, text);
    return step->text.data || tokenizer_no_memory(reader);
}

static bool read_behavior(TokenizerReader *reader, const Json *json, CutBehavior *behavior) {
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
                                        "Contiguous"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_equals(json, names[i])) {
            *behavior = (CutBehavior)i;
            return true;
        }
    return tokenizer_refuse(reader, "a behavior that is not known:", json_string(json));
}

static bool read_byte_level(TokenizerReader *reader, const Json *json) {
    bool prefix = false, by_pattern = true;
    if (reader->byte_level)
        return tokenizer_refuse(reader, "twice in the pre_tokenizer:", string_from("ByteLevel"));
    bool ok = tokenizer_flag(reader, json, "add_prefix_space", true, &prefix) &&
              tokenizer_flag(reader, json, "use_regex", false, &by_pattern) &&
              (!prefix || add_prefix(reader, string_from(" "), false)) &&
              (!by_pattern || add_split(reader, byte_level_pattern, CUT_ISOLATED, false)) &&
              add_cut(reader, CUT_SPELL);
    reader->byte_level = true;
    return ok;
}

static bool read_metaspace(TokenizerReader *reader, const Json *json) {
    bool prefix = true, splits = true;
    String replacement;
    const Json *scheme = json_get(json, "prepend_scheme");
    Cut *step = add_cut(reader, CUT_REPLACE);
    if (!step || !read_text(reader, json, "replacement", &replacement) ||
        !tokenizer_flag(reader, json, "add_prefix_space", false, &prefix) ||
        !tokenizer_flag(reader, json, "split", false, &splits))
        return false;
    if (replacement.n == 0)
        return tokenizer_refuse(reader, "nothing in place of a space:", string_from("replacement"));
    step->needle.text = tokenizer_keep(reader, string_from(" "));
    step->text = replacement;
    if (!step->needle.text.data) return tokenizer_no_memory(reader);
    if (string_equals(replacement, space)) reader->spaces = true;
    bool never = json_equals(scheme, "never"), first = json_equals(scheme, "first");
    if (is_there(scheme) && !never && !first && !json_equals(scheme, "always"))
        return tokenizer_refuse(reader, "a prepend_scheme that is not known:", json_string(scheme));
    if (is_there(scheme) && !prefix && !never)
        return tokenizer_refuse(reader, "no add_prefix_space, but prepend_scheme", json_string(scheme));
    if (prefix && !never && !add_prefix(reader, replacement, first)) return false;
    if (!splits) return true;
    if (!(step = add_cut(reader, CUT_SPLIT))) return false;
    step->needle.text = replacement;
    step->behavior = CUT_WITH_NEXT;
    return true;
}

static bool read_split(TokenizerReader *reader, const Json *json) {
    Cut *step = add_cut(reader, CUT_SPLIT);
    return step && tokenizer_needle(reader, json_get(json, "pattern"), &step->needle) &&
           read_behavior(reader, json_get(json, "behavior"), &step->behavior) &&
           tokenizer_flag(reader, json, "invert", true, &step->invert);
}

static bool read_digits(TokenizerReader *reader, const Json *json) {
    bool each = false;
    return tokenizer_flag(reader, json, "individual_digits", true, &each) &&
           add_split(reader, "\\p{N}", each ? CUT_ISOLATED : CUT_CONTIGUOUS, false);
}

static bool read_punctuation(TokenizerReader *reader, const Json *json) {
    CutBehavior behavior = CUT_ISOLATED;
    const Json *name = json_get(json, "behavior");
    return (!is_there(name) || read_behavior(reader, name, &behavior)) &&
           add_split(reader, "[\\p{P}$+<=>^`|~]", behavior, false);
}

/* \w+|[^\w\s]+, where \w is what Rust's expressions take for it (UTS #18, annex C). */
static bool read_whitespace(TokenizerReader *reader) {
#define WORD                                                                                                 \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"            \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
    return add_split(reader, "[" WORD "]+|[^" WORD "\\s]+", CUT_REMOVED, true);
}

bool tokenizer_read_pre_tokenizer(TokenizerReader *reader, const Json *json) {
    String type = tokenizer_type(json);
    if (!is_there(json)) return true;
    if (string_equals(type, "ByteLevel")) return read_byte_level(reader, json);
    if (string_equals(type, "Metaspace")) return read_metaspace(reader, json);
    if (string_equals(type, "Split")) return read_split(reader, json);
    if (string_equals(type, "Digits")) return read_digits(reader, json);
    if (string_equals(type, "Punctuation")) return read_punctuation(reader, json);
    if (string_equals(type, "Whitespace")) return read_whitespace(reader);
    if (string_equals(type, "WhitespaceSplit")) return add_split(reader, "\\s", CUT_REMOVED, false);
    if (!string_equals(type, "Sequence"))
        return tokenizer_refuse(reader, "a pre_tokenizer of a type that is not known:", type);
    const Json *list = json_get(json, "pretokenizers");
    bool ok = list && list->kind == JSON_ARRAY;
    if (!ok) return tokenizer_refuse(reader, "not a list:", string_from("pretokenizers"));
    for (size_t i = 0; ok && i < list->n; i++) ok = tokenizer_read_pre_tokenizer(reader, json_item(list, i));
    return ok;
}

enum { MADE_OF_TOKEN = 32 * PIPELINE_TEXT /* bytes, by all steps of the normalizer */ };

bool tokenizer_sort_added(const TokenizerReader *reader, const String *contents, const bool *normalized) {
    Pipeline *pipeline = reader->pipeline;
    for (size_t i = 0; i < pipeline->n_added; i++) {
        String text = contents[i];
        TextBuffer rewritten = {0};
        Prefixes *texts = normalized[i] ? &pipeline->normalized : &pipeline->as_is;
        if (text.n > PIPELINE_TEXT)
            return tokenizer_refuse(reader, "an added token longer than 256 bytes:", text);
        bool ok = !normalized[i] || pipeline_normalize(pipeline, text, MADE_OF_TOKEN, &rewritten);
        if (normalized[i]) text = text_string(&rewritten);
        if (ok && text.n) {
            text = tokenizer_keep(reader, text);
            ok = text.data && prefixes_add(texts, text, (int32_t)i);
        }
        free(rewritten.data);
        if (!ok)
            return tokenizer_refuse(
                reader, "not enough memory for what the normalizer makes of an added token,", contents[i]);
    }
    prefixes_sort(&pipeline->as_is);
    prefixes_sort(&pipeline->normalized);
    return true;
}
