/* A web page in one file: the template, style and script that the program carries, around some data. */
#ifndef ATTN_HTML_H
#define ATTN_HTML_H

#include "base/text.h"

#include <stdbool.h>
#include <stdio.h>

/* Writes one JSON value in which no '<' stands. */
typedef void PageData(void *user, FILE *file);

/* The source of answers beyond a page's data: none, the engine in it, the program that serves it. */
typedef enum PageSource { PAGE_FROZEN, PAGE_ENGINE, PAGE_SERVER } PageSource;

typedef struct PageParts {
    PageSource source;
    String title;   /* any bytes */
    PageData *data; /* NULL: there are no numbers yet */
    void *user;
    FILE *weights; /* the GGUF file that a page with the engine holds; NULL: one is to be dropped into it */
    String name;   /* of that file: any bytes */
} PageParts;

/*
 * Writes the page to file. A Content Security Policy lets it run its own script and engine and nothing else, and fetch
 * nothing, but from the server whose page it is. Whether all was written only `file` knows. False when weights could not
 * be read.
 */
bool page_write(FILE *file, const PageParts *parts);

/* Bytes that the page with the engine has beyond its data, for a GGUF file of n bytes. */
size_t page_size(size_t n);

#endif
