#include "cli/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_out(Columns left_out, size_t column) { return left_out >> column & 1; }

static double real_of(const Column *column, const void *at) {
    float narrow;
    double value;
    if (column->kind == CELL_FLOAT) {
        memcpy(&narrow, at, sizeof narrow);
        return (double)narrow;
    }
    memcpy(&value, at, sizeof value);
    return value;
}

static size_t size_of(const void *at) {
    size_t size;
    memcpy(&size, at, sizeof size);
    return size;
}

static const char *text_of(const Column *column, const void *at) {
    const char *text;
    if (column->kind == CELL_NAME) return at;
    memcpy(&text, at, sizeof text);
    return text;
}

static int32_t id_of(const void *at) {
    int32_t id;
    memcpy(&id, at, sizeof id);
    return id;
}

static bool flag_of(const void *at) {
    bool flag;
    memcpy(&flag, at, sizeof flag);
    return flag;
}

/* Prints a real once it is beyond what int64_t holds; null for NAN. */
static void json_count(Report *report, const char *key, double value) {
    if (value < 0x1p63)
        json_int(report, key, (int64_t)value);
    else
        json_real(report, key, value);
}

static void json_cell(Report *report, const Column *column, const void *row) {
    const char *at = (const char *)row + column->offset;
    switch (column->kind) {
    case CELL_REAL:
    case CELL_FLOAT: json_real(report, column->key, real_of(column, at)); break;
    case CELL_SIZE:
        if (size_of(at) == SIZE_MAX)
            json_null(report, column->key);
        else
            json_int(report, column->key, (int64_t)size_of(at));
        break;
    case CELL_COUNT: json_count(report, column->key, real_of(column, at)); break;
    case CELL_BOOL: json_bool(report, column->key, flag_of(at)); break;
    case CELL_TEXT:
    case CELL_NAME: json_text(report, column->key, text_of(column, at), SIZE_MAX); break;
    case CELL_TOKEN: json_token(report, id_of(at)); break;
    case CELL_SHOWN: column->show(report, column->key, at); break;
    case CELL_BAR: break;
    }
}

void table_json_members(Report *report, const Table *table, Columns left_out, const void *row) {
    for (size_t i = 0; i < table->n_columns; i++)
        if (table->columns[i].key && !is_out(left_out, i)) json_cell(report, &table->columns[i], row);
}

/* A number as people see it, without its padding. */
static void format_real(char text[64], const Column *column, double value) {
    const char *suffix = column->suffix ? column->suffix : "";
    double shown = value * (column->unit != 0 ? column->unit : 1);
    if (isnan(value))
        snprintf(text, 64, "-");
    else if (column->format == '+')
        snprintf(text, 64, "%+.*f%s", column->digits, shown, suffix);
    else if (column->format == 'g')
        snprintf(text, 64, "%.*g%s", column->digits, shown, suffix);
    else if (column->format == 'G')
        snprintf(text, 64, "%+.*g%s", column->digits, shown, suffix);
    else
        snprintf(text, 64, "%.*f%s", column->digits, shown, suffix);
}

static void format_scaled(char text[32], double value, double step, const char *const *units) {
    size_t unit = 0;
    for (; value >= 999.5 && units[unit + 1]; unit++) value /= step;
    int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(text, 32, "%.*f %s", decimals, value, units[unit]);
}

void format_count(char text[32], double value, char format) {
    static const char *const bytes[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", NULL};
    static const char *const decimal[] = {"", "k", "M", "G", "T", "P", "E", NULL};
    *text = '\0';
    if (isnan(value)) return;
    if (format == 'B' || format == 'k') {
        format_scaled(text, value, format == 'B' ? 1024 : 1000, format == 'B' ? bytes : decimal);
        return;
    }
    char digits[32];
    size_t n = (size_t)snprintf(digits, sizeof digits, "%.0f", value), at = 0;
    for (size_t i = 0; i < n && at < 30; i++) {
        if (format == ',' && i > 0 && (n - i) % 3 == 0) text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
}

/* A text in a column: flush right, or left where the width is negative. */
static void print_padded(const Report *report, const char *text, int width) {
    size_t n = strlen(text), used = text_width(report, text, n), room = (size_t)abs(width);
    int padding = used < room ? (int)(room - used) : 0;
    if (width > 0) printf("%*s", padding, "");
    print_column(report, text, n, 0);
    if (width < 0) printf("%*s", padding, "");
}

static void print_real(const Report *report, const Column *column, double value) {
    char text[64];
    bool strong = column->strong != 0 && value >= column->strong;
    format_real(text, column, value);
    if (strong) print_style(report, STYLE_BOLD);
    print_padded(report, text, column->width);
    if (strong) print_style(report, STYLE_PLAIN);
}

static void print_count(const Report *report, const Column *column, double value) {
    char text[32];
    format_count(text, value, column->format);
    print_padded(report, text, column->width);
}

/* The space before a token, whose own columns are `digits`. */
static int gap_of(const Column *column) { return abs(column->width) - column->digits; }

/* A bar with the two spaces before it, padded unless it ends the line; where bars are off, nothing. */
static void print_bar_cell(const Report *report, const Column *column, double share, size_t room, bool last) {
    size_t most = (size_t)column->width;
    if (column->need > 0 && room < most + 2) most = room > 2 ? room - 2 : 0;
    size_t used = print_bar(report, share, most);
    if (report->bars && !last) printf("%*s", (int)(most + 2 - used), "");
}

/* `room`: what the other columns leave of the line. */
static void print_cell(Report *report, const Column *column, const void *row, size_t room, bool last) {
    const char *at = (const char *)row + column->offset;
    switch (column->kind) {
    case CELL_REAL:
    case CELL_FLOAT: print_real(report, column, real_of(column, at)); break;
    case CELL_COUNT: print_count(report, column, real_of(column, at)); break;
    case CELL_SIZE:
        if (size_of(at) == SIZE_MAX)
            printf("%*s", column->width, "-");
        else
            printf("%*zu", column->width, size_of(at));
        break;
    case CELL_TEXT:
    case CELL_NAME: print_padded(report, text_of(column, at), column->width); break;
    case CELL_TOKEN:
        printf("%*s", gap_of(column), "");
        print_token(report, id_of(at), (size_t)column->digits);
        break;
    case CELL_BAR: print_bar_cell(report, column, real_of(column, at), room, last); break;
    case CELL_SHOWN: column->show(report, column->key, at); break;
    case CELL_BOOL: break;
    }
}

static bool is_shown(const Table *table, Columns left_out, size_t i) {
    return table->columns[i].title && !is_out(left_out, i);
}

void table_print_titles(const Report *report, const Table *table, Columns left_out, const char *more) {
    print_style(report, STYLE_BOLD);
    for (size_t i = 0; i < table->n_columns; i++) {
        const Column *column = &table->columns[i];
        if (!is_shown(table, left_out, i) || (column->kind == CELL_BAR && !report->bars)) continue;
        int gap = column->kind == CELL_TOKEN ? gap_of(column) : 0, width = column->width;
        if (column->kind == CELL_TOKEN) width = -column->digits;
        if (column->kind == CELL_BAR) width = i + 1 < table->n_columns ? -(width + 2) : 0;
        printf("%*s", gap, "");
        print_padded(report, report->ascii && column->ascii ? column->ascii : column->title, width);
    }
    puts(more ? more : "");
    print_style(report, STYLE_PLAIN);
}

/* The columns that a row's cells take, bars aside. */
static size_t row_width(const Table *table, Columns left_out) {
    size_t width = 0;
    for (size_t i = 0; i < table->n_columns; i++)
        if (is_shown(table, left_out, i) && table->columns[i].kind != CELL_BAR)
            width += (size_t)abs(table->columns[i].width);
    return width;
}

void table_print_row(Report *report, const Table *table, Columns left_out, const void *row) {
    size_t used = row_width(table, left_out), room = report->width > used ? report->width - used : 0;
    for (size_t i = 0; i < table->n_columns; i++)
        if (is_shown(table, left_out, i))
            print_cell(report, &table->columns[i], row, room, i + 1 == table->n_columns);
}

void table_print_line(Report *report, const Table *table, Columns left_out, const void *row) {
    table_print_row(report, table, left_out, row);
    putchar('\n');
}

void table_json_object(Report *report, const char *key, const Table *table, Columns left_out,
                       const void *row) {
    json_object(report, key);
    table_json_members(report, table, left_out, row);
    json_end_object(report);
}

void table_print_lines(Report *report, const Table *table, Columns left_out, const void *row) {
    const char *gap = "";
    for (size_t i = 0; i < table->n_columns; i++) {
        const Column *column = &table->columns[i];
        if (!is_shown(table, left_out, i)) continue;
        if (*column->title) {
            fputs(gap, stdout);
            print_padded(report, column->title, -14);
            gap = "\n";
        }
        print_cell(report, column, row, report->width, false);
    }
}

Columns table_too_wide(const Table *table, Columns left_out, size_t width) {
    size_t total = row_width(table, left_out);
    Columns gone = 0;
    while (total > width) {
        size_t least = table->n_columns;
        for (size_t i = 0; i < table->n_columns; i++) {
            const Column *column = &table->columns[i];
            bool may_go = is_shown(table, left_out | gone, i) && column->need > 0;
            if (may_go && (least == table->n_columns || column->need < table->columns[least].need)) least = i;
        }
        if (least == table->n_columns) break;
        gone |= (Columns)1 << least;
        total -= (size_t)abs(table->columns[least].width);
    }
    return gone;
}

void table_show(Report *report, const Table *table, Columns left_out, const void *rows, size_t n,
                size_t row_bytes) {
    if (is_json(report))
        json_array(report, table->key);
    else
        table_print_titles(report, table, left_out, NULL);
    for (size_t i = 0; i < n; i++) {
        const char *row = (const char *)rows + i * row_bytes;
        if (is_json(report))
            table_json_object(report, NULL, table, left_out, row);
        else
            table_print_line(report, table, left_out, row);
    }
    if (is_json(report)) json_end_array(report);
}
