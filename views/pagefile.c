/* The file of `view`: a page around the data, or the figure of one head. */
#include "text/unicode.h"
#include "views/page.h"
#include "web/page.h"
#include "web/svg.h"

enum { TITLE_CHARACTERS = 60, LARGE_MB = 16 };

/* The page is called by how its text begins. */
static bool write_page(Page *page, Error *error) {
    Study *study = page->study;
    JoinedText text;
    if (!join_tokens(&study->subject, &study->arena, false, &text, error)) return false;
    size_t end = text.offsets[page->n_prompt], begin = 0, n = 0;
    while (begin < end && (text.bytes[begin] == ' ' || text.bytes[begin] == '\n')) begin++;
    size_t at = begin;
    for (uint32_t c; at < end && n < TITLE_CHARACTERS; n++) at += utf8_decode(text.bytes + at, end - at, &c);
    page_write(page->file.file, (String){text.bytes + begin, at - begin}, page_json, page);
    return true;
}

/* --svg: the pattern of one head. */
static bool write_figure(Page *page, Error *error) {
    Study *study = page->study;
    const Tokens *tokens = &study->subject.tokens;
    Patterns *figure = &page->figure;
    if (!patterns_begin(figure, &study->subject, &study->arena, tokens->n, tokens->n, error)) return false;
    Session *session = subject_session(&study->subject, 0, &figure->probe, error);
    bool ok = session && patterns_feed(figure, session, tokens->ids, tokens->n, error);
    if (ok) svg_write(page->file.file, &study->report, figure);
    session_free(session);
    return ok;
}

/* The file gets its name, and one line tells of it. */
static bool finish(Page *page, Error *error) {
    long bytes = ftell(page->file.file); /* −1: a pipe cannot tell */
    if (!output_finish(&page->file, error)) return false;
    size_t n = page->study->subject.tokens.n,
           n_heads = page->svg ? 1 : page->traces.n_layers * page->config->n_head;
    print_path(&page->study->report, page->output);
    printf(": %zu token%s, %zu head%s", n, n == 1 ? "" : "s", n_heads, n_heads == 1 ? "" : "s");
    if (bytes >= 0) printf(", %ld kB", (bytes + 500) / 1000);
    if (bytes > LARGE_MB * 1000000L && !page->svg) fputs("; --layers makes it smaller", stdout);
    putchar('\n');
    return true;
}

bool page_file_open(Page *page, Error *error) { return output_open(&page->file, page->output, error); }

bool page_file_write(Page *page, Error *error) {
    return (page->svg ? write_figure(page, error) : write_page(page, error)) && finish(page, error);
}

void page_file_abandon(Page *page) { output_abandon(&page->file); }
