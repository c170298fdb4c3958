/* The first calls: each view and run on small models of each family and weight type, llama2.c's files, JSON cases. */
#include "tests/fuzz/fuzz.h"

#include "tests/bad.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t weight_types[] = {T_F32, T_F16, T_BF16, T_Q8_0, T_Q4_0};

/* bad.h's sizes, eight times as wide for types that pack 32 weights: the context and the vocabulary stay. */
static uint64_t widened(uint64_t n) { return n == N_VOCAB || n <= 1 ? n : n == D_FF ? 64 : 8 * n; }

static void widen(Gguf *gguf) {
    static const char *const keys[] = {"embedding_length", "feed_forward_length", "key_length", "value_length",
                                       "dimension_count"};
    for (size_t i = 0; i < gguf->n_keys; i++)
        for (size_t k = 0; k < COUNT(keys); k++) {
            uint32_t value;
            if (!strstr(gguf->keys[i].name, keys[k])) continue;
            memcpy(&value, gguf->keys[i].value, 4);
            value = (uint32_t)widened(value);
            memcpy(gguf->keys[i].value, &value, 4);
        }
    for (size_t i = 0; i < gguf->n_tensors; i++)
        for (size_t k = 0; k < gguf->tensors[i].n_dims; k++)
            gguf->tensors[i].dims[k] = widened(gguf->tensors[i].dims[k]);
}

enum { CONTEXT = 16 };

/* A context longer than bad.h's, and where the weights are small two layers. */
static void lengthen(Gguf *gguf, bool two_layers) {
    static char names[COUNT(model_tensors)][32];
    for (size_t i = 0; i < gguf->n_keys; i++)
        if (strstr(gguf->keys[i].name, "context_length")) memcpy(gguf->keys[i].value, &(uint32_t){CONTEXT}, 4);
    for (size_t i = 0; i < gguf->n_keys && two_layers; i++)
        if (strstr(gguf->keys[i].name, "block_count")) memcpy(gguf->keys[i].value, &(uint32_t){2}, 4);
    size_t n = gguf->n_tensors;
    for (size_t i = 0; i < n; i++) {
        GgufTensor *tensor = &gguf->tensors[i];
        if (strstr(tensor->name, "position_embd")) tensor->dims[1] = CONTEXT;
        if (!two_layers || strncmp(tensor->name, "blk.0.", 6) != 0) continue;
        snprintf(names[i], sizeof names[i], "blk.1.%s", tensor->name + 6);
        gguf->tensors[gguf->n_tensors] = *tensor;
        gguf->tensors[gguf->n_tensors++].name = names[i];
    }
}

size_t seed_model(int which, int type, unsigned char *bytes) {
    static Gguf gguf;
    gguf = good_model((Which)which);
    uint32_t of_tensors = weight_types[type];
    if (type >= 3) widen(&gguf);
    lengthen(&gguf, type < 3);
    for (size_t i = 0; i < gguf.n_tensors; i++) {
        GgufTensor *tensor = &gguf.tensors[i];
        bool matrix = tensor->n_dims > 1;
        tensor->type = matrix ? of_tensors : T_F32;
        tensor->n_bytes = gguf_bytes(tensor->type, tensor->dims[0] * (matrix ? tensor->dims[1] : 1));
    }
    return gguf_write(&gguf, bytes);
}

static const char *seed_folder;
static int n_seeds;

/* Words are those between spaces; "_" is a space within one. */
static void write_seed(const char *line, const Part *parts, size_t n_parts) {
    static unsigned char bytes[1 << 19];
    static char text[512];
    char path[512];
    Call call = {.n = 0};
    snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        for (char *c = word; *c; c++)
            if (*c == '_') *c = ' ';
        call_add(&call, 'w', word, strlen(word));
    }
    for (size_t i = 0; i < n_parts; i++) call_add(&call, parts[i].tag, parts[i].bytes, parts[i].n);
    snprintf(path, sizeof path, "%s/seed-%03d", seed_folder, n_seeds++);
    FILE *out = fopen(path, "wb");
    size_t n = call_write(&call, bytes, sizeof bytes);
    if (!out || fwrite(bytes, 1, n, out) != n || fclose(out) != 0) abort();
}

static const char *const on_models[] = {
    "run a -p ab",
    "run a -p ab --temp 0 -n 6 -v",
    "run a --json -s 3 --top-k 3 --min-p 0.1 --repeat-penalty 1.3 --presence-penalty 1 --frequency-penalty -1",
    "run a -i --shift -c 8 -n 2",
    "run a --info",
    "run a --info -z b",
    "run a --tokens -v -p ab<s>_a --special",
    "run a --logits out -p abc --kv f32 -t 2",
    "run a -p ab --stop a --stop bc --top-p 0.5 --no-echo",
    "run -p ab",
    "study next a -p ab --top 3 --token #6 --token #1 --temp 0.5 --top-k 4 --top-p 0.9 --min-p 0.01",
    "study next a -p ab --json",
    "study score a -p abcabcabcab --words -c 4",
    "study score a -p abcab --json --chunks -c 2",
    "study attend a -p abc --layer 0 --head 1 --by value",
    "study attend a -p ab_cab_a --json --reduce mean --no-sink --words",
    "study attend a -p ab --layer 0 --head 1 -n 2 --temp 1",
    "study attend a -p ab_a_b --layer 0 --reduce max --query 1 --top 3",
    "study attend a -p ab --json --layer 0 --norm",
    "study heads a -p abab",
    "study heads a --repeat 3 --batch 2 --json",
    "study lens a -p ab --mid --token #5 --frozen-norm",
    "study lens a -p ab --json --query 0",
    "study explain a -p abc --layer 0 --head 0 --query 1",
    "study explain a -p abc --layer 0 --head 1 --json",
    "study ablate a -p abcab --heads L0H0",
    "study ablate a -p abcab --sweep heads --json",
    "study ablate a -p ab --mlps 0 --by mean --with b",
    "study ablate a -p abba --heads L0H1 --by resample --with b --json",
    "study compare a b -p abc",
    "study compare a b -p abc --json",
    "study dump a -p abc -o out",
    "study dump a -p abc -o out --json --what pattern,q,logits --layers 0 --heads 0-1 --half",
    "study view a -p abc -o out -n 2 --ablate L0H0",
    "study view a -p abc --json --top 2",
    "study view a -p abc -o out --svg L0H1",
    "study selfcheck a",
    "study selfcheck a --json --kv f16 -p ab",
    "study shape a",
    "study shape a --json -c 100",
};

static void write_model_seeds(void) {
    static unsigned char models[2][5][1 << 18];
    size_t n[2][5];
    for (int which = 0; which < 2; which++)
        for (int type = 0; type < 5; type++) n[which][type] = seed_model(which, type, models[which][type]);
    for (int which = 0; which < 2; which++)
        for (size_t i = 0; i < COUNT(on_models); i++) {
            int type = (int)(i % 5), other = (int)((i + 1) % 5);
            Part parts[4] = {{'a', models[which][type], n[which][type]}};
            size_t n_parts = 1;
            if (strstr(on_models[i], "--with b"))
                parts[n_parts++] = (Part){'b', (const unsigned char *)"abba", 4};
            else if (strstr(on_models[i], " b"))
                parts[n_parts++] = (Part){'b', models[which][other], n[which][other]};
            if (!strstr(on_models[i], " a")) parts[0].tag = 'm';
            if (strstr(on_models[i], " -i")) parts[n_parts++] = (Part){'i', (const unsigned char *)"ab\nabc\n\na", 9};
            if (i % 7 == 6) parts[n_parts++] = (Part){'t', NULL, 0};
            if (i % 5 == 4) parts[n_parts++] = (Part){'k', (const unsigned char *)"scalar", 6};
            write_seed(on_models[i], parts, n_parts);
        }
}

/* Behind the special and byte tokens of bad.h some that are texts, each likelier than the next. */
static size_t write_vocabulary(void) {
    static const char *const pieces[] = {"a", "b", "ab", " ", " a", "\xc3\xa9", "\x1b[31m", "c"};
    write_llama2c_vocabulary(259);
    for (size_t i = 0; i < COUNT(pieces); i++) {
        int32_t length = (int32_t)strlen(pieces[i]);
        float score = i == 2 ? 1 : -(float)i;
        memcpy(file + n_file, &score, 4);
        memcpy(file + n_file + 4, &length, 4);
        memcpy(file + n_file + 8, pieces[i], (size_t)length);
        n_file += 8 + (size_t)length;
    }
    return 259 + COUNT(pieces);
}

static void write_llama2c_seeds(void) {
    static const char *const lines[] = {"run a -z b -p ab",          "run a -z b --json -n 2", "study next a -z b -p ab",
                                        "study shape a --json",      "run a -z b --info",      "load",
                                        "run a -z b --tokens -p ab", "study view a -z b -p ab --json"};
    static unsigned char vocabulary[1 << 16];
    int n_vocab = (int)write_vocabulary();
    size_t n = n_file;
    memcpy(vocabulary, file, n);
    write_llama2c_model_of(n_vocab);
    for (size_t i = 0; i < COUNT(lines); i++)
        write_seed(lines[i], (const Part[]){{'a', file, n_file}, {'b', vocabulary, n}}, 2);
    write_seed("load", &(Part){'a', vocabulary, n}, 1);
}

static void write_file_seeds(void) {
    static const char *const lines[][2] = {
        {"docs/cases/1-dot.json", "study case a"},        {"docs/cases/2-scaled.json", "study case a --json"},
        {"docs/cases/3-qkv.json", "study case a"},        {"docs/cases/4-causal.json", "study case a --ascii"},
        {"docs/cases/5-heads.json", "study case a"},      {"docs/cases/6-cross.json", "study case a --json"},
        {"tests/data/tokenizer/gpt2.gguf", "run a --tokens -p don't_12_<|endoftext|> --special"},
        {"tests/data/tokenizer/llama3.gguf", "run a --tokens -v -p Hello_12345_it's"},
        {"tests/data/tokenizer/sentencepiece.gguf", "run a --tokens -p the_cat"},
    };
    for (size_t i = 0; i < COUNT(lines); i++) {
        FILE *in = fopen(lines[i][0], "rb");
        if (!in) abort();
        n_file = fread(file, 1, sizeof file, in);
        fclose(in);
        write_seed(lines[i][1], &(Part){'a', file, n_file}, 1);
    }
}

static void write_word_seeds(void) {
    static const char *const lines[] = {"run", "run --help", "run --version", "study", "study --help", "study --version",
                                        "study next --help", "study ablate --help", "study nxt", "run --predikt 3",
                                        "study shape --preset gpt2", "study shape --preset gpt3-175b --json", "run a",
                                        "study next a -p x", "run a -n x"};
    for (size_t i = 0; i < COUNT(lines); i++) write_seed(lines[i], NULL, 0);
}

void write_seeds(const char *folder) {
    seed_folder = folder;
    write_model_seeds();
    write_llama2c_seeds();
    write_file_seeds();
    write_word_seeds();
    fprintf(stderr, "%d seeds in %s\n", n_seeds, folder);
}
