/* attribute: why the model says what it says. */
#include "views/attribute.h"

#include <string.h>

static const char *const by_names[] = {"direct", "gradient", "ig"};

static const AttributeWay *const ways[N_ATTRIBUTE_BYS] = {
    [BY_DIRECT] = &attribute_direct,
    [BY_GRADIENT] = &attribute_gradients,
    [BY_IG] = &attribute_gradients,
    [BY_SCORE] = &attribute_score,
};

/* Which way the options ask for. */
static bool choose_way(const AttributeView *v, AttributeBy *by, Error *error) {
    size_t named;
    if (!parse_choice("--by", v->by_name, by_names, sizeof by_names / sizeof *by_names, &named, error))
        return false;
    *by = v->score_list ? BY_SCORE : (AttributeBy)named;
    if (v->score_list && v->by_name)
        return error_set(error, "--score asks for a score's parts: leave out --by");
    const char *other = gradient_option(&v->gradient);
    if (other && *by != BY_GRADIENT && *by != BY_IG)
        return error_set(error, "%s is of --by gradient and --by ig: give one of these too", other);
    return true;
}

static bool check(const StudyOptions *options, const void *view, Error *error) {
    AttributeBy by;
    return choose_way(view, &by, error) && ways[by]->check(options, view, error);
}

static bool compute(Study *study, void *view, Error *error) {
    AttributeView *v = view;
    v->study = study;
    return choose_way(v, &v->by, error) && ways[v->by]->compute(v, error);
}

static bool show(Study *study, void *view, Error *error) {
    AttributeView *v = view;
    return ways[v->by]->show(&study->report, v, error);
}

#define AT(member) offsetof(AttributeView, member)

static const Option options[] = {
    PAIR_OPTIONS(AttributeView, pair),
    GRADIENT_OPTIONS(AttributeView, gradient),
    {"--by", NULL, OPTION_ONCE, AT(by_name)},
    {"--query", NULL, OPTION_ONCE, AT(query_text)},
    {"--top", NULL, OPTION_SIZE, AT(top), 0, 1e6},
    {"--head", NULL, OPTION_ONCE, AT(head_list)},
    {"--neurons", NULL, OPTION_SIZE, AT(neurons), 0, 1e9},
    {"--score", NULL, OPTION_ONCE, AT(score_list)},
};

static const AttributeView defaults = {
    .neurons = NOT_GIVEN, .top = 10, .answer = -1, .wrong = -1, .gradient = GRADIENT_DEFAULTS};

const View view_attribute = {
    .name = "attribute",
    .summary = "which parts of the model raise or lower an answer, or a score",
    .usage = "[MODEL] -p TEXT [--answer T] [--wrong T] [options]",
    .help = HELP(
        "  --by direct|gradient|ig   direct (the default): the answer's logit as a sum over the embedding, every\n"
        "                  head, every MLP and the biases; gradient: by how much a metric would move if a part's\n"
        "                  numbers became those of the other text, to first order (attribution patching); ig: by\n"
        "                  the mean of the gradients on the way between the texts' embeddings\n"
        "  --score 'L3H4:12>5' instead: why query 12 of L3H4 looks at key 5, as a sum over what wrote into both\n"
        "  --answer T, --wrong T   what follows the text (the likeliest), and what should not: a token's text, or\n"
        "                  #123; the logit of the one less that of the other (less the mean over the vocabulary)\n"
        "  --pairs FILE    many: {\"clean\", \"corrupted\", \"answer\", \"wrong\"} a line; means, of direct over clean texts\n"
        "  --top K         parts, positions, neurons, cells or edges that are listed (10)\n"
        "of direct:\n"
        "  --query Q       after this position (the last)\n"
        "  --head LIST     L3H4,L5H2: these also by the position that they took it from\n"
        "  --neurons L     the MLP of layer L also by neuron\n"
        "of gradient and ig:\n" GRADIENT_HELP "\n"
        "examples:\n"
        "  ./study attribute model.bin -p \"The king Zilgan rode out. Then king Zil\" --answer gan --wrong an\n"
        "  ./study attribute model.bin -p \"The king Zilgan rode out. Then king Zil\" --score \"L3H4:12>5\"\n"
        "  ./study attribute model.bin -p \"When Mary and John met, John gave a book to\" --answer \" Mary\" \\\n"
        "      --corrupted \"When Mary and John met, Mary gave a book to\" --wrong \" John\" --by ig --edges\n"),
    .needs = NEEDS_MODEL | NEEDS_TEXT | TEXT_IS_OPTIONAL,
    VIEW_OPTIONS(options),
    .defaults = &defaults,
    .size = sizeof(AttributeView),
    .check = check,
    .compute = compute,
    .show = show,
};
