/* How text is to be drawn: as somebody has given it, as the model's file says, or as is usual. */
#ifndef ATTN_SAMPLING_H
#define ATTN_SAMPLING_H

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Options of which none is given yet. */
#define SAMPLING_UNSET                                                                                       \
    {                                                                                                        \
        .temperature = NAN, .top_k = SIZE_MAX, .top_p = NAN, .min_p = NAN, .repeat_penalty = NAN,            \
        .presence_penalty = NAN, .frequency_penalty = NAN, .penalty_window = SIZE_MAX                        \
    }

/* The source of an option that a file may set, too: programs tell it with the value. */
typedef enum SamplingOrigin { ORIGIN_USUAL, ORIGIN_FILE, ORIGIN_GIVEN } SamplingOrigin;

typedef struct SamplingField {
    const char *name;  /* as an option of run has it, without the dashes */
    double value, off; /* off: the value that does nothing */
    SamplingOrigin origin;
    bool acts; /* it changes what is drawn: its step is done, and it is not off itself */
} SamplingField;

enum { N_SAMPLING_FIELDS = 8, MAX_PASSED_OVER = 16, MAX_NOT_DONE = 32 };

/*
 * `passed_over`: steps of the file's order that do nothing unless asked for, and are not done here. `not_done`: what else it asks
 * for, steps that nobody here knows among it; borrowed from it.
 */
typedef struct SamplingFields {
    SamplingField fields[N_SAMPLING_FIELDS];
    SamplingOrigin order;
    const char *passed_over[MAX_PASSED_OVER]; /* [n_passed_over] */
    size_t n_passed_over;
    String not_done[MAX_NOT_DONE]; /* the first of n_not_done */
    size_t n_not_done;
} SamplingFields;

/*
 * Settles what is not given: as the checkpoint says (general.sampling.temp and so on, as llama.cpp writes and reads them),
 * or as is usual: temperature 0.8, top-p 0.95, no more. What holds goes to *fields, unless that is NULL. Fails where a value
 * of the file makes no sense and nobody has given another; what is merely not done here is listed, and refuses nothing: an order
 * is the rest of its steps, or the usual one where none is left.
 */
bool sampling_settle(SamplerOptions *options, const Checkpoint *checkpoint, SamplingFields *fields,
                     Error *error);

/*
 * Settles what is not given so that it does nothing. Like sampling_settle it takes no longer a window than texts fill.
 */
void sampling_leave_out(SamplerOptions *options);

/* Whether values make sense that a caller of attn.h gave, by whose names errors call them; all others are checked as they are read. */
bool sampling_check(const SamplerOptions *options, Error *error);

/*
 * Names of steps with ';' between them ("top_k;temperature"), as llama.cpp has them. Those that do nothing here unless asked
 * for otherwise (dry, xtc …) are passed over. Fails for other words.
 */
bool sampling_parse_order(String names, uint64_t *order, Error *error);

#endif
