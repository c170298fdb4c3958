#!/usr/bin/env python3
"""Byte-level BPE (Sennrich et al. 2016; Radford et al. 2019): trains a vocabulary, encodes and decodes.

    scripts/train/tokenizer.py train TEXT... -o tokenizer.json    # .txt or .txt.xz, documents parted by <|endoftext|>
    echo Hello | scripts/train/tokenizer.py encode tokenizer.json
    scripts/train/tokenizer.py extract weights/model.gguf -o data/tokenizer.json    # of a byte-level model

Text is split by GPT-2's pattern, and pairs merge within a piece only. Training uses Hugging Face's
`tokenizers` where that is installed, else the trainer below, which follows the same rules: of all pairs the
most frequent goes first, of equally frequent ones the pair with the smaller ids (left, then right), where
ids are those of GPT-2: the 256 bytes, then the merges in their order. <|endoftext|> is the last id. (The rules
are those of tokenizers/src/models/bpe/trainer.rs; `train --own` shows whether the files agree.)
"""
import argparse
import collections
import heapq
import itertools
import json
import lzma
import pathlib
import sys

import regex

import gguf

END = "<|endoftext|>"
PATTERN = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
MIN_COUNT = 2          # a pair seen once makes no token
CACHED_PIECES = 400_000  # pieces whose tokens an encoder remembers: some 100 MB


def byte_names():
    """GPT-2's names of the 256 bytes in the order of its ids, and the byte that each one is: the printable ones
    of Latin-1 are themselves and come first, the others are U+0100 and on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{chr(byte): byte for byte in printable}, **{chr(0x100 + i): byte for i, byte in enumerate(others)}}


BYTES = byte_names()
NAMES = {byte: name for name, byte in BYTES.items()}


def spell(piece):
    """Text in GPT-2's spelling, a character for each byte: " cat" → "Ġcat"."""
    return "".join(NAMES[byte] for byte in piece.encode())


def documents(path):
    """The documents of a text file, plain or .xz, or of a folder's .txt, one by one; memory holds one at a time."""
    if pathlib.Path(path).is_dir():
        for file in sorted(pathlib.Path(path).glob("*.txt")):
            yield from documents(file)
        return
    with (lzma.open if str(path).endswith(".xz") else open)(path, "rt", encoding="utf-8", newline="\n") as file:
        lines = []
        for line in itertools.chain(file, [END]):
            if line.rstrip("\n") != END:
                lines.append(line)
            elif text := "".join(lines).strip("\n"):
                yield text
                lines = []


class Tokenizer:
    def __init__(self, tokens, merges):
        """tokens: spellings by id, END last. merges: pairs of spellings, the first to merge first."""
        self.tokens, self.merges = tokens, merges
        self.n_vocab, self.end = len(tokens), len(tokens) - 1
        self.ids = {token: id for id, token in enumerate(tokens)}
        self.ranks = {(self.ids[a], self.ids[b]): rank for rank, (a, b) in enumerate(merges)}
        self.bytes = [bytes(BYTES[name] for name in token) for token in tokens[:-1]] + [b""]
        self.cache = {}

    @classmethod
    def load(cls, path):
        with open(path, encoding="utf-8") as file:
            return cls.from_json(file.read())

    @classmethod
    def from_json(cls, text):
        content = json.loads(text)
        return cls(content["tokens"], [tuple(merge.split(" ")) for merge in content["merges"]])

    @classmethod
    def of_model(cls, path):
        metadata, _ = gguf.read(path)
        return cls(metadata["tokenizer.ggml.tokens"],
                   [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]])

    def to_json(self):
        return json.dumps({"split": "gpt-2", "tokens": self.tokens, "merges": [" ".join(m) for m in self.merges]},
                          ensure_ascii=False, indent=0) + "\n"

    def encode(self, text):
        """Ids of a text; END in it is text like any other."""
        return list(itertools.chain.from_iterable(self.encode_pieces(PATTERN.findall(text))))

    def encode_pieces(self, pieces):
        if len(self.cache) > CACHED_PIECES:
            self.cache.clear()
        for piece in pieces:
            ids = self.cache.get(piece)
            if ids is None:
                ids = self.cache[piece] = self.merge([self.ids[name] for name in spell(piece)])
            yield ids

    def merge(self, ids):
        """The plain loop: of all neighbours the pair that was learnt first merges, until none can."""
        while len(ids) > 1:
            pair = min(zip(ids, ids[1:]), key=lambda pair: self.ranks.get(pair, len(self.ranks)))
            if pair not in self.ranks:
                break
            ids = replace(ids, pair, self.ids[self.tokens[pair[0]] + self.tokens[pair[1]]])
        return ids

    def decode(self, ids):
        """Bytes; END is empty."""
        return b"".join(self.bytes[id] for id in ids)


def replace(ids, pair, new):
    """ids with every occurrence of the pair, from the left, as one."""
    out, i = [], 0
    while i < len(ids):
        both = ids[i] == pair[0] and i + 1 < len(ids) and ids[i + 1] == pair[1]
        out.append(new if both else ids[i])
        i += 2 if both else 1
    return out


def count_pieces(texts, counts=None):
    """How often each piece occurs: all that training needs to know of a text."""
    counts = collections.Counter() if counts is None else counts
    for text in texts:
        counts.update(PATTERN.findall(text))
    return counts


def train(counts, n_vocab, own=False):
    """A Tokenizer of n_vocab tokens from {piece: how often}. own: not by `tokenizers`, though it is installed."""
    if n_vocab < 257:
        raise ValueError(f"a vocabulary of {n_vocab} tokens cannot hold the 256 bytes and {END}")
    try:
        if own:
            raise ImportError
        import tokenizers
        return train_by_library(tokenizers, counts, n_vocab)
    except ImportError:
        return train_here(counts, n_vocab)


def train_by_library(tokenizers, counts, n_vocab):
    """Every piece goes in as a text of its own that is not split further, so that the splitting is ours."""
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=n_vocab, min_frequency=MIN_COUNT, special_tokens=[END],
                                             initial_alphabet=alphabet, show_progress=False)
    repeated = itertools.chain.from_iterable(itertools.repeat(piece, n) for piece, n in counts.items())
    batches = iter(lambda: list(itertools.islice(repeated, 10_000)), [])
    model.train_from_iterator(batches, trainer)
    content = json.loads(model.to_str())["model"]
    tokens = sorted(content["vocab"], key=content["vocab"].get)  # END has id 0 there
    merges = [tuple(m.split(" ") if isinstance(m, str) else m) for m in content["merges"]]
    return Tokenizer(tokens[1:] + [END], merges)


def train_here(counts, n_vocab):
    """Keeps, for each pair, its count and the words that may hold it; a merge touches those words only. The
    queue's counts may be out of date: a pair goes back with the present count when it comes up."""
    tokens, merges = list(BYTES), {}
    ids = {token: id for id, token in enumerate(tokens)}
    words = [[ids[name] for name in spell(piece)] for piece in counts]
    times = list(counts.values())
    pair_counts, where = collections.Counter(), collections.defaultdict(set)
    for w, word in enumerate(words):
        for pair in zip(word, word[1:]):
            pair_counts[pair] += times[w]
            where[pair].add(w)
    queue = [(-pair_counts[pair], pair, found) for pair, found in where.items()]
    heapq.heapify(queue)
    while queue and len(tokens) < n_vocab - 1:
        count, pair, found = heapq.heappop(queue)
        if -count != pair_counts[pair]:
            if pair_counts[pair] > 0:
                heapq.heappush(queue, (-pair_counts[pair], pair, found))
            continue
        if -count < MIN_COUNT:
            break
        text = tokens[pair[0]] + tokens[pair[1]]
        new = ids.setdefault(text, len(tokens))  # two pairs may make the same text
        if new == len(tokens):
            tokens.append(text)
        merges.pop(pair, None)
        merges[pair] = new
        grown = collections.defaultdict(set)
        for w in found:
            for changed, change in merge_word(words, w, pair, new):
                pair_counts[changed] += change * times[w]
                if change > 0:
                    grown[changed].add(w)
        for changed, found in grown.items():
            if pair_counts[changed] > 0:
                heapq.heappush(queue, (-pair_counts[changed], changed, found))
    return Tokenizer(tokens + [END], [(tokens[a], tokens[b]) for a, b in merges])


def merge_word(words, w, pair, new):
    """Merges within words[w]; the changes of pair counts, as (pair, ±1)."""
    word, out, changes, i = words[w], [], [], 0
    while i < len(word):
        if word[i] != pair[0] or i + 1 == len(word) or word[i + 1] != pair[1]:
            out.append(word[i])
            i += 1
            continue
        if out:
            changes += [((out[-1], pair[0]), -1), ((out[-1], new), 1)]
        if i + 2 < len(word):
            changes += [((pair[1], word[i + 2]), -1), ((new, word[i + 2]), 1)]
        out.append(new)
        i += 2
    words[w] = out
    return changes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("train", help="make a vocabulary from texts")
    command.add_argument("texts", nargs="+", metavar="TEXT")
    command.add_argument("-o", "--output", required=True)
    command.add_argument("--vocab", type=int, default=8192, help="tokens (8192)")
    command.add_argument("--own", action="store_true", help="do not use Hugging Face's trainer")
    command = commands.add_parser("encode", help="print the ids of the text on stdin")
    command.add_argument("tokenizer")
    command = commands.add_parser("extract", help="write down the vocabulary of a GGUF")
    command.add_argument("model")
    command.add_argument("-o", "--output", required=True)
    args = parser.parse_args()
    if args.command == "encode":
        print(*Tokenizer.load(args.tokenizer).encode(sys.stdin.read()))
        return
    if args.command == "extract":
        tokenizer = Tokenizer.of_model(args.model)
    else:
        counts = count_pieces(itertools.chain.from_iterable(map(documents, args.texts)))
        tokenizer = train(counts, args.vocab, args.own)
    with open(args.output, "w", encoding="utf-8") as file:
        file.write(tokenizer.to_json())


if __name__ == "__main__":
    main()
