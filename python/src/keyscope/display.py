"""What a notebook shows of a recording, a run, a layer and a head.

Text takes the colour of the page around it, so that light and dark themes both work; blue is what a cache holds and
orange what was evicted, as in the program's figures. Everything from the file is escaped.
"""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .hdf5 import RecordingError

if TYPE_CHECKING:
    from .layer import Array, Head, Layer
    from .recording import Recording
    from .run import Run

_BLUE, _ORANGE, _GREY = (0x2B, 0x8C, 0xC4), (0xE6, 0x9F, 0x00), (0x80, 0x80, 0x80)
_COLUMNS = 360  # of a strip, at most; several tokens share one
_LINES = 16  # of layers or heads, at most
_TOKENS = 6  # listed of a head
_STYLE = """<style>
.keyscope{font:13px/1.5 system-ui,sans-serif;color:inherit;max-width:60em}
.keyscope b{font-size:14px;font-weight:600}
.keyscope .dim{opacity:.65}
.keyscope table{border-collapse:collapse;margin:.5em 0;border:0;color:inherit;font:inherit}
.keyscope :is(th,td){padding:.15em 1.2em .15em 0!important;text-align:left!important;border:0;background:none!important;
  white-space:nowrap;vertical-align:middle}
.keyscope th{font-weight:400;opacity:.65;border-bottom:1px solid rgb(128 128 128/.35)!important}
.keyscope .n{text-align:right!important;font-variant-numeric:tabular-nums}
.keyscope .bar{display:inline-block;width:7em;height:.6em;border-radius:.3em;background:rgb(128 128 128/.22)}
.keyscope .bar i{display:block;height:100%;border-radius:.3em;background:rgb(43 140 196)}
.keyscope .strip{display:block;width:540px;margin:.45em 0 .3em;max-width:100%;image-rendering:pixelated;
  background:rgb(128 128 128/.1)}
.keyscope code{font:12px ui-monospace,monospace;background:rgb(128 128 128/.14);padding:0 .3em;border-radius:.25em;
  color:inherit}
.keyscope .key{display:inline-block;width:.7em;height:.7em;border-radius:.15em;margin:0 .3em 0 0}
.keyscope .key:not(:first-child){margin-left:.9em}
</style>"""


def token_label(text: str) -> str:
    """A token as one readable line: a leading space as ·, line breaks as ↵, tabs as ⇥, other controls by their code."""
    shown = "·" + text[1:] if text.startswith(" ") else text
    named = {"\n": "↵", "\t": "⇥"}
    return "".join(named.get(c, c if c.isprintable() else f"<{ord(c):02X}>") for c in shown)


def recording_html(recording: Recording) -> str:
    """The model, the prompt's length, what was recorded, and a line per run."""
    run = next(iter(recording))
    rows = [
        [
            _escape(run.name),
            _options(run),
            f"{run.budget:,}" if run.budget else "all",
            f"{run.block_size:,}",
            _bar(_share_of_prompt(run)),
            _generated(run),
        ]
        for run in recording
    ]
    layer = run._layer(run.layers[0])
    facts = [f"{recording.n_prompt:,} prompt tokens", _layers_text(run), *_state(recording)]
    with_rows = [name for name in ("keys", "queries", "values", "attention") if _holds(layer, name)]
    facts.append(", ".join(with_rows) + " and statistics" if with_rows else "statistics")
    head = ["run", "options", "budget", "block", "rows kept", "generated"]
    title = f"<b>{_escape(recording.path.name)}</b> <span class=dim>{_escape(recording.model.name)}</span>"
    return _box(title, _dim(facts), _table(head, rows, numbers={2, 3}))


def run_html(run: Run) -> str:
    """How a run read the prompt, and where in it every layer's rows were kept."""
    facts = [
        run.policy if not run.budget else f"{run.policy}, budget {run.budget:,}",
        f"blocks of {run.block_size:,}",
        f"{run.n_tokens:,} tokens",
        _layers_text(run),
        *(["replayed"] if run.replayed else []),
        *([f"cache in {run.cache_dtype}"] if run.cache_dtype != "model" else []),
        *_state(run.recording),
    ]
    title = f"<b>{_escape(run.name)}</b> <span class=dim>{_escape(run.recording.path.name)}</span>"
    try:
        return _box(title, _dim(facts), _kept_by_layer(run))
    except RecordingError as error:
        return _box(title, _dim(facts), _dim([str(error)]))


def layer_html(layer: Layer) -> str:
    """What was recorded of a layer, and where in the prompt each KV head's rows were kept."""
    title = f"<b>Layer {layer.index}</b> <span class=dim>{_escape(layer.run.name)}</span>"
    try:
        experts = f"{layer.n_experts:,} experts" if layer.n_experts else ""
        facts = _dim([heads_text(layer), experts, ", ".join(layer.names)])
        return _box(title, facts, "" if layer.keyless else _kept_by_head(layer))
    except RecordingError as error:
        return _box(title, _dim([str(error)]))


def head_html(head: Head) -> str:
    """Which rows were kept at the end of the prompt, the attention they received, and the tokens with most of it."""
    layer = head.layer
    title = f"<b>KV head {head.index}, layer {layer.index}</b> <span class=dim>{_escape(head.run.name)}</span>"
    try:
        kept, gone = head.retained(), head.evicted()
        facts = [f"{len(kept):,} rows kept", f"{len(gone):,} evicted by the end of the prompt"]
        facts.append(f"query heads {head.query_heads.start}–{head.query_heads.stop - 1}, {layer.head_dim} coordinates")
        return _box(title, _dim(facts), _head_strip(head, kept, gone), _top_tokens(head))
    except RecordingError as error:
        return _box(title, _dim([str(error)]))


def _escape(text: object) -> str:
    return html.escape(str(text))


def _dim(facts: Iterable[str]) -> str:
    return f"<div class=dim>{' · '.join(_escape(fact) for fact in facts if fact)}</div>"


def _box(*parts: str) -> str:
    return f"<div class=keyscope>{_STYLE}{''.join(parts)}</div>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: set[int]) -> str:
    """Cells are HTML, head lines text."""

    def line(tag: str, cells: Sequence[str]) -> str:
        kinds = [" class=n" if i in numbers else "" for i in range(len(cells))]
        return "<tr>" + "".join(f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, cells)) + "</tr>"

    return f"<table>{line('th', [_escape(name) for name in head])}{''.join(line('td', row) for row in rows)}</table>"


def _bar(share: float) -> str:
    return f"<span class=bar><i style='width:{share:.1%}'></i></span> {share:.0%}"


def _share_of_prompt(run: Run) -> float:
    """Of its rows, what the budget leaves: read from no dataset of a layer."""
    n_prompt = run.recording.n_prompt
    return min(1.0, run.budget / n_prompt) if run.budget else 1.0


def _options(run: Run) -> str:
    return _escape(", ".join(f"{key}={value}" for key, value in run.parameters.items()))


def _generated(run: Run) -> str:
    if run.replayed:
        return "<span class=dim>replayed</span>"
    try:
        text = run.generated_text
    except RecordingError:
        return ""
    label = token_label(text if len(text) <= 40 else text[:39] + "…")
    return f"<code>{_escape(label)}</code>" if text else ""


def heads_text(layer: Layer) -> str:
    """How many heads a layer has, and their width."""
    return "no keys" if layer.keyless else f"{layer.n_heads} query / {layer.n_kv_heads} KV heads of {layer.head_dim}"


def _layers_text(run: Run) -> str:
    layer = run._layer(run.layers[0])
    try:
        shape = heads_text(layer)
    except RecordingError:
        return f"{len(run.layers)} layers"
    keyless = f", {len(run.keyless_layers)} without keys" if run.keyless_layers else ""
    return f"{len(run.layers)} layer{'s' if len(run.layers) != 1 else ''} of {shape}{keyless}"


def _state(recording: Recording) -> list[str]:
    return [] if recording.complete else ["not completed: shown up to the last whole block"]


def _holds(layer: Any, name: str) -> bool:
    try:
        return name in layer
    except RecordingError:
        return False


def _binned(values: Array, n_columns: int) -> Array:
    """Means over as many tokens as share a column."""
    edges = np.linspace(0, values.shape[-1], n_columns + 1).astype(int)
    sums = np.add.reduceat(values, edges[:-1], axis=-1)
    return np.asarray(sums / np.diff(edges))


def _kept_by_layer(run: Run) -> str:
    lines = {layer: (run[layer], slice(None)) for layer in run.layers}
    return _kept_strip(run, lines, "layer", "rows in the cache at the end of the prompt, mean over KV heads")


def _kept_by_head(layer: Layer) -> str:
    lines = {head: (layer, slice(head, head + 1)) for head in range(layer.n_kv_heads)}
    return _kept_strip(layer.run, lines, "KV head", "rows in the cache at the end of the prompt")


def _kept_strip(run: Run, lines: Mapping[int, tuple[Layer, slice]], of: str, what: str) -> str:
    """A line each for the layers or heads of these indices: of a layer, the mean of some heads."""
    last = run.last_prompt_block
    seen = run.tokens_seen(last)
    if not seen:
        return _dim(["no block was done"])
    indices, rows = list(lines)[:: -(-len(lines) // _LINES)], []
    for index in indices:
        layer, heads = lines[index]
        evicted_at = layer.read("evicted_at", heads, slice(seen))
        kept = ((evicted_at < 0) | (evicted_at > last)).mean(axis=0)
        rows.append(_binned(kept, min(seen, _COLUMNS)))
    shares = np.stack(rows)
    height = 12
    legend = f"each line a {of}, {indices[0]} to {indices[-1]}" if len(indices) > 1 else f"{of} {indices[0]}"
    caption = f"{what}: {legend}; left to right, its {seen:,} tokens"
    return _strip(np.repeat(shares, height, axis=0), _BLUE, gap=height, caption=caption) + _dim([caption])


def _head_strip(head: Head, kept: Array, gone: Array) -> str:
    seen = len(kept) + len(gone)
    if not seen:
        return ""
    columns = min(seen, _COLUMNS)
    held = np.zeros(seen)
    held[kept] = 1
    shares = _binned(held, columns)
    bands = [(shares, _BLUE, 14), (1 - shares, _ORANGE, 14)]
    labels = [("kept", _BLUE), ("evicted", _ORANGE)]
    table = head.table
    received = table["attention_per_query"].to_numpy()[:seen] if "attention_per_query" in table else np.zeros(0)
    if np.nansum(received) > 0:
        most = _binned(np.nan_to_num(received).clip(0), columns)
        bands.append((np.sqrt(most / most.max()), _GREY, 14))
        labels.append(("attention received per query, square root", _GREY))
    rows = [np.repeat(values[None], height, axis=0) for values, _, height in bands]
    colours = [colour for _, colour, height in bands for _ in range(height)]
    legend = "".join(
        f"<span class=key style='background:rgb({r} {g} {b})'></span>{_escape(name)}" for name, (r, g, b) in labels
    )
    return (
        _strip(np.concatenate(rows), colours, gap=14, caption="kept and evicted tokens")
        + f"<div class=dim>{legend}</div>"
    )


def _top_tokens(head: Head) -> str:
    table = head.table
    if "attention_per_query" not in table or not (table.attention_received > 0).any():
        return ""
    top = table.nlargest(_TOKENS, "attention_per_query")
    rows = [
        [
            f"{position:,}",
            f"<code>{_escape(token_label(row.text))}</code>",
            f"{row.attention_per_query:.3g}",
            "kept" if row.evicted_at < 0 else f"evicted at block {row.evicted_at:.0f}",
        ]
        for position, row in zip(top.index, top.itertuples())
    ]
    return _table(["position", "token", "attention per query", ""], rows, numbers={0, 2})


def _strip(shares: Array, colours: Any, gap: int, caption: str) -> str:
    """Shares from 0 to 1 as opacities of a colour, or of one per row; every `gap` rows are parted by a clear line."""
    n_rows, n_columns = shares.shape
    rgba = np.zeros((n_rows, n_columns, 4), np.uint8)
    rgba[..., :3] = np.array(colours).reshape(-1, 1, 3)
    rgba[..., 3] = np.round(255 * np.clip(shares, 0, 1))
    rgba[gap - 1 :: gap, :, 3] = 0
    data = base64.b64encode(_png(rgba)).decode()
    size = f"height:{n_rows}px"
    return f"<img class=strip style='{size}' alt='{_escape(caption)}' src='data:image/png;base64,{data}'>"


def _png(rgba: Array) -> bytes:
    """(height, width, 4) uint8 as a PNG file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = rgba.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in rgba)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
