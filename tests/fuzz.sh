#!/bin/sh
# Fuzzes the programs for FUZZ_SECONDS (60) in FUZZ_JOBS (1) processes at once, and says in its last line how often they
# were called and what went wrong; fails if anything did. tests/fuzz.sh BUILD, which has the program `fuzzer`.
# It starts from the calls of tests/fuzz/seeds.c, from tests/corpus, and from what earlier runs found, in BUILD/corpus. What went wrong is put into BUILD/found:
#
#   FUZZ_SHOW=1 BUILD/fuzzer FILE   makes that one call again, and shows it
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/.." || exit 1
mkdir -p "$build/corpus" "$build/found"
TMPDIR=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT TERM
export UBSAN_OPTIONS=print_stacktrace=1

mkdir "$TMPDIR/seeds"
FUZZ_SEEDS=$TMPDIR/seeds "$build/fuzzer" || exit 1
log=$build/fuzz.log
touch "$build/started"
"$build/fuzzer" -fork="${FUZZ_JOBS:-1}" -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1 -max_len=65536 -timeout=20 \
    -rss_limit_mb=1024 -max_total_time="${FUZZ_SECONDS:-60}" -artifact_prefix="$build/found/" "$build/corpus" \
    "$TMPDIR/seeds" tests/corpus >"$log" 2>&1

# Each find is called once more, alone, to tell what it is: a sanitizer's report, or a crash or an answer that is wrong.
crashes=0 hangs=0 reports=0
for find in $(find "$build/found" -type f -newer "$build/started"); do
    said=$("$build/fuzzer" -timeout=20 -rss_limit_mb=1024 "$find" 2>&1)
    case $(basename "$find") in
    timeout-*) hangs=$((hangs + 1)) ;;
    *) case $said in
        *"SUMMARY: "*Sanitizer:*) reports=$((reports + 1)) ;;
        *) crashes=$((crashes + 1)) ;;
        esac ;;
    esac
    echo "$find"
    printf '%s\n' "$said" | grep -E -A2 '^WRONG|^SUMMARY|ERROR:|runtime error' | head -n 8
done
runs=$(sed -n 's/^#\([0-9]*\): cov: .*/\1/p' "$log" | tail -n 1)
sed -n 's/^#[0-9]*: cov: \([0-9]*\) ft: \([0-9]*\) corp: \([0-9]*\) .*/\1 edges, \2 features, \3 files in the corpus/p' "$log" | tail -n 1
echo "${runs:-0} runs, $crashes crashes, $hangs hangs, $reports sanitizer reports"
[ "${runs:-0}" -gt 0 ] && [ $((crashes + hangs + reports)) -eq 0 ]
