#!/bin/sh
# The package of python/, by its own tests (python/tests), with the library and the program that were built. PYTHON names the
# interpreter; without one that has NumPy, all is skipped.
cd "$(dirname "$0")/.." || exit 1
build=${FRESH%/tests/fresh}
ATTN_LIBRARY=$(realpath "${build:-build}/libattn.so") ATTN_STUDY=$(realpath "${STUDY:-./study}") PYTHONDONTWRITEBYTECODE=1
export ATTN_LIBRARY ATTN_STUDY PYTHONDONTWRITEBYTECODE

for python in ${PYTHON:-python3 /usr/bin/python3} ''; do
    [ -n "$python" ] && "$python" -c 'import numpy' 2>/dev/null && break
done
if [ -z "$python" ]; then
    echo 'skipped: no python3 with NumPy'
    echo '0 passed, 0 failed, 1 skipped'
    exit
fi

# A library that was built with sanitizers takes theirs to be there first. Python's own leaks are not of interest.
case ${CFLAGS:-} in
*-fsanitize=*)
    runtime=$(${CC:-cc} -print-file-name=libasan.so)
    if [ ! -e "$runtime" ]; then
        echo 'skipped: the sanitizer of this compiler cannot be loaded into Python'
        echo '0 passed, 0 failed, 1 skipped'
        exit
    fi
    LD_PRELOAD=$runtime ASAN_OPTIONS=detect_leaks=0:$ASAN_OPTIONS
    export LD_PRELOAD ASAN_OPTIONS
    ;;
esac
exec "$python" python/tests/run.py
