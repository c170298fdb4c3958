/*
 * The view attribute between its files: attribute.c reads the options and says who answers; attribute_direct.c asks what
 * every part adds to a logit, attribute_gradients.c what gradients say of all parts, or of edges (attribute_edges.c), and
 * attribute_score.c what made a score of attention.
 */
#ifndef ATTN_ATTRIBUTE_H
#define ATTN_ATTRIBUTE_H

#include "views/attribute_gradients.h"
#include "views/pairs.h"

typedef enum AttributeBy { BY_DIRECT, BY_GRADIENT, BY_IG, BY_SCORE, N_ATTRIBUTE_BYS } AttributeBy;

typedef struct AttributeView {
    PairOptions pair; /* `corrupted` is not for --by direct */
    const char *by_name, *head_list, *score_list, *query_text;
    size_t query, top, neurons;
    GradientOptions gradient;

    Study *study;
    AttributeBy by;
    int32_t answer, wrong; /* tokens; wrong −1: there is none; of --pairs, of the pair under way */
    void *work;            /* what the way that was chosen keeps between `compute` and `show` */
} AttributeView;

/* A way to answer. Both are called in turn; all memory is the study's arena. */
typedef struct AttributeWay {
    bool (*check)(const StudyOptions *options, const AttributeView *view, Error *error);
    bool (*compute)(AttributeView *view, Error *error);
    bool (*show)(Report *report, AttributeView *view, Error *error);
} AttributeWay;

extern const AttributeWay attribute_direct, attribute_score, attribute_gradients;

#endif
