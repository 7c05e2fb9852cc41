"""Names, keys and values of the synthetic tasks: without end, so that none is learnt by heart.

A name is made of syllables or taken from a list; one in ten of all names, by a hash of its
letters, is held out: training never sees it, evaluation draws nothing else.
"""

import zlib

HOLD_OUT = 10  # one name in so many

_ONSETS = """b br c ch cl d dr f fl g gl gr h j k kl l m n p pr qu r s sh sk st t th tr v w z b d f
g h k l m n p r s t v""".split()
_VOWELS = "a e i o u a e i o u ai au ea ee ia ie oo ou".split()
_CODAS = [""] * 10 + ["l", "m", "n", "r", "s", "t", "k", "d", "x", "l", "n", "r", "s", "ck", "ll", "nd",
                      "ng", "nt", "rd", "rn", "sh", "st", "th"]

LISTED = """
Aaron Abigail Adrian Agatha Albert Alicia Amelia Anders Anita Arjun Astrid Aurora Axel Barbara
Beatriz Benjamin Bertha Bianca Boyd Brandon Brenda Bridget Bruno Calvin Camila Carlos Carmen Cedric
Celeste Chandra Chloe Clara Clifford Clyde Connor Cyrus Daisy Damian Daphne Deborah Declan Deepak
Delia Dexter Diego Dmitri Dolores Dorothy Douglas Duncan Dylan Eduardo Edwin Eileen Elodie Elsa
Emilio Enrique Erika Esther Ethan Eugene Fatima Felipe Fiona Floyd Gareth Gemma Gerald Gideon
Gilbert Gloria Gregory Greta Guido Gustavo Hannah Harold Harriet Hassan Hazel Hector Heidi Hiroshi
Howard Hubert Imogen Ingrid Isaac Isadora Ivana Jasmine Javier Jennifer Jerome Joaquin Jocelyn Jorge
Joyce Judith Julio Kaito Karim Keiko Kelvin Kenji Kiran Klara Kristof Kurt Lakshmi Lamar Lars
Leandro Leilani Lennart Leroy Lorenzo Lucia Luther Magnus Malik Marcus Margot Marisol Marlene Matteo
Maureen Melissa Mercedes Meredith Miguel Mildred Milton Miriam Mohammed Monica Morgan Nadia Naomi
Nathan Nigel Nkechi Noelle Norman Octavio Olivia Omar Oscar Otto Pablo Paloma Pamela Patricia Percy
Phoebe Priya Quentin Rachel Rafael Ramona Rashid Rebecca Reginald Renata Ricardo Rosalind Roxanne
Rupert Samira Santiago Selma Sheila Silvia Simone Soren Stanley Stefan Sunita Sven Sybil Tamara
Tariq Theodore Thelma Tobias
Accra Amsterdam Ankara Athens Auckland Baghdad Bangkok Barcelona Beijing Belgrade Bogota Boston
Brisbane Brussels Budapest Cairo Caracas Casablanca Chicago Copenhagen Dakar Damascus Delhi Denver
Dublin Florence Geneva Glasgow Hamburg Hanoi Havana Helsinki Houston Istanbul Jakarta Kabul Karachi
Kinshasa Lagos Lahore Lima Lisbon Madrid Manila Melbourne Memphis Milan Montreal Mumbai Nairobi
Osaka Oslo Ottawa Prague Quito Santos Seattle Seoul Singapore Sydney Tehran Tokyo Toronto Zurich
""".split()

ADJECTIVES = """amber ancient brave bright broken calm careful cheerful clever cold copper crimson
curious dark deep distant dusty eager early empty faded fierce gentle golden grand green happy
hidden hollow honest icy idle ivory jolly kind late lazy little lonely loud lucky merry mighty misty
narrow noble odd old pale patient plain proud purple quick quiet rapid rare rough royal rusty sandy
scarlet secret sharp shy silent silver simple sleepy slow small soft solemn spare steady still stony
strange sunny swift tall tame thin tidy tiny true velvet warm wide wild windy wise wooden young
""".split()

NOUNS = """anchor apple arrow badge barrel basket beacon bell bench bird boat bottle bridge brook
button cabin candle canyon castle chapel clock cloud coin comet compass cottage crown desert door
dragon drum eagle engine falcon farm feather field flame forest fountain fox garden gate glacier
goose grove hammer harbor hawk hill horse island jar jewel kettle key kite ladder lake lamp lantern
leaf lemon lily lion market meadow melon mill mirror moon mountain needle nest oak ocean orchard otter
owl palace pearl pebble pepper piano pigeon pillow pine planet pond prairie rabbit raven ribbon river
road robin rocket rose sail saddle school shadow shell ship spoon spring squirrel star station stone
stove stream summit sword table temple thistle thunder tiger tower train tulip valley vault village
violet violin wagon walnut water whale wheel willow window winter wolf yard
""".split()


def is_held_out(name: str) -> bool:
    """Whether training may not see `name`; two words are held out where one of them is."""
    return any(zlib.crc32(word.lower().encode()) % HOLD_OUT == 0
               for word in name.replace("-", " ").split())


def syllables(rng, count: int) -> str:
    """A capitalised word of `count` made-up syllables."""
    return "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS)
                   for _ in range(count)).capitalize()


def _word(rng) -> str:
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(LISTED)
    return syllables(rng, 1 if kind < 0.55 else 2 if kind < 0.93 else 3)


def _person(rng) -> str:
    return _word(rng) if rng.random() < 0.6 else f"{_word(rng)} {_word(rng)}"


def _thing(rng) -> str:
    joint = rng.choice("- ")
    return f"{rng.choice(ADJECTIVES)}{joint}{rng.choice(NOUNS)}"


def _draw(rng, count: int, held_out: bool, make) -> list[str]:
    """`count` different draws of `make`, none of them a part of another."""
    found: list[str] = []
    while len(found) < count:
        name = make(rng)
        if is_held_out(name) == held_out and not any(name in f or f in name for f in found):
            found.append(name)
    return found


def people(rng, count: int, held_out: bool) -> list[str]:
    """Names of one or two words."""
    return _draw(rng, count, held_out, _person)


def relatives(rng, count: int, listed: float) -> list[str]:
    """Names of which many share a word with others, for training: only the whole name tells
    one from another. A share `listed` of the words is drawn as in any name, the rest is made up:
    the tokenizer has a token for most listed words, and none for a word that was held out."""

    def word(rng) -> str:
        if listed == 1 or rng.random() < listed:
            return _word(rng)
        return syllables(rng, rng.choice((1, 2, 2, 2, 3, 3)))

    shared = [word(rng) for _ in range(max(2, count // rng.choice((4, 8, 16))))]
    share = rng.choice((0.3, 0.6, 0.9))

    def either(rng) -> str:
        return rng.choice(shared) if rng.random() < 0.5 else word(rng)

    def person(rng) -> str:
        return f"{either(rng)} {either(rng)}" if rng.random() < share else _person(rng)

    return _draw(rng, count, False, person)


def keys(rng, count: int, held_out: bool) -> list[str]:
    """What a needle is about: a name or, for all of them alike, an adjective and a noun."""
    return _draw(rng, count, held_out, _thing if rng.random() < 0.3 else _person)
