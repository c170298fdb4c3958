/* Makes the fuzzer's first calls and those of its corpus once; tests/fuzz/call.c ends this program where one goes wrong. */
#include "tests/fuzz/fuzz.h"

#include "gguf.h"

#include <dirent.h>

static unsigned char bytes[1 << 18];

static size_t read_call(const char *folder, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file) fclose(file);
    return n;
}

/* Makes all calls of a folder, and returns how many; `removing`: their files go. */
static int make_calls(const char *path, bool removing) {
    DIR *folder = opendir(path);
    CHECK(folder != NULL, "%s: start this in the repository's root", path);
    int n_calls = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        size_t n = read_call(path, entry->d_name);
        CHECK(n > 0, "%s is empty", entry->d_name);
        if (getenv("FUZZ_SHOW")) fprintf(stderr, "%s: ", entry->d_name);
        fuzz_call(bytes, n);
        n_calls++;
        if (removing) unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder) closedir(folder);
    return n_calls;
}

static void test_corpus(void) {
    int n = make_calls("tests/corpus", false);
    CHECK(n >= 50, "%d calls", n);
}

static void test_first_calls(void) {
    scratch_begin();
    write_seeds(scratch_folder);
    int n = make_calls(scratch_folder, true);
    CHECK(n >= 150, "%d calls", n);
    scratch_end();
}

/* A call is the same behind writing and reading; what is cut short is a shorter call. */
static void test_calls_as_bytes(void) {
    static const unsigned char file[] = "w 3\n\0 \n";
    Call call = {.n = 0};
    call_add(&call, 'w', "run", 3);
    call_add(&call, 'w', "", 0);
    call_add(&call, 'a', file, sizeof file);
    size_t n = call_write(&call, bytes, sizeof bytes);
    for (size_t cut = 0; cut <= n; cut++) {
        Call read = call_read(bytes, cut);
        CHECK(read.n <= call.n && (cut < n - 1 || read.n == call.n), "%zu parts of %zu bytes", read.n, cut);
        for (size_t i = 0; i < read.n; i++)
            CHECK(read.parts[i].tag == call.parts[i].tag && read.parts[i].n == call.parts[i].n &&
                      memcmp(read.parts[i].bytes, call.parts[i].bytes, read.parts[i].n) == 0,
                  "part %zu of %zu bytes", i, cut);
    }
}

int main(void) {
    alarm(600); /* a test that hangs is a failure */
    RUN(test_calls_as_bytes);
    RUN(test_first_calls);
    RUN(test_corpus);
    return test_end();
}
