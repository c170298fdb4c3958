"""The independent implementation: every family of families.py (GGUF checkpoints) in PyTorch, from the papers and the
published code. reference.py runs it, and writes what tests expect.

Everything is the plain formula on whole matrices in float64, so that its rounding is far below that of
any engine compared with it. Model.forward calls a hook at every site that attn's probe.h names, with the
same names and values; the hook may look, or return something else to go on with. Where families differ:

  embed, pos_embed   as they are added: the embedding scaled, or normed; pos_embed where positions are learned
  ln1_scale, ln2_scale, ln_final_scale   [n][1]: what the norm before attention, before the MLP, and the last one divide by
  q, k, v         as projected, with bias and clamp; the norms of q and k, and RoPE, come after
  rot_q, rot_k    behind RoPE, of layers that turn
  z               pattern · v, before qwen35's gate
  result          [head][n][d_model]: what each head adds, z W_O, the gate included and the bias not
  scores          scaled, soft-capped, with ALiBi; pattern: a sink takes its share, so that rows may sum to less than 1
  attn_out, mlp_out   what is added to the residual stream: after a norm behind the branch, and scaled
  resid_mid       between the two; a parallel layer has none
  mlp_pre, mlp_pre_linear, mlp_post   of the MLP that is no expert: into the activation, beside it, and out of both
  router_logits   [n][n_expert]: of layers with experts
  expert_weights  [n][n_expert]: what each expert's output is multiplied with, 0 where it was not chosen
  expert_indices  [n][n_expert_used]: the chosen ones, heaviest first (to look at; weights decide)
  logits          scaled and soft-capped
"""
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from families import read_config


def clamped_swiglu(gate, up):
    """gpt-oss's (model card, arXiv:2508.10925)."""
    gate, up = gate.clamp(max=7), up.clamp(-7, 7)
    return gate * torch.sigmoid(1.702 * gate) * (up + 1)


ACTIVATIONS = {
    "silu": F.silu,
    "gelu": F.gelu,  # arXiv:1606.08415, by erf
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),  # arXiv:2109.08668
}


def rotate(x, angles, pairing):
    """RoPE (arXiv:2104.09864, section 3.4): each pair of the first 2·n_pairs dimensions of x [..., n, d] as a
    complex number, turned by angles [n][n_pairs]. The other dimensions pass."""
    rotating, passing = x[..., :2 * angles.shape[1]], x[..., 2 * angles.shape[1]:]
    turn = torch.polar(torch.ones_like(angles), angles)
    if pairing == "neighbours":
        turned = torch.view_as_complex(rotating.unflatten(-1, (-1, 2)).contiguous()) * turn
        rotated = torch.view_as_real(turned).flatten(-2)
    else:
        real, imaginary = rotating.chunk(2, -1)
        turned = torch.complex(real, imaginary) * turn
        rotated = torch.cat([turned.real, turned.imag], -1)
    return torch.cat([rotated, passing], -1)


def yarn_shares(rope, n_pairs):
    """Of each pair: 0 where it keeps its pace, 1 where it is slowed down (arXiv:2309.00071, section 3.2)."""
    def pair_that_turns(times):
        return n_pairs * np.log(rope.original_ctx / (2 * np.pi * times)) / np.log(rope.base)

    low, high = pair_that_turns(rope.beta_fast), pair_that_turns(rope.beta_slow)
    if rope.whole_pairs:
        low, high = np.floor(low), np.ceil(high)
    low, high = max(low, 0), min(high, 2 * n_pairs - 1)
    return ((torch.arange(n_pairs, dtype=torch.float64) - low) / max(high - low, 0.001)).clamp(0, 1)


def alibi_slopes(n_head, bias):
    """Of each head (arXiv:2108.12409, section 3, and the authors' code where n_head is no power of two)."""
    whole = 2 ** int(np.log2(n_head))
    slopes = [2 ** (-bias * (i + 1) / whole) for i in range(whole)]
    slopes += [2 ** (-bias * (i + 0.5) / whole) for i in range(n_head - whole)]
    return torch.tensor(slopes, dtype=torch.float64)


def unchanged(site, layer, x):
    return x


class Model:
    def __init__(self, metadata, tensors, **changes):
        self.config = replace(read_config(metadata), **changes)
        self.tensors = tensors

    def weight(self, name):
        return torch.from_numpy(self.tensors[name].numpy().astype("f8"))

    def optional(self, name):
        return self.weight(name) if name in self.tensors else None

    def linear(self, name, x):
        return F.linear(x, self.weight(name + ".weight"), self.optional(name + ".bias"))

    def scale(self, x):
        """The number that norm divides by."""
        if self.config.norm == "layer":
            x = x - x.mean(-1, keepdim=True)
        return torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.config.norm_eps)

    def norm(self, name, x):
        """Over the last axis; without weights where the file has none."""
        gain, bias = self.optional(name + ".weight"), self.optional(name + ".bias")
        if self.config.norm == "layer":  # arXiv:1607.06450
            x = x - x.mean(-1, keepdim=True)
        x = x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.config.norm_eps)  # arXiv:1910.07467
        x = x if gain is None else x * gain
        return x if bias is None else x + bias

    def head_norm(self, name, x):
        """Of queries or keys [head][n][d_head], if the file has such a norm: over all heads together or each alone, and
        then with one gain for all or one each."""
        if name + ".weight" not in self.tensors:
            return x
        shape = self.tensors[name + ".weight"].shape
        x = x.transpose(0, 1)
        together = len(shape) == 1 and shape[0] != x.shape[-1]
        x = self.norm(name, x.flatten(1)).view_as(x) if together else self.norm(name, x)
        return x.transpose(0, 1)

    def rope_angles(self, layer, n):
        """[n][rope_dim/2]: position·base^(−2i/rope_dim), slowed down as the Rope and the file's factors say."""
        rope, rope_dim = self.config.ropes[layer], self.config.rope_dim
        frequencies = rope.base ** (-torch.arange(0, rope_dim, 2, dtype=torch.float64) / rope_dim)
        factors = self.optional("rope_freqs.weight")
        if factors is None:  # longrope (arXiv:2402.13753): as Hugging Face, by the length of the text
            factors = self.optional(f"rope_factors_{'long' if n > rope.original_ctx else 'short'}.weight")
        if factors is not None:
            frequencies = frequencies / factors
        shares = yarn_shares(rope, rope_dim // 2) if rope.yarn else 1
        frequencies = frequencies * (1 - shares) + frequencies / rope.scale * shares
        return torch.outer(torch.arange(n, dtype=torch.float64), frequencies)

    def turns(self, layer):
        return self.config.rope != "none" and self.config.ropes[layer] is not None

    def turned(self, layer, x):
        """Queries or keys [head][n][d_head] after RoPE."""
        c = self.config
        if not self.turns(layer):
            return x
        turned = rotate(x, self.rope_angles(layer, x.shape[1]), c.rope)
        turned[..., :c.rope_dim] *= c.ropes[layer].magnitude
        return turned

    def attention(self, layer, x, hook=unchanged):
        """Causal multi-head attention (arXiv:1706.03762), kv heads shared by groups (arXiv:2305.13245)."""
        c, n, block = self.config, len(x), f"blk.{layer}."
        if block + "attn_qkv.weight" in self.tensors:
            q, k, v = self.linear(block + "attn_qkv", x).split(
                [c.n_head * c.d_head, c.n_head_kv * c.d_head, c.n_head_kv * c.d_head], -1)
        else:
            q, k, v = (self.linear(block + name, x) for name in ("attn_q", "attn_k", "attn_v"))
        gate = None
        if q.shape[-1] == 2 * c.n_head * c.d_head:  # qwen35: each head's query, then what its output is gated with
            q, gate = (rows.flatten(1) for rows in q.unflatten(-1, (c.n_head, 2, c.d_head)).unbind(2))
        if c.clamp:
            v = v.clamp(-c.clamp, c.clamp)
        if c.clamp and not c.clamp_normed:
            q, k = (rows.clamp(-c.clamp, c.clamp) for rows in (q, k))
        q, k, v = (hook(site, layer, rows.unflatten(-1, (-1, c.d_head)).transpose(0, 1))  # [head][n][d_head]
                   for site, rows in (("q", q), ("k", k), ("v", v)))
        q, k = self.head_norm(block + "attn_q_norm", q), self.head_norm(block + "attn_k_norm", k)
        if c.clamp and c.clamp_normed:
            q, k = (rows.clamp(-c.clamp, c.clamp) for rows in (q, k))
        q, k = self.turned(layer, q), self.turned(layer, k)
        if self.turns(layer):
            q, k = hook("rot_q", layer, q), hook("rot_k", layer, k)
        if c.f16_cache:
            k, v = k.half().double(), v.half().double()
        k, v = (rows.repeat_interleave(c.n_head // c.n_head_kv, 0) for rows in (k, v))
        scores = torch.tril(q @ k.transpose(1, 2) * c.score_scale)
        if c.score_cap:
            scores = c.score_cap * torch.tanh(scores / c.score_cap)
        distance = torch.arange(n)[:, None] - torch.arange(n)  # from a query back to a key
        if c.alibi:
            scores = scores - alibi_slopes(c.n_head, c.alibi)[:, None, None] * distance.clamp(min=0)
        scores = hook("scores", layer, scores)
        hidden = (distance < 0) | (distance >= (c.windows[layer] or n))
        scores = scores.masked_fill(hidden, -torch.inf)
        sinks = self.optional(block + "attn_sinks.weight")  # arXiv:2309.17453; learned: one more score, of no value
        if sinks is not None:
            scores = torch.cat([scores, sinks[:, None, None].expand(-1, n, 1)], -1)
        pattern = hook("pattern", layer, scores.softmax(-1)[..., :n])
        z = hook("z", layer, pattern @ v).transpose(0, 1).flatten(1)
        z = (z if gate is None else z * torch.sigmoid(gate)).unflatten(-1, (-1, c.d_head)).transpose(0, 1)
        w_o = self.weight(block + "attn_output.weight").T.unflatten(0, (-1, c.d_head))  # [head][d_head][d_model]
        bias = self.optional(block + "attn_output.bias")
        return hook("result", layer, z @ w_o).sum(0) + (0 if bias is None else bias)

    def convolved(self, name, x):
        """Each column of x [n][columns] as a weighted sum of its last few rows: a causal, depthwise convolution."""
        kernel, n = self.weight(name), len(x)
        padded = F.pad(x, (0, 0, kernel.shape[1] - 1, 0))
        return sum(kernel[:, i] * padded[i:i + n] for i in range(kernel.shape[1]))

    def short_convolution(self, block, x):
        """lfm2's (arXiv:2511.23404): gates before and behind a convolution, in the place of attention."""
        before, behind, x = self.linear(block + "in_proj", x).chunk(3, -1)
        return self.linear(block + "out_proj", behind * self.convolved(block + "conv.weight", before * x))

    def delta_net(self, block, x):
        """Gated delta net (arXiv:2412.06464), as in qwen3-next: each head has a matrix that maps keys to values. It
        fades, and is corrected by what it says wrong about the newest key."""
        c, n = self.config, len(x)
        qkv = F.silu(self.convolved(block + "ssm_conv1d.weight", self.linear(block + "attn_qkv", x)))
        d_keys = c.n_key_heads * c.d_state
        q, k, v = (rows.unflatten(-1, (-1, c.d_state)) for rows in
                   qkv.split([d_keys, d_keys, qkv.shape[-1] - 2 * d_keys], -1))  # [n][head][d_state]
        q, k = (rows / torch.sqrt(rows.pow(2).sum(-1, keepdim=True) + 1e-6) for rows in (q, k))
        times = v.shape[1] // c.n_key_heads  # value head i has key head i mod n_key_heads
        q, k = q.repeat(1, times, 1) * c.d_state ** -0.5, k.repeat(1, times, 1)
        step = F.softplus(self.linear(block + "ssm_alpha", x) + self.weight(block + "ssm_dt.bias"))
        fade = torch.exp(self.weight(block + "ssm_a") * step)  # [n][head]
        pace = torch.sigmoid(self.linear(block + "ssm_beta", x))
        state, out = torch.zeros(v.shape[1], c.d_state, c.d_state, dtype=torch.float64), torch.zeros_like(v)
        for i in range(n):
            state = state * fade[i, :, None, None]  # [head][value][key]
            error = v[i] - (state @ k[i, :, :, None])[..., 0]
            state = state + pace[i, :, None, None] * error[:, :, None] * k[i, :, None, :]
            out[i] = (state @ q[i, :, :, None])[..., 0]
        gate = self.linear(block + "attn_gate", x).view_as(out)
        return self.linear(block + "ssm_out", (self.norm(block + "ssm_norm", out) * F.silu(gate)).flatten(1))

    def mixer(self, layer, x, hook):
        """Attention, or what stands in its place and has no sites but what it adds."""
        block = f"blk.{layer}."
        if block + "shortconv.conv.weight" in self.tensors:
            return self.short_convolution(block + "shortconv.", x)
        if block + "ssm_a" in self.tensors:
            return self.delta_net(block, x)
        return self.attention(layer, x, hook)

    def activate(self, gate, up):
        """arXiv:2002.05202 where there is a gate."""
        if self.config.mlp == "clamped_swiglu":
            return clamped_swiglu(gate, up)
        activation = ACTIVATIONS[self.config.mlp]
        return activation(up) if gate is None else activation(gate) * up

    def dense(self, layer, x, hook=unchanged, kind=""):
        """The MLP; kind "_shexp": the one of all tokens beside the experts."""
        block = f"blk.{layer}."
        up = self.linear(f"{block}ffn_up{kind}", x)
        gate = None
        if f"{block}ffn_gate{kind}.weight" in self.tensors:
            gate = self.linear(f"{block}ffn_gate{kind}", x)
        elif up.shape[-1] == 2 * self.tensors[f"{block}ffn_down{kind}.weight"].shape[-1]:  # one matrix for both
            gate, up = up.chunk(2, -1)
        if gate is None:
            up = hook("mlp_pre", layer, up)
        else:
            gate, up = hook("mlp_pre", layer, gate), hook("mlp_pre_linear", layer, up)
        return self.linear(f"{block}ffn_down{kind}", hook("mlp_post", layer, self.activate(gate, up)))

    def experts(self, layer, block, x, hook):
        """A mixture of experts (arXiv:2101.03961, arXiv:2401.04088)."""
        c, logits = self.config, hook("router_logits", layer, self.linear(block + "ffn_gate_inp", x))
        chosen = hook("expert_indices", layer, logits.topk(c.n_expert_used).indices)
        weights = torch.zeros_like(logits).scatter(1, chosen, 1) * logits.softmax(-1)
        if c.renormalised:
            weights = weights / weights.sum(-1, keepdim=True)
        weights = hook("expert_weights", layer, weights)

        def project(name, x, expert):
            bias = self.optional(f"{block}ffn_{name}_exps.bias")
            return F.linear(x, matrices[name][expert], None if bias is None else bias[expert])

        matrices = {name: self.weight(f"{block}ffn_{name}_exps.weight") for name in ("gate", "up", "down")}
        out = torch.zeros_like(x)
        for expert in range(weights.shape[1]):
            rows = weights[:, expert] != 0
            hidden = self.activate(project("gate", x[rows], expert), project("up", x[rows], expert))
            out[rows] += weights[rows, expert, None] * project("down", hidden, expert)
        if block + "ffn_up_shexp.weight" in self.tensors:
            shared = self.dense(layer, x, kind="_shexp")
            gate = self.optional(block + "ffn_gate_inp_shexp.weight")
            out += shared if gate is None else shared * torch.sigmoid(x @ gate.flatten())[:, None]
        return out

    def mlp(self, layer, x, hook=unchanged):
        block = f"blk.{layer}."
        if block + "ffn_gate_inp.weight" in self.tensors:
            return self.experts(layer, block, x, hook)
        return self.dense(layer, x, hook)

    def before(self, name, x, hook, site, layer):
        if self.config.norms == "behind":
            return x
        hook(site, layer, self.scale(x))
        return self.norm(name, x)

    def behind(self, name, x):
        return (x if self.config.norms == "before" else self.norm(name, x)) * self.config.residual_scale

    def forward(self, tokens, hook=unchanged):
        """Logits [n][n_vocab] of all positions."""
        c, x = self.config, self.weight("token_embd.weight")[tokens] * self.config.embedding_scale
        if c.embedding_norm:
            x = self.norm("token_embd_norm", x)
        x = hook("embed", 0, x)
        if "position_embd.weight" in self.tensors:
            x = x + hook("pos_embed", 0, self.weight("position_embd.weight")[c.position_offset:][:len(tokens)])
        for layer in range(c.n_layer):
            block, x = f"blk.{layer}.", hook("resid_pre", layer, x)
            shared = c.parallel_residual == "without ffn_norm" and block + "ffn_norm.weight" not in self.tensors
            parallel = shared or c.parallel_residual is True
            normed = self.before(block + "attn_norm", x, hook, "ln1_scale", layer)
            second = block + "attn_norm_2" if block + "attn_norm_2.weight" in self.tensors else None
            attn_out = self.mixer(layer, self.norm(second, x) if second else normed, hook)
            attn_out = hook("attn_out", layer, self.behind(block + "post_attention_norm", attn_out))
            mid = x if parallel else hook("resid_mid", layer, x + attn_out)
            if second:  # the MLP has attn_norm for itself
                hook("ln2_scale", layer, self.scale(x))
            if not shared:
                normed = self.before(block + c.ffn_norm, mid, hook, "ln2_scale", layer)
            mlp_out = self.mlp(layer, normed, hook)
            mlp_out = hook("mlp_out", layer, self.behind(block + "post_ffw_norm", mlp_out))
            x = mid + mlp_out + (attn_out if parallel else 0)
            x = hook("resid_post", layer, x)
        hook("ln_final_scale", c.n_layer, self.scale(x))
        x = self.norm(c.output_norm, x)
        unembedding = "output" if "output.weight" in self.tensors else "token_embd"
        logits = self.linear(unembedding, x) * c.logit_scale
        if c.logit_cap:
            logits = c.logit_cap * torch.tanh(logits / c.logit_cap)
        return hook("logits", c.n_layer, logits)


NO_GRADIENT = "expert_indices", "ln1_scale", "ln2_scale", "ln_final_scale", "logits"


def differentiate(model, ids, metric, embed=None):
    """A metric of a run's logits, the sites of the run, and the gradient with respect to each, both by (site, layer). embed: in
    the place of the first layer's stream."""
    seen = {}

    def keep(site, layer, x):
        if site in NO_GRADIENT:
            return x
        if (site, layer) == ("resid_pre", 0) and embed is not None:
            x = embed.clone()
        if not x.requires_grad:
            x = x.clone().requires_grad_()
        seen[site, layer] = x
        return x

    m = metric(model.forward(torch.tensor(ids), keep))
    found = torch.autograd.grad(m, list(seen.values()), allow_unused=True)
    return float(m.detach()), {key: x.detach() for key, x in seen.items()}, {
        key: torch.zeros_like(x) if g is None else g for (key, x), g in zip(seen.items(), found)}
