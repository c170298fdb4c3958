/*
 * ablate: what changes when heads or MLPs are switched off (ablation.h): together, or, in a sweep, each in turn.
 */
#include "cli/input.h"
#include "measures/ablation.h"
#include "measures/scores.h"
#include "views/view.h"

#include <stdlib.h>
#include <string.h>

enum { STRONGEST = 10 /* cells of a sweep that are listed */ };

typedef enum Sweep { SWEEP_NONE, SWEEP_HEADS, SWEEP_MLPS } Sweep;

static const char *const by_names[] = {"zero", "mean", "resample"};
static const char *const sweep_names[] = {"", "heads", "mlps"}; /* an option's from 1 on */

/* A part that a sweep switched off. */
typedef struct Cell {
    char name[32];
    size_t layer, head; /* head: none (SIZE_MAX) of an MLP */
    DifferenceMeans means;
    double share; /* its KL as a share of the largest */
} Cell;

/* A token that is likeliest after the text, with everything on or without the parts. */
typedef struct Answer {
    int32_t id;
    double baseline, ablated; /* its probability */
} Answer;

typedef struct AblateView {
    const char *heads, *mlps, *sweep_name, *by_name, *with;
    bool hard_zero;

    Ablation ablation;
    Sweep sweep;
    Difference difference; /* baseline against ablated; in a sweep, by the part under way */
    Cell *cells;           /* [ablation.n_chosen] of a sweep */
    size_t strongest[STRONGEST], n_strongest; /* those that moved predictions most */
    Answer answers[2];                        /* the two may be one */
    size_t n_answers;
} AblateView;

static bool choose_mlps(Ablation *ablation, const char *list, Error *error) {
    size_t n_layer = ablation->config->n_layer;
    bool *layers = arena_new(ablation->arena, n_layer, sizeof *layers);
    if (!arena_ok(ablation->arena, error, "a list of %zu layers", n_layer) ||
        !parse_list("--mlps", list, "layer", n_layer, layers, error))
        return false;
    for (size_t layer = 0; layer < n_layer; layer++)
        if (layers[layer]) ablation_choose(ablation, layer, ablation->config->n_head, 0);
    return true;
}

static bool parse_choices(const AblateView *v, By *by, Sweep *sweep, Error *error) {
    size_t named[2];
    if (!parse_choice("--by", v->by_name, by_names, 3, &named[0], error) ||
        !parse_choice("--sweep", v->sweep_name, sweep_names + 1, 2, &named[1], error))
        return false;
    *by = (By)named[0];
    *sweep = v->sweep_name ? (Sweep)(named[1] + 1) : SWEEP_NONE;
    return true;
}

static bool check(const StudyOptions *options, const void *view, Error *error) {
    const AblateView *v = view;
    By by;
    Sweep sweep;
    (void)options;
    if (!parse_choices(v, &by, &sweep, error)) return false;
    if (!v->heads && !v->mlps && !sweep)
        return error_set(error, "say what to switch off: --heads L0H1, --mlps 0, or --sweep heads|mlps");
    if ((v->heads || v->mlps) && sweep)
        return error_set(error, "--sweep takes all %s in turn: give it without --heads and --mlps",
                         sweep_names[sweep]);
    if (v->hard_zero && by != BY_ZERO)
        return error_set(error, "--hard-zero says what zero is: it does not go with --by %s", by_names[by]);
    if (v->with && by == BY_ZERO)
        return error_set(error,
                         "--with is the reference text of --by mean or --by resample; give one of these");
    return v->with || by != BY_RESAMPLE ||
           error_set(error, "--by resample takes its values from another text: give it by --with FILE");
}

static bool read_options(AblateView *v, const Study *study, Error *error) {
    const Subject *subject = &study->subject;
    Ablation *ablation = &v->ablation;
    const Config *config = ablation->config;
    parse_choices(v, &ablation->by, &v->sweep, error); /* as check() did */
    ablation->hard_zero = v->hard_zero;
    ablation->in_turn = v->sweep;
    if (subject->tokens.n < 2)
        return error_set(error,
                         "ablate scores each token after the first: give a text of two tokens or more");
    for (size_t layer = 0; v->sweep && layer < config->n_layer; layer++)
        for (size_t head = 0; head <= config->n_head; head++) {
            bool is_head = head < config->n_head;
            if (is_head == (v->sweep == SWEEP_HEADS) && (!is_head || layer_has_heads(subject->model, layer)))
                ablation_choose(ablation, layer, head, 0);
        }
    return (v->sweep != SWEEP_HEADS || study_check_heads(study, NOT_GIVEN, error)) &&
           (!v->heads || choose_parts(ablation, "--heads", v->heads, error)) &&
           (!v->mlps || choose_mlps(ablation, v->mlps, error));
}

static bool read_reference(const Study *study, Ablation *ablation, const char *path, Error *error) {
    size_t n = study->subject.tokens.n, limit = subject_n_ctx(&study->subject);
    TextBuffer text = {0};
    bool bos, ok = read_prompt_text(path, &text, error);
    if (ok && text.n == 0) ok = error_set(error, "--with %s: the file is empty", path);
    ok = ok && study_encode(study, text.data, text.n, &ablation->reference, &bos, error);
    free(text.data);
    if (!ok) return false;
    if (ablation->by == BY_RESAMPLE && ablation->reference.n != n)
        return error_set(error, "--with %s: %zu tokens, but the text has %zu; --by resample needs as many",
                         path, ablation->reference.n, n);
    return ablation->reference.n <= limit ||
           error_set(error, "--with %s: %zu tokens, more than the context of %zu", path,
                     ablation->reference.n, limit);
}

static bool run_in_turn(AblateView *v, const Subject *subject, Error *error) {
    Ablation *ablation = &v->ablation;
    const char *what = sweep_names[v->sweep];
    size_t n = ablation->n_chosen;
    v->cells = arena_new(ablation->arena, n, sizeof *v->cells);
    double *kl = arena_new(ablation->arena, n, sizeof *kl);
    bool ok = arena_ok(ablation->arena, error, "%zu %s", n, what);
    for (size_t i = 0; ok && i < n; i++) {
        size_t place = ablation->chosen[i];
        Cell *cell = &v->cells[i];
        cell->layer = part_layer(ablation, place);
        cell->head = part_head(ablation, place);
        part_name(cell->name, ablation, place);
        ablation->off[place] = true;
        v->difference = (Difference){0};
        ok = subject_go_on(subject, what, i, n, error) &&
             ablation_run(ablation, &v->difference, NULL, NULL, error);
        ablation->off[place] = false;
        cell->means = difference_means(&v->difference);
        kl[i] = cell->means.kl;
    }
    subject_go_on(subject, what, n, n, NULL);
    if (!ok) return false;
    v->n_strongest = largest_of(kl, n, STRONGEST, v->strongest);
    for (size_t i = 0; i < n; i++) v->cells[i].share = kl[i] / kl[v->strongest[0]];
    return true;
}

static void compare_answers(AblateView *v) {
    const float *logits[] = {ablation_last_logits(&v->ablation, false),
                             ablation_last_logits(&v->ablation, true)};
    Distribution baseline = distribution_of(logits[0], v->ablation.config->n_vocab);
    Distribution ablated = distribution_of(logits[1], v->ablation.config->n_vocab);
    const int32_t ids[] = {baseline.best, ablated.best};
    v->n_answers = ids[0] == ids[1] ? 1 : 2;
    for (size_t i = 0; i < v->n_answers; i++)
        v->answers[i] = (Answer){ids[i], probability_of(logits[0], ids[i], baseline.log_sum),
                                 probability_of(logits[1], ids[i], ablated.log_sum)};
}

static bool compute(Study *study, void *view, Error *error) {
    AblateView *v = view;
    Ablation *ablation = &v->ablation;
    const Subject *subject = &study->subject;
    if (!ablation_begin(ablation, subject, &study->arena, error) || !read_options(v, study, error) ||
        (v->with && !read_reference(study, ablation, v->with, error)) || !ablation_baseline(ablation, error))
        return false;
    if (v->sweep) return run_in_turn(v, subject, error);
    if (!ablation_run(ablation, &v->difference, NULL, NULL, error)) return false;
    compare_answers(v);
    return true;
}

#define CELL(member) offsetof(Cell, member)

static const Column columns[] = {
    {NULL, "head", CELL_NAME, CELL(name), -8},
    {NULL, "MLP", CELL_NAME, CELL(name), -8},
    {"layer", NULL, CELL_SIZE, CELL(layer)},
    {"head", NULL, CELL_SIZE, CELL(head)},
    {"delta_nll_nats", "change", CELL_REAL, CELL(means.nll_change), 10, 4, BITS_PER_NAT, .format = '+'},
    {"kl_nats", "KL", CELL_REAL, CELL(means.kl), 10, 4, BITS_PER_NAT},
    {"top1_changed", "top-1", CELL_REAL, CELL(means.top1_changed), 9, 1, 100, "%"},
    {NULL, "", CELL_BAR, CELL(share), 24},
};
enum { OF_HEADS = 1 << 0 | 1 << 3, OF_MLPS = 1 << 1 }; /* columns of one sweep alone */

static const Column answer_columns[] = {
    {"token", "next token", CELL_TOKEN, offsetof(Answer, id), 14, 14},
    {"baseline", "baseline", CELL_REAL, offsetof(Answer, baseline), 11, 1, 100, "%"},
    {"ablated", "ablated", CELL_REAL, offsetof(Answer, ablated), 11, 1, 100, "%"},
};
static const Table answers_table = TABLE("next", answer_columns);

static const Table cells_table = TABLE("cells", columns);

static Columns left_out(const AblateView *v) { return v->sweep == SWEEP_HEADS ? OF_MLPS : OF_HEADS; }

static void json_ablate(Report *report, const AblateView *v) {
    const Ablation *ablation = &v->ablation;
    json_text(report, "by", by_names[ablation->by], SIZE_MAX);
    json_bool(report, "hard_zero", v->hard_zero);
    json_object(report, "baseline");
    json_difference(report, &v->difference, BASELINE);
    json_end_object(report);
    if (v->sweep) {
        json_text(report, "sweep", sweep_names[v->sweep], SIZE_MAX);
        table_show(report, &cells_table, left_out(v), v->cells, ablation->n_chosen, sizeof *v->cells);
        return;
    }
    json_parts(report, "ablated", ablation);
    json_object(report, "ablation");
    json_difference(report, &v->difference, ABLATED);
    json_end_object(report);
    table_show(report, &answers_table, 0, v->answers, v->n_answers, sizeof *v->answers);
}

static void print_how(const Report *report, const AblateView *v) {
    const Ablation *ablation = &v->ablation;
    bool has_head = part_head(ablation, *ablation->chosen) < ablation->config->n_head;
    switch (ablation->by) {
    case BY_ZERO:
        printf("set to zero%s\n", !has_head      ? ""
                                  : v->hard_zero ? ", value bias and all"
                                                 : " (a head: to its value bias, if it has one)");
        break;
    case BY_MEAN:
        printf("set to the mean over ");
        print_path(report, v->with ? v->with : "this text");
        printf(" (%zu tokens)\n", v->with ? ablation->reference.n : ablation->subject->tokens.n);
        break;
    case BY_RESAMPLE:
        printf("set to the values on ");
        print_path(report, v->with);
        putchar('\n');
        break;
    }
    print_styled(report, STYLE_DIM,
                 "change: nll without it minus nll with it, bits a token; above 0: it helped\n"
                 "KL: bits by which the prediction moved; top-1: where the likeliest token is\n"
                 "another; both over all positions\n");
}

static void print_together(Report *report, const AblateView *v) {
    static const char *const titles[] = {"baseline", "ablated", "change"};
    const Ablation *ablation = &v->ablation;
    char name[32];
    size_t column = 0;
    bool scaled = false;
    for (size_t i = 0; i < ablation->n_chosen; i++) {
        part_name(name, ablation, ablation->chosen[i]);
        if (column && column + strlen(name) > report->width) putchar('\n'), column = 0;
        column += (size_t)printf("%s", name);
        float factor = ablation->factors[ablation->chosen[i]];
        column += (size_t)(factor != 0 ? printf("=%g ", (double)factor) : printf(" "));
        scaled = scaled || factor != 0;
    }
    if (column + 60 > report->width) putchar('\n'); /* what print_how adds */
    print_how(report, v);
    if (scaled)
        print_styled(report, STYLE_DIM,
                     "=f: f of what it writes, and 1 - f of what it is set to; =1 changes nothing\n");
    putchar('\n');
    difference_print(report, &v->difference, titles, false);
    putchar('\n');
    table_show(report, &answers_table, 0, v->answers, v->n_answers, sizeof *v->answers);
}

/* Layers down, heads across, as many as the window is wide at a time. */
static void print_map(const Report *report, const AblateView *v) {
    size_t n_head = v->ablation.config->n_head, room = (report->width - 7) / 2;
    for (size_t first = 0, n; first < n_head; first += n) {
        n = at_most(n_head - first, room);
        printf("\nhead   ");
        for (size_t head = first; head < first + n; head++) printf("%2zu", head % 100);
        putchar('\n');
        for (size_t cell = 0; cell < v->ablation.n_chosen; cell += n_head) { /* those of a layer */
            printf("L%-5zu ", v->cells[cell].layer);
            for (size_t head = first; head < first + n; head++)
                print_heat(report, v->cells[cell + head].share);
            putchar('\n');
        }
    }
}

static void print_sweep(Report *report, const AblateView *v) {
    bool heads = v->sweep == SWEEP_HEADS;
    Cell strongest[STRONGEST];
    for (size_t i = 0; i < v->n_strongest; i++) strongest[i] = v->cells[v->strongest[i]];
    printf("each %s in turn ", heads ? "head" : "MLP");
    print_how(report, v);
    printf("baseline: nll %.4f bits a token over %zu\n", v->cells->means.nll_a * BITS_PER_NAT,
           v->cells->means.n);
    if (heads) {
        print_map(report, v);
        print_styled(report, STYLE_DIM, "shade: KL, from 0 to %.4f bits\n",
                     strongest->means.kl * BITS_PER_NAT);
    }
    putchar('\n');
    table_show(report, &cells_table, left_out(v), heads ? strongest : v->cells,
               heads ? v->n_strongest : v->ablation.n_chosen, sizeof *v->cells);
}

static bool show(Study *study, void *view, Error *error) {
    const AblateView *v = view;
    (void)error;
    if (is_json(&study->report))
        json_ablate(&study->report, v);
    else if (v->sweep)
        print_sweep(&study->report, v);
    else
        print_together(&study->report, v);
    return true;
}

static void free_ablate(void *view) { ablation_free(&((AblateView *)view)->ablation); }

#define AT(member) offsetof(AblateView, member)

static const Option options[] = {
    {"--heads", NULL, OPTION_ONCE, AT(heads)},
    {"--mlps", NULL, OPTION_ONCE, AT(mlps)},
    {"--sweep", NULL, OPTION_TEXT, AT(sweep_name)},
    {"--by", NULL, OPTION_TEXT, AT(by_name)},
    {"--with", NULL, OPTION_ONCE, AT(with), .file = true},
    {"--hard-zero", NULL, OPTION_ON, AT(hard_zero)},
};

const View view_ablate = {
    .name = "ablate",
    .summary = "what changes if a head is switched off",
    .help = HELP(
        "Change in surprisal, divergence KL(before || after), share of positions whose best token changed,\n"
        "and the likeliest next token with and without.\n"
        "\n"
        "  --heads LIST    L3H7, L3 (all of a layer), L3MLP; L3H7=0.5: half of it     --mlps LIST   0,2-3\n"
        "  --sweep heads|mlps   each in turn\n"
        "  --by zero|mean|resample   zero: a head gives its value bias alone; mean: what it gives on\n"
        "                  average; resample: what it gives on another text     --hard-zero   zero itself\n"
        "  --with FILE     the text that mean (the text itself) and resample take it from\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT,
    VIEW_OPTIONS(options),
    .size = sizeof(AblateView),
    .check = check,
    .compute = compute,
    .show = show,
    .free = free_ablate,
};
