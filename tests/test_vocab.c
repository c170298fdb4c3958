/*
 * Vocabularies as a file describes them: what must be refused, and what their oddities mean. The files are written by the
 * tests.
 */
#include "tokenizers.h"

static void check_encoded(const Tokenizer *tokenizer, const char *text, unsigned flags,
                          const char *expected) {
    char *end;
    Tokens ids = parse_ids(expected, &end), got = encode(tokenizer, text, strlen(text), flags);
    check_ids(got, ids, text);
    tokens_free(&ids);
    tokens_free(&got);
}

static void test_refuses_models(void) {
    Writer writer = begin_file();
    check_refused(&writer, "tokenizer.ggml.model is missing");
    writer = begin_file();
    add_string(&writer, "model", "bert");
    check_refused(&writer, "'bert' is not supported");
    writer = begin_file();
    add_u32(&writer, "model", 1);
    check_refused(&writer, "tokenizer.ggml.model");
    writer = begin_gpt2("a|b", "a b");
    add_string(&writer, "pre", "qwen3000");
    check_refused(&writer, "'qwen3000' is not supported");
    writer = begin_gpt2("a|b", "a b");
    add_u32(&writer, "pre", 1);
    check_refused(&writer, "tokenizer.ggml.pre' is of type uint32, expected string");
}

static void test_refuses_tokens(void) {
    static const int32_t types[] = {1, 1, 7};
    Writer writer = begin_file();
    add_string(&writer, "model", "gpt2");
    check_refused(&writer, "tokenizer.ggml.tokens");
    writer = begin_gpt2(NULL, NULL);
    check_refused(&writer, "tokenizer.ggml.tokens");
    writer = begin_file();
    add_string(&writer, "model", "gpt2");
    add_numbers(&writer, "tokens", I32, types, 3);
    check_refused(&writer, "tokenizer.ggml.tokens");
    for (size_t n = 2; n <= 3; n++) { /* too few, then one that is no type */
        writer = begin_gpt2("a|b|ab", "a b");
        add_numbers(&writer, "token_type", I32, types, n);
        check_refused(&writer, "tokenizer.ggml.token_type");
    }
    writer = begin_gpt2("a|b|ab", "a b");
    add_numbers(&writer, "token_type", F32, types, 3);
    check_refused(&writer, "tokenizer.ggml.token_type");
}

static void test_refuses_merges(void) {
    static const char *const merges[] = {"",      "a",   " ",   "a ",  " b",   "a  b", "ab",
                                         "a b c", "a c", "c a", "b a", "a b|", "ab b", "a b|b a"};
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++) {
        Writer writer = begin_gpt2("a|b|ab", merges[i]);
        check_refused(&writer, "tokenizer.ggml.merges");
    }
    Writer writer = begin_file();
    add_string(&writer, "model", "gpt2");
    add_strings(&writer, "tokens", "a|b");
    check_refused(&writer, "tokenizer.ggml.merges is missing");
}

static void test_refuses_scores(void) {
    static const float scores[] = {0, 0, 0, NAN};
    Writer writer = begin_file();
    add_string(&writer, "model", "llama");
    add_strings(&writer, "tokens", "a|b|c|d");
    check_refused(&writer, "tokenizer.ggml.scores is missing");
    for (size_t n = 3; n <= 4; n++) { /* too few, then one that is no number */
        writer = begin_llama("a|b|c|d", scores, n);
        check_refused(&writer, "tokenizer.ggml.scores");
    }
    static const int32_t byte_type[] = {6};
    writer = begin_llama("<0xG0>", scores, 1);
    add_numbers(&writer, "token_type", I32, byte_type, 1);
    check_refused(&writer, "'<0xG0>'");
}

static void test_refuses_ids(void) {
    static const char *const keys[] = {"bos_token_id", "eos_token_id", "eot_token_id", "unknown_token_id",
                                       "eom_token_id"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        Writer writer = begin_gpt2("a|b|ab", "a b");
        add_u32(&writer, keys[i], i % 2 ? 3 : UINT32_MAX);
        check_refused(&writer, keys[i]);
        writer = begin_gpt2("a|b|ab", "a b");
        add_string(&writer, keys[i], "0");
        check_refused(&writer, keys[i]);
    }
    Writer writer = begin_gpt2("a|b|ab", "a b");
    add_bool(&writer, "add_bos_token", true);
    check_refused(&writer, "tokenizer.ggml.bos_token_id is missing");
    writer = begin_gpt2("a|b|ab", "a b");
    add_bool(&writer, "add_eos_token", true);
    check_refused(&writer, "tokenizer.ggml.eos_token_id is missing");
    static const char *const switches[] = {"add_bos_token", "add_eos_token", "add_space_prefix"};
    for (size_t i = 0; i < 3; i++) {
        writer = begin_gpt2("a|b|ab", "a b");
        add_string(&writer, switches[i], "true");
        check_refused(&writer, switches[i]);
    }
}

/* SentencePiece's vocabulary has no <s> where its ids are missing and token 1 is: no BOS is put in front. */
static void test_no_bos(void) {
    static const float scores[] = {0};
    Writer writer = begin_llama("a", scores, 1);
    Opened opened = open_written(&writer);
    if (!opened.tokenizer) return;
    CHECK(tokenizer_bos(opened.tokenizer) == -1 && tokenizer_eos(opened.tokenizer) == -1, "no such tokens");
    CHECK(!tokenizer_adds_bos(opened.tokenizer), "nothing to add");
    close_tokenizer(opened);

    /* A file that gives the ends of a turn and of a text. */
    writer = begin_gpt2("a|b|c", NULL);
    add_u32(&writer, "eot_token_id", 1);
    add_u32(&writer, "eos_token_id", 2);
    add_bool(&writer, "add_space_prefix", true);
    opened = open_written(&writer);
    if (!opened.tokenizer) return;
    for (int32_t id = 0; id < 3; id++)
        CHECK(tokenizer_is_end(opened.tokenizer, id) == (id > 0), "token %d", id);
    check_encoded(opened.tokenizer, "ab", ENCODE_ENDS, "0 1"); /* bytes get no space in front */
    close_tokenizer(opened);
}

/* Tokens without text are no text: neither found, nor special, nor shown. */
static void test_empty_tokens(void) {
    static const int32_t types[] = {1, 3, 4, 1, 3};
    Writer writer = begin_gpt2("|||a|<x>", NULL);
    add_numbers(&writer, "token_type", I32, types, 5);
    Opened opened = open_written(&writer);
    if (!opened.tokenizer) return;
    check_encoded(opened.tokenizer, "a<x>a", ENCODE_SPECIAL, "3 4 3");
    for (int32_t id = 0; id < 3; id++) check_piece(opened.tokenizer, id, true, "");
    close_tokenizer(opened);
}

/* Llama 3 takes a whole word before it merges; a control token of the same name is not that word. */
static void test_whole_words(void) {
    for (int32_t type = 1; type <= 3; type += 2) {
        const int32_t types[] = {1, 1, type};
        Writer writer = begin_gpt2("a|b|ab", NULL);
        add_string(&writer, "pre", "llama-bpe");
        add_numbers(&writer, "token_type", I32, types, 3);
        Opened opened = open_written(&writer);
        if (!opened.tokenizer) return;
        check_encoded(opened.tokenizer, "ab", 0, type == 1 ? "2" : "0 1");
        close_tokenizer(opened);
    }
}

/* A vocabulary without some bytes: text that needs one gives no tokens, but an error that names the byte. */
static void test_missing_bytes(void) {
    Error error = {{0}};
    Tokens tokens = {0};
    Writer writer = begin_gpt2("a|b|ab", "a b");
    add_u32(&writer, "eos_token_id", 1);
    add_bool(&writer, "add_eos_token", true);
    Opened opened = open_written(&writer);
    if (!opened.tokenizer) return;
    CHECK(tokenizer_encode(opened.tokenizer, "aab", 3, ENCODE_ENDS, &tokens, &error), "%s", error.message);
    CHECK(tokens.n == 3 && tokens.ids[0] == 0 && tokens.ids[1] == 2 && tokens.ids[2] == 1, "a, ab, EOS");
    CHECK(!tokenizer_encode(opened.tokenizer, "ab.c", 4, 0, &tokens, &error), "no token for '.'");
    CHECK(strstr(error.message, "0x2e") && tokens.n == 3, "%s", error.message);
    tokens_free(&tokens);
    close_tokenizer(opened);

    /* SentencePiece has a token for what is unknown, by default the first. Without types, names mark bytes. */
    static const float scores[] = {0, 0, 0, 0, 0, -1};
    writer = begin_llama("?|<0x61>|_|a|<0xC3>|_a", scores, 6);
    opened = open_written(&writer);
    if (!opened.tokenizer) return;
    /* The space in front and é are unknown. */
    check_encoded(opened.tokenizer, "_aa\xc3\xc3\xa9", 0, "0 5 3 4 0");
    close_tokenizer(opened);
}

/* GPT-2 spells a soft hyphen U+0143, so U+00AD stands for itself, with all of its word. */
static void test_soft_hyphen(void) {
    Writer writer = begin_gpt2("\xc2\xad|\xc4\xa0\xc2\xad|\xc5\x83", NULL);
    Opened opened = open_written(&writer);
    if (!opened.tokenizer) return;
    check_piece(opened.tokenizer, 0, false, "\xc2\xad");
    check_piece(opened.tokenizer, 1, false, "\xc4\xa0\xc2\xad");
    check_piece(opened.tokenizer, 2, false, "\xad");
    close_tokenizer(opened);
}

/* How GPT-2 spells a byte, as UTF-8: its table written out (encoder.py, bytes_to_unicode). */
static size_t spell_byte(unsigned byte, char *out) {
    unsigned n_before = 0; /* lower bytes that are not spelt as themselves */
    bool is_itself = false;
    for (unsigned b = 0; b <= byte; b++) {
        is_itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b < byte) n_before += !is_itself;
    }
    unsigned c = is_itself ? byte : 256 + n_before;
    if (c < 0x80) {
        *out = (char)c;
        return 1;
    }
    out[0] = (char)(0xc0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3f));
    return 2;
}

/* Tokens of every length and of all bytes, mostly letters. What is not such a spelling stands for itself. */
static void test_spelling(void) {
    enum { N = 2000, LONGEST = 20 };
    static const char *const strangers[] = {
        "visible then\xc5\x84", "eight by\xc4\xa0", "eight\177by\xc4\xa0", "eight\377by\xc4\xa0", "\xc4",
        "\xe2\x96\x81tower"};
    enum { N_STRANGERS = sizeof strangers / sizeof *strangers };
    char(*texts)[LONGEST] = malloc(N * sizeof *texts);
    char *spelt = malloc(N * (2 * LONGEST + 1) + 200), *at = spelt;
    size_t *lengths = malloc(N * sizeof *lengths);
    uint64_t state = 4;
    for (size_t i = 0; i < N; i++) {
        lengths[i] = 1 + next_random(&state) % LONGEST;
        for (size_t k = 0; k < lengths[i]; k++) {
            unsigned byte = next_random(&state) % 256;
            if (i % 4 && byte % 8) byte = (unsigned char)"etaoinsh"[byte % 8];
            if (byte == '|') byte = ' '; /* separates the tokens in add_strings */
            texts[i][k] = (char)byte;
            at += spell_byte(byte, at);
        }
        *at++ = '|';
    }
    for (size_t i = 0; i < N_STRANGERS; i++) at += sprintf(at, "%s%s", i ? "|" : "", strangers[i]);
    Writer writer = begin_gpt2(spelt, NULL);
    Opened opened = open_written(&writer);
    for (size_t i = 0; opened.tokenizer && i < N; i++) {
        String piece = tokenizer_piece(opened.tokenizer, (int32_t)i, false);
        CHECK(piece.n == lengths[i] && memcmp(piece.data, texts[i], piece.n) == 0, "token %zu", i);
    }
    for (int i = 0; opened.tokenizer && i < N_STRANGERS; i++)
        check_piece(opened.tokenizer, N + i, false, strangers[i]);
    close_tokenizer(opened);
    free(lengths);
    free(spelt);
    free(texts);
}

/*
 * Merges whose results are not neighbouring tokens, and a text that two tokens have: the first of them
 * counts, even if the second comes right after the previous result.
 */
static void test_merge_order(void) {
    Writer writer = begin_gpt2("a|b|c|abc|ab|abc|ca", "a b|ab c|c a");
    Opened opened = open_written(&writer);
    if (!opened.tokenizer) return;
    check_encoded(opened.tokenizer, "aba", 0, "4 0");
    check_encoded(opened.tokenizer, "abcca", 0, "3 6");
    close_tokenizer(opened);
}

/* "abc" with scores for ab and bc: the higher one merges, the left one if they are equal. */
static void check_scores(float ab, float bc, bool left_first) {
    const float scores[] = {0, 0, 0, ab, bc};
    Writer writer = begin_llama("a|b|c|ab|bc", scores, 5);
    add_bool(&writer, "add_space_prefix", false);
    Opened opened = open_written(&writer);
    if (!opened.tokenizer) return;
    Tokens tokens = encode(opened.tokenizer, "abc", 3, 0);
    CHECK(tokens.n == 2 && tokens.ids[0] == (left_first ? 3 : 0), "scores %g and %g", (double)ab, (double)bc);
    tokens_free(&tokens);
    close_tokenizer(opened);
}

static void test_scores(void) {
    check_scores(1, 2, false);
    check_scores(2, 1, true);
    check_scores(-1, -2, true);
    check_scores(-2, -1, false);
    check_scores(-1, 1e-30f, false);
    check_scores(3, INFINITY, false);
    check_scores(-INFINITY, -1e30f, false);
    check_scores(-7, -7, true);
    check_scores(0.0f, -0.0f, true);
    check_scores(-0.0f, 0.0f, true);
}

static uint64_t mix(uint64_t x) {
    x *= 0x9e3779b97f4a7c15u;
    return x ^ x >> 32;
}

enum { MAX_PROBES = 256 }; /* of vocab/vocab.c, whose hash functions these are */

/* Whether a hash has the first place in a table of up to 300 entries. */
static bool is_first(uint64_t hash) { return hash >> 32 < UINT32_MAX / 600; }

/* Writes `n` texts of two characters of four bytes, all with the first place, '|' between them. */
static void write_colliding(char *at, size_t n) {
    for (uint32_t c = 0; n > 0; c++) {
        char bytes[8] = "\xf0\x9f....";
        uint64_t word;
        memcpy(bytes + 4, "\xf0\x9f", 2);
        for (int i = 0; i < 4; i++) bytes[i < 2 ? 2 + i : 4 + i] = (char)(0x80 | (c >> 6 * i & 63));
        memcpy(&word, bytes, 8);
        if (!is_first(mix(mix(8 ^ word)))) continue;
        memcpy(at, bytes, 8);
        at[8] = --n ? '|' : '\0';
        at += 9;
    }
}

static Writer begin_colliding(const char *texts, size_t n) {
    static const float scores[MAX_PROBES + 1];
    static char tokens[(MAX_PROBES + 2) * 9];
    memcpy(tokens, texts, 9 * n);
    tokens[9 * n - 1] = '\0';
    Writer writer = begin_llama(tokens, scores, n);
    return writer;
}

/* As many texts of one place as are looked at are found, and what would be one more is not; with it, the file is refused. */
static void test_colliding_texts(void) {
    static char texts[(MAX_PROBES + 1) * 9];
    write_colliding(texts, MAX_PROBES + 1);
    Writer writer = begin_colliding(texts, MAX_PROBES);
    add_bool(&writer, "add_space_prefix", false);
    Opened opened = open_written(&writer);
    for (int32_t id = 0; opened.tokenizer && id <= MAX_PROBES; id++) {
        Tokens tokens = encode(opened.tokenizer, texts + 9 * id, 8, 0);
        if (id < MAX_PROBES)
            CHECK(tokens.n == 1 && tokens.ids[0] == id, "token %d", id);
        else
            CHECK(tokens.n == 1 && tokens.ids[0] == 0, "two unknown characters, which are one token");
        tokens_free(&tokens);
    }
    close_tokenizer(opened);
    writer = begin_colliding(texts, MAX_PROBES + 1);
    check_refused(&writer, "tokenizer.ggml.tokens: too many texts share a hash value");
}

/* Header and tables of several hundred kilobytes lie in huge pages. */
static void test_many_tokens(void) {
    enum { N = 60000 };
    char *tokens = malloc(N * 5), *at = tokens;
    for (int i = 0; i < N; i++, at += 5) {
        for (int k = 0, rest = i; k < 4; k++, rest /= 26) at[k] = (char)('a' + rest % 26);
        at[4] = '|';
    }
    at[-1] = '\0';
    Writer writer = begin_gpt2(tokens, NULL);
    add_string(&writer, "pre", "llama-bpe");
    Opened opened = open_written(&writer);
    for (int i = 0; opened.tokenizer && !test_broken && i < N; i++) {
        Tokens got = encode(opened.tokenizer, tokens + (ptrdiff_t)5 * i, 4, 0);
        CHECK(got.n == 1 && got.ids[0] == i, "token %d", i);
        tokens_free(&got);
    }
    close_tokenizer(opened);
    free(tokens);
}

/* A merge whose part is no token is never met: the part would have to be made first, or is a byte that has no token. */
static void test_unmet_merges(void) {
    Error error = {{0}};
    Writer writer = begin_gpt2("a|b|ab|az|abzz", "a z|a b|ab zz");
    Opened opened = open_written(&writer);
    if (!opened.tokenizer) return;
    Tokens tokens = {0};
    check_encoded(opened.tokenizer, "aba", 0, "2 0");
    CHECK(!tokenizer_encode(opened.tokenizer, "abzz", 4, 0, &tokens, &error), "no token for 'z'");
    CHECK(strstr(error.message, "0x7a"), "%s", error.message);
    tokens_free(&tokens);
    close_tokenizer(opened);
}

/* The first line that merges these two texts, from 1; 0: none does. */
static size_t merge_order(char (*merges)[8], size_t n, const char *left, size_t n_left, const char *right,
                          size_t n_right) {
    for (size_t i = 0; i < n; i++)
        if (strlen(merges[i]) == n_left + 1 + n_right && strncmp(merges[i], left, n_left) == 0 &&
            merges[i][n_left] == ' ' && strncmp(merges[i] + n_left + 1, right, n_right) == 0)
            return i + 1;
    return 0;
}

/* Merges text[0, n), by the definition: again and again the pair whose line comes first, of equals the leftmost. */
static size_t merge_plainly(char (*merges)[8], size_t n_merges, const char *text, size_t n, size_t *lengths) {
    for (size_t i = 0; i < n; i++) lengths[i] = 1;
    for (;;) {
        size_t best = 0, at = 0, start = 0;
        for (size_t i = 0; i + 1 < n; start += lengths[i++]) {
            const char *left = text + start;
            size_t order = merge_order(merges, n_merges, left, lengths[i], left + lengths[i], lengths[i + 1]);
            if (order && (!best || order < best)) best = order, at = i;
        }
        if (!best) return n;
        lengths[at] += lengths[at + 1];
        n--;
        memmove(lengths + at + 1, lengths + at + 2, (n - at - 1) * sizeof *lengths);
    }
}

/* Tokens of up to 6 letters, made in several ways, in any order, some of them listed again. */
static void test_merges_at_random(void) {
    enum { N_TOKENS = 2 + 4 + 8 + 16 + 32 + 64, N_MERGES = 150, N_TEXT = 40 };
    char texts[N_TOKENS][8], merges[N_MERGES][8], tokens[N_TOKENS * 8] = "", lines[N_MERGES * 8] = "";
    uint64_t state = 6;
    for (int round = 0; round < 40 && !test_broken; round++) {
        size_t n = 0;
        *tokens = *lines = '\0';
        for (size_t length = 1; length <= 6; length++)
            for (unsigned bits = 0; bits < 1u << length; bits++, n++) {
                for (size_t i = 0; i < length; i++) texts[n][i] = "ab"[bits >> i & 1];
                texts[n][length] = '\0';
            }
        for (size_t i = n - 1; i > 0; i--) { /* shuffles */
            char swap[8];
            size_t j = next_random(&state) % (i + 1);
            memcpy(swap, texts[i], 8), memcpy(texts[i], texts[j], 8), memcpy(texts[j], swap, 8);
        }
        for (size_t i = 0; i < n; i++) strcat(strcat(tokens, i ? "|" : ""), texts[i]);
        for (size_t i = 0; i < N_MERGES; i++) {
            const char *token = texts[next_random(&state) % n];
            while (strlen(token) < 2) token = texts[next_random(&state) % n];
            size_t left = 1 + next_random(&state) % (strlen(token) - 1);
            snprintf(merges[i], 8, "%.*s %s", (int)left, token, token + left);
            strcat(strcat(lines, i ? "|" : ""), merges[i]);
        }
        Writer writer = begin_gpt2(tokens, lines);
        Opened opened = open_written(&writer);
        for (int i = 0; opened.tokenizer && i < 20; i++) {
            char text[N_TEXT + 1] = {0};
            size_t lengths[N_TEXT], n_text = 1 + next_random(&state) % N_TEXT, at = 0;
            for (size_t k = 0; k < n_text; k++) text[k] = "ab"[next_random(&state) % 2];
            size_t n_expected = merge_plainly(merges, N_MERGES, text, n_text, lengths);
            Tokens got = encode(opened.tokenizer, text, n_text, 0);
            CHECK(got.n == n_expected, "'%s': %zu tokens, expected %zu", text, got.n, n_expected);
            for (size_t k = 0; k < got.n && !test_broken; at += lengths[k++])
                CHECK(strlen(texts[got.ids[k]]) == lengths[k] &&
                          strncmp(texts[got.ids[k]], text + at, lengths[k]) == 0,
                      "'%s': token %zu is '%s'", text, k, texts[got.ids[k]]);
            tokens_free(&got);
        }
        close_tokenizer(opened);
    }
}

/* Special tokens that begin alike, against the definition: leftmost, and there the longest. */
static void test_specials(void) {
    static const char *const texts[] = {"a",   "b",  "c",   "ab",   "aba", "abab", "ababa",
                                        "bba", "bb", "aab", "aabb", "abb", "bb"};
    static const int32_t types[] = {1, 1, 1, 3, 4, 3, 3, 3, 4, 4, 3, 3, 3};
    Writer writer = begin_gpt2("a|b|c|ab|aba|abab|ababa|bba|bb|aab|aabb|abb|bb", NULL);
    add_numbers(&writer, "token_type", I32, types, 13);
    Opened opened = open_written(&writer);
    uint64_t state = 2;
    for (int i = 0; opened.tokenizer && !test_broken && i < 2000; i++) {
        char text[24] = {0};
        size_t n = next_random(&state) % sizeof text;
        for (size_t k = 0; k < n; k++) text[k] = "abc"[next_random(&state) % 3];
        unsigned flags = i % 2 ? ENCODE_SPECIAL : 0;
        Tokens expected = {0};
        for (size_t at = 0, length; at < n; at += length) {
            int32_t best = text[at] - 'a';
            length = 1;
            for (int32_t id = 3; id < 13; id++)
                if ((flags || types[id] == 4) && strlen(texts[id]) > length && strlen(texts[id]) <= n - at &&
                    strncmp(text + at, texts[id], strlen(texts[id])) == 0)
                    best = id, length = strlen(texts[id]);
            tokens_push(&expected, best, NULL);
        }
        Tokens got = encode(opened.tokenizer, text, n, flags);
        check_ids(got, expected, text);
        tokens_free(&got);
        tokens_free(&expected);
    }
    close_tokenizer(opened);
}

/* Falcon's three patterns, each on the pieces of the one before: what they cut never merges. */
static void test_several_patterns(void) {
    Writer writer = begin_gpt2("a|1|2|3|4|.|a1|12|123|34|4.|.a|aa|\xc4\xa0|\xc4\xa0"
                               "a",
                               "a 1|1 2|12 3|3 4|4 .|. a|a a|\xc4\xa0 a");
    add_string(&writer, "pre", "falcon");
    Opened opened = open_written(&writer);
    if (!opened.tokenizer) return;
    CHECK(strcmp(tokenizer_kind(opened.tokenizer), "byte-level BPE (falcon)") == 0, "kind");
    check_encoded(opened.tokenizer, "a1234.aa a", 0, "0 8 4 5 12 14");
    check_encoded(opened.tokenizer, "3434", 0, "9 3 4");
    close_tokenizer(opened);
}

/* Merges by characters: a space is a blank, what has no token is written by bytes, and the rest of a text never splits. */
static void test_gemma4(void) {
    Writer writer = begin_file();
    add_string(&writer, "model", "gemma4");
    add_strings(&writer, "tokens",
                "<0xC3>|<0xA9>|a|\xe2\x96\x81|\xe2\x96\x81"
                "a|\n|\n\n|\xe5\xb7\x9d|\xe5\xb7\x9d"
                "a|<x>|a\xe2\x96\x81");
    add_strings(&writer, "merges", "\xe2\x96\x81 a|\n \n|\xe5\xb7\x9d a");
    const int32_t types[] = {6, 6, 1, 1, 1, 1, 1, 1, 1, 3, 1};
    add_numbers(&writer, "token_type", I32, types, 11);
    add_u32(&writer, "bos_token_id", 9);
    Opened opened = open_written(&writer);
    if (!opened.tokenizer) return;
    check_encoded(opened.tokenizer,
                  " a\n\n\xc3\xa9\xe5\xb7\x9d"
                  "a a",
                  ENCODE_ENDS, "9 4 6 0 1 8 4");
    check_encoded(opened.tokenizer,
                  "a\xe2\x96\x81"
                  "a",
                  0, "2 4");
    check_piece(opened.tokenizer, 4, false, " a");
    close_tokenizer(opened);
}

/* Phi-3's special tokens take the white space behind them, but for three; those of other families never do. */
static void test_taken_spaces(void) {
    static const float scores[] = {0, 0, 0, 0, 0};
    static const int32_t types[] = {2, 3, 3, 1, 1};
    for (int is_phi3 = 0; is_phi3 < 2; is_phi3++) {
        Writer writer = begin_file();
        put_name(&writer, "general.architecture", STRING);
        put_string(&writer, is_phi3 ? "phi3" : "llama");
        add_string(&writer, "model", "llama");
        add_strings(&writer, "tokens", "<unk>|<s>|<end>|a|\xe2\x96\x81");
        add_numbers(&writer, "scores", F32, scores, 5);
        add_numbers(&writer, "token_type", I32, types, 5);
        add_bool(&writer, "add_space_prefix", false);
        Opened opened = open_written(&writer);
        if (!opened.tokenizer) return;
        check_encoded(opened.tokenizer, "<end> \n a <s> a<end> ", ENCODE_SPECIAL,
                      is_phi3 ? "2 3 4 1 4 3 2" : "2 4 0 4 3 4 1 4 3 2 4");
        close_tokenizer(opened);
    }
}

/* DEL is spelt otherwise, so a user's token of that name is no byte; text has it all the same. */
static void test_delete(void) {
    const int32_t types[] = {1, 4, 1};
    Writer writer = begin_gpt2("a|\x7f|\xc4\xa1", NULL);
    add_numbers(&writer, "token_type", I32, types, 3);
    Opened opened = open_written(&writer);
    if (!opened.tokenizer) return;
    check_encoded(opened.tokenizer, "a\x7f", 0, "0 1");
    check_piece(opened.tokenizer, 1, true, "\x7f");
    check_piece(opened.tokenizer, 2, false, "\x7f");
    close_tokenizer(opened);
}

/* A token with a character that spells no byte is not what bytes merge to, whichever comes first. */
static void test_unspelt(void) {
    Writer writer = begin_gpt2(
        "\xc3\xb0\xe2\x80\x8d|\xe2\x80\x8d|\xc3\xa2|\xc4\xa2|\xc4\xaf|\xc3\xa2\xc4\xa2\xc4\xaf|\xc3\xa2\xc4\xa2",
        "\xc3\xa2 \xc4\xa2|\xc3\xa2\xc4\xa2 \xc4\xaf");
    Opened opened = open_written(&writer);
    if (!opened.tokenizer) return;
    check_encoded(opened.tokenizer, "\xe2\x80\x8d", 0, "5");
    check_piece(opened.tokenizer, 1, false, "\xe2\x80\x8d");
    close_tokenizer(opened);
}

/* Of the ends that a file lists, the first 16 count. */
static void test_many_ends(void) {
    int32_t ids[17];
    Writer writer = begin_gpt2("a|b|c|d|e|f|g|h|i|j|k|l|m|n|o|p|q|r", NULL);
    for (int i = 0; i < 17; i++) ids[i] = i + 1;
    put_name(&writer, "attn.eos_token_ids", ARRAY);
    put_u32(&writer, I32);
    put_u64(&writer, 17);
    put(&writer, ids, sizeof ids);
    Opened opened = open_written(&writer);
    for (int32_t id = 0; opened.tokenizer && id < 18; id++)
        CHECK(tokenizer_is_end(opened.tokenizer, id) == (id > 0 && id < 17), "%d", id);
    close_tokenizer(opened);
    writer = begin_gpt2("a|b", NULL);
    put_name(&writer, "attn.eos_token_ids", STRING);
    put_string(&writer, "1");
    check_refused(&writer, "attn.eos_token_ids");
}

/* A file may hold tokenizer.json in a key, beside numbers that are none. */
static void test_json_within(void) {
    static char texts[(MAX_PROBES + 1) * 9], json[(MAX_PROBES + 1) * 24 + 128];
    write_colliding(texts, MAX_PROBES + 1);
    size_t n = (size_t)sprintf(json, "{\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {");
    for (size_t i = 0; i <= MAX_PROBES; i++)
        n += (size_t)sprintf(json + n, "%s\"%.8s\": %zu", i ? ", " : "", texts + 9 * i, i);
    sprintf(json + n, "}}, \"decoder\": {\"type\": \"Fuse\"}}");
    for (int is_number = 1; is_number >= 0; is_number--) {
        Writer writer = begin_file();
        put_name(&writer, "tokenizer.huggingface.json", STRING);
        put_string(&writer, json);
        put_name(&writer, "attn.embedding_rows", is_number ? U32 : STRING);
        if (is_number)
            put_u32(&writer, 1 << 24); /* as good as none */
        else
            put_string(&writer, "8");
        check_refused(&writer, is_number ? "tokenizer.json: vocab: too many texts share a hash value"
                                         : "attn.embedding_rows");
    }
}

int main(void) {
    RUN(test_refuses_models);
    RUN(test_refuses_tokens);
    RUN(test_refuses_merges);
    RUN(test_refuses_scores);
    RUN(test_refuses_ids);
    RUN(test_no_bos);
    RUN(test_empty_tokens);
    RUN(test_whole_words);
    RUN(test_soft_hyphen);
    RUN(test_spelling);
    RUN(test_merge_order);
    RUN(test_missing_bytes);
    RUN(test_scores);
    RUN(test_colliding_texts);
    RUN(test_many_tokens);
    RUN(test_unmet_merges);
    RUN(test_merges_at_random);
    RUN(test_specials);
    RUN(test_several_patterns);
    RUN(test_gemma4);
    RUN(test_taken_spaces);
    RUN(test_unspelt);
    RUN(test_delete);
    RUN(test_many_ends);
    RUN(test_json_within);
    return test_end();
}
