/* A Hugging Face folder as a checkpoint. For this folder only. */
#ifndef ATTN_FOLDER_H
#define ATTN_FOLDER_H

#include "hub.h"

/*
 * Fills the checkpoint from the folder at `path`: config.json; the weights in model.safetensors or the parts that
 * model.safetensors.index.json lists, otherwise in pytorch_model.bin likewise, or only in `file` (a name in the folder)
 * where that is not NULL and no index lists it; the vocabulary and what is said about it. Fails with an error that says
 * what is missing or wrong.
 */
bool folder_read(Checkpoint *checkpoint, const char *path, const char *file, Error *error);

/* The folder around a file of weights. */
extern const Format format_safetensors, format_torch;

/* The files that it is filled from, while that goes on. */
typedef struct Folder {
    Builder builder;
    const char *path;
    Json *config, *tokenizer_config, *generation_config; /* the last two may be NULL */
    const HubFamily *family;
    StoredTensors stored;
    Rearrangement *rearrangements; /* [n_turnings] */
    size_t n_turnings, rearrangements_room;
    const Stored **by_name;    /* the stored tensors sorted by name, once somebody asks */
    bool tied;                 /* the output's weights are the embedding's */
    struct FolderVocab *vocab; /* of a vocabulary without tokenizer.json, while it is read; or NULL */
} Folder;

enum {
    MAX_CONFIG_BYTES = 1 << 26,    /* of a JSON text but tokenizer.json */
    MAX_TOKENIZER_BYTES = 1 << 29, /* of tokenizer.json */
};

enum { MAX_PATH_BYTES = 4096 };

/* The path of a file in the folder; of one that is now looked for; whether it is there. Each fails once the builder has. */
bool folder_join(Folder *folder, const char *name, char path[static MAX_PATH_BYTES]);
bool folder_look(Folder *folder, const char *name, char path[static MAX_PATH_BYTES]);
bool folder_exists(Folder *folder, const char *name);

/*
 * Reads a file of the folder behind `before` bytes of room. With `own` the checkpoint frees it, otherwise the caller
 * does. NULL where there is none, or once it has failed.
 */
char *folder_text(Folder *folder, const char *name, size_t most, size_t before, bool own, size_t *n);

/* A JSON text of the folder; NULL where there is none, or once it has failed. */
Json *folder_json(Folder *folder, const char *name);

/* Adds the stored tensors under GGUF's names, and turns those that have to be (tensors.c). */
void folder_add_tensors(Folder *folder);

/* Adds what the folder says about its vocabulary and conversations (tokens.c). */
void folder_add_tokenizer(Folder *folder);

/* Adds a vocabulary out of tokenizer.model, or vocab.json and merges.txt; nothing where there is neither (vocab.c). */
void folder_add_vocabulary(Folder *folder);
void folder_forget_vocabulary(Folder *folder);

/*
 * The id of a token of that vocabulary: by its text, or what special_tokens_map.json calls "bos_token" and so on if that is
 * empty; or by what tokenizer.model says of "bos", "eos", "unk" and "pad". False if there is none.
 */
bool folder_token(const Folder *folder, const char *role, String text, int64_t *id);
bool folder_role(const Folder *folder, const char *which, int64_t *id);

/* A token as these files name it: a text, or an object with that as "content". */
String folder_token_text(const Json *token);

/* An id that is written in digits, or −1. */
int64_t folder_id(String digits);

#endif
