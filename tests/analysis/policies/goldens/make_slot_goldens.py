"""Writes slots.json: which positions stay under protect, granularity and split, given every head's scores.

    python3 make_slot_goldens.py

Needs NumPy alone; everything that is compared or rounded is an exact fraction. Scores are multiples of 2^-20, or of
2^-4 in the case that has ties, so that their sums are exact in double precision; where scores are averaged, no cut of
the file is a tie (asserted). All heads of a case hold the same positions. `budgets` are the rows that a head of each
layer keeps, `protected` the positions that go in first, in that order, `retained` the positions that stay, per layer
and head; per layer alone where its heads hold one set.

What the slots mean, N the budget, n the rows that a head holds, T the prompt's tokens:

protect: parts joined by +. `sinks:K`: positions below K. `recent:R`: the last R rows; below 1, the share R of N, half
up. `boundaries:p`: r = p·N, half up: positions below ceil(r/2), and the floor(r/2) last rows of the prompt that are
left. They go in before all others and count within N, in the order sinks and the beginning (lowest first), recent
rows, the prompt's end (both latest first), until N are in; which N is the run's own, also where a split gives a layer
another, and a layer with fewer takes as many of them as fit.

granularity: `head`, by a head's own scores. `layer`, `model`: one set, by the mean over the layer's heads, over all
heads. `page:S`: per layer, page = position div S, its score the mean over its rows of the layer's mean scores. The
page of the last row, while positions of it are to come, goes in first; then pages with a protected row, in the order
of those; then by score, ties to the lower page. max(1, N div S) pages stay, with whatever rows they have.

split: `uniform`, N everywhere. `adakv` (arXiv 2407.11550): each head of a layer keeps its first ceil(N/5) rows, or its
protected ones if they are more; of the H·N rows of the layer's H heads, the others are the best of all heads, ties to
the lower position, then the lower head; granularity `head` alone. `pyramid` (arXiv 2406.02069): the layers' budgets
fall in equal steps from w + a to w + b, w the protected rows, a = min(2(N - w) - (N - w)/20, T - w),
b = 2(N - w) - a. That is the authors' code, where the window is what is protected and comes on top, the cap at the
prompt included (kvpress counts its window within a and b, and falls back to equal budgets where b < window). `cake`
(arXiv 2503.12491): every layer has max(w, 1) rows, and what is left of L·N goes by H^(1/τ1)·V^(1/τ2), up to the rows
that a layer holds (here T); what a full layer cannot take goes to the others by the same shares; of pages, pages are dealt
out. H: entropy (nats) of a query head's
attention, mean over the window, summed over the layer's query heads; V: variance over the window's queries, summed
over rows and query heads. All shares equal where all are 0, as with a window of one query. The paper tunes τ1 and τ2
a model and a budget; 1.6 and 0.4 are its Llama-3.1-8B at 1024 rows. Its code sums the entropies of single queries
and leaves the window's own rows out of both.

Budgets are rounded down, and the rows that are missing from L·N go to the largest remainders, ties to the lower
layer; a layer that would have none takes one of the layer with the most, ties to the lower. A head with no more rows
than its budget keeps them all.
"""

import decimal
import json
import math
import pathlib
import sys
from fractions import Fraction

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "goldens"))
import pinned_blas  # noqa: F401, E402, before NumPy
import numpy as np  # noqa: E402

from sample_rows import uniform  # noqa: E402

SEED = 2411
N_LAYERS, N_HEADS, WINDOW = 4, 3, 8
TAU1, TAU2 = 1.6, 0.4


def half_up(share, n):
    return int((decimal.Decimal(share) * n).quantize(decimal.Decimal(1), decimal.ROUND_HALF_UP))


def protected_rows(protect, positions, n_prompt, budget):
    """Rows that go in first, in that order, at most `budget`."""
    n = len(positions)
    sinks, beginning, recent, end = [], [], [], []
    for part in protect.split("+") if protect != "none" else []:
        kind, value = part.split(":")
        if kind == "sinks":
            sinks = [j for j in range(n) if positions[j] < int(value)]
        elif kind == "recent":
            count = half_up(value, budget) if decimal.Decimal(value) < 1 else int(value)
            recent = list(range(n))[::-1][:count]
        else:
            r = half_up(value, budget)
            beginning = [j for j in range(n) if positions[j] < r - r // 2]
            end = [j for j in range(n) if positions[j] < n_prompt][::-1][:r // 2]
    return list(dict.fromkeys(sinks + beginning + recent + end))[:budget]


def rounded(wanted, total):
    """Largest remainders; a layer that would have none has one row of the richest."""
    budgets = [math.floor(x) for x in wanted]
    for layer in sorted(range(len(wanted)), key=lambda i: (budgets[i] - wanted[i], i))[:total - sum(budgets)]:
        budgets[layer] += 1
    while 0 in budgets:
        budgets[budgets.index(max(budgets))] -= 1
        budgets[budgets.index(0)] += 1
    assert sum(budgets) == total
    return budgets


def pyramid(budget, w, n_prompt, n_layers):
    free = Fraction(budget - w)
    first = min(2 * free - free / 20, Fraction(n_prompt - w))
    last = 2 * free - first
    return rounded([w + first - layer * (first - last) / (n_layers - 1) for layer in range(n_layers)],
                   n_layers * budget)


def cake_shares(attention):
    """attention (window, n) of query heads, by layer -> H^(1/τ1) V^(1/τ2) a layer."""
    shares = []
    for layer in attention:
        entropy = -sum(a * math.log(a) for head in layer for a in head.mean(axis=0) if a > 0)
        shares.append(entropy ** (1 / TAU1) * sum(head.var(axis=0).sum() for head in layer) ** (1 / TAU2))
    return shares


def dealt_by_shares(shares, budget, w, held):
    """What each layer wants of L·N rows, as fractions, and which of them have all that they hold; held: a layer."""
    shares = [Fraction(s) for s in shares]
    n_layers, base = len(shares), max(w, 1)
    full = set()
    while True:
        open_layers = [layer for layer in range(n_layers) if layer not in full]
        left = n_layers * budget - sum(held[layer] for layer in full) - len(open_layers) * base
        asked = sum(shares[layer] for layer in open_layers)
        wanted = [Fraction(held[layer]) if layer in full else
                  base + (left * shares[layer] / asked if asked else Fraction(left, len(open_layers)))
                  for layer in range(n_layers)]
        over = {layer for layer, x in enumerate(wanted) if x > held[layer]}
        if not over:
            return wanted, full
        full |= over


def cake(budget, w, n_prompt, attention, size):
    """Rows, or whole pages of `size`, of which w and what a layer holds are rounded up, and N down."""
    shares, pages = cake_shares(attention), max(1, budget // size)
    wanted, _ = dealt_by_shares(shares, pages, -(-w // size), [-(-n_prompt // size)] * len(shares))
    return [size * n for n in rounded(wanted, len(shares) * pages)]


def best(scores, first, budget):
    """Rows: those of `first`, then by score, ties to the lower row; in time order."""
    first = first[:budget]
    others = sorted(set(range(len(scores))) - set(first), key=lambda j: (-scores[j], j))
    return sorted(first + others[:budget - len(first)])


def apart(scores, first, budget):
    """`best`, where no tie decides."""
    kept = best(scores, first, budget)
    by_score = [scores[j] for j in kept if j not in first]
    gone = [scores[j] for j in range(len(scores)) if j not in kept]
    assert not by_score or not gone or min(by_score) - max(gone) > 1e-9
    return kept


def pages(scores, positions, first, budget, size):
    rows_of = {}
    for j, position in enumerate(positions):
        rows_of.setdefault(position // size, []).append(j)
    by_page = {page: sum(scores[j] for j in rows) / len(rows) for page, rows in rows_of.items()}
    filling = [positions[-1] // size] if (positions[-1] + 1) % size else []
    ahead = list(dict.fromkeys(filling + [positions[j] // size for j in first]))
    others = sorted(set(rows_of) - set(ahead), key=lambda page: (-by_page[page], page))
    n_pages = max(1, budget // size)
    cut = n_pages - len(ahead)
    assert not 0 < cut < len(others) or by_page[others[cut - 1]] - by_page[others[cut]] > 1e-9
    return sorted(j for page in (ahead + others)[:n_pages] for j in rows_of[page])


def adakv(scores, first, budget):
    """scores (H, n) of a layer -> rows per head."""
    n_heads, n = scores.shape
    order = [first + sorted(set(range(n)) - set(first), key=lambda j: (-head[j], j)) for head in scores]
    own = max(math.ceil(Fraction(budget, 5)), len(first))
    kept = [rows[:own] for rows in order]
    others = sorted(((h, j) for h, rows in enumerate(order) for j in rows[own:]),
                    key=lambda hj: (-scores[hj], hj[1], hj[0]))
    for h, j in others[:n_heads * budget - sum(len(rows) for rows in kept)]:
        kept[h].append(j)
    return [sorted(rows) for rows in kept]


def exact_mean(scores, axes):
    """Mean over layers and heads, as fractions."""
    flat = scores.reshape(-1, scores.shape[-1])
    assert scores.ndim == axes + 1
    return [sum(Fraction(float(s)) for s in column) / len(flat) for column in flat.T]


def layer_set(scores, positions, first, budget, granularity, split):
    """Rows that stay of one layer: a list a head, or one list."""
    if scores.shape[1] <= budget:
        every = list(range(scores.shape[1]))
        return every if granularity != "head" else [every] * len(scores)
    if granularity == "head":
        return adakv(scores, first, budget) if split == "adakv" else [best(s, first, budget) for s in scores]
    mean = exact_mean(scores, 1)
    if granularity == "layer":
        return apart(mean, first, budget)
    return pages(mean, positions, first, budget, int(granularity.split(":")[1]))


def selected(case, protect, granularity, split, budget):
    scores, positions, n_prompt = case["scores"], case["positions"], case["n_prompt"]
    first = protected_rows(protect, positions, n_prompt, budget)
    budgets = [budget] * N_LAYERS
    if split == "pyramid":
        budgets = pyramid(budget, len(first), n_prompt, N_LAYERS)
    elif split == "cake":
        size = int(granularity.split(":")[1]) if granularity.startswith("page") else 1
        budgets = cake(budget, len(first), n_prompt, case["attention"], size)
    if granularity == "model":
        mean = exact_mean(scores, 2)
        sets = [apart(mean, first, budget) if len(positions) > budget else list(range(len(positions)))] * N_LAYERS
    else:
        sets = [layer_set(scores[i], positions, first, budgets[i], granularity, split) for i in range(N_LAYERS)]
    at = [[[positions[j] for j in rows] for rows in each] if granularity == "head" else [positions[j] for j in each]
          for each in sets]
    return {"protect": protect, "granularity": granularity, "split": split, "budget": budget, "budgets": budgets,
            "protected": [positions[j] for j in first], "retained": at}


PROTECTIONS = ["none", "sinks:4", "recent:8", "recent:0.1", "boundaries:0.2", "sinks:4+recent:0.1",
               "sinks:4+boundaries:0.3+recent:5", "recent:1+boundaries:1"]
LAYERED = ["head", "layer", "page:16"]


def combinations(case):
    ties, with_attention = case["ties"], case["attention"] is not None
    for budget in case["rows"]:
        for protect in PROTECTIONS:
            yield protect, "head", "uniform", budget
            yield protect, "head", "adakv", budget
            if not ties and protect in ("none", "sinks:4", "boundaries:0.2", "sinks:4+recent:0.1"):
                for granularity in ("layer", "page:16", "page:8", "model"):
                    yield protect, granularity, "uniform", budget
        for protect in ("none", "sinks:4+recent:0.1"):
            for split in ("pyramid", "cake") if with_attention else ("pyramid",):
                for granularity in LAYERED if not ties else ["head"]:
                    yield protect, granularity, split, budget


def make_case(name, seed, positions, n_prompt, budgets, bits=20, attention=False):
    n = len(positions)
    scores = np.floor(uniform(seed, N_LAYERS * N_HEADS * n) * 2**bits) / 2**bits - 0.5
    scores = scores.reshape(N_LAYERS, N_HEADS, n)
    weights = None
    if attention:
        # Sharper from layer to layer, so that the layers' shares differ.
        logits = uniform(seed + 1, N_LAYERS * N_HEADS * WINDOW * n).reshape(N_LAYERS, N_HEADS, WINDOW, n)
        logits = logits * np.array([1.0, 6.0, 5.0, 7.0])[:, None, None, None]
        e = np.exp(logits)
        weights = np.round(e / e.sum(axis=-1, keepdims=True), 5)
    return {"name": name, "positions": list(positions), "n_prompt": n_prompt, "scores": scores, "attention": weights,
            "rows": budgets, "ties": bits < 20}


def gaps(seed, n, n_positions):
    return sorted((np.argsort(uniform(seed, n_positions))[:n]).tolist())


def main():
    cases = [
        make_case("prompt under way", SEED, range(96), 400, [24, 25, 48, 95, 96]),
        make_case("rows gone before, tokens generated", SEED + 10, gaps(SEED + 9, 70, 300), 280, [16, 33, 40]),
        make_case("ties", SEED + 20, gaps(SEED + 19, 60, 90), 90, [10, 30], bits=4),
        make_case("attention", SEED + 30, range(64), 64, [16, 30, 40], attention=True),
        make_case("few rows", SEED + 40, [3, 9], 10, [1]),
    ]
    written = []
    for case in cases:
        policies = [selected(case, *slots) for slots in combinations(case)]
        entry = {key: case[key] for key in ("name", "positions", "n_prompt")}
        entry["scores"] = case["scores"].tolist()
        if case["attention"] is not None:
            entry["attention"] = case["attention"].tolist()
            entry["cake_shares"] = [float(f"{s:.10g}") for s in cake_shares(case["attention"])]
        written.append(entry | {"policies": policies})
    golden = {"numpy": np.__version__, "seed": SEED, "layers": N_LAYERS, "heads": N_HEADS, "tau1": TAU1,
              "tau2": TAU2, "cases": written}
    path = pathlib.Path(__file__).with_name("slots.json")
    path.write_text(json.dumps(golden, separators=(",", ":"), allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
