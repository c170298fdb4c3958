#include "page/svg.h"

#include "attn.h"

#include <string.h>

enum {
    CELL = 18,       /* pixels; less where all cells together would be wider than MAX_SIDE, … */
    MIN_CELL = 4,    /* … but not less than this */
    MAX_SIDE = 1080, /* pixels */
    MAX_LABEL = 20,  /* columns of a token that are shown */
    MARGIN = 8,
    TITLE_HEIGHT = 20,
};

static const double LEAST_WEIGHT = 1.0 / 255; /* a lighter cell would look like the background */

typedef struct Figure {
    const Report *report;
    const Tokens *tokens;
    size_t n;
    double cell, font; /* pixels */
    double x, y;       /* where the cells begin */
} Figure;

static void put_escaped(FILE *file, const char *text) {
    for (; *text; text++) switch (*text) {
        case '<': fputs("&lt;", file); break;
        case '>': fputs("&gt;", file); break;
        case '&': fputs("&amp;", file); break;
        default: putc(*text, file);
        }
}

/*
 * Writes a token, cut to MAX_LABEL columns: spaces as dots, and what XML reserves escaped. Returns its columns; with
 * file NULL it only counts them.
 */
static size_t put_token(FILE *file, const Figure *figure, size_t at) {
    String piece = tokenizer_piece(figure->report->tokenizer, figure->tokens->ids[at], true);
    size_t used = 0;
    for (size_t i = 0, width; i < piece.n; used += width) {
        char shown[16];
        i += show_char(figure->report, piece.data + i, piece.n - i, shown, &width);
        bool cut = used + width >= MAX_LABEL && i < piece.n;
        if (file) {
            if (cut)
                fputs("&#8230;", file);
            else if (strcmp(shown, " ") == 0)
                fputs("&#183;", file);
            else
                put_escaped(file, shown);
        }
        if (cut) return used + 1;
    }
    return used;
}

static Figure plan(const Report *report, const Tokens *tokens) {
    Figure figure = {.report = report, .tokens = tokens, .n = tokens->n};
    size_t longest = 1;
    for (size_t i = 0; i < figure.n; i++) {
        size_t width = put_token(NULL, &figure, i);
        if (width > longest) longest = width;
    }
    figure.cell = CELL;
    if (figure.cell * (double)figure.n > MAX_SIDE) figure.cell = MAX_SIDE / (double)figure.n;
    if (figure.cell < MIN_CELL) figure.cell = MIN_CELL;
    figure.font = figure.cell * 0.65;
    double label = (double)longest * figure.font * 0.62; /* sans-serif's mean width, and some */
    figure.x = MARGIN + label + 4;
    figure.y = MARGIN + TITLE_HEIGHT + label + 4;
    return figure;
}

static void put_labels(FILE *file, const Figure *figure) {
    double half = figure->cell / 2, down = figure->font * 0.35; /* from a letter's middle to its baseline */
    fprintf(file, "<g font-size=\"%.2f\" fill=\"#222\">\n", figure->font);
    for (size_t i = 0; i < figure->n; i++) {
        double middle = (double)i * figure->cell + half;
        fprintf(file, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"end\">", figure->x - 4,
                figure->y + middle + down);
        put_token(file, figure, i);
        fprintf(file, "</text>\n<text transform=\"translate(%.2f %.2f) rotate(-90)\">",
                figure->x + middle + down, figure->y - 4);
        put_token(file, figure, i);
        fputs("</text>\n", file);
    }
    fputs("</g>\n", file);
}

/* Row = query, column = key; the darker, the more weight. */
static void put_cells(FILE *file, const Figure *figure, const Patterns *patterns) {
    fputs("<g fill=\"#3b4cc0\">\n", file);
    for (size_t query = 0; query < figure->n; query++) {
        const double *row = patterns_row(patterns, 0, query);
        for (size_t key = 0; key <= query; key++) {
            if (row[key] < LEAST_WEIGHT) continue;
            fprintf(
                file,
                "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill-opacity=\"%.3f\"><title>",
                figure->x + (double)key * figure->cell, figure->y + (double)query * figure->cell,
                figure->cell, figure->cell, row[key]);
            put_token(file, figure, query);
            fputs(" &#8594; ", file);
            put_token(file, figure, key);
            fprintf(file, " %.3f</title></rect>\n", row[key]);
        }
    }
    fputs("</g>\n", file);
}

void svg_write(FILE *file, const Report *report, const Patterns *patterns) {
    Figure figure = plan(report, &patterns->subject->tokens);
    double side = (double)figure.n * figure.cell, width = figure.x + side + MARGIN,
           height = figure.y + side + MARGIN;
    char name[32];
    head_name(name, patterns->layer, patterns->head);
    fprintf(
        file,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.2f %.2f\" "
        "font-family=\"sans-serif\">\n"
        "<title>%s</title>\n"
        "<desc>Attention pattern of head %zu in layer %zu: row = query, column = key, each row sums to 1. "
        "attn %s</desc>\n"
        "<text x=\"%d\" y=\"%d\" font-size=\"14\" font-weight=\"bold\" fill=\"#222\">%s</text>\n",
        width, height, width, height, name, patterns->head, patterns->layer, ATTN_VERSION, MARGIN,
        MARGIN + 14, name);
    put_labels(file, &figure);
    put_cells(file, &figure, patterns);
    fprintf(file,
            "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"none\" stroke=\"#bbb\" "
            "stroke-width=\"0.5\"/>\n</svg>\n",
            figure.x, figure.y, side, side);
}
