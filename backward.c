/*
 * Each layer of the way there is
 *
 *   mid  = pre + attention(norm(pre))       post = mid + mlp(norm(mid))
 *
 * and of the way back, with J(f) the derivative of a branch f, turned,
 *
 *   d mid = d post + J(mlp∘norm) d post     d pre = d mid + J(attention∘norm) d mid
 *
 * In a parallel layer both branches read pre, and post = pre + attention + mlp. What stands behind a branch (a norm, a
 * factor) is passed first. Attention needs all tokens at once; the rest goes CHUNK tokens at a time.
 */
#include "backward.h"

#include "base/floatenv.h"
#include "gradients/attention_back.h"
#include "gradients/attention_trace.h"
#include "gradients/experts_back.h"
#include "gradients/linear_back.h"
#include "gradients/mlp_back.h"
#include "gradients/norm_back.h"
#include "gradients/states_back.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256, LOGIT_ROWS = 16 };

typedef struct BackwardPass {
    const Backward *task;
    const Config *config;
    const Weights *weights;
    Compute compute;
    AttentionTrace *attention;
    StatesTrace *states; /* of layers that keep one in attention's place; or NULL */
    MlpTrace mlp;
    ExpertsTrace experts;
    float *resid;             /* [n][d_model] the gradient of the residual stream, as far as it has come */
    const float *mid;         /* [n][d_model] the stream between attention and MLP: saved, or … */
    float *own_mid;           /* … made here */
    float *d_pre;             /* [n][d_model] the gradient that branches add below them */
    float *normed, *d_normed; /* [CHUNK][d_model] what a branch reads */
    float *branch;            /* [CHUNK][d_model] what a branch makes, before a norm or factor behind it */
    float *added;             /* [CHUNK][d_model] what it adds to the stream */
    float *d_branch;          /* [CHUNK][d_model] */
} BackwardPass;

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static size_t widest_mlp(const BackwardPass *pass) {
    size_t widest = 1;
    for (size_t layer = 0; layer < pass->config->n_layer; layer++) {
        const LayerWeights *w = &pass->weights->layers[layer];
        if (!w->experts.n_expert) widest = larger(widest, w->mlp.up.w.rows);
        for (size_t e = 0; e < w->experts.n_expert; e++)
            widest = larger(widest, w->experts.experts[e].up.w.rows);
        if (w->experts.n_expert && w->experts.shared.up.w.data)
            widest = larger(widest, w->experts.shared.up.w.rows);
    }
    return widest;
}

static bool pass_open(BackwardPass *pass, const Backward *task, Error *error) {
    const Config *config = model_config(task->model);
    size_t n = task->n, d = config->d_model, chunk = smaller(n, CHUNK);
    *pass = (BackwardPass){
        .task = task, .config = config, .weights = model_weights(task->model), .compute = task->compute};
    size_t d_ff = widest_mlp(pass),
           widest =
               larger(larger(d, d_ff), larger(2 * config->n_head * config->d_head, config->state.d_inner));
    pass->compute.n_packed = packed_floats(chunk, widest);
    pass->compute.packed = floats_new(pass->compute.n_packed, 1);
    float **const whole[] = {&pass->resid, &pass->own_mid, &pass->d_pre};
    float **const parts[] = {&pass->normed, &pass->d_normed, &pass->branch, &pass->added, &pass->d_branch};
    bool ok = pass->compute.packed;
    for (size_t i = 0; ok && i < sizeof whole / sizeof *whole; i++)
        ok = (*whole[i] = floats_filled_new(n, d)) != NULL;
    for (size_t i = 0; ok && i < sizeof parts / sizeof *parts; i++)
        ok = (*parts[i] = floats_filled_new(chunk, d)) != NULL;
    ok = ok && mlp_trace_open(&pass->mlp, chunk, d_ff) &&
         (!config->n_expert || experts_trace_open(&pass->experts, &pass->mlp, chunk, config->n_expert, d));
    if (!ok) return error_set(error, "not enough memory for the way back of %zu tokens", n);
    AttentionShape shape = model_attention_shape(task->model);
    pass->attention = attention_trace_new(&shape, &pass->compute, n, task->n_ctx, chunk, error);
    if (pass->weights->n_states) pass->states = states_trace_new(&config->state, &pass->compute, n, error);
    return pass->attention && (pass->states || !pass->weights->n_states);
}

static void pass_close(BackwardPass *pass) {
    attention_trace_free(pass->attention);
    states_trace_free(pass->states);
    mlp_trace_close(&pass->mlp);
    experts_trace_close(&pass->experts);
    float *const parts[] = {pass->resid,  pass->own_mid, pass->d_pre,    pass->normed,        pass->d_normed,
                            pass->branch, pass->added,   pass->d_branch, pass->compute.packed};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
}

/* From ∂m/∂logits [n][n_vocab] to that of what the unembedding makes; `logits` are those of the forward pass. */
static void back_logits(const BackwardPass *pass, size_t n, const float *logits, float *gradient) {
    const Config *config = pass->config;
    for (size_t i = 0; config->logit_cap != 0 && i < n * config->n_vocab; i++) {
        float share = logits[i] / config->logit_cap;
        gradient[i] *= 1 - share * share;
    }
    if (config->logit_scale != 1)
        pass->compute.kernels->scale(gradient, config->logit_scale, n * config->n_vocab);
}

static void make_logits(const BackwardPass *pass, const float *resid, size_t n, float *logits) {
    const Config *config = pass->config;
    const Kernels *kernels = pass->compute.kernels;
    norm_forward(&pass->compute, &pass->weights->final_norm, resid, pass->normed, n, config->d_model);
    linear_forward(&pass->compute, &(LinearOutput){logits, &pass->weights->unembedding}, 1, pass->normed, n);
    if (config->logit_scale != 1) kernels->scale(logits, config->logit_scale, n * config->n_vocab);
    if (config->logit_cap != 0) kernels->soft_cap(logits, config->logit_cap, n * config->n_vocab);
}

static const float *stream_at(const BackwardPass *pass, size_t layer) {
    return pass->task->saved->layers[layer].pre;
}

/* The gradient of what leaves the last layer. */
static bool back_unembed(BackwardPass *pass, Error *error) {
    const Backward *task = pass->task;
    const Config *config = pass->config;
    const Matrix *unembedding = &pass->weights->unembedding.w;
    size_t n_vocab = config->n_vocab, d = config->d_model;
    float *logits = floats_new(LOGIT_ROWS, n_vocab), *gradient = floats_new(LOGIT_ROWS, n_vocab);
    bool ok =
        (logits && gradient) || error_set(error, "not enough memory for the logits of %d tokens", LOGIT_ROWS);
    memset(pass->resid, 0, task->n * d * sizeof *pass->resid);
    for (size_t t = task->first_logits, m; ok && t < task->n; t += m) {
        m = smaller(LOGIT_ROWS, task->n - t);
        const float *resid = stream_at(pass, config->n_layer) + t * d;
        if (task->logits)
            memcpy(logits, task->logits + (t - task->first_logits) * n_vocab, m * n_vocab * sizeof *logits);
        else
            make_logits(pass, resid, m, logits);
        memcpy(gradient, logits, m * n_vocab * sizeof *logits);
        ok = task->logits_gradient(task->user, t, m, gradient, error);
        if (!ok) break;
        gradient_rows(task->probe, PROBE_LOGITS, config->n_layer, t, logits, gradient, m, n_vocab);
        back_logits(pass, m, logits, gradient);
        memset(pass->d_normed, 0, m * d * sizeof *pass->d_normed);
        linear_back(&pass->compute, unembedding, 0, n_vocab, gradient, n_vocab, m, pass->d_normed);
        norm_back(&pass->compute, &pass->weights->final_norm, resid, pass->d_normed, pass->resid + t * d, m,
                  d);
    }
    free(logits);
    free(gradient);
    return ok;
}

/* The input of a branch: the normed rows, or the rows themselves where there is no norm. */
static const float *read_rows(const BackwardPass *pass, const Norm *norm, const float *rows, size_t n) {
    if (!norm->gain) return rows;
    norm_forward(&pass->compute, norm, rows, pass->normed, n, norm->n);
    return pass->normed;
}

/* to += what comes back through the norm (or none) by which a branch reads the rows. */
static void back_read(const BackwardPass *pass, const Norm *norm, const float *rows, const float *d_read,
                      float *to, size_t n) {
    if (norm->gain)
        norm_back(&pass->compute, norm, rows, d_read, to, n, norm->n);
    else
        pass->compute.kernels->add(to, d_read, n * pass->config->d_model);
}

/* Makes pass->added, which the branch adds to the stream, of pass->branch: by the norm and factor behind it. */
static void finish_branch(const BackwardPass *pass, const Norm *norm, size_t n) {
    size_t d = pass->config->d_model;
    if (norm->gain)
        norm_forward(&pass->compute, norm, pass->branch, pass->added, n, d);
    else
        memcpy(pass->added, pass->branch, n * d * sizeof *pass->added);
    if (pass->config->residual_scale != 1)
        pass->compute.kernels->scale(pass->added, pass->config->residual_scale, n * d);
}

/* From the gradient of what a branch adds to that of what it makes, in pass->d_branch. */
static void back_finish(const BackwardPass *pass, const Norm *norm, const float *d_added, size_t n) {
    size_t d = pass->config->d_model;
    float *scaled = pass->added; /* free by now */
    memcpy(scaled, d_added, n * d * sizeof *scaled);
    if (pass->config->residual_scale != 1)
        pass->compute.kernels->scale(scaled, pass->config->residual_scale, n * d);
    if (!norm->gain) {
        memcpy(pass->d_branch, scaled, n * d * sizeof *scaled);
        return;
    }
    memset(pass->d_branch, 0, n * d * sizeof *pass->d_branch);
    norm_back(&pass->compute, norm, pass->branch, scaled, pass->d_branch, n, d);
}

/* The norm before a layer's MLP, and whether the MLP reads what attention reads. */
static const Norm *mlp_norm(const BackwardPass *pass, const LayerWeights *w) {
    return pass->config->parallel_residual && !w->mlp_norm.gain ? &w->attn_norm : &w->mlp_norm;
}

static bool keeps_state(const LayerWeights *w) { return w->state.mixer != MIXER_ATTENTION; }

/* Makes the attention of a layer again as far as it is not saved, or what stands in its place. */
static void trace_attention(BackwardPass *pass, const LayerWeights *w, size_t layer) {
    size_t n = pass->task->n, d = pass->config->d_model;
    const float *pre = stream_at(pass, layer);
    const SavedLayer *saved = &pass->task->saved->layers[layer];
    const bool is_saved = saved->at[SAVED_Q];
    attention_trace_begin(pass->attention, &w->attention, layer, is_saved ? saved : NULL);
    if (keeps_state(w)) states_trace_begin(pass->states, &w->state);
    for (size_t t = 0, m; t < n && !is_saved; t += m) {
        m = smaller(CHUNK, n - t);
        const float *x = read_rows(pass, &w->attn_norm, pre + t * d, m);
        if (keeps_state(w))
            states_trace_rows(pass->states, t, m, x);
        else
            attention_trace_rows(pass->attention, t, m, x);
    }
    if (keeps_state(w))
        states_trace_mix(pass->states);
    else
        attention_trace_attend(pass->attention);
}

/* Makes pass->added for rows [t, t + m) of attention. */
static void make_attention(const BackwardPass *pass, const LayerWeights *w, size_t t, size_t m) {
    if (keeps_state(w))
        states_trace_out(pass->states, t, m, pass->branch);
    else
        attention_trace_out(pass->attention, t, m, pass->branch);
    finish_branch(pass, &w->attn_post_norm, m);
}

/* Finds the stream between attention and MLP: that which enters a parallel layer, or was saved, or is made again. */
static void find_mid(BackwardPass *pass, const LayerWeights *w, size_t layer) {
    size_t n = pass->task->n, d = pass->config->d_model;
    const float *saved = pass->task->saved->layers[layer].at[SAVED_MID];
    pass->mid = pass->config->parallel_residual ? stream_at(pass, layer) : saved ? saved : pass->own_mid;
    if (pass->mid != pass->own_mid) return;
    memcpy(pass->own_mid, stream_at(pass, layer), n * d * sizeof *pass->own_mid);
    for (size_t t = 0, m; t < n; t += m) {
        m = smaller(CHUNK, n - t);
        make_attention(pass, w, t, m);
        pass->compute.kernels->add(pass->own_mid + t * d, pass->added, m * d);
    }
}

/* Makes the MLP of rows [t, t + m) again; its hidden numbers may have been saved. */
static void trace_mlp(BackwardPass *pass, const LayerWeights *w, size_t layer, size_t t, size_t m) {
    const SavedLayer *saved = &pass->task->saved->layers[layer];
    const float *pre = saved->at[SAVED_MLP_PRE], *linear = saved->at[SAVED_MLP_PRE_LINEAR];
    const size_t at = t * saved->width[SAVED_MLP_PRE];
    if (!pre)
        mlp_trace(&pass->compute, pass->config->mlp, &w->mlp, m,
                  read_rows(pass, mlp_norm(pass, w), pass->mid + t * pass->config->d_model, m), &pass->mlp);
    else
        mlp_trace_saved(&pass->compute, pass->config->mlp, m, w->mlp.up.w.rows, (linear ? linear : pre) + at,
                        linear ? pre + at : NULL, &pass->mlp);
}

/* Rows [t, t + m) back through the MLP: adds to the gradient of what it reads. */
static void back_mlp_rows(BackwardPass *pass, const LayerWeights *w, size_t layer, size_t t, size_t m) {
    const Config *config = pass->config;
    const Compute *compute = &pass->compute;
    const GradientProbe *probe = pass->task->probe;
    const size_t d = config->d_model, d_ff = w->mlp.up.w.rows;
    const Norm *norm = mlp_norm(pass, w);
    float *d_out = pass->resid + t * d, *to = pass->d_pre + t * d;
    const float *x = w->experts.n_expert ? read_rows(pass, norm, pass->mid + t * d, m) : NULL;
    bool sees_out = gradient_wanted(probe, PROBE_MLP_OUT, layer, 0);
    MlpTrace *mlp = &pass->mlp;
    if (w->experts.n_expert)
        experts_trace(compute, config->mlp, &w->experts, m, x, pass->branch, &pass->experts);
    else
        trace_mlp(pass, w, layer, t, m);
    if (!w->experts.n_expert && (sees_out || w->mlp_post_norm.gain))
        linear_forward(compute, &(LinearOutput){pass->branch, &w->mlp.down}, 1, mlp->post, m);
    if (sees_out) {
        finish_branch(pass, &w->mlp_post_norm, m);
        memcpy(pass->d_normed, d_out, m * d * sizeof *d_out); /* what is written is the branch's alone */
        gradient_rows(probe, PROBE_MLP_OUT, layer, t, pass->added, pass->d_normed, m, d);
        d_out = pass->d_normed;
    }
    back_finish(pass, &w->mlp_post_norm, d_out, m);
    memset(pass->d_normed, 0, m * d * sizeof *pass->d_normed);
    if (w->experts.n_expert) {
        experts_back(compute, config->mlp, &w->experts, layer, t, m, x, pass->d_branch, pass->d_normed,
                     &pass->experts, probe);
    } else {
        bool gated = mlp_has_gate(config->mlp);
        mlp_back_down(compute, &w->mlp, m, pass->d_branch, mlp);
        gradient_rows(probe, PROBE_MLP_POST, layer, t, mlp->post, mlp->d_post, m, d_ff);
        mlp_back_activation(compute, config->mlp, m, d_ff, mlp);
        if (gated) gradient_rows(probe, PROBE_MLP_PRE_LINEAR, layer, t, mlp->hidden, mlp->d_hidden, m, d_ff);
        gradient_rows(probe, PROBE_MLP_PRE, layer, t, gated ? mlp->gate : mlp->hidden,
                      gated ? mlp->d_gate : mlp->d_hidden, m, d_ff);
        mlp_back_up(compute, config->mlp, &w->mlp, m, mlp, pass->d_normed);
    }
    float *d_in = pass->d_branch; /* free by now */
    memset(d_in, 0, m * d * sizeof *d_in);
    back_read(pass, norm, pass->mid + t * d, pass->d_normed, d_in, m);
    gradient_rows(probe, PROBE_MLP_INPUT, layer, t, pass->mid + t * d, d_in, m, d);
    compute->kernels->add(to, d_in, m * d);
}

/* Shows what comes back to rows [t, t + m) through each head's query, key, value and gate alone. */
static void show_head_inputs(BackwardPass *pass, const LayerWeights *w, size_t layer, size_t t, size_t m) {
    static const ProbeSite inputs[] = {PROBE_V_INPUT, PROBE_K_INPUT, PROBE_Q_INPUT, PROBE_GATE_INPUT};
    const Config *config = pass->config;
    const GradientProbe *probe = pass->task->probe;
    const size_t d = config->d_model;
    const float *pre = stream_at(pass, layer) + t * d;
    for (int i = 0; i < (config->family->gated_attention ? 4 : 3); i++)
        for (size_t head = 0; head < (i < 2 ? config->n_head_kv : config->n_head); head++) {
            if (!gradient_wanted(probe, inputs[i], layer, head)) continue;
            memset(pass->d_normed, 0, m * d * sizeof *pass->d_normed);
            memset(pass->d_branch, 0, m * d * sizeof *pass->d_branch);
            attention_back_head(pass->attention, inputs[i], head, t, m, pass->d_normed);
            back_read(pass, &w->attn_norm, pre, pass->d_normed, pass->d_branch, m);
            probe->visit(probe->user, &(Activation){inputs[i], layer, head, t, m, d, d, (float *)pre},
                         pass->d_branch);
        }
}

/* The gradient of each head's result is that of their sum. */
static void show_results(const BackwardPass *pass, size_t layer, size_t t, size_t m) {
    const GradientProbe *probe = pass->task->probe;
    const size_t d = pass->config->d_model;
    for (size_t head = 0; head < pass->config->n_head; head++) {
        if (!gradient_wanted(probe, PROBE_RESULT, layer, head)) continue;
        memcpy(pass->added, pass->d_branch, m * d * sizeof *pass->added);
        probe->visit(probe->user, &(Activation){PROBE_RESULT, layer, head, t, m, d, d, NULL}, pass->added);
    }
}

/* Back through attention: adds to pass->d_pre. `d_out` is the gradient of what it adds. */
static void back_attention(BackwardPass *pass, const LayerWeights *w, size_t layer, const float *d_out) {
    const GradientProbe *probe = pass->task->probe;
    const size_t n = pass->task->n, d = pass->config->d_model;
    const float *pre = stream_at(pass, layer);
    bool sees_out = gradient_wanted(probe, PROBE_ATTN_OUT, layer, 0);
    for (size_t t = 0, m; t < n; t += m) {
        m = smaller(CHUNK, n - t);
        if (sees_out || w->attn_post_norm.gain) make_attention(pass, w, t, m);
        memcpy(pass->d_normed, d_out + t * d, m * d * sizeof *d_out);
        gradient_rows(probe, PROBE_ATTN_OUT, layer, t, pass->added, pass->d_normed, m, d);
        back_finish(pass, &w->attn_post_norm, pass->d_normed, m);
        if (keeps_state(w)) {
            states_back_out(pass->states, t, m, pass->d_branch);
            continue;
        }
        show_results(pass, layer, t, m);
        attention_back_out(pass->attention, t, m, pass->d_branch);
    }
    if (keeps_state(w))
        states_back_mix(pass->states);
    else
        attention_back_attend(pass->attention, probe);
    for (size_t t = 0, m; t < n; t += m) {
        m = smaller(CHUNK, n - t);
        if (!keeps_state(w)) show_head_inputs(pass, w, layer, t, m);
        memset(pass->d_normed, 0, m * d * sizeof *pass->d_normed);
        if (keeps_state(w))
            states_back_rows(pass->states, t, m, pass->d_normed);
        else
            attention_back_rows(pass->attention, t, m, pass->d_normed);
        float *d_in = pass->d_branch; /* free by now */
        memset(d_in, 0, m * d * sizeof *d_in);
        back_read(pass, &w->attn_norm, pre + t * d, pass->d_normed, d_in, m);
        if (keeps_state(w)) gradient_rows(probe, PROBE_STATE_INPUT, layer, t, pre + t * d, d_in, m, d);
        pass->compute.kernels->add(pass->d_pre + t * d, d_in, m * d);
    }
}

static void back_layer(BackwardPass *pass, size_t layer) {
    const LayerWeights *w = &pass->weights->layers[layer];
    const GradientProbe *probe = pass->task->probe;
    const size_t n = pass->task->n, d = pass->config->d_model, count = n * d;
    const bool parallel = pass->config->parallel_residual;
    gradient_rows(probe, PROBE_RESID_POST, layer, 0, stream_at(pass, layer + 1), pass->resid, n, d);
    trace_attention(pass, w, layer);
    find_mid(pass, w, layer);
    memset(pass->d_pre, 0, count * sizeof *pass->d_pre);
    for (size_t t = 0; t < n; t += CHUNK) back_mlp_rows(pass, w, layer, t, smaller(CHUNK, n - t));
    if (parallel) {
        back_attention(pass, w, layer, pass->resid);
        pass->compute.kernels->add(pass->resid, pass->d_pre, count);
    } else {
        pass->compute.kernels->add(pass->resid, pass->d_pre, count);
        gradient_rows(probe, PROBE_RESID_MID, layer, 0, pass->mid, pass->resid, n, d);
        memset(pass->d_pre, 0, count * sizeof *pass->d_pre);
        back_attention(pass, w, layer, pass->resid);
        pass->compute.kernels->add(pass->resid, pass->d_pre, count);
    }
    gradient_rows(probe, PROBE_RESID_PRE, layer, 0, stream_at(pass, layer), pass->resid, n, d);
}

/* Rows [t, t + m) of the positions' embeddings, in pass->added. */
static void make_positions(const BackwardPass *pass, size_t t, size_t m) {
    const Matrix *positions = &pass->weights->positions;
    for (size_t i = 0; i < m; i++)
        matrix_row(pass->compute.kernels, positions, pass->config->position_offset + t + i,
                   pass->added + i * pass->config->d_model);
}

/* The stream that enters the first layer is the tokens' embeddings (scaled, or normed) and those of the positions. */
static void back_embed(BackwardPass *pass) {
    const Backward *task = pass->task;
    const bool has_positions = pass->weights->positions.data;
    const size_t d = pass->config->d_model;
    bool sees_positions = has_positions && gradient_wanted(task->probe, PROBE_POS_EMBED, 0, 0);
    if (!sees_positions && !gradient_wanted(task->probe, PROBE_EMBED, 0, 0)) return;
    for (size_t t = 0, m; t < task->n; t += m) {
        m = smaller(CHUNK, task->n - t);
        float *gradient = pass->resid + t * d;
        memcpy(pass->branch, stream_at(pass, 0) + t * d, m * d * sizeof *pass->branch);
        if (has_positions) {
            make_positions(pass, t, m);
            for (size_t i = 0; i < m * d; i++) pass->branch[i] -= pass->added[i];
        }
        if (sees_positions) gradient_rows(task->probe, PROBE_POS_EMBED, 0, t, pass->added, gradient, m, d);
        gradient_rows(task->probe, PROBE_EMBED, 0, t, pass->branch, gradient, m, d);
    }
}

/* The widths of a layer's sites that may be saved. Attention with gates, states and experts are made again. */
static void widths_of(const Config *config, const LayerWeights *w, size_t width[N_SAVED]) {
    for (size_t i = 0; i < N_SAVED; i++) width[i] = 0;
    if (!keeps_state(w) && !config->family->gated_attention) {
        width[SAVED_Q] = width[SAVED_Z] = config->n_head * config->d_head;
        width[SAVED_K] = width[SAVED_V] = config->n_head_kv * config->d_head;
    }
    if (!config->parallel_residual) width[SAVED_MID] = config->d_model;
    if (w->experts.n_expert) return;
    width[SAVED_MLP_PRE] = w->mlp.up.w.rows;
    if (mlp_has_gate(config->mlp)) width[SAVED_MLP_PRE_LINEAR] = w->mlp.up.w.rows;
}

bool backward_room(SavedActivations *saved, const Model *model, size_t n, size_t most, Error *error) {
    const Config *config = model_config(model);
    size_t width[N_SAVED];
    bool ok = saved_begin(saved, n, config->n_layer, config->d_model, most / sizeof(float));
    for (size_t layer = config->n_layer; ok && layer-- > 0;) {
        widths_of(config, &model_weights(model)->layers[layer], width);
        ok = saved_add(saved, layer, width);
    }
    return ok || error_set(error, "not enough memory for the way back of %zu tokens", n);
}

bool backward_run(const Backward *backward, Error *error) {
    fenv_t callers;
    BackwardPass pass = {0};
    default_floats(&callers);
    bool ok = pass_open(&pass, backward, error) && back_unembed(&pass, error);
    for (size_t layer = ok ? pass.config->n_layer : 0; ok && layer-- > backward->lowest;) {
        if (backward->stop && backward->stop(backward->stop_user)) ok = error_set(error, "interrupted");
        if (ok) back_layer(&pass, layer);
    }
    if (ok && backward->lowest == 0) back_embed(&pass);
    pass_close(&pass);
    fesetenv(&callers);
    return ok;
}
