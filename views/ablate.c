/*
 * ablate: what changes when a head or an MLP is switched off. Into z of a head (before W_O, so that each
 * query head stands alone under grouped-query attention), or into what an MLP adds, the probe writes
 *
 *   zero      the value bias b_V of the head's kv head, else 0 (--hard-zero: 0 always)
 *   mean      its mean over the positions of a reference text
 *   resample  its values on another text of as many tokens
 *
 * The baseline run keeps the residual stream that enters the first layer touched (in a sweep, every layer),
 * and what leaves the last one. A run with parts off resumes from there: layers below would compute the same
 * again. Logits of both are made a piece at a time when compared, so none are kept.
 */
#include "views/difference.h"
#include "views/study.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_HELD_MIB = 512, /* of vectors of the text: the residual stream entering layers, values of --with */
    PIECE = 64,         /* positions whose logits are held at a time */
    STRONGEST = 10,     /* cells of a sweep that are listed */
};

typedef enum By { BY_ZERO, BY_MEAN, BY_RESAMPLE } By;
typedef enum Sweep { SWEEP_NONE, SWEEP_HEADS, SWEEP_MLPS } Sweep;

static const char *const by_names[] = {"zero", "mean", "resample"};
static const char *const sweep_names[] = {"", "heads", "mlps"}; /* an option's from 1 on */

/* What stands in for a layer's z (width n_head·d_head) or mlp_out (width d_model). */
typedef struct Substitute {
    float *rows;  /* [1][width]; resample: [n][width]; NULL where nothing is switched off */
    double *sums; /* mean: [width] over the positions seen so far */
    size_t width;
} Substitute;

typedef struct Layer {
    float *resid_pre; /* [n][d_model] of the baseline; NULL where no run begins */
    Substitute z, mlp_out;
} Layer;

typedef enum Run { RUN_REFERENCE, RUN_BASELINE, RUN_ABLATED } Run;

typedef struct Ablation {
    const Study *study;
    const Config *config;
    By by;
    Sweep sweep;
    Tokens reference; /* of --with, or none */
    bool *off;      /* [n_layer][n_head + 1]: the parts that a run switches off; a layer's last is its MLP */
    size_t *chosen; /* [n_chosen] places in `off`; a sweep takes them one by one */
    size_t n_chosen;

    Run run; /* under way: what the probe is to do */
    Probe probe;
    Session *session;
    Layer *layers;     /* [n_layer] */
    float *final[2];   /* [n][d_model] leaving the last layer: baseline, ablated */
    float *logits[2];  /* [PIECE][n_vocab] of each */
    Difference *cells; /* [n_cells] baseline against ablated */
    double *kl;        /* [n_cells] their KL(baseline ‖ ablated), nats */
    size_t n_cells;    /* n_chosen in a sweep, else 1 */
} Ablation;

static bool *layer_parts(const Ablation *ablation, size_t layer) {
    return ablation->off + layer * (ablation->config->n_head + 1);
}

static size_t part_layer(const Ablation *ablation, size_t place) {
    return place / (ablation->config->n_head + 1);
}

/* n_head: the MLP. */
static size_t part_head(const Ablation *ablation, size_t place) {
    return place % (ablation->config->n_head + 1);
}

static void choose(Ablation *ablation, size_t layer, size_t head) {
    bool *off = &layer_parts(ablation, layer)[head];
    if (!*off) ablation->chosen[ablation->n_chosen++] = (size_t)(off - ablation->off);
    *off = true;
}

/* The number behind a letter, as the 3 of "L3"; false, and nothing read, where there is none. */
static bool read_numbered(const char **at, char letter, unsigned long long *number) {
    if (**at != letter || (*at)[1] < '0' || (*at)[1] > '9') return false;
    char *end;
    *number = strtoull(*at + 1, &end, 10); /* what is too large becomes the largest: refused all the same */
    *at = end;
    return true;
}

/* "L3H7,L4": a head, and all heads of a layer. */
static bool choose_heads(Ablation *ablation, const char *list, Error *error) {
    const Config *config = ablation->config;
    for (const char *at = list;; at++) {
        unsigned long long layer = 0, head = 0;
        bool ok = read_numbered(&at, 'L', &layer), one = ok && read_numbered(&at, 'H', &head);
        if (!ok || (*at && *at != ','))
            return error_set(
                error, "--heads: '%s' is no list of heads such as L3H7,L4 (L4: all heads of layer 4)", list);
        if (layer >= config->n_layer)
            return error_set(error, "--heads: layer %llu does not exist: there are %zu, from 0 on", layer,
                             config->n_layer);
        if (head >= config->n_head)
            return error_set(error, "--heads: head %llu does not exist: a layer has %zu, from 0 on", head,
                             config->n_head);
        for (size_t h = 0; h < config->n_head; h++)
            if (!one || h == head) choose(ablation, layer, h);
        if (!*at) return true;
    }
}

static bool choose_mlps(Ablation *ablation, const char *list, Error *error) {
    size_t n_layer = ablation->config->n_layer;
    bool *layers = calloc(n_layer, sizeof *layers);
    if (!layers) return error_set(error, "not enough memory");
    Error cause;
    bool ok =
        parse_list(list, "layer", n_layer, layers, &cause) || error_set(error, "--mlps: %s", cause.message);
    for (size_t layer = 0; ok && layer < n_layer; layer++)
        if (layers[layer]) choose(ablation, layer, ablation->config->n_head);
    free(layers);
    return ok;
}

static bool read_options(Ablation *ablation, Error *error) {
    const StudyOptions *options = ablation->study->options;
    size_t by, sweep;
    if (!parse_choice("--by", options->by, by_names, 3, &by, error) ||
        !parse_choice("--sweep", options->sweep, sweep_names + 1, 2, &sweep, error))
        return false;
    sweep = options->sweep ? sweep + 1 : SWEEP_NONE;
    ablation->by = (By)by;
    ablation->sweep = (Sweep)sweep;
    if (ablation->study->tokens.n < 2)
        return error_set(error,
                         "ablate scores each token after the first: give a text of two tokens or more");
    if (!options->heads && !options->mlps && !sweep)
        return error_set(error, "say what to switch off: --heads L0H1, --mlps 0, or --sweep heads|mlps");
    if ((options->heads || options->mlps) && sweep)
        return error_set(error, "--sweep takes all %s in turn: give it without --heads and --mlps",
                         sweep_names[sweep]);
    if (options->hard_zero && by != BY_ZERO)
        return error_set(error, "--hard-zero says what zero is: it does not go with --by %s", by_names[by]);
    if (options->with && by == BY_ZERO)
        return error_set(error,
                         "--with is the reference text of --by mean or --by resample; give one of these");
    if (!options->with && by == BY_RESAMPLE)
        return error_set(error, "--by resample takes its values from another text: give it by --with FILE");
    const Config *config = ablation->config;
    for (size_t layer = 0; layer < config->n_layer; layer++) {
        for (size_t head = 0; sweep == SWEEP_HEADS && head < config->n_head; head++)
            choose(ablation, layer, head);
        if (sweep == SWEEP_MLPS) choose(ablation, layer, config->n_head);
    }
    return (!options->heads || choose_heads(ablation, options->heads, error)) &&
           (!options->mlps || choose_mlps(ablation, options->mlps, error));
}

static bool read_reference(Ablation *ablation, Error *error) {
    const Study *study = ablation->study;
    const char *path = study->options->with;
    size_t n = study->tokens.n, limit = study_n_ctx(study);
    TextBuffer text = {0};
    bool bos, ok = read_text(path, &text, error);
    if (ok && text.n == 0) ok = error_set(error, "--with %s: the file is empty", path);
    ok = ok && study_encode(study, text.data, text.n, &ablation->reference, &bos, error);
    free(text.data);
    if (!ok) return false;
    if (ablation->by == BY_RESAMPLE && ablation->reference.n != n)
        return error_set(error, "--with %s: %zu tokens, but the text has %zu; --by resample needs as many",
                         path, ablation->reference.n, n);
    return ablation->reference.n <= limit ||
           error_set(error, "--with %s: %zu tokens, more than the context of %zu", path,
                     ablation->reference.n, limit);
}

static bool touches_heads(const Ablation *ablation, size_t layer) {
    const bool *off = layer_parts(ablation, layer);
    for (size_t head = 0; head < ablation->config->n_head; head++)
        if (off[head]) return true;
    return false;
}

static bool touches_mlp(const Ablation *ablation, size_t layer) {
    return layer_parts(ablation, layer)[ablation->config->n_head];
}

/* Whether a run with parts off begins here: at every layer of a sweep, else at the lowest that is touched. */
static bool begins_at(const Ablation *ablation, size_t layer) {
    for (size_t below = 0; !ablation->sweep && below < layer; below++)
        if (touches_heads(ablation, below) || touches_mlp(ablation, below)) return false;
    return touches_heads(ablation, layer) || touches_mlp(ablation, layer);
}

static bool check_size(const Ablation *ablation, Error *error) {
    const Config *config = ablation->config;
    size_t floats = 2 * config->d_model; /* of one token */
    for (size_t layer = 0; layer < config->n_layer; layer++) {
        if (begins_at(ablation, layer)) floats += config->d_model;
        if (ablation->by != BY_RESAMPLE) continue;
        if (touches_heads(ablation, layer)) floats += config->n_head * config->d_head;
        if (touches_mlp(ablation, layer)) floats += config->d_model;
    }
    size_t n = ablation->study->tokens.n, limit = ((size_t)MAX_HELD_MIB << 20) / sizeof(float) / floats;
    return n <= limit ||
           error_set(error,
                     "this would hold more than %d MiB of the text's vectors: shorten it from %zu "
                     "tokens to %zu",
                     MAX_HELD_MIB, n, limit);
}

/* Zero's row is final; the others' are filled by the run over the reference text. */
static bool substitute_new(Substitute *substitute, const Ablation *ablation, size_t width, Error *error) {
    size_t n_rows = ablation->by == BY_RESAMPLE ? ablation->study->tokens.n : 1;
    substitute->width = width;
    substitute->rows = floats_new(n_rows, width);
    substitute->sums = calloc(width, sizeof *substitute->sums);
    if (!substitute->rows || !substitute->sums) return error_set(error, "not enough memory for ablate");
    memset(substitute->rows, 0, n_rows * width * sizeof *substitute->rows);
    return true;
}

static void fill_with_value_bias(const Ablation *ablation, size_t layer) {
    const Config *config = ablation->config;
    const float *bias = model_weights(ablation->study->model)->layers[layer].attention.v.bias;
    if (!bias || ablation->by != BY_ZERO || ablation->study->options->hard_zero) return;
    for (size_t head = 0; head < config->n_head; head++)
        memcpy(ablation->layers[layer].z.rows + head * config->d_head,
               bias + kv_head_of(config, head) * config->d_head, config->d_head * sizeof *bias);
}

static bool allocate(Ablation *ablation, Error *error) {
    const Config *config = ablation->config;
    size_t n = ablation->study->tokens.n;
    ablation->layers = calloc(config->n_layer, sizeof *ablation->layers);
    ablation->n_cells = ablation->sweep ? ablation->n_chosen : 1;
    ablation->cells = calloc(ablation->n_cells, sizeof *ablation->cells);
    ablation->kl = calloc(ablation->n_cells, sizeof *ablation->kl);
    if (!ablation->layers || !ablation->cells || !ablation->kl)
        return error_set(error, "not enough memory for ablate");
    for (int i = 0; i < 2; i++) {
        ablation->final[i] = floats_new(n, config->d_model);
        ablation->logits[i] = floats_new(at_most(n, PIECE), config->n_vocab);
        if (!ablation->final[i] || !ablation->logits[i])
            return error_set(error, "not enough memory for ablate");
    }
    for (size_t i = 0; i < config->n_layer; i++) {
        Layer *layer = &ablation->layers[i];
        if (begins_at(ablation, i) && !(layer->resid_pre = floats_new(n, config->d_model)))
            return error_set(error, "not enough memory for the residual stream of %zu tokens", n);
        if (touches_mlp(ablation, i) && !substitute_new(&layer->mlp_out, ablation, config->d_model, error))
            return false;
        if (!touches_heads(ablation, i)) continue;
        if (!substitute_new(&layer->z, ablation, config->n_head * config->d_head, error)) return false;
        fill_with_value_bias(ablation, i);
    }
    return true;
}

static void ablation_free(Ablation *ablation) {
    session_free(ablation->session);
    for (size_t i = 0; ablation->layers && i < ablation->config->n_layer; i++) {
        Layer *layer = &ablation->layers[i];
        free(layer->resid_pre);
        free(layer->z.rows);
        free(layer->z.sums);
        free(layer->mlp_out.rows);
        free(layer->mlp_out.sums);
    }
    for (int i = 0; i < 2; i++) {
        free(ablation->final[i]);
        free(ablation->logits[i]);
    }
    free(ablation->layers);
    free(ablation->cells);
    free(ablation->kl);
    free(ablation->off);
    free(ablation->chosen);
    tokens_free(&ablation->reference);
}

static Substitute *substitute_at(const Ablation *ablation, ProbeSite site, size_t layer) {
    return site == PROBE_Z ? &ablation->layers[layer].z : &ablation->layers[layer].mlp_out;
}

/* The mean's text, unless --with gives another, is the text itself: its values come with the baseline. */
static bool gathers(const Ablation *ablation) {
    return ablation->by != BY_ZERO && ablation->run == (ablation->reference.n ? RUN_REFERENCE : RUN_BASELINE);
}

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const Ablation *ablation = user;
    switch (site) {
    case PROBE_RESID_PRE: return ablation->run == RUN_BASELINE && ablation->layers[layer].resid_pre;
    case PROBE_RESID_POST: return ablation->run != RUN_REFERENCE && layer == ablation->config->n_layer - 1;
    case PROBE_Z:
    case PROBE_MLP_OUT:
        if (ablation->run == RUN_ABLATED)
            return layer_parts(ablation, layer)[site == PROBE_Z ? head : ablation->config->n_head];
        return gathers(ablation) && substitute_at(ablation, site, layer)->rows;
    default: return false;
    }
}

/* A head's numbers, or the MLP's, into its columns of the substitute. */
static void gather(const Ablation *ablation, Substitute *substitute, const ProbeView *view) {
    size_t column = view->head * view->n_cols;
    for (size_t i = 0; i < view->n_rows; i++) {
        const float *row = view->data + i * view->stride;
        if (ablation->by == BY_RESAMPLE)
            memcpy(substitute->rows + (view->position + i) * substitute->width + column, row,
                   view->n_cols * sizeof *row);
        else
            for (size_t j = 0; j < view->n_cols; j++) substitute->sums[column + j] += (double)row[j];
    }
}

static void visit(void *user, const ProbeView *view) {
    const Ablation *ablation = user;
    if (view->site == PROBE_RESID_PRE || view->site == PROBE_RESID_POST) {
        float *kept = view->site == PROBE_RESID_PRE ? ablation->layers[view->layer].resid_pre
                                                    : ablation->final[ablation->run == RUN_ABLATED];
        memcpy(kept + view->position * view->n_cols, view->data, view->n_rows * view->n_cols * sizeof *kept);
        return;
    }
    Substitute *substitute = substitute_at(ablation, view->site, view->layer);
    if (ablation->run != RUN_ABLATED) {
        gather(ablation, substitute, view);
        return;
    }
    for (size_t i = 0; i < view->n_rows; i++) {
        size_t row = ablation->by == BY_RESAMPLE ? view->position + i : 0;
        memcpy(view->data + i * view->stride,
               substitute->rows + row * substitute->width + view->head * view->n_cols,
               view->n_cols * sizeof *view->data);
    }
}

static void finish_mean(const Ablation *ablation, Substitute *substitute) {
    size_t n = ablation->reference.n ? ablation->reference.n : ablation->study->tokens.n;
    for (size_t i = 0; substitute->rows && i < substitute->width; i++)
        substitute->rows[i] = (float)(substitute->sums[i] / (double)n);
}

static bool run_baseline(Ablation *ablation, Error *error) {
    const Tokens *reference = &ablation->reference, *tokens = &ablation->study->tokens;
    ablation->run = RUN_REFERENCE;
    if (reference->n &&
        !study_feed(ablation->study, ablation->session, reference->ids, reference->n, NULL, NULL, error))
        return false;
    session_rewind(ablation->session, 0);
    ablation->run = RUN_BASELINE;
    if (!study_feed(ablation->study, ablation->session, tokens->ids, tokens->n, NULL, NULL, error))
        return false;
    ablation->run = RUN_ABLATED;
    for (size_t layer = 0; ablation->by == BY_MEAN && layer < ablation->config->n_layer; layer++) {
        finish_mean(ablation, &ablation->layers[layer].z);
        finish_mean(ablation, &ablation->layers[layer].mlp_out);
    }
    return true;
}

/* The text once more from a layer up, with what is off off, and how that differs from the baseline. */
static bool run_ablated(Ablation *ablation, size_t layer, Difference *difference, Error *error) {
    const Config *config = ablation->config;
    const Tokens *tokens = &ablation->study->tokens;
    Session *session = ablation->session;
    session_rewind(session, 0);
    for (size_t done = 0, m; done < tokens->n; done += m) {
        m = at_most(tokens->n - done, SESSION_CHUNK);
        const float *resid = ablation->layers[layer].resid_pre + done * config->d_model;
        if (interrupted()) return error_set(error, "interrupted");
        if (!session_resume(session, layer, resid, m, NULL, 0, error)) return false;
    }
    for (size_t done = 0, m; done < tokens->n; done += m) {
        m = at_most(tokens->n - done, PIECE);
        for (int i = 0; i < 2; i++)
            session_unembed(session, ablation->final[i] + done * config->d_model, m, ablation->logits[i]);
        difference_add(difference, ablation->study->threads, ablation->logits[0], ablation->logits[1], m,
                       config->n_vocab, tokens->ids + done + 1, done + m < tokens->n ? m : m - 1);
    }
    if (isfinite(difference->kl) && isfinite(difference->nll_a) && isfinite(difference->nll_b)) return true;
    return error_set(error,
                     "%s: the logits are not finite; the weights hold NaN or infinity, or overflow the "
                     "F16 cache (try --kv f32)",
                     ablation->study->options->model);
}

static bool run_cells(Ablation *ablation, Error *error) {
    size_t first = 0;
    if (!ablation->sweep) {
        while (!ablation->layers[first].resid_pre) first++;
        return run_ablated(ablation, first, ablation->cells, error);
    }
    bool ok = true;
    for (size_t i = 0; i < ablation->n_chosen; i++) ablation->off[ablation->chosen[i]] = false;
    for (size_t i = 0; ok && i < ablation->n_cells; i++) {
        size_t place = ablation->chosen[i];
        show_progress(sweep_names[ablation->sweep], i, ablation->n_cells);
        ablation->off[place] = true;
        ok = run_ablated(ablation, part_layer(ablation, place), &ablation->cells[i], error);
        ablation->off[place] = false;
        ablation->kl[i] = difference_kl(&ablation->cells[i]);
    }
    show_progress(sweep_names[ablation->sweep], 1, 1);
    return ok;
}

static double delta_nll(const Difference *difference) {
    return difference_nll_b(difference) - difference_nll_a(difference);
}

/* "L3H7", "L1MLP". */
static const char *part_name(char buffer[32], const Ablation *ablation, size_t place) {
    size_t layer = part_layer(ablation, place), head = part_head(ablation, place);
    if (head < ablation->config->n_head) return head_name(buffer, layer, head);
    snprintf(buffer, 32, "L%zuMLP", layer);
    return buffer;
}

static void json_difference(Report *report, const Difference *difference) {
    json_real(report, "delta_nll_nats", delta_nll(difference));
    json_real(report, "kl_nats", difference_kl(difference));
    json_real(report, "top1_changed", difference_top1_changed(difference));
}

static void print_json(Report *report, const Ablation *ablation) {
    char name[32];
    json_text(report, "by", by_names[ablation->by], SIZE_MAX);
    json_bool(report, "hard_zero", ablation->study->options->hard_zero);
    json_object(report, "baseline");
    json_int(report, "n", (int64_t)ablation->cells->n_scored);
    json_real(report, "nll_nats", difference_nll_a(ablation->cells));
    json_end_object(report);
    if (!ablation->sweep) {
        json_array(report, "ablated");
        for (size_t i = 0; i < ablation->n_chosen; i++)
            json_text(report, NULL, part_name(name, ablation, ablation->chosen[i]), SIZE_MAX);
        json_end_array(report);
        json_object(report, "ablation");
        json_real(report, "nll_nats", difference_nll_b(ablation->cells));
        json_difference(report, ablation->cells);
        json_end_object(report);
        return;
    }
    json_text(report, "sweep", sweep_names[ablation->sweep], SIZE_MAX);
    json_array(report, "cells");
    for (size_t i = 0; i < ablation->n_cells; i++) {
        json_object(report, NULL);
        json_int(report, "layer", (int64_t)part_layer(ablation, ablation->chosen[i]));
        if (ablation->sweep == SWEEP_HEADS)
            json_int(report, "head", (int64_t)part_head(ablation, ablation->chosen[i]));
        json_difference(report, &ablation->cells[i]);
        json_end_object(report);
    }
    json_end_array(report);
}

static void print_how(Report *report, const Ablation *ablation) {
    const StudyOptions *options = ablation->study->options;
    bool has_head = part_head(ablation, *ablation->chosen) < ablation->config->n_head;
    switch (ablation->by) {
    case BY_ZERO:
        printf("set to zero%s\n", !has_head            ? ""
                                  : options->hard_zero ? ", value bias and all"
                                                       : " (a head: to its value bias, if it has one)");
        break;
    case BY_MEAN:
        printf("set to the mean over %s (%zu tokens)\n", options->with ? options->with : "this text",
               options->with ? ablation->reference.n : ablation->study->tokens.n);
        break;
    case BY_RESAMPLE: printf("set to the values on %s\n", options->with); break;
    }
    print_styled(report, STYLE_DIM,
                 "change: nll without it minus nll with it, bits a token; above 0: it helped\n"
                 "KL: bits by which the prediction moved; top-1: where the likeliest token is\n"
                 "another; both over all positions\n");
}

static void print_one(Report *report, const Ablation *ablation) {
    const Difference *difference = ablation->cells;
    char name[32];
    size_t column = 0;
    for (size_t i = 0; i < ablation->n_chosen; i++) {
        part_name(name, ablation, ablation->chosen[i]);
        if (column && column + strlen(name) > report->width) putchar('\n'), column = 0;
        column += (size_t)printf("%s ", name);
    }
    if (column + 60 > report->width) putchar('\n'); /* what print_how adds */
    print_how(report, ablation);
    putchar('\n');
    difference_print(report, difference, "baseline", "ablated", "change");
    printf("%-14s %31.1f%%  %zu of %zu positions\n", "top-1 changed",
           100 * difference_top1_changed(difference), difference->top1_changed, difference->n);
}

static void print_cell(Report *report, const Ablation *ablation, size_t cell, double most) {
    const Difference *difference = &ablation->cells[cell];
    char name[32];
    printf("%-8s %+9.4f %9.4f %7.1f%%", part_name(name, ablation, ablation->chosen[cell]),
           delta_nll(difference) * BITS_PER_NAT, difference_kl(difference) * BITS_PER_NAT,
           100 * difference_top1_changed(difference));
    print_bar(report, difference_kl(difference) / most, 24);
    putchar('\n');
}

/* Layers down, heads across, as many as the window is wide at a time. */
static void print_map(Report *report, const Ablation *ablation, double most) {
    const Config *config = ablation->config;
    size_t n_head = config->n_head, room = (report->width - 7) / 2;
    for (size_t first = 0, n; first < n_head; first += n) {
        n = at_most(n_head - first, room);
        printf("\nhead   ");
        for (size_t head = first; head < first + n; head++) printf("%2zu", head % 100);
        putchar('\n');
        for (size_t layer = 0; layer < config->n_layer; layer++) {
            printf("L%-5zu ", layer);
            for (size_t head = first; head < first + n; head++)
                print_heat(report, ablation->kl[layer * n_head + head] / most);
            putchar('\n');
        }
    }
}

static void print_sweep(Report *report, const Ablation *ablation) {
    size_t strongest[STRONGEST],
        n_strongest = largest_of(ablation->kl, ablation->n_cells, STRONGEST, strongest);
    double most = ablation->kl[strongest[0]];
    bool heads = ablation->sweep == SWEEP_HEADS;
    printf("each %s in turn ", heads ? "head" : "MLP");
    print_how(report, ablation);
    printf("baseline: nll %.4f bits a token over %zu\n", difference_nll_a(ablation->cells) * BITS_PER_NAT,
           ablation->cells->n_scored);
    if (heads) {
        print_map(report, ablation, most);
        print_styled(report, STYLE_DIM, "shade: KL, from 0 to %.4f bits\n", most * BITS_PER_NAT);
    }
    print_styled(report, STYLE_BOLD, "\n%-8s %9s %9s %8s\n", heads ? "head" : "MLP", "change", "KL", "top-1");
    if (!heads)
        for (size_t i = 0; i < ablation->n_cells; i++) print_cell(report, ablation, i, most);
    for (size_t i = 0; heads && i < n_strongest; i++) print_cell(report, ablation, strongest[i], most);
}

bool view_ablate(Study *study, Error *error) {
    Ablation ablation = {.study = study, .config = model_config(study->model)};
    const Config *config = ablation.config;
    Report *report = &study->report;
    ablation.probe = (Probe){&ablation, wants, visit};
    ablation.off = calloc(config->n_layer, (config->n_head + 1) * sizeof *ablation.off);
    ablation.chosen = calloc(config->n_layer, (config->n_head + 1) * sizeof *ablation.chosen);
    bool ok = (ablation.off && ablation.chosen) || error_set(error, "not enough memory for ablate");
    ok = ok && read_options(&ablation, error) &&
         (!study->options->with || read_reference(&ablation, error)) && check_size(&ablation, error) &&
         allocate(&ablation, error);
    /* 0: the study's own length, checked against the context */
    size_t n_ctx = ablation.reference.n > study->tokens.n ? ablation.reference.n : 0;
    if (ok) ablation.session = study_session(study, n_ctx, &ablation.probe, error);
    ok = ok && ablation.session && run_baseline(&ablation, error) && run_cells(&ablation, error);
    if (ok) {
        report_open(report, study);
        if (report->json)
            print_json(report, &ablation);
        else if (ablation.sweep)
            print_sweep(report, &ablation);
        else
            print_one(report, &ablation);
        report_close(report);
    }
    ablation_free(&ablation);
    return ok;
}
