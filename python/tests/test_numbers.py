"""Arrays and logits are those of `study`, to the bit; tokens, losses, texts those of the programs and of the formulas."""
import ctypes
import json
import os
import re
import subprocess
import tempfile

import numpy as np

import attn
from attn import _library, _sites
from common import LETTERS, LONG, REFERENCES, TREE, fails, model, opened, reference

STUDY = _library.find("ATTN_STUDY", "study", "study")
FAMILIES = ["gpt2-f32", "gpt2-q4_0", "llama-f32", "qwen35", "gpt-oss", "phi2", "bloom", "lfm2", "internlm2", "gptj"]


def study(*words):
    return json.loads(subprocess.run([STUDY, *words, "--json"], check=True, stdout=subprocess.PIPE).stdout)


def check_dump(path):
    with tempfile.TemporaryDirectory() as folder:
        npz = os.path.join(folder, "x.npz")
        loaded = opened(path.stem)
        vocabulary = ["-z", LETTERS] if loaded._tokenizer else []
        study("dump", str(path), *vocabulary, "-p", "abacabad", "-o", npz)
        with np.load(npz) as dump:
            expected = {name: dump[name] for name in dump.files}
    logits, cache = loaded.run_with_cache("abacabad")
    assert list(cache.tokens) == list(expected.pop("tokens")), path
    assert len(expected.pop("str_tokens")) == len(cache.str_tokens)
    assert list(cache) == list(expected), (path, set(cache) ^ set(expected))
    for name, array in expected.items():
        ours = cache[name]
        assert ours.dtype == array.dtype == np.float32 and ours.shape == array.shape, (path, name, ours.shape, array.shape)
        assert np.array_equal(ours, array), (path, name)
    assert np.array_equal(logits, cache["logits"])


def test_all_arrays_of_a_dump():
    for name in REFERENCES if LONG else FAMILIES:
        check_dump(reference(name))


def test_results_of_heads_are_what_attention_adds():
    logits, cache = model().run_with_cache("abacabad", lambda name: "result" in name or "attn_out" in name)
    for layer in range(2):
        result = cache["result", layer]
        assert result.shape == (8, 2, model().config.d_model)
        bias = cache["attn_out", layer] - result.sum(axis=1)
        assert np.abs(bias - bias[0]).max() < 1e-5  # all that is left out is the bias, the same everywhere


def test_logits_are_what_next_shows():
    logits = model().run("abacab")
    view = study("next", str(reference("gpt2-f32")), "-p", "abacab", "--top", "5")
    assert np.array_equal(logits, model()("abacab"))
    for row in view["top"]:
        assert abs(logits[-1][row["id"]] - row["logit"]) <= 1e-8 * abs(row["logit"])
    with attn.load(reference("gpt2-f32"), n_threads=1) as single:
        assert np.array_equal(single.run("abacab"), logits)


def test_a_batch_has_the_bits_of_runs():
    for name in FAMILIES:
        loaded = opened(name)
        texts = ["abacab", "a", "bacabacabacabacabacabacabac", "abacad", "cab"]
        together = loaded.batch(texts)
        assert len(together) == len(texts)
        for text, logits in zip(texts, together):
            assert np.array_equal(logits, loaded.run(text)), (name, text)
    assert model().batch([]) == [] and np.array_equal(model().batch(["ab"])[0], model().run("ab"))
    with fails(attn.AttnError, "outside the vocabulary"):
        model().batch(["ab", [100000]])
    with fails(attn.AttnError, "more than the context"):
        model().batch(["ab", "a" * 1000])
    with model().hooks([("blocks.0.hook_attn_out", lambda array, name: array * 0)]):
        assert np.array_equal(model().batch(["ab", "cab"])[1], model().run("cab"))


def test_without_a_vocabulary():
    with fails(attn.AttnError, "the model has no vocabulary: open it with a `tokenizer`$"):
        attn.load(reference("qwen3moe")).to_tokens("a")
    assert attn.load(reference("qwen3moe"), tokenizer=LETTERS).to_tokens("a").size


def test_tokens():
    gpt2, llama = model(), model("llama-f32")
    for loaded in (gpt2, llama):
        for text in ("the cat", "naïve €\n", "-p", "a\n\n"):
            ids = loaded.to_tokens(text)
            assert ids.dtype == np.int32
            assert [token["id"] for token in loaded.study("tokens", text)["tokens"]] == ids.tolist(), text
            assert loaded.study("tokens", ids)["n_tokens"] == len(ids)
            assert loaded.to_tokens(list(ids)).tolist() == ids.tolist()
    assert gpt2.to_tokens("").tolist() == []
    assert gpt2.to_string(gpt2.to_tokens("naïve €")) == "naïve €"
    assert gpt2.to_string(99999) == gpt2.to_string([99999]) == "" and gpt2.to_string(np.int32(97)) == gpt2.to_string(97)
    with fails(attn.AttnError, "token -1 is outside"):
        gpt2.to_string([-1])
    assert gpt2.to_str_tokens("ab") == ["a", "b"] and gpt2.to_str_tokens("é") == ["\ufffd", "\ufffd"]
    end = gpt2.to_tokens("<|endoftext|>", special=True)
    assert len(end) == 1 and len(gpt2.to_tokens("<|endoftext|>")) == 13 and gpt2.to_string(end) == "<|endoftext|>"
    assert gpt2.to_tokens("a", prepend_bos=True).tolist() == [end[0], gpt2.to_single_token("a")]
    assert llama.to_tokens("a", prepend_bos=False).tolist() == llama.to_tokens("a", prepend_bos=True).tolist()[1:]
    with fails(ValueError, "2 tokens"):
        gpt2.to_single_token("ab")


TEMPLATE = ("{% for m in messages %}{{ m.role }}: {{ m.content }}{% if m.thoughts %} ({{ m.thoughts }}){% endif %}<|endoftext|>"
            "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}")


def test_a_conversation_is_laid_out_by_its_template():
    said = [{"role": "user", "content": "Who? <|endoftext|>"}, {"role": "assistant", "content": "I.", "thoughts": "hm"}]
    ids = model().chat_tokens(said, template=TEMPLATE)
    end = 256
    assert model().to_string(ids) == ("user: Who? <|endoftext|><|endoftext|>assistant: I.<|endoftext|>assistant:")
    assert list(ids).count(end) == 2 and model().to_str_tokens(ids)[-1] == ":"  # what was said stays text
    whole = model().chat_tokens(said, template=TEMPLATE, add_generation_prompt=False)
    assert list(whole) == list(ids[:len(whole)]) and whole[-1] == end
    long = model().chat_tokens([{"role": "user", "content": "a" * 2000}], template=TEMPLATE)
    assert len(long) > 2000 and model().to_string(long).count("a") > 2000
    assert len(model().run(ids)) == len(ids)
    with fails(attn.AttnError, "has no chat template"):
        model().chat_tokens(said)
    with fails(attn.AttnError, "no messages"):
        model().chat_tokens([], template=TEMPLATE)
    with fails(attn.AttnError, "message 1 has no role, or no content"):
        model().chat_tokens([{"role": "user"}], template=TEMPLATE)
    with fails(attn.AttnError, "nobody"):
        model().chat_tokens(said, template="{{ raise_exception('nobody') }}")
    kind = model().chat_tokens(said, template="{{ enable_thinking }} {{ tone }} {{ n }} {{ x is none }}", enable_thinking=False,
                               tone="dry é", n=1.5, x=None)
    assert model().to_string(kind) == "False dry é 1.5 True"
    with fails(attn.AttnError, 'variable "tools" must be a text'):
        model().chat_tokens(said, template=TEMPLATE, tools=[])
    with fails(attn.AttnError, 'variable "eos_token" is the conversation\'s own'):
        model().chat_tokens(said, template=TEMPLATE, eos_token="x")
    with fails(ValueError, "JSON"):
        model().chat_tokens(said, template=TEMPLATE, n=float("nan"))
    with fails(ValueError, "content has a NUL character at 1"):
        model().chat_tokens([{"role": "user", "content": "a\0b"}], template=TEMPLATE)


def test_loss_is_what_score_says():
    text = "the cat sat on the mat and the dog sat on the log " * 3  # some pieces of logits
    for name in ("gpt2-f32", "llama-f32"):
        view = model(name).study("score", text)
        assert abs(model(name).loss(text) - view["totals"]["nll_nats"]) < 1e-7 * view["totals"]["nll_nats"]
        ids = model(name).to_tokens(text)
        each = -model(name).logprobs(ids[:3], ids[3:])
        assert np.allclose(each, [row["surprisal_nats"] for row in view["positions"]][2:], rtol=1e-6)
    with fails(attn.AttnError, "1 token has"):
        model().loss("a")
    with fails(attn.AttnError, "empty"):
        model().logprobs("", "a")
    assert model().logprobs("a", "").shape == (0,)


def test_unembed_is_the_logit_lens():
    logits, cache = model().run_with_cache("abacab", "blocks.1.hook_resid_post")
    assert np.array_equal(model().unembed(cache["resid_post", -1]), logits)
    with fails(ValueError, "residual vectors are"):
        model().unembed(np.zeros(3))


def generated(loaded, prompt, **options):
    """By attn_generate itself."""
    library = _library.library
    TEXT = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)

    class Options(ctypes.Structure):
        _fields_ = [("sampling", _library.Sampling), ("n_tokens", ctypes.c_size_t), ("stop", ctypes.POINTER(ctypes.c_char_p)),
                    ("n_stop", ctypes.c_size_t), ("shift", ctypes.c_bool), ("special", ctypes.c_bool), ("text", TEXT),
                    ("token", ctypes.c_void_p), ("user", ctypes.c_void_p), ("speculate", ctypes.c_int)]

    pieces, end = [], ctypes.c_int(-1)
    stops = options.pop("stop", [])
    given = Options(n_tokens=options.pop("n_tokens", 40), n_stop=len(stops),
                    stop=(ctypes.c_char_p * max(1, len(stops)))(*[stop.encode() for stop in stops]),
                    special=options.pop("special", False),
                    text=TEXT(lambda user, text, n: pieces.append(ctypes.string_at(text, n)) or True))
    library.attn_sampling(loaded._file.pointer, ctypes.byref(given.sampling), None)
    for name, value in options.items():
        setattr(given.sampling, name, value)
    with loaded.session() as session:
        assert library.attn_generate(ctypes.c_void_p(session._pointer), prompt.encode(), ctypes.byref(given), ctypes.byref(end),
                                     None)
    return b"".join(pieces).decode(), ["limit", "token", "stop", "context"][end.value]


def test_generated_texts_are_the_library_s():
    for name in ("gpt2-f32", "llama-f32"):
        for options in ({"temperature": 0}, {"seed": 3}, {"seed": 4, "temperature": 1.5, "repeat_penalty": 1.3},
                        {"seed": 5, "n_tokens": 500}, {"seed": 6, "temperature": 2, "special": True, "n_tokens": 90}):
            writes = model(name).generate("the cat", **{"n_tokens": 40, **options})
            text, end = "".join(writes), writes.end
            wanted, wanted_end = generated(model(name), "the cat", **options)
            assert text == wanted and end == wanted_end, (name, options, text, wanted, end, wanted_end)
    for stop in (text[5:7], text[3:4], "none of it"):
        options["stop"] = [stop, "zzzzz"]
        writes = model("llama-f32").generate("the cat", **options)
        cut = "".join(writes)
        assert (cut, writes.end) == generated(model("llama-f32"), "the cat", **options)
        assert stop not in cut


def test_generation_ends_when_nobody_asks():
    writes = model().generate("the cat", 10, seed=1)
    next(writes)
    assert len(writes.tokens) == 1 and writes.end is None and "of 1 token, under way" in repr(writes)
    writes.close()
    assert writes.end == "closed" and list(writes) == []
    with fails(ValueError, "some text"):
        model().generate("a", stop="")
    with fails(ValueError, "top_k is -1"):
        model().generate("a", top_k=-1)
    with fails(attn.AttnError, "more than the context"):
        list(model().generate("a" * 300))


def test_sessions_go_on_and_back():
    ids = model().to_tokens("abacabad")
    whole = model().run(ids)
    with model().session() as session:
        assert np.array_equal(session.feed(ids[:5], 2), whole[3:5])
        assert np.array_equal(session.feed(ids[5:]), whole[7:])
        session.rewind(6)
        assert session.tokens.tolist() == ids[:6].tolist() and session.n_ctx == 192
        assert np.array_equal(session.sync(ids), whole[7])
        assert "8 tokens" in repr(session)


def test_sessions_are_copied_and_kept():
    for name, fwd_hooks in (("gpt2-f32", []), ("llama-q8_0", [("hook_embed", lambda array, hook: array * 0.5)])):
        loaded = model(name)
        ids = np.arange(1, 12)
        with loaded.session(fwd_hooks=fwd_hooks) as session:
            whole = session.feed(ids, len(ids))
            session.rewind(6)
            saved = session.save()
            with session.fork() as fork:
                assert np.array_equal(fork.feed(ids[6:], 5), whole[6:]) and len(session.tokens) == 6
            session.rewind(0)
            session.feed([5, 6])
            session.restore(saved)
            assert session.tokens.tolist() == ids[:6].tolist() and np.array_equal(session.feed(ids[6:], 5), whole[6:])
            for wrong, words, held in ((b"nothing", "session", 11), (saved[:-9], "end|short|missing", 0),
                                       (saved[:200] + bytes([saved[200] ^ 1]) + saved[201:], "", 0)):
                with fails(attn.AttnError, words):
                    session.restore(wrong)
                assert len(session.tokens) == held, wrong[:9]
            with loaded.session(cache="f16") as other:
                with fails(attn.AttnError, "F16|cache"):
                    other.restore(saved)
    _, cache = model().run_with_cache("the cat", lambda name: "final" in name or name == "blocks.1.hook_resid_post")
    x = cache["resid_post", -1][-1]
    weights = model().weights
    normed = (x - x.mean()) / cache["ln_final.hook_scale"][-1] * weights["ln_final.w"] + weights["ln_final.b"]
    assert np.allclose(model().hidden("the cat"), normed, atol=1e-5)


def test_sites_and_structs_are_attn_h_s():
    names = [_library.library.attn_site_name(site).decode() for site in _sites.Site]
    assert len(set(names)) == len(names) and _library.library.attn_site_name(len(names)) == b""
    header = (TREE / "attn.h").read_text()
    enum = header[header.index("typedef enum AttnSite {"):header.index("} AttnSite;")]
    order = re.findall(r"^ *(ATTN_\w+)", enum, re.M)
    assert order == [f"ATTN_{site.name}" for site in _sites.Site], order
    assert set(_sites.NAMES) == set(_sites.Site)
    compiler = os.environ.get("CC", "cc").split()
    structs = {"AttnModelOptions": _library.ModelOptions, "AttnShape": _library.Shape, "AttnError": _library.Error,
               "AttnActivation": _library.Activation, "AttnCopy": _library.Copy, "AttnCopies": _library.Copies,
               "AttnProbe": _library.Probe,
               "AttnSessionOptions": _library.SessionOptions, "AttnSampling": _library.Sampling, "AttnTerm": _library.Term,
               "AttnGradientProbe": _library.GradientProbe, "AttnMatrix": _library.Matrix, "AttnMessage": _library.Message,
               "AttnChatOptions": _library.ChatOptions, "AttnPart": _library.Part}
    lines = [f'printf("{struct}.{field} %zu\\n", offsetof({struct}, {field}));'
             for struct, of in structs.items() for field, *_ in of._fields_]
    lines += [f'printf("{struct} %zu\\n", sizeof({struct}));' for struct in structs]
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "a.c")
        with open(source, "w") as file:
            file.write('#include "attn.h"\n#include <stdio.h>\nint main(void) {\n' + "\n".join(lines) + "\nreturn 0;\n}\n")
        subprocess.run([*compiler, "-I", TREE, "-o", source + ".out", source], check=True)
        told = subprocess.run([source + ".out"], check=True, stdout=subprocess.PIPE, text=True).stdout.split("\n")[:-1]
    ours = [f"{struct}.{field} {getattr(of, field).offset}" for struct, of in structs.items() for field, *_ in of._fields_]
    ours += [f"{struct} {ctypes.sizeof(of)}" for struct, of in structs.items()]
    assert told == ours, set(told) ^ set(ours)
