#!/usr/bin/env python3
"""Writes the packed table of unicode/mappings.c from Python's unicodedata, and prints what the test expects of it.

The table is numbers. A number is one character from @ to [, in base 28, after any number of characters from ] to ~, in
base 34, the highest first. First come the numbers of rows, of characters in them, and of pairs that compose; then
three groups (decompositions, lower case, combining classes), each as its number of rows and the rows:

    3 · (code point − the row before's) + kind    0: composes again, 1: does not, 2: for compatibility only
    length − 1
    for each character: its distance from the one in the same place of the row before, 2d or −2d − 1
"""
import pathlib
import unicodedata

SOURCE = pathlib.Path(__file__).parent.parent.parent / "unicode/mappings.c"
BEGIN, END = "/* Written by scripts/tables/mappings.py", "};\n"
WIDTH = 102
COMPOSES, ONE_WAY, COMPATIBILITY = range(3)


def number(value):
    text = chr(64 + value % 28)
    value //= 28
    while value:
        text = chr(93 + value % 34) + text
        value //= 34
    return text


def decompositions():
    for code in range(0x110000):
        fields = unicodedata.decomposition(chr(code)).split()
        if not fields:
            continue
        compatibility = fields[0][0] == "<"
        kind = COMPATIBILITY if compatibility else \
            COMPOSES if unicodedata.normalize("NFC", chr(code)) == chr(code) else ONE_WAY
        yield code, kind, [int(field, 16) for field in fields[compatibility:]]


def lower():
    for code in range(0x110000):
        if chr(code).lower() != chr(code):
            yield code, 0, [ord(char) for char in chr(code).lower()]


def classes():
    for code in range(0x110000):
        if unicodedata.combining(chr(code)):
            yield code, 0, [unicodedata.combining(chr(code))]


def pack(groups):
    yield sum(map(len, groups))
    yield sum(len(chars) for group in groups for _, _, chars in group)
    yield sum(kind == COMPOSES for _, kind, _ in groups[0])
    for group in groups:
        yield len(group)
        last, before = 0, []
        for code, kind, chars in group:
            yield 3 * (code - last) + kind
            yield len(chars) - 1
            for i, char in enumerate(chars):
                distance = char - (before[i] if i < len(before) else 0)
                yield 2 * distance if distance >= 0 else -2 * distance - 1
            last, before = code, chars


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def main():
    packed = "".join(map(number, pack([list(decompositions()), list(lower()), list(classes())])))
    lines = [packed[i:i + WIDTH] for i in range(0, len(packed), WIDTH)]
    table = f"{BEGIN} from Unicode {unicodedata.unidata_version}. */\n" \
        f"static const char packed[][{WIDTH + 1}] = {{\n" + "".join(f'    "{line}",\n' for line in lines) + END
    source = SOURCE.read_text()
    begin = source.index(BEGIN)
    end = source.index(END, begin) + len(END)
    SOURCE.write_text(source[:begin] + table + source[end:])
    # Each form of all characters one by one, each between letters that its marks and parts could compose with.
    for form in ["NFC", "NFD", "NFKC", "NFKD"]:
        texts = (unicodedata.normalize(form, f"e\u0323{chr(code)}\u0301o{chr(code)}\u0301") for code in range(0x110000)
                 if not 0xD800 <= code < 0xE000)
        print(form, f"0x{fnv1a(''.join(texts)):016x}")
    print("lower", f"0x{fnv1a(''.join(chr(c).lower() for c in range(0x110000) if not 0xD800 <= c < 0xE000)):016x}")


if __name__ == "__main__":
    main()
