/*
 * heads: what each head attends to, in numbers (headscores.h), on a text or, with --repeat, on random tokens
 * that stand there twice, where only a head that looks for repetition can tell what comes next. The same
 * scores of a pattern that looks everywhere alike are the chance level.
 */
#include "views/heads.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_PERIOD = 50, DEFAULT_BATCH = 10 };

static bool wants_pattern(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)user, (void)layer, (void)head;
    return site == PROBE_PATTERN;
}

void heads_add(Heads *heads, const ProbeView *view) {
    head_sums_add(&heads->sums[view->layer * heads->n_head + view->head], &heads->text, view->position,
                  view->data);
}

static void add_row(void *user, const ProbeView *view) { heads_add(user, view); }

/* xorshift64*, as the sampler draws. */
static uint32_t draw(uint64_t *state) {
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return (uint32_t)((x * 0x2545F4914F6CDD1Dull) >> 32);
}

/* The ids that stand for text, ascending; returns how many. Control tokens are none. */
static size_t find_ordinary(const Study *study, size_t n_vocab, int32_t *ordinary) {
    size_t n = 0;
    for (size_t id = 0; id < n_vocab; id++)
        if (tokenizer_piece(study->tokenizer, (int32_t)id, false).n > 0) ordinary[n++] = (int32_t)id;
    return n;
}

/* Each text: BOS, if there is one, then S tokens drawn alike, twice. */
static bool draw_texts(const Study *study, Heads *heads, Error *error) {
    size_t n_vocab = heads->n_vocab, period = heads->text.period;
    int32_t *ordinary = calloc(n_vocab, sizeof *ordinary);
    if (!ordinary) return error_set(error, "not enough memory for a list of %zu tokens", n_vocab);
    size_t n_ordinary = find_ordinary(study, n_vocab, ordinary);
    uint64_t state = study->seed ? study->seed : 1;
    int32_t *id = heads->ids;
    for (size_t text = 0; n_ordinary && text < heads->n_batch; text++) {
        if (heads->bos) *id++ = tokenizer_bos(study->tokenizer);
        for (size_t i = 0; i < period; i++) id[i] = id[period + i] = ordinary[draw(&state) % n_ordinary];
        id += 2 * period;
    }
    free(ordinary);
    return n_ordinary > 0 || error_set(error, "--repeat: no token of this vocabulary stands for text");
}

static bool opens_with_bos(const Study *study) {
    return !study->options->no_bos && tokenizer_bos(study->tokenizer) >= 0;
}

/* The largest S of which a text fits the context. */
static size_t longest_period(const Study *study) {
    size_t limit = study_n_ctx(study), bos = opens_with_bos(study);
    return limit < bos ? 0 : (limit - bos) / 2;
}

bool heads_can_repeat(const Study *study) {
    size_t id = 0, n_vocab = model_config(study->model)->n_vocab;
    while (id < n_vocab && tokenizer_piece(study->tokenizer, (int32_t)id, false).n == 0) id++;
    return id < n_vocab && longest_period(study) > 0;
}

/* The shape of the random texts. */
static bool plan_texts(const Study *study, Heads *heads, Error *error) {
    const StudyOptions *options = study->options;
    heads->bos = opens_with_bos(study);
    heads->n_batch = options->batch > 0 ? (size_t)options->batch : DEFAULT_BATCH;
    size_t most = longest_period(study);
    size_t period = options->repeat > 0 ? (size_t)options->repeat : at_most(most, DEFAULT_PERIOD);
    if (period > most)
        return error_set(
            error, "--repeat %zu makes a text of %zu tokens, more than the context of %zu: at most %zu fits",
            period, 2 * period + heads->bos, study_n_ctx(study), most);
    heads->text.period = period;
    heads->text.n = 2 * period + heads->bos;
    return true;
}

bool heads_begin(Heads *heads, const Study *study, bool random, Error *error) {
    const Config *config = model_config(study->model);
    heads->n_layer = config->n_layer;
    heads->n_head = config->n_head;
    heads->n_vocab = config->n_vocab;
    heads->random = random;
    heads->bos = study->bos;
    heads->n_batch = 1;
    heads->text.n = study->tokens.n;
    if (random && !plan_texts(study, heads, error)) return false;
    if (heads->text.n < 2)
        return error_set(error, "heads takes a text of two tokens or more: the first sees only itself");
    size_t n = heads->text.n, n_ids;
    if (!__builtin_mul_overflow(heads->n_batch, n, &n_ids)) {
        heads->ids = calloc(n_ids, sizeof *heads->ids);
        heads->earlier = calloc(n, sizeof *heads->earlier);
        heads->uniform = calloc(n, sizeof *heads->uniform);
        heads->sums = calloc(heads->n_layer * heads->n_head + 1, sizeof *heads->sums);
    }
    if (!heads->ids || !heads->earlier || !heads->uniform || !heads->sums)
        return error_set(error, "not enough memory for %zu texts of %zu tokens", heads->n_batch, n);
    heads->text.earlier = heads->earlier;
    if (random) return draw_texts(study, heads, error);
    memcpy(heads->ids, study->tokens.ids, n * sizeof *heads->ids);
    return true;
}

/* Adds the nll of the token after this position to that of the copy which it belongs to. */
static void add_nll(void *user, size_t position, const float *logits) {
    Heads *heads = user;
    size_t next = position + 1, n = heads->text.n;
    if (next == n) return;
    bool second = next >= n - heads->text.period;
    heads->copy_nll[second] -= sampler_logprob(logits, heads->n_vocab, heads->row[next]);
    heads->copy_n[second]++;
}

/* The same rows of a head that looks everywhere alike. */
static void add_chance(Heads *heads) {
    HeadSums *chance = &heads->sums[heads->n_layer * heads->n_head];
    for (size_t q = 0; q < heads->text.n; q++) {
        for (size_t k = 0; k <= q; k++) heads->uniform[k] = 1.0f / (float)(q + 1);
        head_sums_add(chance, &heads->text, q, heads->uniform);
    }
}

void heads_start(Heads *heads, size_t text) {
    heads->row = heads->ids + text * heads->text.n;
    find_earlier(heads->row, heads->text.n, heads->earlier);
    add_chance(heads);
}

bool heads_feed(Heads *heads, const Study *study, bool gain, Error *error) {
    Probe probe = {heads, wants_pattern, add_row};
    Session *session = study_session(study, heads->random ? heads->text.n : 0, &probe, error);
    bool ok = session;
    for (size_t i = 0; ok && i < heads->n_batch; i++) {
        heads_start(heads, i);
        session_rewind(session, 0);
        ok = study_feed(study, session, heads->row, heads->text.n, gain ? add_nll : NULL, heads, error);
    }
    session_free(session);
    return ok;
}

/* nats */
static double repeat_gain(const Heads *heads) {
    if (heads->copy_n[0] == 0 || heads->copy_n[1] == 0) return NAN;
    return heads->copy_nll[0] / (double)heads->copy_n[0] - heads->copy_nll[1] / (double)heads->copy_n[1];
}

/* A score as the table and the JSON object show it. */
typedef struct Column {
    const char *name, *key;
    size_t offset;   /* in HeadScores */
    int width, need; /* columns of the terminal; the least needed give way */
    double unit;     /* by which the table multiplies */
    double strong;   /* from here on bold; 0: never */
} Column;

enum { ESSENTIAL = 9 }; /* never gives way */

#define SCORE(member) offsetof(HeadScores, member)

static const Column columns[] = {
    {"entropy", "entropy_nats", SCORE(entropy), 9, 6, BITS_PER_NAT, 0},
    {"/max", "entropy_share", SCORE(entropy_share), 6, 4, 1, 0},
    {"conf", "confidence", SCORE(confidence), 6, 5, 1, 0},
    {"sink", "sink", SCORE(sink), 6, ESSENTIAL, 1, SINK_THRESHOLD},
    {"self", "self", SCORE(self), 6, 7, 1, 0},
    {"prev", "prev", SCORE(previous), 6, ESSENTIAL, 1, HEAD_THRESHOLD},
    {"dup", "dup", SCORE(duplicate), 6, ESSENTIAL, 1, HEAD_THRESHOLD},
    {"ind", "ind", SCORE(induction), 6, ESSENTIAL, 1, HEAD_THRESHOLD},
    {"tl_diag", "tl_diag", SCORE(tl_diag), 9, 8, 1, 0},
    {"tl_mul", "tl_mul", SCORE(tl_mul), 8, 2, 1, 0},
    {"tl_abs", "tl_abs", SCORE(tl_abs), 8, 1, 1, 0},
    {"dist", "distance", SCORE(distance), 8, 3, 1, 0},
};

enum { N_COLUMNS = sizeof columns / sizeof *columns, NAME_WIDTH = 7 };

static double column_value(const Column *column, const HeadScores *scores) {
    double value;
    memcpy(&value, (const char *)scores + column->offset, sizeof value);
    return value;
}

static HeadScores scores_at(const Heads *heads, size_t i) { return head_scores(&heads->sums[i]); }

static void json_scores(Report *report, const HeadScores *scores) {
    for (size_t i = 0; i < N_COLUMNS; i++)
        json_real(report, columns[i].key, column_value(&columns[i], scores));
}

void heads_json(const Heads *heads, Report *report) {
    size_t n_heads = heads->n_layer * heads->n_head;
    HeadScores scores = scores_at(heads, n_heads);
    int64_t n_repeated = (int64_t)heads->sums[n_heads].n_repeated;
    json_text(report, "mode", heads->random ? "repeat" : "text", SIZE_MAX);
    json_int(report, "n_queries", (int64_t)heads->sums[n_heads].n_queries);
    if (heads->random) {
        json_real(report, "repeat_gain_nats", repeat_gain(heads));
        json_array(report, "batches");
        for (size_t i = 0; i < heads->n_batch; i++) {
            json_array(report, NULL);
            for (size_t j = 0; j < heads->text.n; j++)
                json_int(report, NULL, heads->ids[i * heads->text.n + j]);
            json_end_array(report);
        }
        json_end_array(report);
    }
    json_object(report, "chance");
    json_scores(report, &scores);
    json_end_object(report);
    json_array(report, "heads");
    for (size_t i = 0; i < n_heads; i++) {
        char name[32];
        scores = scores_at(heads, i);
        json_object(report, NULL);
        json_text(report, "name", head_name(name, i / heads->n_head, i % heads->n_head), SIZE_MAX);
        json_int(report, "layer", (int64_t)(i / heads->n_head));
        json_int(report, "head", (int64_t)(i % heads->n_head));
        json_scores(report, &scores);
        json_int(report, "n_dup", n_repeated);
        json_int(report, "n_ind", n_repeated);
        json_text(report, "label", head_label(&scores), SIZE_MAX);
        json_end_object(report);
    }
    json_end_array(report);
}

static void json_row(Report *report, const char *key, const HeadScores *scores) {
    json_array(report, key);
    for (size_t i = 0; i < N_COLUMNS; i++) json_rounded(report, NULL, column_value(&columns[i], scores));
    json_end_array(report);
}

void heads_json_table(const Heads *heads, Report *report) {
    size_t n_heads = heads->n_layer * heads->n_head;
    HeadScores scores = scores_at(heads, n_heads);
    json_int(report, "n_queries", (int64_t)heads->sums[n_heads].n_queries);
    json_array(report, "columns");
    for (size_t i = 0; i < N_COLUMNS; i++) json_text(report, NULL, columns[i].key, SIZE_MAX);
    json_end_array(report);
    json_row(report, "chance", &scores);
    json_array(report, "rows");
    for (size_t i = 0; i < n_heads; i++) {
        scores = scores_at(heads, i);
        json_row(report, NULL, &scores);
    }
    json_end_array(report);
    json_array(report, "labels");
    for (size_t i = 0; i < n_heads; i++) {
        scores = scores_at(heads, i);
        json_text(report, NULL, head_label(&scores), SIZE_MAX);
    }
    json_end_array(report);
}

/* A text has no one diagonal. */
static bool applies(const Heads *heads, const Column *column) {
    return heads->random || column->offset != SCORE(tl_diag);
}

/* Chooses what fits the width beside the longest label. */
static void choose_columns(const Report *report, const Heads *heads, bool *shown) {
    size_t width = NAME_WIDTH, label_width = 0;
    for (size_t i = 0; i < heads->n_layer * heads->n_head; i++) {
        HeadScores scores = scores_at(heads, i);
        size_t n = strlen(head_label(&scores));
        if (n > 0 && n + 2 > label_width) label_width = n + 2;
    }
    for (size_t i = 0; i < N_COLUMNS; i++) {
        shown[i] = applies(heads, &columns[i]);
        if (shown[i]) width += (size_t)columns[i].width;
    }
    while (width + label_width > report->width) {
        size_t least = N_COLUMNS;
        for (size_t i = 0; i < N_COLUMNS; i++)
            if (shown[i] && columns[i].need < ESSENTIAL &&
                (least == N_COLUMNS || columns[i].need < columns[least].need))
                least = i;
        if (least == N_COLUMNS) break;
        shown[least] = false;
        width -= (size_t)columns[least].width;
    }
}

static void print_scores(const Report *report, const bool *shown, const HeadScores *scores, int digits) {
    for (size_t i = 0; i < N_COLUMNS; i++) {
        const Column *column = &columns[i];
        double value = column_value(column, scores);
        if (!shown[i]) continue;
        bool strong = column->strong > 0 && value >= column->strong;
        if (isnan(value))
            printf("%*s", column->width, "-");
        else
            print_styled(report, strong ? STYLE_BOLD : STYLE_PLAIN, "%*.*f", column->width,
                         column->offset == SCORE(distance) ? 1 : digits, value * column->unit);
    }
}

/* What was measured and what the columns say. */
static void print_legend(const Report *report, const Heads *heads, const bool *shown) {
    const HeadSums *chance = &heads->sums[heads->n_layer * heads->n_head];
    if (heads->random) {
        printf("%zu time%s %s%zu random tokens and the same again", heads->n_batch,
               heads->n_batch == 1 ? "" : "s", heads->bos ? "BOS, " : "", heads->text.period);
        double gain = repeat_gain(heads) * BITS_PER_NAT;
        if (!isnan(gain)) printf("; repeat gain %.2f bits a token", gain);
        putchar('\n');
    }
    print_style(report, STYLE_DIM);
    printf("Means over %zu queries: all positions but the first, which sees only itself.\n",
           chance->n_queries);
    printf("entropy  of a row, in bits; /max: as a share of log2 of the positions it sees\n");
    printf("conf     largest weight of a row; dist: how many tokens back, on average\n");
    printf("sink     weight on the first token; self: on the query; prev: on the token before\n");
    if (heads->random) {
        printf("dup      on the same token in the first copy; ind: on the token after that one\n");
        printf("         (both over the %zu queries of second copies)\n", chance->n_repeated);
        printf("tl_...   TransformerLens: diag: ind over the whole diagonal -%zu; mul, abs: detect_head\n",
               heads->text.period - 1);
    } else {
        printf("dup      on the same token earlier; ind: on the tokens after those\n");
        printf("         (both over the %zu queries whose token stood before)\n", chance->n_repeated);
        printf("tl_...   TransformerLens's detect_head for induction: mul, abs\n");
    }
    printf("label    ind, dup or prev of %.1f or more; parked on first token: sink of %.1f or more\n",
           HEAD_THRESHOLD, SINK_THRESHOLD);
    printf("chance   what looking everywhere alike would score\n");
    size_t n_left_out = 0;
    for (size_t i = 0; i < N_COLUMNS; i++)
        if (!shown[i] && applies(heads, &columns[i]))
            printf("%s%s", n_left_out++ ? ", " : "no room for (see --json): ", columns[i].name);
    if (n_left_out) putchar('\n');
    print_style(report, STYLE_PLAIN);
}

static void print_text(const Report *report, const Heads *heads) {
    size_t n_heads = heads->n_layer * heads->n_head;
    bool shown[N_COLUMNS];
    choose_columns(report, heads, shown);
    print_legend(report, heads, shown);
    print_style(report, STYLE_BOLD);
    printf("\n%-*s", NAME_WIDTH, "head");
    for (size_t i = 0; i < N_COLUMNS; i++)
        if (shown[i]) printf("%*s", columns[i].width, columns[i].name);
    puts("  label");
    print_style(report, STYLE_PLAIN);
    printf("%-*s", NAME_WIDTH, "chance");
    HeadScores scores = scores_at(heads, n_heads);
    print_scores(report, shown, &scores, 3);
    putchar('\n');
    for (size_t i = 0; i < n_heads; i++) {
        char name[32];
        scores = scores_at(heads, i);
        printf("%-*s", NAME_WIDTH, head_name(name, i / heads->n_head, i % heads->n_head));
        print_scores(report, shown, &scores, 2);
        const char *label = head_label(&scores);
        printf("%s%s\n", *label ? "  " : "", label);
    }
}

void heads_free(Heads *heads) {
    free(heads->ids);
    free(heads->earlier);
    free(heads->uniform);
    free(heads->sums);
}

/* The tokens of the report are those of the first random text. */
static bool show_first_text(Study *study, const Heads *heads, Error *error) {
    if (!heads->random) return true;
    study->bos = heads->bos;
    for (size_t i = 0; i < heads->text.n; i++)
        if (!tokens_push(&study->tokens, heads->ids[i], error)) return false;
    return true;
}

bool view_heads(Study *study, Error *error) {
    const StudyOptions *options = study->options;
    Report *report = &study->report;
    Heads heads = {0};
    bool asked = options->repeat > 0 || options->batch > 0;
    if (asked && study->tokens.n > 0)
        return error_set(error, "--repeat and --batch make texts of their own: leave out %s",
                         options->prompt ? "-p" : "-f");
    bool ok = heads_begin(&heads, study, asked || study->tokens.n == 0, error) &&
              show_first_text(study, &heads, error) && heads_feed(&heads, study, heads.random, error);
    if (ok) {
        report_open(report, study);
        if (report->json)
            heads_json(&heads, report);
        else
            print_text(report, &heads);
        report_close(report);
    }
    heads_free(&heads);
    return ok;
}
