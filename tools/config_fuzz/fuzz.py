#!/usr/bin/env python3
"""Holds what a config.json makes of a model against Transformers, on configurations drawn at random.

    tools/config_fuzz/fuzz.py [--models 500] [--seed 1] [--family qwen] [--keyscope build/release/keyscope]

The small models of tests/capture/inference/goldens, half of them with fields of their config.json changed or left out,
half made anew with other shapes and settings. Where both run, logits of a prompt must be equal; what Transformers runs
and Keyscope refuses is told apart with --refusals, and so is the other way round. Whatever differs is kept in --keep
with what is needed to repeat it; the exit status is 1 where something does. Needs the packages of requirements.txt.
"""

import argparse
import collections
import copy
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import warnings

import torch
import transformers

TOP = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = TOP / "tests/capture/inference/goldens"
sys.path.insert(0, str(GOLDENS))
import make_inference_goldens as goldens  # noqa: E402

N_PROMPT, N_TOP = 40, 6
CLOSE = 1e-5  # of the largest logit, as for all tensors in float32

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
BOTH_KINDS = {"full_attention": {"rope_type": "default", "rope_theta": 60.0},
              "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}
ROPES = [None, {"rope_type": "linear", "factor": 2.5}, {"type": "linear", "factor": 2.0},
         {"rope_type": "dynamic", "factor": 2.0}, YARN, {"type": "yarn", "factor": 4.0}, LLAMA3,
         YARN | {"attention_factor": 0.9}, YARN | {"mscale": 0.8, "mscale_all_dim": 0.5}, YARN | {"truncate": False}]
BOOLEAN = [True, False]
KINDS = ["full_attention", "sliding_attention"]

# Fields that no shape depends on, whichever families have them.
SETTINGS = {
    "sliding_window": [None, 1, 5, 12, 100], "use_sliding_window": BOOLEAN, "max_window_layers": [0, 1, 2, 5],
    "sliding_window_pattern": [1, 2, 3, 6], "no_rope_layer_interval": [2, 3], "full_attention_interval": [2, 4],
    "rms_norm_eps": [1e-6, 1e-5, 1e-3], "hidden_act": ["silu", "gelu_pytorch_tanh", "gelu", "relu"],
    "hidden_activation": ["silu", "gelu_pytorch_tanh"], "query_pre_attn_scalar": [8, 50],
    "attn_logit_softcapping": [None, 2.0], "final_logit_softcapping": [None, 3.0], "is_causal": BOOLEAN,
    "use_bidirectional_attention": BOOLEAN, "embedding_multiplier": [2.0], "residual_multiplier": [0.5],
    "attention_multiplier": [0.2], "logits_scaling": [3.0], "position_embedding_type": ["rope", "nope", None],
    "norm_topk_prob": BOOLEAN, "num_experts_per_tok": [1, 2, 3], "routed_scaling_factor": [1.0, 2.0],
    "topk_method": ["greedy", "group_limited_greedy", "noaux_tc"], "n_group": [1, 2, 4], "topk_group": [1, 2],
    "scoring_func": ["softmax", "sigmoid"], "swiglu_limit": [0.5, 7.0], "rope_interleave": BOOLEAN,
    "partial_rotary_factor": [0.25, 0.5, 1.0], "rope_theta": [100.0, 5000], "rope_local_base_freq": [30.0],
    "rope_scaling": ROPES, "rope_parameters": [*({"rope_theta": 300.0} | (rope or {}) for rope in ROPES), BOTH_KINDS],
    "max_position_embeddings": [16, 64, 4096], "original_max_position_embeddings": [16, 20, 64],
    "attention_dropout": [0.1], "use_cache": [False], "dtype": ["float32", "bfloat16"],
}
# Fields that say which tensors there are, and of what shape.
SHAPES = {
    "num_attention_heads": [2, 4, 6], "num_key_value_heads": [1, 2, 4, None], "head_dim": [4, 8, 12, 20, None],
    "hidden_size": [24, 32, 48], "intermediate_size": [24, 40], "num_hidden_layers": [1, 2, 3, 5], "vocab_size": [50],
    "attention_bias": BOOLEAN, "mlp_bias": BOOLEAN, "tie_word_embeddings": BOOLEAN, "use_qk_norm": BOOLEAN,
    "mlp_only_layers": [[], [0], [1]], "decoder_sparse_step": [1, 2], "first_k_dense_replace": [0, 1, 2],
    "num_experts": [2, 5], "num_local_experts": [2, 5], "n_routed_experts": [4, 8], "n_shared_experts": [1, 2],
    "moe_intermediate_size": [8, 20], "shared_expert_intermediate_size": [12], "shared_intermediate_size": [12, 24],
    "q_lora_rank": [None, 10, 16], "kv_lora_rank": [8, 16], "qk_rope_head_dim": [4, 8], "qk_nope_head_dim": [8, 12],
    "v_head_dim": [8, 12, 24], "linear_num_key_heads": [1, 2], "linear_num_value_heads": [2, 4],
    "linear_key_head_dim": [8, 16], "linear_value_head_dim": [8, 12], "linear_conv_kernel_dim": [2, 3, 4],
    "global_head_dim": [12, 24], "num_global_key_value_heads": [1, 2], "num_kv_shared_layers": [0, 1, 2],
    "attention_k_eq_v": BOOLEAN, "use_double_wide_mlp": BOOLEAN, "enable_moe_block": BOOLEAN,
    "hidden_size_per_layer_input": [0, 6], "vocab_size_per_layer_input": [50],
}
NEEDED = {"architectures", "model_type", "transformers_version"}


class Drawn:
    """A model's folder made at random, and in words what of it is not as in its golden."""

    def __init__(self, folder: pathlib.Path, family: str, seed: int):
        self.folder, self.draw = folder, random.Random(seed)
        names = [name for name in goldens.SHAPES if family in name and not name.endswith("mxfp4")]
        self.name = self.draw.choice(names)
        anew = self.name not in goldens.TRAINED_AS and self.draw.random() < 0.5
        self.changes = self.made_anew() if anew else self.with_changed_fields()

    def some(self, fields: dict[str, list], known: dict) -> dict:
        """One to three fields, most of them such as the configuration has."""
        names = [name for name in fields if name in known] if self.draw.random() < 0.7 else list(fields)
        names = self.draw.sample(names, min(len(names), self.draw.choice([1, 1, 2, 3])))
        return {name: copy.deepcopy(self.draw.choice(fields[name])) for name in names}

    def with_changed_fields(self) -> dict:
        shutil.copytree(GOLDENS / self.name, self.folder)
        config = json.loads((self.folder / "config.json").read_text())
        changes = self.some(SETTINGS, config)
        if self.draw.random() < 0.3:
            gone = self.draw.choice([name for name in config if name not in NEEDED])
            changes.pop(gone, None)
            changes |= {f"no {gone}": config.pop(gone)}
        if self.draw.random() < 0.1:
            changes["layer_types"] = self.draw.choices(KINDS, k=config["num_hidden_layers"])
        config |= {name: value for name, value in changes.items() if not name.startswith("no ")}
        (self.folder / "config.json").write_text(json.dumps(config))
        return changes

    def made_anew(self) -> dict:
        usual = goldens.SHAPES[self.name]
        changes = self.some(SHAPES | SETTINGS, usual | dict.fromkeys(SHAPES))
        if "layer_types" in usual and self.draw.random() < 0.3:
            kinds = sorted(set(usual["layer_types"]))
            changes["layer_types"] = self.draw.choices(kinds, k=(usual | changes)["num_hidden_layers"])
        goldens.SHAPES[self.name] = usual | changes
        try:
            goldens.make_model(self.name).save_pretrained(self.folder)
        finally:
            goldens.SHAPES[self.name] = usual
        return changes | {"made": "anew"}


def by_transformers(folder: pathlib.Path, ids: list[int]) -> dict[int, float] | str:
    """The last logits, or why there are none; tensors that it makes up for missing ones are no model's."""
    model, loaded = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True, **goldens.PLAIN)
    for what in ("missing_keys", "mismatched_keys"):
        if loaded[what]:
            return f"{what}: {sorted(map(str, loaded[what]))[:3]}"
    with torch.no_grad():
        return dict(enumerate(model.eval()(torch.tensor([ids])).logits[0, -1].tolist()))


def by_keyscope(keyscope: str, folder: pathlib.Path, ids: list[int]) -> dict[int, float] | str:
    prompt, recording = folder.parent / "ids.json", folder.parent / "recording.h5"
    prompt.write_text(json.dumps(ids))
    made = subprocess.run([keyscope, "capture", "--model", folder, "--prompt-ids", prompt, "--dtype", "float32",
                           "--policy", "none", "--block", "64", "--out", recording, "--force", "--quiet"],
                          capture_output=True, text=True, check=False)
    if made.returncode != 0:
        if made.returncode not in (1, 2) or not made.stderr.startswith("keyscope: "):
            raise SystemExit(f"{folder}: ends with {made.returncode}: {made.stderr}")
        return made.stderr.strip()
    told = subprocess.run([keyscope, "analyze", recording, "--no-bounds", "--quiet", "--json", "-"],
                          capture_output=True, text=True, check=True)
    run = json.loads(told.stdout)["runs"][0]
    return dict(zip(run["top_ids"][:N_TOP], run["top_logits"][:N_TOP], strict=True))


def outcome(theirs: dict | str, ours: dict | str) -> str:
    if isinstance(theirs, str) or isinstance(ours, str):
        return ("both refuse" if isinstance(theirs, str) == isinstance(ours, str) else
                "Keyscope refuses" if isinstance(ours, str) else "Transformers refuses")
    largest = max(abs(value) for value in theirs.values())
    return "equal" if all(abs(theirs[i] - value) <= CLOSE * largest for i, value in ours.items()) else "DIFFERENT"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1, help="of the first; each has the next number")
    parser.add_argument("--family", default="", help="part of a golden's name")
    parser.add_argument("--keyscope", default=str(TOP / "build/release/keyscope"))
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for models that differ")
    parser.add_argument("--refusals", action="store_true", help="show what only one of the two refuses")
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    counts: collections.Counter[str] = collections.Counter()
    for seed in range(asked.seed, asked.seed + asked.models):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch) / "model"
            try:
                drawn = Drawn(folder, asked.family, seed)
            except Exception:  # noqa: BLE001: no such model can be made
                counts["cannot be made"] += 1
                continue
            ids = [3 + (7 * i * i + i) % 45 for i in range(N_PROMPT)]
            try:
                theirs = by_transformers(folder, ids)
            except Exception as error:  # noqa: BLE001
                theirs = f"{type(error).__name__}: {error}"
            ours = by_keyscope(asked.keyscope, folder, ids)
            found = outcome(theirs, ours)
            counts[found] += 1
            if found == "DIFFERENT" or (asked.refusals and found.endswith(" refuses")):
                refusal = ours if isinstance(ours, str) else theirs if isinstance(theirs, str) else ""
                print(f"{found}: --seed {seed}: {drawn.name} with {json.dumps(drawn.changes)}",
                      " ".join(refusal.split())[:300], sep="\n    ", flush=True)
            if found == "DIFFERENT" and asked.keep:
                shutil.copytree(folder, asked.keep / str(seed), dirs_exist_ok=True)
        print(f"\r{dict(counts)}", end="", file=sys.stderr, flush=True)
    print(f"\n{asked.models} models, transformers {transformers.__version__}: {dict(counts)}")
    sys.exit(1 if counts["DIFFERENT"] else 0)


if __name__ == "__main__":
    main()
