#include "measure.h"

#include "cli/print.h"
#include "cli/process.h"
#include "model.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROMPT = 512, GENERATE = 32, FIRST = 5 };

const size_t few_tokens[N_FEW] = {2, 4, 8, 16};

static const size_t contexts[N_CONTEXTS] = {0, 1024, MAX_CONTEXT};

/* One checkpoint under measurement. */
typedef struct Timed {
    const Bench *bench;
    Row *row;
    int n_repeats;
    Model *model;
    Session *session;
    float *logits;                             /* [n_vocab] */
    double weight_bytes, layer_weights, d_all; /* what a token reads and multiplies; n_layer·n_head·d_head */
    double weights_of[DTYPE_LIMIT];            /* that a token reads */
} Timed;

static void add_matrix(Timed *timed, const Matrix *w) {
    timed->weight_bytes += (double)w->rows * (double)dtype_bytes(w->dtype, w->cols);
    timed->weights_of[w->dtype] += (double)w->rows * (double)w->cols;
}

static void add_linear(Timed *timed, const Linear *linear) {
    if (!linear->w.data) return;
    add_matrix(timed, &linear->w);
    timed->weight_bytes += linear->bias ? sizeof(float) * (double)linear->w.rows : 0;
    timed->layer_weights += (double)linear->w.rows * (double)linear->w.cols;
}

/* The embedding counts only if it is also the unembedding; norms weigh next to nothing. */
static void count_weights(Timed *timed) {
    const Config *config = model_config(timed->model);
    const Weights *weights = model_weights(timed->model);
    for (size_t i = 0; i < config->n_layer; i++) {
        const LayerWeights *layer = &weights->layers[i];
        const Linear *const linears[] = {&layer->attention.q,   &layer->attention.k, &layer->attention.v,
                                         &layer->attention.out, &layer->mlp.up,      &layer->mlp.gate,
                                         &layer->mlp.down};
        for (size_t j = 0; j < sizeof linears / sizeof *linears; j++) add_linear(timed, linears[j]);
    }
    add_matrix(timed, &weights->unembedding.w);
    timed->d_all = (double)(config->n_layer * config->n_head * config->d_head);
}

static DType most_weights(const Timed *timed) {
    size_t most = 0;
    for (size_t i = 1; i < DTYPE_LIMIT; i++)
        if (timed->weights_of[i] > timed->weights_of[most]) most = i;
    return (DType)most;
}

/* Operations of a prompt: 2 for each weight, 4 for each dimension of a head and key; one row of logits. */
static double prompt_operations(const Timed *timed, size_t n) {
    const Matrix *w = &model_weights(timed->model)->unembedding.w;
    double keys = 0.5 * (double)n * (double)(n + 1);
    return 2 * timed->layer_weights * (double)n + 4 * timed->d_all * keys +
           2 * (double)w->rows * (double)w->cols;
}

static double token_bytes(const Timed *timed, size_t context) {
    AttentionShape shape = model_attention_shape(timed->model);
    double keys = (double)context + 0.5 * (GENERATE + 1);
    return timed->weight_bytes + keys * (double)attention_kv_bytes(&shape, timed->bench->kv_dtype);
}

static bool feed(Timed *timed, size_t n, Error *error) {
    static int32_t tokens[PROMPT];
    size_t n_vocab = model_config(timed->model)->n_vocab, position = session_position(timed->session);
    for (size_t i = 0; i < n; i++) tokens[i] = (int32_t)((position + i) * 7919 % n_vocab);
    if (interrupted()) return error_set(error, "interrupted");
    return session_feed(timed->session, tokens, n, timed->logits, 1, error);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

/*
 * Times n_steps feeds of n_tokens each, from `position` on, which take `work` bytes or operations in all. The
 * machine's own rate is measured before and after every repeat.
 */
static bool repeat(Timed *timed, Speed *speed, const char *what, PeakKind kind, size_t position,
                   size_t n_steps, size_t n_tokens, double work, Error *error) {
    double seconds[MAX_REPEATS], limits[MAX_REPEATS], shares[MAX_REPEATS];
    char name[96];
    int n = timed->n_repeats;
    snprintf(name, sizeof name, "%s %s, %s", timed->row->shape, timed->row->type, what);
    for (int i = -1; i < n; i++) { /* the first one warms the caches and does not count */
        show_progress(name, (size_t)(i + 1), (size_t)n + 1);
        double before = i < 0 ? 0 : peaks_measure(timed->bench->peaks, kind, 2);
        session_rewind(timed->session, position);
        double start = now_ms();
        for (size_t j = 0; j < (i < 0 && n_tokens == 1 ? 1 : n_steps); j++)
            if (!feed(timed, n_tokens, error)) return false;
        if (i < 0) continue;
        seconds[i] = 1e-3 * (now_ms() - start);
        limits[i] = fmax(before, peaks_measure(timed->bench->peaks, kind, 2));
        shares[i] = limits[i] > 0 ? work / seconds[i] / limits[i] : 0;
    }
    show_progress(name, 1, 1);
    double typical = median(seconds, n);
    *speed =
        (Speed){(double)(n_steps * n_tokens) / typical, work / typical, median(limits, n), median(shares, n)};
    return true;
}

/* Seconds that n tokens at the text's beginning take. */
static bool time_feed(Timed *timed, size_t n, double *seconds, Error *error) {
    session_rewind(timed->session, 0);
    double start = now_ms();
    bool ok = feed(timed, n, error);
    *seconds = 1e-3 * (now_ms() - start);
    return ok;
}

/*
 * One repeat: times of one token, of few, and of a prompt, from which every ratio is made at once. A few tokens are
 * over so soon that they are fed several times in turns.
 */
static bool time_few(Timed *timed, double few[N_FEW], Error *error) {
    enum { TURNS = 5 };
    double prompt, times[N_FEW + 1][TURNS];
    const size_t n_prompt = timed->row->n_prompt;
    if (!time_feed(timed, n_prompt, &prompt, error)) return false;
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i <= N_FEW; i++) {
            size_t n = i ? few_tokens[i - 1] : 1;
            if (n <= n_prompt && !time_feed(timed, n, &times[i][turn], error)) return false;
        }
    const double one = median(times[0], TURNS);
    for (int i = 0; i < N_FEW; i++) {
        double least = fmax(one, prompt / (double)n_prompt * (double)few_tokens[i]);
        few[i] = few_tokens[i] <= n_prompt ? median(times[i + 1], TURNS) / least : 0;
    }
    return true;
}

static bool measure_few(Timed *timed, Error *error) {
    double few[MAX_REPEATS][N_FEW], column[MAX_REPEATS];
    char name[96];
    snprintf(name, sizeof name, "%s %s, a few tokens", timed->row->shape, timed->row->type);
    for (int i = 0; i < timed->n_repeats; i++) {
        show_progress(name, (size_t)i, (size_t)timed->n_repeats);
        if (!time_few(timed, few[i], error)) return false;
    }
    show_progress(name, 1, 1);
    for (int j = 0; j < N_FEW; j++) {
        for (int i = 0; i < timed->n_repeats; i++) column[i] = few[i][j];
        timed->row->few[j] = median(column, timed->n_repeats);
    }
    return true;
}

static PeakKind prompt_limit(DType dtype) {
    if (dtype_is_quantised(dtype)) return PEAK_INT8;
    return dtype == DTYPE_BF16 && kernels_product(kernels_fastest(), dtype, SIZE_MAX, 0)->rounding.x_bf16 == 1
               ? PEAK_BF16
               : PEAK_F32;
}

/* Resident memory that belongs to no file: what a run adds to the mapped checkpoint. */
static uint64_t anonymous_bytes(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[128];
    uint64_t kib = 0;
    while (file && fgets(line, sizeof line, file)) sscanf(line, "RssAnon: %" SCNu64, &kib);
    if (file) fclose(file);
    return kib * 1024;
}

/* The context at which column i is measured: that of its name, or just below the last learned position. */
static bool find_context(const Timed *timed, int i, size_t *context) {
    const Config *config = model_config(timed->model);
    size_t last = config->n_ctx < GENERATE ? 0 : config->n_ctx - GENERATE;
    *context = contexts[i];
    if (i > 0 && config->family->learned_positions && *context > last) *context = last;
    return *context <= timed->bench->max_context && (i == 0 || *context > contexts[i - 1]);
}

static bool fill_cache(Timed *timed, size_t context, Error *error) {
    char name[96];
    snprintf(name, sizeof name, "%s %s, filling the cache", timed->row->shape, timed->row->type);
    for (size_t n, position; (position = session_position(timed->session)) < context;) {
        show_progress(name, position, context);
        n = context - position < SESSION_CHUNK ? context - position : SESSION_CHUNK;
        if (!feed(timed, n, error)) return false;
    }
    show_progress(name, 1, 1);
    return true;
}

static bool measure_session(Timed *timed, Error *error) {
    Row *row = timed->row;
    size_t n_ctx = model_config(timed->model)->n_ctx;
    DType dtype = most_weights(timed);
    if (!row->type) row->type = dtype_info(dtype)->name;
    row->bytes_per_token = timed->weight_bytes;
    row->n_prompt = n_ctx < PROMPT ? n_ctx : PROMPT;
    if (!repeat(timed, &row->prompt, "prompt", prompt_limit(dtype), 0, 1, row->n_prompt,
                prompt_operations(timed, row->n_prompt), error) ||
        !measure_few(timed, error))
        return false;
    for (int i = 0; i < N_CONTEXTS; i++) {
        size_t context;
        if (!(row->has_context[i] = find_context(timed, i, &context))) continue;
        row->context[i] = context;
        if (!fill_cache(timed, context, error)) return false;
        if (!repeat(timed, &row->generate[i], "generation", PEAK_READ, context, GENERATE, 1,
                    GENERATE * token_bytes(timed, context), error))
            return false;
    }
    return true;
}

/* Room for the longest context of the table, but for no more positions than the model has learned. */
static size_t context_room(const Timed *timed) {
    const Config *config = model_config(timed->model);
    size_t wanted = timed->bench->max_context + GENERATE;
    if (wanted < PROMPT) wanted = PROMPT;
    return config->family->learned_positions && wanted > config->n_ctx ? config->n_ctx : wanted;
}

bool reach_first_logits(const char *path, const Compute *compute, Error *error) {
    static const int32_t tokens[FIRST] = {1, 2, 3, 4, 5};
    SessionOptions options = {.kv_dtype = DTYPE_F16, .compute = *compute};
    Model *model = model_open(path, error);
    Session *session = model ? session_new(model, &options, error) : NULL;
    float *logits = session ? malloc(model_config(model)->n_vocab * sizeof *logits) : NULL;
    if (session && !logits) error_set(error, "not enough memory");
    bool ok = logits && session_feed(session, tokens, FIRST, logits, 1, error);
    free(logits);
    session_free(session);
    model_close(model);
    return ok;
}

/* Starts a process for the first logits and times it until it closes its stdout, the sign that it has them. */
static bool time_first_token(const Bench *bench, const char *path, double *ms, Error *error) {
    int ends[2], status;
    char threads[16], byte;
    snprintf(threads, sizeof threads, "%u", threads_count(bench->compute.threads));
    if (pipe(ends) != 0) return error_set(error, "cannot open a pipe: %s", strerror(errno));
    fflush(NULL);
    double start = now_ms();
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp(bench->program, bench->program, path, "--first-token", "-t", threads, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    while (child > 0 && read(ends[0], &byte, 1) > 0) continue;
    *ms = now_ms() - start;
    close(ends[0]);
    if (child > 0 && waitpid(child, &status, 0) == child && status == 0) return true;
    return error_set(error, "cannot run %s %s --first-token", bench->program, path);
}

bool measure_checkpoint(const Bench *bench, Row *row, const char *path, int n_repeats, Error *error) {
    Timed timed = {.bench = bench, .row = row, .n_repeats = n_repeats};
    double first[MAX_REPEATS];
    uint64_t before = anonymous_bytes();
    timed.model = model_open(path, error);
    bool ok = timed.model != NULL;
    for (int i = -1; i < n_repeats && ok; i++)
        ok = time_first_token(bench, path, &first[i < 0 ? 0 : i], error); /* the first one does not count */
    if (ok) row->first_ms = median(first, n_repeats);
    if (ok) {
        count_weights(&timed);
        SessionOptions options = {
            .n_ctx = context_room(&timed), .kv_dtype = bench->kv_dtype, .compute = bench->compute};
        timed.session = session_new(timed.model, &options, error);
        timed.logits = malloc(model_config(timed.model)->n_vocab * sizeof(float));
    }
    if (timed.session && !timed.logits) error_set(error, "not enough memory");
    ok = timed.session && timed.logits && measure_session(&timed, error);
    if (ok) {
        AttentionShape shape = model_attention_shape(timed.model);
        size_t filled = session_position(timed.session);
        if (filled < row->n_prompt) filled = row->n_prompt;
        double cache = (double)attention_kv_bytes(&shape, bench->kv_dtype) * (double)filled;
        row->extra_mib = ((double)(anonymous_bytes() - before) - cache) / (1 << 20);
    }
    free(timed.logits);
    session_free(timed.session);
    model_close(timed.model);
    return ok;
}
