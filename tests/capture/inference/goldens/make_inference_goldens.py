"""Small random-weight checkpoints of every family, and what Hugging Face Transformers computes with them.

    python make_inference_goldens.py [NAME…]        writes beside itself; deterministic
    made with seed 20250731, torch 2.11.0, transformers 5.23.0 and, of what is newer, 5.24.0 (the goldens' metadata
    says which)

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
  tiny_gemma4          float32, heads of two sizes, keys that the last layers borrow, an input of each layer
  tiny_gemma4_moe      bfloat16, KV heads of two numbers, keys as values, all experts beside a dense feed-forward
  tiny_phi3            bfloat16, fused projections, a window in all layers
  tiny_phi3_longrope   float32, LongRoPE, a prompt longer than original_max_position_embeddings
  tiny_phi4            float32, LongRoPE of three quarters of a head
  tiny_smollm3         bfloat16, no rotation in every second layer, and a window there
  tiny_olmo2           bfloat16, norms after the branches, and of whole projections
  tiny_olmo3           float32, windows in three of four layers, YaRN of the fourth
  tiny_granite         float32, multipliers
  tiny_granite4        bfloat16, no rotation, no experts but the shared one
  tiny_granite4_moe    float32, rotation, experts and a shared one
  tiny_ministral3      float32, YaRN, queries that grow with their position
  tiny_glm             float32, half of a head rotates, in neighbouring pairs; biases
  tiny_glm4            bfloat16, the same with norms around the branches
  tiny_mixtral         bfloat16, all experts for every token: a choice that rounding tips says nothing of rounding
  tiny_qwen3_moe       float32, experts in two of three layers, renormalised
  tiny_qwen2_moe       float32, a shared expert with a gate, not renormalised
  tiny_qwen3_next      float32, gated attention in every third layer, Gated DeltaNet in the others, experts
  tiny_qwen3_next_biases float32, with biases and another activation, the convolution's too
  tiny_qwen35          float32, tiny_qwen3_next without experts, the text part of a larger model's configuration
  tiny_qwen35_moe      bfloat16, every expert chosen
  tiny_gpt_oss         float32, sinks, windows in every other layer, clamped experts with biases
  tiny_gpt_oss_mxfp4   the same with experts in MXFP4, and all else in bfloat16, as gpt-oss is published
  tiny_deepseek2       float32, latent attention, YaRN that sharpens, experts of the best groups
  tiny_deepseek3       float32, queries of a latent as well, biased sigmoid router, a layer behind the last
  tiny_moonlight       bfloat16, no latent of queries, no experts but in the last layer, all of them chosen
  tiny_learned_sinks   as tools/demo_model stores it: gpt_oss that is Llama but for its sinks
  tiny_gated           the same: qwen3_5_text that is Llama but for its gates
and for each NAME.golden.safetensors: the prompt, and per layer keys and queries after RoPE, values and eager
attention weights, and the logits, all in float32. For bfloat16 the metadata holds Transformers' own relative
Frobenius errors against float32. All windows are shorter than the prompt. Where RoPE depends on the length seen,
NAME.blocksB.golden.safetensors is the same of the prompt fed in blocks of B tokens.
"""

import importlib
import json
import pathlib
import shutil
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

SEED = 20250731
HERE = pathlib.Path(__file__).parent

# What most of the newer ones share.
SMALL = dict(
    vocab_size=48, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, head_dim=8, max_position_embeddings=256, rms_norm_eps=1e-6, tie_word_embeddings=False,
    bos_token_id=1, eos_token_id=2, pad_token_id=0)
# Of latent attention.
LATENT = dict(
    num_attention_heads=4, num_key_value_heads=4, head_dim=8, kv_lora_rank=12, qk_rope_head_dim=8,
    qk_nope_head_dim=16, v_head_dim=20, moe_intermediate_size=12)
# Of layers that attend and layers that do not.
HYBRID = dict(
    num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16, partial_rotary_factor=0.5,
    layer_types=["linear_attention", "full_attention", "linear_attention", "full_attention"],
    linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=12, linear_value_head_dim=20)
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
    "tiny_gemma4": SMALL | dict(
        num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2, head_dim=12, global_head_dim=24,
        sliding_window=10, num_kv_shared_layers=2, use_double_wide_mlp=True, hidden_size_per_layer_input=6,
        vocab_size_per_layer_input=48, tie_word_embeddings=True, final_logit_softcapping=9.0,
        layer_types=["sliding_attention", "full_attention"] * 3),
    "tiny_gemma4_moe": SMALL | dict(
        num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4, head_dim=8, global_head_dim=16,
        num_global_key_value_heads=2, attention_k_eq_v=True, sliding_window=11, hidden_size_per_layer_input=0,
        tie_word_embeddings=True, final_logit_softcapping=9.0, enable_moe_block=True, num_experts=3, top_k_experts=3,
        moe_intermediate_size=12, layer_types=["sliding_attention", "sliding_attention", "full_attention"]),
    "tiny_phi3": SMALL | dict(num_attention_heads=4, num_key_value_heads=2, sliding_window=13),
    "tiny_phi4": SMALL | dict(
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, hidden_size=64, partial_rotary_factor=0.75,
        max_position_embeddings=128, original_max_position_embeddings=20,
        rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
                         "short_factor": [1.0, 1.1, 1.3, 1.2, 1.4, 1.5],
                         "long_factor": [1.0, 1.6, 3.0, 5.5, 6.0, 7.0]}),
    "tiny_smollm3": SMALL | dict(
        num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, no_rope_layer_interval=2,
        use_sliding_window=True, sliding_window=11),
    "tiny_olmo2": SMALL | dict(num_attention_heads=4, num_key_value_heads=2),
    "tiny_olmo3": SMALL | dict(
        num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4, sliding_window=9,
        rope_parameters={"full_attention": {"rope_type": "yarn", "rope_theta": 5000.0, "factor": 4.0,
                                            "original_max_position_embeddings": 32},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}}),
    "tiny_granite": SMALL | dict(
        num_attention_heads=4, num_key_value_heads=2, embedding_multiplier=3.7, residual_multiplier=0.6,
        attention_multiplier=0.3, logits_scaling=2.5, tie_word_embeddings=True),
    "tiny_granite4": SMALL | dict(
        num_attention_heads=4, num_key_value_heads=2, embedding_multiplier=3, residual_multiplier=0.75,
        attention_multiplier=0.25, logits_scaling=2, tie_word_embeddings=True, num_local_experts=0,
        num_experts_per_tok=0, shared_intermediate_size=40, layer_types=["full_attention"] * 2,
        mamba_n_heads=2, mamba_d_head=32),
    "tiny_granite4_moe": SMALL | dict(
        num_attention_heads=4, num_key_value_heads=2, residual_multiplier=0.75, attention_multiplier=0.25,
        num_local_experts=6, num_experts_per_tok=3, intermediate_size=12, shared_intermediate_size=20,
        layer_types=["full_attention"] * 2, position_embedding_type="rope", mamba_n_heads=2, mamba_d_head=32),
    "tiny_ministral3": SMALL | dict(
        num_attention_heads=4, num_key_value_heads=2,
        rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 16.0, "mscale": 1.0,
                         "mscale_all_dim": 1.0, "original_max_position_embeddings": 16,
                         "llama_4_scaling_beta": 0.3}),
    "tiny_glm": SMALL | dict(num_attention_heads=4, num_key_value_heads=2),
    "tiny_glm4": SMALL | dict(num_attention_heads=4, num_key_value_heads=2, head_dim=12),
    "tiny_mixtral": SMALL | dict(
        num_attention_heads=4, num_key_value_heads=2, num_local_experts=3, num_experts_per_tok=3,
        intermediate_size=20),
    "tiny_qwen3_moe": SMALL | dict(
        num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, num_experts=8, num_experts_per_tok=3,
        moe_intermediate_size=12, norm_topk_prob=True, mlp_only_layers=[1]),
    "tiny_qwen2_moe": SMALL | dict(
        num_attention_heads=4, num_key_value_heads=2, num_experts=7, num_experts_per_tok=2,
        moe_intermediate_size=12, shared_expert_intermediate_size=20),
    "tiny_qwen3_next": SMALL | HYBRID | dict(
        num_experts=6, num_experts_per_tok=2, moe_intermediate_size=12, shared_expert_intermediate_size=20),
    "tiny_qwen3_next_biases": SMALL | HYBRID | dict(
        num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "full_attention"], attention_bias=True,
        hidden_act="gelu_pytorch_tanh", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12,
        shared_expert_intermediate_size=20),
    "tiny_qwen35": SMALL | HYBRID | dict(
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}),
    "tiny_qwen35_moe": SMALL | HYBRID | dict(
        num_experts=3, num_experts_per_tok=3, moe_intermediate_size=12, shared_expert_intermediate_size=20,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}),
    "tiny_gpt_oss": SMALL | dict(
        num_attention_heads=4, num_key_value_heads=2, sliding_window=10, num_local_experts=6,
        num_experts_per_tok=2, intermediate_size=20, swiglu_limit=1.5,
        rope_parameters={"rope_type": "yarn", "rope_theta": 150000.0, "factor": 8.0, "beta_fast": 32.0,
                         "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 32}),
    "tiny_gpt_oss_mxfp4": SMALL | dict(
        num_attention_heads=4, num_key_value_heads=2, hidden_size=64, sliding_window=10, num_local_experts=5,
        num_experts_per_tok=2, intermediate_size=96, swiglu_limit=1.5,
        rope_parameters={"rope_type": "yarn", "rope_theta": 150000.0, "factor": 8.0, "beta_fast": 32.0,
                         "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 32}),
    "tiny_deepseek2": SMALL | LATENT | dict(
        num_hidden_layers=3, q_lora_rank=None, first_k_dense_replace=1, n_routed_experts=8, num_experts_per_tok=2,
        n_shared_experts=2, topk_method="group_limited_greedy", n_group=4, topk_group=2, routed_scaling_factor=1.5,
        rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "mscale": 0.7,
                         "mscale_all_dim": 1.3, "original_max_position_embeddings": 32}),
    "tiny_deepseek3": SMALL | LATENT | dict(
        num_hidden_layers=3, q_lora_rank=10, first_k_dense_replace=1, n_routed_experts=8, num_experts_per_tok=3,
        n_shared_experts=1, n_group=4, topk_group=2, routed_scaling_factor=2.5, attention_bias=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    "tiny_moonlight": SMALL | LATENT | dict(
        q_lora_rank=None, first_k_dense_replace=1, n_routed_experts=4, num_experts_per_tok=4, n_shared_experts=2,
        n_group=1, topk_group=1, norm_topk_prob=False, rope_interleave=False, num_mtp_layers=0,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    "tiny_phi3_longrope": SMALL | dict(
        num_attention_heads=4,
        max_position_embeddings=128, original_max_position_embeddings=20,
        rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.1, 1.3, 1.2],
                         "long_factor": [1.0, 1.6, 3.0, 5.5]}),
}
# Those that the trainer of the demo models stores, in its own shape.
TRAINED_AS = {"tiny_learned_sinks": "learned-sinks", "tiny_gated": "gated"}
SHAPES |= {name: dict(
    vocab_size=48, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8, max_position_embeddings=256) for name in TRAINED_AS}
# Stored as bfloat16; the others as float32, those of the trainer as it does.
NARROW = ["tiny_llama3", "tiny_qwen2", "tiny_qwen2_window", "tiny_gemma2", "tiny_gemma3", "tiny_phi3", "tiny_smollm3",
          "tiny_olmo2", "tiny_granite4", "tiny_glm4", "tiny_mixtral", "tiny_qwen35_moe", "tiny_moonlight",
          "tiny_gpt_oss_mxfp4", "tiny_gemma4_moe"]
DTYPES = {name: torch.bfloat16 if name in NARROW else torch.float32 for name in SHAPES}
# What a family's classes begin with, and the module that they stand in.
LLAMA, QWEN2, QWEN3 = ("Llama", "llama"), ("Qwen2", "qwen2"), ("Qwen3", "qwen3")
MISTRAL, PHI3 = ("Mistral", "mistral"), ("Phi3", "phi3")
FAMILIES = {
    "tiny_llama": LLAMA, "tiny_llama3": LLAMA, "tiny_llama_dynamic": LLAMA,
    "tiny_qwen2": QWEN2, "tiny_qwen2_window": QWEN2, "tiny_qwen3": QWEN3, "tiny_qwen3_window": QWEN3,
    "tiny_mistral": MISTRAL, "tiny_mistral_window": MISTRAL,
    "tiny_phi3": PHI3, "tiny_phi3_longrope": PHI3, "tiny_phi4": PHI3,
    "tiny_gemma4": ("Gemma4", "gemma4"), "tiny_gemma4_moe": ("Gemma4", "gemma4"),
    "tiny_gemma2": ("Gemma2", "gemma2"), "tiny_gemma3": ("Gemma3", "gemma3"), "tiny_smollm3": ("SmolLM3", "smollm3"),
    "tiny_olmo2": ("Olmo2", "olmo2"), "tiny_olmo3": ("Olmo3", "olmo3"), "tiny_granite": ("Granite", "granite"),
    "tiny_granite4": ("GraniteMoeHybrid", "granitemoehybrid"),
    "tiny_granite4_moe": ("GraniteMoeHybrid", "granitemoehybrid"),
    "tiny_ministral3": ("Ministral3", "ministral3"), "tiny_glm": ("Glm", "glm"), "tiny_glm4": ("Glm4", "glm4"),
    "tiny_mixtral": ("Mixtral", "mixtral"), "tiny_qwen3_moe": ("Qwen3Moe", "qwen3_moe"),
    "tiny_qwen3_next": ("Qwen3Next", "qwen3_next"), "tiny_qwen3_next_biases": ("Qwen3Next", "qwen3_next"),
    "tiny_qwen35": ("Qwen3_5", "qwen3_5"),
    "tiny_qwen35_moe": ("Qwen3_5Moe", "qwen3_5_moe"), "tiny_qwen2_moe": ("Qwen2Moe", "qwen2_moe"),
    "tiny_gpt_oss": ("GptOss", "gpt_oss"), "tiny_gpt_oss_mxfp4": ("GptOss", "gpt_oss"),
    "tiny_deepseek2": ("DeepseekV2", "deepseek_v2"), "tiny_deepseek3": ("DeepseekV3", "deepseek_v3"),
    "tiny_moonlight": ("DeepseekV3", "deepseek_v3"),
    "tiny_learned_sinks": ("GptOss", "gpt_oss"),
    "tiny_gated": ("Qwen3_5", "qwen3_5"),
}
# Norms that multiply by 1 + weight.
UNIT_OFFSET = ["Gemma2RMSNorm", "Gemma3RMSNorm", "Qwen3NextRMSNorm", "Qwen3_5RMSNorm", "Qwen3_5MoeRMSNorm"]
TEXT_PARTS = ["tiny_gemma3", "tiny_gemma4", "tiny_gemma4_moe", "tiny_qwen35", "tiny_qwen35_moe"]  # of larger models
PLAIN = dict(attn_implementation="eager", experts_implementation="eager")
BY_LENGTH = ["tiny_llama_dynamic", "tiny_phi3_longrope", "tiny_phi4"]  # RoPE depends on the length seen
BLOCKS = [1, 16]
N_PROMPT = 40  # more than two blocks of 16, and not a multiple of it


def model_class(name: str) -> type:
    return getattr(transformers, FAMILIES[name][0] + "ForCausalLM")


def make_model(name: str) -> torch.nn.Module:
    """Weights wide enough that attention is far from uniform and logits are far apart."""
    config_class = getattr(transformers, FAMILIES[name][0] + ("TextConfig" if name in TEXT_PARTS else "Config"))
    model = model_class(name)(config_class(**SHAPES[name], **PLAIN)).eval()
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "gemma4" in name and "q_norm" in parameter_name:
                parameter.copy_(0.4 + 0.1 * noise)  # scores are not divided by √head_dim
            elif "norm" in parameter_name:
                offset = type(model.get_submodule(parameter_name.rpartition(".")[0])).__name__ in UNIT_OFFSET
                parameter.copy_(0.2 * noise if offset else 1 + 0.2 * noise)
            elif parameter_name.endswith(("A_log", "dt_bias")):
                parameter.copy_(0.5 * noise)
            elif "conv1d" in parameter_name:
                parameter.copy_(0.5 * noise)
            elif parameter_name.endswith("bias"):
                parameter.copy_(0.3 * noise)
            elif parameter_name.endswith("sinks"):
                parameter.copy_(1 + noise)
            elif parameter_name.endswith("scale"):
                parameter.copy_(1 + 0.2 * noise)
            elif "embed" in parameter_name:
                parameter.copy_(noise)
            else:
                transposed = "gpt_oss" in name and "experts" in parameter_name  # (experts, in, out)
                parameter.copy_(noise * 1.4 / parameter.shape[-2 if transposed else -1] ** 0.5)
        for buffer_name, buffer in model.named_buffers():
            if buffer_name.endswith("e_score_correction_bias"):
                buffer.copy_(0.3 * torch.randn(buffer.shape, generator=generator))
            elif buffer_name.endswith("layer_scalar"):
                buffer.copy_(1 + 0.2 * torch.randn(buffer.shape, generator=generator))
    return model.to(DTYPES[name])


def rotated_first(model: torch.nn.Module, heads: torch.Tensor) -> torch.Tensor:
    """What rotates stands last in Transformers, and for DeepSeek V3 no longer as neighbours."""
    n = model.config.qk_rope_head_dim
    plain, turning = heads[..., :-n], heads[..., -n:]
    if getattr(model.config, "rope_interleave", False):
        turning = torch.stack([turning[..., :n // 2], turning[..., n // 2:]], dim=-1).flatten(-2)
    return torch.cat([turning, plain], dim=-1)


def of_latent_attention(model: torch.nn.Module, layer: int, tensors: dict[str, torch.Tensor],
                        latent: torch.Tensor) -> dict[str, torch.Tensor]:
    """The heads' own queries, keys and values as we lay them out, and the one KV head that can be cached instead."""
    config = model.config
    queries, keys = (rotated_first(model, tensors[f"{what}.{layer}"]) for what in ("queries", "keys"))
    values = tensors[f"values.{layer}"]
    up = model.model.layers[layer].self_attn.kv_b_proj.weight.unflatten(0, (config.num_attention_heads, -1))
    n = config.qk_rope_head_dim
    absorbed = torch.einsum("htp,hpr->htr", queries[..., n:].float(), up[:, :config.qk_nope_head_dim].float())
    turning = keys[:1, :, :n]
    return {
        f"queries.{layer}": queries, f"keys.{layer}": keys,
        f"values.{layer}": torch.nn.functional.pad(values, (0, keys.shape[-1] - values.shape[-1])),
        f"latent_queries.{layer}": torch.cat([queries[..., :n].float(), absorbed], dim=-1),
        f"latent_keys.{layer}": torch.cat([turning, latent[None]], dim=-1),
        f"latent_values.{layer}": torch.cat([torch.zeros_like(turning), latent[None]], dim=-1)}


def observe(name: str, model: torch.nn.Module, ids: torch.Tensor, block: int) -> dict[str, torch.Tensor]:
    """Runs the model over all ids, `block` at a time, and keeps what attention saw and gave."""
    n_layers = model.config.num_hidden_layers
    seen: list[list[tuple[torch.Tensor, ...]]] = [[] for _ in range(n_layers)]
    module = importlib.import_module(f"transformers.models.{FAMILIES[name][1]}.modeling_{FAMILIES[name][1]}")
    attend = module.eager_attention_forward

    def watched(layer, queries, keys, values, *args, **kwargs):
        out, weights = attend(layer, queries, keys, values, *args, **kwargs)
        n = queries.shape[2]  # a cache may have added older rows, or dropped some
        seen[layer.layer_idx].append((queries[0], keys[0, :, -n:], values[0, :, -n:], weights[0]))
        return out, weights

    latents: dict[int, list[torch.Tensor]] = {}
    for layer, block_of_layer in enumerate(model.model.layers):
        norm = getattr(getattr(block_of_layer, "self_attn", None), "kv_a_layernorm", None)
        if norm is not None:
            norm.register_forward_hook(lambda _, __, out, at=layer: latents.setdefault(at, []).append(out[0]))
    module.eager_attention_forward = watched
    outs, cache = [], transformers.DynamicCache(config=model.config)
    try:
        with torch.no_grad():
            for first in range(0, len(ids), block):
                outs.append(model(ids[None, first:first + block], use_cache=True, past_key_values=cache))
    finally:
        module.eager_attention_forward = attend
    tensors = {"logits": torch.cat([out.logits[0] for out in outs])}
    for layer in range(n_layers):
        if not seen[layer]:
            continue  # it has no keys
        for part, what in enumerate(["queries", "keys", "values"]):
            tensors[f"{what}.{layer}"] = torch.cat([block[part] for block in seen[layer]], dim=1)
        rows = [block[3] for block in seen[layer]]
        tensors[f"attention.{layer}"] = torch.cat(
            [torch.nn.functional.pad(row, (0, len(ids) - row.shape[-1])) for row in rows], dim=1)
        if layer in latents:
            with torch.no_grad():
                tensors |= of_latent_attention(model, layer, tensors, torch.cat(latents[layer]))
    return {key: tensor.float().contiguous() for key, tensor in tensors.items()}


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float(torch.linalg.norm(found.double() - expected.double()) / torch.linalg.norm(expected.double()))


def save_with_further_layer(model: torch.nn.Module, folder: pathlib.Path) -> None:
    """As published: with a layer behind the last, which no decoder of one token at a time has use for."""
    model.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    last, n = f"model.layers.{model.config.num_hidden_layers - 1}.", model.config.num_hidden_layers
    further = {k.replace(last, f"model.layers.{n}."): v.clone() for k, v in tensors.items() if k.startswith(last)}
    further[f"model.layers.{n}.enorm.weight"] = torch.ones(model.config.hidden_size)
    save_file(tensors | further, folder / "model.safetensors", {"format": "pt"})


def save_as_published(model: torch.nn.Module, folder: pathlib.Path) -> None:
    """Gemma 4's configuration with fields for the layers that differ, which newer versions list one by one."""
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    heads = next(iter(config.pop("per_layer_config").values()))
    config |= {"global_head_dim": heads["head_dim"], "num_global_key_value_heads": heads["num_key_value_heads"]}
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def save_folder(model: torch.nn.Module, name: str) -> None:
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    if getattr(model.config, "num_mtp_layers", 0):
        save_with_further_layer(model, folder)
    elif name == "tiny_gemma4_moe":
        save_as_published(model, folder)
    else:
        model.save_pretrained(folder)
    for file in folder.iterdir():
        file.chmod(0o644)


def pack_mxfp4(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Blocks and scales of the experts' (experts, in, out), each value rounded to one that its block has."""
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    blocks = weight.float().transpose(1, 2).unflatten(2, (-1, 32))
    exponents = blocks.abs().amax(-1).log2().floor() - 2
    scaled = blocks / exponents.exp2()[..., None]
    codes = (scaled.abs()[..., None] - values).abs().argmin(-1) + 8 * (scaled < 0)
    low, high = codes[..., 0::2], codes[..., 1::2]
    return (low + 16 * high).to(torch.uint8), (exponents + 127).to(torch.uint8)


def pack_experts(folder: pathlib.Path) -> None:
    """In place, with a configuration as that of gpt-oss."""
    weights = folder / "model.safetensors"
    tensors = {}
    for name, tensor in load_file(weights).items():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            tensors[name + "_blocks"], tensors[name + "_scales"] = pack_mxfp4(tensor)
        else:
            tensors[name] = tensor
    save_file(tensors, weights, {"format": "pt"})
    weights.chmod(0o644)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens",
                                   "lm_head"],
        "quant_method": "mxfp4"}
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def save_as_trained(name: str) -> None:
    sys.path.insert(0, str(HERE.parents[3] / "tools/demo_model"))
    import checkpoint
    import model as models

    folder = HERE / name
    folder.mkdir(exist_ok=True)
    model = models.Llama(models.Config(**SHAPES[name], **models.ATTENTIONS[TRAINED_AS[name]]))
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            plain = noise * 1.4 / parameter.shape[-1] ** 0.5
            parameter.copy_(1 + 0.2 * noise if "norm" in parameter_name else
                            1 + noise if "sinks" in parameter_name else
                            noise if "embed" in parameter_name else plain)
    checkpoint.save_config(model.cfg, 1, 2, folder)
    checkpoint.save_weights(model.state_dict(), model.cfg, folder)


def load(name: str, dtype: torch.dtype) -> torch.nn.Module:
    """As a user would: converting a model in memory would also round its RoPE frequencies."""
    unpack = dict(quantization_config=transformers.Mxfp4Config(dequantize=True)) if name.endswith("mxfp4") else {}
    model = model_class(name).from_pretrained(HERE / name, dtype=dtype, **unpack, **PLAIN).eval()
    rotary = model.model.rotary_emb
    assert rotary is None or all(buffer.dtype == torch.float32 for buffer in rotary.buffers())
    return model


def save_golden(stem: str, tensors: dict[str, torch.Tensor], ids: torch.Tensor, metadata: dict[str, str]) -> None:
    golden = HERE / f"{stem}.golden.safetensors"
    save_file(tensors | {"prompt_ids": ids.to(torch.int32)}, golden, metadata)
    golden.chmod(0o644)


def main() -> None:
    for name, shape in SHAPES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        if name in TRAINED_AS:
            save_as_trained(name)
        else:
            save_folder(make_model(name), name)
        if name.endswith("mxfp4"):
            pack_experts(HERE / name)
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
