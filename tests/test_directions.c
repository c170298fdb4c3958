/*
 * Files of directions (cli/directions.h), as NumPy and llama.cpp have them: the forms that are read, what is refused and how,
 * files that are cut or damaged at random, and what is written, read back. test_study.c has files that NumPy wrote.
 */
#include "anyfile.h" /* first, because it needs more of the system's headers */
#include "cli/directions.h"
#include "cli/npy.h"
#include "gguf.h"
#include "test.h"

static Model *model; /* 2 layers, 40 numbers */
static char path[64];

static void write_bytes(const void *bytes, size_t n) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0) exit(1);
}

static size_t read_bytes(const char *from, unsigned char *bytes, size_t most) {
    FILE *file = fopen(from, "rb");
    size_t n = file ? fread(bytes, 1, most, file) : 0;
    if (!n) exit(1);
    fclose(file);
    return n;
}

/* A .npy of that version, header and items. Returns its bytes. */
static size_t make_npy(unsigned char *bytes, int version, const char *header, const void *items,
                       size_t n_items) {
    size_t n = strlen(header), before = version == 1 ? 10 : 12;
    memcpy(bytes, "\x93NUMPY", 6);
    memcpy(bytes + 6,
           (unsigned char[]){(unsigned char)version, 0, (unsigned char)n, (unsigned char)(n >> 8), 0, 0}, 6);
    memcpy(bytes + before, header, n);
    memcpy(bytes + before + n, items, n_items);
    return before + n + n_items;
}

static void test_npy_forms(void) {
    const uint16_t halves[] = {f32_to_f16(0.5f), f32_to_f16(-2), f32_to_f16(3), f32_to_f16(0.25f)};
    const float floats[] = {0.5f, -2, 3, 0.25f};
    const double doubles[] = {0.5, -2, 3, 0.25};
    static const char *const heads[] = {"{'descr': '<f%d', 'fortran_order': False, 'shape': (4,), }\n",
                                        "{'descr': '<f%d', 'fortran_order': True, 'shape': (4,)}",
                                        "{'descr': '<f%d', 'fortran_order': False, 'shape': (2, 2), }",
                                        "{'shape':(1,4),'descr':'<f%d','fortran_order':False}"};
    static const size_t rows[] = {1, 1, 2, 1};
    for (int width = 2; width <= 8; width *= 2)
        for (size_t i = 0; i < 12; i++) {
            unsigned char bytes[512];
            char header[128];
            NpyArray array;
            Error error = {{0}};
            snprintf(header, sizeof header, heads[i % 4], width);
            const void *items = width == 2   ? (const void *)halves
                                : width == 4 ? (const void *)floats
                                             : doubles;
            size_t n = make_npy(bytes, 1 + (int)i / 4, header, items, 4 * (size_t)width);
            bool ok = npy_read("x", bytes, n, &array, &error);
            CHECK(ok && array.rows == rows[i % 4] && array.rows * array.cols == 4 &&
                      array.is_vector == (i % 4 < 2),
                  "%s: %s", header, error.message);
            CHECK(ok && memcmp(array.data, floats, sizeof floats) == 0, "%s: other numbers", header);
            free(array.data);
        }
}

static void test_npy_refused(void) {
    static const char *const heads[][2] = {
        {"", "not float32"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (4,)}", "not float32"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (4,)}", "not float32"},
        {"{'descr': '<f', 'fortran_order': False, 'shape': (4,)}", "not float32"},
        {"{'descr': '<f", "not float32"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "one or two dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 2)}", "one or two dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4", "one or two dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4)}", "one or two dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-4,)}", "one or two dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
         "one or two dimensions"},
        {"{'descr': '<f4', 'fortran_order': False}", "one or two dimensions"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}", "fortran_order"},
        {"{'descr': '<f4', 'shape': (2, 2)}", "fortran_order"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (5,)}", "do not make"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "do not make"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}", "do not make"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967295, 4294967295)}", "do not make"},
    };
    const float items[4] = {0};
    NpyArray array;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        unsigned char bytes[512];
        Error error = {{0}};
        size_t n = make_npy(bytes, 1, heads[i][0], items, sizeof items);
        bool ok = npy_read("x", bytes, n, &array, &error);
        CHECK(!ok && !array.data && strstr(error.message, heads[i][1]), "%s: %s", heads[i][0], error.message);
    }
    const unsigned char others[][2000] = {
        "\x93NUMPY\x01",       "\x93NUMPY\x04\0\0\0\0", "\x93NUMPX\x01\0\0\0\0", "\x93NUMPY\x01\0\xff\xff",
        "\x93NUMPY\0\0\0\0\0", "\x93NUMPY\x01\0\0\x04"}; /* 1,024 bytes of header */
    static const size_t sizes[] = {7, 12, 12, 12, 12, 2000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Error error = {{0}};
        CHECK(!npy_read("x", others[i], sizes[i], &array, &error) && strstr(error.message, "is no array"),
              "%zu: %s", i, error.message);
    }
}

/* Reads what lies at `path`; a failure has left a line that begins with it. */
static bool read_any(void) {
    Directions directions = {0};
    Error error = {{0}};
    bool ok = directions_read(&directions, path, model, &error);
    check(ok, &error, path);
    directions_free(&directions);
    return ok;
}

static void check_damaged(const char *from) {
    static unsigned char bytes[8192], damaged[8192];
    size_t n = read_bytes(from, bytes, sizeof bytes), n_read = 0;
    uint32_t random = 1;
    write_bytes(bytes, n);
    CHECK(read_any(), "%s is refused", from);
    try_any_file(bytes, n);
    for (size_t cut = 0; cut < n; cut++) {
        write_bytes(bytes, cut);
        CHECK(!read_any(), "%s: its first %zu bytes are read", from, cut);
    }
    for (int i = 0; i < 4000; i++) {
        memcpy(damaged, bytes, n);
        for (int k = 0; k <= i % 4; k++) {
            random = random * 1664525 + 1013904223;
            damaged[(random >> 8) % (i % 2 ? n : 200)] = (unsigned char)(random >> 24);
        }
        write_bytes(damaged, n);
        n_read += read_any();
    }
    CHECK(n_read > 100 && n_read < 4000, "%s: %zu of 4000 damaged files are read", from, n_read);
}

static void test_damaged(void) {
    check_damaged("tests/data/study/one.npy");
    check_damaged("tests/data/study/rows.npy");
    check_damaged("tests/data/study/control.gguf");
}

/* A control vector of one direction behind layer 1, with what it says of the model that it is for. */
static void write_hinted(const char *hint, int type, int32_t n_layer) {
    static unsigned char file[4096];
    Gguf gguf = gguf_begin(3);
    gguf_string(&gguf, "general.architecture", "controlvector");
    if (hint) gguf_string(&gguf, "controlvector.model_hint", hint);
    if (type) gguf_key(&gguf, "controlvector.layer_count", (uint32_t)type, &n_layer, 4);
    gguf_tensor(&gguf, "direction.1", T_F32, 0, 40);
    write_bytes(file, gguf_write(&gguf, file));
}

static void test_hints(void) {
    static const struct {
        const char *hint, *note;
        int type;
        int32_t n_layer;
    } cases[] = {
        {"gpt2", "", 0, 0},
        {NULL, "", I32, 1},
        {"gpt2", "", U32, 2},
        {"llama", "it says that it is for 'llama', and the model is 'gpt2'", I32, 2},
        {"gpt2", "it says that it is for 3 layers, and the model has 2", I32, 3},
        {"gpt2", NULL, I32, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Directions directions = {0};
        Error error = {{0}};
        write_hinted(cases[i].hint, cases[i].type, cases[i].n_layer);
        bool ok = directions_read(&directions, path, model, &error);
        const char *said = directions.note.message;
        CHECK(ok == (cases[i].note != NULL), "%zu: %s", i, error.message);
        if (ok && *cases[i].note)
            CHECK(strncmp(said, path, strlen(path)) == 0 && strstr(said, cases[i].note), "%zu: '%s'", i,
                  said);
        else
            CHECK(*said == '\0', "%zu: '%s'", i, said);
        directions_free(&directions);
    }
}

/* Tensors that are none of this model's directions, and arrays of another shape than its layers. */
static void test_refused(void) {
    static const struct {
        const char *name;
        uint64_t rows, cols;
        const char *says;
    } tensors[] = {
        {"direction.", 0, 40, "'direction.' is no direction"},
        {"direction.01", 0, 40, "'direction.01' is no direction"},
        {"direction.1x", 0, 40, "'direction.1x' is no direction"},
        {"direction.1234567", 0, 40, "'direction.1234567' is no direction"},
        {"directions.1", 0, 40, "'directions.1' is no direction"},
        {"direction.2", 0, 40, "direction.2 is for a model of more layers than 2"},
        {"direction.1", 1, 40, "direction.1 is not a vector of 40 numbers in F32"},
        {"direction.1", 0, 41, "direction.1 is not a vector of 40 numbers in F32"},
        {NULL, 3, 40, "has 3 rows; one is wanted, or one for each of 2 layers"},
        {NULL, 2, 39, "its vectors have 39 numbers, and the model's residual stream has 40"},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        static unsigned char file[4096];
        static const float items[3 * 40] = {0};
        Directions directions = {0};
        Error error = {{0}};
        char header[128];
        Gguf gguf = gguf_begin(3);
        gguf_string(&gguf, "general.architecture", "controlvector");
        if (tensors[i].name) gguf_tensor(&gguf, tensors[i].name, T_F32, tensors[i].rows, tensors[i].cols);
        snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%u, %u)}",
                 (unsigned)tensors[i].rows, (unsigned)tensors[i].cols);
        write_bytes(file, tensors[i].name ? gguf_write(&gguf, file)
                                          : make_npy(file, 1, header, items,
                                                     (size_t)(4 * tensors[i].rows * tensors[i].cols)));
        CHECK(!directions_read(&directions, path, model, &error) && strstr(error.message, tensors[i].says),
              "%s, not '%s'", error.message, tensors[i].says);
        directions_free(&directions);
    }
}

/* One row is a vector of no layer in particular, as many as there are layers one of each, of which zeros are none. */
static void test_rows(void) {
    for (size_t n = 1; n <= 2; n++) {
        static unsigned char file[1024];
        float items[2][40] = {{0}};
        Directions directions = {0};
        Error error = {{0}};
        char header[128];
        items[n - 1][3] = 5;
        snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%u, 40)}",
                 (unsigned)n);
        write_bytes(file, make_npy(file, 1, header, items, n * sizeof items[0]));
        CHECK(directions_read(&directions, path, model, &error), "%s", error.message);
        CHECK(directions.single == (n == 1) && directions.data[40 * (n - 1) + 3] == 5, "%zu rows", n);
        CHECK(!directions.rows[0] &&
                  (n == 1 ? !directions.rows[1] : directions.rows[1] == directions.data + 40),
              "%zu rows", n);
        directions_free(&directions);
    }
}

/* The strength behind the last colon; what is no number belongs to the name. */
static void test_strengths(void) {
    static const char *const cases[][2] = {
        {"/absent:2", "/absent: "},     {"/absent:-2.5", "/absent: "},      {"/absent:x", "/absent:x: "},
        {"/absent:2x", "/absent:2x: "}, {"/absent:", "/absent:: "},         {":2", ":2: "},
        {"/absent:1:2", "/absent:1: "}, {"/absent:1e30", "/absent:1e30: "}, {"/absent:nan", "/absent:nan: "},
        {"/absent", "/absent: "},       {"/dev/null:3", "/dev/null: "},     {"/:3", "/: "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Steer *steer = NULL;
        Error error = {{0}};
        CHECK(!steer_open(&steer, cases[i][0], model, &error) &&
                  strncmp(error.message, cases[i][1], strlen(cases[i][1])) == 0,
              "%s: %s", cases[i][0], error.message);
        steer_free(steer);
    }
}

/* A direction that is written is read back, times the strength, and a row that is not there stays so. */
static void check_written(const char *name, size_t first) {
    Directions directions = {0};
    Error error = {{0}};
    float row[40];
    const float *rows[2] = {0};
    for (size_t i = 0; i < 40; i++) row[i] = (float)i - 7.25f;
    for (size_t layer = first; layer < 2; layer++) rows[layer] = row;
    bool ok = directions_fit(name, rows, &error) &&
              directions_write(name, &(Inputs){0}, rows, -2, model, &error) &&
              directions_read(&directions, name, model, &error);
    CHECK(ok && !directions.single, "%s: %s", name, error.message);
    for (size_t layer = 0; ok && layer < 2; layer++) {
        CHECK(!directions.rows[layer] == (layer < first), "%s: layer %zu", name, layer);
        for (size_t i = 0; directions.rows[layer] && i < 40; i++)
            CHECK(directions.rows[layer][i] == -2 * row[i], "%s: %zu", name, i);
    }
    directions_free(&directions);
    unlink(name);
}

static void test_written(void) {
    char name[80];
    const float row[40] = {1}, *rows[2] = {row, row};
    Error error = {{0}};
    snprintf(name, sizeof name, "%s.npy", path);
    check_written(name, 0);
    check_written(name, 1);
    snprintf(name, sizeof name, "%s.gguf", path);
    check_written(name, 1);
    CHECK(!directions_fit(name, rows, &error) && strstr(error.message, "behind layer 0"), "%s",
          error.message);
}

int main(void) {
    Error error = {{0}};
    snprintf(path, sizeof path, "/tmp/attn-directions-%ld", (long)getpid());
    model = model_open("tests/data/reference/gpt2-f32.gguf", &error);
    if (!model) return 1;
    RUN(test_npy_forms);
    RUN(test_npy_refused);
    RUN(test_damaged);
    RUN(test_hints);
    RUN(test_refused);
    RUN(test_rows);
    RUN(test_strengths);
    RUN(test_written);
    unlink(path);
    model_close(model);
    return test_end();
}
