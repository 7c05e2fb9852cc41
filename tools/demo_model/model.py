"""A small Llama in plain PyTorch, with the parameter names of Hugging Face.

Shapes below: B rows, T tokens, D hidden, H query heads, G key/value heads,
E head_dim, V vocabulary.
"""

import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn


@dataclass
class Config:
    vocab_size: int = 3072
    hidden_size: int = 256
    intermediate_size: int = 512
    num_hidden_layers: int = 4
    num_attention_heads: int = 8
    num_key_value_heads: int = 4
    head_dim: int = 32
    rope_theta: float = 500000.0
    rms_norm_eps: float = 1e-5
    max_position_embeddings: int = 8192


def rope_tables(cfg: Config, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin [T, E], the two halves of a head alike (rotate-half layout)."""
    freq = cfg.rope_theta ** (-torch.arange(0, cfg.head_dim, 2).double() / cfg.head_dim)
    angle = torch.outer(torch.arange(tokens).double(), freq)
    angle = torch.cat([angle, angle], dim=1)
    return angle.cos().float(), angle.sin().float()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """RoPE on x [B, heads, T, E]."""
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.cfg = cfg
        wide = cfg.num_attention_heads * cfg.head_dim
        narrow = cfg.num_key_value_heads * cfg.head_dim
        self.q_proj = nn.Linear(cfg.hidden_size, wide, bias=False)
        self.k_proj = nn.Linear(cfg.hidden_size, narrow, bias=False)
        self.v_proj = nn.Linear(cfg.hidden_size, narrow, bias=False)
        self.o_proj = nn.Linear(wide, cfg.hidden_size, bias=False)

    def forward(self, x, cos, sin, measure=None):
        """[B, T, D] -> [B, T, D]; `measure(q, k)` sees rotated queries and keys [B, H, T, E]"""
        rows, tokens, _ = x.shape
        shape = (rows, tokens, -1, self.cfg.head_dim)
        q = rotate(self.q_proj(x).view(shape).transpose(1, 2), cos, sin)
        k = rotate(self.k_proj(x).view(shape).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(shape).transpose(1, 2)
        share = self.cfg.num_attention_heads // self.cfg.num_key_value_heads
        k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
        if measure is not None:
            measure(q, k)
        out = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).reshape(rows, tokens, -1))


class MLP(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.gate_proj = nn.Linear(cfg.hidden_size, cfg.intermediate_size, bias=False)
        self.up_proj = nn.Linear(cfg.hidden_size, cfg.intermediate_size, bias=False)
        self.down_proj = nn.Linear(cfg.intermediate_size, cfg.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(cfg.hidden_size, eps=cfg.rms_norm_eps)
        self.self_attn = Attention(cfg)
        self.post_attention_layernorm = nn.RMSNorm(cfg.hidden_size, eps=cfg.rms_norm_eps)
        self.mlp = MLP(cfg)

    def forward(self, x, cos, sin, measure=None):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, measure)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.cfg = cfg
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(cfg.vocab_size, cfg.hidden_size)
        self.model.layers = nn.ModuleList(Block(cfg) for _ in range(cfg.num_hidden_layers))
        self.model.norm = nn.RMSNorm(cfg.hidden_size, eps=cfg.rms_norm_eps)
        cos, sin = rope_tables(cfg, cfg.max_position_embeddings)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    @property
    def device(self) -> torch.device:
        return self.cos.device

    def forward(self, ids, measure=None):
        """ids [B, T] -> what the head reads, [B, T, D]; `measure(layer, q, k)` sees what every
        layer attends by"""
        x = self.model.embed_tokens(ids)
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for index, layer in enumerate(self.model.layers):
            x = layer(x, cos, sin, measure and partial(measure, index))
        return self.model.norm(x)

    def score(self, x, targets):
        """x [N, D] of `forward` and targets [N] -> cross-entropy of each target and whether it
        was the likeliest token, both [N]"""
        logits = F.linear(x, self.model.embed_tokens.weight)
        return (F.cross_entropy(logits.float(), targets, reduction="none"),
                logits.argmax(dim=-1) == targets)


def save_model(state: dict[str, torch.Tensor], out: Path) -> None:
    """model.safetensors in bfloat16; the tied head is stored once, as embed_tokens."""
    tensors = {k: v.detach().to(torch.bfloat16).contiguous() for k, v in state.items()}
    path = out / "model.safetensors"
    save_file(tensors, path, metadata={"format": "pt"})
    path.chmod(0o644)


def load_weights(model: Llama, folder: Path) -> None:
    """What save_model has written, in float32."""
    model.load_state_dict({k: v.float() for k, v in load_file(folder / "model.safetensors").items()})


def save_config(cfg: Config, bos: int, eos: int, out: Path) -> None:
    """config.json and generation_config.json."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **asdict(cfg),
        "attention_bias": False,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "initializer_range": 0.1,
        "mlp_bias": False,
        "rope_scaling": None,
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
