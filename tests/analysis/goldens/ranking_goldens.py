"""Writes ranking_goldens.json: correlations and overlaps of rankings, by SciPy and by their definitions.

    python3 ranking_goldens.py
"""

import json
import pathlib

import pinned_blas  # noqa: F401, before NumPy
import numpy as np
import scipy
import scipy.stats

from sample_rows import uniform


def kendall_cases():
    cases = []
    for seed, n, levels in [(121, 300, 12), (122, 300, 1 << 40), (123, 2000, 100), (124, 2, 1 << 40),
                            (125, 50, 2)]:
        x = np.floor(uniform(seed, n) * levels)
        y = np.floor(uniform(seed + 100, n) * levels) + x // 3
        cases.append({"seed": seed, "n": n, "levels": levels, "tau": scipy.stats.kendalltau(x, y).statistic})
    return cases


def residual(ranks, given):
    design = np.stack([np.ones_like(given), given], axis=1)
    return ranks - design @ np.linalg.lstsq(design, ranks, rcond=None)[0]


def partial_cases():
    cases = []
    for seed, n, levels, drift in [(131, 200, 1 << 40, 1.0), (132, 500, 9, 0.3), (133, 1000, 1 << 40, 20.0)]:
        z = np.arange(n)  # a position, which both drift along
        x = np.floor((uniform(seed, n) + drift * z / n) * levels)
        y = np.floor((uniform(seed + 100, n) + drift * z / n) * levels)
        rx, ry, rz = (scipy.stats.rankdata(v) for v in (x, y, z))
        rho = scipy.stats.pearsonr(residual(rx, rz), residual(ry, rz)).statistic
        cases.append({"seed": seed, "n": n, "levels": levels, "drift": drift, "rho": rho})
    return cases


def extrapolated_overlap(a, b, p):
    """RBO_EXT of Webber et al. (2010), Eq. 32, its sums written out over sets."""
    s, l = sorted((a, b), key=len)
    x = [0] + [len(set(s[:d]) & set(l[:d])) for d in range(1, len(l) + 1)]
    n_s, n_l = len(s), len(l)
    seen = sum(x[d] / d * p**d for d in range(1, n_l + 1))
    expected = sum(x[n_s] * (d - n_s) / (n_s * d) * p**d for d in range(n_s + 1, n_l + 1))
    return (1 - p) / p * (seen + expected) + ((x[n_l] - x[n_s]) / n_l + x[n_s] / n_s) * p**n_l


def overlap_cases():
    cases = []
    for seed, n_a, n_b, n_items, p in [(141, 20, 20, 25, 0.9), (142, 8, 30, 40, 0.95), (143, 30, 8, 40, 0.5),
                                       (144, 200, 200, 200, 0.98), (145, 1, 5, 5, 0.7)]:
        a = np.argsort(uniform(seed, n_items), kind="stable")[:n_a].tolist()
        b = np.argsort(uniform(seed + 100, n_items), kind="stable")[:n_b].tolist()
        cases.append({"a": a, "b": b, "p": p, "overlap": extrapolated_overlap(a, b, p)})
    return cases


def main():
    goldens = {"versions": {"numpy": np.__version__, "scipy": scipy.__version__}, "kendall": kendall_cases(),
               "partial_spearman": partial_cases(), "rank_overlap": overlap_cases()}
    path = pathlib.Path(__file__).with_name("ranking_goldens.json")
    path.write_text(json.dumps(goldens) + "\n")


if __name__ == "__main__":
    main()
