/*
 * next: what the model expects after the text: the likeliest tokens at temperature 1, how much probability
 * they hold together, and what a sampler's penalties, filters and temperature would leave of each. With --draw
 * those that are not given are as ./run would have them. With --ablate the same of the model without some heads
 * or MLPs.
 */
#include "cli/notes.h"
#include "measures/ablation.h"
#include "views/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOP = 10, BAR_WIDTH = 20 /* columns */ };

/* A token that may come next. */
typedef struct NextRow {
    int32_t id;
    size_t rank;        /* 1 + the number of tokens with a larger logit */
    double probability; /* at temperature 1, unfiltered */
    double logprob;     /* nats */
    double surprisal;   /* nats */
    double logit;
    double cumulative;  /* probability of the rows down to here */
    double after, kept; /* probability that the token is drawn; filtered out: 0, and in `kept` NAN */
} NextRow;

typedef struct Next {
    SamplerOptions sampling;
    StringList tokens;  /* of --token */
    size_t draw;        /* --draw: what has been drawn before; NOT_GIVEN: nothing is drawn */
    const char *ablate; /* or NULL */

    Ablation ablation;

    float *logits;         /* [n_vocab] after the last token */
    size_t n_vocab, n_top; /* n_top: as many as asked for, or as there are */
    NextRow *rows;         /* [n_top] likeliest first */
    NextRow *named;        /* [tokens.n] */
    Distribution distribution;

    int32_t drawn;        /* by --draw */
    bool ends;            /* it ends the text */
    SamplingFields asked; /* of --draw */

    double *after;          /* [n_vocab] */
    size_t n_kept;          /* tokens that may be drawn */
    double mass;            /* what they hold at temperature 1, unfiltered */
    double entropy_of_kept; /* nats, of what is drawn */
} Next;

static double probability(const Next *next, int32_t id) {
    return probability_of(next->logits, id, next->distribution.log_sum);
}

/* An option that is not given does nothing or, of --draw, is as ./run would have it. */
static bool settle(const Study *study, Next *next, Error *error) {
    next->sampling.seed = study->seed;
    if (next->draw != NOT_GIVEN)
        return sampling_settle(&next->sampling, model_checkpoint(study->model), &next->asked, error);
    sampling_leave_out(&next->sampling);
    return true;
}

/* Lets a sampler that knows the text filter the logits. */
static bool filter(Next *next, const Tokens *tokens, Error *error) {
    Sampler *sampler = sampler_new(&next->sampling, next->n_vocab, error);
    if (!sampler) return false;
    for (size_t i = 0; i < tokens->n; i++) sampler_accept(sampler, tokens->ids[i]);
    Candidates kept = sampler_candidates(sampler, next->logits);
    double sum = 0;
    for (size_t i = 0; i < kept.n; i++) sum += (double)kept.items[i].p;
    next->n_kept = kept.n;
    for (size_t i = 0; i < kept.n; i++) {
        double p = (double)kept.items[i].p / sum;
        next->after[kept.items[i].id] = p;
        next->mass += probability(next, kept.items[i].id);
        if (p > 0) next->entropy_of_kept -= p * log(p);
    }
    if (next->draw != NOT_GIVEN) {
        sampler_skip(sampler, next->draw);
        next->drawn = sampler_next(sampler, next->logits);
    }
    sampler_free(sampler);
    return true;
}

static NextRow row_of(const Next *next, int32_t id, size_t rank) {
    double logit = (double)next->logits[id], after = next->after[id];
    return (NextRow){.id = id,
                     .rank = rank,
                     .probability = probability(next, id),
                     .logprob = logit - next->distribution.log_sum,
                     .surprisal = surprisal_of(next->logits, id, next->distribution.log_sum),
                     .logit = logit,
                     .cumulative = NAN,
                     .after = after,
                     .kept = after > 0 ? after : NAN};
}

static void fill_rows(Next *next, const int32_t *top) {
    double cumulative = 0;
    for (size_t i = 0; i < next->n_top; i++) {
        bool tie = i > 0 && next->logits[top[i]] == next->logits[top[i - 1]];
        next->rows[i] = row_of(next, top[i], tie ? next->rows[i - 1].rank : i + 1);
        next->rows[i].cumulative = cumulative += next->rows[i].probability;
    }
}

static bool find_named(const Study *study, Next *next, Error *error) {
    for (size_t i = 0; i < next->tokens.n; i++) {
        int32_t id;
        if (!study_token(study, next->tokens.items[i], &id, error)) return false;
        next->named[i] = row_of(next, id, logits_rank(next->logits, next->n_vocab, id));
    }
    return true;
}

/* The logits after the last token. */
static bool feed(Study *study, Next *next, Error *error) {
    const Tokens *tokens = &study->subject.tokens;
    return study_feed(study, NULL, tokens->n - 1, tokens->n - 1, error) &&
           session_feed(study->session, &tokens->ids[tokens->n - 1], 1, next->logits, 1, error);
}

/* … without the parts. */
static bool feed_without(Study *study, Next *next, Error *error) {
    Ablation *ablation = &next->ablation;
    Difference difference = {0};
    if (!subject_check_length(&study->subject, error) ||
        !ablation_begin(ablation, &study->subject, &study->arena, error) ||
        !choose_parts(ablation, "--ablate", next->ablate, error))
        return false;
    ablation->from = ablation->to; /* at the last position alone, of which no token is foreseen */
    if (!ablation_baseline(ablation, error) || !ablation_run(ablation, &difference, NULL, NULL, error))
        return false;
    memcpy(next->logits, ablation_last_logits(ablation, true), next->n_vocab * sizeof *next->logits);
    return true;
}

static bool compute(Study *study, void *view, Error *error) {
    Next *next = view;
    Arena *arena = &study->arena;
    next->n_vocab = model_config(study->model)->n_vocab;
    next->logits = arena_floats(arena, 1, next->n_vocab);
    next->after = arena_new(arena, next->n_vocab, sizeof *next->after);
    next->rows = arena_new(arena, next->n_top + 1, sizeof *next->rows);
    next->named = arena_new(arena, next->tokens.n + 1, sizeof *next->named);
    int32_t *top = arena_new(arena, next->n_top + 1, sizeof *top);
    if (!arena_ok(arena, error, "%zu logits", next->n_vocab) || !settle(study, next, error) ||
        !(next->ablate ? feed_without : feed)(study, next, error))
        return false;
    next->distribution = distribution_of(next->logits, next->n_vocab);
    next->n_top = logits_top(next->logits, next->n_vocab, next->n_top, top);
    if (!filter(next, &study->subject.tokens, error)) return false;
    next->ends = next->draw != NOT_GIVEN && tokenizer_is_end(study->tokenizer, next->drawn);
    fill_rows(next, top);
    return find_named(study, next, error);
}

#define ROW(member) offsetof(NextRow, member)

static const Column columns[] = {
    {NULL, "rank", CELL_SIZE, ROW(rank), 5},
    {"token", "token", CELL_TOKEN, ROW(id), 18, 16},
    {"rank", NULL, CELL_SIZE, ROW(rank)},
    {"probability", "p", CELL_REAL, ROW(probability), 10, 3, 100, "%"},
    {"logprob_nats", NULL, CELL_REAL, ROW(logprob)},
    {NULL, "bits", CELL_REAL, ROW(surprisal), 8, 2, BITS_PER_NAT},
    {"logit", "logit", CELL_REAL, ROW(logit), 11, 3},
    {"cumulative", "sum", CELL_REAL, ROW(cumulative), 10, 3, 100, "%"},
    {"after", NULL, CELL_REAL, ROW(after)},
    {NULL, "after", CELL_REAL, ROW(kept), 10, 3, 100, "%"},
    {NULL, "", CELL_BAR, ROW(probability), BAR_WIDTH, .need = 1},
};
enum { CUMULATIVE = 1 << 7, AFTER = 1 << 9 }; /* columns that may be left out */

static const Table top_table = TABLE("top", columns), named_table = TABLE("named", columns);

static const Column after_columns[] = {
    {"temperature", NULL, CELL_FLOAT, offsetof(Next, sampling.temperature)},
    {"top_k", NULL, CELL_SIZE, offsetof(Next, sampling.top_k)},
    {"top_p", NULL, CELL_FLOAT, offsetof(Next, sampling.top_p)},
    {"min_p", NULL, CELL_FLOAT, offsetof(Next, sampling.min_p)},
    {"repeat_penalty", NULL, CELL_FLOAT, offsetof(Next, sampling.repeat_penalty)},
    {"repeat_last_n", NULL, CELL_SIZE, offsetof(Next, sampling.penalty_window)},
    {"presence_penalty", NULL, CELL_FLOAT, offsetof(Next, sampling.presence_penalty)},
    {"frequency_penalty", NULL, CELL_FLOAT, offsetof(Next, sampling.frequency_penalty)},
    {"n_kept", NULL, CELL_SIZE, offsetof(Next, n_kept)},
    {"mass", NULL, CELL_REAL, offsetof(Next, mass)},
    {"entropy_nats", NULL, CELL_REAL, offsetof(Next, entropy_of_kept)},
};
static const Table after_table = TABLE(NULL, after_columns);

/* Whether the sampler's options change anything: without them "after" is the probability itself. */
static bool filters(const SamplerOptions *sampling) {
    for (SamplerStep step = STEP_PENALTIES; step <= STEP_TEMPERATURE; step++)
        if (sampler_does(sampling, step)) return true;
    return false;
}

static void print_after(const Next *next) {
    const SamplerOptions *sampling = &next->sampling;
    fputs("after", stdout);
    if (sampler_does(sampling, STEP_TEMPERATURE)) printf(" temperature %g,", (double)sampling->temperature);
    if (sampler_does(sampling, STEP_TOP_K)) printf(" top-k %zu,", sampling->top_k);
    if (sampler_does(sampling, STEP_TOP_P)) printf(" top-p %g,", (double)sampling->top_p);
    if (sampler_does(sampling, STEP_MIN_P)) printf(" min-p %g,", (double)sampling->min_p);
    if (sampler_does(sampling, STEP_PENALTIES)) fputs(" penalties,", stdout);
    if (sampling->order) fputs(" in an order of its own,", stdout);
    printf(" %zu token%s may be drawn, with %.3f%% of p; entropy %.3f bits\n", next->n_kept,
           next->n_kept == 1 ? "" : "s", 100 * next->mass, next->entropy_of_kept * BITS_PER_NAT);
}

/* Prints the tokens that --draw drew. */
static void show_drawn(Report *report, const Next *next) {
    if (next->draw == NOT_GIVEN) return;
    if (is_json(report)) {
        json_object(report, "drawn");
        json_token(report, next->drawn);
        json_bool(report, "end", next->ends);
        json_end_object(report);
        json_not_done(report, &next->asked);
        return;
    }
    note_not_done("study", &next->asked);
    printf("drawn: ");
    print_token(report, next->drawn, 0);
    puts(next->ends ? ", which ends the text" : "");
}

/* Prints the effect of what --ablate switched off. */
static void show_ablated(Report *report, const Next *next) {
    const Ablation *ablation = &next->ablation;
    char name[32];
    if (!next->ablate) return;
    if (is_json(report)) {
        json_parts(report, "ablated", ablation);
        return;
    }
    fputs("with", stdout);
    for (size_t i = 0; i < ablation->n_chosen; i++)
        printf(" %s=%g", part_name(name, ablation, ablation->chosen[i]),
               (double)ablation->factors[ablation->chosen[i]]);
    putchar('\n');
}

static bool show(Study *study, void *view, Error *error) {
    const Next *next = view;
    Report *report = &study->report;
    bool after = filters(&next->sampling);
    Columns left_out = after ? 0 : AFTER;
    double entropy = next->distribution.entropy;
    (void)error;
    show_ablated(report, next);
    if (is_json(report))
        json_real(report, "entropy_nats", entropy);
    else
        print_styled(report, STYLE_DIM,
                     "p: probability of coming next; bits: -log2 p; sum: p down to here%s\n",
                     after ? "; after: p once filtered" : "");
    table_show(report, &top_table, left_out, next->rows, next->n_top, sizeof *next->rows);
    if (next->tokens.n > 0) {
        if (!is_json(report)) putchar('\n');
        table_show(report, &named_table, left_out | CUMULATIVE, next->named, next->tokens.n,
                   sizeof *next->named);
    }
    if (is_json(report)) {
        table_json_object(report, "after", &after_table, 0, next);
        show_drawn(report, next);
        return true;
    }
    printf("\nentropy %.3f bits: as open as an even choice among %.1f of the %zu tokens\n",
           entropy * BITS_PER_NAT, exp(entropy), next->n_vocab);
    if (after)
        print_after(next);
    else
        print_styled(report, STYLE_DIM,
                     "--temp, --top-k, --top-p, --min-p show what a sampler would leave of it\n");
    show_drawn(report, next);
    return true;
}

static void free_next(void *view) { ablation_free(&((Next *)view)->ablation); }

static const Next defaults = {.n_top = TOP, .draw = NOT_GIVEN, .sampling = SAMPLING_UNSET};

#define AT(member) offsetof(Next, member)

static const Option options[] = {
    {"--top", NULL, OPTION_SIZE, AT(n_top), 0, 1000},
    {"--token", NULL, OPTION_LIST, AT(tokens)},
    {"--draw", NULL, OPTION_SIZE, AT(draw), 0, 1e6},
    {"--ablate", NULL, OPTION_ONCE, AT(ablate)},
    SAMPLING_OPTIONS(Next, sampling),
};

const View view_next = {
    .name = "next",
    .summary = "what the model expects after the text",
    .help = HELP(
        "The distribution of the next token: rank, probability, logit (before the softmax), cumulative\n"
        "probability, and what temperature and filters would make of it.\n"
        "\n"
        "  --top K         tokens to list (10)\n"
        "  --token T       this token too (a text, or #id); may be given several times\n"
        "  --temp X        divide the logits by X (1)     --top-k N   keep the N likeliest (0: all)\n"
        "  --top-p X       keep this mass (1: all)        --min-p X   keep p >= X * the best p (0: all)\n"
        "  --repeat-penalty X, --presence-penalty X, --frequency-penalty X, --repeat-last-n N, --samplers LIST\n"
        "                  as ./run has them: what the text's own tokens pay, and the order of all these\n"
        "  --draw K        draw what ./run would as its token K (from 0), with these and --seed, where the\n"
        "                  text has its tokens before that; without them as the file asks, as ./run does\n"
        "  --ablate LIST   without these: L3H7, L3 (a layer's heads), L3MLP, L3H7=0.5 (half of it)\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(Next),
    .compute = compute,
    .show = show,
    .free = free_next,
};
