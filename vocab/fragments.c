#include "vocab/fragments.h"

#include "vocab/spelling.h"

#include <stdlib.h>

/* One call of fragments_cut. */
typedef struct FragmentsRun {
    const Vocab *vocab;
    const Uncut *uncut;
    const PieceTaker *taker;
    Error *error;
    uint16_t *states; /* [n_patterns][bytes of the text] scratch */
} FragmentsRun;

static bool out_of_memory(const FragmentsRun *run, size_t n) {
    return error_set(run->error, "not enough memory to tokenize %zu bytes", n);
}

/* Gives text[0, n) after the vocabulary's patterns from that level on have cut it. */
static bool cut_words(const FragmentsRun *run, const char *text, size_t n, size_t level) {
    const Vocab *vocab = run->vocab;
    if (level == vocab->n_patterns) return run->taker->piece(run->taker->context, text, n);
    Matches matches =
        pattern_begin(vocab->patterns[level], text, n, run->states + level * run->uncut->text.n);
    for (size_t done = 0, start = 0, end = 0; done < n; done = end) {
        if (!pattern_next(&matches, &start, &end)) start = end = n;
        if (start > done && !cut_words(run, text + done, start - done, level + 1)) return false;
        if (end > start && !cut_words(run, text + start, end - start, level + 1)) return false;
    }
    return true;
}

/*
 * SentencePiece writes every space as ▁. So it takes a ▁ in the text for a space and cannot give it back.
 * Here every ▁ becomes a space, in the vocabulary and in the text. `first` and `last`: what the text's ends are.
 */
static bool give_sentence(const FragmentsRun *run, const char *text, size_t n, bool first, bool last) {
    bool add_space = run->vocab->add_space, squeezes = run->vocab->squeezes_spaces;
    bool after_space = first || add_space;
    char *spaced = malloc(n + 1), *begin = spaced + add_space, *end = begin;
    if (!spaced) return out_of_memory(run, n);
    if (add_space) *spaced = ' ';
    for (size_t i = 0; squeezes && i < n; i++) {
        if (text[i] != ' ' || !after_space) *end++ = text[i];
        after_space = text[i] == ' ';
    }
    if (squeezes) text = begin, n = (size_t)(end - begin);
    end = begin + unspell_spaces((String){text, n}, begin);
    while (squeezes && last && end > spaced && end[-1] == ' ') end--;
    bool ok = end == spaced || run->taker->piece(run->taker->context, spaced, (size_t)(end - spaced));
    free(spaced);
    return ok;
}

/* Text between special tokens. As in llama.cpp, each such fragment is a sentence with a space in front. */
static bool give_fragment(const FragmentsRun *run, size_t start, size_t end) {
    String text = run->uncut->text;
    if (start == end) return true;
    return run->vocab->byte_level
               ? cut_words(run, text.data + start, end - start, 0)
               : give_sentence(run, text.data + start, end - start, start == 0, end == text.n);
}

/* The special token that begins at the text's byte i and may stand there, or NULL. */
static const Prefix *special_at(const FragmentsRun *run, size_t i) {
    const Vocab *vocab = run->vocab;
    const Uncut *uncut = run->uncut;
    String text = uncut->text;
    if (!uncut->marks) return vocab_find_special(vocab, text.data + i, text.n - i, uncut->special);
    int32_t found = prefixes_find_own(&vocab->specials, text.data, uncut->marks, i, text.n, uncut->steers);
    return found < 0 ? NULL : &vocab->specials.items[found];
}

static bool cut_all(const FragmentsRun *run) {
    String text = run->uncut->text;
    unsigned char wanted = run->uncut->special ? BEGINS_SPECIAL : BEGINS_DEFINED;
    size_t start = 0; /* of the fragment */
    for (size_t i = 0; i < text.n;) {
        const Prefix *special = NULL;
        if (run->vocab->begins[(unsigned char)text.data[i]] & wanted) special = special_at(run, i);
        if (!special) {
            i++;
            continue;
        }
        if (!give_fragment(run, start, i) || !run->taker->token(run->taker->context, special->id))
            return false;
        i += special->text.n;
        while (special->takes_space && i < text.n && is_ascii_space(text.data[i])) i++;
        start = i;
    }
    return give_fragment(run, start, text.n);
}

bool fragments_cut(const Vocab *vocab, const Uncut *uncut, const PieceTaker *taker, Error *error) {
    FragmentsRun run = {.vocab = vocab, .uncut = uncut, .taker = taker, .error = error};
    size_t n = uncut->text.n;
    if (n < SIZE_MAX / 2 / MAX_PATTERNS) run.states = malloc(vocab->n_patterns * n * sizeof *run.states + 1);
    if (!run.states) return out_of_memory(&run, n);
    bool ok = cut_all(&run);
    free(run.states);
    return ok;
}
