/* The first calls: each view and run on small models of each family and weight type, llama2.c's files, JSON cases. */
#include "tests/fuzz/fuzz.h"

#include "base/json.h"
#include "tests/bad.h"
#include "tests/torch.h"

#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Digits are a type each; letters are mixes of types that pack 32 weights, and in b and c, where rows are long, 256. */
static const char kinds[] = "01234abc";
enum { N_KINDS = sizeof kinds - 1, PACKED = 3, MIXED = 5 };
static const uint32_t weight_types[MIXED] = {T_F32, T_F16, T_BF16, T_Q8_0, T_Q4_0},
                      of_32[] = {T_Q4_1, T_Q5_0, T_Q5_1, T_IQ4_NL, T_MXFP4, T_Q8_0, T_Q4_0},
                      of_256[] = {T_Q4_K, T_Q6_K, T_Q5_K, T_Q3_K, T_Q2_K, T_IQ4_XS};

static uint32_t type_of(int kind, size_t i, uint64_t cols) {
    if (kind < MIXED) return weight_types[kind];
    return cols % 256 ? of_32[i % COUNT(of_32)] : of_256[i % COUNT(of_256)];
}

/* bad.h's sizes, eight times as wide for types that pack weights: the context and the vocabulary stay. */
static uint64_t widened(uint64_t n, int kind) {
    return n == N_VOCAB || n <= 1 ? n : n != D_FF ? 8 * n : kind > MIXED ? 256 : 64;
}

static void widen(Gguf *gguf, int kind) {
    static const char *const keys[] = {"embedding_length", "feed_forward_length", "key_length",
                                       "value_length", "dimension_count"};
    for (size_t i = 0; i < gguf->n_keys; i++)
        for (size_t k = 0; k < COUNT(keys); k++) {
            uint32_t value;
            if (!strstr(gguf->keys[i].name, keys[k])) continue;
            memcpy(&value, gguf->keys[i].value, 4);
            value = (uint32_t)widened(value, kind);
            memcpy(gguf->keys[i].value, &value, 4);
        }
    for (size_t i = 0; i < gguf->n_tensors; i++)
        for (size_t k = 0; k < gguf->tensors[i].n_dims; k++)
            gguf->tensors[i].dims[k] = widened(gguf->tensors[i].dims[k], kind);
}

/* bad.h's vocabulary, and behind it tokens that are more than text to a terminal, to JSON, or to a page. */
static void make_hostile(Gguf *gguf, Which which) {
    static const char *const texts[] = {"\"", "\\", "\x1b[31m", "\xe2\x80\xae", "\xc2\x9b", "</script>"};
    enum { N = N_VOCAB + COUNT(texts) };
    const char *const tokens = "tokenizer.ggml.tokens", *const types = "tokenizer.ggml.token_type";
    int32_t type[N];
    float score[N];
    GgufKey *key = gguf_find(gguf, tokens);
    const GgufKey *old = gguf_find(gguf, types);
    if (!key || !old) abort();
    for (size_t i = 0; i < COUNT(texts); i++) gguf_put_string(key, texts[i]);
    memcpy(key->value + 4, &(uint64_t){N}, 8);
    for (size_t i = 0; i < N; i++) type[i] = 1, score[i] = -(float)i;
    memcpy(type, old->value + 12, N_VOCAB * 4);
    gguf_array(gguf, types, I32, N, type, sizeof type);
    if (which == LLAMA) gguf_array(gguf, "tokenizer.ggml.scores", F32, N, score, sizeof score);
    gguf_find_tensor(gguf, "token_embd.weight")->dims[1] = N;
}

enum { CONTEXT = 16 };

/* A context longer than bad.h's, and where the weights are small two layers. */
static void lengthen(Gguf *gguf, bool two_layers) {
    static char names[COUNT(model_tensors)][32];
    for (size_t i = 0; i < gguf->n_keys; i++)
        if (strstr(gguf->keys[i].name, "context_length"))
            memcpy(gguf->keys[i].value, &(uint32_t){CONTEXT}, 4);
    for (size_t i = 0; i < gguf->n_keys && two_layers; i++)
        if (strstr(gguf->keys[i].name, "block_count")) memcpy(gguf->keys[i].value, &(uint32_t){2}, 4);
    size_t n = gguf->n_tensors;
    for (size_t i = 0; i < n; i++) {
        GgufTensor *tensor = &gguf->tensors[i];
        if (strstr(tensor->name, "position_embd")) tensor->dims[1] = CONTEXT;
        if (!two_layers || strncmp(tensor->name, "blk.0.", 6) != 0) continue;
        snprintf(names[i], sizeof names[i], "blk.1.%s", tensor->name + 6);
        gguf->tensors[gguf->n_tensors] = *tensor;
        gguf->tensors[gguf->n_tensors++].name = names[i];
    }
}

/* How it asks to be sampled from. */
static void add_sampling(Gguf *gguf) {
    gguf_f32(gguf, "general.sampling.temp", 0.5f);
    gguf_u32(gguf, "general.sampling.top_k", 3);
    gguf_f32(gguf, "general.sampling.min_p", 0.125f);
    gguf_f32(gguf, "general.sampling.penalty_repeat", 1.5f);
    gguf_u32(gguf, "general.sampling.penalty_last_n", 4);
    gguf_string(gguf, "general.sampling.sequence", "penalties;min_p;temperature;top_k");
}

static size_t write_model(int which, int kind, unsigned char *bytes) {
    static Gguf gguf;
    gguf = good_model((Which)which);
    if (kind >= PACKED) widen(&gguf, kind);
    lengthen(&gguf, kind < PACKED || kind >= MIXED);
    if (kind % 2) make_hostile(&gguf, (Which)which);
    if (kind % 3 == 1) add_sampling(&gguf);
    for (size_t i = 0; i < gguf.n_tensors; i++) {
        GgufTensor *tensor = &gguf.tensors[i];
        bool matrix = tensor->n_dims > 1;
        tensor->type = matrix ? type_of(kind, i + 2 * (size_t)kind, tensor->dims[0]) : T_F32;
        tensor->n_bytes =
            gguf_bytes(tensor->type, (size_t)(tensor->dims[0] * (matrix ? tensor->dims[1] : 1)));
    }
    return gguf_write(&gguf, bytes);
}

/* Behind the special and byte tokens of bad.h some that are texts, each likelier than the next. */
static size_t write_vocabulary(void) {
    static const char *const pieces[] = {"a", "b", "ab", " ", " a", "\xc3\xa9", "\x1b[31m", "c"};
    write_llama2c_vocabulary(259);
    for (size_t i = 0; i < COUNT(pieces); i++) {
        int32_t length = (int32_t)strlen(pieces[i]);
        float score = i == 2 ? 1 : -(float)i;
        memcpy(file + n_file, &score, 4);
        memcpy(file + n_file + 4, &length, 4);
        memcpy(file + n_file + 8, pieces[i], (size_t)length);
        n_file += 8 + (size_t)length;
    }
    return 259 + COUNT(pieces);
}

/* The number of a kind; any byte has one, '0' the first. */
static int kind_of(unsigned char byte) {
    const char *at = byte >= 'a' && byte <= 'c' ? strchr(kinds, byte) : NULL;
    return at ? (int)(at - kinds) : (byte + MIXED - '0' % MIXED) % MIXED;
}

Part seed_file(const Part *part) {
    static unsigned char *files[3][N_KINDS];
    static size_t sizes[3][N_KINDS];
    int which = part->n > 0 ? part->bytes[0] % 3 : 0, kind = part->n > 1 ? kind_of(part->bytes[1]) : 0;
    if (!files[which][kind]) {
        size_t n_vocab = which == 2 ? write_vocabulary() : 0;
        if (which == 2 && kind % 2 == 0) write_llama2c_model_of((int)n_vocab);
        if (which < 2) n_file = write_model(which, kind, file);
        sizes[which][kind] = n_file;
        files[which][kind] = malloc(n_file);
        if (!files[which][kind]) abort();
        memcpy(files[which][kind], file, n_file);
    }
    return (Part){(char)tolower(part->tag), files[which][kind], sizes[which][kind]};
}

static const char *seed_folder;
static int n_seeds;

/* Words are those between spaces; "~" is a space within one. */
static void write_seed(const char *line, const Part *parts, size_t n_parts) {
    static unsigned char bytes[1 << 19];
    static char text[512];
    char path[512];
    Call call = {.n = 0};
    snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        for (char *c = word; *c; c++)
            if (*c == '~') *c = ' ';
        call_add(&call, 'w', word, strlen(word));
    }
    for (size_t i = 0; i < n_parts; i++) call_add(&call, parts[i].tag, parts[i].bytes, parts[i].n);
    snprintf(path, sizeof path, "%s/seed-%03d", seed_folder, n_seeds++);
    FILE *out = fopen(path, "wb");
    size_t n = call_write(&call, bytes, sizeof bytes);
    if (!out || fwrite(bytes, 1, n, out) != n || fclose(out) != 0) abort();
}

static const char *const on_models[] = {
    "run a -p ab",
    "run a -p ab --temp 0 -n 6 -v",
    "run a --json -s 3 --top-k 3 --min-p 0.1 --repeat-penalty 1.3 --presence-penalty 1 --frequency-penalty -1",
    "run a -i --shift -c 8 -n 2",
    "run a --info",
    "run -m a --prompt=a\\nb -e --n-predict=2 -ngl 9 -fa on --mlock --temperature 0 -s -1 --stop=\\x61",
    "run ab~ab",
    "run a ab -m a",
    "run --model=a --prompt= -cnv --json=1",
    "run a --info -z b",
    "run a --tokens -v -p ab<s>~a --special",
    "run a --logits out -p abc --kv f32 -t 2",
    "run a -p ab --stop a --stop bc --top-p 0.5 --no-echo",
    "run -p ab",
    "study next a -p ab --top 3 --token #6 --token #1 --temp 0.5 --top-k 4 --top-p 0.9 --min-p 0.01",
    "study next a -p ab --json --ablate L0H1,L0MLP=0.5 --draw 1",
    "study score a -p abcabcabcab --words -c 4",
    "study score a -p abcabab --json --chunks -c 3",
    "study attend a -p abc --layer 0 --head 1 --by value",
    "study attend a -p ab~cab~a --json --reduce mean --no-sink --words",
    "study attend a -p ab --layer 0 --head 1 -n 2 --temp 1",
    "study attend a -p ab~a~b --layer 0 --reduce max --query 1 --top 3",
    "study attend a -p ab --json --layer 0 --norm",
    "study heads a -p abab",
    "study heads a --repeat 3 --batch 2 --json",
    "study lens a -p ab --mid --token #5 --frozen-norm",
    "study lens a -p ab --json --query 0",
    "study lens a -p abcab --query bc",
    "study explain a -p abc --layer 0 --head 0 --query 1",
    "study explain a -p abc --layer 0 --head 1 --json",
    "study ablate a -p abcab --heads L0H0",
    "study ablate a -p abcab --sweep heads --json",
    "study ablate a -p ab --mlps 0 --by mean --with b",
    "study ablate a -p abba --heads L0H1 --by resample --with b --json",
    "study compare a b -p abc",
    "study compare a b -p abc --json",
    "study dump a -p abc -o out",
    "study dump a -p abc -o out --json --what pattern,q,logits --layers 0 --heads 0-1 --half",
    "study view a -p abc -o out -n 2 --ablate L0H0",
    "study view a -p abc --json --top 2",
    "study view a -p abcab --json --query bc",
    "study view a -p abcab --json --query b -n 2",
    "study view a -p abc -o out --svg L0H1",
    "study meaning a -w a -p ab~a -p a~b --centred --layer 1",
    "study meaning a --word b -f b -p ab --json --top 1000",
    "study attribute a -p abcab --head L0H0,L1H1 --neurons 0 --top 3",
    "study attribute a -p abcab --json --answer a --wrong #2 --query 2",
    "study attribute a -p abcab --score L1H0:3>1 --top 2",
    "study attribute a -p abcab --json --score L0H1:2>2",
    "study attribute a -p abcab --by gradient --top 2 --neurons 3",
    "study attribute a -p abcab --by gradient --answer #5 --json",
    "study attribute a -p abcab --corrupted abcaa --answer #5 --by ig --steps 2 --noising",
    "study attribute a -p abcab --corrupted abcaa --answer #5 --by gradient --edges --check 2 --dot out",
    "study attribute a -p abcab --corrupted abcaa --answer #5 --wrong #4 --by ig --steps 1 --edges --json --graph out",
    "study attribute a -p abcab --corrupted abcaa --answer #5 --by gradient --edges --svg out --top 40 --kv f16",
    "study faithful a -p abcab --corrupted abcaa --answer #5 --by gradient",
    "study faithful a -p abcab --corrupted abcaa --answer #5 --keep L0H0,L0MLP:final --outside zero --json",
    "study faithful a -p abcab --corrupted abcaa --answer #5 --steps 1 --find 0.1 --top 2",
    "study faithful a -p abcab --corrupted abcaa --answer #5 --by gradient --nodes --json",
    "study faithful a -p abcab --corrupted abcaa --answer #5 --keep L0H0,L0MLP --nodes --outside mean",
    "study faithful a -p abcab --corrupted abcaa --answer #5 --by gradient --find 0.01 --kl --nodes",
    "study patch a -p abcab --corrupted abcaa --answer #5 --svg out --ascii",
    "study patch a -p abcab --corrupted bacab --answer #6 --what z --noising --json --svg out",
    "study patch a -p abcab --corrupted abcaa --answer #5 --what pattern --freeze pattern --json",
    "study patch a -p abcab --corrupted abcaa --answer #5 --freeze pattern --kv f16",
    "study patch a -p abcab --corrupted abcaa --answer #5 --path L0STATE:L0MLP,L0H0:L1H1.g,L0STATE:final --json",
    "study rollout a -p abcab --flow --top 2",
    "study rollout a -p abcab --json --flow --query 3",
    "study rollout a -p abcab --query b",
    "study circuit a",
    "study circuit a --json --head L0H1 --token #4 --top 3",
    "study circuit a --head L0H0",
    "study circuit a --composition v --json",
    "study steer a -p abcab --plus ab --minus b --strength 2 -n 2 --layers 0 -o out",
    "study steer a -p abcab --json --token #5 --unit --sweep --strengths 1,-2 --answer #4",
    "study steer a -p abcab --neuron L0N1 --project --positions 0,2 --site mlp_out --top 2",
    "study steer a -p abcab --direction b",
    "study selfcheck a",
    "study selfcheck a --json --kv f16 -p ab",
    "study shape a",
    "study shape a --json -c 100",
    "run a -n 0",
    "run a -f b -n -1 --shift -c 6 --seed 7",
    "run a -p ab --samplers temp;top_p;min-p -v",
    "run a -p ab --echo --special --repeat-last-n 2 -v --json",
    "run a --info -v",
    "run a -i -n 1 -p b --no-echo --temp 0",
    "run a -p abcabcabcabcabcabcabcabcabc",
    "run a -p a\"b\\c --json -n 1",
    "study next a -f b --top 0 --bos --kv f16",
    "study next a -p ab --no-bos --special --ascii --top 1000",
    "study score a -p abcab --top 0 --ascii",
    "study score a -p abcab --words --json --top 8",
    "study attend a -p abcab",
    "study attend a -p abcab --layer 0 --head 0 --query 2 --top 1 --ascii",
    "study attend a -p abcab --json --by value --reduce max",
    "study attend a -p abcab --layer 0 --head 0 --norm --no-sink --json -n 1",
    "study heads a",
    "study heads a -p abab --json --seed 3",
    "study heads a -c 8 --repeat 2 --ascii",
    "study lens a -p ab --top 1",
    "study lens a -p ab --top 0 --json",
    "study lens a -p ab --top 1000 --ascii --mid",
    "study lens a -p ab --frozen-norm --json --token #0",
    "study explain a -p abc --layer 0 --head 0 --top 0",
    "study explain a -p abc --layer 0 --head 1 --top 1000 --ascii",
    "study explain a -p abc --layer 9 --head 1",
    "study ablate a -p abcab --heads L0 --by mean --json",
    "study ablate a -p abcab --sweep mlps",
    "study ablate a -p abcab --sweep heads --hard-zero",
    "study ablate a -p abcab --heads L0H0,L0H1 --mlps 0 --hard-zero",
    "study ablate a -p abba --sweep heads --by resample --with b",
    "study compare a b -p abc -c 3 --ascii",
    "study dump a -p abc -o out --positions 0,2 --what resid_pre,resid_mid,resid_post,z",
    "study dump a -p abc -o out --what scores,k,v,attn_out,mlp_out --half --json",
    "study dump a -p abc -o a",
    "study view a -p abc -o out --layers 0 --query 1 --top 1 --temp 1 -n 1",
    "study view a -p a</script>\"b -o out --ablate L0",
    "study view a -p abc -o /dev/full",
    "study view a -p abc --json --ablate L0H1 -n 1",
    "study view a -p a\"b\\ --json --top 1000",
    "study next a -p \"\\ --json",
    "study selfcheck a -p abcab --ascii",
    "study shape a --ascii -c 1000000",
    "study case a",
    "study tokens a -p ab --ids 4,5",
    "study next a -p abc --draw 2 --temp 1 --json",
    "study next a -p abcab --draw 1 --repeat-penalty 2 --samplers penalties;top_k --ascii",
    "study view a -p abc --json --from 1 --parts predictions,patterns,writes --ablate L0H0=0.5,L0MLP",
    "study view a -p abc --json --parts lens --from 0 --to 2 --query 1",
    "study view a --ids 4,5,6 --json --parts text,repeat,writes --layers 0",
    "study ablate a --ids 4,5,6 --heads L0MLP=2,L0H1",
    "quantize a out Q4_K_M --allow-requantize -v",
    "quantize a out Q8_0",
    "quantize a out Q2_K --pure --output-tensor-type F16 --token-embedding-type Q8_0 --allow-requantize",
    "quantize --dry-run a Q5_0 --leave-output-tensor",
    "quantize a out F32",
    "quantize a out IQ4_XS --allow-requantize -t 2",
    "quantize a a F16",
    "quantize a out BF16 -z b",
    "study experts a -p abc",
    "study experts a -p abc --json --layer 0",
    "study neurons a -p abc --top 3",
    "study neurons a -p abc --neuron L0N1 --json",
    "study neurons a -p abc --head L0H0",
    "study neurons a --head L0H0 --corpus b -c 4 --top 2",
    "study neurons a --neuron L0N1 --corpus b --json",
};

/* Each line on two files: of each family, of types that differ from line to line. */
static void write_model_seeds(void) {
    for (size_t i = 0; i < 2 * COUNT(on_models); i++) {
        const char *line = on_models[i / 2];
        const unsigned char ours[] = {'0' + i % 2, (unsigned char)kinds[i / 2 % N_KINDS]};
        const unsigned char other[] = {'0' + i % 2, (unsigned char)kinds[(i / 2 + 1) % N_KINDS]};
        Part parts[4] = {{strstr(line, " a") ? 'A' : 'M', ours, 2}};
        size_t n_parts = 1;
        if (strstr(line, "--with b") || strstr(line, "-f b") || strstr(line, "--corpus b"))
            parts[n_parts++] = (Part){'b', (const unsigned char *)"abba", 4};
        else if (strstr(line, " b"))
            parts[n_parts++] = (Part){'B', other, 2};
        if (strstr(line, " -i") || strstr(line, " -n 0"))
            parts[n_parts++] =
                (Part){"iy"[i % 2], (const unsigned char *)"ab\nabc\n\na\n/help\n/no\n/bye", 24};
        if (i % 7 == 6) parts[n_parts++] = (Part){'t', NULL, 0};
        if (i % 5 == 4) parts[n_parts++] = (Part){'k', (const unsigned char *)"scalar", 6};
        write_seed(line, parts, n_parts);
    }
}

/* Pairs of texts, a line of JSON each, and one of the command line. */
static void write_pair_seeds(void) {
    static const char *const lines[] = {
        "study patch a --pairs b --what z",
        "study patch a --pairs b --what resid --noising --json",
        "study attribute a --pairs b --by gradient --top 3",
        "study attribute a --pairs b --by ig --steps 1 --edges --check 1 --json",
        "study faithful a --pairs b --by gradient --outside mean",
        "study faithful a --pairs b --by gradient --find 0.5 --json",
        "study faithful a --pairs b --by gradient --find 0.5 --kl",
        "study patch a --pairs b --path L0H0:final,L0H1:L0MLP --metric logit",
        "study patch a -p ab~a --corrupted ba~a --answer #5 --wrong #4 --what head-pos --layer 0 --top 3",
        "study patch a -p abcab --corrupted bacab --answer #6 --what pattern --json",
        "study patch a -p abcab --corrupted abcaa --answer #6 --what k --ascii --kv f16",
        "study patch a -p abc --corrupted abab --answer a --wrong b",
    };
    static const char *const files[] = {
        "{\"clean\": \"ab\", \"corrupted\": \"ba\", \"answer\": \"a\", \"wrong\": \"b\"}\n",
        ("{\"clean\": \"ab\", \"corrupted\": \"bb\", \"answer\": \"ab\", \"wrong\": \"b\", \"split\": [1]}\n\n"
         "{\"clean\": \"aab\", \"corrupted\": \"bab\", \"answer\": \"\\u0061\", \"wrong\": \"bb\"}"),
        "{\"clean\": \"ab\", \"corrupted\": \"a\", \"answer\": \"a\", \"wrong\": null}\r\n[{}]\n",
    };
    for (size_t i = 0; i < 2 * COUNT(lines); i++) {
        const unsigned char model[] = {'0' + i % 2, (unsigned char)kinds[i / 2 % N_KINDS]};
        const char *pairs = files[i % COUNT(files)];
        const Part parts[] = {{'A', model, 2}, {'b', (const unsigned char *)pairs, strlen(pairs)}};
        write_seed(lines[i / 2], parts, strstr(lines[i / 2], " b ") ? 2 : 1);
    }
}

static void write_template_seeds(void) {
    static const char *const templates[] = {
        "{%- for m in messages %}{{ '<' + m.role + '>' + m.content|trim + '\n' }}{% endfor %}{{ 'a' if "
        "add_generation_prompt }}",
        "{% macro f(a, b=2, *c) %}{{ a ~ b }}{% endmacro %}",
        "{% macro f(a, b='x') %}[{{ a }}{{ b }}{{ caller(a) if caller }}]{% endmacro %}{{ f(1, b=none) }}{% call(x) f(2) "
        "%}{{ x }}{% endcall %}",
        "{% set ns = namespace(n=0, l=[]) %}{% for i in range(5) if i != 2 %}{% if i == 4 %}{% break %}{% endif %}{% set "
        "ns.n = ns.n + i %}{% set _ = ns.l.append(i) %}{{ loop.index }}{% else %}no{% endfor %}{{ ns.l[::-1] }}",
        "{{ messages|tojson(indent=2) }}{{ messages|map(attribute='role')|join(',') }}{{ {'b': 1.5, 'a': [none, true]} }}",
        "{{ 'a-b'.split('-')|list }}{{ '%s %d' % ('x', 3) }}{{ '{} {x}'.format(1, x=2) }}{{ 'ab'[-1] ~ 2 ** 3 // 5 % 4 }}",
        "{% filter upper|replace('A', 'b') %}a{{ 'x' is string and 1 in [1] }}{% endfilter %}{% set x %}q{% endset %}{{ x }}",
        "{% raw %}{{ x }}{% endraw %}{# c #}{%- with a = 1 %}  {{ a }}  {%- endwith -%} b{{ strftime_now('%d %b %Y') }}",
        "{{ raise_exception('no ' ~ messages|length) }}",
        "{{ messages[0].content|sort|unique|list }}{{ [3, 1]|sort(reverse=true)|first }}{{ dict(a=1)|dictsort }}",
        "{% for m in messages %}<s>{{ m.content|replace('/x', '')|trim }}{{ m.content.split('a')[0] }}</s>{% endfor %}",
        "{{ '{:>9,d}{x:^7.2}{!r}'.format(7, bos_token, x=messages[0].content) }}{{ [[1]]|map(*['map'] * 3) }}",
        "{{ enable_thinking|default(true) }}{{ x }}{{ n }}{{ messages[0].content }}",
        "{{ bos_token }}<think>{{ messages|selectattr('role', 'equalto', 'user')|list|length }}",
    };
    static const char *const lines[] = {
        "run a --chat --chat-template b -p ab -n 3",
        "run a --chat --chat-template b -n 2 --shift -c 16 -sys a",
        "run a --chat --chat-template b -v --temp 0 -n 4 --system b",
        "run a --chat --chat-template b -n 2 --chat-template-kwargs {\"enable_thinking\":false,\"n\":1}"};
    static const char said[] =
        "ab\n<s/x>b</x/s><|im_/xend|>\n/reset\n/system x\n/help\nabc <s>\n/save out\n/what\n/usr x\n\na\n/exit\nb";
    for (size_t i = 0; i < COUNT(templates); i++) {
        const unsigned char model[] = {'0' + i % 2, (unsigned char)kinds[i % N_KINDS]};
        const Part parts[] = {{'A', model, 2},
                              {'b', (const unsigned char *)templates[i], strlen(templates[i])},
                              {"yyi"[i % 3], (const unsigned char *)said, sizeof said - 1},
                              {'t', NULL, 0}};
        write_seed(lines[i % COUNT(lines)], parts, 3 + i % 2);
    }
}

/* Behind two bytes that say the size of the terminal. */
static void write_key_seeds(void) {
    static const char *const keys[] = {
        "\x14\x05"
        "ab cd\x01\x0b\x19\x17\033[D\033OC\033[3~\033b\033f\x0c\r\033[A\033[B\x04",
        "\x09\x03\033[200~a\r\nb\xff\033[31m\033[201~\033[A\033[A\x15\x1a\x03\x03",
        "\x0c\x0b\xe6\x97\xa5"
        "e\xcc\x81\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80\t\xe2\x80\xae\033\r\x7f\x02\x7f\r",
    };
    for (size_t i = 0; i < COUNT(keys); i++)
        write_seed("keys", &(Part){'i', (const unsigned char *)keys[i], strlen(keys[i])}, 1);
}

static void write_llama2c_seeds(void) {
    static const char *const lines[] = {"run a -z b -p ab",          "run a -z b --json -n 2",
                                        "study next a -z b -p ab",   "study shape a --json",
                                        "run a -z b --info",         "load",
                                        "run a -z b --tokens -p ab", "study view a -z b -p ab --json",
                                        "quantize a out F16 -z b",   "quantize a out Q8_0"};
    const Part parts[] = {{'A', (const unsigned char *)"20", 2}, {'B', (const unsigned char *)"21", 2}};
    for (size_t i = 0; i < COUNT(lines); i++) write_seed(lines[i], parts, 2);
    for (int k = 0; k < 6; k++)
        write_seed("load", &(Part){'A', (const unsigned char *)"210313000411" + 2 * k, 2}, 1);
}

static void write_file_seeds(void) {
    static const char *const lines[][2] = {
        {"docs/cases/1-dot.json", "study case a"},
        {"docs/cases/2-scaled.json", "study case a --json"},
        {"docs/cases/3-qkv.json", "study case a"},
        {"docs/cases/4-causal.json", "study case a --ascii"},
        {"docs/cases/5-heads.json", "study case a"},
        {"docs/cases/6-cross.json", "study case a --json"},
        {"tests/data/study/one.npy", "load"},
        {"tests/data/study/rows.npy", "load"},
        {"tests/data/study/control.gguf", "load"},
        {"tests/data/tokenizer/gpt2.gguf", "run a --tokens -p don't~12~<|endoftext|> --special"},
        {"tests/data/tokenizer/llama3.gguf", "run a --tokens -v -p Hello~12345~it's"},
        {"tests/data/tokenizer/sentencepiece.gguf", "run a --tokens -p the~cat"},
    };
    for (size_t i = 0; i < COUNT(lines); i++) {
        FILE *in = fopen(lines[i][0], "rb");
        if (!in) abort();
        n_file = fread(file, 1, sizeof file, in);
        fclose(in);
        write_seed(lines[i][1], &(Part){'a', file, n_file}, 1);
    }
}

/* Each tokenizer.json of the cases as the one key of a GGUF file. */
static void write_tokenizer_seeds(void) {
    static const char text[] = "run a --tokens --special -p The~cats'~12345~<s>~é\xcc\x81①<0x0A>▁▁a";
    static const char head[] =
        "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\x1a\0\0\0\0\0\0\0tokenizer.huggingface.json\x8\0\0\0";
    FILE *in = fopen("tests/data/tokenizer/json.cases", "rb");
    char *line = NULL;
    size_t room = 0;
    if (!in) abort();
    for (ssize_t n; (n = getline(&line, &room, in)) > 0;) {
        if (strncmp(line, "tokenizer ", 10) != 0) continue;
        uint64_t n_json = (uint64_t)n - 11;
        memcpy(file, head, sizeof head - 1);
        memcpy(file + sizeof head - 1, &n_json, 8);
        memcpy(file + sizeof head + 7, line + 10, (size_t)n_json);
        write_seed(text, &(Part){'a', file, sizeof head + 7 + (size_t)n_json}, 1);
    }
    free(line);
    fclose(in);
}

/* A small model of each family. */
static void write_family_seeds(void) {
    glob_t found;
    if (glob("tests/data/reference/*.gguf", 0, NULL, &found) != 0) abort();
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *in = fopen(found.gl_pathv[i], "rb");
        if (!in) abort();
        n_file = fread(file, 1, sizeof file, in);
        fclose(in);
        if (n_file < 60000 && !strstr(found.gl_pathv[i], ".expected."))
            write_seed(i % 4 ? "load a" : "run a --info", &(Part){'a', file, n_file}, 1);
    }
    globfree(&found);
}

/* Weights for a header of safetensors: n bytes of small numbers behind it. */
static size_t write_safetensors(const char *header, size_t n) {
    uint64_t length = strlen(header);
    memcpy(file, &length, sizeof length);
    memcpy(file + 8, header, (size_t)length);
    for (size_t i = 0; i < n / 2; i++) { /* BF16: 0.25 to 0.5, or an F32's two halves */
        uint16_t weight = (uint16_t)(0x3e80 + i * 37 % 128);
        memcpy(file + 8 + length + 2 * i, &weight, 2);
    }
    return 8 + (size_t)length + n;
}

/* The same tensors in a storage each, as torch.save writes them; the bytes are the fuzzer's own until the next one. */
static Part write_torch(const char *header) {
    static Archive archive;
    static Program program;
    Error error;
    Json *json = json_parse(header, strlen(header), &error);
    if (!json) abort();
    archive.n = archive.n_entries = program.n = 0;
    PROGRAM_PUT(&program, "\x80\x02"
                          "ccollections\nOrderedDict\n)R(");
    for (size_t i = 0; i < json->n; i++) {
        const Json *tensor = json_item(json, i), *shape = json_get(tensor, "shape");
        char name[128], key[24], entry[32];
        bool is_bytes = json_equals(json_get(tensor, "dtype"), "U8");
        Saved saved = {
            .name = name, .type = is_bytes ? "Byte" : "BFloat16", .key = key, .n = 1, .n_dims = shape->n};
        snprintf(name, sizeof name, "%.*s", (int)json_key(json, i).n, json_key(json, i).data);
        snprintf(key, sizeof key, "%zu", i);
        snprintf(entry, sizeof entry, "m/data/%zu", i);
        for (size_t k = shape->n; k-- > 0; saved.n *= saved.sizes[k]) {
            json_integer(&shape->items[k], &saved.sizes[k]);
            saved.strides[k] = saved.n;
        }
        program_tensor(&program, &saved);
        archive_add(&archive, entry, file + 8 + strlen(header), (size_t)saved.n * (is_bytes ? 1 : 2), 0);
    }
    PROGRAM_PUT(&program, "u.");
    archive_add(&archive, "m/data.pkl", program.bytes, program.n, 0);
    archive_end(&archive, false);
    json_free(json);
    return (Part){'p', archive.bytes, archive.n};
}

/* Folders: one whose weights are used in place, and others that are turned, cut, or of experts. */
static void write_folder_seeds(void) {
    static const char *const lines[] = {"run . -p ab -n 2",
                                        "run . --info",
                                        "study shape . --json",
                                        "quantize . out Q8_0",
                                        "run model.safetensors -p ab --tokens",
                                        "study next . -p a",
                                        "quantize . out F16 --dry-run",
                                        "run . -p ab -n 0 --logits tokenizer.json",
                                        "study dump . -p a -o model.safetensors",
                                        "study view . -p a -o vocab.json",
                                        "quantize . config.json F16"};
    static const char tokenizer[] =
        "{\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true}],\"pre_tokenizer\":{\"type\":"
        "\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},\"decoder\":{\"type\":\"ByteLevel\"},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"c\":3},\"merges\":[\"a b\"]}}";
#define COMMON                                                                                               \
    "\"hidden_size\":4,\"num_hidden_layers\":1,\"num_attention_heads\":2,\"intermediate_size\":4,"           \
    "\"max_position_embeddings\":16,\"vocab_size\":5,\"bos_token_id\":4,\"tie_word_embeddings\":true,"
#define TENSOR(name, shape, begin, end)                                                                      \
    "\"" name "\":{\"dtype\":\"BF16\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"
#define LAYER "model.layers.0."
    static const struct {
        const char *config, *header;
        size_t n;
    } folders[] = {
        {"{\"model_type\":\"llama\"," COMMON
         "\"num_key_value_heads\":1,\"rms_norm_eps\":1e-5,\"rope_scaling\":{"
         "\"rope_type\":\"llama3\",\"factor\":8.0,\"original_max_position_embeddings\":8}}",
         "{" TENSOR("model.embed_tokens.weight", "[5,4]", 0, 40) "," TENSOR("model.norm.weight", "[4]", 40, 48) "," TENSOR(
             LAYER "input_layernorm.weight", "[4]", 48,
             56) "," TENSOR(LAYER "self_attn.q_proj.weight", "[4,4]", 56,
                            88) "," TENSOR(LAYER "self_attn.k_proj.weight", "[2,4]", 88,
                                           104) "," TENSOR(LAYER "self_attn.v_proj.weight", "[2,4]", 104,
                                                           120) "," TENSOR(LAYER "self_attn.o_proj.weight",
                                                                           "[4,4]", 120,
                                                                           152) "," TENSOR(LAYER
                                                                                           "post_attention_layernorm.weight",
                                                                                           "[4]", 152,
                                                                                           160) "," TENSOR(LAYER
                                                                                                           "mlp.gate_proj.weight",
                                                                                                           "[4,4]",
                                                                                                           160,
                                                                                                           192) "," TENSOR(LAYER
                                                                                                                           "mlp.up_proj.weight",
                                                                                                                           "[4,4]",
                                                                                                                           192,
                                                                                                                           224) "," TENSOR(LAYER
                                                                                                                                           "mlp.down_proj.weight",
                                                                                                                                           "[4,4]",
                                                                                                                                           224,
                                                                                                                                           256) "}",
         256},
        {"{\"model_type\":\"gpt2\",\"n_embd\":4,\"n_layer\":1,\"n_head\":2,\"n_positions\":16,\"layer_norm_epsilon\":1e-5}",
         "{" TENSOR("wte.weight", "[5,4]", 0, 40) "," TENSOR("wpe.weight", "[16,4]", 40, 168) "," TENSOR(
             "h.0.attn.c_attn.weight", "[4,12]", 168,
             264) "," TENSOR("h.0.attn.bias", "[1,1,4,4]", 264, 296) "," TENSOR("ln_f.weight", "[4]", 296,
                                                                                304) "}",
         304},
        {"{\"model_type\":\"gpt_neox\"," COMMON "\"rotary_pct\":1.0,\"layer_norm_eps\":1e-5}",
         "{" TENSOR("gpt_neox.embed_in.weight", "[5,4]", 0, 40) "," TENSOR(
             "gpt_neox.layers.0.attention.query_key_value.weight", "[12,4]", 40,
             136) "," TENSOR("gpt_neox.layers.0.attention.query_key_value.bias", "[12]", 136, 160) "}",
         160},
        {"{\"model_type\":\"gemma\"," COMMON "\"head_dim\":2,\"rms_norm_eps\":1e-5}",
         "{" TENSOR("model.embed_tokens.weight", "[5,4]", 0, 40) "," TENSOR("model.norm.weight", "[4]", 40,
                                                                            48) "}",
         48},
        {"{\"model_type\":\"mixtral\"," COMMON
         "\"num_local_experts\":2,\"num_experts_per_tok\":1,\"rms_norm_eps\":1e-5}",
         "{" TENSOR("model.embed_tokens.weight", "[5,4]", 0, 40) "," TENSOR(
             LAYER "mlp.experts.gate_up_proj", "[2,8,4]", 40,
             168) "," TENSOR(LAYER "block_sparse_moe.experts.0.w2.weight", "[4,4]", 168,
                             200) "," TENSOR(LAYER "block_sparse_moe.experts.1.w2.weight", "[4,4]", 200,
                                             232) "}",
         232},
        {"{\"model_type\":\"gpt_oss\"," COMMON
         "\"num_local_experts\":2,\"num_experts_per_tok\":1,\"sliding_window\":4,"
         "\"rms_norm_eps\":1e-5}",
         "{" TENSOR(
             "model.embed_tokens.weight", "[5,4]", 0,
             40) ",\"model.layers.0.mlp.experts.gate_up_proj_blocks\":{"
                 "\"dtype\":\"U8\",\"shape\":[2,2,1,16],\"data_offsets\":[40,104]},"
                 "\"model.layers.0.mlp.experts.gate_up_proj_scales\":{\"dtype\":\"U8\",\"shape\":[2,2,1],\"data_offsets\":[104,108]}," TENSOR(
                     LAYER "mlp.experts.gate_up_proj_bias", "[2,2]", 108, 116) "}",
         116},
        {"{\"model_type\":\"baichuan\"," COMMON "\"rms_norm_eps\":1e-5}",
         "{" TENSOR("model.embed_tokens.weight", "[5,4]", 0, 40) "," TENSOR(LAYER "self_attn.W_pack.weight",
                                                                            "[12,4]", 40, 136) "}",
         136},
    };
    for (size_t i = 0; i < COUNT(folders); i++)
        for (size_t k = 0; k < (i ? 2 : COUNT(lines)); k++) {
            size_t n = write_safetensors(folders[i].header, folders[i].n);
            const Part parts[] = {{'c', (const unsigned char *)folders[i].config, strlen(folders[i].config)},
                                  {'s', file, n},
                                  {'j', (const unsigned char *)tokenizer, sizeof tokenizer - 1}};
            write_seed(lines[i ? 2 * k + 1 : k], parts, 3);
            const Part torch[] = {parts[0], write_torch(folders[i].header), parts[2]};
            const char *line = lines[i ? 2 * k + 1 : k];
            if (k < 2) write_seed(i == 1 && k == 0 ? "run pytorch_model.bin -p ab" : line, torch, 3);
        }
}

/* A header of safetensors for tensors in BF16, "name sizes" each, with ',' between sizes; the bytes of all. */
static size_t lay_out(char *header, size_t room, const char *const *tensors, size_t n_tensors) {
    size_t end = 0, used = (size_t)snprintf(header, room, "{");
    for (size_t i = 0; i < n_tensors; i++) {
        const char *sizes = strchr(tensors[i], ' ') + 1, *at = sizes;
        size_t begin = end, n = 2;
        for (char *next; *at; at = *next ? next + 1 : next) n *= strtoul(at, &next, 10);
        end += n;
        used += (size_t)snprintf(header + used, room - used,
                                 "%s\"%.*s\":{\"dtype\":\"BF16\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                                 i ? "," : "", (int)(sizes - 1 - tensors[i]), tensors[i], sizes, begin, end);
    }
    snprintf(header + used, room - used, "}");
    return end;
}

/* Layers that keep a state, a text model beside one for pictures, weights that Git LFS did not bring, an unknown kind. */
static void write_state_seeds(void) {
#define MLP(layer)                                                                                           \
    layer "mlp.gate_proj.weight 4,4", layer "mlp.up_proj.weight 4,4", layer "mlp.down_proj.weight 4,4"
#define ATTENTION(layer, rows)                                                                               \
    layer "self_attn.q_proj.weight " rows ",4", layer "self_attn.k_proj.weight 2,4",                         \
        layer "self_attn.v_proj.weight 2,4", layer "self_attn.o_proj.weight 4,4",                            \
        layer "self_attn.q_norm.weight 2", layer "self_attn.k_norm.weight 2"
#define NORMS(layer) layer "input_layernorm.weight 4", layer "post_attention_layernorm.weight 4"
#define SEES "model.visual.patch_embed.proj.weight 2,3,2,2,2", "mtp.fc.weight 4,8"
#define TEXT(layer) "model.language_model.layers." #layer "."
    static const char *const lines[] = {"run . -p ab -n 2",
                                        "quantize . out F32",
                                        "run . --info",
                                        "run . --tokens -p ab",
                                        "run . --batch config.json -o tokenizer.json",
                                        "study attribute . -p abab --corrupted bab --answer #1 --by gradient "
                                        "--edges --check 2 --svg out --json",
                                        "study faithful . -p abab --corrupted bab --answer #1 --keep "
                                        "L0STATE,L1H0,L1H1 --json",
                                        "study faithful . -p abab --corrupted bab --answer #1 --steps 1 "
                                        "--find 0.1 --nodes"};
    static const char *const qwen35[] = {"model.language_model.embed_tokens.weight 5,4",
                                         "model.language_model.norm.weight 4",
                                         NORMS(TEXT(0)),
                                         TEXT(0) "linear_attn.in_proj_qkv.weight 8,4",
                                         TEXT(0) "linear_attn.in_proj_z.weight 4,4",
                                         TEXT(0) "linear_attn.in_proj_a.weight 2,4",
                                         TEXT(0) "linear_attn.in_proj_b.weight 2,4",
                                         TEXT(0) "linear_attn.conv1d.weight 8,1,2",
                                         TEXT(0) "linear_attn.A_log 2",
                                         TEXT(0) "linear_attn.dt_bias 2",
                                         TEXT(0) "linear_attn.norm.weight 2",
                                         TEXT(0) "linear_attn.out_proj.weight 4,4",
                                         MLP(TEXT(0)),
                                         NORMS(TEXT(1)),
                                         ATTENTION(TEXT(1), "8"),
                                         MLP(TEXT(1)),
                                         SEES},
                             *const qwen3vl[] = {"model.language_model.embed_tokens.weight 5,4",
                                                 "model.language_model.norm.weight 4",
                                                 NORMS(TEXT(0)),
                                                 ATTENTION(TEXT(0), "4"),
                                                 MLP(TEXT(0)),
                                                 SEES},
                             *const lfm2[] = {
                                 "model.embed_tokens.weight 5,4",    "model.embedding_norm.weight 4",
                                 LAYER "operator_norm.weight 4",     LAYER "ffn_norm.weight 4",
                                 LAYER "conv.in_proj.weight 12,4",   LAYER "conv.conv.weight 4,1,3",
                                 LAYER "conv.out_proj.weight 4,4",   LAYER "feed_forward.w1.weight 8,4",
                                 LAYER "feed_forward.w2.weight 4,8", LAYER "feed_forward.w3.weight 8,4"};
#define TEXT_CONFIG                                                                                          \
    "\"text_config\":{\"hidden_size\":4,\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":2," \
    "\"intermediate_size\":4,\"max_position_embeddings\":16,\"vocab_size\":5,\"tie_word_embeddings\":true,"  \
    "\"rope_parameters\":{\"rope_theta\":1e4,\"mrope_section\":[1,0,0],\"partial_rotary_factor\":1.0},"
    static const struct {
        const char *config;
        const char *const *tensors;
        size_t n;
    } folders[] = {
        {"{\"model_type\":\"qwen3_5\"," TEXT_CONFIG "\"num_hidden_layers\":2,\"linear_conv_kernel_dim\":2,"
         "\"linear_key_head_dim\":2,\"linear_value_head_dim\":2,\"linear_num_key_heads\":1,\"linear_num_value_heads\":2,"
         "\"full_attention_interval\":2,\"layer_types\":[\"linear_attention\",\"full_attention\"]}}",
         qwen35, COUNT(qwen35)},
        {"{\"model_type\":\"qwen3_vl\"," TEXT_CONFIG
         "\"num_hidden_layers\":1},\"vision_config\":{\"deepstack_visual_indexes\":[1,2]}}",
         qwen3vl, COUNT(qwen3vl)},
        {"{\"model_type\":\"lfm2\"," COMMON "\"num_key_value_heads\":1,\"norm_eps\":1e-5,\"conv_L_cache\":3,"
         "\"block_ff_dim\":12,\"block_multiple_of\":4,\"full_attn_idxs\":[]}",
         lfm2, COUNT(lfm2)},
        {"{\"model_type\":\"of_tomorrow\",\"vocab_size\":9}", NULL, 0},
    };
    static const char tokenizer[] =
        "{\"decoder\":{\"type\":\"Fuse\"},\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
        "\"merges\":[\"a b\"]}}", /* without a type */
        pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n";
    static char header[1 << 13];
    for (size_t i = 0; i < COUNT(folders); i++)
        for (size_t k = 0; k < COUNT(lines); k++) {
            size_t n_weights = lay_out(header, sizeof header, folders[i].tensors, folders[i].n);
            size_t n = write_safetensors(header, n_weights);
            const Part parts[] = {{'c', (const unsigned char *)folders[i].config, strlen(folders[i].config)},
                                  {'j', (const unsigned char *)tokenizer, sizeof tokenizer - 1},
                                  {'s', file, n}};
            write_seed(lines[k], parts, folders[i].n ? 3 : 2);
            if (k) continue;
            const Part pointers[] = {
                parts[0], parts[1], {'s', (const unsigned char *)pointer, sizeof pointer - 1}};
            write_seed(lines[k], pointers, 3);
            const Part no_words[] = {parts[0], {'j', (const unsigned char *)pointer, sizeof pointer - 1}};
            write_seed(lines[k], no_words, 2);
        }
}

/* Folders without tokenizer.json: those of tests/data, and a small one with weights. */
static void write_old_tokenizer_seeds(void) {
    static const char *const lines[] = {"run . --tokens --special -p the~cat~<a></s>12~~b", "load .",
                                        "quantize . out F32"};
    static const char *const names[][2] = {{"o", "fallback/tokenizer.model"},
                                           {"o", "plain/tokenizer.model"},
                                           {"v", "bytes/vocab.json"},
                                           {"r", "bytes/merges.txt"}};
    static const char vocab
        [] = "{\"a\":0,\"b\":1,\"ab\":2,\"<s>\":3}",
   merges[] = "#version: 0.2\na b\n", added[] = "{\"<c>\":4,\"d\":5}",
   config[] =
        "{\"tokenizer_class\":\"Qwen2Tokenizer\",\"add_bos_token\":true,\"bos_token\":{\"content\":"
        "\"<s>\"},\"added_tokens_decoder\":{\"4\":{\"content\":\" x\",\"special\":true,\"rstrip\":true}}}";
    static unsigned char bytes[4][1 << 15];
    Part parts[6];
    for (size_t i = 0; i < COUNT(names); i++) {
        char path[128];
        snprintf(path, sizeof path, "tests/data/tokenizer/folders/%s", names[i][1]);
        FILE *in = fopen(path, "rb");
        if (!in) abort();
        parts[i] = (Part){*names[i][0], bytes[i], fread(bytes[i], 1, sizeof bytes[i], in)};
        fclose(in);
    }
    parts[4] = (Part){'d', (const unsigned char *)config, sizeof config - 1};
    parts[5] = (Part){'l', (const unsigned char *)added, sizeof added - 1};
    for (size_t i = 0; i < 2; i++) {
        write_seed(lines[i], parts, 1);
        write_seed(lines[i], parts + 1, 1);
        write_seed(lines[i], parts + 2, 3);
        const Part few[] = {parts[1], parts[4], parts[5]},
                   words[] = {{'v', (const unsigned char *)vocab, sizeof vocab - 1},
                              {'r', (const unsigned char *)merges, sizeof merges - 1},
                              parts[4],
                              parts[5]};
        write_seed(lines[i], few, 3);
        write_seed(lines[i], words, 4);
        write_seed(lines[i], words, 3);
    }
}

static void write_word_seeds(void) {
    static const char *const lines[] = {"run",
                                        "run --help",
                                        "run --version",
                                        "study",
                                        "study --help",
                                        "study --version",
                                        "study next --help",
                                        "study ablate --help",
                                        "study nxt",
                                        "run --predikt 3",
                                        "study shape --preset gpt2",
                                        "study shape --preset gpt3-175b --json",
                                        "run a",
                                        "study next a -p x",
                                        "run a -n x",
                                        "quantize",
                                        "quantize --help",
                                        "quantize a out IQ2_XS"};
    for (size_t i = 0; i < COUNT(lines); i++) write_seed(lines[i], NULL, 0);
}

/* Clients send these to `study serve`: requests that are answered, that are refused, and asks, some two in one piece. */
static void write_request_seeds(void) {
    static const char *const asks[] = {
        "[\"next\",\"-p\",\"ab\",\"--json\"]",
        "[\"attend\",\"-p\",\"ab\",\"--json\"]",
        "[\"score\",\"-p\",\"ab a\",\"--words\",\"--json\"]",
        "[\"heads\",\"--repeat\",\"4\",\"--batch\",\"2\",\"--json\"]",
        "[\"lens\",\"-p\",\"ab\",\"--mid\",\"--json\"]",
        "[\"explain\",\"-p\",\"ab\",\"--layer\",\"0\",\"--head\",\"0\",\"--json\"]",
        "[\"ablate\",\"-p\",\"ab\",\"--heads\",\"L0H0\",\"--json\"]",
        "[\"experts\",\"-p\",\"ab\",\"--json\"]",
        "[\"neurons\",\"-p\",\"ab\",\"--neuron\",\"L0N0\",\"--json\"]",
        "[\"view\",\"-p\",\"ab\",\"--json\"]",
        "[\"shape\",\"--json\"]",
        "[\"next\",\"-p\",\"\\u0000\",\"--json\"]",
        "[\"next\",\"-f\",\"b\",\"--json\"]"};
    static const char *const others[] = {
        "GET /61616161616161616161616161616161/ HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost:80\r\nConnection: close\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"};
    char text[1024];
    for (size_t i = 0; i < COUNT(asks) + COUNT(others); i++) {
        const unsigned char model[] = {(unsigned char)('0' + i % 2), (unsigned char)kinds[i % N_KINDS]};
        if (i < COUNT(asks))
            snprintf(text, sizeof text,
                     "POST /61616161616161616161616161616161/ask HTTP/1.1\r\nHost: localhost:80\r\n"
                     "Origin: http://localhost:80\r\nContent-Length: %zu\r\n\r\n{\"argv\":%s}%s",
                     strlen(asks[i]) + 9, asks[i], i % 3 ? "" : others[0]);
        else
            snprintf(text, sizeof text, "%s", others[i - COUNT(asks)]);
        const Part parts[] = {{'A', model, 2}, {'i', (const unsigned char *)text, strlen(text)}};
        write_seed(i % 4 ? "study serve a" : "study serve a -p ab --port 80", parts, 2);
    }
}

/* Data sets, of a file or stdin: both formats, chats, likelihoods, ids twice, lines that are none; files of answers to go on with. */
static void write_batch_seeds(void) {
    static const char *const lines[] = {"run a --batch b --in-order",
                                        "run a --batch - -np 2 -t 2",
                                        "run a --batch b -o answers --in-order -np 3",
                                        "run a --batch b -o answers --parallel 4 -s 3 --temp 1",
                                        "run a --batch b -o out --kv f32 -n 2 --special",
                                        "run a --batch b --chat-template merges.txt -c 40",
                                        "run a --batch b -o b",
                                        "run a --batch b -o a",
                                        "run a --batch b -o /dev/full"};
    static const char *const data[] = {
        "{\"id\":\"x\",\"prompt\":\"ab\",\"max_tokens\":3,\"temperature\":0}\n\n{\"id\":2,\"prompt\":[4,5],\"seed\":7,"
        "\"top_k\":2}\n{\"prompt\":\"abab\",\"stop\":[\"b\",\"ab\"],\"min_p\":0.1}\n{\"id\":2,\"prompt\":\"a\"}\n"
        "{\"id\":\"2\",\"prompt\":\"\",\"n_predict\":-1,\"repeat_penalty\":1.5,\"top_p\":0.9}",
        "{\"custom_id\":\"c\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"model\":\"m\",\"prompt\":\"ab\","
        "\"max_tokens\":2,\"n\":1,\"stream\":false}}\n{\"custom_id\":\"d\",\"url\":\"/v1/chat/completions\",\"body\":{"
        "\"messages\":[{\"role\":\"system\",\"content\":\"b\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
        "\"a<s>\"}]}]}}\n{\"body\":{\"prompt\":\"a\"}}\n{\"custom_id\":null}\n"
        "{\"custom_id\":\"e\",\"temperature\":0,\"body\":{\"prompt\":\"a\"}}\n{\"method\":\"GET\",\"n\":1,"
        "\"body\":{\"prompt\":\"a\"}}\n",
        "{\"id\":1,\"messages\":[{\"role\":\"user\",\"content\":\"ab\"},{\"role\":\"assistant\",\"content\":\"b\","
        "\"reasoning_content\":\"a\"},{\"role\":\"user\",\"content\":\"a\"}],\"frequency_penalty\":1}\nno JSON\n[1]\n"
        "{\"id\":1.5}\n{\"id\":3,\"prompt\":\"a\",\"tools\":[1]}\n{\"id\":4,\"prompt\":\"a\",\"messages\":[]}\n",
        ("{\"id\":1,\"context\":\"ab\",\"continuation\":\" a\"}\n{\"id\":2,\"context\":\"a \",\"choices\":[\"b\",\"ab\",\"a b\"]}\n"
         "{\"id\":3,\"context\":\"\",\"choices\":[\"a\",\"\"]}\n{\"id\":4,\"prompt\":\"a\",\"max_tokens\":1}\n"),
        ("{\"id\":1,\"prompt\":\"ab\",\"max_tokens\":3,\"n\":3,\"logprobs\":2}\n{\"body\":{\"messages\":[{\"role\":\"user\","
         "\"content\":\"a\"}],\"max_tokens\":2,\"n\":2,\"logprobs\":true,\"top_logprobs\":20}}\n"
         "{\"custom_id\":1,\"body\":{\"prompt\":\"a\",\"n\":128,\"max_tokens\":0,\"logprobs\":0}}\n"),
        ("{\"id\":1,\"prompt\":[\"ab\",[4,5],\"a\"],\"max_tokens\":2,\"n\":2,\"seed\":-7,\"skip_special_tokens\":false,"
         "\"top_k\":-1}\n{\"custom_id\":\"c\",\"url\":\"/chat/completions\",\"body\":{\"messages\":[{\"role\":\"user\","
         "\"name\":\"b\",\"content\":[\"a\",{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"assistant\",\"content\":null,"
         "\"tool_calls\":[]}],\"max_tokens\":2,\"response_format\":{\"type\":\"text\"},\"modalities\":[\"text\"],"
         "\"tool_choice\":\"none\",\"min_tokens\":0,\"chat_template_kwargs\":{\"x\":\"<s>\",\"n\":1}}}\n{\"body\":{\"prompt\":[[4],[]]}}\n"
         "{\"body\":{\"prompt\":[[4]],\"stream\":true}}\n")};
    static const char template[] =
        "{% for m in messages %}{{ m.role[0] + (m.name or \"\") + m.content }}{% endfor %}a{{ x }}{{ n }}";
    static const char *const old[] = {"",
                                      "{\"answers_of\": \"a\"}\n",
                                      "{\"answers_of\": ",
                                      "something else",
                                      "{\"answers_of\":\"a\",\"seed\":0,\"special\":[],\"a\\u0000\":1}\n",
                                      "{\"id\":1}\n{"};
    static const char *const cuts[] = {"0", "100", "400", "600", "9999"};
    for (size_t i = 0; i < COUNT(lines); i++)
        for (size_t k = 0; k < COUNT(data); k++) {
            const unsigned char model[] = {(unsigned char)('0' + (i + k) % 2),
                                           (unsigned char)kinds[(i + k) % N_KINDS]};
            const char *cut = cuts[(i + k) % COUNT(cuts)], *was = old[(2 * i + k) % COUNT(old)];
            const Part parts[] = {{'A', model, 2},
                                  {i == 1 ? 'i' : 'b', (const unsigned char *)data[k], strlen(data[k])},
                                  {'r', (const unsigned char *)template, sizeof template - 1},
                                  {'h', (const unsigned char *)cut, strlen(cut)},
                                  {'u', (const unsigned char *)was, strlen(was)}};
            write_seed(lines[i], parts, 4);
            if (strstr(lines[i], "answers")) write_seed(lines[i], parts, 5);
        }
}

void write_seeds(const char *folder) {
    seed_folder = folder;
    write_model_seeds();
    write_pair_seeds();
    write_template_seeds();
    write_key_seeds();
    write_llama2c_seeds();
    write_file_seeds();
    write_tokenizer_seeds();
    write_family_seeds();
    write_folder_seeds();
    write_state_seeds();
    write_old_tokenizer_seeds();
    write_word_seeds();
    write_request_seeds();
    write_batch_seeds();
}
