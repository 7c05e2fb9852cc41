"""Times NumPy, SciPy and scikit-learn at the work of analysis_bench, and prints both with their ratio.

    python3 bench/analysis_peer.py build/release/analysis_bench

One thread each; processor time, the best of several rounds. Both sides return float64 results of float32 keys.
"""

import json
import os
import subprocess
import sys
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402
import scipy.stats  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402

HEAD_DIM = 128


def draw(n_rows, offset):
    return (np.random.default_rng(1).normal(size=(n_rows, HEAD_DIM)) + offset).astype(np.float32)


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def score_keydiff(n):
    keys = draw(n, 0.5)

    def run():
        anchor = keys.mean(axis=0, dtype=np.float64)
        return -(keys @ anchor) / (np.linalg.norm(keys, axis=1) * np.linalg.norm(anchor))
    return run


def select_from_scores(n):
    scores = draw(n // HEAD_DIM + 1, 0).ravel()[:n].astype(np.float64)
    return lambda: np.sort(np.argpartition(-scores, n - 129)[: n - 128])


def fit_pca(n):
    rows = np.concatenate([draw(n, 0.5), draw(3 * n, -0.2)])
    return lambda: PCA(3, svd_solver="covariance_eigh").fit(rows.astype(np.float64))


def log_volume(n):
    keys = draw(n, 0.5)

    def run():
        x = keys.astype(np.float64)
        sigma = np.linalg.svd(x, compute_uv=False)
        k = unit(x)
        return 2 * np.log(sigma[sigma > 1e-6 * sigma[0]]).sum(), np.linalg.slogdet(np.eye(HEAD_DIM) + k.T @ k)
    return run


def spearman(n):
    values = draw(2 * n // HEAD_DIM, 0).ravel().astype(np.float64)
    return lambda: scipy.stats.spearmanr(values[:n], values[n:])


def cosine_matrix(n):
    keys = draw(n, 0.5)

    def run():
        k = unit(keys.astype(np.float64))
        return k @ k.T
    return run


def mean_key_bounds(n):
    keys, queries = draw(n, 0.5), draw(2 * n, -0.2)

    def run():
        k, q = unit(keys.astype(np.float64)), unit(queries.astype(np.float64))
        mean = keys.mean(axis=0, dtype=np.float64)
        mean /= np.linalg.norm(mean)
        alpha, beta, gamma = (q @ mean)[:, None], q @ k.T, k @ mean
        met = (alpha < 0) & (beta > 0)
        slack = (1 + alpha * beta - alpha**2 / 2 - beta**2 / 2 - gamma)[met]
        exact = (alpha * beta + np.sqrt(1 - alpha**2) * np.sqrt(np.maximum(0, 1 - beta**2)) - gamma)[met]
        return met.sum(), slack.min(), exact.min()
    return run


def best_ms(run, seconds=0.5):
    best, end = np.inf, time.process_time() + seconds
    while time.process_time() < end or not np.isfinite(best):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return 1e3 * best


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    # The best of many short rounds, as for the peers: other work on the machine only ever adds time.
    command = [sys.argv[1], "--benchmark_format=json", "--benchmark_repetitions=7", "--benchmark_min_time=0.1"]
    timed = {}
    for entry in json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["benchmarks"]:
        if entry["run_type"] == "iteration":
            timed.setdefault(entry["run_name"], []).append(entry["cpu_time"])
    print(f"{'':24}{'keyscope':>12}{'NumPy/SciPy':>14}{'ratio':>9}")
    for name, times in timed.items():
        work, size = name.split("/")
        ours, peer = min(times), best_ms(globals()[work](int(size)))
        print(f"{name:24}{ours:9.3f} ms{peer:11.3f} ms{peer / ours:8.1f}x")


if __name__ == "__main__":
    main()
