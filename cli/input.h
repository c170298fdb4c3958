/* Programs read these: a prompt or another text, lines that are typed or piped, and the model that nobody named. */
#ifndef ATTN_INPUT_H
#define ATTN_INPUT_H

#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    MAX_TEXT_BYTES = 1 << 28, /* of a prompt, or a text to score: its tokens take some five times as much */
    MAX_LINE_BYTES = 1 << 24, /* of what is typed */
};

/*
 * The whole of a file, or of stdin when path is "-". What has more than `most` bytes is refused: a file unread, anything
 * else where it crosses them. Fails after Ctrl-C. The caller frees text->data.
 */
bool read_text(const char *path, size_t most, TextBuffer *text, Error *error);

/*
 * A line of stdin, without its newline, in place of what `line` held; *ends, with no line read, where there is none
 * any more, or after Ctrl-C. The caller frees line->data.
 */
bool read_line(TextBuffer *line, bool *ends, Error *error);

/* The text of a prompt: of a file, or of stdin when path is NULL, without its final newline, which ends the line. */
bool read_prompt_text(const char *path, TextBuffer *text, Error *error);

/*
 * The model of those who name none, which a note then does: ./model.bin, else the one that `make install` put beside
 * this program's folder, at ../share/attn/model.gguf of it, written to buffer [size]. NULL: there is neither. The note ends
 * with `and`.
 */
const char *default_model(const char *program, const char *and, char *buffer, size_t size);

/*
 * Whether the path of a model may be one. False with an error where there is no such file, and it looks like a text that
 * was meant for -p.
 */
bool is_model_name(const char *path, Error *error);

#endif
