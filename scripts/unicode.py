#!/usr/bin/env python3
"""Writes the table of character classes into unicode.c and prints what tests/test_tokenizer.c expects of it.

A class is what the patterns of byte-level BPE ask for: a letter (\\p{L}), a number (\\p{N}), white space
(\\s: the property White_Space) or none of them.
"""
import pathlib
import unicodedata

OTHER, LETTER, NUMBER, SPACE = range(4)
SOURCE = pathlib.Path(__file__).parent.parent / "text/unicode.c"
BEGIN, END = "/* Written by scripts/unicode.py", "};\n"


def char_class(code_point):
    char = chr(code_point)
    category = unicodedata.category(char)
    # str.isspace also takes the separators U+001C to U+001F, which White_Space does not have.
    if char.isspace() and not 0x1C <= code_point <= 0x1F:
        return SPACE
    return {"L": LETTER, "N": NUMBER}.get(category[0], OTHER)


def table(classes):
    changes = [c << 2 | classes[c] for c in range(len(classes)) if c == 0 or classes[c] != classes[c - 1]]
    lines = [f"{BEGIN} from Unicode {unicodedata.unidata_version}. */\n",
             "static const uint32_t changes[] = {\n"]
    for i in range(0, len(changes), 10):
        lines.append("    " + " ".join(f"0x{change:06x}," for change in changes[i:i + 10]) + "\n")
    return "".join(lines) + END


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def main():
    classes = bytes(char_class(c) for c in range(0x110000))
    source = SOURCE.read_text()
    begin = source.index(BEGIN)
    end = source.index(END, begin) + len(END)
    SOURCE.write_text(source[:begin] + table(classes) + source[end:])
    print(f"letters {classes.count(LETTER)}, numbers {classes.count(NUMBER)}, spaces {classes.count(SPACE)}, "
          f"FNV-1a 0x{fnv1a(classes):016x}")


if __name__ == "__main__":
    main()
