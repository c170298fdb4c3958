/*
 * shape: what a file or the name of a model holds: parameters of every kind of matrix, what they weigh,
 * what a token costs, and how attention grows with the length n of the text, by the plain formula and as
 * attention.c does it.
 *
 * A multiply-add counts as two FLOPs. Every parameter of a matrix is multiplied once a token, but for the
 * embedding's, whose rows are looked up; a tied embedding is multiplied as unembedding. Attention to n keys
 * adds for each layer and head n dot products q·k and n weighted values, all of d_head:
 * 4·n_layer·n_head·d_head·n. Norms, activations and the softmax are small beside these and not counted.
 */
#include "counts.h"
#include "views/study.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PRESET_VOCAB = 50257, WIDE = 95 /* columns of the table with "rows x cols" */, N_LENGTHS = 5 };

/* Radford et al. 2019, table 2; Brown et al. 2020 (arXiv:2005.14165), table 2.1. */
typedef struct Preset {
    const char *name;
    size_t n_layer, n_head, d_model, n_ctx;
    bool tied; /* GPT-3's parameters are usually told with the embedding counted twice */
} Preset;

static const Preset presets[] = {
    {"gpt2", 12, 12, 768, 1024, true},         {"gpt2-medium", 24, 16, 1024, 1024, true},
    {"gpt2-large", 36, 20, 1280, 1024, true},  {"gpt2-xl", 48, 25, 1600, 1024, true},
    {"gpt3-175b", 96, 96, 12288, 2048, false},
};
enum { N_PRESETS = sizeof presets / sizeof *presets };

static bool find_preset(const char *name, Config *config, Error *error) {
    static const Family gpt2 = {"gpt2", NORM_LAYER, ROPE_NONE, true, MLP_GELU_TANH, true, true};
    char names[256] = "";
    for (size_t i = 0; i < N_PRESETS; i++) {
        const Preset *p = &presets[i];
        if (strcmp(p->name, name) == 0) {
            *config = (Config){.family = &gpt2,
                               .n_layer = p->n_layer,
                               .n_head = p->n_head,
                               .n_head_kv = p->n_head,
                               .d_model = p->d_model,
                               .d_head = p->d_model / p->n_head,
                               .d_ff = 4 * p->d_model,
                               .n_vocab = PRESET_VOCAB,
                               .n_ctx = p->n_ctx,
                               .tied = p->tied};
            return true;
        }
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", p->name);
    }
    return error_set(error, "--preset: there is no '%s'; there are %s", name, names);
}

/* A kind of matrix: [rows][cols], in each layer or once. */
typedef struct MatrixShape {
    size_t rows, cols;
    size_t n_heads; /* that share it evenly; 0: not of heads */
    bool in_layers;
} MatrixShape;

static MatrixShape matrix_shape(const Config *config, CountKind kind) {
    size_t d_model = config->d_model, d_ff = config->d_ff;
    size_t d_q = config->n_head * config->d_head, d_kv = config->n_head_kv * config->d_head;
    switch (kind) {
    case COUNT_QUERY: return (MatrixShape){d_q, d_model, config->n_head, true};
    case COUNT_KEY:
    case COUNT_VALUE: return (MatrixShape){d_kv, d_model, config->n_head_kv, true};
    case COUNT_OUTPUT: return (MatrixShape){d_model, d_q, config->n_head, true};
    case COUNT_UP:
    case COUNT_GATE: return (MatrixShape){d_ff, d_model, 0, true};
    case COUNT_DOWN: return (MatrixShape){d_model, d_ff, 0, true};
    default: return (MatrixShape){config->n_vocab, d_model, 0, false};
    }
}

/* What the tables show. */
typedef struct Shape {
    const Config *config;
    Count counts[N_COUNTS];
    Count matrices, apart; /* sums: of the matrices; of positions, norms and biases */
    double flops;          /* of a token, in the matrices */
    size_t kv_bytes;       /* of a token, in F16 */
    size_t tile_bytes;     /* of attention.c's scratch for a tile, per thread */
} Shape;

static Shape shape_of(const Config *config, const Model *model) {
    Shape shape = {.config = config};
    if (model)
        count_weights(model, shape.counts);
    else
        count_config(config, DTYPE_F16, shape.counts);
    for (CountKind kind = 0; kind < N_COUNTS; kind++) {
        Count *sum = kind < N_MATRIX_COUNTS ? &shape.matrices : &shape.apart;
        sum->parameters += shape.counts[kind].parameters;
        sum->bytes += shape.counts[kind].bytes;
    }
    shape.flops = 2 * (double)(shape.matrices.parameters -
                               (config->tied ? 0 : shape.counts[COUNT_EMBEDDING].parameters));
    AttentionShape attention = {.n_layer = config->n_layer,
                                .n_head = config->n_head,
                                .n_head_kv = config->n_head_kv,
                                .d_head = config->d_head};
    shape.kv_bytes = attention_kv_bytes(&attention, DTYPE_F16);
    shape.tile_bytes = attention_tile_bytes(&attention);
    return shape;
}

/* Attention over a text of n tokens. */
typedef struct Growth {
    double n;
    double plain_bytes;              /* the n × n scores of all heads of one layer in F32 */
    double kv_bytes;                 /* the cache, in F16 */
    double plain_flops, tiled_flops; /* all layers and tokens: every pair; only those the mask leaves */
    double last_flops, last_share;   /* the last token's, and their share in all that it costs */
} Growth;

static Growth growth_at(const Shape *shape, double n) {
    const Config *config = shape->config;
    double pair = 4.0 * (double)config->n_layer * (double)config->n_head * (double)config->d_head;
    Growth growth = {.n = n,
                     .plain_bytes = (double)sizeof(float) * (double)config->n_head * n * n,
                     .kv_bytes = (double)shape->kv_bytes * n,
                     .plain_flops = pair * n * n,
                     .tiled_flops = pair * n * (n + 1) / 2,
                     .last_flops = pair * n};
    growth.last_share = growth.last_flops / (growth.last_flops + shape->flops);
    return growth;
}

/* A quarter and a sixteenth of the context, the context, and beyond it. */
static void lengths_around(double n_ctx, double lengths[N_LENGTHS]) {
    for (int i = 0; i < N_LENGTHS; i++) lengths[i] = fmax(1, floor(n_ctx * pow(4, i - 2)));
}

/* "14,495,514,624", flush right in `width` columns; 0 is shown as nothing. */
static void print_count(uint64_t value, int width) {
    char digits[24], shown[32];
    int n = value ? snprintf(digits, sizeof digits, "%" PRIu64, value) : 0, at = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) shown[at++] = ',';
        shown[at++] = digits[i];
    }
    shown[at] = '\0';
    printf("%*s", width, shown);
}

/* Three digits and a unit: "1.23 GiB", "45.6 G". */
static void print_scaled(double value, double step, const char *const *units, int width) {
    size_t unit = 0;
    char shown[32];
    for (; value >= 999.5 && units[unit + 1]; unit++) value /= step;
    int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(shown, sizeof shown, "%.*f %s", decimals, value, units[unit]);
    printf("%*s", width, shown);
}

static void print_bytes(double value, int width) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", NULL};
    print_scaled(value, 1024, units, width);
}

static void print_flops(double value, int width) {
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E", NULL};
    print_scaled(value, 1000, units, width);
}

static void print_total(const char *name, Count count, bool wide) {
    printf("%-14s%*s%13s%15s", name, wide ? 17 : 0, "", "", "");
    print_count(count.parameters, 18);
    print_count(count.bytes, 18);
    putchar('\n');
}

static void print_matrix(const Shape *shape, CountKind kind, bool wide) {
    MatrixShape matrix = matrix_shape(shape->config, kind);
    Count count = shape->counts[kind];
    uint64_t each = (uint64_t)matrix.rows * matrix.cols;
    char size[48] = "";
    if (kind == COUNT_UNEMBEDDING && shape->config->tied) {
        printf("%-14s%*s\n", count_name(kind), 64 + (wide ? 17 : 0), "is the embedding");
        return;
    }
    if (count.parameters == 0) return;
    if (wide) snprintf(size, sizeof size, "%zu x %zu", matrix.rows, matrix.cols);
    printf("%-14s%*s", count_name(kind), wide ? 17 : 0, size);
    print_count(matrix.n_heads ? each / matrix.n_heads : 0, 13);
    print_count(matrix.in_layers ? each : 0, 15);
    print_count(count.parameters, 18);
    print_count(count.bytes, 18);
    putchar('\n');
}

static void print_parameters(const Report *report, const Shape *shape) {
    bool wide = report->width >= WIDE;
    Count all = {shape->matrices.parameters + shape->apart.parameters,
                 shape->matrices.bytes + shape->apart.bytes};
    print_styled(report, STYLE_BOLD, "%-14s%*s%13s%15s%18s%18s\n", "parameters", wide ? 17 : 0,
                 wide ? "outputs x inputs" : "", "per head", "per layer", "in all", "bytes");
    for (CountKind kind = 0; kind < N_MATRIX_COUNTS; kind++) print_matrix(shape, kind, wide);
    print_style(report, STYLE_BOLD);
    print_total("all matrices", shape->matrices, wide);
    print_style(report, STYLE_PLAIN);
    for (CountKind kind = N_MATRIX_COUNTS; kind < N_COUNTS; kind++)
        if (shape->counts[kind].parameters) print_total(count_name(kind), shape->counts[kind], wide);
    print_total("with these", all, wide);
}

static void print_growth(const Report *report, const Shape *shape, const double lengths[N_LENGTHS]) {
    printf("\nA token costs ");
    print_flops(shape->flops, 0);
    printf("FLOPs in the matrices (2 a parameter; the embedding is\nlooked up) and ");
    print_bytes((double)shape->kv_bytes, 0);
    printf(" of KV cache in F16. Attention over n tokens costs:\n\n");
    print_styled(report, STYLE_BOLD,
                 "%9s  %30s  %18s  %16s\n"
                 "%9s  %10s%10s%10s  %9s%9s  %9s%7s\n",
                 "", "bytes", "FLOPs of the text", "of its last one", "n", "plain", "attn", "KV cache",
                 "plain", "attn", "FLOPs", "share");
    for (int i = 0; i < N_LENGTHS; i++) {
        Growth growth = growth_at(shape, lengths[i]);
        printf("%9.0f  ", growth.n);
        print_bytes(growth.plain_bytes, 10);
        print_bytes((double)shape->tile_bytes, 10);
        print_bytes(growth.kv_bytes, 10);
        printf("  ");
        print_flops(growth.plain_flops, 9);
        print_flops(growth.tiled_flops, 9);
        printf("  ");
        print_flops(growth.last_flops, 9);
        printf("%6.1f%%\n", 100 * growth.last_share);
    }
    print_styled(report, STYLE_DIM,
                 "Bytes: plain keeps the n x n scores of a layer's heads in F32, attn a tile of 64\n"
                 "keys by 64 queries in each thread, so that only the cache grows. FLOPs: plain\n"
                 "takes every pair, attn the n(n + 1)/2 that the causal mask leaves (and the edge\n"
                 "of a tile). Share: of all the FLOPs that the last token costs.\n");
}

static void print_text(const Study *study, const Shape *shape, const double lengths[N_LENGTHS]) {
    const Report *report = &study->report;
    const Config *config = shape->config;
    if (!study->model)
        print_styled(report, STYLE_DIM, "%s  a shape without weights: bytes as if the matrices were F16\n\n",
                     study->options->preset);
    printf("n_layer %zu  n_head %zu  n_head_kv %zu  d_head %zu\n", config->n_layer, config->n_head,
           config->n_head_kv, config->d_head);
    printf("d_model %zu  d_ff %zu  n_vocab %zu  ", config->d_model, config->d_ff, config->n_vocab);
    printf("n_ctx %zu\n\n", config->n_ctx);
    print_parameters(report, shape);
    if (config->n_head_kv < config->n_head)
        print_styled(report, STYLE_DIM,
                     "Key and value have fewer heads: each is shared by several query heads.\n");
    if (!study->model && !config->tied)
        print_styled(report, STYLE_DIM,
                     "Embedding and unembedding are counted apart, as is usual for this model.\n");
    print_growth(report, shape, lengths);
}

/* A whole number; as real once it is beyond what int64_t holds; null for NaN. */
static void json_whole(Report *report, const char *key, double value) {
    if (value < 0x1p63)
        json_int(report, key, (int64_t)value);
    else
        json_real(report, key, value);
}

static void json_config(Report *report, const Config *config) {
    json_int(report, "n_layer", (int64_t)config->n_layer);
    json_int(report, "n_head", (int64_t)config->n_head);
    json_int(report, "n_head_kv", (int64_t)config->n_head_kv);
    json_int(report, "d_model", (int64_t)config->d_model);
    json_int(report, "d_head", (int64_t)config->d_head);
    json_int(report, "d_ff", (int64_t)config->d_ff);
    json_int(report, "n_vocab", (int64_t)config->n_vocab);
    json_int(report, "n_ctx", (int64_t)config->n_ctx);
    json_bool(report, "tied", config->tied);
}

/* A row of "parameters", or of "apart"; what has no heads or layers has null there. */
static void json_count(Report *report, const Shape *shape, CountKind kind) {
    MatrixShape matrix = matrix_shape(shape->config, kind);
    double each = (double)matrix.rows * (double)matrix.cols;
    bool is_matrix = kind < N_MATRIX_COUNTS;
    json_object(report, NULL);
    json_text(report, "matrix", count_name(kind), SIZE_MAX);
    json_whole(report, "per_head", is_matrix && matrix.n_heads ? each / (double)matrix.n_heads : NAN);
    json_whole(report, "per_layer", is_matrix && matrix.in_layers ? each : NAN);
    json_int(report, "total", (int64_t)shape->counts[kind].parameters);
    json_int(report, "bytes", (int64_t)shape->counts[kind].bytes);
    json_end_object(report);
}

static void json_growth(Report *report, const Shape *shape, const double lengths[N_LENGTHS]) {
    json_array(report, "attention");
    for (int i = 0; i < N_LENGTHS; i++) {
        Growth growth = growth_at(shape, lengths[i]);
        json_object(report, NULL);
        json_whole(report, "n", growth.n);
        json_whole(report, "plain_bytes", growth.plain_bytes);
        json_int(report, "tiled_bytes", (int64_t)shape->tile_bytes);
        json_whole(report, "kv_bytes", growth.kv_bytes);
        json_whole(report, "plain_flops", growth.plain_flops);
        json_whole(report, "tiled_flops", growth.tiled_flops);
        json_whole(report, "flops_per_token", growth.last_flops);
        json_real(report, "share", growth.last_share);
        json_end_object(report);
    }
    json_end_array(report);
}

static void print_json(Study *study, const Shape *shape, const double lengths[N_LENGTHS]) {
    Report *report = &study->report;
    if (!study->model) json_text(report, "preset", study->options->preset, SIZE_MAX);
    json_config(report, shape->config);
    json_array(report, "parameters");
    for (CountKind kind = 0; kind < N_MATRIX_COUNTS; kind++)
        if (shape->counts[kind].parameters) json_count(report, shape, kind);
    json_end_array(report);
    json_int(report, "total", (int64_t)shape->matrices.parameters);
    json_int(report, "bytes", (int64_t)shape->matrices.bytes);
    json_array(report, "apart");
    for (CountKind kind = N_MATRIX_COUNTS; kind < N_COUNTS; kind++)
        if (shape->counts[kind].parameters) json_count(report, shape, kind);
    json_end_array(report);
    json_whole(report, "flops_per_token", shape->flops);
    json_int(report, "kv_bytes_per_token", (int64_t)shape->kv_bytes);
    json_growth(report, shape, lengths);
}

bool view_shape(Study *study, Error *error) {
    Config preset;
    const Config *config = study->model ? model_config(study->model) : &preset;
    if (!study->model && !find_preset(study->options->preset, &preset, error)) return false;
    Shape shape = shape_of(config, study->model);
    double lengths[N_LENGTHS];
    lengths_around((double)(study->options->n_ctx ? (size_t)study->options->n_ctx : config->n_ctx), lengths);
    report_open(&study->report, study);
    if (study->report.json)
        print_json(study, &shape, lengths);
    else
        print_text(study, &shape, lengths);
    report_close(&study->report);
    return true;
}
