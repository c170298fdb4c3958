/*
 * heads: what each head attends to, in numbers (measures/heads.h), on a text or, with --repeat, on random tokens
 * that stand there twice, where only a head that looks for repetition can tell what comes next. The same
 * scores of a pattern that looks everywhere alike are the chance level.
 */
#include "measures/heads.h"
#include "measures/scores.h"
#include "views/view.h"

#include <math.h>
#include <string.h>

typedef struct HeadsView {
    RandomTexts random; /* of --repeat and --batch */
    Heads heads;
    struct HeadRow *rows; /* [n_layer·n_head], and chance */
} HeadsView;

/* A head in the table. */
typedef struct HeadRow {
    char name[32];
    size_t layer, head;
    HeadScores scores;
    size_t n_repeated; /* queries that "dup" and "ind" are means over */
    const char *label;
} HeadRow;

static void show_label(Report *report, const char *key, const void *cell) {
    const char *label = *(const char *const *)cell;
    if (is_json(report))
        json_text(report, key, label, SIZE_MAX);
    else
        printf("%s%s", *label ? "  " : "", label);
}

#define ROW(member) offsetof(HeadRow, member)
#define SCORE(member) offsetof(HeadRow, scores.member)

static const Column columns[] = {
    {"name", "head", CELL_NAME, ROW(name), -7},
    {"layer", NULL, CELL_SIZE, ROW(layer)},
    {"head", NULL, CELL_SIZE, ROW(head)},
    {"entropy_nats", "entropy", CELL_REAL, SCORE(entropy), 9, 2, BITS_PER_NAT, .need = 6},
    {"entropy_share", "/max", CELL_REAL, SCORE(entropy_share), 6, 2, .need = 4},
    {"confidence", "conf", CELL_REAL, SCORE(confidence), 6, 2, .need = 5},
    {"sink", "sink", CELL_REAL, SCORE(sink), 6, 2, .strong = SINK_THRESHOLD},
    {"self", "self", CELL_REAL, SCORE(self), 6, 2, .need = 7},
    {"prev", "prev", CELL_REAL, SCORE(previous), 6, 2, .strong = HEAD_THRESHOLD},
    {"dup", "dup", CELL_REAL, SCORE(duplicate), 6, 2, .strong = HEAD_THRESHOLD},
    {"ind", "ind", CELL_REAL, SCORE(induction), 6, 2, .strong = HEAD_THRESHOLD},
    {"tl_diag", "tl_diag", CELL_REAL, SCORE(tl_diag), 9, 2, .need = 8},
    {"tl_mul", "tl_mul", CELL_REAL, SCORE(tl_mul), 8, 2, .need = 2},
    {"tl_abs", "tl_abs", CELL_REAL, SCORE(tl_abs), 8, 2, .need = 1},
    {"distance", "dist", CELL_REAL, SCORE(distance), 8, 1, .need = 3},
    {"learned_sink", "learned", CELL_REAL, SCORE(learned), 8, 2, .need = 9},
    {"n_dup", NULL, CELL_SIZE, ROW(n_repeated)},
    {"n_ind", NULL, CELL_SIZE, ROW(n_repeated)},
    {"label", "  label", CELL_SHOWN, ROW(label), .show = show_label},
};
enum {
    N_COLUMNS = sizeof columns / sizeof *columns,
    FIRST_SCORE = 3,
    TL_DIAG = 11,
    LEARNED = 15,
    END_OF_SCORES = 16
};

static const Table heads_table = TABLE("heads", columns);
static const Columns SCORES = (1 << END_OF_SCORES) - (1 << FIRST_SCORE);

/* The column of learned sinks, of a model that has none. */
static Columns not_there(const Heads *heads) {
    return has_learned_sinks(heads->subject->model) ? 0 : 1 << LEARNED;
}

static size_t n_heads(const Heads *heads) { return heads->n_layer * heads->n_head; }

/* The scores of head i of all; behind the last stands chance. */
static HeadRow row_of(const Heads *heads, size_t i) {
    HeadRow row = {
        .layer = i / heads->n_head, .head = i % heads->n_head, .scores = head_scores(&heads->sums[i])};
    row.n_repeated = heads->sums[n_heads(heads)].n_repeated;
    row.label = i < n_heads(heads) ? head_label(&row.scores) : "";
    head_name(row.name, row.layer, row.head);
    if (i == n_heads(heads)) strcpy(row.name, "chance");
    return row;
}

static void json_heads(const HeadsView *view, Report *report) {
    const Heads *heads = &view->heads;
    json_text(report, "mode", heads->random ? "repeat" : "text", SIZE_MAX);
    json_int(report, "n_queries", (int64_t)heads->sums[n_heads(heads)].n_queries);
    if (heads->random) {
        json_real(report, "repeat_gain_nats", heads_repeat_gain(heads));
        json_array(report, "batches");
        for (size_t i = 0; i < heads->n_batch; i++) {
            json_array(report, NULL);
            for (size_t j = 0; j < heads->text.n; j++)
                json_int(report, NULL, heads->ids[i * heads->text.n + j]);
            json_end_array(report);
        }
        json_end_array(report);
    }
    table_json_object(report, "chance", &heads_table, ~SCORES | not_there(heads),
                      &view->rows[n_heads(heads)]);
    table_show(report, &heads_table, not_there(heads), view->rows, n_heads(heads), sizeof *view->rows);
}

static void json_values(Report *report, const char *key, const HeadRow *row, Columns left_out) {
    json_array(report, key);
    for (size_t i = FIRST_SCORE; i < END_OF_SCORES; i++) {
        if (left_out >> i & 1) continue;
        double value;
        memcpy(&value, (const char *)row + columns[i].offset, sizeof value);
        json_rounded(report, NULL, value);
    }
    json_end_array(report);
}

void json_head_scores(Report *report, const char *key, const Heads *heads) {
    if (!heads->sums) {
        json_null(report, key);
        return;
    }
    HeadRow row = row_of(heads, n_heads(heads));
    Columns left_out = not_there(heads);
    json_object(report, key);
    json_int(report, "n_queries", (int64_t)heads->sums[n_heads(heads)].n_queries);
    json_array(report, "columns");
    for (size_t i = FIRST_SCORE; i < END_OF_SCORES; i++)
        if (!(left_out >> i & 1)) json_text(report, NULL, columns[i].key, SIZE_MAX);
    json_end_array(report);
    json_values(report, "chance", &row, left_out);
    json_array(report, "rows");
    for (size_t i = 0; i < n_heads(heads); i++) {
        row = row_of(heads, i);
        json_values(report, NULL, &row, left_out);
    }
    json_end_array(report);
    json_array(report, "labels");
    for (size_t i = 0; i < n_heads(heads); i++) json_text(report, NULL, row_of(heads, i).label, SIZE_MAX);
    json_end_array(report);
    json_end_object(report);
}

/* Says what was measured and what the columns mean. */
static void print_legend(const Report *report, const Heads *heads, Columns left_out, Columns too_wide) {
    const HeadSums *chance = &heads->sums[n_heads(heads)];
    if (heads->random) {
        printf("%zu time%s %s%zu random tokens and the same again", heads->n_batch,
               heads->n_batch == 1 ? "" : "s", heads->bos ? "BOS, " : "", heads->text.period);
        printf("; repeat gain %.2f bits a token\n", heads_repeat_gain(heads) * BITS_PER_NAT);
    }
    print_style(report, STYLE_DIM);
    printf("Means over %zu queries: all positions but the first, which sees only itself.\n",
           chance->n_queries);
    printf("entropy  of a row%s, in bits; /max: as a share of log2 of the positions it sees\n",
           not_there(heads) ? "" : " and its learned sink");
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
    if (!not_there(heads)) printf("learned  what goes to the head's learned sink, which has no value\n");
    printf("label    ind, dup or prev of %.1f or more; parked on first token: sink of %.1f or more\n",
           HEAD_THRESHOLD, SINK_THRESHOLD);
    printf("chance   what looking everywhere alike would score%s\n",
           model_config(heads->subject->model)->window ? ", without a window" : "");
    size_t n_gone = 0;
    for (size_t i = 0; i < N_COLUMNS; i++)
        if ((too_wide & ~left_out) >> i & 1)
            printf("%s%s", n_gone++ ? ", " : "no room for (see --json): ", columns[i].title);
    if (n_gone) putchar('\n');
    print_style(report, STYLE_PLAIN);
}

/* The columns of the longest label, with the space before it. */
static size_t label_width(const HeadsView *view) {
    size_t width = 0;
    for (size_t i = 0; i < n_heads(&view->heads); i++) {
        size_t n = strlen(view->rows[i].label);
        if (n > 0 && n + 2 > width) width = n + 2;
    }
    return width;
}

static void print_heads(Report *report, const HeadsView *view) {
    const Heads *heads = &view->heads;
    Columns left_out = not_there(heads) | (heads->random ? 0 : 1 << TL_DIAG); /* a text has no one diagonal */
    Columns too_wide = table_too_wide(&heads_table, left_out, report->width - label_width(view));
    Column finer[N_COLUMNS]; /* chance, with one digit more than heads */
    memcpy(finer, columns, sizeof finer);
    for (size_t i = 0; i < N_COLUMNS; i++)
        if (finer[i].digits == 2) finer[i].digits = 3;
    Table chance_table = TABLE(NULL, finer);
    print_legend(report, heads, left_out, too_wide);
    left_out |= too_wide;
    putchar('\n');
    table_print_titles(report, &heads_table, left_out, NULL);
    table_print_line(report, &chance_table, left_out, &view->rows[n_heads(heads)]);
    for (size_t i = 0; i < n_heads(heads); i++)
        table_print_line(report, &heads_table, left_out, &view->rows[i]);
}

/* The tokens of the report are those of the first random text. */
static bool show_first_text(Subject *subject, const Heads *heads, Error *error) {
    if (!heads->random) return true;
    subject->bos = heads->bos;
    for (size_t i = 0; i < heads->text.n; i++)
        if (!tokens_push(&subject->tokens, heads->ids[i], error)) return false;
    return true;
}

bool repeats_with_bos(const Study *study) {
    return !study->options->no_bos && tokenizer_bos(study->tokenizer) >= 0;
}

static bool check_repeat(const Study *study, size_t repeat, bool bos, Error *error) {
    size_t most = heads_longest_period(&study->subject, bos);
    if (repeat <= most) return true;
    return error_set(
        error, "--repeat %zu makes a text of %zu tokens, more than the context of %zu: at most %zu fits",
        repeat, 2 * repeat + bos, subject_n_ctx(&study->subject), most);
}

static bool check(const StudyOptions *o, const void *view, Error *error) {
    const RandomTexts *texts = &((const HeadsView *)view)->random;
    const char *text = o->prompt ? "-p" : o->prompt_file ? "-f" : o->ids ? "--ids" : NULL;
    return (texts->period == 0 && texts->n == 0) || !text ||
           error_set(error, "--repeat and --batch make texts of their own: leave out %s", text);
}

static bool compute(Study *study, void *view, Error *error) {
    HeadsView *v = view;
    Subject *subject = &study->subject;
    RandomTexts *texts = &v->random;
    bool random = subject->tokens.n == 0;
    texts->bos = repeats_with_bos(study);
    texts->seed = study->seed;
    if ((random && !check_repeat(study, texts->period, texts->bos, error)) ||
        !heads_begin(&v->heads, subject, &study->arena, random ? texts : NULL, error) ||
        !show_first_text(subject, &v->heads, error) || !heads_feed(&v->heads, random, error))
        return false;
    size_t n = n_heads(&v->heads);
    v->rows = arena_new(&study->arena, n + 1, sizeof *v->rows);
    if (!arena_ok(&study->arena, error, "%zu rows", n)) return false;
    for (size_t i = 0; i <= n; i++) v->rows[i] = row_of(&v->heads, i);
    return true;
}

static bool show(Study *study, void *view, Error *error) {
    const HeadsView *v = view;
    (void)error;
    if (is_json(&study->report))
        json_heads(v, &study->report);
    else
        print_heads(&study->report, v);
    return true;
}

static const Option options[] = {
    {"--repeat", NULL, OPTION_SIZE, offsetof(HeadsView, random.period), 2, 1e6},
    {"--batch", NULL, OPTION_SIZE, offsetof(HeadsView, random.n), 1, 10000},
};

const View view_heads = {
    .name = "heads",
    .summary = "what each head does: scores and labels",
    .help = HELP(
        "Scores of every head, means over queries: entropy, confidence (largest weight), attention to the\n"
        "first token (sink), to itself, to the previous token, mean distance, to earlier occurrences of\n"
        "the token (dup), to what followed them (ind), and TransformerLens's three induction scores.\n"
        "Without a text: on random tokens repeated once (--repeat and --batch take no text).\n"
        "\n"
        "  --repeat S      length of what is repeated (50, or what fits)     --batch B   how many (10)\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT | TEXT_IS_OPTIONAL,
    VIEW_OPTIONS(options),
    .size = sizeof(HeadsView),
    .check = check,
    .compute = compute,
    .show = show,
};
