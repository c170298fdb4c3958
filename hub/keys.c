/*
 * The keys of config.json and those of GGUF that they become, family by family. Where a class of transformers has a default
 * of its own for a missing key, a row of `defaults` says so.
 */
#include "hub.h"

#include <string.h>

/*
 * A key of GGUF, its type, the names that config.json may give it, the first that is there, and the model_types whose code
 * reads them, between spaces, or behind a '!' those whose code does not; NULL: all. A first name goes before a second in a
 * row, and a first row before a second.
 */
typedef struct KeyRow {
    const char *gguf;
    ValueType type;
    const char *names[7];
    const char *only;
} KeyRow;

static const KeyRow keys[] = {
    {".context_length", VALUE_U32, {"model_max_length"}, " cohere "},
    {".context_length",
     VALUE_U32,
     {"max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length", "max_sequence_length"}},
    {".context_length", VALUE_U32, {"model_max_length"}, " baichuan "},
    {".embedding_length", VALUE_U32, {"hidden_size", "n_embd", "n_embed", "d_model"}},
    {".block_count", VALUE_U32, {"num_hidden_layers", "n_layer", "num_layers", "n_layers"}},
    {".feed_forward_length", VALUE_U32, {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"}},
    {".attention.head_count", VALUE_U32, {"num_attention_heads", "n_head", "num_heads", "n_heads"}},
    {".attention.head_count_kv",
     VALUE_U32,
     {"num_key_value_heads"},
     "! gpt2 gpt_neo gpt_neox gptj codegen gpt_bigcode opt bloom mpt falcon baichuan "},
    {".attention.head_count_kv", VALUE_U32, {"num_kv_heads", "n_head_kv"}, " falcon "},
    {".attention.head_count_kv", VALUE_U32, {"attn_config.kv_n_heads"}, " mpt "},
    {".attention.key_length", VALUE_U32, {"head_dim"}},
    {".attention.value_length", VALUE_U32, {"head_dim"}},
    {".attention.layer_norm_rms_epsilon", VALUE_F32, {"rms_norm_eps"}},
    {".attention.layer_norm_rms_epsilon", VALUE_F32, {"layer_norm_epsilon"}, " exaone "},
    {".attention.layer_norm_epsilon", VALUE_F32, {"norm_epsilon"}, " starcoder2 "},
    {".attention.layer_norm_epsilon", VALUE_F32, {"norm_eps"}, " nemotron "},
    {".attention.layer_norm_epsilon",
     VALUE_F32,
     {"layer_norm_eps"},
     " gpt_neox stablelm phi cohere cohere2 "},
    {".attention.layer_norm_epsilon",
     VALUE_F32,
     {"layer_norm_epsilon"},
     " gpt2 gpt_neo gptj codegen gpt_bigcode bloom mpt falcon "},
    {".attention.clamp_kqv", VALUE_F32, {"clip_qkv"}, " olmo olmoe "},
    {".attention.clamp_kqv", VALUE_F32, {"attn_config.clip_qkv"}, " mpt "},
    {".attention.scale", VALUE_F32, {"attention_multiplier"}, " granite granitemoe "},
    {".attention.scale", VALUE_F32, {"attn_config.softmax_scale"}, " mpt "},
    {".attention.causal", VALUE_BOOL, {"is_causal"}},
    {".attn_logit_softcapping", VALUE_F32, {"attn_logit_softcapping"}, " gemma2 "},
    {".final_logit_softcapping", VALUE_F32, {"final_logit_softcapping"}, " gemma2 gemma3 gemma3_text "},
    {".logit_scale", VALUE_F32, {"logit_scale"}, " cohere cohere2 "},
    {".logit_scale", VALUE_F32, {"logits_scaling"}, " granite granitemoe "},
    {".embedding_scale", VALUE_F32, {"embedding_multiplier"}, " granite granitemoe "},
    {".residual_scale", VALUE_F32, {"residual_multiplier"}, " granite granitemoe "},
    {".use_parallel_residual", VALUE_BOOL, {"use_parallel_residual"}, " gpt_neox stablelm "},
    {".expert_count",
     VALUE_U32,
     {"num_local_experts", "num_experts"},
     " mixtral granitemoe olmoe qwen2_moe qwen3_moe gpt_oss "},
    {".expert_used_count",
     VALUE_U32,
     {"num_experts_per_tok"},
     " mixtral granitemoe olmoe qwen2_moe qwen3_moe gpt_oss "},
    {".expert_weights_norm", VALUE_BOOL, {"norm_topk_prob"}, " olmoe qwen2_moe qwen3_moe "},
    {".expert_feed_forward_length", VALUE_U32, {"moe_intermediate_size"}, " qwen2_moe qwen3_moe "},
    {".expert_shared_feed_forward_length",
     VALUE_U32,
     {"shared_expert_intermediate_size", "shared_intermediate_size"},
     " granitemoe qwen2_moe "},
    {".vocab_size", VALUE_U32, {"vocab_size"}},
};

/* The default of a class for a missing key, or the value that the class has fixed and no key says. */
static const struct {
    const char *only, *gguf;
    ValueType type;
    double value;
} defaults[] = {
    {" opt ", ".position_offset", VALUE_U32, 2},
    {" bloom falcon ", ".context_length", VALUE_U32, 2048},
    {" gemma3 gemma3_text ", ".context_length", VALUE_U32, 131072},
    {" qwen3_vl qwen3_vl_text lfm2 ", ".context_length", VALUE_U32, 128000},
    {" gemma3 gemma3_text ", ".attention.head_count", VALUE_U32, 8},
    {" gemma3 gemma3_text ", ".attention.head_count_kv", VALUE_U32, 4},
    {" gemma gemma2 gemma3 gemma3_text ", ".attention.key_length", VALUE_U32, 256},
    {" gemma gemma2 gemma3 gemma3_text ", ".attention.value_length", VALUE_U32, 256},
    {" qwen3_5 qwen3_5_text ", ".attention.key_length", VALUE_U32, 256},
    {" qwen3_5 qwen3_5_text ", ".attention.value_length", VALUE_U32, 256},
    {" qwen3 qwen3_vl qwen3_vl_text ", ".attention.key_length", VALUE_U32, 128},
    {" qwen3 qwen3_vl qwen3_vl_text ", ".attention.value_length", VALUE_U32, 128},
    {" gpt_oss ", ".attention.key_length", VALUE_U32, 64},
    {" gpt_oss ", ".attention.value_length", VALUE_U32, 64},
    {" gpt2 gpt_neo gpt_neox gptj codegen gpt_bigcode starcoder2 opt bloom mpt falcon olmo stablelm phi cohere "
     "cohere2 nemotron ",
     ".attention.layer_norm_epsilon", VALUE_F32, 1e-5},
    {" mixtral olmo2 olmo3 olmoe gpt_oss phi3 exaone ", ".attention.layer_norm_rms_epsilon", VALUE_F32, 1e-5},
    {" llama mistral granite granitemoe smollm3 internlm2 baichuan qwen2 qwen2_moe qwen3 qwen3_moe qwen3_vl "
     "qwen3_vl_text qwen3_5 qwen3_5_text gemma gemma2 gemma3 gemma3_text ",
     ".attention.layer_norm_rms_epsilon", VALUE_F32, 1e-6},
    {" gpt_neo ", ".attention.scale", VALUE_F32, 1},
    {" granite granitemoe ", ".attention.scale", VALUE_F32, 1},
    {" granite granitemoe ", ".logit_scale", VALUE_F32, 1},
    {" granite granitemoe ", ".embedding_scale", VALUE_F32, 1},
    {" granite granitemoe ", ".residual_scale", VALUE_F32, 1},
    {" cohere cohere2 ", ".logit_scale", VALUE_F32, 0.0625},
    {" gemma2 ", ".attn_logit_softcapping", VALUE_F32, 50},
    {" gemma2 ", ".final_logit_softcapping", VALUE_F32, 30},
    {" gpt_neox ", ".use_parallel_residual", VALUE_BOOL, 1},
    {" mixtral granitemoe ", ".expert_count", VALUE_U32, 8},
    {" mixtral granitemoe ", ".expert_used_count", VALUE_U32, 2},
    {" olmoe ", ".expert_count", VALUE_U32, 64},
    {" olmoe qwen3_moe ", ".expert_used_count", VALUE_U32, 8},
    {" qwen2_moe ", ".expert_count", VALUE_U32, 60},
    {" qwen2_moe gpt_oss ", ".expert_used_count", VALUE_U32, 4},
    {" qwen3_moe gpt_oss ", ".expert_count", VALUE_U32, 128},
    {" olmoe qwen2_moe qwen3_moe ", ".expert_weights_norm", VALUE_BOOL, 0},
};

bool hub_is_key(const HubFamily *family, const char *name) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (size_t k = 0; hub_listed(keys[i].only, family->model_type) && keys[i].names[k]; k++)
            if (strcmp(keys[i].names[k], name) == 0) return true;
    return false;
}

void hub_add_keys(Builder *builder, const HubFamily *family, const Json *config) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (size_t k = 0; keys[i].names[k] && !builder_has(builder, keys[i].gguf); k++) {
            const Json *value = hub_get(config, keys[i].names[k]);
            if (value && hub_listed(keys[i].only, family->model_type))
                hub_add(builder, keys[i].gguf, keys[i].type, keys[i].names[k], value);
        }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (hub_listed(keys[i].only, family->model_type) && !builder_has(builder, keys[i].gguf))
            builder_own_name(builder, keys[i].gguf, *keys[i].names);
}

void hub_add_defaults(Builder *builder, const HubFamily *family) {
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        const char *gguf = defaults[i].gguf;
        if (!hub_listed(defaults[i].only, family->model_type) || builder_has(builder, gguf)) continue;
        if (defaults[i].type == VALUE_U32) builder_u32(builder, gguf, (uint64_t)defaults[i].value);
        if (defaults[i].type == VALUE_F32) builder_f32(builder, gguf, defaults[i].value);
        if (defaults[i].type == VALUE_BOOL) builder_bool(builder, gguf, defaults[i].value != 0);
    }
    uint64_t d_model = hub_number(builder, ".embedding_length");
    if (!builder_has(builder, ".feed_forward_length"))
        builder_u32(builder, ".feed_forward_length", d_model < UINT32_MAX / 4 ? 4 * d_model : 0);
}
