/*
 * A model as a graph (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"; Conmy et al. 2023,
 * arXiv:2304.14997): senders, which add to the residual stream, and readers, each of which reads the sum of all before it. An
 * edge leads from a sender to a reader behind it.
 *
 *   senders   the embeddings (with the positions'); in each layer its heads, then its MLP (or experts)
 *   readers   in each layer its heads' queries, the kv heads' keys and values, the heads' gates where they have some (Qwen3.5),
 *             and its MLP; then the final norm
 *
 * A state in the place of a layer's heads is one sender and one reader, as an MLP is.
 *
 * The senders that a reader reads are the first so many of all. A head's share of attention's bias is the same as that of
 * any other, and so no part of a difference.
 */
#ifndef ATTN_EDGEGRAPH_H
#define ATTN_EDGEGRAPH_H

#include "measures/arena.h"
#include "model.h"

typedef enum PartKind {
    PART_EMBED,
    PART_HEAD,
    PART_STATE,
    PART_MLP,
    PART_QUERY,
    PART_KEY,
    PART_VALUE,
    PART_GATE,
    PART_FINAL
} PartKind;

typedef struct Part {
    PartKind kind;
    size_t layer, head; /* 0 where there is none; of keys and values the kv head */
} Part;

typedef struct EdgeGraph {
    size_t n_layer, n_head, n_head_kv;
    bool parallel; /* an MLP reads what attention reads */
    bool gated;    /* heads have gates */
    size_t n_senders, n_readers, n_edges;
    Part *senders, *readers;             /* [n_senders], [n_readers] */
    size_t *first_sender, *first_reader; /* [n_layer + 1] of each layer; its MLP is its last */
    size_t *first; /* [n_readers + 1] the first edge of each reader; its edges are in the order of senders */
} EdgeGraph;

/* How many readers of a layer are not its MLP. */
static inline size_t heads_readers(const EdgeGraph *graph, size_t layer) {
    return graph->first_reader[layer + 1] - graph->first_reader[layer] - 1;
}

/* Whether a layer keeps a state in the place of heads. */
static inline bool graph_keeps_state(const EdgeGraph *graph, size_t layer) {
    return graph->senders[graph->first_sender[layer]].kind == PART_STATE;
}

/* Fails when memory runs out. */
bool edgegraph_begin(EdgeGraph *graph, const Model *model, Arena *arena, Error *error);

static inline Part sender_part(const EdgeGraph *graph, size_t sender) { return graph->senders[sender]; }
static inline Part reader_part(const EdgeGraph *graph, size_t reader) { return graph->readers[reader]; }
size_t sender_of(const EdgeGraph *graph, Part part);
size_t reader_of(const EdgeGraph *graph, Part part);

/* How many senders it reads. */
static inline size_t reader_senders(const EdgeGraph *graph, size_t reader) {
    return graph->first[reader + 1] - graph->first[reader];
}

/* The ends of an edge. */
typedef struct EdgeEnds {
    size_t sender, reader;
} EdgeEnds;

EdgeEnds edge_ends(const EdgeGraph *graph, size_t edge);

/*
 * A circuit takes or leaves one of these as a whole: an edge, or a node, which is a sender with all edges that lead away from
 * it (Mueller et al. 2025, arXiv:2504.13151, name them so). unit_put marks its edges in `in` [n_edges]; unit_is_in: whether
 * they are.
 */
typedef enum UnitKind { UNIT_EDGE, UNIT_NODE } UnitKind;

static inline size_t n_units(const EdgeGraph *graph, UnitKind kind) {
    return kind == UNIT_NODE ? graph->n_senders : graph->n_edges;
}

/* Its ends: of a node the sender alone. */
static inline EdgeEnds unit_ends(const EdgeGraph *graph, UnitKind kind, size_t unit) {
    return kind == UNIT_NODE ? (EdgeEnds){unit, 0} : edge_ends(graph, unit);
}

void unit_put(const EdgeGraph *graph, UnitKind kind, size_t unit, bool *in, bool value);
bool unit_is_in(const EdgeGraph *graph, UnitKind kind, size_t unit, const bool *in);

/* "embed", "L3H4", "L4STATE", "L5MLP", "L5H2.q", "final"; 64 bytes are enough. Returns buffer. */
const char *graph_name(char *buffer, Part part);

/* Moves *at behind the name of a sender, or a reader, that the graph has. */
bool parse_part(const EdgeGraph *graph, const char **at, bool sends, Part *part);

#endif
