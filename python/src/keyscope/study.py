"""Merged studies: what `keyscope sweep merge` makes of many cells.

    python -m keyscope.study STUDY.h5 TABLE.parquet
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import h5py
import numpy as np
import pandas as pd

from . import hdf5
from .hdf5 import RecordingError

def study_table(path: str | os.PathLike[str]) -> pd.DataFrame:
    """A row for every cell of a merged study: what it is about, whether it is done, and what came of it.

    What a cell has not is NaN, or an empty text.

    Raises RecordingError where the file is no merged study.

    >>> study_table("needles.h5").groupby(["policy", "budget"])["recall"].mean()  # doctest: +SKIP
    """
    with hdf5.open_file(Path(path)) as file:
        if "keyscope_study" not in hdf5.attributes(file):
            raise RecordingError(f"{path}: no merged study; expected a file that `keyscope sweep merge` made")
        cells = hdf5.group(hdf5.group(file, "study"), "cells")
        with hdf5.reading(f"{hdf5.where(cells)}: attribute 'columns'"):
            columns = [str(name) for name in cells.attrs["columns"]]
        return pd.DataFrame({name: _column(hdf5.dataset(cells, name, n_axes=1)) for name in columns})


def _column(dataset: h5py.Dataset) -> np.ndarray:
    values: np.ndarray = hdf5.read(dataset)
    if values.dtype.kind != "S":
        return values
    return np.char.decode(values, "utf-8", "replace").astype(object)


def _write_parquet(table: pd.DataFrame, path: Path) -> None:
    """Beside it first, so that what is there under that name is always whole."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        table.to_parquet(part, index=False)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _main(words: list[str]) -> int:
    if len(words) != 2:
        print("usage: python -m keyscope.study STUDY.h5 TABLE.parquet", file=sys.stderr)
        return 2
    _write_parquet(study_table(words[0]), Path(words[1]))
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
