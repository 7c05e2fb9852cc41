"""`record`: a recording of any model that Transformers runs, one run per policy."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .. import recording as recordings
from ..policies import PolicyError, Scorer, one_line
from . import origin
from .hooks import (
    AttentionCall,
    LeftOutError,
    OwnCacheError,
    RecordError,
    Watch,
    chunk_tokens,
    has_growing_rotation,
    text_config,
    watched,
)
from .layer_run import LayerRun
from .named_policies import Policy, budget_of
from .request import (
    RECORDABLE,
    STORES,
    Options,
    check_budgets,
    choice,
    choices,
    ids_to_read,
    layers_of,
    path_of,
    policies_of,
    reading,
    run_names,
    whole_number,
)
from .routing import Routing, routers_watched
from .writer import N_TOP, LayerShape, RecordingWriter, RecordPlan, RunPlan, RunWriter, check_output

Tensor = torch.Tensor

_CHUNK_TOKENS = 2048  # enough for products at full speed, few enough for their results to take little memory
_CHUNK_TOKENS_WITH_LOGITS = 256  # where the logits of all tokens of a chunk are computed
_PROBE_TOKENS = 3
_WAYS_TO_CALL = 5  # that a model may be tried with, at most


def record(
    model: Any,
    tokenizer: Any,
    prompt: Any,
    policies: str | Scorer | Sequence[str | Scorer] = ("none",),
    budget: int | float | str | None = None,
    block: int = 128,
    *,
    generate: int = 0,
    out: str | os.PathLike[str] = "rec.h5",
    record: str | Sequence[str] = ("keys", "queries"),
    layers: Sequence[int] | None = None,
    store: str = "float32",
    seed: int = 0,
    score_last: int = 32,
    ignore_eos: bool = False,
    max_tokens: int | None = None,
    force: bool = False,
    progress: bool = True,
) -> recordings.Recording:
    """Records a model's keys, queries and exact attention statistics under eviction policies.

    The model reads the prompt in blocks. After each, every layer and KV head evicts by the policy's scores down to the
    budget; the model goes on with what is left, and later tokens keep their true positions. The policy `none`, which
    everything is measured against, is always recorded, and first.

    model: a causal language model of Transformers 5, on whatever devices and in whatever dtype
    tokenizer: its tokenizer; None where the prompt is ids, and no text is wanted
    prompt: text, token ids, or chat messages
    policies: names as `keyscope capture --policy` takes them, `python:FILE.py:FUNCTION`, or functions: see
        `keyscope.policy`
    budget: rows that a policy keeps per KV head, or a share of the prompt (0.25, "25%")
    block: tokens per block
    generate: ids to generate, greedily, at most; the last one is not fed back
    out: the file to write; while it is written, OUT.part
    record: of "keys", "queries", "values", "attention" (n × n weights) and "logits" (of the last `score_last`
        positions)
    layers: the layers to record; all where None
    store: "float32", "float16" or "bfloat16": how keys, queries and values lie in the file
    seed: of policies that draw
    ignore_eos: generation goes on after the ids that end a text
    max_tokens: keeps the first so many tokens of the prompt
    force: replaces an existing file
    progress: says on stderr how far it is

    Returns the recording, opened. After Ctrl-C, or an error of the model's or a policy's, what was recorded is closed
    and kept.

    Raises RecordError or PolicyError (ValueErrors), FileExistsError or FileNotFoundError where OUT cannot be made, and
    OSError where the disk is too small: one sentence each, that says what was wrong.
    """
    chosen = policies_of(policies, seed)
    options = Options(
        chosen, budget, whole_number("block", block, 1), whole_number("generate", generate, 0),
        choices("record", record, RECORDABLE), layers_of(layers), choice("store", store, STORES),
        whole_number("seed", seed, 0, (1 << 63) - 1), whole_number("score_last", score_last, 1), ignore_eos,
    )  # fmt: skip
    path = path_of(out)
    check_output(path, force)
    ids = ids_to_read(model, tokenizer, prompt, max_tokens, options)
    check_budgets(options, len(ids))
    with reading(model):
        written = Recorder(model, tokenizer, ids, options, Progress(progress)).write(path, force)
    return recordings.open(written)


class _CannotCallError(Exception):
    """A model failed on the few tokens that it was tried with."""


class Progress:
    """One line on stderr, overwritten."""

    def __init__(self, shown: bool) -> None:
        self._shown, self._width = shown, 0

    def say(self, text: str) -> None:
        if self._shown:
            print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)
            self._width = len(text)

    def note(self, text: str) -> None:
        """A line that stays."""
        self.clear()
        if self._shown:
            print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._shown and self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)
            self._width = 0


@dataclass(frozen=True)
class AfterPrompt:
    """A run that evicts once, after the whole prompt: which rows it keeps, per layer (n_kv_heads, n_prompt)."""

    name: str
    policy: str
    parameters: str
    kept: Mapping[int, NDArray[np.bool_]]  # layers that are not there keep all
    margins: Mapping[int, NDArray[np.float32]]  # of evicted rows, where scores are known


@dataclass
class _Run:
    """A run under way: its layers so far."""

    plan: RunPlan
    policy: Policy
    writer: RunWriter
    layers: dict[int, LayerRun]


class Recorder:
    """Reads the prompt once per policy, and writes what attention shows."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        ids: NDArray[np.int32],
        options: Options,
        progress: Progress,
        later: Sequence[AfterPrompt] = (),
    ) -> None:
        self.model, self.tokenizer, self.options, self.progress = model, tokenizer, options, progress
        self.ids, self.later = ids, later
        self.shapes: dict[int, LayerShape] = {}
        self._run: _Run | None = None
        self._probed: dict[int, LayerShape] = {}
        self._experts: dict[int, tuple[int, int]] = {}
        self._attended: set[int] = set()  # layers, in the forward pass under way while probing

    def write(self, out: Path, force: bool) -> Path:
        with watched(self.model, self._attend) as watch, routers_watched(self.model, self._route):
            self._watch = watch
            self._probe(watch)
            writer = RecordingWriter(out, self._plan(watch), force)
            complete = False
            try:
                n_read = len(self.options.policies)
                for index in range(n_read):
                    self._read(watch, writer, index)
                for index, evicted in enumerate(self.later, n_read):
                    self._evict_after(writer, index, evicted)
                complete = True
            finally:
                self.progress.clear()
                written = writer.finish(complete)
                if not complete and written is not None:
                    self.progress.note(f"what was recorded by then is kept in {written}")
        assert written is not None
        return written

    # What the model is, found out by a few tokens.

    def _probe(self, watch: Watch) -> None:
        """Reads a few tokens to see which layers attend, how large their heads are, and how the model is to be called.

        Raises RecordError where nothing attends, or where attention gets what cannot be recorded.
        """
        few = torch.from_numpy(self.ids[:_PROBE_TOKENS].astype(np.int64))
        logits = None
        for _ in range(_WAYS_TO_CALL):
            self._probed.clear()
            watch.new_run()
            try:
                logits = self._forward(watch, few, 1)
                if not watch.without_cache:
                    self._forward(watch, few[:1], 1)  # whether a cache of its own keeps older keys
                break
            except LeftOutError:
                if watch.all_logits:
                    raise
                watch.all_logits = True
            except OwnCacheError:
                watch.without_cache = True
            except _CannotCallError as error:
                if watch.without_cache:
                    raise RecordError(f"{type(self.model).__name__}: cannot be run: {error}") from error.__cause__
                # First with masks that it can look at, then without a cache.
                watch.full_masks, watch.without_cache = True, watch.full_masks
        if not self._probed:
            raise RecordError(
                f"{type(self.model).__name__}: none of its layers attends through Transformers' AttentionInterface; a "
                "model without keys has nothing to evict"
            )
        self.has_head = logits is not None
        self.vocab_size = 0 if logits is None else logits.shape[-1]
        if not self.has_head and (self.options.generate or "logits" in self.options.record):
            raise RecordError(
                f"{type(self.model).__name__}: has no head, so that there are no next tokens; expected a causal "
                "language model, or neither generate nor logits"
            )
        if watch.without_cache and self.options.generate:
            raise RecordError(
                f"{type(self.model).__name__}: goes on from a cache of its own, from which no row can be dropped, so "
                "that nothing can be generated under a policy; leave generate out"
            )
        self.shapes = dict(sorted(self._probed.items()))

    def _forward(self, watch: Watch, ids: Tensor, n_logits: int) -> Tensor | None:
        self._attended.clear()
        try:
            return watch.forward(ids, n_logits)
        except (RecordError, PolicyError):
            raise
        except (TypeError, AttributeError, LookupError, ValueError, RuntimeError) as error:
            if self._run is not None:
                raise
            raise _CannotCallError(one_line(error)) from error

    def _attend(self, call: AttentionCall) -> Tensor:
        if self._run is not None:
            return self._layer_run(call).read(call)
        n_heads, n, head_dim = call.queries.shape
        if call.layer in self._attended:
            raise RecordError(f"layer {call.layer} attends more than once, and a recording has one attention per layer")
        self._attended.add(call.layer)
        if call.sparse and any(policy.evicts for policy in self.options.policies):
            raise RecordError(
                f"{type(self.model).__name__}: chooses the keys that each query sees, and would choose evicted ones; "
                "record policies='none', and let keyscope replay evict"
            )
        n_kv_heads, value_dim = call.keys.shape[0], call.values.shape[2]
        if n_heads % n_kv_heads:
            raise RecordError(f"layer {call.layer}: {n_heads} query heads do not divide over {n_kv_heads} KV heads")
        if "values" in self.options.record and value_dim > head_dim:
            raise RecordError(
                f"layer {call.layer}: values have {value_dim} coordinates and keys {head_dim}; a recording has room "
                "for as many as keys have, so leave values out of record"
            )
        self._probed[call.layer] = LayerShape(
            n_heads, n_kv_heads, head_dim, value_dim, call.rules.sinks is not None, call.lender
        )
        return call.values.new_zeros((n, n_heads, value_dim))

    def _route(self, routing: Routing) -> None:
        if self._run is None:
            self._experts.setdefault(routing.layer, (routing.n_experts, routing.experts.shape[1]))
        elif routing.layer in self._run.writer.plan.experts:
            self._run.writer.write_routing(routing, self._watch.n_seen)

    def _layer_run(self, call: AttentionCall) -> LayerRun:
        run = self._run
        assert run is not None
        found = run.layers.get(call.layer)
        if found is None:
            recorded = call.layer in self.recorded
            lender = None if call.lender is None else run.layers[call.lender]
            found = run.layers[call.layer] = LayerRun(
                run.plan, run.policy, call.layer, self.options.record, run.writer if recorded else None, lender=lender
            )
        return found

    def _plan(self, watch: Watch) -> RecordPlan:
        config, options = text_config(self.model), self.options
        n_layers = max(int(getattr(config, "num_hidden_layers", 0)), max(self.shapes) + 1)
        self.recorded = self._recorded_layers(n_layers)
        widths = {(shape.n_heads, shape.n_kv_heads, shape.head_dim) for shape in self.shapes.values()}
        base = next(iter(self.shapes.values()))
        model: dict[str, str | int] = {
            "config": origin.config_json(self.model),
            "name": origin.model_name(self.model),
            "n_layers": n_layers,
            "n_heads": base.n_heads,
            "n_kv_heads": base.n_kv_heads,
            "head_dim": base.head_dim,
        }
        sizes: dict[str, list[int]] = {}
        if len(widths) > 1:
            for name in ("n_kv_heads", "head_dim"):  # the largest of any layer
                model[name] = max(getattr(shape, name) for shape in self.shapes.values())
            of = [self.shapes.get(layer) for layer in range(n_layers)]
            sizes["layer_n_kv_heads"] = [shape.n_kv_heads if shape else 0 for shape in of]
            sizes["layer_head_dim"] = [shape.head_dim if shape else 0 for shape in of]
            if len({shape.n_heads for shape in self.shapes.values()}) > 1:
                sizes["layer_n_heads"] = [shape.n_heads if shape else 0 for shape in of]
        if any(shape.lender is not None for shape in self.shapes.values()):
            lenders = {layer: shape.lender for layer, shape in self.shapes.items() if shape.lender is not None}
            sizes["keys_of"] = [lenders.get(layer, layer) for layer in range(n_layers)]
        n_prompt, names = len(self.ids), run_names(options.policies)
        return RecordPlan(
            provenance=origin.provenance(self.model, options.configuration(n_prompt), self.ids, options.seed),
            model=model,
            prompt=origin.token_text(self.tokenizer, self.ids),
            runs=[
                *(self._run_plan(policy, name) for policy, name in zip(options.policies, names, strict=True)),
                *(self._later_plan(evicted, n_layers) for evicted in self.later),
            ],
            layers={layer: self.shapes.get(layer) for layer in self.recorded},
            record=options.record,
            store=options.store,
            n_scored=min(options.score_last, n_prompt) if "logits" in options.record else 0,
            vocab_size=self.vocab_size,
            layer_sizes=sizes,
            experts={layer: self._experts[layer] for layer in self.recorded if layer in self._recorded_experts()},
        )

    def _recorded_experts(self) -> set[int]:
        """Layers whose mixtures are of one size: a recording has experts of one number in every layer."""
        first = next(iter(self._experts.values()), None)
        return {layer for layer, size in self._experts.items() if size == first}

    def _recorded_layers(self, n_layers: int) -> list[int]:
        wanted = self.options.layers
        layers = list(range(n_layers)) if wanted is None else list(wanted)
        beyond = [layer for layer in layers if layer >= n_layers]
        if beyond:
            raise RecordError(f"layers holds {beyond[0]}; the model has layers 0 to {n_layers - 1}")
        if not set(layers) & set(self.shapes):
            raise RecordError(
                f"layers holds {layers}, which have no keys; expected at least one of {list(self.shapes)}"
            )
        return layers

    def _run_plan(self, policy: Policy, name: str) -> RunPlan:
        options, n_prompt = self.options, len(self.ids)
        budget = 0
        if policy.evicts and options.budget is not None:
            budget = budget_of(options.budget, n_prompt)
        return RunPlan(name, policy.policy, policy.parameters, budget, options.block, n_prompt, options.generate)

    def _later_plan(self, evicted: AfterPrompt, n_layers: int) -> RunPlan:
        options, most = self.options, max(shape.n_kv_heads for shape in self.shapes.values())
        budgets = np.zeros((n_layers, most), np.int64)
        for layer, shape in self.shapes.items():
            kept = evicted.kept.get(layer)
            budgets[layer] = len(self.ids)
            budgets[layer, : shape.n_kv_heads] = len(self.ids) if kept is None else kept.sum(axis=1)
        attending = budgets[list(self.shapes)]
        differ = bool((attending != attending.flat[0]).any())
        if differ:
            budgets[[layer for layer in range(n_layers) if layer not in self.shapes]] = attending.max()
        return RunPlan(
            evicted.name, evicted.policy, evicted.parameters, int(attending.max()), options.block, len(self.ids), 0,
            like="none", budgets=budgets if differ else None,
        )  # fmt: skip

    # One run.

    def _evict_after(self, writer: RecordingWriter, index: int, evicted: AfterPrompt) -> None:
        """A run in which rows are evicted once, after the whole prompt; those that a window had passed are gone."""
        run, full = writer.run(index), writer.run(0)
        last = run.run.n_prompt_blocks - 1
        for layer in self.recorded:
            if layer not in self.shapes:
                continue
            evicted_at = full.read_part(layer, "evicted_at")
            margin = np.full(evicted_at.shape, np.nan, np.float32)
            kept = evicted.kept.get(layer)
            if kept is not None:
                goes = ~kept & (evicted_at < 0)
                evicted_at[goes] = last
                margins = evicted.margins.get(layer)
                if margins is not None:
                    margin[goes] = margins[goes]
            run.write_part(layer, "evicted_at", 0, evicted_at)
            run.write_part(layer, "evicted_margin", 0, margin)
        run.copy_top(full)
        writer.count(index, run.run.n_prompt_blocks, float("nan"))

    def _read(self, watch: Watch, writer: RecordingWriter, index: int) -> None:
        plan = writer.plan.runs[index]
        if has_growing_rotation(text_config(self.model)):
            # The model keeps the frequencies of the longest text that it has read, until it reads a short one.
            watch.new_run()
            self._forward(watch, torch.from_numpy(self.ids[:1].astype(np.int64)), 1)
        run = self._run = _Run(plan, self.options.policies[index], writer.run(index), {})
        watch.new_run()
        chunk = self._chunk(watch)
        n_prompt, last_logits = plan.n_prompt, None
        for first in range(0, n_prompt, chunk):
            end = min(first + chunk, n_prompt)
            self.progress.say(f"{plan.name}: {first} of {n_prompt} tokens")
            started = time.perf_counter()
            n_scored = max(0, end - max(first, n_prompt - writer.plan.n_scored)) if writer.plan.n_scored else 0
            logits = self._forward(watch, torch.from_numpy(self.ids[first:end].astype(np.int64)), max(1, n_scored))
            if n_scored and logits is not None:
                run.writer.write_logits(end - n_scored - (n_prompt - writer.plan.n_scored), _floats(logits))
            if end == n_prompt:
                last_logits = None if logits is None else _floats(logits[-1])
                self._finish_prompt(run, last_logits)
            else:
                run.writer.write_journal({i: run.layers[i].present_sums() for i in self.recorded if i in run.layers})
            ms = 1000 * (time.perf_counter() - started)
            writer.count(index, -(-end // plan.block_size) - first // plan.block_size, ms)
        if plan.max_generated and last_logits is not None:
            self._generate(watch, writer, index, last_logits)
        self._run = None

    def _chunk(self, watch: Watch) -> int:
        """How many tokens go through the model at once; blocks go through attention one by one in any case."""
        block = self.options.block
        if watch.without_cache:
            return chunk_tokens(block, len(self.ids)) + block
        if has_growing_rotation(text_config(self.model)):
            return block
        if watch.recurrent_layers:
            # Not every one of these goes on from a state with more than one token.
            return chunk_tokens(block, len(self.ids)) + block
        return chunk_tokens(block, _CHUNK_TOKENS_WITH_LOGITS if watch.all_logits else _CHUNK_TOKENS)

    def _finish_prompt(self, run: _Run, logits: NDArray[np.float32] | None) -> None:
        for layer in run.layers.values():
            layer.finish_prompt()
        if logits is None:
            return
        top = np.lexsort((np.arange(len(logits)), -logits))[:N_TOP]
        run.writer.write_top(top, logits[top])

    def _generate(self, watch: Watch, writer: RecordingWriter, index: int, logits: NDArray[np.float32]) -> None:
        """Greedy, one token a block; the last id is not fed back."""
        run = self._run
        assert run is not None
        ends = set() if self.options.ignore_eos else origin.end_ids(self.model)
        before, n_fed = int(self.ids[-1]), 0
        while True:
            token = int(np.argmax(logits))
            run.writer.add_generated(token, self._added_text(before, token))
            if n_fed + 1 == run.plan.max_generated or token in ends:
                writer.sync()
                return
            self.progress.say(f"{run.plan.name}: {n_fed + 1} of {run.plan.max_generated} generated")
            started = time.perf_counter()
            given = self._forward(watch, torch.tensor([token]), 1)
            assert given is not None
            logits = _floats(given[-1])
            writer.count(index, 1, 1000 * (time.perf_counter() - started))
            before, n_fed = token, n_fed + 1

    def _added_text(self, before: int, token: int) -> bytes:
        text = origin.token_text(self.tokenizer, [before, token])
        return text.text[text.offset[1] :]


def _floats(logits: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = logits.float().cpu().numpy()
    return array
