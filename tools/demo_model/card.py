"""Prints the results of a model as the rows of its card's table.

    python tools/demo_model/card.py assets/demo_model_sinks --beside assets/demo_model

With --beside those of another model follow in brackets. Tasks that were not measured have no row.
"""

import argparse
import json
from pathlib import Path

# In the order of the card.
NAMES = {
    "phonebook": "phone book, entries,",
    "phonebook_any_wording": "phone book, any wording, entries,",
    "needle": "needle, tokens,",
    "needle_3_distractors": "needle among 3 distractors, tokens,",
    "needle_any_wording": "needle among 3 distractors, any wording, tokens,",
    "mixed": "prose, 3 needles and a phone book in one, tokens,",
    "prose": "held-out prose, perplexity per token in windows of",
}


def percent(value: float) -> str:
    """Whole, except that what is not all is never shown as all."""
    return f"{value:.1f}" if 99.5 <= value < 100 else f"{value:.0f}"


def cell(sizes: dict) -> str:
    """One model's results at every size of a task."""
    return " / ".join(f"{r['perplexity']:.1f}" if "perplexity" in r else percent(r["percent"])
                      for r in sizes.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--beside", type=Path, metavar="MODEL")
    args = parser.parse_args()
    folders = [folder for folder in (args.model, args.beside) if folder]
    found, *others = (json.loads((folder / "results.json").read_text()) for folder in folders)
    for task in (name for name in NAMES if all(name in results for results in (found, *others))):
        sizes = " / ".join(f"{int(size):,}" for size in found[task])
        brackets = "".join(f" ({cell(other[task])})" for other in others)
        unit = "" if task == "prose" else " %"
        print(f"| {NAMES[task]} {sizes} | {cell(found[task])}{unit}{brackets} |")


if __name__ == "__main__":
    main()
