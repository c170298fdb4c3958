/*
 * A case of the fuzzer: one call of run, study or quantize, with all that it reads. On disk a call is a row of parts, each "TAG
 * LENGTH", a newline, LENGTH bytes, a newline, so that `less` shows it:
 *
 *   w  a word of the command line, the first is the program: run, study, quantize, or load (tests/anyfile.h), or keys
 *      (tests/anykeys.h)
 *   i  stdin; without it stdin is a terminal. To `study serve` it is what a client sends (serve.c), to `keys` what is pressed
 *   y  what is typed on that terminal, in lines
 *   a, b, m  the files a, b and model.bin in the folder where the call is made
 *   c, s, j  config.json, model.safetensors and tokenizer.json there, which is then a Hugging Face folder
 *   o, v, r, d, l  tokenizer.model, vocab.json, merges.txt, tokenizer_config.json and added_tokens.json of such a folder
 *   p  its pytorch_model.bin
 *   u  the file "answers", which run --batch may go on with; h is where such a file that the call has made is cut, in bytes, so
 *      that the same call mends it
 *   A, B, M  the same by two characters, of seeds.c: llama, gpt2 or llama2.c's (0, 1, 2), and the type of its weights (0 to
 *      4, mixed a to c; of llama2.c 1 is the vocabulary). So calls that differ in their options alone take few bytes
 *   k  the value of ATTN_KERNEL
 *   t  (any bytes) stdout and stderr are a terminal
 *
 * call.c makes the call and checks what came of it, mutate.c makes other calls of it, seeds.c the first ones.
 */
#ifndef ATTN_TESTS_FUZZ_H
#define ATTN_TESTS_FUZZ_H

#include "views/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_PARTS = 64 };

typedef struct Part {
    char tag;
    const unsigned char *bytes; /* [n] borrowed */
    size_t n;
} Part;

typedef struct Call {
    Part parts[MAX_PARTS];
    size_t n;
} Call;

/* The parts that the bytes hold, up to the first that is none. */
Call call_read(const unsigned char *bytes, size_t n);

/* Writes the parts that have room, and returns how many bytes they take. */
size_t call_write(const Call *call, unsigned char *bytes, size_t room);

/* Appends a part, if there is room for one. */
void call_add(Call *call, char tag, const void *bytes, size_t n);

/* The first part of that tag, or NULL. */
Part *call_find(Call *call, char tag);

/* The programs' main, and the tables of options of two. */
int run_main(int argc, char **argv);
int study_main(int argc, char **argv);
int quantize_main(int argc, char **argv);
extern const Options fuzz_run_options, fuzz_quantize_options;
extern const View *const *const fuzz_views; /* [fuzz_n_views] */
extern const size_t fuzz_n_views;

/* Makes the call, and aborts with a line on stderr where what comes of it is not as it must be. */
void fuzz_call(const unsigned char *bytes, size_t n);

/* Another call made of this one, in place; `seed` says which. */
size_t mutate_call(unsigned char *bytes, size_t n, size_t room, unsigned seed);

/* The same of a GGUF file alone. */
size_t mutate_gguf(unsigned char *bytes, size_t n, size_t room);

/* The same of JSON, of config.json by its keys, and of safetensors, whose header is JSON behind its length. */
size_t mutate_json(unsigned char *bytes, size_t n, size_t room);
size_t mutate_config(unsigned char *bytes, size_t n, size_t room);
size_t mutate_safetensors(unsigned char *bytes, size_t n, size_t room);

/* The same of what torch.save writes. */
size_t mutate_torch(unsigned char *bytes, size_t n, size_t room);

/* The same of a message of protobuf, at some depth. */
size_t mutate_message(unsigned char *bytes, size_t n, size_t room);

/* The same of the lines of a data set. */
size_t mutate_lines(unsigned char *bytes, size_t n, size_t room);

/* The same of a request of HTTP that asks for a view. */
size_t mutate_http(unsigned char *bytes, size_t n, size_t room);

/* The files that a part's tag may stand for, and their names. */
extern const char file_tags[];         /* each a letter */
extern const char *const file_names[]; /* [strlen(file_tags)] */

/* Random numbers of the mutators, [0, n); and libFuzzer's own mutator of bytes, which knows what was compared. */
size_t random_below(size_t n);
size_t LLVMFuzzerMutate(unsigned char *bytes, size_t n, size_t room);

/* Numbers that often go wrong. */
uint64_t odd_number(void);
double odd_real(void);

/* Writes the first calls, a file each, into a folder. */
void write_seeds(const char *folder);

/* The file that a part A, B or M stands for, as a part a, b or m. */
Part seed_file(const Part *part);

#endif
