#!/bin/sh
# The house of docs/ARCHITECTURE.md: includes go downhill, there are no circles, headers compile alone, and the root has the
# engine's files and no others.
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0 skipped=0

# check WHAT FOUND: passed when nothing was found.
check() {
    if [ -z "$2" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s:\n%s\n' "$1" "$2"
    fi
}

sources=$(find . -name '*.[ch]' -not -path './build/*' -not -path './tests/*' -not -path './bench/*' \
    -not -path './examples/*' | sed 's|^\./||' | sort)

# "FILE INCLUDED" a line, both from the root; an include of a neighbour has its folder put before it.
includes=$(for file in $sources; do
    sed -n 's/^ *# *include "\([^"]*\)".*/\1/p' "$file" | while read -r name; do
        [ -f "$name" ] || name=$(dirname "$file")/$name
        echo "$file $name"
    done
done)

# The floor of each room, the ground first.
floors='
function floor(file) {
    if (file ~ /^(run|study|quantize)\.c$/ || file ~ /^wasm\//) return 9
    if (file ~ /^views\//) return 8
    if (file ~ /^web\//) return 7
    if (file ~ /^cli\//) return 6
    if (file ~ /^measures\//) return 5
    if (file ~ /^packing\//) return 3
    if (file ~ /^attn\./) return 4
    if (file ~ /^(generate|model|binding|family|attention|kv_cache|rope|norm|mlp|experts|states|tokenizer|sampler|sampling)\./) return 3
    if (file ~ /^text\/unicode\./) return 1 # error.c asks it what is safe to show
    if (file ~ /^text\//) return 2
    if (file ~ /^checkpoint\//) return 2
    return 1
}'
check "an include goes uphill" "$(echo "$includes" |
    awk "$floors"' floor($1) < floor($2) { print "  " $0 }')"
check "an include is of no file here" "$(echo "$includes" |
    while read -r file name; do [ -f "$name" ] || echo "  $file $name"; done)"
check "includes go in a circle" "$(echo "$includes" | grep '\.h .*\.h$' | tsort 2>&1 >/dev/null)"
check "a circle of rooms" "$(echo "$includes" | awk '
    function room(file) { return file ~ /\// ? substr(file, 1, index(file, "/") - 1) : "" }
    room($1) != "" && room($2) != "" && room($1) != room($2) { print room($1), room($2) }' | sort -u |
    tsort 2>&1 >/dev/null)"
check "C files in the root that are not the engine's" "$(ls ./*.[ch] |
    grep -vE '^\./(run|study|quantize|attn|generate|model|binding|family|attention|kv_cache|rope|norm|mlp|experts|states|tokenizer|sampler|sampling|probe|threads|error)\.[ch]$')"
check "the library prints or exits" "$(echo "$sources" |
    grep -vE '^(run|study|quantize)\.c$|^(views|web|cli|wasm)/' | xargs grep -nE '\b(exit|abort|f?printf|puts|perror)[[:space:]]*\(' |
    grep -v ':[[:space:]]*\*')"

# Lanes are those of the flags that a set is compiled with. Without any, x86-64 has none: that a header chose them itself
# would take a `#pragma GCC target`, of which clang makes no macros to choose by. So headers of kernels/ get AVX2's flags
# here, those of AVX-512 and AMX their own, if the compiler knows them. Those of other CPUs are left out.
cc=${CC:-cc} avx2='-mavx2 -mfma -mf16c'
avx512="$avx2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16"
# shellcheck disable=SC2086
flags_of() { # flags_of HEADER: false where it is left out
    case "$(uname -m) $1" in
    *\ kernels/*wasm*) false ;;
    x86_64\ kernels/*neon* | x86_64\ kernels/*arm64*) false ;;
    x86_64\ kernels/*avx512* | x86_64\ kernels/amx*)
        $cc $avx512 -fsyntax-only -x c /dev/null 2>/dev/null && echo "$avx512" ;;
    x86_64\ kernels/*) echo "$avx2" ;;
    *\ kernels/*avx* | *\ kernels/amx* | *\ kernels/*x86*) false ;;
    esac
}
check "headers that do not compile alone" "$(echo "$sources" | grep '\.h$' | while read -r header; do
    flags=$(flags_of "$header") || continue
    # shellcheck disable=SC2086
    $cc -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -I. $flags -fsyntax-only -w -x c "$header" 2>/dev/null ||
        echo "  $header"
done)"

# README's commands name what is in the repository, what they make, or what a comment among them says where to get.
check "README's commands name files that nobody has" "$(awk '
    /^```/ { on = /^```sh$/; next }
    on && /^#/ { told = told $0 }
    on { for (i = 2; i <= NF; i++) if ($i ~ /\.(gguf|bin|txt|json|npy)$/ && $(i - 1) !~ /^(-o|--logits)$/) names[$i] }
    END { for (name in names) if (!index(told, name)) print name }' README.md |
    while read -r name; do [ -e "$name" ] || [ "$name" = model.bin ] || echo "  $name"; done)"

# Whoever starts the tests may ignore signals, as nohup and a script's background do; tests hear them all the same.
heard=$(mktemp) || exit 1
printf '#!/bin/sh\nfor signal in INT QUIT HUP TERM; do sh -c "kill -$signal \\$\\$" || echo $signal; done\n' >"$heard"
chmod +x "$heard"
check "signals that a test would not hear" "$(
    trap '' INT QUIT HUP TERM
    said=$(FRESH=${FRESH:-build/tests/fresh} tests/run.sh "$heard")
    for signal in INT QUIT HUP TERM; do echo "$said" | grep -q "^$signal$" || echo "  $signal"; done)"
rm "$heard"

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
