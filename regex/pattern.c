/*
 * Two passes, both by tables (as in Frisch & Cardelli 2004, "Greedy Regular Expression Matching"):
 *
 * Right to left: which nodes of the program can still match, given the text from here on? That set of nodes is a state of
 * a deterministic automaton, since it follows from the next character and the set behind that. Lookahead is a question
 * to the same set. What looks behind takes a second step, which the character before decides.
 *
 * Left to right: wherever there is a choice, the first alternative that can still match is taken. So it never goes back,
 * and how far one match looked ahead costs the next one nothing.
 *
 * The first pass is most often left out: where a character alone tells the state, or where to go on, a table says so, and
 * for the beginning of a match so does one of pairs. It is made for the runs between, of white space for instance.
 *
 * Characters are told apart only as far as the expression does: those that belong to the same sets are one class. All
 * tables are filled at once, so that a Pattern never changes; what would need too many states is refused.
 */
#include "regex/pattern.h"

#include "base/utf8.h"
#include "regex/tables.h"

/* The class of a character, or of UTF8_INVALID. */
static unsigned class_of(const Pattern *pattern, uint32_t c) {
    size_t low = pattern->pages[c >> PAGE_BITS], high = pattern->pages[(c >> PAGE_BITS) + 1] + (size_t)1;
    while (high - low > 1) { /* firsts[low] ≤ c < firsts[high] */
        size_t middle = low + (high - low) / 2;
        if (pattern->firsts[middle] <= c)
            low = middle;
        else
            high = middle;
    }
    return pattern->classes[low];
}

/* The class of the character that text[0, n), n > 0, begins with, and its length. */
static size_t class_at(const Pattern *pattern, const char *text, size_t n, size_t *length) {
    uint32_t c = (unsigned char)*text;
    *length = 1;
    if (c < 0x80) return pattern->bytes[c];
    size_t n_character = utf8_decode(text, n, &c);
    if (c < UTF8_INVALID) *length = n_character;
    return class_of(pattern, c < UTF8_INVALID ? c : UTF8_INVALID);
}

/* Where the character begins that ends before text[end], end > 0. */
static size_t start_before(const char *text, size_t end) {
    uint32_t c;
    size_t begin = utf8_before(text, end), n = end - begin;
    return utf8_decode(text + begin, n, &c) == n && c < UTF8_INVALID ? begin : end - 1;
}

/* The state in front of a character of this class. If something looks behind, that takes a second step, by `behind`. */
static size_t step(const Pattern *pattern, size_t state, size_t class, size_t behind) {
    state = pattern->before[class * pattern->n_states + state];
    return pattern->looks_behind ? pattern->before[behind * pattern->n_states + state] : state;
}

/* Finds the states from `begin` up to a character whose class decides its state, or to the end of the text. */
static void read_run(Matches *matches, size_t begin) {
    const Pattern *pattern = matches->pattern;
    const char *text = matches->text;
    size_t n = matches->n, end = begin, length, state = 0;
    for (; end < n && !state; end += state ? 0 : length)
        state = pattern->decided[class_at(pattern, text + end, n - end, &length)];
    matches->begin = begin;
    matches->end = end;
    size_t start = start_before(text, end), class = class_at(pattern, text + start, end - start, &length);
    if (!state) state = pattern->looks_behind ? pattern->before[class * pattern->n_states] : pattern->at_end;
    while (end > begin) {
        size_t previous = start ? start_before(text, start) : 0;
        size_t behind =
            start ? class_at(pattern, text + previous, start - previous, &length) : pattern->n_classes;
        state = step(pattern, state, class, behind);
        matches->states[start - begin] = (uint16_t)state;
        end = start, start = previous, class = behind;
    }
}

typedef struct Way {
    size_t target, next; /* where to go on, and where the character ends */
} Way;

/* The way from the target at text[at]. */
static Way find_way(Matches *matches, size_t at, size_t target) {
    const Pattern *pattern = matches->pattern;
    const char *text = matches->text;
    size_t n = matches->n, length, class = class_at(pattern, text + at, n - at, &length), state = 0, unused;
    Way way = {pattern->first[class * pattern->n_targets + target], at + length};
    if (way.target != OPEN) return way;
    if (way.next < n && !pattern->looks_behind) {
        size_t behind = pattern->decided[class_at(pattern, text + way.next, n - way.next, &unused)];
        state = pattern->before[class * pattern->n_states + behind];
    }
    if (!state && at >= matches->end) read_run(matches, at);
    if (!state) state = matches->states[at - matches->begin];
    way.target = pattern->after[state * pattern->n_targets + target];
    return way;
}

Matches pattern_begin(const Pattern *pattern, const char *text, size_t n, uint16_t *states) {
    return (Matches){.pattern = pattern, .text = text, .n = n, .states = states};
}

bool pattern_next(Matches *matches, size_t *start, size_t *end) {
    const Pattern *pattern = matches->pattern;
    const unsigned char *text = (const unsigned char *)matches->text, *classes = pattern->bytes;
    const uint16_t *pairs = pattern->pairs, *first = pattern->first;
    const uint32_t *rows = pattern->rows;
    size_t n = matches->n, at = matches->at, width = pattern->n_classes + 1;
    Way way;
    for (;; at = way.next) {
        if (at >= n) return false;
        way = (Way){at + 1 < n ? pairs[classes[text[at]] * width + classes[text[at + 1]]] : OPEN, at + 1};
        if (way.target == OPEN) way = find_way(matches, at, 0);
        if (way.target != NO_MATCH) break;
    }
    *start = at;
    matches->at = way.next; /* behind an empty match, too */
    if (way.target != DONE) {
        size_t target = way.target;
        for (at = way.next; at < n; at = way.next) {
            way = (Way){first[rows[text[at]] + target], at + 1};
            if (way.target == target) continue; /* most often, and nothing waits for it */
            if (way.target == OPEN) way = find_way(matches, at, target);
            if (way.target == DONE) break;
            target = way.target;
        }
        matches->at = at;
    }
    *end = at;
    return true;
}

bool pattern_matches_end(const Matches *matches) {
    const Pattern *pattern = matches->pattern;
    size_t start = start_before(matches->text, matches->n), state = pattern->at_end, length;
    size_t class = class_at(pattern, matches->text + start, matches->n - start, &length);
    if (pattern->looks_behind) state = pattern->before[class * pattern->n_states];
    return pattern->after[state * pattern->n_targets] == DONE;
}
