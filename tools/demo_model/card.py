"""Prints the results of a model as the rows of its card's table.

    python tools/demo_model/card.py assets/demo_model_sinks --beside assets/demo_model

With --beside those of another model follow in brackets, with --seeds those of others in columns of
their own. Tasks that were not measured have no row.
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


def cell(measured: dict, sizes) -> str:
    """One model's results of a task at some sizes; a dash is what was not measured."""
    shown = [measured.get(size) for size in sizes]
    return " / ".join("–" if r is None else f"{r['perplexity']:.1f}" if "perplexity" in r
                      else percent(r["percent"]) for r in shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--beside", type=Path, metavar="MODEL")
    parser.add_argument("--seeds", type=Path, nargs="+", default=[], metavar="RESULTS",
                        help="results of other seeds, a column each")
    args = parser.parse_args()
    found, *others = (json.loads(path.read_text()) for path in (
        *(folder / "results.json" for folder in (args.model, args.beside) if folder), *args.seeds))
    beside = others.pop(0) if args.beside else {}
    for task in (name for name in NAMES if name in found):
        sizes = " / ".join(f"{int(size):,}" for size in found[task])
        unit = "" if task == "prose" else " %"
        brackets = f" ({cell(beside[task], found[task])})" if task in beside else ""
        columns = [cell(found[task], found[task]) + unit + brackets]
        columns += [cell(other[task], found[task]) + unit if task in other else "–"
                    for other in others]
        print(f"| {NAMES[task]} {sizes} | {' | '.join(columns)} |")


if __name__ == "__main__":
    main()
