/*
 * The way back against PyTorch's autograd in float64: scripts/expect/gradients.py made tests/data/gradients/NAME.gguf of the
 * checkpoints in tests/data/reference. And against itself: finite differences of the forward pass, parts that add up to
 * their whole, and the same bits for any number of threads.
 */
#include "backward.h"
#include "gradients/mlp_back.h"
#include "open.h"
#include "test.h"

#include <glob.h>

#define MODELS "tests/data/reference/"
#define FOLDER "tests/data/gradients/"

/*
 * Of the largest expected number of a tensor. BOUND: 8e-6 measured. DEEP_BOUND: models of 32 and 40 layers; 1.1e-4 measured,
 * where PyTorch's autograd in float32 is 1.7e-4 off. MIXED_BOUND: models with
 * experts or states; 2.3e-5 and 3e-5 measured, PyTorch 1.7e-5 and 1.6e-5. QUANTISED_BOUND: the
 * way there rounds what it multiplies quantised weights with to 16 bits; 5.1e-4 measured.
 */
static const double BOUND = 1e-5, DEEP_BOUND = 2e-4, MIXED_BOUND = 5e-5, QUANTISED_BOUND = 1e-3;

typedef struct Case {
    const char *name;
    Model *model;
    Checkpoint *expected;
    const Config *config;
    size_t n, n_positions;
    int32_t *tokens;
    const float *positions;
    Threads *threads;
    const Kernels *kernels;
    SavedActivations saved;
    double bound;
    size_t n_rows; /* compared */
    bool failed;
    size_t layer;         /* of test_parts_add_up */
    float *parts, *whole; /* [n][d_model] of it */
} Case;

static const float *floats_named(const Case *c, const char *name, const Tensor **tensor) {
    *tensor = checkpoint_find(c->expected, name);
    return *tensor ? (*tensor)->data : NULL;
}

static bool wants_saved(void *user, ProbeSite site, size_t layer, size_t head) {
    const Case *c = user;
    (void)head;
    return saved_wants(&c->saved, site, layer);
}

static void keep(void *user, const Activation *seen) {
    const Case *c = user;
    saved_visit(&c->saved, seen);
}

/* The metric's value and, in place of the logits [n][n_vocab], its gradient. */
static double metric_rows(const Case *c, size_t position, size_t n, float *logits) {
    size_t n_vocab = c->config->n_vocab;
    double m = 0;
    for (size_t row = 0; row < n; row++, logits += n_vocab) {
        if (position + row + 1 == c->n) {
            m += (double)logits[c->tokens[0]] - (double)logits[c->tokens[1]];
            memset(logits, 0, n_vocab * sizeof *logits);
            logits[c->tokens[0]] += 1;
            logits[c->tokens[1]] -= 1;
            continue;
        }
        double max = -INFINITY, sum = 0;
        size_t next = (size_t)c->tokens[position + row + 1];
        for (size_t i = 0; i < n_vocab; i++) max = fmax(max, (double)logits[i]);
        for (size_t i = 0; i < n_vocab; i++) sum += exp((double)logits[i] - max);
        m += max + log(sum) - (double)logits[next];
        for (size_t i = 0; i < n_vocab; i++)
            logits[i] = (float)(exp((double)logits[i] - max) / sum - (i == next));
    }
    return m;
}

static bool logits_gradient(void *user, size_t position, size_t n, float *logits, Error *error) {
    (void)error;
    metric_rows(user, position, n, logits);
    return true;
}

/* A session that looks through `probe`; its forward pass gives the metric. */
static double forward_metric(Case *c, const Probe *probe) {
    Error error;
    SessionOptions options = {.kv_dtype = DTYPE_F32,
                              .whole_cache = true,
                              .n_chunk = 7,
                              .compute = {.kernels = c->kernels, .threads = c->threads},
                              .probe = probe};
    Session *session = session_new(c->model, &options, &error);
    float *logits = calloc(c->n * c->config->n_vocab, sizeof *logits);
    CHECK(session && session_feed(session, c->tokens, c->n, logits, c->n, &error), "%s: %s", c->name,
          error.message);
    double m = metric_rows(c, 0, c->n, logits);
    free(logits);
    session_free(session);
    return m;
}

/* Of the way there no more than `most` bytes are kept, beyond the streams. */
static bool case_open(Case *c, const char *path, size_t most) {
    static char model_path[256];
    Error error;
    const Tensor *tensor;
    snprintf(model_path, sizeof model_path, MODELS "%s", path + strlen(FOLDER));
    *c = (Case){.name = path + strlen(FOLDER), .bound = BOUND};
    c->expected = checkpoint_open(path, &error);
    c->model = c->expected ? model_open(model_path, &error) : NULL;
    CHECK(c->model, "%s", error.message);
    if (!c->model) return false;
    c->config = model_config(c->model);
    const float *ids = floats_named(c, "tokens", &tensor);
    c->n = (size_t)tensor->dims[0];
    c->tokens = calloc(c->n, sizeof *c->tokens);
    for (size_t i = 0; i < c->n; i++) c->tokens[i] = (int32_t)ids[i];
    c->positions = floats_named(c, "positions", &tensor);
    c->n_positions = (size_t)tensor->dims[0];
    const Checkpoint *checkpoint = model_checkpoint(c->model);
    if (c->config->n_layer > 10) c->bound = DEEP_BOUND;
    if (c->config->n_expert || model_weights(c->model)->n_states) c->bound = MIXED_BOUND;
    for (size_t i = 0; i < checkpoint_n_tensors(checkpoint); i++)
        if (dtype_is_quantised(checkpoint_tensor(checkpoint, i)->dtype)) c->bound = QUANTISED_BOUND;
    c->threads = threads_new(2, &error);
    c->kernels = kernels_pick(NULL, &error);
    CHECK(backward_room(&c->saved, c->model, c->n, most, &error), "%s", error.message);
    return true;
}

static void case_close(Case *c) {
    saved_free(&c->saved);
    free(c->tokens);
    threads_free(c->threads);
    model_close(c->model);
    checkpoint_close(c->expected);
}

static double largest(const float *x, size_t n) {
    double max = 0;
    for (size_t i = 0; i < n; i++) max = fmax(max, fabs((double)x[i]));
    return max;
}

static bool wants_compared(void *user, ProbeSite site, size_t layer, size_t head) {
    const Case *c = user;
    char name[64];
    (void)head;
    snprintf(name, sizeof name, "blk.%zu.%s", layer, probe_site_name(site));
    return checkpoint_find(c->expected, name);
}

static void compare(void *user, const Activation *seen, float *gradient) {
    Case *c = user;
    char name[64];
    const Tensor *tensor;
    snprintf(name, sizeof name, "blk.%zu.%s", seen->layer, probe_site_name(seen->site));
    const float *expected = floats_named(c, name, &tensor);
    double scale = largest(expected, (size_t)tensor->n_bytes / sizeof *expected);
    for (size_t row = 0; row < seen->n_rows; row++)
        for (size_t i = 0; i < c->n_positions; i++) {
            if ((size_t)c->positions[i] != seen->position + row) continue;
            const float *want = expected + (seen->head * c->n_positions + i) * tensor->dims[0];
            c->n_rows++;
            for (size_t j = 0; j < seen->n_cols && !c->failed; j++) {
                double got = (double)gradient[row * seen->stride + j];
                c->failed = !(fabs(got - (double)want[j]) <= c->bound * scale + 1e-12);
                CHECK(!c->failed, "%s: %s head %zu position %zu [%zu]: got %.9g, expected %.9g ± %.2g",
                      c->name, name, seen->head, seen->position + row, j, got, (double)want[j],
                      c->bound * scale);
            }
        }
}

static void go_back(Case *c, const GradientProbe *probe) {
    Error error;
    Backward task = {.model = c->model,
                     .compute = {.kernels = c->kernels, .threads = c->threads},
                     .n = c->n,
                     .n_ctx = c->config->n_ctx,
                     .saved = &c->saved,
                     .logits_gradient = logits_gradient,
                     .user = c,
                     .probe = probe};
    CHECK(backward_run(&task, &error), "%s: %s", c->name, error.message);
}

static size_t expected_rows(const Case *c) {
    size_t n = 0;
    for (size_t i = 0; i < checkpoint_n_tensors(c->expected); i++) {
        const Tensor *tensor = checkpoint_tensor(c->expected, i);
        if (tensor->name.n > 4 && memcmp(tensor->name.data, "blk.", 4) == 0)
            n += (size_t)(tensor->dims[1] * tensor->dims[2]);
    }
    return n;
}

static void check_sites(Case *c) {
    const Tensor *tensor;
    double want = (double)*floats_named(c, "m", &tensor);
    double m = forward_metric(c, &(Probe){c, wants_saved, keep});
    CHECK_NEAR(m, want, 10 * c->bound * fabs(want));
    go_back(c, &(GradientProbe){c, wants_compared, compare});
    CHECK(c->failed || c->n_rows == expected_rows(c), "%s: %zu rows came by, expected %zu", c->name,
          c->n_rows, expected_rows(c));
}

static void for_each_case(void (*check)(Case *c)) {
    glob_t found;
    int status = glob(FOLDER "*.gguf", 0, NULL, &found);
    CHECK(status == 0 && found.gl_pathc > 60, "checkpoints in " FOLDER);
    for (size_t i = 0; status == 0 && i < found.gl_pathc; i++) {
        for (size_t whole = 0; whole < 2; whole++) {
            Case c;
            if (case_open(&c, found.gl_pathv[i], whole ? BACKWARD_SAVED : 0)) check(&c);
            case_close(&c);
        }
    }
    if (status == 0) globfree(&found);
}

/* All is made again but the streams; and then nothing that is kept is. */
static void test_every_gradient_is_pytorchs(void) { for_each_case(check_sites); }

/* The parts of a layer's way back: all heads' queries, keys, values and gates, or a state; the MLP; and what passes by. */
static bool wants_parts(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)head;
    return layer == ((const Case *)user)->layer &&
           (site >= PROBE_Q_INPUT || site == PROBE_RESID_POST || site == PROBE_RESID_PRE);
}

static void add_part(void *user, const Activation *seen, float *gradient) {
    Case *c = user;
    float *to = (seen->site == PROBE_RESID_PRE ? c->whole : c->parts) + seen->position * seen->n_cols;
    for (size_t i = 0; i < seen->n_rows * seen->n_cols; i++) to[i] += gradient[i];
}

static void check_parts_of(Case *c, size_t layer) {
    c->layer = layer;
    size_t count = c->n * c->config->d_model;
    c->parts = calloc(count, sizeof *c->parts);
    c->whole = calloc(count, sizeof *c->whole);
    forward_metric(c, &(Probe){c, wants_saved, keep});
    go_back(c, &(GradientProbe){c, wants_parts, add_part});
    double scale = largest(c->whole, count), worst = 0;
    for (size_t i = 0; i < count; i++) worst = fmax(worst, fabs((double)c->whole[i] - (double)c->parts[i]));
    CHECK(scale > 0 && worst <= 1e-5 * scale, "%s: L%zu: parts miss their whole by %.2g of %.2g", c->name,
          layer, worst, scale);
    free(c->parts);
    free(c->whole);
}

static void check_parts(Case *c) {
    for (size_t layer = 0; layer < 2; layer++) check_parts_of(c, layer);
}

static void test_parts_add_up(void) { for_each_case(check_parts); }

/* One head's query, key or value alone: the others are silenced on their way. */
typedef struct Alone {
    Case *c;
    ProbeSite site, input;
    size_t head;
    float *alone, *rest; /* [n][d_model] at the input; resid_pre − resid_mid of the silenced run */
    bool silences;
} Alone;

static bool wants_alone(void *user, ProbeSite site, size_t layer, size_t head) {
    const Alone *a = user;
    if (layer != 1) return false;
    if (!a->silences) return site == a->input && head == a->head;
    return site == PROBE_Q || site == PROBE_K || site == PROBE_V || site == PROBE_RESID_MID ||
           site == PROBE_RESID_PRE;
}

static void visit_alone(void *user, const Activation *seen, float *gradient) {
    const Alone *a = user;
    bool is_pre = seen->site == PROBE_RESID_PRE;
    if (seen->site == a->input) memcpy(a->alone, gradient, seen->n_rows * seen->n_cols * sizeof *gradient);
    if (is_pre || seen->site == PROBE_RESID_MID)
        for (size_t i = 0; i < seen->n_rows * seen->n_cols; i++)
            a->rest[i] += is_pre ? gradient[i] : -gradient[i];
    if (seen->site != PROBE_Q && seen->site != PROBE_K && seen->site != PROBE_V) return;
    for (size_t i = 0; i < seen->n_rows && !(seen->site == a->site && seen->head == a->head); i++)
        memset(gradient + i * seen->stride, 0, seen->n_cols * sizeof *gradient);
}

static void check_alone(Case *c) {
    static const ProbeSite sites[] = {PROBE_Q, PROBE_K, PROBE_V};
    static const ProbeSite inputs[] = {PROBE_Q_INPUT, PROBE_K_INPUT, PROBE_V_INPUT};
    if (strcmp(c->name, "llama-f32.gguf") != 0 && strcmp(c->name, "gemma3.gguf") != 0) return;
    size_t count = c->n * c->config->d_model;
    forward_metric(c, &(Probe){c, wants_saved, keep});
    for (int i = 0; i < 3; i++) {
        Alone a = {c,
                   sites[i],
                   inputs[i],
                   1 % c->config->n_head_kv,
                   calloc(count, sizeof(float)),
                   calloc(count, sizeof(float))};
        go_back(c, &(GradientProbe){&a, wants_alone, visit_alone});
        a.silences = true;
        go_back(c, &(GradientProbe){&a, wants_alone, visit_alone});
        double scale = largest(a.rest, count);
        for (size_t j = 0; j < count; j++)
            if (!(fabs((double)a.alone[j] - (double)a.rest[j]) <= 1e-4 * scale)) scale = 0;
        CHECK(scale > 0, "%s: %s is not what comes back when all others are silent", c->name,
              probe_site_name(inputs[i]));
        free(a.alone);
        free(a.rest);
    }
}

static void test_each_head_alone(void) { for_each_case(check_alone); }

/* Moves the stream that enters layer 1 along a direction, and keeps its gradient. */
typedef struct Nudge {
    Case *c;
    float step;
    float *direction, *gradient; /* [n][d_model] */
} Nudge;

static bool wants_nudge(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)user, (void)head;
    return site == PROBE_RESID_PRE && layer == 1;
}

static void nudge(void *user, const Activation *seen) {
    const Nudge *n = user;
    for (size_t i = 0; i < seen->n_rows * seen->n_cols; i++)
        seen->data[i] += n->step * n->direction[seen->position * seen->n_cols + i];
}

static void keep_gradient(void *user, const Activation *seen, float *gradient) {
    const Nudge *n = user;
    memcpy(n->gradient + seen->position * seen->n_cols, gradient,
           seen->n_rows * seen->n_cols * sizeof *gradient);
}

/* The gradient along a direction is the slope of the metric, by the forward pass alone. */
static void check_slope(Case *c) {
    size_t count = c->n * c->config->d_model;
    const float h = 4e-3f;
    Nudge n = {c, 0, calloc(count, sizeof(float)), calloc(count, sizeof(float))};
    for (size_t i = 0; i < count; i++) n.direction[i] = (float)((i * 2654435761u >> 8) % 201) / 100 - 1;
    forward_metric(c, &(Probe){c, wants_saved, keep});
    go_back(c, &(GradientProbe){&n, wants_nudge, keep_gradient});
    double slope = 0, size = 0, m[2];
    for (size_t i = 0; i < count; i++) {
        slope += (double)n.direction[i] * (double)n.gradient[i];
        size += fabs((double)n.direction[i] * (double)n.gradient[i]);
    }
    for (int i = 0; i < 2; i++) {
        n.step = i ? h : -h;
        m[i] = forward_metric(c, &(Probe){&n, wants_nudge, nudge});
    }
    CHECK_NEAR((m[1] - m[0]) / (2 * (double)h), slope, 1e-2 * size);
    free(n.direction);
    free(n.gradient);
}

/* A quantised model's steps are rounded; an expert that changes jumps. */
static void check_slope_of_smooth(Case *c) {
    if (c->bound < QUANTISED_BOUND && !c->config->n_expert) check_slope(c);
}

static void test_slopes_of_the_forward_pass(void) { for_each_case(check_slope_of_smooth); }

static void check_threads(Case *c) {
    Error error;
    size_t count = c->n * c->config->d_model;
    if (strcmp(c->name, "llama-mixed.gguf") != 0 && strcmp(c->name, "qwen3moe.gguf") != 0) return;
    float *gradients[2];
    forward_metric(c, &(Probe){c, wants_saved, keep});
    for (int i = 0; i < 2; i++) {
        threads_free(c->threads);
        c->threads = threads_new(i ? 5 : 1, &error);
        gradients[i] = calloc(count, sizeof(float));
        go_back(c, &(GradientProbe){&(Nudge){c, 0, NULL, gradients[i]}, wants_nudge, keep_gradient});
    }
    CHECK(memcmp(gradients[0], gradients[1], count * sizeof(float)) == 0, "%s: threads change bits", c->name);
    free(gradients[0]);
    free(gradients[1]);
}

static void test_threads_change_no_bit(void) { for_each_case(check_threads); }

static bool wants_all_resid(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)user, (void)layer, (void)head;
    return site == PROBE_RESID_PRE;
}

static void keep_second(void *user, const Activation *seen, float *gradient) {
    if (seen->layer == 1) keep_gradient(user, seen, gradient);
    if (seen->layer == 0) ((Nudge *)user)->step += 1;
}

/* Who asks for a layer's gradient alone gets it without the way through those below. */
static void test_lowest(void) {
    Error error = {{0}};
    Case c;
    float *gradients[2];
    if (!case_open(&c, FOLDER "gpt2-f32.gguf", 0)) return;
    size_t count = c.n * c.config->d_model;
    forward_metric(&c, &(Probe){&c, wants_saved, keep});
    for (size_t i = 0; i < 2; i++) {
        gradients[i] = calloc(count, sizeof(float));
        Nudge nudge = {&c, 0, NULL, gradients[i]};
        Backward task = {.model = c.model,
                         .compute = {.kernels = c.kernels, .threads = c.threads},
                         .n = c.n,
                         .n_ctx = c.config->n_ctx,
                         .lowest = i,
                         .saved = &c.saved,
                         .logits_gradient = logits_gradient,
                         .user = &c,
                         .probe = &(GradientProbe){&nudge, wants_all_resid, keep_second}};
        CHECK(backward_run(&task, &error), "%s", error.message);
        CHECK((nudge.step > 0) == (i == 0), "layer 0 came by %g times", (double)nudge.step);
    }
    CHECK(largest(gradients[0], count) > 0 && memcmp(gradients[0], gradients[1], count * sizeof(float)) == 0,
          "another gradient");
    free(gradients[0]);
    free(gradients[1]);
    case_close(&c);
}

/* Layers are kept from the last one down, as far as the limit goes; the gradients are those of a text that is kept whole. */
static void test_some_are_kept(void) {
    Case c;
    float *gradients[2];
    for (size_t i = 0; i < 2; i++) {
        if (!case_open(&c, FOLDER "gpt2-f32.gguf", BACKWARD_SAVED)) return;
        size_t floats = (c.config->n_layer + 1) * c.n * c.config->d_model, layer = 0;
        for (size_t site = 0; site < N_SAVED; site++) layer += c.n * c.saved.layers[0].width[site];
        if (i == 1) {
            Error error;
            saved_free(&c.saved);
            CHECK(backward_room(&c.saved, c.model, c.n, (floats + layer + layer / 2) * sizeof(float), &error),
                  "%s", error.message);
        }
        for (size_t l = 0; l < c.config->n_layer; l++)
            CHECK((c.saved.layers[l].at[SAVED_Q] != NULL) == (i == 0 || l + 1 == c.config->n_layer),
                  "layer %zu of the limit %zu", l, i);
        forward_metric(&c, &(Probe){&c, wants_saved, keep});
        gradients[i] = calloc(floats, sizeof(float));
        go_back(&c, &(GradientProbe){&(Nudge){&c, 0, NULL, gradients[i]}, wants_nudge, keep_gradient});
        for (size_t j = 0; i == 1 && j < c.n * c.config->d_model; j++)
            CHECK_NEAR(gradients[1][j], gradients[0][j],
                       1e-5 * largest(gradients[0], c.n * c.config->d_model));
        case_close(&c);
    }
    free(gradients[0]);
    free(gradients[1]);
}

static bool stop_at_once(void *user) { return user; }

static void test_stop(void) {
    Error error = {{0}};
    Case c;
    if (!case_open(&c, FOLDER "gpt2-f32.gguf", 0)) return;
    forward_metric(&c, &(Probe){&c, wants_saved, keep});
    Backward task = {.model = c.model,
                     .compute = {.kernels = c.kernels, .threads = c.threads},
                     .n = c.n,
                     .n_ctx = c.n,
                     .saved = &c.saved,
                     .logits_gradient = logits_gradient,
                     .user = &c,
                     .stop = stop_at_once,
                     .stop_user = &c};
    CHECK(!backward_run(&task, &error) && strcmp(error.message, "interrupted") == 0, "%s", error.message);
    case_close(&c);
}

typedef struct Curve {
    MlpKind kind;
    double (*value)(double x);
} Curve;

static double gelu_tanh_of(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static double gelu_erf_of(double x) { return 0.5 * x * erfc(-x * sqrt(0.5)); }
static double relu_of(double x) { return x > 0 ? x : 0; }
static double relu_squared_of(double x) { return x > 0 ? x * x : 0; }

/* Activations and their slopes, also far from 0 on either side: against the formula, and its differences. */
static void test_slopes_of_activations(void) {
    static const Curve curves[] = {{MLP_GELU_TANH, gelu_tanh_of},
                                   {MLP_GELU_ERF, gelu_erf_of},
                                   {MLP_RELU, relu_of},
                                   {MLP_RELU_SQUARED, relu_squared_of}};
    static const float x[] = {-300, -30, -14, -11, -9, -4, -1.5f, -0.25f, 0.25f, 1.5f, 4, 9, 11, 14, 30, 300};
    enum { N = sizeof x / sizeof *x };
    const Kernels *sets[] = {kernels_pick("scalar", &(Error){{0}}), kernels_fastest()};
    for (size_t k = 0; k < 2; k++)
        for (size_t c = 0; c < sizeof curves / sizeof *curves; c++) {
            Threads *threads = threads_new(1, &(Error){{0}});
            Compute compute = {.kernels = sets[k], .threads = threads};
            MlpTrace trace;
            CHECK(mlp_trace_open(&trace, 1, N), "memory");
            mlp_trace_saved(&compute, curves[c].kind, 1, N, x, NULL, &trace);
            for (size_t i = 0; i < N; i++) {
                double value = curves[c].value((double)x[i]), h = 1e-4;
                double slope =
                    (curves[c].value((double)x[i] + h) - curves[c].value((double)x[i] - h)) / (2 * h);
                CHECK(fabs((double)trace.post[i] - value) <= 1e-6 * fmax(1, fabs((double)x[i])),
                      "%s %zu of %g: %g, expected %g", sets[k]->name, c, (double)x[i], (double)trace.post[i],
                      value);
                CHECK(fabs((double)trace.hidden_slope[i] - slope) <= 1e-5 * fmax(1, fabs(slope)),
                      "%s %zu at %g: slope %g, expected %g", sets[k]->name, c, (double)x[i],
                      (double)trace.hidden_slope[i], slope);
            }
            mlp_trace_close(&trace);
            threads_free(threads);
        }
}

int main(void) {
    RUN(test_every_gradient_is_pytorchs);
    RUN(test_parts_add_up);
    RUN(test_each_head_alone);
    RUN(test_slopes_of_the_forward_pass);
    RUN(test_slopes_of_activations);
    RUN(test_threads_change_no_bit);
    RUN(test_lowest);
    RUN(test_some_are_kept);
    RUN(test_stop);
    return test_end();
}
