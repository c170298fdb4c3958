#!/bin/sh
# Pages with the engine in them (study view --live): what they hold, what they allow themselves, what is refused. How they
# live is page.js's.
study=${STUDY:-./study}
gpt2=tests/data/reference/gpt2-q8_0.gguf
page=
program=$study name=study
. tests/program.sh
page=$tmp/page.html

# The bytes that the element ID of the page holds, if they are those of a file.
holds() {
    sed -n "s/.*<script type=\"text\/plain\" id=\"$1\"[^>]*>\([^<]*\)<\/script>.*/\1/p" "$page" | base64 -d 2>"$tmp/err" | cmp -s - "$2"
}
allows() { grep -q "http-equiv=\"Content-Security-Policy\" content=\"[^\"]*$1" "$page"; }
has_no_page() { [ ! -e "$page" ]; }

try view "$gpt2" -p Hello --live -o "$page"
has quiet
has out_has 'page.html: [0-9]* tokens, 6 heads, [0-9]* kB$'
has holds engine web/attn.wasm
has holds weights "$gpt2"
has grep -q 'data-source="engine"' "$page"
has grep -q 'id="weights" data-name="gpt2-q8_0.gguf"' "$page"
has grep -q 'id="data">{"command": "view"' "$page"
for part in "'wasm-unsafe-eval'" "worker-src blob:" "connect-src 'none'" "require-trusted-types-for 'script'"; do
    has allows "$part"
done

try view "$gpt2" -p Hello -o "$page"
has quiet
has holds engine /dev/null
has holds weights /dev/null
has grep -q 'data-source="frozen"' "$page"
has allows "connect-src 'none'"
! allows wasm-unsafe-eval
count $? "a page that only shows runs no engine"

try view --live --no-model -o "$page"
has quiet
has out_has 'page.html: a page that takes a GGUF file, [0-9]* kB$'
has holds engine web/attn.wasm
has holds weights /dev/null
has grep -q 'id="data"></script>' "$page"
rm "$page"

refuses_each view <<'END'
2 --no-model goes with --live | --no-model -o "$page" | "$gpt2" --live --no-model -o "$page"
2 --no-model goes with --live | --live --no-model -p Hello -o "$page"
2 needs a file: -o            | --live --no-model
2 leave out --json            | "$gpt2" -p Hello --live --json
2 leave out --svg             | "$gpt2" -p Hello --live --svg L0H0 -o "$page"
2 leave out -z                | "$gpt2" -p Hello --live -z "$gpt2" -o "$page"
END
has has_no_page

# A file that is no GGUF; one that makes a large page.
head -c 1000 "$gpt2" >"$tmp/cut.gguf"
refuses 1 'cut.gguf' view "$tmp/cut.gguf" -p Hello --live -o "$page"
cp "$gpt2" "$tmp/large.gguf" && truncate -s 160M "$tmp/large.gguf"
refuses 1 'the page would have 22[0-9] MB: add --yes' view "$tmp/large.gguf" -p Hello --live -o "$page"
cp -r tests/data/torch/opt "$tmp/opt"
printf '{"a": 0, "b": 1}' >"$tmp/opt/vocab.json"
echo '#version: 0.2' >"$tmp/opt/merges.txt"
refuses 1 'opt: a page takes a GGUF file: ./quantize writes one' view "$tmp/opt" -p ab --live -o "$page"
has has_no_page
mkfifo "$tmp/pipe"
head -c 1000 "$tmp/pipe" >"$tmp/head" &
refuses 1 'pipe: cannot write: Broken pipe' view "$tmp/large.gguf" -p Hello --live --yes -o "$tmp/pipe"
wait
if [ -e /dev/full ]; then
    refuses 1 '/dev/full' view "$gpt2" -p Hello --live -o /dev/full
else
    skipped=$((skipped + 1))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
