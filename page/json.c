/* The data that the page is drawn from, as JSON: docs/JSON.md names its members. */
#include "attn.h"
#include "page/page.h"
#include "sampling.h"

#include <math.h>

#define PREDICTION(member) offsetof(Prediction, member)

static const Column position_columns[] = {
    {"surprisal_nats", NULL, CELL_REAL, PREDICTION(surprisal)},
    {"rank", NULL, CELL_SIZE, PREDICTION(rank)},
    {"entropy_nats", NULL, CELL_REAL, PREDICTION(entropy)},
};
static const Table position_table = TABLE(NULL, position_columns);

/* Each token as it was foreseen; nothing foresees the first. */
static void json_positions(Report *report, const Page *page, const Predictions *predictions) {
    json_array(report, "positions");
    if (page->from == 0) json_null(report, NULL);
    for (size_t at = page->from > 0 ? page->from : 1; at < page->to; at++)
        table_json_object(report, NULL, &position_table, 0, &predictions->items[at - 1]);
    json_end_array(report);
}

/* A token by its id, whose text the page's vocabulary gives. */
static void json_id(Report *report, const char *key, const Page *page, int32_t id) {
    page->named[id] = true;
    json_int(report, key, id);
}

/*
 * Writes the predictions after each token. Logits are written in full: p is e to the power of their difference to
 * log_sum.
 */
static void json_next(Report *report, const Page *page, const Predictions *predictions) {
    size_t n_top = predictions->n_top;
    json_array(report, "next");
    for (size_t at = page->from; at < page->to; at++) {
        const Prediction *item = &predictions->items[at];
        json_object(report, NULL);
        json_rounded(report, "entropy_nats", item->entropy);
        json_real(report, "log_sum", item->log_sum);
        json_array(report, "top"); /* id, logit, … */
        for (size_t i = at * n_top; i < (at + 1) * n_top; i++) {
            json_id(report, NULL, page, predictions->top[i]);
            json_real(report, NULL, (double)predictions->top_logits[i]);
        }
        json_end_array(report);
        json_array(report, "rest");
        for (size_t j = 0; j < N_TEMPERATURES; j++) json_rounded(report, NULL, item->rest[j]);
        json_end_array(report);
        json_end_object(report);
    }
    json_end_array(report);
}

/*
 * "positions": [null, {"surprisal_nats", "rank", "entropy_nats"}, …], of each token as it was foreseen;
 * with `totals` "totals": {"n", "nll_nats", "perplexity", "bits_per_byte"};
 * "next": [{"entropy_nats", "log_sum", "top": [id, logit, …], "rest": […]}, …], after each token.
 */
static void json_predictions(Report *report, const Numbers *numbers, bool totals) {
    const Page *page = numbers->page;
    const Predictions *predictions = &numbers->predictions;
    if (!predictions->items) {
        json_null(report, "positions");
        if (totals) json_null(report, "totals");
        json_null(report, "next");
        return;
    }
    json_positions(report, page, predictions);
    if (totals && predictions->totals.n == 0 && page->ranged)
        json_null(report, "totals");
    else if (totals)
        json_totals(report, &predictions->totals, true);
    json_next(report, page, predictions);
}

/* [p, rank, id, p, …]: of the final answer, then the likeliest. */
static void json_lens_row(Report *report, const Numbers *numbers, const LensRow *row) {
    const Page *page = numbers->page;
    json_array(report, NULL);
    json_rounded(report, NULL, (double)row->final_p);
    json_int(report, NULL, row->final_rank);
    for (size_t k = 0; k < numbers->lens.n_top; k++) {
        json_id(report, NULL, page, row->top[k]);
        json_rounded(report, NULL, (double)row->top_p[k]);
    }
    json_end_array(report);
}

/* "lens": {"rows": ["0_pre", …, "final_post"], "positions": [{"final", "rows": [[p, rank, id, p, …], …]}, …]} */
static void json_lens(Report *report, const Numbers *numbers) {
    const Page *page = numbers->page;
    const LensRows *lens = &numbers->lens;
    char name[32];
    if (!has_part(numbers, PART_LENS)) {
        json_null(report, "lens");
        return;
    }
    json_object(report, "lens");
    json_array(report, "rows");
    for (size_t i = 0; i < lens->n_rows; i++) json_text(report, NULL, lens_row_name(lens, i, name), SIZE_MAX);
    json_end_array(report);
    json_array(report, "positions");
    for (size_t at = page->from; at < page->to; at++) {
        json_object(report, NULL);
        json_id(report, "final", page, lens->final[at]);
        json_array(report, "rows");
        for (size_t i = 0; i < lens->n_rows; i++)
            json_lens_row(report, numbers, &lens->rows[at * lens->n_rows + i]);
        json_end_array(report);
        json_end_object(report);
    }
    json_end_array(report);
    json_end_object(report);
}

static void json_pattern(Report *report, const Traces *traces, size_t layer, size_t head) {
    const PackedRows *packed = &traces->patterns[traces_place(traces, layer, head)];
    json_base64(report, NULL, packed->bytes, packed->n);
}

/* [scale, base64 of norms/scale in 16 bits each, little-endian] */
static void json_norms(Report *report, const Page *page, const double *norms) {
    unsigned char *levels = page->levels;
    size_t n = page->to - page->from;
    double largest = 0;
    norms += page->from;
    for (size_t i = 0; i < n; i++) largest = fmax(largest, norms[i]);
    for (size_t i = 0; i < n; i++) {
        long level = largest > 0 ? lrint(norms[i] / largest * UINT16_MAX) : 0;
        levels[2 * i] = (unsigned char)(level & 255);
        levels[2 * i + 1] = (unsigned char)(level >> 8);
    }
    json_array(report, NULL);
    json_real(report, NULL, largest / UINT16_MAX);
    json_base64(report, NULL, levels, 2 * n);
    json_end_array(report);
}

/* "raised": [id, effect, …] */
static void json_effects(Report *report, const char *key, const Numbers *numbers, const Effect *effects) {
    json_array(report, key);
    for (size_t i = 0; i < numbers->effects.n_top; i++) {
        json_id(report, NULL, numbers->page, effects[i].id);
        json_rounded(report, NULL, effects[i].logit);
    }
    json_end_array(report);
}

static void json_written(Report *report, const Numbers *numbers, size_t layer, size_t head) {
    const HeadEffects *written = effects_of(&numbers->effects, layer, head);
    json_object(report, NULL);
    json_rounded(report, "output_norm", written->output_norm);
    json_effects(report, "raised", numbers, written->raised);
    json_effects(report, "lowered", numbers, written->lowered);
    json_end_object(report);
}

typedef enum Trace {
    TRACE_PATTERN,
    TRACE_OUTPUT_NORMS,
    TRACE_VALUE_NORMS,
    TRACE_SCORES,
    TRACE_WRITES,
    TRACE_EFFECTS
} Trace;

/*
 * Writes the numbers that are kept of a head, value norms of a kv head. Scores are written as they lie in memory:
 * little-endian, wherever we run.
 */
static void json_trace(Report *report, const Numbers *numbers, Trace trace, size_t layer, size_t head) {
    const Page *page = numbers->page;
    const Traces *traces = &numbers->traces;
    size_t n_scores = traces->n_scores;
    switch (trace) {
    case TRACE_PATTERN: json_pattern(report, traces, layer, head); break;
    case TRACE_OUTPUT_NORMS:
        json_norms(report, page, output_norms_of(&traces->output_norms, layer, head));
        break;
    case TRACE_VALUE_NORMS: json_norms(report, page, traces_value_norms(traces, layer, head)); break;
    case TRACE_SCORES:
        json_base64(report, NULL, traces->scores + traces_place(traces, layer, head) * n_scores,
                    n_scores * sizeof *traces->scores);
        break;
    case TRACE_WRITES: json_norms(report, page, output_norms_of(&numbers->writes.heads, layer, head)); break;
    case TRACE_EFFECTS: json_written(report, numbers, layer, head); break;
    }
}

/* [[one for each head] for each traced layer] */
static void json_by_head(Report *report, const char *key, const Numbers *numbers, Trace trace) {
    const Page *page = numbers->page;
    const Config *config = page->config;
    size_t n_head = trace == TRACE_VALUE_NORMS ? config->n_head_kv : config->n_head;
    json_array(report, key);
    for (size_t layer = 0; layer < config->n_layer; layer++) {
        if (!page->layers[layer]) continue;
        json_array(report, NULL);
        for (size_t head = 0; head < n_head; head++) json_trace(report, numbers, trace, layer, head);
        json_end_array(report);
    }
    json_end_array(report);
}

static void json_traced_layers(Report *report, const Page *page) {
    json_array(report, "layers");
    for (size_t layer = 0; layer < page->config->n_layer; layer++)
        if (page->layers[layer]) json_int(report, NULL, (int64_t)layer);
    json_end_array(report);
}

/* The members "output_norms", "value_norms" and "steps". */
static void json_steps(Report *report, const Numbers *numbers) {
    const Traces *traces = &numbers->traces;
    if (!has_part(numbers, PART_PATTERNS)) {
        static const char *const members[] = {"output_norms", "value_norms", "steps"};
        for (size_t i = 0; i < 3; i++) json_null(report, members[i]);
        return;
    }
    if (has_gated_heads(numbers->page->study->model))
        json_null(report, "output_norms"); /* what a gate leaves of them depends on the query */
    else
        json_by_head(report, "output_norms", numbers, TRACE_OUTPUT_NORMS);
    json_by_head(report, "value_norms", numbers, TRACE_VALUE_NORMS);
    json_object(report, "steps");
    json_int(report, "first", (int64_t)traces->first);
    json_int(report, "n", (int64_t)traces->n_queries);
    json_int(report, "max_keys", MAX_KEYS);
    json_int(report, "max_masked", MAX_MASKED);
    json_by_head(report, "scores", numbers, TRACE_SCORES);
    json_end_object(report);
}

static void json_patterns(Report *report, const Numbers *numbers) {
    if (!has_part(numbers, PART_PATTERNS)) {
        json_null(report, "patterns");
        return;
    }
    json_object(report, "patterns");
    json_rounded(report, "least", (double)numbers->traces.least);
    json_traced_layers(report, numbers->page);
    json_by_head(report, "data", numbers, TRACE_PATTERN);
    json_end_object(report);
}

static void json_by_layer(Report *report, const char *key, const Numbers *numbers, const double *norms,
                          size_t n) {
    json_array(report, key);
    for (size_t i = 0; i < n; i++) json_norms(report, numbers->page, norms + i * numbers->writes.n);
    json_end_array(report);
}

/*
 * "writes": {"layers", "resid": [n_layer + 1], "attn": [n_layer], "mlp": [n_layer], "heads": [traced][n_head] or null}
 */
static void json_writes(Report *report, const Numbers *numbers) {
    const Writes *writes = &numbers->writes;
    if (!has_part(numbers, PART_WRITES)) {
        json_null(report, "writes");
        return;
    }
    json_object(report, "writes");
    json_traced_layers(report, numbers->page);
    json_by_layer(report, "resid", numbers, writes->resid, writes->n_layer + 1);
    json_by_layer(report, "attn", numbers, writes->attn, writes->n_layer);
    json_by_layer(report, "mlp", numbers, writes->mlp, writes->n_layer);
    if (writes->heads.n_heads)
        json_by_head(report, "heads", numbers, TRACE_WRITES);
    else
        json_null(report, "heads");
    json_end_object(report);
}

/* "explained": {"query", "heads": [traced][n_head]}, or null */
static void json_explained(Report *report, const Numbers *numbers) {
    if (!numbers->effects.n_heads) {
        json_null(report, "explained");
        return;
    }
    json_object(report, "explained");
    json_int(report, "query", (int64_t)numbers->page->query);
    json_by_head(report, "heads", numbers, TRACE_EFFECTS);
    json_end_object(report);
}

typedef enum RulePart { RULE_SLOPE, RULE_SINK } RulePart;

/* [[one for each head] for each traced layer], or null where no head has one. */
static void json_rules(Report *report, const char *key, const Page *page, RulePart part) {
    const Config *config = page->config;
    const Model *model = page->study->model;
    if (part == RULE_SLOPE ? !model_weights(model)->slopes : !has_learned_sinks(model)) {
        json_null(report, key);
        return;
    }
    json_array(report, key);
    for (size_t layer = 0; layer < config->n_layer; layer++) {
        if (!page->layers[layer]) continue;
        json_array(report, NULL);
        for (size_t head = 0; head < config->n_head; head++) {
            ScoreRule rule = score_rule(model, layer, head);
            json_real(report, NULL, part == RULE_SLOPE ? rule.slope : rule.sink);
        }
        json_end_array(report);
    }
    json_end_array(report);
}

/* Writes the terms of a score, and how far each layer sees and whether it turns. */
static void json_layers(Report *report, const Page *page) {
    const Config *config = page->config;
    ScoreRule rule = score_rule(page->study->model, 0, 0);
    char formula[128];
    json_text(report, "score", score_formula(formula, &rule, false), SIZE_MAX);
    json_real(report, "score_scale", rule.scale);
    json_real(report, "score_cap", rule.cap != 0 ? rule.cap : NAN);
    json_rules(report, "slopes", page, RULE_SLOPE);
    json_rules(report, "sinks", page, RULE_SINK);
    json_array(report, "windows");
    for (size_t layer = 0; layer < config->n_layer; layer++)
        json_real(report, NULL, config_is_local(config, layer) ? (double)config->window : NAN);
    json_end_array(report);
    json_array(report, "turns");
    for (size_t layer = 0; layer < config->n_layer; layer++)
        json_bool(report, NULL, config_rope(config, layer));
    json_end_array(report);
}

/* "sampling": how the file asks to be sampled from, and what is usual where it does not; null if it makes no sense. */
static void json_sampling(Report *report, const Page *page) {
    static const char *const origins[] = {[ORIGIN_USUAL] = "default", [ORIGIN_FILE] = "file"};
    SamplerOptions options = SAMPLING_UNSET;
    SamplingFields found;
    if (!sampling_settle(&options, model_checkpoint(page->study->model), &found, NULL)) {
        json_null(report, "sampling");
        return;
    }
    json_object(report, "sampling");
    json_array(report, "options");
    for (size_t i = 0; i < N_SAMPLING_FIELDS; i++) {
        json_object(report, NULL);
        json_text(report, "name", found.fields[i].name, SIZE_MAX);
        json_real(report, "value", found.fields[i].value);
        json_text(report, "from", origins[found.fields[i].origin], SIZE_MAX);
        json_end_object(report);
    }
    json_end_array(report);
    json_text(report, "order_from", origins[found.order], SIZE_MAX);
    json_not_done(report, &found);
    json_end_object(report);
}

static void json_model(Report *report, const Page *page) {
    const Config *config = page->config;
    json_text(report, "version", ATTN_VERSION, SIZE_MAX);
    json_text(report, "made_by", page->made_by, SIZE_MAX);
    json_int(report, "n_prompt", (int64_t)page->n_prompt);
    json_int(report, "query", (int64_t)page->query);
    if (page->ranged) json_int(report, "from", (int64_t)page->from);
    if (page->ranged) json_int(report, "to", (int64_t)page->to);
    json_real(report, "temperature", (double)page->temp);
    json_sampling(report, page);
    json_rounded(report, "temperature_step", (double)TEMPERATURE_STEP);
    json_int(report, "n_layer", (int64_t)config->n_layer);
    json_int(report, "n_head", (int64_t)config->n_head);
    json_int(report, "n_head_kv", (int64_t)config->n_head_kv);
    json_int(report, "d_head", (int64_t)config->d_head);
    json_int(report, "d_model", (int64_t)config->d_model);
    json_int(report, "n_vocab", (int64_t)config->n_vocab);
    json_int(report, "n_ctx", (int64_t)config->n_ctx);
    json_bool(report, "rope", config->rope.pairing != ROPE_NONE);
    json_layers(report, page);
}

/* Patterns without the parts, as in "patterns.data"; null in the layers that they change nothing in. */
static void json_changed_patterns(Report *report, const Page *page) {
    const Config *config = page->config;
    if (!has_part(&page->changed, PART_PATTERNS)) {
        json_null(report, "patterns");
        return;
    }
    json_array(report, "patterns");
    for (size_t layer = 0; layer < config->n_layer; layer++) {
        if (!page->layers[layer]) continue;
        if (layer <= ablation_first_layer(&page->ablation)) {
            json_null(report, NULL);
            continue;
        }
        json_array(report, NULL);
        for (size_t head = 0; head < config->n_head; head++)
            json_pattern(report, &page->changed.traces, layer, head);
        json_end_array(report);
    }
    json_end_array(report);
}

static void json_ablation(Report *report, const Page *page) {
    if (!page->ablate) {
        json_null(report, "ablation");
        return;
    }
    json_object(report, "ablation");
    json_parts(report, "heads", &page->ablation);
    json_text(report, "by", "zero", SIZE_MAX);
    json_predictions(report, &page->changed, false);
    json_lens(report, &page->changed);
    json_head_scores(report, "text", &page->changed.text);
    json_changed_patterns(report, page);
    json_steps(report, &page->changed);
    json_writes(report, &page->changed);
    json_explained(report, &page->changed);
    json_object(report, "baseline");
    json_difference(report, &page->difference, BASELINE);
    json_end_object(report);
    json_difference(report, &page->difference, ABLATED);
    json_end_object(report);
}

/* The text of every token that was named by its id. */
static void json_vocabulary(Report *report, const Page *page) {
    json_object(report, "vocabulary");
    for (size_t id = 0; id < page->config->n_vocab; id++) {
        char key[24];
        if (!page->named[id]) continue;
        snprintf(key, sizeof key, "%zu", id);
        json_piece(report, key, (int32_t)id);
    }
    json_end_object(report);
}

void page_json(void *user, FILE *file) {
    const Page *page = user;
    Report json = page->study->report, *report = &json;
    report->json = true;
    report->out = file;
    report_open(report, page->study);
    json_model(report, page);
    json_predictions(report, &page->as_is, true);
    json_lens(report, &page->as_is);
    json_object(report, "heads");
    json_head_scores(report, "text", &page->as_is.text);
    json_head_scores(report, "repeat", &page->repeat);
    json_end_object(report);
    json_patterns(report, &page->as_is);
    json_steps(report, &page->as_is);
    json_writes(report, &page->as_is);
    json_explained(report, &page->as_is);
    json_ablation(report, page);
    json_vocabulary(report, page);
    json_end_object(report);
}
