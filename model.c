/*
 * The forward pass. Tokens become vectors, each layer adds to them twice, and the last vector becomes
 * logits:
 *
 *   resid = embedding[token] (+ position)             embedding: scaled, or normed, where the family does so
 *   for each layer:  resid += attention(norm(resid))   or a mixer with a state
 *                    resid += mlp(norm(resid))         or experts
 *   logits = unembedding · norm(resid)
 *
 * A chunk of n tokens takes the same way as a single token. In GPT-2 124M a token's residual stream has 768
 * numbers. In each of 12 layers, attention makes 12 queries, keys and values of 64 numbers from it; the weighted
 * values (12 × 64 again) return as 768. The MLP makes 3,072 hidden numbers, which also return as 768. At the end
 * the 768 become 50,257 logits.
 */
#include "model.h"

#include "attention.h"
#include "layers/experts.h"
#include "layers/kv_cache.h"
#include "layers/results.h"
#include "layers/states.h"
#include "mlp.h"
#include "open.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_SCRATCH_MIB = 256, /* a chunk shrinks to this: a small file may claim wide layers */
};

struct Model {
    Checkpoint *checkpoint;
    Config config;
    Weights weights;
};

struct Session {
    const Model *model;
    Attention *attention;
    States *states; /* of the layers that have one in attention's place, or NULL */
    Compute compute;
    const Probe *probe;
    bool whole;               /* the cache loses nothing, and no layer keeps a state */
    bool (*stop)(void *user); /* or NULL */
    void *stop_user;
    size_t n_ctx, n_chunk;
    size_t position; /* tokens fed so far */
    size_t known;    /* ≥ position: tokens whose keys and values the cache still has, if it is whole */
    int32_t *tokens; /* [n_ctx] those tokens */
    float *resid;    /* [n_chunk][d_model] the residual stream */
    size_t last;     /* row of it: of the token fed last */
    float *normed;   /* [n_chunk][d_model] */
    float *branch;   /* [n_chunk][d_model] what attention or MLP adds */
    float *hidden;   /* [n_chunk][d_ff of the widest MLP] */
    float *gate;     /* likewise, touched only where the MLP has a gate */
    float *experts;  /* [n_chunk][experts_floats], or NULL */
};

Model *model_open(const char *path, Error *error) { return model_open_with(path, NULL, NULL, error); }

Model *model_open_with(const char *path, Progress *progress, void *user, Error *error) {
    return model_of(checkpoint_open_with(path, progress, user, error), error);
}

Model *model_of(Checkpoint *checkpoint, Error *error) {
    Model *model = checkpoint ? calloc(1, sizeof *model) : NULL;
    if (!model) {
        if (checkpoint) checkpoint_error(checkpoint, error, "not enough memory");
        checkpoint_close(checkpoint);
        return NULL;
    }
    model->checkpoint = checkpoint;
    if (config_read(&model->config, checkpoint, error) &&
        weights_bind(&model->weights, &model->config, checkpoint, error))
        return model;
    model_close(model);
    return NULL;
}

void model_close(Model *model) {
    if (!model) return;
    weights_free(&model->weights);
    checkpoint_close(model->checkpoint);
    free(model);
}

const Config *model_config(const Model *model) { return &model->config; }
const Weights *model_weights(const Model *model) { return &model->weights; }
const Checkpoint *model_checkpoint(const Model *model) { return model->checkpoint; }

AttentionShape model_attention_shape(const Model *model) {
    const Config *config = &model->config;
    const Weights *weights = &model->weights;
    return (AttentionShape){
        .n_layer = config->n_layer,
        .n_head = config->n_head,
        .n_head_kv = config->n_head_kv,
        .d_model = config->d_model,
        .d_head = config->d_head,
        .scale = config->attention_scale,
        .gated = config->family->gated_attention,
        .clamp = config->clamp_qkv,
        .clamp_normed = config->family->clamps_normed,
        .score_cap = config->score_cap,
        .slopes = weights->slopes,
        .ropes = weights->ropes,
        .n_ropes = weights->n_ropes,
        .layers = weights->attention_layers,
    };
}

/* Hidden numbers of the widest MLP. */
static size_t widest_hidden(const Config *config, const Weights *weights) {
    size_t widest = config->d_ff;
    for (size_t layer = 0; config->n_expert && layer < config->n_layer; layer++) {
        const ExpertsWeights *experts = &weights->layers[layer].experts;
        if (experts->n_expert && widest < config->d_ff_expert) widest = config->d_ff_expert;
        if (widest < experts->shared.up.w.rows) widest = experts->shared.up.w.rows;
    }
    return widest;
}

/* The sizes of a session. */
typedef struct Plan {
    size_t n_ctx, n_chunk;
    size_t d_hidden, n_experts; /* floats of a token: of the widest MLP, of experts_forward */
    size_t widest;              /* input of a matrix */
    size_t token_floats;        /* of a token, in all scratch together */
} Plan;

/* Fails where a shape needs more than a session has. */
static bool plan_session(const Model *model, const SessionOptions *options, Plan *plan, Error *error) {
    const Config *config = &model->config;
    const char *path = checkpoint_path(model->checkpoint);
    size_t n_ctx = options->n_ctx ? options->n_ctx : config->n_ctx;
    size_t n_chunk = options->n_chunk ? options->n_chunk : SESSION_CHUNK;
    if (model->weights.positions.data && n_ctx > config->n_ctx)
        return error_set(error,
                         "%s: a context of %zu is more than the %zu positions that the model has learned",
                         path, n_ctx, config->n_ctx);
    size_t d_attn = config->n_head * config->d_head, widest = config->d_model;
    size_t d_hidden = widest_hidden(config, &model->weights);
    size_t n_experts = config->n_expert ? experts_floats(config->n_expert, config->d_model) : 0;
    if (widest < d_attn) widest = d_attn;
    if (widest < d_hidden) widest = d_hidden;
    if (widest < config->state.d_inner) widest = config->state.d_inner;
    size_t token_floats = 3 * config->d_model + 2 * d_hidden + widest + 2 * d_attn + n_experts +
                          (config->family->gated_attention ? 2 * d_attn : 0) +
                          (model->weights.n_states ? states_floats(&config->state) : 0) +
                          2 * config->n_head_kv * config->d_head + model->weights.n_ropes * config->rope.dim;
    AttentionShape shape = model_attention_shape(model);
    if (attention_tile_bytes(&shape) == 0)
        return error_set(error,
                         "%s: heads of %zu numbers are more than the %d KiB of a thread's scratch hold", path,
                         config->d_head, ATTENTION_TILE_BYTES >> 10);
    size_t max_chunk = ((size_t)MAX_SCRATCH_MIB << 20) / sizeof(float) / token_floats;
    if (max_chunk == 0)
        return error_set(error,
                         "%s: a token alone needs %zu MiB of scratch, more than the %d that a session has",
                         path, token_floats * sizeof(float) >> 20, MAX_SCRATCH_MIB);
    if (n_chunk > max_chunk) n_chunk = max_chunk;
    if (n_chunk > n_ctx) n_chunk = n_ctx;
    *plan = (Plan){n_ctx, n_chunk, d_hidden, n_experts, widest, token_floats};
    return true;
}

bool session_measure(const Model *model, const SessionOptions *options, unsigned n_threads,
                     SessionBytes *bytes, Error *error) {
    const Config *config = &model->config;
    AttentionShape shape = model_attention_shape(model);
    Plan plan;
    if (!plan_session(model, options, &plan, error)) return false;
    size_t n_room,
        n_fixed = n_threads * attention_tile_bytes(&shape) +
                  states_bytes(&config->state, model->weights.n_states) +
                  results_floats(config->d_model, config->n_head * config->d_head) * sizeof(float) +
                  plan.n_chunk * plan.token_floats * sizeof(float);
    bool fits = !__builtin_add_overflow(plan.n_ctx, KEY_TILE - 1, &n_room);
    n_room = n_room / KEY_TILE * KEY_TILE;
    if (!fits || __builtin_mul_overflow(n_room, attention_kv_bytes(&shape, options->kv_dtype), &bytes->cache))
        bytes->cache = SIZE_MAX;
    /* A position is a token and, in a row that a probe watches, a score. */
    if (!fits || __builtin_mul_overflow(n_room, sizeof(int32_t) + sizeof(float), &bytes->rest) ||
        __builtin_add_overflow(bytes->rest, n_fixed, &bytes->rest))
        bytes->rest = SIZE_MAX;
    return true;
}

Session *session_new(const Model *model, const SessionOptions *options, Error *error) {
    const Config *config = &model->config;
    const size_t n_states = model->weights.n_states;
    Plan plan;
    if (!plan_session(model, options, &plan, error)) return NULL;
    const size_t n_ctx = plan.n_ctx, n_chunk = plan.n_chunk, n_experts = plan.n_experts;
    AttentionShape shape = model_attention_shape(model);
    Session *session = calloc(1, sizeof *session);
    if (!session) goto no_memory;
    *session = (Session){.model = model,
                         .compute = {options->compute.kernels, options->compute.threads,
                                     floats_new(packed_floats(n_chunk, plan.widest), 1),
                                     packed_floats(n_chunk, plan.widest)},
                         .probe = options->probe,
                         .whole = options->whole_cache && n_states == 0,
                         .stop = options->stop,
                         .stop_user = options->stop_user,
                         .n_ctx = n_ctx,
                         .n_chunk = n_chunk};
    session->resid = floats_new(n_chunk, config->d_model);
    session->normed = floats_new(n_chunk, config->d_model);
    session->branch = floats_new(n_chunk, config->d_model);
    size_t n_hidden = n_chunk < config->n_expert_used ? config->n_expert_used : n_chunk;
    session->hidden = floats_new(n_hidden, plan.d_hidden);
    session->gate = floats_new(n_hidden, plan.d_hidden);
    if (n_experts) session->experts = floats_new(n_chunk, n_experts);
    if (!session->resid || !session->normed || !session->branch || !session->hidden || !session->gate ||
        (n_experts && !session->experts) || !session->compute.packed)
        goto no_memory;
    session->attention = attention_new(&shape, n_ctx, options->kv_dtype, options->whole_cache, n_chunk,
                                       &session->compute, error);
    if (!session->attention) goto fail;
    if (n_states) session->states = states_new(&config->state, n_states, n_chunk, &session->compute, error);
    if (n_states && !session->states) goto fail;
    session->tokens = calloc(n_ctx, sizeof *session->tokens);
    if (!session->tokens) goto no_memory;
    return session;
no_memory:
    error_set(error, "%s: not enough memory for a session of %zu tokens at a time",
              checkpoint_path(model->checkpoint), n_chunk);
fail:
    session_free(session);
    return NULL;
}

void session_free(Session *session) {
    if (!session) return;
    attention_free(session->attention);
    states_free(session->states);
    free(session->tokens);
    free(session->resid);
    free(session->normed);
    free(session->branch);
    free(session->hidden);
    free(session->gate);
    free(session->experts);
    free(session->compute.packed);
    free(session);
}

const Model *session_model(const Session *session) { return session->model; }
size_t session_n_ctx(const Session *session) { return session->n_ctx; }
size_t session_position(const Session *session) { return session->position; }
const int32_t *session_tokens(const Session *session) { return session->tokens; }

/* Forgets what lies behind a position, or all, if it cannot be gone back to. */
static void go_back(Session *session, size_t position) {
    session->position = !session->states && attention_reaches(session->attention, position) ? position : 0;
}

void session_rewind(Session *session, size_t position) {
    if (position < session->position) go_back(session, position);
}

size_t session_restore(Session *session, size_t position) {
    size_t known = session->whole ? session->known : session->position;
    if (position > session->position) session->position = position < known ? position : known;
    return session->position;
}

void session_watch(Session *session, const Probe *probe) { session->probe = probe; }

void session_stop_when(Session *session, bool (*stop)(void *user), void *user) {
    session->stop = stop;
    session->stop_user = user;
}

void session_values(const Session *session, size_t layer, size_t kv_head, size_t n, float *values) {
    attention_values(session->attention, layer, kv_head, n, values);
}

size_t session_n_spans(const Session *session) { return 2 + attention_n_spans(session->attention); }

Span session_span(const Session *session, size_t i, size_t n) {
    if (n == 0 || (i == 1 && !session->states)) return (Span){NULL, 0};
    if (i == 0) return (Span){session->tokens, n * sizeof *session->tokens};
    return i == 1 ? states_span(session->states) : attention_span(session->attention, i - 2, n);
}

void session_hold(Session *session, size_t n) { session->position = session->known = n; }

void session_blank(Session *session) {
    attention_blank(session->attention, session->position);
    session->known = session->position;
}

DType session_kv_dtype(const Session *session) { return attention_kv_dtype(session->attention); }

static void unpack_row(const Session *session, float *dst, const Matrix *matrix, size_t row) {
    const char *rows = matrix->data;
    session->compute.kernels->unpack(dst, matrix->dtype,
                                     rows + row * dtype_bytes(matrix->dtype, matrix->cols), matrix->cols);
}

static void embed(Session *session, const int32_t *tokens, size_t n) {
    const Config *config = &session->model->config;
    const Weights *weights = &session->model->weights;
    const Kernels *kernels = session->compute.kernels;
    const size_t d = config->d_model, position = session->position;
    float *resid = session->resid, *positions = session->normed; /* free until the first layer */
    for (size_t t = 0; t < n; t++) unpack_row(session, resid + t * d, &weights->embedding, (size_t)tokens[t]);
    if (config->embedding_scale != 1) kernels->scale(resid, config->embedding_scale, n * d);
    if (weights->embedding_norm.gain)
        norm_forward(&session->compute, &weights->embedding_norm, resid, resid, n, d);
    probe_rows(session->probe, PROBE_EMBED, 0, position, resid, n, d);
    if (!weights->positions.data) return;
    for (size_t t = 0; t < n; t++)
        unpack_row(session, positions + t * d, &weights->positions, config->position_offset + position + t);
    probe_rows(session->probe, PROBE_POS_EMBED, 0, position, positions, n, d);
    kernels->add(resid, positions, n * d);
}

/* The input of a branch: the normed residual stream, in `normed`, or the stream itself where it has no norm. */
static const float *read_resid(Session *session, const Norm *norm, ProbeSite site, size_t layer, size_t n) {
    if (!norm->gain) return session->resid;
    norm_probe(norm, session->probe, site, layer, session->position, session->resid, n, session->normed);
    norm_forward(&session->compute, norm, session->resid, session->normed, n, norm->n);
    return session->normed;
}

/* Turns the output of a branch into what it adds to the stream: normed or scaled, where the family does so. */
static void finish_branch(Session *session, const Norm *norm, size_t n) {
    const Config *config = &session->model->config;
    if (norm->gain) norm_forward(&session->compute, norm, session->branch, session->branch, n, norm->n);
    if (config->residual_scale != 1)
        session->compute.kernels->scale(session->branch, config->residual_scale, n * config->d_model);
}

/*
 * Takes n ≤ n_chunk tokens, whose residual stream is in session->resid, through the layers from `first` on. False when it
 * was stopped.
 */
static bool forward(Session *session, size_t first, size_t n) {
    const Config *config = &session->model->config;
    const Weights *weights = &session->model->weights;
    const Probe *probe = session->probe;
    const size_t d = config->d_model, position = session->position;
    float *resid = session->resid, *branch = session->branch;
    const Kernels *kernels = session->compute.kernels;

    attention_begin(session->attention, position, n);
    for (size_t layer = first; layer < config->n_layer; layer++) {
        const LayerWeights *w = &weights->layers[layer];
        if (session->stop && session->stop(session->stop_user)) return false;

        probe_rows(probe, PROBE_RESID_PRE, layer, position, resid, n, d);
        const float *x = read_resid(session, &w->attn_norm, PROBE_NORM1_SCALE, layer, n);
        if (w->state.mixer == MIXER_ATTENTION)
            attention_forward(session->attention, &w->attention, layer, x, branch, probe);
        else
            states_forward(session->states, &w->state, position, n, x, branch);
        finish_branch(session, &w->attn_post_norm, n);
        probe_rows(probe, PROBE_ATTN_OUT, layer, position, branch, n, d);

        if (config->parallel_residual && w->mlp_norm.gain)
            x = read_resid(session, &w->mlp_norm, PROBE_NORM2_SCALE, layer, n);
        kernels->add(resid, branch, n * d);
        if (!config->parallel_residual) {
            probe_rows(probe, PROBE_RESID_MID, layer, position, resid, n, d);
            x = read_resid(session, &w->mlp_norm, PROBE_NORM2_SCALE, layer, n);
        }

        if (w->experts.n_expert)
            experts_forward(&session->compute, config->mlp, &w->experts, layer, position, n, x, branch,
                            session->hidden, session->gate, session->experts, probe);
        else
            mlp_forward(&session->compute, config->mlp, &w->mlp, layer, position, n, x, branch,
                        session->hidden, session->gate, probe);
        finish_branch(session, &w->mlp_post_norm, n);
        probe_rows(probe, PROBE_MLP_OUT, layer, position, branch, n, d);
        kernels->add(resid, branch, n * d);
        probe_rows(probe, PROBE_RESID_POST, layer, position, resid, n, d);
    }
    return true;
}

void session_unembed(const Session *session, const float *resid, size_t n, float *logits) {
    const Config *config = &session->model->config;
    const Weights *weights = &session->model->weights;
    for (size_t done = 0, m; done < n; done += m) {
        m = n - done < session->n_chunk ? n - done : session->n_chunk;
        float *to = logits + done * config->n_vocab;
        norm_forward(&session->compute, &weights->final_norm, resid + done * config->d_model, session->normed,
                     m, config->d_model);
        linear_forward(&session->compute, &(LinearOutput){to, &weights->unembedding}, 1, session->normed, m);
        if (config->logit_scale != 1)
            session->compute.kernels->scale(to, config->logit_scale, m * config->n_vocab);
        if (config->logit_cap != 0)
            session->compute.kernels->soft_cap(to, config->logit_cap, m * config->n_vocab);
    }
}

void session_hidden(const Session *session, float *hidden) {
    const size_t d = session->model->config.d_model;
    norm_forward(&session->compute, &session->model->weights.final_norm, session->resid + session->last * d,
                 hidden, 1, d);
}

static bool check_room(const Session *session, size_t n, Error *error) {
    if (n <= session->n_ctx - session->position) return true;
    return error_set(error, "%s: %zu tokens after %zu are more than the context of %zu holds",
                     checkpoint_path(session->model->checkpoint), n, session->position, session->n_ctx);
}

static bool check_tokens(const Session *session, const int32_t *tokens, size_t n, Error *error) {
    size_t n_vocab = session->model->config.n_vocab;
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= n_vocab)
            return error_set(error, "%s: token %" PRId32 " is outside the vocabulary of %zu",
                             checkpoint_path(session->model->checkpoint), tokens[i], n_vocab);
    return true;
}

static bool check_finite(const Session *session, const float *logits, size_t n, Error *error) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(logits[i]))
            return error_set(
                error,
                "%s: the logits are not finite; the weights hold NaN or infinity, or overflow the F16 "
                "cache (take F32)",
                checkpoint_path(session->model->checkpoint));
    return true;
}

/* Keeps what a rewind left behind as far as the same tokens are fed again (NULL: others are). */
static void forget_others(Session *session, const int32_t *tokens, size_t n) {
    const int32_t *known = session->tokens + session->position;
    size_t same = 0, most = session->known - session->position;
    while (tokens && same < n && same < most && known[same] == tokens[same]) same++;
    if (same < n) session->known = session->position + same;
}

/* Feeds n tokens from a layer on. resid [n][d_model] enters it; if NULL, the tokens' embeddings do. */
static bool feed(Session *session, const int32_t *tokens, size_t layer, const float *resid, size_t n,
                 float *logits, size_t n_logits, Error *error) {
    const Config *config = &session->model->config;
    size_t n_vocab = config->n_vocab, d = config->d_model, start = session->position;
    if (n_logits > n) n_logits = n;
    for (size_t done = 0, m; done < n; done += m) {
        m = n - done < session->n_chunk ? n - done : session->n_chunk;
        if (resid)
            memcpy(session->resid, resid + done * d, m * d * sizeof *resid);
        else
            embed(session, tokens + done, m);
        forget_others(session, tokens ? tokens + done : NULL, m);
        if (!forward(session, layer, m)) {
            go_back(session, start);
            return error_set(error, "interrupted");
        }
        size_t skipped = n - n_logits > done ? n - n_logits - done : 0; /* without logits, of this chunk */
        if (skipped < m) {
            norm_probe(&session->model->weights.final_norm, session->probe, PROBE_FINAL_SCALE,
                       config->n_layer, session->position + skipped, session->resid + skipped * d,
                       m - skipped, session->normed);
            session_unembed(session, session->resid + skipped * d, m - skipped, logits);
            probe_rows(session->probe, PROBE_LOGITS, config->n_layer, session->position + skipped, logits,
                       m - skipped, n_vocab);
            if (!check_finite(session, logits, (m - skipped) * n_vocab, error)) {
                go_back(session, start);
                return false;
            }
            logits += (m - skipped) * n_vocab;
        }
        for (size_t i = 0; i < m; i++)
            session->tokens[session->position + i] = tokens ? tokens[done + i] : -1;
        session->position += m;
        session->last = m - 1;
        if (session->known < session->position) session->known = session->position;
    }
    return true;
}

bool session_feed(Session *session, const int32_t *tokens, size_t n, float *logits, size_t n_logits,
                  Error *error) {
    return check_room(session, n, error) && check_tokens(session, tokens, n, error) &&
           feed(session, tokens, 0, NULL, n, logits, n_logits, error);
}

bool session_feed_all(Session *session, const int32_t *tokens, size_t n, float *logits, const Feed *feed,
                      Error *error) {
    size_t n_vocab = session->model->config.n_vocab, chunk = feed->sink ? FEED_ROWS : SESSION_CHUNK;
    float *rows = feed->sink ? floats_new(chunk, n_vocab) : logits;
    bool ok =
        !feed->sink || rows || error_set(error, "not enough memory for the logits of %zu tokens", chunk);
    for (size_t done = 0, m; ok && done < n; done += m) {
        m = n - done < chunk ? n - done : chunk;
        size_t n_rows = feed->sink ? m : logits && done + m == n; /* whose logits are wanted */
        if (feed->progress && !feed->progress(feed->user, n > chunk ? "prompt" : NULL, done, n))
            ok = error_set(error, "interrupted");
        ok = ok && session_feed(session, tokens + done, m, rows, n_rows, error);
        for (size_t i = 0; ok && feed->sink && i < m; i++)
            ok = feed->sink(feed->user, rows + i * n_vocab, n_vocab, error);
        if (ok && feed->sink && logits) memcpy(logits, rows + (m - 1) * n_vocab, n_vocab * sizeof *logits);
    }
    if (feed->progress && n > chunk) feed->progress(feed->user, "prompt", n, n);
    if (feed->sink) free(rows);
    return ok;
}

bool session_sync(Session *session, const int32_t *tokens, size_t n, float *logits, const Feed *feed,
                  Error *error) {
    const int32_t *held = session_tokens(session);
    size_t same = 0, most = session_position(session) < n ? session_position(session) : n - 1;
    while (same < most && held[same] == tokens[same]) same++;
    if (n > session_n_ctx(session))
        return error_set(error, "%zu tokens are more than the context of %zu holds", n,
                         session_n_ctx(session));
    session_rewind(session, same);
    same = session_position(session);
    return session_feed_all(session, tokens + same, n - same, logits, feed, error);
}

bool session_resume(Session *session, size_t layer, const float *resid, size_t n, float *logits,
                    size_t n_logits, Error *error) {
    return check_room(session, n, error) && feed(session, NULL, layer, resid, n, logits, n_logits, error);
}
