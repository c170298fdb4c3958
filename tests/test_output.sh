#!/bin/sh
# The files that programs write, when all goes well, when a call fails, and when a signal comes: the old file or the new
# one, whole, with the access that the old one gave; nothing beside it; and a status that tells what was done.
# ATTN_LONG_TESTS=1: every signal at every stage, and kills by the clock.
run=${RUN:-./run}
study=${STUDY:-./study}
quantize=${QUANTIZE:-./quantize}
faulty=${FAULTY:-build/tests/faulty_}
long=${ATTN_LONG_TESTS:-}
gpt2=tests/data/reference/gpt2-f32.gguf
program=$run name=run
. tests/program.sh
folder=$tmp/folder out=$tmp/folder/out
ulimit -c 0 # no core files

# writes KIND: sets $program, and the arguments that make it write $out.
writes() {
    kind=$1 name=study
    case $kind in
    logits) name=run arguments="$gpt2 -p Hi! -n 0 -t 1 --logits $out" ;;
    text) name=run arguments="$gpt2 -p Hi! -n 9 -t 1 --logits $out" ;; # goes on behind the file
    dump) arguments="dump $gpt2 -p Hi! -t 1 -o $out" ;;
    view) arguments="view $gpt2 -p Hi! -t 1 -o $out" ;;
    gguf) name=quantize arguments="$gpt2 $out F16 -t 1" ;;
    esac
    program=$faulty$name
}

old() {
    rm -rf "$folder"
    mkdir "$folder"
    echo old >"$out"
    chmod 640 "$out"
}

for each in logits text dump view gguf; do # what they write when nothing is in their way
    old
    writes $each
    try $arguments
    has quiet
    cp "$out" "$tmp/$kind"
done

# leaves AGE: the folder holds the old or the new file, with the old access, and nothing else.
leaves() {
    [ "$(ls -A "$folder")" = out ] && [ "$(stat -c %a "$out")" = 640 ] || return 1
    case $1 in
    old) [ "$(cat "$out")" = old ] ;;
    new) cmp -s "$out" "$tmp/$kind" ;;
    esac
}

# ends FAULT CODE AGE; CODE may be the name of a signal.
ends() {
    old
    ATTN_FAULT=$1
    export ATTN_FAULT
    try $arguments
    command="ATTN_FAULT=$1 $command"
    unset ATTN_FAULT
    { [ "$code" = "$2" ] || [ "$(kill -l "$code" 2>&1)" = "$2" ]; } && leaves "$3"
}

# A signal before every stage of a file, and behind the last, which is fsync of the folder. Then on a system without
# nameless files, which access:2 makes: /proc seems to be missing.
stages_of() {
    case $1 in
    dump) echo posix_fallocate:1 pwrite:9 pread:2 fsync:1 linkat:1 fclose:1 ;;
    *) echo fwrite:1 fflush:1 fsync:1 linkat:1 fclose:1 ;;
    esac
}
killed() { # SIGNAL [FAULT,]
    for stage in $(stages_of $kind); do
        case $2$stage in
        access*linkat*) ;; # no such stage
        *) has ends "$2$stage=$1" $1 old ;;
        esac
    done
    for stage in rename:1 fsync:2; do # a signal that comes as late changes nothing, unless there is more to do
        case $kind in
        text) has ends "$2$stage=$1" $1 new ;;
        *) has ends "$2$stage=$1" 0 new ;;
        esac
    done
}
for each in logits text dump view gguf; do
    writes $each
    killed TERM
done
for each in ${long:+logits text view gguf} dump; do
    writes $each
    killed TERM access:2,
    for signal in HUP QUIT XCPU ${long:+USR1}; do
        [ "$long" ] && killed $signal
        [ "$long" ] && killed $signal access:2,
        has ends access:2,fsync:1=$signal $signal old
    done
    for stage in $(stages_of $kind); do # a file without a name needs nobody to remove it
        [ $stage = fclose:1 ] || has ends $stage=KILL KILL old
    done
done

# Ctrl-C: 0 if all was done that was asked for; otherwise the death by SIGINT that ends a shell's loop.
writes logits
has ends fwrite:1=INT INT old
has ends fsync:1=INT 0 new
has ends rename:1=INT 0 new
has ends fsync:2=INT 0 new
has ends access:2,fsync:1=INT,rename:1=INT INT old # a second one does not wait
has ends fsync:1=INT,linkat:1=INT INT old
writes text
has ends fsync:1=INT INT new # the file was whole, the text was not
writes dump
has ends pwrite:9=INT INT old
has ends pread:2=INT INT old
has ends fsync:1=INT 0 new
has ends fsync:2=INT 0 new
for each in view gguf; do
    writes $each
    has ends fsync:1=INT 0 new
    has ends fsync:1=INT,linkat:1=INT INT old
done
has ends fwrite:9=INT INT old

# A signal that was ignored at the start stays ignored.
writes view
for signal in HUP TERM; do
    trap '' $signal
    has ends fsync:1=$signal 0 new
    trap - $signal
done

# A call that fails: one line, the old file, nothing beside it.
fails() { # FAULT WORDS
    has ends "$1" 1 old
    has one_line "$2"
}
# What the C library says is "Input/output error", or musl's "I/O error".
writes logits
for fault in fwrite:1 linkat:1 rename:1 fflush:1; do fails $fault 'out: cannot write: No space left'; done
for fault in fsync:1 fclose:1; do fails $fault 'out: cannot write: I[a-z]*/[Oa-z]* error'; done
fails fchmod:1 'out: cannot write: Operation not permitted'
fails fdopen:1 'out: .*memory'
fails access:2,rename:1 'out: cannot write: No space left'
writes dump
fails posix_fallocate:1 'out: cannot write.*No space left'
fails pwrite:9 'out: cannot write: No space left'
fails pread:2 'out: cannot read back'
writes gguf
for fault in fwrite:1 fwrite:9 linkat:1; do fails $fault 'out: cannot write: No space left'; done
fails fsync:1 'out: cannot write: I[a-z]*/[Oa-z]* error'
fails fdopen:1 'out: .*memory'
writes view
fails access:2,fsync:1 'out: cannot write: I[a-z]*/[Oa-z]* error'
has ends fsync:2 0 new # a folder that cannot be synced is none of its errors
has ends access:2 0 new


# Where a file may go.
left_as() { # NAME…: the folder holds these
    [ "$(ls -A "$folder" | tr '\n' ' ')" = "$* " ]
}
mode_of() { [ "$(stat -c %a "$2")" = "$1" ]; }
for each in logits dump view; do
    writes $each
    for mode in 600 644 666 6755=755; do # set-user-ID bits go, as they do when a file is written to
        old
        chmod ${mode%=*} "$out"
        try $arguments
        has mode_of ${mode#*=} "$out"
    done
    for mask in 077=600 022=644 002=664; do
        rm "$out"
        umask ${mask%=*}
        try $arguments
        umask 022
        has mode_of ${mask#*=} "$out"
    done
    old
    ln "$out" "$folder/other"
    ln -s out "$folder/link"
    arguments=${arguments%out}link
    try $arguments
    has [ -h "$folder/link" ]
    has [ "$(cat "$folder/other")" = old ]
    has [ "$(wc -c <"$out")" -gt 100 ]
    rm "$out"
    refuses 1 'link: this link leads to no file' $arguments
    has left_as link other
    arguments=${arguments%link}new/
    refuses 1 'new/: cannot write: Is a directory' $arguments
    long_name=$(printf '%0251d' 1)
    refuses 1 '000001.long: .*File *name too long' ${arguments%new/}$long_name.long
    has left_as link other
    try ${arguments%new/}$long_name.npz # has no room for letters behind it
    has [ -s "$folder/$long_name.npz" ]
done
cp "$gpt2" "$folder/own.gguf"
program=$run name=run
refuses 1 'own.gguf: this is a file of the model; choose another name' "$folder/own.gguf" -p Hi! --logits "$folder/own.gguf"
has cmp -s "$gpt2" "$folder/own.gguf"
old
"$run" "$gpt2" -p Hi! -n 0 --logits "$out" >"$out" 2>"$tmp/err" # the text would be lost
code=$?
has [ "$code" -eq 1 ]
has one_line 'out: this goes to a file, not to stdout'
if setpriv --reuid 65534 --regid 65534 --clear-groups true 2>/dev/null; then
    chmod 755 "$tmp"
    cp "$faulty"run "$tmp/run" && cp "$gpt2" "$tmp/model.gguf"
    nobody() { # ARG…: as try, without root's rights
        setpriv --reuid 65534 --regid 65534 --clear-groups "$tmp/run" "$tmp/model.gguf" -p Hi! -n 0 "$@" >"$tmp/out" 2>"$tmp/err"
        code=$? command="nobody $*"
    }
    old
    chmod 666 "$out"
    nobody --logits "$out"
    has [ "$code" -eq 1 ]
    has one_line 'out: cannot write: its folder takes no new file to replace it with: Permission denied'
    chmod 777 "$folder"
    chmod 644 "$out"
    nobody --logits "$out"
    has [ "$code" -eq 1 ]
    has one_line 'out: cannot write: Permission denied'
    has [ "$(cat "$out")" = old ]
    chown 65534:4321 "$out" # a group that cannot be kept: neither ours nor the rest gains
    for mode in 640=600 664=644 606=600; do
        chmod ${mode%=*} "$out"
        nobody --logits "$out"
        has [ "$(stat -c %a:%g "$out")" = ${mode#*=}:65534 ]
        chown 65534:4321 "$out"
    done
    old
    chown 65534:4321 "$out"
    try "$gpt2" -p Hi! -n 0 --logits "$out" # root keeps both
    has [ "$(stat -c %a:%u:%g "$out")" = 640:65534:4321 ]
else
    skipped=$((skipped + 17)) # root alone can become somebody else
fi

if [ "$long" ]; then # kills by the clock, wherever they fall
    kills=0 lost=0
    for each in logits dump view gguf; do
        writes $each
        case $name in
        run) program=$run ;;
        study) program=$study ;;
        quantize) program=$quantize ;;
        esac
        for signal in TERM HUP INT QUIT XCPU KILL; do
            for delay in 010 015 020 025 030 035 040 045 050 060 070 080; do
                old
                timeout --foreground -s $signal 0.$delay "$program" $arguments >"$tmp/out" 2>"$tmp/err"
                kills=$((kills + 1))
                leaves old || leaves new || lost=$((lost + 1))
            done
        done
    done
    has [ "$kills-$lost" = 288-0 ]
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
