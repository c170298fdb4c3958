#!/bin/sh
# The program from outside: what it prints, what it refuses and how it ends. Whether it generates the right
# tokens is test_generate.c's; here one way of saying a thing is compared with another.
run=${RUN:-./run}
gpt2=tests/data/reference/gpt2-f32.gguf   # 257 tokens: the bytes in GPT-2's order and <|endoftext|>; 192 positions
llama=tests/data/reference/llama-f32.gguf # 261 tokens, SentencePiece
shared=../shared/data
stories="$shared/llama2c/stories260K.bin -z $shared/llama2c/tok512.bin"
program=$run name=run
. tests/program.sh

out_is() { printf %s "$1" | cmp -s - "$tmp/out"; }
ends_line() { [ "$(tail -c 1 "$tmp/out" | od -An -tx1)" = ' 0a' ]; }
number() { sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p" "$tmp/out"; } # of a field of --json

# prints TEXT ARG…: exactly that text, and no word on stderr.
prints() {
    text=$1
    shift
    try "$@"
    quiet && out_is "$text"
    count $? "prints '$text'"
}

# gives FILE ARG…: the output is the file's content.
gives() {
    file=$1
    shift
    try "$@"
    quiet && cmp -s "$file" "$tmp/out"
    count $? "gives what is in $file"
}

skip() {
    skipped=$((skipped + $1))
    echo "skipped: $2"
}

# The prompt, by every road.
try "$gpt2" -p 'The Eiffel' --temp 0 -n 20
has quiet
has [ "$(head -c 10 "$tmp/out")" = 'The Eiffel' ]
has ends_line
cp "$tmp/out" "$tmp/text"
printf 'The Eiffel' >"$tmp/prompt"
gives "$tmp/text" "$gpt2" -f "$tmp/prompt" --temp 0 -n 20
gives "$tmp/text" --temp 0 -n 20 -p 'The Eiffel' "$gpt2"
gives "$tmp/text" "$gpt2" --prompt 'The Eiffel' --temp 0 --predict 20
gives "$tmp/text" "$gpt2" -p 'The Eiffel' --temp 0 -n 20 --echo
input=$tmp/prompt
gives "$tmp/text" "$gpt2" --temp 0 -n 20
gives "$tmp/text" "$gpt2" -f - --temp 0 -n 20
input=/dev/null
tail -c +11 "$tmp/text" >"$tmp/continuation"
gives "$tmp/continuation" "$gpt2" -p 'The Eiffel' --temp 0 -n 20 --no-echo
for words in '--temp 0 -n 90' '--temp 0.7 -s 4 -n 90' '--temp 0 -n 7 -t 1' '--temp 0 -c 40 -n 90 --shift'; do # guesses change nothing
    try "$gpt2" -p 'a b a b a b' $words --speculate off
    has quiet
    cp "$tmp/out" "$tmp/plain"
    gives "$tmp/plain" "$gpt2" -p 'a b a b a b' $words --speculate on
    gives "$tmp/plain" "$gpt2" -p 'a b a b a b' $words
done
try "$gpt2" -p 'a b a b a b' --temp 0 -n 90 --speculate on -v
has grep -q '^guessed  *[1-9][0-9]* tokens, of which [1-9][0-9]* held$' "$tmp/err"
try "$gpt2" -p 'a b a b a b' --temp 0 -n 90 --speculate off -v
has [ "$(grep -c '^guessed' "$tmp/err")" -eq 0 ]
for model in "$gpt2" "$llama"; do # an empty prompt is BOS
    try "$model" -p '' --temp 0 -n 5
    has quiet
    cp "$tmp/out" "$tmp/empty"
    gives "$tmp/empty" "$model" --temp 0 -n 5
done
printf '\377\000\200ab\n\n' >"$tmp/bytes" # any bytes will do; those that are no UTF-8 become U+FFFD, and the last newline is dropped
prints '187 188 222 64 65 198
' "$gpt2" -f "$tmp/bytes" --tokens
printf '\357\277\275\000\357\277\275ab\n\n' >"$tmp/bytes_shown"
gives "$tmp/bytes_shown" "$gpt2" -f "$tmp/bytes" -n 0

# The model of this repository, which says how it wants to be sampled.
try weights/model.gguf --info
has out_has '^sampling     temp 0.5 (file), top-p 0.95, min-p 0.15 (file), repeat-penalty 1.05 (file)$'
prints 'The Eiffel Tower
' weights/model.gguf -p 'The Eiffel' --temp 0 -n 1

# How long.
prints 'Hi
' "$gpt2" -p Hi -n 0
try "$gpt2" -p Hi -n 1 --json
has [ "$(number predicted_n)" -eq 1 ]
try "$gpt2" -p Hi --temp 0 -n -1 --json # 2 positions for the prompt, 190 fed, one more drawn
has [ "$code $(number predicted_n)" = '0 191' ]
has out_has '"stop": "context"'
has one_line 'note: .*192.*--shift'
try "$gpt2" -p Hi --temp 0 -n 400 --shift --json
has quiet
has [ "$(number predicted_n)" -eq 400 ]
try "$gpt2" -p Hi --temp 0 -c 4 -n 3
has quiet
try "$gpt2" -p Hi --temp 0 -c 4 -n 4
has one_line 'context of 4'
for context in 1 2 8 9; do
    try "$gpt2" -p H --temp 0 -c $context -n 30 --shift
    has quiet
done
try "$llama" -p Hi --temp 0 -c 300 -n 3 # rope goes further than it was trained, with a word of warning
has [ "$code" -eq 0 ]
has one_line 'note: .*trained on 192'

# The model ends the text: its last token is the one that says so, and is not shown.
try "${llama%f32.gguf}q8_0.gguf" -p 'The sea' --temp 0 -n 60 --json
has out_has '"tokens": \[[0-9, ]*, 1\],.*"stop": "end"'
has [ "$(number predicted_n)" -eq 7 ]
cp "$tmp/out" "$tmp/ended"
try "${llama%f32.gguf}q8_0.gguf" -p 'The sea' --temp 0 -n 6 --json
has out_has '"stop": "limit"'
has [ "$(sed 's/.*"text": \(".*"\), "tokens.*/\1/' "$tmp/out")" = "$(sed 's/.*"text": \(".*"\), "tokens.*/\1/' "$tmp/ended")" ]
sed 's/\(eos_token_id\x04\x00\x00\x00\)\x02/\1\x3b/' "${llama%f32.gguf}q8_0.gguf" >"$tmp/eos.gguf" # its third token
try "$tmp/eos.gguf" -p 'The sea' --temp 0 -n 60 --json
has out_has '"tokens": \[215, 218, 59\],.*"stop": "end"'

# Where to stop: texts are pieces of what it says anyway, and every token is one byte.
try "$llama" -p hello --temp 0 -n 24 --no-echo
text=$(cat "$tmp/out")
stop=$(sed -n 's/.*\([!-~]\{4\}\).*/\1/p' "$tmp/out" | head -n 1)
has [ ${#stop} -eq 4 ]
first=${stop%???} third=${stop#??} && third=${third%?}
stops() { # TEXT ARG…: the text and a newline
    printf '%s\n' "$1" >"$tmp/expected"
    shift
    gives "$tmp/expected" "$llama" -p hello --temp 0 -n 24 --no-echo "$@"
}
stops "${text%%"$stop"*}" --stop "$stop"
stops "${text%%"$stop"*}" --stop never --stop "$stop" --stop "neither"
stops "${text%%"$third"*}" --stop "${stop}never" --stop "$third" # begun, but the other is complete first
stops "${text%%"$first"*}" --stop "${stop}" --stop "$first"
stops "$text" --stop "${stop}never"
stops "$text" --stop "$text and more"
stops '' --stop "$(head -c 3 "$tmp/out")"
try "$llama" -p hello --temp 0 -n 24 --stop "${stop}never" --stop "$third" --json
has out_has '"stop": "stop"'
has [ "$(grep -cF -- "$third" "$tmp/out")" -eq 0 ]
try "$llama" -p hello --temp 0 -n 24 --stop hello # the prompt does not count
has [ "$(head -c 5 "$tmp/out")" = hello ]

# Token ids.
prints '39 72 0
' "$gpt2" -p 'Hi!' --tokens
prints '     0 "!"
     1 "\""
   256 "<|endoftext|>"
' "$gpt2" -p '!"<|endoftext|>' --tokens -v --special
prints '27 91 68 77 67 78 69 83 68 87 83 91 29
' "$gpt2" -p '<|endoftext|>' --tokens
prints '
' "$gpt2" -p '' --tokens
prints '<|endoftext|>Hi
' "$gpt2" -p '<|endoftext|>Hi' --special -n 0
prints '1 259 75
' "$gpt2" -z "$llama" -p H --tokens
head -c 50000 /dev/zero | tr '\0' a >"$tmp/long"
try "$gpt2" -f "$tmp/long" --tokens
has [ "$(wc -w <"$tmp/out")" -eq 50000 ]

# Draws: seeds, threads, kernels.
try "$gpt2" -p Hi -n 60 -s 7
cp "$tmp/out" "$tmp/seed7"
gives "$tmp/seed7" "$gpt2" -p Hi -n 60 --seed 7
gives "$tmp/seed7" "$gpt2" -p Hi -n 60 -s 7 -t 1
gives "$tmp/seed7" "$gpt2" -p Hi -n 60 -s 7 -t 8
gives "$tmp/seed7" "$gpt2" -p Hi -n 60 -s 7 --temp 0.8 --top-p 0.95 --top-k 0 --min-p 0 --repeat-penalty 1
try "$gpt2" -p Hi -n 60 -s 8
has quiet
has [ "$(cksum <"$tmp/out")" != "$(cksum <"$tmp/seed7")" ]
for option in '--temp 2' '--top-p 0.1' '--top-k 2' '--min-p 0.9' '--repeat-penalty 1.5' '--presence-penalty 2' \
    '--frequency-penalty 2'; do
    try "$gpt2" -p Hi -n 60 -s 7 $option
    has quiet
    has [ "$(cksum <"$tmp/out")" != "$(cksum <"$tmp/seed7")" ]
done
try "$gpt2" -p Hi -n 60 --temp 0
cp "$tmp/out" "$tmp/greedy"
gives "$tmp/greedy" "$gpt2" -p Hi -n 60 --temp 1.5 --top-k 1
gives "$tmp/greedy" "$gpt2" -p Hi -n 60 --temp 1.5 --min-p 1
try "$gpt2" -p Hi -n 150 -s 7 --repeat-penalty 1.5
cp "$tmp/out" "$tmp/penalty"
gives "$tmp/penalty" "$gpt2" -p Hi -n 150 -s 7 --repeat-penalty 1.5 --repeat-last-n 64
try "$gpt2" -p Hi -n 3 -s 0 --json
has out_has '"seed": 0,'
try "$gpt2" -p Hi -n 3 --json # without -s every run has a seed of its own
first=$(number seed)
try "$gpt2" -p Hi -n 3 --json
has [ "$(number seed)" != "$first" ]
try "$gpt2" -p Hi -n 3 -v
has [ "$code" -eq 0 ]
seed=$(sed -n 's/^seed *//p' "$tmp/err") # as shown, it can be given again
cp "$tmp/out" "$tmp/shown"
gives "$tmp/shown" "$gpt2" -p Hi -n 3 -s "$seed"
ATTN_KERNEL=scalar
export ATTN_KERNEL
try "$gpt2" -p Hi -n 3
has quiet
ATTN_KERNEL=nonsense
refuses 1 'nonsense.*scalar' "$gpt2" -p Hi -n 3
unset ATTN_KERNEL

# One object.
try "$gpt2" -f "$tmp/bytes" -n 30 -s 7 --json
has quiet
for field in model text tokens logprobs stop seed timings prompt_n prompt_ms prompt_per_second predicted_n \
    predicted_ms predicted_per_second load_ms peak_rss_bytes; do
    has out_has "\"$field\": "
done
has [ "$(number prompt_n) $(number predicted_n) $(number seed)" = '6 30 7' ]
if out_has '"\(load_ms\|prompt_ms\|predicted_ms\|prompt_per_second\|predicted_per_second\)": 0\.000'; then has false; fi
has [ "$(wc -l <"$tmp/out")" -eq 1 ]
ln -s "$PWD/$gpt2" "$tmp/$(printf 'a\036"\\')"
try "$tmp/$(printf 'a\036"\\')" -f "$tmp/bytes" -n 30 -s 7 --json
has grep -qF 'a\u001e\"\\", ' "$tmp/out"
if python3 -c '' 2>/dev/null; then
    cat >"$tmp/check.py" <<'END'
import json, sys
o = json.load(open(sys.argv[1], encoding="utf-8"))
text = open(sys.argv[2], encoding="utf-8", newline="").read()
assert o["text"] + "\n" == text, (o["text"], text)
assert len(o["tokens"]) == len(o["logprobs"]) == o["timings"]["predicted_n"] == 30
assert all(type(i) is int and 0 <= i < 257 for i in o["tokens"]) and all(p < 0 for p in o["logprobs"])
END
    cp "$tmp/out" "$tmp/json"
    try "$gpt2" -f "$tmp/bytes" -n 30 -s 7 --no-echo
    has python3 "$tmp/check.py" "$tmp/json" "$tmp/out"
else
    skip 1 'no python3 to read JSON with'
fi

# Logits of every position: a header of 128 bytes, then [n_tokens][n_vocab] floats.
shape() { # FILE ROWS COLS
    [ "$(head -c 6 "$1" | od -An -tx1)" = ' 93 4e 55 4d 50 59' ] &&
        head -c 128 "$1" | tr '\0' 0 | grep -q "'shape': ($2, $3), } *$" &&
        [ "$(wc -c <"$1")" -eq $((128 + $2 * $3 * 4)) ] && ! ls "$1".* 2>/dev/null
}
prints 'Hi!
' "$gpt2" -p 'Hi!' -n 0 --logits "$tmp/logits.npy"
has shape "$tmp/logits.npy" 3 257
try "$llama" -f "$tmp/text" -n 0 --logits "$tmp/logits.npy"
has shape "$tmp/logits.npy" $(($("$run" "$llama" -f "$tmp/text" --tokens | wc -w))) 261
gives "$tmp/text" "$gpt2" -p 'The Eiffel' --temp 0 -n 20 --logits "$tmp/logits.npy"
mkfifo "$tmp/pipe" # what is no file is written in place, not replaced
cat "$tmp/pipe" >"$tmp/through.npy" &
try "$gpt2" -p 'Hi!' -n 0 --logits "$tmp/pipe"
wait $!
has shape "$tmp/through.npy" 3 257
has [ -p "$tmp/pipe" ]
ln -s /dev/full "$tmp/full"
refuses 1 'full: cannot write: No space' "$gpt2" -p 'Hi!' -n 0 --logits "$tmp/full"
has [ -h "$tmp/full" ]
ln -s through.npy "$tmp/link.npy" # what a link leads to is replaced, not the link
try "$gpt2" -p 'Hi' -n 0 --logits "$tmp/link.npy"
has shape "$tmp/through.npy" 2 257
has [ -h "$tmp/link.npy" ]
refuses 1 "$tmp: cannot write" "$gpt2" -p 'Hi!' -n 0 --logits "$tmp"
cp "$tmp/logits.npy" "$tmp/before"
limited() { # a file may grow to 8 × 512 bytes
    (
        trap '' XFSZ
        ulimit -f 8
        "$run" "$gpt2" -p 'Hi! Hi! Hi!' -n 0 --logits "$tmp/logits.npy" >"$tmp/out" 2>"$tmp/err"
    )
    code=$?
    [ "$code" -eq 1 ] && one_line 'logits.npy: cannot write: File too large' && ! ls "$tmp"/logits.npy.* 2>/dev/null
}
has limited
has cmp -s "$tmp/before" "$tmp/logits.npy"

# Its words about itself.
try "$gpt2" --info
has quiet
for words in 'family gpt2' 'n_layer 2, n_head 2' 'context .*192' 'byte-level BPE' 'F32 in 28 tensors' \
    'embedding  *10280  *41120' 'unembedding  *= embedding'; do
    has out_has "$words"
done
# A right file that cannot run is described too, and why it cannot; -z must still name a vocabulary.
sed 's/general.architecture/general.architecturX/' "$gpt2" >"$tmp/no-family.gguf"
for file in "${gpt2%.gguf}.expected.gguf" "$tmp/no-family.gguf"; do
    try "$file" --info
    has quiet
    has out_has '^file  .*GGUF v3'
    has out_has '^F32  *[1-9][0-9]  *[0-9]*  *[0-9]*$'
    has grep -q '^cannot run: [^/]*$' "$tmp/out"
done
has out_has '^model        no architecture is named, named "gpt2-f32"$'
has out_has '^tokenizer    byte-level BPE (gpt-2), 257 tokens'
refuses 1 'none: cannot open' "$tmp/no-family.gguf" --info -z "$tmp/none"
try "$tmp/no-family.gguf" -p Hi --tokens # a vocabulary is all that this needs
has quiet
try --version
has quiet
has grep -qx 'attn [0-9.]*' "$tmp/out"
try -h
has quiet
has awk 'length > 110 || NR > 45 { exit 1 }' "$tmp/out"
in_manual attn-run.1 $(helped) $(sed -n 's/.*{{\(.*\)}, "--.*/\1/p' cli/llamacpp.c | tr -d '",')
cp "$tmp/out" "$tmp/help"
gives "$tmp/help" "$gpt2" --help

# A conversation: a text for every line, ended by the input's end.
printf 'one\ntwo\n\nfour' >"$tmp/lines"
input=$tmp/lines
try "$gpt2" -i --temp 0 -n 3
has quiet
cp "$tmp/out" "$tmp/said"
printf 'one\r\ntwo\r\n\r\nfour' >"$tmp/ends"
input=$tmp/ends
try "$gpt2" -i --temp 0 -n 3
has cmp -s "$tmp/said" "$tmp/out"
input=$tmp/lines
try "$gpt2" -i --temp 0 -n 3 -p 'zero'
has quiet
has [ "$(head -c 4 "$tmp/out")" = zero ]
try "$gpt2" -i --temp 0 -n 30 -c 32 --shift
has quiet
try "$gpt2" -i --temp 0 -n 3 -c 4
has [ "$code" -eq 0 ]
has grep -q 'note: the context of 4' "$tmp/err"
# A line that no shift can make room for is refused, and the conversation goes on as if it had not been typed.
printf 'a\nb\n' >"$tmp/lines"
input=$tmp/lines
try "$llama" -i --shift -c 100 --temp 1 -s 7 -n 12 -p 'the quick brown fox jumps over the lazy dog, and again'
cp "$tmp/out" "$tmp/without"
printf 'a\n%0120d\nb\n' 0 >"$tmp/lines"
try "$llama" -i --shift -c 100 --temp 1 -s 7 -n 12 -p 'the quick brown fox jumps over the lazy dog, and again'
has cmp -s "$tmp/without" "$tmp/out"
has one_line 'note: .*no room for that line'

# A typed line is no new text: no BOS stands before it.
printf 'one\n' >"$tmp/lines"
try "$llama" -i --temp 0 -n 0 -c 8 -p ab # BOS, a space, 2 letters; a space, 3 letters
has quiet
try "$llama" -i --temp 0 -n 0 -c 7 -p ab
has one_line 'no room'
input=/dev/null

# With -i and no prompt the first line is the prompt, also where there is no token to begin with.
sed 's/tokenizer.ggml.bos_token_id/tokenizer.ggml.not_token_id/' "$gpt2" >"$tmp/no-bos.gguf"
printf 'Hello\n' >"$tmp/lines"
input=/dev/null
try "$tmp/no-bos.gguf" -p Hello --no-echo --temp 0 -n 3
cp "$tmp/out" "$tmp/wanted"
input=$tmp/lines
try "$tmp/no-bos.gguf" -i --temp 0 -n 3
has cmp -s "$tmp/wanted" "$tmp/out"
input=/dev/null
refuses 1 'prompt is empty' "$tmp/no-bos.gguf"

# A file's words about itself cannot drive the terminal.
sed 's/gpt2-f32/g\x1b[31mXY/' "$gpt2" >"$tmp/escape.gguf"
try "$tmp/escape.gguf" --info
has out_has 'named "g\\u001b\[31mXY"'
input=/dev/null
try "$gpt2" -i --temp 0 -n 3
has quiet

# The default model is named in a line of its own.
mkdir "$tmp/folder"
ln -s "$PWD/weights/model.gguf" "$tmp/folder/model.bin"
case $run in /*) there=$run ;; *) there=$PWD/$run ;; esac
(cd "$tmp/folder" && "$there" -p 'The Eiffel' --temp 0 -n 1 >"$tmp/out" 2>"$tmp/err")
code=$? command='-p in a folder with model.bin'
has one_line 'note: no model is named; taking model.bin$'

# Numbers out of their range, and within.
for bad in '-n x' '-n 1e3' '-n -2' '-n 99999999999999999999' '-n 5.5' '-t 0' '-t -1' '-t 9999' '-c 0' '-c -5' \
    '--temp nan' '--temp -1' '--temp hot' '--temp inf' '--top-p 2' '--top-p -0.1' '--top-k -1' '--min-p 1.1' \
    '--repeat-penalty 0' '--repeat-last-n -1' '--presence-penalty 1e9' '--frequency-penalty x' '-s -2' '-s x'; do
    refuses 2 "takes a .*number from .*'${bad#* }'" "$gpt2" -p Hi $bad
done
for good in '-n 0' '-t 1024' '--temp 1e9' '--temp 1e-9' '--top-p 0' '--top-p 1' '--top-k 1000000000' '--min-p 1' \
    '--repeat-penalty 0.01' '--repeat-last-n 0' '-s 0' '-s 9000000000000000' '--kv f32' '--kv q8_0'; do
    try "$gpt2" -p Hi -n 3 $good
    has quiet
done

# Words that llama.cpp's users type. What says where and how to compute is passed over, with its value, and told in a line.
same_as() { # WORDS OTHER-WORDS: both print the same, the first with this line on stderr ($note)
    try "$gpt2" $2
    cp "$tmp/out" "$tmp/other"
    try $1
    has cmp "$tmp/other" "$tmp/out"
    [ "$code" -eq 0 ] && [ "$(cat "$tmp/err")" = "$note" ]
    count $? "$1: the same as $2"
}
note=
same_as "-m $gpt2 -p Hi -n 5 --temperature 0" '-p Hi -n 5 --temp 0'
same_as "-p Hi --n-predict=5 --temp=0.9 --seed=7 --top-k=3 --model=$gpt2" '-p Hi -n 5 --temp 0.9 -s 7 --top-k 3'
same_as "--prompt=Hi --stop=e --no-display-prompt $gpt2 --predict=9 --seed=1 --context-shift -sp" \
    '-p Hi --stop e --no-echo -n 9 -s 1 --shift --special'
same_as "--prompt= $gpt2 -n 1 --temp 0 --no-escape" '-n 1 --temp 0'
vector=tests/data/study/control.gguf
same_as "$gpt2 -p Hi -n 5 --temp 0 --control-vector $vector" "-p Hi -n 5 --temp 0 --steer $vector"
same_as "$gpt2 -p Hi -n 5 --temp 0 --control-vector-scaled $vector:-3.5" "-p Hi -n 5 --temp 0 --steer=$vector:-3.5"
note='run: note: not needed here: -ngl, -fa, -b, --n-gpu-layers=99, --mlock, -no-cnv, --flash-attn'
same_as "-ngl 99 -m $gpt2 -fa -b 512 --n-gpu-layers=99 --mlock -p Hi -no-cnv --flash-attn on -n 3 --temp 0" '-p Hi -n 3 --temp 0'
note='run: note: not needed here: -fa'
same_as "$gpt2 -n 3 --temp 0 -p Hi -fa" '-p Hi -n 3 --temp 0'
for words in --info --help --version --tokens; do
    try "$gpt2" -fa auto -p Hi $words
    has [ "$code" -eq 0 ]
    has [ "$(cat "$tmp/err")" = "$note" ]
done

# Half a character at the end of a prompt is the prompt's, unless the model completes it.
# gives_behind SHOWN: what is written without the prompt stands behind what is shown of the prompt.
gives_behind() {
    try weights/model.gguf -f "$tmp/half" -n 2 --temp 0 --no-echo
    { printf "$1" && cat "$tmp/out"; } >"$tmp/want"
    try weights/model.gguf -f "$tmp/half" -n 2 --temp 0
    has cmp -s "$tmp/want" "$tmp/out"
}
printf 'The caf\303' >"$tmp/half"
gives_behind 'The caf'
has [ "$(tail -c +8 "$tmp/out" | head -c 1)" = "$(printf '\303')" ]
printf 'a\344\270' >"$tmp/half"
gives_behind 'a\357\277\275'
try weights/model.gguf -f "$tmp/half" -n 0 --json
has out_has '"text": "", '

# --steer: a vector behind layers. Nothing of it is nothing, and much of it is another text; a name may have a colon.
try "$gpt2" -p Hi -n 20 --temp 0
cp "$tmp/out" "$tmp/plain"
try "$gpt2" -p Hi -n 20 --temp 0 --steer $vector:0
has quiet
has cmp "$tmp/plain" "$tmp/out"
try "$gpt2" -p Hi -n 20 --temp 0 --steer $vector:9
has quiet
if cmp -s "$tmp/plain" "$tmp/out"; then has false; fi
cp "$tmp/out" "$tmp/steered"
cp $vector "$tmp/a:b"
try "$gpt2" -p Hi -n 20 --temp 0 --steer "$tmp/a:b:9.0"
has cmp "$tmp/steered" "$tmp/out"
try "$gpt2" -p Hi -n 20 --temp 0 --steer tests/data/study/rows.npy:9
has quiet
if cmp -s "$tmp/plain" "$tmp/out"; then has false; fi
LC_ALL=C sed 's/gpt2/gpt3/' "$vector" >"$tmp/hinted"
try "$gpt2" -p Hi -n 20 --temp 0 --steer "$tmp/hinted:9"
has cmp "$tmp/steered" "$tmp/out"
has grep -q "^run: note: .*hinted: it says that it is for 'gpt3', and the model is 'gpt2'$" "$tmp/err"

# -s -1: another text each time.
for i in 1 2 3; do "$run" "$gpt2" -p Hi -n 20 --temp 5 -s -1; done >"$tmp/out" 2>"$tmp/err"
code=$? command='-s -1, three times'
has [ "$(sort -u "$tmp/out" | grep -c '^Hi')" -gt 1 ]

# -e: what a backslash stands for, in what is typed; without it, and in a file, it is a backslash.
ids() { # WORDS IDS
    try "$gpt2" --tokens "$@"
}
ids -p 'a\n\t"\x41\q'
cp "$tmp/out" "$tmp/plain"
printf 'a\\n\\t"\\x41\\q' >"$tmp/backslashes"
ids -f "$tmp/backslashes" -e
has cmp "$tmp/plain" "$tmp/out"
ids -p 'a\n\t"\x41\q' -e --no-escape
has cmp "$tmp/plain" "$tmp/out"
printf 'a\n\t"A\\q' >"$tmp/meant"
ids -f "$tmp/meant"
cp "$tmp/out" "$tmp/plain"
ids --escape -p 'a\n\t"\x41\q'
has quiet
has cmp "$tmp/plain" "$tmp/out"
try "$gpt2" -p Hi -n 40 --temp 0 --no-echo # some text, one of whose letters ends it when it is spelt in hex
letter=$(head -c 3 "$tmp/out" | tail -c 1 | od -An -tx1 | tr -d ' \n')
try "$gpt2" -p Hi -n 40 --temp 0 --no-echo --stop "\\x$letter"
has [ "$(wc -c <"$tmp/out")" -gt 4 ]
try "$gpt2" -p Hi -n 40 --temp 0 --no-echo --stop "\\x$letter" -e
has [ "$(wc -c <"$tmp/out")" -le 3 ]

# Those words are llama.cpp's, and take a value where it does. The first three were once.
source=${ORACLE:-$HOME/oracle}/source/common/arg.cpp
if [ -r "$source" ]; then
    tr '\n' ' ' <"$source" | sed 's/add_opt(/\n/g' |
        sed -n 's/^ *common_arg( *\({[^}]*}\(, *{[^}]*}\)\{0,1\}\).*\[\](common_params *& *[a-z/*]*\([^)]*\)).*/\1 takes \3/p' >"$tmp/theirs"
    echo '{"--mlock", "--mmap", "--no-mmap"} takes' >>"$tmp/theirs"
    sed -n 's/^    {{\(".*"\)}\(.*\)},$/\1;\2/p' cli/llamacpp.c | while IFS=';' read -r names takes; do
        for name in $(echo "$names" | tr -d ','); do
            theirs=$(grep -F -e "$name" "$tmp/theirs" | head -n 1)
            case "$takes|${theirs##* takes}" in
            ', "'*'|'*) [ "$theirs" ] || echo "$name is none" ;; # ours by another name
            *TAKES_*'|'*bool* | *TAKES_*'|' | *TAKES_*'|'' ') echo "$name takes none" ;;
            *TAKES_*'|'* | '|' | '| ' | '|'*bool*) ;;
            *) echo "$name takes one, or is none" ;;
            esac
        done
    done >"$tmp/out" 2>"$tmp/err"
    code=$? command='cli/llamacpp.c against arg.cpp'
    has [ "$(wc -l <"$tmp/theirs")" -gt 200 ]
    cat "$tmp/out"
    has [ ! -s "$tmp/out" ]
else
    skipped=$((skipped + 2)) # no llama.cpp (../shared/oracle/README.md)
fi

# Wrong usage, bad input.
echo 'This is a text and no model at all, whatever its name may say.' >"$tmp/text.gguf"
head -c 20000 "$gpt2" >"$tmp/cut.gguf"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n' >"$tmp/pointer.gguf"
refuses 1 "$tmp: " "$tmp" -p Hi
refuses 1 "$tmp: cannot read: Is a directory" "$gpt2" -f "$tmp"
refuses 2 "one model at a time: '$llama'" "$gpt2" "$llama"
refuses 2 "one model at a time: '$gpt2'" -m "$gpt2" "$gpt2" -p Hi
refuses 2 "'The Eiffel' after '$gpt2'; a text to begin with stands behind -p" "$gpt2" 'The Eiffel'
refuses_each <<'END'
2 no model                                                   |
2 unknown option --nonsense: see --help$                     | "$gpt2" --nonsense
2 unknown option -x                                          | "$gpt2" -x
2 takes no value                                             | "$gpt2" --json=1
2 -p needs a value                                           | "$gpt2" -p
2 -p and -f                                                  | "$gpt2" -p Hi -f "$tmp/prompt"
2 --info and --tokens go alone                               | "$gpt2" --info --json -p Hi | "$gpt2" --tokens --json -p Hi
2 --info and --tokens go alone                               | "$gpt2" --info --logits "$tmp/none.npy" -p Hi
2 --info and --tokens go alone                               | "$gpt2" --info --stop a | "$gpt2" --tokens -p Hi --stop a
2 --info and --tokens go alone                               | "$gpt2" --tokens -p Hi --steer a | "$gpt2" --tokens -p Hi --shift
2 --info and --tokens go alone                               | "$gpt2" --tokens -p Hi --speculate on
2 --info and --tokens go alone                               | "$gpt2" --tokens --logits "$tmp/none.npy" -p Hi
2 --json .* -i                                               | "$gpt2" -i --json
2 --stop                                                     | "$gpt2" -p Hi --stop ''
2 --kv takes f32, f16 or q8_0, not 'q4'                      | "$gpt2" -p Hi --kv q4
2 --color takes auto, on or off, not 'blue'                  | "$gpt2" -p Hi --color blue
2 --speculate takes auto, on or off, not '3'                 | "$gpt2" -p Hi --speculate 3
2 takes a whole number .*''                                  | "$gpt2" -p Hi -n ''
2 -ngl needs a value                                         | "$gpt2" -p Hi -ngl
2 unknown option --grammar                                   | "$gpt2" -p Hi -fa --grammar x # which would change the text
2 --model is given twice                                     | "$gpt2" -m "$gpt2" -p Hi
2 there is no file 'The Eiffel'; a text to begin with stands behind -p: -p 'The Eiffel' | 'The Eiffel'
2 there is no file 'Hello'; .* -p 'Hello'                    | Hello -n 3
2 --steer is given twice                                     | "$gpt2" -p Hi --steer a --steer b
2 --logits is given twice: 'a' and 'b'; choose one           | "$gpt2" -p Hi --logits a --logits b
2 --tokenizer is given twice                                 | "$gpt2" -p Hi -z a -z b
2 --system is given twice                                    | "$gpt2" --chat -sys a -sys b
2 --chat-template is given twice                             | "$gpt2" --chat --chat-template a --chat-template b
2 --logits needs the name of a file$                         | "$gpt2" -p Hi --logits '' | "$gpt2" -p Hi --logits=
2 --file needs the name of a file$                           | "$gpt2" -f ''
2 --tokenizer needs the name of a file$                      | "$gpt2" -p Hi -z ''
2 --steer needs the name of a file$                          | "$gpt2" -p Hi --steer ''
2 --model needs the name of a file$                          | -m '' -p Hi
2 --chat-template needs the name of a file$                  | "$gpt2" --chat --chat-template ''
2 --output needs the name of a file$                         | "$gpt2" --batch - -o ''
1 none.gguf: cannot open: No such file                       | none.gguf
1 no file is named: the path is empty$                       | '' -p Hi
1 none at all: cannot open: No such file                     | 'none at all' -p Hi
1 none.gguf: .*No such file                                  | "$tmp/none.gguf" -p Hi
1 text.gguf: not a checkpoint                                | "$tmp/text.gguf" -p Hi | "$gpt2" -z "$tmp/text.gguf" -p Hi
1 /dev/null: not a regular file                              | /dev/null -p Hi
1 pointer.gguf: this is a Git-LFS pointer, .*: run 'git lfs pull' | "$tmp/pointer.gguf" -p Hi | "$tmp/pointer.gguf" --info
1 pointer.gguf: this is a Git-LFS pointer, .*: run 'git lfs pull' | "$tmp/pointer.gguf" --tokens
1 cut.gguf: tensor                                           | "$tmp/cut.gguf" -p Hi
1 expected.gguf: .*expected                                  | "${gpt2%.gguf}.expected.gguf" -p Hi
1 expected.gguf: holds no vocabulary.*-z                     | "${gpt2%.gguf}.expected.gguf" -p Hi --tokens
1 257 tokens.*261                                            | "$gpt2" -z "$llama" -p Hi
1 none: cannot open                                          | "$gpt2" -z "$tmp/none" -p Hi | "$gpt2" -f "$tmp/none"
1 prompt has 50000 tokens.*context of 192; shorten it$       | "$gpt2" -f "$tmp/long" # the model has no more
1 prompt has 2 tokens.*context of 1; raise -c or shorten it$ | "$gpt2" -p Hi -c 1
1 193 .*192 positions                                        | "$gpt2" -p Hi -c 193
1 -: this goes to a file                                     | "$gpt2" -p 'Hi!' -n 0 --logits -
1 fd/1: this goes to a file | "$gpt2" -p 'Hi!' -n 0 --logits /proc/self/fd/1 # a sandbox may lack /dev/stdout
1 none/x.npy: cannot write                                   | "$gpt2" -p 'Hi!' -n 0 --logits "$tmp/none/x.npy"
1 a:b: direction.1 is not a vector                           | "$llama" -p Hi --steer "$tmp/a:b"
1 none:x: cannot open                                        | "$gpt2" -p Hi --steer "$tmp/none:x"
1 one.npy: one vector, of no layer                           | "$gpt2" -p Hi --steer tests/data/study/one.npy
1 control.gguf:1e7: the strength is not in -1000000 to 1000000 | "$gpt2" -p Hi --steer $vector:1e7
1 this is the vector that is read                            | "$gpt2" -p Hi -n 0 --steer "$tmp/a:b:2" --logits "$tmp/a:b"
END
has test ! -e "$tmp/none.npy"
timeout 60 "$run" "$tmp/pipe" -p Hi >"$tmp/out" 2>"$tmp/err" # nobody writes to it: must not wait
code=$?
has [ "$code" -eq 1 ]
has one_line 'pipe: '

# Nobody listens, the disk is full, Ctrl-C.
endless="$gpt2 -p Hi --temp 0 -n -1 --shift"
{
    timeout 60 "$run" $endless 2>"$tmp/err"
    echo $? >"$tmp/code"
} | head -c 10 >"$tmp/out"
code=$(cat "$tmp/code")
has quiet
has [ "$(wc -c <"$tmp/out")" -eq 10 ]
for arguments in '-n 3' '-n 3 --json' '--tokens' '--info' '-i'; do
    {
        sleep 0.05 # until the reader has gone
        "$run" "$gpt2" -f "$tmp/prompt" $arguments 2>"$tmp/err"
        echo $? >"$tmp/code"
    } | true
    code=$(cat "$tmp/code")
    has quiet
    "$run" "$gpt2" -f "$tmp/prompt" $arguments >/dev/full 2>"$tmp/err"
    code=$?
    has [ "$code" -eq 1 ]
    has one_line 'cannot write the text: No space'
    "$run" "$gpt2" -f "$tmp/prompt" $arguments >&- 2>"$tmp/err"
    code=$?
    has [ "$code" -eq 1 ]
    has one_line 'cannot write the text: Bad file'
done
"$run" "$gpt2" -n 3 <&- >"$tmp/out" 2>"$tmp/err"
code=$?
has [ "$code" -eq 1 ]
has one_line 'cannot read: Bad file'

interrupt() { # ARG…: Ctrl-C after a moment; --foreground sends it once
    timeout --foreground --preserve-status -s INT 0.5 "$run" "$@" <"$input" >"$tmp/out" 2>"$tmp/err"
    code=$? command=$*
    [ "$code" -eq 130 ] && ! grep -qv note "$tmp/err"
}
has interrupt $endless
has ends_line
has interrupt $endless --json
has out_has '"stop": "interrupted".*}}$'
has interrupt "$llama" -f "$tmp/long" -c 60000 --logits "$tmp/interrupted.npy" -t 1
has [ "$(echo "$tmp"/interrupted*)" = "$tmp/interrupted*" ]
sleep 60 >"$tmp/pipe" & # a prompt that does not come
input=$tmp/pipe
has interrupt "$gpt2"
has interrupt "$gpt2" -i
input=/dev/null
kill $!
wait $! # or the next who reads might still meet it

cp "$gpt2" "$tmp/cut.gguf" # a file that is cut short while it is in use
{
    sleep 0.5
    : >"$tmp/cut.gguf"
    printf Hi
} >"$tmp/pipe" &
input=$tmp/pipe
try "$tmp/cut.gguf" -n 3 --logits "$tmp/cut.npy"
input=/dev/null
has [ "$code" -eq 1 ]
has one_line 'cut short'
has [ "$(echo "$tmp"/cut.npy*)" = "$tmp/cut.npy*" ]

# Texts that llama2.c's program prints for its own model, the second published in its doc/stories260K.md, and
# ids of GPT-2's and Llama's own tokenizers.
if [ -d $shared ]; then
    greedy=a3213f9ea026d75bf2993355ae334822d7c9d34328964c711ab030d3148e6cef
    sample=0d33d0d617b86488c85dd171d128cd7559d789a71bc80efb254577f8dc4750aa
    for kernel in scalar avx2; do
        ATTN_KERNEL=$kernel
        export ATTN_KERNEL
        try "$gpt2" -p Hi -n 0
        if [ "$code" -ne 0 ]; then
            skip 6 "no $kernel here"
            continue
        fi
        for threads in 1 2 3; do
            try $stories --kv f32 --temp 0 -n 256 -t $threads
            has [ "$(sha256sum <"$tmp/out")" = "$greedy  -" ]
            try $stories --kv f32 --temp 1 --top-p 0.9 -s 133742 -t $threads
            has [ "$(sha256sum <"$tmp/out")" = "$sample  -" ]
        done
    done
    unset ATTN_KERNEL
    prints 'Once upon a time, there was a
' $stories --temp 0 -p 'Once upon' --stop ' little'
    prints 'Once u
' $stories --temp 0 -p 'Once' --stop 'tim' --stop 'on a' --stop 'po' # a token may hold more than the stop
    prints '1 403 407 261 378
' $stories -p 'Once upon a time' --tokens
    prints '15496 995
' $shared/vocab/ggml-vocab-gpt-2.gguf -p 'Hello world' --tokens
    prints '1 15043 3186
' $shared/vocab/ggml-vocab-llama-spm.gguf -p 'Hello world' --tokens
    refuses 1 'vocab-gpt-2.gguf: ' $shared/vocab/ggml-vocab-gpt-2.gguf -p Hi
    refuses 1 'holds no vocabulary.*-z' ${stories% -z*} -p Hi
    refuses 1 'embeds 512 tokens.*257' ${stories% -z*} -z "$gpt2" -p Hi
else
    skip 20 "no $shared"
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
