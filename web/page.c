/*
 * The assembler puts the files of this folder into the program. The template, page.html, holds markers such as
 * {{style}}. Each is replaced in one pass, so a marker within what replaces one stays as it is.
 */
#include "web/page.h"

#include "cli/base64.h"
#include "cli/report.h"
#include "cli/sha256.h"
#include "text/unicode.h"

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
      FILE_OF("base.js") FILE_OF("text.js") FILE_OF("next.js") FILE_OF("weights.js") FILE_OF("heads.js")
          FILE_OF("attend.js") FILE_OF("lens.js") FILE_OF("steps.js") FILE_OF("main.js"));

extern const char page_template[], page_template_end[], page_style[], page_style_end[], page_script[],
    page_script_end[];

static String between(const char *begin, const char *end) { return (String){begin, (size_t)(end - begin)}; }

static void put(FILE *file, String bytes) { fwrite(bytes.data, 1, bytes.n, file); }

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

static void put_policy(FILE *file, String script, String style) {
    fputs("default-src 'none'; script-src ", file);
    put_hash(file, script);
    fputs("; style-src ", file);
    put_hash(file, style);
    fputs("; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'", file);
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

void page_write(FILE *file, String title, PageData *data, void *user) {
    String left = between(page_template, page_template_end), style = between(page_style, page_style_end),
           script = between(page_script, page_script_end);
    for (;;) {
        size_t n = find_marker(left);
        put(file, (String){left.data, n});
        left.data += n, left.n -= n;
        if (take_marker(&left, "title"))
            put_escaped(file, title);
        else if (take_marker(&left, "policy"))
            put_policy(file, script, style);
        else if (take_marker(&left, "style"))
            put(file, style);
        else if (take_marker(&left, "script"))
            put(file, script);
        else if (take_marker(&left, "data"))
            data(user, file);
        else
            break;
    }
    put(file, left); /* an unknown marker stays, and a test sees it */
}
