/*
 * The loop of a language model: feed what was sampled last, sample the next from the logits, show it.
 *
 *   tokens ─► session_feed ─► logits of the last ─► sampler ─► token ─► detokenizer ─► whole characters
 *      ▲                                                         │               ─► behind any stop text ─► piece
 *      └─────────────────────────────────────────────────────────┘
 *
 * A pass may feed guesses of what follows, too. The session then stands behind the token that was sampled, as if there were no
 * guesses, and goes forward over one when it has been sampled as well.
 */
#include "generate.h"

#include <stdlib.h>
#include <string.h>

enum { SHIFT_KEEP = 4 /* tokens at the start of the context, which a shift keeps */ };

const char *text_end_name(TextEnd end) {
    static const char *const names[] = {"limit", "end", "stop", "context", "interrupted"};
    return names[end];
}

struct Generator {
    const Tokenizer *tokenizer;
    Session *session;
    Sampler *sampler;
    GeneratorOptions options;
    size_t n_vocab;
    float *logits;    /* [1 or PACKED_TOKENS][n_vocab] after the tokens of the last pass */
    size_t row;       /* of them: of the last token that the session holds */
    size_t n_ahead;   /* rows behind it: of guesses */
    size_t wanted;    /* tokens that are still to be sampled */
    int32_t pending;  /* sampled but not yet fed, or −1 */
    int32_t last;     /* sampled last, one that ends the text, too; −1: something else was fed behind it */
    Guesses *guesses; /* or NULL */
    Guessed guessed;
    Detokenizer detokenizer;
    TextBuffer text; /* not yet shown: it may be the beginning of a stop text */
};

Generator *generator_new(const Model *model, const Tokenizer *tokenizer, Session *session,
                         const GeneratorOptions *options, Error *error) {
    size_t n_vocab = model_config(model)->n_vocab;
    bool speculate = options->speculate != SPECULATE_OFF && session_takes_guesses(session);
    Generator *generator = calloc(1, sizeof *generator);
    if (!generator) goto no_memory;
    *generator = (Generator){.tokenizer = tokenizer,
                             .session = session,
                             .options = *options,
                             .n_vocab = n_vocab,
                             .logits = calloc((speculate ? PACKED_TOKENS : 1) * n_vocab, sizeof(float)),
                             .pending = -1,
                             .last = -1,
                             .detokenizer = detokenizer_begin(tokenizer, options->special)};
    if (!generator->logits) goto no_memory;
    generator->sampler = sampler_new(&options->sampling, n_vocab, error);
    if (speculate) generator->guesses = guesses_new(options->speculate, error);
    if (generator->sampler && (!speculate || generator->guesses)) return generator;
    generator_free(generator);
    return NULL;
no_memory:
    error_set(error, "not enough memory for %zu logits", n_vocab);
    generator_free(generator);
    return NULL;
}

void generator_free(Generator *generator) {
    if (!generator) return;
    sampler_free(generator->sampler);
    guesses_free(generator->guesses);
    free(generator->logits);
    free(generator->text.data);
    free(generator);
}

float *generator_logits(const Generator *generator) {
    return generator->logits + generator->row * generator->n_vocab;
}

Guessed generator_guessed(const Generator *generator) { return generator->guessed; }

static size_t room(const Generator *generator) {
    return session_n_ctx(generator->session) - session_position(generator->session);
}

/*
 * The context is full: keeps its first tokens, where attention likes to rest (Xiao et al. 2023,
 * arXiv:2309.17453), drops the older half of the others and recomputes the rest at its new positions.
 */
static bool shift(Generator *generator, Error *error) {
    Session *session = generator->session;
    size_t n = session_position(session), keep = n > 2 * SHIFT_KEEP ? SHIFT_KEEP : 0;
    size_t from = keep + (n - keep + 1) / 2, n_rest = n - from;
    int32_t *rest = malloc((keep + n_rest + 1) * sizeof *rest);
    if (!rest) return error_set(error, "not enough memory for %zu tokens", n_rest);
    memcpy(rest, session_tokens(session), keep * sizeof *rest);
    memcpy(rest + keep, session_tokens(session) + from, n_rest * sizeof *rest);
    generator->n_ahead = 0;
    session_rewind(session, keep);
    size_t held = session_position(session);
    bool ok =
        keep + n_rest == held || session_feed(session, rest + held, keep + n_rest - held, NULL, 0, error);
    free(rest);
    return ok;
}

static bool no_memory(Error *error) { return error_set(error, "not enough memory for the text"); }

bool generator_echo(Generator *generator, const int32_t *ids, size_t n, TextPiece *piece, void *user,
                    Error *error) {
    TextBuffer *text = &generator->text;
    for (size_t i = 0; i < n; i++)
        if (!detokenizer_push(&generator->detokenizer, ids[i], text)) return no_memory(error);
    if (piece) piece(user, -1, text->data, text->n);
    text->n = 0;
    if (!piece) detokenizer_hide(&generator->detokenizer);
    return true;
}

static void accept(Generator *generator, const int32_t *ids, size_t n) {
    for (size_t i = 0; i < n; i++) sampler_accept(generator->sampler, ids[i]);
}

/* The session has been fed something, the last token's logits are in row 0, and no token is pending. */
static void begin_rows(Generator *generator) {
    generator->row = generator->n_ahead = 0;
    generator->pending = generator->last = -1;
}

bool generator_add(Generator *generator, const int32_t *ids, size_t n, const Feed *feed, bool *fits,
                   Error *error) {
    size_t n_all = n + (generator->pending >= 0), n_ctx = session_n_ctx(generator->session);
    bool can_shift =
        generator->options.shift && n_all + SHIFT_KEEP < n_ctx / 2; /* and have room afterwards */
    if (can_shift && n_all > room(generator) && !shift(generator, error)) return false;
    *fits = n_all <= room(generator);
    if (!*fits || n == 0) return true;
    int32_t *all =
        malloc(n_all * sizeof *all); /* one chunk for both: the pending token takes no pass of its own */
    if (!all) return error_set(error, "not enough memory for %zu tokens", n_all);
    all[0] = generator->pending;
    memcpy(all + n_all - n, ids, n * sizeof *ids);
    size_t before = session_position(generator->session);
    generator->n_ahead = 0;
    bool ok = session_feed_all(generator->session, all, n_all, generator->logits, feed, error);
    free(all);
    if (ok) {
        accept(generator, ids, n);
        if (generator->guesses) guesses_read(generator->guesses, ids, n);
        begin_rows(generator);
    } else
        session_rewind(generator->session, before);
    if (session_position(generator->session) < before) generator->pending = -1;
    return ok;
}

/* The text is to be these n tokens: guesses read what is new, or all, where it does not go on from what was sampled last. */
static void read_text(Generator *generator, const int32_t *ids, size_t n) {
    if (!generator->guesses) return;
    size_t same = session_common(generator->session, ids, n);
    bool goes_on = same == session_position(generator->session) && same < n && ids[same] == generator->last;
    if (!goes_on) guesses_part(generator->guesses);
    size_t known = goes_on ? same + 1 : 0;
    guesses_read(generator->guesses, ids + known, n - known);
}

bool generator_sync(Generator *generator, const int32_t *ids, size_t n, const Feed *feed, Error *error) {
    read_text(generator, ids, n);
    generator->n_ahead = 0;
    if (!session_sync(generator->session, ids, n, generator->logits, feed, error)) return false;
    begin_rows(generator);
    generator->detokenizer = detokenizer_begin(generator->tokenizer, generator->options.special);
    sampler_forget(generator->sampler);
    accept(generator, ids, n);
    return generator_echo(generator, ids, n, NULL, NULL, error);
}

bool generator_settle(Generator *generator, Error *error) {
    int32_t id = generator->pending;
    if (id < 0) return true;
    if (!session_feed(generator->session, &id, 1, generator->logits, 1, error)) return false;
    begin_rows(generator);
    return true;
}

/* Whether the pending token was guessed: then the session goes forward to where it has it, and its logits are there. */
static bool was_guessed(Generator *generator) {
    Session *session = generator->session;
    size_t position = session_position(session);
    if (generator->n_ahead == 0 || session_tokens(session)[position] != generator->pending ||
        session_restore(session, position + 1) == position)
        return false;
    generator->row++, generator->n_ahead--;
    generator->guessed.n_held++;
    generator->pending = -1;
    return true;
}

bool generators_settle(Generator *const *generators, size_t n, float *logits, Error *error) {
    FeedPart parts[GENERATORS_TOGETHER];
    Generator *fed[GENERATORS_TOGETHER];
    for (size_t i = 0, n_parts = 0; i <= n; i++) {
        if (n_parts == GENERATORS_TOGETHER || (i == n && n_parts > 0)) {
            if (!session_feed_many(parts, n_parts, error)) return false;
            for (size_t k = 0; k < n_parts; k++) {
                memcpy(fed[k]->logits, parts[k].logits, fed[k]->n_vocab * sizeof *logits);
                begin_rows(fed[k]);
            }
            n_parts = 0;
        }
        if (i == n || generators[i]->pending < 0 || room(generators[i]) == 0) continue;
        Generator *generator = fed[n_parts] = generators[i];
        float *to = logits + n_parts * generator->n_vocab;
        parts[n_parts++] = (FeedPart){generator->session, &generator->pending, 1, to, 1};
    }
    return true;
}

/* Writes guesses of what follows the pending token to ids: no more than can be of use. */
static size_t guess(Generator *generator, int32_t *ids) {
    const GeneratorOptions *options = &generator->options;
    size_t most = room(generator) < PACKED_TOKENS ? room(generator) : PACKED_TOKENS;
    if (most > generator->wanted) most = generator->wanted;
    if (!generator->guesses || most < 2 || !session_takes_guesses(generator->session)) return 0;
    if (options->guess) return options->guess(options->guess_user, ids, most - 1);
    return guesses_make(generator->guesses, ids, most - 1);
}

bool generator_sample(Generator *generator, int32_t *id, TextEnd *end, Error *error) {
    *end = END_LIMIT;
    if (generator->pending >= 0 && room(generator) == 0) {
        if (!generator->options.shift) {
            *end = END_CONTEXT;
            return true;
        }
        if (!shift(generator, error)) return false;
    }
    if (generator->pending >= 0 && !was_guessed(generator)) {
        int32_t ids[PACKED_TOKENS] = {generator->pending};
        size_t n = 1 + guess(generator, ids + 1);
        double start = generator->guesses ? guesses_now() : 0;
        if (!session_feed_guesses(generator->session, ids, n, generator->logits, error)) return false;
        if (generator->guesses) guesses_time(generator->guesses, n, guesses_now() - start);
        begin_rows(generator);
        generator->n_ahead = n - 1;
        generator->guessed.n += n - 1;
    }
    *id = generator->last = sampler_next(generator->sampler, generator_logits(generator));
    sampler_accept(generator->sampler, *id);
    if (generator->guesses) guesses_learn(generator->guesses, *id);
    if (tokenizer_is_end(generator->tokenizer, *id))
        *end = END_TOKEN;
    else
        generator->pending = *id;
    return true;
}

/* Where a stop text stands in the text, or begins without an end to it; its length when there is none. */
static size_t find_stop(const Generator *generator, bool *complete) {
    const TextBuffer *text = &generator->text;
    size_t beginning = text->n;
    *complete = false;
    for (size_t at = 0; at < text->n; at++)
        for (size_t i = 0; i < generator->options.n_stop; i++) {
            const char *stop = generator->options.stop[i];
            size_t n = strlen(stop), left = text->n - at;
            if (memcmp(text->data + at, stop, n < left ? n : left) != 0) continue;
            *complete = n <= left;
            if (*complete) return at;
            if (at < beginning) beginning = at;
        }
    return beginning;
}

/* Gives away what cannot be the beginning of a stop text, or all that is left once the text is `over`. */
static void show_text(Generator *generator, int32_t id, bool over, TextPiece *piece, void *user,
                      TextEnd *end) {
    TextBuffer *text = &generator->text;
    bool complete;
    size_t n = find_stop(generator, &complete);
    if (complete)
        *end = END_STOP, text->n = n; /* what stands behind it is gone */
    else if (over)
        n = text->n;
    if ((id >= 0 || n > 0) && !piece(user, id, text->data, n) && *end == END_LIMIT) *end = END_CALLER;
    if (n > 0) memmove(text->data, text->data + n, text->n - n);
    text->n -= n;
}

/* Shows what a token adds to the text; *end is as sampling left it. */
static bool show_token(Generator *generator, int32_t id, TextPiece *piece, void *user, TextEnd *end,
                       Error *error) {
    if (*end == END_CONTEXT) return true; /* there is none */
    bool shown = *end != END_TOKEN || generator->options.special;
    if (shown && !detokenizer_push(&generator->detokenizer, id, &generator->text)) return no_memory(error);
    show_text(generator, id, false, piece, user, end);
    return true;
}

bool generator_step(Generator *generator, TextPiece *piece, void *user, TextEnd *end, Error *error) {
    int32_t id = -1;
    return generator_sample(generator, &id, end, error) && show_token(generator, id, piece, user, end, error);
}

bool generator_finish(Generator *generator, TextPiece *piece, void *user, TextEnd *end, Error *error) {
    if (*end == END_STOP) return true;
    if (!detokenizer_end(&generator->detokenizer, &generator->text)) return no_memory(error);
    show_text(generator, -1, true, piece, user, end);
    return true;
}

bool generator_run(Generator *generator, size_t n, TextPiece *piece, void *user, TextEnd *end, Error *error) {
    int32_t id = -1;
    *end = END_LIMIT;
    for (size_t i = 0; i < n && *end == END_LIMIT; i++) {
        generator->wanted = n - i;
        if (!generator_sample(generator, &id, end, error) ||
            !show_token(generator, id, piece, user, end, error))
            return false;
    }
    generator->wanted = 0;
    return generator_finish(generator, piece, user, end, error);
}
