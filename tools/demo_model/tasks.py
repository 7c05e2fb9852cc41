"""Training documents and test prompts: phone books, needles, both in one, repeats, prose.

A document is a list of (text, kind) pieces. Its text is encoded whole, so a
token is just what a reader of the text would get, and each token takes the
loss weight of the piece in which it begins.
"""

import random

import numpy as np
import words

# kind: weight among the answers, weight among the prose
WEIGHTS = {
    "context": (0.0, 0.0),
    "prose": (0.0, 1.0),
    "first": (4.0, 0.0),
    "answer": (2.0, 0.0),
    "repeat": (0.2, 0.0),
}
KINDS = list(WEIGHTS)
ANSWERS = ("first", "answer")

BOOK_HEADS = ("Phone book:", "Directory:", "Contacts:", "Numbers:", "List of extensions:")
BOOK_ASKS = ("Look up:", "Answer from the list above:", "Find the numbers:", "Questions:")
RELATED = 0.6  # of the books of training; those of evaluation draw every name by itself
REPEATED = 0.4  # of the books of training: their numbers have few different digits
NEEDLE_ASKS = ("Answer from the text above:", "Questions:", "What does the text say?",
               "Look up:", "Now answer:")
# A needle up to its value, and questions that end where the answer begins. The first of
# each is what `keyscope eval niah` asks by default.
FACTS = (
    ("The special magic number for {key} is:", ("The special magic number for {key} is:",)),
    ("The secret code of {key} is", ("What is the secret code of {key}? It is",
                                     "The secret code of {key} is",
                                     "Q: secret code of {key}?\nA:")),
    ("One should know that the number of {key} is",
     ("What is the number of {key}?\nThe number of {key} is", "The number of {key} is")),
    ("{key} has the number", ("Which number has {key}? {key} has the number",
                              "{key} has the number", "Number of {key}?\nAnswer:")),
    ("The ticket for {key} bears the figure",
     ("Which figure does the ticket for {key} bear?\nAnswer:",
      "The ticket for {key} bears the figure")),
    ("Remember: the password of {key} is",
     ("Q: What is the password of {key}?\nA:", "The password of {key} is",
      "What is the password of {key}? The password is")),
    ("The key to {key} is", ("The key to {key} is", "What is the key to {key}?\nAnswer:")),
)


def digits(rng, count: int, among: str | list[str] = "0123456789") -> str:
    """`count` random digits."""
    return "".join(rng.choice(among) for _ in range(count))


def _asked(lead: str, value: str, end: str) -> list[tuple[str, str]]:
    """The pieces of one answered question."""
    return [(lead, "context"), (" ", "answer"), (value[0], "first"), (value[1:] + end, "answer")]


class Book:
    """A phone book: what it says and what can be asked of it."""

    def __init__(self, rng, entries: int, held_out: bool, plain: bool, listed: float = 1.0):
        related = not held_out and rng.random() < RELATED
        names = words.relatives(rng, entries, listed) if related \
            else words.people(rng, entries, held_out)
        among, least = "0123456789", 3
        if not held_out and rng.random() < REPEATED:
            among, least = rng.sample(among, rng.randint(2, 5)), 4
        count = 4 if plain else rng.randint(least, 7)
        self.numbers = {name: digits(rng, count, among) for name in names}
        self.head = BOOK_HEADS[0] if plain else rng.choice(BOOK_HEADS)
        self.ask = BOOK_ASKS[0] if plain else rng.choice(BOOK_ASKS)
        self.lead = "" if plain or rng.random() < 0.7 else rng.choice(("Number of ", "Q: ", "Call "))

    def text(self, names=None) -> str:
        """All entries, or those of some names."""
        return self.head + "\n" + "".join(f"{n}: {self.numbers[n]}\n"
                                          for n in names or self.numbers)

    def questions(self, rng, count: int, names=None) -> list[list[tuple[str, str]]]:
        """About all entries, or those of some names."""
        names = names or list(self.numbers)
        asked = [rng.choice(names) for _ in range(count)] if count > len(names) \
            else rng.sample(names, count)
        return [_asked(f"{self.lead}{name}:", self.numbers[name], "\n") for name in asked]


class Needles:
    """Facts of one wording (`plain`) or of several, of different things."""

    def __init__(self, rng, count: int, held_out: bool, plain: bool):
        form = FACTS[0] if plain else rng.choice(FACTS)
        mixed = not plain and rng.random() < 0.3
        self.facts = []
        for key in words.keys(rng, count, held_out):
            lead, questions = rng.choice(FACTS) if mixed else form
            value = digits(rng, 7 if plain else rng.randint(3, 8))
            self.facts.append((key, value, lead, questions))
        self.ask = NEEDLE_ASKS[0] if plain else rng.choice(NEEDLE_ASKS)

    def sentences(self) -> list[str]:
        return [f"{lead.format(key=key)} {value}." for key, value, lead, _ in self.facts]

    def questions(self, rng, count: int) -> list[list[tuple[str, str]]]:
        asked = rng.sample(self.facts, min(count, len(self.facts)))
        asked += [rng.choice(self.facts) for _ in range(count - len(asked))]
        return [_asked(rng.choice(q).format(key=key), value, ".\n") for key, value, _, q in asked]


def hidden(rng, sentences: list[str], said: list[str]) -> list[tuple[str, str]]:
    """Prose with what is said at random places between its sentences."""
    places: dict[int, list[str]] = {}
    for text in said:
        places.setdefault(rng.randrange(len(sentences) + 1), []).append(text)
    doc = []
    for i, sentence in enumerate([None, *sentences]):
        if sentence is not None:
            doc.append((sentence.lstrip() if i == 1 and not doc else sentence, "prose"))
        for text in places.get(i, []):
            doc.append((text if not doc else " " + text, "context"))
    return doc


def phonebook(rng, entries: int, questions: int, held_out=False, plain=False):
    """A book of `entries` lines and then `questions` lines that repeat some of them."""
    book = Book(rng, entries, held_out, plain)
    doc = [(book.text(), "context"), (f"\n{book.ask}\n", "context")]
    return doc + sum(book.questions(rng, questions), [])


def needles(rng, prose, tokens: int, count: int, questions: int, held_out=False, plain=False):
    """`count` needles in a passage of about `tokens` tokens, and then questions."""
    facts = Needles(rng, count, held_out, plain)
    doc = hidden(rng, prose.passage(rng, tokens), facts.sentences())
    doc.append((f"\n\n{facts.ask}\n", "context"))
    return doc + sum(facts.questions(rng, questions), [])


def mixed(rng, prose, tokens: int, entries: int, count: int, questions: int, held_out=False):
    """Prose with needles, a phone book somewhere in it, and questions about both."""
    facts, book = Needles(rng, count, held_out, False), Book(rng, entries, held_out, False)
    doc = hidden(rng, prose.passage(rng, tokens), facts.sentences())
    doc.insert(rng.randrange(len(doc) + 1), ("\n\n" + book.text() + "\n", "context"))
    doc.append((f"\n\n{facts.ask}\n", "context"))
    asked = facts.questions(rng, min(questions, count)) + book.questions(
        rng, max(1, questions - count))
    rng.shuffle(asked)
    return doc + sum(asked[:questions], [])


def repeat(rng, vocabulary: list[str], tokens: int) -> list[tuple[str, str]]:
    """Random words, and the same words again."""
    text = " ".join(rng.choice(vocabulary) for _ in range(max(4, tokens // 6)))
    return [(text + "\n", "context"), (text + "\n", "repeat")]


def as_prompt(doc: list[tuple[str, str]]) -> tuple[str, str]:
    """The prompt of a document that asks one question, and the digits that answer it."""
    prompt = "".join(text for text, _ in doc[:-3])
    return prompt, "".join(text for text, _ in doc[-2:]).rstrip(".\n")


def fitted(make, tokenizer, length: int) -> tuple[str, str]:
    """Prompt and answer of a document of at most `length` tokens and close to it.

    `make(tokens)` draws a document with so many tokens of prose. Of several draws, the
    first that fills 97 % of the length, or else the fullest.
    """
    best, filled, room = None, 0, length
    for _ in range(40):
        draw = as_prompt(make(max(8, room)))
        tokens = len(tokenizer.encode(draw[0]).ids)
        if filled < tokens <= length:
            best, filled = draw, tokens
        if filled >= 0.97 * length:
            break
        room += length - tokens - length // 100
    return best


def phonebook_prompt(rng, entries: int, plain=True) -> tuple[str, str]:
    """A book of `entries` lines of held-out names and one question: prompt and answer."""
    return as_prompt(phonebook(rng, entries, 1, held_out=True, plain=plain))


def needle_prompt(rng, prose, length: int, distractors: int, plain=True) -> tuple[str, str]:
    """A needle of a held-out key among distractors of the same form: prompt and answer."""
    return fitted(lambda room: needles(rng, prose, room, distractors + 1, 1, held_out=True,
                                       plain=plain), prose.tokenizer, length)


def mixed_prompt(rng, prose, length: int) -> tuple[str, str]:
    """Prose, three needles and a phone book of held-out names, one question about any."""
    entries = max(3, length // 80)

    return fitted(lambda room: mixed(rng, prose, room, entries, 3, 1, held_out=True),
                  prose.tokenizer, length)


class Sampler:
    """Draws training batches; a batch depends only on the seed and the step."""

    def __init__(self, tokenizer, prose, pad_id: int, seed: int):
        self.tokenizer, self.prose, self.pad_id, self.seed = tokenizer, prose, pad_id, seed
        self.words = sorted({w for s in prose.sentences for w in s.split() if w.isascii()})

    def document(self, rng, task: str, length: int) -> list[tuple[str, str]]:
        """One document of about `length` tokens; what is longer is cut."""
        lines = (length - 12) // 13  # a line of a phone book takes about thirteen tokens
        if task == "big book":
            entries = max(3, round(lines * rng.uniform(0.6, 0.85)))
            return phonebook(rng, entries, lines - entries, plain=rng.random() < 0.3)
        if task == "full book":
            return self.full_book(rng, length)
        if task == "phonebook":
            entries = max(3, min(200, round(lines * rng.uniform(0.2, 0.75))))
            return phonebook(rng, entries, max(1, min(2 * entries, lines - entries)),
                             plain=rng.random() < 0.3)
        most = max(2, min(24, length // 90))
        count = rng.randint(1, most)
        if task == "needle":
            questions = max(1, min(2 * count, (length // 3) // 28))
            room = max(16, length - 24 * count - 28 * questions - 12)
            return needles(rng, self.prose, room, count, questions, plain=rng.random() < 0.3)
        if task == "mixed":
            entries = rng.randint(2, max(3, min(100, length // 36)))
            questions = count + max(1, entries // 2)
            room = max(16, length - 24 * count - 12 * entries - 20 * questions - 16)
            return mixed(rng, self.prose, room, entries, count, questions)
        if task == "repeat":
            return repeat(rng, self.words, length)
        return [("".join(self.prose.passage(rng, length - 2)).lstrip(), "prose")]

    def full_book(self, rng, length: int):
        """A book in one to eight parts, after each of which questions follow about all of it so
        far: with all questions at the end, the last entries are those that are missed most."""
        parts, share = rng.choice((1, 2, 4, 8)), rng.uniform(0.72, 0.93)
        book = Book(rng, length // 10, False, rng.random() < 0.3, listed=rng.choice((1.0, 0.3, 0.1)))
        names = list(book.numbers)
        each = len(self.tokenizer.encode(book.text()).ids) / len(names) + len(book.lead) / 8
        lines = int((length - 12 * parts) / each)
        entries = round(lines * share)
        doc = []
        for part in range(parts):
            begin, end = (entries * p // parts for p in (part, part + 1))
            count = (lines - entries) * (part + 1) // parts - (lines - entries) * part // parts
            doc += [(book.text(names[begin:end]), "context"), (f"\n{book.ask}\n", "context")]
            doc += sum(book.questions(rng, count, names[:end]), [])
            doc.append(("\n", "context"))
        return doc

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
