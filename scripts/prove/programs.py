"""The programs that are compiled, and what they must answer: a function of the text, written without a thought of how the
model does it.

A Case has the program; `draw`, a random text that it is for; `spec`, what it must answer behind each letter of a text: a
letter, or the logits of all letters by the program's loudness (those not named are 0), or None where it promises nothing.
"""
from collections import Counter
from dataclasses import dataclass

from compiler import LOUD, Program


@dataclass
class Case:
    program: Program
    draw: object  # random → text
    spec: object  # text → answers, one a letter
    loud: float = LOUD
    generates: bool = False  # the answer is written behind the bar, letter by letter


def shares(letters):
    counts = Counter(letters)
    return {letter: n / len(letters) for letter, n in counts.items()}


def letters_of(random, alphabet, least, most):
    return "".join(random.choice(list(alphabet)) for _ in range(random.randint(least, most + 1)))


def anything(q, k):
    return True


def same(q, k):
    return q == k


def one_before(q, k):
    return k == q - 1


def fraction():
    p = Program("fraction", "abx")
    is_x = p.lookup("is it x", [p.tokens], lambda t: float(t == "x"))
    p.answer(p.attend("how many of all", [(None, p.tokens, anything)], is_x), {"x": 1}, loud=1)
    return Case(p, lambda r: letters_of(r, "abx", 2, 15),
                lambda text: [{"x": text[:i + 1].count("x") / (i + 1)} for i in range(len(text))], loud=1)


def at_bar(p):
    return p.attend("where the bar is", [(None, p.tokens, lambda q, k: k == "|")], p.positions)


def written(r, alphabet, result):
    """A text, the bar, and the beginning of what the program writes."""
    text = letters_of(r, alphabet, 1, 6)
    return text + "|" + result(text)[:r.randint(0, len(text) + 1)]


def behind_bar(result):
    """The spec of a program that writes result(text) and a full stop."""
    def spec(text):
        given, rest = text.split("|")
        return [None] * len(given) + list((result(given) + ".")[:len(rest) + 1])
    return spec


def backwards(text):
    return text[::-1]


def reverse():
    p = Program("reverse", "abcd|.", end=".")
    bar = at_bar(p)
    source = p.lookup("where to read", [bar, p.positions],
                      lambda b, i: 2 * b - 1 - i if 0 < 2 * b - 1 - i < b else None, p.positions.categories)
    ends = p.lookup("is it all", [bar, p.positions], lambda b, i: "." if b and i == 2 * b - 1 else None, (".",))
    p.answer(p.attend("the letter there", [(source, p.positions, same)], p.tokens))
    p.answer(ends)
    return Case(p, lambda r: written(r, "abcd", backwards), behind_bar(backwards), generates=True)


def in_order(text):
    return "".join(sorted(text))


def sort():
    """The j-th letter is the first of which, and of those before it, there are more than j."""
    p = Program("sort", "abc|.", end=".")
    bar = at_bar(p)
    one = p.token_value("one", lambda t: 1.0)
    behind = p.attend("is it behind the bar", [(None, p.tokens, lambda q, k: k == "|")], one)
    given = p.lookup("letter to sort", [p.tokens], lambda t: t if t in "abc" else None, tuple("abc"), unless=(behind, 1))
    rank = p.lookup("1/(j + 1.5)", [bar, p.positions], lambda b, i: 1 / (i - b + 1.5) if i >= b else None)
    for letter, later in zip("abc", ("b", "c", None)):
        count = p.share(f"1/(1 + letters to {letter})", [(None, given, lambda q, k, letter=letter: k <= letter)])
        more = p.classify(f"more than j up to {letter}", {rank: 1, count: -1}, [0], (0, 1), slope=128)
        p.answer(more, {letter: 1, later: -1} if later else {letter: 1})
    p.answer(p.classify("is it all", {rank: 1, count: -1}, [0], (1, 0), slope=128), {".": 1})
    return Case(p, lambda r: written(r, "abc", in_order), behind_bar(in_order), generates=True)




def histogram(letters="abcd", most=9):
    digits = "123456789"[:most]
    p = Program("histogram", letters + digits, most + 1)
    share = p.share("1/(1 + how many)", [(p.tokens, p.tokens, same)])
    p.answer(p.classify("how many", {share: 1}, [1 / (n + 1.5) for n in range(most - 1, 0, -1)], digits[::-1], 128,
                        tuple(digits)))
    return Case(p, lambda r: letters_of(r, letters[:r.randint(1, len(letters) + 1)], 2, most),
                lambda text: [str(text[:i + 1].count(text[i])) for i in range(len(text))])


def previous():
    p = Program("previous", "abcde")
    before = p.attend("the token before", [(p.positions, p.positions, one_before)], p.tokens)
    p.answer(p.attend("what that was before", [(p.positions, p.positions, one_before)], before))
    return Case(p, lambda r: letters_of(r, "abcde", 3, 12),
                lambda text: [{}, {}, *text[:-2]][:len(text)])


def followers(text, n):
    """Letters that followed where the last n letters stood before: the shares, behind each letter."""
    answers = []
    for i in range(len(text)):
        context = text[i - n + 1:i + 1] if i >= n - 1 else None
        found = [text[j] for j in range(n, i + 1) if text[j - n:j] == context]
        answers.append(shares(found) if found else {})
    return answers


def induction(letters="abcdef", n_ctx=16):
    p = Program("induction", letters, n_ctx)
    before = p.attend("the token before", [(p.positions, p.positions, one_before)], p.tokens)
    p.answer(p.attend("what followed", [(p.tokens, before, same)], p.tokens))
    return Case(p, lambda r: letters_of(r, letters, 4, n_ctx - 4), lambda text: followers(text, 1))


def trigrams():
    p = Program("two-step induction", "abc")
    before = p.attend("the token before", [(p.positions, p.positions, one_before)], p.tokens)
    third = p.attend("the one before that", [(p.positions, p.positions, one_before)], before)
    p.answer(p.attend("what followed both", [(p.tokens, before, same), (before, third, same)], p.tokens))
    return Case(p, lambda r: letters_of(r, "abc", 6, 14), lambda text: followers(text, 2))


def pairs_of(random, keys, values, n):
    keys = list(random.permutation(list(keys)))[:n]
    return [(key, random.choice(list(values))) for key in keys]


def two_hops(letters="abcdef"):
    """Pairs, key and value, and a key: the value of its value."""
    p = Program("two hops", letters, 2 * len(letters) + 2)
    before = p.attend("the token before", [(p.positions, p.positions, one_before)], p.tokens)
    is_value = (None, p.positions, lambda q, k: k % 2 == 0)
    first = p.attend("its value", [(p.tokens, before, same), is_value], p.tokens)
    p.answer(p.attend("the value's value", [(first, before, same), is_value], p.tokens))

    def draw(random):
        pairs = pairs_of(random, letters, letters, random.randint(2, len(letters) + 1))
        return "".join(key + value for key, value in pairs) + random.choice([key for key, _ in pairs])

    def spec(text):
        answers, pairs = [], {}
        for i, letter in enumerate(text):
            if i % 2:
                pairs[text[i - 1]] = letter
            answers.append(None if i % 2 else pairs.get(pairs.get(letter), {}))
        return answers
    return Case(p, draw, spec)


def brackets():
    """How many are open, or ! from where one too many was closed."""
    p = Program("bracket depth", "()0123456789!")
    opens = p.token_value("opens", lambda t: {"(": 1.0, ")": -1.0}.get(t, 0.0))
    inverse = p.position_value("1/position", lambda i: 1 / i if i else 0.0)
    mean = p.attend("depth/position", [(None, p.tokens, anything)], opens)
    digits = "0123456789"
    depth = p.classify("depth", {mean: 1}, [{inverse: d - 0.5} for d in range(10)], (None, *digits), 32, tuple(digits))
    below = p.classify("below 0", {mean: 1}, [{inverse: -0.5}], (1, 0), 32)
    ever = p.attend("was it below 0", [(None, p.tokens, anything)], below)
    p.answer(p.lookup("depth, if it was not", [depth], lambda d: d, tuple(digits), unless=(ever, 16)))
    p.answer(p.classify("it was", {ever: 1}, [1 / 30], (None, "!"), 32, ("!",)))

    def draw(random):
        bias = random.choice([0.5, 0.6, 0.75])
        return "".join("(" if random.random_sample() < bias else ")" for _ in range(random.randint(1, 13)))[:9]

    def spec(text):
        answers, depth, ever = [], 0, False
        for letter in text:
            depth += 1 if letter == "(" else -1
            ever = ever or depth < 0
            answers.append("!" if ever else str(depth))
        return answers
    return Case(p, draw, spec)


def gated():
    """A sign, pairs of a letter and a digit, and a letter: its digit, or 4 less it, as the sign says."""
    p = Program("gated lookup", "abcd01234+-")
    before = p.attend("the token before", [(p.positions, p.positions, one_before)], p.tokens)
    sign = p.attend("the sign", [(None, p.tokens, lambda q, k: k in "+-")], p.tokens)
    found = p.attend("its digit", [(p.tokens, before, lambda q, k: q == k and k in "abcd")], p.tokens)
    turn = lambda digit, sign: digit if sign == "+" else str(4 - int(digit))
    p.answer(p.lookup("as the sign says", [found, sign],
                      lambda f, s: turn(f, s) if f.isdigit() and s in "+-" else None, p.tokens.categories))

    def draw(random):
        pairs = pairs_of(random, "abcd", "01234", random.randint(2, 5))
        return random.choice(["+", "-"]) + "".join(k + v for k, v in pairs) + random.choice([k for k, _ in pairs])

    def spec(text):
        pairs = dict(zip(text[1:-1:2], text[2:-1:2]))
        return [None] * (len(text) - 1) + [turn(pairs[text[-1]], text[0])]
    return Case(p, draw, spec)


def indirect_object():
    """Names, of which one comes again: the other. As Wang et al. 2022 (arXiv:2211.00593) found it in GPT-2: heads that see
    a name again, heads that tell the end which, and heads that move the other one there."""
    names = "abcd"
    p = Program("indirect object", names + "&,>")
    is_name = lambda q, k: q == k and k in names
    share = p.share("1/(1 + how many)", [(p.tokens, p.tokens, is_name)])
    again = p.classify("again", {share: 1}, [5 / 12], ("again", None), 16, ("again",))
    subject = p.attend("who came again", [(None, again, lambda q, k: k == "again")], p.tokens)
    p.answer(p.attend("the other one", [(subject, p.tokens, lambda q, k: k in names and k != q)], p.tokens))

    def draw(random):
        one, other = random.permutation(list(names))[:2]
        three = list(random.permutation([one, one, other]))
        for filler in "&,,":
            three.insert(random.randint(0, len(three) + 1), filler)
        return "".join(three) + ">"

    def spec(text):
        names_ = [t for t in text if t in names]
        again = [t for t in names_ if names_.count(t) > 1]
        return [None] * (len(text) - 1) + [shares([t for t in names_ if t not in again])]
    return Case(p, draw, spec)


CASES = [fraction, histogram, previous, induction, trigrams, reverse, two_hops, gated, brackets, indirect_object, sort]
# Small ones, which tests/test_known.c has by heart.
SMALL = [lambda: histogram("ab", 4), lambda: induction("abcd", 10), lambda: two_hops("abcd")]
