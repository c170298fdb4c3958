#include "views/faithful_keep.h"

#include <string.h>

/* A list, and the parts that it keeps. */
typedef struct Keep {
    const EdgeGraph *graph;
    bool of_nodes;
    bool *in;    /* [n_edges] */
    bool *heads; /* [n_layer][n_head] */
    bool *mlps;  /* [n_layer] */
    bool parts;  /* there were some, of which all edges among those kept are in */
} Keep;

/* The head, or heads, that a part belongs to: bit for bit those that are kept. */
static bool is_kept(const Keep *keep, Part part) {
    size_t n = keep->graph->n_head, group = n / keep->graph->n_head_kv;
    switch (part.kind) {
    case PART_HEAD:
    case PART_QUERY: return keep->heads[part.layer * n + part.head];
    case PART_MLP: return keep->mlps[part.layer];
    case PART_KEY:
    case PART_VALUE:
        for (size_t i = 0; i < group; i++)
            if (keep->heads[part.layer * n + part.head * group + i]) return true;
        return false;
    default: return true;
    }
}

static bool bad_keep(const char *list, bool of_nodes, Error *error) {
    return error_set(error, "--keep: '%s' is no list %s", list,
                     of_nodes ? "of nodes of this model, L3H4,L4H1,L5MLP"
                              : "such as L3H4,L4H1,L5MLP (all edges among them), or of edges of this model, "
                                "embed:L0MLP,L3H4:L5H2.q,L5H1:final");
}

/* One item of the list: a head, an MLP or an edge. */
static bool read_item(Keep *keep, const char **at) {
    const EdgeGraph *graph = keep->graph;
    Part from, to;
    if (!parse_part(graph, at, true, &from)) return false;
    if (**at != ':') {
        keep->parts = true;
        if (from.kind == PART_EMBED) return keep->of_nodes; /* they are in, as it is */
        if (from.kind == PART_HEAD) keep->heads[from.layer * graph->n_head + from.head] = true;
        if (from.kind == PART_MLP) keep->mlps[from.layer] = true;
        return true;
    }
    ++*at;
    if (keep->of_nodes || !parse_part(graph, at, false, &to)) return false;
    size_t sender = sender_of(graph, from), reader = reader_of(graph, to);
    if (sender >= reader_senders(graph, reader)) return false;
    keep->in[graph->first[reader] + sender] = true;
    return true;
}

static void keep_among(const Keep *keep, UnitKind kind) {
    const EdgeGraph *graph = keep->graph;
    for (size_t unit = 0; unit < n_units(graph, kind); unit++) {
        EdgeEnds ends = unit_ends(graph, kind, unit);
        if (is_kept(keep, sender_part(graph, ends.sender)) &&
            (keep->of_nodes || is_kept(keep, reader_part(graph, ends.reader))))
            unit_put(graph, kind, unit, keep->in, true);
    }
}

bool keep_read(const char *list, const EdgeGraph *graph, UnitKind unit, bool *in, Arena *arena,
               Error *error) {
    size_t n_layer = graph->n_layer;
    Keep keep = {.graph = graph,
                 .of_nodes = unit == UNIT_NODE,
                 .in = in,
                 .heads = arena_new(arena, n_layer * graph->n_head, 1),
                 .mlps = arena_new(arena, n_layer, 1)};
    if (!arena_ok(arena, error, "%zu layers", n_layer)) return false;
    for (const char *at = list;; at++) {
        if (!read_item(&keep, &at) || (*at && *at != ',')) return bad_keep(list, keep.of_nodes, error);
        if (!*at) break;
    }
    if (keep.parts && !memchr(keep.mlps, true, n_layer)) memset(keep.mlps, true, n_layer); /* none is named */
    if (keep.parts) keep_among(&keep, unit);
    return true;
}
