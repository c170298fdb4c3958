/* The families of models, and how each differs. The forward pass reads it, and never asks which family it is. */
#ifndef ATTN_FAMILY_H
#define ATTN_FAMILY_H

#include "base/text.h"
#include "layers/norm.h"
#include "layers/rope.h"
#include "layers/states.h"
#include "mlp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a layer's norms stand. */
typedef enum NormPlaces {
    NORMS_BEFORE, /* attention and MLP read the normed residual stream */
    NORMS_BEHIND, /* what they make is normed before it is added (OLMo 2) */
    NORMS_AROUND, /* both (Gemma 2) */
} NormPlaces;

/* The input of a layer's MLP. */
typedef enum Residual {
    RESIDUAL_SERIAL,   /* what attention has added to */
    RESIDUAL_PARALLEL, /* what attention reads (GPT-J; Wang & Komatsuzaki 2021) */
    RESIDUAL_BY_KEY,   /* as the key use_parallel_residual says */
    RESIDUAL_BY_NORM,  /* parallel where a layer has no norm before its MLP */
} Residual;

/* Which layers turn their queries and keys, and how, where some have a window: local and global ones. */
typedef enum RopeLayers {
    ROPE_ALL_ALIKE,
    ROPE_LOCAL_APART, /* local layers have a base of their own and no scaling */
    ROPE_LOCAL_ONLY,  /* global layers do not turn */
} RopeLayers;

/* How a family differs from the others. What a row leaves out is as in GPT-2's or Llama's simplest layer. */
typedef struct Family {
    const char *architecture; /* general.architecture, and the prefix of its keys */
    NormKind norm;
    MlpKind mlp;
    RopePairing rope;
    NormPlaces norm_places;
    Residual residual;
    RopeLayers rope_layers;
    Mixer mixer;            /* of the layers that have its tensors; the others have attention */
    bool gated_attention;   /* behind each head's query W_q makes a gate of its z */
    const char *mlp_norm;   /* the name of its tensor, where it is not ffn_norm */
    const char *final_norm; /* where it is not output_norm */
    float base,
        local_base; /* θ, and that of local layers, where no key says it; 0: 10,000, and that of the others */
    float stretch; /* positions of 131,072 and more are so many times as close, where no key speaks of RoPE */
    float norm_eps;  /* where no key says it; 0: one must */
    uint32_t window; /* likewise of its windows; 0: it has none then */
    unsigned
        window_period; /* every so many layers the last is global; 0: all are local, if there is a window */
    unsigned no_rope_period;   /* every so many layers the last does not turn */
    unsigned layers_of_odd;    /* the size of this family, by its layers, whose … */
    bool odd_scale;            /* … scores are scaled by 1/√(d_model/n_head) */
    bool odd_alibi;            /* … heads have ALiBi instead of RoPE */
    float max_alibi_bias;      /* where no key says it */
    bool trained_neighbours;   /* RoPE's pairs were neighbours in training, too, and not only in GGUF */
    bool learned_positions;    /* position_embd is added to the embeddings */
    bool scales_embedding;     /* by √d_model */
    bool divides_logits;       /* logit_scale divides them; elsewhere it multiplies them */
    bool soft_caps;            /* of 50 on scores and of 30 on logits, where no key says them */
    bool logit_cap;            /* on logits, if a key says it */
    bool bare_norms;           /* norms have neither gain nor bias */
    bool biases;               /* linear layers and LayerNorms must have one; without, they may */
    bool renormalises_experts; /* the probabilities of the chosen add up to 1 */
    bool clamps_normed;        /* clamp_kqv holds behind the norms of queries and keys */
    bool yarn_exact;           /* rope.h */
    bool reads_pictures;       /* its files may have a tower for them beside the text's tensors: left out */
} Family;

/* The family whose architecture is so called; NULL: there is none. */
const Family *family_find(String architecture);

/* The architectures of all, "gpt2, llama, …"; what list [size] has no room for is cut off. */
void family_list(char *list, size_t size);

#endif
