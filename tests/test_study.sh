#!/bin/sh
# The study program from outside: what it refuses and how it ends. Whether its numbers are right is
# test_study.c's.
study=${STUDY:-./study}
data=tests/data/reference
gpt2=$data/gpt2-f32.gguf   # 2 layers of 2 heads; a token for each byte and <|endoftext|>; 192 positions
llama=$data/llama-f32.gguf # 2 layers of 4 heads, 2 kv heads; SentencePiece, BOS in front
program=$study name=study
. tests/program.sh

narrow() { ! LC_ALL=C.UTF-8 grep -q "^.\{$(($1 + 1))\}" "$tmp/out"; } # no line wider

# Every command on both families: text of 100 columns at most, without colour, and one object of JSON.
printf 'The Eiffel tower stands' >"$tmp/prompt"
printf 'What in Paris is tall?!' >"$tmp/other"
printf 'a tower\r\n\nthe tower\ntower of six\ntall tower!\nno tower\nthis tower' >"$tmp/towers"
each_command() { # FUNCTION: calls it with the arguments of every command
    for model in "$gpt2" "$llama"; do
        for arguments in "next $model" "score $model" "score $model -c 8 --words" \
            "score $model -c 8 --chunks" "attend $model" "attend $model --layer 1 --head 0 --query 7" \
            "attend $model --layer 0 --reduce max -n 5" "heads $model" \
            "lens $model --mid --token #104" "explain $model --layer 1 --head 1" \
            "attribute $model --head L0H1 --neurons 1" "attribute $model --score L1H0:9>3" "rollout $model --flow" \
            "rollout $model --query 9 --top 3" "ablate $model --heads L0H1 --mlps 1" "ablate $model --sweep heads --by mean" \
            "ablate $model --heads L1 --by resample --with $tmp/other" "compare $model $model" \
            "neurons $model" "neurons $model --neuron L1N7" "neurons $model --head L0H1" \
            "dump $model -o $tmp/dump.npz"; do
            "$1" $arguments -f "$tmp/prompt"
        done
        "$1" steer "$model" -f "$tmp/prompt" --plus 'a good one' --minus bad -o "$tmp/control.npy"
        "$1" steer "$model" -f "$tmp/prompt" --neuron L1N5 --project --positions last --answer '#104' -n 3
        "$1" steer "$model" -f "$tmp/prompt" --token '#100' --sweep --strengths -1,2
        "$1" attribute "$model" --pairs "tests/data/study/three-pairs.jsonl" --top 3
        "$1" meaning "$model" --word tower -f "$tmp/towers"
        "$1" heads "$model" --repeat 9 --batch 2
        "$1" neurons "$model" --neuron L0N9 --corpus "$data/../study/long.txt" -c 24
        "$1" patch "$model" --pairs tests/data/study/pairs.jsonl --what pattern
        for rest in '--wrong #101' '--noising --what head-pos --layer 1 --top 3' '--path L0H1:L1H0.v,L0MLP:final'; do
            "$1" patch "$model" -p 'the cat' --corrupted 'the rat' --answer '#104' $rest
        done
        "$1" selfcheck "$model"
        "$1" shape "$model"
        "$1" circuit "$model"
        "$1" circuit "$model" --head L1H1 --token '#100' --top 2
        "$1" circuit "$model" --composition k --head L0H1
    done
    "$1" shape --preset gpt2-xl
}
ends_well() {
    try "$@"
    [ "$code" -eq 0 ] && ! grep -v '^study: .* a second$' "$tmp/err"
}
shows() {
    has ends_well "$@"
    [ "$1" = dump ] || has narrow 100 # its paths are long
    has grep -q . "$tmp/out"
    if out_has "$(printf '\033')"; then has false; fi
    has ends_well "$@" --ascii
    if out_has "$(printf '[\200-\377]')"; then has false; fi
    [ "$1" = dump ] || has narrow 100
    has ends_well "$@" --json
    has [ "$(wc -l <"$tmp/out")" -eq 1 ]
    has out_has '^{"command": .*}$'
    cat "$tmp/out" >>"$tmp/objects"
}
each_command shows
if python3 -c '' 2>/dev/null; then
    has python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1])]' "$tmp/objects"
fi

# The text comes by -p, -f or stdin; the number of threads changes nothing.
same() { # OTHER ARG…: prints what is in $tmp/wanted
    try "$@"
    quiet && cmp -s "$tmp/wanted" "$tmp/out"
}
for model in "$gpt2" "$llama"; do
    try score "$model" -f "$tmp/prompt" --json
    cp "$tmp/out" "$tmp/wanted"
    has same score "$model" -p 'The Eiffel tower stands' --json
    has same score "$model" -p 'The Eiffel tower stands' --json -t 3
    has same score --json "$model" --prompt 'The Eiffel tower stands' --threads 1
    input=$tmp/prompt
    has same score "$model" --json
    has same score "$model" -f - --json
    input=/dev/null
done
try score "$gpt2" -p Hi --json
has out_has '"bos": false'
try score "$gpt2" -p Hi --bos --json
has out_has '"n_tokens": 3, "bos": true'
try tokens "$gpt2" --ids 46,41 --bos --json # only where it is asked for
has out_has '"n_tokens": 3, "bos": true, .*"tokens": \[{"id": 256, [^}]*}, {"id": 46, [^}]*}, {"id": 41, '
for ids in 460 8191,460; do # a second text has a BOS where the first has one
    try patch weights/model.gguf --ids $ids,2187 --corrupted 'The old' --answer ' king' --json
    has out_has "\"corrupted_tokens\": \\[{\"id\": ${ids%%,*}, "
done
try tokens "$llama" --ids 46,41 --json
has out_has '"n_tokens": 2, "bos": false'
try score "$llama" -p Hi --no-bos --json
has out_has '"bos": false'
try score "$gpt2" -p 'Hi<|endoftext|>' --special --json
has out_has '"n_tokens": 3'
try next "$gpt2" -p '' --bos
has quiet

# The engine agrees with itself on every checkpoint; test_families.sh has the other families.
for model in weights/model.gguf "$data"/gpt2-*.gguf "$data"/llama-[fbq]*.gguf "$data"/llama-mixed*.gguf; do
    case $model in *expected.gguf) continue ;; esac
    try selfcheck "$model" --json
    has quiet
    has out_has '"passed": true'
done

# The seed that draws where none is given, and the rows and lines that only people see.
try heads "$gpt2" --repeat 4 --json
has out_has '"seed": 1,'
cp "$tmp/out" "$tmp/wanted"
has same heads "$gpt2" --repeat 4 --json -s 1
try score "$gpt2" -p Hello
has out_has '^    0  *"H"  *-  *-  *-$' # nothing foresaw the first token
has [ "$(grep -c '^ *[0-4]  *"' "$tmp/out")" -eq 5 ]
try score "$gpt2" -f "$tmp/prompt" -c 8
has grep -q 'tokens scored in [0-9]\{1,2\}\.[0-9] s, ' "$tmp/err" # not since the machine was started
try lens "$gpt2" -p Hello --top 1 # the line has room for more
has [ "$(grep -c '^[^"]*"[^"]*" *[01]\.[0-9]*$' "$tmp/out")" -eq 3 ]
has out_has 'likeliest$'
for head in 0 1 2 3; do
    try explain "$llama" -p Hello --layer 0 --head $head
    has out_has "^L0H$head, query .* (it shares kv head $((head / 2)) with other heads)$"
done
try explain "$gpt2" -p Hello --layer 0 --head 0
if out_has 'kv head'; then has false; fi

# The cache's type: f32 unless asked otherwise.
try score "$gpt2" -p Hello --json
cp "$tmp/out" "$tmp/wanted"
has same score "$gpt2" -p Hello --json --kv f32
try score "$gpt2" -p Hello --json --kv f16
has quiet
if cmp -s "$tmp/wanted" "$tmp/out"; then has false; fi

# The model of this repository says what it was made to say with a probability of one half or more.
try next weights/model.gguf -p 'The Eiffel' --json
has out_has '"token": " Tower", "rank": 1, "probability": 0\.[5-9]'

# Help.
for view in next score selfcheck attend dump heads lens explain ablate patch attribute circuit faithful steer neurons meaning rollout experts compare \
    view shape case serve; do
    try $view --help
    has quiet
    has out_has "^usage: .*study $view "
    has narrow 110
done
for option in --json --ascii --bos --no-bos --special '--kv f16' '--ids 1' '-c 9' '-s 2'; do # help names none of them
    refuses 2 'serve takes' serve "$gpt2" $option
    try serve --help
    if grep -q -e "${option%% *}\>" "$tmp/out"; then has false; fi
done
for view in next view serve ''; do # the manual leaves the options of other commands to their help
    try $view --help
    in_manual attn-study.1 $(helped)
done
has quiet
has narrow 110
try --version
has quiet

# Wrong usage.
refuses 2 "no command '$gpt2'" "$gpt2" -p Hi
refuses_each <<'END'
2 no command                            |
2 no command 'look'                     | look "$gpt2"
2 no model                              | next
2 unknown option --nonsense             | next "$gpt2" --nonsense
2 unknown option --layer: see --help$   | next "$gpt2" -p Hi --layer 1
2 --tokenizer is given twice            | next "$gpt2" -p Hi -z a -z b
2 --token is empty                      | next "$gpt2" -p Hi --token ''
2 --heads is given twice: 'L0H0' and    | ablate "$gpt2" -p Hi --heads L0H0 --heads L0H1
2 --output is given twice               | dump "$gpt2" -p Hi -o a -o b
2 --layers is given twice               | dump "$gpt2" -p Hi --layers 0 --layers 1
2 --output needs the name of a file$    | dump "$gpt2" -p Hi -o ''
2 --tokenizer needs the name of a file$ | next "$gpt2" -p Hi -z ''
2 unknown option --top                  | heads "$gpt2" -p Hi --top 3
2 unknown option --mlps                 | dump "$gpt2" -p Hi --mlps 0
2 unknown option -p                     | shape "$gpt2" -p Hi
2 -p needs a value                      | next "$gpt2" -p
2 two models                            | compare "$gpt2" -p Hi
2 -p and -f                             | next "$gpt2" -p Hi -f "$tmp/prompt"
2 --bos and --no-bos                    | next "$gpt2" -p Hi --bos --no-bos
2 --kv takes f32, f16 or q8_0, not 'q8' | next "$gpt2" -p Hi --kv q8
2 --preset                              | shape "$gpt2" --preset gpt2
END
for bad in '--top x' '--top -1' '--temp nan' '--temp -1' '--top-p 2' '--min-p -1' '--top-k 1.5' \
    '-c 0' '-s -1' '-t 0' '--top +5' '--temp +1' '--temp -inf' '--temp .'; do
    refuses 2 "takes a .*number from .*'${bad#* }'" next "$gpt2" -p Hi $bad
done

refuses 2 "takes a whole number .*' 5'" next "$gpt2" -p Hi --top ' 5'
refuses 2 "takes a number .*' 1'" next "$gpt2" -p Hi --temp ' 1'

# Bad input: every command that reads a text.
head -c 20000 "$gpt2" >"$tmp/cut.gguf"
echo 'This is a text and no model at all.' >"$tmp/text.gguf"
head -c 500 /dev/zero | tr '\0' a >"$tmp/long"
for arguments in next score attend heads lens 'explain --layer 0 --head 0' 'ablate --heads L0H0' \
    neurons 'neurons --neuron L0N0' "dump -o $tmp/x.npz" "view -o $tmp/x.html"; do
    view=${arguments%% *} rest=
    [ "$arguments" = "$view" ] || rest=${arguments#* }
    refuses 1 'none.gguf: .*No such file' $view "$tmp/none.gguf" -p Hi $rest
    refuses 1 'text.gguf: ' $view "$tmp/text.gguf" -p Hi $rest
    refuses 1 'cut.gguf: ' $view "$tmp/cut.gguf" -p Hi $rest
    refuses 1 'expected.gguf: ' $view "${gpt2%.gguf}.expected.gguf" -p Hi $rest
    refuses 1 '257 tokens.*261' $view "$gpt2" -z "$llama" -p Hi $rest
    refuses 1 'none: cannot open' $view "$gpt2" -f "$tmp/none" $rest
    refuses 1 'empty' $view "$gpt2" -p '' $rest
    [ $view = score ] || refuses 1 '500 tokens.*context of 192' $view "$gpt2" -f "$tmp/long" $rest
    [ $view = score ] || refuses 1 'tokens.*context of 4' $view "$gpt2" -p 'Hello' -c 4 $rest
done
refuses_each <<'END'
1 none.gguf: cannot open | compare "$gpt2" "$tmp/none.gguf" -p Hi | compare "$tmp/none.gguf" "$gpt2" -p Hi
1                        | compare "$gpt2" "$llama" -p Hi | heads "$gpt2" -p H | ablate "$gpt2" -p H --heads L0H0
1 one token              | score "$gpt2" -p H
1 193.*192               | score "$gpt2" -f "$tmp/long" -c 193
1 64.*23                 | score "$gpt2" -f "$tmp/prompt" -c 32 --chunks
2 --chunks               | score "$gpt2" -f "$tmp/prompt" -c 8 --chunks --words
END

# No such layer, head, query, token.
for view in attend explain; do
    refuses 1 'layer 99.*2' $view "$gpt2" -p Hello --layer 99 --head 0
    refuses 1 'layer 2 .*2' $view "$gpt2" -p Hello --layer 2 --head 0
    refuses 1 'head 4.*4' $view "$llama" -p Hello --layer 0 --head 4
    refuses 1 'query 5.*5' $view "$gpt2" -p Hello --layer 0 --head 0 --query 5
done
refuses_each <<'END'
1 query 5.*5                                          | lens "$gpt2" -p Hello --query 5
1 'xyz' is 3 tokens                                   | lens "$gpt2" -p Hello --token xyz
1 #257.*#256                                          | lens "$gpt2" -p Hello --token '#257'
1 #9x                                                 | lens "$gpt2" -p Hello --token '#9x'
2 --token is empty                                    | lens "$gpt2" -p Hello --token ''
1 there is no token # 12: ids go from #0 to #256      | lens "$gpt2" -p Hello --token '# 12'
1 there is no token #+1: ids                          | lens "$gpt2" -p Hello --token '#+1'
1 there is no token #x: ids                           | lens "$gpt2" -p Hello --token '#x'
1 there is no token #-1: ids                          | lens "$gpt2" -p Hello --token '#-1'
2 --ids takes numbers .*not ' 5'                      | lens "$gpt2" --ids ' 5'
2 leave out -p                                        | heads "$gpt2" --repeat 5 -p Hi
2 leave out --ids                                     | heads "$gpt2" --batch 5 --ids 1,2
2 --layer and --head                                  | explain "$gpt2" -p Hello --layer 0
2 --by takes                                          | attend "$gpt2" -p Hello --by weights
2 --reduce takes                                      | attend "$gpt2" -p Hello --reduce sum
2 --reduce takes all                                  | attend "$gpt2" -p Hello --reduce mean --head 1
2 -n shows one row                                    | attend "$gpt2" -p Hello -n 3
2 -n goes without                                     | attend "$gpt2" -p Hello -n 1 --layer 0 --head 0 --query 1
1 -n 188.*187                                         | attend "$gpt2" -p Hello -n 188 --layer 0 --head 0
1 query 11.*11 | attend weights/model.gguf --no-bos -p 'The red fox met the bear. The red fox saw foxes.' --words --query 11
1 --repeat 96.*95                                     | heads "$gpt2" --repeat 96
1 layer 5 does not exist: there are 2, from 0 on      | ablate "$gpt2" -p Hello --heads L5H0
1 head 7 does not exist: a layer has 2, from 0 on     | ablate "$gpt2" -p Hello --heads L0H7
1 layer 2 does                                        | ablate "$gpt2" -p Hello --heads L2H0
1 head 2 does                                         | ablate "$gpt2" -p Hello --heads L0H0,L1H2
1 head 7 does not exist: there are 4, from 0 on       | explain "$llama" -p Hello --layer 0 --head 7
1 query 8 does not exist: there are 5, from 0 on      | lens "$gpt2" -p Hello --query 8
1 position 9 does not exist: there are 5, from 0 on   | dump "$gpt2" -p Hello -o "$tmp/x.npz" --positions 0-9
1 -n 188: after 5 tokens of text the context of 192 has room for 187 | attend "$gpt2" -p Hello --layer 0 --head 0 -n 188
1 --ablate: head 3 does not exist: a layer has 2      | view "$gpt2" -p Hello -o "$tmp/x.html" --ablate L1H3
1 there is no L2H3: the model has 2 layers of 4 heads | view "$llama" -p Hello -o "$tmp/x.svg" --svg L2H3
1 -c 193 is more than the 192 positions               | score "$gpt2" -p Hello -c 193
END
refuses 1 'has 23 tokens.* 5\|23 tokens, but the text has 5' ablate "$gpt2" -p Hello --heads L0H0 --by resample \
    --with "$tmp/other"

# The query of attend: a number counts tokens, or words; anything else is a text, in its last place.
queried() { # QUERY POSITION ARG…
    query=$1 position=$2
    shift 2
    try attend weights/model.gguf --no-bos -p 'The red fox met the bear. The red fox saw foxes.' --query "$query" --json "$@"
    quiet && out_has "\"query\": $position, \"patterns\""
}
has queried 3 3
has queried 3 3 --words
has out_has '"top": \[{"key": [0-3], "word"'
has queried red 9 # the last of two
has queried ' red' 9
has queried The 8
has queried fox 11 # two tokens, " f" and "ox"; not in "foxes"
has queried fox 8 --words
has queried foxes 15
has queried foxes 10 --words
has queried bear 5 --words # its word is " bear."
for bad in bears xfo 1.5 -1 ''; do
    refuses 1 "--query: '$bad' is no token or word .* 0 to 16" attend weights/model.gguf --no-bos \
        -p 'The red fox met the bear. The red fox saw foxes.' --query "$bad"
done

# A word in several sentences.
try meaning "$gpt2" -w tower -f "$tmp/towers" --layer 2
has quiet
has narrow 80
has out_has '^    *2.  *3.  *4.  *5.  *6.$' # all pairs, for which the table has no room
has out_has '^  3\. "tower of six"  *position 4, "r"$'
has grep -q '^a word of several tokens' "$tmp/out"
try meaning "$gpt2" -w r -p 'a r' -p 'to r or' -p r --top 1
has quiet
has narrow 80
has out_has '^row  *mean  *1-2  *1-3  *2-3$'
has out_has '^0_pre '
if out_has '^a word of several'; then has false; fi
try meaning "$gpt2" --no-bos --centred -w a -p a -p a -p a -p a -p a -p a -p a -p a # zeros are left
has quiet
has out_has '^  7\.  *-$'
if out_has nan; then has false; fi
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do printf 'a\na\na\na\na\na\na\na\na\na\n'; done >"$tmp/many"
refuses_each meaning "$gpt2" <<'END'
2 which word to follow: --word                   | -p a -p b
2 which word                                     | -w ' ' -p a -p b
2 ids                                            | -w a -p a -p b --ids 3
2 given twice                                    | -w a -w b -p a
1 'tower' is no word of sentence 2, 'the towers' | -w tower -p 'a tower' -p 'the towers'
1 two sentences                                  | -w a -p a | -w a
1 none: cannot open                              | -w a -f "$tmp/none"
1 'a' is no word of sentence 2, ''               | -w a -p a -p ''
1 layer 3 .*2                                    | -w a -p a -p a --layer 3
1 sentence 2 has 193.*192                        | -w a -p a -p "$(head -c 193 "$tmp/long")"
1 up to 128                                      | -w a -f "$tmp/many"
END

# From a position back to the text.
try rollout "$gpt2" -f "$tmp/prompt" --top 4
has quiet
has narrow 80
has out_has '^  *others  *0\.[0-9]*$'
has [ "$(grep -c '^ *[0-9][0-9]* "' "$tmp/out")" -eq 4 ]
try rollout "$gpt2" -p H --flow
has out_has '^   0 "H"  *1\.0000  *1\.0000  *1\.00  *1\.0000  *1\.0000'
refuses_each rollout <<'END'
1 query 5 does not exist            | "$gpt2" -p Hello --query 5
1 257 tokens                        | "$gpt2" -p Hello -z "$llama"
1 500 tokens.*context of 192        | "$gpt2" -f "$tmp/long" | "$gpt2" -f "$tmp/long" --query 3
1 flow goes.*6 layers of 600 tokens | weights/model.gguf --ids "$(seq -s, 1 600)" -c 600 --flow
END

# Heads by their weights.
try circuit weights/model.gguf --composition k
has quiet
has narrow 80
has out_has '^L3H4    L2H2 ' # the induction head reads the head that looks at the token before
has [ "$(grep -m 1 -o '^L3H4 *L[0-9]H[0-9]' "$tmp/out")" = 'L3H4    L2H2' ] # and no other more
try circuit weights/model.gguf --head L3H4 --top 100
has quiet
has narrow 80
for n in 18446744073709551615 99999999999999999999; do # NOT_GIVEN is no number that anyone gives
    refuses 1 'no layer has so large a number: there are 2, from 0 on' circuit "$gpt2" --head L${n}H0
    refuses 1 'no head has so large a number' circuit "$gpt2" --head L0H$n
    refuses 1 'no layer has so large a number' attribute "$gpt2" -p ab --head L${n}H0
    refuses 1 'no head has so large a number' attribute "$gpt2" -p ab --head L0H$n
    refuses 1 'no layer has so large a number' attribute "$gpt2" -p ab --score "L${n}H0:1>0"
    refuses 1 'no head has so large a number' attribute "$gpt2" -p ab --score "L0H$n:1>0"
    refuses 1 'no layer has so large a number' steer "$gpt2" -p ab --neuron L${n}N0
    refuses 1 '--neuron: no neuron has so large a number: a layer has 84, from 0 on' steer "$gpt2" -p ab --neuron L0N$n
done
refuses_each circuit <<'END'
2 leave out the text                      | "$gpt2" -p Hello | "$gpt2" --ids 1
2 --token goes with --head                | "$gpt2" --token a
2 --top goes with --head                  | "$gpt2" --top 3
2 --top goes with --head                  | "$gpt2" --head L1H0 --composition k --top 3
2 not with --composition                  | "$gpt2" --token a --head L0H0 --composition q
2 --top takes a whole number              | "$gpt2" --head L0H0 --top 0
2 --composition takes q, k or v, not 'qk' | "$gpt2" --composition qk
1 layer 2 does not exist                  | "$gpt2" --head L2H0
1 head 2 does not exist                   | "$gpt2" --head L0H2
1 layer 0 has no attention heads          | "$data/qwen35.gguf" -z tests/data/study/letters.gguf --head L0H0
1 'xyz' is 3 tokens                       | "$gpt2" --head L0H0 --token xyz
END
for head in '' L0 L0H L0H1, h0; do refuses 2 "'$head' is no head" circuit "$gpt2" --head "$head"; done
# Parts of a logit, and of a score.
pairs=tests/data/study/three-pairs.jsonl
try attribute "$gpt2" -f "$tmp/prompt" --answer a --head L0H1 --neurons 1 --top 4
has quiet
has narrow 90
has out_has '^logit of "a" less the mean over the vocabulary, after "s" (position [0-9]*)$'
has out_has '^sum of all parts .*off by 0\.0000$'
has [ "$(grep -c '^ *[0-9][0-9]* "' "$tmp/out")" -eq 4 ]
has out_has '^others .*, biases '
try attribute "$gpt2" -f "$tmp/prompt" --head L0H1,L1H0,L0H1 --top 0
has [ "$(grep '^L0H1 by' "$tmp/out" | uniq | wc -l)" -eq 1 ]
try attribute "$gpt2" --pairs $pairs --top 3
has quiet
has narrow 90
has out_has '^logit of the answer less that of the wrong one; mean of 3 texts$'
printf '{"clean": "ab", "corrupted": "b", "answer": "cd"}\n' >"$tmp/pairs"
try attribute "$gpt2" --pairs "$tmp/pairs"
has out_has '^logit of the answer less the mean'
has out_has '^1 text has an answer of several tokens'
for bos in yes no; do
    option=--bos && [ $bos = yes ] || option=--no-bos
    try attribute "$gpt2" --pairs "$tmp/pairs" $option
    has out_has "  bos $bos  seed 1\$"
    try attribute "$gpt2" --pairs "$tmp/pairs" $option --json
    has grep -q "\"bos\": $([ $bos = yes ] && echo true || echo false)," "$tmp/out"
done
try lens "$gpt2" -p 'the cat sat' --query cat
has out_has '^After "t" (position 6) '
refuses 1 "--query: 'dog' is no token or word of the text; a number goes from 0 to 10" lens "$gpt2" -p 'the cat sat' --query dog
printf '{"clean": "ab", "corrupted": "b", "answer": "c", "wrong": "d"}\n' >>"$tmp/pairs"
refuses 1 'line 2: there is a "wrong"' attribute "$gpt2" --pairs "$tmp/pairs"
printf '{"clean": "ab", "corrupted": "b", "answer": "c", "wrong": "c"}\n' >"$tmp/pairs"
refuses 1 'holds no pair .*line 1: the answer and the wrong one' attribute "$gpt2" --pairs "$tmp/pairs"
printf '{"clean": "%s", "corrupted": "b", "answer": "c"}\n' "$(head -c 193 "$tmp/long")" >"$tmp/pairs"
refuses 1 'line 1: .*193 tokens' attribute "$gpt2" --pairs "$tmp/pairs"
for list in '' L0 L0H L0H0, H0 L0H0L1H1; do refuses 2 "'$list'" attribute "$gpt2" -p ab --head "$list"; done
try attribute "$gpt2" -f "$tmp/prompt" --score 'L1H0:5>5' --top 3
has quiet
has narrow 90
has out_has '^L1H0, query 5 .*, key 5 .*: a score of .*, a weight of '
try attribute "$gpt2" -p a --score 'L0H0:0>0' --top 0
has quiet
for score in '' L0H0 L0H0:2 'L0H0:2>' 'L0:2>1' 'L0H0:2>1x' 'L0H0: 2>1' 'L0H0:-2>1' 'L0H0:2<1'; do
    refuses 2 "'$score' is no score" attribute "$gpt2" -p abcd --score "$score"
done
letters='-z tests/data/study/letters.gguf -p abcdefgh'
refuses_each attribute <<'END'
2 leave out --query          | "$gpt2" --pairs $pairs --query 2
2 leave out --head           | "$gpt2" --pairs $pairs --head L0H0
2 leave out --answer         | "$gpt2" --pairs $pairs --answer a | "$gpt2" -p abcd --score 'L0H0:2>1' --answer a
2 leave out --corrupted      | "$gpt2" -p ab --corrupted ac
2 give the text              | "$gpt2"
2 give --answer              | "$gpt2" -p ab --wrong a
1 --answer: .*2 tokens       | "$gpt2" -p ab --answer ab
1 same token                 | "$gpt2" -p ab --answer a --wrong a
1 --wrong is empty           | "$gpt2" -p ab --answer a --wrong ''
1 query 2 does not exist     | "$gpt2" -p ab --query 2
1 layer 2 does not exist     | "$gpt2" -p ab --neurons 2 | "$gpt2" -p abcd --score 'L2H0:2>1'
1 head 2 does not exist      | "$gpt2" -p ab --head L0H2 | "$gpt2" -p abcd --score 'L0H2:2>1'
1 500 tokens.*context of 192 | "$gpt2" -f "$tmp/long" --query 3
2 not 'magic'                | "$gpt2" -p ab --by magic
1 key 3, which comes behind  | "$gpt2" -p abcd --score 'L0H0:2>3'
1 query 4 does not exist     | "$gpt2" -p abcd --score 'L0H0:4>3'
2 leave out --by             | "$gpt2" -p abcd --score 'L0H0:2>1' --by direct
1 layer 0 has a window of 4  | tests/data/reference/gemma3.gguf $letters --score 'L0H0:6>1'
1 keeps a state              | tests/data/reference/lfm2.gguf $letters --score 'L0H0:6>1'
1 keeps a state              | tests/data/reference/lfm2.gguf $letters --head L0H0
1 gate stands behind         | tests/data/reference/qwen35.gguf $letters --head L1H0
1 has experts                | tests/data/reference/qwen3moe.gguf $letters --neurons 0
END

# Heads and MLPs to switch off.
for list in '' 0 L L0H L0H0, H0 L0H0L1H1 l0h0 L0H0=+0.5 'L0H0= 0.5'; do
    refuses 2 "'$list'" ablate "$gpt2" -p Hello --heads "$list"
done
for list in '' 1-0 x 0- 0,,1; do
    refuses 2 "'$list'" ablate "$gpt2" -p Hello --mlps "$list"
    refuses 2 "'$list'" dump "$gpt2" -p Hello --layers "$list" -o "$tmp/x.npz"
done
refuses_each ablate "$gpt2" -p Hello <<'END'
1 layer 7       | --mlps 7
2 switch off    |
2 --sweep       | --sweep all | --sweep heads --mlps 1
2 --by          | --heads L0H0 --by median
2 --with        | --heads L0H0 --by resample | --heads L0H0 --with "$tmp/other"
2 --hard-zero   | --heads L0H0 --by mean --hard-zero
1 23 tokens.* 5 | --heads L0H0 --by resample --with "$tmp/other"
1 none          | --heads L0H0 --by mean --with "$tmp/none"
END

# Sites to patch, and in which texts.
refuses_each patch "$gpt2" -p 'the cat' --corrupted 'the rat' --answer a <<'END'
2 takes resid, resid_pre, attn_out     | --what resid_post
2 takes resid, resid_pre               | --what resid_post --from 1
2 takes logit_diff, logit or logprob   | --metric nll
1 layer 2 does not exist               | --layer 2 | --path L0H0:L2MLP
2 give it with --wrong                 | --metric logit_diff
1 begin with the same token            | --wrong a
1 --wrong: 'ab' is 2 tokens            | --wrong ab
2 is no list such as                   | --path L0H0
2 is no list                           | --path L0H0:L1H0 | --path L0H0:L1H0.x | --path L0H0:L1MLP, | --path final:L1MLP
1 head 2 does not exist                | --path L0H2:L1MLP
1 does not read what the sender writes | --path L1H0:L1H1.q
1 does not read                        | --path L0MLP:L0MLP
END
refuses 1 'clean text has 7 tokens and the corrupted one 8.* from token 4 on: clean "c" "a" "t" | corrupted "r" "a" "t" "s"' \
    patch "$gpt2" -p 'the cat' --corrupted 'the rats' --answer a
try patch "$gpt2" -p a --corrupted b --answer c --what pattern --svg "$tmp/grid.svg" # of one token: nothing is left to do
has quiet
refuses_each patch "$gpt2" -p b --corrupted a --answer c <<'END'
2 leave out --layer                                           | --path L0H0:final --layer 1
2 leave out --                                                | --freeze pattern --what q | --freeze pattern --what k
2 leave out --                                                | --freeze pattern --path L0H0:final
2 --from and --to choose positions, which this --what has not | --what z --from 1
2 --from and --to choose positions, which --path has not      | --path L0H0:final --to 1
1 there are the positions 0 to 0, and                         | --from 9 | --to 9 | --from 1 --to 1 | --to 0
2 --freeze takes pattern, not 'z'                             | --freeze z
2 which --path has not                                        | --path L0H0:final --svg "$tmp/x"
2 name it with --layer                                        | --what neurons
2 --metric logit is of the answer alone: leave out --wrong    | --metric logit --wrong d
2 --metric logprob is of the answer alone                     | --metric logprob --wrong d
2 which --what neurons has not                                | --what neurons --layer 0 --svg "$tmp/x"
1 is a file of the model                                      | --svg "$gpt2"
END
refuses_each patch <<'END'
1 the same 7 tokens                       | "$gpt2" -p 'the cat' --corrupted 'the cat' --answer a
1 kv head 2 does not exist: a layer has 2 | "$llama" -p 'a tin' --corrupted 'a ton' --answer '#70' --path L0H3:L1H2.k
2 clean text                              | "$gpt2" --corrupted b --answer a
2 --corrupted                             | "$gpt2" -p b --answer a
2 --answer                                | "$gpt2" -p b --corrupted a
2 --answer is empty                       | "$gpt2" -p b --corrupted a --answer ''
2 leave out -p                            | "$gpt2" -p b --pairs "$tmp/pairs"
2 leave out --answer                      | "$gpt2" --answer b --pairs "$tmp/pairs"
1 none: cannot open                       | "$gpt2" --pairs "$tmp/none"
END
pairs() { # WHAT IS SAID, of these lines
    printf '%b' "$2" >"$tmp/pairs"
    refuses 1 "$1" patch "$gpt2" --pairs "$tmp/pairs" --what z
}
good='{"clean": "ab", "corrupted": "bb", "answer": "c", "wrong": "d"}\n'
pairs 'pairs: holds no pairs' ''
pairs 'holds no pairs' '\n \t\r\n'
pairs 'pairs: line 2: no JSON: ' "$good{\"clean\": \n"
pairs 'line 3: is no JSON object' "$good\n[1]\n"
pairs 'line 2: there is no "answer"' "$good{\"clean\": \"a\", \"corrupted\": \"b\"}"
pairs 'line 1: "clean" is no text' '{"clean": 1, "corrupted": "b", "answer": "c"}'
pairs 'line 1: "wrong" is no text' '{"clean": "a", "corrupted": "b", "answer": "c", "wrong": []}'
pairs 'line 1: "corrupted" is empty' '{"clean": "a", "corrupted": "", "answer": "c"}'
pairs 'line 2: there is no "wrong"' "$good{\"clean\": \"ab\", \"corrupted\": \"bb\", \"answer\": \"c\"}"
pairs 'none of the 1 pairs fits; line 1: ' '{"clean": "a", "corrupted": "bb", "answer": "c"}'
printf '%b' "$good{\"clean\": \"abc\", \"corrupted\": \"bbc\", \"answer\": \"c\", \"wrong\": \"d\"}" >"$tmp/pairs"
has ends_well patch "$gpt2" --pairs "$tmp/pairs"
has out_has 'mean of 1 pair$'
has out_has 'line 2: 3 tokens, where the pairs before have 2'
refuses 1 'this is the text that is read' patch "$gpt2" --pairs "$tmp/pairs" --what v --svg "$tmp/pairs"
has ends_well patch "$gpt2" --pairs "$tmp/pairs" --what v --svg "$tmp/grid.svg"
has out_has 'mean of 2 pairs'
has grep -q '; 2 pairs. attn ' "$tmp/grid.svg"
printf '%b' "$good$good" >"$tmp/pairs"
has ends_well patch "$gpt2" --pairs "$tmp/pairs" --noising --freeze pattern --svg "$tmp/grid.svg"
has grep -q '<title>resid_pre: corrupted into clean</title>' "$tmp/grid.svg"
has grep -q '; 2 pairs; patterns frozen. attn ' "$tmp/grid.svg"
has grep -q 'rotate(-90)">1</text>' "$tmp/grid.svg"

# Where dump writes.
cp "$gpt2" "$tmp/own.gguf"
refuses 1 'this is a file of the model' dump "$tmp/own.gguf" -p Hello -o "$tmp/../${tmp##*/}/own.gguf"
has cmp -s "$gpt2" "$tmp/own.gguf"
refuses 1 "$tmp: " dump "$gpt2" -p Hello -o "$tmp"
refuses_each dump "$gpt2" -p Hello <<'END'
2 -o                       |
1 none/x.npz: cannot write | -o "$tmp/none/x.npz"
2 'patterns'               | -o "$tmp/x.npz" --what q,patterns
1 position 5               | -o "$tmp/x.npz" --positions 0-5
1 head 2                   | -o "$tmp/x.npz" --heads 2
END
has test ! -e "$tmp/x.npz"
try dump "$gpt2" -p Hello -o "$tmp/x.npz"
has quiet
cp "$tmp/x.npz" "$tmp/before"
limited() { # FILE ARG…: a file may grow to 8 × 512 bytes
    file=$1
    shift
    (
        trap '' XFSZ
        ulimit -f 8
        "$study" "$@" -p 'Hello hello hello' -o "$tmp/$file" >"$tmp/out" 2>"$tmp/err"
    )
    code=$? command=$*
    [ "$code" -eq 1 ] && one_line "$file: cannot write.*File too large" && ! ls "$tmp/$file".* 2>/dev/null
}
has limited x.npz dump "$gpt2"
has cmp -s "$tmp/before" "$tmp/x.npz"
ln -s /dev/full "$tmp/full"
refuses 1 'full: ' dump "$gpt2" -p Hello -o "$tmp/full"
has [ -h "$tmp/full" ]
if /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
    cat >"$tmp/load.py" <<'PYTHON'
import sys, numpy
arrays = numpy.load(sys.argv[1])
assert arrays["tokens"].tolist() == [39, 68, 75, 75, 78] and arrays["str_tokens"].tolist() == list("Hello")
assert arrays["blocks.1.attn.hook_pattern"].shape == (2, 5, 5)
assert all(arrays[key].dtype.isnative for key in arrays.files)
PYTHON
    has /usr/bin/python3 "$tmp/load.py" "$tmp/x.npz"
    try dump "$gpt2" -p Hello -o "$tmp/x.npz" --half
    has /usr/bin/python3 "$tmp/load.py" "$tmp/x.npz"
fi

# Directions that steer, and where to. A file does the same as the texts it was made of, in either format.
try steer "$gpt2" -f "$tmp/prompt" --plus-file "$tmp/towers" --minus-file "$tmp/other" --site resid_post --layers 1 \
    --strength 2 -n 4 -o "$tmp/v.gguf" --json
has quiet
steered() { sed -n 's/.*"steered": \({"nll[^}]*}\).*/\1/p' "$1"; }
steered "$tmp/out" >"$tmp/wanted"
has [ -s "$tmp/wanted" ]
same_steered() { # ARG…
    try steer "$gpt2" -f "$tmp/prompt" -n 4 --json "$@"
    steered "$tmp/out" >"$tmp/got"
    quiet && cmp -s "$tmp/wanted" "$tmp/got"
}
has same_steered --plus-file "$tmp/towers" --minus-file "$tmp/other" --site resid_post --layers 1 --strength 2 -o "$tmp/v.npy"
has same_steered --direction "$tmp/v.npy"
has same_steered --direction "$tmp/v.gguf"
has same_steered --direction "$tmp/v.gguf" --layers 1
if python3 -c 'import numpy' 2>/dev/null; then
    has python3 -c 'import sys, numpy
rows = numpy.load(sys.argv[1])
assert rows.shape == (2, 40) and rows.dtype == "<f4" and not rows[0].any() and rows[1].any()' "$tmp/v.npy"
fi
before=$(cksum "$tmp/v.gguf")
LC_ALL=C sed 's/gpt2/gpt3/' "$tmp/v.gguf" >"$tmp/hinted.gguf"
try steer "$gpt2" -p Hello --direction "$tmp/hinted.gguf"
has grep -q "^study: note: .*hinted.gguf: it says that it is for 'gpt3', and the model is 'gpt2'$" "$tmp/err"
for neuron in L0 N3 L0N L0H1 L0N1x 0N1; do refuses 2 "'$neuron' is no neuron" steer "$gpt2" -p Hello --neuron $neuron; done
for list in '' x 1, ,1 1e7 nan 1,,2 '1, 2' +1; do
    refuses 2 "'$list'" steer "$gpt2" -p Hello --token a --sweep --strengths "$list"
done
: >"$tmp/nothing"
echo good >"$tmp/plus"
echo bad >"$tmp/minus"
refuses_each steer "$gpt2" -p Hello <<'END'
2 direction                                          |  | --plus a | --minus a | --plus a --plus-file b --minus c
2 direction                                          | --plus a --minus b --minus-file c
2 one direction at a time                            | --token a --neuron L0N1
2 --average goes with texts                          | --token a --average last
2 --average takes mean or last, not 'most'           | --plus a --minus b --average most
2 --site takes .*not 'q'                             | --token a --site q
1 layer 2 does not exist                             | --neuron L2N0
1 neuron 84 does not exist: layer 1 has 84           | --neuron L1N84
1 --layers: layer 2 does                             | --token a --layers 1-2
1 --positions: position 5 does                       | --token a --positions 3,5
1 length 0                                           | --plus ab --minus ab
1 'xyz' is 3 tokens                                  | --token xyz | --token a --answer xyz
1 -n 188.*187                                        | --token a -n 188
2 --strengths goes with --sweep                      | --token a --strengths 1
2 --sweep tries many                                 | --token a --sweep -o "$tmp/x.gguf"
2 --sweep takes --strengths .*: leave out --strength | --token a --sweep --strength 1
2 --sweep takes --strengths .*: leave out -n         | --token a --sweep -n 0
2 --sweep takes --strengths .*: leave out --top      | --token a --sweep --top 3
2 --sweep takes --strengths .*: leave out --temp     | --token a --sweep --temp 0
1 up to 8                                            | --token a --sweep --strengths 1,2,3,4,5,6,7,8,9
2 leave out --project and --positions                | --token a --project -o "$tmp/x.gguf"
2 leave out --project and --positions                | --token a --positions last -o "$tmp/x.gguf"
2 --site resid_post, or resid_pre                    | --token a --site mlp_out -o "$tmp/x.gguf"
1 layer 0 has none before it                         | --token a --layers 0-1 -o "$tmp/x.gguf"
1 no direction behind layer 0                        | --token a --layers 1 -o "$tmp/x.gguf"
1 this is the vector that is read                    | --direction "$tmp/v.gguf" -o "$tmp/v.gguf"
1 this is the text that is read | --site resid_post --plus-file "$tmp/plus" --minus-file "$tmp/minus" -o "$tmp/plus"
1 this is the text that is read | --site resid_post --plus-file "$tmp/plus" --minus-file "$tmp/minus" -o "$tmp/minus"
1 none/x.npy: cannot write                           | --token a --layers 1 -o "$tmp/none/x.npy"
1 full: .*No space                                   | --token a --site resid_post --layers 1 -o "$tmp/full"
1 none: cannot open                                  | --plus-file "$tmp/none" --minus b | --direction "$tmp/none"
1 nothing: the file is empty                         | --direction "$tmp/nothing"
1 not a regular file                                 | --direction /dev/zero
1 gpt2-f32.gguf: 'token_embd.weight' is no direction | --direction "$gpt2"
1 v.gguf has no direction for layer 0                | --direction "$tmp/v.gguf" --layers 0
END
refuses_each steer <<'END'
1 no resid_mid | "$data/phi2.gguf" -z tests/data/study/letters.gguf -p Hello --token a --site resid_mid
1 layer 0 has experts                       | "$data/qwen3moe.gguf" -z tests/data/study/letters.gguf -p Hello --neuron L0N0
1 two tokens                                | "$gpt2" -p H --token a
1 this is a file of the model               | "$tmp/own.gguf" -p Hello --token a --site resid_post -o "$tmp/own.gguf"
1 direction.1 is not a vector of 72 numbers | "$llama" -p Hello --direction "$tmp/v.gguf"
1 have 40 numbers, and .* has 72            | "$llama" -p Hello --direction "$tmp/v.npy"
END
refuses 1 'towers: holds no text\|nothing: holds no text' steer "$gpt2" -p Hello --plus-file "$tmp/nothing" --minus b
has test ! -e "$tmp/x.gguf"
has [ "$before" = "$(cksum "$tmp/v.gguf")" ]
forty() { # numbers of four such bytes, as numpy.save writes them
    printf '\223NUMPY\1\0v\0%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (40,), }"
    for i in $(seq 40); do printf "$1"; done
}
forty '\346\261\141\177' >"$tmp/huge.npy" # 3e38
refuses 1 'logits are not finite; .*, or what is changed inside is too large' steer "$gpt2" -p Hello --direction "$tmp/huge.npy" --strength 9
refuses 1 'logits are not finite; .*, or what is changed inside is too large' steer "$gpt2" -p Hello --direction "$tmp/huge.npy" --strengths 9 --sweep
forty '\0\0\200\177' >"$tmp/huge.npy" # infinity
refuses 1 'huge.npy: a number of its vectors is not finite' steer "$gpt2" -p Hello --direction "$tmp/huge.npy"

# The page that view writes, and the figure. What is in them: test_view.c, and here who can read them.
refuses 1 'this is a file of the model' view "$tmp/own.gguf" -p Hello -o "$tmp/own.gguf"
refuses 1 'this is the text that is read' view "$gpt2" -f "$tmp/prompt" -o "$tmp/prompt"
refuses_each view "$gpt2" -p Hello <<'END'
2 -o page.html                     |
2 -o figure.svg                    | --svg L0H1
1 this is a file of the vocabulary | -z "$tmp/own.gguf" -o "$tmp/own.gguf"
1 none/x.html: cannot write        | -o "$tmp/none/x.html"
1 full: .*No space                 | -o "$tmp/full"
2 leave out --svg                  | --svg L0H1 --json
2 leave out -o                     | -o "$tmp/x.html" --json
1 -n 188.*187                      | -o "$tmp/x.html" -n 188
1 layer 2 does                     | -o "$tmp/x.html" --layers 2
1 query 5.*5                       | -o "$tmp/x.html" --query 5
1 --ablate: head 2 d               | -o "$tmp/x.html" --ablate L1H2
2 --ablate: 'L0H'                  | -o "$tmp/x.html" --ablate L0H
1 no L2H0                          | -o "$tmp/x.html" --svg L2H0
2 leave out --ablate               | -o "$tmp/x.html" --svg L0H0 --top 3
END
has cmp -s "$gpt2" "$tmp/own.gguf"
refuses 1 "$tmp: " view "$gpt2" -p Hello -o "$tmp"
has [ -h "$tmp/full" ]
refuses 1 '--ablate.*two' view "$gpt2" -p H -o "$tmp/x.html" --ablate L0
for head in '' L0 L0H L0H0,L1H1 h0; do refuses 2 "'$head'" view "$gpt2" -p Hello -o "$tmp/x.html" --svg "$head"; done
has test ! -e "$tmp/x.html"
try view "$gpt2" -p "it's" --json # the command as a shell reads it, and as JSON has that
has grep -qF -e "-p 'it'\\\\''s' --json\"" "$tmp/out"
tells() { [ "$code" -eq 0 ] && [ ! -s "$tmp/err" ] && [ "$(wc -l <"$tmp/out")" -eq 1 ] && out_has "$1"; }
try view "$gpt2" -f "$tmp/prompt" -n 3 --ablate L0H1 -o "$tmp/x.html"
has tells 'x.html: 26 tokens, 4 heads, [0-9]* kB$'
cp "$tmp/x.html" "$tmp/before"
has limited x.html view "$gpt2"
has cmp -s "$tmp/before" "$tmp/x.html"
try view "$gpt2" -f "$tmp/prompt" -n 3 --ablate L0H1 -o "$tmp/x.html" -t 3
sed 's/ -t 3//' "$tmp/x.html" >"$tmp/y.html"
has cmp -s "$tmp/before" "$tmp/y.html" # the number of threads changes nothing
if openssl version >/dev/null 2>&1; then
    awk '/<script>/ {on = 1; sub(/.*<script>/, "")} on && /<\/script>/ {sub(/<\/script>.*/, ""); printf "%s", $0; exit}
        on' "$tmp/x.html" >"$tmp/script"
    has grep -qF "script-src 'sha256-$(openssl dgst -sha256 -binary "$tmp/script" | openssl base64)'" "$tmp/x.html"
fi
printf '<a>&"\001\302\205\377 \327\251\327\234 \360\237\230\200\342\200\256\357\277\277]]>\r\n' >"$tmp/odd"
for model in "$gpt2" "$llama" weights/model.gguf; do
    try view "$model" -f "$tmp/odd" -n 2 -o "$tmp/x.svg" --svg L1H1
    has tells 'x.svg: [0-9]* tokens, 1 head, [0-9]* kB$'
    if python3 -c '' 2>/dev/null; then
        has python3 -c 'import sys, xml.etree.ElementTree as tree
figure = tree.parse(sys.argv[1]).getroot()
assert figure.tag.endswith("}svg") and sum(1 for cell in figure.iter() if cell.tag.endswith("}rect")) > 20' "$tmp/x.svg"
    fi
done

# Files that worked examples come from, named shapes.
printf '{"x": [[1, 2], [3' >"$tmp/cut.json"
refuses_each <<'END'
1 cut.json: line 1       | case "$tmp/cut.json"
1 none.json: cannot open | case "$tmp/none.json"
2 no file                | case
2 gpt5                   | shape --preset gpt5
2 no model               | shape
END
try shape --preset gpt3-175b
for number in 617,558,016 14,495,514,624 57,982,058,496 175,181,291,520; do has out_has "$number"; done

# Nobody listens, the disk is full, Ctrl-C.
left_alone() {
    {
        sleep 0.05 # until the reader has gone
        "$study" "$@" 2>"$tmp/err"
        echo $? >"$tmp/code"
    } | true
    code=$(cat "$tmp/code") command=$*
    has [ "$code" -eq 0 ]
    has [ ! -s "$tmp/err" ]
}
full_disk() {
    "$study" "$@" >/dev/full 2>"$tmp/err"
    code=$? command=$*
    has [ "$code" -eq 1 ]
    has one_line 'cannot write the report: No space'
}
for option in '' --json; do
    for arguments in 'next' 'score' 'attend' 'heads' 'lens' 'explain --layer 0 --head 1' 'ablate --sweep mlps' \
        'selfcheck'; do
        left_alone ${arguments%% *} "$gpt2" -f "$tmp/prompt" ${arguments#"${arguments%% *}"} $option
        full_disk ${arguments%% *} "$gpt2" -f "$tmp/prompt" ${arguments#"${arguments%% *}"} $option
    done
done
left_alone view "$gpt2" -f "$tmp/prompt" --json
full_disk view "$gpt2" -f "$tmp/prompt" --json
interrupt() { # ARG…: Ctrl-C after a moment; --foreground sends it once
    timeout --foreground --preserve-status -s INT 0.5 "$study" "$@" <"$input" >"$tmp/out" 2>"$tmp/err"
    code=$? command=$*
    [ "$code" -eq 130 ] && [ ! -s "$tmp/out" ] && [ ! -s "$tmp/err" ]
}
has interrupt heads "$gpt2" --repeat 90 --batch 10000
rm -f "$tmp"/x.html*
ATTN_KERNEL=scalar
export ATTN_KERNEL
has interrupt view weights/model.gguf -f "$tmp/prompt" -n 240 --temp 5 -t 1 -o "$tmp/x.html"
unset ATTN_KERNEL
if ls "$tmp"/x.html* >"$tmp/list" 2>&1; then has false; fi
head -c 1000000 /dev/zero | tr '\0' a >"$tmp/endless"
has interrupt score "$gpt2" -f "$tmp/endless"
has interrupt score "$gpt2" -f "$tmp/endless" --chunks

echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
