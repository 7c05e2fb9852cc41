"""Small recordings written by hand, as docs/recording.md describes them, to be read by eye."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

SEED = 20251128


def write(
    path: Path,
    tokens: Sequence[bytes],
    runs: Mapping[str, Mapping[int, Mapping[str, Any]]],
    block_size: int = 2,
    model: Mapping[str, int] | None = None,
    **provenance: Any,
) -> Path:
    """A complete recording without generation.

    tokens: the bytes of each; runs: by name, then by layer, the datasets and (`keyless`) attributes of the layer
    """
    counts = {"n_layers": 8, "n_heads": 4, "n_kv_heads": 2, "head_dim": 4, **(model or {})}
    n = len(tokens)
    starts = np.arange(0, n, block_size, dtype=np.int32)
    with h5py.File(path, "w") as file:
        file.attrs.update({"NX_class": "NXroot", "default": "entry", "keyscope_format": 1})
        entry = file.create_group("entry")
        entry.create_group("provenance").attrs.update({"complete": 1, "seed": 0, **provenance})
        entry.create_group("model").attrs.update(
            {"config": json.dumps({"model_type": "made"}), "name": "made", **counts}
        )
        prompt = entry.create_group("tokens")
        prompt.attrs["n_prompt"] = n
        prompt["id"] = np.arange(n, dtype=np.int32) + 100
        prompt["text"] = np.frombuffer(b"".join(tokens), np.uint8)
        prompt["text_offset"] = np.cumsum([0, *map(len, tokens)]).astype(np.int64)
        for index, (name, layers) in enumerate(runs.items()):
            run = entry.create_group(f"runs/{name}")
            run.attrs.update(
                index=index, policy=name, parameters="{}", budget=0 if name == "none" else 2, block_size=block_size,
                n_prompt=n, n_prompt_blocks=len(starts), replayed=0, oracle=0,
            )  # fmt: skip
            run["block_start"] = starts
            run["block_ms"] = np.full(len(starts), np.nan, np.float32)
            run["generated"] = np.empty(0, np.int32)
            run["generated_text"] = np.empty(0, np.uint8)
            run["generated_text_offset"] = np.zeros(1, np.int64)
            run["top_ids"], run["top_logits"] = np.empty(0, np.int32), np.empty(0, np.float32)
            for layer, contents in layers.items():
                group = run.create_group(f"layer_{layer:02}")
                for key, value in contents.items():
                    if key in ("keyless", "n_experts"):
                        group.attrs[key] = value
                    else:
                        group[key] = value
    return path


def layer(n_tokens: int, n_kv_heads: int = 2, n_heads: int = 4, head_dim: int = 4, seed: int = SEED, **given: Any):
    """A layer's datasets: random keys, queries and values, causal attention statistics of them, nothing evicted."""
    random = np.random.default_rng(seed)
    rows = {"keys": n_kv_heads, "queries": n_heads, "values": n_kv_heads}
    made = {name: random.standard_normal((n, n_tokens, head_dim)).astype(np.float32) for name, n in rows.items()}
    keys = np.repeat(made["keys"], n_heads // n_kv_heads, axis=0).astype(np.float64)
    scores = made["queries"].astype(np.float64) @ keys.transpose(0, 2, 1) / np.sqrt(head_dim)
    scores[:, np.triu(np.ones((n_tokens, n_tokens), bool), 1)] = -np.inf
    weights = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    mean = weights.reshape(n_kv_heads, -1, n_tokens, n_tokens).mean(axis=1)
    made |= {
        "evicted_at": np.full((n_kv_heads, n_tokens), -1, np.int32),
        "evicted_margin": np.full((n_kv_heads, n_tokens), np.nan, np.float32),
        "attention_received": mean.sum(axis=1),
        "attention_queries": np.tile(np.arange(n_tokens, 0, -1, dtype=np.int32), (n_kv_heads, 1)),
        "attention_last": mean[:, -1].astype(np.float32),
        "attention_gini": np.zeros(n_heads),
    }
    return {**made, **given}
