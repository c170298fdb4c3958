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

#include "base/text.h"
#include "base/utf8.h"
#include "regex/automaton.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_CLASSES = 255,
    MAX_ENTRIES = 1 << 21, /* of a table */
    MAX_WORK = 1 << 26,    /* nodes looked at while tables are filled: a tenth of a second or two */
    MAX_STATES = UINT16_MAX - 2,
    NO_MATCH = UINT16_MAX,
    DONE = UINT16_MAX - 1,
    OPEN = UINT16_MAX - 2, /* depends on what follows */
    PAGE_BITS = 8,
    N_PAGES = (0x110000 >> PAGE_BITS) + 1,
};

struct Pattern {
    unsigned char bytes[256]; /* class by a character's first byte; n_classes beyond ASCII */
    /* By class: the state before a character of it, where that is the same whatever follows; else 0. */
    uint16_t decided[MAX_CLASSES];
    uint16_t pages[N_PAGES + 1]; /* the range that each page's first character lies in */
    uint32_t *firsts;            /* [n_ranges] first characters of the ranges of one class, ascending */
    unsigned char *classes;      /* [n_ranges] */
    size_t n_ranges, n_classes;
    /*
     * [n_classes + 1][n_states] the state before a character of that class, by the state behind it; with the last class,
     * before the text. Unless something looks behind, the entry for state 0 is decided[].
     */
    uint16_t *before;
    /* [n_states][n_targets] where to go on from a target: to the target behind the next character, or DONE */
    uint16_t *after;
    /* [n_classes + 1][n_targets] the same by the next character's class, or OPEN; with the last class, OPEN */
    uint16_t *first;
    /* [n_classes + 1][n_classes + 1] where a match goes on from its start, by two characters' classes, or OPEN */
    uint16_t *pairs;
    uint32_t rows[256]; /* by a character's first byte: its row in `first` */
    size_t n_states, n_targets;
    uint16_t at_end; /* the state behind the text's end */
    bool looks_behind;
};

/* A set of nodes has n_words words. */
typedef struct Compiler {
    Pattern *pattern;
    Program program;
    String expression;
    Error *error;
    size_t n_words, width; /* width: columns of `before` */
    uint64_t *members;     /* [n_sets · 4] bit: the class is of the set */
    uint64_t *states;      /* [n][n_words] */
    size_t states_capacity;
    uint16_t *rows; /* [n][width] `before`, row by row */
    size_t rows_capacity;
    uint32_t *slots; /* [n_slots] hash table of states: index + 1 */
    size_t n, n_slots, work;
} Compiler;

static bool has(const uint64_t *bits, size_t i) { return bits[i / 64] >> i % 64 & 1; }
static void put(uint64_t *bits, size_t i) { bits[i / 64] |= (uint64_t)1 << i % 64; }

static bool out_of_memory(Error *error) { return error_set(error, "not enough memory for a pattern"); }

static bool too_many_states(const Compiler *compiler) {
    return error_set(compiler->error, "the pattern '%.*s' needs too many states",
                     string_shown(compiler->expression), compiler->expression.data);
}

static int compare_u32(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Fills pattern->firsts: every place where some set begins or ends. */
static bool find_ranges(Compiler *compiler) {
    const Program *program = &compiler->program;
    Pattern *pattern = compiler->pattern;
    size_t n = 1, kept = 0;
    for (size_t s = 0; s < program->n_sets; s++) n += 2 * program->sets[s].n;
    uint32_t *firsts = pattern->firsts = malloc(n * sizeof *firsts);
    if (!firsts) return false;
    firsts[0] = 0;
    n = 1;
    for (size_t s = 0; s < program->n_sets; s++)
        for (size_t i = 0; i < program->sets[s].n; i++) {
            firsts[n++] = program->sets[s].ranges[i].first;
            firsts[n++] = program->sets[s].ranges[i].last + 1;
        }
    qsort(firsts, n, sizeof *firsts, compare_u32);
    for (size_t i = 0; i < n; i++)
        if (firsts[i] <= UTF8_INVALID && (kept == 0 || firsts[i] != firsts[kept - 1]))
            firsts[kept++] = firsts[i];
    pattern->n_ranges = kept;
    return true;
}

/* Splits the classes by one set after the other; a class is a number below n_ranges meanwhile. */
static bool find_classes(Compiler *compiler) {
    const Program *program = &compiler->program;
    Pattern *pattern = compiler->pattern;
    size_t n = pattern->n_ranges, n_classes = 1;
    uint32_t *class = calloc(n, sizeof *class), *moved = malloc((n + 1) * 2 * sizeof *moved);
    bool ok = class && moved && (pattern->classes = malloc(n)) != NULL;
    for (size_t s = 0; ok && s < program->n_sets; s++) {
        const CharSet *set = &program->sets[s];
        memset(moved, 0, 2 * (n + 1) * sizeof *moved); /* names of classes, + 1, outside the set and within */
        size_t n_new = 0;
        for (size_t i = 0, k = 0; i < n; i++) {
            while (k < set->n && set->ranges[k].last < pattern->firsts[i]) k++;
            bool within = k < set->n && set->ranges[k].first <= pattern->firsts[i];
            uint32_t *name = &moved[2 * class[i] + within];
            if (!*name) *name = (uint32_t)++n_new;
            class[i] = *name - 1;
        }
        n_classes = n_new;
    }
    for (size_t i = 0; ok && n_classes <= MAX_CLASSES && i < n; i++)
        pattern->classes[i] = (unsigned char)class[i];
    free(class);
    free(moved);
    pattern->n_classes = n_classes;
    if (!ok) return out_of_memory(compiler->error);
    return n_classes <= MAX_CLASSES ||
           error_set(compiler->error, "the pattern tells more than 255 classes of characters apart");
}

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

static bool index_classes(Compiler *compiler) {
    const Program *program = &compiler->program;
    Pattern *pattern = compiler->pattern;
    size_t range = 0;
    for (size_t page = 0; page <= N_PAGES; page++) {
        while (range + 1 < pattern->n_ranges && pattern->firsts[range + 1] <= page << PAGE_BITS) range++;
        pattern->pages[page] = (uint16_t)range;
    }
    for (uint32_t c = 0; c < 256; c++)
        pattern->bytes[c] = (unsigned char)(c < 0x80 ? class_of(pattern, c) : pattern->n_classes);
    compiler->members = calloc(program->n_sets + 1, 4 * sizeof *compiler->members);
    if (!compiler->members) return out_of_memory(compiler->error);
    for (size_t s = 0; s < program->n_sets; s++)
        for (size_t i = 0, k = 0; i < pattern->n_ranges; i++) {
            const CharSet *set = &program->sets[s];
            while (k < set->n && set->ranges[k].last < pattern->firsts[i]) k++;
            if (k < set->n && set->ranges[k].first <= pattern->firsts[i])
                put(compiler->members + 4 * s, pattern->classes[i]);
        }
    return true;
}

/* The state's index; it is added if it is new. −1: refused. */
static int intern(Compiler *compiler, const uint64_t *state) {
    size_t n_words = compiler->n_words;
    uint64_t hash = 0;
    for (size_t i = 0; i < n_words; i++) hash = (hash ^ state[i]) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
    size_t mask = compiler->n_slots - 1, slot = hash >> 32 & mask;
    for (; compiler->slots[slot]; slot = (slot + 1) & mask) {
        size_t index = compiler->slots[slot] - 1;
        if (memcmp(compiler->states + index * n_words, state, n_words * sizeof *state) == 0)
            return (int)index;
    }
    size_t n = compiler->n;
    if (n == MAX_STATES || (n + 1) * compiler->width > MAX_ENTRIES) return too_many_states(compiler), -1;
    if ((n + 1) * n_words > compiler->states_capacity) {
        uint64_t *states =
            grow(compiler->states, sizeof *states, (n + 1) * n_words, &compiler->states_capacity);
        if (!states) return out_of_memory(compiler->error), -1;
        compiler->states = states;
    }
    memcpy(compiler->states + n * n_words, state, n_words * sizeof *state);
    compiler->slots[slot] = (uint32_t)++compiler->n;
    return (int)n;
}

/*
 * From the nodes NODE_SET that can match here, all nodes that can, where a character of the class `behind` comes before.
 * Level by level, the innermost lookahead first, since a negated one asks what cannot match. Nodes of a loop may follow
 * their successors, so it takes turns until nothing is new.
 */
static void close_state(Compiler *compiler, uint64_t *state, size_t behind) {
    const Program *program = &compiler->program;
    for (int level = program->n_levels - 1; level >= 0; level--)
        for (bool changed = true; changed;) {
            changed = false;
            compiler->work += program->n;
            for (size_t i = 0; i < program->n; i++) {
                const Node *node = &program->nodes[i];
                if (node->level != level || node->kind == NODE_SET || has(state, i)) continue;
                bool can = node->kind == NODE_MATCH || has(state, node->next);
                if (node->kind == NODE_SPLIT || node->kind == NODE_LOOP) can = can || has(state, node->other);
                if (node->kind == NODE_AHEAD) can = can && has(state, node->other) != node->negated;
                if (node->kind == NODE_BEHIND)
                    can = can && (behind < compiler->pattern->n_classes &&
                                  has(compiler->members + 4 * node->set, behind)) != node->negated;
                if (can) put(state, i), changed = true;
            }
        }
}

/* Fills the states' rows. Where something looks behind, states of NODE_SET alone and closed ones take turns. */
static bool find_states(Compiler *compiler) {
    const Program *program = &compiler->program;
    Pattern *pattern = compiler->pattern;
    size_t n_words = compiler->n_words;
    uint64_t *state = calloc(n_words, sizeof *state);
    if (!state) return out_of_memory(compiler->error);
    int index = intern(compiler, state); /* 0: no node at all, behind the text's end */
    for (size_t i = 0; index >= 0 && i < compiler->n; i++) {
        if (compiler->n * compiler->width > compiler->rows_capacity) {
            uint16_t *rows =
                grow(compiler->rows, sizeof *rows, compiler->n * compiler->width, &compiler->rows_capacity);
            if (!rows) {
                out_of_memory(compiler->error);
                index = -1;
                break;
            }
            compiler->rows = rows;
        }
        bool is_closed = has(compiler->states + i * n_words, 0); /* the program's match */
        for (size_t c = 0; index >= 0 && c < compiler->width; c++) {
            const uint64_t *next = compiler->states + i * n_words;
            if (is_closed) {
                memset(state, 0, n_words * sizeof *state);
                for (size_t node = 0; node < program->n; node++)
                    if (program->nodes[node].kind == NODE_SET && has(next, program->nodes[node].next) &&
                        c < pattern->n_classes && has(compiler->members + 4 * program->nodes[node].set, c))
                        put(state, node);
            } else {
                memcpy(state, next, n_words * sizeof *state);
            }
            if (!is_closed || !program->looks_behind) close_state(compiler, state, c);
            compiler->work += program->n;
            index = compiler->work > MAX_WORK ? too_many_states(compiler) - 1 : intern(compiler, state);
            compiler->rows[i * compiler->width + c] = (uint16_t)index;
        }
    }
    free(state);
    return index >= 0;
}

/*
 * The first node NODE_SET or NODE_MATCH by which the expression goes on from `node` in this state, where it can. A loop
 * that took nothing is left. `stack` and `seen` are scratch.
 */
static size_t find_leaf(Compiler *compiler, const uint64_t *state, size_t node, uint16_t *stack,
                        uint64_t *seen) {
    const Node *nodes = compiler->program.nodes;
    size_t n = 0;
    memset(seen, 0, compiler->n_words * sizeof *seen);
    for (;; compiler->work++) {
        NodeKind kind = nodes[node].kind;
        bool again = has(seen, node);
        put(seen, node);
        if (!has(state, node) || (again && kind != NODE_LOOP)) {
            node = stack[--n]; /* some way leads on, for the first node is in the state */
        } else if (again) {
            node = nodes[node].exit;
        } else if (kind == NODE_SET || kind == NODE_MATCH) {
            return node;
        } else {
            if (kind == NODE_SPLIT || kind == NODE_LOOP) stack[n++] = nodes[node].other;
            node = nodes[node].next;
        }
    }
}

/* Numbers the targets: the first is where the expression begins, the others are nodes that follow a character. */
static size_t find_targets(const Program *program, uint16_t *targets, uint16_t *target_of) {
    size_t n = 0;
    memset(target_of, 0xff, program->n * sizeof *target_of);
    targets[n++] = program->start;
    for (size_t i = 0; i < program->n; i++) {
        uint16_t next = program->nodes[i].next;
        if (program->nodes[i].kind != NODE_SET || program->nodes[i].level || target_of[next] != UINT16_MAX)
            continue;
        target_of[next] = (uint16_t)n;
        targets[n++] = next;
    }
    return n;
}

/* Fills pattern->after. scratch: [3][nodes + 1] */
static bool fill_after(Compiler *compiler, uint16_t *scratch, uint64_t *seen) {
    const Program *program = &compiler->program;
    Pattern *pattern = compiler->pattern;
    uint16_t *targets = scratch, *target_of = targets + program->n + 1, *stack = target_of + program->n + 1;
    size_t n = pattern->n_targets = find_targets(program, targets, target_of);
    compiler->work += n * compiler->n * compiler->width;
    if (n * compiler->n > MAX_ENTRIES) return too_many_states(compiler);
    uint16_t *way = pattern->after = malloc(n * compiler->n * sizeof *way);
    if (!way) return out_of_memory(compiler->error);
    for (size_t s = 0; s < compiler->n; s++)
        for (size_t t = 0; t < n; t++, way++) {
            const uint64_t *state = compiler->states + s * compiler->n_words;
            *way = NO_MATCH;
            if (!has(state, 0) || !has(state, targets[t])) continue;
            size_t leaf = find_leaf(compiler, state, targets[t], stack, seen);
            *way = leaf ? target_of[program->nodes[leaf].next] : DONE;
            compiler->work += compiler->n_words;
            if (compiler->work > MAX_WORK) return too_many_states(compiler);
        }
    return true;
}

/* Finds out for which classes the next character alone tells the state, or where to go on. */
static bool fill_first(Compiler *compiler) {
    Pattern *pattern = compiler->pattern;
    size_t n_targets = pattern->n_targets, n_entries = compiler->width * n_targets;
    uint16_t *first = pattern->first = malloc(n_entries * sizeof *first);
    if (!first) return out_of_memory(compiler->error);
    for (size_t i = 0; i < n_entries; i++)
        first[i] = pattern->looks_behind || i / n_targets == pattern->n_classes ? OPEN : NO_MATCH;
    for (size_t c = 0; c < 256; c++) pattern->rows[c] = (uint32_t)(pattern->bytes[c] * n_targets);
    for (size_t c = 0; c < pattern->n_classes && !pattern->looks_behind; c++, first += n_targets) {
        uint16_t *row = pattern->before + c * compiler->n;
        pattern->decided[c] = row[1];
        for (size_t s = 1; s < compiler->n; s++) {
            if (row[s] != row[1]) pattern->decided[c] = 0;
            for (size_t t = 0; t < n_targets; t++) {
                uint16_t way = pattern->after[row[s] * n_targets + t];
                /* A target behind which nothing can match is not reached, unless it is the first. */
                if (first[t] == NO_MATCH && (s == 1 || t > 0)) first[t] = way;
                if (first[t] != way && (way != NO_MATCH || t == 0)) first[t] = OPEN;
            }
        }
        row[0] = pattern->decided[c];
    }
    return true;
}

/* Finds out for which pairs of classes two characters tell how a match begins. */
static bool fill_pairs(Compiler *compiler) {
    Pattern *pattern = compiler->pattern;
    size_t width = compiler->width, n = compiler->n;
    uint16_t *pair = pattern->pairs = malloc(width * width * sizeof *pair);
    if (!pair) return out_of_memory(compiler->error);
    bool is_small = width * width * n <= MAX_ENTRIES;
    for (size_t a = 0; a < width; a++)
        for (size_t b = 0; b < width; b++, pair++) {
            const uint16_t *row_a = pattern->before + a * n, *row_b = pattern->before + b * n;
            *pair = pattern->first[a * pattern->n_targets];
            for (size_t s = 1; s < n && is_small && a + 1 < width && b + 1 < width && !pattern->looks_behind;
                 s++) {
                uint16_t way = pattern->after[row_a[row_b[s]] * pattern->n_targets];
                if (s == 1) *pair = way;
                if (*pair != way) *pair = OPEN;
            }
        }
    return true;
}

static bool compile(Compiler *compiler, String expression) {
    Pattern *pattern = compiler->pattern;
    compiler->expression = expression;
    if (!program_read(&compiler->program, expression, compiler->error)) return false;
    if (!find_ranges(compiler)) return out_of_memory(compiler->error);
    if (!find_classes(compiler) || !index_classes(compiler)) return false;
    compiler->n_words = (compiler->program.n + 63) / 64;
    compiler->width = pattern->n_classes + 1;
    compiler->n_slots = (size_t)1 << 17;
    compiler->slots = calloc(compiler->n_slots, sizeof *compiler->slots);
    if (!compiler->slots) return out_of_memory(compiler->error);
    if (!find_states(compiler)) return false;
    uint16_t *scratch = malloc(3 * (compiler->program.n + 1) * sizeof *scratch);
    uint64_t *seen = malloc(compiler->n_words * sizeof *seen);
    bool ok = scratch && seen ? fill_after(compiler, scratch, seen) : out_of_memory(compiler->error);
    free(scratch);
    free(seen);
    if (!ok) return false;
    pattern->n_states = compiler->n;
    pattern->looks_behind = compiler->program.looks_behind;
    pattern->before = malloc(compiler->n * compiler->width * sizeof *pattern->before);
    if (!pattern->before) return out_of_memory(compiler->error);
    for (size_t s = 0; s < compiler->n; s++)
        for (size_t c = 0; c < compiler->width; c++)
            pattern->before[c * compiler->n + s] = compiler->rows[s * compiler->width + c];
    pattern->at_end = pattern->looks_behind ? 0 : pattern->before[0];
    return fill_first(compiler) && fill_pairs(compiler);
}

Pattern *pattern_new(String expression, Error *error) {
    Compiler compiler = {.error = error, .pattern = calloc(1, sizeof *compiler.pattern)};
    bool ok = compiler.pattern ? compile(&compiler, expression) : out_of_memory(error);
    program_free(&compiler.program);
    free(compiler.members);
    free(compiler.states);
    free(compiler.rows);
    free(compiler.slots);
    if (ok) return compiler.pattern;
    pattern_free(compiler.pattern);
    return NULL;
}

void pattern_free(Pattern *pattern) {
    if (!pattern) return;
    free(pattern->firsts);
    free(pattern->classes);
    free(pattern->before);
    free(pattern->after);
    free(pattern->first);
    free(pattern->pairs);
    free(pattern);
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
    size_t length = 1;
    while (length < 4 && length < end && ((unsigned char)text[end - length] & 0xc0) == 0x80) length++;
    return utf8_decode(text + end - length, length, &c) == length && c < UTF8_INVALID ? end - length
                                                                                      : end - 1;
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
