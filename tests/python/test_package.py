"""The package as such: what it imports, what it exports, its types, and the snippets of its documentation."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import keyscope
import pytest
from conftest import TOP

SOURCE = TOP / "python/src"
# Modules that reading needs; those that record may import more.
READING = ["attention", "dataset", "difference", "display", "hdf5", "layer", "program", "recording", "run", "scores"]


def python(code: str, *arguments: object) -> str:
    """What a fresh Python says to some code."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_reading_imports_nothing_that_it_does_not_need(needle_path):
    code = """
import sys
import keyscope
recording = keyscope.open(sys.argv[1])
recording.difference("keydiff", "sink", layer=1, kv_head=0)
recording["keydiff"].dataset()["keys"].isel(layer=0).load()
recording._repr_html_(), recording["sink"]._repr_html_(), recording["sink"][0][0]._repr_html_()
recording.figure("fig14")
heavy = ("torch", "transformers", "kvpress", "IPython", "ipykernel", "matplotlib", "scipy", "dask")
print(*[name for name in heavy if name in sys.modules])
"""
    assert python(code, needle_path).strip() == ""


def test_what_it_exports_is_there():
    assert "torch" not in python("import keyscope, sys; dir(keyscope); print(*sys.modules)").split()
    for name in keyscope.__all__:
        if keyscope._LATER.get(name) == "record" and importlib.util.find_spec("transformers") is None:
            continue
        assert getattr(keyscope, name).__doc__, name
        assert name in dir(keyscope)
    for first in ("pass", "import keyscope.scores"):
        code = f"import keyscope, sys\n{first}\nsys.modules['torch'] = None\ntry: keyscope.record(1, 2, 3)\n"
        said = python(code + "except ImportError as error: print(error)")
        assert said == "keyscope.record needs torch, which is not installed: pip install 'keyscope[record]'\n"
    with pytest.raises(AttributeError, match="has no attribute 'opem'"):
        keyscope.opem  # noqa: B018


@pytest.mark.parametrize("name", READING)
def test_examples_in_docstrings(name):
    module = importlib.import_module(f"keyscope.{name}")
    assert module.__doc__
    assert doctest.testmod(module).failed == 0


def test_types_hold():
    """mypy --strict on the reading modules; on those that record where what they use is installed."""
    pytest.importorskip("mypy")
    modules = [f"keyscope.{name}" for name in READING]
    if importlib.util.find_spec("torch") and importlib.util.find_spec("transformers"):
        modules = ["keyscope"]
    chosen = [option for module in modules for option in (("-p", module) if module == "keyscope" else ("-m", module))]
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, *chosen]
    done = subprocess.run(command, cwd=TOP / "python", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def snippets(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize(
    "page,language", [("docs/python.md", "py"), ("README.md", "py"), ("python/README.md", "python")]
)
def test_documented_snippets_run(page, language, needle_path, tmp_path, monkeypatch):
    """Those that only read; one that records says so by its first line, and test_record*.py runs it."""
    if page == "README.md":
        pytest.importorskip("matplotlib")
    (tmp_path / "needle.h5").symlink_to(needle_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    found = [text for text in snippets(TOP / page, language) if not text.startswith("# records")]
    assert found
    shared: dict[str, object] = {}
    for text in found:
        exec(compile(text, page, "exec"), shared)
