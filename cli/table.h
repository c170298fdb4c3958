/*
 * A table is a list of columns: where in a row's struct a number lies, what it is called in JSON, and how it is shown to
 * people. The same list prints both. docs/JSON.md describes every key.
 */
#ifndef ATTN_TABLE_H
#define ATTN_TABLE_H

#include "cli/report.h"

#include <stddef.h>
#include <stdint.h>

typedef enum CellKind {
    CELL_REAL,  /* double; JSON has nine digits, and null for what is not finite */
    CELL_FLOAT, /* float, likewise */
    CELL_SIZE,  /* size_t; SIZE_MAX: there is none, null in JSON */
    CELL_COUNT, /* double, a whole number: exact in JSON up to 2^63; NAN: there is none, and people see nothing */
    CELL_BOOL,  /* bool; only in JSON */
    CELL_TEXT,  /* const char * */
    CELL_NAME,  /* char [] in the row itself */
    CELL_TOKEN, /* int32_t, an id: "id" and "token" in JSON, whatever the key; in quotes for people */
    CELL_BAR,   /* double, a share: a bar; only for people */
    CELL_SHOWN, /* what `show` writes, as JSON under the key or for people, padding and all */
} CellKind;

/* Writes a cell that is more than a value: a list of tokens, a cell in parts. `cell` lies at the column's offset. */
typedef void CellShow(Report *report, const char *key, const void *cell);

typedef struct Column {
    const char *key;   /* in JSON; NULL: not there */
    const char *title; /* for people; NULL: not there */
    CellKind kind;
    size_t offset; /* of the value in the row's struct */
    int width; /* columns of the line, the space before it included; negative: flush left; 0: as wide as it is */
    int digits; /* of a real: behind the point; of a token: its own columns, the rest of `width` being space before it */
    double unit;        /* by which a real is multiplied for people; 0: by 1 */
    const char *suffix; /* "%" behind a real, within the width; or NULL */
    char format;   /* of a real: 0: fixed; '+': with its sign; 'g': significant digits; 'G': with its sign */
    double strong; /* a real is bold from here on, before the unit; 0: never */
    int need; /* where a line is too narrow, the column needed least gives way first (a bar becomes shorter); 0: never */
    const char *ascii; /* the title with --ascii; NULL: the same */
    CellShow *show;
} Column;

typedef struct Table {
    const char *
        key; /* of the array of rows in JSON; NULL: one row, whose cells are members of the object that is open */
    const Column *columns; /* [n_columns] at most 32 */
    size_t n_columns;
} Table;

/* A table of an array of columns. */
#define TABLE(key, columns)                                                                                  \
    { (key), (columns), sizeof(columns) / sizeof *(columns) }

/* A count for people: 0: "1234567"; ',': "1,234,567"; 'k': three digits and a unit, "1.23 M"; 'B': of bytes, "1.18 MiB". */
void format_count(char text[32], double value, char format);

/* A set of columns: bit i stands for column i. */
typedef uint32_t Columns;

/* The columns that do not fit a line `width` wide, those needed least first, `left_out` being out anyway. */
Columns table_too_wide(const Table *table, Columns left_out, size_t width);

/*
 * Writes n rows of `row_bytes` each: for people a bold line of titles and a line a row; as JSON an array of objects under
 * the table's key. Columns in `left_out` are not shown to people, nor in JSON.
 */
void table_show(Report *report, const Table *table, Columns left_out, const void *rows, size_t n,
                size_t row_bytes);

/*
 * The parts, for who has something to put between them; for people only. `more` (or NULL) is a further title. A row ends
 * without its newline, a line with it.
 */
void table_print_titles(const Report *report, const Table *table, Columns left_out, const char *more);
void table_print_row(Report *report, const Table *table, Columns left_out, const void *row);
void table_print_line(Report *report, const Table *table, Columns left_out, const void *row);

/*
 * A row down the page, for people only: a column whose title is not empty begins a line with it, flush left in
 * 14 columns; the others go on with that line. The last line ends without its newline.
 */
void table_print_lines(Report *report, const Table *table, Columns left_out, const void *row);

/* The cells of one row as members of the JSON object that is open; or of an object of their own. */
void table_json_members(Report *report, const Table *table, Columns left_out, const void *row);
void table_json_object(Report *report, const char *key, const Table *table, Columns left_out,
                       const void *row);

#endif
