#!/usr/bin/env python3
"""Chooses the calls of tests/corpus anew: those that, beside the first ones (tests/fuzz/seeds.c), take most branches for
their bytes, of tests/corpus itself and of what the fuzzer has found since.

    make fuzz FUZZ_SECONDS=3600; scripts/checks/fuzz_corpus.py [BUDGET_BYTES]
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

FUZZER, CORPUS, FOUND = "build/fuzz/fuzzer", "tests/corpus", "build/fuzz/corpus"


def features(folder, scratch):
    """{path: branches}, by the control file that libFuzzer's merge leaves."""
    control = os.path.join(scratch, "control")
    empty = os.path.join(scratch, "merged")
    os.mkdir(empty)
    subprocess.run([FUZZER, "-merge=1", "-merge_control_file=" + control, "-max_len=65536", empty, folder],
                   check=True, capture_output=True)
    lines = open(control).read().split("\n")
    paths = lines[2:2 + int(lines[0])]
    of = {}
    for line in lines[2 + len(paths):]:
        words = line.split()
        if words and words[0] == "FT":  # a branch's number times 8, and how often it was taken, roughly
            of[paths[int(words[1])]] = {int(word) >> 3 for word in words[2:]}
    return of


def choose(of, seeds, budget):
    """Greedily: the most new branches for a byte. A file costs some bytes beside its own."""
    size = {path: os.path.getsize(path) for path in of}
    left = {path: branches for path, branches in of.items() if os.path.basename(path) not in seeds}
    have = set().union(*(of[path] for path in of if path not in left))
    print(f"{len(have)} branches by the first calls")
    used, chosen = 0, []
    while left:
        best = max(sorted(left), key=lambda path: len(left[path] - have) / (size[path] + 150))
        new = left.pop(best) - have
        if new and used + size[best] <= budget:
            chosen.append(best)
            have |= new
            used += size[best]
    everything = set().union(*of.values())
    print(f"{len(chosen)} files, {used} bytes, {len(have)} of {len(everything)} branches")
    return chosen


def call_name(path):
    """study-lens, or run: of its first words; "other" where these are none of ours."""
    words, data = [], open(path, "rb").read()
    while data[:2] == b"w " and len(words) < 2:
        n, _, rest = data[2:].partition(b"\n")
        words.append(rest[:int(n)].decode("latin1"))
        data = rest[int(n) + 1:]
    name = "-".join(words if words and words[0] == "study" else words[:1])
    return name if re.fullmatch("run|load|study-[a-z]+", name) else "other"


def main():
    with tempfile.TemporaryDirectory() as scratch:
        every = os.path.join(scratch, "all")
        os.mkdir(every)
        subprocess.run([FUZZER], env=dict(os.environ, FUZZ_SEEDS=every), check=True, capture_output=True)
        seeds = set(os.listdir(every))
        for folder in filter(os.path.isdir, (CORPUS, FOUND)):
            for name in os.listdir(folder):
                shutil.copy(os.path.join(folder, name), every)
        chosen = choose(features(every, scratch), seeds, int(sys.argv[1]) if len(sys.argv) > 1 else 280000)
        shutil.rmtree(CORPUS, ignore_errors=True)
        os.mkdir(CORPUS)
        counts = {}
        for path in sorted(chosen, key=os.path.getsize):
            name = call_name(path)
            counts[name] = counts.get(name, 0) + 1
            shutil.copy(path, os.path.join(CORPUS, f"{name}-{counts[name]:02}"))


if __name__ == "__main__":
    main()
