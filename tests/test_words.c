/* Each view's words for people. */
#include "words.h"

#define NO_HEADS_AT_ALL "study: no layer of this model has attention heads\n"

static void test_ablate(void) {
    static const Case cases[] = {
        {"$study ablate $g -p Hello --heads L0H0 --hard-zero", {"L0H0 set to zero, value bias and all\n"}},
        {"$study ablate $g -p Hello --heads L0H0", {"L0H0 set to zero (a head: to its value bias"}},
        {"$study ablate $g -p Hello --mlps 1", {"L1MLP set to zero\n"}},
        {"$study ablate $T/headless -p ab --sweep heads", {NO_HEADS_AT_ALL}, 1},
        {"$study attend $T/headless -p ab", {NO_HEADS_AT_ALL}, 1},
        {"$study circuit $T/headless --composition q", {NO_HEADS_AT_ALL}, 1},
        {"$study patch $T/headless -p 'b b' --corrupted 'b ab' --answer '#3' --wrong '#4' --what z",
         {NO_HEADS_AT_ALL},
         1},
        /* The strongest has the longest bar, of 24. */
        {"$study ablate $g -p Hello --sweep heads --ascii", {"%  ########################\nL"}},
        {"NO_COLOR=1 $study ablate $l -p Hello --heads L0,L1 --mlps 0,1",
         {"L0H0 L0H1 L0H2 L0H3 L1H0 L1H1 L1H2 L1H3 L0MLP L1MLP \r\nset to zero"},
         0,
         60},
        {"NO_COLOR=1 $study ablate $l -p Hello --heads L0,L1 --mlps 0,1",
         {"L0H0 L0H1 L0H2 L0H3 L1H0 L1H1 L1H2 L1H3 \r\nL0MLP L1MLP \r\nset to zero"},
         0,
         40},
        {": >$T/none; $study ablate $g -p Hello --heads L0H0 --by mean --with $T/none",
         {"none: the file is empty\n"},
         1},
        {"$study ablate $g -p Hello --heads L0H0 --by mean --with $T/500",
         {"500: 500 tokens, more than the context of 192\n"},
         1},
        {"$study ablate $g -p Hello --heads L0H0=0.5,L0H1",
         {"L0H0=0.5 L0H1 set to zero",
          "=f: f of what it writes, and 1 - f of what it is set to; =1 changes nothing\n"}},
    };
    CHECK_CASES(cases);
}

static void test_attend(void) {
    static const Case cases[] = {
        /* A map says what it is of, and what its numbers are. */
        {"$study attend $g -p Hello --reduce mean",
         {" mean of all heads\n", "Attention weights of a query", ";\na row sums to 1.\n"}},
        {"$study attend $g -p Hello --reduce max", {" max of all heads\n", "!sums to 1"}},
        {"$study attend $g -p Hello --layer 1 --reduce max", {" L1 max of heads\n"}},
        {"$study attend $T/one -p ab --reduce mean", {" mean of all heads\n"}},
        {"$study attend $T/one -p ab --layer 0 --reduce mean", {" L0 mean of heads\n"}},
        {"$study attend $g -p Hello --by value", {"Attention weight × ‖v W_O‖ of a query", "!sums to 1"}},
        {"$study attend $g -p Hello --by value --ascii", {"Attention weight * |v W_O| of a query"}},
        {"$study attend $g -p Hello --by value --norm", {"‖v W_O‖ of a query", "a row sums to 1"}},
        {"$study attend $g -p Hello --no-sink --layer 0 --head 1",
         {"without token 0 (sink: what it held), renormalised", "  sink  0.", "  strongest key\n"}},
        {"NO_COLOR=1 $study attend $g -p Hello", {"; a row sums to 1.\r\n"}, 0, 120},
        /* Maps side by side, and what does not fit. */
        {"$study attend $g -p Hi",
         {"L0H0          L0H1          L1H0          L1H1\n", " 0 1           0 1 "}},
        {"$study attend $g -f $T/60 --layer 0 --head 0",
         {"Only the last 40 of 60 tokens fit; --query", "!strongest key"}},
        {"$study attend $g -f $T/words --words", {"Only the last 40 of 51 words fit"}},
        /* One query. */
        {"$study attend $g -p Hello --layer 0 --head 0 --query 3 --top 1",
         {" key token           weight\n", "     others         "}},
        {"$study attend $g -p 'a b' --layer 0 --head 0 --query 1 --by value --words",
         {" key word             value\n", "!others"}},
        {"$study attend $g -p Hello --layer 0 --head 0 --query 3 --no-sink", {"\nL0H0   sink 0."}},
        {"$study attend $T/same -p ab --query 1 --by value --layer 0 --head 0", {" value\n", " 0.0000\n"}},
        {"$study attend $T/same -p ab --by value", {"cells:   "}},
        {"$study attend $g -p Hello --layer 0 --head 0 --query 3 --top 0 --by value",
         {"     others         "}},
        {"NO_COLOR=1 $study attend $g -p Hello -n 1 --layer 0 --head 0",
         {"   4 \"o\"             "},
         0,
         40}, /* room for one all the same */
        /* Where a query stands: the last token, or word, of that text. */
        {"$study attend $g -p 'x9 y9z {q} Qa [k]' --query y9z --json", {"\"query\": 5, \"patterns\""}},
        {"$study attend $g -p 'x9 y9z {q} Qa [k]' --query {q --json", {"\"query\": 8, \"patterns\""}},
        {"$study attend $g -p 'x9 y9z {q} Qa [k]' --query y9 --json",
         {"'y9' is no token or word of the text"},
         1},
        {"$study attend $g -p 'cat (cat{cat} cat2 cats Cat' --query cat --json",
         {"\"query\": 11, \"patterns\""}},
        {"$study attend $g -p 'cat caté' --query cat --json", {"\"query\": 2, \"patterns\""}},
        {"$study attend $g -p 'cat Zcat' --query cat --json", {"\"query\": 2, \"patterns\""}},
        {"$study attend $g -p Hello --layer 0 -n 3", {"choose it with --layer and --head or --reduce\n"}, 2},
        {"$study attend $g -p Hello --top 3", {"--top says how many keys of a row are listed"}, 2},
        {"$study attend $g -p Hello --layer 0 --head 0 -n 1 --temp 1 --top 1", {"   4 \"o\" "}},
        {"$study attend $g -p Hello --temp 1", {"--temp is of what is written: give -n too\n"}, 2},
        {"$study attend $g -p Hello --layer 0 --head 0 --query 0 --top 1", {"\"H\"             1.0000\n"}},
        {"$study attend $g -p Hello --layer 0 --head 0 -n 3 --words",
         {"-n goes without --words: its queries are the new tokens\n"},
         2},
        {"$study attend $g -f $T/500 --layer 0 --head 0 -n 3",
         {"-n 3: after 500 tokens of text the context of 192 has room for 0\n"},
         1},
        {"$study attend $g -p Hello --layer 0 --head 0 -n 500",
         {"-n 500: after 5 tokens of text the context of 192 has room for 187\n"},
         1},
        {"NO_COLOR=1 $study attend $o -p 'the tin' --layer 0 --head 0",
         {";\r\na row sums to 1 with what the head's"},
         0,
         120},
        {"$study attend $o -p 'the tin' --layer 0 --head 0 --norm", {";\na row sums to 1.\n"}},
    };
    CHECK_CASES(cases);
}

static void test_compare(void) {
    static const Case cases[] = {
        {"$study compare $g $g -p H", {"give a text of two tokens or more\n"}, 1},
        {"$study compare $T/one $T/swapped -p ab", {"token 2 of the text is 7 to ", " and 5 to "}, 1},
        {"$study compare $T/one $T/swapped --ids 4,7", {"token 1 of the text, #7, is not the same to "}, 1},
        {"$study compare $T/one $T/renamed --ids 4,5", {"token 1 of the text, #5, is not the same to "}, 1},
        {"$study next $g -p Hi --ids 999", {"--ids takes numbers from 0 to 256 with commas between them"}, 1},
        {"$study compare $T/one $T/two --ids 4,5,6", {"one  llama F32  3 tokens  bos no", "\nnll, bits "}},
        {"$study compare $T/one $T/two -p a --ids 5", {"one  llama F32  4 tokens  bos yes"}},
        {"$study compare $T/one $T/long -p aaaa", {"the text is 6 tokens to ", " and 4 to "}, 1},
        {"$study compare $T/long $T/one -p aaaa", {"the text is 4 tokens to ", " and 6 to "}, 1},
        {"$study compare $T/one $T/two -p ab",
         {"patterns are not compared: 1 layer of 2 heads against 2 of 2\n", "!|A_B - A_A|"}},
        {"$study compare $T/one $T/two -p ab --json", {"\"layers\": null}"}},
        {"$study compare $T/one $T/same -p ab --ascii",
         {"  at\n", "  ########################\n", "|A_B - A_A|"}},
        {"$study compare $T/one $T/same -p ab", {"  at\n", "2>0\n", "!#"}},
        {"$study compare $g $g -p Hello", {"0       0.000000  0.000000\n", "!0>", "   +0.00000\n"}},
        {"$study compare $g $g -p Hello", {"\rtokens 0/5\r\033[K"}, 0, -80},
        {"$study case docs/cases/1-dot.json", /* a name takes 12 columns, a number 10 */
         {"\n                    d0        d1        d2\ncat             2.0000    1.0000    0.0000\n"}},
        {"$study compare $T/one $T/headless -p ab",
         {"   largest  at\n0              -         -\n|A_B - A_A| of"}},
    };
    CHECK_CASES(cases);
}

static void test_dump(void) {
    static const Case cases[] = {
        {"$study dump $p -p Hi -o $T/x.npz", {"blocks.1.hook_resid_pre", "!hook_resid_mid", "logits"}},
        {"$study dump $p -p Hi -o $T/x.npz --what q,resid_mid",
         {"has no resid_mid; its attention and MLP both read resid_pre\n"},
         1},
        {"$study dump $p -p Hi -o $T/x.npz --what expert_weights",
         {"no expert_weights; it has no experts\n"},
         1},
        {"$study dump $p -p Hi -o $T/x.npz", {"!router_logits", "!result", "!pos_embed", "hook_rot_k"}},
        {"$study dump $p -p Hi -o $T/x.npz --what pos_embed", {"no pos_embed; it learned no positions\n"}, 1},
        {"$study dump tests/data/reference/phi2.gguf -z tests/data/study/letters.gguf -p hi -o $T/x.npz --what ln2_scale",
         {"no ln2_scale; no norm of their own"},
         1},
        {"$study dump $g -p Hi -o $T/x.npz --what rot_q", {"no rot_q; it has no RoPE\n"}, 1},
        {"$study dump $o -p Hi -o $T/x.npz --what mlp_pre", {"no mlp_pre; all its MLPs are experts\n"}, 1},
        {"$study dump $g -p Hi -o $T/x.npz --what heat",
         {"there is no 'heat'; there are embed, pos_embed"},
         2},
        {"$study dump $g -p Hi -o $T/x.npz --what result,embed --layers 1",
         {"hook_embed", "blocks.1.attn.hook_result", "2 x 2 x 40", "!blocks.0"}},
        {"$study dump $o -p Hi -o $T/x.npz --what router_logits",
         {"blocks.2.mlp.hook_router_logits", "4 x 4"}},
        {"$study dump $g -p Hi -o $T/x.npz --what q,k",
         {"\rchecksums 0/6", "\rchecksums 5/6\r\033[K"},
         0,
         -80},
        {"$study dump $T/narrow -p a -o $T/x.npz",
         {"attn.hook_q ", "3 x 2 x 6", "hook_resid_pre", "3 x 4", "logits"}},
        {"$study dump $g -p Hi -o $T/x.npz --what q", {"attn.hook_q", "!logits"}},
        {"$study dump $T/loud -p ab -o $T/x.npz --what resid_pre --half",
         {"numbers are beyond float16's 65504 and became infinite; leave out --half\n"}},
        {"$study dump $T/loud -p ab -o $T/x.npz --what resid_pre", {"!beyond float16"}},
    };
    CHECK_CASES(cases);
}

static void test_neurons(void) {
    static const Case cases[] = {
        {"$study neurons $g",
         {"neurons needs a text: give it with -p or -f, or a large one with --corpus\n"},
         2},
        {"$study neurons $o -p hi", {"all layers have experts: experts have hidden numbers"}, 1},
        {"$study neurons $o -p hi --neuron L0N0",
         {"layer 0 has experts, whose hidden numbers are not shown\n"},
         1},
        {"$study neurons $g -p hi --neuron 3", {"--neuron: '3' is none such as L3N120\n"}, 2},
        {"$study neurons $g -p hi --neuron L0H0", {"--neuron: 'L0H0' is none such as L3N120\n"}, 2},
        {"$study neurons $g -p hi --head L0H1x", {"--head: 'L0H1x' is none such as L3H4\n"}, 2},
        {"$study neurons $g -p hi --neuron L2N0", {"layer 2 does not exist: there are 2, from 0 on\n"}, 1},
        {"$study neurons $g -p hi --neuron L1N84",
         {"neuron 84 does not exist: a layer has 84, from 0 on\n"},
         1},
        {"$study neurons $g -p hi --neuron L1N99999999999999999999999", {"a layer has 84, from 0 on\n"}, 1},
        {"$study neurons $g -p hi --head L1H2", {"head 2 does not exist: a layer has 2, from 0 on\n"}, 1},
        {"$study neurons $g -p hi --layer 2", {"layer 2 does not exist: there are 2, from 0 on\n"}, 1},
        {"$study neurons $g -p hi --head L0H0 --neuron L0N0", {"choose one\n"}, 2},
        {"$study neurons $g -p hi --head L0H0 --layer 0", {"--head names its layer itself"}, 2},
        {"$study neurons $g --corpus $T/60", {"name it, --neuron L3N120 or --head L3H4\n"}, 2},
        {"$study neurons $g -p a --corpus $T/60 --head L0H0",
         {"--corpus brings its own text: leave out -p\n"},
         2},
        {"$study neurons $g --corpus $T/absent --head L0H0", {"absent: cannot open: No such file"}, 1},
        {"$study neurons $g --corpus $T --head L0H0", {"cannot read: Is a directory\n"}, 1},
        {"$study neurons $g --corpus - --head L0H0 </dev/null", {"--corpus -: there is no text in it\n"}, 1},
        {"$study neurons $g --corpus $T/60 --head L0H0 -c 193",
         {"-c 193: a window has from 2 to 192 tokens"},
         1},
        {"$study neurons $g --corpus $T/60 --head L0H0 --top 0", {"--top 0 leaves nothing"}, 2},
        {"printf 'a\\nbc\\nd' | $study neurons $g --corpus - --neuron L0N1 -c 2 --top 9",
         {"6 tokens", "of 2;", "\\n"}},
        {"$study neurons $g --corpus $T/500 --neuron L0N1 --top 2",
         {"[a]", "500 tokens in windows of 192"},
         0,
         80},
        {"$study neurons $g --corpus $T/500 --neuron L0N1 --ascii", {"[a]"}, 0, 40},
        {"$study neurons $G -p 'the tin' --neuron L0N1", {"The norm behind the MLP divides", "soft cap of"}},
        {"$study neurons $g -p hi --neuron L0N1 --top 0",
         {"lowered\nRelative", "L0N1: the hidden number, as W_down reads it\n"}},
        {"$study neurons $g -p hi --head L0H1 --ascii",
         {"L0H1: |z W_O|: the length of what the head adds, before a scale or norm behind\n"}},
    };
    CHECK_CASES(cases);
}

static void test_experts(void) {
    static const Case cases[] = {
        {"$study experts $p -p hi", {"the model has no experts: all tokens go through the same MLP\n"}, 1},
        {"$study experts $o -p hi --layer 3", {"layer 3 does not exist: there are 3, from 0 on\n"}, 1},
        {"$study experts $o -p hi", {"2 of 4 experts", "layer 0 ", "layer 2 ", "   2 \"h\"", "alike: 50.0%"}},
        {"$study experts $o -p hi --layer 1", {"layer 1 ", "!layer 0 "}},
        {"$study experts $o -p hi --layer 1", {" 1.0000 …"}, 0, 40},
        {"$study experts $o -p hi --layer 1 --ascii", {" 1.0000 .."}, 0, 40},
        {"$study experts $p -p hi --layer 0",
         {"this layer has no experts: all tokens go through the same MLP\n"},
         1},
    };
    CHECK_CASES(cases);
}

/* Families' own ways with scores, rows and outputs (measures/scores.h). */
static void test_families(void) {
    static const Case cases[] = {
        {"$study explain $o -p 'the tin' --layer 0 --head 1",
         {"(exp(sink) + Σ_j exp(score_j))  over keys 2 to 6; others masked\n",
          "2 before the window of 5 are masked\n", "learned sink",
          "sum                                       1.0000"}},
        {"$study explain $G -p 'the tin' --layer 0 --head 1",
         {"2.5·tanh(q·k_k / √d_head / 2.5)", "= norm(W_O Σ",
          "‖output‖ = ", "The norm behind attention divides", "Logits before their soft cap of 3.\n"}},
        {"$study explain $G -p 'the tin' --layer 0 --head 1 --ascii",
         {"2.5*tanh(q.k_k / sqrt(d_head) / 2.5)", "|output| = "}},
        {"$study explain ${G%gemma2*}bloom.gguf ${G#* } -p 'the tin' --layer 0 --head 1",
         {"q·k_k / √d_head − slope·(query − k)", ", slope = 0.0625\n", "!RoPE"}},
        {"$study explain ${G%gemma2*}granite.gguf ${G#* } -p 'the tin' --layer 0 --head 1",
         {"q·k_k·0.4 ", "0.5·W_O Σ", "; q, k after RoPE\n", "!√d_head"}},
        {"$study explain ${G%gemma2*}qwen3.gguf ${G#* } -p 'the tin' --layer 0 --head 1",
         {"; q, k after their norm and RoPE\n"}},
        {"$study attend $o -p 'the tin' --layer 0 --head 0",
         {"sums to 1 with what the head's learned sink takes"}},
        {"$study attend $G -p 'the tin' --layer 0 --head 0 --by value",
         {"W_O: times the gains of the norm behind"}},
        {"$study attend ${G%gemma2*}granite.gguf ${G#* } -p 'the tin' --layer 0 --by value",
         {"W_O: times the residual scale, 0.5.\n"}},
        {"$study heads $o -p 'the tin'",
         {"learned  what goes to", "and its learned sink", ", without a window\n"}},
        {"$study heads $G -p 'the tin'", {"!learned"}},
        {"$study selfcheck $o", {"pass  pattern rows and sinks sum to 1"}},
        {"$study shape ${o% -z*}",
         {"n_expert 4  n_expert_used 2\n", "7,136 of the\nparameters", "expert down", "last 5 keys alone.\n",
          "8.31 KiB", "2.27 M     17.0 k"}},
    };
    CHECK_CASES(cases);
}

static void test_explain(void) {
    static const Case cases[] = {
        {"$study explain $g -p Hello", {"explain takes one head: name it with --layer and --head\n"}, 2},
        {"$study explain $g -p Hello --head 1",
         {"explain takes one head: name it with --layer and --head\n"},
         2},
        {"$study explain $g -p Hello --layer 0 --head 0 --query 1",
         {"    2 \"l\"                    -        -     −∞       0\n", "    4 \"o\"", "!more are masked",
          "!lighter keys"}},
        {"$study explain $g -p Hello --layer 0 --head 0 --query 1 --ascii", {" -        -   -inf       0\n"}},
        {"$study explain $g -p Hello --layer 0 --head 0",
         {"(the query is the last token: there is none after it to mask)\n"}},
        {"$study explain $g -f $T/60 --layer 0 --head 0 --query 40",
         {" lighter keys left out: 0.", " more are masked\n"}},
        {"$study explain $T/normed -p ab --layer 0 --head 0", {"√d_head = 1.414; q, k after their norm\n"}},
    };
    CHECK_CASES(cases);
}

static void test_heads(void) {
    static const Case cases[] = {
        {"$study heads $g --repeat 9 --batch 1 --no-bos",
         {"1 time 9 random tokens and the same again; repeat gain "}},
        {"$study heads $g --repeat 9 --batch 2",
         {"2 times BOS, 9 random tokens and the same again; repeat gain "}},
        {"$study heads $T/nobos --repeat 2 --batch 1", {"1 time 2 random tokens and the same again"}},
        {"NO_COLOR=1 $study heads $g --repeat 9 --batch 1",
         {"no room for (see --json): /max, conf, tl_mul, tl_abs, dist\r\n",
          "head     entropy  sink  self  prev   dup   ind  tl_diag  label"},
         0,
         60},
        {"$study heads $m --repeat 50 --batch 1",
         {"  induction\n", "  previous\n", "no room for (see --json): tl_mul, tl_abs\n"}},
        {"$study heads $g -p Hello --repeat 9", {"leave out -p\n"}, 2},
        {"$study heads $g -f $T/60 --batch 2", {"leave out -f\n"}, 2},
    };
    CHECK_CASES(cases);
}

static void test_lens(void) {
    static const Case cases[] = {
        {"$study lens $T/ends -p ab", {"the model expects \"</s>\": on top from 0_pre on\n"}},
        {"$study lens $p -p Hi --mid",
         {"N_mid    does not exist: this model's attention and MLP stand side by side\n"}},
        {"$study lens $g -p Hi --mid", {"N_mid    the same between the layer's attention and its MLP\n"}},
        {"$study lens $g -p Hi --frozen-norm",
         {"Every row is divided by the scale of the last one's norm.\n"}},
        {"$study lens $g -p Hi --top 0", {"!likeliest"}},
        {"$study lens $g -p Hi --top 1", {"  likeliest\n", "!fit)"}},
        {"$study lens $g -p Hi --top 9", {"  likeliest (4 of 9 fit)\n"}},
        {"NO_COLOR=1 $study lens $g -p Hi --top 2",
         {"  \"i\"            0.99  \"\\xfc\"         0.00"},
         0,
         80},
        {"NO_COLOR=1 $study lens $g -p Hi --top 2", {"  \"i\"       0.99  \"\\xfc\"    0.00"}, 0, 70},
        {"NO_COLOR=1 $study lens $g -p Hi --token '#104'",
         {"; also followed: \"", "  likeliest (1 of 5 fit)\r\n"},
         0,
         40},
        {"$study lens $g -p Hi --token '#'", {"; also followed: \"#\"\n"}},
    };
    CHECK_CASES(cases);
}

static void test_next(void) {
    static const Case cases[] = {
        {"$study next $T/ends -p ab --top 3",
         {"    1  \"</s>\"", "    2  \"<unk>\"", "    2  \"<s>\"",
          "--temp, --top-k, --top-p, --min-p show"}}, /* a tie has one rank */
        {"$study next $T/same -p ab --top 9",
         {"    1  \"ab\"", "as open as an even choice among 8.0 of the 8 tokens"}},
        {"$study next $T/same -p ab --top-k 5 --min-p 0.25",
         {"after top-k 5, min-p 0.25, 5 tokens may be drawn, with 62.500% of p"}},
        {"$study next $T/same -p ab --temp 2 --top-p 0", {"after temperature 2, ", "!top-p 0"}},
        {"$study next $T/same -p ab --top-p 0.55", {"after top-p 0.55, 5 tokens may be drawn"}},
        {"$study next $T/ends -p ab --temp 0", {"after temperature 0, 1 token may be drawn, "}},
        {"$study next $T/same -p ab --min-p 0.5",
         {"after min-p 0.5, 8 tokens may be drawn, with 100.000% of p"}},
        {"$study next $T/same -p ab --draw 0", {"after temperature 0.8, top-p 0.95, ", "drawn: "}},
        {"$study next $T/same -p ab --draw 0 --temp 1 --top-p 1", {"!may be drawn", "drawn: "}},
        {"$study next $T/same -p ab --repeat-penalty 2 --samplers 'penalties;top_k'",
         {"after penalties, in an order of its own, 8 tokens may be drawn"}},
        {"$study next $T/same -p ab --temp 2 --top-k 5 --samplers top_k",
         {"after top-k 5, in an order of its own, 5 tokens may be drawn"}},
        {"$study next $T/same -p ab --top-k 5 --repeat-penalty 2 --repeat-last-n 0",
         {"after top-k 5, 5 tokens may be drawn"}},
        {"$study next $T/wishes -p ab --draw 0",
         {"study: note: the file asks for what is not done here: XTC, general.sampling.\\u001b[2J\n"}},
        {"$study next $T/wishes -p ab", {"!note: "}},
        {"$study next $T/wishes -p ab --draw 0 --json",
         {"\"not_done\": [\"XTC\", \"general.sampling.\\u001b[2J\"]", "!note: "}},
        {"$study next $T/same -p ab --samplers warm", {"study: --samplers 'warm' is no step"}, 2},
        {"$study next $T/one --ids 1,4 --json", {"\"bos\": true"}},
        {"$study next $T/one --ids 4,1 --json", {"\"bos\": false"}},
    };
    CHECK_CASES(cases);
}

static void test_score(void) {
    static const Case cases[] = {
        {"$study score $g -p Hi", {"\n1 token scored: ", "!tokens scored"}},
        {"$study score $g -p Hello -c 2 --chunks",
         {"-c 2 is too short a window to score in: -c 3 at least\n"},
         1},
        {"$study score $T/wide -p ab --chunks",
         {"--chunks of 512 needs a text of 1024 tokens or more, and this one has 3"},
         1},
        {"$study score $T/one -p '' --bos", {"the text is empty: there is nothing to score\n"}, 1},
        {"$study score $g -p H", {"--bos puts a token there\n"}, 1},
        {"NO_COLOR=1 $study score $g -p Hi --top 2", {"likelier, with p\r\n", "\r\n       "}, 0, 64},
        {"NO_COLOR=1 $study score $g -p Hi --top 2", {"likelier, with p\r\n"}, 0, 40},
        {"NO_COLOR=1 $study score $g -p Hi", {"likelier, with p\r\n", "!%\r\n"}, 0, 40},
        {"$study score $g -p Hi --top 4",
         {"%\n                                              "}}, /* three a line */
    };
    CHECK_CASES(cases);
}

static void test_selfcheck(void) {
    static const Case cases[] = {
        {"$study selfcheck $g --kv f16",
         {"pass  whole prompt equals token by token            0      0.002\n", "!FAIL"}},
        {"$study selfcheck $g --kv q8_0",
         {"pass  whole prompt equals token by token            0       0.02\n", "!FAIL"}},
        {"$study selfcheck $T/same -p ab",
         {"pass  last lens row equals the output", "!FAIL"}}, /* logits without a span */
        {"$study selfcheck $T/nan -p ab",
         {"nan: the logits are not finite; the weights hold NaN or infinity"},
         1},
        {"$study selfcheck $T/headless -f $T/500", {"502 tokens", "pass  whole prompt equals", "!FAIL"}},
    };
    CHECK_CASES(cases);
}

static void test_view(void) {
    static const Case cases[] = {
        {"$study view $g -p H -n 3 -o $T/x.html", {"\rgenerated 1/3\rgenerated 2/3\r\033[K"}, 0, -80},
        {"$study view $g -p H -o $T/x.html", {"x.html: 1 token, 4 heads, "}},
        {"$study view $g -p Hello --from 2 --to 4 --json", {"\"query\": 3, \"from\": 2, \"to\": 4, "}},
        {"$study view $g -p \"it's\" -n 0 --json",
         {"\"made_by\": \"study view ", " -p 'it'\\\\''s' -n 0 --json\", "}},
        {"$study explain $g -p Hello --layer 0 --head 0 --ascii",
         {"6.2247  #####################\n", "0.6917  ##\n"}},
        {"$study attend $g -p Hello --ascii", {"\ncells:     0  :: 0.062  ++ 0.25  ## 0.56  @@ 1\n"}},
        {"$run $g -p 'hello world' -c 4",
         {"the prompt has 11 tokens, more than the context of 4; raise -c or"},
         1},
        {"$study patch $g -p Hi --corrupted Ho --answer a --what z --json", {"\"head\": 0, \"effect\": "}},
        {"$study meaning $g -w a $(for i in 1 2 3 4 5 6 7 8 9 0 1 2 3 4; do echo \"-p a_$i\"; done) | "
         "sed -n '/^ *2\\. *3\\./,/sentences fit/p' | cut -c1-3 | tr '\\n' ,",
         {"  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11,(12,"}}, /* eleven rows, of twelve columns */
        {"ATTN_KERNEL=none $run $g --batch /dev/null", {"run: no kernel set 'none'"}, 1},
        {"$run $g --chat --chat-template /dev/null -p Hi",
         {"run: the chat template makes no tokens of the conversation\n"},
         1},
        {"echo '{\"prompt\": \"a\", \"max_tokens\": 1, \"logprobs\": false}' | $run $g --batch -",
         {"\"n_predicted\": 1, \"end\": \"limit\"}", "!logprob"}},
        {"echo '{\"prompt\": \"a\", \"max_tokens\": 1, \"logprobs\": 20}' | $run $T/one --batch - | grep -o '\": -' | grep -c .",
         {"8\n"}}, /* all of the vocabulary */
        {"echo '{\"custom_id\": \"d\", \"body\": {\"prompt\": \"a\", \"max_tokens\": 1}}' >$T/c; "
         "$run $g --batch $T/c -o $T/ca -s 1; $run $g --batch $T/c -o $T/ca -s 1; grep -c . $T/ca",
         {"2\n", "going on behind them\n"}},
        {"$study view $g -p Hello -n 1 --json", {"\"n_tokens\": 6, "}},
        {"$study view $g -p Hello --json", {"\"query\": 4, \"temperature\": "}},
        {"$study view $g -p '\n Hi' -o $T/x.html; grep '<title>' $T/x.html", {"<title>attn: Hi</title>"}},
        {"$study view $g -p ' ' -o $T/x.html; grep '<title>' $T/x.html",
         {"1 token, 4 heads", "<title>attn: </title>"}},
        {"$study view $T/same -p ab --json", {"\"value_norms\": [[[0, \"AAAAAAAA\"]]]"}},
        {"mkfifo $T/pipe; cat $T/pipe >$T/y.html & $study view $g -p Hello -o $T/pipe && wait && grep -c '</html>' $T/y.html",
         {"pipe: 5 tokens, 4 heads\n1\n"}}, /* a pipe does not tell how much went through */
        {"$study view $g -p Hello -o $T/z.svg --svg L0H0 --ablate L0H0",
         {"--svg draws one pattern: leave out --ablate, "},
         2},
        {"$study view $g -p Hello -o $T/z.svg --svg L0H0 --layers 0", {"--svg draws one pattern"}, 2},
        {"$study view $g -p Hello -o $T/z.svg --svg L0H0 --query 0", {"--svg draws one pattern"}, 2},
        {"$study view $g -p Hello -o $T/z.svg --svg L1H2",
         {"there is no L1H2: the model has 2 layers of 2 heads"},
         1},
        {"$study view $T/one -p ab -o $T/z.svg --svg L1H0",
         {"there is no L1H0: the model has 1 layer of 2 heads"},
         1},
        {"$study view $g -p Hello -o $T/z.html --top 0",
         {"--top 0 leaves nothing to show: take 1 or more\n"},
         2},
        {"$study view $T/ends -p ab -n 4 --query 5 -o $T/z.html",
         {"--query 5: the model ended the text after token 2\n"},
         1},
        /* A query by its word, which the model may write only now. */
        {"$study view $g -p 'x9 y9z {q} Qa [k]' --query y9z --json --parts text", {"\"query\": 5,"}},
        {"$study view $m --no-bos -p 'The Eiffel' --json --parts text", {"\"query\": 1,"}},
        {"$study view $m --no-bos -p 'The Eiffel' -n 4 --query together --json --parts text",
         {"\"query\": 5,"}},
        {"$study view $m --no-bos -p 'The Eiffel' -n 4 --query 4 --json --parts text", {"\"query\": 4,"}},
        {"$study view $m --no-bos -p 'The Eiffel' -n 4 --query Rome -o $T/z.html",
         {"--query: 'Rome' is no token or word of the text; a number goes from 0 to 5\n"},
         1},
        {"$study view $m --no-bos -p 'The Eiffel' -n 4 --query 99999999999999999999 -o $T/z.html",
         {"study: no query has so large a number: there are 6, from 0 on\n"},
         1},
        {"ls $T/z*; true", {"No such file"}},
        {"printf Hello | $study view $g -f - -o $T/60 --top 0",
         {"--top 0 leaves"},
         2}, /* the text is no file, so none is itself */
        {"$study view $m -p 'an internationalization' -o $T/x.svg --svg L0H0; cat $T/x.svg", {"</svg>"}},
        {"$study view $T/longest -p 'an extraordinary length' -o $T/x.svg --svg L0H0; cat $T/x.svg",
         {">an&#183;extraordinary&#183;le&#8230;<",
          "<text x=\"153.08\""}}, /* 8 + 20 columns of 0.62 × 11.7 pixels */
        {"$study view $T/twenty -p 'an extraordinary day' -o $T/x.svg --svg L0H0; cat $T/x.svg",
         {">an&#183;extraordinary&#183;day<", "!&#8230;"}},
        /* Cells of 18 pixels, fewer for many tokens, and 4 at least. */
        {"$study view $g -f $T/words -o $T/x.svg --svg L0H0; grep -m 1 .rect $T/x.svg",
         {"width=\"10.80\" height=\"10.80\""}},
        {"$study view $T/wide -f $T/500 -o $T/x.svg --svg L0H0; grep -m 1 .rect $T/x.svg",
         {"width=\"4.00\" height=\"4.00\""}},
        {"$study view $g -f $T/60 -o $T/x.svg --svg L0H0; cat $T/x.svg",
         {" tokens, 1 head, ", "!; --layers"}},
        {"$study view $T/nonsense -p ab --json --parts predictions", {"\"sampling\": null, "}},
        {"cd $T && $study view --live -o x.html", {"no model is named, here is no ./model.bin"}, 2},
        {"$study view --live --no-model --json -o $T/x.html",
         {"--no-model goes with --live and -o alone"},
         2},
        {"$study view --live --no-model -f $T/60 -o $T/x.html",
         {"--no-model goes with --live and -o alone"},
         2},
        {"$study view $g --live --json -p H -o $T/x.html", {"--live writes a page: leave out --json\n"}, 2},
        {"$study view $g -p H --live -o $T/x.html",
         {"study: a page of ", "engine and model in it\r\n"},
         0,
         -80},
        {"$study view $g -p H --json --parts lens,head",
         {"--parts: 'lens,head' is no list of predictions, "},
         2},
        {"$study view $g -p H --json --parts lens,x", {"--parts: 'lens,x' is no list of predictions, "}, 2},
        {"$study view $g -p H -o $T/x.html --parts lens",
         {"--from, --to, --parts and --ablated-only choose from the numbers: give them with --json\n"},
         2},
        {"$study view $g -p Hello --json --to 3 --parts text",
         {"--parts text: heads' scores are means over all queries; leave out --from and --to\n"},
         2},
        {"$study view $g -p Hello --json --ablated-only",
         {"--ablated-only: say by --ablate what is switched off\n"},
         2},
        {"$study view $g -p Hello --json --to 6",
         {"--from 0 --to 6: there are the positions 0 to 4, and"},
         1},
        {"$study view $g -p Hello --json --from 2 --query 1", {"--query 1 is not in --from 2 --to 5\n"}, 1},
        {"$study view $g -p Hello --json --to 2 --query 2", {"--query 2 is not in --from 0 --to 2\n"}, 1},
    };
    CHECK_CASES(cases);
}

/* Worked examples. */
#define QKV "\"q\": [[1, 2], [3, 4]], \"k\": [[1, 0], [0, 1]], \"v\": [[1, 2], [3, 4]]"

static void write_case(const char *json) {
    n_file = strlen(json);
    memcpy(file, json, n_file);
    scratch_put("case.json", file, n_file);
}

static void test_case_words(void) {
    static const Case cases[] = {
        /* In the place of commands stand the cases. */
        {"{\"q\": [[[[1]]]], \"k\": [[1]]}",
         {"case.json: case '0': \"q\" should be an array of rows of numbers\n"},
         1},
        {"{\"q\": [[1]], \"k\": [[1]], \"b_q\": [[1]]}", {"\"b_q\" should be an array of numbers\n"}, 1},
        {"{\"q\": [[1]], \"k\": [[1]], \"b_q\": 1}", {"\"b_q\" should be an array of numbers\n"}, 1},
        {"{" QKV ", \"tokens\": \"ab\"}", {"\"tokens\" should be 2 texts\n"}, 1},
        {"{" QKV ", \"key_tokens\": [\"a\", 1]}", {"\"key_tokens\" should be 2 texts\n"}, 1},
        {"{" QKV ", \"about\": 1}", {"\"name\" and \"about\" should be texts\n"}, 1},
        {"{" QKV ", \"heads\": \"2\"}", {"\"heads\" should be a whole number from 1 to 64\n"}, 1},
        {"{" QKV ", \"heads\": 65}", {"\"heads\" should be a whole number from 1 to 64\n"}, 1},
        {"{\"q\": [[1, 2]], \"k\": [[1, 2, 3]], \"heads\": 2}",
         {"2 heads do not divide vectors of 2, 3 and 3\n"},
         1},
        {"{\"q\": [[1, 2]], \"k\": [[1, 2]], \"v\": [[1, 2, 3]], \"heads\": 2}",
         {"2 heads do not divide vectors of 2, 2 and 3\n"},
         1},
        {"{" QKV ", \"u\": [[1, 1]]}",
         {"bilinear scores take \"w\", additive ones \"w\", \"u\" and \"v_a\", others none\n"},
         1},
        {"{" QKV ", \"v_a\": [1]}", {"bilinear scores take \"w\", "}, 1},
        {"{" QKV ", \"score\": \"bilinear\", \"w\": [[1, 2, 3], [1, 2, 3]]}",
         {"\"w\" has 2 rows of 3 numbers; 2 rows of 2 would fit the rest\n"},
         1},
        {"{" QKV ", \"score\": \"additive\", \"w\": [[1, 2]], \"u\": [[1, 2]], \"v_a\": [1, 2]}",
         {"\"v_a\" has 1 rows of 2 numbers; 1 rows of 1 would fit the rest\n"},
         1},
        {"{\"cases\": 1}", {"\"cases\" should be an array of cases\n"}, 1},
        {"{\"cases\": []}", {"\"cases\" should be an array of cases\n"}, 1},
        /* Titles, by what there is. */
        {"{\"x\": [[1, 2], [3, 4]], \"q\": [[1, 2], [3, 4]], \"b_k\": [1, 1]}",
         {"\nQ, as it stands in the file\n", "\nK = x + b_k\n", "\nV = x\n"}},
        {"{\"x\": [[1, 2], [3, 4]], \"w_k\": [[1, 0], [0, 1]], \"b_q\": [1, 1]}",
         {"\nQ = x + b_q\n", "\nK = x * w_k^T\n"}},
        {"{" QKV ", \"b_o\": [1, 1]}", {"\noutput = context + b_o\n"}},
        {"{" QKV ", \"w_o\": [[1, 0], [0, 1]], \"b_o\": [1, 1]}", {"\noutput = context * w_o^T + b_o\n"}},
        {"{" QKV ", \"w_o\": [[1, 0], [0, 1]]}", {"\noutput = context * w_o^T\n"}},
        /* Numbers and names that are too wide. */
        {"{\"q\": [[1000, -2000]], \"k\": [[1, 0]], \"v\": [[123456, 999]], \"key_tokens\": [\"extraordinary\"]}",
         {"     1e+03    -2e+03\n", "  1.23e+05  999.0000\n", "  extraor…\n",
          "last row, first number: 1000*1 + -2000*0 = 1000.0000\n"}},
        {"{\"x\": [[1,2,3,4,5,6,7,8,9,10]]}", {"        d7\n", "                    d8        d9\n"}},
        {"{\"x\": [[1.125,2.125,3.125,4.125,5.125,6.125,7.125,8.125,9.125,10.12]]}",
         {"!last row, first number: 1.125*"}},
        {"{\"name\": \"a name of some words that is wider than the terminal\", \"x\": [[1, 2]]}",
         {"a name of some words that is wider than\r\nthe terminal"},
         0,
         40},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        Case then = cases[i];
        write_case(then.command);
        then.command = then.columns ? "NO_COLOR=1 $study case $T/case.json" : "$study case $T/case.json";
        check_cases(&then, 1);
        if (test_broken) printf("%s\n", cases[i].command);
    }
    static char long_row[4000]; /* 65 rows; then a sum of 64 products, which is not written down */
    char *at = long_row + sprintf(long_row, "{\"q\": [");
    for (int i = 0; i < 65; i++) at += sprintf(at, "%s[1]", i ? "," : "");
    sprintf(at, "], \"k\": [[1]]}");
    write_case(long_row);
    static const Case too_many = {
        "$study case $T/case.json", {"\"q\" has 65 rows, columns or heads; 1 to 64 can be shown\n"}, 1};
    check_cases(&too_many, 1);
    at = long_row + sprintf(long_row, "{\"x\": [[");
    for (int i = 0; i < 64; i++) at += sprintf(at, "%s%d.25", i ? "," : "", i);
    sprintf(at, "]]}");
    write_case(long_row);
    static const Case silent = {"$study case $T/case.json",
                                {"!first number: 0.25*", "last row, first number: 1*0.25 = 0.2500\n"}};
    check_cases(&silent, 1);
    at = long_row +
         sprintf(long_row, "{\"x\": [["); /* 271 columns, for which the terminal has room, the line not */
    for (int i = 0; i < 20; i++) at += sprintf(at, "%s1.25", i ? "," : "");
    sprintf(at, "]]}");
    write_case(long_row);
    static const Case cut = {"NO_COLOR=1 $study case $T/case.json",
                             {"!first number: 1.25*1.25", "last row, first number: 1*1.25 = 1.2500\r\n"},
                             0,
                             300};
    check_cases(&cut, 1);
}

/* Titles stand over their columns, as wide as these are; numbers have the digits that they are to have. */
static void test_titles(void) {
    static const Case cases[] = {
        {"$study ablate $g -p Hello --heads L0H0",
         {"\n                 baseline    ablated     change\nnll, bits        12.79873   12.298",
          "\nnext token       baseline    ablated\n"}},
        {"$study ablate $g -p Hello --sweep heads",
         {"\nhead        change        KL    top-1\nL0H0       -0.4998    3.6201    80.0%\n"}},
        {"$study attribute $g -p abcd --head L0H0 --neurons 0",
         {"\nlayer  attention       MLP    so far\n", "\npart           value\n",
          "\n key token            weight     value\n", "\n neuron  activation     value\n"}},
        {"$study attribute $g -p abcd --score 'L0H0:2>1'",
         {"\nquery part  key part         value\nembed       embed          -1.1695\n",
          "\npart          in query    in key\nembed          -1.1353   -1.2498\n"}},
        {"$study attribute $g -p ab --corrupted ac --answer a --by gradient",
         {"\n  pos  clean         corrupted         score    share\n"
          "    1  \"b\"           \"c\"             +0.0030  +0.0035\n",
          "\nHeads and MLPs\n",
          "\nQueries, keys, values and patterns of heads\npart                   score    share\n",
          "\nL0H0 z  ", "\nL0 mlp_out  ", "\nL0 neuron 51  "}},
        {"$study attribute $g -p ab --corrupted ac --answer a --by gradient --edges --check 3",
         {"\nfrom     to              score    share   patched\n", "\nCorrelation of score and patched: "}},
        {"$study circuit $g",
         {"\nhead      copying  OV alone  matching      |OV|      |QK|\n"
          "L0H0       -0.237    -0.240     0.053     6.544     9.397\n"}},
        {"$study circuit $g --head L0H1 | grep -A2 ^eigenvalues | awk '{print NF}'",
         {"8\n4\n2\n"}}, /* in 80 columns */
        {"$study circuit $g --composition q", {"\nhead    reads      score\nL1H0    L0H1      0.1612\n"}},
        {"$study compare $g $g -p Hello",
         {"\n                        A          B      B - A\n", "\nlayer       mean   largest  at\n"}},
        {"$study compare ${p%% *} ${p%.gguf*.gguf}-tanh.gguf ${p#* } -p 'the tin' --ascii", /* bars are shares of the largest */
         {"  L0H0 5>3          ######################\n", "  L1H0 6>0          ########################\n"}},
        {"$study dump $g -p Hello -o $T/titles.npz",
         {"\nkey                                  type          bytes  shape\n"}},
        {"$study explain $g -p Hello --layer 0 --head 0",
         {"\n  key token                q·k ÷√d_head  +mask  weight      ‖v‖ weight×‖v‖\n"
          "    0 \"H\"               -7.368   -1.648      0  0.0001    8.217     0.0006\n",
          "\n  raised                  lowered\n"}},
        {"$study faithful $g -p Hi --corrupted Ho --answer a",
         {"\n   edges   number     metric  faithfulness\n   0.10%        0   -11.3494       -0.0000\n"}},
        {"$study heads $g --repeat 9 --batch 1",
         {"\nhead     entropy  /max  conf  sink  self  prev   dup   ind  tl_diag  tl_mul  tl_abs    dist  label\n"
          "chance     3.153 1.000 0.142 0.142 0.142 0.142 0.069 0.069    0.075   0.033  -0.409     4.8"}},
        {"$study lens $g -p Hello", {"\nrow          rank     p     KL entropy  likeliest"}},
        {"$study meaning $g -w a -p 'a b' -p 'c a'",
         {"\nrow           mean      1-2\n0_pre        0.854    0.854\n", "\n  1. predicts  \"",
          "\n     embedded  \"", "!centred"}},
        {"$study meaning $g -w a -p 'a b' -p 'c a' --centred",
         {"\ncentred: the mean over all 6 positions of the sentences is subtracted\n"}},
        {"$study neurons $g -p Hello",
         {"\nneuron           value   pos  token           ‖value·w‖\n"
          "L0N32           5.1763     0  \"H\"                4.0748\n"}},
        {"$study neurons $g --neuron L0N0 --corpus tests/data/study/tale.txt --top 1",
         {"75 tokens in windows of 192; mean value 1.2377, a standard deviation of 1.2025\n    value     line  ["}},
        {"$study faithful $g -p Hi --corrupted Ho --answer a --nodes --find 1", {"\nnode          score\n"}},
        {"$study neurons $g -p Hello --neuron L0N0", {"\n  pos token              value\n"}},
        {"$study next $g -p Hello",
         {"\n rank  token                    p    bits      logit       sum\n"
          "    1  \"\\xa3\"             82.708%    0.27     11.976   82.708%\n"}},
        {"$study patch $g -p ab --corrupted cb --answer a",
         {"\n pos  clean                    corrupted\n",
          "\ncell      pos  clean         corrupted        effect metric, bits\n"
          "L0          0  \"a\"           \"c\"             +1.0000     -13.8656\n"}},
        {"$study patch $g -p ab --corrupted cb --answer a --path L0H0:final",
         {"\npath                  effect metric, bits\n"}},
        {"$study rollout $T/one -p ab", {"query 2 \"ab\", 1 layer\n"}},
        {"$study rollout $g -p Hello --flow --query 0",
         {"\nquery 0 \"H\", 2 layers\n",
          "\n key token           rollout  uniform   ratio     flow   share\n"}},
        {"$study score $g -p Hello",
         {"\n  pos  token             bits    rank  entropy  likelier, with p\n"
          "    0  \"H\"                  -       -        -\n"
          "    1  \"e\"              10.13      45     3.09  \""}},
        {"$study score $g -p 'He llo' --words",
         {"\n  pos  tokens    bits  word\n    1       1   10.13  \"e\"\n"}},
        {"$study score $g -p 'Hello, all' -c 4 --chunks",
         {"\nchunk  tokens    bits  perplexity\n    1       1   9.946    986.34"}},
        {"$study selfcheck $g -p Hello",
         {"\n                                              largest    allowed\n"}},
        {"$study shape $T/headless --json", {"\"kv_bytes\": 0,", "!\"kv_bytes\": null"}},
        {"$study shape $g",
         {"\nn_layer 2  n_head 2  n_head_kv 2  d_head 20\nd_model 40  d_ff 84  n_vocab 257  n_ctx 192\n",
          "\nparameters     outputs x inputs     per head      per layer            in all             bytes\n",
          "\n                                    bytes   FLOPs of the text   of its last one\n"
          "        n       plain      attn  KV cache      plain     attn      FLOPs  share\n"}},
        {"$study steer $g -p Hello --token a",
         {"\nlayer   direction      stream\n    1      3.4931     12.3270\n",
          "\nnext token       baseline    steered\n"}},
        {"$study tokens $g -p Hello",
         {"\nposition        id  bytes    token\n       0        39      1  \"H\"\n"}},
    };
    setenv("ATTN_KERNEL", "scalar", 1);
    CHECK_CASES(cases);
    unsetenv("ATTN_KERNEL");
}

int main(void) {
    words_begin();
    RUN(test_ablate);
    RUN(test_attend);
    RUN(test_compare);
    RUN(test_dump);
    RUN(test_experts);
    RUN(test_neurons);
    RUN(test_explain);
    RUN(test_families);
    RUN(test_heads);
    RUN(test_lens);
    RUN(test_next);
    RUN(test_score);
    RUN(test_selfcheck);
    RUN(test_view);
    RUN(test_case_words);
    RUN(test_titles);
    return words_end();
}
