/*
 * Every tensor gets the type that llama-quantize gives it: tests/data/mixes.txt, made by scripts/expect/mixes.py, has that for
 * models of several shapes. Here they are made again, their layers the other way round, and choose_types is asked.
 */
#define _GNU_SOURCE /* memmem */
#include "gguf.h"
#include "open.h"
#include "packing/mixes.h"

enum { MAX_TENSORS = 1200, MAX_KINDS = 10, LINE = 4096 };

/* "model llama layers 22 cols 256 down 352 heads 8 2 experts 0 tied 0" */
typedef struct Shape {
    char family[16];
    unsigned n_layer, cols, down, n_head, n_head_kv, n_expert, tied;
    const char *kinds[MAX_KINDS]; /* [n_kinds] of matrices; the first n_outside are in no layer */
    size_t n_kinds, n_outside;
} Shape;

static bool parse_shape(Shape *shape, const char *line) {
    static const char *const gpt2[] = {"attn_qkv", "attn_output", "ffn_up", "ffn_down"},
                             *const dense[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                               "ffn_gate", "ffn_up", "ffn_down"},
                             *const experts[] = {"attn_q",       "attn_k",        "attn_v",
                                                 "attn_output",  "ffn_gate_exps", "ffn_up_exps",
                                                 "ffn_down_exps"};
    *shape = (Shape){.kinds = {"token_embd"}, .n_kinds = 1};
    if (sscanf(line, "model %15s layers %u cols %u down %u heads %u %u experts %u tied %u", shape->family,
               &shape->n_layer, &shape->cols, &shape->down, &shape->n_head, &shape->n_head_kv,
               &shape->n_expert, &shape->tied) != 8)
        return false;
    if (!shape->tied) shape->kinds[shape->n_kinds++] = "output";
    shape->n_outside = shape->n_kinds;
    bool is_gpt2 = strcmp(shape->family, "gpt2") == 0;
    const char *const *inside = is_gpt2 ? gpt2 : shape->n_expert ? experts : dense;
    for (size_t i = 0; i < (is_gpt2 ? 4u : 7u); i++) shape->kinds[shape->n_kinds++] = inside[i];
    return true;
}

/* A file under construction: the infos of its tensors, whose data are zeros. */
typedef struct Infos {
    unsigned char bytes[MAX_TENSORS * 100], *at;
    size_t n;
    uint64_t offset;
} Infos;

static void add_tensor(Infos *infos, const char *name, uint64_t cols, uint64_t rows, uint64_t n_matrices) {
    infos->at = gguf_u32_at(gguf_string_at(infos->at, name), rows == 0 ? 1 : n_matrices ? 3 : 2);
    infos->at = gguf_u64_at(infos->at, cols);
    if (rows) infos->at = gguf_u64_at(infos->at, rows);
    if (n_matrices) infos->at = gguf_u64_at(infos->at, n_matrices);
    infos->at = gguf_u64_at(gguf_u32_at(infos->at, T_F32), infos->offset);
    infos->offset +=
        gguf_round_up((size_t)(4 * cols * (rows ? rows : 1) * (n_matrices ? n_matrices : 1)), 32);
    infos->n++;
}

static Checkpoint *open_shape(const Shape *shape) {
    static Infos infos;
    static unsigned char file[sizeof infos.bytes + 4096];
    static Gguf gguf;
    char keys[6][64], name[64];
    static const char *const suffixes[] = {"block_count", "attention.head_count", "attention.head_count_kv",
                                           "expert_count"};
    const uint32_t values[] = {shape->n_layer, shape->n_head, shape->n_head_kv, shape->n_expert};
    infos.at = infos.bytes, infos.n = 0, infos.offset = 0;
    for (unsigned layer = shape->n_layer; layer-- > 0;) {
        for (size_t i = shape->n_kinds; i-- > shape->n_outside;) {
            const char *kind = shape->kinds[i];
            snprintf(name, sizeof name, "blk.%u.%s.weight", layer, kind);
            add_tensor(&infos, name, strncmp(kind, "ffn_down", 8) == 0 ? shape->down : shape->cols, 2,
                       strstr(kind, "_exps") ? shape->n_expert : 0);
        }
        snprintf(name, sizeof name, "blk.%u.ffn_norm.weight", layer);
        add_tensor(&infos, name, shape->cols, 0, 0);
        snprintf(name, sizeof name, "blk.%u.ffn_gate_inp.weight", layer);
        if (shape->n_expert) add_tensor(&infos, name, shape->cols, shape->n_expert, 0);
    }
    for (size_t i = 0; i < shape->n_outside; i++) {
        snprintf(name, sizeof name, "%s.weight", shape->kinds[i]);
        add_tensor(&infos, name, shape->cols, 2, 0);
    }
    gguf = gguf_begin(3);
    gguf_string(&gguf, "general.architecture", shape->family);
    for (size_t i = 0; i < 4; i++) {
        snprintf(keys[i], sizeof keys[i], "%s.%s", shape->family, suffixes[i]);
        gguf_u32(&gguf, keys[i], values[i]);
    }
    size_t n = gguf_write(&gguf, file);
    gguf_u64_at(file + 8, infos.n); /* behind magic and version */
    memcpy(file + n, infos.bytes, (size_t)(infos.at - infos.bytes));
    n = gguf_round_up(n + (size_t)(infos.at - infos.bytes), 32);
    scratch_write(file, n);
    if (truncate(scratch_path(), (off_t)(n + infos.offset)) != 0) exit(1);
    Error error;
    Checkpoint *checkpoint = checkpoint_open(scratch_path(), &error);
    CHECK(checkpoint, "%s", error.message);
    return checkpoint;
}

static const char *type_of(const Checkpoint *checkpoint, const DType *types, const char *name) {
    const Tensor *tensor = checkpoint_find(checkpoint, name);
    return tensor ? dtype_info(types[tensor - checkpoint_tensor(checkpoint, 0)])->name : "none";
}

/* " Q6_K*2 Q4_K": the types of a kind in the order of layers. */
static void print_runs(char runs[LINE], const Checkpoint *checkpoint, const DType *types, const Shape *shape,
                       size_t kind) {
    const char *before = NULL;
    unsigned n = kind < shape->n_outside ? 1 : shape->n_layer, run = 0;
    size_t used = 0;
    for (unsigned layer = 0; layer <= n; layer++) {
        char name[64];
        const char *type = NULL;
        if (kind < shape->n_outside)
            snprintf(name, sizeof name, "%s.weight", shape->kinds[kind]);
        else
            snprintf(name, sizeof name, "blk.%u.%s.weight", layer, shape->kinds[kind]);
        if (layer < n) type = type_of(checkpoint, types, name);
        if (before && (!type || strcmp(type, before) != 0)) {
            used += (size_t)sprintf(runs + used, run > 1 ? " %s*%u" : " %s", before, run);
            run = 0;
        }
        before = type;
        run++;
    }
}

/* As the file has it: kinds of the same types together. */
static void print_types(char *line, const Checkpoint *checkpoint, const DType *types, const Shape *shape,
                        const char *preset) {
    static char runs[MAX_KINDS][LINE];
    bool shown[MAX_KINDS] = {false};
    line += sprintf(line, "%s:", preset);
    for (size_t i = 0; i < shape->n_kinds; i++) print_runs(runs[i], checkpoint, types, shape, i);
    for (size_t i = 0; i < shape->n_kinds; i++) {
        if (shown[i]) continue;
        line += sprintf(line, "%s%s", i ? "; " : " ", shape->kinds[i]);
        for (size_t k = i + 1; k < shape->n_kinds; k++)
            if (strcmp(runs[i], runs[k]) == 0) shown[k] = true, line += sprintf(line, ",%s", shape->kinds[k]);
        line += sprintf(line, "%s", runs[i]);
    }
}

static void check_preset(const Checkpoint *checkpoint, const Shape *shape, const char *expected) {
    static DType types[MAX_TENSORS];
    static char got[MAX_KINDS * LINE];
    char name[32];
    Error error;
    MixOptions options = {.output = NO_DTYPE, .embedding = NO_DTYPE};
    size_t n_fallbacks;
    sscanf(expected, "%31[^:]", name);
    options.preset = preset_find(name);
    CHECK(options.preset, "no preset %s", name);
    if (!options.preset || !choose_types(checkpoint, &options, types, &n_fallbacks, &error)) return;
    print_types(got, checkpoint, types, shape, name);
    CHECK(strcmp(got, expected) == 0, "%s of %u layers, %u and %u columns\n  should be %s\n  but is    %s",
          shape->family, shape->n_layer, shape->cols, shape->down, expected, got);
    for (size_t i = 0; i < checkpoint_n_tensors(checkpoint); i++) {
        const Tensor *tensor = checkpoint_tensor(checkpoint, i);
        bool kept = tensor->n_dims == 1 || memmem(tensor->name.data, tensor->name.n, "gate_inp", 8);
        if (kept) CHECK(types[i] == DTYPE_F32, "%.*s changes", string_shown(tensor->name), tensor->name.data);
    }
}

static void test_presets(void) {
    FILE *file = fopen("tests/data/mixes.txt", "r");
    static char line[LINE * 4];
    Shape shape = {.n_kinds = 0};
    Checkpoint *checkpoint = NULL;
    size_t n = 0;
    CHECK(file, "cannot read tests/data/mixes.txt");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#') continue;
        if (strncmp(line, "model ", 6) == 0) {
            CHECK(parse_shape(&shape, line), "%s", line);
            checkpoint_close(checkpoint);
            checkpoint = open_shape(&shape);
        } else if (checkpoint) {
            check_preset(checkpoint, &shape, line);
            n++;
        }
    }
    CHECK(n == 216, "%zu presets", n);
    checkpoint_close(checkpoint);
    if (file) fclose(file);
}

/* Options, on a small Llama whose rows are 288 wide. */
static void test_options(void) {
    Shape shape;
    DType types[32];
    size_t n_fallbacks;
    Error error;
    parse_shape(&shape, "model llama layers 2 cols 288 down 256 heads 4 4 experts 0 tied 0");
    Checkpoint *checkpoint = open_shape(&shape);
    const struct {
        MixOptions options;
        const char *output, *embedding, *q, *down;
        size_t n_fallbacks;
    } cases[] = {
        {{.output = NO_DTYPE, .embedding = NO_DTYPE}, "Q8_0", "Q5_0", "Q5_0", "Q4_K", 14},
        {{.output = DTYPE_F16, .embedding = DTYPE_Q8_0}, "F16", "Q8_0", "Q5_0", "Q4_K", 12},
        {{.output = DTYPE_Q6_K, .embedding = DTYPE_Q2_K}, "Q8_0", "Q4_0", "Q5_0", "Q4_K", 14},
        {{.output = NO_DTYPE, .embedding = NO_DTYPE, .keep_output = true}, "F32", "Q5_0", "Q5_0", "Q4_K", 13},
        {{.output = NO_DTYPE, .embedding = NO_DTYPE, .pure = true}, "Q5_0", "Q5_0", "Q5_0", "Q4_K", 14},
    };
    for (size_t i = 0; checkpoint && i < sizeof cases / sizeof *cases; i++) {
        MixOptions options = cases[i].options;
        options.preset = preset_find("q4_k");
        CHECK(choose_types(checkpoint, &options, types, &n_fallbacks, &error), "%s", error.message);
        const char *output = type_of(checkpoint, types, "output.weight"),
                   *embedding = type_of(checkpoint, types, "token_embd.weight"),
                   *q = type_of(checkpoint, types, "blk.0.attn_q.weight"),
                   *down = type_of(checkpoint, types, "blk.0.ffn_down.weight");
        CHECK(strcmp(output, cases[i].output) == 0 && strcmp(embedding, cases[i].embedding) == 0 &&
                  strcmp(q, cases[i].q) == 0 && strcmp(down, cases[i].down) == 0,
              "case %zu: %s %s %s %s", i, output, embedding, q, down);
        CHECK(n_fallbacks == cases[i].n_fallbacks, "case %zu: %zu fallbacks", i, n_fallbacks);
    }
    checkpoint_close(checkpoint);
}

/* Numbers that differ by layer: the first counts. Here four queries share a key there. */
static void test_arrays(void) {
    static unsigned char file[1 << 14];
    static const int32_t n_head[] = {16, 4}, n_head_kv[][2] = {{-1, 4}, {4, 4}}; /* below 0: none is said */
    Gguf gguf = gguf_begin(3);
    MixOptions options = {.preset = preset_find("Q2_K"), .output = NO_DTYPE, .embedding = NO_DTYPE};
    DType types[2];
    size_t n_fallbacks;
    Error error;
    gguf_string(&gguf, "general.architecture", "llama");
    gguf_array(&gguf, "llama.attention.head_count", I32, 2, n_head, sizeof n_head);
    gguf_tensor(&gguf, "blk.0.attn_v.weight", T_F32, 2, 256);
    gguf_tensor(&gguf, "blk.1.attn_v.weight", T_F32, 2, 256);
    for (int i = 0; i < 3; i++) {
        scratch_write(file, gguf_write(&gguf, file));
        Checkpoint *checkpoint = checkpoint_open(scratch_path(), &error);
        bool ok = checkpoint && choose_types(checkpoint, &options, types, &n_fallbacks, &error);
        CHECK(ok, "%s", error.message);
        CHECK(ok && types[0] == (i < 2 ? DTYPE_Q3_K : DTYPE_Q4_K) && types[1] == types[0], "%d",
              (int)types[0]);
        checkpoint_close(checkpoint);
        if (i < 2)
            gguf_array(&gguf, "llama.attention.head_count_kv", I32, 2, n_head_kv[i], sizeof n_head_kv[i]);
    }
}

/*
 * One matrix alone, which is the first of its role: of which presets, families and sizes llama_tensor_get_type (llama.cpp,
 * September 2026) asks, and what it makes of odd names and shapes.
 */
static void test_single(void) {
    static unsigned char file[1 << 14];
    static const char v[] = "blk.0.attn_v.weight", down[] = "blk.0.ffn_down.weight",
                      output[] = "output.weight";
    static const struct {
        const char *architecture;
        uint32_t n_layer, n_head_kv;
        const char *preset, *name, *type;
        uint64_t dims[4];
        int output, embedding; /* of MixOptions */
    } cases[] = {
        /* 70 billion weights: by layers, and of Llama by shared keys, too. */
        {"llama", 80, 8, "Q3_K_S", v, "Q5_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"llama", 80, 64, "Q3_K_S", v, "Q3_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"llama", 79, 8, "Q3_K_S", v, "Q3_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"qwen2", 80, 64, "Q3_K_S", v, "Q5_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"olmo", 80, 64, "Q3_K_S", v, "Q5_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"deci", 80, 64, "Q3_K_S", v, "Q5_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"jais2", 68, 64, "Q3_K_S", v, "Q5_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"jais2", 80, 64, "Q3_K_S", v, "Q3_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"mpt", 80, 64, "Q3_K_S", v, "Q3_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        /* Falcon. */
        {"falcon", 32, 64, "Q4_K_M", output, "Q8_0", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"llama", 32, 64, "Q4_K_M", output, "Q6_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"falcon", 32, 64, "Q4_K_M", down, "Q6_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"falcon", 8, 64, "Q4_K_M", down, "Q5_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"falcon", 4, 64, "Q4_K_M", down, "Q4_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"falcon", 32, 64, "Q3_K_M", down, "Q5_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"falcon", 8, 64, "Q3_K_M", down, "Q4_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"falcon", 4, 64, "Q3_K_M", down, "Q3_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"falcon", 4, 64, "Q3_K_L", "blk.0.attn_output.weight", "Q4_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"llama", 4, 64, "Q3_K_L", "blk.0.attn_output.weight", "Q5_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        /* A matrix is one in any of its further dimensions; only a weight is packed. */
        {"llama", 4, 64, "Q6_K", "x.weight", "Q6_K", {256, 1, 2}, NO_DTYPE, NO_DTYPE},
        {"llama", 4, 64, "Q6_K", "x.weight", "Q6_K", {256, 1, 1, 2}, NO_DTYPE, NO_DTYPE},
        {"llama", 4, 64, "Q6_K", "x.weight", "F32", {256}, NO_DTYPE, NO_DTYPE},
        {"llama", 4, 64, "Q6_K", "eight", "F32", {256, 2}, NO_DTYPE, NO_DTYPE},
        {"llama", 4, 64, "Q6_K", "blk.12345678901234.weight", "Q6_K", {256, 2}, NO_DTYPE, NO_DTYPE},
        /* Options: what is the output's where it is the embedding, too. */
        {"llama", 4, 64, "Q6_K", "token_embd.weight", "F16", {256, 2}, DTYPE_F16, NO_DTYPE},
        {"llama", 4, 64, "Q6_K", "token_embd.weight", "Q8_0", {256, 2}, DTYPE_F16, DTYPE_Q8_0},
        {"llama", 4, 64, "Q6_K", "per_layer_token_embd.weight", "Q8_0", {256, 2}, DTYPE_F16, DTYPE_Q8_0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char keys[3][64];
        static const char *const suffixes[] = {"block_count", "attention.head_count",
                                               "attention.head_count_kv"};
        const uint32_t values[] = {cases[i].n_layer, 64, cases[i].n_head_kv};
        MixOptions options = {.preset = preset_find(cases[i].preset),
                              .output = cases[i].output,
                              .embedding = cases[i].embedding};
        DType type;
        size_t n_fallbacks;
        Error error;
        Gguf gguf = gguf_begin(3);
        gguf_string(&gguf, "general.architecture", cases[i].architecture);
        for (size_t k = 0; k < 3; k++) {
            snprintf(keys[k], sizeof keys[k], "%s.%s", cases[i].architecture, suffixes[k]);
            gguf_u32(&gguf, keys[k], values[k]);
        }
        GgufTensor *tensor = gguf_tensor(&gguf, cases[i].name, T_F32, 2, 256);
        tensor->n_dims = 0, tensor->n_bytes = 4;
        for (; tensor->n_dims < 4 && cases[i].dims[tensor->n_dims]; tensor->n_dims++) {
            tensor->dims[tensor->n_dims] = cases[i].dims[tensor->n_dims];
            tensor->n_bytes *= (size_t)cases[i].dims[tensor->n_dims];
        }
        scratch_write(file, gguf_write(&gguf, file));
        Checkpoint *checkpoint = checkpoint_open(scratch_path(), &error);
        bool ok = checkpoint && choose_types(checkpoint, &options, &type, &n_fallbacks, &error);
        CHECK(ok, "%s", error.message);
        CHECK(ok && strcmp(dtype_info(type)->name, cases[i].type) == 0, "%s %u layers, %s, %s: %s",
              cases[i].architecture, (unsigned)cases[i].n_layer, cases[i].preset, cases[i].name,
              ok ? dtype_info(type)->name : "");
        checkpoint_close(checkpoint);
    }
}

/* Names without a number of a layer come first: the first two of the role get more bits. */
static void test_without_a_layer(void) {
    static unsigned char file[1 << 15];
    static const struct {
        const char *name;
        DType type;
    } cases[] = {{"blk.0.attn_v.weight", DTYPE_Q4_K},
                 {"blk", DTYPE_F32},
                 {"blk.7", DTYPE_F32},
                 {"blk.v.attn_v.weight", DTYPE_Q5_K},
                 {"blk.:.attn_v.weight", DTYPE_Q5_K},
                 {"blk.31.ffn_down_exps.weight", DTYPE_Q4_K},
                 {"a.ffn_down_exps.weight", DTYPE_Q5_K},
                 {"b.ffn_down_exps.weight", DTYPE_Q5_K},
                 {"c.ffn_down_exps.weight", DTYPE_Q4_K}};
    enum { N = sizeof cases / sizeof *cases };
    Gguf gguf = gguf_begin(3);
    MixOptions options = {.preset = preset_find("Q3_K_M"), .output = NO_DTYPE, .embedding = NO_DTYPE};
    DType types[N];
    size_t n_fallbacks;
    Error error;
    gguf_string(&gguf, "general.architecture", "llama");
    gguf_u32(&gguf, "llama.block_count", 32);
    gguf_u32(&gguf, "llama.expert_count", 2);
    for (size_t i = 0; i < N; i++) gguf_tensor(&gguf, cases[i].name, T_F32, 2, 256);
    scratch_write(file, gguf_write(&gguf, file));
    Checkpoint *checkpoint = checkpoint_open(scratch_path(), &error);
    CHECK(checkpoint && choose_types(checkpoint, &options, types, &n_fallbacks, &error), "%s", error.message);
    for (size_t i = 0; checkpoint && i < N; i++)
        CHECK(types[i] == cases[i].type, "%s: %s", cases[i].name, dtype_info(types[i])->name);
    checkpoint_close(checkpoint);
}

/* Within a layer names tell the order, whatever the file's: the second and third of three, of which two get more bits. */
static void test_order_within_a_layer(void) {
    static unsigned char file[1 << 14];
    Gguf gguf = gguf_begin(3);
    MixOptions options = {.preset = preset_find("Q3_K_M"), .output = NO_DTYPE, .embedding = NO_DTYPE};
    DType types[3];
    size_t n_fallbacks;
    Error error;
    gguf_string(&gguf, "general.architecture", "llama");
    gguf_tensor(&gguf, "blk.1.attn_v.weight", T_F32, 2, 256);
    gguf_tensor(&gguf, "blk.1.attn_kv_b.weight", T_F32, 2, 256);
    gguf_tensor(&gguf, "blk.0.attn_v.weight", T_F32, 2, 256);
    scratch_write(file, gguf_write(&gguf, file));
    Checkpoint *checkpoint = checkpoint_open(scratch_path(), &error);
    CHECK(checkpoint && choose_types(checkpoint, &options, types, &n_fallbacks, &error), "%s", error.message);
    CHECK(checkpoint && types[0] == DTYPE_Q4_K && types[1] == DTYPE_Q5_K && types[2] == DTYPE_Q5_K,
          "%d %d %d", (int)types[0], (int)types[1], (int)types[2]);
    checkpoint_close(checkpoint);
}

/* Rows that are no whole number of blocks, of a type that has none in its place. */
static void test_no_type_fits(void) {
    static const char *const presets[] = {"Q8_0", "Q4_0", "Q5_1", "IQ4_NL", "Q4_K", "Q6_K", "IQ4_XS"};
    Shape shape;
    DType types[32];
    size_t n_fallbacks;
    Error error;
    parse_shape(&shape, "model llama layers 1 cols 48 down 48 heads 4 4 experts 0 tied 0");
    Checkpoint *checkpoint = open_shape(&shape);
    for (size_t i = 0; checkpoint && i < sizeof presets / sizeof *presets; i++) {
        MixOptions options = {.preset = preset_find(presets[i]), .output = NO_DTYPE, .embedding = NO_DTYPE};
        CHECK(choose_types(checkpoint, &options, types, &n_fallbacks, &error), "%s", error.message);
        CHECK(strcmp(type_of(checkpoint, types, "blk.0.attn_q.weight"), "F16") == 0 && n_fallbacks == 9,
              "%s: %s, %zu fallbacks", presets[i], type_of(checkpoint, types, "blk.0.attn_q.weight"),
              n_fallbacks);
    }
    checkpoint_close(checkpoint);
}

/* The numbers are those of enum llama_ftype (llama.h). */
static void test_names(void) {
    static const struct {
        const char *name, *known;
        uint32_t file_type;
    } cases[] = {
        {"F32", "F32", 0},
        {"F16", "F16", 1},
        {"BF16", "BF16", 32},
        {"Q8_0", "Q8_0", 7},
        {"Q6_K", "Q6_K", 18},
        {"Q5_K_M", "Q5_K_M", 17},
        {"Q5_K_S", "Q5_K_S", 16},
        {"Q5_1", "Q5_1", 9},
        {"Q5_0", "Q5_0", 8},
        {"Q4_K_M", "Q4_K_M", 15},
        {"Q4_K_S", "Q4_K_S", 14},
        {"Q4_1", "Q4_1", 3},
        {"Q4_0", "Q4_0", 2},
        {"IQ4_NL", "IQ4_NL", 25},
        {"IQ4_XS", "IQ4_XS", 30},
        {"MXFP4", "MXFP4", 38},
        {"MXFP4_MOE", "MXFP4_MOE", 38},
        {"Q3_K_L", "Q3_K_L", 13},
        {"Q3_K_M", "Q3_K_M", 12},
        {"Q3_K_S", "Q3_K_S", 11},
        {"Q2_K", "Q2_K", 10},
        {"q4_k_m", "Q4_K_M", 15},
        {"Q4_K", "Q4_K_M", 15},
        {"q3_k", "Q3_K_M", 12},
        {"Q5_K", "Q5_K_M", 17},
        {"iq4_xs", "IQ4_XS", 30},
        {"Q4", NULL},
        {"", NULL},
        {"Q2_K_S", NULL},
        {"IQ3_M", NULL},
        {"Q4_K_M ", NULL},
        {"_M", NULL},
        {"Q6_K_M", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Preset *preset = preset_find(cases[i].name);
        CHECK(preset ? cases[i].known && strcmp(preset->name, cases[i].known) == 0 : !cases[i].known,
              "'%s' is %s", cases[i].name, preset ? preset->name : "unknown");
        if (preset)
            CHECK(preset->file_type == cases[i].file_type, "%s: %u", preset->name,
                  (unsigned)preset->file_type);
    }
}

int main(void) {
    scratch_begin();
    RUN(test_presets);
    RUN(test_options);
    RUN(test_arrays);
    RUN(test_single);
    RUN(test_without_a_layer);
    RUN(test_order_within_a_layer);
    RUN(test_no_type_fits);
    RUN(test_names);
    scratch_end();
    return test_end();
}
