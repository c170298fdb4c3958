/*
 * The public face: attn.h's words for the engine's own, with the vocabulary and the pool of threads that belong to them. Here
 * are models, tokens and sessions; attn_weights.c, attn_gradient.c and attn_generate.c have what their names say.
 */
#include "attn_inner.h"

#include "conversation.h"
#include "open.h"
#include "snapshot.h"
#include "vocabulary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)ATTN_RESID_PRE == PROBE_RESID_PRE && (int)ATTN_PATTERN == PROBE_PATTERN &&
                   (int)ATTN_RESID_POST == PROBE_RESID_POST && (int)ATTN_LOGITS == PROBE_LOGITS &&
                   PROBE_N_SITES == ATTN_LOGITS + 1,
               "sites have the same numbers inside and outside");

const char *attn_version(void) { return ATTN_VERSION; }

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

/* Opens the file at path, or what is given if that is not NULL. */
static AttnModel *open_model(const char *path, const GivenFile *given, const AttnModelOptions *options,
                             AttnError *error) {
    Error inner;
    fenv_t callers;
    AttnModel *model = calloc(1, sizeof *model);
    if (!model) error_set(&inner, "%s: not enough memory", path);
    default_floats(&callers);
    if (model)
        model->model =
            given ? model_of(checkpoint_open_given(path, given, &inner), &inner) : model_open(path, &inner);
    bool ok = model && model->model && open_tokenizer(model, options ? options->tokenizer : NULL, &inner);
    fesetenv(&callers);
    if (ok) return model;
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

size_t attn_model_n_paired(const AttnModel *model) {
    if (!model) return 0;
    const Config *config = model_config(model->model);
    bool paired = config->rope.pairing == ROPE_NEIGHBOURS && !config->family->trained_neighbours;
    return paired ? config->rope.dim : 0;
}

size_t attn_model_n_striped(const AttnModel *model) {
    if (!model) return 0;
    const StateShape *shape = &model_config(model->model)->state;
    return shape->grouped ? 0 : shape->n_key_head;
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
    fenv_t callers;
    if (!model || !has_tokenizer(model, error)) return false;
    if (flags & ~(unsigned)(ATTN_TOKENIZE_ENDS | ATTN_TOKENIZE_SPECIAL))
        return refuse(error, "attn_tokenize knows no such flags");
    unsigned inner_flags = (flags & ATTN_TOKENIZE_ENDS ? ENCODE_ENDS : 0u) |
                           (flags & ATTN_TOKENIZE_SPECIAL ? ENCODE_SPECIAL : 0u);
    default_floats(&callers);
    bool ok = tokenizer_encode(model->tokenizer, text, n, inner_flags, &all, &inner) || tell(error, &inner);
    fesetenv(&callers);
    return give_tokens(ok, &all, tokens, capacity, n_tokens);
}

static String given(const char *text) { return string_from(text ? text : ""); }

static bool chat(const AttnModel *model, const AttnMessage *messages, size_t n,
                 const AttnChatOptions *options, Tokens *all, Error *error) {
    for (size_t i = 0; i < n; i++)
        if (!messages[i].role || !messages[i].content)
            return error_set(error, "message %zu has no role, or no content", i + 1);
    const String source = given(options->source);
    Json *variables = NULL;
    if (options->variables &&
        !(variables = conversation_variables(options->variables, "AttnChatOptions.variables", error)))
        return false;
    Template *template =
        conversation_template(model_checkpoint(model->model), options->source ? &source : NULL, error);
    ChatMessage *inner = template ? malloc(n * sizeof *inner) : NULL;
    if (template && !inner) error_set(error, "not enough memory for the conversation");
    for (size_t i = 0; inner && i < n; i++)
        inner[i] =
            (ChatMessage){given(messages[i].role), given(messages[i].content), given(messages[i].thoughts)};
    bool ok = inner && conversation_encode(template, model->tokenizer, inner, n, variables,
                                           !options->complete, all, NULL, error);
    free(inner);
    template_free(template);
    json_free(variables);
    return ok;
}

bool attn_chat(const AttnModel *model, const AttnMessage *messages, size_t n_messages,
               const AttnChatOptions *options, int32_t *tokens, size_t capacity, size_t *n_tokens,
               AttnError *error) {
    static const AttnChatOptions usual;
    Tokens all = {0};
    Error inner;
    fenv_t callers;
    if (!model || !has_tokenizer(model, error)) return false;
    if (n_messages == 0) return refuse(error, "the conversation has no messages");
    default_floats(&callers);
    bool ok =
        chat(model, messages, n_messages, options ? options : &usual, &all, &inner) || tell(error, &inner);
    fesetenv(&callers);
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

/* Options as a session beside another has them. */
static bool options_of(AttnSessionOptions *options, const AttnModel *model, const AttnSessionOptions *given,
                       AttnError *error) {
    const AttnSession *beside = given ? given->beside : NULL;
    *options = given ? *given : (AttnSessionOptions){0};
    if (!beside) return true;
    if (beside->model != model) return refuse(error, "the session beside this one is of another model");
    options->n_ctx = session_n_ctx(beside->session);
    options->n_threads = threads_count(beside->threads);
    options->cache = beside->options.cache;
    options->fast = beside->options.fast;
    return true;
}

bool attn_session_memory(const AttnModel *model, const AttnSessionOptions *options, AttnMemory *memory,
                         AttnError *error) {
    Error why;
    SessionBytes bytes;
    AttnSessionOptions wanted;
    if (!model || !options_of(&wanted, model, options, error)) return false;
    SessionOptions inner = {.n_ctx = wanted.n_ctx, .whole_cache = true};
    if (wanted.beside) inner.beside = wanted.beside->session;
    if (!find_cache(wanted.cache, &inner.kv_dtype, &why) ||
        !session_measure(model->model, &inner, count_threads(&wanted), &bytes, &why))
        return tell(error, &why);
    *memory = (AttnMemory){.cache = bytes.cache, .rest = bytes.rest};
    return true;
}

static bool open_session(AttnSession *session, const AttnSessionOptions *options, Error *error) {
    const AttnSession *beside = options->beside;
    fenv_t callers;
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
    default_floats(&callers);
    session->session = session_new(session->model->model, &inner, error);
    fesetenv(&callers);
    return session->session;
}

AttnSession *attn_session_new(const AttnModel *model, const AttnSessionOptions *options, AttnError *error) {
    Error inner = {"not enough memory for a session"};
    AttnSessionOptions wanted;
    if (!model || !options_of(&wanted, model, options, error)) return NULL;
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
    saved_free(&session->saved);
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
    if (part->n == 0) return error_set(error, "part %zu has no tokens to feed", i);
    if (part->n_logits > part->n)
        return error_set(error, "part %zu: logits of %zu tokens are wanted, but %zu are fed", i,
                         part->n_logits, part->n);
    if (part->session->model != parts->session->model || part->session->kernels != parts->session->kernels)
        return error_set(error, "part %zu is of another model, or of a session with another `fast`", i);
    for (size_t k = 0; k < i; k++)
        if (parts[k].session == part->session)
            return error_set(error, "parts %zu and %zu are of one session", k, i);
    return true;
}

bool attn_feed_many(const AttnPart *parts, size_t n_parts, AttnError *error) {
    Error inner = {"not enough memory for the parts"};
    for (size_t i = 0; i < n_parts; i++)
        if (!parts[i].session) return false;
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
    fenv_t callers;
    if (!attn_sync(session, tokens, n, NULL, error)) return false;
    default_floats(&callers);
    session_hidden(session->session, hidden);
    fesetenv(&callers);
    for (size_t i = 0; i < model_config(session->model->model)->d_model; i++)
        if (!isfinite(hidden[i])) {
            session_rewind(session->session, 0); /* as the call can be made again */
            return refuse(error, "the hidden state is not finite");
        }
    return true;
}

bool attn_unembed(const AttnSession *session, const float *resid, size_t n, float *logits) {
    fenv_t callers;
    if (!session) return false;
    default_floats(&callers);
    session_unembed(session->session, resid, n, logits);
    fesetenv(&callers);
    return true;
}
