#!/usr/bin/env python3
"""Writes a model of true shape with random weights, tensor by tensor, so that it may be larger than memory.

  make_random_model.py CONFIG.json OUT [--dtype bfloat16|float32] [--layers N] [--set KEY=VALUE ...] [--seed S]
                       [--quick]

CONFIG.json is a Hugging Face config.json of a Llama-like model (llama, mistral, qwen2, qwen3, qwen3_moe). Needs NumPy only.
Weights are normal with the spread that Transformers initialises with (0.02); norms are one. With --quick all are cut
out of the same 16 million numbers, which takes as long as writing the file does: enough to measure times with.
"""

import argparse
import json
import pathlib
import struct

import numpy as np

CHUNK = 1 << 24


def tensors(config):
    """Names and shapes, in the order in which they are written."""
    d, f = config["hidden_size"], config["intermediate_size"]
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    head_dim = config.get("head_dim") or d // heads
    yield "model.embed_tokens.weight", (config["vocab_size"], d)
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}."
        yield at + "input_layernorm.weight", (d,)
        for name, rows in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            yield at + f"self_attn.{name}_proj.weight", (rows * head_dim, d)
            if config["model_type"] == "qwen2":
                yield at + f"self_attn.{name}_proj.bias", (rows * head_dim,)
        if config["model_type"].startswith("qwen3"):
            yield at + "self_attn.q_norm.weight", (head_dim,)
            yield at + "self_attn.k_norm.weight", (head_dim,)
        yield at + "self_attn.o_proj.weight", (d, heads * head_dim)
        yield at + "post_attention_layernorm.weight", (d,)
        if config["model_type"] == "qwen3_moe":
            n = config.get("num_experts") or config["num_local_experts"]
            yield at + "mlp.gate.weight", (n, d)
            for expert in range(n):
                yield from feed_forward(f"{at}mlp.experts.{expert}.", d, config["moe_intermediate_size"])
        else:
            yield from feed_forward(at + "mlp.", d, f)
    yield "model.norm.weight", (d,)
    if not config.get("tie_word_embeddings"):
        yield "lm_head.weight", (config["vocab_size"], d)


def feed_forward(at, d, f):
    yield at + "gate_proj.weight", (f, d)
    yield at + "up_proj.weight", (f, d)
    yield at + "down_proj.weight", (d, f)


class Values:
    """The bytes of weights, in the file's dtype."""

    def __init__(self, seed, dtype, quick):
        self.rng, self.dtype = np.random.default_rng(seed), dtype
        self.width = 4 if dtype == "float32" else 2
        self.stock = self.draw(CHUNK) if quick else None

    def draw(self, n):
        return to_bytes(self.rng.standard_normal(n, np.float32) * np.float32(0.02), self.dtype)

    def take(self, name, n):
        """Up to n numbers of a tensor: fewer where the stock ends."""
        if name.endswith("norm.weight"):
            return to_bytes(np.ones(n, np.float32), self.dtype)
        if self.stock is None:
            return self.draw(min(n, CHUNK))
        first = int(self.rng.integers(CHUNK // 2)) * self.width  # no two pieces begin at the same place
        return memoryview(self.stock)[first:first + n * self.width]


def to_bytes(array, dtype):
    if dtype == "float32":
        return array.tobytes()
    bits = array.view(np.uint32)  # to the nearest, ties to even
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()

    config = json.loads(arguments.config.read_text())
    config = config.get("model_config", config)
    config.setdefault("model_type", "llama")
    config["architectures"] = [{"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM",
                                "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
                                "qwen3_moe": "Qwen3MoeForCausalLM"}[config["model_type"]]]
    config["torch_dtype"] = arguments.dtype
    if arguments.layers:
        config["num_hidden_layers"] = arguments.layers
    for setting in arguments.set:
        key, value = setting.split("=", 1)
        config[key] = json.loads(value)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "config.json").write_text(json.dumps(config, indent=1))

    width, code = (4, "F32") if arguments.dtype == "float32" else (2, "BF16")
    header, offset = {}, 0
    for name, shape in tensors(config):
        end = offset + int(np.prod(shape)) * width
        header[name] = {"dtype": code, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64)
    values = Values(arguments.seed, arguments.dtype, arguments.quick)
    with open(arguments.out / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in tensors(config):
            left = int(np.prod(shape))
            while left > 0:
                taken = values.take(name, left)
                file.write(taken)
                left -= len(taken) // width
    print(f"{arguments.out}: {offset / 1e9:.2f} GB, {config['num_hidden_layers']} layers, {arguments.dtype}")


if __name__ == "__main__":
    main()
