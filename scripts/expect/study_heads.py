"""The views of what heads look at and write: heads, explain, attend. Each takes the parsed options and gives the keys that are
its own (docs/STUDY.md).
"""
import torch

from formula import alibi_slopes
from study_runs import Run, entropy, prompt_run, sure, top, vocabulary_of, words


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
    """Draws by xorshift64* (arXiv:1402.6246)."""
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
    """A map as the JSON has it. spans: the words, or None."""
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


def largest_flow(layers, target):
    """From the last node above all layers to node `target` below them: shortest paths first (Edmonds & Karp), on a
    plain dictionary of what may still go."""
    n = len(layers[0])
    left = {}
    for l, capacity in enumerate(layers):
        for i in range(n):
            for j in range(i + 1):
                left.setdefault((l + 1, i), {})[l, j] = float(capacity[i, j])
                left.setdefault((l, j), {}).setdefault((l + 1, i), 0.0)
    source, sink, sum = (len(layers), n - 1), (0, target), 0.0
    while True:
        before, queue = {source: None}, [source]
        for node in queue:
            for to, room in left[node].items():
                if room > 1e-13 and to not in before:
                    before[to] = node
                    queue.append(to)
        if sink not in before:
            return sum
        path, node = [], sink
        while before[node] is not None:
            path.append((before[node], node))
            node = before[node]
        least = min(left[a][b] for a, b in path)
        for a, b in path:
            left[a][b] -= least
            left[b][a] = left[b].get(a, 0.0) + least
        sum += least


def view_rollout(options):
    run = prompt_run(options)
    query = len(run.ids) - 1 if options.query is None else options.query
    n, mixed, uniform, layers = query + 1, torch.eye(query + 1).double(), torch.eye(query + 1).double(), []
    for layer in run.layers_with_heads():
        mean = run.site("pattern", layer).mean(0)[:n, :n]
        layers.append(mean / mean.sum(-1, keepdim=True) / 2 + torch.eye(n) / 2)
        alike = torch.ones(n, n).double().tril().triu(-(run.config.windows[layer] or n) + 1)
        mixed = layers[-1] @ mixed
        uniform = (alike / alike.sum(-1, keepdim=True) / 2 + torch.eye(n) / 2) @ uniform
    row, even = mixed[query], uniform[query]
    keys = [{"key": i, **run.vocabulary.token(run.ids[i]), "rollout": row[i], "uniform": even[i], "ratio": row[i] / even[i]}
            for i in range(n)]
    if options.flow:
        flow = torch.tensor([largest_flow(layers, i) for i in range(n)])
        for i in range(n):
            keys[i].update(flow=flow[i], flow_share=flow[i] / flow.sum())
    return {"query": query, "n_layers": len(layers), "keys": keys}
