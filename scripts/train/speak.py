#!/usr/bin/env python3
"""How well the default model speaks, in numbers, through the engine: nothing here is felt, and PyTorch is not needed.

    scripts/train/speak.py weights/model.gguf --corpus ../shared/corpus
    scripts/train/speak.py weights/model.gguf --only texts -o texts.txt    # the texts, to be read aloud
    scripts/train/speak.py weights/model.gguf --only texts -- --temp 0.5   # what run would do with other options

texts: 20 prompts with 10 seeds each, 60 tokens, with the default options or those behind --. Unknown words are those that
no training text has: wiki-train, books-train, our passages, the invented names of the tasks. The last word is left
out, for it may be cut. A text comes back where four words stand in the same order again within 60 words. A sentence has ended where . ! or ? stands, with
or without a quotation mark.

questions: each line of questions.tsv is a prompt and the word that comes next (the greedy text begins with it).

tasks: of the held-out pairs of tasks.py, how many right answers are likelier than the wrong ones.
"""
import argparse
import json
import lzma
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

import tasks

HERE = pathlib.Path(__file__).parent
PROMPTS = ["The Eiffel", "The capital of France", "The old man opened the door and", "In the winter of 1850",
           "The mole is a small animal", "Once upon a time there was", "The doctor looked at", "She was born in",
           "The river", "He did not know what to say, for", "My grandmother", "Why is the sky", "A bicycle",
           "The teacher asked", "One morning", "The heart", "A token is", "Two friends", "Bread is made", "The moon"]
WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")
END_OF_SENTENCE = re.compile(r"""[.!?]["')]*(?:\s|$)""")


def words_of(text):
    return WORD.findall(text.lower())


def known_words(corpus):
    """All words of the training texts."""
    known = set()
    for name in ("wiki-train", "books-train"):
        for suffix, opened in ((".txt", open), (".txt.xz", lzma.open)):
            path = pathlib.Path(corpus, name + suffix)
            if path.exists():
                with opened(path, "rt", encoding="utf-8") as file:
                    for line in file:
                        known.update(words_of(line))
    if not known:
        raise SystemExit(f"{corpus}: holds neither wiki-train nor books-train")
    for path in HERE.glob("passages/*.txt"):
        known.update(words_of(path.read_text(encoding="utf-8")))
    known.update(first + second for first in tasks.SYLLABLES for second in ("", *tasks.SYLLABLES))
    known.update(words_of(" ".join(tasks.MEN + tasks.WOMEN + tasks.WORDS)))
    return known


def ask(run, model, prompt, *options):
    command = [run, model, "-p", prompt, "--json", *map(str, options)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def comes_back(words, n=4, reach=60):
    """Whether n words stand again in their order, the second time within `reach` words of the first."""
    last = {}
    for i in range(len(words) - n + 1):
        group = tuple(words[i:i + n])
        if i - last.get(group, -reach - 1) <= reach:
            return True
        last[group] = i
    return False


def measure_texts(run, model, corpus, n_seeds, output, options):
    texts = [(prompt, ask(run, model, prompt, "-n", 60, *options, "-s", seed)["text"])
             for prompt in PROMPTS for seed in range(1, n_seeds + 1)]
    if output:
        with open(output, "w", encoding="utf-8") as file:
            for prompt, text in texts:
                print(f"[{prompt}]{text}\n", file=file)
    if corpus:
        known = known_words(corpus)
        said = [word for prompt, text in texts for word in words_of(prompt + text)[:-1]]
        unknown = [word for word in said if word not in known]
        print(f"unknown words, of 1,000           {1000 * len(unknown) / len(said):6.2f}   {' '.join(unknown[:12])}")
    again = sum(comes_back(words_of(prompt + text)) for prompt, text in texts)
    print(f"texts in which four words return  {100 * again / len(texts):6.1f} %")
    ended = sum(bool(END_OF_SENTENCE.search(text)) for _, text in texts)
    print(f"texts that end a sentence         {100 * ended / len(texts):6.1f} %")


def measure_questions(run, model, path, verbose):
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    right = 0
    for prompt, answer in lines:
        text = ask(run, model, prompt, "-n", 6, "--temp", 0)["text"]
        good = (words_of(text) or [""])[0] == words_of(answer)[0] if words_of(answer) else text.strip().startswith(answer)
        right += good
        if verbose and not good:
            print(f"    {prompt} → {text.strip()!r}, not {answer}")
    print(f"questions, first word right       {100 * right / len(lines):6.1f} %   {right} of {len(lines)}")


def tokens_of(run, model, text):
    out = subprocess.run([run, model, "-p", text, "--tokens"], check=True, stdout=subprocess.PIPE).stdout
    return [int(id) for id in out.split()]


def logprob(run, model, text, ids, first, folder):
    """log p of the text's tokens from the place `first`, after those before."""
    subprocess.run([run, model, "-p", text, "-n", "0", "--logits", f"{folder}/logits.npy"], check=True,
                   stdout=subprocess.DEVNULL)
    logits = np.load(f"{folder}/logits.npy").astype(np.float64)[first - 1:-1]
    top = logits.max(1, keepdims=True)
    logits -= top + np.log(np.exp(logits - top).sum(1, keepdims=True))
    return logits[np.arange(len(logits)), ids[first:]].sum()


def is_right(run, model, clean, answer, wrong, folder):
    """Both texts are scored from the first token in which they differ: an answer may grow together with the prompt."""
    texts = clean + answer, clean + wrong
    ids = [tokens_of(run, model, text) for text in texts]
    first = next(i for i, pair in enumerate(zip(*ids)) if pair[0] != pair[1])
    right, other = (logprob(run, model, text, own, first, folder) for text, own in zip(texts, ids))
    return right > other


def measure_tasks(run, model, n):
    with tempfile.TemporaryDirectory() as folder:
        for task in tasks.TASKS:
            pairs = [pair for pair in tasks.pairs(task, n, 7) if pair[4] == "held-out"]
            right = sum(is_right(run, model, clean, answer, wrong, folder) for clean, _, answer, wrong, _ in pairs)
            print(f"task {task:28} {100 * right / len(pairs):6.1f} %   {right} of {len(pairs)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False,
                                     epilog="behind --: options of run, for the texts")
    parser.add_argument("model")
    parser.add_argument("--run", default="./run", help="the engine (./run)")
    parser.add_argument("--corpus", help="folder of wiki-train and books-train, for the unknown words")
    parser.add_argument("--only", choices=("texts", "questions", "tasks"))
    parser.add_argument("--seeds", type=int, default=10, help="of each prompt (10)")
    parser.add_argument("-n", type=int, default=100, help="held-out pairs of each task (100)")
    parser.add_argument("-o", "--output", metavar="FILE", help="keep the texts")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the questions that went wrong")
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    args, options = parser.parse_args(words[:at]), words[at + 1:]
    if options and args.only not in (None, "texts"):
        parser.error("options behind -- are for the texts")
    if args.only in (None, "texts"):
        measure_texts(args.run, args.model, args.corpus, args.seeds, args.output, options)
    if args.only in (None, "questions"):
        measure_questions(args.run, args.model, HERE / "questions.tsv", args.verbose)
    if args.only in (None, "tasks"):
        measure_tasks(args.run, args.model, args.n)


if __name__ == "__main__":
    main()
