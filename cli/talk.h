/*
 * The side of a conversation that types. On a terminal a line can be edited (editor.h) and brought back, one that begins with
 * a word such as /help is a command, and Ctrl-C ends an answer, or at the prompt the program. From a pipe every line is text.
 */
#ifndef ATTN_TALK_H
#define ATTN_TALK_H

#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

/* The commands of a line on a terminal, beside /help and /exit. */
typedef struct TalkCommand {
    const char *name, *value; /* "/save", "FILE"; "" where it takes none */
    const char *help;
    bool (*obey)(void *user, const char *value, Error *error); /* what fails is told, and the talk goes on */
} TalkCommand;

/* All is borrowed. */
typedef struct TalkSetup {
    const TalkCommand *commands; /* [n_commands] */
    size_t n_commands;
    void *user;  /* of the commands */
    bool colour; /* of what is typed */
} TalkSetup;

typedef struct Talk Talk;

/*
 * On a terminal Ctrl-C is from now on noticed by who answers, however long that takes (expect_interrupt). Lines are edited
 * where stdin and stderr are terminals, and TERM names one that is not dumb. NULL with an error.
 */
Talk *talk_new(const TalkSetup *setup, Error *error);
void talk_free(Talk *talk);

/*
 * The next line that is no command, in place of what `line` held, with a NUL behind its n bytes. *ends, with no line, where
 * there is none any more: at the end of stdin, after /exit or Ctrl-C. The caller frees line->data.
 */
bool talk_read(Talk *talk, TextBuffer *line, bool *ends, Error *error);

#endif
