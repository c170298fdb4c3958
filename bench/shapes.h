/* The shapes of known models, and checkpoints of random weights in these shapes. */
#ifndef ATTN_BENCH_SHAPES_H
#define ATTN_BENCH_SHAPES_H

#include "base/error.h"
#include "kernels/dtype.h"
#include "model.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct ModelShape {
    const char *name, *family; /* family: "gpt2" or "llama" */
    uint32_t n_layer, n_head, n_head_kv, d_model, d_ff, n_vocab, n_ctx;
} ModelShape;

enum { N_MODEL_SHAPES = 2 };
extern const ModelShape model_shapes[N_MODEL_SHAPES]; /* gpt2-124m, tinyllama-1.1b */

/*
 * Which type which matrix gets. The presets of llama-quantize are mixes, and so are what people hold under their names:
 * Q4_0 too has its output matrix in Q6_K.
 */
typedef struct Mix {
    const char *name;
    DType most, output; /* output: also an embedding that serves as one */
    DType v, down;      /* attn_v, ffn_down */
    DType out, qkv;     /* attn_output; attn_qkv, which GPT-2 has for all three */
    bool some;          /* v and down are in half of the layers so, and as most in the others */
} Mix;

/*
 * The mix called name: a preset of llama-quantize ("Q4_K_M", "Q4_0"); or all matrices in one type, "all-Q4_0", or only
 * the type's name where no preset has it ("Q4_K"). It keeps a pointer to name. False: there is none.
 */
bool mix_find(Mix *mix, const char *name);

/* Bytes of a checkpoint's tensors; its header takes some KB more. */
uint64_t shape_bytes(const ModelShape *shape, const Mix *mix);

/*
 * Writes a GGUF checkpoint without a vocabulary: matrices of small random numbers, vectors and positions in F32.
 * False with an error when the file cannot be written, or after Ctrl-C.
 */
bool shape_write(const ModelShape *shape, const Mix *mix, FILE *file, Error *error);

/*
 * A checkpoint; or random weights of a type that mix_find knows, in a file that has no name: "Q4_K_M" in TinyLlama's shapes,
 * "gpt2-124m:Q8_0" in others.
 */
Model *shape_open(const char *asked, Error *error);

#endif
