/*
 * Directions in files: a vector for each of a model's layers, added to what leaves that layer. One format is llama.cpp's
 * control vector, a GGUF whose tensors direction.1, direction.2 … have d_model floats each: direction.L is added to the
 * residual stream behind layer L (from 0 on; there is none behind layer 0). The other is .npy: [n_layer][d_model], where a
 * row of zeros adds nothing, or one vector of no layer in particular.
 */
#ifndef ATTN_DIRECTIONS_H
#define ATTN_DIRECTIONS_H

#include "cli/output.h"
#include "measures/steering.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct Directions {
    size_t n_layer, d_model;
    float *data;        /* [n_layer][d_model]; of a single one its [d_model] alone */
    const float **rows; /* [n_layer] into data; NULL where there is none */
    bool single;        /* one vector for whichever layers; rows are all NULL */
    Error note;         /* the model that it says it is for is another; "": nothing of the kind */
} Directions;

/*
 * Reads a file of either format, which its content decides, for a model. Fails on vectors of another width, for layers that
 * it lacks, with numbers that are not finite, and on a file that holds anything else. directions_free in any case.
 *
 * A control vector also says for which architecture it was made, and of how many layers or vectors (controlvector.model_hint,
 * .layer_count). llama.cpp reads neither, and names differ between programs (a mistral is a llama in GGUF): so it is only
 * noted where they do not fit the model, which directions_note tells on stderr.
 */
bool directions_read(Directions *directions, const char *path, const Model *model, Error *error);
void directions_free(Directions *directions);
void directions_note(const char *program, const Directions *directions);

/* Whether a file of that name can hold rows [n_layer]: a control vector can have none behind layer 0. */
bool directions_fit(const char *path, const float *const *rows, Error *error);

/*
 * Writes rows [n_layer] each [d_model] or NULL, times `strength`: as .npy where path ends so, else as a control vector for
 * a model of this family. They fit. Under its name when it is whole.
 */
bool directions_write(const char *path, const Inputs *inputs, const float *const *rows, float strength,
                      const Model *model, Error *error);

enum { MAX_STRENGTH = 1000000 };

/* `run --steer FILE[:STRENGTH]`: the probe that steers a session. */
typedef struct Steer Steer;

/* Without an argument (NULL) *steer is NULL. steer_free accepts that. */
bool steer_open(Steer **steer, const char *argument, const Model *model, Error *error);
const Probe *steer_probe(Steer *steer);     /* NULL for NULL */
const char *steer_file(const Steer *steer); /* likewise: what was read */
void steer_note(const Steer *steer);
void steer_free(Steer *steer);

#endif
