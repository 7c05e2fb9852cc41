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

from .hdf5 import RecordingError

_ROWS = ("cell", "state")


def study_table(path: str | os.PathLike[str]) -> pd.DataFrame:
    """A row for every cell of a merged study: what it is about, whether it is done, and what came of it.

    What a cell has not is NaN, or an empty text.

    Raises RecordingError where the file is no merged study.

    >>> study_table("needles.h5").groupby(["policy", "budget"])["recall"].mean()  # doctest: +SKIP
    """
    with _open(path) as file:
        group = file.get("study/cells")
        if not isinstance(group, h5py.Group) or not all(isinstance(group.get(name), h5py.Dataset) for name in _ROWS):
            raise RecordingError(f"{path}: no merged study; expected a file that `keyscope sweep merge` made")
        columns = {}
        for name in group.attrs["columns"]:
            values = group[name][...]
            columns[name] = np.char.decode(values, "utf-8").astype(object) if values.dtype.kind == "S" else values
        return pd.DataFrame(columns)


def _open(path: str | os.PathLike[str]) -> h5py.File:
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        return h5py.File(path, "r", locking=False)
    except OSError as error:
        raise RecordingError(f"{path}: is no HDF5 file: {error}") from None


def _main(words: list[str]) -> int:
    if len(words) != 2:
        print("usage: python -m keyscope.study STUDY.h5 TABLE.parquet", file=sys.stderr)
        return 2
    study_table(words[0]).to_parquet(words[1], index=False)
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
