/*
 * Which tokens does the likeliest continuation rest on? By how much its ln p would fall, to first order, if a token's
 * embedding were not there: embedding times gradient. Behind this text comes "gan", because of the first one.
 *
 *     cc -o rests_on rests_on.c $(pkg-config --cflags --libs attn)
 *     ./rests_on model.gguf "The king Zilgan rode out. Then king Zil"
 */
#include <attn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 1000 };

static bool wants(void *user, AttnSite site, size_t layer, size_t head) {
    (void)user, (void)layer, (void)head;
    return site == ATTN_EMBED;
}

/* shares [MAX_TOKENS]: embedding · gradient of each token; the rows come in pieces. */
static void visit(void *user, const AttnActivation *seen, float *gradient) {
    double *shares = user;
    for (size_t row = 0; row < seen->n_rows; row++)
        for (size_t i = 0; i < seen->n_cols; i++)
            shares[seen->position + row] +=
                (double)seen->data[row * seen->stride + i] * (double)gradient[row * seen->stride + i];
}

static void print_token(const AttnModel *model, int32_t token) {
    size_t n;
    const char *text = attn_token_text(model, token, &n);
    printf(" \"%.*s\"\n", (int)n, text);
}

int main(int argc, char **argv) {
    static double shares[MAX_TOKENS];
    static int32_t tokens[MAX_TOKENS];
    if (argc != 3) return fprintf(stderr, "usage: rests_on MODEL TEXT\n"), 2;
    AttnError error;
    AttnSessionOptions options = {.cache = ATTN_CACHE_F32};
    AttnModel *model = attn_model_open(argv[1], NULL, &error);
    AttnSession *session = attn_session_new(model, &options, &error);
    float *logits = calloc(attn_model_shape(model).n_vocab + 1, sizeof *logits);
    AttnTerm term = {.logprob = true, .weight = 1};
    AttnGradientProbe probe = {shares, wants, visit};
    double logprob;
    size_t n = 0; /* tokens of the text; those that find no room are left out */
    bool ok = logits && attn_tokenize(model, argv[2], strlen(argv[2]), ATTN_TOKENIZE_ENDS, tokens, MAX_TOKENS,
                                      &n, &error);
    n = n < MAX_TOKENS ? n : MAX_TOKENS;
    ok = ok && attn_feed(session, tokens, n, logits, 1, &error);
    for (size_t i = 0; ok && i < attn_model_shape(model).n_vocab; i++)
        if (logits[i] > logits[term.token]) term.token = (int32_t)i;
    term.position = n - 1;
    ok = ok && attn_gradient(session, tokens, n, &term, 1, &probe, &logprob, &error);
    if (!ok) fprintf(stderr, "rests_on: %s\n", logits ? error.message : "not enough memory");
    if (ok) printf("ln p = %.3f of", logprob), print_token(model, term.token);
    for (size_t i = 0; ok && i < n; i++) printf("%+8.3f", shares[i]), print_token(model, tokens[i]);
    free(logits);
    attn_session_free(session);
    attn_model_close(model);
    return !ok;
}
