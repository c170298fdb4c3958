#!/usr/bin/env python3
"""
Runs the functions test_… of the files beside it, as pytest would, and closes as all tests here do.

    python/tests/run.py [WORD [-v]]     those with a word in their names; with the time that each took
"""
import importlib
import pathlib
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
sys.dont_write_bytecode = True


def main(word="", *options):
    passed = failed = 0
    for path in sorted(HERE.glob("test_*.py")):
        module = importlib.import_module(path.stem)
        for name, function in list(vars(module).items()):
            if not name.startswith("test_") or word not in f"{path.stem}.{name}":
                continue
            started = time.monotonic()
            try:
                function()
                if options:
                    print(f"{time.monotonic() - started:6.2f} s  {path.stem}.{name}")
                passed += 1
            except Exception:
                failed += 1
                print(f"FAILED {path.stem}.{name}")
                traceback.print_exc(limit=-3, file=sys.stdout)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
