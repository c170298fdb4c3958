#!/usr/bin/env python3
"""Turns the text corpus into token files for train.py.

    scripts/train/corpus.py ../shared/corpus -o data                    # everything
    scripts/train/corpus.py ../shared/corpus -o data --megabytes 45     # the most readable 45 MB only

Reads wiki-train, books-train, wiki-val and books-val (.txt or .txt.xz, documents parted by <|endoftext|>)
and writes into the output folder

    tokenizer.json                    the vocabulary, unless it is there already
    train.bin                         token ids, uint16: END document END document ... END
    wiki-val.bin, books-val.bin       likewise
    corpus.json                       bytes, tokens and documents of each, and how it was made

The vocabulary is trained on every tenth document. Our own passages (passages/*.txt) are documents too: each is
mixed in --repeat times, each time at a random place between two others, and so are those of --once (tasks.py
writes some), each one time.
"""
import argparse
import itertools
import json
import multiprocessing
import os
import pathlib
import sys
import threading
import time
from collections import Counter

import numpy as np

from tokenizer import PATTERN, Tokenizer, count_pieces, documents, train

SAMPLE = 10            # the vocabulary is trained on one document in so many
BATCH = 1 << 20        # characters that a worker takes at a time
TRAIN, HELD_OUT = ("wiki-train", "books-train"), ("wiki-val", "books-val")


def find(folder, name):
    for suffix in (".txt", ".txt.xz"):
        path = pathlib.Path(folder, name + suffix)
        if path.exists():
            return path
    raise SystemExit(f"{folder}: holds neither {name}.txt nor {name}.txt.xz")


class Progress:
    """A line on a terminal that says how far it is."""

    def __init__(self, what):
        self.what, self.start, self.done = what, time.monotonic(), 0

    def add(self, n_bytes):
        self.done += n_bytes
        if sys.stderr.isatty():
            print(f"\r{self}", end="", file=sys.stderr)

    def __str__(self):
        seconds = time.monotonic() - self.start
        return f"{self.what:12} {self.done / 1e6:8.1f} MB {self.done / 1e6 / max(seconds, 0.1):6.1f} MB/s"

    def close(self):
        print(f"\r{self}" if sys.stderr.isatty() else self, file=sys.stderr)


def batches(texts):
    """Lists of documents, about BATCH characters each."""
    batch, n = [], 0
    for text in texts:
        batch.append(text)
        n += len(text)
        if n >= BATCH:
            yield batch
            batch, n = [], 0
    if batch:
        yield batch


worker_tokenizer = None  # of this worker process


def start_worker(json_text):
    global worker_tokenizer
    worker_tokenizer = Tokenizer.from_json(json_text)


def encode_batch(texts):
    """(ids of all, [(bytes, tokens, pieces) of each])."""
    parts, sizes = [], []
    for text in texts:
        pieces = PATTERN.findall(text)
        ids = np.fromiter(itertools.chain.from_iterable(worker_tokenizer.encode_pieces(pieces)), np.uint16)
        parts.append(ids)
        sizes.append((len(text.encode()), len(ids), len(pieces)))
    return np.concatenate(parts), sizes


class Encoded:
    """Documents as tokens, in a file beside the results while we work."""

    def __init__(self, pool, jobs, texts, path):
        sizes, progress = [], Progress(path.stem)
        slots = threading.Semaphore(4 * jobs)  # imap alone would read the whole corpus ahead

        def gated():
            for batch in batches(texts):
                slots.acquire()
                yield batch

        with open(path, "wb") as file:
            for ids, batch_sizes in pool.imap(encode_batch, gated()):
                slots.release()
                ids.tofile(file)
                sizes += batch_sizes
                progress.add(sum(size[0] for size in batch_sizes))
        progress.close()
        if not sizes:
            raise SystemExit(f"{path.stem}: no documents")
        self.path = path
        self.n_bytes, self.n_tokens, self.n_pieces = np.array(sizes, np.int64).T
        self.starts = np.concatenate([[0], np.cumsum(self.n_tokens)])
        self.ids = np.memmap(path, np.uint16, "r")

    def __len__(self):
        return len(self.n_bytes)

    def document(self, i):
        return self.ids[self.starts[i]:self.starts[i + 1]]

    def readable(self, n_bytes):
        """The most readable documents, in their order, of about n_bytes together. Readable is what is written
        in common words: of few tokens for its number of pieces."""
        order = np.argsort(self.n_tokens / np.maximum(self.n_pieces, 1), kind="stable")
        return np.sort(order[:np.searchsorted(np.cumsum(self.n_bytes[order]), n_bytes) + 1])


def mix(parts, between, seed):
    """(source, document) of all documents in their order; those of the pairs (source, times) come in between."""
    order = [(source, i) for source, chosen in parts for i in chosen]
    random = np.random.RandomState(seed)
    insertions = {}
    for source, times in between:
        for n, place in enumerate(random.randint(len(order) + 1, size=times * len(source))):
            insertions.setdefault(place, []).append((source, n % len(source)))
    for place, document in enumerate(itertools.chain(order, [None])):
        yield from insertions.get(place, [])
        if document:
            yield document


def write(path, order, end):
    """A token file; its bytes of text, tokens and documents."""
    totals = np.zeros(3, np.int64)
    with open(str(path) + ".tmp", "wb") as file:
        np.array([end], np.uint16).tofile(file)
        for source, i in order:
            np.append(source.document(i), np.uint16(end)).tofile(file)
            totals += source.n_bytes[i], source.n_tokens[i] + 1, 1
    os.replace(str(path) + ".tmp", path)
    return {"bytes": int(totals[0]), "tokens": int(totals[1]) + 1, "documents": int(totals[2])}


def load_or_train_tokenizer(path, args):
    """Our own passages are a part of the sample, as often as of the training text."""
    if path.exists():
        return Tokenizer.load(path)
    progress, counts = Progress("vocabulary"), Counter()
    for name in TRAIN:
        for text in itertools.islice(documents(find(args.corpus, name)), 0, None, SAMPLE):
            count_pieces([text], counts)
            progress.add(len(text.encode()))
    for piece, n in count_pieces(documents(args.extra)).items():
        counts[piece] += max(1, args.repeat * n // SAMPLE)
    tokenizer = train(counts, args.vocab)
    progress.close()
    path.write_text(tokenizer.to_json(), encoding="utf-8")
    return tokenizer


def prepare(args):
    out = pathlib.Path(args.output)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = load_or_train_tokenizer(out / "tokenizer.json", args)
    with multiprocessing.Pool(args.jobs, start_worker, [tokenizer.to_json()]) as pool:
        def encode(path, name):
            return Encoded(pool, args.jobs, documents(path), out / f"{name}.tmp")

        extra = encode(args.extra, "extra")
        between = [(extra, args.repeat)] + ([(encode(args.once, "once"), 1)] if args.once else [])
        parts = [encode(find(args.corpus, name), name) for name in TRAIN]
        held_out = [encode(find(args.corpus, name), name) for name in HELD_OUT]
    share = args.megabytes * 1e6 / len(parts) if args.megabytes else np.inf
    chosen = [(part, np.tile(part.readable(share), times)) for part, times in zip(parts, (args.wiki_repeat, args.books_repeat))]
    summary = {"train": write(out / "train.bin", mix(chosen, between, args.seed), tokenizer.end)}
    for name, part in zip(HELD_OUT, held_out):
        summary[name] = write(out / f"{name}.bin", ((part, i) for i in range(len(part))), tokenizer.end)
    for part in [*(source for source, _ in between), *parts, *held_out]:
        part.path.unlink()
    summary["train"].update(extra_repeat=args.repeat, extra_bytes=int(args.repeat * extra.n_bytes.sum()),
                            once_bytes=sum(int(source.n_bytes.sum()) for source, _ in between[1:]),
                            wiki_repeat=args.wiki_repeat, books_repeat=args.books_repeat, megabytes=args.megabytes,
                            seed=args.seed)
    (out / "corpus.json").write_text(json.dumps({"n_vocab": tokenizer.n_vocab, **summary}, indent=1) + "\n")
    for name in ("train", *HELD_OUT):
        print("{:12} {bytes:12,} bytes {tokens:12,} tokens {documents:8,} documents".format(name, **summary[name]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", help="folder of the texts")
    parser.add_argument("-o", "--output", default="data", help="folder for the token files (data)")
    parser.add_argument("--extra", default=pathlib.Path(__file__).with_name("passages"),
                        help="our own passages, a file or a folder of .txt (passages beside this script)")
    parser.add_argument("--once", metavar="FILE", help="documents that are mixed in one time each")
    parser.add_argument("--repeat", type=int, default=40, help="how often they are mixed in (40)")
    parser.add_argument("--wiki-repeat", type=int, default=1, help="how often the articles are taken (1)")
    parser.add_argument("--books-repeat", type=int, default=1, help="how often the books are taken (1)")
    parser.add_argument("--vocab", type=int, default=8192, help="tokens of the vocabulary (8192)")
    parser.add_argument("--megabytes", type=float, help="only the most readable text, half of it from each source")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (one for each core)")
    parser.add_argument("--seed", type=int, default=1)
    prepare(parser.parse_args())


if __name__ == "__main__":
    main()
