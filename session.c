/* The memory of a session, and what it holds: tokens, keys and values, states. */
#include "session.h"

#include "layers/experts.h"
#include "layers/results.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_SCRATCH_MIB = 256, /* a chunk shrinks to this: a small file may claim wide layers */
};

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

/* The type of the first attention's weights; of a model without attention whatever there is. */
static DType attention_dtype(const Weights *weights) {
    size_t layer = 0;
    while (layer + 1 < weights->n_layer && weights->attention_layers[layer].absent) layer++;
    return weights->layers[layer].attention.q.w.dtype;
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
    if (config->rope_is_dynamic && n_ctx > config->n_ctx)
        return error_set(
            error,
            "%s: a context of %zu is more than the %zu positions of the training, behind which this "
            "model scales RoPE dynamically, as is not done here",
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
    size_t n_room, n_fixed = states_bytes(&config->state, model->weights.n_states);
    if (!options->beside)
        n_fixed += n_threads * attention_tile_bytes(&shape) +
                   results_floats(config->d_model, config->n_head * config->d_head) * sizeof(float) +
                   plan.n_chunk * plan.token_floats * sizeof(float);
    else if (model->weights.n_states)
        n_fixed += plan.n_chunk * states_floats(&config->state) * sizeof(float);
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
    if (!session->last) goto no_memory;
    const Kernels *kernels = kernels_attention(session->compute.kernels, attention_dtype(&model->weights),
                                               options->kv_dtype, shape.n_head / shape.n_head_kv);
    if (!caches_open(&session->caches, &shape, plan.n_ctx, plan.n_chunk, options->kv_dtype,
                     options->whole_cache, kernels, error))
        goto fail;
    session->attention = attention_new(&shape, &session->caches, plan.n_ctx, plan.n_chunk, &session->compute,
                                       beside ? beside->attention : NULL, error);
    if (!session->attention) goto fail;
    if (n_states)
        session->states = states_new(&config->state, n_states, plan.n_chunk, &session->compute, error);
    if (n_states && !session->states) goto fail;
    session->tokens = calloc(plan.n_ctx, sizeof *session->tokens);
    if (!session->tokens) goto no_memory;
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
    caches_close(&session->caches);
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

size_t session_common(const Session *session, const int32_t *ids, size_t n) {
    size_t same = 0;
    while (same < n && same < session->position && session->tokens[same] == ids[same]) same++;
    return same;
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

void session_values(Session *session, size_t layer, size_t kv_head, size_t n, float *values) {
    kv_cache_settle(&session->caches.whole);
    const CachePlace place = session->caches.places[layer];
    kv_values(place.cache, place.head + kv_head, n, values);
}

size_t session_n_spans(const Session *session) { return 2 + 2 * session->caches.whole.n_heads; }

Span session_span(const Session *session, size_t i, size_t n) {
    if (n == 0 || (i == 1 && !session->states)) return (Span){NULL, 0};
    if (i == 0) return (Span){session->tokens, n * sizeof *session->tokens};
    return i == 1 ? states_span(session->states) : kv_span(&session->caches.whole, i - 2, n);
}

void session_hold(Session *session, size_t n) {
    kv_cache_change(&session->caches.whole, 0, 0);
    session->position = session->known = n;
}

void session_share(Session *to, Session *from) {
    size_t n = from->position;
    const Span state = session_span(from, 1, n);
    caches_share(&to->caches, &from->caches, n);
    memcpy(to->tokens, from->tokens, n * sizeof *to->tokens);
    if (state.n > 0) memcpy(session_span(to, 1, n).bytes, state.bytes, state.n);
    to->position = to->known = n;
}

void session_blank(Session *session) {
    caches_blank(&session->caches, session->position);
    session->known = session->position;
}

DType session_kv_dtype(const Session *session) { return session->caches.whole.dtype; }
