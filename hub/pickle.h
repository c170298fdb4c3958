/*
 * Reads what a pickle (Python's pickletools) makes, without running it: a pickle is a program that may call anything,
 * and here nothing is called. A call stays a value that says what would be called with what. For this folder only.
 */
#ifndef ATTN_PICKLE_H
#define ATTN_PICKLE_H

#include "base/error.h"
#include "base/text.h"

typedef enum PickleKind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INTEGER,    /* `number` */
    PICKLE_TEXT,       /* n bytes at `number` of the pickle */
    PICKLE_TUPLE,      /* n values from items[number] */
    PICKLE_LIST,       /* its items are dropped */
    PICKLE_DICTIONARY, /* the number-th that is made; the members are kept of the first alone */
    PICKLE_GLOBAL,     /* globals[number] */
    PICKLE_CALL,       /* of items[number], a global, with items[number + 1], a tuple */
    PICKLE_PERSISTENT, /* what lies elsewhere, under the key items[number] */
    PICKLE_MARK,       /* never part of another value */
} PickleKind;

typedef struct PickleValue {
    PickleKind kind;
    uint32_t n;
    int64_t number;
} PickleValue;

typedef struct PickleValues {
    PickleValue *data; /* [n] */
    size_t n, room;
} PickleValues;

typedef struct Pickle {
    const char *bytes;    /* borrowed */
    PickleValues items;   /* what tuples and calls are made of */
    PickleValues members; /* of the dictionary that the pickle makes: keys and values by turns */
} Pickle;

enum { PICKLE_MAX_BYTES = 1 << 24 };

/*
 * Reads n ≤ PICKLE_MAX_BYTES bytes, which must make a dictionary (or an OrderedDict) before any other, and from nothing but
 * values of the kinds above; it may ask for these `globals`, each "module name", of which there are n_globals. Time is
 * linear, memory at most some 50 times the bytes; usual pickles take four times theirs. Fails with an error that tells
 * where. pickle_free also takes what failed.
 */
bool pickle_read(Pickle *pickle, const char *bytes, size_t n, const char *const *globals, size_t n_globals,
                 Error *error);
void pickle_free(Pickle *pickle);

static inline String pickle_text(const Pickle *pickle, PickleValue text) {
    return (String){pickle->bytes + text.number, text.n};
}

#endif
