#!/usr/bin/python3
"""Expects every number that the views of the study program print, by PyTorch in float64.

    scripts/expect/study_reference.py tests/data/study          # all cases
    scripts/expect/study_reference.py tests/data/study lens     # those whose name begins so

Runs the forward pass of formula.py once, keeps every site that its hooks show, and computes from these what
the views define (docs/STUDY.md). For each case it writes NAME.json: the arguments for the program, what
the JSON it prints must hold, and how far a number may be off, as a share of max(1, |number|). dump's arrays go to
NAME.dump.gguf. Before it states a rank or an order it makes sure that rounding in the engine cannot turn it around.
"""
import argparse
import json
import os
import shlex

import numpy as np
import torch

import gguf
import study_ablations
import study_attributions
import study_circuits
import study_gradients
import study_heads
import study_neurons
import study_patching
import study_predictions
import study_steering
import study_words
from study_cases import CASES, CONTROLS, DUMPS, FOLDER, MODELS, TEXTS
from study_runs import LETTERS, Unsure, has_vocabulary, letters_metadata, prompt_run

TOLERANCE = 1e-5  # of floats against float64; their sums differ by 1.5e-6 of the largest at most (test_reference.c)
SLOPES = 5e-5     # likewise of gradients through delta nets, as tests/test_backward.c allows and PyTorch in float32 needs
TRAINED_AS_NEIGHBOURS = "gptj", "codegen", "command-r", "cohere2"  # Hugging Face has their q and k as GGUF has them
OUTSIDE = "embed", "pos_embed", "ln_final_scale", "logits"  # sites of no layer
MODULES = (study_ablations, study_attributions, study_circuits, study_gradients, study_heads, study_neurons,
           study_patching, study_predictions, study_steering, study_words)
VIEWS = {name[5:]: view for module in MODULES for name, view in vars(module).items() if name.startswith("view_")}


def parser():
    p = argparse.ArgumentParser(add_help=False)
    p.add_argument("command")
    p.add_argument("model")
    p.add_argument("other", nargs="?")
    p.add_argument("-p", dest="prompts", action="append")
    p.add_argument("-f", dest="file")
    p.add_argument("-c", type=int)
    p.add_argument("-n", type=int, default=0)
    p.add_argument("-s", type=int, default=0)
    for name in ("layer", "query", "top", "repeat", "neurons", "steps", "check"):
        p.add_argument("--" + name, type=int)
    p.add_argument("--head", type=lambda text: int(text) if text.isdigit() else text)  # or "L0H1,L1H0"
    p.add_argument("--batch", type=int, default=10)
    p.add_argument("--top-k", type=int, default=0)
    p.add_argument("--strength", type=float, default=1.0)
    p.add_argument("--find", type=float)
    for name, default in ("temp", 1.0), ("top-p", 1.0), ("min-p", 0.0):
        p.add_argument("--" + name, type=float, default=default)
    for name in ("ablate", "answer", "average", "by", "composition", "corpus", "corrupted", "direction",
                 "head-name", "heads", "layers", "metric", "minus", "minus-file", "mlps", "neuron", "pairs",
                 "path", "plus", "plus-file", "positions", "reduce", "score", "site", "strengths", "sweep",
                 "token", "what", "word", "wrong", "outside", "keep", "freeze"):
        p.add_argument("--" + name)
    p.add_argument("--with", dest="with_file")
    for name in ("bos", "no-bos", "words", "chunks", "mid", "frozen-norm", "no-sink", "norm", "hard-zero",
                 "centred", "flow", "noising", "project", "unit", "sweep-on", "edges", "nodes", "kl"):
        p.add_argument("--" + name, action="store_true")
    return p


def parse(line):
    words = shlex.split(line)
    if words[0] == "steer":  # whose --sweep takes no value
        words = ["--sweep-on" if word == "--sweep" else word for word in words]
    if words[0] == "circuit":  # whose --head is L0H1
        words = ["--head-name" if word == "--head" else word for word in words]
    options = parser().parse_args(words)
    options.prompt = options.prompts[-1] if options.prompts else None
    return options


# Writing.

def plain(value):
    """As JSON has it, with nine digits of each number."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, torch.Tensor):
        return plain(value.tolist())
    return float(f"{value:.9g}") if isinstance(value, (float, np.floating)) else value


def arguments(line):
    """The program's: models and texts by their paths."""
    paths = {name: f"{MODELS}/{name}.gguf" for name in model_names()}
    paths.update({name: f"{FOLDER}/{name}" for name in [*TEXTS, *CONTROLS]})
    words, models = shlex.split(line), model_names()
    lettered = any(word in models and not has_vocabulary(word) for word in words)
    return [paths.get(word, word) for word in words] + ["-z", f"{FOLDER}/{LETTERS}.gguf"] * lettered


def model_names():
    return [name[:-5] for name in os.listdir(MODELS) if name.endswith(".gguf")]


def write_case(folder, name, line):
    options = parse(line)
    expect = plain(VIEWS[options.command](options))
    tolerance = SLOPES if options.model == "qwen35" and options.edges else TOLERANCE
    case = {"arguments": arguments(line) + ["--json"], "tolerance": tolerance, "expect": expect}
    with open(os.path.join(folder, name + ".json"), "w") as file:
        json.dump(case, file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


def in_halves(x, rope_dim):
    """From the order of dimensions that GGUF's llama rotates, pairs (2i, 2i + 1), to Hugging Face's (i, i + d/2)."""
    rotating = x[..., :rope_dim]
    return torch.cat([rotating[..., 0::2], rotating[..., 1::2], x[..., rope_dim:]], -1)


def members(text, n):
    """Of a list such as 0,3,5-7; None is all."""
    if text is None:
        return list(range(n))
    spans = [[int(i) for i in part.split("-")] for part in text.split(",")]
    return [i for span in spans for i in range(span[0], span[-1] + 1)]


def dump_array(options, run, site, layer):
    """(TransformerLens's name, array as dump shapes it)"""
    x, config, n = run.site(site, layer), run.config, len(run.ids)
    at = members(options.positions, n)
    heads = members(options.heads, config.n_head)
    block = f"blocks.{layer}."
    rope_dim = config.rope_dim if config.rope == "neighbours" and run.architecture not in TRAINED_AS_NEIGHBOURS else 0
    if site == "scores":
        seen = torch.ones(n, n, dtype=torch.bool).tril().triu(-(config.windows[layer] or n) + 1)
        x = x.masked_fill(~seen, -torch.inf)
    if site in ("router_logits", "expert_weights"):
        return f"{block}mlp.hook_{site}", x[at]
    if site.startswith("mlp_") and site != "mlp_out":
        return f"{block}mlp.hook_{site[4:]}", x[at]
    if site.endswith("_scale"):
        return ("" if site == "ln_final_scale" else block) + site.replace("_scale", ".hook_scale"), x[at]
    if site in ("scores", "pattern"):  # [head][query][key]
        return block + f"attn.hook_{'attn_' * (site == 'scores')}{site}", x[heads][:, at]
    if site in ("q", "k", "v", "rot_q", "rot_k", "z", "result"):  # [position][head][d_head], of result [d_model]
        if site in ("k", "v", "rot_k"):
            heads = sorted({run.kv_head(head) for head in heads})
        if site in ("q", "k", "rot_q", "rot_k"):
            x = in_halves(x, rope_dim)
        return block + f"attn.hook_{site}", x[heads][:, at].transpose(0, 1)
    if site in OUTSIDE:
        return "logits" if site == "logits" else "hook_" + site, x[at]
    return block + "hook_" + site, x[at]


def write_dump(folder, name, line):
    options = parse(line)
    run = prompt_run(options)
    layers, arrays = members(options.layers, run.config.n_layer), {"tokens": torch.tensor(run.ids)}
    for site, layer in run.sites:
        wanted = site != "result" if options.what is None else site in options.what.split(",")
        if wanted and site != "expert_indices" and (site in OUTSIDE or layer in layers):
            key, x = dump_array(options, run, site, layer)
            arrays[key] = x
    heads = members(options.heads, run.config.n_head)
    if options.positions:
        arrays["positions"] = torch.tensor(members(options.positions, len(run.ids)))
    if options.heads:
        arrays["heads"] = torch.tensor(heads)
        arrays["kv_heads"] = torch.tensor(sorted({run.kv_head(head) for head in heads}))
    gguf.write(os.path.join(folder, name + ".dump.gguf"),
               {"general.architecture": "expected", "expected.arguments": arguments(line),
                "expected.str_tokens": [run.vocabulary.text([id]) for id in run.ids]},
               {key: np.ascontiguousarray(x.numpy().astype("f4")) for key, x in arrays.items()})


def write_control(path, name):
    """Directions as .npy, or as llama.cpp's control vector, which has none behind layer 0."""
    rows = study_steering.control(name)
    if name.endswith(".npy"):
        np.save(path, rows)
    else:
        gguf.write(path, {"general.architecture": "controlvector", "controlvector.model_hint": "gpt2"},
                   {f"direction.{layer}": np.ascontiguousarray(rows[layer]) for layer in range(1, len(rows))})


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("folder", nargs="?", default=FOLDER)
    p.add_argument("prefix", nargs="?", default="", help="of the names of the cases to write (all)")
    args = p.parse_args()
    torch.set_num_threads(1)  # sums in one order: the same bytes every time
    os.makedirs(args.folder, exist_ok=True)
    for name, text in TEXTS.items():
        with open(os.path.join(args.folder, name), "w") as file:
            file.write(text + "\n" if text.endswith("\n") else text)  # -f drops the last newline
    gguf.write(os.path.join(args.folder, LETTERS + ".gguf"), letters_metadata(), {})
    for name in CONTROLS:
        write_control(os.path.join(args.folder, name), name)
    unsure = []
    for cases, write in ((CASES, write_case), (DUMPS, write_dump)):
        for name, line in cases.items():
            if not name.startswith(args.prefix):
                continue
            try:
                write(args.folder, name, line)
            except Unsure as error:
                unsure.append(f"{name}: {error}")
    if unsure:
        raise SystemExit("\n".join(unsure + ["too close to be sure of; take other texts"]))


if __name__ == "__main__":
    main()
