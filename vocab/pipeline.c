#include "vocab/pipeline.h"

#include "base/utf8.h"
#include "unicode/categories.h"
#include "vocab/spelling.h"
#include "vocab/vocab.h"

#include <stdlib.h>
#include <string.h>

/* One call of pipeline_run. */
typedef struct PipelineRun {
    const Pipeline *pipeline;
    const PieceTaker *taker;
    Error *error;
    bool special;                           /* special tokens are looked for */
    size_t left;                            /* bytes that its steps may still make */
    unsigned char *steers;                  /* a bit for each of `added`, where origins count; or NULL */
    TextBuffer rewritten[2], marks[2];      /* the normaliser's, in turns, and where the bytes come from */
    TextBuffer buffers[PIPELINE_STEPS + 1]; /* of each step that changes a piece, and of unspelling */
} PipelineRun;

/* A text of so many bytes may become so many, all steps together: a step alone can make 256 of each byte. */
enum { MADE_OF_A_BYTE = 256, MADE_BESIDE = 1 << 16 };

static bool out_of_memory(const PipelineRun *run, size_t n) {
    return error_set(run->error,
                     "not enough memory to tokenize %zu bytes, or for what the tokenizer makes of them", n);
}

/* For a step's text, which may be as long as *left. */
static bool begin_step(TextBuffer *out, const size_t *left) {
    out->n = 0, out->most = *left;
    return *left > 0;
}

static void end_step(const TextBuffer *out, size_t *left) { *left -= out->n; }

static bool starts_with(String text, String start) {
    return text.n >= start.n && memcmp(text.data, start.data, start.n) == 0;
}

/* All matches of a needle in a text, one after another. */
typedef struct Finder {
    const Needle *needle;
    String text;
    Matches matches;
    uint16_t few[64], *states; /* what a pattern needs */
    size_t
        at; /* where to go on for a text; where the last match of a pattern ended, SIZE_MAX: there is none */
} Finder;

/* False when memory runs out. The finder must not move until find_end. */
static bool find_begin(Finder *finder, const Needle *needle, String text) {
    finder->needle = needle;
    finder->text = text;
    finder->at = needle->pattern ? SIZE_MAX : 0;
    finder->states = finder->few;
    if (!needle->pattern) return true;
    if (text.n > sizeof finder->few / sizeof *finder->few) {
        finder->states =
            text.n <= SIZE_MAX / sizeof *finder->states ? malloc(text.n * sizeof *finder->states) : NULL;
        if (!finder->states) return false;
    }
    finder->matches = pattern_begin(needle->pattern, text.data, text.n, finder->states);
    return true;
}

static void find_end(Finder *finder) {
    if (finder->states != finder->few) free(finder->states);
}

/* As Hugging Face's library has it, an empty match may be the text's end, but not follow another one at once. */
static bool find_match(Finder *finder, size_t *start, size_t *end) {
    size_t last = finder->at, n = finder->text.n;
    bool found;
    do found = pattern_next(&finder->matches, start, end);
    while (found && *start == *end && *start == last);
    if (!found && n && last != n && pattern_matches_end(&finder->matches)) found = true, *start = *end = n;
    if (found) finder->at = *end;
    return found;
}

static bool find_next(Finder *finder, size_t *start, size_t *end) {
    String text = finder->text, wanted = finder->needle->text;
    if (finder->needle->pattern) return find_match(finder, start, end);
    while (wanted.n && text.n - finder->at >= wanted.n) {
        const char *first = memchr(text.data + finder->at, *wanted.data, text.n - finder->at - wanted.n + 1);
        if (!first) return false;
        *start = (size_t)(first - text.data), *end = *start + wanted.n;
        finder->at = *start + 1;
        if (memcmp(first, wanted.data, wanted.n) != 0) continue;
        finder->at = *end;
        return true;
    }
    return false;
}

/* A text whose bytes come from somewhere: marks [n] as prefixes_find_own takes them; NULL: nobody asks. */
typedef struct Marked {
    String text;
    const char *marks;
} Marked;

static Marked part_of(Marked marked, size_t from, size_t n) {
    return (Marked){{marked.text.data + from, n}, marked.marks ? marked.marks + from : NULL};
}

/* Appends a part to the text and its marks. */
static bool append(Marked part, TextBuffer *out, TextBuffer *marks) {
    return text_append(out, part.text.data, part.text.n) &&
           (!part.marks || text_append(marks, part.marks, part.text.n));
}

/* Appends what stands for the part: of marks whatever is in that part's. */
static bool append_for(Marked part, String with, TextBuffer *out, TextBuffer *marks) {
    bool foreign = part.marks && memchr(part.marks, 1, part.text.n);
    return text_append(out, with.data, with.n) && (!part.marks || text_append_times(marks, foreign, with.n));
}

/* *from_start becomes whether the text began with a match. */
static bool replace(const Needle *needle, String with, Marked text, TextBuffer *out, TextBuffer *marks,
                    bool *from_start) {
    Finder finder;
    size_t kept = 0, start, end;
    bool ok = find_begin(&finder, needle, text.text);
    *from_start = false;
    while (ok && find_next(&finder, &start, &end)) {
        *from_start = *from_start || (start == 0 && end > 0);
        ok = append(part_of(text, kept, start - kept), out, marks) &&
             append_for(part_of(text, start, end - start), with, out, marks);
        kept = end;
    }
    find_end(&finder);
    return ok && append(part_of(text, kept, text.text.n - kept), out, marks);
}

bool pipeline_replace(const Needle *needle, String with, String text, TextBuffer *out) {
    bool from_start;
    return replace(needle, with, (Marked){text, NULL}, out, NULL, &from_start);
}

static size_t character_at(String text, size_t i, uint32_t *c) {
    return utf8_decode(text.data + i, text.n - i, c);
}

/* White_Space (The Unicode Standard, PropList.txt). */
static bool is_space_at(String text, size_t i, size_t *length) {
    uint32_t c;
    *length = character_at(text, i, &c);
    return c == ' ' || c - '\t' < 5 || c == 0x85 || c == 0xa0 || c == 0x1680 || c - 0x2000 < 11 ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static size_t skip_spaces(String text, size_t i) {
    size_t length;
    while (i < text.n && is_space_at(text, i, &length)) i += length;
    return i;
}

/* Where the white space begins that ends at text[i], but no further left than `limit`. */
static size_t skip_spaces_back(String text, size_t i, size_t limit) {
    size_t length;
    while (i > limit) {
        size_t start = utf8_before(text.data, i);
        if (start < limit || !is_space_at(text, start, &length) || start + length != i) break;
        i = start;
    }
    return i;
}

/* A form, or lower case. What is from outside composes with nothing of the template's. */
static bool map(const Rewrite *step, const Mappings *mappings, Marked from, TextBuffer *out,
                TextBuffer *marks) {
    bool ok = true;
    for (size_t at = 0, n; ok && at < from.text.n; at += n) {
        const char *text = from.text.data + at;
        size_t before = out->n, left = n = from.text.n - at;
        const char *other = from.marks ? memchr(from.marks + at, !from.marks[at], left) : NULL;
        if (other) n = (size_t)(other - from.marks) - at;
        ok = step->kind == REWRITE_FORM ? normalize_form(mappings, step->form, text, n, out)
                                        : normalize_lower(mappings, text, n, out);
        if (ok && from.marks) ok = text_append_times(marks, from.marks[at], out->n - before);
    }
    return ok;
}

/* Whether anything was dropped from the front is added to *dropped. */
static bool rewrite(const Rewrite *step, const Mappings *mappings, Marked from, TextBuffer *out,
                    TextBuffer *marks, bool *dropped) {
    String text = from.text;
    size_t start = 0, end = text.n;
    bool ok, from_start;
    switch (step->kind) {
    case REWRITE_FORM:
    case REWRITE_LOWER: return map(step, mappings, from, out, marks);
    case REWRITE_STRIP:
        if (step->left) start = skip_spaces(text, 0);
        if (step->right) end = skip_spaces_back(text, end, start);
        *dropped = *dropped || start > 0;
        return append(part_of(from, start, end - start), out, marks);
    case REWRITE_PREPEND:
        return (text.n == 0 || append_for(part_of(from, 0, 0), step->text, out, marks)) &&
               append(from, out, marks);
    case REWRITE_REPLACE:
        ok = replace(&step->needle, step->text, from, out, marks, &from_start);
        *dropped = *dropped || (step->text.n == 0 && from_start);
        return ok;
    }
    return false;
}

/*
 * Rewrites *text by all steps, which may make *left bytes; the result lies in one of the two buffers, or is what was given.
 */
static bool normalize(const Pipeline *pipeline, Marked *text, TextBuffer buffers[2], TextBuffer marks[2],
                      size_t *left, bool *dropped) {
    for (size_t i = 0; i < pipeline->n_rewrites; i++) {
        TextBuffer *out = &buffers[i % 2], *from = &marks[i % 2];
        from->n = 0;
        if (!begin_step(out, left) ||
            !rewrite(&pipeline->rewrites[i], pipeline->mappings, *text, out, from, dropped))
            return false;
        end_step(out, left);
        *text = (Marked){text_string(out), text->marks ? text_string(from).data : NULL};
    }
    return true;
}

bool pipeline_normalize(const Pipeline *pipeline, String text, size_t most, TextBuffer *out) {
    TextBuffer buffers[2] = {{0}}, none[2] = {{0}};
    Marked from = {text, NULL};
    bool dropped = false, ok = normalize(pipeline, &from, buffers, none, &most, &dropped) &&
                               text_append(out, from.text.data, from.text.n);
    free(buffers[0].data);
    free(buffers[1].data);
    return ok;
}

static bool spell(String text, TextBuffer *out) {
    bool ok = true;
    for (size_t i = 0; ok && i < text.n; i++) ok = text_append_character(out, spell_byte(text.data[i]));
    return ok;
}

static bool give(PipelineRun *run, String text) {
    if (!run->pipeline->spelt) return run->taker->piece(run->taker->context, text.data, text.n);
    TextBuffer *out = &run->buffers[PIPELINE_STEPS];
    out->n = 0;
    if (!append_unspelt(text, out)) return out_of_memory(run, text.n);
    return run->taker->piece(run->taker->context, out->data, out->n);
}

static bool cut(PipelineRun *run, size_t step, String text, bool first);

/* Splits a text by the matches of a step; `joined` is what the behaviour has put together so far. */
static bool split(PipelineRun *run, size_t step, String text, bool first) {
    const Cut *how = &run->pipeline->cuts[step];
    Finder finder;
    size_t from = 0, to = 0, end = 0; /* joined; what the last match ended */
    bool was_match = false, any = false, more = true, ok = find_begin(&finder, &how->needle, text);
    if (!ok) return out_of_memory(run, text.n);
    while (ok && more) {
        size_t bounds[3] = {end, text.n, text.n};
        more = find_next(&finder, &bounds[1], &bounds[2]);
        if (!more) bounds[1] = text.n; /* a search that fails may have written to it */
        for (int k = 0; ok && k < (more ? 2 : 1); k++) {
            if (k == 0 && bounds[0] == bounds[1]) continue;
            bool is_match = (k == 1) != how->invert;
            bool joins = how->behavior == CUT_CONTIGUOUS ? is_match == was_match
                         : how->behavior == CUT_WITH_PREVIOUS
                             ? is_match && !was_match
                             : how->behavior == CUT_WITH_NEXT && was_match && !is_match;
            if (any && !joins) {
                bool is_kept = to > from && !(how->behavior == CUT_REMOVED && was_match);
                if (is_kept)
                    ok = cut(run, step + 1, (String){text.data + from, to - from}, first && from == 0);
                from = bounds[k];
            }
            to = bounds[k + 1];
            was_match = is_match, any = true;
        }
        end = bounds[2];
    }
    find_end(&finder);
    bool is_kept = to > from && !(how->behavior == CUT_REMOVED && was_match);
    return ok && (!is_kept || cut(run, step + 1, (String){text.data + from, to - from}, first && from == 0));
}

/* Lets the steps from `step` on cut a text, which is not empty; `first`: it begins the whole text. */
static bool cut(PipelineRun *run, size_t step, String text, bool first) {
    if (step == run->pipeline->n_cuts) return give(run, text);
    const Cut *how = &run->pipeline->cuts[step];
    TextBuffer *out = &run->buffers[step];
    bool ok, from_start;
    if (how->kind == CUT_SPLIT) return split(run, step, text, first);
    if (how->kind == CUT_PREPEND && (starts_with(text, how->text) || (how->first_only && !first)))
        return cut(run, step + 1, text, first);
    if (!begin_step(out, &run->left)) return out_of_memory(run, text.n);
    if (how->kind == CUT_PREPEND)
        ok = text_append(out, how->text.data, how->text.n) && text_append(out, text.data, text.n);
    else
        ok = how->kind == CUT_SPELL
                 ? spell(text, out)
                 : replace(&how->needle, how->text, (Marked){text, NULL}, out, NULL, &from_start);
    if (!ok) return out_of_memory(run, text.n);
    end_step(out, &run->left);
    return cut(run, step + 1, text_string(out), first);
}

/* Alphabetic, marks, decimal digits, joiners (UTS #18, annex C): the neighbours that a single word must not have. */
static bool is_word_at(String text, size_t i) {
    static const char *const categories[] = {"L", "M", "Nd", "Nl", "Pc"};
    static const uint32_t others[][2] = {
        {0x200c, 0x200d}, {0x24b6, 0x24e9}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};
    Property property;
    uint32_t c;
    character_at(text, i, &c);
    for (size_t k = 0; k < 5; k++)
        if ((c >= others[k][0] && c <= others[k][1]) ||
            (property_find(categories[k], strlen(categories[k]), &property) && property_holds(property, c)))
            return true;
    return false;
}

/* The added token that begins at text[i] and may stand there, or −1. */
static int32_t find_at(const PipelineRun *run, const Prefixes *texts, Marked from, size_t i) {
    String text = from.text;
    if (!prefixes_begin(texts, text.data[i])) return -1;
    return from.marks ? prefixes_find_own(texts, text.data, from.marks, i, text.n, run->steers)
                      : prefixes_find(texts, text.data + i, text.n - i);
}

/* Whether a letter, number or mark is beside text[start, end); beside one that steers it must be the template's, too. */
static bool is_within_word(Marked from, size_t start, size_t end, bool steers) {
    const char *foreign = steers ? from.marks : NULL;
    size_t before = start > 0 ? utf8_before(from.text.data, start) : 0;
    return (start > 0 && !(foreign && foreign[start - 1]) && is_word_at(from.text, before)) ||
           (end < from.text.n && !(foreign && foreign[end]) && is_word_at(from.text, end));
}

/*
 * Gives the added tokens that are in the text to the taker, and what lies between to `rest`. As Hugging Face's library has
 * it, the search goes on behind each match, whether it counts or not, and not behind the white space that it takes.
 */
static bool find_added(PipelineRun *run, const Prefixes *texts, Marked from, bool first,
                       bool (*rest)(PipelineRun *run, Marked text, bool first)) {
    String text = from.text;
    size_t done = 0, spaces = 0; /* what is given so far; where white space ends that is known */
    for (size_t i = 0; texts->n && i < text.n;) {
        int32_t found = find_at(run, texts, from, i);
        if (found < 0) {
            i++;
            continue;
        }
        int32_t index = texts->items[found].id;
        const AddedToken *added = &run->pipeline->added[index];
        size_t start = i, end = i += texts->items[found].text.n;
        if (added->special && !run->special) continue;
        if (added->single_word && is_within_word(from, start, end, from.marks && bit_of(run->steers, index)))
            continue;
        if (added->lstrip) start = start < done ? done : skip_spaces_back(text, start, done);
        if (added->rstrip && end >= spaces) spaces = skip_spaces(text, end);
        if (added->rstrip) end = spaces;
        if (end <= start) continue; /* white space that the one before has taken */
        if (done < start && !rest(run, part_of(from, done, start - done), first && done == 0)) return false;
        if (!run->taker->token(run->taker->context, added->id)) return false;
        done = end;
    }
    return done >= text.n || rest(run, part_of(from, done, text.n - done), first && done == 0);
}

static bool cut_all(PipelineRun *run, Marked text, bool first) { return cut(run, 0, text.text, first); }

static bool normalize_rest(PipelineRun *run, Marked text, bool first) {
    bool dropped = false;
    size_t n = text.text.n;
    if (!normalize(run->pipeline, &text, run->rewritten, run->marks, &run->left, &dropped))
        return out_of_memory(run, n);
    return text.text.n == 0 || find_added(run, &run->pipeline->normalized, text, first && !dropped, cut_all);
}

/* The bits of tokens as bits of the pipeline's list. */
static bool take_steers(PipelineRun *run, const unsigned char *steers) {
    const Pipeline *pipeline = run->pipeline;
    if (!(run->steers = calloc(pipeline->n_added / 8 + 1, 1))) return out_of_memory(run, pipeline->n_added);
    for (size_t i = 0; i < pipeline->n_added; i++)
        if (bit_of(steers, pipeline->added[i].id)) run->steers[i / 8] |= (unsigned char)(1u << i % 8);
    return true;
}

bool pipeline_run(const Pipeline *pipeline, const Uncut *uncut, const PieceTaker *taker, Error *error) {
    const size_t n = uncut->text.n;
    PipelineRun run = {.pipeline = pipeline,
                       .taker = taker,
                       .error = error,
                       .special = uncut->special,
                       .left = n < SIZE_MAX / MADE_OF_A_BYTE - MADE_BESIDE ? MADE_OF_A_BYTE * n + MADE_BESIDE
                                                                           : SIZE_MAX};
    bool ok = (!uncut->marks || take_steers(&run, uncut->steers)) &&
              find_added(&run, &pipeline->as_is, (Marked){uncut->text, uncut->marks}, true, normalize_rest);
    for (size_t i = 0; i < 2; i++) free(run.rewritten[i].data);
    for (size_t i = 0; i < 2; i++) free(run.marks[i].data);
    for (size_t i = 0; i <= PIPELINE_STEPS; i++) free(run.buffers[i].data);
    free(run.steers);
    return ok;
}

static void free_needle(Needle *needle) { pattern_free(needle->pattern); }

void pipeline_free(Pipeline *pipeline) {
    for (size_t i = 0; i < pipeline->n_rewrites; i++) free_needle(&pipeline->rewrites[i].needle);
    for (size_t i = 0; i < pipeline->n_cuts; i++) free_needle(&pipeline->cuts[i].needle);
    for (size_t i = 0; i < pipeline->n_owned; i++) free(pipeline->owned[i]);
    prefixes_free(&pipeline->as_is);
    prefixes_free(&pipeline->normalized);
    free(pipeline->added);
    free(pipeline->mappings);
    free(pipeline->owned);
    *pipeline = (Pipeline){0};
}
