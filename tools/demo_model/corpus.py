"""The prose: one plain-text book, cut into chapters and sentences.

    python tools/demo_model/corpus.py --text war-and-peace.txt --held-out held-out.txt

writes the chapters held out, to measure perplexity on. Every `HOLD_EVERY`-th chapter is
held out of training; the tokenizer, the trainer and the evaluation all draw the line here,
so it is the same for each.
"""

import argparse
import hashlib
import re
from pathlib import Path

HOLD_EVERY = 24
HOLD_FIRST = 11

_HEADING = re.compile(r"^CHAPTER [IVXL]+$", re.M)
# A sentence keeps the white space before it and any quotation mark after it.
_SENTENCE = re.compile(r"\s*\S.*?(?:[.!?]+[”’)]*(?=\s)|\Z)", re.S)


def sha256(path: Path) -> str:
    """SHA-256 of a file, as hexadecimal digits."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def split_chapters(path: Path) -> tuple[list[str], list[str]]:
    """Chapters for training and chapters held out, each in the book's order."""
    text = Path(path).read_text(encoding="utf-8").replace("\r\n", "\n")
    starts = [0] + [m.start() for m in _HEADING.finditer(text)]
    ends = starts[1:] + [len(text)]
    chapters = [text[a:b].strip() for a, b in zip(starts, ends, strict=True)]
    if len(chapters) <= HOLD_EVERY:
        raise ValueError(f"{path}: {len(chapters)} chapters are too few to hold some out")
    held = [c for i, c in enumerate(chapters) if i % HOLD_EVERY == HOLD_FIRST]
    train = [c for i, c in enumerate(chapters) if i % HOLD_EVERY != HOLD_FIRST]
    return train, held


class Prose:
    """Sentences in reading order, with the number of tokens in each.

    `sentences[i]` begins with the white space that parts it from the one before.
    """

    def __init__(self, chapters: list[str], tokenizer):
        text = "\n\n".join(chapters)
        self.sentences = [m.group(0) for m in _SENTENCE.finditer(text)]
        self.tokenizer = tokenizer
        encoded = tokenizer.encode_batch(self.sentences, add_special_tokens=False)
        self.lengths = [len(e.ids) for e in encoded]

    def passage(self, rng, tokens: int) -> list[str]:
        """Consecutive sentences of about `tokens` tokens in all (never more)."""
        i = rng.randrange(len(self.sentences))
        if self.lengths[i] > tokens:
            i = rng.choice([k for k, n in enumerate(self.lengths) if n <= tokens])
        picked = []
        while self.lengths[i] <= tokens:
            picked.append(self.sentences[i])
            tokens -= self.lengths[i]
            i = (i + 1) % len(self.sentences)
        return picked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--held-out", type=Path, required=True, help="where they are written")
    args = parser.parse_args()
    _, held = split_chapters(args.text)
    args.held_out.write_text("\n\n".join(held) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
