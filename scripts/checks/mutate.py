#!/usr/bin/env python3
"""Do the tests notice? Changes the sources at random, one token at a time, and runs the tests that reach the line.

    scripts/checks/mutate.py -n 300 --seed 1 --jobs 2 -o survivors.jsonl     # prints who lived, and the share that died
    scripts/checks/mutate.py --retry survivors.jsonl                         # the same mutants again, after new tests
    scripts/checks/mutate.py --retry survivors.jsonl --sanitize              # what only ASan and UBSan notice

A mutant is one change of one token or statement: an operator, a number (+1, -1, 0), a statement left out, two arguments
swapped, a condition negated. Lines are drawn evenly from all lines that have something to change, so long files weigh more.
A mutant that does not compile is not counted. One that compiles to the same object code, at -O1 or at -O3,
is equivalent by proof and not counted either. Sets of kernels that this CPU lacks are left out (`make emulated` tests them).

Everything happens in copies of the working tree, build/mutate/, which stay there for the next time. gcov says once which
test reaches which line, and again only for what has changed. Kernels that no mutant changes are built as they ship, for most
of a test's time passes there. The tests of a line run one after the other, those first that killed most for their time in
this file and room; a mutant is dead at the first failure, or when a process of a test takes three times the processor's time
that the test takes otherwise, or the test twelve times as long.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

PROGRAMS = ("run", "study", "quantize")
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ROOMS = [room for line in re.findall(r"^\w+_ROOMS = (.*)", (ROOT / "Makefile").read_text(), re.M) for room in line.split()]
SOURCES = ["*.c", *(room + ("/*.[ch]" if room in ("kernels", "packing") else "/*.c") for room in ROOMS)]  # code in headers
NEEDS = [("avx512", "avx512f"), ("amx", "amx_int8"), ("bf16", "avx512_bf16"), ("avxvnni", "avx_vnni"), ("neon", "asimd"),
         ("arm64", "asimd"), ("avx2", "avx2"), ("x86", "avx2")]  # part of a name of kernels/, flag of /proc/cpuinfo
# These do not look at what the programs compute, but at names, installing, training, scripts; or they take minutes.
NOT_RUN = {"test_house.sh", "test_library.sh", "test_train.sh", "test_page.sh", "test_interrupt.sh", "test_changing.sh",
           "test_changing", "test_module.sh", "test_python.sh", "test_documents"}
SANITIZE = "-O1 -g1 -fno-omit-frame-pointer -fno-sanitize-recover=all -fsanitize=address,undefined"
WARNINGS = "WARNINGS=-Werror=incompatible-pointer-types -Werror=int-conversion -Werror=implicit-function-declaration"
MOST_BYTES = 12 << 30  # of memory, or in a file, for a process of a test

TOKEN = re.compile(r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<id>[A-Za-z_]\w*)
    |(?P<num>(?:0[xX][\da-fA-F]+(?:\.[\da-fA-F]*)?(?:[pP][+-]?\d+)?|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)\w*)
    |(?P<op><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""", re.S | re.X)
OPERATORS = {"<": ["<=", ">"], "<=": ["<", ">="], ">": [">=", "<"], ">=": [">", "<="], "==": ["!="], "!=": ["=="],
             "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"], "&&": ["||"], "||": ["&&"], "&": ["|"], "|": ["&"],
             "<<": [">>"], ">>": ["<<"], "+=": ["-="], "-=": ["+="], "*=": ["/="], "|=": ["&="], "&=": ["|="],
             "++": ["--"], "--": ["++"], "<<=": [">>="], ">>=": ["<<="]}
KEYWORDS = {"return", "case", "else", "do", "sizeof", "if", "while", "for", "switch", "goto", "default"}


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def tokens_of(text):
    """(kind, text, start, end) of what may change: no comments, strings, directives, static asserts."""
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.M)
    text = re.sub(r"_Static_assert\s*\(.*?\);", blank, text, flags=re.S)
    return [(match.lastgroup, match.group(), match.start(), match.end())
            for match in TOKEN.finditer(text) if match.lastgroup != "skip"]


def closing(tokens, i):
    """The index of the bracket that closes the one at i."""
    depth = 0
    for j in range(i, len(tokens)):
        depth += (tokens[j][1] in "([{") - (tokens[j][1] in ")]}")
        if depth == 0:
            return j
    return len(tokens) - 1


def numbers(text):
    match = re.fullmatch(r"(0[xX][\da-fA-F]+|\d+)([uUlL]*)", text)
    if match:
        value, base = int(match[1], 0 if match[1][:2] in ("0x", "0X") else 10), hex if match[1][:2] in ("0x", "0X") else str
        return [base(other) + match[2] for other in {value + 1, value - 1, 0} - {value} if other >= 0]
    match = re.fullmatch(r"(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)([fFlL]?)", text)
    if match:
        value, suffix = float(match[1]), match[2]
        return [f"{other!r}{suffix}" for other in {value + 1, value - 1, 0.0} - {value} if other >= 0]
    return []


def swaps(text, tokens, i):
    """Neighbouring arguments of the call whose bracket is tokens[i], swapped."""
    end, starts, j = closing(tokens, i), [i + 1], i + 1
    while j < end:
        j = closing(tokens, j) if tokens[j][1] in "([{" else j
        if tokens[j][1] == ",":
            starts.append(j + 1)
        j += 1
    spans = [(tokens[a][2], tokens[b - 2][3]) for a, b in zip(starts, starts[1:] + [end + 1]) if b - 2 >= a]
    for (a, b), (c, d) in zip(spans, spans[1:]):
        if text[a:b] != text[c:d]:
            yield a, d, text[c:d] + text[b:c] + text[a:b]


def sites(text):
    """(start, end, other) of each change."""
    tokens = tokens_of(text)
    for i, (kind, token, start, end) in enumerate(tokens):
        before = tokens[i - 1] if i else ("op", ";", 0, 0)
        after = tokens[i + 1] if i + 1 < len(tokens) else ("op", ";", end, end)
        operand = before[0] == "num" or before[1] in (")", "]") or (before[0] == "id" and before[1] not in KEYWORDS)
        is_type = token in ("*", "&") and not text[end].isspace()  # clang-format leaves no space behind a pointer's star
        if kind == "op" and token in OPERATORS and not is_type and (operand or token in ("-", "++", "--")):
            for other in OPERATORS[token]:
                yield start, end, other
        # A buffer may be larger than it must be: char text[64].
        is_size = before[1] == "[" and after[1] == "]" and i > 2 and tokens[i - 2][0] == "id" and \
            (tokens[i - 3][0] == "id" and tokens[i - 3][1] not in KEYWORDS or tokens[i - 3][1] == "*")
        if kind == "num" and not is_size:
            for other in numbers(token):
                yield start, end, other
        if token in ("if", "while") and after[1] == "(":
            last = tokens[closing(tokens, i + 1)]
            yield after[3], last[2], f"!({text[after[3]:last[2]]})"
        declares = i > 1 and (tokens[i - 2][0] == "id" and tokens[i - 2][1] not in KEYWORDS or tokens[i - 2][1] == "*")
        if token == "(" and before[0] == "id" and before[1] not in KEYWORDS and not declares:
            yield from swaps(text, tokens, i)
        if kind == "id" and before[1] in (";", "{", "}", ")", "else") and token not in KEYWORDS and \
                (after[1] in ("(", "=", "[", ".", "->", "++", "--", "+=", "-=", "*=", "|=", "&=") or
                 token in ("break", "continue")):
            j = i
            while j < len(tokens) and tokens[j][1] not in (";", "{", "}"):
                j = closing(tokens, j) + 1 if tokens[j][1] in "([" else j + 1
            if j < len(tokens) and tokens[j][1] == ";":
                yield start, tokens[j][2], ""


def lines_around(text, start, end, other):
    """(line, before, after): the whole lines that a change touches, as they are and as they become."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    gone = "\n" * (text.count("\n", start, end) - other.count("\n"))  # other lines keep their numbers
    return text.count("\n", 0, start) + 1, text[first:last], text[first:start] + other + gone + text[end:last]


def draw(root, files, n, seed):
    """Mutants without end, but none twice."""
    chance, by_line = random.Random(seed), {}
    for file in files:
        text = (root / file).read_text()
        for start, end, other in sites(text):
            line, before, after = lines_around(text, start, end, other)
            by_line.setdefault((file, line), []).append(dict(file=file, line=line, before=before, after=after))
    keys, seen = sorted(by_line), set()
    print(f"{sum(map(len, by_line.values()))} mutants of {len(keys)} lines of {len(files)} files", flush=True)
    while len(seen) < 20 * n and keys:
        mutant = chance.choice(by_line[chance.choice(keys)])
        name = json.dumps(mutant)
        if name not in seen:
            seen.add(name)
            yield mutant


class Tree:
    """A copy of the working tree, where mutants are built and run."""

    lacking = []  # sources that this CPU cannot run, which are built once
    as_shipped = False  # kernels are

    def __init__(self, folder, cflags):
        self.path, self.cflags = folder / "attn", cflags
        git = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True)
        for name in git.stdout.decode().split("\0"):
            there = self.path / name
            if name and (ROOT / name).is_file() and not (there.exists() and there.read_bytes() == (ROOT / name).read_bytes()):
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, there)
        common = subprocess.run(["git", "rev-parse", "--path-format=absolute", "--git-common-dir"], cwd=ROOT,
                                capture_output=True, check=True).stdout.decode().strip()
        shared = pathlib.Path(common).parent.parent / "shared"
        if shared.exists() and not (folder / "shared").is_symlink():
            (folder / "shared").symlink_to(shared)

    def make(self, *targets, build="build", cflags=None, jobs=1):
        cc = "ccache gcc" if shutil.which("ccache") else "gcc"
        quick = dict(os.environ, LDFLAGS="-fuse-ld=lld" if shutil.which("ld.lld") else "")  # a third of the linker's time
        built = [f"{build}/{file[:-2]}.o" for file in self.lacking if file.endswith(".c")]
        old = [option for file in built if (self.path / file).exists() for option in ("-o", file)]
        return subprocess.run(["make", "-s", f"-j{jobs}", f"CC={cc}", f"BUILD={build}", f"RUN={build}/run", WARNINGS, *old,
                               f"CFLAGS={cflags or self.cflags}", *targets], cwd=self.path, env=quick,
                              capture_output=True, text=True)

    def needs(self, test, build="build", programs=PROGRAMS):
        """The targets that must be built before a test can run."""
        binary = [] if test.endswith(".sh") else [f"{build}/tests/{test}"]
        if "FAULTY" in (self.path / "tests" / (test if test.endswith(".sh") else test + ".c")).read_text():
            programs = [*programs, *(f"tests/faulty_{program}" for program in PROGRAMS)]
        return [*(f"{build}/{program}" for program in programs), *binary]

    def must_make(self, tests, build="build", cflags=None, jobs=1):
        needed = dict.fromkeys(need for test in tests for need in self.needs(test, build))
        if self.as_shipped and build == "build":
            self.make(*(f"{build}/kernels/{path.stem}.o" for path in self.path.glob("kernels/*.c")), cflags="-O3", jobs=jobs)
        elif self.as_shipped:  # nor do tests count
            for path in [path for room in ("kernels", "tests") for path in (self.path / "build").glob(room + "/*.o")]:
                there = self.path / build / path.relative_to(self.path / "build")
                if not (there.exists() and there.read_bytes() == path.read_bytes()):
                    there.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, there)
        made = self.make(f"{build}/tests/fresh", *needed, build=build, cflags=cflags, jobs=jobs)
        if made.returncode != 0:
            sys.exit(f"mutate.py: the tests are not built: {made.stderr[-2000:]}")

    def run(self, test, limit, build="build", **more):
        """(what it printed or "hang" if it failed, else None; seconds)."""
        program = f"tests/{test}" if test.endswith(".sh") else f"{build}/tests/{test}"
        programs = {program.upper(): f"{self.path}/{build}/{program}" for program in PROGRAMS}
        environment = dict(os.environ, **programs,
                           FAULTY=f"{self.path}/{build}/tests/faulty_", UBSAN_OPTIONS="halt_on_error=1", **more)
        least = 1 << 50 if "address" in self.cflags else MOST_BYTES  # ASan's shadow takes terabytes of addresses

        def limits():
            resource.setrlimit(resource.RLIMIT_DATA, (least, least))
            resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 2))

        begin = time.monotonic()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as tmp:
            environment["TMPDIR"] = tmp
            os.chmod(tmp, 0o755)  # some tests work there as nobody
            # By a shell, for a process counts the memory of the one that it was forked from: this one's is too much for a test.
            process = subprocess.Popen(["/bin/sh", "-c", '"$@"; exit $?', "sh", f"{build}/tests/fresh", program],
                                       cwd=self.path, env=environment, preexec_fn=limits,
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
            status = None
            while status is None and time.monotonic() - begin < 4 * limit:  # others may work here, too
                try:
                    status = process.wait(0.2)
                except subprocess.TimeoutExpired:  # a script says at once what failed
                    status = 1 if b"FAILED " in os.pread(out.fileno(), 1 << 16, 0) else None
            try:
                os.killpg(process.pid, signal.SIGKILL)  # what it left running, too
            except ProcessLookupError:
                pass
            process.wait()
            out.seek(0)
            lines = out.read(200000).decode(errors="replace").splitlines()
        why = next((line for line in lines if "FAILED" in line or ": " in line), f"exit status {status}")
        return (None if status == 0 else "hang" if status is None else why), time.monotonic() - begin

    def objects(self):
        """{object: its bytes}, those of tests, too."""
        return {path: path.read_bytes() for room in ["*.o", "tests/*.o", *(f"{path.split('/')[0]}/*.o" for path in SOURCES)]
                for path in (self.path / "build").glob(room)}

    def changed(self):
        return [path for path, data in self.base.items() if not path.exists() or path.read_bytes() != data]

    def restore(self, file, text, times):
        """As if the mutant had never been: what was not rebuilt for it is not rebuilt now."""
        (self.path / file).write_text(text)
        os.utime(self.path / file, ns=times)
        for path in self.changed():
            path.write_bytes(self.base[path])

    def shipped(self, objects):
        """What the compiler makes of these at -O3."""
        fast = [self.path / "build/fast" / path.relative_to(self.path / "build") for path in objects]
        for path in fast:
            path.unlink(missing_ok=True)
        self.make(*(str(path.relative_to(self.path)) for path in fast), build="build/fast", cflags="-O3")
        return [path.read_bytes() if path.exists() else None for path in fast]


def reached(tree, test, files):
    """{file: lines} that a test reaches, by gcov, and its seconds; None if it fails."""
    build = tree.path / "build/reach"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as counts:
        why, seconds = tree.run(test, 600, "build/reach", GCOV_PREFIX=counts, GCOV_PREFIX_STRIP=str(len(build.parts) - 1))
        if why:  # gcov writes files and lines of its own
            why, seconds = tree.run(test, 600)
        if why:
            print(f"left out: {test}, which fails without any mutant: {why}", flush=True)
            return None
        wanted = {file[:-2] + ".gcda" for file in files}  # headers: all that may include them
        data = [str(path) for path in pathlib.Path(counts).glob("**/*.gcda") if path.parent.name != "tests" and
                (any(file.endswith(".h") for file in files) or str(path.relative_to(counts)) in wanted)]
        for path in data:
            notes = path[:-2] + "no"
            os.symlink(build / os.path.relpath(notes, counts), notes)
        gcov = subprocess.run(["gcov", "--json-format", "--stdout", *data], cwd=tree.path, capture_output=True, text=True)
    lines = {}
    for document in gcov.stdout.splitlines():
        for file in json.loads(document)["files"]:
            lines.setdefault(os.path.normpath(file["file"]), set()).update(
                line["line_number"] for line in file["lines"] if line["count"])
    return {file: sorted(numbers) for file, numbers in lines.items() if numbers}, seconds


def learn(tree, tests, files, pool, jobs):
    """{file: {line: tests}} and {test: seconds}; what is known of a test is kept until it or a source changes."""
    folder, reach, seconds = ROOT / "build" / "mutate" / "reach", {}, {}
    folder.mkdir(exist_ok=True)
    shared = sorted(path for path in tree.path.glob("**/*") if path.suffix in (".c", ".h", ".sh") and path.is_file() and
                    not path.name.startswith("test_"))
    common = hashlib.sha256(b"".join(path.read_bytes() for path in shared))

    def learn_one(test):
        state, kept = common.copy(), folder / f"{test}.json"
        state.update("\0".join(files).encode())
        state.update((tree.path / "tests" / (test if test.endswith(".sh") else test + ".c")).read_bytes())
        if not kept.exists() or json.loads(kept.read_text())["state"] != state.hexdigest():
            kept.unlink(missing_ok=True)
            found = reached(tree, test, files)
            if found:
                kept.write_text(json.dumps(dict(state=state.hexdigest(), reach=found[0], seconds=found[1])))

    tree.must_make(tests, "build/reach", "-O1 --coverage", jobs)
    list(pool.map(learn_one, tests))
    for test in tests:
        if (folder / f"{test}.json").exists():
            known = json.loads((folder / f"{test}.json").read_text())
            seconds[test] = known["seconds"]
            for file, lines in known["reach"].items():
                for line in lines:
                    reach.setdefault(file, {}).setdefault(line, []).append(test)
    return reach, seconds


def tests_of(state, mutant):
    """Those that reach the line; if none is known to (a table's row, an inlined line), those that reach the file, or all."""
    lines = state["reach"].get(mutant["file"], {})
    last = mutant["line"] + mutant["before"].count("\n")
    found = [lines[line] for line in range(mutant["line"], last + 1) if lines.get(line)]
    return list(dict.fromkeys(test for by in found or lines.values() or [state["seconds"]] for test in by))


def place(tree, mutant):
    """Writes the mutant into the tree and returns what stood there; None: the lines are no longer to be found."""
    path, before = tree.path / mutant["file"], mutant["before"]
    text = path.read_text()
    found = [match.start() for match in re.finditer(f"^{re.escape(before)}$", text, re.M)]
    if not found:
        return None
    at = min(found, key=lambda start: abs(text.count("\n", 0, start) + 1 - mutant["line"]))
    mutant["line"] = text.count("\n", 0, at) + 1
    path.write_text(text[:at] + mutant["after"] + text[at + len(before):])
    return text


def dearness(state, test, places):
    """Seconds that a kill by this test costs, by what it did in the mutant's file and, for less, in its room."""
    kills, tries = ([state[what][place, test] for place in places] for what in ("kills", "tries"))
    return (1 + state["seconds"][test]) * (1 + tries[0] + tries[1] / 4) / (0.3 + kills[0] + kills[1] / 4)


def judge(tree, mutant, state, targets, options):
    """"killed", "survived", "equal" or "uncompilable", and who killed it."""
    if tree.make(*targets).returncode != 0:
        return "uncompilable", ""
    changed = [path for path in tree.changed() if path.parent.name != "tests"]
    if not changed:
        return "equal", "at -O1"
    kills, tries, places = state["kills"], state["tries"], (mutant["file"], os.path.dirname(mutant["file"]))
    for test in sorted(tests_of(state, mutant), key=lambda test: dearness(state, test, places)):
        if tree.make(*tree.needs(test, programs=state["programs"][test])).returncode != 0:
            return "uncompilable", ""
        why, _ = tree.run(test, (10 if options.sanitize else 3) * state["seconds"][test] + 5)
        for place in places:
            tries[place, test] += 1
            kills[place, test] += bool(why)
        if why:
            return "killed", f"{test}: {why}"
    mutated = tree.shipped(changed)
    (tree.path / mutant["file"]).write_text(mutant["text"])
    return ("equal", "at -O3") if mutated == tree.shipped(changed) else ("survived", "")


def work(tree, mutants, state, lock, options):
    while True:
        with lock:
            mutant = next(mutants, None) if state["killed"] + state["survived"] < options.n else None
        if mutant is None:
            return
        begin = time.monotonic()
        stat = (tree.path / mutant["file"]).stat()
        text = place(tree, mutant)
        if text is None:
            verdict, why = "gone", ""
        else:
            mutant["text"], file = text, mutant["file"]
            targets = [f"build/{file[:-2]}.o"] if file.endswith(".c") else [f"build/{program}" for program in PROGRAMS]
            verdict, why = judge(tree, mutant, state, targets, options)
            tree.restore(file, text, (stat.st_atime_ns, stat.st_mtime_ns))
        with lock:
            state[verdict] += 1
            del mutant["text"]
            record = dict(mutant, verdict=verdict, why=why, seconds=round(time.monotonic() - begin, 1))
            if options.log:
                options.log.write(json.dumps(record) + "\n")
                options.log.flush()
            if verdict == "survived":
                print("{file}:{line}\n  - {0}\n  + {1}".format(mutant["before"].strip(), mutant["after"].strip(), **mutant),
                      flush=True)
                if options.output:
                    options.output.write(json.dumps(mutant) + "\n")
                    options.output.flush()


def prepare(folder, options, tests):
    tree = Tree(folder, SANITIZE if options.sanitize else "-O1")
    tree.as_shipped = options.as_shipped
    tree.must_make(tests, jobs=options.jobs)
    tree.base = tree.objects()
    tree.lacking = options.lacking
    return tree


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="sources to change (all that ship, and that this CPU can run)")
    parser.add_argument("-n", type=int, default=100, help="mutants that are not equivalent (100)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (2)")
    parser.add_argument("--retry", help="a file that -o wrote: its mutants and no others")
    parser.add_argument("--sanitize", action="store_true", help="build with ASan and UBSan")
    parser.add_argument("-o", "--output", type=argparse.FileType("w"), help="survivors, a JSON object a line")
    parser.add_argument("--log", type=argparse.FileType("w"), help="all mutants, likewise, with their verdicts")
    options = parser.parse_args()

    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    files = options.files or sorted(str(path.relative_to(ROOT)) for pattern in SOURCES for path in ROOT.glob(pattern))
    options.lacking = [file for file in files if file.startswith("kernels/") and
                       any(part in file and flag not in flags for part, flag in NEEDS)]
    files = [file for file in files if file not in options.lacking]
    options.as_shipped = not options.sanitize and not any(file.startswith("kernels/") for file in files)
    if options.lacking:
        print("left out, this CPU cannot run them:", *options.lacking)
    if options.retry:
        mutants = [json.loads(line) for line in open(options.retry)]
        options.n = len(mutants)
    tests = sorted(path.stem if path.suffix == ".c" else path.name for path in ROOT.glob("tests/test_*.*"))
    tests = [test for test in tests if test not in NOT_RUN]
    state = dict.fromkeys(["killed", "survived", "equal", "uncompilable", "gone"], 0) | {
        "kills": collections.Counter(), "tries": collections.Counter()}
    pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
    folders = [ROOT / "build" / "mutate" / f"{'sanitized' if options.sanitize else ''}{i}" for i in range(options.jobs)]
    trees = list(pool.map(lambda folder: prepare(folder, options, tests), folders))
    state["reach"], state["seconds"] = learn(trees[0], tests, files, pool, options.jobs)
    tests = [test for test in tests if test in state["seconds"]]
    state["programs"] = {test: [program for program in PROGRAMS
                                if any(test in by for by in state["reach"].get(f"{program}.c", {}).values())] for test in tests}
    source = iter(mutants) if options.retry else draw(trees[0].path, files, options.n, options.seed)
    lock, begin = threading.Lock(), time.monotonic()
    list(pool.map(lambda tree: work(tree, source, state, lock, options), trees))
    counted = state["killed"] + state["survived"]
    print(f"{state['killed']} of {counted} killed ({100 * state['killed'] / max(1, counted):.1f} %), "
          f"{state['survived']} survived; not counted: {state['equal']} of the same object code, "
          f"{state['uncompilable']} that do not compile"
          f"{', %d that are no longer to be found' % state['gone'] if state['gone'] else ''}; "
          f"{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
