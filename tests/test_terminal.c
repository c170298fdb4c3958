/*
 * Strangers' words stay text. A model whose vocabulary, metadata and file name hold escape sequences, C1 controls and
 * direction marks goes through everything that the programs print, on a pseudo-terminal and into files: no terminal gets
 * a byte that it would obey but the programs' own colours, generated text in a file is exact, and JSON says what it says.
 * The forbidden bytes are written down here a second time, byte by byte, and shares nothing with base/utf8.c.
 */
#define _GNU_SOURCE /* posix_openpt, memmem */

#include "gguf.h"
#include "pseudo_terminal.h"

#include "base/json.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Titles, the clipboard, a link, the screen, C1 as UTF-8, direction marks, separators, what is unseen or no character. */
#define HOSTILE                                                                                              \
    "\x1b]0;owned\x07", "\x1b]52;c;aGk=\x1b\\", "\x1b]8;;http://x\x1b\\", "\x1b[2J", "\x1b[5m",              \
        "\xc2\x9b"                                                                                           \
        "5m",                                                                                                \
        "\xc2\x9d"                                                                                           \
        "0;t\xc2\x9c",                                                                                       \
        "\xc2\x85", "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x80\x8f", "\xd8\x9c", "\xe2\x80\xa8",              \
        "\xe2\x80\xa9", "\xef\xbb\xbf", "\xef\xbf\xb9", "\xf3\xa0\x81\x81", "\xef\xbf\xbf", "\xef\xb7\x90",  \
        "\xf0\x9f\xbf\xbe", "\xe2\x81\xaa", "\x7f", "\b", "\v", "\f", "\xff\x9b", "over\rwritten"

static const char *const vocabulary[] = {
    "<unk>",
    "<s>",
    "<x>", /* a name that ends no turn */
    "<0x1B>",
    "<0x9B>",
    "<0xC2>",
    "<0xE2>",
    "<0x80>",
    "<0xAE>",
    "<0x00>",
    "<0x0D>",
    "<0x0A>",
    HOSTILE,
    "\r\n",
    "\r",
    "\n",
    "\t",
    "\xe2\x96\x81",
    "\xe2\x96\x81the",
    "x",
    "[",
    "2",
    "J",
    "\x1b",
    "\xc3\xa9",
    "\xe6\x97\xa5",
    "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80" /* with a joiner, which stays */,
    "\\u001b",
};
enum { N_VOCAB = COUNT(vocabulary), N_NAMED = 3, N_BYTES = 9, D_MODEL = 4, D_FF = 6, N_CTX = 1024 };

/* Names of files; the last byte is no UTF-8. */
static const char model_name[] = "m\x1b[5m\xc2\x9b"
                                 "5m\xe2\x80\xae\n\t\r.gguf\xff";
static const char broken_name[] = "b\x1b]0;owned\x07.gguf";

static const char *program_path(const char *variable, const char *fallback) {
    const char *name = getenv(variable);
    char *path = realpath(name ? name : fallback, NULL);
    if (path) return path;
    perror(name ? name : fallback);
    exit(1);
}

static const char *run, *study;

/* ---- Files ---- */

static void write_file(const char *name, const void *bytes, size_t n) {
    FILE *file = fopen(name, "wb");
    if (file && fwrite(bytes, 1, n, file) == n && fclose(file) == 0) return;
    perror(name);
    exit(1);
}

static void put_vocabulary(Gguf *gguf) {
    int32_t types[N_VOCAB];
    float scores[N_VOCAB];
    for (size_t i = 0; i < N_VOCAB; i++) {
        types[i] = i == 0 ? 2 : i < N_NAMED ? 3 : i < N_NAMED + N_BYTES ? 6 : 1;
        scores[i] = -(float)i;
    }
    types[N_NAMED + N_BYTES] = 3; /* a hostile control token, which --special shows */
    gguf_string(gguf, "tokenizer.ggml.model", "llama");
    gguf_strings(gguf, "tokenizer.ggml.tokens", vocabulary, N_VOCAB);
    gguf_array(gguf, "tokenizer.ggml.token_type", I32, N_VOCAB, types, sizeof types);
    gguf_array(gguf, "tokenizer.ggml.scores", F32, N_VOCAB, scores, sizeof scores);
    gguf_u32(gguf, "tokenizer.ggml.bos_token_id", 1);
    gguf_u32(gguf, "tokenizer.ggml.eos_token_id", 1);
}

static void fill(Gguf *gguf, const char *name, size_t from, size_t n, float value, unsigned char *file) {
    for (size_t i = from; i < from + n; i++)
        memcpy(file + gguf_find_tensor(gguf, name)->data_at + 4 * i, &value, sizeof value);
}

/*
 * With a wrong architecture the file is well-formed, and cannot run. Layers add nothing, so that all tokens are equally
 * likely but <s>, which would end the text.
 */
static void write_model(const char *name, const char *architecture) {
    static unsigned char file[1 << 17];
    static const struct {
        const char *name;
        uint32_t value;
    } keys[] = {{"llama.context_length", N_CTX},
                {"llama.embedding_length", D_MODEL},
                {"llama.block_count", 1},
                {"llama.attention.head_count", 2},
                {"llama.feed_forward_length", D_FF}};
    static const struct {
        const char *name;
        uint64_t rows, cols;
    } tensors[] = {{"token_embd.weight", N_VOCAB, D_MODEL},   {"blk.0.attn_norm.weight", 0, D_MODEL},
                   {"blk.0.attn_q.weight", D_MODEL, D_MODEL}, {"blk.0.attn_k.weight", D_MODEL, D_MODEL},
                   {"blk.0.attn_v.weight", D_MODEL, D_MODEL}, {"blk.0.attn_output.weight", D_MODEL, D_MODEL},
                   {"blk.0.ffn_norm.weight", 0, D_MODEL},     {"blk.0.ffn_gate.weight", D_FF, D_MODEL},
                   {"blk.0.ffn_up.weight", D_FF, D_MODEL},    {"blk.0.ffn_down.weight", D_MODEL, D_FF},
                   {"output_norm.weight", 0, D_MODEL},        {"output.weight", N_VOCAB, D_MODEL}};
    static Gguf gguf;
    gguf = gguf_begin(3);
    gguf_string(&gguf, "general.architecture", architecture);
    gguf_string(&gguf, "general.name",
                "n\x1b[5m\xc2\x9b"
                "5m\xe2\x80\xae");
    gguf_string(&gguf, "general.type", "t\x1b]0;owned\x07\xe2\x80\xae");
    for (size_t i = 0; i < COUNT(keys); i++) gguf_u32(&gguf, keys[i].name, keys[i].value);
    gguf_f32(&gguf, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    put_vocabulary(&gguf);
    for (size_t i = 0; i < COUNT(tensors); i++)
        gguf_tensor(&gguf, tensors[i].name, T_F32, tensors[i].rows, tensors[i].cols);
    size_t n = gguf_write(&gguf, file);
    fill(&gguf, "token_embd.weight", 0, N_VOCAB * D_MODEL, 1, file);
    fill(&gguf, "blk.0.attn_output.weight", 0, D_MODEL * D_MODEL, 0, file);
    fill(&gguf, "blk.0.ffn_down.weight", 0, D_MODEL * D_FF, 0, file);
    fill(&gguf, "output_norm.weight", 0, D_MODEL, 1, file);
    fill(&gguf, "output.weight", 0, N_VOCAB * D_MODEL, 0, file);
    fill(&gguf, "output.weight", D_MODEL, D_MODEL, -100, file);
    write_file(name, file, n);
}

/* ---- Running a program ---- */

typedef struct Output {
    char bytes[1 << 20]; /* [n], and a NUL */
    size_t n;
} Output;

static Output out, err; /* of the last program */

/* Where a program's words go. */
typedef enum Where { FILES, TERMINAL, OUT_TERMINAL, ERR_TERMINAL } Where;

/* A pseudo-terminal that passes bytes on as they are; −1 where there is none. */
static int open_terminal(int *slave) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) return -1;
    *slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    struct termios settings;
    if (*slave < 0 || tcgetattr(*slave, &settings) != 0) return -1;
    settings.c_oflag &= ~(tcflag_t)OPOST;
    settings.c_lflag &= ~(tcflag_t)(ECHO | ICANON);
    return tcsetattr(*slave, TCSANOW, &settings) == 0 ? master : -1;
}

/* The bytes of a file. */
static void read_all(int from, Output *to) {
    to->n = 0;
    for (ssize_t got; (got = read(from, to->bytes + to->n, sizeof to->bytes - 1 - to->n)) > 0;)
        to->n += (size_t)got;
    to->bytes[to->n] = '\0';
    close(from);
}

/* Runs the program; its exit code. With TERMINAL both streams are one terminal, which `out` gets. */
static int spawn(Where where, const char *input, const char *const *words) {
    int terminal[2] = {-1, -1}, files[2], in = open(input ? input : "/dev/null", O_RDONLY), status = -1;
    for (int i = 0; i < 2; i++) files[i] = open(i ? "err" : "out", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (where != FILES) terminal[0] = open_terminal(&terminal[1]);
    if (in < 0 || files[0] < 0 || files[1] < 0 || (where != FILES && terminal[0] < 0)) exit(1);
    pid_t child = fork();
    if (child == 0) {
        dup2(in, STDIN_FILENO);
        dup2(where == TERMINAL || where == OUT_TERMINAL ? terminal[1] : files[0], STDOUT_FILENO);
        dup2(where == TERMINAL || where == ERR_TERMINAL ? terminal[1] : files[1], STDERR_FILENO);
        execv(words[0], (char *const *)words);
        _exit(127);
    }
    close(in);
    if (where != FILES) {
        Output *to = where == ERR_TERMINAL ? &err : &out;
        to->n = read_terminal(terminal[0], terminal[1], child, &status, to->bytes, sizeof to->bytes);
    } else {
        waitpid(child, &status, 0);
    }
    for (int i = 0; i < 2; i++) lseek(files[i], 0, SEEK_SET);
    if (where == FILES || where == ERR_TERMINAL)
        read_all(files[0], &out);
    else
        close(files[0]);
    if (where == FILES || where == OUT_TERMINAL)
        read_all(files[1], &err);
    else
        close(files[1]);
    if (where == TERMINAL) err.n = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- Forbidden bytes ---- */

/* The length of a sequence that is the program's own: a colour, or a line of progress that is written over. */
static size_t own_sequence(const char *at) {
    static const char *const own[] = {"\x1b[0m",      "\x1b[1m",      "\x1b[1;32m", "\x1b[2m",
                                      "\x1b[32m",     "\x1b[31m",     "\r\x1b[K",   "\rprompt ",
                                      "\rgenerated ", "\rchecksums ", "\x1b[48;5;"};
    for (size_t i = 0; i < COUNT(own); i++) {
        size_t n = strlen(own[i]);
        if (strncmp(at, own[i], n) != 0) continue;
        return n + (own[i][n - 1] == ';' ? strspn(at + n, "0123456789") + 1 : 0);
    }
    return 0;
}

/* Whether text begins with one of these bytes and goes on with bytes from low to high. */
static bool begins(const unsigned char *s, const char *with, unsigned low, unsigned high) {
    size_t n = strlen(with);
    return memcmp(s, with, n) == 0 && s[n] >= low && s[n] <= high;
}

/* The length of the character at s, [n] and a NUL, if a terminal may have it; else 0. */
static size_t safe_length(const unsigned char *s, size_t n) {
    size_t length = s[0] < 0x80   ? 1
                    : s[0] < 0xc2 ? 0
                    : s[0] < 0xe0 ? 2
                    : s[0] < 0xf0 ? 3
                    : s[0] < 0xf5 ? 4
                                  : 0;
    if (length == 0 || length > n || (s[0] < 0x20 && s[0] != '\n' && s[0] != '\t') || s[0] == 0x7f) return 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    bool bad = begins(s, "\xc2", 0x80, 0x9f) || begins(s, "\xd8", 0x9c, 0x9c) ||
               begins(s, "\xe2\x80", 0x8e, 0x8f) || begins(s, "\xe2\x80", 0xa8, 0xae) ||
               begins(s, "\xe2\x81", 0xa6, 0xaf) || begins(s, "\xef\xbb", 0xbf, 0xbf) ||
               begins(s, "\xef\xbf", 0xb9, 0xbb) || begins(s, "\xef\xbf", 0xbe, 0xbf) ||
               begins(s, "\xef\xb7", 0x90, 0xaf) || begins(s, "\xf3\xa0", 0x80, 0x81) ||
               (length == 4 && (s[1] & 15) == 15 && s[2] == 0xbf && s[3] >= 0xbe);
    return bad ? 0 : length;
}

/* Where bytes first hold what a terminal must not get; n if nowhere. */
static size_t first_unsafe(const Output *output, bool coloured) {
    for (size_t at = 0, length; at < output->n; at += length) {
        length = coloured ? own_sequence(output->bytes + at) : 0;
        if (length == 0) length = safe_length((const unsigned char *)output->bytes + at, output->n - at);
        if (length == 0) return at;
    }
    return output->n;
}

/* Bytes for a message of this test, which a terminal will show, too; valid until the next but three. */
static const char *escaped(const char *bytes, size_t n) {
    static char texts[4][600];
    static int last;
    char *text = texts[last = (last + 1) % 4];
    text[0] = '\0';
    for (size_t i = 0, at = 0; i < n && at + 8 < sizeof texts[0]; i++)
        at += (size_t)sprintf(text + at, bytes[i] >= ' ' && bytes[i] < 0x7f ? "%c" : "\\x%02x",
                              (unsigned)(unsigned char)bytes[i]);
    return text;
}

static const char *errors(void) { return escaped(err.bytes, err.n); }

static void check_safe(const Output *output, bool coloured, const char *what, const char *const *words) {
    size_t at = first_unsafe(output, coloured), from = at < 8 ? 0 : at - 8;
    if (at == output->n) return;
    CHECK(false, "%s %s: %s gets '%s' at byte %zu", strrchr(words[0], '/') + 1,
          escaped(words[1], strlen(words[1])), what,
          escaped(output->bytes + from, output->n - from < 20 ? output->n - from : 20), at);
}

/* Writes to `to` what a terminal shows of a text: a CR before a newline goes, whatever is forbidden gets its visible form. */
static void visible(const Output *text, Output *to) {
    to->n = 0;
    for (size_t at = 0, length; at < text->n; at += length) {
        const char *s = text->bytes + at;
        uint32_t c;
        length = utf8_decode(s, text->n - at, &c);
        if (safe_length((const unsigned char *)s, text->n - at)) {
            memcpy(to->bytes + to->n, s, length);
            to->n += length;
        } else if (c == '\r') {
            if (s[1] != '\n') to->n += (size_t)sprintf(to->bytes + to->n, "\\r");
        } else {
            to->n += (size_t)sprintf(to->bytes + to->n, "\\u%04x", (unsigned)c);
        }
    }
}

static bool same(const Output *a, const Output *b) {
    return a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

/* ---- Tests ---- */

enum { MOST_WORDS = 24 };

/* Words as execv wants them: the program, the words given until NULL, and one more or NULL. */
typedef struct Words {
    const char *items[MOST_WORDS];
} Words;

static Words words_of(const char *program, const char *const *given, const char *last) {
    Words words = {{program}};
    size_t n = 1;
    while (given[n - 1]) words.items[n] = given[n - 1], n++;
    if (last) words.items[n] = last;
    return words;
}

#define GENERATE "--color", "off", "-t", "1", "--temp", "1", "--top-p", "1", "-s", "7"

/* Appends what token ids add to a text, bytes that are no character having become U+FFFD. */
static void text_of(const Json *ids, bool special, Output *to) {
    static char bytes[1 << 16];
    size_t n = 0;
    for (size_t i = 0; i < ids->n; i++) {
        size_t id = (size_t)ids->items[i].number;
        unsigned byte;
        if (id >= N_NAMED && id < N_NAMED + N_BYTES && sscanf(vocabulary[id], "<0x%2X>", &byte) == 1)
            bytes[n++] = (char)byte;
        else if (strncmp(vocabulary[id], "\xe2\x96\x81", 3) == 0)
            n += (size_t)sprintf(bytes + n, " %s", vocabulary[id] + 3);
        else if (special || id > N_NAMED + N_BYTES)
            n += (size_t)sprintf(bytes + n, "%s", vocabulary[id]);
    }
    to->n = 0;
    for (size_t at = 0, length; at < n; at += length) {
        uint32_t c;
        length = utf8_decode(bytes + at, n - at, &c);
        memcpy(to->bytes + to->n, c < UTF8_INVALID ? bytes + at : "\xef\xbf\xbd",
               c < UTF8_INVALID ? length : 3);
        to->n += c < UTF8_INVALID ? length : 3;
    }
    to->bytes[to->n] = '\0';
}

static Output exact, shown, expected;

/* Generated text is exact in a file, what --json says it is, and visible on a terminal. */
static void test_generated(void) {
    static const char *const hostile[] = {HOSTILE};
    for (int special = 0; special < 2; special++) {
        const char *words[MOST_WORDS] = {run,  model_name, "-p",     "x", "--no-echo",
                                         "-n", "900",      GENERATE, NULL};
        size_t n = 0;
        while (words[n]) n++;
        if (special) words[n++] = "--special";
        CHECK(spawn(FILES, NULL, words) == 0, "%s", errors());
        exact = out;
        CHECK(exact.n > 1000 && exact.bytes[exact.n - 1] == '\n', "%zu bytes", exact.n);
        for (size_t i = !special; i + 2 < COUNT(hostile); i++)
            CHECK(memmem(exact.bytes, exact.n, hostile[i], strlen(hostile[i])), "text %zu was not generated",
                  i);
        CHECK(spawn(OUT_TERMINAL, NULL, words) == 0, "%s", errors());
        visible(&exact, &shown);
        check_safe(&out, false, "stdout", words);
        CHECK(same(&out, &shown), "%zu bytes on the terminal, %zu expected", out.n, shown.n);
        CHECK(spawn(ERR_TERMINAL, NULL, words) == 0, "%s", errors());
        CHECK(same(&out, &exact), "stdout is not the terminal");

        words[n++] = "--json";
        CHECK(spawn(TERMINAL, NULL, words) == 0, "%s", escaped(out.bytes, out.n));
        check_safe(&out, false, "stdout", words);
        Error error;
        Json *json = json_parse(out.bytes, out.n, &error);
        CHECK(json, "%s", error.message);
        const Json *text = json_get(json, "text"), *ids = json_get(json, "tokens");
        if (!text || !ids) return;
        CHECK(text->n == exact.n - 1 && memcmp(text->text, exact.bytes, exact.n - 1) == 0, "%u bytes of text",
              text->n);
        text_of(ids, special, &expected);
        CHECK(expected.n == exact.n - 1 && memcmp(expected.bytes, exact.bytes, expected.n) == 0,
              "%zu bytes of tokens, %zu of text", expected.n, exact.n - 1);
        json_free(json);
    }
}

/* The prompt that is repeated, and what is typed into -i, as an argument, a file, and stdin. */
static void test_echoed(void) {
    static const char typed[] = "x\x1b[2J\xc2\x9b"
                                "5m\xe2\x80\xae\r\n\x1b]0;owned\x07 the\rx\xff\n\xe2\x80\xa8x\r\n";
    write_file("typed", typed, sizeof typed - 1);
    const char *const commands[][MOST_WORDS] = {
        {run, model_name, "-f", "typed", "-n", "20", GENERATE, NULL},
        {run, model_name, "-p", typed, "-n", "20", GENERATE, "--echo", NULL},
        {run, model_name, "-n", "0", GENERATE, "--special", NULL},
        {run, model_name, "-i", "-n", "60", GENERATE, NULL},
        {run, model_name, "-i", "-p", typed, "-n", "60", GENERATE, "--special", "-v", NULL},
        {run, model_name, "-i", "-n", "60", GENERATE, "--stop", "\x9b", NULL},
    };
    for (size_t i = 0; i < COUNT(commands); i++) {
        CHECK(spawn(FILES, "typed", commands[i]) == 0, "%s", errors());
        exact = out;
        check_safe(&err, false, "stderr", commands[i]);
        CHECK(spawn(OUT_TERMINAL, "typed", commands[i]) == 0, "%s", errors());
        check_safe(&out, false, "stdout", commands[i]);
        visible(&exact, &shown);
        bool split = i + 1 == COUNT(commands); /* that stop text may split a character, shown as bytes then */
        CHECK(split || same(&out, &shown), "command %zu: %zu bytes, %zu expected", i, out.n, shown.n);
        CHECK(i > 0 || strstr(exact.bytes, "\x1b[2J"), "the prompt is not repeated");
        CHECK(spawn(TERMINAL, "typed", commands[i]) == 0, "%s", escaped(out.bytes, out.n));
        check_safe(&out, false, "the terminal", commands[i]);
    }
}

/* Everything that tells of a file and its tokens, for people and as JSON, wherever it goes. */
static void test_reports(void) {
    static const char text[] = "x\x1b\xc2\x9b"
                               "5m\xe2\x80\xae the\r\n[2J\xef\xbf\xbe\xf3\xa0\x81\x81";
    static const char page[] = "p\x1b]0;owned\x07\xe2\x80\xae.html", arrays[] = "d\x1b]0;owned\x07.npz";
#define A_TEXT model_name, "-p", text
    static const char *const views[][MOST_WORDS] = {
        {"next", A_TEXT},
        {"next", A_TEXT, "--token", "\x1b]0;owned\x07"},
        {"score", A_TEXT},
        {"score", A_TEXT, "--words"},
        {"attend", A_TEXT},
        {"attend", A_TEXT, "--words"},
        {"attend", A_TEXT, "--layer", "0", "--head", "1"},
        {"heads", A_TEXT},
        {"lens", A_TEXT, "--top", "3"},
        {"explain", A_TEXT, "--layer", "0", "--head", "1"},
        {"ablate", A_TEXT, "--heads", "L0H0"},
        {"neurons", A_TEXT, "--top", "3"},
        {"neurons", A_TEXT, "--neuron", "L0N0"},
        {"neurons", model_name, "--neuron", "L0N0", "--corpus", "with\x1b]0;owned\x07"},
        {"ablate", A_TEXT, "--sweep", "heads", "--by", "mean", "--with", "with\x1b]0;owned\x07"},
        {"ablate", A_TEXT, "--heads", "L0H0", "--by", "resample", "--with", "with\x1b]0;owned\x07"},
        {"compare", model_name, model_name, "-p", text},
        {"dump", A_TEXT, "-o", arrays},
        {"view", A_TEXT, "-n", "2", "-o", page},
        {"view", A_TEXT, "--svg", "L0H0", "-o", page},
        {"view", A_TEXT, "-n", "2"},
        {"selfcheck", model_name},
        {"shape", model_name},
        {"case", "case\x1b]0;owned\x07.json"},
    };
    static const char case_text[] =
        "{\"name\": \"\\u001b[5m\\u009b5m\", \"about\": \"a\\u202e \\u001b]0;owned\\u0007\\n\\r b\", \"score\": \"dot\","
        "\"mask\": \"none\", \"tokens\": [\"\\u001b[5mx\", \"\\u202ey\"], \"key_tokens\": [\"\\u009b5m\", \"\\ud83f\\udffe\"],"
        "\"q\": [[1, 2], [3, 4]], \"k\": [[1, 0], [0, 1]], \"v\": [[1, 2], [3, 4]], \"weights\": [[1, 0], [0, 1]], "
        "\"tolerance\": 1}";
    write_file("with\x1b]0;owned\x07", text, sizeof text - 1);
    write_file("case\x1b]0;owned\x07.json", case_text, sizeof case_text - 1);
    static const char *const forms[] = {NULL, "--json", "--ascii"};
    for (size_t i = 0; i < COUNT(views); i++)
        for (size_t j = 0; j < COUNT(forms); j++) {
            Words words = words_of(study, views[i], forms[j]);
            bool is_page = strcmp(views[i][0], "view") == 0, alone = is_page && !views[i][6];
            if (is_page && alone != (j == 1)) continue; /* its JSON and its files exclude each other */
            int code = spawn(FILES, NULL, words.items);
            CHECK(code == 0, "%s %s: %d, %s", views[i][0], forms[j] ? forms[j] : "", code, errors());
            check_safe(&out, false, "a file", words.items);
            check_safe(&err, false, "stderr", words.items);
            exact = out;
            CHECK(spawn(OUT_TERMINAL, NULL, words.items) == 0, "%s", errors());
            check_safe(&out, true, "stdout", words.items);
            if (j != 1) continue;
            Error error;
            Json *json = json_parse(out.bytes, out.n, &error);
            CHECK(json, "%s: %s", views[i][0], error.message);
            json_free(json);
            CHECK(same(&exact, &out), "%s --json differs on a terminal", views[i][0]);
        }
    const char *const tellings[][MOST_WORDS] = {
        {run, model_name, "--info", NULL},
        {run, broken_name, "--info", NULL},
        {run, model_name, "--tokens", "-v", "-p", text, NULL},
        {run, model_name, "--tokens", "-p", text, "--special", NULL},
    };
    for (size_t i = 0; i < COUNT(tellings); i++) {
        CHECK(spawn(TERMINAL, NULL, tellings[i]) == 0, "%s", escaped(out.bytes, out.n));
        check_safe(&out, false, "the terminal", tellings[i]);
        CHECK(spawn(FILES, NULL, tellings[i]) == 0, "%s", errors());
        check_safe(&out, false, "a file", tellings[i]);
        if (i == 1)
            CHECK(strstr(out.bytes, "cannot run: ") && !strstr(out.bytes, "run: b\\u001b"), "%s",
                  escaped(out.bytes, out.n));
    }
}

/* A token's text in JSON is the token. */
static void test_tokens_in_json(void) {
    const char *const words[] = {study, "next", model_name, "-p", "x", "--top", "1000", "--json", NULL};
    Error error;
    CHECK(spawn(TERMINAL, NULL, words) == 0, "%s", escaped(out.bytes, out.n));
    Json *json = json_parse(out.bytes, out.n, &error);
    CHECK(json, "%s", error.message);
    const Json *top = json_get(json, "top");
    size_t n_seen = 0;
    for (size_t i = 0; top && i < top->n; i++) {
        size_t id = (size_t)json_get(&top->items[i], "id")->number;
        const Json *token = json_get(&top->items[i], "token");
        if (id < N_NAMED + N_BYTES || strstr(vocabulary[id], "\xe2\x96\x81") ||
            strchr(vocabulary[id], '\xff'))
            continue;
        n_seen++;
        CHECK(json_equals(token, vocabulary[id]), "token %zu", id);
    }
    CHECK(n_seen > 30, "%zu tokens", n_seen);
    json_free(json);
}

/* Error lines and notes are safe wherever stderr goes, and one line. */
static void test_errors(void) {
    static const char bad[] = "a\x1b]0;owned\x07\xc2\x9b"
                              "5m\xe2\x80\xae\n\r\t\xff";
    static char long_name[700]; /* of characters of three bytes, to be cut in its middle */
    static char many[4000];     /* to be cut once it is visible */
    for (size_t i = 0; i + 3 < sizeof long_name; i += 3) memcpy(long_name + i, "\xe6\x97\xa5", 3);
    memcpy(long_name + 690, bad, 9);
    memset(many, 0x1b, sizeof many - 1);
    const char *const commands[][MOST_WORDS] = {
        {run, bad, "-p", "x", NULL},
        {run, long_name, "-p", "x", NULL},
        {run, many, "-p", "x", NULL},
        {run, broken_name, "-p", "x", NULL},
        {run, model_name, bad, NULL},
        {run, "--\x1b[5m", NULL},
        {run,
         "--\x1b[5m=\xc2\x9b"
         "5m",
         NULL},
        {run, model_name, "-n", bad, NULL},
        {run, model_name, "--temp", bad, NULL},
        {run, model_name, "--kv", bad, NULL},
        {run, model_name, "-p", bad, "-p", bad, NULL},
        {run, model_name, "-f", bad, NULL},
        {run, model_name, "-z", bad, NULL},
        {run, model_name, "-p", "x", "--logits", "no\x1b[5m/x", NULL},
        {run, "--info", bad, NULL},
        {study, bad, NULL},
        {study, "next", bad, "-p", "x", NULL},
        {study, "next", model_name, "-p", "x", "--token", bad, NULL},
        {study, "next", model_name, "-p", "x", "--token", "#\x1b[5m", NULL},
        {study, "ablate", model_name, "-p", "x", "--heads", bad, NULL},
        {study, "patch", model_name, "-p", "x", "--corrupted", bad, "--answer", "#4", NULL},
        {study, "patch", model_name, "-p", "x", "--corrupted", "y", "--answer", bad, NULL},
        {study, "patch", model_name, "-p", "x", "--corrupted", "y", "--answer", "#4", "--path", bad, NULL},
        {study, "ablate", model_name, "-p", "x", "--sweep", bad, NULL},
        {study, "dump", model_name, "-p", "x", "-o", "no\x1b[5m/x", NULL},
        {study, "dump", model_name, "-p", "x", "-o", "x.npz", "--what", bad, NULL},
        {study, "dump", model_name, "-p", "x", "-o", model_name, NULL},
        {study, "view", model_name, "-p", "x", "-o", "no\x1b[5m/x", NULL},
        {study, "lens", model_name, "-p", "x", "--layers", bad, NULL},
        {study, "compare", model_name, bad, "-p", "x", NULL},
        {study, "case", bad, NULL},
        {study, "case", "bad\x1b[5m.json", NULL},
    };
    static const char bad_case[] = "{\"name\": \"\\u001b[5m\\u202e\", \"score\": \"\\u009b5m\"}";
    write_file("bad\x1b[5m.json", bad_case, sizeof bad_case - 1);
    for (size_t i = 0; i < COUNT(commands); i++)
        for (int terminal = 0; terminal < 2; terminal++) {
            int code = spawn(terminal ? ERR_TERMINAL : FILES, NULL, commands[i]);
            CHECK(code == 1 || code == 2, "command %zu ends with %d: %s", i, code, errors());
            check_safe(&err, false, terminal ? "stderr, a terminal," : "stderr", commands[i]);
            CHECK(err.n > 10 && strchr(err.bytes, '\n') == err.bytes + err.n - 1, "'%s' is not one line",
                  errors());
            CHECK(!strchr(err.bytes, '\t'), "a tab in '%s'", errors());
            CHECK(i > 0 || strstr(err.bytes, "a\\u001b]0;owned\\u0007\\u009b5m\\u202e\\n\\r\\t\\xff"), "%s",
                  errors());
        }
}

static void copy_program(const char *from, const char *to) {
    FILE *in = fopen(from, "rb"), *copy = fopen(to, "wb");
    static char bytes[1 << 16];
    for (size_t n; in && copy && (n = fread(bytes, 1, sizeof bytes, in)) > 0;) fwrite(bytes, 1, n, copy);
    if (!in || !copy || fclose(in) != 0 || fclose(copy) != 0 || chmod(to, 0700) != 0) exit(1);
}

/* The note that names the model which nobody named: installed beside a program in a folder of any name. */
static void test_notes(void) {
    static const char folder[] = "f\x1b]0;owned\x07\xe2\x80\xae\n";
    char path[600], programs[2][600];
    static const char *const parts[] = {"", "/bin", "/share", "/share/attn"};
    for (size_t i = 0; i < COUNT(parts); i++) {
        snprintf(path, sizeof path, "%s/%s%s", scratch_folder, folder, parts[i]);
        mkdir(path, 0700);
    }
    for (int i = 0; i < 2; i++) {
        snprintf(programs[i], sizeof programs[i], "%s/%s/bin/%s", scratch_folder, folder,
                 i ? "study" : "run");
        copy_program(i ? study : run, programs[i]);
    }
    snprintf(path, sizeof path, "%s/%s/share/attn/model.gguf", scratch_folder, folder);
    write_model(path, "llama");
    const char *const commands[][MOST_WORDS] = {{programs[0], "-p", "x", "-n", "1", NULL},
                                                {programs[1], "next", "-p", "x", NULL}};
    for (size_t i = 0; i < COUNT(commands); i++) {
        CHECK(spawn(FILES, NULL, commands[i]) == 0, "%s", errors());
        check_safe(&err, false, "stderr", commands[i]);
        CHECK(strstr(err.bytes, "note: no model is named; taking ") &&
                  strstr(err.bytes, "\\u001b]0;owned\\u0007\\u202e\\n"),
              "%s", errors());
        CHECK(spawn(TERMINAL, NULL, commands[i]) == 0, "%s", escaped(out.bytes, out.n));
        check_safe(&out, true, "the terminal", commands[i]);
    }
}

/* The function itself, at each code point, against the bytes listed here. */
static void test_rule(void) {
    size_t n_unsafe = 0;
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xd800 && c < 0xe000) continue;
        unsigned char s[5] = {0};
        if (c < 0x80)
            s[0] = (unsigned char)c;
        else if (c < 0x800)
            s[0] = (unsigned char)(0xc0 | c >> 6), s[1] = (unsigned char)(0x80 | (c & 63));
        else if (c < 0x10000)
            s[0] = (unsigned char)(0xe0 | c >> 12), s[1] = (unsigned char)(0x80 | (c >> 6 & 63)),
            s[2] = (unsigned char)(0x80 | (c & 63));
        else
            s[0] = (unsigned char)(0xf0 | c >> 18), s[1] = (unsigned char)(0x80 | (c >> 12 & 63)),
            s[2] = (unsigned char)(0x80 | (c >> 6 & 63)), s[3] = (unsigned char)(0x80 | (c & 63));
        bool safe = safe_length(s, 4) != 0;
        n_unsafe += !safe;
        if (utf8_is_safe(c) != safe) CHECK(false, "U+%04X is %s", (unsigned)c, safe ? "safe" : "not safe");
    }
    CHECK(n_unsafe == 30 + 33 + 1 + 2 + 7 + 10 + 32 + 1 + 3 + 34 + 128, "%zu are not safe", n_unsafe);
    CHECK(!utf8_is_safe(UTF8_INVALID) && !utf8_is_safe(UTF8_CUT), "bytes that are no character");
}

static void remove_all(void) {
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch_folder);
    if (chdir("/") != 0 || system(command) != 0) perror(scratch_folder);
}

int main(void) {
    run = program_path("RUN", "./run");
    study = program_path("STUDY", "./study");
    scratch_begin();
    if (chdir(scratch_folder) != 0) return 1;
    write_model(model_name, "llama");
    write_model(broken_name, "a\x1b]0;owned\x07\xc2\x9b"
                             "5m\xe2\x80\xae");
    RUN(test_rule);
    RUN(test_generated);
    RUN(test_echoed);
    RUN(test_reports);
    RUN(test_tokens_in_json);
    RUN(test_errors);
    RUN(test_notes);
    remove_all();
    return test_end();
}
