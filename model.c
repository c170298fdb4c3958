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
#include "base/floatenv.h"
#include "layers/experts.h"
#include "layers/states.h"
#include "mlp.h"
#include "open.h"
#include "session.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Embeds the text's tokens under way: resid [text->n][d_model]; positions, likewise, is scratch. */
static void embed(const Session *text, const int32_t *tokens, float *resid, float *positions) {
    const Config *config = &text->model->config;
    const Weights *weights = &text->model->weights;
    const Kernels *kernels = text->compute.kernels;
    const size_t d = config->d_model, n = text->n, position = text->position;
    for (size_t t = 0; t < n; t++) matrix_row(kernels, &weights->embedding, (size_t)tokens[t], resid + t * d);
    if (config->embedding_scale != 1) kernels->scale(resid, config->embedding_scale, n * d);
    if (weights->embedding_norm.gain)
        norm_forward(&text->compute, &weights->embedding_norm, resid, resid, n, d);
    probe_rows(text->probe, PROBE_EMBED, 0, position, resid, n, d);
    if (!weights->positions.data) return;
    for (size_t t = 0; t < n; t++)
        matrix_row(kernels, &weights->positions, config->position_offset + position + t, positions + t * d);
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

/* Attention, or the mixer in its place, of a layer, for all texts under way; x and out are [n][d_model]. */
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
                "cache (take F32)%s",
                checkpoint_path(session->model->checkpoint),
                session->probe ? ", or what is changed inside is too large" : "");
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

/* The texts that gather linked enter a layer: as their tokens' embeddings or, of a lone text, as `entering`. */
static void enter(Session *session, const float *entering) {
    const size_t d = session->model->config.d_model;
    float *resid = session->resid;
    for (Session *text = session; text; resid += text->n * d, text = text->next) {
        const int32_t *tokens = entering ? NULL : text->part->tokens + n_fed(text);
        if (entering)
            memcpy(resid, entering + n_fed(text) * d, text->n * d * sizeof *resid);
        else
            embed(text, tokens, resid, session->normed); /* which is free until the first layer */
        forget_others(text, tokens, text->n);
    }
}

/* Feeds parts from a layer on. resid [n][d_model] enters it, of a lone part; if NULL, the tokens' embeddings do. */
static bool feed(const FeedPart *parts, size_t n_parts, size_t layer, const float *resid, Error *error) {
    fenv_t callers;
    Session *first;
    size_t n;
    bool ok = true;
    for (size_t i = 0; i < n_parts; i++)
        if (!check_room(parts[i].session, parts[i].n, error) ||
            (!resid && !check_tokens(parts[i].session, parts[i].tokens, parts[i].n, error)))
            return false;
    for (size_t i = 0; i < n_parts; i++) {
        parts[i].session->part = &parts[i];
        parts[i].session->start = parts[i].session->position;
    }
    default_floats(&callers);
    while (ok && (first = gather(parts, n_parts, &n))) {
        enter(first, resid);
        first->stopped = !forward(first, layer, n);
        ok = first->stopped ? error_set(error, "interrupted") : make_logits(first, error);
        if (ok) advance(first);
    }
    fesetenv(&callers);
    for (size_t i = 0; !ok && i < n_parts; i++) go_back(parts[i].session, parts[i].session->start);
    return ok;
}

bool session_feed_many(const FeedPart *parts, size_t n_parts, Error *error) {
    return feed(parts, n_parts, 0, NULL, error);
}

bool session_feed(Session *session, const int32_t *tokens, size_t n, float *logits, size_t n_logits,
                  Error *error) {
    return feed(&(FeedPart){session, tokens, n, logits, n_logits < n ? n_logits : n}, 1, 0, NULL, error);
}

bool session_takes_guesses(const Session *session) { return !session->states && !session->probe; }

bool session_feed_guesses(Session *session, const int32_t *tokens, size_t n, float *logits, Error *error) {
    size_t start = session->position;
    session->stopped = false;
    bool ok = feed(&(FeedPart){session, tokens, n, logits, n}, 1, 0, NULL, error);
    if (!ok && !session->stopped && n > 1) { /* perhaps for a guess alone: then nobody has fed one */
        ok = session_feed(session, tokens, 1, logits, 1, error);
        session->known = session->position;
    }
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
    if (n > session_n_ctx(session))
        return error_set(error, "%zu tokens are more than the context of %zu holds", n,
                         session_n_ctx(session));
    session_rewind(session, session_common(session, tokens, n - 1));
    size_t same = session_position(session);
    return session_feed_all(session, tokens + same, n - same, logits, feed, error);
}

bool session_resume(Session *session, size_t layer, const float *resid, size_t n, float *logits,
                    size_t n_logits, Error *error) {
    return feed(&(FeedPart){session, NULL, n, logits, n_logits < n ? n_logits : n}, 1, layer, resid, error);
}
