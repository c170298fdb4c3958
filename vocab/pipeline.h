/*
 * The steps of a tokenizer.json before its model sees a text:
 *   added tokens in the text as it is ─► normaliser ─► added tokens in the normalised text ─► cuts ─► pieces
 * Each is a list of steps, which vocab/pipeline_json.c reads. All of it takes near-linear time.
 */
#ifndef ATTN_PIPELINE_H
#define ATTN_PIPELINE_H

#include "base/error.h"
#include "regex/pattern.h"
#include "unicode/normalize.h"
#include "vocab/pieces.h"
#include "vocab/prefixes.h"

enum {
    PIPELINE_STEPS = 32,
    PIPELINE_TEXT = 256 /* bytes of an added token, or of a text that is searched for */
};

/* The target of a search: a pattern or, where that is NULL, a text. */
typedef struct Needle {
    Pattern *pattern;
    String text;
} Needle;

typedef enum RewriteKind {
    REWRITE_FORM,
    REWRITE_LOWER,
    REWRITE_STRIP,
    REWRITE_PREPEND,
    REWRITE_REPLACE
} RewriteKind;

/* A step of the normaliser. */
typedef struct Rewrite {
    RewriteKind kind;
    NormalForm form;
    bool left, right; /* strip white space there */
    Needle needle;    /* what is replaced */
    String text;      /* by this; or what is put in front of a text that is not empty */
} Rewrite;

typedef enum CutKind {
    CUT_SPLIT,
    CUT_PREPEND, /* puts `text` in front of what does not begin with it */
    CUT_REPLACE, /* all `needle` become `text` */
    CUT_SPELL    /* bytes become GPT-2's characters for them */
} CutKind;

/* A split may treat its matches in these ways. */
typedef enum CutBehavior {
    CUT_ISOLATED,
    CUT_REMOVED,
    CUT_WITH_PREVIOUS,
    CUT_WITH_NEXT,
    CUT_CONTIGUOUS
} CutBehavior;

/* A step of the pre-tokenizer, for each piece that the steps before have cut. */
typedef struct Cut {
    CutKind kind;
    Needle needle;
    CutBehavior behavior;
    bool invert;     /* what lies between matches counts as match */
    bool first_only; /* CUT_PREPEND: only at the start of the whole text */
    String text;
} Cut;

/* A token that is found before the rest of a text is cut. */
typedef struct AddedToken {
    int32_t id;
    bool special;        /* steers the model and is not text */
    bool single_word;    /* not where a letter, number or mark is beside it */
    bool lstrip, rstrip; /* takes the white space beside it */
} AddedToken;

typedef struct Pipeline {
    AddedToken *added; /* [n_added] */
    size_t n_added;
    Prefixes as_is, normalized; /* their texts; id: index in added */
    Rewrite rewrites[PIPELINE_STEPS];
    Cut cuts[PIPELINE_STEPS];
    size_t n_rewrites, n_cuts;
    bool spelt;         /* pieces are spelt by GPT-2's characters, and are unspelt before they are given */
    Mappings *mappings; /* NULL where no step needs them */
    char **owned;       /* [n_owned] the texts above */
    size_t n_owned, owned_capacity;
} Pipeline;

/* Runs a text through it. Those tokens that steer, where origins count, are found as prefixes_find_own says. */
bool pipeline_run(const Pipeline *pipeline, const Uncut *uncut, const PieceTaker *taker, Error *error);

/* Appends the text as the normaliser rewrites it, whose steps may make `most` bytes. False when they, or memory, run out. */
bool pipeline_normalize(const Pipeline *pipeline, String text, size_t most, TextBuffer *out);

/* Appends the text with every match of the needle replaced. False when memory, or what `out` may hold, runs out. */
bool pipeline_replace(const Needle *needle, String with, String text, TextBuffer *out);

/* Frees all that it owns; it is {0} then. */
void pipeline_free(Pipeline *pipeline);

#endif
