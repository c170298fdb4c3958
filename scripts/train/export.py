#!/usr/bin/env python3
"""Writes a checkpoint of train.py as GGUF, and checks that the engine computes with it what PyTorch does.

    scripts/train/export.py out/checkpoint.pt -o weights/model.gguf --dtype Q8_0
    scripts/train/export.py out/checkpoint.pt -o /tmp/f32.gguf --dtype F32 --verify ./run data/wiki-val.bin
    scripts/train/export.py out/checkpoint.pt -o weights/model.gguf --score ./study data/wiki-val.bin

Names, shapes and metadata are those that llama.cpp's converter gives a GPT-2: matrices in the dtype asked
for, or the one that stands in for it where rows do not divide into its blocks (gguf.py); norms and biases in F32, and the
table of positions, which llama.cpp leaves unquantised, too, or in F16 beside types of less than eight bits; the unembedding
is the embedding and not stored twice. How text is to be drawn is left
to whoever runs the model, unless options say it (--temp 0.6 …): the file then has llama.cpp's keys for that.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import tempfile

import numpy as np
import torch

import gguf
from rounding import Rounded
from tokenizer import Tokenizer
from train import Config, Model

NORMAL, CONTROL = 1, 3  # tokenizer.ggml.token_type
DATASETS = [
    ("Wikipedia (English articles)", "Wikipedia contributors", "CC BY-SA 4.0"),
    ("Classic books", "many authors", "public domain"),
    ("passages and tasks written for this model", "the attn project", "that of the source code"),
]
# How the file may want to be sampled: run's options, the keys behind general.sampling. with the types that llama.cpp
# reads, and the values that run takes from a file (sampling.c), where -1 of a count is all
SAMPLING = [("--temp", "temp", np.float32, 0, 1e9), ("--top-k", "top_k", np.int32, -1, 1e9),
            ("--top-p", "top_p", np.float32, 0, 1), ("--min-p", "min_p", np.float32, 0, 1),
            ("--repeat-penalty", "penalty_repeat", np.float32, 0.01, 100),
            ("--repeat-last-n", "penalty_last_n", np.int32, -1, 1e9)]
# How far the engine may be from PyTorch: (logits, largest difference by largest value; bits per byte, relative)
TOLERANCE = {"F32": (1e-4, 1e-4), "Q8_0": (math.inf, 5e-3)}


def tolerance(model, dtype):
    """Of a model that was rounded so in training nothing is lost, but for the positions in F16."""
    return (1e-3, 1e-4) if dtype == f"Q{model.config.rounding}_0" else TOLERANCE.get(dtype, (math.inf, math.inf))


def load(path):
    """(model, tokenizer) of a checkpoint, with its matrices rounded as they were in training."""
    saved = torch.load(path, map_location="cpu")
    model = Model(Config(**saved["config"]))
    model.load_state_dict(saved["model"])
    if model.config.rounding:
        Rounded(model, model.config.rounding).__enter__()
    return model.eval(), Tokenizer.from_json(saved["tokenizer"])


def size_label(n):
    return f"{n / 1e6:.0f}M" if n >= 1e6 else f"{n / 1e3:.0f}K"


def general_metadata(model, name, dtype):
    metadata = {
        "general.architecture": "gpt2", "general.type": "model", "general.name": name,
        "general.description": "A small English model that continues text, made to be studied",
        "general.size_label": size_label(sum(p.numel() for p in model.parameters())),
        "general.license": "cc-by-sa-4.0", "general.languages": ["en"], "general.tags": ["text-generation"],
        "general.dataset.count": np.uint32(len(DATASETS))}
    for i, (dataset, author, licence) in enumerate(DATASETS):
        metadata.update({f"general.dataset.{i}.name": dataset, f"general.dataset.{i}.author": author,
                         f"general.dataset.{i}.description": f"licence: {licence}"})
    return {**metadata, "general.file_type": np.uint32(gguf.TYPES[dtype].file_type),
            "general.quantization_version": np.uint32(2)}


def model_metadata(c):
    return {"gpt2.block_count": np.uint32(c.n_layer), "gpt2.context_length": np.uint32(c.n_ctx),
            "gpt2.embedding_length": np.uint32(c.d_model), "gpt2.feed_forward_length": np.uint32(4 * c.d_model),
            "gpt2.attention.head_count": np.uint32(c.n_head),
            "gpt2.attention.layer_norm_epsilon": np.float32(1e-5)}


def tokenizer_metadata(tokenizer):
    return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": tokenizer.tokens,
            "tokenizer.ggml.token_type": np.array([NORMAL] * tokenizer.end + [CONTROL], "<i4"),
            "tokenizer.ggml.merges": [" ".join(merge) for merge in tokenizer.merges],
            "tokenizer.ggml.bos_token_id": np.uint32(tokenizer.end),
            "tokenizer.ggml.eos_token_id": np.uint32(tokenizer.end),
            "tokenizer.ggml.add_bos_token": True}


def within(least, most, kind):
    """A reader of an option: a number of that kind, within limits."""
    def number(text):
        value = int(text) if kind is np.int32 else float(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not in {least:g} to {most:g}")
        return kind(value)
    return number


def sampling_metadata(args):
    """The keys of those options that are given."""
    given = ((key, getattr(args, key)) for _, key, *_ in SAMPLING)
    return {f"general.sampling.{key}": value for key, value in given if value is not None}


def export(model, tokenizer, path, name, dtype, sampling):
    tensors = {}
    for tensor, values in model.state_dict().items():
        is_matrix = values.dim() == 2 and not tensor.startswith("position")
        unquantised = "F16" if tensor.startswith("position") and 0 < gguf.TYPES[dtype].bits < 8 else "F32"
        tensors[tensor] = gguf.Tensor.pack(values.numpy(),
                                           gguf.fitting(dtype, values.shape[1]) if is_matrix else unquantised)
    metadata = {**general_metadata(model, name, dtype), **sampling, **model_metadata(model.config),
                **tokenizer_metadata(tokenizer)}
    gguf.write(path, metadata, tensors)


def texts_to_check(tokenizer, path, n_ctx, n):
    """The beginnings of n documents of a token file, as bytes: no more than n_ctx tokens, whole words."""
    ids = np.fromfile(path, np.uint16)
    ends = np.flatnonzero(ids == tokenizer.end)
    for i in np.linspace(0, len(ends) - 2, min(n, len(ends) - 1)).astype(int):
        document = ids[ends[i] + 1:ends[i + 1]][:n_ctx - 8]
        text = tokenizer.decode(document).decode("utf-8", "ignore")
        yield text if ends[i + 1] - ends[i] <= n_ctx - 8 else text.rsplit(" ", 1)[0]


def run_engine(run, path, text, folder):
    """(token ids, logits float32 [n][n_vocab]) as the engine has them."""
    prompt, logits = os.path.join(folder, "prompt.txt"), os.path.join(folder, "logits.npy")
    pathlib.Path(prompt).write_bytes(text.encode())
    base = [run, path, "-f", prompt]
    ids = subprocess.run(base + ["--tokens"], check=True, capture_output=True, text=True).stdout.split()
    subprocess.run(base + ["-n", "0", "--kv", "f32", "--logits", logits], check=True, stdout=subprocess.DEVNULL)
    return [int(id) for id in ids], np.load(logits)


def bits(logits, ids):
    """−log2 of the probability that the logits give to the text after its first token."""
    nats = torch.nn.functional.cross_entropy(torch.as_tensor(logits[:-1]).double(), torch.tensor(ids[1:]),
                                             reduction="sum")
    return nats.item() / math.log(2)


def verify(model, tokenizer, path, run, text_file, n, dtype):
    """Compares the engine with PyTorch, which computes with the weights before they were quantised."""
    difference, largest, n_bytes, totals = 0.0, 0.0, 0, np.zeros(2)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for text in texts_to_check(tokenizer, text_file, model.config.n_ctx, n):
            ids = [tokenizer.end, *tokenizer.encode(text)]
            engine_ids, logits = run_engine(run, path, text, folder)
            if engine_ids != ids:
                raise SystemExit(f"the engine's tokens differ: {engine_ids[:9]} …, expected {ids[:9]} …")
            expected = model(torch.tensor([ids]))[0]
            difference = max(difference, float((torch.as_tensor(logits) - expected).abs().max()))
            largest = max(largest, float(expected.abs().max()))
            totals += bits(logits, ids), bits(expected, ids)
            n_bytes += len(text.encode())
    engine, pytorch = totals / n_bytes
    print(f"{text_file}: logits differ by {difference / largest:.2g} of the largest; bits per byte: engine "
          f"{engine:.6f}, PyTorch {pytorch:.6f}, {engine / pytorch - 1:+.4%}")
    logits_tolerance, bits_tolerance = tolerance(model, dtype)
    if not (difference <= logits_tolerance * largest and abs(engine / pytorch - 1) <= bits_tolerance):
        raise SystemExit("that is more than rounding explains")


def score(model, tokenizer, checkpoint, path, study, text_file, dtype):
    """Compares the engine's bits per byte on a whole token file with those that train.py left in result.json."""
    name = pathlib.Path(text_file).stem
    expected = json.loads((pathlib.Path(checkpoint).parent / "result.json").read_text())["bits_per_byte"][name]
    ids = np.fromfile(text_file, np.uint16)
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder, "text.txt")
        end = tokenizer.tokens[tokenizer.end].encode()
        text.write_bytes(b"".join(end if id == tokenizer.end else tokenizer.bytes[id] for id in ids))
        command = [study, "score", path, "--no-bos", "-f", str(text), "--special", "--top", "0", "--json"]
        report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    if [token["id"] for token in report["tokens"]] != ids.tolist():
        raise SystemExit(f"{text_file}: the engine's tokens differ")
    bits = report["totals"]["bits_per_byte"]
    print(f"{text_file}: bits per byte: engine {bits:.6f}, PyTorch {expected:.6f}, {bits / expected - 1:+.4%}")
    if abs(bits / expected - 1) > tolerance(model, dtype)[1]:
        raise SystemExit("that is more than rounding explains")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--dtype", default="Q8_0", choices=gguf.TYPES, help="of the matrices (Q8_0)")
    parser.add_argument("--name", default="attn default model", help="general.name")
    parser.add_argument("--verify", nargs=2, metavar=("RUN", "TOKENS"),
                        help="compare the engine with PyTorch on a token file")
    parser.add_argument("--documents", type=int, default=20, help="documents to compare on (20)")
    parser.add_argument("--score", nargs=2, metavar=("STUDY", "TOKENS"),
                        help="compare bits per byte on a whole held-out file with what train.py found")
    for option, key, kind, least, most in SAMPLING:
        parser.add_argument(option, dest=key, metavar="N" if kind is np.int32 else "X", type=within(least, most, kind),
                            help=f"how to sample from it: general.sampling.{key} (not written)")
    args = parser.parse_args()
    model, tokenizer = load(args.checkpoint)
    export(model, tokenizer, args.output, args.name, args.dtype, sampling_metadata(args))
    print(f"{args.output}: {os.path.getsize(args.output):,} bytes")
    if args.verify:
        verify(model, tokenizer, args.output, *args.verify, args.documents, args.dtype)
    if args.score:
        score(model, tokenizer, args.checkpoint, args.output, *args.score, args.dtype)


if __name__ == "__main__":
    main()
