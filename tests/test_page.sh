#!/bin/sh
# The page of `study view` and `study serve` in a headless browser (page.js, page_*.js): skipped without node, Chromium
# or playwright-core, which `npm install --no-save playwright-core` puts here, or wherever NODE_PATH points.
cd "$(dirname "$0")" || exit 1
CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome)}
export CHROMIUM
if [ -z "$CHROMIUM" ] || ! node -e 'require("playwright-core")' 2>/dev/null; then
    echo "skipped: the page in a browser needs node, chromium and playwright-core"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
# The page and the views that it is compared with feed the text differently; these kernels round both alike.
export ATTN_KERNEL=scalar
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
node page.js "${STUDY:?}" "$PWD/../weights/model.gguf" "$tmp"
