/* safetensors and the texts beside them: what is read, used in place or turned, and what is refused, and why. */
#include "folder.h"
#include "test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#define CONFIG                                                                                               \
    "{\"model_type\": \"llama\", \"hidden_size\": 4, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, " \
    "\"num_key_value_heads\": 1, \"intermediate_size\": 6, \"rms_norm_eps\": 1e-05, \"vocab_size\": 3, "     \
    "\"max_position_embeddings\": 64, \"tie_word_embeddings\": true"

static void drop(const char *name) { unlink(path_of(name)); }

/* A file of this header, and n_data bytes 0, 1, 2 … behind it; `padding` spaces end the header. */
static void put_weights(const char *name, const char *header, size_t padding, size_t n_data) {
    unsigned char bytes[4096];
    uint64_t n = strlen(header) + padding;
    memcpy(bytes, &n, sizeof n);
    memcpy(bytes + 8, header, strlen(header));
    memset(bytes + 8 + strlen(header), ' ', padding);
    for (size_t i = 0; i < n_data; i++) bytes[8 + n + i] = (unsigned char)i;
    put(name, bytes, 8 + (size_t)n + n_data);
}

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
        put_weights("model.safetensors", cases[i].header, 0, cases[i].n_data);
        refuse(cases[i].says);
    }
    static const unsigned char claims[] = {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, '{', '}'};
    put("model.safetensors", claims, sizeof claims);
    refuse("no safetensors file, or cut: its header would have 4294967295 bytes of 10");
    put("model.safetensors", claims, 7);
    refuse("has more than 7 bytes");
}

/* Weights are used where they lie, unless their address does not fit their type. */
static void test_places(void) {
    put_text("config.json", CONFIG "}");
    for (size_t padding = 0; padding < 4; padding++) {
        put_weights("model.safetensors", "{\"__metadata__\": {\"format\": \"pt\"}, " EMBEDDING "}", padding,
                    48);
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
    put_weights("model-1.safetensors", "{" EMBEDDING "}", 0, 48);
    put_weights("model-2.safetensors",
                "{\"model.norm.weight\": {\"dtype\": \"BF16\", \"shape\": [4], \"data_offsets\": [0, 8]}}", 0,
                8);
    put_text("model.safetensors.index.json", "{\"metadata\": {}, \"weight_map\": {\"model.norm.weight\": "
                                             "\"model-2.safetensors\", \"model.embed_tokens.weight\": "
                                             "\"model-1.safetensors\", \"and\": \"model-2.safetensors\"}}");
    const char *const paths[] = {scratch_folder, path_of("model-1.safetensors"),
                                 path_of("model-2.safetensors")};
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
        put_weights(
            "model-2.safetensors",
            "{\"model.norm.weight\": {\"dtype\": \"BF16\", \"shape\": [4], \"data_offsets\": [0, 8]}}", 0, 8);
        FILE *more = fopen(path_of("model-2.safetensors"), "ab");
        CHECK(more && fputc(0, more) == 0 && fclose(more) == 0, "append");
        CHECK(checkpoint_changed(checkpoint), "the second file has not changed");
        put_weights(
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
    refuse("config.json: no safetensors file");
    drop("model.safetensors.index.json");
    drop("model-1.safetensors");
    drop("model-2.safetensors");
}

static void test_configs(void) {
    static const struct {
        const char *config, *says;
    } cases[] = {
        {CONFIG ", \"hidden_act\": \"gelu\"}",
         "with the activation 'gelu' is not supported; these are: silu"},
        {CONFIG ", \"num_local_experts\": -1}", "\"num_local_experts\" should be an integer of 0 or more"},
        {CONFIG ", \"num_local_experts\": 4294967296}",
         "'llama.expert_count' would be 4294967296, which is too large"},
        {CONFIG ", \"num_local_experts\": 1.5}", "\"num_local_experts\" should be an integer"},
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
        {"{\"model_type\": \"bert\"}", "a model of type 'bert' is not supported; these are: gpt2,"},
        {"{\"model_type\": \"gpt2\", \"scale_attn_by_inverse_layer_idx\": true}",
         "\"scale_attn_by_inverse_layer_idx\": true is not supported in a model of type 'gpt2'; false is"},
        {"{\"model_type\": \"opt\", \"do_layer_norm_before\": false}", "\"do_layer_norm_before\": false"},
        {"{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": [1]}", "\"mlp_only_layers\""},
        {"{", "config.json: line 1"},
    };
    put_weights("model.safetensors", "{" EMBEDDING "}", 0, 48);
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
    put_weights("model.safetensors", "{" EMBEDDING "}", 0, 48);
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
    int file_out = open(path_of(name), O_WRONLY);
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
    static const char config[] = "{\"model_type\":\"baichuan\",\"hidden_size\":4,\"num_attention_heads\":2,"
                                 "\"num_key_value_heads\":1,\"num_local_experts\":2,\"num_hidden_layers\":1}";
    unsigned char bytes[8 + sizeof header - 1 + 48] = {0};
    uint64_t n = sizeof header - 1;
    size_t accepted = 0;
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, header, sizeof header - 1);
    put_text("config.json", config);
    put("model.safetensors", bytes, sizeof bytes);
    for (size_t i = sizeof bytes; i > 0; i--) {
        CHECK(truncate(path_of("model.safetensors"), (off_t)i) == 0, "truncate");
        Checkpoint *checkpoint = checkpoint_open(scratch_folder, &error);
        CHECK((checkpoint != NULL) == (i == sizeof bytes), "%zu bytes of %zu: %s", i, sizeof bytes,
              error.message);
        checkpoint_close(checkpoint);
    }
    put("model.safetensors", bytes, sizeof bytes);
    accepted += count_accepted("model.safetensors", bytes, sizeof bytes);
    accepted += count_accepted("config.json", config, sizeof config - 1);
    CHECK(accepted > 8 * 48 && accepted < 8 * sizeof bytes, "%zu were accepted", accepted);
}

int main(void) {
    scratch_begin();
    RUN(test_headers);
    RUN(test_places);
    RUN(test_several_files);
    RUN(test_configs);
    RUN(test_llama3);
    RUN(test_tokenizer_texts);
    RUN(test_damage);
    drop("config.json");
    drop("model.safetensors");
    scratch_end();
    return test_end();
}
