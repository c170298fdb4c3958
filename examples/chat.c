/*
 * Talks: each line of stdin is a question, which the model answers. The whole conversation is laid out anew each time, by the
 * chat template of the model's file or by one of your own; what the session holds of it is not computed again.
 *
 *     cc -o chat chat.c $(pkg-config --cflags --libs attn)
 *     ./chat model.gguf
 *     ./chat model.gguf '{% for m in messages %}{{ m.content }}{% endfor %}'
 */
#include <attn.h>
#include <stdio.h>
#include <string.h>

enum { MAX_MESSAGES = 64, MAX_TEXT = 4096, MAX_TOKENS = 8192 };

static char texts[MAX_MESSAGES][MAX_TEXT]; /* questions and answers, in turns */
static AttnMessage messages[MAX_MESSAGES];
static int32_t tokens[MAX_TOKENS];

/* Shows a piece of the answer, and keeps it. */
static bool take(void *user, const char *text, size_t n) {
    char *answer = user;
    size_t before = strlen(answer);
    if (n >= MAX_TEXT - before) return false;
    memcpy(answer + before, text, n); /* the texts are zeros behind what was written */
    return fwrite(text, 1, n, stdout) == n && fflush(stdout) == 0;
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 3) return fprintf(stderr, "usage: chat MODEL [TEMPLATE]\n"), 2;
    AttnError error;
    AttnModel *model = attn_model_open(argv[1], NULL, &error);
    AttnSession *session = attn_session_new(model, NULL, &error);
    AttnChatOptions chat = {.source = argc == 3 ? argv[2] : NULL}; /* NULL: the file's own */
    AttnGenerateOptions options = {.text = take};
    size_t n = 0;
    bool ok = session && attn_sampling(model, &options.sampling, &error);
    while (ok && n < MAX_MESSAGES && fgets(texts[n], MAX_TEXT, stdin)) {
        size_t n_tokens;
        texts[n][strcspn(texts[n], "\n")] = '\0';
        messages[n] = (AttnMessage){.role = "user", .content = texts[n]};
        options.user = texts[n + 1];
        ok = attn_chat(model, messages, n + 1, &chat, tokens, MAX_TOKENS, &n_tokens, &error) &&
             attn_generate_from(session, tokens, n_tokens < MAX_TOKENS ? n_tokens : MAX_TOKENS, &options,
                                NULL, &error);
        messages[n + 1] = (AttnMessage){.role = "assistant", .content = texts[n + 1]};
        putchar('\n');
        n += 2;
    }
    if (!ok) fprintf(stderr, "chat: %s\n", error.message);
    attn_session_free(session);
    attn_model_close(model);
    return !ok;
}
