"""Eviction policies of one's own: a function that scores the rows of one KV head's cache.

    import keyscope

    @keyscope.policy(needs=("values",))
    def value_norm(head):
        return (head.values**2).sum(axis=1)

The function gets a `PolicyInput` and returns one number per row; the largest stay. It is called after every block, for
every layer and KV head that holds more rows than its budget. The same function is a policy of `keyscope.record`
(`policies=[value_norm]`) and of the program (`--policy python:FILE.py:value_norm`); this module needs NumPy alone.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

NEEDS = ("values", "last_row", "attention_received", "window_sums")
DEFAULT_WINDOW = 32  # queries that `window_sums` sums over, unless a policy says otherwise

Floats = NDArray[np.float32]
Scores = NDArray[np.float64]
Scorer = Callable[["PolicyInput"], Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])


class PolicyError(ValueError):
    """A policy that is not known, or that did not return what it should: one sentence that names it."""


@dataclass(frozen=True)
class PolicyInput:
    """One KV head's cache after a block was appended, rows in time order.

    What a policy did not ask for is None. Arrays may not be written to. Attention weights are means over the query
    heads that share the KV head.
    """

    keys: Floats  # (n_rows, head_dim), after RoPE
    positions: NDArray[np.int32]  # (n_rows), ascending: the rows' places in the text
    n_new_rows: int  # rows that this block appended: the last ones
    budget: int  # rows that will stay
    layer: int
    kv_head: int
    values: Floats | None = None  # (n_rows, value_dim): needs "values"
    last_row: Floats | None = None  # (n_rows), weights of the block's last query: needs "last_row"
    # (n_rows), the sum of weights from all queries so far, and how many queries could see the row: needs
    # "attention_received"
    attention_received: Scores | None = None
    attention_queries: NDArray[np.int32] | None = None
    # (n_rows), the sum of weights from the block's last `window` queries: needs "window_sums"
    window_sums: Floats | None = None

    @property
    def n_rows(self) -> int:
        return len(self.keys)


@dataclass(frozen=True)
class PolicyNeeds:
    """What of a PolicyInput beyond keys and positions a policy reads."""

    values: bool = False
    last_row: bool = False
    attention_received: bool = False
    window: int = 0  # of `window_sums`; 0: not read

    @property
    def attention(self) -> bool:
        return self.last_row or self.attention_received or self.window > 0


@overload
def policy(function: _Function, /) -> _Function: ...
@overload
def policy(*, needs: str | Iterable[str] = ..., window: int = ...) -> Callable[[_Function], _Function]: ...
def policy(
    function: _Function | None = None, /, *, needs: str | Iterable[str] = (), window: int = DEFAULT_WINDOW
) -> _Function | Callable[[_Function], _Function]:
    """Declares what a policy function reads beyond keys and positions.

    needs: of "values", "last_row", "attention_received" (with `attention_queries`) and "window_sums"
    window: how many of a block's last queries `window_sums` sums over

    Raises PolicyError where `needs` holds something else, or the window is no number from 1 on.

    >>> @policy(needs="values")
    ... def value_norm(head):
    ...     return (head.values**2).sum(axis=1)
    >>> needs_of(value_norm).values
    True
    """
    wanted = (needs,) if isinstance(needs, str) else tuple(needs)
    unknown = [name for name in wanted if name not in NEEDS]
    if unknown:
        raise PolicyError(f"policy: needs holds {unknown[0]!r}; expected some of {', '.join(NEEDS)}")
    if not isinstance(window, int) or window < 1:
        raise PolicyError(f"policy: window is {window!r}; expected a whole number from 1 on")
    declared = PolicyNeeds(
        values="values" in wanted,
        last_row="last_row" in wanted,
        attention_received="attention_received" in wanted,
        window=window if "window_sums" in wanted else 0,
    )

    def declare(declared_function: _Function) -> _Function:
        declared_function.keyscope_needs = declared  # type: ignore[attr-defined]
        return declared_function

    return declare if function is None else declare(function)


def needs_of(function: Callable[..., Any]) -> PolicyNeeds:
    """What a function was declared to need; keys and positions alone where nothing was."""
    needs = getattr(function, "keyscope_needs", None)
    return needs if isinstance(needs, PolicyNeeds) else PolicyNeeds()


def name_of(function: Callable[..., Any]) -> str:
    """A function's name, as errors and runs have it: what it wraps, where it is a partial."""
    wrapped = getattr(function, "func", function)
    name = getattr(wrapped, "__name__", type(wrapped).__name__)
    return "scores" if name == "<lambda>" else str(name)


def call(function: Scorer, head: PolicyInput) -> Scores:
    """The scores that a policy function gives to the rows of one head, checked: (n_rows) float64.

    A score of +inf keeps its row whatever the others score; more of these than the budget are an error.

    Raises PolicyError, with the function's name, where it raises, or returns another shape, NaN or -inf.
    """
    where = f"policy {name_of(function)}, layer {head.layer}, KV head {head.kv_head}"
    try:
        returned = function(head)
    except (Exception, SystemExit) as error:
        raise PolicyError(f"{where}: raised {one_line(error)}") from error
    scores = _numbers(returned)
    if scores is None:
        raise PolicyError(f"{where}: returned {type(returned).__name__}; expected {head.n_rows} numbers")
    if scores.shape != (head.n_rows,):
        raise PolicyError(f"{where}: returned shape {scores.shape}; expected ({head.n_rows},), a score per row")
    wrong = np.flatnonzero(np.isnan(scores) | (scores == -np.inf))
    if len(wrong):
        raise PolicyError(f"{where}: the score of row {wrong[0]} is {scores[wrong[0]]}; expected a number, or +inf")
    n_forced = int(np.isposinf(scores).sum())
    if n_forced > head.budget:
        raise PolicyError(f"{where}: {n_forced} rows score +inf, which keeps them; the budget is {head.budget}")
    return scores


def one_line(error: BaseException) -> str:
    """An exception's class and what it says, on one line."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _numbers(returned: Any) -> Scores | None:
    """What a function returned as float64, of tensors on any device and whatever NumPy takes; None: no numbers."""
    if hasattr(returned, "detach"):  # a tensor; this module needs no PyTorch
        returned = returned.detach().cpu().double()
    if np.ma.is_masked(returned):
        return None
    try:
        found = np.asarray(returned)
        return None if found.dtype.kind not in "biuf" else found.astype(np.float64)
    except (TypeError, ValueError):
        return None


def load(name: str) -> Scorer:
    """The function that `python:FILE.py:FUNCTION` names; the file is run once, as a module of its own.

    Raises PolicyError where there is no such file or function, or where the file cannot be run.
    """
    file_name, separator, function_name = name.removeprefix("python:").rpartition(":")
    if not separator or not file_name or not function_name:
        raise PolicyError(f"policy {name!r}: expected python:FILE.py:FUNCTION")
    path = Path(file_name)
    if not path.is_file():
        raise PolicyError(f"policy {name!r}: there is no file {path}")
    module_name = f"keyscope_policy_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise PolicyError(f"policy {name!r}: {path} is no Python file; expected a name that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # so that dataclasses and pickles in the file find their module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise PolicyError(f"policy {name!r}: {path} cannot be run: {one_line(error)}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise PolicyError(f"policy {name!r}: {path} has no function {function_name!r}; it has {', '.join(functions)}")
    loaded: Scorer = function
    return loaded
