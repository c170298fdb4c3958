#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The temporary name of the file being written: there is one at a time. */
static const char *volatile unfinished;

void output_remove_unfinished(void) {
    if (unfinished) unlink(unfinished);
}

bool output_failed(const OutputFile *output, Error *error) {
    return error_set(error, "%s: cannot write: %s", output->path, strerror(errno));
}

/* A temporary file has the permissions that fopen would give it (mkstemp's are the owner's alone). */
bool output_open(OutputFile *output, const char *path, Error *error) {
    struct stat status, out;
    bool exists = stat(path, &status) == 0, in_place = exists && !S_ISREG(status.st_mode);
    bool is_stdout = exists && !in_place && fstat(STDOUT_FILENO, &out) == 0 && out.st_ino == status.st_ino &&
                     out.st_dev == status.st_dev;
    if (is_stdout || strcmp(path, "-") == 0)
        return error_set(error, "%s: this goes to a file, not to stdout; name one", path);
    output->path = exists && !in_place ? realpath(path, NULL) : strdup(path);
    if (!output->path) return error_set(error, "%s: cannot write: %s", path, strerror(errno));
    size_t n = strlen(output->path) + sizeof ".XXXXXX";
    output->temporary = calloc(1, n);
    if (!output->temporary) return error_set(error, "%s: not enough memory", path);
    if (in_place) { /* a device or pipe must not be replaced */
        output->file = fopen(path, "wb");
        return output->file || output_failed(output, error);
    }
    snprintf(output->temporary, n, "%s.XXXXXX", output->path);
    int file = mkstemp(output->temporary);
    if (file < 0) {
        output_failed(output, error);
        output->temporary[0] = '\0';
        return false;
    }
    unfinished = output->temporary;
    mode_t mask = umask(0);
    umask(mask);
    output->file = fchmod(file, 0666 & ~mask) == 0 ? fdopen(file, "wb") : NULL;
    if (output->file) return true;
    output_failed(output, error);
    close(file);
    return false;
}

bool output_finish(OutputFile *output, Error *error) {
    bool failed = fflush(output->file) != 0 || ferror(output->file);
    failed = fclose(output->file) != 0 || failed;
    output->file = NULL;
    if (failed || (output->temporary[0] && rename(output->temporary, output->path) != 0))
        return output_failed(output, error);
    unfinished = NULL;
    output->temporary[0] = '\0';
    return true;
}

void output_abandon(OutputFile *output) {
    if (output->file) fclose(output->file);
    unfinished = NULL;
    if (output->temporary && output->temporary[0]) unlink(output->temporary);
    free(output->path);
    free(output->temporary);
    *output = (OutputFile){0};
}
