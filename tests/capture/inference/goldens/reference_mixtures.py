"""The families of reference_models.py that have experts, states, latents, or layers that differ; and which is which."""

import json
import pathlib

import numpy as np

from reference_models import (
    Gemma2, Glm, Llama, Ministral3, Olmo2, Rope, SmolLM3, gelu_tanh, sigmoid, silu, softmax, unit_rms, yarn_length)


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
