#!/usr/bin/python3
"""Has the engine and its views prove themselves on models whose inside is known: `make prove`.

    scripts/prove/prove.py                                 all of it
    scripts/prove/prove.py programs --save FOLDER          the compiled models stay, and their circuits as JSON
    scripts/prove/prove.py circuits --model FILE.gguf      of another model

programs   Compiled to weights (compiler.py): the answers on random texts must all be right; then the effect of every edge
           between parts that write something (`study patch --path`), over pairs of texts, must tell the known edges from
           the others.
trained    Models whose answers others have published, if they are there (trained.py).
circuits   What carries induction and indirect objects in the default model (circuits.py): shown, for nobody knows it.
"""
import argparse
import json
import os
import sys
import tempfile
import textwrap

import numpy as np

import gguf
from circuits import CIRCUITS
from compiler import BOS, edges_of_weights
from programs import CASES, SMALL
from study import ROOT, RUN, Failed, attribute, auroc, call, dump, faithfulness, patch, unless_unknown
from trained import FOLDER, MODELS

N_TEXTS, N_PAIRS = 100, 24
TOLERANCE = 1e-4  # of logits
ROUNDING = 1e-7   # of a gradient that is 0


def expected_logits(case, answer, letters):
    wanted = {answer: 1.0} if isinstance(answer, str) else answer
    return np.array([case.loud * wanted.get(letter, 0.0) for letter in letters])


def is_right(case, answer, logits, letters):
    return np.abs(logits - expected_logits(case, answer, letters)).max() <= TOLERANCE * case.loud


def check_answers(case, path, random):
    """(texts, answers, wrong ones as lines)"""
    letters, n_answers, wrong = [BOS, *case.program.alphabet], 0, []
    for _ in range(N_TEXTS):
        text = case.draw(random)
        logits = dump(path, "logits", "-p", text)["logits"][1:]
        for i, answer in enumerate(case.spec(text)):
            if answer is None:
                continue
            n_answers += 1
            if not is_right(case, answer, logits[i], letters):
                got = {letter: round(float(x), 4) for letter, x in zip(letters, logits[i]) if abs(x) > 1e-3}
                wrong.append(f"{text}: behind {text[:i + 1]!r} {got}, and not {answer}")
    return n_answers, wrong


def check_writing(case, path, random, n=20):
    """Returns what ./run writes behind the bar."""
    wrong = []
    for _ in range(n):
        text = case.draw(random).split("|")[0] + "|"
        expected = text
        while not expected.endswith("."):
            expected += case.spec(expected)[-1]
        got = call(RUN, path, "-p", text).strip()
        if got != expected.rstrip("."):
            wrong.append(f"{text}: {got}, and not {expected}")
    return n, wrong


def likeliest(answer):
    """The letter that the last position must answer; None where there is no single one."""
    if isinstance(answer, str) or not answer:
        return answer or None
    best = max(answer.values())
    letters = [letter for letter, value in answer.items() if value == best]
    return letters[0] if len(letters) == 1 else None


def draw_pairs(case, random, n=N_PAIRS):
    """(clean, corrupted, answer, wrong) of as many tokens, with different answers."""
    by_length, pairs = {}, []
    while len(pairs) < n:
        text = case.draw(random)
        answer, number = case.spec(text)[-1], None
        if case.loud == 1:  # a number is told
            number, answer = list(answer.values())[0], list(answer)[0]
        else:
            answer = likeliest(answer)
        others = by_length.setdefault(len(text), [])
        for other, letter, other_number in others if answer else ():
            if number != other_number:
                pairs.append((text, other, answer, None))
            elif letter and letter != answer:
                pairs.append((text, other, answer, letter))
            else:
                continue
            others.remove((other, letter, other_number))
            break
        else:
            if answer:
                others.append((text, answer, number))
    return pairs


def largest(function, path, edges, pairs, *arguments):
    """Of each edge the largest |effect| over pairs, either run's activation put into the other."""
    return np.abs([function(path, edges, pair, *arguments, noising) for pair in pairs for noising in (False, True)]).max(0)


def score_by_gradients(path, edges, truth, pairs, by):
    """The AUROC, as text; "-" where study has no gradients."""
    effects = unless_unknown(largest, attribute, path, edges, pairs, by)
    return "-" if effects is None else f"{auroc(np.where(effects < ROUNDING, 0, effects), truth):.3f}"


def least_faithful(path, edges, pairs):
    """How much of the answer these edges carry alone, of the pair in which it is least."""
    return min(faithfulness(path, edges, pair) for pair in pairs)


def known_circuit(compiled, case):
    """A program's circuit, for a file beside it."""
    return {"program": compiled.name, "tokens": [BOS, *case.program.alphabet], "n_layer": compiled.n_layer,
            "n_head": compiled.n_head, "parts": compiled.parts, "edges": compiled.edges,
            "inputs": compiled.inputs, "candidates": compiled.candidates}


def write_tests(folder):
    """Files that tests/test_known.c reads: small models in F16, which has all their numbers, what they answer, and their edges."""
    os.makedirs(folder, exist_ok=True)
    for make in SMALL:
        case, random = make(), np.random.RandomState(1)
        compiled = case.program.compile()
        path = os.path.join(folder, compiled.name.replace(" ", "-"))
        gguf.write(path + ".gguf", compiled.metadata, {
            name: gguf.Tensor.pack(array, "F16" if array.ndim == 2 and name != "position_embd.weight" else "F32")
            for name, array in compiled.tensors.items()})
        texts = dict.fromkeys(case.draw(random) for _ in range(200))  # each once, in order
        answers = [(text, likeliest(case.spec(text)[-1])) for text in texts]
        test = {**known_circuit(compiled, case), "answers": [pair for pair in answers if pair[1]][:8],
                "pairs": draw_pairs(case, random, 6)}
        with open(path + ".json", "w") as file:
            file.write("{" + ",\n ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in test.items()) + "}\n")


def prove(case, folder):
    """A line of the table, and what is wrong."""
    compiled = case.program.compile()
    path = os.path.join(folder, compiled.name.replace(" ", "-") + ".gguf")
    gguf.write(path, compiled.metadata, compiled.tensors)
    with open(path[:-4] + "json", "w") as file:
        json.dump(known_circuit(compiled, case), file, indent=1)
        file.write("\n")
    random = np.random.RandomState(1)
    n, wrong = check_answers(case, path, random)
    if case.generates:
        more, wrong_writing = check_writing(case, path, random)
        n, wrong = n + more, wrong + wrong_writing
    n_wrong = len(wrong)
    if not set(compiled.edges) <= edges_of_weights(compiled):
        wrong.append("an edge that is in no weights")
    pairs, edges = draw_pairs(case, random), compiled.candidates
    effects = largest(patch, path, edges, pairs)
    truth = np.isin(edges, compiled.edges)
    score = auroc(effects, truth)
    if score < 1:
        wrong.append("effects: " + ", ".join(
            f"{edge} {effect:.2g}{'' if true else ' (none)'}"
            for edge, effect, true in zip(edges, effects, truth) if true or effect > 1e-4))
    alone = unless_unknown(least_faithful, path, compiled.inputs + compiled.edges, pairs)
    if alone is not None and alone < 1 - TOLERANCE:
        wrong.append(f"alone, the circuit carries {alone:.4f} of the answer")
    return (compiled.name, compiled.n_layer, sum("H" in place for place in compiled.parts), f"{n - n_wrong} of {n}",
            f"{len(compiled.edges)} of {len(compiled.candidates)}", f"{score:.3f}", f"{effects[truth].min():.2f}",
            f"{effects[~truth].max():.0e}", "-" if alone is None else f"{alone:.4f}",
            *(score_by_gradients(path, edges, truth, pairs, by) for by in ("ig", "gradient"))), wrong


COLUMNS = [("program", -18), ("layers", 6), ("heads", 5), ("answers right", 13), ("edges", 8), ("patches", 7),
           ("weakest", 7), ("others", 6), ("alone", 6), ("ig", 5), ("gradient", 8)]


def print_row(cells):
    print("  ".join(f"{cell:{'<' if width < 0 else '>'}{abs(width)}}" for cell, (_, width) in zip(cells, COLUMNS)),
          flush=True)


def prove_programs(folder):
    print("""Programs compiled to weights
answers right: over random texts, each logit; edges: the known ones, of all between parts that write something
patches  AUROC of |effect|: 1 where every known edge has more than every other; weakest: the least effect of a known edge,
         others: the largest of one that is none; ig, gradient: AUROC of what integrated and plain gradients say instead
alone    how much of the answer the known edges carry, when all others have what they have in the corrupted run
""")
    print_row([name for name, _ in COLUMNS])
    ok = True
    for make in CASES:
        row, wrong = prove(make(), folder)
        print_row(row)
        for line in wrong:
            print("    " + line)
        ok = ok and not wrong
    return ok


def prove_trained(folder):
    print("Trained models with known answers")
    ok, width = True, 50
    for name, check in MODELS:
        rows = check(folder)
        print(f"\n{name}" + ("" if rows else f": skipped: not in {FOLDER}, or no PyTorch to read it (trained.py)"))
        for what, got, known, right in rows or ():
            print(f"  {what:{width}} {got:>22}" + (f"   known {known}" if known else "") +
                  ("" if right else "   WRONG"), flush=True)
            ok = ok and right
    return ok


def show_circuits(folder, model):
    print(f"Circuits in {os.path.relpath(model)}: effects of one change each, ± their standard error; 1 is all of the way")
    for name, find in CIRCUITS:
        print(f"\n{name}", flush=True)
        for line in find(model, folder):
            print("\n".join(textwrap.wrap(line, 124, initial_indent="  ", subsequent_indent="    ")), flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("parts", nargs="*", choices=[[], "programs", "trained", "circuits"],
                        help="which of them (all)")
    parser.add_argument("--save", metavar="FOLDER", help="where the compiled models stay, and their circuits as JSON")
    parser.add_argument("--tests", metavar="FOLDER", help="writes what tests/test_known.c reads, and ends")
    parser.add_argument("--model", default=os.path.join(ROOT, "weights", "model.gguf"),
                        help="whose circuits are shown (the default model)")
    args = parser.parse_args()
    if args.tests:
        write_tests(args.tests)
        return 0
    parts, ok = args.parts or ["programs", "trained", "circuits"], True
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.save or scratch
        os.makedirs(folder, exist_ok=True)
        steps = {"programs": lambda: prove_programs(folder), "trained": lambda: prove_trained(scratch),
                 "circuits": lambda: show_circuits(scratch, args.model)}
        for i, part in enumerate(parts):
            if i:
                print()
            try:
                ok = steps[part]() and ok
            except Failed as failed:
                print(f"prove.py: {failed}", file=sys.stderr)
                ok = False
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
