/*
 * The commands that need no text: case and shape. Cases are compared with what their files expect: docs/cases,
 * whose numbers PyTorch worked out in float64, and ../shared/data/attention-cases.json. Shapes are compared
 * with published parameter counts and with the tensors of a file.
 */
#include "checkpoint/checkpoint.h"
#include "json.h"
#include "open.h"
#include "test.h"

#include <glob.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

static char scratch[64]; /* a file of this process */

static void scratch_write(const char *text) {
    FILE *file = fopen(scratch, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0) {
        perror(scratch);
        exit(1);
    }
}

/* Everything in a stream, NUL-terminated. The caller frees it. */
static char *read_stream(FILE *stream, size_t *n) {
    size_t capacity = 1 << 16;
    char *text = malloc(capacity);
    *n = 0;
    for (size_t got; text && (got = fread(text + *n, 1, capacity - *n - 1, stream)) > 0;) {
        *n += got;
        if (capacity - *n < 1 << 15) text = realloc(text, capacity *= 2);
    }
    if (!text) exit(1);
    text[*n] = '\0';
    return text;
}

/* Gives what the program prints with these arguments, and its exit status. */
static char *run_study(const char *arguments, size_t *n, int *status) {
    const char *study = getenv("STUDY");
    char command[4096];
    snprintf(command, sizeof command, "'%s' %s </dev/null", study ? study : "./study", arguments);
    FILE *pipe = popen(command, "r");
    if (!pipe) exit(1);
    char *text = read_stream(pipe, n);
    int wait = pclose(pipe);
    *status = WIFEXITED(wait) ? WEXITSTATUS(wait) : -1;
    return text;
}

/* The object that the program prints, or NULL; checks that it ends with the status `expected`. */
static Json *study_json(const char *arguments, int expected) {
    size_t n;
    int status;
    Error error = {{0}};
    char *text = run_study(arguments, &n, &status);
    CHECK(status == expected, "study %s: exit status %d", arguments, status);
    Json *json = json_take(text, n, &error);
    CHECK(json != NULL, "study %s: %s", arguments, error.message);
    return json;
}

static Json *read_json(const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) return NULL;
    size_t n;
    Error error = {{0}};
    char *text = read_stream(file, &n);
    fclose(file);
    Json *json = json_take(text, n, &error);
    CHECK(json != NULL, "%s: %s", path, error.message);
    return json;
}

static double number_of(const Json *object, const char *key) {
    const Json *value = json_get(object, key);
    return value && value->kind == JSON_NUMBER ? value->number : NAN;
}

/* The largest difference between numbers in two arrays of the same shape; −1 when the shapes differ. */
static double difference(const Json *a, const Json *b) {
    if (!a || !b || a->kind != b->kind) return -1;
    if (a->kind == JSON_NUMBER) return fabs(a->number - b->number);
    if (a->kind != JSON_ARRAY || a->n != b->n) return -1;
    double largest = 0;
    for (size_t i = 0; i < a->n; i++) {
        double d = difference(&a->items[i], &b->items[i]);
        if (d < 0) return -1;
        if (d > largest) largest = d;
    }
    return largest;
}

/* Each table that a case expects against the one that the program printed. Returns how many there were. */
static size_t compare_case(const char *path, const Json *want, const Json *got) {
    static const struct {
        const char *expected, *printed;
    } tables[] = {{"scores", "scaled"}, {"weights", "weights"}, {"context", "output"}, {"output", "output"}};
    size_t n = 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const Json *table = json_get(want, tables[i].expected);
        const char *printed = tables[i].printed;
        if (i == 2 && json_get(want, "output")) printed = "context";
        if (!table) continue;
        double d = difference(table, json_get(got, printed));
        CHECK(d >= 0 && d <= 1e-5, "%s, %s: %s is off by %g", path,
              c_text(json_string(json_get(want, "name"))), printed, d);
        n++;
    }
    return n;
}

static void check_file(const char *path, size_t n_cases, size_t n_tables) {
    char arguments[256];
    snprintf(arguments, sizeof arguments, "case %s --json", path);
    Json *file = read_json(path), *report = study_json(arguments, 0);
    const Json *list = json_get(file, "cases"), *got = json_get(report, "cases");
    size_t n = list ? list->n : 1, found = 0;
    CHECK(file && got && got->n == n && n >= n_cases, "%s: %zu cases", path, n);
    for (size_t i = 0; file && got && got->n == n && i < n; i++)
        found += compare_case(path, list ? &list->items[i] : file, &got->items[i]);
    CHECK(found >= n_tables, "%s: only %zu tables to compare", path, found);
    json_free(file);
    json_free(report);
}

static void test_published_cases(void) {
    const char *path = "../shared/data/attention-cases.json";
    if (access(path, R_OK) != 0) SKIP("%s is missing", path);
    check_file(path, 9, 24);
}

static void test_course_cases(void) {
    glob_t found;
    int status = glob("docs/cases/*.json", 0, NULL, &found);
    CHECK(status == 0 && found.gl_pathc >= 6, "too few cases in docs/cases");
    for (size_t i = 0; status == 0 && i < found.gl_pathc; i++) check_file(found.gl_pathv[i], 1, 3);
    if (status == 0) globfree(&found);
}

/* Two queries, three keys, width 4, so that every step can be followed here. */
static void test_steps(void) {
    scratch_write(
        "{\"q\": [[1, 2, 3, 4], [0, 1, 0, -1]], \"k\": [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1]],\n"
        " \"v\": [[1], [2], [4]], \"b_v\": [1], \"score\": \"scaled-dot\",\n"
        " \"w_o\": [[2], [-1]], \"b_o\": [0, 5]}");
    char arguments[128];
    snprintf(arguments, sizeof arguments, "case %s --json", scratch);
    static const double scores[2][3] = {{1, 2, 10}, {0, 1, 0}};
    Json *report = study_json(arguments, 0);
    const Json *cases = json_get(report, "cases"), *one = cases && cases->n == 1 ? &cases->items[0] : NULL;
    const char *const tables[] = {"scores", "scaled", "weights", "output"};
    for (int i = 0; i < 4; i++) {
        const Json *table = json_get(one, tables[i]);
        CHECK(table && table->n == 2 && table->items[0].n == (i == 3 ? 2 : 3), "%s", tables[i]);
        if (!table || table->n != 2) continue;
        for (int q = 0; q < 2; q++) {
            const Json *row = table->items[q].items;
            double e[3], sum = 0, z = 0;
            for (int k = 0; k < 3; k++) sum += e[k] = exp(scores[q][k] / 2);
            z = (e[0] * 2 + e[1] * 3 + e[2] * 5) / sum;
            for (int k = 0; k < 3 && i < 3; k++)
                CHECK_NEAR(row[k].number,
                           i == 0   ? scores[q][k]
                           : i == 1 ? scores[q][k] / 2
                                    : e[k] / sum,
                           1e-8);
            if (i == 3) CHECK_NEAR(row[0].number, 2 * z, 1e-8);
            if (i == 3) CHECK_NEAR(row[1].number, 5 - z, 1e-8);
        }
    }
    json_free(report);
}

/* A causal mask: nothing (null stands for minus infinity) above the diagonal, all as scaled below it. */
static void test_mask(void) {
    scratch_write("{\"x\": [[1, 2], [3, -1], [0, 2]], \"mask\": \"causal\"}");
    char arguments[128];
    snprintf(arguments, sizeof arguments, "case %s --json", scratch);
    Json *report = study_json(arguments, 0);
    const Json *cases = json_get(report, "cases"), *one = cases && cases->n == 1 ? &cases->items[0] : NULL;
    const Json *masked = json_get(one, "masked"), *weights = json_get(one, "weights"),
               *scaled = json_get(one, "scaled");
    CHECK(masked && weights && scaled && masked->n == 3 && weights->n == 3, "tables are missing");
    for (size_t q = 0; masked && weights && scaled && q < 3; q++)
        for (size_t k = 0; k < 3; k++) {
            bool hidden = masked->items[q].items[k].kind == JSON_NULL;
            CHECK(hidden == (k > q), "query %zu, key %zu", q, k);
            CHECK((weights->items[q].items[k].number > 0) == (k <= q), "query %zu, key %zu", q, k);
            if (!hidden) CHECK_NEAR(masked->items[q].items[k].number, scaled->items[q].items[k].number, 0);
        }
    json_free(report);
}

/* One number has the wrong sign: the program must say so and end with 1. */
static void test_disagreement(void) {
    char arguments[128];
    scratch_write(
        "{\"x\": [[1, 0], [0, 1]], \"context\": [[0.731058579, 0.268941421], [0.268941421, -0.731058579]]}");
    snprintf(arguments, sizeof arguments, "case %s --json 2>/dev/null", scratch);
    Json *report = study_json(arguments, 1);
    const Json *cases = json_get(report, "cases"), *one = cases && cases->n == 1 ? &cases->items[0] : NULL;
    const Json *expected = json_get(one, "expected");
    CHECK(expected && expected->n == 1, "nothing said about what was expected");
    if (expected && expected->n == 1) {
        const Json *agrees = json_get(&expected->items[0], "agrees"),
                   *off = json_get(&expected->items[0], "largest_difference");
        CHECK(agrees && !agrees->boolean, "agrees");
        if (off) CHECK_NEAR(off->number, 2 * 0.731058579, 1e-8);
    }
    json_free(report);
}

/* Scores q·k/√4 = 1 and 0, over a temperature of 0.5: 2 and 0, of which the softmax is 1/(1 + e^−2) = 0.880797078. */
static void test_temperature(void) {
    static const double scaled[2] = {2, 0}, weights[2] = {0.880797078, 0.119202922};
    char arguments[128];
    scratch_write(
        "{\"q\": [[2, 0, 0, 0]], \"k\": [[1, 0, 0, 0], [0, 1, 0, 0]], \"v\": [[1], [0]],\n"
        " \"score\": \"scaled-dot\", \"temperature\": 0.5, \"scores\": [[2, 0]], \"output\": [[0.880797078]]}");
    snprintf(arguments, sizeof arguments, "case %s --json", scratch);
    Json *report = study_json(arguments, 0);
    const Json *cases = json_get(report, "cases"), *one = cases && cases->n == 1 ? cases->items : NULL;
    const Json *got_scaled = json_get(one, "scaled"), *got_weights = json_get(one, "weights");
    CHECK(got_scaled && got_scaled->n == 1 && got_weights && got_weights->n == 1, "tables are missing");
    for (size_t k = 0; got_scaled && got_weights && k < 2; k++) {
        CHECK_NEAR(got_scaled->items[0].items[k].number, scaled[k], 1e-12);
        CHECK_NEAR(got_weights->items[0].items[k].number, weights[k], 1e-8);
    }
    CHECK_NEAR(number_of(one, "temperature"), 0.5, 0);
    CHECK_NEAR(number_of(one, "tolerance"), 1e-5, 0);
    json_free(report);

    size_t n;
    int status;
    snprintf(arguments, sizeof arguments, "case %s", scratch);
    char *text = run_study(arguments, &n, &status);
    CHECK(strstr(text, "1 query, 2 keys, temperature 0.5\n"), "%s", text);
    CHECK(strstr(text, "\nscaled = scores / sqrt(4) / 0.5\n"), "%s", text);
    free(text);
}

/* Every case is off by 0.01: a tolerance of the file, one of a case instead, and the usual one. */
static void test_tolerance(void) {
    static const struct {
        const char *of_file, *of_second, *says;
        int status;
    } given[] = {
        {"", "", "2 of 2 cases differ from what the file expects by more than 1e-05\n", 1},
        {"\"tolerance\": 0.02, ", "",
         "second: context as the file expects (largest difference 0.01, tolerance 0.02)\n", 0},
        {"\"tolerance\": 0.02, ", "\"tolerance\": 0.005, ",
         "second: context NOT as the file expects (largest difference 0.01, tolerance 0.005)\n", 1},
        {"\"tolerance\": 0.005, ", "\"tolerance\": 0.02, ",
         "1 of 2 cases differ from what the file expects by more than 0.005\n", 1},
        {"", "\"tolerance\": 1e-9, ", "2 of 2 cases differ from what the file expects by more than 1e-09\n",
         1},
    };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        char file[400], arguments[128];
        size_t n;
        int status;
        snprintf(file, sizeof file,
                 "{%s\"cases\": [{\"name\": \"first\", \"x\": [[1]], \"context\": [[1.01]]},\n"
                 " {%s\"name\": \"second\", \"x\": [[2]], \"context\": [[2.01]]}]}",
                 given[i].of_file, given[i].of_second);
        scratch_write(file);
        snprintf(arguments, sizeof arguments, "case %s 2>&1", scratch);
        char *text = run_study(arguments, &n, &status);
        CHECK(status == given[i].status, "%s: status %d", file, status);
        CHECK(strstr(text, given[i].says), "%s: no \"%s\" in %s", file, given[i].says, text);
        free(text);
    }
}

/* Whether what the program prints for these arguments holds the line, whole. */
static void check_line(const char *arguments, const char *line) {
    size_t n;
    int status;
    char *text = run_study(arguments, &n, &status), *at = strstr(text, line);
    while (at && ((at > text && at[-1] != '\n') || at[strlen(line)] != '\n')) at = strstr(at + 1, line);
    CHECK(status == 0 && at, "study %s: no line \"%s\" in %s", arguments, line, text);
    free(text);
}

/* These only people see. */
static void test_lines(void) {
    char arguments[128];
    check_line("case docs/cases/5-heads.json",
               "head 0: scaled = scores / sqrt(2)"); /* four columns, two heads */
    check_line("case docs/cases/5-heads.json", "head 1: scaled = scores / sqrt(2)");
    snprintf(arguments, sizeof arguments, "case %s", scratch);
    scratch_write("{\"x\": [[1]], \"name\": \"a\", \"about\": \"a b\"}");
    check_line(arguments, "a");
    check_line(arguments, "a b");
    scratch_write(
        "{\"x\": [[1]], \"about\": \"123456789 123456789 123456789 123456789 123456789 123456789 123456789 "
        "123456789 123456789 12345678 a bc\"}");
    check_line(arguments,
               "123456789 123456789 123456789 123456789 123456789 123456789 123456789 123456789 123456789 "
               "12345678 a"); /* 100 columns */
    check_line(arguments, "bc");
    check_line("shape --preset gpt2",
               "with these                                                        124,439,808 "
               "      249,122,304");
}

static void test_bad_cases(void) {
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"", "line 1"},
        {"[[1]]", "no JSON object"},
        {"{}", "\"x\""},
        {"{\"cases\": []}", "\"cases\""},
        {"{\"cases\": [], \"extra\": 1}", "\"cases\""},
        {"{\"cases\": [{\"x\": [[1]]}], \"extra\": 1}", "\"extra\""},
        {"{\"x\": [[1]], \"W_q\": [[1]]}", "\"W_q\""},
        {"{\"x\": []}", "0 rows"},
        {"{\"x\": [1]}", "array of rows"},
        {"{\"x\": [[[1]]]}", "array of rows"},
        {"{\"x\": [[1], [1, 2]]}", "different lengths"},
        {"{\"x\": [[1], 2]}", "different lengths"},
        {"{\"x\": [[1, \"a\"]]}", "no number"},
        {"{\"x\": [[1e999]]}", "too large"},
        {"{\"x\": [[1e200]]}", "not finite"},
        {"{\"x\": [[1, 2]], \"w_q\": [[1]]}", "\"w_q\""},
        {"{\"x\": [[1, 2]], \"b_o\": [1]}", "\"b_o\""},
        {"{\"x\": [[1, 2]], \"w_q\": [[1, 2]]}", "dot product"},
        {"{\"x\": [[1, 2]], \"heads\": 3}", "heads"},
        {"{\"x\": [[1, 2]], \"heads\": 1.5}", "\"heads\""},
        {"{\"x\": [[1, 2]], \"heads\": 0}", "\"heads\""},
        {"{\"x\": [[1, 2]], \"score\": \"cosine\"}", "\"score\""},
        {"{\"x\": [[1, 2]], \"mask\": true}", "\"mask\""},
        {"{\"x\": [[1, 2]], \"score\": \"bilinear\"}", "\"w\""},
        {"{\"x\": [[1, 2]], \"w\": [[1]]}", "\"w\""},
        {"{\"x\": [[1]], \"score\": \"additive\", \"w\": [[1]], \"u\": [[1], [2]], \"v_a\": [1]}", "\"u\""},
        {"{\"x\": [[1, 2]], \"tokens\": [\"a\", \"b\"]}", "\"tokens\""},
        {"{\"x\": [[1, 2]], \"tokens\": [1]}", "\"tokens\""},
        {"{\"x\": [[1, 2]], \"name\": 3}", "\"name\""},
        {"{\"x\": [[1]], \"temperature\": 0}", "\"temperature\""},
        {"{\"x\": [[1]], \"temperature\": -1}", "\"temperature\""},
        {"{\"x\": [[1]], \"temperature\": \"1\"}", "\"temperature\""},
        {"{\"x\": [[1]], \"temperature\": 1e999}", "too large"},
        {"{\"x\": [[1]], \"temperature\": 5e-324}", "not finite"},
        {"{\"x\": [[1]], \"tolerance\": 0}", "\"tolerance\""},
        {"{\"x\": [[1]], \"tolerance\": null}", "\"tolerance\""},
        {"{\"x\": [[1]], \"tolerence\": 1}", "\"tolerence\""},
        {"{\"tolerance\": -1, \"cases\": [{\"x\": [[1]]}]}", "\"tolerance\""},
        {"{\"temperature\": 1, \"cases\": [{\"x\": [[1]]}]}", "not \"temperature\""},
        {"{\"q\": [[1]]}", "\"x\""},
        {"{\"q\": [[1]], \"k\": [[1], [2]], \"v\": [[1]]}", "2 keys, but 1 values"},
        {"{\"q\": [[1]], \"k\": [[1], [2]], \"mask\": \"causal\"}", "causal"},
        {"{\"x\": [[1, 2]], \"weights\": [[1, 0]]}", "\"weights\""},
        {"{\"cases\": [{\"x\": [[1]]}, {\"name\": \"second\", \"y\": 1}]}", "'second'"},
    };
    /* One line on stderr, and so nothing on stdout. */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char arguments[256];
        size_t n;
        int status;
        scratch_write(wrong[i].text);
        snprintf(arguments, sizeof arguments, "case %s 2>&1", scratch);
        char *text = run_study(arguments, &n, &status);
        CHECK(status == 1, "%s: status %d", wrong[i].text, status);
        CHECK(strncmp(text, "study: ", 7) == 0 && strchr(text, '\n') == text + n - 1, "%s: not one line: %s",
              wrong[i].text, text);
        CHECK(strstr(text, wrong[i].says), "%s: %s", wrong[i].text, text);
        free(text);
    }
}

/* A row of "parameters" or "apart" by the name of its matrix. */
static const Json *matrix_row(const Json *report, const char *list, const char *matrix) {
    const Json *rows = json_get(report, list);
    for (size_t i = 0; rows && i < rows->n; i++) {
        const Json *name = json_get(&rows->items[i], "matrix");
        if (json_equals(name, matrix)) return &rows->items[i];
    }
    return NULL;
}

static double sum_of(const Json *report, const char *list) {
    const Json *rows = json_get(report, list);
    double sum = 0;
    for (size_t i = 0; rows && i < rows->n; i++) sum += number_of(&rows->items[i], "total");
    return sum;
}

/* The counts usually given for GPT-3, and those of Hugging Face for GPT-2. */
static void test_presets(void) {
    static const struct {
        const char *matrix;
        double total, per_layer, per_head;
    } gpt3[] = {
        {"embedding", 617558016, NAN, NAN},          {"query", 14495514624, 150994944, 1572864},
        {"key", 14495514624, 150994944, 1572864},    {"value", 14495514624, 150994944, 1572864},
        {"output", 14495514624, 150994944, 1572864}, {"up", 57982058496, 603979776, NAN},
        {"down", 57982058496, 603979776, NAN},       {"unembedding", 617558016, NAN, NAN},
    };
    Json *report = study_json("shape --preset gpt3-175b --json", 0);
    CHECK(number_of(report, "total") == 175181291520.0, "%.0f", number_of(report, "total"));
    for (size_t i = 0; i < sizeof gpt3 / sizeof *gpt3; i++) {
        const Json *row = matrix_row(report, "parameters", gpt3[i].matrix);
        CHECK(number_of(row, "total") == gpt3[i].total, "%s", gpt3[i].matrix);
        CHECK(isnan(gpt3[i].per_layer) || number_of(row, "per_layer") == gpt3[i].per_layer, "%s",
              gpt3[i].matrix);
        CHECK(isnan(gpt3[i].per_head) || number_of(row, "per_head") == gpt3[i].per_head, "%s",
              gpt3[i].matrix);
    }
    CHECK(number_of(report, "attention_total") == 57982058496.0, "%.0f",
          number_of(report, "attention_total"));
    CHECK_NEAR(number_of(report, "attention_share"), 57982058496.0 / 175181291520.0, 1e-9);
    CHECK(number_of(report, "value_map_full") == 150994944, "d_model²");
    CHECK(number_of(report, "value_map_low_rank") == 2 * 1572864, "value and output of a head");
    CHECK(number_of(report, "flops_per_token") == 2 * (175181291520.0 - 617558016), "FLOPs");
    CHECK(number_of(report, "kv_bytes_per_token") == 2.0 * 96 * 12288 * 2, "KV bytes");
    json_free(report);

    static const struct {
        const char *name;
        double total;
    } gpt2[] = {
        {"gpt2", 124439808}, {"gpt2-medium", 354823168}, {"gpt2-large", 774030080}, {"gpt2-xl", 1557611200}};
    for (size_t i = 0; i < sizeof gpt2 / sizeof *gpt2; i++) {
        char arguments[64];
        snprintf(arguments, sizeof arguments, "shape --preset %s --json", gpt2[i].name);
        report = study_json(arguments, 0);
        double total = sum_of(report, "parameters") + sum_of(report, "apart");
        CHECK(total == gpt2[i].total, "%s: %.0f", gpt2[i].name, total);
        json_free(report);
    }
}

/* 4·n_layer·n_head·d_head FLOPs a pair of tokens; plain scores are n² floats for each head of a layer. */
static void test_growth(void) {
    Json *report = study_json("shape --preset gpt2 -c 2048 --json", 0);
    const Json *rows = json_get(report, "attention");
    bool has_n = false;
    for (size_t i = 0; rows && i < rows->n; i++) {
        const Json *row = &rows->items[i];
        double n = number_of(row, "n");
        has_n |= n == 2048;
        CHECK(number_of(row, "plain_bytes") == 4.0 * 12 * n * n, "n %g", n);
        CHECK(number_of(row, "kv_bytes") == 36864 * n, "n %g", n);
        CHECK(number_of(row, "plain_flops") == 4.0 * 12 * 768 * n * n, "n %g", n);
        CHECK(number_of(row, "tiled_flops") == 4.0 * 12 * 768 * n * (n + 1) / 2, "n %g", n);
        CHECK(number_of(row, "flops_per_token") == 4.0 * 12 * 768 * n, "n %g", n);
        CHECK(number_of(row, "tiled_bytes") == number_of(&rows->items[0], "tiled_bytes"), "n %g", n);
    }
    CHECK(rows && rows->n >= 3 && has_n, "-c 2048 is not among the lengths");
    json_free(report);
}

/* Everything that the file holds must be counted, except tables of RoPE and what reads pictures. */
static void check_shape_of_file(const char *path) {
    char arguments[256];
    Error error = {{0}};
    Checkpoint *checkpoint = checkpoint_open(path, &error);
    CHECK(checkpoint != NULL, "%s", error.message);
    snprintf(arguments, sizeof arguments, "shape %s --json", path);
    Json *report = study_json(arguments, 0);
    double parameters = 0, bytes = 0; /* bytes of matrices: vectors are held in F32, whatever their type */
    for (size_t j = 0; checkpoint && j < checkpoint_n_tensors(checkpoint); j++) {
        const Tensor *tensor = checkpoint_tensor(checkpoint, j);
        char name[64];
        double n = 1;
        snprintf(name, sizeof name, "%.*s", (int)tensor->name.n, tensor->name.data);
        if (strncmp(name, "rope_", 5) == 0 || strncmp(name, "v.", 2) == 0 || strncmp(name, "mm.", 3) == 0)
            continue;
        bool is_matrix =
            (tensor->n_dims > 1 || strstr(name, "shexp")) && !strstr(name, ".bias") && !strstr(name, "norm");
        for (uint32_t dim = 0; dim < tensor->n_dims; dim++) n *= (double)tensor->dims[dim];
        parameters += n;
        if (is_matrix) bytes += (double)tensor->n_bytes;
    }
    const Json *positions = matrix_row(report, "apart", "positions");
    double counted = sum_of(report, "parameters") + sum_of(report, "apart");
    double weighed = number_of(report, "bytes") + (positions ? number_of(positions, "bytes") : 0);
    CHECK(counted == parameters, "%s: %.0f counted, %.0f in the file", path, counted, parameters);
    CHECK(weighed == bytes, "%s: %.0f bytes counted, %.0f in the file", path, weighed, bytes);
    CHECK(sum_of(report, "parameters") == number_of(report, "total"), "%s: total", path);
    json_free(report);
    checkpoint_close(checkpoint);
}

static void test_shape_of_files(void) {
    glob_t found;
    size_t n = 0;
    if (glob("tests/data/reference/*.gguf", 0, NULL, &found) != 0) SKIP("no reference checkpoints");
    for (size_t i = 0; i < found.gl_pathc; i++) {
        if (strstr(found.gl_pathv[i], ".expected.")) continue;
        check_shape_of_file(found.gl_pathv[i]);
        n++;
    }
    CHECK(n >= 10, "only %zu checkpoints", n);
    globfree(&found);
}

static void test_bad_shapes(void) {
    static const char *const wrong[] = {"shape --preset gpt4", "shape no-such-file", "shape"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char arguments[128];
        size_t n;
        int status;
        snprintf(arguments, sizeof arguments, "%s 2>/dev/null", wrong[i]);
        char *out = run_study(arguments, &n, &status);
        CHECK((status == 1 || status == 2) && n == 0, "%s: status %d, %zu bytes of report", wrong[i], status,
              n);
        free(out);
    }
}

int main(void) {
    snprintf(scratch, sizeof scratch, "/tmp/attn-test-case-%ld.json", (long)getpid());
    RUN(test_published_cases);
    RUN(test_course_cases);
    RUN(test_steps);
    RUN(test_mask);
    RUN(test_disagreement);
    RUN(test_temperature);
    RUN(test_tolerance);
    RUN(test_lines);
    RUN(test_bad_cases);
    RUN(test_presets);
    RUN(test_growth);
    RUN(test_shape_of_files);
    RUN(test_bad_shapes);
    remove(scratch);
    return test_end();
}
