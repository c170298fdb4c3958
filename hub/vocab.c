#include "vocab.h"

#include <stdio.h>
#include <stdlib.h>

int64_t folder_id(String digits) {
    char text[16];
    char *end;
    if (digits.n == 0 || digits.n > 9) return -1;
    snprintf(text, sizeof text, "%.*s", (int)digits.n, digits.data);
    int64_t id = strtoll(text, &end, 10);
    return *end ? -1 : id;
}

String folder_token_text(const Json *token) {
    return json_string(token && token->kind == JSON_OBJECT ? json_get(token, "content") : token);
}

static size_t count_tokens(const FolderVocab *vocab) { return vocab->json ? vocab->json->n : vocab->model.n; }

/* Word i of the vocabulary; *id is −1 where it is none. */
static String token_at(const FolderVocab *vocab, size_t i, int64_t *id) {
    *id = (int64_t)i;
    if (!vocab->json) return vocab->model.pieces[i].text;
    if (!json_integer(json_item(vocab->json, i), id)) *id = -1;
    return json_key(vocab->json, i);
}

static int compare_texts(const void *a, const void *b) {
    const Added *x = a, *y = b;
    int order = string_compare(x->text, y->text);
    return order ? order : (x->order > y->order) - (x->order < y->order);
}

static int compare_ids(const void *a, const void *b) {
    const Added *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id) : compare_texts(a, b);
}

/* The names of all special tokens; GPT-2's own, where nobody says which it is. */
static void list_names(Folder *folder, FolderVocab *vocab) {
    static const char *const roles[] = {"eos_token", "bos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    enum { N_ROLES = sizeof roles / sizeof *roles };
    const Json *from[] = {folder->tokenizer_config, vocab->map}, *lists[2];
    size_t n = 0, room = 2 * N_ROLES + 1;
    for (size_t k = 0; k < 2; k++) {
        lists[k] = json_get(from[k], "additional_special_tokens");
        if (lists[k] && lists[k]->kind != JSON_ARRAY) lists[k] = NULL;
        if (lists[k]) room += lists[k]->n;
    }
    vocab->names = builder_room(&folder->builder, room * sizeof *vocab->names);
    if (!vocab->names) return;
    for (size_t i = 0; i < N_ROLES; i++) {
        for (size_t k = 0; k < 2; k++) vocab->names[n++] = folder_token_text(json_get(from[k], roles[i]));
        if (n == 2 && !vocab->names[0].n && !vocab->names[1].n)
            vocab->names[1] = string_from("<|endoftext|>");
    }
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; lists[k] && i < lists[k]->n; i++)
            vocab->names[n++] = folder_token_text(&lists[k]->items[i]);
    qsort(vocab->names, n, sizeof *vocab->names, string_order);
    vocab->n_names = n;
}

static bool is_named(const FolderVocab *vocab, String text) {
    return text.n && bsearch(&text, vocab->names, vocab->n_names, sizeof text, string_order);
}

static void add_token(FolderVocab *vocab, Added token) {
    token.order = vocab->n_added;
    if (token.text.n && token.id >= 0) vocab->added[vocab->n_added++] = token;
}

static void list_added(Folder *folder, FolderVocab *vocab) {
    const Json *decoder = json_get(folder->tokenizer_config, "added_tokens_decoder"), *listed = vocab->listed;
    if (decoder && decoder->kind != JSON_OBJECT) decoder = NULL;
    if (decoder || (listed && listed->kind != JSON_OBJECT)) listed = NULL;
    size_t n_tokens = count_tokens(vocab);
    size_t room = n_tokens + (decoder ? decoder->n : 0) + (listed ? listed->n : 0);
    vocab->added = builder_room(&folder->builder, room * sizeof *vocab->added);
    if (!vocab->added) return;
    for (size_t i = 0; decoder && i < decoder->n; i++) {
        const Json *token = json_item(decoder, i), *special = json_get(token, "special");
        int64_t id = folder_id(json_key(decoder, i));
        String text = json_string(json_get(token, "content"));
        bool is_special =
            (special && special->kind == JSON_BOOL && special->boolean) || is_named(vocab, text);
        add_token(vocab, (Added){text, id, 0, token, is_special});
    }
    for (size_t i = 0; listed && i < listed->n; i++) {
        String text = json_key(listed, i);
        int64_t id = -1;
        if (json_integer(json_item(listed, i), &id))
            add_token(vocab, (Added){text, id, 0, NULL, is_named(vocab, text)});
    }
    for (size_t i = 0; i < n_tokens; i++) {
        int64_t id;
        String text = token_at(vocab, i, &id);
        if (is_named(vocab, text)) add_token(vocab, (Added){text, id, 0, NULL, true});
    }
    size_t n = 0;
    qsort(vocab->added, vocab->n_added, sizeof *vocab->added, compare_texts);
    for (size_t i = 0; i < vocab->n_added; i++)
        if (i == 0 || string_compare(vocab->added[i].text, vocab->added[n - 1].text) != 0)
            vocab->added[n++] = vocab->added[i];
    qsort(vocab->added, n, sizeof *vocab->added, compare_ids);
    vocab->n_added = n;
}

static void read_pieces(Folder *folder, FolderVocab *vocab) {
    Error why;
    if (sentencepiece_read(&vocab->model, vocab->text, vocab->n_text, &why)) return;
    vocab->model.n = 0;
    builder_fail(&folder->builder, "tokenizer.model: %s", why.message);
}

static void read_vocab(Folder *folder, FolderVocab *vocab) {
    Error why;
    vocab->text = folder_text(folder, "vocab.json", MAX_CONFIG_BYTES, 0, false, &vocab->n_text);
    if (vocab->text)
        vocab->merges = folder_text(folder, "merges.txt", MAX_CONFIG_BYTES, 0, false, &vocab->n_merges);
    if (!vocab->merges) return;
    Json *json = json_parse(vocab->text, vocab->n_text, &why);
    if (json && json->kind == JSON_OBJECT) {
        vocab->json = json;
        return;
    }
    builder_fail(&folder->builder, "vocab.json: %s",
                 json ? "not an object of tokens with their ids" : why.message);
    json_free(json);
}

void folder_add_vocabulary(Folder *folder) {
    FolderVocab *vocab = folder->vocab = builder_room(&folder->builder, sizeof *vocab);
    if (!vocab) return;
    *vocab = (FolderVocab){0};
    vocab->text = folder_text(folder, "tokenizer.model", MAX_TOKENIZER_BYTES, 0, false, &vocab->n_text);
    if (vocab->text)
        read_pieces(folder, vocab);
    else
        read_vocab(folder, vocab);
    if (!folder->builder.ok || count_tokens(vocab) == 0) return;
    vocab->listed = folder_json(folder, "added_tokens.json");
    vocab->map = folder_json(folder, "special_tokens_map.json");
    list_names(folder, vocab);
    if (folder->builder.ok) list_added(folder, vocab);
    if (folder->builder.ok) (vocab->json ? folder_vocab_to_json : folder_vocab_to_keys)(folder);
}

void folder_forget_vocabulary(Folder *folder) {
    FolderVocab *vocab = folder->vocab;
    folder->vocab = NULL;
    if (!vocab) return;
    json_free(vocab->json);
    json_free(vocab->listed);
    json_free(vocab->map);
    free(vocab->text);
    free(vocab->merges);
    free(vocab->model.pieces);
}

bool folder_token(const Folder *folder, const char *role, String text, int64_t *id) {
    const FolderVocab *vocab = folder->vocab;
    if (!vocab) return false;
    if (text.n == 0) text = folder_token_text(json_get(vocab->map, role));
    for (size_t i = 0; text.n && i < count_tokens(vocab); i++)
        if (string_compare(token_at(vocab, i, id), text) == 0 && *id >= 0) return true;
    for (size_t i = 0; text.n && i < vocab->n_added; i++)
        if (string_compare(vocab->added[i].text, text) == 0) return *id = vocab->added[i].id, true;
    return false;
}

bool folder_role(const Folder *folder, const char *which, int64_t *id) {
    const SentencePiece *model = folder->vocab ? &folder->vocab->model : NULL;
    bool is_unknown = strcmp(which, "unk") == 0;
    for (size_t i = 0; model && i < model->n; i++) {
        const Piece *piece = &model->pieces[i];
        String name = *which == 'b' ? model->bos : *which == 'e' ? model->eos : model->pad;
        if (is_unknown ? piece->type != PIECE_UNKNOWN
                       : piece->type != PIECE_CONTROL || string_compare(piece->text, name) != 0)
            continue;
        *id = (int64_t)i;
        return true;
    }
    return false;
}
