"""Exact attention of a block over a layer's cached rows, with its statistics, tile by tile.

No more of the weights is in memory than a tile of queries needs, and statistics are taken of the very weights that
multiply the values. Products and the softmax are float32, sums over queries float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from .rows import CachedRows

Tensor = torch.Tensor
# Gets the weights of a tile: first KV head, first query, first row, and (kv_heads, group, queries, rows).
OnWeights = Callable[[int, int, int, Tensor], None]

_HIDDEN = -1e30  # a score that exp() makes 0 of, and that 0 can be multiplied with
# Weights that a tile may hold: what stays near on a CPU, what fills a GPU.
_TILE_WEIGHTS = {"cpu": 1 << 21}
_TILE_WEIGHTS_ELSEWHERE = 1 << 26
_MOST_TILE_QUERIES, _LEAST_TILE_QUERIES = 256, 16


@dataclass(frozen=True)
class AttentionRules:
    """What attention does besides weighing values by softmax(q·k · scale)."""

    scale: float
    softcap: float = 0.0  # c: scores become c tanh(score / c); 0: they do not
    sinks: Tensor | None = None  # (n_heads) float32: scores that take part in the softmax and have no row


@dataclass(frozen=True)
class Visibility:
    """Which of the tokens seen so far the queries of a segment see: their own and older ones, and no others.

    window: rows whose distance from the query is less are visible; 0: all
    mask: where that does not say it: (n_queries, n_seen) by true position, bool, or float that is added to the scores
    """

    window: int = 0
    mask: Tensor | None = None

    def part(self, first: int, end: int) -> Visibility:
        """Of queries [first, end)."""
        return self if self.mask is None else Visibility(self.window, self.mask[first:end])


@dataclass(frozen=True)
class Wants:
    """Statistics to take beside the output."""

    columns: bool = False  # column sums and how many queries saw each row
    entropy: bool = False
    last_row: bool = False
    windows: tuple[int, ...] = ()  # of how many last queries the weights are summed, each by itself
    on_weights: OnWeights | None = None


@dataclass
class BlockAttention:
    """What attention gave, and the statistics that were wanted, by row of the cache."""

    output: Tensor  # (n, n_heads, value_dim), in the queries' dtype
    columns: Tensor | None = None  # (n_heads, n_rows) float64, sums over the queries
    visible: Tensor | None = None  # (n_kv_heads, n_rows) int64: how many queries could see the row
    entropy: Tensor | None = None  # (n_heads, n) float32, in nats, the sink's weight included
    sink: Tensor | None = None  # (n_heads, n) float32: the weight that each query gave to the head's sink
    last_row: Tensor | None = None  # (n_heads, n_rows) float32
    windows: dict[int, Tensor] = field(default_factory=dict)  # per window: (n_heads, n_rows) float64


def attend(
    queries: Tensor, rows: CachedRows, visibility: Visibility, rules: AttentionRules, wants: Wants
) -> BlockAttention:
    """Attention of queries (n_heads, n, head_dim) whose own rows are the last n of the cache."""
    return _Attention(queries, rows, visibility, rules, wants).run()


class _Attention:
    """One call: its sizes, its scratch memory and what it has summed."""

    def __init__(
        self, queries: Tensor, rows: CachedRows, visibility: Visibility, rules: AttentionRules, wants: Wants
    ) -> None:
        self.queries, self.rows, self.visibility, self.rules, self.wants = queries, rows, visibility, rules, wants
        self.n_heads, self.n, self.head_dim = queries.shape
        self.n_kv_heads, self.n_rows = rows.n_kv_heads, rows.n_rows
        self.group = self.n_heads // self.n_kv_heads
        self.own = self.n_rows - self.n  # the first of the queries' own rows
        self.device = queries.device
        self.dtype = torch.float64 if queries.dtype == torch.float64 else torch.float32
        self.tile_weights = _TILE_WEIGHTS.get(self.device.type, _TILE_WEIGHTS_ELSEWHERE)
        self.scratch: tuple[Tensor, Tensor] | None = None
        self.later: Tensor | None = None  # which of the queries' own rows come after each of them
        self.result = self._empty_result()

    def _empty_result(self) -> BlockAttention:
        value_dim = self.rows.values.shape[2]
        result = BlockAttention(
            torch.empty((self.n, self.n_heads, value_dim), dtype=self.queries.dtype, device=self.device)
        )
        if self.wants.columns:
            result.columns = self._zeros(torch.float64)
            visible = (self.n_kv_heads, self.n_rows)
            result.visible = torch.zeros(visible, dtype=torch.int64, device=self.device)
        per_query = (self.n_heads, self.n)
        if self.wants.entropy:
            result.entropy = torch.empty(per_query, dtype=torch.float32, device=self.device)
        if self.rules.sinks is not None:
            result.sink = torch.empty(per_query, dtype=torch.float32, device=self.device)
        if self.wants.last_row:
            result.last_row = self._zeros(torch.float32)
        result.windows = {window: self._zeros(torch.float64) for window in self.wants.windows}
        return result

    def _zeros(self, dtype: torch.dtype) -> Tensor:
        return torch.zeros((self.n_heads, self.n_rows), dtype=dtype, device=self.device)

    def run(self) -> BlockAttention:
        n_queries = self._tile_queries()
        n_heads = max(1, min(self.n_kv_heads, self.tile_weights // max(1, self.group * n_queries * self.n_rows)))
        for head in range(0, self.n_kv_heads, n_heads):
            end = min(head + n_heads, self.n_kv_heads)
            keys = self.rows.keys[head:end].to(self.dtype)
            values = self.rows.values[head:end].to(self.dtype)
            for query in range(0, self.n, n_queries):
                self._tile(head, end, query, min(query + n_queries, self.n), keys, values)
        return self.result

    def _tile_queries(self) -> int:
        n = _MOST_TILE_QUERIES
        while n > _LEAST_TILE_QUERIES and n * self.group * self.n_rows > self.tile_weights:
            n //= 2
        return min(n, self.n)

    def _tile(self, head: int, head_end: int, query: int, query_end: int, keys: Tensor, values: Tensor) -> None:
        """Queries [query, query_end) of the heads that read KV heads [head, head_end)."""
        first, end = self._first_row(query), self.own + query_end
        heads, n, n_rows = head_end - head, query_end - query, end - first
        scores, weights = self._scratch(heads * self.group * n * n_rows)
        scores = scores.view(heads, self.group * n, n_rows)
        weights = weights.view(heads, self.group * n, n_rows)
        queries = self.queries.view(self.n_kv_heads, self.group, self.n, -1)[head:head_end, :, query:query_end]
        scaled = queries.to(self.dtype).mul(self.rules.scale).reshape(heads, self.group * n, -1)
        torch.bmm(scaled, keys[:, first:end].transpose(1, 2), out=scores)
        by_head = scores.view(heads, self.group, n, n_rows)
        self._apply_rules(by_head, head, head_end, query, query_end, first)
        torch.softmax(scores, -1, out=weights)
        tile = _Tile(head, head_end, query, query_end, first, end)
        log_sum_exp = None
        if self.wants.entropy or self.rules.sinks is not None or self.visibility.mask is not None:
            largest = scores.amax(dim=-1, keepdim=True)
            # The largest weight is exp(its score - the log-sum-exp).
            log_sum_exp = largest - weights.amax(dim=-1, keepdim=True).log()
            if self.visibility.mask is not None:  # a query that sees no row weighs none
                weights.masked_fill_(largest < _HIDDEN / 2, 0)
        shares = None
        if log_sum_exp is not None and self.rules.sinks is not None:
            shares = self._share_with_sinks(tile, log_sum_exp, weights)
        self._store_output(tile, torch.bmm(weights, values[:, first:end]))
        self._take(tile, weights.view(heads, self.group, n, n_rows))
        if log_sum_exp is not None and self.wants.entropy:
            self._take_entropy(tile, scores, weights, log_sum_exp, shares)

    def _scratch(self, n: int) -> tuple[Tensor, Tensor]:
        if self.scratch is None or len(self.scratch[0]) < n:
            new = [torch.empty(n, dtype=self.dtype, device=self.device) for _ in range(2)]
            self.scratch = (new[0], new[1])
        return self.scratch[0][:n], self.scratch[1][:n]

    def _first_row(self, query: int) -> int:
        """The first row that queries from `query` on may see."""
        if not self.visibility.window or not self.rows.contiguous:
            return 0
        oldest = self.rows.position_of_last() - (self.n - 1 - query) - self.visibility.window + 1
        return max(0, oldest - self.rows.first_position())

    def _apply_rules(self, scores: Tensor, head: int, head_end: int, query: int, query_end: int, first: int) -> None:
        if self.rules.softcap:
            scores.div_(self.rules.softcap).tanh_().mul_(self.rules.softcap)
        for columns, hidden in self._hidden(head, head_end, query, query_end, first):
            part = scores[..., columns]
            if hidden.dtype == torch.bool:
                part.masked_fill_(hidden, _HIDDEN)
            else:
                part.add_(hidden).clamp_(min=_HIDDEN)

    def _hidden(
        self, head: int, head_end: int, query: int, query_end: int, first: int
    ) -> Iterator[tuple[slice, Tensor]]:
        """Columns of a tile in which rows are hidden, and where: broadcast to (kv_heads, group, queries, columns).

        Also counts which queries see which rows.
        """
        n, end = query_end - query, self.own + query_end
        visible = self.result.visible
        seen: Tensor
        if self.visibility.mask is not None:
            mask = self._mask_columns(self.visibility.mask[query:query_end], head, head_end, first, end)
            seen = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
            if visible is not None:
                visible[head:head_end, first:end] += seen.sum(dim=1)
            yield slice(None), (~mask if mask.dtype == torch.bool else mask.to(self.dtype))[:, None]
            if self.rows.padded:
                yield slice(None), self._padding(head, head_end, first, end)
            return
        if self.visibility.window and self.rows.reaches(self.visibility.window):
            rows = self.rows.position_tensor(head, head_end, self.device)[:, None, first:end]
            own = self.rows.position_of_last() - self.n + 1 + torch.arange(query, query_end, device=self.device)
            seen = (rows <= own[None, :, None]) & (rows > own[None, :, None] - self.visibility.window) & (rows >= 0)
            if visible is not None:
                visible[head:head_end, first:end] += seen.sum(dim=1)
            yield slice(None), ~seen[:, None]
            return
        if visible is not None:
            visible[head:head_end, first : self.own + query] += n
            visible[head:head_end, self.own + query : end] += torch.arange(n, 0, -1, device=self.device)
        if self.rows.padded:
            yield slice(None), self._padding(head, head_end, first, end)
        if n > 1:
            if self.later is None or len(self.later) < n:
                self.later = torch.ones((n, n), dtype=torch.bool, device=self.device).triu_(1)
            yield slice(end - first - n, None), self.later[:n, :n]

    def _padding(self, head: int, head_end: int, first: int, end: int) -> Tensor:
        return self.rows.position_tensor(head, head_end, self.device)[:, None, None, first:end] < 0

    def _mask_columns(self, mask: Tensor, head: int, head_end: int, first: int, end: int) -> Tensor:
        """A mask by true position at the rows of the cache: (kv_heads, queries, rows)."""
        mask = mask.to(self.device)
        if self.rows.contiguous:
            start = self.rows.first_position()
            return mask[None, :, start + first : start + end].expand(head_end - head, -1, -1)
        at = self.rows.position_tensor(head, head_end, self.device)[:, first:end].clamp(min=0)
        return mask[:, at].transpose(0, 1)

    def _share_with_sinks(self, tile: _Tile, log_sum_exp: Tensor, weights: Tensor) -> Tensor:
        """Scales weights so that those of a row and its sink's add up to 1; the rows' share: (heads, G·n, 1)."""
        assert self.rules.sinks is not None and self.result.sink is not None
        heads, n = tile.head_end - tile.head, tile.query_end - tile.query
        sinks = self.rules.sinks.to(self.device, self.dtype).view(self.n_kv_heads, self.group)[
            tile.head : tile.head_end
        ]
        sinks = sinks[:, :, None].expand(-1, -1, n).reshape(heads, self.group * n, 1)
        shares = torch.sigmoid(log_sum_exp - sinks)
        weights.mul_(shares)
        self._per_query(self.result.sink, tile).copy_(torch.sigmoid(sinks - log_sum_exp).view(heads, self.group, n))
        return shares

    def _per_query(self, of: Tensor, tile: _Tile) -> Tensor:
        """The tile's part of a (n_heads, n) tensor: (kv_heads, group, queries)."""
        by_kv_head = of.view(self.n_kv_heads, self.group, self.n)
        return by_kv_head[tile.head : tile.head_end, :, tile.query : tile.query_end]

    def _per_row(self, of: Tensor, tile: _Tile) -> Tensor:
        """The tile's part of a (n_heads, n_rows) tensor: (kv_heads, group, rows)."""
        return of.view(self.n_kv_heads, self.group, self.n_rows)[tile.head : tile.head_end, :, tile.first : tile.end]

    def _store_output(self, tile: _Tile, mixed: Tensor) -> None:
        n = tile.query_end - tile.query
        mixed = mixed.view(tile.head_end - tile.head, self.group, n, -1).permute(2, 0, 1, 3)
        output = self.result.output.view(self.n, self.n_kv_heads, self.group, -1)
        output[tile.query : tile.query_end, tile.head : tile.head_end].copy_(mixed)

    def _take(self, tile: _Tile, weights: Tensor) -> None:
        if self.wants.on_weights is not None:
            self.wants.on_weights(tile.head, tile.query, tile.first, weights)
        if self.result.columns is not None:
            self._per_row(self.result.columns, tile).add_(weights.sum(dim=2))
        if self.result.last_row is not None and tile.query_end == self.n:
            self._per_row(self.result.last_row, tile).copy_(weights[:, :, -1])
        for window, sums in self.result.windows.items():
            skipped = max(0, self.n - window - tile.query)
            if skipped < tile.query_end - tile.query:
                self._per_row(sums, tile).add_(weights[:, :, skipped:].sum(dim=2))

    def _take_entropy(
        self, tile: _Tile, scores: Tensor, weights: Tensor, log_sum_exp: Tensor, shares: Tensor | None
    ) -> None:
        """-Σ p ln p, where ln p is a score less the log-sum-exp; of a query that sees no row 0. Overwrites scores."""
        assert self.result.entropy is not None
        torch.mul(weights, scores, out=scores)
        mean_score = scores.sum(dim=-1, keepdim=True)
        if shares is None:
            entropy = log_sum_exp - mean_score
        else:
            # With p = share · p': -Σ p ln p = share · H(p') - share ln share, and the sink's own term besides.
            entropy = shares * log_sum_exp - mean_score + torch.special.entr(shares) + torch.special.entr(1 - shares)
        if self.visibility.mask is not None:
            entropy.masked_fill_(log_sum_exp < _HIDDEN / 2, 0)
        heads, n = tile.head_end - tile.head, tile.query_end - tile.query
        self._per_query(self.result.entropy, tile).copy_(entropy.clamp_(min=0).view(heads, self.group, n))


@dataclass(frozen=True)
class _Tile:
    """Queries [query, query_end) of KV heads [head, head_end), and rows [first, end) that they may see."""

    head: int
    head_end: int
    query: int
    query_end: int
    first: int
    end: int


def default_scale(head_dim: int) -> float:
    """What scaled dot-product attention multiplies by where nothing is said."""
    return 1 / math.sqrt(head_dim)
