#include "page/ask.h"

#include "cli/process.h"

#include <stdio.h>
#include <string.h>

#if defined(__wasm__)
static const View *const asked[] = {VIEWS(VIEW_ROW, NO_ROW, NO_ROW)};
#else
static const View *const asked[] = {VIEWS(VIEW_ROW, VIEW_ROW, NO_ROW)};
#endif
enum { N_ASKED = sizeof asked / sizeof *asked };

int view_ask(const OpenModel *opened, int argc, char **argv, Error *error) {
    char names[256] = "";
    for (size_t i = 0; i < N_ASKED; i++) {
        if (argc > 0 && strcmp(argv[0], asked[i]->name) == 0)
            return view_command(asked[i], opened, argc, argv, error);
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", asked[i]->name);
    }
    error_set(error, "there is no view '%.100s' here, but %s", argc > 0 ? argv[0] : "", names);
    return EXIT_USAGE;
}
