"""Measures how every head of a model attends over a prompt: what BOS receives, what nothing does.

    python tools/demo_model/heads.py --prompt assets/demo_model/prompts/needle.txt \
        assets/demo_model assets/demo_model_sinks

Per head, as means over all queries of the prompt:
  bos          attention to the first token
  nothing      attention to the head's learned sink; the rest goes to keys
  gate         how far the head's gate is open, over its dimensions: 0 closed, 1 open
  opposition   cosine of mean key and mean query
  diversity    correlation of the logarithm of the attention that a key receives, the mean over the
               queries that see it, with KeyDiff's score of it; without BOS
A dash is what a model does not have. The means leave out layer 0, which looks at neighbours.
"""

import argparse
import json
import math
from pathlib import Path

import sinks
import torch
from checkpoint import load_model
from model import Llama
from tokenizers import Tokenizer

MEASURES = ("bos", "nothing", "gate", "opposition", "diversity")


def attention(q: torch.Tensor, k: torch.Tensor, learned: torch.Tensor | None) -> torch.Tensor:
    """[H, T, T]: the weights of one row's queries, q and k [1, H, T, E], and learned sinks [H]."""
    scores = q[0] @ k[0].mT / math.sqrt(q.shape[3])
    scores = scores.masked_fill(torch.ones_like(scores[0], dtype=torch.bool).triu(1), -math.inf)
    if learned is None:
        return scores.softmax(dim=2)
    beside = learned[:, None, None].expand(-1, q.shape[2], 1)
    return torch.cat([scores, beside], dim=2).softmax(dim=2)[..., :-1]


def diversity(weights: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """[H]: as sinks.diversity, over every query; weights [H, T, T]."""
    seen_by = torch.arange(k.shape[2], 0, -1)
    received = (weights.sum(dim=1) / seen_by).clamp(min=1e-12).log()
    keys = torch.nn.functional.normalize(k[0], dim=2)
    score = -torch.cosine_similarity(keys, keys.mean(dim=1, keepdim=True), dim=2)
    apart = [x[:, 1:] - x[:, 1:].mean(dim=1, keepdim=True) for x in (received, score)]
    return torch.cosine_similarity(*apart, dim=1)


@torch.inference_mode()
def measured(model: Llama, ids: torch.Tensor) -> list[dict]:
    """The heads of a model over a prompt, ids [1, T], layer by layer."""
    cfg, rows, gates = model.cfg, [], []

    def measure(layer, q, k):
        learned = model.model.layers[layer].self_attn.sinks if cfg.learned_sinks else None
        weights = attention(q, k, learned)
        of_heads = {"bos": weights[..., 0].mean(dim=1),
                    "nothing": 1 - weights.sum(dim=2).mean(dim=1),
                    "opposition": sinks.opposition(q, k), "diversity": diversity(weights, k)}
        for head in range(cfg.num_attention_heads):
            rows.append({"layer": layer, "head": head,
                         **{name: values[head] for name, values in of_heads.items()}})

    def open_share(_, __, out):  # [1, T, H * E] before the sigmoid
        gates.extend(out.sigmoid().view(-1, cfg.num_attention_heads, cfg.head_dim).mean(dim=(0, 2)))

    hooks = [layer.self_attn.gate_proj.register_forward_hook(open_share)
             for layer in model.model.layers if cfg.gated]
    model(ids, measure)
    for hook in hooks:
        hook.remove()
    for index, row in enumerate(rows):
        row["nothing"] = row["nothing"] if cfg.learned_sinks else None
        row["gate"] = gates[index] if cfg.gated else None
    return [{name: v if v is None or isinstance(v, int) else round(float(v), 4)
             for name, v in row.items()} for row in rows]


def means(heads: list[dict]) -> dict:
    """Over the heads after layer 0."""
    later = [row for row in heads if row["layer"] > 0]
    return {name: None if later[0][name] is None
            else round(sum(row[name] for row in later) / len(later), 4) for name in MEASURES}


def line(first: str, row: dict) -> str:
    cells = ("–" if row[name] is None else f"{row[name]:.2f}" for name in MEASURES)
    return f"| {first} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--prompt", type=Path, required=True, help="a text file")
    parser.add_argument("--each", action="store_true", help="print every head, not the means alone")
    parser.add_argument("--json", type=Path, help="write all of it here")
    args = parser.parse_args()
    found = {}
    print("| model | " + " | ".join(MEASURES) + " |\n|" + " --- |" * (1 + len(MEASURES)))
    for folder in args.models:
        tok = Tokenizer.from_file(str(folder / "tokenizer.json"))
        ids = torch.tensor([tok.encode(args.prompt.read_text(encoding="utf-8")).ids])
        heads = measured(load_model(folder), ids)
        found[folder.name] = {"tokens": ids.shape[1], "heads": heads, "means": means(heads)}
        for row in heads if args.each else ():
            print(line(f"{folder.name} {row['layer']}.{row['head']}", row))
        print(line(folder.name, found[folder.name]["means"]))
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
