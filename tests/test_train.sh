#!/bin/sh
# Trains a tiny model on a tiny text, kills it and resumes, exports it, and compares the engine with PyTorch.
# PYTHON names the interpreter that has PyTorch; without one everything is skipped.
RUN=$(realpath "${RUN:-./run}")
scripts=$(realpath "$(dirname "$0")/../scripts")
passed=0 failed=0

close() {
    echo "$passed passed, $failed failed, ${1:-0} skipped"
    [ "$failed" -eq 0 ]
    exit
}

check() { # NAME COMMAND...: the command must succeed
    name=$1
    shift
    if "$@" >output 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        tail -n 5 output
    fi
}

for python in ${PYTHON:-python3 /usr/bin/python3} ''; do
    [ -n "$python" ] && "$python" -c '
from importlib.util import find_spec
exit(not all(map(find_spec, ("numpy", "regex", "torch"))))' 2>/dev/null && break
done
if [ -z "$python" ]; then
    echo "skipped: no Python here has numpy, regex and torch"
    close 1
fi

folder=$(mktemp -d) && cd "$folder" || exit 1
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1

# Documents of words whose order has some pattern; "é" and "--" are there for the tokenizer.
mkdir text
"$python" - <<'END'
import random
for name, n in ("wiki-train", 60), ("books-train", 40), ("wiki-val", 2), ("books-val", 3), ("extra", 7):
    words, pick = "the old mill by a café -- it's 12 o'clock, and we'll row!".split(), random.Random(name)
    documents = ("\n\n".join(" ".join(pick.choices(words, k=25)) + "." for _ in range(3)) for _ in range(n))
    open(f"text/{name}.txt", "w", encoding="utf-8").write("\n<|endoftext|>\n".join(documents) + "\n")
END

corpus() { # FOLDER TOKENS
    "$python" "$scripts/train/corpus.py" text -o "$1" --extra text/extra.txt --repeat 2 --vocab "$2" --jobs 1
}
train() { # FOLDER OPTION...
    "$python" "$scripts/train/train.py" data --preset tiny --steps 6 -o "$@"
}

# Killed without a warning as soon as there is a checkpoint (one is written after each step), then resumed.
train_killed() { # FOLDER OPTION...
    "$python" "$scripts/train/train.py" data --preset tiny --steps 6 -o "$@" >killed.log 2>&1 &
    while [ ! -e "$1/checkpoint.pt" ] && kill -0 $! 2>/dev/null; do sleep 0.02; done
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
    train "$1"
}

same_weights() { # FOLDER FOLDER
    PYTHONPATH="$scripts/train" "$python" - "$@" <<'END'
import sys
import torch
from export import load
(model, _), (other, _) = (load(f"{folder}/checkpoint.pt") for folder in sys.argv[1:])
assert all(torch.equal(x, other.state_dict()[name]) for name, x in model.state_dict().items())
END
}

# Attention in blocks is attention; Muon moves a matrix by its momentum's U V^T, and each of Q, K and V for itself.
pieces_of_training() {
    PYTHONPATH="$scripts/train" "$python" - <<'END'
import math
import torch
from muon import Muon
from train import attention_in_blocks
torch.manual_seed(1)
q, k, v = torch.randn(3, 2, 3, 21, 8)
future = torch.ones(21, 21, dtype=torch.bool).triu(1)
expected = (q @ k.transpose(2, 3) / math.sqrt(8)).masked_fill(future, -math.inf).softmax(3) @ v
for block in 1, 8, 21, 64:
    assert torch.allclose(attention_in_blocks(q, k, v, 0.0, block), expected, atol=1e-6), block
for shape, parts in ((40, 24), 1), ((24, 40), 1), ((72, 24), 3):
    p, gradient = torch.nn.Parameter(torch.zeros(shape)), torch.randn(shape)
    p.grad = gradient.clone()
    Muon([{"params": [p], "muon": True, "weight_decay": 0.0}], lr=0.01).step()
    for moved, g in zip(p.detach().chunk(parts), gradient.chunk(parts)):
        u, _, vh = torch.linalg.svd(g, full_matrices=False)
        found = u.T @ moved @ vh.T / (-0.2 * math.sqrt(max(moved.shape)) * 0.01)
        diagonal = found.diagonal()
        assert 0.6 < diagonal.min() and diagonal.max() < 1.3, (shape, diagonal)
        assert (found - diagonal.diag()).abs().max() < 0.1, shape  # bfloat16: 0.064 on a CPU that has none
END
}

# A matrix is rounded as gguf.py packs it, and a model that learned so loses nothing by its export.
rounding() {
    PYTHONPATH="$scripts/train" "$python" - <<'END' &&
import numpy as np, torch
import gguf
from rounding import round_blocks
torch.manual_seed(1)
matrix = torch.randn(9, 96)
matrix[2, 32:64] = 0
for bits in 4, 5:
    assert np.array_equal(round_blocks(matrix, bits), gguf.Tensor.pack(matrix.numpy(), f"Q{bits}_0").numpy()), bits
END
        train rounded --rounding 5 --rounding-from 0.5 && ! same_weights whole rounded 2>/dev/null &&
        "$python" "$scripts/train/export.py" rounded/checkpoint.pt -o Q5_0.gguf --dtype Q5_0 --documents 3 \
            --verify "$RUN" data/books-val.bin --score "$STUDY" data/wiki-val.bin
}

# gradients.c against autograd in F32: losses within 1e-4, gradients within what bf16 costs (autograd's own differ by 1 %).
fused_gradients() {
    grep -q avx512_bf16 /proc/cpuinfo || { echo "no AVX-512 with BF16 here"; return 0; }
    PYTHONPATH="$scripts/train" "$python" - <<'END'
import dataclasses, pathlib
import torch
from train import PRESETS, Gradients, Model
torch.manual_seed(1)
for n_layer, n_head, n_ctx, n_vocab, windows in (2, 3, 64, 288, 3), (1, 2, 96, 96, 1), (3, 1, 32, 64, 9):
    model = Model(dataclasses.replace(PRESETS["tiny"], n_layer=n_layer, n_head=n_head, d_model=64 * n_head, n_ctx=n_ctx,
                                      n_vocab=n_vocab, dropout=0.0)).eval()
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            parameter.copy_(torch.randn_like(parameter) * (0.1 if parameter.dim() == 1 else 0.05) + name.endswith("norm.weight"))
    with torch.no_grad():  # a head's scores may all be far above 0, or far below: softmax does not see it, exp does
        for layer, block in enumerate(model.blk if windows == 1 or n_layer == 3 else []):
            for part, value in (0, 40), (1, -40 if layer % 2 else 40):
                block.attn_qkv.weight[part * 64 * n_head] = 0
                block.attn_qkv.bias[part * 64 * n_head] = value  # of dimension 0 of head 0: q·k / 8 = ±200
    rows = torch.randint(n_vocab, (windows, n_ctx + 1))
    expected = model(rows[:, :-1], rows[:, 1:])
    expected.backward()
    right = [parameter.grad.clone() for parameter in model.parameters()]
    for march in "native", "cooperlake":  # the latter without AMX
        (folder := pathlib.Path(march)).mkdir(exist_ok=True)
        gradients = Gradients(model, folder, march)
        for _ in range(2):  # the second call must not add to the first
            loss = gradients(rows)
            assert abs(loss / expected.item() - 1) < 1e-4, (march, loss, expected)
            for (name, parameter), gradient in zip(model.named_parameters(), right):
                apart = ((parameter.grad - gradient).norm() / gradient.norm()).item()
                assert apart < 0.02, (march, name, apart)
END
}

# Held-out sentences must not stand in the text, and each line of the pairs is what it says.
tasks() {
    "$python" "$scripts/train/tasks.py" text -n 3000 -o tasks.txt && "$python" "$scripts/train/tasks.py" pairs -n 60 -o pairs &&
        PYTHONPATH="$scripts/train" "$python" - <<'END'
import re
import tasks
from task_tables import MEN, NUMBERS, WOMEN, WORDS, kept, sum_held_out
from tasks import TASKS
text = open("tasks.txt", encoding="utf-8").read()
for name in kept(MEN, True) + kept(WOMEN, True):
    assert not re.search(rf"\b{name}\b", text), name
for frames in (frames for name, frames in vars(tasks).items() if name.endswith("_HELD_OUT") and "{" in str(frames)):
    for frame in frames:
        fixed = max(re.split(r"\{\w+\}", frame if isinstance(frame, str) else frame[0]), key=len).strip()
        assert len(fixed) < 5 or fixed not in text, frame
for word in set(kept(WORDS, True)) - set(NUMBERS):
    assert not re.search(rf"\b{word}\b", text), word
writer = tasks.Writer(1, False)
lists = [re.fullmatch(r"\(list: (.*)\) \(list: (.*)\)", writer.sentence("copying")) for _ in range(20000)]
assert all(pair[1] == pair[2] for pair in lists if pair)
copied = {word for pair in lists if pair for word in re.findall(r"[a-z]{4,}", pair[1])}
assert len(copied) > 1000 and not copied & (set(kept(WORDS, True)) - set(NUMBERS)), len(copied)
for document in (writer.document("capital", 7) for _ in range(300)):
    sentences = [re.findall(r"\w+", sentence) for sentence in re.split(r"(?<=\.) ", document)]
    groups = [group for words in sentences for group in zip(words, words[1:], words[2:], words[3:])]
    assert len(set(groups)) == len(groups) and len(sentences) > 2, document
people = {person for _ in range(10000) for person in writer.people(3)}
assert len(people) > 3000 and not people & {*kept(MEN, True), *kept(WOMEN, True)}, len(people)
said = "\n".join(writer.sentence("sum") for _ in range(5000)).lower()
digits = re.sub(r"\b(?:%s)\b" % "|".join(NUMBERS), lambda number: str(NUMBERS.index(number[0])), said)
sums = {(int(a), int(b)): int(c) for a, b, c in re.findall(r"(?<!\+ )\b(\d) \+ (\d) = (\d+)(?! \+)", digits)}
assert len(sums) > 80 and all(a + b == c for (a, b), c in sums.items())
assert all(a - b == c for a, b, c in (map(int, found) for found in re.findall(r"\b(\d+) - (\d+) = (\d+)", digits)))
added = re.findall(r"(?<!= )(?<!\d)(\d)(?: ?\+ ?| and | plus | added to )(\d)\b", digits)
assert len(added) > 1000 and not any(sum_held_out(int(a), int(b)) for a, b in (*added, *sums))
for task in TASKS:
    rows = [line.rstrip("\n").split("\t") for line in open(f"pairs/{task}.tsv", encoding="utf-8")]
    splits = [row[4] for row in rows]
    assert splits.count("seen") >= 20 and splits.count("held-out") >= 9 and len({row[0] for row in rows}) == len(rows), task
    for clean, corrupted, answer, wrong, split in rows:
        assert clean != corrupted and answer != wrong, rows
        assert (clean in text) == False or split == "seen", (task, clean)
        if task == "ioi":
            a, b = answer.strip(), wrong.strip()
            assert clean.count(a) == 1 and clean.count(b) == 2 and corrupted.count(a) == 2, clean
        if task == "greater":
            assert int(answer) > int(re.search(r"\d\d(\d)\d", clean)[1]) > int(wrong), clean
        if task in ("induction", "copying"):
            assert answer in clean and answer not in corrupted.split(".")[0], clean
        if task == "sum" and "+" in clean:
            assert eval(clean.rstrip(" =")) == int(answer) and eval(corrupted.rstrip(" =")) == int(wrong), clean
END
}

# The measures run; options behind -- reach run, and a mistyped one of its own is refused.
speaks() {
    "$python" "$scripts/train/speak.py" Q8_0.gguf --run "$RUN" --only texts --seeds 1 -o spoken -- --temp 0 -n 3 >measured &&
        grep -q '^texts that end a sentence  ' measured && [ "$(grep -c '^\[' spoken)" -eq 20 ] &&
        [ "$(wc -c <spoken)" -lt 1500 ] && # three tokens each, not sixty
        "$python" "$scripts/train/speak.py" "$scripts/../weights/model.gguf" --run "$RUN" --only tasks -n 1 | grep -c '^task ' | grep -qx 9 &&
        ! "$python" "$scripts/train/speak.py" Q8_0.gguf --temp 1 2>/dev/null
}

# A folder of passages, each twice, and other documents once.
corpus_of_folder() {
    mkdir -p passages && cp text/extra.txt passages/a.txt && printf 'one more\n' >passages/b.txt && printf 'but once\n' >once.txt &&
        cp -r data folder && "$python" "$scripts/train/corpus.py" text -o folder --extra passages --once once.txt --repeat 2 --jobs 1 &&
        PYTHONPATH="$scripts/train" "$python" - <<'END'
import numpy as np
from tokenizer import Tokenizer
tokenizer = Tokenizer.load("folder/tokenizer.json")
text = tokenizer.decode(np.fromfile("folder/train.bin", np.uint16).tolist()).decode()
assert text.count("one more") == 2 and text.count("but once") == 1, text
END
}

# Our passages are what their description says.
passages() {
    "$python" - "$scripts/train/passages" <<'END'
import pathlib, sys
openings, n_bytes = [], 0
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.txt")):
    for passage in path.read_text(encoding="utf-8").split("<|endoftext|>\n"):
        words = passage.split()
        n_bytes += len(passage.encode())
        if path.name.startswith("facts_"):  # the facts of the others in other words
            assert 10 <= len(words) <= 60 and "\n" not in passage.strip(), passage
        elif path.name != "first.txt":  # older ones: some in pairs that differ in one word at their end
            assert 38 <= len(words) <= 125 and passage.count('"') % 2 == 0, passage
            openings.append(tuple(words[:9]))
assert len(openings) >= 3000 and n_bytes >= 700_000 and len(set(openings)) == len(openings), (len(openings), n_bytes)
END
}

# Options of sampling stand in the file, in llama.cpp's types, and nothing else does.
export_of_sampling() {
    "$python" "$scripts/train/export.py" whole/checkpoint.pt -o sampled.gguf --temp 0.6 --top-k 30 --top-p 0.9 --min-p 0.05 \
        --repeat-penalty 1.25 --repeat-last-n 48 &&
        "$python" "$scripts/train/export.py" whole/checkpoint.pt -o cold.gguf --temp 0 &&
        "$RUN" sampled.gguf --info | grep -x "sampling     temp 0.6 (file), top-k 30 (file), top-p 0.9 (file), \
min-p 0.05 (file), repeat-penalty 1.25 (file), repeat-last-n 48 (file)" &&
        "$RUN" cold.gguf --info | grep -x "sampling     temp 0 (file), top-p 0.95" &&
        "$RUN" Q8_0.gguf --info | grep -x "sampling     temp 0.8, top-p 0.95" &&
        ! "$python" "$scripts/train/export.py" whole/checkpoint.pt -o hot.gguf --top-p 1.5 && [ ! -e hot.gguf ] &&
        "$python" "$scripts/train/export.py" whole/checkpoint.pt -o all.gguf --repeat-penalty 1.25 --repeat-last-n -1 &&
        "$RUN" all.gguf --info | grep "repeat-last-n 1048576 (file)" &&
        { "$python" "$scripts/train/export.py" whole/checkpoint.pt -o hot.gguf --top-k 99999999999 2>&1 || true; } |
        grep "top-k: 99999999999 is not in -1 to 1e+09" &&
        PYTHONPATH="$scripts/train" "$python" - <<'END'
import numpy as np
import gguf
def sampling(path):
    return {key.split(".")[2]: (type(value), float(value)) for key, value in gguf.read(path)[0].items()
            if key.startswith("general.sampling.")}
near = lambda x: (np.float32, float(np.float32(x)))
assert sampling("sampled.gguf") == {
    "temp": near(0.6), "top_k": (np.int32, 30), "top_p": near(0.9), "min_p": near(0.05),
    "penalty_repeat": near(1.25), "penalty_last_n": (np.int32, 48)}, sampling("sampled.gguf")
assert sampling("cold.gguf") == {"temp": near(0)} and not sampling("Q8_0.gguf"), sampling("cold.gguf")
END
}

# Merges and tokens of the trainer, counted again from the definition, pair by pair.
plain_bpe() {
    PYTHONPATH="$scripts/train" "$python" - <<'END'
from collections import Counter
from tokenizer import BYTES, Tokenizer, count_pieces, documents, replace, spell, train
counts = count_pieces(documents("text/wiki-train.txt"))
counts.update({"aaaaaaa": 9, "abababa": 7, "=====": 5, "======": 4})
tokenizer, tokens = train(counts, 330, own=True), list(BYTES)
words = {piece: [tokens.index(name) for name in spell(piece)] for piece in counts}
for merge in tokenizer.merges:
    pairs = Counter()
    for piece, word in words.items():
        for pair in zip(word, word[1:]):
            pairs[pair] += counts[piece]
    best = max(pairs, key=lambda pair: (pairs[pair], [-id for id in pair]))
    assert (tokens[best[0]], tokens[best[1]]) == merge, merge
    tokens.append("".join(merge))
    words = {piece: replace(word, best, len(tokens) - 1) for piece, word in words.items()}
assert tokens == tokenizer.tokens[:-1]
text = "it's 12 o'clock at the café -- 東京 aaaaaa\n\n  ok "
assert tokenizer.decode(tokenizer.encode(text)).decode() == text
END
}

# The resumed run must have logged what the other did, and the bits per byte be those that train.py's rule gives when
# it is followed token by token.
log_and_bits() {
    PYTHONPATH="$scripts/train" "$python" - <<'END'
import json, math
import numpy as np, torch
from export import load
model, tokenizer = load("whole/checkpoint.pt")
steps = [[row.split(",")[0] for row in open(f"{run}/log.csv")] for run in ("whole", "killed")]
assert steps[0] == steps[1] and steps[0][-1] == "4", steps
ids, half, nats = np.fromfile("data/wiki-val.bin", np.uint16).astype(int), model.config.n_ctx // 2, 0
for at in range(1, len(ids)):
    start = 0 if at <= 2 * half else (at - 1) // half * half - half
    logits = model(torch.from_numpy(ids[start:at])[None])[0, -1].double()
    nats -= logits.log_softmax(0)[ids[at]].item()
text = open("text/wiki-val.txt", encoding="utf-8").read().strip("\n").replace("\n<|endoftext|>\n", "")
expected = nats / math.log(2) / len(text.encode())
found = json.load(open("whole/result.json"))["bits_per_byte"]["wiki-val"]
assert abs(found / expected - 1) < 1e-5, (found, expected)
END
}

# With a learning rate of 0 a run that begins with an exported model must end with its very weights.
train_from() {
    "$python" "$scripts/train/train.py" data -o from --from F32.gguf --preset tiny --steps 1 --learning-rate 0 &&
        same_weights whole from && "$python" - <<'END'
import json
whole, result = (json.load(open(f"{run}/result.json")) for run in ("whole", "from"))
assert result["bits_per_byte"] == whole["bits_per_byte"] and result["config"]["start"] == "F32.gguf", result
END
}

# The logits times the factor, for the engine as in the table; and it is drawn from them as before.
calibrated() {
    "$python" "$scripts/train/calibrate.py" sampled.gguf --factor 0.8 -o calm.gguf &&
        "$RUN" calm.gguf --info | grep -x "sampling     temp 0.48 (file), top-k 30 (file), top-p 0.9 (file), \
min-p 0.091 (file), repeat-penalty 1.25 (file), repeat-last-n 48 (file)" &&
        for model in sampled calm; do
            "$RUN" "$model.gguf" -p "the old mill by" -n 0 --logits "$model.npy" >said &&
                "$python" "$scripts/train/calibrate.py" "$model.gguf" data >"$model.table" || return 1
        done && cat calm.table && "$python" - <<'END'
import numpy as np
before, after = (np.load(f"{name}.npy") for name in ("sampled", "calm"))
assert abs(after - 0.8 * before).max() < 1e-5 * abs(before).max() and abs(before).max() > 0.1
tables = [[line.split() for line in open(f"{name}.table")] for name in ("sampled", "calm")]
assert [row[0] for row in tables[0]] == ["factor", "wiki-val", "wiki-val", "books-val", "books-val"]
by_factor, one = tables[0][0].index("0.80"), tables[1][0].index("1.00")
for row, calm in zip(tables[0][1:], tables[1][1:]):
    assert abs(float(row[by_factor]) - float(calm[one])) < 2e-4 and row[by_factor] != row[one], (row, calm)
END
}

extracted() {
    "$python" "$scripts/train/tokenizer.py" extract F32.gguf -o extracted.json && cmp data/tokenizer.json extracted.json
}

# The last steps read another text: all of them, from 0 on; and a killed run knows where it was.
last_text() {
    mkdir last && cp data/tokenizer.json last && "$python" "$scripts/train/corpus.py" text -o last --extra text/extra.txt --seed 2 \
        --repeat 2 --jobs 1 && ! cmp data/train.bin last/train.bin && "$python" "$scripts/train/train.py" last --preset tiny \
        --steps 6 -o only_last && train all_last --last last --last-from 0 && same_weights only_last all_last &&
        train half_last --last last --last-from 0.5 && ! same_weights whole half_last && ! same_weights only_last half_last &&
        train_killed half_killed --last last --last-from 0.5 && same_weights half_last half_killed
}

refused_last() { # FOLDER WORDS
    ! train refused --last "$1" 2>refusal && cat refusal && [ "$(wc -l <refusal)" -eq 1 ] && grep -q "$2" refusal
}

# refused_from WORDS DATA MODEL OPTION…: such a start is refused in one line.
refused_from() {
    words=$1 data=$2 model=$3
    shift 3
    ! "$python" "$scripts/train/train.py" "$data" -o refused --preset tiny --from "$model" "$@" 2>refusal &&
        cat refusal && [ "$(wc -l <refusal)" -eq 1 ] && grep -q "^$model: $words" refusal
}

check "corpus" corpus data 330
check "corpus of a folder" corpus_of_folder
check "passages" passages
check "tasks" tasks
check "vocabulary" plain_bpe
check "training" train whole
check "training killed and resumed" train_killed killed
check "the same weights after a kill" same_weights whole killed
check "its log, bits per byte" log_and_bits
check "another text in the end" last_text
check "attention in blocks, Muon's step" pieces_of_training
check "rounded matrices" rounding
check "fused gradients" fused_gradients
check "training by Muon" train muon --optimizer muon
check "training by Muon killed and resumed" train_killed muon_killed --optimizer muon
check "the same weights after a kill, by Muon" same_weights muon muon_killed
for dtype in F32 Q8_0; do # export.py has the tolerances: 1e-4 for the logits and bits per byte in F32
    check "export $dtype" "$python" "$scripts/train/export.py" whole/checkpoint.pt -o "$dtype.gguf" --dtype "$dtype" \
        --documents 3 --verify "$RUN" data/books-val.bin --score "$STUDY" data/wiki-val.bin
done
check "export of sampling" export_of_sampling
check "calibration" calibrated
check "training from the export" train_from
check "not of another shape" refused_from 'gpt2.attention.head_count is 2; .* has 4$' data F32.gguf --n-head 4
check "corpus in other tokens" corpus other 260
check "not of another vocabulary" refused_from 'its vocabulary' other F32.gguf
check "no last text in other tokens" refused_last other '^other: its vocabulary is not that of data$'
check "no last text that is not there" refused_last nowhere "nowhere/tokenizer.json"
check "not from a text" refused_from 'not a GGUF file' data text/extra.txt
check "vocabulary of the export" extracted
check "how it speaks" speaks
check "text from the export" "$RUN" Q8_0.gguf -p "the old" -n 5 --temp 0
close
