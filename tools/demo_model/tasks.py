"""Training documents and test prompts: phone books, needles, repeats, prose.

A document is a list of (text, kind) pieces. Its text is encoded whole, so a
token is just what a reader of the text would get, and each token takes the
loss weight of the piece in which it begins.
"""

import random

import numpy as np
from words import CITIES, NAMES

BOOK_HEAD = "Phone book:\n"
BOOK_ASK = "\nLook up:\n"
NEEDLE_ASK = "\n\nAnswer from the text above:\n"
BOOK_DIGITS, NEEDLE_DIGITS = 4, 7

# kind: weight among the answers, weight among the prose
WEIGHTS = {
    "context": (0.0, 0.0),
    "prose": (0.0, 1.0),
    "first": (4.0, 0.0),
    "early": (2.0, 0.0),
    "answer": (1.0, 0.0),
    "repeat": (0.2, 0.0),
}
KINDS = list(WEIGHTS)
ANSWERS = ("first", "early", "answer")
LINE_TOKENS = 4 + BOOK_DIGITS  # name, colon, space, digits, end of line
NEEDLE_TOKENS = 12 + NEEDLE_DIGITS


def digits(rng, count: int) -> str:
    """`count` random decimal digits."""
    return "".join(rng.choice("0123456789") for _ in range(count))


def book_line(name: str, number: str) -> str:
    """One entry of a phone book."""
    return f"{name}: {number}\n"


def needle_lead(city: str) -> str:
    """A needle up to its colon: also the question about it."""
    return f"The special magic number for {city} is:"


def needle_line(city: str, number: str) -> str:
    """One needle, without white space around it."""
    return f"{needle_lead(city)} {number}."


def _asked(lead: str, number: str, end: str) -> list[tuple[str, str]]:
    """The pieces of one answered question."""
    return [(lead, "context"), (" ", "answer"), (number[0], "first"), (number[1:3], "early"),
            (number[3:] + end, "answer")]


def phonebook(rng, entries: int, questions: int) -> list[tuple[str, str]]:
    """A book of `entries` lines and then `questions` lines that repeat some of them."""
    names = rng.sample(NAMES, entries)
    book = {name: digits(rng, BOOK_DIGITS) for name in names}
    doc = [(BOOK_HEAD + "".join(book_line(n, d) for n, d in book.items()), "context")]
    doc.append((BOOK_ASK, "context"))
    for name in rng.sample(names, questions):
        doc += _asked(f"{name}:", book[name], "\n")
    return doc


def needles(rng, prose, tokens: int, count: int, questions: int) -> list[tuple[str, str]]:
    """`count` needles in a passage of about `tokens` tokens, and then questions."""
    sentences = prose.passage(rng, tokens)
    cities = rng.sample(CITIES, count)
    numbers = {city: digits(rng, NEEDLE_DIGITS) for city in cities}
    places: dict[int, list[str]] = {}
    for city in cities:
        places.setdefault(rng.randrange(1, len(sentences) + 1), []).append(city)
    doc = []
    for i, sentence in enumerate(sentences, start=1):
        doc.append((sentence.lstrip() if i == 1 else sentence, "prose"))
        for city in places.get(i, []):
            doc.append((" " + needle_line(city, numbers[city]), "context"))
    doc.append((NEEDLE_ASK, "context"))
    for city in rng.sample(cities, questions):
        doc += _asked(needle_lead(city), numbers[city], ".\n")
    return doc


def as_prompt(doc: list[tuple[str, str]]) -> tuple[str, str]:
    """The prompt of a document that asks one question, and the digits that answer it."""
    prompt = "".join(text for text, _ in doc[:-4])
    return prompt, "".join(text for text, _ in doc[-3:]).rstrip(".\n")


def phonebook_prompt(rng, entries: int) -> tuple[str, str]:
    """A book of `entries` lines and one question: prompt and answer."""
    return as_prompt(phonebook(rng, entries, 1))


def needle_prompt(rng, prose, length: int, distractors: int) -> tuple[str, str]:
    """At most `length` tokens and close to it, one question: prompt and answer.

    Of several draws, the first that fills 98 % of the length, or else the fullest.
    """
    room = length - NEEDLE_TOKENS * (distractors + 1) - 16
    best, filled = None, 0
    for _ in range(40):
        draw = as_prompt(needles(rng, prose, room, distractors + 1, 1))
        tokens = len(prose.tokenizer.encode(draw[0]).ids)
        if filled < tokens <= length:
            best, filled = draw, tokens
        if filled >= 0.98 * length:
            break
    return best


def repeat(rng, words: list[str], tokens: int) -> list[tuple[str, str]]:
    """Random words, and the same words again."""
    text = " ".join(rng.choice(words) for _ in range(max(4, tokens // 5)))
    return [(text + "\n", "context"), (text + "\n", "repeat")]


class Sampler:
    """Draws training batches; a batch depends only on the seed and the step."""

    def __init__(self, tokenizer, prose, pad_id: int, seed: int):
        self.tokenizer, self.prose, self.pad_id, self.seed = tokenizer, prose, pad_id, seed
        self.words = sorted({w for s in prose.sentences for w in s.split() if w.isascii()})

    def document(self, rng, task: str, length: int) -> list[tuple[str, str]]:
        """One document of at most about `length` tokens."""
        if task == "phonebook":
            lines = (length - 12) // LINE_TOKENS
            entries = rng.randint(max(3, lines // 4), min(160, lines * 3 // 4))
            return phonebook(rng, entries, min(entries, lines - entries))
        if task == "needle":
            most = 2 if length < 256 else 4 if length < 1024 else 6
            count = rng.randint(1, most)
            room = length - 2 * count * NEEDLE_TOKENS - 12
            return needles(rng, self.prose, room, count, count)
        if task == "repeat":
            return repeat(rng, self.words, length)
        return [("".join(self.prose.passage(rng, length - 2)).lstrip(), "prose")]

    def batch(self, step: int, rows: int, length: int, mix: dict[str, float]):
        """ids int64 [rows, length + 1]; answer weights, prose weights, a mask of first
        digits and one of all answer tokens, each float32 [rows, length].

        Entry t of these belongs to the prediction of token t + 1.
        """
        rng = random.Random(f"{self.seed}/{step}")
        docs = [self.document(rng, rng.choices(list(mix), list(mix.values()))[0], length)
                for _ in range(rows)]
        encoded = self.tokenizer.encode_batch(["".join(t for t, _ in d) for d in docs])
        ids = np.full((rows, length + 1), self.pad_id, np.int64)
        weights = np.zeros((4, rows, length + 1), np.float32)
        for r, (doc, enc) in enumerate(zip(docs, encoded, strict=True)):
            kind_at = np.concatenate([np.full(len(t), KINDS.index(k)) for t, k in doc])
            n = min(len(enc.ids), length + 1)
            ids[r, :n] = enc.ids[:n]
            starts = np.array([a for a, _ in enc.offsets[1:n]])
            table = np.array([(*WEIGHTS[k], k == "first", k in ANSWERS) for k in KINDS],
                             np.float32)
            weights[:, r, 1:n] = table[kind_at[starts]].T
            # A book asks many more questions than a passage: even that out in part.
            weights[0, r] /= max(1.0, weights[0, r].sum()) ** 0.5
        return ids, *weights[:, :, 1:]
