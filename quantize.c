/*
 * The program that quantises: options, which type each tensor gets (packing/mixes.h), then one pass through the file, a
 * piece of every tensor at a time. Blocks are made by packing/pack.h, the file by packing/writer.h.
 */
#include "attn.h"
#include "base/threads.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/print.h"
#include "cli/process.h"
#include "open.h"
#include "packing/layout.h"
#include "packing/mixes.h"
#include "packing/pack.h"
#include "packing/vocabulary.h"
#include "packing/writer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char help[] =
    "usage: quantize MODEL OUT.gguf TYPE [options]\n"
    "Writes MODEL with its matrices in TYPE: smaller, faster to run, a little worse. MODEL is what run reads,\n"
    "best in F32, F16 or BF16. Norms, biases and other small tensors keep their types.\n"
    "\n"
    "TYPE      bits a weight of most matrices; as llama-quantize, which of them get more\n"
    "  Q8_0    8.5, hardly to be told from F16         Q4_K_M, Q4_K_S  4.5, the usual choice\n"
    "  Q6_K    6.6                                     Q4_1, Q4_0      5.0, 4.5\n"
    "  Q5_K_M, Q5_K_S  5.5                             IQ4_NL, IQ4_XS  4.5, 4.25\n"
    "  Q5_1, Q5_0      6.0, 5.5                        Q3_K_L, Q3_K_M, Q3_K_S, Q2_K  3.4, 2.6\n"
    "  F32, F16, BF16  not quantised                   MXFP4, MXFP4_MOE  4.25, the latter in experts alone\n"
    "\n"
    "      --allow-requantize             take weights that are quantised already, which loses more\n"
    "      --pure                         TYPE for all matrices, none gets more\n"
    "      --output-tensor-type TYPE      for the output matrix (Q8_0, Q6_K, F16 …)\n"
    "      --token-embedding-type TYPE    for the embedding\n"
    "      --leave-output-tensor          the output matrix stays as it is\n"
    "      --dry-run                      only print what each tensor would be\n"
    "  -z, --tokenizer FILE               put this vocabulary in, where MODEL (llama2.c's) has none\n"
    "  -t, --threads N                    (physical cores); the file is the same for any\n"
    "  -v, --verbose                      print each tensor            --version, -h, --help\n"
    "\n"
    "examples:\n"
    "  ./quantize llama-f16.gguf llama-q4_k_m.gguf Q4_K_M\n"
    "  ./quantize llama-f16.gguf llama-q8_0.gguf Q8_0 -t 8 -v\n"
    "  ./quantize --dry-run llama-f16.gguf Q5_K_M\n"
    "  ./quantize model.bin /tmp/small.gguf Q4_0 --allow-requantize\n";

typedef struct Settings {
    const char *words[3];
    const char *model, *out, *output_type, *embedding_type, *tokenizer;
    int64_t n_threads;
    MixOptions mix;
    bool allow_requantize, dry_run, verbose, version, help;
} Settings;

#define AT(member) offsetof(Settings, member)

static const Option known_options[] = {
    {"--allow-requantize", NULL, OPTION_ON, AT(allow_requantize)},
    {"--pure", NULL, OPTION_ON, AT(mix.pure)},
    {"--output-tensor-type", NULL, OPTION_ONCE, AT(output_type)},
    {"--token-embedding-type", NULL, OPTION_ONCE, AT(embedding_type)},
    {"--leave-output-tensor", NULL, OPTION_ON, AT(mix.keep_output)},
    {"--dry-run", NULL, OPTION_ON, AT(dry_run)},
    {"--tokenizer", "-z", OPTION_ONCE, AT(tokenizer), .file = true},
    {"--threads", "-t", OPTION_INT, AT(n_threads), 1, 1024},
    {"--verbose", "-v", OPTION_ON, AT(verbose)},
    {"--version", NULL, OPTION_ON, AT(version)},
    {"--help", "-h", OPTION_ON, AT(help)},
};

/* Types of llama-quantize that nothing here reads. */
static bool is_foreign(const char *name) {
    static const char *const begins[] = {"IQ1_", "IQ2_", "IQ3_", "TQ1_0", "TQ2_0", "NVFP4"};
    bool found = false;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        found |= strncasecmp(name, begins[i], strlen(begins[i])) == 0;
    return found;
}

static bool find_preset(Settings *s, const char *name, Error *error) {
    char names[512] = "";
    s->mix.preset = preset_find(name);
    for (size_t i = 0; i < n_presets && !s->mix.preset; i++) {
        strcat(names, i ? ", " : "");
        strcat(names, preset_at(i)->name);
    }
    if (s->mix.preset) return true;
    if (is_foreign(name))
        return error_set(error, "%s is neither made nor read here; the smallest types are Q3_K_S and Q2_K",
                         name);
    return error_set(error, "there is no type '%s'; there are %s", name, names);
}

static bool parse_dtype(const char *option, const char *name, int *dtype, Error *error) {
    *dtype = NO_DTYPE;
    for (uint32_t i = 0; i < DTYPE_LIMIT && name; i++)
        if (dtype_info(i) && strcasecmp(name, dtype_info(i)->name) == 0) *dtype = (int)i;
    return !name || *dtype != NO_DTYPE ||
           error_set(error, "%s takes the type of a tensor, as Q8_0, Q6_K or F16, not '%s'", option, name);
}

/* MODEL OUT TYPE; with --dry-run MODEL TYPE is enough. */
static bool parse_words(Settings *s, Error *error) {
    static const char usage[] = "./quantize MODEL OUT.gguf TYPE (see ./quantize --help)";
    const char *type = s->words[2];
    s->model = s->words[0], s->out = s->words[1];
    if (!s->model) return error_set(error, "no model is named: %s", usage);
    if (s->dry_run && s->out && !type) type = s->out, s->out = NULL;
    if (type) return find_preset(s, type, error);
    if (!s->out) return error_set(error, "no output and no type are named: %s", usage);
    return error_set(error, "no %s is named: %s", preset_find(s->out) ? "output" : "type", usage);
}

static bool parse_settings(Settings *s, int argc, char **argv, Error *error) {
    const Options table = {known_options, sizeof known_options / sizeof *known_options, s};
    if (!options_parse(&table, 1, argc, argv, s->words, 3, error)) return false;
    if (s->mix.keep_output && s->output_type)
        return error_set(error, "--leave-output-tensor leaves nothing to --output-tensor-type");
    return s->help || s->version ||
           (parse_words(s, error) &&
            parse_dtype("--output-tensor-type", s->output_type, &s->mix.output, error) &&
            parse_dtype("--token-embedding-type", s->embedding_type, &s->mix.embedding, error));
}

/* Spans of 256 weights, whole blocks of any type; a batch goes to the file at once. */
enum { PIECE = 4096, PIECES = 256 };

typedef struct Work {
    const Settings *settings;
    Error differs; /* of what the vocabulary's keys make other tokens than the folder; "": of nothing */
    Error no_keys; /* why the vocabulary has no keys of GGUF; "": it has some */
    Checkpoint *model, *vocabulary; /* NULL: the model has its own, or none */
    DType *types;                   /* [tensors of the model] */
    size_t n_fallbacks;
    Threads *threads;
    SumTries *adder; /* of this CPU */
    OutputFile output;
    GgufWriter writer;
    float *weights;       /* [threads][PIECE] */
    unsigned char *bytes; /* of a batch */
    size_t done, total;   /* bytes read */

    /* The batch that the threads are at. */
    const Tensor *tensor;
    const unsigned char *from;
    DType to;
    size_t n_weights;
    bool bad[PIECES]; /* whether a piece has a weight that cannot be stored */
} Work;

static bool open_model(Work *work, Error *error) {
    const Settings *s = work->settings;
    work->model = checkpoint_open_with(s->model, progress_or_stop, NULL, error);
    if (!work->model || !checkpoint_lay_out(work->model, error) ||
        !vocabulary_add(work->model, &work->no_keys, &work->differs, error))
        return false;
    if (!s->tokenizer) return true;
    if (checkpoint_has_vocabulary(work->model))
        return error_set(error, "%s has a vocabulary of its own; leave out -z", s->model);
    work->vocabulary = checkpoint_open_vocabulary(s->tokenizer, error);
    if (!work->vocabulary) return false;
    return checkpoint_has_vocabulary(work->vocabulary) ||
           error_set(error, "%s: no vocabulary is in it", s->tokenizer);
}

/* Whether a tensor can be what it is to be. */
static bool check_tensor(const Work *work, const Tensor *tensor, DType to, Error *error) {
    const Settings *s = work->settings;
    const DTypeInfo *info = checkpoint_type(tensor->dtype);
    const char *name = tensor->name.data;
    int shown = string_shown(tensor->name);
    if (!info)
        return error_set(error, "%s: tensor '%.*s' is of type %" PRIu32 ", of which nothing is known here",
                         s->model, shown, name, (uint32_t)tensor->dtype);
    if (to == tensor->dtype) return true;
    if (!dtype_info(tensor->dtype))
        return error_set(
            error, "%s: tensor '%.*s' is of type %s, which is not read here; take the model in F16 or BF16",
            s->model, shown, name, info->name);
    if (dtype_is_quantised(tensor->dtype) && dtype_is_quantised(to) && !s->allow_requantize)
        return error_set(
            error,
            "%s: tensor '%.*s' is quantised already (%s), and to do it twice loses more: take the model in "
            "F16 or BF16, or say --allow-requantize",
            s->model, shown, name, info->name);
    return true;
}

static bool choose(Work *work, Error *error) {
    const Settings *s = work->settings;
    size_t n = checkpoint_n_tensors(work->model);
    work->types = malloc((n + 1) * sizeof *work->types);
    if (!work->types) return error_set(error, "%s: not enough memory", s->model);
    if (!choose_types(work->model, &s->mix, work->types, &work->n_fallbacks, error)) return false;
    for (size_t i = 0; i < n; i++) {
        const Tensor *tensor = checkpoint_tensor(work->model, i);
        if (!check_tensor(work, tensor, work->types[i], error)) return false;
        work->total += (size_t)tensor->n_bytes; /* all are mapped, so it fits */
    }
    return true;
}

static bool are_finite(const float *x, size_t n) {
    uint32_t found = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        found |= (bits & 0x7f800000) == 0x7f800000;
    }
    return !found;
}

/* Some pieces of the batch. */
static void convert_pieces(void *context, size_t begin, size_t end, unsigned worker) {
    Work *work = context;
    float *x = work->weights + (size_t)worker * PIECE;
    const DType from = work->tensor->dtype, to = work->to;
    for (size_t i = begin; i < end; i++) {
        size_t at = i * PIECE, n = work->n_weights - at < PIECE ? work->n_weights - at : PIECE;
        const unsigned char *source = work->from + dtype_bytes(from, at);
        unsigned char *target = work->bytes + dtype_bytes(to, at);
        dtype_unpack(x, from, source, n);
        if (from == to) memcpy(target, source, dtype_bytes(to, n));
        work->bad[i] = !are_finite(x, n) || (from != to && !pack_row(target, to, x, n, work->adder));
    }
}

/* Says which row of the batch, which begins at weight batch_at, is the first that the new type cannot hold. */
static bool refuse_weight(Work *work, uint64_t batch_at, Error *error) {
    const Tensor *tensor = work->tensor;
    const size_t block = dtype_info(work->to)->block;
    size_t piece = 0, i = 0;
    float *x = work->weights;
    while (!work->bad[piece]) piece++;
    size_t at = piece * PIECE, n = work->n_weights - at < PIECE ? work->n_weights - at : PIECE;
    dtype_unpack(x, tensor->dtype, work->from + dtype_bytes(tensor->dtype, at), n);
    while (i + block < n && are_finite(x + i, block) &&
           pack_row(work->bytes, work->to, x + i, block, work->adder))
        i += block;
    uint64_t row = (batch_at + at + i) / tensor->dims[0];
    return error_set(
        error, "%s: tensor '%.*s' has %s in row %" PRIu64 "; %s", work->settings->model,
        string_shown(tensor->name), tensor->name.data,
        are_finite(x + i, block) ? "weights that the new type cannot hold" : "NaN or infinity", row,
        are_finite(x + i, block) ? "they are too large; BF16 and F32 hold more" : "the file is damaged");
}

static bool write_bytes(Work *work, const void *bytes, size_t n, Error *error) {
    return writer_add(&work->writer, bytes, n) || output_failed(&work->output, error);
}

static bool tell_progress(Work *work, size_t n, Error *error) {
    work->done += n;
    show_progress("MiB quantised", work->done >> 20, work->total >> 20);
    return !interrupted() || error_set(error, "interrupted");
}

/* A tensor that cannot be read, such as one of whole numbers, is carried over. */
static bool copy_tensor(Work *work, const Tensor *tensor, const unsigned char *from, Error *error) {
    const size_t most = (size_t)PIECE * PIECES;
    for (uint64_t at = 0, n; at < tensor->n_bytes; at += n) {
        n = tensor->n_bytes - at < most ? tensor->n_bytes - at : most;
        if (!write_bytes(work, from + at, (size_t)n, error) || !tell_progress(work, (size_t)n, error))
            return false;
    }
    return true;
}

static bool convert_tensor(Work *work, const Tensor *tensor, const unsigned char *from, DType to,
                           Error *error) {
    const uint64_t most = (uint64_t)PIECE * PIECES;
    const DTypeInfo *info = dtype_info(tensor->dtype);
    uint64_t n = tensor->n_bytes / info->block_bytes * info->block; /* which 32 bits may not hold */
    work->tensor = tensor, work->to = to;
    for (uint64_t at = 0; at < n; at += work->n_weights) {
        work->from = from + (size_t)(at / info->block * info->block_bytes);
        work->n_weights = n - at < most ? (size_t)(n - at) : (size_t)most;
        size_t n_pieces = (work->n_weights + PIECE - 1) / PIECE;
        parallel_for(work->threads, n_pieces, 1, convert_pieces, work);
        for (size_t i = 0; i < n_pieces; i++)
            if (work->bad[i]) return refuse_weight(work, at, error);
        if (!write_bytes(work, work->bytes, dtype_bytes(to, work->n_weights), error) ||
            !tell_progress(work, dtype_bytes(tensor->dtype, work->n_weights), error))
            return false;
    }
    return true;
}

static bool write_file(Work *work, Error *error) {
    const Settings *s = work->settings;
    size_t n = checkpoint_n_tensors(work->model);
    const Inputs inputs = {.model = work->model, .vocabulary = work->vocabulary};
    if (!output_open(&work->output, s->out, &inputs, error)) return false;
    if (!writer_begin(&work->writer, work->output.file, work->model, work->vocabulary, work->types,
                      s->mix.preset->file_type))
        return output_failed(&work->output, error);
    for (size_t i = 0; i < n; i++) {
        const Tensor *tensor = checkpoint_tensor(work->model, i);
        const unsigned char *from = checkpoint_weights(work->model, i, error);
        bool ok =
            from && (dtype_info(tensor->dtype) ? convert_tensor(work, tensor, from, work->types[i], error)
                                               : copy_tensor(work, tensor, from, error));
        if (!ok) return false;
        if (!writer_pad(&work->writer)) return output_failed(&work->output, error);
    }
    if (checkpoint_changed(work->model))
        return error_set(error, "%s: the file was written to while it was read; try again", s->model);
    return output_finish(&work->output, error);
}

static bool quantize(Work *work, Error *error) {
    const Settings *s = work->settings;
    unsigned n_threads = s->n_threads ? (unsigned)s->n_threads : threads_physical_cores();
    work->adder = sum_tries_fastest();
    work->threads = threads_new(n_threads, error);
    if (!work->threads) return false;
    work->weights = malloc(n_threads * PIECE * sizeof *work->weights);
    work->bytes = malloc((size_t)PIECE * PIECES * sizeof(float));
    if (!work->weights || !work->bytes) return error_set(error, "%s: not enough memory", s->out);
    bool ok = write_file(work, error);
    show_progress("", 1, 1);
    return ok;
}

static void print_tensors(const Work *work) {
    for (size_t i = 0; i < checkpoint_n_tensors(work->model); i++) {
        const Tensor *tensor = checkpoint_tensor(work->model, i);
        char name[65], shape[100];
        snprintf(name, sizeof name, "%.*s", string_shown(tensor->name), tensor->name.data);
        size_t n = 0;
        for (uint32_t k = tensor->n_dims; k-- > 0;)
            n += (size_t)snprintf(shape + n, sizeof shape - n, "%" PRIu64 "%s", tensor->dims[k],
                                  k ? " x " : "");
        print_name(stdout, name);
        int padding = 32 - (int)strlen(name);
        printf("%*s %16s  %-6s -> %-6s %12" PRIu64 "\n", padding > 0 ? padding : 0, "", shape,
               checkpoint_type(tensor->dtype)->name, checkpoint_type(work->types[i])->name,
               writer_tensor_bytes(tensor, work->types[i]));
    }
}

/*
 * Keys that the file has and attn reads, but llama.cpp does not, whose numbers are others therefore. A bool that is as
 * llama.cpp has it is no such key, and it takes the formula of GELU that is meant by gelu_new for exact ones, too.
 */
static void note_unread_keys(const Work *work) {
    static const struct {
        const char *only, *suffix; /* architectures between spaces; NULL: all */
        bool usual;
    } keys[] = {
        {" gemma2 gemma3 mpt ", "attention.scale", false},
        {" olmoe ", "attention.clamp_kqv", false},
        {" olmoe qwen2moe ", "expert_weights_norm", false},
        {" qwen3moe ", "expert_weights_norm", true},
        {" smollm3 ", "rope.layer_pattern", false},
        {NULL, "hidden_activation", false},
        {" llama qwen2 qwen2moe qwen3 qwen3moe starcoder2 phi3 ", "attention.sliding_window", false},
    };
    String architecture = {"", 0}, act = {"", 0};
    char key[128], spaced[64];
    uint64_t n_ctx = UINT64_MAX;
    checkpoint_string(work->model, "general.architecture", &architecture, NULL);
    snprintf(key, sizeof key, "%.*s.context_length", string_shown(architecture), architecture.data);
    checkpoint_u64(work->model, key, &n_ctx, NULL);
    snprintf(spaced, sizeof spaced, " %.*s ", string_shown(architecture), architecture.data);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        bool value = !keys[i].usual;
        snprintf(key, sizeof key, "%.*s.%s", string_shown(architecture), architecture.data, keys[i].suffix);
        if (!checkpoint_has(work->model, key) || (keys[i].only && !strstr(keys[i].only, spaced))) continue;
        if (checkpoint_bool(work->model, key, &value, NULL) && value == keys[i].usual) continue;
        uint64_t window = 0; /* one of 0, or as long as the context, hides nothing */
        if (checkpoint_u64(work->model, key, &window, NULL) && (window == 0 || window >= n_ctx)) continue;
        if (checkpoint_string(work->model, key, &act, NULL) && string_equals(act, "gelu_new") &&
            strstr(" gptneox falcon ", spaced))
            continue;
        fprintf(stderr,
                "quantize: note: llama.cpp does not read '%s', and computes other numbers from this file\n",
                key);
    }
}

enum { N_TYPES = 64 /* more than ggml has, and than check_tensor knows */ };

static void report(const Work *work) {
    const Settings *s = work->settings;
    uint64_t before = 0, after = 0, n_weights = 0;
    size_t counts[N_TYPES] = {0};
    for (size_t i = 0; i < checkpoint_n_tensors(work->model); i++) {
        const Tensor *tensor = checkpoint_tensor(work->model, i);
        uint64_t n = 1;
        for (uint32_t k = 0; k < tensor->n_dims; k++) n *= tensor->dims[k];
        before += tensor->n_bytes, after += writer_tensor_bytes(tensor, work->types[i]), n_weights += n;
        counts[work->types[i]]++;
    }
    if (s->dry_run || s->verbose) print_tensors(work);
    if (s->out) print_name(stdout, s->out), printf(": ");
    printf("%s, %.1f MiB in place of %.1f, %.2f bits a weight\n", s->mix.preset->name, (double)after / 0x1p20,
           (double)before / 0x1p20, 8 * (double)after / (double)n_weights);
    const char *of = " tensors";
    for (uint32_t i = 0; i < N_TYPES; i++) {
        if (counts[i]) printf("%s%zu%s in %s", *of ? "" : ", ", counts[i], of, checkpoint_type(i)->name);
        if (counts[i]) of = "";
    }
    putchar('\n');
    if (work->n_fallbacks)
        fprintf(
            stderr,
            "quantize: note: in %zu of %zu tensors the rows are no whole number of blocks; another type takes the "
            "place of the one meant%s\n",
            work->n_fallbacks, checkpoint_n_tensors(work->model),
            s->verbose || s->dry_run ? "" : " (-v shows which)");
    if (*work->no_keys.message)
        fprintf(
            stderr,
            "quantize: note: the vocabulary is in the file as the folder's tokenizer.json alone, which attn reads "
            "and llama.cpp does not: %s\n",
            work->no_keys.message);
    if (strncmp(checkpoint_format(work->model), "GGUF", 4) != 0) note_unread_keys(work);
    if (*work->differs.message)
        fprintf(stderr,
                "quantize: note: GGUF has no key for all that tokenizer.json does; other tokens come of %s\n",
                work->differs.message);
    if (after >= before && dtype_is_quantised(s->mix.preset->dtype))
        fputs("quantize: note: this is no smaller than the model was\n", stderr);
}

static bool work_on(Work *work, Error *error) {
    const Settings *s = work->settings;
    if (!open_model(work, error) || !choose(work, error)) return false;
    if (!s->dry_run && !quantize(work, error)) return false;
    report(work);
    return true;
}

static void close_work(Work *work) {
    output_abandon(&work->output);
    threads_free(work->threads);
    checkpoint_close(work->vocabulary);
    checkpoint_close(work->model);
    free(work->types);
    free(work->weights);
    free(work->bytes);
}

int main(int argc, char **argv) {
    Error error;
    Settings settings = {0};
    Work work = {.settings = &settings};
    name_program(argc ? argv[0] : "", "quantize");
    if (!parse_settings(&settings, argc, argv, &error)) {
        print_error("quantize", &error);
        return EXIT_USAGE;
    }
    catch_signals("quantize");
    bool ok = true;
    if (settings.help)
        print_help(stdout, help);
    else if (settings.version)
        puts("attn " ATTN_VERSION);
    else
        ok = work_on(&work, &error);
    close_work(&work);
    ok = ok && end_output("report", &error);
    if (!ok && !interrupted()) print_error("quantize", &error);
    return end_program(ok ? EXIT_SUCCESS : EXIT_BAD_INPUT);
}
