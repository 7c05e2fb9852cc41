"""One policy's run over the prompt: its blocks, what it generated, and its layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import getitem
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pandas as pd
import xarray as xr

from . import display, hdf5
from .dataset import stacked
from .hdf5 import MissingError, RecordingError
from .layer import Layer, is_index

if TYPE_CHECKING:
    from .recording import Recording

_MOST = 1 << 31
Array = np.ndarray[Any, Any]


class Run:
    """A run of a recording. `run[1]` is layer 1, `run[1][0]` its KV head 0.

    name, policy: `keydiff-2` may be the second run of `keydiff`
    parameters: the policy's options
    budget: rows per KV head, 0 of `none`; with a budget file the largest of `budgets`
    block_size: tokens of a block; n_blocks: blocks done, of which the first n_prompt_blocks read the prompt and every
        later one a generated token; n_tokens: tokens that went through the model in them
    replayed: simulated on recorded keys; no query attended, and nothing was generated
    oracle: rows were scored by attention over the whole prompt
    positions: "true", or "cache" where keys are rotated by their place in the cache
    cache_dtype, cache_scales: "model", or how the cache was quantised
    """

    def __init__(self, recording: Recording, name: str, layers: Mapping[int, bool]) -> None:
        self.recording = recording
        self.name = name
        group = self._group()
        self.policy: str = hdf5.text(group, "policy")
        parameters = hdf5.json_text(group, "parameters", "{}")
        self.parameters: Mapping[str, Any] = MappingProxyType(parameters if isinstance(parameters, dict) else {})
        self.budget: int = hdf5.integer(group, "budget", 0, _MOST)
        self.block_size: int = hdf5.integer(group, "block_size", 1, _MOST)
        self.n_prompt_blocks: int = hdf5.integer(group, "n_prompt_blocks", 1, recording.n_prompt)
        self.replayed: bool = hdf5.integer(group, "replayed", 0, 1, 0) == 1
        self.oracle: bool = hdf5.integer(group, "oracle", 0, 1, 0) == 1
        self.positions: str = hdf5.text(group, "positions", "true")
        self.cache_dtype: str = hdf5.text(group, "cache_dtype", "model")
        self.cache_scales: str | None = hdf5.text(group, "cache_scales", "") or None
        self.layers: list[int] = [layer for layer, has_keys in layers.items() if has_keys]
        self.keyless_layers: list[int] = [layer for layer, has_keys in layers.items() if not has_keys]
        self.n_blocks, self.n_tokens, self.block_start = self._read_blocks(group)

    def _group(self) -> h5py.Group:
        return self.recording._group(self.name)

    def _read_blocks(self, group: h5py.Group) -> tuple[int, int, Array]:
        """Blocks that can be relied upon, the tokens that they cover, and where each begins."""
        counter = hdf5.dataset(group, "blocks_done", "iu", 0) if hdf5.has(group, "blocks_done") else None
        counted = None if counter is None else int(hdf5.read(counter))
        # After the counter: a capture that goes on writes what a block has before it counts it.
        starts = hdf5.read(hdf5.dataset(group, "block_start", "iu", 1))
        done = len(starts) if counted is None else counted
        complete = self.recording.complete
        if not 0 <= done <= len(starts) or (complete and done != len(starts)):
            raise RecordingError(f"{hdf5.where(group)}: blocks_done is {done} of {len(starts)} blocks")
        n_prompt = self.recording.n_prompt
        if done >= self.n_prompt_blocks:
            n_tokens = n_prompt + done - self.n_prompt_blocks
        elif done < len(starts):
            n_tokens = int(starts[done]) if done else 0
        else:
            raise RecordingError(
                f"{hdf5.where(group)}: block_start has {done} blocks; there are {self.n_prompt_blocks} in the prompt"
            )
        starts = starts[:done]
        covered = np.append(starts, n_tokens)
        if done and (starts[0] != 0 or (np.diff(covered) < 1).any()):
            raise RecordingError(f"{hdf5.where(group)}: block_start must ascend from 0 and end below {n_tokens}")
        return done, n_tokens, starts

    def __reduce__(self) -> tuple[Any, ...]:
        return getitem, (self.recording, self.name)

    def __getitem__(self, layer: int) -> Layer:
        """A recorded layer, with keys or without; raises MissingError naming the layers that there are."""
        if not is_index(layer) or layer not in self.layers + self.keyless_layers:
            listed = ", ".join(map(str, sorted(self.layers + self.keyless_layers)))
            raise MissingError(
                f"{self.recording.path}: run {self.name} has no layer {layer}; recorded layers: {listed}"
            )
        return self._layer(layer)

    def _layer(self, layer: int) -> Layer:
        found = self._open_layers.get(layer)
        if found is None:
            found = self._open_layers[layer] = Layer(self, layer, layer in self.layers)
        return found

    @cached_property
    def _open_layers(self) -> dict[int, Layer]:
        return {}

    def __iter__(self) -> Iterator[Layer]:
        """The layers that have keys."""
        return (self[layer] for layer in self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def full_cache(self) -> bool:
        """Whether nothing was evicted by a policy."""
        return self.policy == "none"

    @property
    def last_prompt_block(self) -> int:
        """The last block of the prompt that was done; -1: none was."""
        return min(self.n_prompt_blocks, self.n_blocks) - 1

    def block(self, block: int | None) -> int:
        """A block's index, checked; None is the end of the prompt (-1 where no block was done)."""
        if block is None:
            return self.last_prompt_block
        if not is_index(block) or not 0 <= block < self.n_blocks:
            raise MissingError(
                f"{self.recording.path}: run {self.name} has no block {block}; it has done {self.n_blocks}, from 0"
            )
        return block

    def tokens_seen(self, block: int) -> int:
        """Tokens that went through the model by the end of a block; 0 of -1, before the first one."""
        if block < 0:
            return 0
        return int(self.block_start[block + 1]) if block + 1 < self.n_blocks else self.n_tokens

    def block_of(self, positions: Array) -> Array:
        """The blocks in which tokens were read."""
        blocks: Array = np.searchsorted(self.block_start, positions, side="right") - 1
        return blocks

    @cached_property
    def block_ms(self) -> Array:
        """Milliseconds that each block took, (n_blocks) float32; NaN where the schedule has none."""
        of = hdf5.dataset(self._group(), "block_ms", "f", 1)
        return np.asarray(hdf5.read(of, slice(self.n_blocks)))

    @cached_property
    def budgets(self) -> Array | None:
        """Rows per layer and KV head, of a run with a budget file; None where all have `budget`."""
        group = self._group()
        return np.asarray(hdf5.read(hdf5.dataset(group, "budgets", "iu", 2))) if hdf5.has(group, "budgets") else None

    @cached_property
    def _generated(self) -> tuple[Array, list[str]]:
        """Of a recording that was cut short, what came with counted blocks."""
        from .recording import read_tokens

        group = self._group()
        ids = hdf5.read(hdf5.dataset(group, "generated", "iu", 1))
        known = len(ids)
        if not self.recording.complete:
            most = max(self.n_blocks - self.n_prompt_blocks + 1, 0)
            known = min(int(np.argmax(ids < 0)) if (ids < 0).any() else known, most)
        try:
            return read_tokens(group, "generated", "generated_text", known)
        except RecordingError:
            if self.recording.complete:
                raise
            return ids[:known], [""] * known  # text that had no room is written at the end

    @property
    def generated(self) -> Array:
        """The ids that were generated, int32; the last one was never fed back."""
        return self._generated[0]

    @property
    def generated_text(self) -> str:
        """What they say; tokens that are no UTF-8 by themselves are joined first."""
        group = self._group()
        offset = hdf5.read(hdf5.dataset(group, "generated_text_offset", "iu", 1))
        n = len(self.generated)
        end = int(offset[n]) if n < len(offset) else 0
        of = hdf5.dataset(group, "generated_text", "iu", 1)
        return bytes(hdf5.read(of, slice(max(end, 0)))).decode("utf-8", "replace")

    @cached_property
    def tokens(self) -> pd.DataFrame:
        """What went through the model, prompt and generated tokens: by `position`, with `id`, `text` and `block`."""
        prompt_ids, prompt_texts = self.recording._prompt
        ids, texts = self._generated
        n = self.n_tokens
        return pd.DataFrame(
            {
                "id": np.concatenate([prompt_ids, ids])[:n],
                "text": [*prompt_texts, *texts][:n],
                "block": self.block_of(np.arange(n)),
            },
            index=pd.RangeIndex(n, name="position"),
        )

    @property
    def top(self) -> pd.DataFrame:
        """The largest logits at the last prompt position: `id` and `logit`; empty where they are not known."""
        group = self._group()
        ids = hdf5.read(hdf5.dataset(group, "top_ids", "iu", 1))
        logits = hdf5.read(hdf5.dataset(group, "top_logits", "f", 1))[: len(ids)]
        known = not (ids < 0).any()
        return pd.DataFrame({"id": ids if known else ids[:0], "logit": logits if known else logits[:0]})

    @property
    def logits(self) -> Array:
        """Logits of the last M prompt positions, (M, vocabulary) float32.

        Raises MissingError where they were not recorded.
        """
        group = self._group()
        if not hdf5.has(group, "logits") or self.top.empty:
            raise MissingError(f"{self.recording.path}: run {self.name}: logits were not recorded")
        return np.asarray(hdf5.read(hdf5.dataset(group, "logits", "f", 2)))

    def dataset(self, layers: Sequence[int] | None = None) -> xr.Dataset:
        """Layers as one xarray Dataset over (layer, kv_head, query_head, token, dim …), read when it is used.

        layers: which ones; by default all that have keys

        Heads whose rows were not recorded are NaN. Raises RecordingError where the layers have not the same shape.
        """
        chosen = [self._with_keys(layer) for layer in (self.layers if layers is None else layers)]
        return stacked(self, chosen)

    def _with_keys(self, layer: int) -> Layer:
        found = self[layer]
        found.require_keys()
        return found

    def retained(self, block: int | None = None, layers: Sequence[int] | None = None) -> xr.DataArray:
        """Which rows were in the cache after a block: bool over (layer, kv_head, token), of the tokens seen by then.

        block: by default the end of the prompt
        """
        return self._cache_state(block, layers, "retained")

    def evicted(self, block: int | None = None, layers: Sequence[int] | None = None) -> xr.DataArray:
        """Which rows had been seen and were in the cache no more after a block: the complement of `retained`."""
        return ~self._cache_state(block, layers, "evicted")

    def _cache_state(self, block: int | None, layers: Sequence[int] | None, name: str) -> xr.DataArray:
        last = self.block(block)
        seen = self.tokens_seen(last)
        evicted_at = self.dataset(layers)["evicted_at"].isel(token=slice(seen))
        kept: xr.DataArray = (evicted_at < 0) | (evicted_at > last)
        return kept.rename(name).drop_attrs()

    def __repr__(self) -> str:
        budget = f", budget {self.budget}" if self.budget else ""
        return (
            f"<keyscope.Run {self.name!r} of {self.recording.path.name!r}: {self.policy}{budget}, blocks of "
            f"{self.block_size}, {self.n_tokens} tokens, {len(self.layers)} layers>"
        )

    def _repr_html_(self) -> str:
        return display.run_html(self)
