/*
 * Watches one head: at which token does each token look most? Head 4 of layer 3 of the default model goes on with what
 * was said before: at the second "il" of this text it looks at "gan", which followed the first one.
 *
 *     cc -o watch_head watch_head.c $(pkg-config --cflags --libs attn)
 *     ./watch_head model.gguf 3 4 "The king Zilgan rode out. Then king Zil"
 */
#include <attn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 1000 };

typedef struct Watch {
    AttnModel *model;
    size_t layer, head;
    int32_t tokens[MAX_TOKENS];
} Watch;

/* Whatever is not wanted here runs as fast as ever. */
static bool wants(void *user, AttnSite site, size_t layer, size_t head) {
    const Watch *watch = user;
    return site == ATTN_PATTERN && layer == watch->layer && head == watch->head;
}

static void print_token(const Watch *watch, size_t position) {
    size_t n;
    const char *text = attn_token_text(watch->model, watch->tokens[position], &n);
    printf("%4zu \"%.*s\"", position, (int)n, text);
}

/* The weights of the query at seen->position: one for each key 0 … seen->position. */
static void visit(void *user, const AttnActivation *seen) {
    size_t best = 0;
    for (size_t key = 1; key < seen->n_cols; key++)
        if (seen->data[key] > seen->data[best]) best = key;
    print_token(user, seen->position);
    printf(" looks at");
    print_token(user, best);
    printf(" %.2f\n", (double)seen->data[best]);
}

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "usage: watch_head MODEL LAYER HEAD TEXT\n"), 2;
    AttnError error;
    Watch watch = {.layer = strtoul(argv[2], NULL, 10), .head = strtoul(argv[3], NULL, 10)};
    AttnSessionOptions options = {.probe = {&watch, wants, visit}};
    watch.model = attn_model_open(argv[1], NULL, &error);
    AttnSession *session = attn_session_new(watch.model, &options, &error);
    size_t n = 0; /* tokens of the text; those that find no room are left out */
    bool ok = attn_tokenize(watch.model, argv[4], strlen(argv[4]), ATTN_TOKENIZE_ENDS, watch.tokens,
                            MAX_TOKENS, &n, &error) &&
              attn_feed(session, watch.tokens, n < MAX_TOKENS ? n : MAX_TOKENS, NULL, 0, &error);
    if (!ok) fprintf(stderr, "watch_head: %s\n", error.message);
    attn_session_free(session);
    attn_model_close(watch.model);
    return !ok;
}
