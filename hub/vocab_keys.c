#include "vocab.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * Rows of the embedding: there is a token for each. 0 where there is none yet. Where config.json alone says it, no more than
 * the files with the tokens pay for.
 */
static size_t count_rows(const Folder *folder) {
    const Checkpoint *checkpoint = folder->builder.checkpoint;
    for (size_t i = 0; i < checkpoint->n_tensors; i++) {
        const Tensor *tensor = &checkpoint->tensors[i];
        if (string_equals(tensor->name, "token_embd.weight") && tensor->dims[1] < 1 << 24)
            return (size_t)tensor->dims[1];
    }
    size_t said =
        checkpoint->vocabulary_only ? (size_t)hub_number(&folder->builder, "attn.embedding_rows") : 0;
    return said <= 4 * (folder->vocab->model.n + folder->vocab->n_added) + 4096 ? said : 0;
}

/*
 * Puts the added tokens into their places among the pieces. An id of the model that no token has becomes an unused piece. False
 * without memory.
 */
static bool place_added(const Folder *folder, FolderVocab *vocab) {
    SentencePiece *model = &vocab->model;
    size_t n = model->n, rows = count_rows(folder);
    size_t most = rows > n ? rows : rows ? n : 4 * (n + vocab->n_added) + 4096;
    if (n < rows) n = rows;
    for (size_t i = vocab->n_added; i-- > 0;) {
        uint64_t id = (uint64_t)vocab->added[i].id;
        if (id < most && id >= n) n = (size_t)id + 1;
    }
    Piece *pieces = realloc(model->pieces, n * sizeof *pieces);
    if (!pieces) return false;
    model->pieces = pieces;
    while (vocab->n_added && (uint64_t)vocab->added[vocab->n_added - 1].id >= n)
        vocab->n_added--; /* no row of the embedding is theirs: llama.cpp's converter drops them, too */
    while (model->n < n) pieces[model->n++] = (Piece){{"", 0}, -10000, PIECE_UNUSED};
    for (size_t i = 0; i < vocab->n_added; i++) {
        const Added *token = &vocab->added[i];
        Piece *piece = &pieces[token->id];
        piece->text = token->text;
        if (piece->type != PIECE_UNKNOWN) piece->type = token->special ? PIECE_CONTROL : PIECE_USER_DEFINED;
    }
    return true;
}

/* The pieces as an array of GGUF. Spaces stand as such in those that are found in the text as it is. */
static void put_pieces(FolderWriter *writer, const SentencePiece *model) {
    static const char sign[] = "\xe2\x96\x81";
    for (size_t i = 0; i < model->n; i++) {
        String text = model->pieces[i].text;
        size_t begin = writer->n, kept = 0;
        char name[32];
        put(writer, &(uint64_t){0}, sizeof(uint64_t));
        if (text.n == 0) text = (String){name, (size_t)snprintf(name, sizeof name, "[PAD%zu]", i)};
        for (size_t k = 0; model->pieces[i].type == PIECE_USER_DEFINED && k + 3 <= text.n;) {
            bool is_sign = memcmp(text.data + k, sign, 3) == 0;
            if (is_sign) put(writer, text.data + kept, k - kept), put(writer, " ", 1), kept = k + 3;
            k += is_sign ? 3 : 1;
        }
        put(writer, text.data + kept, text.n - kept);
        uint64_t n = writer->n - begin - sizeof n;
        if (writer->out) memcpy(writer->out + begin, &n, sizeof n);
    }
}

/* Fails for what nothing here does. */
static bool check_model(Folder *folder, const SentencePiece *model) {
    static const char *const types[] = {"of an unknown kind", "Unigram", "BPE", "of whole words",
                                        "of characters"};
    const char *type = types[model->model_type < 5 ? model->model_type : 0];
    if (model->model_type != 2)
        return builder_fail(&folder->builder,
                            "tokenizer.model: its model is %s; of SentencePiece's, BPE is read", type);
    if (model->n_charsmap)
        return builder_fail(
            &folder->builder,
            "tokenizer.model: it normalises text by the rules '%.*s', and only 'identity' is read",
            string_shown(model->normalization), model->normalization.data);
    return (model->escape_whitespaces && !model->suffixed) ||
           builder_fail(&folder->builder,
                        "tokenizer.model: it does not write spaces as the first character of words");
}

void folder_vocab_to_keys(Folder *folder) {
    Builder *builder = &folder->builder;
    FolderVocab *vocab = folder->vocab;
    SentencePiece *model = &vocab->model;
    const Json *space = json_get(folder->tokenizer_config, "add_prefix_space");
    if (!check_model(folder, model)) return;
    if (!place_added(folder, vocab)) builder_fail(builder, "not enough memory for tokenizer.model");
    FolderWriter writer = {NULL, 0};
    put_pieces(&writer, model);
    size_t n_bytes = writer.n;
    float *scores = builder_room(builder, model->n * sizeof *scores);
    int32_t *types = builder_room(builder, model->n * sizeof *types);
    writer = (FolderWriter){builder_room(builder, n_bytes + STRING_PADDING), 0};
    if (!builder->ok) return;
    put_pieces(&writer, model);
    for (size_t i = 0; i < model->n; i++)
        scores[i] = model->pieces[i].score, types[i] = model->pieces[i].type;
    builder_string(builder, "tokenizer.ggml.model", string_from("llama"));
    builder_array(builder, "tokenizer.ggml.tokens", VALUE_STRING, model->n, writer.out, n_bytes);
    builder_array(builder, "tokenizer.ggml.scores", VALUE_F32, model->n, scores, model->n * sizeof *scores);
    builder_array(builder, "tokenizer.ggml.token_type", VALUE_I32, model->n, types, model->n * sizeof *types);
    builder_bool(builder, "tokenizer.ggml.add_space_prefix",
                 space && space->kind == JSON_BOOL ? space->boolean : model->add_dummy_prefix);
    if (model->remove_extra_whitespaces)
        builder_bool(builder, "tokenizer.ggml.remove_extra_whitespaces", true);
}
