/*
 * Files that people hand over in place of a checkpoint: each is known by its content, so that the refusal can say what
 * it is and what to do next.
 */
#include "format.h"

#include <dirent.h>
#include <string.h>

#define NO_CONFIG " without the config.json beside it that says what model it is: download its whole folder"
#define OLD_GGML(name)                                                                                       \
    "an old " name                                                                                           \
    " file (before August 2023): get the model as GGUF, or try llama.cpp's convert_llama_ggml_to_gguf.py"

static const char lfs[] = "version https://git-lfs.github.com/",
                  is_lfs[] = "a Git-LFS pointer, not the file itself: run 'git lfs pull' in its folder";

/* Files with a magic, whose letters may be any byte but NUL. */
static const struct {
    size_t offset;
    const char *magic;
    const char *what; /* … this is */
} magics[] = {
    {0, lfs, is_lfs},
    {0, "FUGG", BIG_ENDIAN_GGUF},
    {0, "24ka", "a llama2.c checkpoint of version 1 or 2; only version 0 is read"},
    {0, "lmgg", OLD_GGML("GGML")},
    {0, "fmgg", OLD_GGML("GGMF")},
    {0, "tjgg", OLD_GGML("GGJT")},
    {0, "algg",
     "an adapter (LoRA) of the old GGLA format, no model: get a model as GGUF with the adapter merged into it"},
    {0, "\x93NUMPY", "a NumPy array"},
    {0, "\x89HDF\r\n",
     "an HDF5 file (of Keras or TensorFlow): get the model as GGUF, or as safetensors to be converted"},
    {0, "\x1f\x8b", "a gzip file; unpack it first"},
    {0, "\3757zXZ", "an xz file; unpack it first"},
    {0, "\x28\xb5\x2f\xfd", "a zstd file; unpack it first"},
    {0, "BZh", "a bzip2 file; unpack it first"},
    {0, "7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it first"},
    {257, "ustar", "a tar archive; unpack it first"},
};

enum { HEAD_BYTES = 512 /* that are looked at */ };

bool is_safetensors(const unsigned char *bytes, size_t n) {
    uint64_t length = 0;
    if (n <= sizeof length || bytes[sizeof length] != '{') return false;
    memcpy(&length, bytes, sizeof length);
    return length >= 2 && length <= MAX_SAFETENSORS_HEADER;
}

/* The beginning of a file, as much of it as is looked at. */
typedef struct Head {
    const unsigned char *bytes;
    size_t n;
} Head;

static bool has_at(Head head, size_t offset, const char *bytes) {
    size_t n = strlen(bytes);
    return head.n >= offset && head.n - offset >= n && memcmp(head.bytes + offset, bytes, n) == 0;
}

static bool contains(Head head, const char *bytes) {
    for (size_t i = 0; i < head.n; i++)
        if (has_at(head, i, bytes)) return true;
    return false;
}

/* The text behind a byte-order mark and white space. */
static Head skip_space(Head head) {
    size_t i = has_at(head, 0, "\xef\xbb\xbf") ? 3 : 0;
    while (i < head.n && memchr(" \t\r\n", head.bytes[i], 4)) i++;
    return (Head){head.bytes + i, head.n - i};
}

static bool is_html(Head head) {
    static const char *const tags[] = {"<!doctype html", "<html", "<head", "<?xml", "<!--"};
    char begin[16] = "";
    for (size_t i = 0; i < head.n && i < sizeof begin - 1; i++)
        begin[i] =
            (char)(head.bytes[i] >= 'A' && head.bytes[i] <= 'Z' ? head.bytes[i] | 0x20 : head.bytes[i]);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (strncmp(begin, tags[i], strlen(tags[i])) == 0) return true;
    return false;
}

/* A protobuf of ModelProto (onnx.proto): ir_version, a small number, then producer_name, a text. */
static bool is_onnx(Head head) {
    return head.n > 4 && head.bytes[0] == 0x08 && head.bytes[1] > 0 && head.bytes[1] < 32 &&
           head.bytes[2] == 0x12 && head.bytes[3] > 0 && head.bytes[3] < 64 && head.bytes[4] >= ' ' &&
           head.bytes[4] < 0x7f;
}

/* Says what the file is and what to do, or NULL. */
static const char *describe(const MappedFile *file) {
    const Head head = {file->bytes, file->n_bytes < HEAD_BYTES ? file->n_bytes : HEAD_BYTES},
               text = skip_space(head);
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (has_at(head, magics[i].offset, magics[i].magic)) return magics[i].what;
    if (has_at(head, 0, "PK\003\004"))
        return contains(head, "data.pkl")
                   ? "a PyTorch file" NO_CONFIG
                     " (scripts/train/export.py converts what scripts/train/train.py made)"
                   : "a zip archive; unpack it first";
    if (is_safetensors(head.bytes, head.n)) return "a safetensors file" NO_CONFIG;
    if (head.n > 1 && head.bytes[0] == 0x80 && head.bytes[1] >= 2 && head.bytes[1] <= 5) /* its protocol */
        return "a Python pickle, as PyTorch wrote before version 1.6: load it there and torch.save it again, or save it "
               "as safetensors";
    if (is_html(text))
        return "an HTML page, not the file: the download went wrong; take the link to the file itself (Hugging Face: "
               "/resolve/, not /blob/), and log in where that is asked";
    if (is_onnx(head)) return "an ONNX file: get the model as GGUF, or as safetensors to be converted";
    if (text.n > 0 && text.bytes[0] == '{')
        return "a JSON text, not the weights: a part of a Hugging Face folder, or what a failed download answered";
    return NULL;
}

const char *foreign_pointer(const char *text, size_t n) {
    return string_begins((String){text, n}, lfs) ? is_lfs : NULL;
}

bool is_foreign(const MappedFile *file) { return describe(file) != NULL; }

bool refuse_foreign(const MappedFile *file, Error *error) {
    const char *what = describe(file);
    if (what) return error_set(error, "%s: this is %s", file->path, what);
    return error_set(error,
                     "%s: not a checkpoint: neither GGUF, nor llama2.c's or llm.c's .bin, by its content",
                     file->path);
}

/* The kinds of files that a folder has. */
typedef struct Kinds {
    bool config, gguf, torch, safetensors;
} Kinds;

static Kinds list_folder(const char *path) {
    Kinds has = {0};
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        const String name = string_from(entry->d_name);
        has.config |= string_equals(name, "config.json");
        has.gguf |= string_ends(name, ".gguf");
        has.safetensors |= string_ends(name, ".safetensors");
        has.torch |= string_ends(name, ".bin") || string_ends(name, ".pt") || string_ends(name, ".pth");
    }
    if (folder) closedir(folder);
    return has;
}

bool folder_has_others(const char *path) {
    Kinds has = list_folder(path);
    return has.gguf || has.torch || has.safetensors;
}

bool refuse_folder(const char *path, Error *error) {
    Kinds has = list_folder(path);
    if (has.gguf || !(has.config || has.safetensors || has.torch))
        return error_set(error, "%s: is a directory; name the checkpoint file in it", path);
    if (!has.config)
        return error_set(
            error, "%s: this folder has weights, but no config.json that says what model they are", path);
    if (has.torch)
        return error_set(
            error,
            "%s: this Hugging Face folder has weights, but not where they are looked for: in model.safetensors, "
            "pytorch_model.bin, or the parts that one of these with .index.json behind its name lists",
            path);
    return error_set(error,
                     "%s: this Hugging Face folder has no weights: neither model.safetensors nor "
                     "pytorch_model.bin, nor an index of their parts; download them, too",
                     path);
}
