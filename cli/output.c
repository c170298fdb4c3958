#define _GNU_SOURCE /* O_TMPFILE */
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The temporary name that may exist: there is one at a time. It stands here before the file has it. */
static const char *volatile unfinished;
static volatile sig_atomic_t finished;

void output_remove_unfinished(void) {
    if (unfinished) unlink(unfinished);
}

bool output_is_finished(void) { return finished; }

bool output_failed(const OutputFile *output, Error *error) {
    return error_set(error, "%s: cannot write: %s", output->path, strerror(errno));
}

static bool is_same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether the file at path, which is `old` (NULL: there is none), may be written: nothing that is read is lost by it. */
static bool spares(const Inputs *inputs, const char *path, const struct stat *old, Error *error) {
    const Checkpoint *const checkpoints[] = {inputs->model, inputs->vocabulary};
    static const char *const whose[] = {"the model", "the vocabulary"};
    const char *const texts[] = {inputs->text, inputs->template, inputs->steering, inputs->more_texts[0],
                                 inputs->more_texts[1]};
    static const char *const which[] = {"text", "chat template", "vector", "text", "text"};
    struct stat text;
    for (size_t i = 0; i < 2; i++)
        if (checkpoints[i] && checkpoint_reads(checkpoints[i], path))
            return error_set(error, "%s: this %s a file of %s; choose another name", path,
                             old ? "is" : "would become", whose[i]);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (old && texts[i] && stat(texts[i], &text) == 0 && is_same_file(old, &text))
            return error_set(error, "%s: this is the %s that is read; choose another name", path, which[i]);
    /* A terminal is read and written to; a file would be read on for as long as it grows. */
    if (old && S_ISREG(old->st_mode) && fstat(STDIN_FILENO, &text) == 0 && is_same_file(old, &text))
        return error_set(error, "%s: this is what stdin reads; choose another name", path);
    return true;
}

bool output_spares(const Inputs *inputs, const char *path, Error *error) {
    struct stat old;
    return spares(inputs, path, stat(path, &old) == 0 ? &old : NULL, error);
}

/* The bytes of path that name its folder, with the last slash. */
static size_t folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash + 1 - path) : 0;
}

/* A file descriptor of the folder of path, opened with these flags; −1 with errno. */
static int open_folder(const char *path, int flags, mode_t mode) {
    size_t n = folder_length(path);
    char *folder = n ? strndup(path, n) : strdup(".");
    int descriptor = folder ? open(folder, flags | O_CLOEXEC, mode) : -1;
    free(folder);
    return descriptor;
}

/* A nameless file gets its name by way of /proc. */
static void proc_path(char path[32], int descriptor) { snprintf(path, 32, "/proc/self/fd/%d", descriptor); }

/* A file beside path, nameless if that can be, for reading and writing; −1 with errno. */
static int open_beside(OutputFile *output, mode_t mode) {
    char link[32];
    int descriptor = open_folder(output->path, O_TMPFILE | O_RDWR, mode);
    proc_path(link, descriptor);
    output->nameless = descriptor >= 0 && access(link, F_OK) == 0;
    if (output->nameless) return descriptor;
    if (descriptor >= 0) close(descriptor);
    unfinished = output->temporary;
    descriptor = open(output->temporary, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode);
    if (descriptor < 0) {
        unfinished = NULL;
        output->temporary[0] = '\0';
    }
    return descriptor;
}

/*
 * Gives a file the owner, group, ACL and permissions of the old one at path. Where group or ACL cannot be kept, group and
 * others get only what both had, so that nobody gains. The ACL that the folder hands down goes in any case.
 */
static bool keep_access(int descriptor, const char *path, const struct stat *old) {
    static const char name[] = "system.posix_acl_access";
    char acl[4096];
    mode_t mode = old->st_mode & 0777, both = mode & mode >> 3 & 7;
    ssize_t n = getxattr(path, name, acl, sizeof acl);
    bool kept = n >= 0 || errno != ERANGE;
    fremovexattr(descriptor, name);
    if (n > 0) kept = fsetxattr(descriptor, name, acl, (size_t)n, 0) == 0;
    if (fchown(descriptor, old->st_uid, old->st_gid) != 0 && fchown(descriptor, (uid_t)-1, old->st_gid) != 0)
        kept = false;
    if (!kept) mode = (mode & 0700) | both << 3 | both;
    return fchmod(descriptor, mode) == 0;
}

/* Refuses what would fail after the work only, or what must not be replaced. After a stat that gave `old` (NULL: errno). */
static bool check_place(const char *path, const struct stat *old, Error *error) {
    struct stat status;
    int reason = old ? 0 : errno;
    if (strcmp(path, "-") == 0 || (old && fstat(STDOUT_FILENO, &status) == 0 && is_same_file(old, &status)))
        return error_set(error, "%s: this goes to a file, not to stdout; name one", path);
    if (reason == ENOENT && lstat(path, &status) == 0)
        return error_set(error, "%s: this link leads to no file; remove it, or make the file", path);
    if (reason == ENOENT && path[folder_length(path)]) return true;
    if (reason == ENOENT && path[0]) reason = EISDIR;
    if (old && access(path, W_OK) != 0) reason = errno;
    return reason == 0 || error_set(error, "%s: cannot write: %s", path, strerror(reason));
}

/* A temporary name in the folder of output->path. */
static bool make_name(OutputFile *output, Error *error) {
    unsigned char noise[8];
    size_t n = folder_length(output->path);
    output->temporary = malloc(n + sizeof "attn-0123456789abcdef.tmp");
    if (!output->temporary) return error_set(error, "%s: not enough memory", output->path);
    output->temporary[0] = '\0';
    if (getentropy(noise, sizeof noise) != 0) return output_failed(output, error);
    char *at = output->temporary + sprintf(output->temporary, "%.*sattn-", (int)n, output->path);
    for (size_t i = 0; i < sizeof noise; i++) at += sprintf(at, "%02x", noise[i]);
    strcpy(at, ".tmp");
    return true;
}

bool output_open(OutputFile *output, const char *path, const Inputs *inputs, Error *error) {
    struct stat old;
    bool exists = stat(path, &old) == 0, in_place = exists && !S_ISREG(old.st_mode);
    if (!check_place(path, exists ? &old : NULL, error) || !spares(inputs, path, exists ? &old : NULL, error))
        return false;
    output->path = exists && !in_place ? realpath(path, NULL) : strdup(path);
    if (!output->path) return error_set(error, "%s: cannot write: %s", path, strerror(errno));
    if (in_place) { /* a device or pipe must not be replaced */
        output->file = fopen(path, "wb");
        return output->file || output_failed(output, error);
    }
    if (!make_name(output, error)) return false;
    finished = 0;
    int descriptor = open_beside(output, exists ? 0600 : 0666);
    if (descriptor < 0 && exists)
        return error_set(error, "%s: cannot write: its folder takes no new file to replace it with: %s", path,
                         strerror(errno));
    if (descriptor >= 0 && (!exists || keep_access(descriptor, output->path, &old)))
        output->file = fdopen(descriptor, "wb");
    if (output->file) return true;
    output_failed(output, error);
    if (descriptor >= 0) close(descriptor);
    return false;
}

/* All that was written is on the disk; what is no disk cannot tell. */
static bool reaches_disk(FILE *file) {
    errno = 0;
    bool ok = fflush(file) == 0 && !ferror(file);
    if (!ok && errno == 0) errno = EIO; /* the reason was told to whoever wrote */
    return ok && (fsync(fileno(file)) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS);
}

/* A nameless file gets its temporary name. */
static bool give_name(OutputFile *output) {
    char link[32];
    if (!output->nameless) return true;
    proc_path(link, fileno(output->file));
    unfinished = output->temporary;
    output->nameless = linkat(AT_FDCWD, link, AT_FDCWD, output->temporary, AT_SYMLINK_FOLLOW) != 0;
    return !output->nameless;
}

bool output_finish(OutputFile *output, Error *error) {
    if (!reaches_disk(output->file) || !give_name(output)) return output_failed(output, error);
    bool closed = fclose(output->file) == 0;
    output->file = NULL;
    finished = closed; /* from here on; a rename that fails is an error, whatever comes */
    if (!closed || (output->temporary && rename(output->temporary, output->path) != 0))
        return output_failed(output, error);
    unfinished = NULL;
    if (!output->temporary) return true;
    output->temporary[0] = '\0';
    int folder =
        open_folder(output->path, O_RDONLY | O_DIRECTORY, 0); /* a new name must reach the disk as well */
    if (folder >= 0) fsync(folder), close(folder);
    return true;
}

void output_abandon(OutputFile *output) {
    if (output->file) fclose(output->file);
    if (output->temporary && output->temporary[0] && !output->nameless) unlink(output->temporary);
    unfinished = NULL;
    free(output->path);
    free(output->temporary);
    *output = (OutputFile){0};
}
