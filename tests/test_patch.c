/*
 * The view patch on every family's small model, whose attention it computes on its own: against what `next` says. What each
 * cell must be is test_study.c's, against PyTorch. And the metrics that patching and gradients share, against the
 * definition of a derivative.
 */
#define _GNU_SOURCE
#include "measures/effectsums.h"
#include "measures/metric.h"
#include "programs.h"
#include "test.h"

#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>

/* ---- Metrics ---- */

enum { N = 5 };
static const float logits[N] = {0.5f, -1, 2, 0.25f, 1}, reference[N] = {1, 0, -0.5f, 2, 0.125f};

static Metric metric_of(MetricKind kind) {
    return (Metric){kind, .answer = 2, .wrong = 3, .n_vocab = N, .reference = reference};
}

static void test_values(void) {
    double sum = 0, other = 0, kl = 0;
    for (int i = 0; i < N; i++) sum += exp((double)logits[i]), other += exp((double)reference[i]);
    for (int i = 0; i < N; i++) {
        double r = exp((double)reference[i]) / other;
        kl += r * (log(r) - (double)logits[i] + log(sum));
    }
    const double values[] = {1.75, 2, 2 - log(sum), log(sum) - 2, kl};
    for (int kind = 0; kind < N_METRIC_KINDS; kind++) {
        Metric metric = metric_of((MetricKind)kind);
        CHECK_NEAR(metric_value(&metric, logits), values[kind], 1e-6);
    }
    int32_t tokens[2];
    Metric difference = metric_of(METRIC_LOGIT_DIFF), nll = metric_of(METRIC_NLL);
    CHECK(metric_tokens(&difference, tokens) == 2 && tokens[0] == 2 && tokens[1] == 3, "its two tokens");
    CHECK(metric_tokens(&nll, tokens) == 0, "all tokens");
    CHECK_NEAR(metric_of_tokens(&difference, (double[]){2, 0.25}), 1.75, 0);
}

static void test_gradients(void) {
    const float step = 1.0f / 64;
    for (int kind = 0; kind < N_METRIC_KINDS; kind++) {
        Metric metric = metric_of((MetricKind)kind);
        float gradient[N];
        memcpy(gradient, logits, sizeof logits);
        metric_gradient(&metric, 3, gradient);
        for (int i = 0; i < N; i++) {
            float up[N], down[N];
            memcpy(up, logits, sizeof logits);
            memcpy(down, logits, sizeof logits);
            up[i] += step, down[i] -= step;
            double slope = (metric_value(&metric, up) - metric_value(&metric, down)) / (2 * (double)step);
            CHECK(fabs(3 * slope - (double)gradient[i]) < 2e-4, "%s: %d: %g against %g", metric_names[kind],
                  i, (double)gradient[i], 3 * slope);
        }
    }
}

/* Two pairs: the ratio of the sums, and what its residuals, 0.25 and −0.25, make of its error. */
static void test_effects(void) {
    EffectSums sums = {0};
    effect_add(&sums, 1, 2, 0);
    CHECK_NEAR(effect_mean(&sums), 0.5, 0);
    CHECK(isnan(effect_error(&sums)) && isnan(effect_metric_error(&sums)), "one pair has no error");
    effect_add(&sums, 2, 4, 1);
    CHECK_NEAR(effect_mean(&sums), 2.0 / 5, 1e-15);
    CHECK_NEAR(effect_metric(&sums), 1.5, 0);
    CHECK_NEAR(effect_metric_error(&sums), 0.5, 1e-15);
    CHECK_NEAR(effect_error(&sums), sqrt((0.04 + 0.04) / 2) / 2.5, 1e-12);
}

/* ---- The view ---- */

static Json *json_from(const char *view, const char *model, const char *const *words, size_t n_words) {
    static const char letters[] = "tests/data/study/letters.gguf";
    Command command = command_begin();
    const char *first[] = {view, model, "-z", letters, "-t", "1", "--json"};
    bool own = strstr(model, "gpt2-") || strstr(model, "llama-f32.") || strstr(model, "llama-f32-") ||
               strstr(model, "llama-b") || strstr(model, "llama-f16") || strstr(model, "llama-q") ||
               strstr(model, "llama-mixed");
    for (size_t i = 0; i < 7; i++)
        if (!own || (i != 2 && i != 3)) command_add(&command, first[i], strlen(first[i]));
    for (size_t i = 0; i < n_words; i++) command_add(&command, words[i], strlen(words[i]));
    size_t n;
    Error error = {{0}};
    char *text = output_of(command, &n);
    Json *json = json_take(text, n, &error);
    CHECK(json, "%s %s: %s", view, model, error.message);
    return json;
}

/*
 * The metric of the clean text is the logit that `next` has. The stream that enters layer 0 is all that tells one text from
 * the other: where they differ in one token, it brings back all of the answer.
 */
static void check_model(const char *model) {
    const char *const patch[] = {"-p", "the tin",  "--corrupted", "the ton", "--answer",
                                 "#9", "--metric", "logit",       "--layer", "0"};
    const char *const next[] = {"-p", "the tin", "--token", "#9", "--top", "0"};
    Json *patched = json_from("patch", model, patch, 10), *expected = json_from("next", model, next, 6);
    double clean = number_at(patched, "clean_nats"), logit = number_at(expected, "named.0.logit"), most = 0;
    const Json *cells = json_get(patched, "cells");
    CHECK(fabs(clean - logit) <= 2e-3 * fmax(1, fabs(logit)), "%s: %.9g, expected %.9g", model, clean, logit);
    for (size_t i = 0; cells && i < cells->n; i++) {
        double effect = number_at(&cells->items[i], "effect");
        bool same = json_get(&cells->items[i], "same")->boolean;
        CHECK(!same || effect == 0, "%s: an effect of %g where nothing changes", model, effect);
        if (!same) most = effect;
    }
    CHECK(fabs(most - 1) < 1e-2, "%s: an effect of %.9g of all that differs", model, most);
    json_free(patched);
    json_free(expected);
}

static void test_families(void) {
    glob_t found;
    if (glob("tests/data/reference/*.gguf", 0, NULL, &found) != 0) exit(1);
    size_t n = 0;
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (!strstr(found.gl_pathv[i], ".expected.")) check_model(found.gl_pathv[i]), n++;
    CHECK(n > 60, "%zu models", n);
    globfree(&found);
}

/* A figure has a cell for each effect that is not next to nothing: those above 0 first, then those below. */
static void check_figure(const char *what, size_t n_cols, const char *label) {
    const char *file = scratch_path("grid.svg"), *const words[] = {"-p",      "the cat",  "--corrupted",
                                                                   "the rat", "--answer", "#104",
                                                                   "--wrong", "#101",     "--what",
                                                                   what,      "--svg",    file};
    Json *json = json_from("patch", "tests/data/reference/gpt2-f32.gguf", words, 12);
    const Json *cells = json_get(json, "cells");
    size_t n;
    char *svg = read_whole(file, &n);
    const char *at = svg ? strstr(svg, "<g fill=\"#3b4cc0\">") : NULL,
               *frame = at ? strstr(at, "stroke=\"#bbb\"") : NULL;
    double most = 0, x0 = 0, y0 = 0, x, y, width, opacity;
    while (frame && frame > at && strncmp(frame, "<rect", 5) != 0) frame--;
    CHECK(frame && sscanf(frame, "<rect x=\"%lf\" y=\"%lf\"", &x0, &y0) == 2, "%s: no frame", what);
    CHECK(svg && strstr(svg, label), "%s: no label %s", what, label);
    for (size_t i = 0; i < cells->n; i++) most = fmax(most, fabs(number_at(&cells->items[i], "effect")));
    CHECK(most > 0, "%s: no effects", what);
    for (int sign = 1; at && sign >= -1; sign -= 2)
        for (size_t i = 0; i < cells->n; i++) {
            double share = sign * number_at(&cells->items[i], "effect") / most;
            if (!(share >= 1.0 / 255)) continue;
            at = strstr(at + 1, "<rect ");
            bool ok =
                at &&
                sscanf(at, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%*f\" fill-opacity=\"%lf\"", &x,
                       &y, &width, &opacity) == 4;
            CHECK(ok && fabs(opacity - share) < 6e-4 &&
                      fabs((x - x0) / width - (double)(i % n_cols)) < 1e-2 &&
                      fabs((y - y0) / width - (double)(i / n_cols)) < 1e-2,
                  "%s: cell %zu: %.80s", what, i, at ? at : "");
            if (!at) break;
        }
    CHECK(at && strstr(at + 1, "<rect ") == frame, "%s: more cells than effects", what);
    size_t n_shades = 0; /* ten of each colour, and none */
    for (const char *path = svg; path && (path = strstr(path + 1, "<path "));) n_shades++;
    CHECK(n_shades == 21, "%s: %zu shades", what, n_shades);
    unlink(file);
    free(svg);
    json_free(json);
}

static void test_figure(void) {
    check_figure("resid", 7, ">c | r</text>");
    check_figure("z", 2, ">H1</text>");
    check_figure("k", 2, ">KV1</text>");
    check_figure("head-pos", 7, ">L1H0</text>");
}

/* Cells of some positions are those that the whole grid has there. */
static void test_range(void) {
    const char *const words[] = {"-p",     "the cat", "--corrupted", "the rat", "--answer", "#104",
                                 "--what", NULL,      "--from",      "3",       "--to",     "6"};
    static const char *const whats[] = {"resid", "mlp_out", "head-pos"};
    for (size_t w = 0; w < 3; w++) {
        const char *mine[12];
        memcpy(mine, words, sizeof words);
        mine[7] = whats[w];
        Json *whole = json_from("patch", "tests/data/reference/gpt2-f32.gguf", mine, 8),
             *part = json_from("patch", "tests/data/reference/gpt2-f32.gguf", mine, 12);
        const Json *all = json_get(whole, "cells"), *some = json_get(part, "cells");
        size_t n = 0, n_different = 0;
        for (size_t i = 0; i < all->n; i++) {
            double position = number_at(&all->items[i], "position");
            if (position < 3 || position >= 6) continue;
            const Json *cell = n < some->n ? &some->items[n] : &all->items[0];
            n_different += !json_get(cell, "same")->boolean;
            CHECK(number_at(cell, "position") == position &&
                      fabs(number_at(cell, "effect") - number_at(&all->items[i], "effect")) < 1e-5,
                  "%s: cell %zu: %g, not %g", whats[w], n, number_at(cell, "effect"),
                  number_at(&all->items[i], "effect"));
            n++;
        }
        CHECK(n == some->n && n_different > 0, "%s: %zu cells, not %zu", whats[w], (size_t)some->n, n);
        json_free(whole);
        json_free(part);
    }
}

/* Ctrl-C once a long sweep has been announced: what is done is printed, not drawn, and the signal ends the program. */
static void test_interrupt(void) {
    enum { WORDS = 250 };
    static char texts[2][4 * WORDS + 8];
    for (int i = 0; i < 2; i++) {
        snprintf(texts[i], sizeof texts[i], i ? "The" : "An");
        for (int k = 0; k < WORDS; k++) strcat(texts[i], " the");
    }
    const char *program = getenv("STUDY") ? getenv("STUDY") : "./study";
    char out[300], err[300], figure[300];
    snprintf(figure, sizeof figure, "%s", scratch_path("figure"));
    snprintf(out, sizeof out, "%s", scratch_path("out"));
    snprintf(err, sizeof err, "%s", scratch_path("err"));
    pid_t child = fork();
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        if (dup2(open(out, O_WRONLY | O_CREAT, 0600), 1) < 0 ||
            dup2(open(err, O_WRONLY | O_CREAT, 0600), 2) < 0)
            _exit(126);
        execl(program, program, "patch", "weights/model.gguf", "-p", texts[0], "--corrupted", texts[1],
              "--answer", " the", "--what", "head-pos", "-t", "1", "--svg", figure, (char *)NULL);
        _exit(127);
    }
    size_t n = 0;
    bool told = false;
    int status = 0;
    for (int tries = 0; tries < 600 && !told && waitpid(child, &status, WNOHANG) == 0; tries++) {
        usleep(100000);
        char *said = access(err, F_OK) == 0 ? read_whole(err, &n) : NULL;
        told = said && strstr(said, "prints what is done");
        free(said);
    }
    CHECK(told, "no note of the time that it takes");
    if (told) usleep(300000);
    kill(child, SIGINT);
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "status %d", status);
    char *printed = read_whole(out, &n);
    CHECK(printed && strstr(printed, "Ended early: ") && strstr(printed, "?: not done"), "%.300s", printed);
    CHECK(access(figure, F_OK) != 0, "a drawing of a part");
    free(printed);
    unlink(out);
    unlink(err);
}

int main(void) {
    if (!scratch_begin()) return 1;
    RUN(test_values);
    RUN(test_gradients);
    RUN(test_effects);
    RUN(test_families);
    RUN(test_figure);
    RUN(test_range);
    RUN(test_interrupt);
    scratch_end();
    return test_end();
}
