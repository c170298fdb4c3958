/* The strongest edges of a model as files: a graph for Graphviz, a drawing, and what circuit-tracer's viewer opens. */
#ifndef ATTN_EDGE_DRAWING_H
#define ATTN_EDGE_DRAWING_H

#include "cli/report.h"
#include "measures/edgegraph.h"

#include <stdio.h>

typedef struct DrawnEdge {
    EdgeEnds ends;
    double score;
    double *tokens; /* [n_tokens] of the embeddings' edges, by position, or NULL */
} DrawnEdge;

typedef struct EdgeDrawing {
    const EdgeGraph *graph;
    const DrawnEdge *edges; /* [n_edges] the strongest first */
    size_t n_edges;
    const Report *report; /* that shows tokens */

    /* For the viewer alone. */
    const int32_t *tokens; /* [n_tokens] of the text */
    size_t n_tokens;
    String prompt; /* all of them as one text: a character may be split over some */
    int32_t answer;
    double probability; /* of the answer */
    const char *model;
} EdgeDrawing;

void drawing_dot(FILE *file, const EdgeDrawing *drawing);
void drawing_svg(FILE *file, const EdgeDrawing *drawing);

/*
 * JSON as circuit-tracer's frontend reads it (graph_models.py): heads and MLPs stand at the last position, a head's query,
 * key and value together; the embeddings at their own.
 */
void drawing_graph(FILE *file, const EdgeDrawing *drawing);

#endif
