#!/bin/sh
# Runs the test programs given, one on each core, shows what each prints when it has ended, and adds up the closing lines.
# $FRESH (tests/fresh.c) starts them with all signals heard, whatever whoever started this ignores. With TIMES=1 it says
# how many seconds each one took, and ends one that hangs. Ended from outside, it says which had not ended.
results=$(mktemp -d) || exit 1
trap 'rm -rf "$results"' EXIT
trap 'exit 130' INT
trap 'for test in "$@"; do [ -e "$results/${test##*/}" ] || echo "not ended: $test"; done; exit 143' TERM
# shellcheck disable=SC2016
printf '%s\n' "$@" | xargs -P "$(nproc 2>/dev/null || echo 2)" -I{} sh -c '
    trap : TERM # to show what the test had printed
    begun=$(date +%s)
    output=$(${TIMES:+timeout 1500} "${FRESH:-env}" "$1" 2>&1)
    seconds=${TIMES:+, $(($(date +%s) - begun)) s}
    closing=$(printf "%s\n" "$output" | tail -n 1)
    set -- "$1" "$2" $(printf "%s\n" "$closing" |
        sed -n "s/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p")
    if [ $# -eq 5 ]; then
        output=$(printf "%s\n" "$output" | sed "\$d")
    else # it died before its closing line
        set -- "$1" "$2" 0 1 0
    fi
    printf "%s%-28s %s passed, %s failed, %s skipped%s\n" "${output:+$output
}" "${1##*/}" "$3" "$4" "$5" "$seconds"
    { echo "$3 $4 $5" >"$2/${1##*/}"; } 2>/dev/null' _ {} "$results"
cat "$results"/* | awk -v n=$# '
    { passed += $1; failed += $2; skipped += $3 }
    END {
        failed += n - NR # those that nobody heard of
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
        exit failed > 0 || passed == 0
    }'
