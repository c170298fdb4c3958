#!/bin/sh
# Programs whose model's file others write to, after it is loaded. -f names a pipe: it is opened when the model is
# loaded, and nothing is computed until the prompt is there. What loading makes of such files is test_changing.c's.
run=${RUN:-./run} study=${STUDY:-./study}
gpt2=tests/data/reference/gpt2-f32.gguf
program=$run name=run
. tests/program.sh
pipe=$tmp/pipe model=$tmp/model
mkfifo "$pipe"
trap '' PIPE

# begin FILE ARG…: the program with a copy of the file; it has loaded it when this returns.
begin() {
    cp "$1" "$model"
    touch -t 202001010000 "$model" # the clock of files stands still for some milliseconds
    size=$(wc -c <"$model")
    shift
    command=$*
    rm -f "$tmp/code"
    (
        timeout 60 "$program" "$@" -f "$pipe" </dev/null >"$tmp/out" 2>"$tmp/err"
        echo $? >"$tmp/code"
        : <"$pipe" # if it never came so far as to open it
    ) &
    exec 3>"$pipe"
}

# finish: gives it the prompt; leaves what `try` leaves.
finish() {
    printf 'The Eiffel tower' >&3
    exec 3>&-
    until [ -s "$tmp/code" ]; do sleep 0.01; done
    exec 4<>"$pipe" # until the other has opened it, too
    wait
    exec 4>&-
    code=$(cat "$tmp/code")
}

over() { head -c "$size" | dd of="$model" conv=notrunc 2>"$tmp/dd"; } # writes stdin over the model
write_ones() { tr '\0' '\377' </dev/zero 2>"$tmp/tr" | over; } # NaN, as weights
is_cut() { [ "$code" -eq 1 ] && one_line "the model's file was cut short, or could not be read further\$"; }
is_noted() { grep -q "^$name: note: $model was written to while it was in use" "$tmp/err"; }
nothing_left() { ! ls "$tmp"/x.* >"$tmp/list" 2>&1; }

begin "$gpt2" "$model" --temp 0 -n 20
finish
has quiet
cp "$tmp/out" "$tmp/text"
same_text() { cmp -s "$tmp/text" "$tmp/out"; }

# Cut: before the prompt is computed, with an output half written, with many threads, while the text is written.
begin "$gpt2" "$model" -n 20
: >"$model"
finish
has is_cut
begin "$gpt2" "$model" -n 20 --logits "$tmp/x.npy"
: >"$model"
finish
has is_cut
has nothing_left
for threads in 2 3 4 8 16; do
    begin weights/model.gguf "$model" -n 20 -t $threads
    : >"$model"
    finish
    has is_cut
done
mkfifo "$tmp/text_pipe"
cp "$gpt2" "$model"
(
    timeout 60 "$run" "$model" -p 'The Eiffel' --temp 0 -n 10000000 --shift </dev/null >"$tmp/text_pipe" 2>"$tmp/err"
    echo $? >"$tmp/code"
) &
exec 3<"$tmp/text_pipe"
head -c 100 <&3 >"$tmp/out"
: >"$model"
cat <&3 >>"$tmp/out"
exec 3<&-
wait
code=$(cat "$tmp/code") command='cut while it writes'
has is_cut

# Cut within its last page, which reads as zeros from then on: nobody dies, and the note says why the text is odd.
begin "$gpt2" "$model" --temp 0 -n 20
truncate -s -1 "$model"
finish
has [ "$code" -eq 0 ]
has is_noted

# Overwritten in place: by the same bytes, zeros, NaN.
begin "$gpt2" "$model" --temp 0 -n 20
over <"$gpt2"
finish
has [ "$code" -eq 0 ]
has same_text
has is_noted
has one_line 'old and new weights may be mixed here$'
begin "$gpt2" "$model" --temp 0 -n 20
over </dev/zero
finish
has [ "$code" -eq 0 ]
has is_noted
begin "$gpt2" "$model" --temp 0 -n 20
write_ones
finish
has [ "$code" -eq 1 ]
has is_noted
has grep -q "^run: $model: the logits are not finite" "$tmp/err"

# Replaced under its name, renamed, deleted: the old file is what runs, and there is nothing to say.
for change in "cp weights/model.gguf $tmp/new && mv $tmp/new $model" "mv $model $tmp/elsewhere" "rm $model"; do
    begin "$gpt2" "$model" --temp 0 -n 20
    sh -c "$change"
    finish
    has quiet
    has same_text
done

# At every allocation from the first to the last, so at every stage of loading and after: cut, and written over.
program=${FAULTY:-build/tests/faulty_}run
at_allocation() { # K CHANGE FILE ARG…: false if the program ended before
    cp "$3" "$model"
    touch -t 202001010000 "$model"
    k=$1 change=$2 command="$2 at allocation $1"
    shift 3
    ATTN_FAULT=malloc:$k=STOP "$program" "$@" </dev/null >"$tmp/out" 2>"$tmp/err" &
    state=R
    until [ "$state" = T ] || [ "$state" = Z ]; do
        sleep 0.002
        read -r _ _ state _ <"/proc/$!/stat" || state=Z
    done 2>"$tmp/proc"
    $change
    kill -CONT $! 2>"$tmp/kill"
    wait $!
    code=$?
    [ "$state" = T ]
}
cut_off() { : >"$model"; }
write_over() { head -c "$size" tests/data/reference/llama-f32.gguf | dd of="$model" conv=notrunc 2>"$tmp/dd"; }
ended_well() { # a good text, or a line why not; after either, perhaps the note
    [ "$code" -le 1 ] && ! grep -v "^run: " "$tmp/err" && [ "$(wc -l <"$tmp/err")" -le $((code + 1)) ] &&
        { [ "$code" -eq 0 ] || [ -s "$tmp/err" ]; }
}
was_cut() { is_cut || one_line 'the file is empty' || { [ "$code" -eq 0 ] && is_noted; }; }
step=5
[ -z "$ATTN_LONG_TESTS" ] || step=1
try_allocations() { # STEP CHANGE FILE ARG…
    step=$1 next=1
    shift
    while at_allocation $next "$@"; do
        has ended_well
        grep 'changed while it was read' "$tmp/err" >>"$tmp/refused"
        if [ "$change" = cut_off ]; then has was_cut; fi
        next=$((next + step))
    done
    has [ $next -gt 5 ]
}
size=$(wc -c <"$gpt2")
for change in cut_off write_over write_ones; do
    try_allocations $step $change "$gpt2" "$model" -p 'The Eiffel' --temp 0 -n 3
done

# A llama2.c vocabulary is gone through twice: for its size, then for its pieces.
{
    printf '\6\0\0\0\0\0\0\0\5\0\0\0<unk>'
    for i in 1 2 3; do
        for j in 0 1 2 3 4 5 6 7 8 9; do printf '\0\0\0\0\6\0\0\0aaaaaa%.0s' 0 1 2 3 4 5 6 7 8 9; done
    done
} >"$tmp/pieces" # 4 + 13 + 300 · 14 bytes
write_spaces() { printf '\6\0\0\0\0\0\0\0\155\20\0\0%4205s' ' ' | dd of="$model" conv=notrunc 2>"$tmp/dd"; }
try_allocations 1 write_spaces "$tmp/pieces" "$gpt2" -z "$model" --tokens -p aaaaaa
has grep -q . "$tmp/refused"

# study's views.
program=$study name=study
for view in next score attend heads lens 'explain --layer 0 --head 1' 'ablate --mlps 0' selfcheck "view -o $tmp/x.html" \
    "dump -o $tmp/x.npz"; do
    begin "$gpt2" ${view%% *} "$model" ${view#"${view%% *}"}
    : >"$model"
    finish
    has is_cut
    has [ ! -s "$tmp/out" ]
    has nothing_left
done
begin "$gpt2" next "$model"
over <"$gpt2"
finish
has [ "$code" -eq 0 ]
has is_noted

echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
