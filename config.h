/* The numbers of a checkpoint, as its keys say them; binding.h has its tensors. */
#ifndef ATTN_CONFIG_H
#define ATTN_CONFIG_H

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "family.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_UNREAD = 12 };

/* A number that is not used is 0, or 1 where it is a factor. */
typedef struct Config {
    const Family *family;
    MlpKind mlp; /* the family's, or what the file says instead */
    size_t n_layer, n_head, n_head_kv;
    size_t n_unused_layers; /* behind them in the file: they predict tokens further on, and are left out */
    size_t d_model, d_head, d_ff;
    size_t n_vocab;
    size_t n_ctx;           /* positions that the model was trained for */
    size_t position_offset; /* rows of position_embd before that of position 0 */
    float norm_eps;
    bool rope_is_dynamic;        /* further positions turn by how long the text is, which is not done here */
    RopeConfig rope, local_rope; /* of global and of local layers; pairing ROPE_NONE: they do not turn */
    size_t window; /* keys that a query of a local layer sees, its own among them; 0: all are global */
    uint32_t window_period;  /* as in Family, if there are no window_layers */
    FlagArray window_layers; /* [n_layer] 1 where a layer is local; borrowed from the checkpoint */
    FlagArray rope_layers;   /* likewise where it turns; none: as in Family */
    float attention_scale;   /* of q·k; 0: 1/√d_head */
    float score_cap, clamp_qkv, max_alibi_bias;
    float embedding_scale, residual_scale, logit_scale, logit_cap;
    size_t n_expert, n_expert_used, d_ff_expert, d_ff_shared;
    StateShape state; /* of layers without attention */
    float expert_scale;
    bool renormalises_experts;
    bool parallel_residual; /* attention and MLP both read resid_pre */
    String unread
        [MAX_UNREAD]; /* keys of this family in the file that are not obeyed; borrowed from the checkpoint */
    size_t n_unread;  /* so many, of which the first are named */
    bool tied;        /* the unembedding is the embedding */
} Config;

/* Reads and checks the numbers of the checkpoint's family. Fails on what is missing, absurd or not supported. */
bool config_read(Config *config, const Checkpoint *checkpoint, Error *error);

/* Whether a layer has a window. */
bool config_is_local(const Config *config, size_t layer);

/* How a layer turns: &config->rope, &config->local_rope, or NULL. */
const RopeConfig *config_rope(const Config *config, size_t layer);

/* The kv head that a head reads under grouped-query attention. */
static inline size_t kv_head_of(const Config *config, size_t head) {
    return head * config->n_head_kv / config->n_head;
}

#endif
