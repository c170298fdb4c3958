/* The public face: attn.h's words for the engine's own, with the vocabulary and the pool of threads that belong to them. */
#include "attn.h"

#include "generate.h"
#include "sampling.h"

#include <stdlib.h>
#include <string.h>

struct AttnModel {
    Model *model;
    Checkpoint *vocabulary; /* the file that was named for it, or NULL */
    Tokenizer *tokenizer;   /* NULL: the file has none, and tokens are all that it can be fed */
};

struct AttnSession {
    const AttnModel *model;
    Threads *threads;
    Session *session;
    AttnProbe probe;
    Probe inner; /* what the engine calls, and what calls `probe` */
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

/* Without a vocabulary a model can be fed tokens, so that only a named one must be there. */
static bool open_tokenizer(AttnModel *model, const char *path, Error *error) {
    const Checkpoint *own = model_checkpoint(model->model);
    if (!path && !checkpoint_has_vocabulary(own)) return true;
    model->tokenizer = tokenizer_open(path, own, &model->vocabulary, error);
    return model->tokenizer && vocabulary_fits(model->model, model->tokenizer, path, error);
}

AttnModel *attn_model_open(const char *path, const AttnModelOptions *options, AttnError *error) {
    Error inner = {"no file is named"};
    AttnModel *model = path ? calloc(1, sizeof *model) : NULL;
    if (path && !model) error_set(&inner, "%s: not enough memory", path);
    if (model) model->model = model_open(path, &inner);
    if (model && model->model && open_tokenizer(model, options ? options->tokenizer : NULL, &inner))
        return model;
    tell(error, &inner);
    attn_model_close(model);
    return NULL;
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

static bool has_tokenizer(const AttnModel *model, AttnError *error) {
    return model->tokenizer || refuse(error, "the model has no vocabulary: name one in AttnModelOptions");
}

bool attn_tokenize(const AttnModel *model, const char *text, size_t n, unsigned flags, int32_t *tokens,
                   size_t capacity, size_t *n_tokens, AttnError *error) {
    Tokens all = {0};
    Error inner;
    if (!model || !has_tokenizer(model, error)) return false;
    unsigned inner_flags = (flags & ATTN_TOKENIZE_ENDS ? ENCODE_ENDS : 0u) |
                           (flags & ATTN_TOKENIZE_SPECIAL ? ENCODE_SPECIAL : 0u);
    bool ok = tokenizer_encode(model->tokenizer, text, n, inner_flags, &all, &inner) || tell(error, &inner);
    size_t fits = all.n < capacity ? all.n : capacity;
    if (ok && fits > 0) memcpy(tokens, all.ids, fits * sizeof *tokens);
    if (ok) *n_tokens = all.n;
    tokens_free(&all);
    return ok;
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
    const AttnActivation activation = {.site = (AttnSite)seen->site,
                                       .layer = seen->layer,
                                       .head = seen->head,
                                       .position = seen->position,
                                       .n_rows = seen->n_rows,
                                       .n_cols = seen->n_cols,
                                       .stride = seen->stride,
                                       .data = seen->data};
    probe->visit(probe->user, &activation);
}

static bool open_session(AttnSession *session, const AttnSessionOptions *options, Error *error) {
    static const DType caches[] = {
        [ATTN_CACHE_F16] = DTYPE_F16, [ATTN_CACHE_F32] = DTYPE_F32, [ATTN_CACHE_Q8_0] = DTYPE_Q8_0};
    if ((size_t)options->cache >= sizeof caches / sizeof *caches)
        return error_set(error, "there is no cache %d (see AttnCache)", (int)options->cache);
    const Kernels *kernels = options->fast ? kernels_fastest() : kernels_pick(NULL, error);
    if (!kernels) return false;
    session->threads = threads_new(options->n_threads ? options->n_threads : threads_physical_cores(), error);
    if (!session->threads) return false;
    session->probe = options->probe;
    session->inner = (Probe){&session->probe, probe_wants, probe_visit};
    SessionOptions inner = {.n_ctx = options->n_ctx,
                            .whole_cache = true,
                            .kv_dtype = caches[options->cache],
                            .compute = {.kernels = kernels, .threads = session->threads},
                            .probe = options->probe.visit ? &session->inner : NULL,
                            .stop = options->stop,
                            .stop_user = options->stop_user};
    session->session = session_new(session->model->model, &inner, error);
    return session->session;
}

AttnSession *attn_session_new(const AttnModel *model, const AttnSessionOptions *options, AttnError *error) {
    static const AttnSessionOptions usual;
    Error inner = {"not enough memory for a session"};
    if (!model) return NULL;
    AttnSession *session = calloc(1, sizeof *session);
    if (session) session->model = model;
    if (session && open_session(session, options ? options : &usual, &inner)) return session;
    tell(error, &inner);
    attn_session_free(session);
    return NULL;
}

void attn_session_free(AttnSession *session) {
    if (!session) return;
    session_free(session->session);
    threads_free(session->threads);
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

bool attn_sync(AttnSession *session, const int32_t *tokens, size_t n, float *logits, AttnError *error) {
    Error inner;
    if (!session) return false;
    if (n == 0) return refuse(error, "no tokens are given to feed");
    return session_sync(session->session, tokens, n, logits, &(Feed){0}, &inner) || tell(error, &inner);
}

bool attn_unembed(const AttnSession *session, const float *resid, size_t n, float *logits) {
    if (!session) return false;
    session_unembed(session->session, resid, n, logits);
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

/* A caller's callback for text, and the one that the generator knows. Once it has said false it is left alone. */
static bool give_text(void *user, int32_t id, const char *text, size_t n) {
    AttnGenerateOptions *options = user;
    (void)id;
    if (!options->text || n == 0 || options->text(options->user, text, n)) return true;
    options->text = NULL;
    return false;
}

static bool generate(AttnSession *session, const char *prompt, const AttnGenerateOptions *options,
                     TextEnd *end, Error *error) {
    const AttnModel *model = session->model;
    const GeneratorOptions inner = {.sampling = sampler_options(&options->sampling),
                                    .stop = options->stop,
                                    .n_stop = options->n_stop,
                                    .special = options->special,
                                    .shift = options->shift};
    Tokens tokens = {0};
    AttnGenerateOptions copy = *options;
    unsigned flags = ENCODE_ENDS | (options->special ? ENCODE_SPECIAL : 0u);
    Generator *generator = generator_new(model->model, model->tokenizer, session->session, &inner, error);
    bool ok =
        generator && tokenizer_encode(model->tokenizer, prompt, strlen(prompt), flags, &tokens, error) &&
        prompt_or_bos(model->tokenizer, &tokens, error) &&
        (tokens.n > 0 ||
         error_set(error, "the prompt is empty, and the vocabulary has no token to begin with")) &&
        generator_sync(generator, tokens.ids, tokens.n, &(Feed){0}, error) &&
        generator_run(generator, options->n_tokens ? options->n_tokens : 256, give_text, &copy, end, error);
    tokens_free(&tokens);
    generator_free(generator);
    return ok;
}

bool attn_generate(AttnSession *session, const char *prompt, const AttnGenerateOptions *options, AttnEnd *end,
                   AttnError *error) {
    static const AttnGenerateOptions usual;
    Error inner;
    TextEnd inner_end;
    if (!session || !has_tokenizer(session->model, error)) return false;
    if (!prompt) return refuse(error, "no prompt is given");
    for (size_t i = 0; options && i < options->n_stop; i++)
        if (!options->stop[i] || !options->stop[i][0]) return refuse(error, "a stop text needs some text");
    if (!generate(session, prompt, options ? options : &usual, &inner_end, &inner))
        return tell(error, &inner);
    if (end) *end = (AttnEnd)inner_end;
    return true;
}
