/*
 * score: how well the model foresaw the text: for each token its surprisal −ln p, its rank, the entropy of
 * what was expected and the tokens that were likelier; then totals. What a token is scored in is a window:
 * as much of the text as the context holds. A longer text takes several, by one of two rules:
 *
 *   sliding: each window begins half a window after the last and scores its second half (the first one scores
 *            all but token 0), so that every token is scored once, with at least half a window before it;
 *   chunks:  llama.cpp's perplexity. Windows do not overlap; BOS, if the text has one, replaces the first
 *            token of each; the second half is scored, and what does not fill a window is left out.
 *
 * subject_feed runs a window through the model and shows the logits to add_token, which keeps their numbers.
 */
#include "cli/process.h"
#include "views/view.h"

#include <math.h>
#include <string.h>

enum {
    TOP = 3,
    CHUNK_CTX = 512,
    ROW_WIDTH = 46,
    BAR_WIDTH = 6,
    CELL_WIDTH = 18, /* columns: a row, the bar in it, a likelier token behind */
};

typedef struct Likelier {
    int32_t id;
    float p;
} Likelier;

typedef struct ScoreRow {
    size_t position;
    int32_t id;
    TokenScore score;   /* of token 0, which nothing foresaw: none */
    double share;       /* surprisal as a share of that of an even choice among all tokens */
    Likelier *likelier; /* [n_likelier] likeliest first */
    size_t n_likelier;
    bool all; /* of them are shown, on as many lines as it takes */
} ScoreRow;

/* A word of tokens [position, position + n). */
typedef struct Word {
    size_t position, n;
    double surprisal; /* nats, the sum over its tokens */
    const int32_t *ids;
    const JoinedText *text; /* of all tokens */
} Word;

typedef struct Window {
    size_t begin, first, end; /* tokens [begin, end − 1) are fed and [first, end) scored */
} Window;

typedef struct Chunk {
    size_t number, n;  /* from 1 on; tokens scored in it */
    double nll;        /* nats a token */
    double perplexity; /* of all chunks up to here */
} Chunk;

typedef struct Score {
    size_t top;
    bool words, chunks;

    const Subject *subject;
    size_t n_vocab, n_ctx, n_windows;
    size_t n_likelier; /* at most that many for each token */
    int32_t *best;     /* [n_likelier] scratch */
    ScoreRow *rows;    /* [n_tokens]; NULL with chunks */
    Word *by_word;     /* [n_words] of the tokens after the first; NULL unless asked for */
    size_t n_words;
    JoinedText text; /* with words */
    Chunk *by_chunk; /* [n_windows], or NULL */
    Window window;   /* the one under way */
    Totals totals;
    size_t n_to_score, n_fed; /* tokens */
    double start_ms;
} Score;

/* Logits at a position of the window are the prediction of the next token. */
static void add_token(void *user, size_t position, const float *logits) {
    Score *score = user;
    size_t at = score->window.begin + position + 1;
    int32_t id = score->subject->tokens.ids[at];
    Distribution expected = distribution_of(logits, score->n_vocab);
    TokenScore token = token_score(&expected, logits, score->n_vocab, id);
    totals_add(&score->totals, &token, tokenizer_piece(score->subject->tokenizer, id, false).n);
    if (score->chunks) return;

    ScoreRow *row = &score->rows[at];
    row->score = token;
    row->share = token.surprisal / log((double)score->n_vocab);
    row->n_likelier = at_most(token.rank - 1, score->n_likelier);
    logits_top(logits, score->n_vocab, row->n_likelier, score->best);
    for (size_t i = 0; i < row->n_likelier; i++)
        row->likelier[i] =
            (Likelier){score->best[i], (float)probability_of(logits, score->best[i], expected.log_sum)};
}

static double per_second(const Score *score, size_t n) {
    return (double)n / (1e-3 * (now_ms() - score->start_ms) + 1e-9);
}

/* Tells how far all windows are, whichever is fed. */
static bool tell_progress(void *user, const char *what, size_t done, size_t total) {
    const Score *score = user;
    const Subject *subject = score->subject;
    char speed[64];
    (void)what, (void)done, (void)total;
    snprintf(speed, sizeof speed, "%7.1f tokens/s, scored", per_second(score, score->totals.n));
    return subject_go_on(subject, score->n_to_score > LOGITS_CHUNK ? speed : NULL, score->totals.n,
                         score->n_to_score, NULL);
}

/* The i-th of n_windows. */
static Window window_at(const Score *score, size_t i) {
    size_t n_ctx = score->n_ctx, n_tokens = score->subject->tokens.n, half = n_ctx / 2;
    if (score->chunks) return (Window){i * n_ctx, i * n_ctx + half + 1, (i + 1) * n_ctx};
    return (Window){i * half, i == 0 ? 1 : i * half + n_ctx - half + 1,
                    at_most(i * half + n_ctx + 1, n_tokens)};
}

static bool score_window(Score *score, Session *session, int32_t *ids, Error *error) {
    Subject subject = *score->subject;
    const Window *window = &score->window;
    size_t n = window->end - window->begin - 1, n_before = window->first - window->begin - 1;
    subject.progress = tell_progress;
    subject.progress_user = score;
    memcpy(ids, subject.tokens.ids + window->begin, n * sizeof *ids);
    if (score->chunks && subject.bos) ids[0] = subject.tokens.ids[0];
    session_rewind(session, 0);
    score->n_fed += n;
    return subject_feed(&subject, session, ids, n_before, NULL, NULL, error) &&
           subject_feed(&subject, session, ids + n_before, n - n_before, add_token, score, error);
}

static bool score_text(Score *score, Arena *arena, Error *error) {
    size_t n = at_most(score->n_ctx, score->subject->tokens.n);
    int32_t *ids = arena_new(arena, n, sizeof *ids);
    if (!arena_ok(arena, error, "a window of %zu tokens", n)) return false;
    Session *session = subject_session(score->subject, n, NULL, error);
    bool ok = session;
    score->start_ms = now_ms();
    for (size_t i = 0; i < score->n_windows && ok; i++) {
        Totals before = score->totals, *totals = &score->totals;
        score->window = window_at(score, i);
        ok = score_window(score, session, ids, error);
        if (!score->chunks) continue;
        size_t n_scored = totals->n - before.n;
        score->by_chunk[i] = (Chunk){i + 1, n_scored, (totals->sum - before.sum) / (double)n_scored,
                                     text_score(totals).perplexity};
    }
    if (score->n_to_score > LOGITS_CHUNK) subject_go_on(score->subject, "", 1, 1, NULL);
    session_free(session);
    return ok;
}

/* Computes n_ctx, n_windows, n_to_score from the options and the length of the text. */
static bool plan(Score *score, const Subject *subject, Error *error) {
    size_t n_tokens = subject->tokens.n, limit = model_config(subject->model)->n_ctx, n_ctx = limit;
    if (score->chunks && n_ctx > CHUNK_CTX) n_ctx = CHUNK_CTX;
    if (subject->n_ctx) n_ctx = subject->n_ctx;
    if (n_ctx > limit)
        return error_set(error, "-c %zu is more than the %zu positions that the model knows", n_ctx, limit);
    size_t least = score->chunks ? 3 : 2; /* for a half that scores a token */
    if (n_ctx < least)
        return error_set(error, "-c %zu is too short a window to score in: -c %zu at least", n_ctx, least);
    score->n_ctx = n_ctx;
    if (score->chunks) {
        if (n_tokens < 2 * n_ctx)
            return error_set(error,
                             "--chunks of %zu needs a text of %zu tokens or more, and this one has %zu; "
                             "lower -c, or leave --chunks out",
                             n_ctx, 2 * n_ctx, n_tokens);
        score->n_windows = n_tokens / n_ctx;
        score->n_to_score = score->n_windows * (n_ctx - n_ctx / 2 - 1);
        return true;
    }
    if (n_tokens < 2)
        return error_set(error, subject->bos
                                    ? "the text is empty: there is nothing to score"
                                    : "the text is one token, and nothing stands before it to foresee it; "
                                      "--bos puts a token there");
    size_t half = n_ctx / 2;
    score->n_windows = n_tokens <= n_ctx + 1 ? 1 : 1 + (n_tokens - n_ctx - 1 + half - 1) / half;
    score->n_to_score = n_tokens - 1;
    return true;
}

static bool allocate(Score *score, Arena *arena, Error *error) {
    const Tokens *tokens = &score->subject->tokens;
    size_t n = tokens->n, n_likelier = score->n_likelier;
    if (score->chunks) {
        score->by_chunk = arena_new(arena, score->n_windows, sizeof *score->by_chunk);
        return arena_ok(arena, error, "the scores of %zu chunks", score->n_windows);
    }
    Likelier *likelier = arena_new(arena, n, (n_likelier + 1) * sizeof *likelier);
    score->best = arena_new(arena, n_likelier + 1, sizeof *score->best);
    score->rows = arena_new(arena, n, sizeof *score->rows);
    if (score->words) score->by_word = arena_new(arena, n, sizeof *score->by_word);
    if (!arena_ok(arena, error, "the scores of %zu tokens", n)) return false;
    for (size_t i = 0; i < n; i++)
        score->rows[i] = (ScoreRow){.position = i,
                                    .id = tokens->ids[i],
                                    .score = {NAN, NAN, SIZE_MAX, false},
                                    .likelier = likelier + i * n_likelier,
                                    .all = score->top != NOT_GIVEN};
    return true;
}

static bool join_words(Score *score, Arena *arena, Error *error) {
    const Subject *subject = score->subject;
    if (!join_tokens(subject, arena, false, &score->text, error)) return false;
    for (size_t at = 1; at < subject->tokens.n; at++) {
        if (at == 1 || begins_word(subject, at))
            score->by_word[score->n_words++] =
                (Word){.position = at, .ids = subject->tokens.ids + at, .text = &score->text};
        Word *word = &score->by_word[score->n_words - 1];
        word->n++;
        word->surprisal += score->rows[at].score.surprisal;
    }
    return true;
}

/* How fast a long text went, for those who plan a longer one. */
static void tell_speed(const Study *study, const Score *score) {
    if (score->n_windows == 1 || study->opened) return;
    fprintf(stderr, "study: %zu tokens scored in %.1f s, %.1f a second; %zu were fed, %.1f a second\n",
            score->totals.n, 1e-3 * (now_ms() - score->start_ms), per_second(score, score->totals.n),
            score->n_fed, per_second(score, score->n_fed));
}

static bool check(const StudyOptions *options, const void *view, Error *error) {
    const Score *score = view;
    (void)options;
    return !score->chunks || !score->words ||
           error_set(error, "--chunks prints no tokens, so that --words has none to join; choose one");
}

static bool compute(Study *study, void *view, Error *error) {
    Score *score = view;
    Arena *arena = &study->arena;
    score->subject = &study->subject;
    score->n_vocab = model_config(study->model)->n_vocab;
    score->n_likelier = at_most(score->top == NOT_GIVEN ? TOP : score->top, score->n_vocab - 1);
    if (!plan(score, score->subject, error) || !allocate(score, arena, error) ||
        !score_text(score, arena, error))
        return false;
    tell_speed(study, score);
    return !score->words || join_words(score, arena, error);
}

static const Column likelier_columns[] = {
    {"token", "", CELL_TOKEN, offsetof(Likelier, id), 12, 10},
    {"probability", "", CELL_FLOAT, offsetof(Likelier, p), 6, 1, 100, "%"},
};
static const Table likelier_table = TABLE("likelier", likelier_columns);

/* Prints as many as the line has room for or, on further lines, all. */
static void show_likelier(Report *report, const char *key, const void *cell) {
    const ScoreRow *row = cell;
    (void)key;
    if (is_json(report)) {
        table_show(report, &likelier_table, 0, row->likelier, row->n_likelier, sizeof *row->likelier);
        return;
    }
    size_t row_width = ROW_WIDTH + (report->bars ? 2 + BAR_WIDTH : 0), n = row->n_likelier;
    size_t room = report->width > row_width ? report->width - row_width : 0;
    size_t per_line = room < CELL_WIDTH ? 1 : room / CELL_WIDTH;
    if (!row->all) n = at_most(n, room / CELL_WIDTH);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && i % per_line == 0) printf("\n%*s", (int)row_width, "");
        table_print_row(report, &likelier_table, 0, &row->likelier[i]);
    }
}

static void show_word(Report *report, const char *key, const void *row) {
    const Word *word = row;
    if (is_json(report)) {
        const size_t *offsets = word->text->offsets + word->position;
        json_text(report, key, word->text->bytes + *offsets, offsets[word->n] - *offsets);
        return;
    }
    putchar(' ');
    for (size_t i = 0; i < word->n; i++) {
        putchar(' ');
        print_token(report, word->ids[i], 0);
    }
}

static const Column token_columns[] = {
    {"position", "pos", CELL_SIZE, offsetof(ScoreRow, position), 5},
    {"token", "token", CELL_TOKEN, offsetof(ScoreRow, id), 16, 14},
    {"surprisal_nats", "bits", CELL_REAL, offsetof(ScoreRow, score.surprisal), 8, 2, BITS_PER_NAT},
    {NULL, "", CELL_BAR, offsetof(ScoreRow, share), BAR_WIDTH},
    {"rank", "rank", CELL_SIZE, offsetof(ScoreRow, score.rank), 8},
    {"entropy_nats", "entropy", CELL_REAL, offsetof(ScoreRow, score.entropy), 9, 2, BITS_PER_NAT},
    {"likelier", "  likelier, with p", CELL_SHOWN, .show = show_likelier},
};
static const Column word_columns[] = {
    {"text", NULL, CELL_SHOWN, .show = show_word},
    {"position", "pos", CELL_SIZE, offsetof(Word, position), 5},
    {"n_tokens", "tokens", CELL_SIZE, offsetof(Word, n), 8},
    {"surprisal_nats", "bits", CELL_REAL, offsetof(Word, surprisal), 8, 2, BITS_PER_NAT},
    {NULL, "  word", CELL_SHOWN, .show = show_word},
};
static const Column chunk_columns[] = {
    {NULL, "chunk", CELL_SIZE, offsetof(Chunk, number), 5},
    {"n", "tokens", CELL_SIZE, offsetof(Chunk, n), 8},
    {"nll_nats", "bits", CELL_REAL, offsetof(Chunk, nll), 8, 3, BITS_PER_NAT},
    {"perplexity", "perplexity", CELL_REAL, offsetof(Chunk, perplexity), 12, 4},
};
static const Table token_table = TABLE("positions", token_columns), word_table = TABLE("words", word_columns),
                   chunk_table = TABLE("chunks", chunk_columns);

/* Prints the tables: chunks, or tokens and words (for people one of these). */
static void show_tables(Report *report, const Score *score) {
    bool json = is_json(report), tokens = !score->chunks && (json || !score->words);
    if (!json)
        print_styled(report, STYLE_DIM, "%s\n",
                     score->chunks  ? "bits: mean surprisal in the chunk; perplexity: of all chunks so far"
                     : score->words ? "bits: surprisal -log2 p of the word, the sum over its tokens"
                                    : "bits: surprisal -log2 p of the token; rank 1: the likeliest; "
                                      "entropy: the bits expected before it");
    if (score->chunks)
        table_show(report, &chunk_table, 0, score->by_chunk, score->n_windows, sizeof *score->by_chunk);
    if (tokens) /* in JSON without the first, of which there is nothing to say */
        table_show(report, &token_table, 0, score->rows + json, score->subject->tokens.n - json,
                   sizeof *score->rows);
    if (score->words)
        table_show(report, &word_table, 0, score->by_word, score->n_words, sizeof *score->by_word);
}

static void print_totals(const Report *report, const Score *score) {
    TextScore all = text_score(&score->totals);
    printf("\n%zu token%s scored: %.4f bits (%.4f nats) each, perplexity %.4f", all.n, all.n == 1 ? "" : "s",
           all.nll * BITS_PER_NAT, all.nll, all.perplexity);
    if (isfinite(all.perplexity_error)) printf(" %s %.4f", report->ascii ? "+-" : "±", all.perplexity_error);
    putchar('\n');
    if (isfinite(all.bits_per_byte))
        printf("%.4f bits per byte (%zu bytes); ", all.bits_per_byte, all.n_bytes);
    printf("the likeliest token was right %.1f%% of the time\n", 100 * all.top1_accuracy);
    if (score->chunks)
        printf("%zu chunks of %zu tokens, the second half of each scored (llama.cpp's rule)\n",
               score->n_windows, score->n_ctx);
    else if (score->n_windows > 1)
        printf("%zu windows of %zu tokens, each %zu after the last\n", score->n_windows, score->n_ctx,
               score->n_ctx / 2);
}

static bool show(Study *study, void *view, Error *error) {
    const Score *score = view;
    Report *report = &study->report;
    (void)error;
    if (is_json(report)) {
        json_int(report, "n_ctx", (int64_t)score->n_ctx);
        json_int(report, "n_windows", (int64_t)score->n_windows);
    }
    show_tables(report, score);
    if (is_json(report))
        json_totals(report, &score->totals, false);
    else
        print_totals(report, score);
    return true;
}

static const Score defaults = {.top = NOT_GIVEN};

static const Option options[] = {
    {"--top", NULL, OPTION_SIZE, offsetof(Score, top), 0, 1000},
    {"--words", NULL, OPTION_ON, offsetof(Score, words)},
    {"--chunks", NULL, OPTION_ON, offsetof(Score, chunks)},
};

const View view_score = {
    .name = "score",
    .summary = "how surprised it was by each token, and in all",
    .help = HELP(
        "Each token's surprisal -log2 p, its rank, the entropy of the prediction, and the likelier tokens.\n"
        "In all: mean surprisal (nll), perplexity e^nll with its standard error, bits per byte, accuracy.\n"
        "A text longer than the context is read in windows that begin half a context (-c) apart.\n"
        "\n"
        "  --top K         likelier tokens to list (3)\n"
        "  --words         surprisal of words: sums over their tokens\n"
        "  --chunks        perplexity by llama.cpp's rule: windows of -c N (512) side by side, second\n"
        "                  halves scored\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(Score),
    .check = check,
    .compute = compute,
    .show = show,
};
