/*
 * How fast attn is, and how near to the machine's limit: prompt and generation speed of checkpoints with random
 * weights in the shapes of known models, or of any checkpoint that is named. Each limit is measured right beside the
 * thing that is compared with it, since a machine that others share changes from second to second.
 */
#include "cli/npy.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/process.h"
#include "measure.h"
#include "report.h"
#include "shapes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The models that are measured unless asked otherwise. TinyLlama in types of 16 and 32 bits takes minutes. */
static const char *const gpt2_types[] = {"F32", "F16", "BF16", "Q8_0", "Q6_K", "Q4_K_M", "Q4_0"};
static const char *const tinyllama_types[] = {"Q8_0", "Q6_K", "Q4_K_M", "Q4_0"};

static const char help[] =
    "usage: bench [MODEL] [options]\n"
    "Measures the speed of a checkpoint, or of random weights in the shapes of known models, against what the\n"
    "machine's memory and arithmetic would allow. Checkpoints are written to $TMPDIR or /tmp and removed.\n"
    "\n"
    "      --shape NAME     gpt2-124m or tinyllama-1.1b; may be given again (both)\n"
    "      --type TYPE      F32, F16, BF16, or a mix of types as llama-quantize makes it: Q8_0, Q6_K, Q5_K_M, Q5_K_S,\n"
    "                       Q4_K_M, Q4_K_S, Q3_K_L, Q3_K_M, Q3_K_S, Q2_K, IQ4_XS, IQ4_NL, Q5_1, Q5_0, Q4_1, Q4_0;\n"
    "                       with all matrices in one type: all-Q4_0, Q4_K, MXFP4 and so on; may be given again\n"
    "                       (F32, F16, BF16, Q8_0, Q6_K, Q4_K_M, Q4_0; TinyLlama: the last four)\n"
    "      --kv TYPE        of the KV cache: f32, f16 or q8_0 (f16)\n"
    "      --context N      leave out generation at contexts longer than N, 0 to 4096 (4096)\n"
    "      --repeats N      what is measured N times, and the median shown (5; TinyLlama, or a MODEL: 3)\n"
    "  -t, --threads N      (physical cores)\n"
    "      --json FILE      write the results as one JSON object; with - to stdout, in place of the table\n"
    "      --first-token    of MODEL, end as soon as the logits after 5 tokens are there: what `first` measures\n"
    "  -h, --help\n"
    "\n"
    "pp      tokens/s of a prompt of 512; of peak: operations (2 for each weight and token, attention's too) over\n"
    "        the peak of F32 FMA, of the BF16 dot where one is used, or of the 8-bit dot for quantised types; with\n"
    "        AMX that can be more than all of it\n"
    "tg N    tokens/s of 32 tokens, one by one, that begin at context N (or just below the last position); of\n"
    "        read: bytes of the weights and the cache that each must read, over the bandwidth of plain loads\n"
    "x N     N tokens fed together, the logits of the last wanted: their time over that of one token, or over that of\n"
    "        N tokens of the prompt, whichever is longer. At best 1: they cost what memory or arithmetic asks\n"
    "extra   MiB of memory beyond file and KV cache\n"
    "first   ms from the start of a process to the logits after 5 tokens, with the file in the page cache\n"
    "\n"
    "examples:\n"
    "  make bench\n"
    "  build/bench/bench --shape gpt2-124m --type Q8_0 --json speed.json\n"
    "  build/bench/bench gpt2.gguf --context 0 -t 1\n";

typedef struct Settings {
    const char *model, *kv, *json;
    DType kv_dtype;
    StringList shapes, types;
    int64_t max_context, n_repeats, n_threads;
    bool first_token, help;
} Settings;

/* A file without a name, which leaves nothing behind however the program ends; /dev/fd/N opens it. */
static FILE *nameless_file(const char *folder, Error *error) {
    char path[4096];
    snprintf(path, sizeof path, "%s/attn-bench-XXXXXX", folder);
    int descriptor = mkstemp(path);
    if (descriptor >= 0) unlink(path);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "w+b") : NULL;
    if (!file) error_set(error, "%s: cannot write: %s", path, strerror(errno));
    return file;
}

/* Whether there is room for a checkpoint of that size; if not, says so on stderr. */
static bool has_room(const char *folder, const ModelShape *shape, const Mix *mix) {
    struct statvfs disk;
    uint64_t needed = shape_bytes(shape, mix) + (1 << 20);
    if (statvfs(folder, &disk) != 0) return true; /* unknown: try to write it */
    uint64_t available = (uint64_t)disk.f_frsize * disk.f_bavail;
    if (available >= needed) return true;
    fprintf(stderr, "bench: %s %s left out: %s has %.1f GB free, %.1f GB are needed (set TMPDIR)\n",
            shape->name, mix->name, folder, 1e-9 * (double)available, 1e-9 * (double)needed);
    return false;
}

/* Everything that is measured, in turn. */
typedef struct Run {
    const Settings *settings;
    Bench bench;
    Results results;
} Run;

static bool shows_table(const Settings *settings) {
    return !settings->json || strcmp(settings->json, "-") != 0;
}

/* type: NULL where the file says it. */
static bool measure_row(Run *run, const char *shape, const char *type, const char *path, int n_repeats,
                        Error *error) {
    Results *results = &run->results;
    if (results->n_rows == MAX_ROWS) return error_set(error, "%d rows are enough", MAX_ROWS);
    Row *row = &results->rows[results->n_rows];
    row->shape = shape, row->type = type;
    if (run->settings->n_repeats) n_repeats = (int)run->settings->n_repeats;
    if (!measure_checkpoint(&run->bench, row, path, n_repeats, error)) return false;
    results->n_rows++;
    if (shows_table(run->settings)) print_last_row(results);
    return true;
}

static bool measure_shape(Run *run, const ModelShape *shape, const Mix *mix, const char *folder,
                          Error *error) {
    char path[32], progress[64];
    FILE *file = nameless_file(folder, error);
    if (!file) return false;
    snprintf(path, sizeof path, "/dev/fd/%d", fileno(file));
    snprintf(progress, sizeof progress, "%s %s, writing it", shape->name, mix->name);
    show_progress(progress, 0, 1);
    bool ok = shape_write(shape, mix, file, error);
    show_progress(progress, 1, 1);
    ok = ok && measure_row(run, shape->name, mix->name, path, shape == &model_shapes[0] ? 5 : 3, error);
    fclose(file);
    return ok;
}

static bool is_listed(const StringList *list, const char *name) {
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->items[i], name) == 0) return true;
    return false;
}

static bool measure_types(Run *run, const ModelShape *shape, const char *const *types, size_t n,
                          Error *error) {
    const char *folder = getenv("TMPDIR");
    if (!folder || !*folder) folder = "/tmp";
    for (size_t i = 0; i < n; i++) {
        Mix mix = {0};
        mix_find(&mix, types[i]); /* check_names found it before */
        if (has_room(folder, shape, &mix) && !measure_shape(run, shape, &mix, folder, error)) return false;
    }
    return true;
}

static bool measure_shapes(Run *run, Error *error) {
    const StringList *shapes = &run->settings->shapes, *types = &run->settings->types;
    for (size_t i = 0; i < N_MODEL_SHAPES; i++) {
        const ModelShape *shape = &model_shapes[i];
        size_t n =
            i ? sizeof tinyllama_types / sizeof *tinyllama_types : sizeof gpt2_types / sizeof *gpt2_types;
        if (shapes->n && !is_listed(shapes, shape->name)) continue;
        if (!(types->n ? measure_types(run, shape, types->items, types->n, error)
                       : measure_types(run, shape, i ? tinyllama_types : gpt2_types, n, error)))
            return false;
    }
    return true;
}

/* Writes the results to the file of --json. Without results yet, tests that it can: minutes later is too late. */
static bool save_json(const Results *results, const char *path, Error *error) {
    OutputFile output = {0};
    if (!path) return true;
    if (strcmp(path, "-") == 0) {
        if (results->n_rows) write_json(stdout, results);
        return fflush(stdout) == 0 || error_set(error, "stdout: cannot write: %s", strerror(errno));
    }
    bool ok = output_open(&output, path, &(Inputs){0}, error);
    if (ok && results->n_rows) {
        write_json(output.file, results);
        ok = output_finish(&output, error);
    }
    output_abandon(&output);
    return ok;
}

static bool measure_all(Run *run, Error *error) {
    Results *results = &run->results;
    const Settings *settings = run->settings;
    if (!save_json(results, settings->json, error)) return false;
    run->bench.peaks = peaks_new(run->bench.compute.threads, error);
    if (!run->bench.peaks) return false;
    results->kernels = run->bench.compute.kernels->name;
    results->n_threads = threads_count(run->bench.compute.threads);
    for (int i = 0; i < N_PEAKS; i++) results->limits[i] = peaks_measure(run->bench.peaks, (PeakKind)i, 9);
    if (shows_table(settings)) print_limits(results);
    bool ok = settings->model ? measure_row(run, settings->model, NULL, settings->model, 3, error)
                              : measure_shapes(run, error);
    if (ok && results->n_rows == 0) return error_set(error, "nothing is left to measure");
    return ok && save_json(results, settings->json, error);
}

static bool check_names(const Settings *s, Error *error) {
    for (size_t i = 0; i < s->shapes.n; i++) {
        bool known = false;
        for (int j = 0; j < N_MODEL_SHAPES; j++)
            known = known || strcmp(s->shapes.items[i], model_shapes[j].name) == 0;
        if (!known)
            return error_set(error, "--shape takes gpt2-124m or tinyllama-1.1b, not '%s'",
                             s->shapes.items[i]);
    }
    for (size_t i = 0; i < s->types.n; i++) {
        Mix mix;
        if (!mix_find(&mix, s->types.items[i]))
            return error_set(error, "--type knows no '%s'", s->types.items[i]);
    }
    return true;
}

#define AT(member) offsetof(Settings, member)

static const Option known_options[] = {
    {"--shape", NULL, OPTION_LIST, AT(shapes), 0, 0},
    {"--type", NULL, OPTION_LIST, AT(types), 0, 0},
    {"--kv", NULL, OPTION_TEXT, AT(kv), 0, 0},
    {"--context", NULL, OPTION_INT, AT(max_context), 0, MAX_CONTEXT},
    {"--repeats", NULL, OPTION_INT, AT(n_repeats), 1, MAX_REPEATS},
    {"--threads", "-t", OPTION_INT, AT(n_threads), 1, 1024},
    {"--json", NULL, OPTION_TEXT, AT(json), 0, 0},
    {"--first-token", NULL, OPTION_ON, AT(first_token), 0, 0},
    {"--help", "-h", OPTION_ON, AT(help), 0, 0},
};

static bool parse_settings(Settings *s, int argc, char **argv, Error *error) {
    const Options table = {known_options, sizeof known_options / sizeof *known_options, s};
    if (!options_parse(&table, 1, argc, argv, &s->model, 1, error)) return false;
    if (s->help) return true;
    if (s->first_token && !s->model) return error_set(error, "--first-token needs a MODEL");
    if (s->model && (s->shapes.n || s->types.n))
        return error_set(error, "--shape and --type do not go with a MODEL");
    return parse_kv(s->kv, &s->kv_dtype, error) && check_names(s, error);
}

int main(int argc, char **argv) {
    Error error;
    Settings settings = {.kv_dtype = DTYPE_F16, .max_context = MAX_CONTEXT};
    if (!parse_settings(&settings, argc, argv, &error)) {
        fprintf(stderr, "bench: %s (see bench --help)\n", error.message);
        return EXIT_USAGE;
    }
    if (settings.help) return fputs(help, stdout) < 0;
    catch_signals("bench");
    static Run run;
    run.settings = &settings;
    run.bench = (Bench){
        .program = argv[0], .kv_dtype = settings.kv_dtype, .max_context = (size_t)settings.max_context};
    Compute *compute = &run.bench.compute;
    unsigned n_threads = settings.n_threads ? (unsigned)settings.n_threads : threads_physical_cores();
    const char *name = getenv("ATTN_KERNEL");
    compute->kernels = name && *name ? kernels_pick(name, &error) : kernels_fastest(); /* as run does */
    compute->threads = compute->kernels ? threads_new(n_threads, &error) : NULL;
    bool ok = compute->threads && (settings.first_token ? reach_first_logits(settings.model, compute, &error)
                                                        : measure_all(&run, &error));
    if (!ok) fprintf(stderr, "bench: %s\n", error.message);
    peaks_free(run.bench.peaks);
    threads_free(compute->threads);
    return end_program(ok ? EXIT_SUCCESS : EXIT_BAD_INPUT);
}
