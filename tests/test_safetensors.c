/* safetensors and the texts beside them: what is read, used in place or turned, and what is refused, and why. */
#include "folder.h"
#include "open.h"
#include "sampling.h"
#include "test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#define CONFIG                                                                                               \
    "{\"model_type\": \"llama\", \"hidden_size\": 4, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, " \
    "\"num_key_value_heads\": 1, \"intermediate_size\": 6, \"rms_norm_eps\": 1e-05, \"vocab_size\": 3, "     \
    "\"max_position_embeddings\": 64, \"tie_word_embeddings\": true"

#define EMBEDDING                                                                                            \
    "\"model.embed_tokens.weight\": {\"dtype\": \"F32\", \"shape\": [3, 4], \"data_offsets\": [0, 48]}"

static void test_headers(void) {
    static const struct {
        const char *header;
        size_t n_data;
        const char *says;
    } cases[] = {
        {"{" EMBEDDING "}", 47, "lies at 0 to 48 of the file's 47 bytes of data; is it cut?"},
        {"{" EMBEDDING
         ", \"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [44, 60]}}",
         60, "tensors 'model.embed_tokens.weight' and 'model.norm.weight' overlap"},
        {"{" EMBEDDING
         ", \"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [48, 63]}}",
         64, "'model.norm.weight' of type F32 has 15 bytes, which do not fit its shape"},
        {"{" EMBEDDING
         ", \"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [64, 48]}}",
         64, "lies at 64 to 48"},
        {"{" EMBEDDING
         ", \"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [48]}}",
         64, "lacks its dtype, shape or data_offsets"},
        {"{" EMBEDDING
         ", \"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [48, -64]}}",
         64, "lacks its dtype, shape or data_offsets"},
        {"{" EMBEDDING
         ", \"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [48, 6.4e1]}}",
         64, "lacks its dtype, shape or data_offsets"},
        {"{" EMBEDDING ", \"model.norm.weight\": []}", 64, "lacks its dtype"},
        {"{" EMBEDDING ", \"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [4294967296, 4294967296], "
         "\"data_offsets\": [48, 48]}}",
         64, "a shape that cannot be counted"},
        {"{" EMBEDDING
         ", \"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [4611686018427387904], \"data_offsets\": "
         "[48, 48]}}",
         64, "do not fit its shape"},
        {"{" EMBEDDING
         ", \"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [-4], \"data_offsets\": [48, 64]}}",
         64, "a shape that cannot be counted"},
        {"{" EMBEDDING
         ", \"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [2, 1, 1, 1, 2], \"data_offsets\": [48, 64]}}",
         64, "more than four dimensions"},
        {"{" EMBEDDING
         ", \"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [0], \"data_offsets\": [48, 48]}}",
         64, "'model.norm.weight' has no weights"},
        {"{" EMBEDDING
         ", \"model.norm.weight\": {\"dtype\": \"F8_E4M3\", \"shape\": [4], \"data_offsets\": [48, 52]}}",
         64, "has type F8_E4M3, which is not read; F32, F16 and BF16 are"},
        {"{" EMBEDDING
         ", \"model.norm.weight\": {\"dtype\": \"F9\", \"shape\": [4], \"data_offsets\": [48, 52]}}",
         64, "has type F9, which is not read"},
        {"{" EMBEDDING
         ", \"model.nom.weight\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [48, 64]}}",
         64, "tensor 'model.nom.weight' is not known in a model of type 'llama'"},
        {"{" EMBEDDING ", \"norm.weight\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [48, 64]}, "
         "\"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [64, 80]}}",
         80, "'output_norm.weight' occurs twice"},
        {"{" EMBEDDING ", " EMBEDDING "}", 48,
         "its header is no JSON: line 1: an object that ends here has a key twice"},
        {"{" EMBEDDING ", }", 48, "its header is no JSON"},
        {"[]", 48, "its header is no JSON object"},
    };
    put_text("config.json", CONFIG "}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_safetensors("model.safetensors", cases[i].header, 0, cases[i].n_data);
        refuse(cases[i].says);
    }
    static const unsigned char claims[] = {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, '{', '}'};
    scratch_put("model.safetensors", claims, sizeof claims);
    refuse("no safetensors file, or cut: its header would have 4294967295 bytes of 10");
    scratch_put("model.safetensors", claims, 7);
    refuse("has more than 7 bytes");
}

/* Weights are used where they lie, unless their address does not fit their type. */
static void test_places(void) {
    put_text("config.json", CONFIG "}");
    for (size_t padding = 0; padding < 4; padding++) {
        put_safetensors("model.safetensors", "{\"__metadata__\": {\"format\": \"pt\"}, " EMBEDDING "}",
                        padding, 48);
        Checkpoint *checkpoint = accept(scratch_folder);
        const Tensor *tensor = checkpoint ? checkpoint_find(checkpoint, "token_embd.weight") : NULL;
        CHECK(tensor && tensor->n_dims == 2 && tensor->dims[0] == 4 && tensor->dims[1] == 3 &&
                  tensor->n_bytes == 48 && (uintptr_t)tensor->data % 4 == 0 &&
                  ((const unsigned char *)tensor->data)[47] == 47,
              "padding of %zu", padding);
        if (checkpoint)
            CHECK((checkpoint_turned_bytes(checkpoint) == 48) == (checkpoint_turned_bytes(checkpoint) != 0),
                  "%" PRIu64 " bytes", checkpoint_turned_bytes(checkpoint));
        checkpoint_close(checkpoint);
    }
}

static void test_several_files(void) {
    put_text("config.json", CONFIG "}");
    drop("model.safetensors");
    put_safetensors("model-1.safetensors", "{" EMBEDDING "}", 0, 48);
    put_safetensors(
        "model-2.safetensors",
        "{\"model.norm.weight\": {\"dtype\": \"BF16\", \"shape\": [4], \"data_offsets\": [0, 8]}}", 0, 8);
    put_text("model.safetensors.index.json", "{\"metadata\": {}, \"weight_map\": {\"model.norm.weight\": "
                                             "\"model-2.safetensors\", \"model.embed_tokens.weight\": "
                                             "\"model-1.safetensors\", \"and\": \"model-2.safetensors\"}}");
    const char *const paths[] = {scratch_folder, scratch_file("model-1.safetensors"),
                                 scratch_file("model-2.safetensors")};
    for (size_t i = 0; i < 3; i++) {
        Checkpoint *checkpoint = accept(paths[i]);
        if (!checkpoint) continue;
        const Tensor *norm = checkpoint_find(checkpoint, "output_norm.weight");
        CHECK(checkpoint_n_tensors(checkpoint) == 2 && checkpoint_find(checkpoint, "token_embd.weight") &&
                  norm && norm->dtype == DTYPE_BF16 && norm->n_dims == 1 && norm->dims[0] == 4,
              "%s", paths[i]);
        uint64_t n_bytes =
            2 * 8 + 48 + 8 + strlen("{" EMBEDDING "}") +
            strlen(
                "{\"model.norm.weight\": {\"dtype\": \"BF16\", \"shape\": [4], \"data_offsets\": [0, 8]}}");
        CHECK(checkpoint_file_bytes(checkpoint) == n_bytes, "%" PRIu64 " bytes",
              checkpoint_file_bytes(checkpoint));
        CHECK(strcmp(checkpoint_path(checkpoint), paths[i]) == 0, "%s", checkpoint_path(checkpoint));
        CHECK(!checkpoint_changed(checkpoint), "changed");
        put_safetensors(
            "model-2.safetensors",
            "{\"model.norm.weight\": {\"dtype\": \"BF16\", \"shape\": [4], \"data_offsets\": [0, 8]}}", 0, 8);
        FILE *more = fopen(scratch_file("model-2.safetensors"), "ab");
        CHECK(more && fputc(0, more) == 0 && fclose(more) == 0, "append");
        CHECK(checkpoint_changed(checkpoint), "the second file has not changed");
        put_safetensors(
            "model-2.safetensors",
            "{\"model.norm.weight\": {\"dtype\": \"BF16\", \"shape\": [4], \"data_offsets\": [0, 8]}}", 0, 8);
        checkpoint_close(checkpoint);
    }
    static const char *const names[] = {
        "../model-2.safetensors", "/etc/passwd", "", ".", "..", ".hidden", "a\\u0000b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char index[256];
        snprintf(index, sizeof index, "{\"weight_map\": {\"x\": \"%s\"}}", names[i]);
        put_text("model.safetensors.index.json", index);
        refuse("is no name of a file in the folder");
    }
    put_text("model.safetensors.index.json", "{\"weight_map\": {\"x\": 7}}");
    refuse("is no name of a file in the folder");
    put_text("model.safetensors.index.json", "{\"weight_map\": {\"x\": \"model-3.safetensors\"}}");
    refuse("model-3.safetensors: cannot open: No such file or directory");
    put_text("model.safetensors.index.json", "{\"weight_map\": []}");
    refuse("has no \"weight_map\"");
    put_text("model.safetensors.index.json", "{\"weight_map\": {\"x\": \"config.json\"}}");
    refuse("config.json: this is a JSON text, not the weights");
    drop("model.safetensors.index.json");
    drop("model-1.safetensors");
    drop("model-2.safetensors");
}

/* Published sizes, of which some are left to the classes' defaults. */
#define STATES                                                                                                      \
    "{\"hidden_size\": 2048, \"num_hidden_layers\": 6, \"num_attention_heads\": 16, \"intermediate_size\": 12288, " \
    "\"model_type\": "

/* A pointer that `git clone` without Git LFS leaves in the place of a file is told as such. */
static void test_pointers(void) {
    static const char
        pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 29334912\n",
        hint[] = ": this is a Git-LFS pointer, not the file itself: run 'git lfs pull' in its folder";
    static const char *const names[] = {"model.safetensors",  "model-1.safetensors", "pytorch_model.bin",
                                        "config.json",        "tokenizer.json",      "tokenizer.model",
                                        "vocab.json",         "merges.txt",          "tokenizer_config.json",
                                        "chat_template.jinja"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char says[256];
        put_text("config.json", CONFIG "}");
        if (i == 1)
            put_text("model.safetensors.index.json", "{\"weight_map\": {\"x\": \"model-1.safetensors\"}}");
        else if (i != 2)
            put_safetensors("model.safetensors", "{" EMBEDDING "}", 0, 48);
        if (i == 7) put_text("vocab.json", "{}");
        put_text(names[i], pointer);
        snprintf(says, sizeof says, "%s%s", names[i], hint);
        refuse(says);
        for (size_t k = 0; k <= i; k++) drop(names[k]);
        drop("model.safetensors.index.json");
    }
}

static void test_configs(void) {
    static const struct {
        const char *config, *says;
    } cases[] = {
        {CONFIG ", \"hidden_act\": \"gelu\"}",
         "with the activation 'gelu' is not supported; these are: gelu_new gelu_fast gelu_pytorch_tanh "
         "gelu_accurate gelu_python_tanh silu swish"},
        {CONFIG ", \"head_dim\": -1}", "\"head_dim\" should be an integer of 0 or more"},
        {CONFIG ", \"head_dim\": 4294967296}",
         "'llama.attention.key_length' would be 4294967296, which is too large"},
        {CONFIG ", \"head_dim\": 1.5}", "\"head_dim\" should be an integer"},
        {CONFIG ", \"rope_theta\": 1e4, \"rope_scaling\": {\"rope_type\": \"magic\"}}",
         "RoPE scaling 'magic'"},
        {CONFIG ", \"partial_rotary_factor\": 2}", "RoPE over 4 dimensions of heads of 2"},
        {CONFIG ", \"rope_scaling\": {\"type\": \"longrope\", \"long_factor\": [1], \"short_factor\": [1]}}",
         "\"original_max_position_embeddings\" of RoPE is missing"},
        {CONFIG
         ", \"rope_scaling\": {\"type\": \"longrope\", \"long_factor\": [1, 2], \"short_factor\": [1], "
         "\"original_max_position_embeddings\": 32}}",
         "\"long_factor\" of RoPE should be 1 numbers"},
        {CONFIG ", \"quantization_config\": {\"quant_method\": \"gptq\"}}",
         "its weights are quantised (gptq)"},
        {CONFIG ", \"quantization_config\": {\"quant_method\": \"mxfp4\"}}",
         "its weights are quantised (mxfp4)"},
        {"[]", "names no \"model_type\""},
        {"{\"model_type\": \"bert\"}", "a model of type 'bert' is not supported; docs/FOLDERS.md"},
        {"{\"model_type\": \"gpt2\", \"scale_attn_by_inverse_layer_idx\": true}",
         "\"scale_attn_by_inverse_layer_idx\": true is not supported in a model of type 'gpt2'; false is"},
        {"{\"model_type\": \"opt\", \"do_layer_norm_before\": false}", "\"do_layer_norm_before\": false"},
        {"{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": [1]}", "\"mlp_only_layers\""},
        {STATES "\"qwen3_5\", \"attn_output_gate\": false}", "\"attn_output_gate\": false"},
        {STATES "\"qwen3_5_text\", \"linear_num_value_heads\": -1}",
         "\"linear_num_value_heads\" should be an integer from 0 to 16777216"},
        {STATES "\"qwen3_5\", \"rope_parameters\": {\"mrope_section\": [1, 2, 3, 4, 5]}}",
         "\"mrope_section\" of RoPE should be three or four integers"},
        {STATES "\"qwen3_vl\", \"rope_scaling\": {\"mrope_section\": [1, 2.5]}}",
         "\"mrope_section\" of RoPE"},
        {STATES "\"lfm2\", \"conv_bias\": true}", "\"conv_bias\": true"},
        {STATES "\"lfm2\", \"block_multiple_of\": 0}", "\"block_multiple_of\" is absurd"},
        {STATES "\"lfm2\", \"block_ffn_dim_multiplier\": \"1\"}",
         "\"block_ffn_dim_multiplier\" should be a number"},
        {"{", "config.json: line 1"},
    };
    put_safetensors("model.safetensors", "{" EMBEDDING "}", 0, 48);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_text("config.json", cases[i].config);
        refuse(cases[i].says);
    }
}

/* By transformers' _compute_llama3_parameters: dim 8, base 10000, factor 8, 1 and 4, of 64 positions. */
static void test_llama3(void) {
    static const double expected[] = {1, 5.05, 8, 8}; /* wavelengths 2π·10^i over 64: 0.098, 0.98, 9.8, 98 */
    put_text(
        "config.json",
        "{\"model_type\": \"llama\", \"hidden_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 1, "
        "\"rms_norm_eps\": 1e-5, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
        "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 64}}");
    put_safetensors("model.safetensors", "{" EMBEDDING "}", 0, 48);
    Checkpoint *checkpoint = accept(scratch_folder);
    const Tensor *factors = checkpoint ? checkpoint_find(checkpoint, "rope_freqs.weight") : NULL;
    CHECK(factors && factors->dims[0] == 4, "no factors");
    for (size_t i = 0; factors && i < 4; i++) {
        double turns = 64 / (2 * 3.14159265358979 * pow(10, (double)i)), smooth = (turns - 1) / 3;
        double between = 1 / ((1 - smooth) / 8 + smooth);
        CHECK_NEAR(((const float *)factors->data)[i], i == 1 ? between : expected[i], 1e-5);
    }
    checkpoint_close(checkpoint);
}

static bool has_text(const Checkpoint *checkpoint, const char *key, const char *text) {
    String value = {"", 0};
    return checkpoint_string(checkpoint, key, &value, NULL) && string_equals(value, text);
}

static uint64_t number(const Checkpoint *checkpoint, const char *key) {
    uint64_t value = UINT64_MAX;
    return checkpoint_u64(checkpoint, key, &value, NULL) ? value : UINT64_MAX;
}

/* Against llama.cpp's sizes of LFM2 (models/lfm2.cpp), and what transformers' configuration classes say of a missing key. */
static void test_states(void) {
    static const struct {
        const char *config, *key;
        uint64_t value; /* UINT64_MAX: there is none */
    } cases[] = {
        {STATES "\"lfm2\"}", "lfm2.feed_forward_length", 8192},
        {STATES "\"lfm2\", \"block_ff_dim\": 10240}", "lfm2.feed_forward_length", 6912},
        {STATES "\"lfm2\", \"block_ff_dim\": 6656, \"block_ffn_dim_multiplier\": 1.0}",
         "lfm2.feed_forward_length", 4608},
        {STATES "\"lfm2\", \"block_auto_adjust_ff_dim\": false}", "lfm2.feed_forward_length", 12288},
        {STATES "\"lfm2\", \"block_ff_dim\": 10240, \"block_ffn_dim_multiplier\": null}",
         "lfm2.feed_forward_length", 6826},
        {STATES "\"lfm2_vl\", \"text_config\": {\"model_type\": \"lfm2\", \"block_ff_dim\": 10240, "
                "\"block_ffn_dim_multiplier\": null}}",
         "lfm2.feed_forward_length", 6826},
        {STATES "\"lfm2\"}", "lfm2.shortconv.l_cache", 3},
        {STATES "\"lfm2\"}", "lfm2.context_length", 128000},
        {STATES "\"qwen3_5_text\"}", "qwen35.ssm.conv_kernel", 4},
        {STATES "\"qwen3_5_text\"}", "qwen35.ssm.state_size", 128},
        {STATES "\"qwen3_5_text\"}", "qwen35.ssm.group_count", 16},
        {STATES "\"qwen3_5_text\"}", "qwen35.ssm.time_step_rank", 32},
        {STATES "\"qwen3_5_text\"}", "qwen35.ssm.inner_size", 4096},
        {STATES "\"qwen3_5_text\"}", "qwen35.attention.key_length", 256},
        {STATES "\"qwen3_5_text\"}", "qwen35.rope.dimension_count", 64},
        {STATES "\"qwen3_5_text\"}", "qwen35.full_attention_interval", 4},
        {STATES "\"qwen3_vl\", \"vision_config\": {\"deepstack_visual_indexes\": [8, 16, 24]}}",
         "qwen3vl.n_deepstack_layers", 3},
        {STATES "\"qwen3_vl\"}", "qwen3vl.attention.key_length", 128},
    };
    put_safetensors("model.safetensors", "{" EMBEDDING "}", 0, 48);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_text("config.json", cases[i].config);
        Checkpoint *checkpoint = accept(scratch_folder);
        CHECK(checkpoint && number(checkpoint, cases[i].key) == cases[i].value, "%s: %" PRIu64, cases[i].key,
              checkpoint ? number(checkpoint, cases[i].key) : 0);
        checkpoint_close(checkpoint);
    }
    put_text("config.json", STATES "\"lfm2\", \"num_key_value_heads\": 4, \"full_attn_idxs\": [2, 5]}");
    Checkpoint *checkpoint = accept(scratch_folder);
    NumberArray heads = {0};
    CHECK(checkpoint && checkpoint_i32s(checkpoint, "lfm2.attention.head_count_kv", &heads, &error) &&
              heads.n == 6,
          "%s", error.message);
    for (size_t i = 0; i < heads.n; i++)
        CHECK(i32_at(&heads, i) == (i == 2 || i == 5 ? 4 : 0), "layer %zu", i);
    checkpoint_close(checkpoint);
    /* layers that follow no interval are listed */
    put_text("config.json",
             STATES "\"qwen3_5_text\", \"layer_types\": [\"full_attention\", \"linear_attention\", "
                    "\"linear_attention\", \"full_attention\", \"linear_attention\", \"linear_attention\"]}");
    checkpoint = accept(scratch_folder);
    FlagArray keeps = {0};
    CHECK(checkpoint && checkpoint_flags(checkpoint, "qwen35.attention.recurrent_layers", &keeps, &error) &&
              keeps.n == 6,
          "%s", error.message);
    for (size_t i = 0; i < keeps.n; i++) CHECK(keeps.data[i] == (i != 0 && i != 3), "layer %zu", i);
    checkpoint_close(checkpoint);
}

/* generation_config.json, under the keys that llama.cpp's converter writes. */
static void test_how_it_is_sampled(void) {
    static const struct {
        const char *text;
        float temperature, top_p, min_p, repeat;
        size_t top_k, window;
        const char *refused;
    } cases[] = {
        {"{}", 0.8f, 0.95f, 0, 1, 0, 64, NULL},
        {"{\"do_sample\": true, \"temperature\": 0.6, \"top_k\": 20, \"top_p\": 0.9, \"min_p\": 0.05}", 0.6f,
         0.9f, 0.05f, 1, 20, 64, NULL},
        {"{\"do_sample\": false, \"temperature\": 0.6, \"top_k\": null}", 0, 0.95f, 0, 1, 0, 64, NULL},
        {"{\"temperature\": 1, \"repetition_penalty\": 1.05}", 1, 0.95f, 0, 1.05f, 0, 1 << 20, NULL},
        {"{\"penalty_repeat\": 1.1, \"repetition_penalty\": 1.1, \"penalty_last_n\": 10, \"top_k\": -1}",
         0.8f, 0.95f, 0, 1.1f, 0, 10, NULL},
        {"{\"penalty_repeat\": 1.1}", 0.8f, 0.95f, 0, 1.1f, 0, 64, NULL}, /* llama.cpp's, with its window */
        {"{\"penalty_repeat\": 1.1, \"repetition_penalty\": null}", 0.8f, 0.95f, 0, 1.1f, 0, 64, NULL},
        {"{\"temperature\": \"hot\"}", 0, 0, 0, 0, 0, 0, "'general.sampling.temp' is of type string"},
        {"{\"temperature\": [1]}", 0, 0, 0, 0, 0, 0, "'general.sampling.temp' is of type string"},
        {"{\"temperature\": -1}", 0, 0, 0, 0, 0, 0, "general.sampling.temp is -1"},
        {"{\"top_k\": 1e300}", 0, 0, 0, 0, 0, 0, "general.sampling.top_k is inf"},
    };
    put_text("config.json", CONFIG "}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_text("generation_config.json", cases[i].text);
        Checkpoint *checkpoint = accept(scratch_folder);
        SamplerOptions options = SAMPLING_UNSET;
        bool ok = checkpoint && sampling_settle(&options, checkpoint, NULL, &error);
        CHECK(ok == !cases[i].refused, "%s: %s", cases[i].text, ok ? "taken" : error.message);
        if (ok)
            CHECK(options.temperature == cases[i].temperature && options.top_p == cases[i].top_p &&
                      options.min_p == cases[i].min_p && options.repeat_penalty == cases[i].repeat &&
                      options.top_k == cases[i].top_k && options.penalty_window == cases[i].window,
                  "%s", cases[i].text);
        else
            CHECK(strstr(error.message, cases[i].refused), "%s: %s", cases[i].text, error.message);
        checkpoint_close(checkpoint);
    }
    drop("generation_config.json");
}

/* generation_config.json asks for these, which are not done here, unless the value does nothing. */
static void test_what_is_not_done(void) {
    static const struct {
        const char *text, *named;
    } cases[] = {
        {"{}", ""},
        {"{\"do_sample\": true, \"typical_p\": 0.9, \"top_h\": 0.5, \"epsilon_cutoff\": 3e-4, \"eta_cutoff\": 1e-3}",
         "typical_p, top_h, epsilon_cutoff, eta_cutoff"},
        {"{\"do_sample\": false, \"typical_p\": 0.9, \"top_h\": 0.5, \"epsilon_cutoff\": 3e-4, \"eta_cutoff\": 1e-3, "
         "\"no_repeat_ngram_size\": 3}",
         "no_repeat_ngram_size"},
        {"{\"typical_p\": 1.0, \"top_h\": null, \"epsilon_cutoff\": 0.0, \"eta_cutoff\": 0, \"num_beams\": 1, "
         "\"diversity_penalty\": 0.0, \"penalty_alpha\": null, \"dola_layers\": null, \"no_repeat_ngram_size\": 0, "
         "\"encoder_no_repeat_ngram_size\": 0, \"encoder_repetition_penalty\": 1.0, \"bad_words_ids\": null, "
         "\"force_words_ids\": [], \"forced_bos_token_id\": null, \"forced_eos_token_id\": null, "
         "\"forced_decoder_ids\": null, \"suppress_tokens\": [], \"begin_suppress_tokens\": null, "
         "\"sequence_bias\": {}, \"guidance_scale\": 1, \"min_length\": 0, \"min_new_tokens\": null, "
         "\"renormalize_logits\": false, \"exponential_decay_length_penalty\": null, "
         "\"watermarking_config\": null, \"token_healing\": false, \"stop_strings\": \"\", "
         "\"length_penalty\": 2.0, \"early_stopping\": true, \"num_beam_groups\": 1, \"max_length\": 99, "
         "\"max_new_tokens\": 9, \"use_cache\": true, \"transformers_version\": \"4.51.0\", \"chat_format\": \"x\"}",
         ""},
        {"{\"num_beams\": 4, \"diversity_penalty\": 0.5, \"penalty_alpha\": 0.6, \"dola_layers\": \"high\", "
         "\"no_repeat_ngram_size\": 2, \"encoder_no_repeat_ngram_size\": 2, \"encoder_repetition_penalty\": 1.2, "
         "\"bad_words_ids\": [[7]], \"force_words_ids\": [[[1]]], \"forced_bos_token_id\": 0, "
         "\"forced_eos_token_id\": [2], \"forced_decoder_ids\": [[1, 2]], \"suppress_tokens\": [0], "
         "\"begin_suppress_tokens\": [220], \"sequence_bias\": {\"1\": -1.5}, \"guidance_scale\": 1.5, "
         "\"min_length\": 5, \"min_new_tokens\": 6, \"renormalize_logits\": true, "
         "\"exponential_decay_length_penalty\": [15, 1.6], \"watermarking_config\": {\"bias\": 2}, "
         "\"token_healing\": true, \"stop_strings\": [\"x\"]}",
         "num_beams, diversity_penalty, penalty_alpha, dola_layers, no_repeat_ngram_size, "
         "encoder_no_repeat_ngram_size, encoder_repetition_penalty, bad_words_ids, force_words_ids, "
         "forced_bos_token_id, forced_eos_token_id, forced_decoder_ids, suppress_tokens, begin_suppress_tokens, "
         "sequence_bias, guidance_scale, min_length, min_new_tokens, renormalize_logits, "
         "exponential_decay_length_penalty, watermarking_config, token_healing, stop_strings"},
        {"{\"xtc_probability\": 0.5, \"xtc_threshold\": 0.1, \"typical_p\": \"much\"}", "XTC, typical_p"},
    };
    put_text("config.json", CONFIG "}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_text("generation_config.json", cases[i].text);
        Checkpoint *checkpoint = accept(scratch_folder);
        SamplerOptions options = SAMPLING_UNSET;
        SamplingFields fields = {0};
        char named[1024] = "";
        CHECK(checkpoint && sampling_settle(&options, checkpoint, &fields, &error), "%s", error.message);
        CHECK(fields.n_not_done <= MAX_NOT_DONE, "%zu", fields.n_not_done);
        for (size_t k = 0; k < fields.n_not_done; k++)
            snprintf(named + strlen(named), sizeof named - strlen(named), "%s%.*s", k ? ", " : "",
                     (int)fields.not_done[k].n, fields.not_done[k].data);
        CHECK(strcmp(named, cases[i].named) == 0, "%s:\n%s", cases[i].text, named);
        checkpoint_close(checkpoint);
    }
    drop("generation_config.json");
}

static void test_tokenizer_texts(void) {
    put_text("config.json", CONFIG ", \"bos_token_id\": 1, \"eos_token_id\": [2, 5]}");
    put_text("tokenizer.json", "{\"any\": \"text\"}");
    put_text(
        "tokenizer_config.json",
        "{\"add_bos_token\": true, \"add_eos_token\": false, \"eos_token\": {\"content\": \"<|end|>\"}, \"unk_token\": "
        "null, \"added_tokens_decoder\": {\"0\": {\"content\": \"a\"}, \"7\": {\"content\": \"<|end|>\"}}, "
        "\"chat_template\": [{\"name\": \"tools\", \"template\": \"T\"}, {\"name\": \"default\", \"template\": \"D\"}, "
        "{\"name\": \"other\", \"template\": \"O\"}]}");
    put_text("generation_config.json", "{\"eos_token_id\": [5, 7, 9], \"pad_token_id\": 3}");
    Checkpoint *checkpoint = accept(scratch_folder);
    if (!checkpoint) return;
    NumberArray ends = {0};
    CHECK(has_text(checkpoint, "tokenizer.huggingface.json", "{\"any\": \"text\"}"), "tokenizer.json");
    CHECK(has_text(checkpoint, "tokenizer.chat_template", "D"), "the template");
    CHECK(number(checkpoint, "tokenizer.ggml.bos_token_id") == 1, "bos");
    CHECK(number(checkpoint, "tokenizer.ggml.eos_token_id") == 7, "eos, as tokenizer_config.json calls it");
    CHECK(number(checkpoint, "tokenizer.ggml.padding_token_id") == 3, "pad");
    CHECK(!checkpoint_has(checkpoint, "tokenizer.ggml.unknown_token_id"), "unk");
    bool adds = false, adds_end = true;
    CHECK(checkpoint_bool(checkpoint, "tokenizer.ggml.add_bos_token", &adds, &error) && adds, "adds BOS");
    CHECK(checkpoint_bool(checkpoint, "tokenizer.ggml.add_eos_token", &adds_end, &error) && !adds_end,
          "adds EOS");
    CHECK(checkpoint_i32s(checkpoint, "attn.eos_token_ids", &ends, &error) && ends.n == 4 &&
              i32_at(&ends, 0) == 7 && i32_at(&ends, 1) == 2 && i32_at(&ends, 2) == 5 &&
              i32_at(&ends, 3) == 9,
          "%zu tokens that end a text", ends.n);
    checkpoint_close(checkpoint);

    put_text("chat_template.jinja", "{{ J }}"); /* goes before what is in tokenizer_config.json */
    checkpoint = accept(scratch_folder);
    CHECK(checkpoint && has_text(checkpoint, "tokenizer.chat_template", "{{ J }}"), "chat_template.jinja");
    checkpoint_close(checkpoint);
    drop("model.safetensors"); /* a vocabulary alone */
    checkpoint = accept(scratch_folder);
    CHECK(checkpoint && checkpoint_n_tensors(checkpoint) == 0, "a vocabulary");
    checkpoint_close(checkpoint);
    drop("config.json");
    checkpoint = accept(scratch_folder);
    CHECK(checkpoint && has_text(checkpoint, "tokenizer.huggingface.json", "{\"any\": \"text\"}"),
          "tokenizer.json alone");
    checkpoint_close(checkpoint);
    put_text("config.json", CONFIG "}");
    put_text("pytorch_model.bin", "PK");
    refuse("not a checkpoint");
    static const char *const files[] = {"pytorch_model.bin", "chat_template.jinja", "tokenizer.json",
                                        "tokenizer_config.json", "generation_config.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) drop(files[i]);
}

/* How often the folder opens while one byte of a file is another one. */
static size_t count_accepted(const char *name, const void *bytes, size_t n) {
    static const unsigned char others[] = {0, '0', '9', '"', '}', ',', 'A', 0xff};
    size_t accepted = 0;
    int file_out = open(scratch_file(name), O_WRONLY);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k <= sizeof others; k++) {
            const void *byte = k < sizeof others ? &others[k] : (const unsigned char *)bytes + i;
            CHECK(pwrite(file_out, byte, 1, (off_t)i) == 1, "pwrite");
            if (k == sizeof others) continue;
            Checkpoint *checkpoint = checkpoint_open(scratch_folder, &error);
            accepted += checkpoint != NULL;
            checkpoint_close(checkpoint);
        }
    close(file_out);
    return accepted;
}

/* Every beginning of the weights, and each of their bytes changed, must neither crash nor hang nor leak. */
static void test_damage(void) {
    static const char header[] =
        "{\"model.layers.0.self_attn.W_pack.weight\":{\"dtype\":\"F16\",\"shape\":[8,2],\"data_offsets\":[0,32]},"
        "\"h.0.mlp.experts.gate_up_proj\":{\"dtype\":\"F16\",\"shape\":[2,2,2],\"data_offsets\":[32,48]}}";
    static const char config[] = "{\"model_type\":\"mixtral\",\"hidden_size\":4,\"num_attention_heads\":2,"
                                 "\"num_key_value_heads\":1,\"num_local_experts\":2,\"num_hidden_layers\":1}";
    unsigned char bytes[8 + sizeof header - 1 + 48] = {0};
    uint64_t n = sizeof header - 1;
    size_t accepted = 0;
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, header, sizeof header - 1);
    put_text("config.json", config);
    scratch_put("model.safetensors", bytes, sizeof bytes);
    for (size_t i = sizeof bytes; i > 0; i--) {
        CHECK(truncate(scratch_file("model.safetensors"), (off_t)i) == 0, "truncate");
        Checkpoint *checkpoint = checkpoint_open(scratch_folder, &error);
        CHECK((checkpoint != NULL) == (i == sizeof bytes), "%zu bytes of %zu: %s", i, sizeof bytes,
              error.message);
        checkpoint_close(checkpoint);
    }
    scratch_put("model.safetensors", bytes, sizeof bytes);
    accepted += count_accepted("model.safetensors", bytes, sizeof bytes);
    accepted += count_accepted("config.json", config, sizeof config - 1);
    CHECK(accepted > 8 * 48 && accepted < 8 * sizeof bytes, "%zu were accepted", accepted);
}

int main(void) {
    scratch_begin();
    RUN(test_headers);
    RUN(test_places);
    RUN(test_several_files);
    RUN(test_pointers);
    RUN(test_configs);
    RUN(test_llama3);
    RUN(test_states);
    RUN(test_how_it_is_sampled);
    RUN(test_what_is_not_done);
    RUN(test_tokenizer_texts);
    RUN(test_damage);
    drop("config.json");
    drop("model.safetensors");
    scratch_end();
    return test_end();
}
