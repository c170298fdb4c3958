#include "vocab/prefixes.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

bool prefixes_add(Prefixes *prefixes, String text, int32_t id) {
    if (prefixes->n == prefixes->capacity) {
        Prefix *items = grow(prefixes->items, sizeof *items, prefixes->n + 1, &prefixes->capacity);
        if (!items) return false;
        prefixes->items = items;
    }
    prefixes->items[prefixes->n++] = (Prefix){.text = text, .id = id, .shorter = -1};
    return true;
}

void prefixes_free(Prefixes *prefixes) {
    free(prefixes->items);
    *prefixes = (Prefixes){0};
}

static int compare_prefixes(const void *a, const void *b) {
    const Prefix *x = a, *y = b;
    int order = string_compare(x->text, y->text);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

static size_t shared_length(String a, String b) {
    size_t n = 0;
    while (n < a.n && n < b.n && a.data[n] == b.data[n]) n++;
    return n;
}

void prefixes_sort(Prefixes *prefixes) {
    Prefix *items = prefixes->items;
    size_t n = prefixes->n;
    if (n) qsort(items, n, sizeof *items, compare_prefixes);
    prefixes->n = 0;
    for (size_t i = 0; i < n;
         i++) { /* any text that this one begins with is the one before, or begins that */
        int32_t last = (int32_t)prefixes->n - 1, shorter = last;
        size_t shared = last < 0 ? 0 : shared_length(items[last].text, items[i].text);
        if (last >= 0 && shared == items[i].text.n) continue;
        while (shorter >= 0 && items[shorter].text.n > shared) shorter = items[shorter].shorter;
        items[prefixes->n] = items[i];
        items[prefixes->n++].shorter = shorter;
        prefixes->from[(unsigned char)*items[i].text.data + 1]++;
    }
    for (int byte = 0; byte < 256; byte++) prefixes->from[byte + 1] += prefixes->from[byte];
}

/*
 * A text of the set that this one begins with sorts before it, and all that sort between the two begin with it as well.
 * So it is the last one before this text, or one that that begins with.
 */
int32_t prefixes_find(const Prefixes *prefixes, const char *text, size_t n) {
    const Prefix *items = prefixes->items;
    unsigned char first = (unsigned char)*text;
    size_t low = prefixes->from[first], high = prefixes->from[first + 1];
    while (low < high) { /* items[low − 1] ≤ text < items[high] */
        size_t middle = low + (high - low) / 2;
        if (string_compare(items[middle].text, (String){text, n}) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    int32_t i = (int32_t)low - 1;
    size_t shared = i < 0 ? 0 : shared_length(items[i].text, (String){text, n});
    while (i >= 0 && items[i].text.n > shared) i = items[i].shorter;
    return i;
}

/* Whether a text of the set that steers, wholly the template's own, begins at text[at]. */
static bool begins_own(const Prefixes *prefixes, const char *text, const char *marks, size_t at, size_t n,
                       const unsigned char *steers) {
    if (marks[at] || !prefixes_begin(prefixes, text[at])) return false;
    int32_t i = prefixes_find(prefixes, text + at, n - at);
    for (; i >= 0; i = prefixes->items[i].shorter)
        if (bit_of(steers, prefixes->items[i].id) && !memchr(marks + at, 1, prefixes->items[i].text.n))
            return true;
    return false;
}

int32_t prefixes_find_own(const Prefixes *prefixes, const char *text, const char *marks, size_t at, size_t n,
                          const unsigned char *steers) {
    int32_t i = prefixes_find(prefixes, text + at, n - at);
    for (; i >= 0; i = prefixes->items[i].shorter) {
        size_t end = at + prefixes->items[i].text.n, next = at;
        if (!memchr(marks + at, 1, end - at)) break;
        if (bit_of(steers, prefixes->items[i].id)) continue;
        while (next < end && !begins_own(prefixes, text, marks, next, n, steers)) next++;
        if (next == end) break;
    }
    return i;
}
