#!/bin/sh
# A data set in shards, each with its own file of answers, in one folder that all machines share:
#   shards.sh split REQUESTS.jsonl FOLDER N      FOLDER/0000.requests … of whole lines; again: only checks that they are there
#   shards.sh answer FOLDER I MODEL [OPTION…]    answers shard I (from 0); again: goes on where that was stopped
#   shards.sh join FOLDER >ANSWERS.jsonl         what one process would have written, once all shards are whole
# RUN names the program (./run). Requests need ids: one without is named by its line, which is another in a shard.
set -eu
export LC_ALL=C
die() { echo "shards.sh: $*" >&2 && exit 1; }
case "${1-} $#" in
"split 4")
    { [ "$4" -ge 1 ] && [ "$4" -le 10000 ]; } 2>/dev/null || die "split makes 1 to 10000 shards, not '$4'"
    if [ ! -d "$3" ]; then
        rm -rf "$3.new" && mkdir "$3.new"
        split -n "l/$4" -d -a 4 --additional-suffix=.requests "$2" "$3.new/"
        mv "$3.new" "$3"
    fi
    cat "$3"/*.requests | cmp -s - "$2" || die "$3 holds shards of another file; name another folder" ;;
"join 2")
    for shard in "$2"/*.requests; do
        answers=${shard%requests}answers
        [ -s "$answers" ] && [ "$(wc -l <"$answers")" -eq "$(($(grep -ac "[^$(printf ' \t\r')]" "$shard") + 1))" ] ||
            die "$shard has not all its answers yet"
    done
    [ "$(head -qn 1 "$2"/*.answers | uniq | wc -l)" -eq 1 ] || die "$2: not all shards had the same settings and kernels"
    head -n 1 "$2/0000.answers" && tail -qn +2 "$2"/*.answers ;;
answer\ *)
    [ $# -ge 4 ] || die "answer FOLDER I MODEL [OPTION…]"
    shard=$2/$(printf %04d "$3") model=$4 && shift 4
    exec "${RUN:-./run}" "$model" --batch "$shard.requests" --in-order -o "$shard.answers" "$@" ;;
*) die "split REQUESTS.jsonl FOLDER N, answer FOLDER I MODEL, or join FOLDER" ;;
esac
