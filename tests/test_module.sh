#!/bin/sh
# The engine of a page, web/attn.wasm: as small as it must be, and (module.mjs) what it asks for, tells and survives, which
# node runs: skipped without it.
cd "$(dirname "$0")" || exit 1
bytes=$(($(wc -c <../web/attn.wasm)))
if [ "$bytes" -gt 405000 ]; then
    echo "web/attn.wasm has $bytes bytes, more than 405000"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
if ! node --version >/dev/null 2>&1; then
    echo "skipped: web/attn.wasm needs node to be run"
    echo "1 passed, 0 failed, 1 skipped"
    exit 0
fi
node module.mjs "${STUDY:?}" "$PWD/../weights/model.gguf"
