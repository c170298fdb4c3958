/*
 * The assembler puts the files of web/ into the program. The template, page.html, holds markers such as
 * {{style}}. Each is replaced in one pass, so a marker within what replaces one stays as it is.
 */
#include "page/html.h"

#include "base/utf8.h"
#include "cli/base64.h"
#include "cli/report.h"
#include "page/sha256.h"

#include <string.h>

/* Makes page_NAME and page_NAME_end, between which lie the bytes of the files, one after another. */
#define EMBED(name, files)                                                                                   \
    __asm__(".pushsection .rodata\n"                                                                         \
            ".globl page_" name "\n.globl page_" name "_end\n"                                               \
            "page_" name ":\n" files "page_" name "_end:\n"                                                  \
            ".popsection\n")
#define FILE_OF(name) ".incbin \"web/" name "\"\n"

EMBED("template", FILE_OF("page.html"));
EMBED("style", FILE_OF("page.css"));
EMBED("script",
      FILE_OF("base.js") FILE_OF("words.js") FILE_OF("source.js") FILE_OF("run.js") FILE_OF("follow.js")
          FILE_OF("text.js") FILE_OF("next.js") FILE_OF("model.js") FILE_OF("changes.js") FILE_OF("heads.js")
              FILE_OF("attend.js") FILE_OF("lens.js") FILE_OF("steps.js") FILE_OF("why.js") FILE_OF("examples.js") FILE_OF("patch.js")
                  FILE_OF("tour.js") FILE_OF("glossary.js") FILE_OF("address.js") FILE_OF("main.js"));
EMBED("worker", FILE_OF("worker.js"));
EMBED("engine", FILE_OF("attn.wasm"));

extern const char page_template[], page_template_end[], page_style[], page_style_end[], page_script[],
    page_script_end[], page_worker[], page_worker_end[], page_engine[], page_engine_end[];

static String between(const char *begin, const char *end) { return (String){begin, (size_t)(end - begin)}; }

static void put(FILE *file, String bytes) {
    if (bytes.n > 0) fwrite(bytes.data, 1, bytes.n, file);
}

/* Writes text for an element or for double quotes. A control, or what is not a character, becomes a space. */
static void put_escaped(FILE *file, String text) {
    for (size_t i = 0, length; i < text.n; i += length) {
        uint32_t c;
        length = utf8_decode(text.data + i, text.n - i, &c);
        if (is_control(c))
            putc(' ', file);
        else if (c == '<' || c == '>' || c == '&' || c == '"')
            fprintf(file, "&#%u;", (unsigned)c);
        else
            fwrite(text.data + i, 1, length, file);
    }
}

/* 'sha256-…', by which a policy names a script or style: Content Security Policy Level 3, section 2.3.1. */
static void put_hash(FILE *file, String bytes) {
    unsigned char digest[SHA256_BYTES];
    char text[BASE64_SIZE(SHA256_BYTES)];
    sha256(digest, bytes.data, bytes.n);
    fprintf(file, "'sha256-%.*s'", (int)base64_encode(text, digest, sizeof digest), text);
}

/* The parts that each source needs beyond the page's own script and style. */
static void put_policy(FILE *file, PageSource source, String script, String style) {
    fputs("default-src 'none'; script-src ", file);
    put_hash(file, script);
    if (source == PAGE_ENGINE) fputs(" 'wasm-unsafe-eval'", file);
    fputs("; style-src ", file);
    put_hash(file, style);
    if (source == PAGE_ENGINE) fputs("; worker-src blob:; trusted-types attn", file);
    fprintf(file, "; connect-src %s", source == PAGE_SERVER ? "'self'" : "'none'");
    fputs("; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'", file);
}

static void put_base64(FILE *file, String bytes) {
    char text[BASE64_SIZE(3 * 1024)];
    for (size_t n; bytes.n > 0; bytes.data += n, bytes.n -= n) {
        n = bytes.n < 3 * 1024 ? bytes.n : 3 * 1024;
        fwrite(text, 1, base64_encode(text, bytes.data, n), file);
    }
}

static bool put_file(FILE *file, FILE *weights) {
    static const size_t whole = 3 * 1024; /* base64 of pieces of whole triples is that of all */
    char piece[3 * 1024];
    for (size_t n = whole; weights && n == whole;) {
        n = fread(piece, 1, whole, weights);
        put_base64(file, (String){piece, n});
    }
    return !weights || !ferror(weights);
}

/* The offset of the next marker; text.n when there is none. */
static size_t find_marker(String text) {
    for (size_t i = 0; i + 1 < text.n; i++)
        if (text.data[i] == '{' && text.data[i + 1] == '{') return i;
    return text.n;
}

/* Whether text starts with "{{name}}"; if so, moves behind it. */
static bool take_marker(String *text, const char *name) {
    size_t n = strlen(name);
    if (text->n < n + 4 || memcmp(text->data + 2, name, n) != 0 || memcmp(text->data + 2 + n, "}}", 2) != 0)
        return false;
    text->data += n + 4, text->n -= n + 4;
    return true;
}

bool page_write(FILE *file, const PageParts *parts) {
    static const char *const sources[] = {"frozen", "engine", "server"};
    String left = between(page_template, page_template_end), style = between(page_style, page_style_end),
           script = between(page_script, page_script_end);
    bool has_engine = parts->source == PAGE_ENGINE, ok = true;
    for (;;) {
        size_t n = find_marker(left);
        put(file, (String){left.data, n});
        left.data += n, left.n -= n;
        if (take_marker(&left, "title"))
            put_escaped(file, parts->title);
        else if (take_marker(&left, "source"))
            fputs(sources[parts->source], file);
        else if (take_marker(&left, "policy"))
            put_policy(file, parts->source, script, style);
        else if (take_marker(&left, "style"))
            put(file, style);
        else if (take_marker(&left, "script"))
            put(file, script);
        else if (take_marker(&left, "worker"))
            put(file, has_engine ? between(page_worker, page_worker_end) : (String){NULL, 0});
        else if (take_marker(&left, "engine"))
            put_base64(file, has_engine ? between(page_engine, page_engine_end) : (String){NULL, 0});
        else if (take_marker(&left, "name"))
            put_escaped(file, parts->name);
        else if (take_marker(&left, "weights"))
            ok = put_file(file, has_engine ? parts->weights : NULL);
        else if (take_marker(&left, "data")) {
            if (parts->data) parts->data(parts->user, file);
        } else
            break;
    }
    put(file, left); /* an unknown marker stays, and a test sees it */
    return ok;
}

size_t page_size(size_t n) {
    size_t text = (size_t)(page_template_end - page_template) + (size_t)(page_style_end - page_style) +
                  (size_t)(page_script_end - page_script) + (size_t)(page_worker_end - page_worker);
    return text + BASE64_SIZE((size_t)(page_engine_end - page_engine)) + (n + 2) / 3 * 4;
}
