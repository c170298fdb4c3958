#include "measures/flow.h"

#include <string.h>

/* Node i of layer l is l·n + i. */
static size_t source_of(const Flow *flow) { return flow->n_layers * flow->n + flow->n - 1; }

bool flow_begin(Flow *flow, Arena *arena, Error *error) {
    size_t n_nodes = (flow->n_layers + 1) * flow->n;
    flow->used = arena_new(arena, flow->n_layers * flow->n, flow->n * sizeof *flow->used);
    flow->level = arena_new(arena, n_nodes, sizeof *flow->level);
    flow->next = arena_new(arena, n_nodes, sizeof *flow->next);
    flow->path = arena_new(arena, n_nodes, sizeof *flow->path);
    return arena_ok(arena, error, "a flow through %zu layers of %zu tokens", flow->n_layers, flow->n);
}

/*
 * Edge e of a node: down to node e of the layer below, or, from n on, back up to node e − n of the layer above. *room is
 * what may still go along it, *used where that is booked. False where there is no such edge.
 */
static bool edge_of(const Flow *flow, size_t node, size_t e, size_t *to, int64_t *room, size_t *place) {
    size_t n = flow->n, layer = node / n, i = node % n;
    bool down = e < n;
    if (down ? layer == 0 || e > i : layer == flow->n_layers || e - n < i) return false;
    *to = down ? node - i - n + e : node - i + e;
    *place = down ? ((layer - 1) * n + i) * n + e : (layer * n + e - n) * n + i;
    *room = down ? flow->capacity[*place] - flow->used[*place] : flow->used[*place];
    return *room > 0;
}

/* The level of every node that the source still reaches; whether the target is among them. */
static bool find_levels(Flow *flow, size_t target) {
    size_t n_nodes = (flow->n_layers + 1) * flow->n, first = 0, end = 1, to, place;
    int64_t room;
    memset(flow->level, 0xff, n_nodes * sizeof *flow->level);
    flow->path[0] = source_of(flow);
    flow->level[source_of(flow)] = 0;
    while (first < end && flow->level[target] == SIZE_MAX) {
        size_t node = flow->path[first++];
        for (size_t e = 0; e < 2 * flow->n; e++)
            if (edge_of(flow, node, e, &to, &room, &place) && flow->level[to] == SIZE_MAX) {
                flow->level[to] = flow->level[node] + 1;
                flow->path[end++] = to;
            }
    }
    return flow->level[target] != SIZE_MAX;
}

/* The next edge of a node that leads a level on; false: there is none left. */
static bool find_edge(Flow *flow, size_t node, size_t *to) {
    size_t place;
    int64_t room;
    for (; flow->next[node] < 2 * flow->n; flow->next[node]++)
        if (edge_of(flow, node, flow->next[node], to, &room, &place) &&
            flow->level[*to] == flow->level[node] + 1)
            return true;
    return false;
}

/* Sends as much as it holds along a path of n_path nodes. */
static int64_t send(Flow *flow, size_t n_path) {
    int64_t least = INT64_MAX, room = 0;
    size_t to, place = 0;
    for (size_t k = 0; k + 1 < n_path; k++) {
        edge_of(flow, flow->path[k], flow->next[flow->path[k]], &to, &room, &place);
        if (room < least) least = room;
    }
    for (size_t k = 0; k + 1 < n_path; k++) {
        size_t node = flow->path[k], e = flow->next[node];
        edge_of(flow, node, e, &to, &room, &place);
        flow->used[place] += e < flow->n ? least : -least;
    }
    return least;
}

/* Fills all ways along the levels; what goes through them. */
static int64_t fill_levels(Flow *flow, size_t target) {
    size_t source = source_of(flow), n_path = 1, to;
    int64_t sum = 0;
    memset(flow->next, 0, (flow->n_layers + 1) * flow->n * sizeof *flow->next);
    flow->path[0] = source;
    while (n_path > 0) {
        size_t node = flow->path[n_path - 1];
        if (node == target) {
            sum += send(flow, n_path);
            n_path = 1;
        } else if (find_edge(flow, node, &to)) {
            flow->path[n_path++] = to;
        } else if (--n_path > 0) {
            flow->next[flow->path[n_path - 1]]++; /* a dead end */
        }
    }
    return sum;
}

int64_t flow_to(Flow *flow, size_t target) {
    int64_t sum = 0;
    memset(flow->used, 0, flow->n_layers * flow->n * flow->n * sizeof *flow->used);
    while (find_levels(flow, target)) sum += fill_levels(flow, target);
    return sum;
}
