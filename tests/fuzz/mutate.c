/*
 * Other calls made of one: words from the programs' own tables of options, with values that fit, nearly fit or do not
 * fit; files changed in the way of their format; texts with the characters that tokenizers stumble over.
 */
#include "tests/fuzz/fuzz.h"

#include "cli/llamacpp.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 18 }; /* bytes of a call, and of a file */

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define ONE_OF(table) (table[random_below(COUNT(table))])

static uint64_t state = 1;

size_t random_below(size_t n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return n ? (size_t)((state * 0x9e3779b97f4a7c15u >> 11) % n) : 0;
}

uint64_t odd_number(void) {
    static const uint64_t numbers[] = {0,
                                       1,
                                       2,
                                       3,
                                       4,
                                       7,
                                       8,
                                       16,
                                       31,
                                       32,
                                       33,
                                       63,
                                       64,
                                       127,
                                       128,
                                       255,
                                       256,
                                       1000,
                                       4095,
                                       65535,
                                       65536,
                                       1 << 20,
                                       1 << 24,
                                       0x7fffffff,
                                       0x80000000,
                                       0xffffffff,
                                       0x100000000,
                                       0x3fffffffffffffff,
                                       0x4000000000000000,
                                       0x7fffffffffffffff,
                                       0x8000000000000000,
                                       0xfffffffffffffff8,
                                       0xffffffffffffffe0,
                                       0xffffffffffffffff};
    uint64_t number = ONE_OF(numbers);
    return random_below(4) ? number : number + random_below(5) - 2;
}

double odd_real(void) {
    static const char *const reals[] = {"0",     "-0",    "1",     "-1",    "nan",   "inf",  "-inf",
                                        "1e-45", "1e-38", "3e38",  "-3e38", "1e308", "0.5",  "1e-5",
                                        "10000", "65504", "65520", "1e9",   "1e-9",  "-1e-9"};
    return strtod(ONE_OF(reals), NULL);
}

/* ---- Words ---- */

static char texts[64][512]; /* of the words made in this change */
static size_t n_texts;

static Part word(const char *text) {
    char *copy = texts[n_texts++ % COUNT(texts)];
    snprintf(copy, sizeof texts[0], "%s", text);
    return (Part){'w', (const unsigned char *)copy, strlen(copy)};
}

static const char *const spoken[] = {
    "",
    " ",
    "a",
    "ab",
    "ab ab b",
    "\xe2\x96\x81 the \xff<s>12'll\xc3",
    "\n\n\ta",
    "<s>",
    "</s>a",
    "<|endoftext|>b",
    "\xc2\x85",
    "\xe2\x80\xae",
    "\xf0\x9f\x98\x80",
    "\xed\xa0\x80",
    "\x1b[31mred",
    "\"\\",
    "</script>",
    "#1",
    "#-1",
    "#99999999999",
    " a",
    "L0H0",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "\xcc\x81\xcc\x81",
    "A\xcc\x8a",
    "\xef\xbf\xbf",
    "3.14 1000000",
    "  a  b  ",
    "\r\n",
    "c bc",
    "ab\xc4\xa0"};

static const char *const choices[] = {"f16",
                                      "f32",
                                      "q8_0",
                                      "q8",
                                      "0",
                                      "1",
                                      "0-1",
                                      "0,1",
                                      "1-0",
                                      "0-",
                                      "0,,1",
                                      "L0",
                                      "L0H0",
                                      "L0H1",
                                      "L0H0,L1",
                                      "L0STATE:final",
                                      "L0H0:L1H1.g",
                                      "L9H9",
                                      "L0H",
                                      "L99999999999999999999H0",
                                      "heads",
                                      "mlps",
                                      "layers",
                                      "mean",
                                      "max",
                                      "zero",
                                      "resample",
                                      "kl",
                                      "nll",
                                      "last",
                                      "all",
                                      "value",
                                      "weight",
                                      "none",
                                      "first",
                                      "gpt2",
                                      "gpt2-xl",
                                      "gpt3-175b",
                                      "pattern",
                                      "scores",
                                      "q,k,v,z",
                                      "resid_pre",
                                      "resid_mid,resid_post",
                                      "attn_out",
                                      "mlp_out",
                                      "logits",
                                      "a",
                                      "b",
                                      "model.bin",
                                      "out",
                                      "-",
                                      "/dev/null",
                                      "/dev/full",
                                      "absent",
                                      ".",
                                      "..",
                                      "",
                                      "all-heads",
                                      "delta",
                                      "logit",
                                      "positions",
                                      "with",
                                      "both",
                                      "#0",
                                      "#7",
                                      "#8"};

static const char *const types[] = {"F32",       "F16",    "BF16", "Q8_0", "Q6_K",   "Q5_K_M", "Q5_1",
                                    "Q5_0",      "Q4_K",   "Q4_1", "Q4_0", "IQ4_NL", "IQ4_XS", "MXFP4",
                                    "MXFP4_MOE", "Q3_K_L", "Q3_K", "Q2_K", "Q4_K_S", "IQ2_XS", "q8_0"};

static Part number_word(const Option *option) {
    char text[64];
    bool whole = option->kind != OPTION_REAL;
    double edges[] = {option->min, option->max, option->min - 1, option->max + 1,
                      (option->min + option->max) / 2};
    uint64_t choice = random_below(12);
    if (choice < 5 && whole)
        snprintf(text, sizeof text, "%d", (int)random_below(9));
    else if (choice < 7)
        snprintf(text, sizeof text, whole ? "%.0f" : "%g", ONE_OF(edges));
    else if (choice < 9)
        snprintf(text, sizeof text, "%g", random_below(2) ? odd_real() : (double)random_below(100) / 40);
    else if (choice == 9)
        snprintf(text, sizeof text, "%llu", (unsigned long long)odd_number());
    else if (choice == 10)
        snprintf(text, sizeof text, "-%llu", (unsigned long long)odd_number());
    else
        snprintf(text, sizeof text, "%s", ONE_OF(choices));
    return word(text);
}

static Part value_word(const Option *option) {
    bool is_number = option->kind == OPTION_INT || option->kind == OPTION_SIZE || option->kind == OPTION_REAL;
    bool is_output = strcmp(option->name, "--output") == 0 || strcmp(option->name, "--logits") == 0;
    bool is_file = strcmp(option->name, "--tokenizer") == 0 || strcmp(option->name, "--file") == 0 ||
                   strcmp(option->name, "--chat-template") == 0 || strcmp(option->name, "--batch") == 0;
    if (is_number) return number_word(option);
    if (is_output && random_below(4))
        return word(random_below(3) == 0 ? file_names[random_below(strlen(file_tags))]
                    : random_below(2)    ? "answers"
                                         : "out");
    if (is_file && random_below(4)) return word(random_below(3) ? "b" : "a");
    if (strstr(option->name, "-type") && random_below(4)) return word(ONE_OF(types));
    if (strcmp(option->name, "--prompt") == 0 || strcmp(option->name, "--stop") == 0 || random_below(4) == 0)
        return word(ONE_OF(spoken));
    return word(ONE_OF(choices));
}

static const View *view_of(const Call *call) {
    for (size_t i = 0; call->n > 1 && i < fuzz_n_views; i++)
        if (call->parts[1].n == strlen(fuzz_views[i]->name) &&
            memcmp(call->parts[1].bytes, fuzz_views[i]->name, call->parts[1].n) == 0)
            return fuzz_views[i];
    return NULL;
}

static bool calls(const Call *call, const char *program) {
    size_t n = strlen(program);
    return call->n > 0 && call->parts[0].n == n && memcmp(call->parts[0].bytes, program, n) == 0;
}

static bool is_data_set(const Call *call) {
    for (size_t i = 0; i < call->n; i++)
        if (call->parts[i].n == 7 && memcmp(call->parts[i].bytes, "--batch", 7) == 0) return true;
    return false;
}

/* Any option that the program, or its view, knows; now and then one that it does not. */
static const Option *any_option(const Call *call) {
    const View *view = view_of(call);
    Options table = random_below(8) == 0 ? ONE_OF(shared_options) : fuzz_run_options;
    if (view && random_below(3) && view->n_options)
        table = (Options){view->options, view->n_options, NULL};
    else if (calls(call, "quantize"))
        table = fuzz_quantize_options;
    else if (!calls(call, "run"))
        table = ONE_OF(shared_options);
    return &table.table[random_below(table.n)];
}

static void insert(Call *call, size_t at, Part part) {
    if (call->n == MAX_PARTS) return;
    memmove(&call->parts[at + 1], &call->parts[at], (call->n++ - at) * sizeof part);
    call->parts[at] = part;
}

static void drop(Call *call, size_t at) {
    memmove(&call->parts[at], &call->parts[at + 1], (--call->n - at) * sizeof *call->parts);
}

/* One of llama.cpp's, with a value where it takes one, and now and then where it does not. */
static void add_foreign(Call *call, size_t at) {
    const ForeignOption *option = &llamacpp_options.table[random_below(llamacpp_options.n)];
    const char *name = option->names[random_below(3)];
    if (random_below(8) ? option->takes : random_below(2))
        insert(call, at, word(random_below(2) ? "on" : ONE_OF(choices)));
    insert(call, at, word(name ? name : option->names[0]));
}

static void add_option(Call *call) {
    const Option *option = any_option(call);
    size_t first = view_of(call) ? 2 : 1,
           at = call->n < first ? call->n : first + random_below(call->n - first + 1);
    bool takes_value = option->kind != OPTION_ON && option->kind != OPTION_OFF;
    if (calls(call, "run") && random_below(8) == 0) {
        add_foreign(call, at);
    } else if (random_below(takes_value ? 4 : 32) == 0) { /* "--top-k=3"; "--json=" is refused */
        Part value = value_word(option);
        char joined[512];
        snprintf(joined, sizeof joined, "%s=%.*s", option->name, (int)value.n, (const char *)value.bytes);
        insert(call, at, word(joined));
    } else {
        if (takes_value) insert(call, at, value_word(option));
        insert(call, at, word(option->short_name && random_below(2) ? option->short_name : option->name));
    }
}

/* The value of an option that is there becomes another. */
static void change_value(Call *call) {
    size_t i = random_below(call->n);
    for (size_t k = 0; k + 1 < call->n; k++, i = (i + 1) % call->n) {
        const Part *part = &call->parts[i];
        if (i + 1 == call->n || part->tag != 'w' || part->n < 2 || part->bytes[0] != '-') continue;
        for (int tries = 0; tries < 60; tries++) {
            const Option *option = any_option(call);
            const char *names[] = {option->name, option->short_name ? option->short_name : ""};
            for (int n = 0; n < 2; n++)
                if (option->kind > OPTION_OFF && strlen(names[n]) == part->n &&
                    memcmp(names[n], part->bytes, part->n) == 0) {
                    call->parts[i + 1] = value_word(option);
                    return;
                }
        }
    }
}

static void change_word(Call *call) {
    static unsigned char bytes[8192];
    size_t i = random_below(call->n), k = random_below(call->n);
    Part before = call->parts[i];
    switch (random_below(8)) {
    case 0: drop(call, i); break;
    case 1: insert(call, i, before); break;
    case 2: call->parts[i] = call->parts[k], call->parts[k] = before; break;
    case 3:
        if (before.n > 4096) break;
        memcpy(bytes, before.bytes, before.n);
        call->parts[i] = (Part){before.tag, bytes, LLVMFuzzerMutate(bytes, before.n, 4096)};
        break;
    case 4: insert(call, call->n, word(ONE_OF(spoken))); break;
    default: change_value(call);
    }
}

static void change_view(Call *call) {
    if (call->n < 2) return;
    bool was_run = calls(call, "run"), is_run = random_below(4) == 0;
    if (calls(call, "quantize")) { /* another type */
        for (size_t i = 3; i < call->n; i++)
            if (call->parts[i].tag == 'w') call->parts[i] = word(ONE_OF(types));
        return;
    }
    call->parts[0] = word(is_run ? "run" : "study");
    const View *view = fuzz_views[random_below(fuzz_n_views)];
    if (is_run && !was_run) drop(call, 1);
    if (!is_run && was_run) insert(call, 1, word(view->name));
    if (!is_run && !was_run) call->parts[1] = word(view->name);
    bool writes = view == &view_dump || view == &view_page;
    if (!is_run && writes) insert(call, 2, word("out")), insert(call, 2, word("-o"));
    if (!is_run && view == &view_compare) insert(call, 2, word("b"));
}

/* ---- Files and texts ---- */

static const char *const json_words[] = {"null",
                                         "true",
                                         "-1",
                                         "0",
                                         "1e999",
                                         "1e-999",
                                         "-0.0",
                                         "[]",
                                         "{}",
                                         "\"\"",
                                         "\"\\ud800\"",
                                         "\"\\u0000\"",
                                         "[[1,2],[3,4]]",
                                         "[1]",
                                         "[[1]]",
                                         "\"q\"",
                                         "\"k\"",
                                         "\"v\"",
                                         "\"x\"",
                                         "\"scores\":",
                                         "\"heads\":2,",
                                         "\"mask\":\"causal\",",
                                         "\"score\":\"additive\",",
                                         "\"w_q\":[[1]],",
                                         "\"tolerance\":1e9,",
                                         "\"temperature\":0.5,",
                                         "\"cases\":[",
                                         "]",
                                         "}",
                                         ",",
                                         ":",
                                         "1e308",
                                         "\"name\":\"\\u001b\",",
                                         "[[[1,2],[3,4]]]",
                                         "0.1",
                                         "\"NFKD\"",
                                         "\"StripAccents\"",
                                         "\"Metaspace\"",
                                         "\"ByteLevel\"",
                                         "\"Unigram\"",
                                         "\"MergedWithNext\"",
                                         "\"Contiguous\"",
                                         "\"invert\":true,",
                                         "\"lstrip\":true,",
                                         "\"rstrip\":true,",
                                         "\"normalized\":true,",
                                         "\"single_word\":true,",
                                         "{\"Regex\":\"(a|b)*?|\\\\s+(?!\\\\S)\"}",
                                         "{\"String\":\" \"}",
                                         "[\"a\",\"b\"]",
                                         "\"\\u2581\""};

static const char *const template_words[] = {"{{ ",
                                             " }}",
                                             "{% ",
                                             " %}",
                                             "{%- ",
                                             "-%}",
                                             "{# ",
                                             "#}",
                                             "for m in messages",
                                             "endfor",
                                             "if ",
                                             "elif ",
                                             "else",
                                             "endif",
                                             "set x = ",
                                             "set ns.x = ",
                                             "namespace(x=1)",
                                             "macro f(a, b=1)",
                                             "endmacro",
                                             "call f(1)",
                                             "endcall",
                                             "filter upper",
                                             "endfilter",
                                             "raw",
                                             "endraw",
                                             "break",
                                             "continue",
                                             "with x = 1",
                                             "endwith",
                                             "endset",
                                             "f(1)",
                                             "caller()",
                                             "loop.index",
                                             "loop.last",
                                             "messages[-1]",
                                             "[::-1]",
                                             "['content']",
                                             ".content",
                                             "|trim",
                                             "|tojson(indent=2)",
                                             "|length",
                                             "|list",
                                             "|map('upper')",
                                             "|join(', ')",
                                             "|sort",
                                             "|default('')",
                                             "|replace('a', 'b')",
                                             ".split('a')",
                                             ".strip()",
                                             ".items()",
                                             ".append(x)",
                                             ".format(1)",
                                             "'{:>9,d}{x:^7.2}'.format(1, x=x)",
                                             "|replace('/x', '')",
                                             ".split('<')|join",
                                             "|map(*['map'] * 9)",
                                             "|title",
                                             "[1:]",
                                             "<s>",
                                             " is defined",
                                             " is string",
                                             " in ",
                                             " not in ",
                                             " and ",
                                             " or ",
                                             "not ",
                                             " ~ ",
                                             " ** ",
                                             " // ",
                                             " % ",
                                             "range(9)",
                                             "range(99999)",
                                             "raise_exception('x')",
                                             "strftime_now('%d %b %Y')",
                                             "x",
                                             "1",
                                             "'a'",
                                             "none",
                                             "[x, x]",
                                             "{'a': x}",
                                             "(1, 2)",
                                             " if x else ",
                                             "9223372036854775807",
                                             "1.5"};

/* Some words put in, or some of the template taken out or said twice. */
static size_t change_template(unsigned char *bytes, size_t n, size_t room) {
    size_t at = random_below(n + 1), length = random_below(n - at + 1);
    const char *new = ONE_OF(template_words);
    size_t n_new = strlen(new);
    if (length > 40) length = random_below(40);
    if (n + n_new + length > room || random_below(4) == 0) return LLVMFuzzerMutate(bytes, n, room);
    if (random_below(3) == 0)
        new = (const char *)bytes + at, n_new = length; /* twice */
    else if (random_below(3))
        length = 0;
    unsigned char copy[64];
    memcpy(copy, new, n_new);
    size_t behind = new == (const char *)bytes + at ? at : at + length;
    memmove(bytes + at + n_new, bytes + behind, n - behind);
    memcpy(bytes + at, copy, n_new);
    return n - (behind - at) + n_new;
}

size_t mutate_json(unsigned char *bytes, size_t n, size_t room) {
    size_t at = random_below(n + 1), length = random_below(5) ? 0 : random_below(n - at + 1);
    const char *new = ONE_OF(json_words);
    while (random_below(3) && at < n && !strchr("[]{},:", bytes[at])) at++;
    if (random_below(2)) /* in the place of the token there */
        while (at + length < n && !strchr("[]{},:", bytes[at + length])) length++;
    size_t n_new = random_below(6) ? strlen(new) : 0;
    if (at + length > n || n - length + n_new > room || random_below(4) == 0)
        return LLVMFuzzerMutate(bytes, n, room);
    memmove(bytes + at + n_new, bytes + at + length, n - at - length);
    memcpy(bytes + at, new, n_new);
    return n - length + n_new;
}

size_t mutate_safetensors(unsigned char *bytes, size_t n, size_t room) {
    static unsigned char header[ROOM];
    uint64_t length = 0;
    if (n >= 10) memcpy(&length, bytes, sizeof length);
    if (n < 10 || length > n - 8 || random_below(8) == 0) return LLVMFuzzerMutate(bytes, n, room);
    size_t n_data = n - 8 - (size_t)length, most = room - 8 - n_data;
    if (most > ROOM) most = ROOM;
    memcpy(header, bytes + 8, (size_t)length);
    size_t changed = mutate_json(header, (size_t)length, most);
    memmove(bytes + 8 + changed, bytes + 8 + length, n_data);
    memcpy(bytes + 8, header, changed);
    length = random_below(20) ? changed : odd_number();
    memcpy(bytes, &length, sizeof length);
    return 8 + changed + (random_below(12) ? n_data : random_below(n_data + 1));
}

/* llama2.c's files: a number at a multiple of four, or in a vocabulary at any place. */
static size_t change_numbers(unsigned char *bytes, size_t n, size_t room) {
    if (n < 32 || random_below(4) == 0) return LLVMFuzzerMutate(bytes, n, room);
    size_t at = random_below(3) ? random_below(random_below(2) ? 8 : n / 4) * 4 : random_below(n - 4);
    float real = (float)odd_real();
    uint32_t number = (uint32_t)(random_below(2) ? odd_number() : random_below(20));
    memcpy(bytes + at, random_below(2) ? (void *)&real : (void *)&number, 4);
    return random_below(12) ? n : n - random_below(n);
}

/* Chooses a part; of a call with a data set often that one, which matters most. */
static Part *part_to_change(Call *call) {
    Part *requests =
        is_data_set(call) && random_below(2) ? call_find(call, random_below(4) ? 'b' : 'i') : NULL;
    return requests ? requests : &call->parts[random_below(call->n)];
}

static void change_file(Call *call) {
    static unsigned char bytes[4][ROOM], digits[4][2];
    static size_t changes;
    unsigned char *copy = bytes[++changes % 4], *named = digits[changes % 4];
    for (int tries = 0; tries < 8; tries++) {
        Part *part = part_to_change(call);
        bool is_seed = strchr("ABM", part->tag);
        if (!(is_seed || strchr("iy", part->tag) || strchr(file_tags, part->tag)) || part->n > ROOM / 4)
            continue;
        if (strchr("ABMabm", part->tag) && random_below(12) == 0) {
            named[0] = (unsigned char)('0' + random_below(3)),
            named[1] = (unsigned char)('0' + random_below(5));
            *part = (Part){(char)toupper(part->tag), named, 2};
            return;
        }
        if (is_seed) *part = seed_file(part);
        size_t n = part->n;
        memcpy(copy, part->bytes, n);
        if (n >= 4 && memcmp(copy, "GGUF", 4) == 0)
            n = mutate_gguf(copy, n, ROOM / 4);
        else if (part->tag == 'c')
            n = mutate_config(copy, n, ROOM / 4);
        else if (part->tag == 's')
            n = mutate_safetensors(copy, n, ROOM / 4);
        else if (part->tag == 'p')
            n = mutate_torch(copy, n, ROOM / 4);
        else if (part->tag == 'o')
            n = mutate_message(copy, n, ROOM / 4);
        else if (strchr("biyu", part->tag) && is_data_set(call))
            n = mutate_lines(copy, n, ROOM / 4);
        else if (part->tag == 'i' && calls(call, "study"))
            n = mutate_http(copy, n, ROOM / 4);
        else if (n > 1 && copy[0] == '{' && strchr("%{#", copy[1]))
            n = change_template(copy, n, ROOM / 4);
        else if (n && strchr("[{ \n", copy[0]))
            n = mutate_json(copy, n, ROOM / 4);
        else if (strchr("iyr", part->tag))
            n = LLVMFuzzerMutate(copy, n, n + 64);
        else
            n = change_numbers(copy, n, ROOM / 4);
        part->bytes = copy, part->n = n;
        return;
    }
}

static void change_rest(Call *call) {
    static const char *const kernels[] = {"scalar", "avx2", "avx512", "neon", "", "fast"};
    static const char *const cuts[] = {"001", "100", "256", "300", "333", "400", "777", "999"};
    const char *kernel = ONE_OF(kernels), *text = ONE_OF(spoken);
    Part *there = call_find(call, "ktiyh"[random_below(5)]);
    if (there && random_below(2))
        drop(call, (size_t)(there - call->parts));
    else if (!there && random_below(3) == 0)
        call_add(call, 't', "", 0);
    else if (!call_find(call, 'i') && random_below(2))
        call_add(call, "iy"[random_below(2)], text, strlen(text));
    else if (is_data_set(call) && !call_find(call, 'h'))
        call_add(call, 'h', ONE_OF(cuts), 3);
    else if (!call_find(call, 'k'))
        call_add(call, 'k', kernel, strlen(kernel));
}

size_t mutate_call(unsigned char *bytes, size_t n, size_t room, unsigned seed) {
    static unsigned char out[ROOM];
    state = seed * 0x9e3779b97f4a7c15u + 1;
    Call call = call_read(bytes, n);
    if (call.n == 0) return LLVMFuzzerMutate(bytes, n, room);
    for (uint64_t i = random_below(3) ? 1 : 1 + random_below(4); i > 0 && call.n > 0; i--) {
        uint64_t choice = random_below(20);
        if (choice < 10)
            change_file(&call);
        else if (choice < 13)
            add_option(&call);
        else if (choice < 17)
            change_word(&call);
        else if (choice < 18)
            change_rest(&call);
        else
            change_view(&call);
    }
    size_t n_out = call_write(&call, out, room < ROOM ? room : ROOM);
    memcpy(bytes, out, n_out);
    return n_out;
}
