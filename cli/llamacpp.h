/*
 * The words of llama.cpp's command lines, which people have at hand (its common/arg.cpp): those that mean an option of ours,
 * and those that say how to compute, of which nothing is asked here. What would change the text is neither, and refused.
 */
#ifndef ATTN_LLAMACPP_H
#define ATTN_LLAMACPP_H

#include "cli/options.h"

extern const ForeignOptions llamacpp_options;

/* One line on stderr, "run: note: not needed here: -ngl, -fa"; nothing where there are none. */
void note_idle(const StringList *idle);

#endif
