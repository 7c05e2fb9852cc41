"""What Hugging Face Transformers' configuration classes write as config.json when nothing is said, of every family
that is taken and of some that are refused.

    python make_family_configs.py           writes family_configs.json beside itself; deterministic
    made with transformers 5.24.0

The classes' defaults are mostly those of a published model. Where a class leaves out what its published models say,
or they say something else that matters here, that stands below, with the model it was read from.
"""

import json
import pathlib

import transformers

HERE = pathlib.Path(__file__).parent
FAMILIES = [
    "Llama", "Qwen2", "Qwen3", "Mistral", "Gemma2", "Gemma3Text", "Phi3", "SmolLM3", "Olmo2", "Olmo3", "Granite",
    "GraniteMoeHybrid", "Ministral3", "Glm", "Glm4", "Mixtral", "Qwen3Moe", "Qwen2Moe", "Qwen3Next", "Qwen3_5Text",
    "Qwen3_5MoeText", "GptOss", "DeepseekV2", "DeepseekV3", "Gemma4Text", "Gemma3nText", "Llama4Text", "FalconH1",
    "Jamba", "Bamba", "Mamba2", "DeepseekV32", "GPT2", "Cohere2", "ModernBert"]
# A class's own default is no published model's.
SAID = {
    "GraniteMoeHybrid": {"layer_types": ["attention"] * 32, "num_hidden_layers": 32},
    "DeepseekV2": {"num_experts_per_tok": 6},  # DeepSeek-V2-Lite
}
PUBLISHED = {
    # gpt-oss-20b
    "gpt-oss-20b": ("GptOss", dict(num_hidden_layers=24, num_local_experts=32, hidden_size=2880, intermediate_size=2880,
                                   num_attention_heads=64, num_key_value_heads=8)),
    # Qwen3-30B-A3B
    "qwen3-30b-a3b": ("Qwen3Moe", dict(num_hidden_layers=48, hidden_size=2048, intermediate_size=6144,
                                       num_attention_heads=32, num_key_value_heads=4, head_dim=128,
                                       norm_topk_prob=True, max_position_embeddings=40960, vocab_size=151936)),
    # DeepSeek-V2-Lite
    "deepseek-v2-lite": ("DeepseekV2", dict(
        num_hidden_layers=27, hidden_size=2048, intermediate_size=10944, num_attention_heads=16, q_lora_rank=None,
        moe_intermediate_size=1408, num_experts_per_tok=6, first_k_dense_replace=1, n_group=1, topk_group=1,
        max_position_embeddings=163840,
        rope_scaling={"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707,
                      "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096})),
    # DeepSeek-V3, before its weights are packed
    "deepseek-v3": ("DeepseekV3", dict(
        max_position_embeddings=163840,
        rope_scaling={"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
                      "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096})),
    # Granite 4.0 H Small: Mamba in most layers
    "granite-4.0-h-small": ("GraniteMoeHybrid", dict(num_hidden_layers=4,
                                                     layer_types=["mamba", "mamba", "mamba", "attention"])),
}


def written(name: str, said: dict) -> dict:
    config = getattr(transformers, name + "Config")(**said)
    causal = transformers.MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    if causal is not None:
        config.architectures = [causal.__name__]
    return json.loads(config.to_json_string())


def main() -> None:
    configs = {name: written(name, SAID.get(name, {})) for name in FAMILIES}
    configs |= {name: written(*of) for name, of in PUBLISHED.items()}
    path = HERE / "family_configs.json"
    path.write_text(json.dumps(configs, separators=(",", ":"), sort_keys=True).replace("},\"", "},\n\"") + "\n")


if __name__ == "__main__":
    main()
