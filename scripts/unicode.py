#!/usr/bin/env python3
"""Writes the table of categories and scripts into text/categories.c and prints what tests/test_pattern.c expects of it.

The source is Debian's python3-regex, which holds Unicode 15.0. Run with /usr/bin/python3 where that is Debian's.
"""
import pathlib

import regex

# In the order of text/categories.c.
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
SCRIPTS = ["", "Arabic", "Cyrillic", "Devanagari", "Greek", "Han", "Hangul", "Hebrew", "Hiragana", "Katakana", "Khmer",
           "Lao", "Latin", "Myanmar", "Thai"]  # what patterns of tokenizers name, and the larger ones of their kind
N = 0x110000
SOURCE = pathlib.Path(__file__).parent.parent / "text/categories.c"
BEGIN, END = "/* Written by scripts/unicode.py", "};\n"


def column(names, pattern):
    """For each code point the index of the name whose pattern matches it."""
    values = [0] * N
    for index, name in enumerate(names):
        if not name:
            continue
        found = regex.compile(pattern % name)
        for c in range(N):
            if found.match(chr(c)):
                values[c] = index
    return values


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def main():
    categories, scripts = column(CATEGORIES, r"\p{%s}"), column(SCRIPTS, r"\p{Script=%s}")
    both = list(zip(categories, scripts))
    runs = [c << 9 | scripts[c] << 5 | categories[c] for c in range(N) if c == 0 or both[c] != both[c - 1]]
    lines = [" ".join(f"0x{run:08x}," for run in runs[i:i + 9]) for i in range(0, len(runs), 9)]
    table = (f"{BEGIN} from Unicode 15.0. */\n"
             "static const uint32_t runs[] = {\n    " + "\n    ".join(lines) + "\n" + END)
    source = SOURCE.read_text()
    begin = source.index(BEGIN)
    SOURCE.write_text(source[:begin] + table + source[source.index(END, begin) + len(END):])
    print(f"{len(runs)} runs, FNV-1a of categories 0x{fnv1a(categories):016x}, of scripts 0x{fnv1a(scripts):016x}")


if __name__ == "__main__":
    main()
