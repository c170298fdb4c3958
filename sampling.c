/*
 * The file's wishes: GGUF's general.sampling.*, under which a folder's generation_config.json lies, too. What a folder asks for
 * and GGUF has no key for is attn.sampling.* (hub/tokens.c), each key true.
 */
#include "sampling.h"

#include "checkpoint/keys.h"

#include <string.h>

/* A step by its names: with '_', and for each also with '-' or without it. */
typedef struct StepName {
    const char *name;
    SamplerStep step; /* 0: nothing here */
} StepName;

static const StepName step_names[] = {{"penalties", STEP_PENALTIES},
                                      {"top_k", STEP_TOP_K},
                                      {"top_p", STEP_TOP_P},
                                      {"nucleus", STEP_TOP_P},
                                      {"min_p", STEP_MIN_P},
                                      {"temperature", STEP_TEMPERATURE},
                                      {"temp", STEP_TEMPERATURE},
                                      {"dry", 0},
                                      {"top_n_sigma", 0},
                                      {"typ_p", 0},
                                      {"typ", 0},
                                      {"typical_p", 0},
                                      {"typical", 0},
                                      {"xtc", 0},
                                      {"infill", 0},
                                      {"adaptive_p", 0}};

enum { N_STEP_NAMES = sizeof step_names / sizeof *step_names };

_Static_assert((int)N_STEP_NAMES <= (int)MAX_PASSED_OVER, "all of them may be passed over");

enum { ALL_TOKENS = 1 << 20 /* of a text: more than any context here */ };

static const StepName *find_step(String name) {
    for (size_t i = 0; i < N_STEP_NAMES; i++) {
        const char *at = step_names[i].name;
        size_t n = 0;
        for (; n < name.n && *at; n++) {
            char c = name.data[n] >= 'A' && name.data[n] <= 'Z' ? (char)(name.data[n] | 32) : name.data[n];
            if (*at == '_' && c != '_' && c != '-') at++;
            if (c != *at && *at != '_') break; /* for which '-' stands, too */
            at++;
        }
        if (n == name.n && !*at) return &step_names[i];
    }
    return NULL;
}

/* Lists a step that is passed over, once. */
static void pass_over(SamplingFields *fields, const char *name) {
    size_t i = 0;
    while (i < fields->n_passed_over && fields->passed_over[i] != name) i++;
    if (i == fields->n_passed_over) fields->passed_over[fields->n_passed_over++] = name;
}

/* Lists what is not done, or counts it where the list is full. */
static void list_as_not_done(SamplingFields *fields, String name) {
    size_t i = 0, n = fields->n_not_done < MAX_NOT_DONE ? fields->n_not_done : MAX_NOT_DONE;
    while (i < n && string_compare(fields->not_done[i], name) != 0) i++;
    if (i < n) return;
    if (n < MAX_NOT_DONE) fields->not_done[n] = name;
    fields->n_not_done++;
}

/*
 * sampling_parse_order; or, where there are *fields, a file's order: what is not done goes there, and *order is 0 if nothing
 * else is named.
 */
static bool parse_order(String names, uint64_t *order, SamplingFields *fields, Error *error) {
    enum { MAX_STEPS = 16 };
    size_t n = 0;
    uint64_t found = 0;
    for (size_t at = 0, end; at < names.n; at = end + 1) {
        for (end = at; end < names.n && names.data[end] != ';';) end++;
        String name = {names.data + at, end - at};
        const StepName *known = find_step(name);
        if (!known && !fields)
            return error_set(error,
                             "'%.*s' is no step of sampling; there are penalties, top_k, top_p, min_p and "
                             "temperature, with ';' between them",
                             string_shown(name), name.data);
        if (!known || known->step == 0) {
            if (known && fields) pass_over(fields, known->name);
            if (!known && name.n) list_as_not_done(fields, name);
            continue;
        }
        if (n == MAX_STEPS) return error_set(error, "more than %d steps of sampling are named", MAX_STEPS);
        found |= (uint64_t)known->step << 4 * n++;
    }
    if (n == 0 && !fields)
        return error_set(error, "no step of sampling is named: penalties, top_k, top_p, min_p, temperature");
    *order = found;
    return true;
}

bool sampling_parse_order(String names, uint64_t *order, Error *error) {
    return parse_order(names, order, NULL, error);
}

typedef struct Setting {
    const char *name, *key; /* of the option of run, and behind general.sampling. */
    const char *field;      /* of attn.h's AttnSampling */
    size_t offset;
    SamplerStep step;
    bool is_count; /* size_t, of which −1 in a file stands for all; or else float */
    double usual, off, least, most;
} Setting;

#define AT(member) offsetof(SamplerOptions, member)
#define FIELD(member) #member, AT(member)

static const Setting settings[N_SAMPLING_FIELDS] = {
    {"temp", "temp", FIELD(temperature), STEP_TEMPERATURE, false, 0.8, 1, 0, 1e9},
    {"top-k", "top_k", FIELD(top_k), STEP_TOP_K, true, 0, 0, 0, 1e9},
    {"top-p", "top_p", FIELD(top_p), STEP_TOP_P, false, 0.95, 1, 0, 1},
    {"min-p", "min_p", FIELD(min_p), STEP_MIN_P, false, 0, 0, 0, 1},
    {"repeat-penalty", "penalty_repeat", FIELD(repeat_penalty), STEP_PENALTIES, false, 1, 1, 0.01, 100},
    {"repeat-last-n", "penalty_last_n", FIELD(penalty_window), STEP_PENALTIES, true, 64, 64, 0, 1e9},
    {"presence-penalty", NULL, FIELD(presence_penalty), STEP_PENALTIES, false, 0, 0, -1000, 1000},
    {"frequency-penalty", NULL, FIELD(frequency_penalty), STEP_PENALTIES, false, 0, 0, -1000, 1000},
};

bool sampling_check(const SamplerOptions *options, Error *error) {
    for (size_t i = 0; i < N_SAMPLING_FIELDS; i++) {
        const Setting *setting = &settings[i];
        float value;
        if (setting->is_count) continue;
        memcpy(&value, (const char *)options + setting->offset, sizeof value);
        if (!((double)value >= setting->least && (double)value <= setting->most)) /* NaN lies in no range */
            return error_set(error, "sampling: %s is %g, and not in %g to %g", setting->field, (double)value,
                             setting->least, setting->most);
    }
    for (uint64_t order = options->order; order; order >>= 4)
        if ((order & 15) < STEP_PENALTIES || (order & 15) > STEP_TEMPERATURE)
            return error_set(error, "sampling: the order names a step that does not exist");
    return true;
}

/* Reads and checks the file's value; −1 stands for all. */
static bool read_setting(const KeyReader *reader, const Setting *setting, const char *key, double *value) {
    if (!checkpoint_number(reader->checkpoint, key, value, reader->error)) return false;
    bool all = setting->is_count && *value == -1;
    if (all) *value = setting->offset == AT(penalty_window) ? ALL_TOKENS : 0;
    if (!(*value >= setting->least && *value <= setting->most))
        return checkpoint_error(reader->checkpoint, reader->error,
                                "%s is %g, and not in %g to %g; give another %s", key, *value, setting->least,
                                setting->most, setting->field);
    return !setting->is_count || *value == floor(*value) ||
           checkpoint_error(reader->checkpoint, reader->error,
                            "%s is %g, and not a whole number; give another %s", key, *value, setting->field);
}

/* Whether an option is given; its value is then at *value. */
static bool is_given(const char *option, const Setting *setting, double *value) {
    size_t count;
    float real;
    memcpy(&count, option, sizeof count);
    memcpy(&real, option, sizeof real);
    *value = setting->is_count ? (double)count : (double)real;
    return setting->is_count ? count != SIZE_MAX : !isnan(real);
}

/* Returns the value as the option holds it. Counts have an end: the sampler keeps room for all of a window, and a double
   can be beyond what a size_t holds. */
static double put(char *option, const Setting *setting, double value) {
    if (!setting->is_count) {
        float real = (float)value;
        memcpy(option, &real, sizeof real);
        return (double)real;
    }
    value = fmin(value, setting->offset == AT(penalty_window) ? ALL_TOKENS : setting->most);
    size_t count = (size_t)value;
    memcpy(option, &count, sizeof count);
    return value;
}

static bool settle(KeyReader *reader, const Setting *setting, char *option, SamplingField *field) {
    KeyName key = {""};
    double value;
    field->name = setting->name, field->off = setting->off, field->origin = ORIGIN_GIVEN;
    if (setting->key) key = keys_name(reader, setting->key); /* asked for, even where it has no say */
    if (!is_given(option, setting, &value)) {
        bool says = setting->key && checkpoint_has(reader->checkpoint, key.text);
        field->origin = says ? ORIGIN_FILE : ORIGIN_USUAL;
        value = setting->usual;
        if (says && !read_setting(reader, setting, key.text, &value)) return false;
    }
    field->value = put(option, setting, value);
    return true;
}

void sampling_leave_out(SamplerOptions *options) {
    double value;
    for (size_t i = 0; i < N_SAMPLING_FIELDS; i++) {
        char *option = (char *)options + settings[i].offset;
        put(option, &settings[i], is_given(option, &settings[i], &value) ? value : settings[i].off);
    }
}

static bool settle_order(KeyReader *reader, SamplerOptions *options, SamplingFields *fields) {
    const KeyName key = keys_name(reader, "sequence");
    String names = {0};
    Error inner;
    fields->order = options->order ? ORIGIN_GIVEN : ORIGIN_USUAL;
    if (options->order || !checkpoint_has(reader->checkpoint, key.text)) return true;
    if (!checkpoint_string(reader->checkpoint, key.text, &names, reader->error)) return false;
    if (!parse_order(names, &options->order, fields, &inner))
        return checkpoint_error(reader->checkpoint, reader->error, "%s: %s; give another order", key.text,
                                inner.message);
    if (options->order) fields->order = ORIGIN_FILE;
    return true;
}

/* Whether the file has a number above 0 there; a value of another type says nothing. */
static bool asks_for(KeyReader *reader, const char *suffix) {
    double value = 0;
    return checkpoint_number(reader->checkpoint, keys_name(reader, suffix).text, &value, NULL) && value > 0;
}

/* Lists the reader's keys that nobody has asked for, without their first `cut` bytes. */
static void list_unread(const KeyReader *reader, const char *const *idle, size_t cut,
                        SamplingFields *fields) {
    size_t at = fields->n_not_done < MAX_NOT_DONE ? fields->n_not_done : MAX_NOT_DONE;
    fields->n_not_done += keys_unread(reader, idle, fields->not_done + at, MAX_NOT_DONE - at);
    for (; at < fields->n_not_done && at < MAX_NOT_DONE; at++)
        fields->not_done[at].data += cut, fields->not_done[at].n -= cut;
}

/* After all other keys have been asked for. Where there is Mirostat, it stands in for all filters, XTC among them. */
static void list_not_done(KeyReader *reader, SamplingFields *fields) {
    static const char *const idle[] = {"mirostat_tau", "mirostat_eta", "xtc_threshold", NULL};
    static const char *const none[] = {NULL};
    const KeyReader folder = {.checkpoint = reader->checkpoint, .prefix = "attn.sampling"};
    bool mirostat = asks_for(reader, "mirostat"), xtc = asks_for(reader, "xtc_probability");
    if (mirostat)
        list_as_not_done(fields, string_from("Mirostat"));
    else if (xtc)
        list_as_not_done(fields, string_from("XTC"));
    list_unread(reader, idle, 0, fields);
    list_unread(&folder, none, strlen(folder.prefix) + 1, fields);
}

bool sampling_settle(SamplerOptions *options, const Checkpoint *checkpoint, SamplingFields *fields,
                     Error *error) {
    KeyReader reader = {.checkpoint = checkpoint, .prefix = "general.sampling", .error = error};
    SamplingFields found = {0};
    for (size_t i = 0; i < N_SAMPLING_FIELDS; i++)
        if (!settle(&reader, &settings[i], (char *)options + settings[i].offset, &found.fields[i]))
            return false;
    if (!settle_order(&reader, options, &found)) return false;
    list_not_done(&reader, &found);
    for (size_t i = 0; i < N_SAMPLING_FIELDS; i++) {
        bool is_window = settings[i].offset == AT(penalty_window); /* which has no value that is off */
        found.fields[i].acts = sampler_does(options, settings[i].step) &&
                               (is_window || found.fields[i].value != found.fields[i].off);
    }
    if (fields) *fields = found;
    return true;
}
