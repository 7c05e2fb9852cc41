"""Writes query_filters.json: the filters that scorer_reference.query_filter makes of a group's queries.

    python3 make_query_filter_goldens.py

Needs NumPy alone. Queries are drawn by SEED and rounded to what the file holds. Of each case the queries come in two
parts, as of two texts: `filter` and `share` are of both together. share: of the squared lengths, what lies along each
head's vector, mean over the heads. In one case a head's queries are all alike, in another there are fewer than channels.
"""

import json
import pathlib

import scorer_reference as reference  # first: it pins NumPy's threads and knows where sample_rows.py is
import numpy as np

from sample_rows import rows

SEED = 2431
CASES = [("three heads", 3, 16, [40, 25], 1.5), ("one head, few queries", 1, 16, [3, 4], 0.5),
         ("opposed to its mean", 2, 8, [30, 1], -2.0), ("all alike", 2, 8, [5, 5], None)]


def drawn(seed, group, head_dim, n, offset):
    if offset is None:
        return np.tile(as_stored(rows(seed, 1, head_dim)), (group, n, 1))
    centre = rows(SEED, 1, head_dim) * offset
    return np.stack([as_stored(rows(seed + g, n, head_dim) + centre) for g in range(group)])


def as_stored(x):
    return np.round(np.asarray(x, np.float64), 3)


def share(queries):
    singular = [np.linalg.svd(q, compute_uv=False) for q in queries]
    return float(np.mean([s[0] ** 2 / (s ** 2).sum() for s in singular]))


def main():
    cases = []
    for index, (name, group, head_dim, lengths, offset) in enumerate(CASES):
        seed = SEED + 20 * index
        parts = [drawn(seed + (0 if offset is None else 5 * part), group, head_dim, n, offset)
                 for part, n in enumerate(lengths)]
        queries = np.concatenate(parts, axis=1)
        cases.append({"name": name, "parts": [part.tolist() for part in parts],
                      "filter": reference.query_filter(queries).tolist(), "share": share(queries)})
    path = pathlib.Path(__file__).with_name("query_filters.json")
    path.write_text(json.dumps({"numpy": np.__version__, "seed": SEED, "cases": cases},
                               separators=(",", ":"), allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
