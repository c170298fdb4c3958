#!/usr/bin/env python3
"""Prints the branches that the tests took, file by file, and those that they did not and that have no reason.

    scripts/checks/coverage.py build/coverage tests/coverage.txt

Called by `make coverage`. A branch is one way out of one condition: each part of a && or || has two, true and false,
and so has each `case`. The file of reasons has lines without indentation, each a reason, and under each the branches
that it explains, indented: file, function, way, condition. One line stands for all equal conditions of a function.
Exits 1 when less than 98 % are taken, a branch that was not taken has no reason, or a branch with a reason was taken,
unless its reason begins with "sometimes": two processes race for it.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys

ENOUGH = 0.98
FOLDED = {"0", "1", "true", "false"}  # loops and do {} while (0): they have one way only
# Calls that tell of an error and are false, always: "return ok || error_set(…)".
# A tree or leaf of a pattern has −1 in the place of false: "reader_fail(…) >= 0".
ALWAYS_FALSE = ("bad_keep(", "bad_value(", "builder_fail(", "case_fail(", "checkpoint_error(", "cut(", "error_set(",
                "fail(", "fail_at(", "fail_entry(", "failed(", "malformed(", "misshapen(", "no_memory(", "no_room(",
                "no_such_word(", "out_of_memory(", "output_failed(", "reader_fail(", "reader_out_of_memory(",
                "refuse(", "refuse_changed(", "refuse_folder(", "refuse_key(", "refuse_number(", "shown_fail(",
                "tell(", "tokenizer_no_memory(", "tokenizer_refuse(", "too_long(", "too_many_states(", "wrong_type(",
                "wrong_usage(")


def export(build):
    """llvm-cov's view of the programs with the counts of all tests."""
    counts = build / "counts.profdata"
    subprocess.run(["llvm-profdata", "merge", "-o", counts, *sorted((build / "counts").glob("*.profraw"))], check=True)
    command = ["llvm-cov", "export", "-skip-expansions", f"-instr-profile={counts}", build / "run",
               "-object", build / "study", "-object", build / "quantize", "-object", build / "tests/test_attn"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["data"][0]


def branches(data, root, covered):
    """{(file, line, column, function, way, condition): count} of the files whose objects were built for counting."""
    counts = collections.Counter()
    texts = {}
    for function in data["functions"]:
        name = function["name"].split(":")[-1]
        for line, column, last_line, last_column, *ways, file_id, _, _ in function["branches"]:
            path = pathlib.Path(function["filenames"][file_id]).resolve()
            if root not in path.parents:
                continue
            file = str(path.relative_to(root))
            if not covered(file):
                continue
            lines = texts.setdefault(file, path.read_bytes().splitlines())[line - 1:last_line]
            lines[-1] = lines[-1][:last_column - 1]
            lines[0] = lines[0][column - 1:]
            condition = " ".join(b" ".join(lines).decode().split())
            if condition not in FOLDED:
                for way, count in zip(("true", "false"), ways):
                    if way == "true" and condition.startswith(ALWAYS_FALSE):
                        continue
                    counts[file, line, column, name, way, condition] += count
    return counts


def read_reasons(path):
    """{(file, function, way, condition): reason}"""
    reasons, reason = {}, None
    for line in path.read_text().splitlines():
        if line.startswith(" "):
            reasons[tuple(line.split(None, 3))] = reason
        elif line and not line.startswith("#"):
            reason = line
    return reasons


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("reasons", type=pathlib.Path)
    options = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    counts = branches(export(options.build), root, lambda file: not file.startswith(("kernels/", "tests/")))
    reasons = read_reasons(options.reasons)

    per_file = {}
    missed = []
    for branch, count in sorted(counts.items()):
        totals = per_file.setdefault(branch[0], [0, 0])
        totals[0] += 1
        totals[1] += count > 0
        if count == 0:
            missed.append(branch)
    per_file["all"] = [sum(column) for column in zip(*per_file.values())]
    print(f"{'file':<24} {'branches':>8} {'taken':>6} {'share':>8}")
    for file, (n, taken) in per_file.items():
        print(f"{file:<24} {n:>8} {taken:>6} {100 * taken / n:>6.1f} %")

    unexplained = [branch for branch in missed if (branch[0], *branch[3:]) not in reasons]
    lasting = {entry for entry, reason in reasons.items() if not reason.startswith("sometimes")}
    stale = lasting - {(branch[0], *branch[3:]) for branch in missed}
    print(f"\n{len(missed)} branches were not taken, {len(missed) - len(unexplained)} of them have a reason in "
          f"{options.reasons}")
    for file, line, _, function, way, condition in unexplained:
        print(f"    {file} {function} {way} {condition}    (line {line})")
    if stale:
        print(f"\nthese were taken, or are gone; {options.reasons} need not list them:")
    for entry in sorted(stale):
        print("   ", *entry)
    n, taken = per_file["all"]
    if taken < ENOUGH * n:
        print(f"\nless than {100 * ENOUGH:g} % of the branches are taken")
    return bool(unexplained or stale or taken < ENOUGH * n)


if __name__ == "__main__":
    sys.exit(main())
