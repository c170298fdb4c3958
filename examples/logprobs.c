/*
 * Writes on behind a prompt that is given as tokens, and prints each new one: its number, its text, and how likely the model
 * took it to be.
 *
 *     cc -o logprobs logprobs.c $(pkg-config --cflags --libs attn)
 *     ./logprobs model.gguf "The Eiffel"
 */
#include <attn.h>
#include <stdio.h>
#include <string.h>

static bool show(void *user, int32_t token, double logprob) {
    size_t n;
    const char *text = attn_token_text(user, token, &n);
    return printf("%6d %8.4f \"%.*s\"\n", (int)token, logprob, (int)n, text) > 0; /* nats */
}

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "usage: logprobs MODEL PROMPT\n"), 2;
    AttnError error;
    int32_t tokens[256];
    size_t n = 0;
    AttnModel *model = attn_model_open(argv[1], NULL, &error);
    AttnSession *session = attn_session_new(model, NULL, &error);
    AttnGenerateOptions options = {.n_tokens = 8, .token = show, .user = model};
    bool ok = attn_tokenize(model, argv[2], strlen(argv[2]), ATTN_TOKENIZE_ENDS, tokens, 256, &n, &error);
    ok = ok && attn_generate_from(session, tokens, n < 256 ? n : 256, &options, NULL, &error);
    if (!ok) fprintf(stderr, "logprobs: %s\n", error.message);
    attn_session_free(session);
    attn_model_close(model);
    return !ok;
}
