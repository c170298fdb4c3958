"""The view of what words are in several texts: meaning. It takes the parsed options and gives the keys that are its own
(docs/STUDY.md).
"""
import torch

from study_runs import Run, encode, top, vocabulary_of


def word_place(vocabulary, ids, word):
    """(first, last): the tokens of the last place of a word, a token of letters each but for " t" of some vocabularies."""
    pieces = [vocabulary.pieces[i] for i in ids]
    for last in range(len(ids) - 1, -1, -1):
        for first in range(last, -1, -1):
            joined = b"".join(pieces[first:last + 1])
            if joined in (word, b" " + word):
                inside = first > 0 and joined == word and pieces[first - 1][-1:].isalpha()
                if not inside and not (last + 1 < len(ids) and pieces[last + 1][:1].isalpha()):
                    return first + (joined != word and pieces[first] == b" "), last
    raise ValueError(word)


def streams(run):
    """[n_layer + 1][n][d_model]: entering each layer, and leaving the last."""
    n = run.config.n_layer
    return torch.stack([run.site("resid_pre", layer) for layer in range(n)] + [run.site("resid_post", n - 1)])


def view_meaning(options):
    vocabulary = vocabulary_of(options.model)
    encoded = [encode(options, vocabulary, text) for text in options.prompts]
    runs = [Run(options.model, ids) for ids, _ in encoded]
    places = [word_place(vocabulary, ids, options.word.strip().encode()) for ids, _ in encoded]
    positions = torch.cat([streams(run)[:, bos:] for run, (_, bos) in zip(runs, encoded)], 1)
    mean = positions.mean(1) * (1 if options.centred else 0)
    words = torch.stack([streams(run)[:, last] for run, (_, last) in zip(runs, places)], 1)
    unit = torch.nn.functional.normalize(words - mean[:, None], dim=-1)
    n, pairs = len(runs), [(a, b) for a in range(len(runs)) for b in range(a + 1, len(runs))]
    cosines = torch.stack([(unit[:, a] * unit[:, b]).sum(-1) for a, b in pairs], 1)
    layer = runs[0].config.n_layer // 2 if options.layer is None else options.layer
    names = [f"{i}_pre" for i in range(runs[0].config.n_layer)] + ["final_post"]
    embedding = torch.nn.functional.normalize(runs[0].model.weight("token_embd.weight"), dim=-1)

    def sentence(i):
        p = runs[i].unembed(words[layer, i]).softmax(-1)
        cosine = embedding @ unit[layer, i]
        k = options.top
        return {"number": i + 1, "text": options.prompts[i], "n_tokens": len(runs[i].ids), "position": places[i][1],
                "n_word_tokens": places[i][1] - places[i][0] + 1, **vocabulary.token(runs[i].ids[places[i][1]]),
                "unembedding": [{**vocabulary.token(id), "probability": p[id]} for id in top(p, k)],
                "embedding": [{**vocabulary.token(id), "cosine": cosine[id]} for id in top(cosine, k)]}

    return {
        "word": options.word, "centred": options.centred, "n_positions": positions.shape[1],
        "pairs": [f"{a + 1}-{b + 1}" for a, b in pairs],
        "rows": [{"row": names[i], "mean": row.mean(), "least": row.min(), "most": row.max(), "cosines": row}
                 for i, row in enumerate(cosines)],
        "near_row": names[layer], "sentences": [sentence(i) for i in range(n)],
    }
