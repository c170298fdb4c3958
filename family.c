/* The table of families. To add one, add its row; config.c reads what its keys say, binding.c knows its tensors' names. */
#include "family.h"

#include <stdio.h>
#include <string.h>

static const Family families[] = {
    {"gpt2", NORM_LAYER, MLP_GELU_TANH, .learned_positions = true, .biases = true},
    {"llama", NORM_RMS, MLP_SWIGLU, ROPE_NEIGHBOURS, .renormalises_experts = true},
    {"qwen2", NORM_RMS, MLP_SWIGLU, ROPE_HALVES},
    {"qwen3", NORM_RMS, MLP_SWIGLU, ROPE_HALVES},
    {"gptneox", NORM_LAYER, MLP_GELU_ERF, ROPE_HALVES, .residual = RESIDUAL_BY_KEY, .biases = true},
    {"gemma", NORM_RMS, MLP_GEGLU, ROPE_HALVES, .scales_embedding = true},
    {"gemma2", NORM_RMS, MLP_GEGLU, ROPE_HALVES, NORMS_AROUND, .scales_embedding = true, .window_period = 2,
     .soft_caps = true, .layers_of_odd = 46, .odd_scale = true, .window = 4096},
    {"gemma3", NORM_RMS, MLP_GEGLU, ROPE_HALVES, NORMS_AROUND, .scales_embedding = true, .window_period = 6,
     .rope_layers = ROPE_LOCAL_APART, .base = 1e6F, .local_base = 10000, .stretch = 8, .norm_eps = 1e-6F,
     .reads_pictures = true, .logit_cap = true, .layers_of_odd = 62, .odd_scale = true},
    {"qwen3vl", NORM_RMS, MLP_SWIGLU, ROPE_HALVES},
    {"qwen2moe", NORM_RMS, MLP_SWIGLU, ROPE_HALVES},
    {"qwen3moe", NORM_RMS, MLP_SWIGLU, ROPE_HALVES, .renormalises_experts = true},
    {"olmoe", NORM_RMS, MLP_SWIGLU, ROPE_HALVES, .clamps_normed = true},
    {"granitemoe", NORM_RMS, MLP_SWIGLU, ROPE_NEIGHBOURS, .divides_logits = true,
     .renormalises_experts = true},
    {"gpt-oss", NORM_RMS, MLP_SWIGLU_CLAMPED, ROPE_HALVES, .mlp_norm = "post_attention_norm",
     .window_period = 2, .renormalises_experts = true, .yarn_exact = true, .biases = true},
    {"phi2", NORM_LAYER, MLP_GELU_TANH, ROPE_HALVES, .residual = RESIDUAL_PARALLEL, .biases = true},
    {"phi3", NORM_RMS, MLP_SWIGLU, ROPE_HALVES},
    {"gptj", NORM_LAYER, MLP_GELU_TANH, ROPE_NEIGHBOURS, .residual = RESIDUAL_PARALLEL,
     .trained_neighbours = true},
    {"codegen", NORM_LAYER, MLP_GELU_TANH, ROPE_NEIGHBOURS, .residual = RESIDUAL_PARALLEL,
     .trained_neighbours = true},
    {"bloom", NORM_LAYER, MLP_GELU_TANH, .max_alibi_bias = 8, .biases = true},
    {"mpt", NORM_LAYER, MLP_GELU_ERF},
    {"opt", NORM_LAYER, MLP_RELU, .learned_positions = true},
    {"gpt_neo", NORM_LAYER, MLP_GELU_TANH, .learned_positions = true},
    {"olmo", NORM_LAYER, MLP_SWIGLU, ROPE_NEIGHBOURS, .bare_norms = true},
    {"olmo2", NORM_RMS, MLP_SWIGLU, ROPE_HALVES, NORMS_BEHIND, .window_period = 4,
     .rope_layers = ROPE_LOCAL_APART},
    {"granite", NORM_RMS, MLP_SWIGLU, ROPE_NEIGHBOURS, .divides_logits = true},
    {"smollm3", NORM_RMS, MLP_SWIGLU, ROPE_NEIGHBOURS, .no_rope_period = 4},
    {"stablelm", NORM_LAYER, MLP_SWIGLU, ROPE_HALVES, .residual = RESIDUAL_BY_NORM},
    {"falcon", NORM_LAYER, MLP_GELU_ERF, ROPE_HALVES, .residual = RESIDUAL_PARALLEL},
    {"starcoder", NORM_LAYER, MLP_GELU_TANH, .learned_positions = true, .biases = true},
    {"starcoder2", NORM_LAYER, MLP_GELU_TANH, ROPE_HALVES, .biases = true},
    {"exaone", NORM_RMS, MLP_SWIGLU, ROPE_HALVES},
    {"internlm2", NORM_RMS, MLP_SWIGLU, ROPE_NEIGHBOURS},
    {"baichuan", NORM_RMS, MLP_SWIGLU, ROPE_NEIGHBOURS, .layers_of_odd = 40, .odd_alibi = true,
     .max_alibi_bias = 8},
    {"command-r", NORM_LAYER, MLP_SWIGLU, ROPE_NEIGHBOURS, .residual = RESIDUAL_PARALLEL,
     .trained_neighbours = true},
    {"cohere2", NORM_LAYER, MLP_SWIGLU, ROPE_NEIGHBOURS, .residual = RESIDUAL_PARALLEL,
     .trained_neighbours = true, .window_period = 4, .rope_layers = ROPE_LOCAL_ONLY},
    {"nemotron", NORM_LAYER, MLP_RELU_SQUARED, ROPE_HALVES},
    {"lfm2", NORM_RMS, MLP_SWIGLU, ROPE_HALVES, .mixer = MIXER_CONVOLUTION, .final_norm = "token_embd_norm"},
    {"qwen35", NORM_RMS, MLP_SWIGLU, ROPE_HALVES, .mixer = MIXER_DELTA_NET, .gated_attention = true,
     .mlp_norm = "post_attention_norm"},
};

enum { N_FAMILIES = sizeof families / sizeof *families };

const Family *family_find(String architecture) {
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (string_equals(architecture, families[i].architecture)) return &families[i];
    return NULL;
}

void family_list(char *list, size_t size) {
    *list = '\0';
    for (size_t i = 0; i < N_FAMILIES; i++) {
        size_t n = strlen(list);
        snprintf(list + n, size - n, "%s%s", n ? ", " : "", families[i].architecture);
    }
}
