/*
 * Opens a model and prints a text.
 *
 *     cc -o generate generate.c $(pkg-config --cflags --libs attn)
 *     ./generate model.gguf "The Eiffel"
 */
#include <attn.h>
#include <stdio.h>

static bool show(void *user, const char *text, size_t n) {
    (void)user;
    return fwrite(text, 1, n, stdout) == n && fflush(stdout) == 0; /* false ends the text */
}

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "usage: generate MODEL PROMPT\n"), 2;
    AttnError error;
    AttnModel *model = attn_model_open(argv[1], NULL, &error);
    AttnSession *session =
        attn_session_new(model, NULL, &error); /* no model: no session, and the error stays */
    AttnGenerateOptions options = {.text = show};
    bool ok = session && attn_sampling(model, &options.sampling, &error) && /* as the file asks for */
              attn_generate(session, argv[2], &options, NULL, &error);
    if (!ok) fprintf(stderr, "generate: %s\n", error.message);
    putchar('\n');
    attn_session_free(session);
    attn_model_close(model);
    return !ok;
}
