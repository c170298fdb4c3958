/* How a file says that it is to be sampled from: general.sampling.*, what wins over it, and what makes no sense. */
#include "gguf.h"
#include "open.h"
#include "sampling.h"
#include "test.h"

#include <math.h>

enum { TEMP, TOP_K, TOP_P, MIN_P, REPEAT, LAST_N, PRESENCE, FREQUENCY }; /* of SamplingFields */

static unsigned char bytes[1 << 16];

static void put_i32(Gguf *gguf, const char *name, int32_t value) {
    gguf_key(gguf, name, I32, &value, sizeof value);
}
static void put_f64(Gguf *gguf, const char *name, double value) {
    gguf_key(gguf, name, F64, &value, sizeof value);
}

static Checkpoint *opened; /* the last one, whose words are borrowed */

/* Settles what is not given, by a file of these keys. */
static bool settle(Gguf *gguf, SamplerOptions *options, SamplingFields *fields, Error *error) {
    checkpoint_close(opened);
    scratch_write(bytes, gguf_write(gguf, bytes));
    opened = checkpoint_open(scratch_path(), error);
    CHECK(opened != NULL, "%s", error->message);
    return opened && sampling_settle(options, opened, fields, error);
}

static void test_the_usual(void) {
    Gguf gguf = gguf_begin(3);
    SamplerOptions options = SAMPLING_UNSET;
    SamplingFields fields;
    Error error;
    CHECK(settle(&gguf, &options, &fields, &error), "%s", error.message);
    CHECK(options.temperature == 0.8f && options.top_k == 0 && options.top_p == 0.95f && options.min_p == 0 &&
              options.repeat_penalty == 1 && options.penalty_window == 64 && options.presence_penalty == 0 &&
              options.frequency_penalty == 0 && options.order == 0,
          "temperature %g, top-k %zu, top-p %g", (double)options.temperature, options.top_k,
          (double)options.top_p);
    for (size_t i = 0; i < N_SAMPLING_FIELDS; i++)
        CHECK(fields.fields[i].origin == ORIGIN_USUAL, "%s", fields.fields[i].name);
    CHECK(fields.order == ORIGIN_USUAL && fields.n_not_done == 0 && fields.n_passed_over == 0, "%zu, %zu",
          fields.n_not_done, fields.n_passed_over);
}

static void test_the_file_says(void) {
    Gguf gguf = gguf_begin(3);
    SamplerOptions options = SAMPLING_UNSET;
    SamplingFields fields;
    Error error;
    gguf_f32(&gguf, "general.sampling.temp", 0.4f);
    put_i32(&gguf, "general.sampling.top_k", 20);
    put_f64(&gguf, "general.sampling.top_p", 0.75);
    gguf_u32(&gguf, "general.sampling.min_p", 1); /* a whole number is a number */
    gguf_f32(&gguf, "general.sampling.penalty_repeat", 1.25f);
    put_i32(&gguf, "general.sampling.penalty_last_n", 100);
    gguf_string(&gguf, "general.sampling.sequence", "temp;Top-K;topp;min_p;penalties;dry;xtc;nucleus");
    CHECK(settle(&gguf, &options, &fields, &error), "%s", error.message);
    CHECK(options.temperature == 0.4f && options.top_k == 20 && options.top_p == 0.75f &&
              options.min_p == 1 && options.repeat_penalty == 1.25f && options.penalty_window == 100,
          "temperature %g, top-k %zu, top-p %g", (double)options.temperature, options.top_k,
          (double)options.top_p);
    CHECK(options.order == 0x314325, "order %llx", (unsigned long long)options.order);
    for (size_t i = 0; i < N_SAMPLING_FIELDS; i++)
        CHECK(fields.fields[i].origin == (i < PRESENCE ? ORIGIN_FILE : ORIGIN_USUAL), "%s",
              fields.fields[i].name);
    CHECK(fields.order == ORIGIN_FILE, "the order");
    CHECK_NEAR(fields.fields[TEMP].value, 0.4, 1e-7);
    CHECK(fields.fields[LAST_N].value == 100, "%g", fields.fields[LAST_N].value);
}

static void test_what_is_given_wins(void) {
    Gguf gguf = gguf_begin(3);
    SamplerOptions options = SAMPLING_UNSET;
    SamplingFields fields;
    Error error;
    options.temperature = 0, options.top_k = 0, options.order = STEP_TOP_P;
    gguf_string(&gguf, "general.sampling.temp", "cold"); /* nobody asks for it, so nobody minds */
    put_i32(&gguf, "general.sampling.top_k", -7);
    gguf_f32(&gguf, "general.sampling.top_p", 0.5f);
    gguf_string(&gguf, "general.sampling.sequence", "nonsense");
    CHECK(settle(&gguf, &options, &fields, &error), "%s", error.message);
    CHECK(options.temperature == 0 && options.top_k == 0 && options.top_p == 0.5f &&
              options.order == STEP_TOP_P,
          "temperature %g, top-k %zu", (double)options.temperature, options.top_k);
    CHECK(fields.fields[TEMP].origin == ORIGIN_GIVEN && fields.fields[TOP_K].origin == ORIGIN_GIVEN &&
              fields.fields[TOP_P].origin == ORIGIN_FILE && fields.order == ORIGIN_GIVEN,
          "origins");
}

/* A number below 0 is no count, and a count can be more than a double tells from SIZE_MAX: the sanitizer sees both. */
static void test_given_extremes(void) {
    Gguf gguf = gguf_begin(3);
    SamplerOptions options = SAMPLING_UNSET;
    SamplingFields fields;
    Error error;
    options.presence_penalty = -1, options.frequency_penalty = -1000, options.top_k = SIZE_MAX - 1;
    CHECK(settle(&gguf, &options, &fields, &error), "%s", error.message);
    CHECK(options.presence_penalty == -1 && options.frequency_penalty == -1000 && options.top_k == 1000000000,
          "%g, %g, %zu", (double)options.presence_penalty, (double)options.frequency_penalty, options.top_k);
    CHECK(fields.fields[PRESENCE].value == -1 && fields.fields[FREQUENCY].value == -1000, "told otherwise");
}

/* −1 is llama.cpp's word for all. */
static void test_all_of_them(void) {
    Gguf gguf = gguf_begin(3);
    SamplerOptions options = SAMPLING_UNSET;
    Error error;
    put_i32(&gguf, "general.sampling.top_k", -1);
    gguf_f32(&gguf, "general.sampling.penalty_last_n", -1);
    CHECK(settle(&gguf, &options, NULL, &error), "%s", error.message);
    CHECK(options.top_k == 0 && options.penalty_window == 1 << 20, "%zu, %zu", options.top_k,
          options.penalty_window);
}

/* No text is longer: what is told is what there is room for, whoever asks for more. */
static void test_windows_end(void) {
    for (int given = 0; given < 2; given++) {
        Gguf gguf = gguf_begin(3);
        SamplerOptions options = SAMPLING_UNSET, alone = SAMPLING_UNSET;
        SamplingFields fields;
        Error error;
        put_i32(&gguf, "general.sampling.penalty_last_n", 1000000000);
        if (given) options.penalty_window = 999999999;
        CHECK(settle(&gguf, &options, &fields, &error), "%s", error.message);
        CHECK(options.penalty_window == 1 << 20 && fields.fields[LAST_N].value == 1 << 20, "%zu, told as %g",
              options.penalty_window, fields.fields[LAST_N].value);
        alone.penalty_window = 999999999;
        sampling_leave_out(&alone);
        CHECK(alone.penalty_window == 1 << 20, "%zu", alone.penalty_window);
    }
}

static void test_nonsense_is_refused(void) {
    static const struct {
        const char *key;
        uint32_t type;
        double value;
        const char *tells;
    } cases[] = {
        {"temp", F32, NAN, "general.sampling.temp is nan, and not in 0 to 1e+09; give another temperature"},
        {"temp", F32, -0.5, "general.sampling.temp is -0.5"},
        {"temp", F32, INFINITY, "general.sampling.temp is inf"},
        {"temp", F64, 1e300, "general.sampling.temp is 1e+300"},
        {"temp", STRING, 0, "'general.sampling.temp' is of type string, expected a number"},
        {"temp", BOOL, 1, "'general.sampling.temp' is of type bool"},
        {"top_k", I32, -2, "general.sampling.top_k is -2"},
        {"top_k", F32, NAN, "general.sampling.top_k is nan"},
        {"top_k", I64, -1e18, "general.sampling.top_k is -1e+18"},
        {"top_k", I8, -128, "general.sampling.top_k is -128"},
        {"top_k", F32, 0.5, "general.sampling.top_k is 0.5, and not a whole number; give another top_k"},
        {"penalty_last_n", F64, 63.5, "general.sampling.penalty_last_n is 63.5, and not a whole number"},
        {"penalty_last_n", F64, 2e9, "general.sampling.penalty_last_n is 2e+09, and not in 0 to 1e+09"},
        {"top_p", F32, 1.5, "general.sampling.top_p is 1.5, and not in 0 to 1; give another top_p"},
        {"min_p", F32, -1, "general.sampling.min_p is -1"},
        {"penalty_repeat", F32, 0, "general.sampling.penalty_repeat is 0"},
        {"penalty_last_n", I32, -5, "general.sampling.penalty_last_n is -5"},
        {"sequence", I32, 1, "'general.sampling.sequence' is of type int32"},
        {"sequence", F32, 1, "'general.sampling.sequence' is of type float32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Gguf gguf = gguf_begin(3);
        char key[64];
        snprintf(key, sizeof key, "general.sampling.%s", cases[i].key);
        int32_t i32 = (int32_t)fmax(-2e9, fmin(cases[i].value, 2e9));
        int64_t i64 = cases[i].type == I64 ? (int64_t)cases[i].value : 0;
        int8_t i8 = (int8_t)i32;
        switch (cases[i].type) {
        case F32: gguf_f32(&gguf, key, (float)cases[i].value); break;
        case F64: put_f64(&gguf, key, cases[i].value); break;
        case I32: put_i32(&gguf, key, i32); break;
        case I64: gguf_key(&gguf, key, I64, &i64, sizeof i64); break;
        case STRING: gguf_string(&gguf, key, "warm"); break;
        default: gguf_key(&gguf, key, cases[i].type, &i8, 1);
        }
        SamplerOptions options = SAMPLING_UNSET;
        Error error = {""};
        CHECK(!settle(&gguf, &options, NULL, &error), "%s: taken", cases[i].tells);
        CHECK(strstr(error.message, cases[i].tells), "'%s' tells nothing of '%s'", error.message,
              cases[i].tells);
        CHECK(strncmp(error.message, scratch_path(), strlen(scratch_path())) == 0, "'%s'", error.message);
    }
}

static void test_orders(void) {
    static const struct {
        const char *names;
        uint64_t order; /* 0: refused */
        const char *tells;
    } cases[] = {
        {"top_k", STEP_TOP_K, ""},
        {"TEMPERATURE;min-p;minp", 0x445, ""},
        {"typ_p;penalties;top_n_sigma;typ;infill;adaptive-p;typical;typical-p", STEP_PENALTIES, ""},
        {"", 0, "no step"},
        {"xtc", 0, "no step"},
        {"top_k;;temp", 0, "'' is no step"},
        {"top_k;warmth", 0, "'warmth' is no step"},
        {"top_k ", 0, "'top_k ' is no step"},
        {"top", 0, "'top' is no step"},
        {"temp;temp;temp;temp;temp;temp;temp;temp;temp;temp;temp;temp;temp;temp;temp;temp",
         0x5555555555555555, ""},
        {"temp;temp;temp;temp;temp;temp;temp;temp;temp;temp;temp;temp;temp;temp;temp;temp;temp", 0,
         "more than 16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t order = 0;
        Error error = {""};
        bool ok = sampling_parse_order(string_from(cases[i].names), &order, &error);
        CHECK(ok == (cases[i].order != 0) && order == cases[i].order, "'%s': %llx", cases[i].names,
              (unsigned long long)order);
        CHECK(strstr(error.message, cases[i].tells), "'%s' says '%s'", cases[i].names, error.message);
    }
}

/* Their names, with ", " between them. */
static const char *not_done(const SamplingFields *fields) {
    static char text[2048];
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < fields->n_not_done && i < MAX_NOT_DONE; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s", i ? ", " : "", (int)fields->not_done[i].n,
                              fields->not_done[i].data);
    return text;
}

static void test_what_is_not_done_is_named(void) {
    static const char *const wanted[] = {"", "XTC", "Mirostat", "", "Mirostat", ""};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        Gguf gguf = gguf_begin(3);
        SamplerOptions options = SAMPLING_UNSET;
        SamplingFields fields;
        Error error;
        gguf_f32(&gguf, "general.sampling.xtc_probability", i == 1 || i == 4 ? 0.5f : i == 5 ? -1 : 0);
        gguf_f32(&gguf, "general.sampling.xtc_threshold", 0.1f); /* says nothing alone */
        put_i32(&gguf, "general.sampling.mirostat", i == 2 || i == 4 ? 2 : 0);
        gguf_f32(&gguf, "general.sampling.mirostat_tau", 5);
        gguf_f32(&gguf, "general.sampling.mirostat_eta", 0.1f);
        if (i == 3) gguf_string(&gguf, "general.sampling.mirostat", "yes"); /* says nothing */
        CHECK(settle(&gguf, &options, &fields, &error), "%s", error.message);
        CHECK(strcmp(not_done(&fields), wanted[i]) == 0, "case %zu: '%s'", i, not_done(&fields));
    }
}

/* A key that nobody here knows is told by its name; who gives an option knows the key all the same. */
static void test_unknown_keys(void) {
    Gguf gguf = gguf_begin(3);
    SamplerOptions options = SAMPLING_UNSET;
    SamplingFields fields;
    Error error;
    options.temperature = 1, options.order = STEP_TOP_P;
    gguf_f32(&gguf, "general.sampling.temp", 0.5f);
    gguf_string(&gguf, "general.sampling.sequence", "top_p");
    gguf_f32(&gguf, "general.sampling.xtc_probability", 0.5f);
    gguf_f32(&gguf, "general.sampling.penalty_freq", 0.25f);
    gguf_f32(&gguf, "general.sampling.penalty_present", 0); /* asks for nothing */
    gguf_string(&gguf, "general.sampling.grammar", "a");
    gguf_f32(&gguf, "general.samplings", 1);
    gguf_key(&gguf, "attn.sampling.typical_p", BOOL, &(uint8_t){1}, 1); /* as a folder says it */
    CHECK(settle(&gguf, &options, &fields, &error), "%s", error.message);
    CHECK(fields.n_not_done == 4 && strcmp(not_done(&fields), "XTC, general.sampling.penalty_freq, "
                                                              "general.sampling.grammar, typical_p") == 0,
          "%zu: %s", fields.n_not_done, not_done(&fields));
}

/* More than are listed are counted, from GGUF's keys to the folder's. */
static void test_many_unknown_keys(void) {
    static char names[MAX_NOT_DONE + 5][40];
    for (size_t n_folder = 0; n_folder <= MAX_NOT_DONE + 5; n_folder += 4) {
        Gguf gguf = gguf_begin(3);
        SamplerOptions options = SAMPLING_UNSET;
        SamplingFields fields;
        Error error;
        for (size_t i = 0; i < MAX_NOT_DONE + 5; i++) {
            snprintf(names[i], sizeof names[i], "%s.k%02zu",
                     i < n_folder ? "attn.sampling" : "general.sampling", i);
            gguf_u32(&gguf, names[i], 1);
        }
        CHECK(settle(&gguf, &options, &fields, &error), "%s", error.message);
        CHECK(fields.n_not_done == MAX_NOT_DONE + 5, "%zu", fields.n_not_done);
        size_t n_general = MAX_NOT_DONE + 5 - n_folder;
        for (size_t i = 0; i < MAX_NOT_DONE; i++) {
            const char *wanted =
                i < n_general ? names[n_folder + i] : names[i - n_general] + strlen("attn.sampling.");
            CHECK(string_equals(fields.not_done[i], wanted), "%zu: %.*s, not %s", i,
                  (int)fields.not_done[i].n, fields.not_done[i].data, wanted);
        }
    }
}

static void test_steps_passed_over(void) {
    static const struct {
        const char *order, *passed_over;
    } cases[] = {
        {"top_k;temp", ""},
        {"penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature", "dry top_n_sigma typ_p xtc "},
        {"DRY;temp;dry;Dry;Typical-P;typical", "dry typical_p typical "},
        {"infill;top_p;adaptive-p", "infill adaptive_p "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Gguf gguf = gguf_begin(3);
        SamplerOptions options = SAMPLING_UNSET;
        SamplingFields fields;
        Error error;
        char text[256] = "";
        gguf_string(&gguf, "general.sampling.sequence", cases[i].order);
        CHECK(settle(&gguf, &options, &fields, &error), "%s", error.message);
        for (size_t k = 0; k < fields.n_passed_over; k++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s ", fields.passed_over[k]);
        CHECK(strcmp(text, cases[i].passed_over) == 0 && fields.n_not_done == 0, "%s: %s", cases[i].order,
              text);
        options.order = STEP_TOP_K; /* another one is given: the file's says nothing */
        CHECK(settle(&gguf, &options, &fields, &error) && fields.n_passed_over == 0, "%s", cases[i].order);
    }
}

/* Names that nobody knows are listed; what they leave of a file's order is done, or the usual one. */
static void test_unknown_steps(void) {
    static const struct {
        const char *order, *not_done;
        size_t n_passed_over;
        uint64_t done;
    } cases[] = {
        {"xtc;dry", "", 2, 0},
        {"warmth", "warmth", 0, 0},
        {"", "", 0, 0},
        {";;", "", 0, 0},
        {"top_k;warmth;xtc;temp;\x1b[2J;warmth;", "warmth, \x1b[2J", 1, 0x52},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Gguf gguf = gguf_begin(3);
        SamplerOptions options = SAMPLING_UNSET;
        SamplingFields fields;
        Error error;
        gguf_string(&gguf, "general.sampling.sequence", cases[i].order);
        CHECK(settle(&gguf, &options, &fields, &error), "%s", error.message);
        CHECK(options.order == cases[i].done && fields.n_passed_over == cases[i].n_passed_over &&
                  fields.order == (cases[i].done ? ORIGIN_FILE : ORIGIN_USUAL) &&
                  strcmp(not_done(&fields), cases[i].not_done) == 0,
              "'%s': %llx without %s", cases[i].order, (unsigned long long)options.order, not_done(&fields));
    }
    char many[8 * (MAX_NOT_DONE + 9)] = "";
    for (size_t i = 0; i < MAX_NOT_DONE + 5; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "s%zu;", i);
    Gguf gguf = gguf_begin(3);
    SamplerOptions options = SAMPLING_UNSET;
    SamplingFields fields;
    Error error;
    gguf_string(&gguf, "general.sampling.sequence", many);
    put_i32(&gguf, "general.sampling.mirostat", 2);
    gguf_u32(&gguf, "general.sampling.other", 1);
    CHECK(settle(&gguf, &options, &fields, &error), "%s", error.message);
    CHECK(fields.n_not_done == MAX_NOT_DONE + 7, "%zu", fields.n_not_done);
}

/* An option changes this: its step is in the order, and neither it nor all of the step is off. */
static void test_what_acts(void) {
    static const struct {
        const char *order;
        float penalty_repeat;
        int32_t window;
        unsigned acts; /* a bit for each field */
    } cases[] = {
        {NULL, 1, 64, 1 << TEMP | 1 << TOP_P},
        {"top_p", 1, 64, 1 << TOP_P},
        {"top_p;top_k", 1.5f, 10, 1 << TOP_P},
        {"penalties;temp", 1.5f, 10, 1 << TEMP | 1 << REPEAT | 1 << LAST_N},
        {NULL, 1.5f, 0, 1 << TEMP | 1 << TOP_P},
        {NULL, 1, 10, 1 << TEMP | 1 << TOP_P},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Gguf gguf = gguf_begin(3);
        SamplerOptions options = SAMPLING_UNSET;
        SamplingFields fields;
        Error error;
        unsigned acts = 0;
        if (cases[i].order) gguf_string(&gguf, "general.sampling.sequence", cases[i].order);
        gguf_f32(&gguf, "general.sampling.penalty_repeat", cases[i].penalty_repeat);
        put_i32(&gguf, "general.sampling.penalty_last_n", cases[i].window);
        CHECK(settle(&gguf, &options, &fields, &error), "%s", error.message);
        for (size_t k = 0; k < N_SAMPLING_FIELDS; k++) acts |= (unsigned)fields.fields[k].acts << k;
        CHECK(acts == cases[i].acts, "case %zu: %x", i, acts);
    }
}

int main(void) {
    scratch_begin();
    RUN(test_the_usual);
    RUN(test_the_file_says);
    RUN(test_what_is_given_wins);
    RUN(test_given_extremes);
    RUN(test_all_of_them);
    RUN(test_windows_end);
    RUN(test_nonsense_is_refused);
    RUN(test_orders);
    RUN(test_what_is_not_done_is_named);
    RUN(test_unknown_keys);
    RUN(test_many_unknown_keys);
    RUN(test_steps_passed_over);
    RUN(test_unknown_steps);
    RUN(test_what_acts);
    checkpoint_close(opened);
    scratch_end();
    return test_end();
}
