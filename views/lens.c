/*
 * lens: what each layer's residual stream would predict if it left the model there (the logit lens, lensrows.h), at one
 * position. The final norm is applied to each with its own statistics, or with --frozen-norm to all with those of the
 * last one.
 */
#include "measures/lensrows.h"
#include "views/view.h"

enum { NARROWEST = 8, WIDEST = 14, BESIDE_TOKEN = 7 }; /* columns of a token in a row, and around it */

/* A row's numbers on a token that is followed through all rows. */
typedef struct Followed {
    size_t rank;
    double probability;
} Followed;

typedef struct LensViewRow {
    const struct LensView *view;
    const float *logits; /* [n_vocab] */
    double log_sum;      /* of them */
    char name[32];
    Followed final, target;
    double kl, entropy; /* nats; kl: of the final distribution from this one */
    int32_t *top;       /* [n_top] */
} LensViewRow;

typedef struct LensView {
    const char *query_text;
    size_t query, n_top;
    const char *token;
    bool mid, frozen;

    LensRows lens;
    int32_t final;     /* the model's answer */
    int32_t target;    /* of --token, or −1 */
    LensViewRow *rows; /* [lens.n_rows] */

    size_t n_shown, token_width; /* tokens of a row that fit the line, and their columns */
} LensView;

static Followed follow(const LensViewRow *row, int32_t id) {
    if (id < 0) return (Followed){0};
    return (Followed){logits_rank(row->logits, row->view->lens.n_vocab, id),
                      probability_of(row->logits, id, row->log_sum)};
}

static void fill_rows(LensView *view, int32_t *top) {
    const LensRows *lens = &view->lens;
    const float *last = lens->logits + (lens->n_rows - 1) * lens->n_vocab;
    view->final = distribution_of(last, lens->n_vocab).best;
    for (size_t i = 0; i < lens->n_rows; i++) {
        LensViewRow *row = &view->rows[i];
        row->view = view;
        row->logits = lens->logits + i * lens->n_vocab;
        row->top = top + i * view->n_top;
        Distribution distribution = distribution_of(row->logits, lens->n_vocab);
        row->log_sum = distribution.log_sum;
        row->entropy = distribution.entropy;
        row->kl = logits_kl(last, row->logits, lens->n_vocab);
        row->final = follow(row, view->final);
        row->target = follow(row, view->target);
        lens_row_name(lens, i, row->name);
        logits_top(row->logits, lens->n_vocab, view->n_top, row->top);
    }
}

static bool compute(Study *study, void *own, Error *error) {
    LensView *view = own;
    Arena *arena = &study->arena;
    if (!study_query(study, view->query_text, NULL, &view->query, error) ||
        (view->token && !study_token(study, view->token, &view->target, error)))
        return false;
    if (!lens_rows_begin_at(&view->lens, &study->subject, arena, view->query, view->mid, error)) return false;
    size_t n_rows = view->lens.n_rows;
    view->n_top = at_most(view->n_top, view->lens.n_vocab);
    view->rows = arena_new(arena, n_rows, sizeof *view->rows);
    int32_t *top = arena_new(arena, n_rows, (view->n_top + 1) * sizeof *top);
    Probe probe = {&view->lens, lens_rows_want, lens_rows_keep};
    /* Tokens after the query change nothing at it, and are not fed. */
    if (!arena_ok(arena, error, "%zu rows", n_rows) ||
        !study_feed(study, &probe, view->query, view->query + 1, error) ||
        !lens_rows_unembed(&view->lens, study->session, arena, view->frozen, error))
        return false;
    fill_rows(view, top);
    return true;
}

static void show_followed(Report *report, const char *key, const void *cell) {
    const Followed *followed = cell;
    char name[32];
    if (is_json(report)) {
        snprintf(name, sizeof name, "%s_rank", key);
        json_int(report, name, (int64_t)followed->rank);
        snprintf(name, sizeof name, "%s_probability", key);
        json_real(report, name, followed->probability);
        return;
    }
    if (followed->rank == 1) print_style(report, STYLE_BOLD);
    printf(" %6zu %5.3f", followed->rank, followed->probability);
    if (followed->rank == 1) print_style(report, STYLE_PLAIN);
}

/* The likeliest tokens: as JSON all, for people those that fit. */
static void show_top(Report *report, const char *key, const void *cell) {
    const LensViewRow *row = cell;
    if (is_json(report)) json_array(report, key);
    for (size_t k = 0; k < (is_json(report) ? row->view->n_top : row->view->n_shown); k++) {
        int32_t id = row->top[k];
        double p = probability_of(row->logits, id, row->log_sum);
        if (is_json(report)) {
            json_object(report, NULL);
            json_token(report, id);
            json_real(report, "probability", p);
            json_end_object(report);
            continue;
        }
        fputs("  ", stdout);
        if (id == row->view->final) print_style(report, STYLE_BOLD);
        print_token(report, id, row->view->token_width);
        printf(" %4.2f", p);
        if (id == row->view->final) print_style(report, STYLE_PLAIN);
    }
    if (is_json(report)) json_end_array(report);
}

#define ROW(member) offsetof(LensViewRow, member)

static const Column columns[] = {
    {"row", "row", CELL_NAME, ROW(name), -10},
    {"top", NULL, CELL_SHOWN, .show = show_top},
    {"final", "   rank     p", CELL_SHOWN, ROW(final), 13, .show = show_followed},
    {"target", "  rank'    p'", CELL_SHOWN, ROW(target), 13, .show = show_followed},
    {"kl_nats", "KL", CELL_REAL, ROW(kl), 7, 2, BITS_PER_NAT},
    {"entropy_nats", "entropy", CELL_REAL, ROW(entropy), 8, 2, BITS_PER_NAT},
    {NULL, "", CELL_SHOWN, .show = show_top},
};
enum { TARGET = 1 << 3 };

static const Table lens_table = TABLE("rows", columns);

/* The first row from which on the answer is on top to the end. */
static const char *settled(const LensView *view) {
    size_t row = view->lens.n_rows - 1;
    while (row > 0 && view->rows[row - 1].final.rank == 1) row--;
    return view->rows[row].name;
}

static void print_legend(const Study *study, const LensView *view) {
    const Report *report = &study->report;
    printf("After ");
    print_token(report, study->subject.tokens.ids[view->query], 0);
    printf(" (position %zu) the model expects ", view->query);
    print_token(report, view->final, 0);
    printf(": on top from %s on", settled(view));
    if (view->target >= 0) {
        printf("; also followed: ");
        print_token(report, view->target, 0);
    }
    putchar('\n');
    print_style(report, STYLE_DIM);
    printf("N_pre    the residual stream entering layer N, unembedded as if it left the model there\n");
    if (view->lens.per_layer == 2)
        printf("N_mid    the same between the layer's attention and its MLP\n");
    else if (view->mid)
        printf("N_mid    does not exist: this model's attention and MLP stand side by side\n");
    printf("rank, p  of the model's answer%s\n",
           view->target >= 0 ? "; rank', p': of the token that is also followed" : "");
    printf("KL       from the model's distribution to the row's, in bits; entropy of the row, in bits\n");
    if (view->frozen) printf("Every row is divided by the scale of the last one's norm.\n");
    print_style(report, STYLE_PLAIN);
    putchar('\n');
}

static void json_followed(Report *report, const char *key, int32_t id) {
    if (id >= 0) json_token_object(report, key, id);
}

/* How many tokens a line has room for beside the numbers, and how wide. */
static void fit_tokens(LensView *view, size_t width) {
    size_t used = view->target >= 0 ? 51 : 38, room = width > used ? width - used : 0;
    size_t n = room / (NARROWEST + BESIDE_TOKEN);
    view->n_shown = at_most(n ? n : 1, view->n_top);
    view->token_width = WIDEST;
    while (view->token_width > NARROWEST && view->n_shown * (view->token_width + BESIDE_TOKEN) > room)
        view->token_width--;
}

static bool show(Study *study, void *own, Error *error) {
    LensView *view = own;
    Report *report = &study->report;
    Columns left_out = view->target < 0 ? TARGET : 0;
    (void)error;
    if (is_json(report)) {
        json_int(report, "query", (int64_t)view->query);
        json_followed(report, "final", view->final);
        json_followed(report, "target", view->target);
        table_show(report, &lens_table, left_out, view->rows, view->lens.n_rows, sizeof *view->rows);
        return true;
    }
    char title[64] = "";
    fit_tokens(view, report->width);
    print_legend(study, view);
    if (view->n_shown < view->n_top)
        snprintf(title, sizeof title, "  likeliest (%zu of %zu fit)", view->n_shown, view->n_top);
    table_print_titles(report, &lens_table, left_out, !view->n_top || *title ? title : "  likeliest");
    for (size_t i = 0; i < view->lens.n_rows; i++)
        table_print_line(report, &lens_table, left_out, &view->rows[i]);
    return true;
}

static const LensView defaults = {.n_top = 5, .target = -1};

#define AT(member) offsetof(LensView, member)

static const Option options[] = {
    {"--query", NULL, OPTION_ONCE, AT(query_text)},   {"--token", NULL, OPTION_ONCE, AT(token)},
    {"--top", NULL, OPTION_SIZE, AT(n_top), 0, 1000}, {"--mid", NULL, OPTION_ON, AT(mid)},
    {"--frozen-norm", NULL, OPTION_ON, AT(frozen)},
};

const View view_lens = {
    .name = "lens",
    .summary = "what each layer would predict",
    .help =
        HELP("The logit lens: the final norm and the unembedding on the residual stream before each layer.\n"
             "\n"
             "  --query Q       at this position (the last)\n"
             "  --token T       follow this token too (a text, or #id)\n"
             "  --top K         tokens for each layer (5)\n"
             "  --mid           also between attention and MLP\n"
             "  --frozen-norm   divide by the final layer's scale, as TransformerLens did before 2026\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(LensView),
    .compute = compute,
    .show = show,
};
