/*
 * The view `view` in its parts: page.c gathers the numbers, json.c writes them as JSON, file.c puts that into a
 * page, or draws a figure, which is a file.
 */
#ifndef ATTN_PAGE_H
#define ATTN_PAGE_H

#include "cli/output.h"
#include "measures/ablation.h"
#include "measures/effects.h"
#include "measures/heads.h"
#include "measures/lensrows.h"
#include "measures/patterns.h"
#include "measures/predictions.h"
#include "measures/scores.h"
#include "measures/traces.h"
#include "measures/writes.h"
#include "views/view.h"

/* The parts that a page may do without. */
enum {
    PART_PREDICTIONS = 1,
    PART_PATTERNS = 2,
    PART_LENS = 4,
    PART_TEXT = 8, /* heads on the text */
    PART_REPEAT = 16,
    PART_WRITES = 32,
    PART_EXPLAINED = 64,
    ALL_PARTS = 127,
};

/* The results of one pass over the text, by the model as it is or without what --ablate names. */
typedef struct Numbers {
    const struct Page *page;
    unsigned parts;
    const Session *session;
    Predictions predictions;
    LensRows lens;
    Traces traces;
    Writes writes;
    Effects effects; /* at the query; without heads where a gate stands behind z */
    Heads text;      /* without sums where there can be none */
} Numbers;

typedef struct Page {
    const char *output, *layer_list, *ablate, *svg, *part_list, *query_text;
    size_t from, to;          /* positions whose numbers are given */
    bool live, no_model, yes; /* a page with the engine, without a model in it, however large */
    size_t n_predict, top;
    size_t query; /* the position shown first, whose scores, and what heads write, the page has in any case */
    float temp;

    Study *study;
    const Config *config;
    OutputFile file;
    Patterns figure; /* of --svg */
    size_t n_prompt; /* tokens from here on were generated */
    bool ablated_only;
    unsigned parts; /* of --parts */
    bool ranged;    /* --from or --to is given */
    bool *layers;   /* [n_layer] whose heads' patterns are kept */
    Numbers as_is, changed;
    Heads repeat;      /* on random tokens, of the model as it is; without sums where there can be none */
    Ablation ablation; /* of --ablate */
    Difference difference;
    const char *made_by;   /* the command line */
    bool *named;           /* [n_vocab] tokens that the page names by id */
    unsigned char *levels; /* [n_tokens][2] norms on their way into the page */
} Page;

static inline bool has_part(const Numbers *numbers, unsigned part) { return numbers->parts & part; }

/* Writes the page's data; user is the Page. */
void page_json(void *user, FILE *file);

/* Opens the file of -o; writes the page, or the figure of --svg, and one line that tells of it; takes back what was not finished. */
bool page_file_open(Page *page, Error *error);
bool page_file_write(Page *page, Error *error);
void page_file_abandon(Page *page);

#endif
