#!/bin/sh
# Every family from outside: ./run and each view on its small model, with a vocabulary of letters. Each must end well, print
# no number that is none, and agree with itself. Whether the numbers are right is test_reference.c's and test_study.c's.
study=${STUDY:-./study}
run=${RUN:-./run}
data=tests/data/reference
program=$study name=study
. tests/program.sh

printf 'the tin man sat' >"$tmp/text"
printf '{"clean": "the tin", "corrupted": "the ton", "answer": "a", "wrong": " b"}\n' >"$tmp/pairs"
printf '{"clean": "a tin man", "corrupted": "a ton moo", "answer": "c", "wrong": "d"}\n' >>"$tmp/pairs"
letters="-z tests/data/study/letters.gguf -t 1"
speaks() { "$run" "$1" $letters -p 'the tin' -n 4 --temp 0 2>/dev/null | grep -q .; }
ends_well() { # VIEW OPTIONS: of $model, as JSON
    view=$1
    shift
    try "$view" "$model" $letters "$@" --json
    has quiet
    case $layer$view in 1heads | 1compare | 1view | 1explain) ;; # null for heads that are not there
    *) cat "$tmp/out" >>"$tmp/objects" ;;
    esac
}
prints() { # likewise for people
    view=$1
    shift
    try "$view" "$model" $letters "$@"
    has quiet
    cat "$tmp/out" >>"$tmp/texts"
}

for model in "$data"/*.gguf; do
    kind=${model##*/}
    case $kind in
    *.expected.gguf | gpt2-* | llama-[fbq]* | llama-mixed*) continue ;; # test_study.sh's, with vocabularies of their own
    lfm2.gguf | qwen35*.gguf)                                           # layer 0 keeps a state
        layer=1
        refuses 1 'layer 0 has no attention heads' attend "$model" $letters -p a --layer 0
        refuses 1 'layer 0 has no attention heads' explain "$model" $letters -p a --layer 0 --head 0
        refuses 1 'layer 0 has no attention heads' ablate "$model" $letters -p aa --heads L1,L0
        refuses 1 'layer 0 has no attention heads' view "$model" $letters -p aa --layers 0 --json
        ;;
    *) layer=0 ;;
    esac
    command=run
    has speaks "$model"
    ends_well selfcheck
    has out_has '"passed": true'
    for view in next score attend heads view; do ends_well $view -f "$tmp/text"; done
    case $kind in
    qwen35*.gguf) refuses 1 'a gate stands between' attend "$model" $letters -f "$tmp/text" --by value ;;
    *) ends_well attend -f "$tmp/text" --by value --layer 1 ;;
    esac
    ends_well attend -f "$tmp/text" --layer $layer --head 0 -n 2
    ends_well lens -f "$tmp/text" --frozen-norm --mid
    ends_well explain -f "$tmp/text" --layer 1 --head 1
    ends_well ablate -f "$tmp/text" --heads L${layer}H1 --mlps 1
    ends_well patch --pairs "$tmp/pairs" --what pattern
    ends_well compare "$model" -f "$tmp/text"
    ends_well dump -f "$tmp/text" -o "$tmp/dump.npz"
    case $kind in
    *moe* | *experts* | gpt-oss*) ends_well experts -f "$tmp/text" ;;
    *) refuses 1 'has no experts' experts "$model" $letters -f "$tmp/text" ;;
    esac
    prints attend -f "$tmp/text" --layer 1 --query 9
    case $kind in
    *moe* | *experts* | gpt-oss*) refuses 1 'experts' neurons "$model" $letters -f "$tmp/text" ;;
    *) ends_well neurons -f "$tmp/text" && ends_well neurons -f "$tmp/text" --neuron L1N3 ;;
    esac
    prints heads --repeat 5 --batch 2
    prints explain -f "$tmp/text" --layer $layer --head 1 --ascii
    prints attribute -f "$tmp/text"
    has out_has '^sum of all parts .*; off by 0\.000[01]$'
    prints attribute -f "$tmp/text" --score 'L1H1:12>10'
    has out_has '^sum of all parts .*; off by 0\.000[01]$'
    try shape "$model"
    has quiet
    cat "$tmp/out" >>"$tmp/texts"
done

# LongRoPE: angles go by the context that ./run has, not by the length of the text.
model=$data/phi3-long.gguf # 48 positions, of which 16 by the short factors
try next "$model" $letters -p 'the tin' --json
cp "$tmp/out" "$tmp/wanted"
try next "$model" $letters -p 'the tin' --json -c 48
has cmp -s "$tmp/wanted" "$tmp/out"
try next "$model" $letters -p 'the tin' --json -c 12
if cmp -s "$tmp/wanted" "$tmp/out"; then has false; fi

# In JSON a number that is none is null: where there is nothing to tell, in a page beside its first token and as tl_diag.
none='reduce|layer|head|tl_diag|soft_cap|slope|window|learned_sink|learned_sink_score|score_cap|slopes|sinks|ablation|dot'
sed -E "s/\"(windows|rest)\": \[[^]]*\]//g; s/\"positions\": \[null//g; s/\"($none)\": null//g; s/(\[([-0-9.e]+, ){8})null/\1/g" "$tmp/objects" |
    grep -o '.\{60\}null' >"$tmp/nulls"
has [ -s "$tmp/objects" -a ! -s "$tmp/nulls" ]
head -n 3 "$tmp/nulls"
if grep -iw 'nan\|inf' "$tmp/texts" >"$tmp/nans"; then head -n 3 "$tmp/nans"; has false; fi

echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
