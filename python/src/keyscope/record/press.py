"""`record_press`: which rows a press of kvpress keeps, as a run beside `none`.

A press shortens the cache once the prompt has been read. What it keeps is told from the cache alone: the rows that are
left are found again among those that were stored, number by number. So this works for presses that score, that choose
heads or layers differently, or that wrap other presses, and not for those that change keys and values.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache

from .. import recording as recordings
from .hooks import RecordError, first_device
from .named_policies import parse
from .recorder import AfterPrompt, Progress, Recorder
from .request import (
    RECORDABLE,
    STORES,
    Options,
    choice,
    choices,
    free_name,
    ids_to_read,
    layers_of,
    path_of,
    reading,
    whole_number,
)
from .writer import check_output

Tensor = torch.Tensor


def record_press(
    model: Any,
    press: Any,
    prompt: Any,
    tokenizer: Any = None,
    block: int = 128,
    *,
    out: str | os.PathLike[str] = "rec.h5",
    record: str | Sequence[str] = ("keys", "queries"),
    layers: Sequence[int] | None = None,
    store: str = "float32",
    score_last: int = 32,
    max_tokens: int | None = None,
    force: bool = False,
    progress: bool = True,
) -> recordings.Recording:
    """Records which rows a press of kvpress keeps of a prompt, as a run beside `none`.

    The run is named after the press (`KnormPress`). A press acts once, after the whole prompt: the run has the keys,
    queries and attention of `none`, and loses its rows with the prompt's last block (attribute `oracle` = 1).

    model: a causal language model, or a pipeline that holds one with its tokenizer
    press: a press, or a list of them, a run each
    prompt, block, out, record, layers, store, score_last, max_tokens, force, progress: as `keyscope.record` takes them
    tokenizer: the pipeline's where None

    Returns the recording, opened.

    Raises RecordError where a press fails, or changes keys and values so that its rows cannot be told; and as
    `keyscope.record` does.
    """
    model, tokenizer = _parts(model, tokenizer)
    presses = list(press) if isinstance(press, (list, tuple)) else [press]
    for one in presses:
        if not callable(one) or not hasattr(one, "compress"):
            raise RecordError(f"press is {type(one).__name__}; expected a press of kvpress")
        if isinstance(one, type):
            raise RecordError(f"press is the class {one.__name__}; expected one of its objects: {one.__name__}(…)")
    options = Options(
        [parse("none", 0)], None, whole_number("block", block, 1), 0, choices("record", record, RECORDABLE),
        layers_of(layers), choice("store", store, STORES), 0, whole_number("score_last", score_last, 1), False,
    )  # fmt: skip
    path = path_of(out)
    check_output(path, force)
    ids = ids_to_read(model, tokenizer, prompt, max_tokens, options)
    with reading(model):
        names: list[str] = []
        runs = [_kept_by(model, one, ids, names) for one in presses]
        written = Recorder(model, tokenizer, ids, options, Progress(progress), runs).write(path, force)
    return recordings.open(written)


def _parts(model: Any, tokenizer: Any) -> tuple[Any, Any]:
    if isinstance(model, torch.nn.Module):
        return model, tokenizer
    return getattr(model, "model", model), tokenizer if tokenizer is not None else getattr(model, "tokenizer", None)


def _kept_by(model: Any, press: Any, ids: NDArray[np.int32], names: list[str]) -> AfterPrompt:
    """Reads the prompt under a press."""
    name = free_name(type(press).__name__, names)
    names.append(name)
    cache = DynamicCache(config=model.config)
    full = _watch_updates(cache)
    scores: dict[int, NDArray[np.float64]] = {}
    given = torch.from_numpy(ids.astype(np.int64))[None].to(first_device(model))
    try:
        with torch.no_grad(), _adapted(press, scores), press(model):
            _read(model, given, cache)
    except Exception as error:
        raise RecordError(f"{name}: failed with {type(error).__name__}: {error}") from error
    finally:
        masked = _take_masked(model)
    layers: Any = cache.layers
    kept = {layer: _rows_left(name, layer, layers[layer], stored, masked.get(layer)) for layer, stored in full.items()}
    if all(rows.all() for rows in kept.values()) and any(
        not torch.equal(layers[layer].keys[0].cpu(), keys) for layer, (keys, _) in full.items()
    ):
        raise RecordError(f"{name}: changes keys and drops no row; a recording says which rows a press keeps")
    return AfterPrompt(
        name=name,
        policy=f"kvpress:{type(press).__name__}",
        parameters=_parameters(press),
        kept=kept,
        margins={layer: _margins(scores[layer], rows) for layer, rows in kept.items() if layer in scores},
    )


def _read(model: Any, ids: Tensor, cache: Any) -> None:
    """One pass over the prompt; logits are of no use here, so the decoder alone where it can be called."""
    decoder = getattr(model, "model", model)
    name = "cache" if _takes(decoder, "cache") else "past_key_values"
    decoder(input_ids=ids, use_cache=True, **{name: cache})


def _takes(module: Any, name: str) -> bool:
    return name in inspect.signature(module.forward).parameters


def _watch_updates(cache: Any) -> dict[int, tuple[Tensor, Tensor]]:
    """Keeps copies of the keys and values that every layer stores first: those of the whole prompt."""
    full: dict[int, tuple[Tensor, Tensor]] = {}
    for index, layer in enumerate(cache.layers):
        if not hasattr(layer, "get_mask_sizes"):
            continue

        def update(self: Any, keys: Tensor, values: Tensor, *args: Any, _index: int = index, **kwargs: Any) -> Any:
            if _index not in full:
                full[_index] = (keys[0].detach().cpu().clone(), values[0].detach().cpu().clone())
            return type(self).update(self, keys, values, *args, **kwargs)

        layer.update = types.MethodType(update, layer)
    return full


@contextmanager
def _adapted(press: Any, scores: dict[int, NDArray[np.float64]]) -> Iterator[None]:
    """Hands a press what Transformers' versions call differently, and notes the scores that it gives to rows."""
    adapted: dict[str, Callable[..., Any]] = {}
    if hasattr(press, "forward_hook"):
        hook = press.forward_hook

        def forward_hook(module: Any, given: Any, kwargs: dict[str, Any], output: Any) -> Any:
            hidden = kwargs.get("hidden_states", given[0] if given else None)
            more = {"hidden_states": hidden, "past_key_values": kwargs.get("past_key_values", kwargs.get("cache"))}
            if "cache_position" not in kwargs and hidden is not None:
                more["cache_position"] = torch.arange(hidden.shape[1], device=hidden.device)
            return hook(module, given, {**kwargs, **more}, output)

        adapted["forward_hook"] = forward_hook
    if hasattr(press, "score"):
        score = press.score

        def noted(module: Any, *args: Any, **kwargs: Any) -> Any:
            found = score(module, *args, **kwargs)
            if isinstance(found, torch.Tensor) and found.ndim == 3:
                scores[module.layer_idx] = found[0].detach().double().cpu().numpy()
            return found

        adapted["score"] = noted
    for name, function in adapted.items():
        object.__setattr__(press, name, function)
    try:
        yield
    finally:
        for name in adapted:
            object.__delattr__(press, name)


def _take_masked(model: Any) -> dict[int, Any]:
    """Rows that presses of heads with different budgets hide in place of dropping them; the model is left without."""
    masked: dict[int, Any] = {}
    for module in model.modules():
        indices = getattr(module, "masked_key_indices", None)
        if indices is not None:
            masked[module.layer_idx] = indices
            module.masked_key_indices = None
    return masked


def _rows_left(
    name: str, layer: int, left: Any, stored: tuple[Tensor, Tensor], masked: Any
) -> NDArray[np.bool_]:  # fmt: skip
    """Which rows of a layer are left: (n_kv_heads, n_prompt)."""
    keys, values = (tensor[0].detach().cpu() for tensor in (left.keys, left.values))
    n_kv_heads, n_prompt = stored[0].shape[:2]
    kept = np.zeros((n_kv_heads, n_prompt), bool)
    for head in range(n_kv_heads):
        at = _find(stored[0][head], keys[head])
        if at is None:
            at = _find(stored[1][head], values[head])
        if at is None:
            raise RecordError(
                f"{name}: in layer {layer}, KV head {head}, the cache holds rows that the prompt did not store; a "
                "press that changes both keys and values cannot be recorded as a choice of rows"
            )
        kept[head, at] = True
    if masked is not None:
        _, heads, rows = (part.detach().cpu().numpy() for part in masked)
        kept[heads, rows] = False
    return kept


def _find(rows: Tensor, left: Tensor) -> NDArray[np.int64] | None:
    """Where rows that are left stood; None where one stood nowhere. Equal rows are taken in order."""
    if rows.shape[1:] != left.shape[1:] or rows.dtype != left.dtype or len(left) > len(rows):
        return None
    places: dict[bytes, list[int]] = {}
    for index, row in enumerate(_bytes(rows)):
        places.setdefault(row, []).append(index)
    found = []
    for row in _bytes(left):
        at = places.get(row)
        if not at:
            return None
        found.append(at.pop(0))
    return np.array(found, np.int64)


def _bytes(rows: Tensor) -> Iterator[bytes]:
    raw = rows.contiguous().view(torch.uint8).numpy()
    return (row.tobytes() for row in raw)


def _margins(scores: NDArray[np.float64], kept: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Lowest score that was kept, minus the row's own; NaN in heads where the scores alone did not decide."""
    margins = np.full(kept.shape, np.nan, np.float32)
    if scores.shape != kept.shape:
        return margins
    for head, (of_head, stays) in enumerate(zip(scores, kept, strict=True)):
        if stays.any() and not stays.all() and of_head[stays].min() >= of_head[~stays].max():
            margins[head] = of_head[stays].min() - of_head
    return margins


def _parameters(press: Any) -> str:
    """A press's settings as JSON; presses within it by their own."""

    def plain(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            settings = {field.name: plain(getattr(value, field.name, None)) for field in dataclasses.fields(value)}
            return {"press": type(value).__name__, **settings} if value is not press else settings
        if isinstance(value, (list, tuple)):
            return [plain(one) for one in value]
        return value if isinstance(value, (str, int, float, bool, type(None))) else str(type(value).__name__)

    found = plain(press)
    return json.dumps(found if isinstance(found, dict) else {}, sort_keys=True)
