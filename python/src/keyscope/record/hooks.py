"""What a Transformers model shows of its attention, layer by layer, while it reads.

An attention function is registered with Transformers' AttentionInterface. It gets queries, keys and values after
RoPE, and what it returns is what the model goes on with: so that whoever watches also decides which rows attention
sees. The cache that the model is given counts tokens, hands the new keys on, and keeps none: positions stay true
whatever was evicted.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import ref

import torch
from transformers import AttentionInterface, DynamicCache
from transformers.masking_utils import AttentionMaskInterface, causal_mask_function, sdpa_mask

from .attention import AttentionRules, Visibility, default_scale

Tensor = torch.Tensor

IMPLEMENTATION = "keyscope"
# Tensors that attention is given besides queries, keys, values and a mask, and that are understood, or change nothing.
_KNOWN_TENSORS = {
    "s_aux", "sinks", "position_bias", "indices", "position_ids", "cu_seq_lens_q", "cu_seq_lens_k", "cache_position",
    "attention_mask", "input_ids", "inputs_embeds",
}  # fmt: skip
_STRIP = 256  # queries of a mask that are looked at together


class RecordError(ValueError):
    """A model or a request that cannot be recorded: one sentence that says why, and what to do."""


@dataclass(frozen=True)
class AttentionCall:
    """One layer's attention of the tokens that the model was given, as its hook sees it. Batches are of one text."""

    layer: int
    lender: int | None  # the layer whose keys these are; None: its own
    queries: Tensor  # (n_heads, n, head_dim), after RoPE
    keys: Tensor  # (n_kv_heads, n, head_dim), after RoPE: of these tokens
    values: Tensor  # (n_kv_heads, n, value_dim)
    rules: AttentionRules
    visibility: Visibility
    first_position: int
    sparse: bool = False  # each query sees the keys that the model chooses for it


class Watcher(Protocol):
    """Gets every attention call, and gives attention's output: (n, n_heads, value_dim)."""

    def __call__(self, call: AttentionCall) -> Tensor: ...


@contextlib.contextmanager
def watched(model: Any, watcher: Watcher) -> Iterator[Watch]:
    """Sends the model's attention to a watcher, and puts everything back at the end.

    Raises RecordError where the model does not attend through Transformers' interface, or a recording is under way.
    """
    global _active
    if _active is not None:
        raise RecordError("a recording is under way in this process; wait until it has ended")
    AttentionInterface.register(IMPLEMENTATION, _attention)
    AttentionMaskInterface.register(IMPLEMENTATION, _mask)
    before = [(config, config._attn_implementation, config.return_dict) for config in _configs(model)]
    try:
        for config, _, _ in before:
            config.return_dict = True
        model.set_attn_implementation(IMPLEMENTATION)
        if text_config(model)._attn_implementation != IMPLEMENTATION:
            raise RecordError(
                f"{type(model).__name__}: its attention is not called through Transformers' AttentionInterface, so "
                "that its keys and queries cannot be seen; use a model class of Transformers 5 that is"
            )
        _active = Watch(model, watcher)
        yield _active
    finally:
        _active = None
        for config, implementation, return_dict in before:
            config._attn_implementation_internal = implementation
            config.return_dict = return_dict


def text_config(model: Any) -> Any:
    """The configuration of the decoder: of a model of several parts, that of its text."""
    return model.config.get_text_config(decoder=True)


def _configs(model: Any) -> list[Any]:
    """Every configuration in the model that says how to attend, once each."""
    found = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
    for config in [model.config, text_config(model)]:
        found[id(config)] = config
    for config in list(found.values()):
        for name in getattr(config, "sub_configs", None) or {}:
            part = getattr(config, name, None)
            if part is not None:
                found[id(part)] = part
    return [config for config in found.values() if hasattr(config, "_attn_implementation_internal")]


class Watch:
    """A model that is being watched: its cache for one run, and forward passes."""

    def __init__(self, model: Any, watcher: Watcher) -> None:
        self.model = model
        self.watcher = watcher
        self.cache: Any = None
        self.n_seen = 0  # before the tokens that are being read
        self._n_new = 0
        self._updated: int | None = None  # the layer that stored keys last, and has not attended yet
        self._keys_of: list[tuple[ref[Tensor], int]] = []  # in this forward pass: keys, and whose they are
        self._masks: dict[tuple[int, int], tuple[Tensor, Visibility]] = {}
        self._thread = threading.get_ident()
        signature = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in signature else "past_key_values"
        self._keeps_logits = "logits_to_keep" in signature
        # How this model has to be called, found out by a few tokens (see the recorder):
        self.all_logits = False  # keeping only some logits would leave out queries
        self.full_masks = False  # it looks at masks itself
        self.without_cache = False  # it takes no other cache than its own; its prompt is read at once

    def new_run(self) -> None:
        """Forgets what was read."""
        self.cache = _counting_cache(self)
        self.n_seen = 0

    @property
    def recurrent_layers(self) -> list[int]:
        """Layers whose cache holds a state, of linear attention or Mamba."""
        return [i for i, layer in enumerate(self.cache.layers) if hasattr(layer, "update_conv_state")]

    def forward(self, ids: Tensor, n_logits: int) -> Tensor | None:
        """Reads the next tokens: their last n_logits logits (n_logits, vocab_size), None of a model without a head."""
        self._n_new = len(ids)
        self._updated = None
        kept: dict[str, Any] = {}
        if self._keeps_logits and not self.all_logits:
            kept["logits_to_keep"] = max(1, n_logits)
        given = {"use_cache": False} if self.without_cache else {self._cache_name: self.cache, "use_cache": True}
        with torch.inference_mode():
            output = self.model(input_ids=ids[None].to(first_device(self.model)), **given, **kept)
        self.n_seen += len(ids)
        self._keys_of.clear()
        self._masks.clear()
        logits = getattr(output, "logits", None)
        # Heads of other kinds say something of the text, or of each token, and not what comes next.
        if logits is None or n_logits == 0 or logits.ndim != 3 or self.model.get_output_embeddings() is None:
            return None
        next_tokens: Tensor = logits[0, -n_logits:]
        return next_tokens

    def stored(self, layer: int) -> None:
        """Notes that a layer is about to attend to keys of its own."""
        self._updated = layer

    def attend(
        self, module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, given: dict[str, Any]
    ) -> Tensor:
        if threading.get_ident() != self._thread:
            raise RecordError("the model is being recorded by another thread; wait until that has ended")
        if query.shape[0] != 1:
            raise RecordError(f"attention got a batch of {query.shape[0]} texts; expected one")
        lender = next((layer for tensor, layer in self._keys_of if tensor() is key), None)
        layer = self._updated if self._updated is not None else getattr(module, "layer_idx", None)
        self._updated = None
        if layer is None:
            raise RecordError(
                f"{type(module).__name__}: does not say which layer it is (layer_idx), and stored no keys"
            )
        if query.shape[2] != self._n_new:
            raise LeftOutError(f"layer {layer}: attention got {query.shape[2]} of {self._n_new} queries")
        if key.shape[2] != query.shape[2]:
            raise OwnCacheError(f"layer {layer}: attention got {key.shape[2]} keys for {query.shape[2]} new tokens")
        self._keys_of.append((ref(key), layer if lender is None else lender))
        chosen = given.get("indices")
        call = AttentionCall(
            layer=layer,
            lender=lender,
            queries=query[0],
            keys=key[0],
            values=value[0],
            rules=_rules(query, given),
            visibility=self._visibility(module, query, mask, given),
            first_position=self.n_seen,
            sparse=chosen is not None,
        )
        return self.watcher(call)[None].to(query.device)

    def _visibility(self, module: Any, query: Tensor, mask: Tensor | None, given: dict[str, Any]) -> Visibility:
        unknown = [name for name, value in given.items() if isinstance(value, Tensor) and name not in _KNOWN_TENSORS]
        if unknown:
            raise RecordError(
                f"{type(module).__name__}: gives attention {unknown[0]!r}, of which a recording cannot say what it "
                "does; expected attention by queries, keys, values and a mask"
            )
        if given.get("indices") is not None:
            return Visibility(mask=_only(given["indices"][0], mask, self.n_seen))
        window = given.get("sliding_window") or _cache_window(self.cache, module)
        bias = given.get("position_bias")
        if mask is None and bias is None:
            causal = given.get("is_causal")
            causal = getattr(module, "is_causal", True) if causal is None else causal
            if not causal and query.shape[2] > 1:
                raise RecordError(
                    f"{type(module).__name__}: its tokens also see what comes after them, so that there is no cache to "
                    "evict from; expected a model that reads from left to right"
                )
            return Visibility()
        if bias is not None:
            raise RecordError(
                f"{type(module).__name__}: adds a bias to every score by the distance of its tokens, which a recording "
                "cannot say; expected attention by queries and keys alone"
            )
        assert mask is not None
        known = self._masks.get((id(mask), window or 0))
        if known is None:
            known = (mask, _simplified(mask[0], int(window or 0), self.n_seen))
            self._masks[id(mask), window or 0] = known
        return known[1]


class LeftOutError(RecordError):
    """A layer was given fewer tokens than the model, as their logits were not asked for."""


class OwnCacheError(RecordError):
    """Attention was given keys of older tokens, which a cache of the model's own has kept."""


def _only(indices: Tensor, mask: Tensor | None, n_seen: int) -> Tensor:
    """A mask (n, n_seen + n) of the keys that each query was given (n, k), as far as another mask shows them."""
    n = len(indices)
    seen = torch.ones((n, n_seen + n), dtype=torch.bool, device=indices.device).tril_(n_seen)
    if mask is not None:
        mask = mask[0, 0].to(indices.device)
        seen &= mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    return seen & torch.zeros_like(seen).scatter_(1, indices.long(), torch.ones_like(seen))


def _simplified(mask: Tensor, window: int, n_seen: int) -> Visibility:
    """A mask (1 or n_heads, n, n_seen + n) as what it comes to: a window, or plain causal, where it is no more."""
    n, n_keys = mask.shape[-2:]
    if mask.shape[0] != 1:
        if not bool((mask == mask[:1]).all()):
            raise RecordError("attention hides other tokens from each head, which cannot be recorded")
        mask = mask[:1]
    mask = mask[0]
    if n_keys != n_seen + n:
        raise RecordError(f"attention's mask is for {n_keys} tokens; expected the {n_seen + n} that were seen")
    at = torch.arange(n_keys, device=mask.device)
    for wide in dict.fromkeys((window, 0)):
        if all(_is_window(mask, at, first, n_seen, wide) for first in range(0, n, _STRIP)):
            return Visibility(wide)
    return Visibility(mask=mask)


def _is_window(mask: Tensor, at: Tensor, first: int, n_seen: int, window: int) -> bool:
    strip = mask[first : first + _STRIP]
    own = n_seen + first + torch.arange(len(strip), device=mask.device)[:, None]
    expected = at <= own
    if window:
        expected &= at > own - window
    if strip.dtype == torch.bool:
        return torch.equal(strip, expected)
    plain = torch.where(expected, strip == 0, strip <= torch.finfo(strip.dtype).min / 2)
    return bool(plain.all())


def _rules(query: Tensor, given: dict[str, Any]) -> AttentionRules:
    scale = given.get("scaling")
    sinks = given.get("s_aux")
    if sinks is None:
        sinks = given.get("sinks")
    return AttentionRules(
        scale=default_scale(query.shape[-1]) if scale is None else float(scale),
        softcap=float(given.get("softcap") or 0),
        sinks=None if sinks is None else sinks.detach().reshape(-1).float(),
    )


_active: Watch | None = None


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None, **given: Any
) -> tuple[Tensor, None]:
    """The attention function that is registered: (1, n, n_heads, value_dim), and no weights."""
    if _active is None:
        raise RecordError(
            f"attn_implementation={IMPLEMENTATION!r} works while keyscope records only; set another one, such as 'sdpa'"
        )
    return _active.attend(module, query, key, value, attention_mask, given), None


def _mask(*args: Any, **given: Any) -> Tensor | None:
    """The mask function that is registered: None where tokens see all that came before them, and no more."""
    causal = given.get("mask_function", causal_mask_function) is causal_mask_function
    if causal and given.get("attention_mask") is None and not (_active is not None and _active.full_masks):
        return None
    given["allow_is_causal_skip"] = False
    mask: Tensor | None = sdpa_mask(*args, **given)
    return mask


def _counting_cache(watch: Watch) -> Any:
    """The cache that suits the model, whose layers of keys and values count and keep nothing."""
    cache = DynamicCache(config=watch.model.config)
    for index, layer in enumerate(cache.layers):
        if hasattr(layer, "get_mask_sizes"):
            _count_only(layer, index, watch)
    return cache


def _count_only(layer: Any, index: int, watch: Watch) -> None:
    """Replaces what a layer of a cache does with keys and values; states of recurrent parts stay as they are."""
    counted = types.SimpleNamespace(n=0)

    def update(self: Any, keys: Tensor, values: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        counted.n += keys.shape[-2]
        watch.stored(index)
        return keys, values

    def get_mask_sizes(self: Any, query: Any) -> tuple[int, int]:
        # Older versions give the queries' positions in place of their number.
        return counted.n + (query if isinstance(query, int) else int(query.shape[0])), 0

    layer.update = types.MethodType(update, layer)
    layer.get_mask_sizes = types.MethodType(get_mask_sizes, layer)
    layer.get_seq_length = types.MethodType(lambda self, *args: counted.n, layer)


def _cache_window(cache: Any, module: Any) -> int | None:
    """A layer's sliding window as the cache that suits the model has it."""
    index = getattr(module, "layer_idx", None)
    if index is None or index >= len(cache.layers):
        return None
    window = getattr(cache.layers[index], "sliding_window", None)
    return int(window) if window else None


def first_device(model: Any) -> torch.device:
    """Where the model takes ids: where its embeddings lie, whatever is spread over other devices."""
    weight = getattr(model.get_input_embeddings(), "weight", None)
    device: torch.device = model.device if weight is None else weight.device
    # Weights that are fetched when they are needed: what fetches them moves the ids as well.
    return torch.device("cpu") if device.type == "meta" else device


def has_growing_rotation(config: Any) -> bool:
    """Whether keys' rotation depends on how many tokens were seen, so that it differs from block to block."""
    parameters = getattr(config, "rope_parameters", None) or {}
    kinds = [parameters, *(value for value in parameters.values() if isinstance(value, dict))]
    return any(kind.get("rope_type", kind.get("type")) in ("dynamic", "longrope") for kind in kinds)


def chunk_tokens(block: int, most: int) -> int:
    """As many whole blocks as `most` tokens hold, at least one."""
    return max(1, most // block) * block
