#include "cli/figure.h"

#include <math.h>
#include <string.h>

enum {
    CELL = 18,       /* pixels; less where all cells together would be wider than MAX_SIDE, … */
    MIN_CELL = 4,    /* … but not less than this */
    MAX_SIDE = 1080, /* pixels */
    MAX_LABEL = 20,  /* columns of a token that are shown */
    MARGIN = 8,
    TITLE_HEIGHT = 20,
    SCALE_STEPS = 10, /* shades of one colour below the grid */
    SCALE_STEP = 8,   /* pixels */
    SCALE_HEIGHT = 34,
};

static const double LEAST_SHARE = 1.0 / 255; /* a lighter cell would look like the background */
static const char *const colours[] = {"#3b4cc0", "#b40426"}; /* above 0, and below */

typedef struct Layout {
    const Figure *figure;
    double cell, font; /* pixels */
    double x, y;       /* where the cells begin */
} Layout;

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
static size_t put_token(FILE *file, const Report *report, int32_t id) {
    String piece = tokenizer_piece(report->tokenizer, id, true);
    size_t used = 0;
    for (size_t i = 0, width; i < piece.n; used += width) {
        char shown[16];
        i += show_char(report, piece.data + i, piece.n - i, shown, &width);
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

/* Draws a label likewise. */
static size_t put_label(FILE *file, const Figure *figure, bool is_col, size_t at) {
    FigureLabel label = figure->label(figure->user, is_col, at);
    if (*label.word) {
        if (file) fputs(label.word, file);
        return strlen(label.word);
    }
    size_t width = put_token(file, figure->report, label.token);
    if (label.other < 0) return width;
    if (file) fputs(" | ", file);
    return width + 3 + put_token(file, figure->report, label.other);
}

/* Pixels that the longest label takes: by sans-serif's mean width, and some. */
static double label_room(const Layout *layout, bool is_col) {
    const Figure *figure = layout->figure;
    size_t longest = 1;
    for (size_t i = 0; i < (is_col ? figure->n_cols : figure->n_rows); i++) {
        size_t width = put_label(NULL, figure, is_col, i);
        if (width > longest) longest = width;
    }
    return (double)longest * layout->font * 0.62;
}

static Layout plan(const Figure *figure) {
    Layout layout = {.figure = figure, .cell = CELL};
    double n = (double)(figure->n_rows > figure->n_cols ? figure->n_rows : figure->n_cols);
    if (layout.cell * n > MAX_SIDE) layout.cell = MAX_SIDE / n;
    if (layout.cell < MIN_CELL) layout.cell = MIN_CELL;
    layout.font = layout.cell * 0.65;
    layout.x = MARGIN + label_room(&layout, false) + 4;
    layout.y = MARGIN + TITLE_HEIGHT + label_room(&layout, true) + 4;
    return layout;
}

static void put_row_label(FILE *file, const Layout *layout, size_t at) {
    double middle = ((double)at + 0.5) * layout->cell,
           down = layout->font * 0.35; /* to a letter's baseline */
    fprintf(file, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"end\">", layout->x - 4,
            layout->y + middle + down);
    put_label(file, layout->figure, false, at);
    fputs("</text>\n", file);
}

static void put_col_label(FILE *file, const Layout *layout, size_t at) {
    double middle = ((double)at + 0.5) * layout->cell, down = layout->font * 0.35;
    fprintf(file, "<text transform=\"translate(%.2f %.2f) rotate(-90)\">", layout->x + middle + down,
            layout->y - 4);
    put_label(file, layout->figure, true, at);
    fputs("</text>\n", file);
}

static void put_labels(FILE *file, const Layout *layout) {
    const Figure *figure = layout->figure;
    fprintf(file, "<g font-size=\"%.2f\" fill=\"#222\">\n", layout->font);
    for (size_t i = 0; i < figure->n_rows || i < figure->n_cols; i++) {
        if (i < figure->n_rows) put_row_label(file, layout, i);
        if (i < figure->n_cols) put_col_label(file, layout, i);
    }
    fputs("</g>\n", file);
}

static void put_cell(FILE *file, const Layout *layout, size_t row, size_t col, double value) {
    const Figure *figure = layout->figure;
    double share = fmin(fabs(value) / figure->most, 1);
    if (!(share >= LEAST_SHARE)) return;
    fprintf(file, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill-opacity=\"%.3f\"><title>",
            layout->x + (double)col * layout->cell, layout->y + (double)row * layout->cell, layout->cell,
            layout->cell, share);
    put_label(file, figure, false, row);
    fputs(figure->to, file);
    put_label(file, figure, true, col);
    fprintf(file, figure->scale ? " %+.4f</title></rect>\n" : " %.3f</title></rect>\n", value);
}

/* Cells of one colour: the darker, the further from 0. */
static void put_cells(FILE *file, const Layout *layout, bool below) {
    const Figure *figure = layout->figure;
    fprintf(file, "<g fill=\"%s\">\n", colours[below]);
    for (size_t row = 0; row < figure->n_rows; row++)
        for (size_t col = 0; col < figure->n_cols; col++) {
            double value = figure->value(figure->user, row, col);
            if (below ? value < 0 : value > 0) put_cell(file, layout, row, col, value);
        }
    fputs("</g>\n", file);
}

static void put_number(FILE *file, double x, double y, double value) {
    fprintf(file, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\">%.3g</text>\n", x, y, value);
}

/* The shades from −most to most, and their numbers. */
static void put_scale(FILE *file, const Layout *layout, double y) {
    double x = MARGIN + SCALE_STEP, most = layout->figure->most, side = SCALE_STEP;
    fputs("<g font-size=\"9\" fill=\"#222\">\n", file);
    for (int i = -SCALE_STEPS; i <= SCALE_STEPS; i++)
        fprintf(file, "<path d=\"M%.2f %.2fh%.2fv%.2fh-%.2fz\" fill=\"%s\" fill-opacity=\"%.1f\"/>\n",
                x + (double)(i + SCALE_STEPS) * side, y, side, side, side, colours[i < 0],
                fabs((double)i) / SCALE_STEPS);
    for (int i = -1; i <= 1; i++)
        put_number(file, x + ((double)((i + 1) * SCALE_STEPS) + 0.5) * side, y + 20, (double)i * most);
    fputs("</g>\n", file);
}

void figure_write(FILE *file, const Figure *figure) {
    Layout layout = plan(figure);
    double across = (double)figure->n_cols * layout.cell, down = (double)figure->n_rows * layout.cell,
           width = layout.x + across + MARGIN, height = layout.y + down + MARGIN;
    double of_scale = 2 * (MARGIN + SCALE_STEP) + (2 * SCALE_STEPS + 1) * SCALE_STEP;
    if (figure->scale) width = fmax(width, of_scale), height += SCALE_HEIGHT;
    fprintf(
        file,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.2f %.2f\" "
        "font-family=\"sans-serif\">\n"
        "<title>%s</title>\n<desc>%s</desc>\n"
        "<text x=\"%d\" y=\"%d\" font-size=\"14\" font-weight=\"bold\" fill=\"#222\">%s</text>\n",
        width, height, width, height, figure->title, figure->about, MARGIN, MARGIN + 14, figure->title);
    put_labels(file, &layout);
    put_cells(file, &layout, false);
    if (figure->scale) put_cells(file, &layout, true);
    if (figure->scale) put_scale(file, &layout, layout.y + down + MARGIN);
    fprintf(file,
            "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"none\" stroke=\"#bbb\" "
            "stroke-width=\"0.5\"/>\n</svg>\n",
            layout.x, layout.y, across, down);
}
