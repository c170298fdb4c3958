/*
 * Files that are not a checkpoint, and checkpoints whose structure is wrong in one way at a time. At the end come
 * files with random damage, for which any answer but a crash will do. test_bad_model has the checkpoints whose
 * structure is right, but which are no model that can run.
 */
#include "anyfile.h" /* first, because it needs more of the system's headers */
#include "open.h"

#include "bad.h"

#include <sys/resource.h>
#include <sys/stat.h>

static void test_no_file(void) {
    static const char *const paths[][2] = {
        {"tests/absent.gguf", "cannot open: No such file"},
        {"tests", "is a directory"},
        {"tests/test.h/model.gguf", "cannot open: Not a directory"},
        {"/dev/null", "not a regular file"},
        {"/dev/zero", "not a regular file"},
    };
    for (size_t i = 0; i < COUNT(paths); i++) refuse_path(paths[i][0], paths[i][1], paths[i][0]);
    unlink(scratch_path());
    CHECK(mkfifo(scratch_path(), 0600) == 0, "mkfifo");
    refuse_path(scratch_path(), "not a regular file", "a pipe that nobody writes to");
    unlink(scratch_path());
}

/* Bytes that are no checkpoint, and what the refusal says that they are and what to do. */
typedef struct Foreign {
    const char *bytes;
    size_t n; /* 0: as many as strlen says */
    const char *is, *next;
} Foreign;

static void refuse_foreign_bytes(const Foreign *foreign) {
    n_file = foreign->n ? foreign->n : strlen(foreign->bytes);
    memcpy(file, foreign->bytes, n_file);
    refuse_file(foreign->is, foreign->bytes);
    refuse_file(foreign->next, foreign->bytes);
}

static void test_other_formats(void) {
    static const char zip[] = "PK\3\4", torch[] = "PK\3\4\0\0\x08\x08\0\0\0\0\0\0archive/data.pkl";
    static const char safetensors[] = "\x40\0\0\0\0\0\0\0{\"__metadata__\":{}}",
                      huge[] = "\x40\0\0\0\0\0\1\0{\"__metadata__\":{}}",
                      onnx[] = "\x08\x07\x12\x07pytorch\x1a\x04"
                               "2.41";
    static const Foreign others[] = {
        {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 29334912\n", 0,
         "a Git-LFS pointer, not the file", "run 'git lfs pull'"},
        {"<!DOCTYPE html>\n<html>", 0, "an HTML page",
         "download went wrong; take the link to the file itself"},
        {"\xef\xbb\xbf\n <HTML lang=en>", 0, "an HTML page", "/resolve/, not /blob/"},
        {"<?xml version=\"1.0\"?><Error><Code>AccessDenied", 0, "an HTML page", "log in"},
        {"{\"error\":\"Repository not found\"}", 0, "a JSON text, not the weights", "Hugging Face folder"},
        {"{\n  \"architectures\": [", 0, "a JSON text, not the weights", "a failed download"},
        {safetensors, sizeof safetensors - 1, "a safetensors file without the config.json",
         "download its whole folder"},
        {huge, sizeof huge - 1, "not a checkpoint", "by its content"}, /* a header of 2^48 bytes */
        {torch, sizeof torch - 1, "a PyTorch file without the config.json", "(scripts/train/export.py"},
        {zip, 0, "a zip archive", "unpack it first"},
        {"\x80\x02}q", 0, "a Python pickle, as PyTorch wrote before version 1.6", "torch.save it again"},
        {"\x80\x05\x95\x10", 0, "a Python pickle", "as safetensors"},
        {"\x80\x06\x95\x10", 0, "not a checkpoint", ""},
        {"lmgg and more", 0, "an old GGML file",
         "get the model as GGUF, or try llama.cpp's convert_llama_ggml"},
        {"fmgg and more", 0, "an old GGMF file", "get the model as GGUF"},
        {"tjgg and more", 0, "an old GGJT file", "get the model as GGUF"},
        {"algg and more", 0, "an adapter (LoRA) of the old GGLA format", "merged"},
        {"FUGG backwards", 0, "a big-endian GGUF file", "gguf-convert-endian FILE little"},
        {"24ka version 1", 0, "llama2.c checkpoint of version 1 or 2", "only version 0 is read"},
        {onnx, sizeof onnx - 1, "an ONNX file", "as GGUF, or as safetensors"},
        {"\x89HDF\r\n\x1a\n", 0, "an HDF5 file", "as GGUF, or as safetensors"},
        {"\x93NUMPY\1", 0, "a NumPy array", ""},
        {"\x1f\x8b\x08 packed", 0, "a gzip file", "unpack it first"},
        {"\3757zXZ packed", 0, "an xz file", "unpack it first"},
        {"\x28\xb5\x2f\xfd packed", 0, "a zstd file", "unpack it first"},
        {"BZh91AY", 0, "a bzip2 file", "unpack it first"},
        {"7z\xbc\xaf\x27\x1c", 0, "a 7z archive", "unpack it first"},
        {"\x80\x01}q", 0, "not a checkpoint", ""},                  /* pickles of protocol 1 do not tell it */
        {"\x01\0\0\0\0\0\0\0{}", 10, "not a checkpoint", ""},       /* no header has one byte */
        {"\x08\x20\x12\x07pytorch", 0, "not a checkpoint", ""},     /* near to ONNX: a version of 32, … */
        {"\x08\x07\x13\x07pytorch", 0, "not a checkpoint", ""},     /* another field, … */
        {"\x08\x07\x12\0pytorch", 11, "not a checkpoint", ""},      /* a name of none, … */
        {"\x08\x07\x12\x40pytorch", 0, "not a checkpoint", ""},     /* of 64 bytes, … */
        {"\x08\x07\x12\x07\npytorch", 0, "not a checkpoint", ""},   /* with a control character, … */
        {"\x08\x07\x12\x07\177pytorch", 0, "not a checkpoint", ""}, /* or DEL */
        {"\177ELF is a program, no model at all", 0, "not a checkpoint", "neither GGUF, nor llama2.c"},
        {" \t\r\n  ", 0, "not a checkpoint", "neither GGUF, nor llama2.c"},
        {"Once upon a time, there was a little girl named Lily.", 0, "not a checkpoint",
         "neither GGUF, nor llama2.c"},
        {"G", 0, "not a checkpoint", ""},
        {"GGU", 0, "not a checkpoint", ""},
        {"GGUF", 0, "ends at byte 4 inside the header", "is it cut?"},
    };
    for (size_t i = 0; i < COUNT(others); i++) refuse_foreign_bytes(&others[i]);
    memset(file, 'a', n_file = 512);
    memcpy(file + 257, "ustar", 5);
    refuse_file("a tar archive; unpack it first", "tar");
    for (int byte = 0; byte <= 255; byte += 255) { /* also as many as a llama2.c header has */
        memset(file, byte, 64);
        for (n_file = 0; n_file <= 64; n_file++)
            refuse_file(n_file ? "not a checkpoint" : "the file is empty: download", "one byte repeated");
    }
}

/* An empty file in the scratch folder, or none. */
static void put_file(const char *name, bool there) {
    if (there)
        scratch_put(name, "", 0);
    else
        unlink(scratch_file(name));
}

static void put_config(const char *text) { scratch_put("config.json", text, strlen(text)); }

static void test_folders(void) {
    static const char name_it[] = "is a directory; name the checkpoint file in it";
    refuse_path(scratch_folder, name_it, "an empty folder");
    put_file("config.json", true);
    for (char i = 'a'; i <= 'h'; i++)
        put_file((char[]){i, '\0'}, true); /* in whatever order they are listed */
    refuse_path(scratch_folder, "config.json: line 1: the file ends too early", "an empty config.json");
    put_config("{}");
    refuse_path(scratch_folder, "config.json names no \"model_type\"", "a config.json that says nothing");
    put_config("{\"model_type\": \"bert\"}");
    refuse_path(scratch_folder,
                "a model of type 'bert' is not supported; docs/FOLDERS.md lists those that are",
                "another type");
    put_config("{\"model_type\": \"gpt2\"}");
    refuse_path(scratch_folder, "this Hugging Face folder has no weights", "no weights");
    put_file("pytorch_model.bin", true);
    refuse_path(scratch_folder, "pytorch_model.bin: the file is empty", "PyTorch's weights");
    put_file("pytorch_model.bin", false);
    put_file("consolidated.00.pth", true);
    refuse_path(scratch_folder, "has weights, but not where they are looked for", "other weights");
    put_file("consolidated.00.pth", false);
    put_file("pytorch_model.bin", true);
    put_file("config.json", false);
    refuse_path(scratch_folder, "has weights, but no config.json", "no config.json");
    put_file("pytorch_model.bin", false);
    put_config("{\"model_type\": \"gpt2\"}");
    put_file("model.gguf", true);
    refuse_path(scratch_folder, name_it, "one that has been converted");
    for (char i = 'a'; i <= 'h'; i++) put_file((char[]){i, '\0'}, false);
    put_file("config.json", false);
    put_file("model.gguf", false);
}

/* Every length: those below `needed` are refused, those above lack padding alone. */
static void check_cuts(size_t needed, const char *what) {
    scratch_write(file, n_file);
    for (size_t n = n_file + 1; n-- > 0;) {
        Error error = {{0}};
        CHECK(truncate(scratch_path(), (off_t)n) == 0, "truncate");
        Checkpoint *checkpoint = checkpoint_open(scratch_path(), &error);
        CHECK((checkpoint != NULL) == (n >= needed), "%s cut to %zu of %zu bytes", what, n, n_file);
        if (checkpoint == NULL) check_message(&error, scratch_path(), "", what);
        checkpoint_close(checkpoint);
    }
}

static void test_cut(void) {
    for (Which which = LLAMA; which <= GPT2; which++) {
        Gguf gguf = good_model(which);
        n_file = gguf_write(&gguf, file);
        const GgufTensor *last = &gguf.tensors[gguf.n_tensors - 1];
        check_cuts(last->data_at + last->n_bytes, families[which]);
        gguf.n_tensors = 0; /* now the last key ends the file */
        gguf_u32(&gguf, "last", 0);
        n_file = gguf_write(&gguf, file);
        check_cuts(n_file, "a vocabulary");
    }
    write_llama2c_model();
    check_cuts(n_file, "llama2.c");
    write_llama2c_vocabulary(259);
    check_cuts(n_file, "tokenizer.bin");
}

static void test_header(void) {
    static const struct {
        size_t at, n; /* version, count of tensors, count of keys, length of the first key */
        uint64_t value;
        const char *tells;
    } patches[] = {
        {4, 4, 0, "GGUF version 0"},
        {4, 4, 1, "GGUF version 1 (of August 2023); versions 2 and 3 are read: convert the original"},
        {4, 4, 4, "GGUF version 4"},
        {4, 4, 0x03000000, "a big-endian GGUF file; convert it with 'gguf-convert-endian"},
        {4, 4, UINT32_MAX, "GGUF version 4294967295"},
        {8, 8, 1ull << 63, "claims"},
        {8, 8, UINT64_MAX, "claims"},
        {8, 8, 1000, "claims"},
        {8, 8, 22, ""},
        {16, 8, 1ull << 63, "claims"},
        {16, 8, UINT64_MAX, "claims"},
        {16, 8, 1000, "claims"},
        {16, 8, 0, ""},
        {24, 8, 1ull << 63, "a metadata key"},
        {24, 8, UINT64_MAX, "a metadata key"},
        {24, 8, 0, "key of 0 bytes"},
    };
    for (size_t i = 0; i < COUNT(patches); i++) {
        Gguf gguf = good_model(LLAMA);
        n_file = gguf_write(&gguf, file);
        memcpy(file + patches[i].at, &patches[i].value, patches[i].n);
        refuse_file(patches[i].tells, patches[i].tells);
    }
}

static void test_strings_and_arrays(void) {
    static const struct {
        const char *key;
        size_t at, n; /* in its value: an array's type, length, elements; a string's length, bytes */
        uint64_t value;
        const char *tells;
    } patches[] = {
        {"general.architecture", 0, 8, 1ull << 63, "inside a metadata string"},
        {"general.architecture", 0, 8, UINT64_MAX, "inside a metadata string"},
        {"tokenizer.ggml.tokens", 0, 4, 13, "'tokenizer.ggml.tokens' is an array of unknown type 13"},
        {"tokenizer.ggml.tokens", 0, 4, UINT32_MAX, "'tokenizer.ggml.tokens' is an array of unknown type"},
        {"tokenizer.ggml.tokens", 4, 8, 1ull << 63, "'tokenizer.ggml.tokens' claims"},
        {"tokenizer.ggml.tokens", 4, 8, (1ull << 61) + 1, "'tokenizer.ggml.tokens' claims"},
        {"tokenizer.ggml.tokens", 4, 8, UINT64_MAX, "'tokenizer.ggml.tokens' claims"},
        {"tokenizer.ggml.tokens", 12, 8, 1ull << 63, "inside a metadata string"},
        {"tokenizer.ggml.tokens", 12, 8, UINT64_MAX, "inside a metadata string"},
        {"tokenizer.ggml.token_type", 4, 8, 1ull << 62, "'tokenizer.ggml.token_type' claims"},
        {"tokenizer.ggml.token_type", 4, 8, (1ull << 62) + 1, "'tokenizer.ggml.token_type' claims"},
        {"tokenizer.ggml.token_type", 0, 4, F64, ""}, /* twice the bytes: what follows is swallowed */
    };
    for (size_t i = 0; i < COUNT(patches); i++) {
        Gguf gguf = good_model(LLAMA);
        memcpy(gguf_find(&gguf, patches[i].key)->value + patches[i].at, &patches[i].value, patches[i].n);
        refuse(&gguf, patches[i].tells, patches[i].key);
    }
    Gguf gguf = good_model(LLAMA);
    GgufKey *deep = gguf_key(&gguf, "deep", ARRAY, NULL, 0);
    for (int depth = 0; depth < 100; depth++) {
        gguf_put(deep, &(uint32_t){ARRAY}, 4);
        gguf_put(deep, &(uint64_t){depth < 99}, 8);
    }
    refuse(&gguf, "'deep' nests arrays too deeply", "100 arrays in each other");
}

static void test_keys(void) {
    static const uint32_t unknown_types[] = {13, 255, UINT32_MAX};
    for (size_t i = 0; i < COUNT(unknown_types); i++)
        refuse_value(LLAMA, "a.b", unknown_types[i], "", 1, "'a.b' has unknown type");
    Gguf gguf = good_model(LLAMA);
    gguf.keys[gguf.n_keys++] = *gguf_find(&gguf, "llama.block_count");
    refuse(&gguf, "'llama.block_count' occurs twice", "a key that occurs twice");

    static const struct {
        uint32_t type, value;
        const char *tells;
    } alignments[] = {
        {U32, 0, "general.alignment"},
        {U32, 7, "general.alignment"},
        {U32, 4, "general.alignment"},
        {I32, 32, "general.alignment"},
        {U32, 1u << 31, "leaves the file"},
        {U32, UINT32_MAX - 7, "leaves the file"},
        {U32, 64, "not a multiple of the alignment 64"},
    };
    for (size_t i = 0; i < COUNT(alignments); i++)
        refuse_value(LLAMA, "general.alignment", alignments[i].type, &alignments[i].value, 4,
                     alignments[i].tells);
}

/* An error has room for 511 bytes, but a key or a path may be longer. It must still say what is wrong. */
static void test_long_names(void) {
    static char name[70001], path[600];
    memset(name, 'k', 70000);
    Gguf gguf = good_model(LLAMA);
    gguf_u32(&gguf, name, 1);
    refuse(&gguf, "key of 70000 bytes; 1 to 65535 are allowed", "a key that is too long");
    gguf = good_model(LLAMA);
    gguf.tensors[0].name = name;
    refuse(&gguf, "a tensor name of 70000 bytes; 1 to 65535 are allowed", "a tensor name that is too long");
    name[600] = '\0';
    for (int i = 0; i < 2; i++) {
        Error error = {{0}};
        gguf = good_model(LLAMA);
        if (i == 0) gguf_key(&gguf, name, 13, "", 0);
        if (i == 1) gguf_tensor(&gguf, name, T_F32, 0, 32)->type = 12;
        scratch_write(file, gguf_write(&gguf, file));
        CHECK(model_open(scratch_path(), &error) == NULL, "a long name");
        CHECK(strstr(error.message, i == 0 ? "unknown type 13" : "Q4_K"), "'%s'", error.message);
    }
    Error error = {{0}};
    memset(path, '/', sizeof path - 1);
    memcpy(path + sizeof path - 7, "absent", 6);
    CHECK(model_open(path, &error) == NULL && strstr(error.message, "cannot open"), "'%s'", error.message);
}

static void test_tensor_descriptions(void) {
    enum Field { N_DIMS, DIM0, DIM1, OFFSET };
    static const struct {
        const char *name;
        enum Field field;
        uint64_t value;
        const char *tells;
    } patches[] = {
        {"blk.0.attn_q.weight", N_DIMS, 0, "'blk.0.attn_q.weight' has 0 dimensions"},
        {"blk.0.attn_q.weight", N_DIMS, 5, "'blk.0.attn_q.weight' has 5 dimensions"},
        {"blk.0.attn_q.weight", N_DIMS, UINT32_MAX, "'blk.0.attn_q.weight' has 4294967295 dimensions"},
        {"blk.0.attn_q.weight", DIM0, 0, "'blk.0.attn_q.weight' has a dimension of 0"},
        {"blk.0.attn_q.weight", DIM1, 0, "'blk.0.attn_q.weight' has a dimension of 0"},
        {"blk.0.attn_q.weight", DIM1, 1ull << 62,
         "'blk.0.attn_q.weight' has more weights than can be counted"},
        {"blk.0.attn_q.weight", DIM1, (1ull << 62) + 1, "'blk.0.attn_q.weight' has more weights than can"},
        {"blk.0.attn_norm.weight", DIM0, 1ull << 62,
         "'blk.0.attn_norm.weight' has more bytes than can be counted"},
        {"blk.0.attn_norm.weight", DIM0, 1ull << 61, "'blk.0.attn_norm.weight' (9223372036854775808 bytes"},
        {"blk.0.attn_norm.weight", DIM0, 1ull << 40, "'blk.0.attn_norm.weight' (4398046511104 bytes"},
        {"blk.0.attn_norm.weight", DIM0, 64, "'blk.0.attn_norm.weight' and 'blk.0.attn_q.weight' overlap"},
        {"blk.0.attn_q.weight", OFFSET, 4, "not a multiple of the alignment 32"},
        {"blk.0.attn_q.weight", OFFSET, 1, "'blk.0.attn_q.weight' lies at offset"},
        {"blk.0.attn_q.weight", OFFSET, 32, "'blk.0.attn_q.weight' and 'blk.0.attn_k.weight' overlap"},
        {"blk.0.attn_q.weight", OFFSET, 1ull << 63,
         "'blk.0.attn_q.weight' (64 bytes at offset 92233720368547"},
        {"token_embd.weight", OFFSET, (uint64_t)-32,
         "'token_embd.weight' (128 bytes at offset 18446744073709551584"},
        {"output_norm.weight", OFFSET, 32, "leaves the file"},
    };
    for (size_t i = 0; i < COUNT(patches); i++) {
        Gguf gguf = good_model(LLAMA);
        GgufTensor *tensor = gguf_find_tensor(&gguf, patches[i].name);
        switch (patches[i].field) {
        case N_DIMS: tensor->n_dims = (uint32_t)patches[i].value; break;
        case DIM0: tensor->dims[0] = patches[i].value; break;
        case DIM1: tensor->dims[1] = patches[i].value; break;
        case OFFSET: tensor->offset_error = patches[i].value; break;
        }
        refuse(&gguf, patches[i].tells, patches[i].tells);
    }
    Gguf far = good_model(LLAMA); /* begins within 64 bits, and ends beyond */
    gguf_find_tensor(&far, "blk.0.attn_norm.weight")->dims[0] = 1ull << 61;
    gguf_find_tensor(&far, "blk.0.attn_norm.weight")->offset_error = (1ull << 63) - 128;
    refuse(&far, "(9223372036854775808 bytes at offset 9223372036854775808) leaves the file", "a far tensor");
    Gguf gguf = good_model(LLAMA), nameless = gguf;
    gguf.tensors[gguf.n_tensors++] = *gguf_find_tensor(&gguf, "blk.0.attn_q.weight");
    refuse(&gguf, "'blk.0.attn_q.weight' occurs twice", "a tensor that occurs twice");
    nameless.tensors[0].name = "";
    refuse(&nameless, "name of 0 bytes", "a tensor without a name");
}

/* Rows of whole blocks, also of types that no kernel reads; where a type is not known, its place still is. */
static void test_tensor_types(void) {
    static const struct {
        uint32_t type;
        const char *tells;
    } types[] = {
        {T_Q8_0, "of type Q8_0 has rows of 4, not a multiple of 32"},
        {3, "of type Q4_1 has rows of 4, not a multiple of 32"},
        {12, "of type Q4_K has rows of 4, not a multiple of 256"},
        {41, "of type Q1_0 has rows of 4, not a multiple of 128"},
        {42, "of type Q2_0 has rows of 4, not a multiple of 64"},
    };
    for (size_t i = 0; i < COUNT(types); i++) {
        Gguf gguf = good_model(GPT2);
        gguf_find_tensor(&gguf, "blk.0.ffn_up.weight")->type = types[i].type;
        refuse(&gguf, types[i].tells, types[i].tells);
    }
    static const struct {
        uint32_t type;
        uint64_t dims[2], offset;
        size_t n_bytes;
        const char *tells;
    } places[] = {
        {12, {256, 2}, 0, 287, "'last' (288 bytes at offset"},
        {28, {1, 1}, 0, 7, "'last' (8 bytes at offset"},
        {12, {256, 1ull << 56}, 0, 0, "'last' has more weights than can be counted"},
        {28, {1ull << 62, 1}, 0, 0, "'last' has more bytes than can be counted"},
        {99, {1ull << 62, 4}, 0, 64, "'last' has more weights than can be counted"},
        {99, {1, 1}, 0, 0, "'last' (0 bytes at offset"},           /* it begins at the file's end … */
        {99, {1, 1}, 1ull << 63, 64, "'last' (0 bytes at offset"}, /* … far behind it … */
        {99,
         {1, 1},
         (uint64_t)-32,
         64,
         "'first' and 'last' overlap"}, /* … in another, or where another begins */
        {UINT32_MAX, {1, 1}, (uint64_t)-64, 64, "' overlap"},
        {99, {1, 0}, 0, 64, "'last' has a dimension of 0"},
    };
    for (size_t i = 0; i < COUNT(places); i++) {
        Gguf gguf = gguf_begin(3);
        gguf_tensor(&gguf, "first", T_F32, 0, 16);
        GgufTensor *last = gguf_tensor(&gguf, "last", places[i].type, 1, 1);
        memcpy(last->dims, places[i].dims, sizeof places[i].dims);
        last->n_bytes = places[i].n_bytes, last->offset_error = places[i].offset;
        n_file = gguf_write(&gguf, file) - gguf_round_up(last->n_bytes, 32) +
                 last->n_bytes; /* no padding behind it */
        refuse_file(places[i].tells, places[i].tells);
    }
}

static void test_llama2c_model(void) {
    static const struct {
        size_t field;
        int32_t value;
        const char *tells;
    } patches[] = {
        {0, 0, "not a checkpoint"},
        {0, -4, "not a checkpoint"},
        {0, INT32_MAX, "not a checkpoint"},
        {0, 3, "dim 3, not divisible by n_heads 2"},
        {0, 1 << 24, "llama2.c checkpoint of these shapes"},
        {1, 0, "not a checkpoint"},
        {1, -6, "not a checkpoint"},
        {1, 1 << 24, "llama2.c checkpoint of these shapes"},
        {2, 0, "not a checkpoint"},
        {2, -1, "not a checkpoint"},
        {2, 1 << 24, "16777216 layers"},
        {3, 0, "n_heads 0"},
        {3, -2, "not a checkpoint"},
        {3, 3, "not divisible by n_heads 3"},
        {4, 0, "n_kv_heads 0"},
        {4, -1, "not a checkpoint"},
        {4, 3, "by n_kv_heads 3"},
        {4, 1 << 24, "by n_kv_heads 16777216"},
        {5, 0, "not a checkpoint"},
        {5, INT32_MIN, "not a checkpoint"},
        {5, 9, "vocabulary 9"},
        {5, -8, "vocabulary -8"},
        {6, 0, "not a checkpoint"},
        {6, -8, "not a checkpoint"},
        {6, 9, "bytes, the file"},
    };
    for (size_t i = 0; i < COUNT(patches); i++) {
        write_llama2c_model();
        memcpy(file + 4 * patches[i].field, &patches[i].value, 4);
        refuse_file(patches[i].tells, patches[i].tells);
    }
    static const int32_t largest[] = {1 << 24, 1 << 24, 4096, 1, 1, 8, 8}; /* four matrices of 2^62 bytes */
    write_llama2c_model();
    memcpy(file, largest, sizeof largest);
    refuse_file("vocabulary 8) has 18446744073709551615 bytes, the file", "sizes beyond 64 bits");
    write_llama2c_model();
    model_close(accept_file());
    file[n_file++] = 0;
    refuse_file("bytes, the file", "a byte too many");
}

static void test_llama2c_vocabulary(void) {
    static const size_t sizes[] = {1, 3, 258};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        write_llama2c_vocabulary(sizes[i]);
        refuse_file("alone are 259", "few tokens");
    }
    static const int32_t lengths[] = {-1, INT32_MIN, INT32_MAX, 1 << 20};
    for (size_t i = 0; i < COUNT(lengths); i++) {
        write_llama2c_vocabulary(259);
        memcpy(file + 4 + 8 + 5 + 4, &lengths[i], 4);
        refuse_file("ends inside token 1", "a piece of a length that cannot be");
    }
    write_llama2c_vocabulary(259);
    refuse_file("holds a vocabulary only, no weights", "a vocabulary taken for a model");
}

/* Changes a bit, a byte, a whole number of some width, or the length, of n ≥ 32 bytes. */
static void damage(unsigned char *bytes, size_t *n) {
    static const uint64_t extremes[] = {0,          1,          7,          8,          32,
                                        255,        1 << 24,    1 << 30,    INT32_MAX,  UINT32_MAX,
                                        1ull << 40, 1ull << 61, 1ull << 63, UINT64_MAX, UINT64_MAX - 31,
                                        0x7fc00000, 0x7f800000};
    size_t at = any_below(*n - 8);
    switch (any_below(8)) {
    case 0: *n = 32 + any_below(*n - 31); break;
    case 1: bytes[at] = (unsigned char)any_below(256); break;
    case 2:
    case 3: bytes[at] ^= (unsigned char)(1u << any_below(8)); break;
    case 4: memmove(bytes + at, bytes + any_below(*n - 8), 8); break;
    default: memcpy(bytes + at, &extremes[any_below(COUNT(extremes))], any_below(2) ? 4 : 8);
    }
}

static void test_random_damage(void) {
    static unsigned char damaged[1 << 14];
    for (int base = 0; base < 5; base++) {
        Gguf gguf = good_model(base == 1 ? GPT2 : LLAMA);
        for (size_t i = 0; base == 4 && i < gguf.n_tensors; i++) /* types that are not read, or not known */
            gguf.tensors[i].type = i % 2 ? 26 : 60 + (uint32_t)i;
        n_file = gguf_write(&gguf, file);
        if (base == 2) write_llama2c_model();
        if (base == 3) write_llama2c_vocabulary(260);
        if (n_file > sizeof damaged) abort();
        for (int i = 0; i < (base < 2 ? 12000 : 3000); i++) {
            size_t n = n_file;
            memcpy(damaged, file, n);
            for (uint64_t left = 1 + any_below(3); left > 0; left--) damage(damaged, &n);
            try_any_file(damaged, n);
        }
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    CHECK(ADDRESS_SANITIZER || usage.ru_maxrss < 32 << 10, "%ld KiB for small files", usage.ru_maxrss);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash must not lose what was found before it */
    alarm(300);                       /* a test that hangs is a failure */
    scratch_begin();
    RUN(test_no_file);
    RUN(test_other_formats);
    RUN(test_folders);
    RUN(test_cut);
    RUN(test_header);
    RUN(test_strings_and_arrays);
    RUN(test_keys);
    RUN(test_long_names);
    RUN(test_tensor_descriptions);
    RUN(test_tensor_types);
    RUN(test_llama2c_model);
    RUN(test_llama2c_vocabulary);
    RUN(test_random_damage);
    scratch_end();
    return test_end();
}
