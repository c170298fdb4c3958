/*
 * The baseline run keeps the residual stream that enters the first layer touched (when parts take turns, every
 * layer), and what leaves the last one. A run with parts off resumes from there: layers below would compute the
 * same again (who looks at them has them computed). Logits of both are made a piece at a time when compared, so none are kept.
 */
#include "measures/ablation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most memory for vectors of the text: the residual stream entering layers, values of the reference. */
enum { MAX_HELD_MIB = 512 };

static bool *layer_parts(const Ablation *ablation, size_t layer) {
    return ablation->off + layer * (ablation->config->n_head + 1);
}

size_t part_layer(const Ablation *ablation, size_t place) { return place / (ablation->config->n_head + 1); }

size_t part_head(const Ablation *ablation, size_t place) { return place % (ablation->config->n_head + 1); }

void ablation_choose(Ablation *ablation, size_t layer, size_t head, float factor) {
    size_t place = layer * (ablation->config->n_head + 1) + head;
    if (!ablation->off[place]) ablation->chosen[ablation->n_chosen++] = place;
    ablation->off[place] = true;
    ablation->factors[place] = factor;
}

static bool touches_heads(const Ablation *ablation, size_t layer) {
    const bool *off = layer_parts(ablation, layer);
    for (size_t head = 0; head < ablation->config->n_head; head++)
        if (off[head]) return true;
    return false;
}

static bool touches_mlp(const Ablation *ablation, size_t layer) {
    return layer_parts(ablation, layer)[ablation->config->n_head];
}

size_t ablation_first_layer(const Ablation *ablation) {
    size_t place = 0;
    while (!ablation->off[place]) place++;
    return part_layer(ablation, place);
}

/*
 * Where a run with parts off begins: at the lowest layer that is touched, but for one that is looked at, or kept for runs
 * that are.
 */
static size_t entry_layer(const Ablation *ablation) {
    bool whole = ablation->look || (ablation->has_baseline && !ablation->in_turn);
    return whole ? 0 : ablation_first_layer(ablation);
}

/* Whether one begins here: when parts take turns, at every layer that is touched. */
static bool begins_at(const Ablation *ablation, size_t layer) {
    if (!ablation->in_turn) return layer == entry_layer(ablation);
    return touches_heads(ablation, layer) || touches_mlp(ablation, layer);
}

static bool check_size(const Ablation *ablation, Error *error) {
    const Config *config = ablation->config;
    size_t floats = 2 * config->d_model; /* of one token */
    for (size_t layer = 0; layer < config->n_layer; layer++) {
        if (begins_at(ablation, layer)) floats += config->d_model;
        if (ablation->by != BY_RESAMPLE) continue;
        if (touches_heads(ablation, layer)) floats += config->n_head * config->d_head;
        if (touches_mlp(ablation, layer)) floats += config->d_model;
    }
    size_t n = ablation->subject->tokens.n, limit = ((size_t)MAX_HELD_MIB << 20) / sizeof(float) / floats;
    return n <= limit ||
           error_set(error,
                     "this would hold more than %d MiB of the text's vectors: shorten it from %zu "
                     "tokens to %zu",
                     MAX_HELD_MIB, n, limit);
}

/* Zero's row is final; the others' are filled by the run over the reference text. */
static bool substitute_new(Substitute *substitute, const Ablation *ablation, size_t width, Error *error) {
    size_t n_rows = ablation->by == BY_RESAMPLE ? ablation->subject->tokens.n : 1;
    substitute->width = width;
    substitute->rows = arena_new(ablation->arena, n_rows, width * sizeof *substitute->rows);
    substitute->sums = arena_new(ablation->arena, width, sizeof *substitute->sums);
    return arena_ok(ablation->arena, error, "the values of %zu tokens", n_rows);
}

static void fill_with_value_bias(const Ablation *ablation, size_t layer) {
    const Config *config = ablation->config;
    const float *bias = model_weights(ablation->subject->model)->layers[layer].attention.v.bias;
    if (!bias || ablation->by != BY_ZERO || ablation->hard_zero) return;
    for (size_t head = 0; head < config->n_head; head++)
        memcpy(ablation->layers[layer].z.rows + head * config->d_head,
               bias + kv_head_of(config, head) * config->d_head, config->d_head * sizeof *bias);
}

static bool allocate(Ablation *ablation, Error *error) {
    const Config *config = ablation->config;
    size_t n = ablation->subject->tokens.n;
    Arena *arena = ablation->arena;
    ablation->layers = arena_new(arena, config->n_layer, sizeof *ablation->layers);
    float **kept = arena_new(arena, config->n_layer + 1, sizeof *kept);
    if (!arena_ok(arena, error, "%zu layers", config->n_layer) ||
        (ablation->by == BY_ZERO && !subject_streams(ablation->subject, ablation->to, kept, error)))
        return false;
    ablation->has_baseline = kept[0];
    for (int i = 0; i < 2; i++) {
        bool has = i == 0 && ablation->has_baseline;
        ablation->final[i] = has ? kept[config->n_layer] : arena_floats(arena, n, config->d_model);
        ablation->logits[i] = arena_floats(arena, at_most(n, LOGITS_CHUNK), config->n_vocab);
    }
    if (!arena_ok(arena, error, "the logits of %zu tokens", n)) return false;
    for (size_t i = 0; i < config->n_layer; i++) {
        AblatedLayer *layer = &ablation->layers[i];
        if (begins_at(ablation, i))
            layer->resid_pre = kept[i] ? kept[i] : arena_floats(arena, n, config->d_model);
        if (!arena_ok(arena, error, "the residual stream of %zu tokens", n)) return false;
        if (touches_mlp(ablation, i) && !substitute_new(&layer->mlp_out, ablation, config->d_model, error))
            return false;
        if (!touches_heads(ablation, i)) continue;
        if (!substitute_new(&layer->z, ablation, config->n_head * config->d_head, error)) return false;
        fill_with_value_bias(ablation, i);
    }
    return true;
}

static Substitute *substitute_at(const Ablation *ablation, ProbeSite site, size_t layer) {
    return site == PROBE_Z ? &ablation->layers[layer].z : &ablation->layers[layer].mlp_out;
}

/* The mean's text, unless `reference` is another, is the text itself: its values come with the baseline. */
static bool gathers(const Ablation *ablation) {
    return ablation->by != BY_ZERO && ablation->run == (ablation->reference.n ? RUN_REFERENCE : RUN_BASELINE);
}

/* A probe that looks on sees what the ablation makes of a part. */
static bool looks(const Ablation *ablation, ProbeSite site, size_t layer, size_t head) {
    const Probe *look = ablation->looking ? ablation->look : NULL;
    return look && look->wants(look->user, site, layer, head);
}

static bool uses(const Ablation *ablation, ProbeSite site, size_t layer, size_t head) {
    switch (site) {
    case PROBE_RESID_PRE: return ablation->run == RUN_BASELINE && ablation->layers[layer].resid_pre;
    case PROBE_RESID_POST: return ablation->run != RUN_REFERENCE && layer == ablation->config->n_layer - 1;
    case PROBE_Z:
    case PROBE_MLP_OUT:
        if (ablation->run == RUN_ABLATED)
            return layer_parts(ablation, layer)[site == PROBE_Z ? head : ablation->config->n_head];
        return gathers(ablation) && substitute_at(ablation, site, layer)->rows;
    default: return false;
    }
}

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    return uses(user, site, layer, head) || looks(user, site, layer, head);
}

/* A head's numbers, or the MLP's, into its columns of the substitute. */
static void gather(const Ablation *ablation, Substitute *substitute, const Activation *seen) {
    size_t column = seen->head * seen->n_cols;
    for (size_t i = 0; i < seen->n_rows; i++) {
        const float *row = seen->data + i * seen->stride;
        if (ablation->by == BY_RESAMPLE)
            memcpy(substitute->rows + (seen->position + i) * substitute->width + column, row,
                   seen->n_cols * sizeof *row);
        else
            for (size_t j = 0; j < seen->n_cols; j++) substitute->sums[column + j] += (double)row[j];
    }
}

/* factor·z + (1 − factor)·substitute */
static void blend(const Ablation *ablation, const Substitute *substitute, const Activation *seen) {
    bool is_head = seen->site == PROBE_Z;
    size_t place =
        seen->layer * (ablation->config->n_head + 1) + (is_head ? seen->head : ablation->config->n_head);
    float factor = ablation->factors[place];
    for (size_t i = 0; i < seen->n_rows; i++) {
        size_t row = ablation->by == BY_RESAMPLE ? seen->position + i : 0;
        const float *other = substitute->rows + row * substitute->width + seen->head * seen->n_cols;
        float *z = seen->data + i * seen->stride;
        for (size_t j = 0; j < seen->n_cols; j++)
            z[j] = factor == 0 ? other[j] : factor * z[j] + (1 - factor) * other[j];
    }
}

static void use(const Ablation *ablation, const Activation *seen) {
    if (seen->site == PROBE_RESID_PRE || seen->site == PROBE_RESID_POST) {
        float *kept = seen->site == PROBE_RESID_PRE ? ablation->layers[seen->layer].resid_pre
                                                    : ablation->final[ablation->run == RUN_ABLATED];
        memcpy(kept + seen->position * seen->n_cols, seen->data, seen->n_rows * seen->n_cols * sizeof *kept);
        return;
    }
    Substitute *substitute = substitute_at(ablation, seen->site, seen->layer);
    if (ablation->run != RUN_ABLATED) {
        gather(ablation, substitute, seen);
        return;
    }
    blend(ablation, substitute, seen);
}

static void visit(void *user, const Activation *seen) {
    const Ablation *ablation = user;
    if (uses(ablation, seen->site, seen->layer, seen->head)) use(ablation, seen);
    if (looks(ablation, seen->site, seen->layer, seen->head))
        ablation->look->visit(ablation->look->user, seen);
}

static void finish_mean(const Ablation *ablation, Substitute *substitute) {
    size_t n = ablation->reference.n ? ablation->reference.n : ablation->subject->tokens.n;
    for (size_t i = 0; substitute->rows && i < substitute->width; i++)
        substitute->rows[i] = (float)(substitute->sums[i] / (double)n);
}

bool ablation_begin(Ablation *ablation, const Subject *subject, Arena *arena, Error *error) {
    const Config *config = model_config(subject->model);
    size_t n_parts = config->n_head + 1;
    *ablation = (Ablation){
        .subject = subject,
        .config = config,
        .arena = arena,
        .to = subject->tokens.n,
        .factors = arena_new(arena, config->n_layer, n_parts * sizeof *ablation->factors),
        .off = arena_new(arena, config->n_layer, n_parts * sizeof *ablation->off),
        .chosen = arena_new(arena, config->n_layer, n_parts * sizeof *ablation->chosen),
        .probe = {ablation, wants, visit},
    };
    return arena_ok(arena, error, "a list of %zu parts", config->n_layer * n_parts);
}

void ablation_free(Ablation *ablation) {
    if (ablation->session && ablation->keeps) {
        session_watch(ablation->session, NULL);
        session_stop_when(ablation->session, NULL, NULL);
        ablation->subject->cache->ablated = ablation->session;
    } else {
        session_free(ablation->session);
    }
    tokens_free(&ablation->reference);
}

/* Finds the vectors that runs with parts off begin from, and those that stand in for the parts. */
static bool run_baseline(Ablation *ablation, Error *error) {
    const Tokens *reference = &ablation->reference, *tokens = &ablation->subject->tokens;
    ablation->run = RUN_REFERENCE;
    if (reference->n &&
        !subject_feed(ablation->subject, ablation->session, reference->ids, reference->n, NULL, NULL, error))
        return false;
    session_rewind(ablation->session, 0);
    ablation->run = RUN_BASELINE;
    return subject_feed(ablation->subject, ablation->session, tokens->ids, ablation->to, NULL, NULL, error);
}

/* Notes which parts are off, and how far; whether they are those that were off in the kept run. */
static bool note_factors(const Ablation *ablation, float *factors) {
    bool same = true;
    for (size_t i = 0; i < ablation->config->n_layer * (ablation->config->n_head + 1); i++) {
        float factor = ablation->off[i] ? ablation->factors[i] : -1;
        same = same && factors[i] == factor;
        factors[i] = factor;
    }
    return same;
}

size_t ablation_first_position(const Ablation *ablation) { return ablation->from - (ablation->from > 0); }

/*
 * The session for runs without the parts: the kept one, if it has room. What it holds of this text, if that was without the
 * same parts, need not be fed again, as far as it lies before the predictions that are compared.
 */
static bool open_session(Ablation *ablation, size_t n_ctx, Error *error) {
    const Subject *subject = ablation->subject;
    SubjectCache *cache = subject->cache;
    ablation->keeps = ablation->has_baseline && !ablation->hard_zero && !ablation->in_turn;
    if (!ablation->keeps) {
        ablation->session = subject_session(subject, n_ctx, &ablation->probe, error);
        return ablation->session;
    }
    size_t n_parts = ablation->config->n_layer * (ablation->config->n_head + 1), same = 0;
    ablation->session = cache->ablated;
    cache->ablated = NULL;
    if (!ablation->session) {
        free(cache->ablated_ids);
        free(cache->ablated_factors);
        cache->ablated_ids = calloc(cache->n_ctx, sizeof *cache->ablated_ids);
        cache->ablated_factors = calloc(n_parts, sizeof *cache->ablated_factors);
        ablation->keeps = cache->ablated_ids && cache->ablated_factors;
        if (!ablation->keeps) return error_set(error, "not enough memory for %zu tokens", cache->n_ctx);
        ablation->session = subject_session(subject, cache->n_ctx, &ablation->probe, error);
        if (!ablation->session) return false;
    }
    const int32_t *ids = subject->tokens.ids;
    size_t most = at_most(session_position(ablation->session), ablation_first_position(ablation));
    while (same < most && cache->ablated_ids[same] == ids[same]) same++;
    ablation->start = note_factors(ablation, cache->ablated_factors) ? same : 0;
    session_rewind(ablation->session, ablation->start);
    memcpy(cache->ablated_ids, ids, ablation->to * sizeof *ids);
    session_watch(ablation->session, &ablation->probe);
    session_stop_when(ablation->session, subject->stop, subject->stop_user);
    return true;
}

bool ablation_baseline(Ablation *ablation, Error *error) {
    const Tokens *reference = &ablation->reference, *tokens = &ablation->subject->tokens;
    if (!check_size(ablation, error) || !allocate(ablation, error)) return false;
    /* 0: the subject's own length, checked against the context */
    size_t n_ctx = reference->n > tokens->n ? reference->n : 0;
    if (!open_session(ablation, n_ctx, error) || (!ablation->has_baseline && !run_baseline(ablation, error)))
        return false;
    ablation->run = RUN_ABLATED;
    for (size_t layer = 0; ablation->by == BY_MEAN && layer < ablation->config->n_layer; layer++) {
        finish_mean(ablation, &ablation->layers[layer].z);
        finish_mean(ablation, &ablation->layers[layer].mlp_out);
    }
    for (size_t i = 0; ablation->in_turn && i < ablation->n_chosen; i++)
        ablation->off[ablation->chosen[i]] = false;
    return true;
}

/* Feeds the tokens before `end` that the session does not hold. */
static bool feed_until(const Ablation *ablation, size_t end, Error *error) {
    size_t layer = entry_layer(ablation);
    const float *resid = ablation->layers[layer].resid_pre;
    for (size_t done = session_position(ablation->session), m; done < end; done += m) {
        m = at_most(end - done, SESSION_CHUNK);
        if (!subject_go_on(ablation->subject, NULL, done, ablation->to, error) ||
            !session_resume(ablation->session, layer, resid + done * ablation->config->d_model, m, NULL, 0,
                            error))
            return false;
    }
    return true;
}

bool ablation_run(Ablation *ablation, Difference *difference, LogitsVisit *each, void *user, Error *error) {
    const Config *config = ablation->config;
    const Tokens *tokens = &ablation->subject->tokens;
    size_t to = ablation->to, first = ablation_first_position(ablation);
    session_rewind(ablation->session, ablation->start);
    ablation->looking = false;
    if (!feed_until(ablation, first, error)) return false;
    ablation->looking = true;
    for (size_t done = first, m; done < to; done += m) {
        m = at_most(to - done, LOGITS_CHUNK);
        ablation->n_last = m;
        if (!feed_until(ablation, ablation->look ? done + m : to, error)) return false;
        for (int i = 0; i < 2; i++)
            session_unembed(ablation->session, ablation->final[i] + done * config->d_model, m,
                            ablation->logits[i]);
        difference_add(difference, ablation->subject->compute.threads, ablation->logits[0],
                       ablation->logits[1], m, config->n_vocab, tokens->ids + done + 1,
                       done + m < to ? m : m - 1);
        for (size_t i = 0; each && i < m; i++)
            each(user, done + i, ablation->logits[1] + i * config->n_vocab);
    }
    if (isfinite(difference->kl) && isfinite(difference->nll_a) && isfinite(difference->nll_b)) return true;
    return error_set(error,
                     "%s: the logits are not finite; the weights hold NaN or infinity, or overflow the "
                     "F16 cache (take F32)",
                     checkpoint_path(model_checkpoint(ablation->subject->model)));
}

const float *ablation_last_logits(const Ablation *ablation, bool ablated) {
    return ablation->logits[ablated] + (ablation->n_last - 1) * ablation->config->n_vocab;
}

const char *part_name(char buffer[32], const Ablation *ablation, size_t place) {
    size_t layer = part_layer(ablation, place), head = part_head(ablation, place);
    if (head < ablation->config->n_head) return head_name(buffer, layer, head);
    snprintf(buffer, 32, "L%zuMLP", layer);
    return buffer;
}
