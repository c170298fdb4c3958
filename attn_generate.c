/* Tokens drawn from logits, and texts that go on. */
#include "attn_inner.h"
#include "generate.h"
#include "sampling.h"

#include <stdlib.h>

struct AttnSampler {
    Sampler *sampler;
    size_t n_vocab;
};

_Static_assert((int)ATTN_END_LIMIT == END_LIMIT && (int)ATTN_END_CALLER == END_CALLER,
               "ends have the same numbers inside and outside");
_Static_assert((int)ATTN_SPECULATE_AUTO == SPECULATE_AUTO && (int)ATTN_SPECULATE_OFF == SPECULATE_OFF,
               "so has what is guessed");

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
    fenv_t callers;
    if (!model) return false;
    default_floats(&callers);
    bool ok = sampling_settle(&options, model_checkpoint(model->model), NULL, &inner);
    fesetenv(&callers);
    if (!ok) return tell(error, &inner);
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
    SamplerOptions options = sampler_options(sampling ? sampling : &usual);
    AttnSampler *sampler = sampling_check(&options, &inner) ? calloc(1, sizeof *sampler) : NULL;
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
    fenv_t callers;
    if (!sampler) return -1;
    default_floats(&callers);
    int32_t id = sampler_next(sampler->sampler, logits);
    fesetenv(&callers);
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
    if (!sampling_check(&inner.sampling, error)) return false;
    if ((unsigned)options->speculate > ATTN_SPECULATE_OFF)
        return error_set(error, "speculate is %d, and none of ATTN_SPECULATE_…", (int)options->speculate);
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
    fenv_t callers;
    if (!session || !has_tokenizer(session->model, error)) return false;
    if (n == 0) return refuse(error, "the prompt has no tokens");
    for (size_t i = 0; options && i < options->n_stop; i++)
        if (!options->stop[i] || !options->stop[i][0]) return refuse(error, "a stop text needs some text");
    default_floats(&callers);
    bool ok = generate(session, tokens, n, options ? options : &usual, &inner_end, &inner);
    fesetenv(&callers);
    if (!ok) return tell(error, &inner);
    if (end) *end = (AttnEnd)inner_end;
    return true;
}

bool attn_generate(AttnSession *session, const char *prompt, const AttnGenerateOptions *options, AttnEnd *end,
                   AttnError *error) {
    Tokens tokens = {0};
    Error inner;
    fenv_t callers;
    if (!session || !has_tokenizer(session->model, error)) return false;
    if (!prompt) return refuse(error, "no prompt is given");
    const Tokenizer *tokenizer = session->model->tokenizer;
    unsigned flags = ENCODE_ENDS | (options && options->special ? ENCODE_SPECIAL : 0u);
    default_floats(&callers);
    bool ok = (tokenizer_encode(tokenizer, prompt, strlen(prompt), flags, &tokens, &inner) &&
               prompt_or_bos(tokenizer, &tokens, &inner) &&
               (tokens.n > 0 ||
                error_set(&inner, "the prompt is empty, and the vocabulary has no token to begin with"))) ||
              tell(error, &inner);
    fesetenv(&callers);
    ok = ok && attn_generate_from(session, tokens.ids, tokens.n, options, end, error);
    tokens_free(&tokens);
    return ok;
}
