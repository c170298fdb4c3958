#include "text/pipeline.h"

#include "text/categories.h"
#include "text/unicode.h"
#include "text/vocab.h"

#include <stdlib.h>
#include <string.h>

/* One call of pipeline_run. */
typedef struct Run {
    const Pipeline *pipeline;
    const PipelineTaker *taker;
    Error *error;
    const Guards *special;                  /* NULL: special tokens are not looked for */
    const char *text;                       /* all of it, as it was given */
    bool rewrites;                          /* what is looked at now is no part of `text` */
    TextBuffer rewritten[2];                /* the normaliser's, in turns */
    TextBuffer buffers[PIPELINE_STEPS + 1]; /* of each step that changes a piece, and of unspelling */
} Run;

static bool out_of_memory(const Run *run, size_t n) {
    return error_set(run->error, "not enough memory to tokenize %zu bytes", n);
}

static bool starts_with(String text, String start) {
    return text.n >= start.n && memcmp(text.data, start.data, start.n) == 0;
}

/* All matches of a needle in a text, one after another. */
typedef struct Finder {
    const Needle *needle;
    String text;
    Matches matches;
    uint16_t few[64], *states; /* what a pattern needs */
    size_t at;                 /* where to go on for a text */
} Finder;

/* False when memory runs out. The finder must not move until find_end. */
static bool find_begin(Finder *finder, const Needle *needle, String text) {
    finder->needle = needle;
    finder->text = text;
    finder->at = 0;
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

static bool find_next(Finder *finder, size_t *start, size_t *end) {
    String text = finder->text, wanted = finder->needle->text;
    if (finder->needle->pattern) return pattern_next(&finder->matches, start, end);
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

/* *from_start becomes whether the text began with a match. */
static bool replace(const Needle *needle, String with, String text, TextBuffer *out, bool *from_start) {
    Finder finder;
    size_t kept = 0, start, end;
    bool ok = find_begin(&finder, needle, text);
    *from_start = false;
    while (ok && find_next(&finder, &start, &end)) {
        *from_start = *from_start || (start == 0 && end > 0);
        ok = text_append(out, text.data + kept, start - kept) && text_append(out, with.data, with.n);
        kept = end;
    }
    find_end(&finder);
    return ok && text_append(out, text.data + kept, text.n - kept);
}

bool pipeline_replace(const Needle *needle, String with, String text, TextBuffer *out) {
    bool from_start;
    return replace(needle, with, text, out, &from_start);
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

/* Where the character in front of text[i], i > 0, begins. */
static size_t character_before(String text, size_t i) {
    size_t start = i - 1;
    while (start > 0 && i - start < 4 && ((unsigned char)text.data[start] & 0xc0) == 0x80) start--;
    return start;
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
        size_t start = character_before(text, i);
        if (start < limit || !is_space_at(text, start, &length) || start + length != i) break;
        i = start;
    }
    return i;
}

/* Whether anything was dropped from the front is added to *dropped. */
static bool rewrite(const Rewrite *step, const Mappings *mappings, String text, TextBuffer *out,
                    bool *dropped) {
    size_t start = 0, end = text.n;
    bool ok, from_start;
    switch (step->kind) {
    case REWRITE_FORM: return normalize_form(mappings, step->form, text.data, text.n, out);
    case REWRITE_LOWER: return normalize_lower(mappings, text.data, text.n, out);
    case REWRITE_STRIP:
        if (step->left) start = skip_spaces(text, 0);
        if (step->right) end = skip_spaces_back(text, end, start);
        *dropped = *dropped || start > 0;
        return text_append(out, text.data + start, end - start);
    case REWRITE_PREPEND:
        return (text.n == 0 || text_append(out, step->text.data, step->text.n)) &&
               text_append(out, text.data, text.n);
    case REWRITE_REPLACE:
        ok = replace(&step->needle, step->text, text, out, &from_start);
        *dropped = *dropped || (step->text.n == 0 && from_start);
        return ok;
    }
    return false;
}

/* Rewrites *text by all steps; the result lies in one of the two buffers, or is what was given. */
static bool normalize(const Pipeline *pipeline, String *text, TextBuffer buffers[2], bool *dropped) {
    for (size_t i = 0; i < pipeline->n_rewrites; i++) {
        TextBuffer *out = &buffers[i % 2];
        out->n = 0;
        if (!rewrite(&pipeline->rewrites[i], pipeline->mappings, *text, out, dropped)) return false;
        *text = (String){out->n ? out->data : "", out->n};
    }
    return true;
}

bool pipeline_normalize(const Pipeline *pipeline, String text, TextBuffer *out) {
    TextBuffer buffers[2] = {{0}};
    bool dropped = false,
         ok = normalize(pipeline, &text, buffers, &dropped) && text_append(out, text.data, text.n);
    free(buffers[0].data);
    free(buffers[1].data);
    return ok;
}

static bool spell(String text, TextBuffer *out) {
    bool ok = true;
    for (size_t i = 0; ok && i < text.n; i++) ok = text_append_character(out, vocab_spell_byte(text.data[i]));
    return ok;
}

static bool give(Run *run, String text) {
    if (!run->pipeline->spelt) return run->taker->piece(run->taker->context, text);
    TextBuffer *out = &run->buffers[PIPELINE_STEPS];
    out->n = 0;
    if (!vocab_append_unspelt(text, out)) return out_of_memory(run, text.n);
    return run->taker->piece(run->taker->context, (String){out->data, out->n});
}

static bool cut(Run *run, size_t step, String text, bool first);

/* Splits a text by the matches of a step; `joined` is what the behaviour has put together so far. */
static bool split(Run *run, size_t step, String text, bool first) {
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
static bool cut(Run *run, size_t step, String text, bool first) {
    if (step == run->pipeline->n_cuts) return give(run, text);
    const Cut *how = &run->pipeline->cuts[step];
    TextBuffer *out = &run->buffers[step];
    bool ok, from_start;
    if (how->kind == CUT_SPLIT) return split(run, step, text, first);
    if (how->kind == CUT_PREPEND && (starts_with(text, how->text) || (how->first_only && !first)))
        return cut(run, step + 1, text, first);
    out->n = 0;
    if (how->kind == CUT_PREPEND)
        ok = text_append(out, how->text.data, how->text.n) && text_append(out, text.data, text.n);
    else
        ok = how->kind == CUT_SPELL ? spell(text, out)
                                    : replace(&how->needle, how->text, text, out, &from_start);
    if (!ok) return out_of_memory(run, text.n);
    return out->n == 0 || cut(run, step + 1, (String){out->data, out->n}, first);
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

/* Whether a special token may begin here, in the text as it was given, or as the normaliser has rewritten it. */
static bool is_special_at(const Run *run, const char *at) {
    if (!run->special) return false;
    if (run->rewrites) return !run->special->strict;
    return !guards_hold(run->special, (size_t)(at - run->text));
}

/*
 * Gives the added tokens that are in the text to the taker, and what lies between to `rest`. As Hugging Face's library has
 * it, the search goes on behind each match, whether it counts or not, and not behind the white space that it takes.
 */
static bool find_added(Run *run, const Prefixes *texts, String text, bool first,
                       bool (*rest)(Run *run, String text, bool first)) {
    size_t done = 0, spaces[2] = {0}; /* what is given so far; where white space is known to be */
    for (size_t i = 0; texts->n && i < text.n;) {
        int32_t found =
            prefixes_begin(texts, text.data[i]) ? prefixes_find(texts, text.data + i, text.n - i) : -1;
        if (found < 0) {
            i++;
            continue;
        }
        const AddedToken *added = &run->pipeline->added[texts->items[found].id];
        size_t start = i, end = i += texts->items[found].text.n;
        if (added->special && !is_special_at(run, text.data + start)) continue;
        if (added->single_word && ((start > 0 && is_word_at(text, character_before(text, start))) ||
                                   (end < text.n && is_word_at(text, end))))
            continue;
        if (added->lstrip) start = start < done ? done : skip_spaces_back(text, start, done);
        if (added->rstrip && !(end >= spaces[0] && end < spaces[1]))
            spaces[0] = end, spaces[1] = skip_spaces(text, end);
        if (added->rstrip) end = spaces[1];
        if (done < start && !rest(run, (String){text.data + done, start - done}, first && done == 0))
            return false;
        /* Nothing is left of a token whose white space the one before has taken. */
        if (end > start && !run->taker->token(run->taker->context, added->id)) return false;
        done = end;
    }
    return done >= text.n || rest(run, (String){text.data + done, text.n - done}, first && done == 0);
}

static bool cut_all(Run *run, String text, bool first) { return cut(run, 0, text, first); }

static bool normalize_rest(Run *run, String text, bool first) {
    bool dropped = false;
    size_t n = text.n;
    if (!normalize(run->pipeline, &text, run->rewritten, &dropped)) return out_of_memory(run, n);
    run->rewrites = run->pipeline->n_rewrites > 0;
    bool ok = text.n == 0 || find_added(run, &run->pipeline->normalized, text, first && !dropped, cut_all);
    run->rewrites = false;
    return ok;
}

bool pipeline_begins_special(const Pipeline *pipeline, const char *text, size_t n) {
    const Prefixes *sets[] = {&pipeline->as_is, &pipeline->normalized};
    for (size_t i = 0; i < 2; i++) {
        int32_t found = sets[i]->n && prefixes_begin(sets[i], *text) ? prefixes_find(sets[i], text, n) : -1;
        if (found >= 0 && pipeline->added[sets[i]->items[found].id].special) return true;
    }
    return false;
}

bool pipeline_run(const Pipeline *pipeline, const char *text, size_t n, const Guards *special,
                  const PipelineTaker *taker, Error *error) {
    Run run = {.pipeline = pipeline, .taker = taker, .error = error, .special = special, .text = text};
    bool ok = find_added(&run, &pipeline->as_is, (String){text, n}, true, normalize_rest);
    for (size_t i = 0; i < 2; i++) free(run.rewritten[i].data);
    for (size_t i = 0; i <= PIPELINE_STEPS; i++) free(run.buffers[i].data);
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
