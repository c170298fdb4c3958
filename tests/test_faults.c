/*
 * Each call of the system fails in turn, under `run`, `quantize` and every view of `study` (tests/faults.c does it). Whatever
 * fails, the program ends with 0 and the same bytes as always, or with 1, the beginning of those bytes and one more
 * line on stderr; no output file is half written, and nothing is left beside it. Memory that is not freed is a
 * sanitizer's find (make sanitize).
 *
 * The short form takes a few calls of each kind from each command, the long one (ATTN_LONG_TESTS=1) up to 150, or 6 under a
 * sanitizer, and each call from a place in a program that no call before it came from, or one of four there.
 */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define GPT2 "@/gpt2-f32.gguf"
#define LLAMA "@/llama-f32.gguf"
#define CORRUPTED " --corrupted Tho --answer #104"
#define PAIRS " --pairs @/../study/pairs.jsonl"

enum { N_SLOTS = 2, MAX_ARGS = 40, HANG_S = 60 };

static const char chat_template[] =
    "{% for m in messages %}{{ m['role'] ~ ':' ~ m.content|replace('o', 'oo') }}{% endfor %}{{ messages|map(attribute="
    "'role')|list|tojson }}";

/* A command line: words with a space between them; @ stands for tests/data/reference. */
typedef struct Command {
    const char *program, *words;
    const char *input;  /* on stdin, or NULL */
    const char *output; /* the file that it writes, or NULL */
    bool timed;         /* its numbers are times */
    bool
        tells; /* it may end well if what it prints tells why the model cannot run, or a request not be answered */
} Command;

/* Texts of more tokens than there is room for at first: special ones, words, characters that are no token but bytes. */
#define TEN(text) text text text text text text text text text text
static const char many_specials[] = TEN("<s><s><s><s><s><s><s>"), many_words[] = TEN(" ab ab ab ab ab ab ab"),
                  many_bytes[] = TEN("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"),
                  many_bytes_first[] = TEN("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9") "<s>";

/* Requests of all kinds: two texts that begin alike, a chat, OpenAI's, likelihoods of several texts and of one, log-probabilities. */
static const char requests[] =
    "{\"id\": 1, \"prompt\": \"The Eiffel tower stands\", \"max_tokens\": 3, \"stop\": [\"q\", \"z\"]}\n"
    "{\"id\": \"b\", \"prompt\": \"The Eiffel tower stood\", \"max_tokens\": 2}\n"
    "{\"id\": 3, \"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Hi\"}]}], \"max_tokens\": 2}\n"
    "{\"custom_id\": \"d\", \"body\": {\"prompt\": [1, 2, 3], \"max_tokens\": 1}}\n"
    "{\"id\": 5, \"context\": \"The\", \"choices\": [\" cat\", \" dog\", \" c\"]}\n"
    "{\"id\": 6, \"context\": \"The\", \"continuation\": \" cat\"}\n"
    "{\"id\": 7, \"prompt\": \"The\", \"max_tokens\": 2, \"logprobs\": 2, \"n\": 2}\n"
    "{\"custom_id\": \"h\", \"body\": {\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"max_tokens\": 2, \"logprobs\": "
    "true, \"top_logprobs\": 2}}\n";

static const Command commands[] = {
    {"run", GPT2 " --batch - --in-order -np 2 -s 1 --chat-template template", requests, NULL, false, true},
    {"run", LLAMA " --batch - -np 2 -s 1 -o answers", requests, NULL, false, true},
    {"run", LLAMA " --tokens --special", many_specials},
    {"run", LLAMA " --tokens", many_words},
    {"run", LLAMA " --tokens", many_bytes},
    {"run", LLAMA " --tokens --special", many_bytes_first},
    {"run", GPT2 " -n 2 -s 1", ""},
    {"study", "next " GPT2 " -p The --token a"},
    {"run", GPT2 " -f prompt -n 4 -s 1"},
    {"run", LLAMA " -p To -e -n 4 --temp 0 -t 2 -v", NULL, NULL, true},
    {"run", LLAMA " -n 4 -s 1 --top-k 5 --repeat-penalty 1.1 --kv f32", "The mole"},
    {"run", GPT2 " -i -n 3 -s 1", "one\ntwo\nthree\n"},
    {"run", GPT2 " -p To -n 3 -s 1 --json", NULL, NULL, true},
    {"run", GPT2 " --chat --chat-template template -n 2 -s 1 -sys S", "one\n/save out\ntwo\n", "out"},
    {"run", LLAMA " -p Logits --logits out -n 1 -s 1", NULL, "out"},
    {"run", GPT2 " -f prompt --tokens -v"},
    {"run", LLAMA " --info", NULL, NULL, false, true},
    {"run", "stories.bin --info", NULL, NULL, false, true},
    {"run", "stories.bin -z tok512.bin -p a -n 2 -s 1 --stop b --stop c --shift -c 4"},
    {"run", "@/absent.gguf -p a"},
    {"study", "next " LLAMA " -p The --token #104 --json"},
    {"study", "score " GPT2 " -f prompt -c 8 --words", NULL, NULL, true},
    {"study", "score " LLAMA " -f prompt -c 8 --chunks --json", NULL, NULL, true},
    {"study", "attend " GPT2 " -f prompt --layer 1 --head 0 -n 45"},
    {"study", "attend " LLAMA " --words --by value --json", "The Eiffel tower"},
    {"study", "heads " GPT2 " -f prompt"},
    {"study", "heads " LLAMA " --repeat 5 --batch 2 --json"},
    {"study", "lens " GPT2 " -f prompt --mid --token #104"},
    {"study", "explain " LLAMA " -f prompt --layer 1 --head 1 --json"},
    {"study", "attribute " GPT2 " -f prompt --head L0H1 --neurons 1"},
    {"study", "attribute " LLAMA " -f prompt --score L1H1:9>3 --json"},
    {"study", "attribute " LLAMA " -p The --by gradient --top 2"},
    {"study", "attribute " GPT2 " -p The" CORRUPTED " --by gradient --edges --svg out", NULL, "out"},
    {"study", "attribute " GPT2 " -p The" CORRUPTED " --by ig --steps 2 --edges --check 2 --dot out", NULL,
     "out"},
    {"study", "attribute " GPT2 " -p The" CORRUPTED " --by ig --steps 2 --edges --graph out", NULL, "out"},
    {"study", "attribute " LLAMA " -p The" CORRUPTED " --by ig --steps 2 --neurons 3 --json"},
    {"study", "attribute " GPT2 PAIRS " --by gradient --edges --json"},
    {"study", "attribute " GPT2 PAIRS},
    {"study", "circuit " GPT2},
    {"study", "circuit " LLAMA " --head L1H1 --token #104 --json"},
    {"study", "circuit " GPT2 " --composition q"},
    {"study", "faithful " GPT2 " -p The" CORRUPTED " --by gradient"},
    {"study", "faithful " LLAMA " -p The" CORRUPTED " --steps 2 --find 0.05 --kl --json"},
    {"study", "faithful " GPT2 " -p The" CORRUPTED " --keep L0H1:L1H1.v,L1H1:final --outside mean"},
    {"study", "faithful " GPT2 PAIRS " --steps 2 --nodes --find 0.1 --outside zero"},
    {"study",
     "steer " GPT2
     " -p The --plus-file prompt --minus-file template --average last --layers 1 -n 2 -o out.npy",
     NULL, "out.npy"},
    {"study", "steer " LLAMA " -p The --token #104 --unit --sweep --answer #104 --json"},
    {"study", "steer " GPT2 " -p The --neuron L1N3 -n 2 -o out", NULL, "out"},
    {"study", "steer " GPT2 " -p The --direction direction.npy --layers 1 --project -n 2"},
    {"study", "steer " GPT2 " -p The --direction control -n 2"},
    {"run", GPT2 " -p To -n 2 --temp 0 --steer control:2"},
    {"study", "rollout " GPT2 " -p The --flow"},
    {"study", "rollout " LLAMA " -f prompt --query 3 --top 2 --json"},
    {"study", "meaning " GPT2 " --word Up -p Up_x -p Up_yz --centred"},
    {"study", "meaning " LLAMA " --word Eiffel -f prompt -p Eiffel --json"},
    {"study", "ablate " GPT2 " -f prompt --heads L0H1 --by resample --with prompt --mlps 1"},
    {"study", "neurons " GPT2 " -f prompt --neuron L1N3 --json"},
    {"study", "neurons " LLAMA " -p The --top 3"},
    {"study", "neurons " GPT2 " --head L0H1 --corpus prompt -c 8 --top 2"},
    {"study", "ablate " LLAMA " -p The --sweep heads --by mean --json"},
    {"study", "patch " GPT2 " -p The" CORRUPTED " --what head-pos --svg out", NULL, "out"},
    {"study", "patch " LLAMA " -p The" CORRUPTED " --path L0H1:L1H1.v --json"},
    {"study", "patch " GPT2 PAIRS " --what z"},
    {"study", "patch " GPT2 PAIRS " --path L0H0:L1H1.v,L0H0:final"},
    {"study", "patch " LLAMA " -p The" CORRUPTED " --what pattern --freeze pattern"},
    {"study", "patch " GPT2 " -p The" CORRUPTED " --what neurons --layer 1 --noising --json"},
    {"study", "compare " GPT2 " @/gpt2-q8_0.gguf -p The"},
    {"study", "dump " GPT2 " -p Up -o out --half --layers 1", NULL, "out"},
    {"study", "view " GPT2 " -p Up -n 2 -o out --ablate L0H1", NULL, "out"},
    {"study", "view " LLAMA " -p Up --json"},
    {"study", "view " GPT2 " -p Up -o out --svg L1H1", NULL, "out"},
    {"study", "view @/gpt2-q8_0.gguf -p Up -o out --live", NULL, "out"},
    {"study", "selfcheck " LLAMA " -p The", NULL, NULL, true},
    {"quantize", GPT2 " out F16 -t 2 -v", NULL, "out"},
    {"quantize", "stories.bin out F16 -z tok512.bin", NULL, "out"},
    {"quantize", "@/../torch/opt out F16", NULL, "out"},
    {"quantize", "--dry-run " LLAMA " Q8_0"},
    {"run", "@/../tokenizer/folders/plain --tokens -p the"},
    {"run", "@/../tokenizer/folders/bytes --tokens -p the"},
    {"study", "tokens " GPT2 " -p The"},
    {"study", "experts @/qwen3moe.gguf -z @/../study/letters.gguf -p the"},
    {"study", "next " GPT2 " -p The --ablate L0H1"},
    {"study", "next " GPT2 " --ids 1,2,3"},
    {"run", GPT2 " -i -n 3 -s 1 -f prompt", "one\n"},
    {"study", "shape " GPT2},
    {"study", "shape @/../torch/opt"},
    {"study", "shape --preset gpt2 --json"},
    {"study", "case case.json"},
    {"study", "case case.json --json"},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

/* A call that may fail, and words that must stand in the error that follows, if one follows: ours, or the C library's. */
typedef struct Kind {
    const char *name, *words;
    int code;
} Kind;

static const Kind kinds[] = {
    {"malloc", "not enough memory"},
    {"memstream", "not enough memory"},
    {"mmap", NULL, ENOMEM},
    {"pthread_create", "ask for fewer"},
    {"open", NULL, EMFILE},
    {"fopen", NULL, EMFILE},
    {"fdopen", NULL, ENOMEM},
    {"fstat", NULL, EIO},
    {"fread", NULL, EIO},
    {"pread", NULL, EIO},
    {"fwrite", NULL, ENOSPC},
    {"fflush", NULL, ENOSPC},
    {"pwrite", NULL, ENOSPC},
    {"posix_fallocate", NULL, ENOSPC},
    {"mkstemp", NULL, ENOSPC},
    {"rename", NULL, ENOSPC},
    {"fchmod", NULL, EPERM},
    {"fclose", NULL, EIO},
    {"close", NULL, EIO},
    {"fsync", NULL, EIO},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static const char *words_of(const Kind *kind) { return kind->words ? kind->words : strerror(kind->code); }

typedef struct Bytes {
    char *data; /* a NUL behind them */
    size_t n;
} Bytes;

/* A command's output when nothing fails. */
typedef struct Usual {
    Bytes out, err, file;
    unsigned long calls[N_KINDS];
    char *log;
    int code;
} Usual;

/* A process under way, in a folder of its own. */
typedef struct Slot {
    pid_t process; /* 0: none */
    char folder[300];
    const Command *command;
    const Usual *usual;
    const Kind *kind;
    char fault[64];
} Slot;

static char scratch[256], data[2048], faulty[2048];
static Slot slots[N_SLOTS];
static bool long_form;
static size_t n_runs;

static const char old_file[] = "what stood there before\n";

static const char *in_slot(const Slot *slot, const char *name) {
    static char paths[4][600];
    static int last;
    char *path = paths[last = (last + 1) % 4];
    snprintf(path, sizeof paths[0], "%s/%s", slot->folder, name);
    return path;
}

static void put_file(const char *path, const void *bytes, size_t n) {
    FILE *file = fopen(path, "wb");
    if (file && fwrite(bytes, 1, n, file) == n && fclose(file) == 0) return;
    perror(path);
    exit(1);
}

static Bytes get_file(const char *path) {
    Bytes bytes = {calloc(1, 1), 0};
    FILE *file = fopen(path, "rb");
    struct stat status;
    if (!file || fstat(fileno(file), &status) != 0) return bytes;
    free(bytes.data);
    bytes.data = calloc(1, (size_t)status.st_size + 1);
    if (bytes.data) bytes.n = fread(bytes.data, 1, (size_t)status.st_size, file);
    fclose(file);
    return bytes;
}

static void redirect(const char *path, int flags, int to) {
    int file = open(path, flags, 0600);
    if (file < 0 || dup2(file, to) < 0) _exit(126);
    close(file);
}

/* The child: the command in the slot's folder, its three streams files there, or stdout where `out` says. */
static void become(const Slot *slot, const char *out) {
    char line[2048], *argv[MAX_ARGS], path[2100], *rest = line;
    size_t n = 0, argc = 0;
    for (const char *c = slot->command->words; *c && n + sizeof data < sizeof line + sizeof data; c++)
        n += (size_t)snprintf(line + n, sizeof line - n, *c == '@' ? "%s" : "%.1s", *c == '@' ? data : c);
    snprintf(path, sizeof path, "%s%s", faulty, slot->command->program);
    argv[argc++] = path;
    for (char *word; argc + 1 < MAX_ARGS && (word = strsep(&rest, " "));) argv[argc++] = word;
    argv[argc] = NULL;
    if (chdir(slot->folder) != 0) _exit(126);
    redirect(slot->command->input ? "in" : "/dev/null", O_RDONLY, STDIN_FILENO);
    redirect(out ? out : "stdout", O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
    redirect("stderr", O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
    setenv("ATTN_FAULT", slot->fault, 1);
    setenv("ATTN_FAULT_LOG", "log", 1);
    alarm(HANG_S);
    execv(path, argv);
    _exit(127);
}

static void start(Slot *slot, const char *out) {
    unlink(in_slot(slot, "log"));
    unlink(in_slot(slot, "answers"));
    const Command *command = slot->command;
    if (command->input) put_file(in_slot(slot, "in"), command->input, strlen(command->input));
    if (command->output) put_file(in_slot(slot, command->output), old_file, sizeof old_file - 1);
    slot->process = fork();
    if (slot->process == 0) become(slot, out);
    if (slot->process < 0) {
        perror("fork");
        exit(1);
    }
    n_runs++;
}

static unsigned long calls_in(const char *log, const char *name) {
    char line[64];
    snprintf(line, sizeof line, "calls %s ", name);
    const char *at = strstr(log, line);
    return at ? strtoul(at + strlen(line), NULL, 10) : 0;
}

static size_t count_lines(const char *text) {
    size_t n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

static bool same(const Bytes *a, const Bytes *b) {
    return a->n == b->n && memcmp(a->data, b->data, a->n) == 0;
}

/* Whether what was printed is, or begins, what usually is; times differ, and what follows them. */
static bool is_usual(const Slot *slot, const Bytes *out, int code) {
    const Bytes *usual = &slot->usual->out;
    if (slot->command->timed) return true;
    if (slot->command->tells && strstr(out->data, words_of(slot->kind))) return true;
    if (code == 0) return same(out, usual);
    /* A report is not ended where one of its many pieces cannot be written. */
    bool generates = strcmp(slot->command->program, "run") == 0 && strstr(slot->command->words, " -n ");
    if (strcmp(slot->kind->name, "fwrite") == 0 && !generates) return true;
    return out->n <= usual->n && memcmp(out->data, usual->data, out->n) == 0;
}

/* The files that the test has put there, and the output. */
static bool is_expected_file(const Command *command, const char *name) {
    static const char *const names[] = {
        ".",        "..",         "stdout",      "stderr",    "log",           "in",      "prompt",
        "template", "tok512.bin", "stories.bin", "case.json", "direction.npy", "control", "answers"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return command->output && strcmp(name, command->output) == 0;
}

static void remove_leftovers(const Slot *slot, const char *what) {
    DIR *folder = opendir(slot->folder);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (is_expected_file(slot->command, entry->d_name)) continue;
        CHECK(false, "%s: %s is left behind", what, entry->d_name);
        unlink(in_slot(slot, entry->d_name));
    }
    if (folder) closedir(folder);
}

/* The last line of stderr names the program and what failed; the others are notes that come without a fault, too. */
static void check_error(const Slot *slot, const Bytes *err, const char *what) {
    char begin[16];
    const char *last = err->data;
    for (const char *c = err->data; *c; c++)
        if (*c == '\n' && c[1]) last = c + 1;
    snprintf(begin, sizeof begin, "%s: ", slot->command->program);
    size_t most = slot->usual->code ? 1 : count_lines(slot->usual->err.data) + 1;
    bool is_line = strncmp(last, begin, strlen(begin)) == 0 && err->n > 0 && err->data[err->n - 1] == '\n' &&
                   count_lines(err->data) <= most;
    CHECK(is_line, "%s: stderr says\n%s", what, err->data);
    bool memory = slot->kind == kinds && strstr(last, strerror(ENOMEM)); /* said by the C library */
    bool flag = strstr(last, strerror(EIO)); /* all that a stream keeps of a failed write */
    bool stream =
        slot->command->tells && strstr(last, "not enough memory"); /* all that one in memory can lack */
    bool told = strstr(last, words_of(slot->kind)) || memory || flag || stream ||
                (slot->usual->code && same(err, &slot->usual->err));
    CHECK(told, "%s: it is not said why: %s", what, last);
}

/* Waits for the slot's process, and checks how it ended. */
static void finish(Slot *slot) {
    int status;
    char what[400];
    if (!slot->process) return;
    waitpid(slot->process, &status, 0);
    slot->process = 0;
    const Command *command = slot->command;
    const Usual *usual = slot->usual;
    Bytes out = get_file(in_slot(slot, "stdout")), err = get_file(in_slot(slot, "stderr"));
    Bytes log = get_file(in_slot(slot, "log")), file = {NULL, 0},
          old = {(char *)old_file, sizeof old_file - 1};
    snprintf(what, sizeof what, "%s %s %s", slot->fault, command->program, command->words);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    CHECK(code == 0 || code == 1, "%s: status %d\n%s", what, status, err.data);
    CHECK(strstr(log.data, "struck"), "%s: no such call", what);
    CHECK(is_usual(slot, &out, code), "%s: with %d it prints\n%s", what, code, out.data);
    if (code == 1) check_error(slot, &err, what);
    if (command->output) {
        file = get_file(in_slot(slot, command->output));
        bool whole = same(&file, &usual->file), kept = same(&file, &old);
        CHECK(whole || (kept && code), "%s: %s has %zu bytes", what, command->output, file.n);
        unlink(in_slot(slot, command->output));
    }
    remove_leftovers(slot, what);
    free(out.data), free(err.data), free(log.data), free(file.data);
}

/* Runs the command with a fault, in the next slot that is free. */
static void run_with(const Command *command, const Usual *usual, const Kind *kind, unsigned long call,
                     const char *more) {
    static size_t next;
    Slot *slot = &slots[next++ % N_SLOTS];
    finish(slot);
    slot->command = command, slot->usual = usual, slot->kind = kind;
    snprintf(slot->fault, sizeof slot->fault, "%s:%lu%s", kind->name, call, more);
    start(slot, NULL);
}

static void finish_all(void) {
    for (size_t i = 0; i < N_SLOTS; i++) finish(&slots[i]);
}

static Usual run_as_usual(const Command *command) {
    Usual usual = {.code = 0};
    Slot *slot = &slots[0];
    int status;
    slot->command = command;
    slot->fault[0] = '\0';
    start(slot, NULL);
    waitpid(slot->process, &status, 0);
    slot->process = 0;
    usual.out = get_file(in_slot(slot, "stdout"));
    usual.err = get_file(in_slot(slot, "stderr"));
    if (command->output) {
        usual.file = get_file(in_slot(slot, command->output));
        unlink(in_slot(slot, command->output));
    }
    usual.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    CHECK(usual.code == 0 || strstr(command->words, "absent"), "%s %s: status %d\n%s", command->program,
          command->words, status, usual.err.data);
    Bytes log = get_file(in_slot(slot, "log"));
    for (size_t i = 0; i < N_KINDS; i++) usual.calls[i] = calls_in(log.data, kinds[i].name);
    usual.log = log.data;
    return usual;
}

static void free_usual(Usual *usual) {
    free(usual->out.data), free(usual->err.data), free(usual->file.data), free(usual->log);
}

/* Whether a place is heard of for the first time. */
static bool is_new(const char *program, unsigned long long place) {
    static unsigned long long known[1 << 16];
    static size_t n;
    for (size_t i = 0; program[i]; i++) place = place * 31 + (unsigned char)program[i];
    for (size_t i = 0; i < n; i++)
        if (known[i] == place) return false;
    if (n == sizeof known / sizeof *known) exit(1);
    known[n++] = place;
    return true;
}

/* Each call from a place that no command before this one had, nor any call before it; under a sanitizer every fourth. */
static void try_places(const Command *command, const Usual *usual, const Kind *kind) {
    static size_t n_new;
    for (const char *line = usual->log; line; line = strchr(line, '\n')) {
        unsigned long long place;
        unsigned long call;
        char name[32];
        line += *line == '\n';
        if (sscanf(line, "first %llx %31s %lu", &place, name, &call) == 3 && strcmp(name, kind->name) == 0 &&
            is_new(command->program, place) && n_new++ % how_many(1, 1, 4) == 0)
            run_with(command, usual, kind, call, "");
    }
}

/* Of n calls, those that are tried: all, or `most` of them, spread; `seed` moves them. */
static bool is_tried(unsigned long call, unsigned long n, unsigned long most, unsigned long seed) {
    if (n <= most || call == 1 || call == n) return true;
    return (call + seed) * most / n != (call + seed - 1) * most / n;
}

static void try_kinds(const Command *command, size_t first, size_t n, unsigned long most) {
    Usual usual = run_as_usual(command);
    unsigned long seed = (unsigned long)(command - commands);
    for (size_t i = first; i < first + n; i++) {
        if (long_form) try_places(command, &usual, &kinds[i]);
        for (unsigned long call = 1; call <= usual.calls[i]; call++) {
            if (is_tried(call, usual.calls[i], most, seed)) run_with(command, &usual, &kinds[i], call, "");
            if (call < usual.calls[i] && (i == 0 || long_form) &&
                is_tried(call, usual.calls[i], most / 2 + 1, seed + 3))
                run_with(command, &usual, &kinds[i], call, "+");
        }
    }
    finish_all();
    free_usual(&usual);
}

static void test_memory(void) {
    for (size_t i = 0; i < N_COMMANDS; i++)
        try_kinds(&commands[i], 0, 1, long_form ? how_many(150, 150, 6) : 2);
}

static void test_other_calls(void) {
    for (size_t i = 0; i < N_COMMANDS; i++)
        try_kinds(&commands[i], 1, N_KINDS - 1, long_form ? how_many(12, 12, 2) : 1);
}

/* A disk that is full from the first byte: of all that is printed nothing arrives, and the program says so. */
static void test_no_room_for_stdout(void) {
    for (size_t i = 0; i < N_COMMANDS; i++) {
        Slot *slot = &slots[0];
        int status;
        if (strstr(commands[i].words, "absent") || strstr(commands[i].words, "-o answers") ||
            (commands[i].output && strcmp(commands[i].program, "run")))
            continue;
        *slot = (Slot){.command = &commands[i]};
        snprintf(slot->folder, sizeof slot->folder, "%s/0", scratch);
        start(slot, "/dev/full");
        waitpid(slot->process, &status, 0);
        slot->process = 0;
        Bytes err = get_file(in_slot(slot, "stderr"));
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1 && strstr(err.data, "No space left on device"),
              "%s: status %d\n%s", commands[i].words, status, err.data);
        free(err.data);
    }
}

/* A llama2.c checkpoint of one layer, and its vocabulary: the bytes, and three tokens before them. */
static void make_stories(const Slot *slot) {
    enum { D = 8, FF = 16, N_HEAD = 2, N_VOCAB = 3 + 256, N_CTX = 16 };
    static const int32_t sizes[7] = {D, FF, 1, N_HEAD, N_HEAD, N_VOCAB, N_CTX};
    static const char *const begin[] = {"<unk>", "\n<s>\n", "\n</s>\n"};
    size_t n = N_VOCAB * D + 2 * D + 4 * D * D + 3 * D * FF + D + N_CTX * D / N_HEAD;
    FILE *model = fopen(in_slot(slot, "stories.bin"), "wb"),
         *vocab = fopen(in_slot(slot, "tok512.bin"), "wb");
    if (!model || !vocab) exit(1);
    fwrite(sizes, sizeof *sizes, 7, model);
    for (size_t i = 0; i < n; i++) fwrite(&(float){(float)sin((double)(i * i))}, sizeof(float), 1, model);
    fwrite(&(int32_t){6}, sizeof(int32_t), 1, vocab);
    for (int i = 0; i < N_VOCAB; i++) {
        char text[16];
        int32_t length = i < 3 ? snprintf(text, sizeof text, "%s", begin[i])
                               : snprintf(text, sizeof text, "<0x%02X>", (unsigned)i - 3);
        fwrite(&(float){0}, sizeof(float), 1, vocab);
        fwrite(&length, sizeof length, 1, vocab);
        fwrite(text, 1, (size_t)length, vocab);
    }
    fclose(model), fclose(vocab);
}

static const char a_case[] =
    "{\"cases\": [{\"name\": \"two\", \"heads\": 2, \"score\": \"scaled-dot\", \"mask\": \"causal\",\n"
    "  \"tokens\": [\"a\", \"b\"], \"x\": [[1, 2], [3, 4]], \"w_q\": [[1, 0], [0, 1]], \"b_q\": [0, 1]},\n"
    " {\"x\": [[1]], \"scores\": [[1]]}]}\n";

/* A direction of GPT2's width. */
static void make_direction(const Slot *slot) {
    float direction[40];
    FILE *file = fopen(in_slot(slot, "direction.npy"), "wb");
    for (int i = 0; i < 40; i++) direction[i] = (float)(i % 5) - 1;
    if (!file) exit(1);
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file);
    fprintf(file, "%-117s\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (40,), }");
    fwrite(direction, sizeof *direction, 40, file);
    fclose(file);
}

static void begin_slots(const char *program) {
    const char *parent = getenv("TMPDIR"), *given = getenv("FAULTY"), *length = getenv("ATTN_LONG_TESTS");
    const char *slash = strrchr(program, '/');
    char here[1024];
    snprintf(scratch, sizeof scratch, "%.200s/attn-test.XXXXXX", parent ? parent : "/tmp");
    if (!getcwd(here, sizeof here) || !mkdtemp(scratch)) {
        perror(scratch);
        exit(1);
    }
    snprintf(data, sizeof data, "%s/tests/data/reference", here);
    if (given)
        snprintf(faulty, sizeof faulty, "%s", given);
    else
        snprintf(faulty, sizeof faulty, "%s/%.*s/faulty_", here, slash ? (int)(slash - program) : 1, program);
    long_form = length && strcmp(length, "1") == 0;
    for (size_t i = 0; i < N_SLOTS; i++) {
        Slot *slot = &slots[i];
        snprintf(slot->folder, sizeof slot->folder, "%s/%zu", scratch, i);
        mkdir(slot->folder, 0700);
        put_file(in_slot(slot, "prompt"), "The Eiffel tower stands", 23);
        put_file(in_slot(slot, "template"), chat_template, sizeof chat_template - 1);
        put_file(in_slot(slot, "case.json"), a_case, sizeof a_case - 1);
        make_direction(slot);
        char command[6000];
        snprintf(
            command, sizeof command,
            "'%sstudy' steer '%s/gpt2-f32.gguf' -p The --token '#104' --site resid_post --layers 1 -n 0 -o '%s' >/dev/null",
            faulty, data, in_slot(slot, "control"));
        if (system(command) != 0) exit(1);
        make_stories(slot);
    }
}

static void end_slots(void) {
    for (size_t i = 0; i < N_SLOTS; i++) {
        static const char *const names[] = {
            "stdout",      "stderr",    "log",           "in",      "prompt", "tok512.bin", "template",
            "stories.bin", "case.json", "direction.npy", "control", "out",    "answers"};
        for (size_t j = 0; j < sizeof names / sizeof *names; j++) unlink(in_slot(&slots[i], names[j]));
        rmdir(slots[i].folder);
    }
    rmdir(scratch);
}

int main(int argc, char **argv) {
    begin_slots(argc > 0 ? argv[0] : "");
    RUN(test_memory);
    RUN(test_other_calls);
    RUN(test_no_room_for_stdout);
    end_slots();
    printf("%zu programs were run\n", n_runs);
    return test_end();
}
