#!/bin/sh
# Ctrl-C at an allocation (tests/faults.c raises it): whatever the program was at, it says nothing on stderr, leaves nothing
# half written, and ends with 130, unless all was done: a view's file is there if and only if the view ends with 0. Before
# it listens, the signal ends it, which is 130 to a shell as well. The short form takes every seventh allocation, the long
# one (ATTN_LONG_TESTS=1) each, or under a sanitizer every fourth.
faulty=${FAULTY:-build/tests/faulty_}
gpt2=tests/data/reference/gpt2-f32.gguf
program=$faulty name=study # of program.sh
. tests/program.sh
step=7
[ -z "$ATTN_LONG_TESTS" ] || step=1
case $step$CFLAGS in 1*-fsanitize=*) step=4 ;; esac # what a signal breaks, they show in a quarter
printf 'The Eiffel' >"$tmp/prompt"
printf 'In Paris !' >"$tmp/other"

# told_truly: the exit code of $which, and what $tmp/made is then. run's logits are whole before its text is.
told_truly() {
    case $code in
    0) [ ! -s "$tmp/before" ] || cmp -s "$tmp/before" "$tmp/made" ;;
    130) [ ! -e "$tmp/made" ] || { [ "$which" = run ] && cmp -s "$tmp/before" "$tmp/made"; } ;;
    *) false ;;
    esac
}

# interrupts PROGRAM ARG…
interrupts() {
    which=$1 n=1
    shift
    rm -f "$tmp/log" "$tmp/before"
    ATTN_FAULT='' ATTN_FAULT_LOG=$tmp/log "$faulty$which" "$@" <"$input" >"$tmp/out" 2>"$tmp/err"
    most=$(sed -n 's/^calls malloc //p' "$tmp/log")
    command="$which $*" code=$?
    [ ! -e "$tmp/made" ] || mv "$tmp/made" "$tmp/before"
    wrong=0
    while [ "$n" -le "${most:-0}" ]; do
        ATTN_FAULT=malloc:$n=INT "$faulty$which" "$@" <"$input" >"$tmp/out" 2>"$tmp/err"
        code=$?
        if ! told_truly || grep -v '^study: .* a second$' "$tmp/err" || ls "$tmp"/made.* 2>/dev/null; then
            echo "at allocation $n: exit code $code"
            wrong=$((wrong + 1))
        fi
        rm -f "$tmp/made"
        n=$((n + step))
    done
    [ "${most:-0}" -gt 8 ] && [ $wrong -eq 0 ]
    count $? "Ctrl-C at each of $most allocations of $command"
}

interrupts run "$gpt2" -f "$tmp/prompt" -n 3 -t 1
printf '{{ messages|tojson }}' >"$tmp/template"
interrupts run "$gpt2" --chat --chat-template "$tmp/template" -p Hi -n 3 -t 1
interrupts run "$gpt2" -p Hi --logits "$tmp/made" -n 3 -t 1
printf '%s\n' '{"prompt": "The"}' '{"prompt": "An"}' '{"context": "The", "continuation": " cat"}' >"$tmp/requests"
interrupts run "$gpt2" --batch "$tmp/requests" -np 2 -n 3 -s 1 -t 1
input=$tmp/prompt
interrupts run "$gpt2" -n 3 -i -t 1
interrupts run "$gpt2" -n 3 --json -t 1
input=/dev/null
pair='--corrupted In_Paris_! --answer #104'
for arguments in next 'score -c 8' attend 'attend --layer 0 --head 1 -n 3' heads lens 'explain --layer 0 --head 0' \
    'ablate --heads L0H0' 'ablate --sweep heads' neurons 'neurons --neuron L0N3' "ablate --mlps 1 --by mean --with $tmp/other" "compare $gpt2" \
    attribute 'attribute --score L1H0:6>2' \
    'rollout --flow' 'steer --plus Up --minus Do -n 3' 'steer --token #104 --sweep --answer #104 --strengths 1,2' \
    "steer --neuron L1N3 -n 2 -o $tmp/made" 'meaning --word Eiffel -p Eiffel_x' \
    "attribute $pair --by ig --steps 2 --edges --check 2" \
    "attribute $pair --by ig --steps 2" "faithful $pair --steps 2" "faithful $pair --by gradient --find 0.5 --kl" \
    "faithful $pair --keep L0H1,L1H0" "patch $pair --what pattern" \
    'patch --corrupted In_Paris_! --answer #104' 'patch --corrupted In_Paris_! --answer #104 --path L0H0:final' \
    "dump -o $tmp/made" "view -n 2 -o $tmp/made" "view --ablate L0H1 -o $tmp/made" "view --svg L0H0 -o $tmp/made" \
    selfcheck; do
    rest=${arguments#"${arguments%% *}"}
    # shellcheck disable=SC2086
    interrupts study ${arguments%% *} "$gpt2" $rest -f "$tmp/prompt" -t 1
done
interrupts study circuit "$gpt2" -t 1
interrupts study circuit "$gpt2" --head L0H1 -t 1
interrupts study circuit "$gpt2" --composition q -t 1
interrupts study attribute "$gpt2" --pairs tests/data/study/pairs.jsonl --by gradient --edges -t 1
interrupts study faithful "$gpt2" --pairs tests/data/study/pairs.jsonl --by gradient --find 0.5 --nodes -t 1
interrupts study patch "$gpt2" --pairs tests/data/study/pairs.jsonl --path L0H0:L1H1.v,L0H0:final -t 1
interrupts quantize "$gpt2" "$tmp/made" F16 -t 1

# Ctrl-C before the file has its name, and the grace is over once it has it: a slow disk. All is done, so it ends with 0.
for command in "study steer $gpt2 --neuron L1N3 -n 0 -p The -o" "quantize $gpt2 -t 1"; do
    rm -f "$tmp/made"
    kind=$([ "${command%% *}" = study ] || echo F16)
    # shellcheck disable=SC2086
    ATTN_FAULT=fsync:1=INT,fsync:2=ALRM "$faulty"$command "$tmp/made" $kind >"$tmp/out" 2>"$tmp/err"
    code=$?
    [ $code -eq 0 ] && [ -s "$tmp/made" ] && [ ! -s "$tmp/err" ]
    count $? "Ctrl-C, and the grace over behind the file's name: $command"
done
interrupts study patch "$gpt2" --pairs tests/data/study/pairs.jsonl --what z -t 1
interrupts study heads "$gpt2" --repeat 5 --batch 2 -t 1
interrupts study neurons "$gpt2" --head L0H1 --corpus "$tmp/prompt" -c 6 -t 1

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
