/* Output files from within: who may read them before they are whole, ACLs, and how a process ends after a signal. */
#include "cli/output.h"
#include "cli/process.h"
#include "tests/test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static char scratch[] = "/tmp/attn-test-XXXXXX", path[sizeof scratch + 4]; /* a folder, and a file there */

static mode_t mode_of_path(void) {
    struct stat status;
    return stat(path, &status) == 0 ? status.st_mode & 07777 : 0;
}

static void write_old(mode_t mode) {
    FILE *file = fopen(path, "w");
    CHECK(file && fputs("old", file) >= 0 && fclose(file) == 0 && chmod(path, mode) == 0, "%s", path);
}

static void test_access_while_unfinished(void) {
    static const mode_t modes[] = {0600, 0640, 0604, 0700};
    Error error;
    struct stat status;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        OutputFile output = {0};
        write_old(modes[i]);
        bool ok = output_open(&output, path, &(Inputs){0}, &error);
        CHECK(ok && fstat(fileno(output.file), &status) == 0 && (status.st_mode & 07777) == modes[i], "%o",
              modes[i]);
        CHECK(ok && output_finish(&output, &error) && mode_of_path() == modes[i], "%o", modes[i]);
        output_abandon(&output);
    }
    unlink(path);
}

/* rw- for the owner, r-- for user 1234, nothing for the group, whose bits in the mode are the mask, r--. */
static void test_acl(void) {
    static const unsigned char acl[] = {2, 0,   0,   0,   1,   0,   6,  0, 255, 255, 255, 255, 2,   0,  4,
                                        0, 210, 4,   0,   0,   4,   0,  0, 0,   255, 255, 255, 255, 16, 0,
                                        4, 0,   255, 255, 255, 255, 32, 0, 0,   0,   255, 255, 255, 255};
    const char *name = "system.posix_acl_access", *handed = "system.posix_acl_default";
    unsigned char kept[sizeof acl];
    Error error;
    for (int with_acl = 0; with_acl < 2; with_acl++) {
        OutputFile output = {0};
        write_old(0640);
        if (with_acl && setxattr(path, name, acl, sizeof acl, 0) != 0) {
            unlink(path);
            SKIP("no ACLs here: %s", strerror(errno));
        }
        setxattr(scratch, handed, acl, sizeof acl, 0); /* what new files here get */
        bool ok = output_open(&output, path, &(Inputs){0}, &error) && output_finish(&output, &error);
        removexattr(scratch, handed);
        ssize_t n = getxattr(path, name, kept, sizeof kept);
        CHECK(ok && mode_of_path() == 0640, "%o", mode_of_path());
        CHECK(with_acl ? n == sizeof acl && memcmp(kept, acl, sizeof acl) == 0 : n < 0, "%d: %zd bytes",
              with_acl, n);
        output_abandon(&output);
        unlink(path);
    }
}

static void *raise_here(void *signal_number) {
    raise(*(int *)signal_number);
    return NULL;
}

/* In a process of its own: n signals, by another thread if so, and an end with this code. The status of wait. */
static int end_after(int signal_number, int n, bool by_thread, int code) {
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        catch_signals("test");
        for (int i = 0; i < n; i++)
            if (!by_thread)
                raise(signal_number);
            else if (pthread_create(&thread, NULL, raise_here, &signal_number) == 0)
                pthread_join(thread, NULL);
        _exit(end_program(code));
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child, "%s", strerror(errno));
    return status;
}

static void test_ends(void) {
    static const struct {
        int signal, n;
        bool by_thread;
        int code;      /* that the program would end with */
        int ends_by;   /* signal, or 0 */
        int ends_with; /* code */
    } cases[] = {
        {SIGINT, 0, false, 1, 0, 1},       {SIGINT, 1, false, 0, 0, 0}, /* all was done */
        {SIGINT, 1, false, 1, SIGINT, 0},                               /* else a shell's loop goes on */
        {SIGINT, 2, false, 0, SIGINT, 0},  {SIGTERM, 1, false, 0, SIGTERM, 0},
        {SIGTERM, 1, true, 0, SIGTERM, 0}, {SIGINT, 1, true, 0, 0, 0},
        {SIGINT, 1, true, 1, SIGINT, 0},   {SIGXFSZ, 1, false, 0, 0, 0},
        {SIGPIPE, 1, false, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status = end_after(cases[i].signal, cases[i].n, cases[i].by_thread, cases[i].code);
        CHECK(cases[i].ends_by ? WIFSIGNALED(status) && WTERMSIG(status) == cases[i].ends_by
                               : WIFEXITED(status) && WEXITSTATUS(status) == cases[i].ends_with,
              "case %zu: status %#x", i, (unsigned)status);
    }
}

int main(void) {
    if (!mkdtemp(scratch)) return 1;
    snprintf(path, sizeof path, "%s/out", scratch);
    RUN(test_ends); /* first: after a file that is finished most signals wait */
    RUN(test_access_while_unfinished);
    RUN(test_acl);
    rmdir(scratch);
    return test_end();
}
