"""The program `keyscope`: what it computes (`analyze`) and draws (`figure`) of a recording.

It is found by the argument `program`, else by the variable KEYSCOPE_PROGRAM, else on the PATH, else as
build/release/keyscope of the checkout that this package lies in.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .hdf5 import RecordingError
from .run import Run

if TYPE_CHECKING:
    from .recording import Recording

_PATIENCE_S = 2.0  # what takes less shows no progress
_GRACE_S = 5.0  # that an interrupted program has to end by itself
_ERASED = re.compile(r"[^\r\n]*\r(?:\x1b\[K)?")  # a line of progress that the next one was drawn over


class ProgramError(RuntimeError):
    """The program was not found, or failed; then this is what it said."""


def find_program(program: str | os.PathLike[str] | None = None) -> Path:
    """The program that this package runs; see the module. Raises ProgramError where there is none."""
    named = program if program is not None else os.environ.get("KEYSCOPE_PROGRAM") or None
    if named is not None:
        path = Path(named)
        if path.is_file() and os.access(path, os.X_OK):
            return path.resolve()
        by = "program=" if program is not None else "KEYSCOPE_PROGRAM="
        raise ProgramError(f"{by}{named}: is no program that can be run; expected the path of keyscope")
    on_path = shutil.which("keyscope")
    if on_path:
        return Path(on_path)
    checkout = Path(__file__).resolve().parents[3]
    built = checkout / "build/release/keyscope"
    if (checkout / "CMakePresets.json").is_file() and os.access(built, os.X_OK):
        return built
    raise ProgramError(
        "the program keyscope was not found: build it with ./run build, then put it on the PATH or name it in "
        "KEYSCOPE_PROGRAM or program="
    )


def run_program(arguments: Sequence[str], program: str | os.PathLike[str] | None = None) -> str:
    """Runs the program and returns what it wrote to stdout.

    Its progress appears on stderr where it takes longer than a moment. Raises ProgramError with the program's own
    message where it fails; an interrupt ends the program as well.
    """
    command = [str(find_program(program)), *arguments]
    terminal, its_end = os.openpty()  # it draws its progress on terminals only
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=its_end)
    except OSError as error:
        os.close(terminal)
        raise ProgramError(f"{command[0]}: cannot be run: {error.strerror}") from error
    finally:
        os.close(its_end)
    assert child.stdout is not None
    try:
        output, said = _collect(child.stdout, terminal)
        status = child.wait()
    except BaseException:  # KeyboardInterrupt above all
        _end(child)
        raise
    finally:
        child.stdout.close()
        os.close(terminal)
    lines = _ERASED.sub("", said.replace("\r\n", "\n")).strip().split("\n")
    notes = [line for line in lines if line.startswith("keyscope: note: ")]
    if status:
        message = " ".join(line for line in lines if line not in notes).strip().removeprefix("keyscope: ")
        raise ProgramError(message or f"{' '.join(command)}: ended with status {status} and said nothing")
    for note in notes:
        print(note, file=sys.stderr)
    return output.decode("utf-8", "replace")


def _collect(stdout: IO[bytes], terminal: int) -> tuple[bytes, str]:
    """Reads both until they end; passes what comes on the terminal on, once that has taken long enough to matter."""
    started, output, said, shown = time.monotonic(), bytearray(), bytearray(), 0
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        selector.register(terminal, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                try:
                    some = os.read(key.fd, 1 << 16)
                except OSError:  # what a terminal says when nobody has its other end any more
                    some = b""
                if not some:
                    selector.unregister(key.fileobj)
                elif key.fd == terminal:
                    said += some
                else:
                    output += some
            if time.monotonic() - started > _PATIENCE_S and b"\r\x1b[K" in said[shown:]:
                sys.stderr.write(said[shown:].decode("utf-8", "replace"))
                sys.stderr.flush()
                shown = len(said)
    return bytes(output), said.decode("utf-8", "replace")


def _end(child: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C does, and where that is not heeded, for good."""
    child.send_signal(signal.SIGINT)
    try:
        child.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _flags(option: str, choice: Any) -> list[str]:
    """An option as the program takes it: `--run` for each run, indices as "0,3,5-9".

    Raises ValueError where nothing was chosen.
    """
    several = isinstance(choice, Iterable) and not isinstance(choice, (str, Run))
    texts = [one.name if isinstance(one, Run) else str(one) for one in (choice if several else [choice])]
    if not any(texts):
        raise ValueError(f"{option} is {choice!r}, which chooses nothing; name one, or leave it out")
    flag = "--" + option.replace("_", "-")
    return [part for text in (texts if option == "run" else [",".join(texts)]) for part in (flag, text)]


def analyze(
    recording: Recording,
    run: str | Run | Sequence[str | Run] | None = None,
    layers: str | Sequence[int] | None = None,
    kv_heads: str | Sequence[int] | None = None,
    bounds: bool = True,
    program: str | os.PathLike[str] | None = None,
) -> pd.DataFrame:
    """The measures of `keyscope analyze`, a row per run, layer and KV head.

    run: one or several, or their names; all by default
    layers, kv_heads: indices, or a text such as "0,3,5-9"; all by default
    bounds: False leaves out what takes time with the square of the prompt
    program: see the module

    Columns are the fields of docs/analyze.md: first those of the run, then those of the head. What does not exist is
    NaN. `retained` holds arrays of positions. `attrs["routers"]` has the routers of each run, by its name.

    Raises ProgramError with the program's message, ValueError where a choice is empty.
    """
    arguments = ["analyze", str(recording.path), "--json", "-"]
    for option, choice in (("run", run), ("layers", layers), ("kv_heads", kv_heads)):
        if choice is not None:
            arguments += _flags(option, choice)
    if not bounds:
        arguments.append("--no-bounds")
    written = run_program(arguments, program)
    try:
        analyzed = json.loads(written)["runs"]
    except (ValueError, KeyError, TypeError):
        raise ProgramError(f"{find_program(program)}: is not keyscope: its answer to analyze holds no runs") from None
    of_run = ("run", "policy", "budget", "block_size", "kl_nats", "top1_agreement")
    rows = [{**{name: of.get(name) for name in of_run}, **head} for of in analyzed for head in of["heads"]]
    frame = pd.DataFrame(rows)
    for name in frame.columns:
        if name == "retained":
            frame[name] = [np.asarray(positions, dtype=np.int64) for positions in frame[name]]
        elif frame[name].isna().all():
            frame[name] = np.nan
    frame.attrs["routers"] = {of["run"]: of["routers"] for of in analyzed if of.get("routers")}
    return frame


class Figure:
    """A drawn figure: a notebook shows it, `save` writes it."""

    def __init__(self, svg: str, arguments: Sequence[str], program: str | os.PathLike[str] | None) -> None:
        self.svg = svg  # one element <svg>, whose identifiers are its own among those of a page
        self._arguments, self._program = list(arguments), program

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str], force: bool = False, dpi: int | None = None) -> None:
        """Writes the figure; the name's ending selects .svg, .png, .pdf, .h5 or .apng, as for `keyscope figure`.

        force: replace an existing file; dpi: of a .png, 300 by default

        Raises ProgramError where the file exists, or cannot be written.
        """
        extra = ["--out", str(path)] + (["--force"] if force else []) + (["--dpi", str(dpi)] if dpi else [])
        run_program([*self._arguments, *extra], self._program)

    def __repr__(self) -> str:
        command, path, *rest = self._arguments
        return f"<keyscope.Figure: {' '.join([command, Path(path).name, *rest])}>"


def figure(recording: Recording, name: str, program: str | os.PathLike[str] | None = None, **options: Any) -> Figure:
    """A figure of `keyscope figure`, drawn as SVG.

    name: of docs/figures.md, such as "keyspace" or "fig14"
    options: those of the command, with _ for -: run="keydiff", recording["keydiff"] or several in a list, layer=1,
        kv_head=0, layers=[0, 1], queries=True, dark=True

    >>> recording.figure("keyspace", run="keydiff", layer=1, kv_head=0)  # doctest: +SKIP

    Raises ProgramError with the program's message, ValueError where a choice is empty.
    """
    program = find_program(program)  # which save() runs as well, wherever the process works then
    arguments = ["figure", str(recording.path), name]
    for option, value in options.items():
        if option in ("out", "force", "help"):
            raise RecordingError(f"figure: {option} is of the command line only; write a figure with save()")
        if value is True:
            arguments.append("--" + option.replace("_", "-"))
        elif value is not None and value is not False:
            arguments += _flags(option, value)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "figure.svg")
        run_program([*arguments, "--out", str(out)], program)
        if not out.is_file():
            raise ProgramError(f"{program}: drew nothing; {name!r} names no figure, or this is not keyscope")
        svg = out.read_text(encoding="utf-8")
    return Figure(_for_pages(svg), arguments, program)


def _for_pages(svg: str) -> str:
    """Without its XML declaration, with identifiers that no other figure of a page has, and cells that stay sharp."""
    svg = svg[svg.index("<svg") :].replace("<svg ", '<svg style="image-rendering:pixelated" ', 1)
    prefix = "k" + sha256(svg.encode()).hexdigest()[:8] + "-"
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    return re.sub(r'((?:xlink:)?href="|url\()#', rf"\1#{prefix}", svg)
