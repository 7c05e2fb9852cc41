"""Which experts a model's routers choose, token by token.

Routers of Transformers' mixtures give logits, or shares, weights and indices, whatever the family; a hook on each sees
them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Tensor = torch.Tensor

_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


@dataclass(frozen=True)
class Routing:
    """What one layer's router said of n tokens, each of which goes to k of n_experts."""

    layer: int
    n_experts: int
    experts: NDArray[np.int32]  # (n, k), the likeliest first
    weights: NDArray[np.float32]  # (n, k), what their outputs are multiplied by
    entropy: NDArray[np.float32]  # (n), in nats, of the router's shares of all experts


@contextlib.contextmanager
def routers_watched(model: Any, on_routing: Callable[[Routing], None]) -> Iterator[None]:
    """Hands on what every router says; those that say it in another form are left out."""
    handles = []
    for name, module in model.named_modules():
        layer = _LAYER.search(name)
        if layer is not None and type(module).__name__.endswith("Router"):
            handles.append(module.register_forward_hook(_hook(int(layer.group(1)), on_routing)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _hook(layer: int, on_routing: Callable[[Routing], None]) -> Callable[..., None]:
    def hook(module: Any, given: Any, output: Any) -> None:
        if not isinstance(output, tuple) or len(output) != 3:
            return
        logits, weights, indices = output
        if not all(isinstance(part, Tensor) and part.ndim == 2 for part in output):
            return
        if indices.is_floating_point() or indices.shape != weights.shape or len(logits) != len(indices):
            return
        bias = getattr(module, "e_score_correction_bias", None)  # which decides the choice, and not the weights
        on_routing(_read(layer, logits.float(), weights.float(), indices, bias))

    return hook


def _read(layer: int, logits: Tensor, weights: Tensor, indices: Tensor, bias: Tensor | None) -> Routing:
    shares = _shares(logits, weights, indices)
    chosen_by = shares.gather(1, indices) if bias is None else (logits.sigmoid() + bias.float()).gather(1, indices)
    order = chosen_by.argsort(dim=1, descending=True, stable=True)
    weights, indices = weights.gather(1, order), indices.gather(1, order)
    return Routing(
        layer=layer,
        n_experts=logits.shape[1],
        experts=indices.cpu().numpy().astype(np.int32),
        weights=weights.cpu().numpy(),
        entropy=torch.special.entr(shares).sum(dim=1).cpu().numpy(),
    )


def _shares(logits: Tensor, weights: Tensor, indices: Tensor) -> Tensor:
    """The router's shares of all experts: its softmax, or its sigmoids by their sum, whichever weights follow.

    Some routers give shares in place of logits.
    """
    if bool((logits >= 0).all()) and torch.allclose(logits.sum(dim=1), logits.new_ones(len(logits)), atol=1e-3):
        return logits
    softmax, sigmoid = logits.softmax(dim=1), logits.sigmoid()
    errors = [_distance(scores.gather(1, indices), weights) for scores in (softmax, sigmoid)]
    return sigmoid / sigmoid.sum(dim=1, keepdim=True) if errors[1] < errors[0] else softmax


def _distance(scores: Tensor, weights: Tensor) -> float:
    """How far weights are from scores, up to a factor of each token."""
    if scores.shape[1] > 1:
        scores, weights = (part / part.sum(dim=1, keepdim=True) for part in (scores, weights))
    return float((scores - weights).abs().sum())
