/*
 * Folders without tokenizer.json: what their other files say about tokens, what is refused, and that a GGUF file made of
 * such a folder gives the same ids, here and in llama.cpp. Ids of many texts are in test_tokenizer.c.
 */
#include "open.h"
#include "tokenizers.h"

#include <sys/stat.h>

static char folder[64];

static void put_file(const char *name, const void *bytes, size_t n) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(bytes, 1, n, file) == n, "%s", path);
    if (file) fclose(file);
}

static void put_text(const char *name, const char *text) { put_file(name, text, strlen(text)); }

static void begin_folder(void) {
    strcpy(folder, "/tmp/attn-test-XXXXXX");
    CHECK(mkdtemp(folder) != NULL, "%s", folder);
}

static void unlink_file(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

static void empty_folder(void) {
    static const char *const names[] = {"config.json",
                                        "model.safetensors",
                                        "tokenizer.json",
                                        "tokenizer.model",
                                        "vocab.json",
                                        "merges.txt",
                                        "added_tokens.json",
                                        "out.gguf",
                                        "special_tokens_map.json",
                                        "tokenizer_config.json",
                                        "said"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink_file(names[i]);
}

static void end_folder(void) {
    empty_folder();
    CHECK(rmdir(folder) == 0, "%s is not empty", folder);
}

static void copy_file(const char *name) {
    char path[128];
    size_t n;
    snprintf(path, sizeof path, "tests/data/tokenizer/folders/bytes/%s", name);
    char *bytes = read_whole(path, &n);
    if (bytes) put_file(name, bytes, n);
    free(bytes);
}

/* A message of protobuf. */
typedef struct Message {
    unsigned char bytes[2048];
    size_t n;
} Message;

static void put_varint(Message *message, uint64_t value) {
    for (; value > 127; value >>= 7) message->bytes[message->n++] = (unsigned char)(value | 128);
    message->bytes[message->n++] = (unsigned char)value;
}

static void put_number(Message *message, unsigned field, uint64_t value) {
    put_varint(message, field << 3);
    put_varint(message, value);
}

static void put_bytes(Message *message, unsigned field, const void *bytes, size_t n) {
    put_varint(message, field << 3 | 2);
    put_varint(message, n);
    memcpy(message->bytes + message->n, bytes, n);
    message->n += n;
}

static void put_piece(Message *model, const char *text, float score, unsigned type) {
    Message piece = {.n = 0};
    put_bytes(&piece, 1, text, strlen(text));
    put_varint(&piece, 2 << 3 | 5);
    memcpy(piece.bytes + piece.n, &score, 4);
    piece.n += 4;
    if (type != 1) put_number(&piece, 3, type);
    put_bytes(model, 1, piece.bytes, piece.n);
}

/* The two specifications, of which `trainer` and `normalizer` may already have fields that others follow. */
static void put_specs(Message *model, Message trainer, Message normalizer) {
    put_number(&normalizer, 4, 0);
    put_bytes(model, 2, trainer.bytes, trainer.n);
    put_bytes(model, 3, normalizer.bytes, normalizer.n);
}

#define SIGN "\xe2\x96\x81"

/* Ten pieces: a and b with spaces in front, and some that other files change. */
static Message ten_pieces(Message trainer, Message normalizer) {
    Message model = {.n = 0};
    put_piece(&model, "<unk>", 0, 2);
    put_piece(&model, "<E>", 0, 3);
    put_piece(&model, "<B>", 0, 3);
    put_piece(&model, SIGN, -3, 1);
    put_piece(&model, "a", -4, 1);
    put_piece(&model, "b", -5, 1);
    put_piece(&model, SIGN "a", -1, 1);
    put_piece(&model, "ab", -2, 1);
    put_piece(&model, "[X]", -9, 1);
    put_piece(&model, SIGN SIGN, 0, 4);
    put_specs(&model, trainer, normalizer);
    return model;
}

static Message bpe(void) {
    Message trainer = {.n = 0};
    put_number(&trainer, 3, 2);
    put_bytes(&trainer, 46, "<B>", 3);
    put_bytes(&trainer, 47, "<E>", 3);
    return trainer;
}

static void put_ten_pieces(void) {
    Message model = ten_pieces(bpe(), (Message){.n = 0});
    put_file("tokenizer.model", model.bytes, model.n);
}

/* Weights of a llama of so many tokens, all zeros. */
static void put_llama(unsigned n) {
    static const char *const layer[][2] = {
        {"input_layernorm.weight", "4"},    {"self_attn.q_proj.weight", "4,4"},
        {"self_attn.k_proj.weight", "2,4"}, {"self_attn.v_proj.weight", "2,4"},
        {"self_attn.o_proj.weight", "4,4"}, {"post_attention_layernorm.weight", "4"},
        {"mlp.gate_proj.weight", "4,4"},    {"mlp.up_proj.weight", "4,4"},
        {"mlp.down_proj.weight", "4,4"}};
    char config[600], file[16384] = {0};
    snprintf(
        config, sizeof config,
        "{\"model_type\":\"llama\",\"hidden_size\":4,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
        "\"num_key_value_heads\":1,\"intermediate_size\":4,\"max_position_embeddings\":16,\"vocab_size\":%u,"
        "\"tie_word_embeddings\":true,\"rms_norm_eps\":1e-5}",
        n);
    put_text("config.json", config);
    unsigned at = n * 8 + 8;
    size_t length =
        8 +
        (size_t)snprintf(
            file + 8, sizeof file - 8,
            "{\"model.embed_tokens.weight\":{\"dtype\":\"BF16\",\"shape\":[%u,4],\"data_offsets\":[0,%u]},"
            "\"model.norm.weight\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[%u,%u]}",
            n, n * 8, n * 8, at);
    for (size_t i = 0; i < sizeof layer / sizeof *layer; i++) {
        unsigned rows = (unsigned)atoi(layer[i][1]), size = strchr(layer[i][1], ',') ? rows * 8 : rows * 2;
        length += (size_t)snprintf(
            file + length, sizeof file - length,
            ",\"model.layers.0.%s\":{\"dtype\":\"BF16\",\"shape\":[%s],\"data_offsets\":[%u,%u]}",
            layer[i][0], layer[i][1], at, at + size);
        at += size;
    }
    file[length++] = '}';
    uint64_t header = length - 8;
    memcpy(file, &header, sizeof header);
    put_file("model.safetensors", file, length + at); /* zeros follow */
}

/* "1 2 3" of a text by the folder's tokenizer, or by a file's. */
static void check_text(const char *path, const char *text, unsigned flags, const char *wanted) {
    Opened opened = open_tokenizer(path);
    if (opened.tokenizer) {
        char *end, *copy = strdup(wanted);
        Tokens got = encode(opened.tokenizer, text, strlen(text), flags), expected = parse_ids(copy, &end);
        check_ids(got, expected, text);
        tokens_free(&got);
        tokens_free(&expected);
        free(copy);
    }
    close_tokenizer(opened);
}

static void check_roles(const char *path, size_t n, int32_t bos, int32_t eos, bool adds_bos) {
    Opened opened = open_tokenizer(path);
    const Tokenizer *tokenizer = opened.tokenizer;
    CHECK(!tokenizer || (tokenizer_n_vocab(tokenizer) == n && tokenizer_bos(tokenizer) == bos &&
                         tokenizer_eos(tokenizer) == eos && tokenizer_adds_bos(tokenizer) == adds_bos),
          "%zu tokens, bos %d, eos %d", tokenizer_n_vocab(tokenizer), tokenizer_bos(tokenizer),
          tokenizer_eos(tokenizer));
    close_tokenizer(opened);
}

/* tokenizer.ggml.token_type as the folder has it. */
static void check_types(const char *wanted) {
    Error error = {{0}};
    Checkpoint *checkpoint = checkpoint_open(folder, &error);
    NumberArray types = {0};
    char got[200] = "";
    CHECK(checkpoint && checkpoint_i32s(checkpoint, "tokenizer.ggml.token_type", &types, &error), "%s",
          error.message);
    for (size_t i = 0, n = 0; i < types.n && n < sizeof got; i++)
        n += (size_t)snprintf(got + n, sizeof got - n, i ? " %d" : "%d", i32_at(&types, i));
    CHECK(strcmp(got, wanted) == 0, "%s, not %s", got, wanted);
    checkpoint_close(checkpoint);
}

/* OPT's own files: who BOS is, a text says; it stands in vocab.json. */
static void test_roles(void) {
    check_roles("tests/data/tokenizer/folders/bytes", 745, 1, 1, true);
    check_roles("tests/data/tokenizer/folders/fallback", 420, 1, 2, true);
    put_ten_pieces();
    check_roles(folder, 10, 2, 1, true);
    check_text(folder, " ab", ENCODE_ENDS, "2 9 7");
    check_text(folder, "ab aX", ENCODE_ENDS, "2 6 5 6 0");
    check_text(folder, "[X]", 0, "3 0"); /* unknown characters side by side are one */
    put_text("tokenizer_config.json",
             "{\"bos_token\":\"a\",\"eos_token\":{\"content\":\"[X]\"},"
             "\"add_bos_token\":false,\"add_eos_token\":true,\"add_prefix_space\":false}");
    check_roles(folder, 10, 4, 8, false);
    check_text(folder, "ab", ENCODE_ENDS, "7 8");
    check_text(folder, "b[X]a", ENCODE_SPECIAL, "5 8 4");
    empty_folder();
}

/* Added tokens take pieces' places, or stand behind them; rows of the embedding that are nobody's are unused. */
static void test_added_pieces(void) {
    put_ten_pieces();
    put_text("added_tokens.json", "{\"<c>\":11,\"<d>\":10,\"<far>\":15}");
    put_text("special_tokens_map.json", "{\"additional_special_tokens\":[\"<c>\",\"<unk>\"]}");
    check_types("2 3 3 1 1 1 1 1 1 4 4 3 5 5 5 4");
    check_text(folder, "a<c><d>a", 0, "6 0 10 6");
    check_text(folder, "a<c><d>a<far>", ENCODE_SPECIAL, "6 11 10 6 15");
    check_roles(folder, 16, 2, 1, true);
    put_llama(14);
    check_roles(folder, 14, 2, 1, true);
    check_text(folder, "a<far>", ENCODE_SPECIAL, "6 0 4 0");
    put_text("tokenizer_config.json",
             "{\"added_tokens_decoder\":{\"8\":{\"content\":\"<e>\",\"special\":true},"
             "\"12\":{\"content\":\"a" SIGN "b\",\"special\":false},\"x\":{\"content\":\"y\"},\"13\":{}}}");
    check_text(folder, "ba b<e><c>", ENCODE_SPECIAL, "3 5 12 8 3 0");
    empty_folder();
}

/* The last added tokens of tokenizer.json may have no row, but not one amid the others, nor a piece of the model. */
static void test_added_without_rows(void) {
    put_text(
        "tokenizer.json",
        "{\"added_tokens\":[{\"id\":1,\"content\":\"b\",\"special\":true},{\"id\":2,\"content\":\"<x>\",\"special\":true},"
        "{\"id\":3,\"content\":\"<image>\",\"special\":true},{\"id\":4,\"content\":\"<far>\",\"special\":true}],"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]},\"decoder\":{\"type\":\"Fuse\"}}");
    for (unsigned n = 1; n <= 6; n++) {
        put_llama(n);
        check_roles(folder, n < 2 ? 2 : n, -1, -1, false);
        check_text(folder, n > 2 ? "ab<x>" : "ab", ENCODE_SPECIAL, n > 2 ? "0 1 2" : "0 1");
    }
    empty_folder();
}

/* The file that quantize makes of the folder has the ids that it has; so says llama.cpp, where it is built. */
static void check_quantized(const char *text, const char *wanted, const char *with_ends) {
    const char *program = getenv("QUANTIZE"), *home = getenv("HOME"), *oracle = getenv("ORACLE");
    char command[700], file[128], said[128], tokenize[300], got[400] = "";
    snprintf(file, sizeof file, "%s/out.gguf", folder);
    snprintf(said, sizeof said, "%s/said", folder);
    snprintf(command, sizeof command, "'%s' %s %s F32 --allow-requantize >%s 2>&1",
             program ? program : "./quantize", folder, file, said);
    CHECK(system(command) == 0, "%s", command);
    check_text(folder, text, ENCODE_SPECIAL, wanted);
    check_text(file, text, ENCODE_SPECIAL, wanted);
    snprintf(tokenize, sizeof tokenize, "%s%s/build/bin/llama-tokenize",
             oracle ? oracle
             : home ? home
                    : "",
             oracle ? "" : "/oracle");
    if (access(tokenize, X_OK) != 0) SKIP("%s is missing", tokenize);
    snprintf(command, sizeof command, "%s -m %s -p '%s' --ids --log-disable 2>/dev/null", tokenize, file,
             text);
    FILE *pipe = popen(command, "r");
    bool any = pipe && fgets(got, sizeof got, pipe);
    if (pipe) pclose(pipe);
    got[strcspn(got, "\n")] = '\0';
    CHECK(any && strcmp(got, with_ends) == 0, "llama.cpp: %s, not %s", got, with_ends);
}

static void test_quantize(void) {
    put_ten_pieces();
    put_llama(14);
    put_text("added_tokens.json", "{\"<c>\":11,\"<d>\":10}");
    put_text("special_tokens_map.json", "{\"additional_special_tokens\":[\"<c>\"]}");
    check_quantized("a<c><d>ab ab  a", "6 11 10 6 5 6 5 9 6", "[2, 6, 11, 10, 6, 5, 6, 5, 9, 6]");
    empty_folder();
}

static void test_quantize_bytes(void) {
    static const char *const names[] = {"vocab.json", "merges.txt", "added_tokens.json",
                                        "special_tokens_map.json", "tokenizer_config.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) copy_file(names[i]);
    put_llama(745);
    check_quantized("the a<a>t", "327 280 743 85", "[1, 327, 280, 743, 85]");
    empty_folder();
}

/* transformers' classes cut numbers in other ways, compose marks or not, and put a space in front or not. */
static void test_classes(void) {
    copy_file("vocab.json");
    copy_file("merges.txt");
    check_roles(folder, 743, -1, -1, false);
    check_text(folder, "11e\xcc\x81", ENCODE_ENDS, "464 70 138 225");
    put_text("tokenizer_config.json", "{\"tokenizer_class\":\"CodeGenTokenizer\",\"add_prefix_space\":true}");
    check_text(folder, "the", 0, "260");
    put_text("tokenizer_config.json", "{\"tokenizer_class\":\"Qwen2TokenizerFast\"}");
    check_text(folder, "11e\xcc\x81", 0, "18 18 129 104");
    unlink_file("tokenizer_config.json");
    put_text("config.json",
             "{\"model_type\":\"qwen2\",\"hidden_size\":4,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
             "\"num_key_value_heads\":1,\"intermediate_size\":4,\"max_position_embeddings\":16,"
             "\"vocab_size\":743,\"rms_norm_eps\":1e-5}");
    check_text(folder, "11e\xcc\x81", 0, "18 18 129 104");
    empty_folder();
}

/* A folder says of added tokens where white space goes, and whether text may be one. */
static void test_added_flags(void) {
    copy_file("vocab.json");
    copy_file("merges.txt");
    put_text(
        "tokenizer_config.json",
        "{\"eos_token\":\"<x>\",\"added_tokens_decoder\":{\"743\":{\"content\":\"<y\\\"\\\\>\",\"special\":false},"
        "\"744\":{\"content\":\"<x>\",\"special\":false,\"rstrip\":true,\"lstrip\":false,\"normalized\":false}}}");
    check_roles(folder, 745, -1, 744, false);
    check_text(folder, "t<x> \n t<y\"\\>t", ENCODE_SPECIAL, "85 744 85 743 85");
    check_text(folder, "t<x>", 0,
               "85 29 89 31"); /* it ends a text: so it is special, whatever is said of it */
    empty_folder();
}

static void refuse(const char *words) {
    Error error = {{0}};
    Checkpoint *checkpoint = checkpoint_open(folder, &error);
    Tokenizer *tokenizer = checkpoint ? tokenizer_new(checkpoint, &error) : NULL;
    CHECK(!tokenizer && strstr(error.message, words) && strstr(error.message, folder), "'%s', not '%s'",
          error.message, words);
    tokenizer_free(tokenizer);
    checkpoint_close(checkpoint);
}

static void refuse_model(Message trainer, Message normalizer, const char *words) {
    Message model = ten_pieces(trainer, normalizer);
    put_file("tokenizer.model", model.bytes, model.n);
    refuse(words);
}

static void test_refused_models(void) {
    static const unsigned char empty[] = {0x0a, 0x02, 0x0a, 0x00},
                               type[] = {0x0a, 0x05, 0x0a, 1, 'x', 0x18, 7}, group[] = {0x0b},
                               long_varint[] = {8,    0xff, 0xff, 0xff, 0xff, 0xff,
                                                0xff, 0xff, 0xff, 0xff, 0x02};
    Message trainer = {.n = 0}, normalizer = {.n = 0}, none = {.n = 0};
    refuse_model(none, none, "tokenizer.model: its model is Unigram");
    put_number(&trainer, 3, 4);
    refuse_model(trainer, none, "tokenizer.model: its model is of characters");
    trainer = bpe();
    put_number(&trainer, 24, 1);
    refuse_model(trainer, none, "does not write spaces as the first character");
    put_number(&normalizer, 5, 0);
    refuse_model(bpe(), normalizer, "does not write spaces as the first character");
    normalizer.n = 0;
    put_bytes(&normalizer, 1, "nmt_nfkc", 8);
    put_bytes(&normalizer, 2, "table", 5);
    refuse_model(bpe(), normalizer, "by the rules 'nmt_nfkc'");
    put_text("tokenizer.model", "");
    refuse("not a SentencePiece model");
    put_text("tokenizer.model", "\x80"); /* a number that goes on */
    refuse("not a SentencePiece model");
    put_text("tokenizer.model", "IQ== 0\nIg== 1\n");
    refuse("tiktoken");
    put_file("tokenizer.model", group, sizeof group);
    refuse("not a SentencePiece model");
    Message longer = ten_pieces(bpe(), none);
    memcpy(longer.bytes + longer.n, long_varint, sizeof long_varint);
    put_file("tokenizer.model", longer.bytes, longer.n + sizeof long_varint);
    refuse("not a SentencePiece model");
    put_file("tokenizer.model", empty, sizeof empty);
    refuse("tokenizer.model: piece 0 is empty");
    put_file("tokenizer.model", type, sizeof type);
    refuse("tokenizer.model: piece 0 is of a type");
    empty_folder();
}

/* However a file is cut, it is refused, or opens as what is whole of it. Fields that nobody knows are passed over. */
static void test_cut_models(void) {
    Message model = ten_pieces(bpe(), (Message){.n = 0}), more = model;
    int n_opened = 0;
    for (size_t n = 0; n < model.n; n++) {
        Error error = {{0}};
        put_file("tokenizer.model", model.bytes, n);
        Checkpoint *checkpoint = checkpoint_open(folder, &error);
        CHECK(checkpoint || strstr(error.message, "tokenizer.model: "), "%zu bytes: %s", n, error.message);
        n_opened += checkpoint != NULL;
        checkpoint_close(checkpoint);
    }
    CHECK(n_opened == 1, "%d", n_opened); /* that without a normalizer's specification */
    put_number(&more, 9, 5);
    put_bytes(&more, 200, "x", 1);
    put_varint(&more, 30 << 3 | 1);
    memcpy(more.bytes + more.n, "eight...", 8);
    more.n += 8;
    put_file("tokenizer.model", more.bytes, more.n);
    check_text(folder, "ab", 0, "6 5");
    empty_folder();
}

static void test_refused_vocabularies(void) {
    static const struct {
        const char *vocab, *merges, *words;
    } refused[] = {
        {"{\"a\":0", "a b\n", "vocab.json: line 1"},
        {"[\"a\",\"b\",\"c\"]", "a b\n", "vocab.json: not an object"},
        {"{\"a\":0,\"b\":1,\"ab\":2}", "#version: 0.2\na b\nab\n",
         "merges.txt: line 3: 'ab' is not two parts"},
        {"{\"a\":0,\"b\":1,\"ab\":2}", "a b\n\na b c\n", "merges.txt: line 3: 'a b c'"},
        {"{\"a\":0,\"b\":1,\"ab\":2}", " b\n", "merges.txt: line 1: ' b'"},
        {"{\"a\":0,\"b\":1,\"ab\":2}", "b ", "merges.txt: line 1: 'b '"},
        {"{\"a\":0,\"b\":1,\"ab\":2}", "a \xff\n", "merges.txt: line 1"},
        {"{\"a\":0,\"b\":1,\"ab\":2}", "b a\n", "'b a' makes a token that is not in"},
        {"{\"a\":0,\"b\":\"x\"}", "", "a token without an id: 'b'"},
        {"{\"a\":0,\"b\":1000000}", "", "far beyond all tokens"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        put_text("vocab.json", refused[i].vocab);
        put_text("merges.txt", refused[i].merges);
        refuse(refused[i].words);
    }
    put_text("vocab.json", "{\"a\":0,\"b\":1,\"ab\":2,\"#\":3,\"##\":4}");
    put_text("merges.txt", "#version: 0.2\r\na b\r\n# #\r\n");
    check_text(folder, "ab###", 0, "2 4 3");
    unlink_file("merges.txt");
    put_llama(3);
    Error error = {{0}};
    Checkpoint *own = checkpoint_open(folder, &error), *file = NULL;
    CHECK(
        own && !tokenizer_open(NULL, own, &file, &error) &&
            strstr(
                error.message,
                "no vocabulary (a folder has it in tokenizer.json, tokenizer.model, or vocab.json and merges.txt)"),
        "%s", error.message);
    checkpoint_close(own);
    empty_folder();
}

/* The vocabulary of a folder whose model is of a kind that is not read, without weights, or with ones of another format. */
static void test_vocabulary_alone(void) {
    static const struct {
        const char *config;
        size_t n; /* ids: one for each row of the embedding, if that is not absurd; tokens alone: 10 */
    } cases[] = {
        {"{\"model_type\": \"of_tomorrow\", \"vocab_size\": 16}", 16},
        {"{\"model_type\": \"of_tomorrow\", \"text_config\": {\"model_type\": \"text_of_it\", \"vocab_size\": 12}}",
         12},
        {"{\"model_type\": \"of_tomorrow\", \"vocab_size\": 16000000}", 10},
        {"{\"model_type\": \"of_tomorrow\"}", 10},
        {"{\"model_type\": \"llama\", \"quantization_config\": {\"quant_method\": \"awq\"}}", 10},
    };
    static const char json[] =
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, \"d\": 3, \"e\": 4, \"f\": 5, \"ab\": 6, "
        "\"g\": 7, \"h\": 8, \"i\": 9}, \"merges\": [\"a b\"]}, \"decoder\": {\"type\": \"Fuse\"}}";
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        Error error = {{0}};
        Checkpoint *file = NULL;
        bool is_json = i % 2;
        empty_folder();
        put_text("config.json", cases[i / 2].config);
        if (is_json)
            put_text("tokenizer.json", json);
        else
            put_ten_pieces();
        if (i / 2 == 3) put_text("model.safetensors", "version https://git-lfs.github.com/spec/v1\n");
        CHECK(!checkpoint_open(folder, &error), "%zu: the model opened", i);
        Tokenizer *tokenizer = tokenizer_open(folder, NULL, &file, &error);
        CHECK(tokenizer && tokenizer_n_vocab(tokenizer) == cases[i / 2].n, "%zu: %zu tokens, %s", i,
              tokenizer ? tokenizer_n_vocab(tokenizer) : 0, error.message);
        Tokens tokens = {0};
        const int32_t ab = is_json ? 6 : 7; /* of "ab", behind ▁ in the latter */
        CHECK(tokenizer && tokenizer_encode(tokenizer, "ab", 2, 0, &tokens, &error) && tokens.n &&
                  (tokens.ids[tokens.n - 1] == ab || tokens.ids[tokens.n - 1] == 5),
              "%zu: %s", i, error.message);
        tokens_free(&tokens);
        tokenizer_free(tokenizer);
        checkpoint_close(file);
    }
    empty_folder();
    put_text("config.json", cases[0].config);
    Error error = {{0}};
    Checkpoint *file = NULL;
    CHECK(!tokenizer_open(folder, NULL, &file, &error) && strstr(error.message, "of_tomorrow"), "'%s'",
          error.message);
    empty_folder();
}

/* Fields of another kind than they should be, or cut within a message that is whole, and numbers of 64 bits. */
static void test_odd_models(void) {
    Message trainer = bpe(), normalizer = {.n = 0}, none = {.n = 0};
    put_number(&trainer, 3, UINT64_MAX);
    refuse_model(trainer, none, "tokenizer.model: its model is of an unknown kind");
    for (unsigned field = 1; field <= 3;
         field++) { /* a piece, and both specifications, whose last field is cut */
        Message model = ten_pieces(bpe(), none);
        put_bytes(&model, field, "\x0a\x05x", 3);
        put_file("tokenizer.model", model.bytes, model.n);
        refuse("not a SentencePiece model");
    }
    static const struct {
        unsigned char bytes[14];
        size_t n;
    } cut[] = {
        {{0x07}, 1}, /* a field of number 0 */
        {{0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 12}}; /* of 70 bits */
    for (size_t i = 0; i < 2; i++) {
        Message model = ten_pieces(bpe(), none);
        memcpy(model.bytes + model.n, cut[i].bytes, cut[i].n);
        put_file("tokenizer.model", model.bytes, model.n + cut[i].n);
        refuse("not a SentencePiece model");
    }
    /* a number in the place of a text and the other way round: passed over */
    trainer = bpe();
    put_number(&trainer, 46, 4);
    put_bytes(&trainer, 3, "x", 1);
    put_bytes(&trainer, 24, "x", 1);
    put_bytes(&normalizer, 3, "x", 1);
    put_number(&normalizer, 1, 7);
    Message model = ten_pieces(trainer, normalizer), piece = {.n = 0};
    put_bytes(&piece, 1, "<P>", 3);
    put_number(&piece, 2, 3);
    put_bytes(&piece, 3, "x", 1);
    put_bytes(&model, 1, piece.bytes, piece.n);
    put_number(&model, 1, 3);
    put_file("tokenizer.model", model.bytes, model.n);
    check_types("2 3 3 1 1 1 1 1 1 4 1");
    check_roles(folder, 11, 2, 1, true);
    /* who pads is named in the trainer's specification, as BOS and EOS are */
    trainer = bpe();
    put_bytes(&trainer, 48, "<E>", 3);
    model = ten_pieces(trainer, none);
    put_file("tokenizer.model", model.bytes, model.n);
    Error error = {{0}};
    Checkpoint *checkpoint = checkpoint_open(folder, &error);
    uint64_t pad = 0;
    CHECK(checkpoint && checkpoint_u64(checkpoint, "tokenizer.ggml.padding_token_id", &pad, &error) &&
              pad == 1,
          "pad %d", (int)pad);
    checkpoint_close(checkpoint);
    put_number(&piece, 3, 0);
    model = ten_pieces(bpe(), none);
    put_bytes(&model, 1, piece.bytes, piece.n);
    put_file("tokenizer.model", model.bytes, model.n);
    refuse("tokenizer.model: piece 10 is of a type");
    empty_folder();
}

/* Other files say things of tokens in forms that they should not have. */
static void test_odd_words(void) {
    put_ten_pieces();
    put_llama(5); /* fewer rows than pieces */
    check_roles(folder, 10, 2, 1, true);
    empty_folder();
    put_ten_pieces();
    put_text("added_tokens.json", "[\"<c>\"]");
    put_text("special_tokens_map.json", "{\"additional_special_tokens\":\"<c>\"}");
    put_text("tokenizer_config.json", "{\"added_tokens_decoder\":[],\"add_prefix_space\":1}");
    check_types("2 3 3 1 1 1 1 1 1 4");
    check_text(folder, "ab", ENCODE_ENDS, "2 6 5");
    put_text("tokenizer_config.json", "{\"add_prefix_space\":false}");
    check_text(folder, "ab", ENCODE_ENDS, "2 7");
    /* two tokens of one id: the later text stands */
    put_text("added_tokens.json", "{\"<c>\":11,\"<d>\":11,\"<e>\":\"12\",\"\":13}");
    put_text("tokenizer_config.json", "{\"bos_token\":\"<d>\",\"unk_token\":\"\"}");
    check_roles(folder, 12, 11, 1, true);
    /* one text twice: the first id stands; what is special must be a truth value */
    put_text("tokenizer_config.json",
             "{\"eos_token\":\"<E>\",\"added_tokens_decoder\":{\"1\":{\"content\":\"<E>\",\"special\":1},"
             "\"10\":{\"content\":\"<f>\",\"special\":1},\"11\":{\"content\":\"<f>\",\"special\":true}}}");
    check_types("2 3 3 1 1 1 1 1 1 4 4");
    empty_folder();

    put_text("vocab.json", "{\"a\":0,\"b\":1,\"ab\":2,\"longer\":4,\"word\":5,\"longerword\":3}");
    put_text("merges.txt", "longer word\na b\n");
    put_text("tokenizer_config.json",
             "{\"add_prefix_space\":false,\"added_tokens_decoder\":{\"6\":{\"content\":\"<\\n>\","
             "\"lstrip\":1,\"rstrip\":false}}}");
    check_text(folder, "ab<\n>b", ENCODE_SPECIAL, "2 6 1");
    put_text("tokenizer_config.json", "{\"add_prefix_space\":1}");
    check_text(folder, "ab", 0, "2");
    put_text("special_tokens_map.json", "{\"bos_token\":\"<s>\",\"eos_token\":\"<s>\"}");
    put_text("added_tokens.json", "{\"<r>\":7,\"<s>\":6}");
    check_roles(folder, 8, 6, 6, false);
    empty_folder();
}

int main(void) {
    begin_folder();
    RUN(test_odd_models);
    RUN(test_odd_words);
    RUN(test_vocabulary_alone);
    RUN(test_classes);
    RUN(test_added_flags);
    RUN(test_refused_models);
    RUN(test_cut_models);
    RUN(test_refused_vocabularies);
    RUN(test_roles);
    RUN(test_added_pieces);
    RUN(test_added_without_rows);
    RUN(test_quantize);
    RUN(test_quantize_bytes);
    end_folder();
    return test_end();
}
