"""The scores by which a policy ranked a head's rows, computed again from recorded keys and values.

They exist for every block of every run whose policy reads nothing else; those of policies that score by attention (H2O,
TOVA, SnapKV) would need weights as they were at each block, and are not told; nor are those of the user's own policies,
as nothing that a recording names is run. The largest scores stay: where rows were evicted at a block, `evicted_margin`
is the lowest score that stayed without force, minus the row's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .attention import find_window
from .hdf5 import MissingError
from .layer import Array, Head
from .policies import PolicyError, PolicyInput

if TYPE_CHECKING:
    from .record.named_policies import Policy

_BESIDE_SCORES = ("protect", "granularity", "split", "critical")  # options of every policy, which choose among scored rows


def _policy(head: Head) -> Policy | str:
    """The policy of the head's run; or why the scores of its rows cannot be told."""
    from .record.named_policies import DEFINITIONS, parse

    run = head.run
    if run.policy not in DEFINITIONS:  # of a file or a library, as a recording says: its word is not run
        return f"policy {run.policy} is the user's own, none of keyscope's, and its scores are not known"
    options = ",".join(f"{key}={value}" for key, value in run.parameters.items() if key not in _BESIDE_SCORES)
    try:
        policy = parse(f"{run.policy}:{options}" if options else run.policy, seed=0)
    except PolicyError as error:
        return str(error)
    if not policy.evicts:
        return "the run evicts nothing and scores nothing"
    if run.parameters.get("granularity", "head") != "head" or run.parameters.get("split") == "adakv":
        return f"{run.policy} weighed the head's rows with those of others"
    if run.parameters.get("critical", "off") != "off":
        return f"{run.policy} weighed values by the model's output projection, which no recording holds"
    if policy.needs.attention:
        return f"{run.policy} scores by attention as it was at each block, which is not recorded"
    if head.layer.index < policy.first_layer:
        return f"{run.policy} leaves this layer alone"
    if run.positions == "cache":
        return "keys are rotated by their place in the cache, which moved"
    if head.index not in head.layer.recorded_heads:
        return "its keys were not recorded"
    for name in ("keys", "values") if policy.needs.values else ("keys",):
        if name not in head.layer:
            return f"{name} were not recorded"
    return policy


def scores(head: Head, block: int) -> pd.Series[float]:
    """What the run's policy ranked rows by at the end of a block, those evicted then included; by position.

    Rows that a sliding window had passed were not ranked. As exact as the keys were stored.

    Raises MissingError where the scores do not follow from what was recorded.
    """
    policy = _policy(head)
    if isinstance(policy, str):
        raise MissingError(f"{head.layer.where}, KV head {head.index}: no scores: {policy}")
    return _Rows(head, policy).scored_at(block)


def eviction_scores(head: Head, positions: Array) -> Array:
    """What evicted rows scored at the block that evicted them, (n) float64; NaN where that cannot be told.

    positions: (n) of rows that the run evicted
    """
    found = np.full(len(positions), np.nan)
    policy = _policy(head)
    if isinstance(policy, str) or not len(positions):
        return found
    rows = _Rows(head, policy)
    blocks = rows.evicted_at[positions]
    for block in np.unique(blocks):
        here = blocks == block
        found[here] = rows.scored_at(int(block)).reindex(positions[here]).to_numpy()
    return found


class _Rows:
    """One head's rows, read once for all blocks."""

    def __init__(self, head: Head, policy: Policy) -> None:
        self.head, self.policy, self.run = head, policy, head.run
        self.evicted_at, self.margin, self.window = head.evicted_at, head.evicted_margin, find_window(head.layer)
        self.keys = head.keys
        self.values = head.values if policy.needs.values else None

    def scored_at(self, block: int) -> pd.Series[float]:
        seen = self.run.tokens_seen(block)
        oldest = max(0, seen - self.window + 1) if self.window else 0
        gone = self.evicted_at[:seen]
        ranked = (gone < 0) | (gone >= block)
        # What a window passes leaves without a margin: any other row was ranked, whatever config.json says of windows.
        ranked[:oldest] &= (gone[:oldest] != block) | ~np.isnan(self.margin[:oldest])
        rows = np.flatnonzero(ranked)
        cache = PolicyInput(
            keys=self.keys[rows].astype(np.float32, copy=False),
            positions=rows.astype(np.int32),
            n_new_rows=min(seen - self.run.tokens_seen(block - 1), len(rows)),
            budget=self.run.budget,
            layer=self.head.layer.index,
            kv_head=self.head.index,
            values=None if self.values is None else self.values[rows].astype(np.float32, copy=False),
        )
        return pd.Series(self.policy.score(cache), index=pd.Index(rows, name="position"), name="score")
