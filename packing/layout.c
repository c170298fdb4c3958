/*
 * A folder's tensors as GGUF files have them, for who writes one: rows of q and k so that RoPE turns neighbours, heads of a
 * delta net in GGUF's order, the experts of a layer in one tensor. What that takes is made when it is asked for, one tensor
 * at a time.
 */
#include "packing/layout.h"

#include "base/memory.h"
#include "checkpoint/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How a tensor's weights come about. */
struct Loading {
    const void **sources; /* [n_sources], each of source_bytes: they follow each other */
    size_t n_sources;
    uint64_t source_bytes;
    uint64_t d_head,
        n_rope;         /* of q and k, whose heads of d_head rows have pairs in the first n_rope; else 0 */
    uint64_t row_bytes; /* of q and k */
    uint64_t head_bytes, n_before, n_head, n_key_head; /* of a delta net's; n_head is 0 elsewhere */
};

/* An expert's tensor, alone. */
typedef struct Expert {
    const Tensor *tensor;
    unsigned layer, expert;
    char kind[8]; /* "gate" */
} Expert;

static bool fail(const Checkpoint *checkpoint, const char *what, Error *error) {
    return error_set(error, "%s: %s", checkpoint->path, what);
}

/* The number under ARCHITECTURE.suffix, or `otherwise`. */
static uint64_t number_of(const Checkpoint *checkpoint, const char *suffix, uint64_t otherwise) {
    String architecture = {"", 0};
    char key[128];
    checkpoint_string(checkpoint, "general.architecture", &architecture, NULL);
    snprintf(key, sizeof key, "%.*s.%s", string_shown(architecture), architecture.data, suffix);
    checkpoint_u64(checkpoint, key, &otherwise, NULL);
    return otherwise;
}

/* A loading for a tensor of n sources; NULL with an error when memory runs out. */
static struct Loading *loading_new(Checkpoint *checkpoint, size_t n, Error *error) {
    struct Loading *loading = checkpoint_own(checkpoint, sizeof *loading, error);
    const void **sources = loading ? checkpoint_own(checkpoint, n * sizeof *sources, error) : NULL;
    if (sources) *loading = (struct Loading){.sources = sources, .n_sources = n};
    return sources ? loading : NULL;
}

/* q's or k's rows, of which a folder of such a family has the first of all pairs before the second. */
static bool pair_rows(Checkpoint *checkpoint, size_t i, Error *error) {
    Tensor *tensor = &checkpoint->tensors[i];
    uint64_t n_head = number_of(checkpoint, "attention.head_count", 0),
             d_head = number_of(checkpoint, "attention.key_length",
                                n_head ? number_of(checkpoint, "embedding_length", 0) / n_head : 0),
             n_rope = number_of(checkpoint, "rope.dimension_count", d_head),
             rows = tensor->n_dims == 1 ? tensor->dims[0] : tensor->dims[1];
    if (!strstr(tensor->name.data, ".attn_q.") && !strstr(tensor->name.data, ".attn_k.")) return true;
    if (n_rope % 2 != 0 || rows % d_head != 0 || tensor->n_dims > 2) /* n_rope ≤ d_head > 0 (hub_rope) */
        return fail(checkpoint, "its rows of q and k are no whole heads", error);
    struct Loading *loading = checkpoint->loadings[i] = loading_new(checkpoint, 1, error);
    if (!loading) return false;
    loading->sources[0] = tensor->data;
    loading->source_bytes = tensor->n_bytes;
    loading->d_head = d_head, loading->n_rope = n_rope, loading->row_bytes = tensor->n_bytes / rows;
    return true;
}

/*
 * A delta net's order of value heads, behind n_before others: the folder has those of a key head side by side, GGUF the
 * first of all key heads, then the second.
 */
static bool spread_heads(Checkpoint *checkpoint, size_t i, Error *error) {
    static const struct {
        const char *name;
        bool has_keys, is_wide, is_across; /* keys go before; d_head rows a head, not one; along each row */
    } kinds[] = {
        {".attn_qkv.", true, true, false},   {".ssm_conv1d.", true, true, false},
        {".attn_gate.", false, true, false}, {".ssm_alpha.", false, false, false},
        {".ssm_beta.", false, false, false}, {".ssm_dt.", false, false, false},
        {".ssm_a", false, false, false},     {".ssm_out.", false, true, true},
    };
    Tensor *tensor = &checkpoint->tensors[i];
    const Tensor *is_state = NULL;
    size_t kind = 0, n_kinds = sizeof kinds / sizeof *kinds;
    char decay[64];
    if (strncmp(tensor->name.data, "blk.", 4) != 0) return true;
    snprintf(decay, sizeof decay, "%.*s.ssm_a", (int)(4 + strcspn(tensor->name.data + 4, ".")),
             tensor->name.data);
    is_state = checkpoint_find(checkpoint, decay);
    while (kind < n_kinds && !strstr(tensor->name.data, kinds[kind].name)) kind++;
    if (!is_state || kind == n_kinds) return true;
    uint64_t n_head = number_of(checkpoint, "ssm.time_step_rank", 0),
             d_head = number_of(checkpoint, "ssm.state_size", 0),
             n_key_head = number_of(checkpoint, "ssm.group_count", 0), rows, unit, before = 0;
    if (n_head == 0 || d_head == 0 || n_key_head == 0 || n_head % n_key_head != 0 || tensor->n_dims > 2)
        return fail(checkpoint, "its delta nets' heads cannot be counted", error);
    rows = tensor->n_dims == 1 ? tensor->dims[0] : tensor->dims[1];
    if (kinds[kind].has_keys) before = 2 * n_key_head;
    unit = kinds[kind].is_wide ? d_head : 1;
    if ((kinds[kind].is_across ? tensor->dims[0] : rows) != (before + n_head) * unit)
        return fail(checkpoint, "its delta nets have no whole heads", error);
    struct Loading *loading = checkpoint->loadings[i] = loading_new(checkpoint, 1, error);
    if (!loading) return false;
    loading->sources[0] = tensor->data;
    loading->head_bytes = unit * (tensor->n_bytes / rows);
    if (kinds[kind].is_across) loading->head_bytes = tensor->n_bytes / rows / n_head;
    loading->n_before = before, loading->n_head = n_head, loading->n_key_head = n_key_head;
    return true;
}

static int compare_experts(const void *a, const void *b) {
    const Expert *x = a, *y = b;
    int kinds = strcmp(x->kind, y->kind);
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    return kinds ? kinds : (x->expert > y->expert) - (x->expert < y->expert);
}

/* Puts the tensor of n experts of one kind and layer behind the others. */
static bool merge(Checkpoint *checkpoint, const Expert *experts, size_t n, Error *error) {
    const Tensor *first = experts->tensor;
    char *name = checkpoint_own(checkpoint, 64, error);
    struct Loading *loading = name ? loading_new(checkpoint, n, error) : NULL;
    if (!loading) return false;
    Tensor whole = *first;
    loading->source_bytes = first->n_bytes;
    for (size_t i = 0; i < n; i++) {
        const Tensor *one = experts[i].tensor;
        loading->sources[i] = one->data;
        if (experts[i].expert != i || one->dtype != first->dtype || one->n_dims > 2 ||
            memcmp(one->dims, first->dims, sizeof one->dims) != 0)
            return fail(checkpoint, "the experts of a layer are not all there, or not alike", error);
    }
    snprintf(name, 64, "blk.%u.ffn_%s_exps.weight", experts->layer, experts->kind);
    whole.name = string_from(name);
    whole.n_dims = 3, whole.dims[2] = n, whole.data = NULL;
    if (!multiply(whole.n_bytes, n, &whole.n_bytes))
        return fail(checkpoint, "its experts are too large", error);
    checkpoint->loadings[checkpoint->n_tensors] = loading;
    checkpoint->tensors[checkpoint->n_tensors++] = whole;
    return true;
}

/* Gathers experts that are alone; the other tensors stay in their order, in a new array. */
static bool merge_experts(Checkpoint *checkpoint, Error *error) {
    size_t n = checkpoint->n_tensors, n_experts = 0;
    Tensor *old = checkpoint->tensors;
    Expert *experts = malloc((n + 1) * sizeof *experts);
    Tensor *tensors = malloc((n + 1) * sizeof *tensors);
    struct Loading **loadings = calloc(n + 1, sizeof *loadings);
    if (!experts || !tensors || !loadings) {
        free(experts);
        free(tensors);
        free(loadings);
        return fail(checkpoint, "not enough memory to index its tensors", error);
    }
    checkpoint->tensors = tensors, checkpoint->n_tensors = 0;
    checkpoint->loadings = loadings;
    for (size_t i = 0; i < n; i++) {
        Expert *expert = &experts[n_experts];
        char end[8] = "";
        if (sscanf(old[i].name.data, "blk.%u.ffn_%7[a-z].%u.%7s", &expert->layer, expert->kind,
                   &expert->expert, end) == 4 &&
            strcmp(end, "weight") == 0)
            expert->tensor = &old[i], n_experts++;
        else
            tensors[checkpoint->n_tensors++] = old[i];
    }
    qsort(experts, n_experts, sizeof *experts, compare_experts);
    bool ok = true;
    for (size_t i = 0, end; ok && i < n_experts; i = end) {
        for (end = i + 1; end < n_experts && experts[end].layer == experts[i].layer &&
                          strcmp(experts[end].kind, experts[i].kind) == 0;)
            end++;
        ok = merge(checkpoint, experts + i, end - i, error);
    }
    free(experts);
    free(old);
    return ok;
}

bool checkpoint_lay_out(Checkpoint *checkpoint, Error *error) {
    String pairing = {"", 0}, heads = {"", 0};
    size_t n = 0;
    if (strncmp(checkpoint->format, "GGUF", 4) == 0) return true;
    checkpoint_string(checkpoint, "attn.rope.pairing", &pairing, NULL);
    checkpoint_string(checkpoint, "attn.delta_heads", &heads, NULL);
    bool grouped = string_equals(heads, "grouped");
    bool halves = string_equals(pairing, "halves"), ok = merge_experts(checkpoint, error);
    for (size_t i = 0; i < checkpoint->n_entries; i++)
        if (memcmp(checkpoint->entries[i].key.data, "attn.", 5) != 0 || /* all keys of folders are longer */
            string_equals(checkpoint->entries[i].key, "attn.eos_token_ids"))
            checkpoint->entries[n++] = checkpoint->entries[i];
    checkpoint->n_entries = n;
    ok = ok && checkpoint_index(checkpoint, error);
    for (size_t i = 0; ok && i < checkpoint->n_tensors; i++) {
        if (halves) ok = pair_rows(checkpoint, i, error);
        if (ok && grouped) ok = spread_heads(checkpoint, i, error);
    }
    return ok;
}

/* Row `row` of all heads, as GGUF has them: where the folder has it. */
static uint64_t paired_row(const struct Loading *loading, uint64_t row) {
    uint64_t i = row % loading->d_head;
    return i >= loading->n_rope ? row : row - i + i % 2 * (loading->n_rope / 2) + i / 2;
}

/* The place of head `i` of all, as GGUF orders them, in the folder's order. */
static uint64_t grouped_head(const struct Loading *loading, uint64_t i) {
    if (i < loading->n_before) return i;
    uint64_t head = (i - loading->n_before) % loading->n_head, times = loading->n_head / loading->n_key_head;
    return i - head + head % loading->n_key_head * times + head / loading->n_key_head;
}

const void *checkpoint_weights(Checkpoint *checkpoint, size_t i, Error *error) {
    const Tensor *tensor = &checkpoint->tensors[i];
    const struct Loading *loading = checkpoint->loadings ? checkpoint->loadings[i] : NULL;
    if (!loading) return tensor->data;
    free(checkpoint->loaded);
    unsigned char *to = checkpoint->loaded = bytes_new((size_t)tensor->n_bytes);
    if (!to) fail(checkpoint, "not enough memory for the weights of a tensor", error);
    for (size_t k = 0; to && !loading->d_head && !loading->n_head && k < loading->n_sources; k++)
        memcpy(to + k * loading->source_bytes, loading->sources[k], (size_t)loading->source_bytes);
    for (uint64_t row = 0; to && loading->d_head && row < tensor->n_bytes / loading->row_bytes; row++)
        memcpy(to + row * loading->row_bytes,
               (const unsigned char *)loading->sources[0] + paired_row(loading, row) * loading->row_bytes,
               (size_t)loading->row_bytes);
    for (uint64_t head = 0; to && loading->n_head && head < tensor->n_bytes / loading->head_bytes; head++)
        memcpy(to + head * loading->head_bytes,
               (const unsigned char *)loading->sources[0] + grouped_head(loading, head) * loading->head_bytes,
               (size_t)loading->head_bytes);
    return to;
}

bool checkpoint_add(Checkpoint *checkpoint, const Value *value, Error *error) {
    size_t i = 0, n = checkpoint->n_entries, n_key = value->key.n;
    char *key = checkpoint_own(checkpoint, n_key, error);
    unsigned char *data = key ? checkpoint_own(checkpoint, value->n_bytes + STRING_PADDING, error) : NULL;
    Entry *entries = data ? realloc(checkpoint->entries, (n + 1) * sizeof *entries) : NULL;
    if (!entries) return fail(checkpoint, "not enough memory for its metadata", error);
    checkpoint->entries = entries;
    memcpy(key, value->key.data, n_key);
    memcpy(data, value->data, value->n_bytes);
    while (i < n && string_compare(entries[i].key, value->key) != 0) i++;
    entries[i] = (Entry){.key = {key, n_key},
                         .type = (ValueType)value->type,
                         .element = (ValueType)value->element,
                         .n = value->n,
                         .n_bytes = value->n_bytes,
                         .data = data};
    checkpoint->n_entries += i == n;
    return checkpoint_index(checkpoint, error);
}
