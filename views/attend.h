/* The view attend in two parts: attend.c works the numbers out, attend_text.c writes them for people. */
#ifndef ATTN_ATTEND_H
#define ATTN_ATTEND_H

#include "measures/items.h"
#include "views/view.h"

enum {
    ITEM_WIDTH = 14,                  /* columns of a token */
    LABEL_WIDTH = 5 + ITEM_WIDTH + 1, /* its number, itself, a space */
};

/* A key of a row. */
typedef struct Key {
    const struct Attend *attend;
    size_t item;
    double weight, share; /* share: of the longest bar */
} Key;

typedef struct Attend {
    size_t layer, head, top, n_predict;
    const char *query, *reduce, *by;
    bool words;
    float temp;

    Study *study;
    Patterns patterns;     /* two of its fields are options */
    Generator *generator;  /* with -n; it has the text up to the token shown last */
    Items items;           /* of the patterns */
    JoinedText text;       /* of the prompt */
    bool single;           /* one query's row alone is shown */
    size_t first, n_shown; /* items whose rows are shown */
    size_t *places;        /* scratch, [items.n] */
    Key *strongest;        /* keys of a row, [items.n] */
} Attend;

/* An item's text; none of what is generated. */
String attend_word(const Attend *attend, size_t item);

/* Finds up to k strongest keys of a row's n; returns how many. They are in `strongest`, rows of this table. */
size_t attend_strongest(const Attend *attend, const double *row, size_t n, size_t k);
extern const Table attend_top;

/* Names a map: "L3H7", "L3 mean of 12 heads", "max of all heads". */
void attend_name(const Attend *attend, size_t map, char name[64]);

/* One dim line: what the numbers are. */
void attend_print_meaning(const Attend *attend);

/* An item's number and itself, in LABEL_WIDTH - 1 columns. */
void attend_print_label(const Attend *attend, size_t item);

/* The strongest keys of a row's n on what is left of a line, of which `used` columns are taken. */
void attend_print_strongest(const Attend *attend, const double *row, size_t n, size_t used);

/* The items shown of all maps, side by side as the window allows. */
void attend_print_maps(const Attend *attend);

/* One query's strongest keys in every map. */
void attend_print_query(const Attend *attend, size_t item);

#endif
