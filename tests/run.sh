#!/bin/sh
# Runs the test programs given, shows what they print beside their closing lines, and adds those up.
passed=0 failed=0 skipped=0
for test in "$@"; do
    output=$("$test" 2>&1) || true
    closing=$(printf '%s\n' "$output" | tail -n 1)
    printf '%s\n' "$output" | sed '$d'
    set -- $(printf '%s\n' "$closing" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p')
    if [ $# -ne 3 ]; then # it died before its closing line
        printf '%s\n' "$closing"
        set -- 0 1 0
    fi
    printf '%-28s %s passed, %s failed, %s skipped\n' "${test##*/}" "$1" "$2" "$3"
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
