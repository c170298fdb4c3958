/*
 * The program that looks inside: one command for each view of the folder views/. What the commands share is
 * done here: options, opening the model, reading the text, the report. Every number's definition stands in docs/STUDY.md.
 */
#include "views/view.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const View *const views[] = {
    &view_next,    &view_score,   &view_attend, &view_heads, &view_lens,      &view_explain, &view_ablate,
    &view_experts, &view_compare, &view_dump,   &view_page,  &view_selfcheck, &view_shape,   &view_case,
};
enum { N_VIEWS = sizeof views / sizeof *views };

#define AT(member) offsetof(StudyOptions, member)

static const Option all_know[] = {
    {"--json", NULL, OPTION_ON, AT(json)},
    {"--ascii", NULL, OPTION_ON, AT(ascii)},
    {"--help", "-h", OPTION_ON, AT(help)},
};

static const Option of_a_model[] = {{"--ctx-size", "-c", OPTION_INT, AT(n_ctx), 2, 1e9}};

static const Option of_a_text[] = {
    {"--prompt", "-p", OPTION_ONCE, AT(prompt)},
    {"--file", "-f", OPTION_ONCE, AT(prompt_file)},
    {"--tokenizer", "-z", OPTION_TEXT, AT(tokenizer)},
    {"--threads", "-t", OPTION_INT, AT(n_threads), 1, 1024},
    {"--kv", NULL, OPTION_TEXT, AT(kv)},
    {"--seed", "-s", OPTION_INT, AT(seed), 0, 9e15},
    {"--bos", NULL, OPTION_ON, AT(bos)},
    {"--no-bos", NULL, OPTION_ON, AT(no_bos)},
    {"--special", NULL, OPTION_ON, AT(special)},
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

static bool parse_options(const View *view, StudyOptions *o, void *own, int argc, char **argv, Error *error) {
    const char *files[2] = {NULL, NULL};
    Options tables[4] = {{all_know, COUNT(all_know), o}, {view->options, view->n_options, own}};
    size_t n = 2;
    if (view->needs & NEEDS_MODEL) tables[n++] = (Options){of_a_model, COUNT(of_a_model), o};
    if (view->needs & NEEDS_TEXT) tables[n++] = (Options){of_a_text, COUNT(of_a_text), o};
    if (!options_parse(tables, n, argc, argv, files, view->needs & NEEDS_OTHER ? 2 : 1, error)) return false;
    o->model = files[0];
    o->other = files[1];
    return true;
}

static bool check_options(const View *view, const StudyOptions *o, const void *own, Error *error) {
    if (o->prompt && o->prompt_file) return error_set(error, "-p and -f both give a text; choose one");
    if (o->bos && o->no_bos) return error_set(error, "--bos and --no-bos contradict each other");
    return !view->check || view->check(o, own, error);
}

/* A view of one model takes the default one, and names it, when it is given options alone. */
static bool find_files(const View *view, StudyOptions *o, int argc, char *path, size_t size, Error *error) {
    unsigned needs = view->needs;
    if (needs & NEEDS_OTHER && o->model && !o->other)
        return error_set(error, "%s takes two models; '%s' is one", view->name, o->model);
    if (o->model || needs & FILE_IS_OPTIONAL) return true;
    bool has_default = needs & NEEDS_MODEL && !(needs & NEEDS_OTHER) && argc > 1;
    if (has_default) o->model = default_model("study", path, size);
    return o->model ||
           error_set(error, "no %s is named%s: see ./study %s --help", needs & NEEDS_MODEL ? "model" : "file",
                     has_default ? ", here is no ./model.bin, and none is installed" : "", view->name);
}

static void print_usage(void) {
    puts(
        "usage: study COMMAND [MODEL] [-p TEXT | -f FILE | stdin] [options]\n"
        "Shows what a model does with a text: the file that ./run runs, quantised or not. With options alone,\n"
        "./model.bin or the installed one.\n");
    for (size_t i = 0; i < N_VIEWS; i++) printf("  %-10s %s\n", views[i]->name, views[i]->summary);
    puts(
        "\n"
        "  -p, --prompt TEXT, -f, --file FILE   the text (otherwise stdin)\n"
        "      --bos, --no-bos    put the token that begins a text in front, or not (as the file says)\n"
        "      --special          read control tokens such as <|endoftext|> in the text\n"
        "      --json             one object for programs, in nats; text for people is in bits\n"
        "      --ascii            no characters beyond ASCII (colour: only on a terminal, NO_COLOR heeded)\n"
        "  -z, --tokenizer FILE   a vocabulary     -t, --threads N     -c, --ctx-size N     -s, --seed N (1)\n"
        "      --kv f32|f16|q8_0  type of the KV cache (f32)\n"
        "\n"
        "Layers, heads and positions count from 0, ranks from 1. ./study COMMAND --help tells more.\n"
        "\n"
        "examples:\n"
        "  ./study next model.bin -p \"The Eiffel\"\n"
        "  ./study attend model.bin -p \"The mole dug a hole\" --layer 1 --head 2\n"
        "  ./study score model.bin -f essay.txt --words\n"
        "  ./study view model.bin -p \"The Eiffel\" -n 4 -o page.html");
}

static void print_view_help(const View *view) {
    printf("usage: study %s %s\n%c%s.\n\n%s", view->name,
           view->usage ? view->usage : "[MODEL] [-p TEXT | -f FILE | stdin] [options]",
           view->summary[0] - 'a' + 'A', view->summary + 1, view->help);
    if (view->needs & NEEDS_TEXT)
        puts(
            "\nOptions of all commands (--bos, --json, --special …): ./study --help. Definitions: docs/STUDY.md");
}

/* The text of -p, -f or stdin; a terminal is not waited for. */
static bool read_prompt(Study *study, Error *error) {
    const StudyOptions *o = study->options;
    const char *text = o->prompt;
    size_t n = text ? strlen(text) : 0;
    bool optional = study->view->needs & TEXT_IS_OPTIONAL;
    if (!text && (o->prompt_file || (!isatty(STDIN_FILENO) && !optional))) {
        if (!read_prompt_text(o->prompt_file, &study->text, error)) return false;
        text = study->text.data, n = study->text.n;
    }
    if (!text && optional) return true;
    return study_encode(study, text ? text : "", n, &study->subject.tokens, &study->subject.bos, error);
}

static bool open_study(Study *study, Error *error) {
    const StudyOptions *o = study->options;
    unsigned needs = study->view->needs;
    Compute *compute = &study->subject.compute;
    compute->kernels = kernels_pick(getenv("ATTN_KERNEL"), error);
    if (!compute->kernels) return false;
    if (needs & NEEDS_MODEL && o->model) {
        study->threads = threads_new(o->n_threads ? (unsigned)o->n_threads : threads_physical_cores(), error);
        compute->threads = study->threads;
        if (!study->threads || !study_open(study, o->model, error)) return false;
    }
    return !(needs & NEEDS_TEXT) || read_prompt(study, error);
}

static bool run_view(Study *study, void *own, Error *error) {
    const View *view = study->view;
    if (!open_study(study, error) || !view->compute(study, own, error)) return false;
    if (!view->show) return true;
    report_open(&study->report, study);
    bool ok = view->show(study, own, error);
    if (study->report.json) json_end_object(&study->report);
    return ok;
}

static const View *find_view(const char *name) {
    for (size_t i = 0; i < N_VIEWS; i++)
        if (strcmp(name, views[i]->name) == 0) return views[i];
    return NULL;
}

static bool no_such_view(const char *name, Error *error) {
    const char *names[N_VIEWS];
    for (size_t i = 0; i < N_VIEWS; i++) names[i] = views[i]->name;
    const char *nearest = nearest_name(name, names, N_VIEWS);
    return nearest ? error_set(error, "there is no command '%s'; did you mean %s?", name, nearest)
                   : error_set(error, "there is no command '%s': see ./study --help", name);
}

/* The view from its options to its report; returns the exit code. */
static int study_with(const View *view, int argc, char **argv, Error *error) {
    StudyOptions options = {.seed = 1};
    Study study = {.view = view, .options = &options, .argc = argc, .argv = argv};
    void *own = arena_new(&study.arena, 1, view->size);
    char path[4096]; /* of the default model */
    int code = EXIT_USAGE;
    if (!arena_ok(&study.arena, error, "%s", view->name)) return EXIT_BAD_INPUT;
    if (view->defaults) memcpy(own, view->defaults, view->size);
    bool ok = parse_options(view, &options, own, argc, argv, error) &&
              (options.help || (find_files(view, &options, argc, path, sizeof path, error) &&
                                check_options(view, &options, own, error) &&
                                parse_kv(options.kv, &study.subject.kv_dtype, error)));
    if (ok && options.help) {
        print_view_help(view);
        code = EXIT_SUCCESS;
    } else if (ok) {
        catch_signals("study");
        study.seed = (uint64_t)options.seed;
        study.subject.n_ctx = (size_t)options.n_ctx;
        study.subject.progress = progress_or_stop;
        study.report = report_begin(options.json, options.ascii);
        code = run_view(&study, own, error) ? EXIT_SUCCESS : EXIT_BAD_INPUT;
    }
    if (view->free) view->free(own);
    study_close(&study);
    return code;
}

int main(int argc, char **argv) {
    Error error;
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_usage();
        return EXIT_SUCCESS;
    }
    if (strcmp(name, "--version") == 0) {
        puts("attn " ATTN_VERSION);
        return EXIT_SUCCESS;
    }
    const View *view = find_view(name);
    int code = EXIT_USAGE;
    if (view)
        code = study_with(view, argc - 1, argv + 1, &error);
    else if (argc > 1)
        no_such_view(name, &error);
    else
        error_set(&error, "no command is named: ./study COMMAND MODEL -p TEXT (see ./study --help)");
    if (code == EXIT_SUCCESS && !end_output("report", &error)) code = EXIT_BAD_INPUT;
    if (code != EXIT_SUCCESS && !interrupted()) fprintf(stderr, "study: %s\n", error.message);
    return end_program(code);
}
