/*
 * The names of a Hugging Face folder: which architecture of GGUF a model_type is, its keys of config.json, its tensors.
 * Tables in config.c, keys.c and names.c. For this folder only.
 */
#ifndef ATTN_HUB_H
#define ATTN_HUB_H

#include "base/json.h"
#include "checkpoint/builder.h"
#include "stored.h"

/* One model_type of config.json. */
typedef struct HubFamily {
    const char *model_type, *architecture;
    const char *
        activation; /* of its MLP, where no key says another: as activations in check.c call it; NULL: fixed */
    bool gated;     /* the MLP has a gate; also where the activation is "silu" */
    bool halves;    /* GGUF has rows of q and k so that RoPE turns neighbours; the folder pairs halves */
    bool gain_minus_one; /* norms store their gain − 1 */
    bool has_rope;
    bool tied; /* what a missing tie_word_embeddings means */
} HubFamily;

/* The row of a config's model_type; NULL with an error where there is none, or what it asks for is not computed here. */
const HubFamily *hub_family(Builder *builder, const Json *config);

/* Metadata from config.json under GGUF's keys; small tensors that GGUF has and the folder says in words, too. */
void hub_config(Builder *builder, const HubFamily *family, const Json *config);

/* An integer under one of the keys that begin with a '.', or what a missing one means; 0 if it has no meaning. */
uint64_t hub_number(const Builder *builder, const char *key);

/* Keys of layers that keep a state, and of the text model beside one for pictures (states.c); before any others. */
void hub_states(Builder *builder, const Json *config);

/* Keys and small tensors about RoPE (rope.c). */
void hub_rope(Builder *builder, const HubFamily *family, const Json *config);

/* A key of GGUF with the value that config.json gives under `name`; fails where that is of another type. */
void hub_add(Builder *builder, const char *gguf, ValueType type, const char *name, const Json *value);

/* A number of config.json, or `otherwise`, also where it is null; fails where it is of another type. Likewise a bool. */
double hub_real(Builder *builder, const Json *config, const char *key, double otherwise);
bool hub_bool(Builder *builder, const Json *config, const char *key, bool otherwise);

/* NULL also for null. */
const Json *hub_not_null(const Json *json);

/* A member of config.json, also in its text_config; "a.b" is member b of a. NULL if it is missing or null. */
const Json *hub_get(const Json *config, const char *key);

/* Finds it likewise, and a null, too. */
const Json *hub_find(const Json *config, const char *key);

/* Whether a word is one of a list, between spaces; NULL lists all, and one behind a '!' all other words. */
bool hub_listed(const char *list, const char *word);

/* Whether a key of config.json becomes one of GGUF in that family, as it stands. */
bool hub_is_key(const HubFamily *family, const char *name);

/* Adds those keys, and names those that are missing, for whoever asks for them; then what missing ones mean. */
void hub_add_keys(Builder *builder, const HubFamily *family, const Json *config);
void hub_add_defaults(Builder *builder, const HubFamily *family);

/* Fails on values that nothing here computes (check.c). */
void hub_check(Builder *builder, const HubFamily *family, const Json *config);

/* The key about the MLP's activation, where it is not the family's (check.c). */
void hub_activation(Builder *builder, const HubFamily *family, const Json *config);

/* attn.unread_keys: those of config.json that nothing reads, if there are some (check.c). */
void hub_list_unread(Builder *builder, const HubFamily *family, const Json *config);

/* Keys that tell of each layer (layers.c). */
void hub_layers(Builder *builder, const HubFamily *family, const Json *config);

/* How a tensor's weights have to be arranged. */
typedef enum Arrangement {
    ARRANGE_NONE,      /* as they are */
    ARRANGE_TRANSPOSE, /* [cols][rows] become [rows][cols], for each expert if there are some */
    ARRANGE_COPY,      /* as they are, but at an address that fits their type */
    ARRANGE_GAIN,      /* 1 is added; F32 */
    ARRANGE_DECAY,     /* a delta net's A_log becomes -exp(A_log); F32 */
    ARRANGE_QKV,       /* groups of some q's heads, k, v: all q, all k, all v */
    ARRANGE_CODEGEN,   /* n_parts parts of q, v, k: likewise */
    ARRANGE_UNIT,      /* each row is divided by its length; F32 */
    ARRANGE_COLUMNS, /* [n_expert][cols][2·rows], where gate and up take turns: one and the other [n_expert][rows][cols] */
    ARRANGE_MXFP4, /* blocks [n_expert][rows][cols / 32][16] and scales beside them: ggml's blocks, gate and up apart */
    SPLIT_EXPERTS, /* [n_expert][rows][cols]: a tensor for each expert */
    SPLIT_GATE_UP, /* likewise, of which the first half is the gate, the other goes up */
} Arrangement;

/* A tensor's name, taken apart. */
typedef struct HubName {
    const char *gguf; /* "attn_q"; "attn_q attn_k attn_v": rows of it become these; with '#' for the expert */
    const char *kind; /* "weight", "bias", or "" where GGUF's name has neither */
    int64_t layer;    /* −1: not in a layer */
    uint64_t expert;
    Arrangement arrangement;
    bool ignored;   /* a mask, a table of RoPE, scales that are found by their blocks; or … */
    bool is_beside; /* … weights that are no part of the text model: for pictures, or for tokens further on */
} HubName;

/* False if no tensor of that family has the name. */
bool hub_name(HubName *name, const HubFamily *family, String stored);

/* A tensor to be turned, and where to. */
typedef struct Rearrangement {
    Arrangement arrangement;
    const Stored *from, *scales; /* the latter of ARRANGE_MXFP4 */
    unsigned char *to;
    size_t n_parts;             /* that come apart: 2 for gate and up; of ARRANGE_CODEGEN those that it has */
    uint64_t n_bytes;           /* there */
    uint64_t n_head, n_head_kv; /* of ARRANGE_QKV */
} Rearrangement;

void rearrange(const Rearrangement *rearrangement);

#endif
