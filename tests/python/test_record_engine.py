"""`keyscope capture` and `keyscope.record` of one model folder agree, by the tolerances of `keyscope compare`.

A new family is one line in FAMILIES: the name of a folder beside the engine's goldens.
"""

from __future__ import annotations

import json
import subprocess
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="recordings are written with PyTorch")
transformers = pytest.importorskip(
    "transformers", minversion="5.5", reason="and with a Transformers that has these models"
)

from conftest import TOP  # noqa: E402

from keyscope.record import record  # noqa: E402

GOLDENS = TOP / "tests/capture/inference/goldens"
POLICIES = ["none", "keydiff", "snapkv:window=5,recent=4", "h2o", "tova"]
N_PROMPT, BLOCK, BUDGET, N_GENERATED = 43, 16, 20, 4

# Folder, and the tolerance where it is not the contract's 1e-5: Transformers takes Gated DeltaNet in chunks of 64
# tokens, the engine token by token.
CONTRACT, BY_CHUNKS = 1e-5, 5e-5
FAMILIES: dict[str, float] = {
    "tiny_llama": CONTRACT,
    "tiny_llama3": CONTRACT,
    "tiny_llama_dynamic": CONTRACT,
    "tiny_qwen2": CONTRACT,
    "tiny_qwen2_window": CONTRACT,
    "tiny_qwen3": CONTRACT,
    "tiny_qwen3_window": CONTRACT,
    "tiny_mistral": CONTRACT,
    "tiny_mistral_window": CONTRACT,
    "tiny_gemma2": CONTRACT,
    "tiny_gemma3": CONTRACT,
    "tiny_phi3": CONTRACT,
    "tiny_phi3_longrope": CONTRACT,
    "tiny_phi4": CONTRACT,
    "tiny_smollm3": CONTRACT,
    "tiny_olmo2": CONTRACT,
    "tiny_olmo3": CONTRACT,
    "tiny_granite": CONTRACT,
    "tiny_granite4": CONTRACT,
    "tiny_granite4_moe": CONTRACT,
    "tiny_ministral3": CONTRACT,
    "tiny_glm": CONTRACT,
    "tiny_glm4": CONTRACT,
    "tiny_mixtral": CONTRACT,
    "tiny_qwen2_moe": CONTRACT,
    "tiny_qwen3_moe": CONTRACT,
    "tiny_qwen3_next": BY_CHUNKS,
    "tiny_qwen35": BY_CHUNKS,
    "tiny_qwen35_moe": BY_CHUNKS,
    "tiny_gpt_oss": CONTRACT,
    "tiny_gpt_oss_mxfp4": CONTRACT,
    "tiny_deepseek2": CONTRACT,
    "tiny_deepseek3": CONTRACT,
    "tiny_moonlight": CONTRACT,
    "tiny_learned_sinks": CONTRACT,
    "tiny_gated": CONTRACT,
    "tiny_gemma4": CONTRACT,
    "tiny_gemma4_moe": CONTRACT,
}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_engine_and_transformers_agree(name: str, program: Path, tmp_path: Path) -> None:
    folder = GOLDENS / name
    config = json.loads((folder / "config.json").read_text())
    config = config.get("text_config", config)
    ids = np.random.default_rng(7).integers(4, config["vocab_size"], N_PROMPT).tolist()
    by_engine, by_record = tmp_path / "engine.h5", tmp_path / "record.h5"
    capture(program, folder, ids, by_engine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record(
            load(folder), None, ids, policies=POLICIES, budget=BUDGET, block=BLOCK, generate=N_GENERATED, out=by_record,
            record=("keys", "queries", "values", "attention", "logits"), ignore_eos=True, progress=False,
        ).close()  # fmt: skip
    if "qk_rope_head_dim" in config:
        put_rotated_part_first(by_record, config)
    command = [program, "compare", by_engine, by_record, "--json", "-", "--tolerance", str(FAMILIES[name]), "--quiet"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    assert [place(entry) for entry in found["datasets"] if not entry["agree"]] == []
    assert found["structure"] == []
    compared = {entry["dataset"] for entry in found["datasets"]}
    assert compared >= {"keys", "queries", "values", "attention", "evicted_at", "attention_received", "logits"}


def place(entry: dict[str, Any]) -> str:
    return f"{entry['run']}, layer {entry['layer']}: {entry['dataset']}, by {entry['largest_difference']:.2g}"


def capture(program: Path, folder: Path, ids: list[int], out: Path) -> None:
    (out.parent / "ids.json").write_text(json.dumps(ids))
    command = [
        program, "capture", "--model", folder, "--prompt-ids", out.parent / "ids.json", "--budget", BUDGET, "--block",
        BLOCK, "--generate", N_GENERATED, "--ignore-eos", "--record", "keys,queries,values,attention,logits", "--dtype",
        "float32", "--threads", 1, "--quiet", "--out", out,
    ]  # fmt: skip
    for policy in POLICIES:
        command += ["--policy", policy]
    if "deepseek" in folder.name or folder.name == "tiny_moonlight":
        command.append("--expand-keys")  # as attention sees them
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


def load(folder: Path) -> Any:
    unpack = {}
    if folder.name.endswith("mxfp4"):
        unpack = {"quantization_config": transformers.Mxfp4Config(dequantize=True)}
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **unpack)


def put_rotated_part_first(path: Path, config: dict[str, Any]) -> None:
    """What rotates of a latent key stands last in Transformers, and for DeepSeek V3 no longer as neighbours."""
    n = config["qk_rope_head_dim"]
    with h5py.File(path, "r+") as file:
        datasets: list[h5py.Dataset] = []
        file["entry/runs"].visititems(
            lambda at, node: datasets.append(node) if at.endswith(("/keys", "/queries")) else None
        )
        for dataset in datasets:
            rows = dataset[...]
            plain, turning = rows[..., :-n], rows[..., -n:]
            if config["model_type"] == "deepseek_v3" and config.get("rope_interleave", True):
                turning = np.stack([turning[..., : n // 2], turning[..., n // 2 :]], axis=-1).reshape(turning.shape)
            dataset[...] = np.concatenate([turning, plain], axis=-1)
