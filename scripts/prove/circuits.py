"""Which edges carry induction and indirect objects in a trained model, by path patching. The heads are found, not given.

Effects are those of single edges and activations, means over pairs: 1 would be all of the way from the corrupted text's answer
to the clean one's. They need not add up to 1, for a change behind one may make another worthless.
"""
import json
import os
import re
import subprocess
import sys

import numpy as np

import gguf
from study import MOST_PATHS, ROOT, study, unless_unknown

INDUCTION_PAIRS, IOI_PAIRS = 12, 40  # of the latter about half have as many tokens in both texts
LIKELY = 0.15  # of attention, to call a head by it: some ten times what chance gives


def words_of(model):
    """Tokens that are common words by themselves, with their space."""
    tokens = gguf.read(model)[0]["tokenizer.ggml.tokens"]
    return [" " + token[1:] for token in tokens[:5000] if re.fullmatch("[Ġ▁][a-z]{4,9}", token)]


def induction_pairs(model, n, seed=1):
    """Random words twice, the second time in part. Corrupted, the word that is last did not stand where it stood: another
    did. So what tells the texts apart is what came before the answer, and not the answer."""
    random, words, pairs = np.random.RandomState(seed), words_of(model), []
    for _ in range(n):
        chosen, length = random.choice(words, 14, replace=False), random.randint(6, 11)
        text = [*chosen[:12], *chosen[:length]]
        other = list(text)
        other[length - 1] = chosen[12]
        pairs.append({"clean": "".join(text), "corrupted": "".join(other), "answer": chosen[length],
                      "wrong": chosen[(length + 3) % 12]})
    return pairs


def task_pairs(task, folder, n):
    """Pairs of scripts/train/tasks.py."""
    subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "train", "tasks.py"), "pairs", "-n", str(n), "-o",
                    folder], check=True, capture_output=True)
    with open(os.path.join(folder, task + ".tsv")) as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    return [dict(zip(("clean", "corrupted", "answer", "wrong"), row)) for row in rows]


class Circuit:
    """Effects in one model over one file of pairs."""

    def __init__(self, model, pairs, folder):
        self.model, self.file = model, os.path.join(folder, "pairs.jsonl")
        with open(self.file, "w") as file:
            file.writelines(json.dumps(pair) + "\n" for pair in pairs)

    def patched(self, *arguments):
        return study("patch", self.model, "--pairs", self.file, *arguments)

    def cells(self, what):
        """{head: (effect, its standard error)}, and the whole answer."""
        answer = self.patched("--what", what)
        return {f"L{c['layer']}H{c['head']}": (c["effect"], c["effect_error"]) for c in answer["cells"]}, answer

    def edges(self, edges):
        effects = {}
        for first in range(0, len(edges), MOST_PATHS):
            for path in self.patched("--path", ",".join(edges[first:first + MOST_PATHS]))["paths"]:
                effects[path["path"]] = (path["effect"], path["effect_error"])
        return effects

    def faithfulness(self, names):
        """Of the edges among some heads, and MLPs."""
        return study("faithful", self.model, "--pairs", self.file, "--keep", names)["circuits"][0]["faithfulness"]


def senders_below(layer, n_head):
    return [f"L{l}{part}" for l in range(layer) for part in [*(f"H{h}" for h in range(n_head)), "MLP"]]


def strongest(effects, n):
    return sorted(effects, key=lambda name: -abs(effects[name][0]))[:n]


def show(effects, names):
    return ", ".join(f"{name} {effects[name][0]:+.2f} ± {effects[name][1] or 0:.2f}" for name in names)


def layer_of(name):
    return int(name[1:].split("H")[0].split("M")[0])


def edges_into(circuit, whole, reader, n_head):
    """On a head: what it reads (its query, key or value) that carries most, and which edges bring it; their names, a line."""
    letter = max("qkv", key=lambda letter: abs(whole[letter][0][reader][0]))
    effects = circuit.edges([f"{sender}:{reader}.{letter}" for sender in senders_below(layer_of(reader), n_head)])
    total, best = whole[letter][0][reader][0] or float("nan"), strongest(effects, 3)
    share = sum(effects[edge][0] for edge in best) / total
    every = sum(effect for effect, _ in effects.values()) / total
    return best, (f"{reader}.{letter}: whole {total:+.2f}; by edges " + show(effects, best) + f", together {share:.0%} of it; all, "
            f"one by one, {every:.0%}")


def edges_out(circuit, n_layer, n_head, n):
    """(names of those that write most of the answer, a line on them)"""
    effects = circuit.edges([f"{sender}:final" for sender in senders_below(n_layer, n_head)])
    best = strongest(effects, n)
    return [edge.split(":")[0] for edge in best], (
        "to the final norm: " + show(effects, best) + f", together {sum(effects[edge][0] for edge in best):.0%}; all, one by "
        f"one, {sum(effect for effect, _ in effects.values()):.0%}")


def circuit_lines(circuit, asked, n_readers):
    """Parts that carry the answer: outputs of heads, the ones that write it, and what the heads among these read, and those that bring
    most of that, in turn."""
    whole = {what: circuit.cells(what) for what in "zqkv"}
    answer, outputs = whole["z"][1], whole["z"][0]
    n_layer, n_head = 1 + max(map(layer_of, outputs)), 1 + max(int(name.split("H")[1]) for name in outputs)
    left_out = f", {answer['n_left_out']} of two lengths left out" if answer["n_left_out"] else ""
    writers, line = edges_out(circuit, n_layer, n_head, 4)
    lines = [f"{answer['n_pairs']} pairs{left_out}: {asked} {answer['clean_nats']:+.1f} clean, "
             f"{answer['corrupted_nats']:+.1f} corrupted",
             "outputs of heads: " + show(outputs, strongest(outputs, 4)), line]
    readers = [name for name in [*writers, *strongest(outputs, 6)] if "H" in name and layer_of(name) > 0]
    heads = {name for name in writers if "H" in name}
    for reader in list(dict.fromkeys(readers))[:n_readers]:
        edges, line = edges_into(circuit, whole, reader, n_head)
        heads |= {reader, *(edge.split(":")[0] for edge in edges if "H" in edge.split(":")[0])}
        lines.append(line)
    names = ",".join(sorted(heads))
    alone = unless_unknown(circuit.faithfulness, names)
    if alone is not None:
        lines.append(f"edges among {names.replace(',', ', ')} and MLPs, all others as in the corrupted run: {alone:.0%} of "
                     "the way")
    return lines


def induction(model, folder):
    """Lines that say what was found."""
    score = {head["name"]: head for head in study("heads", model)["heads"]}

    def by(kind):
        names = sorted(score, key=lambda name: -score[name][kind])
        return ", ".join(f"{name} {score[name][kind]:.2f}" for name in names[:4] if score[name][kind] >= LIKELY) or "none"

    circuit = Circuit(model, induction_pairs(model, INDUCTION_PAIRS), folder)
    return [f"by attention: induction {by('ind')}; previous token {by('prev')}",
            *circuit_lines(circuit, "logit of the next word less that of another", 2)]


def indirect_object(model, folder):
    circuit = Circuit(model, task_pairs("ioi", folder, IOI_PAIRS)[:IOI_PAIRS], folder)
    return circuit_lines(circuit, "logit of the other name less that of the repeated one", 3)


CIRCUITS = [("Induction", induction), ("Indirect objects", indirect_object)]
