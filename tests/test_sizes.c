/*
 * Inputs that are too large are refused by their size, before memory or time is spent on them: one byte, one value or
 * one case too many, from a file and from stdin. Memory is measured.
 */
#define _FILE_OFFSET_BITS 64 /* a file of 2 GiB, where long has 32 bits, too */

#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define GPT2 "tests/data/reference/gpt2-f32.gguf"

enum {
    MIB = 1 << 20,
    CASE_BYTES = 4 * MIB, /* the limits of views/case.c and cli/input.h */
    TEXT_BYTES = 256 * MIB,
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    MEMORY_FACTOR = 6,
#else
    MEMORY_FACTOR = 1,
#endif
};

static char folder[256], path[300], said[1024];
static long peak_mib; /* of the last program */

/* Runs argv with stdin from a file (or NULL); its exit code. What it says on stderr is in `said`. */
static int run(char **argv, const char *input) {
    char err[300];
    struct rusage usage;
    int status;
    snprintf(err, sizeof err, "%s/err", folder);
    pid_t process = fork();
    if (process == 0) {
        int in = open(input ? input : "/dev/null", O_RDONLY), out = open("/dev/null", O_WRONLY);
        int error = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (in < 0 || out < 0 || error < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(error, 2) < 0)
            _exit(126);
        alarm(300);
        execv(argv[0], argv);
        _exit(127);
    }
    if (process < 0 || wait4(process, &status, 0, &usage) != process) exit(1);
    FILE *file = fopen(err, "r");
    size_t n = file ? fread(said, 1, sizeof said - 1, file) : 0;
    said[n] = '\0';
    if (file) fclose(file);
    unlink(err);
    peak_mib = usage.ru_maxrss / 1024;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static char *program(const char *variable, const char *otherwise) {
    char *value = getenv(variable);
    return value ? value : (char *)otherwise;
}

/* Runs `study case` on the file, and on stdin; `words` NULL: it is accepted. */
static void check_case(const char *words, long most_mib) {
    char *by_name[] = {program("STUDY", "./study"), "case", path, NULL};
    char *by_stdin[] = {program("STUDY", "./study"), "case", "-", NULL};
    for (int i = 0; i < 2; i++) {
        int code = i ? run(by_stdin, path) : run(by_name, NULL);
        CHECK(code == (words ? 1 : 0), "exit code %d: %s", code, said);
        CHECK(words ? strstr(said, words) && strchr(said, '\n') == said + strlen(said) - 1 : !*said, "%s",
              said);
        CHECK(peak_mib <= most_mib * MEMORY_FACTOR, "%ld MiB, not %ld", peak_mib, most_mib);
    }
}

static FILE *begin_file(void) {
    FILE *file = fopen(path, "wb");
    if (file) return file;
    perror(path);
    exit(1);
}

/* A case, and spaces behind it up to n bytes. */
static void test_bytes_of_a_case_file(void) {
    for (long more = 0; more <= 1; more++) {
        static const char text[] = "{\"x\": [[1]]}";
        FILE *file = begin_file();
        fprintf(file, "%s%*s", text, (int)(CASE_BYTES + more - (long)sizeof text + 1), "");
        fclose(file);
        check_case(more ? "has more than 4194304 bytes" : NULL, more ? 24 : 40);
    }
    CHECK(truncate(path, (off_t)2048 * MIB) == 0, "truncate"); /* nobody reads two gigabytes to say so */
    check_case("has more than 4194304 bytes", 24);
}

/* Two bytes of text are a value of 16 in memory. */
static void test_values_of_a_case_file(void) {
    FILE *file = begin_file();
    fputs("{\"x\": [[1", file);
    for (size_t i = 0; i < 2 * MIB - 8; i++) fputs(",1", file);
    fputs("]]}", file);
    fclose(file);
    check_case("1 to 64 can be shown", 100);
}

static void write_cases(size_t n, const char *one) {
    FILE *file = begin_file();
    fputs("{\"cases\": [", file);
    for (size_t i = 0; i < n; i++) fprintf(file, "%s%s", i ? "," : "", one);
    fputs("]}", file);
    fclose(file);
}

/* A case of 64 heads has 64 tables of 64 x 64 scores for 4096 numbers of text. */
static void test_numbers_to_work_out(void) {
    char one[3 * 64 * 64 + 64] = "{\"heads\": 64, \"x\": [", *at = one + strlen(one);
    for (size_t i = 0; i < 64; i++) {
        *at++ = '[';
        for (size_t j = 0; j < 64; j++) *at++ = '1', *at++ = ',';
        at[-1] = ']';
        *at++ = ',';
    }
    strcpy(at - 1, "]}");
    write_cases(2, one);
    check_case(NULL, 100);
    write_cases(200, one);
    check_case("more than 8388608 numbers", 180);
    write_cases(1000, "{\"x\":[[1]]}");
    check_case(NULL, 16);
    write_cases(1001, "{\"x\":[[1]]}");
    check_case("1001 cases; a file may have 1000", 16);
}

/* A file is refused unread, stdin where it crosses the limit; what never ends is no exception. */
static void test_texts(void) {
    char *runs[] = {program("RUN", "./run"), GPT2, "-f", path, "-n", "1", NULL};
    char *score[] = {program("STUDY", "./study"), "score", GPT2, "-f", path, NULL};
    char *with[] = {program("STUDY", "./study"),
                    "ablate",
                    GPT2,
                    "-p",
                    "Up Up",
                    "--heads",
                    "L0",
                    "--by",
                    "resample",
                    "--with",
                    path,
                    NULL};
    char **each[] = {runs, score, with};
    fclose(begin_file());
    CHECK(truncate(path, TEXT_BYTES + 1) == 0, "truncate");
    for (size_t i = 0; i < 3; i++) {
        int code = run(each[i], NULL);
        CHECK(code == 1 && strstr(said, "has more than 268435456 bytes"), "%s: %d: %s", each[i][1], code,
              said);
        CHECK(peak_mib <= 16 * MEMORY_FACTOR, "%ld MiB", peak_mib);
    }
    char *typed[] = {program("RUN", "./run"), GPT2, "-i", NULL};
    int code = run(typed, "/dev/zero");
    CHECK(code == 1 && strstr(said, "a line of stdin: has more than 16777216 bytes"), "%d: %s", code, said);
    CHECK(peak_mib <= 60 * MEMORY_FACTOR, "%ld MiB", peak_mib);
    const char *length = getenv("ATTN_LONG_TESTS");
    if (!length || strcmp(length, "1") != 0) return;
    char *from_stdin[] = {program("RUN", "./run"), GPT2, "-n", "1", NULL};
    code = run(from_stdin, "/dev/zero");
    CHECK(code == 1 && strstr(said, "stdin: has more than 268435456 bytes"), "%d: %s", code, said);
    CHECK(peak_mib <= 300 * MEMORY_FACTOR, "%ld MiB", peak_mib);
}

int main(void) {
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.200s/attn-test.XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(folder)) return perror(folder), 1;
    snprintf(path, sizeof path, "%s/input", folder);
    RUN(test_bytes_of_a_case_file);
    RUN(test_values_of_a_case_file);
    RUN(test_numbers_to_work_out);
    RUN(test_texts);
    unlink(path);
    rmdir(folder);
    return test_end();
}
