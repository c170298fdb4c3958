#!/usr/bin/env python3
"""Makes tests/data/tokenizer/patterns.cases: what Debian's python3-regex finds, an engine that shares nothing with
regex/pattern.c.

A line is one of

    pattern EXPRESSION     for the lines that follow
    pre NAME EXPRESSION …  the same; the expressions are applied one after the other, each to the pieces of the one before
    text TEXT : SPANS      of a pattern, its matches; of a pre, the pieces: "0,3 3,4", in bytes

with expressions and texts as hexadecimal bytes. The expressions of a pre are those that the models' authors published.
Run with /usr/bin/python3 where that is Debian's.
"""
import pathlib
import random

import regex

OUT = pathlib.Path(__file__).parent.parent.parent / "tests/data/tokenizer/patterns.cases"

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s|" + TAIL
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s"
         r"|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
ENDS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|" + TAIL)
CJK, KANA = "[一-龥ࠀ-一가-퟿]+", "[一-龥぀-ゟ゠-ヿ]+"
# The cased letters of DeepSeek LLM's tokenizer.json.
CASED = ("[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF\u0370-\u0373"
         "\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-"
         "\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-"
         "\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D"
         "\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-"
         "\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-"
         "\u212D\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-"
         "\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-"
         "\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-"
         "\U000104FB\U00010C80-\U00010CB2\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943]")
PUNCTUATED = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
              r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"

PRES = {
    "gpt-2": [GPT2],
    "starcoder": [r"\p{N}", GPT2],
    "llama-bpe": [CL100K % "{1,3}"],
    "dbrx": [CL100K % "{1,3}"],
    "qwen2": [CL100K % ""],
    "qwen35": [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
               r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "seed-coder": [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+"
                   r"|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
                   r"|\s+(?!\S)|\s+"],
    "exaone-moe": [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}"
                   r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"],
    "tekken": [O200K % ("", "", "")],
    "gpt-4o": [O200K % (ENDS, ENDS, "{1,3}")],
    "kimi-k2": [KIMI],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "deepseek-llm": [r"[\r\n]", r"\s?" + CASED + "+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", CJK, r"\p{N}+"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", KANA, PUNCTUATED],
    "bloom": [BLOOM],
    "viking": [BLOOM, r"\p{N}"],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
}

# Names on which llama.cpp goes another way than the models' own tokenizers (docs/TOKENIZERS.md), and texts that tell.
JUDGED = {"gpt-4o": "gpt-4o", "llama4": "gpt-4o", "minimax-m2": "gpt-4o", "talkie": "gpt-4o", "kanana2": "gpt-4o",
          "default": "gpt-2"}
TELLING = [
    "ДокументПродажиТоваровУслуг ВСЕГО'S", "ÉcoleÀLaCarte ΑΒγδ'll ǅŽ", "e\u0301LE\u0301ve x\u0301Y\u0301z", "नदी पुल के", "กำลังทำงาน",
    "ʰaªBº", "日本語Kanaカナかな가나다ABC", "12345 abc123DEF'm", "a/b//\n x = {y: [1, 22, 333, 4444]};", "it's (x) -- 'tis\n",
]

TEXTS = [
    "it's I'LL you'd WE'VE they're 'S't ''re", "The XMLHttpRequest of HelloWorld, naïve Straße ǅ ʰ", "1234567 1,234.5 3²½Ⅷ",
    "a\n\n b\r\n\t  c   \n", "  x  \u3000y\u2028z\u00a0 ", "// foo_bar(x) != 0;\n/*!*/\n\n", "川は橋の下を流れる。河水在桥下流过123",
    "नदी पुल के नीचे १२३ e\u0301le\u0300ve", "😀👩\u200d👩 👍🏽\n!", "안녕 하세요 가나다 ㄱ…。", "ſ'ſ K İı", "123456 12345 1234", "",
]
ALPHABET = list("aabcdlrvstmeEABLRVSTMD'''  \n\r\t0123.,!?-_/#(|~`^=é") + [
    "ſ", "İ", "ß", "川", "は", "가", "\u0301", "\u200d", "\u00a0", "\u3000", "\x85", "٣", "½", "😀", "ǅ", "ʰ", "。", "…"]

# The pres do not use these.
FEATURES = [
    r"a|ab|abc", r"(?:abc|ab|a)b", r"a{2}", r"a{2,}", r"a{1,2}b", r"a*?b", r"a+?", r"a??b", r"a{1,3}?", r"a*+b", r"a?+a",
    r"a{1,2}+a", r"[ab]*+c", r"(a(b)?)+", r"(?=a)\w", r"(?!a)\w", r"(?=(?:ab)+c)a", r"(?!(?!a))\w",
    r"(?<=a)b", r"(?<!a)b", r"^a", r"\Aa", r"\bs\b", r"\Bs", r"a.b", r"[^a-c]+", r"[\]a-]+", r"[a\-c]", r"[a-c&&[^b]]+",
    r"[[a-c][x-z]]+", r"[\p{L}&&\p{Lu}]", r"\p{Script=Greek}+", r"\P{L}+", r"\p{^L}+", r"\pL\pN", r"\D\S\W", r"\x41\u0042",
    r"(?i)aBs", r"(?i:k)K", r"\t\n\r\f\v\a", r"(?:)", r"a*", r"(?:a*)*b|a",
    r"(?:a*?)*", r"(?:a|b??)*c", r"x{0}y", r"a{x}", r"\.\*\\", r"é+|[à-ü]", r"\d+(?=(?:\d{3})*x)",
]


def find(expression, text):
    """Matches from left to right; after an empty one the search goes on a character later."""
    found, at = [], 0
    while at <= len(text):
        match = expression.search(text, at)
        if not match or match.start() == len(text):
            break
        found.append(match.span())
        at = match.end() + (match.start() == match.end())
    return found


def cut(expressions, text):
    """The pieces: every match begins and ends one."""
    pieces = [text]
    for expression in expressions:
        pieces = [part for piece in pieces for part in parts(expression, piece)]
    return pieces


def parts(expression, piece):
    places = sorted({0, len(piece), *(place for span in find(expression, piece) for place in span)})
    return [piece[a:b] for a, b in zip(places, places[1:])]


def in_bytes(text, spans):
    return " ".join(f"{len(text[:a].encode())},{len(text[:b].encode())}" for a, b in spans)


def compiled(expression):
    """$ is the end of the text here, and \\d what Unicode calls a decimal digit."""
    return regex.compile(regex.sub(r"(?<!\\)\$$", r"\\Z", expression), regex.V1)


def random_expression(rng, depth):
    atoms = ["a", "b", "c", r"\s", ".", r"\p{L}", r"\p{N}", "[ab]", "[^a]", r"[^\s\p{L}]", "é", r"\n", " ", r"\d", r"\S", "川"]
    kind = rng.random()
    if depth == 0 or kind < .35:
        return rng.choice(atoms)
    one, two = random_expression(rng, depth - 1), random_expression(rng, depth - 1)
    if kind < .5:
        return one + two
    if kind < .65:
        return f"(?:{one}|{two})"
    if kind < .82:
        return f"(?:{one})" + rng.choice(["?", "*", "+", "{2}", "{1,3}", "??", "*?", "+?"])
    if kind < .86:
        return rng.choice(atoms) + rng.choice(["++", "*+", "?+"])
    if kind < .96:
        return rng.choice(["(?=%s)", "(?!%s)"]) % one
    return rng.choice(["(?<=%s)", "(?<!%s)"]) % rng.choice(atoms)


def main():
    rng = random.Random(1)
    lines = []
    for name, expressions in PRES.items():
        lines.append(f"pre {name} " + " ".join(expression.encode().hex() for expression in expressions))
        compiled_all = [compiled(expression) for expression in expressions]
        for text in TEXTS + ["".join(rng.choices(ALPHABET, k=rng.randint(1, 30))) for _ in range(8)]:
            pieces = cut(compiled_all, text)
            ends = [sum(map(len, pieces[:i])) for i in range(len(pieces) + 1)]
            lines.append(f"text {text.encode().hex()} : {in_bytes(text, zip(ends, ends[1:]))}".rstrip())
    some = [random_expression(rng, 4) for _ in range(150)]
    for expression in FEATURES + some:
        lines.append(f"pattern {expression.encode().hex()}")
        own = regex.sub(r"[^A-Za-zéàü]", "", expression) if expression in FEATURES else ""
        alphabet = list(own) + list("abcabc  \n12s.xKS'é") + ["川", "Ω", "\u0301"]
        for _ in range(3):
            text = "".join(rng.choices(alphabet, k=rng.randint(1, 12)))
            lines.append(f"text {text.encode().hex()} : {in_bytes(text, find(compiled(expression), text))}".rstrip())
    for name, same in JUDGED.items():
        lines.append(f"pre {name} " + " ".join(expression.encode().hex() for expression in PRES[same]))
        for text in TELLING:
            pieces = cut([compiled(expression) for expression in PRES[same]], text)
            ends = [sum(map(len, pieces[:i])) for i in range(len(pieces) + 1)]
            lines.append(f"text {text.encode().hex()} : {in_bytes(text, zip(ends, ends[1:]))}")
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
