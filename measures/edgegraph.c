#include "measures/edgegraph.h"

#include "measures/scores.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static size_t readers_of_heads(const EdgeGraph *graph) {
    return (graph->gated ? 2 : 1) * graph->n_head + 2 * graph->n_head_kv;
}

static size_t count_senders(const EdgeGraph *graph, Part reader) {
    if (reader.kind == PART_FINAL) return graph->n_senders;
    bool reads_layer = reader.kind == PART_MLP && !graph->parallel;
    return reads_layer ? graph->first_sender[reader.layer + 1] - 1 : graph->first_sender[reader.layer];
}

static void add_senders(EdgeGraph *graph, PartKind kind, size_t layer, size_t n) {
    for (size_t head = 0; head < n; head++) graph->senders[graph->n_senders++] = (Part){kind, layer, head};
}

static void add_readers(EdgeGraph *graph, PartKind kind, size_t layer, size_t n) {
    for (size_t head = 0; head < n; head++) graph->readers[graph->n_readers++] = (Part){kind, layer, head};
}

static void add_layer(EdgeGraph *graph, size_t layer, bool has_heads) {
    graph->first_sender[layer] = graph->n_senders;
    graph->first_reader[layer] = graph->n_readers;
    add_senders(graph, has_heads ? PART_HEAD : PART_STATE, layer, has_heads ? graph->n_head : 1);
    if (has_heads) {
        add_readers(graph, PART_QUERY, layer, graph->n_head);
        add_readers(graph, PART_KEY, layer, graph->n_head_kv);
        add_readers(graph, PART_VALUE, layer, graph->n_head_kv);
        add_readers(graph, PART_GATE, layer, graph->gated ? graph->n_head : 0);
    } else {
        add_readers(graph, PART_STATE, layer, 1);
    }
    add_senders(graph, PART_MLP, layer, 1);
    add_readers(graph, PART_MLP, layer, 1);
}

bool edgegraph_begin(EdgeGraph *graph, const Model *model, Arena *arena, Error *error) {
    const Config *config = model_config(model);
    size_t n_layer = config->n_layer;
    *graph = (EdgeGraph){.n_layer = n_layer,
                         .n_head = config->n_head,
                         .n_head_kv = config->n_head_kv,
                         .parallel = config->parallel_residual,
                         .gated = has_gated_heads(model)};
    size_t most = n_layer * (readers_of_heads(graph) + 1) + 1;
    graph->senders = arena_new(arena, n_layer * (graph->n_head + 1) + 1, sizeof *graph->senders);
    graph->readers = arena_new(arena, most, sizeof *graph->readers);
    graph->first_sender = arena_new(arena, n_layer + 1, sizeof *graph->first_sender);
    graph->first_reader = arena_new(arena, n_layer + 1, sizeof *graph->first_reader);
    graph->first = arena_new(arena, most + 1, sizeof *graph->first);
    if (!arena_ok(arena, error, "%zu readers", most)) return false;
    add_senders(graph, PART_EMBED, 0, 1);
    for (size_t layer = 0; layer < n_layer; layer++) add_layer(graph, layer, layer_has_heads(model, layer));
    graph->first_sender[n_layer] = graph->n_senders;
    graph->first_reader[n_layer] = graph->n_readers;
    add_readers(graph, PART_FINAL, 0, 1);
    for (size_t i = 0; i < graph->n_readers; i++)
        graph->first[i + 1] = graph->first[i] + count_senders(graph, graph->readers[i]);
    graph->n_edges = graph->first[graph->n_readers];
    return true;
}

size_t sender_of(const EdgeGraph *graph, Part part) {
    if (part.kind == PART_EMBED) return 0;
    return part.kind == PART_MLP ? graph->first_sender[part.layer + 1] - 1
                                 : graph->first_sender[part.layer] + part.head;
}

size_t reader_of(const EdgeGraph *graph, Part part) {
    size_t at = graph->first_reader[part.layer] + part.head;
    switch (part.kind) {
    case PART_KEY: return at + graph->n_head;
    case PART_VALUE: return at + graph->n_head + graph->n_head_kv;
    case PART_GATE: return at + graph->n_head + 2 * graph->n_head_kv;
    case PART_MLP: return graph->first_reader[part.layer + 1] - 1;
    case PART_FINAL: return graph->n_readers - 1;
    default: return at;
    }
}

EdgeEnds edge_ends(const EdgeGraph *graph, size_t edge) {
    size_t low = 0, high = graph->n_readers; /* the reader lies in [low, high) */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (graph->first[middle] <= edge)
            low = middle;
        else
            high = middle;
    }
    return (EdgeEnds){edge - graph->first[low], low};
}

/* The final norm reads all senders. */
bool unit_is_in(const EdgeGraph *graph, UnitKind kind, size_t unit, const bool *in) {
    return in[kind == UNIT_NODE ? graph->first[graph->n_readers - 1] + unit : unit];
}

void unit_put(const EdgeGraph *graph, UnitKind kind, size_t unit, bool *in, bool value) {
    if (kind == UNIT_EDGE) in[unit] = value;
    for (size_t reader = 0; kind == UNIT_NODE && reader < graph->n_readers; reader++)
        if (unit < reader_senders(graph, reader)) in[graph->first[reader] + unit] = value;
}

const char *graph_name(char *buffer, Part part) {
    static const char *const letters[] = {
        [PART_QUERY] = ".q", [PART_KEY] = ".k", [PART_VALUE] = ".v", [PART_GATE] = ".g"};
    switch (part.kind) {
    case PART_EMBED: snprintf(buffer, 64, "embed"); break;
    case PART_FINAL: snprintf(buffer, 64, "final"); break;
    case PART_STATE: snprintf(buffer, 64, "L%zuSTATE", part.layer); break;
    case PART_MLP: snprintf(buffer, 64, "L%zuMLP", part.layer); break;
    case PART_HEAD: snprintf(buffer, 64, "L%zuH%zu", part.layer, part.head); break;
    default: snprintf(buffer, 64, "L%zuH%zu%s", part.layer, part.head, letters[part.kind]); break;
    }
    return buffer;
}

static bool parse_word(const char **at, const char *word) {
    size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0) return false;
    *at += n;
    return true;
}

/* Digits below `limit`. */
static bool parse_number(const char **at, size_t limit, size_t *number) {
    if (!isdigit((unsigned char)**at)) return false;
    for (*number = 0; isdigit((unsigned char)**at) && *number < limit; (*at)++)
        *number = 10 * *number + (size_t)(**at - '0');
    return *number < limit;
}

bool parse_part(const EdgeGraph *graph, const char **at, bool sends, Part *part) {
    *part = (Part){sends ? PART_EMBED : PART_FINAL, 0, 0};
    if (parse_word(at, sends ? "embed" : "final")) return true;
    if (!parse_word(at, "L") || !parse_number(at, graph->n_layer, &part->layer)) return false;
    part->kind = PART_MLP;
    if (parse_word(at, "MLP")) return true;
    part->kind = PART_STATE;
    if (graph_keeps_state(graph, part->layer)) return parse_word(at, "STATE");
    part->kind = PART_HEAD;
    if (!parse_word(at, "H") || !parse_number(at, graph->n_head, &part->head)) return false;
    if (sends) return true;
    part->kind = parse_word(at, ".q")                   ? PART_QUERY
                 : parse_word(at, ".k")                 ? PART_KEY
                 : graph->gated && parse_word(at, ".g") ? PART_GATE
                                                        : PART_VALUE;
    bool is_kv = part->kind == PART_KEY || part->kind == PART_VALUE;
    return (part->kind != PART_VALUE || parse_word(at, ".v")) && (!is_kv || part->head < graph->n_head_kv);
}
