/*
 * A view is a command of the study program that shows what a model does with a text. Each is one file of this folder,
 * which ends in its description, a View. VIEWS lists them; command.c does what all of them have in common: options,
 * opening the model, reading the text, opening and closing the report.
 */
#ifndef ATTN_VIEW_H
#define ATTN_VIEW_H

#include "cli/options.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/table.h"
#include "generate.h"
#include "measures/difference.h"
#include "measures/distribution.h"
#include "measures/items.h"
#include "measures/subject.h"
#include "sampling.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The needs of a view before it runs. */
enum {
    NEEDS_MODEL = 1,
    NEEDS_TEXT = 2,
    TEXT_IS_OPTIONAL = 4,
    NEEDS_OTHER = 8,       /* a second model */
    FILE_IS_OPTIONAL = 16, /* an option may stand for it, which `check` looks after */
    WEIGHTS_ALONE = 32,    /* a model without its vocabulary will do */
    HELP_IS_WHOLE = 64,    /* its help names all that it takes: most options of other commands it does not */
};

/* Options that all views have in common; a view that needs no model, or no text, knows only some of them. */
typedef struct StudyOptions {
    const char *model, *other; /* the files; other: compare's second */
    const char *prompt, *prompt_file, *ids, *tokenizer, *kv;
    int64_t n_threads, n_ctx, seed;
    bool bos, no_bos, special, json, ascii, help;
} StudyOptions;

typedef struct View View;

/* A model that stays open from one command to the next, which are given it and name none, nor any other file. */
typedef struct OpenModel {
    const char *path;
    Model *model;
    Tokenizer *tokenizer;
    Threads *threads;
    SubjectCache *cache; /* what stays from one command to the next besides; NULL: nothing */
    FILE *out; /* gets the views' JSON, and they are asked for nothing else; NULL: stdout, and for all */
    bool (*stop)(void *user); /* whether a view is to be given up, asked often; or NULL */
    void *stop_user;          /* lives as long as `cache` does */
} OpenModel;

/* A view under way. */
typedef struct Study {
    const View *view;
    const OpenModel *opened; /* or NULL: what is opened is the study's own */
    const StudyOptions *options;
    Subject subject;        /* what is studied: borrows what the study owns */
    Model *model;           /* NULL in views that need none */
    Checkpoint *vocabulary; /* of -z, or NULL */
    Tokenizer *tokenizer;
    Threads *threads;
    Session *session; /* of a view that feeds one text once; or NULL */
    TextBuffer text;  /* the prompt's bytes, in views that read one */
    uint64_t seed;
    Arena arena; /* memory of the view, freed once at the end */
    Report report;
    int argc; /* the command line, the view's name first */
    char **argv;
} Study;

/* The notes for people; a page asks for numbers alone. */
#if defined(__wasm__)
#define HELP(...) NULL
#else
#define HELP(...) __VA_ARGS__
#endif

struct View {
    const char *name, *summary;
    const char *usage; /* the words behind its name; NULL: those of a view of one model and one text */
    const char *help;
    unsigned needs;

    /*
     * Its own options. Their values lie in the struct of `size` bytes that compute and show are given, which begins as a
     * copy of `defaults` (NULL: zeros).
     */
    const Option *options;
    size_t n_options;
    const void *defaults;
    size_t size;

    /* Whether the options go together, where that is more than one option's matter; NULL: they do. */
    bool (*check)(const StudyOptions *options, const void *view, Error *error);

    /* Whether these options leave nothing to open or read, whatever the view needs without them; NULL: never. */
    bool (*is_bare)(const void *view);

    /*
     * compute fills that struct with numbers. Then the report is opened, show writes the view's tables, and the report
     * is closed. A view without `show` writes its report itself. Both return false with an error.
     */
    bool (*compute)(Study *study, void *view, Error *error);
    bool (*show)(Study *study, void *view, Error *error);

    /* Frees what the arena does not hold (sessions, files); called in any case. NULL: there is nothing. */
    void (*free)(void *view);
};

/*
 * All views, in the order in which help lists them. A page may ask for those of ASKED; for those of SERVED only a page that
 * `study serve` shows may, for they are not in the module; for those of OWN, which read or write files of their own, nobody.
 */
#define VIEWS(ASKED, SERVED, OWN)                                                                            \
    ASKED(tokens)                                                                                            \
    ASKED(next)                                                                                              \
    ASKED(score)                                                                                             \
    ASKED(attend)                                                                                            \
    ASKED(heads)                                                                                             \
    ASKED(lens)                                                                                              \
    ASKED(explain)                                                                                           \
    ASKED(ablate)                                                                                            \
    ASKED(patch)                                                                                             \
    SERVED(attribute)                                                                                        \
    SERVED(circuit)                                                                                          \
    SERVED(faithful)                                                                                         \
    OWN(steer)                                                                                               \
    SERVED(neurons)                                                                                          \
    SERVED(meaning)                                                                                          \
    SERVED(rollout)                                                                                          \
    SERVED(experts)                                                                                          \
    OWN(compare)                                                                                             \
    OWN(dump)                                                                                                \
    ASKED(page)                                                                                              \
    SERVED(selfcheck)                                                                                        \
    SERVED(shape)                                                                                            \
    OWN(case)                                                                                                \
    OWN(serve)

#define DECLARE_VIEW(name) extern const View view_##name;
VIEWS(DECLARE_VIEW, DECLARE_VIEW, DECLARE_VIEW)
#undef DECLARE_VIEW

/* A row of a list of views; or none. */
#define VIEW_ROW(name) &view_##name,
#define NO_ROW(name)

/*
 * The view from its options to its report; argv[0] is its name. Returns the exit code, with an error if it is not 0.
 * `opened` may be NULL.
 */
int view_command(const View *view, const OpenModel *opened, int argc, char **argv, Error *error);

/* The options that views share: of all, of a model, of a text. `values` is NULL. */
extern const Options shared_options[3];

#define VIEW_OPTIONS(table) .options = (table), .n_options = sizeof(table) / sizeof *(table)

/* Opens the model at path and, if the view needs it, its vocabulary; study_close releases all that the study owns. */
bool study_open(Study *study, const char *path, Error *error);
void study_close(Study *study);

/*
 * The tokens of n bytes of text as the options ask (BOS, --special). Appends to *tokens; *bos says whether
 * a BOS was put in front. Fails when there would be none.
 */
bool study_encode(const Study *study, const char *text, size_t n, Tokens *tokens, bool *bos, Error *error);

/* Makes the study's text of n bytes (NULL: there are none where --ids is given) and the tokens of --ids behind them. */
bool study_tokenize(Study *study, const char *text, size_t n, Error *error);

/*
 * Opens the report: model, weight type, tokens, bos, seed and an empty line; with --json an object that holds
 * these as "command", "model", "architecture", "type", "n_tokens", "bos", "seed" and "tokens":
 * [{"id", "token"}, …]. Who opened it ends the object.
 */
void report_open(Report *report, const Study *study);

/* Opens the study's session and feeds it the tokens before `to`; `probe` (or NULL) looks on from position `from` on. */
bool study_feed(Study *study, const Probe *probe, size_t from, size_t to, Error *error);

/* The name of the type that most bytes of the checkpoint's matrices have. */
const char *weight_type(const Checkpoint *checkpoint);

/* A number that no option gave. */
#define NOT_GIVEN SIZE_MAX

/* Whether layer and head exist in the model, and position `query` in a text of n_tokens, as far as they are given. */
bool study_check_place(const Study *study, size_t layer, size_t head, size_t query, size_t n_tokens,
                       Error *error);

/* Whether --query is a number; one that is too large becomes the largest that none is given by. */
bool study_query_number(const char *text, size_t *query);

/*
 * The position of the study's text that --query means, or the item of these (NULL: tokens): its number, or where the last token
 * lies that is this text or ends this word; of no value (NULL) the last of all.
 */
bool study_query(Study *study, const char *text, const Items *items, size_t *query, Error *error);

/* Whether a layer has attention heads; where it is not given, whether any has. */
bool study_check_heads(const Study *study, size_t layer, Error *error);

/* Whether n_predict tokens fit the context behind the study's. */
bool study_check_predict(const Study *study, size_t n_predict, Error *error);

/*
 * A generator behind the study's tokens, all but the last of which the session holds: it feeds that one. NULL with an
 * error; the caller frees it.
 */
Generator *study_generator(const Study *study, Session *session, float temperature, Error *error);

/*
 * Lets the model write on: up to n_predict tokens, until the text ends or Ctrl-C. Each is appended to the study's tokens
 * and fed; then `each` is called.
 */
bool study_generate(Study *study, Generator *generator, size_t n_predict, void (*each)(void *user),
                    void *user, Error *error);

/* The files that -o must not replace. */
Inputs study_inputs(const Study *study);

/*
 * The id of --token: a text that is exactly one token (tried as given and with a space before it), or "#123".
 */
bool study_token(const Study *study, const char *text, int32_t *id, Error *error);

/* Likewise of another option, which the error names. Where that is not given, text is NULL and *id stays. */
bool study_token_given(const Study *study, const char *option, const char *text, int32_t *id, Error *error);

/*
 * Chooses the parts of "L3H7,L4,L5MLP,L0H2=0.5": a head, all heads of a layer, an MLP, one at a factor. The error names the
 * option. json_parts: their names under `key`, and "factors".
 */
struct Ablation;
bool choose_parts(struct Ablation *ablation, const char *option, const char *list, Error *error);
void json_parts(Report *report, const char *key, const struct Ablation *ablation);

/* A token as an object "id", "token"; of the second null where there is none (id < 0). */
void json_token_object(Report *report, const char *key, int32_t id);
void json_token_or_null(Report *report, const char *key, int32_t id);

/* "not_done": the names of what the model's file asks for and a sampler does not do. */
void json_not_done(Report *report, const SamplingFields *fields);

/*
 * "totals": {"n", "nll_nats", "perplexity", "perplexity_error", "bits_per_byte", "n_bytes", "top1_accuracy"}. The page
 * does without perplexity_error, n_bytes and top1_accuracy.
 */
void json_totals(Report *report, const Totals *totals, bool page);

/* Members: of a baseline, of the ablated run that it is held against, or of two files compared. */
typedef enum DifferencePart {
    BASELINE, /* "n", "nll_nats" */
    ABLATED,  /* "nll_nats", "delta_nll_nats", "kl_nats", "top1_changed" */
    COMPARED, /* "n", "a_nll_nats", "b_nll_nats", "delta_nll_nats", "kl_nats", "top1_agreement" */
} DifferencePart;
void json_difference(Report *report, const Difference *difference, DifferencePart part);

/*
 * For people: nll and perplexity under the titles of a, b and b − a; KL; at how many positions the likeliest token is
 * another or, with `same`, the same.
 */
void difference_print(Report *report, const Difference *difference, const char *const titles[3], bool same);

/* The n_top tokens whose logits a head or neuron raises straight, and those that it lowers: "raised" and "lowered". */
struct HeadEffects;
void effects_show(Report *report, const struct HeadEffects *effects, size_t n_top);

/* Whether texts of random tokens begin with a BOS. */
bool repeats_with_bos(const Study *study);

/*
 * Scores in few bytes: "columns" names them, "chance" and each of "rows" (head after head) hold them, "labels"; null of
 * heads that were not measured.
 */
struct Heads;
void json_head_scores(Report *report, const char *key, const struct Heads *heads);

/*
 * explain and the page list a query's heaviest keys, a few of those that it cannot see, and so many tokens that a head
 * raises.
 */
enum { MAX_KEYS = 40, MAX_MASKED = 3, N_EFFECTS = 5 };

#endif
