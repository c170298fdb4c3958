#include "measures/scores.h"

#include <math.h>
#include <stdio.h>

ScoreRule score_rule(const Model *model, size_t layer, size_t head) {
    const Config *config = model_config(model);
    const Weights *weights = model_weights(model);
    const float *sinks = weights->layers[layer].attention.sinks;
    bool by_root = config->attention_scale == 0;
    return (ScoreRule){
        .by_root = by_root,
        .scale = by_root ? 1 / sqrt((double)config->d_head) : (double)config->attention_scale,
        .cap = (double)config->score_cap,
        .slope = weights->slopes ? (double)weights->slopes[head] : 0,
        .window = weights->attention_layers[layer].window,
        .has_sink = sinks,
        .sink = sinks ? (double)sinks[head] : -INFINITY,
    };
}

bool layer_has_heads(const Model *model, size_t layer) {
    return !model_weights(model)->attention_layers[layer].absent;
}

bool has_gated_heads(const Model *model) { return model_attention_shape(model).gated; }

bool has_learned_sinks(const Model *model) {
    const Weights *weights = model_weights(model);
    for (size_t layer = 0; layer < weights->n_layer; layer++)
        if (weights->layers[layer].attention.sinks) return true;
    return false;
}

size_t rule_first_key(const ScoreRule *rule, size_t query) {
    return rule->window && query >= rule->window ? query + 1 - rule->window : 0;
}

size_t rule_n_keys(const ScoreRule *rule, size_t query) { return query + 1 - rule_first_key(rule, query); }

double rule_dot(const ScoreRule *rule, double score, size_t distance) {
    return rule->cap != 0 ? NAN : (score + rule->slope * (double)distance) / rule->scale;
}

double rule_learned_share(const ScoreRule *rule, double sum) {
    return rule->has_sink && sum < 1 ? 1 - sum : 0;
}

const char *score_formula(char buffer[128], const ScoreRule *rule, bool ascii) {
    const char *dot = ascii ? "q.k_k" : "q·k_k", *times = ascii ? "*" : "·";
    char product[64];
    if (rule->by_root)
        snprintf(product, sizeof product, "%s / %s", dot, ascii ? "sqrt(d_head)" : "√d_head");
    else
        snprintf(product, sizeof product, "%s%s%.4g", dot, times, rule->scale);
    int n = rule->cap != 0
                ? snprintf(buffer, 128, "%.4g%stanh(%s / %.4g)", rule->cap, times, product, rule->cap)
                : snprintf(buffer, 128, "%s", product);
    if (rule->slope != 0)
        snprintf(buffer + n, 128 - (size_t)n, "%s", ascii ? " - slope*(query - k)" : " − slope·(query − k)");
    return buffer;
}
