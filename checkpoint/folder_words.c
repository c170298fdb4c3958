#include "folder_words.h"

#include <stdlib.h>

static size_t count_words(const Words *words) { return words->vocab ? words->vocab->n : words->model.n; }

/* Word i of the vocabulary; *id is −1 where it is none. */
static String word_at(const Words *words, size_t i, int64_t *id) {
    *id = (int64_t)i;
    if (!words->vocab) return words->model.pieces[i].text;
    if (!json_integer(json_item(words->vocab, i), id)) *id = -1;
    return json_key(words->vocab, i);
}

static int compare_names(const void *a, const void *b) {
    return string_compare(*(const String *)a, *(const String *)b);
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

static String token_text(const Json *token) {
    return json_string(token && token->kind == JSON_OBJECT ? json_get(token, "content") : token);
}

/* The names of all special tokens; GPT-2's own, where nobody says which it is. */
static void list_names(Folder *folder, Words *words) {
    static const char *const roles[] = {"eos_token", "bos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    enum { N_ROLES = sizeof roles / sizeof *roles };
    const Json *from[] = {folder->tokenizer_config, words->map}, *lists[2];
    size_t n = 0, room = 2 * N_ROLES + 1;
    for (size_t k = 0; k < 2; k++) {
        lists[k] = json_get(from[k], "additional_special_tokens");
        if (lists[k] && lists[k]->kind != JSON_ARRAY) lists[k] = NULL;
        if (lists[k]) room += lists[k]->n;
    }
    words->names = make_room(&folder->maker, room * sizeof *words->names);
    if (!words->names) return;
    for (size_t i = 0; i < N_ROLES; i++) {
        for (size_t k = 0; k < 2; k++) words->names[n++] = token_text(json_get(from[k], roles[i]));
        if (n == 2 && !words->names[0].n && !words->names[1].n)
            words->names[1] = (String){"<|endoftext|>", 13};
    }
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; lists[k] && i < lists[k]->n; i++)
            words->names[n++] = token_text(&lists[k]->items[i]);
    qsort(words->names, n, sizeof *words->names, compare_names);
    words->n_names = n;
}

static bool is_named(const Words *words, String text) {
    return text.n && bsearch(&text, words->names, words->n_names, sizeof text, compare_names);
}

static void add_token(Words *words, Added token) {
    token.order = words->n_added;
    if (token.text.n && token.id >= 0) words->added[words->n_added++] = token;
}

static void list_added(Folder *folder, Words *words) {
    const Json *decoder = json_get(folder->tokenizer_config, "added_tokens_decoder"), *listed = words->listed;
    if (decoder && decoder->kind != JSON_OBJECT) decoder = NULL;
    if (decoder || (listed && listed->kind != JSON_OBJECT)) listed = NULL;
    size_t n_words = count_words(words);
    size_t room = n_words + (decoder ? decoder->n : 0) + (listed ? listed->n : 0);
    words->added = make_room(&folder->maker, room * sizeof *words->added);
    if (!words->added) return;
    for (size_t i = 0; decoder && i < decoder->n; i++) {
        const Json *token = json_item(decoder, i), *special = json_get(token, "special");
        int64_t id = folder_id(json_key(decoder, i));
        String text = json_string(json_get(token, "content"));
        bool is_special =
            (special && special->kind == JSON_BOOL && special->boolean) || is_named(words, text);
        add_token(words, (Added){text, id, 0, token, is_special});
    }
    for (size_t i = 0; listed && i < listed->n; i++) {
        String text = json_key(listed, i);
        int64_t id = -1;
        if (json_integer(json_item(listed, i), &id))
            add_token(words, (Added){text, id, 0, NULL, is_named(words, text)});
    }
    for (size_t i = 0; i < n_words; i++) {
        int64_t id;
        String text = word_at(words, i, &id);
        if (is_named(words, text)) add_token(words, (Added){text, id, 0, NULL, true});
    }
    size_t n = 0;
    qsort(words->added, words->n_added, sizeof *words->added, compare_texts);
    for (size_t i = 0; i < words->n_added; i++)
        if (i == 0 || string_compare(words->added[i].text, words->added[n - 1].text) != 0)
            words->added[n++] = words->added[i];
    qsort(words->added, n, sizeof *words->added, compare_ids);
    words->n_added = n;
}

static void read_pieces(Folder *folder, Words *words) {
    Error why;
    if (sentencepiece_read(&words->model, words->text, words->n_text, &why)) return;
    words->model.n = 0;
    make_fail(&folder->maker, "tokenizer.model: %s", why.message);
}

static void read_vocab(Folder *folder, Words *words) {
    Error why;
    words->text = folder_text(folder, "vocab.json", MAX_CONFIG_BYTES, 0, false, &words->n_text);
    if (words->text)
        words->merges = folder_text(folder, "merges.txt", MAX_CONFIG_BYTES, 0, false, &words->n_merges);
    if (!words->merges) return;
    Json *vocab = json_parse(words->text, words->n_text, &why);
    if (vocab && vocab->kind == JSON_OBJECT) {
        words->vocab = vocab;
        return;
    }
    make_fail(&folder->maker, "vocab.json: %s",
              vocab ? "not an object of tokens with their ids" : why.message);
    json_free(vocab);
}

void folder_add_vocabulary(Folder *folder) {
    Words *words = folder->words = make_room(&folder->maker, sizeof *words);
    if (!words) return;
    *words = (Words){0};
    words->text = folder_text(folder, "tokenizer.model", MAX_TOKENIZER_BYTES, 0, false, &words->n_text);
    if (words->text)
        read_pieces(folder, words);
    else
        read_vocab(folder, words);
    if (!folder->maker.ok || count_words(words) == 0) return;
    words->listed = folder_json(folder, "added_tokens.json");
    words->map = folder_json(folder, "special_tokens_map.json");
    list_names(folder, words);
    if (folder->maker.ok) list_added(folder, words);
    if (folder->maker.ok) (words->vocab ? words_make_json : words_make_keys)(folder);
}

void folder_forget_words(Folder *folder) {
    Words *words = folder->words;
    folder->words = NULL;
    if (!words) return;
    json_free(words->vocab);
    json_free(words->listed);
    json_free(words->map);
    free(words->text);
    free(words->merges);
    free(words->model.pieces);
}

bool folder_word(const Folder *folder, const char *role, String text, int64_t *id) {
    const Words *words = folder->words;
    if (!words) return false;
    if (text.n == 0) text = token_text(json_get(words->map, role));
    for (size_t i = 0; text.n && i < count_words(words); i++)
        if (string_compare(word_at(words, i, id), text) == 0 && *id >= 0) return true;
    for (size_t i = 0; text.n && i < words->n_added; i++)
        if (string_compare(words->added[i].text, text) == 0) return *id = words->added[i].id, true;
    return false;
}

bool folder_role(const Folder *folder, const char *which, int64_t *id) {
    const SentencePiece *model = folder->words ? &folder->words->model : NULL;
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
