#!/usr/bin/env python3
"""Records what the programs print, to the byte, so that a change that should change nothing can be held against it.

    tests/golden.py record before.json          # with the programs as they are
    tests/golden.py compare before.json         # after rooms were moved, names changed, code cut

The commands are those of the documents, all --help, every view as text and JSON on every model of tests/data/reference and on
the default one, all types of quantize, samplers, pipes, files that are written, and files that are broken. Exit codes,
stdout, stderr and written files count. Both runs must be made on one machine: kernels of another CPU round otherwise.
Compare ends with a line "N the same, N different", and fails unless the second is 0.
"""
import argparse
import concurrent.futures
import difflib
import glob
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
HELP = subprocess.run([ROOT / "study", "--help"], stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
VIEWS = re.findall(r"^  (\w+)  +\w", HELP, re.M)
OWN, LETTERS = "weights/model.gguf", "tests/data/study/letters.gguf"
TEXTS = (("The king Zilgan rode out. Then king Zil", "The king Zilgan rode out. Then king Zar"),  # of as many tokens each
         ("Das Mädchen sagt: 你好, \U0001f600!\n\tfin", "Das Mädchen sagt: 你好, \U0001f601!\n\tfin"), ("a", "b"))
PAIR = "-p {clean} --corrupted {corrupted} --answer '#5'"
ON_A_MODEL = {  # of a view that does not take a text alone
    "attend": "--layer 0 --head 0 {text}", "explain": "--layer 0 --head 0 {text}", "ablate": "--heads L0H0 {text}",
    "compare": "{model} -p {clean}", "dump": "-o {out}.npz {text}", "view": "-o {out}.html {text}",
    "patch": PAIR, "faithful": PAIR, "steer": "--token '#5' {text}", "meaning": "--word {word} -p {clean} -p {word}",
    "shape": "", "circuit": "", "case": None, "serve": None,
}
REQUESTS = """{"id": 1, "prompt": "The Eiffel", "temperature": 0, "max_tokens": 5}
{"id": 2, "prompt": "A cat", "seed": 7, "max_tokens": 5, "n": 2}
{"id": 3, "messages": []}"""
MEASURED = re.compile(r" *\d+(\.\d+)? ?(ms|s|tokens/s|GB/s|MB/s|MiB at most)\b|(?<=_ms\": )[\d.]+|(?<=_per_second\": )[\d.]+|"
                      r"(?<=_rss_bytes\": )\d+")


def of_documents():
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))):
        for line in path.read_text(encoding="utf-8").split("\n"):
            found = re.match(r"\s*\$ (\./(?:run|study|quantize) .*)$", line)
            if found and not re.search(r"serve|[|>]|/run (?!.*(-s \d|--temp 0))", found[1]):  # else it draws at random
                yield re.sub(r"( -o )?(/tmp/)?([\w-]+\.(?:npz|html|svg|gguf)\b)",
                         lambda at: (at[1] or "") + "{out}" + at[3] if at[1] or at[2] else at[0], found[1])


def quoted(text):
    return json.dumps(text, ensure_ascii=False).replace("\\n", "\n").replace("\\t", "\t")


def of_views(model, letters, text, clean, corrupted):
    filled = {"{model}": model, "{text}": text, "{clean}": quoted(clean), "{corrupted}": quoted(corrupted),
              "{word}": quoted(clean.split()[0])}
    has_experts = b"_exps" in (ROOT / model).read_bytes()
    for view in VIEWS:
        more = ON_A_MODEL.get(view, "{text}")
        if more is None or view == "experts" and not has_experts:
            continue
        for word, value in filled.items():
            more = more.replace(word, value)
        command = f"./study {view} {model} {letters if view != 'shape' else ''} {more}"
        yield command
        if view not in ("dump", "view"):
            yield command + " --json"


def refusals(answers):
    """Commands of views that models of GPT-2 and Llama refuse, and so guard nothing; a layer of experts may refuse some."""
    return [command for command, got in answers.items() if got["code"] != 0 and
            re.match(r"./study \w+ tests/data/reference/(gpt2|llama)-(?!experts)", command)]


def commands():
    for program in ("./run", "./study", "./quantize"):
        yield program + " --help"
        yield program + " --version"
        yield program
    for view in VIEWS:
        yield f"./study {view} --help"
    yield from of_documents()
    for path in sorted((ROOT / "tests/data/reference").glob("*.gguf")):
        if ".expected." in path.name:
            continue
        model = path.relative_to(ROOT)
        letters = f"-z {LETTERS}" if b"no_vocab" in path.read_bytes() else ""
        yield f"./run {model} --info"
        yield from of_views(str(model), letters, "--ids 1,5,2,7,5,3,1,6", "abfabdcab", "abfabdcac")
        yield f"./run {model} {letters} -p abcab -n 8 --temp 0"
    for text, corrupted in TEXTS:
        yield from of_views(OWN, "", "-p " + quoted(text), text, corrupted)
        for options in ("--temp 0", "", "--top-k 5", "--min-p 0.1 --temp 1.5", "--repeat-penalty 1.3", "--json",
                        "--kv q8_0 --temp 0", "-c 16", "--tokens", "-v", "--logits {out}.npy"):
            yield f"./run {OWN} -n 12 -s 3 {options} -p '{text}'"
    yield f"./study case {' '.join(str(p.relative_to(ROOT)) for p in sorted((ROOT / 'docs/cases').glob('*.json'))[:1])}"
    for dtype in ("F32 F16 BF16 Q8_0 Q6_K Q5_K_M Q5_K_S Q5_0 Q5_1 Q4_K_M Q4_K_S Q4_0 Q4_1 Q3_K_M Q3_K_S Q2_K IQ4_NL IQ4_XS").split():
        yield f"./quantize tests/data/reference/gpt2-f32.gguf {{out}}.gguf {dtype}"
    yield f"./quantize {OWN} {{out}}.gguf F32"
    yield f"./quantize {OWN} {{out}}.gguf Q4_0"
    yield f"printf 'one\\ntwo\\n/help\\n' | ./run {OWN} -i -n 5 --temp 0"
    yield f"printf 'Hello\\nAnd you?\\n' | ./run {OWN} --chat -n 5 --temp 0"
    yield f"printf '%s\\n' '{REQUESTS}' | ./run {OWN} --batch - --in-order"
    yield "./run tests/data/reference/gpt2-f32.gguf --steer tests/data/study/control.gguf:3 -p abcab -n 8 --temp 0"
    for n in (0, 3, 24, 200, 4000, 100000):
        yield f"head -c {n} {OWN} >{{out}}.cut; ./run {{out}}.cut -p a; ./study next {{out}}.cut -p a; ./run {{out}}.cut --info"
    for words in ("nosuch.gguf -p a", "README.md -p a", ". -p a", f"{OWN} -p", f"{OWN} --nosuch", f"{OWN} -p a --temp x",
                  f"{OWN} -f nosuch", f"{OWN} -p a -n -5", f"{OWN} -p a -c 0"):
        yield "./run " + words
        yield "./study next " + words


def answer(command, folder):
    """The output and files of a command, with what is measured and the paths of the folder left out."""
    out = str(pathlib.Path(folder, hashlib.sha1(command.encode()).hexdigest()[:12]))
    done = subprocess.run(command.replace("{out}", out), shell=True, cwd=ROOT, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    shown = {"code": done.returncode}
    for name, data in (("out", done.stdout), ("err", done.stderr)):
        text = data.decode("utf-8", "backslashreplace").replace(out, "OUT")
        shown[name] = MEASURED.sub("#", text)
    for path in sorted(glob.glob(out + "*")):
        shown["file " + path[len(out):]] = hashlib.sha256(pathlib.Path(path).read_bytes().replace(out.encode(), b"OUT")).hexdigest()
        os.remove(path)
    return shown


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    old = None if args.what == "record" else json.loads(pathlib.Path(args.file).read_text())
    asked = list(dict.fromkeys(commands())) if old is None else list(old)
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        new = dict(zip(asked, pool.map(lambda command: answer(command, folder), asked)))
    if old is None:
        pathlib.Path(args.file).write_text(json.dumps(new, indent=0, ensure_ascii=False))
        print(f"{len(new)} commands recorded, {sum(a['code'] == 0 for a in new.values())} of them succeeded")
        for command in refusals(new):
            print("refused: " + command)
        sys.exit(bool(refusals(new)))
    different = [command for command in asked if new[command] != old[command]]
    for command in different:
        print("$ " + command)
        for part in sorted({*old[command], *new[command]}):
            a, b = (str(side.get(part, "")).split("\n") for side in (old[command], new[command]))
            for line in [] if a == b else list(difflib.unified_diff(a, b, "before " + part, "now " + part, n=0,
                                                                    lineterm=""))[:12]:
                print("    " + line)
    print(f"{len(asked) - len(different)} the same, {len(different)} different")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
