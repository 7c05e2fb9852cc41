"""Writes retained_sets.json: which rows policies retain, by a float64 simulation of block eviction.

    python3 retained_sets.py

Written from the policies' definitions, not from the project's code: keys arrive in blocks of B, each KV head
scores the rows that it holds and keeps the N best in time order, ties to the lower position. Attention of the
block's last query is the softmax over the rows then present.
"""

import decimal
import json
import math
import pathlib

import pinned_blas  # noqa: F401, before NumPy
import numpy as np

from sample_rows import rows

# A cut closer than this to its neighbour could go either way in float32; such a case is not a test.
LEAST_GAP = 1e-6


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def keydiff(keys, options, **_):
    name, metric = options.get("anchor", "mean"), options.get("metric", "cosine")
    if name == "pairwise":
        return -(unit(keys) @ unit(keys).T).sum(axis=1)
    anchor = {"mean": lambda: keys.mean(axis=0), "normalized-mean": lambda: unit(keys).mean(axis=0),
              "median": lambda: np.median(keys, axis=0)}[name]()
    if metric == "dot":
        return -keys @ anchor
    if metric == "euclidean":
        return np.linalg.norm(keys - anchor, axis=1)
    return -unit(keys) @ anchor / np.linalg.norm(anchor)


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def tova(keys, options, last_queries, group, rows_of, **_):
    """Weights of the last query, mean over the KV head's group or over all query heads of the layer."""
    d = keys.shape[1]
    if options.get("heads", "group") == "group":
        return np.mean([softmax(keys @ q / math.sqrt(d)) for q in last_queries[group]], axis=0)
    weights = [softmax(rows_of[h] @ q / math.sqrt(d)) for h, queries in enumerate(last_queries) for q in queries]
    return np.mean(weights, axis=0)


def retain(scores, forced, budget):
    order = sorted(range(len(scores)), key=lambda i: (not forced[i], -scores[i], i))
    kept, evicted = sorted(order[:budget]), order[budget:]
    by_score = [scores[i] for i in kept if not forced[i]]
    lowest = min(by_score) if by_score else math.nan
    if by_score and evicted:
        gap = lowest - max(scores[i] for i in evicted)
        assert gap > LEAST_GAP * max(abs(lowest), 1e-3), f"ambiguous cut: {gap}"
    return kept, {i: lowest - scores[i] for i in evicted}


def simulate(policy, options, keys, queries, budget, block):
    """keys (H_kv, T, d), queries (H_kv, G, T, d) -> evicted_at and margins, each (H_kv, T)."""
    n_heads, n_tokens, _ = keys.shape
    present = [[] for _ in range(n_heads)]
    evicted_at = np.full((n_heads, n_tokens), -1)
    margins = np.full((n_heads, n_tokens), math.nan)
    for index, start in enumerate(range(0, n_tokens, block)):
        end = min(start + block, n_tokens)
        for held in present:
            held.extend(range(start, end))
        last_queries = queries[:, :, end - 1]
        rows_of = [keys[h][held] for h, held in enumerate(present)]
        if len(present[0]) <= budget:
            continue
        for h in range(n_heads):
            held = np.array(present[h])
            forced = np.zeros(len(held), dtype=bool)
            if policy == "keydiff":
                scores = keydiff(rows_of[h], options)
                share = decimal.Decimal(options.get("recent", "0")) * budget
                n_recent = int(share.quantize(decimal.Decimal(1), decimal.ROUND_HALF_UP))
                forced[len(held) - n_recent:] = True
            elif policy == "sink":
                scores = held.astype(np.float64)
                first = int(options.get("first", "4"))
                forced[:budget] = held[:budget] < first
            else:
                scores = tova(rows_of[h], options, last_queries, h, rows_of)
            kept, lost = retain(scores, forced, budget)
            for row, margin in lost.items():
                evicted_at[h, held[row]] = index
                margins[h, held[row]] = margin
            present[h] = held[kept].tolist()
    return evicted_at, margins


def main():
    shape = {"seed": 81, "kv_heads": 2, "group": 3, "tokens": 96, "head_dim": 16}
    n_heads, group, n_tokens, d = shape["kv_heads"], shape["group"], shape["tokens"], shape["head_dim"]
    keys = np.stack([rows(81 + h, n_tokens, d, 0.3) for h in range(n_heads)]).astype(np.float64)
    queries = np.stack([np.stack([rows(91 + h * group + g, n_tokens, d) for g in range(group)])
                        for h in range(n_heads)]).astype(np.float64) * 4
    policies = ["keydiff", "keydiff:anchor=normalized-mean", "keydiff:anchor=median", "keydiff:anchor=pairwise",
                "keydiff:metric=dot", "keydiff:metric=euclidean", "keydiff:anchor=median,metric=euclidean",
                "keydiff:recent=0.1", "keydiff:recent=0.25,anchor=normalized-mean", "keydiff:recent=1",
                "sink", "sink:first=0", "sink:first=40", "tova", "tova:heads=all"]
    cases = []
    for text in policies:
        name, _, rest = text.partition(":")
        options = dict(pair.split("=") for pair in rest.split(",") if pair)
        for budget, block in [(32, 16), (24, 7), (10, 1), (30, 96), (3, 5)]:
            # One retained set a layer only while every head holds the same rows.
            evicted_at, margins = simulate(name, options, keys, queries, budget, block)
            known = [[None if math.isnan(m) else float(f"{m:.9g}") for m in head] for head in margins]
            case = {"policy": text, "budget": budget, "block": block, "evicted_at": evicted_at.tolist()}
            if block == 16:
                case["margin"] = known
            cases.append(case)
    path = pathlib.Path(__file__).with_name("retained_sets.json")
    path.write_text(json.dumps({"numpy": np.__version__, "shape": shape, "cases": cases},
                               separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
