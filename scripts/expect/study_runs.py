"""The models of study_reference.py at work: their vocabularies, a forward pass kept whole, and numbers made of its rows of
logits. A rank or an order is stated only where rounding in the engine cannot turn it around; else it raises Unsure.
"""
import functools

import numpy as np
import torch

import gguf
from formula import Model, unchanged
from study_cases import MODELS, TEXTS

MARGIN = 5e-6     # of the largest number in a row: what two numbers must differ by for their order to be sure


class Unsure(Exception):
    """A rank or an order hangs on the last bits."""


# The models: byte vocabularies (dtype_models.py), whose tokens are the bytes of the text but for two.

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
        """The number that the norm behind attention divides by there."""
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
            normed = self.model.norm(self.config.output_norm, x)
        else:
            if self.config.norm == "layer":
                x = x - x.mean()
            normed = x / scale * self.final_gain()
            bias = self.model.optional(self.config.output_norm + ".bias")
            normed = normed if bias is None else normed + bias
        logits = normed @ self.unembedding().T
        bias = self.model.optional("output.bias")
        logits = (logits if bias is None else logits + bias) * self.config.logit_scale
        cap = self.config.logit_cap
        return cap * torch.tanh(logits / cap) if cap else logits

    def final_gain(self):
        gain = self.model.optional(self.config.output_norm + ".weight")
        return 1 if gain is None else gain

    def final_scale(self, position):
        """The number that the final norm divides by there."""
        x = self.site("resid_post", self.config.n_layer - 1)[position]
        square = x.var(unbiased=False) if self.config.norm == "layer" else x.pow(2).mean()
        return torch.sqrt(square + self.config.norm_eps)


def behind(run, layer, branch, made, x):
    """A part x of what a branch made, as it is added: through the norm behind it, whose scale is that of the whole."""
    if run.config.norms != "before":
        scale = torch.sqrt(made.pow(2).mean() + run.config.norm_eps)
        x = x / scale * run.model.weight(f"blk.{layer}.{branch}.weight")
    return x * run.config.residual_scale


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


# Model and texts of a view's run, by its options.

def encode(options, vocabulary, text):
    """(ids, whether there is a BOS in front)"""
    bos = options.bos or vocabulary.is_llama and not options.no_bos
    return [vocabulary.bos] * bos + vocabulary.encode(text), bos


def prompt_run(options, name=None):
    name = name or options.model
    text = options.prompt if options.prompt is not None else TEXTS[options.file]
    return Run(name, encode(options, vocabulary_of(name), text)[0])


def words(vocabulary, ids, begins):
    """[begin, end) of the words from position begins[0] on; one begins at each of `begins`, and after space."""
    begins = [i for i in range(begins[0], len(ids)) if i in begins or vocabulary.starts_word(ids[i])]
    return list(zip(begins, begins[1:] + [len(ids)]))
