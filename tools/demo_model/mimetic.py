"""Initial weights that already lean towards look-up.

The idea is mimetic initialisation (Trockman & Kolter 2023, arXiv 2305.09828):
begin with the structure that trained attention ends up with. Here:

* All embeddings share one direction. Layer 0 turns it, by RoPE alone, into heads
  that look 1, 2, 3 and 4 tokens back whatever the tokens are, and writes what it
  finds into one subspace of the hidden state for each distance.
* Layer 1 has W_q = W_k but for the distance: a query's "token i back" meets a key's
  "token i + 1 back", so attention falls on what followed the same words earlier.
* Later layers have W_q = W_k, so that a token attends to those like it.

The MLPs begin at zero output. All of this is only a start: every weight is trained.
"""

import math

import torch
from model import Config, Llama
from torch.nn import functional as F

EMBED_STD = 0.1
SHARED = 0.7  # length of the shared direction, against the rest of an embedding
LOOK = (1, 2, 3, 4, 5, 6, 3, 4)  # how far back each query head of layer 0 looks
SLOT = 21  # dimensions in which layer 0 writes the token at one distance
# How far back the two query heads of each key head of layer 1 look; keys look one further.
ASK = ((2, 2), (3, 3), (0, 4), (1, 5))


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


def _look_back(attn, cfg: Config, unit, content, slots, normal) -> None:
    """Layer 0. `unit` [D] reads 1 off every token, `content` [SLOT, D] reads what a
    token is, `slots[i]` [SLOT, D] is where the token i back is written."""
    e, d, share = cfg.head_dim, cfg.hidden_size, cfg.num_attention_heads // cfg.num_key_value_heads
    size = torch.zeros(e // 2)
    size[:6] = math.sqrt(8 * math.sqrt(e))  # the fastest turns tell neighbours apart
    freq = cfg.rope_theta ** (-torch.arange(0, e, 2) / e)
    key = torch.cat([size, torch.zeros(e // 2)])
    noise = 0.2 * d**-0.5
    for head, back in enumerate(LOOK):
        group = head // share
        query = torch.cat([size * (back * freq).cos(), -size * (back * freq).sin()])
        rows, kv = slice(head * e, (head + 1) * e), slice(group * e, (group + 1) * e)
        attn.q_proj.weight[rows] = torch.outer(query, unit) + normal(e, d, std=noise)
        attn.k_proj.weight[kv] = torch.outer(key, unit) + normal(e, d, std=noise)
        value = torch.zeros(e, d)
        value[:SLOT] = content
        attn.v_proj.weight[kv] = value + normal(e, d, std=noise)
        out = torch.zeros(d, e)
        out[:, :SLOT] = 0.35 / LOOK.count(back) * slots[back].T
        attn.o_proj.weight[:, rows] = out


def _match(attn, cfg: Config, content, slots, rest, normal) -> None:
    """Layer 1. A query's token `back` tokens back (0: the token itself) meets the
    key's token `back` + 1 back; values carry the token itself out of `rest` [n, D]."""
    e, d, share = cfg.head_dim, cfg.hidden_size, cfg.num_attention_heads // cfg.num_key_value_heads
    slow = _slow_dims(cfg, pairs=10)
    noise = 0.1 * d**-0.5
    for group, backs in enumerate(ASK):
        mixer = torch.linalg.qr(normal(e, e, std=1.0)).Q[: len(slow), :SLOT]
        read = torch.zeros(e, d)
        for back in set(backs):
            read[slow] += 2.0 * mixer @ slots[back + 1]
        kv = slice(group * e, (group + 1) * e)
        attn.k_proj.weight[kv] = read + normal(e, d, std=noise)
        value = torch.zeros(e, d)
        part = rest[group % 2 :: 2][:e]
        value[: len(part)] = part
        attn.v_proj.weight[kv] = value + normal(e, d, std=noise)
        for head, back in enumerate(backs, start=group * share):
            rows = slice(head * e, (head + 1) * e)
            read = torch.zeros(e, d)
            read[slow] = 2.0 * mixer @ (slots[back] if back else 2.0 * content)
            attn.q_proj.weight[rows] = read + normal(e, d, std=noise)
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
    slots = {back: basis[1 + (back - 1) * SLOT : 1 + back * SLOT] for back in set(LOOK)}
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
