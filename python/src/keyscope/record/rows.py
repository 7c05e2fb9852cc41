"""The cached rows of one layer: per KV head the keys and values that are left, with their true positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

Tensor = torch.Tensor


class CachedRows:
    """Rows of all KV heads in time order, in memory that is taken as it is needed, up to `capacity` rows a head.

    After an eviction every head holds its own rows. Heads that hold fewer than others are padded in front, where
    `positions` is -1: so the rows of a block's own tokens are the last ones of every head.
    """

    def __init__(self, keys: Tensor, values: Tensor, capacity: int) -> None:
        """keys (n_kv_heads, n, head_dim), values (n_kv_heads, n, value_dim): whose sizes, dtype and device to take."""
        self.n_kv_heads = keys.shape[0]
        self.n_rows = 0
        self.capacity = capacity
        self.padded = False
        self.contiguous = True  # all heads hold the same rows, without a gap between them
        self.positions: NDArray[np.int32] = np.empty((self.n_kv_heads, 0), np.int32)
        self._keys = keys.new_empty((self.n_kv_heads, 0, keys.shape[2]))
        self._values = values.new_empty((self.n_kv_heads, 0, values.shape[2]))
        self._position_tensor: Tensor | None = None

    @property
    def keys(self) -> Tensor:
        """(n_kv_heads, n_rows, head_dim), a view."""
        return self._keys[:, : self.n_rows]

    @property
    def values(self) -> Tensor:
        """(n_kv_heads, n_rows, value_dim), a view."""
        return self._values[:, : self.n_rows]

    def rows_of(self, kv_head: int) -> slice:
        """Where the rows of one head lie: all but its padding."""
        n_padding = int((self.positions[kv_head] < 0).sum()) if self.padded else 0
        return slice(n_padding, self.n_rows)

    def first_position(self) -> int:
        """Of the first row; where all heads hold the same ones."""
        return int(self.positions[0, 0]) if self.n_rows else 0

    def position_of_last(self) -> int:
        return int(self.positions[0, -1])

    def reaches(self, window: int) -> bool:
        """Whether a row is as far from the last one as a window is wide."""
        held = self.positions[:, :1] if not self.padded else self.positions[self.positions >= 0]
        return bool(self.n_rows and held.min() <= self.position_of_last() - window)

    def position_tensor(self, head: int, head_end: int, device: torch.device) -> Tensor:
        """Of KV heads [head, head_end): (heads, n_rows) int64."""
        if self._position_tensor is None:
            self._position_tensor = torch.from_numpy(self.positions.astype(np.int64)).to(device)
        return self._position_tensor[head:head_end]

    def append(self, keys: Tensor, values: Tensor, first_position: int) -> None:
        """Rows of tokens first_position, first_position + 1, …: (n_kv_heads, n, dim) each."""
        n = keys.shape[1]
        self._make_room(self.n_rows + n)
        self._keys[:, self.n_rows : self.n_rows + n] = keys
        self._values[:, self.n_rows : self.n_rows + n] = values
        new = np.broadcast_to(np.arange(first_position, first_position + n, dtype=np.int32), (self.n_kv_heads, n))
        self.contiguous = self.contiguous and (not self.n_rows or self.position_of_last() + 1 == first_position)
        self.positions = np.concatenate([self.positions, new], axis=1)
        self.n_rows += n
        self._position_tensor = None

    def _make_room(self, n_rows: int) -> None:
        """Grows by half at a time, so that copies stay few and what is not needed is not taken."""
        held = self._keys.shape[1]
        if n_rows <= held:
            return
        room = max(n_rows, min(self.capacity, held + held // 2))
        for name in ("_keys", "_values"):
            old: Tensor = getattr(self, name)
            grown = old.new_empty((self.n_kv_heads, room, old.shape[2]))
            grown[:, : self.n_rows] = old[:, : self.n_rows]
            setattr(self, name, grown)

    def drop_front(self, n: int) -> None:
        """Drops the first n rows of every head, which all hold the same ones."""
        if n:
            self._move(torch.arange(n, self.n_rows, device=self._keys.device).expand(self.n_kv_heads, -1))
            self._set_positions(self.positions[:, n:].copy())

    def retain(self, rows: Sequence[NDArray[np.int64]]) -> None:
        """Keeps only these rows of each head: indices, ascending."""
        n = max(len(kept) for kept in rows)
        index = np.zeros((self.n_kv_heads, n), np.int64)
        positions = np.full((self.n_kv_heads, n), -1, np.int32)
        for head, kept in enumerate(rows):
            if len(kept):
                index[head, n - len(kept) :] = kept
                positions[head, n - len(kept) :] = self.positions[head, kept]
        self._move(torch.from_numpy(index).to(self._keys.device))
        self._set_positions(positions)
        same = self.n_kv_heads == 1 or bool((positions == positions[:1]).all())
        self.contiguous = same and not self.padded and (n == 0 or bool((np.diff(positions[0]) == 1).all()))

    def _move(self, index: Tensor) -> None:
        n = index.shape[1]
        for held in (self._keys, self._values):
            held[:, :n] = held[:, : self.n_rows].gather(1, index[..., None].expand(-1, -1, held.shape[2]))

    def _set_positions(self, positions: NDArray[np.int32]) -> None:
        self.positions = positions
        self.n_rows = positions.shape[1]
        self.padded = bool((positions < 0).any())
        self._position_tensor = None
