#!/bin/sh
# The house of docs/ARCHITECTURE.md: who includes or calls whom goes downhill, by the text of the files and by the symbols of
# the objects; there are no circles, headers compile alone, and the root has the engine's files and no others.
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
    -not -path './examples/*' -not -path './scripts/*' | sed 's|^\./||' | sort)

# "FILE INCLUDED" a line, both from the root; an include of a neighbour has its folder put before it.
includes=$(for file in $sources; do
    sed -n 's/^ *# *include "\([^"]*\)".*/\1/p' "$file" | while read -r name; do
        [ -f "$name" ] || name=$(dirname "$file")/$name
        echo "$file $name"
    done
done)

# The floor of each room, the ground first: a room calls only what lies below it, and no other room of its own floor. A model and
# its sessions are one room, and so are the files of the library's face.
floors='
function room(file) { sub(/^session\./, "model.", file); sub(/^attn_[a-z]+\./, "attn.", file); return file ~ /\// ? substr(file, 1, index(file, "/") - 1) : substr(file, 1, index(file, ".") - 1) }
BEGIN {
    n = split("base; kernels unicode probe guess; regex jinja checkpoint mlp; vocab hub layers sampler;" \
        " open attention sampling family; tokenizer config; binding gradients; model conversation; generate vocabulary backward snapshot; attn packing measures; cli; batch views; page;" \
        " run study quantize wasm", rows, ";")
    for (i = 1; i <= n; i++)
        for (k = split(rows[i], names, " "); k > 0; k--) floor[names[k]] = i
}
!(room($1) in floor) { print "  " $1 " is in no room of floors"; next }'
arrows='room($1) != room($2) && floor[room($1)] <= floor[room($2)] { print "  " $0 }'

# "FILE CALLED SYMBOL" a line, for files whose object asks another for a symbol; files stand for their objects.
calls() {
    (cd "$build" && find . -name '*.o' | sed 's|^\./||' | while read -r object; do
        [ -e "$root/${object%.o}.c" ] && case $object in tests/* | bench/* | examples/*) ;; *) echo "$object" ;; esac
    done | xargs nm -A) | awk '
        { file = substr($0, 1, index($0, ".o:") - 1) ".c"; kind = $(NF - 1) }
        kind ~ /^[TDBRCV]$/ { owner[$NF] = file }
        kind == "U" { asks[file " " $NF] = 1 }
        END {
            for (pair in asks) {
                split(pair, part, " ")
                if (part[2] in owner && owner[part[2]] != part[1]) print part[1], owner[part[2]], part[2]
            }
        }' | sort
}

uphill=$(echo "$includes" | awk "$floors $arrows")
check "an include goes uphill" "$uphill"
check "an include is of no file here" "$(echo "$includes" |
    while read -r file name; do [ -f "$name" ] || echo "  $file $name"; done)"
check "includes go in a circle" "$(echo "$includes" | grep '\.h .*\.h$' | tsort 2>&1 >/dev/null)"

root=$PWD build=${FRESH%/tests/fresh}
build=${build:-build}
if command -v nm >/dev/null && [ -e "$build/model.o" ]; then
    called=$(calls)
    check "objects whose calls are seen" "$([ "$(echo "$called" | wc -l)" -gt 1000 ] || echo "  too few")"
    up=$(echo "$called" | awk "$floors $arrows")
    check "a call goes uphill" "$up"
    between=$(echo "$called" | awk "$floors"' room($1) != room($2) { print room($1), room($2) }' |
        sort -u | tsort 2>&1 >/dev/null)
    check "calls between rooms go in a circle" "$between"
    # The evaluator of templates is one: what it evaluates has filters, whose arguments it evaluates.
    within=$(echo "$called" | sed -E 's,jinja/(eval|filters|functions|json|strings|template|tests)\.c,jinja/evaluator.c,g' |
        awk "$floors"' $1 != $2 && room($1) == room($2) { print $1, $2 }' | sort -u | tsort 2>&1 >/dev/null)
    check "calls within a room go in a circle" "$within"
    circles() { echo "$1" | grep -c 'contains a loop'; }
    echo "$(circles "$between") circles between rooms, $(circles "$within") within but the recursive core of jinja/," \
        "$(printf '%s\n%s\n' "$uphill" "$up" | grep -c .) arrows upward"
else
    skipped=$((skipped + 4))
fi

# differ FILE: the lines that stdin and the file, both sorted, do not share.
differ() { diff "$1" - | sed -n 's/^[<>]/ /p'; }
lists=$(mktemp -d) || exit 1
# The Makefile names the rooms, and scripts/checks/mutate.py reads them there; wasm/ has objects of its own.
{ echo wasm && sed -n 's/^[A-Z]*_ROOMS = //p' Makefile | tr ' ' '\n'; } | sort >"$lists/rooms"
check "rooms of the Makefile, or of floors, alone" "$(awk "$floors"' END { for (name in floor) print name }' </dev/null |
    while read -r name; do [ ! -d "$name" ] || echo "$name"; done | sort | differ "$lists/rooms")"
check "rooms without C files, or folders with some that are no rooms" "$(
    echo "$sources" | sed -n 's|/.*\.c$||p' | sort -u | differ "$lists/rooms")"
# The list of the module has more files than these; of views only those.
sed -n 's/^ *\(ASKED\|SERVED\|OWN\)(\([a-z]*\)).*/\2/p' views/view.h >"$lists/views"
sed -n 's/^ *ASKED(\([a-z]*\)).*/\1/p' views/view.h | sort >"$lists/asked"
check "views of which a page may ask, or the module has, alone" "$(sed -n '/^ASKED = /,/[^\\]$/p' wasm/build.mk | tr '()' '\n' |
    sed -nE 's/^addprefix (views|page)\/,//p' | tr ' ' '\n' | grep -Fx -f "$lists/views" | sort | differ "$lists/asked")"
rm -r "$lists"

check "C files in the root that are not the engine's" "$(ls ./*.[ch] |
    grep -vE '^\./(run|study|quantize|attn(_weights|_gradient|_generate|_inner)?|generate|guess|model|session|backward|binding|family|config|attention|mlp|tokenizer|vocabulary|sampler|sampling|probe|open|conversation|snapshot)\.[ch]$')"
check "the library prints or exits" "$(echo "$sources" |
    grep -vE '^(run|study|quantize)\.c$|^(views|page|cli|batch|wasm)/' | xargs grep -nE '\b(exit|abort|f?printf|puts|perror)[[:space:]]*\(' |
    grep -v ':[[:space:]]*\*')"

# People who link the library meet its messages, and have no options to give.
options=$(sed -n 's/^ *{"\(--[a-z-]*\)".*/\1/p' cli/*.[ch] views/*.c quantize.c | sort -u | paste -sd'|')
check "a message of the library names a program or its option" "$(echo "$sources" |
    grep -vE '^(run|study|quantize)\.c$|^(views|page|cli|batch|wasm)/' |
    xargs grep -nE "\"[^\"]*(\./(run|study|quantize)|($options)[^a-z-])" | grep -v llama-quantize)"

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
    x86_64\ kernels/*avx512* | x86_64\ kernels/amx* | x86_64\ kernels/bf16*)
        $cc $avx512 -fsyntax-only -x c /dev/null 2>/dev/null && echo "$avx512" ;;
    x86_64\ kernels/*) echo "$avx2" ;;
    *\ kernels/*avx* | *\ kernels/amx* | *\ kernels/bf16* | *\ kernels/*x86*) false ;;
    esac
}
check "headers that do not compile alone" "$(echo "$sources" | grep '\.h$' | while read -r header; do
    flags=$(flags_of "$header") || continue
    # shellcheck disable=SC2086
    $cc -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -I. $flags -fsyntax-only -w -x c "$header" 2>/dev/null ||
        echo "  $header"
done)"

# Where size_t has 32 bits, too, no number is cut unless a cast says so. glibc's headers for 64 bits will do, but for one.
of_32=$(mktemp -d) || exit 1
mkdir "$of_32/gnu" && : >"$of_32/gnu/stubs-32.h"
as_32() { # FILE FLAG…
    file=$1 && shift
    $cc -m32 -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -I. -msse2 -mfpmath=sse "$@" -fsyntax-only -Wconversion \
        -isystem "$of_32" -isystem "/usr/include/$(uname -m)-linux-gnu" "$file" 2>&1
}
echo '#include <stdlib.h>' >"$of_32/try.c"
if [ "$(uname -m)" = x86_64 ] && as_32 "$of_32/try.c" >/dev/null; then
    # shellcheck disable=SC2086
    check "conversions that 32-bit builds warn of" "$(printf '%s\n' $sources tests/*.c tests/fuzz/*.c bench/*.c |
        grep '\.c$' | grep -v '^wasm/' | while read -r file; do
        flags=$(flags_of "$file") || continue
        as_32 "$file" $flags | grep -E '(warning|error): '
    done)"
fi
rm -r "$of_32"

# Of two headers with one guard, a file that includes both would see the first alone.
check "headers that share an include guard" "$(find . -name '*.h' -not -path './build/*' | sort |
    xargs awk 'FNR == 1 { seen = 0 } /^#ifndef / && !seen { seen = 1; files[$2] = files[$2] "  " FILENAME; n[$2]++ }
        END { for (guard in n) if (n[guard] > 1) print "  " guard files[guard] }')"

# README's commands name what is in the repository, what they make, or what a comment among them says where to get.
check "README's commands name files that nobody has" "$(awk '
    /^```/ { on = /^```sh$/; next }
    on && /^#/ { told = told $0 }
    on { for (i = 2; i <= NF; i++) if ($i ~ /\.(gguf|bin|txt|json|npy)$/ && $(i - 1) !~ /^(-o|--logits)$/) names[$i] }
    END { for (name in names) if (!index(told, name)) print name }' README.md |
    while read -r name; do [ -e "$name" ] || [ "$name" = model.bin ] || echo "  $name"; done)"

# Tests hear signals, even if their caller ignores them, as nohup and a script's background do.
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
