#include "measures/edgegraph.h"

#include "measures/scores.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static size_t senders_of_layer(const EdgeGraph *graph) { return graph->n_head + 1; }
static size_t readers_of_layer(const EdgeGraph *graph) { return graph->n_head + 2 * graph->n_head_kv + 1; }

static size_t count_senders(const EdgeGraph *graph, size_t reader) {
    Part part = reader_part(graph, reader);
    if (part.kind == PART_FINAL) return graph->n_senders;
    size_t before = 1 + part.layer * senders_of_layer(graph);
    return part.kind == PART_MLP && !graph->parallel ? before + graph->n_head : before;
}

/* Names what reads and writes the stream and is neither head nor MLP, and what takes the model all the same. */
static bool refuse(const Model *model, Error *error) {
    static const char *const rest =
        "no end of an edge; attribute --by gradient without --edges, patch and its "
        "--path take the model";
    const char *path = checkpoint_path(model_checkpoint(model));
    size_t n_layer = model_config(model)->n_layer, n_states = 0, first = 0;
    for (size_t layer = n_layer; layer-- > 0;)
        if (!layer_has_heads(model, layer)) n_states++, first = layer;
    if (n_states == 0)
        return error_set(error, "%s: a gate behind each head reads the stream, and is %s", path, rest);
    return error_set(
        error, "%s: %zu of %zu layers, L%zu the first, keep a state in attention's place%s, which is %s",
        path, n_states, n_layer, first,
        has_gated_heads(model) ? ", and the other layers' heads have gates" : "", rest);
}

bool edgegraph_begin(EdgeGraph *graph, const Model *model, Arena *arena, Error *error) {
    const Config *config = model_config(model);
    if (model_weights(model)->n_states || has_gated_heads(model)) return refuse(model, error);
    *graph = (EdgeGraph){.n_layer = config->n_layer,
                         .n_head = config->n_head,
                         .n_head_kv = config->n_head_kv,
                         .parallel = config->parallel_residual};
    graph->n_senders = 1 + graph->n_layer * senders_of_layer(graph);
    graph->n_readers = graph->n_layer * readers_of_layer(graph) + 1;
    graph->first = arena_new(arena, graph->n_readers + 1, sizeof *graph->first);
    if (!arena_ok(arena, error, "%zu readers", graph->n_readers)) return false;
    for (size_t i = 0; i < graph->n_readers; i++)
        graph->first[i + 1] = graph->first[i] + count_senders(graph, i);
    graph->n_edges = graph->first[graph->n_readers];
    return true;
}

Part sender_part(const EdgeGraph *graph, size_t sender) {
    if (sender == 0) return (Part){PART_EMBED, 0, 0};
    size_t layer = (sender - 1) / senders_of_layer(graph), at = (sender - 1) % senders_of_layer(graph);
    return at < graph->n_head ? (Part){PART_HEAD, layer, at} : (Part){PART_MLP, layer, 0};
}

Part reader_part(const EdgeGraph *graph, size_t reader) {
    size_t layer = reader / readers_of_layer(graph), at = reader % readers_of_layer(graph);
    if (layer == graph->n_layer) return (Part){PART_FINAL, 0, 0};
    if (at < graph->n_head) return (Part){PART_QUERY, layer, at};
    at -= graph->n_head;
    if (at == 2 * graph->n_head_kv) return (Part){PART_MLP, layer, 0};
    return (Part){at < graph->n_head_kv ? PART_KEY : PART_VALUE, layer, at % graph->n_head_kv};
}

size_t sender_of(const EdgeGraph *graph, Part part) {
    if (part.kind == PART_EMBED) return 0;
    return 1 + part.layer * senders_of_layer(graph) + (part.kind == PART_HEAD ? part.head : graph->n_head);
}

size_t reader_of(const EdgeGraph *graph, Part part) {
    size_t at = part.layer * readers_of_layer(graph);
    switch (part.kind) {
    case PART_QUERY: return at + part.head;
    case PART_KEY: return at + graph->n_head + part.head;
    case PART_VALUE: return at + graph->n_head + graph->n_head_kv + part.head;
    case PART_MLP: return at + graph->n_head + 2 * graph->n_head_kv;
    default: return graph->n_readers - 1;
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
    static const char *const letters[] = {[PART_QUERY] = ".q", [PART_KEY] = ".k", [PART_VALUE] = ".v"};
    switch (part.kind) {
    case PART_EMBED: snprintf(buffer, 64, "embed"); break;
    case PART_FINAL: snprintf(buffer, 64, "final"); break;
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
    part->kind = PART_HEAD;
    if (!parse_word(at, "H") || !parse_number(at, graph->n_head, &part->head)) return false;
    if (sends) return true;
    part->kind = parse_word(at, ".q") ? PART_QUERY : parse_word(at, ".k") ? PART_KEY : PART_VALUE;
    bool is_kv = part->kind != PART_QUERY;
    return (part->kind != PART_VALUE || parse_word(at, ".v")) && (!is_kv || part->head < graph->n_head_kv);
}
