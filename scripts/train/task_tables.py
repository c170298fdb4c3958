"""The words, frames and grammar of tasks.py, and how these tables are written."""
import re

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
MORE_MEN = ("Aaron Adrian Alan Alexander Alfred Angus Arnold Barry Bernard Billy Boris Brian Bruce Bruno Calvin "
            "Cecil Christopher Clark Claude Clement Colin Conrad Craig Curtis Dean Dennis Derek Dick Dominic Don "
            "Donald Douglas Duncan Earl Edgar Edmund Edwin Eric Ernest Ethan Eugene Felix Ferdinand Francis "
            "Franklin Gabriel Gary Geoffrey Gerald Gilbert Gordon Graham Gregory Gus Guy Harold Harry Harvey "
            "Hector Herbert Herman Homer Horace Howard Hugh Hugo Ian Igor Isaac Jacob Jake Jason Jeff Jeremy "
            "Jerry Jim Jimmy Joel Jonathan Julian Karl Keith Ken Kevin Kurt Larry Laurence Leo Leon Leonard Lewis "
            "Louis Luke Marcus Marshall Maurice Max Morris Ned Neil Nigel Noah Norman Oswald Otto Owen Patrick "
            "Percy Phil Quentin Ralf Ray Raymond Reginald Roland Ron Roy Rudolf Rupert Russell Samuel Sidney "
            "Simon Solomon Stanley Steve Stuart Ted Theodore Tim Timothy Toby Tony Vernon Victor Vincent Wallace "
            "Warren Wilfred Will").split()
MORE_WOMEN = ("Abigail Ada Agnes Amelia Andrea Angela Audrey Barbara Beatrice Becky Bella Bertha Beth Betty Blanche "
              "Brenda Bridget Carmen Carol Caroline Charlotte Chloe Christine Claudia Connie Cora Cynthia Daisy "
              "Daphne Deborah Doris Edith Eileen Elena Eliza Elsa Elsie Erica Esther Eva Eve Faith Flora Florence "
              "Freda Gertrude Gina Gloria Greta Hannah Harriet Hazel Heidi Hilda Ida Ingrid Irene Iris Irma Ivy "
              "Janet Jessica Joan Johanna Josephine Joyce Judith Julia Julie Karen Kate Kathleen Leah Lily Linda "
              "Lisa Liz Lois Lola Lorna Louise Lydia Mabel Madeleine Maggie Margery Marian Marie Marjorie Marlene "
              "Matilda Maud May Melissa Meg Millie Minnie Miriam Mona Muriel Naomi Natalie Nelly Nina Nora Olive "
              "Pamela Patricia Pauline Pearl Peggy Phoebe Phyllis Rebecca Rita Rosa Rosalind Rose Rosemary Sally "
              "Sandra Sara Silvia Sonia Stella Sue Sylvia Teresa Tracy Ursula Valerie Vera Veronica Victoria Viola "
              "Violet Virginia Wanda Wendy Winifred Yvonne Zoe").split()
EITHER = ("Alex Ashley Chris Evelyn Leslie Marion Pat Robin Terry Vivian").split()
MORE_NAMES = MORE_MEN + MORE_WOMEN + EITHER
# Further persons of the grammar's sentences: names of one token, as most of the held-out ones are.
SURNAMES = ("Adams Andrews Bell Bennett Black Brown Bunting Camp Child Clay Collins Cooper Cross Field Foster Gibson "
            "Grant Gray Green Hall Harding Hart Hill Holmes Hughes Jackson Jenkins Jones King Knight Kramer "
            "Lawson Lee Levin Long Mason Mill Moore Murphy Napoleon Newton Palmer Parker Penn Peters Porter Prince "
            "Reed Rock Ross Sanders Scott Scrooge Shaw Smith Spencer Street Taylor Thorne Turner Wade Walker "
            "Washington Webster White Wilson Winter Wolf Wood Wright York Young").split()
FROM_BOOKS = ("Alessandro Alyosha Anton Arabella Aramis Bert Bertie Carrie Cornelia Cranly Dan Dave Dora Eleanor "
              "Georgia Gil Gumbril Jean Joanna Jon Jose Jurgen Katharine Kearney Mac Maskull Matt Morel "
              "Nan Natasha Nick Nik Orme Peggotty Pencroft Pierre Ramona Raj Rod Stan Steven Tarzan Tess "
              "Tommy").split()

IOI_BEGINNINGS = [  # A: who gets it, B: who gives it
    "When {A} and {B} went to the {place},", "Then {A} and {B} walked to the {place}.",
    "{A} and {B} were working at the {place}.", "After {A} and {B} had come back from the {place},",
    "While {A} and {B} were waiting at the {place},", "{A} and {B} met at the {place}.",
    "Friends of {A} and {B} came to the {place}.", "{A} and {B} had a long talk at the {place}, and in the end",
    "{A} went to the {place} with {B}. There", "One day {A} met {B} at the {place}, and",
    "{A} and {B} lived near the {place}. In summer", "Because {A} and {B} were friends,",
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
    """5 + 0 to 9 + 4, and the same two numbers the other way round."""
    return abs(a - b) == 5


def lines(text):
    return [line.strip() for line in text.strip().splitlines()]


def weighted(text):
    """Lines that begin with their weight."""
    return {template: int(weight) for weight, template in (line.split(" ", 1) for line in lines(text))}


def phrases(text):
    return [phrase.strip() for phrase in text.split(",")]


def verbs(text):
    """Each phrase with its verb, the first word, in three forms: `nod to` becomes `[nodded|nods|nod] to`."""
    def forms(verb):
        if "|" in verb:
            return verb
        stem = verb[:-1] + "i" if verb.endswith("y") and verb[-2] not in "aeiou" else verb
        past = stem + ("d" if stem.endswith("e") else "ed")
        return f"{past}|{stem}{'es' if stem != verb or verb.endswith(('ch', 'sh', 'ss')) else 's'}|{verb}"

    parted = [phrase.partition(" ") for phrase in phrases(text)]
    return [f"[{forms(verb)}]{space}{rest}" for verb, space, rest in parted]


# Composed for the training text alone. A {slot} stands for one entry of the table of that name, with slots in
# turn. [was|is] gives the past and the present: a sentence has one tense. A verb with a third form, [gave|gives|give],
# takes this form where the sentence has a ~, which stands before an infinitive, and in the present where it has a &,
# before the verb of several persons. A sentence begins with a capital, and "a" becomes "an", without the tables' help.
SLOT, CHOICE = re.compile(r"\{(\w+)\}"), re.compile(r"\[([^\]]+)\]")
ARTICLE, SENTENCE = re.compile(r"\b([Aa])(?= [aeiou])"), re.compile(r'(^|[.?!] |\." )([a-z])')

# In templates of ioi: A gets something, B gives it; X and Y are both, in any order. C is a third person, and U, V and W
# are all three in any order. What the circuit needs is that A is the one whom the clause has not named yet.
MORE_PLACES = phrases("hotel, inn, factory, mill, lake, fountain, playground, airport, gate, cinema, post office, "
                      "pharmacy, bakery, zoo, gallery, palace, temple, courtyard, stadium, tavern, stable, barn, "
                      "cellar, cottage, bank")
PREPOSITIONS = {"in": "garden park library church museum theatre office hospital kitchen castle hotel cinema gallery "
                      "palace temple courtyard stable barn cellar cottage zoo stadium tavern".split(),
                "on": "beach bridge farm playground".split()}
GRAMMAR = {
    "place": PLACES + MORE_PLACES,
    "thing": THINGS + "spoon blanket candle rope shirt newspaper sandwich bottle plate mirror comb bucket hammer "
                      "brush needle watch shawl scarf umbrella apple cake doll ball kite whistle violin envelope "
                      "stamp postcard notebook ribbon toy pillow towel parcel photograph flute jar pot pan "
                      "fork belt".split(),
    "quality": "small new old little large beautiful strange red blue green black white brown yellow cheap fine "
               "lovely nice pretty clean plain good".split(),
    "plenty": phrases("some bread, some money, some water, some paper, some fruit, some cheese, some soup, some "
                      "honey, some tea, a cup of tea, a glass of water, a bowl of soup, a piece of cake, a bag of "
                      "nuts, a basket of apples, a box of nails, a bunch of flowers, a pair of shoes, three coins, "
                      "four apples, five eggs, six candles, ten stamps, many flowers, all the letters, both keys, "
                      "half of the bread, the rest of the money"),
    # Who
    "person": ["{name}", "{Word}", "{Word}", "{Syllable}{syllable}", "the {being}", "{title} {surname}"],
    "syllable": kept(SYLLABLES, False), "Syllable": [syllable.capitalize() for syllable in kept(SYLLABLES, False)],
    "title": "Mr Mrs Miss Doctor Captain".split(),
    "surname": SURNAMES,
    "being": "king queen doctor nurse farmer sailor cook baker painter singer gardener miller fisherman lawyer judge "
             "butcher prince princess priest general tailor carpenter driver grandmother guest neighbour "
             "captain".split(),
    # When and where
    "time": phrases("one day, one morning, one evening, in the morning, in the evening, in the afternoon, on Monday, "
                    "on Tuesday, on Wednesday, on Thursday, on Friday, on Saturday, on Sunday, at noon, at night, at "
                    "six o'clock, in summer, in winter, in autumn, in March, [last summer|this summer], [last "
                    "week|this week], [that day|today], [that night|tonight], after dinner, before breakfast, after "
                    "school, after work"),
    "at": phrases("{in_place}, {in_place}, {in_place}, near the {place}, close to the {place}, not far from the "
                  "{place}"),
    "later": phrases("before lunch, after lunch, in the evening, the next day, the next morning, on the way home, "
                     "near the door, after work, at once, on Sunday, on Monday, at night, before dark, in the hall, "
                     "under a tree, by the fire"),
    # Several persons do these
    "go": phrases(
        "[went|go] to the {place}, [walked|walk] to the {place}, [drove|drive] to the {place}, [ran|run] to the "
        "{place}, [came|come] to the {place}, [hurried|hurry] to the {place}, [met|meet] {in_place}, [worked|work] "
        "{in_place}, [waited|wait] {in_place}, [stayed|stay] {in_place}, [arrived|arrive] {in_place}, [danced|dance] "
        "{in_place}, [were|are] {at}, [lived|live] near the {place}, [got|get] lost {at}, [hid|hide] {in_place}, "
        "[cleaned|clean] the {place}, [visited|visit] the {place}, [drew|draw] the {place}, [quarrelled|quarrel] "
        "{in_place}, [sold|sell] flowers {in_place}, [looked|look] at the {place}, [talked|talk] {in_place}, "
        "[rested|rest] {at}, [played|play] cards, [went|go] for a walk, [came|come] home, [sat|sit] by the fire, "
        "[came|come] back from the {place}, [made|make] plans, [travelled|travel] together, [took|take] the same "
        "train"),
    "doing": phrases("working, waiting, talking, playing cards, drinking tea, eating soup, having a rest, cleaning "
                     "the windows, painting the wall, looking for a {other}, reading the newspaper, singing, "
                     "resting, quarrelling, laughing, counting the chairs, learning French, playing chess, waiting "
                     "for a friend, selling flowers, looking around"),
    "busy": ["{doing}"] * 6 + phrases("washing the dishes, cooking dinner, watching the rain, watching the birds, "
                                      "packing, sitting under a tree, waiting for the train, planting trees, "
                                      "crossing the street"),
    "done": phrases("come home, come back from the {place}, closed the windows, finished the work, eaten breakfast, "
                    "eaten, talked for an hour, walked through the rain, locked the door of the {place}, heard the "
                    "news, seen the {place}, left the {place}, found the {place}, got up, washed the dishes, read "
                    "the letter, paid for the tickets, crossed the street, said goodbye to the others, cleaned the "
                    "{place}"),
    "state": "tired hungry thirsty happy sad angry ill cold late busy bored ready afraid "
             "surprised awake nervous cheerful".split(),
    "fault": "tired busy shy proud lazy angry young old poor".split(),
    "relation": phrases("friends, old friends, good friends, neighbours, cousins, partners, strangers, rivals"),
    "several": "people guests friends visitors travellers neighbours workers singers pupils cooks players".split(),
    "and": phrases("and, and, and then, and soon, and later, and at once, and after a moment, and before long, so, "
                   "but, but then"),
    # X and Y are named, in a clause that waits for another, or in a sentence of their own
    "clause": lines("""
        when {X} and {Y} {go},
        when {X} and {Y} {go},
        {time}, when {X} and {Y} {go},
        {time} when {X} and {Y} [were|are] {doing} {at},
        while {X} and {Y} [were|are] {busy},
        while {X} and {Y} [were|are] {doing} {at},
        while {X} [was|is] {doing} with {Y} {at},
        after {X} and {Y} [had|have] {done},
        after {X} and {Y} [had|have] {done},
        after {X} [had|has] met {Y} {at},
        once {X} and {Y} [had|have] {done},
        before {X} and {Y} [left|leave] the {place},
        before {X} and {Y} [went|go] home,
        because {X} and {Y} [were|are] {relation},
        because {X} and {Y} [were|are] {state},
        since {X} and {Y} [had|have] {done},
        although {X} and {Y} [were|are] {state},
        although {X} [did|does] not know {Y} well,
        instead of {busy}, {X} and {Y} {go}, {and}
        {X} and {Y} {go}, {and}
        {X} and {Y} {go}, {and}
        {time} {X} and {Y} {go}, {and}
        {X} and {Y} [were|are] {doing} {at} when
        {X} and {Y} [were|are] {doing} {at}, {and}
        {X} {meet} {Y} {at}, {and}
        {time} {X} {meet} {Y} {at}, {and}
        {X}, who [was|is] {state}, {meet} {Y}, {and}
        {X} [was|is] {doing} {at} with {Y}, {and}
        {X} [had|has] invited {Y} to the {place}, {and}
        {X} [went|goes] to the {place} with {Y}, {and}
        it [was|is] {weather}, and while {X} and {Y} [were|are] {doing},
        it [was|is] {weather} when {X} and {Y} {go}, {and}
        {X} and {Y} [were|are] {relation}, {and}
        """),
    "meet": phrases("[met|meets], [met|meets], [saw|sees], [found|finds], [visited|visits], [recognised|recognises], "
                    "[joined|joins], [waited|waits] for, [noticed|notices], [ran|runs] into, [talked|talks] to, "
                    "[sat|sits] with"),
    "scene": lines("""
        {X} and {Y} {go}.
        {X} and {Y} {go}.
        {time} {X} and {Y} {go}.
        {time}, {X} and {Y} {go}.
        {X} and {Y} [were|are] {doing} {at}.
        {time} {X} and {Y} [were|are] {busy}.
        {X} and {Y} [had|have] {done}.
        {X} and {Y} [were|are] {relation}.
        {X} and {Y} [were|are] {state}.
        {X} {meet} {Y} {at}.
        {time} {X} {meet} {Y} {at}.
        {X} {meet} {Y}, who [was|is] {state}.
        {X}, who [was|is] {state}, {meet} {Y} {at}.
        {X}, who [lived|lives] near the {place}, [was|is] a friend of {Y}.
        {X}'s best friend [was|is] {Y}.
        {X}'s neighbour [was|is] {Y}.
        the house near the {place} [belonged|belongs] to {X} and {Y}.
        there [were|are] two {several} {at}, {X} and {Y}.
        nobody [was|is] {in_place} but {X} and {Y}.
        we [saw|see] {X} and {Y} {at}.
        I often [thought|think] of {X} and {Y}.
        this is a tale about {X} and {Y}.
        do you remember {X} and {Y}?
        everybody [had|has] gone home, only {X} and {Y} [were|are] still {doing}.
        {X} [was|is] {busy} with {Y}.
        {X} [was|is] {state}, and {Y} [was|is] {state}.
        {X} [was|is] older than {Y}.
        {X} [was|is] {busy}. {Y} [was|is] there, too.
        {X} [came|comes] to the {place}. {Y} [was|is] already there.
        {X} [came|comes] to the {place}, and {Y} [came|comes], too.
        first {X} [came|comes] to the {place}, and then {Y}.
        {X} [arrived|arrives] {time}. {Y} [arrived|arrives] an hour later.
        {X} [lived|lives] near the {place}. {Y} [lived|lives] next door.
        {X} [sat|sits] on the left and {Y} on the right.
        {X} [opened|opens] the door, and {Y} [came|comes] in.
        the door [opened|opens]. {X} [came|comes] in with {Y}.
        {X} [had|has] invited {Y} to the {place}.
        {X} [went|goes] to the {place} with {Y}.
        the road to the {place} [was|is] long. {X} and {Y} [were|are] {state}.
        "{speech}," {X} [said|says] to {Y}.
        "{question}?" {X} [asked|asks] {Y}.
        "{speech}," [said|says] {X}. "{speech}," [answered|answers] {Y}.
        {X} and {Y} [had|have] a house near the {place}.
        it [was|is] {weather}, and {X} and {Y} {go}.
        because it [was|is] {weather}, {X} and {Y} {go}.
        while it [rained|rains], {X} and {Y} {go}.
        """),
    "speech": phrases("Good morning, Good evening, It is late, What a beautiful day, I am hungry, I have no time, "
                      "The train is late, Nobody is here, We must go home, I know this place, It is cold, I am glad "
                      "to see you, Nothing is lost, The shop is closed, Somebody is coming, I have heard the news, "
                      "Dinner is ready"),
    "question": phrases("Where are the others, Is it late, Are you hungry, What is that, Do you hear that, Who is "
                        "coming, Is the {place} open, Where is the {thing}, What time is it, Is dinner ready, Have "
                        "you seen the {other}"),
    # Between them, about something else or about one of them
    "weather": phrases("cold, very cold, warm, hot, getting dark, raining, snowing, late, early, quiet, a fine day, "
                       "a holiday, a long day, windy, dark, still dark, nearly noon"),
    "setting": lines("""
        it [was|is] {weather}.
        it [was|is] {weather}.
        the {spot} [was|is] {condition}.
        the {spot} [was|is] {condition}.
        the {spot} [was|is] {condition}, and it [was|is] {weather}.
        there [was|is] a {other} on the table.
        there [was|is] nothing to eat.
        a {passer} [went|goes] past.
        outside, a dog [barked|barks].
        the birds [sang|sing].
        nobody [said|says] a word.
        the clock [struck|strikes] {hour}.
        everything [was|is] ready.
        """),
    "middle": ["{setting}"] * 12 + lines("""
        both [were|are] {state}.
        they [talked|talk] about {topic}.
        they [did|do] not talk much.
        they [had|have] known each other for years.
        {A} [was|is] {state}.
        {B} [was|is] {state}.
        {A} [liked|likes] {topic}.
        {B} [liked|likes] {topic}.
        {A} [needed|needs] a {thing}.
        {B} [had|has] a {thing}.
        {B} [opened|opens] the window.
        {A} [closed|closes] the window.
        {A} [looked|looks] out of the window.
        {B} [had|has] found a {thing} {at}.
        """),
    "spot": "street room house yard hall road kitchen place".split(),
    "condition": phrases("empty, dark, quiet, cold, clean, full of people, full of children, almost empty, wet, very "
                         "small"),
    "passer": "postman stranger policeman tourist soldier waiter cat horse bus".split(),
    "hour": "three four five six eight nine ten".split(),
    "topic": phrases("the weather, the old days, the war, music, the harvest, flowers, the sea, the news, the town, "
                     "old books, horses, the journey, the holidays, the price of bread, history"),
    # B does something, and A is named at last
    "lead": [""] * 8 + [lead + " " for lead in phrases(
        "then, then, soon, at last, finally, there, suddenly, in the end, after dinner, an hour later, later, so, "
        "still, at that moment, without a word, a little later, before dark, {time}, once more, for "
        "once")],
    "how": [""] * 6 + [how + " " for how in "quickly kindly gladly politely quietly happily immediately also simply "
                                            "proudly".split()],
    "will": phrases("[wanted|wants] to, [decided|decides] to, [tried|tries] to, [began|begins] to, [forgot|forgets] "
                    "to, [was|is] going to, [had|has] to, [hoped|hopes] to, [was|is] about to, [got|gets] up to, "
                    "[stopped|stops] to, [was|is] too {fault} to, [was|is] happy to, [did|does] not, [could "
                    "not|cannot], [would|will], [came|comes] back to, [was|is] ready to, [liked|likes] to, [had|has] "
                    "no time to, [was|is] told to"),
    "deed": lines("""
        {B} {how}{gift} {A}{thanks}
        {B} {how}{gift} {A}{thanks}
        {B} {how}{gift} {A}{end}
        {B} {how}{turn} {A}{end}
        {B} {how}{turn} {A}{end}
        {B} {will} ~{gift} {A}{end}
        {B} {will} ~{turn} {A}{end}
        {B} {bearing} {A}{end}
        {B} [had|has] {single} for {A}{thanks}
        """),
    "act": ["{gift}", "{gift}", "{turn}", "{turn}", "{turn}", "{bearing}"],
    "object": phrases("a {thing}, a {thing}, the {thing}, the {thing}, a {quality} {thing}, a {quality} {thing}, the "
                      "{quality} {thing}, the {quality} {thing}, {plenty}, a {thing} and a {other}, another {thing}"),
    "single": phrases("a {thing}, the {thing}, a {quality} {thing}, the {quality} {thing}"),
    "gift": ["{give} {object} to"] * 5 + ["{provide} {object} for"] * 3 + lines("""
        [took|takes|take] {single} {from} and [gave|gives|give] it to
        [took|takes|take] {single} {from} and [handed|hands|hand] it to
        [found|finds|find] {single} and [took|takes|take] it to
        [bought|buys|buy] {single} and [sent|sends|send] it to
        [fetched|fetches|fetch] {single} and [showed|shows|show] it to
        [gave|gives|give] {object} back to
        """),
    "from": phrases("out of a bag, from the table, from the shelf, out of a box, from the floor, out of the cupboard"),
    "give": verbs("gave|gives|give, gave|gives|give, hand, pass, showed|shows|show, sent|sends|send, offer, "
                  "lent|lends|lend, brought|brings|bring, sold|sells|sell, threw|throws|throw, return, carry, "
                  "took|takes|take, promise, present, deliver, push, left|leaves|leave, mention, describe"),
    "provide": verbs("bought|buys|buy, found|finds|find, kept|keeps|keep, fetch, chose|chooses|choose, order, "
                     "got|gets|get, left|leaves|leave, brought|brings|bring, look for, pick up, carry"),
    "turn": verbs("spoke|speaks|speak to, said|says|say hello to, said|says|say goodbye to, said|says|say good night "
                  "to, said|says|say nothing to, wave to, nodded|nods|nod to, listen to, talk to, wrote|writes|write "
                  "to, wrote|writes|write a letter to, wrote|writes|write a long letter to, told|tells|tell a joke "
                  "to, told|tells|tell the truth to, explain everything to, explain the rules to, read|reads|read a "
                  "poem to, read|reads|read the letter to, whisper something to, turn to, apologise to, "
                  "came|comes|come over to, ran|runs|run to, move closer to, paid|pays|pay ten coins to, "
                  "showed|shows|show the house to, sent|sends|send a message to, sent|sends|send a postcard to, "
                  "complain to, made|makes|make tea for, cook dinner for, bake a cake for, open the door for, wait "
                  "for, look for, sang|sings|sing for, play the violin for, play the piano for, call for, "
                  "cut|cuts|cut some bread for, lit|lights|light a candle for, paid|pays|pay for, carry the bags "
                  "for, held|holds|hold the ladder for, kept|keeps|keep a seat for, clean the room for, smile at, "
                  "look at, laugh at, shout at, point at, stare at, dance with, argue with, agree with, play chess "
                  "with, shook|shakes|shake hands with, went|goes|go home with, share the bread with, sat|sits|sit "
                  "down beside, walk beside, learn a lot from, heard|hears|hear the news from, bought|buys|buy a "
                  "{thing} from, got|gets|get a {thing} from, took|takes|take a picture of, talk about, thank, help, "
                  "answer, follow, praise, watch, hugged|hugs|hug, kiss, invite, interrupt, warn, believe, "
                  "understood|understands|understand, forgave|forgives|forgive, greet, woke|wakes|wake, ask, call, "
                  "stopped|stops|stop, tease, recognise"),
    "bearing": verbs("was|is|be kind to, was|is|be rude to, was|is|be proud of, was|is|be afraid of, was|is|be angry "
                     "with, was|is|be happy with, was|is|be sorry for, thought|thinks|think of, had|has|have a "
                     "letter from, had|has|have dinner with, had|has|have a long talk with, had|has|have a message "
                     "for"),
    "end": [".", ".", ".", " {later}.", " {later}."] + lines("""
        , and that [was|is] all.
        . then they [went|go] home.
        . it [was|is] {weather}.
        . nobody [saw|sees] it.
        . the {spot} [was|is] {condition}.
        . {A} [smiled|smiles] at {B}.
        . {A} [looked|looks] at {B}.
        , and {A} [nodded|nods] to {B}.
        . {A} [was|is] {state}.
        . then it [was|is] time to go.
        """),
    "thanks": [".", " {later}."] + lines("""
        , and {A} [thanked|thanks] {B}.
        , and {A} [thanked|thanks] {B} {later}.
        , who [thanked|thanks] {B}.
        . {A} [thanked|thanks] {B}.
        . {A} [smiled|smiles] at {B}.
        . {A} [was|is] glad and [thanked|thanks] {B}.
        , and {A} [said|says] thank you to {B}.
        . "Thank you," {A} [said|says] to {B}.
        . then {A} [shook|shakes] hands with {B}.
        . {A} [had|has] a {other} for {B}.
        . "How kind," [said|says] {A}.
        """),
    # One does something to the other, and the other to the one
    "link": ["."] + lines("""
        , and
        , and
        , but
        , and then
        , and later
        , and soon
        , before
        ;
        . then
        . in return
        . in the end
        . at the same time
        . {next}
        . {next}
        """),
    "next": phrases("the next day, a week later, in the evening, on Monday, soon, an hour later, after dinner, in "
                    "summer"),
    "answer": lines("""
        {A} [asked|asks] {B} for a {thing}, and {B} [gave|gives] it to {A}{thanks}
        {A} [asked|asks] {B} for a {thing}. {B} [had|has] none, so {B} [gave|gives] a {other} to {A}{thanks}
        {A} [asked|asks] {B} a question, and {B} [answered|answers] {A}{end}
        {A} [asked|asks] {B}; {B} [answered|answers] {A}{end}
        "{question}?" {A} [asked|asks] {B}. "I do not know," {B} [said|says] to {A}{end}
        "{speech}," {A} [said|says] to {B}. "{speech}," {B} [said|says] to {A}{end}
        "{speech}," [said|says] {A}. {B} [turned|turns] to {A}{end}
        {A} [wrote|writes] to {B}. {next} {B} [wrote|writes] back to {A}{end}
        {A} [called|calls] {B}, and {B} [answered|answers] {A}{end}
        {A} [lost|loses] a {thing}. {B} [found|finds] the {thing} and [took|takes] it back to {A}{thanks}
        {A} [wanted|wants] a {thing}. {B} [had|has] a {thing} and [sold|sells] it to {A}{end}
        {A} [needed|needs] help, and {B} [helped|helps] {A}{thanks}
        {A} [was|is] looking at {B}, and {B} [was|is] looking at {A}{end}
        {A} [lent|lends] a {thing} to {B}. {next} {B} [gave|gives] it back to {A}{thanks}
        {A} [was|is] angry with {B}, but {B} [was|is] not angry with {A}{end}
        the {thing} [belonged|belongs] to {A}. {B} [had|has] found it and [brought|brings] it back to {A}{thanks}
        the {thing} [was|is] a present for {A}. {B} [had|has] bought it for {A}{end}
        between {X} and {Y} there [was|is] a table with a {thing}. {B} [pushed|pushes] the {thing} towards {A}{end}
        between {X} and {Y} there [was|is] an empty chair. {B} [sat|sits] down beside {A}{end}
        between {X} and {Y} there [was|is] a wall. {B} [looked|looks] over the wall at {A}{end}
        {X} and {Y} [sat|sit] on a bench. {B} [moved|moves] closer to {A}{end}
        {A} [owed|owes] {B} five coins. {B} [wrote|writes] a letter to {A}{end}
        """),
    # The other of two
    "other_one": lines("""
        {B} [left|leaves] first. the last one {at} [was|is] {A}.
        they [ran|run] a race. {B} [lost|loses], so the winner [was|is] {A}.
        they [played|play] chess. {B} [won|wins], so the loser [was|is] {A}.
        one of them [sang|sings]. it [was|is] not {B}, so it [was|is] {A}.
        one of them [had|has] the {thing}. {B} [did|does] not have it, so it [was|is] {A}.
        {B} [did|does] not know the answer, but the other one [did|does], and that [was|is] {A}.
        {B} [slept|sleeps]. the one who [was|is] awake [was|is] {A}.
        only one [could|can] swim. {B} [could not|cannot], but {A} [could|can].
        {B} [went|goes] home. so the only one who [stayed|stays] [was|is] {A}.
        the {thing} [did|does] not belong to {B}. it [belonged|belongs] to {A}.
        who [lost|loses] the {thing}? not {B}, but {A}.
        we [knew|know] {B}, so the other one [was|is] {A}.
        """),
    # Three persons, and only one of them is left for the end
    "three": lines("""
        {U}, {V} and {W} {go}.
        {time} {U}, {V} and {W} {go}.
        {U}, {V} and {W} [were|are] {doing} {at}.
        there [were|are] three {several} {at}: {U}, {V} and {W}.
        {U} and {V} {go}. {W} [was|is] there, too.
        {U}, {V} and {W} [were|are] {relation}.
        {U} and {V} [had|have] invited {W} to the {place}.
        nobody [was|is] {in_place} but {U}, {V} and {W}.
        """),
    "three_clause": lines("""
        when {U}, {V} and {W} {go},
        after {U}, {V} and {W} [had|have] {done},
        while {U}, {V} and {W} [were|are] {doing},
        {U}, {V} and {W} {go}, {and}
        {U} and {V} {go} with {W}, {and}
        """),
    "together": lines("""
        {B} and {C} &{gift} {A}{end}
        {B} and {C} &{turn} {A}{end}
        {C} and {B} &{gift} {A}, and {A} [thanked|thanks] {C} and {B}.
        """),
    "three_deed": ["{together}"] * 4 + lines("""
        {C} [went|goes] home, and {B} {act} {A}{end}
        {C} [did|does] not notice that {B} {act} {A}{end}
        {C} [was|is] {state}. {B} and {C} &{turn} {A}{end}
        while {C} [slept|sleeps], {B} {act} {A}{end}
        {C} [stayed|stays] outside, and inside {B} {act} {A}{end}
        it [was|is] neither {B} nor {C} who [lost|loses] the {thing}, so it [was|is] {A}.
        {B} and {C} [left|leave] first. the last one [was|is] {A}.
        neither {C} nor {B} {turn} {A}{end}
        """),
    "absent": lines("""
        {C} [was|is] at home.
        {C} [was|is] too {fault} to come.
        {X} and {Y} [were|are] friends of {C}. {C} [was|is] far away.
        {C} [could not|cannot] come to the {place}.
        """),
}
IOI_KINDS = weighted("""
    10 {clause} {deed}
     8 {scene} {lead}{deed}
     8 {scene} {middle} {lead}{deed}
     3 {setting} {scene} {lead}{deed}
     3 {scene} {middle} {middle} {lead}{deed}
     2 {A} {act} {B}{link} {B} {act} {A}{end}
     1 {time} {A} {act} {B}{link} {B} {act} {A}{end}
     2 {scene} {A} {act} {B}{link} {B} {act} {A}{end}
     1 {scene} {answer}
     2 {answer}
     2 {scene} {other_one}
     2 {three} {three_deed}
     1 {three} {setting} {three_deed}
     1 {three_clause} {together}
     1 {absent} {scene} {lead}{deed}
    """)

# In templates of pronoun: N, a man or a woman, M, of the other sex, and the pronouns of both, as {he} and {he2}.
PRONOUNS = ("he", "him", "his", "himself"), ("she", "her", "her", "herself")
SEXES = ((MORE_MEN, "king uncle father brother grandfather nephew son prince waiter actor gentleman monk duke man "
                    "policeman fisherman postman shepherd".split(), ["Mr"]),
         (MORE_WOMEN, "queen aunt mother sister grandmother niece daughter princess waitress actress lady nun "
                      "duchess woman nurse maid witch girl".split(), ["Mrs", "Miss"]))
GRAMMAR.update({
    "who": phrases("the, the, the, the old, the young, the tall, our, this, the poor"),
    "did": phrases("[came|comes] late, [stayed|stays] at home, [went|goes] to the {place}, [sat|sits] by the fire, "
                   "[left|leaves] the room, [smiled|smiles], [opened|opens] the window, [bought|buys] a {thing}, "
                   "[sold|sells] the {thing}, [called|calls] the doctor, [wrote|writes] a letter, [went|goes] to "
                   "bed, [ran|runs] home, [laughed|laughs], [cried|cries], [waited|waits] outside, [asked|asks] for "
                   "help, [took|takes] the {thing}, [closed|closes] the door, [did|does] not answer, [got|gets] up "
                   "early, [came|comes] home, [lost|loses] the {thing}, [found|finds] a {thing}, [looked|looks] at "
                   "the {thing}, [worked|works] {in_place}, [lived|lives] near the {place}, [met|meets] a friend, "
                   "[missed|misses] the train"),
    "was": phrases("[was|is] tired, [was|is] {state}, [was|is] {state}, [had|has] no time, [wanted|wants] to sleep, "
                   "[had|has] lost the {other}, [knew|knows] nobody there, [liked|likes] the {place}, [needed|needs] "
                   "a {other}, [had|has] to work, [heard|hears] a noise, [felt|feels] cold, [could not|cannot] "
                   "sleep, [forgot|forgets] the {other}, [wanted|wants] to be alone, [liked|likes] {topic}, "
                   "[had|has] a headache, [was|is] looking for a {other}, [did|does] not say much, [talked|talks] "
                   "about {topic}, [wanted|wants] a {quality} {other}, [had|has] a long way to go"),
    "because": ["."] * 3 + [" because", " because", " when", " although"] + lines("""
        , for
        , and
        , and then
        , but
        , so
        , and soon
        , before
        ;
        . then
        . soon
        . later
        . the next day
        . at that time
        . in the evening
        """),
    "when": phrases("when, when, because, although, since, before, after, whenever, if"),
    "thought": phrases("[said|says], [thought|thinks], [believed|believes], [wrote|writes], [told|tells] us, "
                       "[felt|feels], [hoped|hopes], [knew|knows], [remembered|remembers], [feared|fears]"),
    "knew": phrases("[met|meet], [saw|see], [knew|know], [visited|visit], [remembered|remember], [heard|hear], "
                    "[found|find]"),
    "everybody": phrases("we, the neighbours, the children, many people, all the guests, some friends, the others"),
    "helped": phrases("[helped|help], [greeted|greet], [followed|follow], [thanked|thank], [looked|look] at, "
                      "[listened|listen] to, [laughed|laugh] at, [waited|wait] for, [looked|look] for, "
                      "[called|call], [invited|invite], [liked|like]"),
    "relative": "friend cousin neighbour parents children guests".split(),
    "near": phrases("[went|goes] to the {place}, [came|comes] home, [lived|lives] near the {place}, [sat|sits] by "
                    "the fire, [worked|works] {in_place}, [had|has] tea, [played|plays] cards, [talked|talks]"),
    "body": phrases("[opened|opens] {his} eyes, [closed|closes] {his} eyes, [washed|washes] {his} hands, "
                    "[shook|shakes] {his} head, [hurt|hurts] {his} foot, [combed|combs] {his} hair, [put|puts] on "
                    "{his} coat, [took|takes] off {his} hat, [forgot|forgets] {his} {thing}, [lost|loses] {his} "
                    "{thing}, [looked|looks] for {his} {thing}, [sold|sells] {his} {thing}, [visited|visits] {his} "
                    "{relative}, [loved|loves] {his} {relative}, [wrote|writes] to {his} {relative}, "
                    "[counted|counts] {his} money, [finished|finishes] {his} work, [went|goes] to {his} room, "
                    "[sat|sits] in {his} chair, [told|tells] us {his} name, [lived|lives] in {his} house"),
    "self": phrases("[looked|looks] at {himself} in the mirror, [hurt|hurts] {himself}, [washed|washes] {himself}, "
                    "[bought|buys] {himself} a {thing}, [made|makes] {himself} some tea, [lived|lives] by {himself}, "
                    "[taught|teaches] {himself} to read, [asked|asks] {himself} why {he} {was}, [talked|talks] to "
                    "{himself}, [was|is] pleased with {himself}, [blamed|blames] {himself}, [called|calls] {himself} "
                    "a painter, [told|tells] {himself} that {he} {was}, [found|finds] {himself} alone {in_place}, "
                    "[hid|hides] {himself}"),
})
PRONOUN_KINDS = weighted("""
     8 {N} {did}{because} {he} {was}.
     6 {when} {N} {did}, {he} {was}.
     2 {N} {thought} that {he} {was}.
     1 we {knew} {N}{because} {he} {was}.
     1 [that was|this is] {N}. {he} {was}.
     1 {N} {did} and {did}. {he} {was}.
     1 {time} {N} {did}, for {he} {was}.
     2 {N} {body}.
     2 {N} {body}{because} {he} {was}.
     1 {when} {N} {body}, {he} {was}.
     1 {N} {near} with {his} {relative}.
     2 {N} {did}, and {everybody} {helped} {him}.
     2 {when} {N} {did}, {everybody} {helped} {him}.
     1 {N} [was|is] {state}, so {everybody} {helped} {him}.
     2 {N} {self}.
     1 {when} {N} {did}, {he} {self}.
     1 "{speech}," [said|says] {N}, and {he} {did}.
     1 where [was|is] {N}? {he} [was|is] {in_place}.
     2 {N} and {M} {go}. {he} {was}, but {he2} {was}.
     1 {N} [met|meets] {M}, and {he2} [asked|asks] {him} for a {thing}.
     1 {N} [gave|gives] {M} {his} {thing}, and {he2} [thanked|thanks] {him}.
     2 {N} {did}, but {M} {did}, because {he2} {was}.
     1 {when} {N} and {M} {go}, {he2} {was}, and {he} {was}.
    """)

GRAMMAR.update({
    "invented": ["{Syllable}{syllable}", "{Syllable}{syllable}", "{syllable}{syllable}"],
    "digits": [str(x) for x in range(100)],
    "letter": list("bcdefghijklmnopqrstuvwxyz"),
})
SEPARATORS = {", ": 8, " ": 3, "\n": 3, " - ": 2, "; ": 1, " / ": 1}
COPYING_MORE = lines("""
    {N} wrote {list}. Then {N} wrote {list}.
    {N} said {list}, and everybody said {list}.
    {N} says: {list}. We say: {list}. They say: {list}.
    I say {list}, you say {list}.
    say after me: {list}. Good, once more: {list}.
    say it three times: {list}; {list}; {list}.
    the list is {list}. The same list again is {list}.
    {N}'s list is {list}. The copy of it is {list}.
    first line: {list}. Second line: {list}.
    first line: {list}. Second line: {list}. Third line: {list}.
    learn these by heart: {list}. Do you know them? They are {list}.
    remember {list}. What did I say? I said {list}.
    {N} counted them: {list}. Then {N} counted them once more: {list}.
    on the paper was {list}, and on the wall was {list}, too.
    they called out {list}, and the echo was {list}.
    (list: {list}) (list: {list})
    list: {list} = {list}.
    repeat: {list}, repeat: {list}, and again: {list}.
    "Is it {list}?" asked {N}. "Yes, it is {list}."
    we heard {list}, then nothing, then {list} again.
    from the left: {list}. I say it again: {list}.
    in the box were these: {list}. {N} took them out: {list}.
    original: {list} copy: {list}
    copy this: {list} -> {list}
    """)
COPYING_LINES = [line.replace("|", "\n") + "\n" for line in lines("""
    list:|{list}|Again:|{list}
    {N} wrote:|{list}|And then once more:|{list}
    the words:|{list}||The same words:|{list}
    copy this:|{list}||Copy:|{list}||Second copy:|{list}
    first page|{list}|second page|{list}
    ---|{list}|---|{list}|---
    """)]  # a line each, and so the items of the list

# In templates of sums: c is a + b, and e is a + b + d; {a_things} is the number with what is counted.
SUM_KINDS = {"plus": 6, "commuted": 2, "three": 1, "minus": 4, "chain": 1, "count": 2}
COUNTED = "coin apple egg nut book pencil flower candle hat key stamp cake shell chair button".split()
SUM_MORE = {
    "plus": lines("""
        {a} + {b} = {c}.
        {a} + {b} = {c}.
        {a}+{b}={c}.
        {c} = {a} + {b}.
        {a} and {b} make {c}.
        {a} and {b} are {c}.
        {a} plus {b} makes {c}.
        {a} plus {b} equals {c}.
        {a} and {b} together are {c}.
        add {a} and {b}, and you have {c}.
        add {b} to {a}: the result is {c}.
        if we add {b} to {a}, we get {c}.
        {b} added to {a} gives {c}.
        how much is {a} and {b}? It is {c}.
        how much is {a} plus {b}? {c}.
        what do you get from {a} and {b}? You get {c}.
        "{a} and {b}?" asked {N}. "{c}," was the answer.
        {N} knows that {a} and {b} make {c}.
        question: {a} + {b}? Answer: {c}.
        {a_things} and {b_things} are {c_things}.
        {N} had {a_things} and got {b} more, so {N} has {c_things} now.
        {N} has {a_things} in one hand and {b} in the other. That makes {c_things}.
        {N} put {a_things} on the table, and then {b} more. That makes {c}.
        {N} keeps {a_things} in one box and {b} in the other, {c} together.
        """),
    "commuted": lines("""
        {a} + {b} = {c} and {b} + {a} = {c}.
        {a} + {b} = {b} + {a} = {c}.
        {a} and {b} make {c}, and {b} and {a} make {c}, too.
        {a} plus {b} equals {b} plus {a}, which makes {c}.
        if you add {a} and {b}, you get {c}; if you add {b} and {a}, you get {c} as well.
        because {a} + {b} = {c}, {c} - {b} = {a}.
        {a} + {b} = {c}, so {c} - {a} = {b}.
        {a} and {b} make {c}, so {c} minus {a} leaves {b}.
        """),
    "three": lines("""
        {a} + {b} + {d} = {e}.
        {a} + {b} + {d} = {c} + {d} = {e}.
        {a}, {b} and {d} make {e}.
        {a} and {b} make {c}, and {d} more makes {e}.
        if you add {a}, {b} and {d}, you get {e}.
        {N} had {a_things}, then {b} more, then {d} more: {e_things}.
        """),
    "minus": lines("""
        {c} - {b} = {a}.
        {c} - {b} = {a}.
        {c}-{b}={a}.
        {c} minus {b} equals {a}.
        {c} minus {b} leaves {a}.
        what is {c} minus {b}? It is {a}.
        take {b} from {c}, and {a} remains.
        if you take {b} from {c}, you get {a}.
        {c} less {b} makes {a}.
        how much is {c} minus {b}? {a}.
        question: {c} - {b}? Answer: {a}.
        {N} had {c_things} and gave away {b}, so {N} has {a_things} left.
        {N} had {c_things} and lost {b}. Now {N} has {a}.
        {c_things} without {b_things} leaves {a}.
        """),
}
SIGN = re.compile(r"[=+]| - ")
COUNTING = lines("""
    count {way} from {first} to {last}: {list}.
    count {way}: {list}.
    {N} counted {way}: {list}.
    {N} counts from {first} to {last}: {list}.
    we count: {list}.
    the numbers go {way}: {list}.
    from {first} {way} to {last}: {list}.
    """)
