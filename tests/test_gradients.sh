#!/bin/sh
# attribute --by gradient and ig, its edges, and faithful, from outside: what they refuse and how they end. Whether their
# numbers are right is test_study.c's and test_edges.c's.
study=${STUDY:-./study}
data=tests/data/reference
gpt2=$data/gpt2-f32.gguf # 2 layers of 2 heads; a token for each byte and <|endoftext|>; 192 positions
program=$study name=study
. tests/program.sh

narrow() { ! LC_ALL=C.UTF-8 grep -q "^.\{$(($1 + 1))\}" "$tmp/out"; } # no line wider
pairs=tests/data/study/pairs.jsonl
letters='-z tests/data/study/letters.gguf -p abcdefgh'
head -c 500 /dev/zero | tr '\0' a >"$tmp/long"

# Text of 100 columns at most, in ASCII if that is asked for, and one object of JSON.
shows() {
    try "$@"
    has quiet
    has narrow 100
    has grep -q . "$tmp/out"
    if out_has "$(printf '\033')"; then has false; fi
    try "$@" --ascii
    has quiet
    if out_has "$(printf '[\200-\377]')"; then has false; fi
    try "$@" --json
    has quiet
    has [ "$(wc -l <"$tmp/out")" -eq 1 ]
    has out_has '^{"command": .*}$'
}
for model in "$gpt2" "$data/llama-f32.gguf" "$data/gpt2-q4_0.gguf"; do
    for by in gradient 'ig --steps 2'; do
        shows attribute "$model" -p 'the cat' --corrupted 'the rat' --answer '#104' --by $by
        shows attribute "$model" -p 'the cat' --corrupted 'the rat' --answer '#104' --wrong '#101' --noising --by $by --top 2
        shows attribute "$model" -p 'the cat' --corrupted 'the rat' --answer '#104' --by $by --edges --check 3
        shows attribute "$model" --pairs $pairs --by $by --neurons 3
        shows attribute "$model" --pairs $pairs --by $by --edges --check 2
        shows faithful "$model" --pairs $pairs --outside mean --by $by
    done
    shows attribute "$model" -p 'the cat' --by gradient
    shows attribute "$model" -p 'the cat' --by gradient --answer '#104' --wrong '#101' --top 2
    shows faithful "$model" -p 'the cat' --corrupted 'the rat' --answer '#104'
    shows faithful "$model" -p 'the cat' --corrupted 'the rat' --answer '#104' --keep L0H1,embed:final
    shows faithful "$model" -p 'the cat' --corrupted 'the rat' --answer '#104' --by gradient --outside zero --find 0.1
done

# By gradients; edges; circuits.
pair='-p abcd --corrupted abed --answer x --wrong y'
try attribute "$gpt2" $pair --by gradient
has quiet
has narrow 100
has out_has '^score: (clean - corrupted) times the gradient in the corrupted run$'
has out_has '^Sum over the embeddings of all tokens: .*; the metric.s difference: '
try attribute "$gpt2" $pair --by ig --steps 20 --top 0 --neurons 0
has quiet
try attribute "$gpt2" $pair --by gradient --edges --check 3 --json
has [ "$(grep -o '"patched_nats": [-0-9]' "$tmp/out" | wc -l)" -eq 3 ]
try attribute "$gpt2" $pair --by gradient --edges --top 40 --dot "$tmp/edges.dot" --svg "$tmp/edges.svg" --graph "$tmp/edges.json"
has quiet
has grep -q '^digraph edges {$' "$tmp/edges.dot"
has grep -q '"embed" -> "L0MLP" ' "$tmp/edges.dot"
has grep -q '</svg>' "$tmp/edges.svg"
has grep -q '"feature_type": "logit"' "$tmp/edges.json"
has [ "$(grep -c '"feature_type": "embedding"' "$tmp/edges.json")" -eq 4 ]
try attribute "$data/llama-f32.gguf" -p abcd --corrupted abed --answer '#100' --by gradient --edges --dot "$tmp/shared.dot" --svg "$tmp/shared.svg" --graph "$tmp/shared.json"
has quiet
has grep -q 'KV[01]' "$tmp/shared.dot"
for id in $(sed -n 's/.*"node_id": "\([^"]*\)".*kv head.*/\1/p' "$tmp/shared.json"); do # none is the end of what goes there
    has grep -q "\"source\": \"$id\"" "$tmp/shared.json"
    kv_heads=yes
done
has [ "$kv_heads" ]
refuses 2 'two drawings cannot have one name' attribute "$gpt2" -p 'the cat' --corrupted 'the rat' --answer '#104' \
    --by gradient --edges --dot "$tmp/x" --svg "$tmp/x"
printf '{"clean": "ab", "corrupted": "ac", "answer": "a"}\n%.0s' 1 2 3 >"$tmp/same"
try attribute "$gpt2" --pairs "$tmp/same" --by gradient --json # errors are 0, and never roots of less than that
has out_has '"score_error_nats": 0'
if out_has '"score_error_nats": null'; then has false; fi
head -1 "$tmp/same" >"$tmp/single"
try attribute "$gpt2" --pairs "$tmp/single"
if out_has nan; then has false; fi
printf '%s\n' '{"clean": "ab", "corrupted": "ac", "answer": "a", "wrong": "b"}' '{"clean": "ab", "corrupted": "ac", "answer": "a"}' >"$tmp/mixed"
refuses 1 'line 2: there is no "wrong"' attribute "$gpt2" --pairs "$tmp/mixed" --by gradient
has [ "$(grep -c "line 2.*line 2" "$tmp/err")" -eq 0 ]
try attribute "$gpt2" -p éa --corrupted éb --answer a --by gradient --edges --graph "$tmp/graph"
has grep -q '"prompt": "éa"' "$tmp/graph" # a character of two tokens
cp $pairs "$tmp/own-pairs"
try attribute "$data/qwen35.gguf" $letters --corrupted abcdefgg --answer '#5' --by gradient --edges --top 200 \
    --dot "$tmp/state.dot" --svg "$tmp/state.svg" --graph "$tmp/state.json"
has quiet
has grep -q '"L0STATE" -> "L1H1" \[label="g"' "$tmp/state.dot"
has grep -q '<title>L1MLP to L2STATE: ' "$tmp/state.svg"
has grep -q '>state</text>' "$tmp/state.svg"
has grep -q '"feature_type": "state"' "$tmp/state.json"
try faithful "$data/lfm2.gguf" $letters --corrupted abcdefgg --answer '#5' --keep L1H0 # all states and MLPs, too
has out_has '^L0STATE  L1H0\.q'
has out_has '^L1H0 *L2STATE'
if out_has 'L1H1'; then has false; fi
try faithful "$data/lfm2.gguf" $letters --corrupted abcdefgg --answer '#5' --keep L1H0,L0STATE
if out_has 'L2STATE'; then has false; fi
printf '{"clean": "ab", "corrupted": "b", "answer": "cd"}\n' >"$tmp/pairs"
refuses 1 'none of the 1 pairs fits; line 1: .*must be as many' attribute "$gpt2" --pairs "$tmp/pairs" --by gradient
printf '\n' >"$tmp/pairs"
refuses 1 'holds no pairs' faithful "$gpt2" --pairs "$tmp/pairs"
printf '{"clean": "ab", "corrupted": "ac", "answer": "c"}\n{"clean": "%s", "corrupted": "%s", "answer": "c"}\n' \
    "$(head -c 193 "$tmp/long")" "b$(head -c 192 "$tmp/long")" >"$tmp/pairs"
refuses 1 'line 2: .*193 tokens' faithful "$gpt2" --pairs "$tmp/pairs"
try faithful "$gpt2" $pair
has quiet
has narrow 100
has out_has '^ 100\.00% .* 1\.0000'
has out_has '^CPR .*, CMD '
try faithful "$gpt2" $pair --keep L0H0,L0H1,L1H0,L1H1
has quiet
has out_has '^ 100\.00% .* 1\.0000'
try faithful "$gpt2" $pair --find 0
has quiet
has out_has ' tries, .* ways through the model; one by one it would have been '
try faithful "$gpt2" $pair --find 1000
has quiet
has out_has '^   0\.00%  *0 .* 0\.0000'
for list in '' L0 L0H L2H0 L0H2 embed L0H0, L0H0:L0H1.q L1H0:L0MLP L0H0:final: L0H0:L1H0 L0H0.q:final L0MLP:L0MLP; do
    refuses 1 "'$list' is no list" faithful "$gpt2" $pair --keep "$list"
done
try faithful "$gpt2" $pair --nodes
has quiet
has narrow 100
has out_has '^Nodes outside a circuit send what is sent in the corrupted run.$'
has out_has '^ 100\.00% *7 .* 1\.0000' # of two layers: two heads and an MLP each, and the embeddings
try faithful "$gpt2" $pair --nodes --keep L0H0,L0H1,L1H0,L1H1
has out_has '^ 100\.00% *7 .* 1\.0000'
try faithful "$gpt2" $pair --nodes --find 1000
has out_has '^   0\.00%  *0 .* 0\.0000'
has out_has 'one by one it would have been 7$'
try faithful "$gpt2" $pair --find 0 --kl
has out_has '^KL of its prediction from the whole model.s: -*0\.0000 nats$'
for list in L0H2 L0H0:final L0H0,L0H1:L0MLP; do
    refuses 1 "'$list' is no list of nodes" faithful "$gpt2" $pair --nodes --keep "$list"
done
refuses_each <<'END'
1 is a file of the model          | attribute "$gpt2" $pair --by gradient --edges --dot "$gpt2"
2 --edges is of --by gradient     | attribute "$gpt2" $pair --edges
2 --noising is of --by            | attribute "$gpt2" -p ab --noising
2 --dot is of --edges             | attribute "$gpt2" $pair --by gradient --dot "$tmp/x"
2 --check is of --edges           | attribute "$gpt2" $pair --by gradient --check 3
2 --steps is of --by ig           | attribute "$gpt2" $pair --by gradient --steps 3
2 --top is of --keep and --find   | faithful "$gpt2" $pair --top 3
2 --steps is of --by ig           | faithful "$gpt2" $pair --by gradient --steps 2
2 --query is not of --by gradient | attribute "$gpt2" $pair --by gradient --query 1
2 --head is not of --by ig        | attribute "$gpt2" $pair --by ig --head L0H1
2 --by ig takes two texts         | attribute "$gpt2" -p ab --by ig
2 --edges takes two texts         | attribute "$gpt2" -p ab --by gradient --edges
2 leave out --neurons             | attribute "$gpt2" -p ab --corrupted ac --answer a --by gradient --edges --neurons 3
2 --noising takes two texts       | attribute "$gpt2" -p ab --by gradient --noising
2 give a text                     | attribute "$gpt2" --by gradient
2 --wrong takes an answer         | attribute "$gpt2" -p ab --by gradient --wrong a
2 which token follows             | attribute "$gpt2" -p ab --corrupted ac --by gradient
1 a single token has no nll       | attribute "$gpt2" -p a --by gradient
2 the text.s nll is taken         | attribute "$gpt2" -p ab --by gradient --metric logit
2 logit_diff takes a wrong answer | attribute "$gpt2" -p ab --by gradient --answer a --metric logit_diff
2 logit_diff takes a wrong answer | attribute "$gpt2" -p ab --corrupted ac --answer a --by gradient --metric logit_diff
1 must be as many                 | attribute "$gpt2" -p ab --corrupted abc --answer a --by gradient
1 the same 2 tokens               | attribute "$gpt2" -p ab --corrupted ab --answer a --by gradient --edges
2 draws the tokens of one pair    | attribute "$gpt2" --pairs $pairs --by gradient --edges --graph "$tmp/x"
2 stdin does not give             | attribute "$gpt2" --pairs - --by gradient --edges --check 2
1 this is the text that is read   | attribute "$gpt2" --pairs "$tmp/own-pairs" --by gradient --edges --dot "$tmp/own-pairs"
1 this is the text that is read   | attribute "$gpt2" --pairs "$tmp/own-pairs" --by gradient --edges --svg "$tmp/own-pairs"
1 is no list                      | faithful "$data/lfm2.gguf" $letters --corrupted abcdefgg --answer '#5' --keep L1STATE
1 is no list                      | faithful "$data/lfm2.gguf" $letters --corrupted abcdefgg --answer '#5' --keep L0H0
1 500 tokens.*context of 192      | attribute "$gpt2" -f "$tmp/long" --by gradient
2 --kl is of --find               | faithful "$gpt2" $pair --kl
2 --by is of a circuit that       | faithful "$gpt2" $pair --keep L0H0 --by ig
2 --steps is of a circuit that    | faithful "$gpt2" $pair --keep L0H0 --steps 2
2 not 'nll'                       | faithful "$gpt2" $pair --metric nll
2 leave out --wrong               | faithful "$gpt2" $pair --metric logit
2 leave out --wrong               | attribute "$gpt2" $pair --by gradient --metric logit
2 leave out --wrong               | attribute "$gpt2" -p ab --by gradient --answer a --wrong x --metric logprob
2 choose one                      | faithful "$gpt2" $pair --keep L0H0 --find 1
2 read twice                      | faithful "$gpt2" --pairs -
2 not 'magic'                     | faithful "$gpt2" $pair --outside magic
2 give the corrupted text         | faithful "$gpt2" -p ab --answer a
END
has cmp -s $pairs "$tmp/own-pairs"

echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
