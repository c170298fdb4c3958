/*
 * case: attention worked by hand: small examples in a JSON file, every step of them as a table. Plain double
 * arithmetic, nothing of the engine, so that either can be held against the other.
 *
 *   Q = X_q W_q^T + b_q    K = X_k W_k^T + b_k    V = X_v W_v^T + b_v    cut into heads of equal width; then
 *   scores_ij: dot q_i·k_j, bilinear k_j·W q_i (Luong et al. 2015, arXiv:1508.04025), or
 *              additive v_a·tanh(W k_j + U q_i) (Bahdanau et al. 2015, arXiv:1409.0473)
 *   scaled = scores/√d for "scaled-dot"    masked: −∞ where j > i, if causal    weights: softmax of each row
 *   context = weights V, heads side by side    output = context W_o^T + b_o
 *
 * Every case is worked out twice: to check them all before the first is printed, and to print it.
 */
#include "unicode.h"
#include "views/json.h"
#include "views/study.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_SIDE = 64, /* rows, columns and heads: more is not worked by hand */
    CELL = 9,      /* columns of a number */
    LABEL = 12,    /* at most, of a row's name */
};

static const double tolerance = 1e-5; /* between what comes out and what the file expects */

typedef struct Table {
    size_t rows, cols;
    double *data; /* [rows][cols], owned; NULL: there is none */
} Table;

/* What a file gives … */
typedef enum GivenKind {
    GIVEN_X,
    GIVEN_Q,
    GIVEN_K,
    GIVEN_V,
    W_Q,
    W_K,
    W_V,
    W_O,
    B_Q,
    B_K,
    B_V,
    B_O,
    SCORE_W,
    SCORE_U,
    SCORE_V,
    EXPECTED_SCORES, /* scaled, as formulas usually have them */
    EXPECTED_WEIGHTS,
    EXPECTED_CONTEXT, /* the output, unless that is given too */
    EXPECTED_OUTPUT,
    N_GIVEN
} GivenKind;

/* … under these names, as vectors (1 deep), matrices (2) or a matrix for each head (3). */
static const struct {
    const char *name;
    size_t min_depth, max_depth;
} given_kinds[N_GIVEN] = {
    [GIVEN_X] = {"x", 2, 2},
    [GIVEN_Q] = {"q", 2, 2},
    [GIVEN_K] = {"k", 2, 2},
    [GIVEN_V] = {"v", 2, 2},
    [W_Q] = {"w_q", 2, 2},
    [W_K] = {"w_k", 2, 2},
    [W_V] = {"w_v", 2, 2},
    [W_O] = {"w_o", 2, 2},
    [B_Q] = {"b_q", 1, 1},
    [B_K] = {"b_k", 1, 1},
    [B_V] = {"b_v", 1, 1},
    [B_O] = {"b_o", 1, 1},
    [SCORE_W] = {"w", 2, 2},
    [SCORE_U] = {"u", 2, 2},
    [SCORE_V] = {"v_a", 1, 1},
    [EXPECTED_SCORES] = {"scores", 2, 3},
    [EXPECTED_WEIGHTS] = {"weights", 2, 3},
    [EXPECTED_CONTEXT] = {"context", 2, 2},
    [EXPECTED_OUTPUT] = {"output", 2, 2},
};

/* What comes out. Scores to weights hold the rows of all heads, [n_head·queries][keys]. */
typedef enum StepKind { Q, K, V, SCORES, SCALED, MASKED, WEIGHTS, CONTEXT, OUTPUT, N_STEPS } StepKind;

static const char *const step_names[N_STEPS] = {"q",      "k",       "v",       "scores", "scaled",
                                                "masked", "weights", "context", "output"};

typedef enum ScoreKind { SCORE_DOT, SCORE_SCALED_DOT, SCORE_BILINEAR, SCORE_ADDITIVE, N_SCORES } ScoreKind;

static const char *const score_names[N_SCORES] = {"dot", "scaled-dot", "bilinear", "additive"};

typedef struct Case {
    const Json *json;
    char name[64]; /* for error lines */
    ScoreKind score;
    bool causal;
    size_t n_head;
    Table given[N_GIVEN];
    Table steps[N_STEPS];
} Case;

static void case_free(Case *c) {
    for (int i = 0; i < N_GIVEN; i++) free(c->given[i].data);
    for (int i = 0; i < N_STEPS; i++) free(c->steps[i].data);
}

static bool is_given(const Case *c, GivenKind kind) { return c->given[kind].data != NULL; }

static bool table_new(Table *table, size_t rows, size_t cols, Error *error) {
    *table = (Table){rows, cols, calloc(rows * cols, sizeof *table->data)};
    return table->data || error_set(error, "not enough memory for a table of %zu x %zu numbers", rows, cols);
}

static double *row_of(const Table *table, size_t row) { return table->data + row * table->cols; }

static double dot(const double *a, const double *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Copies the numbers of an array nested `depth` deep, whose lengths from the outermost on are sizes. */
static bool copy_numbers(const Case *c, const char *key, const Json *value, const size_t *sizes, size_t depth,
                         double **to, Error *error) {
    if (depth == 0) {
        if (value->kind != JSON_NUMBER)
            return error_set(error, "case '%s': \"%s\" holds something that is no number", c->name, key);
        *(*to)++ = value->number;
        return true;
    }
    if (value->kind != JSON_ARRAY || value->n != sizes[0])
        return error_set(error, "case '%s': \"%s\" has rows of different lengths", c->name, key);
    for (size_t i = 0; i < value->n; i++)
        if (!copy_numbers(c, key, &value->items[i], sizes + 1, depth - 1, to, error)) return false;
    return true;
}

static bool read_table(Case *c, GivenKind kind, const Json *value, Error *error) {
    const char *key = given_kinds[kind].name;
    size_t sizes[3] = {1, 1, 1}, depth = 0;
    for (const Json *v = value; v->kind == JSON_ARRAY && depth < 3; v = &v->items[0]) {
        if (v->n == 0 || v->n > MAX_SIDE)
            return error_set(error, "case '%s': \"%s\" has %zu rows, columns or heads; 1 to %d can be shown",
                             c->name, key, v->n, MAX_SIDE);
        sizes[depth++] = v->n;
    }
    if (depth < given_kinds[kind].min_depth || depth > given_kinds[kind].max_depth)
        return error_set(error, "case '%s': \"%s\" should be %s of numbers", c->name, key,
                         given_kinds[kind].max_depth == 1 ? "an array" : "an array of rows");
    Table *table = &c->given[kind];
    size_t cols = sizes[depth - 1], rows = depth == 1 ? 1 : depth == 2 ? sizes[0] : sizes[0] * sizes[1];
    if (!table_new(table, rows, cols, error)) return false;
    double *to = table->data;
    return copy_numbers(c, key, value, sizes, depth, &to, error);
}

/* Which of n names a text is; the first if it is missing. */
static bool read_choice(const Case *c, const char *key, const char *const *names, size_t n, size_t *choice,
                        Error *error) {
    const Json *value = json_get(c->json, key);
    char what[128];
    snprintf(what, sizeof what, "case '%s': \"%s\"", c->name, key);
    if (value && value->kind != JSON_TEXT) return error_set(error, "%s should be a text", what);
    return parse_choice(what, value ? value->text : NULL, names, n, choice, error);
}

static bool read_labels(const Case *c, const char *key, size_t n, Error *error) {
    const Json *labels = json_get(c->json, key);
    bool ok = !labels || (labels->kind == JSON_ARRAY && labels->n == n);
    for (size_t i = 0; labels && ok && i < n; i++) ok = labels->items[i].kind == JSON_TEXT;
    return ok || error_set(error, "case '%s': \"%s\" should be %zu texts", c->name, key, n);
}

/* Every key of the case that is none of ours is a mistake in writing. */
static bool read_keys(Case *c, Error *error) {
    static const char *const others[] = {"name",       "about", "source", "tokens",
                                         "key_tokens", "score", "mask",   "heads"};
    for (size_t i = 0; i < c->json->n; i++) {
        const char *key = c->json->keys[i];
        bool known = false;
        for (size_t j = 0; j < sizeof others / sizeof *others; j++) known |= strcmp(key, others[j]) == 0;
        for (GivenKind kind = 0; !known && kind < N_GIVEN; kind++) {
            if (strcmp(key, given_kinds[kind].name) != 0) continue;
            if (!read_table(c, kind, &c->json->items[i], error)) return false;
            known = true;
        }
        if (!known) return error_set(error, "case '%s': unknown key \"%s\"", c->name, key);
    }
    return true;
}

static bool read_case(Case *c, const Json *json, size_t number, Error *error) {
    static const char *const masks[] = {"none", "causal"};
    const Json *name = json_get(json, "name"), *about = json_get(json, "about"),
               *heads = json_get(json, "heads");
    *c = (Case){.json = json, .n_head = 1};
    if (json->kind != JSON_OBJECT) return error_set(error, "case %zu is no JSON object", number);
    if (name && name->kind == JSON_TEXT)
        snprintf(c->name, sizeof c->name, "%s", name->text);
    else
        snprintf(c->name, sizeof c->name, "%zu", number);
    if ((name && name->kind != JSON_TEXT) || (about && about->kind != JSON_TEXT))
        return error_set(error, "case '%s': \"name\" and \"about\" should be texts", c->name);
    if (heads) {
        bool whole = heads->kind == JSON_NUMBER && heads->number >= 1 && heads->number <= MAX_SIDE;
        c->n_head = whole ? (size_t)heads->number : 0;
        if (!whole || (double)c->n_head != heads->number)
            return error_set(error, "case '%s': \"heads\" should be a whole number from 1 to %d", c->name,
                             MAX_SIDE);
    }
    size_t score, mask;
    if (!read_choice(c, "score", score_names, N_SCORES, &score, error)) return false;
    if (!read_choice(c, "mask", masks, 2, &mask, error)) return false;
    c->score = (ScoreKind)score;
    c->causal = mask == 1;
    return read_keys(c, error);
}

/* Fails unless a table that is given has these sizes; rows 0: any number. */
static bool check_size(const Case *c, GivenKind kind, size_t rows, size_t cols, Error *error) {
    const Table *table = &c->given[kind];
    if (!table->data || ((!rows || table->rows == rows) && table->cols == cols)) return true;
    char wanted[32] = "any number of";
    if (rows) snprintf(wanted, sizeof wanted, "%zu", rows);
    return error_set(error,
                     "case '%s': \"%s\" has %zu rows of %zu numbers; %s rows of %zu would fit the rest",
                     c->name, given_kinds[kind].name, table->rows, table->cols, wanted, cols);
}

/* out = x W^T + b; without W it is x itself, and b is still added. */
static bool project(Case *c, StepKind step, const Table *x, GivenKind w_kind, GivenKind b_kind,
                    Error *error) {
    const Table *w = &c->given[w_kind], *b = &c->given[b_kind];
    Table *out = &c->steps[step];
    if (!check_size(c, w_kind, 0, x->cols, error)) return false;
    if (!check_size(c, b_kind, 1, w->data ? w->rows : x->cols, error)) return false;
    if (!table_new(out, x->rows, w->data ? w->rows : x->cols, error)) return false;
    for (size_t i = 0; i < out->rows; i++)
        for (size_t j = 0; j < out->cols; j++) {
            double *y = row_of(out, i) + j;
            *y = w->data ? dot(row_of(w, j), row_of(x, i), x->cols) : row_of(x, i)[j];
            if (b->data) *y += b->data[j];
        }
    return true;
}

/* Where queries, keys and values come from: what is not given comes from x, values from the keys' vectors. */
static const Table *source_of(const Case *c, GivenKind kind) {
    if (is_given(c, kind)) return &c->given[kind];
    return kind == GIVEN_V && is_given(c, GIVEN_K) ? &c->given[GIVEN_K] : &c->given[GIVEN_X];
}

/* Q, K and V, and whether all that is given fits them. */
static bool make_vectors(Case *c, Error *error) {
    const Table *q = source_of(c, GIVEN_Q), *k = source_of(c, GIVEN_K), *v = source_of(c, GIVEN_V);
    if (!q->data || !k->data)
        return error_set(error, "case '%s': give \"x\", or \"q\" and \"k\" (and \"v\")", c->name);
    if (!project(c, Q, q, W_Q, B_Q, error) || !project(c, K, k, W_K, B_K, error) ||
        !project(c, V, v, W_V, B_V, error))
        return false;
    size_t h = c->n_head, d_q = c->steps[Q].cols, d_k = c->steps[K].cols, d_v = c->steps[V].cols;
    if (d_q % h || d_k % h || d_v % h)
        return error_set(error, "case '%s': %zu heads do not divide vectors of %zu, %zu and %zu", c->name, h,
                         d_q, d_k, d_v);
    if (k->rows != v->rows)
        return error_set(error, "case '%s': %zu keys, but %zu values", c->name, k->rows, v->rows);
    if (c->causal && q->rows != k->rows)
        return error_set(error, "case '%s': a causal mask wants as many queries as keys, not %zu and %zu",
                         c->name, q->rows, k->rows);
    if (c->score <= SCORE_SCALED_DOT && d_q != d_k)
        return error_set(error, "case '%s': queries of %zu numbers have no dot product with keys of %zu",
                         c->name, d_q, d_k);
    bool wants_w = c->score >= SCORE_BILINEAR, wants_u = c->score == SCORE_ADDITIVE;
    if (is_given(c, SCORE_W) != wants_w || is_given(c, SCORE_U) != wants_u || is_given(c, SCORE_V) != wants_u)
        return error_set(
            error,
            "case '%s': bilinear scores take \"w\", additive ones \"w\", \"u\" and \"v_a\", others none",
            c->name);
    size_t hidden = wants_u ? c->given[SCORE_W].rows : d_k / h;
    return check_size(c, SCORE_W, hidden, c->score == SCORE_BILINEAR ? d_q / h : d_k / h, error) &&
           check_size(c, SCORE_U, hidden, d_q / h, error) && check_size(c, SCORE_V, 1, hidden, error) &&
           read_labels(c, "tokens", q->rows, error) && read_labels(c, "key_tokens", k->rows, error);
}

/* The score of one head's query q [d_q] and key k [d_k]. */
static double score_of(const Case *c, const double *q, size_t d_q, const double *k, size_t d_k) {
    const Table *w = &c->given[SCORE_W], *u = &c->given[SCORE_U];
    double sum = 0;
    switch (c->score) {
    case SCORE_BILINEAR:
        for (size_t i = 0; i < w->rows; i++) sum += k[i] * dot(row_of(w, i), q, d_q);
        return sum;
    case SCORE_ADDITIVE:
        for (size_t i = 0; i < w->rows; i++)
            sum += c->given[SCORE_V].data[i] * tanh(dot(row_of(w, i), k, d_k) + dot(row_of(u, i), q, d_q));
        return sum;
    default: return dot(q, k, d_q);
    }
}

/* One row: from a head's query to its part of the context. */
static void attend(Case *c, size_t head, size_t query) {
    const Table *k = &c->steps[K], *v = &c->steps[V];
    size_t n_keys = k->rows, n_queries = c->steps[Q].rows, row = head * n_queries + query;
    size_t d_q = c->steps[Q].cols / c->n_head, d_k = k->cols / c->n_head, d_v = v->cols / c->n_head;
    double *scores = row_of(&c->steps[SCORES], row), *scaled = row_of(&c->steps[SCALED], row);
    double *masked = row_of(&c->steps[MASKED], row), *weights = row_of(&c->steps[WEIGHTS], row);
    double *context = row_of(&c->steps[CONTEXT], query) + head * d_v, max = -INFINITY, sum = 0;
    for (size_t j = 0; j < n_keys; j++) {
        scores[j] =
            score_of(c, row_of(&c->steps[Q], query) + head * d_q, d_q, row_of(k, j) + head * d_k, d_k);
        scaled[j] = c->score == SCORE_SCALED_DOT ? scores[j] / sqrt((double)d_q) : scores[j];
        masked[j] = c->causal && j > query ? -INFINITY : scaled[j];
        max = fmax(max, masked[j]);
    }
    for (size_t j = 0; j < n_keys; j++) sum += weights[j] = exp(masked[j] - max);
    for (size_t j = 0; j < n_keys; j++) {
        weights[j] /= sum;
        for (size_t i = 0; i < d_v; i++) context[i] += weights[j] * row_of(v, j)[head * d_v + i];
    }
}

/* The step that an expected table is for. */
static StepKind step_expected(const Case *c, GivenKind kind) {
    switch (kind) {
    case EXPECTED_SCORES: return SCALED;
    case EXPECTED_WEIGHTS: return WEIGHTS;
    case EXPECTED_CONTEXT: return is_given(c, EXPECTED_OUTPUT) ? CONTEXT : OUTPUT;
    default: return OUTPUT;
    }
}

/* All steps. Fails on what does not fit together and on numbers beyond double's range. */
static bool work_out(Case *c, Error *error) {
    if (!make_vectors(c, error)) return false;
    size_t n_queries = c->steps[Q].rows, n_keys = c->steps[K].rows;
    for (StepKind step = SCORES; step <= WEIGHTS; step++)
        if (!table_new(&c->steps[step], c->n_head * n_queries, n_keys, error)) return false;
    if (!table_new(&c->steps[CONTEXT], n_queries, c->steps[V].cols, error)) return false;
    for (size_t head = 0; head < c->n_head; head++)
        for (size_t query = 0; query < n_queries; query++) attend(c, head, query);
    if (!project(c, OUTPUT, &c->steps[CONTEXT], W_O, B_O, error)) return false;
    for (StepKind step = Q; step < N_STEPS; step++)
        for (size_t i = 0; step != MASKED && i < c->steps[step].rows * c->steps[step].cols; i++)
            if (!isfinite(c->steps[step].data[i]))
                return error_set(error, "case '%s': its numbers are too large: \"%s\" is not finite", c->name,
                                 step_names[step]);
    for (GivenKind kind = EXPECTED_SCORES; kind < N_GIVEN; kind++) {
        const Table *step = &c->steps[step_expected(c, kind)];
        if (!check_size(c, kind, step->rows, step->cols, error)) return false;
    }
    return true;
}

/* How far what came out is from what the file expects, at most. */
static double largest_difference(const Case *c, GivenKind kind) {
    const Table *expected = &c->given[kind], *found = &c->steps[step_expected(c, kind)];
    double largest = 0;
    for (size_t i = 0; i < found->rows * found->cols; i++)
        largest = fmax(largest, fabs(found->data[i] - expected->data[i]));
    return largest;
}

static bool agrees(const Case *c) {
    for (GivenKind kind = EXPECTED_SCORES; kind < N_GIVEN; kind++)
        if (is_given(c, kind) && largest_difference(c, kind) > tolerance) return false;
    return true;
}

/* Breaks lines at spaces where the window ends. */
static void print_wrapped(const Report *report, const char *text, size_t n) {
    for (size_t at = 0, column = 0, end; at < n; at = end) {
        end = at + 1; /* a word with the space before it */
        while (end < n && text[end] != ' ') end++;
        size_t width = text_width(report, text + at, end - at);
        if (column > 0 && column + width > report->width) {
            putchar('\n');
            column = 0;
            if (text[at] == ' ') at++, width--;
        }
        print_column(report, text + at, end - at, 0);
        column += width;
    }
    putchar('\n');
}

/* The names of the rows or columns of a table: texts of the file, or a letter and a number. */
typedef struct Labels {
    const Json *texts; /* or NULL */
    char letter;
} Labels;

/* Cut to `width` columns and padded to it, on the left for a column's name. */
static void print_name(const Report *report, const Labels *labels, size_t i, size_t width, bool right) {
    char name[32];
    size_t n = (size_t)snprintf(name, sizeof name, "%c%zu", labels->letter, i);
    const char *text = labels->texts ? labels->texts->items[i].text : name;
    if (labels->texts) n = labels->texts->items[i].text_n;
    size_t used = text_width(report, text, n);
    if (right && used < width) printf("%*s", (int)(width - used), "");
    print_column(report, text, n, right && used < width ? 0 : width);
}

static void print_cell(double value) {
    if (value == -INFINITY)
        printf("%*s", CELL, "-inf");
    else if (fabs(value) < 1000)
        printf("%*.4f", CELL, value);
    else
        printf("%*.3g", CELL, value);
}

/* Rows [first, first + n) of a table under a title, in as many blocks of columns as the window asks for. */
static void print_table(const Report *report, const char *title, const Table *table, size_t first, size_t n,
                        const Labels *rows, const Labels *cols) {
    size_t fits = (report->width - LABEL) / (CELL + 1);
    print_styled(report, STYLE_BOLD, "\n%s\n", title);
    for (size_t begin = 0; begin < table->cols; begin += fits) {
        size_t end = begin + fits < table->cols ? begin + fits : table->cols;
        print_style(report, STYLE_DIM);
        printf("%*s", LABEL, "");
        for (size_t j = begin; j < end; j++) {
            printf("  ");
            print_name(report, cols, j, CELL - 1, true);
        }
        print_style(report, STYLE_PLAIN);
        putchar('\n');
        for (size_t i = 0; i < n; i++) {
            print_name(report, rows, i, LABEL, false);
            for (size_t j = begin; j < end; j++) {
                putchar(' ');
                print_cell(row_of(table, first + i)[j]);
            }
            putchar('\n');
        }
    }
}

/* A sum under way; a line that grows too long for the window is not printed. */
typedef struct Line {
    char text[256];
    size_t n;
} Line;

static void __attribute__((format(printf, 2, 3))) line_add(Line *line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (line->n < sizeof line->text)
        line->n += (size_t)vsnprintf(line->text + line->n, sizeof line->text - line->n, format, args);
    va_end(args);
}

static void print_line(const Report *report, const Line *line) {
    if (line->n > report->width || line->n >= sizeof line->text) return;
    print_styled(report, STYLE_DIM, "%s\n", line->text);
}

static const char first_number[] = "last row, first number: ";

/* How the last row's first number of head 0 came about, term by term, in the three steps that are sums. */
static void print_dot_example(const Report *report, const Case *c) {
    size_t last = c->steps[Q].rows - 1, d = c->steps[Q].cols / c->n_head;
    const double *q = row_of(&c->steps[Q], last), *k = row_of(&c->steps[K], 0);
    Line line = {.n = 0};
    line_add(&line, "%s", first_number);
    for (size_t i = 0; i < d; i++) line_add(&line, "%s%.4g*%.4g", i ? " + " : "", q[i], k[i]);
    line_add(&line, " = %.4f", row_of(&c->steps[SCORES], last)[0]);
    if (c->score <= SCORE_SCALED_DOT) print_line(report, &line);
}

static void print_softmax_example(const Report *report, const Case *c) {
    size_t last = c->steps[Q].rows - 1;
    const double *masked = row_of(&c->steps[MASKED], last);
    Line line = {.n = 0};
    line_add(&line, "%se^%.4g / (", first_number, masked[0]);
    for (size_t j = 0; j < c->steps[K].rows; j++) line_add(&line, "%se^%.4g", j ? " + " : "", masked[j]);
    line_add(&line, ") = %.4f", row_of(&c->steps[WEIGHTS], last)[0]);
    print_line(report, &line);
}

static void print_context_example(const Report *report, const Case *c) {
    size_t last = c->steps[Q].rows - 1;
    const double *weights = row_of(&c->steps[WEIGHTS], last);
    Line line = {.n = 0};
    line_add(&line, "%s", first_number);
    for (size_t j = 0; j < c->steps[K].rows; j++)
        line_add(&line, "%s%.4g*%.4g", j ? " + " : "", weights[j], row_of(&c->steps[V], j)[0]);
    line_add(&line, " = %.4f", row_of(&c->steps[CONTEXT], last)[0]);
    print_line(report, &line);
}

/* "Q = x * w_q^T + b_q", by what there is of it. */
static Line title_of(const Case *c, char name, GivenKind source, GivenKind w, GivenKind b) {
    const char *x = given_kinds[source_of(c, source) - c->given].name;
    Line title = {.n = 0};
    if (!is_given(c, w) && !is_given(c, b) && x[0] == name - 'A' + 'a') {
        line_add(&title, "%c, as it stands in the file", name);
        return title;
    }
    line_add(&title, "%c = %s", name, x);
    if (is_given(c, w)) line_add(&title, " * %s^T", given_kinds[w].name);
    if (is_given(c, b)) line_add(&title, " + %s", given_kinds[b].name);
    return title;
}

static const Labels dims = {NULL, 'd'};

static void print_vectors(const Report *report, const Case *c, const Labels *queries, const Labels *keys) {
    static const struct {
        StepKind step;
        GivenKind source, w, b;
    } vectors[] = {{Q, GIVEN_Q, W_Q, B_Q}, {K, GIVEN_K, W_K, B_K}, {V, GIVEN_V, W_V, B_V}};
    bool plain = is_given(c, GIVEN_X);
    for (int i = 0; i < 3; i++)
        plain &= !is_given(c, vectors[i].source) && !is_given(c, vectors[i].w) && !is_given(c, vectors[i].b);
    for (int i = 0; i < (plain ? 1 : 3); i++) {
        const Table *table = &c->steps[vectors[i].step];
        Line title = title_of(c, "QKV"[i], vectors[i].source, vectors[i].w, vectors[i].b);
        print_table(report, plain ? "Q = K = V = x" : title.text, table, 0, table->rows, i ? keys : queries,
                    &dims);
    }
    size_t d_q = c->steps[Q].cols / c->n_head, d_v = c->steps[V].cols / c->n_head;
    if (c->n_head == 1) return;
    print_styled(report, STYLE_DIM,
                 "head h takes d(%zu*h) to d(%zu*h + %zu) of Q and K, d(%zu*h) to d(%zu*h + %zu) of V\n", d_q,
                 d_q, d_q - 1, d_v, d_v, d_v - 1);
}

/* From scores to weights, of one head. */
static void print_head(const Report *report, const Case *c, size_t head, const Labels *queries,
                       const Labels *keys) {
    static const char *const formulas[N_SCORES] = {"q . k", "q . k", "k . (w * q)",
                                                   "v_a . tanh(w * k + u * q)"};
    size_t n = c->steps[Q].rows, d = c->steps[Q].cols / c->n_head;
    char title[96], of_head[32] = "";
    if (c->n_head > 1) snprintf(of_head, sizeof of_head, "head %zu: ", head);
    snprintf(title, sizeof title, "%sscores = %s", of_head, formulas[c->score]);
    print_table(report, title, &c->steps[SCORES], head * n, n, queries, keys);
    if (head == 0) print_dot_example(report, c);
    if (c->score == SCORE_SCALED_DOT) {
        snprintf(title, sizeof title, "%sscaled = scores / sqrt(%zu)", of_head, d);
        print_table(report, title, &c->steps[SCALED], head * n, n, queries, keys);
    }
    if (c->causal) {
        snprintf(title, sizeof title, "%smasked: no query sees a key that comes after it", of_head);
        print_table(report, title, &c->steps[MASKED], head * n, n, queries, keys);
    }
    snprintf(title, sizeof title, "%sweights = softmax of each row", of_head);
    print_table(report, title, &c->steps[WEIGHTS], head * n, n, queries, keys);
    if (head == 0) print_softmax_example(report, c);
}

static void print_expected(const Report *report, const Case *c) {
    bool any = false;
    for (GivenKind kind = EXPECTED_SCORES; kind < N_GIVEN; kind++) {
        if (!is_given(c, kind)) continue;
        double largest = largest_difference(c, kind);
        if (!any) putchar('\n');
        any = true;
        bool good = largest <= tolerance;
        print_styled(report, good ? STYLE_GOOD : STYLE_BAD, "%s: %s the file expects", given_kinds[kind].name,
                     good ? "as" : "NOT as");
        printf(" (largest difference %.2g)\n", largest);
    }
}

static void print_case(const Report *report, const Case *c) {
    const Json *about = json_get(c->json, "about"), *tokens = json_get(c->json, "tokens");
    const Json *key_tokens = json_get(c->json, "key_tokens");
    size_t n = c->steps[Q].rows;
    bool same =
        source_of(c, GIVEN_Q) == source_of(c, GIVEN_K); /* self-attention: keys bear the queries' names */
    Labels queries = {tokens, 'q'}, keys = {key_tokens ? key_tokens : same ? tokens : NULL, 'k'};
    print_style(report, STYLE_BOLD);
    print_wrapped(report, c->name, strlen(c->name));
    print_style(report, STYLE_PLAIN);
    if (about) print_wrapped(report, about->text, about->text_n);
    printf("score %s, mask %s, %zu head%s, %zu quer%s, %zu key%s\n", score_names[c->score],
           c->causal ? "causal" : "none", c->n_head, c->n_head == 1 ? "" : "s", n, n == 1 ? "y" : "ies",
           c->steps[K].rows, c->steps[K].rows == 1 ? "" : "s");
    print_vectors(report, c, &queries, &keys);
    for (size_t head = 0; head < c->n_head; head++) print_head(report, c, head, &queries, &keys);

    print_table(report, c->n_head > 1 ? "context = weights * V, heads side by side" : "context = weights * V",
                &c->steps[CONTEXT], 0, n, &queries, &dims);
    print_context_example(report, c);
    if (is_given(c, W_O) || is_given(c, B_O))
        print_table(report,
                    !is_given(c, B_O)   ? "output = context * w_o^T"
                    : !is_given(c, W_O) ? "output = context + b_o"
                                        : "output = context * w_o^T + b_o",
                    &c->steps[OUTPUT], 0, n, &queries, &dims);
    print_expected(report, c);
}

/* Rows [first, first + n) as an array of arrays. */
static void json_rows(Report *report, const char *key, const Table *table, size_t first, size_t n) {
    json_array(report, key);
    for (size_t i = first; i < first + n; i++) json_reals(report, NULL, row_of(table, i), table->cols);
    json_end_array(report);
}

/* Scores to weights are [head][query][key], without the first where there is one head. */
static void json_step(Report *report, const Case *c, StepKind step) {
    const Table *table = &c->steps[step];
    size_t n = c->steps[Q].rows;
    if (c->n_head == 1 || table->rows == n) {
        json_rows(report, step_names[step], table, 0, table->rows);
        return;
    }
    json_array(report, step_names[step]);
    for (size_t head = 0; head < c->n_head; head++) json_rows(report, NULL, table, head * n, n);
    json_end_array(report);
}

static void json_case(Report *report, const Case *c) {
    json_object(report, NULL);
    json_text(report, "name", c->name, SIZE_MAX);
    json_text(report, "score", score_names[c->score], SIZE_MAX);
    json_text(report, "mask", c->causal ? "causal" : "none", SIZE_MAX);
    json_int(report, "heads", (int64_t)c->n_head);
    for (StepKind step = Q; step < N_STEPS; step++) json_step(report, c, step);
    json_array(report, "expected");
    for (GivenKind kind = EXPECTED_SCORES; kind < N_GIVEN; kind++) {
        if (!is_given(c, kind)) continue;
        double largest = largest_difference(c, kind);
        json_object(report, NULL);
        json_text(report, "table", given_kinds[kind].name, SIZE_MAX);
        json_bool(report, "agrees", largest <= tolerance);
        json_real(report, "largest_difference", largest);
        json_end_object(report);
    }
    json_end_array(report);
    json_end_object(report);
}

/* The cases of a file, or the file itself as one. */
static bool cases_of(const Json *file, const Json **cases, size_t *n, Error *error) {
    const Json *list = json_get(file, "cases");
    *cases = list ? list->items : file;
    *n = list ? list->n : 1;
    if (list && (list->kind != JSON_ARRAY || list->n == 0))
        return error_set(error, "\"cases\" should be an array of cases");
    for (size_t i = 0; list && i < file->n; i++)
        if (strcmp(file->keys[i], "cases") != 0 && strcmp(file->keys[i], "about") != 0 &&
            strcmp(file->keys[i], "source") != 0)
            return error_set(error, "beside \"cases\" there may be \"about\" and \"source\", not \"%s\"",
                             file->keys[i]);
    return true;
}

/* Works every case out and, with `print`, shows it. *n_wrong: how many differ from what they expect. */
static bool go_through(Study *study, const Json *cases, size_t n, bool print, size_t *n_wrong, Error *error) {
    Report *report = &study->report;
    bool ok = true;
    *n_wrong = 0;
    for (size_t i = 0; ok && i < n; i++) {
        Case c;
        ok = read_case(&c, &cases[i], i, error) && work_out(&c, error);
        if (ok) *n_wrong += !agrees(&c);
        if (ok && print && report->json) json_case(report, &c);
        if (ok && print && !report->json) {
            if (i) puts("\n");
            print_case(report, &c);
        }
        case_free(&c);
    }
    return ok;
}

bool view_case(Study *study, Error *error) {
    Report *report = &study->report;
    TextBuffer text = {0};
    const char *path = study->options->model;
    const Json *cases;
    size_t n, n_wrong;
    Error why;
    Json *file = NULL;
    bool ok = read_text(path, &text, error);
    if (ok) {
        file = json_parse(text.data, text.n, &why);
        ok = file && cases_of(file, &cases, &n, &why) && go_through(study, cases, n, false, &n_wrong, &why);
        if (!ok) error_set(error, "%s: %s", path, why.message);
    }
    if (ok) {
        report_open(report, study);
        if (report->json) json_array(report, "cases");
        ok = go_through(study, cases, n, true, &n_wrong, error);
        if (report->json) json_end_array(report);
        report_close(report);
    }
    if (ok && n_wrong)
        ok = error_set(error, "%s: %zu of %zu cases differ from what the file expects by more than %g", path,
                       n_wrong, n, tolerance);
    json_free(file);
    free(text.data);
    return ok;
}
