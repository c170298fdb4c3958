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

#include "gradients/attention_back.h"
#include "gradients/experts_back.h"
#include "gradients/linear_back.h"
#include "gradients/mlp_back.h"
#include "gradients/norm_back.h"
#include "gradients/states_back.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256, LOGIT_ROWS = 16 };

typedef struct Way {
    const Backward *task;
    const Config *config;
    const Weights *weights;
    Compute compute;
    AttentionTrace *attention;
    StatesTrace *states; /* of layers that keep one in attention's place; or NULL */
    MlpTrace mlp;
    ExpertsTrace experts;
    float *resid;             /* [n][d_model] the gradient of the residual stream, as far as it has come */
    const float *mid;         /* [n][d_model] the stream between attention and MLP: kept, or … */
    float *own_mid;           /* … made here */
    float *d_pre;             /* [n][d_model] the gradient that branches add below them */
    float *normed, *d_normed; /* [CHUNK][d_model] what a branch reads */
    float *branch;            /* [CHUNK][d_model] what a branch makes, before a norm or factor behind it */
    float *added;             /* [CHUNK][d_model] what it adds to the stream */
    float *d_branch;          /* [CHUNK][d_model] */
} Way;

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static size_t widest_mlp(const Way *way) {
    size_t widest = 1;
    for (size_t layer = 0; layer < way->config->n_layer; layer++) {
        const LayerWeights *w = &way->weights->layers[layer];
        if (!w->experts.n_expert) widest = larger(widest, w->mlp.up.w.rows);
        for (size_t e = 0; e < w->experts.n_expert; e++)
            widest = larger(widest, w->experts.experts[e].up.w.rows);
        if (w->experts.n_expert && w->experts.shared.up.w.data)
            widest = larger(widest, w->experts.shared.up.w.rows);
    }
    return widest;
}

static bool way_open(Way *way, const Backward *task, Error *error) {
    const Config *config = model_config(task->model);
    size_t n = task->n, d = config->d_model, chunk = smaller(n, CHUNK);
    *way = (Way){
        .task = task, .config = config, .weights = model_weights(task->model), .compute = task->compute};
    size_t d_ff = widest_mlp(way),
           widest =
               larger(larger(d, d_ff), larger(2 * config->n_head * config->d_head, config->state.d_inner));
    way->compute.n_packed = packed_floats(chunk, widest);
    way->compute.packed = floats_new(way->compute.n_packed, 1);
    float **const whole[] = {&way->resid, &way->own_mid, &way->d_pre};
    float **const parts[] = {&way->normed, &way->d_normed, &way->branch, &way->added, &way->d_branch};
    bool ok = way->compute.packed;
    for (size_t i = 0; ok && i < sizeof whole / sizeof *whole; i++)
        ok = (*whole[i] = floats_filled_new(n, d)) != NULL;
    for (size_t i = 0; ok && i < sizeof parts / sizeof *parts; i++)
        ok = (*parts[i] = floats_filled_new(chunk, d)) != NULL;
    ok = ok && mlp_trace_open(&way->mlp, chunk, d_ff) &&
         (!config->n_expert || experts_trace_open(&way->experts, &way->mlp, chunk, config->n_expert, d));
    if (!ok) return error_set(error, "not enough memory for the way back of %zu tokens", n);
    AttentionShape shape = model_attention_shape(task->model);
    way->attention = attention_trace_new(&shape, &way->compute, n, task->n_ctx, chunk, error);
    if (way->weights->n_states) way->states = states_trace_new(&config->state, &way->compute, n, error);
    return way->attention && (way->states || !way->weights->n_states);
}

static void way_close(Way *way) {
    attention_trace_free(way->attention);
    states_trace_free(way->states);
    mlp_trace_close(&way->mlp);
    experts_trace_close(&way->experts);
    float *const parts[] = {way->resid,  way->own_mid, way->d_pre,    way->normed,        way->d_normed,
                            way->branch, way->added,   way->d_branch, way->compute.packed};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
}

/* From ∂m/∂logits [n][n_vocab] to that of what the unembedding makes; `logits` are those of the forward pass. */
static void back_logits(const Way *way, size_t n, const float *logits, float *gradient) {
    const Config *config = way->config;
    for (size_t i = 0; config->logit_cap != 0 && i < n * config->n_vocab; i++) {
        float share = logits[i] / config->logit_cap;
        gradient[i] *= 1 - share * share;
    }
    if (config->logit_scale != 1)
        way->compute.kernels->scale(gradient, config->logit_scale, n * config->n_vocab);
}

static void make_logits(const Way *way, const float *resid, size_t n, float *logits) {
    const Config *config = way->config;
    const Kernels *kernels = way->compute.kernels;
    norm_forward(&way->compute, &way->weights->final_norm, resid, way->normed, n, config->d_model);
    linear_forward(&way->compute, &(LinearOutput){logits, &way->weights->unembedding}, 1, way->normed, n);
    if (config->logit_scale != 1) kernels->scale(logits, config->logit_scale, n * config->n_vocab);
    if (config->logit_cap != 0) kernels->soft_cap(logits, config->logit_cap, n * config->n_vocab);
}

static const float *stream_at(const Way *way, size_t layer) { return way->task->kept->layers[layer].pre; }

/* The gradient of what leaves the last layer. */
static bool back_unembed(Way *way, Error *error) {
    const Backward *task = way->task;
    const Config *config = way->config;
    const Matrix *unembedding = &way->weights->unembedding.w;
    size_t n_vocab = config->n_vocab, d = config->d_model;
    float *logits = floats_new(LOGIT_ROWS, n_vocab), *gradient = floats_new(LOGIT_ROWS, n_vocab);
    bool ok =
        (logits && gradient) || error_set(error, "not enough memory for the logits of %d tokens", LOGIT_ROWS);
    memset(way->resid, 0, task->n * d * sizeof *way->resid);
    for (size_t t = task->first_logits, m; ok && t < task->n; t += m) {
        m = smaller(LOGIT_ROWS, task->n - t);
        const float *resid = stream_at(way, config->n_layer) + t * d;
        if (task->logits)
            memcpy(logits, task->logits + (t - task->first_logits) * n_vocab, m * n_vocab * sizeof *logits);
        else
            make_logits(way, resid, m, logits);
        memcpy(gradient, logits, m * n_vocab * sizeof *logits);
        ok = task->logits_gradient(task->user, t, m, gradient, error);
        if (!ok) break;
        gradient_rows(task->probe, PROBE_LOGITS, config->n_layer, t, logits, gradient, m, n_vocab);
        back_logits(way, m, logits, gradient);
        memset(way->d_normed, 0, m * d * sizeof *way->d_normed);
        linear_back(&way->compute, unembedding, 0, n_vocab, gradient, n_vocab, m, way->d_normed);
        norm_back(&way->compute, &way->weights->final_norm, resid, way->d_normed, way->resid + t * d, m, d);
    }
    free(logits);
    free(gradient);
    return ok;
}

/* The input of a branch: the normed rows, or the rows themselves where there is no norm. */
static const float *read_rows(const Way *way, const Norm *norm, const float *rows, size_t n) {
    if (!norm->gain) return rows;
    norm_forward(&way->compute, norm, rows, way->normed, n, norm->n);
    return way->normed;
}

/* to += what comes back through the norm (or none) by which a branch reads the rows. */
static void back_read(const Way *way, const Norm *norm, const float *rows, const float *d_read, float *to,
                      size_t n) {
    if (norm->gain)
        norm_back(&way->compute, norm, rows, d_read, to, n, norm->n);
    else
        way->compute.kernels->add(to, d_read, n * way->config->d_model);
}

/* Makes way->added, which the branch adds to the stream, of way->branch: by the norm and factor behind it. */
static void finish_branch(const Way *way, const Norm *norm, size_t n) {
    size_t d = way->config->d_model;
    if (norm->gain)
        norm_forward(&way->compute, norm, way->branch, way->added, n, d);
    else
        memcpy(way->added, way->branch, n * d * sizeof *way->added);
    if (way->config->residual_scale != 1)
        way->compute.kernels->scale(way->added, way->config->residual_scale, n * d);
}

/* From the gradient of what a branch adds to that of what it makes, in way->d_branch. */
static void back_finish(const Way *way, const Norm *norm, const float *d_added, size_t n) {
    size_t d = way->config->d_model;
    float *scaled = way->added; /* free by now */
    memcpy(scaled, d_added, n * d * sizeof *scaled);
    if (way->config->residual_scale != 1)
        way->compute.kernels->scale(scaled, way->config->residual_scale, n * d);
    if (!norm->gain) {
        memcpy(way->d_branch, scaled, n * d * sizeof *scaled);
        return;
    }
    memset(way->d_branch, 0, n * d * sizeof *way->d_branch);
    norm_back(&way->compute, norm, way->branch, scaled, way->d_branch, n, d);
}

/* The norm before a layer's MLP, and whether the MLP reads what attention reads. */
static const Norm *mlp_norm(const Way *way, const LayerWeights *w) {
    return way->config->parallel_residual && !w->mlp_norm.gain ? &w->attn_norm : &w->mlp_norm;
}

static bool keeps_state(const LayerWeights *w) { return w->state.mixer != MIXER_ATTENTION; }

/* Makes the attention of a layer again as far as it is not kept, or what stands in its place. */
static void trace_attention(Way *way, const LayerWeights *w, size_t layer) {
    size_t n = way->task->n, d = way->config->d_model;
    const float *pre = stream_at(way, layer);
    const KeptLayer *kept = &way->task->kept->layers[layer];
    const bool is_kept = kept->at[KEPT_Q];
    attention_trace_begin(way->attention, &w->attention, layer, is_kept ? kept : NULL);
    if (keeps_state(w)) states_trace_begin(way->states, &w->state);
    for (size_t t = 0, m; t < n && !is_kept; t += m) {
        m = smaller(CHUNK, n - t);
        const float *x = read_rows(way, &w->attn_norm, pre + t * d, m);
        if (keeps_state(w))
            states_trace_rows(way->states, t, m, x);
        else
            attention_trace_rows(way->attention, t, m, x);
    }
    if (keeps_state(w))
        states_trace_mix(way->states);
    else
        attention_trace_attend(way->attention);
}

/* Makes way->added for rows [t, t + m) of attention. */
static void make_attention(const Way *way, const LayerWeights *w, size_t t, size_t m) {
    if (keeps_state(w))
        states_trace_out(way->states, t, m, way->branch);
    else
        attention_trace_out(way->attention, t, m, way->branch);
    finish_branch(way, &w->attn_post_norm, m);
}

/* Finds the stream between attention and MLP: that which enters a parallel layer, or was kept, or is made again. */
static void find_mid(Way *way, const LayerWeights *w, size_t layer) {
    size_t n = way->task->n, d = way->config->d_model;
    const float *kept = way->task->kept->layers[layer].at[KEPT_MID];
    way->mid = way->config->parallel_residual ? stream_at(way, layer) : kept ? kept : way->own_mid;
    if (way->mid != way->own_mid) return;
    memcpy(way->own_mid, stream_at(way, layer), n * d * sizeof *way->own_mid);
    for (size_t t = 0, m; t < n; t += m) {
        m = smaller(CHUNK, n - t);
        make_attention(way, w, t, m);
        way->compute.kernels->add(way->own_mid + t * d, way->added, m * d);
    }
}

/* Makes the MLP of rows [t, t + m) again; its hidden numbers may have been kept. */
static void trace_mlp(Way *way, const LayerWeights *w, size_t layer, size_t t, size_t m) {
    const KeptLayer *kept = &way->task->kept->layers[layer];
    const float *pre = kept->at[KEPT_MLP_PRE], *linear = kept->at[KEPT_MLP_PRE_LINEAR];
    const size_t at = t * kept->width[KEPT_MLP_PRE];
    if (!pre)
        mlp_trace(&way->compute, way->config->mlp, &w->mlp, m,
                  read_rows(way, mlp_norm(way, w), way->mid + t * way->config->d_model, m), &way->mlp);
    else
        mlp_trace_kept(&way->compute, way->config->mlp, m, w->mlp.up.w.rows, (linear ? linear : pre) + at,
                       linear ? pre + at : NULL, &way->mlp);
}

/* Rows [t, t + m) back through the MLP: adds to the gradient of what it reads. */
static void back_mlp_rows(Way *way, const LayerWeights *w, size_t layer, size_t t, size_t m) {
    const Config *config = way->config;
    const Compute *compute = &way->compute;
    const GradientProbe *probe = way->task->probe;
    const size_t d = config->d_model, d_ff = w->mlp.up.w.rows;
    const Norm *norm = mlp_norm(way, w);
    float *d_out = way->resid + t * d, *to = way->d_pre + t * d;
    const float *x = w->experts.n_expert ? read_rows(way, norm, way->mid + t * d, m) : NULL;
    bool sees_out = gradient_wanted(probe, PROBE_MLP_OUT, layer, 0);
    MlpTrace *mlp = &way->mlp;
    if (w->experts.n_expert)
        experts_trace(compute, config->mlp, &w->experts, m, x, way->branch, &way->experts);
    else
        trace_mlp(way, w, layer, t, m);
    if (!w->experts.n_expert && (sees_out || w->mlp_post_norm.gain))
        linear_forward(compute, &(LinearOutput){way->branch, &w->mlp.down}, 1, mlp->post, m);
    if (sees_out) {
        finish_branch(way, &w->mlp_post_norm, m);
        memcpy(way->d_normed, d_out, m * d * sizeof *d_out); /* what is written is the branch's alone */
        gradient_rows(probe, PROBE_MLP_OUT, layer, t, way->added, way->d_normed, m, d);
        d_out = way->d_normed;
    }
    back_finish(way, &w->mlp_post_norm, d_out, m);
    memset(way->d_normed, 0, m * d * sizeof *way->d_normed);
    if (w->experts.n_expert) {
        experts_back(compute, config->mlp, &w->experts, layer, t, m, x, way->d_branch, way->d_normed,
                     &way->experts, probe);
    } else {
        bool gated = mlp_has_gate(config->mlp);
        mlp_back_down(compute, &w->mlp, m, way->d_branch, mlp);
        gradient_rows(probe, PROBE_MLP_POST, layer, t, mlp->post, mlp->d_post, m, d_ff);
        mlp_back_activation(compute, config->mlp, m, d_ff, mlp);
        if (gated) gradient_rows(probe, PROBE_MLP_PRE_LINEAR, layer, t, mlp->hidden, mlp->d_hidden, m, d_ff);
        gradient_rows(probe, PROBE_MLP_PRE, layer, t, gated ? mlp->gate : mlp->hidden,
                      gated ? mlp->d_gate : mlp->d_hidden, m, d_ff);
        mlp_back_up(compute, config->mlp, &w->mlp, m, mlp, way->d_normed);
    }
    float *d_in = way->d_branch; /* free by now */
    memset(d_in, 0, m * d * sizeof *d_in);
    back_read(way, norm, way->mid + t * d, way->d_normed, d_in, m);
    gradient_rows(probe, PROBE_MLP_INPUT, layer, t, way->mid + t * d, d_in, m, d);
    compute->kernels->add(to, d_in, m * d);
}

/* Shows what comes back to rows [t, t + m) through each head's query, key, value and gate alone. */
static void show_head_inputs(Way *way, const LayerWeights *w, size_t layer, size_t t, size_t m) {
    static const ProbeSite inputs[] = {PROBE_V_INPUT, PROBE_K_INPUT, PROBE_Q_INPUT, PROBE_GATE_INPUT};
    const Config *config = way->config;
    const GradientProbe *probe = way->task->probe;
    const size_t d = config->d_model;
    const float *pre = stream_at(way, layer) + t * d;
    for (int i = 0; i < (config->family->gated_attention ? 4 : 3); i++)
        for (size_t head = 0; head < (i < 2 ? config->n_head_kv : config->n_head); head++) {
            if (!gradient_wanted(probe, inputs[i], layer, head)) continue;
            memset(way->d_normed, 0, m * d * sizeof *way->d_normed);
            memset(way->d_branch, 0, m * d * sizeof *way->d_branch);
            attention_back_head(way->attention, inputs[i], head, t, m, way->d_normed);
            back_read(way, &w->attn_norm, pre, way->d_normed, way->d_branch, m);
            probe->visit(probe->user, &(Activation){inputs[i], layer, head, t, m, d, d, (float *)pre},
                         way->d_branch);
        }
}

/* The gradient of each head's result is that of their sum. */
static void show_results(const Way *way, size_t layer, size_t t, size_t m) {
    const GradientProbe *probe = way->task->probe;
    const size_t d = way->config->d_model;
    for (size_t head = 0; head < way->config->n_head; head++) {
        if (!gradient_wanted(probe, PROBE_RESULT, layer, head)) continue;
        memcpy(way->added, way->d_branch, m * d * sizeof *way->added);
        probe->visit(probe->user, &(Activation){PROBE_RESULT, layer, head, t, m, d, d, NULL}, way->added);
    }
}

/* Back through attention: adds to way->d_pre. `d_out` is the gradient of what it adds. */
static void back_attention(Way *way, const LayerWeights *w, size_t layer, const float *d_out) {
    const GradientProbe *probe = way->task->probe;
    const size_t n = way->task->n, d = way->config->d_model;
    const float *pre = stream_at(way, layer);
    bool sees_out = gradient_wanted(probe, PROBE_ATTN_OUT, layer, 0);
    for (size_t t = 0, m; t < n; t += m) {
        m = smaller(CHUNK, n - t);
        if (sees_out || w->attn_post_norm.gain) make_attention(way, w, t, m);
        memcpy(way->d_normed, d_out + t * d, m * d * sizeof *d_out);
        gradient_rows(probe, PROBE_ATTN_OUT, layer, t, way->added, way->d_normed, m, d);
        back_finish(way, &w->attn_post_norm, way->d_normed, m);
        if (keeps_state(w)) {
            states_back_out(way->states, t, m, way->d_branch);
            continue;
        }
        show_results(way, layer, t, m);
        attention_back_out(way->attention, t, m, way->d_branch);
    }
    if (keeps_state(w))
        states_back_mix(way->states);
    else
        attention_back_attend(way->attention, probe);
    for (size_t t = 0, m; t < n; t += m) {
        m = smaller(CHUNK, n - t);
        if (!keeps_state(w)) show_head_inputs(way, w, layer, t, m);
        memset(way->d_normed, 0, m * d * sizeof *way->d_normed);
        if (keeps_state(w))
            states_back_rows(way->states, t, m, way->d_normed);
        else
            attention_back_rows(way->attention, t, m, way->d_normed);
        float *d_in = way->d_branch; /* free by now */
        memset(d_in, 0, m * d * sizeof *d_in);
        back_read(way, &w->attn_norm, pre + t * d, way->d_normed, d_in, m);
        if (keeps_state(w)) gradient_rows(probe, PROBE_STATE_INPUT, layer, t, pre + t * d, d_in, m, d);
        way->compute.kernels->add(way->d_pre + t * d, d_in, m * d);
    }
}

static void back_layer(Way *way, size_t layer) {
    const LayerWeights *w = &way->weights->layers[layer];
    const GradientProbe *probe = way->task->probe;
    const size_t n = way->task->n, d = way->config->d_model, count = n * d;
    const bool parallel = way->config->parallel_residual;
    gradient_rows(probe, PROBE_RESID_POST, layer, 0, stream_at(way, layer + 1), way->resid, n, d);
    trace_attention(way, w, layer);
    find_mid(way, w, layer);
    memset(way->d_pre, 0, count * sizeof *way->d_pre);
    for (size_t t = 0; t < n; t += CHUNK) back_mlp_rows(way, w, layer, t, smaller(CHUNK, n - t));
    if (parallel) {
        back_attention(way, w, layer, way->resid);
        way->compute.kernels->add(way->resid, way->d_pre, count);
    } else {
        way->compute.kernels->add(way->resid, way->d_pre, count);
        gradient_rows(probe, PROBE_RESID_MID, layer, 0, way->mid, way->resid, n, d);
        memset(way->d_pre, 0, count * sizeof *way->d_pre);
        back_attention(way, w, layer, way->resid);
        way->compute.kernels->add(way->resid, way->d_pre, count);
    }
    gradient_rows(probe, PROBE_RESID_PRE, layer, 0, stream_at(way, layer), way->resid, n, d);
}

static void unpack_row(const Way *way, float *to, const Matrix *matrix, size_t row) {
    const unsigned char *rows = matrix->data;
    way->compute.kernels->unpack(to, matrix->dtype, rows + row * dtype_bytes(matrix->dtype, matrix->cols),
                                 matrix->cols);
}

/* Rows [t, t + m) of the positions' embeddings, in way->added. */
static void make_positions(const Way *way, size_t t, size_t m) {
    const Matrix *positions = &way->weights->positions;
    for (size_t i = 0; i < m; i++)
        unpack_row(way, way->added + i * way->config->d_model, positions,
                   way->config->position_offset + t + i);
}

/* The stream that enters the first layer is the tokens' embeddings (scaled, or normed) and those of the positions. */
static void back_embed(Way *way) {
    const Backward *task = way->task;
    const bool has_positions = way->weights->positions.data;
    const size_t d = way->config->d_model;
    bool sees_positions = has_positions && gradient_wanted(task->probe, PROBE_POS_EMBED, 0, 0);
    if (!sees_positions && !gradient_wanted(task->probe, PROBE_EMBED, 0, 0)) return;
    for (size_t t = 0, m; t < task->n; t += m) {
        m = smaller(CHUNK, task->n - t);
        float *gradient = way->resid + t * d;
        memcpy(way->branch, stream_at(way, 0) + t * d, m * d * sizeof *way->branch);
        if (has_positions) {
            make_positions(way, t, m);
            for (size_t i = 0; i < m * d; i++) way->branch[i] -= way->added[i];
        }
        if (sees_positions) gradient_rows(task->probe, PROBE_POS_EMBED, 0, t, way->added, gradient, m, d);
        gradient_rows(task->probe, PROBE_EMBED, 0, t, way->branch, gradient, m, d);
    }
}

/* The widths of a layer's sites that may be kept. Attention with gates, states and experts are made again. */
static void widths_of(const Config *config, const LayerWeights *w, size_t width[N_KEPT]) {
    for (size_t i = 0; i < N_KEPT; i++) width[i] = 0;
    if (!keeps_state(w) && !config->family->gated_attention) {
        width[KEPT_Q] = width[KEPT_Z] = config->n_head * config->d_head;
        width[KEPT_K] = width[KEPT_V] = config->n_head_kv * config->d_head;
    }
    if (!config->parallel_residual) width[KEPT_MID] = config->d_model;
    if (w->experts.n_expert) return;
    width[KEPT_MLP_PRE] = w->mlp.up.w.rows;
    if (mlp_has_gate(config->mlp)) width[KEPT_MLP_PRE_LINEAR] = w->mlp.up.w.rows;
}

bool backward_room(Kept *kept, const Model *model, size_t n, size_t most, Error *error) {
    const Config *config = model_config(model);
    size_t width[N_KEPT];
    bool ok = kept_begin(kept, n, config->n_layer, config->d_model, most / sizeof(float));
    for (size_t layer = config->n_layer; ok && layer-- > 0;) {
        widths_of(config, &model_weights(model)->layers[layer], width);
        ok = kept_add(kept, layer, width);
    }
    return ok || error_set(error, "not enough memory for the way back of %zu tokens", n);
}

bool backward_run(const Backward *backward, Error *error) {
    Way way = {0};
    bool ok = way_open(&way, backward, error) && back_unembed(&way, error);
    for (size_t layer = ok ? way.config->n_layer : 0; ok && layer-- > backward->lowest;) {
        if (backward->stop && backward->stop(backward->stop_user)) ok = error_set(error, "interrupted");
        if (ok) back_layer(&way, layer);
    }
    if (ok && backward->lowest == 0) back_embed(&way);
    way_close(&way);
    return ok;
}
