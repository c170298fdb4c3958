#include "batch/likelihood.h"

#include "base/utf8.h"
#include "sampler.h"
#include "snapshot.h"

#include <stdlib.h>

enum { MOST_FORKS = PACKED_TOKENS /* continuations that go through the layers together */ };

/* A continuation, as tokens behind those of its context. */
typedef struct Item {
    Tokens tokens;    /* of both */
    size_t n_context; /* of these */
    double *logprobs; /* [tokens.n − n_context] */
} Item;

struct Likelihoods {
    const Model *model;
    const Tokenizer *tokenizer;
    SessionOptions options;
    Session *context, *forks[MOST_FORKS]; /* these are opened when they are needed */
    float *first;                         /* [n_vocab] behind the context */
    float *logits;                        /* [n_logits][n_vocab] of the continuations' tokens */
    size_t n_logits;
    Item *items;      /* [n_items] */
    Likelihood *told; /* [n_items] */
    size_t n_items;
};

static size_t n_vocab_of(const Likelihoods *likelihoods) { return model_config(likelihoods->model)->n_vocab; }

static bool no_memory(Error *error) { return error_set(error, "not enough memory for likelihoods"); }

Likelihoods *likelihoods_new(const Model *model, const Tokenizer *tokenizer, const SessionOptions *options,
                             Error *error) {
    Likelihoods *likelihoods = calloc(1, sizeof *likelihoods);
    if (!likelihoods) {
        no_memory(error);
        return NULL;
    }
    *likelihoods = (Likelihoods){.model = model, .tokenizer = tokenizer, .options = *options};
    likelihoods->options.compute.kernels = kernels_pick(NULL, error);
    likelihoods->options.kv_dtype = DTYPE_F32;
    likelihoods->options.whole_cache = true;
    likelihoods->first = floats_new(1, n_vocab_of(likelihoods));
    if (!likelihoods->first) no_memory(error);
    if (likelihoods->first && likelihoods->options.compute.kernels)
        likelihoods->context = session_new(model, &likelihoods->options, error);
    if (likelihoods->context) return likelihoods;
    likelihoods_free(likelihoods);
    return NULL;
}

static void free_items(Likelihoods *likelihoods) {
    for (size_t i = 0; i < likelihoods->n_items; i++) {
        tokens_free(&likelihoods->items[i].tokens);
        free(likelihoods->items[i].logprobs);
    }
    free(likelihoods->items);
    free(likelihoods->told);
    likelihoods->items = NULL;
    likelihoods->told = NULL;
    likelihoods->n_items = 0;
}

void likelihoods_free(Likelihoods *likelihoods) {
    if (!likelihoods) return;
    free_items(likelihoods);
    for (size_t i = 0; i < MOST_FORKS; i++) session_free(likelihoods->forks[i]);
    session_free(likelihoods->context);
    free(likelihoods->first);
    free(likelihoods->logits);
    free(likelihoods);
}

/* Tokens of a text, with what begins every text, if the vocabulary has that, in front. */
static bool encode(const Likelihoods *likelihoods, String text, bool begins, Tokens *tokens, Error *error) {
    int32_t bos = tokenizer_bos(likelihoods->tokenizer);
    if (begins && bos >= 0 && !tokens_push(tokens, bos, error)) return false;
    return tokenizer_encode(likelihoods->tokenizer, text.data, text.n, 0, tokens, error);
}

/* As lm-evaluation-harness does. */
static size_t without_space(String text) {
    size_t kept = 0;
    uint32_t c;
    for (size_t i = 0; i < text.n;) {
        i += utf8_decode(text.data + i, text.n - i, &c);
        if (!utf8_is_space(c)) kept = i;
    }
    return kept;
}

static bool encode_item(const Likelihoods *likelihoods, String context, String continuation, Item *item,
                        Error *error) {
    Tokens alone = {0};
    TextBuffer both = {0};
    const String before = {context.data, without_space(context)};
    const bool begins =
        tokenizer_adds_bos(likelihoods->tokenizer) || before.n == 0; /* or nothing would foresee it */
    bool ok = (text_append(&both, context.data, context.n) &&
               text_append(&both, continuation.data, continuation.n)) ||
              no_memory(error);
    ok = ok && encode(likelihoods, before, begins, &alone, error) &&
         encode(likelihoods, text_string(&both), begins, &item->tokens, error);
    size_t n = item->tokens.n, n_ctx = session_n_ctx(likelihoods->context);
    item->n_context = alone.n;
    if (ok && alone.n == 0)
        ok = error_set(error, "the context is empty, and the vocabulary has no token to begin with");
    if (ok && n <= alone.n)
        ok = error_set(error, "a continuation has no token of its own%s",
                       continuation.n ? ": all of it joins the context's last one" : "");
    if (ok && n - 1 > n_ctx)
        ok = error_set(error, "%zu tokens are more than the context of %zu holds", n, n_ctx);
    if (ok) item->logprobs = malloc((n - alone.n) * sizeof *item->logprobs);
    if (ok && !item->logprobs) ok = no_memory(error);
    tokens_free(&alone);
    free(both.data);
    return ok;
}

static bool read_items(Likelihoods *likelihoods, const Request *request, Error *error) {
    const Json *choices = request->choices, *one = request->continuation;
    size_t n = choices ? choices->n : 1;
    likelihoods->items = calloc(n, sizeof *likelihoods->items);
    likelihoods->told = calloc(n, sizeof *likelihoods->told);
    if (!likelihoods->items || !likelihoods->told) return no_memory(error);
    for (size_t i = 0; i < n; i++) {
        String continuation = json_string(choices ? json_item(choices, i) : one);
        Item *item = &likelihoods->items[likelihoods->n_items++];
        if (!encode_item(likelihoods, json_string(request->context), continuation, item, error)) return false;
        likelihoods->told[i] = (Likelihood){.is_greedy = true,
                                            .n_bytes = continuation.n,
                                            .n = item->tokens.n - item->n_context,
                                            .ids = item->tokens.ids + item->n_context,
                                            .logprobs = item->logprobs};
    }
    return true;
}

/* Takes token i of a continuation, which `logits` foresaw. */
static void take_token(const Likelihoods *likelihoods, size_t item, size_t i, const float *logits) {
    Likelihood *told = &likelihoods->told[item];
    size_t n_vocab = n_vocab_of(likelihoods), id = (size_t)told->ids[i], best = 0;
    for (size_t k = 1; k < n_vocab; k++)
        if (logits[k] > logits[best]) best = k;
    double logprob = likelihoods->items[item].logprobs[i] = sampler_logprob(logits, n_vocab, told->ids[i]);
    told->logprob += logprob;
    told->is_greedy &= best == id;
}

/* Tokens of an item that are fed behind its context: all but the last, which is only foreseen. */
static size_t n_behind(const Item *item) { return item->tokens.n - item->n_context - 1; }

static bool have_logits(Likelihoods *likelihoods, size_t n, Error *error) {
    if (n <= likelihoods->n_logits) return true;
    free(likelihoods->logits);
    likelihoods->n_logits = 0;
    likelihoods->logits = floats_new(n, n_vocab_of(likelihoods));
    if (likelihoods->logits) likelihoods->n_logits = n;
    return likelihoods->logits || no_memory(error);
}

/* The session of a continuation, which holds the context; of the last one that needs it the context's own. */
static Session *fork_context(Likelihoods *likelihoods, size_t i, bool is_last, Error *error) {
    if (is_last) return likelihoods->context;
    SessionOptions options = likelihoods->options;
    options.beside = likelihoods->context;
    if (!likelihoods->forks[i]) likelihoods->forks[i] = session_new(likelihoods->model, &options, error);
    bool ok = likelihoods->forks[i] && snapshot_copy(likelihoods->forks[i], likelihoods->context, error);
    return ok ? likelihoods->forks[i] : NULL;
}

/* Feeds the continuations [begin, end), whose contexts are the one that is held, together. */
static bool feed_items(Likelihoods *likelihoods, size_t begin, size_t end, Error *error) {
    FeedPart parts[MOST_FORKS];
    size_t n_vocab = n_vocab_of(likelihoods), n_logits = 0, n_parts = 0, fed[MOST_FORKS];
    for (size_t i = begin; i < end; i++) n_logits += n_behind(&likelihoods->items[i]);
    if (!have_logits(likelihoods, n_logits, error)) return false;
    float *logits = likelihoods->logits;
    for (size_t i = begin; i < end; i++) {
        const Item *item = &likelihoods->items[i];
        size_t n = n_behind(item);
        take_token(likelihoods, i, 0, likelihoods->first);
        if (n == 0) continue;
        fed[n_parts] = i;
        parts[n_parts++] = (FeedPart){NULL, item->tokens.ids + item->n_context, n, logits, n};
        logits += n * n_vocab;
    }
    for (size_t k = 0; k < n_parts; k++) { /* the last, for it is the one that is then fed */
        parts[k].session = fork_context(likelihoods, k, k + 1 == n_parts, error);
        if (!parts[k].session) return false;
    }
    if (!session_feed_many(parts, n_parts, error)) return false;
    for (size_t k = 0; k < n_parts; k++)
        for (size_t i = 0; i < parts[k].n; i++)
            take_token(likelihoods, fed[k], i + 1, parts[k].logits + i * n_vocab);
    return true;
}

/* Whether two items have the same context, in tokens, of which they have as many. */
static bool same_context(const Item *a, const Item *b) {
    return memcmp(a->tokens.ids, b->tokens.ids, a->n_context * sizeof *a->tokens.ids) == 0;
}

bool likelihoods_of(Likelihoods *likelihoods, const Request *request, const Likelihood **all, size_t *n,
                    size_t *n_context, Error *error) {
    free_items(likelihoods);
    if (!read_items(likelihoods, request, error)) return false;
    for (size_t begin = 0, end; begin < likelihoods->n_items; begin = end) {
        const Item *item = &likelihoods->items[begin];
        for (end = begin + 1; end < likelihoods->n_items && end - begin < MOST_FORKS; end++)
            if (!same_context(item, &likelihoods->items[end])) break;
        if (!session_sync(likelihoods->context, item->tokens.ids, item->n_context, likelihoods->first,
                          &(Feed){0}, error) ||
            !feed_items(likelihoods, begin, end, error))
            return false;
    }
    *all = likelihoods->told;
    *n = likelihoods->n_items;
    *n_context = likelihoods->items[0].n_context;
    return true;
}
