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

typedef enum FieldKind { FIELD_REAL, FIELD_COUNT, FIELD_WHOLE } FieldKind; /* float, size_t, int64_t */

#define SAMPLING(member) (offsetof(Request, sampling) + offsetof(SamplerOptions, member))

/* Options as OpenAI, vLLM or llama.cpp's server name them. */
static const struct Field {
    const char *name;
    uint16_t kind, offset; /* in a Request */
    float min, max;
} fields[] = {
    {"temperature", FIELD_REAL, SAMPLING(temperature), 0, 1e9F},
    {"top_p", FIELD_REAL, SAMPLING(top_p), 0, 1},
    {"min_p", FIELD_REAL, SAMPLING(min_p), 0, 1},
    {"repeat_penalty", FIELD_REAL, SAMPLING(repeat_penalty), 0.01F, 100},
    {"repetition_penalty", FIELD_REAL, SAMPLING(repeat_penalty), 0.01F, 100},
    {"presence_penalty", FIELD_REAL, SAMPLING(presence_penalty), -1000, 1000},
    {"frequency_penalty", FIELD_REAL, SAMPLING(frequency_penalty), -1000, 1000},
    {"top_k", FIELD_COUNT, SAMPLING(top_k), -1, 1e9F}, /* -1: all, as 0 */
    {"repeat_last_n", FIELD_COUNT, SAMPLING(penalty_window), 0, 1e9F},
    {"max_tokens", FIELD_WHOLE, offsetof(Request, n_predict), -1, 1e9F},
    {"max_completion_tokens", FIELD_WHOLE, offsetof(Request, n_predict), -1, 1e9F},
    {"n_predict", FIELD_WHOLE, offsetof(Request, n_predict), -1, 1e9F},
    {"seed", FIELD_WHOLE, offsetof(Request, seed), -0x1p63F, 0x1p63F},
    {"n", FIELD_COUNT, offsetof(Request, n), 1, REQUEST_MAX_TEXTS},
    {"logprobs", FIELD_COUNT, offsetof(Request, n_top), 0, MAX_TOP}, /* as completions have it */
    {"top_logprobs", FIELD_COUNT, offsetof(Request, n_top), 0, MAX_TOP},
};

static bool bad_value(const char *name, const char *wanted, Error *error) {
    return error_set(error, "\"%s\" must be %s", name, wanted);
}

static bool read_field(Request *request, const struct Field *field, const Json *value, Error *error) {
    int64_t whole = 0;
    bool fits = value->kind == JSON_NUMBER && value->number >= (double)field->min &&
                value->number <= (double)field->max;
    if (field->kind != FIELD_REAL) fits = fits && request_whole(value, &whole);
    if (!fits)
        return error_set(error, "\"%s\" must be %s from %g to %g", field->name,
                         field->kind == FIELD_REAL ? "a number" : "an integer", (double)field->min,
                         (double)field->max);
    char *at = (char *)request + field->offset;
    float real = (float)value->number;
    size_t count = whole < 0 ? 0 : (size_t)whole;
    /* OpenAI and llama.cpp's server keep the likeliest token then; our sampler would take 0 for all of them. */
    if (field->offset == SAMPLING(top_p) && real <= 0) real = FLT_MIN;
    if (field->kind == FIELD_REAL) memcpy(at, &real, sizeof real);
    if (field->kind == FIELD_COUNT) memcpy(at, &count, sizeof count);
    if (field->kind == FIELD_WHOLE) memcpy(at, &whole, sizeof whole);
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

/* Whether it is one of some words with a space between them. */
static bool is_one_of(String key, const char *words) {
    for (size_t n; *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        if (string_compare(key, (String){words, n}) == 0) return true;
    }
    return false;
}

/* Whether a value asks for nothing that is not done anyway: null, false, nothing in it; or what is the default of all. */
static bool asks_nothing(String key, const Json *value) {
    switch ((JsonKind)value->kind) {
    case JSON_NULL: return true;
    case JSON_BOOL: return value->boolean == is_one_of(key, "add_generation_prompt detokenize");
    case JSON_NUMBER:
        return (value->number == 1 && string_equals(key, "best_of")) ||
               (value->number == 0 && string_equals(key, "min_tokens"));
    case JSON_TEXT:
        return value->n == 0 ||
               (is_one_of(key, "tool_choice function_call") && is_one_of(json_string(value), "none auto"));
    case JSON_ARRAY:
        return value->n == 0 || (value->n == 1 && string_equals(key, "modalities") &&
                                 json_equals(json_item(value, 0), "text"));
    default:
        return value->n == 0 ||
               (string_equals(key, "response_format") && json_equals(json_get(value, "type"), "text"));
    }
}

static bool refuse(String key, const char *why, Error *error) {
    return error_set(error, "\"%.*s\" %s", string_shown(key), key.data, why);
}

/* Refuses members that are none of these words, unless they ask for nothing. */
static bool has_only(const Json *json, const char *words, const char *why, Error *error) {
    for (size_t i = 0; i < json->n; i++)
        if (!is_one_of(json_key(json, i), words) && !asks_nothing(json_key(json, i), json_item(json, i)))
            return refuse(json_key(json, i), why, error);
    return true;
}

/* Names of one thing: it must be the same thing in all of them, or the last would count. */
static bool agree(const Json *body, Error *error) {
    for (const struct Field *b = fields; b < fields + sizeof fields / sizeof *fields; b++)
        for (const struct Field *a = fields; a < b; a++) {
            const Json *one = json_get(body, a->name), *other = json_get(body, b->name);
            if (a->offset == b->offset && one && other && one->kind == JSON_NUMBER &&
                other->kind == JSON_NUMBER && one->number != other->number)
                return error_set(error, "\"%s\" and \"%s\" say two things", a->name, b->name);
        }
    return true;
}

/* Whether it is a text, or an array of token ids, of which one at least. */
static bool is_prompt(const Json *prompt) {
    int64_t id;
    for (size_t i = 0; prompt->kind == JSON_ARRAY && i < prompt->n; i++)
        if (!request_whole(json_item(prompt, i), &id) || id < 0 || id > INT32_MAX) return false;
    return prompt->kind == JSON_TEXT || (prompt->kind == JSON_ARRAY && prompt->n > 0);
}

/* One prompt, or an array of them, whose items lie side by side. */
static bool read_prompts(Request *request, const Json *value, Error *error) {
    const bool is_one = is_prompt(value) || value->kind != JSON_ARRAY;
    request->prompts = is_one ? value : value->items;
    request->n_prompts = is_one ? 1 : value->n;
    for (size_t i = 0; i < request->n_prompts; i++)
        if (!is_prompt(&request->prompts[i])) request->n_prompts = 0;
    return request->n_prompts > 0 ||
           bad_value("prompt", "a text, an array of token ids, or an array of such", error);
}

/* A member of a request in the short form, or of a body. */
static bool read_member(Request *request, String key, const Json *value, Error *error) {
    const bool is_bool = value->kind == JSON_BOOL;
    /* They change no text, those of tools and of a stream too, since neither is done here; read_messages has the first. */
    if (is_one_of(key,
                  "messages model user metadata id store service_tier stream_options parallel_tool_calls "
                  "safety_identifier prompt_cache_key prompt_cache_retention priority request_id "
                  "length_penalty spaces_between_special_tokens"))
        return true;
    if (value->kind != JSON_NULL) {
        if (string_equals(key, "stop")) return read_stops(request, value, error);
        if (string_equals(key, "prompt")) return read_prompts(request, value, error);
        if (value->kind == JSON_OBJECT && string_equals(key, "chat_template_kwargs"))
            return request->variables = value, conversation_takes(value, error);
        if (is_bool && string_equals(key, "skip_special_tokens")) return request->skip_special = value, true;
        if (string_equals(key, "logprobs")) {
            request->logprobs = !is_bool || value->boolean;
            if (is_bool) return true; /* as chats have it, "top_logprobs" beside it */
        }
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            if (string_equals(key, fields[i].name)) return read_field(request, &fields[i], value, error);
    }
    return asks_nothing(key, value) || refuse(key, "is not done here", error);
}

/* ---- Messages ---- */

/* A member, NULL where its value is null: a table's row has all of its columns. */
static const Json *given(const Json *object, const char *key) {
    const Json *value = json_get(object, key);
    return value && value->kind == JSON_NULL ? NULL : value;
}

/* The text of a message: a text, or parts, each a text or {"type": "text", "text"}, which *joined has on lines of their own, as vLLM has. */
static bool read_content(const Json *content, TextBuffer *joined, String *text, Error *error) {
    bool is_text = content && content->kind == JSON_TEXT, in_parts = content && content->kind == JSON_ARRAY;
    *text = json_string(content);
    for (size_t i = 0; in_parts && i < content->n; i++) {
        const Json *part = json_item(content, i);
        if (json_equals(json_get(part, "type"), "text")) part = json_get(part, "text");
        if (!part || part->kind != JSON_TEXT)
            return error_set(error, "a message's content may have parts of text only");
        if ((i && !text_append(joined, "\n", 1)) || !text_append(joined, part->text, part->n))
            return error_set(error, "not enough memory");
    }
    if (in_parts) *text = text_string(joined);
    return is_text || in_parts || error_set(error, "a message needs a content that is a text");
}

/* The other members, of which some would have to be laid out, or gone on from. */
static bool read_others(const Json *json, ChatMessage *message, Error *error) {
    for (size_t i = 0; i < json->n; i++) {
        const String key = json_key(json, i);
        const Json *value = json_item(json, i);
        if (string_equals(key, "name")) message->name = json_string(value);
        if (is_one_of(key, "reasoning_content reasoning thinking") && message->thoughts.n == 0)
            message->thoughts = json_string(value); /* as /save has it */
        if (is_one_of(key, "tool_calls function_call tool_call_id refusal audio prefix") &&
            !asks_nothing(key, value))
            return refuse(key, "of a message is not done here", error);
    }
    return true;
}

static bool read_messages(Request *request, const Json *messages, Error *error) {
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
        if (!is_one_of(to->role, "system user assistant developer tool"))
            return error_set(error, "a message's role must be system, user, assistant, developer or tool");
        const Json *content = json_get(message, "content");
        if (!read_others(message, to, error)) return false;
        if (content && content->kind == JSON_NULL && string_equals(to->role, "assistant")) continue;
        if (!read_content(content, &request->contents[i], &to->content, error)) return false;
    }
    request->n_prompts = 1;
    return true;
}

/* ---- The line ---- */

static bool is_id(const Json *id) {
    int64_t number;
    return id && (id->kind == JSON_TEXT || request_whole(id, &number));
}

static bool all_texts(const Json *array) {
    for (size_t i = 0; i < array->n; i++)
        if (json_item(array, i)->kind != JSON_TEXT) return false;
    return array->n > 0;
}

/* A request for likelihoods, which has no options. */
static bool read_context(Request *request, Error *error) {
    const Json *json = request->json;
    if (!has_only(json, "id context continuation choices model user metadata",
                  "is not done here with a context", error))
        return false;
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
    if (!request->prompts == !request->messages)
        return error_set(error, "a request needs a \"prompt\" or \"messages\", one of the two");
    if (request->n_top > 0 && !request->logprobs)
        return error_set(error, "\"top_logprobs\" needs \"logprobs\"");
    return request->n_prompts * request->n <= REQUEST_MAX_TEXTS ||
           error_set(error, "%zu prompts and \"n\" %zu make more than %d texts", request->n_prompts,
                     request->n, REQUEST_MAX_TEXTS);
}

/* A line of OpenAI's has these four members around and with the body, and no other. */
static bool read_envelope(const Json *json, const Json *body, Error *error) {
    static const char *const completions = "/v1/completions /completions", /* Azure's have no version */
        *const chats = "/v1/chat/completions /chat/completions";
    const Json *url = given(json, "url"), *method = given(json, "method");
    if (!body || body->kind != JSON_OBJECT) return error_set(error, "the request has no body");
    if (!has_only(json, "custom_id method url body",
                  "stands beside the body, where nobody reads it; put it into the body", error))
        return false;
    if (method && !json_equals(method, "POST")) return bad_value("method", "POST", error);
    if (url && !is_one_of(json_string(url), completions) && !is_one_of(json_string(url), chats))
        return bad_value("url", "/v1/completions or /v1/chat/completions", error);
    return !url || is_one_of(json_string(url), chats) == !given(body, "prompt") ||
           error_set(error, "the body is not one for the request's url");
}

bool request_read(Request *request, const char *line, size_t n, size_t number, const SamplerOptions *sampling,
                  int64_t n_predict, Error *error) {
    Error why;
    *request = (Request){.line = number, .sampling = *sampling, .n_predict = n_predict, .n = 1, .seed = -1};
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
    uint64_t hash = string_hash(name, TEXT_HASH ^ seed); /* all bits are then mixed as splitmix64 does */
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
    return hash ^ hash >> 31;
}
