"""The notebooks of docs/notebooks: they run, and what is committed of them is what they show.

python tests/python/test_notebooks.py     # runs them and writes their outputs anew
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

TOP = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((TOP / "docs/notebooks").glob("*.ipynb"))


def run(path: Path, folder: Path) -> nbformat.NotebookNode:
    """Runs a notebook in `folder`/docs/notebooks, beside which the checkout's assets are."""
    place = folder / "docs/notebooks"
    place.mkdir(parents=True)
    (folder / "assets").symlink_to(TOP / "assets")
    os.environ.pop("MPLBACKEND", None)  # notebooks draw inline
    os.environ["PYTHONPATH"] = str(TOP / "python/src")
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": place}}).execute()
    for cell in notebook.cells:  # a slow machine shows progress where a fast one has none to show
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if "\x1b[K" not in output.get("text", "")]
    return notebook


def text_of(notebook: nbformat.NotebookNode) -> str:
    """Whatever its outputs say as text."""
    said = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            said.append(output.get("text", ""))
            said += [str(data) for kind, data in output.get("data", {}).items() if not kind.startswith("image/png")]
    return "\n".join(said)


def kinds(notebook: nbformat.NotebookNode) -> list[list[str]]:
    """Of every cell with code, the kinds of its outputs."""
    return [
        sorted(kind for output in cell.outputs for kind in output.get("data", {output.output_type: ""}))
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_shows_what_is_committed(path, tmp_path):
    if path.stem == "any-model":
        pytest.importorskip("transformers")
    committed = nbformat.read(path, as_version=4)
    ran = run(path, tmp_path)
    assert kinds(ran) == kinds(committed)
    assert any("image/png" in of for of in kinds(ran)) or path.stem == "any-model"
    for cell in ran.cells:
        assert not [output for output in cell.get("outputs", []) if output.get("name") == "stderr"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_committed_names_no_place_of_a_machine(path):
    notebook = nbformat.read(path, as_version=4)
    assert not re.search(r"(?<![\w.])/(home|root|tmp|work|usr|Users)/", text_of(notebook))
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert path.stat().st_size < 400_000
    assert all(
        cell.outputs
        for cell in notebook.cells
        if cell.cell_type == "code" and not cell.source.startswith(("from", "import"))
    )


def readmes_example() -> str:
    readme = (TOP / "README.md").read_text(encoding="utf-8")
    (example,) = [text for text in re.findall(r"^```py\n(.*?)^```$", readme, re.M | re.S) if "barh" in text]
    return example


def test_the_readmes_example_is_a_cell_of_five_lines():
    cells = [cell.source for cell in nbformat.read(TOP / "docs/notebooks/difference.ipynb", as_version=4).cells]
    assert readmes_example().strip() in cells
    assert len(readmes_example().strip().splitlines()) <= 5
    assert (TOP / "docs/images/python-difference.png").read_bytes().startswith(b"\x89PNG")


def write_outputs() -> None:
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            notebook = run(path, Path(folder))
        notebook.metadata = {"kernelspec": notebook.metadata.kernelspec, "language_info": {"name": "python"}}
        for cell in notebook.cells:
            cell.metadata = {}
        nbformat.write(notebook, path)
        print(path.relative_to(TOP), path.stat().st_size, "bytes")
    draw_readmes_picture()


def draw_readmes_picture() -> None:
    """docs/images/python-difference.png, by the README's example on a recording of the first notebook's."""
    import matplotlib

    matplotlib.use("Agg")
    with tempfile.TemporaryDirectory() as folder:
        run(TOP / "docs/notebooks/difference.ipynb", Path(folder))
        os.chdir(Path(folder, "docs/notebooks"))
        names: dict[str, Any] = {}
        exec(readmes_example(), names)
        os.chdir(TOP)
        names["bars"].figure.savefig(
            "docs/images/python-difference.png", dpi=160, bbox_inches="tight", pil_kwargs={"optimize": True}
        )


if __name__ == "__main__":
    sys.exit(write_outputs())
