# For the tests of a program from outside. They set $program, and $name, with which its errors begin.
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
input=/dev/null
passed=0 failed=0 skipped=0
LC_ALL=C
export LC_ALL

# count STATUS WHAT: one more test, passed if the status is 0.
count() {
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
        return
    fi
    failed=$((failed + 1))
    echo "FAILED $2 (exit code $code after: $command)"
    head -n 3 "$tmp/err"
}

# try ARG…: runs the program; leaves $code, $tmp/out and $tmp/err.
try() {
    "$program" "$@" <"$input" >"$tmp/out" 2>"$tmp/err"
    code=$? command=$*
}

quiet() { [ "$code" -eq 0 ] && [ ! -s "$tmp/err" ]; }
one_line() { [ "$(wc -l <"$tmp/err")" -eq 1 ] && grep -q "^$name: .*$1" "$tmp/err"; }
out_has() { grep -q "$1" "$tmp/out"; }

# refuses CODE WORDS ARG…: nothing on stdout, one line with these words on stderr.
refuses() {
    expected=$1 words=$2
    shift 2
    try "$@"
    [ "$code" -eq "$expected" ] && [ ! -s "$tmp/out" ] && one_line "$words"
    count $? "refuses with $expected and '$words'"
}

# refuses_each ARG…: of each line "CODE WORDS | MORE | MORE …" of stdin, refuses CODE WORDS ARG… MORE, with one MORE after the
# other; the shell reads MORE as it stands.
refuses_each() {
    while read -r each row; do
        told=${row%%|*} more=$row
        told=${told%"${told##*[! ]}"}
        while
            more=${more#*|}
            eval "refuses $each \"\$told\" \"\$@\" ${more%%|*}"
            [ "$more" != "${more#*|}" ]
        do :; done
    done
}

# has CHECK…: a further promise about the last try.
has() {
    "$@"
    count $? "$*"
}

# in_manual PAGE OPTION…: docs/PAGE names each of these (-p, --temp), behind an Fl.
in_manual() {
    page=docs/$1
    shift
    for option in "$@"; do
        has grep -Eq "Fl ([^ ]+ , (Fl )?)*${option#-}( |\$)" "$page"
    done
}

# The options that the help of the last try names, but for its examples.
helped() { sed '/^examples:/q' "$tmp/out" | grep -o '\(^\|[ ([]\)--\?[a-z][a-z0-9-]*' | tr -d ' (['; }
