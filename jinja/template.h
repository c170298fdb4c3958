/*
 * Chat templates: an interpreter of Jinja as far as they use it. It renders as Hugging Face's transformers do, with Python's
 * jinja2, trim_blocks, lstrip_blocks and loop controls: statements set, for, if, macro, call, filter, with, raw, break,
 * continue and generation; expressions whole; the filters, tests and methods that templates use; tojson as json.dumps writes
 * it, with ensure_ascii=False. Lists have append and pop, too. Left out: other templates (include, import, extends, block).
 *
 * A template is a program from a stranger. Its size and nesting are bounded when it is parsed; its steps, its memory, its
 * output and the depth of its calls, one within the other, when it runs. It reads its context and the time, and nothing else.
 */
#ifndef ATTN_TEMPLATE_H
#define ATTN_TEMPLATE_H

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

/* A sanitizer's frames are larger. */
#if defined(__has_feature)
#define FRAME_SCALE (__has_feature(address_sanitizer) ? 8 : 1)
#elif defined(__SANITIZE_ADDRESS__)
#define FRAME_SCALE 8
#else
#define FRAME_SCALE 1
#endif

enum {
    TEMPLATE_MAX_BYTES = 1 << 18, /* of a source; the longest known have 20 KB */
    TEMPLATE_MAX_NESTING = 200,   /* of statements, brackets and operators in a source */
    TEMPLATE_MAX_NAMES = 2000,    /* in a source; each counts once in each scope that uses it */
    TEMPLATE_MAX_DEPTH = 1000, /* of what is being evaluated at once: calls of macros, what is within what; */
    TEMPLATE_MAX_STACK = FRAME_SCALE * (256 << 10), /* … and bytes of the stack that this takes */
    TEMPLATE_MAX_STEPS =
        20000000, /* a node evaluated, or 16 bytes of a text looked at (4, where characters are); a second at most */
    TEMPLATE_MAX_MEMORY = 128 << 20, /* bytes of all values that a rendering has made */
    TEMPLATE_MAX_OUTPUT = 64 << 20,
};

/* Immutable after template_parse; may be shared between threads. */
typedef struct Template Template;

/* NULL with an error that names the line. The source is copied. template_free accepts NULL. */
Template *template_parse(String source, Error *error);
void template_free(Template *template);

/*
 * Appends what the template makes of the context, an object whose members are its variables: messages, tools,
 * add_generation_prompt, bos_token … To `marks`, which may be NULL, goes for each byte of it a byte that tells where that
 * comes from: 0 the template itself, 1 outside. From outside are all texts of the context but its members whose names end with
 * "_token", and what is called "role" further within; and they stay so however the template cuts, joins, changes, replaces and formats them. A number has
 * no origin: its digits are the template's. `now` is what strftime_now tells, in seconds since 1970 by the local clock (without a
 * time zone). False with one line, which names the template's line, or is what raise_exception said; `out` is then as it was.
 */
bool template_render(const Template *template, const Json *context, int64_t now, TextBuffer *out,
                     TextBuffer *marks, Error *error);

#endif
