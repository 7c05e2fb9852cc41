"""Trains the demo models from nothing.

    python tools/demo_model/train_models.py --text war-and-peace.txt --out assets
    python tools/demo_model/train_models.py --text war-and-peace.txt --out assets --models gated

The sink variant begins with the demo model, which is trained first; the others are trained as the
demo model is, with its tokenizer, and differ from it by their attention alone. A stage is one run
of train.py, by two processes, or of average.py. Interrupted, the same command goes on where it was.
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
# The folder of every model, by the name that --models has for it.
FOLDERS = {"demo": "demo_model", "sinks": "demo_model_sinks",
           "learned-sinks": "demo_model_learned_sinks", "gated": "demo_model_gated"}


def run(script: str, *arguments) -> None:
    """A script that stands beside this one."""
    command = [sys.executable, Path(__file__).with_name(script), *arguments]
    subprocess.run([str(part) for part in command], check=True)


class Recipe:
    """The stages, each in a folder of its own."""

    def __init__(self, args):
        self.text, self.out, self.work = args.text, args.out, args.work
        self.seed, self.device = args.seed, args.device
        self.tokenizer = args.tokenizer or args.out / FOLDERS["demo"]
        # One stage leaves most of a GPU idle, and takes all of two cores.
        self.side_by_side = args.device == "cuda"

    def map(self, function, *arguments) -> list:
        """What a function gives for some arguments, computed at once where that is faster."""
        if not self.side_by_side:
            return list(map(function, *arguments))
        with ThreadPoolExecutor() as pool:
            return list(pool.map(function, *arguments))

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

    def model(self, name: str, *options) -> Path:
        """The demo model, or one of another attention: the base, two refinements in a row, and
        three pairs."""
        stage = "" if name == "demo" else f"{name}_"
        base = self.train(f"{stage}base", None, *options)
        once = self.train(f"{stage}refined", base, *BETWEEN)
        twice = self.train(f"{stage}refined_again", once, *BETWEEN, later=1)
        first = self.pair(f"{stage}first", twice, self.work / f"{stage}averaged", later=2)
        second = self.pair(f"{stage}second", first, self.work / f"{stage}averaged_again", later=3)
        return self.pair(f"{stage}last", second, self.out / FOLDERS[name], later=4)

    def other_attention(self, name: str) -> Path:
        """One whose heads can attend to nothing. It reads by the demo model's tokenizer, which the
        same text and seed would make once more."""
        known = (self.tokenizer / "tokenizer.json").exists()
        return self.model(name, "--attention", name,
                          *(("--tokenizer", self.tokenizer) if known else ()))

    def sink_variant(self, begin: Path) -> None:
        """From the demo model: its sinks, and a refinement and three pairs that keep them."""
        keep, out = ("--sinks", "keep"), self.out / FOLDERS["sinks"]
        sinks = self.train("sinks", begin, "--sinks", "find")
        once = self.train("twin_refined", sinks, *keep, *BETWEEN, later=1)
        first = self.pair("twin_first", once, self.work / "twin_averaged", *keep, later=2)
        second = self.pair("twin_second", first, self.work / "twin_averaged_again", *keep, later=3)
        self.pair("twin_last", second, out, *keep, later=4)

    def models(self, names: list[str]) -> None:
        """The demo model and its sink variant; then the others, side by side on a GPU."""
        demo = self.model("demo") if "demo" in names else self.out / FOLDERS["demo"]
        if "sinks" in names:
            self.sink_variant(demo)
        self.map(self.other_attention, [n for n in names if n not in ("demo", "sinks")])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, required=True, help="War and Peace, plain UTF-8")
    parser.add_argument("--out", type=Path, required=True, help="folder of the models")
    parser.add_argument("--models", nargs="+", choices=tuple(FOLDERS), default=tuple(FOLDERS),
                        help="default: all; `sinks` without `demo` begins with the demo model "
                             "in --out")
    parser.add_argument("--tokenizer", type=Path, metavar="MODEL",
                        help="whose tokenizer learned-sinks and gated take (default: the demo "
                             "model's in --out, or one like it)")
    parser.add_argument("--work", type=Path, default=Path("build/demo_model"),
                        help="folder of the stages and of resumable states")
    parser.add_argument("--seed", type=int, default=1,
                        help="of the base; later refinements take the next ones")
    parser.add_argument("--device", choices=tuple(FAST), default=at_hand(),
                        help="default: a GPU where one is at hand (%(default)s here)")
    args = parser.parse_args()
    Recipe(args).models(args.models)


if __name__ == "__main__":
    main()
