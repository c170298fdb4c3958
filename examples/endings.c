/*
 * How likely are several endings of one beginning? The beginning is computed once, and kept in a file for the next call; each
 * ending goes on from a fork of the session. Says first how much memory a session takes.
 *
 *     cc -o endings endings.c $(pkg-config --cflags --libs attn) -lm
 *     ./endings model.gguf kept.session "The Eiffel Tower is in" " Paris" " Rome"
 */
#include <attn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 1024 };

static bool write_bytes(void *user, const void *bytes, size_t n) { return fwrite(bytes, 1, n, user) == n; }
static bool read_bytes(void *user, void *bytes, size_t n) { return fread(bytes, 1, n, user) == n; }

/* Makes the session hold the beginning: the one in the file, or, where there is no file, this, which is then kept there. */
static bool begin(AttnSession *session, const AttnModel *model, const char *path, const char *text,
                  AttnError *error) {
    int32_t tokens[MAX_TOKENS];
    size_t n;
    FILE *file = fopen(path, "rb");
    bool ok, is_kept = file != NULL;
    if (is_kept) {
        ok = attn_session_restore(session, read_bytes, file, error);
    } else {
        ok = attn_tokenize(model, text, strlen(text), ATTN_TOKENIZE_ENDS, tokens, MAX_TOKENS, &n, error) &&
             attn_feed(session, tokens, n < MAX_TOKENS ? n : MAX_TOKENS, NULL, 0, error);
        file = ok ? fopen(path, "wb") : NULL;
        ok = file && attn_session_save(session, write_bytes, file, error);
    }
    if (file) fclose(file);
    printf("%zu bytes of session are %s %s\n", attn_session_bytes(session),
           is_kept ? "taken from" : "kept in", path);
    return ok;
}

/* ln p of n tokens behind what the session holds. The last of those that it holds is fed again, to see what follows it. */
static double score(AttnSession *session, const int32_t *tokens, size_t n, size_t n_vocab, float *logits) {
    double sum = 0;
    size_t n_held;
    const int32_t *held = attn_session_tokens(session, &n_held);
    int32_t last = held[n_held - 1];
    attn_rewind(session, n_held - 1);
    for (size_t i = 0; i < n; i++) {
        double all = 0;
        if (!attn_feed(session, i ? &tokens[i - 1] : &last, 1, logits, 1, NULL)) return NAN;
        for (size_t j = 0; j < n_vocab; j++) all += exp((double)logits[j] - (double)logits[tokens[i]]);
        sum -= log(all);
    }
    return sum;
}

int main(int argc, char **argv) {
    if (argc < 5) return fprintf(stderr, "usage: endings MODEL FILE BEGINNING ENDING …\n"), 2;
    AttnError error = {"the file cannot be written"}; /* what the library does not say */
    AttnMemory memory;
    AttnModel *model = attn_model_open(argv[1], NULL, &error);
    size_t n_vocab = attn_model_shape(model).n_vocab;
    float *logits = malloc((n_vocab + 1) * sizeof *logits);
    bool ok = logits && attn_session_memory(model, NULL, &memory, &error);
    if (ok) printf("a session takes %zu KiB, and %zu KiB of cache\n", memory.rest >> 10, memory.cache >> 10);
    AttnSession *session = attn_session_new(model, NULL, &error);
    ok = ok && session && begin(session, model, argv[2], argv[3], &error);
    for (int i = 4; ok && i < argc; i++) {
        int32_t tokens[MAX_TOKENS];
        size_t n;
        AttnSession *fork = attn_session_fork(session, NULL, &error);
        ok = fork && attn_tokenize(model, argv[i], strlen(argv[i]), 0, tokens, MAX_TOKENS, &n, &error);
        if (ok)
            printf("%9.4f \"%s\"\n", score(fork, tokens, n < MAX_TOKENS ? n : MAX_TOKENS, n_vocab, logits),
                   argv[i]);
        attn_session_free(fork);
    }
    if (!ok) fprintf(stderr, "endings: %s\n", error.message);
    attn_session_free(session);
    attn_model_close(model);
    free(logits);
    return !ok;
}
