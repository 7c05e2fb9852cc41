"""Averages the weights of two models that were refined from the same one.

    python tools/demo_model/average.py build/texts build/books --out assets/demo_model

Two refinements that end in one valley of the loss err on different questions; their average
answers more than either (Wortsman et al., 2022, "Model soups", arXiv 2203.05482).
"""

import argparse
import shutil
from pathlib import Path

from checkpoint import load_config, load_model, save_weights

LOG = "training_log.jsonl"


def course(one: Path, other: Path) -> str:
    """The stages that both went through, then what is left of each."""
    first, second = ((folder / LOG).read_text().splitlines(keepends=True) for folder in (one, other))
    shared = 0
    while shared < min(len(first), len(second)) and first[shared] == second[shared]:
        shared += 1
    return "".join(first + second[shared:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", type=Path, nargs=2, metavar="MODEL")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    one, other = args.models
    vocabularies = [(folder / "tokenizer.json").read_bytes() for folder in args.models]
    if vocabularies[0] != vocabularies[1]:
        parser.error(f"{one} and {other} have different tokenizers: their weights cannot be averaged")
    cfg = load_config(one)
    if cfg != load_config(other):
        parser.error(f"{one} and {other} have different shapes: their weights cannot be averaged")
    # Without weights, so that what is stopped here is no model.
    shutil.copytree(one, args.out, ignore=shutil.ignore_patterns("*.safetensors"), dirs_exist_ok=True)
    first, second = (load_model(folder).state_dict() for folder in (one, other))
    save_weights({name: w.lerp(second[name], 0.5) for name, w in first.items()}, cfg, args.out)
    (args.out / LOG).write_text(course(one, other))


if __name__ == "__main__":
    main()
