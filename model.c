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
    bool stopped; /* what was fed last */
    size_t n_ctx, n_chunk;
    size_t position; /* tokens fed so far */
    size_t
        known; /* ≥ position: tokens whose keys and values the cache still has, if no layer keeps a state */
    int32_t *tokens; /* [n_ctx] those tokens */
    float *last;     /* [d_model] the residual stream behind the last layer, of the token fed last */
    bool borrows;    /* the scratch is another session's, down to `experts`, and compute.packed */
    float *resid;    /* [n_chunk][d_model] the residual stream */
    float *normed;   /* [n_chunk][d_model] */
    float *branch;   /* [n_chunk][d_model] what attention or MLP adds */
    float *hidden;   /* [n_chunk][d_ff of the widest MLP] */
    float *gate;     /* likewise, touched only where the MLP has a gate */
    float *experts;  /* [n_chunk][experts_floats], or NULL */

    /* While it is fed: its part, where it stood before, its tokens in the pass under way, and the text behind it in there. */
    const FeedPart *part;
    size_t start, n;
    Session *next;
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

static bool make_scratch(Session *session, const Plan *plan) {
    const Config *config = &session->model->config;
    size_t n_chunk = plan->n_chunk,
           n_hidden = n_chunk < config->n_expert_used ? config->n_expert_used : n_chunk;
    session->compute.n_packed = packed_floats(n_chunk, plan->widest);
    session->compute.packed = floats_new(session->compute.n_packed, 1);
    session->resid = floats_new(n_chunk, config->d_model);
    session->normed = floats_new(n_chunk, config->d_model);
    session->branch = floats_new(n_chunk, config->d_model);
    session->hidden = floats_new(n_hidden, plan->d_hidden);
    session->gate = floats_new(n_hidden, plan->d_hidden);
    if (plan->n_experts) session->experts = floats_new(n_chunk, plan->n_experts);
    return session->compute.packed && session->resid && session->normed && session->branch &&
           session->hidden && session->gate && (session->experts || !plan->n_experts);
}

static void borrow_scratch(Session *session, const Session *owner) {
    session->borrows = true;
    session->compute = owner->compute;
    session->resid = owner->resid;
    session->normed = owner->normed;
    session->branch = owner->branch;
    session->hidden = owner->hidden;
    session->gate = owner->gate;
    session->experts = owner->experts;
}

Session *session_new(const Model *model, const SessionOptions *options, Error *error) {
    const Config *config = &model->config;
    const Session *beside = options->beside;
    const size_t n_states = model->weights.n_states;
    Plan plan;
    if (!plan_session(model, options, &plan, error)) return NULL;
    AttentionShape shape = model_attention_shape(model);
    Session *session = calloc(1, sizeof *session);
    if (!session) goto no_memory;
    *session =
        (Session){.model = model,
                  .compute = {.kernels = options->compute.kernels, .threads = options->compute.threads},
                  .probe = options->probe,
                  .whole = options->whole_cache && n_states == 0,
                  .stop = options->stop,
                  .stop_user = options->stop_user,
                  .n_ctx = plan.n_ctx,
                  .n_chunk = plan.n_chunk};
    if (beside)
        borrow_scratch(session, beside);
    else if (!make_scratch(session, &plan))
        goto no_memory;
    session->last = floats_new(1, config->d_model);
    session->tokens = calloc(plan.n_ctx, sizeof *session->tokens);
    if (!session->last || !session->tokens) goto no_memory;
    session->attention =
        attention_new(&shape, plan.n_ctx, options->kv_dtype, options->whole_cache, plan.n_chunk,
                      &session->compute, beside ? beside->attention : NULL, error);
    if (!session->attention) goto fail;
    if (n_states)
        session->states = states_new(&config->state, n_states, plan.n_chunk, &session->compute, error);
    if (n_states && !session->states) goto fail;
    return session;
no_memory:
    error_set(error, "%s: not enough memory for a session of %zu tokens at a time",
              checkpoint_path(model->checkpoint), plan.n_chunk);
fail:
    session_free(session);
    return NULL;
}

void session_free(Session *session) {
    if (!session) return;
    attention_free(session->attention);
    states_free(session->states);
    free(session->tokens);
    free(session->last);
    if (!session->borrows) {
        free(session->resid);
        free(session->normed);
        free(session->branch);
        free(session->hidden);
        free(session->gate);
        free(session->experts);
        free(session->compute.packed);
    }
    free(session);
}

const Model *session_model(const Session *session) { return session->model; }
size_t session_n_ctx(const Session *session) { return session->n_ctx; }
size_t session_position(const Session *session) { return session->position; }
const int32_t *session_tokens(const Session *session) { return session->tokens; }

/* Forgets what lies behind a position, or all, if it cannot be gone back to. */
static void go_back(Session *session, size_t position) {
    bool reaches = !session->states && attention_reaches(session->attention, position);
    session->position = reaches ? position : 0;
    if (!reaches) session->known = 0;
}

void session_rewind(Session *session, size_t position) {
    if (position < session->position) go_back(session, position);
}

size_t session_restore(Session *session, size_t position) {
    size_t known = session->states ? session->position : session->known;
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

void session_hold(Session *session, size_t n) {
    attention_change(session->attention, 0);
    session->position = session->known = n;
}

void session_share(Session *to, Session *from) {
    size_t n = from->position;
    const Span state = session_span(from, 1, n);
    attention_share(to->attention, from->attention, n);
    memcpy(to->tokens, from->tokens, n * sizeof *to->tokens);
    if (state.n > 0) memcpy(session_span(to, 1, n).bytes, state.bytes, state.n);
    to->position = to->known = n;
}

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

/* Embeds the text's tokens under way: resid [text->n][d_model]; positions, likewise, is scratch. */
static void embed(const Session *text, const int32_t *tokens, float *resid, float *positions) {
    const Config *config = &text->model->config;
    const Weights *weights = &text->model->weights;
    const Kernels *kernels = text->compute.kernels;
    const size_t d = config->d_model, n = text->n, position = text->position;
    for (size_t t = 0; t < n; t++) unpack_row(text, resid + t * d, &weights->embedding, (size_t)tokens[t]);
    if (config->embedding_scale != 1) kernels->scale(resid, config->embedding_scale, n * d);
    if (weights->embedding_norm.gain)
        norm_forward(&text->compute, &weights->embedding_norm, resid, resid, n, d);
    probe_rows(text->probe, PROBE_EMBED, 0, position, resid, n, d);
    if (!weights->positions.data) return;
    for (size_t t = 0; t < n; t++)
        unpack_row(text, positions + t * d, &weights->positions, config->position_offset + position + t);
    probe_rows(text->probe, PROBE_POS_EMBED, 0, position, positions, n, d);
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

/* What takes the place of attention in a layer, for all texts under way; x and out are [n][d_model]. */
static void mix(Session *session, const LayerWeights *weights, size_t layer, const float *x, float *out) {
    const size_t d = session->model->config.d_model;
    if (weights->state.mixer == MIXER_ATTENTION) {
        attention_forward(session->attention, &weights->attention, layer, x, out, session->probe);
        return;
    }
    for (Session *text = session; text; x += text->n * d, out += text->n * d, text = text->next)
        states_forward(text->states, &weights->state, text->position, text->n, x, out);
}

static bool is_stopped(const Session *session) {
    for (; session; session = session->next)
        if (session->stop && session->stop(session->stop_user)) return true;
    return false;
}

/*
 * Takes n ≤ n_chunk tokens, whose residual stream is in session->resid, through the layers from `first` on: the session's,
 * and those of the texts behind it. False when one was stopped.
 */
static bool forward(Session *session, size_t first, size_t n) {
    const Config *config = &session->model->config;
    const Weights *weights = &session->model->weights;
    const Probe *probe = session->probe;
    const size_t d = config->d_model, position = session->position;
    float *resid = session->resid, *branch = session->branch;
    const Kernels *kernels = session->compute.kernels;

    for (Session *text = session, *before = NULL; text; before = text, text = text->next)
        attention_begin(text->attention, text->position, text->n, before ? before->attention : NULL);
    for (size_t layer = first; layer < config->n_layer; layer++) {
        const LayerWeights *w = &weights->layers[layer];
        if (is_stopped(session)) return false;

        probe_rows(probe, PROBE_RESID_PRE, layer, position, resid, n, d);
        const float *x = read_resid(session, &w->attn_norm, PROBE_NORM1_SCALE, layer, n);
        mix(session, w, layer, x, branch);
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
    norm_forward(&session->compute, &session->model->weights.final_norm, session->last, hidden, 1, d);
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

/* Keeps what a rewind left behind as far as the same tokens are fed again (NULL: others are), and only in a whole cache. */
static void forget_others(Session *session, const int32_t *tokens, size_t n) {
    const int32_t *known = session->tokens + session->position;
    size_t same = 0, most = session->known - session->position;
    while (tokens && same < n && same < most && known[same] == tokens[same]) same++;
    if (same < n || !session->whole) session->known = session->position + same;
}

/* Tokens of its part that a session has been fed. */
static size_t n_fed(const Session *session) { return session->position - session->start; }

/*
 * Links the sessions whose next chunks go through the layers together, the first that has one first: as many as get the bits
 * there that each gets alone. Who is watched goes alone. NULL: all parts are fed.
 */
static Session *gather(const FeedPart *parts, size_t n_parts, size_t *n) {
    Session *first = NULL, *last = NULL;
    *n = 0;
    for (size_t i = 0; i < n_parts; i++) {
        Session *session = parts[i].session;
        size_t left = parts[i].n - n_fed(session), most = first ? kernels_company(first->compute.kernels) : 0;
        size_t m = left < session->n_chunk ? left : session->n_chunk;
        if (first && most > first->n_chunk) most = first->n_chunk;
        if (m == 0 || (first && (first->probe || session->probe || *n + m > most))) continue;
        session->n = m;
        session->next = NULL;
        if (first)
            last->next = session;
        else
            first = session;
        last = session;
        *n += m;
    }
    return first;
}

/* The logits of n rows that were gathered in `branch`, the last of the pass where a probe looks on. */
static bool unembed_gathered(Session *session, size_t n, float *logits, Error *error) {
    const Config *config = &session->model->config;
    session_unembed(session, session->branch, n, logits);
    probe_rows(session->probe, PROBE_LOGITS, config->n_layer, session->position + session->n - n, logits, n,
               config->n_vocab);
    return check_finite(session, logits, n * config->n_vocab, error);
}

/*
 * Makes the logits that are wanted of the pass. Where those of one text are to lie behind those of the text before, a product
 * makes both.
 */
static bool make_logits(Session *session, Error *error) {
    const Model *model = session->model;
    const size_t d = model->config.d_model, n_vocab = model->config.n_vocab;
    float *resid = session->resid, *to = NULL;
    size_t n_rows = 0; /* gathered; their logits go to `to` */
    for (const Session *text = session; text; resid += text->n * d, text = text->next) {
        const FeedPart *part = text->part;
        size_t fed = n_fed(text) + text->n, skipped = part->n - part->n_logits;
        if (fed <= skipped) continue;
        size_t wanted = fed - skipped < text->n ? fed - skipped : text->n;
        float *its = part->logits + (fed - skipped - wanted) * n_vocab,
              *rows = resid + (text->n - wanted) * d;
        if (n_rows > 0 && its != to + n_rows * n_vocab) {
            if (!unembed_gathered(session, n_rows, to, error)) return false;
            n_rows = 0;
        }
        if (n_rows == 0) to = its;
        norm_probe(&model->weights.final_norm, text->probe, PROBE_FINAL_SCALE, model->config.n_layer,
                   text->position + text->n - wanted, rows, wanted, session->normed);
        memcpy(session->branch + n_rows * d, rows, wanted * d * sizeof *rows);
        n_rows += wanted;
    }
    return n_rows == 0 || unembed_gathered(session, n_rows, to, error);
}

/* Takes the tokens of the pass into their texts. */
static void advance(Session *session) {
    const size_t d = session->model->config.d_model;
    const float *resid = session->resid;
    for (Session *text = session; text; text = text->next) {
        const int32_t *tokens = text->part->tokens;
        for (size_t i = 0; i < text->n; i++)
            text->tokens[text->position + i] = tokens ? tokens[n_fed(text) + i] : -1;
        resid += text->n * d;
        memcpy(text->last, resid - d, d * sizeof *resid);
        text->position += text->n;
        if (text->known < text->position) text->known = text->position;
    }
}

/* A pass of the texts that gather linked, of n tokens. entering: of a lone text, what enters the layer; or NULL. */
static bool pass(Session *session, size_t layer, const float *entering, size_t n, Error *error) {
    const size_t d = session->model->config.d_model;
    float *resid = session->resid;
    for (Session *text = session; text; resid += text->n * d, text = text->next) {
        const int32_t *tokens = entering ? NULL : text->part->tokens + n_fed(text);
        if (entering)
            memcpy(resid, entering + n_fed(text) * d, n * d * sizeof *resid);
        else
            embed(text, tokens, resid, session->normed); /* which is free until the first layer */
        forget_others(text, tokens, text->n);
    }
    session->stopped = !forward(session, layer, n);
    if (session->stopped) return error_set(error, "interrupted");
    if (!make_logits(session, error)) return false;
    advance(session);
    return true;
}

/* Feeds parts from a layer on. resid [n][d_model] enters it, of a lone part; if NULL, the tokens' embeddings do. */
static bool feed(const FeedPart *parts, size_t n_parts, size_t layer, const float *resid, Error *error) {
    Session *first;
    size_t n;
    for (size_t i = 0; i < n_parts; i++) {
        parts[i].session->part = &parts[i];
        parts[i].session->start = parts[i].session->position;
    }
    while ((first = gather(parts, n_parts, &n))) {
        if (pass(first, layer, resid, n, error)) continue;
        for (size_t i = 0; i < n_parts; i++) go_back(parts[i].session, parts[i].session->start);
        return false;
    }
    return true;
}

bool session_feed_many(const FeedPart *parts, size_t n_parts, Error *error) {
    for (size_t i = 0; i < n_parts; i++)
        if (!check_room(parts[i].session, parts[i].n, error) ||
            !check_tokens(parts[i].session, parts[i].tokens, parts[i].n, error))
            return false;
    return feed(parts, n_parts, 0, NULL, error);
}

bool session_feed(Session *session, const int32_t *tokens, size_t n, float *logits, size_t n_logits,
                  Error *error) {
    return session_feed_many(&(FeedPart){session, tokens, n, logits, n_logits < n ? n_logits : n}, 1, error);
}

size_t session_room_to_guess(const Session *session) {
    size_t room = session->n_ctx - session->position;
    if (session->states || session->probe) return 1;
    return room < PACKED_TOKENS ? room : PACKED_TOKENS;
}

bool session_feed_guesses(Session *session, const int32_t *tokens, size_t n, float *logits, Error *error) {
    size_t start = session->position;
    session->stopped = false;
    bool ok = session_feed(session, tokens, n, logits, n, error);
    if (!ok && !session->stopped && n > 1) ok = session_feed(session, tokens, 1, logits, 1, error);
    if (ok) session_rewind(session, start + 1);
    return ok;
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
    const FeedPart part = {session, NULL, n, logits, n_logits < n ? n_logits : n};
    return check_room(session, n, error) && feed(&part, 1, layer, resid, error);
}
