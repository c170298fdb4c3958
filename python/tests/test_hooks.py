"""Functions on hooks change what they say they change: as ablate and patch do it, and as the formula has it."""
import os
import signal
import threading

import numpy as np

import attn
from common import DEFAULT, LETTERS, fails, model, reference

CLEAN, CORRUPTED = "the cat sat", "the rat sat"


def nll(logits, ids):
    """Mean surprisal in nats, plainly."""
    logits = logits[:-1].astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    chosen = logits[np.arange(len(logits)), ids[1:]] - np.log(np.exp(logits).sum(axis=1))
    return -chosen.mean()


def test_a_head_off_is_what_ablate_says():
    def off(z, name):
        assert name == "blocks.1.attn.hook_z" and z.shape == (len(ids), 2, model().config.d_head)
        z[:, 1] = 0

    ids = model().to_tokens(CLEAN)
    logits = model().run_with_hooks(CLEAN, [("blocks.1.attn.hook_z", off)])
    view = model().ablate(CLEAN, "L1H1", hard_zero=True)
    assert abs(nll(model().run(CLEAN), ids) - view["baseline"]["nll_nats"]) < 1e-6
    assert abs(nll(logits, ids) - view["ablation"]["nll_nats"]) < 1e-6
    assert abs(view["ablation"]["delta_nll_nats"]) > 1e-4
    off_by_result = model().run_with_hooks(CLEAN, [("blocks.1.attn.hook_result", lambda r, _: r * np.array([1, 0])[:, None])])
    assert np.allclose(off_by_result, logits, atol=1e-5)


def test_a_patch_is_what_patch_says():
    for name, what in (("hook_resid_pre", "resid_pre"), ("hook_attn_out", "attn_out"), ("hook_mlp_out", "mlp_out")):
        view = model().patch(CLEAN, CORRUPTED, "x", "y", what=what)
        _, cache = model().run_with_cache(CLEAN, lambda hook: name in hook)
        x, y = model().to_single_token("x"), model().to_single_token("y")
        for cell in view["cells"]:
            def put(array, hook):
                array[cell["position"]] = cache[hook][cell["position"]]

            logits = model().run_with_hooks(CORRUPTED, [(f"blocks.{cell['layer']}.{name}", put)])[-1]
            value = float(logits[x]) - float(logits[y])
            assert abs(value - cell["value_nats"]) < 1e-5, (name, cell, value)
    view = model().patch(CLEAN, CORRUPTED, "x", "y", what="pattern")
    _, cache = model().run_with_cache(CLEAN, "blocks.1.attn.hook_pattern")
    for cell in view["cells"]:
        if cell["layer"] == 1:
            def put_head(array, hook):
                array[cell["head"]] = cache[hook][cell["head"]]

            logits = model().run_with_hooks(CORRUPTED, [("blocks.1.attn.hook_pattern", put_head)])[-1]
            assert abs((logits[x] - logits[y]) - cell["value_nats"]) < 1e-5


def test_a_pattern_that_is_written_makes_z():
    calls = []

    def even(pattern, name):
        calls.append(name)
        n = pattern.shape[-1]
        assert np.allclose(pattern.sum(axis=-1), 1, atol=1e-6) and np.array_equal(pattern, np.tril(pattern))
        pattern[0] = 1 / np.arange(1, n + 1)[:, None]  # above the diagonal, too, where nobody reads

    for name in ("gpt2-f32", "llama-f32"):
        ids = model(name).to_tokens("abacabad")
        hooks = [("blocks.0.attn.hook_pattern", even)]
        logits, cache = model(name).run_with_cache(ids, fwd_hooks=hooks)
        pattern, v, z = (cache[site, 0] for site in ("pattern", "v", "z"))
        assert np.array_equal(pattern, np.tril(pattern)) and abs(pattern[0, 3, 2] - 1 / 4) < 1e-6
        group = model(name).config.n_head // model(name).config.n_head_kv
        for head in range(model(name).config.n_head):
            assert np.allclose(z[:, head], pattern[head] @ v[:, head // group], atol=1e-5)
        assert np.allclose(model(name).run_with_hooks(ids, hooks), logits, atol=1e-5)
        assert not np.allclose(model(name).run(ids), logits, atol=1e-3)
    assert calls == ["blocks.0.attn.hook_pattern"] * 4


def test_functions_are_called_once_and_in_the_order_of_the_pass():
    calls = []

    def look(array, name):
        calls.append((name, array.copy()))

    names = model().hook_names
    plain, cache = model().run_with_cache(CLEAN, lambda name: True)
    logits = model().run_with_hooks(CLEAN, [(lambda name: True, look)])
    assert [name for name, _ in calls] == names == list(cache) and len(names) > 30
    for name, array in calls:
        assert np.allclose(array, cache[name], atol=1e-5), name
    assert np.allclose(logits, plain, atol=1e-5)
    assert np.array_equal(model().run_with_hooks(CLEAN, [("hook_embed", look)]), model().run(CLEAN))


def test_what_is_edited_is_seen_by_those_behind():
    def double(array, name):
        return 2 * array

    def add(array, name):
        array += 1

    _, cache = model().run_with_cache(CLEAN, fwd_hooks=[("blocks.0.hook_resid_post", double), ("blocks.0.hook_resid_post", add),
                                                        ("blocks.1.attn.hook_attn_scores", double), ("logits", add)])
    _, plain = model().run_with_cache(CLEAN)
    assert np.array_equal(cache["resid_post", 0], 2 * plain["resid_post", 0] + 1)
    assert np.array_equal(cache["resid_pre", 1], cache["resid_post", 0])
    assert np.array_equal(cache["resid_pre", 0], plain["resid_pre", 0])
    assert np.array_equal(cache["logits"], model().unembed(cache["resid_post", 1]) + 1)
    q, k = cache["q", 1], cache["k", 1]
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(model().config.d_head) * 2
    lower = np.tril_indices(len(q))
    assert np.allclose(cache["scores", 1][:, lower[0], lower[1]], scores[:, lower[0], lower[1]], rtol=1e-5, atol=1e-5)
    assert np.all(np.isneginf(cache["scores", 1][0, 0, 1:]))
    for hook in ("attn.hook_q", "attn.hook_k", "attn.hook_v", "attn.hook_z", "hook_attn_out", "mlp.hook_post", "hook_resid_mid"):
        name = f"blocks.1.{hook}"
        _, edited = model().run_with_cache(CLEAN, fwd_hooks=[(name, lambda array, _: array * 0.5)])
        assert np.array_equal(edited[name], plain[name] * 0.5), name
        assert not np.array_equal(edited["logits"], plain["logits"]), name


def test_what_is_given_back_goes_where_it_was():
    """In families, too, whose files have queries and keys in another order."""
    for name in ("gpt2-f32", "llama-f32"):
        loaded, plain = model(name), model(name).run(CLEAN)
        for site in ("q", "k", "v", "z", *(("rot_q", "rot_k") if name == "llama-f32" else ())):
            hook = f"blocks.1.attn.hook_{site}"
            same = [(hook, lambda array, _: array.copy())]
            assert np.array_equal(loaded.run_with_hooks(CLEAN, same), plain), (name, site)
            with loaded.session(fwd_hooks=same) as session:
                assert np.array_equal(session.feed(loaded.to_tokens(CLEAN)), plain[-1:]), (name, site)
            many = same + [("blocks.0.attn.hook_pattern", lambda array, _: array)]  # which takes a second run
            assert np.allclose(loaded.run_with_hooks(CLEAN, many), plain, atol=1e-5), (name, site)


def test_texts_of_several_chunks():
    """A function sees all positions at once there, too; what stands before is not changed by what follows."""
    with attn.load(DEFAULT) as default:
        ids = np.arange(1, 301) * 7 % default.config.n_vocab
        shapes = []

        def halve(array, name):
            shapes.append(array.shape)
            array *= 0.5

        hooks = [("blocks.0.hook_mlp_out", halve), ("blocks.1.attn.hook_z", halve),
                 ("ln_final.hook_scale", lambda array, name: shapes.append(array.shape))]
        whole, cache = default.run_with_cache(ids, "blocks.1.attn.hook_z", fwd_hooks=hooks)
        part, first = default.run_with_cache(ids[:200], "blocks.1.attn.hook_z", fwd_hooks=hooks)
        c = default.config
        assert shapes == [(n, *rest) for n in (300, 200) for rest in ((c.d_model,), (c.n_head, c.d_head), (1,))]
        assert np.array_equal(whole[:200], part)
        assert np.array_equal(cache["z", 1][:200], first["z", 1])
        with attn.load(DEFAULT, n_threads=1) as single:
            logits, both = single.run_with_cache(ids, lambda name: "resid_post" in name or "pattern" in name)
        pattern, resid = both["pattern", -1], both["resid_post", -1]
        assert pattern.shape == (c.n_head, 300, 300) and np.allclose(pattern.sum(axis=-1), 1, atol=1e-5)
        assert resid.shape == (300, c.d_model) and np.array_equal(default.unembed(resid), logits)


def greedy(loaded, ids, n, hooks):
    """The likeliest tokens, the whole text run anew for each."""
    ids = list(ids)
    for _ in range(n):
        ids.append(int(loaded.run_with_hooks(ids, hooks)[-1].argmax()))
    return ids


def test_a_text_is_written_under_functions():
    for name in ("gpt2-f32", "llama-f32"):
        loaded, calls = model(name), []
        ids, d = loaded.to_tokens(CLEAN), loaded.config.d_model

        def push(resid, hook):
            calls.append((hook, len(resid)))
            resid += np.linspace(-1, 1, d)

        def turn(q, hook):
            q[:, 1] = q[:, 0] * 0.5  # of each token by itself

        hooks = [("blocks.0.hook_resid_post", push), ("blocks.1.attn.hook_q", turn),
                 ("ln_final.hook_scale", lambda scale, hook: calls.append((hook, len(scale))))]
        wanted = greedy(loaded, ids, 6, hooks)
        calls.clear()
        writes = loaded.generate(ids, 6, temperature=0, fwd_hooks=hooks)
        list(writes)
        assert list(ids) + writes.tokens == wanted and wanted != greedy(loaded, ids, 6, [])
        assert calls[:2] == [("blocks.0.hook_resid_post", len(ids)), ("ln_final.hook_scale", 1)]
        assert calls[2:] == [("blocks.0.hook_resid_post", 1), ("ln_final.hook_scale", 1)] * 5
        with loaded.session(fwd_hooks=hooks) as session:
            assert np.allclose(session.feed(ids), loaded.run_with_hooks(ids, hooks)[-1:], atol=1e-5)
    with fails(ValueError, "blocks.0.attn.hook_pattern comes row by row"):
        model().generate("a", fwd_hooks=[("blocks.0.attn.hook_pattern", push)])
    with fails(ValueError, r"hook_embed is \[1, 40\], but the function returned \[2\]"):
        list(model().generate("a", fwd_hooks=[("hook_embed", lambda array, name: np.zeros(2))]))
    with fails(ZeroDivisionError, "zero"):
        list(model().generate("a", fwd_hooks=[("hook_embed", lambda array, name: 1 / 0)]))


def test_functions_in_a_block():
    add, double = ("hook_embed", lambda array, name: array + 1), ("hook_embed", lambda array, name: array * 2)
    ids, plain = model().to_tokens(CLEAN), model().run(CLEAN)
    both, other = model().run_with_hooks(CLEAN, [add, double]), []
    with model().hooks([add]) as loaded:
        assert loaded is model()
        logits, cache = model().run_with_cache(CLEAN, fwd_hooks=[double])
        assert np.allclose(logits, both, atol=1e-5) and np.array_equal(model().run_with_hooks(CLEAN, [double]), both)
        with model().hooks([double]):
            assert np.array_equal(model().run(CLEAN), both)
            assert abs(model().loss(CLEAN) - nll(both, ids)) < 1e-6
            assert abs(model().logprobs(CLEAN[:4], CLEAN[4:]).mean() + nll(both[3:], ids[3:])) < 1e-6
            assert model().logprobs("a", "").shape == (0,)
            writes = model().generate(CLEAN, 5, temperature=0)
        assert list(writes) and list(ids) + writes.tokens == greedy(model(), ids, 5, [double])
        thread = threading.Thread(target=lambda: other.append(model().run(CLEAN)))
        thread.start()
        thread.join()
        for call in (lambda: model().study("next", "a"), lambda: model().grad("ab", attn.loss())):
            with fails(attn.AttnError, "cannot be had within model.hooks"):
                call()
    assert np.array_equal(other[0], plain) and np.array_equal(model().run(CLEAN), plain)
    with fails(KeyError, "hook_nothing"):
        with model().hooks([("hook_nothing", print)]):
            model().run("a")
    assert np.array_equal(model().run(CLEAN), plain)


def test_all_that_goes_over_a_text_gives_functions_the_same():
    """Of a text of one chunk, of several, with patterns, and where layers keep states: a mean over positions tells."""
    seen = []

    def mean(array, name):
        seen.append((name, array.shape))
        array[...] = array.mean(axis=0)

    def even(pattern, name):
        seen.append((name, pattern.shape))
        pattern[:] = np.tril(np.ones(pattern.shape[1:])) / np.arange(1, pattern.shape[1] + 1)[:, None]

    with attn.load(DEFAULT) as default:
        wide = [("blocks.3.hook_attn_out", mean), ("blocks.5.hook_mlp_out", mean),
                ("logits", lambda array, name: seen.append((name, array.shape)))]
        for loaded, n, hooks in ((default, 40, wide), (default, 300, wide), (model(), 20, [("blocks.0.attn.hook_pattern", even)]),
                                 (model("lfm2"), 20, [("blocks.1.hook_resid_post", mean)])):
            ids = np.arange(1, n + 1)
            with loaded.hooks(hooks):
                logits = loaded.run(ids)
                once = seen.copy()
                seen.clear()
                loss, logprobs, hidden = loaded.loss(ids), loaded.logprobs(ids[:5], ids[5:]), loaded.hidden(ids)
            assert seen == once * 3, (seen, once)
            assert abs(loss - nll(logits, ids)) < 1e-5 and abs(logprobs.mean() + nll(logits[4:], ids[4:])) < 1e-5
            seen.clear()
            assert np.abs(hidden @ loaded.W_U - logits[-1]).max() < 1e-3 * np.abs(logits[-1]).max()
    seen.clear()
    full = np.arange(193)  # the context and one
    with model().hooks([("hook_embed", mean)]):
        assert np.isfinite(model().loss(full)) and seen == [("hook_embed", (192, 40))]


def test_names():
    gpt2, llama = model(), model("llama-f32")
    _, cache = gpt2.run_with_cache(CLEAN)
    _, gated = llama.run_with_cache(CLEAN)
    assert cache["embed.hook_out"] is cache["hook_embed"] and cache["pos_embed.hook_out"] is cache["hook_pos_embed"]
    for new, old in {"hook_in": "hook_resid_pre", "hook_out": "hook_resid_post", "attn.hook_out": "hook_attn_out",
                     "mlp.hook_out": "hook_mlp_out", "ln2.hook_in": "hook_resid_mid", "mlp.in.hook_out": "mlp.hook_pre",
                     "mlp.out.hook_in": "mlp.hook_post", "attn.q.hook_out": "attn.hook_q", "attn.k.hook_out": "attn.hook_k",
                     "attn.v.hook_out": "attn.hook_v", "attn.o.hook_in": "attn.hook_z"}.items():
        assert cache[f"blocks.1.{new}"] is cache[f"blocks.1.{old}"], new
    assert gated["blocks.0.mlp.in.hook_out"] is gated["blocks.0.mlp.hook_pre_linear"]
    assert gated["blocks.0.mlp.gate.hook_out"] is gated["blocks.0.mlp.hook_pre"]
    assert cache["pattern", -1] is cache["blocks.1.attn.hook_pattern"] and "hook_embed" in cache and "x" not in cache
    with fails(KeyError, "gpt2-f32.gguf has no 'blocks.0.attn.hook_rot_q'; there are hook_embed, .*logits, and in blocks.0 … "
                         "blocks.1: .*attn.hook_q"):
        gpt2.run_with_cache(CLEAN, "blocks.0.attn.hook_rot_q")
    with fails(KeyError, "no 'hook_pos_embed'"):
        llama.run_with_hooks(CLEAN, [("hook_pos_embed", lambda array, name: None)])
    with fails(KeyError, "blocks.2.hook_resid_pre"):
        cache["blocks.2.hook_resid_pre"]
    with fails(KeyError, r"hook_q \(only "):  # some layers keep a state
        attn.load(reference("lfm2"), tokenizer=LETTERS).run_with_cache([1, 2], "q")
    with fails(KeyError, "not kept in this run; kept are blocks.0.attn.hook_q"):
        gpt2.run_with_cache(CLEAN, ["blocks.0.attn.hook_q"])[1]["hook_embed"]
    for wrong in (("nothing", 0), ("pattern", 2), ("pattern",), ("pattern", "x"), ("pattern", 0, 0)):
        with fails(KeyError, "there is no site|layer 2|is no site and layer"):
            cache[wrong]
    assert "arrays, 11 tokens" in repr(cache)


def test_what_goes_wrong_in_a_function_is_told():
    class Mine(Exception):
        pass

    def breaks(array, name):
        raise Mine("in the middle")

    for name in ("hook_embed", "blocks.0.attn.hook_q", "blocks.1.attn.hook_pattern", "blocks.1.hook_resid_post", "logits"):
        with fails(Mine, "in the middle"):
            model().run_with_hooks(CLEAN, [(name, breaks)])
        with fails(ValueError, rf"{name} is \[.*returned \[3\]"):
            model().run_with_hooks(CLEAN, [(name, lambda array, name: np.zeros(3))])
    def reshaped(array, name):
        array.shape = (*array.shape[1:], array.shape[0])

    def of_float64(array, name):
        array.dtype = np.float64

    for name in ("hook_embed", "blocks.0.attn.hook_z", "blocks.0.attn.hook_result"):
        for function in (reshaped, of_float64, lambda array, name: array.resize(3, 3, refcheck=False)):
            with fails(ValueError, rf"{name} is \[11, .*but the function made it \["):
                model().run_with_hooks(CLEAN, [(name, function)])
        for kind in (complex, object, "U3"):
            with fails(ValueError, f"{name} has numbers, but the function returned"):
                model().run_with_hooks(CLEAN, [(name, lambda array, name: np.zeros(array.shape, kind))])
    turned = [("hook_embed", lambda array, name: np.zeros(array.shape[::-1], np.int8).T)]  # of any order and kind of number
    plain = [("hook_embed", lambda array, name: 0 * array)]
    assert np.array_equal(model().run_with_hooks(CLEAN, turned), model().run_with_hooks(CLEAN, plain))
    for pairs in ("ab", [("hook_embed",)], [("hook_embed", 3)], {"hook_embed": breaks}, [3], [("hook_embed", breaks, 1)]):
        for way in (lambda: model().run_with_hooks(CLEAN, pairs), lambda: model().session(fwd_hooks=pairs)):
            with fails(TypeError, "pairs of a hook's name and a function, not "):
                way()
    for names in (3, b"hook_embed", object()):
        with fails(TypeError, "names are a hook's name"):
            model().run_with_cache(CLEAN, names)
    for name in ("blocks.0.ln1.hook_scale", "ln_final.hook_scale"):
        with fails(ValueError, "looked at only"):
            model().run_with_hooks(CLEAN, [(name, lambda array, name: array)])
        with fails(ValueError, "read-only"):
            model().run_with_hooks(CLEAN, [(name, lambda array, name: array.fill(1))])
    with fails(attn.AttnError, "not finite.* or a function on a hook gave such numbers"):
        model().run_with_hooks(CLEAN, [("blocks.1.hook_resid_post", lambda array, name: array * np.nan)])
    assert np.array_equal(model().run(CLEAN), model().run(CLEAN))


def test_a_feed_that_raised_has_fed_nothing():
    """Wherever the function was; with states, which cannot go back, the session begins anew."""
    for name in ("gpt2-f32", "lfm2"):
        loaded, held = model(name), [1, 2] if name == "gpt2-f32" else []
        for hook in ("blocks.0.hook_resid_pre", f"blocks.{loaded.config.n_layer - 1}.hook_resid_post", "logits"):
            breaks = []

            def maybe(array, name):
                if breaks:
                    raise breaks[0]

            with loaded.session(fwd_hooks=[(hook, maybe)]) as session:
                for call in (lambda: session.feed([3, 4]), lambda: session.sync([1, 2, 3, 4]), lambda: session.sync([1, 2, 3]),
                             *([] if hook == "logits" else [lambda: session.hidden([1, 2, 3, 4])])):
                    session.sync([1, 2])
                    breaks[:] = [ValueError("it breaks")]
                    with fails(ValueError, "it breaks"):
                        call()
                    assert session.tokens.tolist() == held, (name, hook)
                    breaks.clear()
                session.sync([1, 5, 6])
                breaks[:] = [KeyboardInterrupt("it breaks")]
                with fails(KeyboardInterrupt, "it breaks"):
                    session.sync([1, 2, 3])
                assert session.tokens.tolist() == held[:1], (name, hook)
                breaks.clear()
                assert np.array_equal(session.sync([1, 2, 3]), loaded.run([1, 2, 3])[-1])


def test_handlers_stay_in_their_places():
    """Handlers of signals: one raises while others are exchanged for the engine's work, one puts another in its own place."""
    def raises(number, frame):
        raise ValueError("time is up")

    real, before, at = signal.signal, [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)], 0

    def exchange(number, handler):
        nonlocal at
        at -= 1
        if at == 0:
            os.kill(os.getpid(), sent)
        return real(number, handler)

    try:
        real(signal.SIGINT, signal.default_int_handler)
        real(signal.SIGALRM, raises)
        for sent, kind in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGALRM, ValueError)):
            for first in range(1, 5):  # two are taken away, and put back
                at, signal.signal = first, exchange
                try:
                    model().run("the cat")
                    raise AssertionError(f"{kind.__name__} was lost")
                except kind:
                    assert at <= 0
                finally:
                    signal.signal = real
                places = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)
                assert places == (signal.default_int_handler, raises), (sent, first, places)
        real(signal.SIGINT, lambda number, frame: signal.signal(number, signal.SIG_IGN))
        model().run_with_hooks("the cat", [("logits", lambda array, name: os.kill(os.getpid(), signal.SIGINT))])
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGALRM), before):
            real(number, handler)


def test_ids_are_copied():
    """What becomes of the caller's array changes nothing, neither during a run nor before a text is written on."""
    def spoils(array, name):
        ids[:] = 0

    for use in (lambda ids: model().run_with_cache(ids)[1], lambda ids: model().grad(ids, attn.loss())[1]):
        ids = model().to_tokens(CLEAN)
        cache, writes = use(ids), model().generate(ids, 5, temperature=0)
        ids[:] = 0
        assert list(cache.tokens) == list(model().to_tokens(CLEAN)) and "".join(cache.str_tokens) == CLEAN
        assert "".join(writes) == "".join(model().generate(CLEAN, 5, temperature=0))
    ids = model().to_tokens(CLEAN)
    with model().hooks([("blocks.1.attn.hook_pattern", spoils)]):  # a second run follows
        assert np.allclose(model().run(ids), model().run(CLEAN), atol=1e-5)


def test_arrays_outlive_their_run():
    kept = []
    with attn.load(reference("gpt2-f32")) as loaded:
        hooks = [("blocks.0.attn.hook_q", lambda array, name: kept.append(array))]
        logits, cache = loaded.run_with_cache(CLEAN, fwd_hooks=hooks)
        before = {name: array.copy() for name, array in cache.items()}
        q = kept[0].copy()
        kept[0][...] = 7  # of the function alone
    for _ in range(3):
        model().run_with_cache("other words here")
    assert all(np.array_equal(cache[name], before[name]) for name in cache)
    assert np.array_equal(cache["blocks.0.attn.hook_q"], q)

    def spoils(array, name):
        kept[-1][...] = 0  # what the function before had: the run that follows has its own

    kept.clear()
    spoiled = [hooks[0], ("blocks.1.attn.hook_pattern", spoils)]
    assert np.allclose(model().run_with_hooks(CLEAN, spoiled), model().run(CLEAN), atol=1e-5)
