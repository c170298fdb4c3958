/*
 * The largest flow through layers of nodes (Dinic 1970): n in each of n_layers + 1, where an edge leads from node i of layer
 * l + 1 to node j ≤ i of layer l. Capacities are whole numbers, so the answer is exact.
 */
#ifndef ATTN_FLOW_H
#define ATTN_FLOW_H

#include "measures/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Flow {
    const int64_t *capacity; /* [n_layers][n][n]: of the edge from (l + 1, i) to (l, j), ≥ 0, 0 for j > i */
    size_t n_layers, n;

    int64_t *used; /* likewise: what flows */
    size_t *level; /* [n_nodes] edges from the source, SIZE_MAX: it cannot be reached */
    size_t *next;  /* [n_nodes] the edge to be tried next: of 2n, first those down */
    size_t *path;  /* [n_nodes] nodes from the source on; also the queue of levels */
} Flow;

/* Makes room. The first three fields are the caller's; their products must not overflow. */
bool flow_begin(Flow *flow, Arena *arena, Error *error);

/* From node n − 1 of the top layer to node `target` of layer 0. */
int64_t flow_to(Flow *flow, size_t target);

#endif
