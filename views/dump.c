/*
 * dump: arrays for NumPy under TransformerLens's names. What is wanted of which layers, heads and positions
 * gives a list of arrays of known shapes; the probe then puts each row in its place in the file as the
 * forward pass comes by, so memory holds one row, whatever is dumped.
 */
#include "base/utf8.h"
#include "cli/npz.h"
#include "measures/scores.h"
#include "views/view.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const size_t NONE = SIZE_MAX;

/* Which of [0, n_all) were chosen, and which row of the arrays each is. */
typedef struct Chosen {
    const char *list; /* as the option gives it; NULL: all */
    size_t n_all, n;
    size_t *row; /* [n_all], or NONE */
} Chosen;

typedef struct Dump {
    const char *output, *what;
    bool half;
    Chosen layers, heads, kv_heads, positions;

    const Study *study;
    const Config *config;
    bool wanted[PROBE_N_SITES];
    size_t n_arrays;
    NpzArray *arrays;
    size_t *array_of; /* [PROBE_N_SITES][n_layer + 1], or NONE */
    NpzWriter *writer;
    float *row;            /* [longest row] as it goes into the file */
    uint16_t *halves;      /* likewise, with --half */
    uint64_t n_overflowed; /* finite, but beyond float16 */
    bool failed;           /* with `error`: the forward pass cannot be left for it */
    Error *error;
    uint64_t n_bytes; /* of all arrays */
} Dump;

/* A site has rows of no head, of the heads of queries, or of those of keys and values. */
typedef enum HeadKind { OF_NONE, OF_QUERIES, OF_KEYS } HeadKind;

/* How TransformerLens calls a site, behind "blocks.3." where it belongs to a layer, and why a model may have none. */
static const struct {
    const char *hook;
    HeadKind heads;
    const char *lacking;
} sites[PROBE_N_SITES] = {
    [PROBE_EMBED] = {"hook_embed"},
    [PROBE_POS_EMBED] = {"hook_pos_embed", .lacking = "it learned no positions"},
    [PROBE_RESID_PRE] = {"hook_resid_pre"},
    [PROBE_NORM1_SCALE] = {"ln1.hook_scale", .lacking = "no norm stands before its attention"},
    [PROBE_Q] = {"attn.hook_q", OF_QUERIES, "it has no attention"},
    [PROBE_K] = {"attn.hook_k", OF_KEYS, "it has no attention"},
    [PROBE_V] = {"attn.hook_v", OF_KEYS, "it has no attention"},
    [PROBE_ROT_Q] = {"attn.hook_rot_q", OF_QUERIES, "it has no RoPE"},
    [PROBE_ROT_K] = {"attn.hook_rot_k", OF_KEYS, "it has no RoPE"},
    [PROBE_SCORES] = {"attn.hook_attn_scores", OF_QUERIES, "it has no attention"},
    [PROBE_PATTERN] = {"attn.hook_pattern", OF_QUERIES, "it has no attention"},
    [PROBE_Z] = {"attn.hook_z", OF_QUERIES, "it has no attention"},
    [PROBE_RESULT] = {"attn.hook_result", OF_QUERIES, "it has no attention"},
    [PROBE_ATTN_OUT] = {"hook_attn_out"},
    [PROBE_RESID_MID] = {"hook_resid_mid", .lacking = "its attention and MLP both read resid_pre"},
    [PROBE_NORM2_SCALE] = {"ln2.hook_scale", .lacking = "no norm of their own stands before its MLPs"},
    [PROBE_ROUTER] = {"mlp.hook_router_logits", .lacking = "it has no experts"},
    [PROBE_EXPERT_WEIGHTS] = {"mlp.hook_expert_weights", .lacking = "it has no experts"},
    [PROBE_MLP_PRE] = {"mlp.hook_pre", .lacking = "all its MLPs are experts"},
    [PROBE_MLP_PRE_LINEAR] = {"mlp.hook_pre_linear", .lacking = "no MLP that is not an expert has a gate"},
    [PROBE_MLP_POST] = {"mlp.hook_post", .lacking = "all its MLPs are experts"},
    [PROBE_MLP_OUT] = {"hook_mlp_out"},
    [PROBE_RESID_POST] = {"hook_resid_post"},
    [PROBE_FINAL_SCALE] = {"ln_final.hook_scale"},
    [PROBE_LOGITS] = {"logits"},
};

/* Whether a site stands before or behind all layers: at layer 0 or n_layer. */
static bool is_outside(ProbeSite site) { return site < PROBE_RESID_PRE || site > PROBE_RESID_POST; }

static bool layer_has(const Model *model, ProbeSite site, size_t layer) {
    const Config *config = model_config(model);
    const Weights *weights = model_weights(model);
    if (layer == config->n_layer) return site == PROBE_FINAL_SCALE || site == PROBE_LOGITS;
    const LayerWeights *w = &weights->layers[layer];
    bool experts = w->experts.n_expert > 0;
    switch (site) {
    case PROBE_EMBED: return layer == 0;
    case PROBE_POS_EMBED: return layer == 0 && weights->positions.data;
    case PROBE_NORM1_SCALE: return w->attn_norm.gain;
    case PROBE_ROT_Q:
    case PROBE_ROT_K: return layer_has_heads(model, layer) && weights->attention_layers[layer].rope;
    case PROBE_RESID_MID: return !config->parallel_residual;
    case PROBE_NORM2_SCALE: return w->mlp_norm.gain;
    case PROBE_ROUTER:
    case PROBE_EXPERT_WEIGHTS: return experts;
    case PROBE_MLP_PRE:
    case PROBE_MLP_POST: return !experts;
    case PROBE_MLP_PRE_LINEAR: return !experts && mlp_has_gate(config->mlp);
    default: return site < PROBE_FINAL_SCALE && (!sites[site].heads || layer_has_heads(model, layer));
    }
}

/* Whether no layer has a site. */
static bool lacks(const Dump *dump, ProbeSite site) {
    for (size_t layer = 0; layer <= dump->config->n_layer; layer++)
        if (layer_has(dump->study->model, site, layer)) return false;
    return true;
}

/* "pattern, scores, …" */
static const char *site_names(char *buffer, size_t n_buffer) {
    size_t n = 0;
    for (ProbeSite site = 0; site < PROBE_N_SITES; site++)
        n += (size_t)snprintf(buffer + n, n_buffer - n, "%s%s", site ? ", " : "", probe_site_name(site));
    return buffer;
}

/* Names of sites, separated by commas (NULL: none). */
static bool parse_names(const char *list, bool named[PROBE_N_SITES], Error *error) {
    for (const char *at = list; at;) {
        size_t n = strcspn(at, ","), site = 0;
        while (site < PROBE_N_SITES && !string_equals((String){at, n}, probe_site_name((ProbeSite)site)))
            site++;
        char names[400];
        if (site == PROBE_N_SITES)
            return error_set(error, "--what: there is no '%.*s'; there are %s", string_shown((String){at, n}),
                             at, site_names(names, sizeof names));
        named[site] = true;
        at = at[n] ? at + n + 1 : NULL;
    }
    return true;
}

static bool check(const StudyOptions *options, const void *view, Error *error) {
    const Dump *dump = view;
    bool named[PROBE_N_SITES];
    (void)options;
    if (!dump->output) return error_set(error, "dump writes a file: name it with -o FILE.npz");
    return parse_names(dump->what, named, error);
}

/* --what; NULL is all that the model has, but not result, which is large. */
static bool parse_what(Dump *dump, Error *error) {
    parse_names(dump->what, dump->wanted, error); /* as check() did */
    for (ProbeSite site = 0; site < PROBE_N_SITES; site++) {
        if (!dump->what) dump->wanted[site] = site != PROBE_RESULT && !lacks(dump, site);
        if (dump->wanted[site] && lacks(dump, site))
            return error_set(error, "--what: %s has no %s; %s", dump->study->options->model,
                             probe_site_name(site), sites[site].lacking);
    }
    return true;
}

/* The lists; the kv heads are those that the chosen heads read. */
static bool choose(Dump *dump, Arena *arena, Error *error) {
    enum { LAYERS, HEADS, POSITIONS, KV_HEADS, N };
    static const char *const names[][2] = {
        {"--layers", "layer"}, {"--heads", "head"}, {"--positions", "position"}};
    const Config *config = dump->config;
    Chosen *chosen[N] = {&dump->layers, &dump->heads, &dump->positions, &dump->kv_heads};
    size_t n[N] = {config->n_layer, config->n_head, dump->study->subject.tokens.n, config->n_head_kv};
    bool *members[N];
    dump->kv_heads.list = dump->heads.list;
    for (size_t i = 0; i < N; i++) {
        chosen[i]->n_all = n[i];
        chosen[i]->row = arena_new(arena, n[i], sizeof *chosen[i]->row);
        members[i] = arena_new(arena, n[i], sizeof *members[i]);
    }
    if (!arena_ok(arena, error, "what was chosen of %zu tokens", n[POSITIONS])) return false;
    for (size_t i = 0; i < KV_HEADS; i++)
        if (!parse_list(names[i][0], chosen[i]->list, names[i][1], n[i], members[i], error)) return false;
    for (size_t head = 0; head < config->n_head; head++)
        if (members[HEADS][head]) members[KV_HEADS][kv_head_of(config, head)] = true;
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < n[i]; j++) chosen[i]->row[j] = members[i][j] ? chosen[i]->n++ : NONE;
    return true;
}

/* Which heads a site has; NULL where it has none. */
static const Chosen *heads_of(const Dump *dump, ProbeSite site) {
    return sites[site].heads == OF_QUERIES ? &dump->heads
           : sites[site].heads == OF_KEYS  ? &dump->kv_heads
                                           : NULL;
}

/* The numbers of a row. */
static size_t n_cols(const Dump *dump, ProbeSite site) {
    const Config *config = dump->config;
    switch (site) {
    case PROBE_SCORES:
    case PROBE_PATTERN: return dump->positions.n_all;
    case PROBE_NORM1_SCALE:
    case PROBE_NORM2_SCALE:
    case PROBE_FINAL_SCALE: return 1;
    case PROBE_ROUTER:
    case PROBE_EXPERT_WEIGHTS: return config->n_expert;
    case PROBE_MLP_PRE:
    case PROBE_MLP_PRE_LINEAR:
    case PROBE_MLP_POST: return config->d_ff;
    case PROBE_LOGITS: return config->n_vocab;
    default: return sites[site].heads && site != PROBE_RESULT ? config->d_head : config->d_model;
    }
}

/* Writes an array of shape [a][b][c]; b or c is 0 where there is no such dimension. */
static void add_array(Dump *dump, const char *key, const char *dtype, size_t item_bytes, size_t a, size_t b,
                      size_t c) {
    NpzArray *array = &dump->arrays[dump->n_arrays++];
    *array = (NpzArray){.item_bytes = item_bytes, .n_dims = c ? 3 : b ? 2 : 1, .shape = {a, b, c}};
    snprintf(array->key, sizeof array->key, "%s", key);
    snprintf(array->dtype, sizeof array->dtype, "%s", dtype);
    dump->n_bytes += npz_array_bytes(array);
}

/* An array of the numbers of what an option's list chose. */
static void add_chosen(Dump *dump, const char *key, const Chosen *chosen) {
    if (chosen->list) add_array(dump, key, "<i8", sizeof(int64_t), chosen->n, 0, 0);
}

static size_t *array_of(const Dump *dump, ProbeSite site, size_t layer) {
    return &dump->array_of[(size_t)site * (dump->config->n_layer + 1) + layer];
}

/* Rows of heads lie [position][head], but [head][position] where their columns are keys. */
static void add_site(Dump *dump, ProbeSite site, size_t layer) {
    const Chosen *heads = heads_of(dump, site);
    bool of_keys = site == PROBE_SCORES || site == PROBE_PATTERN;
    size_t n = dump->positions.n, cols = n_cols(dump, site);
    char key[64];
    if (is_outside(site))
        snprintf(key, sizeof key, "%s", sites[site].hook);
    else
        snprintf(key, sizeof key, "blocks.%zu.%s", layer, sites[site].hook);
    *array_of(dump, site, layer) = dump->n_arrays;
    add_array(dump, key, dump->half ? "<f2" : "<f4", dump->half ? 2 : 4, of_keys ? heads->n : n,
              !heads    ? cols
              : of_keys ? n
                        : heads->n,
              heads ? cols : 0);
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

enum {
    TOKENS,
    STR_TOKENS,
    CHOSEN
}; /* the first arrays of the file; CHOSEN: from there on, as far as there are any */

static void list_arrays(Dump *dump) {
    const Tokens *tokens = &dump->study->subject.tokens;
    size_t n_layer = dump->config->n_layer, width = 1;
    char dtype[24];
    for (size_t i = 0; i < PROBE_N_SITES * (n_layer + 1); i++) dump->array_of[i] = NONE;
    for (size_t i = 0; i < tokens->n; i++) {
        size_t n = token_characters(dump->study, tokens->ids[i], NULL);
        if (n > width) width = n;
    }
    snprintf(dtype, sizeof dtype, "<U%zu", width);
    add_array(dump, "tokens", "<i8", sizeof(int64_t), tokens->n, 0, 0);
    add_array(dump, "str_tokens", dtype, sizeof(uint32_t) * width, tokens->n, 0, 0);
    add_chosen(dump, "positions", &dump->positions);
    add_chosen(dump, "heads", &dump->heads);
    add_chosen(dump, "kv_heads", &dump->kv_heads);
    for (size_t layer = 0; layer <= n_layer; layer++)
        for (ProbeSite site = 0; site < PROBE_N_SITES; site++)
            if (dump->wanted[site] &&
                (is_outside(site) || layer == n_layer || dump->layers.row[layer] != NONE) &&
                layer_has(dump->study->model, site, layer))
                add_site(dump, site, layer);
}

/* Writes nothing any more after a failure. */
static void write_items(Dump *dump, size_t array, size_t first, const void *items, size_t n) {
    dump->failed = dump->failed || !npz_write(dump->writer, array, first, items, n, dump->error);
}

static void write_floats(Dump *dump, size_t array, size_t first, const float *values, size_t n) {
    if (!dump->half) {
        write_items(dump, array, first, values, n);
        return;
    }
    dump->study->subject.compute.kernels->pack_f16(dump->halves, values, n);
    for (size_t i = 0; i < n; i++)
        dump->n_overflowed += (dump->halves[i] & 0x7fff) == 0x7c00 && isfinite(values[i]);
    write_items(dump, array, first, dump->halves, n);
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
static void write_row(Dump *dump, size_t array, const Activation *seen, size_t row, const float *values) {
    const Config *config = dump->config;
    const Chosen *heads = heads_of(dump, seen->site);
    size_t head = heads ? heads->row[seen->head] : 0, n = seen->n_cols;
    bool turns = seen->site == PROBE_Q || seen->site == PROBE_K || seen->site == PROBE_ROT_Q ||
                 seen->site == PROBE_ROT_K;
    if (seen->site == PROBE_SCORES || seen->site == PROBE_PATTERN) {
        size_t n_keys = dump->positions.n_all;
        memcpy(dump->row, values, n * sizeof *values);
        for (size_t key = n; key < n_keys; key++) dump->row[key] = seen->site == PROBE_SCORES ? -INFINITY : 0;
        write_floats(dump, array, (head * dump->positions.n + row) * n_keys, dump->row, n_keys);
        return;
    }
    if (turns && config->rope.pairing == ROPE_NEIGHBOURS && !config->family->trained_neighbours) {
        separate_pairs(dump->row, values, config->rope.dim, n);
        values = dump->row;
    }
    write_floats(dump, array, (row * (heads ? heads->n : 1) + head) * n, values, n);
}

static bool wants(void *user, ProbeSite site, size_t layer, size_t head) {
    const Dump *dump = user;
    const Chosen *heads = heads_of(dump, site);
    return *array_of(dump, site, layer) != NONE && (!heads || heads->row[head] != NONE);
}

static void visit(void *user, const Activation *seen) {
    Dump *dump = user;
    size_t array = *array_of(dump, seen->site, seen->layer);
    for (size_t i = 0; i < seen->n_rows && !dump->failed; i++) {
        size_t row = dump->positions.row[seen->position + i];
        if (row != NONE) write_row(dump, array, seen, row, seen->data + i * seen->stride);
    }
}

/* The probe has seen them: subject_feed only needs to hear that logits are wanted. */
static void ignore_logits(void *user, size_t position, const float *logits) {
    (void)user, (void)position, (void)logits;
}

static void write_chosen(Dump *dump, size_t *array, const Chosen *chosen) {
    if (!chosen->list) return;
    for (size_t i = 0; i < chosen->n_all; i++) {
        int64_t number = (int64_t)i;
        if (chosen->row[i] != NONE) write_items(dump, *array, chosen->row[i], &number, 1);
    }
    ++*array;
}

/* The arrays that describe the text. A token's characters are UTF-32, zeros behind them. */
static bool write_text(Dump *dump, Arena *arena, Error *error) {
    const Tokens *tokens = &dump->study->subject.tokens;
    size_t n_bytes = dump->arrays[STR_TOKENS].item_bytes, array = CHOSEN;
    uint32_t *characters = arena_new(arena, 1, n_bytes);
    if (!arena_ok(arena, error, "a token of %zu bytes", n_bytes)) return false;
    for (size_t i = 0; i < tokens->n; i++) {
        int64_t id = tokens->ids[i];
        memset(characters, 0, n_bytes);
        token_characters(dump->study, tokens->ids[i], characters);
        write_items(dump, TOKENS, i, &id, 1);
        write_items(dump, STR_TOKENS, i, characters, 1);
    }
    write_chosen(dump, &array, &dump->positions);
    write_chosen(dump, &array, &dump->heads);
    write_chosen(dump, &array, &dump->kv_heads);
    return !dump->failed;
}

static bool write_arrays(Dump *dump, Arena *arena, Error *error) {
    const Subject *subject = &dump->study->subject;
    Probe probe = {dump, wants, visit};
    Session *session = subject_session(subject, 0, &probe, error);
    if (!session) return false;
    const Inputs inputs = study_inputs(dump->study);
    dump->writer = npz_create(dump->output, &inputs, dump->arrays, dump->n_arrays, error);
    bool ok =
        dump->writer && write_text(dump, arena, error) &&
        subject_feed(subject, session, subject->tokens.ids, subject->tokens.n,
                     dump->wanted[PROBE_LOGITS] || dump->wanted[PROBE_FINAL_SCALE] ? ignore_logits : NULL,
                     NULL, error);
    session_free(session);
    if (!ok || dump->failed) return false;
    NpzWriter *writer = dump->writer;
    dump->writer = NULL;
    return npz_finish(writer, error);
}

static bool allocate(Dump *dump, Arena *arena, Error *error) {
    const Config *config = dump->config;
    size_t n_slots = PROBE_N_SITES * (config->n_layer + 1), longest = 0;
    for (ProbeSite site = 0; site < PROBE_N_SITES; site++)
        if (n_cols(dump, site) > longest) longest = n_cols(dump, site);
    dump->arrays = arena_new(arena, n_slots + 5, sizeof *dump->arrays);
    dump->array_of = arena_new(arena, n_slots, sizeof *dump->array_of);
    dump->row = arena_floats(arena, 1, longest);
    dump->halves = arena_new(arena, dump->half ? longest : 0, sizeof *dump->halves);
    return arena_ok(arena, error, "%zu arrays", n_slots);
}

static bool compute(Study *study, void *view, Error *error) {
    Dump *dump = view;
    Arena *arena = &study->arena;
    dump->study = study;
    dump->config = model_config(study->model);
    dump->error = error;
    if (!parse_what(dump, error) || !choose(dump, arena, error) || !allocate(dump, arena, error))
        return false;
    list_arrays(dump);
    return write_arrays(dump, arena, error);
}

static void show_bytes(Report *report, const char *key, const void *array) {
    uint64_t n_bytes = npz_array_bytes(array);
    if (is_json(report))
        json_int(report, key, (int64_t)n_bytes);
    else
        printf("%12" PRIu64, n_bytes);
}

static void show_shape(Report *report, const char *key, const void *row) {
    const NpzArray *array = row;
    if (is_json(report)) json_array(report, key);
    for (size_t i = 0; i < array->n_dims; i++)
        if (is_json(report))
            json_int(report, NULL, (int64_t)array->shape[i]);
        else
            printf("%s%zu", i ? " x " : "  ", array->shape[i]);
    if (is_json(report)) json_end_array(report);
}

static const Column columns[] = {
    {"key", "key", CELL_NAME, offsetof(NpzArray, key), -37},
    {"dtype", "type", CELL_NAME, offsetof(NpzArray, dtype), -7},
    {NULL, "bytes", CELL_SHOWN, .width = 12, .show = show_bytes},
    {"shape", "  shape", CELL_SHOWN, .show = show_shape},
    {"bytes", NULL, CELL_SHOWN, .show = show_bytes},
};
static const Table table = TABLE("arrays", columns);

static bool show(Study *study, void *view, Error *error) {
    const Dump *dump = view;
    Report *report = &study->report;
    (void)error;
    if (is_json(report)) json_text(report, "file", dump->output, SIZE_MAX);
    table_show(report, &table, 0, dump->arrays, dump->n_arrays, sizeof *dump->arrays);
    if (is_json(report)) {
        json_int(report, "bytes", (int64_t)dump->n_bytes);
        json_int(report, "n_overflowed", (int64_t)dump->n_overflowed);
        return true;
    }
    putchar('\n');
    print_path(report, dump->output);
    printf(": %zu arrays, %.1f MB; numpy.load(\"", dump->n_arrays, (double)dump->n_bytes / 1e6);
    print_path(report, dump->output);
    puts("\")[\"tokens\"]");
    if (dump->n_overflowed)
        printf("%" PRIu64 " numbers are beyond float16's 65504 and became infinite; leave out --half\n",
               dump->n_overflowed);
    return true;
}

static void free_dump(void *view) { npz_abandon(((Dump *)view)->writer); }

#define AT(member) offsetof(Dump, member)

static const Option options[] = {
    {"--output", "-o", OPTION_ONCE, AT(output), .file = true}, {"--what", NULL, OPTION_ONCE, AT(what)},
    {"--layers", NULL, OPTION_ONCE, AT(layers.list)},          {"--heads", NULL, OPTION_ONCE, AT(heads.list)},
    {"--positions", NULL, OPTION_ONCE, AT(positions.list)},    {"--half", NULL, OPTION_ON, AT(half)},
};

const View view_dump = {
    .name = "dump",
    .summary = "arrays for NumPy, with TransformerLens's names",
    .help =
        "  -o, --output FILE.npz   (needed)\n"
        "  --what LIST     pattern,scores,q,k,v,z,rot_q,rot_k,embed,pos_embed,resid_pre,resid_mid,resid_post,\n"
        "                  attn_out,mlp_out,mlp_pre,mlp_pre_linear,mlp_post,ln1_scale,ln2_scale,ln_final_scale,\n"
        "                  logits; of experts router_logits,expert_weights (all that there are); result\n"
        "  --layers LIST, --heads LIST, --positions LIST   0,3,5-7 (all)\n"
        "  --half          float16\n",
    .needs = NEEDS_MODEL | NEEDS_TEXT,
    VIEW_OPTIONS(options),
    .size = sizeof(Dump),
    .check = check,
    .compute = compute,
    .show = show,
    .free = free_dump,
};
