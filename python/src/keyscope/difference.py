"""Which rows one run kept and another did not, and what attention they would still have received."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from . import attention as weights
from .hdf5 import MissingError, RecordingError
from .layer import Array, Head
from .scores import eviction_scores

if TYPE_CHECKING:
    from .recording import Recording
    from .run import Run

COLUMNS = [
    "layer",
    "kv_head",
    "position",
    "token",
    "kept_by",
    "evicted_at",
    "margin",
    "attention_before",
    "attention_after",
    "score",
]


def difference(
    recording: Recording,
    run_a: str,
    run_b: str,
    layer: int | None = None,
    kv_head: int | None = None,
    block: int | None = None,
    attention: bool = True,
) -> pd.DataFrame:
    """The rows that one of two runs kept and the other did not, one per layer, KV head and row, both ways.

    layer, kv_head: only this one; by default all that were recorded
    block: the moment after this block of run_a, and when run_b had seen as much; by default the end of the prompt
    attention: False leaves it out, which takes time with the square of the prompt

    | column | |
    |---|---|
    | `layer`, `kv_head`, `position`, `token` | which row; the token's text |
    | `kept_by` | the run that kept it; the other one evicted it |
    | `evicted_at` | the block at whose end the other run did |
    | `margin` | by how much it fell short of the cut there; NaN where no score decided |
    | `attention_before`, `attention_after` | what the prompt queries of the run `none` gave it up to the end of that
      block, and after it: sums of weights, means over the group |
    | `score` | by which the other run's policy ranked it then; NaN of policies that score by attention, and of those
      that are the user's own |

    Ordered by `attention_after`, the largest first, then by layer, KV head and position. Where attention is not known,
    it is NaN, and `attrs["attention_missing"]` says why, or of which heads.

    Raises MissingError where there is no such run, layer or head, RecordingError where the runs are one.
    """
    a, b = recording[run_a], recording[run_b]
    if a is b:
        raise RecordingError(f"{recording.path}: run {run_a} does not differ from itself; name two runs")
    last = a.block(block)
    n_seen = min(a.tokens_seen(last), b.n_tokens)
    full = recording.full_cache
    parts, missing = [], "" if full else "there is no finished run none, which would say what was lost"
    for head in _chosen_heads(recording, a, layer, kv_head):
        part = _of_head(head, b[head.layer.index][head.index], last, n_seen)
        why = missing if full is None or not attention else _add_attention(part, full, head)
        missing = missing or why
        parts.append(part)
    frame = pd.concat(parts, ignore_index=True) if parts else _frame({name: [] for name in COLUMNS})
    order = np.lexsort([frame.position, frame.kv_head, frame.layer, -frame.attention_after.fillna(0)])
    frame = frame.iloc[order].reset_index(drop=True)
    frame.insert(3, "token", a.tokens["text"].to_numpy(dtype=object)[frame.position.to_numpy()])
    frame.attrs["attention_missing"] = missing if attention else "not looked for"
    return frame[COLUMNS]


def _chosen_heads(recording: Recording, run: Run, layer: int | None, kv_head: int | None) -> list[Head]:
    layers = run.layers if layer is None else [layer]
    chosen = [
        run[index][head]
        for index in layers
        for head in ([kv_head] if kv_head is not None else run[index].recorded_heads if not run[index].keyless else [])
    ]
    if layer is not None:
        run[layer].require_keys()
    return chosen


def _frame(columns: dict[str, Any]) -> pd.DataFrame:
    types = {"layer": "int64", "kv_head": "int64", "position": "int64", "evicted_at": "int64", "margin": "float64"}
    types |= {"attention_before": "float64", "attention_after": "float64", "score": "float64"}
    return pd.DataFrame(columns).astype({name: of for name, of in types.items() if name in columns})


def _block_having_seen(run: Run, n_tokens: int) -> int:
    """The first block by whose end a run had seen so many tokens; else its last one."""
    seen = np.append(run.block_start[1:], run.n_tokens)
    return min(int(np.searchsorted(seen, n_tokens)), run.n_blocks - 1)


def _of_head(a: Head, b: Head, last: int, n_seen: int) -> pd.DataFrame:
    """Without attention, and without the tokens' text."""
    kept = []
    for head, block in ((a, last), (b, _block_having_seen(b.run, n_seen))):
        evicted_at = head.layer.read("evicted_at", head.index, slice(n_seen))
        kept.append((evicted_at < 0) | (evicted_at > block))
    parts = []
    for keeper, loser, position in (
        (a, b, np.flatnonzero(kept[0] & ~kept[1])),
        (b, a, np.flatnonzero(kept[1] & ~kept[0])),
    ):
        parts.append(
            _frame(
                {
                    "layer": a.layer.index,
                    "kv_head": a.index,
                    "position": position,
                    "kept_by": np.full(len(position), keeper.run.name, dtype=object),
                    "evicted_at": loser.evicted_at[position],
                    "margin": loser.evicted_margin[position],
                    "attention_before": np.nan,
                    "attention_after": np.nan,
                    "score": eviction_scores(loser, position),
                    "until": _ends_of_sight(loser, position),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def _ends_of_sight(loser: Head, positions: Array) -> Array:
    """The first query that could not see each row any more."""
    ends = np.append(loser.run.block_start[1:], loser.run.n_tokens)
    return np.asarray(ends[loser.evicted_at[positions]])


def _add_attention(part: pd.DataFrame, full: Run, head: Head) -> str:
    """What the full cache gave the rows; returns why it is not known, else nothing."""
    missing = weights.why_unknown(full, head.layer.index, head.index)
    if missing or part.empty:
        return missing
    try:
        before, after = weights.received_around(
            full[head.layer.index][head.index], part.position.to_numpy(), part.until.to_numpy()
        )
    except MissingError as error:
        return str(error)
    part["attention_before"], part["attention_after"] = before, after
    return ""
