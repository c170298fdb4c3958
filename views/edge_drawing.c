#include "views/edge_drawing.h"

#include "cli/print.h"

#include <math.h>
#include <string.h>

/* Pixels of a drawing. */
enum { LAYER = 108, SLOT = 46, BOX_WIDTH = 38, BOX_HEIGHT = 20, LEFT = 52, EDGE_ROOM = 34, MOST_WIDE = 1400 };

static bool shares_keys(const EdgeGraph *graph) { return graph->n_head_kv < graph->n_head; }

/* The part that a reader belongs to, as it is drawn: of keys and values their head, or kv head where heads share them. */
static Part owner(const EdgeGraph *graph, Part part) {
    bool is_kv = part.kind == PART_KEY || part.kind == PART_VALUE;
    if (part.kind == PART_QUERY || part.kind == PART_GATE || (is_kv && !shares_keys(graph)))
        return (Part){PART_HEAD, part.layer, part.head};
    return is_kv ? (Part){PART_KEY, part.layer, part.head} : part;
}

static const char *letter(Part part) {
    static const char *const letters[] = {
        [PART_QUERY] = "q", [PART_KEY] = "k", [PART_VALUE] = "v", [PART_GATE] = "g", [PART_FINAL] = NULL};
    return letters[part.kind] ? letters[part.kind] : "";
}

/* "L3H4", "L3KV1", "L3STATE", "L3MLP", "embed", "final" */
static const char *owner_name(char *name, Part part) {
    if (part.kind != PART_KEY) return graph_name(name, part);
    snprintf(name, 64, "L%zuKV%zu", part.layer, part.head);
    return name;
}

static double largest(const EdgeDrawing *drawing) {
    double most = 0;
    for (size_t i = 0; i < drawing->n_edges; i++) most = fmax(most, fabs(drawing->edges[i].score));
    return most > 0 ? most : 1;
}

static bool same_part(Part a, Part b) { return a.kind == b.kind && a.layer == b.layer && a.head == b.head; }

static Part from_of(const EdgeDrawing *drawing, size_t i) {
    return sender_part(drawing->graph, drawing->edges[i].ends.sender);
}
static Part to_of(const EdgeDrawing *drawing, size_t i) {
    return reader_part(drawing->graph, drawing->edges[i].ends.reader);
}

/* The parts that edges touch, each once: calls `each` with it. */
static void for_each_part(const EdgeDrawing *drawing, void (*each)(void *user, Part part), void *user) {
    for (size_t i = 0; i < 2 * drawing->n_edges; i++) {
        Part part = i % 2 ? owner(drawing->graph, to_of(drawing, i / 2)) : from_of(drawing, i / 2);
        bool seen = false;
        for (size_t j = 0; j < i && !seen; j++)
            seen = same_part(part,
                             j % 2 ? owner(drawing->graph, to_of(drawing, j / 2)) : from_of(drawing, j / 2));
        if (!seen) each(user, part);
    }
}

static const char *colour(double score) { return score < 0 ? "#b2182b" : "#2166ac"; }

/* Graphviz. */

static void dot_node(void *user, Part part) {
    char name[64];
    FILE *file = user;
    bool round = part.kind == PART_EMBED || part.kind == PART_FINAL;
    owner_name(name, part);
    fprintf(file, "  \"%s\" [label=\"%s\", shape=%s];\n", name, part.kind == PART_FINAL ? "logits" : name,
            round                                              ? "ellipse"
            : part.kind == PART_MLP || part.kind == PART_STATE ? "box"
                                                               : "box, style=rounded");
}

/* Where heads share keys and values, who of those drawn has them. */
typedef struct DotSharing {
    FILE *file;
    const EdgeGraph *graph;
} DotSharing;

/* The kv head that a head reads. */
static Part kv_of(const EdgeGraph *graph, Part head) {
    return (Part){PART_KEY, head.layer, head.head * graph->n_head_kv / graph->n_head};
}

static void dot_shared(void *user, Part part) {
    const DotSharing *sharing = user;
    char name[64], shared[64];
    if (part.kind != PART_HEAD || !shares_keys(sharing->graph)) return;
    Part kv = kv_of(sharing->graph, part);
    fprintf(sharing->file, "  \"%s\" -> \"%s\" [style=dotted, arrowhead=none, color=gray];\n",
            owner_name(shared, kv), owner_name(name, part));
}

void drawing_dot(FILE *file, const EdgeDrawing *drawing) {
    char from[64], to[64];
    double most = largest(drawing);
    fputs("digraph edges {\n  rankdir=BT;\n  node [fontname=Helvetica, fontsize=10];\n"
          "  edge [fontname=Helvetica, fontsize=8];\n",
          file);
    for_each_part(drawing, dot_node, file);
    for (size_t i = 0; i < drawing->n_edges; i++) {
        double score = drawing->edges[i].score;
        fprintf(file, "  \"%s\" -> \"%s\" [label=\"%s\", penwidth=%.2f, color=\"%s\", tooltip=\"%+.4f\"];\n",
                owner_name(from, from_of(drawing, i)),
                owner_name(to, owner(drawing->graph, to_of(drawing, i))), letter(to_of(drawing, i)),
                0.5 + 4.5 * fabs(score) / most, colour(score), score);
    }
    for_each_part(drawing, dot_shared, &(DotSharing){file, drawing->graph});
    fputs("}\n", file);
}

/* A drawing. */

typedef struct Place {
    double x, y; /* of the middle of its box */
} Place;

static double slot_width(const EdgeGraph *graph) {
    double wide = (double)(graph->n_head + 1) * SLOT;
    return wide > MOST_WIDE ? MOST_WIDE / (double)(graph->n_head + 1) : SLOT;
}

static double width_of(const EdgeGraph *graph) {
    return LEFT + (double)(graph->n_head + 1) * slot_width(graph) + 12;
}
static double height_of(const EdgeGraph *graph) { return (double)graph->n_layer * LAYER + 96; }

/* Layers go upward; heads stand side by side, a state in their middle, the MLP beside them and higher. */
static Place place_of(const EdgeGraph *graph, Part part) {
    double slot = slot_width(graph), middle = LEFT + (double)graph->n_head * slot / 2;
    double y = height_of(graph) - 56 - (double)part.layer * LAYER - EDGE_ROOM;
    double group = (double)graph->n_head / (double)graph->n_head_kv;
    switch (part.kind) {
    case PART_EMBED: return (Place){middle, height_of(graph) - 22};
    case PART_FINAL: return (Place){middle, 22};
    case PART_STATE: return (Place){middle, y};
    case PART_MLP:
        return (Place){LEFT + ((double)graph->n_head + 0.5) * slot, y - (graph->parallel ? 0 : EDGE_ROOM)};
    case PART_KEY: return (Place){LEFT + ((double)part.head + 0.5) * group * slot, y + BOX_HEIGHT + 2};
    default: return (Place){LEFT + ((double)part.head + 0.5) * slot, y};
    }
}

static double box_width(const EdgeGraph *graph, Part part) {
    if (part.kind == PART_EMBED || part.kind == PART_FINAL) return 72;
    return fmin(BOX_WIDTH, slot_width(graph) - 3);
}

/* Where an edge enters: queries, keys and values beside each other. */
static double port_of(const EdgeGraph *graph, Part reader) {
    double third = box_width(graph, reader) / 3;
    bool shared = shares_keys(graph);
    switch (reader.kind) {
    case PART_QUERY: return shared ? 0 : -third;
    case PART_GATE: return shared ? third : 1.5 * third;
    case PART_KEY: return shared ? -third / 2 : 0;
    case PART_VALUE: return shared ? third / 2 : third;
    default: return 0;
    }
}

typedef struct SvgBoxes {
    FILE *file;
    const EdgeGraph *graph;
} SvgBoxes;

static void svg_box(void *user, Part part) {
    const SvgBoxes *boxes = user;
    Place at = place_of(boxes->graph, part);
    double width = box_width(boxes->graph, part), font = fmin(10, width / 2.6);
    char label[64];
    owner_name(label, part);
    const char *shown = part.kind == PART_FINAL      ? "logits"
                        : part.kind == PART_EMBED    ? "embeddings"
                        : part.kind == PART_MLP      ? "MLP"
                        : part.kind == PART_STATE    ? "state"
                        : strchr(label, 'H') != NULL ? strchr(label, 'H')
                                                     : strchr(label, 'K');
    fprintf(
        boxes->file,
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"%d\" fill=\"#fff\" stroke=\"#333\"/>"
        "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
        at.x - width / 2, at.y - BOX_HEIGHT / 2.0, width, BOX_HEIGHT,
        part.kind == PART_MLP || part.kind == PART_STATE ? 1 : 6, at.x, at.y + font * 0.35, font, shown);
}

static void svg_edge(FILE *file, const EdgeDrawing *drawing, size_t i, double most) {
    const EdgeGraph *graph = drawing->graph;
    Part reader = to_of(drawing, i);
    Place from = place_of(graph, from_of(drawing, i)), to = place_of(graph, owner(graph, reader));
    double score = drawing->edges[i].score, share = fabs(score) / most;
    double x = to.x + port_of(graph, reader), y = to.y + BOX_HEIGHT / 2.0, bend = fmax(18, (from.y - y) / 2);
    char names[2][64];
    fprintf(
        file,
        "<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.2f\" "
        "opacity=\"%.2f\"><title>%s to %s: %+.4f</title></path>\n",
        from.x, from.y - BOX_HEIGHT / 2.0, from.x, from.y - BOX_HEIGHT / 2.0 - bend, x, y + bend, x, y,
        colour(score), 0.6 + 5.4 * share, 0.45 + 0.5 * share, graph_name(names[0], from_of(drawing, i)),
        graph_name(names[1], reader), score);
    if (*letter(reader))
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"7\" fill=\"#555\">%s</text>\n", x + 2, y + 8,
                letter(reader));
}

void drawing_svg(FILE *file, const EdgeDrawing *drawing) {
    const EdgeGraph *graph = drawing->graph;
    double width = width_of(graph), height = height_of(graph), most = largest(drawing);
    fprintf(
        file,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
        "font-family=\"Helvetica, Arial, sans-serif\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
        width, height, width, height);
    for (size_t layer = 0; layer < graph->n_layer; layer++) {
        double y = place_of(graph, (Part){PART_HEAD, layer, 0}).y;
        fprintf(file, "<text x=\"6\" y=\"%.1f\" font-size=\"10\" fill=\"#555\">layer %zu</text>\n", y + 3,
                layer);
    }
    for (size_t i = drawing->n_edges; i-- > 0;) svg_edge(file, drawing, i, most);
    for_each_part(drawing, svg_box, &(SvgBoxes){file, graph});
    fprintf(file,
            "<text x=\"6\" y=\"14\" font-size=\"9\" fill=\"#2166ac\">raises the metric</text>"
            "<text x=\"6\" y=\"26\" font-size=\"9\" fill=\"#b2182b\">lowers it</text>"
            "<text x=\"6\" y=\"38\" font-size=\"9\" fill=\"#555\">widest: %.4g</text>\n</svg>\n",
            most);
}

/* circuit-tracer's graph. */

typedef struct GraphNodes {
    FILE *file;
    const EdgeDrawing *drawing;
} GraphNodes;

static void json_piece_of(FILE *file, const EdgeDrawing *drawing, int32_t id) {
    String piece = tokenizer_piece(drawing->report->tokenizer, id, true);
    print_json_characters(file, piece.data, piece.n);
}

/* The number of a part in its layer: heads, or a state, from 0 on, then the MLP, then kv heads. */
static size_t feature_of(const EdgeGraph *graph, Part part) {
    return part.kind == PART_MLP   ? graph->n_head
           : part.kind == PART_KEY ? graph->n_head + 1 + part.head
                                   : part.head;
}

/* Logits stand a layer above the last. */
static void node_id(char *id, const EdgeDrawing *drawing, Part part, size_t position) {
    const EdgeGraph *graph = drawing->graph;
    size_t last = drawing->n_tokens - 1;
    switch (part.kind) {
    case PART_EMBED: snprintf(id, 96, "E_%d_%zu", (int)drawing->tokens[position], position); break;
    case PART_FINAL: snprintf(id, 96, "%zu_%d_%zu", graph->n_layer + 1, (int)drawing->answer, last); break;
    default: snprintf(id, 96, "%zu_%zu_%zu", part.layer, feature_of(graph, part), last);
    }
}

static void graph_node(void *user, Part part) {
    const GraphNodes *nodes = user;
    const EdgeDrawing *drawing = nodes->drawing;
    const EdgeGraph *graph = drawing->graph;
    char id[96], name[64];
    if (part.kind == PART_EMBED || part.kind == PART_FINAL) return;
    size_t feature = feature_of(graph, part);
    node_id(id, drawing, part, 0);
    fprintf(
        nodes->file,
        ",\n{\"node_id\": \"%s\", \"feature\": %zu, \"layer\": \"%zu\", \"ctx_idx\": %zu, \"feature_type\": \"%s\", "
        "\"token_prob\": 0.0, \"is_target_logit\": false, \"run_idx\": 0, \"reverse_ctx_idx\": 0, \"jsNodeId\": "
        "\"%zu_%zu-0\", \"clerp\": \"%s\", \"influence\": null, \"activation\": null}",
        id, feature, part.layer, drawing->n_tokens - 1,
        part.kind == PART_MLP     ? "mlp"
        : part.kind == PART_STATE ? "state"
        : part.kind == PART_HEAD  ? "attention head"
                                  : "attention kv head",
        part.layer, feature, owner_name(name, part));
}

static void graph_token(FILE *file, const EdgeDrawing *drawing, size_t position) {
    int id = (int)drawing->tokens[position];
    fprintf(
        file,
        ",\n{\"node_id\": \"E_%d_%zu\", \"feature\": %zu, \"layer\": \"E\", \"ctx_idx\": %zu, \"feature_type\": "
        "\"embedding\", \"token_prob\": 0.0, \"is_target_logit\": false, \"run_idx\": 0, \"reverse_ctx_idx\": 0, "
        "\"jsNodeId\": \"E_%d-%zu\", \"clerp\": \"\", \"influence\": null, \"activation\": null}",
        id, position, position, position, id, position);
}

static void graph_logit(FILE *file, const EdgeDrawing *drawing) {
    char id[96];
    size_t layer = drawing->graph->n_layer + 1, last = drawing->n_tokens - 1;
    node_id(id, drawing, (Part){PART_FINAL, 0, 0}, 0);
    fprintf(
        file,
        "{\"node_id\": \"%s\", \"feature\": %d, \"layer\": \"%zu\", \"ctx_idx\": %zu, \"feature_type\": \"logit\", "
        "\"token_prob\": %.6g, \"is_target_logit\": true, \"run_idx\": 0, \"reverse_ctx_idx\": 0, \"jsNodeId\": "
        "\"L_%d-%zu\", \"clerp\": \"Output \\\"",
        id, (int)drawing->answer, layer, last, drawing->probability, (int)drawing->answer, last);
    json_piece_of(file, drawing, drawing->answer);
    fprintf(file, "\\\" (p=%.3f)\", \"influence\": null, \"activation\": null}", drawing->probability);
}

/* Edges between the same two nodes are one link; the first of them writes it. */
static bool link_weight(const EdgeDrawing *drawing, size_t i, double *weight) {
    Part from = from_of(drawing, i), to = owner(drawing->graph, to_of(drawing, i));
    *weight = 0;
    for (size_t j = 0; j < drawing->n_edges; j++) {
        if (!same_part(from, from_of(drawing, j)) || !same_part(to, owner(drawing->graph, to_of(drawing, j))))
            continue;
        if (j < i) return false;
        *weight += drawing->edges[j].score;
    }
    return true;
}

static void write_link(FILE *file, const EdgeDrawing *drawing, const char *from, Part to, double weight,
                       bool *first) {
    char id[96];
    node_id(id, drawing, to, 0);
    fprintf(file, "%s\n{\"source\": \"%s\", \"target\": \"%s\", \"weight\": %.9g}", *first ? "" : ",", from,
            id, weight);
    *first = false;
}

static double weight_of_token(const EdgeDrawing *drawing, size_t i, size_t position) {
    Part to = owner(drawing->graph, to_of(drawing, i));
    double weight = 0;
    for (size_t j = 0; j < drawing->n_edges; j++)
        if (drawing->edges[j].tokens && same_part(to, owner(drawing->graph, to_of(drawing, j))))
            weight += drawing->edges[j].tokens[position];
    return weight;
}

/* The list of links that is being written: the first has no comma in front. */
typedef struct GraphLinks {
    FILE *file;
    const EdgeDrawing *drawing;
    bool first;
} GraphLinks;

/* From a kv head to each head that reads it, with all that enters it: else what goes by keys and values would end there. */
static void graph_shared(void *user, Part part) {
    GraphLinks *links = user;
    const EdgeDrawing *drawing = links->drawing;
    char id[96];
    double weight = 0;
    if (part.kind != PART_HEAD || !shares_keys(drawing->graph)) return;
    const Part kv = kv_of(drawing->graph, part);
    for (size_t i = 0; i < drawing->n_edges; i++)
        if (same_part(kv, owner(drawing->graph, to_of(drawing, i)))) weight += drawing->edges[i].score;
    node_id(id, drawing, kv, 0);
    if (weight != 0) write_link(links->file, drawing, id, part, weight, &links->first);
}

static void graph_links(FILE *file, const EdgeDrawing *drawing) {
    GraphLinks links = {file, drawing, true};
    char id[96];
    double weight;
    for (size_t i = 0; i < drawing->n_edges; i++) {
        Part from = from_of(drawing, i), to = owner(drawing->graph, to_of(drawing, i));
        if (!link_weight(drawing, i, &weight)) continue;
        for (size_t at = 0; from.kind == PART_EMBED && at < drawing->n_tokens; at++) {
            double of_token = weight_of_token(drawing, i, at);
            node_id(id, drawing, from, at);
            if (of_token != 0) write_link(file, drawing, id, to, of_token, &links.first);
        }
        if (from.kind == PART_EMBED) continue;
        node_id(id, drawing, from, 0);
        write_link(file, drawing, id, to, weight, &links.first);
    }
    for_each_part(drawing, graph_shared, &links);
}

void drawing_graph(FILE *file, const EdgeDrawing *drawing) {
    fputs("{\"metadata\": {\"slug\": \"attn\", \"scan\": ", file);
    print_json_string(file, drawing->model, strlen(drawing->model));
    fputs(", \"transcoder_list\": [], \"prompt_tokens\": [", file);
    for (size_t i = 0; i < drawing->n_tokens; i++) {
        fputs(i ? ", \"" : "\"", file);
        json_piece_of(file, drawing, drawing->tokens[i]);
        putc('"', file);
    }
    fputs("], \"prompt\": \"", file);
    print_json_characters(file, drawing->prompt.data, drawing->prompt.n);
    fputs(
        "\", \"node_threshold\": null},\n\"qParams\": {\"pinnedIds\": [], \"supernodes\": [], \"linkType\": \"both\", "
        "\"clickedId\": \"\", \"sg_pos\": \"\"},\n\"nodes\": [\n",
        file);
    graph_logit(file, drawing);
    for (size_t i = 0; i < drawing->n_tokens; i++) graph_token(file, drawing, i);
    for_each_part(drawing, graph_node, &(GraphNodes){file, drawing});
    fputs("],\n\"links\": [", file);
    graph_links(file, drawing);
    fputs("]}\n", file);
}
