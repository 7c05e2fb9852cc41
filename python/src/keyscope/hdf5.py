"""Access to HDF5 objects whose errors name the file and the place, what was found and what was expected.

Recordings come from anywhere: what one says of itself is checked where it is read, and links that lead out of the
file are not followed, but for those of a merged study to its cells' recordings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np


class RecordingError(Exception):
    """A recording that cannot be read, or that does not hold what was asked for: one sentence that says which."""


class MissingError(RecordingError, LookupError):
    """A run, layer, head, block or dataset that a recording does not have; the sentence says what it has."""


def open_file(path: Path) -> h5py.File:
    """A recording or another file of Keyscope's, to read from.

    Raises FileNotFoundError, or RecordingError where it is no HDF5 file.
    """
    if not path.is_file():
        part = path.with_name(path.name + ".part")
        hint = f"; there is {part}, of a capture that goes on or was killed" if part.is_file() else ""
        kind = "is a folder, not a recording" if path.is_dir() else "there is no such file"
        raise FileNotFoundError(f"{path}: {kind}{hint}")
    errors: list[Exception] = []
    for locking in (None, False):  # a capture that goes on holds a lock, which reading what it has written does without
        try:
            return h5py.File(path, "r", locking=locking)
        except (OSError, ValueError) as error:  # ValueError: HDF5 is too old to be told
            errors.append(error)
    raise RecordingError(f"{path}: is not a Keyscope recording, or is damaged: {errors[0]}") from errors[0]


def where(node: h5py.Group | h5py.Dataset) -> str:
    """The file and the place in it, as errors name them."""
    return f"{node.file.filename}: {node.name}"


@contextmanager
def reading(place: str) -> Iterator[None]:
    """Turns what HDF5 says of damaged bytes into a RecordingError that names the place."""
    try:
        yield
    except (OSError, KeyError, RuntimeError, UnicodeDecodeError, ValueError) as error:
        raise RecordingError(f"{place}: cannot be read: {error}") from error


def _member(parent: h5py.Group, name: str) -> h5py.Group | h5py.Dataset:
    with reading(where(parent)):
        link = parent.get(name, getlink=True)
        if link is None:
            raise MissingError(f"{where(parent)}: has no {name!r}")
        if not isinstance(link, h5py.HardLink):
            raise RecordingError(f"{where(parent)}: {name!r} is a link; a recording holds all of its data itself")
        return parent[name]


def names(parent: h5py.Group) -> list[str]:
    """What is directly below a group."""
    with reading(where(parent)):
        return list(parent)


def has(parent: h5py.Group, name: str) -> bool:
    """Whether something of that name is directly below a group."""
    return name in names(parent)


def attributes(node: h5py.Group | h5py.Dataset) -> list[str]:
    """The names of its attributes."""
    with reading(where(node)):
        return list(node.attrs)


def group(parent: h5py.Group, name: str) -> h5py.Group:
    """A group directly below another one.

    Raises RecordingError where there is none, or where it is something else.
    """
    found = _member(parent, name)
    if not isinstance(found, h5py.Group):
        raise RecordingError(f"{where(parent)}: {name!r} is a dataset; expected a group")
    return found


def dataset(parent: h5py.Group, name: str, kinds: str = "", n_axes: int | None = None) -> h5py.Dataset:
    """A dataset directly below a group.

    kinds: NumPy's letters of the element types that are accepted, such as "iu" for integers; all if empty
    n_axes: the number of axes that it must have

    Raises RecordingError where there is none, or where it has another type or number of axes.
    """
    found = _member(parent, name)
    if not isinstance(found, h5py.Dataset):
        raise RecordingError(f"{where(parent)}: {name!r} is a group; expected a dataset")
    with reading(where(found)):
        if found.external or (found.is_virtual and not _is_of_study(found)):
            raise RecordingError(f"{where(found)}: its data lie in another file; a recording holds all of its own")
        wrong = (kinds and found.dtype.kind not in kinds) or (n_axes is not None and found.ndim != n_axes)
        if wrong:
            axes = "any number of axes" if n_axes is None else f"{n_axes} axes" if n_axes != 1 else "one axis"
            wanted = {"iu": "integers", "f": "numbers of floating point"}.get(kinds, "elements")
            raise RecordingError(f"{where(found)}: found {found.dtype} {found.shape}; expected {wanted} in {axes}")
        return found


# As `keyscope sweep run` names the recordings that a merged study refers to: no other file is ever read.
_STUDY_RESULT = re.compile(r"(^|/)results/[0-9a-f]{2}/[0-9a-f]{32}\.h5$")


def _is_of_study(virtual: h5py.Dataset) -> bool:
    """Whether a virtual dataset stands for one of a study's results; raises RecordingError where that is gone."""
    sources = virtual.virtual_sources()
    if len(sources) != 1 or not _STUDY_RESULT.search(sources[0].file_name):
        return False
    file = Path(virtual.file.filename).parent / sources[0].file_name
    if not file.is_file():  # HDF5 would read zeros
        raise RecordingError(
            f"{where(virtual)}: its numbers lie in {file}, and there is no such file; merge the study again, with "
            "--copy for a file that stands alone"
        )
    return True


def read(of: h5py.Dataset, at: Any = ()) -> Any:
    """Elements of a dataset, chosen as h5py does. Raises RecordingError where the bytes are damaged."""
    with reading(where(of)):
        return of[at]


def text(node: h5py.Group | h5py.Dataset, name: str, otherwise: str | None = None) -> str:
    """A text attribute; `otherwise` where there is none. Bytes that are no UTF-8 become U+FFFD."""
    with reading(f"{where(node)}: attribute {name!r}"):
        value = node.attrs.get(name, otherwise)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        raise RecordingError(f"{where(node)}: attribute {name!r} is {value!r}; expected text")
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def integer(node: h5py.Group, name: str, low: int, high: int, otherwise: int | None = None) -> int:
    """An integer attribute within [low, high]; `otherwise` where there is none."""
    with reading(f"{where(node)}: attribute {name!r}"):
        value = node.attrs.get(name, otherwise)
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if not isinstance(value, (int, np.integer)) or not low <= value <= high:
        found = "is not there" if value is None else f"is {value!r}"
        raise RecordingError(f"{where(node)}: attribute {name!r} {found}; expected an integer from {low} to {high}")
    return int(value)


def json_text(node: h5py.Group, name: str, otherwise: str | None = None) -> Any:
    """What a text attribute holds as JSON; raises RecordingError where it holds none."""
    written = text(node, name, otherwise)
    try:
        return json.loads(written)
    except ValueError as error:
        raise RecordingError(f"{where(node)}: attribute {name!r} is no JSON: {error}") from error
