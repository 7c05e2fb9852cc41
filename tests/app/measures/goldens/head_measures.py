"""Writes head_measures.json: every number of `analyze` for the recording that fake_recording.cpp makes up.

    python3 head_measures.py

NumPy, SciPy and scikit-learn in float64, from the definitions in docs/recording.md.
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "analysis" / "goldens"))
import pinned_blas  # noqa: F401, E402, before NumPy
import numpy as np  # noqa: E402
import scipy  # noqa: E402
import scipy.special  # noqa: E402
import scipy.stats  # noqa: E402
import sklearn  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402

from sample_rows import rows, uniform  # noqa: E402

N_PROMPT, N_TOKENS, BLOCK, N_BLOCKS, D, GROUP, KV_HEADS, M = 40, 43, 8, 8, 8, 2, 2, 4


def wide(*args):
    return rows(*args).astype(np.float64)


def keys_of(run, head):
    return wide(100 + 10 * run + head, N_TOKENS, D, 0.3)[:N_PROMPT]


def values_of(run, head):
    return wide(300 + 10 * run + head, N_TOKENS, D)[:N_PROMPT]


def queries_of(run, head):
    return [wide(200 + 10 * run + head * GROUP + g, N_TOKENS, D, -0.1)[:N_PROMPT] for g in range(GROUP)]


def received_of(run, head):
    draws = uniform(400 + 10 * run + head, N_TOKENS)[:N_PROMPT]
    return draws * (N_PROMPT - np.arange(N_PROMPT)), N_PROMPT - np.arange(N_PROMPT)


def evicted_at(run):
    at = np.full(N_TOKENS, -1)
    for i in range(N_TOKENS):
        if run == 1 and i % 3 == 1:
            at[i] = i // BLOCK + 1
        elif run == 1 and i < N_PROMPT and i % 5 == 2:
            at[i] = 6  # while generating
    at[at >= N_BLOCKS] = -1
    return at


def retained_after(run, block):
    n_seen = min((block + 1) * BLOCK, N_PROMPT)
    at = evicted_at(run)[:n_seen]
    return np.flatnonzero((at < 0) | (at > block)), n_seen


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def bounds(keys, queries):
    mean = unit(keys.mean(axis=0))
    alpha = unit(queries) @ mean
    beta = unit(queries) @ unit(keys).T
    gamma = unit(keys) @ mean
    met = (alpha[:, None] < 0) & (beta > 0)
    causal = np.arange(len(keys))[None, :] <= np.tile(np.arange(len(keys)), GROUP)[:, None]
    a = alpha[:, None]
    slack = (1 + a * beta - a**2 / 2 - beta**2 / 2 - gamma)[met]
    exact = (a * beta + np.sqrt(1 - a**2) * np.sqrt(1 - beta**2) - gamma)[met]
    return {"bound_pairs": met.sum(), "bound_pairs_causal": (met & causal).sum(),
            "bound_violations": (slack < -1e-9).sum(), "bound_min_slack": slack.min(),
            "bound_min_slack_exact": exact.min()}


def output_error(head, retained, n_seen):
    keys, values = keys_of(0, head), values_of(0, head)
    full, less = [], []
    for queries in queries_of(0, head):
        for position in range(n_seen - M, n_seen):
            for visible, outputs in [(np.arange(position + 1), full), (retained[retained <= position], less)]:
                outputs.append(scipy.special.softmax(keys[visible] @ queries[position] / np.sqrt(D)) @ values[visible])
    return np.linalg.norm(np.array(less) - np.array(full)) / np.linalg.norm(full)


def given_position(x, y):
    """Correlation of what linear regression on position leaves of the ranks of both."""
    position = np.column_stack([np.ones(len(x)), np.arange(len(x))])
    left = [ranks - position @ np.linalg.lstsq(position, ranks, rcond=None)[0]
            for ranks in (scipy.stats.rankdata(x), scipy.stats.rankdata(y))]
    return np.corrcoef(*left)[0, 1]


def head_measures(run, head, block):
    keys, queries = keys_of(run, head), np.concatenate(queries_of(run, head))
    received, n_queries = received_of(run, head)
    retained, n_seen = retained_after(run, block)
    kept = keys[retained]
    mean = keys.mean(axis=0)
    cosines = unit(keys) @ unit(mean)
    sigma = np.linalg.svd(kept, compute_uv=False)
    pairs = unit(kept) @ unit(kept).T
    full_received, _ = received_of(0, head)
    mean_query = queries.mean(axis=0)
    share = sigma / sigma.sum()
    return {
        "run": run, "kv_head": head, "block": block, "retained": retained,
        "spearman": scipy.stats.spearmanr(-cosines, received / n_queries).statistic,
        "spearman_total": scipy.stats.spearmanr(-cosines, received).statistic,
        "spearman_given_position": given_position(-cosines, received / n_queries),
        "kendall": scipy.stats.kendalltau(-cosines, received / n_queries).statistic,
        "mean_key_cosine": cosines.mean(),
        "key_query_mean_cosine": unit(mean) @ unit(mean_query),
        "top_key_query_cosine": unit(keys[cosines.argmin()]) @ unit(mean_query),
        "log_volume_nats": 2 * np.log(sigma).sum(), "rank": len(sigma),
        "regularised_log_volume_nats": np.linalg.slogdet(np.eye(D) + unit(kept).T @ unit(kept))[1],
        "mean_pairwise_cosine": (pairs.sum() - np.trace(pairs)) / (len(kept) * (len(kept) - 1)),
        "participation_ratio": (sigma**2).sum() ** 2 / (sigma**4).sum(),
        "effective_rank": np.exp(-(share * np.log(share)).sum()),
        "cosine_objective": pairs.sum(),
        "attention_mass_kept": full_received[retained].sum() / full_received[:n_seen].sum(),
        "output_error": output_error(head, retained, n_seen),
        "pca_explained": PCA(2, svd_solver="full").fit(np.concatenate([keys, queries])).explained_variance_ratio_,
        **bounds(keys, queries),
    }


def logits_case():
    reference, other = wide(500, M, 30) * 8, wide(501, M, 30) * 8
    log_p = scipy.special.log_softmax(reference, axis=1)
    log_q = scipy.special.log_softmax(other, axis=1)
    return {"kl_nats": (np.exp(log_p) * (log_p - log_q)).sum(axis=1).mean(),
            "top1_agreement": (reference.argmax(axis=1) == other.argmax(axis=1)).mean()}


def main():
    heads = [head_measures(run, head, block) for run in range(2) for head in range(KV_HEADS) for block in (4, 2)]
    goldens = {"versions": {"numpy": np.__version__, "scipy": scipy.__version__, "scikit-learn": sklearn.__version__},
               "heads": heads, "logits": logits_case()}
    path = pathlib.Path(__file__).with_name("head_measures.json")
    path.write_text(json.dumps(goldens, indent=1, default=lambda value: value.tolist()) + "\n")


if __name__ == "__main__":
    main()
