"""A recording, as `keyscope capture`, `keyscope replay` or `keyscope.record` wrote it.

Everything is read when it is asked for: opening a recording reads its attributes and the prompt, and a head's keys
are read with `head.keys`. The format is docs/recording.md's. Of a capture that was killed (`OUT.part`), or cut short,
what reached the disk is shown, up to the last counted block, as the program shows it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pandas as pd

from . import difference as differences
from . import display, hdf5
from . import program as programs
from .hdf5 import MissingError, RecordingError
from .run import Run

if TYPE_CHECKING:
    from .attention import Rules

FORMAT = 1  # attribute `keyscope_format` that this package reads
_MOST = 1 << 31


@dataclass(frozen=True)
class Model:
    """What a recording says of the model. Layers may differ from it: a Layer says what it has itself."""

    name: str
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    config: Mapping[str, Any]  # config.json as it was read


def open(path: str | os.PathLike[str]) -> Recording:
    """Opens a recording, or the `.part` of one that goes on or was killed; of a merged study the first one that it
    has, or "FILE::ENTRY".

    Raises FileNotFoundError where there is no such file, and RecordingError where the file is no recording, or one
    that this version does not read.

    >>> with keyscope.open("needle.h5") as recording:  # doctest: +SKIP
    ...     recording["keydiff"][1][0].keys.shape
    (1023, 32)
    """
    return Recording(path)


class Recording:
    """One file: a prompt, and one run per policy. `recording["keydiff"]` is a run.

    Closed with `close()`, or at the end of a `with`. A pickle of it, or of its runs, layers, heads and Datasets, holds
    its path, and opens it anew where it is loaded.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()  # for later, wherever the process works then
        file, self._entry = _split(self.path)
        self._file = hdf5.open_file(file)
        try:
            self._read()
        except BaseException:
            self._file.close()
            raise

    def _read(self) -> None:
        entry = _read_entry(self._file, self._entry)
        provenance = hdf5.group(entry, "provenance")
        self.complete: bool = hdf5.integer(provenance, "complete", 0, 1) == 1
        self.provenance: Mapping[str, Any] = MappingProxyType(_attributes(provenance))
        self.model = _read_model(hdf5.group(entry, "model"))
        tokens = hdf5.group(entry, "tokens")
        self.n_prompt: int = hdf5.integer(tokens, "n_prompt", 1, _MOST)
        self._prompt = read_tokens(tokens, "id", "text", self.n_prompt)
        runs = hdf5.group(entry, "runs")
        names = _ordered_runs(runs)
        shown = _shown_layers(runs, names, self.complete)
        self.attention_rules: dict[int, Rules] = {}  # of layers, as they are found out
        self.runs: Mapping[str, Run] = MappingProxyType({name: Run(self, name, shown) for name in names})

    def __reduce__(self) -> tuple[Any, ...]:
        return Recording, (self.path,)

    def __getitem__(self, run: str) -> Run:
        """A run by its name; raises MissingError naming the runs that there are."""
        found = self.runs.get(run)
        if found is None:
            raise MissingError(f"{self.path}: there is no run {run!r}; its runs are: {', '.join(self.runs)}")
        return found

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs.values())

    def __len__(self) -> int:
        return len(self.runs)

    def __contains__(self, run: object) -> bool:
        return run in self.runs

    @property
    def layers(self) -> list[int]:
        """The recorded layers that have keys, ascending."""
        return next(iter(self)).layers

    @property
    def keyless_layers(self) -> list[int]:
        """The recorded layers that have no keys (linear attention), ascending."""
        return next(iter(self)).keyless_layers

    @cached_property
    def tokens(self) -> pd.DataFrame:
        """The prompt: a row per token, by `position`, with `id` and `text`.

        Text is what the token adds to the decoded text; bytes that are no UTF-8 by themselves are shown as U+FFFD.
        Without a tokenizer it is the id, ⟨617⟩.
        """
        ids, texts = self._prompt
        return pd.DataFrame({"id": ids, "text": texts}, index=pd.RangeIndex(len(ids), name="position"))

    @property
    def full_cache(self) -> Run | None:
        """The run `none` that read the whole prompt, which others are measured against; None without one.

        One with a quantised cache is taken only where there is no other.
        """
        finished = [run for run in self if run.policy == "none" and run.n_tokens >= self.n_prompt]
        plain = [run for run in finished if run.cache_dtype == "model"]
        return next(iter(plain or finished), None)

    # Each says itself what it does; its parameter `recording` is this one.
    difference = differences.difference
    analyze = programs.analyze
    figure = programs.figure

    def close(self) -> None:
        """Closes the file; what was read stays."""
        self._file.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def require_open(self) -> None:
        """Raises RecordingError where the recording was closed."""
        if not self._file:
            raise RecordingError(f"{self.path}: the recording is closed; open it again with keyscope.open")

    def _group(self, run: str) -> h5py.Group:
        self.require_open()
        return hdf5.group(self._file["entry/runs"], run)

    def __repr__(self) -> str:
        layers = f"{len(self.layers)} layers" if len(self.layers) != 1 else "1 layer"
        state = "" if self.complete else ", not completed"
        return (
            f"<keyscope.Recording {self.path.name!r}: {self.model.name or 'a model'}, {self.n_prompt} prompt tokens,"
            f" {layers}, runs {', '.join(self.runs)}{state}>"
        )

    def _repr_html_(self) -> str:
        return display.recording_html(self)


def _split(path: Path) -> tuple[Path, str]:
    """A file, and which of its recordings is meant: FILE::ENTRY, the first where none is named."""
    name, separator, entry = path.name.rpartition("::")
    if not separator or path.is_file():
        return path, "entry"
    return path.with_name(name), entry


def _read_entry(file: h5py.File, name: str) -> h5py.Group:
    attributes = hdf5.attributes(file)
    if "keyscope_figures" in attributes and "keyscope_format" not in attributes:
        raise RecordingError(f"{file.filename}: a figure file is not a recording; open the one it was made from")
    if "keyscope_format" not in attributes or not hdf5.has(file, "entry"):
        raise RecordingError(
            f"{file.filename}: not a Keyscope recording (no attribute 'keyscope_format', or no group 'entry')"
        )
    version = hdf5.integer(file, "keyscope_format", -_MOST, _MOST)
    if version != FORMAT:
        raise RecordingError(
            f"{file.filename}: keyscope_format is {version}; this version of keyscope reads {FORMAT}: install the "
            "one that the recording was written with"
        )
    entry = hdf5.group(file, name)
    if not hdf5.has(entry, "runs"):
        raise RecordingError(f"{file.filename}: holds no runs; a recording has one for each policy")
    return entry


def _attributes(group: h5py.Group) -> dict[str, Any]:
    """Texts and numbers as Python's."""
    found: dict[str, Any] = {}
    for name in sorted(hdf5.attributes(group)):
        with hdf5.reading(f"{hdf5.where(group)}: attribute {name!r}"):
            value = group.attrs[name]
        found[name] = value.item() if isinstance(value, np.generic) else value
    found.pop("NX_class", None)
    return found


def _read_model(group: h5py.Group) -> Model:
    config = hdf5.json_text(group, "config")
    counts = {name: hdf5.integer(group, name, 1, 1 << 20) for name in ("n_layers", "n_heads", "n_kv_heads", "head_dim")}
    if counts["n_heads"] % counts["n_kv_heads"]:
        raise RecordingError(
            f"{hdf5.where(group)}: {counts['n_heads']} query heads do not divide over {counts['n_kv_heads']} KV heads"
        )
    return Model(hdf5.text(group, "name", ""), **counts, config=config if isinstance(config, dict) else {})


def read_tokens(group: h5py.Group, ids: str, text: str, n: int) -> tuple[np.ndarray[Any, Any], list[str]]:
    """The first n tokens of the datasets `ids`, `text` and `text`_offset: their ids, and what each adds to the text."""
    id_list, bytes_, offset = (
        hdf5.dataset(group, ids, "iu", 1),
        hdf5.dataset(group, text, "iu", 1),
        hdf5.dataset(group, f"{text}_offset", "iu", 1),
    )
    if len(id_list) < n or len(offset) < n + 1:
        raise RecordingError(
            f"{hdf5.where(id_list)}: found {len(id_list)} tokens and {len(offset)} offsets; expected {n}"
        )
    found, ends = hdf5.read(id_list, slice(n)), hdf5.read(offset, slice(n + 1))
    if len(ends) and (ends[0] != 0 or (np.diff(ends) < 0).any() or ends[-1] > len(bytes_)):
        raise RecordingError(f"{hdf5.where(offset)}: offsets must ascend from 0 to {len(bytes_)}")
    if not len(bytes_):
        return found, [f"⟨{i}⟩" for i in found]
    written = hdf5.read(bytes_).tobytes()
    return found, [written[a:b].decode("utf-8", "replace") for a, b in zip(ends[:-1], ends[1:])]


def _ordered_runs(runs: h5py.Group) -> list[str]:
    """Names in the order of recording; where a file does not say, `none` first."""
    order = []
    for name in hdf5.names(runs):
        run = hdf5.group(runs, name)
        order.append((hdf5.integer(run, "index", -1, _MOST, -1 if name == "none" else 0), name))
    if not order:
        raise RecordingError(f"{hdf5.where(runs)}: holds no run")
    return [name for _, name in sorted(order)]


def _is_keyless(layer: h5py.Group) -> bool:
    return hdf5.integer(layer, "keyless", 0, 1, 0) == 1


def _layers_of(run: h5py.Group) -> list[int]:
    found = [re.fullmatch(r"layer_(\d{2,})", name) for name in hdf5.names(run)]
    layers = sorted(int(match[1]) for match in found if match)
    if not layers:
        raise RecordingError(f"{hdf5.where(run)}: holds no layer")
    return layers


def _shown_layers(runs: h5py.Group, names: list[str], complete: bool) -> dict[int, bool]:
    """The layers that can be read in every run, ascending, and whether each has keys.

    Of a recording that grew layer by layer and was cut short, those that all runs have been through; or the first one
    that has keys, as far as it came.
    """
    first = hdf5.group(runs, names[0])
    layers = _layers_of(first)
    keyed = {layer: not _is_keyless(hdf5.group(first, f"layer_{layer:02}")) for layer in layers}
    if not any(keyed.values()):
        raise RecordingError(f"{hdf5.where(first)}: none of its layers has keys")
    finished = set(layers)
    for name in names:
        run = hdf5.group(runs, name)
        if _layers_of(run) != layers:
            raise RecordingError(f"{hdf5.where(run)}: holds other layers than run {names[0]}")
        if not complete and hdf5.has(run, "layers_complete"):
            finished &= set(hdf5.read(hdf5.dataset(run, "layers_complete", "iu", 1)).tolist())
    shown = {layer: has_keys for layer, has_keys in keyed.items() if layer in finished}
    if not any(shown.values()):
        shown[next(layer for layer in layers if keyed[layer])] = True
    return dict(sorted(shown.items()))
