"""Weights are those of the file, by another reader, and what the formula makes of them; gradients are PyTorch's autograd's."""
import functools
import sys

import numpy as np

import attn
from attn import _library
from attn._sites import NAMES, Site
from common import DATA, REFERENCES, TREE, fails, model, opened, reference

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
    for layer in range(config.n_layer):
        found.update(expected_attention(config, tensors, layer, n))
        found.update(expected_mlp(tensors, layer))
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


def test_weights_are_the_file_s():
    for name in REFERENCES:
        loaded = opened(name)
        wanted, weights = expected_weights(loaded, name), loaded.weights
        assert set(weights) == set(wanted), (name, set(weights) ^ set(wanted))
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
    with fails(TypeError, "unsupported"):
        attn.logit("x") + 1
    for names, words in (("blocks.0.ln1.hook_scale", "has no gradient"), ("blocks.9.hook_out", "there are")):
        with fails(KeyError, words):
            model().grad("the cat", attn.loss(), names)
    with fails(attn.AttnError, "no terms"):
        model().grad("a", attn.loss())
