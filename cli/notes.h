/* Programs note about a model's file that it changed meanwhile, or asks for something that is not done here. */
#ifndef ATTN_NOTES_H
#define ATTN_NOTES_H

#include "model.h"
#include "sampling.h"

#include <stdio.h>

/* Tells on stderr if the model's file (NULL: there is none) was written to while it was used. */
void note_changed(const char *program, const Model *model);

/* The names of what the model's file asks for and a sampler does not do; and a note of them, if there are any. */
void print_not_done(FILE *out, const SamplingFields *fields);
void note_not_done(const char *program, const SamplingFields *fields);

#endif
