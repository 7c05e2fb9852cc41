"""How a model is stored: in a layout of Hugging Face that has its attention.

The layouts that have learned sinks or a gate have other things as well, which the models here do
without, so that they differ from the demo model by their attention alone. What is stored in their
place has no effect:

* gpt_oss: one expert, so that the router gives it all of the weight. An expert computes
  (up + 1) gate sigmoid(1.702 gate) of clamped values; with up's bias at -1, gate divided and down
  multiplied by 1.702 and the clamp out of reach, that is silu(gate) up. What is left of up after
  1 was taken and added is less exact in bfloat16 arithmetic, and in float32 the same. No windows,
  no YaRN, no biases in attention.
* qwen3_5_text: norms of queries and keys by heads. A norm of what is far smaller than the root of
  its epsilon multiplies by a constant, so both projections are stored small, too small for
  float16, and these norms' weights large. All layers attend, all of a head rotates.

Shapes as in model.py; F intermediate_size.
"""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
from model import Config, Llama
from safetensors.torch import load_file, save_file

# gpt-oss's activation, and a clamp that nothing reaches.
ALPHA, NO_LIMIT = 1.702, 1e6
# The weight of a head's norm, which multiplies by one more. bfloat16 has this number.
HEAD_NORM = 65536.0

State = dict[str, torch.Tensor]


@dataclass
class Layout:
    """What config.json says besides the shape, and how weights are stored in it and read back."""

    model_type: str
    architecture: str
    said: Callable[[Config], dict]
    stored: Callable[[State, Config], State]
    read: Callable[[State, Config], State]


def _full_attention(cfg: Config) -> dict:
    """Where the default is another: every layer sees everything, RoPE is not scaled."""
    return {"layer_types": ["full_attention"] * cfg.num_hidden_layers,
            "rope_parameters": {"rope_type": "default", "rope_theta": cfg.rope_theta,
                                "partial_rotary_factor": 1.0}}


def _llama_config(_: Config) -> dict:
    return {"mlp_bias": False, "rope_scaling": None}


def _gpt_oss_config(cfg: Config) -> dict:
    # Transformers wants a window's size even where no layer has one.
    return {"num_local_experts": 1, "num_experts_per_tok": 1, "swiglu_alpha": ALPHA,
            "swiglu_limit": NO_LIMIT, "sliding_window": 128, **_full_attention(cfg)}


def _qwen_config(cfg: Config) -> dict:
    return {"partial_rotary_factor": 1.0, **_full_attention(cfg)}


def _layers(cfg: Config) -> list[str]:
    return [f"model.layers.{i}." for i in range(cfg.num_hidden_layers)]


def _as_it_is(state: State, _: Config) -> State:
    return dict(state)


def _to_gpt_oss(state: State, cfg: Config) -> State:
    state, d, f = dict(state), cfg.hidden_size, cfg.intermediate_size
    for layer in _layers(cfg):
        mlp = layer + "mlp."
        gate, up, down = (state.pop(f"{mlp}{name}_proj.weight") for name in ("gate", "up", "down"))
        both = torch.stack([gate / ALPHA, up], dim=1)  # [F, 2, D]: gate in even columns, up in odd
        bias = torch.tensor([0.0, -1.0]).repeat(f)
        state |= {mlp + "experts.gate_up_proj": both.reshape(1, 2 * f, d).mT,
                  mlp + "experts.gate_up_proj_bias": bias.unsqueeze(0),
                  mlp + "experts.down_proj": (ALPHA * down).mT.unsqueeze(0),
                  mlp + "experts.down_proj_bias": torch.zeros(1, d),
                  mlp + "router.weight": torch.zeros(1, d),
                  mlp + "router.bias": torch.zeros(1)}
    return state


def _from_gpt_oss(state: State, cfg: Config) -> State:
    state = {name: w for name, w in state.items() if "router" not in name and "_bias" not in name}
    for layer in _layers(cfg):
        mlp = layer + "mlp."
        both = state.pop(mlp + "experts.gate_up_proj")[0].T  # [2F, D]
        state |= {mlp + "gate_proj.weight": ALPHA * both[::2],
                  mlp + "up_proj.weight": both[1::2],
                  mlp + "down_proj.weight": state.pop(mlp + "experts.down_proj")[0].T / ALPHA}
    return state


def _small(cfg: Config) -> float:
    """By which queries and keys are multiplied, such that their norms undo it."""
    return math.sqrt(cfg.rms_norm_eps) / (HEAD_NORM + 1)


def _is_plain_norm(name: str) -> bool:
    return name.endswith(("layernorm.weight", "model.norm.weight"))


def _to_qwen(state: State, cfg: Config) -> State:
    state = {name: w - 1 if _is_plain_norm(name) else w for name, w in state.items()}
    heads = (cfg.num_attention_heads, cfg.head_dim, cfg.hidden_size)
    for layer in _layers(cfg):
        attn = layer + "self_attn."
        query = _small(cfg) * state[attn + "q_proj.weight"].view(heads)
        gate = state.pop(attn + "gate_proj.weight").view(heads)
        state |= {attn + "q_proj.weight": torch.cat([query, gate], dim=1).view(-1, cfg.hidden_size),
                  attn + "k_proj.weight": _small(cfg) * state[attn + "k_proj.weight"],
                  attn + "q_norm.weight": torch.full((cfg.head_dim,), HEAD_NORM),
                  attn + "k_norm.weight": torch.full((cfg.head_dim,), HEAD_NORM)}
    return state


def _from_qwen(state: State, cfg: Config) -> State:
    state = {name: w + 1 if _is_plain_norm(name) else w for name, w in state.items()
             if "q_norm" not in name and "k_norm" not in name}
    for layer in _layers(cfg):
        attn = layer + "self_attn."
        both = state[attn + "q_proj.weight"].view(cfg.num_attention_heads, 2, -1, cfg.hidden_size)
        state |= {attn + "q_proj.weight": both[:, 0].flatten(0, 1) / _small(cfg),
                  attn + "gate_proj.weight": both[:, 1].flatten(0, 1),
                  attn + "k_proj.weight": state[attn + "k_proj.weight"] / _small(cfg)}
    return state


# By (learned_sinks, gated); no layout has both.
LAYOUTS = {
    (False, False): Layout("llama", "LlamaForCausalLM", _llama_config, _as_it_is, _as_it_is),
    (True, False): Layout("gpt_oss", "GptOssForCausalLM", _gpt_oss_config, _to_gpt_oss,
                          _from_gpt_oss),
    (False, True): Layout("qwen3_5_text", "Qwen3_5ForCausalLM", _qwen_config, _to_qwen, _from_qwen),
}
OPTIONS = ("learned_sinks", "gated")  # which a layout stands for


def layout_of(cfg: Config) -> Layout:
    return LAYOUTS[cfg.learned_sinks, cfg.gated]


def save_config(cfg: Config, bos: int, eos: int, out: Path) -> None:
    """config.json and generation_config.json."""
    layout = layout_of(cfg)
    config = {
        "architectures": [layout.architecture],
        "model_type": layout.model_type,
        **{name: value for name, value in asdict(cfg).items() if name not in OPTIONS},
        "attention_bias": False,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "initializer_range": 0.1,
        **layout.said(cfg),
        "tie_word_embeddings": True,
        "bos_token_id": bos,
        "eos_token_id": eos,
        "pad_token_id": eos,
        "torch_dtype": "bfloat16",
        "use_cache": True,
    }
    generation = {"bos_token_id": bos, "eos_token_id": eos, "pad_token_id": eos, "do_sample": False}
    for name, value in (("config.json", config), ("generation_config.json", generation)):
        (out / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def load_config(folder: Path) -> Config:
    """What save_config has written."""
    said = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for options, layout in LAYOUTS.items():
        if layout.model_type == said["model_type"]:
            shape = {f.name: said[f.name] for f in fields(Config) if f.name not in OPTIONS}
            return Config(**shape, **dict(zip(OPTIONS, options, strict=True)))
    raise ValueError(f"{folder}/config.json: model_type {said['model_type']}; expected one of "
                     + ", ".join(layout.model_type for layout in LAYOUTS.values()))


def save_weights(state: State, cfg: Config, out: Path) -> None:
    """model.safetensors in bfloat16; the tied head is stored once, as embed_tokens."""
    plain = {name: w.detach().float().cpu() for name, w in state.items()}
    tensors = {name: w.to(torch.bfloat16).contiguous()
               for name, w in layout_of(cfg).stored(plain, cfg).items()}
    path = out / "model.safetensors"
    save_file(tensors, path, metadata={"format": "pt"})
    path.chmod(0o644)


def load_model(folder: Path) -> Llama:
    """The model of a folder, in float32."""
    cfg = load_config(folder)
    stored = {name: w.float() for name, w in load_file(folder / "model.safetensors").items()}
    model = Llama(cfg)
    model.load_state_dict(layout_of(cfg).read(stored, cfg))
    return model
