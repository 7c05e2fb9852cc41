"""Which rows presses of kvpress keep, as runs beside `none`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="recordings are written with PyTorch")
pytest.importorskip("transformers", minversion="5", reason="and Transformers 5")
kvpress = pytest.importorskip("kvpress", reason="presses are those of kvpress", exc_type=ImportError)

from transformers_models import N_PROMPT, make, prompt  # noqa: E402

from keyscope.record import RecordError, record_press  # noqa: E402

BLOCK = 16
LAST = -(-N_PROMPT // BLOCK) - 1
RATIO = 0.4
KEPT = int(N_PROMPT * (1 - RATIO))


@pytest.fixture(scope="module")
def model() -> Any:
    return make("Llama")


def knorm(ratio: float = RATIO) -> Any:
    return kvpress.KnormPress(compression_ratio=ratio)


def recorded(model: Any, press: Any, path: Path, **more: Any) -> h5py.File:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record_press(model, press, prompt(), block=BLOCK, out=path, progress=False, **more).close()
    return h5py.File(path)


def kept(file: h5py.File, run: str, layer: int) -> np.ndarray:
    evicted_at: np.ndarray = file[f"entry/runs/{run}/layer_{layer:02}/evicted_at"][:]
    assert set(np.unique(evicted_at)) <= {-1, LAST}
    return evicted_at < 0


def test_it_keeps_the_rows_that_the_press_scores_highest(model: Any, tmp_path: Path) -> None:
    with recorded(model, knorm(), tmp_path / "p.h5") as file:
        run = file["entry/runs/KnormPress"]
        assert (run.attrs["policy"], run.attrs["budget"], run.attrs["oracle"]) == ("kvpress:KnormPress", KEPT, 1)
        assert run.attrs["parameters"] == '{"compression_ratio": 0.4}'
        assert "budgets" not in run
        for layer in range(3):
            group = run[f"layer_{layer:02}"]
            norms = np.linalg.norm(group["keys"][:], axis=2)
            for head, stays in enumerate(kept(file, "KnormPress", layer)):
                order = np.argsort(norms[head])
                assert set(np.flatnonzero(stays)) == set(order[:KEPT])
                margin = group["evicted_margin"][head]
                assert np.isnan(margin[stays]).all()
                expected = norms[head][~stays] - norms[head][order[KEPT - 1]]
                assert np.allclose(margin[~stays], expected, atol=1e-4)


def test_all_else_is_that_of_none_and_lies_in_the_file_once(model: Any, tmp_path: Path) -> None:
    with recorded(model, knorm(), tmp_path / "p.h5", record="keys,queries,logits") as file:
        none, run = file["entry/runs/none"], file["entry/runs/KnormPress"]
        for name in none["layer_01"]:
            if not name.startswith(("evicted_", "partial_")):
                assert run["layer_01"][name] == none["layer_01"][name], name
        for name in ("top_ids", "top_logits", "logits"):
            assert np.array_equal(run[name][:], none[name][:])


def test_streaming_llm_keeps_the_first_and_the_last(model: Any, tmp_path: Path) -> None:
    with recorded(model, kvpress.StreamingLLMPress(compression_ratio=RATIO), tmp_path / "p.h5") as file:
        for layer in range(3):
            for stays in kept(file, "StreamingLLMPress", layer):
                rows = np.flatnonzero(stays)
                assert rows.tolist() == [0, 1, 2, 3, *range(N_PROMPT - KEPT + 4, N_PROMPT)]


def test_presses_that_choose_heads_and_layers_differently(model: Any, tmp_path: Path) -> None:
    presses = [kvpress.AdaKVPress(knorm()), kvpress.PerLayerCompressionPress(knorm(), [0.1, 0.5, 0.25])]
    with recorded(model, presses, tmp_path / "p.h5") as file:
        ada, by_layer = file["entry/runs/AdaKVPress"], file["entry/runs/PerLayerCompressionPress"]
        counts = np.array([kept(file, "AdaKVPress", layer).sum(axis=1) for layer in range(3)])
        assert counts.sum(axis=1).tolist() == [2 * KEPT] * 3
        assert (counts[:, 0] != counts[:, 1]).any()
        assert np.array_equal(ada["budgets"][:], counts) and ada.attrs["budget"] == counts.max()
        assert by_layer["budgets"][:, 0].tolist() == [74, 41, 62]
        assert kept(file, "PerLayerCompressionPress", 1).sum(axis=1).tolist() == [41, 41]


def test_presses_in_presses_and_those_that_rotate_keys(model: Any, tmp_path: Path) -> None:
    presses = [
        kvpress.ComposedPress([knorm(0.2), kvpress.SnapKVPress(compression_ratio=0.25, window_size=8)]),
        kvpress.KeyRerotationPress(knorm()),
        knorm(),
        knorm(0.2),
        kvpress.BlockPress(knorm(), block_size=16),
        kvpress.ExpectedAttentionPress(compression_ratio=RATIO),
    ]
    with recorded(model, presses, tmp_path / "p.h5") as file:
        runs = file["entry/runs"]
        assert runs["ComposedPress"].attrs["budget"] == int(int(N_PROMPT * 0.8) * 0.75)
        assert "KnormPress-2" in runs
        for layer in range(3):
            assert np.array_equal(kept(file, "KeyRerotationPress", layer), kept(file, "KnormPress", layer))
            # What stays of a stricter choice stays of a wider one.
            assert not (kept(file, "KnormPress", layer) & ~kept(file, "KnormPress-2", layer)).any()


def test_windows_go_before_a_press(tmp_path: Path) -> None:
    windowed = make("Starcoder2")
    with recorded(windowed, kvpress.RandomPress(compression_ratio=0.0), tmp_path / "p.h5") as file:
        for layer in range(3):
            place = f"layer_{layer:02}/evicted_at"
            none, run = (file["entry/runs"][name][place][:] for name in ("none", "RandomPress"))
            assert np.array_equal(none, run)
            assert (none[:, : N_PROMPT - 11] >= 0).all()


def test_a_pipeline_is_its_model_and_tokenizer(model: Any, tmp_path: Path) -> None:
    class Pipeline:
        tokenizer = None

    pipeline = Pipeline()
    pipeline.model = model  # type: ignore[attr-defined]
    with recorded(pipeline, knorm(), tmp_path / "p.h5") as file:
        assert "KnormPress" in file["entry/runs"]


def test_the_program_reads_it(model: Any, tmp_path: Path, run_keyscope: Callable[..., str]) -> None:
    path = tmp_path / "p.h5"
    recorded(model, [knorm(), kvpress.AdaKVPress(knorm())], path).close()
    run_keyscope("analyze", path, "--no-bounds")
    run_keyscope("figure", path, "keyspace", "--run", "KnormPress", "--out", tmp_path / "f.svg")
    run_keyscope("diff", path, "--run", "KnormPress", "--run", "AdaKVPress", "--csv", tmp_path / "d.csv")
    run_keyscope("compare", path, path)


def test_the_model_and_the_press_are_left_as_they_were(model: Any, tmp_path: Path) -> None:
    press = kvpress.AdaKVPress(knorm())
    before = set(vars(press))
    recorded(model, press, tmp_path / "p.h5").close()
    assert set(vars(press)) == before
    for layer in model.model.layers:
        assert getattr(layer.self_attn, "masked_key_indices", None) is None
        assert not layer.self_attn._forward_hooks


class Blurring(kvpress.BasePress):
    """Keeps half of the rows, and none of them as they were."""

    def compress(self, module: Any, hidden: Any, keys: Any, values: Any, attentions: Any, kwargs: Any) -> Any:
        half = keys.shape[2] // 2
        return keys[:, :, :half] * 0.5, values[:, :, :half] * 0.5


class Failing(kvpress.BasePress):
    def compress(self, *_: Any) -> Any:
        raise RuntimeError("no more")


@pytest.mark.parametrize(
    ("press", "sentence"),
    [
        (Blurring(), "Blurring: in layer 0, KV head 0, the cache holds rows that the prompt did not store"),
        (Failing(), "Failing: failed with RuntimeError: no more"),
        ("snapkv", "press is str; expected a press of kvpress"),
    ],
    ids=["changes rows", "fails", "no press"],
)
def test_a_press_that_cannot_be_recorded(model: Any, press: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=sentence) as caught:
        record_press(model, press, prompt(), out=tmp_path / "p.h5", progress=False)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
