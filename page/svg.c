#include "page/svg.h"

#include "attn.h"
#include "cli/figure.h"

#include <math.h>

static FigureLabel label(const void *user, bool is_col, size_t at) {
    const Patterns *patterns = user;
    (void)is_col;
    return (FigureLabel){"", patterns->subject->tokens.ids[at], -1};
}

static double weight(const void *user, size_t query, size_t key) {
    return key <= query ? patterns_row(user, 0, query)[key] : NAN;
}

void svg_write(FILE *file, const Report *report, const Patterns *patterns) {
    char name[32], about[200];
    head_name(name, patterns->layer, patterns->head);
    snprintf(about, sizeof about,
             "Attention pattern of head %zu in layer %zu: row = query, column = key, each row sums to 1. "
             "attn %s",
             patterns->head, patterns->layer, ATTN_VERSION);
    size_t n = patterns->subject->tokens.n;
    figure_write(file, &(Figure){.report = report,
                                 .title = name,
                                 .about = about,
                                 .n_rows = n,
                                 .n_cols = n,
                                 .most = 1,
                                 .to = " &#8594; ",
                                 .user = patterns,
                                 .label = label,
                                 .value = weight});
}
