/* A web page in one file: the template, style and script that the program carries, around some data. */
#ifndef ATTN_PAGE_H
#define ATTN_PAGE_H

#include "checkpoint/checkpoint.h"

#include <stdio.h>

/* Writes one JSON value in which no '<' stands. */
typedef void PageData(void *user, FILE *file);

/*
 * Writes the page to file, with `data` where it stands in it. The title may be any bytes. A Content Security Policy lets
 * the page run its own script and nothing else, and fetch nothing. Whether all was written, only `file` knows.
 */
void page_write(FILE *file, String title, PageData *data, void *user);

#endif
