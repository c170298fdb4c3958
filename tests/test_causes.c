/* Views of causes tell people: refusals, what goes with what, and lines that are told by looking at them. */
#include "words.h"

#define PATCH "$study patch $g -p Hi --corrupted Ho --answer a "
#define FAITHFUL "$study faithful $g -p Hi --corrupted Ho --answer a "
#define SCORE "$study attribute $g -p Hi --score 'L0H0:1>0' "
#define ATTRIBUTE "$study attribute $g -p Hi "
#define NEURONS "$study neurons $g "
#define STEER "$study steer $g -p Hi "
#define NO_ANSWER "--score is about a score and not an answer: leave out "
#define OWN_TEXTS "--pairs has texts and answers of its own: leave out "
#define NO_HEADS "layer 0 has no attention heads: it keeps a state instead"

/* Files of pairs, a JSON object a line. */
static void write_pairs(void) {
    static const char one[] = "{\"clean\": \"Hi\", \"corrupted\": \"Ho\", \"answer\": \"a\"}\n";
    char three[512];
    write_text("one-pair", one, 1);
    write_text("many", one, 65);
    snprintf(three, sizeof three,
             "%s{\"clean\": \"Hi\", \"corrupted\": \"Hoo\", \"answer\": \"a\"}\n"
             "{\"clean\": \"Hi\", \"corrupted\": \"Ho\", \"answer\": \"zz\", \"wrong\": null}\n",
             one);
    write_text("three", three, 1);
    snprintf(three, sizeof three, "%s[]\n", one);
    write_text("odd", three, 1);
    /* Two of the three do not fit; two answers are cut; a wrong one is missing; a cell is not the same in all. */
#define PAIR(clean, corrupted, answer)                                                                       \
    "{\"clean\": \"" clean "\", \"corrupted\": \"" corrupted "\", \"answer\": \"" answer "\""
    write_text("left",
               PAIR("Hi", "Ho", "a") ", \"wrong\": \"a\"}\n" PAIR(
                   "Hi", "Ho", "a") ", \"wrong\": \"b\"}\n" PAIR("Hi", "Ho", "a") ", \"wrong\": \"a\"}\n",
               1);
    write_text("cut",
               PAIR("Hi", "Ho", "a") ", \"wrong\": \"a\"}\n" PAIR(
                   "Hi", "Ho", "zz") ", \"wrong\": \"b\"}\n" PAIR("Hi", "Ho", "zz") ", \"wrong\": \"b\"}\n",
               1);
    write_text("kinds", PAIR("Hi", "Ho", "a") ", \"wrong\": \"b\"}\n" PAIR("Hi", "Ho", "a") "}\n", 1);
    /* Where heads give nothing, the last token alone counts. */
#define STILL PAIR("a b", "b b", "a") "}\n"
#define STIRRED PAIR("a b", "a a", "a") "}\n"
    write_text("alike", STILL, 2);
#define LONGER PAIR("b a b", "b a a", "a") "}\n"
    write_text("longer", STILL LONGER, 1);
    write_text("grows", STIRRED LONGER, 1);
    write_text("stirred", STILL STIRRED STILL STIRRED, 1);
    write_text("first", PAIR("Hi", "Bi", "a") "}\n" PAIR("Hi", "Ho", "a") "}\n", 1);
    write_text("grown", PAIR("a", "b", "b") "}\n", 1);
    write_text("grown-two", PAIR("a", "b", "bc") "}\n", 1);
}

/* How answers and scores are made: what goes with what, what cannot be, and who is named. */
static void test_attribute(void) {
    static const Case cases[] = {
        {"$study attribute --help", {"--score 'L3H4:12>5' instead: why query 12 of L3H4 looks at key 5,"}},
        {"$study attribute $g --ids 1,2 --pairs $P", {OWN_TEXTS "-p, -f and --ids"}, 2},
        {"$study attribute $g --pairs $P -p Hi", {OWN_TEXTS "-p, -f and --ids"}, 2},
        {SCORE "--pairs $P", {NO_ANSWER "--pairs\n"}, 2},
        {SCORE "--corrupted Ho", {NO_ANSWER "--corrupted\n"}, 2},
        {SCORE "--wrong o", {NO_ANSWER "--wrong\n"}, 2},
        {SCORE "--query 1", {NO_ANSWER "--query\n"}, 2},
        {SCORE "--head L0H0", {NO_ANSWER "--head\n"}, 2},
        {SCORE "--neurons 1", {NO_ANSWER "--neurons\n"}, 2},
        {"$study attribute $g --ids 1,2,3 --score 'L0H0:1>0' --top 1",
         {"in query: over all parts of the key"}},
        {"$study attribute $g -f $T/60 --score 'L0H0:1>0' --top 1", {"in query: over all parts of the key"}},
        {"$study attribute $g --score 'L0H0:1>0'", {"give the text with -p or -f\n"}, 2},
        {"$study attribute $g -p 'the cat' --corrupted 'the rat' --answer a --by gradient --top 2 --ascii",
         {"  ###############\n", "!################"}}, /* 0.97 of 16 */
        {"$study attribute $g -p 'the cat' --corrupted 'the rat' --answer a --by gradient --top 2",
         {"\npart                pos  clean         corrupted         score    share\n",
          "\nL1H0 z                6  \"t\"           \"t\"             -0.89"}},
        {"$study attribute $g -p 'the cat' --score 'L1H0:5>3' --top 1 --ascii",
         {"query part  key part         value", "L0H0        L0MLP          +1.03",
          "  ####################\r"},
         0,
         100},
        {"$study attribute $g -p 'the cat' --head L1H0 --top 2 --ascii",
         {"   3 \" \"              0.33", "  ####################\r", "  #############\r",
          "L1H0         +2.77", "  ##########\r"},
         0,
         100},
        {ATTRIBUTE "--score 'L0H0:;>0'",
         {"'L0H0:;>0' is no score such as 'L4H1:11>4' (in quotes), query 11 looking at key 4"},
         2},
        {ATTRIBUTE "--score 'L0H0:99999999999999999999999>0'",
         {"no query has so large a number: there are 2, from 0 on"},
         1},
        {ATTRIBUTE "--svg x", {"--svg is of --by gradient and --by ig"}, 2},
        {ATTRIBUTE "--graph x", {"--graph is of --by gradient and --by ig"}, 2},
        {ATTRIBUTE "--dot x", {"--dot is of --by gradient and --by ig"}, 2},
        {ATTRIBUTE "--corrupted Ho --answer zz --by gradient",
         {"--answer: 'zz' is 2 tokens of this vocabulary, and one is wanted; name it by its id, as #123"},
         1},
        {ATTRIBUTE "--by gradient --answer a --wrong zz",
         {"--wrong: 'zz' is 2 tokens of this vocabulary"},
         1},
        {ATTRIBUTE "--by gradient --answer a --metric foo",
         {"--metric takes logit_diff, logit or logprob, not 'foo'"},
         2},
        {ATTRIBUTE "--by gradient --steps 3", {"--steps is of --by ig"}, 2},
        {ATTRIBUTE "--by gradient --metric logprob --answer a --top 1",
         {"Sum over the embeddings of all tokens: -0.10"}},
        {ATTRIBUTE "--by gradient --metric logit --answer a --top 1",
         {"Sum over the embeddings of all tokens: -0.89"}},
        {ATTRIBUTE "--by gradient --answer a --wrong b --top 1",
         {"Sum over the embeddings of all tokens: -0.70"}},
        {"$study attribute $T/same -p ab --top 2", {"L0H0         +0.0000"}},
        {"$study attribute $g --pairs $T/three",
         {"1 text has an answer of several tokens: the first of them is taken"}},
        {ATTRIBUTE "--corrupted Hi --answer a --by gradient",
         {"the clean and the corrupted text are the same 2 tokens"},
         1},
        {"$study attribute $g -p Hi --head $(yes L0H0 | head -65 | paste -sd,)",
         {"--head takes 64 heads at most\n"},
         1},
        {"printf '' | $study attribute $g --pairs -", {"-: holds no pair that can be asked\n"}, 1},
        {"$study attribute $g --pairs $T/kinds",
         {"line 2: there is no \"wrong\", unlike the lines before"},
         1},
        {"$study attribute $g --pairs $T/left --top 1",
         {"2 texts left out; the first: line 1: the answer and the wrong one begin", "mean of 1 texts\n"}},
        {"$study attribute $g --pairs $T/cut --top 1",
         {"2 texts have an answer of several tokens", "\n1 text left out; it does not fit: line 1: "}},
        {"$study attribute $T/heads -p ab",
         {"434445\nL0     ▒▒ <▓▓<<", "\n\nhead   464748495051525354555657585960616263\nL0     ░░<<▒▒"}},
        {"$study attribute $T/heads -p aab --corrupted aba --answer '#7' --by gradient --edges --svg $T/e.svg && cat $T/e.svg",
         {"width=\"1464\" height=\"204\""}},
        {"$study attribute $T/headless -p ab", {"L0MLP        -0.0102\n", "\nL0attn  ", "!head "}},
        {"$study attribute $T/same -p ab --head L0H0",
         {"L0H0 by the position that it took it from: +0.0000 in all\n",
          "   2 \"ab\"             0.3401   +0.0000\n"}},
        {"$study attribute $g --ids 1,2 --by gradient --top 1", {"the text's nll, nats a token: +12.4963\n"}},
        {"$study attribute $g -f tests/data/study/tale.txt --by gradient --top 1", /* pass after pass; score has the same */
         {"the text's nll, nats a token: +11.7166\n"}},
        {"$study attribute $g -p Hi --by gradient --metric logit_diff --answer a",
         {"--metric logit_diff takes a wrong answer: give it with --wrong"},
         2},
        {"$study attribute $g -p Hi --by gradient --metric logit_diff",
         {"--metric is of an answer: give it with --answer"},
         2},
        {"$study attribute $T/same --ids 1,7 --by gradient --answer '#7'",
         {"of all tokens: +0.0000\n", "!#"}},
        {"$study attribute $g -p Hi --corrupted Ho --answer a --by ig --top 1",
         {"(mean of 10 on the way between their embeddings)", "-0.1416  +1.0395"}},
        {"$study attribute $g -p Hello --by gradient --top 1; $study score $g -p Hello",
         {"metric: the text's nll, nats a token: +8.8714\n", "(8.8714 nats) each"}},
        {"$study attribute $g --pairs $T/one-pair --by gradient --top 1",
         {"metric, in nats: ln of the answer's probability; mean of 1 pair\n"}},
        /* Of "ab", one token, and "abc", "ab" and "c", what follows "a" is what it is by itself. */
        {"sum() { $study attribute $T/nobos \"$@\" | grep ^sum; }; "
         "[ \"$(sum --pairs $T/grown)\" = \"$(sum -p a --answer b)\" ] && "
         "[ \"$(sum --pairs $T/grown-two)\" = \"$(sum -p a --answer bc)\" ] && sum -p a",
         {"sum of all parts +0.7150, logit +0.7150; off by 0.0000\n"}},
        {"mkdir $T/deaf_to_z; echo '{\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, \"d\": 3, "
         "\"e\": 4, \"f\": 5, \"g\": 6, \"h\": 7}}, \"decoder\": {\"type\": \"Fuse\"}, "
         "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"z\"}, \"content\": \"\"}}' >$T/deaf_to_z/tokenizer.json; "
         "echo '{\"clean\": \"a\", \"corrupted\": \"b\", \"answer\": \"z\"}' >$T/z; $study attribute $T/one -z $T/deaf_to_z --pairs $T/z",
         {"z: line 1: \"answer\" is no token\n"},
         1},
        {"$study attribute $g -p Hi --corrupted Ho --answer a --by gradient --edges --noising --top 1 --check 1",
         {"(what is sent in the corrupted run - in the clean one)", "where it is read in the clean run\n",
          "L0H1     final         +3.2149 +23.59"}},
        {"$study attribute $T/same -p aab --corrupted aba --answer '#7' --by gradient --edges --check 3 --json",
         {"\"n_checked\": 3, \"correlation\": null"}},
        {"$study attribute $g --pairs $T/one-pair --by gradient --edges --top 1 --svg $T/e.svg && cat $T/e.svg",
         {"embed    L0H0.v        +4.4144", "</svg>"}},
        {"$study attribute $T/same -p aab --corrupted aba --answer '#7' --by gradient --edges --svg $T/e.svg && cat $T/e.svg",
         {"stroke-width=\"0.60\" opacity=\"0.45\"><title>L0H1 to final: +0.0000"}},
        {"$study attribute $p -p Hi --corrupted Ho --answer '#30' --by gradient --edges --svg $T/e.svg && cat $T/e.svg",
         {"y=\"225.5\" font-size=\"10.0\" text-anchor=\"middle\">MLP<",
          "d=\"M98.0 280.0C98.0 251.0 167.0 261.0 167.0 232.0\"", /* to the middle of L0MLP, */
          "d=\"M121.0 212.0C121.0 117.0 98.0 127.0 98.0 32.0\"",  /* of the logits, */
          "d=\"M75.0 212.0C75.0 163.0 87.7 173.0 87.7 124.0\""}}, /* and of the right third of a head */
    };
    CHECK_CASES(cases);
}

/* Circuits that carry an answer over. */
static void test_patch(void) {
    static const Case cases[] = {
        {"$study patch $g --ids 1,2 --pairs $P", {OWN_TEXTS "-p, -f and --ids"}, 2},
        {"$study patch $g --pairs $P --corrupted x", {OWN_TEXTS "--corrupted"}, 2},
        {"$study patch $g --pairs $P --wrong x", {OWN_TEXTS "--wrong"}, 2},
        {"$study patch $g -p Hi --answer a", {"give the corrupted text with --corrupted"}, 2},
        {"a=$(printf %9000s | tr ' ' a); $study patch $l -c 9003 -p ${a}b --corrupted ${a}c --answer '#5' --what z "
         "--freeze pattern",
         {"more than 512 MiB of the text's vectors: shorten it from 9003 tokens to 1855\n"},
         1},
        {"$study patch $g -p 'the cat sat on' --corrupted 'the cars' --answer a",
         {"from token 6 on: clean \"t\" \" \" \"s\" \"a\" \"t\" ... | corrupted \"r\" \"s\"\n"},
         1},
        {"$study patch $g -p Hi --corrupted Ho", {"say with --answer which token follows the clean text"}, 2},
        {PATCH "--wrong ''", {"--wrong is empty: give a token"}, 2},
        {PATCH "--metric logit_diff", {"--metric logit_diff takes a wrong answer: give it with --wrong"}, 2},
        {PATCH "--metric logit_diff --wrong b --what z --top 1",
         {"metric: logit of \"a\" less that of \"b\""}},
        {"$study patch $g --pairs $T/left --metric logit --what z --top 1",
         {"metric: logit of the answer; mean of"}},
        {PATCH "--wrong a", {"the answer and the wrong one begin with the same token"}, 1},
        {PATCH "--path 'L0H0:L1MXP'", {"--path: 'L0H0:L1MXP' is no list such as"}, 2},
        {PATCH "--path 'L0H0:L1H1'", {"--path: 'L0H0:L1H1' is no list such as"}, 2},
        {PATCH "--path 'L0H0:L1H1.'", {"--path: 'L0H0:L1H1.' is no list such as"}, 2},
        {PATCH "--path 'L0H0:final;'", {"--path: 'L0H0:final;' is no list such as"}, 2},
        {PATCH "--path 'L0H0'", {"--path: 'L0H0' is no list such as"}, 2},
        {PATCH "--path L0H0:L9H1.v", {"--path: layer 9 does not exist: there are 2"}, 1},
        {"$study patch $s -p abcd --corrupted abdd --answer '#5' --path L0STATE:L1MLP,L0STATE:final,L0MLP:L1H0.q",
         {"L0STATE:L1MLP        -0.4579", "L0STATE:final        +0.0412"}},
        {"$study patch $h -p abcd --corrupted abdd --answer '#5' --path L0STATE:L1H0.g,L0STATE:L0MLP",
         {"L0STATE:L1H0.g       -0.3339", "L0STATE:L0MLP        -1.5340"}},
        {"$study patch $s -p abcd --corrupted abdd --answer '#5' --path L1STATE:final",
         {"--path L1STATE:final: layer 1 keeps no state: it has heads"},
         1},
        {"$study patch $s -p abcd --corrupted abdd --answer '#5' --path L0STATE:L1H0.g",
         {"--path L0STATE:L1H0.g: the heads of this model have no gates"},
         1},
        {"$study patch $s -p abcd --corrupted abdd --answer '#5' --path L0STATE:L0STATE",
         {"--path L0STATE:L0STATE: the receiver does not read what the sender writes: take a later one"},
         1},
        {PATCH "--path L0H0:final --what z", {"--path names edges: leave out --what"}, 2},
        {PATCH "--path L0H0:final --top 1", {"--path names edges: leave out --top"}, 2},
        {PATCH "--what neurons", {"--what neurons takes those of one layer: name it with --layer"}, 2},
        {"$study patch $q -p the --corrupted tho --answer o --what neurons --layer 0",
         {"layer 0 has experts: their hidden numbers are not patched"},
         1},
        {PATCH "--what k --layer 1 --top 3", {"L1H0        +0.33", "!L0H"}},
        {PATCH "--what resid --top 0",
         {"2 of 4 have the same bits in both runs: there a patch changes nothing"}},
        {"printf '' | $study patch $g --pairs - --what z", {"-: holds no pairs"}, 1},
        {"cat $T/one-pair | $study patch $g --pairs - --what z --top 1", {"L0H1       +18.41"}},
        {"$study patch $g --pairs $T/odd --what z", {"odd: line 2: is no JSON object"}, 1},
        {"head -c 17000000 /dev/zero | tr '\\0' a | $study patch $g --pairs - --what z",
         {"-: line 1: has more than 16777216 bytes"},
         1},
        {"$study patch $g --pairs $T --what z", {": cannot read: Is a directory\n", "!line"}, 1},
        {"$study patch $g -p Hi --corrupted Ho --answer '' --wrong a",
         {"--answer is empty: give a token\n"},
         2},
        {"$study patch $g -p Hi --corrupted Ho --answer a --path $(yes L0H0:final | head -257 | paste -sd,)",
         {"--path takes 256 edges at most\n"},
         1},
        {"$study patch $g --pairs $T/left --what z --top 1",
         {"mean of 1 pair\n", "2 pairs left out; the first:\nline 1: the answer and the wrong one begin"}},
        {"$study patch $g --pairs $T/cut --what z --top 1",
         {"2 pairs have an answer of several tokens", "1 pair left out; it does not fit:\nline 1: "}},
        {"$study patch $g --pairs $T/first --what resid --top 0", {"L0       ██  \nL1         ██\n"}},
        {"$study patch $T/heads -p aab --corrupted aba --answer '#7' --what head-pos --top 0",
         {"L0H2      . .  <<\nL0H4 ", "only heads that come to 0.11 of the largest somewhere\n"}},
    };
    CHECK_CASES(cases);
}

/* Heads by their weights alone. */
static void test_circuit(void) {
    static const Case cases[] = {
        /* A head's gate is kept with its queries; keys and values with any head that reads them. */
        {"$study faithful $h -p Hi --corrupted Ho --answer '#5' --keep L1H0,L0MLP --json | tr '{' '\\n' | grep -c 'L0MLP\", \"reader\": \"L1H0.[qgkv]\"'; "
         "$study faithful $h -p Hi --corrupted Ho --answer '#5' --keep L1H1,L0MLP --json",
         {"4\n", "\"reader\": \"L1H1.g\"", "\"reader\": \"L1H0.k\"", "!L1H0.g\"", "!L1H0.q\""}},
        {"$study circuit $g -p Hi", {"circuit looks at weights alone: leave out the text"}, 2},
        {"$study circuit $g -f $T/60", {"circuit looks at weights alone: leave out the text"}, 2},
        {"$study circuit $g --composition k", {"L1H0    L0H1      0.156"}},
        {"$study circuit $g --head L0H0 --top 1", {"\n    reads  \"\\xab\"  ", "\n    writes \"\"\" "}},
        {"$study circuit $g --composition v --head L1H0", {"L1H0    L0H0      0.159", "!L1H1"}},
        {"$study circuit $s --head L0H0", {NO_HEADS}, 1},
        {"$study circuit $T/same", {"L0H1        0.000     0.000     1.000     0.000"}},
        {"$study circuit $T/headless", {"study: no layer of this model has attention heads\n"}, 1},
    };
    CHECK_CASES(cases);
}

/* One neuron, or head, and where in a text it is strongest. */
static void test_neurons(void) {
    static const Case cases[] = {
        {NEURONS "--neuron L0N1 --head L0H1", {"--neuron and --head: choose one"}, 2},
        {NEURONS "--head L0H0 -p a --top 2",
         {"--top of --head says how many places of --corpus are shown"},
         2},
        {NEURONS "--head L0H0 --corpus $T/60 -f $T/60", {"--corpus brings its own text: leave out -f"}, 2},
        {NEURONS "--head L0H0 --corpus $T/60 --ids 1", {"--corpus brings its own text: leave out --ids"}, 2},
        {NEURONS "--head L0H0",
         {"neurons needs a text: give it with -p or -f, or a large one with --corpus"},
         2},
        {NEURONS "--neuron l0n1 -p Hi --top 1", {"Relative to the mean over the vocabulary"}},
        {NEURONS "--neuron L0X1 -p Hi", {"--neuron: 'L0X1' is none such as L3N120"}, 2},
        {NEURONS "--neuron LxN1 -p Hi", {"--neuron: 'LxN1' is none such as L3N120"}, 2},
        {NEURONS "--neuron L0Nx -p Hi", {"--neuron: 'L0Nx' is none such as L3N120"}, 2},
        {NEURONS "--neuron L0N1x -p Hi", {"--neuron: 'L0N1x' is none such as L3N120"}, 2},
        {"$study neurons $s --head L0H0 --corpus $T/60",
         {"--head: layer 0 has no attention heads: it keeps a state instead"},
         1},
        {"$study neurons $T/same --neuron L0N0 -p ab", {"Relative to the mean over the vocabulary"}},
        {NEURONS "--neuron L0N1 --corpus $T/60 -c 1",
         {"--ctx-size takes a whole number from 2 to 1000000000, not '1'"},
         2},
        {NEURONS "--neuron L0N1 --corpus $T/60 --special --top 1", {"   3.54"}},
        {NEURONS "--neuron L0N1 --corpus $T/60 --no-bos --top 1", {"   3.54"}},
        {"$study neurons $T/nobos --neuron L0N1 --corpus $T/60 --bos --top 1",
         {"--bos: the vocabulary has no token that begins a text"},
         1},
        /* A corpus is read in pieces of 16 KiB, cut behind a line, before a space, between characters. */
        {"yes aaaa | head -c 40000 | " NEURONS "--neuron L0N0 --corpus - --top 1",
         {"40000 tokens in", "   1.85"}},
        {"yes aaaa | tr '\\n' ' ' | head -c 40000 | " NEURONS "--neuron L0N0 --corpus - --top 1",
         {"40000 tokens in", "   0.258"}},
        {"head -c 40000 /dev/zero | tr '\\0' a | " NEURONS "--neuron L0N0 --corpus - --top 1",
         {"40000 tokens in", "   0.232"}},
        {"yes \xc3\xa9 | tr -d '\\n' | head -c 40001 | " NEURONS "--neuron L0N0 --corpus - --top 1",
         {"40001 tokens in", "   0.189"}},
        {"{ printf x; yes \xc3\xa9 | tr -d '\\n' | head -c 40000; } | " NEURONS
         "--neuron L0N0 --corpus - --top 1",
         {"40001 tokens in", "   2.150"}},
        {"printf ' %040000d' 1 | " NEURONS "--neuron L0N0 --corpus - --top 1",
         {"40001 tokens in", "   0.174"}},
        {"head -c 40000 /dev/zero | tr '\\0' '\\200' | $study neurons $g --neuron L0N0 --corpus - --top 1",
         {"40000 tokens in", "   1.821"}},
        /* of which none begins a character */
        {"$study neurons $g --neuron L0N1 --layer 0 -p Hi",
         {"--neuron names its layer itself: leave out --layer"},
         2},
        {"$study neurons $q --layer 0 -p the", {"this layer has experts: experts have hidden numbers"}, 1},
        {"$study neurons $T/same --head L0H0 -p ab", {"    2 \"ab\"              0.0000\n"}},
        {"$study neurons $T/tiny --neuron L0N0 --corpus $T/60",
         {"-c 1: a window has from 2 to 1 tokens here\n"},
         1},
    };
    CHECK_CASES(cases);
}

/* Directions. */
static void test_steer(void) {
    static const Case cases[] = {
        {STEER "--neuron L+1N3", {"--neuron: 'L+1N3' is no neuron such as L3N120\n"}, 2},
        {STEER "--neuron L1N+3", {"--neuron: 'L1N+3' is no neuron such as L3N120\n"}, 2},
        {STEER "--token a --positions all -n 1", {"steered: \"E\""}},
        {STEER "--token a --positions 0,1 -n 1", {"steered: \"E\""}},
        {STEER "--token a --sweep --answer a --strengths '1;2'",
         {"--strengths takes numbers with commas between them, such as -4,-2,2,4; not '1;2'"},
         2},
        {STEER "--token a --site resid_pre --layers 1 --positions all -n 0 -o $T/pre.npy",
         {"pre.npy: written\n"}},
        {STEER "--token a --sweep --strengths .5,-.5", {"\nlayer      0.5     -0.5\n"}},
        {STEER "--token a -n 0", {"!steered:"}},
        /* The stream is where it is steered, without a BOS unless it alone is. */
        {STEER "--token a -n 0 --bos",
         {"stream: mean length of x there, the BOS left out\n", "      9.5051\n"}},
        {STEER "--token a -n 0 --bos --positions 0", {"stream: mean length of x there\n", "      9.8527\n"}},
        {STEER "--token a -n 0 --bos --positions 0,2", {"the BOS left out\n", "      7.1972\n"}},
        {STEER "--token a -n 0 --positions 0", {"!the BOS left out\n", "     13.8966\n"}},
        {STEER "--token a --strength 2 -n 1", {"steered: \"^\""}},
        {STEER "--plus Up --minus Do --average last -n 1", {"steered: \"V\""}},
        {STEER "--plus Up --minus Do --average x -n 1", {"--average takes mean or last, not 'x'"}, 2},
        {STEER "--plus Up",
         {"a direction is the difference of two: give --plus or --plus-file, and --minus or --minus-file"},
         2},
        {STEER "--neuron L0:1", {"--neuron: 'L0:1' is no neuron such as L3N120"}, 2},
        {STEER "--neuron L/N1", {"--neuron: 'L/N1' is no neuron such as L3N120"}, 2},
        {STEER "--neuron L:N1", {"--neuron: 'L:N1' is no neuron such as L3N120"}, 2},
        {"$study steer $g -p 'the cat' --neuron L0N1 --sweep",
         {"\nlayer        1        2 ", "\n    0   14.4", "\n    1   14.6"}},
        {STEER "--neuron L0N/", {"--neuron: 'L0N/' is no neuron such as L3N120"}, 2},
        {STEER "--neuron L0N:", {"--neuron: 'L0N:' is no neuron such as L3N120"}, 2},
        {"$study steer $T/ends -p ab --token '#7' -n 2", {"without: \"\"\nsteered: \"\"\n"}},
        {"$study steer $T/ends -p ab --token '#7' -n 2 --json",
         {"\"nll_nats\": 4.12061409, \"text\": \"\"}", "\"top1_changed\": 0, \"text\": \"\"}"}},
        {"$study steer $g -p Hi --token a --project --strength 2",
         {"becomes x - (x.u)u, u = d/|d|, 2 times of it;"}},
        {"$study steer $g -p Hi --token a --project --sweep --strengths 1,2",
         {"becomes x - strength*(x.u)u, u = d/|d|; positions: all\n", "    0   15.162   14.538\n"}},
        {"$study steer $g -p Hi --plus Up --minus Do --average mean",
         {"at resid_pre, means over positions\n"}},
        {"$study steer $g -p Hi --minus-file $T/60",
         {"a direction is the difference of two: give --plus or --plus-file, and --minus or --minus-file"},
         2},
        {"$study steer $g -p Hi --direction tests/data/study/one.npy",
         {"d: tests/data/study/one.npy\nresid_post of a layer", "\n    1      2.9407     18.6433\n"}},
        {"$study steer $T/endless -p b --token '#7' -n 0",
         {"the direction of layer 0 has length inf: nothing to steer by\n"},
         1},
        {"$study steer $s -p the --token t -n 2", {"without: \" t,\"\nsteered: \" tv\"\n"}},
        /* A row for the only layer is no vector of any layer. */
        {"$study steer $T/one -p b --token '#7' -n 0 --site resid_post -o $T/d.npy && $study steer $T/one -p b -n 0 --direction $T/d.npy",
         {"d.npy\nresid_post of a layer", "    0      0.5896      0.7151\n"}},
    };
    CHECK_CASES(cases);
}

/* Words in sentences, circuits that are kept, and where attention leads. */
static void test_meaning(void) {
    static const Case cases[] = {
        {"$study meaning $g --word zz -p zza -p b", {"--word: 'zz' is no word of sentence 1, 'zza'"}, 1},
        {"$study meaning $g --word Up -p Up -p ''", {"--word: 'Up' is no word of sentence 2, ''"}, 1},
        {"$study meaning $g --word Up -p Up", {"meaning compares a word in two sentences or more"}, 1},
        {"$study meaning $g -c 4 --word Up -p Up -p 'Up then'",
         {"sentence 2 has 7 tokens, more than the context of 4\n"},
         1},
        {FAITHFUL "--by foo", {"--by takes ig or gradient, not 'foo'"}, 2},
        {FAITHFUL "--outside foo", {"--outside takes resample, mean or zero, not 'foo'"}, 2},
        {"$study faithful $g -p Hi --corrupted Hi --answer a --find 1",
         {"the clean and the corrupted text are the same 2 tokens"},
         1},
        {FAITHFUL "--top 0 --find 1",
         {"19 tries, 20 ways through the model; one by one it would have been 46\n", "!L0H"}},
        {"$study faithful $g --pairs $T/many --find 1", {"many: line 65: --find takes 64 pairs at most"}, 1},
        {"$study rollout $g -p Thex --top 1",
         {"   0 \"T\"              0.4076   0.2552    1.60\n              others   0.5924\n"}},
        {"$study rollout $g -p Thex --top 2",
         {"   3 \"x\"              0.3366   0.3906    0.86\n              others   0.2558\n"}},
        {"$study rollout $g -p Thex", {"!others"}},
        {"$study rollout $s -p the", {"if all looked alike. What values carry and MLPs do is not seen."}},
        {"$study meaning $g --word a $(yes -- '-p a' | head -14)",
         {"  12.\n", "!  13.\n", "(12 of 14 sentences fit; --json has all)\n"}},
        {"$study faithful $g --pairs $T/first --find 1 --kl",
         {"  10.87%        5   -11.7273        0.9211\n", "whole model's: 1.7727 nats\n",
          "26 tries, 54 ways"}},
        {"$study rollout $T/headless -p ab", {"study: no layer of this model has attention heads\n"}, 1},
        {"$study rollout $T/scoreless -p ab --flow",
         {"scoreless: the attention patterns are not finite; the weights hold NaN"},
         1},
    };
    CHECK_CASES(cases);
}

/* The numbers of a text of 300 tokens do not depend on how copies of it go: together, or, in F16, one by one. */
static void test_long_texts(void) {
    static const Case cases[] = {
        {"$study patch $T/wide $a300 --what z", {"L0H1        +1.99", "L0H0        -0.99"}},
        {"$study patch $T/wide $a300 --what z --kv f16", {"L0H1        +1.99", "L0H0        -0.99"}},
        {"$study patch $T/wide $a300 --what pattern", {"L0H0        +0.01", "L0H1        +0.014"}},
        {"$study patch $T/wide $a300 --what pattern --kv f16", {"+0.01", "L0H1        +0.014"}},
        {"$study patch $T/wide $a300 --path L0H0:final", {"L0H0:final           -0.98"}},
        {"$study patch $T/wide $a300 --path L0H0:final --kv f16", {"L0H0:final           -0.98"}},
        {"$study faithful $T/wide $a300 --steps 1",
         {" 20.00%        2    -1.9661        1.99", "100.00%       11    -1.9659        1.0000"}},
        /* nll as of `score` */
        {"$study score $T/wide -f $T/500 | tail -n 2", {"501 tokens scored: 2.8355 bits"}},
        {"$study steer $T/wide -f $T/500 --token '#5' -n 0", {"nll, bits         2.83553"}},
        /* A text of more than 512 tokens keeps no weights below 1/255. */
        {"$study view $T/wide -p $(head -c 510 $T/600) --parts patterns --json",
         {"\"n_tokens\": 512,", "\"patterns\": {\"least\": 0.00196078,"}},
        {"$study view $T/wide -p $(head -c 511 $T/600) --parts patterns --json",
         {"\"n_tokens\": 513,", "\"patterns\": {\"least\": 0.00392157,"}},
        /* Too long. */
        {"$study patch $g $a300", {"a text of 300 tokens is more than the context of 192"}, 1},
        {"$study faithful $g $a300 --keep L0H0:final", {"a text of 300 tokens is more than the context"}, 1},
        {"$study patch $T/one -c 8192 -f $T/6000 --corrupted b$(head -c 5999 $T/6000) --answer '#5' --what pattern -t 1",
         {"pattern of both texts would take more than 512 MiB: shorten them from 6002 tokens to 5590\n"},
         1},
    };
    char both[700], as[300] = "";
    memset(as, 'a', 299);
    snprintf(both, sizeof both, "-p a%s --corrupted b%s --answer #5", as, as);
    setenv("a300", both, 1);
    write_text("600", "a", 600);
    write_text("6000", "a", 6000);
    CHECK_CASES(cases);
}

/* Parts that give nothing, or have nothing to look at. */
static void test_nothing_there(void) {
    static const Case cases[] = {
        {"$study patch $T/same -p 'a b' --corrupted 'b a' --answer '#5'",
         {"the metric is -2.07944 after the clean and the corrupted text alike"},
         1},
        {"$study patch $T/deaf -p 'a b' --corrupted 'a a' --answer '#5' --path L0H0:final",
         {"Both runs have the same bits there: these patches change nothing."}},
        {"$study patch $T/deaf --pairs $T/alike --what z",
         {"none of the 2 pairs fits; line 1: the metric is"},
         1},
        {"$study patch $T/deaf --pairs $T/grows --what resid --top 0",
         {"mean of 1 pair\n", "pos       0 1 2 3 4\n",
          "1 pair left out; it does not fit:\nline 2: 7 tokens, where the pairs before have 5"}},
        {"$study patch $T/deaf --pairs $T/longer --what resid --top 0", /* the first has no positions in the table */
         {"mean of 1 pair\n", "pos       0 1 2 3 4 5 6\n",
          "1 pair left out; it does not fit:\nline 1: the metric is"}},
        {"$study patch $T/deaf --pairs $T/stirred --what resid --top 0",
         {"mean of 2 pairs\n", "clean -3.2547, corrupted -2.7511\n",
          "2 pairs left out; the first:\nline 1: the metric is"}},
        {"$study patch $T/deaf --pairs $T/stirred --path L0MLP:final --json",
         {"\"n_pairs\": 2, \"n_left_out\": 2, \"left_out\": \"line 1: the metric is"}},
        {"$study faithful $T/deaf --pairs $T/stirred --keep L0MLP:final",
         {"mean of 2 pairs\n", "2 pairs left out; the first:\nline 1: the metric is"}},
        {"$study faithful $T/deaf --pairs $T/stirred --find 1 --kl",
         {"mean of 2 pairs\n", "2 pairs left out; the first:\nline 1: the metric is"}},
        {"$study patch $g -p Hi --corrupted Ho --answer a --path L1H0:L0MLP",
         {"the receiver does not read what the sender writes"},
         1},
        {"$study faithful $l -p Hi --corrupted Ho --answer '#5' --keep L0H0:L1H3.k",
         {"'L0H0:L1H3.k' is no list"},
         1} /* of 2 kv heads */,
        {"$study circuit $T/same --head L0H0 --token '#5'",
         {"\"a\"            → \"<s>\"              +0.000"}},
        {"$study circuit $T/same --head L0H0 --json", {"{\"singular\": 0, \"share\": 0, "}},
        {"$study circuit $T/still --composition q", {"L1H1    L0H0      0.0000"}},
        {"$study rollout $T/sunk -p 'a b' --json", {"\"token\": \"b\", \"rollout\": 1,", "!\"rollout\": 0."}},
        {"$study rollout $T/states --ids 1,2", {"no layer of this model has attention heads"}, 1},
        {"$study heads $T/mute --repeat 2", {"no token of this vocabulary stands for text"}, 1},
        {"$study view $T/mute --ids 4,5 --json", {"\"repeat\": null"}},
        {"$study heads $g -c 2 --no-bos --json", {"\"n_tokens\": 2,", "\"repeat_gain_nats\": null"}},
        /* BOS alone is a text, too: its embedding less the mean of those of " " and "a" */
        {"$study steer $T/one -p ab --plus '' --minus a -n 0", {"    0      1.0915 "}},
        {"$study neurons $T/mixed -p ab --top 12",
         {"L0N5            0.0371", "L0N1            0.0044", "!L1N"}},
        {"$study attribute $T/clamped -p ab --score 'L0H1:2>1' --json",
         {"\"uncapped\": 0.02569", "\"sum\": 0.02569"}},
        {"$study score $T/blank --ids 1,5,6,7 --words", {"9.50  \"a\" \"\" \"b\""}},
        {"$study meaning $T/hollow --word a -p a -p 'b a' --json",
         {"\"cosines\": [null]", "\"token\": \"\\u003cunk>\", \"cosine\": 0}"}},
        {"$study meaning $T/hollow --word a -p a -p 'b a'", {"0_pre            -        -\n", "!nan"}},
        {"$study meaning $T/hollow --word b -p b -p 'a b' --layer 0 --top 8 --json",
         {"\"token\": \"a\", \"cosine\": 0}", "\"token\": \"b\", \"cosine\": 1}"}},
    };
    CHECK_CASES(cases);
}

int main(void) {
    words_begin();
    setenv("P", "tests/data/study/pairs.jsonl", 1);
    setenv("q", "tests/data/reference/qwen3moe.gguf -z tests/data/study/letters.gguf", 1);
    setenv("s", "tests/data/reference/lfm2.gguf -z tests/data/study/letters.gguf", 1);
    setenv("h", "tests/data/reference/qwen35.gguf -z tests/data/study/letters.gguf", 1);
    write_pairs();
    RUN(test_attribute);
    RUN(test_patch);
    RUN(test_circuit);
    RUN(test_neurons);
    RUN(test_steer);
    RUN(test_meaning);
    RUN(test_long_texts);
    RUN(test_nothing_there);
    return words_end();
}
