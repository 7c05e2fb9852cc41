"""Small random-weight checkpoints of every family, and what Hugging Face Transformers computes with them.

    python make_inference_goldens.py        writes beside itself; deterministic
    made with seed 20250731, torch 2.11.0, transformers 5.23.0 (the goldens' metadata repeats it)

Checkpoints in Hugging Face layout:
  tiny_llama   float32, grouped queries (8 heads on 2), tied embeddings, plain RoPE
  tiny_llama3  bfloat16, 6 heads on 3, head_dim unlike hidden / heads, untied, biases, llama3 RoPE scaling
  tiny_qwen2   bfloat16, biases of queries, keys and values
  tiny_qwen3   float32, normalised queries and keys, YaRN
  tiny_mistral float32, no sliding window, linear RoPE scaling
  tiny_llama_dynamic   float32, dynamic RoPE, a prompt longer than max_position_embeddings
  tiny_mistral_window  float32, a sliding window in all layers
  tiny_qwen2_window    bfloat16, a window from the second layer on
  tiny_qwen3_window    float32, a window where layer_types says so
  tiny_gemma2          bfloat16, soft caps, windows in every other layer
  tiny_gemma3          bfloat16, windows in two of three layers, two thetas, linear scaling of the global one
  tiny_phi3            bfloat16, fused projections, a window in all layers
  tiny_phi3_longrope   float32, LongRoPE, a prompt longer than original_max_position_embeddings
and for each NAME.golden.safetensors: the prompt, and per layer keys and queries after RoPE, values and eager
attention weights, and the logits, all in float32. For bfloat16 the metadata holds Transformers' own relative
Frobenius errors against float32. All windows are shorter than the prompt. Where RoPE depends on the length seen,
NAME.blocksB.golden.safetensors is the same of the prompt fed in blocks of B tokens.
"""

import json
import pathlib
import shutil

import numpy as np
import torch
import transformers
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gemma3 import modeling_gemma3
from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral
from transformers.models.phi3 import modeling_phi3
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen3 import modeling_qwen3
from safetensors.torch import save_file

SEED = 20250731
HERE = pathlib.Path(__file__).parent

# What most of the newer ones share.
SMALL = dict(
    vocab_size=48, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, head_dim=8, max_position_embeddings=256, rms_norm_eps=1e-6, tie_word_embeddings=False,
    bos_token_id=1, eos_token_id=2, pad_token_id=0)
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
    "tiny_llama_dynamic": SMALL | dict(
        max_position_embeddings=16, rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 3.0}),
    "tiny_mistral_window": SMALL | dict(sliding_window=10),
    "tiny_qwen2_window": SMALL | dict(sliding_window=9, use_sliding_window=True, max_window_layers=1),
    "tiny_qwen3_window": SMALL | dict(
        sliding_window=17, use_sliding_window=True, layer_types=["sliding_attention", "full_attention"]),
    "tiny_gemma2": SMALL | dict(
        num_attention_heads=4, num_key_value_heads=2, sliding_window=12, query_pre_attn_scalar=20,
        attn_logit_softcapping=4.0, final_logit_softcapping=9.0, tie_word_embeddings=True),
    "tiny_gemma3": SMALL | dict(
        num_hidden_layers=3, sliding_window=7, sliding_window_pattern=3, query_pre_attn_scalar=12,
        tie_word_embeddings=True,
        rope_parameters={"full_attention": {"rope_type": "linear", "rope_theta": 5000.0, "factor": 4.0},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}),
    "tiny_phi3": SMALL | dict(num_attention_heads=4, num_key_value_heads=2, sliding_window=13),
    "tiny_phi3_longrope": SMALL | dict(
        num_attention_heads=4,
        max_position_embeddings=128, original_max_position_embeddings=20,
        rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.1, 1.3, 1.2],
                         "long_factor": [1.0, 1.6, 3.0, 5.5]}),
}
# Stored as bfloat16; the others as float32.
NARROW = ["tiny_llama3", "tiny_qwen2", "tiny_qwen2_window", "tiny_gemma2", "tiny_gemma3", "tiny_phi3"]
DTYPES = {name: torch.bfloat16 if name in NARROW else torch.float32 for name in SHAPES}
# The module in which a family's attention looks up the rotation, its configuration and its model.
LLAMA = (modeling_llama, transformers.LlamaConfig, transformers.LlamaForCausalLM)
QWEN2 = (modeling_qwen2, transformers.Qwen2Config, transformers.Qwen2ForCausalLM)
QWEN3 = (modeling_qwen3, transformers.Qwen3Config, transformers.Qwen3ForCausalLM)
MISTRAL = (modeling_mistral, transformers.MistralConfig, transformers.MistralForCausalLM)
PHI3 = (modeling_phi3, transformers.Phi3Config, transformers.Phi3ForCausalLM)
FAMILIES = {
    "tiny_llama": LLAMA, "tiny_llama3": LLAMA, "tiny_llama_dynamic": LLAMA,
    "tiny_qwen2": QWEN2, "tiny_qwen2_window": QWEN2, "tiny_qwen3": QWEN3, "tiny_qwen3_window": QWEN3,
    "tiny_mistral": MISTRAL, "tiny_mistral_window": MISTRAL, "tiny_phi3": PHI3, "tiny_phi3_longrope": PHI3,
    "tiny_gemma2": (modeling_gemma2, transformers.Gemma2Config, transformers.Gemma2ForCausalLM),
    "tiny_gemma3": (modeling_gemma3, transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM),
}
BY_LENGTH = ["tiny_llama_dynamic", "tiny_phi3_longrope"]  # RoPE depends on the length seen
BLOCKS = [1, 16]
N_PROMPT = 40  # more than two blocks of 16, and not a multiple of it


def make_model(name: str) -> torch.nn.Module:
    """Weights wide enough that attention is far from uniform and logits are far apart."""
    _, config_class, model_class = FAMILIES[name]
    model = model_class(config_class(**SHAPES[name], attn_implementation="eager")).eval()
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in parameter_name:  # Gemma's multiply by 1 + weight
                parameter.copy_(0.2 * noise if "gemma" in name else 1 + 0.2 * noise)
            elif parameter_name.endswith("bias"):
                parameter.copy_(0.3 * noise)
            elif "embed" in parameter_name:
                parameter.copy_(noise)
            else:
                parameter.copy_(noise * 1.4 / parameter.shape[1] ** 0.5)
    return model.to(DTYPES[name])


def watch_values(model: torch.nn.Module, layer: int, into: list[torch.Tensor]):
    """Keeps a layer's values, (n, heads * head_dim); the cache of a layer with a window drops some."""
    attention = model.model.layers[layer].self_attn
    width = model.config.num_key_value_heads * attention.head_dim
    projection = attention.qkv_proj if hasattr(attention, "qkv_proj") else attention.v_proj
    return projection.register_forward_hook(lambda _module, _inputs, out: into.append(out[0, :, -width:]))


def observe(name: str, model: torch.nn.Module, ids: torch.Tensor, block: int) -> dict[str, torch.Tensor]:
    """Runs the model over all ids, `block` at a time, and keeps what attention saw."""
    n_layers, n_kv = model.config.num_hidden_layers, model.config.num_key_value_heads
    rotated: list[tuple[torch.Tensor, torch.Tensor]] = []
    values: list[list[torch.Tensor]] = [[] for _ in range(n_layers)]
    module = FAMILIES[name][0]
    rotate = module.apply_rotary_pos_emb

    def watched(*args, **kwargs):
        rotated.append(rotate(*args, **kwargs))
        return rotated[-1]

    module.apply_rotary_pos_emb = watched
    hooks = [watch_values(model, layer, values[layer]) for layer in range(n_layers)]
    outs, cache = [], transformers.DynamicCache(config=model.config)
    try:
        with torch.no_grad():
            for first in range(0, len(ids), block):
                outs.append(model(ids[None, first:first + block], output_attentions=True, use_cache=True,
                                  past_key_values=cache))
    finally:
        module.apply_rotary_pos_emb = rotate
        for hook in hooks:
            hook.remove()
    tensors = {"logits": torch.cat([out.logits[0] for out in outs])}
    for layer in range(n_layers):
        mine = rotated[layer::n_layers]
        tensors[f"queries.{layer}"] = torch.cat([queries[0] for queries, _ in mine], dim=1)
        tensors[f"keys.{layer}"] = torch.cat([keys[0] for _, keys in mine], dim=1)
        tensors[f"values.{layer}"] = torch.cat(values[layer]).unflatten(1, (n_kv, -1)).transpose(0, 1)
        rows = [out.attentions[layer][0] for out in outs]
        tensors[f"attention.{layer}"] = torch.cat(
            [torch.nn.functional.pad(row, (0, len(ids) - row.shape[-1])) for row in rows], dim=1)
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
    assert all(buffer.dtype == torch.float32 for buffer in model.model.rotary_emb.buffers())
    return model


def save_golden(stem: str, tensors: dict[str, torch.Tensor], ids: torch.Tensor, metadata: dict[str, str]) -> None:
    golden = HERE / f"{stem}.golden.safetensors"
    save_file(tensors | {"prompt_ids": ids.to(torch.int32)}, golden, metadata)
    golden.chmod(0o644)


def main() -> None:
    for name, shape in SHAPES.items():
        save_folder(make_model(name), name)
        generator = np.random.default_rng(SEED)
        ids = torch.tensor(generator.integers(4, shape["vocab_size"], N_PROMPT))
        metadata = {"seed": str(SEED), "torch": torch.__version__, "transformers": transformers.__version__}
        for block in BLOCKS if name in BY_LENGTH else []:
            tensors = observe(name, load(name, torch.float32), ids, block)
            save_golden(f"{name}.blocks{block}", tensors, ids, metadata)
        tensors = observe(name, load(name, torch.float32), ids, N_PROMPT)
        if DTYPES[name] != torch.float32:
            own = observe(name, load(name, DTYPES[name]), ids, N_PROMPT)
            errors = {k: relative_error(own[k], tensors[k]) for k in tensors}
            save_golden(name, tensors, ids, metadata | {"bfloat16_errors": json.dumps(errors)})
        else:
            save_golden(name, tensors, ids, metadata)


if __name__ == "__main__":
    main()
