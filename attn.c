/* The public face: attn.h's words for the engine's own, with the vocabulary and the pool of threads that belong to them. */
#include "attn.h"

#include "backward.h"
#include "conversation.h"
#include "generate.h"
#include "open.h"
#include "sampling.h"
#include "snapshot.h"
#include "vocabulary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct AttnModel {
    Model *model;
    Checkpoint *vocabulary; /* the file that was named for it, or NULL */
    Tokenizer *tokenizer;   /* NULL: the file has none, and tokens are all that it can be fed */
};

struct AttnSession {
    const AttnModel *model;
    Threads *threads; /* of options.beside, where there is one */
    const Kernels *kernels;
    Session *session;
    AttnSessionOptions options;
    Probe inner; /* what the engine calls, and what calls the options' probe */
};

struct AttnSampler {
    Sampler *sampler;
    size_t n_vocab;
};

_Static_assert((int)ATTN_RESID_PRE == PROBE_RESID_PRE && (int)ATTN_PATTERN == PROBE_PATTERN &&
                   (int)ATTN_RESID_POST == PROBE_RESID_POST && (int)ATTN_LOGITS == PROBE_LOGITS &&
                   PROBE_N_SITES == ATTN_LOGITS + 1,
               "sites have the same numbers inside and outside");
_Static_assert((int)ATTN_END_LIMIT == END_LIMIT && (int)ATTN_END_CALLER == END_CALLER, "so have ends");
_Static_assert((int)ATTN_SPECULATE_AUTO == SPECULATE_AUTO && (int)ATTN_SPECULATE_OFF == SPECULATE_OFF,
               "so has what is guessed");
_Static_assert(sizeof(AttnError) == sizeof(Error), "so have errors their size");

const char *attn_version(void) { return ATTN_VERSION; }

/* Gives the caller what the engine said; returns false. */
static bool tell(AttnError *error, const Error *inner) {
    if (error) memcpy(error->message, inner->message, sizeof error->message);
    return false;
}

static bool refuse(AttnError *error, const char *what) {
    Error inner;
    error_set(&inner, "%s", what);
    return tell(error, &inner);
}

/*
 * Without a vocabulary, which GGUF may say in a word, a model can be fed tokens, so that only a named one must be there.
 */
static bool open_tokenizer(AttnModel *model, const char *path, Error *error) {
    const Checkpoint *own = model_checkpoint(model->model);
    String kind = {"", 0};
    if (!path && !checkpoint_has_vocabulary(own)) return true;
    if (!path && checkpoint_string(own, "tokenizer.ggml.model", &kind, error) &&
        string_equals(kind, "no_vocab"))
        return true;
    model->tokenizer = tokenizer_open(path, own, &model->vocabulary, error);
    return model->tokenizer && vocabulary_fits(model->model, model->tokenizer, path, error);
}

/* Of the file at path, or of what is given if that is not NULL. */
static AttnModel *open_model(const char *path, const GivenFile *given, const AttnModelOptions *options,
                             AttnError *error) {
    Error inner;
    AttnModel *model = calloc(1, sizeof *model);
    if (!model) error_set(&inner, "%s: not enough memory", path);
    if (model)
        model->model =
            given ? model_of(checkpoint_open_given(path, given, &inner), &inner) : model_open(path, &inner);
    if (model && model->model && open_tokenizer(model, options ? options->tokenizer : NULL, &inner))
        return model;
    tell(error, &inner);
    attn_model_close(model);
    return NULL;
}

AttnModel *attn_model_open(const char *path, const AttnModelOptions *options, AttnError *error) {
    if (!path) return refuse(error, "no file is named"), NULL;
    return open_model(path, NULL, options, error);
}

AttnModel *attn_model_open_memory(const void *bytes, size_t n, const char *name,
                                  const AttnModelOptions *options, AttnError *error) {
    if (!bytes) return refuse(error, "no bytes are given"), NULL;
    return open_model(name ? name : "model", &(GivenFile){bytes, n, -1}, options, error);
}

AttnModel *attn_model_open_descriptor(int descriptor, const char *name, const AttnModelOptions *options,
                                      AttnError *error) {
    return open_model(name ? name : "model", &(GivenFile){.descriptor = descriptor}, options, error);
}

void attn_model_close(AttnModel *model) {
    if (!model) return;
    tokenizer_free(model->tokenizer);
    checkpoint_close(model->vocabulary);
    model_close(model->model);
    free(model);
}

AttnShape attn_model_shape(const AttnModel *model) {
    if (!model) return (AttnShape){0};
    const Config *config = model_config(model->model);
    return (AttnShape){.n_layer = config->n_layer,
                       .n_head = config->n_head,
                       .n_head_kv = config->n_head_kv,
                       .d_model = config->d_model,
                       .d_head = config->d_head,
                       .d_ff = config->d_ff,
                       .n_vocab = config->n_vocab,
                       .n_ctx = config->n_ctx};
}

const char *attn_model_architecture(const AttnModel *model) {
    return model ? model_config(model->model)->family->architecture : "";
}

/* TransformerLens's names for them, behind "blocks.3." where they belong to a layer. */
static const char *const weight_names[] = {
    [ATTN_W_E] = "embed.W_E",
    [ATTN_W_POS] = "pos_embed.W_pos",
    [ATTN_EMBED_LN_W] = "embed.ln.w",
    [ATTN_EMBED_LN_B] = "embed.ln.b",
    [ATTN_LN1_W] = "ln1.w",
    [ATTN_LN1_B] = "ln1.b",
    [ATTN_W_Q] = "attn.W_Q",
    [ATTN_B_Q] = "attn.b_Q",
    [ATTN_W_K] = "attn.W_K",
    [ATTN_B_K] = "attn.b_K",
    [ATTN_W_V] = "attn.W_V",
    [ATTN_B_V] = "attn.b_V",
    [ATTN_Q_NORM_W] = "attn.q_norm.w",
    [ATTN_K_NORM_W] = "attn.k_norm.w",
    [ATTN_W_O] = "attn.W_O",
    [ATTN_B_O] = "attn.b_O",
    [ATTN_LN1_POST_W] = "ln1_post.w",
    [ATTN_LN1_POST_B] = "ln1_post.b",
    [ATTN_LN2_W] = "ln2.w",
    [ATTN_LN2_B] = "ln2.b",
    [ATTN_W_ROUTER] = "mlp.W_router",
    [ATTN_B_ROUTER] = "mlp.b_router",
    [ATTN_W_GATE] = "mlp.W_gate",
    [ATTN_B_GATE] = "mlp.b_gate",
    [ATTN_W_IN] = "mlp.W_in",
    [ATTN_B_IN] = "mlp.b_in",
    [ATTN_W_OUT] = "mlp.W_out",
    [ATTN_B_OUT] = "mlp.b_out",
    [ATTN_LN2_POST_W] = "ln2_post.w",
    [ATTN_LN2_POST_B] = "ln2_post.b",
    [ATTN_LN_FINAL_W] = "ln_final.w",
    [ATTN_LN_FINAL_B] = "ln_final.b",
    [ATTN_W_U] = "unembed.W_U",
    [ATTN_B_U] = "unembed.b_U",
};
enum { N_WEIGHTS = sizeof weight_names / sizeof *weight_names };

const char *attn_weight_name(AttnWeight weight) {
    return (size_t)weight < N_WEIGHTS ? weight_names[weight] : "";
}

static Matrix floats(const float *data, size_t rows, size_t cols) {
    return (Matrix){data, DTYPE_F32, rows, cols};
}

/* Rows [first, first + n) of a matrix, if there is one. */
static Matrix rows_of(const Matrix *w, size_t first, size_t n) {
    if (!w->data) return *w;
    return (Matrix){(const char *)w->data + first * dtype_bytes(w->dtype, w->cols), w->dtype, n, w->cols};
}

/* The gain of a norm that has one in the file. */
static Matrix gain_of(const Weights *weights, const Norm *norm) {
    return floats(norm->gain == weights->ones ? NULL : norm->gain, 1, norm->n);
}

/* That of a norm of heads: of each, or of all. */
static Matrix head_gain(const Norm *norm, size_t n_head, size_t d_head) {
    return floats(norm->gain, norm->own_gains || norm->n > d_head ? n_head : 1, d_head);
}

/* How many matrices stand below each other in a weight: heads' queries, between which gates are, or experts. */
static size_t count_parts(const Config *config, const LayerWeights *w, AttnWeight weight) {
    if (weight == ATTN_W_Q || weight == ATTN_B_Q) return config->family->gated_attention ? config->n_head : 1;
    return w->experts.n_expert && weight >= ATTN_W_GATE && weight <= ATTN_B_OUT ? w->experts.n_expert : 1;
}

/* Part i of a weight that belongs to a layer. Without data: it has none. */
static Matrix layer_part(const Model *model, const LayerWeights *w, AttnWeight weight, size_t i) {
    const Config *config = model_config(model);
    const Weights *all = model_weights(model);
    const AttentionWeights *attention = &w->attention;
    const MlpWeights *mlp = w->experts.n_expert ? &w->experts.experts[i] : &w->mlp;
    const size_t n_head = config->n_head, n_head_kv = config->n_head_kv, d_head = config->d_head,
                 d = config->d_model;
    const bool gated = config->family->gated_attention;
    switch (weight) {
    case ATTN_LN1_W: return gain_of(all, &w->attn_norm);
    case ATTN_LN1_B: return floats(w->attn_norm.bias, 1, d);
    case ATTN_W_Q: return gated ? rows_of(&attention->q.w, 2 * i * d_head, d_head) : attention->q.w;
    case ATTN_B_Q:
        return gated && attention->q.bias ? floats(attention->q.bias + 2 * i * d_head, 1, d_head)
                                          : floats(attention->q.bias, n_head, d_head);
    case ATTN_W_K: return attention->k.w;
    case ATTN_B_K: return floats(attention->k.bias, n_head_kv, d_head);
    case ATTN_W_V: return attention->v.w;
    case ATTN_B_V: return floats(attention->v.bias, n_head_kv, d_head);
    case ATTN_Q_NORM_W: return head_gain(&attention->q_norm, n_head, d_head);
    case ATTN_K_NORM_W: return head_gain(&attention->k_norm, n_head_kv, d_head);
    case ATTN_W_O: return attention->out.w;
    case ATTN_B_O: return floats(attention->out.bias, 1, d);
    case ATTN_LN1_POST_W: return gain_of(all, &w->attn_post_norm);
    case ATTN_LN1_POST_B: return floats(w->attn_post_norm.bias, 1, d);
    case ATTN_LN2_W: return gain_of(all, &w->mlp_norm);
    case ATTN_LN2_B: return floats(w->mlp_norm.bias, 1, d);
    case ATTN_W_ROUTER: return w->experts.router.w;
    case ATTN_B_ROUTER: return floats(w->experts.router.bias, 1, w->experts.n_expert);
    case ATTN_W_GATE: return mlp->gate.w;
    case ATTN_B_GATE: return floats(mlp->gate.bias, 1, mlp->gate.w.rows);
    case ATTN_W_IN: return mlp->up.w;
    case ATTN_B_IN: return floats(mlp->up.bias, 1, mlp->up.w.rows);
    case ATTN_W_OUT: return mlp->down.w;
    case ATTN_B_OUT: return floats(mlp->down.bias, 1, d);
    case ATTN_LN2_POST_W: return gain_of(all, &w->mlp_post_norm);
    case ATTN_LN2_POST_B: return floats(w->mlp_post_norm.bias, 1, d);
    default: return (Matrix){0};
    }
}

static Matrix part_of(const Model *model, AttnWeight weight, size_t layer, size_t i) {
    const Config *config = model_config(model);
    const Weights *all = model_weights(model);
    const size_t d = config->d_model;
    switch (weight) {
    case ATTN_W_E: return all->embedding;
    case ATTN_W_POS: return rows_of(&all->positions, config->position_offset, config->n_ctx);
    case ATTN_EMBED_LN_W: return gain_of(all, &all->embedding_norm);
    case ATTN_EMBED_LN_B: return floats(all->embedding_norm.bias, 1, d);
    case ATTN_LN_FINAL_W: return gain_of(all, &all->final_norm);
    case ATTN_LN_FINAL_B: return floats(all->final_norm.bias, 1, d);
    case ATTN_W_U: return all->unembedding.w;
    case ATTN_B_U: return floats(all->unembedding.bias, 1, config->n_vocab);
    default: return layer_part(model, &all->layers[layer], weight, i);
    }
}

static bool give_weight(const Model *model, AttnWeight weight, size_t layer, size_t first, size_t n,
                        float *rows, AttnMatrix *shape, Error *error) {
    const size_t n_layer = model_config(model)->n_layer;
    if ((size_t)weight >= N_WEIGHTS)
        return error_set(error, "there is no weight %d (see AttnWeight)", (int)weight);
    if (layer >= n_layer) return error_set(error, "there is no layer %zu: the model has %zu", layer, n_layer);
    size_t n_parts = count_parts(model_config(model), &model_weights(model)->layers[layer], weight);
    Matrix part = part_of(model, weight, layer, 0);
    if (!part.data) return error_set(error, "layer %zu has no %s", layer, weight_names[weight]);
    AttnMatrix whole = {n_parts * part.rows, part.cols};
    if (n > whole.n_rows || first > whole.n_rows - n)
        return error_set(error, "%s has %zu rows, not %zu from row %zu on", weight_names[weight],
                         whole.n_rows, n, first);
    const Kernels *kernels = kernels_pick(NULL, error);
    for (size_t i = 0; kernels && i < n; i++) {
        const size_t row = first + i;
        part = part_of(model, weight, layer, row / part.rows);
        kernels->unpack(rows + i * part.cols, part.dtype, rows_of(&part, row % part.rows, 1).data, part.cols);
    }
    if (kernels && shape) *shape = whole;
    return kernels;
}

bool attn_weight(const AttnModel *model, AttnWeight weight, size_t layer, size_t first, size_t n, float *rows,
                 AttnMatrix *shape, AttnError *error) {
    Error inner;
    if (!model) return false;
    return give_weight(model->model, weight, layer, first, n, rows, shape, &inner) || tell(error, &inner);
}

size_t attn_model_n_paired(const AttnModel *model) {
    if (!model) return 0;
    const Config *config = model_config(model->model);
    bool paired = config->rope.pairing == ROPE_NEIGHBOURS && !config->family->trained_neighbours;
    return paired ? config->rope.dim : 0;
}

static bool has_tokenizer(const AttnModel *model, AttnError *error) {
    return model->tokenizer || refuse(error, "the model has no vocabulary: name one in AttnModelOptions");
}

/* Gives as many of the tokens as there is room for, if all is well, and frees them. */
static bool give_tokens(bool ok, Tokens *all, int32_t *tokens, size_t capacity, size_t *n_tokens) {
    size_t fits = all->n < capacity ? all->n : capacity;
    if (ok && fits > 0) memcpy(tokens, all->ids, fits * sizeof *tokens);
    if (ok) *n_tokens = all->n;
    tokens_free(all);
    return ok;
}

bool attn_tokenize(const AttnModel *model, const char *text, size_t n, unsigned flags, int32_t *tokens,
                   size_t capacity, size_t *n_tokens, AttnError *error) {
    Tokens all = {0};
    Error inner;
    if (!model || !has_tokenizer(model, error)) return false;
    unsigned inner_flags = (flags & ATTN_TOKENIZE_ENDS ? ENCODE_ENDS : 0u) |
                           (flags & ATTN_TOKENIZE_SPECIAL ? ENCODE_SPECIAL : 0u);
    bool ok = tokenizer_encode(model->tokenizer, text, n, inner_flags, &all, &inner) || tell(error, &inner);
    return give_tokens(ok, &all, tokens, capacity, n_tokens);
}

static String string_of(const char *text) { return (String){text ? text : "", text ? strlen(text) : 0}; }

static bool chat(const AttnModel *model, const AttnMessage *messages, size_t n,
                 const AttnChatOptions *options, Tokens *all, Error *error) {
    for (size_t i = 0; i < n; i++)
        if (!messages[i].role || !messages[i].content)
            return error_set(error, "message %zu has no role, or no content", i + 1);
    const String source = string_of(options->source);
    Template *template =
        conversation_template(model_checkpoint(model->model), options->source ? &source : NULL, error);
    ChatMessage *inner = template ? malloc(n * sizeof *inner) : NULL;
    if (template && !inner) error_set(error, "not enough memory for the conversation");
    for (size_t i = 0; inner && i < n; i++)
        inner[i] = (ChatMessage){string_of(messages[i].role), string_of(messages[i].content),
                                 string_of(messages[i].thoughts)};
    bool ok = inner &&
              conversation_encode(template, model->tokenizer, inner, n, !options->complete, all, NULL, error);
    free(inner);
    template_free(template);
    return ok;
}

bool attn_chat(const AttnModel *model, const AttnMessage *messages, size_t n_messages,
               const AttnChatOptions *options, int32_t *tokens, size_t capacity, size_t *n_tokens,
               AttnError *error) {
    static const AttnChatOptions usual;
    Tokens all = {0};
    Error inner;
    if (!model || !has_tokenizer(model, error)) return false;
    if (n_messages == 0) return refuse(error, "the conversation has no messages");
    bool ok =
        chat(model, messages, n_messages, options ? options : &usual, &all, &inner) || tell(error, &inner);
    return give_tokens(ok, &all, tokens, capacity, n_tokens);
}

const char *attn_token_text(const AttnModel *model, int32_t token, size_t *n) {
    String piece = {"", 0};
    if (model && model->tokenizer) piece = tokenizer_piece(model->tokenizer, token, true);
    *n = piece.n;
    return piece.n ? piece.data : "";
}

int32_t attn_token_bos(const AttnModel *model) {
    return model && model->tokenizer ? tokenizer_bos(model->tokenizer) : -1;
}

int32_t attn_token_eos(const AttnModel *model) {
    return model && model->tokenizer ? tokenizer_eos(model->tokenizer) : -1;
}

bool attn_token_is_end(const AttnModel *model, int32_t token) {
    return model && model->tokenizer && tokenizer_is_end(model->tokenizer, token);
}

const char *attn_site_name(AttnSite site) {
    return (unsigned)site < PROBE_N_SITES ? probe_site_name((ProbeSite)site) : "";
}

static bool probe_wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const AttnProbe *probe = user;
    return !probe->wants || probe->wants(probe->user, (AttnSite)site, layer, head);
}

static AttnActivation activation_of(const Activation *seen) {
    return (AttnActivation){.site = (AttnSite)seen->site,
                            .layer = seen->layer,
                            .head = seen->head,
                            .position = seen->position,
                            .n_rows = seen->n_rows,
                            .n_cols = seen->n_cols,
                            .stride = seen->stride,
                            .data = seen->data};
}

static void probe_visit(void *user, const Activation *seen) {
    const AttnProbe *probe = user;
    const AttnActivation activation = activation_of(seen);
    probe->visit(probe->user, &activation);
}

void attn_copy(void *user, const AttnActivation *seen) {
    const AttnCopies *copies = user;
    const AttnCopy *to = &copies->places[(size_t)seen->site * (copies->n_layer + 1) + seen->layer];
    if (!to->data) {
        if (copies->visit) copies->visit(copies->user, seen);
        return;
    }
    float *first = to->data + seen->head * to->head + seen->position * to->row;
    for (size_t i = 0; i < seen->n_rows; i++)
        memcpy(first + i * to->row, seen->data + i * seen->stride, seen->n_cols * sizeof *first);
}

static bool find_cache(AttnCache cache, DType *dtype, Error *error) {
    static const DType caches[] = {
        [ATTN_CACHE_F16] = DTYPE_F16, [ATTN_CACHE_F32] = DTYPE_F32, [ATTN_CACHE_Q8_0] = DTYPE_Q8_0};
    if ((size_t)cache >= sizeof caches / sizeof *caches)
        return error_set(error, "there is no cache %d (see AttnCache)", (int)cache);
    *dtype = caches[cache];
    return true;
}

static unsigned count_threads(const AttnSessionOptions *options) {
    return options->n_threads ? options->n_threads : threads_physical_cores();
}

bool attn_session_memory(const AttnModel *model, const AttnSessionOptions *options, AttnMemory *memory,
                         AttnError *error) {
    static const AttnSessionOptions usual;
    Error why;
    SessionBytes bytes;
    if (!model) return false;
    if (!options) options = &usual;
    SessionOptions inner = {.n_ctx = options->n_ctx, .whole_cache = true};
    if (!find_cache(options->cache, &inner.kv_dtype, &why) ||
        !session_measure(model->model, &inner, count_threads(options), &bytes, &why))
        return tell(error, &why);
    *memory = (AttnMemory){.cache = bytes.cache, .rest = bytes.rest};
    return true;
}

/* Options as a session beside another has them. */
static AttnSessionOptions options_beside(const AttnSessionOptions *given) {
    const AttnSession *beside = given->beside;
    AttnSessionOptions options = *given;
    if (!beside) return options;
    options.n_ctx = session_n_ctx(beside->session);
    options.n_threads = threads_count(beside->threads);
    options.cache = beside->options.cache;
    options.fast = beside->options.fast;
    return options;
}

static bool open_session(AttnSession *session, const AttnSessionOptions *options, Error *error) {
    const AttnSession *beside = options->beside;
    SessionOptions inner = {.n_ctx = options->n_ctx,
                            .whole_cache = true,
                            .probe = options->probe.visit ? &session->inner : NULL,
                            .stop = options->stop,
                            .stop_user = options->stop_user};
    if (!find_cache(options->cache, &inner.kv_dtype, error)) return false;
    session->kernels = options->fast ? kernels_fastest() : kernels_pick(NULL, NULL);
    session->options = *options;
    session->threads = beside ? beside->threads : threads_new(count_threads(options), error);
    if (!session->threads) return false;
    session->inner = (Probe){&session->options.probe, probe_wants, probe_visit};
    inner.compute = (Compute){.kernels = session->kernels, .threads = session->threads};
    inner.beside = beside ? beside->session : NULL;
    session->session = session_new(session->model->model, &inner, error);
    return session->session;
}

AttnSession *attn_session_new(const AttnModel *model, const AttnSessionOptions *options, AttnError *error) {
    static const AttnSessionOptions usual;
    Error inner = {"not enough memory for a session"};
    if (!model) return NULL;
    const AttnSessionOptions wanted = options_beside(options ? options : &usual);
    if (wanted.beside && wanted.beside->model != model) {
        refuse(error, "the session beside this one is of another model");
        return NULL;
    }
    AttnSession *session = calloc(1, sizeof *session);
    if (session) session->model = model;
    if (session && open_session(session, &wanted, &inner)) return session;
    tell(error, &inner);
    attn_session_free(session);
    return NULL;
}

AttnSession *attn_session_fork(AttnSession *session, const AttnSessionOptions *options, AttnError *error) {
    Error inner;
    if (!session) return NULL;
    AttnSession *fork = attn_session_new(session->model, options ? options : &session->options, error);
    if (!fork || snapshot_copy(fork->session, session->session, &inner)) return fork;
    tell(error, &inner);
    attn_session_free(fork);
    return NULL;
}

size_t attn_session_bytes(const AttnSession *session) {
    return session ? snapshot_bytes(session->session) : 0;
}

bool attn_session_save(AttnSession *session, bool (*write)(void *user, const void *bytes, size_t n),
                       void *user, AttnError *error) {
    Error inner;
    if (!session) return false;
    return snapshot_save(session->session, write, user, &inner) || tell(error, &inner);
}

bool attn_session_restore(AttnSession *session, bool (*read)(void *user, void *bytes, size_t n), void *user,
                          AttnError *error) {
    Error inner;
    if (!session) return false;
    return snapshot_restore(session->session, read, user, &inner) || tell(error, &inner);
}

void attn_session_free(AttnSession *session) {
    if (!session) return;
    session_free(session->session);
    if (!session->options.beside) threads_free(session->threads);
    free(session);
}

const int32_t *attn_session_tokens(const AttnSession *session, size_t *n) {
    *n = session ? session_position(session->session) : 0;
    return session ? session_tokens(session->session) : NULL;
}

size_t attn_session_n_ctx(const AttnSession *session) {
    return session ? session_n_ctx(session->session) : 0;
}

void attn_rewind(AttnSession *session, size_t position) {
    if (session) session_rewind(session->session, position);
}

bool attn_feed(AttnSession *session, const int32_t *tokens, size_t n, float *logits, size_t n_logits,
               AttnError *error) {
    Error inner;
    if (!session) return false;
    if (n == 0) return refuse(error, "no tokens are given to feed");
    if (n_logits > n) {
        error_set(&inner, "logits of %zu tokens are wanted, but %zu are fed", n_logits, n);
        return tell(error, &inner);
    }
    return session_feed(session->session, tokens, n, logits, n_logits, &inner) || tell(error, &inner);
}

/* Whether a part may be fed with those before it. */
static bool check_part(const AttnPart *parts, size_t i, Error *error) {
    const AttnPart *part = &parts[i];
    if (!part->session) return error_set(error, "part %zu has no session", i);
    if (part->n == 0) return error_set(error, "part %zu has no tokens to feed", i);
    if (part->n_logits > part->n)
        return error_set(error, "logits of %zu tokens are wanted, but %zu are fed", part->n_logits, part->n);
    if (part->session->model != parts->session->model || part->session->kernels != parts->session->kernels)
        return error_set(error, "part %zu is of another model, or of a session with another `fast`", i);
    for (size_t k = 0; k < i; k++)
        if (parts[k].session == part->session)
            return error_set(error, "parts %zu and %zu are of one session", k, i);
    return true;
}

bool attn_feed_many(const AttnPart *parts, size_t n_parts, AttnError *error) {
    Error inner = {"not enough memory for the parts"};
    FeedPart *own = calloc(n_parts + 1, sizeof *own);
    bool ok = own;
    for (size_t i = 0; ok && i < n_parts; i++) {
        ok = check_part(parts, i, &inner);
        if (ok)
            own[i] = (FeedPart){parts[i].session->session, parts[i].tokens, parts[i].n, parts[i].logits,
                                parts[i].n_logits};
    }
    ok = ok && session_feed_many(own, n_parts, &inner);
    free(own);
    return ok || tell(error, &inner);
}

bool attn_sync(AttnSession *session, const int32_t *tokens, size_t n, float *logits, AttnError *error) {
    Error inner;
    if (!session) return false;
    if (n == 0) return refuse(error, "no tokens are given to feed");
    return session_sync(session->session, tokens, n, logits, &(Feed){0}, &inner) || tell(error, &inner);
}

bool attn_hidden(AttnSession *session, const int32_t *tokens, size_t n, float *hidden, AttnError *error) {
    if (!attn_sync(session, tokens, n, NULL, error)) return false;
    session_hidden(session->session, hidden);
    for (size_t i = 0; i < model_config(session->model->model)->d_model; i++)
        if (!isfinite(hidden[i])) return refuse(error, "the hidden state is not finite (see attn_feed)");
    return true;
}

bool attn_unembed(const AttnSession *session, const float *resid, size_t n, float *logits) {
    if (!session) return false;
    session_unembed(session->session, resid, n, logits);
    return true;
}

/* A way there and back. */
typedef struct Way {
    const AttnSession *session;
    const AttnTerm *terms;
    size_t n_terms;
    const AttnGradientProbe *probe;
    float **streams; /* [n_layer + 1] each [n][d_model]; backward.h */
    double value;
} Way;

static bool wants_stream(void *user, ProbeSite site, size_t layer, size_t head) {
    const Way *way = user;
    (void)head;
    return backward_is_stream(way->session->model->model, site, layer);
}

static void keep_stream(void *user, const Activation *seen) { backward_keep(((Way *)user)->streams, seen); }

static bool wants_gradient(void *user, ProbeSite site, size_t layer, size_t head) {
    const AttnGradientProbe *probe = ((Way *)user)->probe;
    return site < PROBE_N_SITES && (!probe->wants || probe->wants(probe->user, (AttnSite)site, layer, head));
}

static void visit_gradient(void *user, const Activation *seen, float *gradient) {
    const AttnGradientProbe *probe = ((Way *)user)->probe;
    const AttnActivation activation = activation_of(seen);
    probe->visit(probe->user, &activation, gradient);
}

/*
 * A row of logits becomes the gradient of its terms: Σ weight·(one at the token), less, for those of ln p, Σ weight·softmax.
 */
static void differentiate(Way *way, size_t position, float *logits, size_t n_vocab) {
    double logprobs = 0, max = -INFINITY, sum = 0; /* logprobs: the weight of all terms of ln p */
    for (size_t i = 0; i < way->n_terms; i++)
        if (way->terms[i].position == position && way->terms[i].logprob) logprobs += way->terms[i].weight;
    for (size_t i = 0; i < n_vocab; i++) max = fmax(max, (double)logits[i]);
    for (size_t i = 0; i < n_vocab; i++) sum += exp((double)logits[i] - max);
    for (size_t i = 0; i < way->n_terms; i++) {
        const AttnTerm *term = &way->terms[i];
        if (term->position != position) continue;
        way->value += term->weight * ((double)logits[term->token] - (term->logprob ? max + log(sum) : 0));
    }
    for (size_t i = 0; i < n_vocab; i++) logits[i] = (float)(-logprobs * exp((double)logits[i] - max) / sum);
    for (size_t i = 0; i < way->n_terms; i++)
        if (way->terms[i].position == position) logits[way->terms[i].token] += (float)way->terms[i].weight;
}

static bool logits_gradient(void *user, size_t position, size_t n, float *logits, Error *error) {
    Way *way = user;
    const size_t n_vocab = model_config(way->session->model->model)->n_vocab;
    for (size_t i = 0; i < n; i++) differentiate(way, position + i, logits + i * n_vocab, n_vocab);
    return isfinite(way->value) || error_set(error, "the metric is not finite (see attn_feed)");
}

static bool check_terms(const Way *way, size_t n, Error *error) {
    const size_t n_vocab = model_config(way->session->model->model)->n_vocab;
    if (way->n_terms == 0) return error_set(error, "the metric has no terms");
    for (size_t i = 0; i < way->n_terms; i++) {
        const AttnTerm *term = &way->terms[i];
        if (term->position >= n)
            return error_set(error, "term %zu is of position %zu, but there are %zu tokens", i + 1,
                             term->position, n);
        if (term->token < 0 || (size_t)term->token >= n_vocab)
            return error_set(error, "term %zu is of token %d, which is outside the vocabulary of %zu", i + 1,
                             (int)term->token, n_vocab);
    }
    return true;
}

static bool go_there(Way *way, AttnSession *session, const int32_t *tokens, size_t n, Error *error) {
    const Probe keeper = {way, wants_stream, keep_stream};
    session_rewind(session->session, 0);
    session_watch(session->session, &keeper);
    bool ok = session_feed(session->session, tokens, n, NULL, 0, error);
    session_watch(session->session, session->options.probe.visit ? &session->inner : NULL);
    return ok;
}

static bool go_back(Way *way, size_t n, Error *error) {
    const AttnSession *session = way->session;
    const GradientProbe probe = {way, wants_gradient, visit_gradient};
    Backward task = {.model = session->model->model,
                     .compute = {.kernels = session->kernels, .threads = session->threads},
                     .n = n,
                     .n_ctx = session_n_ctx(session->session),
                     .streams = way->streams,
                     .first_logits = n,
                     .logits_gradient = logits_gradient,
                     .user = way,
                     .probe = way->probe ? &probe : NULL,
                     .lowest = way->probe ? 0 : model_config(session->model->model)->n_layer,
                     .stop = session->options.stop,
                     .stop_user = session->options.stop_user};
    for (size_t i = 0; i < way->n_terms; i++)
        if (way->terms[i].position < task.first_logits) task.first_logits = way->terms[i].position;
    return backward_run(&task, error);
}

static bool there_and_back(Way *way, AttnSession *session, const int32_t *tokens, size_t n, Error *error) {
    const Config *config = model_config(session->model->model);
    const size_t n_ctx = session_n_ctx(session->session);
    if (n > n_ctx) return error_set(error, "%zu tokens are more than the context of %zu holds", n, n_ctx);
    if (!check_terms(way, n, error)) return false;
    way->streams = calloc(config->n_layer + 1, sizeof *way->streams);
    float *all = floats_new((config->n_layer + 1) * n, config->d_model);
    bool ok =
        (way->streams && all) || error_set(error, "not enough memory for the way back of %zu tokens", n);
    for (size_t layer = 0; ok && layer <= config->n_layer; layer++)
        way->streams[layer] = all + layer * n * config->d_model;
    ok = ok && go_there(way, session, tokens, n, error) && go_back(way, n, error);
    free(way->streams);
    free(all);
    return ok;
}

bool attn_gradient(AttnSession *session, const int32_t *tokens, size_t n, const AttnTerm *terms,
                   size_t n_terms, const AttnGradientProbe *probe, double *value, AttnError *error) {
    Error inner;
    if (!session) return false;
    if (n == 0) return refuse(error, "no tokens are given to feed");
    Way way = {.session = session, .terms = terms, .n_terms = n_terms, .probe = probe};
    if (!there_and_back(&way, session, tokens, n, &inner)) return tell(error, &inner);
    if (value) *value = way.value;
    return true;
}

static SamplerOptions sampler_options(const AttnSampling *sampling) {
    return (SamplerOptions){.temperature = sampling->temperature,
                            .top_k = sampling->top_k,
                            .top_p = sampling->top_p,
                            .min_p = sampling->min_p,
                            .repeat_penalty = sampling->repeat_penalty != 0 ? sampling->repeat_penalty : 1,
                            .presence_penalty = sampling->presence_penalty,
                            .frequency_penalty = sampling->frequency_penalty,
                            .penalty_window = sampling->penalty_window ? sampling->penalty_window : 64,
                            .seed = sampling->seed,
                            .order = sampling->order};
}

bool attn_sampling(const AttnModel *model, AttnSampling *sampling, AttnError *error) {
    SamplerOptions options = SAMPLING_UNSET;
    Error inner;
    if (!model) return false;
    if (!sampling_settle(&options, model_checkpoint(model->model), NULL, &inner)) return tell(error, &inner);
    bool penalises = options.penalty_window > 0; /* a window of 0 is the usual one there */
    *sampling = (AttnSampling){.repeat_penalty = penalises ? options.repeat_penalty : 1,
                               .penalty_window = options.penalty_window,
                               .temperature = options.temperature,
                               .top_k = options.top_k,
                               .top_p = options.top_p,
                               .min_p = options.min_p,
                               .order = options.order};
    return true;
}

AttnSampler *attn_sampler_new(const AttnModel *model, const AttnSampling *sampling, AttnError *error) {
    static const AttnSampling usual;
    Error inner = {"not enough memory for a sampler"};
    if (!model) return NULL;
    AttnSampler *sampler = calloc(1, sizeof *sampler);
    SamplerOptions options = sampler_options(sampling ? sampling : &usual);
    if (sampler) sampler->n_vocab = model_config(model->model)->n_vocab;
    if (sampler) sampler->sampler = sampler_new(&options, sampler->n_vocab, &inner);
    if (sampler && sampler->sampler) return sampler;
    tell(error, &inner);
    attn_sampler_free(sampler);
    return NULL;
}

void attn_sampler_free(AttnSampler *sampler) {
    if (!sampler) return;
    sampler_free(sampler->sampler);
    free(sampler);
}

int32_t attn_sample(AttnSampler *sampler, const float *logits) {
    if (!sampler) return -1;
    int32_t id = sampler_next(sampler->sampler, logits);
    sampler_accept(sampler->sampler, id);
    return id;
}

void attn_sampler_accept(AttnSampler *sampler, int32_t token) {
    if (sampler && token >= 0 && (size_t)token < sampler->n_vocab) sampler_accept(sampler->sampler, token);
}

/* A caller's callbacks, and what they are told of. Once one has said false they are left alone. */
typedef struct Listener {
    const AttnGenerateOptions *options;
    const Generator *generator;
    size_t n_vocab;
    bool left;
} Listener;

static bool give_piece(void *user, int32_t id, const char *text, size_t n) {
    Listener *listener = user;
    const AttnGenerateOptions *options = listener->options;
    if (listener->left) return true;
    const float *logits = generator_logits(listener->generator);
    bool goes_on = id < 0 || !options->token ||
                   options->token(options->user, id, sampler_logprob(logits, listener->n_vocab, id));
    goes_on = goes_on && (n == 0 || !options->text || options->text(options->user, text, n));
    listener->left = !goes_on;
    return goes_on;
}

static bool generate(AttnSession *session, const int32_t *tokens, size_t n,
                     const AttnGenerateOptions *options, TextEnd *end, Error *error) {
    const AttnModel *model = session->model;
    const GeneratorOptions inner = {.sampling = sampler_options(&options->sampling),
                                    .stop = options->stop,
                                    .n_stop = options->n_stop,
                                    .special = options->special,
                                    .shift = options->shift,
                                    .speculate = (Speculate)options->speculate};
    Generator *generator = generator_new(model->model, model->tokenizer, session->session, &inner, error);
    Listener listener = {options, generator, model_config(model->model)->n_vocab, false};
    size_t most = options->n_tokens ? options->n_tokens : 256;
    bool ok = generator && generator_sync(generator, tokens, n, &(Feed){0}, error) &&
              generator_run(generator, most, give_piece, &listener, end, error);
    generator_free(generator);
    return ok;
}

bool attn_generate_from(AttnSession *session, const int32_t *tokens, size_t n,
                        const AttnGenerateOptions *options, AttnEnd *end, AttnError *error) {
    static const AttnGenerateOptions usual;
    Error inner;
    TextEnd inner_end;
    if (!session || !has_tokenizer(session->model, error)) return false;
    if (n == 0) return refuse(error, "the prompt has no tokens");
    for (size_t i = 0; options && i < options->n_stop; i++)
        if (!options->stop[i] || !options->stop[i][0]) return refuse(error, "a stop text needs some text");
    if (!generate(session, tokens, n, options ? options : &usual, &inner_end, &inner))
        return tell(error, &inner);
    if (end) *end = (AttnEnd)inner_end;
    return true;
}

bool attn_generate(AttnSession *session, const char *prompt, const AttnGenerateOptions *options, AttnEnd *end,
                   AttnError *error) {
    Tokens tokens = {0};
    Error inner;
    if (!session || !has_tokenizer(session->model, error)) return false;
    if (!prompt) return refuse(error, "no prompt is given");
    const Tokenizer *tokenizer = session->model->tokenizer;
    unsigned flags = ENCODE_ENDS | (options && options->special ? ENCODE_SPECIAL : 0u);
    bool ok = (tokenizer_encode(tokenizer, prompt, strlen(prompt), flags, &tokens, &inner) &&
               prompt_or_bos(tokenizer, &tokens, &inner) &&
               (tokens.n > 0 ||
                error_set(&inner, "the prompt is empty, and the vocabulary has no token to begin with"))) ||
              tell(error, &inner);
    ok = ok && attn_generate_from(session, tokens.ids, tokens.n, options, end, error);
    tokens_free(&tokens);
    return ok;
}
