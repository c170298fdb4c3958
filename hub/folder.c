/*
 * Opening a Hugging Face folder. The weights' files are mapped.
 */
#include "folder.h"
#include "safetensors.h"
#include "torch.h"
#include "zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILES = 4096 };

static bool has_tokens(Folder *folder) {
    return folder_exists(folder, "tokenizer.json") || folder_exists(folder, "tokenizer.model") ||
           folder_exists(folder, "merges.txt");
}

static void map_weights(Folder *folder, const char *name) {
    char path[MAX_PATH_BYTES];
    Builder *builder = &folder->builder;
    if (!builder->ok || !folder_join(folder, name, path)) return;
    Checkpoint *checkpoint = builder->checkpoint;
    const MappedFile *file = checkpoint_map(checkpoint, path, builder->error);
    if (!file) {
        builder->ok = false;
    } else if (zip_recognise(file->bytes, file->n_bytes)) {
        checkpoint->format = "PyTorch";
        builder->ok = torch_read(checkpoint, &folder->stored, file, builder->error);
    } else if (!is_safetensors(file->bytes, file->n_bytes) &&
               (is_foreign(file) || string_ends(string_from(name), ".bin"))) {
        builder->ok = refuse_foreign(file, builder->error);
    } else {
        builder->ok = safetensors_read(&folder->stored, file, builder->error);
    }
}

/* A name of a file that cannot lead out of the folder. */
static bool is_plain(String name) {
    return name.n > 0 && name.n < 256 && name.data[0] != '.' && !memchr(name.data, '/', name.n) &&
           !memchr(name.data, '\0', name.n);
}

/* The files of the index called `name`, each once, in an array that the caller frees. NULL if there are none. */
static String *list_parts(Folder *folder, const char *name, const Json *index, size_t *n) {
    const Json *map = json_get(index, "weight_map");
    size_t n_names = map && map->kind == JSON_OBJECT ? map->n : 0;
    String *parts = n_names ? malloc(n_names * sizeof *parts) : NULL;
    *n = 0;
    if (!parts) {
        builder_fail(&folder->builder,
                     n_names ? "not enough memory to list the parts of %s" : "%s has no \"weight_map\"",
                     name);
        return NULL;
    }
    for (size_t i = 0; i < n_names; i++) {
        parts[i] = json_string(json_item(map, i));
        if (!is_plain(parts[i]))
            builder_fail(&folder->builder, "%s: '%.*s' is no name of a file in the folder", name,
                         string_shown(parts[i]), parts[i].data);
    }
    qsort(parts, n_names, sizeof *parts, string_order);
    for (size_t i = 0; i < n_names; i++)
        if (i == 0 || string_compare(parts[i], parts[*n - 1]) != 0) parts[(*n)++] = parts[i];
    if (*n > MAX_FILES) builder_fail(&folder->builder, "%s lists more than %d files", name, MAX_FILES);
    return parts;
}

/*
 * Maps the parts of an index, if there is one. With `file` only if it is one of them. False, and nothing is done, if there
 * is no index, or it does not list the file.
 */
static bool map_parts(Folder *folder, const char *index_name, const char *file) {
    size_t n = 0;
    if (!folder_exists(folder, index_name)) return false;
    Json *index = folder_json(folder, index_name);
    String *parts = index ? list_parts(folder, index_name, index, &n) : NULL;
    bool is_listed = !file;
    for (size_t i = 0; parts && i < n; i++) is_listed = is_listed || string_equals(parts[i], file);
    for (size_t i = 0; parts && is_listed && i < n && folder->builder.ok; i++) {
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)parts[i].n, parts[i].data);
        map_weights(folder, name);
    }
    free(parts);
    json_free(index);
    return is_listed;
}

static void read_weights(Folder *folder, const char *file) {
    static const char *const names[][2] = {{"model.safetensors", "model.safetensors.index.json"},
                                           {"pytorch_model.bin", "pytorch_model.bin.index.json"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!file && folder_exists(folder, names[i][0])) {
            map_weights(folder, names[i][0]);
            return;
        }
        if (map_parts(folder, names[i][1], file)) return;
    }
    if (file) map_weights(folder, file);
}

/* Other files that a folder may have are its own, too, and read by others, though not by us this time. */
static bool look_around(Folder *folder) {
    static const char *const names[] = {"model.safetensors",
                                        "model.safetensors.index.json",
                                        "pytorch_model.bin",
                                        "pytorch_model.bin.index.json",
                                        "tokenizer.json",
                                        "tokenizer.model",
                                        "vocab.json",
                                        "merges.txt",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "chat_template.jinja",
                                        "chat_template.json"};
    char path[MAX_PATH_BYTES];
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof names / sizeof *names; i++) ok = folder_look(folder, names[i], path);
    return ok;
}

static void read_all_of_it(Folder *folder, const char *file) {
    Builder *builder = &folder->builder;
    folder->config = folder_json(folder, "config.json");
    folder->tokenizer_config = folder_json(folder, "tokenizer_config.json");
    folder->generation_config = folder_json(folder, "generation_config.json");
    if (!builder->ok) return;
    bool vocabulary_only = builder->checkpoint->vocabulary_only;
    const Json *n_rows = hub_get(folder->config, "vocab_size");
    int64_t n;
    if (vocabulary_only && n_rows && json_integer(n_rows, &n) && n > 0 && n < 1 << 24)
        builder_u32(builder, "attn.embedding_rows", (uint64_t)n); /* which no tensor tells */
    if (folder->config && !vocabulary_only) {
        folder->family = hub_family(builder, folder->config);
        if (folder->family) hub_config(builder, folder->family, folder->config);
        if (builder->ok) read_weights(folder, file);
        if (builder->ok && folder->stored.n) folder_add_tensors(folder);
    }
    if (builder->ok) folder_add_tokenizer(folder);
}

bool folder_read(Checkpoint *checkpoint, const char *path, const char *file, Error *error) {
    Folder folder = {.builder = {.checkpoint = checkpoint, .error = error, .architecture = "", .ok = true},
                     .path = path};
    checkpoint->format = "safetensors";
    bool is_model = folder_exists(&folder, "config.json") || has_tokens(&folder);
    if (!is_model) return folder.builder.ok && refuse_folder(path, error);
    if (look_around(&folder)) read_all_of_it(&folder, file);
    bool has_weights = folder.stored.n > 0, ok = folder.builder.ok;
    /* A vocabulary alone may be wanted; weights in a format that is not read are another matter. */
    bool has_vocabulary = (builder_has(&folder.builder, "tokenizer.huggingface.json") ||
                           builder_has(&folder.builder, "tokenizer.ggml.model")) &&
                          (checkpoint->vocabulary_only || !folder_has_others(path));
    free(folder.rearrangements);
    free(folder.by_name);
    stored_free(&folder.stored);
    json_free(folder.config);
    json_free(folder.tokenizer_config);
    json_free(folder.generation_config);
    return ok && (has_weights || has_vocabulary || refuse_folder(path, error));
}

/* A file was named: the folder around it is opened, and of that only this file, unless it is one of several parts. */
static bool read_around(Checkpoint *checkpoint, Error *error) {
    const char *slash = strrchr(checkpoint->path, '/'), *file = slash ? slash + 1 : checkpoint->path;
    char folder[MAX_PATH_BYTES] = ".", config[MAX_PATH_BYTES + 16];
    if (slash)
        snprintf(folder, sizeof folder, "%.*s",
                 slash == checkpoint->path ? 1 : (int)(slash - checkpoint->path), checkpoint->path);
    snprintf(config, sizeof config, "%s/config.json", folder);
    if (access(config, F_OK) != 0) return refuse_foreign(&checkpoint->files[0], error);
    checkpoint_unmap(checkpoint); /* it is mapped again among the folder's files */
    return folder_read(checkpoint, folder, file, error);
}

const Format format_safetensors = {is_safetensors, read_around};
const Format format_torch = {zip_recognise, read_around};
