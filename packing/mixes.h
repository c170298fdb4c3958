/*
 * Which tensor gets which type: the mixes of llama-quantize (llama-quant.cpp of llama.cpp, September 2026) as a table. A
 * preset names the type of most matrices; some get more bits, some of them in some layers only; other small tensors keep
 * theirs. Vectors, biases and norms of 16 bits become F32, which ggml wants of them: folders have them so.
 *
 * Left out are its presets that want an importance matrix, and its special case for MXFP4 in BailingMoE 3.
 */
#ifndef ATTN_MIXES_H
#define ATTN_MIXES_H

#include "checkpoint/checkpoint.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Preset {
    const char *name;   /* llama-quantize's */
    uint32_t file_type; /* its number, which general.file_type holds */
    DType dtype;        /* of most matrices */
    unsigned rules;     /* which rules of the table are its own; 0: none */
} Preset;

/* The preset of that name, in letters of any case; NULL. preset_at(i), i < n_presets: all, the finest first. */
const Preset *preset_find(const char *name);
extern const size_t n_presets;
const Preset *preset_at(size_t i);

enum { NO_DTYPE = -1 };

typedef struct MixOptions {
    const Preset *preset;
    int output,
        embedding; /* the DType of the output matrix, of the embedding; or NO_DTYPE: as the preset has it */
    bool keep_output; /* the output matrix stays as it is, also where the embedding is that */
    bool pure;        /* all matrices get the preset's type */
} MixOptions;

/*
 * types[i] is the type of tensor i of the checkpoint, and *n_fallbacks how many have rows that no block of the type meant
 * for them divides, so that another one has taken its place. Fails where the architecture's keys are not what they should be.
 */
bool choose_types(const Checkpoint *checkpoint, const MixOptions *options, DType *types, size_t *n_fallbacks,
                  Error *error);

#endif
