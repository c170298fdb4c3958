/*
 * case: attention worked by hand: small examples in a JSON file, every step of them as a table. Plain double
 * arithmetic, nothing of the engine, so that either can be held against the other.
 *
 *   Q = X_q W_q^T + b_q    K = X_k W_k^T + b_k    V = X_v W_v^T + b_v    cut into heads of equal width; then
 *   scores_ij: dot q_i·k_j, bilinear k_j·W q_i (Luong et al. 2015, arXiv:1508.04025), or
 *              additive v_a·tanh(W k_j + U q_i) (Bahdanau et al. 2015, arXiv:1409.0473)
 *   scaled = scores, over √d for "scaled-dot", over the temperature    masked: −∞ where j > i, if causal
 *   weights: softmax of each row
 *   context = weights V, heads side by side    output = context W_o^T + b_o
 *
 * All cases are worked out before the first is printed, so that a mistake in the last prints none.
 */
#include "base/json.h"
#include "base/utf8.h"
#include "cli/input.h"
#include "views/view.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_SIDE = 64, /* rows, columns and heads: more is not worked by hand */
    MAX_CASES = 1000,
    MAX_BYTES = 1 << 22,   /* of the file */
    MAX_NUMBERS = 1 << 23, /* in all tables of all cases, given and worked out */
    CELL = 9,              /* columns of a number */
    LABEL = 12,            /* at most, of a row's name */
};

static const double usual_tolerance = 1e-5; /* between what comes out and what the file expects */

typedef struct Grid {
    size_t rows, cols;
    double *data; /* [rows][cols]; NULL: there is none */
} Grid;

/*
 * The arrays that a file gives; of each kind Q, K, V and, with matrices and biases, O follow each other. Then those
 * that it expects.
 */
enum { GIVEN_X, GIVEN_Q, GIVEN_K, GIVEN_V, W_Q, W_O = W_Q + 3, B_Q, B_O = B_Q + 3 };
enum { SCORE_W = B_O + 1, SCORE_U, SCORE_V };
enum { EXPECTED_SCORES = SCORE_V + 1, EXPECTED_WEIGHTS, EXPECTED_CONTEXT, EXPECTED_OUTPUT, N_GIVEN };

/* The names of both there. */
static const char *const given_names[N_GIVEN] = {"x",   "q",      "k",       "v",       "w_q",   "w_k", "w_v",
                                                 "w_o", "b_q",    "b_k",     "b_v",     "b_o",   "w",   "u",
                                                 "v_a", "scores", "weights", "context", "output"};

/* The results. Scores to weights hold the rows of all heads, [n_head·queries][keys]. */
typedef enum StepKind { Q, K, V, SCORES, SCALED, MASKED, WEIGHTS, CONTEXT, OUTPUT, N_STEPS } StepKind;

static const char *const step_names[N_STEPS] = {"q",      "k",       "v",       "scores", "scaled",
                                                "masked", "weights", "context", "output"};

typedef enum ScoreKind { SCORE_DOT, SCORE_SCALED_DOT, SCORE_BILINEAR, SCORE_ADDITIVE, N_SCORES } ScoreKind;

static const char *const score_names[N_SCORES] = {"dot", "scaled-dot", "bilinear", "additive"};
static const char *const mask_names[] = {"none", "causal"};

/* The names of the rows or columns of a table: texts of the file, or a letter and a number. */
typedef struct Labels {
    const Json *texts; /* or NULL */
    char letter;
} Labels;

/* A table that the file expects, and how far what came out is from it, at most. */
typedef struct Expected {
    const char *table;
    bool agrees;
    double largest_difference;
} Expected;

typedef struct Case {
    const Json *json;
    Arena *arena;  /* of all grids */
    size_t *left;  /* numbers that the file's further grids may have */
    Error *error;  /* where what is wrong with the case is said */
    char name[64]; /* the file's, or its number there */
    ScoreKind score;
    bool causal;
    size_t n_head;
    double tolerance, temperature;
    Grid given[N_GIVEN];
    Grid steps[N_STEPS];
    Labels queries, keys;
    Expected expected[N_GIVEN - EXPECTED_SCORES];
    size_t n_expected;
} Case;

typedef struct Cases {
    Json *json;  /* the file; owned, with its text */
    Case *items; /* [n] */
    size_t n, n_wrong;
    double exceeded; /* the smallest tolerance of those that are wrong */
} Cases;

static bool __attribute__((format(printf, 2, 3))) fail(const Case *c, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(c->error, "case '%s': %s", c->name, text);
}

static bool is_given(const Case *c, size_t kind) { return c->given[kind].data != NULL; }

static bool grid_new(const Case *c, Grid *grid, size_t rows, size_t cols) {
    if (rows * cols > *c->left)
        return fail(c, "with its tables there are more than %d numbers to work out", MAX_NUMBERS);
    *c->left -= rows * cols;
    *grid = (Grid){rows, cols, arena_new(c->arena, rows * cols, sizeof *grid->data)};
    return arena_ok(c->arena, c->error, "a table of %zu x %zu numbers", rows, cols);
}

static double *row_of(const Grid *grid, size_t row) { return grid->data + row * grid->cols; }

static double dot(const double *a, const double *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Copies the numbers of an array nested `depth` deep, whose lengths from the outermost on are sizes. */
static bool copy_numbers(const Case *c, const char *key, const Json *value, const size_t *sizes, size_t depth,
                         double **to) {
    if (depth == 0) {
        if (value->kind != JSON_NUMBER) return fail(c, "\"%s\" holds something that is no number", key);
        *(*to)++ = value->number;
        return true;
    }
    if (value->kind != JSON_ARRAY || value->n != sizes[0])
        return fail(c, "\"%s\" has rows of different lengths", key);
    for (size_t i = 0; i < value->n; i++)
        if (!copy_numbers(c, key, &value->items[i], sizes + 1, depth - 1, to)) return false;
    return true;
}

/* A vector is an array 1 deep, a matrix 2; what has a matrix for each head may be 3. */
static size_t max_depth(size_t kind) {
    if ((kind >= B_Q && kind <= B_O) || kind == SCORE_V) return 1;
    return kind == EXPECTED_SCORES || kind == EXPECTED_WEIGHTS ? 3 : 2;
}

static bool read_grid(Case *c, size_t kind, const Json *value) {
    const char *key = given_names[kind];
    size_t sizes[3] = {1, 1, 1}, depth = 0;
    for (const Json *v = value; v->kind == JSON_ARRAY && depth < 3; v = &v->items[0]) {
        if (v->n == 0 || v->n > MAX_SIDE)
            return fail(c, "\"%s\" has %u rows, columns or heads; 1 to %d can be shown", key, v->n, MAX_SIDE);
        sizes[depth++] = v->n;
    }
    size_t most = max_depth(kind);
    if (depth > most || depth < (most == 1 ? 1 : 2))
        return fail(c, "\"%s\" should be %s of numbers", key, most == 1 ? "an array" : "an array of rows");
    Grid *grid = &c->given[kind];
    size_t cols = sizes[depth - 1], rows = depth == 1 ? 1 : depth == 2 ? sizes[0] : sizes[0] * sizes[1];
    if (!grid_new(c, grid, rows, cols)) return false;
    double *to = grid->data;
    return copy_numbers(c, key, value, sizes, depth, &to);
}

/* Which of n names a text is; the first if it is missing. */
static bool read_choice(const Case *c, const char *key, const char *const *names, size_t n, size_t *choice) {
    const Json *value = json_get(c->json, key);
    char what[128], word[64]; /* longer than any of them */
    if (value && value->kind != JSON_TEXT) return fail(c, "\"%s\" should be a text", key);
    snprintf(word, sizeof word, "%.*s", string_shown(json_string(value)), json_string(value).data);
    snprintf(what, sizeof what, "case '%s': \"%s\"", c->name, key);
    return parse_choice(what, value ? word : NULL, names, n, choice, c->error);
}

static bool is_one_of(String word, const char *const *words, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (string_equals(word, words[i])) return true;
    return false;
}

static bool read_labels(const Case *c, const char *key, size_t n, Labels *labels) {
    const Json *texts = json_get(c->json, key);
    bool ok = !texts || (texts->kind == JSON_ARRAY && texts->n == n);
    for (size_t i = 0; texts && ok && i < n; i++) ok = texts->items[i].kind == JSON_TEXT;
    if (texts) labels->texts = texts;
    return ok || fail(c, "\"%s\" should be %zu texts", key, n);
}

/* A member that is a number above 0, or missing (then *value stays). */
static bool read_positive(const Json *object, const char *key, double *value) {
    const Json *number = json_get(object, key);
    if (number) *value = number->kind == JSON_NUMBER ? number->number : 0;
    return *value > 0;
}

/* Every key of the case that is none of ours is a mistake in writing. */
static bool read_keys(Case *c) {
    static const char *const others[] = {"name",  "about", "source", "tokens",    "key_tokens",
                                         "score", "mask",  "heads",  "tolerance", "temperature"};
    for (size_t i = 0; i < c->json->n; i++) {
        String key = json_key(c->json, i);
        size_t kind = 0;
        while (kind < N_GIVEN && !string_equals(key, given_names[kind])) kind++;
        if (kind < N_GIVEN && !read_grid(c, kind, json_item(c->json, i))) return false;
        if (kind == N_GIVEN && !is_one_of(key, others, sizeof others / sizeof *others))
            return fail(c, "unknown key \"%.*s\"", string_shown(key), key.data);
    }
    return true;
}

/* c begins with its arena, its error and the file's tolerance. */
static bool read_case(Case *c, const Json *json, size_t number) {
    const Json *name = json_get(json, "name"), *about = json_get(json, "about"),
               *heads = json_get(json, "heads");
    c->json = json;
    c->n_head = 1;
    c->temperature = 1;
    if (json->kind != JSON_OBJECT) return error_set(c->error, "case %zu is no JSON object", number);
    if (name && name->kind == JSON_TEXT)
        snprintf(c->name, sizeof c->name, "%.*s", string_shown(json_string(name)), name->text);
    else
        snprintf(c->name, sizeof c->name, "%zu", number);
    if ((name && name->kind != JSON_TEXT) || (about && about->kind != JSON_TEXT))
        return fail(c, "\"name\" and \"about\" should be texts");
    if (heads) {
        bool whole = heads->kind == JSON_NUMBER && heads->number >= 1 && heads->number <= (double)MAX_SIDE;
        c->n_head = whole ? (size_t)heads->number : 0;
        if (!whole || (double)c->n_head != heads->number)
            return fail(c, "\"heads\" should be a whole number from 1 to %d", MAX_SIDE);
    }
    if (!read_positive(json, "tolerance", &c->tolerance) ||
        !read_positive(json, "temperature", &c->temperature))
        return fail(c, "\"tolerance\" and \"temperature\" should be numbers above 0");
    size_t score, mask;
    if (!read_choice(c, "score", score_names, N_SCORES, &score)) return false;
    if (!read_choice(c, "mask", mask_names, 2, &mask)) return false;
    c->score = (ScoreKind)score;
    c->causal = mask == 1;
    return read_keys(c);
}

/* Fails unless a table that is given has these sizes; rows 0: any number. */
static bool check_size(const Case *c, size_t kind, size_t rows, size_t cols) {
    const Grid *grid = &c->given[kind];
    if (!grid->data || ((!rows || grid->rows == rows) && grid->cols == cols)) return true;
    char wanted[32] = "any number of";
    if (rows) snprintf(wanted, sizeof wanted, "%zu", rows);
    return fail(c, "\"%s\" has %zu rows of %zu numbers; %s rows of %zu would fit the rest", given_names[kind],
                grid->rows, grid->cols, wanted, cols);
}

/* out = x W^T + b, with W and b of Q, K, V or O (i = 0 … 3); without W it is x itself, and b is still added. */
static bool project(Case *c, StepKind step, const Grid *x, size_t i) {
    const Grid *w = &c->given[W_Q + i], *b = &c->given[B_Q + i];
    Grid *out = &c->steps[step];
    if (!check_size(c, W_Q + i, 0, x->cols)) return false;
    if (!check_size(c, B_Q + i, 1, w->data ? w->rows : x->cols)) return false;
    if (!grid_new(c, out, x->rows, w->data ? w->rows : x->cols)) return false;
    for (size_t row = 0; row < out->rows; row++)
        for (size_t col = 0; col < out->cols; col++) {
            const double *from = row_of(x, row);
            double y = w->data ? dot(row_of(w, col), from, x->cols) : from[col];
            row_of(out, row)[col] = b->data ? y + b->data[col] : y;
        }
    return true;
}

/* Where queries, keys and values come from: what is not given comes from x, values from the keys' vectors. */
static const Grid *source_of(const Case *c, size_t kind) {
    if (is_given(c, kind)) return &c->given[kind];
    return kind == GIVEN_V && is_given(c, GIVEN_K) ? &c->given[GIVEN_K] : &c->given[GIVEN_X];
}

/* Q, K and V, and whether all that is given fits them. */
static bool make_vectors(Case *c) {
    const Grid *q = source_of(c, GIVEN_Q), *k = source_of(c, GIVEN_K), *v = source_of(c, GIVEN_V);
    if (!q->data || !k->data) return fail(c, "give \"x\", or \"q\" and \"k\" (and \"v\")");
    if (!project(c, Q, q, 0) || !project(c, K, k, 1) || !project(c, V, v, 2)) return false;
    size_t h = c->n_head, d_q = c->steps[Q].cols, d_k = c->steps[K].cols, d_v = c->steps[V].cols;
    if (d_q % h || d_k % h || d_v % h)
        return fail(c, "%zu heads do not divide vectors of %zu, %zu and %zu", h, d_q, d_k, d_v);
    if (k->rows != v->rows) return fail(c, "%zu keys, but %zu values", k->rows, v->rows);
    if (c->causal && q->rows != k->rows)
        return fail(c, "a causal mask wants as many queries as keys, not %zu and %zu", q->rows, k->rows);
    if (c->score <= SCORE_SCALED_DOT && d_q != d_k)
        return fail(c, "queries of %zu numbers have no dot product with keys of %zu", d_q, d_k);
    bool wants_w = c->score >= SCORE_BILINEAR, wants_u = c->score == SCORE_ADDITIVE;
    if (is_given(c, SCORE_W) != wants_w || is_given(c, SCORE_U) != wants_u || is_given(c, SCORE_V) != wants_u)
        return fail(c, "bilinear scores take \"w\", additive ones \"w\", \"u\" and \"v_a\", others none");
    size_t hidden = wants_u ? c->given[SCORE_W].rows : d_k / h;
    c->queries.letter = 'q';
    c->keys.letter = 'k';
    if (!read_labels(c, "tokens", q->rows, &c->queries)) return false;
    if (q == k) c->keys.texts = c->queries.texts; /* self-attention */
    return read_labels(c, "key_tokens", k->rows, &c->keys) &&
           check_size(c, SCORE_W, hidden, c->score == SCORE_BILINEAR ? d_q / h : d_k / h) &&
           check_size(c, SCORE_U, hidden, d_q / h) && check_size(c, SCORE_V, 1, hidden);
}

/* The score of one head's query q [d_q] and key k [d_k]. */
static double score_of(const Case *c, const double *q, size_t d_q, const double *k, size_t d_k) {
    const Grid *w = &c->given[SCORE_W], *u = &c->given[SCORE_U];
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
    const Grid *k = &c->steps[K], *v = &c->steps[V];
    size_t n_keys = k->rows, n_queries = c->steps[Q].rows, row = head * n_queries + query;
    size_t d_q = c->steps[Q].cols / c->n_head, d_k = k->cols / c->n_head, d_v = v->cols / c->n_head;
    double *scores = row_of(&c->steps[SCORES], row), *scaled = row_of(&c->steps[SCALED], row);
    double *masked = row_of(&c->steps[MASKED], row), *weights = row_of(&c->steps[WEIGHTS], row);
    double *context = row_of(&c->steps[CONTEXT], query) + head * d_v, max = -INFINITY, sum = 0;
    for (size_t j = 0; j < n_keys; j++) {
        scores[j] =
            score_of(c, row_of(&c->steps[Q], query) + head * d_q, d_q, row_of(k, j) + head * d_k, d_k);
        scaled[j] = scores[j] / (c->score == SCORE_SCALED_DOT ? sqrt((double)d_q) : 1) / c->temperature;
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
static StepKind step_expected(const Case *c, size_t kind) {
    switch (kind) {
    case EXPECTED_SCORES: return SCALED;
    case EXPECTED_WEIGHTS: return WEIGHTS;
    case EXPECTED_CONTEXT: return is_given(c, EXPECTED_OUTPUT) ? CONTEXT : OUTPUT;
    default: return OUTPUT;
    }
}

/* How far what came out is from what the file expects, table by table. */
static bool compare(Case *c) {
    for (size_t kind = EXPECTED_SCORES; kind < N_GIVEN; kind++) {
        const Grid *expected = &c->given[kind], *found = &c->steps[step_expected(c, kind)];
        double largest = 0;
        if (!expected->data) continue;
        if (!check_size(c, kind, found->rows, found->cols)) return false;
        for (size_t i = 0; i < found->rows * found->cols; i++)
            largest = fmax(largest, fabs(found->data[i] - expected->data[i]));
        c->expected[c->n_expected++] = (Expected){given_names[kind], largest <= c->tolerance, largest};
    }
    return true;
}

/* All steps. Fails on what does not fit together and on numbers beyond double's range. */
static bool work_out(Case *c) {
    if (!make_vectors(c)) return false;
    size_t n_queries = c->steps[Q].rows, n_keys = c->steps[K].rows;
    for (StepKind step = SCORES; step <= WEIGHTS; step++)
        if (!grid_new(c, &c->steps[step], c->n_head * n_queries, n_keys)) return false;
    if (!grid_new(c, &c->steps[CONTEXT], n_queries, c->steps[V].cols)) return false;
    for (size_t head = 0; head < c->n_head; head++)
        for (size_t query = 0; query < n_queries; query++) attend(c, head, query);
    if (!project(c, OUTPUT, &c->steps[CONTEXT], 3)) return false;
    for (StepKind step = Q; step < N_STEPS; step++)
        for (size_t i = 0; step != MASKED && i < c->steps[step].rows * c->steps[step].cols; i++)
            if (!isfinite(c->steps[step].data[i]))
                return fail(c, "its numbers are too large: \"%s\" is not finite", step_names[step]);
    return compare(c);
}

/* The cases of a file, or the file itself as one. */
static bool cases_of(const Json *file, const Json **cases, size_t *n, double *tolerance, Error *error) {
    static const char *const known[] = {"cases", "about", "source", "tolerance"};
    const Json *list = json_get(file, "cases");
    *cases = list ? list->items : file;
    *n = list ? list->n : 1;
    if (!list) return true;
    if (list->kind != JSON_ARRAY || list->n == 0)
        return error_set(error, "\"cases\" should be an array of cases");
    if (list->n > MAX_CASES) return error_set(error, "%u cases; a file may have %d", list->n, MAX_CASES);
    for (size_t i = 0; i < file->n; i++)
        if (!is_one_of(json_key(file, i), known, sizeof known / sizeof *known))
            return error_set(
                error, "beside \"cases\" there may be \"about\", \"source\" and \"tolerance\", not \"%.*s\"",
                string_shown(json_key(file, i)), json_key(file, i).data);
    return read_positive(file, "tolerance", tolerance) ||
           error_set(error, "\"tolerance\" should be a number above 0");
}

static bool work_out_all(Cases *cases, Arena *arena, Error *error) {
    const Json *json;
    double tolerance = usual_tolerance;
    size_t left = MAX_NUMBERS;
    if (!cases_of(cases->json, &json, &cases->n, &tolerance, error)) return false;
    cases->items = arena_new(arena, cases->n, sizeof *cases->items);
    if (!arena_ok(arena, error, "%zu cases", cases->n)) return false;
    for (size_t i = 0; i < cases->n; i++) {
        Case *c = &cases->items[i];
        *c = (Case){.arena = arena, .left = &left, .error = error, .tolerance = tolerance};
        if (!read_case(c, &json[i], i) || !work_out(c)) return false;
        bool agrees = true;
        for (size_t j = 0; j < c->n_expected; j++) agrees &= c->expected[j].agrees;
        if (agrees) continue;
        cases->exceeded = cases->n_wrong++ ? fmin(cases->exceeded, c->tolerance) : c->tolerance;
    }
    return true;
}

static bool compute(Study *study, void *view, Error *error) {
    Cases *cases = view;
    const char *path = study->options->model;
    TextBuffer text = {0};
    Error why;
    bool ok = read_text(path, MAX_BYTES, &text, error);
    if (ok) {
        cases->json = json_take(text.data, text.n, &why);
        ok = (cases->json && work_out_all(cases, &study->arena, &why)) ||
             error_set(error, "%s: %s", path, why.message);
    } else {
        free(text.data);
    }
    return ok;
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
            at++, width--; /* the space */
        }
        print_column(report, text + at, end - at, 0);
        column += width;
    }
    putchar('\n');
}

/* Cut to `width` columns and padded to it, on the left for a column's name. */
static void print_label(const Report *report, const Labels *labels, size_t i, size_t width, bool right) {
    char name[32];
    size_t n = (size_t)snprintf(name, sizeof name, "%c%zu", labels->letter, i);
    const char *text = labels->texts ? labels->texts->items[i].text : name;
    if (labels->texts) n = labels->texts->items[i].n;
    size_t used = text_width(report, text, n);
    if (right && used < width) printf("%*s", (int)(width - used), "");
    print_column(report, text, n, right && used < width ? 0 : width);
}

static void print_number(double value) {
    if (value == -INFINITY)
        printf("%*s", CELL, "-inf");
    else if (fabs(value) < 1000)
        printf("%*.4f", CELL, value);
    else
        printf("%*.3g", CELL, value);
}

/* Rows [first, first + n) of a table under a title, in as many blocks of columns as the window asks for. */
static void print_grid(const Report *report, const char *title, const Grid *grid, size_t first, size_t n,
                       const Labels *rows, const Labels *cols) {
    size_t fits = (report->width - LABEL) / (CELL + 1);
    print_styled(report, STYLE_BOLD, "\n%s\n", title);
    for (size_t begin = 0; begin < grid->cols; begin += fits) {
        size_t end = begin + fits < grid->cols ? begin + fits : grid->cols;
        print_style(report, STYLE_DIM);
        printf("%*s", LABEL, "");
        for (size_t j = begin; j < end; j++) {
            printf("  ");
            print_label(report, cols, j, CELL - 1, true);
        }
        print_style(report, STYLE_PLAIN);
        putchar('\n');
        for (size_t i = 0; i < n; i++) {
            print_label(report, rows, i, LABEL, false);
            for (size_t j = begin; j < end; j++) {
                putchar(' ');
                print_number(row_of(grid, first + i)[j]);
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

/*
 * How the last row's first number of head 0 came about, term by term, in the three steps that are sums: here a product
 * of n numbers with n others, which lie `stride` apart.
 */
static void print_product(const Report *report, const double *a, const double *b, size_t stride, size_t n,
                          double sum) {
    Line line = {.n = 0};
    line_add(&line, "%s", first_number);
    for (size_t i = 0; i < n; i++) line_add(&line, "%s%.4g*%.4g", i ? " + " : "", a[i], b[i * stride]);
    line_add(&line, " = %.4f", sum);
    print_line(report, &line);
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

/* "Q = x * w_q^T + b_q" (i = 0; K, V: 1, 2), by what there is of it. */
static Line title_of(const Case *c, size_t i) {
    const char *x = given_names[source_of(c, GIVEN_Q + i) - c->given];
    bool has_w = is_given(c, W_Q + i), has_b = is_given(c, B_Q + i);
    Line title = {.n = 0};
    line_add(&title, "%c", "QKV"[i]);
    if (!has_w && !has_b && x[0] == "qkv"[i])
        line_add(&title, ", as it stands in the file");
    else
        line_add(&title, " = %s", x);
    if (has_w) line_add(&title, " * %s^T", given_names[W_Q + i]);
    if (has_b) line_add(&title, " + %s", given_names[B_Q + i]);
    return title;
}

static const Labels dims = {NULL, 'd'};

static void print_vectors(const Report *report, const Case *c) {
    bool plain = is_given(c, GIVEN_X);
    for (size_t i = 0; i < 3; i++)
        plain &= !is_given(c, GIVEN_Q + i) && !is_given(c, W_Q + i) && !is_given(c, B_Q + i);
    for (size_t i = 0; i < (plain ? 1 : 3); i++) {
        const Grid *grid = &c->steps[Q + i];
        print_grid(report, plain ? "Q = K = V = x" : title_of(c, i).text, grid, 0, grid->rows,
                   i ? &c->keys : &c->queries, &dims);
    }
    size_t d_q = c->steps[Q].cols / c->n_head, d_v = c->steps[V].cols / c->n_head;
    if (c->n_head == 1) return;
    print_styled(report, STYLE_DIM,
                 "head h takes d(%zu*h) to d(%zu*h + %zu) of Q and K, d(%zu*h) to d(%zu*h + %zu) of V\n", d_q,
                 d_q, d_q - 1, d_v, d_v, d_v - 1);
}

/* A step between scores and weights, of one head; the title begins with the head where there are several. */
static void print_step(const Report *report, const Case *c, StepKind step, size_t head, Line title) {
    size_t n = c->steps[Q].rows;
    Line whole = {.n = 0};
    if (c->n_head > 1) line_add(&whole, "head %zu: ", head);
    line_add(&whole, "%s", title.text);
    print_grid(report, whole.text, &c->steps[step], head * n, n, &c->queries, &c->keys);
}

/* From scores to weights, of one head. */
static void print_head(const Report *report, const Case *c, size_t head) {
    static const char *const formulas[N_SCORES] = {"q . k", "q . k", "k . (w * q)",
                                                   "v_a . tanh(w * k + u * q)"};
    size_t last = c->steps[Q].rows - 1, d = c->steps[Q].cols / c->n_head;
    Line scores = {.n = 0}, scaled = {"scaled = scores", 15};
    line_add(&scores, "scores = %s", formulas[c->score]);
    print_step(report, c, SCORES, head, scores);
    if (head == 0 && c->score <= SCORE_SCALED_DOT)
        print_product(report, row_of(&c->steps[Q], last), c->steps[K].data, 1, d,
                      row_of(&c->steps[SCORES], last)[0]);
    if (c->score == SCORE_SCALED_DOT) line_add(&scaled, " / sqrt(%zu)", d);
    if (c->temperature != 1) line_add(&scaled, " / %g", c->temperature);
    if (scaled.n > 15) print_step(report, c, SCALED, head, scaled);
    if (c->causal)
        print_step(report, c, MASKED, head, (Line){"masked: no query sees a key that comes after it"});
    print_step(report, c, WEIGHTS, head, (Line){"weights = softmax of each row"});
    if (head == 0) print_softmax_example(report, c);
}

static void print_expected(const Report *report, const Case *c) {
    for (size_t i = 0; i < c->n_expected; i++) {
        const Expected *expected = &c->expected[i];
        if (i == 0) putchar('\n');
        print_style(report, expected->agrees ? STYLE_GOOD : STYLE_BAD);
        print_column(report, c->name, strlen(c->name), 0);
        printf(": %s %s the file expects", expected->table, expected->agrees ? "as" : "NOT as");
        print_style(report, STYLE_PLAIN);
        printf(" (largest difference %.2g", expected->largest_difference);
        if (c->tolerance != usual_tolerance) printf(", tolerance %g", c->tolerance);
        puts(")");
    }
}

static void print_case(const Report *report, const Case *c) {
    const Json *about = json_get(c->json, "about");
    size_t n = c->steps[Q].rows;
    print_style(report, STYLE_BOLD);
    print_wrapped(report, c->name, strlen(c->name));
    print_style(report, STYLE_PLAIN);
    if (about) print_wrapped(report, about->text, about->n);
    printf("score %s, mask %s, %zu head%s, %zu quer%s, %zu key%s", score_names[c->score],
           mask_names[c->causal], c->n_head, c->n_head == 1 ? "" : "s", n, n == 1 ? "y" : "ies",
           c->steps[K].rows, c->steps[K].rows == 1 ? "" : "s");
    if (c->temperature != 1) printf(", temperature %g", c->temperature);
    putchar('\n');
    print_vectors(report, c);
    for (size_t head = 0; head < c->n_head; head++) print_head(report, c, head);

    print_grid(report, c->n_head > 1 ? "context = weights * V, heads side by side" : "context = weights * V",
               &c->steps[CONTEXT], 0, n, &c->queries, &dims);
    const Grid *v = &c->steps[V];
    print_product(report, row_of(&c->steps[WEIGHTS], n - 1), v->data, v->cols, v->rows,
                  row_of(&c->steps[CONTEXT], n - 1)[0]);
    if (is_given(c, W_O) || is_given(c, B_O))
        print_grid(report,
                   !is_given(c, B_O)   ? "output = context * w_o^T"
                   : !is_given(c, W_O) ? "output = context + b_o"
                                       : "output = context * w_o^T + b_o",
                   &c->steps[OUTPUT], 0, n, &c->queries, &dims);
    print_expected(report, c);
}

/* Rows [first, first + n) as an array of arrays. */
static void json_rows(Report *report, const char *key, const Grid *grid, size_t first, size_t n) {
    json_array(report, key);
    for (size_t i = first; i < first + n; i++) json_reals(report, NULL, row_of(grid, i), grid->cols);
    json_end_array(report);
}

/* Scores to weights are [head][query][key], without the first where there is one head. */
static void json_step(Report *report, const Case *c, StepKind step) {
    const Grid *grid = &c->steps[step];
    size_t n = c->steps[Q].rows;
    if (c->n_head == 1 || step < SCORES || step > WEIGHTS) {
        json_rows(report, step_names[step], grid, 0, grid->rows);
        return;
    }
    json_array(report, step_names[step]);
    for (size_t head = 0; head < c->n_head; head++) json_rows(report, NULL, grid, head * n, n);
    json_end_array(report);
}

static const Column expected_columns[] = {
    {"table", NULL, CELL_TEXT, offsetof(Expected, table)},
    {"agrees", NULL, CELL_BOOL, offsetof(Expected, agrees)},
    {"largest_difference", NULL, CELL_REAL, offsetof(Expected, largest_difference)},
};
static const Table expected_table = TABLE("expected", expected_columns);

static void json_cases(Report *report, const Cases *cases) {
    json_array(report, "cases");
    for (size_t i = 0; i < cases->n; i++) {
        const Case *c = &cases->items[i];
        json_object(report, NULL);
        json_text(report, "name", c->name, SIZE_MAX);
        json_text(report, "score", score_names[c->score], SIZE_MAX);
        json_text(report, "mask", mask_names[c->causal], SIZE_MAX);
        json_int(report, "heads", (int64_t)c->n_head);
        json_real(report, "tolerance", c->tolerance);
        json_real(report, "temperature", c->temperature);
        for (StepKind step = Q; step < N_STEPS; step++) json_step(report, c, step);
        table_show(report, &expected_table, 0, c->expected, c->n_expected, sizeof(Expected));
        json_end_object(report);
    }
    json_end_array(report);
}

static bool show(Study *study, void *view, Error *error) {
    const Cases *cases = view;
    if (is_json(&study->report)) json_cases(&study->report, cases);
    for (size_t i = 0; !is_json(&study->report) && i < cases->n; i++) {
        if (i) puts("\n");
        print_case(&study->report, &cases->items[i]);
    }
    return !cases->n_wrong ||
           error_set(error, "%s: %zu of %zu cases differ from what the file expects by more than %g",
                     study->options->model, cases->n_wrong, cases->n, cases->exceeded);
}

static void free_cases(void *view) { json_free(((Cases *)view)->json); }

const View view_case = {
    .name = "case",
    .summary = "attention worked by hand, from a JSON file",
    .usage = "FILE.json [--json] [--ascii]",
    .help =
        "Every table from Q, K, V to the output, of each case in the file, and whether it is what the file\n"
        "expects (to 1e-5, or its \"tolerance\"; exit code 1 if not). docs/COURSE.md is a course in such files.\n",
    .size = sizeof(Cases),
    .compute = compute,
    .show = show,
    .free = free_cases,
};
