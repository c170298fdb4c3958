#include "cli/notes.h"

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "cli/print.h"

#include <stddef.h>

void note_changed(const char *program, const Model *model) {
    Error line; /* which the path cannot break */
    if (!model || !checkpoint_changed(model_checkpoint(model))) return;
    error_set(&line, "%s: note: %s was written to while it was in use; old and new weights may be mixed here",
              program, checkpoint_path(model_checkpoint(model)));
    fprintf(stderr, "%s\n", line.message);
}

void print_not_done(FILE *out, const SamplingFields *fields) {
    for (size_t i = 0; i < fields->n_not_done && i < MAX_NOT_DONE; i++) {
        String name = fields->not_done[i];
        if (i) fputs(", ", out);
        print_json_characters(out, name.data, (size_t)string_shown(name));
    }
    if (fields->n_not_done > MAX_NOT_DONE) fprintf(out, " and %zu more", fields->n_not_done - MAX_NOT_DONE);
}

void note_not_done(const char *program, const SamplingFields *fields) {
    if (fields->n_not_done == 0) return;
    fprintf(stderr, "%s: note: the file asks for what is not done here: ", program);
    print_not_done(stderr, fields);
    fputc('\n', stderr);
}
