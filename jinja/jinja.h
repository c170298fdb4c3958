/*
 * The parts of template.h's interpreter share this: the tree that parse.c makes of a source, and the values that
 * template.c (statements), eval.c (expressions), and filters.c, tests.c, strings.c and functions.c
 * compute with it. Those and json.c call each other, for a filter has arguments, and a macro
 * is called like a function: recursion is what templates are made of, and `descend` bounds it.
 *
 * Nothing is freed before the end: nodes and values lie in a Pool. The first error is kept (`failed`); whatever is
 * computed afterwards is undefined, at once, so that nobody needs to look.
 */
#ifndef ATTN_JINJA_H
#define ATTN_JINJA_H

#include "jinja/template.h"

enum { BYTES_A_STEP = 16 };

/* Memory that is freed as a whole. */
typedef struct Pool {
    struct PoolBlock *blocks;
    char *next;
    size_t left;       /* bytes behind next */
    size_t used, most; /* bytes of all blocks, and how many there may be */
    bool full;         /* which a request would have exceeded */
} Pool;

/* n bytes, zeros, for any type. NULL when memory, or what the pool may take, runs out. */
void *pool_take(Pool *pool, size_t n);
void pool_free(Pool *pool);

typedef enum ValueKind {
    VALUE_ABSENT, /* an argument that was not given */
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_FLOAT,
    VALUE_STRING,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_GENERATOR, /* of a filter such as map: it is true, and its items can be had once */
    VALUE_DICT,
    VALUE_NAMESPACE,
    VALUE_LOOP,
    VALUE_MACRO,
    VALUE_METHOD, /* of a value, not yet called */
    VALUE_FUNCTION,
} ValueKind;

/*
 * A part of a text, and where each of its bytes comes from (template.h). All string work takes and gives these, so that
 * whatever is cut, joined or changed says of every byte whose it is.
 */
typedef struct Text {
    const char *data;
    size_t n;          /* bytes */
    const char *marks; /* [n] 0: the template's own, 1: from outside; NULL: all are its own */
} Text;

/* A value of any kind. */
typedef struct Any {
    uint8_t kind;
    uint8_t owner;     /* VALUE_UNDEFINED: kind of the value that lacks it, or VALUE_ABSENT for a variable */
    uint32_t n;        /* bytes of text */
    const char *marks; /* VALUE_STRING: as in Text */
    union {
        int64_t integer; /* VALUE_BOOL, too */
        double real;
        const char *text;   /* VALUE_STRING; VALUE_UNDEFINED: its name */
        struct List *items; /* VALUE_LIST, TUPLE, GENERATOR; DICT and NAMESPACE: key and value in turns */
        struct Loop *loop;
        struct Macro *macro;
        struct Method *method;
        const struct Builtin *builtin;
    };
} Any;

typedef struct List {
    Any *items;
    uint32_t n, capacity;
} List;

/* The values of `loop` in the body of a `for`. */
typedef struct Loop {
    const Any *items; /* [n] */
    size_t n, index;
    Any changed; /* what loop.changed was given last */
    const struct Node *node;
    struct Scope *scope; /* where the statement stands */
    int64_t depth;       /* of calls of a recursive loop within it */
} Loop;

/* A method of a value that has been asked for and not yet called. */
typedef struct Method {
    Any self;
    const struct Builtin *builtin;
} Method;

typedef enum NodeKind {
    /* Expressions; a, b, c are what they are made of. */
    NODE_CONST, /* value */
    NODE_NAME,
    NODE_LIST, /* of `a` and what follows it by `next`; likewise NODE_TUPLE, NODE_CONCAT; NODE_DICT: key, value in turns */
    NODE_TUPLE,
    NODE_DICT,
    NODE_CONCAT,
    NODE_GETATTR, /* a.text */
    NODE_GETITEM, /* a[b] */
    NODE_SLICE,   /* a:b:c, each may be NULL */
    NODE_CALL,    /* a(args) */
    NODE_FILTER,  /* a|text(args); a is NULL where what is filtered is a block */
    NODE_TEST,    /* a is text(args) */
    NODE_NOT,
    NODE_NEGATIVE,
    NODE_POSITIVE,
    NODE_AND,
    NODE_OR,
    NODE_BINARY,  /* a op b */
    NODE_COMPARE, /* a, then NODE_OPERANDs from b on: op a */
    NODE_OPERAND,
    NODE_CONDITION, /* a if b else c; c may be NULL */
    NODE_ARGUMENT, /* of a call: a, with a keyword as text, or op '*' or OP_POWER; of a macro: text, default a or NULL */
    /* Statements */
    NODE_TEXT,
    NODE_OUTPUT, /* {{ a }} */
    NODE_IF,     /* if a: body, else: other */
    NODE_FOR,    /* for a in b if c: body, else: other; with op 1 it is recursive */
    NODE_SET,    /* a = b; without b: a = body, through the filter c, if any */
    NODE_WITH,   /* NODE_SETs from a on, then body */
    NODE_MACRO,
    NODE_CALL_BLOCK,   /* the call a, with the macro b as its caller */
    NODE_FILTER_BLOCK, /* body through the filter a */
    NODE_BREAK,
    NODE_CONTINUE,
} NodeKind;

/* Operators of more than one character; others are their character. */
enum { OP_EQUAL = 128, OP_UNEQUAL, OP_AT_MOST, OP_AT_LEAST, OP_FLOOR, OP_POWER, OP_IN, OP_NOT_IN };

/* Which special names the body of a macro has. */
enum { USES_VARARGS = 1, USES_KWARGS = 2, USES_CALLER = 4 };

typedef struct Node {
    uint8_t kind;
    uint8_t op; /* an operator; NODE_MACRO: what it uses; NODE_IF: 1 where it is an elif, alone in `other` */
    uint32_t line;
    String text;
    Any value;
    struct Node *a, *b, *c;
    struct Node *args; /* NODE_ARGUMENTs */
    struct Node *body, *other;
    struct Node *next;
} Node;

struct Template {
    Pool pool;
    String source;
    Node *body;
};

/* Parses template->source into template->body. False with an error that names the line. */
bool jinja_parse(Template *template, Error *error);

/* Variables. A body of a loop, a macro or a block has a scope of its own; what it sets is not seen outside. */
typedef struct Scope {
    struct Scope *outer;
    struct Variable *variables; /* the latest first */
} Scope;

typedef struct Macro {
    const Node *node;
    Scope *scope; /* where it was defined */
} Macro;

typedef struct Render {
    Pool pool;
    TextBuffer *out;               /* a stack, too: a text is made at its end, and then cut off */
    TextBuffer *marks;             /* of what is in `out` from out_start on, from marks_start on */
    size_t out_start, marks_start; /* bytes that were there before */
    const char *foreign;           /* [n_foreign] ones: the marks of all that is wholly from outside */
    size_t n_foreign;
    Error *error;
    bool failed;
    uint32_t line; /* of the node that is being evaluated */
    size_t steps, depth;
    uintptr_t stack; /* where the first level stood; 0: there was none yet */
    Scope *scope;
    int64_t now;
    struct Mappings *mappings; /* NULL until a text beyond ASCII changes its case */
} Render;

/* ---- values.c ---- */

/* An error at the template's line, if it is the first. Undefined, for callers to return. */
Any fail(Render *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Counts steps; false when there have been too many, or all has failed already. */
bool charge(Render *r, size_t steps);

/* Counts that n bytes are looked at or copied, quickly; where each character is decoded, 4 times as many. */
static inline bool charge_bytes(Render *r, size_t n) { return charge(r, 1 + n / BYTES_A_STEP); }
static inline bool charge_characters(Render *r, size_t n) { return charge(r, 1 + n / (BYTES_A_STEP / 4)); }

/*
 * Goes a level down, to what is within a value or node; false when that is too deep. Always followed by `r->depth--`.
 */
bool descend(Render *r);

/* n bytes, zeros, of the pool; NULL with an error. */
void *take(Render *r, size_t n);

void emit(Render *r, Text text);
void emit_word(Render *r, const char *word); /* the template's own */
/* A text that stands for the byte at `of`, as an escape does: it comes from where that comes from. */
void emit_for(Render *r, const char *word, Text of);

/* The text at the end of the output from `start` on, which is taken off it. */
Any cut(Render *r, size_t start);

static inline Any value_of_kind(ValueKind kind) { return (Any){.kind = (uint8_t)kind}; }
static inline Any value_bool(bool b) { return (Any){.kind = VALUE_BOOL, .integer = b}; }
static inline Any value_int(int64_t i) { return (Any){.kind = VALUE_INT, .integer = i}; }
static inline Any value_float(double x) { return (Any){.kind = VALUE_FLOAT, .real = x}; }
static inline Any value_text(Text t) {
    return (Any){.kind = VALUE_STRING, .n = (uint32_t)t.n, .text = t.data, .marks = t.marks};
}
static inline Text text_own(const char *data, size_t n) { return (Text){data, n, NULL}; }
static inline Text text_part(Text t, size_t from, size_t n) {
    return (Text){t.data + from, n, t.marks ? t.marks + from : NULL};
}
/* A string of the template's own, such as a name that it uses. */
static inline Any value_own(String s) { return value_text(text_own(s.data, s.n)); }
static inline Text text_of(Any v) { return (Text){v.text, v.n, v.marks}; }
static inline String bare(Text t) { return (String){t.data, t.n}; } /* to look at */
static inline String string_of(Any v) {
    return (String){v.text, v.n};
} /* likewise; the name of an undefined */
static inline bool is_list(Any v) { return v.kind >= VALUE_LIST && v.kind <= VALUE_GENERATOR; }
static inline bool is_integer(Any v) { return v.kind == VALUE_BOOL || v.kind == VALUE_INT; }
static inline bool is_number(Any v) { return is_integer(v) || v.kind == VALUE_FLOAT; }
static inline bool is_given(Any v) { return v.kind != VALUE_ABSENT; }
static inline double number_of(Any v) { return v.kind == VALUE_FLOAT ? v.real : (double)v.integer; }

/* A new, empty list, tuple, generator, dict or namespace. */
Any value_new(Render *r, ValueKind kind);
void list_push(Render *r, Any list, Any item);
void dict_set(Render *r, Any dict, Any key, Any value);
const Any *dict_find(Render *r, Any dict, Any key);         /* the value; NULL: none */
Any value_from_json(Render *r, const Json *json, bool own); /* own: its text is the template's */

const char *value_type(Any v); /* for people, as Python names it: "an int" */
bool value_truth(Any v);
bool value_equals(Render *r, Any a, Any b);
int value_compare(Render *r, Any a, Any b); /* < 0, 0, > 0; fails where there is no order */
bool value_contains(Render *r, Any container, Any item);
int64_t value_length(Render *r, Any v);

/* The items that a `for` goes through. */
typedef struct JinjaItems {
    const Any *items;
    size_t n;
} JinjaItems;
JinjaItems value_items(Render *r, Any v);

/*
 * These look at texts, and charge for what they look at: all string work goes through these, or through value_items,
 * emit and cut, or charges for each character.
 */
size_t text_find(Render *r, Text text, Text needle,
                 size_t from); /* at or after that byte; text.n + 1: nowhere */
size_t text_find_last(Render *r, Text text, Text needle, size_t end); /* the last in text[0, end); likewise */
bool text_equals(Render *r, Text a, Text b);
int text_compare(Render *r, Text a, Text b);
size_t text_characters(Render *r, Text text);               /* how many */
size_t text_offset(Render *r, Text text, size_t character); /* bytes before that character, at most text.n */
/* Leaves out the characters of the set at its ends, or white space if the set has no data. */
Text text_strip(Render *r, Text text, Text set, bool left, bool right);

/* ---- repr.c ---- */

/* Prints it as str() and repr() do, or gives it as a text, which a string is already. */
void emit_value(Render *r, Any v, bool repr);
Any value_to_text(Render *r, Any v);

/* ---- eval.c ---- */

Any eval(Render *r, const Node *node);
Any value_attribute(Render *r, Any v, String name); /* v.name */
Any value_item(Render *r, Any v, Any key);          /* v[key] */
/* A filter, which a block of NODE_FILTERs ends with, of a value. */
Any eval_filters(Render *r, const Node *filter, Any v);

/* Arguments of a call. */
typedef struct Args {
    List list;     /* by position */
    List keywords; /* name, value in turns */
} Args;

Any call_value(Render *r, Any callee, const Args *args);

/* ---- template.c ---- */

Any *scope_find(Render *r, String name); /* NULL: no such variable */
void scope_set(Render *r, String name, Any value);
Any call_macro(Render *r, const Macro *macro, const Args *args);
Any call_loop(Render *r, const Loop *loop, const Args *args); /* loop(items), where it is recursive */

/* ---- filters.c, tests.c, functions.c ---- */

enum { MAX_PARAMETERS = 4 };

/*
 * A filter, test, method or function. Its parameters are words, those with a '!' must be given; p[i] is argument i,
 * VALUE_ABSENT where it was not. "*" takes what comes, in `args` alone.
 */
typedef Any BuiltinCall(Render *r, Any self, const Any *p, const Args *args);
typedef struct Builtin {
    const char *name, *parameters;
    BuiltinCall *call;
} Builtin;

Any call_builtin(Render *r, const Builtin *builtin, Any self, const Args *args);
const Builtin *find_builtin(const Builtin *table, size_t n, String name); /* NULL: none */
const Builtin *find_filter(String name);
Any call_filter(Render *r, String name, Any self, const Args *args);
bool call_test(Render *r, String name, Any self, const Args *args);
const Builtin *find_method(Any self, String name);
const Builtin *find_function(String name);

/* ---- case.c ---- */

bool text_has_case(Render *r, Text text, char wanted); /* 'u' or 'l': it has letters, and all are such */

/* ---- case.c, strings.c, printf.c, json.c: what is a filter, and often a method, too ---- */

BuiltinCall string_capitalize, string_escape, string_format, string_indent, string_lower, string_printf,
    string_replace, string_strip, string_swapcase, string_title, string_title_filter, string_upper,
    string_wordcount, value_to_json, dict_items;

extern const Builtin string_methods[];
extern const size_t n_string_methods;

#endif
