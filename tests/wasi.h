/* For tests of the WebAssembly build under WASI, whose C library has no temporary files. */
#include <fcntl.h>
#include <string.h>

static inline int mkstemp(char *path) {
    char *last = path + strlen(path) - 1;
    for (*last = 'a'; *last <= 'z'; ++*last) {
        int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (file >= 0) return file;
    }
    return -1;
}
