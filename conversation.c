#include "conversation.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <time.h>

enum {
    MEMBERS = 5,          /* of a message, and of the context, at most */
    MAX_TEXT = INT32_MAX, /* bytes that a Json's text may have, U+FFFD in the place of each */
};

Template *conversation_template(const Checkpoint *checkpoint, const String *source, Error *error) {
    String text = {0};
    Error why;
    if (source)
        text = *source;
    else if (!checkpoint_string(checkpoint, "tokenizer.chat_template", &text, error))
        return NULL;
    if (!text.data) {
        checkpoint_error(checkpoint, error, "has no chat template (tokenizer.chat_template); give one");
        return NULL;
    }
    Template *template = template_parse(text, &why);
    if (!template && source) error_set(error, "%s", why.message);
    if (!template && !source) checkpoint_error(checkpoint, error, "%s", why.message);
    return template;
}

/* The clock of template_render. */
static int64_t local_now(void) {
    time_t now = time(NULL);
    struct tm local;
    return localtime_r(&now, &local) ? (int64_t)now + local.tm_gmtoff : (int64_t)now;
}

static Json json_text(String text) {
    return (Json){.kind = JSON_TEXT, .n = (uint32_t)text.n, .text = text.n ? text.data : ""};
}

static void add_member(Json *object, Json *members, const char *key, Json value) {
    members[2 * object->n] = json_text(string_from(key));
    members[2 * object->n + 1] = value;
    object->n++;
}

/* A text as UTF-8. Repaired it is written to *room, which moves behind it. */
static Json clean_text(String text, char **room) {
    char *begin = *room;
    if (utf8_is_valid(text)) return json_text(text);
    for (size_t at = 0, length; at < text.n; at += length) {
        uint32_t c;
        length = utf8_decode(text.data + at, text.n - at, &c);
        bool is_good = c < UTF8_INVALID;
        size_t n = is_good ? length : 3;
        memcpy(*room, is_good ? text.data + at : "\xef\xbf\xbd", n);
        *room += n;
    }
    return json_text((String){begin, (size_t)(*room - begin)});
}

/* Bytes that the texts take which must be repaired. */
static bool count_room(const ChatMessage *messages, size_t n, size_t *room, Error *error) {
    *room = 0;
    for (size_t i = 0; i < n; i++) {
        const String texts[] = {messages[i].role, messages[i].content, messages[i].thoughts,
                                messages[i].name};
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
            if (texts[k].n > MAX_TEXT / 3) return error_set(error, "message %zu is too long", i + 1);
            if (!utf8_is_valid(texts[k])) *room += 3 * texts[k].n;
        }
    }
    return true;
}

static void add_token(Json *object, Json *members, const char *key, const Tokenizer *tokenizer, int32_t id) {
    if (id >= 0) add_member(object, members, key, json_text(tokenizer_piece(tokenizer, id, true)));
}

/* Tokens steer the model, and so do roles: nobody outside may give a template its own. */
static bool is_own(String name) {
    return string_equals(name, "messages") || string_equals(name, "add_generation_prompt") ||
           string_ends(name, "_token");
}

bool conversation_takes(const Json *variables, Error *error) {
    for (size_t i = 0; i < variables->n; i++) {
        const String name = json_key(variables, i);
        const JsonKind kind = json_item(variables, i)->kind;
        if (is_own(name) || kind == JSON_ARRAY || kind == JSON_OBJECT)
            return error_set(error, "a template's variable \"%.*s\" %s", string_shown(name), name.data,
                             is_own(name) ? "is the conversation's own"
                                          : "must be a text, a number, true, false or null");
    }
    return true;
}

Json *conversation_variables(const char *text, const char *what, Error *error) {
    Error why;
    Json *variables = json_parse(text, strlen(text), &why);
    const bool ok = !variables ? error_set(error, "%s is no JSON: %s", what, why.message)
                    : variables->kind != JSON_OBJECT
                        ? error_set(error, "%s must be an object, as {\"enable_thinking\": false}", what)
                        : conversation_takes(variables, error);
    if (ok) return variables;
    json_free(variables);
    return NULL;
}

/*
 * The context of the template, with the names that transformers gives it; what is not there, such as tools, is left out,
 * since some templates take a null for a list. Thoughts have both of their names. One block of memory, which free() releases:
 * the context, its members, the messages, theirs, and repaired texts.
 */
static Json *make_context(const Tokenizer *tokenizer, const ChatMessage *messages, size_t n,
                          const Json *variables, bool answers, Error *error) {
    const size_t n_members = MEMBERS + (variables ? variables->n : 0);
    size_t n_room, n_nodes = 1 + 2 * n_members + n * (1 + 2 * MEMBERS);
    if (!count_room(messages, n, &n_room, error)) return NULL;
    Json *context = calloc(1, n_nodes * sizeof *context + n_room);
    if (!context) return error_set(error, "not enough memory for the conversation"), NULL;
    Json *members = context + 1, *list = members + 2 * n_members, *their_members = list + n;
    char *room = (char *)(context + n_nodes);
    for (size_t i = 0; i < n; i++, their_members += 2 * MEMBERS) {
        list[i] = (Json){.kind = JSON_OBJECT, .items = their_members};
        add_member(&list[i], their_members, "role", clean_text(messages[i].role, &room));
        add_member(&list[i], their_members, "content", clean_text(messages[i].content, &room));
        if (messages[i].name.n > 0)
            add_member(&list[i], their_members, "name", clean_text(messages[i].name, &room));
        if (messages[i].thoughts.n == 0) continue;
        Json thoughts = clean_text(messages[i].thoughts, &room);
        add_member(&list[i], their_members, "thinking", thoughts);
        add_member(&list[i], their_members, "reasoning_content", thoughts);
    }
    *context = (Json){.kind = JSON_OBJECT, .items = members};
    add_member(context, members, "messages", (Json){.kind = JSON_ARRAY, .n = (uint32_t)n, .items = list});
    add_member(context, members, "add_generation_prompt", (Json){.kind = JSON_BOOL, .boolean = answers});
    add_token(context, members, "bos_token", tokenizer, tokenizer_bos(tokenizer));
    add_token(context, members, "eos_token", tokenizer, tokenizer_eos(tokenizer));
    for (size_t i = 0; variables && i < 2 * variables->n; i++)
        members[2 * context->n + i] = variables->items[i];
    if (variables) context->n += variables->n;
    return context;
}

/* Whether the template itself ends the text so. */
static bool ends_with(const TextBuffer *text, const TextBuffer *marks, const char *end) {
    size_t n = text->n, size = strlen(end);
    while (n > 0 && strchr(" \n\r\t", text->data[n - 1])) n--;
    return n >= size && memcmp(text->data + n - size, end, size) == 0 &&
           !memchr(marks->data + n - size, 1, size);
}

bool conversation_encode(const Template *template, const Tokenizer *tokenizer, const ChatMessage *messages,
                         size_t n, const Json *variables, bool answers, Tokens *tokens, bool *thinks,
                         Error *error) {
    TextBuffer text = {0}, marks = {0};
    size_t begin = tokens->n;
    Json *context = make_context(tokenizer, messages, n, variables, answers, error);
    int32_t bos = tokenizer_bos(tokenizer);
    bool ok = context && template_render(template, context, local_now(), &text, &marks, error) &&
              (!tokenizer_adds_bos(tokenizer) || tokens_push(tokens, bos, error)) &&
              tokenizer_encode_marked(tokenizer, text_string(&text), text_string(&marks).data, tokens, error);
    int32_t *ids = tokens->n > begin ? tokens->ids + begin : NULL;
    if (ok && tokens->n - begin > 1 && ids[0] == bos && ids[1] == bos) /* the template has it, too */
        memmove(ids, ids + 1, (--tokens->n - begin) * sizeof *ids);
    if (ok && tokens->n == begin)
        ok = error_set(error, "the chat template makes no tokens of the conversation");
    if (thinks) *thinks = ok && ends_with(&text, &marks, "<think>");
    free(context);
    free(text.data);
    free(marks.data);
    return ok;
}
