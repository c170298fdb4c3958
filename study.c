/*
 * The program that looks inside: one command for each view of the folder views/. What the commands share is
 * done here: options, opening the model, reading the text. Every number's definition stands in docs/STUDY.md.
 */
#include "views/study.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a view asks for before it runs. */
enum {
    NEEDS_MODEL = 1,
    NEEDS_TEXT = 2,
    TEXT_IS_OPTIONAL = 4,
    NEEDS_OTHER = 8, /* a second model */
};

typedef struct View {
    const char *name, *summary;
    StudyView *run;
    unsigned needs;
    const char *help; /* after the line of usage */
} View;

static const View views[] = {
    {"next", "what the model expects after the text", view_next, NEEDS_MODEL | NEEDS_TEXT,
     "The distribution of the next token: rank, probability, logit (before the softmax), cumulative\n"
     "probability, and what temperature and filters would make of it.\n"
     "\n"
     "  --top K         tokens to list (10)\n"
     "  --temp X        divide the logits by X (1)     --top-k N   keep the N likeliest (0: all)\n"
     "  --top-p X       keep this mass (1: all)        --min-p X   keep p >= X * the best p (0: all)\n"},
    {"score", "how surprised it was by each token, and in all", view_score, NEEDS_MODEL | NEEDS_TEXT,
     "Each token's surprisal -log2 p, its rank, the entropy of the prediction, and the likelier tokens.\n"
     "In all: mean surprisal (nll), perplexity e^nll with its standard error, bits per byte, accuracy.\n"
     "A text longer than the context is read in windows that begin half a context (-c) apart.\n"
     "\n"
     "  --top K         likelier tokens to list (3)\n"
     "  --words         surprisal of words: sums over their tokens\n"
     "  --chunks        perplexity by llama.cpp's rule: windows of -c N (512) side by side, second\n"
     "                  halves scored\n"},
    {"attend", "which tokens a head looks at", view_attend, NEEDS_MODEL | NEEDS_TEXT,
     "The attention pattern: row = query, column = key, each row sums to 1.\n"
     "\n"
     "  --layer L, --head H   of one layer, one head (all)\n"
     "  --query Q             one query's strongest keys    --top K   so many (10)\n"
     "  --reduce mean|max     over the heads (of all layers without --layer)\n"
     "  --no-sink             leave out the first token and renormalise\n"
     "  --by weight|value     weight A, or A * |v W_O| (Kobayashi et al. 2020); --norm: rows sum to 1\n"
     "  --words               add up keys, average queries, word by word\n"
     "  -n N [--temp X]       generate N tokens (greedily), a row for each; needs --layer and --head,\n"
     "                        or --reduce\n"},
    {"heads", "what each head does: scores and labels", view_heads,
     NEEDS_MODEL | NEEDS_TEXT | TEXT_IS_OPTIONAL,
     "Scores of every head, means over queries: entropy, confidence (largest weight), attention to the\n"
     "first token (sink), to itself, to the previous token, mean distance, to earlier occurrences of\n"
     "the token (dup), to what followed them (ind), and TransformerLens's three induction scores.\n"
     "Without a text: on random tokens repeated once (--repeat and --batch take no text).\n"
     "\n"
     "  --repeat S      length of what is repeated (50, or what fits)     --batch B   how many (10)\n"},
    {"lens", "what each layer would predict", view_lens, NEEDS_MODEL | NEEDS_TEXT,
     "The logit lens: the final norm and the unembedding on the residual stream before each layer.\n"
     "\n"
     "  --query Q       at this position (the last)\n"
     "  --token T       follow this token too (a text, or #id)\n"
     "  --top K         tokens for each layer (5)\n"
     "  --mid           also between attention and MLP\n"
     "  --frozen-norm   divide by the final layer's scale, as TransformerLens did before 2026\n"},
    {"explain", "one head and query, step by step", view_explain, NEEDS_MODEL | NEEDS_TEXT,
     "q.k, divided by the root of d_head, masked, softmax, weight * |v|, and the tokens that the head's\n"
     "output raises and lowers most.\n"
     "\n"
     "  --layer L, --head H   which (needed)     --query Q   whose row (the last)     --top K  (5)\n"},
    {"ablate", "what changes if a head is switched off", view_ablate, NEEDS_MODEL | NEEDS_TEXT,
     "Change in surprisal, divergence KL(before || after), share of positions whose best token changed.\n"
     "\n"
     "  --heads LIST    L3H7,L4H0, or L3 for all of a layer     --mlps LIST   0,2-3\n"
     "  --sweep heads|mlps   each in turn\n"
     "  --by zero|mean|resample   zero: a head gives its value bias alone; mean: what it gives on\n"
     "                  average; resample: what it gives on another text     --hard-zero   zero itself\n"
     "  --with FILE     the text that mean (the text itself) and resample take it from\n"},
    {"compare", "two files on one text", view_compare, NEEDS_MODEL | NEEDS_OTHER | NEEDS_TEXT,
     "Say, F32 and Q4_0 of one model: change in surprisal, divergence, how often they agree on the\n"
     "best token, and how far the attention patterns of each layer moved.\n"},
    {"dump", "arrays for NumPy, with TransformerLens's names", view_dump, NEEDS_MODEL | NEEDS_TEXT,
     "  -o, --output FILE.npz   (needed)\n"
     "  --what LIST     pattern,scores,q,k,v,z,resid_pre,resid_mid,resid_post,attn_out,mlp_out,logits (all)\n"
     "  --layers LIST, --heads LIST, --positions LIST   0,3,5-7 (all)\n"
     "  --half          float16\n"},
    {"view", "all of it in one page, for a browser", view_view, NEEDS_MODEL | NEEDS_TEXT,
     "Writes a web page that needs nothing but itself: surprisal of each token, what was expected, every\n"
     "head's pattern and scores, the logit lens, one head step by step.\n"
     "\n"
     "  -o, --output FILE.html   (needed; --json prints the page's numbers instead)\n"
     "  -n N [--temp X]     let the model write N tokens first, greedily or at a temperature\n"
     "  --top K             tokens kept of each distribution (20)\n"
     "  --layers LIST       whose patterns are kept: 0,3,5-7 (all)\n"
     "  --query Q           whose scores are kept where there is no room for all (the prompt's last)\n"
     "  --ablate LIST       also without these heads: L3H7,L4H0, or L3 for all of a layer\n"
     "  --svg L3H7          instead of a page, this head's pattern as a figure\n"
     "\n"
     "  ./study view model.bin -p \"The Eiffel\" -n 4 -o page.html\n"},
    {"selfcheck", "whether the engine agrees with itself", view_selfcheck,
     NEEDS_MODEL | NEEDS_TEXT | TEXT_IS_OPTIONAL,
     "Rows sum to 1, nothing looks ahead, whole prompt = token by token, last lens row = output, and\n"
     "ablating nothing or watching changes nothing. Exit code 1 when one fails. Without -p or -f, on a\n"
     "short text of its own.\n"},
    {"shape", "parameters, bytes and work, matrix by matrix", view_shape, NEEDS_MODEL,
     "  --preset NAME   instead of a file: gpt2, gpt2-medium, gpt2-large, gpt2-xl, gpt3-175b\n"
     "  -c N            attention's growth around n = N (the model's context)\n"},
    {"case", "attention worked by hand, from a JSON file", view_case, 0,
     "Every table from Q, K, V to the output, of each case in the file, and whether it is what the file\n"
     "expects (to 1e-5; exit code 1 if not). docs/COURSE.md is a course in such files.\n"},
};
enum { N_VIEWS = sizeof views / sizeof *views };

/* An option, and the views that know it; NULL: all that have a model. */
typedef struct ViewOption {
    Option option;
    const char *views;
} ViewOption;

static const StudyOptions defaults = {
    .kv = "f32",
    .seed = 1,
    .layer = -1,
    .head = -1,
    .query = -1,
    .top = -1,
    .temp = -1,
    .top_p = 1,
};

static bool knows(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

static bool parse_options(const View *view, StudyOptions *o, bool *help, int argc, char **argv,
                          Error *error) {
    const double huge = 1e9;
    const ViewOption all[] = {
        {{"--prompt", "-p", OPTION_TEXT, &o->prompt, 0, 0}, NULL},
        {{"--file", "-f", OPTION_TEXT, &o->prompt_file, 0, 0}, NULL},
        {{"--tokenizer", "-z", OPTION_TEXT, &o->tokenizer, 0, 0}, NULL},
        {{"--threads", "-t", OPTION_INT, &o->n_threads, 1, 1024}, NULL},
        {{"--ctx-size", "-c", OPTION_INT, &o->n_ctx, 2, huge}, NULL},
        {{"--kv", NULL, OPTION_TEXT, &o->kv, 0, 0}, NULL},
        {{"--seed", "-s", OPTION_INT, &o->seed, 0, 9e15}, NULL},
        {{"--bos", NULL, OPTION_ON, &o->bos, 0, 0}, NULL},
        {{"--no-bos", NULL, OPTION_ON, &o->no_bos, 0, 0}, NULL},
        {{"--special", NULL, OPTION_ON, &o->special, 0, 0}, NULL},
        {{"--json", NULL, OPTION_ON, &o->json, 0, 0}, NULL},
        {{"--ascii", NULL, OPTION_ON, &o->ascii, 0, 0}, NULL},
        {{"--help", "-h", OPTION_ON, help, 0, 0}, NULL},
        {{"--top", NULL, OPTION_INT, &o->top, 0, 1000}, "next score attend lens explain view"},
        {{"--temp", NULL, OPTION_REAL, &o->temp, 0, huge}, "next attend view"},
        {{"--top-k", NULL, OPTION_INT, &o->top_k, 0, huge}, "next"},
        {{"--top-p", NULL, OPTION_REAL, &o->top_p, 0, 1}, "next"},
        {{"--min-p", NULL, OPTION_REAL, &o->min_p, 0, 1}, "next"},
        {{"--words", NULL, OPTION_ON, &o->words, 0, 0}, "score attend"},
        {{"--chunks", NULL, OPTION_ON, &o->chunks, 0, 0}, "score"},
        {{"--layer", NULL, OPTION_INT, &o->layer, 0, huge}, "attend explain"},
        {{"--head", NULL, OPTION_INT, &o->head, 0, huge}, "attend explain"},
        {{"--query", NULL, OPTION_INT, &o->query, 0, huge}, "attend explain lens view"},
        {{"--reduce", NULL, OPTION_TEXT, &o->reduce, 0, 0}, "attend"},
        {{"--no-sink", NULL, OPTION_ON, &o->no_sink, 0, 0}, "attend"},
        {{"--by", NULL, OPTION_TEXT, &o->by, 0, 0}, "attend ablate"},
        {{"--norm", NULL, OPTION_ON, &o->norm, 0, 0}, "attend"},
        {{"--predict", "-n", OPTION_INT, &o->n_predict, 0, huge}, "attend view"},
        {{"--output", "-o", OPTION_TEXT, &o->output, 0, 0}, "dump view"},
        {{"--what", NULL, OPTION_TEXT, &o->what, 0, 0}, "dump"},
        {{"--layers", NULL, OPTION_TEXT, &o->layers, 0, 0}, "dump view"},
        {{"--heads", NULL, OPTION_TEXT, &o->heads, 0, 0}, "dump ablate"},
        {{"--ablate", NULL, OPTION_TEXT, &o->ablate, 0, 0}, "view"},
        {{"--svg", NULL, OPTION_TEXT, &o->svg, 0, 0}, "view"},
        {{"--positions", NULL, OPTION_TEXT, &o->positions, 0, 0}, "dump"},
        {{"--half", NULL, OPTION_ON, &o->half, 0, 0}, "dump"},
        {{"--repeat", NULL, OPTION_INT, &o->repeat, 2, 1e6}, "heads"},
        {{"--batch", NULL, OPTION_INT, &o->batch, 1, 10000}, "heads"},
        {{"--token", NULL, OPTION_TEXT, &o->token, 0, 0}, "lens"},
        {{"--mid", NULL, OPTION_ON, &o->mid, 0, 0}, "lens"},
        {{"--frozen-norm", NULL, OPTION_ON, &o->frozen_norm, 0, 0}, "lens"},
        {{"--mlps", NULL, OPTION_TEXT, &o->mlps, 0, 0}, "ablate"},
        {{"--sweep", NULL, OPTION_TEXT, &o->sweep, 0, 0}, "ablate"},
        {{"--hard-zero", NULL, OPTION_ON, &o->hard_zero, 0, 0}, "ablate"},
        {{"--with", NULL, OPTION_TEXT, &o->with, 0, 0}, "ablate"},
        {{"--preset", NULL, OPTION_TEXT, &o->preset, 0, 0}, "shape"},
    };
    enum { N_OPTIONS = sizeof all / sizeof *all };
    const char *without_text =
        view->needs & NEEDS_MODEL ? "--ctx-size --json --ascii --help" : "--json --ascii --help";
    Option known[N_OPTIONS];
    size_t n = 0;
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const char *list = all[i].views;
        if (list ? knows(list, view->name)
                 : view->needs & NEEDS_TEXT || knows(without_text, all[i].option.name))
            known[n++] = all[i].option;
    }
    const char *models[2] = {NULL, NULL};
    if (!options_parse(known, n, argc, argv, models, view->needs & NEEDS_OTHER ? 2 : 1, error)) return false;
    o->model = models[0];
    o->other = models[1];
    return true;
}

static bool check_options(const View *view, const StudyOptions *o, Error *error) {
    if (!o->model && !o->preset)
        return error_set(error, "no %s is named: see ./study %s --help",
                         view->run == view_case ? "file" : "model", view->name);
    if (o->model && o->preset)
        return error_set(error, "--preset stands for a model; '%s' is one too many", o->model);
    if (view->needs & NEEDS_OTHER && !o->other)
        return error_set(error, "%s takes two models; '%s' is one", view->name, o->model);
    if (o->prompt && o->prompt_file) return error_set(error, "-p and -f both give a text; choose one");
    if (o->bos && o->no_bos) return error_set(error, "--bos and --no-bos contradict each other");
    if (strcmp(o->kv, "f16") != 0 && strcmp(o->kv, "f32") != 0)
        return error_set(error, "--kv takes f16 or f32, not '%s'", o->kv);
    return true;
}

static void print_usage(void) {
    puts("usage: study COMMAND MODEL [-p TEXT | -f FILE | stdin] [options]\n"
         "Shows what a model does with a text: the file that ./run runs, quantised or not.\n");
    for (size_t i = 0; i < N_VIEWS; i++) printf("  %-10s %s\n", views[i].name, views[i].summary);
    puts(
        "\n"
        "  -p, --prompt TEXT, -f, --file FILE   the text (otherwise stdin)\n"
        "      --bos, --no-bos    put the token that begins a text in front, or not (as the file says)\n"
        "      --special          read control tokens such as <|endoftext|> in the text\n"
        "      --json             one object for programs, in nats; text for people is in bits\n"
        "      --ascii            no characters beyond ASCII (colour: only on a terminal, NO_COLOR heeded)\n"
        "  -z, --tokenizer FILE   a vocabulary     -t, --threads N     -c, --ctx-size N     -s, --seed N (1)\n"
        "      --kv f32|f16       type of the KV cache (f32)\n"
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
    const char *words = view->run == view_case      ? "FILE.json [--json] [--ascii]"
                        : view->needs & NEEDS_OTHER ? "MODEL MODEL [-p TEXT | -f FILE | stdin] [options]"
                        : view->needs & NEEDS_TEXT  ? "MODEL [-p TEXT | -f FILE | stdin] [options]"
                                                    : "MODEL | --preset NAME [options]";
    printf("usage: study %s %s\n%c%s.\n\n%s", view->name, words, view->summary[0] - 'a' + 'A',
           view->summary + 1, view->help);
    if (view->needs & NEEDS_TEXT)
        puts(
            "\nOptions of all commands (--bos, --json, --special …): ./study --help. Definitions: docs/STUDY.md");
}

/* The text of -p, -f or stdin; a terminal is not waited for. */
static bool read_prompt(Study *study, const View *view, Error *error) {
    const StudyOptions *o = study->options;
    const char *text = o->prompt;
    size_t n = text ? strlen(text) : 0;
    bool optional = view->needs & TEXT_IS_OPTIONAL;
    if (!text && (o->prompt_file || (!isatty(STDIN_FILENO) && !optional))) {
        if (!read_text(o->prompt_file ? o->prompt_file : "-", &study->text, error)) return false;
        text = study->text.data, n = study->text.n;
    }
    if (!text && optional) return true;
    return study_encode(study, text ? text : "", n, &study->tokens, &study->bos, error);
}

static bool run_view(const View *view, Study *study, Error *error) {
    const StudyOptions *o = study->options;
    study->compute.kernels = kernels_pick(getenv("ATTN_KERNEL"), error);
    if (!study->compute.kernels) return false;
    if (view->needs & NEEDS_MODEL && o->model) {
        study->threads = threads_new(o->n_threads ? (unsigned)o->n_threads : threads_physical_cores(), error);
        if (!study->threads) return false;
        study->compute.threads = study->threads;
        if (view->run == view_shape) {
            study->model = model_open(o->model, error);
            if (!study->model) return false;
        } else if (!study_open(study, o->model, error)) {
            return false;
        }
    }
    if (view->needs & NEEDS_TEXT && (!read_prompt(study, view, error) || !study_check_place(study, error)))
        return false;
    return view->run(study, error);
}

int main(int argc, char **argv) {
    StudyOptions options = defaults;
    Error error;
    const View *view = NULL;
    bool help = false;
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        print_usage();
        return EXIT_SUCCESS;
    }
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        puts("attn " ATTN_VERSION);
        return EXIT_SUCCESS;
    }
    for (size_t i = 0; argc > 1 && i < N_VIEWS; i++)
        if (strcmp(argv[1], views[i].name) == 0) view = &views[i];
    if (!view) {
        if (argc > 1)
            fprintf(stderr, "study: there is no command '%s': see ./study --help\n", argv[1]);
        else
            fprintf(stderr,
                    "study: no command is named: ./study COMMAND MODEL -p TEXT (see ./study --help)\n");
        return EXIT_USAGE;
    }
    if (!parse_options(view, &options, &help, argc - 1, argv + 1, &error) ||
        (!help && !check_options(view, &options, &error))) {
        fprintf(stderr, "study: %s\n", error.message);
        return EXIT_USAGE;
    }
    if (help) {
        print_view_help(view);
        return EXIT_SUCCESS;
    }
    catch_signals("study");
    Study study = {.options = &options,
                   .command = view->name,
                   .seed = (uint64_t)options.seed,
                   .report = report_begin(options.json, options.ascii),
                   .argc = argc - 1,
                   .argv = argv + 1};
    bool ok = run_view(view, &study, &error);
    study_close(&study);
    threads_free(study.threads);
    if (ok && (fflush(stdout) != 0 || ferror(stdout)) && errno != EPIPE)
        ok = error_set(&error, "cannot write the report: %s", strerror(errno));
    if (!ok && !interrupted()) fprintf(stderr, "study: %s\n", error.message);
    return interrupted() ? EXIT_INTERRUPTED : ok ? EXIT_SUCCESS : EXIT_BAD_INPUT;
}
