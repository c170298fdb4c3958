#!/usr/bin/env python3
"""Writes the tables of unicode/categories.c (categories and scripts) and unicode/width.c (wide characters), and prints what
tests/test_pattern.c and tests/test_editor.c expect of them.

The source is Debian's python3-regex, which holds Unicode 15.0. Run with /usr/bin/python3 where that is Debian's.
"""
import pathlib

import regex

# In the order of unicode/categories.c.
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
SCRIPTS = ["", "Arabic", "Cyrillic", "Devanagari", "Greek", "Han", "Hangul", "Hebrew", "Hiragana", "Katakana", "Khmer",
           "Lao", "Latin", "Myanmar", "Thai"]  # what patterns of tokenizers name, and the larger ones of their kind
N = 0x110000
TEXT = pathlib.Path(__file__).parent.parent.parent / "unicode"
BEGIN, END = "/* Written by scripts/tables/unicode.py", "};\n"
# Wide also where nothing is assigned yet (UAX #11, section 4).
CJK = [(0x3400, 0x4DC0), (0x4E00, 0xA000), (0xF900, 0xFB00), (0x20000, 0x2FFFE), (0x30000, 0x3FFFE)]


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


def write(name, declaration, lines):
    """In the place of the table that the file has, and of the comment before it."""
    source = (TEXT / name).read_text()
    begin = source.index(BEGIN)
    table = f"{BEGIN} from Unicode 15.0. */\n{declaration} = {{\n    " + "\n    ".join(lines) + "\n" + END
    (TEXT / name).write_text(source[:begin] + table + source[source.index(END, begin) + len(END):])


def write_widths(categories):
    """Ranges of wide characters, which go on over what is unassigned."""
    found = regex.compile(r"[\p{East_Asian_Width=W}\p{East_Asian_Width=F}]")
    none, surrogate = CATEGORIES.index("Cn"), CATEGORIES.index("Cs")
    wide = bytearray(any(first <= c < end for first, end in CJK) or
                     categories[c] not in (none, surrogate) and bool(found.match(chr(c))) for c in range(N))
    ranges = []
    for c in range(N):
        if wide[c] and ranges and all(categories[i] == none for i in range(ranges[-1][1] + 1, c)):
            ranges[-1][1] = c
        elif wide[c]:
            ranges.append([c, c])
    pairs = [f"{{0x{first:04x}, 0x{last:04x}}}," for first, last in ranges]
    write("width.c", "static const struct Range {\n    uint32_t first, last;\n} wide[]",
          [" ".join(pairs[i:i + 5]) for i in range(0, len(pairs), 5)])
    # Of assigned ones alone, for the others may change.
    print(f"{len(ranges)} wide ranges, FNV-1a of those assigned "
          f"0x{fnv1a([wide[c] and categories[c] != none for c in range(N)]):016x}")


def main():
    categories, scripts = column(CATEGORIES, r"\p{%s}"), column(SCRIPTS, r"\p{Script=%s}")
    both = list(zip(categories, scripts))
    runs = [c << 9 | scripts[c] << 5 | categories[c] for c in range(N) if c == 0 or both[c] != both[c - 1]]
    lines = [" ".join(f"0x{run:08x}," for run in runs[i:i + 9]) for i in range(0, len(runs), 9)]
    write("categories.c", "static const uint32_t runs[]", lines)
    print(f"{len(runs)} runs, FNV-1a of categories 0x{fnv1a(categories):016x}, of scripts 0x{fnv1a(scripts):016x}")
    write_widths(categories)


if __name__ == "__main__":
    main()
