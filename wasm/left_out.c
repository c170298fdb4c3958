/*
 * The parts that the module leaves out, and what it says in their place: files other than GGUF, vocabularies that are a
 * tokenizer.json (with them Unicode's normal forms), the plain kernels, and files to be written.
 */
#include "base/locale.h"
#include "checkpoint/format.h"
#include "guess.h"
#include "hub/folder.h"
#include "kernels/sets.h"
#include "page/page.h"
#include "views/patch.h"
#include "vocab/pipeline.h"
#include "vocab/vocab.h"

const Kernels kernels_scalar = {.name = "scalar"}; /* as where a CPU lacks a set */

/* A page has one locale. */
PlainLocale locale_begin(void) { return (PlainLocale){0}; }
void locale_end(PlainLocale locale) { (void)locale; }

bool refuse_foreign(const MappedFile *file, Error *error) {
    return error_set(
        error, "%s: not a GGUF file, and a page takes no other; ./quantize makes one of whatever ./run reads",
        file->path);
}

static bool is_none(const unsigned char *bytes, size_t n) {
    (void)bytes, (void)n;
    return false;
}

const Format format_safetensors = {is_none, NULL}, format_torch = {is_none, NULL},
             format_llmc = {is_none, NULL}, format_llmc_tokenizer = {is_none, NULL},
             format_llama2c = {is_none, NULL}, format_llama2c_tokenizer = {is_none, NULL};

/* There are no folders. */
bool folder_read(Checkpoint *checkpoint, const char *path, const char *file, Error *error) {
    (void)checkpoint, (void)path, (void)file, (void)error;
    return false;
}

bool vocab_load_json(Vocab *vocab, const Checkpoint *checkpoint, Error *error) {
    (void)vocab;
    return checkpoint_error(
        checkpoint, error,
        "its vocabulary is a tokenizer.json, which a page does not take; ./quantize writes it as GGUF");
}

/* Views guess nothing. */
Guesses *guesses_new(Speculate speculate, Error *error) {
    (void)speculate;
    error_set(error, "a page guesses nothing");
    return NULL;
}
void guesses_free(Guesses *guesses) { (void)guesses; }
void guesses_read(Guesses *guesses, const int32_t *ids, size_t n) { (void)guesses, (void)ids, (void)n; }
void guesses_part(Guesses *guesses) { (void)guesses; }
void guesses_learn(Guesses *guesses, int32_t id) { (void)guesses, (void)id; }
size_t guesses_make(const Guesses *guesses, int32_t *ids, size_t most) {
    return (void)guesses, (void)ids, (void)most, 0;
}
void guesses_time(Guesses *guesses, size_t n, double seconds) { (void)guesses, (void)n, (void)seconds; }
double guesses_now(void) { return 0; }

/* No vocabulary has one. */
void pipeline_free(Pipeline *pipeline) { (void)pipeline; }

/* `view` without --json writes a file: never reached, for -o is refused before. */
bool page_file_open(Page *page, Error *error) {
    (void)page;
    return error_set(error, "-o: there are no files here; ask with --json");
}

bool page_file_write(Page *page, Error *error) { return page_file_open(page, error); }
void page_file_abandon(Page *page) { (void)page; }

bool patch_figure(const PatchView *v, Error *error) {
    (void)v;
    return error_set(error, "--svg: there are no files here");
}

/* --pairs is a file: never reached, for it is refused before. */
bool pairs_read_line(Pairs *pairs, bool *ends, Error *error) {
    (void)pairs, (void)ends;
    return error_set(error, "--pairs: there are no files here");
}

/* Edges between heads: a page shows cells. */
bool path_goes_up(const Config *config, const Path *path) {
    (void)config, (void)path;
    return true;
}

bool paths_run(Paths *paths, const int32_t *clean, const int32_t *corrupted, const Metric *metric,
               Arena *arena, Error *error) {
    (void)paths, (void)clean, (void)corrupted, (void)metric, (void)arena;
    return error_set(error, "--path: edges are not patched in a page; ./study patch does it");
}

void paths_free(Paths *paths) { (void)paths; }
