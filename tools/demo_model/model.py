"""A small Llama in plain PyTorch, with the parameter names of Hugging Face, and two ways in which
its heads can attend to nothing. checkpoint.py says how each is stored.

Shapes below: B rows, T tokens, D hidden, H query heads, G key/value heads,
E head_dim, V vocabulary.
"""

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
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
    # A logit per query head joins the softmax, and what it takes goes to no value, as in gpt-oss.
    learned_sinks: bool = False
    # What a head found is multiplied by the sigmoid of a projection of the same input, as in
    # Qwen3-Next and Qwen3.5.
    gated: bool = False


# What `train.py --attention` may ask for.
ATTENTIONS = {"plain": {}, "learned-sinks": {"learned_sinks": True}, "gated": {"gated": True}}


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


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal softmax attention of q, k and v [B, H, T, E]."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def attend_with_sinks(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
                      sinks: torch.Tensor) -> torch.Tensor:
    """The same where head h may leave attention to a logit of its own, sinks [H].

    The logit is the score of one more key, at the front, whose value is zero: a coordinate that
    only it has, and that every query reads as one. So the fused kernels serve here as well; they
    want widths that are multiples of eight, equal in q, k and v, and a query for every key.
    """
    width, scale = q.shape[-1], q.shape[-1] ** -0.5
    q, k, v = (F.pad(x, (0, 8, 1, 0)) for x in (q, k, v))
    only_sink = torch.zeros_like(k)
    only_sink[..., 0, width] = (sinks / scale).to(k.dtype)
    ones = torch.zeros_like(q[0, 0, 0])
    ones[width] = 1
    out = F.scaled_dot_product_attention(q + ones, k + only_sink, v, is_causal=True, scale=scale)
    return out[..., 1:, :width]


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
        if cfg.learned_sinks:
            self.sinks = nn.Parameter(torch.zeros(cfg.num_attention_heads))
        if cfg.gated:
            self.gate_proj = nn.Linear(cfg.hidden_size, wide, bias=False)

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
        q, k = q.to(v.dtype), k.to(v.dtype)
        out = attend_with_sinks(q, k, v, self.sinks) if self.cfg.learned_sinks else attend(q, k, v)
        out = out.transpose(1, 2).reshape(rows, tokens, -1)
        if self.cfg.gated:
            out = out * self.gate_proj(x).sigmoid()
        return self.o_proj(out)


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
