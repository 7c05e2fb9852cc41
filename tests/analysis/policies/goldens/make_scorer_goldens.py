"""Writes scorers.json: what scorer_reference.py makes of a few KV heads, and which positions it retains.

    python3 make_scorer_goldens.py

Needs NumPy alone. Inputs are drawn by SEED, rounded to what the file holds and then used as float32, so that both
sides read the same numbers. Of a case, `window_queries`, `attention` and `outputs` belong to the block's last w
queries, w = min(32, rows of the block), which are those of the last w rows. `sets` give the budget, the positions
that stay, and the gap: by how much the lowest score that stayed by score beats the highest that goes. A gap of 0 is a
tie; one below the tolerance of a float32 path leaves its set undecided. `stays`: indices of rows that go in first, in
that order. Where scores or `stays` depend on the budget, an entry has one set.
"""

import json
import math
import pathlib

import scorer_reference as reference  # first: it pins NumPy's threads and knows where sample_rows.py is
import numpy as np

from sample_rows import rows, uniform

SEED = 2401
GROUP, HEAD_DIM, HIDDEN, WINDOW = 3, 16, 24, 32
INVERSE_FREQUENCIES = 1e4 ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)


def as_stored(x, decimals=3):
    """Rounded to what the file holds, as float32, in float64."""
    return np.round(np.asarray(x, np.float64), decimals).astype(np.float32).astype(np.float64)


def significant(x, digits):
    flat = [float(f"{v:.{digits}g}") for v in np.ravel(x)]
    return np.array(flat).reshape(np.shape(x))


def queries_of(seed, n_positions):
    """(G, T, d) unrotated queries about a mean of their own, which keys turn away from, as in trained models."""
    centres = rows(SEED + 1, GROUP, HEAD_DIM) * 1.5 - rows(SEED, 1, HEAD_DIM) * 2
    noise = [rows(seed + g, n_positions, HEAD_DIM) * 2.5 for g in range(GROUP)]
    return np.stack([as_stored(noise[g] + centres[g]) for g in range(GROUP)])


def rotated(x, positions):
    return reference.rotate(x, positions, INVERSE_FREQUENCIES).astype(np.float32).astype(np.float64)


OUTPUT_WEIGHTS = np.stack([as_stored(rows(SEED + 5 + g, HIDDEN, HEAD_DIM)) for g in range(GROUP)])


def make_head(seed, positions, n_new_rows, edit=None):
    """A head and its unrotated queries of the window; `edit` changes rotated keys and values of a case."""
    positions = np.asarray(positions)
    n, w = len(positions), min(WINDOW, n_new_rows)
    unrotated = as_stored(rows(seed, n, HEAD_DIM) * 2 + rows(SEED, 1, HEAD_DIM) * 2)
    keys, values = rotated(unrotated, positions), as_stored(rows(seed + 1, n, HEAD_DIM, 0.1) * 2)
    if edit:
        edit(keys, values)
        unrotated = rotated(keys, -positions)
    queries = queries_of(seed + 2, positions[-1] + 1)
    window = np.stack([rotated(q[positions[n - w:]], positions[n - w:]) for q in queries])
    logits = window @ keys.T / math.sqrt(HEAD_DIM)
    hidden = positions[None, :] > positions[n - w:, None]
    attention = significant(reference.softmax(np.where(hidden, -np.inf, logits)), 4).astype(np.float32)
    attention = attention.astype(np.float64)
    centred = queries - queries.mean(axis=1, keepdims=True)
    head = reference.Head(
        unrotated_keys=unrotated, keys=keys, values=values, positions=positions,
        inverse_frequencies=INVERSE_FREQUENCIES, window_queries=window, attention=attention,
        outputs=(attention @ values).astype(np.float32).astype(np.float64),
        query_means=significant(queries.mean(axis=1), 9),
        query_covariances=significant(np.einsum("gti,gtj->gij", centred, centred) / queries.shape[1], 9),
        query_moduli=significant(np.abs(reference.as_complex(queries)).mean(axis=1), 9),
        query_filter=significant(reference.query_filter(
            np.stack([rotated(q, np.arange(len(q))) for q in queries])), 9),
        output_weights=OUTPUT_WEIGHTS)
    return head, queries[:, positions[n - w:]]


def gaps():
    """256 positions of 0 … 891, 4 of them the first, and a block of 8 after them."""
    drawn = np.argsort(uniform(SEED + 11, 888))[:252] + 4
    return [0, 1, 2, 3, *sorted(drawn.tolist()), *range(892, 900)]


def equal_keys(keys, values):
    keys[:] = keys[0]


def zero_rows(keys, values):
    keys[4:6] = 0
    values[:16] = 0


CASES = [  # name, positions, rows of the last block, what is changed
    ("contiguous", range(280), 128, None),
    ("gaps", gaps(), 8, None),
    ("shorter than the window", range(20), 20, None),
    ("one row", [0], 1, None),
    ("four rows", range(4), 4, None),
    ("four rows left of many", [0, 17, 90, 91], 2, None),
    ("equal keys", range(24), 24, equal_keys),
    ("zero keys and values", range(24), 8, zero_rows),
]

SCORERS = [  # name, (head, budget) -> scores and stays; whether they depend on the budget
    ("manifold", lambda h, n: reference.manifold(h), False),
    ("manifold:window=16", lambda h, n: reference.manifold(h, window=16), False),
    ("manifold:window=9", lambda h, n: reference.manifold(h, window=9), False),  # of 280 rows the last window has one
    ("keydiff", lambda h, n: reference.keydiff(h), False),
    ("lagkv", lambda h, n: reference.lagkv(h), False),
    ("lagkv:sinks=2,lag=8", lambda h, n: reference.lagkv(h, sinks=2, lag=8), False),
    ("expected", lambda h, n: reference.expected(h), False),
    ("expected:epsilon=0,sinks=4", lambda h, n: reference.expected(h, epsilon=0, sinks=4), False),
    ("capkv", lambda h, n: reference.capkv(h), False),
    ("capkv:sinks=4", lambda h, n: reference.capkv(h, sinks=4), False),
    ("triattention", lambda h, n: reference.triattention(h), False),
    ("triattention:group=mean", lambda h, n: reference.triattention(h, group="mean"), False),
    ("qfilters", lambda h, n: reference.qfilters(h), False),
    ("compactor:sketch=48", lambda h, n: reference.compactor(h, blend=1 - n / h.n, sketch=48), True),
    ("compactor:sketch=7,blend=0.5", lambda h, n: reference.compactor(h, blend=0.5, sketch=7), False),
    ("compactor:blend=0.5", lambda h, n: reference.compactor(h, blend=0.5), False),
    ("rkv", lambda h, n: reference.rkv(h), False),
    ("rkv:window=32", lambda h, n: reference.rkv(h, window=32), False),
    ("dropkv", lambda h, n: reference.dropkv(h), False),
    ("defensive", lambda h, n: reference.defensive(h), False),
    ("defensive:kernel=7", lambda h, n: reference.defensive(h, kernel=7), False),
    ("cur:window=16,sinks=4", lambda h, n: reference.cur(h), False),
    ("critical:keydiff", lambda h, n: reference.critical(h, reference.keydiff(h)[0], n), True),
    ("critical:keydiff,shift", lambda h, n: reference.critical(h, reference.keydiff(h)[0], n, shift=True), True),
    ("critical:window", lambda h, n: reference.critical(h, reference.window_attention(h)[0], n), True),
    ("duo:streaming", lambda h, n: reference.duo(h, True), False),
]


def scored(head, budgets):
    entries = []
    for name, scorer, by_budget in SCORERS:
        if name.startswith("triattention") and np.ptp(head.keys, axis=0).max() == 0 and head.n > 1:
            continue  # one score for all rows: what is left to rank is rounding
        for some in ([[n] for n in budgets] if by_budget else [budgets]):
            scores, stays = scorer(head, some[0])
            assert np.isfinite(scores).all(), name
            sets = []
            for budget in some:
                retained, gap = reference.retain(head.positions, scores, stays, budget)
                sets.append({"budget": budget, "retained": retained, "gap": gap and float(f"{gap:.6g}")})
            entries.append({"policy": name, "scores": (significant(scores, 10) + 0.0).tolist(), "stays": stays,
                            "sets": sets})
    return entries


def shortest(x):
    """float32 values as the fewest digits that read back as the same float32."""
    return [shortest(row) for row in x] if np.ndim(x) else float(str(np.float32(x)))


def main():
    cases = []
    for index, (name, positions, n_new_rows, edit) in enumerate(CASES):
        head, unrotated_queries = make_head(SEED + 20 + 10 * index, positions, n_new_rows, edit)
        budgets = sorted({max(1, math.floor(share * head.n + 0.5)) for share in (0.25, 0.5)})
        cases.append({
            "name": name, "n_new_rows": n_new_rows, "positions": head.positions.tolist(),
            "unrotated_keys": shortest(head.unrotated_keys), "keys": shortest(head.keys),
            "values": shortest(head.values), "unrotated_window_queries": shortest(unrotated_queries),
            "window_queries": shortest(head.window_queries), "attention": shortest(head.attention),
            "outputs": shortest(head.outputs), "query_means": head.query_means.tolist(),
            "query_covariances": head.query_covariances.tolist(), "query_moduli": head.query_moduli.tolist(),
            "query_filter": head.query_filter.tolist(),
            "output_norms": significant(reference.output_norms(head), 10).tolist(),
            "scorers": scored(head, budgets)})
    golden = {"numpy": np.__version__, "seed": SEED, "group": GROUP, "head_dim": HEAD_DIM, "rope_theta": 1e4,
              "inverse_frequencies": INVERSE_FREQUENCIES.tolist(), "output_weights": shortest(OUTPUT_WEIGHTS),
              "cases": cases}
    path = pathlib.Path(__file__).with_name("scorers.json")
    path.write_text(json.dumps(golden, separators=(",", ":"), allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
