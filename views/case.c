/*
 * case: attention worked by hand (measures/case.h): small examples in a JSON file, every step of them as a table. All cases
 * are worked out before the first is printed, so that a mistake in the last prints none.
 */
#include "measures/case.h"
#include "base/json.h"
#include "cli/input.h"
#include "views/view.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_SIDE = 64, /* rows, columns and heads: more is not worked by hand */
    MAX_CASES = 1000,
    MAX_BYTES = 1 << 22, /* of the file */
    CELL = 9,            /* columns of a number */
    LABEL = 12,          /* at most, of a row's name */
};

static const double usual_tolerance = 1e-5; /* between what comes out and what the file expects */

static const char *const mask_names[] = {"none", "causal"};

/* The names of the rows or columns of a table: texts of the file, or a letter and a number. */
typedef struct Labels {
    const Json *texts; /* or NULL */
    char letter;
} Labels;

/* A case of the file, named as there, or by its number. */
typedef struct FileCase {
    Case worked;
    const Json *json;
    Labels queries, keys;
} FileCase;

typedef struct Cases {
    Json *json;      /* the file; owned, with its text */
    FileCase *items; /* [n] */
    size_t n, n_wrong;
    double exceeded; /* the smallest tolerance of those that are wrong */
} Cases;

/* Copies the numbers of an array nested `depth` deep, whose lengths from the outermost on are sizes. */
static bool copy_numbers(const Case *c, const char *key, const Json *value, const size_t *sizes, size_t depth,
                         double **to) {
    if (depth == 0) {
        if (value->kind != JSON_NUMBER) return case_fail(c, "\"%s\" holds something that is no number", key);
        *(*to)++ = value->number;
        return true;
    }
    if (value->kind != JSON_ARRAY || value->n != sizes[0])
        return case_fail(c, "\"%s\" has rows of different lengths", key);
    for (size_t i = 0; i < value->n; i++)
        if (!copy_numbers(c, key, &value->items[i], sizes + 1, depth - 1, to)) return false;
    return true;
}

static bool read_grid(Case *c, size_t kind, const Json *value) {
    const char *key = case_given_names[kind];
    size_t sizes[3] = {1, 1, 1}, depth = 0;
    for (const Json *v = value; v->kind == JSON_ARRAY && depth < 3; v = &v->items[0]) {
        if (v->n == 0 || v->n > MAX_SIDE)
            return case_fail(c, "\"%s\" has %u rows, columns or heads; 1 to %d can be shown", key, v->n,
                             MAX_SIDE);
        sizes[depth++] = v->n;
    }
    size_t most = case_depth(kind);
    if (depth > most || depth < (most == 1 ? 1 : 2))
        return case_fail(c, "\"%s\" should be %s of numbers", key,
                         most == 1 ? "an array" : "an array of rows");
    Grid *grid = &c->given[kind];
    size_t cols = sizes[depth - 1], rows = depth == 1 ? 1 : depth == 2 ? sizes[0] : sizes[0] * sizes[1];
    if (!case_grid(c, grid, rows, cols)) return false;
    double *to = grid->data;
    return copy_numbers(c, key, value, sizes, depth, &to);
}

/* Which of n names a text is; the first if it is missing. */
static bool read_choice(const FileCase *file, const char *key, const char *const *names, size_t n,
                        size_t *choice) {
    const Json *value = json_get(file->json, key);
    char what[128], word[64]; /* longer than any of them */
    if (value && value->kind != JSON_TEXT) return case_fail(&file->worked, "\"%s\" should be a text", key);
    snprintf(word, sizeof word, "%.*s", string_shown(json_string(value)), json_string(value).data);
    snprintf(what, sizeof what, "case '%s': \"%s\"", file->worked.name, key);
    return parse_choice(what, value ? word : NULL, names, n, choice, file->worked.error);
}

static bool is_one_of(String word, const char *const *words, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (string_equals(word, words[i])) return true;
    return false;
}

static bool read_labels(const FileCase *file, const char *key, size_t n, Labels *labels) {
    const Json *texts = json_get(file->json, key);
    bool ok = !texts || (texts->kind == JSON_ARRAY && texts->n == n);
    for (size_t i = 0; texts && ok && i < n; i++) ok = texts->items[i].kind == JSON_TEXT;
    if (texts) labels->texts = texts;
    return ok || case_fail(&file->worked, "\"%s\" should be %zu texts", key, n);
}

/* The names of queries and keys, once it is known how many there are. */
static bool read_all_labels(FileCase *file) {
    const Case *c = &file->worked;
    file->queries.letter = 'q';
    file->keys.letter = 'k';
    if (!read_labels(file, "tokens", c->steps[STEP_Q].rows, &file->queries)) return false;
    if (case_source(c, GIVEN_Q) == case_source(c, GIVEN_K))
        file->keys.texts = file->queries.texts; /* self-attention */
    return read_labels(file, "key_tokens", c->steps[STEP_K].rows, &file->keys);
}

/* A member that is a number above 0, or missing (then *value stays). */
static bool read_positive(const Json *object, const char *key, double *value) {
    const Json *number = json_get(object, key);
    if (number) *value = number->kind == JSON_NUMBER ? number->number : 0;
    return *value > 0;
}

/* Every key of the case that is none of ours is a mistake in writing. */
static bool read_keys(FileCase *file) {
    static const char *const others[] = {"name",  "about", "source", "tokens",    "key_tokens",
                                         "score", "mask",  "heads",  "tolerance", "temperature"};
    for (size_t i = 0; i < file->json->n; i++) {
        String key = json_key(file->json, i);
        size_t kind = 0;
        while (kind < N_GIVEN && !string_equals(key, case_given_names[kind])) kind++;
        if (kind < N_GIVEN && !read_grid(&file->worked, kind, json_item(file->json, i))) return false;
        if (kind == N_GIVEN && !is_one_of(key, others, sizeof others / sizeof *others))
            return case_fail(&file->worked, "unknown key \"%.*s\"", string_shown(key), key.data);
    }
    return true;
}

/* The case begins with its arena, its error and the file's tolerance. */
static bool read_case(FileCase *file, const Json *json, size_t number) {
    Case *c = &file->worked;
    const Json *name = json_get(json, "name"), *about = json_get(json, "about"),
               *heads = json_get(json, "heads");
    file->json = json;
    c->n_head = 1;
    c->temperature = 1;
    if (json->kind != JSON_OBJECT) return error_set(c->error, "case %zu is no JSON object", number);
    if (name && name->kind == JSON_TEXT)
        snprintf(c->name, sizeof c->name, "%.*s", string_shown(json_string(name)), name->text);
    else
        snprintf(c->name, sizeof c->name, "%zu", number);
    if ((name && name->kind != JSON_TEXT) || (about && about->kind != JSON_TEXT))
        return case_fail(c, "\"name\" and \"about\" should be texts");
    if (heads) {
        bool whole = heads->kind == JSON_NUMBER && heads->number >= 1 && heads->number <= (double)MAX_SIDE;
        c->n_head = whole ? (size_t)heads->number : 0;
        if (!whole || (double)c->n_head != heads->number)
            return case_fail(c, "\"heads\" should be a whole number from 1 to %d", MAX_SIDE);
    }
    if (!read_positive(json, "tolerance", &c->tolerance) ||
        !read_positive(json, "temperature", &c->temperature))
        return case_fail(c, "\"tolerance\" and \"temperature\" should be numbers above 0");
    size_t score, mask;
    if (!read_choice(file, "score", case_score_names, N_SCORES, &score)) return false;
    if (!read_choice(file, "mask", mask_names, 2, &mask)) return false;
    c->score = (ScoreKind)score;
    c->causal = mask == 1;
    return read_keys(file);
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
    size_t left = CASE_NUMBERS;
    if (!cases_of(cases->json, &json, &cases->n, &tolerance, error)) return false;
    cases->items = arena_new(arena, cases->n, sizeof *cases->items);
    if (!arena_ok(arena, error, "%zu cases", cases->n)) return false;
    for (size_t i = 0; i < cases->n; i++) {
        FileCase *file = &cases->items[i];
        Case *c = &file->worked;
        *c = (Case){.arena = arena, .left = &left, .error = error, .tolerance = tolerance};
        if (!read_case(file, &json[i], i) || !case_make_vectors(c) || !read_all_labels(file) ||
            !case_work_out(c))
            return false;
        if (c->agrees) continue;
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
                print_number(case_row(grid, first + i)[j]);
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
    size_t last = c->steps[STEP_Q].rows - 1;
    const double *masked = case_row(&c->steps[STEP_MASKED], last);
    Line line = {.n = 0};
    line_add(&line, "%se^%.4g / (", first_number, masked[0]);
    for (size_t j = 0; j < c->steps[STEP_K].rows; j++) line_add(&line, "%se^%.4g", j ? " + " : "", masked[j]);
    line_add(&line, ") = %.4f", case_row(&c->steps[STEP_WEIGHTS], last)[0]);
    print_line(report, &line);
}

/* "Q = x * w_q^T + b_q" (i = 0; K, V: 1, 2), by what there is of it. */
static Line title_of(const Case *c, size_t i) {
    const char *x = case_given_names[case_source(c, GIVEN_Q + i) - c->given];
    bool has_w = case_has(c, W_Q + i), has_b = case_has(c, B_Q + i);
    Line title = {.n = 0};
    line_add(&title, "%c", "QKV"[i]);
    if (!has_w && !has_b && x[0] == "qkv"[i])
        line_add(&title, ", as it stands in the file");
    else
        line_add(&title, " = %s", x);
    if (has_w) line_add(&title, " * %s^T", case_given_names[W_Q + i]);
    if (has_b) line_add(&title, " + %s", case_given_names[B_Q + i]);
    return title;
}

static const Labels dims = {NULL, 'd'};

static void print_vectors(const Report *report, const FileCase *file) {
    const Case *c = &file->worked;
    bool plain = case_has(c, GIVEN_X);
    for (size_t i = 0; i < 3; i++)
        plain &= !case_has(c, GIVEN_Q + i) && !case_has(c, W_Q + i) && !case_has(c, B_Q + i);
    for (size_t i = 0; i < (plain ? 1 : 3); i++) {
        const Grid *grid = &c->steps[STEP_Q + i];
        print_grid(report, plain ? "Q = K = V = x" : title_of(c, i).text, grid, 0, grid->rows,
                   i ? &file->keys : &file->queries, &dims);
    }
    size_t d_q = c->steps[STEP_Q].cols / c->n_head, d_v = c->steps[STEP_V].cols / c->n_head;
    if (c->n_head == 1) return;
    print_styled(report, STYLE_DIM,
                 "head h takes d(%zu*h) to d(%zu*h + %zu) of Q and K, d(%zu*h) to d(%zu*h + %zu) of V\n", d_q,
                 d_q, d_q - 1, d_v, d_v, d_v - 1);
}

/* A step between scores and weights, of one head; the title begins with the head where there are several. */
static void print_step(const Report *report, const FileCase *file, StepKind step, size_t head, Line title) {
    const Case *c = &file->worked;
    size_t n = c->steps[STEP_Q].rows;
    Line whole = {.n = 0};
    if (c->n_head > 1) line_add(&whole, "head %zu: ", head);
    line_add(&whole, "%s", title.text);
    print_grid(report, whole.text, &c->steps[step], head * n, n, &file->queries, &file->keys);
}

/* From scores to weights, of one head. */
static void print_head(const Report *report, const FileCase *file, size_t head) {
    const Case *c = &file->worked;
    static const char *const formulas[N_SCORES] = {"q . k", "q . k", "k . (w * q)",
                                                   "v_a . tanh(w * k + u * q)"};
    size_t last = c->steps[STEP_Q].rows - 1, d = c->steps[STEP_Q].cols / c->n_head;
    Line scores = {.n = 0}, scaled = {"scaled = scores", 15};
    line_add(&scores, "scores = %s", formulas[c->score]);
    print_step(report, file, STEP_SCORES, head, scores);
    if (head == 0 && c->score <= SCORE_SCALED_DOT)
        print_product(report, case_row(&c->steps[STEP_Q], last), c->steps[STEP_K].data, 1, d,
                      case_row(&c->steps[STEP_SCORES], last)[0]);
    if (c->score == SCORE_SCALED_DOT) line_add(&scaled, " / sqrt(%zu)", d);
    if (c->temperature != 1) line_add(&scaled, " / %g", c->temperature);
    if (scaled.n > 15) print_step(report, file, STEP_SCALED, head, scaled);
    if (c->causal)
        print_step(report, file, STEP_MASKED, head,
                   (Line){"masked: no query sees a key that comes after it"});
    print_step(report, file, STEP_WEIGHTS, head, (Line){"weights = softmax of each row"});
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

static void print_case(const Report *report, const FileCase *file) {
    const Case *c = &file->worked;
    const Json *about = json_get(file->json, "about");
    size_t n = c->steps[STEP_Q].rows;
    print_style(report, STYLE_BOLD);
    print_wrapped(report, c->name, strlen(c->name));
    print_style(report, STYLE_PLAIN);
    if (about) print_wrapped(report, about->text, about->n);
    printf("score %s, mask %s, %zu head%s, %zu quer%s, %zu key%s", case_score_names[c->score],
           mask_names[c->causal], c->n_head, c->n_head == 1 ? "" : "s", n, n == 1 ? "y" : "ies",
           c->steps[STEP_K].rows, c->steps[STEP_K].rows == 1 ? "" : "s");
    if (c->temperature != 1) printf(", temperature %g", c->temperature);
    putchar('\n');
    print_vectors(report, file);
    for (size_t head = 0; head < c->n_head; head++) print_head(report, file, head);

    print_grid(report, c->n_head > 1 ? "context = weights * V, heads side by side" : "context = weights * V",
               &c->steps[STEP_CONTEXT], 0, n, &file->queries, &dims);
    const Grid *v = &c->steps[STEP_V];
    print_product(report, case_row(&c->steps[STEP_WEIGHTS], n - 1), v->data, v->cols, v->rows,
                  case_row(&c->steps[STEP_CONTEXT], n - 1)[0]);
    if (case_has(c, W_O) || case_has(c, B_O))
        print_grid(report,
                   !case_has(c, B_O)   ? "output = context * w_o^T"
                   : !case_has(c, W_O) ? "output = context + b_o"
                                       : "output = context * w_o^T + b_o",
                   &c->steps[STEP_OUTPUT], 0, n, &file->queries, &dims);
    print_expected(report, c);
}

/* Rows [first, first + n) as an array of arrays. */
static void json_rows(Report *report, const char *key, const Grid *grid, size_t first, size_t n) {
    json_array(report, key);
    for (size_t i = first; i < first + n; i++) json_reals(report, NULL, case_row(grid, i), grid->cols);
    json_end_array(report);
}

/* Scores to weights are [head][query][key], without the first where there is one head. */
static void json_step(Report *report, const Case *c, StepKind step) {
    const Grid *grid = &c->steps[step];
    size_t n = c->steps[STEP_Q].rows;
    if (c->n_head == 1 || step < STEP_SCORES || step > STEP_WEIGHTS) {
        json_rows(report, case_step_names[step], grid, 0, grid->rows);
        return;
    }
    json_array(report, case_step_names[step]);
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
        const Case *c = &cases->items[i].worked;
        json_object(report, NULL);
        json_text(report, "name", c->name, SIZE_MAX);
        json_text(report, "score", case_score_names[c->score], SIZE_MAX);
        json_text(report, "mask", mask_names[c->causal], SIZE_MAX);
        json_int(report, "heads", (int64_t)c->n_head);
        json_real(report, "tolerance", c->tolerance);
        json_real(report, "temperature", c->temperature);
        for (StepKind step = STEP_Q; step < N_STEPS; step++) json_step(report, c, step);
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
