#!/usr/bin/env python3
"""Trains demo models on a GPU machine that has nothing of Keyscope installed, within a time limit, and measures them.

    tools/gpu/train.py pack --text war-and-peace.txt         here: writes build/gpu-train.tar.xz
    python tools/gpu/train.py run --archive gpu-train.tar.xz --out results      there: trains, evaluates, measures heads

`run` needs a Python with PyTorch, Transformers and what Transformers needs. What it leaves under --out is complete after
every part: a folder for each model that was finished, their states, train.json and train.log. Where the limit was too
short, the same command with that folder as --out goes on. Exit status: 0 if every part succeeded, 1 if one did not.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import signal
import sys
import tarfile
import tempfile
import time

from processes import run_together

TOP = pathlib.Path(__file__).resolve().parents[2]
NAME = "gpu-train"
NEEDED = ("torch", "transformers", "tokenizers", "safetensors", "numpy")
# What the cards of the demo models show: every task over 60 prompts, phone books over 240.
TASKS = {"answers": (), "answers, phone books": ("--tasks", "phonebook", "phonebook_any_wording", "--prompts", "240")}


def pack(arguments) -> int:
    """The trainer, the demo models to compare with, and the text."""
    arguments.archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(arguments.archive, "w:xz") as archive:
        def add(path: pathlib.Path, name: str):
            archive.add(path, f"{NAME}/{name}", filter=lambda entry: None if "__pycache__" in entry.name else entry)

        for folder in ("tools/demo_model", "assets/demo_model", "assets/demo_model_sinks"):
            add(TOP / folder, folder)
        for script in ("train.py", "processes.py"):
            add(TOP / "tools/gpu" / script, f"tools/gpu/{script}")
        add(arguments.text, "text.txt")
    print(f"{arguments.archive}: {arguments.archive.stat().st_size / 2**20:.1f} MiB")
    return 0


class Training:
    """The parts of a run, and train.json, which is rewritten after each."""

    def __init__(self, arguments, top: pathlib.Path):
        self.arguments, self.top, self.started, self.parts = arguments, top, time.monotonic(), []
        self.out = arguments.out.resolve()
        self.models, self.work = self.out / "models", self.out / "work"
        for folder in (self.models, self.work):
            folder.mkdir(parents=True, exist_ok=True)

    def script(self, name: str, *words) -> list[str]:
        return [sys.executable, str(self.top / "tools/demo_model" / name), *map(str, words)]

    def part(self, name: str, commands: list[list[str]]) -> bool:
        """Runs commands at once in what is left of the limit; says whether all of them succeeded."""
        left = self.arguments.limit - (time.monotonic() - self.started)
        ended = run_together(commands, max(1.0, left), [dict(os.environ, HF_HUB_OFFLINE="1")] * len(commands), self.out)
        with open(self.out / "train.log", "a") as log:
            for command, end in zip(commands, ended):
                log.write(f"\n$ {' '.join(command)}\n{end.stdout}{end.stderr}")
        failed = [end for end in ended if end.status != 0]
        status = "ok" if not failed else "timeout" if failed[0].status is None else "failed"
        self.parts.append({"name": name, "status": status, "elapsed_s": [round(end.elapsed_s, 1) for end in ended],
                           "reason": failed[0].last_words() if status == "failed" else ""})
        (self.out / "train.json").write_text(json.dumps(self.facts() | {"parts": self.parts}, indent=1) + "\n")
        last = self.parts[-1]
        print(f"{name:24}{status:9}{max(last['elapsed_s']):7.1f} s  {last['reason']}", flush=True)
        return not failed

    def facts(self) -> dict:
        import torch  # by now it is known to be there

        on_gpu = self.arguments.device == "cuda"
        return {"device": torch.cuda.get_device_name() if on_gpu else "cpu", "torch": torch.__version__,
                "models": self.arguments.models, "seed": self.arguments.seed, "limit_s": self.arguments.limit,
                "elapsed_s": round(time.monotonic() - self.started, 1)}

    def run(self) -> bool:
        """Training first; of the models that were finished, answers and heads."""
        a, text, demo = self.arguments, self.top / "text.txt", self.top / "assets/demo_model"
        trained = self.part("training", [self.script(
            "train_models.py", "--text", text, "--out", self.models, "--work", self.work, "--seed", a.seed,
            "--device", a.device, "--tokenizer", demo, "--models", *a.models)])
        finished = sorted(file.parent for file in self.models.glob("*/model.safetensors"))
        if not finished:
            return False
        answered = all([self.part(name, [self.script(
            "evaluate.py", "--text", text, "--model", model, "--device", a.device, "--batch", a.batch, *tasks)
            for model in finished]) for name, tasks in TASKS.items()])
        prompts = sorted((demo / "prompts").glob("*.txt"))
        others = [self.top / "assets" / name for name in ("demo_model", "demo_model_sinks")]
        measured = self.part("heads", [self.script(
            "heads.py", "--prompt", prompt, "--json", self.out / f"heads_{prompt.stem}.json", *others, *finished)
            for prompt in prompts])
        return trained and answered and measured


def run(arguments) -> int:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"train.py: {sys.executable} lacks {', '.join(missing)}", file=sys.stderr)
        return 1
    if arguments.archive is None:
        return 0 if Training(arguments, TOP).run() else 1
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(arguments.archive) as archive:
            archive.extractall(folder, filter="data")
        return 0 if Training(arguments, pathlib.Path(folder) / NAME).run() else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(required=True)
    packing = commands.add_parser("pack", help="write the archive")
    packing.add_argument("--text", type=pathlib.Path, required=True, help="War and Peace, plain UTF-8")
    packing.add_argument("--out", dest="archive", type=pathlib.Path, default=TOP / f"build/{NAME}.tar.xz")
    packing.set_defaults(run=pack)
    training = commands.add_parser("run", help="train, evaluate and measure")
    training.add_argument("--archive", type=pathlib.Path, help="what `pack` wrote (default: this script lies in it)")
    training.add_argument("--models", nargs="+", default=["learned-sinks", "gated"],
                          help="as train_models.py has them (default: learned-sinks gated)")
    training.add_argument("--seed", type=int, default=2, help="default 2, that of the demo model")
    training.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    training.add_argument("--batch", type=int, default=8, help="prompts that are asked at a time (default 8)")
    training.add_argument("--limit", type=float, default=840, help="seconds for everything (default 840)")
    training.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-train-results"))
    training.set_defaults(run=run)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which ends what was started
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
