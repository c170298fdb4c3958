#include "info.h"

#include "cli.h"
#include "counts.h"

#include <inttypes.h>
#include <stdio.h>

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

    Count counts[N_COUNTS];
    uint64_t parameters = 0, bytes = 0;
    count_weights(model, counts);
    printf("\n%-12s %15s %15s\n", "", "parameters", "bytes");
    for (CountKind kind = 0; kind < N_COUNTS; kind++) {
        parameters += counts[kind].parameters;
        bytes += counts[kind].bytes;
        if (counts[kind].parameters)
            printf("%-12s %15" PRIu64 " %15" PRIu64 "\n", count_name(kind), counts[kind].parameters,
                   counts[kind].bytes);
        else if (kind == COUNT_UNEMBEDDING)
            printf("%-12s %15s %15s\n", count_name(kind), "= embedding", "");
    }
    printf("%-12s %15" PRIu64 " %15" PRIu64 "\n", "all", parameters, bytes);
}
