"""Models of many architectures of Transformers with random weights, small enough for a test: a line each.

`make("Qwen3Moe")` is one; those that `keyscope capture` knows as well are folders beside the engine's goldens.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers

SEED = 20251128
N_PROMPT = 83  # several blocks of 16, and not a multiple of it
WINDOW = 12

SMALL: dict[str, Any] = dict(
    vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
WIDE = SMALL | dict(head_dim=16)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
MAMBA = dict(mamba_n_heads=4, mamba_d_state=8, mamba_n_groups=1, mamba_chunk_size=16)
LATENT = SMALL | dict(
    num_key_value_heads=4, kv_lora_rank=16, q_lora_rank=12, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=20,
    moe_intermediate_size=16, n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1,
    first_k_dense_replace=1,
)  # fmt: skip
OLD = dict(vocab_size=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=512)

# What a configuration class begins with, and its arguments.
MODELS: dict[str, dict[str, Any]] = {
    "Llama": WIDE,
    "Qwen3Moe": WIDE | EXPERTS,
    "GptOss": WIDE | dict(
        num_local_experts=4, num_experts_per_tok=2, sliding_window=WINDOW,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    "Olmo2": SMALL,
    "SmolLM3": SMALL | dict(no_rope_layer_interval=2),
    "Qwen3Next": WIDE | EXPERTS | dict(
        num_hidden_layers=4, shared_expert_intermediate_size=16, linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=8, linear_value_head_dim=8),
    "DeepseekV3": LATENT,
    "DeepseekV32": LATENT | dict(index_topk=8, index_n_heads=2, index_head_dim=16),  # each query chooses its keys
    "Gemma2": WIDE | dict(sliding_window=WINDOW, query_pre_attn_scalar=8, attn_logit_softcapping=3.0),
    "Gemma3Text": WIDE | dict(
        sliding_window=WINDOW, layer_types=["sliding_attention", "sliding_attention", "full_attention"]),
    "Gemma3nText": WIDE | dict(
        num_hidden_layers=4, num_kv_shared_layers=2, sliding_window=WINDOW, intermediate_size=[48] * 4,
        layer_types=["sliding_attention", "full_attention"] * 2, vocab_size_per_layer_input=64,
        hidden_size_per_layer_input=8, laurel_rank=4, altup_num_inputs=2, activation_sparsity_pattern=[0.0] * 4),
    "Gemma4Text": WIDE | dict(  # heads of two sizes, and layers that borrow keys
        head_dim=8, global_head_dim=16, num_hidden_layers=6, num_kv_shared_layers=2, sliding_window=WINDOW,
        hidden_size_per_layer_input=8, vocab_size_per_layer_input=64,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2),
    "Cohere": SMALL,
    "Cohere2": SMALL | dict(sliding_window=WINDOW),
    "StableLm": SMALL,
    "Phi": SMALL,
    "GPTNeoX": OLD | dict(hidden_size=32, intermediate_size=48),
    "OPT": OLD | dict(hidden_size=32, ffn_dim=48, word_embed_proj_dim=32),
    "Starcoder2": SMALL | dict(sliding_window=WINDOW),
    "Llama4Text": WIDE | dict(  # chunks of the text
        attention_chunk_size=16, num_local_experts=2, intermediate_size_mlp=48, num_hidden_layers=4,
        no_rope_layers=[1, 1, 1, 0], moe_layers=[]),
    "Bamba": SMALL | MAMBA | dict(attn_layer_indices=[1], mamba_d_head=16),
    "FalconH1": SMALL | MAMBA | dict(mamba_d_ssm=32, mamba_d_head=8),  # Mamba and attention in every layer
    "Zamba2": SMALL | dict(  # one attention block in several layers
        num_hidden_layers=4, mamba_d_state=8, n_mamba_heads=4, mamba_ngroups=1, chunk_size=16, num_mem_blocks=1,
        layers_block_type=["mamba", "hybrid", "mamba", "hybrid"], use_mem_rope=True),
    "Lfm2": SMALL | dict(layer_types=["conv", "full_attention", "conv"]),
    "MiniMax": WIDE | dict(  # takes no cache but its own
        num_local_experts=2, num_experts_per_tok=1, block_size=16,
        layer_types=["linear_attention", "full_attention", "linear_attention"]),
}  # fmt: skip


def make(name: str, dtype: torch.dtype = torch.float32) -> Any:
    """Weights wide enough that attention is far from uniform."""
    torch.manual_seed(SEED)
    config = getattr(transformers, name + "Config")(**MODELS[name])
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.ndim == 2 and ("q_proj" in parameter_name or "query" in parameter_name):
                parameter.mul_(8)
    return model.to(dtype)


def prompt(n: int = N_PROMPT) -> list[int]:
    ids: list[int] = np.random.default_rng(SEED).integers(3, 64, n).tolist()
    return ids
