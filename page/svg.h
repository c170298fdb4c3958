/* A head's pattern as a figure: Scalable Vector Graphics 1.1. */
#ifndef ATTN_SVG_H
#define ATTN_SVG_H

#include "cli/report.h"
#include "measures/patterns.h"

#include <stdio.h>

/*
 * Writes the one map of `patterns`: that of a single head, with a row for each token of the text. Whether all was
 * written, only `file` knows.
 */
void svg_write(FILE *file, const Report *report, const Patterns *patterns);

#endif
