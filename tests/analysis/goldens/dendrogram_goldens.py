"""Writes dendrogram_goldens.json: average linkage on cosine distances, by SciPy.

    python3 dendrogram_goldens.py

Everything is float64 on float32 rows. `merges` are those of rows without two equal distances, where only one
tree is right; with ties SciPy's heights are those of every right tree here.
"""

import json
import pathlib

import pinned_blas  # noqa: F401, before NumPy
import numpy as np
import scipy
from scipy.cluster.hierarchy import linkage

from sample_rows import low_rank_rows, rows


def linkage_of(x):
    return linkage(x.astype(np.float64), method="average", metric="cosine")


def tree_cases():
    cases = []
    for seed, n, d, offset in [(191, 2, 8, 0.0), (192, 3, 4, 0.2), (193, 40, 16, 0.0), (194, 200, 64, 0.4),
                               (195, 300, 5, 0.1)]:
        z = linkage_of(rows(seed, n, d, offset))
        cases.append({"seed": seed, "rows": n, "cols": d, "offset": offset, "halve_every": 0, "low_rank": 0,
                      "merges": z[:, [0, 1, 3]].astype(int).tolist(), "heights": z[:, 2].tolist()})
    return cases


def duplicate_case():
    """Every row twice: half the heights are 0."""
    x = np.repeat(rows(196, 30, 12, 0.3), 2, axis=0)
    return {"seed": 196, "rows": 30, "cols": 12, "offset": 0.3, "heights": linkage_of(x)[:, 2].tolist()}


def rank_one_case():
    """Rows along one line: distances are 0 or 2 alone."""
    x = low_rank_rows(197, 24, 8, 1)
    x = x[np.linalg.norm(x, axis=1) > 0]
    return {"seed": 197, "rows": 24, "cols": 8, "heights": linkage_of(x)[:, 2].tolist()}


def main():
    goldens = {"versions": {"numpy": np.__version__, "scipy": scipy.__version__}, "trees": tree_cases(),
               "duplicates": duplicate_case(), "rank_one": rank_one_case()}
    path = pathlib.Path(__file__).with_name("dendrogram_goldens.json")
    path.write_text(json.dumps(goldens) + "\n")


if __name__ == "__main__":
    main()
