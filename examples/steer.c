/*
 * Steers a text by activation addition (Turner et al. 2023, arXiv:2308.10248). What two texts differ by in the residual
 * stream that enters a layer is a direction: from death to a wedding, say. Added to the stream, it leads another text there.
 * The paper adds it to the first tokens of the prompt, place by place; here it is what the last tokens of the two differ
 * by, and every token gets it, those that are generated too.
 *
 *     cc -o steer steer.c $(pkg-config --cflags --libs attn)
 *     ./steer model.gguf 3 1 " death" " wedding" "I went to the"
 */
#include <attn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 64 /* of each of the two texts */ };

typedef struct Steering {
    size_t layer;
    float *direction; /* [d_model] */
    float scale;      /* the direction, times this, is added to every token */
    float learn;      /* what the last token has, times this, is added to the direction */
} Steering;

static bool wants(void *user, AttnSite site, size_t layer, size_t head) {
    (void)head;
    return site == ATTN_RESID_PRE && layer == ((const Steering *)user)->layer;
}

static void visit(void *user, const AttnActivation *seen) {
    Steering *steering = user;
    for (size_t row = 0; row < seen->n_rows; row++)
        for (size_t i = 0; i < seen->n_cols; i++)
            seen->data[row * seen->stride + i] += steering->scale * steering->direction[i];
    const float *last = seen->data + (seen->n_rows - 1) * seen->stride;
    for (size_t i = 0; i < seen->n_cols; i++) steering->direction[i] += steering->learn * last[i];
}

/* Adds `sign` times the text's last token to the direction. A text of few tokens is one visit. */
static bool learn(const AttnModel *model, AttnSession *session, Steering *steering, float sign,
                  const char *text, AttnError *error) {
    int32_t tokens[MAX_TOKENS];
    size_t n = 0;
    attn_rewind(session, 0);
    steering->learn = sign;
    bool ok = attn_tokenize(model, text, strlen(text), ATTN_TOKENIZE_ENDS, tokens, MAX_TOKENS, &n, error) &&
              attn_feed(session, tokens, n < MAX_TOKENS ? n : MAX_TOKENS, NULL, 0, error);
    steering->learn = 0;
    return ok;
}

static bool show(void *user, const char *text, size_t n) {
    (void)user;
    return fwrite(text, 1, n, stdout) == n;
}

static bool generate(AttnSession *session, Steering *steering, float scale, const char *prompt,
                     AttnError *error) {
    AttnGenerateOptions options = {.sampling.repeat_penalty = 1.3f, .n_tokens = 40, .text = show};
    steering->scale = scale;
    attn_rewind(session, 0); /* the tokens that it holds were computed with another scale */
    printf("%g: %s", (double)scale, prompt);
    bool ok = attn_generate(session, prompt, &options, NULL, error);
    puts("\n");
    return ok;
}

int main(int argc, char **argv) {
    if (argc != 7) return fprintf(stderr, "usage: steer MODEL LAYER SCALE FROM TO PROMPT\n"), 2;
    AttnError error;
    AttnModel *model = attn_model_open(argv[1], NULL, &error);
    Steering steering = {.layer = strtoul(argv[2], NULL, 10)};
    AttnSessionOptions options = {.probe = {&steering, wants, visit}};
    AttnSession *session = attn_session_new(model, &options, &error);
    if (session) steering.direction = calloc(attn_model_shape(model).d_model, sizeof *steering.direction);
    bool ok = steering.direction && learn(model, session, &steering, -1, argv[4], &error) &&
              learn(model, session, &steering, 1, argv[5], &error) &&
              generate(session, &steering, 0, argv[6], &error) &&
              generate(session, &steering, strtof(argv[3], NULL), argv[6], &error);
    if (!ok)
        fprintf(stderr, "steer: %s\n", session && !steering.direction ? "not enough memory" : error.message);
    attn_session_free(session);
    free(steering.direction);
    attn_model_close(model);
    return !ok;
}
