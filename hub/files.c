/* The files of a folder: looked for, and read whole where they are texts. */
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool folder_join(Folder *folder, const char *name, char path[static MAX_PATH_BYTES]) {
    int n = snprintf(path, MAX_PATH_BYTES, "%s/%s", folder->path, name);
    return n < MAX_PATH_BYTES || builder_fail(&folder->builder, "its path is too long");
}

bool folder_look(Folder *folder, const char *name, char path[static MAX_PATH_BYTES]) {
    Builder *builder = &folder->builder;
    builder->ok = builder->ok && folder_join(folder, name, path) &&
                  checkpoint_look(builder->checkpoint, path, builder->error);
    return builder->ok;
}

bool folder_exists(Folder *folder, const char *name) {
    char path[MAX_PATH_BYTES];
    return folder_look(folder, name, path) && access(path, F_OK) == 0;
}

/* Fails, for the first time, with the path of a file in the folder in front. */
static bool fail_at(Folder *folder, const char *path, const char *what) {
    error_set(folder->builder.error, "%s: %s", path, what);
    return folder->builder.ok = false;
}

/* The size of an open file, which must be regular and no larger than `most`. */
static bool check_file(Folder *folder, const char *path, int file, size_t most, size_t *n) {
    struct stat status;
    if (fstat(file, &status) != 0) return fail_at(folder, path, strerror(errno));
    if (!S_ISREG(status.st_mode)) return fail_at(folder, path, "is no regular file");
    if ((uint64_t)status.st_size > most) return fail_at(folder, path, "is too large for what it is");
    *n = (size_t)status.st_size;
    return true;
}

static bool read_all(Folder *folder, const char *path, int file, char *text, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t more = read(file, text + done, n - done);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0)
            return fail_at(folder, path, more ? strerror(errno) : "became shorter while it was read");
        done += (size_t)more;
    }
    return true;
}

char *folder_text(Folder *folder, const char *name, size_t most, size_t before, bool own, size_t *n) {
    char path[MAX_PATH_BYTES], *text = NULL;
    if (!folder_look(folder, name, path)) return NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        if (errno != ENOENT) fail_at(folder, path, strerror(errno));
        return NULL;
    }
    if (check_file(folder, path, file, most, n)) {
        size_t room = before + *n + STRING_PADDING;
        text = own ? builder_room(&folder->builder, room) : malloc(room);
        if (!text && folder->builder.ok) fail_at(folder, path, "not enough memory");
    }
    if (text && !read_all(folder, path, file, text + before, *n)) {
        if (!own) free(text);
        text = NULL;
    }
    close(file);
    const char *pointer = text ? foreign_pointer(text + before, *n) : NULL;
    if (pointer) {
        char what[128];
        snprintf(what, sizeof what, "this is %s", pointer);
        fail_at(folder, path, what);
        if (!own) free(text);
        text = NULL;
    }
    return text;
}

Json *folder_json(Folder *folder, const char *name) {
    size_t n = 0;
    Error why;
    char *text = folder_text(folder, name, MAX_CONFIG_BYTES, 0, false, &n);
    Json *json = text ? json_take(text, n, &why) : NULL;
    if (text && !json) builder_fail(&folder->builder, "%s: %s", name, why.message);
    return json;
}
