/*
 * dump: arrays for NumPy under TransformerLens's names. What is wanted of which layers, heads and positions
 * gives a list of arrays of known shapes; the probe then puts each row in its place in the file as the
 * forward pass comes by, so memory holds one row, whatever is dumped.
 */
#include "npz.h"
#include "unicode.h"
#include "views/study.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t NOT_CHOSEN = SIZE_MAX;

/* Which of [0, n) were chosen, and which row of the arrays each is. */
typedef struct Chosen {
    size_t *row; /* [n], or NOT_CHOSEN */
    size_t n_all, n;
} Chosen;

typedef struct Dump {
    const Study *study;
    bool what[PROBE_N_SITES];
    Chosen layers, heads, kv_heads, positions;
    NpzArray *arrays;
    size_t n_arrays;
    size_t *array_of; /* [PROBE_N_SITES][n_layer + 1], or NOT_CHOSEN */
    NpzWriter *writer;
    float *row;            /* [longest row] as it goes into the file */
    uint16_t *half;        /* likewise, with --half */
    uint64_t n_overflowed; /* finite, but beyond float16 */
    bool failed;
    Error *error;
} Dump;

/* TransformerLens's names within "blocks.L."; hook_q and so on belong to its attention. */
static const char *const hooks[PROBE_N_SITES] = {
    [PROBE_RESID_PRE] = "hook_resid_pre",
    [PROBE_Q] = "attn.hook_q",
    [PROBE_K] = "attn.hook_k",
    [PROBE_V] = "attn.hook_v",
    [PROBE_SCORES] = "attn.hook_attn_scores",
    [PROBE_PATTERN] = "attn.hook_pattern",
    [PROBE_Z] = "attn.hook_z",
    [PROBE_ATTN_OUT] = "hook_attn_out",
    [PROBE_RESID_MID] = "hook_resid_mid",
    [PROBE_MLP_OUT] = "hook_mlp_out",
    [PROBE_RESID_POST] = "hook_resid_post",
};

/* --what: names of sites, separated by commas; NULL is all that the model has. */
static bool parse_what(Dump *dump, Error *error) {
    const Study *study = dump->study;
    bool parallel = model_config(study->model)->parallel_residual;
    const char *at = study->options->what;
    for (size_t site = 0; !at && site < PROBE_N_SITES; site++)
        dump->what[site] = !(parallel && site == PROBE_RESID_MID);
    while (at) {
        size_t n = strcspn(at, ","), site = 0;
        while (site < PROBE_N_SITES && !string_equals((String){at, n}, probe_site_name((ProbeSite)site)))
            site++;
        if (site == PROBE_N_SITES)
            return error_set(error,
                             "--what: there is no '%.*s'; there are pattern, scores, q, k, v, z, resid_pre, "
                             "resid_mid, resid_post, attn_out, mlp_out, logits",
                             string_shown((String){at, n}), at);
        if (parallel && site == PROBE_RESID_MID)
            return error_set(error, "--what: %s has no resid_mid; its attention and MLP both read resid_pre",
                             study->options->model);
        dump->what[site] = true;
        at = at[n] ? at + n + 1 : NULL;
    }
    return true;
}

static bool choose(Chosen *chosen, const char *list, const char *what, size_t n, Error *error) {
    bool *members = malloc(n);
    chosen->row = malloc(n * sizeof *chosen->row);
    bool ok = (members && chosen->row) || error_set(error, "not enough memory");
    ok = ok && parse_list(list, what, n, members, error);
    chosen->n_all = n;
    for (size_t i = 0; ok && i < n; i++) chosen->row[i] = members[i] ? chosen->n++ : NOT_CHOSEN;
    free(members);
    return ok;
}

/* The kv heads that the chosen heads read. */
static bool choose_kv_heads(Dump *dump, Error *error) {
    const Config *config = model_config(dump->study->model);
    Chosen *kv_heads = &dump->kv_heads;
    kv_heads->n_all = config->n_head_kv;
    kv_heads->row = malloc(kv_heads->n_all * sizeof *kv_heads->row);
    if (!kv_heads->row) return error_set(error, "not enough memory");
    for (size_t i = 0; i < kv_heads->n_all; i++) kv_heads->row[i] = NOT_CHOSEN;
    for (size_t head = 0; head < config->n_head; head++) {
        size_t *row = &kv_heads->row[kv_head_of(config, head)];
        if (dump->heads.row[head] != NOT_CHOSEN && *row == NOT_CHOSEN) *row = kv_heads->n++;
    }
    return true;
}

static bool choose_all(Dump *dump, Error *error) {
    const StudyOptions *options = dump->study->options;
    const Config *config = model_config(dump->study->model);
    return parse_what(dump, error) &&
           choose(&dump->layers, options->layers, "layer", config->n_layer, error) &&
           choose(&dump->heads, options->heads, "head", config->n_head, error) &&
           choose_kv_heads(dump, error) &&
           choose(&dump->positions, options->positions, "position", dump->study->tokens.n, error);
}

/* Of shape [a][b][c]; b or c is 0 where there is no such dimension. */
static NpzArray *add_array(Dump *dump, const char *dtype, size_t item_bytes, size_t a, size_t b, size_t c) {
    NpzArray *array = &dump->arrays[dump->n_arrays++];
    array->item_bytes = item_bytes;
    array->n_dims = c ? 3 : b ? 2 : 1;
    memcpy(array->shape, (size_t[]){a, b, c}, sizeof array->shape);
    snprintf(array->dtype, sizeof array->dtype, "%s", dtype);
    return array;
}

/* Which heads a site has; NULL where it has none. */
static const Chosen *heads_of(const Dump *dump, ProbeSite site) {
    switch (site) {
    case PROBE_Q:
    case PROBE_SCORES:
    case PROBE_PATTERN:
    case PROBE_Z: return &dump->heads;
    case PROBE_K:
    case PROBE_V: return &dump->kv_heads;
    default: return NULL;
    }
}

static size_t *array_of(const Dump *dump, ProbeSite site, size_t layer) {
    return &dump->array_of[(size_t)site * (model_config(dump->study->model)->n_layer + 1) + layer];
}

static void add_site(Dump *dump, ProbeSite site, size_t layer) {
    const Config *config = model_config(dump->study->model);
    const char *dtype = dump->study->options->half ? "<f2" : "<f4";
    size_t n = dump->positions.n, item_bytes = dump->study->options->half ? 2 : 4;
    const Chosen *heads = heads_of(dump, site);
    *array_of(dump, site, layer) = dump->n_arrays;
    NpzArray *array;
    if (site == PROBE_SCORES || site == PROBE_PATTERN)
        array = add_array(dump, dtype, item_bytes, heads->n, n, dump->positions.n_all);
    else if (heads)
        array = add_array(dump, dtype, item_bytes, n, heads->n, config->d_head);
    else
        array = add_array(dump, dtype, item_bytes, n,
                          site == PROBE_LOGITS ? config->n_vocab : config->d_model, 0);
    if (site == PROBE_LOGITS)
        strcpy(array->key, "logits");
    else
        snprintf(array->key, sizeof array->key, "blocks.%zu.%s", layer, hooks[site]);
}

/* The characters of a token; those that are none count as U+FFFD. Returns how many. */
static size_t token_characters(const Study *study, int32_t id, uint32_t *characters) {
    String piece = tokenizer_piece(study->tokenizer, id, true);
    size_t n = 0;
    for (size_t at = 0; at < piece.n; n++) {
        uint32_t c;
        at += utf8_decode(piece.data + at, piece.n - at, &c);
        if (characters) characters[n] = c < UTF8_INVALID ? c : 0xfffd;
    }
    return n;
}

/* Lists the arrays, those that describe the text first. */
static bool list_arrays(Dump *dump, Error *error) {
    const Study *study = dump->study;
    const StudyOptions *options = study->options;
    const Config *config = model_config(study->model);
    size_t n_layer = config->n_layer, n_slots = PROBE_N_SITES * (n_layer + 1), width = 1;
    dump->arrays = calloc(n_slots + 5, sizeof *dump->arrays);
    dump->array_of = malloc(n_slots * sizeof *dump->array_of);
    if (!dump->arrays || !dump->array_of) return error_set(error, "not enough memory");
    for (size_t i = 0; i < n_slots; i++) dump->array_of[i] = NOT_CHOSEN;

    for (size_t i = 0; i < study->tokens.n; i++) {
        size_t n = token_characters(study, study->tokens.ids[i], NULL);
        if (n > width) width = n;
    }
    char unicode[24];
    snprintf(unicode, sizeof unicode, "<U%zu", width);
    strcpy(add_array(dump, "<i8", 8, study->tokens.n, 0, 0)->key, "tokens");
    strcpy(add_array(dump, unicode, 4 * width, study->tokens.n, 0, 0)->key, "str_tokens");
    if (options->positions) strcpy(add_array(dump, "<i8", 8, dump->positions.n, 0, 0)->key, "positions");
    if (options->heads) {
        strcpy(add_array(dump, "<i8", 8, dump->heads.n, 0, 0)->key, "heads");
        strcpy(add_array(dump, "<i8", 8, dump->kv_heads.n, 0, 0)->key, "kv_heads");
    }
    for (size_t layer = 0; layer < n_layer; layer++)
        for (size_t site = 0; site < PROBE_LOGITS; site++)
            if (dump->what[site] && dump->layers.row[layer] != NOT_CHOSEN)
                add_site(dump, (ProbeSite)site, layer);
    if (dump->what[PROBE_LOGITS]) add_site(dump, PROBE_LOGITS, n_layer);
    return true;
}

/* Whoever calls from within the forward pass cannot fail: the first error waits until it is over. */
static void write_items(Dump *dump, size_t array, size_t first, const void *items, size_t n) {
    dump->failed = dump->failed || !npz_write(dump->writer, array, first, items, n, dump->error);
}

static void write_floats(Dump *dump, size_t array, size_t first, const float *values, size_t n) {
    if (!dump->half) {
        write_items(dump, array, first, values, n);
        return;
    }
    dump->study->compute.kernels->pack_f16(dump->half, values, n);
    for (size_t i = 0; i < n; i++)
        dump->n_overflowed += (dump->half[i] & 0x7fff) == 0x7c00 && isfinite(values[i]);
    write_items(dump, array, first, dump->half, n);
}

/* From GGUF's order, where RoPE's pairs are neighbours, to Hugging Face's: members rope_dim/2 apart. */
static void separate_pairs(float *out, const float *in, size_t rope_dim, size_t d_head) {
    for (size_t i = 0; i < rope_dim / 2; i++) {
        out[i] = in[2 * i];
        out[i + rope_dim / 2] = in[2 * i + 1];
    }
    memcpy(out + rope_dim, in + rope_dim, (d_head - rope_dim) * sizeof *out);
}

/* One row of a visit goes to its place. */
static void write_row(Dump *dump, size_t array, const ProbeView *view, size_t row, const float *values) {
    const Config *config = model_config(dump->study->model);
    const Chosen *heads = heads_of(dump, view->site);
    size_t head = heads ? heads->row[view->head] : 0, n = view->n_cols;
    if (view->site == PROBE_SCORES || view->site == PROBE_PATTERN) {
        size_t n_keys = dump->positions.n_all;
        memcpy(dump->row, values, n * sizeof *values);
        for (size_t key = n; key < n_keys; key++) dump->row[key] = view->site == PROBE_SCORES ? -INFINITY : 0;
        write_floats(dump, array, (head * dump->positions.n + row) * n_keys, dump->row, n_keys);
    } else if (heads) {
        bool turns = view->site == PROBE_Q || view->site == PROBE_K;
        if (turns && config->family->rope == ROPE_NEIGHBOURS) {
            separate_pairs(dump->row, values, config->rope_dim, n);
            values = dump->row;
        }
        write_floats(dump, array, (row * heads->n + head) * n, values, n);
    } else {
        write_floats(dump, array, row * n, values, n);
    }
}

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const Dump *dump = user;
    const Chosen *heads = heads_of(dump, site);
    return *array_of(dump, site, layer) != NOT_CHOSEN && (!heads || heads->row[head] != NOT_CHOSEN);
}

static void visit(void *user, const ProbeView *view) {
    Dump *dump = user;
    size_t array = *array_of(dump, view->site, view->layer);
    for (size_t i = 0; i < view->n_rows && !dump->failed; i++) {
        size_t row = dump->positions.row[view->position + i];
        if (row != NOT_CHOSEN) write_row(dump, array, view, row, view->data + i * view->stride);
    }
}

/* The probe has seen them: study_feed only needs to hear that logits are wanted. */
static void ignore_logits(void *user, size_t position, const float *logits) {
    (void)user, (void)position, (void)logits;
}

/* An int64 array that says which were chosen. */
static void write_chosen(Dump *dump, size_t array, const Chosen *chosen) {
    for (size_t i = 0; i < chosen->n_all; i++) {
        int64_t number = (int64_t)i;
        if (chosen->row[i] != NOT_CHOSEN) write_items(dump, array, chosen->row[i], &number, 1);
    }
}

/* tokens, str_tokens (UTF-32, zeros behind) and what was chosen, in the order of list_arrays. */
static bool write_text(Dump *dump, Error *error) {
    const Study *study = dump->study;
    size_t width = dump->arrays[1].item_bytes / 4, array = 2;
    uint32_t *characters = malloc(width * sizeof *characters);
    if (!characters) return error_set(error, "not enough memory");
    for (size_t i = 0; i < study->tokens.n; i++) {
        int64_t id = study->tokens.ids[i];
        write_items(dump, 0, i, &id, 1);
        memset(characters, 0, width * sizeof *characters);
        token_characters(study, study->tokens.ids[i], characters);
        write_items(dump, 1, i, characters, 1);
    }
    free(characters);
    if (study->options->positions) write_chosen(dump, array++, &dump->positions);
    if (study->options->heads) {
        write_chosen(dump, array++, &dump->heads);
        write_chosen(dump, array++, &dump->kv_heads);
    }
    return !dump->failed;
}

static bool write_arrays(Dump *dump, Error *error) {
    const Study *study = dump->study;
    const Config *config = model_config(study->model);
    size_t longest = config->n_vocab;
    if (config->d_model > longest) longest = config->d_model;
    if (config->d_head > longest) longest = config->d_head;
    if (study->tokens.n > longest) longest = study->tokens.n;
    dump->row = floats_new(1, longest);
    if (study->options->half) dump->half = malloc(longest * sizeof *dump->half);
    if (!dump->row || (study->options->half && !dump->half)) return error_set(error, "not enough memory");

    Probe probe = {dump, wants, visit};
    Session *session = study_session(study, 0, &probe, error);
    if (!session) return false;
    dump->writer = npz_create(study->options->output, dump->arrays, dump->n_arrays, error);
    bool ok = dump->writer && write_text(dump, error) &&
              study_feed(study, session, study->tokens.ids, study->tokens.n,
                         dump->what[PROBE_LOGITS] ? ignore_logits : NULL, NULL, error);
    session_free(session);
    return ok && !dump->failed;
}

static void print_json(Report *report, const Dump *dump) {
    uint64_t total = 0;
    json_text(report, "file", dump->study->options->output, SIZE_MAX);
    json_array(report, "arrays");
    for (size_t i = 0; i < dump->n_arrays; i++) {
        const NpzArray *array = &dump->arrays[i];
        total += npz_array_bytes(array);
        json_object(report, NULL);
        json_text(report, "key", array->key, SIZE_MAX);
        json_text(report, "dtype", array->dtype, SIZE_MAX);
        json_array(report, "shape");
        for (size_t j = 0; j < array->n_dims; j++) json_int(report, NULL, (int64_t)array->shape[j]);
        json_end_array(report);
        json_int(report, "bytes", (int64_t)npz_array_bytes(array));
        json_end_object(report);
    }
    json_end_array(report);
    json_int(report, "bytes", (int64_t)total);
    json_int(report, "n_overflowed", (int64_t)dump->n_overflowed);
}

static void print_text(const Report *report, const Dump *dump) {
    const char *path = dump->study->options->output;
    uint64_t total = 0;
    print_styled(report, STYLE_BOLD, "%-36s %-6s %12s  shape\n", "key", "type", "bytes");
    for (size_t i = 0; i < dump->n_arrays; i++) {
        const NpzArray *array = &dump->arrays[i];
        total += npz_array_bytes(array);
        printf("%-36s %-6s %12" PRIu64 "  ", array->key, array->dtype, npz_array_bytes(array));
        for (size_t j = 0; j < array->n_dims; j++) printf("%s%zu", j ? " x " : "", array->shape[j]);
        putchar('\n');
    }
    printf("\n%s: %zu arrays, %.1f MB; numpy.load(\"%s\")[\"tokens\"]\n", path, dump->n_arrays,
           (double)total / 1e6, path);
    if (dump->n_overflowed)
        printf("%" PRIu64 " numbers are beyond float16's 65504 and became infinite; leave out --half\n",
               dump->n_overflowed);
}

bool view_dump(Study *study, Error *error) {
    if (!study_check_output(study, "FILE.npz", error)) return false;
    Dump dump = {.study = study, .error = error};
    Report *report = &study->report;
    bool ok = choose_all(&dump, error) && list_arrays(&dump, error) && write_arrays(&dump, error);
    if (ok) {
        ok = npz_finish(dump.writer, error);
        dump.writer = NULL;
    }
    npz_abandon(dump.writer);
    if (ok) {
        report_open(report, study);
        if (report->json)
            print_json(report, &dump);
        else
            print_text(report, &dump);
        report_close(report);
    }
    free(dump.layers.row);
    free(dump.heads.row);
    free(dump.kv_heads.row);
    free(dump.positions.row);
    free(dump.arrays);
    free(dump.array_of);
    free(dump.row);
    free(dump.half);
    return ok;
}
