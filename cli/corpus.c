#include "cli/corpus.h"

#include "base/utf8.h"
#include "cli/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool corpus_open(Corpus *corpus, const char *path, Error *error) {
    bool from_stdin = strcmp(path, "-") == 0;
    struct stat status;
    *corpus = (Corpus){.name = from_stdin ? "stdin" : path, .file = from_stdin ? stdin : fopen(path, "rb")};
    if (!corpus->file) return error_set(error, "%s: cannot open: %s", path, strerror(errno));
    if (fstat(fileno(corpus->file), &status) == 0 && S_ISREG(status.st_mode))
        corpus->total = (uint64_t)status.st_size;
    corpus->bytes = malloc(CORPUS_BYTES);
    return corpus->bytes ||
           error_set(error, "%s: not enough memory for %d bytes of it", corpus->name, CORPUS_BYTES);
}

void corpus_close(Corpus *corpus) {
    if (corpus->file && corpus->file != stdin) fclose(corpus->file);
    free(corpus->bytes);
}

/* Where CORPUS_BYTES, n of them, behind which there may be more, are cut; all of them where nothing speaks for a place. */
static size_t cut(const char *bytes, size_t n) {
    size_t line = n, space = n, character = n - 1;
    while (line > 0 && bytes[line - 1] != '\n') line--;
    if (line > 0) return line;
    while (space > 1 && bytes[space - 1] != ' ') space--;
    if (space > 1) return space - 1; /* it belongs to the word behind it */
    while (character > 0 && utf8_continues(bytes[character])) character--;
    return n - character <= 4 ? character : n;
}

bool corpus_read(Corpus *corpus, String *piece, Error *error) {
    corpus->n -= corpus->given;
    memmove(corpus->bytes, corpus->bytes + corpus->given, corpus->n);
    errno = 0;
    while (corpus->n < CORPUS_BYTES && !feof(corpus->file) && !ferror(corpus->file) && !interrupted())
        corpus->n += fread(corpus->bytes + corpus->n, 1, CORPUS_BYTES - corpus->n, corpus->file);
    if (interrupted() || ferror(corpus->file))
        return error_set(error, "%s: cannot read: %s", corpus->name, strerror(interrupted() ? EINTR : errno));
    corpus->given = corpus->n < CORPUS_BYTES ? corpus->n : cut(corpus->bytes, corpus->n);
    corpus->done += corpus->given;
    *piece = (String){corpus->bytes, corpus->given};
    return true;
}
