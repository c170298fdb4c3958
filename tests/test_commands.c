/* Commands tell people these, whatever the view: options, what cannot be, terminals. */
#include "words.h"

static void test_options(void) {
    static const Case cases[] = {
        {"$study scroe $g", {"there is no command 'scroe'; did you mean score?\n"}, 2},
        {"$study nets $g",
         {"there is no command 'nets': see ./study --help\n"},
         2}, /* two slips in a short word */
        {"$study $g next -p Hi", {"'; the command comes first: ./study next "}, 2},
        {"$study -h", {"usage: study COMMAND"}},
        {"$study next $g -p Hi --kv f16 --top 1", {"\nentropy "}},
        {"$study next $g -p Hi --kv f32 --top 1", {"\nentropy "}},
        {"$study next $g -p Hi --kv q8_0 --top 1", {"\nentropy "}},
        {"ATTN_KERNEL=abacus $study next $g -p Hi", {"study: ", "abacus"}, 1},
        {"$study next $T/nobos -p a --bos", {"--bos: the vocabulary has no token that begins a text\n"}, 1},
        {"$run $g -p Hi -n 1 --kv f16 --temp 0 && ATTN_KERNEL= $run $g -p Hi -n 1 --kv f32 --temp 0", {"Hi"}},
        {"$run $T/one -p a -z $T/swapped --logits $T/swapped",
         {"/swapped: this is a file of the vocabulary; choose another name\n"},
         1},
        {"$run $g -f $T/60 --logits $T/60", {"/60: this is the text that is read; choose another name\n"}, 1},
        {"$run $T/one -i -n 1 <$T", {"run: stdin: cannot read: Is a directory\n"}, 1},
        {"$study dump $g -p Hi -o ''", {"study: --output needs the name of a file\n"}, 2},
        {"$run $g --info --tokens", {"--info and --tokens go alone"}, 2},
        {"$run $T/wishes -p a -n 1 --temp 0",
         {"run: note: the file asks for what is not done here: XTC, general.sampling.\\u001b[2J\n"}},
        {"$run $T/wishes -p a -n 1 --temp 0 -v",
         {"temp 0 (given), top-p 0.95; not done here, though the file asks for it: XTC, general.sampling.\\u001b[2J\n",
          "!note: "}},
        {"$run $T/one -p a -n 1 --temp 0", {"!note: "}},
        {"$run $T/nonsense -p a -n 1",
         {"is -1, and not in 0 to 1e+09; give another temperature with --temp\n"},
         1},
        {"$run $T/nonsense -p a -n 0 -v", {"!sampling "}}, /* nothing is drawn */
        {"$run $g --info -i", {"--info and --tokens go alone"}, 2},
        {"$run $g --info --logits x", {"--info and --tokens go alone"}, 2},
        {"$run $g --chat --info", {"--chat goes alone"}, 2},
        {"$run $g --chat --logits x", {"--chat goes alone"}, 2},
        {"$run $g --batch - --info", {"--batch goes without a prompt"}, 2},
        {"$run $g --batch - --logits x", {"--batch goes without a prompt"}, 2},
        {"$run $g --tokens -i", {"--info and --tokens go alone"}, 2},
        /* A terminal is not waited for; where nothing is given, BOS begins the text. */
        {"$study next $g",
         {"the text is empty: give some with -p, or --bos to begin with what begins a text"},
         1,
         -80},
        {"$study selfcheck $T/one", {"pass"}, 0, -80},
        {"$run $T/one --tokens", {"1\r\n"}, 0, -80},
        {"printf 'ab\\n' | $run $T/one -i -n 0 --logits $T/x.npy && wc -c <$T/x.npy",
         {"160\n"}}, /* of BOS alone */
        /* A reader who has gone away ends a conversation, and is no error. */
        {"{ (sleep 0.1; printf 'ab\\nab\\n') | $run $T/one -i -n 1 2>$T/err; echo $? >$T/code; } | true; sleep 0.2; cat $T/err $T/code",
         {"0\n", "!run:"}},
        /* A model's name without an ending is one where there is such a file, and otherwise a text in the wrong place. */
        {"cd $T && $run one -n 0 </dev/null", {"!stands behind"}, 0, -80},
        {"cd $T && $run absent -n 0",
         {"there is no file 'absent'; a text to begin with stands behind -p: -p 'absent'"},
         2,
         -80},
        {"$study next 'a b'",
         {"study: there is no file 'a b'; a text to begin with stands behind -p: -p 'a b'"},
         2,
         -80},
        {"$study next absent --ids 1", {"absent: cannot open"}, 1, -80},
        {"$study next -m $T/one $T/two -p a", {"study: one model at a time: '"}, 2},
        {"$study next $T/one two -p a",
         {"one model at a time: 'two' after '", "; a text to begin with stands behind -p\n"},
         2},
        {"$study shape $T/one two", {"one model at a time: 'two' after '", "!stands behind"}, 2},
        {"$study next -m $T/one --prompt=a --top=1 --json", {"\"command\": \"next\""}},
        /* The default model. */
        {"$run", {"no model is named: ./run MODEL -p PROMPT (see ./run --help)\n"}, 2},
        {"cp $T/one $T/model.bin; cd $T && $run -p ab -n 0",
         {"run: note: no model is named; taking model.bin\n"}},
        {"cd $T && $study next -p ab", {"study: note: no model is named; taking model.bin\n"}},
        {"cd $T && $study compare -p ab", {"no model is named: see ./study compare --help\n", "!taking"}, 2},
        {"cd $T && $study next", {"no model is named: see ./study next --help\n", "!taking"}, 2},
        {"cd $T && $run --version", {"attn ", "!taking"}},
        {"cd $T && $run --help", {"usage: run", "!taking"}},
        {"mkdir $T/empty; cd $T/empty && $run -p ab",
         {"no model is named, here is no ./model.bin, and none is installed: "},
         2},
        {"cd $T/empty && $study next -p ab",
         {"no model is named, here is no ./model.bin, and none is installed: see "},
         2},
        {"mkdir $T/bin $T/share $T/share/attn && cp $run $T/bin/attn-run && cp $T/one $T/share/attn/model.gguf && cd $T/empty && $T/bin/attn-run -p ab -n 0",
         {"run: note: no model is named; taking ", "/share/attn/model.gguf\n"}},
        {"$run $T/nobos -p '' -n 1",
         {"the prompt is empty and the vocabulary has no token to begin with; give one with -p\n"},
         1},
        {"printf '\\n' | $run $g --tokens --bos 2>&1 || printf '\\n' | $run $g --tokens", {"\n"}},
        {"(printf He; sleep 0.2; printf llo) | $run $g --tokens", {"39 68 75 75 78\n"}},
        {"printf 'Hi<|endoftext|>\\n' | $run $g -i -n 1 --special --temp 0", {"!cannot"}},
        {"printf 'Hi\\n' | $run $g -i -n 1 --temp 0 --logits $T/x.npy -p Ho", {"!cannot"}},
        {"printf 'a' | $run $g -i -n 1 --temp 0", {"!cannot"}}, /* a last line without its end */
    };
    CHECK_CASES(cases);
}

/* Logits that are not finite end a view wherever they first come. */
static void test_not_finite(void) {
    static const Case cases[] = {
        {"$study next $T/nan -p ab", {"nan: the logits are not finite"}, 1},
        {"$study attend $T/nan -p ab --layer 0 --head 0 -n 2", {"nan: the logits are not finite"}, 1},
        {"$study compare $T/one $T/nan -p ab", {"nan: the logits are not finite"}, 1},
        {"$study ablate $T/nan -p ab --heads L0H0", {"nan: the logits are not finite"}, 1},
        {"$study score $T/nan -p ab", {"nan: the logits are not finite"}, 1},
        {"$study view $T/nan -p ab -n 2 -o $T/nan.html; ls $T/nan.html && exit 3; exit 1",
         {"nan: the logits are not finite"},
         1},
        {"$run $T/nan -p ab -n 2", {"nan: the logits are not finite"}, 1},
        {"echo '{{ messages[-1].content }}' >$T/bare; echo ab | $run $T/late --chat --chat-template $T/bare -n 4 --temp 0",
         {"late: the logits are not finite"},
         1},
        {"$study attribute $T/nan -p ab --by gradient", {"nan: the logits are not finite"}, 1},
        {"$study patch $T/nan $ab", {"nan: the logits are not finite"}, 1},
        {"$study patch $T/nan $ab --path L0H0:final", {"nan: the logits are not finite"}, 1},
        {"$study faithful $T/nan $ab --keep L0H0:final", {"nan: the logits are not finite"}, 1},
        {"$study patch $T/unsung -p ba --corrupted aa --answer '#5' --metric logit",
         {"unsung: the logits are not finite"},
         1},
        {"$study patch $T/unsung -p aa --corrupted ba --answer '#5' --metric logit",
         {"unsung: the logits are not finite"},
         1},
        {"$study circuit $T/broken", {"a head's weights are not finite"}, 1},
    };
    setenv("ab", "-p ba --corrupted aa --answer #5", 1);
    CHECK_CASES(cases);
}

/* No memory: for a folder's listing, which is told to be one all the same; for selfcheck's own text. */
static void test_no_memory(void) {
    static const Case cases[] = {
        {"for i in $(seq 12); do ATTN_FAULT=malloc:$i $faulty tests/data -p a; done 2>&1 | sort | uniq -c",
         {"not enough memory", " run: tests/data: is a directory; name the checkpoint file in it\n"}},
        {"for i in $(seq 9 50); do ATTN_FAULT=malloc:$i ${faulty%run}study selfcheck $T/one -t 1; done 2>&1 | sort -u",
         {"study: not enough memory to tokenize "}},
    };
    CHECK_CASES(cases);
}

/* Colours, and the width that a terminal tells. */
static void test_terminals(void) {
    static const Case cases[] = {
        {"$study next $g -p Hi", {"\033[1m rank", "\033[2mp: probability", "\033[0m"}, 0, 100},
        {"NO_COLOR= $study next $g -p Hi",
         {"\033[1m rank"},
         0,
         100}, /* empty: as if it were not there (no-color.org) */
        {"NO_COLOR=1 $study next $g -p Hi", {"!\033["}, 0, 100},
        {"TERM=dumb $study next $g -p Hi", {"!\033[", "█"}, 0, 100},
        {"unset TERM; $study next $g -p Hi", {"\033[1m rank"}, 0, 100},
        {"TERM=xterm $study next $g -p Hi", {"\033[1m rank"}, 0, 100},
        {"$study next $g -p Hi", {"!\033[", "!█"}},
        {"NO_COLOR=1 $study attend $g -f $T/60 --layer 0 --head 0",
         {"Only the last 40 of 60"},
         0,
         30}, /* too narrow: 100 is taken */
        {"NO_COLOR=1 $study attend $g -f $T/60 --layer 0 --head 0", {"Only the last 30 of 60"}, 0, 80},
        {"NO_COLOR=1 $study shape --preset gpt2", {"is the embedding"}, 0, 70},
    };
    CHECK_CASES(cases);
}

/* On a terminal programs say more beside their text: a prompt, a newline at its end, progress that is wiped in the end. */
static void test_stderr(void) {
    static const Case cases[] = {
        {"printf 'x\\n' | $run $g -i -n 1 --temp 0 2>&1; printf end", {"> ", "\r\n> \r\nend"}, 0, 100},
        {"head -c 300 /dev/zero | tr '\\0' a | $study score $g 2>&1", {"\r\033[K"}, 0, 100},
    };
    CHECK_CASES(cases);
}

/* Bold, dim, coloured: what they begin they end (check_styles). */
static void test_styles(void) {
    static const Case cases[] = {
        {"unset NO_COLOR; TERM=xterm $study next $g -p Hi --token a", {"\033[1m", "\033[0m", "█"}, 0, 100},
        {"unset NO_COLOR; TERM=xterm $study score $g -p Hello --words", {"\033[1m", "\033[2m"}, 0, 100},
        {"unset NO_COLOR; TERM=xterm $study attend $g -p Hello",
         {"\033[1m", "\033[48;5;159m  \033[0m"},
         0,
         100},
        {"unset NO_COLOR; TERM=xterm $study attend $g -p Hello --layer 0 --head 0", {"\033[48;5;"}, 0, 100},
        {"unset NO_COLOR; TERM=xterm $study attend $g -p Hello --query 3", {"\033[1m"}, 0, 100},
        {"unset NO_COLOR; TERM=xterm $study attend $g -p Hello --layer 0 --head 0 -n 2", {"\033[1m"}, 0, 100},
        {"unset NO_COLOR; TERM=xterm $study heads $g --repeat 9", {"\033[1m", "\033[2m"}, 0, 100},
        {"unset NO_COLOR; TERM=xterm $study lens $g -p Hello --mid --token a",
         {"\033[1m", "\033[2m"},
         0,
         100},
        {"unset NO_COLOR; TERM=xterm $study explain $g -p Hello --layer 0 --head 0 --query 2",
         {"\033[1m", "█"},
         0,
         100},
        {"unset NO_COLOR; TERM=xterm $study ablate $g -p Hello --heads L0H0", {"\033[1m", "\033[2m"}, 0, 100},
        {"unset NO_COLOR; TERM=xterm $study ablate $g -p Hello --sweep heads",
         {"\033[1m", "\033[48;5;"},
         0,
         100},
        {"unset NO_COLOR; TERM=xterm $study compare $g $g -p Hello", {"\033[1m", "\033[2m"}, 0, 100},
        {"unset NO_COLOR; TERM=xterm $study selfcheck $g", {"\033[32mpass\033[0m"}, 0, 100},
        {"unset NO_COLOR; TERM=xterm $study shape $g", {"\033[1m", "\033[2m"}, 0, 100},
        {"unset NO_COLOR; TERM=xterm $study case docs/cases/5-heads.json",
         {"\033[1m", "\033[2m", "\033[32m"},
         0,
         100},
        {"unset NO_COLOR; echo '{\"x\": [[1]], \"context\": [[2]]}' >$T/wrong; TERM=xterm $study case $T/wrong",
         {"\033[31m"},
         1,
         100},
        {"unset NO_COLOR; TERM=xterm $study dump $g -p Hello -o $T/x.npz", {"\033[1m"}, 0, 100},
    };
    CHECK_CASES(cases);
}

/* run --batch where a model has no token to begin with, keeps a state, or is no sane one. */
static void test_batch(void) {
    static const Case cases[] = {
        {"printf '{\"id\":1,\"prompt\":\"\"}\\n{\"id\":2,\"context\":\"\",\"continuation\":\"a\"}\\n' | $run $T/nobos --batch -",
         {"{\"id\": 1, \"error\": \"the prompt is empty, and the vocabulary has no token to begin with\"}\n"
          "{\"id\": 2, \"error\": \"the context is empty, and the vocabulary has no token to begin with\"}\n"}},
        {"printf '{\"id\":1,\"prompt\":\"ab\",\"max_tokens\":1}\\n{\"id\":2,\"prompt\":\"ab\"}\\n' | $run $T/late --batch - -np 3 -n 4 --temp 0",
         {"{\"id\": 1, \"text\": \"", "{\"id\": 2, \"error\": \"", "late: the logits are not finite"}},
        {"seq 70 | sed 's/.*/{\"id\": &, \"prompt\": \"Hello\"}/' >$T/many; "
         "$run $g --batch $T/many -np 70 -n 3 --temp 0 | sed 's/\"id\": [0-9]*/id/' | uniq -c",
         {"     70 {id, \"text\": \""}},
        {"printf '{\"id\": 1, \"messages\": [{\"role\": \"user\", \"content\": [{\"type\": 5, \"text\": \"a\"}]}]}' | $run $g --batch -",
         {"\"error\": \"a message's content may have parts of text only\"}"}},
        {"head -c 16777300 /dev/zero | tr '\\0' x | $run $g --batch -",
         {"{\"line\": 1, \"error\": \"the line has more than 16777216 bytes\"}\n"}},
        {"truncate -s 300M $T/hole; $run $g --batch $T/hole; rm $T/hole",
         {"{\"line\": 1, \"error\": \"the line has more than 16777216 bytes\"}\n",
          "hole: line 1 has no end within 268435456 bytes"}},
        /* The token that begins a text foresees its first one, also where no other text has it: study score --bos. */
        {"for c in ab '' '  '; do echo \"{\\\"context\\\":\\\"$c\\\",\\\"continuation\\\":\\\"cab\\\"}\"; done | $run $g --batch - -np 1; "
         "$study score $g -p cab --bos --json",
         {"{\"line\": 1, \"n_context\": 2, \"logprob\": ",
          "{\"line\": 2, \"n_context\": 1, \"logprob\": -35.811",
          "\"tokens\": [66, 64, 65], \"logprobs\": [-12.0504",
          "{\"line\": 3, \"n_context\": 1, \"logprob\": ", "\"surprisal_nats\": 12.0504"}},
        {"printf '{\"id\":1,\"prompt\":\"ab\"}\\n{\"id\":2,\"prompt\":\"ba\"}\\n' | $run $T/nan --batch - -np 3 -n 2",
         {"{\"id\": 1, \"error\": \"", "{\"id\": 2, \"error\": \"", "the logits are not finite"}},
        {"for i in 1 2; do echo \"{\\\"id\\\":$i,\\\"prompt\\\":\\\"the tin the tin the tin\\\",\\\"max_tokens\\\":$((2 * i))}\"; done >$T/alike; "
         "$run $s --batch $T/alike --in-order -np 2 --temp 0 >$T/two; $run $s --batch $T/alike --in-order -np 1 --temp 0 | cmp - $T/two && cat $T/two",
         {"{\"id\": 1, \"text\": \"", "{\"id\": 2, \"text\": \"", "!error"}},
    };
    CHECK_CASES(cases);
}

int main(void) {
    words_begin();
    setenv("s", "tests/data/reference/lfm2.gguf -z tests/data/study/letters.gguf", 1);
    RUN(test_options);
    RUN(test_not_finite);
    RUN(test_no_memory);
    RUN(test_terminals);
    RUN(test_stderr);
    RUN(test_styles);
    RUN(test_batch);
    return words_end();
}
