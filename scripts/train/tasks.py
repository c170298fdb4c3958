#!/usr/bin/env python3
"""Sentences with a known next word: what the default model learns its classic circuits from, and what finds them.

    scripts/train/tasks.py text -n 20000 -o tasks.txt       # documents for corpus.py --extra
    scripts/train/tasks.py text -n 20000 -o tasks.txt --weights ioi=60 sum=4  # more of one task, less of another
    scripts/train/tasks.py pairs -n 200 -o pairs            # files of pairs for each task, pairs/ioi.tsv, pairs/ioi.jsonl and so on
    study patch model.bin --pairs pairs/ioi.jsonl --what z  # which heads move the names

A pair is a line of five columns: clean, corrupted, answer, wrong, split. After the clean prompt `answer` comes next,
after the corrupted one, of as many words, it is `wrong` or open. Both are texts as they follow the prompt, with the
space before. The same pairs stand in the .jsonl, a line an object of these fields, as `study --pairs` reads them.
In the split `seen` names and frames are those of the training text, though hardly ever together;
in `held-out` the frame never stands in it, nor do the names, words and syllables. (A country cannot be held out, a
bracket or a number: there only frames are, and five sums, which the training text has in neither order.)

The pairs come from short lists of frames, and so does a part of the training text. The rest of it, for four tasks,
comes from GRAMMAR, whose tables compose about as many frames as there are sentences: a model that meets a few hundred
frames learns these by heart, and not the task.

| task | asks for |
|---|---|
| ioi | the person to whom the other gives something (Wang et al. 2022) |
| greater | the first digit of a later year of the same century (Hanna et al. 2023) |
| induction | the second half of an invented name that stood before (Olsson et al. 2022) |
| pronoun | he or she, by the name |
| capital | a country's capital |
| agreement | is or are, with a clause between subject and verb (Linzen et al. 2016) |
| closing | the bracket or the quotation mark that is open |
| copying | the next word of a list that is said again |
| sum | of two numbers below ten |
"""
import argparse
import collections
import functools
import json
import os
import pathlib
import random
import re

from task_tables import (END, MEN, WOMEN, PLACES, THINGS, MORE_NAMES, SURNAMES, FROM_BOOKS, IOI, IOI_HELD_OUT, GREATER,
                         GREATER_HELD_OUT, CENTURIES, NOUNS, NOUNS_HELD_OUT, SYLLABLES, INDUCTION,
                         INDUCTION_HELD_OUT, PRONOUN, PRONOUN_HELD_OUT, AFTER_PRONOUN, CAPITALS, CAPITAL,
                         CAPITAL_HELD_OUT, SUBJECTS, CLAUSES, CLAUSES_HELD_OUT, SINGLE, SEVERAL, ADJECTIVES,
                         WORDS, CLOSING, CLOSING_HELD_OUT, COPYING, COPYING_HELD_OUT, SUM, SUM_HELD_OUT,
                         NUMBERS, IN_WORDS, kept, sum_held_out, SLOT, CHOICE, ARTICLE,
                         SENTENCE, PREPOSITIONS, GRAMMAR, IOI_KINDS, PRONOUNS, SEXES, PRONOUN_KINDS,
                         SEPARATORS, COPYING_MORE, COPYING_LINES, SUM_KINDS, COUNTED, SUM_MORE, SIGN,
                         COUNTING)


@functools.lru_cache(None)
def common_words():
    """Words that our passages have often, but for all that is held out: lists of the training text are made of them, and
    some of its persons bear them as names. From a table of 300 words a model learned to copy these, and no others."""
    found = collections.Counter()
    for path in pathlib.Path(__file__).parent.glob("passages/*.txt"):
        found.update(re.findall(r"(?<![\w'])[a-z]{4,}(?![\w'])", path.read_text(encoding="utf-8")))
    left_out = {*kept(WORDS, True), *NUMBERS, *(name.lower() for name in kept(MEN, True) + kept(WOMEN, True))}
    return sorted(word for word, n in found.items() if n >= 5 and word not in left_out)


@functools.lru_cache(None)
def common_names():
    """Words that our passages have with a capital amid a sentence, but for all that is held out, and the names of the
    tables. Whoever meets the same few names as answers learns that these are the answers, and copies no others."""
    found = collections.Counter()
    for path in sorted(pathlib.Path(__file__).parent.glob("passages/*.txt")):
        found.update(re.findall(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?![\w'])", path.read_text(encoding="utf-8")))
    left_out = {*kept(MEN, True), *kept(WOMEN, True)}
    return sorted({word for word, n in found.items() if n >= 3 and word not in left_out} | {*SURNAMES, *FROM_BOOKS})


# The grammar composes this part of a task's sentences in the training text; the others are those of the pairs.
FROM_GRAMMAR = {"ioi": 0.8, "pronoun": 0.8, "copying": 0.8, "sum": 0.7}


class Writer:
    """Sentences of one split, drawn by `random`. A task gives (prompt, corrupted, answer, wrong, what ends it)."""

    def __init__(self, seed, held_out):
        self.random, self.held_out = random.Random(seed), held_out
        self.names = kept(MEN, held_out), kept(WOMEN, held_out)
        self.all_names = self.names[0] + self.names[1] + ([] if held_out else MORE_NAMES)
        self.centuries = CENTURIES[:3] if held_out else CENTURIES

    def frame(self, seen, held_out):
        return self.random.choice(held_out if self.held_out else seen)

    def pick(self, items):
        return self.random.choice(kept(items, self.held_out))

    def fill(self):
        return {"place": self.random.choice(PLACES), "thing": self.random.choice(THINGS)}

    def ioi(self):
        a, b = self.random.sample(self.all_names, 2)
        frame, words = self.frame(IOI, IOI_HELD_OUT), self.fill()
        if self.random.random() < 0.5 and "{A} and {B}" in frame:  # whoever comes first may be the one who gives
            frame = frame.replace("{A} and {B}", "{B} and {A}")
        corrupted = frame.replace(frame[frame.rindex("{B}"):], frame[frame.rindex("{B}"):].replace("{B}", "{A}"))
        end = self.random.choice((".", f", and {a} thanked {b}.", f". {a} smiled at {b}."))
        return frame.format(A=a, B=b, **words), corrupted.format(A=a, B=b, **words), " " + a, " " + b, end

    def greater(self):
        century, tens = self.random.choice(self.centuries), self.random.randint(1, 8)
        frame, noun = self.frame(GREATER, GREATER_HELD_OUT), self.frame(NOUNS, NOUNS_HELD_OUT)
        end = self.random.randint(tens + 1, 9)
        low = self.random.randint(0, tens - 1)

        def prompt(first):
            return frame.format(noun=noun, a=f"{century}{first}{units}", century=century)

        units = self.random.randint(0, 9)
        return prompt(tens), prompt(0), str(end), str(low), f"{self.random.randint(0, 9)}."

    def induction(self):
        parts = kept(SYLLABLES, self.held_out)
        one, two, three, four = self.random.sample(parts, 4)
        frame = self.frame(INDUCTION, INDUCTION_HELD_OUT)
        first, second, other = one.capitalize(), two.capitalize() + three, four.capitalize() + three
        prompt = f"{frame} {first}"
        return (prompt.format(x=f"{first} {second}"), prompt.format(x=f"{first} {other}"), f" {second}", f" {other}", ".")

    def pronoun(self):
        who = self.random.randint(0, 1)
        frame, words = self.frame(PRONOUN, PRONOUN_HELD_OUT), self.fill()
        name, other = self.random.choice(self.names[who]), self.random.choice(self.names[1 - who])
        cut = frame.replace(" {p}", "")
        pronouns = " he", " she"
        return (cut.format(N=name, **words), cut.format(N=other, **words), pronouns[who], pronouns[1 - who],
                " " + self.random.choice(AFTER_PRONOUN).format(**words))

    def capital(self):
        country, other = self.random.sample(list(CAPITALS), 2)
        frame = self.frame(CAPITAL, CAPITAL_HELD_OUT)
        return frame.format(c=country), frame.format(c=other), f" {CAPITALS[country]}", f" {CAPITALS[other]}", "."

    def agreement(self):
        single = self.pick(list(SUBJECTS))
        subjects = [single, SUBJECTS[single]]
        number = self.random.randint(0, 1)
        clause = self.frame(CLAUSES, CLAUSES_HELD_OUT).format(
            man=self.random.choice(SINGLE), men=self.random.choice(SEVERAL), place=self.random.choice(PLACES))
        verbs = self.random.choice(((" is", " are"), (" was", " were")))
        return (f"The {subjects[number]} {clause}", f"The {subjects[1 - number]} {clause}", verbs[number],
                verbs[1 - number], f" {self.random.choice(ADJECTIVES)}.")

    def closing(self):
        a, b, c, w = self.random.sample(kept(WORDS, self.held_out), 4)
        if self.random.random() < 0.3:
            name, other = self.random.sample(self.names[0] + self.names[1], 2)
            quoted = self.frame(('"I want {a} and {b},"', '"Bring me the {a} and the {b},"'), ('"Here is {a} for {b},"',))
            start = quoted.format(a=a, b=b)
            verb = self.random.choice(("said", "asked", "cried"))
            prompt = f'{start} {verb} {name}. "We have no {c}'
            return prompt, prompt.replace('"', ""), '."', ".", f" {other} said nothing."
        frame, answer = self.frame(CLOSING, CLOSING_HELD_OUT)
        swapped = frame.replace("(", "[") if answer == ")" else frame.replace("[", "(")
        words = {"a": a, "b": b, "c": c, "w": w}
        return (frame.format(**words), swapped.format(**words), answer, "]" if answer == ")" else ")", " and that was all.")

    def copying(self):
        n = self.random.randint(3, 5)
        words = self.random.sample(kept(WORDS, self.held_out), n + 1)
        words, other = words[:n], words[n]
        at = self.random.randint(1, n - 1)
        frame = self.frame(COPYING, COPYING_HELD_OUT)
        again = ", ".join(words[:at]) + ","
        changed = words[:at] + [other] + words[at + 1:]
        rest = words[at + 1:]
        return (frame.format(list=", ".join(words), again=again), frame.format(list=", ".join(changed), again=again),
                " " + words[at], " " + other, "".join(f", {word}" for word in rest) + ".")

    def sum(self):
        a, b = self.random.randint(0, 9), self.random.randint(0, 9)
        while not self.held_out and sum_held_out(a, b):
            a, b = self.random.randint(0, 9), self.random.randint(0, 9)
        frame = self.frame(SUM, SUM_HELD_OUT)

        def number(x):
            return IN_WORDS[x] if "{A}" in frame else str(x)

        def prompt(x, y):
            return frame.format(a=x, b=y, A=IN_WORDS[x].capitalize(), b2=IN_WORDS[y])

        other = self.random.choice([y for y in range(10) if y != b])
        return prompt(a, b), prompt(a, other), f" {number(a + b)}", f" {number(a + other)}", "."

    def draw(self, weighted):
        return self.random.choices(list(weighted), weighted.values())[0]

    def expand(self, text, bound):
        """The text with its {slots} filled, from `bound` or from a table of GRAMMAR."""
        while "{" in text:
            text = SLOT.sub(lambda slot: bound.get(slot[1]) or self.random.choice(GRAMMAR[slot[1]]), text)
        return text

    def say(self, text, **bound):
        """A sentence, or a few, by a template as GRAMMAR explains it."""
        thing, other = self.random.sample(GRAMMAR["thing"], 2)
        place = self.random.choice(GRAMMAR["place"])
        at = next((word for word, places in PREPOSITIONS.items() if place in places), "at")
        known = {"thing": thing, "other": other, "place": place, "in_place": f"{at} the {place}"}
        text = self.expand(text, {**known, **bound})
        tense = self.random.randint(0, 1)
        third = "~" in text or tense and "&" in text

        def form(choice):
            forms = choice[1].split("|")
            return forms[2 if third and len(forms) == 3 else tense]

        text = CHOICE.sub(form, re.sub("[~&]", "", text))
        text = ARTICLE.sub(r"\1n", text)
        return SENTENCE.sub(lambda start: start[1] + start[2].upper(), text)

    def people(self, n):
        """n persons: names mostly, at times whatever else somebody can be called."""
        plain, people = self.random.random() < 0.6, []
        while len(people) < n:
            person = self.expand("{name}" if plain else "{person}", {
                "name": self.random.choice(self.random.choice((self.all_names, common_names()))),
                "Word": self.random.choice(common_words()).capitalize()})
            if person not in people:
                people.append(person)
        return people

    def more_ioi(self):
        a, b, c = self.people(3)
        x, y = self.random.sample((a, b), 2)
        u, v, w = self.random.sample((a, b, c), 3)
        return self.say(self.draw(IOI_KINDS), A=a, B=b, C=c, X=x, Y=y, U=u, V=v, W=w)

    def more_pronoun(self):
        who = self.random.randint(0, 1)
        people = [self.random.choice((*self.names[sex], *more)) if self.random.random() < 0.7
                  else self.expand(self.random.choice(("{who} {being}", "{who} {being}", "{title} {surname}")),
                                   {"being": self.random.choice(beings), "title": self.random.choice(titles)})
                  for sex, (more, beings, titles) in enumerate(SEXES)]
        forms = dict(zip(("he", "him", "his", "himself"), PRONOUNS[who]))
        forms.update(zip(("he2", "him2", "his2", "himself2"), PRONOUNS[1 - who]))
        return self.say(self.draw(PRONOUN_KINDS), N=people[who], M=people[1 - who], **forms)

    def more_copying(self):
        n = self.random.randint(2, 10)
        pool = self.random.choice(("word", "word", "word", "name", "invented", "digits", "letter"))
        items = []
        while len(items) < n:
            item = self.expand("{" + pool + "}", {"name": self.random.choice(self.all_names),
                                                  "word": self.random.choice(common_words())})
            if item not in items:
                items.append(item)
        between = self.draw(SEPARATORS)
        frames = COPYING_LINES if between == "\n" else COPYING_MORE
        text = self.random.choice(frames).replace("{list}", between.join(items))
        return self.say(text, N=self.random.choice(self.all_names))

    def sum_terms(self, n):
        """n numbers below ten, no two of which make a held-out sum, neither they nor what stands before one of them."""
        while True:
            terms = [self.random.randint(0, 9) for _ in range(n)]
            totals = [sum(terms[:i]) for i in range(1, n)]
            if not any(sum_held_out(a, b) for i, b in enumerate(terms) for a in terms[:i] + totals[:i]):
                return terms

    def more_sum(self):
        kind = self.draw(SUM_KINDS)
        if kind == "count":
            return self.count()
        if kind == "chain":
            terms = self.sum_terms(self.random.randint(3, 5))
            totals = [sum(terms[:i + 1]) for i in range(len(terms))]
            steps = [f"{totals[i]} + {terms[i + 1]} = {totals[i + 1]}" for i in range(len(terms) - 1) if totals[i] < 10]
            return ", ".join(steps) + "."
        a, b, d = self.sum_terms(3)
        numbers = {"a": a, "b": b, "c": a + b, "d": d, "e": a + b + d}
        frame = self.random.choice(SUM_MORE[kind])
        largest = a + b + d if "{d}" in frame else a + b
        in_words = not SIGN.search(frame) and largest < len(IN_WORDS) and self.random.random() < 0.5
        thing = self.random.choice(COUNTED)
        for slot, x in list(numbers.items()):
            numbers[slot] = IN_WORDS[x] if in_words and x <= largest else str(x)
            numbers[f"{slot}_things"] = f"{numbers[slot]} {thing if x == 1 else thing + 's'}"
        return self.say(frame, N=self.random.choice(self.all_names), **numbers)

    def count(self):
        """Some numbers up or down, by ones, twos or threes, without a step that is a held-out sum."""
        while True:
            step, n = self.random.choice((1, 1, 2, 3)), self.random.randint(3, 9)
            first = self.random.randint(0, 18)
            numbers = range(first, first + step * n, step)
            if numbers[-1] < 31 and not any(sum_held_out(x, step) for x in numbers[:-1]):
                break
        up = self.random.random() < 0.6
        in_words = numbers[-1] < len(IN_WORDS) and self.random.random() < 0.5
        written = [IN_WORDS[x] if in_words else str(x) for x in (numbers if up else reversed(numbers))]
        return self.say(self.random.choice(COUNTING), first=written[0], last=written[-1], way="up" if up else "down",
                        list=", ".join(written),
                        N=self.random.choice(self.all_names))

    def sentence(self, task):
        """A sentence of the training text, or the few that go together."""
        if self.random.random() < FROM_GRAMMAR.get(task, 0):
            return getattr(self, f"more_{task}")()
        prompt, _, answer, _, end = getattr(self, task)()
        return prompt + answer + end

    def document(self, task, n, tries=40):
        """Up to n sentences, no two with the same four words in a row: a model says again what its texts say again."""
        sentences, said = [], set()
        for _ in range(tries):
            words = re.findall(r"[\w']+", sentence := self.sentence(task))
            groups = {tuple(words[i:i + 4]) for i in range(len(words) - 3)}
            if said.isdisjoint(groups):
                sentences.append(sentence)
                said |= groups
            if len(sentences) == n:
                break
        return " ".join(sentences).replace("\n ", "\n").rstrip()


# And how much of the text each is: more where a small model is slow to learn it.
TASKS = {"ioi": 32, "greater": 4, "induction": 1, "pronoun": 7, "capital": 2, "agreement": 4, "closing": 1, "copying": 4,
         "sum": 8}


def write_text(path, n, seed, weights):
    """n documents of three to seven sentences, of one task each: so a story does not go over into sums."""
    writer = Writer(seed, False)
    draw = writer.random
    with open(path, "w", encoding="utf-8") as file:
        for i in range(n):
            task = draw.choices(list(weights), weights.values())[0]
            print((f"{END}\n" if i else "") + writer.document(task, draw.randint(3, 7)), file=file)


def pairs(task, n, seed):
    """Up to n lines of each split, none twice."""
    for held_out in (False, True):
        writer, seen = Writer(f"{seed}-{task}-{held_out}", held_out), set()
        for _ in range(50 * n):
            row = getattr(writer, task)()[:4]
            if row[2] != row[3] and row[0] != row[1] and row[0] not in seen:
                seen.add(row[0])
                yield (*row, "held-out" if held_out else "seen")
            if len(seen) == n:
                break


FIELDS = "clean", "corrupted", "answer", "wrong", "split"


def write_lines(path, lines):
    with open(f"{path}.tmp", "w", encoding="utf-8") as file:
        for line in lines:
            print(line, file=file)
    os.replace(f"{path}.tmp", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("text", "pairs"))
    parser.add_argument("-n", type=int, default=200, help="documents, or the most pairs of each task and split (200)")
    parser.add_argument("-o", "--output", required=True, help="a file for the text, a folder for pairs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--weights", nargs="+", default=[], metavar="TASK=N",
                        help="how much of the text a task is, beside the others' weights, as ioi=40 (TASKS)")
    args = parser.parse_args()
    weights = dict(TASKS)
    for given in args.weights:
        task, _, weight = given.partition("=")
        if task not in TASKS or not re.fullmatch(r"\d+", weight):
            parser.error("--weights takes TASK=N, where N is a whole number and TASK one of " + " ".join(TASKS))
        weights[task] = int(weight)
    if not any(weights.values()):
        parser.error("--weights leaves no task")
    output = pathlib.Path(args.output)
    if args.what == "text":
        write_text(f"{output}.tmp", args.n, args.seed, weights)
        os.replace(f"{output}.tmp", output)
        return
    output.mkdir(parents=True, exist_ok=True)
    for task in TASKS:
        rows = list(pairs(task, args.n, args.seed))
        write_lines(output / f"{task}.tsv", ("\t".join(row) for row in rows))
        write_lines(output / f"{task}.jsonl", (json.dumps(dict(zip(FIELDS, row)), ensure_ascii=False) for row in rows))


if __name__ == "__main__":
    main()
