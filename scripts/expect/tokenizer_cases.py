#!/usr/bin/env python3
"""Makes tests/data/tokenizer: tiny vocabularies as GGUF files, and texts with the ids they must give.

The ids come from implementations that share nothing with tokenizer.c: the patterns run on Debian's
python3-regex, SentencePiece vocabularies are trained and applied by Debian's python3-sentencepiece, and
merging is the plain loop over all pairs. Every line of a .cases file is one of

    encode FLAGS TEXT : IDS       tokenizer_encode with these flags; FLAGS as in tokenizer.h
    decode SPECIAL IDS : TEXT     the detokenizer's output

with TEXT as hexadecimal bytes. Run with /usr/bin/python3 where that is Debian's.
"""
import io
import pathlib
import random
import struct

import numpy as np
import regex
import sentencepiece

import gguf

DATA = pathlib.Path(__file__).parent.parent.parent / "tests/data/tokenizer"
LLAMA2C = DATA.parent.parent.parent / "../shared/data/llama2c/tok512.bin"
ENDS, SPECIAL = 1, 2
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
PATTERNS = {
    "gpt-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                 r"|\s*[\r\n]+|\s+(?!\S)|\s+",
}

TRAINING_TEXT = """\
A small engine reads the words of a long text one by one, and it's the last word that we'd like to see.
The tower wasn't tall, but the river under it ran fast: 12 boats, 345 oars, 6789 stones. "Who's there?" they
asked; nobody answered. I'll row, you'll sing, he'd rest, we've time, they're late and I'm not.
    if (the_count > 100) { return the_count - 100; }    // the rest
\tindented = the(other, "thing")  # 2024-05-06\n\n\n
Der Fährmann hörte das Läuten über dem Fluß. Où est la forêt ? Là-bas, près du château. ¿Dónde está el niño?
Река течёт под мостом, а над рекой летят птицы. Ο ποταμός κυλάει αργά. 川は橋の下を流れる。河水在桥下流过。
النهر يجري تحت الجسر. नदी पुल के नीचे बहती है। 강물이 다리 아래로 흐른다. The end of the text, the end of the words.
"""

# Characters whose classes the patterns tell apart. Byte-level vocabularies merge any two of them that meet in
# one word, so that a word cut in the wrong place shows.
CORNERS = [*"aSt1'. \n\r\t", "ſ", "é", "\u0301", "川", "١", "\u00a0", "\u2028", "😀"]

SPACES = [9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F,
          0x3000]

INVALID = [
    b"\x80", b"\xff\xfe", b"a\x80b", b" \x80", b"\x80 a", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80",
    b"\xe0\x9f\xbf", b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf", b"\xed\xa0\x80", b"\xed\xbf\xbf",
    b"\xed\x9f\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xc3",
    b"\xe2\x82", b"\xf0\x9f\x98", b"\xf0\x9f", b"\xc3 a", b"\xe2\x82a", b"\xf0\x9f\x98the",
    b"the\xf0\x9f\x98", b"\xe2the words\xe2\x96 x", b"\xc3\xc3\xa9", b"1\xff2\xff3", b"\n\x80\n\x80 \n",
    b"it's\x80's\xc5'\xc5s", bytes(range(256)), bytes(reversed(range(256))),
]


def texts(seed):
    """Texts to encode: bytes, not all of them UTF-8."""
    yield from (text.encode() for text in [
        "", " ", "  ", "   ", "\n", "\r\n", "\t", "a", " a", "a ", " a ", "  a", "a  ", "a\n", "a \n b",
        "\n a", "the words of the text", "The tower wasn't tall", "it's I'll you'd we've they're I'm",
        "IT'S I'LL YOU'D WE'VE THEY'RE I'M CAN'T", "'S'T'RE'VE'M'LL'D 's't're've'm'll'd", "it'ſ it'ſt 'ſt",
        "''s ' s '", "'", "''", "a'", "'l", "'r", "'v", "'lx", "can’t", "x's'y", " 's", " 't ", "1's",
        "l'l 'Ll 'lL 'Re", "1 12 123 1234 12345 1234567890", "1a2b", "a1b2", "3.14, 2.71", "x² ½ ⅷ ①",
        "١٢٣ १२३४ ๑๒๓๔๕ ①②③④", "Ⅳ ⅣⅤⅥⅦ", "a\r\nb", "a\r\r\n\nb", "\r\n\r\n", " \r\n a", "a \t\n\t b",
        "...\n\n\n", "?!\r\n\r\n x", "\n\n  \n\n  x", " \n", "\n ", "  \n  \n  x  ", "\t\tx", " \tx",
        "\t x", "    x\n      y\n", "  (x)", " ...", "  ...", "a ...b", "e\u0301le\u0300ve nai\u0308ve",
        "\u0301a \u0301", "\u200da\u200d", "a\u00adb", "नदी पुल के नीचे", "النهر يجري", "강물이 다리", "川は橋の下",
        "河水在桥下流过。", "Река течёт", "Ο ποταμός", "Fährmann Fluß", "ＦＵＬＬ　ｗｉｄｔｈ １２３", "😀", "👩‍👩‍👧‍👦 👍🏽 🇩🇪",
        "a😀b", " 😀", "😀😀😀 😀\n", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "𝒜𝟙𝟚𝟛𝟜 𐒠𐒡", "\U0010ffff\U000e0001", "\ufeffthe \ufffd",
        "\ue000\uf8ff", "a\0b", "\0", "\0\0\0 \0", "\x01\x1b[0m\x7f", "\x1c\x1d\x1e\x1f a",
        "if (the_count > 100) { return; }", "the▁words", "▁", "▁▁the", " ▁ ", "Ġthe ĊĠ", "<0x0A><0x41>",
        "<s></s><unk>", "ĀāĂ ĳ Ł Ń", "*".join(chr(c) for c in SPACES),
        "".join(chr(c) for c in SPACES) + "a",
        *(f"a{chr(c)}b{chr(c)}{chr(c)}c {chr(c)}d{chr(c)} e{chr(c)}" for c in SPACES), TRAINING_TEXT,
    ])
    yield from INVALID
    for unit in [b"a", b" ", b"1", b"\n", b"'", b"the", "😀".encode(), b"\xff", b" a", b"\t ", "é".encode(),
                 b"\0", b"ab"]:
        yield unit * 24
        yield unit * 23 + b"x"
    rng = random.Random(seed)
    alphabet = ["a", "e", "t", "the", "'", "'s", " ", " ", "\n", "\r", "1", "2", ".", "!", "é", "\u0301", "ж",
                "川", "١", "😀", "\u00a0", "\u3000", "T", "S", "_", "-", "ſ"]
    for _ in range(45):
        yield "".join(rng.choices(alphabet, k=rng.randint(1, 24))).encode()
    for _ in range(20):
        some = b"ab '1\n\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xff\xed\xa0"
        yield bytes(rng.choices(some, k=rng.randint(1, 20)))
    for _ in range(20):
        planes = [range(0x250), range(0xD800), range(0x10000, 0x20000)]
        yield "".join(chr(rng.choice(rng.choice(planes))) for _ in range(rng.randint(1, 12))).encode()


def characters(text):
    """bytes → str of one element per character, or per byte where there is none."""
    return text.decode("utf-8", "surrogateescape")


def merge_all(symbols, rank):
    """As long as two neighbours merge, the pair of the lowest rank does, of equals the leftmost."""
    symbols = list(symbols)
    while len(symbols) > 1:
        ranks = [rank(a, b) for a, b in zip(symbols, symbols[1:])]
        best = min((r for r in ranks if r is not None), default=None)
        if best is None:
            break
        i = ranks.index(best)
        symbols[i:i + 2] = [symbols[i] + symbols[i + 1]]
    return symbols


def byte_names():
    """GPT-2's spelling of bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(rest)}


def spell(data):
    names = byte_names()
    return "".join(names[b] for b in data)


class ByteLevel:
    """Byte-level BPE trained on a text: the most frequent pair first, of equals the first in the text."""

    def __init__(self, pre, n_merges):
        self.pattern = regex.compile(PATTERNS[pre])
        self.whole_words = pre == "llama-bpe"
        self.tokens = [bytes([b]) for b in byte_names()]
        self.ranks = {}
        words = [[bytes([b]) for b in word] for word in self.words(TRAINING_TEXT.encode())]
        for rank in range(n_merges):
            counts = {}
            for word in words:
                for pair in zip(word, word[1:]):
                    counts[pair] = counts.get(pair, 0) + 1
            pair = max(counts, key=counts.get)
            self.ranks[pair] = rank
            self.tokens.append(pair[0] + pair[1])
            words = [merge_all(word, self.only(pair)) for word in words]
        for a in [*(c.encode() for c in CORNERS), b"\xe2\x82"]:
            for b in (c.encode() for c in CORNERS):
                pair = a[-1:], b[:1]
                if pair not in self.ranks:
                    self.ranks[pair] = len(self.ranks)
                    self.tokens.append(pair[0] + pair[1])
        if self.whole_words:  # tokens that no merge makes
            self.tokens += [b" unmergeable", b"9z", b"987", b"\na"]
        self.ids = {token: i for i, token in reversed(list(enumerate(self.tokens)))}

    @staticmethod
    def only(pair):
        return lambda a, b: 0 if (a, b) == pair else None

    def words(self, text):
        words = self.pattern.findall(characters(text))
        words = [word.encode("utf-8", "surrogateescape") for word in words]
        assert b"".join(words) == text
        return words

    def encode(self, text):
        ids = []
        for word in self.words(text):
            if self.whole_words and word in self.ids:
                ids.append(self.ids[word])
            else:
                symbols = merge_all([bytes([b]) for b in word], lambda a, b: self.ranks.get((a, b)))
                ids += [self.ids[symbol] for symbol in symbols]
        return ids


class SentencePiece:
    """Pieces with scores; encode is the plain loop, which `check` compares with SentencePiece's own."""

    def __init__(self, pieces, scores, types, processor=None):
        self.pieces, self.scores, self.types, self.processor = pieces, scores, types, processor
        self.ids = {piece: i for i, piece in enumerate(pieces) if types[i] not in (UNKNOWN, CONTROL, BYTE)}
        self.byte_ids = {int(piece[3:5], 16): i for i, piece in enumerate(pieces) if types[i] == BYTE}

    @classmethod
    def trained(cls, n_vocab):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TRAINING_TEXT.splitlines()), model_writer=model, model_type="bpe",
            vocab_size=n_vocab, byte_fallback=True, normalization_rule_name="identity",
            remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, character_coverage=0.98,
            num_threads=1, minloglevel=2)
        p = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        ids = range(p.vocab_size())
        types = [UNKNOWN if p.is_unknown(i) else CONTROL if p.is_control(i) else BYTE if p.is_byte(i)
                 else NORMAL for i in ids]
        return cls([p.id_to_piece(i) for i in ids], [p.get_score(i) for i in ids], types, p)

    def encode(self, text, prefix=" "):
        """prefix: what goes in front of a text that is not empty."""
        if not text:
            return []
        spaced = (prefix + characters(text)).replace(" ", "▁")

        def rank(a, b):
            return -self.scores[self.ids[a + b]] if a + b in self.ids else None

        ids = []
        for symbol in merge_all(spaced, rank):
            if symbol in self.ids:
                ids.append(self.ids[symbol])
            else:
                ids += [self.byte_ids[b] for b in symbol.encode("utf-8", "surrogateescape")]
        self.check(text, prefix, ids)
        return ids

    def check(self, text, prefix, ids):
        try:
            valid = text.decode()
        except UnicodeDecodeError:
            return
        if self.processor and prefix == " ":  # which ends a text at a NUL
            assert "\0" in valid or self.processor.encode(valid) == ids, valid


class Cases:
    """A vocabulary's .cases file."""

    def __init__(self, name):
        self.path, self.lines = DATA / f"{name}.cases", []

    def encode(self, flags, text, ids):
        self.lines.append(f"encode {flags} {text.hex()} : {' '.join(map(str, ids))}")

    def decode(self, special, ids, text):
        self.lines.append(f"decode {int(special)} {' '.join(map(str, ids))} : {text.encode().hex()}")

    def write(self):
        self.path.write_text("\n".join(self.lines) + "\n")


def write_vocabulary(name, model, tokens, types, **more):
    metadata = {"general.architecture": "none", "tokenizer.ggml.model": model,
                "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": np.array(types, np.int32)}
    metadata |= {f"tokenizer.ggml.{key}": value for key, value in more.items()}
    gguf.write(DATA / f"{name}.gguf", metadata, {})


def split_specials(text, names):
    """[(fragment, the name after it)]: the leftmost special token, of those that start there the longest."""
    if not names:
        return [(text, None)]
    parts, at = [], 0
    longest_first = sorted(names, key=len, reverse=True)
    for match in regex.finditer(b"|".join(map(regex.escape, longest_first)), text):
        parts.append((text[at:match.start()], match.group()))
        at = match.end()
    return parts + [(text[at:], None)]


def special_texts(names):
    rng = random.Random(3)
    yield from names
    yield from (a + b for a, b in zip(names, names[1:]))
    for _ in range(30):
        others = [b" ", b"the words", b"<", b"<|", b"\n", b"a", names[0][:-1], names[1][1:]]
        yield b"".join(rng.choices([*names, *others], k=rng.randint(2, 7)))


def special_cases(cases, encode, ids, control, user_defined):
    """encode(fragment) → ids; ids of the special tokens by name."""
    for flags in (0, SPECIAL):
        names = control + user_defined if flags else user_defined
        for text in special_texts(control + user_defined):
            expected = []
            for fragment, name in split_specials(text, names):
                expected += encode(fragment) + ([ids[name]] if name else [])
            cases.encode(flags, text, expected)


def decode_cases(cases, encode, pieces, text_ids, prefix):
    """Bytes that are not UTF-8, and random ids. pieces: bytes by id. prefix: a space in front is dropped."""
    for text in INVALID:
        cases.decode(False, encode(text), text.decode("utf-8", "replace"))
    rng = random.Random(4)
    for _ in range(30):
        ids = rng.choices(text_ids, k=rng.randint(1, 12))
        data = b"".join(pieces[i] for i in ids)
        if prefix and data.startswith(b" "):
            data = data[1:]
        cases.decode(False, ids, data.decode("utf-8", "replace"))


def byte_level(name, pre, n_merges, add_bos):
    bpe = ByteLevel(pre, n_merges)
    control = [b"<|endoftext|>", b"<|eot_id|>", b"<|a|>", b"<|a|><|b|>", "<|é|>".encode()]
    user_defined = [b"<think>", b"<thinking>", b"    ", "ŧ¤".encode()]
    tokens = [*map(spell, bpe.tokens), *(t.decode() for t in control + user_defined), "Ġthe", "[unused]"]
    types = ([NORMAL] * len(bpe.tokens) + [CONTROL] * len(control) + [USER_DEFINED] * len(user_defined)
             + [NORMAL, UNUSED])
    merges = [f"{spell(a)} {spell(b)}" for a, b in bpe.ranks]
    merges += merges[:3]  # a pair listed again: the first place counts
    end = len(bpe.tokens)
    write_vocabulary(name, "gpt2", tokens, types, merges=merges, pre=pre, bos_token_id=np.uint32(end),
                     eos_token_id=np.uint32(end), add_bos_token=add_bos)
    cases = Cases(name)
    ids = {name: end + i for i, name in enumerate(control + user_defined)}

    def encode(text):
        return [i for part, name in split_specials(text, user_defined)
                for i in bpe.encode(part) + ([ids[name]] if name else [])]

    for text in texts(1):
        cases.encode(0, text, encode(text))
        if len(text) < 3:
            cases.encode(ENDS, text, [end] * add_bos + encode(text))
    special_cases(cases, bpe.encode, ids, control, user_defined)
    decode_cases(cases, bpe.encode, bpe.tokens, range(end), prefix=False)
    cases.decode(False, [end, bpe.ids[b" "], end + 1, bpe.ids[b"a"]], " a")
    cases.decode(True, [end, bpe.ids[b" "], end + 1, bpe.ids[b"a"]], "<|endoftext|> <|eot_id|>a")
    cases.decode(False, [ids["ŧ¤".encode()], ids[b"    "]], "ŧ¤    ")
    cases.write()


def sentence_piece(name):
    trained = SentencePiece.trained(480)
    n, user_defined = len(trained.pieces), [b"<tag>", b"<tag><tag>"]
    control = [b"<|im_end|>", b"<s>", b"</s>", b"<unk>"]
    pieces = trained.pieces + ["<tag>", "<tag><tag>", "<|im_end|>"]
    types = trained.types + [USER_DEFINED, USER_DEFINED, CONTROL]
    scores = np.array(trained.scores + [0.0, 0.0, 0.0], np.float32)
    write_vocabulary(name, "llama", pieces, types, scores=scores)
    cases = Cases(name)
    for text in texts(2):
        cases.encode(0, text, trained.encode(text))
        if len(text) < 3:
            cases.encode(ENDS, text, [1] + trained.encode(text))
    ids = {b"<tag>": n, b"<tag><tag>": n + 1, b"<|im_end|>": n + 2, b"<s>": 1, b"</s>": 2, b"<unk>": 0}
    special_cases(cases, trained.encode, ids, control, user_defined)
    data = [b"" if types[i] in (UNKNOWN, CONTROL) else bytes([int(p[3:5], 16)]) if types[i] == BYTE
            else p.replace("▁", " ").encode() for i, p in enumerate(trained.pieces)]
    decode_cases(cases, trained.encode, data, range(n), prefix=True)
    the = trained.ids["▁the"]
    cases.decode(False, [1, the, the, 2], "the the")
    cases.decode(True, [1, the, the, 2], "<s>the the</s>")
    cases.write()


def llama2c():
    """The vocabulary of stories260K, if it is there, encoded the way llama2.c's encode does."""
    if not LLAMA2C.exists():
        return
    raw, at, pieces, scores = LLAMA2C.read_bytes(), 4, [], []
    while at < len(raw):
        score, length = struct.unpack_from("<fi", raw, at)
        pieces.append(raw[at + 8:at + 8 + length].decode().replace(" ", "▁"))
        scores.append(score)
        at += 8 + length
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * (len(pieces) - 259)]
    vocabulary = SentencePiece(pieces, scores, types)
    cases = Cases("tok512")
    for text in texts(5):
        if len(text) < 20:
            cases.encode(ENDS, text, [1] + vocabulary.encode(text))
    cases.write()


def main():
    DATA.mkdir(parents=True, exist_ok=True)
    byte_level("gpt2", "gpt-2", 150, add_bos=False)
    byte_level("llama3", "llama-bpe", 120, add_bos=True)
    sentence_piece("sentencepiece")
    llama2c()


if __name__ == "__main__":
    main()
