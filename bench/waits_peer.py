"""What a researcher waits for: `keyscope analyze` beside a NumPy script of the same measures, in one run and in turns.

    python3 bench/waits_peer.py build/release/keyscope RECORDING [--rounds N] [--bounds-heads N] [--export] [--window]
      [--before PROGRAM]

RECORDING has finished runs, `none` among them, with keys, queries and values; such as one of 16 layers of 8 KV heads:

    python3 bench/make_random_model.py CONFIG.json model --dtype float32 --set hidden_size=256
    build/release/keyscope capture --model model --prompt-ids ids.json --policy none --policy keydiff --policy snapkv \\
      --budget 1024 --record keys,queries,values,logits --out waits.h5

The script is what one would write who knows NumPy: no loop over tokens, queries or pairs, a layer read at once, heads
dealt out to as many threads as there are processors, each with one of BLAS; float64. Times are of whole processes, with
starting and reading; bounds are measured of the first KV heads of each layer, of one run. Needs NumPy, SciPy, h5py and
threadpoolctl. Numbers of both sides are compared as well: a peer that computes something else is no peer.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np
import scipy.stats
import threadpoolctl

M = 32  # last queries of each query head, for the output error


def unit(rows):
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1)


def agreement(scores, received, n_queries):
    """Spearman's rho, the same of the sums, the same with positions held fixed, and Kendall's tau."""
    seen = n_queries > 0
    ranks = [scipy.stats.rankdata(x) for x in (scores[seen], received[seen] / n_queries[seen], np.flatnonzero(seen))]
    r = np.corrcoef(ranks)
    partial = (r[0, 1] - r[0, 2] * r[1, 2]) / np.sqrt((1 - r[0, 2] ** 2) * (1 - r[1, 2] ** 2))
    return {"spearman": r[0, 1], "spearman_given_position": partial,
            "spearman_total": scipy.stats.spearmanr(scores, received)[0],
            "kendall": scipy.stats.kendalltau(scores[seen], received[seen] / n_queries[seen])[0]}


def attend(queries, keys, values, scale, visible):
    scores = np.where(visible, queries @ keys.T * scale, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ values / weights.sum(axis=1, keepdims=True)


def theorem_bounds(keys, queries):
    """Theorem 3.2: pairs with alpha < 0 < beta, and the least slack."""
    unit_keys, mean = unit(keys), keys.mean(axis=0)
    gamma = unit_keys @ (mean / np.linalg.norm(mean))
    n_pairs, least = 0, np.inf
    for some in np.array_split(queries, max(1, len(queries) // 512)):
        some = unit(some)
        alpha = some @ (mean / np.linalg.norm(mean))
        some, alpha = some[alpha < 0], alpha[alpha < 0, None]
        beta = some @ unit_keys.T
        slack = 1 + alpha * beta - alpha**2 / 2 - beta**2 / 2 - gamma
        positive = beta > 0
        n_pairs += np.count_nonzero(positive)
        if positive.any():
            least = min(least, slack[positive].min())
    return {"bound_pairs": n_pairs, "bound_min_slack": least}


def measure_head(head, full, bounds):
    keys, queries = head["keys"].astype(np.float64), head["queries"].astype(np.float64)
    n, d = keys.shape
    mean_key, all_queries = keys.mean(axis=0), queries.reshape(-1, d)
    cosines = unit(keys) @ (mean_key / np.linalg.norm(mean_key))
    mean_query = all_queries.mean(axis=0)
    found = agreement(-cosines, head["attention_received"], head["attention_queries"])
    found["mean_key_cosine"] = cosines.mean()
    found["key_query_mean_cosine"] = mean_key @ mean_query / np.linalg.norm(mean_key) / np.linalg.norm(mean_query)
    top = keys[np.argmin(cosines)]
    found["top_key_query_cosine"] = top @ mean_query / np.linalg.norm(top) / np.linalg.norm(mean_query)

    retained = np.flatnonzero(head["evicted_at"] < 0)
    kept = keys[retained]
    sigma = np.linalg.svd(kept, compute_uv=False)
    found["log_volume_nats"] = 2 * np.log(sigma[sigma > 1e-6 * sigma[0]]).sum()
    k = unit(kept)
    found["regularised_log_volume_nats"] = np.linalg.slogdet(np.eye(d) + k.T @ k)[1]
    found["participation_ratio"] = (sigma**2).sum() ** 2 / (sigma**4).sum()
    share = sigma / sigma.sum()
    found["effective_rank"] = np.exp(-(share * np.log(share)).sum())
    total = np.square(k.sum(axis=0)).sum()
    found["mean_pairwise_cosine"] = (total - len(k)) / (len(k) * (len(k) - 1))
    found["cosine_objective"] = total

    received = full["attention_received"]
    found["attention_mass_kept"] = received[retained].sum() / received.sum()
    last = full["queries"][:, -M:].astype(np.float64).reshape(-1, d)
    at = np.tile(np.arange(n - M, n), len(queries))
    all_keys, values = full["keys"].astype(np.float64), full["values"].astype(np.float64)
    visible = np.arange(n) <= at[:, None]
    outputs = attend(last, all_keys, values, d**-0.5, visible)
    lost = attend(last, all_keys[retained], values[retained], d**-0.5, visible[:, retained]) - outputs
    found["output_error"] = np.linalg.norm(lost) / np.linalg.norm(outputs)

    rows = np.concatenate([keys, all_queries])
    rows -= rows.mean(axis=0)
    variances = np.linalg.eigvalsh(rows.T @ rows)
    found["pca_explained"] = list(variances[::-1][:2] / variances.sum())
    return found | (theorem_bounds(keys, all_queries) if bounds else {})


def read_layer(run, layer):
    group = run[layer]
    names = ("keys", "values", "queries", "attention_received", "attention_queries", "evicted_at")
    return {name: group[name][...] for name in names}


def head_of(layer, h):
    n_kv_heads = len(layer["keys"])
    group = len(layer["queries"]) // n_kv_heads
    return {name: rows[h * group:(h + 1) * group] if name == "queries" else rows[h] for name, rows in layer.items()}


def numpy_analysis(path, only_run, n_heads):
    results = {}
    with h5py.File(path) as file, threadpoolctl.threadpool_limits(1), \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = file["entry/runs"]
        for layer in sorted(name for name in runs["none"] if name.startswith("layer_")):
            full = read_layer(runs["none"], layer)
            for name in [only_run] if only_run else runs:
                own = full if name == "none" else read_layer(runs[name], layer)
                heads = range(n_heads or len(own["keys"]))
                measured = pool.map(lambda h, own=own: measure_head(head_of(own, h), head_of(full, h), bool(n_heads)), heads)
                results |= {(name, int(layer[-2:]), h): found for h, found in zip(heads, measured)}
    return results


def run_analyze(keyscope, path, options):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "measures.json"
        start = time.perf_counter()
        subprocess.run([keyscope, "analyze", path, "--json", out, "--quiet", *options], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        return seconds, json.loads(out.read_text())


def run_peer(path, options):
    start = time.perf_counter()
    output = subprocess.run([sys.executable, __file__, "--peer", path, *map(str, options)], check=True, stdout=subprocess.PIPE)
    return time.perf_counter() - start, json.loads(output.stdout)


def compare(ours, theirs):
    """The largest relative difference of each measure."""
    heads = {(run["run"], head["layer"], head["kv_head"]): head for run in ours["runs"] for head in run["heads"]}
    worst = {}
    for key, found in theirs:
        for name, value in found.items():
            own = heads[tuple(key)][name]
            gap = np.max(np.abs(np.subtract(own, value)) / np.maximum(np.abs(value), 1e-12))
            worst[name] = max(worst.get(name, 0), float(gap))
    return worst


def run_alone(program, words):
    start = time.perf_counter()
    subprocess.run([*program, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def in_turns(sides, rounds):
    """Seconds of every side, by its name, in rounds that go through them forwards and backwards."""
    seconds = {name: [] for name in sides}
    for i in range(rounds):
        for name in list(sides) if i % 2 == 0 else reversed(sides):
            seconds[name].append(sides[name]())
    return seconds


def report(wait, seconds):
    """A line: medians with extremes, and of every other side its ratio to the first, round by round."""
    own = seconds["Keyscope"]
    parts = []
    for name, times in seconds.items():
        part = f"{name} {statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f})"
        if times is not own:
            ratios = sorted(other / ours for other, ours in zip(times, own))
            part += f", {statistics.median(ratios):.2f} times [{ratios[0]:.2f}, {ratios[-1]:.2f}]"
        parts.append(part)
    print(f"{wait}: " + "; ".join(parts) + f"; load {os.getloadavg()[0]:.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("keyscope", type=pathlib.Path)
    parser.add_argument("recording")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bounds-heads", type=int, default=2)
    parser.add_argument("--export", action="store_true", help="`export` of all figures as well, without a peer")
    parser.add_argument("--window", action="store_true",
                        help="the window's first picture as well, under xvfb-run, from its start to its end")
    parser.add_argument("--before", type=pathlib.Path, help="another build of keyscope, in the same turns")
    arguments = parser.parse_args()
    programs = {"Keyscope": arguments.keyscope} | ({"before": arguments.before} if arguments.before else {})
    n = arguments.bounds_heads
    heads = ",".join(map(str, range(n)))
    analyses = {"analyze --no-bounds": (["--no-bounds"], ["", 0]),
                f"analyze of keydiff, KV heads {heads}, bounds": (["--run", "keydiff", "--kv-heads", heads], ["keydiff", n])}
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors, NumPy {np.__version__}")
    for wait, (own, others) in analyses.items():
        numbers = {}

        def analyze(name, program, own=own, numbers=numbers):
            seconds, numbers[name] = run_analyze(program, arguments.recording, own)
            return seconds

        def numpy(others=others, numbers=numbers):
            seconds, numbers["NumPy"] = run_peer(arguments.recording, others)
            return seconds

        sides = {name: lambda name=name, program=program: analyze(name, program) for name, program in programs.items()}
        report(wait, in_turns(sides | {"NumPy": numpy}, arguments.rounds))
        worst = compare(numbers["Keyscope"], numbers["NumPy"])
        print("  largest relative difference: " + ", ".join(f"{key} {gap:.1e}" for key, gap in worst.items() if gap > 1e-9))
    with tempfile.TemporaryDirectory() as folder:
        alone = {"--version": ["--version"], "inspect": ["inspect", arguments.recording],
                 "compare": ["compare", arguments.recording, arguments.recording, "--quiet"]}
        if arguments.export:
            alone["export"] = ["export", arguments.recording, "--out", f"{folder}/figures.h5", "--force", "--quiet"]
        if arguments.window:
            alone["view"] = ["view", arguments.recording, "--screenshot", f"{folder}/window.png", "--force"]
        for wait, words in alone.items():
            outside = ["xvfb-run", "-a"] if wait == "view" else []
            sides = {name: lambda program=program, words=words: run_alone([*outside, program], words)
                     for name, program in programs.items()}
            report(wait, in_turns(sides, arguments.rounds))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        results = numpy_analysis(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        json.dump([[key, found] for key, found in results.items()], sys.stdout, default=float)
    else:
        main()
