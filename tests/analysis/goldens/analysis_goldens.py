"""Writes analysis_goldens.json: what NumPy, SciPy and scikit-learn say of the rows that the tests draw.

    python3 analysis_goldens.py

Everything is float64 on float32 rows. Theorem bounds and attention are written out pair by pair.
"""

import json
import pathlib

import pinned_blas  # noqa: F401, before NumPy
import numpy as np
import scipy
import scipy.special
import scipy.stats
import sklearn
from sklearn.decomposition import PCA

from sample_rows import low_rank_rows, rows, uniform


def cosine_case():
    x = rows(11, 60, 40, 0.3).astype(np.float64)
    x[7] = 0  # a zero row has cosine 0 with everything
    norms = np.linalg.norm(x, axis=1)
    unit = x / np.where(norms == 0, 1, norms)[:, None]
    mean = x.mean(axis=0)
    matrix = unit @ unit.T
    n = len(x)
    return {
        "mean": mean.tolist(),
        "normalized_mean": unit.mean(axis=0).tolist(),
        "median": np.median(x, axis=0).tolist(),
        "to_mean": (unit @ mean / np.linalg.norm(mean)).tolist(),
        "matrix_row_3": matrix[3].tolist(),
        "matrix_sum": matrix.sum(),
        "mean_pairwise": (matrix.sum() - np.trace(matrix)) / (n * (n - 1)),
    }


def spearman_cases():
    cases = []
    for seed, n, levels in [(21, 300, 12), (22, 300, 1 << 40), (23, 2000, 100), (24, 2, 1 << 40)]:
        x = np.floor(uniform(seed, n) * levels)
        y = np.floor(uniform(seed + 100, n) * levels) + x // 3
        cases.append({"seed": seed, "n": n, "levels": levels, "rho": scipy.stats.spearmanr(x, y).statistic})
    return cases


def pca_cases():
    cases = []
    for seed, shapes, n_cols, halve_every in [
        (31, [(300, 0.5), (500, -0.25)], 16, 2),
        (32, [(40, 0.0)], 64, 5),  # fewer rows than columns
        (33, [(70, 1.0), (50, 0.0)], 600, 40),  # beyond the dense solver
    ]:
        blocks = [rows(seed + 1000 * i, n, n_cols, o, halve_every) for i, (n, o) in enumerate(shapes)]
        x = np.concatenate(blocks).astype(np.float64)
        fit = PCA(n_components=3, svd_solver="full").fit(x)
        axes = fit.components_.copy()
        for axis in axes:
            axis *= np.sign(axis[np.argmax(np.abs(axis))])
        cases.append({
            "seed": seed, "rows": [n for n, _ in shapes], "offsets": [o for _, o in shapes], "cols": n_cols,
            "halve_every": halve_every, "ratio": fit.explained_variance_ratio_.tolist(),
            "variance": fit.explained_variance_.tolist(), "axes": axes.tolist(),
            "first_row": ((x[0] - fit.mean_) @ axes.T).tolist(),
        })
    return cases


def volume_of(x):
    x = x.astype(np.float64)
    sigma = np.linalg.svd(x, compute_uv=False)
    kept = sigma[sigma > 1e-6 * sigma[0]]
    norms = np.linalg.norm(x, axis=1)
    unit = x / np.where(norms == 0, 1, norms)[:, None]
    return {
        "log_volume_nats": 2 * np.log(kept).sum(),
        "rank": len(kept),
        "regularised": np.linalg.slogdet(np.eye(x.shape[1]) + unit.T @ unit)[1],
    }


def log_volume_cases():
    cases = []
    for seed, n, d, offset, halve_every in [
        (41, 200, 32, 0.5, 0), (42, 20, 64, 0.5, 0), (43, 64, 64, 0.0, 8),
        (44, 300, 24, 0.1, 1),  # singular values over 2^-23: some below the threshold, some just above
        (45, 12, 24, 0.0, 1), (46, 1, 16, 0.2, 0),
    ]:
        cases.append({"seed": seed, "rows": n, "cols": d, "offset": offset, "halve_every": halve_every,
                      "low_rank": 0, **volume_of(rows(seed, n, d, offset, halve_every))})
    for seed, n, d, rank in [(47, 200, 32, 5), (48, 10, 32, 4), (49, 50, 128, 1)]:
        cases.append({"seed": seed, "rows": n, "cols": d, "offset": 0, "halve_every": 0, "low_rank": rank,
                      **volume_of(low_rank_rows(seed, n, d, rank))})
    return cases


def bound_case(seed, n_keys, group, d, key_offset, query_offset):
    keys = rows(seed, n_keys, d, key_offset).astype(np.float64)
    queries = rows(seed + 1, group * n_keys, d, query_offset).astype(np.float64)
    positions = np.tile(np.arange(n_keys), group)
    norm = np.linalg.norm
    mean = keys.mean(axis=0)
    result = {"seed": seed, "keys": n_keys, "group": group, "cols": d, "key_offset": key_offset,
              "query_offset": query_offset, "pairs": 0, "pairs_causal": 0, "violations": 0,
              "min_slack": np.inf, "min_slack_exact": np.inf}
    for q, position in zip(queries, positions):
        alpha = mean @ q / (norm(mean) * norm(q))
        for j, k in enumerate(keys):
            beta = k @ q / (norm(k) * norm(q))
            if not alpha < 0 < beta:
                continue
            gamma = mean @ k / (norm(mean) * norm(k))
            slack = 1 + alpha * beta - alpha**2 / 2 - beta**2 / 2 - gamma
            exact = alpha * beta + np.sqrt(1 - alpha**2) * np.sqrt(1 - beta**2) - gamma
            result["pairs"] += 1
            result["pairs_causal"] += int(j <= position)
            result["violations"] += int(slack < -1e-9)
            result["min_slack"] = min(result["min_slack"], slack)
            result["min_slack_exact"] = min(result["min_slack_exact"], exact)

    weights = {"pairs": 0, "pairs_nonnegative": 0, "stated_violations": 0,
               "stated": np.inf, "proof": np.inf, "always": np.inf}
    for q, position in zip(queries, positions):
        scaled = keys[: position + 1] * (norm(q) / np.sqrt(d))
        direction = q / norm(q)
        n = position  # keys other than k*
        if n < 1:
            continue
        w = scipy.special.softmax(scaled @ direction)
        lengths = norm(scaled, axis=1)
        largest_product = np.abs(scaled @ direction).max()
        for j, k in enumerate(scaled):
            others = 1 - w[j] if w[j] < 0.5 else np.delete(w, j).sum()
            excess = np.log(n / (n + 1)) - np.log(others)
            cosine = k @ direction / lengths[j]
            weights["pairs"] += 1
            weights["always"] = min(weights["always"], cosine - (excess - largest_product) / lengths[j])
            if cosine < 0:
                continue
            weights["pairs_nonnegative"] += 1
            for name, m in [("stated", lengths.max() ** 2), ("proof", lengths.max())]:
                slack = cosine - (excess / (2 * m) - 1)
                weights[name] = min(weights[name], slack)
                if name == "stated":
                    weights["stated_violations"] += int(slack * min(1, m) < -1e-9)
    return {**result, "weights": weights}


def output_error_case():
    seed, n, d, m, group = 61, 50, 16, 8, 2
    keys = rows(seed, n, d, 0.4).astype(np.float64) * 8
    values = rows(seed + 1, n, d).astype(np.float64)
    queries = rows(seed + 2, group * m, d, 0.1).astype(np.float64) * 8
    positions = np.tile(np.arange(n - m, n), group)
    retained = np.array([0, 1, 5, 6, 20, 30, 41, 44, 49])

    def attend(q, visible):
        return scipy.special.softmax(keys[visible] @ q / np.sqrt(d)) @ values[visible]

    full = np.array([attend(q, np.arange(p + 1)) for q, p in zip(queries, positions)])
    less = np.array([attend(q, retained[retained <= p]) for q, p in zip(queries, positions)])
    unit = keys[retained] / np.linalg.norm(keys[retained], axis=1)[:, None]
    return {"seed": seed, "n": n, "d": d, "m": m, "group": group, "retained": retained.tolist(),
            "output_error": np.linalg.norm(less - full) / np.linalg.norm(full),
            "cosine_objective": (unit @ unit.T).sum()}


def logit_case():
    reference = rows(71, 12, 500).astype(np.float64) * 16
    other = reference + rows(72, 12, 500).astype(np.float64) * 4
    reference, other = reference.astype(np.float32), other.astype(np.float32)
    log_p = scipy.special.log_softmax(reference.astype(np.float64), axis=1)
    log_q = scipy.special.log_softmax(other.astype(np.float64), axis=1)
    return {"kl_nats": (np.exp(log_p) * (log_p - log_q)).sum(axis=1).mean(),
            "top1_agreement": (reference.argmax(axis=1) == other.argmax(axis=1)).mean()}


def main():
    goldens = {
        "versions": {"numpy": np.__version__, "scipy": scipy.__version__, "scikit-learn": sklearn.__version__},
        "cosines": cosine_case(), "spearman": spearman_cases(), "pca": pca_cases(),
        "log_volume": log_volume_cases(),
        "bounds": [bound_case(51, 40, 2, 12, 0.2, -0.1), bound_case(53, 25, 3, 3, 0.1, -0.3),
                   bound_case(55, 30, 1, 8, 0.0, 0.5)],
        "output_error": output_error_case(), "logits": logit_case(),
    }
    path = pathlib.Path(__file__).with_name("analysis_goldens.json")
    path.write_text(json.dumps(goldens, indent=1, default=lambda value: value.item()) + "\n")


if __name__ == "__main__":
    main()
