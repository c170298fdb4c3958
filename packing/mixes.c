#include "packing/mixes.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* Presets with rules, as a set. */
enum {
    Q8_0 = 1 << 0,
    Q6_K = 1 << 1,
    Q5_K_M = 1 << 2,
    Q5_K_S = 1 << 3,
    Q5_1 = 1 << 4,
    Q5_0 = 1 << 5,
    Q4_K_M = 1 << 6,
    Q4_K_S = 1 << 7,
    Q4_1 = 1 << 8,
    Q4_0 = 1 << 9,
    IQ4_NL = 1 << 10,
    IQ4_XS = 1 << 11,
    MXFP4 = 1 << 12,
    MXFP4_MOE = 1 << 13,
    Q3_K_L = 1 << 14,
    Q3_K_M = 1 << 15,
    Q3_K_S = 1 << 16,
    Q2_K = 1 << 17,
    ANY = (1 << 18) - 1,
};

/* MXFP4 is not llama-quantize's, which has that type for experts alone (MXFP4_MOE). */
static const Preset presets[] = {
    {"F32", 0, DTYPE_F32, 0},
    {"F16", 1, DTYPE_F16, 0},
    {"BF16", 32, DTYPE_BF16, 0},
    {"Q8_0", 7, DTYPE_Q8_0, Q8_0},
    {"Q6_K", 18, DTYPE_Q6_K, Q6_K},
    {"Q5_K_M", 17, DTYPE_Q5_K, Q5_K_M},
    {"Q5_K_S", 16, DTYPE_Q5_K, Q5_K_S},
    {"Q5_1", 9, DTYPE_Q5_1, Q5_1},
    {"Q5_0", 8, DTYPE_Q5_0, Q5_0},
    {"Q4_K_M", 15, DTYPE_Q4_K, Q4_K_M},
    {"Q4_K_S", 14, DTYPE_Q4_K, Q4_K_S},
    {"Q4_1", 3, DTYPE_Q4_1, Q4_1},
    {"Q4_0", 2, DTYPE_Q4_0, Q4_0},
    {"IQ4_NL", 25, DTYPE_IQ4_NL, IQ4_NL},
    {"IQ4_XS", 30, DTYPE_IQ4_XS, IQ4_XS},
    {"MXFP4", 38, DTYPE_MXFP4, MXFP4},
    {"MXFP4_MOE", 38, DTYPE_MXFP4, MXFP4_MOE},
    {"Q3_K_L", 13, DTYPE_Q3_K, Q3_K_L},
    {"Q3_K_M", 12, DTYPE_Q3_K, Q3_K_M},
    {"Q3_K_S", 11, DTYPE_Q3_K, Q3_K_S},
    {"Q2_K", 10, DTYPE_Q2_K, Q2_K},
};

const size_t n_presets = sizeof presets / sizeof *presets;

const Preset *preset_at(size_t i) { return &presets[i]; }

const Preset *preset_find(const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; i < n_presets; i++) {
        const char *known = presets[i].name;
        if (strcasecmp(name, known) == 0 ||
            (strncasecmp(name, known, n) == 0 && strcmp(known + n, "_M") == 0))
            return &presets[i]; /* Q4_K is short for Q4_K_M */
    }
    return NULL;
}

typedef enum Role { OTHER, EMBEDDING, OUTPUT, ATTN_V, ATTN_K, ATTN_OUTPUT, FFN_DOWN, N_ROLES } Role;

/* The tensors of a role that a rule is for, in the order of layers. */
typedef enum Where {
    EVERYWHERE,
    FIRST_TWO,
    FIRST_FOUR,
    FIRST_16TH,
    FIRST_8TH,
    MORE_BITS,     /* the first and the last eighth, and every third between them */
    EXPERTS,       /* those of several matrices */
    EIGHT_EXPERTS, /* all, of a mixture of eight */
    GROUPS_OF_4,   /* all, where four queries or more share a key */
    LARGE,         /* all, of a model of 70 billion */
} Where;

typedef struct Rule {
    unsigned presets;
    Role role; /* N_ROLES: any */
    Where where;
    DType dtype;
    bool falcon; /* for this family alone */
} Rule;

/* The first rule that fits holds; without one a tensor gets the preset's own type. */
static const Rule rules[] = {
    {MXFP4, EMBEDDING, EVERYWHERE, DTYPE_Q8_0},
    {MXFP4, OUTPUT, EVERYWHERE, DTYPE_Q8_0},
    {MXFP4_MOE, N_ROLES, EXPERTS, DTYPE_MXFP4},
    {MXFP4_MOE, N_ROLES, EVERYWHERE, DTYPE_Q8_0},

    {ANY, OUTPUT, EVERYWHERE, DTYPE_Q8_0, .falcon = true},
    {Q3_K_L, ATTN_OUTPUT, EVERYWHERE, DTYPE_Q4_K, .falcon = true},
    {Q3_K_M, ATTN_OUTPUT, EVERYWHERE, DTYPE_Q3_K, .falcon = true},
    {Q2_K, ATTN_OUTPUT, EVERYWHERE, DTYPE_Q2_K, .falcon = true},
    {Q4_K_M, FFN_DOWN, FIRST_16TH, DTYPE_Q6_K, .falcon = true},
    {Q4_K_M, FFN_DOWN, MORE_BITS, DTYPE_Q5_K, .falcon = true},
    {Q4_K_M | Q4_K_S | Q3_K_L, FFN_DOWN, EVERYWHERE, DTYPE_Q4_K, .falcon = true},
    {Q3_K_M, FFN_DOWN, FIRST_16TH, DTYPE_Q5_K, .falcon = true},
    {Q3_K_M, FFN_DOWN, MORE_BITS, DTYPE_Q4_K, .falcon = true},
    {Q3_K_M, FFN_DOWN, EVERYWHERE, DTYPE_Q3_K, .falcon = true},

    {ANY & ~(unsigned)Q8_0, OUTPUT, EVERYWHERE, DTYPE_Q6_K},

    {ANY, ATTN_V, EIGHT_EXPERTS, DTYPE_Q8_0},
    {Q5_K_M | Q4_K_M, ATTN_V, MORE_BITS, DTYPE_Q6_K},
    {Q4_K_M | Q4_K_S | Q3_K_M | Q3_K_S | Q2_K, ATTN_V, LARGE, DTYPE_Q5_K},
    {Q4_K_S, ATTN_V, FIRST_FOUR, DTYPE_Q5_K},
    {IQ4_NL | IQ4_XS, ATTN_V, GROUPS_OF_4, DTYPE_Q5_K},
    {Q3_K_L, ATTN_V, EVERYWHERE, DTYPE_Q5_K},
    {Q3_K_M, ATTN_V, FIRST_TWO, DTYPE_Q5_K},
    {Q3_K_M, ATTN_V, EVERYWHERE, DTYPE_Q4_K},
    {Q2_K, ATTN_V, GROUPS_OF_4, DTYPE_Q4_K},
    {Q2_K, ATTN_V, EVERYWHERE, DTYPE_Q3_K},

    {ANY, ATTN_K, EIGHT_EXPERTS, DTYPE_Q8_0},

    {Q4_K_M | Q4_K_S | IQ4_NL | IQ4_XS | Q3_K_M | Q3_K_S | Q2_K, ATTN_OUTPUT, EIGHT_EXPERTS, DTYPE_Q5_K},
    {Q3_K_L, ATTN_OUTPUT, EIGHT_EXPERTS, DTYPE_Q3_K},
    {Q3_K_L, ATTN_OUTPUT, EVERYWHERE, DTYPE_Q5_K},
    {Q3_K_M, ATTN_OUTPUT, EVERYWHERE, DTYPE_Q4_K},
    {Q2_K, ATTN_OUTPUT, EVERYWHERE, DTYPE_Q3_K},

    {Q5_K_M | Q4_K_M, FFN_DOWN, MORE_BITS, DTYPE_Q6_K},
    {Q4_K_S | IQ4_NL | IQ4_XS, FFN_DOWN, FIRST_8TH, DTYPE_Q5_K},
    {Q3_K_L, FFN_DOWN, EVERYWHERE, DTYPE_Q5_K},
    {Q3_K_M, FFN_DOWN, FIRST_16TH, DTYPE_Q5_K},
    {Q3_K_M, FFN_DOWN, EVERYWHERE, DTYPE_Q4_K},
    {Q2_K, FFN_DOWN, EVERYWHERE, DTYPE_Q3_K},
};

/*
 * The type that takes a type's place where a row is no whole number of its blocks; where it is none of these either,
 * F16 does.
 */
static const DType fallbacks[DTYPE_LIMIT] = {
    [DTYPE_Q6_K] = DTYPE_Q8_0, [DTYPE_Q5_K] = DTYPE_Q5_1, [DTYPE_Q4_K] = DTYPE_Q5_0,
    [DTYPE_Q3_K] = DTYPE_Q4_0, [DTYPE_Q2_K] = DTYPE_Q4_0, [DTYPE_IQ4_XS] = DTYPE_IQ4_NL,
};

/* Matrices whose names have one of these in them keep their type, and so does what does not end in "weight". */
static const char *const kept[] = {
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "position_embd.weight",
    "token_types.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "attn_rel_b.weight",
};

/* Norms and the kernels of convolutions, which are vectors to ggml, whatever their rank. */
static const char *const vectors[] = {"_norm.weight", "ssm_conv1d", "shortconv.conv.weight"};

static const struct {
    const char *part; /* of a name */
    Role role;
} roles[] = {
    {"attn_qkv.weight", ATTN_V}, {"attn_kv_b.weight", ATTN_V},        {"attn_v.weight", ATTN_V},
    {"attn_k.weight", ATTN_K},   {"attn_output.weight", ATTN_OUTPUT}, {"ffn_down", FFN_DOWN},
};

static bool contains(String name, const char *part) {
    size_t n = strlen(part);
    for (size_t i = 0; i + n <= name.n; i++)
        if (memcmp(name.data + i, part, n) == 0) return true;
    return false;
}

static Role role_of(String name) {
    if (string_equals(name, "output.weight")) return OUTPUT;
    if (string_equals(name, "token_embd.weight") || string_equals(name, "per_layer_token_embd.weight"))
        return EMBEDDING;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (contains(name, roles[i].part)) return roles[i].role;
    return OTHER;
}

static bool is_any_of(const char *const *parts, size_t n, const Tensor *tensor) {
    for (size_t i = 0; i < n; i++)
        if (contains(tensor->name, parts[i])) return true;
    return false;
}

/* Whether ggml has it in F32 alone: vectors, biases (those of experts, too, which are matrices), norms. */
static bool is_vector(const Tensor *tensor) {
    bool is_matrix = tensor->dims[1] > 1 || tensor->dims[2] > 1 || tensor->dims[3] > 1;
    return !is_matrix || !string_ends(tensor->name, "weight") ||
           is_any_of(vectors, sizeof vectors / sizeof *vectors, tensor);
}

/* The facts of a model that the rules ask for, and how many tensors of a role they have met. */
typedef struct Mix {
    const MixOptions *options;
    bool tied; /* the embedding is the output matrix */
    bool large, groups_of_4, falcon;
    uint64_t n_layer, n_expert, n_v;
    uint64_t met[N_ROLES];
} Mix;

/* ARCHITECTURE.suffix; of an array, its first number. *value stays where there is none. */
static bool read_number(const Checkpoint *checkpoint, String architecture, const char *suffix,
                        uint64_t *value, Error *error) {
    char key[160];
    NumberArray numbers;
    snprintf(key, sizeof key, "%.*s.%s", string_shown(architecture), architecture.data, suffix);
    if (checkpoint_i32s(checkpoint, key, &numbers, NULL) && numbers.n > 0) {
        if (i32_at(&numbers, 0) >= 0) *value = (uint64_t)i32_at(&numbers, 0);
        return true;
    }
    return checkpoint_u64(checkpoint, key, value, error);
}

static bool is_large(String architecture, uint64_t n_layer, bool groups) {
    if (string_equals(architecture, "jais2")) return n_layer == 68;
    return n_layer == 80 &&
           ((string_equals(architecture, "llama") && groups) || string_equals(architecture, "qwen2") ||
            string_equals(architecture, "olmo") || string_equals(architecture, "deci"));
}

static bool mix_begin(Mix *mix, const Checkpoint *checkpoint, const MixOptions *options, Error *error) {
    String architecture = {"", 0};
    uint64_t n_head = 0, n_head_kv;
    *mix = (Mix){.options = options, .tied = !checkpoint_find(checkpoint, "output.weight")};
    if (!checkpoint_string(checkpoint, "general.architecture", &architecture, error) ||
        !read_number(checkpoint, architecture, "block_count", &mix->n_layer, error) ||
        !read_number(checkpoint, architecture, "expert_count", &mix->n_expert, error) ||
        !read_number(checkpoint, architecture, "attention.head_count", &n_head, error))
        return false;
    n_head_kv = n_head;
    if (!read_number(checkpoint, architecture, "attention.head_count_kv", &n_head_kv, error)) return false;
    mix->groups_of_4 = n_head_kv > 0 && n_head / n_head_kv >= 4;
    mix->falcon = string_equals(architecture, "falcon");
    mix->large = is_large(architecture, mix->n_layer, n_head != n_head_kv);
    for (size_t i = 0; i < checkpoint_n_tensors(checkpoint); i++)
        mix->n_v += role_of(checkpoint_tensor(checkpoint, i)->name) == ATTN_V;
    return true;
}

/* The number behind "blk."; −1 for what is in no layer. */
static int64_t layer_of(String name) {
    int64_t layer = 0;
    size_t i = 4;
    if (!string_begins(name, "blk.")) return -1;
    for (; i < name.n && name.data[i] >= '0' && name.data[i] <= '9' && i < 13; i++)
        layer = 10 * layer + (name.data[i] - '0');
    return i > 4 ? layer : -1;
}

static bool fits(const Mix *mix, const Rule *rule, const Tensor *tensor, uint64_t i) {
    const uint64_t n = rule->role == ATTN_V ? mix->n_v : mix->n_layer;
    if (rule->falcon && !mix->falcon) return false;
    switch (rule->where) {
    case EVERYWHERE: return true;
    case FIRST_TWO: return i < 2;
    case FIRST_FOUR: return i < 4;
    case FIRST_16TH: return i < n / 16;
    case FIRST_8TH: return i < n / 8;
    case MORE_BITS: return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
    case EXPERTS: return tensor->dims[2] > 1;
    case EIGHT_EXPERTS: return mix->n_expert == 8;
    case GROUPS_OF_4: return mix->groups_of_4;
    case LARGE: return mix->large;
    }
    return false;
}

/* By the rules. Experts are scattered over a file, so with them the name tells the layer. */
static DType ruled_type(Mix *mix, const Tensor *tensor, Role role) {
    const Preset *preset = mix->options->preset;
    uint64_t i = mix->met[role]++;
    int64_t layer = layer_of(tensor->name);
    if (role == FFN_DOWN && mix->n_expert > 1 && layer >= 0) i = (uint64_t)layer;
    for (const Rule *rule = rules; rule < rules + sizeof rules / sizeof *rules; rule++)
        if ((rule->presets & preset->rules) && (rule->role == role || rule->role == N_ROLES) &&
            fits(mix, rule, tensor, i))
            return rule->dtype;
    return preset->dtype;
}

static DType wanted_type(Mix *mix, const Tensor *tensor) {
    const MixOptions *options = mix->options;
    Role role = role_of(tensor->name);
    bool is_half = tensor->dtype == DTYPE_F16 || tensor->dtype == DTYPE_BF16;
    if (is_vector(tensor)) return is_half ? DTYPE_F32 : tensor->dtype;
    const bool is_output =
        role == OUTPUT || (role == EMBEDDING && mix->tied && options->embedding == NO_DTYPE);
    if (is_any_of(kept, sizeof kept / sizeof *kept, tensor) || (is_output && options->keep_output))
        return tensor->dtype;
    if (role == EMBEDDING && options->embedding != NO_DTYPE) return (DType)options->embedding;
    if (role == OUTPUT && options->output != NO_DTYPE) return (DType)options->output;
    if (options->pure || !dtype_is_quantised(options->preset->dtype)) return options->preset->dtype;
    if (role == EMBEDDING && mix->tied) role = OUTPUT;
    if (role == OUTPUT && options->output != NO_DTYPE) return (DType)options->output;
    return ruled_type(mix, tensor, role);
}

/* The type, or what takes its place in rows that its blocks do not divide. */
static DType fitting_type(DType wanted, uint64_t cols) {
    const DType next = fallbacks[wanted];
    if (cols % dtype_info(wanted)->block == 0) return wanted;
    return next && cols % dtype_info(next)->block == 0 ? next : DTYPE_F16;
}

/* In the order of layers, and of names within one. */
static int compare_tensors(const void *a, const void *b) {
    const Tensor *x = *(const Tensor *const *)a, *y = *(const Tensor *const *)b;
    int64_t of_x = layer_of(x->name), of_y = layer_of(y->name);
    return of_x != of_y ? (of_x > of_y) - (of_x < of_y) : string_compare(x->name, y->name);
}

bool choose_types(const Checkpoint *checkpoint, const MixOptions *options, DType *types, size_t *n_fallbacks,
                  Error *error) {
    const size_t n = checkpoint_n_tensors(checkpoint);
    Mix mix;
    *n_fallbacks = 0;
    if (!mix_begin(&mix, checkpoint, options, error)) return false;
    if (n == 0)
        return error_set(error, "%s: the file has no tensors: there is nothing to quantise",
                         checkpoint_path(checkpoint));
    const Tensor **sorted = malloc(n * sizeof *sorted);
    if (!sorted) return error_set(error, "%s: not enough memory", checkpoint_path(checkpoint));
    for (size_t i = 0; i < n; i++) sorted[i] = checkpoint_tensor(checkpoint, i);
    qsort(sorted, n, sizeof *sorted, compare_tensors);
    for (size_t i = 0; i < n; i++) {
        const Tensor *tensor = sorted[i];
        DType wanted = wanted_type(&mix, tensor);
        DType type = wanted == tensor->dtype ? wanted : fitting_type(wanted, tensor->dims[0]);
        *n_fallbacks += type != wanted;
        types[tensor - checkpoint_tensor(checkpoint, 0)] = type;
    }
    free(sorted);
    return true;
}
