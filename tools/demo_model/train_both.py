"""Trains the demo model and its variant with attention sinks from nothing.

    python tools/demo_model/train_both.py --text war-and-peace.txt --out assets

The model first, then the sink variant, which begins with it. A stage is one run of train.py, by two
processes, or of average.py. Interrupted, the same command goes on where it was.
"""

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from device import FAST, at_hand

# A refinement by itself saves weights between its two ends, this share of those that it began with:
# more answers are right there than at either end (Wortsman et al., 2022). For the two of a pair
# their average does as much.
BETWEEN = ("--kept", 0.4)


def run(script: str, *arguments) -> None:
    """A script that stands beside this one."""
    command = [sys.executable, Path(__file__).with_name(script), *arguments]
    subprocess.run([str(part) for part in command], check=True)


class Recipe:
    """The stages, each in a folder of its own."""

    def __init__(self, text: Path, work: Path, seed: int, device: str):
        self.text, self.work, self.seed, self.device = text, work, seed, device
        # One stage leaves most of a GPU idle, and takes all of two cores.
        self.map = ThreadPoolExecutor(2).map if device == "cuda" else map

    def train(self, name: str, begin: Path | None, *options, later: int = 0) -> Path:
        """The folder of a run of train.py that begins with a model, or with nothing; `later` is
        added to the seed, so that no two refinements in a row see the same batches."""
        print(name, flush=True)
        out = self.work / name
        run("train.py", "--text", self.text, "--out", out, "--work", self.work / f"{name}.state",
            "--seed", self.seed + later, "--device", self.device, *options,
            *(("--refine", begin) if begin else ()))
        return out

    def pair(self, name: str, begin: Path, out: Path, *options, later: int) -> Path:
        """The average of two refinements of one model: one on texts, one on full books."""
        texts, books = self.map(
            lambda kind, asked: self.train(f"{name}_{kind}", begin, *options, *asked, later=later),
            ("texts", "books"), ((), ("--books",)))
        run("average.py", texts, books, "--out", out)
        return out

    def model(self, out: Path) -> Path:
        """The demo model: the base, two refinements in a row, and three pairs."""
        base = self.train("base", None)
        once = self.train("refined", base, *BETWEEN)
        twice = self.train("refined_again", once, *BETWEEN, later=1)
        first = self.pair("first", twice, self.work / "averaged", later=2)
        second = self.pair("second", first, self.work / "averaged_again", later=3)
        return self.pair("last", second, out, later=4)

    def sink_variant(self, begin: Path, out: Path) -> None:
        """From the demo model: its sinks, and a refinement and three pairs that keep them."""
        keep = ("--sinks", "keep")
        sinks = self.train("sinks", begin, "--sinks", "find")
        once = self.train("twin_refined", sinks, *keep, *BETWEEN, later=1)
        first = self.pair("twin_first", once, self.work / "twin_averaged", *keep, later=2)
        second = self.pair("twin_second", first, self.work / "twin_averaged_again", *keep, later=3)
        self.pair("twin_last", second, out, *keep, later=4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, required=True, help="War and Peace, plain UTF-8")
    parser.add_argument("--out", type=Path, required=True, help="folder of the two models")
    parser.add_argument("--work", type=Path, default=Path("build/demo_model"),
                        help="folder of the stages and of resumable states")
    parser.add_argument("--seed", type=int, default=1,
                        help="of the base; later refinements take the next ones")
    parser.add_argument("--device", choices=tuple(FAST), default=at_hand(),
                        help="default: a GPU where one is at hand (%(default)s here)")
    args = parser.parse_args()
    recipe = Recipe(args.text, args.work, args.seed, args.device)
    model = recipe.model(args.out / "demo_model")
    recipe.sink_variant(model, args.out / "demo_model_sinks")


if __name__ == "__main__":
    main()
