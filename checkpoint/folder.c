/*
 * Opening a Hugging Face folder. Its JSON texts are read whole; the weights' files are mapped. What becomes of a tensor
 * is said by hub_name: most are used where they lie, some are cut in several there, the others are turned.
 */
#include "folder.h"

#include "hub.h"

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
    MAX_CONFIG_BYTES = 1 << 26,    /* of a JSON text but tokenizer.json */
    MAX_TOKENIZER_BYTES = 1 << 29, /* of tokenizer.json */
    MAX_FILES = 4096,
    MIB = 1 << 20,
    MAX_EXPERTS = 65536,
};

typedef struct Folder {
    Maker maker;
    const char *path;
    Json *config, *tokenizer_config, *generation_config; /* the last two may be NULL */
    const HubFamily *family;
    Shelf shelf;
    Turning *turnings; /* [n_turnings] */
    size_t n_turnings, turnings_room;
    const Stored **by_name; /* the shelf's tensors sorted by name, once somebody asks */
    bool tied;              /* the output's weights are the embedding's */
} Folder;

static bool join(Folder *folder, const char *name, char path[static MAX_PATH_BYTES]) {
    int n = snprintf(path, MAX_PATH_BYTES, "%s/%s", folder->path, name);
    return (n >= 0 && n < MAX_PATH_BYTES) || make_fail(&folder->maker, "its path is too long");
}

static bool exists(Folder *folder, const char *name) {
    char path[MAX_PATH_BYTES];
    return join(folder, name, path) && access(path, F_OK) == 0;
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

/*
 * Reads a file of the folder behind `before` bytes of room. With `own` the checkpoint frees it, otherwise the caller
 * does. NULL where there is none, or once it has failed.
 */
static char *read_text(Folder *folder, const char *name, size_t most, size_t before, bool own, size_t *n) {
    char path[MAX_PATH_BYTES], *text = NULL;
    if (!folder->maker.ok || !join(folder, name, path)) return NULL;
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
    return text;
}

static Json *read_json(Folder *folder, const char *name) {
    size_t n = 0;
    Error why;
    char *text = read_text(folder, name, MAX_CONFIG_BYTES, 0, false, &n);
    Json *json = text ? json_take(text, n, &why) : NULL;
    if (text && !json) make_fail(&folder->maker, "%s: %s", name, why.message);
    return json;
}

static void map_weights(Folder *folder, const char *name) {
    char path[MAX_PATH_BYTES];
    Maker *maker = &folder->maker;
    if (!maker->ok || !join(folder, name, path)) return;
    const MappedFile *file = checkpoint_map(maker->checkpoint, path, maker->error);
    maker->ok = file && safetensors_read(&folder->shelf, file, maker->error);
}

/* A name of a file that cannot lead out of the folder. */
static bool is_plain(String name) {
    return name.n > 0 && name.n < 256 && name.data[0] != '.' && !memchr(name.data, '/', name.n) &&
           !memchr(name.data, '\0', name.n);
}

static int compare_strings(const void *a, const void *b) {
    return string_compare(*(const String *)a, *(const String *)b);
}

/* The files of the index, each once, in an array that the caller frees. NULL if there are none. */
static String *list_parts(Folder *folder, const Json *index, size_t *n) {
    const Json *map = json_get(index, "weight_map");
    size_t n_names = map && map->kind == JSON_OBJECT ? map->n : 0;
    String *parts = n_names ? malloc(n_names * sizeof *parts) : NULL;
    *n = 0;
    if (!parts) {
        make_fail(&folder->maker, "model.safetensors.index.json has no \"weight_map\"");
        return NULL;
    }
    for (size_t i = 0; i < n_names; i++) {
        parts[i] = json_string(json_item(map, i));
        if (!is_plain(parts[i]))
            make_fail(&folder->maker,
                      "model.safetensors.index.json: '%.*s' is no name of a file in the folder",
                      string_shown(parts[i]), parts[i].data);
    }
    qsort(parts, n_names, sizeof *parts, compare_strings);
    for (size_t i = 0; i < n_names; i++)
        if (i == 0 || string_compare(parts[i], parts[*n - 1]) != 0) parts[(*n)++] = parts[i];
    if (*n > MAX_FILES)
        make_fail(&folder->maker, "model.safetensors.index.json lists more than %d files", MAX_FILES);
    return parts;
}

/* Maps the parts of the index. With `file` only if it is one of them: false, and nothing is done, if it is not. */
static bool map_parts(Folder *folder, const char *file) {
    size_t n;
    Json *index = read_json(folder, "model.safetensors.index.json");
    String *parts = index ? list_parts(folder, index, &n) : NULL;
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
    bool has_index = exists(folder, "model.safetensors.index.json");
    if (file ? !has_index || !map_parts(folder, file) : exists(folder, "model.safetensors"))
        map_weights(folder, file ? file : "model.safetensors");
    else if (!file && has_index)
        map_parts(folder, NULL);
}

/* Notes that weights are to be turned, and where to. */
static unsigned char *add_turning(Folder *folder, Turning turning, uint64_t n_bytes) {
    Maker *maker = &folder->maker;
    turning.to = make_room(maker, (size_t)n_bytes);
    if (turning.to && folder->n_turnings == folder->turnings_room) {
        size_t more = 2 * folder->turnings_room + 64;
        Turning *turnings = realloc(folder->turnings, more * sizeof *turnings);
        if (!turnings) make_fail(maker, "not enough memory to turn its weights");
        if (turnings) folder->turnings = turnings, folder->turnings_room = more;
    }
    if (!maker->ok) return NULL;
    maker->checkpoint->n_turned += n_bytes;
    turning.n_bytes = n_bytes;
    folder->turnings[folder->n_turnings++] = turning;
    return turning.to;
}

/* The rows of q and of k (v has as many), as config.json has their heads; *n_head and *n_head_kv. */
static void attention_rows(const Maker *maker, uint64_t rows[3], uint64_t *n_head, uint64_t *n_head_kv) {
    uint64_t d_head = hub_number(maker, ".attention.key_length");
    *n_head = hub_number(maker, ".attention.head_count"),
    *n_head_kv = hub_number(maker, ".attention.head_count_kv");
    if (*n_head_kv == 0) *n_head_kv = *n_head;
    if (d_head == 0 && *n_head > 0) d_head = hub_number(maker, ".embedding_length") / *n_head;
    rows[0] = *n_head * d_head, rows[1] = rows[2] = *n_head_kv * d_head;
}

/* Rows of a matrix, items of a vector. */
static uint64_t rows_of(const Tensor *tensor) {
    return tensor->n_dims == 1 ? tensor->dims[0] : tensor->dims[1];
}

/* The tensor with its rows [first, first + n). */
static Tensor some_rows(const Tensor *tensor, uint64_t first, uint64_t n) {
    Tensor part = *tensor;
    uint64_t row_bytes = tensor->n_bytes / rows_of(tensor);
    part.dims[tensor->n_dims == 1 ? 0 : 1] = n;
    part.data = (const unsigned char *)tensor->data + first * row_bytes;
    part.n_bytes = n * row_bytes;
    return part;
}

/* Under one of GGUF's names: word number `word` of name->gguf, with the expert in place of '#'. */
static void emit(Folder *folder, const HubName *name, size_t word, const Tensor *tensor) {
    char layer[32] = "", gguf[64], expert[24] = "";
    const char *begin = name->gguf;
    while (word-- > 0) begin += strcspn(begin, " ") + 1;
    size_t n = strcspn(begin, " #");
    if (name->layer >= 0) snprintf(layer, sizeof layer, "blk.%" PRId64 ".", name->layer);
    if (begin[n] == '#') snprintf(expert, sizeof expert, "%" PRIu64, name->expert);
    snprintf(gguf, sizeof gguf, "%.*s%s", (int)n, begin, expert);
    make_tensor(&folder->maker, tensor, "%s%s.%s", layer, gguf, name->kind);
}

/* [n_expert][rows][cols] as a tensor for each expert, or two, of half the rows each. */
static void emit_experts(Folder *folder, HubName name, const Tensor *tensor, const Stored *stored) {
    bool for_each = strchr(name.gguf, '#') != NULL;
    uint64_t n = for_each ? hub_number(&folder->maker, ".expert_count") : 1,
             parts = name.turn == SPLIT_GATE_UP ? 2 : 1, rows = tensor->dims[1] / parts,
             n_bytes = tensor->n_bytes / tensor->dims[2] / parts;
    if (tensor->dims[2] != n || n > MAX_EXPERTS || tensor->dims[1] % parts != 0 || tensor->dims[3] != 1) {
        make_fail(&folder->maker, "tensor '%.*s' does not hold the weights of %" PRIu64 " experts",
                  string_shown(stored->name), stored->name.data, n);
        return;
    }
    for (name.expert = 0; name.expert < n; name.expert++)
        for (uint64_t part = 0; part < parts; part++) {
            Tensor one = *tensor;
            one.n_dims = 2, one.dims[1] = rows, one.dims[2] = 1;
            one.data = (const unsigned char *)tensor->data + (name.expert * parts + part) * n_bytes;
            one.n_bytes = n_bytes;
            emit(folder, &name, part, &one);
        }
}

static bool misshapen(Folder *folder, const Stored *stored) {
    return make_fail(&folder->maker, "tensor '%.*s' does not have the shape that config.json asks for",
                     string_shown(stored->name), stored->name.data);
}

static int compare_stored(const void *a, const void *b) {
    return string_compare((*(const Stored *const *)a)->name, (*(const Stored *const *)b)->name);
}

/* The tensor "…_scales" beside one called "…_blocks"; NULL if there is none. */
static const Stored *find_scales(Folder *folder, const Stored *blocks) {
    char name[256];
    size_t n = folder->shelf.n;
    Stored wanted = {.name = {name, blocks->name.n}};
    const Stored *pointer = &wanted;
    if (!folder->by_name && (folder->by_name = malloc(n * sizeof *folder->by_name))) {
        for (size_t i = 0; i < n; i++) folder->by_name[i] = &folder->shelf.tensors[i];
        qsort(folder->by_name, n, sizeof *folder->by_name, compare_stored);
    }
    if (!folder->by_name || blocks->name.n >= sizeof name) return NULL;
    memcpy(name, blocks->name.data, blocks->name.n);
    memcpy(name + blocks->name.n - 6, "scales", 6);
    const Stored **found = bsearch(&pointer, folder->by_name, n, sizeof *folder->by_name, compare_stored);
    return found ? *found : NULL;
}

/* How gpt-oss's experts lie in one or two tensors of GGUF. */
static bool arrange_experts(Folder *folder, const HubName *name, Turning *turning, Tensor *tensor) {
    const Stored *stored = turning->from;
    uint64_t n_parts = turning->n_parts = strchr(name->gguf, ' ') ? 2 : 1;
    if (name->turn == TURN_MXFP4) {
        const Stored *scales = turning->scales = find_scales(folder, stored);
        uint64_t rows = stored->dims[2], n_blocks = stored->dims[1];
        if (!scales || !string_equals(stored->type, "U8") || !string_equals(scales->type, "U8") ||
            stored->dims[0] != 16 || scales->dims[0] != n_blocks || scales->dims[1] != rows ||
            scales->dims[2] != stored->dims[3] || scales->dims[3] != 1 || rows % n_parts != 0 ||
            stored->n_bytes == 0)
            return misshapen(folder, stored);
        *tensor = (Tensor){.dtype = DTYPE_MXFP4,
                           .n_dims = 3,
                           .dims = {32 * n_blocks, rows / n_parts, stored->dims[3], 1},
                           .n_bytes = stored->n_bytes / 16 * 17 / n_parts};
        return true;
    }
    bool is_bias = strcmp(name->kind, "bias") == 0;
    if (stored->n_dims != (is_bias ? 2 : 3) || stored->dims[0] % 2 != 0) return misshapen(folder, stored);
    tensor->n_bytes /= 2;
    tensor->dims[0] /= 2;
    if (is_bias) return true;
    tensor->dims[0] = stored->dims[1], tensor->dims[1] = stored->dims[0] / 2;
    return true;
}

/* A tensor that has q, k and v in its rows. */
static bool check_qkv(Folder *folder, const Turning *turning, const Tensor *tensor) {
    uint64_t rows[3], n_head, n_head_kv, all;
    attention_rows(&folder->maker, rows, &n_head, &n_head_kv);
    bool ok = n_head > 0 && n_head <= 1 << 24 && n_head_kv <= n_head && n_head % n_head_kv == 0 &&
              rows[0] <= 1ull << 40 && tensor->n_dims <= 2 && add(rows[0], 2 * rows[1], &all) &&
              rows_of(tensor) == all &&
              (turning->turn != TURN_CODEGEN || (rows[0] == rows[1] && rows[0] % 4 == 0));
    return ok || misshapen(folder, turning->from);
}

/*
 * Arranges the weights as the name says: fills in `tensor`, the first of those that come of it, whose data are written
 * later.
 */
static bool arrange(Folder *folder, const HubName *name, const Stored *stored, Tensor *tensor) {
    uint64_t rows[3], n_parts = 1;
    Turning turning = {.turn = name->turn, .from = stored, .n_parts = 1};
    attention_rows(&folder->maker, rows, &turning.n_head, &turning.n_head_kv);
    bool is_qkv = strncmp(name->gguf, "attn_q ", 7) == 0 || name->turn == TURN_QKV;
    if (is_qkv && !check_qkv(folder, &turning, tensor)) return false;
    if (name->turn == TURN_QKV && turning.n_head_kv == 1)
        turning.turn = TURN_NONE; /* its group lies as it should */
    if (name->turn == SPLIT_EXPERTS || name->turn == SPLIT_GATE_UP) turning.turn = TURN_NONE;
    if (turning.turn == TURN_NONE && (uintptr_t)stored->data % stored->item_bytes != 0)
        turning.turn = TURN_COPY;
    switch (turning.turn) {
    case TURN_NONE: return true;
    case TURN_TRANSPOSE:
        if (tensor->n_dims < 2 || tensor->dims[3] != 1) return misshapen(folder, stored);
        tensor->dims[0] = stored->dims[1], tensor->dims[1] = stored->dims[0];
        break;
    case TURN_GAIN:
        tensor->dtype = DTYPE_F32;
        tensor->n_bytes = stored->n_bytes / stored->item_bytes * sizeof(float);
        break;
    case TURN_COLUMNS:
    case TURN_MXFP4:
        if (!arrange_experts(folder, name, &turning, tensor)) return false;
        n_parts = turning.n_parts;
        break;
    default: break;
    }
    tensor->data = add_turning(folder, turning, tensor->n_bytes * n_parts);
    return tensor->data != NULL;
}

/* What the arranged weights are called, in one tensor or several. */
static void emit_all(Folder *folder, const HubName *name, const Tensor *tensor, const Stored *stored) {
    bool is_split = name->turn == SPLIT_EXPERTS || name->turn == SPLIT_GATE_UP;
    if (is_split) {
        emit_experts(folder, *name, tensor, stored);
    } else if (name->turn == TURN_COLUMNS || name->turn == TURN_MXFP4) {
        Tensor part = *tensor;
        for (size_t word = 0; word < (strchr(name->gguf, ' ') ? 2 : 1); word++) {
            emit(folder, name, word, &part);
            part.data = (const unsigned char *)part.data + part.n_bytes;
        }
    } else if (strchr(name->gguf, ' ')) {
        uint64_t rows[3], n_head, n_head_kv, first = 0;
        attention_rows(&folder->maker, rows, &n_head, &n_head_kv);
        for (size_t word = 0; word < 3; first += rows[word++]) {
            Tensor part = some_rows(tensor, first, rows[word]);
            emit(folder, name, word, &part);
        }
    } else {
        emit(folder, name, 0, tensor);
    }
}

static void add_tensor(Folder *folder, const Stored *stored) {
    Maker *maker = &folder->maker;
    HubName name;
    int shown = string_shown(stored->name);
    if (!hub_name(&name, folder->family, stored->name)) {
        make_fail(maker, "tensor '%.*s' is not known in a model of type '%s'", shown, stored->name.data,
                  folder->family->model_type);
        return;
    }
    bool is_output = !name.ignored && strcmp(name.gguf, "output") == 0 && strcmp(name.kind, "weight") == 0;
    if (name.ignored || (is_output && folder->tied)) return;
    if (stored->item_bytes == 0 && name.turn != TURN_MXFP4) {
        make_fail(maker, "tensor '%.*s' has type %.*s, which is not read; F32, F16 and BF16 are", shown,
                  stored->name.data, string_shown(stored->type), stored->type.data);
        return;
    }
    if (stored->n_bytes == 0) {
        make_fail(maker, "tensor '%.*s' has no weights", shown, stored->name.data);
        return;
    }
    Tensor tensor = {
        .dtype = stored->dtype, .n_dims = stored->n_dims, .data = stored->data, .n_bytes = stored->n_bytes};
    memcpy(tensor.dims, stored->dims, sizeof tensor.dims);
    if (arrange(folder, &name, stored, &tensor)) emit_all(folder, &name, &tensor, stored);
}

static void turn_weights(Folder *folder) {
    const Checkpoint *checkpoint = folder->maker.checkpoint;
    uint64_t done = 0, all = checkpoint->n_turned;
    const char *what = all >= 64 * MIB ? "MiB of weights turned" : NULL;
    for (size_t i = 0; i < folder->n_turnings && folder->maker.ok; i++) {
        if (checkpoint->progress &&
            !checkpoint->progress(checkpoint->user, what, (size_t)(done / MIB), (size_t)(all / MIB)))
            make_fail(&folder->maker, "interrupted");
        if (folder->maker.ok) turn_run(&folder->turnings[i]);
        done += folder->turnings[i].n_bytes;
    }
    if (checkpoint->progress && what)
        checkpoint->progress(checkpoint->user, what, (size_t)(all / MIB), (size_t)(all / MIB));
}

static void add_tensors(Folder *folder) {
    const Json *tie = hub_get(folder->config, "tie_word_embeddings");
    folder->tied = tie && tie->kind == JSON_BOOL ? tie->boolean : folder->family->tied;
    for (size_t i = 0; i < folder->shelf.n && folder->maker.ok; i++)
        add_tensor(folder, &folder->shelf.tensors[i]);
    if (folder->maker.ok) turn_weights(folder);
}

/* The id of a special token: what tokenizer_config.json calls "eos_token", or config.json's "eos_token_id". */
static bool token_id(const Folder *folder, const char *which, int64_t *id) {
    char key[32];
    snprintf(key, sizeof key, "%s_token", which);
    const Json *token = json_get(folder->tokenizer_config, key),
               *added = json_get(folder->tokenizer_config, "added_tokens_decoder");
    if (token && token->kind == JSON_OBJECT) token = json_get(token, "content");
    String text = json_string(token);
    for (size_t i = 0; text.n && added && added->kind == JSON_OBJECT && i < added->n; i++) {
        String number = json_key(added, i);
        if (string_compare(json_string(json_get(json_item(added, i), "content")), text) != 0 || number.n > 9)
            continue;
        char digits[16];
        snprintf(digits, sizeof digits, "%.*s", (int)number.n, number.data);
        *id = strtoll(digits, NULL, 10);
        return true;
    }
    snprintf(key, sizeof key, "%s_token_id", which);
    const Json *from[] = {folder->config, folder->generation_config};
    for (size_t i = 0; i < 2; i++) {
        const Json *value = from[i] ? hub_get(from[i], key) : NULL;
        if (value && value->kind == JSON_ARRAY && value->n) value = &value->items[0];
        if (json_integer(value, id)) return true;
    }
    return false;
}

/* All tokens that end a text: generation_config.json lists those of a turn, too. */
static void add_ends(Folder *folder) {
    enum { MAX_ENDS = 64 };
    const Json *lists[] = {hub_get(folder->config, "eos_token_id"),
                           json_get(folder->generation_config, "eos_token_id")};
    int32_t *ids = make_room(&folder->maker, MAX_ENDS * sizeof *ids);
    size_t n = 0;
    int64_t id;
    if (ids && token_id(folder, "eos", &id) && id >= 0 && id <= INT32_MAX) ids[n++] = (int32_t)id;
    for (size_t k = 0; ids && k < 2; k++) {
        const Json *list = lists[k];
        size_t n_list = !list ? 0 : list->kind == JSON_ARRAY ? list->n : 1;
        for (size_t i = 0; i < n_list && n < MAX_ENDS; i++) {
            if (!json_integer(list->kind == JSON_ARRAY ? &list->items[i] : list, &id) || id < 0 ||
                id > INT32_MAX)
                continue;
            size_t known = 0;
            while (known < n && ids[known] != (int32_t)id) known++;
            if (known == n) ids[n++] = (int32_t)id;
        }
    }
    if (n > 1) make_array(&folder->maker, "attn.eos_token_ids", VALUE_I32, n, ids, n * sizeof *ids);
}

/* chat_template.jinja, or what tokenizer_config.json or chat_template.json has: a text, or a list of named ones. */
static void add_template(Folder *folder) {
    Maker *maker = &folder->maker;
    size_t n = 0;
    char *text = read_text(folder, "chat_template.jinja", MAX_CONFIG_BYTES, 0, false, &n);
    Json *file = NULL;
    const Json *chosen = json_get(folder->tokenizer_config, "chat_template");
    if (!text && !chosen) chosen = json_get(file = read_json(folder, "chat_template.json"), "chat_template");
    for (size_t i = 0; chosen && chosen->kind == JSON_ARRAY && i < chosen->n; i++)
        if (i + 1 == chosen->n || json_equals(json_get(&chosen->items[i], "name"), "default"))
            chosen = json_get(&chosen->items[i], "template");
    if (text)
        make_string(maker, "tokenizer.chat_template", (String){text, n});
    else if (chosen && chosen->kind == JSON_TEXT)
        make_string(maker, "tokenizer.chat_template", json_string(chosen));
    free(text);
    json_free(file);
}

static void add_tokenizer(Folder *folder) {
    static const char *const ids[][2] = {{"bos", "tokenizer.ggml.bos_token_id"},
                                         {"eos", "tokenizer.ggml.eos_token_id"},
                                         {"unk", "tokenizer.ggml.unknown_token_id"},
                                         {"pad", "tokenizer.ggml.padding_token_id"}};
    static const char *const adds[][2] = {{"add_bos_token", "tokenizer.ggml.add_bos_token"},
                                          {"add_eos_token", "tokenizer.ggml.add_eos_token"}};
    Maker *maker = &folder->maker;
    size_t n = 0;
    uint64_t length;
    char *text = read_text(folder, "tokenizer.json", MAX_TOKENIZER_BYTES, sizeof length, true, &n);
    if (text) {
        length = n;
        memcpy(text, &length, sizeof length);
        make_entry(maker, "tokenizer.huggingface.json",
                   (Entry){.type = VALUE_STRING, .n = n, .data = (const unsigned char *)text});
    }
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        int64_t id;
        if (token_id(folder, ids[i][0], &id) && id >= 0) make_u32(maker, ids[i][1], (uint64_t)id);
    }
    for (size_t i = 0; i < 2; i++) {
        const Json *value = json_get(folder->tokenizer_config, adds[i][0]);
        if (value && value->kind == JSON_BOOL) make_bool(maker, adds[i][1], value->boolean);
    }
    add_ends(folder);
    add_template(folder);
}

static void read_all_of_it(Folder *folder, const char *file) {
    Maker *maker = &folder->maker;
    folder->config = read_json(folder, "config.json");
    folder->tokenizer_config = read_json(folder, "tokenizer_config.json");
    folder->generation_config = read_json(folder, "generation_config.json");
    if (!maker->ok) return;
    if (folder->config) {
        folder->family = hub_family(maker, folder->config);
        if (folder->family) hub_config(maker, folder->family, folder->config);
        if (maker->ok) read_weights(folder, file);
        if (maker->ok && folder->shelf.n) add_tensors(folder);
    }
    if (maker->ok) add_tokenizer(folder);
}

bool folder_read(Checkpoint *checkpoint, const char *path, const char *file, Error *error) {
    Folder folder = {.maker = {.checkpoint = checkpoint, .error = error, .architecture = "", .ok = true},
                     .path = path};
    checkpoint->format = "safetensors";
    bool has_config = exists(&folder, "config.json");
    if (!has_config && (file || !exists(&folder, "tokenizer.json"))) return refuse_folder(path, file, error);
    read_all_of_it(&folder, file);
    bool has_weights = folder.shelf.n > 0, ok = folder.maker.ok;
    /* A vocabulary alone may be wanted; weights in a format that is not read are another matter. */
    bool has_vocabulary = make_has(&folder.maker, "tokenizer.huggingface.json") && !folder_has_others(path);
    free(folder.turnings);
    free(folder.by_name);
    shelf_free(&folder.shelf);
    json_free(folder.config);
    json_free(folder.tokenizer_config);
    json_free(folder.generation_config);
    return ok && (has_weights || has_vocabulary || refuse_folder(path, file, error));
}

/* A file was named: the folder around it is opened, and of that only this file, unless it is one of several parts. */
static bool read_around(Checkpoint *checkpoint, Error *error) {
    const char *slash = strrchr(checkpoint->path, '/'), *file = slash ? slash + 1 : checkpoint->path;
    char folder[MAX_PATH_BYTES] = ".";
    if (slash && slash - checkpoint->path < MAX_PATH_BYTES)
        snprintf(folder, sizeof folder, "%.*s",
                 slash == checkpoint->path ? 1 : (int)(slash - checkpoint->path), checkpoint->path);
    checkpoint_unmap(checkpoint); /* it is mapped again among the folder's files */
    return folder_read(checkpoint, folder, file, error);
}

const Format format_safetensors = {safetensors_recognise, read_around};
