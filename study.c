/*
 * The program that looks inside: one command for each view of the folder views/, which views/command.c carries out. Every
 * number's definition stands in docs/STUDY.md.
 */
#include "attn.h"
#include "cli/print.h"
#include "cli/process.h"
#include "views/view.h"

#include <stdlib.h>
#include <string.h>

static const View *const views[] = {VIEWS(VIEW_ROW, VIEW_ROW, VIEW_ROW)};
enum { N_VIEWS = sizeof views / sizeof *views };

static void print_usage(void) {
    print_help(
        stdout,
        "usage: study COMMAND [MODEL] [-p TEXT | -f FILE | stdin] [options]\n"
        "Shows what a model does with a text: the file that ./run runs, quantised or not. With options alone,\n"
        "./model.bin or the installed one.\n\n");
    for (size_t i = 0; i < N_VIEWS; i++) printf("  %-10s %s\n", views[i]->name, views[i]->summary);
    print_help(
        stdout,
        "\n"
        "  -p, --prompt TEXT, -f, --file FILE   the text (otherwise stdin)\n"
        "      --ids 12,55,3      tokens by their ids, behind the text or alone\n"
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
        "  ./study view model.bin -p \"The Eiffel\" -n 4 -o page.html\n");
}

static const View *find_view(const char *name) {
    for (size_t i = 0; i < N_VIEWS; i++)
        if (strcmp(name, views[i]->name) == 0) return views[i];
    return NULL;
}

/* `second` is the word behind the name. */
static bool no_such_view(const char *name, const char *second, Error *error) {
    const char *names[N_VIEWS];
    if (find_view(second))
        return error_set(error, "there is no command '%s'; the command comes first: ./study %s %s", name,
                         second, name);
    for (size_t i = 0; i < N_VIEWS; i++) names[i] = views[i]->name;
    const char *nearest = nearest_name(name, names, N_VIEWS);
    return nearest ? error_set(error, "there is no command '%s'; did you mean %s?", name, nearest)
                   : error_set(error, "there is no command '%s': see ./study --help", name);
}

int main(int argc, char **argv) {
    Error error;
    const char *name = argc > 1 ? argv[1] : "";
    name_program(argc ? argv[0] : "", "study");
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
        code = view_command(view, NULL, argc - 1, argv + 1, &error);
    else if (argc > 1)
        no_such_view(name, argc > 2 ? argv[2] : "", &error);
    else
        error_set(&error, "no command is named: ./study COMMAND MODEL -p TEXT (see ./study --help)");
    if (code == EXIT_SUCCESS && !end_output("report", &error)) code = EXIT_BAD_INPUT;
    if (code != EXIT_SUCCESS && !interrupted()) print_error("study", &error);
    return end_program(code);
}
