/*
 * Checkpoints whose structure is right, but which are no model that can run: keys and tensors are missing, absurd
 * or contradict each other, vocabularies are wrong, weights are not finite, tokens and contexts are impossible.
 * Each is wrong in one way, and must be refused where that can first be noticed.
 */
#include "bad.h"
#include "open.h"

#include "tokenizer.h"

#include <sys/resource.h>
#include <sys/wait.h>

static Threads *pool;

static void test_keys(void) {
    static const struct {
        uint32_t of; /* the type that the key should have */
        uint32_t type;
        uint64_t bits; /* the value's lower bytes */
        size_t n;
        const char *tells; /* after the key's name */
    } values[] = {
        {U32, U32, 0, 4, "' is 0"},
        {U32, U64, 1ull << 40, 8, "' is 1099511627776"},
        {U32, U64, 1ull << 63, 8, "' is 9223372036854775808"},
        {U32, U64, UINT64_MAX, 8, "' is 18446744073709551615"},
        {U32, I32, UINT32_MAX, 4, "' is of type int32"}, /* −1 */
        {U32, F32, 0x40800000, 4, "' is of type float32"},
        {U32, BOOL, 1, 1, "' is of type bool"},
        {U32, STRING, 0, 8, "' is of type string"},
        {U32, ARRAY, U32, 12, "' is of type array of uint32"}, /* as where layers differ */
        {F32, F32, 0, 4, "' is 0"},
        {F32, F32, 0x80000000, 4, "' is -0"},
        {F32, F32, 0xbf800000, 4, "' is -1"},
        {F32, F32, 0x7fc00000, 4, "' is nan"},
        {F32, F32, 0x7f800000, 4, "' is inf"},
        {F32, U32, 1, 4, "' is of type uint32, expected float32"},
        {F32, STRING, 0, 8, "' is of type string"},
    };
    for (Which which = LLAMA; which <= GPT2; which++)
        for (size_t i = 0; i < COUNT(model_keys); i++) {
            const char *name = model_keys[i].name[which];
            char tells[96];
            for (size_t k = 0; name && k < COUNT(values); k++) {
                if (values[k].of != model_keys[i].type) continue;
                if (strstr(name, "scaling.factor") && values[k].type == F32 &&
                    !strstr("nan inf", values[k].tells + 5))
                    continue; /* any number will do, and 0 says nothing */
                snprintf(tells, sizeof tells, "'%s%s", name, values[k].tells);
                refuse_value(which, name, values[k].type, (uint64_t[]){values[k].bits, 0}, values[k].n,
                             tells);
            }
            if (!name || !model_keys[i].required) continue;
            Gguf gguf = good_model(which);
            gguf_drop(&gguf, gguf_find(&gguf, name));
            snprintf(tells, sizeof tells, "'%s' is missing", name);
            refuse(&gguf, tells, tells);
        }
}

/* Values that contradict the others, and features that are not computed here. */
static void test_config(void) {
    static const struct {
        Which which;
        const char *key;
        uint32_t type;
        uint32_t number;
        const char *text; /* of a STRING */
        const char *tells;
    } edits[] = {
        {LLAMA, "llama.block_count", U32, 2, NULL, "'blk.1.attn_norm.weight' is missing"},
        {LLAMA, "llama.block_count", U32, 1000000, NULL, "1000000 layers"},
        {LLAMA, "llama.attention.head_count", U32, 3, NULL, "'blk.0.attn_q.weight' has shape"},
        {GPT2, "gpt2.attention.head_count", U32, 3, NULL, "d_model 4 is not divisible by 3 heads"},
        {GPT2, "gpt2.attention.head_count", U32, 8, NULL, "d_model 4 is not divisible by 8 heads"},
        {LLAMA, "llama.attention.head_count_kv", U32, 3, NULL, "2 heads cannot share 3 kv heads"},
        {LLAMA, "llama.attention.head_count_kv", U32, 2, NULL, "'blk.0.attn_k.weight' has shape"},
        {LLAMA, "llama.attention.value_length", U32, 4, NULL, "keys and values of different lengths"},
        {LLAMA, "llama.rope.dimension_count", U32, 1, NULL, "RoPE over 1 dimensions"},
        {LLAMA, "llama.rope.dimension_count", U32, 4, NULL, "RoPE over 4 dimensions of heads of 2"},
        {LLAMA, "llama.rope.scaling.type", STRING, 0, "su", "RoPE scaling 'su' is not supported"},
        {LLAMA, "llama.rope.scaling.type", U32, 1, NULL, "'llama.rope.scaling.type' is of type uint32"},
        {LLAMA, "llama.expert_count", U32, 8, NULL, "'llama.expert_used_count' is missing"},
        {LLAMA, "llama.expert_count", U32, 65537, NULL, "'llama.expert_count' is 65537, expected 1 to 65536"},
        {LLAMA, "llama.attention.sliding_window", F32, 4, NULL,
         "'llama.attention.sliding_window' is of type"},
        {GPT2, "gpt2.attention.clamp_kqv", F32, 0xc1000000, NULL, "'gpt2.attention.clamp_kqv' is -8"},
        {LLAMA, "llama.hidden_activation", STRING, 0, "gelu",
         "'llama.hidden_activation' is 'gelu', which is not supported in this family"},
        {GPT2, "gpt2.hidden_activation", STRING, 0, "silu",
         "'gpt2.hidden_activation' is 'silu', which is not"},
        {GPT2, "gpt2.hidden_activation", STRING, 0, "", "'gpt2.hidden_activation' is '', which is not"},
        {GPT2, "gpt2.hidden_activation", U32, 1, NULL, "'gpt2.hidden_activation' is of type uint32"},
        {LLAMA, "llama.rope.layer_pattern", U32, 1, NULL, "'llama.rope.layer_pattern' is of type uint32"},
        {GPT2, "gpt2.attention.max_alibi_bias", F32, 0x7f800000, NULL,
         "'gpt2.attention.max_alibi_bias' is inf"},
        {LLAMA, "llama.attention.causal", BOOL, 0, NULL,
         "('llama.attention.causal' is false) is not supported"},
        {GPT2, "gpt2.context_length", U32, 1 << 30, NULL, "'position_embd.weight' has shape"},
        {GPT2, "gpt2.context_length", U32, N_CTX - 1, NULL, "'position_embd.weight' has shape"},
        {LLAMA, "general.architecture", STRING, 0, "mamba", "architecture 'mamba' is not supported"},
        {LLAMA, "general.architecture", STRING, 0, "", "architecture '' is not supported"},
        {LLAMA, "general.architecture", STRING, 0, "a\nb\x1b[2J\x7f",
         "architecture 'a\\nb\\u001b[2J\\u007f'"},
        {LLAMA, "general.architecture", U32, 1, NULL, "'general.architecture' is of type uint32"},
    };
    for (size_t i = 0; i < COUNT(edits); i++) {
        Gguf gguf = good_model(edits[i].which);
        if (edits[i].type == STRING)
            gguf_string(&gguf, edits[i].key, edits[i].text);
        else
            gguf_key(&gguf, edits[i].key, edits[i].type, &edits[i].number, edits[i].type == BOOL ? 1 : 4);
        refuse(&gguf, edits[i].tells, edits[i].key);
    }
    Gguf gguf = good_model(LLAMA);
    gguf_drop(&gguf, gguf_find(&gguf, "general.architecture"));
    refuse(&gguf, "'general.architecture' is missing", "no architecture");
    gguf = good_model(LLAMA);
    gguf_string(&gguf, "general.architecture", "mamba");
    refuse(&gguf, "architecture 'mamba' is not supported; these are: gpt2, llama, qwen2", "another family");
    gguf.n_tensors = 0;
    refuse(&gguf, "vocabulary only", "no tensors of another family");
    gguf_string(&gguf, "general.architecture", "llama");
    refuse(&gguf, "vocabulary only", "no tensors");
}

static void test_tensors(void) {
    for (Which which = LLAMA; which <= GPT2; which++)
        for (size_t i = 0; i < COUNT(model_tensors); i++) {
            const char *name = model_tensors[i].name;
            char tells[96];
            if (!model_tensors[i].in[which]) continue;
            Gguf gguf = good_model(which);
            gguf_drop_tensor(&gguf, gguf_find_tensor(&gguf, name));
            bool fused = strcmp(name, "blk.0.attn_qkv.weight") == 0; /* or three of them */
            snprintf(tells, sizeof tells, fused ? "and so is '%s'" : "tensor '%s' is missing", name);
            refuse(&gguf, tells, tells);

            snprintf(tells, sizeof tells, "tensor '%s' has shape", name);
            for (int k = 0; k < 3; k++) { /* a column less, a row less, a third dimension */
                bool is_embedding = strcmp(name, "token_embd.weight") == 0; /* whose rows may be any number */
                if ((k > 0 && model_tensors[i].rows < 2) || (k == 1 && is_embedding)) continue;
                gguf = good_model(which);
                GgufTensor *tensor = gguf_find_tensor(&gguf, name);
                if (k < 2) tensor->dims[k]--;
                if (k == 2) tensor->dims[1] /= 2, tensor->dims[2] = 2, tensor->n_dims = 3;
                refuse(&gguf, tells, tells);
            }
        }
}

/* Types of right checkpoints that no kernel reads; llama-quantize makes others of some. */
static void test_tensor_types(void) {
    static const struct {
        uint32_t type;
        const char *name;
        bool convertible;
    } types[] = {
        {16, "IQ2_XXS", true},   {17, "IQ2_XS", true},      {18, "IQ3_XXS", true},
        {19, "IQ1_S", true},     {21, "IQ3_S", true},       {22, "IQ2_S", true},
        {29, "IQ1_M", true},     {34, "TQ1_0", true},       {35, "TQ2_0", true},
        {40, "NVFP4", true},     {41, "Q1_0", true},        {42, "Q2_0", true},
        {9, "Q8_1", false},      {15, "Q8_K", false},       {31, "Q4_0_4_4", false},
        {33, "Q4_0_8_8", false}, {36, "IQ4_NL_4_4", false}, {38, "IQ4_NL_8_8", false},
        {26, "I32", false},      {28, "F64", false},        {4, "4", false},
        {43, "43", false},       {63, "63", false},         {64, "64", false},
        {99, "99", false},       {1000, "1000", false},     {UINT32_MAX, "4294967295", false},
    };
    for (size_t i = 0; i < COUNT(types); i++) {
        Gguf gguf = good_model(GPT2);
        GgufTensor *tensor = gguf_find_tensor(&gguf, "blk.0.ffn_up.weight");
        char tells[96];
        tensor->type = types[i].type, tensor->dims[0] = 256, tensor->n_bytes = 1 << 14;
        snprintf(tells, sizeof tells, "tensor '%s' has type %s, which is not supported; these are: F32, F16",
                 tensor->name, types[i].name);
        refuse(&gguf, tells, tells);
        Error error = {{0}};
        model_close(model_open(scratch_path(), &error));
        const char *advice = strstr(error.message, "MXFP4. Get the model in one of them");
        CHECK(advice &&
                  strcmp(advice + 35, types[i].convertible ? ", or convert it: llama-quantize (of llama.cpp) "
                                                             "--allow-requantize IN OUT Q8_0"
                                                           : "") == 0,
              "%s: %s", types[i].name, error.message);
    }
    Gguf gguf = good_model(LLAMA); /* a vector of more weights than memory has, which nothing unpacks */
    gguf_find_tensor(&gguf, "output_norm.weight")->type = 99;
    gguf_find_tensor(&gguf, "output_norm.weight")->dims[0] = 1ull << 45;
    refuse(&gguf, "'output_norm.weight' has type 99", "a claim");
}

/* A part is known by its keys, and finds the others by its name. Joined again, the count is 0. */
static void test_parts(void) {
    Gguf gguf = good_model(LLAMA), rest = gguf_begin(3);
    gguf_key(&gguf, "split.no", U16, (const uint16_t[]){0}, 2);
    gguf_key(&gguf, "split.count", U16, (const uint16_t[]){3}, 2);
    refuse(&gguf, "part 1 of 3 of a split GGUF: its name must end in '-00001-of-00003.gguf'",
           "the first part");
    gguf_key(&rest, "split.no", U16, (const uint16_t[]){2}, 2);
    gguf_key(&rest, "split.count", U16, (const uint16_t[]){3}, 2);
    gguf_tensor(&rest, "blk.1.attn_q.weight", T_F32, 4, 4);
    refuse(&rest, "part 3 of 3 of a split GGUF", "the last part");
    for (uint16_t n = 0; n < 2; n++) {
        gguf_key(&gguf, "split.count", U16, &n, 2);
        model_close(accept(&gguf));
    }
}

/* The file is large enough for all these rows, though nobody has written them. */
static void test_absurd_vocabulary(void) {
    Gguf gguf = good_model(LLAMA);
    GgufTensor *tensor = gguf_find_tensor(&gguf, "token_embd.weight");
    tensor->dims[1] = (1 << 24) + 1;
    gguf.data_reversed = true; /* puts the first tensor at the end */
    scratch_write(file, gguf_write(&gguf, file));
    CHECK(truncate(scratch_path(), (off_t)(tensor->data_at + 4 * D_MODEL * tensor->dims[1])) == 0,
          "truncate");
    refuse_path(scratch_path(), "a vocabulary of 16777217", "more tokens than can be");
}

/* 65536 heads of 65537 numbers are 65536 where sizes have 32 bits, as in a page. */
static void test_absurd_heads(void) {
    static const char *const keys[] = {"llama.embedding_length", "llama.attention.head_count",
                                       "llama.attention.head_count_kv"};
    Gguf gguf = good_model(LLAMA);
    for (size_t i = 0; i < COUNT(keys); i++) gguf_u32(&gguf, keys[i], 65536);
    gguf_u32(&gguf, "llama.attention.key_length", 65537);
    gguf_u32(&gguf, "llama.attention.value_length", 65537);
    refuse(&gguf, "65536 heads of 65537 numbers each are absurd", "heads beyond 32 bits");
}

/* Tensors that the family does not have, or has only sometimes. */
static void test_more_tensors(void) {
    static const struct {
        const char *name;
        uint64_t rows, cols;
        const char *tells;
    } more[] = {
        {"blk.1.attn_q.weight", D_MODEL, D_MODEL,
         "'blk.1.attn_q.weight' is not part of a model of family 'llama'"},
        {"blk.00.attn_q.weight", D_MODEL, D_MODEL, "'blk.00.attn_q.weight' is not part"},
        {"blk.0.attn_norm.bias", 0, D_MODEL, "'blk.0.attn_norm.bias' is not part"},
        {"abc", 0, 1, "'abc' is not part"},
        {"blk.a.weight", 0, 1, "'blk.a.weight' is not part"},
        {"a\x1b[2J\n", 0, 1, "'a\\u001b[2J\\n' is not part"},
        {"output.weight", N_VOCAB - 1, D_MODEL, "'output.weight' has shape [7][4], expected [8][4]"},
        {"blk.0.attn_q.bias", 0, D_MODEL - 1, "'blk.0.attn_q.bias' has shape [1][3], expected [1][4]"},
        {"rope_freqs.weight", 0, 2, "'rope_freqs.weight' has shape [1][2], expected [1][1]"},
    };
    for (size_t i = 0; i < COUNT(more); i++) {
        Gguf gguf = good_model(LLAMA);
        gguf_tensor(&gguf, more[i].name, T_F32, more[i].rows, more[i].cols);
        refuse(&gguf, more[i].tells, more[i].tells);
    }
    static const float factors[] = {0, (float)NAN};
    for (size_t i = 0; i < COUNT(factors); i++) {
        Gguf gguf = good_model(LLAMA);
        GgufTensor *tensor = gguf_tensor(&gguf, "rope_freqs.weight", T_F32, 0, 1);
        n_file = gguf_write(&gguf, file);
        memcpy(file + tensor->data_at, &factors[i], 4);
        refuse_file("'rope_freqs.weight' holds", "a factor by which nothing can be divided");
    }
}

/* Norms and biases that are not F32 are unpacked: with 1 to 4 dimensions they need the same room. */
static void test_vectors_of_more_dimensions(void) {
    for (uint32_t n_dims = 1; n_dims <= 4; n_dims++) {
        Gguf gguf = good_model(GPT2);
        for (size_t i = 0; i < gguf.n_tensors; i++)
            if (gguf.tensors[i].n_dims == 1) gguf.tensors[i].type = T_F16, gguf.tensors[i].n_dims = n_dims;
        model_close(accept(&gguf));
    }
}

/* A small file that claims heads of 2^24 dimensions must not cost what those would: 64 MiB, 0.3 s. */
static void test_claims_cost_nothing(void) {
    static const char *const keys[] = {"llama.attention.key_length", "llama.attention.value_length",
                                       "llama.rope.dimension_count"};
    Gguf gguf = good_model(LLAMA);
    for (size_t i = 0; i < COUNT(keys); i++) gguf_u32(&gguf, keys[i], 1 << 24);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    refuse(&gguf, "'blk.0.attn_q.weight' has shape", "heads of 2^24 dimensions");
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss < 8192, "%ld KiB", after.ru_maxrss - before.ru_maxrss);
}

static void refuse_vocabulary(Gguf *gguf, const char *tells) {
    Error error = {{0}};
    scratch_write(file, gguf_write(gguf, file));
    Checkpoint *checkpoint = checkpoint_open(scratch_path(), &error);
    CHECK(checkpoint != NULL, "%s: %s", tells, error.message);
    if (checkpoint == NULL) return;
    Tokenizer *tokenizer = tokenizer_new(checkpoint, &error);
    CHECK(tokenizer == NULL, "%s: accepted", tells);
    if (tokenizer == NULL) check_message(&error, scratch_path(), tells, tells);
    tokenizer_free(tokenizer);
    checkpoint_close(checkpoint);
}

static void test_vocabulary_keys(void) {
    static const char wrong_type[] = "' is of type";
    static const struct {
        Which which;
        const char *key;
        uint32_t type;
        uint32_t value[3];
        size_t n;          /* bytes of it */
        const char *tells; /* after the key */
    } edits[] = {
        {LLAMA, "tokenizer.ggml.model", U32, {1}, 4, wrong_type},
        {LLAMA, "tokenizer.ggml.model", STRING, {1, 0, 'x'}, 9, " 'x' is not supported"},
        {GPT2, "tokenizer.ggml.pre", STRING, {1, 0, 'x'}, 9, " 'x' is not supported"},
        {LLAMA, "tokenizer.ggml.tokens", ARRAY, {U32, 0}, 12, wrong_type},
        {LLAMA, "tokenizer.ggml.tokens", STRING, {0}, 8, wrong_type},
        {LLAMA, "tokenizer.ggml.tokens", ARRAY, {STRING, 0}, 12, " is missing or empty"},
        {LLAMA, "tokenizer.ggml.token_type", ARRAY, {F32, 0}, 12, wrong_type},
        {LLAMA, "tokenizer.ggml.token_type", ARRAY, {I32, 0}, 12, " has 0 elements for 8 tokens"},
        {LLAMA, "tokenizer.ggml.scores", ARRAY, {I32, 0}, 12, wrong_type},
        {LLAMA, "tokenizer.ggml.scores", ARRAY, {F32, 0}, 12, " has 0 elements for 8 tokens"},
        {GPT2, "tokenizer.ggml.merges", ARRAY, {I32, 0}, 12, wrong_type},
        {LLAMA, "tokenizer.ggml.bos_token_id", U32, {N_VOCAB}, 4, " is 8, but the vocabulary has 8 tokens"},
        {LLAMA, "tokenizer.ggml.eos_token_id", U64, {1, 1}, 8, " is 4294967297, but"},
        {LLAMA, "tokenizer.ggml.unknown_token_id", I32, {UINT32_MAX}, 4, wrong_type},
        {LLAMA, "tokenizer.ggml.add_bos_token", U32, {1}, 4, wrong_type},
        {LLAMA, "tokenizer.ggml.add_bos_token", BOOL, {2}, 1, wrong_type},
    };
    for (size_t i = 0; i < COUNT(edits); i++) {
        Gguf gguf = good_model(edits[i].which);
        char tells[96];
        gguf_key(&gguf, edits[i].key, edits[i].type, edits[i].value, edits[i].n);
        snprintf(tells, sizeof tells, "%s%s", edits[i].key, edits[i].tells);
        refuse_vocabulary(&gguf, tells);
    }
    static const struct {
        Which which;
        const char *key;
    } missing[] = {
        {LLAMA, "tokenizer.ggml.model"},
        {LLAMA, "tokenizer.ggml.tokens"},
        {LLAMA, "tokenizer.ggml.scores"},
        {GPT2, "tokenizer.ggml.merges"},
    };
    for (size_t i = 0; i < COUNT(missing); i++) {
        Gguf gguf = good_model(missing[i].which);
        char tells[96];
        gguf_drop(&gguf, gguf_find(&gguf, missing[i].key));
        snprintf(tells, sizeof tells, "%s is missing", missing[i].key);
        refuse_vocabulary(&gguf, tells);
    }
}

/* Changes element 5 of an array of 4-byte numbers, which stand after its type and length. */
static void refuse_element(Which which, const char *key, const void *value, const char *tells) {
    Gguf gguf = good_model(which);
    memcpy(gguf_find(&gguf, key)->value + 12 + 4 * 5, value, 4);
    refuse_vocabulary(&gguf, tells);
}

static void test_vocabulary_elements(void) {
    static const char *const merges[][2] = {
        {"ab", "is not two parts"},
        {" b", "is not two parts"},
        {"a ", "is not two parts"},
        {"a b c", "is not two parts"},
        {"", "is not two parts"},
        {"a z", "makes a token that is not in"},
        {"b a", "makes a token that is not in"},
    };
    for (size_t i = 0; i < COUNT(merges); i++) {
        Gguf gguf = good_model(GPT2);
        char tells[96];
        gguf_strings(&gguf, "tokenizer.ggml.merges", (const char *const[]){"a b", merges[i][0]}, 2);
        snprintf(tells, sizeof tells, "tokenizer.ggml.merges: '%s' %s", merges[i][0], merges[i][1]);
        refuse_vocabulary(&gguf, tells);
    }
    static const int32_t types[] = {0, 7, -1, INT32_MAX};
    for (size_t i = 0; i < COUNT(types); i++)
        refuse_element(GPT2, "tokenizer.ggml.token_type", &types[i], "tokenizer.ggml.token_type of token 5");
    refuse_element(LLAMA, "tokenizer.ggml.token_type", &(int32_t){6}, "byte token 5 is named 'a'");
    refuse_element(LLAMA, "tokenizer.ggml.scores", &(float){NAN}, "tokenizer.ggml.scores of token 5");

    char name[301] = {0};
    const char *texts[N_VOCAB] = {"a", "b", "ab", "bc", "c", "d", "e", memset(name, 'x', 300)};
    Gguf gguf = good_model(GPT2);
    gguf_strings(&gguf, "tokenizer.ggml.tokens", texts, N_VOCAB);
    refuse_vocabulary(&gguf, "special token 7 has 300 bytes");
}

/* Chunks of two tokens, so that a text of three takes more than one. */
static Session *begin(const Model *model, size_t n_ctx, Error *error) {
    SessionOptions options = {.n_ctx = n_ctx,
                              .kv_dtype = DTYPE_F16,
                              .n_chunk = 2,
                              .compute = {.kernels = kernels_pick(NULL, error), .threads = pool}};
    return session_new(model, &options, error);
}

/* Of two texts that go through the layers together one has no finite logits, whose places are beside each other or apart. */
static void test_texts_not_finite(void) {
    for (int i = 0; i < 4; i++) {
        Gguf gguf = good_model(GPT2);
        n_file = gguf_write(&gguf, file);
        memcpy(file + gguf_find_tensor(&gguf, "token_embd.weight")->data_at, &(float){NAN}, 4);
        Model *model = accept_file();
        Error error = {{0}};
        float logits[3 * N_VOCAB];
        Session *sessions[] = {model ? begin(model, 0, &error) : NULL,
                               model ? begin(model, 0, &error) : NULL};
        const int32_t bad[] = {0, 1}, good[] = {1, 2};
        FeedPart parts[] = {{sessions[0], i % 2 ? good : bad, 2, logits, 1},
                            {sessions[1], i % 2 ? bad : good, 2, logits + (1 + i / 2) * N_VOCAB, 1}};
        CHECK(sessions[0] && sessions[1], "%s", error.message);
        if (sessions[0] && sessions[1]) {
            CHECK(!session_feed_many(parts, 2, &error), "%d: logits of NaN", i);
            check_message(&error, scratch_path(), "not finite", "token_embd.weight");
            CHECK(session_position(sessions[0]) == 0 && session_position(sessions[1]) == 0, "%d: they moved",
                  i);
        }
        session_free(sessions[0]);
        session_free(sessions[1]);
        model_close(model);
    }
}

/* NaN or infinity as the first number of each tensor in turn. */
static void test_weights_not_finite(void) {
    static const float values[] = {(float)NAN, (float)INFINITY};
    for (Which which = LLAMA; which <= GPT2; which++)
        for (size_t i = 0; i < 2 * COUNT(model_tensors); i++) {
            const char *name = model_tensors[i / 2].name;
            if (!model_tensors[i / 2].in[which]) continue;
            Gguf gguf = good_model(which);
            n_file = gguf_write(&gguf, file);
            memcpy(file + gguf_find_tensor(&gguf, name)->data_at, &values[i % 2], 4);
            Model *model = accept_file();
            Error error = {{0}};
            float logits[N_VOCAB];
            Session *session = model ? begin(model, 0, &error) : NULL;
            CHECK(session != NULL, "%s", error.message);
            if (session) {
                CHECK(!session_feed(session, (const int32_t[]){0, 1, 0}, 3, logits, 1, &error), "%g in %s",
                      (double)values[i % 2], name);
                check_message(&error, scratch_path(), "not finite", name);
                CHECK(session_position(session) == 0, "%zu tokens were fed", session_position(session));
            }
            session_free(session);
            model_close(model);
        }
}

/* A call that is refused feeds nothing, and the session goes on as if there had been none. */
static void test_tokens(void) {
    static const int32_t good[] = {5, 6, 7, 0, 1, 2, 3, 4}, negative[] = {5, -1}, lowest[] = {INT32_MIN},
                         beyond[] = {N_VOCAB}, many[9] = {0};
    static const struct {
        const int32_t *tokens;
        size_t n;
        const char *tells;
    } refused[] = {
        {negative, 2, "token -1 is outside the vocabulary of 8"},
        {lowest, 1, "token -2147483648 is outside"},
        {beyond, 1, "token 8 is outside the vocabulary of 8"},
        {many, 6, "6 tokens after 3 are more than the context of 8 holds"},
        {many, 9, "more than the context of 8"},
    };
    for (Which which = LLAMA; which <= GPT2; which++) {
        Gguf gguf = good_model(which);
        Error error = {{0}};
        float plain[N_VOCAB] = {0}, logits[N_VOCAB] = {0};
        Model *model = accept(&gguf);
        Session *first = model ? begin(model, 0, &error) : NULL,
                *second = model ? begin(model, 0, &error) : NULL;
        CHECK(first && second, "%s", error.message);
        if (first && second) {
            CHECK(session_feed(first, good, 8, plain, 1, &error), "%s", error.message);
            CHECK(session_feed(second, good, 3, logits, 1, &error), "%s", error.message);
            for (size_t i = 0; i < COUNT(refused); i++) {
                const char *tells = refused[i].tells;
                CHECK(!session_feed(second, refused[i].tokens, refused[i].n, logits, 1, &error), "%s", tells);
                check_message(&error, scratch_path(), tells, tells);
                CHECK(session_position(second) == 3, "%s: %zu", tells, session_position(second));
            }
            CHECK(session_feed(second, good + 3, 5, logits, 1, &error), "%s", error.message);
            for (int i = 0; i < N_VOCAB; i++) CHECK_NEAR(logits[i], plain[i], 1e-5);
            CHECK(!session_feed(second, good, 1, logits, 1, &error), "the context is full");
        }
        session_free(first);
        session_free(second);
        model_close(model);
    }
}

static void test_context_beyond_positions(void) {
    Gguf gguf = good_model(GPT2);
    Error error = {{0}};
    Model *model = accept(&gguf);
    if (model == NULL) return;
    CHECK(begin(model, N_CTX + 1, &error) == NULL, "more positions than are learned");
    check_message(&error, scratch_path(), "a context of 9 is more than the 8 positions", "learned positions");
    model_close(model);
}

static void test_context_beyond_memory(void) {
    if (ADDRESS_SANITIZER) SKIP("AddressSanitizer ends the program where malloc would return NULL");
    static const size_t contexts[] = {
        SIZE_MAX,
        SIZE_MAX / 2,
        SIZE_MAX / 4 + 1,
        SIZE_MAX / 64 + 1,
#if SIZE_MAX > UINT32_MAX
        (size_t)1 << 46
#endif
    };
    Gguf gguf = good_model(LLAMA);
    Error error = {{0}};
    Model *model = accept(&gguf);
    if (model == NULL) return;
    for (size_t i = 0; i < COUNT(contexts); i++) {
        CHECK(begin(model, contexts[i], &error) == NULL, "%zu positions", contexts[i]);
        CHECK(strstr(error.message, "smaller context"), "%s", error.message);
    }
    model_close(model);
}

/* Tries a session in a process with n_bytes more address space. 0: it fits, 1: it is refused, else a crash. */
static int session_within(const Model *model, size_t n_bytes) {
    pid_t child = fork();
    if (child == 0) {
        unsigned long pages = 0;
        FILE *status = fopen("/proc/self/statm", "r");
        if (!status || fscanf(status, "%lu", &pages) != 1) _exit(2);
        fclose(status);
        rlim_t limit = pages * (rlim_t)sysconf(_SC_PAGESIZE) + n_bytes;
        Error error = {{0}};
        if (setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}) != 0) _exit(2);
        SessionOptions options = {.n_ctx = 1 << 17,
                                  .n_chunk = 1 << 17,
                                  .kv_dtype = DTYPE_F32,
                                  .compute = {.kernels = kernels_pick(NULL, &error), .threads = pool}};
        Session *session = session_new(model, &options, &error);
        session_free(session);
        bool told = strstr(error.message, "not enough memory") || strstr(error.message, "cannot reserve");
        _exit(session ? 0 : told ? 1 : 3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Each of a session's allocations fails in its turn. They are megabytes here. */
static void test_out_of_memory(void) {
    if (ADDRESS_SANITIZER) SKIP("AddressSanitizer needs all address space");
    Gguf gguf = good_model(LLAMA);
    Model *model = accept(&gguf);
    if (model == NULL) return;
    int verdict = 1;
    size_t n_bytes = 0;
    for (; verdict == 1 && n_bytes < (64u << 20); n_bytes += 512 << 10)
        verdict = session_within(model, n_bytes);
    CHECK(verdict == 0, "%d with %zu KiB", verdict, n_bytes >> 10);
    CHECK(n_bytes > (10u << 20), "%zu KiB are enough, so little was tried", n_bytes >> 10);
    model_close(model);
}

int main(void) {
    Error error = {{0}};
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash must not lose what was found before it */
    alarm(300);                       /* a test that hangs is a failure */
    scratch_begin();
    pool = threads_new(1, &error);
    RUN(test_keys);
    RUN(test_config);
    RUN(test_tensors);
    RUN(test_tensor_types);
    RUN(test_parts);
    RUN(test_absurd_vocabulary);
    RUN(test_absurd_heads);
    RUN(test_more_tensors);
    RUN(test_vectors_of_more_dimensions);
    RUN(test_claims_cost_nothing);
    RUN(test_vocabulary_keys);
    RUN(test_vocabulary_elements);
    RUN(test_weights_not_finite);
    RUN(test_texts_not_finite);
    RUN(test_tokens);
    RUN(test_context_beyond_positions);
    RUN(test_context_beyond_memory);
    RUN(test_out_of_memory);
    threads_free(pool);
    scratch_end();
    return test_end();
}
