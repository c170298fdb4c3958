"""Trained models whose answers others have published, converted so that the engine holds them exactly.

They are not part of this repository: whoever wants these checks clones what they come from, and names the folder in
PROVE_MODELS (else ~/.cache/attn/known):

    git clone https://github.com/bbycroft/llm-viz                                      a sorter, minGPT's gpt-nano
    git clone https://github.com/neelnanda-io/Grokking                                 an induction head
    git clone https://github.com/staghado/minimal-ten-digit-addition-transformer       an adder, Qwen3's smallest
"""
import base64
import itertools
import json
import os
import struct

import numpy as np

import gguf
from circuits import Circuit
from compiler import EPSILON
from study import RUN, call, dump, study

FOLDER = os.environ.get("PROVE_MODELS", os.path.expanduser("~/.cache/attn/known"))
u32, f32 = np.uint32, np.float32


def find(*path):
    """A file of FOLDER, or None."""
    path = os.path.join(FOLDER, *path)
    return path if os.path.exists(path) else None


def vocabulary(letters):
    """One token for each character. GPT-2's kind, whose characters stand for bytes, or, of many, SentencePiece's."""
    usual = {"tokenizer.ggml.tokens": list(letters), "tokenizer.ggml.token_type": np.ones(len(letters), "<i4"),
             "tokenizer.ggml.add_bos_token": False}
    if "".join(letters).isascii():
        return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.merges": [], **usual}
    return {"tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": np.zeros(len(letters), "<f4"),
            "tokenizer.ggml.add_space_prefix": False, **usual}


# The sorter

def read_arrays(path):
    with open(path) as file:
        items = json.load(file)
    return {name: np.frombuffer(base64.b64decode(item["data"]), "<f4").reshape(item["shape"])
            for name, item in items.items() if name != "config"}


SORTER = {"transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm",
          "lm_head": "output"}
SORTER_LAYER = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
                "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}


def write_sorter(arrays, path):
    tensors = {}
    for name, array in arrays.items():
        part, kind = name.rsplit(".", 1)
        if part.startswith("transformer.h."):
            layer, part = part[len("transformer.h."):].split(".", 1)
            if part != "attn":  # whose "bias" is the mask
                tensors[f"blk.{layer}.{SORTER_LAYER[part]}.{kind}"] = array
        else:
            tensors[f"{SORTER[part]}.{kind}"] = array
    gguf.write(path, {
        "general.architecture": "gpt2", "general.name": "gpt-nano, sorts", "gpt2.block_count": u32(3),
        "gpt2.context_length": u32(11), "gpt2.embedding_length": u32(48), "gpt2.feed_forward_length": u32(192),
        "gpt2.attention.head_count": u32(3), "gpt2.attention.layer_norm_epsilon": f32(1e-5), **vocabulary("ABC")}, tensors)


def published_differences(path, published):
    """{name: the largest difference} of what the engine computes from the published arrays, of their texts."""
    where = {"x": "blocks.0.hook_resid_pre", "q": "blocks.0.attn.hook_q", "k": "blocks.0.attn.hook_k",
             "v": "blocks.0.attn.hook_v", "attSm": "blocks.0.attn.hook_pattern", "attnResid": "blocks.0.hook_resid_mid",
             "block0": "blocks.0.hook_resid_post", "block1": "blocks.1.hook_resid_post",
             "block2": "blocks.2.hook_resid_post", "lm_head": "logits"}
    most = dict.fromkeys(where, 0.0)
    for text, ids in enumerate(published["idx"].astype(int)):
        arrays = dump(path, "resid_pre,q,k,v,pattern,resid_mid,resid_post,logits", "--ids", ",".join(map(str, ids)))
        for name, key in where.items():
            wanted = published[name][text] if len(published[name]) > 1 else published[name][0]
            if name in "qkv":
                wanted = wanted.transpose(1, 0, 2)
            most[name] = max(most[name], float(np.abs(arrays[key] - wanted).max()))
    return most


def sorter(folder):
    model = find("llm-viz", "public", "gpt-nano-sort-model.json")
    partials = find("llm-viz", "public", "gpt-nano-sort-t0-partials.json")
    if not model or not partials:
        return None
    path = os.path.join(folder, "sorter.gguf")
    write_sorter(read_arrays(model), path)
    differences = published_differences(path, read_arrays(partials))
    right, texts = 0, ["".join(letters) for letters in itertools.product("ABC", repeat=6)]
    for text in texts:
        written = call(RUN, path, "-p", text, "-n", 6, "--temp", 0, "--no-echo", "-t", 1).strip()
        right += written == "".join(sorted(text))
    logits = differences.pop("lm_head")
    worst = max(differences.values())
    return [("sorts six letters", f"{right} of {len(texts)}", "729 of 729", right == 729),
            ("q, k, v, pattern and residuals as published", f"to {worst:.1e}", "2e-06", worst <= 2e-6),
            ("logits as published", f"to {logits:.1e}", "", logits <= 1e-5)]


# The induction head

def read_pickle(path):
    """The weights; None without PyTorch, which wrote them."""
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    saved = torch.load(path, map_location="cpu")
    return {name: value.numpy().astype("f8") for name, value in saved["model"].items()}


LETTERS = [chr(0x4E00 + i) for i in range(128)]


def write_induction(w, path, blind=None):
    """As one of `opt`'s: norms that change nothing (compiler.py), and MLPs of zeros. blind: a head of layer 0 that the keys
    of layer 1 do not see. The stream then stands there twice, the second time without that head, and keys read this one."""
    d, n_head, d_head = 48, 4, 12
    copies = 2 if blind is not None else 1
    width = 4 + copies * d  # the first keeps the sum at 0

    def write(columns, second=None):
        """Rows that are written to the stream: [n][d] → [n][width]."""
        row = np.concatenate([np.zeros((len(columns), 4)), columns] + [columns if second is None else second] *
                             (copies - 1), 1)
        row[:, 0] = -row.sum(1)
        return row

    def read(rows, copy=0):
        out = np.zeros((len(rows), width))
        out[:, 4 + copy * d:4 + (copy + 1) * d] = rows
        return out

    norm = lambda name: {name + ".weight": np.full(width, np.sqrt(EPSILON)), name + ".bias": np.zeros(width)}
    tensors = {"token_embd.weight": write(w["embed.W_E"].T), "position_embd.weight": write(w["pos_embed.W_pos"]),
               "output.weight": read(w["unembed.W_U"].T), **norm("output_norm")}
    for layer in range(2):
        block, seen = f"attn_blocks.{layer}.attn.W_", int(layer == 1 and copies == 2)
        w_o = w[block + "O"].T  # [head · d_head][d]
        unseen = w_o.copy()
        if layer == 0 and copies == 2:
            unseen[blind * d_head:(blind + 1) * d_head] = 0
        part = {"attn_q.weight": read(w[block + "Q"].reshape(-1, d)),
                "attn_k.weight": read(w[block + "K"].reshape(-1, d), seen),
                "attn_v.weight": read(w[block + "V"].reshape(-1, d)), "attn_output.weight": write(w_o, unseen).T,
                "ffn_up.weight": np.zeros((4, width)), "ffn_down.weight": np.zeros((width, 4)), **norm("attn_norm"),
                **norm("ffn_norm")}
        tensors.update({f"blk.{layer}.{name}": array for name, array in part.items()})
    gguf.write(path, {
        "general.architecture": "opt", "general.name": "induction head", "opt.block_count": u32(2),
        "opt.context_length": u32(85), "opt.embedding_length": u32(width), "opt.feed_forward_length": u32(4),
        "opt.attention.head_count": u32(n_head), "opt.attention.key_length": u32(d_head),
        "opt.attention.value_length": u32(d_head), "opt.attention.layer_norm_epsilon": f32(EPSILON),
        **vocabulary(LETTERS)}, {name: np.asarray(array, "<f4") for name, array in tensors.items()})


def repeats(random):
    """(85 random tokens, among which 16 stand three times; where the second and the third copy begin)"""
    ids, copy = random.randint(0, 128, 85), random.randint(0, 128, 16)
    gaps = np.sort(random.randint(0, 85 - 48 + 1, 3))
    starts = gaps + 16 * np.arange(3)
    for start in starts:
        ids[start:start + 16] = copy
    return ids, starts[1:]


def surprisals(w, ids, blind=None):
    """In float64, by the formula: [n − 1] nats of the tokens but the first."""
    x, causal = w["embed.W_E"].T[ids] + w["pos_embed.W_pos"][:len(ids)], np.tril(np.ones((len(ids),) * 2, bool))
    unseen = x  # without the blind head, which keys of layer 1 do not see
    for layer in range(2):
        block = f"attn_blocks.{layer}.attn.W_"
        q, k, v = (np.einsum("pd,hid->hpi", stream, w[block + letter])
                   for letter, stream in (("Q", x), ("K", unseen), ("V", x)))
        scores = np.where(causal, q @ k.transpose(0, 2, 1) / np.sqrt(12), -np.inf)
        pattern = np.exp(scores - scores.max(-1, keepdims=True))
        z = pattern / pattern.sum(-1, keepdims=True) @ v
        outs = [z[head] @ w[block + "O"].T[head * 12:(head + 1) * 12] for head in range(4)]
        unseen = x + sum(out for head, out in enumerate(outs) if head != blind)
        x = x + sum(outs)
    logits = x[:-1] @ w["unembed.W_U"]
    logits -= logits.max(-1, keepdims=True)
    return np.log(np.exp(logits).sum(-1)) - logits[np.arange(len(ids) - 1), ids[1:]]


def of_repeats(nll, starts):
    """The mean over the second and third copies but for their first tokens."""
    return np.mean([nll[start + i - 1] for start in starts for i in range(1, 16)])


def nll_of_repeats(w, path, texts, blind=None):
    """(the mean over all texts by the formula, the engine's largest difference in a token of some of them)"""
    expected, most = [surprisals(w, ids, blind) for ids, _ in texts], 0
    for (ids, _), nll in zip(texts[:20], expected):
        positions = study("score", path, "--ids", ",".join(map(str, ids)))["positions"]
        most = max(most, np.abs(np.array([position["surprisal_nats"] for position in positions]) - nll).max())
    return np.mean([of_repeats(nll, starts) for nll, (_, starts) in zip(expected, texts)]), most


def induction_pairs(random, n):
    """16 tokens, 4 others, and the first 8 to 14 again; corrupted, the token that is last
    stood not among the 16, so that nothing says what follows it."""
    pairs = []
    for _ in range(n):
        ids, length = random.permutation(128)[:40], random.randint(8, 15)
        text = np.concatenate([ids[:20], ids[:length]])
        other = text.copy()
        other[length - 1] = ids[30]
        clean, corrupted = ("".join(LETTERS[i] for i in t) for t in (text, other))
        pairs.append({"clean": clean, "corrupted": corrupted, "answer": LETTERS[ids[length]], "wrong": LETTERS[ids[31]]})
    return pairs


def ablated_row(path, texts):
    """The worth of each head of layer 0 as a whole, by all edges: nats a token of all positions."""
    changes = np.zeros(4)
    for ids, _ in texts:
        cells = study("ablate", path, "--sweep", "heads", "--ids", ",".join(map(str, ids)))["cells"]
        changes += [cell["delta_nll_nats"] / len(texts) for cell in cells if cell["layer"] == 0]
    return "ablate L0H0, L0H1, L0H2, L0H3: nats a token, of all", " ".join(f"{x:+.2f}" for x in changes), "", True


def induction_head(folder):
    source = find("Grokking", "saved_runs", "induction_head_infinite.pth")
    w = read_pickle(source) if source else None
    if not w:
        return None
    random, rows, differences = np.random.RandomState(1), [], []
    texts = [repeats(random) for _ in range(500)]
    path = os.path.join(folder, "induction-head.gguf")
    for blind in (3, 2, 1, 0, None):
        write_induction(w, path, blind)
        nll, difference = nll_of_repeats(w, path, texts, blind)
        differences.append(difference)
        known = "2.67" if blind is None else "4.98" if blind == 2 else "2.67 to 2.74"
        what = "nll of repeats" if blind is None else f"without the edges from L0H{blind} to layer 1's keys"
        rows.insert(0, (what, f"{nll:.2f} nats", known, abs(nll - float(known.split()[-1])) < 0.15))
    rows.append(("the engine's surprisals, of all five models", f"to {max(differences):.1e}", "", max(differences) < 1e-4))
    rows.append(ablated_row(path, texts[:20]))
    edges = [f"L0H{i}:L1H{j}.{letter}" for i in range(4) for j in range(4) for letter in "qkv"]
    effects = {edge: effect for edge, (effect, _) in
               Circuit(path, induction_pairs(random, 40), folder).edges(edges).items()}
    keys = sorted((edge for edge in edges if edge[:4] == "L0H2" and edge[-1] == "k"), key=effects.get, reverse=True)
    rest = max((edge for edge in edges if edge not in keys), key=lambda edge: abs(effects[edge]))
    rows.append(("patch the edges from L0H2 to " + ", ".join(edge[5:] for edge in keys[:3]),
                 " ".join(f"{effects[edge]:+.2f}" for edge in keys[:3]), "L1H1 to L1H3",
                 {edge[5:9] for edge in keys[:3]} == {"L1H1", "L1H2", "L1H3"}))
    rows.append((f"patch the largest of the other {len(edges) - 4}, {rest}", f"{effects[rest]:+.2f}", "",
                 abs(effects[rest]) < effects[keys[0]] / 2))
    return rows


# The adder

def write_safetensors(path, arrays):
    header, at = {}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for array in arrays.values()))


def write_adder(arrays, folder):
    """As a folder of Hugging Face's, with the configuration that the repository's submission.py says."""
    os.makedirs(folder, exist_ok=True)
    write_safetensors(os.path.join(folder, "model.safetensors"), arrays)
    config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4, "num_hidden_layers": 1,
              "intermediate_size": 6, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
              "rms_norm_eps": 1e-6, "vocab_size": 10, "tie_word_embeddings": True, "max_position_embeddings": 64,
              "rope_theta": 3.0, "hidden_act": "silu", "torch_dtype": "float32"}
    tokenizer = {"model": {"type": "BPE", "vocab": {str(i): i for i in range(10)}, "merges": []},
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "decoder": {"type": "ByteLevel"},
                 "added_tokens": []}
    for name, content in ("config.json", config), ("tokenizer.json", tokenizer):
        with open(os.path.join(folder, name), "w") as file:
            json.dump(content, file)


def adder(folder, n=1000):
    source = find("minimal-ten-digit-addition-transformer", "checkpoint", "best_228.npz")
    if not source:
        return None
    with np.load(source) as arrays:
        arrays = {name: np.ascontiguousarray(arrays[name], "<f4") for name in arrays}
    path = os.path.join(folder, "adder")
    write_adder(arrays, path)
    random, right = np.random.RandomState(1), 0
    for _ in range(n):
        a, b = (int(x) for x in random.randint(0, 10 ** 10, 2))
        text = "0" + f"{a:010d}"[::-1] + "00" + f"{b:010d}"[::-1] + "0"
        digits = call(RUN, path, "-p", text, "-n", 11, "--temp", 0, "--no-echo", "-t", 1).strip()
        right += digits == f"{a + b:011d}"[::-1]
    count = sum(array.size for array in arrays.values())
    return [(f"sums of ten digits, {count} parameters", f"{right} of {n}", "1000 of 1000", right == n)]


MODELS = [("minGPT's sorter", sorter), ("induction head of two layers", induction_head), ("Qwen3 that adds", adder)]
