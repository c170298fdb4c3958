/*
 * README.md, docs/STUDY.md and docs/COURSE.md show what is printed. A block holds commands, "$ ./study …" or
 * "$ ./quantize …", and under each its lines, all of them; a line "…" stands for some that are left out. Numbers with a
 * point may differ by two thousandths: other kernels round the default model's otherwise.
 */
#include "programs.h"
#include "test.h"

static const char *const documents[] = {"README.md", "docs/STUDY.md", "docs/COURSE.md"};

/* Where files of the documents lie while the tests run: the model, and what quantize makes of it. */
static struct {
    const char *shown;
    char here[300];
} files[] = {{"model.bin", "weights/model.gguf"}, {"/tmp/small.gguf", ""}};

/* A line of a document, of up to 512 bytes, with those paths in it. */
static void move_files(char moved[1200], const char *line) {
    while (*line) {
        size_t i = 0;
        while (i < 2 && strncmp(line, files[i].shown, strlen(files[i].shown)) != 0) i++;
        if (i < 2)
            moved += sprintf(moved, "%s", files[i].here), line += strlen(files[i].shown);
        else
            *moved++ = *line++;
    }
    *moved = '\0';
}

/* Gives what a command line of a document prints, to be freed; NULL where it is another program's, or writes a file by -o. */
static char *run_shown(const char *line) {
    static const char *const programs[][3] = {{"$ ./study ", "STUDY", "./study"},
                                              {"$ ./quantize ", "QUANTIZE", "./quantize"}};
    char moved[1200];
    size_t n, i = 0;
    while (i < 2 && strncmp(line, programs[i][0], strlen(programs[i][0])) != 0) i++;
    if (i == 2 || strstr(line, " -o ")) return NULL;
    Command command = command_of(programs[i][1], programs[i][2]);
    move_files(moved, line + strlen(programs[i][0]));
    command.n += (size_t)snprintf(command.line + command.n, sizeof command.line - command.n, "%s ", moved);
    return output_of(command, &n);
}

/* The largest number with a point in a line. */
static double largest(const char *line) {
    double most = 0;
    for (char *end; *line; line = end) {
        double x = strtod(line, &end);
        if (end == line) end++;
        if (memchr(line, '.', (size_t)(end - line))) most = fmax(most, fabs(x));
    }
    return most;
}

/*
 * Two numbers that differ by two thousandths, or by four of the last digit, and end in the same column; moves behind them. One
 * with a sign is a difference of some that stand in its line, of which the largest is `most`.
 */
static bool same_number(const char **a, const char **b, double most) {
    char *end_a, *end_b;
    double x = strtod(*a, &end_a), y = strtod(*b, &end_b);
    if (end_a == *a || end_b == *b || end_a - *a != end_b - *b) return false;
    const char *point = memchr(*a, '.', (size_t)(end_a - *a));
    bool signs = **a == '+' || **a == '-';
    double unit = pow(10, point ? -(double)(end_a - point - 1) : 0), share = 2e-3 * (signs ? most : fabs(x));
    if (point || (signs && most > 0) ? fabs(x - y) > fmax(4.5 * unit, share) : x != y) return false;
    *a = end_a, *b = end_b;
    return true;
}

/* How far selfcheck's results are apart is another number everywhere; the rest of its lines is not. */
static bool same_line(const char *shown, const char *printed) {
    enum { CHECK_WIDTH = 40 };
    const double most = largest(shown);
    if (strncmp(shown, "pass  ", 6) == 0) return strncmp(shown, printed, CHECK_WIDTH) == 0;
    while (*shown && *printed)
        if (*shown == *printed && !strchr("+-0123456789", *shown))
            shown++, printed++;
        else if (!same_number(&shown, &printed, most) && *shown++ != *printed++)
            return false;
    return *shown == *printed;
}

static void check_document(const char *path) {
    FILE *file = fopen(path, "r");
    char line[512], command[512] = "", *output = NULL, *at = NULL;
    size_t n_commands = 0, n_lines = 0;
    bool skips = false;
    CHECK(file, "%s cannot be read", path);
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        bool begins = line[0] == '$', ends = strncmp(line, "```", 3) == 0;
        if (begins || ends) {
            CHECK(!at || skips || !*at, "%s: under %s something is printed behind what is shown: %.200s",
                  path, command, at);
            free(output);
            at = output = begins ? run_shown(line) : NULL;
            snprintf(command, sizeof command, "%s", line);
            n_commands += at != NULL;
            skips = false;
        } else if (at && strcmp(line, "…") == 0) {
            skips = true;
        } else if (at) {
            char expected[1200];
            bool found = false;
            move_files(expected, line);
            while (!found && *at) {
                char *end = at + strcspn(at, "\n");
                bool last = !*end;
                *end = '\0';
                for (char *space = end; space > at && space[-1] == ' ';) *--space = '\0';
                found = same_line(expected, at);
                CHECK(found || skips, "%s, %s: not\n%s\nbut\n%s", path, command, expected, at);
                at = last ? end : end + 1;
                if (!skips) break;
            }
            CHECK(found, "%s, %s: not printed: %s", path, command, expected);
            skips = false;
            n_lines++;
        }
    }
    CHECK(n_commands >= 3 && n_lines >= 10 * n_commands, "%s: %zu commands, %zu lines", path, n_commands,
          n_lines);
    free(output);
    if (file) fclose(file);
}

static void test_documents(void) {
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) check_document(documents[i]);
}

int main(void) {
    if (!scratch_begin()) return 1;
    snprintf(files[1].here, sizeof files[1].here, "%s", scratch_path("small.gguf"));
    RUN(test_documents);
    unlink(files[1].here);
    scratch_end();
    return test_end();
}
