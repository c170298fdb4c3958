#include "cli/notes.h"
#include "cli/print.h"
#include "views/view.h"

#include "generate.h"
#include "measures/ablation.h"
#include "measures/effects.h"
#include "measures/scores.h"
#include "vocabulary.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool study_open(Study *study, const char *path, Error *error) {
    const char *vocabulary = study->options->tokenizer;
    study->subject.model = study->model = model_open_with(path, progress_or_stop, NULL, error);
    if (!study->model) return false;
    if (study->view->needs & WEIGHTS_ALONE) return true;
    study->tokenizer = tokenizer_open(vocabulary, model_checkpoint(study->model), &study->vocabulary, error);
    study->subject.tokenizer = study->report.tokenizer = study->tokenizer;
    return study->tokenizer && vocabulary_fits(study->model, study->tokenizer, vocabulary, error);
}

void study_close(Study *study) {
    subject_release(&study->subject, study->session);
    if (!study->opened) {
        note_changed("study", study->model);
        tokenizer_free(study->tokenizer);
        checkpoint_close(study->vocabulary);
        model_close(study->model);
        threads_free(study->threads);
    }
    tokens_free(&study->subject.tokens);
    free(study->text.data);
    arena_free(&study->arena);
}

bool study_encode(const Study *study, const char *text, size_t n, Tokens *tokens, bool *bos, Error *error) {
    const StudyOptions *options = study->options;
    int32_t id = tokenizer_bos(study->tokenizer);
    *bos = options->bos || (!options->no_bos && tokenizer_adds_bos(study->tokenizer));
    if (options->ids && study->subject.tokens.n > 0)
        *bos = study->subject.bos; /* as the text that it stands beside */
    if (*bos && id < 0) return error_set(error, "--bos: the vocabulary has no token that begins a text");
    if (*bos && !tokens_push(tokens, id, error)) return false;
    unsigned flags = options->special ? ENCODE_SPECIAL : 0;
    if (!tokenizer_encode(study->tokenizer, text, n, flags, tokens, error)) return false;
    return tokens->n > 0 ||
           error_set(error,
                     "the text is empty: give some with -p, or --bos to begin with what begins a text");
}

/* The tokens of --ids join those of the text. */
static bool read_ids(Study *study, Error *error) {
    Subject *subject = &study->subject;
    size_t n_vocab = model_config(study->model)->n_vocab;
    for (const char *at = study->options->ids; at; at = *at ? at + 1 : NULL) {
        char *end;
        unsigned long long id = strtoull(at, &end, 10);
        bool ok = *at >= '0' && *at <= '9' && (!*end || *end == ',');
        if (!ok || id >= n_vocab) {
            error_set(error, "--ids takes numbers from 0 to %zu with commas between them, not '%s'",
                      n_vocab - 1, at);
            if (!ok) wrong_usage(error);
            return false;
        }
        if (!tokens_push(&subject->tokens, (int32_t)id, error)) return false;
        at = end;
    }
    subject->bos = subject->bos || subject->tokens.ids[0] == tokenizer_bos(study->tokenizer);
    return true;
}

/* Ids alone are taken as they stand: no BOS is put in front unless --bos asks for it. */
bool study_tokenize(Study *study, const char *text, size_t n, Error *error) {
    const bool has_ids = study->options->ids;
    Subject *subject = &study->subject;
    if (!text && has_ids && !study->options->bos) return read_ids(study, error);
    return study_encode(study, text ? text : "", n, &subject->tokens, &subject->bos, error) &&
           (!has_ids || read_ids(study, error));
}

bool study_feed(Study *study, const Probe *probe, size_t from, size_t to, Error *error) {
    const Subject *subject = &study->subject;
    study->session = subject_resume(subject, 0, from, probe, error);
    return study->session &&
           subject_feed(subject, study->session, subject->tokens.ids + from, to - from, NULL, NULL, error);
}

const char *weight_type(const Checkpoint *checkpoint) {
    const char *name = "none";
    uint64_t most = 0;
    for (uint32_t dtype = 0; dtype < 64; dtype++) {
        const DTypeInfo *info = dtype_info(dtype);
        uint64_t bytes = 0;
        for (size_t i = 0; info && i < checkpoint_n_tensors(checkpoint); i++) {
            const Tensor *tensor = checkpoint_tensor(checkpoint, i);
            if (tensor->dtype == (DType)dtype && tensor->n_dims > 1) bytes += tensor->n_bytes;
        }
        if (bytes > most) most = bytes, name = info->name;
    }
    return name;
}

void report_open(Report *report, const Study *study) {
    const Model *model = study->model;
    const char *type = model ? weight_type(model_checkpoint(model)) : NULL;
    const char *architecture = model ? model_config(model)->family->architecture : NULL;
    size_t n = study->subject.tokens.n;
    if (!is_json(report)) {
        if (!model) return;
        print_style(report, STYLE_DIM);
        print_path(report, study->options->model);
        printf("  %s %s  ", architecture, type);
        if (n > 0) printf("%zu token%s  ", n, n == 1 ? "" : "s"); /* else there are many texts */
        printf("bos %s  seed %" PRIu64 "\n\n", study->subject.bos ? "yes" : "no", study->seed);
        print_style(report, STYLE_PLAIN);
        return;
    }
    json_object(report, NULL);
    json_text(report, "command", study->view->name, SIZE_MAX);
    if (!model) return;
    json_text(report, "model", study->options->model, SIZE_MAX);
    json_text(report, "architecture", architecture, SIZE_MAX);
    json_text(report, "type", type, SIZE_MAX);
    json_int(report, "n_tokens", (int64_t)n);
    json_bool(report, "bos", study->subject.bos);
    json_int(report, "seed", (int64_t)study->seed);
    json_array(report, "tokens");
    for (size_t i = 0; i < n; i++) {
        json_object(report, NULL);
        json_token(report, study->subject.tokens.ids[i]);
        json_end_object(report);
    }
    json_end_array(report);
}

bool study_check_predict(const Study *study, size_t n_predict, Error *error) {
    size_t n = study->subject.tokens.n, limit = subject_n_ctx(&study->subject),
           room = n < limit ? limit - n : 0;
    if (n <= limit && n_predict <= room) return true;
    return error_set(error, "-n %zu: after %zu tokens of text the context of %zu has room for %zu", n_predict,
                     n, limit, room);
}

Generator *study_generator(const Study *study, Session *session, float temperature, Error *error) {
    const Subject *subject = &study->subject;
    GeneratorOptions options = {
        .sampling = {.temperature = temperature, .top_p = 1, .repeat_penalty = 1, .seed = study->seed},
        .speculate = SPECULATE_OFF}; /* each token is fed as soon as it is known */
    Generator *generator = generator_new(subject->model, subject->tokenizer, session, &options, error);
    bool fits;
    if (generator &&
        generator_add(generator, &subject->tokens.ids[subject->tokens.n - 1], 1, &(Feed){0}, &fits, error))
        return generator;
    generator_free(generator);
    return NULL;
}

bool study_generate(Study *study, Generator *generator, size_t n_predict, void (*each)(void *user),
                    void *user, Error *error) {
    bool ok = true;
    for (size_t i = 0; ok && i < n_predict; i++) {
        int32_t id;
        TextEnd end;
        if (!subject_go_on(&study->subject, NULL, i, n_predict, error)) return false;
        if (!generator_sample(generator, &id, &end, error)) return false;
        if (end != END_LIMIT) break;
        ok = tokens_push(&study->subject.tokens, id, error) && generator_settle(generator, error);
        if (ok) each(user);
    }
    return ok;
}

Inputs study_inputs(const Study *study) {
    return (Inputs){.model = study->model ? model_checkpoint(study->model) : NULL,
                    .vocabulary = study->vocabulary,
                    .text = study->options->prompt_file};
}

static bool check_below(const char *what, size_t value, size_t n, Error *error) {
    if (value < n || value == NOT_GIVEN) return true;
    return refuse_number(NULL, what, value, "there are", n, error);
}

bool study_check_place(const Study *study, size_t layer, size_t head, size_t query, size_t n_tokens,
                       Error *error) {
    const Config *config = model_config(study->model);
    return check_below("layer", layer, config->n_layer, error) &&
           check_below("head", head, config->n_head, error) && check_below("query", query, n_tokens, error);
}

bool study_query_number(const char *text, size_t *query) {
    if (!*text || text[strspn(text, "0123456789")]) return false;
    unsigned long long value = strtoull(text, NULL, 10);
    *query = value < NOT_GIVEN ? (size_t)value : NOT_GIVEN - 1;
    return true;
}

bool study_query(Study *study, const char *text, const Items *items, size_t *query, Error *error) {
    const size_t n_tokens = study->subject.tokens.n, n = items ? items->n : n_tokens;
    JoinedText joined;
    WordPlace place;
    *query = n - 1;
    if (!text) return true;
    if (study_query_number(text, query))
        return study_check_place(study, NOT_GIVEN, NOT_GIVEN, *query, n, error);
    if (!join_tokens(&study->subject, &study->arena, true, &joined, error)) return false;
    if (!find_word(&joined, n_tokens, text, &place))
        return error_set(error, "--query: '%s' is no token or word of the text; a number goes from 0 to %zu",
                         text, n - 1);
    *query = items ? 0 : place.last;
    while (items && items->begin[*query + 1] <= place.last) ++*query;
    return true;
}

bool study_check_heads(const Study *study, size_t layer, Error *error) {
    size_t n = model_config(study->model)->n_layer, any = 0;
    if (layer != NOT_GIVEN)
        return layer_has_heads(study->model, layer) ||
               error_set(error, "layer %zu has no attention heads: it keeps a state instead", layer);
    while (any < n && !layer_has_heads(study->model, any)) any++;
    return any < n || error_set(error, "no layer of this model has attention heads");
}

bool study_token(const Study *study, const char *text, int32_t *id, Error *error) {
    size_t n_vocab = tokenizer_n_vocab(study->tokenizer);
    if (!text[0])
        return error_set(error, "--token is empty: give the text of a token, or its id, as #123") ||
               wrong_usage(error);
    if (text[0] == '#' && text[1]) {
        char *end;
        errno = 0;
        unsigned long long number = strtoull(text + 1, &end, 10);
        if (text[1] < '0' || text[1] > '9' || *end || errno || number >= n_vocab)
            return error_set(error, "there is no token %s: ids go from #0 to #%zu", text, n_vocab - 1);
        *id = (int32_t)number;
        return true;
    }
    size_t length = strlen(text);
    char *spaced = malloc(length + 2);
    Tokens tokens = {0};
    if (!spaced) return error_set(error, "not enough memory");
    snprintf(spaced, length + 2, " %s", text);
    bool ok = tokenizer_encode(study->tokenizer, spaced + 1, length, ENCODE_SPECIAL, &tokens, error);
    size_t n = tokens.n;
    if (ok && n != 1) {
        tokens.n = 0;
        ok = tokenizer_encode(study->tokenizer, spaced, length + 1, ENCODE_SPECIAL, &tokens, error);
    }
    if (ok && tokens.n != 1)
        ok = error_set(error,
                       "'%s' is %zu tokens of this vocabulary, and one is wanted; name it by its id, as #123",
                       text, n);
    if (ok) *id = tokens.ids[0];
    free(spaced);
    tokens_free(&tokens);
    return ok;
}

bool study_token_given(const Study *study, const char *option, const char *text, int32_t *id, Error *error) {
    Error cause = {{0}};
    if (text && !*text) return error_set(error, "%s is empty: give a token", option);
    return !text || study_token(study, text, id, &cause) || error_set(error, "%s: %s", option, cause.message);
}

/* Moves *at behind "=0.5", if that is there; 0 where it is not. */
static bool parse_factor(const char **at, float *factor) {
    double value = 0;
    *factor = 0;
    if (**at != '=') return true;
    *at = parse_real(*at + 1, &value);
    *factor = (float)value;
    return *at && value >= 0 && value <= (double)MAX_FACTOR;
}

bool choose_parts(Ablation *ablation, const char *option, const char *list, Error *error) {
    const Config *config = ablation->config;
    for (const char *at = list;; at++) {
        unsigned long long layer = 0, head = 0;
        bool one, ok = parse_head(&at, &layer, &head, &one), mlp = ok && !one && strncmp(at, "MLP", 3) == 0;
        float factor = 0;
        if (mlp) at += 3;
        if (ok && !parse_factor(&at, &factor))
            return error_set(error, "%s: '%s': a factor such as L3H7=0.5 goes from 0 to %d", option, list,
                             MAX_FACTOR) ||
                   wrong_usage(error);
        if (!ok || (*at && *at != ','))
            return error_set(error,
                             "%s: '%s' is no list such as L3H7,L4,L5MLP,L0H2=0.5 (L4: all heads of layer 4)",
                             option, list) ||
                   wrong_usage(error);
        if (layer >= config->n_layer)
            return refuse_number(option, "layer", layer, "there are", config->n_layer, error);
        if (head >= config->n_head)
            return refuse_number(option, "head", head, "a layer has", config->n_head, error);
        if (!mlp && !layer_has_heads(ablation->subject->model, (size_t)layer))
            return error_set(error, "%s: layer %llu has no attention heads: it keeps a state instead", option,
                             layer);
        if (mlp) ablation_choose(ablation, (size_t)layer, config->n_head, factor);
        for (size_t h = 0; !mlp && h < config->n_head; h++)
            if (!one || h == head) ablation_choose(ablation, (size_t)layer, h, factor);
        if (!*at) return true;
    }
}

void json_parts(Report *report, const char *key, const Ablation *ablation) {
    char name[32];
    json_array(report, key);
    for (size_t i = 0; i < ablation->n_chosen; i++)
        json_text(report, NULL, part_name(name, ablation, ablation->chosen[i]), SIZE_MAX);
    json_end_array(report);
    json_array(report, "factors");
    for (size_t i = 0; i < ablation->n_chosen; i++)
        json_rounded(report, NULL, (double)ablation->factors[ablation->chosen[i]]);
    json_end_array(report);
}

void json_not_done(Report *report, const SamplingFields *fields) {
    json_array(report, "not_done");
    for (size_t i = 0; i < fields->n_passed_over; i++)
        json_text(report, NULL, fields->passed_over[i], SIZE_MAX);
    for (size_t i = 0; i < fields->n_not_done && i < MAX_NOT_DONE; i++)
        json_text(report, NULL, fields->not_done[i].data, (size_t)string_shown(fields->not_done[i]));
    json_end_array(report);
}

#define TOTAL(member) offsetof(TextScore, member)

static const Column totals_columns[] = {
    {"n", NULL, CELL_SIZE, TOTAL(n)},
    {"nll_nats", NULL, CELL_REAL, TOTAL(nll)},
    {"perplexity", NULL, CELL_REAL, TOTAL(perplexity)},
    {"perplexity_error", NULL, CELL_REAL, TOTAL(perplexity_error)},
    {"bits_per_byte", NULL, CELL_REAL, TOTAL(bits_per_byte)},
    {"n_bytes", NULL, CELL_SIZE, TOTAL(n_bytes)},
    {"top1_accuracy", NULL, CELL_REAL, TOTAL(top1_accuracy)},
};
static const Table totals_table = TABLE(NULL, totals_columns);
static const Columns NOT_ON_THE_PAGE = 1 << 3 | 1 << 5 | 1 << 6;

void json_token_object(Report *report, const char *key, int32_t id) {
    json_object(report, key);
    json_token(report, id);
    json_end_object(report);
}

void json_token_or_null(Report *report, const char *key, int32_t id) {
    if (id < 0)
        json_null(report, key);
    else
        json_token_object(report, key, id);
}

void json_totals(Report *report, const Totals *totals, bool page) {
    TextScore score = text_score(totals);
    table_json_object(report, "totals", &totals_table, page ? NOT_ON_THE_PAGE : 0, &score);
}

#define MEAN(member) offsetof(DifferenceMeans, member)

static const Column difference_columns[] = {
    {"n", NULL, CELL_SIZE, MEAN(n)},
    {"nll_nats", NULL, CELL_REAL, MEAN(nll_a)},
    {"a_nll_nats", "nll, bits", CELL_REAL, MEAN(nll_a), 11, 5, BITS_PER_NAT},
    {"nll_nats", NULL, CELL_REAL, MEAN(nll_b)},
    {"b_nll_nats", "", CELL_REAL, MEAN(nll_b), 11, 5, BITS_PER_NAT},
    {"delta_nll_nats", "", CELL_REAL, MEAN(nll_change), 11, 5, BITS_PER_NAT, .format = '+'},
    {NULL, "perplexity", CELL_REAL, MEAN(perplexity_a), 11, 5, .format = 'g'},
    {NULL, "", CELL_REAL, MEAN(perplexity_b), 11, 5, .format = 'g'},
    {NULL, "", CELL_REAL, MEAN(perplexity_change), 11, 4, .format = 'G'},
    {"kl_nats", "KL, bits", CELL_REAL, MEAN(kl), 33, 6, BITS_PER_NAT},
    {"top1_changed", "top-1 changed", CELL_REAL, MEAN(top1_changed), 33, 1, 100, "%"},
    {"top1_agreement", "same top-1", CELL_REAL, MEAN(top1_same), 33, 1, 100, "%"},
};
static const Table difference_table = TABLE(NULL, difference_columns);

enum { TOP1_CHANGED = 1 << 10, TOP1_SAME = 1 << 11 }; /* columns of it */

void json_difference(Report *report, const Difference *difference, DifferencePart part) {
    static const Columns shown[] = {[BASELINE] = 1 << 0 | 1 << 1,
                                    [ABLATED] = 1 << 3 | 1 << 5 | 1 << 9 | TOP1_CHANGED,
                                    [COMPARED] = 1 << 0 | 1 << 2 | 3 << 4 | 1 << 9 | TOP1_SAME};
    DifferenceMeans means = difference_means(difference);
    table_json_members(report, &difference_table, ~shown[part], &means);
}

void difference_print(Report *report, const Difference *difference, const char *const titles[3], bool same) {
    DifferenceMeans means = difference_means(difference);
    size_t n = difference->n, changed = difference->top1_changed;
    print_styled(report, STYLE_BOLD, "%25s %10s %10s\n", titles[0], titles[1], titles[2]);
    table_print_lines(report, &difference_table, same ? TOP1_CHANGED : TOP1_SAME, &means);
    printf("  %zu of %zu positions\n", same ? n - changed : changed, n);
}

static const Column effect_columns[] = {
    {"token", "", CELL_TOKEN, offsetof(Effect, id), 16, 14},
    {"effect", "", CELL_REAL, offsetof(Effect, logit), 8, 3, .format = '+'},
};
static const Table raised_table = TABLE("raised", effect_columns),
                   lowered_table = TABLE("lowered", effect_columns);

void effects_show(Report *report, const HeadEffects *effects, size_t n_top) {
    if (is_json(report)) {
        table_show(report, &raised_table, 0, effects->raised, n_top, sizeof *effects->raised);
        table_show(report, &lowered_table, 0, effects->lowered, n_top, sizeof *effects->lowered);
        return;
    }
    print_styled(report, STYLE_BOLD, "  raised                  lowered\n");
    for (size_t i = 0; i < n_top; i++) {
        table_print_row(report, &raised_table, 0, &effects->raised[i]);
        table_print_line(report, &lowered_table, 0, &effects->lowered[i]);
    }
    print_styled(report, STYLE_DIM,
                 "Relative to the mean over the vocabulary; what later layers make of it is not counted.\n");
}
