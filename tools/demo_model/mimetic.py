"""Initial weights that already lean towards look-up.

The idea is mimetic initialisation (Trockman & Kolter 2023, arXiv 2305.09828):
begin with the structure that trained attention ends up with. Here:

* All embeddings share one direction. Layer 0 turns it, by RoPE alone, into heads
  that look 1 to 6 tokens back whatever the tokens are, and two that gather the last
  few and the last dozen; each writes what it finds into a slot of the hidden state.
* Layer 1 compares several slots at once: a query's "token i back" meets a key's
  "token i + 1 back", so attention falls on what followed the same words earlier.
* Later layers have W_q = W_k, so that a token attends to those like it.

The MLPs begin at zero output. Learned sinks begin at a logit of zero; gates begin half open, and
the output behind them twice as large, so that the model begins as one without them. All of this
is only a start: every weight is trained.
"""

import math

import torch
from model import Config, Llama
from torch.nn import functional as F

EMBED_STD = 0.1
SHARED = 0.7  # length of the shared direction, against the rest of an embedding
SLOT = 24  # dimensions in which layer 0 writes what one head finds
# What each query head of layer 0 looks at: a number of tokens back, or a stretch of them.
NEAR, WIDE = "the last few", "the last dozen"
LOOK = (1, 2, 3, 4, 5, 6, NEAR, WIDE)
# Per key head of layer 1 the slots that it compares: (the query's, the key's).
SELF = 0
ASK = (
    ((SELF, 1), (1, 2), (2, 3), (3, 4)),
    ((2, 3), (3, 4), (4, 5), (5, 6)),
    ((SELF, 1), (NEAR, NEAR), (WIDE, WIDE)),
    ((WIDE, WIDE), (NEAR, NEAR)),
)


class _Normal:
    """Seeded Gaussian matrices."""

    def __init__(self, seed: int):
        self.gen = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int, std: float) -> torch.Tensor:
        return torch.randn(*shape, generator=self.gen) * std


def _slow_dims(cfg: Config, pairs: int) -> torch.Tensor:
    """Indices [2 * pairs] of the head dimensions that RoPE turns slowest."""
    half = cfg.head_dim // 2
    low = torch.arange(half - pairs, half)
    return torch.cat([low, low + half])


def _pattern(cfg: Config, look) -> tuple[torch.Tensor, torch.Tensor]:
    """Per RoPE pair [E / 2] the size of a query of layer 0, and the angle by which it lags."""
    freq = cfg.rope_theta ** (-torch.arange(0, cfg.head_dim, 2) / cfg.head_dim)
    size = torch.zeros(cfg.head_dim // 2)
    root = math.sqrt(cfg.head_dim)
    if look == NEAR:
        size[1:4], back = 3 * root, 2.5  # the middle turns blur neighbours
    elif look == WIDE:
        size[2:5], back = 3 * root, 6.0
    else:
        size[:6], back = 8 * root, look  # the fastest turns tell neighbours apart
    return size, back * freq


def _look_back(attn, cfg: Config, unit, content, slots, normal) -> None:
    """Layer 0. `unit` [D] reads 1 off every token, `content` [SLOT, D] reads what a
    token is, `slots[look]` [SLOT, D] is where what a head finds is written."""
    e, d, share = cfg.head_dim, cfg.hidden_size, cfg.num_attention_heads // cfg.num_key_value_heads
    reach = math.sqrt(8 * math.sqrt(e))
    key = torch.cat([torch.full((e // 2,), reach), torch.zeros(e // 2)])
    noise = 0.2 * d**-0.5
    for head, look in enumerate(LOOK):
        group = head // share
        size, lag = _pattern(cfg, look)
        query = torch.cat([size * lag.cos(), -size * lag.sin()])
        rows, kv = slice(head * e, (head + 1) * e), slice(group * e, (group + 1) * e)
        attn.q_proj.weight[rows] = torch.outer(query / reach, unit) + normal(e, d, std=noise)
        attn.k_proj.weight[kv] = torch.outer(key, unit) + normal(e, d, std=noise)
        value = torch.zeros(e, d)
        value[:SLOT] = content
        attn.v_proj.weight[kv] = value + normal(e, d, std=noise)
        out = torch.zeros(d, e)
        out[:, :SLOT] = (0.35 if isinstance(look, int) else 0.6) * slots[look].T
        attn.o_proj.weight[:, rows] = out


def _match(attn, cfg: Config, content, slots, rest, normal) -> None:
    """Layer 1. Compares the slots of ASK, each through a mixer of its own, so that matches
    add up; values carry the token itself out of `rest` [n, D]."""
    e, d, share = cfg.head_dim, cfg.hidden_size, cfg.num_attention_heads // cfg.num_key_value_heads
    slow = _slow_dims(cfg, pairs=11)
    noise = 0.1 * d**-0.5
    for group, pairs in enumerate(ASK):
        asked, held = torch.zeros(e, d), torch.zeros(e, d)
        for query, key in pairs:
            mixer = torch.linalg.qr(normal(e, e, std=1.0)).Q[: len(slow), :SLOT]
            size = 2.0 * math.sqrt(2 / len(pairs))
            asked[slow] += size * mixer @ (2.0 * content if query == SELF else slots[query])
            held[slow] += size * mixer @ slots[key]
        kv = slice(group * e, (group + 1) * e)
        attn.k_proj.weight[kv] = held + normal(e, d, std=noise)
        value = torch.zeros(e, d)
        part = rest[group % 2 :: 2][:e]
        value[: len(part)] = part
        attn.v_proj.weight[kv] = value + normal(e, d, std=noise)
        for head in range(group * share, (group + 1) * share):
            rows = slice(head * e, (head + 1) * e)
            attn.q_proj.weight[rows] = asked + normal(e, d, std=noise)
            attn.o_proj.weight[:, rows] = 0.1 * value.T


def _alike(attn, cfg: Config, shared, normal) -> None:
    """Later layers. W_q = W_k, blind to the shared direction."""
    e, d, h, g = cfg.head_dim, cfg.hidden_size, cfg.num_attention_heads, cfg.num_key_value_heads
    w = normal(g, e, d, std=d**-0.5)
    w -= (w @ shared).unsqueeze(-1) * shared
    attn.k_proj.weight.copy_(w.reshape(g * e, d))
    attn.q_proj.weight.copy_(w.repeat_interleave(h // g, dim=0).reshape(h * e, d))
    attn.v_proj.weight.copy_(normal(g * e, d, std=d**-0.5))
    attn.o_proj.weight.copy_(normal(d, h * e, std=0.03 * (h * e) ** -0.5))


@torch.no_grad()
def mimetic_init(model: Llama, seed: int) -> None:
    """Sets every weight of `model`."""
    cfg, normal = model.cfg, _Normal(seed)
    d = cfg.hidden_size
    basis = torch.linalg.qr(normal(d, d, std=1.0)).Q.T  # orthonormal rows
    shared = basis[0]
    slots = {look: basis[1 + i * SLOT : 1 + (i + 1) * SLOT] for i, look in enumerate(LOOK)}
    rest = basis[1 + len(slots) * SLOT :]
    content = torch.linalg.qr(basis[1:].T @ normal(d - 1, SLOT, std=1.0)).Q.T
    table = normal(cfg.vocab_size, d, std=EMBED_STD)
    table -= torch.outer(table @ shared, shared)
    table = F.normalize(table, dim=1) * EMBED_STD * math.sqrt(d)
    table += SHARED * EMBED_STD * math.sqrt(d) * shared
    model.model.embed_tokens.weight.copy_(table)
    along = SHARED / math.sqrt(1 + SHARED**2) * math.sqrt(d)  # of a normed embedding
    for index, layer in enumerate(model.model.layers):
        layer.mlp.gate_proj.weight.copy_(normal(cfg.intermediate_size, d, std=d**-0.5))
        layer.mlp.up_proj.weight.copy_(normal(cfg.intermediate_size, d, std=d**-0.5))
        layer.mlp.down_proj.weight.zero_()
        if index == 0:
            _look_back(layer.self_attn, cfg, shared / along, content, slots, normal)
        elif index == 1:
            _match(layer.self_attn, cfg, content, slots, rest, normal)
        else:
            _alike(layer.self_attn, cfg, shared, normal)
        if cfg.learned_sinks:
            layer.self_attn.sinks.zero_()
        if cfg.gated:
            layer.self_attn.gate_proj.weight.zero_()
            layer.self_attn.o_proj.weight.mul_(2)
