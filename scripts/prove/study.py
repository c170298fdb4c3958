"""Calls of `study` and `run`, and what their answers are compared with."""
import json
import os
import subprocess
import tempfile

import numpy as np

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
RUN, STUDY = (os.environ.get(name.upper(), os.path.join(ROOT, name)) for name in ("run", "study"))
MOST_PATHS = 256  # that --path takes


class Failed(Exception):
    """A program's error, in its words."""


def call(*arguments):
    """Returns what a program writes."""
    done = subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, arguments))[:300]}: {done.stderr.strip()}")
    return done.stdout


def study(view, model, *arguments):
    return json.loads(call(STUDY, view, model, *arguments, "--json", "-t", 1))


def dump(model, what, *arguments):
    """Arrays by their names, of a text."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "dump.npz")
        call(STUDY, "dump", model, "--what", what, "-o", path, "-t", 1, *arguments)
        with np.load(path) as arrays:
            return dict(arrays)


def pair_options(pair):
    clean, corrupted, answer, wrong = pair
    return ["-p", clean, "--corrupted", corrupted, "--answer", answer,
            *(["--wrong", wrong] if wrong else ["--metric", "logit"])]


def patch(model, edges, pair, noising=False):
    """How far edges move the metric, [n]: those of a pair's clean run in the corrupted one, or the other way round. 1: from
    one run's to the other's."""
    effects = []
    for first in range(0, len(edges), MOST_PATHS):
        paths = ",".join(edges[first:first + MOST_PATHS])
        answer = study("patch", model, *pair_options(pair), "--path", paths, *(["--noising"] if noising else []))
        effects += [path["effect"] for path in answer["paths"]]
    return 1 - np.array(effects) if noising else np.array(effects)


def attribute(model, edges, pair, by, noising=False):
    """Likewise, estimated by gradients: `gradient`, or `ig`, integrated ones."""
    answer = study("attribute", model, *pair_options(pair), "--edges", "--by", by, *(["--noising"] if noising else []))
    shares = {f"{edge['sender']}:{edge['reader']}": edge["share"] for edge in answer["edges"]}
    return np.array([shares[edge] for edge in edges])


def faithfulness(model, edges, pair):
    """How much of the answer these edges alone carry, while all others carry what they do in the corrupted run."""
    return study("faithful", model, *pair_options(pair), "--keep", ",".join(edges))["circuits"][0]["faithfulness"]


def unless_unknown(function, *arguments):
    """Returns what it gives; None where this study has not got the view or the option yet."""
    try:
        return function(*arguments)
    except Failed as failed:
        if "there is no command" in str(failed) or "unknown option" in str(failed):
            return None
        raise


def auroc(scores, truth):
    """The probability that an edge of the truth has a higher score than one that is not (equal ones count half): 1 where
    all have, 0.5 by chance."""
    scores, truth = np.asarray(scores, float), np.asarray(truth, bool)
    above = scores[truth][:, None] - scores[~truth]
    return float(((above > 0) + 0.5 * (above == 0)).mean())
