/*
 * The keys of config.json that are refused, and those that are not read at all. A key that a family's own code reads is
 * obeyed, or it is here with the only values that are computed; docs/FOLDERS.md has the rule, tests/data/config.txt
 * every key of every class.
 */
#include "hub.h"

#include <stdio.h>
#include <string.h>

/* Values that change what a model computes: those that are computed, between spaces. A missing key has one of them. */
static const struct {
    const char *only, *key, *values;
} allowed[] = {
    {" gpt2 gpt_bigcode ", "scale_attn_weights", " true "},
    {" gpt2 ", "scale_attn_by_inverse_layer_idx", " false "},
    {" gpt2 gpt_bigcode ", "add_cross_attention", " false "},
    {" gpt_bigcode ", "multi_query", " true "},
    {" gpt_neox ", "attention_bias", " true "},
    {" opt ", "do_layer_norm_before", " true "},
    {" opt ", "_remove_final_layer_norm", " false "},
    {" opt ", "enable_bias", " true "},
    {" opt ", "layer_norm_elementwise_affine", " true "},
    {" bloom falcon ", "apply_residual_connection_post_layernorm", " false "},
    {" falcon ", "alibi", " false "},
    {" falcon ", "parallel_attn", " true "},
    {" mpt ", "attn_config.attn_type", " multihead_attention grouped_query_attention "},
    {" mpt ", "attn_config.prefix_lm", " false "},
    {" mpt ", "attn_config.qk_ln", " false "},
    {" mpt ", "attn_config.qk_gn", " false "},
    {" mpt ", "attn_config.rope", " false "},
    {" mpt ", "attn_config.sliding_window_size", " -1 "},
    {" mpt ", "norm_type", " low_precision_layernorm layernorm "},
    {" mpt ", "logit_scale", " "},
    {" phi stablelm ", "qk_layernorm", " false "},
    {" starcoder2 ", "norm_type", " layer_norm "},
    {" starcoder2 ", "mlp_type", " default "},
    {" smollm3 qwen2_moe qwen3_moe ", "use_sliding_window", " false "},
    {" qwen2_moe qwen3_moe ", "decoder_sparse_step", " 1 "},
    {" qwen2_moe qwen3_moe ", "mlp_only_layers", " [] "},
    {" gemma gemma2 gemma3 gemma3_text ", "use_bidirectional_attention", " false "},
    {" gemma3 gemma3_text ", "attn_logit_softcapping", " "},
    {" qwen3_5 qwen3_5_text ", "attn_output_gate", " true "},
    {" lfm2 ", "conv_bias", " false "},
    {" lfm2 ", "block_use_swiglu", " true "},
    {" gpt_oss ", "hidden_act", " silu "},
    {" gpt_oss ", "swiglu_alpha", " 1.702 "},
    {" gpt_oss ", "swiglu_limit", " 7 "},
    {" gptj codegen baichuan ", "rope_theta", " 10000 "},
};

/* A value in a few words, for a comparison or an error. */
static void to_text(const Json *json, char text[static 40]) {
    String string = json_string(json);
    if (json->kind == JSON_BOOL) snprintf(text, 40, "%s", json->boolean ? "true" : "false");
    if (json->kind == JSON_NUMBER) snprintf(text, 40, "%.15g", json->number);
    if (json->kind == JSON_TEXT) snprintf(text, 40, "%.*s", string.n < 39 ? (int)string.n : 39, string.data);
    if (json->kind == JSON_ARRAY) snprintf(text, 40, "%s", json->n ? "[…]" : "[]");
    if (json->kind == JSON_OBJECT) snprintf(text, 40, "{…}");
}

/* Sizes that another one fixes in what is computed here. */
static void check_sizes(Builder *builder, const HubFamily *family, const Json *config) {
    double d_model = hub_real(builder, config, "hidden_size", 0),
           d_embedding = hub_real(builder, config, "word_embed_proj_dim", d_model);
    if (strcmp(family->model_type, "opt") == 0 && d_embedding != d_model)
        builder_fail(builder,
                     "config.json: \"word_embed_proj_dim\": %g is not supported; \"hidden_size\", %g, is",
                     d_embedding, d_model);
}

void hub_check(Builder *builder, const HubFamily *family, const Json *config) {
    char text[40];
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        const Json *value = hub_get(config, allowed[i].key);
        if (!value || !hub_listed(allowed[i].only, family->model_type)) continue;
        to_text(value, text);
        const char *values = allowed[i].values + 1;
        if (!*text || strchr(text, ' ') || !hub_listed(allowed[i].values, text))
            builder_fail(builder, "config.json: \"%s\": %s is not supported in a model of type '%s'; %.*s is",
                         allowed[i].key, text, family->model_type, *values ? (int)strlen(values) - 1 : 4,
                         *values ? values : "null");
    }
    check_sizes(builder, family, config);
}

/*
 * The functions of transformers' ACT2FN that are computed here, by the name that GGUF's key has for all of them. Names for
 * one function differ in how it is computed, not in what.
 */
static const struct {
    const char *name, *names;
    bool plain, gated; /* whether it is computed without a gate, and for one */
} activations[] = {
    {"gelu_new", " gelu_new gelu_fast gelu_pytorch_tanh gelu_accurate gelu_python_tanh ", true, true},
    {"gelu", " gelu gelu_python ", true, false},
    {"relu", " relu ", true, false},
    {"relu2", " relu2 ", true, false},
    {"silu", " silu swish ", false, true},
};

/* Which key has it. "hidden_act" of Gemma's first files is "gelu", and means the other one, as the next key then said. */
static const char *activation_key(const HubFamily *family) {
    return hub_listed(" gemma gemma2 gemma3 gemma3_text ", family->model_type) ? "hidden_activation"
           : hub_listed(" gpt2 gpt_neo gptj codegen gpt_bigcode opt exaone ", family->model_type)
               ? "activation_function"
           : strcmp(family->model_type, "falcon") == 0 ? "activation"
                                                       : "hidden_act";
}

void hub_activation(Builder *builder, const HubFamily *family, const Json *config) {
    const Json *value = NULL;
    bool gated = family->gated || strcmp(family->activation, "silu") == 0;
    char text[40] = "", known[200] = "";
    const char *key = activation_key(family);
    value = hub_get(config, key);
    if (!value) return;
    to_text(value, text);
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        size_t n = strlen(known);
        if (!(gated ? activations[i].gated : activations[i].plain)) continue;
        snprintf(known + n, sizeof known - n, "%s", activations[i].names + (n > 0));
        if (value->kind != JSON_TEXT || strchr(text, ' ') || !hub_listed(activations[i].names, text))
            continue;
        if (strcmp(activations[i].name, family->activation) != 0)
            builder_string(builder, ".hidden_activation", string_from(activations[i].name));
        return;
    }
    builder_fail(
        builder,
        "config.json: a model of type '%s' with the activation '%s' is not supported; these are:%.*s",
        family->model_type, text, (int)strlen(known) - 1, known);
}

/* Keys that are read elsewhere, by the model_types whose code reads them. */
static const struct {
    const char *only, *keys;
} read_elsewhere[] = {
    {NULL,
     " model_type text_config quantization_config tie_word_embeddings rope_parameters rope_scaling rope_theta "},
    {NULL, " partial_rotary_factor hidden_act hidden_activation activation_function "},
    {NULL,
     " rope.rope_type rope.type rope.factor rope.original_max_position_embeddings rope.attention_factor "
     "rope.beta_fast rope.beta_slow rope.short_factor rope.long_factor rope.low_freq_factor "
     "rope.high_freq_factor rope.truncate rope.rope_theta rope.partial_rotary_factor "
     "rope.extrapolation_factor rope.finetuned rope.mscale rope.mscale_all_dim rope.full_attention "
     "rope.sliding_attention windowed.rope_type windowed.rope_theta "},
    {" falcon ", " activation multi_query new_decoder_architecture "},
    {" gpt_neox ", " rotary_pct rotary_emb_base "},
    {" stablelm ", " rope_pct "},
    {" gptj codegen ", " rotary_dim "},
    {" phi3 ", " original_max_position_embeddings "},
    {" opt ", " word_embed_proj_dim "},
    {" baichuan ", " z_loss_weight "},
    {" gemma2 gemma3 gemma3_text ", " query_pre_attn_scalar "},
    {" gemma3 gemma3_text ", " rope_local_base_freq "},
    {" gemma3 gemma3_text cohere2 ", " sliding_window_pattern "},
    {" gemma2 gemma3 gemma3_text gpt_oss cohere2 olmo3 qwen2 qwen3 ", " layer_types "},
    {" mixtral starcoder2 phi3 mistral qwen2 qwen3 gemma2 gemma3 gemma3_text gpt_oss cohere2 olmo3 ",
     " sliding_window "},
    {" qwen2 qwen3 ", " use_sliding_window max_window_layers "},
    {" smollm3 qwen2_moe qwen3_moe ", " sliding_window max_window_layers layer_types "}, /* without use_… */
    {" gpt_neo ", " window_size attention_layers attention_types "},
    {" smollm3 ", " no_rope_layers no_rope_layer_interval "},
    {" qwen3_5 qwen3_5_text ",
     " linear_conv_kernel_dim linear_key_head_dim linear_value_head_dim linear_num_key_heads "
     "linear_num_value_heads full_attention_interval layer_types rope.mrope_section "
     "rope.mrope_interleaved mtp_num_hidden_layers mamba_ssm_dtype "},
    {" qwen3_vl qwen3_vl_text ", " rope.mrope_section rope.mrope_interleaved "},
    {" lfm2 ",
     " conv_L_cache conv_dim conv_dim_out conv_use_xavier_init block_dim block_ff_dim block_ffn_dim_multiplier "
     "block_auto_adjust_ff_dim block_multiple_of block_norm_eps block_mlp_init_scale block_out_init_scale "
     "block_use_xavier_init norm_eps layer_types full_attn_idxs num_heads use_pos_enc theta "
     "tie_embedding "},
    {" mpt ", " attn_config expansion_ratio attn_config.alibi attn_config.alibi_bias_max attn_config.qk_ln "},
};

/*
 * Keys that change no number: what trains or informs a model, what generates text with it, how something is computed, and
 * biases and norms, which are there where their tensors are.
 */
static const char idle[] =
    " architectures auto_map transformers_version torch_dtype dtype use_cache vocab_size name_or_path use_bfloat16 "
    "output_attentions output_hidden_states output_router_logits output_scores return_dict return_dict_in_generate "
    "torchscript is_encoder_decoder is_decoder cross_attention_hidden_size tie_encoder_decoder pruned_heads "
    "chunk_size_feed_forward problem_type id2label label2id num_labels finetuning_task tokenizer_class prefix "
    "task_specific_params gradient_checkpointing attn_implementation cache_implementation pretraining_tp "
    "max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k "
    "top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size "
    "bad_words_ids num_return_sequences remove_invalid_values exponential_decay_length_penalty suppress_tokens "
    "begin_suppress_tokens tf_legacy_loss use_return_dict reorder_and_upcast_attn attention_softmax_in_fp32 "
    "scale_attention_softmax_in_fp32 slow_but_exact layerdrop attention_bias mlp_bias bias use_bias no_bias "
    "use_qkv_bias qkv_bias use_qk_norm num_ln_in_parallel_attn router_aux_loss_coef router_jitter_noise verbose "
    "embedding_fraction learned_pos_emb experts_per_token initial_context_length add_cross_attention "
    "attn_config.attn_impl attn_config.attn_uses_sequence_id scale_attn_weights model_max_length tokenizer_name "
    "masked_softmax_fusion skip_bias_add skip_bias_add_qkv bias_dropout_fusion offset_alibi inference_runner "
    "max_batch_size pad_key_length pre_allocate_kv_cache validate_runner_input ff_factor ";

static bool is_read(const HubFamily *family, const char *key) {
    static const char *const endings[] = {"_token_id", "_token_ids", "_token_index", "dropout",
                                          "_pdrop",    "_std",       "_dropout_prob"},
                             *const beginnings[] = {"_", "init", "summary_", "unsloth_"};
    if (strchr(key, ' ') || hub_is_key(family, key)) return true;
    for (size_t i = 0; i < sizeof read_elsewhere / sizeof *read_elsewhere; i++)
        if (hub_listed(read_elsewhere[i].only, family->model_type) && hub_listed(read_elsewhere[i].keys, key))
            return true;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (hub_listed(allowed[i].only, family->model_type) && strcmp(allowed[i].key, key) == 0) return true;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (string_ends(string_from(key), endings[i])) return true;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(key, beginnings[i], strlen(beginnings[i])) == 0) return true;
    return hub_listed(idle, key);
}

/* Adds the keys of an object that nothing reads to a text, with `before` in front; the tables have `as` there. */
static void list_unread(const HubFamily *family, const Json *object, const char *before, const char *as,
                        char *text, size_t room) {
    for (size_t i = 0; object && object->kind == JSON_OBJECT && i < object->n; i++) {
        String name = json_key(object, i);
        char key[96], known[80];
        size_t n = strlen(text);
        if (json_item(object, i)->kind == JSON_NULL || name.n > 48 || memchr(name.data, '\0', name.n))
            continue;
        snprintf(key, sizeof key, "%s%.*s", before, (int)name.n, name.data);
        snprintf(known, sizeof known, "%s%.*s", as, (int)name.n, name.data);
        if (is_read(family, known) || n + strlen(key) + 3 > room) continue;
        snprintf(text + n, room - n, "%s%s", n ? ", " : "", key);
    }
}

void hub_list_unread(Builder *builder, const HubFamily *family, const Json *config) {
    char text[1000] = "";
    const Json *own = json_get(config, "text_config");
    list_unread(family, own ? own : config, "", "", text, sizeof text);
    if (strcmp(family->model_type, "mpt") == 0)
        list_unread(family, hub_get(config, "attn_config"), "attn_config.", "attn_config.", text,
                    sizeof text);
    if (family->has_rope) {
        list_unread(family, hub_get(config, "rope_scaling"), "rope_scaling.", "rope.", text, sizeof text);
        const Json *newer = hub_get(config, "rope_parameters");
        list_unread(family, newer, "rope_parameters.", "rope.", text, sizeof text);
        list_unread(family, json_get(newer, "full_attention"), "rope_parameters.full_attention.", "rope.",
                    text, sizeof text);
        list_unread(family, json_get(newer, "sliding_attention"), "rope_parameters.sliding_attention.",
                    "windowed.", text, sizeof text);
    }
    if (*text) builder_string(builder, "attn.unread_keys", string_from(text));
}
