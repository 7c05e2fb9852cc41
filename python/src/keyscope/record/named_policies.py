"""The policies that have names, as `keyscope capture` defines them: see docs/capture.md.

Each is a function of a PolicyInput, in NumPy, with its options. Scores are float64, ties go to the lower row, and the
same rows are forced, so that the same cache loses the same rows here and there; tests/python/test_record_policies.py
holds the one against the other.
"""

from __future__ import annotations

import hashlib
import json
import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import policies
from ..policies import PolicyError, PolicyInput, PolicyNeeds, Scores


@dataclass(frozen=True)
class Policy:
    """What record() evicts by: scores of one KV head's rows, and rows that stay whatever they score."""

    name: str  # of the run
    policy: str  # as the recording names it
    needs: PolicyNeeds
    score: Callable[[PolicyInput], Scores]
    options: Mapping[str, str] = field(default_factory=dict)
    force: Callable[[PolicyInput, NDArray[np.bool_]], None] | None = None  # marks forced rows, at most the budget
    whole_layer: bool = False  # `last_row` is the mean over all query heads of the layer
    first_layer: int = 0  # layers before it are never evicted
    n_recent: int = 0  # rows that are forced at any budget: none may be smaller

    @property
    def evicts(self) -> bool:
        return self.policy != "none"

    @property
    def parameters(self) -> str:
        """The options as a recording stores them: JSON in which what reads as a number is one."""
        options = {**self.options, **(_NEUTRAL if self.policy in DEFINITIONS and self.evicts else {})}
        return json.dumps({key: _as_number(options[key]) for key in sorted(options)}, separators=(",", ":"))


# What the program's policies have beside their scores; this package evicts head by head, and protects nothing.
_NEUTRAL = {"critical": "off", "granularity": "head", "protect": "none", "split": "uniform"}


def _as_number(value: str) -> Any:
    try:
        number = json.loads(value)
    except ValueError:
        return value
    return number if type(number) in (int, float) else value


@dataclass(frozen=True)
class Selection:
    """Rows of a cache that stay, and those that go, ascending, with the margin of each of the latter."""

    retained: NDArray[np.int64]
    evicted: NDArray[np.int64]
    margin: NDArray[np.float32]


def select_rows(scores: Scores, forced: NDArray[np.bool_], budget: int) -> Selection:
    """Keeps the forced rows, then the highest scores, until `budget` rows are kept; ties go to the lower row.

    The margin is the lowest score that was kept and not forced, minus the row's own; NaN where all were forced.
    """
    n_rows = len(scores)
    if n_rows <= budget:
        return Selection(np.arange(n_rows), np.empty(0, np.int64), np.empty(0, np.float32))
    open_rows = np.flatnonzero(~forced)
    n_open = budget - (n_rows - len(open_rows))
    order = open_rows[np.argsort(-scores[open_rows], kind="stable")]
    stays = forced.copy()
    stays[order[:n_open]] = True
    evicted = np.flatnonzero(~stays)
    lowest = scores[order[n_open - 1]] if n_open > 0 else math.nan
    return Selection(np.flatnonzero(stays), evicted, (lowest - scores[evicted]).astype(np.float32))


def select(policy: Policy, head: PolicyInput) -> Selection:
    """What a policy keeps of one head. Raises PolicyError where its function fails."""
    scores = policy.score(head)
    forced = np.isposinf(scores)
    if policy.force is not None:
        policy.force(head, forced)
    wrong = np.flatnonzero(~np.isfinite(scores) & ~forced)
    if len(wrong):
        raise PolicyError(
            f"policy {policy.name}, layer {head.layer}, KV head {head.kv_head}: the score of row {wrong[0]} is "
            f"{scores[wrong[0]]}; keys and attention weights must be finite"
        )
    return select_rows(scores, forced, head.budget)


def of_function(function: policies.Scorer, file: str | None = None) -> Policy:
    """A policy that a function of the caller's scores, recorded as the program records it. file: that it came from"""
    name = policies.name_of(function)
    source = {} if file is None else {"file": file, "sha256": hashlib.sha256(Path(file).read_bytes()).hexdigest()}
    return Policy(
        name=name,
        policy="python",
        options={"function": name, **source},
        needs=policies.needs_of(function),
        score=lambda head: policies.call(function, head),
    )


def parse(given: str | policies.Scorer, seed: int) -> Policy:
    """Reads `NAME[:key=value[,key=value…]]`, `python:FILE.py:FUNCTION`, or takes a function.

    Raises PolicyError naming what is accepted where something is not known or not accepted.
    """
    if callable(given):
        return of_function(given)
    if not isinstance(given, str):
        raise PolicyError(f"policies holds {given!r}; expected a policy's name or a function")
    if given.startswith("python:"):
        return of_function(policies.load(given), given.removeprefix("python:").rpartition(":")[0])
    name, colon, text = given.partition(":")
    definition = DEFINITIONS.get(name)
    if definition is None:
        advice = f"; several are a list: {given.split(',')}" if "," in name else ""
        raise PolicyError(f"policy {name!r} is not known; there are {', '.join(DEFINITIONS)}, or a function{advice}")
    chosen: dict[str, str] = {}
    for piece in text.split(",") if colon else ():
        key, equals, value = piece.partition("=")
        if not equals or key not in definition.defaults:
            takes = ", ".join(f"{key}=" for key in definition.defaults) or "none"
            raise PolicyError(f"policy {name}: {piece!r} is not an option of it; it takes {takes}")
        if key in chosen:
            raise PolicyError(f"policy {name}: option {key} is given twice")
        chosen[key] = value
    options = {key: str(seed) if default is None else default for key, default in definition.defaults.items()} | chosen
    return definition.make(_Options(name, options))


@dataclass(frozen=True)
class _Options:
    """A policy's options as text, and what they must be."""

    name: str
    values: Mapping[str, str]

    def _refuse(self, key: str, accepted: str) -> PolicyError:
        return PolicyError(f"policy {self.name}: {key}={self.values[key]} is not accepted; {key} takes {accepted}")

    def choice(self, key: str, accepted: Iterable[str]) -> str:
        names = list(accepted)
        if self.values[key] not in names:
            raise self._refuse(key, ", ".join(names))
        return self.values[key]

    def whole(self, key: str, low: int, high: int) -> int:
        text = self.values[key]
        if not (text.isascii() and text.isdigit() and len(text) <= 20) or not low <= int(text) <= high:
            raise self._refuse(key, f"a whole number from {low} to {high}")
        return int(text)

    def number(self, key: str, accepted: str, holds: Callable[[float], bool]) -> float:
        try:
            value = float(self.values[key])
        except ValueError:
            raise self._refuse(key, accepted) from None
        if not holds(value):
            raise self._refuse(key, accepted)
        return value

    def fraction(self, key: str) -> float:
        return self.number(key, "a fraction from 0 to 1", lambda value: 0 <= value <= 1)

    def policy(self, score: Callable[[PolicyInput], Scores], **about: Any) -> Policy:
        return Policy(
            name=self.name, policy=self.name, options=self.values, score=score, needs=about.pop("needs", PolicyNeeds()),
            **about,
        )  # fmt: skip


def round_half_up(fraction: float, whole: int) -> int:
    """`fraction` of `whole`, halves rounded up; exact for fractions of up to nine decimals."""
    return math.floor(fraction * whole + 0.5 + 1e-9)


def _force_recent(n_recent: Callable[[int], int]) -> Callable[[PolicyInput, NDArray[np.bool_]], None]:
    def force(head: PolicyInput, forced: NDArray[np.bool_]) -> None:
        n = min(n_recent(head.budget), head.budget, len(forced))
        forced[len(forced) - n :] = True

    return force


def _norms(rows: NDArray[Any]) -> Scores:
    wide = rows.astype(np.float64)
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", wide, wide)))


def _unit_mean(keys: Scores) -> Scores:
    norms = _norms(keys)[:, None]
    units = np.divide(keys, norms, out=np.zeros_like(keys), where=norms != 0)
    return np.asarray(units.sum(axis=0) / max(len(keys), 1))


def _keydiff(options: _Options) -> Policy:
    """The keys least similar to an anchor stay (arXiv 2504.15364); a key or anchor of norm zero scores 0."""
    anchor_name = options.choice("anchor", ("mean", "normalized-mean", "median", "pairwise"))
    metric = options.choice("metric", ("cosine", "dot", "euclidean"))
    recent = options.fraction("recent")
    if anchor_name == "pairwise" and metric != "cosine":
        raise PolicyError(f"policy keydiff: anchor=pairwise (Eq. 7) is defined with metric=cosine only, not {metric}")

    def score(head: PolicyInput) -> Scores:
        keys = head.keys.astype(np.float64)
        if anchor_name == "mean":
            anchor = keys.mean(axis=0)
        elif anchor_name == "median":
            anchor = np.median(keys, axis=0)
        else:
            anchor = _unit_mean(keys)
        if metric == "euclidean":
            return _norms(keys - anchor)
        products = keys @ anchor
        if metric == "dot":
            return np.asarray(-products)
        length = float(np.sqrt(anchor @ anchor))
        # Eq. 7 needs no n × n cosines: their sums are n ‖a‖ cos(k, a), a the mean of the unit keys.
        scale = len(keys) * length if anchor_name == "pairwise" else 1.0
        norms = _norms(keys) * length
        cosines = np.divide(products, norms, out=np.zeros_like(products), where=norms != 0)
        return np.asarray(-scale * cosines)

    return options.policy(score, force=_force_recent(lambda budget: round_half_up(recent, budget)))


def _sink(options: _Options) -> Policy:
    """The first tokens and the most recent ones stay (arXiv 2309.17453)."""
    first = options.whole("first", 0, 2**31 - 1)

    def force(head: PolicyInput, forced: NDArray[np.bool_]) -> None:
        forced[: min(int(np.searchsorted(head.positions, first)), head.budget)] = True

    return options.policy(lambda head: head.positions.astype(np.float64), force=force)


def _l2norm(options: _Options) -> Policy:
    """Keys of small norm stay (arXiv 2406.11430), to five digits, so that repeated tokens tie."""
    skip = options.whole("skip", 0, 1 << 16)

    def score(head: PolicyInput) -> Scores:
        norms = _norms(head.keys)
        with np.errstate(divide="ignore"):
            exponent = np.where(norms > 0, np.floor(np.log10(norms)), 0.0) - 4
        unit = 10.0 ** np.abs(exponent)
        # np.rint rounds halves to even; C++'s round, which this follows, away from zero.
        scaled = np.where(exponent < 0, norms * unit, norms / unit)
        whole = np.floor(scaled + 0.5)
        return np.asarray(-np.where(exponent < 0, whole / unit, whole * unit))

    return options.policy(score, first_layer=skip)


def _tova(options: _Options) -> Policy:
    """What the block's last query attends to most stays (arXiv 2401.06104)."""
    whole_layer = options.choice("heads", ("group", "all")) == "all"
    return options.policy(
        lambda head: _given(head.last_row).astype(np.float64), needs=PolicyNeeds(last_row=True), whole_layer=whole_layer
    )


def _h2o(options: _Options) -> Policy:
    """What has received most attention so far stays (arXiv 2306.14048)."""
    recent, normalize = options.fraction("recent"), options.choice("normalize", ("0", "1")) == "1"

    def score(head: PolicyInput) -> Scores:
        received = _given(head.attention_received)
        return np.asarray(received / np.maximum(_given(head.attention_queries), 1) if normalize else received)

    return options.policy(
        score,
        needs=PolicyNeeds(attention_received=True),
        force=_force_recent(lambda budget: round_half_up(recent, budget)),
    )


def _snapkv(options: _Options) -> Policy:
    """What the last queries attend to stays, with its neighbours (arXiv 2404.14469)."""
    window, kernel = options.whole("window", 1, 1 << 16), options.whole("kernel", 1, 1 << 16)
    recent = options.whole("recent", 0, 2**31 - 1)
    if kernel % 2 == 0:
        raise PolicyError(
            f"policy snapkv: kernel={kernel} is even; expected an odd number, so that a row lies in the middle"
        )

    def score(head: PolicyInput) -> Scores:
        # Summed anew for every row: a running sum would leave rounding behind, and equal rows would not tie.
        padded = np.pad(_given(head.window_sums).astype(np.float64), kernel // 2)
        return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, kernel).sum(axis=1) / kernel)

    return options.policy(
        score, needs=PolicyNeeds(window=window), force=_force_recent(lambda _: recent), n_recent=recent
    )


_MASK = (1 << 64) - 1


def _splitmix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _random(options: _Options) -> Policy:
    """A uniform sample of all tokens seen stays: one draw per seed, layer, KV head and position."""
    seed = options.whole("seed", 0, _MASK)

    def score(head: PolicyInput) -> Scores:
        drawn = _splitmix(np.array([seed], np.uint64))
        for part in (np.array([head.layer]), np.array([head.kv_head]), head.positions):
            drawn = _splitmix(drawn ^ part.astype(np.uint64))
        return (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53

    return options.policy(score)


def _manifold(options: _Options) -> Policy:
    """Keys furthest from the mean key stay (ManifoldKV), or from that of their window where there are any."""
    window = options.whole("window", 0, 1 << 16)

    def score(head: PolicyInput) -> Scores:
        keys = head.keys.astype(np.float64)
        size = window or len(keys)
        windows = [keys[first : first + size] for first in range(0, len(keys), size)]
        return np.concatenate([_norms(rows - rows.mean(axis=0)) for rows in windows])

    return options.policy(score)


def _cur(options: _Options) -> Policy:
    """Rows of large key and value norms stay (CUR), as shares of their sums over windows where there are any."""
    window, sinks = options.whole("window", 0, 1 << 16), options.whole("sinks", 0, 1 << 16)

    def of_windows(norms: Scores) -> Scores:
        squares = norms**2
        if window == 0:
            return squares
        firsts = np.arange(0, len(squares), window)
        sums = np.repeat(np.add.reduceat(squares, firsts), window)[: len(squares)]
        return np.asarray(np.divide(squares, sums, out=np.zeros_like(squares), where=sums > 0))

    def force(head: PolicyInput, forced: NDArray[np.bool_]) -> None:
        forced[: min(sinks, head.budget)] = True

    return options.policy(
        lambda head: of_windows(_norms(head.keys)) * of_windows(_norms(_given(head.values))),
        needs=PolicyNeeds(values=True),
        force=force,
    )


def _leverage(options: _Options) -> Policy:
    """Keys that the others span least stay: statistical leverage."""

    def score(head: PolicyInput) -> Scores:
        keys = head.keys.astype(np.float64)
        values, vectors = np.linalg.eigh(keys.T @ keys)
        counts = values > 1e-10 * values.max()
        whitening = vectors[:, counts] / np.sqrt(values[counts])
        return np.asarray(((keys @ whitening) ** 2).sum(axis=1))

    return options.policy(score)


def _logdet(options: _Options) -> Policy:
    """Keys that span the largest volume stay, taken greedily; a row's score is what it raised log det by."""
    ridge = options.number("ridge", "a number above 0", lambda value: 0 < value < math.inf)

    def score(head: PolicyInput) -> Scores:
        keys = head.keys.astype(np.float64)
        mean_square = (keys**2).sum() / max(1, keys.size)
        if mean_square == 0:
            return np.zeros(len(keys))
        # Sherman-Morrison: with u = M⁻¹k / √(1 + kᵀM⁻¹k) every row's kᵀM⁻¹k falls by (kᵀu)².
        inverse = np.eye(keys.shape[1]) / (ridge * mean_square)
        rest = (keys**2).sum(axis=1) / (ridge * mean_square)
        scores, ceiling, taken = np.empty(len(keys)), math.inf, np.zeros(len(keys), bool)
        for _ in range(len(keys)):
            best = int(np.argmax(np.where(taken, -math.inf, rest)))
            most = max(0.0, rest[best])
            # Rounding may let a gain rise by a hair; the order of the scores is that of the taking.
            scores[best] = ceiling = min(ceiling, math.log1p(most))
            u = inverse @ keys[best] / math.sqrt(1 + most)
            inverse -= np.outer(u, u)
            rest = np.maximum(rest - (keys @ u) ** 2, 0)
            taken[best] = True
        return scores

    return options.policy(score)


def _given(statistic: NDArray[Any] | None) -> NDArray[Any]:
    assert statistic is not None, "a named policy reads what it did not ask for"
    return statistic


@dataclass(frozen=True)
class _Definition:
    make: Callable[[_Options], Policy]
    defaults: Mapping[str, str | None] = field(default_factory=dict)  # None: the recording's seed


DEFINITIONS: dict[str, _Definition] = {
    "none": _Definition(lambda options: options.policy(lambda head: np.zeros(head.n_rows))),
    "keydiff": _Definition(_keydiff, {"anchor": "mean", "metric": "cosine", "recent": "0"}),
    "sink": _Definition(_sink, {"first": "4"}),
    "l2norm": _Definition(_l2norm, {"skip": "0"}),
    "tova": _Definition(_tova, {"heads": "group"}),
    "h2o": _Definition(_h2o, {"recent": "0", "normalize": "0"}),
    "snapkv": _Definition(_snapkv, {"window": "32", "kernel": "7", "recent": "32"}),
    "random": _Definition(_random, {"seed": None}),
    "manifold": _Definition(_manifold, {"window": "0"}),
    "cur": _Definition(_cur, {"window": "0", "sinks": "0"}),
    "leverage": _Definition(_leverage),
    "logdet": _Definition(_logdet, {"ridge": "1"}),
}


def budget_of(given: int | float | str, n_prompt: int) -> int:
    """N: a number of rows, or a share of the prompt's tokens (0.25, "25%"), half up and at least 1.

    Raises PolicyError on anything else.
    """
    if isinstance(given, numbers.Real) and not isinstance(given, bool):  # NumPy's too
        given = int(given) if isinstance(given, numbers.Integral) else float(given)
    refusal = PolicyError(
        f"budget is {given!r}; expected 1 or more rows, such as 64, or a share of the prompt, such as 0.25 or '25%'"
    )
    text = given.strip() if isinstance(given, str) else repr(given)
    if isinstance(given, bool):
        raise refusal
    try:
        if text.isascii() and text.isdigit():
            if int(text) < 1:
                raise refusal
            return int(text)
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise refusal from None
    if not 0 < share <= 1:
        raise refusal
    return max(1, round_half_up(share, n_prompt))
