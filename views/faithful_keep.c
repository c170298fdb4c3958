#include "views/faithful_keep.h"

#include <string.h>

/* A list, and the nodes that it keeps. */
typedef struct Keep {
    const EdgeGraph *graph;
    bool of_nodes;
    bool *in;    /* [n_edges] */
    bool *nodes; /* [n_senders] */
    bool parts;  /* there were some, of which all edges among those kept are in */
} Keep;

/* Whether the node that a part belongs to is kept. */
static bool is_kept(const Keep *keep, Part part) {
    const EdgeGraph *graph = keep->graph;
    size_t group = graph->n_head / graph->n_head_kv;
    Part head = {PART_HEAD, part.layer, part.head};
    switch (part.kind) {
    case PART_HEAD:
    case PART_STATE:
    case PART_MLP: return keep->nodes[sender_of(graph, part)];
    case PART_QUERY:
    case PART_GATE: return keep->nodes[sender_of(graph, head)];
    case PART_KEY:
    case PART_VALUE: /* of any head that reads it */
        head.head *= group;
        return memchr(keep->nodes + sender_of(graph, head), true, group);
    default: return true;
    }
}

static bool bad_keep(const char *list, bool of_nodes, Error *error) {
    return error_set(error, "--keep: '%s' is no list %s", list,
                     of_nodes ? "of nodes of this model, L3H4,L4H1,L5MLP"
                              : "such as L3H4,L4H1,L5MLP (all edges among them), or of edges of this model, "
                                "embed:L0MLP,L3H4:L5H2.q,L5H1:final");
}

/* One item of the list: a node or an edge. */
static bool read_item(Keep *keep, const char **at) {
    const EdgeGraph *graph = keep->graph;
    Part from, to;
    if (!parse_part(graph, at, true, &from)) return false;
    if (**at != ':') {
        keep->parts = true;
        keep->nodes[sender_of(graph, from)] = true;
        return from.kind != PART_EMBED || keep->of_nodes; /* embeddings are in, as it is */
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

/* Where no node of a kind is named, all are kept. */
static void keep_all_unless_named(const Keep *keep, PartKind kind) {
    const EdgeGraph *graph = keep->graph;
    for (size_t i = 0; i < graph->n_senders; i++)
        if (keep->nodes[i] && sender_part(graph, i).kind == kind) return;
    for (size_t i = 0; i < graph->n_senders; i++)
        if (sender_part(graph, i).kind == kind) keep->nodes[i] = true;
}

bool keep_read(const char *list, const EdgeGraph *graph, UnitKind unit, bool *in, Arena *arena,
               Error *error) {
    Keep keep = {.graph = graph,
                 .of_nodes = unit == UNIT_NODE,
                 .in = in,
                 .nodes = arena_new(arena, graph->n_senders, 1)};
    if (!arena_ok(arena, error, "%zu nodes", graph->n_senders)) return false;
    for (const char *at = list;; at++) {
        if (!read_item(&keep, &at) || (*at && *at != ',')) return bad_keep(list, keep.of_nodes, error);
        if (!*at) break;
    }
    if (!keep.parts) return true;
    keep_all_unless_named(&keep, PART_MLP);
    keep_all_unless_named(&keep, PART_STATE);
    keep_among(&keep, unit);
    return true;
}
