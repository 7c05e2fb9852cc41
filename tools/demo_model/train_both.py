"""Trains the demo model and its twin with attention sinks from nothing.

    python tools/demo_model/train_both.py --text war-and-peace.txt --out assets

The base first, then what becomes of it: the model, and last the twin. Each stage is one run of
train.py, by two processes; each model is the average of its last two stages, by average.py.
Interrupted, the same command goes on where it was.
"""

import argparse
import subprocess
import sys
from pathlib import Path

# Of each stage its name, the one that it begins with, what is added to the seed, options.
STAGES = (
    ("base", None, 0, ()),
    ("refined", "base", 0, ()),
    ("refined_again", "refined", 1, ()),
    ("texts", "refined_again", 2, ()),
    ("books", "refined_again", 2, ("--books",)),
    ("sinks", "base", 0, ("--sinks", "find")),
    ("sinks_refined", "sinks", 0, ("--sinks", "keep")),
    ("sinks_refined_again", "sinks_refined", 1, ("--sinks", "keep")),
    ("sinks_texts", "sinks_refined_again", 2, ("--sinks", "keep")),
    ("sinks_books", "sinks_refined_again", 2, ("--sinks", "keep", "--books")),
)
# The models to keep, and the stages that each is the average of.
MODELS = {"demo_model": ("texts", "books"), "demo_model_sinks": ("sinks_texts", "sinks_books")}


def run(script: str, *arguments) -> None:
    """A script that stands beside this one."""
    command = [sys.executable, Path(__file__).with_name(script), *arguments]
    subprocess.run([str(part) for part in command], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, required=True, help="War and Peace, plain UTF-8")
    parser.add_argument("--out", type=Path, required=True, help="folder of the two models")
    parser.add_argument("--work", type=Path, default=Path("build/demo_model"),
                        help="folder of the stages and of resumable states")
    parser.add_argument("--seed", type=int, default=1,
                        help="of the base; later refinements take the next ones")
    args = parser.parse_args()
    for name, base, later, options in STAGES:
        print(name, flush=True)
        run("train.py", "--text", args.text, "--out", args.work / name,
            "--work", args.work / f"{name}.state", "--seed", args.seed + later, *options,
            *(("--refine", args.work / base) if base else ()))
        for model, ends in MODELS.items():
            if name == ends[-1]:
                run("average.py", *(args.work / end for end in ends), "--out", args.out / model)


if __name__ == "__main__":
    main()
