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
 * study_feed runs a window through the model and shows the logits to score_token, which keeps their numbers.
 */
#include "views/study.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOP = 3,
    CHUNK_CTX = 512,
    PIECE = 64, /* tokens scored between two looks at the clock */
    ROW_WIDTH = 46,
    BAR_WIDTH = 6,
    CELL_WIDTH = 18, /* columns: a row, the bar in it, a likelier token behind */
};

typedef struct Likelier {
    int32_t id;
    float p;
} Likelier;

typedef struct TokenScore {
    double surprisal, entropy; /* nats */
    size_t rank;
} TokenScore;

typedef struct Totals {
    double sum, sum_of_squares; /* of the surprisals */
    size_t n, n_best;           /* tokens, and those of them that greedy decoding would have chosen */
    size_t n_bytes;             /* of their pieces */
} Totals;

typedef struct Window {
    size_t begin, first, end; /* tokens [begin, end − 1) are fed and [first, end) scored */
} Window;

typedef struct ChunkScore {
    size_t n;          /* tokens scored in it */
    double sum;        /* of their surprisals */
    double perplexity; /* of all chunks up to here */
} ChunkScore;

typedef struct Score {
    const Study *study;
    bool chunks;
    size_t n_vocab, n_ctx, n_windows;
    size_t n_likelier;    /* at most that many for each token */
    TokenScore *tokens;   /* [n_tokens], from 1 on; NULL with chunks */
    Likelier *likelier;   /* [n_tokens][n_likelier] likeliest first */
    int32_t *top;         /* [n_likelier] scratch */
    ChunkScore *by_chunk; /* [n_windows], or NULL */
    Window window;        /* the one under way */
    Totals totals;
    size_t n_to_score, n_fed; /* tokens */
    double start_ms;
} Score;

/* Of a token that has been scored: how many likelier ones are kept. */
static size_t n_likelier(const Score *score, size_t at) {
    return at_most(score->tokens[at].rank - 1, score->n_likelier);
}

/* Logits at a position of the window are the prediction of the next token. */
static void score_token(void *user, size_t position, const float *logits) {
    Score *score = user;
    size_t at = score->window.begin + position + 1;
    int32_t id = score->study->tokens.ids[at];
    Distribution expected = distribution_of(logits, score->n_vocab);
    double surprisal = expected.log_sum - (double)logits[id];

    Totals *totals = &score->totals;
    totals->n++;
    totals->sum += surprisal;
    totals->sum_of_squares += surprisal * surprisal;
    totals->n_best += expected.best == id;
    totals->n_bytes += tokenizer_piece(score->study->tokenizer, id, false).n;
    if (score->chunks) return;

    Likelier *likelier = score->likelier + at * score->n_likelier;
    score->tokens[at] = (TokenScore){surprisal, expected.entropy, logits_rank(logits, score->n_vocab, id)};
    logits_top(logits, score->n_vocab, n_likelier(score, at), score->top);
    for (size_t i = 0; i < n_likelier(score, at); i++)
        likelier[i] = (Likelier){score->top[i], (float)exp((double)logits[score->top[i]] - expected.log_sum)};
}

static double seconds_since(double start_ms) { return 1e-3 * (now_ms() - start_ms); }

/* Feeds ids [n] and scores what each predicts, or with `each` NULL nothing. */
static bool feed(Score *score, Session *session, const int32_t *ids, size_t n, LogitsVisit *each,
                 Error *error) {
    for (size_t done = 0, m; done < n; done += m) {
        char what[64];
        m = at_most(n - done, each ? PIECE : SESSION_CHUNK);
        snprintf(what, sizeof what, "%7.1f tokens/s, scored",
                 (double)score->totals.n / (seconds_since(score->start_ms) + 1e-9));
        if (score->n_to_score > PIECE) show_progress(what, score->totals.n, score->n_to_score);
        if (!study_feed(score->study, session, ids + done, m, each, score, error)) return false;
        score->n_fed += m;
    }
    return true;
}

/* The i-th of n_windows. */
static Window window_at(const Score *score, size_t i) {
    size_t n_ctx = score->n_ctx, n_tokens = score->study->tokens.n, half = n_ctx / 2;
    if (score->chunks) return (Window){i * n_ctx, i * n_ctx + half + 1, (i + 1) * n_ctx};
    return (Window){i * half, i == 0 ? 1 : i * half + n_ctx - half + 1,
                    at_most(i * half + n_ctx + 1, n_tokens)};
}

static bool score_window(Score *score, Session *session, int32_t *ids, Error *error) {
    const Study *study = score->study;
    const Window *window = &score->window;
    size_t n = window->end - window->begin - 1, n_before = window->first - window->begin - 1;
    memcpy(ids, study->tokens.ids + window->begin, n * sizeof *ids);
    if (score->chunks && study->bos) ids[0] = study->tokens.ids[0];
    session_rewind(session, 0);
    return feed(score, session, ids, n_before, NULL, error) &&
           feed(score, session, ids + n_before, n - n_before, score_token, error);
}

static bool score_text(Score *score, Error *error) {
    size_t n = at_most(score->n_ctx, score->study->tokens.n);
    Session *session = study_session(score->study, n, NULL, error);
    int32_t *ids = session ? calloc(n, sizeof *ids) : NULL;
    bool ok = session && (ids || error_set(error, "not enough memory for a window of %zu tokens", n));
    score->start_ms = now_ms();
    for (size_t i = 0; i < score->n_windows && ok; i++) {
        Totals before = score->totals, *totals = &score->totals;
        score->window = window_at(score, i);
        ok = score_window(score, session, ids, error);
        if (score->chunks)
            score->by_chunk[i] = (ChunkScore){totals->n - before.n, totals->sum - before.sum,
                                              exp(totals->sum / (double)totals->n)};
    }
    if (score->n_to_score > PIECE) show_progress("", 1, 1);
    free(ids);
    session_free(session);
    return ok;
}

/* What the options and the length of the text make of n_ctx, n_windows, n_to_score. */
static bool plan(Score *score, Error *error) {
    const StudyOptions *options = score->study->options;
    size_t n_tokens = score->study->tokens.n, limit = model_config(score->study->model)->n_ctx, n_ctx = limit;
    if (score->chunks && n_ctx > CHUNK_CTX) n_ctx = CHUNK_CTX;
    if (options->n_ctx) n_ctx = (size_t)options->n_ctx;
    if (score->chunks && options->words)
        return error_set(error, "--chunks prints no tokens, so that --words has none to join; choose one");
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
        return error_set(error, score->study->bos
                                    ? "the text is empty: there is nothing to score"
                                    : "the text is one token, and nothing stands before it to foresee it; "
                                      "--bos puts a token there");
    size_t half = n_ctx / 2;
    score->n_windows = n_tokens <= n_ctx + 1 ? 1 : 1 + (n_tokens - n_ctx - 1 + half - 1) / half;
    score->n_to_score = n_tokens - 1;
    return true;
}

static bool score_new(Score *score, const Study *study, Error *error) {
    const StudyOptions *options = study->options;
    size_t n = study->tokens.n;
    *score = (Score){.study = study,
                     .chunks = options->chunks,
                     .n_vocab = model_config(study->model)->n_vocab,
                     .n_likelier = at_most(study_top(study, TOP), model_config(study->model)->n_vocab - 1)};
    if (!plan(score, error)) return false;
    bool ok;
    if (score->chunks) {
        score->by_chunk = calloc(score->n_windows, sizeof *score->by_chunk);
        ok = score->by_chunk != NULL;
    } else {
        score->tokens = calloc(n, sizeof *score->tokens);
        score->likelier = calloc(n, (score->n_likelier + 1) * sizeof *score->likelier);
        score->top = calloc(score->n_likelier + 1, sizeof *score->top);
        ok = score->tokens && score->likelier && score->top;
    }
    return ok || error_set(error, "not enough memory for the scores of %zu tokens", n);
}

static void score_free(Score *score) {
    free(score->tokens);
    free(score->likelier);
    free(score->top);
    free(score->by_chunk);
}

static double mean_nll(const Totals *totals) { return totals->sum / (double)totals->n; }

/* The standard error of the mean carried through exp; NaN for a single token. */
static double perplexity_error(const Totals *totals) {
    double mean = mean_nll(totals), variance = totals->sum_of_squares / (double)totals->n - mean * mean;
    if (totals->n < 2) return NAN;
    return exp(mean) * sqrt(fmax(variance, 0) / (double)(totals->n - 1));
}

/* NaN when the tokens stand for no bytes. */
static double bits_per_byte(const Totals *totals) {
    return totals->n_bytes ? totals->sum * BITS_PER_NAT / (double)totals->n_bytes : NAN;
}

/* Where the word ends that begins at token `at`. */
static size_t end_of_word(const Study *study, size_t at) {
    for (at++; at < study->tokens.n && !begins_word(study, at); at++) {
    }
    return at;
}

static double word_surprisal(const Score *score, size_t begin, size_t end) {
    double sum = 0;
    for (size_t i = begin; i < end; i++) sum += score->tokens[i].surprisal;
    return sum;
}

static void json_positions(Report *report, const Score *score) {
    const Study *study = score->study;
    json_array(report, "positions");
    for (size_t at = 1; at < study->tokens.n; at++) {
        const TokenScore *token = &score->tokens[at];
        const Likelier *likelier = score->likelier + at * score->n_likelier;
        json_object(report, NULL);
        json_int(report, "position", (int64_t)at);
        json_token(report, study->tokens.ids[at], study);
        json_real(report, "surprisal_nats", token->surprisal);
        json_int(report, "rank", (int64_t)token->rank);
        json_real(report, "entropy_nats", token->entropy);
        json_array(report, "likelier");
        for (size_t i = 0; i < n_likelier(score, at); i++) {
            json_object(report, NULL);
            json_token(report, likelier[i].id, study);
            json_real(report, "probability", (double)likelier[i].p);
            json_end_object(report);
        }
        json_end_array(report);
        json_end_object(report);
    }
    json_end_array(report);
}

static void json_words(Report *report, const Score *score, const JoinedText *text) {
    const Study *study = score->study;
    json_array(report, "words");
    for (size_t begin = 1, end; begin < study->tokens.n; begin = end) {
        end = end_of_word(study, begin);
        json_object(report, NULL);
        json_joined(report, "text", text, begin, end);
        json_int(report, "position", (int64_t)begin);
        json_int(report, "n_tokens", (int64_t)(end - begin));
        json_real(report, "surprisal_nats", word_surprisal(score, begin, end));
        json_end_object(report);
    }
    json_end_array(report);
}

static void json_chunks(Report *report, const Score *score) {
    json_array(report, "chunks");
    for (size_t i = 0; i < score->n_windows; i++) {
        const ChunkScore *chunk = &score->by_chunk[i];
        json_object(report, NULL);
        json_int(report, "n", (int64_t)chunk->n);
        json_real(report, "nll_nats", chunk->sum / (double)chunk->n);
        json_real(report, "perplexity", chunk->perplexity);
        json_end_object(report);
    }
    json_end_array(report);
}

static void print_json(Report *report, const Score *score, const JoinedText *text) {
    const Totals *totals = &score->totals;
    json_int(report, "n_ctx", (int64_t)score->n_ctx);
    json_int(report, "n_windows", (int64_t)score->n_windows);
    if (score->chunks)
        json_chunks(report, score);
    else
        json_positions(report, score);
    if (score->study->options->words) json_words(report, score, text);
    json_object(report, "totals");
    json_int(report, "n", (int64_t)totals->n);
    json_real(report, "nll_nats", mean_nll(totals));
    json_real(report, "perplexity", exp(mean_nll(totals)));
    json_real(report, "perplexity_error", perplexity_error(totals));
    json_real(report, "bits_per_byte", bits_per_byte(totals));
    json_int(report, "n_bytes", (int64_t)totals->n_bytes);
    json_real(report, "top1_accuracy", (double)totals->n_best / (double)totals->n);
    json_end_object(report);
}

/* The likelier tokens of a row: what the line has room for or, on further lines, all that --top asks for. */
static void print_likelier(const Report *report, const Score *score, size_t at) {
    const Likelier *likelier = score->likelier + at * score->n_likelier;
    size_t row_width = ROW_WIDTH + (report->bars ? 2 + BAR_WIDTH : 0);
    size_t n = n_likelier(score, at), room = report->width > row_width ? report->width - row_width : 0;
    size_t per_line = room < CELL_WIDTH ? 1 : room / CELL_WIDTH;
    if (score->study->options->top < 0 && n > room / CELL_WIDTH) n = room / CELL_WIDTH;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && i % per_line == 0) printf("\n%*s", (int)row_width, "");
        fputs("  ", stdout);
        print_token(report, score->study, likelier[i].id, CELL_WIDTH - 8);
        printf("%5.1f%%", 100 * (double)likelier[i].p);
    }
    putchar('\n');
}

static void print_tokens(const Report *report, const Score *score) {
    const Study *study = score->study;
    int bar_width = report->bars ? 2 + BAR_WIDTH : 0;
    print_styled(report, STYLE_DIM,
                 "bits: surprisal -log2 p of the token; rank 1: the likeliest; entropy: the bits "
                 "expected before it\n");
    print_styled(report, STYLE_BOLD, "  pos  token             bits%*s    rank  entropy  likelier, with p\n",
                 bar_width, "");
    for (size_t at = 0; at < study->tokens.n; at++) {
        const TokenScore *token = &score->tokens[at];
        printf("%5zu  ", at);
        print_token(report, study, study->tokens.ids[at], 14);
        if (at == 0) {
            printf("%8s%*s%9s\n", "-", 8 + bar_width, "-", "-");
            continue;
        }
        printf("%8.2f", token->surprisal * BITS_PER_NAT);
        int used = (int)print_bar(report, token->surprisal / log((double)score->n_vocab), BAR_WIDTH);
        printf("%*zu%9.2f", 8 + bar_width - used, token->rank, token->entropy * BITS_PER_NAT);
        print_likelier(report, score, at);
    }
}

static void print_words(const Report *report, const Score *score) {
    const Study *study = score->study;
    print_styled(report, STYLE_DIM, "bits: surprisal -log2 p of the word, the sum over its tokens\n");
    print_styled(report, STYLE_BOLD, "  pos  tokens    bits  word\n");
    for (size_t begin = 1, end; begin < study->tokens.n; begin = end) {
        end = end_of_word(study, begin);
        printf("%5zu%8zu%8.2f ", begin, end - begin, word_surprisal(score, begin, end) * BITS_PER_NAT);
        for (size_t i = begin; i < end; i++) {
            putchar(' ');
            print_token(report, study, study->tokens.ids[i], 0);
        }
        putchar('\n');
    }
}

static void print_chunks(const Report *report, const Score *score) {
    print_styled(report, STYLE_DIM, "bits: mean surprisal in the chunk; perplexity: of all chunks so far\n");
    print_styled(report, STYLE_BOLD, "chunk  tokens    bits  perplexity\n");
    for (size_t i = 0; i < score->n_windows; i++) {
        const ChunkScore *chunk = &score->by_chunk[i];
        printf("%5zu%8zu%8.3f%12.4f\n", i + 1, chunk->n, chunk->sum / (double)chunk->n * BITS_PER_NAT,
               chunk->perplexity);
    }
}

static void print_totals(const Report *report, const Score *score) {
    const Totals *totals = &score->totals;
    double mean = mean_nll(totals), error = perplexity_error(totals), per_byte = bits_per_byte(totals);
    printf("\n%zu token%s scored: %.4f bits (%.4f nats) each, perplexity %.4f", totals->n,
           totals->n == 1 ? "" : "s", mean * BITS_PER_NAT, mean, exp(mean));
    if (isfinite(error)) printf(" %s %.4f", report->ascii ? "+-" : "±", error);
    putchar('\n');
    if (isfinite(per_byte)) printf("%.4f bits per byte (%zu bytes); ", per_byte, totals->n_bytes);
    printf("the likeliest token was right %.1f%% of the time\n",
           100 * (double)totals->n_best / (double)totals->n);
    if (score->chunks)
        printf("%zu chunks of %zu tokens, the second half of each scored (llama.cpp's rule)\n",
               score->n_windows, score->n_ctx);
    else if (score->n_windows > 1)
        printf("%zu windows of %zu tokens, each %zu after the last\n", score->n_windows, score->n_ctx,
               score->n_ctx / 2);
}

static void print_text(const Report *report, const Score *score) {
    if (score->chunks)
        print_chunks(report, score);
    else if (score->study->options->words)
        print_words(report, score);
    else
        print_tokens(report, score);
    print_totals(report, score);
}

/* How fast a long text went, for those who plan a longer one. */
static void tell_speed(const Score *score, double seconds) {
    if (score->n_windows == 1) return;
    fprintf(stderr, "study: %zu tokens scored in %.1f s, %.1f a second; %zu were fed, %.1f a second\n",
            score->totals.n, seconds, (double)score->totals.n / (seconds + 1e-9), score->n_fed,
            (double)score->n_fed / (seconds + 1e-9));
}

bool view_score(Study *study, Error *error) {
    Report *report = &study->report;
    Score score;
    JoinedText text = {0};
    bool ok = score_new(&score, study, error) && score_text(&score, error);
    ok = ok && (!study->options->words || join_tokens(study, false, &text, error));
    if (ok) {
        tell_speed(&score, seconds_since(score.start_ms));
        report_open(report, study);
        if (report->json)
            print_json(report, &score, &text);
        else
            print_text(report, &score);
        report_close(report);
    }
    joined_free(&text);
    score_free(&score);
    return ok;
}
