#include "cli/directions.h"

#include "base/memory.h"
#include "cli/input.h"
#include "cli/npy.h"
#include "cli/options.h"
#include "open.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_NPY_BYTES = 1 << 28, GGUF_ALIGNMENT = 32 };

static const char prefix[] = "direction.";

void directions_free(Directions *directions) {
    free(directions->data);
    free(directions->rows);
    *directions = (Directions){0};
}

static bool make_room(Directions *directions, const char *path, const Model *model, Error *error) {
    const Config *config = model_config(model);
    *directions = (Directions){.n_layer = config->n_layer, .d_model = config->d_model};
    directions->rows = calloc(config->n_layer, sizeof *directions->rows);
    return directions->rows || error_set(error, "%s: not enough memory", path);
}

static bool check_finite(const char *path, const float *row, size_t n, Error *error) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(row[i])) return error_set(error, "%s: a number of its vectors is not finite", path);
    return true;
}

static bool is_zero(const float *row, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (row[i] != 0) return false;
    return true;
}

static bool take_npy(Directions *directions, const char *path, const NpyArray *array, Error *error) {
    size_t n_layer = directions->n_layer, d = directions->d_model;
    if (array->cols != d)
        return error_set(error, "%s: its vectors have %zu numbers, and the model's residual stream has %zu",
                         path, array->cols, d);
    directions->data = array->data; /* freed with them from here on */
    directions->single = array->is_vector || (array->rows == 1 && n_layer > 1);
    if (!directions->single && array->rows != n_layer)
        return error_set(error, "%s: has %zu rows; one is wanted, or one for each of %zu layers", path,
                         array->rows, n_layer);
    for (size_t layer = 0; !directions->single && layer < n_layer; layer++)
        if (!is_zero(array->data + layer * d, d)) directions->rows[layer] = array->data + layer * d;
    return check_finite(path, array->data, array->rows * d, error);
}

static bool read_npy(Directions *directions, const char *path, Error *error) {
    TextBuffer text = {0};
    NpyArray array = {0};
    bool ok = read_text(path, MAX_NPY_BYTES, &text, error) &&
              npy_read(path, text.data, text.n, &array, error) && take_npy(directions, path, &array, error);
    free(text.data);
    if (directions->data != array.data) free(array.data);
    return ok;
}

/* The layer that a tensor's name ends with, as "direction.12" does; SIZE_MAX where it is no such name. */
static size_t layer_of(String name) {
    size_t n = sizeof prefix - 1, layer = 0;
    bool ok = name.n > n && name.n <= n + 6 && memcmp(name.data, prefix, n) == 0 && name.data[n] != '0';
    for (size_t i = n; ok && i < name.n; i++) {
        ok = name.data[i] >= '0' && name.data[i] <= '9';
        layer = 10 * layer + (size_t)(name.data[i] - '0');
    }
    return ok ? layer : SIZE_MAX;
}

static bool take_tensor(Directions *directions, const Checkpoint *checkpoint, const Tensor *tensor,
                        Error *error) {
    size_t layer = layer_of(tensor->name), d = directions->d_model;
    if (layer == SIZE_MAX)
        return checkpoint_error(checkpoint, error,
                                "'%.*s' is no direction: a control vector holds direction.1, direction.2 …",
                                string_shown(tensor->name), tensor->name.data);
    if (layer >= directions->n_layer)
        return checkpoint_error(checkpoint, error, "direction.%zu is for a model of more layers than %zu",
                                layer, directions->n_layer);
    if (tensor->n_dims != 1 || tensor->dims[0] != d || tensor->dtype != DTYPE_F32)
        return checkpoint_error(checkpoint, error, "direction.%zu is not a vector of %zu numbers in F32",
                                layer, d);
    float *row = directions->data + layer * d;
    memcpy(row, tensor->data, d * sizeof *row);
    directions->rows[layer] = row;
    return check_finite(checkpoint_path(checkpoint), row, d, error);
}

/* Notes what the file's keys say of the model that it is for, where that is not so. */
static bool check_hints(Directions *directions, const Checkpoint *checkpoint, const Model *model,
                        Error *error) {
    const char *architecture = model_config(model)->family->architecture;
    String hint = string_from(architecture);
    uint64_t n_layer = 0;
    if (!checkpoint_string(checkpoint, "controlvector.model_hint", &hint, error) ||
        !checkpoint_u64(checkpoint, "controlvector.layer_count", &n_layer, error))
        return false;
    if (!string_equals(hint, architecture))
        checkpoint_error(checkpoint, &directions->note,
                         "it says that it is for '%.*s', and the model is '%s'", string_shown(hint),
                         hint.data, architecture);
    else if (n_layer > directions->n_layer)
        checkpoint_error(checkpoint, &directions->note,
                         "it says that it is for %" PRIu64 " layers, and the model has %zu", n_layer,
                         directions->n_layer);
    return true;
}

static bool read_control_vector(Directions *directions, const char *path, const Model *model, Error *error) {
    Checkpoint *checkpoint = checkpoint_open(path, error);
    if (!checkpoint) return false;
    size_t n = checkpoint_n_tensors(checkpoint);
    directions->data = floats_new(directions->n_layer, directions->d_model);
    bool ok = directions->data || error_set(error, "%s: not enough memory", path);
    if (ok && n == 0) ok = checkpoint_error(checkpoint, error, "it holds no direction");
    for (size_t i = 0; ok && i < n; i++)
        ok = take_tensor(directions, checkpoint, checkpoint_tensor(checkpoint, i), error);
    ok = ok && check_hints(directions, checkpoint, model, error);
    checkpoint_close(checkpoint);
    return ok;
}

/* Looks whether a file begins as NumPy's do; a pipe is not waited for. False with an error where it cannot be read. */
static bool look(const char *path, bool *is_npy, Error *error) {
    char magic[6] = "";
    struct stat status;
    *is_npy = false;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return true;
    FILE *file = fopen(path, "rb");
    if (file) *is_npy = fread(magic, 1, 6, file) == 6 && memcmp(magic, "\x93NUMPY", 6) == 0;
    bool ok = file && !ferror(file);
    if (!ok) error_set(error, "%s: cannot read: %s", path, strerror(errno));
    if (file) fclose(file);
    return ok;
}

bool directions_read(Directions *directions, const char *path, const Model *model, Error *error) {
    bool is_npy;
    if (!make_room(directions, path, model, error) || !look(path, &is_npy, error)) return false;
    return is_npy ? read_npy(directions, path, error) : read_control_vector(directions, path, model, error);
}

void directions_note(const char *program, const Directions *directions) {
    if (*directions->note.message) fprintf(stderr, "%s: note: %s\n", program, directions->note.message);
}

/* A file under way. */
typedef struct Writing {
    OutputFile output;
    uint64_t at; /* bytes written */
    bool ok;
} Writing;

static void put(Writing *writing, const void *bytes, size_t n) {
    writing->at += n;
    writing->ok = writing->ok && fwrite(bytes, 1, n, writing->output.file) == n;
}

static void put_u32(Writing *writing, uint32_t value) { put(writing, &value, sizeof value); }
static void put_u64(Writing *writing, uint64_t value) { put(writing, &value, sizeof value); }

static void put_string(Writing *writing, const char *text) {
    put_u64(writing, strlen(text));
    put(writing, text, strlen(text));
}

static void put_row(Writing *writing, const float *row, size_t d, float strength) {
    for (size_t i = 0; i < d; i++) {
        float value = row ? row[i] * strength : 0;
        put(writing, &value, sizeof value);
    }
}

static void put_text(Writing *writing, const char *key, const char *value) {
    enum { TYPE_STRING = 8 };
    put_string(writing, key);
    put_u32(writing, TYPE_STRING);
    put_string(writing, value);
}

static void pad(Writing *writing) {
    static const char zeros[GGUF_ALIGNMENT];
    put(writing, zeros, (GGUF_ALIGNMENT - writing->at % GGUF_ALIGNMENT) % GGUF_ALIGNMENT);
}

static void put_gguf(Writing *writing, const float *const *rows, float strength, const Config *config) {
    size_t n = 0, d = config->d_model;
    uint64_t bytes = (d * sizeof(float) + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT, offset = 0;
    for (size_t layer = 0; layer < config->n_layer; layer++) n += rows[layer] != NULL;
    put(writing, "GGUF\3\0\0\0", 8);
    put_u64(writing, n);
    put_u64(writing, 2);
    put_text(writing, "general.architecture", "controlvector");
    put_text(writing, "controlvector.model_hint", config->family->architecture);
    for (size_t layer = 0; layer < config->n_layer; layer++) {
        char name[32];
        if (!rows[layer]) continue;
        snprintf(name, sizeof name, "%s%zu", prefix, layer);
        put_string(writing, name);
        put_u32(writing, 1);
        put_u64(writing, d);
        put_u32(writing, DTYPE_F32);
        put_u64(writing, offset);
        offset += bytes;
    }
    pad(writing);
    for (size_t layer = 0; layer < config->n_layer; layer++)
        if (rows[layer]) put_row(writing, rows[layer], d, strength), pad(writing);
}

static void put_npy(Writing *writing, const float *const *rows, float strength, const Config *config) {
    unsigned char header[NPY_HEADER_BYTES];
    npy_header(header, "<f4", (size_t[]){config->n_layer, config->d_model}, 2);
    put(writing, header, sizeof header);
    for (size_t layer = 0; layer < config->n_layer; layer++)
        put_row(writing, rows[layer], config->d_model, strength);
}

static bool is_npy_name(const char *path) { return string_ends(string_from(path), ".npy"); }

bool directions_fit(const char *path, const float *const *rows, Error *error) {
    return is_npy_name(path) || !rows[0] ||
           error_set(
               error,
               "%s: a control vector has no direction behind layer 0; take later layers, or a name that "
               "ends in .npy",
               path);
}

bool directions_write(const char *path, const Inputs *inputs, const float *const *rows, float strength,
                      const Model *model, Error *error) {
    Writing writing = {.ok = true};
    bool ok = output_open(&writing.output, path, inputs, error);
    if (ok) (is_npy_name(path) ? put_npy : put_gguf)(&writing, rows, strength, model_config(model));
    ok = ok && (writing.ok || output_failed(&writing.output, error)) && output_finish(&writing.output, error);
    output_abandon(&writing.output);
    return ok;
}

struct Steer {
    char *path;
    Directions directions;
    Steering steering;
};

/* Cuts the strength off the end of path, "FILE:2"; 1 where there is none. */
static bool cut_strength(char *path, float *strength, Error *error) {
    char *colon = strrchr(path, ':');
    double value;
    const char *end = colon && colon > path ? parse_real(colon + 1, &value) : NULL;
    *strength = 1;
    if (!end || *end) return true;
    if (!(fabs(value) <= MAX_STRENGTH))
        return error_set(error, "%s: the strength is not in %d to %d", path, -MAX_STRENGTH, MAX_STRENGTH);
    *strength = (float)value;
    *colon = '\0';
    return true;
}

static bool read_steering(Steer *steer, const Model *model, Error *error) {
    Steering *steering = &steer->steering;
    if (!cut_strength(steer->path, &steering->strength, error)) return false;
    if (!directions_read(&steer->directions, steer->path, model, error)) return false;
    steering->site = PROBE_RESID_POST;
    steering->directions = steer->directions.rows;
    steering->n_layer = steer->directions.n_layer;
    return !steer->directions.single ||
           error_set(
               error,
               "%s: one vector, of no layer in particular; with --direction, --layers and -o ./study steer "
               "makes a control vector of it",
               steer->path);
}

bool steer_open(Steer **steer, const char *argument, const Model *model, Error *error) {
    *steer = argument ? calloc(1, sizeof **steer) : NULL;
    if (!argument) return true;
    if (!*steer || !((*steer)->path = strdup(argument)))
        return error_set(error, "%s: not enough memory", argument);
    return read_steering(*steer, model, error);
}

const Probe *steer_probe(Steer *steer) { return steer ? steering_probe(&steer->steering) : NULL; }

const char *steer_file(const Steer *steer) { return steer ? steer->path : NULL; }

void steer_note(const Steer *steer) {
    if (steer) directions_note("run", &steer->directions);
}

void steer_free(Steer *steer) {
    if (!steer) return;
    directions_free(&steer->directions);
    free(steer->path);
    free(steer);
}
