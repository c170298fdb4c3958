/*
 * The words of a folder about its vocabulary: tokenizer.json whole, tokens with a role, the form of a conversation; and
 * how it is to be sampled from.
 */
#include "folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The id of a special token: what tokenizer_config.json calls "eos_token", or config.json's "eos_token_id". */
static bool token_id(const Folder *folder, const char *which, int64_t *id) {
    char key[32];
    snprintf(key, sizeof key, "%s_token", which);
    const Json *added = json_get(folder->tokenizer_config, "added_tokens_decoder");
    String text = folder_token_text(json_get(folder->tokenizer_config, key));
    for (size_t i = 0; text.n && added && added->kind == JSON_OBJECT && i < added->n; i++)
        if (string_compare(json_string(json_get(json_item(added, i), "content")), text) == 0 &&
            (*id = folder_id(json_key(added, i))) >= 0)
            return true;
    if (folder_token(folder, key, text, id)) return true;
    snprintf(key, sizeof key, "%s_token_id", which);
    const Json *from[] = {folder->config, folder->generation_config};
    for (size_t i = 0; i < 2; i++) {
        const Json *value = from[i] ? hub_get(from[i], key) : NULL;
        if (value && value->kind == JSON_ARRAY && value->n) value = &value->items[0];
        if (json_integer(value, id)) return true;
    }
    return folder_role(folder, which, id);
}

/* All tokens that end a text: generation_config.json lists those of a turn, too. */
static void add_ends(Folder *folder) {
    enum { MAX_ENDS = 64 };
    const Json *lists[] = {hub_get(folder->config, "eos_token_id"),
                           json_get(folder->generation_config, "eos_token_id")};
    int32_t *ids = builder_room(&folder->builder, MAX_ENDS * sizeof *ids);
    size_t n = 0;
    int64_t id;
    if (ids && token_id(folder, "eos", &id) && id >= 0 && id <= INT32_MAX) ids[n++] = (int32_t)id;
    for (size_t k = 0; ids && k < 2; k++) {
        const Json *list = lists[k];
        size_t n_list = !list ? 0 : list->kind == JSON_ARRAY ? list->n : 1;
        for (size_t i = 0; i < n_list && n < MAX_ENDS; i++) {
            if (!json_integer(list->kind == JSON_ARRAY ? &list->items[i] : list, &id) || id < 0 ||
                id > INT32_MAX)
                continue;
            size_t known = 0;
            while (known < n && ids[known] != (int32_t)id) known++;
            if (known == n) ids[n++] = (int32_t)id;
        }
    }
    if (n > 1) builder_array(&folder->builder, "attn.eos_token_ids", VALUE_I32, n, ids, n * sizeof *ids);
}

/* chat_template.jinja, or what tokenizer_config.json or chat_template.json has: a text, or a list of named ones, of which "default" counts. */
static void add_template(Folder *folder) {
    Builder *builder = &folder->builder;
    size_t n = 0;
    char *text = folder_text(folder, "chat_template.jinja", MAX_CONFIG_BYTES, 0, false, &n);
    Json *file = NULL;
    const Json *chosen = json_get(folder->tokenizer_config, "chat_template");
    if (!text && !chosen)
        chosen = json_get(file = folder_json(folder, "chat_template.json"), "chat_template");
    for (size_t i = 0; chosen && chosen->kind == JSON_ARRAY && i < chosen->n; i++)
        if (json_equals(json_get(&chosen->items[i], "name"), "default"))
            chosen = json_get(&chosen->items[i], "template");
    if (text)
        builder_string(builder, "tokenizer.chat_template", (String){text, n});
    else if (chosen && chosen->kind == JSON_TEXT)
        builder_string(builder, "tokenizer.chat_template", json_string(chosen));
    free(text);
    json_free(file);
}

/* Whether generation_config.json says to take the likeliest token. */
static bool is_greedy(const Folder *folder) {
    const Json *samples = json_get(folder->generation_config, "do_sample");
    return samples && samples->kind == JSON_BOOL && !samples->boolean;
}

/* generation_config.json, under the keys that llama.cpp's converter gives its settings. */
static void add_sampling(Folder *folder) {
    static const char *const keys[][2] = {{"temperature", "general.sampling.temp"},
                                          {"top_k", "general.sampling.top_k"},
                                          {"top_p", "general.sampling.top_p"},
                                          {"min_p", "general.sampling.min_p"},
                                          {"repetition_penalty", "general.sampling.penalty_repeat"},
                                          {"penalty_repeat", "general.sampling.penalty_repeat"},
                                          {"penalty_last_n", "general.sampling.penalty_last_n"},
                                          {"sequence", "general.sampling.sequence"},
                                          {"xtc_probability", "general.sampling.xtc_probability"},
                                          {"mirostat", "general.sampling.mirostat"}};
    Builder *builder = &folder->builder;
    bool greedy = is_greedy(folder);
    if (greedy) builder_f32(builder, keys[0][1], 0);
    for (size_t i = greedy; i < sizeof keys / sizeof *keys; i++) {
        const Json *value = json_get(folder->generation_config, keys[i][0]);
        int64_t whole;
        if (!value || value->kind == JSON_NULL || builder_has(builder, keys[i][1])) continue;
        if (json_integer(value, &whole) && whole >= 0 && whole <= UINT32_MAX)
            builder_u32(builder, keys[i][1], (uint64_t)whole);
        else if (value->kind == JSON_NUMBER)
            builder_f32(builder, keys[i][1], value->number);
        else
            builder_string(builder, keys[i][1], json_string(value)); /* which whoever reads it refuses */
    }
    /* Hugging Face's penalty looks back at all of the text, llama.cpp's at the usual window. */
    const Json *theirs = json_get(folder->generation_config, "repetition_penalty");
    if (theirs && theirs->kind != JSON_NULL && !builder_has(builder, keys[6][1]))
        builder_f32(builder, keys[6][1], -1);
}

/* Whether a value asks for anything; `off` is the number that does nothing. */
static bool asks(const Json *value, double off) {
    switch (value ? (JsonKind)value->kind : JSON_NULL) {
    case JSON_NULL: return false;
    case JSON_BOOL: return value->boolean;
    case JSON_NUMBER: return value->number != off;
    default: return value->n > 0;
    }
}

/*
 * Keys of generation_config.json that change the text and are not done here: attn.sampling.typical_p = true, and so on
 * (keys of transformers' GenerationConfig in all its versions). length_penalty, early_stopping and num_beam_groups say
 * nothing without num_beams.
 */
static void add_not_done(Folder *folder) {
    static const struct {
        const char *key;
        double off;   /* NAN: no number does nothing, 0 being the id of a token */
        bool samples; /* chooses what to draw from: nothing where the likeliest token is taken */
    } keys[] = {{"typical_p", 1, true},
                {"top_h", 1, true},
                {"epsilon_cutoff", 0, true},
                {"eta_cutoff", 0, true},
                {"num_beams", 1, false},
                {"diversity_penalty", 0, false},
                {"penalty_alpha", 0, false},
                {"dola_layers", NAN, false},
                {"no_repeat_ngram_size", 0, false},
                {"encoder_no_repeat_ngram_size", 0, false},
                {"encoder_repetition_penalty", 1, false},
                {"bad_words_ids", NAN, false},
                {"force_words_ids", NAN, false},
                {"forced_bos_token_id", NAN, false},
                {"forced_eos_token_id", NAN, false},
                {"forced_decoder_ids", NAN, false},
                {"suppress_tokens", NAN, false},
                {"begin_suppress_tokens", NAN, false},
                {"sequence_bias", NAN, false},
                {"guidance_scale", 1, false},
                {"min_length", 0, false},
                {"min_new_tokens", 0, false},
                {"renormalize_logits", 0, false},
                {"exponential_decay_length_penalty", 1, false},
                {"watermarking_config", NAN, false},
                {"token_healing", 0, false},
                {"stop_strings", NAN, false}};
    const Json *config = folder->generation_config;
    char key[64];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if ((keys[i].samples && is_greedy(folder)) || !asks(json_get(config, keys[i].key), keys[i].off))
            continue;
        snprintf(key, sizeof key, "attn.sampling.%s", keys[i].key);
        builder_bool(&folder->builder, key, true);
    }
}

void folder_add_tokenizer(Folder *folder) {
    static const char *const ids[][2] = {{"bos", "tokenizer.ggml.bos_token_id"},
                                         {"eos", "tokenizer.ggml.eos_token_id"},
                                         {"unk", "tokenizer.ggml.unknown_token_id"},
                                         {"pad", "tokenizer.ggml.padding_token_id"}};
    static const char *const adds[][2] = {{"add_bos_token", "tokenizer.ggml.add_bos_token"},
                                          {"add_eos_token", "tokenizer.ggml.add_eos_token"}};
    Builder *builder = &folder->builder;
    size_t n = 0;
    uint64_t length;
    char *text = folder_text(folder, "tokenizer.json", MAX_TOKENIZER_BYTES, sizeof length, true, &n);
    if (text) {
        length = n;
        memcpy(text, &length, sizeof length);
        builder_entry(builder, "tokenizer.huggingface.json",
                      (Entry){.type = VALUE_STRING, .n = n, .data = (const unsigned char *)text});
    } else {
        folder_add_vocabulary(folder);
    }
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        int64_t id;
        if (token_id(folder, ids[i][0], &id) && id >= 0) builder_u32(builder, ids[i][1], (uint64_t)id);
    }
    for (size_t i = 0; i < 2; i++) {
        const Json *value = json_get(folder->tokenizer_config, adds[i][0]);
        if (value && value->kind == JSON_BOOL) builder_bool(builder, adds[i][1], value->boolean);
    }
    add_sampling(folder);
    add_not_done(folder);
    add_ends(folder);
    add_template(folder);
    folder_forget_vocabulary(folder);
}
