/* The parts that all commands share: options, opening the model, reading the text, the report. */
#include "cli/input.h"
#include "cli/print.h"
#include "cli/process.h"
#include "views/view.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(member) offsetof(StudyOptions, member)

static const Option all_know[] = {
    {"--json", NULL, OPTION_ON, AT(json)},
    {"--ascii", NULL, OPTION_ON, AT(ascii)},
    {"--help", "-h", OPTION_ON, AT(help)},
};

static const Option of_a_model[] = {
    {"--model", "-m", OPTION_ONCE, AT(model), .file = true},
    {"--ctx-size", "-c", OPTION_INT, AT(n_ctx), 2, 1e9},
};

static const Option of_a_text[] = {
    {"--prompt", "-p", OPTION_ONCE, AT(prompt)},
    {"--ids", NULL, OPTION_ONCE, AT(ids)},
    {"--file", "-f", OPTION_ONCE, AT(prompt_file), .file = true},
    {"--tokenizer", "-z", OPTION_ONCE, AT(tokenizer), .file = true},
    {"--threads", "-t", OPTION_INT, AT(n_threads), 1, 1024},
    {"--kv", NULL, OPTION_TEXT, AT(kv)},
    {"--seed", "-s", OPTION_INT, AT(seed), 0, 9e15},
    {"--bos", NULL, OPTION_ON, AT(bos)},
    {"--no-bos", NULL, OPTION_ON, AT(no_bos)},
    {"--special", NULL, OPTION_ON, AT(special)},
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

const Options shared_options[] = {
    {all_know, COUNT(all_know)}, {of_a_model, COUNT(of_a_model)}, {of_a_text, COUNT(of_a_text)}};

static bool parse_options(const View *view, const OpenModel *opened, StudyOptions *o, void *own, int argc,
                          char **argv, Error *error) {
    const char *files[2] = {NULL, NULL};
    Options tables[4] = {{all_know, COUNT(all_know), o}, {view->options, view->n_options, own}};
    size_t n = 2;
    if (view->needs & NEEDS_MODEL) tables[n++] = (Options){of_a_model, COUNT(of_a_model), o};
    if (view->needs & NEEDS_TEXT) tables[n++] = (Options){of_a_text, COUNT(of_a_text), o};
    for (size_t i = 0; i < n; i++) tables[i].no_files = opened;
    size_t n_files = opened ? 0 : view->needs & NEEDS_OTHER ? 2 : 1;
    if (!options_parse(tables, n, argc, argv, files, n_files, error)) return false;
    if (files[0] && o->model)
        return error_set(error, "one model at a time: '%s' after '%s'", files[0], o->model);
    if (files[0]) o->model = files[0];
    o->other = files[1];
    return !(opened && opened->out) || (o->json && !o->help) ||
           error_set(error, "%s: the answer is JSON: ask with --json, and not for --help", view->name);
}

static bool check_options(const View *view, const StudyOptions *o, const void *own, Error *error) {
    if (o->prompt && o->prompt_file) return error_set(error, "-p and -f both give a text; choose one");
    if (o->bos && o->no_bos) return error_set(error, "--bos and --no-bos contradict each other");
    return !view->check || view->check(o, own, error);
}

/* A view of one model takes the default one, and names it, when it is given options alone. */
static bool find_files(const View *view, const void *own, StudyOptions *o, int argc, char *path, size_t size,
                       Error *error) {
    unsigned needs = view->needs;
    if (needs & NEEDS_OTHER && o->model && !o->other)
        return error_set(error, "%s takes two models; '%s' is one", view->name, o->model);
    bool has_text = !(needs & NEEDS_TEXT) || o->prompt || o->prompt_file || o->ids;
    if (o->model && !has_text && !is_model_name(o->model, error)) return false;
    if (o->model || needs & FILE_IS_OPTIONAL || (view->is_bare && view->is_bare(own))) return true;
    bool has_default = needs & NEEDS_MODEL && !(needs & NEEDS_OTHER) && argc > 1;
    if (has_default) o->model = default_model("study", "", path, size);
    return o->model ||
           error_set(error, "no %s is named%s: see ./study %s --help", needs & NEEDS_MODEL ? "model" : "file",
                     has_default ? ", here is no ./model.bin, and none is installed" : "", view->name);
}

/* A page is refused it (parse_options), so its engine need not have it. */
static bool asks_for_help(const StudyOptions *o) {
#if defined(__wasm__)
    (void)o;
    return false;
#else
    return o->help;
#endif
}

static void print_view_help(const View *view) {
    const char *usage = view->needs & TEXT_IS_OPTIONAL ? "[MODEL] [-p TEXT | -f FILE] [options]"
                                                       : "[MODEL] [-p TEXT | -f FILE | stdin] [options]";
    print_help(stdout, "usage: study ");
    printf("%s %s\n%c%s.\n\n", view->name, view->usage ? view->usage : usage, view->summary[0] - 'a' + 'A',
           view->summary + 1);
    print_help(stdout, view->help);
    if (view->needs & NEEDS_TEXT && !(view->needs & HELP_IS_WHOLE))
        print_help(stdout,
                   "\nOptions of all commands (--bos, --json, --special …): ./study --help. Definitions: "
                   "docs/STUDY.md\n");
}

/* The text of -p, -f or stdin, or none where --ids is given; a terminal is not waited for. */
static bool read_prompt(Study *study, Error *error) {
    const StudyOptions *o = study->options;
    const char *text = o->prompt;
    size_t n = text ? strlen(text) : 0;
    bool optional = study->view->needs & TEXT_IS_OPTIONAL;
    bool stdin_is_text = !optional && !o->ids && !study->opened && !isatty(STDIN_FILENO);
    if (!text && (o->prompt_file || stdin_is_text)) {
        if (!read_prompt_text(o->prompt_file, &study->text, error)) return false;
        text = study->text.data, n = study->text.n;
    }
    return (!text && !o->ids && optional) || study_tokenize(study, text, n, error);
}

static void study_borrow(Study *study) {
    const OpenModel *opened = study->opened;
    study->subject.model = study->model = opened->model;
    study->subject.tokenizer = study->report.tokenizer = study->tokenizer = opened->tokenizer;
    study->subject.compute.threads = study->threads = opened->threads;
    study->subject.cache = opened->cache;
}

static bool open_study(Study *study, const void *own, Error *error) {
    const StudyOptions *o = study->options;
    const View *view = study->view;
    unsigned needs = view->is_bare && view->is_bare(own) ? 0 : view->needs;
    Compute *compute = &study->subject.compute;
    compute->kernels = kernels_pick(getenv("ATTN_KERNEL"), error);
    if (!compute->kernels) return false;
    if (study->opened) {
        study_borrow(study);
    } else if (needs & NEEDS_MODEL && o->model) {
        study->threads = threads_new(o->n_threads ? (unsigned)o->n_threads : threads_physical_cores(), error);
        compute->threads = study->threads;
        if (!study->threads || !study_open(study, o->model, error)) return false;
    }
    return !(needs & NEEDS_TEXT) || read_prompt(study, error);
}

static bool run_view(Study *study, void *own, Error *error) {
    const View *view = study->view;
    if (!open_study(study, own, error) || !view->compute(study, own, error)) return false;
    if (!view->show) return true;
    report_open(&study->report, study);
    bool ok = view->show(study, own, error);
    if (study->report.json) json_end_object(&study->report);
    return ok;
}

int view_command(const View *view, const OpenModel *opened, int argc, char **argv, Error *error) {
    StudyOptions options = {.model = opened ? opened->path : NULL, .seed = 1};
    Study study = {.view = view, .opened = opened, .options = &options, .argc = argc, .argv = argv};
    void *own = arena_new(&study.arena, 1, view->size);
    char path[4096]; /* of the default model */
    int code = EXIT_USAGE;
    if (!arena_ok(&study.arena, error, "%s", view->name)) return EXIT_BAD_INPUT;
    if (view->defaults) memcpy(own, view->defaults, view->size);
    bool ok = parse_options(view, opened, &options, own, argc, argv, error) &&
              (asks_for_help(&options) || (find_files(view, own, &options, argc, path, sizeof path, error) &&
                                           check_options(view, &options, own, error) &&
                                           parse_kv(options.kv, &study.subject.kv_dtype, error)));
    if (ok && asks_for_help(&options)) {
        print_view_help(view);
        code = EXIT_SUCCESS;
    } else if (ok) {
        if (!opened) catch_signals("study");
        study.seed = (uint64_t)options.seed;
        study.subject.n_ctx = (size_t)options.n_ctx;
        study.subject.progress = progress_or_stop;
        study.report = report_begin(options.json, options.ascii);
        if (opened && opened->stop)
            study.subject.progress = NULL, study.subject.stop = opened->stop,
            study.subject.stop_user = opened->stop_user;
        if (opened && opened->out) study.report.out = opened->out;
        error->usage = false; /* as who stops a view sets no error */
        code = run_view(&study, own, error) ? EXIT_SUCCESS : error->usage ? EXIT_USAGE : EXIT_BAD_INPUT;
    }
    if (view->free) view->free(own);
    study_close(&study);
    return code;
}
