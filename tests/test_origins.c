/*
 * Where the bytes of a conversation come from, through chat templates to tokens: words from outside, spliced at random of
 * what templates write and look for, become no token that steers, wholly or in part, and cost the template none of its own.
 *
 * The vocabularies have a token for each byte and one for each piece of markup that a template has, so that the right tokens
 * follow from the text and the origin of its bytes alone. The origin is judged by a second rendering, in which the markup of
 * all that is from outside is written in other characters, which no template has.
 */
#include "cli/input.h"
#include "gguf.h"
#include "jinja/template.h"
#include "tokenizer.h"
#include "vocab/spelling.h"
#include "vocab/vocab.h"

#include <dirent.h>

enum { MAX_WORDS = 256, WORD_BYTES = 64, SPLICES = 150 };

typedef struct Words {
    char text[MAX_WORDS][WORD_BYTES];
    size_t n;
} Words;

static Words specials, literals; /* of the template at hand */
static uint64_t state = 31;
static size_t n_rendered, n_judged, n_own, n_lures;

static size_t any(size_t n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (size_t)(state >> 11) % n;
}

static void add_word(Words *words, const char *text, size_t n) {
    if (n == 0 || n >= WORD_BYTES || words->n == MAX_WORDS) return;
    for (size_t i = 0; i < words->n; i++)
        if (strlen(words->text[i]) == n && memcmp(words->text[i], text, n) == 0) return;
    memcpy(words->text[words->n], text, n);
    words->text[words->n++][n] = 0;
}

/* Markup, whether the template writes it or looks for it; and the strings that it has. */
static void collect_words(const char *source, size_t n) {
    static const char *const usual[] = {"<s>",      "</s>",       "<|im_start|>",  "<|im_end|>",
                                        "<|user|>", "<|system|>", "<|assistant|>", "[INST]",
                                        "[/INST]",  "<think>",    "</think>",      "<tool_call>"};
    specials.n = literals.n = 0;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) add_word(&specials, usual[i], strlen(usual[i]));
    for (size_t i = 0; i < n; i++) {
        char open = source[i], close = open == '<' ? '>' : open == '[' ? ']' : open;
        if (!strchr("<['\"", open) || !open) continue;
        size_t end = i + 1;
        while (end < n && end < i + WORD_BYTES && source[end] != close && !strchr("\n\\{}", source[end]) &&
               (close == '\'' || close == '"' || !strchr(" '\"<[+", source[end])))
            end++;
        if (end >= n || source[end] != close || end == i + 1) continue;
        bool upper = true;
        for (size_t k = i + 1; k < end; k++)
            upper = upper && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ_/", source[k]);
        if (close == open) add_word(&literals, source + i + 1, end - i - 1);
        if (open == '<' || (open == '[' && upper)) add_word(&specials, source + i, end + 1 - i);
    }
    add_word(&literals, " ", 1);
}

/* ---- Vocabularies: a token for each byte, then the specials, every other of which is a control token ---- */

static bool all_defined; /* none is */

static void put(TextBuffer *out, const void *bytes, size_t n) {
    CHECK(text_append(out, bytes, n), "no memory");
}
static void put_number(TextBuffer *out, uint64_t number, size_t size) { put(out, &number, size); }
static void put_string(TextBuffer *out, const char *text, size_t n) {
    put_number(out, n, 8);
    put(out, text, n);
}
static void put_key(TextBuffer *out, const char *name, unsigned type) {
    put_string(out, name, strlen(name));
    put_number(out, type, 4);
}
static void put_array(TextBuffer *out, const char *name, unsigned type, size_t n) {
    put_key(out, name, ARRAY);
    put_number(out, type, 4);
    put_number(out, n, 8);
}

/* The character that GPT-2 writes for a byte. */
static size_t spell(size_t byte, char *out) {
    uint32_t c = spell_byte((char)byte);
    if (c < 0x80) return out[0] = (char)c, 1;
    out[0] = (char)(0xC0 | c >> 6), out[1] = (char)(0x80 | (c & 0x3F));
    return 2;
}

static void write_gguf(void) {
    TextBuffer out = {0};
    char text[4];
    put(&out, "GGUF\3\0\0\0", 8);
    put_number(&out, 0, 8);
    put_number(&out, 4, 8);
    put_key(&out, "tokenizer.ggml.model", STRING);
    put_string(&out, "gpt2", 4);
    put_array(&out, "tokenizer.ggml.tokens", STRING, 256 + specials.n);
    for (size_t i = 0; i < 256; i++) put_string(&out, text, spell(i, text));
    for (size_t i = 0; i < specials.n; i++) put_string(&out, specials.text[i], strlen(specials.text[i]));
    put_array(&out, "tokenizer.ggml.token_type", I32, 256 + specials.n);
    for (size_t i = 0; i < 256 + specials.n; i++)
        put_number(&out, i < 256 ? 1 : i % 2 && !all_defined ? 3 : 4, 4);
    put_array(&out, "tokenizer.ggml.merges", STRING, 0);
    scratch_write((const unsigned char *)out.data, out.n);
    free(out.data);
}

static void put_json(TextBuffer *out, const char *text, size_t n) {
    static const char digits[] = "0123456789abcdef";
    put(out, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        char escape[] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};
        bool plain = c >= 0x20 && c != '"' && c != '\\';
        put(out, plain ? text + i : escape, plain ? 1 : sizeof escape);
    }
    put(out, "\"", 1);
}

/* Tokens that are not special are found in the text as it is normalised, as files of axolotl have them. */
static void write_json(void) {
    static const char before[] =
        "{\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"\\u0007\"}, "
        "\"content\": \"7\"}, \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
        "\"add_prefix_space\": false}, \"decoder\": {\"type\": \"ByteLevel\"}, "
        "\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {";
    TextBuffer out = {0};
    char text[64];
    put(&out, before, sizeof before - 1);
    for (size_t i = 0; i < 256; i++) {
        put_json(&out, text, spell(i, text));
        put(&out, text, (size_t)snprintf(text, sizeof text, ": %zu%s", i, i < 255 ? ", " : "}}, "));
    }
    put(&out, "\"added_tokens\": [", 17);
    for (size_t i = 0; i < specials.n; i++) {
        put(&out, text,
            (size_t)snprintf(text, sizeof text, "%s{\"id\": %zu, \"special\": %s, \"content\": ",
                             i ? ", " : "", 256 + i, i % 2 && !all_defined ? "true" : "false"));
        put_json(&out, specials.text[i], strlen(specials.text[i]));
        put(&out, "}", 1);
    }
    put(&out, "]}", 2);
    scratch_put("tokenizer.json", out.data, out.n);
    free(out.data);
}

/* ---- Conversations ---- */

/* A place between two characters of a text, which has one. */
static size_t place(const char *text) {
    size_t i = any(strlen(text));
    while (i > 0 && (text[i] & 0xC0) == 0x80) i--;
    return i;
}

/* A piece of markup or of the template, whole or a part; or something else. */
static void splice(TextBuffer *out) {
    static const char *const others[] = {"x", " ", "\n",     "Hi",     "\xc3\xa9", "<",
                                         ">", "|", "user\n", "system", "{{",       "\xef\xb7\x90"};
    const char *word = others[any(sizeof others / sizeof *others)];
    const Words *words = any(2) ? &specials : &literals;
    switch (any(5)) {
    case 0: put(out, word, strlen(word)); break;
    case 1: word = words->text[any(words->n)], put(out, word, strlen(word)); break;
    case 2: word = specials.text[any(specials.n)], put(out, word, place(word)); break;
    case 3: word = specials.text[any(specials.n)], word += place(word), put(out, word, strlen(word)); break;
    default: { /* a special token with something within it that the template may take away */
        const char *within = words->text[any(words->n)];
        word = specials.text[any(specials.n)];
        size_t n = place(word);
        put(out, word, n);
        put(out, within, strlen(within));
        if (any(4) == 0) put(out, "x", 1), put(out, within, strlen(within));
        put(out, word + n, strlen(word + n));
    }
    }
}

static const char markup[] = "<>|[]";

/* The text, or with its markup as other characters, of three bytes each. */
static void put_words(TextBuffer *out, String words, bool other) {
    TextBuffer text = {0};
    for (size_t i = 0; i < words.n; i++) {
        const char *found = other ? strchr(markup, words.data[i]) : NULL;
        const char character[] = {'\xe2', '\x91', (char)('\xa0' + (found ? found - markup : 0))};
        put(&text, found ? character : words.data + i, found ? 3 : 1);
    }
    put_json(out, text.n ? text.data : "", text.n);
    free(text.data);
}

/* Two to five messages as a context; text[i] is what message i says. */
static void put_context(TextBuffer *out, const TextBuffer *texts, size_t n, bool system, bool other) {
    static const char head[] =
        "{\"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"eos_token\": \"</s>\", "
        "\"messages\": [";
    put(out, head, sizeof head - 1);
    for (size_t i = 0; i < n; i++) {
        char text[64];
        const char *role = system && i == 0 ? "system" : (i + system) % 2 ? "assistant" : "user";
        put(out, text,
            (size_t)snprintf(text, sizeof text, "%s{\"role\": \"%s\", \"content\": ", i ? ", " : "", role));
        put_words(out, (String){texts[i].n ? texts[i].data : "", texts[i].n}, other);
        put(out, "}", 1);
    }
    put(out, "]}", 2);
}

typedef struct Rendered {
    TextBuffer text, marks;
    bool ok;
} Rendered;

static Rendered render(const Template *template, const TextBuffer *texts, size_t n, bool system, bool other) {
    Rendered made = {{0}, {0}, false};
    TextBuffer context = {0};
    Error error = {{0}};
    put_context(&context, texts, n, system, other);
    Json *json = json_parse(context.data, context.n, &error);
    CHECK(json, "%s", error.message);
    made.ok = json && template_render(template, json, 1721894400, &made.text, &made.marks, &error);
    CHECK(made.text.n == made.marks.n, "%zu marks of %zu bytes", made.marks.n, made.text.n);
    json_free(json);
    free(context.data);
    return made;
}

/* ---- Expectations ---- */

static bool all_own(const char *marks, size_t n) { return !memchr(marks, 1, n); }

/* The tokens that the text has: the longest special one wherever the template itself wrote it, else a byte. */
static void check_tokens(const Tokenizer *tokenizer, const Rendered *made, const char *name) {
    Tokens got = {0};
    Error error = {{0}};
    String text = {made->text.n ? made->text.data : "", made->text.n};
    const char *marks = made->text.n ? made->marks.data : "";
    CHECK(tokenizer_encode_marked(tokenizer, text, marks, &got, &error), "%s", error.message);
    size_t n = 0;
    bool right = true;
    for (size_t i = 0; right && i < text.n; n++) {
        size_t best = 0, id = (unsigned char)text.data[i];
        for (size_t k = 0; k < specials.n; k++) {
            size_t size = strlen(specials.text[k]);
            bool is = size <= text.n - i && memcmp(text.data + i, specials.text[k], size) == 0;
            if (is && !all_own(marks + i, size)) n_lures++;
            if (is && size > best && all_own(marks + i, size)) best = size, id = 256 + k;
        }
        n_own += best > 0;
        right = n < got.n && got.ids[n] == (int32_t)id;
        if (!right)
            CHECK(right, "%s: byte %zu of '%.*s': %d, not %zu", name, i, (int)text.n, text.data,
                  n < got.n ? got.ids[n] : -1, id);
        i += best ? best : 1;
    }
    CHECK(!right || n == got.n, "%s: %zu tokens, not %zu", name, got.n, n);
    tokens_free(&got);
}

/* Whether the second rendering is the first with other characters; then these tell what is from outside. */
static bool judge(const Rendered *made, const Rendered *other, const char *name) {
    const char *text = other->text.data;
    size_t i = 0, at = 0;
    for (; i < other->text.n && at < made->text.n; at++) {
        bool is_other = other->text.n - i >= 3 && memcmp(text + i, "\xe2\x91", 2) == 0;
        char c = is_other ? markup[(unsigned char)text[i + 2] - 0xa0] : text[i];
        if (c != made->text.data[at]) return false;
        i += is_other ? 3 : 1;
    }
    if (i < other->text.n || at < made->text.n) return false;
    for (i = at = 0; at < made->text.n; at++) {
        bool is_other = other->text.n - i >= 3 && memcmp(text + i, "\xe2\x91", 2) == 0;
        bool is_markup = strchr(markup, made->text.data[at]) != NULL;
        if (is_markup && made->text.data[at] && is_other != made->marks.data[at]) {
            CHECK(false, "%s: byte %zu is %s: %.*s", name, at, is_other ? "from outside" : "the template's",
                  (int)made->text.n, made->text.data);
            return true;
        }
        i += is_other ? 3 : 1;
    }
    return true;
}

static void check_template(const char *folder, const char *name) {
    char path[4096];
    Error error = {{0}};
    TextBuffer source = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    bool read = read_text(path, TEMPLATE_MAX_BYTES, &source, &error);
    Template *template = read ? template_parse((String){source.data, source.n}, &error) : NULL;
    CHECK(template, "%s: %s", path, error.message);
    if (!template) return;
    collect_words(source.data, source.n);
    write_gguf();
    write_json();
    Checkpoint *files[2] = {NULL, NULL};
    Tokenizer *tokenizers[2] = {tokenizer_open(scratch_path(), NULL, &files[0], &error),
                                tokenizer_open(scratch_folder, NULL, &files[1], &error)};
    CHECK(tokenizers[0] && tokenizers[1], "%s: %s", path, error.message);
    for (size_t i = 0; i < SPLICES && tokenizers[0] && tokenizers[1]; i++) {
        TextBuffer texts[5] = {{0}};
        bool system = any(2);
        size_t n = 1 + system + 2 * any(2);
        for (size_t k = 0; k < n; k++)
            for (size_t more = 1 + any(6); more > 0; more--) splice(&texts[k]);
        Rendered made = render(template, texts, n, system, false);
        Rendered other = made.ok ? render(template, texts, n, system, true) : (Rendered){{0}, {0}, false};
        if (made.ok) check_tokens(tokenizers[i % 2], &made, name);
        n_rendered += made.ok;
        n_judged += other.ok && judge(&made, &other, name);
        for (size_t k = 0; k < n; k++) free(texts[k].data);
        free(made.text.data), free(made.marks.data), free(other.text.data), free(other.marks.data);
    }
    for (size_t i = 0; i < 2; i++) tokenizer_free(tokenizers[i]), checkpoint_close(files[i]);
    template_free(template);
    free(source.data);
}

/* The templates of a folder; how many there are. */
static size_t check_folder(const char *folder) {
    size_t n = 0;
    struct dirent *entry;
    DIR *open = opendir(folder);
    n_rendered = n_judged = n_own = n_lures = 0;
    while (open && (entry = readdir(open)) != NULL) {
        size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 6, ".jinja") != 0) continue;
        check_template(folder, entry->d_name);
        n++;
    }
    if (open) closedir(open);
    CHECK(n == 0 || (n_judged > n_rendered / 3 && n_own > n_rendered && n_lures > n_rendered),
          "of %zu renderings %zu were judged; %zu tokens, and %zu that are none", n_rendered, n_judged, n_own,
          n_lures);
    return n;
}

/* Of each byte of what a template makes of m, which is "a<B", whether it is from outside (#). */
static void test_marks(void) {
    static const struct {
        const char *source, *text, *marks;
    } cases[] = {
        {"x{{ m }}y", "xa<By", ".###."},
        {"{{ bos_token ~ role ~ m.upper() }}", "[]meA<B", "..#####"},
        {"{{ (u ~ '\xc3\x9f' ~ m)|upper }}", "\xc3\x89SSA<B", "##..###"},
        {"{{ m|e }}<", "a&lt;B<", "######."},
        {"{{ (m ~ '\n')|tojson }}", "\"a<B\\n\"", ".###..."},
        {"{{ (m ~ '\n\"')|tojson }}", "\"a<B\\n\\\"\"", ".###....."},
        {"{{ n|tojson }}{{ [n] }}", "\"\\n\"['\\n']", ".##...##.."},
        {"{{ u|tojson(ensure_ascii=true) }}{{ u }}", "\"\\u00e9\"\xc3\xa9", ".######.##"},
        {"{{ m.replace('<', '+')|replace('a', m) }}", "a<B+B", "###.#"},
        {"{{ ['x', m]|join(',') }}{{ m.split('<')|join('-') }}", "x,a<Ba-B", "..####.#"},
        {"{{ '%5s|%s%%' % (m, 1) }}", "  a<B|1%", "..###..."},
        {"{{ '{:*>5}{}'.format(m, 7) }}", "**a<B7", "..###."},
        {"{{ m.format() }}{{ (m ~ '{}').format('x') }}", "a<Ba<Bx", "######."},
        {"{{ (m ~ '%s%%') % 'x' }}", "a<Bx%", "###.."},
        {"{{ m.center(7, m[1]) }}{{ 'q'.center(3, m[1]) }}", "<<a<B<<<q<", "########.#"},
        {"{{ m|indent(1, true) }}{{ 'x\ny'|indent(m[0]) }}", " a<Bx\nay", ".###..#."},
        {"{{ d.keys()|list|first }}{{ d['k'] }}{{ d.role }}{{ 12|string }}", "kvw12", "##..."},
        {"{% for k in d %}{{ k }}{% endfor %}{{ d.items()|list|last|last }}", "krolew", "#....."},
        {"{{ m[::-1] }}{{ m[1:] ~ 'z' }}{{ m * 2 }}", "B<a<Bza<Ba<B", "#####.######"},
        {"{% set s %}[{{ m }}]{% endset %}{{ s }}{{ s[1:4] }}{{ s[:1] }}", "[a<B]a<B[", ".###.###."},
        {"{% macro f(x) %}({{ x }}){% endmacro %}{{ f(m)|trim('(') }}", "a<B)", "###."},
        {"{% filter lower %}A{{ m }}{% endfilter %}{{ strftime_now(m ~ '%Y') }}", "aa<ba<B2024",
         ".######...."},
    };
    static const char text[] =
        "{\"m\": \"a<B\", \"n\": \"\\n\", \"u\": \"\xc3\xa9\", \"bos_token\": \"[]\", \"role\": "
        "\"me\", \"d\": {\"k\": \"v\", \"role\": \"w\"}}";
    Error error = {{0}};
    Json *context = json_parse(text, sizeof text - 1, &error);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TextBuffer out = {0}, marks = {0};
        Template *template = template_parse(string_from(cases[i].source), &error);
        bool ok = template && template_render(template, context, 1721894400, &out, &marks, &error);
        for (size_t k = 0; k < marks.n; k++) marks.data[k] = marks.data[k] ? '#' : '.';
        CHECK(ok && string_equals((String){out.data, out.n}, cases[i].text) &&
                  string_equals((String){marks.data, marks.n}, cases[i].marks),
              "%s: '%.*s' %.*s %s", cases[i].source, (int)out.n, out.n ? out.data : "", (int)marks.n,
              marks.n ? marks.data : "", error.message);
        template_free(template);
        free(out.data);
        free(marks.data);
    }
    json_free(context);
}

/* Which tokens steer, in a vocabulary whose added tokens are all text: "<|t|>", "x<", "@@" … */
static void test_added(void) {
    static const char *const added[] = {"<|t|>", "x<", "@@", "\n\n", "77", "[X]", "<|t|>y"};
    static const struct {
        const char *text, *marks, *ids; /* of bytes themselves, of the others {t} … */
    } cases
        [] =
            {
                {"<|t|>", ".....", "{t}"},       {"<|t|>", "#####", "<|t|>"},
                {"<|t|>", "..#..", "<|t|>"},     {"x<|t|>", "#.....", "x{t}"},
                {"x<|t|>", "......", "{x}|t|>"}, /* as the library takes it: the first that begins */
                {"x<|t|>", "##....", "{x}|t|>"}, {"x<|t|", "#....", "{x}|t|"},
                {"@@-", "###", "{@}-"},          {"@@-@@", "##...", "@@-{@}"},
                {"77-77", "##...", "77-{7}"},    {"<|t|>y", ".....#", "{t}y"},
                {"<|t|>y", "######", "{y}"},     {"\n\n-\n\n", "##...", "{n}-{n}"},
                {"\n\n\n", ".##", "{n}\n"},      {"[X][X]", "###...", "[X]{X}"},
            };
    specials.n = 0;
    for (size_t i = 0; i < sizeof added / sizeof *added; i++) add_word(&specials, added[i], strlen(added[i]));
    all_defined = true;
    write_gguf();
    write_json();
    all_defined = false;
    Error error = {{0}};
    for (int kind = 0; kind < 2; kind++) {
        Checkpoint *file;
        Tokenizer *tokenizer = tokenizer_open(kind ? scratch_folder : scratch_path(), NULL, &file, &error);
        CHECK(tokenizer, "%s", error.message);
        for (size_t i = 0; tokenizer && i < sizeof cases / sizeof *cases; i++) {
            char marks[16], got[64] = "";
            Tokens tokens = {0};
            size_t n = strlen(cases[i].text);
            for (size_t k = 0; k < n; k++) marks[k] = cases[i].marks[k] == '#';
            CHECK(tokenizer_encode_marked(tokenizer, (String){cases[i].text, n}, marks, &tokens, &error),
                  "%s", error.message);
            for (size_t k = 0, at = 0; k < tokens.n && at + 4 < sizeof got; k++, at = strlen(got)) {
                int32_t id = tokens.ids[k];
                snprintf(got + at, sizeof got - at, id < 256 ? "%c" : "{%c}",
                         id < 256 ? id : "tx@n7Xy"[id - 256]);
            }
            CHECK(strcmp(got, cases[i].ids) == 0, "%d, '%s' %s: %s", kind, cases[i].text, cases[i].marks,
                  got);
            tokens_free(&tokens);
        }
        tokenizer_free(tokenizer);
        checkpoint_close(file);
    }
}

/* Text does not become such a token by merging either, where the vocabulary's model has it, too. */
static void test_merging(void) {
    static const char *const jsons[] = {
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"<\": 0, \"b\": 1, \">\": 2, \"<b\": 3, \"<b>\": 4}, \"merges\": "
        "[\"< b\", \"<b >\"]}, \"added_tokens\": [{\"id\": 4, \"content\": \"<b>\", \"special\": false}], "
        "\"decoder\": {\"type\": \"Fuse\"}}",
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"<\": 0, \"b\": 1, \">\": 2, \"<b\": 3, \"<b>\": 4}, \"merges\": "
        "[\"< b\"], \"ignore_merges\": true}, \"added_tokens\": [{\"id\": 4, \"content\": \"<b>\", \"special\": "
        "false}], \"decoder\": {\"type\": \"Fuse\"}}",
        "{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"<\", -1], [\"b\", -1], [\">\", -1], [\"<b\", -1], [\"<b>\", "
        "-0.5]]}, \"added_tokens\": [{\"id\": 4, \"content\": \"<b>\", \"special\": false}], \"decoder\": {\"type\": "
        "\"Fuse\"}}",
        NULL}; /* SentencePiece's, as GGUF */
    static const char *const tokens[] = {"<", "b", ">", "<b", "<b>"};
    TextBuffer out = {0};
    put(&out, "GGUF\3\0\0\0", 8);
    put_number(&out, 0, 8);
    put_number(&out, 5, 8);
    put_key(&out, "tokenizer.ggml.model", STRING);
    put_string(&out, "llama", 5);
    put_array(&out, "tokenizer.ggml.tokens", STRING, 5);
    for (size_t i = 0; i < 5; i++) put_string(&out, tokens[i], strlen(tokens[i]));
    put_array(&out, "tokenizer.ggml.token_type", I32, 5);
    for (size_t i = 0; i < 5; i++) put_number(&out, i == 4 ? 4 : 1, 4);
    put_array(&out, "tokenizer.ggml.scores", F32, 5);
    for (size_t i = 0; i < 5; i++) put_number(&out, 0, 4);
    put_key(&out, "tokenizer.ggml.add_space_prefix", BOOL);
    put_number(&out, 0, 1);
    scratch_write((const unsigned char *)out.data, out.n);
    for (size_t i = 0; i < sizeof jsons / sizeof *jsons; i++) {
        Error error = {{0}};
        Checkpoint *file;
        Tokens got = {0};
        if (jsons[i]) scratch_put("tokenizer.json", jsons[i], strlen(jsons[i]));
        Tokenizer *tokenizer =
            tokenizer_open(jsons[i] ? scratch_folder : scratch_path(), NULL, &file, &error);
        bool ok = tokenizer &&
                  tokenizer_encode_marked(tokenizer, (String){"<b><b>", 6}, "\0\0\0\1\1\1", &got, &error);
        CHECK(ok && got.n == 3 && got.ids[0] == 4 && got.ids[1] == 3 && got.ids[2] == 2,
              "%zu: %zu tokens, %s", i, got.n, error.message);
        tokens_free(&got);
        tokenizer_free(tokenizer);
        checkpoint_close(file);
    }
    free(out.data);
}

static void test_own(void) { CHECK(check_folder("tests/data/templates/own") > 3, "no templates"); }

static void test_published(void) {
    const char *given = getenv("ORACLE"), *home = getenv("HOME");
    char folder[4096];
    snprintf(folder, sizeof folder, "%s%s/source/models/templates",
             given  ? given
             : home ? home
                    : "",
             given ? "" : "/oracle");
    if (check_folder(folder) == 0)
        SKIP("no chat templates of ../shared/oracle");
    else
        CHECK(n_rendered >= 10000 && n_judged > n_rendered / 10 * 9, "%zu of %zu renderings", n_judged,
              n_rendered);
}

/* GPT-2's bytes_to_unicode: printable Latin-1 stands for itself, the other 68 bytes are U+0100 and on in their order. */
static void test_spelling(void) {
    uint32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; byte++) {
        bool itself = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
        uint32_t wanted = itself ? byte : next++, c = spell_byte((char)byte);
        CHECK(c == wanted, "byte %02x is spelt U+%04x, not U+%04x", byte, (unsigned)c, (unsigned)wanted);
        char spelt[2 + STRING_PADDING] = {(char)c}, out[2 + STRING_PADDING];
        if (c >= 0x80) spelt[0] = (char)(0xc0 | c >> 6), spelt[1] = (char)(0x80 | (c & 0x3f));
        bool is_spelt = true;
        size_t n = unspell_bytes((String){spelt, c < 0x80 ? 1 : 2}, out, &is_spelt);
        CHECK(is_spelt && n == 1 && (unsigned char)out[0] == byte, "U+%04x is byte %02x again", (unsigned)c,
              byte);
    }
    CHECK(next == 0x144, "68 bytes have another character, not %u", (unsigned)(next - 0x100));
}

int main(void) {
    scratch_begin();
    RUN(test_marks);
    RUN(test_added);
    RUN(test_merging);
    RUN(test_own);
    RUN(test_published);
    RUN(test_spelling);
    unlink(scratch_file("tokenizer.json"));
    scratch_end();
    return test_end();
}
