"""Attention weights of a recorded head: as recorded, or recomputed from its queries and keys, tile by tile.

The weight of query i on row j is softmax over j of score(q_i·k_j) where score(x) = scale·x, or c·tanh(scale·x / c) with
a soft cap c, over the rows that the query could see: j <= i, i - j < window, and not evicted before i's block. A
learned sink takes part in the softmax without being a row (gpt-oss).

How a model scales and caps is its own affair, and config.json is not always a reliable witness. So what is recomputed
is held against what was recorded: weights of the last prompt query, `attention_last`. Where they differ, nothing is
computed from keys and queries at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .hdf5 import MissingError
from .layer import Array, Head, Layer

if TYPE_CHECKING:
    from .recording import Recording
    from .run import Run

_TILE = 128  # queries at a time
_MOST_APART = 0.05  # of the last query's attention, between recorded and recomputed weights


@dataclass(frozen=True)
class Rules:
    """What attention does besides a softmax: see the module. window, softcap: 0 where there is none."""

    scale: float
    softcap: float
    window: int


def weights(head: Head, queries: slice = slice(None)) -> Array:
    """Weights of a group's queries on the rows, (G, n_queries, n_tokens) float32; NaN where a row was not visible.

    queries: which tokens' queries, with a step of 1; all by default, which takes G · n_tokens² numbers

    Recorded weights of layers whose queries see neither all rows nor the latest ones (chunks of the text) are 0 where
    a row was hidden from a query that came before it was evicted.

    Raises MissingError where neither attention nor keys and queries were recorded, or where what was recorded shows
    that they do not say how this model attends.
    """
    chosen = range(head.run.n_tokens)[queries] if isinstance(queries, slice) else None
    if chosen is None or chosen.step != 1:
        raise ValueError(f"weights: queries is {queries!r}; expected a slice with a step of 1, such as slice(5, 6)")
    out = np.full((head.layer.group_size, len(chosen), head.run.n_tokens), np.nan, np.float32)
    for first, tile in tiles(head, chosen.start, chosen.stop):
        at = first - chosen.start
        out[:, at : at + tile.shape[1], : tile.shape[2]] = tile
    return out


def received_around(head: Head, positions: Array, until: Array) -> tuple[Array, Array]:
    """What a head's prompt queries gave some tokens before query `until` of each, and from there on.

    positions, until: (n); the results, (n) float64 each, are sums of weights, means over the group

    Takes time with the square of the prompt, and memory with its length.
    """
    before, after = np.zeros(len(positions)), np.zeros(len(positions))
    for first, tile in tiles(head, 0, head.run.recording.n_prompt):
        there = positions < tile.shape[2]
        given = np.nan_to_num(tile[:, :, positions[there]]).mean(axis=0, dtype=np.float64)
        early = np.arange(first, first + tile.shape[1])[:, None] < until[there]
        before[there] += (given * early).sum(axis=0)
        after[there] += (given * ~early).sum(axis=0)
    return before, after


def why_unknown(run: Run, layer: int, kv_head: int) -> str:
    """Why a head's weights cannot be told; empty where they can, as far as a look at its datasets shows."""
    of = run[layer]
    if kv_head not in of.recorded_heads:
        return f"KV head {kv_head} was not recorded"
    if not _is_recorded(of) and not ("keys" in of and "queries" in of):
        return "neither attention nor keys and queries were recorded"
    return ""


def tiles(head: Head, first: int, last: int) -> Iterator[tuple[int, Array]]:
    """Weights of queries [first, last), n at a time: the first one, and (G, n, first + n), NaN where not visible."""
    head.require_rows()
    recorded = _is_recorded(head.layer)
    rules = Rules(1, 0, find_window(head.layer) or 0) if recorded else find_rules(head.layer)
    return _recorded_tiles(head, first, last, rules) if recorded else _computed_tiles(head, first, last, rules)


def _is_recorded(layer: Layer) -> bool:
    return "attention" in layer and not layer.run.replayed


def _visible(run: Run, evicted_at: Array, first: int, end: int, window: int) -> Array:
    """Which rows queries [first, end) could see, (end - first, end)."""
    queries, rows = np.arange(first, end)[:, None], np.arange(end)
    gone = evicted_at[:end]
    seen: Array = (rows <= queries) & ((gone < 0) | (gone >= run.block_of(queries)))
    return seen & (queries - rows < window) if window else seen


def _recorded_tiles(head: Head, first: int, last: int, rules: Rules) -> Iterator[tuple[int, Array]]:
    group, evicted_at = head.query_heads, head.evicted_at
    for at in range(first, last, _TILE):
        end = min(at + _TILE, last)
        tile = head.layer.read("attention", slice(group.start, group.stop), slice(at, end), slice(end))
        yield at, np.where(_visible(head.run, evicted_at, at, end, rules.window), tile, np.float32(np.nan))


def _computed_tiles(head: Head, first: int, last: int, rules: Rules) -> Iterator[tuple[int, Array]]:
    group, evicted_at = head.query_heads, head.evicted_at
    keys = head.keys[:last].astype(np.float32, copy=False)
    sinks = np.full(len(group), -np.inf)
    if "sink_logit" in head.layer:
        sinks = head.layer.read("sink_logit", slice(group.start, group.stop)).astype(np.float64)
    for at in range(first, last, _TILE):
        end = min(at + _TILE, last)
        queries = head.layer.read("queries", slice(group.start, group.stop), slice(at, end)).astype(
            np.float32, copy=False
        )
        scores = queries @ keys[:end].T
        scores *= np.float32(rules.scale)
        if rules.softcap:
            scores = np.float32(rules.softcap) * np.tanh(scores / np.float32(rules.softcap))
        hidden = ~_visible(head.run, evicted_at, at, end, rules.window)
        scores[:, hidden] = -np.inf
        largest = np.maximum(scores.max(axis=2), sinks[:, None].astype(np.float32))[:, :, None]
        largest[np.isneginf(largest)] = 0  # a query that could see nothing
        np.exp(scores - largest, out=scores)
        total = scores.sum(axis=2, dtype=np.float64) + np.exp(sinks[:, None] - largest[:, :, 0])
        scores /= total.astype(np.float32)[:, :, None]
        scores[:, hidden] = np.nan
        yield at, scores


def find_window(layer: Layer) -> int | None:
    """How far back a layer's queries see, in rows, the own one included; 0: as far as there are any.

    None: they see other rows than the latest ones: those of a chunk of the text, or what each of them chooses.

    What the run `none` shows: how many queries could see each token, or where nobody counted, which rows were dropped
    when a block had passed them. Without it, what config.json says.
    """
    recording = layer.run.recording
    full = recording.full_cache
    if full is None:
        return _configured_window(recording.model.config, layer.index)
    of = full[layer.index]
    if not full.replayed and "attention_queries" in of:
        n_queries = of.read("attention_queries", 0, slice(recording.n_prompt))
        window = int(n_queries[0])
        later = np.arange(recording.n_prompt, 0, -1)  # queries from each token on
        if (n_queries != np.minimum(window, later)).any():
            return None
        return window if window < recording.n_prompt else 0
    evicted_at = of.read("evicted_at", 0)
    if (evicted_at < 0).all():
        return 0
    block = int(evicted_at.max())
    return full.tokens_seen(block) - int(np.flatnonzero(evicted_at == block)[-1])


def _configured_window(config: Mapping[str, Any], layer: int) -> int:
    text = config.get("text_config") if isinstance(config.get("text_config"), Mapping) else config
    assert isinstance(text, Mapping)
    window, types = text.get("sliding_window"), text.get("layer_types")
    if not isinstance(window, int) or text.get("use_sliding_window") is False:
        return 0
    if isinstance(types, list) and layer < len(types):
        return window if types[layer] == "sliding_attention" else 0
    return window


def find_rules(layer: Layer) -> Rules:
    """The rules of a layer by config.json, verified against what was recorded, where attention was measured.

    Raises MissingError where neither those nor the usual ones account for it, or where keys moved.
    """
    if layer.run.positions == "cache" and not layer.run.full_cache:
        raise MissingError(
            f"{layer.where}: attention was not recorded and cannot be computed from keys that are rotated by their "
            "place in the cache: capture with --record keys,queries,attention"
        )
    for name in ("keys", "queries"):
        if name not in layer:
            raise MissingError(
                f"{layer.where}: attention was not recorded and cannot be computed without {name}: capture with "
                "--record keys,queries"
            )
    recording = layer.run.recording
    known = recording.attention_rules
    if layer.index not in known:
        known[layer.index] = _verified_rules(layer, _measured(recording, layer))
    return known[layer.index]


def _measured(recording: Recording, layer: Layer) -> Layer | None:
    """The layer in a run whose recorded attention came from the recorded keys."""
    for run in recording:
        of = run[layer.index]
        exact = run.positions == "true" and run.cache_dtype == "model" and not run.replayed
        if exact and run.n_tokens >= recording.n_prompt and all(n in of for n in ("keys", "queries", "attention_last")):
            return of
    return None


def _verified_rules(layer: Layer, measured: Layer | None) -> Rules:
    window = find_window(layer)
    if window is None:
        raise MissingError(
            f"{layer.where}: its queries see neither all rows nor the latest ones, but others that cannot be told; "
            "record attention as well"
        )
    config = layer.run.recording.model.config
    candidates = [Rules(scale, softcap, window) for scale, softcap in _configured_rules(config, layer.head_dim)]
    if measured is None:
        return candidates[0]
    head = measured[measured.recorded_heads[0]]
    last = head.run.recording.n_prompt - 1
    recorded = head.attention_last[: last + 1]
    apart = []
    for rules in candidates:
        _, tile = next(_computed_tiles(head, last, last + 1, rules))
        apart.append(float(np.abs(np.nan_to_num(tile[:, 0]).mean(axis=0) - recorded).sum() / 2))
    best = int(np.argmin(apart))
    if not apart[best] <= _MOST_APART:
        raise MissingError(
            f"{measured.where}: weights computed from keys and queries differ from the recorded attention_last by "
            f"{apart[best]:.1%} of the last query's attention: this model attends in a way that the recording does not "
            "tell; record attention as well"
        )
    return candidates[best]


def _configured_rules(config: Mapping[str, Any], head_dim: int) -> list[tuple[float, float]]:
    """Scale and soft cap (0: none), the likeliest first: what the configuration says, and what most models do."""
    text = config.get("text_config")
    said = {**config, **text} if isinstance(text, Mapping) else config

    def number(name: str) -> float:
        value = said.get(name)
        return float(value) if isinstance(value, (int, float)) and value > 0 else 0.0

    softcap = number("attn_logit_softcapping")
    scales = [1 / math.sqrt(head_dim), 1.0]
    if number("attention_multiplier"):
        scales.insert(0, number("attention_multiplier"))
    if number("query_pre_attn_scalar"):
        scales.insert(0, number("query_pre_attn_scalar") ** -0.5)
    if number("kv_lora_rank"):  # latent attention: of the keys as they are before they are compressed
        width = number("qk_nope_head_dim") + number("qk_rope_head_dim")
        scaling = said.get("rope_scaling") or said.get("rope_parameters") or {}
        everywhere, factor = scaling.get("mscale_all_dim") or 0, scaling.get("factor") or 1
        by = 0.1 * everywhere * math.log(factor) + 1 if everywhere and factor > 1 else 1.0
        scales.insert(0, by * by / math.sqrt(width or head_dim))
    # Later Gemmas' configurations may have a cap, which their models never look at.
    caps = [softcap, 0.0] if softcap and str(said.get("model_type", "")).startswith("gemma2") else [0.0, softcap]
    return [(scale, cap) for cap in dict.fromkeys(caps) for scale in scales]
