/*
 * How alike are texts to a model? The hidden state of the last token stands for each; printed are the cosines of the angles
 * between the first text's and the others'. The model is opened from memory, as a program has it that carries or unpacks one.
 *
 *     cc -o similar similar.c $(pkg-config --cflags --libs attn) -lm
 *     ./similar model.gguf "The cat sat" "The dog sat" "Nine hundred and"
 */
#include <attn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 1024 };

/* The whole file, as malloc gives it; NULL with a line on stderr. */
static void *read_file(const char *path, size_t *n) {
    FILE *file = fopen(path, "rb");
    long size = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    void *bytes = size > 0 ? malloc((size_t)size) : NULL;
    if (bytes) rewind(file);
    *n = bytes ? fread(bytes, 1, (size_t)size, file) : 0;
    if (file) fclose(file);
    if (!bytes) fprintf(stderr, "similar: %s: cannot be read\n", path);
    return bytes;
}

static double cosine(const float *a, const float *b, size_t n) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

int main(int argc, char **argv) {
    if (argc < 3) return fprintf(stderr, "usage: similar MODEL TEXT TEXT …\n"), 2;
    AttnError error;
    size_t n_bytes;
    void *bytes = read_file(argv[1], &n_bytes);
    if (!bytes) return 1;
    AttnModel *model = attn_model_open_memory(bytes, n_bytes, argv[1], NULL, &error);
    AttnSession *session = attn_session_new(model, NULL, &error);
    size_t d = attn_model_shape(model).d_model;
    float *first = calloc(2 * d + 1, sizeof *first), *other = first + d;
    bool ok = session && first;
    for (int i = 2; ok && i < argc; i++) {
        int32_t tokens[MAX_TOKENS];
        size_t n;
        ok = attn_tokenize(model, argv[i], strlen(argv[i]), ATTN_TOKENIZE_ENDS, tokens, MAX_TOKENS, &n,
                           &error) &&
             attn_hidden(session, tokens, n < MAX_TOKENS ? n : MAX_TOKENS, i == 2 ? first : other, &error);
        if (ok && i > 2) printf("%7.4f \"%s\"\n", cosine(first, other, d), argv[i]);
    }
    if (!ok) fprintf(stderr, "similar: %s\n", error.message);
    free(first);
    attn_session_free(session);
    attn_model_close(model);
    free(bytes); /* the model was there until now */
    return !ok;
}
