"""One layer of one run: blocks are appended to its rows, attended to, counted, recorded, and evicted after.

A block's attention depends on what its layer kept of earlier blocks, and on nothing that later layers do. So a layer
takes all blocks of a chunk of text one after another, while the model computes everything else of the chunk at once,
and the result is that of a model that reads block by block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..policies import PolicyInput
from .attention import BlockAttention, OnWeights, Wants, attend
from .hooks import AttentionCall
from .named_policies import Policy, Selection, select
from .rows import CachedRows
from .writer import RunPlan, RunWriter

Tensor = torch.Tensor

RECORDED_WINDOW = 32  # of a prompt's last queries, whose weights `attention_window` sums
_FEW_EVICTIONS = 4  # per head: written one by one


@dataclass
class Evicted:
    """What each KV head lost at the end of a block: row indices, and their margins (NaN: a window had passed them)."""

    block: int
    retained: list[NDArray[np.int64]]
    positions: list[NDArray[np.int32]]
    margins: list[NDArray[np.float32]]


@dataclass
class _Statistics:
    """What becomes of attention over a prompt, by true position, evicted rows included."""

    received: Tensor  # (n_heads, n_prompt) float64
    window: Tensor  # (n_heads, n_prompt) float64
    queries: NDArray[np.int32]  # (n_kv_heads, n_prompt)
    last: NDArray[np.float32] | None = None  # (n_kv_heads, n_prompt)


@dataclass
class LayerRun:
    """A layer's rows and statistics in one run.

    writer: None where the layer is not recorded
    """

    plan: RunPlan
    policy: Policy
    layer: int
    record: frozenset[str]
    writer: RunWriter | None
    rows: CachedRows | None = None
    lender: LayerRun | None = None  # the run of the layer whose keys this one reads; None: its own
    log: list[Evicted] = field(default_factory=list)  # of the chunk that was read last

    _statistics: _Statistics | None = None
    # (n_kv_heads, n_tokens), of every query so far, for policies that ask for it
    _totals: NDArray[np.float64] | None = None
    _seen_by: NDArray[np.int32] | None = None
    _evicted_at: NDArray[np.int32] | None = None
    _margin: NDArray[np.float32] | None = None

    @property
    def evicts(self) -> bool:
        """Whether rows go by their scores: a borrower's by those that the lender gives."""
        if self.lender is not None:
            return self.lender.evicts
        return self.policy.evicts and self.layer >= self.policy.first_layer

    @property
    def scores(self) -> bool:
        return self.lender is None and self.evicts

    def read(self, call: AttentionCall) -> Tensor:
        """Attention of a chunk, block by block: (n, n_heads, value_dim).

        A borrower sees the rows that its lender saw in the same block, and loses those that the lender lost.
        """
        n, window = call.queries.shape[1], call.visibility.window
        if self.rows is None:
            self._begin(call)
        assert self.rows is not None
        self.log = []
        outputs = []
        for first, end in self._segments(call.first_position, n):
            part = slice(first - call.first_position, end - call.first_position)
            self.rows.append(call.keys[:, part], call.values[:, part], first)
            attention = self._attend(call, part, first, end)
            outputs.append(attention.output)
            self._count(attention, first, end)
            self._record(call, part, first, end, attention)
            if self.lender is not None and self.evicts:
                self._follow(self.lender, self.plan.block_of(first))
            else:
                self._evict(attention, first, end, window)
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def _begin(self, call: AttentionCall) -> None:
        plan, n_kv_heads = self.plan, call.keys.shape[0]
        most = plan.max_tokens
        capacity = min(most, plan.budget + plan.block_size) if self.evicts else most
        self.rows = CachedRows(call.keys, call.values, capacity)
        self._evicted_at = np.full((n_kv_heads, most), -1, np.int32)
        self._margin = np.full((n_kv_heads, most), np.nan, np.float32)
        if self.policy.needs.attention_received and self.scores:
            self._totals = np.zeros((n_kv_heads, most))
            self._seen_by = np.zeros((n_kv_heads, most), np.int32)
        if self.writer is not None:
            zeros = [
                torch.zeros((call.queries.shape[0], plan.n_prompt), dtype=torch.float64, device=call.queries.device)
                for _ in range(2)
            ]
            self._statistics = _Statistics(zeros[0], zeros[1], np.zeros((n_kv_heads, plan.n_prompt), np.int32))
            if call.rules.sinks is not None:
                self.writer.write_all(self.layer, "sink_logit", call.rules.sinks.cpu().numpy())

    def _segments(self, first: int, n: int) -> list[tuple[int, int]]:
        """Tokens [first, end) between evictions: blocks, or all at once where nothing is ever evicted by score."""
        if first >= self.plan.n_prompt or not self.evicts:
            return [(first, first + n)]
        starts = range(first, first + n, self.plan.block_size)
        return [(start, min(start + self.plan.block_size, first + n)) for start in starts]

    def _attend(self, call: AttentionCall, part: slice, first: int, end: int) -> BlockAttention:
        assert self.rows is not None
        recorded = self._statistics is not None and first < self.plan.n_prompt
        needs, due = self.policy.needs, self.scores and self.rows.n_rows > self.plan.budget
        windows = {needs.window} if needs.window and due else set()
        in_window = self._queries_in_window(first, end)
        if recorded and in_window:
            windows.add(in_window)
        wants = Wants(
            columns=recorded or self._totals is not None,
            entropy=recorded,
            last_row=(due and needs.last_row) or (recorded and end == self.plan.n_prompt),
            windows=tuple(sorted(windows)),
            on_weights=self._weights_writer(first) if "attention" in self.record and self.writer else None,
        )
        visibility = call.visibility.part(part.start, part.stop)
        return attend(call.queries[:, part], self.rows, visibility, call.rules, wants)

    def _queries_in_window(self, first: int, end: int) -> int:
        """How many of the queries are among the prompt's last, whose weights are recorded as a sum."""
        if first >= self.plan.n_prompt:
            return 0
        return max(0, min(end - first, end - (self.plan.n_prompt - RECORDED_WINDOW)))

    def _weights_writer(self, first: int) -> OnWeights:
        rows, writer = self.rows, self.writer
        assert rows is not None and writer is not None

        def write(head: int, query: int, row: int, weights: Tensor) -> None:
            for kv_head, of_group in enumerate(weights.float().cpu().numpy(), head):
                positions = rows.positions[kv_head, row : row + weights.shape[3]]
                held = positions >= 0
                for member, of_query_head in enumerate(of_group):
                    query_head = kv_head * weights.shape[1] + member
                    writer.write_weights(
                        self.layer, query_head, first + query, positions[held].astype(np.int64), of_query_head[:, held]
                    )

        return write

    def _count(self, attention: BlockAttention, first: int, end: int) -> None:
        """Adds a segment's attention to what rows have received, by their true positions."""
        if attention.columns is None or self.rows is None:
            return
        assert attention.visible is not None
        visible = attention.visible.cpu().numpy().astype(np.int32)
        if self._totals is not None and self._seen_by is not None:
            received = _group_mean(attention.columns, self.rows.n_kv_heads).cpu().numpy()
            self._add(self._totals, received)
            self._add(self._seen_by, visible)
        statistics = self._statistics
        if statistics is None or first >= self.plan.n_prompt:
            return
        self._add(statistics.queries, visible)
        self._add_on_device(statistics.received, attention.columns)
        in_window = self._queries_in_window(first, end)
        if in_window:
            self._add_on_device(statistics.window, attention.windows[in_window])
        if end == self.plan.n_prompt and attention.last_row is not None:
            statistics.last = np.zeros((self.rows.n_kv_heads, self.plan.n_prompt), np.float32)
            self._add(statistics.last, _group_mean(attention.last_row, self.rows.n_kv_heads).cpu().numpy())

    def _add(self, to: NDArray[Any], values: NDArray[Any]) -> None:
        """Adds values (n_kv_heads, n_rows) by position."""
        assert self.rows is not None
        if self.rows.contiguous:
            start = self.rows.first_position()
            to[:, start : start + self.rows.n_rows] += values
            return
        for head, positions in enumerate(self.rows.positions):
            held = positions >= 0
            to[head, positions[held]] += values[head, held]

    def _add_on_device(self, to: Tensor, values: Tensor) -> None:
        """Adds values (n_heads, n_rows) by position; padding has received nothing."""
        assert self.rows is not None
        if self.rows.contiguous:
            start = self.rows.first_position()
            to[:, start : start + self.rows.n_rows] += values
            return
        at = self.rows.position_tensor(0, self.rows.n_kv_heads, to.device).clamp(min=0)
        to.scatter_add_(1, at.repeat_interleave(len(to) // len(at), dim=0), values)

    def _record(self, call: AttentionCall, part: slice, first: int, end: int, attention: BlockAttention) -> None:
        writer = self.writer
        if writer is None:
            return
        for name, rows in (("keys", call.keys), ("queries", call.queries), ("values", call.values)):
            if name in self.record:
                writer.write_rows(self.layer, name, first, rows[:, part].float().cpu().numpy())
        if attention.entropy is None:
            return
        writer.write_part(self.layer, "attention_entropy", first, attention.entropy.cpu().numpy())
        if attention.sink is not None:
            starts = np.arange(0, end - first, self.plan.block_size)
            sums = np.add.reduceat(attention.sink.cpu().numpy().astype(np.float64), starts, axis=1)
            writer.write_part(self.layer, "attention_sink", self.plan.block_of(first), sums)

    def _evict(self, attention: BlockAttention, first: int, end: int, window: int) -> None:
        """Rows that a window has passed go first and for good, then those that the policy lets go."""
        assert self.rows is not None
        block = self.plan.block_of(end - 1)
        if window and not self.evicts:
            self._drop_passed(first, end, window)
            return
        heads = [_whole(self.rows, head) for head in range(self.rows.n_kv_heads)]
        kept = heads
        if window:
            kept = [rows[self.rows.positions[head, rows] > end - window] for head, rows in enumerate(heads)]
        chosen: list[Selection | None] = [None] * len(kept)
        if self.evicts and any(len(rows) > self.plan.budget for rows in kept):
            chosen = self._select(attention, end - first, kept)
        retained = [rows if one is None else rows[one.retained] for rows, one in zip(kept, chosen, strict=True)]
        if all(len(after) == len(before) for after, before in zip(retained, heads, strict=True)):
            return
        gone = [np.setdiff1d(before, after, assume_unique=True) for before, after in zip(heads, retained, strict=True)]
        positions = [self.rows.positions[head, rows] for head, rows in enumerate(gone)]
        margins = [np.full(len(rows), np.nan, np.float32) for rows in gone]
        for head, one in enumerate(chosen):
            if one is not None:
                margins[head][np.isin(gone[head], kept[head][one.evicted])] = one.margin
        self._apply(Evicted(block, retained, positions, margins))

    def _drop_passed(self, first: int, end: int, window: int) -> None:
        """Where no policy evicts: rows that no later query sees, at the end of the block behind which none does."""
        assert self.rows is not None and self._evicted_at is not None
        n_passed = max(0, end - window + 1 - self.rows.first_position())
        passed = self.rows.positions[0, :n_passed]
        # The first block whose end is `window` or more behind the row; tokens after the prompt are blocks themselves.
        ends = [self._block_end(block) for block in range(self.plan.block_of(first), self.plan.block_of(end - 1) + 1)]
        blocks = self.plan.block_of(first) + np.searchsorted(ends, passed + window)
        self._evicted_at[:, passed] = blocks
        self._write_evictions([passed] * self.rows.n_kv_heads)
        self.rows.drop_front(n_passed)

    def _block_end(self, block: int) -> int:
        after = block - self.plan.n_prompt_blocks
        if after >= 0:
            return self.plan.n_prompt + after + 1
        return min((block + 1) * self.plan.block_size, self.plan.n_prompt)

    def _select(
        self, attention: BlockAttention, n_new: int, kept: Sequence[NDArray[np.int64]]
    ) -> list[Selection | None]:
        """What the policy keeps of the rows that windows have left, per KV head."""
        assert self.rows is not None
        rows, needs, n_kv_heads = self.rows, self.policy.needs, self.rows.n_kv_heads
        keys = rows.keys.float().cpu().numpy()
        values = rows.values.float().cpu().numpy() if needs.values else None
        last_row = windows = None
        if needs.last_row and attention.last_row is not None:
            last_row = _group_mean(attention.last_row, n_kv_heads).cpu().numpy()
            if self.policy.whole_layer:
                last_row = np.broadcast_to(last_row.mean(axis=0, dtype=np.float32), last_row.shape)
        if needs.window:
            windows = _group_mean(attention.windows[needs.window], n_kv_heads).float().cpu().numpy()
        chosen: list[Selection | None] = []
        for head, at in enumerate(kept):
            if len(at) <= self.plan.budget:
                chosen.append(None)
                continue
            positions = rows.positions[head, at]
            received = self._totals is not None and self._seen_by is not None
            given = PolicyInput(
                keys=keys[head, at],
                positions=positions,
                n_new_rows=min(n_new, len(at)),
                budget=self.plan.budget,
                layer=self.layer,
                kv_head=head,
                values=None if values is None else values[head, at],
                last_row=None if last_row is None else last_row[head, at],
                attention_received=self._totals[head, positions] if received else None,  # type: ignore[index]
                attention_queries=self._seen_by[head, positions] if received else None,  # type: ignore[index]
                window_sums=None if windows is None else windows[head, at],
            )
            for array in vars(given).values():
                if isinstance(array, np.ndarray):
                    array.setflags(write=False)
            chosen.append(select(self.policy, given))
        return chosen

    def _apply(self, evicted: Evicted) -> None:
        assert self.rows is not None and self._evicted_at is not None and self._margin is not None
        for head, (positions, margins) in enumerate(zip(evicted.positions, evicted.margins, strict=True)):
            self._evicted_at[head, positions] = evicted.block
            self._margin[head, positions] = margins
        self._write_evictions(evicted.positions)
        self.rows.retain(evicted.retained)
        self.log.append(evicted)

    def _follow(self, lender: LayerRun, block: int) -> None:
        """Loses what the layer whose keys these are has lost at the end of a block."""
        for evicted in lender.log:
            if evicted.block == block:
                self._apply(evicted)

    def _write_evictions(self, positions: Sequence[NDArray[np.int32]]) -> None:
        writer = self.writer
        if writer is None or not any(len(of_head) for of_head in positions):
            return
        assert self._evicted_at is not None and self._margin is not None
        traces: dict[str, NDArray[Any]] = {"evicted_at": self._evicted_at, "evicted_margin": self._margin}
        if self._statistics is not None and self._statistics.last is None:
            traces["attention_queries"] = self._statistics.queries
            traces["attention_received"] = self._received()
        if max(len(of_head) for of_head in positions) <= _FEW_EVICTIONS:
            places = [(head, int(at)) for head, of_head in enumerate(positions) for at in of_head]
            for name, values in traces.items():
                writer.write_elements(self.layer, name, places, [values[place] for place in places])
            return
        low = min(int(of_head.min()) for of_head in positions if len(of_head))
        high = max(int(of_head.max()) for of_head in positions if len(of_head)) + 1
        for name, values in traces.items():
            writer.write_part(self.layer, name, low, values[:, low:high])

    def _received(self) -> NDArray[np.float64]:
        """(n_kv_heads, n_prompt): means over the group's query heads."""
        assert self._statistics is not None and self.rows is not None
        return _group_mean(self._statistics.received, self.rows.n_kv_heads).cpu().numpy()

    def present_sums(self) -> list[tuple[NDArray[np.float64], NDArray[np.int32]]]:
        """What the rows that are present have received, and from how many queries, per KV head."""
        assert self.rows is not None and self._statistics is not None
        received = self._received()
        held = [positions[positions >= 0] for positions in self.rows.positions]
        return [(received[head, at], self._statistics.queries[head, at]) for head, at in enumerate(held)]

    def finish_prompt(self) -> None:
        """Writes the statistics of the whole prompt."""
        statistics, writer = self._statistics, self.writer
        if statistics is None or writer is None or self.rows is None:
            return
        heads = statistics.received.cpu().numpy()
        window = _group_mean(statistics.window, self.rows.n_kv_heads).cpu().numpy()
        assert statistics.last is not None
        traces: dict[str, NDArray[Any]] = {
            "attention_received": self._received(), "attention_queries": statistics.queries,
            "attention_last": statistics.last, "attention_window": window.astype(np.float32),
        }  # fmt: skip
        for name, values in traces.items():
            writer.write_part(self.layer, name, 0, values)
        writer.write_all(self.layer, "attention_gini", np.array([gini(received) for received in heads]))
        writer.write_all(self.layer, "attention_top_share", np.array([top_share(received) for received in heads]))
        self._statistics = None


def _whole(rows: CachedRows, head: int) -> NDArray[np.int64]:
    held = rows.rows_of(head)
    return np.arange(held.start, held.stop)


def _group_mean(of_heads: Tensor, n_kv_heads: int) -> Tensor:
    """Mean over the query heads that share each KV head: (n_kv_heads, …)."""
    return of_heads.reshape(n_kv_heads, -1, *of_heads.shape[1:]).mean(dim=1)


def gini(amounts: NDArray[np.float64]) -> float:
    """Gini coefficient; NaN where there is nothing."""
    total = amounts.sum()
    if total == 0:
        return float("nan")
    n = len(amounts)
    return float(((2 * np.arange(1, n + 1) - n - 1) * np.sort(amounts)).sum() / (n * total))


def top_share(amounts: NDArray[np.float64], fraction: float = 0.01) -> float:
    """The share that the largest `fraction` of the amounts (rounded up) has of all; NaN where there is nothing."""
    total = amounts.sum()
    n_top = int(np.ceil(fraction * len(amounts)))
    return float(np.sort(amounts)[::-1][:n_top].sum() / total) if total else float("nan")
