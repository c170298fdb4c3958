/*
 * A conversation as a model reads it: messages, laid out by a chat template (jinja/template.h), as tokens. What people and
 * models have said steers nothing: control tokens are those of the template (tokenizer_encode_marked).
 */
#ifndef ATTN_CONVERSATION_H
#define ATTN_CONVERSATION_H

#include "checkpoint/checkpoint.h"
#include "jinja/template.h"
#include "tokenizer.h"

/* Borrowed. Bytes that are no UTF-8 count as U+FFFD each. */
typedef struct ChatMessage {
    String role; /* "system", "user", "assistant" …: the template's own words, never a stranger's */
    String content;
    String thoughts; /* of an answer that keeps them apart; n = 0: none */
    String name;     /* of who says it, which some templates write; n = 0: none */
} ChatMessage;

/*
 * A chat template from its source, or the checkpoint's own where that is NULL. NULL with an error that says what is wrong with
 * it, or that the checkpoint has none; the program says how one is given.
 */
Template *conversation_template(const Checkpoint *checkpoint, const String *source, Error *error);

/*
 * Whether an object may be a template's further variables, such as enable_thinking: texts, numbers, true, false and null, under
 * names that are none of the conversation's own. False with an error that names the one.
 */
bool conversation_takes(const Json *variables, Error *error);

/* Such an object from its JSON; json_free releases it. NULL with an error, in which the text is called `what`. */
Json *conversation_variables(const char *text, const char *what, Error *error);

/*
 * Appends the tokens of n messages, with those that begin an answer if `answers`, to `tokens`. The template has these variables,
 * too, which conversation_takes has taken; NULL: no others. *thinks, which may be NULL, is whether the template's own last word is
 * <think>. The template is told the local time. Fails where it raises an exception or makes no tokens, or memory runs out; what
 * has been appended by then means nothing.
 */
bool conversation_encode(const Template *template, const Tokenizer *tokenizer, const ChatMessage *messages,
                         size_t n, const Json *variables, bool answers, Tokens *tokens, bool *thinks,
                         Error *error);

#endif
