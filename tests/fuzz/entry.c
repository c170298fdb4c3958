/* libFuzzer's way in. FUZZ_SEEDS=FOLDER writes the first calls there and ends. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);
size_t LLVMFuzzerCustomMutator(unsigned char *bytes, size_t n, size_t room, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const unsigned char *a, size_t n_a, const unsigned char *b, size_t n_b,
                                 unsigned char *out, size_t room, unsigned seed);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    if (!getenv("FUZZ_SEEDS")) return 0;
    write_seeds(getenv("FUZZ_SEEDS"));
    exit(0);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n) {
    fuzz_call(bytes, n);
    return 0;
}

size_t LLVMFuzzerCustomMutator(unsigned char *bytes, size_t n, size_t room, unsigned seed) {
    return mutate_call(bytes, n, room, seed);
}

/* The words of one and the files of the other. */
size_t LLVMFuzzerCustomCrossOver(const unsigned char *a, size_t n_a, const unsigned char *b, size_t n_b,
                                 unsigned char *out, size_t room, unsigned seed) {
    Call from[2] = {call_read(a, n_a), call_read(b, n_b)}, mixed = {.n = 0};
    bool swapped = seed & 1;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < from[k].n; i++) {
            const Part *part = &from[k].parts[i];
            bool is_word = strchr("wiy", part->tag);
            if (is_word == ((k == 0) != swapped)) call_add(&mixed, part->tag, part->bytes, part->n);
        }
    return call_write(&mixed, out, room);
}
