"""What a recording is asked for, and what is refused before anything is done: one sentence each."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..policies import PolicyError
from .hooks import RecordError, has_growing_rotation, text_config
from .named_policies import Policy, budget_of, parse
from .origin import prompt_ids

RECORDABLE = ("keys", "queries", "values", "attention", "logits")
STORES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Options:
    """What record() was asked for, checked as far as no model is needed."""

    policies: Sequence[Policy]
    budget: int | float | str | None
    block: int
    generate: int
    record: frozenset[str]
    layers: Sequence[int] | None
    store: str
    seed: int
    score_last: int
    ignore_eos: bool

    def configuration(self, n_prompt: int) -> dict[str, Any]:
        """As provenance has it."""
        return {
            "policies": [{"name": policy.policy, "options": dict(policy.options)} for policy in self.policies],
            "budget": 0 if self.budget is None else budget_of(self.budget, n_prompt),
            "block": self.block,
            "schedule": "block",
            "generate": self.generate,
            "ignore_eos": self.ignore_eos,
            "layers": [] if self.layers is None else list(self.layers),
            "record": {name: name in self.record for name in RECORDABLE},
            "score_last": self.score_last,
            "store": self.store,
            "seed": self.seed,
            "n_prompt": n_prompt,
        }


def policies_of(given: Any, seed: int) -> list[Policy]:
    """The policies, each run with a name of its own, `none` first."""
    if given is None or not (isinstance(given, str) or callable(given) or isinstance(given, Iterable)):
        raise PolicyError(f"policies is {given!r}; expected a policy's name, a function, or a list of these")
    listed = [given] if isinstance(given, str) or callable(given) else list(given)
    found = [parse(one, seed) for one in listed]
    ordered = [policy for policy in found if not policy.evicts][:1] or [parse("none", seed)]
    ordered += [policy for policy in found if policy.evicts]
    return ordered


def run_names(policies: Sequence[Policy]) -> list[str]:
    """A policy's name; `keydiff-2` for the second of its kind."""
    names: list[str] = []
    for policy in policies:
        names.append(free_name(policy.name, names))
    return names


def free_name(name: str, taken: Sequence[str]) -> str:
    """The name of a run, which is one of a group in a file; with a number where another run has it."""
    name = name.replace("/", "_").strip(".") or "policy"
    found, use = name, 2
    while found in taken:
        found, use = f"{name}-{use}", use + 1
    return found


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise RecordError(f"{name} is {value!r}; expected a whole number from {least} on")
    if most is not None and value > most:
        raise RecordError(f"{name} is {value!r}; expected at most {most}")
    return int(value)


def layers_of(given: Any) -> list[int] | None:
    """The layers that are asked for, ascending; None: all."""
    if given is None:
        return None
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise RecordError(f"layers is {given!r}; expected a list of whole numbers, such as [0, 3]")
    return sorted({whole_number("layers", layer, 0) for layer in given})


def path_of(out: Any) -> Path:
    """Where a recording is to be written."""
    if not isinstance(out, (str, os.PathLike)) or not os.fspath(out):
        raise RecordError(f"out is {out!r}; expected a file's name")
    return Path(out)


def choice(name: str, value: Any, accepted: Sequence[str]) -> str:
    if value not in accepted:
        raise RecordError(f"{name} is {value!r}; expected one of {', '.join(accepted)}")
    return str(value)


def choices(name: str, value: Any, accepted: Sequence[str]) -> frozenset[str]:
    listed = value.split(",") if isinstance(value, str) else list(value)
    return frozenset(choice(name, one, accepted) for one in listed)


def vocab_size_of(model: Any) -> int:
    return int(getattr(text_config(model), "vocab_size", 0) or model.get_input_embeddings().weight.shape[0])


def check_model(model: Any) -> None:
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "set_attn_implementation"):
        raise RecordError(f"model is {type(model).__name__}; expected a model of Transformers 5")
    if hasattr(model, "_orig_mod"):
        raise RecordError("model is compiled, which leaves no attention to see; give the model that it was made from")
    parameters = list(model.parameters())
    if parameters and all(p.device.type == "meta" for p in parameters) and not hasattr(model, "_hf_hook"):
        raise RecordError(f"{type(model).__name__}: its weights are on the meta device, which holds none; load them")
    if getattr(model.config, "is_encoder_decoder", False):
        raise RecordError(
            f"{type(model).__name__}: reads its prompt with an encoder, which keeps no cache; expected a model of a "
            "decoder alone"
        )
    kind = getattr(getattr(model, "generation_config", None), "cache_implementation", None)
    if kind == "quantized":
        raise RecordError(
            f"{type(model).__name__}: its generation_config asks for a quantised cache, and rows are recorded as the "
            "model computes them; set generation_config.cache_implementation to None, or use keyscope capture "
            "--cache-dtype"
        )


def ids_to_read(
    model: Any, tokenizer: Any, prompt: Any, max_tokens: int | None, options: Options
) -> NDArray[np.int32]:
    """A prompt's ids, the first `max_tokens` of them, once model and length are known to be such as can be recorded."""
    check_model(model)
    ids = prompt_ids(tokenizer, prompt, vocab_size_of(model))
    if max_tokens is not None:
        ids = ids[: whole_number("max_tokens", max_tokens, 1)]
    check_length(model, len(ids), options)
    return ids


def check_length(model: Any, n_prompt: int, options: Options) -> None:
    config = text_config(model)
    context = None if has_growing_rotation(config) else getattr(config, "max_position_embeddings", None)
    needed = n_prompt + max(options.generate - 1, 0)
    if context is not None and context > 0 and needed > context:
        raise RecordError(
            f"the prompt has {n_prompt} tokens, {needed - n_prompt} generated ones follow, and the model's context is "
            f"{context}; shorten it with max_tokens"
        )


def check_budgets(options: Options, n_prompt: int) -> None:
    for policy in options.policies:
        if not policy.evicts:
            continue
        if options.budget is None:
            raise PolicyError(
                f"policy {policy.name} needs a budget: rows per KV head, or a share of the prompt such as 0.25"
            )
        rows = budget_of(options.budget, n_prompt)
        if rows < policy.n_recent:
            raise PolicyError(
                f"policy {policy.name} keeps the {policy.n_recent} most recent rows whatever they score, and the "
                f"budget is {rows}; take a larger budget, or {policy.name}:recent={rows // 2}"
            )


@contextlib.contextmanager
def reading(model: Any) -> Iterator[None]:
    """A model in evaluation mode, and every part of it back."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
