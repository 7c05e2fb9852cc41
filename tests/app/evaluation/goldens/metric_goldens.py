"""Writes metric_goldens.json: LongBench's scores of answers, by PyPI's rouge and fuzzywuzzy, and by Python's own
`re`, `str` and `Counter` as LongBench's metrics use them.

    python3 metric_goldens.py
"""

import collections
import json
import pathlib
import random
import re
import string

import fuzzywuzzy
import rouge
from fuzzywuzzy import fuzz

SEED = 7
TEXTS = [
    "", " ", ".", "...", "a", "The", "the the the", "An apple a day.", "an-other", "The_end", "the\u2019s", "42", "4 2",
    "3.14 and 2.72", "Paragraph 12", "paragraph 12", "Paragraph 1 or Paragraph 12", "\u0664\u0662 is 42", "12 12 13",
    "Caf\u00e9 M\u00dcNCHEN", "\u0130stanbul", "ODYSSE\u03a5\u03a3", "na\u00efve\u00a0caf\u00e9", "one\u2028two\u3000three",
    "tab\tand\nnew line", "x\x1cy\x1fz", "\u4f60\u597d \u4e16\u754c", "\U0001f600 smile \U0001f600", "e\u0301 combining",
    "Yes, it was; no: it wasn't!", "A. B. C. A. B.", "one. one. one", ".leading. dots..", "repeat repeat repeat repeat",
    "The answer is: 7,000,000.", "\u00bd cup", "x\u00b2 + 1", "semi;colon", "`code`", "# comment\nreturn x", "\n\n\nreturn y",
    "// note\n```\n", "return self.value  # the value\nreturn other",
]
WORDS = ["the", "a", "an", "cat", "sat", "on", "mat", "The", "cat.", "dog", "42", "7", "mat.", "ran", "far,", "away."]
CLASSES = [["Description of something", "something", "Description of a person", "person", "Date", "City", "Other location"],
           ["a", "ab", "abc"], ["abc", "ab", "a"], ["x", "x", "y"]]


def drawn(generator):
    return " ".join(generator.choice(WORDS) for _ in range(generator.randint(0, 30)))


def normalise(text):
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split()).split()


def token_f1(prediction, answer):
    prediction, answer = normalise(prediction), normalise(answer)
    common = sum((collections.Counter(prediction) & collections.Counter(answer)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(prediction), common / len(answer)
    return 2 * precision * recall / (precision + recall)


def share(prediction, number):
    numbers = re.findall(r"\d+", prediction)
    return numbers.count(str(number)) / len(numbers) if numbers else 0.0


def paragraph_share(prediction, answer):
    named = re.findall(r"Paragraph (\d+)", answer)
    return share(prediction, named[0]) if named else None


def class_share(prediction, answer, classes):
    named = [name for name in classes if name in prediction]
    for name in named:
        if name in answer and name != answer:
            named.remove(name)
    return 1 / len(named) if answer in named else 0.0


def code_similarity(prediction, answer):
    first = ""
    for line in prediction.lstrip("\n").split("\n"):
        if "`" not in line and "#" not in line and "//" not in line:
            first = line
            break
    return fuzz.ratio(first, answer) / 100


def rouge_l(prediction, answer):
    try:
        return rouge.Rouge().get_scores([prediction], [answer], avg=True)["rouge-l"]["f"]
    except ValueError:  # a text without a sentence
        return 0.0


# Texts whose similarity is halfway between two whole numbers but for how it is rounded on the way: 2 L / total and
# 1 - (total - 2 L) / total part there.
def ties():
    found = []
    for total in range(2, 601):
        for common in range(1, total // 2):
            doubled, similarity = 2 * common / total, 1 - (total - 2 * common) / total
            if round(100 * doubled) != round(100 * similarity):
                found.append(("x" * common + "a" * (total - 2 * common), "x" * common))
    return found


def scores(prediction, answer):
    return {"prediction": prediction, "answer": answer, "token_f1": token_f1(prediction, answer),
            "number_share": share(prediction, answer), "paragraph_share": paragraph_share(prediction, answer),
            "code_similarity": code_similarity(prediction, answer), "rouge_l": rouge_l(prediction, answer)}


def main():
    assert fuzz.SequenceMatcher.__module__.endswith("StringMatcher"), "python-Levenshtein is missing"
    generator = random.Random(SEED)
    pairs = [(a, b) for a in TEXTS for b in TEXTS]
    pairs += [(drawn(generator), drawn(generator)) for _ in range(300)]
    # As much as is needed of them: every pair with itself and 600 others.
    kept = [(a, b) for a, b in pairs[: len(TEXTS) ** 2] if a == b]
    kept += generator.sample(pairs[: len(TEXTS) ** 2], 600) + pairs[len(TEXTS) ** 2:]
    classified = [{"prediction": prediction, "answer": answer, "classes": classes,
                   "class_share": class_share(prediction, answer, classes)}
                  for classes in CLASSES for answer in classes
                  for prediction in ["", *classes, ", ".join(classes), " ".join(classes[::-1]), classes[0] + "!"]]
    words = [{"text": text, "words": normalise(text)} for text in TEXTS]
    goldens = {"versions": {"rouge": "1.0.1", "fuzzywuzzy": fuzzywuzzy.__version__, "seed": SEED},
               "pairs": [scores(a, b) for a, b in kept], "classes": classified, "words": words,
               "ties": [[a, b, fuzz.ratio(a, b)] for a, b in ties()]}
    path = pathlib.Path(__file__).with_name("metric_goldens.json")
    path.write_text(json.dumps(goldens, indent=0) + "\n")


if __name__ == "__main__":
    main()
