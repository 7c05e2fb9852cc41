"""A model whose weights lie elsewhere, or in several places, is recorded as it is on one CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="recordings are written with PyTorch")
pytest.importorskip("transformers", minversion="5", reason="and Transformers 5")
accelerate = pytest.importorskip("accelerate", reason="it spreads a model over devices")

from transformers_models import make, prompt  # noqa: E402

from keyscope.record import record  # noqa: E402

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
NAMES = ["Qwen3Moe", "GptOss", "Qwen3Next", "DeepseekV3"]


def recorded(model: Any, path: Path) -> h5py.File:
    record(
        model, None, prompt(), policies=["keydiff", "h2o"], budget=24, block=16, generate=3, ignore_eos=True, out=path,
        record=("keys", "queries", "values"), progress=False,
    ).close()  # fmt: skip
    return h5py.File(path)


def on_disk(model: Any, folder: Path) -> Any:
    return accelerate.disk_offload(model, folder, execution_device=torch.device("cpu"))


def spread(model: Any, _: Path) -> Any:
    """The first layer and what stands before it on the CPU, another layer on each CUDA device in turn."""
    n_devices, layers = torch.cuda.device_count(), range(len(model.model.layers))
    places = {f"model.layers.{layer}": f"cuda:{layer % n_devices}" for layer in layers[1:]}
    places |= {"model.embed_tokens": "cpu", "model.layers.0": "cpu", "model.rotary_emb": "cuda:0"}
    places |= {"model.norm": "cuda:0", "lm_head": "cuda:0"}
    return accelerate.dispatch_model(model, places, main_device="cuda:0", force_hooks=True)


def on_cuda(model: Any, _: Path) -> Any:
    return model.to("cuda")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "place", [on_disk, pytest.param(on_cuda, marks=needs_cuda), pytest.param(spread, marks=needs_cuda)]
)
def test_it_is_what_one_cpu_records(name: str, place: Callable[[Any, Path], Any], tmp_path: Path) -> None:
    expected = recorded(make(name), tmp_path / "expected.h5")
    found = recorded(place(make(name), tmp_path / "weights"), tmp_path / "found.h5")
    exact = place is on_disk  # the same arithmetic
    with expected, found:
        assert found["entry/provenance"].attrs["model_sha256"] == expected["entry/provenance"].attrs["model_sha256"]
        assert "meta" not in found["entry/provenance"].attrs["device"]
        for run in ("none", "keydiff", "h2o"):
            one, other = (file[f"entry/runs/{run}"] for file in (expected, found))
            layers = [layer for layer in one if layer.startswith("layer_") and "keyless" not in one[layer].attrs]
            for layer in layers:
                for what in ("keys", "queries", "values", "attention_received", "evicted_at"):
                    there, here = (group[layer][what][:] for group in (one, other))
                    if exact or what == "evicted_at":
                        assert np.array_equal(here, there, equal_nan=there.dtype.kind == "f")
                    else:
                        assert np.allclose(here, there, rtol=1e-3, atol=1e-4)
