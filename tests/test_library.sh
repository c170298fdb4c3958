#!/bin/sh
# The library as others meet it: the names that it shows, its header alone, and what `make install` puts where: a program
# built from it, the examples, the completions, the default model; and that `make uninstall` leaves nothing.
program=make name=make
. tests/program.sh
prefix=/opt/attn # not of this machine
dest=$tmp/dest
there=$dest$prefix
warnings='-Wall -Wextra -Wpedantic -Werror'
CC=${CC:-cc} CXX=${CXX:-g++}
gpt2=$PWD/tests/data/reference/gpt2-f32.gguf

skip() {
    skipped=$((skipped + $1))
    echo "skipped: $2"
}
run_in() { # FOLDER COMMAND…: like `try`, of any program
    folder=$1
    shift
    (cd "$folder" && exec "$@") <"$input" >"$tmp/out" 2>"$tmp/err"
    code=$? command=$*
}
builds() { # COMMAND…
    run_in "$tmp/new" "$@"
    count $? "$*"
}
err_has() { grep -q "$1" "$tmp/err"; }
one_line_of() { [ "$(wc -l <"$tmp/err")" -eq 1 ] && err_has "^$1"; }
ok() { [ "$code" -eq 0 ]; }

# Built files are installed, and not built again.
try all
try install DESTDIR="$dest" PREFIX=$prefix
has ok
if grep -e ' -o ' -e ' -c ' "$tmp/out"; then has false; fi
for file in bin/attn-run bin/attn-study bin/attn-quantize lib/libattn.a lib/libattn.so include/attn.h share/attn/model.gguf \
    share/man/man1/attn-run.1 share/man/man1/attn-study.1 share/man/man1/attn-quantize.1 share/man/man3/attn.3; do
    has [ -s "$there/$file" ]
done
version=$(sed -n 's/^#define ATTN_VERSION "\(.*\)"/\1/p' attn.h)
has [ "$(readlink "$there/lib/libattn.so")" = "libattn.so.$version" ]
has [ "$(readlink "$there/lib/libattn.so.${version%.*}")" = "libattn.so.$version" ]

# Both libraries define what the header declares, and nothing else that others see.
sed -n 's/^ATTN_API .*[ *]\(attn_[a-z0-9_]*\)(.*/\1/p' attn.h | sort >"$tmp/declared"
has [ "$(wc -l <"$tmp/declared")" -eq "$(grep -c '^ATTN_API' attn.h)" ]
names() { sed -n 's/.* [A-TV-Z] \([^@]*\).*/\1/p' | sort; }
case ${CFLAGS:-} in
*-fsanitize*) skip 2 'a sanitizer has names of its own' ;;
*)
    nm -g --defined-only "$there/lib/libattn.a" | names >"$tmp/static"
    has cmp "$tmp/declared" "$tmp/static"
    nm -D --defined-only "$there/lib/libattn.so" | names >"$tmp/shared"
    has cmp "$tmp/declared" "$tmp/shared"
    ;;
esac

# The header alone, as C and as C++.
mkdir "$tmp/new"
cp "$there/include/attn.h" "$tmp/new"
builds $CC -std=c11 $warnings -fsyntax-only -x c attn.h
rm "$tmp/new/attn.h"

# The manual shows the header's first program.
sed -n '/^ \*     #include/,/^ \* Build it/p' attn.h | sed -e '$d' -e 's/^ \* \{0,5\}//' | sed '$d' >"$tmp/new/first.c"
sed -n '/^#include/,/^\.Ed/p' docs/attn.3 | sed -e '/^\.Ed/d' -e 's/\\e/\\/g' >"$tmp/manual.c"
has cmp "$tmp/new/first.c" "$tmp/manual.c"

# It is built in an empty folder by what pkg-config says, with the shared library and with the other, and runs.
PKG_CONFIG_SYSROOT_DIR=$dest PKG_CONFIG_PATH=$there/lib/pkgconfig LD_LIBRARY_PATH=$there/lib
export PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_PATH LD_LIBRARY_PATH
model=$there/share/attn/model.gguf
attn() { pkg-config --cflags --libs "$@" attn; }
begins() { [ "$(head -c ${#1} "$tmp/out")" = "$1" ]; }
if pkg-config --version >"$tmp/out" 2>&1; then
    has [ "$(pkg-config --modversion attn)" = "$version" ]
    builds $CC -std=c11 $warnings ${CFLAGS:-} -o first first.c $(attn)
    run_in "$tmp/new" ./first
    has [ "$code" -eq 1 ]
    has err_has '^model.bin: .*No such file'
    ln -s "$model" "$tmp/new/model.bin"
    run_in "$tmp/new" ./first
    has quiet
    has begins ' Tower'
    cp "$tmp/out" "$tmp/text"
    case ${CFLAGS:-} in
    *-fsanitize*) skip 4 'a sanitizer is not linked statically' ;;
    *)
        has [ "$(ldd "$tmp/new/first" | grep -c "$there/lib/libattn.so.${version%.*} ")" -eq 1 ]
        builds $CC -std=c11 ${CFLAGS:-} -static -o static first.c $(attn --static)
        run_in "$tmp/new" ./static
        has quiet
        has cmp "$tmp/text" "$tmp/out"
        ;;
    esac

    # Each example says how it is built and called.
    for example in generate logprobs chat watch_head steer rests_on; do
        has grep -q "cc -o $example $example.c \$(pkg-config --cflags --libs attn)\$" examples/$example.c
        builds $CC -std=c11 $warnings ${CFLAGS:-} -o $example "$PWD/examples/$example.c" $(attn)
    done
    for example in endings similar; do
        has grep -q "cc -o $example $example.c \$(pkg-config --cflags --libs attn) -lm\$" examples/$example.c
        builds $CC -std=c11 $warnings ${CFLAGS:-} -o $example "$PWD/examples/$example.c" $(attn) -lm
    done
    run_in "$tmp/new" ./generate model.bin 'The Eiffel'
    has quiet
    has begins ' Tower'
    run_in "$tmp/new" ./logprobs model.bin 'The Eiffel'
    has quiet
    has [ "$(wc -l <"$tmp/out")" -eq 8 ]
    has grep -q '^ *[0-9]* *-0\.[0-9]* " Tower"$' "$tmp/out"
    printf 'The king\nhad a\n' >"$tmp/questions"
    input=$tmp/questions
    run_in "$tmp/new" ./chat model.bin '{% for m in messages %}{{ m.content }} {% endfor %}'
    input=/dev/null
    has quiet
    has [ "$(wc -c <"$tmp/out")" -gt 20 ]
    run_in "$tmp/new" ./chat model.bin
    has [ "$code" -eq 0 ] # nobody asked
    for kept in 'kept in' 'taken from'; do
        run_in "$tmp/new" ./endings model.bin kept.session 'The Eiffel' ' Tower' ' potato'
        has quiet
        has out_has "^[0-9]* bytes of session are $kept kept.session$"
        has [ "$(sed -n 's/^ *-\([0-9.]*\) " Tower"$/\1/p' "$tmp/out" | cut -d . -f 1)" -lt 2 ]
        sed 1,2d "$tmp/out" >"$tmp/$kept"
    done
    has cmp "$tmp/kept in" "$tmp/taken from"
    run_in "$tmp/new" ./similar model.bin 'One two three' 'One two three' 'Once upon a time'
    has quiet
    has [ "$(head -n 1 "$tmp/out")" = ' 1.0000 "One two three"' ]
    has out_has '^ 0\.[0-9]* "Once upon a time"$'
    run_in "$tmp/new" ./watch_head model.bin 3 4 'The king Zilgan rode out. Then king Zil'
    has quiet
    has [ "$(wc -l <"$tmp/out")" -eq 13 ]
    has out_has '^  12 "il" looks at   5 "gan" 0.9'
    run_in "$tmp/new" ./rests_on model.bin 'The king Zilgan rode out. Then king Zil'
    has quiet
    has out_has '^ln p = -0\.[0-9]* of "gan"$'
    has [ "$(sed 1d "$tmp/out" | tr -d + | sort -n | tail -n 1 | sed 's/^ *[0-9.]* //')" = '"gan"' ]
    run_in "$tmp/new" ./steer model.bin 3 1 ' death' ' wedding' 'I went to the'
    has quiet
    has [ "$(grep -c ': I went to the ' "$tmp/out")" -eq 2 ]
    has out_has '^1: .*bride'
    for example in generate logprobs chat endings similar watch_head steer rests_on; do
        run_in "$tmp/new" ./$example none.gguf 4 1 5 6 7
        [ $example = steer ] || run_in "$tmp/new" ./$example none.gguf
        has [ "$code" -ne 0 ]
        has [ "$(wc -l <"$tmp/err")" -eq 1 ]
    done
    if $CXX --version >"$tmp/out" 2>&1; then
        builds $CXX -std=c++11 $warnings ${CFLAGS:-} -o tokens "$PWD/examples/tokens.cpp" $(attn)
        run_in "$tmp/new" ./tokens model.bin 'The Eiffel Tower is in Paris'
        has quiet
        has [ "$(wc -l <"$tmp/out")" -eq 6 ]
        has out_has '^  0\.0.*" Tower"$'
        run_in "$tmp/new" ./tokens none.gguf a
        has one_line_of 'tokens: none.gguf: '
    else
        skip 5 "no C++ compiler $CXX"
    fi
else
    skip 73 'no pkg-config'
fi

# Where no linker looks for libraries README's line is enough, too: built, it starts.
if pkg-config --version >"$tmp/out" 2>&1; then
    program=make
    try install PREFIX="$tmp/own"
    has ok
    line=$(sed -n 's/^Build it with `\(cc first.c [^`]*\)`.*/\1/p' README.md)
    has [ "$line" ]
    (
        unset LD_LIBRARY_PATH PKG_CONFIG_SYSROOT_DIR
        PKG_CONFIG_PATH=$tmp/own/lib/pkgconfig
        cc() { command $CC ${CFLAGS:-} "$@"; } # $CC may be cc itself
        cd "$tmp/new" && rm -f a.out && eval "$line" && exec ./a.out
    ) >"$tmp/out" 2>"$tmp/err"
    code=$? command=$line
    has quiet
    has begins ' Tower'
    try uninstall PREFIX="$tmp/own"
    has [ -z "$(find "$tmp/own" ! -type d)" ]
    try install DESTDIR="$dest/usual" PREFIX=/usr
    has grep -q '^Libs: -L${libdir} -lattn$' "$dest/usual/usr/lib/pkgconfig/attn.pc" # the system looks there anyway
    rm -r "$dest/usual"
else
    skip 7 'no pkg-config'
fi

# The default model: ./model.bin, else the installed one, wherever the tree has been moved to.
mkdir "$tmp/empty" "$tmp/full"
ln -s "$gpt2" "$tmp/full/model.bin"
mv "$there" "$tmp/moved"
bin=$tmp/moved/bin
installed=$tmp/moved/share/attn/model.gguf
takes() { # PROGRAM MODEL: the one note of the last run
    ok && [ "$(cat "$tmp/err")" = "$1: note: no model is named; taking $2" ]
}
run_in "$tmp/empty" "$bin/attn-run" -p 'The Eiffel' -n 1 --temp 0
has takes run "$installed"
has begins 'The Eiffel Tower'
run_in "$tmp/full" "$bin/attn-run" -p 'The Eiffel' --tokens
has takes run model.bin
has [ "$(wc -w <"$tmp/out")" -eq 10 ]
run_in "$tmp/empty" "$bin/attn-study" next -p 'The Eiffel' --top 1
has takes study "$installed"
has out_has '1  " Tower"'
run_in "$tmp/full" "$bin/attn-study" next -p 'The Eiffel'
has takes study model.bin
for program in attn-run 'attn-study next' 'attn-study heads'; do # nothing is asked, so nothing is taken
    run_in "$tmp/full" "$bin/"$program
    has [ "$code" -eq 2 ]
    has one_line_of '.*: no model is named: '
done
run_in "$tmp/full" "$bin/attn-run" -p a -f b
has [ "$code" -eq 2 ]
has one_line_of 'run: -p and -f'
mv "$installed" "$tmp/model.gguf"
for program in attn-run 'attn-study next'; do
    run_in "$tmp/empty" "$bin/"$program -p 'The Eiffel'
    has [ "$code" -eq 2 ]
    has one_line_of '.*: no model is named, here is no ./model.bin, and none is installed: .*--help'
done
mv "$tmp/model.gguf" "$installed"
mv "$tmp/moved" "$there"

# Their help, and what they say to do, has their names here.
bin=$there/bin
for program in attn-run attn-study attn-quantize 'attn-study next' 'attn-study serve'; do
    run_in "$tmp/empty" "$bin/"$program --help
    has ok
    has [ "$(head -c $((7 + ${#program})) "$tmp/out")" = "usage: $program" ]
    has [ "$(grep -c '\./\(run\|study\|quantize\)' "$tmp/out")" -eq 0 ]
done
run_in "$tmp/empty" "$bin/attn-study" --help
has out_has '^  attn-study next model.bin -p '
has out_has ' attn-run runs'
for program in attn-run attn-study attn-quantize; do
    run_in "$tmp/empty" "$bin/$program"
    has [ "$code" -eq 2 ]
    has err_has "^${program#attn-}: .* see $program \|^${program#attn-}: .*(see $program --help)"
done
for program in "${RUN:-./run}" "${STUDY:-./study}" "${QUANTIZE:-./quantize}"; do # and in the tree the others
    run_in "$PWD" "$program" --help
    has [ "$(head -n 1 "$tmp/out" | cut -d ' ' -f 1,2)" = "usage: ${program##*/}" ]
    has out_has "^  ./${program##*/} "
done

# Completions. A shell is asked what it would offer for a line.
PATH=$there/bin:$PATH
offers() { # SHELL WORDS WORD…: exactly these words, in any order
    shell=$1 words=$2
    shift 2
    printf '%s\n' "$@" | sort >"$tmp/wanted"
    complete_$shell $words >"$tmp/out" 2>"$tmp/err"
    code=$? command="$shell: $words"
    tr ' ' '\n' <"$tmp/out" | grep . | sort -u | cmp -s - "$tmp/wanted"
    count $? "offers $* for '$words'"
}
complete_bash() {
    bash -c '. "$0"; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _attn "$1" "${@: -1}" "${@: -2:1}"
        echo "${COMPREPLY[@]}"' "$there/share/bash-completion/completions/attn-run" "$@"
}
complete_zsh() { # a compadd of our own takes those that fit the last word
    zsh -fc 'compadd() { shift; print -l -- ${(M)@:#$words[CURRENT]*}; }; _files() { print files; }
        file=$1; shift; words=("$@") CURRENT=$#; . $file' zsh "$there/share/zsh/site-functions/_attn" "$@"
}
complete_fish() {
    HOME=$tmp/empty fish -Nc "source $there/share/fish/vendor_completions.d/$1.fish; cd $tmp/empty; complete -C '$*'" |
        cut -f 1
}
for shell in bash zsh fish; do
    if command -v $shell >"$tmp/out"; then
        offers $shell 'attn-run --te' --temp
        offers $shell 'attn-run --top' --top-k --top-p
        offers $shell 'attn-run --kv f' f16 f32
        offers $shell 'attn-run --kv q' q8_0
        offers $shell 'attn-study ne' next neurons
        offers $shell 'attn-study next --to' --token --tokenizer --top --top-k --top-p
        offers $shell 'attn-study heads --to' --tokenizer
        offers $shell 'attn-study next --kv f1' f16
        offers $shell 'attn-study attribute --by g' gradient
        offers $shell 'attn-study patch --what h' head-pos
        offers $shell 'attn-study faithful --ou' --outside
        offers $shell 'attn-quantize a.gguf b.gguf Q4' Q4_0 Q4_1 Q4_K_M Q4_K_S
        offers $shell 'attn-quantize --output-tensor-type B' BF16
        offers $shell 'attn-quantize --le' --leave-output-tensor
    else
        skip 11 "no $shell"
    fi
done

# And away again.
program=make
try uninstall DESTDIR="$dest" PREFIX=$prefix
has ok
has [ -z "$(find "$dest" ! -type d)" ]
has [ ! -e "$there/share/attn" ]

# Each folder may be named; PREFIX is where it is not.
try install DESTDIR="$dest" PREFIX=/usr LIBDIR=/usr/lib/here INCLUDEDIR=/inc MANDIR=/man
has [ -s "$dest/inc/attn.h" ]
has [ -s "$dest/man/man3/attn.3" ]
has grep -q '^libdir=/usr/lib/here$' "$dest/usr/lib/here/pkgconfig/attn.pc"
has grep -q "^Libs.private: -lm -lpthread${OPENMP:+ -fopenmp}\$" "$dest/usr/lib/here/pkgconfig/attn.pc"
try uninstall DESTDIR="$dest" PREFIX=/usr LIBDIR=/usr/lib/here INCLUDEDIR=/inc MANDIR=/man
has [ -z "$(find "$dest" ! -type d)" ]

echo "$passed passed, $failed failed, $skipped skipped"
