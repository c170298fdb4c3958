/*
 * Two descriptions: of a model that can be opened, counted by what its matrices do; and of a checkpoint that cannot,
 * counted by type, with what its keys say. Names come from the file, and are shown as JSON strings.
 */
#include "cli/info.h"

#include "cli/counts.h"
#include "cli/notes.h"
#include "cli/print.h"
#include "open.h"
#include "vocabulary.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { N_TYPES = 64 /* numbers of types that are looked up */ };

typedef struct Info {
    FILE *out;
    const char *path;
    Model *model; /* or NULL: it cannot be opened */
    const Checkpoint *checkpoint;
    const Tokenizer *tokenizer;   /* or NULL */
    Error no_model, no_tokenizer; /* why there is none, or none that fits; "" if nothing is wrong */
} Info;

/* The string under a key as JSON, behind `title`; nothing if there is none. */
static void print_string(const Info *info, const char *title, const char *key) {
    String text = {0};
    if (!checkpoint_string(info->checkpoint, key, &text, NULL) || !text.data) return;
    fputs(title, info->out);
    print_json_string(info->out, text.data, (size_t)string_shown(text));
}

static void print_file(const Info *info) {
    fputs("file         ", info->out);
    print_name(info->out, checkpoint_path(info->checkpoint));
    fprintf(info->out, " (%s, %.1f MiB)\n", checkpoint_format(info->checkpoint),
            (double)checkpoint_file_bytes(info->checkpoint) / (1 << 20));
    uint64_t turned = checkpoint_turned_bytes(info->checkpoint);
    if (turned)
        fprintf(info->out,
                "turned       %.1f MiB of weights, which lie otherwise in this folder, are in memory\n",
                (double)turned / (1 << 20));
    if (checkpoint_has(info->checkpoint, "attn.unread_keys")) {
        print_string(info, "not read     of config.json: ", "attn.unread_keys");
        putc('\n', info->out);
    }
    uint64_t left_out = checkpoint_left_out_bytes(info->checkpoint);
    if (left_out)
        fprintf(
            info->out,
            "left out     %.1f MiB of weights beside the text model, for pictures or for tokens further on\n",
            (double)left_out / (1 << 20));
}

static void print_tokenizer(const Info *info) {
    const Tokenizer *tokenizer = info->tokenizer;
    StringArray pieces;
    if (tokenizer) {
        fprintf(info->out, "tokenizer    %s, %zu tokens, bos %" PRId32 "%s, eos %" PRId32 "\n",
                tokenizer_kind(tokenizer), tokenizer_n_vocab(tokenizer), tokenizer_bos(tokenizer),
                tokenizer_adds_bos(tokenizer) ? " (put in front)" : "", tokenizer_eos(tokenizer));
    } else if (checkpoint_has(info->checkpoint, "tokenizer.ggml.model")) {
        fputs("tokenizer   ", info->out);
        print_string(info, " ", "tokenizer.ggml.model");
        print_string(info, ", pre ", "tokenizer.ggml.pre");
        if (checkpoint_strings(info->checkpoint, "tokenizer.ggml.tokens", &pieces, NULL) && pieces.n)
            fprintf(info->out, ", %zu tokens", pieces.n);
        putc('\n', info->out);
    } else if (checkpoint_has_vocabulary(info->checkpoint)) {
        fputs("tokenizer    tokenizer.json\n", info->out);
    } else {
        fprintf(info->out, "tokenizer    none in this file; name one with -z\n");
    }
}

void print_sampling(FILE *out, const SamplingFields *fields) {
    static const char *const origins[] = {
        [ORIGIN_USUAL] = "", [ORIGIN_FILE] = " (file)", [ORIGIN_GIVEN] = " (given)"};
    const char *between = "";
    for (size_t i = 0; i < N_SAMPLING_FIELDS; i++) {
        const SamplingField *field = &fields->fields[i];
        if (!field->acts || (field->origin == ORIGIN_USUAL && field->value == field->off)) continue;
        int digits = field->value == floor(field->value) ? 10 : 6; /* 0.8 is a float's */
        fprintf(out, "%s%s %.*g%s", between, field->name, digits, field->value, origins[field->origin]);
        between = ", ";
    }
    if (fields->order != ORIGIN_USUAL)
        fprintf(out, "%san order of its own%s", between, origins[fields->order]);
    else if (fields->n_passed_over) /* the file's has nothing else */
        fprintf(out, "%sthe usual order", between);
    else if (!*between)
        fputs("the model's own probabilities", out);
    for (size_t i = 0; i < fields->n_passed_over; i++)
        fprintf(out, "%s%s", i ? ", " : " without ", fields->passed_over[i]);
    if (fields->n_not_done) {
        fputs("; not done here, though the file asks for it: ", out);
        print_not_done(out, fields);
    }
}

/* How text is drawn without options. */
static void print_how_sampled(const Info *info) {
    SamplerOptions options = SAMPLING_UNSET;
    SamplingFields fields;
    Error error;
    fputs("sampling     ", info->out);
    if (sampling_settle(&options, info->checkpoint, &fields, &error))
        print_sampling(info->out, &fields);
    else
        fprintf(info->out, "refused: %s", error.message);
    putc('\n', info->out);
}

static void print_types(const Info *info) {
    fprintf(info->out, "types       ");
    for (uint32_t type = 0; type < N_TYPES; type++) {
        size_t n = 0;
        for (size_t i = 0; dtype_info(type) && i < checkpoint_n_tensors(info->checkpoint); i++)
            n += checkpoint_tensor(info->checkpoint, i)->dtype == (DType)type;
        if (n) fprintf(info->out, " %s in %zu tensors ", dtype_info(type)->name, n);
    }
    putc('\n', info->out);
}

static void print_counts(const Info *info) {
    Count counts[N_COUNTS];
    uint64_t parameters = 0, bytes = 0;
    count_weights(info->model, counts);
    fprintf(info->out, "\n%-12s %15s %15s\n", "", "parameters", "bytes");
    for (CountKind kind = 0; kind < N_COUNTS; kind++) {
        parameters += counts[kind].parameters;
        bytes += counts[kind].bytes;
        if (counts[kind].parameters)
            fprintf(info->out, "%-12s %15" PRIu64 " %15" PRIu64 "\n", count_name(kind),
                    counts[kind].parameters, counts[kind].bytes);
        else if (kind == COUNT_UNEMBEDDING)
            fprintf(info->out, "%-12s %15s %15s\n", count_name(kind), "= embedding", "");
    }
    fprintf(info->out, "%-12s %15" PRIu64 " %15" PRIu64 "\n", "all", parameters, bytes);
}

static void print_windows(const Info *info, const Config *config) {
    size_t n_local = 0;
    for (size_t layer = 0; layer < config->n_layer; layer++) n_local += config_is_local(config, layer);
    if (n_local)
        fprintf(info->out, "window       %zu of %zu layers see, and keep, the last %zu tokens\n", n_local,
                config->n_layer, config->window);
}

/* Tells what lies in the file and is not computed. */
static void print_left_out(const Info *info, const Config *config) {
    size_t n = 0;
    for (size_t i = 0; config->family->reads_pictures && i < checkpoint_n_tensors(info->checkpoint); i++)
        n += tensor_reads_pictures(checkpoint_tensor(info->checkpoint, i)->name);
    if (n) fprintf(info->out, "left out     %zu tensors, which read pictures\n", n);
    for (size_t i = 0; i < config->n_unread && i < MAX_UNREAD; i++) {
        fputs(i ? ", " : "not read     ", info->out);
        print_json_string(info->out, config->unread[i].data, (size_t)string_shown(config->unread[i]));
    }
    if (config->n_unread > MAX_UNREAD) fprintf(info->out, " and %zu more", config->n_unread - MAX_UNREAD);
    if (config->n_unread) putc('\n', info->out);
}

static void print_model(const Info *info) {
    const Config *config = model_config(info->model);
    AttentionShape shape = model_attention_shape(info->model);
    print_file(info);
    fprintf(info->out, "model        family %s", config->family->architecture);
    print_string(info, ", named ", "general.name");
    fprintf(
        info->out,
        "\nshape        n_layer %zu, n_head %zu, n_head_kv %zu, d_model %zu, d_head %zu, d_ff %zu, n_vocab %zu\n",
        config->n_layer, config->n_head, config->n_head_kv, config->d_model, config->d_head, config->d_ff,
        config->n_vocab);
    fprintf(info->out,
            "context      %zu tokens, KV cache %zu bytes a token in F16, %zu in F32, %zu in Q8_0\n",
            config->n_ctx, attention_kv_bytes(&shape, DTYPE_F16), attention_kv_bytes(&shape, DTYPE_F32),
            attention_kv_bytes(&shape, DTYPE_Q8_0));
    if (model_weights(info->model)->n_states)
        fprintf(info->out, "state        %zu bytes, in %zu of %zu layers\n",
                states_bytes(&config->state, model_weights(info->model)->n_states),
                model_weights(info->model)->n_states, config->n_layer);
    print_windows(info, config);
    if (config->n_expert)
        fprintf(info->out, "experts      %zu of %zu for each token, d_ff %zu\n", config->n_expert_used,
                config->n_expert, config->d_ff_expert);
    print_left_out(info, config);
    print_tokenizer(info);
    print_how_sampled(info);
    print_types(info);
    print_counts(info);
}

/* The number under ARCHITECTURE.suffix, or where layers differ its range, behind `title`. False if there is none. */
static bool print_number(const Info *info, const char *title, String architecture, const char *suffix) {
    char key[128];
    uint64_t number = 0;
    NumberArray numbers;
    snprintf(key, sizeof key, "%.*s.%s", string_shown(architecture), architecture.data, suffix);
    if (!checkpoint_has(info->checkpoint, key)) return false;
    if (checkpoint_u64(info->checkpoint, key, &number, NULL)) {
        fprintf(info->out, "%s%" PRIu64, title, number);
        return true;
    }
    if (!checkpoint_i32s(info->checkpoint, key, &numbers, NULL) || numbers.n == 0) return false;
    int32_t least = i32_at(&numbers, 0), most = least;
    for (size_t i = 1; i < numbers.n; i++) {
        int32_t value = i32_at(&numbers, i);
        if (value < least) least = value;
        if (value > most) most = value;
    }
    fprintf(info->out, "%s%" PRId32, title, least);
    if (least < most) fprintf(info->out, " to %" PRId32, most);
    return true;
}

/* Tells what the keys of any architecture say under the names that they share. */
static void print_keys(const Info *info) {
    static const struct {
        const char *title, *suffix;
    } shape[] = {
        {"n_layer ", "block_count"},
        {"n_head ", "attention.head_count"},
        {"n_head_kv ", "attention.head_count_kv"},
        {"d_model ", "embedding_length"},
        {"d_head ", "attention.key_length"},
        {"d_ff ", "feed_forward_length"},
        {"n_expert ", "expert_count"},
        {"n_expert_used ", "expert_used_count"},
        {"n_vocab ", "vocab_size"},
    };
    String architecture = {"", 0}, type = {"", 0};
    checkpoint_string(info->checkpoint, "general.architecture", &architecture, NULL);
    fputs("model       ", info->out);
    print_string(info, " architecture ", "general.architecture");
    if (architecture.n == 0) fputs(" no architecture is named", info->out);
    checkpoint_string(info->checkpoint, "general.type", &type, NULL);
    if (!string_equals(type, "model"))
        print_string(info, ", type ", "general.type"); /* an adapter, a projector … */
    print_string(info, ", named ", "general.name");
    putc('\n', info->out);
    const char *separator = "shape        ";
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        char title[40];
        snprintf(title, sizeof title, "%s%s", separator, shape[i].title);
        if (print_number(info, title, architecture, shape[i].suffix)) separator = ", ";
    }
    if (*separator == ',') putc('\n', info->out);
    if (print_number(info, "context      ", architecture, "context_length")) fputs(" tokens\n", info->out);
}

/* Tensors of one type. */
typedef struct TypeCount {
    uint64_t tensors, parameters, bytes;
} TypeCount;

static void add_tensor(TypeCount *count, const Tensor *tensor) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < tensor->n_dims; i++) n *= tensor->dims[i]; /* checked when the file was opened */
    count->tensors++;
    count->bytes += tensor->n_bytes;
    /* The file's size bounds nothing of a type that is not known. */
    if (__builtin_add_overflow(count->parameters, n, &count->parameters)) count->parameters = UINT64_MAX;
}

static void print_type_count(const Info *info, const char *name, const TypeCount *count, const char *note) {
    if (count->tensors)
        fprintf(info->out, "%-12s %9" PRIu64 " %15" PRIu64 " %15" PRIu64 "%s\n", name, count->tensors,
                count->parameters, count->bytes, note);
}

/* Tells what the file holds by type; the types that are not known are one row, without bytes. */
static void print_type_counts(const Info *info) {
    TypeCount counts[N_TYPES] = {{0}}, unknown = {0}, all = {0};
    size_t n = checkpoint_n_tensors(info->checkpoint);
    if (n == 0) return;
    for (size_t i = 0; i < n; i++) {
        const Tensor *tensor = checkpoint_tensor(info->checkpoint, i);
        bool known = (uint32_t)tensor->dtype < N_TYPES && checkpoint_type(tensor->dtype);
        add_tensor(known ? &counts[tensor->dtype] : &unknown, tensor);
        add_tensor(&all, tensor);
    }
    fprintf(info->out, "\n%-12s %9s %15s %15s\n", "", "tensors", "parameters", "bytes");
    for (uint32_t type = 0; type < N_TYPES; type++)
        print_type_count(info, checkpoint_type(type) ? checkpoint_type(type)->name : "", &counts[type],
                         dtype_info(type) ? "" : "  not supported");
    if (unknown.tensors)
        fprintf(info->out, "%-12s %9" PRIu64 " %15" PRIu64 " %15s  not supported\n", "unknown",
                unknown.tensors, unknown.parameters, "unknown");
    print_type_count(info, "all", &all, unknown.tensors ? "  and more" : "");
}

static void print_checkpoint(const Info *info) {
    print_file(info);
    print_keys(info);
    print_tokenizer(info);
    print_type_counts(info);
}

/* The line for a reason, if there is one, without the path that it begins with. */
static void print_reason(const Info *info, const Error *reason) {
    Error begin;
    error_set(&begin, "%s: ", info->path);
    const char *text = reason->message;
    size_t n = strlen(begin.message);
    if (strncmp(text, begin.message, n) == 0) text += n;
    if (*text) fprintf(info->out, "cannot run: %s\n", text);
}

static void print_all(const Info *info) {
    if (info->model)
        print_model(info);
    else
        print_checkpoint(info);
    if (*info->no_model.message || *info->no_tokenizer.message) putc('\n', info->out);
    print_reason(info, &info->no_model);
    print_reason(info, &info->no_tokenizer);
}

bool print_info(FILE *out, const char *path, const char *vocabulary, Error *error) {
    Info info = {.out = out, .path = path};
    info.model = model_open(path, &info.no_model);
    Checkpoint *alone = info.model ? NULL : checkpoint_open(path, error), *other = NULL;
    info.checkpoint = info.model ? model_checkpoint(info.model) : alone;
    Tokenizer *tokenizer = NULL;
    if (info.checkpoint && (vocabulary || checkpoint_has_vocabulary(info.checkpoint)))
        tokenizer = tokenizer_open(vocabulary, info.checkpoint, &other, &info.no_tokenizer);
    if (tokenizer && info.model) vocabulary_fits(info.model, tokenizer, vocabulary, &info.no_tokenizer);
    info.tokenizer = tokenizer;
    bool ok = info.checkpoint != NULL;
    if (vocabulary && *info.no_tokenizer.message) ok = error_set(error, "%s", info.no_tokenizer.message);
    if (ok) print_all(&info);
    tokenizer_free(tokenizer);
    checkpoint_close(other);
    checkpoint_close(alone);
    model_close(info.model);
    return ok;
}

void print_tokens(const Tokenizer *tokenizer, const Tokens *tokens, bool verbose) {
    for (size_t i = 0; i < tokens->n; i++) {
        String piece = tokenizer_piece(tokenizer, tokens->ids[i], true);
        if (!verbose) {
            printf("%s%" PRId32, i ? " " : "", tokens->ids[i]);
            continue;
        }
        printf("%6" PRId32 " ", tokens->ids[i]);
        print_json_string(stdout, piece.data, piece.n);
        putchar('\n');
    }
    if (!verbose) putchar('\n');
}
