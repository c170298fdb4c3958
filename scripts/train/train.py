#!/usr/bin/env python3
"""Trains a model of the GPT-2 family (Radford et al. 2019) on the token files of corpus.py, with PyTorch.

    scripts/train/train.py data -o out --preset gpu --minutes 12      # one large GPU
    scripts/train/train.py data -o out --preset amx --minutes 120     # two cores with AMX
    scripts/train/train.py data -o out --preset cpu --minutes 150     # two cores without
    scripts/train/train.py data -o out --preset gpu --last last --last-from 0.7  # the rest of the time on last/train.bin
    scripts/train/train.py data -o out                                # goes on where it was killed
    scripts/train/train.py data -o out --from weights/model.gguf --preset cpu    # from an exported model's weights

Writes into the output folder checkpoint.pt (replaced as a whole every few minutes), log.csv, samples.txt
and, at the end, result.json. Every token is seen once before any is seen twice: an epoch is a shuffle of
all windows of n_ctx tokens, which begin at another place each time. What a step reads follows from its
number and the seed alone, so a resumed run goes on exactly where it was (and the text of --last begins amid an
epoch of its own); with --steps in place of --minutes a CPU gives the same weights bit for bit each time. With
--minutes the learning rate follows the clock: its cosine ends when the time is up, however fast the machine is.

Bits per byte: the held-out tokens, END before the first document and after each one, are cut into windows
of n_ctx that begin n_ctx/2 apart. A window predicts each token from the ones before it; of the first
window all predictions count, of each later one the second half, so that every token but the first is
predicted once, and (but for the beginning) from at least n_ctx/2 others. The sum of −log2 p, that of END
included, is divided by the bytes of the documents' text.
"""
import argparse
import contextlib
import csv
import ctypes
import dataclasses
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

CPUINFO = pathlib.Path("/proc/cpuinfo")
CPU = set(re.search("flags.*|$", CPUINFO.read_text())[0].split()) if CPUINFO.exists() else set()
INTEL = CPUINFO.exists() and "GenuineIntel" in CPUINFO.read_text()
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # else PyTorch's threads, waiting, keep OpenBLAS's from the cores
if {"avx512bw", "avx512dq", "avx512vl"} <= CPU:
    os.environ.setdefault("ATEN_CPU_CAPABILITY", "avx512")  # PyTorch's default is AVX2: half the speed

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import gguf  # noqa: E402
from muon import Muon  # noqa: E402
from rounding import Rounded  # noqa: E402
from tokenizer import Tokenizer  # noqa: E402

HELD_OUT = ("wiki-val", "books-val")
PROMPTS = ("The Eiffel", "The capital of France", "The old man opened the door and", "In the winter of 1850")
SHAPE = {"gpt2.block_count": "n_layer", "gpt2.context_length": "n_ctx", "gpt2.embedding_length": "d_model",
         "gpt2.attention.head_count": "n_head"}  # GGUF's name of each number
FUSED_ATTENTION = hasattr(F, "scaled_dot_product_attention")


@dataclasses.dataclass(frozen=True)
class Config:
    n_layer: int
    n_head: int
    d_model: int
    n_ctx: int
    batch: int             # windows per step
    micro_batch: int       # windows at a time, as memory allows; on a CPU, as its caches do
    learning_rate: float   # at its peak
    dropout: float         # of attention weights, residual branches and embeddings
    n_vocab: int = 0
    minutes: float = 0     # of training, all told; or
    steps: int = 0
    warmup: int = 200      # steps
    weight_decay: float = 0.1
    beta2: float = 0.95
    optimizer: str = "adamw"  # or "muon"
    gradients: str = "autograd"  # or "fused": gradients.c
    clip: float = 1.0      # norm of the gradient
    rounding: int = 0      # bits of the blocks (round_blocks) that the matrices are rounded to, 4, 5 or 8; 0: not
    rounding_from: float = 0.5  # of the training: from there on the loss is that of the rounded matrices
    last: str = ""         # the folder whose training text is read in the end, while the learning rate is low; "": the same
    last_from: float = 0.7  # of the training
    validate_every: int = 500   # steps
    validate_tokens: int = 0    # of each held-out text while training; 0: all
    save_minutes: float = 3.0
    seed: int = 1
    start: str = ""        # the exported model that it begins with (--from); else random numbers


PRESETS = {  # 23.6, 14.0 and 6.9 million parameters with 8,192 tokens: in Q5_0 17.3, in Q8_0 15.8 and 7.9 MB
    "gpu": Config(6, 8, 512, 1024, batch=128, micro_batch=128, learning_rate=4e-3, dropout=0.1, minutes=12, beta2=0.98,
                  weight_decay=0.3, optimizer="muon", rounding=5, validate_every=1000, validate_tokens=65536),
    "amx": Config(6, 6, 384, 512, batch=16, micro_batch=8, learning_rate=3e-3, dropout=0.0, minutes=120, beta2=0.99,
                  optimizer="muon", validate_tokens=16384),
    "cpu": Config(6, 8, 256, 256, batch=16, micro_batch=4, learning_rate=1.5e-3, dropout=0.0, minutes=150,
                  validate_tokens=16384),
    "tiny": Config(2, 2, 32, 64, batch=4, micro_batch=2, learning_rate=1e-3, dropout=0.1, steps=12, warmup=2,
                   validate_every=4, validate_tokens=256, save_minutes=0),
}


def attention_in_blocks(q, k, v, dropout, block=256):
    """For PyTorch before 2.0: blocks of queries, each with the keys up to its last."""
    q, parts = q / math.sqrt(q.shape[3]), []
    for first in range(0, q.shape[2], block):
        end = min(first + block, q.shape[2])
        scores = q[:, :, first:end] @ k[:, :, :end].transpose(2, 3)
        future = torch.full(scores.shape[2:], -math.inf, dtype=scores.dtype, device=q.device).triu(first + 1)
        parts.append(F.dropout((scores + future).softmax(3), dropout) @ v[:, :, :end])
    return torch.cat(parts, 2)


class Block(nn.Module):
    """The modules bear the names of their tensors in GGUF."""

    def __init__(self, c):
        super().__init__()
        self.n_head, self.dropout = c.n_head, c.dropout
        self.attn_norm = nn.LayerNorm(c.d_model)
        self.attn_qkv = nn.Linear(c.d_model, 3 * c.d_model)
        self.attn_output = nn.Linear(c.d_model, c.d_model)
        self.ffn_norm = nn.LayerNorm(c.d_model)
        self.ffn_up = nn.Linear(c.d_model, 4 * c.d_model)
        self.ffn_down = nn.Linear(4 * c.d_model, c.d_model)

    def forward(self, x):
        x = x + self.drop(self.attn_output(self.attention(self.attn_norm(x))))
        # For training on a CPU the other form of GELU, no more than 0.0005 apart: a fifth of the time.
        form = "none" if self.training and not x.is_cuda else "tanh"
        return x + self.drop(self.ffn_down(F.gelu(self.ffn_up(self.ffn_norm(x)), approximate=form)))

    def attention(self, x):
        batch, n, d_model = x.shape
        q, k, v = (part.view(batch, n, self.n_head, -1).transpose(1, 2)
                   for part in self.attn_qkv(x).split(d_model, 2))  # [batch][head][n][d_head]
        dropout = self.dropout if self.training else 0.0
        if FUSED_ATTENTION:
            z = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        else:
            z = attention_in_blocks(q, k, v, dropout)
        return z.transpose(1, 2).reshape(batch, n, d_model)

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training)


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.config = c
        self.token_embd = nn.Embedding(c.n_vocab, c.d_model)  # the unembedding too
        self.position_embd = nn.Embedding(c.n_ctx, c.d_model)
        self.blk = nn.ModuleList(Block(c) for _ in range(c.n_layer))
        self.output_norm = nn.LayerNorm(c.d_model)
        for name, parameter in self.named_parameters():
            if name.endswith(("attn_output.weight", "ffn_down.weight")):  # what adds to the residual stream
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * c.n_layer))
            elif parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids, targets=None):
        """Logits [batch][n][n_vocab] of ids [batch][n], or their mean loss in nats."""
        x = self.token_embd(ids) + self.position_embd.weight[:ids.shape[1]]
        x = F.dropout(x, self.config.dropout, self.training)
        for block in self.blk:
            x = block(x)
        logits = F.linear(self.output_norm(x), self.token_embd.weight)
        return logits if targets is None else F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class Windows:
    """The training text on the device, and which part of it each step sees."""

    def __init__(self, path, c, device):
        self.ids = torch.from_numpy(np.fromfile(path, np.uint16).astype(np.int32)).to(device)
        self.n_ctx, self.batch, self.seed = c.n_ctx, c.batch, c.seed
        self.n_windows = (len(self.ids) - 1) // c.n_ctx - 1  # one less: the first begins anywhere in n_ctx
        if self.n_windows < 1:
            raise SystemExit(f"{path}: {len(self.ids)} tokens are too few for a context of {c.n_ctx}")
        self.epoch = None

    def starts(self, step):
        """Where the windows of a step begin: int64 [batch]."""
        places = []
        for i in range(step * self.batch, (step + 1) * self.batch):
            epoch, place = divmod(i, self.n_windows)
            if epoch != self.epoch:
                random = np.random.RandomState([self.seed, epoch])
                self.epoch, self.offset = epoch, random.randint(self.n_ctx)
                self.order = random.permutation(self.n_windows)
            places.append(self.offset + self.order[place] * self.n_ctx)
        return torch.tensor(places, device=self.ids.device)

    def rows(self, starts):
        """[windows][n_ctx + 1]"""
        return self.ids[starts[:, None] + torch.arange(self.n_ctx + 1, device=starts.device)]

    def take(self, starts):
        """(ids, targets) [windows][n_ctx]."""
        rows = self.rows(starts).long()
        return rows[:, :-1], rows[:, 1:]


@torch.no_grad()
def bits_per_byte(model, ids, piece_bytes, batch=32):
    """By the rule at the top of this file. ids: numpy; piece_bytes: bytes of text of each token."""
    model.eval()
    n_ctx, device = model.config.n_ctx, model.token_embd.weight.device
    starts = list(range(0, max(len(ids) - 1 - n_ctx // 2, 1), n_ctx // 2))
    padded = np.concatenate([ids, np.zeros(n_ctx, ids.dtype)]).astype(np.int64)
    nats = 0.0
    for first in range(0, len(starts), batch):
        rows = np.stack([padded[start:start + n_ctx + 1] for start in starts[first:first + batch]])
        rows = torch.from_numpy(rows).to(device)
        loss = F.cross_entropy(model(rows[:, :-1]).transpose(1, 2), rows[:, 1:], reduction="none")
        for row, start in zip(loss.double(), starts[first:first + batch]):
            nats += row[n_ctx // 2 if start else 0:len(ids) - 1 - start].sum().item()
    model.train()
    return nats / math.log(2) / piece_bytes[ids].sum()


@torch.no_grad()
def sample(model, tokenizer, prompt, n, temperature, seed):
    """The prompt and n more tokens, as text."""
    model.eval()
    device, random = model.token_embd.weight.device, torch.Generator().manual_seed(seed)
    ids = tokenizer.encode(prompt)
    while n > 0 and ids[-1] != tokenizer.end:
        logits = model(torch.tensor([ids[-model.config.n_ctx:]], device=device))[0, -1].float().cpu()
        if temperature == 0:
            ids.append(int(logits.argmax()))
        else:
            ids.append(int(torch.multinomial((logits / temperature).softmax(0), 1, generator=random)))
        n -= 1
    model.train()
    return tokenizer.decode(ids).decode("utf-8", "replace")


class Gradients:
    """gradients.c in place of autograd, on a CPU with AVX-512 and BF16: sooner, and GELU is the tanh form, the engine's."""

    def __init__(self, model, folder, march="native"):
        c = model.config
        if c.dropout or model.token_embd.weight.is_cuda:
            raise SystemExit("--gradients fused: it knows no dropout, and no GPU")
        if "avx512_bf16" not in CPU:
            raise SystemExit("--gradients fused: this CPU has no AVX-512 with BF16")
        source, library = pathlib.Path(__file__).with_name("gradients.c"), folder / "gradients.so"
        options = ["-DSLOW_BF16"] if INTEL else []  # Intel's cores do F32's multiply-adds twice as fast as bf16's dot
        subprocess.run(["cc", "-O3", f"-march={march}", *options, "-fPIC", "-shared", "-o", library, source, "-lm", "-lpthread"],
                       check=True)
        self.library = ctypes.CDLL(str(library.resolve()))
        self.library.gradients_new.restype = ctypes.c_void_p
        self.library.gradients_run.restype = ctypes.c_double
        self.own = ctypes.c_void_p(self.library.gradients_new(c.n_layer, c.n_head, c.d_model, c.n_ctx, c.n_vocab,
                                                              torch.get_num_threads()))
        if not self.own:
            raise SystemExit("gradients.c: it takes heads of 64, other numbers in multiples of 32, and a CPU that grants its tiles")
        self.parameters = list(model.parameters())
        self.buffers = [torch.zeros_like(p) for p in self.parameters]

    def __call__(self, rows):
        """The mean loss in nats of windows [n][n_ctx + 1]; its gradients stand in the parameters' .grad."""
        def addresses(tensors):
            return (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))

        for parameter, buffer in zip(self.parameters, self.buffers):
            parameter.grad = buffer
        rows = rows.to(torch.int32).contiguous()
        loss = self.library.gradients_run(self.own, addresses(self.parameters), addresses(self.buffers),
                                          ctypes.c_void_p(rows.data_ptr()), len(rows))
        if math.isnan(loss):
            raise SystemExit("gradients.c: the loss is no number, or a thread could not be started")
        return loss


def make_optimizer(model, c):
    """AdamW (Loshchilov & Hutter 2019), or Muon for the matrices of the blocks; the decay pulls at matrices only, not
    at norms and biases."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    groups = [{"params": [p for p in model.parameters() if p.dim() != 2], "weight_decay": 0.0}]
    if c.optimizer == "muon":
        hidden = {p for p in model.blk.parameters() if p.dim() == 2}
        groups += [{"params": [p for p in matrices if p in hidden], "weight_decay": c.weight_decay},
                   {"params": [p for p in matrices if p not in hidden], "weight_decay": c.weight_decay}]
        for i, group in enumerate(groups):
            group["muon"] = i == 1
        return Muon(groups, lr=c.learning_rate, betas=(0.9, c.beta2))
    if c.optimizer != "adamw":
        raise SystemExit(f"--optimizer {c.optimizer}: there are adamw and muon")
    groups += [{"params": matrices, "weight_decay": c.weight_decay}]
    fused = {"fused": True} if matrices[0].is_cuda else {}
    return torch.optim.AdamW(groups, lr=c.learning_rate, betas=(0.9, c.beta2), **fused)


def start_from(path, model, tokenizer):
    """Puts the weights of an exported model, dequantised, into this one, which must be of the same kind."""
    try:
        metadata, tensors = gguf.read(path)
    except (OSError, ValueError) as error:
        raise SystemExit(error)
    expected = {"general.architecture": "gpt2", **{key: getattr(model.config, name) for key, name in SHAPE.items()}}
    for key, value in expected.items():
        if metadata.get(key) != value:
            raise SystemExit(f"{path}: {key} is {metadata.get(key)}; the model to train has {value}")
    merges = [" ".join(merge) for merge in tokenizer.merges]
    if (metadata.get("tokenizer.ggml.tokens"), metadata.get("tokenizer.ggml.merges")) != (tokenizer.tokens, merges):
        raise SystemExit(f"{path}: its vocabulary is not that of the token files")
    own = {name: tuple(values.shape) for name, values in model.state_dict().items()}
    found = {name: tensor.shape for name, tensor in tensors.items()}
    for name in [*own, *found]:
        if found.get(name) != own.get(name):
            raise SystemExit(f"{path}: {name} has the shape {found.get(name)}; the model to train has {own.get(name)}")
    model.load_state_dict({name: torch.tensor(tensor.numpy()) for name, tensor in tensors.items()})


class Run:
    """One training: what a checkpoint holds, and how it goes on."""

    def __init__(self, args):
        self.data, self.out = pathlib.Path(args.data), pathlib.Path(args.output)
        self.out.mkdir(parents=True, exist_ok=True)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        path = self.out / "checkpoint.pt"
        saved = torch.load(path, map_location=self.device) if path.exists() else None
        self.tokenizer = Tokenizer.load(self.data / "tokenizer.json")
        self.config = c = Config(**saved["config"]) if saved else choose_config(args, self.tokenizer.n_vocab)
        torch.manual_seed(c.seed)
        self.model = Model(c).to(self.device)
        self.optimizer = make_optimizer(self.model, c)
        self.step, self.seconds = 0, 0.0
        if saved:
            self.restore(saved)
        elif c.start:
            start_from(c.start, self.model, self.tokenizer)
        if c.gradients not in ("autograd", "fused"):
            raise SystemExit(f"--gradients {c.gradients}: there are autograd and fused")
        self.gradients = Gradients(self.model, self.out) if c.gradients == "fused" else None
        self.rounded = Rounded(self.model, c.rounding)
        self.loss_of = self.model
        if self.device == "cuda" and hasattr(torch, "compile"):
            self.loss_of = torch.compile(self.model)
        if c.last and Tokenizer.load(pathlib.Path(c.last, "tokenizer.json")).tokens != self.tokenizer.tokens:
            raise SystemExit(f"{c.last}: its vocabulary is not that of {self.data}")
        self.texts = [Windows(pathlib.Path(folder, "train.bin"), c, self.device) for folder in (self.data, c.last) if folder]
        self.held_out = {name: np.fromfile(self.data / f"{name}.bin", np.uint16) for name in HELD_OUT}
        self.piece_bytes = np.array([len(piece) for piece in self.tokenizer.bytes])
        self.stop = False
        open_log(self.out / "log.csv", self.step)

    def restore(self, saved):
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.step, self.seconds = saved["step"], saved["seconds"]
        torch.set_rng_state(saved["random"].cpu())
        if self.device == "cuda" and saved["cuda_random"] is not None:
            torch.cuda.set_rng_state(saved["cuda_random"].cpu())

    def save(self):
        """Whoever kills us finds either the old checkpoint or the new one."""
        temporary = self.out / "checkpoint.tmp"
        with open(temporary, "wb") as file:
            torch.save({"config": dataclasses.asdict(self.config), "tokenizer": self.tokenizer.to_json(),
                        "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                        "step": self.step, "seconds": self.seconds, "random": torch.get_rng_state(),
                        "cuda_random": torch.cuda.get_rng_state() if self.device == "cuda" else None}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.out / "checkpoint.pt")

    def progress(self):
        """From 0 at the start to 1 at the end."""
        c = self.config
        return self.step / c.steps if c.steps else self.seconds / (60 * c.minutes)

    def learning_rate(self):
        c = self.config
        return c.learning_rate * min(1, (self.step + 1) / c.warmup) * (1 + math.cos(math.pi * self.progress())) / 2

    @property
    def windows(self):
        """Of the text that this step reads."""
        return self.texts[-1 if self.progress() >= self.config.last_from else 0]

    def rounding(self):
        """Entered around whatever computes with the weights."""
        c = self.config
        return self.rounded if c.rounding and self.progress() >= c.rounding_from else contextlib.nullcontext()

    def take_step(self):
        """(loss, norm of the gradient), on the device."""
        c, rate = self.config, self.learning_rate()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with self.rounding():
            loss = self.find_gradients()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), c.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return loss, norm

    def find_gradients(self):
        """The loss of this step's windows."""
        c, loss = self.config, 0
        if self.gradients:
            return torch.tensor(self.gradients(self.windows.rows(self.windows.starts(self.step))))
        with torch.autocast(self.device, torch.bfloat16, self.device == "cuda" or "amx_bf16" in CPU):
            for starts in self.windows.starts(self.step).split(c.micro_batch):
                part = self.loss_of(*self.windows.take(starts)) * (len(starts) / c.batch)
                part.backward()
                loss = loss + part.detach()
        return loss

    def validate(self, n_tokens):
        with self.rounding():
            return {name: bits_per_byte(self.model, ids[:n_tokens or None], self.piece_bytes)
                    for name, ids in self.held_out.items()}

    def write_samples(self):
        with self.rounding(), open(self.out / "samples.txt", "a", encoding="utf-8") as file:
            print(f"step {self.step}", file=file)
            for i, prompt in enumerate(PROMPTS):
                text = sample(self.model, self.tokenizer, prompt, 50, 0.8, self.step * len(PROMPTS) + i)
                print("    " + text, file=file)

    def report(self, losses, norm, seconds, held_out):
        """A row of the log; a line on the terminal."""
        c, loss = self.config, float(torch.stack(losses).mean())
        rate = len(losses) * c.batch * c.n_ctx / max(seconds, 1e-9)
        row = [self.step, f"{self.seconds:.1f}", self.step * c.batch * c.n_ctx, f"{self.learning_rate():.6g}",
               f"{loss:.4f}", f"{float(norm):.3f}", f"{rate:.0f}", *(f"{held_out[n]:.4f}" if held_out else ""
                                                                    for n in HELD_OUT)]
        with open(self.out / "log.csv", "a", newline="") as file:
            csv.writer(file).writerow(row)
        done = min(self.progress(), 1)
        bar = "#" * int(20 * done) + "." * (20 - int(20 * done))
        line = f"{bar} {100 * done:5.1f} %  step {self.step}  loss {loss:.3f}  {rate:,.0f} tokens/s"
        if held_out:
            line += "  bits per byte " + ", ".join(f"{name} {bits:.3f}" for name, bits in held_out.items())
        print(f"\r{line}" if sys.stdout.isatty() and not held_out else f"\r{line}\n", end="", flush=True)

    def train(self, log_every=10):
        c, losses, saved_at, start = self.config, [], self.seconds, time.monotonic() - self.seconds
        reported_at = self.seconds
        while self.progress() < 1 and not self.stop:
            loss, norm = self.take_step()
            losses.append(loss)
            self.seconds = time.monotonic() - start
            validate = self.step % c.validate_every == 0
            if validate or self.step % log_every == 0:
                losses[-1].item()  # waits for the GPU, so that the clock is right
                self.seconds = time.monotonic() - start
                spent = self.seconds - reported_at
                self.report(losses, norm, spent, self.validate(c.validate_tokens) if validate else None)
                if validate:
                    self.write_samples()
                self.seconds = reported_at = time.monotonic() - start
                losses = []
            if self.seconds - saved_at >= 60 * c.save_minutes:
                self.save()
                saved_at = self.seconds
        self.save()
        if self.progress() >= 1:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            self.finish()

    def finish(self):
        c = self.config
        self.write_samples()
        held_out = self.validate(0)
        device = f"CPU, {torch.get_num_threads()} threads" if self.device == "cpu" else torch.cuda.get_device_name()
        result = {"bits_per_byte": held_out, "parameters": sum(p.numel() for p in self.model.parameters()),
                  "steps": self.step, "tokens": self.step * c.batch * c.n_ctx,
                  "windows": [text.n_windows for text in self.texts], "seconds": self.seconds,
                  "device": device, "torch": torch.__version__, "config": dataclasses.asdict(c)}
        (self.out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
        print("bits per byte on all of " + ", ".join(f"{name} {bits:.4f}" for name, bits in held_out.items()))


def open_log(path, step):
    """Starts the log, or drops the rows that were written after the checkpoint."""
    header = "step seconds tokens learning_rate loss gradient_norm tokens_per_second".split() + list(HELD_OUT)
    rows = []
    if step and path.exists():
        with open(path, newline="") as file:
            rows = [row for row in list(csv.reader(file))[1:] if len(row) == len(header) and int(row[0]) <= step]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def choose_config(args, n_vocab):
    if not args.preset:
        raise SystemExit("there is no checkpoint to go on from: choose a --preset")
    changes = {name: value for name, value in vars(args).items()
               if value is not None and name in Config.__dataclass_fields__}
    if "minutes" in changes:
        changes.setdefault("steps", 0)
    return dataclasses.replace(PRESETS[args.preset], n_vocab=n_vocab, **changes)


def keep_freed_memory():
    """glibc gives large blocks back when they are freed and gets them again page by page: half of a step's time."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        for parameter, value in ((-8, 1),             # M_ARENA_MAX
                                 (-4, 0),             # M_MMAP_MAX
                                 (-1, 2**31 - 1),     # M_TRIM_THRESHOLD
                                 (-2, 1 << 28)):      # M_TOP_PAD
            mallopt(parameter, value)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="folder that corpus.py wrote")
    parser.add_argument("-o", "--output", default="out", help="folder of the run (out); continues a checkpoint there")
    parser.add_argument("--preset", choices=PRESETS)
    parser.add_argument("--from", dest="start", metavar="MODEL.gguf", help="begin with the weights of this model")
    for field in dataclasses.fields(Config):
        if field.name not in ("n_vocab", "start"):
            name = "--" + field.name.replace("_", "-")
            parser.add_argument(name, type=field.type, help="instead of the preset's")
    args = parser.parse_args()
    keep_freed_memory()
    try:
        run = Run(args)
    except OSError as error:
        raise SystemExit(error)

    def stop(*_):
        run.stop = True  # after this step, with a checkpoint

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    run.train()


if __name__ == "__main__":
    main()
