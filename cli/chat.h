/*
 * A conversation: what a person types, or what a pipe has, a line a turn, and what the model answers, as the model's own
 * chat template (jinja/template.h) lays them out. Each turn the whole conversation becomes tokens anew, and the session
 * computes those alone that it does not hold: what was said before is computed again only where the template shows it
 * in another way, as those do that drop earlier thoughts.
 *
 * The words of people, and of the model, steer nothing: control tokens are those of the template (tokenizer_encode_marked).
 */
#ifndef ATTN_CHAT_H
#define ATTN_CHAT_H

#include "base/json.h"
#include "cli/output.h"
#include "cli/print.h"
#include "cli/summary.h"
#include "generate.h"

/* All is borrowed. */
typedef struct ChatSetup {
    const char *template_file; /* NULL: the model's own template */
    const Json *variables;     /* the template's further ones (conversation_encode); NULL: none */
    const char *system;        /* what comes before the first turn; NULL: nothing */
    const Inputs *inputs;      /* which /save may not replace */
    String prompt;             /* one question, answered once; NULL: the lines of stdin */
    size_t n_predict;          /* tokens of an answer; SIZE_MAX: as many as it takes */
    bool shift;                /* where the context is full: drop the oldest turns */
    Colour colour;
    const Model *model;
    const Tokenizer *tokenizer;
    Session *session;
    Generator *generator; /* of that session, without `special` */
    Summary *summary;     /* its counts and times */
    Shown *shown;         /* where answers go; its error is chat_run's */
} ChatSetup;

/*
 * Talks (talk.h) until stdin ends. On a terminal reasoning is dimmed, and lines such as /save are commands, too. False
 * with an error, "interrupted" among them.
 */
bool chat_run(const ChatSetup *setup, Error *error);

#endif
