/*
 * A stack machine: an opcode of one byte pushes a value, or makes one of those on top. MARK notes where the items of a
 * tuple or a dictionary begin; the memo keeps values that are used again. Only what files of weights use is known. No
 * value is ever walked through, so nesting costs nothing; each byte pushes one value at most.
 */
#include "pickle.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_STACK = 1 << 16, MAX_PROTOCOL = 5, ORDERED_DICT = -1 /* as a global's number */ };

/* `ok` turns false at the first error. */
typedef struct Machine {
    Pickle *pickle;
    const char *at, *end; /* of the bytes that are left */
    PickleValues stack, memo;
    int64_t n_dictionaries;
    const char *const *globals;
    size_t n_globals;
    Error *error;
    bool ok;
} Machine;

static void fail(Machine *machine, const char *what) {
    if (machine->ok)
        error_set(machine->error, "%s (at byte %td)", what, machine->at - machine->pickle->bytes);
    machine->ok = false;
}

static void put(Machine *machine, PickleValues *values, PickleValue value) {
    if (values->n == values->room) {
        size_t room = 2 * values->room + 64;
        PickleValue *data = realloc(values->data, room * sizeof *data);
        if (!data) {
            fail(machine, "makes values for which there is not enough memory");
            return;
        }
        values->data = data, values->room = room;
    }
    values->data[values->n++] = value;
}

static void push(Machine *machine, PickleKind kind, size_t n, int64_t number) {
    if (machine->stack.n == MAX_STACK)
        fail(machine, "has too many values that wait for others");
    else
        put(machine, &machine->stack, (PickleValue){kind, (uint32_t)n, number});
}

/* Whether n values lie on top, and none of them is a mark. */
static bool has(Machine *machine, size_t n) {
    bool ok = machine->stack.n >= n;
    for (size_t i = 0; ok && i < n; i++)
        ok = machine->stack.data[machine->stack.n - 1 - i].kind != PICKLE_MARK;
    if (!ok) fail(machine, "takes a value where there is none");
    return ok;
}

static PickleValue pop(Machine *machine) {
    return has(machine, 1) ? machine->stack.data[--machine->stack.n] : (PickleValue){0};
}

/* Takes what lies on top, which must be of that kind. */
static PickleValue top(Machine *machine, PickleKind kind) {
    PickleValue value = has(machine, 1) ? machine->stack.data[machine->stack.n - 1] : (PickleValue){0};
    if (machine->ok && value.kind != kind) fail(machine, "puts something into what cannot have it");
    return value;
}

/* How many values lie above the last mark; the caller takes them all. */
static size_t above_mark(Machine *machine) {
    size_t n = 0, all = machine->stack.n;
    while (n < all && machine->stack.data[all - 1 - n].kind != PICKLE_MARK) n++;
    if (n == all) fail(machine, "has no mark where it needs one");
    return n;
}

/* The next n bytes, or NULL. */
static const char *take(Machine *machine, size_t n) {
    if ((size_t)(machine->end - machine->at) < n) {
        fail(machine, "is cut");
        return NULL;
    }
    machine->at += n;
    return machine->at - n;
}

/* A little-endian number of at most eight bytes; 0 once it has failed. */
static uint64_t take_number(Machine *machine, size_t n) {
    uint64_t value = 0;
    const char *bytes = take(machine, n);
    if (bytes) memcpy(&value, bytes, n);
    return value;
}

static void push_text(Machine *machine, size_t n_length) {
    uint64_t n = take_number(machine, n_length);
    const char *bytes = take(machine, (size_t)n);
    if (bytes) push(machine, PICKLE_TEXT, (size_t)n, bytes - machine->pickle->bytes);
}

/* Reads two's complement, as short as it may be. */
static void push_long(Machine *machine) {
    size_t n = (size_t)take_number(machine, 1), unused = 64 - 8 * (n < 8 ? n : 8);
    if (n > 8) fail(machine, "has an integer of more than eight bytes");
    if (!machine->ok) return;
    uint64_t value = take_number(machine, n);
    push(machine, PICKLE_INTEGER, 0, n ? (int64_t)(value << unused) >> unused : 0);
}

static void push_memo(Machine *machine, uint64_t i) {
    if (i >= machine->memo.n) fail(machine, "takes from its memo what is not there");
    if (!machine->ok) return;
    PickleValue value = machine->memo.data[i];
    push(machine, value.kind, value.n, value.number);
}

/* All writers count upwards. */
static void put_memo(Machine *machine, uint64_t i) {
    if (!has(machine, 1)) return;
    PickleValue value = machine->stack.data[machine->stack.n - 1];
    if (i > machine->memo.n)
        fail(machine, "leaves places of its memo out");
    else if (i < machine->memo.n)
        machine->memo.data[i] = value;
    else
        put(machine, &machine->memo, value);
}

/* Makes one value of the n on top. */
static void gather(Machine *machine, PickleKind kind, size_t n) {
    size_t first = machine->pickle->items.n;
    if (!has(machine, n)) return;
    machine->stack.n -= n;
    for (size_t i = 0; i < n; i++)
        put(machine, &machine->pickle->items, machine->stack.data[machine->stack.n + i]);
    push(machine, kind, n, (int64_t)first);
}

static void push_tuple(Machine *machine) {
    size_t n = above_mark(machine);
    gather(machine, PICKLE_TUPLE, n);
    if (!machine->ok) return;
    PickleValue tuple = pop(machine);
    machine->stack.data[machine->stack.n - 1] = tuple; /* in the mark's place */
}

static bool is_name(const char *global, String module, String name) {
    return strlen(global) == module.n + 1 + name.n && memcmp(global, module.data, module.n) == 0 &&
           global[module.n] == ' ' && memcmp(global + module.n + 1, name.data, name.n) == 0;
}

static void push_global(Machine *machine, String module, String name) {
    if (!machine->ok) return;
    for (int64_t i = ORDERED_DICT; i < (int64_t)machine->n_globals; i++)
        if (is_name(i < 0 ? "collections OrderedDict" : machine->globals[i], module, name)) {
            push(machine, PICKLE_GLOBAL, 0, i);
            return;
        }
    error_set(machine->error, "asks for '%.*s.%.*s', which no weights need (nothing was run)",
              string_shown(module), module.data, string_shown(name), name.data);
    machine->ok = false;
}

static String take_line(Machine *machine) {
    const char *begin = machine->at, *end = memchr(begin, '\n', (size_t)(machine->end - begin));
    if (!end) fail(machine, "is cut");
    if (end) machine->at = end + 1;
    return (String){begin, end ? (size_t)(end - begin) : 0};
}

static void stack_global(Machine *machine) {
    PickleValue name = pop(machine), module = pop(machine);
    if (name.kind != PICKLE_TEXT || module.kind != PICKLE_TEXT) fail(machine, "asks for what has no name");
    push_global(machine, pickle_text(machine->pickle, module), pickle_text(machine->pickle, name));
}

static void push_dictionary(Machine *machine) {
    push(machine, PICKLE_DICTIONARY, 0, machine->n_dictionaries++);
}

static void call(Machine *machine) {
    if (!has(machine, 2)) return;
    const PickleValue *function = &machine->stack.data[machine->stack.n - 2], *arguments = function + 1;
    if (function->kind != PICKLE_GLOBAL || arguments->kind != PICKLE_TUPLE) {
        fail(machine, "calls what is no function");
    } else if (function->number != ORDERED_DICT) {
        gather(machine, PICKLE_CALL, 2);
    } else if (arguments->n != 0) {
        fail(machine, "makes an OrderedDict of something");
    } else {
        machine->stack.n -= 2;
        push_dictionary(machine);
    }
}

/* Takes n values, keys and values by turns, into the dictionary below them. */
static void set_items(Machine *machine, size_t n, bool has_mark) {
    if (n % 2 != 0) fail(machine, "has a key without its value");
    if (!machine->ok || !has(machine, n)) return;
    PickleValues *stack = &machine->stack;
    stack->n -= n + has_mark;
    const PickleValue *items = stack->data + stack->n + has_mark;
    PickleValue dictionary = top(machine, PICKLE_DICTIONARY);
    for (size_t i = 0; i < n && machine->ok && dictionary.number == 0; i++)
        put(machine, &machine->pickle->members, items[i]);
}

static void append(Machine *machine, size_t n, bool has_mark) {
    if (!machine->ok || !has(machine, n)) return;
    machine->stack.n -= n + has_mark;
    top(machine, PICKLE_LIST);
}

/* Does what one opcode says. */
static void step(Machine *machine, unsigned char opcode) {
    char text[80];
    switch (opcode) {
    case 0x80: /* PROTO */
        if (take_number(machine, 1) > MAX_PROTOCOL) fail(machine, "is of a protocol that is not known");
        break;
    case 0x95: /* FRAME */
        if (take_number(machine, 8) > (uint64_t)(machine->end - machine->at)) fail(machine, "is cut");
        break;
    case '(': push(machine, PICKLE_MARK, 0, 0); break;
    case '}': push_dictionary(machine); break;
    case ']': push(machine, PICKLE_LIST, 0, 0); break;
    case ')': push(machine, PICKLE_TUPLE, 0, 0); break;
    case 'N': push(machine, PICKLE_NONE, 0, 0); break;
    case 0x88: push(machine, PICKLE_BOOL, 0, 1); break;
    case 0x89: push(machine, PICKLE_BOOL, 0, 0); break;
    case 'J': push(machine, PICKLE_INTEGER, 0, (int32_t)(uint32_t)take_number(machine, 4)); break;
    case 'K': push(machine, PICKLE_INTEGER, 0, (int64_t)take_number(machine, 1)); break;
    case 'M': push(machine, PICKLE_INTEGER, 0, (int64_t)take_number(machine, 2)); break;
    case 0x8a: push_long(machine); break;
    case 'X': push_text(machine, 4); break;
    case 0x8c: push_text(machine, 1); break;
    case 't': push_tuple(machine); break;
    case 0x85: gather(machine, PICKLE_TUPLE, 1); break;
    case 0x86: gather(machine, PICKLE_TUPLE, 2); break;
    case 0x87: gather(machine, PICKLE_TUPLE, 3); break;
    case 'h': push_memo(machine, take_number(machine, 1)); break;
    case 'j': push_memo(machine, take_number(machine, 4)); break;
    case 'q': put_memo(machine, take_number(machine, 1)); break;
    case 'r': put_memo(machine, take_number(machine, 4)); break;
    case 0x94: put_memo(machine, machine->memo.n); break;
    case 'c': {
        String module = take_line(machine), name = take_line(machine);
        push_global(machine, module, name);
        break;
    }
    case 0x93: stack_global(machine); break;
    case 'Q': gather(machine, PICKLE_PERSISTENT, 1); break;
    case 'R': call(machine); break;
    case 's': set_items(machine, 2, false); break;
    case 'u': set_items(machine, above_mark(machine), true); break;
    case 'a': append(machine, 1, false); break;
    case 'e': append(machine, above_mark(machine), true); break;
    case 'b': /* BUILD: attributes, which no dictionary needs */
        pop(machine);
        top(machine, PICKLE_DICTIONARY);
        break;
    default:
        snprintf(text, sizeof text, "has opcode 0x%02x, which no weights need", opcode);
        fail(machine, text);
    }
}

bool pickle_read(Pickle *pickle, const char *bytes, size_t n, const char *const *globals, size_t n_globals,
                 Error *error) {
    enum { STOP = '.' };
    Machine machine = {.pickle = pickle,
                       .at = bytes,
                       .end = bytes + n,
                       .globals = globals,
                       .n_globals = n_globals,
                       .error = error,
                       .ok = true};
    *pickle = (Pickle){.bytes = bytes};
    unsigned char opcode = 0;
    while (machine.ok && opcode != STOP) {
        const char *byte = take(&machine, 1);
        if (byte && (opcode = (unsigned char)*byte) != STOP) step(&machine, opcode);
    }
    PickleValue made = pop(&machine);
    if (machine.ok && (made.kind != PICKLE_DICTIONARY || made.number != 0))
        fail(&machine, "makes something else than a dictionary");
    if (machine.stack.n != 0 || machine.at != machine.end) fail(&machine, "goes on behind its end");
    free(machine.stack.data);
    free(machine.memo.data);
    return machine.ok;
}

void pickle_free(Pickle *pickle) {
    free(pickle->items.data);
    free(pickle->members.data);
}
