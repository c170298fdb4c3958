"""Lives of objects, calls at wrong times, from wrong threads and with wrong values: exceptions of one line, never a crash."""
import copy
import gc
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref

import numpy as np

import attn
from attn._library import library
from common import DEFAULT, LONG, SANITIZED, TREE, fails, model, opened, reference

GPT2 = reference("gpt2-f32")
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}"


def test_what_does_not_open():
    with fails(attn.AttnError, "^/none.gguf: .*No such file"):
        attn.load("/none.gguf")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "a\udcff.gguf"  # a name that is no UTF-8
        path.write_bytes(b"GGUF" + bytes(100))
        with fails(attn.AttnError, "gguf: "):
            attn.load(path)
    for n, kind, words in ((-1, ValueError, "less than 0"), (2**40, ValueError, "more than"), (1.5, TypeError, "whole"),
                           ("2", TypeError, "n_threads is a whole number, not '2'")):
        with fails(kind, words):
            attn.load(GPT2, n_threads=n)
    with fails(ValueError, "path has a NUL character"):  # C would open what stands before it
        attn.load(f"{GPT2}\0.gguf")
    with fails(ValueError, "tokenizer has a NUL character"):
        attn.load(GPT2, tokenizer=f"{GPT2}\0")
    assert repr(attn.load(os.fsencode(GPT2))) == repr(model())


def test_what_is_not_fed():
    for wrong, kind, words in (
            (3.5, ValueError, "whole numbers"), ([1.5], ValueError, "whole numbers"), ([[1]], ValueError, "one dimension"),
            (None, ValueError, "not None"), ([1, [2]], ValueError, r"not \[1, \[2\]\]"),
            (np.zeros((2, 3)), ValueError, r"float64 \[2, 3\]"), ([True], ValueError, "whole numbers"),
            (b"abc", ValueError, "whole numbers"), (iter([1]), ValueError, "whole numbers"),
            ([], attn.AttnError, "no tokens"), ("", attn.AttnError, "no tokens"), ([-1], attn.AttnError, "-1 is outside"),
            ([99999], attn.AttnError, "99999 is outside"), ([2**40], attn.AttnError, "outside"),
            ("a" * 193, attn.AttnError, "more than the context of 192")):
        with fails(kind, words):
            model().run(wrong)
        with fails(kind, words):
            model().run_with_hooks(wrong, [("logits", lambda array, name: None)])
    with model().session() as session:
        with fails(ValueError, "logits of 3"):
            session.feed([1], 3)
        for n_logits in (1, 2**40):
            with fails(attn.AttnError, "no tokens"):
                session.feed([], n_logits)
        for position, kind in ((-1, ValueError), (2**70, ValueError), (1.5, TypeError), ("1", TypeError)):
            with fails(kind, "position is"):
                session.rewind(position)
        for wrong in ("1", None, 1.5):
            with fails(TypeError, "n_logits is a whole number"):
                session.feed([1], wrong)
        for wrong in (3, "abc", None):
            with fails(TypeError, "bytes-like"):
                session.restore(wrong)
        for wrong in (np.zeros((1, 40), complex), [["a"] * 40], None):
            with fails(ValueError, "residual vectors are numbers"):
                session.unembed(wrong)
        session.rewind(5)
        assert len(session.tokens) == 0
    for options, words in (({"cache": "f64"}, "one of"), ({"n_ctx": -1}, "less than 0"), ({"n_ctx": 2**64 + 5}, "more than")):
        with fails(ValueError, words):
            model().session(**options)
    with fails(attn.AttnError, "positions that the model has learned"):
        model().session(193)
    with fails(TypeError, "a list of texts"):
        model().batch("abc")
    for call in (lambda: model().loss([1, 999]), lambda: model().logprobs([1], [999])):
        with fails(attn.AttnError, "token 999 is outside the vocabulary of 257"):
            call()


def test_what_is_not_generated():
    for options, kind, words in (
            ({"n_tokens": -1}, ValueError, "less than 0"), ({"n_tokens": "3"}, TypeError, "whole number"),
            ({"temperature": float("nan")}, ValueError, "temperature is a number from 0 to"),
            ({"temperature": "hot"}, ValueError, "not 'hot'"), ({"temperature": -1}, ValueError, "temperature"),
            ({"top_p": 2}, ValueError, "from 0 to 1, not 2"), ({"min_p": 1.5}, ValueError, "min_p is a number from 0 to 1"),
            ({"top_k": 2**64}, ValueError, "more than"), ({"top_k": 1.5}, TypeError, "whole number"),
            ({"seed": 2**64}, ValueError, "seed is"), ({"stop": [3]}, ValueError, "stop text"),
            ({"stop": b"a"}, ValueError, "stop text")):
        with fails(kind, words):
            model().generate("ab", **options)
    for message, kind, words in ((1, TypeError, "mapping with role and content, not 1"),
                                 ({"role": 1, "content": "a"}, TypeError, "role is a text, not 1"),
                                 ({"role": "user", "content": "a\0"}, ValueError, "NUL")):
        with fails(kind, words):
            model().chat_tokens([message], template="{{ messages[0].content }}")
    with fails(TypeError, "template is a text"):
        model().chat_tokens([{"role": "user", "content": "a"}], template=3)


def test_a_copy_of_a_model_opens_the_file_anew():
    """So it goes to another process, too; a session does not."""
    first = attn.load(GPT2, n_threads=1)
    others = [copy.copy(first), copy.deepcopy(first), pickle.loads(pickle.dumps(first))]
    logits = first.run("ab")
    first.close()
    for other in others:
        assert other.n_threads == 1 and np.array_equal(other.run("ab"), logits)
    with fails(attn.AttnError, "closed"):
        pickle.dumps(first)
    for session in (model().session(), model().generate("a", 3)):
        for way in (copy.deepcopy, pickle.dumps):
            with fails(TypeError, "neither copied nor pickled: fork"):
                way(session)
    with fails(AttributeError, "W_Q is the file's"):
        model().W_Q = 0


def test_a_closed_model_is_an_exception():
    with attn.load(GPT2) as loaded:
        assert "gpt2, 2 layers of 2 heads" in repr(loaded)
        session = loaded.session()
        writes = loaded.generate("the cat", 5, temperature=0)
        next(writes)
        ids = loaded.to_tokens("the cat")
        logits = loaded.run(ids)
    loaded.close()
    assert "closed" in repr(loaded) and loaded.config.n_layer == 2
    for call in (lambda: loaded.run("a"), lambda: loaded.run([1]), lambda: loaded.to_tokens("a"), lambda: loaded.to_tokens([1]),
                 lambda: loaded.to_string([1]), lambda: loaded.session(), lambda: loaded.generate("a"),
                 lambda: loaded.loss("ab"), lambda: loaded.run_with_cache("a"), lambda: loaded.study("next", "a"),
                 lambda: loaded.unembed(np.zeros((1, 40)))):
        with fails(attn.AttnError, "the model is closed"):
            call()
    # A session goes on: the file is open as long as one lives.
    assert np.array_equal(session.feed(ids)[0], logits[-1])
    session.close()
    session.close()
    for call in (lambda: session.feed([1]), lambda: session.tokens, lambda: session.n_ctx, lambda: session.rewind(0),
                 lambda: session.unembed(np.zeros((1, 40)))):
        with fails(attn.AttnError, "the session is closed"):
            call()
    assert "closed" in repr(session)


def test_a_file_stays_open_while_it_is_used():
    """Another thread may close the model as soon as the engine works, for the interpreter's lock is given up."""
    uses = {"attn_chat": ("gpt2-f32", lambda it: it.chat_tokens([{"role": "user", "content": "a" * 600}], template=TEMPLATE)),
            "attn_tokenize": ("gpt2-f32", lambda it: it.to_tokens("the cat", False)),
            "attn_model_n_striped": ("qwen35", lambda it: it.weights["blocks.0.linear_attn.A"]),
            "attn_weight": ("gpt2-f32", lambda it: it.W_E), "attn_feed": ("gpt2-f32", lambda it: it.run("the cat")),
            "attn_token_text": ("gpt2-f32", lambda it: it.to_string([65, 66]))}
    for function, (name, use) in uses.items():
        loaded, real, seen = opened(name), getattr(library, function), []

        def closes(*arguments):
            file = weakref.ref(loaded._file) if loaded._file else seen[-1]
            loaded.close()
            seen.append(file)
            assert file() is not None, f"{function} works on a file that is closed"
            return real(*arguments)

        setattr(library, function, closes)
        try:
            use(loaded)
        except attn.AttnError as error:  # what follows may find it closed
            assert "the model is closed" in str(error)
        finally:
            setattr(library, function, real)
        assert seen and seen[-1]() is None, function


def test_a_text_under_way_outlives_its_model():
    loaded = attn.load(GPT2)
    whole = "".join(loaded.generate("the cat", 8, temperature=0))
    writes = loaded.generate("the cat", 8, temperature=0)
    text = next(writes)
    del loaded
    gc.collect()
    assert text + "".join(writes) == whole
    loaded = attn.load(GPT2)
    writes = loaded.generate("the cat", 8, temperature=0)
    text = next(writes)
    loaded.close()
    assert text + "".join(writes) == whole


def test_a_text_is_asked_for_by_one_at_a_time():
    with fails(ValueError, "being written"):
        def asks(array, name):
            next(writes)
        writes = model("gpt2-f32").generate("the cat", 8, fwd_hooks=[("blocks.0.hook_resid_pre", asks)])
        next(writes)
    assert writes.end == "closed"


def test_other_signals_reach_their_handlers():
    """A handler that raises, as those of time limits do: the exception comes out, and no call returns half of its work."""
    class TimeIsUp(Exception):
        pass

    def raises(number, frame):
        raise TimeIsUp

    before, loaded = signal.signal(signal.SIGALRM, raises), model("gpt2-f32")
    ids = np.arange(150, dtype=np.int32)
    try:
        for i in range(20):
            ended = False
            signal.setitimer(signal.ITIMER_REAL, 0.0005 * (1 + i % 7))
            try:
                while not ended:
                    assert len(loaded.run_with_cache(ids)[1]) > 10
            except TimeIsUp:
                ended = True
            assert ended
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_any_order_of_garbage():
    for order in range(4):
        loaded = attn.load(GPT2)
        session, writes = loaded.session(), loaded.generate("a", 5)
        next(writes)
        cycle = [loaded, session, writes]
        cycle.append(cycle)
        if order == 0:
            del loaded
        elif order == 1:
            session.close()
        elif order == 2:
            loaded.close()
        del cycle, session, writes
        loaded = None
        gc.collect()


def test_a_session_at_work_serves_nobody_else():
    with model().session() as session:
        inside = []

        def use(call):
            try:
                call()
            except attn.AttnError as error:
                inside.append(str(error))

        calls = (lambda: session.feed([1]), lambda: session.tokens, session.close)
        with session._lock:
            other = threading.Thread(target=lambda: [use(call) for call in calls])
            other.start()
            other.join()
        with session._watch:
            for call in calls:
                use(call)
        assert len(inside) == 6 and all("one call at a time" in line for line in inside)
        session._lock.acquire()  # as a thread leaves it that a signal has interrupted
        assert len(session.tokens) == 0

    def again(array, name):
        other = model().run_with_cache("other", "hook_embed")[0]  # another run within this one
        assert other.shape == (5, model().config.n_vocab)

    assert np.array_equal(model().run_with_hooks("the cat", [("hook_embed", again)]), model().run("the cat"))


def test_two_models_in_two_threads():
    texts = ["the cat sat", "a dog", "one two three four"]
    wanted = {name: [model(name).run_with_cache(text) for text in texts] for name in ("gpt2-f32", "llama-f32")}
    wrong = []

    def work(name):
        try:
            for _ in range(5):
                for text, (logits, cache) in zip(texts, wanted[name]):
                    got, seen = model(name).run_with_cache(text)
                    same = np.array_equal(got, logits) and all(np.array_equal(seen[each], cache[each]) for each in cache)
                    if not same or "".join(model(name).generate(text, 3, temperature=0)) == "":
                        wrong.append((name, text))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=[name]) for name in (*wanted, *wanted)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def test_the_interpreter_s_lock_is_given_up():
    """A thread counts while the engine works on one text."""
    counted, over = [0], threading.Event()

    def count():
        while not over.is_set():
            counted[0] += 1

    with attn.load(DEFAULT, n_threads=1) as default, default.session() as session:
        thread = threading.Thread(target=count)
        thread.start()
        before, started = counted[0], time.monotonic()
        session.feed(np.arange(1, 200), 0)
        passed, took = counted[0] - before, time.monotonic() - started
        over.set()
        thread.join()
    assert passed > 1000, (passed, took)


def test_a_forked_child_leaves_the_sessions_alone():
    session = model().session()
    session.feed([1, 2])
    child = os.fork()
    if child == 0:
        code = 1
        signal.alarm(20)  # a thread is waited for that is not here
        try:
            session.feed([3])
        except attn.AttnError as error:
            code = 0 if "process that made it" in str(error) and len(model().run("ab")) == 2 else 2
        del session
        gc.collect()
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert session.feed([3]).shape == (1, model().config.n_vocab)


def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_nothing_leaks():
    def once():
        with attn.load(GPT2, n_threads=1) as loaded:
            loaded.run_with_cache("the cat sat on the mat", fwd_hooks=[("blocks.0.attn.hook_z", lambda array, name: None)])
            next(loaded.generate("a", 3, fwd_hooks=[("hook_embed", lambda array, name: None)]))  # and dropped
            loaded.grad("the cat", attn.loss(), ["blocks.0.attn.hook_q", "logits"])
            loaded.chat_tokens([{"role": "user", "content": "a"}], template="{{ messages[0].content }}")
            with loaded.session() as session:
                session.feed([1, 2])
                session.restore(session.fork().save())
            assert loaded.W_Q.shape and loaded.weights["embed.W_E"].shape
            try:
                loaded.run_with_hooks("ab", [("blocks.0.attn.hook_pattern", lambda array, name: 1 / 0)])
            except ZeroDivisionError:
                pass

    for _ in range(40):
        once()
    gc.collect()
    before = resident()
    for _ in range(120 if SANITIZED or not LONG else 3000):
        once()
    gc.collect()
    assert SANITIZED or resident() < before * 1.02 + (1 << 19), (before, resident())


def test_runs_take_no_memory():
    """Ten thousand of them in CI."""
    with attn.load(GPT2, n_threads=1) as loaded:
        hooks = [("hook_embed", lambda array, name: None)]
        kinds = (lambda: loaded.run("ab"), lambda: loaded.run_with_cache("ab"), lambda: loaded.run_with_hooks("ab", hooks))
        before = 0
        for i in range(200 if SANITIZED else 10000 if LONG else 1000):
            if i == 200:
                before = resident()
            kinds[i % 3]()
    assert SANITIZED or resident() < before * 1.02, (before, resident())


def test_arrays_go_with_whoever_holds_them():
    """At once, and not when the garbage collector comes, before which there may be a hundred runs."""
    gc.collect()
    gc.disable()
    try:
        for hooks in ((), [("blocks.0.attn.hook_pattern", lambda array, name: None)]):
            logits, cache = model().run_with_cache("the cat sat", fwd_hooks=hooks)
            held = [weakref.ref(array) for array in (logits, *cache.values())]
            kept = cache["blocks.1.attn.hook_attn_scores"]
            del logits, cache
            assert [at() is kept for at in held if at() is not None] == [True]
        with attn.load(GPT2) as loaded, loaded.session() as session:
            session.feed([1, 2])
        gone = [weakref.ref(each) for each in (loaded._file or session, session)]
        del loaded, session
        assert [at() for at in gone] == [None, None]
    finally:
        gc.enable()


INTERRUPTED = """
import os, signal, sys, threading, time
import attn
model = attn.load(sys.argv[1], n_threads=1)
ids = (list(range(1, 251)) * 2)[:model.config.n_ctx]
kinds = [lambda: model.run(ids), lambda: model.run_with_cache(ids, "blocks.0.attn.hook_q"), lambda: model.loss(ids),
         lambda: list(model.generate(ids[:100], 100))]
for i in range(8):
    threading.Timer(0.02 + 0.007 * i, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        while True:
            kinds[i % 4]()
    except KeyboardInterrupt:
        pass
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
session = model.session()  # one long call ends early
threading.Timer(0.03, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    for _ in range(1000):
        session.rewind(0)
        session.feed(ids, 0)
    print("not stopped")
except KeyboardInterrupt:
    print("stopped with", len(session.tokens))
def breaks(array, name):
    signal.raise_signal(signal.SIGINT)
    while True: pass
try:
    model.run_with_hooks(ids[:9], [("blocks.0.hook_resid_pre", breaks)])
except KeyboardInterrupt:
    print("stopped in a function")
"""


def test_ctrl_c_stops_what_runs():
    started = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED, DEFAULT], capture_output=True, text=True, timeout=60,
                           env={**os.environ, "PYTHONPATH": str(TREE / "python")})
    assert ended.returncode == 0 and ended.stderr == "", ended.stderr
    assert ended.stdout.endswith("stopped in a function\n") and "stopped with 0\n" in ended.stdout, ended.stdout
    assert time.monotonic() - started < 30


def test_an_import_is_quick():
    code = "import numpy, time; t = time.process_time(); import attn; print(time.process_time() - t)"
    said = [float(subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(TREE / "python")},
                                 stdout=subprocess.PIPE, check=True).stdout) for _ in range(3)]
    assert SANITIZED or min(said) < 0.15, said


def test_a_hook_is_quick():
    ids, calls = np.arange(1, 17), []
    names = [name for name in model().hook_names if not any(word in name for word in ("scores", "pattern", "result", "logits"))]

    def seconds(chosen):
        hooks = [(name, lambda array, name: calls.append(name)) for name in chosen]
        before = time.process_time()
        for _ in range(20):
            single.run_with_hooks(ids, hooks)
        return time.process_time() - before

    with attn.load(GPT2, n_threads=1) as single:
        took = min(seconds(names) for _ in range(5)) - min(seconds(names[:1]) for _ in range(5))
    assert calls.count(names[-1]) == 100 and (SANITIZED or took / 20 / (len(names) - 1) < 50e-6), took


def test_a_small_array_keeps_no_large_page():
    """Nor a block of them: one array each of many runs takes about as much memory as it has numbers."""
    with attn.load(DEFAULT, n_threads=1) as default:
        name = "blocks.0.mlp.hook_post"
        kept = [default.run_with_cache(np.arange(1, 100), name)[1][name] for _ in range(4)]
        before, size = resident(), kept[0].nbytes
        kept += [default.run_with_cache(np.arange(1, 100), name)[1][name] for _ in range(4 if SANITIZED else 40)]
        assert size > 1 << 17 and (SANITIZED or resident() - before < 90 * size), (resident() - before, size)


def test_one_array_of_many_costs_its_own_size():
    """Also where those about it were in the same large pages; and it stays as it was, as does a part of it alone."""
    with attn.load(DEFAULT, n_threads=1) as default:
        for run in (lambda ids: default.run_with_cache(ids)[1], lambda ids: default.grad(ids, attn.loss())[1]):
            wanted = run(np.arange(100))["mlp_post", 3].copy()
            kept, before = [run(np.arange(100))["mlp_post", 3] for _ in range(2)], resident()
            kept += [run(np.arange(100))["mlp_post", 3] for _ in range(1 if SANITIZED else 8)]
            assert SANITIZED or resident() - before < 6 * 8 * wanted.nbytes, (resident() - before, wanted.nbytes)
            kept = [array[10:20] for array in kept]
            assert all(np.array_equal(part, wanted[10:20]) for part in kept)
