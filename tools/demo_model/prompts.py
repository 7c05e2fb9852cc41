"""Writes the example prompts of the demo, each one that the model answers right.

    python tools/demo_model/prompts.py --text war-and-peace.txt --model assets/demo_model

Draws from the held-out chapters until the greedy answer is right, beginning with the
draw that EXAMPLES names; with --unchecked (no weights yet) it takes that one.
"""

import argparse
import json
import random
from pathlib import Path

import corpus
import evaluate
import tasks
from tokenizers import Tokenizer

# File, task, size, distractors, first draw. The demo's needle is not the first one: it is
# to show an answer that outlives KeyDiff's eviction of half of the cache in blocks of 64,
# as of twelve needles this one does.
EXAMPLES = (
    ("needle.txt", "needle", 1024, 3, 5),
    ("needle_2048.txt", "needle", 2048, 3, 0),
    ("phonebook.txt", "phonebook", 64, 0, 0),
)


def draw(prose, task: str, size: int, distractors: int, attempt: int) -> tuple[str, str]:
    """Prompt and expected digits."""
    rng = random.Random(f"example/{task}/{size}/{attempt}")
    if task == "needle":
        return tasks.needle_prompt(rng, prose, size, distractors)
    return tasks.phonebook_prompt(rng, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--model", type=Path, default=Path("assets/demo_model"))
    parser.add_argument("--unchecked", action="store_true")
    args = parser.parse_args()
    _, held = corpus.split_chapters(args.text)
    tok = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    prose = corpus.Prose(held, tok)
    model = None if args.unchecked else evaluate.load(args.model)
    folder = args.model / "prompts"
    folder.mkdir(parents=True, exist_ok=True)
    table = []
    for file, task, size, distractors, first in EXAMPLES:
        for attempt in range(first, first + 100):
            prompt, expected = draw(prose, task, size, distractors, attempt)
            if model is None or evaluate.is_right(
                    evaluate.complete(*model, [prompt])[0][0], expected):
                break
        else:
            raise RuntimeError(f"{file}: no draw is answered right")
        (folder / file).write_text(prompt, encoding="utf-8")
        row = {"file": file, "task": task, "tokens": len(tok.encode(prompt).ids),
               "expected": expected, "completion": f" {expected}" + (
                   ".\n" if task == "needle" else "\n")}
        if task == "needle":
            row["distractors"] = distractors
        else:
            row["entries"] = size
        table.append(row)
        print(row)
    (folder / "prompts.json").write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
