"""The views of what is predicted: next, score, lens, experts. Each takes the parsed options and gives the keys that are its
own (docs/STUDY.md).
"""
import math

import numpy as np
import torch

from study_cases import TEXTS
from study_runs import Run, checkpoint, encode, entropy, kl, prompt_run, rank, sure, top, vocabulary_of, words


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
