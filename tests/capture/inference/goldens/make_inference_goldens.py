"""Small random-weight checkpoints of every family, and what Hugging Face Transformers computes with them.

    python make_inference_goldens.py        writes beside itself; deterministic
    made with seed 20250731, torch 2.11.0, transformers 5.23.0 (the goldens' metadata repeats it)

Checkpoints in Hugging Face layout:
  tiny_llama   float32, grouped queries (8 heads on 2), tied embeddings, plain RoPE
  tiny_llama3  bfloat16, 6 heads on 3, head_dim unlike hidden / heads, untied, biases, llama3 RoPE scaling
  tiny_qwen2   bfloat16, biases of queries, keys and values
  tiny_qwen3   float32, normalised queries and keys, YaRN
  tiny_mistral float32, no sliding window, linear RoPE scaling
and for each NAME.golden.safetensors: the prompt, and per layer keys and queries after RoPE, values and eager
attention weights, and the logits, all in float32. For bfloat16 the metadata holds Transformers' own relative
Frobenius errors against float32.
"""

import json
import pathlib
import shutil

import numpy as np
import torch
import transformers
from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen3 import modeling_qwen3
from safetensors.torch import save_file

SEED = 20250731
HERE = pathlib.Path(__file__).parent

SHAPES = {
    "tiny_llama": dict(
        vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=8,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=256, rms_norm_eps=1e-6,
        tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        bos_token_id=1, eos_token_id=2),
    "tiny_llama3": dict(
        vocab_size=64, hidden_size=48, intermediate_size=56, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=3, head_dim=12, max_position_embeddings=512, rms_norm_eps=1e-5,
        tie_word_embeddings=False, attention_bias=True, mlp_bias=True,
        rope_parameters={"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 64},
        bos_token_id=1, eos_token_id=[2, 3]),
    "tiny_qwen2": dict(
        vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-6, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}, bos_token_id=1, eos_token_id=2),
    "tiny_qwen3": dict(
        vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=256, rms_norm_eps=1e-6,
        tie_word_embeddings=False,
        rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                         "original_max_position_embeddings": 32},
        bos_token_id=1, eos_token_id=2),
    "tiny_mistral": dict(
        vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=256, rms_norm_eps=1e-5,
        tie_word_embeddings=False, sliding_window=None,
        rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
        bos_token_id=1, eos_token_id=2),
}
DTYPES = {"tiny_llama": torch.float32, "tiny_llama3": torch.bfloat16, "tiny_qwen2": torch.bfloat16,
          "tiny_qwen3": torch.float32, "tiny_mistral": torch.float32}
# The module in which a family's attention looks up the rotation, its configuration and its model.
FAMILIES = {
    "tiny_llama": (modeling_llama, transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "tiny_llama3": (modeling_llama, transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "tiny_qwen2": (modeling_qwen2, transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "tiny_qwen3": (modeling_qwen3, transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
    "tiny_mistral": (modeling_mistral, transformers.MistralConfig, transformers.MistralForCausalLM),
}
N_PROMPT = 40  # more than two blocks of 16, and not a multiple of it


def make_model(name: str) -> torch.nn.Module:
    """Weights wide enough that attention is far from uniform and logits are far apart."""
    _, config_class, model_class = FAMILIES[name]
    model = model_class(config_class(**SHAPES[name], attn_implementation="eager")).eval()
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in parameter_name:
                parameter.copy_(1 + 0.2 * noise)
            elif parameter_name.endswith("bias"):
                parameter.copy_(0.3 * noise)
            elif "embed" in parameter_name:
                parameter.copy_(noise)
            else:
                parameter.copy_(noise * 1.4 / parameter.shape[1] ** 0.5)
    return model.to(DTYPES[name])


def observe(name: str, model: torch.nn.Module, ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """Runs the model once over all ids, and keeps what attention saw."""
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    module = FAMILIES[name][0]
    rotate = module.apply_rotary_pos_emb

    def watched(*args, **kwargs):
        seen.append(rotate(*args, **kwargs))
        return seen[-1]

    module.apply_rotary_pos_emb = watched
    try:
        with torch.no_grad():
            out = model(ids[None], output_attentions=True, use_cache=True)
    finally:
        module.apply_rotary_pos_emb = rotate
    tensors = {"logits": out.logits[0]}
    for layer, (queries, keys) in enumerate(seen):
        tensors[f"queries.{layer}"] = queries[0]
        tensors[f"keys.{layer}"] = keys[0]
        tensors[f"values.{layer}"] = out.past_key_values.layers[layer].values[0]
        tensors[f"attention.{layer}"] = out.attentions[layer][0]
    return {key: tensor.float().contiguous() for key, tensor in tensors.items()}


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float(torch.linalg.norm(found.double() - expected.double()) / torch.linalg.norm(expected.double()))


def save_folder(model: torch.nn.Module, name: str) -> None:
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    for file in folder.iterdir():
        file.chmod(0o644)


def load(name: str, dtype: torch.dtype) -> torch.nn.Module:
    """As a user would: converting a model in memory would also round its RoPE frequencies."""
    model_class = FAMILIES[name][2]
    model = model_class.from_pretrained(HERE / name, dtype=dtype, attn_implementation="eager").eval()
    assert model.model.rotary_emb.inv_freq.dtype == torch.float32
    return model


def main() -> None:
    for name, shape in SHAPES.items():
        save_folder(make_model(name), name)
        generator = np.random.default_rng(SEED)
        ids = torch.tensor(generator.integers(4, shape["vocab_size"], N_PROMPT))
        metadata = {"seed": str(SEED), "torch": torch.__version__, "transformers": transformers.__version__}
        tensors = observe(name, load(name, torch.float32), ids)
        if DTYPES[name] != torch.float32:
            own = observe(name, load(name, DTYPES[name]), ids)
            metadata["bfloat16_errors"] = json.dumps({k: relative_error(own[k], tensors[k]) for k in tensors})
        tensors["prompt_ids"] = ids.to(torch.int32)
        golden = HERE / f"{name}.golden.safetensors"
        save_file(tensors, golden, metadata)
        golden.chmod(0o644)


if __name__ == "__main__":
    main()
