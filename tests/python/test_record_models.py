"""Recordings of many architectures against plain hooks, against eager attention, and opened by the program."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="recordings are written with PyTorch")
transformers = pytest.importorskip("transformers", minversion="5", reason="and Transformers 5")

from transformers import AttentionInterface  # noqa: E402
from transformers.integrations.sdpa_attention import sdpa_attention_forward  # noqa: E402
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask  # noqa: E402
from transformers_models import MODELS, make, prompt  # noqa: E402

from keyscope.record import RecordError, record  # noqa: E402
from keyscope.record.hooks import text_config  # noqa: E402

BLOCK, BUDGET = 16, 24
SPARSE = {"DeepseekV32"}  # chooses the keys that each query sees: only `none` is recorded
EVICTED = [name for name in MODELS if name not in SPARSE]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def seen_by_plain_hooks(model: Any, ids: list[int]) -> dict[int, tuple[Any, Any, Any]]:
    """Queries, keys and values per layer, from a forward pass in which attention is Transformers' own."""
    seen: dict[int, tuple[Any, Any, Any]] = {}

    def spy(module: Any, query: Any, key: Any, value: Any, mask: Any, **given: Any) -> Any:
        seen[module.layer_idx] = tuple(part[0].float().numpy() for part in (query, key, value))
        sinks, cap, chosen = given.pop("s_aux", None), given.pop("softcap", None), given.pop("indices", None)
        if chosen is not None:
            mask = mask & torch.zeros_like(mask).scatter_(3, chosen.long()[:, None], True)
        if sinks is None and not cap:
            return sdpa_attention_forward(module, query, key, value, mask, **given)
        return softmax_attention(query, key, value, mask, given["scaling"], sinks, cap), None

    AttentionInterface.register("spy", spy)

    def mask(*args: Any, **given: Any) -> Any:
        return sdpa_mask(*args, **{**given, "allow_is_causal_skip": False})

    AttentionMaskInterface.register("spy", mask)
    before = text_config(model)._attn_implementation
    model.set_attn_implementation("spy")
    with torch.inference_mode():
        model(torch.tensor([ids]), use_cache=False)
    model.set_attn_implementation(before)
    return seen


def softmax_attention(query: Any, key: Any, value: Any, mask: Any, scale: float, sinks: Any, cap: float | None) -> Any:
    group = query.shape[1] // key.shape[1]
    scores = query @ key.repeat_interleave(group, 1).transpose(2, 3) * scale
    if cap:
        scores = cap * torch.tanh(scores / cap)
    scores = scores.masked_fill(~mask, -torch.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)], dim=-1)
    weights = scores.softmax(-1)[..., : key.shape[2]]
    return (weights @ value.repeat_interleave(group, 1)).transpose(1, 2)


def close(found: np.ndarray, expected: np.ndarray, share: float = 2e-5) -> bool:
    return float(np.abs(found - expected).max()) <= share * float(np.abs(expected).max())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Any, Path]]:
    """A model and its recording, made once per architecture."""
    folder, made = tmp_path_factory.mktemp("models"), {}

    def of(name: str) -> tuple[Any, Path]:
        if name not in made:
            model, path = make(name), folder / f"{name}.h5"
            generate = 0 if name == "MiniMax" else 3
            record(
                model, None, prompt(), policies=["none"] if name in SPARSE else ["keydiff", "h2o"], budget=BUDGET,
                block=BLOCK, generate=generate, out=path, record=("keys", "queries", "values", "attention", "logits"),
                ignore_eos=True, progress=False,
            ).close()  # fmt: skip
            made[name] = (model, path)
        return made[name]

    return of


@pytest.mark.parametrize("name", MODELS)
def test_keys_queries_and_values_are_what_a_plain_hook_sees(name: str, recorded: Any) -> None:
    if name == "Zamba2":
        pytest.skip("its attention blocks do not say which layer they stand in to a plain hook")
    model, path = recorded(name)
    ids = prompt()
    seen = seen_by_plain_hooks(model, ids)
    with h5py.File(path) as file:
        run = file["entry/runs/none"]
        layers = {int(group[6:]): run[group] for group in run if group.startswith("layer_")}
        assert {layer for layer, group in layers.items() if "keyless" not in group.attrs} == set(seen)
        for layer, (queries, keys, values) in seen.items():
            group = layers[layer]
            assert close(group["queries"][:, : len(ids)], queries)
            assert close(group["keys"][:, : len(ids)], keys)
            width = values.shape[2]
            assert close(group["values"][:, : len(ids), :width], values)
            assert not group["values"][:, :, width:].any()


@pytest.mark.parametrize("name", MODELS)
def test_logits_of_the_full_cache_are_the_models_own(name: str, recorded: Any) -> None:
    """Whatever a model's attention does beyond softmax(q·k): what is recorded of it is all of it."""
    model, path = recorded(name)
    with torch.inference_mode():
        own = model(torch.tensor([prompt()]), use_cache=False).logits[0, -32:].float().numpy()
    with h5py.File(path) as file:
        assert close(file["entry/runs/none/logits"][:], own, share=1e-5)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "MiniMax"])
def test_statistics_are_those_of_eager_attention(name: str, recorded: Any) -> None:
    """Sums, the last row, the window, entropies and concentration, by definition from all weights at once."""
    model, path = recorded(name)
    ids = prompt()
    before = text_config(model)._attn_implementation
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        attentions = model(torch.tensor([ids]), use_cache=False, output_attentions=True).attentions
    model.set_attn_implementation(before)
    weights_of = [attention[0].numpy().astype(np.float64) for attention in attentions or () if attention is not None]
    with h5py.File(path) as file:
        run = file["entry/runs/none"]
        groups = [
            run[group] for group in sorted(run) if group.startswith("layer_") and "keyless" not in run[group].attrs
        ]
        if len(weights_of) != len(groups):
            pytest.skip(f"the model gives {len(weights_of)} attentions of {len(groups)} layers")
        n = len(ids)
        for group, weights in zip(groups, weights_of, strict=True):
            n_kv_heads = group["keys"].shape[0]
            per_kv_head = weights.reshape(n_kv_heads, -1, n, n).mean(axis=1)
            assert close(group["attention"][:, :n, :n], weights)
            assert close(group["attention_received"][:, :n], per_kv_head.sum(axis=1))
            assert close(group["attention_last"][:, :n], per_kv_head[:, -1])
            assert close(group["attention_window"][:, :n], per_kv_head[:, -32:].sum(axis=1))
            sink = 1 - weights.sum(axis=2) if "attention_sink" in group else np.zeros(weights.shape[:2])
            entropy = -sum((p * np.log(np.where(p > 0, p, 1))).sum(axis=2) for p in (weights, sink[..., None]))
            assert np.abs(group["attention_entropy"][:] - entropy).max() < 2e-5
            received = np.sort(weights.sum(axis=1), axis=1)
            top = received[:, -int(np.ceil(0.01 * n)) :].sum(axis=1) / received.sum(axis=1)
            assert np.allclose(group["attention_top_share"][:], top, rtol=1e-5)
            differences = np.abs(received[:, :, None] - received[:, None]).mean(axis=(1, 2))
            assert np.allclose(group["attention_gini"][:], differences / (2 * received.mean(axis=1)), rtol=1e-4)
            if "attention_sink" in group:
                assert np.allclose(group["attention_sink"][:].sum(axis=1), sink.sum(axis=1), rtol=1e-4)
                assert np.allclose(group["attention_sink"][:, 0], sink[:, :BLOCK].sum(axis=1), rtol=1e-4)


@pytest.mark.parametrize("name", EVICTED)
def test_every_row_that_went_is_beyond_the_budget_or_a_window(name: str, recorded: Any) -> None:
    _, path = recorded(name)
    with h5py.File(path) as file:
        run = file["entry/runs/keydiff"]
        n_prompt, n_blocks = run.attrs["n_prompt"], run.attrs["n_prompt_blocks"]
        assert run["blocks_done"][()] == len(run["block_start"])
        for group in (run[name] for name in run if name.startswith("layer_") and "keyless" not in run[name].attrs):
            evicted_at = group["evicted_at"][:, :n_prompt]
            for block in range(n_blocks):
                seen = min((block + 1) * BLOCK, n_prompt)
                present = ((evicted_at < 0) | (evicted_at > block))[:, :seen].sum(axis=1)
                assert (present <= min(seen, BUDGET)).all() and (present >= min(seen, 11)).all()


@pytest.mark.parametrize("name", MODELS)
def test_the_program_reads_it(name: str, recorded: Any, run_keyscope: Callable[..., str], tmp_path: Path) -> None:
    _, path = recorded(name)
    run_keyscope("analyze", path, "--no-bounds", "--json", tmp_path / "a.json")
    run_keyscope("inspect", path)
    run_keyscope("compare", path, path)
    run_keyscope("figure", path, "attention", "--out", tmp_path / "f.svg")
    run_keyscope("export", path, "--out", tmp_path / "figures.h5")
    if name in EVICTED:
        run_keyscope("diff", path, "--run", "keydiff", "--run", "h2o", "--csv", tmp_path / "d.csv")


@pytest.mark.parametrize("name", sorted(SPARSE))
def test_policies_of_sparse_attention_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="chooses the keys that each query sees.*keyscope replay"):
        record(make(name), None, prompt(), ["keydiff"], 24, out=tmp_path / "r.h5", progress=False)
    assert not any(tmp_path.iterdir())


def test_heads_of_several_sizes_and_borrowed_keys_are_said(recorded: Any) -> None:
    _, path = recorded("Gemma4Text")
    with h5py.File(path) as file:
        model, run = file["entry/model"].attrs, file["entry/runs/keydiff"]
        assert (model["n_kv_heads"], model["head_dim"]) == (2, 16)
        assert model["keys_of"].tolist() == [0, 1, 2, 3, 3, 2]
        assert model["layer_head_dim"].tolist() == [8, 8, 16, 8, 8, 16]
        assert model["layer_n_kv_heads"].tolist() == [2] * 6
        assert model["layer_head_dim"].dtype == np.int64
        lenders = {name: run[name].attrs.get("keys_of") for name in run if name.startswith("layer_")}
        assert {name: lender for name, lender in lenders.items() if lender is not None} == {
            "layer_04": 3,
            "layer_05": 2,
        }
        for borrower, lender in (("layer_04", "layer_03"), ("layer_05", "layer_02")):
            for what in ("keys", "values", "evicted_at"):
                assert np.array_equal(run[borrower][what][:], run[lender][what][:])
            assert not np.array_equal(run[borrower]["queries"][:], run[lender]["queries"][:])


def test_layers_without_keys_are_recorded_as_such(recorded: Any) -> None:
    _, path = recorded("Bamba")
    with h5py.File(path) as file:
        run = file["entry/runs/none"]
        assert [run[f"layer_0{layer}"].attrs.get("keyless", 0) for layer in range(3)] == [1, 0, 1]
        assert len(run["layer_00"]) == 0
