"""A model: its vocabulary, its runs, what it says of a text, and the views of `study`."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import threading
from collections import defaultdict
from dataclasses import dataclass
from numbers import Real
from typing import Any, Callable, DefaultDict, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from . import _study
from ._generation import Generation
from ._gradients import NO_GRADIENT, Metric, WayBack
from ._hooks import Asking, Cache, Hook, Names, Run, Stream, select
from ._library import (TOKENIZE_ENDS, TOKENIZE_SPECIAL, AttnError, ChatOptions, Error, Message, ModelOptions, Part, Sampling,
                       check, count, library)
from ._session import Floats, Ids, Int, OpenFile, Session, as_ids, whole
from ._show import View
from ._sites import Hooks, Place, Site
from ._weights import Row, Stacked, Weights, order_of

Path = Union[str, "os.PathLike[str]"]
Text = Union[str, Ids]  # a text, or its tokens, which are taken as they stand
FwdHooks = Sequence[Tuple[Union[str, Callable[[str], bool]], Hook]]

_PIECE = 32  # tokens whose logits are in memory together where only a number of each is wanted


@dataclass(frozen=True)
class Config:
    """The model's shape, in attn.h's words."""

    architecture: str  # "gpt2", "llama" …
    n_layer: int
    n_head: int
    n_head_kv: int  # key-value heads, which the n_head query heads share evenly
    d_model: int  # numbers of the residual stream
    d_head: int
    d_ff: int  # numbers of the MLP's hidden layer
    n_vocab: int
    n_ctx: int  # positions that it was trained for


def load(path: Path, *, tokenizer: Optional[Path] = None, n_threads: int = 0) -> "Model":
    """
    Opens a GGUF, llama2.c or llm.c file, or a Hugging Face folder. tokenizer: a file whose vocabulary is taken. n_threads: of
    each run (0: one for each core). AttnError: the file is not there, or not one that attn can run; the line says why.
    """
    return Model(path, tokenizer=tokenizer, n_threads=n_threads)


class Model:
    """
    A model, made by `attn.load`. Any number of threads may use it at the same time. In a `with` it is closed at the end; else
    when nobody refers to it. A text may be given as a str, or as token ids; a
    second one beside it as a str.

    Numbers are those of `study`: float32, the cache of keys and values in float32, nothing folded or centred. A text gets
    the token that begins texts in front if the file says so; `prepend_bos` overrides that.
    """

    def __init__(self, path: Path, *, tokenizer: Optional[Path] = None, n_threads: int = 0) -> None:
        self.n_threads = whole("n_threads", n_threads, 0, 1024)
        self.path = os.path.abspath(os.fsdecode(path))
        self._tokenizer = None if tokenizer is None else os.path.abspath(os.fsdecode(tokenizer))
        for what, each in (("path", self.path), ("tokenizer", self._tokenizer or "")):
            _refuse_nul(each, what)
        options = ModelOptions(None if self._tokenizer is None else os.fsencode(self._tokenizer))
        error = Error()
        pointer = check(library.attn_model_open(os.fsencode(path), ctypes.byref(options), ctypes.byref(error)), error)
        self._file: Optional[OpenFile] = OpenFile(pointer)
        shape = library.attn_model_shape(pointer)
        self.config = Config(library.attn_model_architecture(pointer).decode(),
                             **{name: getattr(shape, name) for name, _ in shape._fields_})
        self._name = os.path.basename(self.path)
        self._order = order_of(pointer, self.config.d_head)
        self._asked: Optional[Hooks] = None
        self._weight_rows: Dict[str, Row] = {}
        self._control: Dict[int, bool] = {}
        self._standing = threading.local()  # .hooks: those of `hooks`, of each thread

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Tuple[Callable[[str], "Model"], Tuple[str]]:
        """A copy, or what is unpickled, perhaps in another process, opens the file anew."""
        self._opened()
        return functools.partial(Model, tokenizer=self._tokenizer, n_threads=self.n_threads), (self.path,)

    def __repr__(self) -> str:
        c = self.config
        closed = ", closed" if self._file is None else ""
        return (f"<attn.Model {self._name}: {c.architecture}, {count(c.n_layer, 'layer')} of {count(c.n_head, 'head')}, "
                f"d_model {c.d_model}, {count(c.n_vocab, 'token')}{closed}>")

    def close(self) -> None:
        """No more calls of this model: they raise AttnError. The file stays open for the sessions that there are."""
        self._file = None

    def _opened(self) -> OpenFile:
        if self._file is None:
            raise AttnError(f"{self.path}: the model is closed")
        return self._file

    # Tokens.

    @staticmethod
    def _tokenize(file: OpenFile, text: str, flags: int) -> NDArray[np.int32]:
        data = text.encode()
        return _ids(library.attn_tokenize, len(data) + 2, file.pointer, data, len(data), flags)

    def chat_tokens(self, messages: Iterable[Mapping[str, str]], *, add_generation_prompt: bool = True,
                    template: Optional[str] = None, **variables: Union[str, float, bool, None]) -> NDArray[np.int32]:
        """
        The ids [n] of a conversation as the model's chat template lays it out, for `run`, `generate` … Each message has "role"
        ("user" …), "content", and perhaps "thoughts" ("thinking" and "reasoning_content" are the same). What was said stays text, whatever control tokens it looks like.
        add_generation_prompt: up to where the model's answer begins. template: Jinja, in place of the file's own. variables:
        further ones of the template, as enable_thinking=False. AttnError: the file has no template, or it refuses the conversation,
        or a variable is one that it may not be given; the line says why.
        """
        rows: List[Message] = []
        for message in messages:
            if not isinstance(message, Mapping):
                raise TypeError(f"a message is a mapping with role and content, not {message!r}")
            thoughts = next((key for key in ("thoughts", "thinking", "reasoning_content") if message.get(key) is not None), "thoughts")
            rows.append(Message(*[_c_string(message.get(key), key) for key in ("role", "content", thoughts)]))
        options = ChatOptions(_c_string(template, "template"), not add_generation_prompt,
                              json.dumps(variables, allow_nan=False).encode() if variables else None)
        file = self._opened()  # which another thread may close while the engine works
        return _ids(library.attn_chat, 512, file.pointer, (Message * len(rows))(*rows), len(rows), ctypes.byref(options))

    def to_tokens(self, text: Text, prepend_bos: Optional[bool] = None, special: bool = False) -> NDArray[np.int32]:
        """
        The ids [n] of a text. prepend_bos: whether the token that begins a text stands in front (None: as the file says).
        special: control tokens such as <|endoftext|> are read in the text. Ids are given back as they stand, a copy.
        """
        file = self._opened()
        if not isinstance(text, str):
            return as_ids(text)
        ids = self._tokenize(file, text, TOKENIZE_SPECIAL if special else 0)
        bos = library.attn_token_bos(file.pointer)
        if prepend_bos and bos < 0:
            raise AttnError("the vocabulary has no token that begins a text")
        if prepend_bos is None:
            ends = self._tokenize(file, "a", TOKENIZE_ENDS)  # which may have tokens at its end alone
            prepend_bos = bool(bos >= 0 and len(ends) and ends[0] == bos)
        return np.concatenate([[bos], ids]).astype(np.int32) if prepend_bos else ids

    def _bytes(self, file: OpenFile, token: int) -> bytes:
        n = ctypes.c_size_t()
        return ctypes.string_at(library.attn_token_text(file.pointer, token, ctypes.byref(n)), n.value)

    def to_string(self, tokens: Union[Int, Ids]) -> str:
        """
        The text of tokens; control tokens by name, bytes that are no UTF-8 as U+FFFD, and ids behind the vocabulary's last as
        nothing. AttnError: an id is negative.
        """
        file = self._opened()
        ids = as_ids([int(tokens)] if isinstance(tokens, (int, np.integer)) else tokens)
        return b"".join(self._bytes(file, int(id_)) for id_ in ids).decode("utf-8", "replace")

    def to_str_tokens(self, text: Text, prepend_bos: Optional[bool] = None) -> List[str]:
        """[n] the text of each token."""
        file = self._opened()
        return [self._bytes(file, int(id_)).decode("utf-8", "replace") for id_ in self.to_tokens(text, prepend_bos)]

    def to_single_token(self, text: str) -> int:
        """The id of a text that is one token. ValueError: it is several."""
        ids = self.to_tokens(text, prepend_bos=False)
        if len(ids) != 1:
            raise ValueError(f"{text!r} is {len(ids)} tokens: {self.to_str_tokens(ids)}")
        return int(ids[0])

    # Runs.

    def session(self, n_ctx: int = 0, *, cache: str = "f32", fast: bool = False, fwd_hooks: FwdHooks = ()) -> Session:
        """
        A text under way, fed as one likes: see Session. fwd_hooks: as run_with_hooks, but that a function is called each time
        tokens pass its hook, with the array of these tokens: of all that are fed, 256 at a time. ValueError: a hook of scores,
        pattern or result, which comes row by row.
        """
        functions = self._functions(fwd_hooks)
        if not functions:
            return Session(self, n_ctx, cache=cache, fast=fast)
        return Session(self, n_ctx, cache=cache, fast=fast, _probe=Stream(self._hooks(), functions))

    @contextlib.contextmanager
    def hooks(self, fwd_hooks: FwdHooks) -> Iterator["Model"]:
        """
        In a `with`, the functions of fwd_hooks change what passes in every run of this thread, and come first in runs that have
        functions of their own. `run`, `batch`, `hidden`, `loss` and `logprobs` give them the arrays of the whole text, as
        run_with_hooks does (the latter two without the last token, where all but that fill the context); `generate` and
        `session` those of tokens that pass together.
        """
        before = self._standing_hooks()
        self._standing.hooks = [*before, *fwd_hooks]
        try:
            yield self
        finally:
            self._standing.hooks = before

    def _standing_hooks(self) -> FwdHooks:
        found: FwdHooks = getattr(self._standing, "hooks", ())
        return found

    def _functions(self, fwd_hooks: FwdHooks) -> Dict[Place, List[Hook]]:
        """By place, those of `hooks` first."""
        functions: DefaultDict[Place, List[Hook]] = defaultdict(list)
        for pair in [*self._standing_hooks(), *fwd_hooks]:
            name, function = pair if isinstance(pair, (tuple, list)) and len(pair) == 2 else ("", None)
            if not callable(function):
                raise TypeError(f"fwd_hooks has pairs of a hook's name and a function, not {pair!r}")
            for place in select(self._hooks(), name):
                functions[place].append(function)
        return functions

    def _refuse_hooks(self, what: str) -> None:
        if self._standing_hooks():
            raise AttnError(f"{what} is of the model as it is: it cannot be had within model.hooks")

    def run(self, text: Text, *, prepend_bos: Optional[bool] = None) -> Floats:
        """
        The logits [n][n_vocab] after each token, float32. AttnError: the text is empty, or longer than the model's context, or
        has a token that does not exist.
        """
        ids = self.to_tokens(text, prepend_bos)
        if self._standing_hooks():
            return self._run(ids, [], ())[0]
        with Session(self) as session:
            return session.feed(ids, len(ids))

    __call__ = run

    def batch(self, texts: Iterable[Text], *, prepend_bos: Optional[bool] = None) -> List[Floats]:
        """
        The logits [n][n_vocab] of each text, as `run` gives them, to the bit. Short texts go through the layers together, so
        that eight of them cost little more than one; the arrays are parts of one. AttnError: as `run`, of any of them.
        """
        if isinstance(texts, str):
            raise TypeError("batch takes a list of texts, and was given one")
        ids = [self.to_tokens(text, prepend_bos) for text in texts]
        if self._standing_hooks() or len(ids) < 2:
            return [self.run(one) for one in ids]
        rows = np.empty((sum(map(len, ids)), self.config.n_vocab), np.float32)  # side by side: a product makes them together
        logits = np.split(rows, np.cumsum([len(one) for one in ids])[:-1])
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(Session(self))
            sessions = [first] + [stack.enter_context(Session(self, _beside=first)) for _ in ids[1:]]
            parts = (Part * len(ids))(*(Part(session._pointer, one.ctypes.data, one.size, its.ctypes.data, one.size)
                                        for session, one, its in zip(sessions, ids, logits)))
            first._feed_many(parts)
        return logits

    @property
    def hook_names(self) -> List[str]:
        """All hooks of this model, by HookedTransformer's names, in the order of the forward pass."""
        return list(self._hooks().names.values())

    def _hooks(self) -> Hooks:
        """The engine is asked for them, by a run of one token."""
        if self._asked is None:
            asking = Asking()
            with Session(self, 1, _probe=asking) as session:
                session.feed(np.zeros(1, np.int32))
            self._asked = Hooks(self._name, self.config.n_layer, asking.heads, self._order)
        return self._asked

    def run_with_cache(self, text: Text, names: Names = None, *, fwd_hooks: FwdHooks = (),
                       prepend_bos: Optional[bool] = None) -> Tuple[Floats, Cache]:
        """
        The logits [n][n_vocab], and the arrays of hooks: of a name or names, of all names that a function is true of, or
        (None) of all but attn.hook_result. With fwd_hooks (see run_with_hooks) they are as the functions left them. KeyError:
        the model has not such a hook; the message lists those that there are. AttnError: as `run`.
        """
        ids, hooks = self.to_tokens(text, prepend_bos), self._hooks()
        places = select(hooks, names)
        logits, run = self._run(ids, places, fwd_hooks)
        return logits, Cache(hooks, run.arrays(places), ids, self.to_str_tokens(ids))

    def run_with_hooks(self, text: Text, fwd_hooks: FwdHooks, *, prepend_bos: Optional[bool] = None) -> Floats:
        """
        The logits [n][n_vocab] of a run in which functions change what passes: fwd_hooks has pairs of a hook's name (or a
        function that is true of names) and f(array, name), which edits the array, shaped as in Cache, or returns another of
        its shape. The array is f's own: it may be kept. Weights on keys behind their query are not read. An exception of f
        ends the run and passes on. Each hook of attn_scores, pattern and result, and each one at all in texts of more than
        256 tokens, takes a further run as far as its layer. ValueError: the shape is another, or ln….hook_scale, which is to
        be looked at only, is changed. KeyError, AttnError: as run_with_cache.
        """
        return self._run(self.to_tokens(text, prepend_bos), [], fwd_hooks)[0]

    def _run(self, ids: NDArray[np.int32], places: List[Place], fwd_hooks: FwdHooks) -> Tuple[Floats, Run]:
        run = Run(self._hooks(), len(ids), places, self._functions(fwd_hooks))
        logits = np.empty((len(ids), self.config.n_vocab), np.float32)
        with Session(self, _probe=run) as session:
            run.feed(session, ids, logits)
        return logits, run

    def hidden(self, text: Text, *, prepend_bos: Optional[bool] = None) -> Floats:
        """
        [d_model] what the model makes of a text's last token, behind the final norm: a vector for the text, which is like
        those of texts like it. AttnError: as `run`.
        """
        ids = self.to_tokens(text, prepend_bos)
        if not self._standing_hooks():
            with Session(self) as session:
                return session.hidden(ids)
        run = Run(self._hooks(), len(ids), [], self._functions(()), repeats=True)
        with Session(self, _probe=run) as session:
            run.feed(session, ids, np.empty((len(ids), self.config.n_vocab), np.float32))
            return session.hidden(ids)  # the last one is fed anew, with what the functions made of it

    def unembed(self, resid: NDArray[Any]) -> Floats:
        """The logits [n][n_vocab] that residual vectors [n][d_model] would give if they left the last layer: the logit lens."""
        with Session(self) as session:
            return session.unembed(resid)

    def grad(self, text: Text, metric: Metric, names: Names = None, *,
             prepend_bos: Optional[bool] = None) -> Tuple[float, Cache]:
        """
        A metric of a text, and its gradients at hooks, shaped as the hooks' arrays: `model.grad(text, attn.logit(" Mary") -
        attn.logit(" John"))`, `attn.logprob(…)`, `attn.loss()`, `2 * …`. names as in run_with_cache; None: all but
        attn.hook_result. ln….hook_scale has no gradient. It is that of the model as it is, without functions on hooks. Takes
        about four runs' time. KeyError: the model has not such a hook. ValueError: the metric is of a text that is not one
        token. IndexError: of a position that is not there. TypeError: it is none. AttnError: as `run`, also of the metric's
        tokens, and where the metric is not finite.
        """
        self._refuse_hooks("a gradient")
        if not isinstance(metric, Metric):
            raise TypeError(f"a metric is what attn.logit, attn.logprob and attn.loss give, not {metric!r}")
        ids, hooks = self.to_tokens(text, prepend_bos), self._hooks()
        places = select(hooks, names, (Site.RESULT, *NO_GRADIENT))
        for place in places:
            if place[0] in NO_GRADIENT and not callable(names):
                raise KeyError(f"{hooks.names[place]!r} has no gradient")
        places = [place for place in places if place[0] not in NO_GRADIENT]
        way = WayBack(hooks, len(ids), places)
        with Session(self) as session:
            value = way.go(session, ids, metric.terms(self, ids))
        return value, Cache(hooks, way.arrays(places), ids, self.to_str_tokens(ids))

    # Weights, as of TransformerLens's HookedTransformer, but for what docs/PYTHON.md says.

    @property
    def weights(self) -> Weights:
        """All weights by name, one by one: `model.weights["blocks.3.attn.W_Q"]`."""
        return Weights(self)

    W_E = Stacked("embed.W_E", "[n_vocab][d_model]")
    W_pos = Stacked("pos_embed.W_pos", "[n_ctx][d_model]")
    W_U = Stacked("unembed.W_U", "[d_model][n_vocab]")
    b_U = Stacked("unembed.b_U", "[n_vocab]")
    W_Q = Stacked("attn.W_Q", "[n_layer][n_head][d_model][d_head]")
    W_K = Stacked("attn.W_K", "[n_layer][n_head_kv][d_model][d_head]")
    W_V = Stacked("attn.W_V", "[n_layer][n_head_kv][d_model][d_head]")
    W_O = Stacked("attn.W_O", "[n_layer][n_head][d_head][d_model]")
    b_Q = Stacked("attn.b_Q", "[n_layer][n_head][d_head]")
    b_K = Stacked("attn.b_K", "[n_layer][n_head_kv][d_head]")
    b_V = Stacked("attn.b_V", "[n_layer][n_head_kv][d_head]")
    b_O = Stacked("attn.b_O", "[n_layer][d_model]")
    # Of a model with experts [n_layer][n_expert] stand in front of these.
    W_in = Stacked("mlp.W_in", "[n_layer][d_model][d_ff]")
    W_gate = Stacked("mlp.W_gate", "[n_layer][d_model][d_ff]")
    W_out = Stacked("mlp.W_out", "[n_layer][d_ff][d_model]")
    b_in = Stacked("mlp.b_in", "[n_layer][d_ff]")
    b_gate = Stacked("mlp.b_gate", "[n_layer][d_ff]")
    b_out = Stacked("mlp.b_out", "[n_layer][d_model]")

    # Views, of texts.

    def logprobs(self, context: Text, continuation: Text, *, prepend_bos: Optional[bool] = None) -> NDArray[np.float64]:
        """
        ln p [n] of each token of a continuation behind a context. The two are cut into tokens by themselves, so a continuation
        begins with its space: " Paris". AttnError: the context has no tokens, or as `run`.
        """
        before, after = self.to_tokens(context, prepend_bos), self.to_tokens(continuation, prepend_bos=False)
        if len(before) == 0:
            raise AttnError("the context is empty: nothing says what follows it")
        return self._logprobs(np.concatenate([before, after]).astype(np.int32), len(before))

    def loss(self, text: Text, *, prepend_bos: Optional[bool] = None) -> float:
        """
        The mean surprisal of a text's tokens but the first, in nats: −mean ln p. AttnError: it has fewer than two tokens, or
        as `run`.
        """
        ids = self.to_tokens(text, prepend_bos)
        if len(ids) < 2:
            raise AttnError(f"a text of {len(ids)} token{'' if len(ids) == 1 else 's'} has none whose probability is known")
        return -float(self._logprobs(ids, 1).mean())

    def _logprobs(self, ids: NDArray[np.int32], first: int) -> NDArray[np.float64]:
        """ln p of ids[first:], each behind those before it."""
        if ids.max(initial=0) >= self.config.n_vocab:  # the last is not fed
            raise AttnError(f"token {ids.max()} is outside the vocabulary of {self.config.n_vocab}")
        if self._standing_hooks() and len(ids) > first:
            fed = ids[:max(self.config.n_ctx, len(ids) - 1)]  # functions get what `run` gives them, if it all fits
            return _chosen(self._run(fed, [], ())[0][first - 1:len(ids) - 1], ids[first:])
        found: List[NDArray[np.float64]] = [np.empty(0)]
        with Session(self) as session:
            if first > 1:
                session.feed(ids[:first - 1], 0)
            for start in range(first - 1, len(ids) - 1, _PIECE):
                piece = ids[start:start + _PIECE][:len(ids) - 1 - start]
                found.append(_chosen(session.feed(piece, len(piece)), ids[start + 1:start + 1 + len(piece)]))
        return np.concatenate(found)

    def generate(self, prompt: Text, n_tokens: int = 256, *, temperature: Optional[float] = None, top_k: Optional[int] = None,
                 top_p: Optional[float] = None, min_p: Optional[float] = None, repeat_penalty: Optional[float] = None,
                 seed: Optional[int] = None, stop: Union[str, Sequence[str]] = (), special: bool = False,
                 prepend_bos: Optional[bool] = None, n_ctx: int = 0, cache: str = "f32", fast: bool = False,
                 fwd_hooks: FwdHooks = ()) -> "Generation":
        """
        Writes on behind a prompt: an iterator of pieces of text, which computes a token when it is asked for the next piece,
        and stops when nobody asks. What is None is as the model's file wants it, else the usual (temperature 0.8, top_p 0.95);
        temperature 0 always takes the likeliest token; seed None: another text each time. stop: texts before which it ends.
        special: control tokens are read in the prompt, and shown by name. cache, fast, n_ctx: see Session; fwd_hooks: see
        `session`. AttnError: as `run`, when the first piece is asked for.
        """
        stops = [stop] if isinstance(stop, str) else list(stop)
        if not all(isinstance(each, str) and each for each in stops):
            raise ValueError(f"a stop text needs some text: {stops!r}")
        n_tokens = whole("n_tokens", n_tokens)
        sampling, error, file = Sampling(), Error(), self._opened()
        check(library.attn_sampling(file.pointer, ctypes.byref(sampling), ctypes.byref(error)), error)
        sampling.seed = int.from_bytes(os.urandom(8), "little") if seed is None else whole("seed", seed, 0, 2**64 - 1)
        if top_k is not None:
            sampling.top_k = whole("top_k", top_k)
        for name, value, most in (("temperature", temperature, 1e9), ("top_p", top_p, 1), ("min_p", min_p, 1),
                                  ("repeat_penalty", repeat_penalty, 100)):
            if value is not None and not (isinstance(value, Real) and 0 <= value <= most):
                raise ValueError(f"{name} is a number from 0 to {most:g}, not {value!r}")
            if value is not None:
                setattr(sampling, name, value)
        ids = self.to_tokens(prompt, prepend_bos, special)
        if len(ids) == 0:
            ids = self.to_tokens("", prepend_bos=True)
        session = self.session(n_ctx, cache=cache, fast=fast, fwd_hooks=fwd_hooks)
        return Generation(session, ids, sampling, n_tokens, stops, self._bytes if special else self._plain_bytes)

    def _plain_bytes(self, file: OpenFile, token: int) -> bytes:
        """A token's bytes in a text that shows no control tokens, nor its end."""
        hidden = library.attn_token_is_end(file.pointer, token) or self._is_control(file, token)
        return b"" if hidden else self._bytes(file, token)

    def _is_control(self, file: OpenFile, token: int) -> bool:
        """Whether a token is read in texts only where control tokens are. file: of a text that may outlive this model."""
        if token not in self._control:
            name = self._bytes(file, token).decode("utf-8", "replace")
            alone = [bool(name) and list(self._tokenize(file, name, flags)) == [token] for flags in (TOKENIZE_SPECIAL, 0)]
            self._control[token] = alone == [True, False]
        return self._control[token]

    # Views.

    def study(self, view: str, text: Optional[Text] = None, **options: Any) -> View:
        """
        The JSON of a view of `study`, all but "case" and "serve", as a dict: "next", "score", "attend", "heads", "lens", "explain" … Its keys
        stand in docs/JSON.md, its options in docs/STUDY.md: `top=5` is `--top 5`, `n=3` is `-n 3`, `no_sink=True` is
        `--no-sink`; numbers in a list are one list (`layers=[0, 3]`), of texts in a list each is given an option of its own; None
        and False leave it out. A second model, of `compare`, is `other=`. The program runs by itself and opens the file anew, so
        this takes the time of opening, too. AttnError: the program's line. ValueError: ids, or an option, are longer than the
        128 KiB that an argument of a program may have; a str may be of any length.
        """
        self._opened()
        self._refuse_hooks(f"the view {view!r}")
        if self._tokenizer is not None and view != "shape":  # which reads weights alone, and runs nothing
            options.setdefault("tokenizer", self._tokenizer)
        if self.n_threads and view != "shape":
            options.setdefault("threads", self.n_threads)
        given = text if text is None or isinstance(text, str) else as_ids(text)
        return _study.run(view, self.path, given, options)

    def patch(self, clean: Text, corrupted: str, answer: Union[str, int], wrong: Union[None, str, int] = None,
              **options: Any) -> View:
        """Activation patching: `study patch`; `what="z"`, `path="L3H4:final"`, `noising=True` …"""
        return self.study("patch", clean, corrupted=_text("corrupted", corrupted), answer=_token(answer), wrong=_token(wrong),
                          **options)

    def attribute(self, text: Text, answer: Union[None, str, int] = None, **options: Any) -> View:
        """The parts that raise the answer's logit: `study attribute`; `by="gradient"`, `edges=True` with `corrupted=` …"""
        return self.study("attribute", text, answer=_token(answer), **options)

    def ablate(self, text: Text, heads: Optional[str] = None, **options: Any) -> View:
        """The cost of a text without some heads, "L4H1,L3MLP": `study ablate`; `by="mean"`, `sweep="heads"` …"""
        return self.study("ablate", text, heads=heads, **options)

    def steer(self, text: Text, plus: str, minus: str, **options: Any) -> View:
        """The text that comes when a direction, from a text to another, is added: `study steer`; `layers=[3]`, `strength=4` …"""
        return self.study("steer", text, plus=_text("plus", plus), minus=_text("minus", minus), **options)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is a text, not {value!r}")
    return value


def _token(value: Any) -> Optional[str]:
    """A token as `study` takes it: its text, or #id of a whole number."""
    if value is None or isinstance(value, str):
        return value
    return f"#{whole('a token', value)}"


def _chosen(logits: Floats, ids: NDArray[np.int32]) -> NDArray[np.float64]:
    """ln p [n] of one token each, by logits [n][n_vocab]."""
    rows = logits.astype(np.float64)
    rows -= rows.max(axis=1, keepdims=True)
    chosen: NDArray[np.float64] = rows[np.arange(len(ids)), ids] - np.log(np.exp(rows).sum(axis=1))
    return chosen


def _ids(function: Any, room: int, *arguments: Any) -> NDArray[np.int32]:
    """The ids that a function of attn.h gives, whose last arguments are where they go, for how many, and how many there are."""
    n, error = ctypes.c_size_t(), Error()
    while True:
        ids = np.empty(room, np.int32)
        check(function(*arguments, ids.ctypes.data, room, ctypes.byref(n), ctypes.byref(error)), error)
        if n.value <= room:
            return ids[:n.value].copy()
        room = n.value


def _c_string(text: Optional[str], what: str) -> Optional[bytes]:
    """As C has it. ValueError: it has a NUL within. TypeError: it is no text."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise TypeError(f"{what} is a text, not {text!r}")
    _refuse_nul(text, what)
    return text.encode()


def _refuse_nul(text: str, what: str) -> None:
    if "\0" in text:
        raise ValueError(f"{what} has a NUL character at {text.index(chr(0))}")
