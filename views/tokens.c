/* tokens: what the vocabulary makes of a text. The model does not run. */
#include "views/view.h"

typedef struct TokenRow {
    size_t position, bytes; /* bytes: of its text */
    int32_t id;
} TokenRow;

typedef struct TokensView {
    TokenRow *rows; /* [n_tokens] */
} TokensView;

static bool compute(Study *study, void *own, Error *error) {
    TokensView *view = own;
    const Tokens *tokens = &study->subject.tokens;
    view->rows = arena_new(&study->arena, tokens->n, sizeof *view->rows);
    if (!arena_ok(&study->arena, error, "%zu tokens", tokens->n)) return false;
    for (size_t i = 0; i < tokens->n; i++)
        view->rows[i] =
            (TokenRow){i, tokenizer_piece(study->tokenizer, tokens->ids[i], true).n, tokens->ids[i]};
    return true;
}

static void show_id(Report *report, const char *key, const void *cell) {
    (void)report, (void)key;
    printf(" %9d", *(const int32_t *)cell);
}

static const Column columns[] = {
    {NULL, "position", CELL_SIZE, offsetof(TokenRow, position), 8},
    {NULL, "id", CELL_SHOWN, offsetof(TokenRow, id), 10, .show = show_id},
    {NULL, "bytes", CELL_SIZE, offsetof(TokenRow, bytes), 7},
    {NULL, "  token", CELL_TOKEN, offsetof(TokenRow, id), -2},
};
static const Table table = TABLE(NULL, columns);

/* The report's head has them all in JSON. */
static bool show(Study *study, void *own, Error *error) {
    const TokensView *view = own;
    (void)error;
    if (!is_json(&study->report))
        table_show(&study->report, &table, 0, view->rows, study->subject.tokens.n, sizeof *view->rows);
    return true;
}

const View view_tokens = {
    .name = "tokens",
    .summary = "what the text is made of",
    .help = HELP("The tokens of the text: position, id, bytes, text. The model does not run.\n"
                 "\n"
                 "  ./study tokens model.bin -p \"The Eiffel tower\"\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT,
    .size = sizeof(TokensView),
    .compute = compute,
    .show = show,
};
