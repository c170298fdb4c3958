/*
 * How fast attn is, and how near to the machine's limit: prompt and generation speed of checkpoints with random
 * weights in the shapes of known models, or of any checkpoint that is named. Each limit is measured right beside the
 * thing that is compared with it, since a machine that others share changes from second to second.
 */
#include "cli/npy.h"
#include "cli/options.h"
#include "cli/program.h"
#include "measure.h"
#include "report.h"
#include "shapes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { N_DTYPES = 5 };

static const DType dtypes[N_DTYPES] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_0};

static const char help[] =
    "usage: bench [MODEL] [options]\n"
    "Measures the speed of a checkpoint, or of random weights in the shapes of known models, against what the\n"
    "machine's memory and arithmetic would allow. Checkpoints are written to $TMPDIR or /tmp and removed.\n"
    "\n"
    "      --shape NAME     gpt2-124m or tinyllama-1.1b; may be given again (both)\n"
    "      --type TYPE      F32, F16, BF16, Q8_0 or Q4_0; may be given again (all; of TinyLlama, whose F32 is\n"
    "                       4.4 GB, only Q8_0 and Q4_0)\n"
    "      --context N      leave out generation at contexts longer than N, 0 to 4096 (4096)\n"
    "      --repeats N      what is measured N times, and the median shown (5; TinyLlama, or a MODEL: 3)\n"
    "  -t, --threads N      (physical cores)\n"
    "      --json FILE      write the results as one JSON object; with - to stdout, in place of the table\n"
    "      --first-token    of MODEL, end as soon as the logits after 5 tokens are there: what `first` measures\n"
    "  -h, --help\n"
    "\n"
    "pp      tokens/s of a prompt of 512; of peak: operations (2 for each weight and token, attention's too) over\n"
    "        the peak of F32 FMA, of the BF16 dot where there is one, or of the 8-bit dot for Q8_0 and Q4_0; with\n"
    "        AMX that can be more than all of it\n"
    "tg N    tokens/s of 32 tokens, one by one, that begin at context N (or just below the last position); of\n"
    "        read: bytes of the weights and the cache that each must read, over the bandwidth of plain loads\n"
    "extra   MiB of memory beyond file and KV cache\n"
    "first   ms from the start of a process to the logits after 5 tokens, with the file in the page cache\n"
    "\n"
    "examples:\n"
    "  make bench\n"
    "  build/bench/bench --shape gpt2-124m --type Q8_0 --json speed.json\n"
    "  build/bench/bench gpt2.gguf --context 0 -t 1\n";

typedef struct Settings {
    const char *model, *json;
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
static bool has_room(const char *folder, const ModelShape *shape, DType dtype) {
    struct statvfs disk;
    uint64_t needed = shape_bytes(shape, dtype) + (1 << 20);
    if (statvfs(folder, &disk) != 0) return true; /* unknown: try to write it */
    uint64_t available = (uint64_t)disk.f_frsize * disk.f_bavail;
    if (available >= needed) return true;
    fprintf(stderr, "bench: %s %s left out: %s has %.1f GB free, %.1f GB are needed (set TMPDIR)\n",
            shape->name, dtype_info(dtype)->name, folder, 1e-9 * (double)available, 1e-9 * (double)needed);
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

static bool measure_row(Run *run, const char *shape, const char *path, int n_repeats, Error *error) {
    Results *results = &run->results;
    Row *row = &results->rows[results->n_rows];
    row->shape = shape;
    if (run->settings->n_repeats) n_repeats = (int)run->settings->n_repeats;
    if (!measure_checkpoint(&run->bench, row, path, n_repeats, error)) return false;
    results->n_rows++;
    if (shows_table(run->settings)) print_last_row(results);
    return true;
}

static bool measure_shape(Run *run, const ModelShape *shape, DType dtype, const char *folder, Error *error) {
    char path[32], progress[64];
    FILE *file = nameless_file(folder, error);
    if (!file) return false;
    snprintf(path, sizeof path, "/dev/fd/%d", fileno(file));
    snprintf(progress, sizeof progress, "%s %s, writing it", shape->name, dtype_info(dtype)->name);
    show_progress(progress, 0, 1);
    bool ok = shape_write(shape, dtype, file, error);
    show_progress(progress, 1, 1);
    ok = ok && measure_row(run, shape->name, path, shape == &model_shapes[0] ? 5 : 3, error);
    fclose(file);
    return ok;
}

static bool is_listed(const StringList *list, const char *name) {
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->items[i], name) == 0) return true;
    return false;
}

/* TinyLlama in types of 16 and 32 bits takes minutes, so it is measured only on request. */
static bool is_wanted(const Settings *settings, const ModelShape *shape, DType dtype) {
    bool quick = shape == &model_shapes[0] || dtype == DTYPE_Q8_0 || dtype == DTYPE_Q4_0;
    return (settings->shapes.n == 0 || is_listed(&settings->shapes, shape->name)) &&
           (settings->types.n == 0 ? quick : is_listed(&settings->types, dtype_info(dtype)->name));
}

static bool measure_shapes(Run *run, Error *error) {
    const char *folder = getenv("TMPDIR");
    if (!folder || !*folder) folder = "/tmp";
    for (size_t i = 0; i < N_MODEL_SHAPES; i++)
        for (size_t j = 0; j < N_DTYPES; j++)
            if (is_wanted(run->settings, &model_shapes[i], dtypes[j]) &&
                has_room(folder, &model_shapes[i], dtypes[j]) &&
                !measure_shape(run, &model_shapes[i], dtypes[j], folder, error))
                return false;
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
    bool ok = output_open(&output, path, error);
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
    bool ok = settings->model ? measure_row(run, settings->model, settings->model, 3, error)
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
        bool known = false;
        for (size_t j = 0; j < N_DTYPES; j++)
            known = known || strcmp(s->types.items[i], dtype_info(dtypes[j])->name) == 0;
        if (!known)
            return error_set(error, "--type takes F32, F16, BF16, Q8_0 or Q4_0, not '%s'", s->types.items[i]);
    }
    return true;
}

#define AT(member) offsetof(Settings, member)

static const Option known_options[] = {
    {"--shape", NULL, OPTION_LIST, AT(shapes), 0, 0},
    {"--type", NULL, OPTION_LIST, AT(types), 0, 0},
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
    return check_names(s, error);
}

int main(int argc, char **argv) {
    Error error;
    Settings settings = {.max_context = MAX_CONTEXT};
    if (!parse_settings(&settings, argc, argv, &error)) {
        fprintf(stderr, "bench: %s (see bench --help)\n", error.message);
        return EXIT_USAGE;
    }
    if (settings.help) return fputs(help, stdout) < 0;
    catch_signals("bench");
    static Run run;
    run.settings = &settings;
    run.bench = (Bench){.program = argv[0], .max_context = (size_t)settings.max_context};
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
