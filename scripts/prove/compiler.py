"""Programs compiled to weights: a small language, as RASP is (Weiss et al. 2021, arXiv:2106.06981), and what makes a GGUF
of `opt`'s family of it, as tracr makes a transformer (Lindner et al. 2023, arXiv:2301.05062). Nothing is trained, and
which part of the model reads what which other writes is known.

    program = Program("induction", "abcdef")
    before = program.attend("the token before", [(program.positions, program.positions, lambda q, k: k == q - 1)],
                            program.tokens)
    program.answer(program.attend("induction", [(program.tokens, before, lambda q, k: q == k)], program.tokens))
    compiled = program.compile()        # .tensors, .metadata, .edges, .parts

**The residual stream** is a sum of spaces that do not overlap, one for each Value: a category is one number of 1 among
zeros, a number is one number. Who writes a Value writes there alone, who reads it reads there alone.

**Attention** looks at what matches: a query's category asks for categories of keys, by a score of SHARP where they match
and 0 elsewhere. exp(−SHARP/2) is 0 in binary32, so that what does not match has the weight 0, and those that do equal
weights. Where nothing matches, the query looks at BOS, whose score is half a match, and whose value is 0.

**An MLP** has a hidden unit for each category, or each pair of them: ReLU(a + b − 1) is 1 where both are. A step is
ReLU(s·x + ½) − ReLU(s·x − ½).

**Norms** must change nothing: (x − mean)/√(variance + ε)·gain + bias is x where ε is 2^60, the gain √ε, and the mean 0. One
dimension of the stream, `balance`, holds what makes the sum 0: whoever writes, writes there the negative of all else.
"""
import itertools
from dataclasses import dataclass, field

import numpy as np

BOS = "<s>"
SHARP = 256.0   # exp(−128) is less than half of the smallest binary32
EPSILON = 2.0 ** 60
LOUD = 16.0     # the logit of a category that is the answer


@dataclass(eq=False)
class Value:
    """The meaning of a position: one of some categories (or none of them: zeros), or a number where there are none."""
    name: str
    categories: tuple = ()
    writer: object = None  # an Attend or an Mlp; None: the embeddings
    at: slice = None

    @property
    def width(self):
        return len(self.categories) or 1

    def row(self, category):
        """The numbers that stand for a category, or for a number; of None zeros."""
        row = np.zeros(self.width)
        if not self.categories:
            row[0] = category or 0
        elif category is not None:
            row[self.categories.index(category)] = 1
        return row


@dataclass(eq=False)
class Attend:
    matches: list     # (query Value or None, key Value, function of both categories)
    value: Value      # None: whether it is BOS
    bos: Value
    out: Value
    shares: bool      # BOS is among what is looked at
    layer: int
    head: int = 0

    @property
    def place(self):
        return f"L{self.layer}H{self.head}"

    def reads(self):
        """(place, Value) of what it reads."""
        for query, key, _ in self.matches:
            if query:
                yield self.place + ".q", query
            yield self.place + ".k", key
        yield self.place + ".k", self.bos
        yield self.place + ".v", self.value or self.bos


@dataclass(eq=False)
class Mlp:
    """One operation of a layer's MLP: hidden units [(weights of Values, bias)], what each adds, and what is added always."""
    inputs: list
    units: list       # ({(Value, number of the row): weight}, bias, numbers of `out`)
    always: np.ndarray
    out: Value
    layer: int

    @property
    def place(self):
        return f"L{self.layer}MLP"

    def reads(self):
        for value in self.inputs:
            yield self.place, value


@dataclass
class Compiled:
    name: str
    metadata: dict
    tensors: dict
    n_layer: int
    n_head: int
    parts: dict = field(default_factory=dict)       # place: what it makes, of those that write
    edges: list = field(default_factory=list)       # those on a way to the answer
    inputs: list = field(default_factory=list)      # likewise from the embeddings
    candidates: list = field(default_factory=list)  # every edge between such parts


class Program:
    def __init__(self, name, alphabet, n_ctx=16, end=None):
        self.name, self.alphabet, self.n_ctx, self.end = name, alphabet, n_ctx, end
        self.tokens = Value("token", tuple(alphabet))
        self.positions = Value("position", tuple(range(1, n_ctx)))  # BOS, at 0, is nowhere: nothing matches it
        self.bos = Value("BOS")
        self.of_token, self.of_position = {self.tokens: lambda t: t}, {self.positions: lambda p: p or None}
        self.operations, self.answers = [], []

    # The language

    def token_value(self, name, function, categories=()):
        """The embedding's words for a token, beside its id."""
        value = Value(name, categories)
        self.of_token[value] = function
        return value

    def position_value(self, name, function, categories=()):
        value = Value(name, categories)
        self.of_position[value] = function
        return value

    def attend(self, name, matches, value, layer=0, shares=False):
        """The mean of a Value over the positions that match, up to this one."""
        layer = max([layer] + [(self._stage(v) + 2) // 2 for m in matches for v in (*m[:2], value) if v])
        out = Value(name, value.categories if value else ())
        out.writer = Attend(matches, value, self.bos, out, shares, layer)
        self.operations.append(out.writer)
        return out

    def share(self, name, matches, layer=0):
        """1/(1 + n) where n positions match."""
        return self.attend(name, matches, None, layer, shares=True)

    def _mlp(self, name, inputs, units, always, categories):
        layer = max((self._stage(value) + 1) // 2 for value in inputs)
        out = Value(name, categories)
        units = [(weights, bias, numbers(out)) for weights, bias, numbers in units]
        out.writer = Mlp(inputs, units, always(out), out, layer)
        self.operations.append(out.writer)
        return out

    def lookup(self, name, inputs, function, categories=(), unless=None):
        """A function of one category or two; zeros where it gives None, or an input is none of its categories, or the
        number `unless`, (Value, factor), is 1 or more when multiplied."""
        units = []
        for rows in itertools.product(*(range(value.width) for value in inputs)):
            result = function(*(value.categories[row] for value, row in zip(inputs, rows)))
            weights = {place: 1.0 for place in zip(inputs, rows)}
            if unless:
                weights[unless[0], 0] = -float(unless[1])
            if result is not None:
                units.append((weights, 1.0 - len(inputs), lambda out, result=result: out.row(result)))
        inputs = inputs + [unless[0]] if unless else inputs
        return self._mlp(name, inputs, units, lambda out: out.row(None), categories)

    def classify(self, name, terms, bounds, results, slope, categories=()):
        """Between which bounds a sum of numbers lies, Σ factor·Value of `terms`: results[i] below bounds[i]. A number that is
        nearer to a bound than 1/(2·slope) is neither here nor there. A bound may be such a sum, too."""
        units, inputs = [], []
        for i, bound in enumerate(bounds):
            sums = dict(terms)
            constant = 0.0
            for value, factor in (bound.items() if isinstance(bound, dict) else [(None, bound)]):
                if value is None:
                    constant += factor
                else:
                    sums[value] = sums.get(value, 0.0) - factor
            inputs += [value for value in sums if value not in inputs]
            weights = {(value, 0): slope * factor for value, factor in sums.items()}
            for side in (1, -1):
                units.append((weights, side * 0.5 - slope * constant, lambda out, i=i, side=side:
                              side * (out.row(results[i + 1]) - out.row(results[i]))))
        return self._mlp(name, inputs, units, lambda out: out.row(results[0]), tuple(categories))

    def answer(self, value, letters=None, loud=LOUD):
        """The next token. Of a category the letter (itself, if `letters` does not say which, or None) has the logit `loud`;
        a number, times loud, is added to letters' logits, {letter: factor}."""
        if value.categories:
            letters = letters or (lambda category: category)
            logits = [{letters(category): 1} if letters(category) else {} for category in value.categories]
        else:
            logits = [letters]
        self.answers.append((value, logits, loud))

    @staticmethod
    def _stage(value):
        """−1 in the embedding; behind the attention of layer l 2l, behind its MLP 2l + 1."""
        writer = value.writer
        return -1 if writer is None else 2 * writer.layer + isinstance(writer, Mlp)

    # The compiler

    def _add_decoys(self, n_layer):
        """A head and some hidden units in each layer, which read what is there, and whose output nobody reads: edges
        that lead nowhere, although something flows."""
        for layer in range(n_layer):
            made = [o.out for o in self.operations if 2 * o.layer + isinstance(o, Mlp) < 2 * layer and o.out.categories]
            source = made[-1] if made else self.tokens
            everything = [(None, self.tokens, lambda q, k: True)]
            if made:
                everything = [(self.tokens, source, lambda q, k: True)]
            seen = self.attend(f"decoy {layer}", everything, source, layer)
            self.lookup(f"decoy units {layer}", [seen], lambda c: c, seen.categories)

    def compile(self):
        n_layer = 1 + max(o.layer for o in self.operations)
        self._add_decoys(n_layer)
        heads = [[o for o in self.operations if isinstance(o, Attend) and o.layer == layer] for layer in range(n_layer)]
        for row in heads:
            for i, head in enumerate(row):
                head.head = i
        values = [self.bos, *self.of_token, *self.of_position, *(o.out for o in self.operations)]
        at = 1  # behind `balance`
        for value in values:
            value.at = slice(at, at + value.width)
            at += value.width
        self.d_model = at + -at % 4
        self.n_head = max(map(len, heads))
        self.d_head = max(4, *(h.out.width for row in heads for h in row),
                          *(1 + sum(key.width for _, key, _ in h.matches) for row in heads for h in row))
        self.d_head += -self.d_head % 4
        tensors = self._embeddings()
        widths = [sum(len(o.units) for o in self._mlps(layer)) for layer in range(n_layer)]
        self.d_ff = max(widths) + -max(widths) % 4
        for layer in range(n_layer):
            tensors.update({f"blk.{layer}.{name}": array for name, array in
                            {**self._attention(heads[layer]), **self._units(self._mlps(layer))}.items()})
        tensors = {name: np.asarray(array, "<f4") for name, array in tensors.items()}
        compiled = Compiled(self.name, self._metadata(n_layer), tensors, n_layer, self.n_head)
        self._edges(compiled)
        return compiled

    def _mlps(self, layer):
        return [o for o in self.operations if isinstance(o, Mlp) and o.layer == layer]

    def _written(self, value, numbers):
        """A row [d_model] that adds numbers to a Value, and keeps the sum of all at 0."""
        row = np.zeros(self.d_model)
        row[value.at] = numbers
        row[0] = -row.sum()
        return row

    def _norm(self, name):
        return {name + ".weight": np.full(self.d_model, np.sqrt(EPSILON)), name + ".bias": np.zeros(self.d_model)}

    def _embeddings(self):
        tokens = [BOS, *self.alphabet]
        embedding, output = np.zeros((len(tokens), self.d_model)), np.zeros((len(tokens), self.d_model))
        embedding[0] = self._written(self.bos, [1])
        for i, token in enumerate(self.alphabet):
            for value, function in self.of_token.items():
                embedding[i + 1] += self._written(value, value.row(function(token)))
        positions = sum(np.array([self._written(value, value.row(function(p))) for p in range(self.n_ctx)])
                        for value, function in self.of_position.items())
        for value, logits, loud in self.answers:
            for i, letters in enumerate(logits):
                for letter, factor in letters.items():
                    output[tokens.index(letter), value.at.start + i] += loud * factor
        return {"token_embd.weight": embedding, "position_embd.weight": positions, "output.weight": output,
                **self._norm("output_norm")}

    def _attention(self, heads):
        d, n, h = self.d_model, self.n_head, self.d_head
        q, k, v, o = (np.zeros(shape) for shape in [(n, h, d)] * 3 + [(n, h, d)])
        bias = np.zeros((n, h))
        for head in heads:
            i, at = head.head, 1
            k[i, 0, self.bos.at] = 1
            bias[i, 0] = SHARP * (len(head.matches) - (0 if head.shares else 0.5))
            for query, key, match in head.matches:
                k[i, at:at + key.width, key.at] = np.eye(key.width)
                if query is None:
                    bias[i, at:at + key.width] = [SHARP * match(None, c) for c in key.categories]
                else:
                    q[i, at:at + key.width, query.at] = [[SHARP * match(a, b) for a in query.categories]
                                                         for b in key.categories]
                at += key.width
            value = head.value or self.bos
            v[i, :value.width, value.at] = np.eye(value.width)
            for j, numbers in enumerate(np.eye(value.width)):
                o[i, j] = self._written(head.out, numbers)
        flat = lambda x: x.reshape(n * h, d)
        zeros = np.zeros(n * h)
        return {**self._norm("attn_norm"), "attn_q.weight": flat(q), "attn_q.bias": bias.reshape(-1),
                "attn_k.weight": flat(k), "attn_k.bias": zeros, "attn_v.weight": flat(v), "attn_v.bias": zeros,
                "attn_output.weight": flat(o).T, "attn_output.bias": np.zeros(d)}

    def _units(self, operations):
        up, bias = np.zeros((self.d_ff, self.d_model)), np.zeros(self.d_ff)
        down, always, i = np.zeros((self.d_model, self.d_ff)), np.zeros(self.d_model), 0
        for operation in operations:
            always += self._written(operation.out, operation.always)
            for weights, unit_bias, numbers in operation.units:
                for (value, row), weight in weights.items():
                    up[i, value.at.start + row] += weight
                bias[i], down[:, i] = unit_bias, self._written(operation.out, numbers)
                i += 1
        return {**self._norm("ffn_norm"), "ffn_up.weight": up, "ffn_up.bias": bias, "ffn_down.weight": down,
                "ffn_down.bias": always}

    def _metadata(self, n_layer):
        u32, tokens = np.uint32, [BOS, *("Ġ" if letter == " " else letter for letter in self.alphabet)]
        metadata = {
            "general.architecture": "opt", "general.type": "model", "general.name": self.name,
            "general.description": "a program, compiled by scripts/prove", "general.sampling.temp": np.float32(0),
            "opt.block_count": u32(n_layer), "opt.context_length": u32(self.n_ctx),
            "opt.embedding_length": u32(self.d_model), "opt.feed_forward_length": u32(self.d_ff),
            "opt.attention.head_count": u32(self.n_head), "opt.attention.key_length": u32(self.d_head),
            "opt.attention.value_length": u32(self.d_head), "opt.attention.scale": np.float32(1),
            "opt.attention.layer_norm_epsilon": np.float32(EPSILON),
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": np.array([3] + [1] * len(self.alphabet), "<i4"), "tokenizer.ggml.merges": [],
            "tokenizer.ggml.bos_token_id": u32(0), "tokenizer.ggml.add_bos_token": True}
        if self.end:
            metadata["tokenizer.ggml.eos_token_id"] = u32(1 + self.alphabet.index(self.end))
        return metadata

    def _edges(self, compiled):
        """An edge leads from who writes a Value to who reads it, if what the reader writes is needed for the answer."""
        answers = [value for value, *_ in self.answers]
        needed, todo, inputs = set(), list(answers), set()
        edges = {(value.writer.place, "final") for value in answers if value.writer}
        while todo:
            writer = todo.pop().writer
            if writer is None or writer in needed:
                continue
            needed.add(writer)
            for place, value in writer.reads():
                todo.append(value)
                if value.writer:
                    edges.add((value.writer.place, place))
                else:
                    inputs.add(f"embed:{place}")
        for o in self.operations:
            compiled.parts.setdefault(o.place, []).append(o.out.name)
        compiled.edges = sorted(f"{a}:{b}" for a, b in edges)
        compiled.inputs = sorted(inputs)
        compiled.candidates = list(all_edges(compiled.parts))


def stage(place):
    """As Program's, of L0H1, L1H0.q or L2MLP."""
    layer, kind = place[1:].split("H")[0].split("M")[0], "MLP" in place
    return 2 * int(layer) + kind


def all_edges(parts):
    """Every edge between such parts: L0H1:L1H0.q …, L0H1:L0MLP, L1MLP:final."""
    places = sorted(parts, key=stage)
    for sender in places:
        for receiver in places:
            if stage(sender) < stage(receiver):
                for letter in ("",) if "MLP" in receiver else (".q", ".k", ".v"):
                    yield f"{sender}:{receiver}{letter}"
        yield f"{sender}:final"


def edges_of_weights(compiled):
    """The same from the weights alone: who reads a dimension of the stream that another writes. What leads nowhere is
    among it."""
    tensors, n, edges = compiled.tensors, compiled.n_head, set()
    d = tensors["token_embd.weight"].shape[1]
    for edge in compiled.candidates:
        sender, receiver = edge.split(":")
        layer = sender[1:].split("H")[0].split("M")[0]
        if "MLP" in sender:
            written = tensors[f"blk.{layer}.ffn_down.weight"]
        else:
            written = tensors[f"blk.{layer}.attn_output.weight"].reshape(d, n, -1)[:, int(sender.split("H")[1])]
        layer = receiver[1:].split("H")[0].split("M")[0]
        if receiver == "final":
            read = tensors["output.weight"]
        elif "MLP" in receiver:
            read = tensors[f"blk.{layer}.ffn_up.weight"]
        else:
            head, letter = receiver.split("H")[1].split(".")
            read = tensors[f"blk.{layer}.attn_{letter}.weight"].reshape(n, -1, d)[int(head)]
        if np.abs(read[:, 1:] @ written[1:]).any():
            edges.add(edge)
    return edges
