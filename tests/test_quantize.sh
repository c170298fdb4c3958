#!/bin/sh
# quantize from outside: the files it makes open and run, are the same for any number of threads, hold what was asked for;
# what it refuses, in one line; and that nothing is lost or left behind. Which tensor gets which type is test_mixes.c's,
# how near the weights stay test_packing.c's, what the file holds otherwise test_quantized.c's.
quantize=${QUANTIZE:-./quantize}
run=${RUN:-./run}
gpt2=tests/data/reference/gpt2-f32.gguf          # rows of 40 and 84, which no block divides
mixed=tests/data/reference/llama-mixed-k.gguf    # of 256, and 64
shared=../shared/data
program=$quantize name=quantize
. tests/program.sh
model=$tmp/f32.gguf out=$tmp/out.gguf

info_of() { # FILE COUNT TYPE…: what run --info says of its types, and quantize
    file=$1 expected=
    shift
    while [ $# -gt 0 ]; do
        expected="$expected  $2 in $1 tensors"
        shift 2
    done
    "$run" "$file" --info 2>"$tmp/err" | grep -q "^types      $expected *\$"
}
# Nothing but that some rows, of 64, have types of smaller blocks.
told() { [ "$code" -eq 0 ] && ! grep -v '^quantize: note: in 2 of 21 tensors the rows are no whole number of blocks' "$tmp/err"; }
size() { wc -c <"$1"; }

# A model of many types, back in F32.
try "$mixed" "$model" F32
has quiet
has out_has "f32.gguf: F32, [0-9.]* MiB in place of [0-9.]*, 31.99 bits a weight"
has info_of "$model" 20 F32 1 Q6_K # a vector of the latter
try "$mixed" "$out" f32 # in small letters, over an old file
has quiet
has cmp -s "$model" "$out"

# Each type: it runs, and comes out the same on three threads.
for type in F32 F16 BF16 Q8_0 Q6_K Q5_K_M Q5_K_S Q5_1 Q5_0 Q4_K_M Q4_K_S Q4_K Q4_1 Q4_0 IQ4_NL IQ4_XS MXFP4 MXFP4_MOE \
    Q3_K_L Q3_K_M Q3_K_S Q2_K; do
    try "$model" "$out" $type -t 1
    has told
    try "$model" "$tmp/three.gguf" $type -t 3
    has cmp -s "$out" "$tmp/three.gguf"
    "$run" "$out" -p Hi -n 3 -s 1 >"$tmp/out" 2>"$tmp/err"
    code=$?
    has quiet
done
try "$model" "$out" Q4_K_M
has info_of "$out" 4 F32 2 Q5_0 11 Q4_K 4 Q6_K
try "$model" "$out" Q5_K_S
has info_of "$out" 4 F32 2 Q5_1 13 Q5_K 2 Q6_K
try "$model" "$out" Q4_0 --output-tensor-type q5_1 --token-embedding-type F16
has info_of "$out" 4 F32 1 F16 14 Q4_0 1 Q5_1 1 Q6_K
try "$model" "$out" Q4_0 --leave-output-tensor
has info_of "$out" 5 F32 15 Q4_0 1 Q6_K
try weights/model.gguf Q4_0 --leave-output-tensor --allow-requantize --dry-run -v # its embedding is the output matrix
has out_has '^token_embd.weight .* Q5_0 *-> Q5_0 '
try weights/model.gguf Q4_0 --leave-output-tensor --token-embedding-type Q8_0 --allow-requantize --dry-run -v
has out_has '^token_embd.weight .* Q5_0 *-> Q8_0 '
try "$model" "$out" Q4_K_M --pure
has info_of "$out" 4 F32 2 Q5_0 14 Q4_K 1 Q6_K
try "$model" "$out" MXFP4
has info_of "$out" 4 F32 2 Q8_0 1 Q6_K 14 MXFP4
try "$model" "$out" MXFP4_MOE # it has no experts
has info_of "$out" 4 F32 16 Q8_0 1 Q6_K
try "$model" "$out" Q8_0
try "$out" "$tmp/again.gguf" Q8_0 # all is of its type already
has one_line 'note: this is no smaller than the model was$'
has cmp -s "$out" "$tmp/again.gguf"
try "$gpt2" "$out" Q6_K
has [ "$code" -eq 0 ]
has one_line 'note: in 9 of 28 tensors the rows are no whole number of blocks; .*(-v shows which)$'
has info_of "$out" 19 F32 9 F16

# The printed lines.
try --dry-run "$model" Q4_K_M
has told
has out_has '^token_embd.weight  *261 x 256  F32    -> Q4_K          37584$'
has out_has '^blk.1.ffn_down.weight  *256 x 256  F32    -> Q6_K          53760$'
has out_has '^blk.0.ffn_norm.weight  *256  F32    -> F32            1024$'
has [ "$(grep -c ' -> ' "$tmp/out")" -eq 21 ]
cp "$tmp/out" "$tmp/dry"
try --dry-run "$model" "$tmp/none.gguf" Q4_K_M
has [ ! -e "$tmp/none.gguf" ]
try "$model" "$out" Q4_K_M -v
has told
has out_has '^4 tensors in F32, 2 in Q5_0, 11 in Q4_K, 4 in Q6_K$'
sed "s|^$out: ||" "$tmp/out" >"$tmp/verbose"
has cmp -s "$tmp/verbose" "$tmp/dry"
bytes=$(sed -n 's/.* -> .* \([0-9]*\)$/\1/p' "$tmp/dry" | awk '{ n += $1 } END { print n }')
has [ "$(size "$out")" -gt "$bytes" ]
has [ "$(size "$out")" -lt $((bytes + 20000)) ]
try --help
has quiet
has [ "$(wc -l <"$tmp/out")" -le 40 ]
has [ "$(wc -L <"$tmp/out")" -le 110 ]
in_manual attn-quantize.1 $(helped)
for type in $(sed -n 's/.*{"\([A-Z0-9_]*\)", [0-9]*, DTYPE.*/\1/p' packing/mixes.c); do
    has out_has "\<$type\>"
done
try --version
has out_has '^attn [0-9]'

# A vocabulary for which GGUF has no keys goes along as it is, and is read back.
mkdir "$tmp/words"
cp tests/data/torch/opt/* "$tmp/words"
printf '{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}, "normalizer": {"type": "Lowercase"}, "decoder": {"type": "Fuse"}}' \
    >"$tmp/words/tokenizer.json"
try "$tmp/words" "$out" F16
has [ "$code" -eq 0 ]
has one_line "note: the vocabulary is in the file as the folder's tokenizer.json alone, which attn reads and llama.cpp does not: "
has [ "$("$run" "$out" --tokens -p aBbA)" = "0 1 1 0" ]

# Refusals, with nothing written.
rm -f "$out"
refuses_each <<'END'
2 no model is named: ./quantize MODEL OUT.gguf TYPE     |
2 no output and no type are named                       | "$model" | --dry-run "$model"
2 no output is named                                    | "$model" Q4_K_M
2 no type is named                                      | "$model" "$out"
2 there is no type 'Q4_K_X'; there are F32, F16, .*Q2_K | "$model" "$out" Q4_K_X
2 there is no type 'Q2_K_S'                             | "$model" "$out" Q2_K_S
2 iq2_xs is neither made nor read here; the smallest types are Q3_K_S and Q2_K | "$model" "$out" iq2_xs
2 there is no type '.*out.gguf'                         | "$model" Q4_K_M "$out"
2 one word too many: 'more' after 'Q4_0'                | "$model" "$out" Q4_0 more
2 unknown option --purer; did you mean --pure           | "$model" "$out" Q4_0 --purer
2 unknown option --nonsense: see --help$                | "$model" "$out" Q4_0 --nonsense
2 --tokenizer needs the name of a file$                 | "$model" "$out" Q4_0 -z ''
2 --threads takes a whole number from 1                 | "$model" "$out" Q4_0 -t 0
2 --leave-output-tensor leaves nothing to --output-tensor-type | "$model" "$out" Q4_0 --leave-output-tensor --output-tensor-type Q8_0
2 --output-tensor-type takes .*, not 'Q4_K_M'           | "$model" "$out" Q4_0 --output-tensor-type Q4_K_M
2 --token-embedding-type needs a value                  | "$model" "$out" Q4_0 --token-embedding-type
1 nowhere.gguf: cannot open: No such file               | "$tmp/nowhere.gguf" "$out" Q4_0
1 README.md: not a checkpoint                           | README.md "$out" Q4_0
1 is a directory                                        | "$tmp" "$out" Q4_0
1 tensor 'token_embd.weight' is quantised already (Q3_K), .*--allow-requantize | "$mixed" "$out" Q4_0
1 f32.gguf has a vocabulary of its own; leave out -z    | "$model" "$out" Q4_0 -z "$gpt2"
1 out.gguf: cannot write: No such file or directory     | "$model" "$tmp/no/out.gguf" Q4_0
1 cannot write: Is a directory                          | "$model" "$tmp/" Q4_0
1 this goes to a file, not to stdout                    | "$model" - Q4_0
END
has [ ! -e "$out" ]
try "$mixed" "$out" Q4_0 --allow-requantize
has one_line 'note: this is no smaller than the model was$'
has info_of "$out" 4 F32 15 Q4_0 2 Q6_K

# The model is never written to, under whatever name.
cp "$model" "$tmp/own.gguf"
ln -s own.gguf "$tmp/link.gguf"
ln "$tmp/own.gguf" "$tmp/hard.gguf"
for name_of_it in own link hard; do
    refuses 1 "$name_of_it.gguf: this is a file of the model; choose another name" "$tmp/own.gguf" "$tmp/$name_of_it.gguf" Q4_0
done
has cmp -s "$model" "$tmp/own.gguf"
head -c 300000 "$model" >"$tmp/cut.gguf"
refuses 1 'leaves the file of 300000 bytes; is it cut' "$tmp/cut.gguf" "$out" Q4_0

# A full disk, a report that nobody reads.
refuses 1 '/dev/full: cannot write: No space left on device' "$model" /dev/full Q4_0
rm -f "$out"
"$quantize" "$model" "$out" Q4_0 >/dev/full 2>"$tmp/err"
code=$? command='>/dev/full'
has [ "$code" -eq 1 ]
has one_line 'cannot write the report: No space left on device'
has info_of "$out" 4 F32 15 Q4_0 2 Q6_K
rm -f "$out"
{
    "$quantize" "$model" "$out" Q4_0 2>"$tmp/err"
    echo $? >"$tmp/code"
} | true
code=$(cat "$tmp/code") command='| true'
has [ "$code" -eq 0 ]
has [ ! -s "$tmp/err" ]
has info_of "$out" 4 F32 15 Q4_0 2 Q6_K
(
    ulimit -f 100 # blocks of 512 bytes, or kilobytes
    "$quantize" "$model" "$tmp/limited.gguf" Q8_0 >"$tmp/out" 2>"$tmp/err"
)
code=$? command='ulimit -f 100'
has [ "$code" -eq 1 ]
has one_line 'limited.gguf: cannot write: File too large'
has [ "$(ls "$tmp" | grep -c 'limited\|attn-')" -eq 0 ]

# A pipe is written in place. Whoever reads it may stop to write to the model, or to cut it short, meanwhile.
mkfifo "$tmp/pipe"
piped() { # COMMAND…: run when the output has begun
    cp "$model" "$tmp/changing.gguf"
    touch -t 202001010000 "$tmp/changing.gguf" # the clock of files stands still for some milliseconds
    "$quantize" "$tmp/changing.gguf" "$tmp/pipe" Q8_0 >"$tmp/out" 2>"$tmp/err" &
    exec 3<"$tmp/pipe"
    "$@"
    cat <&3 >"$tmp/piped.gguf"
    exec 3<&-
    wait $!
    code=$? command="piped $*"
}
cut_short() { : >"$tmp/changing.gguf"; }
try "$model" "$out" Q8_0
piped true
has quiet
has cmp -s "$out" "$tmp/piped.gguf"
piped cut_short
has [ "$code" -eq 1 ]
has one_line "the model's file was cut short, or could not be read further"
piped touch "$tmp/changing.gguf"
has [ "$code" -eq 1 ]
has one_line 'changing.gguf: the file was written to while it was read; try again'

# A folder's tokenizer.json as GGUF's keys: what these cannot say is told, and nothing else. Ids by the library are
# test_tokenizer_json.c's. First SentencePiece's ways: a space in front of every text, only of one that begins with none
# (Mistral v0.3), and of none; then bytes, with and without NFC (Qwen).
differ='note: GGUF has no key for all that tokenizer.json does; other tokens come of'
tokenizer() { # STEPS MODEL
    printf '{"added_tokens":[{"id":0,"content":"<s>","special":true},{"id":1,"content":"?","special":true}],%s,
        "decoder":{"type":"%s"},"model":{"type":"BPE","unk_token":%s}}' "$1" "$2" "$3" >"$tmp/folder/tokenizer.json"
}
first='"pre_tokenizer":{"type":"Metaspace","replacement":"▁","split":false,"prepend_scheme":"first"}'
always='"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},
    {"type":"Replace","pattern":{"String":" "},"content":"▁"}]}'
never='"normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"}'
letters='"?","vocab":{"<s>":0,"?":1,"▁":2,"a":3,"e":4,"A":5,"▁a":6},"merges":["▁ a"]'
bytes='"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false}'
spelt='null,"vocab":{"<s>":0,"?":1,"Ġ":2,"a":3,"e":4,"A":5,"Ċ":6,"Ì":7,"ģ":8,"Ã":9,"©":10,"Ġa":11},"merges":["Ġ a"]'
if python3 scripts/expect/folders.py tests/data/reference/lfm2.gguf "$tmp/folder" 2>/dev/null; then
    tokenizer "$first" Fuse "$letters"
    try "$tmp/folder" "$out" F32
    has [ "$code" -eq 0 ]
    has one_line "$differ a space at the start, text beside special tokens\$"
    "$run" "$tmp/folder" -p ' a' --tokens >"$tmp/expected"
    "$run" "$out" -p ' a' --tokens >"$tmp/out"
    has [ "$(cat "$tmp/expected")" != "$(cat "$tmp/out")" ]
    for steps in "$always" "$never"; do
        tokenizer "$steps" Fuse "$letters"
        try "$tmp/folder" "$out" F32
        has quiet
        for text in a ' a' 'a  e' '<s> a' '<s>a'; do
            "$run" "$tmp/folder" -p "$text" --tokens --special >"$tmp/expected" 2>&1
            "$run" "$out" -p "$text" --tokens --special >"$tmp/out" 2>&1
            has cmp -s "$tmp/expected" "$tmp/out"
        done
    done
    tokenizer "$bytes" ByteLevel "$spelt"
    try "$tmp/folder" "$out" F32
    has quiet
    printf '{"eos_token_id": [1, 3, 99, 4]}' >"$tmp/folder/generation_config.json" # all that end a text; 99 is no token
    try "$tmp/folder" "$out" F32
    has quiet
    for key in attn.eos_token_ids tokenizer.ggml.eot_token_id tokenizer.ggml.eom_token_id; do has grep -aq $key "$out"; done
    has "$run" "$out" -p a -n 1 --temp 0
    tokenizer "\"normalizer\":{\"type\":\"NFC\"},$bytes" ByteLevel "$spelt"
    try "$tmp/folder" "$out" F32
    has one_line "$differ characters that NFC composes\$"
else
    skipped=$((skipped + 22))
    echo "skipped: python3 scripts/expect/folders.py does not run"
fi

# llama2.c's models become GGUF, with their vocabulary.
if [ -d $shared/llama2c ]; then
    stories=$shared/llama2c/stories260K.bin vocabulary=$shared/llama2c/tok512.bin
    try $stories "$out" F32 -z $vocabulary
    has quiet
    "$run" $stories -z $vocabulary -p Once --temp 0 -n 50 >"$tmp/expected"
    "$run" "$out" -p Once --temp 0 -n 50 >"$tmp/out"
    has cmp -s "$tmp/expected" "$tmp/out"
    try $stories "$out" F32
    "$run" "$out" -z $vocabulary -p Once --temp 0 -n 50 >"$tmp/out"
    has cmp -s "$tmp/expected" "$tmp/out"
    cp $vocabulary "$tmp/vocabulary"
    refuses 1 '/vocabulary: this is a file of the vocabulary; choose another name' $stories "$tmp/vocabulary" F32 -z "$tmp/vocabulary"
    has cmp -s $vocabulary "$tmp/vocabulary"
    refuses 1 'stories260K.bin: no vocabulary is in it' $stories "$out" F32 -z $stories
    refuses 1 'tok512.bin: the file has no tensors' $vocabulary "$out" F32
else
    skipped=$((skipped + 8))
    echo "skipped: $shared is missing"
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
