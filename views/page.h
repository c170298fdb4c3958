/* A page of the web in one file: the template, style and script that the program carries, around some data. */
#ifndef ATTN_STUDY_PAGE_H
#define ATTN_STUDY_PAGE_H

#include "checkpoint/checkpoint.h"
#include "error.h"

#include <stdbool.h>
#include <stdio.h>

/* Writes one JSON value in which no '<' stands. False with an error. */
typedef bool PageData(void *user, FILE *file, Error *error);

/*
 * Writes the page to file. The title may be any bytes. A Content Security Policy lets the page run its own script
 * and nothing else, and fetch nothing. Whether all was written, only `file` knows.
 */
bool page_write(FILE *file, String title, PageData *data, void *user, Error *error);

#endif
