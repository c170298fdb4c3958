/*
 * The study program against PyTorch: scripts/expect/study_reference.py wrote, for each case in tests/data/study, the
 * arguments and what the program's JSON must hold; and for dump the arrays. Each test runs the program on all
 * cases of a command.
 */
#include "checkpoint/checkpoint.h"
#include "open.h"
#include "programs.h"
#include "test.h"

#include <glob.h>
#include <stdbool.h>
#include <unistd.h>

#define FOLDER "tests/data/study/"
#define MODELS "tests/data/reference/"

static void check_case(const char *path) {
    Error error = {{0}};
    size_t n, n_output = 0;
    char *text = read_whole(path, &n), *output = NULL;
    Json *test = text ? json_parse(text, n, &error) : NULL, *got = NULL;
    const Json *arguments = json_get(test, "arguments"), *tolerance = json_get(test, "tolerance");
    CHECK(arguments && tolerance && json_get(test, "expect"), "%s: %s", path, error.message);
    if (arguments && tolerance) {
        Command command = command_begin();
        for (size_t i = 0; i < arguments->n; i++)
            command_add(&command, arguments->items[i].text, arguments->items[i].n);
        output = output_of(command, &n_output);
        got = json_parse(output, n_output, &error);
        CHECK(got, "%s: no JSON: %s: %.200s", path, error.message, output);
    }
    if (got) {
        Comparison comparison = {.name = path + strlen(FOLDER), .tolerance = tolerance->number};
        compare_values(&comparison, json_get(test, "expect"), got);
        if (comparison.n_wrong > MAX_REPORTS) printf("… %zu differences in all\n", comparison.n_wrong);
    }
    json_free(got);
    json_free(test);
    free(output);
    free(text);
}

static void check_cases(const char *pattern, size_t at_least) {
    glob_t found;
    int status = glob(pattern, 0, NULL, &found);
    CHECK(status == 0 && found.gl_pathc >= at_least, "too few cases of %s", pattern);
    if (status != 0) return;
    for (size_t i = 0; i < found.gl_pathc; i++) check_case(found.gl_pathv[i]);
    globfree(&found);
}

static void test_next(void) { check_cases(FOLDER "next-*.json", 5); }
static void test_score(void) { check_cases(FOLDER "score-*.json", 10); }
static void test_lens(void) { check_cases(FOLDER "lens-*.json", 6); }
static void test_heads(void) { check_cases(FOLDER "heads-*.json", 6); }
static void test_explain(void) { check_cases(FOLDER "explain-*.json", 5); }
static void test_attend(void) { check_cases(FOLDER "attend-*.json", 15); }
static void test_ablate(void) { check_cases(FOLDER "ablate-*.json", 15); }
static void test_neurons(void) { check_cases(FOLDER "neurons-*.json", 13); }
static void test_patch(void) { check_cases(FOLDER "patch-*.json", 37); }
static void test_experts(void) { check_cases(FOLDER "experts-*.json", 3); }
static void test_meaning(void) { check_cases(FOLDER "meaning-*.json", 5); }
static void test_rollout(void) { check_cases(FOLDER "rollout-*.json", 6); }
static void test_steer(void) { check_cases(FOLDER "steer-*.json", 12); }
static void test_circuit(void) { check_cases(FOLDER "circuit-*.json", 14); }
static void test_attribute(void) { check_cases(FOLDER "attribute-*.json", 49); }
static void test_faithful(void) { check_cases(FOLDER "faithful-*.json", 18); }
static void test_compare(void) { check_cases(FOLDER "compare-*.json", 2); }

/* A number that the text prints too. `path`: "rows.1.kl_nats"; `unit`: what the text multiplies it by. */
typedef struct Said {
    const char *name, *path;
    double unit;
} Said;

static const double BITS = 1.4426950408889634; /* in a nat */

/* Whether the text holds a number with at least two decimals that is `value` rounded to them. */
static bool says(const char *text, double value) {
    while (*(text += strcspn(text, "0123456789"))) {
        char *end;
        double number = strtod(text, &end);
        const char *point = memchr(text, '.', (size_t)(end - text));
        int decimals = point ? (int)(end - point) - 1 : 0;
        if (*end == '%') number /= 100, decimals += 2;
        if (decimals >= 2 &&
            fabs(number - fabs(value)) <= 0.5000001 * pow(10, -decimals) + 1e-5 * fabs(value))
            return true;
        text = end;
    }
    return false;
}

static void check_said(const Said *said) {
    Error error = {{0}};
    char path[256];
    size_t n = 0;
    snprintf(path, sizeof path, FOLDER "%s.json", said->name);
    char *bytes = read_whole(path, &n);
    Json *test = bytes ? json_parse(bytes, n, &error) : NULL;
    const Json *arguments = json_get(test, "arguments"),
               *value = json_at(json_get(test, "expect"), said->path);
    CHECK(arguments && value, "%s: no %s", path, said->path);
    if (arguments && value) {
        Command command = command_begin();
        for (size_t i = 0; i < arguments->n; i++)
            if (!json_equals(&arguments->items[i], "--json"))
                command_add(&command, arguments->items[i].text, arguments->items[i].n);
        char *output = output_of(command, &n);
        CHECK(says(output, value->number * said->unit), "%s: no %s = %g in:\n%s", said->name, said->path,
              value->number * said->unit, output);
        free(output);
    }
    json_free(test);
    free(bytes);
}

static void test_text_says_it_too(void) {
    const Said all[] = {
        {"next-gpt2", "entropy_nats", BITS},
        {"next-gpt2", "top.1.probability", 1},
        {"next-gpt2", "top.4.cumulative", 1},
        {"next-gpt2-filters", "top.1.after", 1},
        {"score-gpt2-bos", "positions.3.surprisal_nats", BITS},
        {"score-gpt2-bos", "positions.3.entropy_nats", BITS},
        {"score-gpt2", "words.1.surprisal_nats", BITS},
        {"score-gpt2", "totals.nll_nats", BITS},
        {"score-gpt2", "totals.bits_per_byte", 1},
        {"score-gpt2-chunks", "totals.perplexity", 1},
        {"lens-gpt2", "rows.2.kl_nats", BITS},
        {"lens-gpt2", "rows.2.entropy_nats", BITS},
        {"lens-gpt2", "rows.3.final_probability", 1},
        {"heads-gpt2", "heads.1.entropy_nats", BITS},
        {"heads-gpt2", "heads.3.confidence", 1},
        {"heads-gpt2", "chance.ind", 1},
        {"heads-gpt2-repeat", "repeat_gain_nats", BITS},
        {"explain-gpt2", "keys.3.dot", 1},
        {"explain-gpt2", "keys.3.weighted", 1},
        {"explain-gpt2", "output_norm", 1},
        {"explain-gpt2", "lowered.0.effect", 1},
        {"attend-gpt2-words-query", "patterns.0.top.2.weight", 1},
        {"ablate-gpt2", "ablation.delta_nll_nats", BITS},
        {"ablate-gpt2", "ablation.kl_nats", BITS},
        {"ablate-gpt2-sweep", "cells.3.kl_nats", BITS},
        {"explain-gpt-oss", "learned_sink", 1},
        {"explain-granite", "keys.4.dot", 1},
        {"explain-gemma2", "output_norm", 1},
        {"heads-gpt-oss", "heads.1.learned_sink", 1},
        {"attend-gpt-oss-no-sink", "patterns.0.learned_sink.0", 1},
        {"experts-gpt-oss", "layers.0.weights.3.1", 1},
        {"experts-qwen3moe", "layers.1.load.0", 1},
        {"meaning-gpt2", "rows.1.cosines.2", 1},
        {"meaning-qwen35", "rows.2.least", 1},
        {"rollout-gpt2-flow", "keys.3.flow", 1},
        {"rollout-llama", "keys.2.ratio", 1},
        {"steer-gpt2", "layers.0.stream", 1},
        {"steer-llama-neuron", "next.1.steered", 1},
        {"steer-gpt2-sweep", "cells.2.nll_nats", BITS},
        {"circuit-gpt2", "heads.2.matching", 1},
        {"circuit-gpt2-token", "raised.1.effect", 1},
        {"circuit-llama-head", "directions.2.singular", 1},
        {"circuit-gpt2-q", "pairs.1.score", 1},
        {"compare-gpt2", "b_nll_nats", BITS},
        {"compare-gpt2", "layers.1.largest", 1},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_said(&all[i]);
}

/* A file of dump: a zip archive whose members are stored as they are, each an array of NumPy's. */
typedef struct Npz {
    unsigned char *bytes;
    size_t n;
} Npz;

typedef struct Array {
    char type[8];              /* "<f4", "<f2", "<i8", "<U7" */
    size_t n_dims, dims[4], n; /* n: of all elements */
    const unsigned char *data;
} Array;

static uint64_t little(const unsigned char *at, size_t n_bytes) {
    uint64_t value = 0;
    for (size_t i = n_bytes; i-- > 0;) value = value << 8 | at[i];
    return value;
}

/* CRC-32 as zip has it (ISO 3309). */
static uint32_t crc32_of(const unsigned char *bytes, size_t n) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

static bool npz_open(Npz *npz, const char *path) {
    npz->bytes = (unsigned char *)read_whole(path, &npz->n);
    return npz->bytes;
}

/* The central directory's entry after `entry`, the first for NULL; NULL at the end. */
static const unsigned char *npz_next(const Npz *npz, const unsigned char *entry) {
    const unsigned char *end = npz->bytes + npz->n - 22; /* the end record, without a comment */
    CHECK(npz->n >= 22 && little(end, 4) == 0x06054b50, "no end of a zip archive");
    if (npz->n < 22 || little(end, 4) != 0x06054b50) return NULL;
    if (!entry) {
        uint64_t at = little(end + 16, 4);
        if (at == 0xffffffff) at = little(npz->bytes + little(end - 20 + 8, 8) + 48, 8); /* zip64 */
        entry = npz->bytes + at;
    } else {
        entry += 46 + little(entry + 28, 2) + little(entry + 30, 2) + little(entry + 32, 2);
    }
    return little(entry, 4) == 0x02014b50 ? entry : NULL;
}

/* Size and place of a member, from its entry or, if that says so, from the 64-bit field. */
static void npz_place(const unsigned char *entry, uint64_t *size, uint64_t *offset) {
    const unsigned char *extra = entry + 46 + little(entry + 28, 2), *end = extra + little(entry + 30, 2);
    *size = little(entry + 24, 4);
    *offset = little(entry + 42, 4);
    while (extra + 4 <= end && little(extra, 2) != 1) extra += 4 + little(extra + 2, 2);
    extra += 4;
    if (*size == 0xffffffff) *size = little(extra, 8), extra += 8;
    if (little(entry + 20, 4) == 0xffffffff) extra += 8;
    if (*offset == 0xffffffff) *offset = little(extra, 8);
}

/* The shape and data of n bytes in the format .npy. */
static bool npy_parse(Array *array, const unsigned char *bytes, size_t n) {
    char header[1024];
    size_t n_header = n >= 10 ? (size_t)little(bytes + 8, 2) : 0;
    if (n < 10 || memcmp(bytes, "\x93NUMPY\1", 8) != 0 || n_header >= sizeof header || 10 + n_header > n)
        return false;
    memcpy(header, bytes + 10, n_header);
    header[n_header] = '\0';
    const char *type = strstr(header, "'descr': '"), *shape = strstr(header, "'shape': (");
    if (!type || !shape || !strstr(header, "'fortran_order': False") ||
        sscanf(type + 10, "%7[^']", array->type) != 1)
        return false;
    array->n = 1;
    array->n_dims = 0;
    for (shape += 10; *shape != ')' && array->n_dims < 4; shape += strspn(shape, ", ")) {
        char *end;
        array->n *= array->dims[array->n_dims++] = strtoul(shape, &end, 10);
        if (end == shape) return false;
        shape = end;
    }
    array->data = bytes + 10 + n_header;
    size_t width = strtoul(array->type + 2, NULL, 10) * (array->type[1] == 'U' ? 4 : 1);
    return (10 + n_header) % 64 == 0 && array->n * width == n - 10 - n_header;
}

/* The array called `name` (without .npy). */
static bool npz_find(const Npz *npz, const char *name, Array *array) {
    for (const unsigned char *entry = NULL; (entry = npz_next(npz, entry));) {
        size_t n_name = (size_t)little(entry + 28, 2), length = strlen(name);
        if (n_name != length + 4 || memcmp(entry + 46, name, length) != 0) continue;
        uint64_t size, offset;
        npz_place(entry, &size, &offset);
        const unsigned char *local = npz->bytes + offset;
        const unsigned char *data = local + 30 + little(local + 26, 2) + little(local + 28, 2);
        bool stored = little(entry + 10, 2) == 0 && little(local, 4) == 0x04034b50;
        bool whole = crc32_of(data, (size_t)size) == little(entry + 16, 4);
        CHECK(stored && whole, "%s: not stored, or its checksum is wrong", name);
        return stored && whole && npy_parse(array, data, (size_t)size);
    }
    return false;
}

static size_t npz_count(const Npz *npz) {
    size_t n = 0;
    for (const unsigned char *entry = NULL; (entry = npz_next(npz, entry));) n++;
    return n;
}

static float half_value(uint64_t bits) {
    int exponent = (int)(bits >> 10 & 31);
    float fraction = (float)(bits & 1023) / 1024, sign = bits >> 15 ? -1.0f : 1.0f;
    if (exponent == 31) return sign * INFINITY;
    return sign * (exponent ? ldexpf(1 + fraction, exponent - 15) : ldexpf(fraction, -14));
}

static double element(const Array *array, size_t i) {
    if (strcmp(array->type, "<f2") == 0) return (double)half_value(little(array->data + 2 * i, 2));
    if (strcmp(array->type, "<i8") == 0) return (double)(int64_t)little(array->data + 8 * i, 8);
    float value;
    memcpy(&value, array->data + 4 * i, sizeof value);
    return (double)value;
}

static double largest(const float *x, size_t n) {
    double max = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i])) max = fmax(max, fabs((double)x[i]));
    return max;
}

/* Compares an array with a tensor of the same shape; bound: a share of the largest number. */
static void check_array(const Npz *npz, const char *name, const Tensor *tensor, double bound) {
    Array array;
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)tensor->name.n, tensor->name.data);
    bool found = npz_find(npz, key, &array);
    CHECK(found, "%s: no %s", name, key);
    if (!found) return;
    bool same_shape = array.n_dims == tensor->n_dims;
    for (size_t i = 0; same_shape && i < array.n_dims; i++)
        same_shape = array.dims[i] == tensor->dims[array.n_dims - 1 - i];
    CHECK(same_shape, "%s: %s has %zu dims: %zu %zu %zu", name, key, array.n_dims, array.dims[0],
          array.dims[1], array.dims[2]);
    if (!same_shape) return;
    const float *want = tensor->data;
    double allowed = bound * largest(want, array.n);
    for (size_t i = 0; i < array.n; i++) {
        double got = element(&array, i), off = fabs(got - (double)want[i]);
        if (got == (double)want[i] || off <= allowed) continue;
        CHECK(false, "%s: %s[%zu]: got %.9g, expected %.9g ± %.2g", name, key, i, got, (double)want[i],
              allowed);
        return;
    }
}

static Npz dump(Command command) {
    Npz npz = {0};
    size_t n;
    const char *path = scratch_path("dump.npz");
    command_add(&command, "-o", 2);
    command_add(&command, path, strlen(path));
    free(output_of(command, &n));
    npz_open(&npz, path);
    unlink(path);
    return npz;
}

/* str_tokens: UTF-32, filled up with zeros. Only ASCII is looked at. */
static void check_texts(const Npz *npz, const char *name, StringArray tokens) {
    Array array;
    bool ok = npz_find(npz, "str_tokens", &array) && array.n_dims == 1 && array.n == tokens.n &&
              strncmp(array.type, "<U", 2) == 0;
    CHECK(ok, "%s: no str_tokens of %zu tokens", name, tokens.n);
    size_t width = ok ? strtoul(array.type + 2, NULL, 10) : 0;
    for (size_t i = 0; ok && tokens.n; i++) {
        const String token = string_array_take(&tokens);
        for (size_t c = 0; c < width; c++) {
            unsigned char want = c < token.n ? (unsigned char)token.data[c] : 0;
            if (want >= 128) break;
            CHECK(little(array.data + 4 * (i * width + c), 4) == want, "%s: str_tokens[%zu]", name, i);
        }
    }
}

static void check_dump(const char *path) {
    Error error = {{0}};
    StringArray arguments, tokens;
    Checkpoint *expected = checkpoint_open(path, &error);
    bool ok = expected && checkpoint_strings(expected, "expected.arguments", &arguments, &error) &&
              checkpoint_strings(expected, "expected.str_tokens", &tokens, &error);
    CHECK(ok, "%s", error.message);
    if (ok) {
        Command command = command_begin();
        while (arguments.n) {
            const String argument = string_array_take(&arguments);
            command_add(&command, argument.data, argument.n);
        }
        Npz npz = dump(command);
        if (npz.bytes) {
            size_t n = checkpoint_n_tensors(expected);
            for (size_t i = 0; i < n; i++) check_array(&npz, path, checkpoint_tensor(expected, i), 1e-5);
            check_texts(&npz, path, tokens);
            CHECK(npz_count(&npz) == n + 1, "%s: %zu arrays, expected %zu", path, npz_count(&npz), n + 1);
        }
        free(npz.bytes);
    }
    checkpoint_close(expected);
}

static void test_dump(void) {
    glob_t found;
    int status = glob(FOLDER "*.dump.gguf", 0, NULL, &found);
    CHECK(status == 0 && found.gl_pathc >= 3, "too few cases of dump");
    if (status != 0) return;
    for (size_t i = 0; i < found.gl_pathc; i++) check_dump(found.gl_pathv[i]);
    globfree(&found);
}

/* Writes the longer texts of test_reference.c: in a vocabulary of bytes, ids become a text that encodes to them. */
static void write_text(const Checkpoint *model, const Tensor *ids) {
    Error error;
    StringArray names;
    FILE *file = fopen(scratch_path("text"), "wb");
    bool ok = file && checkpoint_strings(model, "tokenizer.ggml.tokens", &names, &error);
    CHECK(ok, "no text");
    if (!ok) return;
    for (size_t i = 0; i < ids->dims[0]; i++) {
        size_t id = (size_t)((const float *)ids->data)[i], printable = 256 - 68;
        size_t byte = id < 94 ? id + 0x21 : id < 106 ? id - 94 + 0xa1 : id - 106 + 0xae; /* GPT-2's order */
        size_t other = id - printable;
        if (id >= printable) byte = other < 33 ? other : other < 67 ? other - 33 + 0x7f : 0xad;
        if (id < 256) {
            putc((int)byte, file);
        } else {
            String name = {0};
            for (StringArray rest = names; rest.n && names.n - rest.n <= id;) name = string_array_take(&rest);
            fwrite(name.data, 1, name.n, file);
        }
    }
    fclose(file);
}

/* blk.LAYER.SITE [head][recorded position][…] against an array [head][position] or [position][head]. */
static void check_site(const Npz *npz, const Checkpoint *expected, size_t layer, const char *site,
                       const char *hook, double bound) {
    char name[64], key[64];
    Array array = {.n_dims = 0};
    snprintf(name, sizeof name, "blk.%zu.%s", layer, site);
    snprintf(key, sizeof key, "blocks.%zu.%s", layer, hook);
    const Tensor *tensor = checkpoint_find(expected, name),
                 *positions = checkpoint_find(expected, "positions");
    bool is_row = strcmp(site, "pattern") == 0 || strcmp(site, "scores") == 0;
    bool found = tensor && npz_find(npz, key, &array) && array.n_dims == tensor->n_dims;
    CHECK(found && array.dims[array.n_dims - 1] == tensor->dims[0], "no %s, or of another shape", key);
    if (!found) return;
    size_t n_cols = (size_t)tensor->dims[0], n_heads = (size_t)tensor->dims[2],
           n_tokens = array.dims[is_row ? 1 : 0];
    double allowed = bound * largest(tensor->data, (size_t)tensor->n_bytes / sizeof(float));
    const float *want = tensor->data;
    for (size_t head = 0; head < n_heads; head++)
        for (size_t i = 0; i < tensor->dims[1]; i++, want += n_cols) {
            size_t position = (size_t)((const float *)positions->data)[i];
            size_t row = is_row ? head * n_tokens + position : position * n_heads + head;
            for (size_t j = 0; j < (is_row ? position + 1 : n_cols); j++) {
                double got = element(&array, row * n_cols + j);
                if (fabs(got - (double)want[j]) <= allowed) continue;
                CHECK(false, "%s, head %zu, position %zu [%zu]: got %.9g, expected %.9g", key, head, position,
                      j, got, (double)want[j]);
                return;
            }
        }
}

static void check_reference(const char *model, const char *option, double bound) {
    static const char *const hooks[][2] = {
        {"resid_pre", "hook_resid_pre"},
        {"q", "attn.hook_q"},
        {"k", "attn.hook_k"},
        {"v", "attn.hook_v"},
        {"scores", "attn.hook_attn_scores"},
        {"pattern", "attn.hook_pattern"},
        {"z", "attn.hook_z"},
        {"attn_out", "hook_attn_out"},
        {"resid_mid", "hook_resid_mid"},
        {"ln1_scale", "ln1.hook_scale"},
        {"ln2_scale", "ln2.hook_scale"},
        {"mlp_pre", "mlp.hook_pre"},
        {"mlp_post", "mlp.hook_post"},
        {"mlp_out", "hook_mlp_out"},
        {"resid_post", "hook_resid_post"},
    };
    Error error = {{0}};
    char path[128];
    snprintf(path, sizeof path, MODELS "%s.gguf", model);
    Checkpoint *checkpoint = checkpoint_open(path, &error);
    Command command = command_begin();
    const char *text = scratch_path("text"), *const arguments[] = {"dump", path,        "-f",
                                                                   text,   "--special", option};
    for (size_t i = 0; i < 6; i++)
        if (arguments[i]) command_add(&command, arguments[i], strlen(arguments[i]));
    snprintf(path, sizeof path, MODELS "%s.expected.gguf", model);
    Checkpoint *expected = checkpoint_open(path, &error);
    CHECK(checkpoint && expected, "%s", error.message);
    if (checkpoint && expected) {
        write_text(checkpoint, checkpoint_find(expected, "tokens"));
        Npz npz = dump(command);
        if (npz.bytes) {
            check_array(&npz, path, checkpoint_find(expected, "tokens"), 0);
            check_array(&npz, path, checkpoint_find(expected, "logits"), bound);
            for (size_t layer = 0; layer < 2; layer++)
                for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++)
                    check_site(&npz, expected, layer, hooks[i][0], hooks[i][1], bound);
        }
        free(npz.bytes);
        unlink(scratch_path("text"));
    }
    checkpoint_close(expected);
    checkpoint_close(checkpoint);
}

/* The fastest kernels too, which round what they multiply quantised weights with (test_reference.c: ROUNDED_BOUND). */
static void test_dump_of_longer_texts(void) {
    check_reference("gpt2-q8_0", NULL, 1e-5);
    unsetenv("ATTN_KERNEL");
    check_reference("gpt2-f32", NULL, 1e-5);
    check_reference("gpt2-q8_0", NULL, 3e-4);
    check_reference("gpt2-bf16", "--half", 1e-3);
}

static double number_of(const Json *json, const char *key) {
    const Json *value = json_get(json, key);
    return value ? value->number : NAN;
}

/* The sizes that dump tells, of each array and of all, are those of type and shape, and of the file. */
static void check_sizes(const char *option) {
    const char *file = scratch_path("sizes.npz"), *const arguments[] = {"dump",   MODELS "gpt2-f32.gguf",
                                                                        "-p",     "Hello",
                                                                        "-o",     file,
                                                                        "--json", option};
    Error error = {{0}};
    Command command = command_begin();
    size_t n, n_file = 0;
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments && arguments[i]; i++)
        command_add(&command, arguments[i], strlen(arguments[i]));
    char *text = output_of(command, &n), *bytes = read_whole(file, &n_file);
    Json *json = json_parse(text, n, &error);
    const Json *arrays = json_get(json, "arrays");
    double total = 0;
    for (size_t i = 0; arrays && i < arrays->n; i++) {
        const Json *dtype = json_get(&arrays->items[i], "dtype"),
                   *shape = json_get(&arrays->items[i], "shape");
        double size = atof(dtype->text + 2) * (dtype->text[1] == 'U' ? 4 : 1); /* "<f4", "<U7" */
        for (size_t j = 0; j < shape->n; j++) size *= shape->items[j].number;
        CHECK_NEAR(number_of(&arrays->items[i], "bytes"), size, 0);
        total += size;
    }
    CHECK(arrays && arrays->n > 20 && number_of(json, "bytes") == total, "%s: %.0f bytes, not %.0f",
          error.message, number_of(json, "bytes"), total);
    CHECK((double)n_file > total, "%zu bytes in the file of %.0f", n_file, total);
    unlink(file);
    free(bytes);
    free(text);
    json_free(json);
}

static void test_dump_sizes(void) {
    check_sizes(NULL);
    check_sizes("--half");
}

int main(void) {
    if (!scratch_begin()) return 1;
    setenv("ATTN_KERNEL", "scalar", 1); /* the tests ask what the views compute, not how fast */
    RUN(test_next);
    RUN(test_score);
    RUN(test_lens);
    RUN(test_heads);
    RUN(test_explain);
    RUN(test_attend);
    RUN(test_ablate);
    RUN(test_patch);
    RUN(test_experts);
    RUN(test_meaning);
    RUN(test_rollout);
    RUN(test_neurons);
    RUN(test_steer);
    RUN(test_circuit);
    RUN(test_attribute);
    RUN(test_faithful);
    RUN(test_compare);
    RUN(test_dump);
    RUN(test_dump_sizes);
    RUN(test_text_says_it_too);
    RUN(test_dump_of_longer_texts); /* changes the kernels */
    scratch_end();
    return test_end();
}
