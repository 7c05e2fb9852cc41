"""How the parts of a recording lie in its file: names, types, chunks, and space that is assigned at once."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

ROW_CHUNK_BYTES = 1 << 20  # of a dataset of rows
TRACE_CHUNK, MATRIX_CHUNK = 8192, 256  # tokens of a trace's chunk, and the edge of a matrix'
_LIST_CHUNK = 4096
_TEXT = h5py.string_dtype("utf-8")


def layer_name(layer: int) -> str:
    return f"layer_{layer:02}"


def set_attribute(node: h5py.Group, name: str, value: str | int) -> None:
    """Text as variable-length UTF-8, counts as int64."""
    if isinstance(value, str):
        node.attrs.create(name, value, dtype=_TEXT)
    else:
        node.attrs.create(name, np.int64(value))


def round_to_bfloat16(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """To nearest, ties to even: float32 whose lower 16 bits are zero. NaN stays NaN."""
    bits = np.ascontiguousarray(rows, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(rows), rows, rounded.view(np.float32))


def create_group(parent: h5py.Group, name: str, nx_class: str = "NXcollection") -> h5py.Group:
    group = parent.create_group(name)
    set_attribute(group, "NX_class", nx_class)
    return group


def create_dataset(
    group: h5py.Group, name: str, dtype: Any, shape: tuple[int, ...], chunk: tuple[int, ...] | None, fill: float = 0,
    max_shape: tuple[int | None, ...] | None = None,
) -> h5py.Dataset:  # fmt: skip
    """A dataset whose space is assigned now. Zeros are not written: a new file reads as such."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    if chunk is not None and shape:
        properties.set_chunk(tuple(max(1, edge) for edge in chunk))
    if fill == 0:
        properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    else:
        properties.set_fill_value(np.array(fill, dtype))
    if shape and chunk is not None:
        limits = tuple(h5py.h5s.UNLIMITED if edge is None else edge for edge in max_shape or shape)
        space = h5py.h5s.create_simple(shape, limits)
    else:
        space = h5py.h5s.create_simple(shape) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
    kind = h5py.h5t.py_create(np.dtype(dtype), logical=True)
    return h5py.Dataset(h5py.h5d.create(group.id, name.encode(), kind, space, properties))


def create_list(group: h5py.Group, name: str, dtype: Any, n: int, fill: float) -> None:
    """A list that may end shorter, or (text) longer, than planned."""
    create_dataset(group, name, dtype, (n,), (min(max(n, 1), _LIST_CHUNK),), fill, (None,))


def create_rows(group: h5py.Group, name: str, shape: tuple[int, int, int], store: str) -> None:
    """Rows of every head: chunks of one head's rows, so that one head reads quickly."""
    dtype = np.dtype(np.float16 if store == "float16" else np.float32)
    n_rows = min(max(ROW_CHUNK_BYTES // (shape[2] * dtype.itemsize), 1), shape[1])
    dataset = create_dataset(group, name, dtype, shape, (1, n_rows, shape[2]))
    if store == "bfloat16":
        set_attribute(dataset, "rounded_to", store)


def write_compressed(group: h5py.Group, name: str, values: NDArray[Any]) -> None:
    chunk = (min(max(len(values), 1), ROW_CHUNK_BYTES // values.itemsize),)
    group.create_dataset(name, data=values, chunks=chunk, maxshape=(None,), shuffle=values.itemsize > 1, compression=4)
