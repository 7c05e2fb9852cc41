"""The scores by which a policy ranked a head's rows, computed again from recorded keys.

Scores that follow from keys and values alone exist for every block of every run; those of policies that score by
attention (H2O, TOVA, SnapKV) would need weights as they were at each block, and are not told. The largest scores stay:
where rows were evicted at a block, `evicted_margin` is the lowest score that stayed without force, minus the row's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from .attention import find_window
from .hdf5 import MissingError
from .layer import Array, Head


def _keydiff(keys: Array, _values: Array | None, _positions: Array, options: Mapping[str, Any]) -> Array:
    """KeyDiff (arXiv 2504.15364): minus the similarity to an anchor."""
    anchor_name, metric = options.get("anchor", "mean"), options.get("metric", "cosine")
    norms = np.linalg.norm(keys, axis=1)
    if anchor_name == "mean":
        anchor = keys.mean(axis=0)
    elif anchor_name == "median":
        anchor = np.median(keys, axis=0)
    else:  # "normalized-mean"; "pairwise" ranks as it does, times n ‖a‖
        anchor = np.divide(keys, norms[:, None], out=np.zeros_like(keys), where=norms[:, None] > 0).mean(axis=0)
    if metric == "euclidean":
        return np.asarray(np.linalg.norm(keys - anchor, axis=1))
    products = keys @ anchor
    if metric == "dot":
        return np.asarray(-products)
    both = norms * np.linalg.norm(anchor)
    cosines = np.divide(products, both, out=np.zeros_like(products), where=both > 0)
    times = len(keys) * np.linalg.norm(anchor) if anchor_name == "pairwise" else 1.0
    return np.asarray(-cosines * times)


def _l2norm(keys: Array, _values: Array | None, _positions: Array, _options: Mapping[str, Any]) -> Array:
    """Minus the norm, to five significant digits, so that repeated tokens tie."""
    norms = np.linalg.norm(keys, axis=1)
    return np.asarray([-float(f"{norm:.4e}") for norm in norms])


def _manifold(keys: Array, _values: Array | None, _positions: Array, _options: Mapping[str, Any]) -> Array:
    """ManifoldKV (arXiv 2602.08343): the distance to the mean key."""
    return np.asarray(np.linalg.norm(keys - keys.mean(axis=0), axis=1))


def _cur(keys: Array, values: Array | None, _positions: Array, _options: Mapping[str, Any]) -> Array:
    """The squared norms of key and value, multiplied."""
    assert values is not None
    return np.asarray((np.linalg.norm(keys, axis=1) * np.linalg.norm(values, axis=1)) ** 2)


def _sink(_keys: Array, _values: Array | None, positions: Array, _options: Mapping[str, Any]) -> Array:
    """StreamingLLM (arXiv 2309.17453): the later, the higher."""
    return positions.astype(np.float64)


_Scorer = Callable[[Array, Array | None, Array, Mapping[str, Any]], Array]
# By policy, with the options that its scores go by or that do not change them.
_SCORERS: dict[str, tuple[_Scorer, set[str]]] = {
    "keydiff": (_keydiff, {"anchor", "metric", "recent"}),
    "l2norm": (_l2norm, {"skip"}),
    "manifold": (_manifold, set()),
    "cur": (_cur, set()),
    "sink": (_sink, {"first"}),
}
_BESIDE_SCORES = {"protect", "split"}  # options of every policy that choose among scored rows


def why_unknown(head: Head) -> str:
    """Why the scores of a head's rows cannot be told; empty where they can."""
    run = head.run
    scorer = _SCORERS.get(run.policy)
    if scorer is None:
        return f"the scores of {run.policy} do not follow from recorded keys"
    others = set(run.parameters) - scorer[1] - _BESIDE_SCORES
    if others:
        return f"{run.policy} scored with options that are not known here: {', '.join(sorted(others))}"
    if run.positions == "cache":
        return "keys are rotated by their place in the cache, which moved"
    if head.index not in head.layer.recorded_heads:
        return f"KV head {head.index} was not recorded"
    for name in ("keys", "values") if run.policy == "cur" else ("keys",):
        if name not in head.layer:
            return f"{name} were not recorded"
    return ""


def scores(head: Head, block: int) -> pd.Series[float]:
    """What the run's policy ranked rows by at the end of a block, those evicted then included; by position.

    Rows that a sliding window had passed were not ranked. As exact as the keys were stored.

    Raises MissingError where the scores do not follow from what was recorded.
    """
    missing = why_unknown(head)
    if missing:
        raise MissingError(f"{head.layer.where}, KV head {head.index}: {missing}")
    return _Rows(head).at(block)


def eviction_scores(head: Head, positions: Array) -> Array:
    """What evicted rows scored at the block that evicted them, (n) float64; NaN where that cannot be told.

    positions: (n) of rows that the run evicted
    """
    found = np.full(len(positions), np.nan)
    if why_unknown(head) or not len(positions):
        return found
    rows = _Rows(head)
    blocks = rows.evicted_at[positions]
    for block in np.unique(blocks):
        here = blocks == block
        found[here] = rows.at(int(block)).reindex(positions[here]).to_numpy()
    return found


class _Rows:
    """One head's rows, read once for all blocks."""

    def __init__(self, head: Head) -> None:
        self.run, self.evicted_at, self.window = head.run, head.evicted_at, find_window(head.layer)
        self.keys = head.keys
        self.values = head.values if self.run.policy == "cur" else None

    def at(self, block: int) -> pd.Series[float]:
        seen = self.run.tokens_seen(block)
        oldest = max(0, seen - self.window + 1) if self.window else 0
        gone = self.evicted_at[oldest:seen]
        rows = oldest + np.flatnonzero((gone < 0) | (gone >= block))
        values = None if self.values is None else self.values[rows].astype(np.float64)
        scorer, _ = _SCORERS[self.run.policy]
        found = scorer(self.keys[rows].astype(np.float64), values, rows, self.run.parameters)
        return pd.Series(found, index=pd.Index(rows, name="position"), name="score")
