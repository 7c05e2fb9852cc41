"""Times NumPy, SciPy and scikit-learn at the work of all_heads_bench, on the same keys and in the same run.

    python3 bench/all_heads_peer.py build/release/all_heads_bench

Two threads, wall time, the best of several rounds taken in turns; a round of ours is the median of five. Where there
are several ways to write the work, each is timed and the fastest is the peer: by heads on two threads, or on the
threads of BLAS. The peers' results are float64, except for KeyDiff, where float32 is faster in NumPy. KeyDiff is also
compared with the speed at which the same process reads the keys: the fastest of thirty of each, taken in turns, since
other work on a machine only ever adds to a time, and the medians. Needs NumPy, SciPy, scikit-learn and threadpoolctl.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import scipy.linalg
import scipy.stats
import threadpoolctl
from sklearn.decomposition import PCA

HEADS, TOKENS, HEAD_DIM, RETAINED, THREADS = 224, 8192, 128, 2048, 2
ROUNDS = 2
READINGS = 30


def draw():
    """Keys around a common direction of their head, with variances that fall off; two orders that agree in part."""
    generator = np.random.default_rng(1)
    scale = 2.0 ** -(np.arange(HEAD_DIM) / 32)
    keys = generator.standard_normal((HEADS, TOKENS, HEAD_DIM), dtype=np.float32)
    keys += generator.standard_normal((HEADS, 1, HEAD_DIM), dtype=np.float32)
    keys *= scale.astype(np.float32)
    first = generator.standard_normal((HEADS, TOKENS))
    return keys, first, np.exp(first + generator.standard_normal((HEADS, TOKENS)))


def by_heads(work):
    """Heads dealt out to two threads, BLAS kept to one each."""
    def run(*arrays):
        with threadpoolctl.threadpool_limits(1), concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(work, *arrays))
    return run


def by_blas(work):
    """Head after head, BLAS on two threads."""
    def run(*arrays):
        with threadpoolctl.threadpool_limits(THREADS):
            return [work(*each) for each in zip(*arrays)]
    return run


def score(keys):
    anchor = np.ones(len(keys), dtype=np.float32) @ keys / np.float32(len(keys))
    norms = np.sqrt(np.einsum("nd,nd->n", keys, keys)) * np.linalg.norm(anchor)
    return -(keys @ anchor) / norms


def correlate(x, y):
    return scipy.stats.spearmanr(x, y).statistic


def correlate_ranks(x, y):
    ranks = scipy.stats.rankdata([x, y], axis=1) - (len(x) + 1) / 2
    return ranks[0] @ ranks[1] / np.sqrt((ranks[0] @ ranks[0]) * (ranks[1] @ ranks[1]))


def fit(keys):
    return PCA(2, svd_solver="covariance_eigh").fit(keys.astype(np.float64))


def volume(keys):
    sigma = scipy.linalg.svdvals(keys[:RETAINED].astype(np.float64), overwrite_a=True, check_finite=False)
    return 2 * np.log(sigma[sigma > 1e-6 * sigma[0]]).sum()


def cosines(keys):
    unit = keys.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    return unit @ unit.T


def peers(keys, first, second):
    return {
        "score_keydiff": [lambda: by_heads(score)(keys), lambda: by_blas(score)(keys)],
        "spearman": [lambda: by_heads(correlate)(first, second), lambda: by_heads(correlate_ranks)(first, second)],
        "fit_pca": [lambda: by_heads(fit)(keys), lambda: by_blas(fit)(keys)],
        "log_volume": [lambda: by_heads(volume)(keys), lambda: by_blas(volume)(keys)],
        "cosine_matrix": [lambda: by_heads(cosines)(keys[:1])],  # one thread, as ours
    }


def wall_ms(run):
    start = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - start)


def bench_ms(program, *names, repetitions=5):
    """The repetitions of each, taken in turns."""
    command = [program, f"--benchmark_filter=^({'|'.join(names)})/", "--benchmark_format=json",
               f"--benchmark_repetitions={repetitions}", "--benchmark_min_time=0.01",
               "--benchmark_enable_random_interleaving"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["benchmarks"]
    return [np.array([entry["real_time"] for entry in found
                      if entry["run_type"] == "iteration" and entry["run_name"].startswith(name + "/")])
            for name in names]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    wanted = sys.argv[2:]
    arrays = draw()
    with tempfile.NamedTemporaryFile() as file:
        for array in arrays:
            array.tofile(file)
        file.flush()
        os.environ["KEYSCOPE_BENCH_HEADS"] = file.name
        gigabytes = arrays[0].nbytes / 1e9
        read, scored = bench_ms(sys.argv[1], "read_keys", "score_keydiff", repetitions=READINGS)
        for which, of in (("fastest", np.min), ("median", np.median)):
            once, score_all = of(read), of(scored)
            print(f"{which} of {READINGS}: reading all keys once {once:.1f} ms, {1e3 * gigabytes / once:.1f} GB/s; "
                  f"scoring them by KeyDiff {score_all:.1f} ms, {100 * once / score_all:.0f} % of that speed")
        print(f"{'':16}{'keyscope':>14}{'NumPy/SciPy':>15}{'ratio':>9}")
        for name, forms in peers(*arrays).items():
            if wanted and name not in wanted:
                continue
            ours = theirs = np.inf
            for _ in range(ROUNDS):
                ours = min(ours, np.median(bench_ms(sys.argv[1], name)[0]))
                theirs = min([theirs, *(wall_ms(form) for form in forms)])
            print(f"{name:16}{ours:11.1f} ms{theirs:12.1f} ms{theirs / ours:8.1f}x", flush=True)


if __name__ == "__main__":
    main()
