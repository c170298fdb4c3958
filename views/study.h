/*
 * What the views of the study program share: the text under study, sessions with a probe on them, numbers
 * made of logits. Each view is one file of this folder and sees the forward pass through probe.h alone.
 */
#ifndef ATTN_STUDY_H
#define ATTN_STUDY_H

#include "cli.h"
#include "model.h"
#include "sampler.h"
#include "tokenizer.h"
#include "views/report.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As given on the command line; an option that the view does not know is refused before it runs. */
typedef struct StudyOptions {
    const char *model, *other; /* the files; other: compare's second */
    const char *prompt, *prompt_file, *tokenizer, *kv;
    int64_t n_threads, n_ctx, seed;
    bool bos, no_bos, special, json, ascii;

    int64_t layer, head, query;             /* −1: not given */
    const char *layers, *heads, *positions; /* lists: "0,3,5-7"; ablate's heads: "L3H7,L4H0" */
    const char *mlps, *by, *with, *sweep, *reduce, *token, *what, *output, *preset, *ablate, *svg;
    int64_t top, n_predict, top_k, repeat, batch;
    float temp, top_p, min_p;
    bool words, chunks, no_sink, norm, mid, frozen_norm, hard_zero, half;
} StudyOptions;

/* A model opened for study. */
typedef struct Study {
    const StudyOptions *options;
    const char *command;    /* the view's name */
    Model *model;           /* NULL in views that need none */
    Checkpoint *vocabulary; /* of -z, or NULL */
    Tokenizer *tokenizer;
    Threads *threads;
    Compute compute;
    TextBuffer text; /* the prompt's bytes, in views that read one */
    Tokens tokens;   /* of the text, BOS included */
    bool bos;        /* tokens.ids[0] is a BOS that stands before the text */
    uint64_t seed;
    Report report;
    int argc; /* the command line, the view's name first */
    char **argv;
} Study;

/* Opens the model at path and its vocabulary; study_close releases all that the study owns. */
bool study_open(Study *study, const char *path, Error *error);
void study_close(Study *study);

/*
 * The tokens of n bytes of text as the options ask (BOS, --special). Appends to *tokens; *bos says whether
 * a BOS was put in front. Fails when there would be none.
 */
bool study_encode(const Study *study, const char *text, size_t n, Tokens *tokens, bool *bos, Error *error);

/* --ctx-size, or the model's context. */
size_t study_n_ctx(const Study *study);

/* Whether the study's tokens fit that. */
bool study_check_length(const Study *study, Error *error);

/* A session for n_ctx positions (0: as many as the tokens of the study) that `probe` (or NULL) looks into. */
Session *study_session(const Study *study, size_t n_ctx, const Probe *probe, Error *error);

enum { LOGITS_CHUNK = 64 }; /* positions whose logits are held at a time */

/* Gets the logits [n_vocab] at each position in turn. */
typedef void LogitsVisit(void *user, size_t position, const float *logits);

/*
 * Feeds n tokens with progress on a terminal and an ear for Ctrl-C. With `each`, logits of all positions are
 * computed, LOGITS_CHUNK at a time, and shown to it; without, none are.
 */
bool study_feed(const Study *study, Session *session, const int32_t *ids, size_t n, LogitsVisit *each,
                void *user, Error *error);

/* Whether --predict fits the context behind the study's tokens. */
bool study_check_predict(const Study *study, Error *error);

/*
 * Lets the model write on behind the study's tokens, all of which have been fed, and after the last of which it
 * expects logits [n_vocab] (overwritten): up to --predict tokens, at --temp (0), until the text ends or Ctrl-C.
 * Each is appended to the study's tokens and fed; then `each`, which may be NULL, is called.
 */
bool study_generate(Study *study, Session *session, float *logits, void (*each)(void *user), void *user,
                    Error *error);

/* "L3H7"; n bytes are enough at 32. Returns buffer. */
const char *head_name(char *buffer, size_t layer, size_t head);

/*
 * Moves *at behind "L3H7", or (*one is false, *head untouched) behind "L3". False where there is neither. Numbers
 * that are too large become the largest.
 */
bool parse_head(const char **at, unsigned long long *layer, unsigned long long *head, bool *one);

/*
 * A list such as "0,3,5-7" over [0, n): chosen[i] is set for every member; NULL chooses all. Fails on a
 * number that is not below n, naming `what` ("layer").
 */
bool parse_list(const char *list, const char *what, size_t n, bool *chosen, Error *error);

/*
 * Whether -o is given and none of the files that are read, which it would replace. `example` is a name for it.
 */
bool study_check_output(const Study *study, const char *example, Error *error);

/* Whether a token of the text begins a word: the first, the next if that is BOS, those after white space. */
bool begins_word(const Study *study, size_t at);

/* The bytes of the study's tokens, end to end; token i's from offsets[i] to offsets[i + 1]. Starts as {0}. */
typedef struct JoinedText {
    char *bytes;
    size_t *offsets;
} JoinedText;

/* `special`: control tokens give their names. joined_free also after a failure. */
bool join_tokens(const Study *study, bool special, JoinedText *text, Error *error);
void joined_free(JoinedText *text);

/* Tokens [begin, end) of it as a JSON text. */
void json_joined(Report *report, const char *key, const JoinedText *text, size_t begin, size_t end);

/* Checks --layer, --head, --query against the model and the tokens; −1 passes. */
bool study_check_place(const Study *study, Error *error);

/*
 * The id of --token: a text that is exactly one token (tried as given and with a space before it), or "#123".
 */
bool study_token(const Study *study, const char *text, int32_t *id, Error *error);

/*
 * Which of n names the value of an option is; of no value (NULL) the first. The error names the option and
 * what it takes.
 */
bool parse_choice(const char *option, const char *value, const char *const *names, size_t n, size_t *choice,
                  Error *error);

/* --top, or what the view lists without it. */
static inline size_t study_top(const Study *study, size_t usual) {
    return study->options->top < 0 ? usual : (size_t)study->options->top;
}

static inline size_t at_most(size_t n, size_t limit) { return n < limit ? n : limit; }

/* The kv head that a head reads under grouped-query attention. */
static inline size_t kv_head_of(const Config *config, size_t head) {
    return head * config->n_head_kv / config->n_head;
}

/* ‖x‖ of n numbers; the sum in double. */
double vector_norm(const float *x, size_t n);

/* The final norm maps x [d_model] to (x − mean)/scale·gain + bias; RMSNorm's mean is 0. */
double norm_mean(const Config *config, const float *x);
double norm_scale(const Config *config, const float *x);

/* What a row of logits says, at temperature 1 and unfiltered; sums in double. */
typedef struct Distribution {
    double max, log_sum; /* ln p_i = logits[i] − log_sum */
    double entropy;      /* nats */
    int32_t best;        /* the lowest id among the likeliest */
} Distribution;

Distribution distribution_of(const float *logits, size_t n_vocab);

/*
 * Σ exp((logits[i] − max)/temperature), max ≥ all of them, to 1e-5 of itself down to e^-84; 0 where all are −∞. In
 * floats, by the kernel set: where every layer at every position is asked, distribution_of's doubles took most of the
 * time.
 */
double sum_of_exp(const Study *study, const float *logits, size_t n_vocab, float max, float temperature);

/* 1 + the number of tokens with a larger logit. */
size_t logits_rank(const float *logits, size_t n_vocab, int32_t id);

/* The k (≤ n_vocab) ids with the largest logits, largest first; ties by lower id. Returns k. */
size_t logits_top(const float *logits, size_t n_vocab, size_t k, int32_t *ids);

/* Likewise the places of the k (≤ n) largest of n numbers; ties by place. */
size_t largest_of(const double *values, size_t n, size_t k, size_t *places);

/* KL(p ‖ q) in nats of two rows of logits. */
double logits_kl(const float *p, const float *q, size_t n_vocab);

/* The views, each in its file: next.c, score.c … Return false with an error. */
typedef bool StudyView(Study *study, Error *error);
StudyView view_next, view_score, view_selfcheck, view_attend, view_dump, view_heads, view_lens, view_explain,
    view_ablate, view_compare, view_shape, view_case, view_view;

#endif
