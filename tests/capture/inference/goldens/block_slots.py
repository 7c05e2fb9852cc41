"""Which rows stay under protect, granularity and split, in caches whose heads have come to hold rows of their own.

The definitions are those of make_slot_goldens.py (tests/analysis/policies/goldens), whose functions decide wherever
all heads hold the same rows; what is added here is heads that do not, rows that a scorer keeps by itself, and margins.

Under `critical` (CriticalKV) values weigh as well: of what is kept, rows, pages, or a layer's rows under `adakv`, half
(rounded down, at least one) is what goes in first and then the best by score; the rest are the best by
(s + 1e-4)·norm. Norms are ‖W_O v‖₁, of rows or pages that are one the mean, as of scores; `shift` takes the least score
from s, under `adakv` that of the layer.

A scorer's own rows go in after the protected ones, in the scorer's order; where heads decide together, those that all
of them keep. A choice gives the rows that stay, by head; the scores that it compared, by head; and the lowest score
with which any row stayed because of it, None where none did.
"""

import dataclasses
import math
import pathlib
import sys
from fractions import Fraction

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "analysis" / "policies" / "goldens"))
import make_slot_goldens as slots  # before NumPy: it pins its threads
import numpy as np


@dataclasses.dataclass
class Choice:
    kept: list
    judged: list
    lowest: float | None
    calls: list  # of a score that stayed and the best one that went


def chosen(scores, first, n):
    """The n best with `first` ahead of them, what the lowest of them had, and the best of the others."""
    kept = slots.best(scores, first, n)
    by_score = [scores[j] for j in kept if j not in first[:n]]
    gone = [scores[j] for j in range(len(scores)) if j not in kept]
    return kept, min(by_score, default=None), max(gone, default=None)


@dataclasses.dataclass
class Critical:
    how: str
    norms: list  # by head


def product(scores, norms, how, least):
    return (np.array(scores) - (least if how == "shift" else 0) + 1e-4) * norms


def ranked(scores, first, n, how, norms):
    """As `chosen`, with the scores that the choice went by in the end and its calls."""
    if how is None or len(scores) <= n:
        kept, lowest, best_gone = chosen(scores, first, n)
        return kept, scores, lowest, [(lowest, best_gone)]
    first, calls = first[:n], []
    n_half = max(1, n // 2)
    if len(first) < n_half:
        half, *call = chosen(scores, first, n_half)
        calls.append(tuple(call))
        first = first + [j for j in half if j not in first]
    products = product(scores, norms, how, min(scores))
    kept, lowest, best_gone = chosen(products, first, n)
    return kept, products, lowest, calls + [(lowest, best_gone)]


def by_head(scores, first, budget, critical):
    kept, judged, lowest, calls = ranked(scores, first, budget, critical.how, critical.norms[0])
    return Choice([kept], [judged], lowest, calls)


def common(first):
    """Of what each head puts in first, the rows that all of them do."""
    return [j for j in first[0] if all(j in others for others in first)]


def together(scores, first, budget, critical):
    """One set for all these heads, by their mean."""
    kept, judged, lowest, calls = ranked(np.mean(scores, axis=0), common(first), budget, critical.how,
                                         np.mean(critical.norms, axis=0))
    return Choice([kept] * len(scores), [judged] * len(scores), lowest, calls)


def n_pages(budget, size):
    return max(1, budget // size)


def by_page(scores, first, budget, positions, size, critical):
    page_of = [p // size for p in positions]
    pages, mean, norm = sorted(set(page_of)), np.mean(scores, axis=0), np.mean(critical.norms, axis=0)
    of_pages = lambda x: np.array([np.mean([x[j] for j in range(len(x)) if page_of[j] == page]) for page in pages])
    filling = [page_of[-1]] if (positions[-1] + 1) % size else []
    ahead = dict.fromkeys(filling + [page_of[j] for j in common(first)])
    kept, page_scores, lowest, calls = ranked(of_pages(mean), [pages.index(page) for page in ahead],
                                              n_pages(budget, size), critical.how, of_pages(norm))
    rows = [j for j in range(len(mean)) if pages.index(page_of[j]) in kept]
    judged = np.array([page_scores[pages.index(page)] for page in page_of])
    return Choice([rows] * len(scores), [judged] * len(scores), lowest, calls)


def adakv(scores, first, budget, positions, critical):
    """A share of every head, and the rest of the layer's rows by the best of all heads."""
    if critical.how:
        return critical_adakv(scores, first, budget, positions, critical)
    floor = math.ceil(Fraction(budget, 5))
    order = [ahead + sorted(set(range(len(own))) - set(ahead), key=lambda j: (-own[j], j))
             for own, ahead in zip(scores, first)]
    kept = [rows[:max(floor, len(ahead))] for rows, ahead in zip(order, first)]
    others = sorted(((h, j) for h, rows in enumerate(order) for j in rows[len(kept[h]):]),
                    key=lambda hj: (-scores[hj[0]][hj[1]], positions[hj[0]][hj[1]], hj[0]))
    n_others = len(scores) * budget - sum(map(len, kept))
    score_of = lambda hj: scores[hj[0]][hj[1]]
    lowest = min(map(score_of, others[:n_others]), default=None)
    calls = [(lowest, max(map(score_of, others[n_others:]), default=None))]
    for h, j in others[:n_others]:
        kept[h].append(j)
    for own, rows, ahead in zip(scores, kept, first):  # where a head stops at its share, that is a cut of its own
        calls.append((min((own[j] for j in rows if j not in ahead), default=None),
                      max((own[j] for j in range(len(own)) if j not in rows), default=None)))
    return Choice([sorted(rows) for rows in kept], scores, lowest, calls)


def critical_adakv(scores, first, budget, positions, critical):
    """Likewise, with half of the layer's rows by score, shares included, and the others by the product."""
    floor, total = math.ceil(Fraction(budget, 5)), len(scores) * budget
    least = min(min(own) for own in scores)
    products = [product(own, norms, critical.how, least) for own, norms in zip(scores, critical.norms)]
    kept, calls = [], []
    for own, ahead in zip(scores, first):
        rows, *call = chosen(own, ahead, max(floor, len(ahead)))
        kept.append(rows)
        calls.append(tuple(call))
    lowest = None
    for judged, n in ((scores, max(1, total // 2)), (products, total)):
        others = sorted(((h, j) for h, own in enumerate(scores) for j in range(len(own)) if j not in kept[h]),
                        key=lambda hj: (-judged[hj[0]][hj[1]], positions[hj[0]][hj[1]], hj[0]))
        n = max(0, n - sum(map(len, kept)))
        score_of = lambda hj: judged[hj[0]][hj[1]]
        lowest = min(map(score_of, others[:n]), default=None)
        calls.append((lowest, max(map(score_of, others[n:]), default=None)))
        for h, j in others[:n]:
            kept[h].append(j)
    return Choice([sorted(rows) for rows in kept], products, lowest, calls)


def exceeds(n_rows, budget, granularity, split):
    """Whether heads that decide together, and hold so many rows each, have to be cut."""
    if split == "adakv":
        return sum(n_rows) > len(n_rows) * budget
    if granularity.startswith("page"):
        size = int(granularity.split(":")[1])
        return n_rows[0] > n_pages(budget, size) * size
    return n_rows[0] > budget


def choose(scores, first, budget, positions, granularity, split, critical):
    """All lists are by head, of heads that decide together: one under `head`, a layer's, or all."""
    if split == "adakv":
        return adakv(scores, first, budget, positions, critical)
    if granularity == "head":
        (own,), (ahead,) = scores, first
        return by_head(own, ahead, budget, critical)
    assert all(p == positions[0] for p in positions)
    if granularity.startswith("page"):
        return by_page(scores, first, budget, positions[0], int(granularity.split(":")[1]), critical)
    return together(scores, first, budget, critical)


def layer_budgets(options, budget, n_prompt, n_layers):
    """Of the layers with a cache of their own; decided before the run, of a cache that is full of the first rows."""
    if options.get("split") != "pyramid":
        return [budget] * n_layers
    w = len(slots.protected_rows(options.get("protect", "none"), range(budget), n_prompt, budget))
    return slots.pyramid(budget, w, n_prompt, n_layers)


def file_budgets(options, weights, budget, n_heads):
    """By layer, n_heads: how many KV heads it has. Of a weight for each layer, or of a list of one for each KV head, as
    many rows as its share of all says: of each head by itself, or of a layer whose heads share a set."""
    of_heads = {layer: weights[layer] if isinstance(weights[layer], list) else [weights[layer]] * n
                for layer, n in n_heads.items()}
    if options.get("granularity", "head") != "head":
        assert all(len(set(own)) == 1 for own in of_heads.values())
        of_heads = {layer: own[:1] for layer, own in of_heads.items()}
    flat = [Fraction(str(x)) for own in of_heads.values() for x in own]
    dealt = iter(slots.rounded([x * len(flat) * budget / sum(flat) for x in flat], len(flat) * budget))
    return {layer: [next(dealt) for _ in own] * (n_heads[layer] // len(own)) for layer, own in of_heads.items()}


def rows_ahead(options, positions, n_prompt, run_budget, of_scorer, budget):
    """Protected rows, of the run's budget; then the scorer's, until the layer's budget is in."""
    protected = slots.protected_rows(options.get("protect", "none"), positions, n_prompt, run_budget)
    return (protected + [j for j in of_scorer if j not in protected])[:budget]


def cake_budgets(options, shares, budget, n_prompt, held):
    """Of the layers that are cut, which hold so many rows, after a block; and how close their rounding was to another,
    in rows."""
    granularity = options.get("granularity", "head")
    size = int(granularity.split(":")[1]) if granularity.startswith("page") else 1
    w = len(slots.protected_rows(options.get("protect", "none"), range(budget), n_prompt, budget))
    budget = max(1, budget // size)  # pages
    wanted, full = slots.dealt_by_shares(shares, budget, -(-w // size), [-(-n // size) for n in held])
    rest = sorted((float(x - math.floor(x)) for layer, x in enumerate(wanted) if layer not in full), reverse=True)
    n_up = len(held) * budget - sum(math.floor(x) for x in wanted)
    close = [rest[n_up - 1] - rest[n_up]] if 0 < n_up < len(rest) else []
    close += [min(x, 1 - x) for x in rest if x > 0]  # 0: whole by its nature, in any precision
    return [size * n for n in slots.rounded(wanted, len(held) * budget)], min(close, default=math.inf)
