"""Layers of a run as one xarray Dataset, of which nothing is read before it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from .hdf5 import RecordingError
from .layer import DATASETS, Layer

if TYPE_CHECKING:
    from .run import Run


class _Stack(BackendArray):  # type: ignore[misc, unused-ignore]
    """A dataset of several layers, (layer, …); layers that have it not are filled with its value for nothing."""

    def __init__(self, layers: Sequence[Layer], name: str) -> None:
        self.layers, self.name = layers, name
        some = next(layer for layer in layers if name in layer)
        self.shape = (len(layers), *some.shape(name))
        self.dtype = np.result_type(*(layer.dtype(name) for layer in layers if name in layer))

    def __deepcopy__(self, memo: dict[int, Any]) -> _Stack:
        return self  # nothing in it changes, and a copy of the Dataset is as lazy

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key: tuple[int | slice, ...]) -> np.ndarray[Any, Any]:
        chosen = self.layers[key[0]]
        if isinstance(chosen, Layer):
            return self._of_layer(chosen, key[1:])
        return np.stack([self._of_layer(layer, key[1:]) for layer in chosen]) if chosen else self._nothing(key)

    def _of_layer(self, layer: Layer, key: tuple[int | slice, ...]) -> np.ndarray[Any, Any]:
        if self.name in layer:
            values: np.ndarray[Any, Any] = layer.read(self.name, *key).astype(self.dtype, copy=False)
            return values
        return np.asarray(self._nothing((slice(1), *key))[0])

    def _nothing(self, key: tuple[int | slice, ...]) -> np.ndarray[Any, Any]:
        sizes = [len(range(n)[at]) for at, n in zip(key, self.shape) if isinstance(at, slice)]
        return np.full(sizes, DATASETS[self.name].fill, self.dtype)


def stacked(run: Run, layers: Sequence[Layer]) -> xr.Dataset:
    """Layers of one shape over (layer, kv_head, query_head, token, dim, …), with the tokens' id, text and block.

    Raises RecordingError where a dataset has not the same shape in all layers that have it.
    """
    if not layers:
        raise RecordingError(f"{run.recording.path}: run {run.name}: no layer was chosen; it has {run.layers}")
    variables: dict[str, Any] = {}
    for name in [name for name in DATASETS if any(name in layer for layer in layers)]:
        _require_one_shape(layers, name)
        stack = _Stack(layers, name)
        axes = ["layer", *DATASETS[name].axes]
        if name == "values" and stack.shape[-1] != _key_dim(layers):
            axes[-1] = "value_dim"
        data = indexing.LazilyIndexedArray(stack)
        variables[name] = xr.Variable(axes, data, {"long_name": DATASETS[name].long_name})
    coordinates: dict[str, Any] = {
        "layer": [layer.index for layer in layers],
        "token": np.arange(run.n_tokens),
        **{name: ("token", run.tokens[name].to_numpy()) for name in ("id", "text", "block")},
    }
    sizes = {axis: n for variable in variables.values() for axis, n in variable.sizes.items()}
    for axis in ("kv_head", "query_head", "query"):
        if axis in sizes:
            coordinates[axis] = np.arange(sizes[axis])
    about = {"run": run.name, "policy": run.policy, "budget": run.budget, "block_size": run.block_size}
    return xr.Dataset(variables, coordinates, about)


def _key_dim(layers: Sequence[Layer]) -> int | None:
    return next((layer.head_dim for layer in layers if not layer.keyless), None)


def _require_one_shape(layers: Sequence[Layer], name: str) -> None:
    shapes: dict[tuple[int, ...], list[int]] = {}
    for layer in layers:
        if name in layer:
            shapes.setdefault(layer.shape(name), []).append(layer.index)
    if len(shapes) > 1:
        found = "; ".join(f"{shape} in layers {', '.join(map(str, of))}" for shape, of in shapes.items())
        some = next(iter(shapes.values()))
        run = layers[0].run
        raise RecordingError(
            f"{run.recording.path}: run {run.name}: {name} has several shapes, {found}: choose layers of one shape, "
            f"such as dataset(layers={some})"
        )
