"""Trains the demo model and its twin with attention sinks from nothing.

    python tools/demo_model/train_both.py --text war-and-peace.txt --out assets

The base first, then what becomes of it: the model, and last the twin. A stage is one run of
train.py, by two processes, or of average.py. Interrupted, the same command goes on where it was.
"""

import argparse
import subprocess
import sys
from pathlib import Path


def run(script: str, *arguments) -> None:
    """A script that stands beside this one."""
    command = [sys.executable, Path(__file__).with_name(script), *arguments]
    subprocess.run([str(part) for part in command], check=True)


class Recipe:
    """The stages, each in a folder of its own."""

    def __init__(self, text: Path, work: Path, seed: int):
        self.text, self.work, self.seed = text, work, seed

    def train(self, name: str, begin: str | None, *options, later: int = 0) -> None:
        """A run of train.py that begins with a stage, or with nothing; `later` is added to the
        seed, so that no two refinements in a row see the same batches."""
        print(name, flush=True)
        run("train.py", "--text", self.text, "--out", self.work / name,
            "--work", self.work / f"{name}.state", "--seed", self.seed + later, *options,
            *(("--refine", self.work / begin) if begin else ()))

    def pair(self, name: str, begin: str, out: Path, *options, later: int) -> None:
        """The average of two refinements of one stage: one on texts, one on full books."""
        texts, books = f"{name}_texts", f"{name}_books"
        self.train(texts, begin, *options, later=later)
        self.train(books, begin, *options, "--books", later=later)
        run("average.py", self.work / texts, self.work / books, "--out", out)

    def refine(self, name: str, begin: str, out: Path, *options) -> None:
        """Two refinements in a row, and the average of a pair that follows."""
        self.train(f"{name}_refined", begin, *options)
        self.train(f"{name}_refined_again", f"{name}_refined", *options, later=1)
        self.pair(name, f"{name}_refined_again", out, *options, later=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, required=True, help="War and Peace, plain UTF-8")
    parser.add_argument("--out", type=Path, required=True, help="folder of the two models")
    parser.add_argument("--work", type=Path, default=Path("build/demo_model"),
                        help="folder of the stages and of resumable states")
    parser.add_argument("--seed", type=int, default=1,
                        help="of the base; later refinements take the next ones")
    args = parser.parse_args()
    recipe = Recipe(args.text, args.work, args.seed)
    recipe.train("base", None)
    recipe.refine("model", "base", args.work / "averaged")
    recipe.pair("last", "averaged", args.out / "demo_model", later=3)
    recipe.train("sinks", "base", "--sinks", "find")
    recipe.refine("twin", "sinks", args.out / "demo_model_sinks", "--sinks", "keep")


if __name__ == "__main__":
    main()
