/*
 * A folder's tensors under GGUF's names. What becomes of one is said by hub_name: most are used where they lie, some are
 * cut in several there, the others are turned.
 */
#include "folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20, MAX_EXPERTS = 65536 };

/* Notes that weights are to be turned, and where to. */
static unsigned char *add_turning(Folder *folder, Rearrangement rearrangement, uint64_t n_bytes) {
    Builder *builder = &folder->builder;
    rearrangement.to = builder_room(builder, (size_t)n_bytes);
    if (rearrangement.to && folder->n_turnings == folder->rearrangements_room) {
        size_t more = 2 * folder->rearrangements_room + 64;
        Rearrangement *rearrangements = realloc(folder->rearrangements, more * sizeof *rearrangements);
        if (!rearrangements) builder_fail(builder, "not enough memory to turn its weights");
        if (rearrangements) folder->rearrangements = rearrangements, folder->rearrangements_room = more;
    }
    if (!builder->ok) return NULL;
    builder->checkpoint->n_turned += n_bytes;
    rearrangement.n_bytes = n_bytes;
    folder->rearrangements[folder->n_turnings++] = rearrangement;
    return rearrangement.to;
}

/* The rows of q and of k (v has as many), as config.json has their heads; *n_head and *n_head_kv. */
static void attention_rows(const Builder *builder, uint64_t rows[3], uint64_t *n_head, uint64_t *n_head_kv) {
    uint64_t d_head = hub_number(builder, ".attention.key_length");
    *n_head = hub_number(builder, ".attention.head_count"),
    *n_head_kv = hub_number(builder, ".attention.head_count_kv");
    if (*n_head_kv == 0) *n_head_kv = *n_head;
    if (d_head == 0 && *n_head > 0) d_head = hub_number(builder, ".embedding_length") / *n_head;
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
    builder_tensor(&folder->builder, tensor, "%s%s%s%s", layer, gguf, *name->kind ? "." : "", name->kind);
}

/* [n_expert][rows][cols] as a tensor for each expert, or two, of half the rows each. */
static void emit_experts(Folder *folder, HubName name, const Tensor *tensor, const Stored *stored) {
    bool for_each = strchr(name.gguf, '#') != NULL;
    uint64_t n = for_each ? hub_number(&folder->builder, ".expert_count") : 1,
             parts = name.arrangement == SPLIT_GATE_UP ? 2 : 1, rows = tensor->dims[1] / parts,
             n_bytes = tensor->n_bytes / tensor->dims[2] / parts;
    if (tensor->dims[2] != n || n > MAX_EXPERTS || tensor->dims[1] % parts != 0 || tensor->dims[3] != 1) {
        builder_fail(&folder->builder, "tensor '%.*s' does not hold the weights of %" PRIu64 " experts",
                     string_shown(stored->name), stored->name.data, n);
        return;
    }
    for (name.expert = 0; name.expert < n; name.expert++)
        for (uint64_t part = 0; part < parts; part++) {
            Tensor one = *tensor;
            one.n_dims = 2, one.dims[1] = rows, one.dims[2] = 1;
            one.data = (const unsigned char *)tensor->data + (name.expert * parts + part) * n_bytes;
            one.n_bytes = n_bytes;
            emit(folder, &name, (size_t)part, &one);
        }
}

static bool misshapen(Folder *folder, const Stored *stored) {
    return builder_fail(&folder->builder, "tensor '%.*s' does not have the shape that config.json asks for",
                        string_shown(stored->name), stored->name.data);
}

static int compare_stored(const void *a, const void *b) {
    return string_compare((*(const Stored *const *)a)->name, (*(const Stored *const *)b)->name);
}

/* The tensor "…_scales" beside one called "…_blocks"; NULL if there is none, or with an error. */
static const Stored *find_scales(Folder *folder, const Stored *blocks) {
    char name[256];
    size_t n = folder->stored.n;
    Stored wanted = {.name = {name, blocks->name.n}};
    const Stored *pointer = &wanted;
    if (!folder->by_name) {
        folder->by_name = malloc(n * sizeof *folder->by_name);
        if (!folder->by_name)
            return builder_fail(&folder->builder, "not enough memory to index %zu tensors", n), NULL;
        for (size_t i = 0; i < n; i++) folder->by_name[i] = &folder->stored.tensors[i];
        qsort(folder->by_name, n, sizeof *folder->by_name, compare_stored);
    }
    if (blocks->name.n >= sizeof name) return NULL;
    memcpy(name, blocks->name.data, blocks->name.n);
    memcpy(name + blocks->name.n - 6, "scales", 6);
    const Stored **found = bsearch(&pointer, folder->by_name, n, sizeof *folder->by_name, compare_stored);
    return found ? *found : NULL;
}

/* How gpt-oss's experts lie in one or two tensors of GGUF. */
static bool arrange_experts(Folder *folder, const HubName *name, Rearrangement *rearrangement,
                            Tensor *tensor) {
    const Stored *stored = rearrangement->from;
    uint64_t n_parts = rearrangement->n_parts = strchr(name->gguf, ' ') ? 2 : 1;
    if (name->arrangement == ARRANGE_MXFP4) {
        const Stored *scales = rearrangement->scales = find_scales(folder, stored);
        uint64_t rows = stored->dims[2], n_blocks = stored->dims[1];
        if (!scales || !string_equals(stored->type, "U8") || !string_equals(scales->type, "U8") ||
            stored->dims[0] != 16 || scales->dims[0] != n_blocks || scales->dims[1] != rows ||
            scales->dims[2] != stored->dims[3] || scales->dims[3] != 1 || rows % n_parts != 0)
            return misshapen(folder, stored);
        *tensor = (Tensor){.own_name = tensor->own_name,
                           .dtype = DTYPE_MXFP4,
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

/*
 * How many parts CodeGen's q, v, k lie in: the number of TPUs that a size was trained on, which stands in its code alone. It
 * is 4, but 8 in CodeGen2's 1B and 3.7B, whose config.json alone has the key "head_dim".
 */
static size_t codegen_parts(const Folder *folder) { return hub_find(folder->config, "head_dim") ? 8 : 4; }

/* Whether the code of a model divides each row of its head by its length: Baichuan 2. Baichuan 1 has 64,000 tokens. */
static bool has_unit_head(const Folder *folder) {
    return strcmp(folder->family->model_type, "baichuan") == 0 &&
           (hub_find(folder->config, "z_loss_weight") ||
            hub_number(&folder->builder, ".vocab_size") >= 125696);
}

/* Whether config.json says that a StableLM's attention and MLP read the same: then one norm serves both. */
static bool is_parallel(Folder *folder) {
    return strcmp(folder->family->model_type, "stablelm") == 0 &&
           hub_bool(&folder->builder, folder->config, "use_parallel_residual", false);
}

/* A tensor that has q, k and v in its rows. */
static bool check_qkv(Folder *folder, const Rearrangement *rearrangement, const Tensor *tensor) {
    uint64_t rows[3], n_head, n_head_kv;
    attention_rows(&folder->builder, rows, &n_head, &n_head_kv);
    bool ok = n_head > 0 && n_head <= 1 << 24 && n_head_kv <= n_head && n_head % n_head_kv == 0 &&
              tensor->n_dims <= 2 &&
              rows_of(tensor) == rows[0] + 2 * rows[1] && /* 2^24 heads of 2^32 at most */
              (rearrangement->arrangement != ARRANGE_CODEGEN ||
               (rows[0] == rows[1] && rows[0] % rearrangement->n_parts == 0));
    return ok || misshapen(folder, rearrangement->from);
}

/*
 * Arranges the weights as the name says: fills in `tensor`, the first of those that come of it, whose data are written
 * later.
 */
static bool arrange(Folder *folder, const HubName *name, const Stored *stored, Tensor *tensor) {
    uint64_t rows[3], n_parts = 1;
    Rearrangement rearrangement = {.arrangement = name->arrangement, .from = stored, .n_parts = 1};
    attention_rows(&folder->builder, rows, &rearrangement.n_head, &rearrangement.n_head_kv);
    bool is_qkv = strncmp(name->gguf, "attn_q ", 7) == 0 || name->arrangement == ARRANGE_QKV;
    if (name->arrangement == ARRANGE_CODEGEN) rearrangement.n_parts = codegen_parts(folder);
    if (strcmp(name->gguf, "output") == 0 && has_unit_head(folder)) rearrangement.arrangement = ARRANGE_UNIT;
    if (strcmp(name->gguf, "ffn_norm") == 0 && is_parallel(folder))
        return builder_fail(&folder->builder,
                            "config.json: \"use_parallel_residual\" is true, but '%.*s' is there: a "
                            "layer that is parallel has no such norm",
                            string_shown(stored->name), stored->name.data);
    if (is_qkv && !check_qkv(folder, &rearrangement, tensor)) return false;
    if (name->arrangement == ARRANGE_QKV && rearrangement.n_head_kv == 1)
        rearrangement.arrangement = ARRANGE_NONE; /* its group lies as it should */
    if (name->arrangement == SPLIT_EXPERTS || name->arrangement == SPLIT_GATE_UP)
        rearrangement.arrangement = ARRANGE_NONE;
    if (rearrangement.arrangement == ARRANGE_NONE && (uintptr_t)stored->data % stored->item_bytes != 0)
        rearrangement.arrangement = ARRANGE_COPY;
    switch (rearrangement.arrangement) {
    case ARRANGE_NONE: return true;
    case ARRANGE_TRANSPOSE:
        if (tensor->n_dims < 2 || tensor->dims[3] != 1) return misshapen(folder, stored);
        tensor->dims[0] = stored->dims[1], tensor->dims[1] = stored->dims[0];
        break;
    case ARRANGE_UNIT:
        if (tensor->n_dims != 2) return misshapen(folder, stored);
        /* fall through */
    case ARRANGE_GAIN:
    case ARRANGE_DECAY:
        tensor->dtype = DTYPE_F32;
        tensor->n_bytes = stored->n_bytes / stored->item_bytes * sizeof(float);
        break;
    case ARRANGE_COLUMNS:
    case ARRANGE_MXFP4:
        if (!arrange_experts(folder, name, &rearrangement, tensor)) return false;
        n_parts = rearrangement.n_parts;
        break;
    default: break;
    }
    tensor->data = add_turning(folder, rearrangement, tensor->n_bytes * n_parts);
    return tensor->data != NULL;
}

/* The names of the arranged weights, in one tensor or several. */
static void emit_all(Folder *folder, const HubName *name, const Tensor *tensor, const Stored *stored) {
    bool is_split = name->arrangement == SPLIT_EXPERTS || name->arrangement == SPLIT_GATE_UP;
    if (is_split) {
        emit_experts(folder, *name, tensor, stored);
    } else if (name->arrangement == ARRANGE_COLUMNS || name->arrangement == ARRANGE_MXFP4) {
        Tensor part = *tensor;
        for (size_t word = 0; word < (strchr(name->gguf, ' ') ? 2 : 1); word++) {
            emit(folder, name, word, &part);
            part.data = (const unsigned char *)part.data + part.n_bytes;
        }
    } else if (strchr(name->gguf, ' ')) {
        uint64_t rows[3], n_head, n_head_kv, first = 0;
        attention_rows(&folder->builder, rows, &n_head, &n_head_kv);
        for (size_t word = 0; word < 3; first += rows[word++]) {
            Tensor part = some_rows(tensor, first, rows[word]);
            emit(folder, name, word, &part);
        }
    } else {
        emit(folder, name, 0, tensor);
    }
}

static void add_tensor(Folder *folder, const Stored *stored) {
    Builder *builder = &folder->builder;
    HubName name;
    int shown = string_shown(stored->name);
    if (!hub_name(&name, folder->family, stored->name)) {
        builder_fail(builder, "tensor '%.*s' is not known in a model of type '%s'", shown, stored->name.data,
                     folder->family->model_type);
        return;
    }
    bool is_output = !name.ignored && strcmp(name.gguf, "output") == 0 && strcmp(name.kind, "weight") == 0;
    if (name.is_beside) builder->checkpoint->n_left_out += stored->n_bytes;
    if (name.ignored || (is_output && folder->tied)) return;
    if (stored->flaw) {
        builder_fail(builder, "tensor '%.*s' %s", shown, stored->name.data, stored->flaw);
        return;
    }
    if (stored->item_bytes == 0 && name.arrangement != ARRANGE_MXFP4) {
        builder_fail(builder, "tensor '%.*s' has type %.*s, which is not read; F32, F16 and BF16 are", shown,
                     stored->name.data, string_shown(stored->type), stored->type.data);
        return;
    }
    if (stored->n_bytes == 0) {
        builder_fail(builder, "tensor '%.*s' has no weights", shown, stored->name.data);
        return;
    }
    Tensor tensor = {
        .dtype = stored->dtype, .n_dims = stored->n_dims, .data = stored->data, .n_bytes = stored->n_bytes};
    memcpy(tensor.dims, stored->dims, sizeof tensor.dims);
    char *own_name = builder_room(builder, stored->name.n);
    if (!own_name) return;
    memcpy(own_name, stored->name.data, stored->name.n);
    tensor.own_name = (String){own_name, stored->name.n};
    const String gguf = string_from(name.gguf);
    bool is_kernel = string_ends(gguf, "conv1d") || string_ends(gguf, "shortconv.conv");
    if (is_kernel && tensor.dims[1] == 1 && tensor.n_dims == 3) /* PyTorch counts the channels of a group */
        tensor.n_dims = 2, tensor.dims[1] = tensor.dims[2], tensor.dims[2] = 1;
    if (arrange(folder, &name, stored, &tensor)) emit_all(folder, &name, &tensor, stored);
}

static void turn_weights(Folder *folder) {
    const Checkpoint *checkpoint = folder->builder.checkpoint;
    uint64_t done = 0, all = checkpoint->n_turned;
    const char *what = all >= 64 * MIB ? "MiB of weights turned" : NULL;
    for (size_t i = 0; i < folder->n_turnings && folder->builder.ok; i++) {
        if (checkpoint->progress &&
            !checkpoint->progress(checkpoint->user, what, (size_t)(done / MIB), (size_t)(all / MIB)))
            builder_fail(&folder->builder, "interrupted");
        if (folder->builder.ok) rearrange(&folder->rearrangements[i]);
        done += folder->rearrangements[i].n_bytes;
    }
    if (checkpoint->progress && what)
        checkpoint->progress(checkpoint->user, what, (size_t)(all / MIB), (size_t)(all / MIB));
}

/* An output that is the embedding by another name, as PyTorch has it, is taken off; one that config.json says is apart has to be there. */
static void settle_output(Folder *folder, bool is_apart) {
    Checkpoint *checkpoint = folder->builder.checkpoint;
    const Tensor *embedding = NULL;
    Tensor *output = NULL;
    for (size_t i = 0; i < checkpoint->n_tensors; i++) {
        Tensor *tensor = &checkpoint->tensors[i];
        if (string_equals(tensor->name, "token_embd.weight")) embedding = tensor;
        if (string_equals(tensor->name, "output.weight")) output = tensor;
    }
    if (is_apart && embedding && !output)
        builder_fail(&folder->builder,
                     "config.json: \"tie_word_embeddings\" is false, but the weights have no lm_head.weight");
    if (embedding && output && embedding->data == output->data && embedding->n_bytes == output->n_bytes)
        *output = checkpoint->tensors[--checkpoint->n_tensors];
}

void folder_add_tensors(Folder *folder) {
    const Json *tie = hub_get(folder->config, "tie_embedding"); /* LFM2 */
    if (!tie) tie = hub_get(folder->config, "tie_word_embeddings");
    const bool is_said = tie && tie->kind == JSON_BOOL;
    folder->tied = is_said ? tie->boolean : folder->family->tied;
    for (size_t i = 0; i < folder->stored.n && folder->builder.ok; i++)
        add_tensor(folder, &folder->stored.tensors[i]);
    if (folder->builder.ok) settle_output(folder, is_said && !folder->tied);
    if (folder->builder.ok) turn_weights(folder);
}
