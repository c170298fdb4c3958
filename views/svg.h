/* A head's pattern as a figure: Scalable Vector Graphics 1.1. */
#ifndef ATTN_STUDY_SVG_H
#define ATTN_STUDY_SVG_H

#include "views/patterns.h"

#include <stdio.h>

/*
 * Writes the one map of `patterns`, all rows of the study's tokens, that of a single head. Whether all was
 * written, only `file` knows.
 */
void svg_write(FILE *file, const Study *study, const Patterns *patterns);

#endif
