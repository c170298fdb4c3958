#define _GNU_SOURCE /* flock */
#include "batch/ledger.h"

#include "base/json.h"
#include "batch/request.h"
#include "cli/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SYNC_MS = 1000 /* between two waits for the disk */ };

/* Names, by their hashes: slots [capacity], of which at most half are taken. */
typedef struct Names {
    struct Slot {
        uint64_t hash;
        size_t begin, n; /* in text; n = 0: the slot is free */
    } * slots;
    size_t n, capacity;
    uint64_t seed; /* that nobody knows who writes a file of names */
    TextBuffer text;
} Names;

struct Ledger {
    char *path; /* "stdout" */
    int file;
    bool keeps;       /* it is a regular file of ours */
    bool unread;      /* it is stdout, whose reader has gone */
    off_t n_bytes;    /* of whole lines */
    double synced_ms; /* the disk had all lines then */
    Names answered, read;
};

static struct Slot *find_slot(const Names *names, String name, uint64_t hash) {
    size_t i = (size_t)hash & (names->capacity - 1);
    for (;; i = (i + 1) & (names->capacity - 1)) {
        struct Slot *slot = &names->slots[i];
        if (slot->n == 0) return slot;
        if (slot->hash == hash && slot->n == name.n &&
            memcmp(names->text.data + slot->begin, name.data, name.n) == 0)
            return slot;
    }
}

static bool has_name(const Names *names, String name) {
    return names->n > 0 && find_slot(names, name, request_hash(name, names->seed))->n > 0;
}

static bool make_room(Names *names) {
    Names larger = *names;
    if (2 * (names->n + 1) <= names->capacity) return true;
    larger.capacity = names->capacity ? 2 * names->capacity : 1024;
    larger.slots = calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots) return false;
    for (size_t i = 0; i < names->capacity; i++) {
        const struct Slot *slot = &names->slots[i];
        String name = {names->text.data + slot->begin, slot->n};
        if (slot->n > 0) *find_slot(&larger, name, slot->hash) = *slot;
    }
    free(names->slots);
    *names = larger;
    return true;
}

/* A name has a byte. */
static bool add_name(Names *names, String name) {
    uint64_t hash = request_hash(name, names->seed);
    if (!make_room(names)) return false;
    struct Slot *slot = find_slot(names, name, hash);
    if (slot->n > 0) return true;
    if (!text_append(&names->text, name.data, name.n)) return false;
    *slot = (struct Slot){hash, names->text.n - name.n, name.n};
    names->n++;
    return true;
}

static void free_names(Names *names) {
    free(names->slots);
    free(names->text.data);
}

static bool failed(const Ledger *ledger, Error *error) {
    return error_set(error, "%s: cannot write: %s", ledger->path, strerror(errno));
}

static bool write_all(const Ledger *ledger, const char *bytes, size_t n) {
    while (n > 0) {
        ssize_t m = write(ledger->file, bytes, n);
        if (m < 0 && errno == EINTR && !interrupted()) continue;
        if (m < 0 && errno == EAGAIN && !interrupted()) { /* the pipe was made so that nobody waits; we do */
            poll(&(struct pollfd){.fd = ledger->file, .events = POLLOUT}, 1, -1);
            continue;
        }
        if (m <= 0) return false;
        bytes += m, n -= (size_t)m;
    }
    return true;
}

bool ledger_add(Ledger *ledger, const char *line, size_t n, Error *error) {
    if (!write_all(ledger, line, n)) {
        int why = errno;
        ledger->unread = ledger->file == STDOUT_FILENO && why == EPIPE;
        if (ledger->keeps && ftruncate(ledger->file, ledger->n_bytes) != 0) why = errno;
        errno = why;
        return failed(ledger, error);
    }
    ledger->n_bytes += (off_t)n;
    if (!ledger->keeps || now_ms() - ledger->synced_ms < SYNC_MS) return true;
    if (fdatasync(ledger->file) != 0) return failed(ledger, error);
    ledger->synced_ms = now_ms();
    return true;
}

/* Takes the name of an answer, which stands where its request had it. */
static bool take_answer(Ledger *ledger, const char *line, size_t n, Error *error) {
    Error why;
    TextBuffer name = {0};
    Json *json = json_parse(line, n, &why);
    if (!json) return error_set(error, "%s: holds a line that is no answer: %s", ledger->path, why.message);
    const Json *own = json_get(json, "custom_id"), *number = json_get(json, "line");
    if (!own) own = json_get(json, "id");
    Request request = {.id = number ? NULL : own}; /* beside a line an id is our own, or null */
    int64_t value = 0;
    bool ok = request.id ? request.id->kind == JSON_TEXT || json_integer(request.id, &value)
                         : json_integer(number, &value) && value > 0;
    if (!request.id) request.line = (size_t)value;
    if (!ok) error_set(error, "%s: holds a line that is no answer of a data set", ledger->path);
    ok = ok && ((request_name(&request, &name) && add_name(&ledger->answered, text_string(&name))) ||
                error_set(error, "not enough memory for the names of all answers"));
    free(name.data);
    json_free(json);
    return ok;
}

static bool is_same_text(String a, String b) { return a.n == b.n && memcmp(a.data, b.data, a.n) == 0; }

/* Members of a header are texts, numbers, true and false. */
static bool is_same(const Json *a, const Json *b) {
    return a->kind == b->kind && (a->kind == JSON_TEXT   ? is_same_text(json_string(a), json_string(b))
                                  : a->kind == JSON_BOOL ? a->boolean == b->boolean
                                                         : a->kind == JSON_NUMBER && a->number == b->number);
}

/* The first member of a header that another one has otherwise, or not at all; n = 0: there is none. */
static String differing(const Json *header, const Json *other) {
    for (size_t i = 0; i < header->n; i++) {
        size_t k = 0;
        while (k < other->n && !is_same_text(json_key(header, i), json_key(other, k))) k++;
        if (k == other->n || !is_same(json_item(header, i), json_item(other, k))) return json_key(header, i);
    }
    return (String){"", 0};
}

/* Says by what the file's first line is not this run's header. */
static bool refuse_header(const Ledger *ledger, String line, String header, Error *error) {
    Error why;
    Json *there = json_parse(line.data, line.n, &why), *here = json_parse(header.data, header.n, &why);
    if (!here) {
        error_set(error, "%s: %s", ledger->path, why.message);
    } else if (!json_get(there, "answers_of")) {
        error_set(error, "%s: holds something else than answers; name another file", ledger->path);
    } else {
        String key = differing(here, there);
        if (key.n == 0) key = differing(there, here);
        error_set(error, "%s: was begun with another \"%.*s\", which its first line has; name another file",
                  ledger->path, string_shown(key), key.data);
    }
    json_free(there);
    json_free(here);
    return false;
}

/* Reads what a run before this one wrote, cuts a torn last line away, and goes on behind the rest. */
static bool resume(Ledger *ledger, FILE *file, String header, Error *error) {
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    bool ok = true;
    for (size_t i = 0; ok && (n = getline(&line, &room, file)) > 0 && line[n - 1] == '\n'; i++) {
        ledger->n_bytes += n;
        if (i > 0)
            ok = take_answer(ledger, line, (size_t)n - 1, error);
        else if ((size_t)n - 1 != header.n || memcmp(line, header.data, header.n) != 0)
            ok = refuse_header(ledger, (String){line, (size_t)n - 1}, header, error);
    }
    if (ok && n < 0 && !feof(file))
        ok = error_set(error, "%s: cannot read: %s", ledger->path, strerror(errno));
    if (ok && n > 0 && ledger->n_bytes == 0 &&
        !(header.n >= (size_t)n && memcmp(line, header.data, (size_t)n) == 0))
        ok = error_set(error, "%s: holds something else than answers; name another file", ledger->path);
    free(line);
    if (!ok) return false;
    return ftruncate(ledger->file, ledger->n_bytes) == 0 || failed(ledger, error);
}

static bool begin(Ledger *ledger, String header, const Inputs *inputs, Error *error) {
    struct stat status;
    TextBuffer line = {0};
    if (strcmp(ledger->path, "-") == 0)
        return error_set(error, "-: this goes to a file; without -o answers go to stdout");
    if (!output_spares(inputs, ledger->path, error)) return false;
    ledger->file = open(ledger->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (ledger->file < 0 || fstat(ledger->file, &status) != 0) return failed(ledger, error);
    ledger->keeps = S_ISREG(status.st_mode);
    if (!ledger->keeps) return true;
    if (flock(ledger->file, LOCK_EX | LOCK_NB) != 0)
        return error_set(error, "%s: another process writes to it", ledger->path);
    int copy = dup(ledger->file);
    FILE *file = copy < 0 ? NULL : fdopen(copy, "r");
    if (!file) {
        if (copy >= 0) close(copy);
        return failed(ledger, error);
    }
    bool ok = resume(ledger, file, header, error);
    fclose(file);
    if (!ok || ledger->n_bytes > 0) return ok;
    ok = (text_append(&line, header.data, header.n) && text_append(&line, "\n", 1)) ||
         error_set(error, "not enough memory");
    ok = ok && ledger_add(ledger, line.data, line.n, error);
    free(line.data);
    return ok;
}

Ledger *ledger_open(const char *path, String header, const Inputs *inputs, Error *error) {
    Ledger *ledger = calloc(1, sizeof *ledger);
    if (ledger) *ledger = (Ledger){.path = strdup(path ? path : "stdout"), .file = STDOUT_FILENO};
    if (!ledger || !ledger->path) {
        free(ledger);
        error_set(error, "not enough memory");
        return NULL;
    }
    ledger->synced_ms = now_ms();
    if (getentropy(&ledger->read.seed, sizeof ledger->read.seed) != 0)
        ledger->read.seed = (uint64_t)(uintptr_t)ledger;
    ledger->answered.seed = ledger->read.seed;
    if (path ? begin(ledger, header, inputs, error) : output_spares(inputs, "/dev/stdout", error))
        return ledger;
    ledger_close(ledger, NULL);
    return NULL;
}

bool ledger_is_unread(const Ledger *ledger) { return ledger->unread; }

bool ledger_close(Ledger *ledger, Error *error) {
    if (!ledger) return true;
    bool ok = !ledger->keeps || fsync(ledger->file) == 0 || failed(ledger, error);
    if (ledger->file > STDERR_FILENO && close(ledger->file) != 0 && ok) ok = failed(ledger, error);
    free_names(&ledger->answered);
    free_names(&ledger->read);
    free(ledger->path);
    free(ledger);
    return ok;
}

size_t ledger_n_answers(const Ledger *ledger) { return ledger->answered.n; }

bool ledger_has(const Ledger *ledger, String name) { return has_name(&ledger->answered, name); }

bool ledger_note(Ledger *ledger, String name, bool *is_new, Error *error) {
    *is_new = !has_name(&ledger->read, name);
    return !*is_new || add_name(&ledger->read, name) ||
           error_set(error, "not enough memory for the names of all requests");
}
