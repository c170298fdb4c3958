/* From an expression to the tables of its pattern (pattern_new): the sets of nodes that can still match, as states. */
#include "regex/tables.h"

#include "base/utf8.h"
#include "regex/automaton.h"
#include "regex/pattern.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_ENTRIES = 1 << 21, /* of a table */
    MAX_WORK = 1 << 26,    /* nodes looked at while tables are filled: a tenth of a second or two */
    MAX_STATES = UINT16_MAX - 2,
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

static bool index_classes(Compiler *compiler) {
    const Program *program = &compiler->program;
    Pattern *pattern = compiler->pattern;
    size_t range = 0;
    for (size_t page = 0; page <= N_PAGES; page++) {
        while (range + 1 < pattern->n_ranges && pattern->firsts[range + 1] <= page << PAGE_BITS) range++;
        pattern->pages[page] = (uint16_t)range;
    }
    range = 0;
    for (uint32_t c = 0; c < 256; c++) {
        while (range + 1 < pattern->n_ranges && pattern->firsts[range + 1] <= c) range++;
        pattern->bytes[c] = (unsigned char)(c < 0x80 ? pattern->classes[range] : pattern->n_classes);
    }
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
    size_t mask = compiler->n_slots - 1, slot = (size_t)(hash >> 32) & mask;
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
                const RegexNode *node = &program->nodes[i];
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
    const RegexNode *nodes = compiler->program.nodes;
    size_t n = 0;
    memset(seen, 0, compiler->n_words * sizeof *seen);
    for (;; compiler->work++) {
        RegexNodeKind kind = nodes[node].kind;
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
