#include "unicode/charset.h"

#include "base/text.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

bool charset_add(CharSet *set, uint32_t first, uint32_t last) {
    if (set->n > 2 * set->n_sorted + 4096)
        charset_sort(set); /* a class may name the same characters many times */
    if (set->n == set->capacity) {
        CharRange *ranges = grow(set->ranges, sizeof *ranges, set->n + 1, &set->capacity);
        if (!ranges) return false;
        set->ranges = ranges;
    }
    set->ranges[set->n++] = (CharRange){first, last};
    return true;
}

bool charset_add_property(CharSet *set, Property property) {
    uint32_t first, last;
    for (size_t at = 0; property_next(property, &at, &first, &last);)
        if (!charset_add(set, first, last)) return false;
    return true;
}

bool charset_add_set(CharSet *set, const CharSet *other) {
    for (size_t i = 0; i < other->n; i++)
        if (!charset_add(set, other->ranges[i].first, other->ranges[i].last)) return false;
    return true;
}

static int compare_ranges(const void *a, const void *b) {
    const CharRange *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

void charset_sort(CharSet *set) {
    CharRange *ranges = set->ranges;
    size_t n = 0;
    if (set->n) qsort(ranges, set->n, sizeof *ranges, compare_ranges);
    for (size_t i = 0; i < set->n; i++)
        if (n && ranges[i].first <= ranges[n - 1].last + 1)
            ranges[n - 1].last = ranges[i].last > ranges[n - 1].last ? ranges[i].last : ranges[n - 1].last;
        else
            ranges[n++] = ranges[i];
    set->n = set->n_sorted = n;
}

bool charset_invert(CharSet *set) {
    CharSet inverse = {0};
    uint32_t next = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < set->n; i++) {
        if (set->ranges[i].first > next) ok = charset_add(&inverse, next, set->ranges[i].first - 1);
        next = set->ranges[i].last + 1;
    }
    if (ok && next <= UTF8_INVALID) ok = charset_add(&inverse, next, UTF8_INVALID);
    free(set->ranges);
    *set = inverse;
    return ok;
}

bool charset_intersect(CharSet *set, const CharSet *other) {
    CharSet both = {0};
    bool ok = true;
    for (size_t i = 0, k = 0; ok && i < set->n && k < other->n;) {
        CharRange a = set->ranges[i], b = other->ranges[k];
        uint32_t first = a.first > b.first ? a.first : b.first, last = a.last < b.last ? a.last : b.last;
        if (first <= last) ok = charset_add(&both, first, last);
        i += a.last <= b.last;
        k += b.last <= a.last;
    }
    free(set->ranges);
    *set = both;
    return ok;
}

bool charset_equal(const CharSet *a, const CharSet *b) {
    return a->n == b->n && (a->n == 0 || memcmp(a->ranges, b->ranges, a->n * sizeof *a->ranges) == 0);
}
