"""Writes geometry_goldens.json: spectra, head geometry, best subsets and bootstraps, by NumPy.

    python3 geometry_goldens.py

Everything is float64 on float32 rows.
"""

import itertools
import json
import pathlib

import pinned_blas  # noqa: F401, before NumPy
import numpy as np

from sample_rows import low_rank_rows, rows, uniform


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def spectrum_of(x):
    sigma = np.linalg.svd(x.astype(np.float64), compute_uv=False)
    share = sigma / sigma.sum()
    share = share[share > 0]
    return {"participation_ratio": (sigma**2).sum()**2 / (sigma**4).sum(),
            "effective_rank": np.exp(-(share * np.log(share)).sum())}


def spectrum_cases():
    cases = []
    for seed, n, d, offset, halve_every in [(151, 200, 32, 0.5, 0), (152, 20, 64, 0.5, 0), (153, 64, 64, 0.0, 8),
                                            (154, 300, 24, 0.1, 1), (155, 1, 16, 0.2, 0)]:
        cases.append({"seed": seed, "rows": n, "cols": d, "offset": offset, "halve_every": halve_every,
                      "low_rank": 0, **spectrum_of(rows(seed, n, d, offset, halve_every))})
    for seed, n, d, rank in [(156, 200, 32, 5), (157, 50, 128, 1)]:
        cases.append({"seed": seed, "rows": n, "cols": d, "offset": 0, "halve_every": 0, "low_rank": rank,
                      **spectrum_of(low_rank_rows(seed, n, d, rank))})
    return cases


def norms_of(x):
    norms = np.linalg.norm(x, axis=1)
    return [*np.quantile(norms, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]), norms.mean()]


def head_case():
    keys = rows(161, 70, 24, 0.3).astype(np.float64)
    queries = rows(162, 210, 24, -0.1).astype(np.float64)
    mean_key, mean_query = keys.mean(axis=0), queries.mean(axis=0)
    key_cosines = unit(keys) @ mean_key / np.linalg.norm(mean_key)
    query_direction = mean_query / np.linalg.norm(mean_query)
    top = int(np.argmax(-key_cosines))
    return {"key_cosines": key_cosines.tolist(), "query_cosines": (unit(queries) @ query_direction).tolist(),
            "mean_cosine": mean_key @ query_direction / np.linalg.norm(mean_key),
            "key_norms": norms_of(keys), "query_norms": norms_of(queries),
            "top_key": top, "top_key_query_cosine": unit(keys)[top] @ query_direction}


def subset_cases():
    cases = []
    for seed, n, d, budget, offset in [(171, 12, 6, 5, 0.3), (172, 14, 3, 4, 0.0), (173, 10, 16, 9, 0.2)]:
        k = unit(rows(seed, n, d, offset).astype(np.float64))
        cosines = k @ k.T
        best = min(itertools.combinations(range(n), budget), key=lambda s: cosines[np.ix_(s, s)].sum())
        anchor = k.mean(axis=0)
        relaxed = sorted(np.argsort(k @ anchor, kind="stable")[:budget].tolist())
        cases.append({"seed": seed, "n": n, "d": d, "budget": budget, "offset": offset, "best": list(best),
                      "best_objective": cosines[np.ix_(best, best)].sum(), "relaxed": relaxed,
                      "relaxed_objective": cosines[np.ix_(relaxed, relaxed)].sum()})
    return cases


def bootstrap_cases():
    cases = []
    for seed, n, n_resamples, confidence, draw_seed in [(181, 20, 2000, 0.95, 0), (182, 5, 999, 0.9, 7),
                                                        (183, 2, 100, 0.5, 123456789)]:
        samples = uniform(seed, n) ** 2
        draws = np.floor(uniform(draw_seed, n_resamples * n) * n).astype(int).reshape(n_resamples, n)
        means = samples[draws].mean(axis=1)
        low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
        cases.append({"seed": seed, "n": n, "n_resamples": n_resamples, "confidence": confidence,
                      "draw_seed": draw_seed, "mean": samples.mean(), "low": low, "high": high})
    return cases


def main():
    goldens = {"versions": {"numpy": np.__version__}, "spectrum": spectrum_cases(), "head": head_case(),
               "subsets": subset_cases(), "bootstrap": bootstrap_cases()}
    path = pathlib.Path(__file__).with_name("geometry_goldens.json")
    path.write_text(json.dumps(goldens, default=lambda value: value.item()) + "\n")


if __name__ == "__main__":
    main()
