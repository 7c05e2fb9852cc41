"""Trains the demo model and its twin with attention sinks from nothing.

    python tools/demo_model/train_both.py --text war-and-peace.txt --out assets

The base first, then what becomes of it: the model, and last the twin. Each stage is one run of
train.py, by two processes. Interrupted, the same command goes on where it was.
"""

import argparse
import subprocess
import sys
from pathlib import Path

# The models to keep.
MADE = ("demo_model", "demo_model_sinks")
# Of each stage its name, the one that it begins with, what is added to the seed, options.
STAGES = (
    ("base", None, 0, ()),
    ("refined", "base", 0, ()),
    ("demo_model", "refined", 1, ()),
    ("sinks", "base", 0, ("--sinks", "find")),
    ("kept", "sinks", 0, ("--sinks", "keep")),
    ("demo_model_sinks", "kept", 1, ("--sinks", "keep")),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, required=True, help="War and Peace, plain UTF-8")
    parser.add_argument("--out", type=Path, required=True, help="folder of the two models")
    parser.add_argument("--work", type=Path, default=Path("build/demo_model"),
                        help="folder of the stages before and of resumable states")
    parser.add_argument("--seed", type=int, default=1,
                        help="of the base; the last stages take the next one")
    args = parser.parse_args()

    def folder(name: str) -> Path:
        return (args.out if name in MADE else args.work) / name

    for name, base, later, options in STAGES:
        command = [sys.executable, Path(__file__).with_name("train.py"), "--text", args.text,
                   "--out", folder(name), "--work", args.work / f"{name}.state",
                   "--seed", args.seed + later, *options]
        if base:
            command += ["--refine", folder(base)]
        print(name, flush=True)
        subprocess.run([str(part) for part in command], check=True)


if __name__ == "__main__":
    main()
