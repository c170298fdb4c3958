/*
 * meaning: what a word is in each of several sentences (measures/meaning.h): how alike its residual streams are, layer by
 * layer, and which tokens they are near to.
 */
#include "measures/meaning.h"
#include "cli/input.h"
#include "views/view.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_SENTENCES = 128,
    PAIR_WIDTH = 9,
    BEFORE_PAIRS = 18,
    TOKEN_WIDTH = 10,
    NEAR_SHOWN = 3,
    NAME_BYTES = 32
};

/* A row's cosines in a few numbers. */
typedef struct MeaningRow {
    const struct MeaningView *view;
    char name[NAME_BYTES];
    double mean, least, most;
    char least_pair[NAME_BYTES], most_pair[NAME_BYTES];
    const double *cosines; /* [n_pairs] */
} MeaningRow;

/* The tokens near a sentence's word, in the row of --layer. */
typedef struct Near {
    NearToken *predicted, *embedded; /* [n_top] */
} Near;

typedef struct MeaningView {
    StringList prompts;
    const char *file, *word;
    size_t layer, n_top;

    Meaning meaning;
    TextBuffer lines; /* of the file */
    MeaningRow *rows; /* [meaning.n_rows] */
    Near *near;       /* [n_sentences] */
    bool pairs_fit;
} MeaningView;

static bool add_sentence(MeaningView *view, const char *text, size_t n, Error *error) {
    Meaning *meaning = &view->meaning;
    if (meaning->n_sentences == MAX_SENTENCES)
        return error_set(error, "meaning compares up to %d sentences", MAX_SENTENCES);
    meaning->sentences[meaning->n_sentences++] = (Sentence){.text = text, .n_bytes = n};
    return true;
}

/* The lines of --file, but for empty ones. */
static bool add_lines(MeaningView *view, Error *error) {
    if (!view->file) return true;
    if (!read_prompt_text(view->file, &view->lines, error)) return false;
    const char *at = view->lines.data, *end = at + view->lines.n;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        size_t n = (size_t)(stop - at);
        if (n > 0 && at[n - 1] == '\r') n--;
        if (n > 0 && !add_sentence(view, at, n, error)) return false;
        at = stop + 1;
    }
    return true;
}

static bool no_such_word(const char *word, const Sentence *sentence, size_t number, Error *error) {
    String text = {sentence->text, sentence->n_bytes};
    return error_set(error, "--word: '%s' is no word of sentence %zu, '%.*s'", word, number,
                     string_shown(text), text.data);
}

/* Finds the word among a sentence's tokens; the space before it may be missing, as at the beginning of a text. */
static bool place_word(const Study *study, const char *word, Sentence *sentence, size_t number,
                       Error *error) {
    Subject subject = study->subject;
    JoinedText text;
    Arena scratch = {0};
    subject.tokens = (Tokens){.ids = subject.tokens.ids + sentence->begin, .n = sentence->n_tokens};
    bool joined = join_tokens(&subject, &scratch, false, &text, error);
    bool found = joined && find_word(&text, sentence->n_tokens, word + (*word == ' '), &sentence->word);
    arena_free(&scratch);
    return found || (joined && no_such_word(word, sentence, number, error));
}

static bool encode_sentences(Study *study, MeaningView *view, Error *error) {
    Tokens *tokens = &study->subject.tokens;
    for (size_t i = 0; i < view->meaning.n_sentences; i++) {
        Sentence *sentence = &view->meaning.sentences[i];
        sentence->begin = tokens->n;
        if (!study_encode(study, sentence->text, sentence->n_bytes, tokens, &sentence->bos, error))
            return false;
        sentence->n_tokens = tokens->n - sentence->begin;
        study->subject.bos = sentence->bos;
        if (sentence->n_tokens > subject_n_ctx(&study->subject))
            return error_set(error, "sentence %zu has %zu tokens, more than the context of %zu", i + 1,
                             sentence->n_tokens, subject_n_ctx(&study->subject));
        if (!place_word(study, view->word, sentence, i + 1, error)) return false;
    }
    return true;
}

static const char *pair_name(char name[NAME_BYTES], size_t n, size_t pair) {
    size_t a = 0;
    for (; pair >= n - 1 - a; a++) pair -= n - 1 - a;
    snprintf(name, NAME_BYTES, "%zu-%zu", a + 1, a + 2 + pair);
    return name;
}

static void fill_row(const MeaningView *view, MeaningRow *row, size_t i) {
    const Meaning *meaning = &view->meaning;
    size_t least = 0, most = 0, n = meaning->n_pairs;
    *row = (MeaningRow){.view = view, .cosines = meaning->cosines + i * n};
    for (size_t pair = 0; pair < n; pair++) {
        row->mean += row->cosines[pair] / (double)n;
        if (row->cosines[pair] < row->cosines[least]) least = pair;
        if (row->cosines[pair] > row->cosines[most]) most = pair;
    }
    row->least = row->cosines[least];
    row->most = row->cosines[most];
    pair_name(row->least_pair, meaning->n_sentences, least);
    pair_name(row->most_pair, meaning->n_sentences, most);
    if (i + 1 < meaning->n_rows)
        snprintf(row->name, sizeof row->name, "%zu_pre", i);
    else
        strcpy(row->name, "final_post");
}

static bool fill_rows(Study *study, MeaningView *view, Error *error) {
    Arena *arena = &study->arena;
    const Meaning *meaning = &view->meaning;
    size_t n = meaning->n_sentences;
    view->rows = arena_new(arena, meaning->n_rows, sizeof *view->rows);
    view->near = arena_new(arena, n, sizeof *view->near);
    NearToken *tokens = arena_new(arena, 2 * n, (view->n_top + 1) * sizeof *tokens);
    if (!arena_ok(arena, error, "%zu rows", meaning->n_rows)) return false;
    for (size_t i = 0; i < meaning->n_rows; i++) fill_row(view, &view->rows[i], i);
    for (size_t i = 0; i < n; i++) {
        Arena scratch = {0};
        view->near[i] = (Near){tokens + 2 * i * view->n_top, tokens + (2 * i + 1) * view->n_top};
        bool ok = meaning_near(meaning, &scratch, view->layer, i, view->n_top, view->near[i].predicted,
                               view->near[i].embedded, error);
        arena_free(&scratch);
        if (!ok) return false;
    }
    return true;
}

static bool compute(Study *study, void *own, Error *error) {
    MeaningView *view = own;
    const Config *config = model_config(study->model);
    Meaning *meaning = &view->meaning;
    if (view->layer == NOT_GIVEN) view->layer = config->n_layer / 2;
    if (view->layer > config->n_layer)
        return error_set(
            error, "--layer %zu does not exist: %zu streams enter layers, and number %zu leaves the last",
            view->layer, config->n_layer, config->n_layer);
    meaning->subject = &study->subject;
    meaning->sentences = arena_new(&study->arena, MAX_SENTENCES, sizeof *meaning->sentences);
    if (!arena_ok(&study->arena, error, "%d sentences", MAX_SENTENCES)) return false;
    for (size_t i = 0; i < view->prompts.n; i++)
        if (!add_sentence(view, view->prompts.items[i], strlen(view->prompts.items[i]), error)) return false;
    if (!add_lines(view, error)) return false;
    if (meaning->n_sentences < 2)
        return error_set(error,
                         "meaning compares a word in two sentences or more: -p TEXT for each, or -f FILE "
                         "with one a line");
    view->n_top = at_most(view->n_top, config->n_vocab);
    return encode_sentences(study, view, error) && meaning_measure(meaning, &study->arena, error) &&
           fill_rows(study, view, error);
}

static bool check(const StudyOptions *options, const void *own, Error *error) {
    const MeaningView *view = own;
    if (options->ids) return error_set(error, "--ids is one text; meaning takes several sentences: -p or -f");
    return (view->word && view->word[*view->word == ' ']) ||
           error_set(error, "say which word to follow: --word \" mole\"");
}

/* A vector of zeros has none. */
static void print_cosine(int width, int digits, double cosine) {
    isnan(cosine) ? printf("%*s", width, "-") : printf("%*.*f", width, digits, cosine);
}

/* All pairs as JSON; for people those of few sentences, or how far they are apart. */
static void show_pairs(Report *report, const char *key, const void *cell) {
    const MeaningRow *row = cell;
    const MeaningView *view = row->view;
    size_t n = view->meaning.n_pairs;
    if (is_json(report)) {
        json_reals(report, key, row->cosines, n);
        return;
    }
    if (!view->pairs_fit) {
        print_cosine(8, 3, row->least), printf(" %-7s ", row->least_pair);
        print_cosine(8, 3, row->most), printf(" %-7s", row->most_pair);
    }
    for (size_t i = 0; view->pairs_fit && i < n; i++) print_cosine(PAIR_WIDTH, 3, row->cosines[i]);
}

#define ROW(member) offsetof(MeaningRow, member)

static const Column columns[] = {
    {"row", "row", CELL_NAME, ROW(name), -11},
    {"mean", "mean", CELL_REAL, ROW(mean), 7, 3},
    {"least", NULL, CELL_REAL, ROW(least)},
    {"least_pair", NULL, CELL_NAME, ROW(least_pair)},
    {"most", NULL, CELL_REAL, ROW(most)},
    {"most_pair", NULL, CELL_NAME, ROW(most_pair)},
    {"cosines", "", CELL_SHOWN, .show = show_pairs},
};
static const Table rows_table = TABLE("rows", columns);

static void json_near(Report *report, const char *key, const char *share, const NearToken *tokens, size_t n) {
    json_array(report, key);
    for (size_t k = 0; k < n; k++) {
        json_object(report, NULL);
        json_token(report, tokens[k].id);
        json_real(report, share, tokens[k].share);
        json_end_object(report);
    }
    json_end_array(report);
}

static void json_sentence(Report *report, const Study *study, const MeaningView *view, size_t i) {
    const Sentence *sentence = &view->meaning.sentences[i];
    json_object(report, NULL);
    json_int(report, "number", (int64_t)i + 1);
    json_text(report, "text", sentence->text, sentence->n_bytes);
    json_int(report, "n_tokens", (int64_t)sentence->n_tokens);
    json_int(report, "position", (int64_t)sentence->word.last);
    json_int(report, "n_word_tokens", (int64_t)(sentence->word.last - sentence->word.first + 1));
    json_token(report, study->subject.tokens.ids[sentence->begin + sentence->word.last]);
    json_near(report, "unembedding", "probability", view->near[i].predicted, view->n_top);
    json_near(report, "embedding", "cosine", view->near[i].embedded, view->n_top);
    json_end_object(report);
}

static void json_meaning(Report *report, const Study *study, const MeaningView *view) {
    const Meaning *meaning = &view->meaning;
    char name[NAME_BYTES];
    json_text(report, "word", view->word, SIZE_MAX);
    json_bool(report, "centred", meaning->centred);
    json_int(report, "n_positions", (int64_t)meaning->n_positions);
    json_array(report, "pairs");
    for (size_t i = 0; i < meaning->n_pairs; i++)
        json_text(report, NULL, pair_name(name, meaning->n_sentences, i), SIZE_MAX);
    json_end_array(report);
    table_show(report, &rows_table, 0, view->rows, meaning->n_rows, sizeof *view->rows);
    json_text(report, "near_row", view->rows[view->layer].name, SIZE_MAX);
    json_array(report, "sentences");
    for (size_t i = 0; i < meaning->n_sentences; i++) json_sentence(report, study, view, i);
    json_end_array(report);
}

static void print_sentences(const Report *report, const Study *study, const MeaningView *view) {
    const Meaning *meaning = &view->meaning;
    print_quoted(report, view->word, strlen(view->word), 0);
    printf(" in %zu sentences\n", meaning->n_sentences);
    for (size_t i = 0; i < meaning->n_sentences; i++) {
        const Sentence *sentence = &meaning->sentences[i];
        size_t n = sentence->word.last - sentence->word.first + 1;
        printf("%3zu. ", i + 1);
        print_quoted(report, sentence->text, sentence->n_bytes, at_most(report->width, 80) - 28);
        printf("  position %zu", sentence->word.last);
        if (n > 1) {
            printf(", ");
            print_token(report, study->subject.tokens.ids[sentence->begin + sentence->word.last], 0);
        }
        putchar('\n');
    }
}

static void print_legend(const Report *report, const MeaningView *view) {
    const Meaning *meaning = &view->meaning;
    bool split = false;
    for (size_t i = 0; i < meaning->n_sentences; i++)
        split = split || meaning->sentences[i].word.first < meaning->sentences[i].word.last;
    print_style(report, STYLE_DIM);
    puts("cosine of the word's residual streams in two sentences; N_pre: entering layer N");
    if (split) puts("a word of several tokens stands for its last, which is named");
    if (meaning->centred)
        printf("centred: the mean over all %zu positions of the sentences is subtracted\n",
               meaning->n_positions);
    print_style(report, STYLE_PLAIN);
    putchar('\n');
}

static void print_rows(Report *report, const MeaningView *view) {
    const Meaning *meaning = &view->meaning;
    char title[MAX_SENTENCES * PAIR_WIDTH] = "", *at = title, name[NAME_BYTES];
    for (size_t i = 0; view->pairs_fit && i < meaning->n_pairs; i++)
        at += sprintf(at, "%*s", PAIR_WIDTH, pair_name(name, meaning->n_sentences, i));
    if (!view->pairs_fit) sprintf(at, "%8s %-7s %8s %-7s", "least", "of", "most", "of");
    table_print_titles(report, &rows_table, 0, title);
    for (size_t i = 0; i < meaning->n_rows; i++) table_print_line(report, &rows_table, 0, &view->rows[i]);
}

/* All pairs in the row of --layer, where the table above had no room for them. */
static void print_square(Report *report, const MeaningView *view) {
    size_t n = view->meaning.n_sentences, shown = at_most(n, (at_most(report->width, 80) - 4) / 6);
    const double *at = view->rows[view->layer].cosines;
    print_styled(report, STYLE_BOLD, "\n%s\n    ", view->rows[view->layer].name);
    for (size_t b = 1; b < shown; b++) print_styled(report, STYLE_BOLD, "%5zu.", b + 1);
    putchar('\n');
    for (size_t a = 0; a + 1 < n; at += n - 1 - a, a++) {
        if (a + 1 >= shown) continue;
        printf("%3zu.%*s", a + 1, (int)(6 * a), "");
        for (size_t b = a + 1; b < shown; b++) print_cosine(6, 2, at[b - a - 1]);
        putchar('\n');
    }
    if (shown < n) printf("(%zu of %zu sentences fit; --json has all)\n", shown, n);
}

static void print_tokens_near(const Report *report, const NearToken *tokens, size_t n) {
    for (size_t k = 0; k < at_most(n, NEAR_SHOWN); k++) {
        printf("  ");
        print_token(report, tokens[k].id, TOKEN_WIDTH);
        printf(" %4.2f", tokens[k].share);
    }
    putchar('\n');
}

static void print_near(const Report *report, const MeaningView *view) {
    if (view->n_top == 0) return;
    print_styled(report, STYLE_BOLD, "\n%s, nearest tokens\n", view->rows[view->layer].name);
    for (size_t i = 0; i < view->meaning.n_sentences; i++) {
        printf("%3zu. predicts", i + 1);
        print_tokens_near(report, view->near[i].predicted, view->n_top);
        printf("     embedded");
        print_tokens_near(report, view->near[i].embedded, view->n_top);
    }
    print_styled(report, STYLE_DIM,
                 "predicts: by the unembedding (the logit lens), with p; embedded: by the cosine\n"
                 "with tokens' embeddings\n");
}

static bool show(Study *study, void *own, Error *error) {
    MeaningView *view = own;
    Report *report = &study->report;
    (void)error;
    if (is_json(report)) {
        json_meaning(report, study, view);
        return true;
    }
    view->pairs_fit = BEFORE_PAIRS + view->meaning.n_pairs * PAIR_WIDTH <= at_most(report->width, 80);
    print_sentences(report, study, view);
    print_legend(report, view);
    print_rows(report, view);
    if (!view->pairs_fit) print_square(report, view);
    print_near(report, view);
    return true;
}

static void free_view(void *own) {
    MeaningView *view = own;
    meaning_free(&view->meaning);
    free(view->lines.data);
}

static const MeaningView defaults = {.layer = NOT_GIVEN, .n_top = 4};

#define AT(member) offsetof(MeaningView, member)

static const Option options[] = {
    {"--word", "-w", OPTION_ONCE, AT(word)},
    {"--prompt", "-p", OPTION_LIST, AT(prompts)},
    {"--file", "-f", OPTION_ONCE, AT(file), .file = true},
    {"--layer", NULL, OPTION_SIZE, AT(layer), 0, 1e9},
    {"--top", NULL, OPTION_SIZE, AT(n_top), 0, 1000},
    {"--centred", NULL, OPTION_ON, AT(meaning.centred)},
};

const View view_meaning = {
    .name = "meaning",
    .summary = "what a word is in several sentences, layer by layer",
    .usage = "[MODEL] --word WORD -p TEXT -p TEXT … [options]",
    .help = HELP(
        "Cosines between the residual streams of one word in different sentences: what its context makes of it.\n"
        "\n"
        "  -w, --word WORD   the word; where it stands more than once, its last place\n"
        "  -p TEXT           a sentence; give two or more\n"
        "  -f FILE           sentences, one a line\n"
        "  --centred         subtract the mean over all positions: what all words share says nothing\n"
        "  --layer L         nearest tokens of the stream entering L (the middle; n_layer: leaving the last)\n"
        "  --top K           so many of them (4)\n"
        "\n"
        "examples:\n"
        "  ./study meaning model.bin --word mole -p \"The mole dug a hole\" -p \"a biopsy of the mole\"\n"
        "  ./study meaning model.bin --word bank -f sentences.txt --centred --layer 4\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT | TEXT_IS_OPTIONAL,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(MeaningView),
    .check = check,
    .compute = compute,
    .show = show,
    .free = free_view,
};
