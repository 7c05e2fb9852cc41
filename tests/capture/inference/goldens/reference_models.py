"""What a layer computes of one token, for every family of dense layers with goldens here: plain NumPy, float64.

Written from the definitions (Hugging Face's classes, and the papers named below), not from the C++ code; shares
nothing with it. One deliberate exception to float64: RoPE's angles are position * frequency in float32, because that
is how Transformers defines them. The other families, and `load(folder)`, stand in reference_mixtures.py.
"""

import json
import math
import pathlib
import struct

import numpy as np


def read_safetensors(path: pathlib.Path) -> dict[str, np.ndarray]:
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = raw[8 + length + begin:8 + length + end]
        if entry["dtype"] == "BF16":
            flat = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
        else:
            flat = np.frombuffer(data, {"F32": "<f4", "I32": "<i4"}[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"]).astype(np.float64)
    return tensors


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x ** 3)))


def softmax(x):
    weights = np.exp(x - x.max())
    return weights / weights.sum()


def unit_rms(x, eps):
    return x / np.sqrt((x * x).mean() + eps)


class Rope:
    """Rotates the first `dim` coordinates: pairs half of `dim` apart, or neighbours."""

    def __init__(self, parameters: dict, dim: int, neighbours: bool = False):
        theta = np.float32(parameters["rope_theta"])
        exponent = np.arange(0, dim, 2, dtype=np.float32) / np.float32(dim)
        self.frequency = (np.float32(1) / theta ** exponent).astype(np.float32)
        self.length = 1.0  # that a rotation gives to a vector of length 1
        if parameters["rope_type"] == "yarn":
            self.stretch(parameters, dim)
        else:
            assert parameters["rope_type"] == "default"
        half = dim // 2
        self.first = slice(0, dim, 2) if neighbours else slice(0, half)
        self.second = slice(1, dim, 2) if neighbours else slice(half, dim)

    def stretch(self, parameters, dim):
        """YaRN (arXiv 2309.00071, Section 3.2), with its ramp over pairs as the released code has it."""
        factor, original = parameters["factor"], parameters["original_max_position_embeddings"]
        pair_with_turns = lambda n: (
            dim * math.log(original / (2 * math.pi * n)) / (2 * math.log(parameters["rope_theta"])))
        low = pair_with_turns(parameters.get("beta_fast", 32))
        high = pair_with_turns(parameters.get("beta_slow", 1))
        if parameters.get("truncate", True):
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, dim - 1)
        stretched = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
        wide = self.frequency.astype(np.float64)
        self.frequency = (wide / factor * stretched + wide * (1 - stretched)).astype(np.float32)
        if "mscale" in parameters:
            self.length = yarn_length(factor, parameters["mscale"]) / yarn_length(factor, parameters["mscale_all_dim"])
        else:
            self.length = yarn_length(factor, 1)

    def __call__(self, x, position):
        angle = (np.float32(position) * self.frequency).astype(np.float64)
        cos, sin = np.cos(angle) * self.length, np.sin(angle) * self.length
        a, b, out = x[self.first], x[self.second], x.copy()
        out[self.first], out[self.second] = a * cos - b * sin, b * cos + a * sin
        return out


def yarn_length(factor, scale):
    return 0.1 * scale * math.log(factor) + 1


class Llama:
    """Also Mistral; and what the other families change in it."""

    norm_offset = 0  # norms multiply by this and the weight
    attention_norms = ("input_layernorm", None)  # before and after
    mlp_norms = ("post_attention_layernorm", None)

    def __init__(self, folder: pathlib.Path):
        self.config = c = json.loads((folder / "config.json").read_text())
        self.w = read_safetensors(folder / "model.safetensors")
        self.n_layers, self.n_heads = c["num_hidden_layers"], c["num_attention_heads"]
        self.n_kv, self.d = c["num_key_value_heads"], c["head_dim"]
        self.scale = self.d ** -0.5
        rotary = c["rope_parameters"] if "rope_parameters" in c else {"rope_type": "default"} | c  # or of older files
        self.rope = Rope(rotary, self.d) if "rope_theta" in rotary else None
        window = c.get("sliding_window") or np.inf
        kinds = c.get("layer_types", ["sliding_attention"] * self.n_layers)
        self.windows = [window if kind == "sliding_attention" else np.inf for kind in kinds]
        self.closest_choice = np.inf  # that a router made, relative to the largest of what it compared

    def kv_heads(self, layer):
        return self.n_kv

    def group(self, layer):
        return self.n_heads // self.kv_heads(layer)

    def lender(self, layer):
        """The layer whose keys and values this one attends to."""
        return layer

    def attends(self, layer):
        return True

    def linear(self, name, x):
        return self.w[name + ".weight"] @ x + self.w.get(name + ".bias", 0)

    def norm(self, x, name):
        return unit_rms(x, self.config["rms_norm_eps"]) * (self.w[name + ".weight"] + self.norm_offset)

    def layer_norm(self, layer, x, name):
        return x if name is None else self.norm(x, f"model.layers.{layer}.{name}")

    def embed(self, token):
        return self.w["model.embed_tokens.weight"][token]

    def logits(self, x):
        head = self.w.get("lm_head.weight", self.w["model.embed_tokens.weight"])
        return head @ self.norm(x, "model.norm")

    def attention_input(self, layer, x):
        return self.layer_norm(layer, x, self.attention_norms[0])

    def qkv(self, layer, x):
        """Of what attention_input gives: heads of queries, of keys and of values, before any rotation."""
        at = f"model.layers.{layer}.self_attn."
        return tuple(self.linear(f"{at}{part}_proj", x).reshape(-1, self.d) for part in "qkv")

    def rotate(self, layer, x, position):
        return self.rope(x, position)

    def inverse_frequencies(self, layer):
        """Of the pairs that `rotate` turns."""
        return self.rope.frequency.astype(np.float64)

    def rotate_query(self, layer, x, place, position):
        """By its place, which is its position unless places in the cache are asked for."""
        return self.rotate(layer, x, place)

    def products(self, layer, head, query, keys):
        return np.array([key @ query for key in keys])

    def weigh(self, layer, head, products):
        """Attention weights of q·k, and that of a sink besides."""
        return softmax(products * self.scale), 0

    def mix(self, layer, head, weights, values):
        return weights @ np.array(values)

    def attention_output(self, layer, x, mixed):
        """Of the hidden state before the layer, and of all heads' mixtures."""
        return self.linear(f"model.layers.{layer}.self_attn.o_proj", mixed)

    def feed_forward(self, at, y):
        gate, up = self.linear(at + ".gate_proj", y), self.linear(at + ".up_proj", y)
        return self.linear(at + ".down_proj", silu(gate) * up)

    def mlp(self, layer, y):
        return self.feed_forward(f"model.layers.{layer}.mlp", y)

    def finish_layer(self, layer, x, given, token):
        """The layer's output of its input and of what attention, or what stands in its place, has given."""
        x = x + self.layer_norm(layer, given, self.attention_norms[1])
        y = self.mlp(layer, self.layer_norm(layer, x, self.mlp_norms[0]))
        return x + self.layer_norm(layer, y, self.mlp_norms[1])


class Gemma2(Llama):
    norm_offset = 1
    attention_norms = ("input_layernorm", "post_attention_layernorm")
    mlp_norms = ("pre_feedforward_layernorm", "post_feedforward_layernorm")

    def __init__(self, folder):
        super().__init__(folder)
        self.scale = self.config["query_pre_attn_scalar"] ** -0.5

    def cap(self, x, name):
        return np.tanh(x / self.config[name]) * self.config[name]

    def embed(self, token):
        return super().embed(token) * self.config["hidden_size"] ** 0.5

    def logits(self, x):
        return self.cap(super().logits(x), "final_logit_softcapping")

    def weigh(self, layer, head, products):
        return softmax(self.cap(products * self.scale, "attn_logit_softcapping")), 0

    def feed_forward(self, at, y):
        gate, up = self.linear(at + ".gate_proj", y), self.linear(at + ".up_proj", y)
        return self.linear(at + ".down_proj", gelu_tanh(gate) * up)


class SmolLM3(Llama):
    def rotate(self, layer, x, position):
        return self.rope(x, position) if self.config["no_rope_layers"][layer] else x


class Olmo2(Llama):
    attention_norms = (None, "post_attention_layernorm")
    mlp_norms = (None, "post_feedforward_layernorm")

    def qkv(self, layer, x):
        at = f"model.layers.{layer}.self_attn."
        q = self.norm(self.linear(at + "q_proj", x), at + "q_norm")
        k = self.norm(self.linear(at + "k_proj", x), at + "k_norm")
        return tuple(rows.reshape(-1, self.d) for rows in (q, k, self.linear(at + "v_proj", x)))


class Glm(Llama):
    def __init__(self, folder):
        super().__init__(folder)
        parameters = self.config["rope_parameters"]
        self.rope = Rope(parameters, int(self.d * parameters["partial_rotary_factor"]), neighbours=True)

    def feed_forward(self, at, y):
        gate, up = np.split(self.linear(at + ".gate_up_proj", y), 2)
        return self.linear(at + ".down_proj", silu(gate) * up)


class Ministral3(Llama):
    def rotate_query(self, layer, x, place, position):
        """Grows with the true position, wherever the rotation goes by places."""
        parameters = self.config["rope_parameters"]
        turns = position // parameters["original_max_position_embeddings"]
        return self.rotate(layer, x, place) * (1 + parameters["llama_4_scaling_beta"] * math.log(1 + turns))
