/*
 * No output takes the place of a file that the same command reads: whatever the output, whatever the file (any of a
 * folder, a later part of a split GGUF, a vocabulary, a text), by whatever name (links of both kinds). Nor does it become a
 * file that opening the model would take the next time. Nothing is lost, and one line says so.
 */
#include "words.h"

#include <sys/stat.h>

/* ---- A folder with two files of weights ---- */

static void put(const char *name, const char *said) { scratch_put(name, said, strlen(said)); }

typedef struct Stored {
    const char *name;
    unsigned rows, cols; /* cols 0: a vector */
} Stored;

static void put_weights(const char *name, const Stored *stored, size_t n) {
    char header[4096] = "{";
    size_t at = 0, used = 1;
    for (size_t i = 0; i < n; i++) {
        size_t bytes = 2 * (size_t)stored[i].rows * (stored[i].cols ? stored[i].cols : 1);
        char shape[32];
        snprintf(shape, sizeof shape, stored[i].cols ? "%u,%u" : "%u", stored[i].rows, stored[i].cols);
        used += (size_t)snprintf(
            header + used, sizeof header - used,
            "%s\"model.%s.weight\":{\"dtype\":\"BF16\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
            i ? "," : "", stored[i].name, shape, at, at + bytes);
        at += bytes;
    }
    header[used++] = '}';
    memcpy(file, &(uint64_t){used}, 8);
    memcpy(file + 8, header, used);
    for (size_t i = 0; i < at / 2; i++)
        memcpy(file + 8 + used + 2 * i, &(uint16_t){(uint16_t)(0x3e80 + i % 7)}, 2);
    n_file = 8 + used + at;
    scratch_put(name, file, n_file);
}

#define LAYER "layers.0."
static const Stored first[] = {{"embed_tokens", 5, 4}, {"norm", 4, 0}, {LAYER "input_layernorm", 4, 0}},
                    second[] = {{LAYER "self_attn.q_proj", 4, 4},
                                {LAYER "self_attn.k_proj", 4, 4},
                                {LAYER "self_attn.v_proj", 4, 4},
                                {LAYER "self_attn.o_proj", 4, 4},
                                {LAYER "post_attention_layernorm", 4, 0},
                                {LAYER "mlp.gate_proj", 4, 4},
                                {LAYER "mlp.up_proj", 4, 4},
                                {LAYER "mlp.down_proj", 4, 4}};

static void make_folder(void) {
    put("F/config.json",
        "{\"model_type\":\"llama\",\"hidden_size\":4,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
        "\"num_key_value_heads\":2,\"intermediate_size\":4,\"max_position_embeddings\":16,"
        "\"vocab_size\":5,\"tie_word_embeddings\":true,\"rms_norm_eps\":1e-5,\"bos_token_id\":4}");
    put("F/generation_config.json", "{\"eos_token_id\":4}");
    put("F/tokenizer_config.json", "{\"chat_template\":\"{{ messages[0].content }}\"}");
    put("F/tokenizer.json",
        "{\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true}],\"pre_tokenizer\":{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":false,\"use_regex\":true},\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
        "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"c\":3},\"merges\":[\"a b\"]}}");
    put("F/model.safetensors.index.json",
        "{\"weight_map\":{\"a\":\"model-1.safetensors\",\"b\":\"model-2.safetensors\"}}");
    put_weights("F/model-1.safetensors", first, COUNT(first));
    put_weights("F/model-2.safetensors", second, COUNT(second));
}

/* ---- A GGUF in two parts: all of a model is in the first but its last tensor ---- */

static void make_parts(void) {
    Gguf gguf = good_model(LLAMA);
    GgufTensor last = gguf.tensors[gguf.n_tensors - 1];
    uint16_t count = 2, numbers[] = {0, 1};
    int32_t n_tensors = (int32_t)gguf.n_tensors;
    gguf_drop_tensor(&gguf, &gguf.tensors[gguf.n_tensors - 1]);
    gguf_key(&gguf, "split.no", U16, &numbers[0], 2);
    gguf_key(&gguf, "split.count", U16, &count, 2);
    gguf_key(&gguf, "split.tensors.count", I32, &n_tensors, 4);
    save_model(&gguf, "s-00001-of-00002.gguf");
    gguf = gguf_begin(3);
    gguf_key(&gguf, "split.no", U16, &numbers[1], 2);
    gguf_key(&gguf, "split.count", U16, &count, 2);
    gguf_tensor(&gguf, last.name, T_F32, 0, D_MODEL);
    save_model(&gguf, "s-00002-of-00002.gguf");
}

/* ---- Calls ---- */

/* "@" stands for the output; the model comes before it. */
static const char *const outputs[] = {
    "$run %s -p ab -n 0 --logits @",
    "$study dump %s -p ab -o @",
    "$study view %s -p ab -o @",
    "$study view %s -p ab --svg L0H0 -o @",
    "echo '{\"prompt\": \"ab\", \"max_tokens\": 1}' | $run %s --batch - -o @",
    "$quantize %s @ F16",
    "$run %s --chat -n 1",
};
enum { BATCH = 4, QUANTIZE, SAVE };

/* Names and sums of all files; to be freed. */
static char *all_files(void) {
    shell(0, "cd $T && find . ! -type d -exec cksum {} + | sort");
    return strdup(text);
}

/* The command with this output; for /save that is typed. */
static int call(size_t i, const char *model, const char *path) {
    static char keys[512];
    char with[512], command[1024];
    snprintf(with, sizeof with, outputs[i], model);
    char *at = strchr(with, '@');
    snprintf(command, sizeof command, "%.*s%s%s", at ? (int)(at - with) : (int)strlen(with), with,
             at ? path : "", at ? at + 1 : "");
    if (i < SAVE) return shell(0, command);
    snprintf(keys, sizeof keys, "/save %s/%s\n/exit\n", scratch_folder, path + 3);
    typed = keys;
    int code = shell(-200, command);
    typed = NULL;
    return code;
}

static size_t n_calls;

static void refuses(size_t i, const char *model, const char *path, const char *says) {
    char *before = all_files();
    int code = call(i, model, path);
    size_t n_lines = 0;
    for (const char *c = text; *c; c++) n_lines += *c == '\n';
    n_calls++;
    CHECK(strstr(text, says) && strstr(text, "; choose another name"), "%s to %s: '%s' in:\n%s", model, path,
          says, text);
    CHECK(i == SAVE || (code == 1 && n_lines == 1), "%s to %s: %d, %zu lines:\n%s", model, path, code,
          n_lines, text);
    char *after = all_files();
    CHECK(strcmp(before, after) == 0, "%s to %s changes:\n%s\n%s", model, path, before, after);
    free(before);
    free(after);
}

static void test_folder(void) {
    static const char *const there[] = {"config.json",
                                        "generation_config.json",
                                        "tokenizer_config.json",
                                        "tokenizer.json",
                                        "model.safetensors.index.json",
                                        "model-1.safetensors",
                                        "model-2.safetensors"},
                             *const missing[] = {"model.safetensors", "chat_template.jinja",
                                                 "chat_template.json", "tokenizer.model"};
    char path[128];
    for (size_t i = 0; i < COUNT(outputs); i++) {
        for (size_t k = 0; k < COUNT(there); k++) {
            snprintf(path, sizeof path, "$T/F/%s", there[k]);
            refuses(i, "$T/F", path, "this is a file of the model");
        }
        for (size_t k = 0; k < COUNT(missing); k++) {
            snprintf(path, sizeof path, "$T/F/%s", missing[k]);
            refuses(i, "$T/F", path, "this would become a file of the model");
        }
        refuses(i, "$T/F/model-2.safetensors", "$T/F/tokenizer.json", "this is a file of the model");
    }
}

/* The file by other names, and the model by others: a folder of links, as Hugging Face's cache has, too. */
static void test_links(void) {
    CHECK(
        shell(
            0,
            "cd $T && mkdir C && for f in F/*; do ln -s ../$f C; done && ln -s F D && ln -s F/config.json soft && "
            "ln F/tokenizer.json hard && ln s-00002-of-00002.gguf part && cp one keep && ln keep one-hard") ==
            0,
        "%s", text);
    for (size_t i = 0; i < COUNT(outputs); i++) {
        refuses(i, "$T/F", "$T/soft", "this is a file of the model");
        refuses(i, "$T/F", "$T/hard", "this is a file of the model");
        refuses(i, "$T/F", "$T/D/config.json", "this is a file of the model");
        refuses(i, "$T/F/.", "$T/D/../F/chat_template.json", "this would become a file of the model");
        refuses(i, "$T/C", "$T/F/model-2.safetensors", "this is a file of the model");
        refuses(i, "$T/C", "$T/C/model-2.safetensors", "this is a file of the model");
        refuses(i, "$T/D", "$T/F/model.safetensors", "this would become a file of the model");
        if (i == SAVE) break; /* the others have no template */
        refuses(i, "$T/s-00001-of-00002.gguf", "$T/s-00001-of-00002.gguf", "this is a file of the model");
        refuses(i, "$T/s-00001-of-00002.gguf", "$T/s-00002-of-00002.gguf", "this is a file of the model");
        refuses(i, "$T/s-00001-of-00002.gguf", "$T/part", "this is a file of the model");
        refuses(i, "$T/keep", "$T/one-hard", "this is a file of the model");
    }
}

/* Other files that are read: a vocabulary, which may be a folder; a text; a chat template. */
static void test_others(void) {
    CHECK(
        shell(
            0,
            "mkdir $T/V && cp $T/F/tokenizer*.json $T/V && cp $T/one $T/vocabulary && echo ab >$T/prompt && "
            "echo '{{ messages[0].content }}' >$T/template") == 0,
        "%s", text);
    for (size_t i = 0; i < SAVE; i++) {
        if (i == QUANTIZE) continue; /* its -z is for models without one */
        refuses(i, "$T/F -z $T/V", "$T/V/tokenizer.json", "this is a file of the vocabulary");
        refuses(i, "$T/F -z $T/V", "$T/V/config.json", "this would become a file of the vocabulary");
        refuses(i, "$T/F -z $T/V", "$T/F/config.json", "this is a file of the model");
        refuses(i, "$T/one -z $T/vocabulary", "$T/vocabulary", "this is a file of the vocabulary");
    }
    CHECK(shell(0, "$run $T/V -p a") == 1 && strstr(text, "/V: holds a vocabulary only, no weights\n"), "%s",
          text);
    CHECK(shell(0, "$run $T/F -f $T/prompt -n 0 --logits $T/prompt") == 1 &&
              strstr(text, "prompt: this is the text that is read; choose another name\n"),
          "%s", text);
    CHECK(shell(0, "ln $T/prompt $T/p2; $study view $T/F -f $T/prompt -o $T/p2") == 1 &&
              strstr(text, "p2: this is the text that is read; choose another name\n"),
          "%s", text);
    CHECK(shell(0, "echo old >$T/old && echo ab | $run $T/F -f - -n 0 --logits $T/old") == 0, "%s", text);
    CHECK(shell(0, "$run $T/F --batch $T/prompt -o $T/p2") == 1 &&
              strstr(text, "p2: this is the text that is read; choose another name\n"),
          "%s", text);
    for (size_t i = BATCH; i <= SAVE; i += SAVE - BATCH)
        refuses(i, "$T/F --chat-template $T/template", "$T/template",
                "this is the chat template that is read");
    write_llama2c_model_of(259);
    scratch_put("l2c", file, n_file);
    write_llama2c_vocabulary(259);
    scratch_put("l2v", file, n_file);
    refuses(QUANTIZE, "-z $T/l2v $T/l2c", "$T/l2v", "this is a file of the vocabulary");
    refuses(QUANTIZE, "-z $T/l2v $T/l2c", "$T/l2c", "this is a file of the model");
}

/* Everything else may be written, beside the model, too. */
static void test_free(void) {
    for (size_t i = 0; i < COUNT(outputs); i++) {
        char *before = all_files(), *end = NULL;
        int code = call(i, "$T/F", "$T/F/other");
        CHECK(code == 0, "%s: %d: %s", outputs[i], code, text);
        CHECK(shell(0, "test -s $T/F/other && rm $T/F/other") == 0, "%s: nothing is written", outputs[i]);
        end = all_files();
        CHECK(strcmp(before, end) == 0, "%s changes:\n%s\n%s", outputs[i], before, end);
        free(before);
        free(end);
    }
}

int main(void) {
    words_begin();
    set_program("quantize", "QUANTIZE", "./quantize");
    CHECK(shell(0, "mkdir $T/F") == 0, "%s", text);
    make_folder();
    make_parts();
    RUN(test_folder);
    RUN(test_links);
    RUN(test_others);
    RUN(test_free);
    CHECK(n_calls > 100, "%zu calls", n_calls);
    return words_end();
}
