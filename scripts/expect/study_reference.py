#!/usr/bin/python3
"""What the study program must print: every number of its views, in PyTorch and float64.

    scripts/expect/study_reference.py tests/data/study          # all cases
    scripts/expect/study_reference.py tests/data/study lens     # those whose name begins so

Runs the forward pass of reference.py once, keeps every site that its hooks show, and computes from these what
the views define (docs/STUDY.md). For each case it writes NAME.json: the arguments for the program, what
the JSON it prints must hold, and how far a number may be off, as a share of max(1, |number|). dump's arrays go to
NAME.dump.gguf. Before it states a rank or an order it makes sure that rounding in the engine cannot turn it around.
"""
import argparse
import functools
import json
import math
import os
import shlex

import numpy as np
import torch

import gguf
from reference import Model, alibi_slopes, unchanged

MODELS = "tests/data/reference"
FOLDER = "tests/data/study"
TOLERANCE = 1e-5  # of floats against float64; their sums differ by 1.5e-6 of the largest at most (test_reference.c)
MARGIN = 5e-6     # of the largest number in a row: what two numbers must differ by for their order to be sure

TALE = "the cat sat on the mat; the cat sat on the hat, and the hat sat on the cat."
TEXTS = {  # for -f and --with
    "tale.txt": TALE,
    "other.txt": "a dog ran to the log",
    "long.txt": f"{TALE}\nThen the mat said: {TALE}\n",
}
CASES = {
    "next-gpt2": "next gpt2-f32 -p 'The Eiffel tower' --top 5",
    "next-gpt2-filters": "next gpt2-f32 -p 'The Eiffel tower' --top 12 --temp 0.7 --top-k 10 --top-p 0.8",
    "next-llama-min-p": "next llama-f32 -p 'Once upon a time' --top 8 --temp 1.5 --min-p 0.3",
    "next-llama-all": "next llama-q8_0 -p 'Once' --top 6 --temp 2 --top-k 40 --top-p 0.9 --min-p 0.1 --no-bos",
    "next-llama-greedy": "next llama-f32-rope -p 'Once' --top 3 --temp 0",
    "score-gpt2": "score gpt2-f32 -p 'The Eiffel tower stands' --words",
    "score-gpt2-bos": "score gpt2-q4_0 -p 'The cat sat.' --bos --top 2",
    "score-llama": "score llama-f32 -p 'The tin\nman' --top 4 --words",
    "score-gptneox": "score gptneox -p 'ten trees' --top 1",
    "score-gpt2-windows": "score gpt2-f32 -f tale.txt -c 28 --top 1",
    "score-gpt2-windows-odd": "score gpt2-f32 -p 'abcdefghijklmnop' -c 5 --top 0",
    "score-llama-windows": "score llama-f32-rope -f tale.txt -c 20 --top 1 --words",
    "score-gpt2-chunks": "score gpt2-f32 -f long.txt -c 24 --chunks",
    "score-gpt2-chunks-bos": "score gpt2-f32 -f tale.txt -c 25 --chunks --bos",
    "score-llama-chunks": "score llama-f32 -f long.txt -c 32 --chunks",
    "lens-gpt2": "lens gpt2-f32 -p 'The Eiffel tower' --mid --token e",
    "lens-gpt2-frozen": "lens gpt2-f32 -p 'The Eiffel tower' --query 4 --frozen-norm --mid --top 3",
    "lens-gpt2-untied": "lens gpt2-f32-untied -p 'The tower' --top 2 --token '#256'",
    "lens-llama": "lens llama-f32 -p 'Once upon a time' --token '#260' --mid --top 2",
    "lens-llama-frozen": "lens llama-q8_0 -p 'Once upon a time' --frozen-norm --top 2",
    "lens-gptneox": "lens gptneox -p 'one upon' --mid --query 3",
    "heads-gpt2": "heads gpt2-f32 -f tale.txt",
    "heads-gpt2-none": "heads gpt2-f32 -p 'abcdef'",
    "heads-llama": "heads llama-f32 -f tale.txt",
    "heads-gpt2-repeat": "heads gpt2-f32 --repeat 12 --batch 3 -s 7",
    "heads-llama-repeat": "heads llama-f32 --repeat 10 --batch 2 -s 0",
    "heads-llama-repeat-plain": "heads llama-f32-rope --repeat 9 --batch 1 -s 5 --no-bos",
    "explain-gpt2": "explain gpt2-f32 -p 'The Eiffel tower' --layer 1 --head 1",
    "explain-gpt2-q4": "explain gpt2-q4_0 -p 'The tower' --layer 0 --head 1 --query 5 --top 3",
    "explain-llama": "explain llama-f32 -p 'Once upon a time' --layer 1 --head 1",
    "explain-llama-rope": "explain llama-f32-rope -p 'Once upon' --layer 2 --head 5 --query 6 --top 4",
    "explain-gptneox": "explain gptneox -p 'one upon' --layer 1 --head 0 --top 4",
    "attend-gpt2": "attend gpt2-f32 -p 'The tower'",
    "attend-llama-head": "attend llama-f32 -p 'Once upon a time' --layer 1 --head 3",
    "attend-llama-query": "attend llama-q8_0 -p 'Once upon a time' --query 9 --top 4 --layer 1",
    "attend-gpt2-mean": "attend gpt2-f32 -p 'The tower' --reduce mean --layer 0",
    "attend-llama-max": "attend llama-f32 -p 'The tower' --reduce max --layer 1",
    "attend-gpt2-mean-all": "attend gpt2-f32 -p 'The tower' --reduce mean",
    "attend-llama-max-all": "attend llama-f32 -p 'The tower' --reduce max",
    "attend-gpt2-no-sink": "attend gpt2-f32 -p 'The tower' --layer 1 --head 0 --no-sink",
    "attend-llama-no-sink-query": "attend llama-f32 -p 'The tower' --layer 0 --no-sink --query 6",
    "attend-gpt2-value": "attend gpt2-f32 -p 'The tower' --layer 1 --by value",
    "attend-llama-value": "attend llama-f32 -p 'The tower' --layer 1 --by value --norm",
    "attend-gptneox-value": "attend gptneox -p 'the tower' --layer 0 --by value --head 1",
    "attend-gpt2-words": "attend gpt2-f32 -p 'The tower is tall' --layer 1 --words",
    "attend-llama-words": "attend llama-f32 -p 'The tower\nis tall' --layer 0 --head 2 --words",
    "attend-gpt2-words-query": "attend gpt2-f32 -p 'The tower is tall' --bos --words --query 3 --layer 1 --head 0",
    "attend-llama-all": "attend llama-f32 -p 'The tower is' --words --no-sink --by value --norm --reduce mean --layer 1",
    "attend-gpt2-generate": "attend gpt2-f32 -p 'The tower' --layer 1 --head 1 -n 3",
    "attend-llama-generate": "attend llama-f32 -p 'The tower' --layer 0 --reduce mean -n 2 --no-sink",
    "ablate-gpt2": "ablate gpt2-f32 -f tale.txt --heads L1H0",
    "ablate-gpt2-both": "ablate gpt2-f32 -p 'The tower is tall' --heads L0 --mlps 1",
    "ablate-gpt2-hard": "ablate gpt2-f32 -f tale.txt --heads L1H0,L0H1 --hard-zero",
    "ablate-gpt2-mean": "ablate gpt2-f32 -p 'The tower is tall' --heads L0H0 --by mean",
    "ablate-gpt2-mean-with": "ablate gpt2-f32 -p 'The tower is tall' --heads L0H0,L1H1 --by mean --with other.txt",
    "ablate-gpt2-resample": "ablate gpt2-f32 -p 'the cat ate the bug.' --heads L0H1 --by resample --with other.txt",
    "ablate-gpt2-mlp": "ablate gpt2-f32 -p 'The tower is tall' --mlps 0",
    "ablate-gpt2-mlp-mean": "ablate gpt2-q4_0 -p 'The tower is tall' --mlps 0,1 --by mean --with other.txt",
    "ablate-gpt2-mlp-resample": "ablate gpt2-f32 -p 'the cat ate the bug.' --mlps 1 --by resample --with other.txt",
    "ablate-gpt2-sweep": "ablate gpt2-f32 -p 'The tower is tall' --sweep heads",
    "ablate-gpt2-sweep-mlps": "ablate gpt2-q4_0 -p 'The tower is tall' --sweep mlps --by mean",
    "ablate-llama": "ablate llama-f32 -p 'Once upon a time' --heads L0H2,L1H3",
    "ablate-llama-resample": "ablate llama-f32 -p 'the cat ate the bug.' --heads L0H1 --by resample --with other.txt",
    "ablate-llama-sweep": "ablate llama-f32 -p 'Once upon a time' --sweep heads --by mean",
    "ablate-llama-bias": "ablate llama-f32-rope -p 'Once upon a time' --heads L1H4",
    "ablate-gptneox-sweep": "ablate gptneox -p 'one upon a time' --sweep heads",
    "ablate-phi2-sweep-mlps": "ablate phi2 -p 'one upon a time' --sweep mlps",
    "view-gpt2": "view gpt2-f32 -p 'The tower' --ablate L0H1",
    "view-gpt2-scaled": "view gpt2-f32 -p 'the cat sat' --ablate L0H0=0.5,L0MLP=0.25,L1H1=2",
    "view-llama": "view llama-f32 -p 'the tin' --ablate L0H2,L1H3",
    "view-llama-upper": "view llama-f32 -p 'Once upon' --ablate L1MLP",
    "view-gemma2": "view gemma2 -p 'the tin' --ablate L1H1",
    "view-phi2": "view phi2 -p 'the tin' --ablate L0H1,L0MLP",
    "compare-gpt2": "compare gpt2-f32 gpt2-q4_0 -f tale.txt",
    "compare-families": "compare gptneox gptneox-sequential -p 'one upon a time'",
    # What is not GPT-2's or Llama's: norms behind branches, scales, caps, windows, ALiBi, sinks, experts.
    "next-gemma2": "next gemma2 -p 'the tin man' --top 4",
    "score-command-r": "score command-r -p 'the tin man' --top 1",
    "lens-command-r-frozen": "lens command-r -p 'the tin man' --frozen-norm --top 2",
    "lens-gemma2-frozen": "lens gemma2 -p 'the tin man' --frozen-norm --mid --top 2",
    "lens-stablelm": "lens stablelm -p 'the tin man' --mid --top 2",
    "lens-olmo-frozen": "lens olmo -p 'the tin man' --frozen-norm --top 2",
    "lens-phi2": "lens phi2 -p 'the tin man' --mid --frozen-norm --top 2",
    "heads-gpt-oss": "heads gpt-oss -p 'a cat, a hat, a rat'",
    "heads-gemma3": "heads gemma3 --repeat 6 --batch 2 -s 3",
    "explain-gemma2": "explain gemma2 -p 'the tin man' --layer 0 --head 3 --top 3",
    "explain-gemma3": "explain gemma3 -p 'the tin man' --layer 1 --head 1 --query 7 --top 3",
    "explain-olmo2": "explain olmo2 -p 'the tin man' --layer 1 --head 2 --top 3",
    "explain-granite": "explain granite -p 'the tin man' --layer 0 --head 1 --top 3",
    "explain-bloom": "explain bloom -p 'the tin man' --layer 1 --head 4 --top 3",
    "explain-olmo": "explain olmo -p 'the tin man' --layer 1 --head 1 --top 3",
    "explain-gpt-oss": "explain gpt-oss -p 'the tin man' --layer 2 --head 1 --top 3",
    "explain-phi2": "explain phi2 -p 'the tin man' --layer 0 --head 1 --top 3",
    "explain-cohere2": "explain cohere2 -p 'the tin man' --layer 3 --head 0 --top 3",
    "attend-gpt-oss": "attend gpt-oss -p 'the tin man' --layer 0 --words",
    "attend-gpt-oss-no-sink": "attend gpt-oss -p 'the tin man' --reduce mean --no-sink --query 7",
    "attend-gpt-oss-generate": "attend gpt-oss -p 'the tin' --layer 1 --head 0 -n 2",
    "attend-olmo2-value": "attend olmo2 -p 'the tin' --layer 0 --by value",
    "attend-granite-value": "attend granite -p 'the tin' --layer 1 --head 2 --by value",
    "ablate-gemma2": "ablate gemma2 -p 'the tin man' --heads L1H1 --mlps 0 --by mean",
    "ablate-granitemoe-sweep-mlps": "ablate granitemoe -p 'the tin man' --sweep mlps",
    "ablate-gpt-oss": "ablate gpt-oss -p 'the tin man' --heads L0H1",
    "attend-qwen35-mean": "attend qwen35 -p 'the tin' --reduce mean",
    "attend-lfm2": "attend lfm2 -p 'the tin' --query 5",
    "ablate-qwen35-sweep": "ablate qwen35 -p 'the tin man' --sweep heads",
    "experts-qwen2moe": "experts qwen2moe -p 'a sore mole'",
    "experts-gpt-oss": "experts gpt-oss -p 'the tin man' --layer 2",
    "experts-qwen3moe": "experts qwen3moe -p 'the tin man'",
}
DUMPS = {
    "llama-f32": "dump llama-f32 -p 'Once upon'",
    "llama-f32-some": "dump llama-f32 -p 'Once upon a time' --what pattern,q,k,v,resid_post,logits --layers 1 "
                      "--heads 2-3 --positions 1,5-7",
    "llama-f32-rope": "dump llama-f32-rope -p 'Once'",
    "gptneox": "dump gptneox -p 'on'",
    "gptj": "dump gptj -p 'on' --what q,k --layers 0",
    "gpt-oss": "dump gpt-oss -p 'the sink' --what scores,pattern,router_logits,expert_weights --layers 0-1",
    "olmo2": "dump olmo2 -p 'on' --what attn_out,mlp_out,q --layers 1",
}


TRAINED_AS_NEIGHBOURS = "gptj", "codegen", "command-r", "cohere2"  # Hugging Face has their q and k as GGUF has them


class Unsure(Exception):
    """A rank or an order hangs on the last bits."""


# The models: byte vocabularies (reference.py), whose tokens are the bytes of the text but for two.

@functools.lru_cache(None)
def checkpoint(name):
    return gguf.read(f"{MODELS}/{name}.gguf")


class Vocabulary:
    """pieces: the bytes that each token stands for in a running text; of a control token its name."""

    def __init__(self, metadata):
        tokens = metadata["tokenizer.ggml.tokens"]
        self.is_llama = metadata["tokenizer.ggml.model"] == "llama"
        self.bos = int(metadata["tokenizer.ggml.bos_token_id"])
        if self.is_llama:  # <unk> <s> </s>, then bytes or letters, and "▁" and "▁t"
            byte = {f"<0x{b:02X}>": bytes([b]) for b in range(256)}
            self.pieces = [byte.get(t, t.replace("▁", " ").encode()) for t in tokens]
            self.ordinary = list(range(3, len(tokens)))
        else:
            shown = {name: byte for byte, name in enumerate(bytes_to_unicode())}
            self.pieces = [bytes([shown[t]]) for t in tokens[:256]] + [t.encode() for t in tokens[256:]]
            self.ordinary = list(range(256))

    def encode(self, text):
        if not self.is_llama:
            return [self.pieces.index(bytes([b])) for b in text.encode()]
        text, ids = " " + text, []
        while text:
            length = 2 if text.startswith(" t") else 1
            ids.append(len(self.pieces) - 1 - self.pieces[::-1].index(text[:length].encode()))  # "▁", not its byte
            text = text[length:]
        return ids

    def text(self, ids):
        return b"".join(self.pieces[i] for i in ids).decode("utf-8", "replace")

    def token(self, id):
        return {"id": int(id), "token": self.text([id])}

    def starts_word(self, id):
        return self.pieces[id][:1] in (b" ", b"\n", b"\t", b"\r")


def bytes_to_unicode():
    """For each byte, the character that stands for it in GPT-2's vocabulary."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b) if b in printable else chr(next(others)) for b in range(256)]


LETTERS = "letters"  # the vocabulary of models that have none, all of 37 tokens: a file of its own, named with -z


def letters_metadata():
    tokens = ["<unk>", "<s>", "</s>", "▁", "▁t", *"abcdefghijklmnopqrstuvwxyz", *",.;:!?"]
    return {"general.architecture": "llama", "general.name": "letters, for models without a vocabulary",
            "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": np.array([2, 3, 3] + [1] * (len(tokens) - 3), "<i4"),
            "tokenizer.ggml.scores": np.array([0] * 4 + [-1] + [-2] * (len(tokens) - 5), "<f4"),
            "tokenizer.ggml.unknown_token_id": np.uint32(0), "tokenizer.ggml.bos_token_id": np.uint32(1),
            "tokenizer.ggml.eos_token_id": np.uint32(2), "tokenizer.ggml.add_bos_token": True,
            "tokenizer.ggml.add_eos_token": False}


def has_vocabulary(name):
    return checkpoint(name)[0]["tokenizer.ggml.model"] != "no_vocab"


def vocabulary_of(name):
    return Vocabulary(checkpoint(name)[0] if has_vocabulary(name) else letters_metadata())


class Run:
    """A forward pass, kept whole: site(name, layer), logits [n][n_vocab], logp."""

    def __init__(self, name, ids, edit=unchanged):
        self.model, self.ids, self.sites = Model(*checkpoint(name)), ids, {}
        self.config, self.architecture = self.model.config, checkpoint(name)[0]["general.architecture"]
        self.vocabulary = vocabulary_of(name)

        def keep(site, layer, x):
            x = edit(site, layer, x)
            self.sites[site, layer] = x
            return x

        self.logits = self.model.forward(torch.tensor(ids), keep)
        self.logp = self.logits.log_softmax(-1)
        self.n_vocab = self.logits.shape[1]

    def site(self, name, layer):
        return self.sites[name, layer]

    def nll(self):
        """Of tokens 1 … n − 1."""
        return -self.logp[:-1].gather(1, torch.tensor(self.ids[1:])[:, None])[:, 0]

    def kv_head(self, head):
        return head * self.config.n_head_kv // self.config.n_head

    def heads(self):
        return [(layer, head) for layer in self.layers_with_heads() for head in range(self.config.n_head)]

    def layers_with_heads(self):
        """The others keep a state in the place of attention."""
        return [layer for site, layer in self.sites if site == "pattern"]

    def output_weight(self, layer, head):
        """[d_model][d_head]: the columns of the output projection that read this head's z, as far as what they make is added
        to the stream in a straight line: with the gains of a norm behind it, but not its division, and the residual scale."""
        d, matrix = self.config.d_head, self.model.weight(f"blk.{layer}.attn_output.weight")
        if self.config.norms != "before":
            matrix = self.model.weight(f"blk.{layer}.post_attention_norm.weight")[:, None] * matrix
        return matrix[:, head * d:(head + 1) * d] * self.config.residual_scale

    def behind_scale(self, layer, position):
        """What the norm behind attention divides by there."""
        if self.config.norms == "before":
            return 1
        z = self.site("z", layer)[:, position].flatten()
        return torch.sqrt(self.model.linear(f"blk.{layer}.attn_output", z).pow(2).mean() + self.config.norm_eps)

    def dots(self, layer, head, query):
        """q·k of a query and all keys, of what the norms and RoPE make of the projections."""
        q, k = (self.model.turned(layer, self.model.head_norm(f"blk.{layer}.attn_{x}_norm", self.site(x, layer))) for x in "qk")
        return k[self.kv_head(head)] @ q[head][query]

    def first_key(self, layer, query):
        window = self.config.windows[layer]
        return max(0, query + 1 - window) if window else 0

    def sink(self, layer, head):
        """The score of a learned sink, or None."""
        sinks = self.model.optional(f"blk.{layer}.attn_sinks.weight")
        return None if sinks is None else sinks[head]

    def learned(self, layer, head):
        """[n]: what the sink takes of each row."""
        scores = self.site("scores", layer)[head]
        n = len(scores)
        seen = torch.ones(n, n, dtype=torch.bool).tril().triu(-(self.config.windows[layer] or n) + 1)
        scores = torch.cat([scores.masked_fill(~seen, -torch.inf), self.sink(layer, head).expand(n, 1)], 1)
        return scores.softmax(-1)[:, -1]

    def value_bias(self, layer, head):
        c = self.config
        fused = self.model.optional(f"blk.{layer}.attn_qkv.bias")
        bias = self.model.optional(f"blk.{layer}.attn_v.bias") if fused is None else fused[-c.n_head_kv * c.d_head:]
        return torch.zeros(c.d_head).double() if bias is None else bias.unflatten(0, (-1, c.d_head))[self.kv_head(head)]

    def unembedding(self):
        return self.model.weight("output.weight" if "output.weight" in self.model.tensors else "token_embd.weight")

    def unembed(self, x, scale=None):
        """Final norm and unembedding of x [d_model]; with a scale, that instead of the norm's own."""
        if scale is None:
            normed = self.model.norm("output_norm", x)
        else:
            if self.config.norm == "layer":
                x = x - x.mean()
            normed = x / scale * self.final_gain()
            bias = self.model.optional("output_norm.bias")
            normed = normed if bias is None else normed + bias
        logits = normed @ self.unembedding().T
        bias = self.model.optional("output.bias")
        logits = (logits if bias is None else logits + bias) * self.config.logit_scale
        cap = self.config.logit_cap
        return cap * torch.tanh(logits / cap) if cap else logits

    def final_gain(self):
        gain = self.model.optional("output_norm.weight")
        return 1 if gain is None else gain

    def final_scale(self, position):
        """What the final norm divides by there."""
        x = self.site("resid_post", self.config.n_layer - 1)[position]
        square = x.var(unbiased=False) if self.config.norm == "layer" else x.pow(2).mean()
        return torch.sqrt(square + self.config.norm_eps)


# Numbers made of rows of logits.

def top(x, k):
    """The indices of the k largest, largest first."""
    values, order = x.sort(descending=True)
    gaps = (values[:-1] - values[1:])[:k]
    if len(gaps) and gaps.min() <= MARGIN * x.abs().max():
        raise Unsure(f"the {int(gaps.argmin()) + 1} largest")
    return order[:k].tolist()


def rank(logits, id):
    """1 + the number of larger ones."""
    others = torch.cat([logits[:id], logits[id + 1:]])
    if (others - logits[id]).abs().min() <= MARGIN * logits.abs().max():
        raise Unsure(f"the rank of token {id}")
    return 1 + int((others > logits[id]).sum())


def entropy(p):
    return -(p[p > 0] * p[p > 0].log()).sum()


def kl(logp, logq):
    return (logp.exp() * (logp - logq)).sum(-1)


def sure(value, border):
    if abs(value - border) <= MARGIN:
        raise Unsure(f"{value} against {border}")
    return value


# The views. Each takes the parsed options and gives the keys that are its own.

def encode(options, vocabulary, text):
    """(ids, whether there is a BOS in front)"""
    bos = options.bos or vocabulary.is_llama and not options.no_bos
    return [vocabulary.bos] * bos + vocabulary.encode(text), bos


def prompt_run(options, name=None):
    name = name or options.model
    text = options.prompt if options.prompt is not None else TEXTS[options.file]
    return Run(name, encode(options, vocabulary_of(name), text)[0])


def view_next(options):
    run, temperature = prompt_run(options), options.temp
    logits, p = run.logits[-1], run.logp[-1].exp()
    after = torch.zeros_like(p)
    n = 10 if options.top is None else options.top
    order = top(logits, n) + logits.argsort(descending=True)[n:].tolist()
    q = p[order]  # filters see the model's own probabilities; the temperature comes last
    kept = options.top_k or run.n_vocab
    if options.top_p < 1:  # the smallest set whose mass exceeds the share
        mass = q[:kept].cumsum(0) / q[:kept].sum()
        [sure(m, options.top_p) for m in mass]
        kept = min(kept, int((mass <= options.top_p).sum()) + 1)
    if options.min_p > 0:
        [sure(share, options.min_p) for share in q[1:] / q[0]]
        kept = min(kept, int((q / q[0] >= options.min_p).sum()))
    if temperature == 0:
        kept = 1
    after[order[:kept]] = (logits[order[:kept]] / (temperature or 1)).softmax(-1)
    cumulative = p[order].cumsum(0)
    return {
        "entropy_nats": entropy(p),
        "top": [{**run.vocabulary.token(id), "rank": i + 1, "probability": p[id], "logprob_nats": run.logp[-1][id],
                 "logit": logits[id], "cumulative": cumulative[i], "after": after[id]}
                for i, id in enumerate(order[:n])],
        "after": {"temperature": temperature, "top_k": options.top_k, "top_p": options.top_p, "min_p": options.min_p,
                  "n_kept": kept, "mass": p[order[:kept]].sum(), "entropy_nats": entropy(after)},
    }


def window_of(position, n_ctx):
    """Where the window begins that scores the token there: windows begin every half context, n_ctx tokens are
    read in each, and the token gets the one that has most before it."""
    step = n_ctx // 2
    return max(0, math.ceil((position - n_ctx) / step)) * step


def words(vocabulary, ids, begins):
    """[begin, end) of the words from position begins[0] on; one begins at each of `begins`, and after space."""
    begins = [i for i in range(begins[0], len(ids)) if i in begins or vocabulary.starts_word(ids[i])]
    return list(zip(begins, begins[1:] + [len(ids)]))


def totals(vocabulary, ids, nll, ranks):
    n, mean, n_bytes = len(nll), float(nll.mean()), sum(len(vocabulary.pieces[i]) for i in ids if i in vocabulary.ordinary)
    variance = float((nll ** 2).mean()) - mean ** 2
    return {
        "n": n, "nll_nats": mean, "perplexity": math.exp(mean),
        "perplexity_error": math.exp(mean) * math.sqrt(variance / (n - 1)) if n > 1 else None,
        "bits_per_byte": float(nll.sum()) / math.log(2) / n_bytes, "n_bytes": n_bytes,
        "top1_accuracy": sum(r == 1 for r in ranks) / n,
    }


def score_row(vocabulary, position, id, logits, n_likelier):
    logp, r = logits.log_softmax(-1), rank(logits, id)
    likelier = top(logits, min(n_likelier, r - 1))
    return {"position": position, **vocabulary.token(id), "surprisal_nats": -logp[id], "rank": r,
            "entropy_nats": entropy(logp.exp()),
            "likelier": [{**vocabulary.token(i), "probability": logp[i].exp()} for i in likelier]}


def view_score(options):
    metadata = checkpoint(options.model)[0]
    vocabulary = vocabulary_of(options.model)
    text = options.prompt if options.prompt is not None else TEXTS[options.file]
    ids, bos = encode(options, vocabulary, text)
    n_ctx = int(metadata[metadata["general.architecture"] + ".context_length"])
    if options.chunks:
        return score_chunks(options, vocabulary, ids, bos, options.c or min(512, n_ctx))
    rows, n_ctx = [], options.c or n_ctx
    starts = sorted({window_of(i, n_ctx) for i in range(1, len(ids))})
    runs = {start: Run(options.model, ids[start:start + n_ctx]) for start in starts}
    for i in range(1, len(ids)):
        start = window_of(i, n_ctx)
        rows.append(score_row(vocabulary, i, ids[i], runs[start].logits[i - 1 - start],
                              3 if options.top is None else options.top))
    nll = torch.stack([row["surprisal_nats"] for row in rows])
    result = {"n_ctx": n_ctx, "n_windows": len(starts), "positions": rows,
              "totals": totals(vocabulary, ids[1:], nll, [row["rank"] for row in rows])}
    if options.words:
        result["words"] = [{"text": vocabulary.text(ids[a:b]), "position": a, "n_tokens": b - a,
                            "surprisal_nats": nll[a - 1:b - 1].sum()} for a, b in words(vocabulary, ids, [1])]
    return result


def score_chunks(options, vocabulary, ids, bos, n_ctx):
    """llama.cpp's perplexity."""
    nll, ranks, scored, chunks = [], [], [], []
    for start in range(0, len(ids) - n_ctx + 1, n_ctx):
        chunk = ids[start:start + n_ctx]
        run = Run(options.model, [vocabulary.bos] * bos + chunk[bos:])
        of_chunk = run.nll()[n_ctx // 2:]
        nll += of_chunk.tolist()
        scored += chunk[n_ctx // 2 + 1:]
        ranks += [rank(run.logits[i - 1], chunk[i]) for i in range(n_ctx // 2 + 1, n_ctx)]
        chunks.append({"n": len(of_chunk), "nll_nats": of_chunk.mean(), "perplexity": math.exp(np.mean(nll))})
    return {"n_ctx": n_ctx, "n_windows": len(chunks), "chunks": chunks, "totals": totals(vocabulary, scored, torch.tensor(nll).double(), ranks)}


def view_lens(options):
    run = prompt_run(options)
    c, q = run.config, len(run.ids) - 1 if options.query is None else options.query
    scale = run.final_scale(q) if options.frozen_norm else None
    residuals = []
    for layer in range(c.n_layer):
        residuals.append((f"{layer}_pre", run.site("resid_pre", layer)[q]))
        if options.mid and ("resid_mid", layer) in run.sites:
            residuals.append((f"{layer}_mid", run.site("resid_mid", layer)[q]))
    residuals.append(("final_post", run.site("resid_post", c.n_layer - 1)[q]))
    final_logp = run.logp[q]
    final, target = top(final_logp, 1)[0], token_option(options, run.vocabulary)
    rows = []
    for name, x in residuals:
        logits = run.unembed(x, scale)
        logp = logits.log_softmax(-1)
        row = {"row": name, "top": [{**run.vocabulary.token(i), "probability": logp[i].exp()}
                                    for i in top(logits, options.top or 5)],
               "final_rank": rank(logits, final), "final_probability": logp[final].exp(),
               "kl_nats": kl(final_logp, logp), "entropy_nats": entropy(logp.exp())}
        if target is not None:
            row.update(target_rank=rank(logits, target), target_probability=logp[target].exp())
        rows.append(row)
    result = {"query": q, "final": run.vocabulary.token(final), "rows": rows}
    return result if target is None else {**result, "target": run.vocabulary.token(target)}


def token_option(options, vocabulary):
    if options.token is None:
        return None
    return int(options.token[1:]) if options.token[0] == "#" else vocabulary.pieces.index(options.token.encode())


def induction_targets(ids):
    """D [n][n]: keys k ≤ q, k ≥ 1, whose predecessor is the token at q."""
    x = torch.tensor(ids)
    d = torch.zeros(len(ids), len(ids), dtype=torch.float64)
    d[:, 1:] = (x[:, None] == x[None, :-1]).double()
    return d.tril()


def head_scores(pattern, ids, copy=None, learned=None, window=None):
    """Scores of one pattern [n][n]. copy: (S, first position of the first copy) of repeated tokens; learned: [n] what a
    learned sink took, one more place of each row."""
    n, x, a = len(ids), torch.tensor(ids), pattern
    q = torch.arange(1, n)
    k = torch.arange(n)
    full = a if learned is None else torch.cat([a, learned[:, None]], 1)
    h = torch.stack([entropy(row) for row in full])[1:]
    places = (q + 1.0).clamp(max=window or n) + (learned is not None)
    duplicates = (x[:, None] == x[None, :]).double().tril(-1)
    d = induction_targets(ids)
    scores = {
        "entropy_nats": h.mean(), "entropy_share": (h / torch.log(places)).mean(), "confidence": a[1:].max(1)[0].mean(),
        "sink": a[1:, 0].mean(), "self": a[q, q].mean(), "prev": a[q, q - 1].mean(),
        "distance": (a * (k[:, None] - k)).sum(1)[1:].mean(),
        "tl_mul": (a * d).sum() / a.sum(), "tl_abs": 1 - (a - d).abs().sum(1).mean(), "tl_diag": None,
    }
    if learned is not None:
        scores["learned_sink"] = learned[1:].mean()
    if copy:
        s, first = copy
        second = torch.arange(first + s, first + 2 * s)
        scores.update(dup=a[second, second - s].mean(), n_dup=s, ind=a[second, second - s + 1].mean(), n_ind=s,
                      tl_diag=a.diagonal(-(s - 1)).mean())
        return scores
    for name, targets in (("dup", duplicates), ("ind", d)):
        rows = targets[1:].sum(1) > 0
        n_rows = int(rows.sum())
        scores["n_" + name] = n_rows
        scores[name] = (a * targets).sum(1)[1:][rows].mean() if n_rows else None
    return scores


def mean_scores(scores):
    """Over a batch; counts are added up."""
    sums = {key: None if value is None else sum(s[key] for s in scores) for key, value in scores[0].items()}
    return {key: value if value is None or key in ("n_dup", "n_ind") else value / len(scores)
            for key, value in sums.items()}


def label(scores):
    for name, key, threshold in (("induction", "ind", 0.4), ("duplicate", "dup", 0.4), ("previous", "prev", 0.4),
                                 ("parked on first token", "sink", 0.6)):
        if scores[key] is not None and sure(scores[key], threshold) >= threshold:
            return name
    return ""


def random_ids(ordinary, seed, n):
    """Of xorshift64* (arXiv:1402.6246)."""
    state, mask = seed or 1, 2 ** 64 - 1
    for _ in range(n):
        state ^= state >> 12
        state ^= state << 25 & mask
        state ^= state >> 27
        yield ordinary[((state * 0x2545F4914F6CDD1D & mask) >> 32) % len(ordinary)]


def view_heads(options):
    result, copy = {"mode": "text"}, None
    if options.repeat is None:
        runs = [prompt_run(options)]
    else:
        vocabulary, s = vocabulary_of(options.model), options.repeat
        drawn = list(random_ids(vocabulary.ordinary, options.s, s * options.batch))
        begin = [] if options.no_bos else [vocabulary.bos]
        batches = [begin + 2 * drawn[i * s:(i + 1) * s] for i in range(options.batch)]
        copy, runs = (s, len(begin)), [Run(options.model, ids) for ids in batches]
        gains = [run.nll()[:-s].mean() - run.nll()[-s:].mean() for run in runs]
        result = {"mode": "repeat", "batches": batches, "repeat_gain_nats": sum(gains) / len(gains)}
    n = len(runs[0].ids)
    uniform = torch.ones(n, n, dtype=torch.float64).tril() / torch.arange(1, n + 1)[:, None]
    chance = mean_scores([head_scores(uniform, run.ids, copy) for run in runs])
    heads = []
    for layer, head in runs[0].heads():
        scores = mean_scores([head_scores(
            run.site("pattern", layer)[head], run.ids, copy,
            None if run.sink(layer, head) is None else run.learned(layer, head), run.config.windows[layer]) for run in runs])
        heads.append({"name": f"L{layer}H{head}", "layer": layer, "head": head, **scores, "label": label(scores)})
    for count in "n_dup", "n_ind":
        del chance[count]
    return {**result, "n_queries": (n - 1) * len(runs), "chance": chance, "heads": heads}


def view_explain(options, run=None, layer=None, head=None):
    run = run or prompt_run(options)
    c, layer, head = run.config, options.layer if layer is None else layer, options.head if head is None else head
    q = len(run.ids) - 1 if options.query is None else options.query
    weights = run.site("pattern", layer)[head][q]
    scores = run.site("scores", layer)[head][q]
    norms = run.site("v", layer)[run.kv_head(head)].norm(dim=-1)
    dots = run.dots(layer, head, q)
    keys = [{"key": k, **run.vocabulary.token(run.ids[k]), "dot": None if c.score_cap else dots[k], "score": scores[k],
             "weight": weights[k], "value_norm": norms[k], "weighted": weights[k] * norms[k]}
            for k in range(run.first_key(layer, q), q + 1)]
    output = run.output_weight(layer, head) @ run.site("z", layer)[head][q] / run.behind_scale(layer, q)
    centred = output - output.mean() if c.norm == "layer" else output
    effect = run.unembedding() @ (centred * run.final_gain() / run.final_scale(q)) * c.logit_scale
    effect = effect - effect.mean()
    n, sink = options.top or 5, run.sink(layer, head)
    return {
        "layer": layer, "head": head, "kv_head": run.kv_head(head), "query": q, "d_head": c.d_head,
        "scale": c.score_scale or c.d_head ** -0.5, "soft_cap": c.score_cap or None,
        "slope": alibi_slopes(c.n_head, c.alibi)[head] if c.alibi else None, "window": c.windows[layer],
        "learned_sink_score": sink, "learned_sink": None if sink is None else run.learned(layer, head)[q], "keys": keys,
        "output_norm": output.norm(),
        "raised": [{**run.vocabulary.token(i), "effect": effect[i]} for i in top(effect, n)],
        "lowered": [{**run.vocabulary.token(i), "effect": effect[i]} for i in top(-effect, n)],
    }


def shown_patterns(run, options, layer):
    """[head][query][key]: weights, or weights times the norm of what the key's value becomes behind W_O."""
    a, heads = run.site("pattern", layer), range(run.config.n_head)
    if options.by != "value":
        return a
    moved = [run.site("v", layer)[run.kv_head(h)] @ run.output_weight(layer, h).T for h in heads]
    return a * torch.stack(moved).norm(dim=-1)[:, None, :]


def attend_maps(run, options):
    """(layer or None, head or None, [query][key], what --no-sink dropped [query]) in the order of the report."""
    layers = run.layers_with_heads() if options.layer is None else [options.layer]
    heads = range(run.config.n_head) if options.head is None else [options.head]
    if options.reduce:
        together = torch.cat([shown_patterns(run, options, layer) for layer in layers])
        maps = [(options.layer, None, together.mean(0) if options.reduce == "mean" else together.max(0)[0])]
    else:
        maps = [(layer, head, shown_patterns(run, options, layer)[head]) for layer in layers for head in heads]
    for layer, head, a in maps:
        dropped, learned = a[:, 0], None
        if run.sink(0, 0) is not None and options.by != "value" and options.reduce != "max":
            places = [(layer, head)] if head is not None else [(l, h) for l in layers for h in heads]
            learned = sum(run.learned(*place) for place in places) / len(places)
        if options.no_sink:
            a = divided_by_sum(torch.cat([torch.zeros_like(a[:, :1]), a[:, 1:]], 1))
        yield layer, head, divided_by_sum(a) if options.norm else a, dropped, learned


def divided_by_sum(a):
    sums = a.sum(1, keepdim=True)
    return torch.where(sums > 0, a / sums, a)


def map_entry(run, options, query, spans, layer, head, a, dropped, learned):
    """Of the JSON. spans: the words, or None."""
    entry, queries = {"layer": layer, "head": head}, range(len(a))
    if spans:  # keys are added up, queries averaged
        a = torch.stack([a[:, begin:end].sum(1) for begin, end in spans], 1)
        a, dropped, learned = (None if x is None else torch.stack([x[begin:end].mean(0) for begin, end in spans])
                               for x in (a, dropped, learned))
        queries = range(len(spans))
    if query is not None:
        queries = [query]  # a word's index if there are words
    entry["rows"] = [a[q, :q + 1] for q in queries]
    if options.no_sink:
        entry["dropped"] = [dropped[q] for q in queries]
    if learned is not None:
        entry["learned_sink"] = [learned[q] for q in queries]
    if query is not None:
        names = [{"word": run.vocabulary.text(run.ids[b:e])} for b, e in spans] if spans else \
            [run.vocabulary.token(id) for id in run.ids]
        row = entry["rows"][0]
        entry["top"] = [{"key": k, **names[k], "weight": row[k]} for k in top(row, options.top or 10)]
    return entry


def view_attend(options):
    run = prompt_run(options)
    vocabulary, query = run.vocabulary, len(run.ids) - 1 if options.n else options.query
    has_bos = run.ids[0] == vocabulary.bos
    spans = words(vocabulary, run.ids, [0, 1] if has_bos else [0]) if options.words else None
    result = {"by": options.by or "weight", "reduce": options.reduce, "no_sink": options.no_sink,
              "norm": options.norm,
              "patterns": [map_entry(run, options, query, spans, *m) for m in attend_maps(run, options)]}
    if query is not None:
        result["query"] = query
    if spans:
        result["words"] = [vocabulary.text(run.ids[begin:end]) for begin, end in spans]
    ids = run.ids
    for _ in range(options.n):
        ids = ids + top(run.logits[-1], 1)
        run = Run(options.model, ids)
        result.setdefault("generated", []).append({
            **vocabulary.token(ids[-1]), "position": len(ids) - 1,
            "patterns": [{"layer": layer, "head": head, "row": a[-1],
                          **({"dropped": dropped[-1]} if options.no_sink else {}),
                          **({} if learned is None else {"learned_sink": learned[-1]})}
                         for layer, head, a, dropped, learned in attend_maps(run, options)]})
    return result


def replacements(options, run):
    """{(site, layer, head): what stands in for it}, for every head and MLP of the model."""
    reference, by, c = run, options.by or "zero", run.config
    if options.with_file:
        ids = encode(options, run.vocabulary, TEXTS[options.with_file])[0]
        assert by != "resample" or len(ids) == len(run.ids), (len(ids), len(run.ids))
        reference = Run(options.model, ids)
    values = {}
    for layer, head in run.heads():
        z = reference.site("z", layer)[head]
        zero = torch.zeros(c.d_head).double() if options.hard_zero else run.value_bias(layer, head)
        values["z", layer, head] = {"zero": zero, "mean": z.mean(0), "resample": z}[by]
    for layer in range(c.n_layer):
        out = reference.site("mlp_out", layer)
        values["mlp_out", layer, None] = {"zero": out.mean(0) * 0, "mean": out.mean(0), "resample": out}[by]
    return values


def ablated_run(options, run, values, parts, factors=None):
    def edit(site, layer, x):
        for (part_site, part_layer, head), factor in zip(parts, factors or [0] * len(parts)):
            if (site, layer) == (part_site, part_layer):
                x, at = x.clone(), ... if head is None else head
                x[at] = factor * x[at] + (1 - factor) * values[part_site, part_layer, head]
        return x
    return Run(options.model, run.ids, edit)


def change(run, ablated):
    before, after = ([top(row, 1)[0] for row in r.logits] for r in (run, ablated))
    return {"delta_nll_nats": ablated.nll().mean() - run.nll().mean(), "kl_nats": kl(run.logp, ablated.logp).mean(),
            "top1_changed": np.mean([a != b for a, b in zip(before, after)])}


def view_ablate(options):
    run = prompt_run(options)
    values = replacements(options, run)
    result = {"by": options.by or "zero", "baseline": {"n": len(run.ids) - 1, "nll_nats": run.nll().mean()}}
    if options.sweep:
        cells = []
        for site, layer, head in values:
            if site == {"heads": "z", "mlps": "mlp_out"}[options.sweep]:
                cell = change(run, ablated_run(options, run, values, [(site, layer, head)]))
                cells.append({"layer": layer, **({} if head is None else {"head": head}), **cell})
        return {**result, "sweep": options.sweep, "cells": cells}
    heads = []
    for name in (options.heads or "").split(",") if options.heads else []:
        layer, *one = map(int, name[1:].split("H"))
        heads += [(layer, head) for head in one or range(run.config.n_head)]
    mlps = [int(layer) for layer in (options.mlps or "").split(",") if layer]
    ablated = ablated_run(options, run, values, [("z", *head) for head in heads] + [("mlp_out", l, None) for l in mlps])
    return {**result, "ablated": [f"L{l}H{h}" for l, h in heads] + [f"L{l}MLP" for l in mlps],
            "ablation": {"nll_nats": ablated.nll().mean(), **change(run, ablated)}}


def view_view(options):
    """What the page has of the model with --ablate; "unpacked" is what stands there as base64."""
    run = prompt_run(options)
    names, factors = zip(*((name, float(factor or 0)) for name, _, factor in
                           (part.partition("=") for part in options.ablate.split(","))))
    parts = []
    for name in names:
        layer, head = name[1:].split("MLP" if name.endswith("MLP") else "H")
        parts.append(("z", int(layer), int(head)) if head else ("mlp_out", int(layer), None))
    changed = ablated_run(options, run, replacements(options, run), parts, factors)
    n, c, q = len(run.ids), run.config, len(run.ids) - 1
    layers = changed.layers_with_heads()
    streams = [changed.site("resid_pre", layer) for layer in range(c.n_layer)] + [changed.site("resid_post", c.n_layer - 1)]
    lens = []
    for position in range(n):
        final = top(changed.logp[position], 1)[0]
        rows = [changed.unembed(x[position]) for x in streams]
        lens.append({"final": final, "rows": [
            [row.softmax(-1)[final], rank(row, final)] + [y for i in top(row, 5) for y in (i, row.softmax(-1)[i])]
            for row in rows]})
    scores = [mean_scores([head_scores(changed.site("pattern", layer)[head], run.ids, None, None, c.windows[layer])])
              for layer, head in changed.heads()]
    columns = ["entropy_nats", "entropy_share", "confidence", "sink", "self", "prev", "dup", "ind", "tl_diag", "tl_mul",
               "tl_abs", "distance"]
    triangle = torch.tril_indices(n, n).tolist()
    lengths = {name: [changed.site(name + "_out", layer).norm(dim=-1) for layer in range(c.n_layer)] for name in ("attn", "mlp")}

    def moved(site, layer, head):
        x = changed.site(site, layer)[changed.kv_head(head) if site == "v" else head]
        return (x @ changed.output_weight(layer, head).T).norm(dim=-1)

    def written(layer, head):
        if not changed.site("z", layer)[head][q].any():
            return {"output_norm": 0}  # it moves no token, all of them alike
        one = view_explain(options, changed, layer, head)
        return {"output_norm": one["output_norm"],
                **{side: [y for token in one[side] for y in (token["id"], token["effect"])] for side in ("raised", "lowered")}}

    return {
        "ablation": {
            "heads": names, "factors": factors,
            "positions": [None] + [{"surprisal_nats": -changed.logp[i, id], "rank": rank(changed.logits[i], id),
                                    "entropy_nats": entropy(changed.logp[i].exp())} for i, id in enumerate(run.ids[1:])],
            "next": [{"entropy_nats": entropy(logp.exp())} for logp in changed.logp],
            "lens": {"rows": [f"{layer}_pre" for layer in range(c.n_layer)] + ["final_post"], "positions": lens},
            "text": {"columns": columns, "rows": [[score[column] for column in columns] for score in scores],
                     "labels": [label(score) for score in scores]},
            "explained": {"query": q, "heads": [[written(layer, head) for head in range(c.n_head)] for layer in layers]},
        },
        "unpacked": {
            "patterns": [[None if layer <= min(l for _, l, _ in parts) else changed.site("pattern", layer)[head][triangle]
                          for head in range(c.n_head)] for layer in layers],
            "scores": [[changed.site("scores", layer)[head][triangle] for head in range(c.n_head)] for layer in layers],
            "value_norms": [[v.norm(dim=-1) for v in changed.site("v", layer)] for layer in layers],
            "output_norms": [[moved("v", layer, head) for head in range(c.n_head)] for layer in layers],
            "resid": [x.norm(dim=-1) for x in streams], **lengths,
            "heads": [[moved("z", layer, head) for head in range(c.n_head)] for layer in layers],
        },
    }


def view_compare(options):
    a, b = prompt_run(options), prompt_run(options, options.other)
    n, layers = len(a.ids), []
    for layer in range(a.config.n_layer):
        difference = (b.site("pattern", layer) - a.site("pattern", layer)).abs()
        mean = difference.sum() / (a.config.n_head * n * (n + 1) / 2)
        layers.append({"layer": layer, "largest": difference.max(), "mean": mean})
    nll_a, nll_b = a.nll().mean(), b.nll().mean()
    return {"n": n - 1, "a_nll_nats": nll_a, "b_nll_nats": nll_b, "delta_nll_nats": nll_b - nll_a,
            "kl_nats": kl(a.logp, b.logp).mean(), "top1_agreement": 1 - change(a, b)["top1_changed"],
            "layers": layers}


def view_experts(options):
    run = prompt_run(options)
    layers = [layer for site, layer in run.sites if site == "expert_weights" and options.layer in (None, layer)]
    rows = []
    for layer in layers:
        weights, n_used = run.site("expert_weights", layer), run.config.n_expert_used
        chosen = [top(row, n_used) for row in weights]
        rows.append({"layer": layer, "experts": chosen, "weights": [row[order] for row, order in zip(weights, chosen)],
                     "load": (weights > 0).double().mean(0)})
    return {"n_expert": weights.shape[1], "n_expert_used": n_used, "layers": rows}


VIEWS = {name[5:]: view for name, view in globals().items() if name.startswith("view_")}


def parser():
    p = argparse.ArgumentParser(add_help=False)
    p.add_argument("command")
    p.add_argument("model")
    p.add_argument("other", nargs="?")
    p.add_argument("-p", dest="prompt")
    p.add_argument("-f", dest="file")
    p.add_argument("-c", type=int)
    p.add_argument("-n", type=int, default=0)
    p.add_argument("-s", type=int, default=0)
    for name in "layer", "head", "query", "top", "repeat":
        p.add_argument("--" + name, type=int)
    p.add_argument("--batch", type=int, default=10)
    p.add_argument("--top-k", type=int, default=0)
    for name, default in ("temp", 1.0), ("top-p", 1.0), ("min-p", 0.0):
        p.add_argument("--" + name, type=float, default=default)
    for name in "token", "reduce", "by", "heads", "mlps", "sweep", "what", "layers", "positions", "ablate":
        p.add_argument("--" + name)
    p.add_argument("--with", dest="with_file")
    for name in "bos", "no-bos", "words", "chunks", "mid", "frozen-norm", "no-sink", "norm", "hard-zero":
        p.add_argument("--" + name, action="store_true")
    return p


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
    paths.update({name: f"{FOLDER}/{name}" for name in TEXTS})
    words, models = shlex.split(line), model_names()
    lettered = any(word in models and not has_vocabulary(word) for word in words)
    return [paths.get(word, word) for word in words] + ["-z", f"{FOLDER}/{LETTERS}.gguf"] * lettered


def model_names():
    return [name[:-5] for name in os.listdir(MODELS) if name.endswith(".gguf")]


def write_case(folder, name, line):
    options = parser().parse_args(shlex.split(line))
    expect = plain(VIEWS[options.command](options))
    case = {"arguments": arguments(line) + ["--json"], "tolerance": TOLERANCE, "expect": expect}
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
    if site in ("scores", "pattern"):  # [head][query][key]
        return block + f"attn.hook_{'attn_' * (site == 'scores')}{site}", x[heads][:, at]
    if site in ("q", "k", "v", "z"):  # [position][head][d_head]
        if site in ("k", "v"):
            heads = sorted({run.kv_head(head) for head in heads})
        if site in ("q", "k"):
            x = in_halves(x, rope_dim)
        return block + f"attn.hook_{site}", x[heads][:, at].transpose(0, 1)
    return "logits" if site == "logits" else block + "hook_" + site, x[at]


def write_dump(folder, name, line):
    options = parser().parse_args(shlex.split(line))
    run = prompt_run(options)
    layers, arrays = members(options.layers, run.config.n_layer), {"tokens": torch.tensor(run.ids)}
    for site, layer in run.sites:
        wanted = options.what is None or site in options.what.split(",")
        if wanted and site != "expert_indices" and (site == "logits" or layer in layers):
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
