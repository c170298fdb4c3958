/* The questions of a page to the engine that it has, or to the server that it came from. */
#include "views/view.h"

#include <stdio.h>
#include <string.h>

static const View *const asked[] = {&view_tokens,   &view_next, &view_score,   &view_attend,
                                    &view_heads,    &view_lens, &view_explain, &view_ablate,
                                    &view_experts,  &view_page, &view_shape,
#if !defined(__wasm__) /* which is small, and no page asks for it */
                                    &view_selfcheck
#endif
};
enum { N_ASKED = sizeof asked / sizeof *asked };

int view_ask(const Held *held, int argc, char **argv, Error *error) {
    char names[256] = "";
    for (size_t i = 0; i < N_ASKED; i++) {
        if (argc > 0 && strcmp(argv[0], asked[i]->name) == 0)
            return view_command(asked[i], held, argc, argv, error);
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", asked[i]->name);
    }
    error_set(error, "there is no view '%.100s' here, but %s", argc > 0 ? argv[0] : "", names);
    return EXIT_USAGE;
}
