"""Recordings that the tests of the Python package read: made by the program, once each, or by hand.

KEYSCOPE_PROGRAM=build/release/keyscope python -m pytest tests/python
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "python/src"))

import keyscope  # noqa: E402
from keyscope.program import find_program  # noqa: E402

DEMO = TOP / "assets/demo_model"
PROMPT = DEMO / "prompts/needle.txt"
TINY_MODELS = TOP / "tests/capture/model/goldens"

Capture = Callable[..., Path]


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def program() -> Path:
    """The program. There is nothing to test without it."""
    return find_program()


@pytest.fixture(scope="session")
def run_keyscope(program: Path) -> Callable[..., str]:
    """Runs the program; what it wrote to stdout."""

    def run(*arguments: object) -> str:
        command = [program, *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return run


@pytest.fixture(scope="session")
def capture(run_keyscope: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """capture(name, option, …): a recording of the demo model, made once per name."""
    folder = tmp_path_factory.mktemp("recordings")

    def made(name: str, *options: object) -> Path:
        path = folder / f"{name}.h5"
        if not path.exists():
            prompt = () if "--model" in options else ("--model", DEMO, "--prompt-file", PROMPT)
            run_keyscope("capture", *prompt, *options, "--quiet", "--out", path)
        return path

    return made


@pytest.fixture(scope="session")
def tiny(capture: Capture, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """tiny(family, name, option, …): a recording of one of the tiny models among the goldens, over 60 ids."""
    ids = tmp_path_factory.mktemp("ids") / "ids.json"
    ids.write_text(json.dumps([(7 * i + i // 5) % 47 + 1 for i in range(60)]))

    def made(family: str, name: str, *options: object) -> Path:
        model = TINY_MODELS / f"tiny_{family}.gguf"
        runs = ("--policy", "none", "--policy", "keydiff", "--policy", "h2o", "--budget", 16, "--block", 8)
        return capture(f"{family}-{name}", "--model", model, "--prompt-ids", ids, *runs, *options)

    return made


@pytest.fixture(scope="session")
def needle_path(capture: Capture) -> Path:
    """Four policies on a thousand tokens, with generation."""
    policies = [option for name in ("none", "keydiff", "sink", "snapkv") for option in ("--policy", name)]
    recorded = ("--record", "keys,queries,values,value-norms,logits")
    return capture("needle", *policies, "--budget", 256, "--block", 64, "--generate", 12, *recorded)


@pytest.fixture
def needle(needle_path: Path):
    with keyscope.open(needle_path) as recording:
        yield recording


@pytest.fixture(scope="session")
def replayed_path(needle_path: Path, run_keyscope: Callable[..., str]) -> Path:
    path = needle_path.with_name("replayed.h5")
    if not path.exists():
        runs = ("--policy", "none", "--policy", "keydiff", "--policy", "h2o")
        run_keyscope("replay", needle_path, *runs, "--budget", 128, "--block", 64, "--quiet", "--out", path)
    return path
