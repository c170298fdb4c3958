"""Weights are those of the file, by another reader, and what the formula makes of them; gradients are PyTorch's autograd's."""
import functools
import sys
import tempfile

import numpy as np

import attn
from attn import _library
from attn._sites import NAMES, Site
from common import DATA, LETTERS, REFERENCES, TREE, fails, model, opened, reference

sys.path.insert(0, str(TREE / "scripts"))
import gguf  # noqa: E402

SITES = {_library.library.attn_site_name(site).decode(): site for site in Site}
CAPPED = ("gemma2", "gemma2-bare", "gemma2-june")  # their logits go through tanh
VECTORS = {"attn_norm": "ln1", "attn_post_norm": "ln1_post", "post_attention_norm": "ln1_post", "ffn_norm": "ln2",
           "ffn_post_norm": "ln2_post", "post_ffw_norm": "ln2_post", "attn_q_norm": "attn.q_norm", "attn_k_norm": "attn.k_norm"}


@functools.lru_cache(maxsize=None)
def read(name):
    """Metadata and tensors, by the other reader."""
    return gguf.read(str(reference(name)))


def paired(name, metadata):
    """How many of a head's numbers have their partners side by side in the file alone, by the family's published conversion."""
    family = metadata["general.architecture"]
    if family not in ("llama", "granite", "granitemoe", "olmo", "smollm3", "internlm2", "baichuan"):
        return 0
    heads = int(metadata[f"{family}.attention.head_count"])
    width = metadata.get(f"{family}.attention.key_length", int(metadata[f"{family}.embedding_length"]) // heads)
    return 0 if name == "baichuan-alibi" else int(metadata.get(f"{family}.rope.dimension_count", width))


def turned(array, n, axis):
    """A head's numbers in training's order: the first halves of the pairs, then the second."""
    places = np.arange(array.shape[axis])
    return np.take(array, np.concatenate([places[0:n:2], places[1:n:2], places[n:]]), axis=axis)


def expected_attention(config, tensors, layer, n):
    """W_Q … by the file's names: [outputs][inputs], heads one behind the other; q, k and v perhaps in one tensor."""
    at = f"blk.{layer}."
    d, kv = config.n_head * config.d_head, config.n_head_kv * config.d_head
    found = {}
    for kind, W, b in (("weight", "W_", "b_"), ("bias", "b_", None)):
        if f"{at}attn_qkv.{kind}" in tensors and f"{at}attn_output.weight" in tensors:
            rows = tensors[f"{at}attn_qkv.{kind}"].numpy()
            q, k, v = rows[:d], rows[d:d + kv], rows[d + kv:]
        elif f"{at}attn_q.{kind}" in tensors:
            q, k, v = (tensors[f"{at}attn_{each}.{kind}"].numpy() for each in "qkv")
            if len(q) == 2 * d:  # each head's gate stands behind its query
                q = q.reshape(config.n_head, 2, config.d_head, -1)[:, 0].reshape(d, -1)
        else:
            continue
        for name, rows in zip("QKV", (q, k, v)):
            heads = rows.reshape(-1, config.d_head, *rows.shape[1:])
            heads = turned(heads, n, 1) if name in "QK" else heads
            found[W + name] = heads.swapaxes(1, 2) if kind == "weight" else heads
    if f"{at}attn_output.weight" in tensors:
        out = tensors[f"{at}attn_output.weight"].numpy()
        found["W_O"] = out.reshape(config.d_model, -1, config.d_head).transpose(1, 2, 0)
    if f"{at}attn_output.bias" in tensors:
        found["b_O"] = tensors[f"{at}attn_output.bias"].numpy()
    return {f"blocks.{layer}.attn.{name}": array for name, array in found.items()}


def expected_mlp(tensors, layer):
    at, found = f"blk.{layer}.", {}
    names = {"up": "in", "gate": "gate", "down": "out"}
    for kind, to in (("weight", "W_"), ("bias", "b_")):
        for theirs, ours in names.items():
            for name in (f"ffn_{theirs}", f"ffn_{theirs}_exps"):
                if f"{at}{name}.{kind}" in tensors:
                    array = tensors[f"{at}{name}.{kind}"].numpy()
                    found[to + ours] = array.swapaxes(-1, -2) if kind == "weight" else array
            separate = [tensors[name].numpy() for e in range(64) for name in [f"{at}ffn_{theirs}.{e}.{kind}"] if name in tensors]
            if separate:
                found[to + ours] = np.stack(separate).swapaxes(-1, -2)
        if f"{at}ffn_gate_inp.{kind}" in tensors:
            router = tensors[f"{at}ffn_gate_inp.{kind}"].numpy()
            found[to + "router"] = router.T if kind == "weight" else router
    if "W_in" in found and "W_gate" not in found and found["W_out"].shape[-2] * 2 == found["W_in"].shape[-1]:
        found["W_gate"], found["W_in"] = np.split(found["W_in"], 2, axis=-1)  # Phi-3's: in one tensor
    return {f"blocks.{layer}.mlp.{name}": array for name, array in found.items()}


def reordered(rows, metadata, axis=0, width=1):
    """Value heads in training's order, [key head][those of one]; GGUF has them the other way round. `rows` may begin with more."""
    family = metadata["general.architecture"]
    n_value, n_key = (int(metadata[f"{family}.ssm.{each}"]) for each in ("time_step_rank", "group_count"))
    more, values = np.split(rows, [rows.shape[axis] - n_value * width], axis=axis)
    values = np.moveaxis(values, axis, 0)
    apart = values.reshape(n_value // n_key, n_key, width, *values.shape[1:]).swapaxes(0, 1).reshape(values.shape)
    return np.concatenate([more, np.moveaxis(apart, 0, axis)], axis=axis)


def expected_state(metadata, tensors, layer):
    """Of a short convolution, or a gated delta net: transformers' names and shapes."""
    at = f"blk.{layer}."
    have = {name[len(at):]: tensor.numpy() for name, tensor in tensors.items() if name.startswith(at)}
    found = {f"conv.{each}.weight": have[f"shortconv.{each}.weight"] for each in ("in_proj", "conv", "out_proj")
             if f"shortconv.{each}.weight" in have}
    if "ssm_a" in have:
        width = len(have["ssm_norm.weight"])
        heads = {"in_proj_b.weight": "ssm_beta.weight", "in_proj_a.weight": "ssm_alpha.weight", "A": "ssm_a",
                 "dt_bias": "ssm_dt.bias"}
        wide = {"in_proj_qkv.weight": "attn_qkv.weight", "in_proj_z.weight": "attn_gate.weight",
                "conv1d.weight": "ssm_conv1d.weight"}
        delta = {ours: reordered(have[theirs], metadata) for ours, theirs in heads.items()}
        delta.update({ours: reordered(have[theirs], metadata, 0, width) for ours, theirs in wide.items()})
        delta["out_proj.weight"] = reordered(have["ssm_out.weight"], metadata, 1, width)
        delta["norm.weight"] = have["ssm_norm.weight"]
        found.update({f"linear_attn.{each}": array for each, array in delta.items()})
    return {f"blocks.{layer}.{each}": array for each, array in found.items()}


def expected_rest(config, tensors, layer):
    """Gates of heads, sinks, and the expert that all tokens share."""
    at, found = f"blk.{layer}.", {}
    q = tensors.get(f"{at}attn_q.weight")
    if q is not None and q.numpy().shape[0] == 2 * config.n_head * config.d_head:
        found["attn.W_gate"] = q.numpy().reshape(config.n_head, 2, config.d_head, -1)[:, 1].swapaxes(1, 2)
    names = {"attn_sinks": "attn.sinks", "ffn_gate_shexp": "mlp.shared_expert.gate_proj.weight", "ffn_up_shexp":
             "mlp.shared_expert.up_proj.weight", "ffn_down_shexp": "mlp.shared_expert.down_proj.weight",
             "ffn_gate_inp_shexp": "mlp.shared_expert_gate.weight"}
    for theirs, ours in names.items():
        if f"{at}{theirs}.weight" in tensors:
            array = tensors[f"{at}{theirs}.weight"].numpy()
            found[ours] = array[None] if theirs == "ffn_gate_inp_shexp" else array
    return {f"blocks.{layer}.{each}": array for each, array in found.items()}


def expected_weights(loaded, name):
    metadata, tensors = read(name)
    config, family = loaded.config, metadata["general.architecture"]
    n = paired(name, metadata)
    found = {"embed.W_E": tensors["token_embd.weight"].numpy(),
             "unembed.W_U": tensors["output.weight" if "output.weight" in tensors else "token_embd.weight"].numpy().T}
    offset = int(metadata.get(f"{family}.position_offset", 0))
    if "position_embd.weight" in tensors:
        found["pos_embed.W_pos"] = tensors["position_embd.weight"].numpy()[offset:]
    final = "output_norm" if "output_norm.weight" in tensors else "token_embd_norm"
    for theirs, ours in (("token_embd_norm", "embed.ln"), (final, "ln_final")):
        for kind, short in (("weight", "w"), ("bias", "b")):
            if f"{theirs}.{kind}" in tensors and not (ours == "embed.ln" and theirs == final):
                found[f"{ours}.{short}"] = tensors[f"{theirs}.{kind}"].numpy()
    if "output.bias" in tensors:
        found["unembed.b_U"] = tensors["output.bias"].numpy()
    found.update({each: tensors[each].numpy() for each in tensors if each.startswith("rope_")})
    for layer in range(config.n_layer):
        found.update(expected_attention(config, tensors, layer, n))
        found.update(expected_mlp(tensors, layer))
        found.update(expected_state(metadata, tensors, layer))
        found.update(expected_rest(config, tensors, layer))
        names = dict(VECTORS)
        if f"blk.{layer}.attn_norm_2.weight" in tensors:  # Falcon 40B: the first is the MLP's
            names.update(attn_norm="ln2", attn_norm_2="ln1")
        if f"blk.{layer}.ffn_norm.weight" not in tensors and family in ("gpt-oss", "qwen35"):
            names.update(post_attention_norm="ln2")
        for theirs, ours in names.items():
            for kind, short in (("weight", "w"), ("bias", "b")):
                if f"blk.{layer}.{theirs}.{kind}" not in tensors:
                    continue
                array = tensors[f"blk.{layer}.{theirs}.{kind}"].numpy()
                if ours.endswith("k_norm") or ours.endswith("q_norm"):
                    array = array.reshape(-1, config.d_head)
                    array = turned(array[0] if len(array) == 1 else array, n, -1)
                found[f"blocks.{layer}.{ours}.{short}"] = array
    return found


def count_numbers(metadata, tensors):
    """In the file, but for a tower that reads pictures and rows of positions that no text has; an embedding that is the
    unembedding, too, counts twice."""
    n = sum(tensor.numpy().size for name, tensor in tensors.items() if not name.startswith(("v.", "mm.")))
    if "output.weight" not in tensors:
        n += tensors["token_embd.weight"].numpy().size
    family = metadata["general.architecture"]
    return n - int(metadata.get(f"{family}.position_offset", 0)) * int(metadata[f"{family}.embedding_length"])


def test_weights_are_the_file_s():
    for name in REFERENCES:
        loaded = opened(name)
        wanted, weights = expected_weights(loaded, name), loaded.weights
        assert set(weights) == set(wanted), (name, set(weights) ^ set(wanted))
        assert sum(array.size for array in wanted.values()) == count_numbers(*read(name)), name
        for each in weights:
            ours = weights[each]
            assert ours.dtype == np.float32 and ours.shape == wanted[each].shape, (name, each, ours.shape, wanted[each].shape)
            assert np.array_equal(ours, wanted[each].astype(np.float32)), (name, each)


def is_rounded(name):
    """Whether a model's weights are quantised, so that what they are multiplied with is rounded to 16 bits."""
    return any(tensor.dtype[0] in "QIM" for tensor in read(name)[1].values())


def normed(cache, weights, norm, at, x):
    """Input of a branch: x through the norm before it, by the scale that the run had; or x itself."""
    if f"{at}.hook_scale" not in cache:
        return x
    if norm == "layer":
        x = x - x.mean(axis=-1, keepdims=True)
    x = x / cache[f"{at}.hook_scale"]
    for short, change in ((".w", np.multiply), (".b", np.add)):
        if at + short in weights:
            x = change(x, weights[at + short])
    return x


def product(weights, x, W, b, heads=False):
    y = np.einsum("nd,hdk->nhk", x, weights[W]) if heads else x @ weights[W]
    return y + weights[b] if b in weights else y


def check_formula(name):
    """q, k, v, results, hidden numbers and logits of a run are made by the weights of what they read there."""
    loaded, share = opened(name), 5e-4 if is_rounded(name) else 3e-6
    _, cache = loaded.run_with_cache(np.arange(1, 8), lambda hook: True)
    weights, checked = loaded.weights, 0
    norm = "layer" if any(key.endswith("layer_norm_epsilon") for key in read(name)[0]) else "rms"

    def near(ours, theirs, what):
        nonlocal checked
        inside = np.abs(theirs) < np.abs(theirs).max()  # what a family cuts to a bound lies on it
        checked += 1
        assert inside.sum() > inside.size / 3, (name, what)
        assert np.abs(ours - theirs)[inside].max() <= share * np.abs(theirs).max(), (name, what)

    for layer in range(loaded.config.n_layer):
        at, w, mlp = (f"blocks.{layer}.{each}" for each in ("", "attn.", "mlp."))
        x = normed(cache, weights, norm, at + "ln1", cache["resid_pre", layer])
        if w + "hook_q" in cache:
            for each in "QKV":
                near(product(weights, x, w + "W_" + each, w + "b_" + each, True), cache[w + "hook_" + each.lower()], w + each)
        if w + "hook_q" in cache and name not in ("qwen35", "qwen35-wide"):  # whose heads' z pass a gate
            near(np.einsum("nhk,hkd->nhd", cache[w + "hook_z"], weights[w + "W_O"]), cache[w + "hook_result"], w + "W_O")
        x = cache[at + "hook_resid_mid" if at + "hook_resid_mid" in cache else at + "hook_resid_pre"]
        x = normed(cache, weights, norm, at + ("ln2" if at + "ln2.hook_scale" in cache else "ln1"), x)
        made = {"hook_router_logits": "router", "hook_pre": "in", "hook_pre_linear": "in"}
        if mlp + "W_gate" in weights:
            made["hook_pre"] = "gate"
        for hook, of in made.items():
            if mlp + hook in cache:
                near(product(weights, x, f"{mlp}W_{of}", f"{mlp}b_{of}"), cache[mlp + hook], mlp + hook)
        if mlp + "hook_post" in cache and at + "ln2_post.w" not in weights and not name.startswith("granite"):
            near(product(weights, cache[mlp + "hook_post"], mlp + "W_out", mlp + "b_out"), cache[at + "hook_mlp_out"], mlp)
    x = normed(cache, weights, norm, "ln_final", cache["resid_post", -1])
    logits = product(weights, x, "unembed.W_U", "unembed.b_U")
    if name not in CAPPED:
        scale = (logits * cache["logits"]).sum() / (logits ** 2).sum()  # a family's own
        near(logits * scale, cache["logits"], "logits")
    embeddings = weights["embed.W_E"][cache.tokens]
    if "embed.ln.w" not in weights:
        scale = (embeddings * cache["hook_embed"]).sum() / (embeddings ** 2).sum()
        near(embeddings * scale, cache["hook_embed"], "embeddings")
    if "pos_embed.W_pos" in weights:
        assert np.array_equal(weights["pos_embed.W_pos"][:7], cache["hook_pos_embed"]), name
    return checked


def test_runs_are_made_of_the_weights():
    assert sum(check_formula(name) for name in REFERENCES) > 1600


def test_value_heads_of_a_folder_stand_as_in_training():
    metadata, tensors = read("qwen35")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/grouped.gguf"
        gguf.write(path, {**metadata, "attn.delta_heads": "grouped"}, tensors)  # as a folder is read
        with attn.load(path, tokenizer=LETTERS) as loaded:
            for ours, theirs in (("in_proj_qkv.weight", "attn_qkv.weight"), ("A", "ssm_a"), ("out_proj.weight", "ssm_out.weight")):
                assert np.array_equal(loaded.weights[f"blocks.0.linear_attn.{ours}"], tensors[f"blk.0.{theirs}"].numpy()), ours


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def convolved(x, kernel):
    """Each channel of x [n][channels] over the last tokens, kernel [channels][taps]."""
    n, taps = len(x), kernel.shape[1]
    padded = np.concatenate([np.zeros((taps - 1, x.shape[1])), x])
    return sum(padded[i:i + n] * kernel[:, i] for i in range(taps))


def short_convolution(w, x):
    """Lfm2ShortConv of transformers."""
    b, c, inner = np.split(x @ w["in_proj.weight"].T, 3, axis=1)
    return (c * convolved(b * inner, w["conv.weight"])) @ w["out_proj.weight"].T


def delta_net(w, x, eps):
    """Qwen3_5GatedDeltaNet of transformers, token by token: its key heads are repeated for the value heads behind each other."""
    n, d = len(x), len(w["norm.weight"])
    n_value, d_inner = len(w["A"]), w["out_proj.weight"].shape[1]
    mixed = convolved(x @ w["in_proj_qkv.weight"].T, w["conv1d.weight"])
    mixed *= sigmoid(mixed)
    d_key = (mixed.shape[1] - d_inner) // 2
    q, k, v = (part.reshape(n, -1, d) for part in np.split(mixed, [d_key, 2 * d_key], axis=1))
    q, k = (part / np.sqrt((part ** 2).sum(-1, keepdims=True) + 1e-6) for part in (q, k))
    q, k = (np.repeat(part, n_value // part.shape[1], axis=1) for part in (q, k))
    beta = sigmoid(x @ w["in_proj_b.weight"].T)
    kept = np.exp(w["A"] * np.logaddexp(0, x @ w["in_proj_a.weight"].T + w["dt_bias"]))
    state, out = np.zeros((n_value, d, d)), np.zeros((n, n_value, d))
    for t in range(n):
        state *= kept[t][:, None, None]
        delta = (v[t] - np.einsum("hkv,hk->hv", state, k[t])) * beta[t][:, None]
        state += k[t][:, :, None] * delta[:, None]
        out[t] = np.einsum("hkv,hk->hv", state, q[t]) / np.sqrt(d)
    z = (x @ w["in_proj_z.weight"].T).reshape(out.shape)
    out = out / np.sqrt((out ** 2).mean(-1, keepdims=True) + eps) * w["norm.weight"] * z * sigmoid(z)
    return out.reshape(n, -1) @ w["out_proj.weight"].T


def test_states_gates_and_sinks_are_made_of_the_weights():
    seen = []

    def near(ours, theirs, what):
        seen.append(what)
        assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max(), (what, np.abs(ours - theirs).max())

    for name in ("lfm2", "qwen35", "qwen35-wide", "gpt-oss", "qwen2moe", "granitemoe"):
        loaded, metadata = opened(name), read(name)[0]
        eps = float(metadata[f"{loaded.config.architecture}.attention.layer_norm_rms_epsilon"])
        weights = {each: array.astype(float) for each, array in loaded.weights.items()}
        _, cache = loaded.run_with_cache(np.arange(1, 12), lambda hook: True)
        for layer in range(loaded.config.n_layer):
            at = f"blocks.{layer}."
            own = {each[len(at):]: array for each, array in weights.items() if each.startswith(at)}
            x = normed(cache, weights, "rms", at + "ln1", cache["resid_pre", layer].astype(float))
            state = {each.split(".", 1)[1]: array for each, array in own.items() if each.startswith(("conv.", "linear_attn."))}
            if state:
                made = delta_net(state, x, eps) if "A" in state else short_convolution(state, x)
                near(made, cache[at + "hook_attn_out"], at + "state of " + name)
            if "attn.W_gate" in own:
                gate = sigmoid(np.einsum("nd,hdk->nhk", x, own["attn.W_gate"]))
                result = np.einsum("nhk,hkd->nhd", cache["z", layer] * gate, own["attn.W_O"])
                near(result, cache[at + "attn.hook_result"], at + "gate of " + name)
            if "attn.sinks" in own:
                parts = np.exp(cache["scores", layer].astype(float))  # −∞ where a query does not look
                pattern = parts / (parts.sum(-1, keepdims=True) + np.exp(own["attn.sinks"])[:, None, None])
                near(pattern, cache["pattern", layer], at + "sinks of " + name)
            if "mlp.shared_expert.up_proj.weight" in own:
                x = normed(cache, weights, "rms", at + "ln2", cache["resid_mid", layer].astype(float))
                gate, up = (x @ own[f"mlp.shared_expert.{each}_proj.weight"].T for each in ("gate", "up"))
                made = (gate * sigmoid(gate) * up) @ own["mlp.shared_expert.down_proj.weight"].T
                if "mlp.shared_expert_gate.weight" in own:
                    made = made * sigmoid(x @ own["mlp.shared_expert_gate.weight"].T)
                gate, up = (np.einsum("nd,edf->nef", x, own[f"mlp.W_{each}"]) for each in ("gate", "in"))
                experts = np.einsum("nef,efd->ned", gate * sigmoid(gate) * up, own["mlp.W_out"])
                made = made + (experts * cache[at + "mlp.hook_expert_weights"][..., None]).sum(1)
                near(made * float(metadata.get(f"{loaded.config.architecture}.residual_scale", 1)), cache[at + "hook_mlp_out"],
                     at + "shared expert of " + name)
    assert len(seen) == 2 + 2 + 2 + 1 + 1 + 3 + 2 + 2, seen


def test_weights_of_all_layers():
    for name, lead in (("gpt2-f32", ()), ("llama-q8_0", ()), ("qwen3moe", (6,))):
        loaded = opened(name)
        config, weights = loaded.config, loaded.weights
        L, d, k = config.n_layer, config.d_model, config.d_head
        shapes = {"W_Q": (L, config.n_head, d, k), "W_K": (L, config.n_head_kv, d, k), "W_V": (L, config.n_head_kv, d, k),
                  "W_O": (L, config.n_head, k, d), "W_E": (config.n_vocab, d), "W_U": (d, config.n_vocab)}
        for short, shape in shapes.items():
            array = getattr(loaded, short)
            assert array.shape == shape, (name, short, array.shape)
            for layer in range(L if len(shape) == 4 else 0):
                assert np.array_equal(array[layer], weights[f"blocks.{layer}.attn.{short}"]), (name, short)
        assert loaded.W_in.shape[:-1] == (L, *lead, d) and loaded.W_out.shape[-1] == d
        assert np.array_equal(loaded.W_in[1], weights["blocks.1.mlp.W_in"])
    gpt2 = model()
    assert gpt2.b_Q.shape == (2, 2, 20) and gpt2.b_O.shape == (2, 40) and gpt2.W_pos.shape == (192, 40)
    assert repr(gpt2.weights).endswith(f": {len(gpt2.weights)} arrays>") and "[n_head_kv][d_model]" in repr(attn.Model.W_K)
    with fails(AttributeError, r"not every layer of gpt2-f32.gguf has W_gate; model.weights has embed.W_E, .*blocks.\*.mlp.W_in"):
        gpt2.W_gate
    with fails(AttributeError, r"^gpt2-f32.gguf has no b_U; model.weights has embed.W_E, "):
        gpt2.b_U
    with fails(AttributeError, r"has W_Q; .*blocks.\[1\].attn.W_Q"):
        opened("lfm2").W_Q
    with fails(KeyError, "gpt2-f32.gguf has no 'blocks.0.attn.W_X'; there are embed.W_E"):
        gpt2.weights["blocks.0.attn.W_X"]
    assert not hasattr(gpt2, "b_gate") and "blocks.1.ln1.b" in gpt2.weights and len(gpt2.weights) == len(list(gpt2.weights))
    with attn.load(reference("gpt2-f32")) as loaded:
        weights = loaded.weights
    for use in (lambda: weights["embed.W_E"], lambda: loaded.W_Q, lambda: loaded.weights):
        with fails(attn.AttnError, "the model is closed"):
            use()


def bound(name, metadata, config):
    """As tests/test_backward.c allows, and why."""
    if is_rounded(name):
        return 1e-3
    if config.n_layer > 10:
        return 2e-4
    return 5e-5 if any("expert" in key for key in metadata) or name.startswith(("lfm2", "qwen35")) else 1e-5


def test_gradients_are_pytorch_s():
    n_compared = 0
    for name in REFERENCES:
        loaded = opened(name)
        metadata, _ = read(name)
        _, expected = gguf.read(str(DATA / f"gradients/{name}.gguf"))
        ids = expected["tokens"].numpy().astype(int)
        positions, n = expected["positions"].numpy().astype(int), paired(name, metadata)
        metric = (len(ids) - 1) * attn.loss() + attn.logit(int(ids[0])) - attn.logit(int(ids[1]))
        value, cache = loaded.grad(ids, metric, lambda hook: not hook.startswith("logits"))
        most = bound(name, metadata, loaded.config)
        assert abs(value - expected["m"].numpy()[0]) < 10 * most * abs(value), name
        for key, tensor in expected.items():
            if not key.startswith("blk."):
                continue
            _, layer, site = key.split(".")
            place = SITES[site]
            wanted = tensor.numpy()  # [head][position][columns]
            hook = NAMES[place].hook
            ours = cache[hook if place in (Site.EMBED, Site.POS_EMBED) else f"blocks.{layer}.{hook}"]
            if place in (Site.SCORES, Site.PATTERN):
                ours, seen = ours[:, positions], np.arange(len(ids)) <= positions[:, None]  # later keys are none of ours
                wanted = np.where(seen, wanted, 0)
                assert not np.any(ours[:, ~seen])
            else:
                ours = ours[positions].swapaxes(0, 1) if ours.ndim == 3 else ours[positions][None]
            if site in ("q", "k", "rot_q", "rot_k"):
                wanted = turned(wanted, n, -1)
            assert ours.shape == wanted.shape, (name, key, ours.shape, wanted.shape)
            assert np.abs(ours - wanted).max() <= most * np.abs(wanted).max() + 1e-12, (name, key)
            n_compared += 1
    assert n_compared > 1500, n_compared


def test_gradients_times_differences_are_attribute_s():
    """Attribution patching, by two runs and a gradient; a metric is what the logits say."""
    clean, corrupted, wanted = "the cat", "the rat", attn.logit("x") - attn.logit("y")
    view = model().attribute(clean, "x", wrong="y", corrupted=corrupted, by="gradient")
    value, gradients = model().grad(corrupted, wanted, lambda hook: True)
    _, here = model().run_with_cache(corrupted)
    _, there = model().run_with_cache(clean)
    assert abs(value - view["corrupted_nats"]) < 1e-5
    seen = set()
    for node in view["nodes"]:
        if node["neuron"] is not None:
            continue
        name = (node["site"], node["layer"])
        products = (there[name].astype(float) - here[name]) * gradients[name]
        if node["head"] is not None:
            products = products[node["head"]] if node["site"] == "pattern" else products[:, node["head"]]
        if node["position"] is not None:
            products = products[node["position"]]
        assert abs(products.sum() - node["score_nats"]) < 1e-5, node
        seen.add(node["site"])
    assert {"resid_pre", "z", "mlp_out"} <= seen, seen
    assert "attn.hook_result" in " ".join(gradients) and not any("hook_scale" in name for name in gradients)


def test_metrics():
    ids, logits = model().to_tokens("the cat"), model().run("the cat").astype(float)
    logprobs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    x = model().to_single_token("x")
    for metric, wanted in ((attn.logit("x"), logits[-1, x]), (attn.logprob(x, 2), logprobs[2, x]),
                           (attn.loss(), model().loss("the cat")), (2 * attn.logprob("x", -2) - attn.loss() * 3,
                                                                    2 * logprobs[-2, x] - 3 * model().loss("the cat")),
                           (-attn.logit("x") + attn.logprob("x"), logprobs[-1, x] - logits[-1, x]),
                           (sum(attn.logit(id_) for id_ in (5, 6, np.int32(7))) / 3, logits[-1, 5:8].mean())):
        value, gradients = model().grad("the cat", metric, "logits")
        assert abs(value - wanted) < 1e-5 and gradients["logits"].shape == logits.shape, metric
    _, gradients = model().grad("the cat", attn.logit("x", 3) - 0.5 * attn.logit(5), ["logits", "blocks.1.hook_resid_post"])
    expected = np.zeros_like(logits)
    expected[3, x], expected[-1, 5] = 1, -0.5
    assert np.array_equal(gradients["logits"], expected) and list(gradients) == ["blocks.1.hook_resid_post", "logits"]
    _, gradients = model().grad("the cat", attn.logprob("x", 1), "logits")
    assert np.allclose(gradients["logits"][1], np.eye(len(logits[0]))[x] - np.exp(logprobs[1]), atol=1e-6)
    assert not gradients["logits"][2:].any() and len(gradients.tokens) == len(ids)
    for metric, kind, words in ((attn.logit("xy"), ValueError, "2 tokens"), (attn.logit("x", 7), IndexError, "position 7"),
                                (attn.logit(999), attn.AttnError, "token 999, which is outside"),
                                (attn.logit("x") * np.inf, attn.AttnError, "not finite")):
        with fails(kind, words):
            model().grad("the cat", metric)
    for wrong in ("x", None):
        with fails(TypeError, "a metric is what attn.logit"):
            model().grad("the cat", wrong)
    for wrong in (lambda: attn.logit("x") + 1, lambda: attn.loss() * attn.loss(), lambda: attn.loss() * None):
        with fails(TypeError, "unsupported"):
            wrong()
    for arguments, kind, words in (((1.5,), TypeError, "token is a whole"), ((2**40,), ValueError, "token is 1099511627776"),
                                   (("x", "y"), TypeError, "position is a whole"), ((None,), TypeError, "not None")):
        with fails(kind, words):
            attn.logit(*arguments)
    for names, words in (("blocks.0.ln1.hook_scale", "has no gradient"), ("blocks.9.hook_out", "there are")):
        with fails(KeyError, words):
            model().grad("the cat", attn.loss(), names)
    with fails(attn.AttnError, "a text of 1 token has none"):
        model().grad("a", attn.loss())
