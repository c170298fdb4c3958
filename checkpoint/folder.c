/*
 * Opening a Hugging Face folder. Its JSON texts are read whole; the weights' files are mapped.
 */
#include "folder.h"
#include "safetensors.h"
#include "torch.h"
#include "zip.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_PATH_BYTES = 4096,
    MAX_FILES = 4096,
};

static bool join(Folder *folder, const char *name, char path[static MAX_PATH_BYTES]) {
    int n = snprintf(path, MAX_PATH_BYTES, "%s/%s", folder->path, name);
    return (n >= 0 && n < MAX_PATH_BYTES) || make_fail(&folder->maker, "its path is too long");
}

/* The path of a file that is now looked for. */
static bool look(Folder *folder, const char *name, char path[static MAX_PATH_BYTES]) {
    Maker *maker = &folder->maker;
    maker->ok =
        maker->ok && join(folder, name, path) && checkpoint_look(maker->checkpoint, path, maker->error);
    return maker->ok;
}

static bool exists(Folder *folder, const char *name) {
    char path[MAX_PATH_BYTES];
    return look(folder, name, path) && access(path, F_OK) == 0;
}

static bool has_tokens(Folder *folder) {
    return exists(folder, "tokenizer.json") || exists(folder, "tokenizer.model") ||
           exists(folder, "merges.txt");
}

/* Fails, with the path of a file in the folder in front. */
static bool fail_at(Folder *folder, const char *path, const char *what) {
    if (folder->maker.ok) error_set(folder->maker.error, "%s: %s", path, what);
    return folder->maker.ok = false;
}

/* The size of an open file, which must be regular and no larger than `most`. */
static bool check_file(Folder *folder, const char *path, int file, size_t most, size_t *n) {
    struct stat status;
    if (fstat(file, &status) != 0) return fail_at(folder, path, strerror(errno));
    if (!S_ISREG(status.st_mode)) return fail_at(folder, path, "is no regular file");
    if ((uint64_t)status.st_size > most) return fail_at(folder, path, "is too large for what it is");
    *n = (size_t)status.st_size;
    return true;
}

static bool read_all(Folder *folder, const char *path, int file, char *text, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t more = read(file, text + done, n - done);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0)
            return fail_at(folder, path, more ? strerror(errno) : "became shorter while it was read");
        done += (size_t)more;
    }
    return true;
}

char *folder_text(Folder *folder, const char *name, size_t most, size_t before, bool own, size_t *n) {
    char path[MAX_PATH_BYTES], *text = NULL;
    if (!look(folder, name, path)) return NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        if (errno != ENOENT) fail_at(folder, path, strerror(errno));
        return NULL;
    }
    if (check_file(folder, path, file, most, n)) {
        size_t room = before + *n + STRING_PADDING;
        text = own ? make_room(&folder->maker, room) : malloc(room);
        if (!text && folder->maker.ok) fail_at(folder, path, "not enough memory");
    }
    if (text && !read_all(folder, path, file, text + before, *n)) {
        if (!own) free(text);
        text = NULL;
    }
    close(file);
    const char *pointer = text ? foreign_pointer(text + before, *n) : NULL;
    if (pointer) {
        char what[128];
        snprintf(what, sizeof what, "this is %s", pointer);
        fail_at(folder, path, what);
        if (!own) free(text);
        text = NULL;
    }
    return text;
}

Json *folder_json(Folder *folder, const char *name) {
    size_t n = 0;
    Error why;
    char *text = folder_text(folder, name, MAX_CONFIG_BYTES, 0, false, &n);
    Json *json = text ? json_take(text, n, &why) : NULL;
    if (text && !json) make_fail(&folder->maker, "%s: %s", name, why.message);
    return json;
}

static void map_weights(Folder *folder, const char *name) {
    char path[MAX_PATH_BYTES];
    Maker *maker = &folder->maker;
    if (!maker->ok || !join(folder, name, path)) return;
    Checkpoint *checkpoint = maker->checkpoint;
    const MappedFile *file = checkpoint_map(checkpoint, path, maker->error);
    size_t n = strlen(name);
    if (!file) {
        maker->ok = false;
    } else if (zip_recognise(file->bytes, file->n_bytes)) {
        checkpoint->format = "PyTorch";
        maker->ok = torch_read(checkpoint, &folder->shelf, file, maker->error);
    } else if (!safetensors_recognise(file->bytes, file->n_bytes) &&
               (is_foreign(file) || (n > 4 && strcmp(name + n - 4, ".bin") == 0))) {
        maker->ok = refuse_foreign(file, maker->error);
    } else {
        maker->ok = safetensors_read(&folder->shelf, file, maker->error);
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
        make_fail(&folder->maker,
                  n_names ? "not enough memory to list the parts of %s" : "%s has no \"weight_map\"", name);
        return NULL;
    }
    for (size_t i = 0; i < n_names; i++) {
        parts[i] = json_string(json_item(map, i));
        if (!is_plain(parts[i]))
            make_fail(&folder->maker, "%s: '%.*s' is no name of a file in the folder", name,
                      string_shown(parts[i]), parts[i].data);
    }
    qsort(parts, n_names, sizeof *parts, string_order);
    for (size_t i = 0; i < n_names; i++)
        if (i == 0 || string_compare(parts[i], parts[*n - 1]) != 0) parts[(*n)++] = parts[i];
    if (*n > MAX_FILES) make_fail(&folder->maker, "%s lists more than %d files", name, MAX_FILES);
    return parts;
}

/*
 * Maps the parts of an index, if there is one. With `file` only if it is one of them. False, and nothing is done, if there
 * is no index, or it does not list the file.
 */
static bool map_parts(Folder *folder, const char *index_name, const char *file) {
    size_t n;
    if (!exists(folder, index_name)) return false;
    Json *index = folder_json(folder, index_name);
    String *parts = index ? list_parts(folder, index_name, index, &n) : NULL;
    bool is_listed = !file;
    for (size_t i = 0; parts && i < n; i++) is_listed = is_listed || string_equals(parts[i], file);
    for (size_t i = 0; parts && is_listed && i < n && folder->maker.ok; i++) {
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
        if (!file && exists(folder, names[i][0])) {
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
    for (size_t i = 0; ok && i < sizeof names / sizeof *names; i++) ok = look(folder, names[i], path);
    return ok;
}

static void read_all_of_it(Folder *folder, const char *file) {
    Maker *maker = &folder->maker;
    folder->config = folder_json(folder, "config.json");
    folder->tokenizer_config = folder_json(folder, "tokenizer_config.json");
    folder->generation_config = folder_json(folder, "generation_config.json");
    if (!maker->ok) return;
    bool vocabulary_only = maker->checkpoint->vocabulary_only;
    const Json *n_rows = hub_get(folder->config, "vocab_size");
    int64_t n;
    if (vocabulary_only && n_rows && json_integer(n_rows, &n) && n > 0 && n < 1 << 24)
        make_u32(maker, "attn.embedding_rows", (uint64_t)n); /* which no tensor tells */
    if (folder->config && !vocabulary_only) {
        folder->family = hub_family(maker, folder->config);
        if (folder->family) hub_config(maker, folder->family, folder->config);
        if (maker->ok) read_weights(folder, file);
        if (maker->ok && folder->shelf.n) folder_add_tensors(folder);
    }
    if (maker->ok) folder_add_tokenizer(folder);
}

bool folder_read(Checkpoint *checkpoint, const char *path, const char *file, Error *error) {
    Folder folder = {.maker = {.checkpoint = checkpoint, .error = error, .architecture = "", .ok = true},
                     .path = path};
    checkpoint->format = "safetensors";
    bool is_model = exists(&folder, "config.json") || has_tokens(&folder);
    if (!is_model) return folder.maker.ok && refuse_folder(path, error);
    if (look_around(&folder)) read_all_of_it(&folder, file);
    bool has_weights = folder.shelf.n > 0, ok = folder.maker.ok;
    /* A vocabulary alone may be wanted; weights in a format that is not read are another matter. */
    bool has_vocabulary = (make_has(&folder.maker, "tokenizer.huggingface.json") ||
                           make_has(&folder.maker, "tokenizer.ggml.model")) &&
                          (checkpoint->vocabulary_only || !folder_has_others(path));
    free(folder.turnings);
    free(folder.by_name);
    shelf_free(&folder.shelf);
    json_free(folder.config);
    json_free(folder.tokenizer_config);
    json_free(folder.generation_config);
    return ok && (has_weights || has_vocabulary || refuse_folder(path, error));
}

/* A file was named: the folder around it is opened, and of that only this file, unless it is one of several parts. */
static bool read_around(Checkpoint *checkpoint, Error *error) {
    const char *slash = strrchr(checkpoint->path, '/'), *file = slash ? slash + 1 : checkpoint->path;
    char folder[MAX_PATH_BYTES] = ".", config[MAX_PATH_BYTES + 16];
    if (slash && slash - checkpoint->path < MAX_PATH_BYTES)
        snprintf(folder, sizeof folder, "%.*s",
                 slash == checkpoint->path ? 1 : (int)(slash - checkpoint->path), checkpoint->path);
    snprintf(config, sizeof config, "%s/config.json", folder);
    if (access(config, F_OK) != 0) return refuse_foreign(&checkpoint->files[0], error);
    checkpoint_unmap(checkpoint); /* it is mapped again among the folder's files */
    return folder_read(checkpoint, folder, file, error);
}

const Format format_safetensors = {safetensors_recognise, read_around};
const Format format_torch = {zip_recognise, read_around};
