#!/usr/bin/env python3
"""Sentences with a known next word: what the default model learns its classic circuits from, and what finds them.

    scripts/train/tasks.py text -n 20000 -o tasks.txt       # documents for corpus.py --extra
    scripts/train/tasks.py pairs -n 200 -o pairs            # a file of pairs for each task, pairs/ioi.tsv and so on

A pair is a line of five columns: clean, corrupted, answer, wrong, split. After the clean prompt `answer` comes next,
after the corrupted one, of as many words, it is `wrong` or open. Both are texts as they follow the prompt, with the
space before. In the split `seen` names and frames are those of the training text, though hardly ever together;
in `held-out` the frame never stands in it, nor do the names, words and syllables. (A country cannot be held out, a
bracket or a number: there only frames are, and five sums.)

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
import os
import pathlib
import random

END = "<|endoftext|>"
HELD_OUT = 5  # of names, words and invented syllables, one in so many is kept out of training

MEN = ("John Peter Tom James Robert William Charles George Henry Edward Richard David Michael Paul Mark Daniel Joseph "
       "Thomas Arthur Frank Jack Fred Ben Oscar Adam Sam Joe Bill Bob Philip Stephen Martin Walter Albert Andrew "
       "Anthony Roger Ralph Ivan Carl Oliver Matthew Nicholas").split()
WOMEN = ("Mary Anna Alice Elizabeth Jane Emma Sarah Susan Margaret Catherine Helen Ruth Rachel Maria Lucy Grace Emily "
         "Sophia Clara Laura Diana Martha Ellen Nancy Dorothy Amy Olga Isabel Anne Fanny Polly Molly Kitty").split()
PLACES = ("shop garden station market school park library bakery river church museum harbour farm theatre office beach "
          "hospital bridge kitchen castle").split()
THINGS = ("book key letter flower map cup basket coat ring pencil ticket lamp hat chair clock bag drum box knife "
          "picture").split()

# Names of the training text alone. A model that meets few names, or few frames, learns these and not the task.
MORE_NAMES = ("Aaron Abigail Ada Adrian Agnes Alan Alex Alexander Alfred Amelia Andrea Angela Angus Arnold Ashley Audrey "
              "Barbara Barry Beatrice Becky Bella Bernard Bertha Beth Betty Billy Blanche Boris Brenda Brian Bridget Bruce "
              "Bruno Calvin Carmen Carol Caroline Cecil Charlotte Chloe Chris Christine Christopher Clark Claude Claudia "
              "Clement Colin Connie Conrad Cora Craig Curtis Cynthia Daisy Daphne Dean Deborah Dennis Derek Dick Dominic "
              "Don Donald Doris Douglas Duncan Earl Edgar Edith Edmund Edwin Eileen Elena Eliza Elsa Elsie Eric Erica "
              "Ernest Esther Ethan Eugene Eva Eve Evelyn Faith Felix Ferdinand Flora Florence Francis Franklin Freda "
              "Gabriel Gary Geoffrey Gerald Gertrude Gilbert Gina Gloria Gordon Graham Gregory Greta Gus Guy Hannah Harold "
              "Harriet Harry Harvey Hazel Hector Heidi Herbert Herman Hilda Homer Horace Howard Hugh Hugo Ida Ian Igor "
              "Ingrid Irene Iris Irma Isaac Ivy Jacob Jake Janet Jason Jeff Jeremy Jerry Jessica Jim Jimmy Joan Joel "
              "Johanna Jonathan Josephine Joyce Judith Julia Julian Julie Karen Karl Kate Kathleen Keith Ken Kevin Kurt "
              "Larry Laurence Leah Leo Leon Leonard Leslie Lewis Lily Linda Lisa Liz Lois Lola Lorna Louis Louise Luke "
              "Lydia Mabel Madeleine Maggie Marcus Margery Marian Marie Marion Marjorie Marlene Marshall Matilda Maud "
              "Maurice Max May Melissa Meg Millie Minnie Miriam Mona Morris Muriel Naomi Natalie Ned Neil Nelly Nigel Nina "
              "Noah Nora Norman Olive Oswald Otto Owen Pamela Pat Patricia Patrick Pauline Pearl Peggy Percy Phil Phoebe "
              "Phyllis Quentin Ralf Ray Raymond Rebecca Reginald Rita Robin Roland Ron Rosa Rosalind Rose Rosemary Roy "
              "Rudolf Rupert Russell Sally Samuel Sandra Sara Sidney Silvia Simon Solomon Sonia Stanley Stella Steve "
              "Stuart Sue Sylvia Ted Teresa Terry Theodore Tim Timothy Toby Tony Tracy Ursula Valerie Vera Vernon Veronica "
              "Victor Victoria Vincent Viola Violet Virginia Vivian Wallace Wanda Warren Wendy Wilfred Will Winifred "
              "Yvonne Zoe").split()

IOI_BEGINNINGS = [  # A: who gets it, B: who gives it
    "When {A} and {B} went to the {place},", "Then {A} and {B} walked to the {place}.",
    "{A} and {B} were working at the {place}.", "After {A} and {B} had come back from the {place},",
    "While {A} and {B} were waiting at the {place},", "{A} and {B} met at the {place}.",
    "Friends of {A} and {B} came to the {place}.", "{A} and {B} had a long talk at the {place}, and in the end",
    "{A} went to the {place} with {B}. There", "One day {A} met {B} at the {place}, and",
    "{A} and {B} lived near the {place}. In spring", "Because {A} and {B} were friends,",
    "{A} and {B} came home late from the {place}, but", "In the morning {A} and {B} opened the {place}.",
    "{A} was glad to see {B} at the {place}.", "{A} had invited {B} to the {place}, so",
    "Behind the {place} {A} found {B}, and at once", "On Sunday {A} and {B} cleaned the {place}.",
    "{A} and {B} went for a walk.", "{A} and {B} had an argument near the {place}, and afterwards",
    "Before {A} and {B} left the {place},", "Since {A} and {B} had known each other for years,",
    "{A} and {B} looked out of the window of the {place}.", "It rained, and {A} and {B} stayed at the {place}, where",
    "{A} could not find the way, but then {B} came.", "There were two guests, {A} and {B}.",
    "{A} asked {B} for help.", "{A} and {B} sang a song at the {place}, and then",
]
IOI_ENDINGS = [  # before A
    "{B} gave a {thing} to", "{B} handed a {thing} to", "{B} decided to give a {thing} to", "{B} passed a {thing} to",
    "{B} bought a {thing} for", "{B} had brought a {thing} and showed it to", "{B} offered a {thing} to",
    "{B} sold a {thing} to", "{B} threw a {thing} to", "{B} sent a {thing} to", "{B} brought a {thing} for",
    "{B} gave the old {thing} to", "{B} wanted to give the {thing} back to", "{B} said nothing to", "{B} told a story to",
    "{B} wrote a letter to", "{B} said goodbye to", "{B} read a book to", "{B} found a {thing} and took it to",
    "{B} made a {thing} for", "{B} played the piano for", "{B} promised a {thing} to", "{B} spoke to", "{B} waved to",
    "{B} explained everything to", "{B} paid ten coins to", "{B} opened the door for", "{B} left a {thing} for",
]
IOI = [f"{beginning} {ending}" for beginning in IOI_BEGINNINGS for ending in IOI_ENDINGS]
IOI_HELD_OUT = [
    "Yesterday {A} and {B} stood at the {place}, where {B} lent a {thing} to",
    "As soon as {A} and {B} had reached the {place}, {B} gave the {thing} to",
    "{A} and {B} sat down near the {place}. After a while {B} handed the {thing} to",
]

GREATER = ["The {noun} lasted from the year {a} to the year {century}",
           "The {noun} began in {a} and ended in {century}",
           "The {noun} of {a} came to an end in {century}", "They built it from {a} until {century}",
           "He was mayor from {a} to {century}", "The years of the {noun} are {a} to {century}",
           "They lived here from {a} until {century}"]
GREATER_HELD_OUT = ["The {noun} went on from the year {a} until the year {century}",
                    "Somebody who was born in {a} died in {century}"]
CENTURIES = ("15", "16", "17", "18", "19")  # " 18" and " 19" grow together with a digit in the default vocabulary
NOUNS = "war siege journey reign strike peace drought trial plan quarrel".split()
NOUNS_HELD_OUT = "voyage project dispute".split()

SYLLABLES = ("bar bel bor dal den dor fen fil gan gor hal hem jor kal kel kim lan lor lum mar mel mir nal nem nor pel "
             "pol ran rel rim sal sol tam tel tor val ven vor wil zan zel zor").split()
INDUCTION = ["{x} lived alone in a house by the sea. Nobody knew {x} well, but the children liked",
             "A letter came for {x}. It was the third letter this week, and again it was for",
             "They called the ship {x}. On its last journey the",
             "In the old story a giant named {x} guards a bridge. Whoever wants to cross must first ask",
             "Somebody called {x} sings at six in the morning. Nobody is as loud as",
             "First came {x}, then came the others, and at the end of the day they all thanked"]
INDUCTION_HELD_OUT = ["The king sent for {x}. After three days the soldiers came back without",
                      "On the door stood the name {x}. We knocked and asked for"]

PRONOUN = ["{N} was late because {p}", "{N} lost the {thing}, but {p}", "When {N} came home, {p}",
           "{N} said that {p}", "{N} bought a {thing} because {p}", "{N} opened the door, and then {p}",
           "{N} did not answer, for {p}", "{N} sat down by the window, for {p}"]
PRONOUN_HELD_OUT = ["{N} left the {place} early since {p}", "As {N} knew the way, {p}"]
AFTER_PRONOUN = ["was tired.", "had to wait.", "found it again.", "was happy.", "wanted to help.", "had no time.",
                 "liked it.", "went to the {place}.", "was hungry.", "had seen it before."]

CAPITALS = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Germany": "Berlin", "England": "London",
            "Portugal": "Lisbon", "Greece": "Athens", "Poland": "Warsaw", "Austria": "Vienna", "Hungary": "Budapest",
            "Russia": "Moscow", "Japan": "Tokyo", "China": "Beijing", "Egypt": "Cairo", "Norway": "Oslo",
            "Sweden": "Stockholm", "Denmark": "Copenhagen", "Ireland": "Dublin", "Scotland": "Edinburgh",
            "Belgium": "Brussels", "Canada": "Ottawa", "Cuba": "Havana", "Peru": "Lima", "Kenya": "Nairobi",
            "Switzerland": "Bern", "Turkey": "Ankara", "Finland": "Helsinki", "Mexico": "Mexico City"}
CAPITAL = ["The capital of {c} is", "{c} is a country, and its capital is", "The government of {c} sits in",
           "Question: What is the capital of {c}? Answer:", "If you travel to the capital of {c}, you come to",
           "He came from {c} and was born in its capital,", "Of all the cities in {c}, the capital is"]
CAPITAL_HELD_OUT = ["Every child in {c} knows that the capital of the country is", "The capital city of {c} is called"]

SUBJECTS = {"key": "keys", "dog": "dogs", "house": "houses", "letter": "letters", "boy": "boys", "tree": "trees",
            "ship": "ships", "bird": "birds", "road": "roads", "teacher": "teachers", "window": "windows",
            "picture": "pictures", "horse": "horses", "box": "boxes", "story": "stories"}
CLAUSES = ["that the {man} bought", "near the {place}", "with the name of the {man}", "behind the {men}",
           "which the {men} like", "from the {place}", "that we saw with the {men}", "of the {man}"]
CLAUSES_HELD_OUT = ["which the {man} has shown to the {men}", "on the way to the {place}"]
SINGLE = "man woman farmer doctor child king sailor nurse".split()
SEVERAL = "men women farmers doctors children kings sailors nurses".split()
ADJECTIVES = "old new small large beautiful white black famous".split()

WORDS = ("red blue green bread milk salt iron gold silver stone wood glass rain snow wind fire water earth tea coffee "
         "rice meat fish fruit corn wool silk paper ink oil north south east west spring summer autumn winter one two "
         "three four five six seven eight nine ten").split()
CLOSING = [("The {w} box ({a} and {b}", ")"), ("They sold many things ({a}, {b}, {c}", ")"),
           ("The list is [{a}, {b}, {c}", "]"), ("x = [{a}, {b}", "]"), ("He needed ({a} or {b}", ")"),
           ("a = ({a}, {b}, {c}", ")"), ("The second list [{a}, {b}", "]")]
CLOSING_HELD_OUT = [("We found the rest ({a}, {b}", ")"), ("The table shows [{a}, {b}", "]")]
COPYING = ["{list}. Again: {again}", "She wrote {list}. Then she wrote once more {again}", "Say {list}. Now say {again}",
           "The words are {list}. I repeat: {again}", "First {list}; and then {again}"]
COPYING_HELD_OUT = ["He read {list}, and his friend read {again}", "The song goes {list}. Sing it: {again}"]
NUMBERS = "zero one two three four five six seven eight nine".split()
SUM = ["{a} + {b} =", "{A} and {b2} make", "If you add {a} and {b}, you get", "What is {a} plus {b}? It is"]
SUM_HELD_OUT = ["The sum of {a} and {b} is", "{A} plus {b2} is"]
IN_WORDS = NUMBERS + "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen".split()


def kept(items, held_out):
    """One in HELD_OUT of the items, or the others."""
    return [item for i, item in enumerate(items) if (i % HELD_OUT == HELD_OUT - 1) == held_out]


def sum_held_out(a, b):
    """5 + 0 to 9 + 4; the same two numbers the other way round are in the training text."""
    return a - b == 5


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

    def sentence(self, task):
        prompt, _, answer, _, end = getattr(self, task)()
        return prompt + answer + end


# And how much of the text each is: more where a small model is slow to learn it.
TASKS = {"ioi": 32, "greater": 4, "induction": 1, "pronoun": 4, "capital": 2, "agreement": 4, "closing": 1, "copying": 1,
         "sum": 6}


def write_text(path, n, seed):
    """n documents of three to seven sentences, of one task each: so a story does not go over into sums."""
    writer = Writer(seed, False)
    draw = writer.random
    with open(path, "w", encoding="utf-8") as file:
        for i in range(n):
            task = draw.choices(list(TASKS), TASKS.values())[0]
            sentences = [writer.sentence(task) for _ in range(draw.randint(3, 7))]
            print((f"{END}\n" if i else "") + " ".join(sentences), file=file)


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("text", "pairs"))
    parser.add_argument("-n", type=int, default=200, help="documents, or the most pairs of each task and split (200)")
    parser.add_argument("-o", "--output", required=True, help="a file for the text, a folder for pairs")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    output = pathlib.Path(args.output)
    if args.what == "text":
        write_text(f"{output}.tmp", args.n, args.seed)
        os.replace(f"{output}.tmp", output)
        return
    output.mkdir(parents=True, exist_ok=True)
    for task in TASKS:
        with open(output / f"{task}.tmp", "w", encoding="utf-8") as file:
            for row in pairs(task, args.n, args.seed):
                print(*row, sep="\t", file=file)
        os.replace(output / f"{task}.tmp", output / f"{task}.tsv")


if __name__ == "__main__":
    main()
