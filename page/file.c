/* The file of `view`: a page around the data, or the figure of one head. */
#include "base/utf8.h"
#include "page/html.h"
#include "page/page.h"
#include "page/svg.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { TITLE_CHARACTERS = 60, LARGE_MB = 16, LARGEST_MB = 200 /* without --yes */ };

/* How the text begins, by which the page is called. */
static bool title_of(Page *page, String *title, Error *error) {
    Study *study = page->study;
    JoinedText text;
    if (!join_tokens(&study->subject, &study->arena, false, &text, error)) return false;
    size_t end = text.offsets[page->n_prompt], begin = 0, n = 0;
    while (begin < end && (text.bytes[begin] == ' ' || text.bytes[begin] == '\n')) begin++;
    size_t at = begin;
    for (uint32_t c; at < end && n < TITLE_CHARACTERS; n++) at += utf8_decode(text.bytes + at, end - at, &c);
    *title = (String){text.bytes + begin, at - begin};
    return true;
}

/* Opens the file that a page with the engine is to hold, and says how large the page becomes. */
static bool open_weights(Page *page, FILE **weights, Error *error) {
    const char *path = page->study->options->model;
    long n = -1;
    if (page->no_model) return true;
    if (strncmp(checkpoint_format(model_checkpoint(page->study->model)), "GGUF", 4) != 0)
        return error_set(error, "%s: a page takes a GGUF file: ./quantize writes one", path);
    *weights = fopen(path, "rb");
    if (!*weights || fseek(*weights, 0, SEEK_END) != 0 || (n = ftell(*weights)) < 0 ||
        fseek(*weights, 0, SEEK_SET) != 0)
        return error_set(error, "%s: cannot be read: %s", path, strerror(errno));
    double megabytes = (double)page_size((size_t)n) / 1e6;
    if (megabytes > (double)LARGEST_MB && !page->yes)
        return error_set(error, "--live: the page would have %.0f MB: add --yes, or see ./study serve --help",
                         megabytes);
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "study: a page of %.1f MB, engine and model in it\n", megabytes);
    return true;
}

static bool write_page(Page *page, Error *error) {
    const char *path = page->no_model ? "" : page->study->options->model, *slash = strrchr(path, '/');
    PageParts parts = {.source = page->live ? PAGE_ENGINE : PAGE_FROZEN};
    const char *name = slash ? slash + 1 : path;
    parts.name = (String){name, strlen(name)};
    bool ok = true;
    if (!page->no_model) {
        parts.data = page_json, parts.user = page;
        ok = title_of(page, &parts.title, error);
    }
    ok = ok && (!page->live || open_weights(page, &parts.weights, error));
    if (ok && !page_write(page->file.file, &parts))
        ok = error_set(error, "%s: cannot be read: %s", path, strerror(errno));
    if (parts.weights) fclose(parts.weights);
    return ok;
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
    print_path(&page->study->report, page->output);
    if (page->no_model) {
        fputs(": a page that takes a GGUF file", stdout);
    } else {
        size_t n = page->study->subject.tokens.n,
               n_heads = page->svg ? 1 : page->as_is.traces.n_layers * page->config->n_head;
        printf(": %zu token%s, %zu head%s", n, n == 1 ? "" : "s", n_heads, n_heads == 1 ? "" : "s");
    }
    if (bytes >= 0) printf(", %ld kB", (bytes + 500) / 1000);
    if (bytes > LARGE_MB * 1000000L && !page->svg && !page->live)
        fputs("; --layers makes it smaller", stdout);
    putchar('\n');
    return true;
}

bool page_file_open(Page *page, Error *error) {
    const Inputs inputs = study_inputs(page->study);
    return output_open(&page->file, page->output, &inputs, error);
}

bool page_file_write(Page *page, Error *error) {
    return (page->svg ? write_figure(page, error) : write_page(page, error)) && finish(page, error);
}

void page_file_abandon(Page *page) { output_abandon(&page->file); }
