#include "batch/request.h"

#include "batch/choice.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool request_whole(const Json *value, int64_t *number) {
    if (json_integer(value, number)) return true;
    bool whole = value && value->kind == JSON_NUMBER && fabs(value->number) < 0x1p53 &&
                 value->number == floor(value->number);
    if (whole) *number = (int64_t)value->number;
    return whole;
}

/* ---- Options ---- */

typedef enum FieldKind { FIELD_REAL, FIELD_COUNT } FieldKind;

/* Options as OpenAI, vLLM or llama.cpp's server name them. */
static const struct Field {
    const char *name;
    FieldKind kind;
    size_t offset; /* in a SamplerOptions */
    double min, max;
} fields[] = {
    {"temperature", FIELD_REAL, offsetof(SamplerOptions, temperature), 0, 1e9},
    {"top_p", FIELD_REAL, offsetof(SamplerOptions, top_p), 0, 1},
    {"min_p", FIELD_REAL, offsetof(SamplerOptions, min_p), 0, 1},
    {"repeat_penalty", FIELD_REAL, offsetof(SamplerOptions, repeat_penalty), 0.01, 100},
    {"repetition_penalty", FIELD_REAL, offsetof(SamplerOptions, repeat_penalty), 0.01, 100},
    {"presence_penalty", FIELD_REAL, offsetof(SamplerOptions, presence_penalty), -1000, 1000},
    {"frequency_penalty", FIELD_REAL, offsetof(SamplerOptions, frequency_penalty), -1000, 1000},
    {"top_k", FIELD_COUNT, offsetof(SamplerOptions, top_k), 0, 1e9},
    {"repeat_last_n", FIELD_COUNT, offsetof(SamplerOptions, penalty_window), 0, 1e9},
};

static bool bad_value(const char *name, const char *wanted, Error *error) {
    return error_set(error, "\"%s\" must be %s", name, wanted);
}

static bool read_field(const struct Field *field, const Json *value, SamplerOptions *sampling, Error *error) {
    char range[80];
    int64_t count = 0;
    bool fits = value->kind == JSON_NUMBER && value->number >= field->min && value->number <= field->max;
    if (field->kind == FIELD_COUNT) fits = fits && request_whole(value, &count);
    snprintf(range, sizeof range, "%s from %g to %g", field->kind == FIELD_REAL ? "a number" : "an integer",
             field->min, field->max);
    if (!fits) return bad_value(field->name, range, error);
    char *at = (char *)sampling + field->offset;
    float real = (float)value->number;
    /* OpenAI and llama.cpp's server keep the likeliest token then; our sampler would take 0 for all of them. */
    if (field->offset == offsetof(SamplerOptions, top_p) && real <= 0) real = FLT_MIN;
    size_t size = (size_t)count;
    memcpy(at, field->kind == FIELD_REAL ? (void *)&real : (void *)&size,
           field->kind == FIELD_REAL ? sizeof real : sizeof size);
    return true;
}

static bool add_stop(Request *request, const Json *value, Error *error) {
    String text = json_string(value);
    if (text.n == 0 || memchr(text.data, '\0', text.n))
        return bad_value("stop", "a text that is not empty, or an array of them", error);
    if (request->n_stops == REQUEST_MAX_STOPS)
        return error_set(error, "\"stop\" has more than %d texts", REQUEST_MAX_STOPS);
    char *copy = strndup(text.data, text.n);
    if (!copy) return error_set(error, "not enough memory");
    request->stops[request->n_stops++] = copy;
    return true;
}

static bool read_stops(Request *request, const Json *value, Error *error) {
    if (value->kind != JSON_ARRAY) return add_stop(request, value, error);
    for (size_t i = 0; i < value->n; i++)
        if (!add_stop(request, json_item(value, i), error)) return false;
    return true;
}

/* Whether a value asks for nothing that is not done anyway: null, false, nothing in it; or one text of several. */
static bool asks_nothing(String key, const Json *value) {
    bool counts = string_equals(key, "n") || string_equals(key, "best_of");
    switch ((JsonKind)value->kind) {
    case JSON_NULL: return true;
    case JSON_BOOL: return !value->boolean;
    case JSON_NUMBER: return counts && value->number == 1;
    default: return value->n == 0;
    }
}

static bool is_one_of(String key, const char *const *names) {
    while (*names && !string_equals(key, *names)) names++;
    return *names;
}

/* Names of one thing: it must be the same thing in all of them, or the last would count. */
static bool agree(const Json *body, Error *error) {
    static const char *const pairs[][2] = {{"max_tokens", "max_completion_tokens"},
                                           {"max_tokens", "n_predict"},
                                           {"max_completion_tokens", "n_predict"},
                                           {"repeat_penalty", "repetition_penalty"},
                                           {"logprobs", "top_logprobs"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const Json *a = json_get(body, pairs[i][0]), *b = json_get(body, pairs[i][1]);
        if (a && b && a->kind == JSON_NUMBER && b->kind == JSON_NUMBER && a->number != b->number)
            return error_set(error, "\"%s\" and \"%s\" say two things", pairs[i][0], pairs[i][1]);
    }
    return true;
}

/* "logprobs" as completions have it, an integer, or as chats do, true with "top_logprobs" beside it; and "n". None is false. */
static bool read_counts(Request *request, String key, const Json *value, Error *error) {
    const bool is_n = string_equals(key, "n"), is_true = value->kind == JSON_BOOL;
    const int64_t least = is_n, most = is_n ? REQUEST_MAX_TEXTS : MAX_TOP;
    int64_t number = 0;
    if (!(is_true && string_equals(key, "logprobs")) &&
        (!request_whole(value, &number) || number < least || number > most))
        return error_set(error, "\"%.*s\" must be an integer from %d to %d", string_shown(key), key.data,
                         (int)least, (int)most);
    if (is_n) return request->n_texts = (size_t)number, true;
    if (!is_true) request->n_top = (size_t)number;
    request->logprobs |= string_equals(key, "logprobs");
    return true;
}

/* A member of a request in the short form, or of a body. */
static bool read_member(Request *request, String key, const Json *value, Error *error) {
    static const char *const counts[] = {"max_tokens", "max_completion_tokens", "n_predict", NULL};
    static const char *const more[] = {"n", "logprobs", "top_logprobs", NULL};
    static const char *const told[] = {"model", "user", "metadata", "id", NULL};
    int64_t number = 0;
    if (is_one_of(key, told)) return true;
    if (value->kind != JSON_NULL) {
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            if (string_equals(key, fields[i].name))
                return read_field(&fields[i], value, &request->sampling, error);
        if (string_equals(key, "stop")) return read_stops(request, value, error);
        if (string_equals(key, "prompt")) return request->prompt = value, true;
        if (string_equals(key, "messages")) return true; /* read_messages has them */
        if (is_one_of(key, counts)) {
            if (!request_whole(value, &number) || number < -1 || number > 1000000000)
                return error_set(error, "\"%.*s\" must be an integer from -1 (until the text ends) to 1e9",
                                 string_shown(key), key.data);
            return request->n_predict = number, true;
        }
        if (is_one_of(key, more) && (value->kind != JSON_BOOL || value->boolean))
            return read_counts(request, key, value, error);
        if (string_equals(key, "seed")) {
            if (!request_whole(value, &number) || number < 0)
                return bad_value("seed", "an integer from 0 to 2^63 - 1", error);
            request->sampling.seed = (uint64_t)number;
            return request->has_seed = true;
        }
    }
    return asks_nothing(key, value) ||
           error_set(error, "\"%.*s\" is not done here", string_shown(key), key.data);
}

/* ---- Messages ---- */

/* A member, NULL where its value is null: a table's row has all of its columns. */
static const Json *given(const Json *object, const char *key) {
    const Json *value = json_get(object, key);
    return value && value->kind == JSON_NULL ? NULL : value;
}

/* The text of a message: a text, or parts {"type": "text", "text"}, which are joined in *joined. */
static bool read_content(const Json *content, TextBuffer *joined, String *text, Error *error) {
    bool is_text = content && content->kind == JSON_TEXT, in_parts = content && content->kind == JSON_ARRAY;
    *text = json_string(content);
    for (size_t i = 0; in_parts && i < content->n; i++) {
        const Json *part = json_item(content, i);
        if (!json_equals(json_get(part, "type"), "text"))
            return error_set(error, "a message's content may have parts of text only");
        String piece = json_string(json_get(part, "text"));
        if (!text_append(joined, piece.data, piece.n)) return error_set(error, "not enough memory");
    }
    if (in_parts) *text = (String){joined->n ? joined->data : "", joined->n};
    return is_text || in_parts || error_set(error, "a message needs a content that is a text");
}

static bool read_messages(Request *request, const Json *messages, Error *error) {
    static const char *const roles[] = {"system", "user", "assistant", "developer", "tool", NULL};
    if (!messages || messages->kind == JSON_NULL) return true;
    if (messages->kind != JSON_ARRAY || messages->n == 0)
        return bad_value("messages", "an array of messages, one at least", error);
    request->messages = calloc(messages->n, sizeof *request->messages);
    request->contents = calloc(messages->n, sizeof *request->contents);
    if (!request->messages || !request->contents) return error_set(error, "not enough memory");
    for (size_t i = 0; i < messages->n; i++) {
        const Json *message = json_item(messages, i);
        ChatMessage *to = &request->messages[request->n_messages++];
        to->role = json_string(json_get(message, "role"));
        const Json *thoughts = given(message, "reasoning_content");
        to->thoughts = json_string(thoughts ? thoughts : json_get(message, "thinking")); /* as /save has it */
        if (!is_one_of(to->role, roles))
            return error_set(error, "a message's role must be system, user, assistant, developer or tool");
        if (!read_content(json_get(message, "content"), &request->contents[i], &to->content, error))
            return false;
    }
    return true;
}

/* ---- The line ---- */

static bool is_id(const Json *id) {
    int64_t number;
    return id && (id->kind == JSON_TEXT || request_whole(id, &number));
}

/* Whether an array is one of token ids, of which one at least. */
static bool is_tokens(const Json *prompt) {
    int64_t id;
    for (size_t i = 0; i < prompt->n; i++)
        if (!request_whole(json_item(prompt, i), &id) || id < 0 || id > INT32_MAX) return false;
    return prompt->n > 0;
}

static bool all_texts(const Json *array) {
    for (size_t i = 0; i < array->n; i++)
        if (json_item(array, i)->kind != JSON_TEXT) return false;
    return array->n > 0;
}

/* A request for likelihoods, which has no options. */
static bool read_context(Request *request, Error *error) {
    static const char *const known[] = {"id",    "context", "continuation", "choices",
                                        "model", "user",    "metadata",     NULL};
    const Json *json = request->json;
    for (size_t i = 0; i < json->n; i++)
        if (!is_one_of(json_key(json, i), known) && !asks_nothing(json_key(json, i), json_item(json, i)))
            return error_set(error, "\"%.*s\" is not done here with a context",
                             string_shown(json_key(json, i)), json_key(json, i).data);
    request->context = given(json, "context");
    request->continuation = given(json, "continuation");
    request->choices = given(json, "choices");
    if (request->context->kind != JSON_TEXT) return bad_value("context", "a text", error);
    if (!request->continuation == !request->choices)
        return error_set(error, "a context needs a \"continuation\" or \"choices\", one of the two");
    if (request->continuation && request->continuation->kind != JSON_TEXT)
        return bad_value("continuation", "a text", error);
    return !request->choices || (request->choices->kind == JSON_ARRAY && all_texts(request->choices)) ||
           bad_value("choices", "an array of texts, one at least", error);
}

static bool read_body(Request *request, const Json *body, Error *error) {
    for (size_t i = 0; i < body->n; i++)
        if (!read_member(request, json_key(body, i), json_item(body, i), error)) return false;
    if (!agree(body, error) || !read_messages(request, json_get(body, "messages"), error)) return false;
    if (!request->prompt == !request->messages)
        return error_set(error, "a request needs a \"prompt\" or \"messages\", one of the two");
    if (request->n_top > 0 && !request->logprobs)
        return error_set(error, "\"top_logprobs\" needs \"logprobs\"");
    const Json *prompt = request->prompt;
    if (prompt && prompt->kind != JSON_TEXT && !(prompt->kind == JSON_ARRAY && is_tokens(prompt)))
        return bad_value("prompt", "a text, or an array of token ids", error);
    return true;
}

/* A line of OpenAI's has these four members around and with the body, and no other. */
static bool read_envelope(const Json *json, const Json *body, Error *error) {
    static const char *const members[] = {"custom_id", "method", "url", "body", NULL};
    static const char *const urls[] = {"/v1/completions", "/v1/chat/completions", NULL};
    const Json *url = given(json, "url"), *method = given(json, "method");
    if (!body || body->kind != JSON_OBJECT) return error_set(error, "the request has no body");
    for (size_t i = 0; i < json->n; i++)
        if (!is_one_of(json_key(json, i), members) && !asks_nothing(json_key(json, i), json_item(json, i)))
            return error_set(error,
                             "\"%.*s\" stands beside the body, where nobody reads it; put it into the body",
                             string_shown(json_key(json, i)), json_key(json, i).data);
    if (method && !json_equals(method, "POST")) return bad_value("method", "POST", error);
    if (url && !is_one_of(json_string(url), urls))
        return bad_value("url", "/v1/completions or /v1/chat/completions", error);
    return !url || json_equals(url, urls[0]) == (given(body, "prompt") != NULL) ||
           error_set(error, "the body is not one for the request's url");
}

bool request_read(Request *request, const char *line, size_t n, size_t number, const SamplerOptions *sampling,
                  int64_t n_predict, Error *error) {
    Error why;
    *request = (Request){.line = number, .sampling = *sampling, .n_predict = n_predict, .n_texts = 1};
    char *copy = malloc(n + 1);
    if (!copy) return error_set(error, "not enough memory for a line of %zu bytes", n);
    memcpy(copy, line, n);
    request->json = json_take(copy, n, &why);
    if (!request->json) { /* all of it stands in the line that the answer names */
        const char *what = strncmp(why.message, "line 1: ", 8) == 0 ? why.message + 8 : why.message;
        return error_set(error, "this is no JSON: %s", what);
    }
    const Json *json = request->json, *body = json;
    if (json->kind != JSON_OBJECT) return error_set(error, "a request is an object");
    request->is_openai = given(json, "custom_id") || given(json, "body");
    const char *name = request->is_openai ? "custom_id" : "id";
    const Json *id = given(json, name);
    if (is_id(id)) request->id = id;
    if (id && !request->id) return bad_value(name, "a text or an integer of 64 bits", error);
    if (request->is_openai) {
        body = given(json, "body");
        if (!read_envelope(json, body, error)) return false;
    }
    return given(json, "context") && !request->is_openai ? read_context(request, error)
                                                         : read_body(request, body, error);
}

void request_free(Request *request) {
    for (size_t i = 0; i < request->n_stops; i++) free(request->stops[i]);
    for (size_t i = 0; i < request->n_messages; i++) free(request->contents[i].data);
    free(request->messages);
    free(request->contents);
    json_free(request->json);
    *request = (Request){0};
}

bool request_name(const Request *request, TextBuffer *name) {
    char number[32];
    int64_t value = (int64_t)request->line;
    const bool is_text = request->id && request->id->kind == JSON_TEXT;
    String id = json_string(request->id);
    if (request->id && !is_text) request_whole(request->id, &value);
    int n = snprintf(number, sizeof number, "%s%lld", request->id ? "" : "line ", (long long)value);
    return is_text ? text_append(name, "\"", 1) && text_append(name, id.data, id.n)
                   : text_append(name, number, (size_t)n);
}

uint64_t request_hash(String name, uint64_t seed) {
    uint64_t hash = 0xcbf29ce484222325u ^ seed; /* FNV-1a, then all bits mixed as splitmix64 does */
    for (size_t i = 0; i < name.n; i++) hash = (hash ^ (unsigned char)name.data[i]) * 0x100000001b3u;
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
    return hash ^ hash >> 31;
}
