/*
 * Text ─► tree (recursive descent; groups and classes nest MAX_DEPTH deep) ─► nodes. A tree is emitted from its end to its
 * beginning, since each node needs the one that follows. Repetitions copy what they repeat, so the nodes and the steps of
 * emission are bounded.
 */
#include "regex/automaton.h"

#include "base/text.h"
#include "base/utf8.h"
#include "regex/classes.h"

#include <stdlib.h>

enum {
    MAX_NODES = 4096,
    MAX_SETS = 256,
    MAX_STEPS = 1 << 16, /* of emission: empty groups make no node, but take time */
    MAX_BYTES = 8192,
    MAX_REPEAT = 1000,
    UNBOUNDED = -1,
};

typedef enum TreeKind {
    TREE_SET,
    TREE_SEQUENCE,
    TREE_CHOICE,
    TREE_REPEAT,
    TREE_AHEAD,
    TREE_BEHIND,
} TreeKind;

typedef struct Tree {
    TreeKind kind;
    int last, previous; /* the last child; the sibling before; −1: none */
    int min, max;       /* of a repetition; UNBOUNDED */
    uint16_t set;
    bool negated, lazy;
} Tree;

typedef struct Parser {
    Program *program;
    Reader in;
    Tree *trees;
    size_t n_trees, capacity;
    int level, steps;
} Parser;

static int add_tree(Parser *parser, Tree tree) {
    if (parser->n_trees == parser->capacity) {
        Tree *trees = grow(parser->trees, sizeof *trees, parser->n_trees + 1, &parser->capacity);
        if (!trees) return reader_out_of_memory(&parser->in);
        parser->trees = trees;
    }
    parser->trees[parser->n_trees] = tree;
    return (int)parser->n_trees++;
}

static int add_parent(Parser *parser, TreeKind kind, int child) {
    return child < 0 ? FAILED : add_tree(parser, (Tree){.kind = kind, .last = child, .previous = -1});
}

/* The index of the set among the program's, which own it from now on. */
static int add_set(Parser *parser, CharSet *set) {
    Program *program = parser->program;
    charset_sort(set);
    for (size_t i = 0; i < program->n_sets; i++)
        if (charset_equal(&program->sets[i], set)) {
            free(set->ranges);
            return (int)i;
        }
    if (program->n_sets == program->sets_capacity) {
        CharSet *sets = program->n_sets < MAX_SETS
                            ? grow(program->sets, sizeof *sets, program->n_sets + 1, &program->sets_capacity)
                            : NULL;
        if (!sets) {
            free(set->ranges);
            return program->n_sets < MAX_SETS ? reader_out_of_memory(&parser->in)
                                              : reader_fail(&parser->in, "more than 256 sets of characters");
        }
        program->sets = sets;
    }
    program->sets[program->n_sets] = *set;
    return (int)program->n_sets++;
}

/* A tree that asks one thing of one character: it is taken, or comes before. */
static int add_leaf(Parser *parser, TreeKind kind, CharSet *set, bool negated) {
    int index = add_set(parser, set);
    return index < 0 ? FAILED
                     : add_tree(parser, (Tree){.kind = kind,
                                               .last = -1,
                                               .previous = -1,
                                               .set = (uint16_t)index,
                                               .negated = negated});
}

static int read_choice(Parser *parser);

/* \b matches where a character of words is on one side only. */
static int add_boundary(Parser *parser, bool negated) {
    int choice = add_tree(parser, (Tree){.kind = TREE_CHOICE, .last = -1, .previous = -1});
    for (int is_word = 0; choice >= 0 && is_word < 2; is_word++) {
        int parts[3]; /* behind, what is ahead, ahead */
        for (int i = 0; i < 2; i++) {
            CharSet set = {0};
            if (!reader_add_named(&set, 'w')) {
                free(set.ranges);
                return reader_out_of_memory(&parser->in);
            }
            parts[i] = add_leaf(parser, i ? TREE_SET : TREE_BEHIND, &set, !is_word);
            if (parts[i] < 0) return FAILED;
        }
        parts[2] = add_parent(parser, TREE_AHEAD, parts[1]);
        int both = add_parent(parser, TREE_SEQUENCE, parts[2]);
        if (both < 0) return FAILED;
        parser->trees[parts[2]].negated = is_word ^ negated;
        parser->trees[parts[2]].previous = parts[0];
        parser->trees[both].previous = parser->trees[choice].last;
        parser->trees[choice].last = both;
    }
    return choice;
}

/* ^, $ and their kin: the text's end is where no character at all comes next. */
static int add_end(Parser *parser, bool is_start) {
    CharSet all = {0};
    if (!charset_add(&all, 0, UTF8_INVALID)) return reader_out_of_memory(&parser->in);
    int leaf = add_leaf(parser, is_start ? TREE_BEHIND : TREE_SET, &all, true);
    if (leaf < 0 || is_start) return leaf;
    int ahead = add_parent(parser, TREE_AHEAD, leaf);
    if (ahead >= 0) parser->trees[ahead].negated = true;
    return ahead;
}

/* The set that is all of a group, or the group. */
static int strip_group(const Parser *parser, int tree) {
    const Tree *trees = parser->trees;
    while ((trees[tree].kind == TREE_CHOICE || trees[tree].kind == TREE_SEQUENCE) && trees[tree].last >= 0 &&
           trees[trees[tree].last].previous < 0)
        tree = trees[tree].last;
    return tree;
}

/* (?<=X) and (?<!X) of one character, whose opening has been taken. */
static int read_behind(Parser *parser, bool negated) {
    int tree = read_choice(parser);
    if (tree < 0) return FAILED;
    tree = strip_group(parser, tree);
    if (parser->trees[tree].kind != TREE_SET)
        return reader_fail(&parser->in, "a lookbehind of more than one character");
    parser->trees[tree].kind = TREE_BEHIND;
    parser->trees[tree].negated = negated;
    return tree;
}

/* Reads a group, whose ( has been taken, up to its ). */
static int read_group(Parser *parser) {
    bool ignore_case = parser->in.ignore_case, ahead = false, negated = false;
    int tree = FAILED;
    if (++parser->in.depth > MAX_DEPTH)
        return reader_fail(&parser->in, "too many groups one within the other");
    if (reader_take(&parser->in, "?<=") || reader_take(&parser->in, "?<!")) {
        tree = read_behind(parser, parser->in.text.data[parser->in.at - 1] == '!');
    } else {
        if (reader_take(&parser->in, "?=") || reader_take(&parser->in, "?!")) {
            ahead = true;
            negated = parser->in.text.data[parser->in.at - 1] == '!';
        } else if (reader_take(&parser->in, "?i:")) {
            parser->in.ignore_case = true;
        } else if (reader_take(&parser->in, "?-i:")) {
            parser->in.ignore_case = false;
        } else if (reader_peek(&parser->in, 0) == '?' && !reader_take(&parser->in, "?:")) {
            return reader_fail(&parser->in, "a group of a kind that is not supported");
        }
        tree = read_choice(parser);
    }
    parser->in.ignore_case = ignore_case;
    parser->in.depth--;
    if (tree < 0) return FAILED;
    if (!reader_take(&parser->in, ")")) return reader_fail(&parser->in, "a ( without its )");
    if (!ahead) return tree;
    tree = add_parent(parser, TREE_AHEAD, tree);
    if (tree >= 0) parser->trees[tree].negated = negated;
    return tree;
}

/* Reads a character, a class or a group. */
static int read_atom(Parser *parser) {
    if (reader_take(&parser->in, "(")) return read_group(parser);
    if (reader_take(&parser->in, "^") || reader_take(&parser->in, "\\A")) return add_end(parser, true);
    if (reader_take(&parser->in, "$") || reader_take(&parser->in, "\\z")) return add_end(parser, false);
    if (reader_take(&parser->in, "\\b")) return add_boundary(parser, false);
    if (reader_take(&parser->in, "\\B")) return add_boundary(parser, true);
    int next = reader_peek(&parser->in, 0), kind;
    if (next == '*' || next == '+' || next == '?') return reader_fail(&parser->in, "a quantifier of nothing");
    CharSet set = {0};
    uint32_t c;
    if (reader_take(&parser->in, ".")) {
        kind = charset_add(&set, 0, '\n' - 1) && charset_add(&set, '\n' + 1, UTF8_INVALID)
                   ? 0
                   : reader_out_of_memory(&parser->in);
    } else if (reader_take(&parser->in, "[")) {
        kind = reader_class(&parser->in, &set);
    } else {
        kind = reader_take(&parser->in, "\\") ? reader_escape(&parser->in, &set, &c)
                                              : reader_literal(&parser->in, &set, &c);
        if (kind == 1 && parser->in.ignore_case) kind = reader_fold_case(&parser->in, &set);
    }
    if (kind >= 0) return add_leaf(parser, TREE_SET, &set, false);
    free(set.ranges);
    return FAILED;
}

static int read_number(Parser *parser) {
    int value = reader_peek(&parser->in, 0) >= '0' && reader_peek(&parser->in, 0) <= '9' ? 0 : FAILED;
    for (; reader_peek(&parser->in, 0) >= '0' && reader_peek(&parser->in, 0) <= '9'; parser->in.at++)
        if (value <= MAX_REPEAT) value = 10 * value + reader_peek(&parser->in, 0) - '0';
    return value;
}

/* Reads a quantifier, if one comes next. False: none does, and nothing was taken. */
static bool read_quantifier(Parser *parser, int *min, int *max) {
    size_t before = parser->in.at;
    *min = 0;
    *max = UNBOUNDED;
    if (reader_take(&parser->in, "*")) return true;
    if (reader_take(&parser->in, "+")) return *min = 1, true;
    if (reader_take(&parser->in, "?")) return *max = 1, true;
    if (reader_take(&parser->in, "{") && (*min = read_number(parser)) >= 0) {
        *max = *min;
        if (reader_take(&parser->in, ",") && (*max = read_number(parser)) < 0) *max = UNBOUNDED;
        if (reader_take(&parser->in, "}")) return true;
    }
    parser->in.at = before;
    return false;
}

/*
 * X{m,n}+ never gives back what it took. For one character X that is X{n}|X{m,n-1}(?!X), and X{m,}(?!X) without n: it
 * took all there were.
 */
static int add_possessive(Parser *parser, int atom, int min, int max) {
    atom = strip_group(parser, atom);
    Tree leaf = parser->trees[atom];
    if (leaf.kind != TREE_SET)
        return reader_fail(&parser->in, "a possessive quantifier of more than one character");
    int repeat = add_parent(parser, TREE_REPEAT, atom), copy = add_tree(parser, leaf);
    int ahead = add_parent(parser, TREE_AHEAD, copy), sequence = add_parent(parser, TREE_SEQUENCE, ahead);
    if (repeat < 0 || sequence < 0) return FAILED;
    parser->trees[ahead].negated = true;
    parser->trees[ahead].previous = repeat;
    parser->trees[repeat].min = min;
    parser->trees[repeat].max = max == UNBOUNDED ? UNBOUNDED : max - 1;
    if (max == UNBOUNDED) return sequence;
    int again = add_tree(parser, leaf), all = add_parent(parser, TREE_REPEAT, again);
    int choice = min < max ? add_parent(parser, TREE_CHOICE, sequence) : all;
    if (all < 0 || choice < 0) return FAILED;
    parser->trees[all].min = parser->trees[all].max = max;
    if (min < max) parser->trees[sequence].previous = all;
    return choice;
}

/* Reads an atom and its quantifier. */
static int read_piece(Parser *parser) {
    int tree = read_atom(parser), min, max;
    if (tree < 0 || !read_quantifier(parser, &min, &max)) return tree;
    if (min > MAX_REPEAT || max > MAX_REPEAT || (max >= 0 && max < min))
        return reader_fail(&parser->in, "a repetition out of range");
    if (reader_take(&parser->in, "+"))
        tree = add_possessive(parser, tree, min, max);
    else {
        bool lazy = reader_take(&parser->in, "?");
        tree = add_parent(parser, TREE_REPEAT, tree);
        if (tree >= 0)
            parser->trees[tree].min = min, parser->trees[tree].max = max, parser->trees[tree].lazy = lazy;
    }
    int unused;
    return tree >= 0 && read_quantifier(parser, &unused, &unused)
               ? reader_fail(&parser->in, "a quantifier after a quantifier")
               : tree;
}

/* Reads pieces up to a |, a ) or the end. */
static int read_sequence(Parser *parser) {
    int sequence = add_tree(parser, (Tree){.kind = TREE_SEQUENCE, .last = -1, .previous = -1});
    while (sequence >= 0 && parser->in.at < parser->in.text.n && reader_peek(&parser->in, 0) != '|' &&
           reader_peek(&parser->in, 0) != ')') {
        if (reader_take(&parser->in, "(?i)")) {
            parser->in.ignore_case = true; /* up to the end of the group */
            continue;
        }
        int piece = read_piece(parser);
        if (piece < 0) return FAILED;
        parser->trees[piece].previous = parser->trees[sequence].last;
        parser->trees[sequence].last = piece;
    }
    return sequence;
}

static int read_choice(Parser *parser) {
    int choice = add_tree(parser, (Tree){.kind = TREE_CHOICE, .last = -1, .previous = -1});
    do {
        int sequence = choice < 0 ? FAILED : read_sequence(parser);
        if (sequence < 0) return FAILED;
        parser->trees[sequence].previous = parser->trees[choice].last;
        parser->trees[choice].last = sequence;
    } while (reader_take(&parser->in, "|"));
    return choice;
}

static int add_node(Parser *parser, RegexNode node) {
    Program *program = parser->program;
    if (program->n == MAX_NODES) return reader_fail(&parser->in, "too large");
    if (program->n == program->capacity) {
        RegexNode *nodes = grow(program->nodes, sizeof *nodes, program->n + 1, &program->capacity);
        if (!nodes) return reader_out_of_memory(&parser->in);
        program->nodes = nodes;
    }
    node.level = (unsigned char)parser->level;
    if (parser->level >= program->n_levels) program->n_levels = (unsigned char)(parser->level + 1);
    program->nodes[program->n] = node;
    return (int)program->n++;
}

static int add_split(Parser *parser, int first, int second, bool lazy) {
    if (first < 0) return FAILED;
    return add_node(parser, (RegexNode){.kind = NODE_SPLIT,
                                        .next = (uint16_t)(lazy ? second : first),
                                        .other = (uint16_t)(lazy ? first : second)});
}

static int emit(Parser *parser, int tree, int next);

static int emit_repeat(Parser *parser, Tree tree, int next) {
    int end = next;
    if (tree.max == UNBOUNDED) {
        uint16_t exit = (uint16_t)next;
        int loop =
            add_node(parser, (RegexNode){.kind = NODE_LOOP, .next = exit, .other = exit, .exit = exit});
        int body = emit(parser, tree.last, loop);
        if (body < 0) return FAILED;
        RegexNode *node = &parser->program->nodes[loop];
        *(tree.lazy ? &node->other : &node->next) = (uint16_t)body;
        next = tree.min ? body : loop;
        tree.min -= tree.min > 0;
    } else {
        for (int i = tree.min; next >= 0 && i < tree.max; i++)
            next = add_split(parser, emit(parser, tree.last, next), end, tree.lazy);
    }
    for (int i = 0; next >= 0 && i < tree.min; i++) next = emit(parser, tree.last, next);
    return next;
}

/* Adds the nodes of a tree that `next` follows; the first of them, or FAILED. */
static int emit(Parser *parser, int index, int next) {
    Tree tree = parser->trees[index];
    int first = FAILED;
    if (next < 0) return FAILED;
    if (++parser->steps > MAX_STEPS) return reader_fail(&parser->in, "too large");
    RegexNode node = {.negated = tree.negated, .set = tree.set, .next = (uint16_t)next};
    switch (tree.kind) {
    case TREE_SET: node.kind = NODE_SET; return add_node(parser, node);
    case TREE_SEQUENCE:
        for (int child = tree.last; child >= 0 && next >= 0; child = parser->trees[child].previous)
            next = emit(parser, child, next);
        return next;
    case TREE_CHOICE:
        for (int child = tree.last; child >= 0; child = parser->trees[child].previous) {
            int branch = emit(parser, child, next);
            first = child == tree.last ? branch : add_split(parser, branch, first, false);
            if (first < 0) return FAILED;
        }
        return first;
    case TREE_REPEAT: return emit_repeat(parser, tree, next);
    case TREE_AHEAD:
        parser->level++;
        first = add_node(parser, (RegexNode){.kind = NODE_MATCH});
        first = emit(parser, tree.last, first);
        parser->level--;
        node.kind = NODE_AHEAD;
        node.other = (uint16_t)first;
        return first < 0 ? FAILED : add_node(parser, node);
    default:
        node.kind = NODE_BEHIND;
        parser->program->looks_behind = true;
        return add_node(parser, node);
    }
}

bool program_read(Program *program, String text, Error *error) {
    Parser parser = {.program = program, .in = {.text = text, .error = error}};
    *program = (Program){0};
    int tree = text.n > MAX_BYTES ? reader_fail(&parser.in, "longer than 8192 bytes") : read_choice(&parser);
    if (tree >= 0 && parser.in.at < text.n) tree = reader_fail(&parser.in, "a ) without its (");
    int start = tree < 0 ? FAILED : emit(&parser, tree, add_node(&parser, (RegexNode){.kind = NODE_MATCH}));
    free(parser.trees);
    program->start = (uint16_t)start;
    return start >= 0;
}

void program_free(Program *program) {
    for (size_t i = 0; i < program->n_sets; i++) free(program->sets[i].ranges);
    free(program->sets);
    free(program->nodes);
}
