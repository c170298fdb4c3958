/*
 * Where a text's last m tokens stood before, for the last time, is looked up by their hash, for some m; the longest match
 * wins. So a token takes the same few steps in any text.
 */
#include "guess.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const unsigned char orders[] = {1, 2, 3, 5, 8, 16}; /* m */

enum {
    N_ORDERS = sizeof orders,
    LONGEST = 64,    /* tokens of a match that are counted */
    SLOTS = 8,       /* for each token of the text, of which it takes N_ORDERS at most */
    FEWEST = 1024,   /* tokens that there is room for at first */
    MOST = 1 << 16,  /* and at last */
    PARTED = -1,     /* stands between texts that have nothing to do with each other */
    N_CLASSES = 8,   /* of matches, by length */
    N_SIZES = 5,     /* of passes: 1, 2, 4, 8, 16 tokens */
    USUAL = 3,       /* guesses that the rates begin with count for as many */
    REMEMBERED = 32, /* guesses of a class that its rate is made of */
    FIRST = 3,       /* times that are too few for more than to take the least */
    STEADY = 10,     /* a time moves by this part of it, when there are more */
    PATIENCE = 8,    /* passes of other sizes, until one that was tried once is tried again */
};

/*
 * A pass with guesses must promise so much more than it costs. What passes have cost beyond what they gave, in passes of one
 * token, is kept account of: each token pays a share. Where more was lost, a pass must promise more, until that is paid.
 */
static const double margin = 1.05, sure = 1.5, share = 0.01, credit = 1, most_credit = 8;

/* m tokens that have a hash, in an open table, and how many tokens there are up to where they last ended; 0: no such slot. */
typedef struct Slot {
    uint32_t tag, end;
} Slot;

struct Guesses {
    Speculate speculate;
    int32_t *ids; /* [room] the text, and others before it, the oldest forgotten */
    Slot *slots;  /* [SLOTS·room] */
    size_t n, room;
    size_t at, length; /* the last `length` tokens of the text stand before ids[at], too; 0: they are new */
    double rates[N_CLASSES];                  /* how often the first guess held, by the length of its match */
    unsigned n_seen[N_CLASSES];               /* such guesses */
    double seconds[N_SIZES];                  /* that passes take, of 1, 2, 4, 8, 16 tokens */
    unsigned n_timed[N_SIZES], idle[N_SIZES]; /* passes that were timed; others since the last of them */
    double account;                           /* passes of one token; below 0: a debt */
};

Guesses *guesses_new(Speculate speculate, Error *error) {
    static const double usual[N_CLASSES] = {.1, .2, .3, .4, .5, .6, .7, .8};
    Guesses *guesses = calloc(1, sizeof *guesses);
    if (!guesses) {
        error_set(error, "not enough memory for guesses");
        return NULL;
    }
    guesses->speculate = speculate;
    memcpy(guesses->rates, usual, sizeof usual);
    guesses->account = credit;
    return guesses;
}

void guesses_free(Guesses *guesses) {
    if (!guesses) return;
    free(guesses->ids);
    free(guesses->slots);
    free(guesses);
}

/* How many tokens before a place are those before the end, too. */
static size_t common(const Guesses *guesses, size_t at) {
    const int32_t *ids = guesses->ids, *end = ids + guesses->n;
    size_t length = 0, most = at < LONGEST ? at : LONGEST;
    while (length < most && ids[at - 1 - length] == end[-1 - (ptrdiff_t)length]) length++;
    return length;
}

/* The bits of x, all of which decide about each (Stafford's variant 13 of MurmurHash3's end). */
static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}

/* The slot of that hash, or a free one for it: there is always one. */
static Slot *find(const Guesses *guesses, uint64_t hash) {
    size_t mask = SLOTS * guesses->room - 1, i = (size_t)(hash >> 32) & mask;
    while (guesses->slots[i].end && guesses->slots[i].tag != (uint32_t)hash) i = (i + 1) & mask;
    return &guesses->slots[i];
}

/* Looks up the end of the text, and leaves its own place there for the next time. */
static void look_up(Guesses *guesses) {
    const int32_t *end = guesses->ids + guesses->n;
    uint64_t hash = 0x9E3779B97F4A7C15ull; /* no number that a token has */
    size_t m = 0;
    guesses->at = guesses->length = 0;
    for (size_t i = 0; i < N_ORDERS && orders[i] <= guesses->n; i++) {
        while (m < orders[i]) hash = mix(hash ^ (uint32_t)end[-1 - (ptrdiff_t)m++]);
        Slot *slot = find(guesses, hash);
        size_t length = slot->end < guesses->n ? common(guesses, slot->end) : 0; /* n: two hashes are one */
        if (length > guesses->length) guesses->at = slot->end, guesses->length = length;
        *slot = (Slot){(uint32_t)hash, (uint32_t)guesses->n};
    }
}

/* Makes room for another token: four times as much as there was, or that of the older half. False: there is no memory at all. */
static bool make_room(Guesses *guesses) {
    size_t n = guesses->n, room = guesses->room ? 4 * guesses->room : FEWEST;
    int32_t *ids = room <= MOST ? realloc(guesses->ids, room * sizeof *ids) : NULL;
    if (ids) guesses->ids = ids;
    Slot *slots = ids ? calloc(SLOTS * room, sizeof *slots) : NULL;
    if (slots) {
        free(guesses->slots);
        guesses->slots = slots, guesses->room = room;
    } else if (n > 0) {
        n -= n / 2;
        memmove(guesses->ids, guesses->ids + guesses->n - n, n * sizeof *ids);
        memset(guesses->slots, 0, SLOTS * guesses->room * sizeof *slots);
    }
    for (guesses->n = 0; guesses->n < n;) guesses->n++, look_up(guesses);
    return guesses->n < guesses->room;
}

static unsigned at_most(unsigned n, unsigned most) { return n < most ? n : most; }

/* 1, 2, 3, 4 to 5, 6 to 8, 9 to 15, 16 to 31, more. */
static size_t class_of(size_t length) {
    static const unsigned char from[N_CLASSES] = {1, 2, 3, 4, 6, 9, 16, 32};
    size_t i = N_CLASSES - 1;
    while (length < from[i]) i--;
    return i;
}

/* Whether the token that comes now was guessed. */
static void rate(Guesses *guesses, int32_t id) {
    if (guesses->length == 0) return;
    size_t class = class_of(guesses->length);
    unsigned n = at_most(++guesses->n_seen[class] + USUAL, REMEMBERED);
    guesses->rates[class] += ((guesses->ids[guesses->at] == id) - guesses->rates[class]) / n;
}

void guesses_read(Guesses *guesses, const int32_t *ids, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (guesses->n == guesses->room && !make_room(guesses)) return;
        rate(guesses, ids[i]);
        guesses->ids[guesses->n++] = ids[i];
        look_up(guesses);
    }
}

void guesses_part(Guesses *guesses) { guesses_read(guesses, &(int32_t){PARTED}, 1); }

void guesses_learn(Guesses *guesses, int32_t id) {
    guesses->account += 1 + share;
    if (guesses->account > most_credit) guesses->account = most_credit;
    guesses_read(guesses, &id, 1);
}

/*
 * The cost of a pass of 2^size tokens, in passes of one; of a size that was never seen, a quarter more than one of half of it.
 * A size that is not tried looks a little better each time, the sooner the less it was tried: one bad moment must not be for ever.
 */
static double cost_of(const Guesses *guesses, size_t size) {
    unsigned n_timed = at_most(guesses->n_timed[size], STEADY);
    if (n_timed == 0) return 1.25 * guesses->seconds[size - 1] / guesses->seconds[0];
    double hope = 1 + guesses->idle[size] / (double)(PATIENCE * n_timed * n_timed);
    return guesses->seconds[size] / guesses->seconds[0] / hope;
}

/*
 * The number of guesses for which most tokens are expected a second, if that is more than without any. The i-th guess stands on
 * a match that is longer by those before it. The next larger pass is tried only once one of half of it was.
 */
static size_t choose(const Guesses *guesses, size_t most) {
    double expected = 1, holds = 1, best = guesses->account < 0 ? sure : margin;
    size_t chosen = 0;
    if (guesses->n_timed[0] < FIRST) return 0;
    for (size_t size = 1, n = 0; size < N_SIZES && guesses->n_timed[size - 1]; size++) {
        size_t n_fed = (size_t)1 << size;
        if (n_fed - 1 > most) break;
        for (; n < n_fed - 1; n++) {
            holds *= guesses->rates[class_of(guesses->length + n)];
            expected += holds;
        }
        if (expected / cost_of(guesses, size) > best) best = expected / cost_of(guesses, size), chosen = n;
    }
    return chosen;
}

size_t guesses_make(const Guesses *guesses, int32_t *ids, size_t most) {
    if (guesses->length == 0) return 0;
    if (most > MAX_GUESSES) most = MAX_GUESSES;
    if (guesses->speculate == SPECULATE_AUTO) most = choose(guesses, most);
    size_t left = guesses->n - guesses->at, n = 0; /* what follows the match may reach into what is guessed */
    for (; n < most; n++) {
        ids[n] = n < left ? guesses->ids[guesses->at + n] : ids[n - left];
        if (ids[n] == PARTED) break;
    }
    return n;
}

/*
 * Moves about the lower quartile of what was seen, n times now, to the side that x lies on, by a small step: of a busy machine
 * times are too long, if anything. Of the first few it is the least.
 */
static void follow(double *quartile, double x, unsigned n) {
    if (n == 1 || (n <= FIRST && x < *quartile)) *quartile = x;
    if (n <= FIRST) return;
    double step = 1.0 / STEADY, moved = x > *quartile ? *quartile * (1 + step / 3) : *quartile / (1 + step);
    *quartile = (x > *quartile) == (x > moved) ? moved : x;
}

void guesses_time(Guesses *guesses, size_t n, double seconds) {
    size_t size = 0;
    while (((size_t)1 << size) < n) size++;
    if (n != (size_t)1 << size || seconds <= 0 || (size > 0 && guesses->seconds[0] <= 0)) return;
    double expected = size ? cost_of(guesses, size) : 1;
    follow(&guesses->seconds[size], seconds, ++guesses->n_timed[size]);
    double cost = guesses->seconds[size] / guesses->seconds[0];
    guesses->account -= cost < 2 * expected ? cost : 2 * expected;
    for (size_t i = 1; i < N_SIZES; i++) guesses->idle[i] = i == size ? 0 : guesses->idle[i] + 1;
}

double guesses_now(void) {
    struct timespec time = {0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}
