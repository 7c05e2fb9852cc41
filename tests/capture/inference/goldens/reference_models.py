"""What a layer computes of one token, for every family with goldens here, as plainly as possible: NumPy, float64.

Written from the definitions (Hugging Face's classes, and the papers named below), not from the C++ code; shares
nothing with it. One deliberate exception to float64: RoPE's angles are position * frequency in float32, because that
is how Transformers defines them. `load(folder)` gives the model of a checkpoint.
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
        self.rope = Rope(c["rope_parameters"], self.d) if "rope_theta" in c["rope_parameters"] else None
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


class Mixture(Llama):
    """With layers whose feed-forward is a few of many experts."""

    def has_experts(self, layer):
        return True

    def choose(self, scores, n):
        """The `n` best, equal ones in order."""
        order = np.argsort(-scores, kind="stable")
        if n < len(scores):
            gap = (scores[order[n - 1]] - scores[order[n]]) / np.abs(scores[np.isfinite(scores)]).max()
            self.closest_choice = min(self.closest_choice, gap)
        return order[:n]

    def in_best_groups(self, scores, n_counted):
        """Scores with minus infinity outside of the groups whose `n_counted` best have the largest sums."""
        groups = scores.reshape(self.config["n_group"], -1)
        sums = np.array([np.sort(group)[-n_counted:].sum() for group in groups])
        kept = np.full(groups.shape, -np.inf)
        for group in self.choose(sums, self.config["topk_group"]):
            kept[group] = groups[group]
        return kept.reshape(-1)

    def route(self, at, y):
        """The experts of a token, and what each is multiplied by."""
        logits = self.linear(at + ".gate", y)
        chosen = self.choose(logits, self.config["num_experts_per_tok"])
        shares = softmax(logits)[chosen]
        return chosen, shares / shares.sum() if self.config["norm_topk_prob"] else shares

    def expert(self, at, number, y):
        return self.feed_forward(f"{at}.experts.{number}", y)

    def shared(self, at, y):
        return 0

    def mlp(self, layer, y):
        at = f"model.layers.{layer}.mlp"
        if not self.has_experts(layer):
            return self.feed_forward(at, y)
        chosen, shares = self.route(at, y)
        return sum(share * self.expert(at, number, y) for number, share in zip(chosen, shares)) + self.shared(at, y)


class Qwen3Moe(Mixture):
    def has_experts(self, layer):
        return layer not in self.config["mlp_only_layers"] and (layer + 1) % self.config["decoder_sparse_step"] == 0

    def qkv(self, layer, x):
        at = f"model.layers.{layer}.self_attn."
        q, k, v = super().qkv(layer, x)
        return [self.norm(row, at + "q_norm") for row in q], [self.norm(row, at + "k_norm") for row in k], v


class GptOss(Mixture):
    def __init__(self, folder):
        super().__init__(folder)
        self.alpha, self.limit = self.config["swiglu_alpha"], self.config["swiglu_limit"]

    def weigh(self, layer, head, products):
        """The sink is one more score of the softmax, and has no value."""
        sink = self.w[f"model.layers.{layer}.self_attn.sinks"][head]
        weights = softmax(np.append(products * self.scale, sink))
        return weights[:-1], weights[-1]

    def route(self, at, y):
        logits = self.linear(at + ".router", y)
        chosen = self.choose(logits, self.config["num_experts_per_tok"])
        return chosen, softmax(logits[chosen])

    def expert(self, at, number, y):
        part = lambda name: self.w[f"{at}.experts.{name}"][number]
        both = y @ part("gate_up_proj") + part("gate_up_proj_bias")
        gate, up = np.minimum(both[0::2], self.limit), np.clip(both[1::2], -self.limit, self.limit)
        return ((up + 1) * gate * sigmoid(self.alpha * gate)) @ part("down_proj") + part("down_proj_bias")


class DeltaNetState:
    """Of one layer: the inputs that the convolution still sees, and every value head's (key_dim, value_dim)."""

    def __init__(self, kernel, n_heads, key_dim, value_dim):
        self.inputs, self.kernel = [], kernel
        self.memory = [np.zeros((key_dim, value_dim)) for _ in range(n_heads)]


class Qwen3Next(Qwen3Moe):
    """Gated attention; and layers of Gated DeltaNet (arXiv 2412.06464), which have no keys."""

    norm_offset = 1

    def __init__(self, folder):
        super().__init__(folder)
        parameters = self.config["rope_parameters"]
        self.rope = Rope(parameters, int(self.d * parameters["partial_rotary_factor"]))

    def attends(self, layer):
        return self.config["layer_types"][layer] == "full_attention"

    def queries_and_gates(self, layer, x):
        both = self.linear(f"model.layers.{layer}.self_attn.q_proj", x).reshape(self.n_heads, 2, self.d)
        return both[:, 0], both[:, 1]

    def qkv(self, layer, x):
        at = f"model.layers.{layer}.self_attn."
        q, _ = self.queries_and_gates(layer, x)
        k, v = (self.linear(f"{at}{part}_proj", x).reshape(-1, self.d) for part in "kv")
        return [self.norm(row, at + "q_norm") for row in q], [self.norm(row, at + "k_norm") for row in k], v

    def attention_output(self, layer, x, mixed):
        _, gates = self.queries_and_gates(layer, self.attention_input(layer, x))
        return super().attention_output(layer, x, mixed * sigmoid(gates.reshape(-1)))

    def shared(self, at, y):
        return sigmoid(self.linear(at + ".shared_expert_gate", y)) * self.feed_forward(at + ".shared_expert", y)

    def fresh_state(self):
        c = self.config
        return DeltaNetState(c["linear_conv_kernel_dim"], c["linear_num_value_heads"], c["linear_key_head_dim"],
                             c["linear_value_head_dim"])

    def recur(self, layer, x, state):
        """What a layer without keys gives in attention's place; `x` as attention_input gives it."""
        c, at = self.config, f"model.layers.{layer}.linear_attn."
        n_keys, key_dim, value_dim = c["linear_num_key_heads"], c["linear_key_head_dim"], c["linear_value_head_dim"]
        group = c["linear_num_value_heads"] // n_keys
        # Each key head has its query, its key, its values and their output gates in a row.
        parts = self.linear(at + "in_proj_qkvz", x).reshape(n_keys, -1)
        q, k, v, z = np.split(parts, np.cumsum([key_dim, key_dim, group * value_dim]), axis=1)
        b, a = np.split(self.linear(at + "in_proj_ba", x).reshape(n_keys, -1), 2, axis=1)
        mixed = self.convolve(at, np.concatenate([q.ravel(), k.ravel(), v.ravel()]), state)
        q, k, v = np.split(mixed, np.cumsum([n_keys * key_dim, n_keys * key_dim]))
        q, k = (rows.reshape(n_keys, key_dim) for rows in (q, k))
        v, z = (rows.reshape(-1, value_dim) for rows in (v, z))
        outputs = []
        for head, memory in enumerate(state.memory):
            key = k[head // group] / np.sqrt((k[head // group] ** 2).sum() + 1e-6)
            query = q[head // group] / np.sqrt((q[head // group] ** 2).sum() + 1e-6) / key_dim ** 0.5
            step = np.log1p(np.exp(a.ravel()[head] + self.w[at + "dt_bias"][head]))
            memory *= np.exp(-np.exp(self.w[at + "A_log"][head]) * step)
            memory += np.outer(key, sigmoid(b.ravel()[head]) * (v[head] - key @ memory))
            given = unit_rms(query @ memory, c["rms_norm_eps"]) * self.w[at + "norm.weight"]
            outputs.append(given * silu(z[head]))
        return self.linear(at + "out_proj", np.concatenate(outputs))

    def convolve(self, at, channels, state):
        state.inputs = (state.inputs + [channels])[-state.kernel:]
        taps = self.w[at + "conv1d.weight"][:, 0].T  # the last is the token's own
        return silu(sum(tap * seen for tap, seen in zip(taps[-len(state.inputs):], state.inputs)))


class DeepseekV2(Mixture):
    """Latent attention (arXiv 2405.04434, Section 2.1). A token's one row in the cache is what rotates of its keys,
    and behind it the latent, which is its value as well; scores and mixtures are taken head by head, of the keys and
    values that the latent expands to."""

    def __init__(self, folder):
        super().__init__(folder)
        c = self.config
        self.n_kv = 1
        self.turning, self.plain, self.rank = c["qk_rope_head_dim"], c["qk_nope_head_dim"], c["kv_lora_rank"]
        self.scale = (self.turning + self.plain) ** -0.5
        parameters = c["rope_parameters"]
        self.rope = Rope(parameters, self.turning, neighbours=c.get("rope_interleave", True))
        if parameters["rope_type"] == "yarn":
            self.scale *= yarn_length(parameters["factor"], parameters["mscale_all_dim"]) ** 2

    def latent_norm(self, x, name):
        return unit_rms(x, 1e-6) * self.w[name + ".weight"]

    def qkv(self, layer, x):
        at = f"model.layers.{layer}.self_attn."
        if self.config["q_lora_rank"] is None:
            q = self.linear(at + "q_proj", x)
        else:
            q = self.linear(at + "q_b_proj", self.latent_norm(self.linear(at + "q_a_proj", x), at + "q_a_layernorm"))
        q = q.reshape(self.n_heads, self.plain + self.turning)
        q = np.concatenate([q[:, self.plain:], q[:, :self.plain]], axis=1)
        latent, turning = np.split(self.linear(at + "kv_a_proj_with_mqa", x), [self.rank])
        latent = self.latent_norm(latent, at + "kv_a_layernorm")
        return q, [np.concatenate([turning, latent])], [latent]

    def expansion(self, layer, head):
        """The matrices that make a head's key and its value of the latent."""
        both = self.w[f"model.layers.{layer}.self_attn.kv_b_proj.weight"].reshape(self.n_heads, -1, self.rank)[head]
        return both[:self.plain], both[self.plain:]

    def products(self, layer, head, query, keys):
        of_key, _ = self.expansion(layer, head)
        n = self.turning
        return np.array([np.concatenate([row[:n], of_key @ row[n:]]) @ query for row in keys])

    def mix(self, layer, head, weights, values):
        _, of_value = self.expansion(layer, head)
        return weights @ np.array([of_value @ latent for latent in values])

    def has_experts(self, layer):
        return layer >= self.config["first_k_dense_replace"]

    def shared(self, at, y):
        return self.feed_forward(at + ".shared_experts", y)

    def route(self, at, y):
        assert self.config["topk_method"] == "group_limited_greedy"
        logits = self.linear(at + ".gate", y)
        chosen = self.choose(self.in_best_groups(logits, 1), self.config["num_experts_per_tok"])
        return chosen, softmax(logits)[chosen] * self.config["routed_scaling_factor"]


class DeepseekV3(DeepseekV2):
    def route(self, at, y):
        """By biased scores; weighted by those without the bias (arXiv 2412.19437, Equations 13 to 16)."""
        scores = sigmoid(self.w[at + ".gate.weight"] @ y)
        biased = self.in_best_groups(scores + self.w[at + ".gate.e_score_correction_bias"], 2)
        chosen = self.choose(biased, self.config["num_experts_per_tok"])
        shares = scores[chosen] / scores[chosen].sum() if self.config["norm_topk_prob"] else scores[chosen]
        return chosen, shares * self.config["routed_scaling_factor"]


class Gemma4(Gemma2):
    """Layers without a window have heads of their own; the last layers attend to keys of earlier ones."""

    norm_offset = 0

    def __init__(self, folder):
        Llama.__init__(self, folder)
        c = self.config
        own = c.get("per_layer_config", {})
        self.shapes = [(self.n_kv, self.d) for _ in range(self.n_layers)]
        for layer, kind in enumerate(c["layer_types"]):
            if "per_layer_config" in c:
                entry = own.get(str(layer), {})
                self.shapes[layer] = entry.get("num_key_value_heads", self.n_kv), entry.get("head_dim", self.d)
            elif kind == "full_attention":
                self.shapes[layer] = c["num_global_key_value_heads"], c["global_head_dim"]
        parameters = c["rope_parameters"]
        self.ropes = {}
        for kind, (_, d) in zip(c["layer_types"], self.shapes):
            self.ropes[kind] = Rope(parameters[kind] | {"rope_type": "default"}, d)
            if parameters[kind]["rope_type"] == "proportional":
                self.ropes[kind].frequency[int(parameters[kind]["partial_rotary_factor"] * d // 2):] = 0
        self.scale = 1

    def kind(self, layer):
        return self.config["layer_types"][layer]

    def kv_heads(self, layer):
        return self.shapes[layer][0]

    def lender(self, layer):
        first = self.n_layers - self.config["num_kv_shared_layers"]
        if layer < first:
            return layer
        return max(other for other in range(first) if self.kind(other) == self.kind(layer))

    def embed(self, token):
        return Llama.embed(self, token) * self.config["hidden_size"] ** 0.5

    def qkv(self, layer, x):
        at, eps = f"model.layers.{layer}.self_attn.", self.config["rms_norm_eps"]
        heads = lambda part: self.linear(f"{at}{part}_proj", x).reshape(-1, self.shapes[layer][1])
        q = [self.norm(row, at + "q_norm") for row in heads("q")]
        if self.lender(layer) != layer:
            return q, [], []
        k = heads("k")
        shared = self.config["attention_k_eq_v"] and self.kind(layer) == "full_attention"
        v = k if shared else heads("v")
        return q, [self.norm(row, at + "k_norm") for row in k], [unit_rms(row, eps) for row in v]

    def rotate(self, layer, x, position):
        return self.ropes[self.kind(layer)](x, position)

    def weigh(self, layer, head, products):
        return softmax(products * self.scale), 0

    def experts(self, at, x):
        """Of the hidden state that the dense feed-forward sees normed; the router norms it by itself."""
        d, eps = self.config["hidden_size"], self.config["rms_norm_eps"]
        seen = unit_rms(x, eps) * self.w[at + "router.scale"] / d ** 0.5
        shares = softmax(self.linear(at + "router.proj", seen))
        chosen = np.argsort(-shares, kind="stable")[:self.config["top_k_experts"]]
        weights = shares[chosen] / shares[chosen].sum() * self.w[at + "router.per_expert_scale"][chosen]
        y, out = self.norm(x, at + "pre_feedforward_layernorm_2"), 0
        for number, weight in zip(chosen, weights):
            gate, up = np.split(self.w[at + "experts.gate_up_proj"][number] @ y, 2)
            out = out + weight * (self.w[at + "experts.down_proj"][number] @ (gelu_tanh(gate) * up))
        return out

    def layer_input(self, layer, token):
        c, size = self.config, self.config["hidden_size_per_layer_input"]
        part = slice(layer * size, (layer + 1) * size)
        projected = self.w["model.per_layer_model_projection.weight"][part] @ self.embed(token)
        projected = self.norm(projected / c["hidden_size"] ** 0.5, "model.per_layer_projection_norm")
        looked_up = self.w["model.embed_tokens_per_layer.weight"][token][part] * size ** 0.5
        return (projected + looked_up) / 2 ** 0.5

    def finish_layer(self, layer, x, given, token):
        at = f"model.layers.{layer}."
        x = x + self.norm(given, at + "post_attention_layernorm")
        y = self.mlp(layer, self.norm(x, at + "pre_feedforward_layernorm"))
        if self.config["enable_moe_block"]:
            y = self.norm(y, at + "post_feedforward_layernorm_1")
            y = y + self.norm(self.experts(at, x), at + "post_feedforward_layernorm_2")
        x = x + self.norm(y, at + "post_feedforward_layernorm")
        if self.config["hidden_size_per_layer_input"]:
            gate = gelu_tanh(self.linear(at + "per_layer_input_gate", x)) * self.layer_input(layer, token)
            x = x + self.norm(self.linear(at + "per_layer_projection", gate), at + "post_per_layer_input_norm")
        return x * self.w[at + "layer_scalar"]


FAMILIES = {
    "llama": Llama, "mistral": Llama, "gemma2": Gemma2, "smollm3": SmolLM3, "olmo2": Olmo2, "glm": Glm,
    "ministral3": Ministral3, "qwen3_moe": Qwen3Moe, "gpt_oss": GptOss, "qwen3_next": Qwen3Next,
    "deepseek_v2": DeepseekV2, "deepseek_v3": DeepseekV3, "gemma4_text": Gemma4,
}


def load(folder: pathlib.Path) -> Llama:
    return FAMILIES[json.loads((folder / "config.json").read_text())["model_type"]](folder)
