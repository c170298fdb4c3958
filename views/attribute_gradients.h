/*
 * attribute --by gradient and --by ig: between the options and the files that answer. attribute_gradients.c has sites and
 * neurons (nodescores.h), attribute_edges.c the edges between heads, MLPs and embeddings (edgescores.h).
 */
#ifndef ATTN_ATTRIBUTE_GRADIENTS_H
#define ATTN_ATTRIBUTE_GRADIENTS_H

#include "base/error.h"
#include "cli/options.h"

#include <stdbool.h>
#include <stddef.h>

/* A member of AttributeView; it is copied from defaults, GRADIENT_DEFAULTS. */
typedef struct GradientOptions {
    const char *metric_name;
    size_t steps; /* SIZE_MAX: not given */
    bool noising, edges;
    size_t check;                  /* edges that are patched truly; 0: none */
    const char *dot, *svg, *graph; /* files */
} GradientOptions;

/* The name of an option that is given; NULL: none is. */
const char *gradient_option(const GradientOptions *gradient);

#define GRADIENT_DEFAULTS                                                                                    \
    { .steps = SIZE_MAX }

#define GRADIENT_OPTIONS(type, member)                                                                       \
    {"--metric", NULL, OPTION_ONCE, offsetof(type, member.metric_name)},                                     \
        {"--steps", NULL, OPTION_SIZE, offsetof(type, member.steps), 1, 1000},                               \
        {"--noising", NULL, OPTION_ON, offsetof(type, member.noising)},                                      \
        {"--edges", NULL, OPTION_ON, offsetof(type, member.edges)},                                          \
        {"--check", NULL, OPTION_SIZE, offsetof(type, member.check), 0, 1e6},                                \
        {"--dot", NULL, OPTION_ONCE, offsetof(type, member.dot), .file = true},                              \
        {"--svg", NULL, OPTION_ONCE, offsetof(type, member.svg), .file = true}, {                            \
        "--graph", NULL, OPTION_ONCE, offsetof(type, member.graph), .file = true                             \
    }

#define GRADIENT_HELP                                                                                              \
    "  --corrupted TEXT   the other text, of as many tokens as the clean one; without it a part's numbers times\n" \
    "                  their gradient\n"                                                                           \
    "  --steps N       of ig (10)     --noising   the corrupted text's numbers into the clean run\n"               \
    "  --metric logit_diff|logit|logprob   of the answer (logit_diff with --wrong, else logprob)\n"                \
    "  --neurons K     neurons that are listed (10)\n"                                                             \
    "  --edges         in place of parts: from each head, MLP and embedding to each that reads it\n"               \
    "  --check N       the N strongest edges are patched truly, too\n"                                             \
    "  --dot FILE, --svg FILE, --graph FILE   the --top K strongest edges as a graph for Graphviz, drawn, or\n"    \
    "                  for the viewer of circuit-tracer\n"

#endif
