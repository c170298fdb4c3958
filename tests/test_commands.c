/* Commands tell people these, whatever the view: options, what cannot be, terminals. */
#include "words.h"

static void test_options(void) {
    static const Case cases[] = {
        {0, 2, "$study scroe $g", {"there is no command 'scroe'; did you mean score?\n"}},
        {0, 0, "$study -h", {"usage: study COMMAND"}},
        {0, 0, "$study next $g -p Hi --kv f16 --top 1", {"\nentropy "}},
        {0, 0, "$study next $g -p Hi --kv f32 --top 1", {"\nentropy "}},
        {0, 0, "$study next $g -p Hi --kv q8_0 --top 1", {"\nentropy "}},
        {0, 1, "ATTN_KERNEL=abacus $study next $g -p Hi", {"study: ", "abacus"}},
        {0,
         1,
         "$study next $T/nobos -p a --bos",
         {"--bos: the vocabulary has no token that begins a text\n"}},
        {0,
         0,
         "$run $g -p Hi -n 1 --kv f16 --temp 0 && ATTN_KERNEL= $run $g -p Hi -n 1 --kv f32 --temp 0",
         {"Hi"}},
        {0,
         1,
         "$run $T/one -p a -z $T/swapped --logits $T/swapped",
         {"/swapped: this is a file of the vocabulary; choose another name\n"}},
        {0,
         1,
         "$run $g -f $T/60 --logits $T/60",
         {"/60: this is the text that is read; choose another name\n"}},
        {0, 1, "$run $T/one -i -n 1 <$T", {"run: stdin: cannot read: Is a directory\n"}},
        {0, 1, "$study dump $g -p Hi -o ''", {"study: : cannot write: No such file or directory\n"}},
        {0, 2, "$run $g --info --tokens", {"--info and --tokens go alone"}},
        {0,
         0,
         "$run $T/wishes -p a -n 1 --temp 0",
         {"run: note: the file asks for what is not done here: XTC, general.sampling.\\u001b[2J\n"}},
        {0,
         0,
         "$run $T/wishes -p a -n 1 --temp 0 -v",
         {"temp 0 (given), top-p 0.95; not done here, though the file asks for it: XTC, general.sampling.\\u001b[2J\n",
          "!note: "}},
        {0, 0, "$run $T/one -p a -n 1 --temp 0", {"!note: "}},
        {0, 1, "$run $T/nonsense -p a -n 1", {"general.sampling.temp is -1, and not in 0"}},
        {0, 0, "$run $T/nonsense -p a -n 0 -v", {"!sampling "}}, /* nothing is drawn */
        {0, 2, "$run $g --info -i", {"--info and --tokens go alone"}},
        {0, 2, "$run $g --tokens -i", {"--info and --tokens go alone"}},
        /* A terminal is not waited for; where nothing is given, BOS begins the text. */
        {-80,
         1,
         "$study next $g",
         {"the text is empty: give some with -p, or --bos to begin with what begins a text"}},
        {-80, 0, "$study selfcheck $T/one", {"pass"}},
        {-80, 0, "$run $T/one --tokens", {"1\r\n"}},
        {0,
         0,
         "printf 'ab\\n' | $run $T/one -i -n 0 --logits $T/x.npy && wc -c <$T/x.npy",
         {"160\n"}}, /* of BOS alone */
        /* A reader who has gone away ends a conversation, and is no error. */
        {0,
         0,
         "{ (sleep 0.1; printf 'ab\\nab\\n') | $run $T/one -i -n 1 2>$T/err; echo $? >$T/code; } | true; sleep 0.2; cat $T/err $T/code",
         {"0\n", "!run:"}},
        /* A model's name without an ending is one where there is such a file, and otherwise a text in the wrong place. */
        {-80, 0, "cd $T && $run one -n 0 </dev/null", {"!stands behind"}},
        {-80,
         2,
         "cd $T && $run absent -n 0",
         {"there is no file 'absent'; a text to begin with stands behind -p: -p 'absent'"}},
        {-80,
         2,
         "$study next 'a b'",
         {"study: there is no file 'a b'; a text to begin with stands behind -p: -p 'a b'"}},
        {-80, 1, "$study next absent --ids 1", {"absent: cannot open"}},
        {0, 2, "$study next -m $T/one $T/two -p a", {"study: one model at a time: '"}},
        {0,
         2,
         "$study next $T/one two -p a",
         {"one model at a time: 'two' after '", "; a text to begin with stands behind -p\n"}},
        {0, 2, "$study shape $T/one two", {"one model at a time: 'two' after '", "!stands behind"}},
        {0, 0, "$study next -m $T/one --prompt=a --top=1 --json", {"\"command\": \"next\""}},
        /* The default model. */
        {0, 2, "$run", {"no model is named: ./run MODEL -p PROMPT (see ./run --help)\n"}},
        {0,
         0,
         "cp $T/one $T/model.bin; cd $T && $run -p ab -n 0",
         {"run: note: no model is named; taking model.bin\n"}},
        {0, 0, "cd $T && $study next -p ab", {"study: note: no model is named; taking model.bin\n"}},
        {0,
         2,
         "cd $T && $study compare -p ab",
         {"no model is named: see ./study compare --help\n", "!taking"}},
        {0, 2, "cd $T && $study next", {"no model is named: see ./study next --help\n", "!taking"}},
        {0, 0, "cd $T && $run --version", {"attn ", "!taking"}},
        {0, 0, "cd $T && $run --help", {"usage: run", "!taking"}},
        {0,
         2,
         "mkdir $T/empty; cd $T/empty && $run -p ab",
         {"no model is named, here is no ./model.bin, and none is installed: "}},
        {0,
         2,
         "cd $T/empty && $study next -p ab",
         {"no model is named, here is no ./model.bin, and none is installed: see "}},
        {0,
         0,
         "mkdir $T/bin $T/share $T/share/attn && cp $run $T/bin/attn-run && cp $T/one $T/share/attn/model.gguf && cd $T/empty && $T/bin/attn-run -p ab -n 0",
         {"run: note: no model is named; taking ", "/share/attn/model.gguf\n"}},
        {0,
         1,
         "$run $T/nobos -p '' -n 1",
         {"the prompt is empty and the vocabulary has no token to begin with; give one with -p\n"}},
        {0, 0, "printf '\\n' | $run $g --tokens --bos 2>&1 || printf '\\n' | $run $g --tokens", {"\n"}},
        {0, 0, "(printf He; sleep 0.2; printf llo) | $run $g --tokens", {"39 68 75 75 78\n"}},
        {0, 0, "printf 'Hi<|endoftext|>\\n' | $run $g -i -n 1 --special --temp 0", {"!cannot"}},
        {0, 0, "printf 'Hi\\n' | $run $g -i -n 1 --temp 0 --logits $T/x.npy -p Ho", {"!cannot"}},
        {0, 0, "printf 'a' | $run $g -i -n 1 --temp 0", {"!cannot"}}, /* a last line without its end */
    };
    CHECK_CASES(cases);
}

/* Logits that are not finite end a view wherever they first come. */
static void test_not_finite(void) {
    static const Case cases[] = {
        {0, 1, "$study next $T/nan -p ab", {"nan: the logits are not finite"}},
        {0, 1, "$study attend $T/nan -p ab --layer 0 --head 0 -n 2", {"nan: the logits are not finite"}},
        {0, 1, "$study compare $T/one $T/nan -p ab", {"nan: the logits are not finite"}},
        {0, 1, "$study ablate $T/nan -p ab --heads L0H0", {"nan: the logits are not finite"}},
        {0, 1, "$study score $T/nan -p ab", {"nan: the logits are not finite"}},
        {0,
         1,
         "$study view $T/nan -p ab -n 2 -o $T/nan.html; ls $T/nan.html && exit 3; exit 1",
         {"nan: the logits are not finite"}},
        {0, 1, "$run $T/nan -p ab -n 2", {"nan: the logits are not finite"}},
    };
    CHECK_CASES(cases);
}

/* No memory: for a folder's listing, which is told to be one all the same; for selfcheck's own text. */
static void test_no_memory(void) {
    static const Case cases[] = {
        {0,
         0,
         "for i in $(seq 12); do ATTN_FAULT=malloc:$i $faulty tests/data -p a; done 2>&1 | sort | uniq -c",
         {"not enough memory", " run: tests/data: is a directory; name the checkpoint file in it\n"}},
        {0,
         0,
         "for i in $(seq 9 50); do ATTN_FAULT=malloc:$i ${faulty%run}study selfcheck $T/one -t 1; done 2>&1 | sort -u",
         {"study: not enough memory to tokenize "}},
    };
    CHECK_CASES(cases);
}

/* Colours, and the width that a terminal tells. */
static void test_terminals(void) {
    static const Case cases[] = {
        {100, 0, "$study next $g -p Hi", {"\033[1m rank", "\033[2mp: probability", "\033[0m"}},
        {100,
         0,
         "NO_COLOR= $study next $g -p Hi",
         {"\033[1m rank"}}, /* empty: as if it were not there (no-color.org) */
        {100, 0, "NO_COLOR=1 $study next $g -p Hi", {"!\033["}},
        {100, 0, "TERM=dumb $study next $g -p Hi", {"!\033[", "█"}},
        {100, 0, "unset TERM; $study next $g -p Hi", {"\033[1m rank"}},
        {100, 0, "TERM=xterm $study next $g -p Hi", {"\033[1m rank"}},
        {0, 0, "$study next $g -p Hi", {"!\033[", "!█"}},
        {30,
         0,
         "NO_COLOR=1 $study attend $g -f $T/60 --layer 0 --head 0",
         {"Only the last 40 of 60"}}, /* too narrow: 100 is taken */
        {80, 0, "NO_COLOR=1 $study attend $g -f $T/60 --layer 0 --head 0", {"Only the last 30 of 60"}},
        {70, 0, "NO_COLOR=1 $study shape --preset gpt2", {"is the embedding"}},
    };
    CHECK_CASES(cases);
}

/* On a terminal programs say more beside their text: a prompt, a newline at its end, progress that is wiped in the end. */
static void test_stderr(void) {
    static const Case cases[] = {
        {100, 0, "printf 'x\\n' | $run $g -i -n 1 --temp 0 2>&1; printf end", {"> ", "\r\n> \r\nend"}},
        {100, 0, "head -c 300 /dev/zero | tr '\\0' a | $study score $g 2>&1", {"\r\033[K"}},
    };
    CHECK_CASES(cases);
}

/* Bold, dim, coloured: what they begin they end (check_styles). */
static void test_styles(void) {
    static const Case cases[] = {
        {100, 0, "unset NO_COLOR; TERM=xterm $study next $g -p Hi --token a", {"\033[1m", "\033[0m", "█"}},
        {100, 0, "unset NO_COLOR; TERM=xterm $study score $g -p Hello --words", {"\033[1m", "\033[2m"}},
        {100,
         0,
         "unset NO_COLOR; TERM=xterm $study attend $g -p Hello",
         {"\033[1m", "\033[48;5;159m  \033[0m"}},
        {100, 0, "unset NO_COLOR; TERM=xterm $study attend $g -p Hello --layer 0 --head 0", {"\033[48;5;"}},
        {100, 0, "unset NO_COLOR; TERM=xterm $study attend $g -p Hello --query 3", {"\033[1m"}},
        {100, 0, "unset NO_COLOR; TERM=xterm $study attend $g -p Hello --layer 0 --head 0 -n 2", {"\033[1m"}},
        {100, 0, "unset NO_COLOR; TERM=xterm $study heads $g --repeat 9", {"\033[1m", "\033[2m"}},
        {100,
         0,
         "unset NO_COLOR; TERM=xterm $study lens $g -p Hello --mid --token a",
         {"\033[1m", "\033[2m"}},
        {100,
         0,
         "unset NO_COLOR; TERM=xterm $study explain $g -p Hello --layer 0 --head 0 --query 2",
         {"\033[1m", "█"}},
        {100, 0, "unset NO_COLOR; TERM=xterm $study ablate $g -p Hello --heads L0H0", {"\033[1m", "\033[2m"}},
        {100,
         0,
         "unset NO_COLOR; TERM=xterm $study ablate $g -p Hello --sweep heads",
         {"\033[1m", "\033[48;5;"}},
        {100, 0, "unset NO_COLOR; TERM=xterm $study compare $g $g -p Hello", {"\033[1m", "\033[2m"}},
        {100, 0, "unset NO_COLOR; TERM=xterm $study selfcheck $g", {"\033[32mpass\033[0m"}},
        {100, 0, "unset NO_COLOR; TERM=xterm $study shape $g", {"\033[1m", "\033[2m"}},
        {100,
         0,
         "unset NO_COLOR; TERM=xterm $study case docs/cases/5-heads.json",
         {"\033[1m", "\033[2m", "\033[32m"}},
        {100,
         1,
         "unset NO_COLOR; echo '{\"x\": [[1]], \"context\": [[2]]}' >$T/wrong; TERM=xterm $study case $T/wrong",
         {"\033[31m"}},
        {100, 0, "unset NO_COLOR; TERM=xterm $study dump $g -p Hello -o $T/x.npz", {"\033[1m"}},
    };
    CHECK_CASES(cases);
}

int main(void) {
    words_begin();
    RUN(test_options);
    RUN(test_not_finite);
    RUN(test_no_memory);
    RUN(test_terminals);
    RUN(test_stderr);
    RUN(test_styles);
    return words_end();
}
