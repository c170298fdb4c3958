#include "vocab/control_tokens.h"

#include "base/utf8.h"
#include "vocab/pipeline.h"

#include <stdlib.h>
#include <string.h>

/* Whether a token looks like markup, not like text: <…>, [INST]; white space around it does not count. */
static bool is_markup(String text) {
    while (text.n > 0 && is_ascii_space(text.data[0])) text.data++, text.n--;
    while (text.n > 0 && is_ascii_space(text.data[text.n - 1])) text.n--;
    char first = text.n > 2 ? text.data[0] : 0, last = text.n > 2 ? text.data[text.n - 1] : 0;
    return (first == '<' && last == '>') || (first == '[' && last == ']');
}

/* Whether a token says anything by being one: neither a single character nor white space. */
static bool is_word(String text) {
    size_t i = 0;
    while (i < text.n && is_ascii_space(text.data[i])) i++;
    return i < text.n && utf8_length(text.data, text.n) < text.n;
}

static void set_bit(unsigned char *bits, int32_t id) { bits[id / 8] |= (unsigned char)(1u << id % 8); }

/* Sets the bits of those texts of a set that the template has written itself; `added`: what their ids count, or NULL. */
static void find_written(const Prefixes *texts, const AddedToken *added, const char *text, size_t n,
                         const char *marks, unsigned char *steers) {
    const char *own;
    for (size_t i = 0; texts->n && i < n && (own = memchr(marks + i, 0, n - i)) != NULL; i++) {
        i = (size_t)(own - marks);
        if (!prefixes_begin(texts, text[i])) continue;
        int32_t at = prefixes_find(texts, text + i, n - i);
        while (at >= 0 && memchr(marks + i, 1, texts->items[at].text.n)) at = texts->items[at].shorter;
        if (at < 0) continue;
        int32_t id = texts->items[at].id;
        if (is_word(texts->items[at].text)) set_bit(steers, added ? added[id].id : id);
        i += texts->items[at].text.n - 1;
    }
}

unsigned char *control_tokens(const Vocab *vocab, const char *text, size_t n, const char *marks) {
    const Pipeline *pipeline = vocab->pipeline;
    unsigned char *steers = calloc(vocab->n / 8 + 1, 1);
    if (!steers) return NULL;
    for (size_t i = 0; i < vocab->n; i++) {
        TokenType type = vocab->types[i];
        if (type == TOKEN_CONTROL || type == TOKEN_UNKNOWN ||
            (type == TOKEN_USER_DEFINED && is_markup(vocab_text(vocab, (int32_t)i))))
            set_bit(steers, (int32_t)i);
    }
    const AddedToken *added = pipeline ? pipeline->added : NULL;
    find_written(pipeline ? &pipeline->as_is : &vocab->specials, added, text, n, marks, steers);
    if (pipeline) find_written(&pipeline->normalized, added, text, n, marks, steers);
    return steers;
}
