/*
 * The one interface by which anyone sees, or changes, a vector on its way through the forward pass.
 * A Session without a probe pays nothing for it. Looking changes nothing, with one exception: a head
 * whose scores or pattern are watched is computed row by row instead of tile by tile, so its sums
 * round differently in the last bits.
 */
#ifndef ATTN_PROBE_H
#define ATTN_PROBE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * In the order of the forward pass; the names are those of TransformerLens's hooks, without hook_ and attn_, and with "mlp",
 * "ln1", "ln2" or "ln_final" in front where a hook's name alone does not say whose it is. A layer that keeps a state in
 * attention's place has no q, k, v, rot_q, rot_k, scores, pattern, z and result; one with experts no mlp_pre, mlp_pre_linear
 * and mlp_post, neither of its experts nor of the MLP beside them. Scales are to be looked at only.
 */
typedef enum ProbeSite {
    PROBE_EMBED,     /* [n][d_model]  the tokens' embeddings as they are added: scaled, normed; layer 0 */
    PROBE_POS_EMBED, /* [n][d_model]  what is added to them by position, where positions are learned; layer 0 */
    PROBE_RESID_PRE,   /* [n][d_model]  the residual stream entering the layer */
    PROBE_NORM1_SCALE, /* [n][1]      what the norm before attention divides by; a layer without one has none */
    PROBE_Q,           /* [n][d_head]   a head's query, before RoPE */
    PROBE_K,           /* [n][d_head]   a kv head's key, before RoPE and before it is cached */
    PROBE_V,           /* [n][d_head]   a kv head's value, before it is cached */
    PROBE_ROT_Q, /* [n][d_head]   a head's query behind RoPE, as scores are made of it; where the layer turns */
    PROBE_ROT_K, /* [n][d_head]   a kv head's key behind RoPE, as it is cached */
    PROBE_SCORES, /* [1][pos + 1]  q·k/√d_head of one query over its keys 0 … pos, capped; −∞ beyond a window */
    PROBE_PATTERN, /* [1][pos + 1]  softmax of that row */
    PROBE_Z,       /* [n][d_head]   a head's weighted values, before its gate and the output projection */
    PROBE_RESULT, /* [n][d_model]  z W_O of a head alone (z behind its gate), without the bias and what comes behind */
    PROBE_ATTN_OUT,  /* [n][d_model]  what attention, or a state in its place, adds to the residual stream */
    PROBE_RESID_MID, /* [n][d_model]  between attention and MLP (a parallel layer has none) */
    PROBE_NORM2_SCALE, /* [n][1]      what the norm before the MLP, or the experts, divides by, where they have their own */
    PROBE_ROUTER,         /* [n][n_expert] the router's logits, in layers with experts */
    PROBE_EXPERT_WEIGHTS, /* [n][n_expert] by which the experts' outputs are added: 0 where one is not chosen */
    PROBE_MLP_PRE,        /* [n][d_ff]     what goes into the activation: the gate, where the MLP has one */
    PROBE_MLP_PRE_LINEAR, /* [n][d_ff]     what the activated gate is multiplied with, where there is a gate */
    PROBE_MLP_POST,       /* [n][d_ff]     the hidden numbers, as the MLP's last matrix reads them */
    PROBE_MLP_OUT,        /* [n][d_model]  what the MLP, or the experts, add */
    PROBE_RESID_POST,     /* [n][d_model]  the residual stream leaving the layer */
    PROBE_FINAL_SCALE, /* [n][1]        what the final norm divides by; of the positions whose logits were asked for */
    PROBE_LOGITS, /* [n][n_vocab]  of these positions */
    PROBE_N_SITES,

    /* On the way back only (backward.h): the residual stream as one part of a layer alone reads it, [n][d_model] */
    PROBE_Q_INPUT = PROBE_N_SITES, /* a head's query */
    PROBE_K_INPUT,                 /* a kv head's key … */
    PROBE_V_INPUT,                 /* … and value */
    PROBE_GATE_INPUT,              /* a head's gate */
    PROBE_STATE_INPUT,             /* what keeps a state in attention's place */
    PROBE_MLP_INPUT,               /* the MLP, or the experts */
    PROBE_N_BACK_SITES
} ProbeSite;

/* The site's name as TransformerLens users know it: "resid_pre", "pattern". */
const char *probe_site_name(ProbeSite site);

/* A visit shows one site: n_rows rows of n_cols floats, `stride` floats apart. Valid during the visit. */
typedef struct Activation {
    ProbeSite site;
    size_t layer;    /* n_layer for PROBE_FINAL_SCALE and PROBE_LOGITS */
    size_t head;     /* q, rot_q, scores, pattern, z, result: head; k, v, rot_k: kv head; otherwise 0 */
    size_t position; /* of row 0 in the sequence; row i is position + i */
    size_t n_rows, n_cols, stride;
    float *data; /* the forward pass goes on with what is written here, but for scales */
} Activation;

/*
 * Both functions are called on the thread that runs the session. Within a layer, sites come in the order of
 * ProbeSite, except that scores and pattern alternate, head by head and query by query. Results come a few tokens at a time;
 * they are computed for those heads only whose results are wanted.
 */
typedef struct Probe {
    void *user;
    /* Whether to visit this site, asked once for each layer, head and chunk of tokens. */
    bool (*wants)(void *user, ProbeSite site, size_t layer, size_t head);
    void (*visit)(void *user, const Activation *seen);
} Probe;

/* Visits [n][d] contiguous rows at `site`, if there is a probe and it wants them. */
void probe_rows(const Probe *probe, ProbeSite site, size_t layer, size_t position, float *data, size_t n,
                size_t d);

/* Likewise visits each head of [n][n_head][d_head] contiguous rows in turn. */
void probe_heads(const Probe *probe, ProbeSite site, size_t layer, size_t position, float *data, size_t n,
                 size_t n_head, size_t d_head);

#endif
