"""The views that stand on gradients, by PyTorch's autograd: attribute --by gradient and ig, its edges, and faithful
(docs/STUDY.md). A run in which every reader reads a mixture of its own is a forward pass whose hooks replace all that is read.
"""
import numpy as np
import torch

from formula import differentiate, unchanged
from study_patching import Pair, error_of, mean_of, pairs_of, token_of
from study_runs import MARGIN, Unsure, behind, prompt_run, top

KINDS = "resid_pre", "attn_out", "mlp_out", "z", "q", "k", "v", "pattern"
SHARES = 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1


def metric_of(kind, answer, wrong, ids):
    def nll(logits):
        return -logits[:-1].log_softmax(-1).gather(1, torch.tensor(ids[1:])[:, None]).mean()

    return {"nll": nll, "logit": lambda logits: logits[-1][answer],
            "logprob": lambda logits: logits[-1].log_softmax(-1)[answer],
            "logit_diff": lambda logits: logits[-1][answer] - logits[-1][wrong]}[kind]


def points(options, base, source):
    """The streams to go back from: None, the base's own, or those on the line to the source's."""
    if options.by != "ig":
        return [None]
    steps = options.steps or 10
    ends = base.site("resid_pre", 0), source.site("resid_pre", 0)
    return [torch.lerp(*ends, (step + 0.5) / steps) for step in range(steps)]


# Sites.

def node_scores(options, metric, base, source):
    """{site, layer: [head][n] or [n]}; of mlp_post [d_ff]."""
    scores, at = {}, points(options, base, source)
    for point in at:
        _, _, gradients = differentiate(base.model, base.ids, metric, point)
        for (site, layer), g in gradients.items():
            if site in KINDS or site == "mlp_post":
                delta = base.site(site, layer) if source is None else source.site(site, layer) - base.site(site, layer)
                x = (delta * g).sum(0 if site == "mlp_post" else -1) / len(at)
                scores[site, layer] = scores.get((site, layer), 0) + x
    return scores


def node_rows(run, scores, positions):
    """(place, score) in the order of the view."""
    for site in KINDS:
        for layer in range(run.config.n_layer):
            if (site, layer) not in scores:
                continue
            x = scores[site, layer]
            for head, row in enumerate(x if x.dim() == 2 else [x]):
                place = {"site": site, "layer": layer, "head": head if x.dim() == 2 else None, "neuron": None}
                yield {**place, "position": None}, row.sum()
                for position in range(len(row)) if positions and site in KINDS[:4] else []:
                    yield {**place, "position": position}, row[position]


def with_errors(options, columns, whole):
    """The means of columns of numbers, one a pair."""
    values = [{"score_nats": mean_of(x), **({"share": mean_of(x) / whole} if whole else {}),
               **({"score_error_nats": error_of(x)} if options.pairs else {})} for x in columns]
    return values


def strongest_neurons(options, scores):
    """Of [pair] scores the K that are largest in the mean."""
    layers = [layer for site, layer in scores[0] if site == "mlp_post"]
    flat = [torch.cat([one["mlp_post", layer] for layer in layers]) for one in scores] if layers else []
    if not flat:
        return [], []
    mean, d_ff = sum(flat) / len(flat), len(flat[0]) // len(layers)
    order = top(mean.abs(), 10 if options.neurons is None else options.neurons)
    return [{"site": "mlp_post", "layer": layers[i // d_ff], "neuron": i % d_ff} for i in order], \
        [[float(one[i]) for one in flat] for i in order]


def by_nodes(options):
    if options.corrupted or options.pairs:
        pairs = [Pair(options, *pair) for pair in pairs_of(options) if len(pair[0]) == len(pair[1])]
        runs = [(pair.base, pair.source, metric_of(pair.kind, pair.answer, pair.wrong, None)) for pair in pairs]
        kind = pairs[0].kind
    else:
        run = prompt_run(options)
        answer, wrong = (token_of(run.vocabulary, text) for text in (options.answer, options.wrong))
        kind = "nll" if answer is None else options.metric or ("logprob" if wrong is None else "logit_diff")
        runs = [(run, None, metric_of(kind, answer, wrong, run.ids))]
    scores = [node_scores(options, metric, base, source) for base, source, metric in runs]
    whole = None if runs[0][1] is None else mean_of([float(metric(source.logits) - metric(base.logits))
                                                    for base, source, metric in runs])
    rows = [[(place, float(x)) for place, x in node_rows(base, one, not options.pairs)] for (base, _, _), one in zip(runs, scores)]
    places, columns = [place for place, _ in rows[0]], [[x for _, x in each] for each in zip(*rows)]
    neurons, neuron_columns = strongest_neurons(options, scores)
    result = {"by": options.by, "metric": kind,
              "embed_nats": mean_of([float(one["resid_pre", 0].sum()) for one in scores]),
              "nodes": [{**place, **x} for place, x in zip(places, with_errors(options, columns, whole))],
              "strongest_neurons": [{**place, **x} for place, x in zip(neurons, with_errors(options, neuron_columns, whole))]}
    if whole is None:
        return {**result, "value_nats": float(runs[0][2](runs[0][0].logits))}
    return {**result, "difference_nats": whole, **ends(pairs)}


def ends(pairs):
    return {"n_pairs": len(pairs), "clean_nats": mean_of([pair.metric(pair.clean) for pair in pairs]),
            "corrupted_nats": mean_of([pair.metric(pair.corrupted) for pair in pairs])}


# Edges.

class Graph:
    """senders: (name, layer, head), head None of an MLP or a state; readers: (name, layer, site, head, how many senders it reads)."""

    def __init__(self, run):
        c = self.config = run.config
        self.senders, self.readers = [("embed", None, None)], []
        self.parallel = ("resid_mid", 0) not in run.sites
        for layer in range(c.n_layer):
            n = len(self.senders)
            if keeps_state(run, layer):
                self.readers.append((f"L{layer}STATE", layer, "state", None, n))
                self.senders.append((f"L{layer}STATE", layer, None))
            else:
                gates = c.n_head if is_gated(run.model, layer) else 0
                for site, heads in ("q", c.n_head), ("k", c.n_head_kv), ("v", c.n_head_kv), ("g", gates):
                    self.readers += [(f"L{layer}H{head}.{site}", layer, site, head, n) for head in range(heads)]
                self.senders += [(f"L{layer}H{head}", layer, head) for head in range(c.n_head)]
            self.readers.append((f"L{layer}MLP", layer, "mlp", None, n if self.parallel else len(self.senders)))
            self.senders.append((f"L{layer}MLP", layer, None))
        self.readers.append(("final", None, "final", None, len(self.senders)))
        self.edges = [(sender, reader) for reader, at in enumerate(self.readers) for sender in range(at[4])]

    def names(self, edge):
        return {"sender": self.senders[edge[0]][0], "reader": self.readers[edge[1]][0]}


def keeps_state(run, layer):
    return ("result", layer) not in run.sites


def is_gated(model, layer):
    """Whether behind each head's query stands what its output is gated with."""
    c, q = model.config, model.tensors.get(f"blk.{layer}.attn_q.weight")
    return q is not None and q.shape[0] == 2 * c.n_head * c.d_head


def heads_added(run, layer, result, attn_out):
    """Outputs of heads as they are added, [head][n][d]: each its part behind a norm, and an equal share of the rest."""
    bias = run.model.optional(f"blk.{layer}.attn_output.bias")
    made = result.sum(0) + (0 if bias is None else bias)
    parts = torch.stack([torch.stack([behind(run, layer, "post_attention_norm", made[t], one[t]) for t in range(len(made))])
                         for one in result])
    return parts + (attn_out - parts.sum(0)) / len(parts)


def contributions(run):
    sent = [run.site("resid_pre", 0)]
    for layer in range(run.config.n_layer):
        attn_out = run.site("attn_out", layer)
        sent += [attn_out] if keeps_state(run, layer) else list(heads_added(run, layer, run.site("result", layer), attn_out))
        sent.append(run.site("mlp_out", layer))
    return sent


def before(model, name, x):
    return x if model.config.norms == "behind" else model.norm(name, x)


def heads_read(model, layer, x):
    """{site: [head][n][d_head]} of a stream x."""
    c, block = model.config, f"blk.{layer}."
    x = before(model, block + "attn_norm", x)
    if block + "attn_qkv.weight" in model.tensors:
        parts = model.linear(block + "attn_qkv", x).split([c.n_head * c.d_head] + 2 * [c.n_head_kv * c.d_head], -1)
    else:
        parts = [model.linear(block + name, x) for name in ("attn_q", "attn_k", "attn_v")]
    if is_gated(model, layer):
        q, gate = (rows.flatten(1) for rows in parts[0].unflatten(-1, (c.n_head, 2, c.d_head)).unbind(2))
        parts = [q, *parts[1:], gate.sigmoid()]
    return {site: rows.unflatten(-1, (-1, c.d_head)).transpose(0, 1) for site, rows in zip("qkvg", parts)}


def state_added(model, layer, x):
    return model.mixer(layer, before(model, f"blk.{layer}.attn_norm", x), unchanged)


def mlp_added(model, layer, x):
    block = f"blk.{layer}."
    name = model.config.ffn_norm if block + model.config.ffn_norm + ".weight" in model.tensors else "attn_norm"
    return model.behind(block + "post_ffw_norm", model.mlp(layer, before(model, block + name, x)))


def reader_gradients(graph, model, sites, gradients):
    """The gradient of what each reader reads, [n][d]."""
    for name, layer, site, head, _ in graph.readers:
        if site == "final":
            yield gradients["resid_post", graph.config.n_layer - 1]
            continue
        read = "resid_mid" if site == "mlp" and not graph.parallel else "resid_pre"
        x = sites[read, layer].clone().requires_grad_()
        if site == "mlp":
            made, g = mlp_added(model, layer, x), gradients["mlp_out", layer]
        elif site == "state":
            made, g = state_added(model, layer, x), gradients["attn_out", layer]
        elif site == "g":  # z is multiplied by it
            made = heads_read(model, layer, x)["g"][head]
            g = gradients["z", layer][head] / made.detach() * sites["z", layer][head]
        else:
            made, g = heads_read(model, layer, x)[site][head], gradients[site, layer][head]
        yield torch.autograd.grad(made, x, g)[0]


def edge_scores(options, graph, pair):
    """By edge, of the base."""
    base, source = pair.base, pair.source
    delta = torch.stack(contributions(source)) - torch.stack(contributions(base))
    metric, at, scores = metric_of(pair.kind, pair.answer, pair.wrong, None), points(options, base, source), []
    for point in at:
        _, sites, gradients = differentiate(base.model, base.ids, metric, point)
        read = torch.stack(list(reader_gradients(graph, base.model, sites, gradients)))
        scores.append(torch.einsum("snd,rnd->rs", delta, read))
    mean = sum(scores) / len(scores)
    return np.array([float(mean[reader, sender]) for sender, reader in graph.edges])


def mixed(graph, run, outside, inside):
    """The run with the edges `inside` as they are, and all others as outside: its logits."""
    sent, model = [], run.model

    def read(site, layer, head=None):
        reader = next(i for i, at in enumerate(graph.readers) if at[1:4] == (layer, site, head))
        return sum((sent if (sender, reader) in inside else outside)[sender] for sender in range(graph.readers[reader][4]))

    def edit(site, layer, x):
        if site == "resid_pre":
            if layer == 0:
                sent.append(x)
            if keeps_state(run, layer):
                return read("state", layer)
            edit.pre, edit.reads = x, {(at[2], at[3]): read(at[2], layer, at[3]) for at in graph.readers
                                       if at[1] == layer and at[2] in "qkvg"}
            return read("mlp", layer) if graph.parallel else x
        if site in ("q", "k", "v"):
            return torch.stack([heads_read(model, layer, edit.reads[site, head])[site][head] for head in range(len(x))])
        if site == "z" and is_gated(model, layer):
            own = heads_read(model, layer, edit.pre)["g"]
            return torch.stack([one * heads_read(model, layer, edit.reads["g", head])["g"][head] / own[head]
                                for head, one in enumerate(x)])
        if site == "result":
            edit.result = x
        if site == "attn_out":
            sent.extend([x] if keeps_state(run, layer) else heads_added(run, layer, edit.result, x))
        if site == "mlp_out":
            sent.append(x)
        if site == "resid_mid":
            return read("mlp", layer)
        return read("final", None) if site == "resid_post" and layer == graph.config.n_layer - 1 else x

    return model.forward(torch.tensor(run.ids), edit)


def all_scores(options):
    pairs = [Pair(options, *pair) for pair in pairs_of(options) if len(pair[0]) == len(pair[1])]
    graph = Graph(pairs[0].base)
    return pairs, graph, np.array([edge_scores(options, graph, pair) for pair in pairs])


def largest(sizes, n):
    """The places of the n largest; sure that they are."""
    order = np.argsort(-sizes, kind="stable")
    if 0 < n < len(order) and sizes[order[n - 1]] - sizes[order[n]] <= MARGIN * sizes.max():
        raise Unsure(f"which {n} edges are the strongest")
    return order[:n]


def by_edges(options):
    pairs, graph, scores = all_scores(options)
    whole = mean_of([pair.metric(pair.source) - pair.metric(pair.base) for pair in pairs])
    rows = [{**graph.names(edge), **x} for edge, x in zip(graph.edges, with_errors(options, scores.T, whole))]
    result = {"by": options.by, "direction": "noising" if options.noising else "denoising", "metric": pairs[0].kind,
              "difference_nats": whole, "n_edges": len(rows), **ends(pairs)}
    if options.check:
        checked, x, y = largest(np.abs(scores.sum(0)), options.check), [], []
        for place in checked:
            others = set(graph.edges) - {graph.edges[place]}
            moved = [float(metric_of(pair.kind, pair.answer, pair.wrong, None)(mixed(graph, pair.base, contributions(pair.source), others)))
                     - pair.metric(pair.base) for pair in pairs]
            rows[place]["patched_nats"] = mean_of(moved)
            if options.pairs:
                rows[place]["patched_error_nats"] = error_of(moved)
            x.append(rows[place]["score_nats"])
            y.append(mean_of(moved))
        result.update(n_checked=len(checked), correlation=np.corrcoef(x, y)[0, 1])
    return {**result, "edges": rows}


def view_faithful(options):
    options.by, options.steps = options.by or "ig", options.steps or 5
    pairs = [Pair(options, *pair) for pair in pairs_of(options) if len(pair[0]) == len(pair[1])]
    graph = Graph(pairs[0].base)
    units, many = units_of(options, graph), "n_nodes" if options.nodes else "n_edges"
    if options.keep:
        chosen = [[name for name in units if name in options.keep.split(",")]]
    else:
        scores = np.array([edge_scores(options, graph, pair) for pair in pairs]).sum(0)
        scores = dict(zip(units, [sum(scores[graph.edges.index(edge)] for edge in unit) for unit in units.values()]))
        sizes = np.abs(list(scores.values()))
        if options.find:
            inside, tries, kl = search(options, graph, pairs, units, sizes)
            names = sorted(inside, key=lambda name: -abs(scores[name]))
            found = [{"node": name} if options.nodes else dict(zip(("sender", "reader"), name.split(":"))) for name in names]
            return {many: len(units), "n_tries": tries, "n_runs": (tries + 1) * len(pairs), **({"kl_nats": kl} if options.kl else {}),
                    "circuits": [{many: len(names)}], many[2:]: found}
        chosen = [[list(units)[place] for place in largest(sizes, int(share * len(units) + 1e-9))] for share in SHARES]
    values = []
    for pair in pairs:
        sent, metric = contributions(pair.corrupted), metric_of(pair.kind, pair.answer, pair.wrong, None)
        if options.outside == "zero":
            sent = [x * 0 for x in sent]
        if options.outside == "mean":
            sent = [x.mean(0).expand_as(x) for x in sent]
        values.append([float(metric(mixed(graph, pair.clean, sent, edges_of(units, names)))) for names in [[], units, *chosen]])
    none, whole, *rows = np.array(values).T
    circuits = []
    for inside, moved in zip(chosen, rows):
        f = (moved - none).sum() / (whole - none).sum()
        circuits.append({many: len(inside), "value_nats": mean_of(moved), "faithfulness": f})
        if options.pairs:
            circuits[-1].update(value_error_nats=error_of(moved),
                                faithfulness_error=error_of(moved - none - f * (whole - none)) / abs((whole - none).mean()))
    result = {"outside": options.outside or "resample", "metric": pairs[0].kind, "n_pairs": len(pairs),
              "clean_nats": mean_of(whole), "corrupted_nats": mean_of(none), many: len(units), "circuits": circuits}
    if not options.keep:
        f = [circuit["faithfulness"] for circuit in circuits]
        result.update(cpr=np.trapz(f, SHARES), cmd=np.trapz(np.abs(1 - np.array(f)), SHARES))
    return result


def units_of(options, graph):
    """Units that a circuit takes or leaves, {name: edges}: an edge, or a node with all edges that lead away from it."""
    if options.nodes:
        return {name: {edge for edge in graph.edges if edge[0] == sender} for sender, (name, _, _) in enumerate(graph.senders)}
    return {"{sender}:{reader}".format(**graph.names(edge)): {edge} for edge in graph.edges}


def edges_of(units, names):
    return set().union(*(units[name] for name in names))


def search(options, graph, pairs, units, sizes):
    """measures/circuitsearch.h: groups of the weakest units go as long as the metric, or KL, moves by no more than the threshold."""
    outside = [contributions(pair.corrupted) for pair in pairs]

    def measure(inside):
        values, moved = [], []
        for pair, sent in zip(pairs, outside):
            logits = mixed(graph, pair.clean, sent, edges_of(units, inside))
            values.append(float(metric_of(pair.kind, pair.answer, pair.wrong, None)(logits)))
            whole, now = (x[-1].log_softmax(-1) for x in (pair.clean.logits, logits))
            moved.append(float((whole.exp() * (whole - now)).sum()))
        return mean_of(moved if options.kl else values)

    inside, done, group, tries = list(units), 0, 1, 0
    order, value = [inside[place] for place in np.argsort(sizes, kind="stable")], measure(inside)
    while done < len(order):
        group = min(group, len(order) - done)
        without, tries = [name for name in inside if name not in order[done:done + group]], tries + 1
        now = measure(without)
        moved = now - value if options.kl else abs(now - value)
        if abs(moved - options.find) < MARGIN:
            raise Unsure("whether they go")
        if moved <= options.find:
            inside, value, done, group = without, now, done + group, 2 * group
        else:
            done, group = done + (group == 1), max(group // 2, 1)
    return inside, tries, value


def by_gradient(options):
    return by_edges(options) if options.edges else by_nodes(options)
