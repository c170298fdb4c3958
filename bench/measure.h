/* The speed of one checkpoint, held against limits that are measured right beside it. */
#ifndef ATTN_BENCH_MEASURE_H
#define ATTN_BENCH_MEASURE_H

#include "base/error.h"
#include "kernels/kernels.h"
#include "peaks.h"

#include <stdbool.h>
#include <stddef.h>

enum { N_CONTEXTS = 3, N_FEW = 4, MAX_CONTEXT = 4096, MAX_REPEATS = 99 };

extern const size_t few_tokens[N_FEW]; /* 2, 4, 8, 16 */

/* The needs of a measurement. All borrowed. */
typedef struct Bench {
    const char *program; /* our own path, to be started anew */
    Compute compute;
    Peaks *peaks;
    DType kv_dtype;     /* of the caches */
    size_t max_context; /* generation is not measured beyond it */
} Bench;

/* Medians over the repeats of one measurement. */
typedef struct Speed {
    double tokens_per_s;
    double rate;  /* bytes or operations a second */
    double limit; /* of the machine's memory or arithmetic, in the same unit; 0: not known */
    double share; /* median of each repeat's share of its own limit, not rate / limit */
} Speed;

typedef struct Row {
    const char *shape, *type; /* "gpt2-124m" or a file's path; "Q4_K_M", or what most weights of a file are */
    double bytes_per_token;   /* of the weights that one token reads */
    size_t n_prompt;
    Speed prompt; /* against arithmetic */
    bool has_context[N_CONTEXTS];
    size_t context[N_CONTEXTS];
    Speed generate[N_CONTEXTS]; /* tokens one by one from that context on, against memory */
    double few[N_FEW]; /* time of so many tokens over that of one, or of as many of the prompt; 0: no room */
    double extra_mib;  /* memory beyond file and KV cache */
    double first_ms;   /* from a process's start to its first logits */
} Row;

/*
 * Fills in all of row except `shape` and, unless it is NULL, `type`, which name it in the progress. False with an error
 * also after Ctrl-C.
 */
bool measure_checkpoint(const Bench *bench, Row *row, const char *path, int n_repeats, Error *error);

/* The timed process does this: everything between a program's start and the logits after 5 tokens. */
bool reach_first_logits(const char *path, const Compute *compute, Error *error);

#endif
