"""Writes a recording as docs/recording.md documents it.

A recording grows as OUT.part. Everything it will ever hold is created first, at full size; from then on raw data alone
is overwritten, and `blocks_done` follows its fsync, so that a kill at any moment leaves a file that opens up to the
last counted block. At the end the file is cut to what came, and renamed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ..recording import FORMAT
from .hooks import RecordError
from .layout import (
    MATRIX_CHUNK,
    ROW_CHUNK_BYTES,
    TRACE_CHUNK,
    create_dataset,
    create_group,
    create_list,
    create_rows,
    layer_name,
    round_to_bfloat16,
    set_attribute,
    write_compressed,
)
from .routing import Routing

N_TOP = 10  # of the largest logits at the last prompt position
_LARGEST_FLOAT16 = 65504.0
TEXT_BYTES_PER_TOKEN = 256  # kept free for the text of each generated id
TRACES = (
    "evicted_at", "evicted_margin", "attention_received", "attention_queries", "attention_last", "attention_window",
)  # fmt: skip
ROUTING = ("expert", "expert_weight", "router_entropy")


@dataclass(frozen=True)
class LayerShape:
    """What of a layer is recorded, and how large. Layers without keys have none."""

    n_heads: int
    n_kv_heads: int
    head_dim: int
    value_dim: int
    sinks: bool = False
    lender: int | None = None  # the layer whose keys it reads; None: its own


@dataclass(frozen=True)
class TokenText:
    """Ids, and the bytes that each adds to the decoded text: token i is text[offset[i]:offset[i + 1]]."""

    ids: NDArray[np.int32]
    text: bytes
    offset: NDArray[np.int64]  # (n + 1)


@dataclass(frozen=True)
class RunPlan:
    """One run, before its first block."""

    name: str
    policy: str
    parameters: str
    budget: int
    block_size: int
    n_prompt: int
    max_generated: int
    # Rows are evicted once, when the whole prompt has been read: so that all that the model saw is that of the run
    # `like`, and lies in the file once.
    like: str | None = None
    budgets: NDArray[np.int64] | None = None  # (n_layers, n_kv_heads), where they differ; `budget` is the largest

    @property
    def n_prompt_blocks(self) -> int:
        return -(-self.n_prompt // self.block_size)

    @property
    def max_tokens(self) -> int:
        """That pass through the model: the last generated id is never fed back."""
        return self.n_prompt + max(self.max_generated - 1, 0)

    @property
    def max_blocks(self) -> int:
        return self.n_prompt_blocks + max(self.max_generated - 1, 0)

    def block_of(self, position: int) -> int:
        """The block that brings a token: after the prompt, every token is one."""
        if position < self.n_prompt:
            return position // self.block_size
        return self.n_prompt_blocks + position - self.n_prompt


@dataclass(frozen=True)
class RecordPlan:
    """Everything that a recording will hold."""

    provenance: Mapping[str, str | int]
    model: Mapping[str, str | int]
    prompt: TokenText
    runs: Sequence[RunPlan]
    layers: Mapping[int, LayerShape | None]  # the recorded ones, ascending; None: without keys
    record: frozenset[str] = frozenset({"keys", "queries"})
    store: str = "float32"
    n_scored: int = 0  # last prompt positions whose logits are recorded
    vocab_size: int = 0
    layer_sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)  # of the model, where layers differ
    experts: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # of recorded layers: how many, and per token

    @property
    def n_prompt(self) -> int:
        return len(self.prompt.ids)


class RecordingWriter:
    """OUT.part, which becomes OUT. Used for one run after another, then finished."""

    def __init__(self, out: Path, plan: RecordPlan, force: bool) -> None:
        """Lays the file out. Raises FileExistsError where a file is in the way, OSError where the disk is too small."""
        self.out, self.plan, self._force = out, plan, force
        self.part = out.with_name(out.name + ".part")
        check_output(out, force)
        self.part.unlink(missing_ok=True)
        # Without a cache, parts of chunks are written where they belong, and nothing is read back.
        self._file = h5py.File(self.part, "w-", rdcc_nbytes=0)
        self._runs: list[RunWriter] = []
        try:
            self._lay_out()
        except BaseException as error:
            with contextlib.suppress(Exception):  # after a full disk it fails as well
                self._file.close()
            self.part.unlink()
            if not isinstance(error, (OSError, RuntimeError)):
                raise
            free = shutil.disk_usage(self.part.parent).free
            raise OSError(
                f"{self.part}: cannot be laid out: {error}; {free:,} bytes are free there; record fewer layers, take "
                "store='float16', or another disk"
            ) from error

    def _lay_out(self) -> None:
        file, plan = self._file, self.plan
        set_attribute(file, "NX_class", "NXroot")
        set_attribute(file, "default", "entry")
        set_attribute(file, "keyscope_format", FORMAT)
        entry = create_group(file, "entry", "NXentry")
        provenance = create_group(entry, "provenance")
        for name, value in {**plan.provenance, "complete": 0}.items():
            set_attribute(provenance, name, value)
        model = create_group(entry, "model")
        for name, value in plan.model.items():
            set_attribute(model, name, value)
        for name, sizes in plan.layer_sizes.items():
            model.attrs.create(name, np.asarray(sizes, np.int64))
        tokens = create_group(entry, "tokens")
        set_attribute(tokens, "n_prompt", plan.n_prompt)
        write_compressed(tokens, "id", plan.prompt.ids)
        write_compressed(tokens, "text", np.frombuffer(plan.prompt.text, np.uint8))
        write_compressed(tokens, "text_offset", plan.prompt.offset)
        runs = create_group(entry, "runs")
        self._runs = [RunWriter(create_group(runs, run.name), plan, run, index) for index, run in enumerate(plan.runs)]
        file.flush()
        os.posix_fallocate(file.id.get_vfd_handle(), 0, file.id.get_filesize())
        self.sync()

    def run(self, index: int) -> RunWriter:
        return self._runs[index]

    def sync(self) -> None:
        """Brings what was written to the disk."""
        self._file.flush()
        os.fsync(self._file.id.get_vfd_handle())

    def count(self, index: int, n_blocks: int, block_ms: float) -> None:
        """Counts n_blocks more blocks of a run, once what was written of them is on the disk."""
        run = self._runs[index]
        run.write_blocks(n_blocks, block_ms)
        self.sync()
        run.count_blocks()
        self.sync()

    def finish(self, complete: bool) -> Path | None:
        """Cuts away what never came, closes and renames.

        An interrupted recording replaces nothing: where OUT exists, it stays OUT.part. One that holds no block is
        removed. Returns where the recording lies; None where there is none.
        """
        counted = any(run.blocks_done for run in self._runs)
        if counted or complete:
            for run in self._runs:
                run.cut()
            set_attribute(self._file["entry/provenance"], "complete", int(complete))
            self.sync()
        lock = os.dup(self._file.id.get_vfd_handle())  # which keeps others from the closed file until it has its name
        try:
            self._file.close()
            if not counted and not complete:
                self.part.unlink()
                return None
            if not complete and self.out.exists():
                return self.part
            return self._publish()
        finally:
            os.close(lock)

    def _publish(self) -> Path:
        if self._force:
            os.replace(self.part, self.out)
            return self.out
        try:
            os.link(self.part, self.out)
        except FileExistsError:
            raise FileExistsError(
                f"{self.out}: has appeared while recording and is left as it is; the recording is in {self.part}"
            ) from None
        except OSError:  # a file system without links
            os.rename(self.part, self.out)
            return self.out
        self.part.unlink()
        return self.out


def check_output(out: Path, force: bool) -> None:
    """Raises FileExistsError where OUT or a `.part` of another recording is in the way, and must not be replaced."""
    part = out.with_name(out.name + ".part")
    if out.is_dir() or not out.parent.is_dir():
        raise FileNotFoundError(f"{out}: cannot be written: expected a file's name in a folder that exists")
    if out.exists() and not out.is_file():
        raise FileExistsError(f"{out}: is no regular file; choose another name")
    if not force and out.exists():
        raise FileExistsError(f"{out}: exists; choose another name, or give force=True to replace it")
    if not part.exists():
        return
    if not force:
        raise FileExistsError(
            f"{part}: a recording in progress, or left by one that was killed; keep it under another name, or give "
            "force=True to replace it"
        )
    try:
        with h5py.File(part, "r+"):
            pass
    except BlockingIOError:
        raise FileExistsError(f"{part}: is being written to by another recording; choose another name") from None
    except OSError:
        return  # whatever it is, nobody writes to it


class RunWriter:
    """The datasets of one run, overwritten block by block."""

    def __init__(self, group: h5py.Group, plan: RecordPlan, run: RunPlan, index: int) -> None:
        self._group, self.plan, self.run = group, plan, run
        self.blocks_done = 0
        self._n_scored = self._n_top = self._journal_slot = 0
        self._generated: list[int] = []
        self._text, self._offset = b"", [0]
        self._lay_out(index)

    def _lay_out(self, index: int) -> None:
        run, group = self.run, self._group
        attributes: dict[str, str | int] = {
            "index": index, "policy": run.policy, "parameters": run.parameters, "budget": run.budget,
            "block_size": run.block_size, "n_prompt": run.n_prompt, "n_prompt_blocks": run.n_prompt_blocks,
            "max_generated": run.max_generated, "replayed": 0, "oracle": int(run.like is not None),
            "positions": "true", "cache_dtype": "model",
        }  # fmt: skip
        for name, value in attributes.items():
            set_attribute(group, name, value)
        create_list(group, "block_start", np.int32, run.max_blocks, -1)
        create_list(group, "block_ms", np.float32, run.max_blocks, np.nan)
        create_list(group, "generated", np.int32, run.max_generated, -1)
        create_list(group, "generated_text", np.uint8, run.max_generated * TEXT_BYTES_PER_TOKEN, 0)
        create_list(group, "generated_text_offset", np.int64, run.max_generated + 1, 0)
        create_list(group, "top_logits", np.float32, N_TOP, np.nan)
        create_list(group, "top_ids", np.int32, N_TOP, -1)
        if run.budgets is not None:
            group.create_dataset("budgets", data=run.budgets)
        if self.plan.n_scored and run.like is not None:
            group["logits"] = group.parent[run.like]["logits"]
        elif self.plan.n_scored:
            shape = (self.plan.n_scored, self.plan.vocab_size)
            create_dataset(group, "logits", np.float32, shape, (1, min(shape[1], ROW_CHUNK_BYTES // 4)))
        create_dataset(group, "blocks_done", np.int64, (), None)
        create_dataset(group, "partial_attention_blocks", np.int64, (2,), None)
        for layer, shape_of_layer in self.plan.layers.items():
            self._lay_out_layer(layer, shape_of_layer)

    def _lay_out_layer(self, layer: int, shape: LayerShape | None) -> None:
        group = create_group(self._group, layer_name(layer))
        if layer in self.plan.experts:
            self._lay_out_experts(group, layer, *self.plan.experts[layer])
        if shape is None:
            set_attribute(group, "keyless", 1)
            return
        if shape.lender is not None:
            set_attribute(group, "keys_of", shape.lender)
        n_tokens, n_prompt, record = self.run.max_tokens, self.run.n_prompt, self.plan.record
        if self.run.like is not None:
            for name, dataset in group.parent.parent[self.run.like][layer_name(layer)].items():
                if not name.startswith(("evicted_", "partial_")) and name not in group:
                    group[name] = dataset
            for name, dtype, fill in (("evicted_at", np.int32, -1), ("evicted_margin", np.float32, np.nan)):
                create_dataset(group, name, dtype, (shape.n_kv_heads, n_tokens), (1, min(n_tokens, TRACE_CHUNK)), fill)
            return
        for name, heads in (("keys", shape.n_kv_heads), ("queries", shape.n_heads), ("values", shape.n_kv_heads)):
            if name in record:
                create_rows(group, name, (heads, n_tokens, shape.head_dim), self.plan.store)
        traces: dict[str, tuple[Any, float]] = {
            "evicted_at": (np.int32, -1), "evicted_margin": (np.float32, np.nan), "attention_received": (np.float64, 0),
            "attention_queries": (np.int32, 0), "attention_last": (np.float32, 0), "attention_window": (np.float32, 0),
        }  # fmt: skip
        for name, (dtype, fill) in traces.items():
            create_dataset(group, name, dtype, (shape.n_kv_heads, n_tokens), (1, min(n_tokens, TRACE_CHUNK)), fill)
        chunk = (1, min(n_prompt, TRACE_CHUNK))
        create_dataset(group, "attention_entropy", np.float32, (shape.n_heads, n_prompt), chunk, np.nan)
        for name in ("attention_gini", "attention_top_share"):
            create_dataset(group, name, np.float64, (shape.n_heads,), (shape.n_heads,), np.nan)
        if shape.sinks:
            blocks = self.run.n_prompt_blocks
            sink_chunk = (shape.n_heads, min(blocks, MATRIX_CHUNK))
            create_dataset(group, "attention_sink", np.float64, (shape.n_heads, blocks), sink_chunk, np.nan)
            create_dataset(group, "sink_logit", np.float32, (shape.n_heads,), (shape.n_heads,), np.nan)
        journal = (2, shape.n_kv_heads, n_prompt)
        create_dataset(group, "partial_attention_received", np.float64, journal, (1, *chunk))
        create_dataset(group, "partial_attention_queries", np.int32, journal, (1, *chunk))
        if "attention" in record:
            edge = min(n_tokens, MATRIX_CHUNK)
            create_dataset(
                group,
                "attention",
                np.float16 if self.plan.store == "float16" else np.float32,
                (shape.n_heads, n_tokens, n_tokens),
                (1, edge, edge),
            )

    def _lay_out_experts(self, group: h5py.Group, layer: int, n_experts: int, per_token: int) -> None:
        set_attribute(group, "n_experts", n_experts)
        if self.run.like is not None:
            same = group.parent.parent[self.run.like][layer_name(layer)]
            for name in ROUTING:
                group[name] = same[name]
            return
        n_tokens, chunk = self.run.max_tokens, min(self.run.max_tokens, TRACE_CHUNK)
        create_dataset(group, "expert", np.int32, (n_tokens, per_token), (chunk, per_token), -1)
        create_dataset(group, "expert_weight", np.float32, (n_tokens, per_token), (chunk, per_token), np.nan)
        create_dataset(group, "router_entropy", np.float32, (n_tokens,), (chunk,), np.nan)

    def write_routing(self, routing: Routing, first: int) -> None:
        """Where a layer's router sent tokens first, first + 1, …."""
        group = self._group[layer_name(routing.layer)]
        for name, values in zip(ROUTING, (routing.experts, routing.weights, routing.entropy), strict=True):
            group[name][first : first + len(values)] = values

    def write_rows(self, layer: int, name: str, first: int, rows: NDArray[np.float32]) -> None:
        """Keys, queries or values of tokens first, first + 1, …: (heads, n, dim); narrower ones end in zeros."""
        dataset = self._group[f"{layer_name(layer)}/{name}"]
        if self.plan.store == "bfloat16":
            rows = round_to_bfloat16(rows)
        if self.plan.store == "float16" and np.abs(rows).max(initial=0) > _LARGEST_FLOAT16:
            raise RecordError(
                f"layer {layer}: {name} are as large as {np.abs(rows).max():.4g}, and float16 ends at "
                f"{_LARGEST_FLOAT16:g}; take store='bfloat16' or 'float32'"
            )
        dataset[:, first : first + rows.shape[1], : rows.shape[2]] = rows

    def write_part(self, layer: int, name: str, first: int, values: NDArray[Any]) -> None:
        """Columns from `first` on of a dataset (heads, n)."""
        self._group[f"{layer_name(layer)}/{name}"][:, first : first + values.shape[1]] = values

    def read_part(self, layer: int, name: str) -> NDArray[Any]:
        """What was written of a dataset."""
        values: NDArray[Any] = self._group[f"{layer_name(layer)}/{name}"][...]
        return values

    def write_elements(self, layer: int, name: str, at: Sequence[tuple[int, int]], values: Sequence[float]) -> None:
        """Single elements of a dataset (heads, n)."""
        dataset = self._group[f"{layer_name(layer)}/{name}"]
        for place, value in zip(at, values, strict=True):
            dataset[place] = value

    def write_all(self, layer: int, name: str, values: NDArray[Any]) -> None:
        """A dataset of one value per head."""
        self._group[f"{layer_name(layer)}/{name}"][...] = values

    def write_weights(
        self, layer: int, head: int, query: int, columns: NDArray[np.int64], weights: NDArray[Any]
    ) -> None:
        """Attention weights (n, rows) of one query head, of queries from `query` on, at the rows' true positions."""
        self._group[f"{layer_name(layer)}/attention"][head, query : query + len(weights), columns] = weights

    def write_journal(self, sums: Mapping[int, Sequence[tuple[NDArray[np.float64], NDArray[np.int32]]]]) -> None:
        """What present rows have received so far, per layer and KV head, in the slot that is not in use."""
        self._journal_slot = 1 - self._journal_slot
        for layer, heads in sums.items():
            group = self._group[layer_name(layer)]
            for head, (received, queries) in enumerate(heads):
                place = (self._journal_slot, head, slice(0, len(received)))
                group["partial_attention_received"][place] = received
                group["partial_attention_queries"][place] = queries

    def write_blocks(self, n_blocks: int, block_ms: float) -> None:
        """Says where the next n_blocks blocks start, and the one behind them: a reader needs it if that never comes."""
        first, end = self.blocks_done, self.blocks_done + n_blocks
        starts = [self._start_of(block) for block in range(first, min(end + 1, self.run.max_blocks))]
        self._group["block_start"][first : first + len(starts)] = starts
        self._group["block_ms"][first:end] = block_ms if n_blocks == 1 else np.nan
        if first < self.run.n_prompt_blocks:
            self._group["partial_attention_blocks"][self._journal_slot] = end
        self.blocks_done = end

    def _start_of(self, block: int) -> int:
        after = block - self.run.n_prompt_blocks
        return block * self.run.block_size if after < 0 else self.run.n_prompt + after

    def count_blocks(self) -> None:
        self._group["blocks_done"][()] = self.blocks_done

    def write_logits(self, first: int, logits: NDArray[np.float32]) -> None:
        """Of scored prompt positions, counted from the first of these."""
        self._group["logits"][first : first + len(logits)] = logits
        self._n_scored = first + len(logits)

    def write_top(self, ids: NDArray[np.int64], logits: NDArray[np.float32]) -> None:
        self._group["top_logits"][: len(ids)] = logits
        self._group["top_ids"][: len(ids)] = ids
        self._n_top = len(ids)

    def copy_top(self, other: RunWriter) -> None:
        """The largest logits, and how many are scored, of a run that read the same."""
        n = other._n_top
        self.write_top(other._group["top_ids"][:n], other._group["top_logits"][:n])
        self._n_scored = other._n_scored

    def add_generated(self, token: int, text: bytes) -> None:
        index = len(self._generated)
        self._generated.append(token)
        self._text += text
        self._offset.append(len(self._text))
        self._group["generated"][index] = token
        self._group["generated_text_offset"][index + 1] = self._offset[-1]
        room = self._group["generated_text"]
        if len(self._text) <= len(room):
            room[self._offset[-2] : self._offset[-1]] = np.frombuffer(text, np.uint8)

    def cut(self) -> None:
        """Cuts datasets to what came, or would have in a prompt read to its end."""
        group, fed_back = self._group, max(len(self._generated) - 1, 0)
        n_tokens = self.run.n_prompt + fed_back
        n_blocks = self.run.n_prompt_blocks + fed_back
        if self.blocks_done > n_blocks:  # the last token was fed back, and what follows it was not written
            self.blocks_done = n_blocks
            self.count_blocks()
        text = np.frombuffer(self._text, np.uint8)
        group["generated_text"].resize((len(text),))
        group["generated_text"][...] = text
        for name, size in {
            "block_start": n_blocks, "block_ms": n_blocks, "generated": len(self._generated),
            "generated_text_offset": len(self._offset), "top_logits": self._n_top, "top_ids": self._n_top,
        }.items():  # fmt: skip
            group[name].resize((size,))
        if "logits" in group:
            group["logits"].resize((self._n_scored, self.plan.vocab_size))
        if n_tokens == self.run.max_tokens:
            return
        for layer in self.plan.layers:
            for name, dataset in group[layer_name(layer)].items():
                if name in ROUTING:
                    dataset.resize(n_tokens, axis=0)
                elif name in ("keys", "queries", "values", "attention", *TRACES):
                    dataset.resize(n_tokens, axis=1)
                if name == "attention":
                    dataset.resize(n_tokens, axis=2)
