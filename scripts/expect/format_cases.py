#!/usr/bin/env python3
"""Makes tests/data/templates/formats.json: what Python's str.format makes of integers, strings and other values.

    /usr/bin/python3 scripts/expect/format_cases.py

A case is [format, value, text], or null in the place of the text where Python has an error, or where jinja/functions.c
says that it does not know the format (BEYOND).
"""
import itertools
import json
import pathlib

OUT = pathlib.Path(__file__).parent.parent.parent / "tests/data/templates/formats.json"

VALUES = [0, 7, -7, 1234, -1234567, 10**18, True, "", "a", "é", "hello", "<|x|>", 1.5, -2.0, 1234.5678, 1e20, None, [1]]
SPECS = ["", "d", "s", "f", "5", "<5", ">5", "^5", "=5", "*^9", "é>4", "05", "<05", "0>5", "x=6", "+", "-", " ", "+d", " d",
         "+5d", "=+8d", ",", ",d", "_d", "012,", "04,", "05,d", "0=9,", "*=9,", "<012,", "^+11,d", ".2", ".0", ".3s", "8.3",
         "^8.3s", ".2f", ".0f", "8.2f", "+.1f", ",.2f", "015,.2f", ".", "q", "5q", "d5", "5 d", "+s", ",s", "=5s", "08s", "<<5",
         ">>5", "==5", "^^5", "20,d", "025,d", "1", "0", "00", "010d", "+010d", " 010,d"]
BEYOND = ["x", "X", "b", "o", "c", "n", "e", "E", "g", "G", "F", "%", "#x", "z.1f"]
PLACES = [("{0}{0}", 5), ("{!r}", "a'b"), ("{!s:>6}", "ab"), ("{!r:>6}", "ab"), ("{!s}", 12), ("{!r:5}", 12), ("{:}", "a"),
          ("{{}}", 1), ("{{{}}}", 1), ("{{{:3d}}}", 1), ("{", 1), ("}", 1),
          ("{:d", 1), ("{1}", 1), ("", 1), ("no places", 1), ("{}{}", 1), ("{!x}", 1), ("{!}", 1), ("{!r5}", 1)]


def made(form, value):
    try:
        return form.format(value)
    except (ValueError, TypeError, IndexError, KeyError):
        return None


def known(spec, value):
    """A float without 'f' has shortest digits here, and neither a precision nor groups."""
    return not (isinstance(value, float) and not spec.endswith("f") and ("." in spec or "," in spec))


cases = [["{:%s}" % spec, value, made("{:%s}" % spec, value) if known(spec, value) else None]
         for spec, value in itertools.product(SPECS, VALUES)]
cases += [["{:%s}" % spec, 5, None] for spec in BEYOND]
cases += [[form, value, made(form, value)] for form, value in PLACES]
OUT.write_text("[\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "\n]\n", encoding="utf-8")
print(len(cases), "cases,", sum(case[2] is None for case in cases), "errors")
