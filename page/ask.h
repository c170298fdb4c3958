/* The questions of a page to the engine that it has, or to the server that it came from. */
#ifndef ATTN_ASK_H
#define ATTN_ASK_H

#include "views/view.h"

/* A view that a page may ask for (VIEWS), from its options to its JSON, as view_command does it. */
int view_ask(const OpenModel *opened, int argc, char **argv, Error *error);

#endif
