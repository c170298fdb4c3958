/*
 * How much sooner a text is there with guesses, were it what the model says: each text is played, token after token, plainly
 * and with guesses, in turns of some tokens, since a machine that others share changes from second to second. Passes are real,
 * and so are guesses; only the sampler is replaced by the text.
 */
#include "cli/input.h"
#include "cli/print.h"
#include "generate.h"
#include "shapes.h"

#include <stdlib.h>

static const char help[] =
    "usage: guesses MODEL|Q4_K_M VOCABULARY REPEATS PROMPT TEXT [PROMPT TEXT]...\n"
    "Plays each TEXT behind its PROMPT, both files, by a checkpoint, or by TinyLlama's shapes with random weights of\n"
    "a type; VOCABULARY is a checkpoint or tokenizer file that makes tokens of both. Two threads; medians of REPEATS.\n";

enum { TURN = 24 /* tokens */, MOST = 500 /* of a prompt, and of a text */, MAX_REPEATS = 99 };

typedef struct Table {
    Model *model;
    Tokenizer *tokenizer;
    Session *session;
    size_t n_vocab;
    float *logits; /* [PACKED_TOKENS][n_vocab] */
} Table;

/* The cost of a text. */
typedef struct Played {
    double plain[MOST / TURN + 1], guessing[MOST / TURN + 1]; /* [turns] seconds */
    size_t n_passes, n_guesses, n_held;
    double seconds[PACKED_TOKENS + 1]; /* of passes of so many tokens */
    size_t n[PACKED_TOKENS + 1];
} Played;

/* ids [n], of which the session holds the first `at`, and a generator would have the next one pending. */
static bool play_plainly(Table *table, const int32_t *ids, size_t at, size_t n, size_t turn, Played *played,
                         Error *error) {
    double start = guesses_now();
    for (size_t i = at; i < n; i++)
        if (!session_feed(table->session, &ids[i], 1, table->logits, 1, error)) return false;
    played->plain[turn] = guesses_now() - start;
    return true;
}

static bool play_guessing(Table *table, Guesses *guesses, const int32_t *ids, size_t at, size_t n,
                          size_t turn, Played *played, Error *error) {
    double begun = guesses_now();
    for (size_t i = at, n_held; i < n; i += 1 + n_held) {
        int32_t pass[PACKED_TOKENS] = {ids[i]};
        guesses_learn(guesses, ids[i]); /* as a generator, when it is sampled */
        size_t n_pass = 1 + guesses_make(guesses, pass + 1, n - i - 1);
        double start = guesses_now();
        if (!session_feed_guesses(table->session, pass, n_pass, table->logits, error)) return false;
        double seconds = guesses_now() - start;
        guesses_time(guesses, n_pass, seconds);
        played->seconds[n_pass] += seconds, played->n[n_pass]++;
        for (n_held = 0; n_held + 1 < n_pass && pass[1 + n_held] == ids[i + 1 + n_held]; n_held++)
            guesses_learn(guesses, pass[1 + n_held]);
        session_restore(table->session, i + 1 + n_held);
        played->n_passes++, played->n_guesses += n_pass - 1, played->n_held += n_held;
    }
    played->guessing[turn] = guesses_now() - begun;
    return true;
}

/* Both ways in turns, and which is the first in turns, too. */
static bool play(Table *table, const Tokens *prompt, const Tokens *text, Played *played, Error *error) {
    Guesses *guesses = guesses_new(SPECULATE_AUTO, error);
    int32_t *ids = malloc((prompt->n + text->n) * sizeof *ids);
    bool ok = guesses && ids;
    for (size_t i = 0; ok && i < prompt->n + text->n; i++)
        ids[i] = i < prompt->n ? prompt->ids[i] : text->ids[i - prompt->n];
    session_rewind(table->session, 0);
    if (ok) guesses_read(guesses, ids, prompt->n);
    ok = ok && session_feed_all(table->session, ids, prompt->n, table->logits, &(Feed){0}, error);
    for (size_t at = prompt->n, turn = 0; ok && at < prompt->n + text->n; at += TURN, turn++) {
        size_t n = at + TURN < prompt->n + text->n ? at + TURN : prompt->n + text->n;
        for (size_t way = 0; ok && way < 2; way++) {
            session_rewind(table->session, at);
            ok = (way + turn) % 2 ? play_plainly(table, ids, at, n, turn, played, error)
                                  : play_guessing(table, guesses, ids, at, n, turn, played, error);
        }
    }
    guesses_free(guesses);
    free(ids);
    return ok;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n) {
    qsort(values, n, sizeof *values, by_size);
    return values[n / 2];
}

static bool read_tokens(const Table *table, const char *path, Tokens *tokens, Error *error) {
    TextBuffer text = {0};
    bool ok = read_prompt_text(path, &text, error) &&
              tokenizer_encode(table->tokenizer, text.data, text.n, 0, tokens, error);
    free(text.data);
    if (ok && tokens->n > MOST) tokens->n = MOST;
    return ok;
}

static bool measure(Table *table, const char *prompt_path, const char *text_path, size_t n_repeats,
                    Error *error) {
    Tokens prompt = {0}, text = {0};
    Played *played = calloc(n_repeats, sizeof *played);
    bool ok = played && read_tokens(table, prompt_path, &prompt, error) &&
              read_tokens(table, text_path, &text, error);
    for (size_t i = 0; ok && i < n_repeats; i++) ok = play(table, &prompt, &text, &played[i], error);
    if (ok) {
        Played sum = {0}; /* of all repeats, but for the seconds of turns: medians */
        double plain = 0, guessing = 0, values[MAX_REPEATS];
        for (size_t turn = 0; turn * TURN < text.n; turn++) {
            for (size_t i = 0; i < n_repeats; i++) values[i] = played[i].plain[turn];
            plain += median(values, n_repeats);
            for (size_t i = 0; i < n_repeats; i++) values[i] = played[i].guessing[turn];
            guessing += median(values, n_repeats);
        }
        for (size_t i = 0; i < n_repeats; i++) {
            sum.n_passes += played[i].n_passes, sum.n_guesses += played[i].n_guesses,
                sum.n_held += played[i].n_held;
            for (size_t n = 1; n <= PACKED_TOKENS; n++)
                sum.seconds[n] += played[i].seconds[n], sum.n[n] += played[i].n[n];
        }
        printf(
            "%s: %zu tokens behind %zu: %.1f tokens/s plainly, %.2f times as many with guesses; %.0f passes, "
            "%.0f guesses, %.0f held; ms of 1, 2, 4, 8, 16 tokens:",
            text_path, text.n, prompt.n, (double)text.n / plain, plain / guessing,
            (double)sum.n_passes / (double)n_repeats, (double)sum.n_guesses / (double)n_repeats,
            (double)sum.n_held / (double)n_repeats);
        for (size_t n = 1; n <= PACKED_TOKENS; n *= 2)
            printf(" %.2f", sum.n[n] ? 1e3 * sum.seconds[n] / (double)sum.n[n] : 0.0);
        printf("\n");
        fflush(stdout);
    }
    free(played);
    tokens_free(&prompt);
    tokens_free(&text);
    return ok;
}

int main(int argc, char **argv) {
    Error error = {""};
    Table table = {0};
    Checkpoint *vocabulary = NULL;
    size_t n_repeats = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    if (argc < 6 || argc % 2 || n_repeats < 1 || n_repeats > MAX_REPEATS) {
        fputs(help, stderr);
        return 2;
    }
    Threads *threads = threads_new(2, &error);
    table.model = shape_open(argv[1], &error);
    bool ok = threads && table.model;
    SessionOptions options = {.kv_dtype = DTYPE_F16,
                              .n_ctx = ok ? model_config(table.model)->n_ctx : 0,
                              .compute = {.kernels = kernels_fastest(), .threads = threads}};
    if (options.n_ctx > 2 * MOST) options.n_ctx = 2 * MOST;
    table.n_vocab = ok ? model_config(table.model)->n_vocab : 0;
    table.logits = calloc(PACKED_TOKENS * (table.n_vocab + 1), sizeof *table.logits);
    table.session = ok ? session_new(table.model, &options, &error) : NULL;
    table.tokenizer = table.session ? tokenizer_open(argv[2], NULL, &vocabulary, &error) : NULL;
    ok = table.tokenizer && table.logits;
    for (int i = 4; ok && i + 1 < argc; i += 2) ok = measure(&table, argv[i], argv[i + 1], n_repeats, &error);
    if (!ok) print_error("guesses", &error);
    tokenizer_free(table.tokenizer);
    checkpoint_close(vocabulary);
    session_free(table.session);
    model_close(table.model);
    threads_free(threads);
    free(table.logits);
    return !ok;
}
