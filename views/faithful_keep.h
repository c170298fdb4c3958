/* The circuit that faithful --keep gives: heads, states and MLPs, with all edges among them, or edges. */
#ifndef ATTN_FAITHFUL_KEEP_H
#define ATTN_FAITHFUL_KEEP_H

#include "base/error.h"
#include "measures/arena.h"
#include "measures/edgegraph.h"

#include <stdbool.h>

/* Marks in `in` [n_edges] the edges of a list, such as "L3H4,L5MLP" or "L3H4:L5H2.q"; circuits of nodes take no edges. */
bool keep_read(const char *list, const EdgeGraph *graph, UnitKind unit, bool *in, Arena *arena, Error *error);

#endif
