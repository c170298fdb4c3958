#include "info.h"

#include "cli.h"

#include <inttypes.h>
#include <stdio.h>

/* Parameters and bytes of one kind of matrix, all layers together. */
typedef struct Count {
    uint64_t parameters, bytes;
} Count;

enum {
    EMBEDDING,
    POSITIONS,
    QUERY,
    KEY,
    VALUE,
    OUTPUT,
    UP,
    GATE,
    DOWN,
    UNEMBEDDING,
    NORMS,
    BIASES,
    N_COUNTS
};

static void count_matrix(Count *count, const Matrix *matrix) {
    if (!matrix->data) return;
    count->parameters += (uint64_t)matrix->rows * matrix->cols;
    count->bytes += (uint64_t)matrix->rows * dtype_bytes(matrix->dtype, matrix->cols);
}

static void count_linear(Count counts[N_COUNTS], int kind, const Linear *linear) {
    count_matrix(&counts[kind], &linear->w);
    if (!linear->w.data || !linear->bias) return;
    counts[BIASES].parameters += linear->w.rows;
    counts[BIASES].bytes += linear->w.rows * sizeof(float);
}

static void count_norm(Count counts[N_COUNTS], const Norm *norm, size_t d_model) {
    uint64_t n = (uint64_t)d_model * (norm->bias ? 2 : 1);
    counts[NORMS].parameters += n;
    counts[NORMS].bytes += n * sizeof(float);
}

static void count_weights(const Model *model, Count counts[N_COUNTS]) {
    const Config *config = model_config(model);
    const Weights *weights = model_weights(model);
    count_matrix(&counts[EMBEDDING], &weights->embedding);
    count_matrix(&counts[POSITIONS], &weights->positions);
    for (size_t layer = 0; layer < config->n_layer; layer++) {
        const LayerWeights *w = &weights->layers[layer];
        count_norm(counts, &w->attn_norm, config->d_model);
        count_norm(counts, &w->mlp_norm, config->d_model);
        count_linear(counts, QUERY, &w->attention.q);
        count_linear(counts, KEY, &w->attention.k);
        count_linear(counts, VALUE, &w->attention.v);
        count_linear(counts, OUTPUT, &w->attention.out);
        count_linear(counts, UP, &w->mlp.up);
        count_linear(counts, GATE, &w->mlp.gate);
        count_linear(counts, DOWN, &w->mlp.down);
    }
    count_norm(counts, &weights->final_norm, config->d_model);
    if (!config->tied) count_linear(counts, UNEMBEDDING, &weights->unembedding);
}

static void print_types(const Checkpoint *checkpoint) {
    printf("types       ");
    for (uint32_t dtype = 0; dtype < 64; dtype++) {
        const DTypeInfo *info = dtype_info(dtype);
        size_t n = 0;
        for (size_t j = 0; info && j < checkpoint_n_tensors(checkpoint); j++)
            n += checkpoint_tensor(checkpoint, j)->dtype == (DType)dtype;
        if (n) printf(" %s in %zu tensors ", info->name, n);
    }
    putchar('\n');
}

/* The model's name comes from the file: as a JSON string no control character gets through. */
static void print_family(const Config *config, const Checkpoint *checkpoint) {
    String name = {0};
    printf("model        family %s", config->family->architecture);
    if (checkpoint_string(checkpoint, "general.name", &name, NULL) && name.data) {
        printf(", named ");
        print_json_string(stdout, name.data, (size_t)string_shown(name));
    }
    putchar('\n');
}

void print_info(const Model *model, const Tokenizer *tokenizer) {
    const Config *config = model_config(model);
    const Checkpoint *checkpoint = model_checkpoint(model);
    AttentionShape shape = model_attention_shape(model);
    printf("file         %s (%s, %.1f MiB)\n", checkpoint_path(checkpoint), checkpoint_format(checkpoint),
           (double)checkpoint_file_bytes(checkpoint) / (1 << 20));
    print_family(config, checkpoint);
    printf("shape        n_layer %zu, n_head %zu, n_head_kv %zu, d_model %zu, d_head %zu, d_ff %zu, n_vocab "
           "%zu\n",
           config->n_layer, config->n_head, config->n_head_kv, config->d_model, config->d_head, config->d_ff,
           config->n_vocab);
    printf("context      %zu tokens, KV cache %zu bytes a token in F16, %zu in F32\n", config->n_ctx,
           attention_kv_bytes(&shape, DTYPE_F16), attention_kv_bytes(&shape, DTYPE_F32));
    if (tokenizer)
        printf("tokenizer    %s, %zu tokens, bos %" PRId32 "%s, eos %" PRId32 "\n", tokenizer_kind(tokenizer),
               tokenizer_n_vocab(tokenizer), tokenizer_bos(tokenizer),
               tokenizer_adds_bos(tokenizer) ? " (put in front)" : "", tokenizer_eos(tokenizer));
    else
        printf("tokenizer    none in this file; name one with -z\n");
    print_types(checkpoint);

    static const char *const names[N_COUNTS] = {
        [EMBEDDING] = "embedding", [POSITIONS] = "positions",     [QUERY] = "query", [KEY] = "key",
        [VALUE] = "value",         [OUTPUT] = "output",           [UP] = "up",       [GATE] = "gate",
        [DOWN] = "down",           [UNEMBEDDING] = "unembedding", [NORMS] = "norms", [BIASES] = "biases",
    };
    Count counts[N_COUNTS] = {{0, 0}};
    uint64_t parameters = 0, bytes = 0;
    count_weights(model, counts);
    printf("\n%-12s %15s %15s\n", "", "parameters", "bytes");
    for (int i = 0; i < N_COUNTS; i++) {
        parameters += counts[i].parameters;
        bytes += counts[i].bytes;
        if (counts[i].parameters)
            printf("%-12s %15" PRIu64 " %15" PRIu64 "\n", names[i], counts[i].parameters, counts[i].bytes);
        else if (i == UNEMBEDDING)
            printf("%-12s %15s %15s\n", names[i], "= embedding", "");
    }
    printf("%-12s %15" PRIu64 " %15" PRIu64 "\n", "all", parameters, bytes);
}
