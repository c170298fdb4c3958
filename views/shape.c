/*
 * shape: what a file or the name of a model holds: parameters of every kind of matrix, what they weigh,
 * what a token costs, and how attention grows with the length n of the text, by the plain formula and as
 * attention.c does it.
 *
 * A multiply-add counts as two FLOPs. Every parameter of a matrix is multiplied once a token, but for the
 * embedding's, whose rows are looked up, and those of experts that the token does not go through; a tied embedding is
 * multiplied as unembedding. Attention to n keys adds for each layer and head n dot products q·k and n weighted values,
 * all of d_head: 4·n_layer·n_head·d_head·n; a layer with a window has no more than that many keys. Norms, activations and the softmax are small beside these and not counted.
 */
#include "cli/counts.h"
#include "views/view.h"

#include <math.h>
#include <string.h>

enum { PRESET_VOCAB = 50257, N_LENGTHS = 5 };

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

/* A kind of matrix, or what is counted beside them. NAN: it has no heads, or does not stand in each layer. */
typedef struct ShapeRow {
    const char *name;
    char size[32]; /* "outputs x inputs" */
    double per_head, per_layer, total, bytes;
} ShapeRow;

/* Attention over a text of n tokens. */
typedef struct Growth {
    double n;
    double plain_bytes;              /* the n × n scores of all heads of one layer in F32 */
    double tiled_bytes;              /* attention.c's scratch for a tile, per thread */
    double kv_bytes;                 /* the cache, in F16 */
    double plain_flops, tiled_flops; /* all layers and tokens: every pair; only those the mask leaves */
    double last_flops, last_share;   /* the last token's, and their share in all that it costs */
} Growth;

typedef struct Shape {
    const char *preset; /* its name, or NULL */
    Config config;

    ShapeRow matrices[N_MATRIX_COUNTS],
        apart[N_COUNTS - N_MATRIX_COUNTS]; /* apart: positions, norms, biases */
    size_t n_matrices, n_apart;
    ShapeRow sum, all; /* of the matrices; with what is apart */
    double active;     /* parameters of the matrices less those of experts that a token does not go through */
    double attention, attention_share;
    double full_map, low_rank_map; /* from what a head looks at to what it adds: as one matrix, as its two */

    double flops;    /* of a token, in the active matrices */
    double kv_bytes; /* of a token, in F16 */
    Growth growth[N_LENGTHS];
} Shape;

static const Preset *find_preset(const char *name, Error *error) {
    char names[256] = "";
    for (size_t i = 0; i < N_PRESETS; i++) {
        if (strcmp(presets[i].name, name) == 0) return &presets[i];
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", presets[i].name);
    }
    error_set(error, "--preset: there is no '%s'; there are %s", name, names);
    return NULL;
}

static Config config_of(const Preset *p) {
    return (Config){.family = family_find(string_from("gpt2")),
                    .n_layer = p->n_layer,
                    .n_head = p->n_head,
                    .n_head_kv = p->n_head,
                    .d_model = p->d_model,
                    .d_head = p->d_model / p->n_head,
                    .d_ff = 4 * p->d_model,
                    .n_vocab = PRESET_VOCAB,
                    .n_ctx = p->n_ctx,
                    .tied = p->tied};
}

static ShapeRow row_of(const Config *config, CountKind kind, Count count) {
    ShapeRow row = {.name = count_name(kind),
                    .per_head = NAN,
                    .per_layer = NAN,
                    .total = (double)count.parameters,
                    .bytes = (double)count.bytes};
    if (kind >= N_MATRIX_COUNTS) return row;
    size_t n_heads = count_heads(config, kind);
    snprintf(row.size, sizeof row.size, "%zu x %zu", count.rows, count.cols);
    if (count_is_in_layers(kind)) row.per_layer = round(row.total / (double)config->n_layer);
    if (n_heads) { /* in some models not all layers have heads */
        row.per_layer = (double)count.rows * (double)count.cols;
        row.per_head = row.per_layer / (double)n_heads;
    }
    return row;
}

static void fill_rows(Shape *shape, const Model *model) {
    const Config *config = &shape->config;
    Count counts[N_COUNTS];
    if (model)
        count_weights(model, counts);
    else
        count_config(config, DTYPE_F16, counts);
    shape->sum = (ShapeRow){.name = "all matrices", .per_head = NAN, .per_layer = NAN};
    shape->all = (ShapeRow){.name = "with these", .per_head = NAN, .per_layer = NAN};
    for (CountKind kind = 0; kind < N_COUNTS; kind++) {
        if (counts[kind].parameters == 0) continue;
        bool is_matrix = kind < N_MATRIX_COUNTS;
        ShapeRow *row = is_matrix ? &shape->matrices[shape->n_matrices++] : &shape->apart[shape->n_apart++];
        *row = row_of(config, kind, counts[kind]);
        shape->all.total += row->total;
        shape->all.bytes += row->bytes;
        if (is_matrix) shape->sum.total += row->total;
        if (is_matrix) shape->sum.bytes += row->bytes;
        if (is_matrix)
            shape->active += count_is_of_experts(kind)
                                 ? row->total * (double)config->n_expert_used / (double)config->n_expert
                                 : row->total;
        if (kind >= COUNT_QUERY && kind <= COUNT_OUTPUT) shape->attention += row->total;
        if (kind == COUNT_VALUE || kind == COUNT_OUTPUT) shape->low_rank_map += row->per_head;
    }
    shape->attention_share = shape->attention / shape->sum.total;
    shape->full_map = (double)config->d_model * (double)config->d_model;
    shape->flops = 2 * (shape->active - (config->tied ? 0 : (double)counts[COUNT_EMBEDDING].parameters));
}

/* Sums over layers for the n-th token of a text: the keys that it sees; and those of all tokens up to it. */
static void count_keys(const Config *config, const AttentionLayer *layers, double n, double *last,
                       double *all) {
    *last = *all = 0;
    for (size_t layer = 0; layer < config->n_layer; layer++) {
        if (layers && layers[layer].absent) continue;
        double seen = config_is_local(config, layer) ? fmin(n, (double)config->window) : n;
        *last += seen;
        *all += seen * (seen + 1) / 2 + (n - seen) * seen;
    }
}

/* A quarter and a sixteenth of the context n_ctx, the context, and beyond it. */
static void fill_growth(Shape *shape, const Model *model, double n_ctx) {
    const Config *config = &shape->config;
    AttentionShape attention = {.layers = model ? model_weights(model)->attention_layers : NULL,
                                .n_layer = config->n_layer,
                                .n_head = config->n_head,
                                .n_head_kv = config->n_head_kv,
                                .d_head = config->d_head};
    double n_layer = 0, pair = 4.0 * (double)config->n_head * (double)config->d_head;
    shape->kv_bytes = (double)attention_kv_bytes(&attention, DTYPE_F16);
    for (size_t layer = 0; layer < config->n_layer; layer++)
        n_layer += !attention.layers || !attention.layers[layer].absent;
    double key_bytes = n_layer > 0 ? shape->kv_bytes / n_layer : 0; /* of a layer that has heads */
    for (int i = 0; i < N_LENGTHS; i++) {
        double n = fmax(1, floor(n_ctx * pow(4, i - 2))), last, all;
        count_keys(config, attention.layers, n, &last, &all);
        shape->growth[i] = (Growth){.n = n,
                                    .plain_bytes = (double)sizeof(float) * (double)config->n_head * n * n,
                                    .tiled_bytes = (double)attention_tile_bytes(&attention),
                                    .kv_bytes = key_bytes * last,
                                    .plain_flops = pair * n_layer * n * n,
                                    .tiled_flops = pair * all,
                                    .last_flops = pair * last,
                                    .last_share = pair * last / (pair * last + shape->flops)};
    }
}

static bool check(const StudyOptions *options, const void *view, Error *error) {
    const Shape *shape = view;
    if (!options->model && !shape->preset)
        return error_set(error, "no model is named: see ./study shape --help");
    if (options->model && shape->preset)
        return error_set(error, "--preset stands for a model; '%s' is one too many", options->model);
    return !shape->preset || find_preset(shape->preset, error);
}

static bool compute(Study *study, void *view, Error *error) {
    Shape *shape = view;
    int64_t n_ctx = study->options->n_ctx;
    shape->config = study->model ? *model_config(study->model) : config_of(find_preset(shape->preset, error));
    fill_rows(shape, study->model);
    fill_growth(shape, study->model, (double)(n_ctx ? (size_t)n_ctx : shape->config.n_ctx));
    return true;
}

#define ROW(member) offsetof(ShapeRow, member)

static const Column row_columns[] = {
    {"matrix", "parameters", CELL_TEXT, ROW(name), -14},
    {NULL, "outputs x inputs", CELL_NAME, ROW(size), 17, .need = 1},
    {"per_head", "per head", CELL_COUNT, ROW(per_head), 13, .format = ','},
    {"per_layer", "per layer", CELL_COUNT, ROW(per_layer), 15, .format = ','},
    {"total", "in all", CELL_COUNT, ROW(total), 18, .format = ','},
    {"bytes", "bytes", CELL_COUNT, ROW(bytes), 18, .format = ','},
};
enum { SIZE_COLUMN = 1 << 1, SUM_COLUMNS = 3 << 4 };

static const Table matrices_table = TABLE("parameters", row_columns),
                   apart_table = TABLE("apart", row_columns);

#define GROWTH(member) offsetof(Growth, member)

static const Column growth_columns[] = {
    {"n", "n", CELL_COUNT, GROWTH(n), 9},
    {"plain_bytes", "plain", CELL_COUNT, GROWTH(plain_bytes), 12, .format = 'B'},
    {"tiled_bytes", "attn", CELL_COUNT, GROWTH(tiled_bytes), 10, .format = 'B'},
    {"kv_bytes", "KV cache", CELL_COUNT, GROWTH(kv_bytes), 10, .format = 'B'},
    {"plain_flops", "plain", CELL_COUNT, GROWTH(plain_flops), 11, .format = 'k'},
    {"tiled_flops", "attn", CELL_COUNT, GROWTH(tiled_flops), 9, .format = 'k'},
    {"flops_per_token", "FLOPs", CELL_COUNT, GROWTH(last_flops), 11, .format = 'k'},
    {"share", "share", CELL_REAL, GROWTH(last_share), 7, 1, 100, "%"},
};
static const Table growth_table = TABLE("attention", growth_columns);

#define CONFIG(member) offsetof(Shape, config.member)
#define SHAPE(member) offsetof(Shape, member)

static const Column config_columns[] = {
    {"n_layer", NULL, CELL_SIZE, CONFIG(n_layer)},
    {"n_head", NULL, CELL_SIZE, CONFIG(n_head)},
    {"n_head_kv", NULL, CELL_SIZE, CONFIG(n_head_kv)},
    {"d_model", NULL, CELL_SIZE, CONFIG(d_model)},
    {"d_head", NULL, CELL_SIZE, CONFIG(d_head)},
    {"d_ff", NULL, CELL_SIZE, CONFIG(d_ff)},
    {"n_vocab", NULL, CELL_SIZE, CONFIG(n_vocab)},
    {"n_ctx", NULL, CELL_SIZE, CONFIG(n_ctx)},
    {"n_expert", NULL, CELL_SIZE, CONFIG(n_expert)},
    {"n_expert_used", NULL, CELL_SIZE, CONFIG(n_expert_used)},
    {"window", NULL, CELL_SIZE, CONFIG(window)},
    {"tied", NULL, CELL_BOOL, CONFIG(tied)},
};
static const Column sum_columns[] = {
    {"attention_total", NULL, CELL_COUNT, SHAPE(attention)},
    {"attention_share", NULL, CELL_REAL, SHAPE(attention_share)},
    {"value_map_full", NULL, CELL_COUNT, SHAPE(full_map)},
    {"value_map_low_rank", NULL, CELL_COUNT, SHAPE(low_rank_map)},
    {"active_total", NULL, CELL_COUNT, SHAPE(active)},
    {"flops_per_token", NULL, CELL_COUNT, SHAPE(flops)},
    {"kv_bytes_per_token", NULL, CELL_COUNT, SHAPE(kv_bytes)},
};
static const Table config_table = TABLE(NULL, config_columns), sum_table = TABLE(NULL, sum_columns);

static void json_shape(Report *report, const Shape *shape) {
    if (shape->preset) json_text(report, "preset", shape->preset, SIZE_MAX);
    table_json_members(report, &config_table, 0, shape);
    table_show(report, &matrices_table, 0, shape->matrices, shape->n_matrices, sizeof(ShapeRow));
    table_json_members(report, &matrices_table, ~(Columns)SUM_COLUMNS, &shape->sum);
    table_show(report, &apart_table, 0, shape->apart, shape->n_apart, sizeof(ShapeRow));
    table_json_members(report, &sum_table, 0, shape);
    table_show(report, &growth_table, 0, shape->growth, N_LENGTHS, sizeof(Growth));
}

static void print_parameters(Report *report, const Shape *shape) {
    const Config *config = &shape->config;
    char active[32];
    Columns left_out = table_too_wide(&matrices_table, 0, report->width);
    table_show(report, &matrices_table, left_out, shape->matrices, shape->n_matrices, sizeof(ShapeRow));
    if (config->tied)
        printf("%-14s%*s\n", count_name(COUNT_UNEMBEDDING), left_out & SIZE_COLUMN ? 64 : 81,
               "is the embedding");
    print_style(report, STYLE_BOLD);
    table_print_line(report, &matrices_table, left_out, &shape->sum);
    print_style(report, STYLE_PLAIN);
    for (size_t i = 0; i < shape->n_apart; i++)
        table_print_line(report, &matrices_table, left_out, &shape->apart[i]);
    table_print_line(report, &matrices_table, left_out, &shape->all);
    if (config->n_expert > 0) {
        format_count(active, shape->active, ',');
        printf("A token goes through %zu of %zu experts in a layer: %s of the\n"
               "parameters in matrices work for it.\n",
               config->n_expert_used, config->n_expert, active);
    }
    if (config->n_head_kv < config->n_head)
        print_styled(report, STYLE_DIM,
                     "Key and value have fewer heads: each is shared by several query heads.\n");
    if (shape->preset && !config->tied)
        print_styled(report, STYLE_DIM,
                     "Embedding and unembedding are counted apart, as is usual for this model.\n");
}

static void print_attention(const Shape *shape) {
    char attention[32], total[32], low_rank[32], full[32];
    format_count(attention, shape->attention, ',');
    format_count(total, shape->sum.total, ',');
    format_count(low_rank, shape->low_rank_map, ',');
    format_count(full, shape->full_map, ',');
    printf("\nAttention (query, key, value, output) holds %s of the\n"
           "%s parameters in matrices: %.1f%%. A head's value and output maps,\n"
           "one after the other, take d_model numbers to d_model by way of d_head: that is\n"
           "%s parameters, where one full matrix would have d_model^2 = %s.\n",
           attention, total, 100 * shape->attention_share, low_rank, full);
}

static void print_growth(Report *report, const Shape *shape) {
    char flops[32], kv_bytes[32];
    format_count(flops, shape->flops, 'k');
    format_count(kv_bytes, shape->kv_bytes, 'B');
    printf("\nA token costs %sFLOPs in the matrices (2 a parameter; the embedding is\n"
           "looked up) and %s of KV cache in F16. Attention over n tokens costs:\n\n",
           flops, kv_bytes);
    print_styled(report, STYLE_BOLD, "%9s  %30s  %18s  %16s\n", "", "bytes", "FLOPs of the text",
                 "of its last one");
    table_show(report, &growth_table, 0, shape->growth, N_LENGTHS, sizeof(Growth));
    print_styled(report, STYLE_DIM,
                 "Bytes: plain keeps the n x n scores of a layer's heads in F32, attn a tile of 64\n"
                 "keys by 64 queries in each thread, so that only the cache grows. FLOPs: plain\n"
                 "takes every pair, attn the n(n + 1)/2 that the causal mask leaves (and the edge\n"
                 "of a tile). Share: of all the FLOPs that the last token costs.\n");
    if (shape->config.window > 0)
        print_styled(report, STYLE_DIM, "A layer with a window keeps, and sees, its last %zu keys alone.\n",
                     shape->config.window);
}

static bool show(Study *study, void *view, Error *error) {
    const Shape *shape = view;
    const Config *config = &shape->config;
    Report *report = &study->report;
    (void)error;
    if (is_json(report)) {
        json_shape(report, shape);
        return true;
    }
    if (shape->preset)
        print_styled(report, STYLE_DIM, "%s  a shape without weights: bytes as if the matrices were F16\n\n",
                     shape->preset);
    printf("n_layer %zu  n_head %zu  n_head_kv %zu  d_head %zu\n", config->n_layer, config->n_head,
           config->n_head_kv, config->d_head);
    printf("d_model %zu  d_ff %zu  n_vocab %zu  n_ctx %zu\n", config->d_model, config->d_ff, config->n_vocab,
           config->n_ctx);
    if (config->n_expert > 0)
        printf("n_expert %zu  n_expert_used %zu\n", config->n_expert, config->n_expert_used);
    putchar('\n');
    print_parameters(report, shape);
    print_attention(shape);
    print_growth(report, shape);
    return true;
}

static const Option options[] = {{"--preset", NULL, OPTION_TEXT, offsetof(Shape, preset)}};

const View view_shape = {
    .name = "shape",
    .summary = "parameters, bytes and work, matrix by matrix",
    .usage = "MODEL | --preset NAME [options]",
    .help = HELP("  --preset NAME   instead of a file: gpt2, gpt2-medium, gpt2-large, gpt2-xl, gpt3-175b\n"
                 "  -c N            attention's growth around n = N (the model's context)\n"),
    .needs = NEEDS_MODEL | FILE_IS_OPTIONAL | WEIGHTS_ALONE,
    VIEW_OPTIONS(options),
    .size = sizeof(Shape),
    .check = check,
    .compute = compute,
    .show = show,
};
