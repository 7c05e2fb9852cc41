"""A layer of a run and its KV heads: what was recorded of their rows, as NumPy arrays that are read on demand.

Heads go by the model's indices, whichever were recorded. How many heads a layer has, and how wide their keys are, is
what its own datasets say; layers of one model may differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import getitem
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pandas as pd
import xarray as xr

from . import display, hdf5
from .hdf5 import MissingError, RecordingError

if TYPE_CHECKING:
    from .run import Run

Array = np.ndarray[Any, Any]
Index = int | slice


def is_index(value: object) -> bool:
    """Whether it is an integer, of Python's or NumPy's: 1.0 is none."""
    return isinstance(value, (int, np.integer))


@dataclass(frozen=True)
class Spec:
    """What a dataset of a layer is: its axes, its kind of elements ("iu" or "f"), and what stands where it is empty."""

    axes: tuple[str, ...]
    kind: str
    long_name: str
    per_head_rows: bool = False  # recorded of some heads only, with `--heads`

    @property
    def fill(self) -> float:
        return np.nan if self.kind == "f" else -1


_KV_TOKENS = ("kv_head", "token")
DATASETS: dict[str, Spec] = {
    "keys": Spec(("kv_head", "token", "dim"), "f", "keys after RoPE", True),
    "queries": Spec(("query_head", "token", "dim"), "f", "queries after RoPE", True),
    "values": Spec(("kv_head", "token", "dim"), "f", "values", True),
    "value_norms": Spec(_KV_TOKENS, "f", "1-norm of the output projection of the value, mean over the group"),
    "evicted_at": Spec(_KV_TOKENS, "iu", "block at whose end the row was evicted, -1: never"),
    "evicted_margin": Spec(_KV_TOKENS, "f", "lowest score kept without force, minus the row's own"),
    "attention_received": Spec(_KV_TOKENS, "f", "sum of prompt queries' weights, mean over the group"),
    "attention_queries": Spec(_KV_TOKENS, "iu", "prompt queries that could see the row"),
    "attention_last": Spec(_KV_TOKENS, "f", "weight from the last prompt query"),
    "attention_window": Spec(_KV_TOKENS, "f", "weights of the prompt's last 32 queries, summed"),
    "attention_entropy": Spec(("query_head", "token"), "f", "entropy of a prompt query's weights, nats"),
    "attention_gini": Spec(("query_head",), "f", "Gini coefficient of the attention that positions received"),
    "attention_top_share": Spec(("query_head",), "f", "share of it that the top 1 % of positions have"),
    "attention": Spec(("query_head", "query", "token"), "f", "attention weights, 0 where not visible", True),
    "attention_sink": Spec(("query_head", "prompt_block"), "f", "weight that a block's queries gave to learned sinks"),
    "sink_logit": Spec(("query_head",), "f", "score of the learned sink"),
    "held_bytes": Spec(("kv_head",), "iu", "bytes of a quantised cache as held"),
    "packed_bytes": Spec(("kv_head",), "iu", "bytes of a quantised cache, packed"),
    "expert": Spec(("token", "choice"), "iu", "experts that a token went to, likeliest first, -1: not known"),
    "expert_weight": Spec(("token", "choice"), "f", "what the experts' outputs were multiplied by"),
    "router_entropy": Spec(("token",), "f", "entropy of the router's shares, nats"),
}


class Layer:
    """A layer of a run. `layer[0]` is its KV head 0.

    keyless: the layer has no keys (linear attention): of it only the experts were recorded, if it has any
    """

    def __init__(self, run: Run, index: int, has_keys: bool) -> None:
        self.run = run
        self.index = index
        self.keyless = not has_keys

    def __reduce__(self) -> tuple[Any, ...]:
        return getitem, (self.run, self.index)

    def _group(self) -> h5py.Group:
        return hdf5.group(self.run._group(), f"layer_{self.index:02}")

    @property
    def where(self) -> str:
        """The file, run and layer, as errors name them."""
        return f"{self.run.recording.path}: run {self.run.name}, layer {self.index}"

    def require_keys(self) -> None:
        """Raises MissingError where the layer has no keys."""
        if self.keyless:
            listed = ", ".join(map(str, self.run.layers))
            raise MissingError(f"{self.where}: has no keys, its mixer is recurrent; layers with keys: {listed}")

    def __contains__(self, name: object) -> bool:
        """Whether a dataset of that name was recorded."""
        return name in self.names

    @cached_property
    def names(self) -> list[str]:
        """The datasets that were recorded, in the order of DATASETS."""
        found = hdf5.names(self._group())
        return [name for name in DATASETS if name in found]

    @cached_property
    def n_kv_heads(self) -> int:
        return int(self._open("evicted_at").shape[0])

    @cached_property
    def recorded_heads(self) -> list[int]:
        """The KV heads whose keys, queries, values and attention weights were recorded, ascending."""
        group = self._group()
        if not hdf5.has(group, "kv_heads"):
            return list(range(self.n_kv_heads))
        of = hdf5.dataset(group, "kv_heads", "iu", 1)
        heads = hdf5.read(of).tolist()
        if heads != sorted(set(heads)) or not heads or heads[0] < 0 or heads[-1] >= self.n_kv_heads:
            raise RecordingError(
                f"{hdf5.where(of)}: found {heads}; expected ascending indices of {self.n_kv_heads} KV heads"
            )
        return [int(head) for head in heads]

    @cached_property
    def group_size(self) -> int:
        """Query heads per KV head."""
        for name in ("attention_entropy", "attention_gini", "sink_logit"):
            if name in self:
                return int(self._open(name).shape[0]) // self.n_kv_heads
        if "queries" in self:
            return int(self._open("queries").shape[0]) // len(self.recorded_heads)
        return self.run.recording.model.n_heads // self.run.recording.model.n_kv_heads

    @property
    def n_heads(self) -> int:
        """Query heads."""
        return self.n_kv_heads * self.group_size

    @cached_property
    def head_dim(self) -> int:
        """Coordinates of a key."""
        for name in ("keys", "queries"):
            if name in self:
                return int(self._open(name).shape[2])
        return self.run.recording.model.head_dim

    @cached_property
    def n_experts(self) -> int | None:
        """Experts that the layer has; None where it has none."""
        group = self._group()
        return hdf5.integer(group, "n_experts", 1, 1 << 20) if "n_experts" in hdf5.attributes(group) else None

    @cached_property
    def _opened(self) -> dict[str, h5py.Dataset]:
        return {}

    def _open(self, name: str) -> h5py.Dataset:
        self.run.recording.require_open()
        if name in self._opened:
            return self._opened[name]
        spec = DATASETS.get(name)
        if spec is None:
            raise MissingError(
                f"{self.where}: there is no dataset {name!r}; those of a layer are {', '.join(DATASETS)}"
            )
        group = self._group()
        if name not in self.names:
            self.require_keys()
            raise MissingError(f"{self.where}: {name} was not recorded; recorded are {', '.join(self.names)}")
        found = self._opened[name] = hdf5.dataset(group, name, spec.kind, len(spec.axes))
        return found

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of `read(name)`: all heads of the model, and the tokens that were seen."""
        found = self._open(name).shape
        of_axis = {"token": self.run.n_tokens, "query": self.run.n_tokens}
        if name not in ("expert", "expert_weight", "router_entropy"):
            of_axis |= {"kv_head": self.n_kv_heads, "query_head": self.n_heads}
        return tuple(of_axis.get(axis, size) for axis, size in zip(DATASETS[name].axes, found))

    def dtype(self, name: str) -> np.dtype[Any]:
        """The type of the elements of `read(name)`, as they are stored."""
        known = self.run.n_blocks >= self.run.n_prompt_blocks
        unknown_bytes = name in ("held_bytes", "packed_bytes") and not known
        return np.dtype(np.float64) if unknown_bytes else self._open(name).dtype

    def read(self, name: str, *at: Index) -> Array:
        """A dataset of DATASETS, or the part of it that `at` chooses, an index or a slice per axis.

        The first axis goes by the model's heads; those whose rows were not recorded are NaN. What does not exist is
        NaN (-1 of block and expert indices): statistics of tokens and blocks that were not reached, attention in a
        replayed run. Rows are float32, or float16 where they were stored so.

        Raises MissingError where the dataset was not recorded, RecordingError where it is damaged.

        >>> layer.read("keys", 0, slice(100)).shape  # doctest: +SKIP
        (100, 32)
        """
        shape = self.shape(name)
        if len(at) > len(shape):
            raise IndexError(f"{self.where}: {name} has {len(shape)} axes; found {len(at)} indices")
        ranges, dropped = [], []
        for index, size in zip([*at, *[slice(None)] * (len(shape) - len(at))], shape):
            if not isinstance(index, slice) and not (is_index(index) and -size <= index < size):
                expected = "expected an integer within it, or a slice"
                raise IndexError(f"{self.where}: {name}: index {index} on an axis of {size}; {expected}")
            first = index if isinstance(index, slice) else index % size
            ranges.append(range(size)[first] if isinstance(first, slice) else range(first, first + 1))
            dropped.append(0 if not isinstance(index, slice) else slice(None))
        values = self._values(name, ranges)
        return values[tuple(dropped)]

    def _values(self, name: str, at: list[range]) -> Array:
        """By ranges, one per axis."""
        spec, of = DATASETS[name], self._open(name)
        if any(len(axis) == 0 for axis in at):
            return np.empty([len(axis) for axis in at], self.dtype(name))
        if spec.per_head_rows and len(self.recorded_heads) < self.n_kv_heads:
            return self._rows_of_some(of, at)
        if name == "attention_entropy":  # has the prompt's queries only
            return self._entropies(of, at)
        values = self._slab(of, at)
        return self._known(name, values, at)

    def _slab(self, of: h5py.Dataset, at: list[range]) -> Array:
        for axis, (chosen, size) in enumerate(zip(at, of.shape)):
            if max(chosen[0], chosen[-1]) >= size:
                raise RecordingError(f"{hdf5.where(of)}: found {of.shape}; expected more than {size} on axis {axis}")
        reversed_ = [chosen.step < 0 for chosen in at]
        forward = [chosen[::-1] if back else chosen for chosen, back in zip(at, reversed_)]
        values = hdf5.read(of, tuple(slice(r.start, r.stop, r.step) for r in forward))
        return np.asarray(values)[tuple(slice(None, None, -1 if back else 1) for back in reversed_)]

    def _rows_of_some(self, of: h5py.Dataset, at: list[range]) -> Array:
        """Rows by the model's head, where only some heads have any."""
        n_each = int(of.shape[0]) // len(self.recorded_heads)
        values = np.full([len(axis) for axis in at], np.nan, of.dtype)
        for i, head in enumerate(at[0]):
            if head // n_each in self.recorded_heads:
                place = n_each * self.recorded_heads.index(head // n_each) + head % n_each
                values[i] = self._slab(of, [range(place, place + 1), *at[1:]])[0]
        return values

    def _entropies(self, of: h5py.Dataset, at: list[range]) -> Array:
        known = min(int(of.shape[1]), self.run.n_tokens)
        values = np.full([len(axis) for axis in at], np.nan, of.dtype)
        inside = [i for i, token in enumerate(at[1]) if token < known]
        if inside:
            values[:, inside] = self._slab(of, [at[0], at[1][inside[0] : inside[-1] + 1]])
        return values

    def _known(self, name: str, values: Array, at: list[range]) -> Array:
        """Without what was written of blocks that do not count, and what nothing measured."""
        run = self.run
        prompt_read = run.n_blocks >= run.n_prompt_blocks
        if name in ("evicted_at", "evicted_margin") and not run.recording.complete:
            evicted_at = values if name == "evicted_at" else self._slab(self._open("evicted_at"), at)
            values[evicted_at >= run.n_blocks] = DATASETS[name].fill
        elif name in ("attention_received", "attention_last", "attention_window") and run.replayed:
            values[...] = np.nan
        elif name in ("attention_last", "attention_window") and not prompt_read:
            values[...] = np.nan
        elif name in ("attention_received", "attention_queries") and not prompt_read:
            self._add_journal(name, values, at)
        elif name == "attention_sink":
            values[:, [block >= run.n_blocks for block in at[1]]] = np.nan
        elif name in ("held_bytes", "packed_bytes") and not prompt_read:
            values = np.full(values.shape, np.nan)
        return values

    def _add_journal(self, name: str, values: Array, at: list[range]) -> None:
        """Of a prompt that was not read to its end, sums of the rows that were still there stand in the journal."""
        run_group = self.run._group()
        if not hdf5.has(run_group, "partial_attention_blocks"):
            return
        blocks = hdf5.read(hdf5.dataset(run_group, "partial_attention_blocks", "iu", 1)).tolist()
        if self.run.n_blocks not in blocks:
            raise RecordingError(
                f"{hdf5.where(run_group)}: partial_attention_blocks is {blocks}; one of them must be blocks_done, "
                f"{self.run.n_blocks}"
            )
        slot = blocks.index(self.run.n_blocks)
        journal = hdf5.dataset(self._group(), f"partial_{name}", DATASETS[name].kind, 3)
        for i, head in enumerate(at[0]):
            row = np.array(self._slab(self._open(name), [range(head, head + 1), range(self.run.n_tokens)])[0])
            present = np.flatnonzero(self.read("evicted_at", head) < 0)
            row[present] = hdf5.read(journal, (slot, head, slice(len(present))))
            values[i] = row[at[1].start : at[1].stop : at[1].step] if at[1].step > 0 else row[list(at[1])]

    def dataset(self) -> xr.Dataset:
        """The layer as an xarray Dataset over (kv_head, query_head, token, dim …), read when it is used."""
        from .dataset import stacked

        if self.keyless and not self.names:
            self.require_keys()
        return stacked(self.run, [self]).isel(layer=0)

    def __getitem__(self, kv_head: int) -> Head:
        """A KV head; raises MissingError where there is none of that index."""
        self.require_keys()
        if not is_index(kv_head) or not 0 <= kv_head < self.n_kv_heads:
            raise MissingError(f"{self.where}: there is no KV head {kv_head}; there are {self.n_kv_heads}")
        return Head(self, kv_head)

    def __iter__(self) -> Iterator[Head]:
        return (self[head] for head in range(len(self)))

    def __len__(self) -> int:
        return 0 if self.keyless else self.n_kv_heads

    def __repr__(self) -> str:
        heads, names = display.heads_text(self), ", ".join(self.names)
        return f"<keyscope.Layer {self.index} of run {self.run.name!r}: {heads}; {names}>"

    def _repr_html_(self) -> str:
        return display.layer_html(self)


class Head:
    """One KV head, with the query heads of its group. Arrays are read anew whenever they are asked for."""

    def __init__(self, layer: Layer, index: int) -> None:
        self.layer = layer
        self.index = index

    @property
    def run(self) -> Run:
        return self.layer.run

    @property
    def query_heads(self) -> range:
        """Indices of the query heads that read this KV head."""
        return range(self.index * self.layer.group_size, (self.index + 1) * self.layer.group_size)

    def require_rows(self) -> None:
        """Raises MissingError where the head's keys, queries, values and attention weights were not recorded."""
        heads = self.layer.recorded_heads
        if self.index not in heads:
            listed = ", ".join(map(str, heads))
            raise MissingError(f"{self.layer.where}: KV head {self.index} was not recorded; recorded are {listed}")

    def _rows(self, name: str, heads: Index) -> Array:
        self.require_rows()
        return self.layer.read(name, heads)

    @property
    def keys(self) -> Array:
        """(n_tokens, head_dim) after RoPE, of every token seen, evicted later or not."""
        return self._rows("keys", self.index)

    @property
    def values(self) -> Array:
        """(n_tokens, head_dim)."""
        return self._rows("values", self.index)

    @property
    def queries(self) -> Array:
        """(G, n_tokens, head_dim) after RoPE, of the G query heads of the group."""
        return self._rows("queries", slice(self.query_heads.start, self.query_heads.stop))

    @property
    def evicted_at(self) -> Array:
        """(n_tokens) the block at whose end the row was evicted; -1: never."""
        return self.layer.read("evicted_at", self.index)

    @property
    def evicted_margin(self) -> Array:
        """(n_tokens) lowest score that was kept without force, minus the row's own; NaN where there is none."""
        return self.layer.read("evicted_margin", self.index)

    @property
    def attention_received(self) -> Array:
        """(n_tokens) sum of the prompt queries' weights, mean over the group."""
        return self.layer.read("attention_received", self.index)

    @property
    def attention_queries(self) -> Array:
        """(n_tokens) how many of those queries could see the row."""
        return self.layer.read("attention_queries", self.index)

    @property
    def attention_last(self) -> Array:
        """(n_tokens) the weight from the last prompt query, mean over the group."""
        return self.layer.read("attention_last", self.index)

    def _seen(self, block: int | None) -> tuple[int, Array]:
        last = self.run.block(block)
        return last, self.layer.read("evicted_at", self.index, slice(self.run.tokens_seen(last)))

    def retained(self, block: int | None = None) -> Array:
        """Positions of the rows in the cache after a block, ascending; by default at the end of the prompt.

        >>> head.keys[head.retained(3)]  # doctest: +SKIP
        """
        last, evicted_at = self._seen(block)
        return np.flatnonzero((evicted_at < 0) | (evicted_at > last))

    def evicted(self, block: int | None = None) -> Array:
        """Positions of the rows that had been seen and were gone after a block, ascending."""
        last, evicted_at = self._seen(block)
        return np.flatnonzero((evicted_at >= 0) & (evicted_at <= last))

    def weights(self, queries: slice = slice(None)) -> Array:
        """Attention weights of the group's queries: see `keyscope.attention.weights`."""
        from .attention import weights

        return weights(self, queries)

    def scores(self, block: int | None = None) -> pd.Series[float]:
        """What the run's policy ranked the rows by at the end of a block: see `keyscope.scores.scores`."""
        from .scores import scores

        return scores(self, self.run.block(block))

    @property
    def table(self) -> pd.DataFrame:
        """A row per token: its text, the block it came with, its fate, and the attention that it received.

        attention_per_query is attention_received / attention_queries; NaN where no query could see the token.
        """
        table = self.run.tokens.copy()
        for name in ("evicted_at", "evicted_margin", "attention_received", "attention_queries", "attention_last"):
            if name in self.layer:
                table[name] = self.layer.read(name, self.index)
        if "attention_queries" in table and "attention_received" in table:
            queries = table.attention_queries.where(table.attention_queries > 0)
            table["attention_per_query"] = table.attention_received / queries
        return table

    def __repr__(self) -> str:
        return f"<keyscope.Head {self.index} of layer {self.layer.index}, run {self.run.name!r}>"

    def _repr_html_(self) -> str:
        return display.head_html(self)
