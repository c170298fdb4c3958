#include "cli/report.h"

#include "base/utf8.h"
#include "cli/base64.h"
#include "cli/print.h"
#include "unicode/width.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH_ELSEWHERE = 100 };

Report report_begin(bool json, bool ascii) {
    Report report = {.json = json, .ascii = ascii, .bars = ascii, .width = WIDTH_ELSEWHERE, .out = stdout};
    if (!isatty(STDOUT_FILENO)) return report;
    report.bars = true;
    report.colour = shows_colour(COLOUR_AUTO, STDOUT_FILENO);
#ifdef TIOCGWINSZ
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) report.width = size.ws_col;
#endif
    return report;
}

static void json_begin(Report *report, const char *key) {
    if (report->needs_comma) fputs(", ", report->out);
    report->needs_comma = true;
    if (key) fprintf(report->out, "\"%s\": ", key);
}

static void json_open(Report *report, const char *key, char bracket) {
    json_begin(report, key);
    putc(bracket, report->out);
    report->depth++;
    report->needs_comma = false;
}

static void json_end(Report *report, char bracket) {
    putc(bracket, report->out);
    report->needs_comma = true;
    if (--report->depth == 0) putc('\n', report->out);
}

void json_object(Report *report, const char *key) { json_open(report, key, '{'); }
void json_array(Report *report, const char *key) { json_open(report, key, '['); }
void json_end_object(Report *report) { json_end(report, '}'); }
void json_end_array(Report *report) { json_end(report, ']'); }

/* '<' is escaped, so that no text can end the element of a page in which the object stands. */
void json_text(Report *report, const char *key, const char *text, size_t n) {
    if (n == SIZE_MAX) n = strlen(text);
    json_begin(report, key);
    putc('"', report->out);
    for (const char *at; n > 0 && (at = memchr(text, '<', n)); text = at + 1) {
        print_json_characters(report->out, text, (size_t)(at - text));
        fputs("\\u003c", report->out);
        n -= (size_t)(at - text) + 1;
    }
    print_json_characters(report->out, text, n);
    putc('"', report->out);
}

void json_int(Report *report, const char *key, int64_t value) {
    json_begin(report, key);
    fprintf(report->out, "%" PRId64, value);
}

static void json_number(Report *report, const char *key, double value, int digits) {
    json_begin(report, key);
    if (isfinite(value))
        fprintf(report->out, "%.*g", digits, value);
    else
        fputs("null", report->out);
}

void json_real(Report *report, const char *key, double value) { json_number(report, key, value, 9); }
void json_rounded(Report *report, const char *key, double value) { json_number(report, key, value, 6); }

void json_reals(Report *report, const char *key, const double *values, size_t n) {
    json_array(report, key);
    for (size_t i = 0; i < n; i++) json_real(report, NULL, values[i]);
    json_end_array(report);
}

void json_bool(Report *report, const char *key, bool value) {
    json_begin(report, key);
    fputs(value ? "true" : "false", report->out);
}

void json_null(Report *report, const char *key) { json_real(report, key, NAN); }

void json_base64(Report *report, const char *key, const void *bytes, size_t n) {
    enum { PIECE = 3 * 1024 }; /* whole groups of three, so that only the last piece is padded */
    char text[BASE64_SIZE(PIECE)];
    const unsigned char *at = bytes;
    json_begin(report, key);
    putc('"', report->out);
    for (size_t m; n > 0; n -= m, at += m) {
        m = n < PIECE ? n : PIECE;
        fwrite(text, 1, base64_encode(text, at, m), report->out);
    }
    putc('"', report->out);
}

static void json_hex(Report *report, String bytes) {
    json_begin(report, "hex");
    putc('"', report->out);
    for (size_t i = 0; i < bytes.n; i++) fprintf(report->out, "%02x", (unsigned)(unsigned char)bytes.data[i]);
    putc('"', report->out);
}

void json_token(Report *report, int32_t id) {
    String piece = tokenizer_piece(report->tokenizer, id, true);
    json_int(report, "id", id);
    json_text(report, "token", piece.data, piece.n);
    if (!utf8_is_valid(piece)) json_hex(report, piece);
}

void json_piece(Report *report, const char *key, int32_t id) {
    String piece = tokenizer_piece(report->tokenizer, id, true);
    if (utf8_is_valid(piece)) {
        json_text(report, key, piece.data, piece.n);
        return;
    }
    json_object(report, key);
    json_hex(report, piece);
    json_end_object(report);
}

bool is_control(uint32_t c) {
    return c < 0x20 || !utf8_is_safe(c) || c == 0xad || (c >= 0x200b && c < 0x200e) ||
           (c >= 0x2060 && c < 0x2066);
}

size_t show_char(const Report *report, const char *text, size_t n, char shown[16], size_t *width) {
    uint32_t c;
    size_t length = utf8_decode(text, n, &c);
    if (is_control(c) || (report->ascii && c > 0x7e)) {
        length = utf8_escape(text, n, shown);
        *width = strlen(shown);
        return length;
    }
    memcpy(shown, text, length);
    shown[length] = '\0';
    *width = unicode_width(c);
    return length;
}

size_t text_width(const Report *report, const char *text, size_t n) {
    char shown[16];
    size_t total = 0;
    for (size_t at = 0, width; at < n; total += width)
        at += show_char(report, text + at, n - at, shown, &width);
    return total;
}

/* Returns the columns it took. */
static size_t print_cut(const Report *report, const char *text, size_t n, size_t width) {
    bool cut = text_width(report, text, n) > width;
    size_t used = 0;
    char shown[16];
    for (size_t at = 0, w; at < n; used += w) {
        at += show_char(report, text + at, n - at, shown, &w);
        if (cut && used + w >= width) break;
        fputs(shown, stdout);
    }
    if (cut) fputs(report->ascii ? "~" : "…", stdout), used++;
    return used;
}

void print_column(const Report *report, const char *text, size_t n, size_t width) {
    size_t used = print_cut(report, text, n, width ? width : SIZE_MAX);
    if (used < width) printf("%*s", (int)(width - used), "");
}

void print_wrapped(const Report *report, const char *text, size_t n) {
    for (size_t at = 0, column = 0, end; at < n; at = end) {
        end = at + 1; /* a word with the space before it */
        while (end < n && text[end] != ' ') end++;
        size_t width = text_width(report, text + at, end - at);
        if (column > 0 && column + width > report->width) {
            putchar('\n');
            column = 0;
            at++, width--; /* the space */
        }
        print_column(report, text + at, end - at, 0);
        column += width;
    }
    putchar('\n');
}

void print_path(const Report *report, const char *path) { print_column(report, path, strlen(path), 0); }

void print_token(const Report *report, int32_t id, size_t width) {
    String piece = tokenizer_piece(report->tokenizer, id, true);
    print_quoted(report, piece.data, piece.n, width);
}

void print_quoted(const Report *report, const char *text, size_t n, size_t width) {
    putchar('"');
    size_t used = print_cut(report, text, n, width > 3 ? width - 2 : SIZE_MAX) + 2;
    putchar('"');
    if (used < width) printf("%*s", (int)(width - used), "");
}

static double clamped(double share) { return share > 0 ? fmin(share, 1) : 0; /* NaN too */ }

size_t print_bar(const Report *report, double share, size_t width) {
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    size_t steps = report->ascii ? 1 : 8, filled = (size_t)(clamped(share) * (double)(width * steps) + 0.5);
    if (!report->bars || filled == 0) return 0;
    fputs("  ", stdout);
    for (size_t i = 0; i < filled / steps; i++) fputs(report->ascii ? "#" : "█", stdout);
    fputs(eighths[filled % steps], stdout);
    return 2 + (filled + steps - 1) / steps;
}

void print_heat(const Report *report, double share) {
    static const char ascii[] = " .:-=+*#%@";
    static const char *const blocks[] = {"  ", "░░", "▒▒", "▓▓", "██"};
    static const int blues[] = {17, 18, 19, 20, 26, 32, 38, 44, 50, 87, 159}; /* of the 256-colour palette */
    share = clamped(share);
    if (report->ascii) {
        char c = ascii[(size_t)(share * 9 + 0.5)];
        printf("%c%c", c, c);
        return;
    }
    size_t blue = report->colour ? (size_t)(share * 11 + 0.5) : 0;
    if (blue > 0)
        printf("\033[48;5;%dm  \033[0m", blues[blue - 1]);
    else
        fputs(blocks[report->colour ? 0 : (size_t)(share * 4 + 0.5)], stdout);
}

void print_style(const Report *report, Style style) {
    static const char *const codes[] = {"0", "1", "2", "32", "31"};
    if (report->colour) printf("\033[%sm", codes[style]);
}

void print_styled(const Report *report, Style style, const char *format, ...) {
    va_list args;
    va_start(args, format);
    print_style(report, style);
    vprintf(format, args);
    print_style(report, STYLE_PLAIN);
    va_end(args);
}
