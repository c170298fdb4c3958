#include "views/study.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool study_open(Study *study, const char *path, Error *error) {
    const char *vocabulary = study->options->tokenizer;
    study->model = model_open(path, error);
    if (!study->model) return false;
    study->tokenizer = open_vocabulary(vocabulary, model_checkpoint(study->model), &study->vocabulary, error);
    return study->tokenizer && check_vocabulary(study->model, study->tokenizer, vocabulary, error);
}

void study_close(Study *study) {
    tokenizer_free(study->tokenizer);
    checkpoint_close(study->vocabulary);
    model_close(study->model);
    tokens_free(&study->tokens);
    free(study->text.data);
}

bool study_encode(const Study *study, const char *text, size_t n, Tokens *tokens, bool *bos, Error *error) {
    const StudyOptions *options = study->options;
    int32_t id = tokenizer_bos(study->tokenizer);
    *bos = options->bos || (!options->no_bos && tokenizer_adds_bos(study->tokenizer));
    if (*bos && id < 0) return error_set(error, "--bos: the vocabulary has no token that begins a text");
    if (*bos && !tokens_push(tokens, id, error)) return false;
    unsigned flags = options->special ? ENCODE_SPECIAL : 0;
    if (!tokenizer_encode(study->tokenizer, text, n, flags, tokens, error)) return false;
    return tokens->n > 0 ||
           error_set(error,
                     "the text is empty: give some with -p, or --bos to begin with what begins a text");
}

size_t study_n_ctx(const Study *study) {
    return study->options->n_ctx ? (size_t)study->options->n_ctx : model_config(study->model)->n_ctx;
}

bool study_check_length(const Study *study, Error *error) {
    size_t n = study->tokens.n, limit = study_n_ctx(study);
    return n <= limit ||
           error_set(
               error,
               "the text has %zu tokens, more than the context of %zu; shorten it (score takes long texts)",
               n, limit);
}

Session *study_session(const Study *study, size_t n_ctx, const Probe *probe, Error *error) {
    if (n_ctx == 0 && !study_check_length(study, error)) return NULL;
    SessionOptions session = {.n_ctx = n_ctx ? n_ctx : study->tokens.n,
                              .kv_dtype = strcmp(study->options->kv, "f16") == 0 ? DTYPE_F16 : DTYPE_F32,
                              .compute = study->compute,
                              .probe = probe};
    return session_new(study->model, &session, error);
}

bool study_feed(const Study *study, Session *session, const int32_t *ids, size_t n, LogitsVisit *each,
                void *user, Error *error) {
    size_t n_vocab = model_config(study->model)->n_vocab, chunk = each ? LOGITS_CHUNK : SESSION_CHUNK;
    float *logits = each ? floats_new(n < chunk ? n : chunk, n_vocab) : NULL;
    bool ok = !each || logits || error_set(error, "not enough memory for the logits of %zu tokens", chunk);
    for (size_t done = 0, m; ok && done < n; done += m) {
        size_t position = session_position(session);
        m = n - done < chunk ? n - done : chunk;
        if (n > chunk) show_progress("tokens", done, n);
        ok = interrupted() ? error_set(error, "interrupted")
                           : session_feed(session, ids + done, m, logits, each ? m : 0, error);
        for (size_t i = 0; ok && each && i < m; i++) each(user, position + i, logits + i * n_vocab);
    }
    if (n > chunk) show_progress("tokens", n, n);
    free(logits);
    return ok;
}

bool study_check_predict(const Study *study, Error *error) {
    size_t n = study->tokens.n, limit = study_n_ctx(study), room = n < limit ? limit - n : 0;
    int64_t n_predict = study->options->n_predict;
    if (n <= limit && (uint64_t)n_predict <= room) return true;
    return error_set(error, "-n %" PRId64 ": after %zu tokens of text the context of %zu has room for %zu",
                     n_predict, n, limit, room);
}

bool study_generate(Study *study, Session *session, float *logits, void (*each)(void *user), void *user,
                    Error *error) {
    const StudyOptions *o = study->options;
    SamplerOptions sampling = {
        .temperature = o->temp < 0 ? 0 : o->temp, .top_p = 1, .repeat_penalty = 1, .seed = study->seed};
    Sampler *sampler = sampler_new(&sampling, model_config(study->model)->n_vocab, error);
    bool ok = sampler;
    for (int64_t i = 0; ok && i < o->n_predict && !interrupted(); i++) {
        int32_t id = sampler_next(sampler, logits);
        if (tokenizer_is_end(study->tokenizer, id)) break;
        ok = tokens_push(&study->tokens, id, error) && session_feed(session, &id, 1, logits, 1, error);
        if (ok && each) each(user);
    }
    sampler_free(sampler);
    return ok;
}

const char *head_name(char *buffer, size_t layer, size_t head) {
    snprintf(buffer, 32, "L%zuH%zu", layer, head);
    return buffer;
}

/* The number behind a letter, as the 3 of "L3"; false, and nothing read, where there is none. */
static bool read_numbered(const char **at, char letter, unsigned long long *number) {
    if (**at != letter || (*at)[1] < '0' || (*at)[1] > '9') return false;
    char *end;
    *number = strtoull(*at + 1, &end, 10); /* what is too large becomes the largest: refused all the same */
    *at = end;
    return true;
}

bool parse_head(const char **at, unsigned long long *layer, unsigned long long *head, bool *one) {
    if (!read_numbered(at, 'L', layer)) return false;
    *one = read_numbered(at, 'H', head);
    return true;
}

bool parse_list(const char *list, const char *what, size_t n, bool *chosen, Error *error) {
    for (size_t i = 0; i < n; i++) chosen[i] = !list;
    const char *at = list;
    while (at) {
        char *end;
        errno = 0;
        unsigned long long first = strtoull(at, &end, 10), last = first;
        bool ok = *at >= '0' && *at <= '9';
        if (ok && *end == '-') {
            ok = end[1] >= '0' && end[1] <= '9';
            last = strtoull(end + 1, &end, 10);
        }
        if (!ok || errno || first > last || (*end && *end != ','))
            return error_set(error, "'%s' is no list of %ss such as 0,3,5-7", list, what);
        if (last >= n)
            return error_set(error, "%s %llu does not exist: there are %zu, from 0 on", what, last, n);
        for (size_t i = (size_t)first; i <= last; i++) chosen[i] = true;
        at = *end ? end + 1 : NULL;
    }
    return true;
}

static bool is_same_file(const char *a, const char *b) {
    struct stat of_a, of_b;
    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}

bool study_check_output(const Study *study, const char *example, Error *error) {
    const StudyOptions *o = study->options;
    const struct {
        const char *path, *name;
    } read[] = {{o->model, "model"}, {o->tokenizer, "vocabulary"}, {o->prompt_file, "text"}};
    if (!o->output) return error_set(error, "%s writes a file: name it with -o %s", study->command, example);
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (read[i].path && is_same_file(o->output, read[i].path))
            return error_set(error, "-o %s is the %s itself; choose another name", o->output, read[i].name);
    return true;
}

bool begins_word(const Study *study, size_t at) {
    String piece = tokenizer_piece(study->tokenizer, study->tokens.ids[at], true);
    return at == 0 || (at == 1 && study->bos) || (piece.n > 0 && memchr(" \t\n\r", piece.data[0], 4));
}

bool join_tokens(const Study *study, bool special, JoinedText *text, Error *error) {
    const Tokens *tokens = &study->tokens;
    size_t n = 0;
    for (size_t i = 0; i < tokens->n; i++) n += tokenizer_piece(study->tokenizer, tokens->ids[i], special).n;
    *text = (JoinedText){malloc(n + 1), calloc(tokens->n + 1, sizeof *text->offsets)};
    if (!text->bytes || !text->offsets) return error_set(error, "not enough memory for %zu words", tokens->n);
    for (size_t i = 0; i < tokens->n; i++) {
        String piece = tokenizer_piece(study->tokenizer, tokens->ids[i], special);
        if (piece.n > 0) memcpy(text->bytes + text->offsets[i], piece.data, piece.n);
        text->offsets[i + 1] = text->offsets[i] + piece.n;
    }
    return true;
}

void joined_free(JoinedText *text) {
    free(text->bytes);
    free(text->offsets);
}

void json_joined(Report *report, const char *key, const JoinedText *text, size_t begin, size_t end) {
    json_text(report, key, text->bytes + text->offsets[begin], text->offsets[end] - text->offsets[begin]);
}

static bool check_below(const char *what, int64_t value, size_t n, Error *error) {
    if (value < (int64_t)n) return true;
    return error_set(error, "%s %" PRId64 " does not exist: there are %zu, from 0 on", what, value, n);
}

bool study_check_place(const Study *study, Error *error) {
    const StudyOptions *options = study->options;
    const Config *config = model_config(study->model);
    return check_below("layer", options->layer, config->n_layer, error) &&
           check_below("head", options->head, config->n_head, error) &&
           check_below("query", options->query, study->tokens.n + (size_t)options->n_predict, error);
}

bool study_token(const Study *study, const char *text, int32_t *id, Error *error) {
    size_t n_vocab = tokenizer_n_vocab(study->tokenizer);
    if (!text[0]) return error_set(error, "--token is empty: give the text of a token, or its id, as #123");
    if (text[0] == '#' && text[1]) {
        char *end;
        errno = 0;
        unsigned long long number = strtoull(text + 1, &end, 10);
        if (*end || errno || number >= n_vocab)
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

bool parse_choice(const char *option, const char *value, const char *const *names, size_t n, size_t *choice,
                  Error *error) {
    char all[128] = "";
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(all);
        *choice = value ? i : 0;
        if (!value || strcmp(value, names[i]) == 0) return true;
        snprintf(all + used, sizeof all - used, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", names[i]);
    }
    return error_set(error, "%s takes %s, not '%s'", option, all, value);
}

double vector_norm(const float *x, size_t n) {
    double square = 0;
    for (size_t i = 0; i < n; i++) square += (double)x[i] * (double)x[i];
    return sqrt(square);
}

double norm_mean(const Config *config, const float *x) {
    double sum = 0;
    for (size_t i = 0; i < config->d_model && config->family->norm == NORM_LAYER; i++) sum += (double)x[i];
    return sum / (double)config->d_model;
}

double norm_scale(const Config *config, const float *x) {
    double mean = norm_mean(config, x), sum = 0;
    for (size_t i = 0; i < config->d_model; i++) sum += ((double)x[i] - mean) * ((double)x[i] - mean);
    return sqrt(sum / (double)config->d_model + (double)config->norm_eps);
}

Distribution distribution_of(const float *logits, size_t n_vocab) {
    Distribution d = {.max = (double)logits[0]};
    for (size_t i = 1; i < n_vocab; i++)
        if ((double)logits[i] > d.max) d.max = (double)logits[i], d.best = (int32_t)i;
    /* With e_i = exp(x_i − max): H = ln Σe − Σ e·(x − max) / Σe. */
    double sum = 0, weighted = 0;
    for (size_t i = 0; i < n_vocab; i++) {
        double x = (double)logits[i] - d.max, e = exp(x);
        sum += e;
        if (e > 0) weighted += e * x;
    }
    d.log_sum = d.max + log(sum);
    d.entropy = log(sum) - weighted / sum;
    return d;
}

double sum_of_exp(const Study *study, const float *logits, size_t n_vocab, float max, float temperature) {
    enum { BLOCK = 512 };
    double sum = 0;
    for (size_t begin = 0, n; begin < n_vocab; begin += n) {
        float x[BLOCK];
        n = at_most(BLOCK, n_vocab - begin);
        for (size_t i = 0; i < n; i++) x[i] = (logits[begin + i] - max) / temperature;
        sum += (double)study->compute.kernels->exp_sum(x, 0, n);
    }
    return sum;
}

size_t logits_rank(const float *logits, size_t n_vocab, int32_t id) {
    size_t rank = 1;
    for (size_t i = 0; i < n_vocab; i++) rank += logits[i] > logits[id];
    return rank;
}

/* The least of the k found so far stands last; k is a handful, so a new one is inserted in its place. */
size_t logits_top(const float *logits, size_t n_vocab, size_t k, int32_t *ids) {
    size_t n = 0;
    if (k > n_vocab) k = n_vocab;
    for (size_t i = 0; k && i < n_vocab; i++) {
        if (n == k && !(logits[i] > logits[ids[n - 1]])) continue;
        size_t at = n < k ? n++ : n - 1;
        for (; at > 0 && logits[i] > logits[ids[at - 1]]; at--) ids[at] = ids[at - 1];
        ids[at] = (int32_t)i;
    }
    return n;
}

size_t largest_of(const double *values, size_t n, size_t k, size_t *places) {
    size_t found = 0;
    for (size_t i = 0; k > 0 && i < n; i++) {
        if (found == k && !(values[i] > values[places[k - 1]])) continue;
        size_t at = found < k ? found++ : k - 1;
        for (; at > 0 && values[i] > values[places[at - 1]]; at--) places[at] = places[at - 1];
        places[at] = i;
    }
    return found;
}

double logits_kl(const float *p, const float *q, size_t n_vocab) {
    Distribution dp = distribution_of(p, n_vocab), dq = distribution_of(q, n_vocab);
    double kl = 0;
    for (size_t i = 0; i < n_vocab; i++) {
        double log_p = (double)p[i] - dp.log_sum, log_q = (double)q[i] - dq.log_sum;
        kl += exp(log_p) * (log_p - log_q);
    }
    return kl > 0 ? kl : 0; /* what is below zero is rounding */
}
