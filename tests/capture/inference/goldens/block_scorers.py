"""How rows of one head are scored, and which of them stay whatever they score: NumPy, float64, loops.

The scorers of 2024 to 2026 are those of scorer_reference.py (tests/analysis/policies/goldens); what they look at comes
from the run.
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "analysis" / "policies" / "goldens"))
import scorer_reference as newer  # before NumPy: it pins its threads
import numpy as np


def keydiff_scores(keys, options):
    keys = np.array(keys)
    unit = keys / np.linalg.norm(keys, axis=1, keepdims=True)
    anchor = {"mean": keys.mean(0), "normalized-mean": unit.mean(0), "median": np.median(keys, axis=0)}[
        options.get("anchor", "mean")]
    return -(unit @ anchor) / np.linalg.norm(anchor)


def to_digits(value, digits):
    return float(f"{value:.{digits - 1}e}")


def greedy_log_det(keys, ridge):
    """What each row raises log det(lambda I + sum k k^T) by when it is taken, always the best one next."""
    keys = np.array(keys)
    m = ridge * (keys ** 2).mean() * np.eye(keys.shape[1])
    gains, left = np.zeros(len(keys)), list(range(len(keys)))
    while left:
        before = np.linalg.slogdet(m)[1]
        raised = [np.linalg.slogdet(m + np.outer(keys[j], keys[j]))[1] - before for j in left]
        best = left[int(np.argmax(raised))]
        gains[best] = max(raised)
        m += np.outer(keys[best], keys[best])
        left.remove(best)
    return gains


def pooled(sums, kernel):
    padded = np.concatenate([np.zeros(kernel // 2), sums, np.zeros(kernel // 2)])
    return np.array([padded[i:i + kernel].sum() / kernel for i in range(len(sums))])


NEWER = {"lagkv", "expected", "capkv", "triattention", "compactor", "rkv", "dropkv", "defensive", "qfilters", "duo"}
SIGNED = {"triattention", "compactor", "rkv", "qfilters"}  # sums of both signs: an error is as large as the largest, not the cut


def json_beside(name):
    """What a file beside this one says."""
    return json.loads((pathlib.Path(__file__).parent / name).read_text())


def file_of(options):
    """What the file that `file` names says: an entry per layer, in it one per KV head."""
    return json_beside(options["file"])


def is_newer(case):
    return case["policy"] in NEWER or case["policy"] == "cur" and "window" in case["options"]


def newer_scores(case, head):
    """Scores, and the rows that stay in the order in which they go in."""
    policy, options = case["policy"], case["options"]
    numbers = {name: int(options[name]) for name in ("sinks", "lag", "window", "kernel") if name in options}
    if policy == "compactor":
        blend = options.get("blend", "budget")
        return newer.compactor(head, 1 - case["budget"] / head.n if blend == "budget" else float(blend),
                               sketch=int(options.get("sketch", 0)))
    if policy in ("dropkv", "defensive"):
        numbers.pop("window", None)  # what they see of the queries is as much
    if policy == "triattention":
        return newer.triattention(head, options.get("group", "max"))
    if policy == "duo":  # of heads that stream; others are never cut
        return newer.duo(head, True, **numbers)
    return getattr(newer, policy)(head, **numbers)


def closest_within(case, head):
    """How close a call a scorer made before there were scores, relative to what it compared."""
    if case["policy"] == "lagkv":
        sinks, lag = int(case["options"]["sinks"]), int(case["options"]["lag"])
        gaps = [np.inf]
        for stop in range(sinks + lag, head.n - lag + 1, lag):
            score = np.sort(newer.partition_scores(head, slice(stop - lag, stop), slice(stop, stop + lag)))
            gaps.append(np.min(np.diff(score) / score[1:]))
        return min(gaps)
    if case["policy"] == "rkv":  # which keys are similar
        cosines = newer.unit(head.keys) @ newer.unit(head.keys).T
        return np.abs(cosines - 0.5).min()
    if case["policy"] == "defensive":  # which rows are at the floor
        kernel = int(case["options"].get("kernel", 0))
        weights = newer.pool(head.attention, kernel, "mean") if kernel else head.attention
        largest = weights.max(axis=(0, 1))
        return np.abs(largest / largest.mean() - 1).min()
    return np.inf


def closeness(case, lowest, best_gone, compared):
    """Of a score that stayed and the best one that went. Rows at Defensive's floor are equal to the bit, and the
    lower position stays: no close call."""
    policy = case["policy"]
    if policy == "defensive" and lowest == best_gone:
        return np.inf
    signed = policy in SIGNED or case["options"].get("critical") == "shift"  # a difference as well
    size = max(np.abs(scores).max() for scores in compared) if signed else abs(lowest)
    return (lowest - best_gone) / max(size, 1e-300)


def scores_and_forced(case, head, place, last_group, last_layer, window_sums):
    """Scores of the rows of one head, and which of them stay whatever they score; place: its layer and KV head."""
    options, n = case["options"], len(head.positions)
    forced = np.zeros(n, bool)
    if case["policy"] == "keydiff":
        scores = keydiff_scores(head.keys, options)
        recent = int(np.floor(float(options.get("recent", 0)) * case["budget"] + 0.5))
        forced[n - min(recent, n):] = True
    elif case["policy"] == "sink":
        scores = np.array(head.positions, float)
        first = [i for i, p in enumerate(head.positions) if p < int(options.get("first", 4))]
        forced[first[:case["budget"]]] = True
    elif case["policy"] == "tova":
        scores = last_layer if options.get("heads", "group") == "all" else last_group
    elif case["policy"] == "h2o":
        scores = np.array(head.received)
        if int(options.get("normalize", 0)):
            scores = scores / np.array(head.seen_by)
        recent = int(np.floor(float(options.get("recent", 0)) * case["budget"] + 0.5))
        forced[n - min(recent, n):] = True
    elif case["policy"] == "snapkv":
        scores = pooled(window_sums, int(options.get("kernel", 7)))
        forced[n - min(int(options.get("recent", 32)), case["budget"]):] = True
    elif case["policy"] == "l2norm":
        scores = np.array([-to_digits(np.linalg.norm(k), 5) for k in head.keys])
    elif case["policy"] == "random":
        scores = newer.uniform_draws(int(options["seed"]), *place, head.positions)
    elif case["policy"] == "manifold":
        window = int(options.get("window", 0)) or n
        windows = [np.array(head.keys[first:first + window]) for first in range(0, n, window)]
        scores = np.concatenate([np.linalg.norm(keys - keys.mean(axis=0), axis=1) for keys in windows])
    elif case["policy"] == "cur":
        scores = (np.array(head.keys) ** 2).sum(1) * (np.array(head.values) ** 2).sum(1)
    elif case["policy"] == "leverage":
        keys = np.array(head.keys)
        u, sigma, _ = np.linalg.svd(keys, full_matrices=False)
        scores = (u[:, sigma ** 2 > 1e-10 * sigma.max() ** 2] ** 2).sum(1)
    elif case["policy"] == "logdet":
        scores = greedy_log_det(head.keys, float(options.get("ridge", 1)))
    else:
        raise ValueError(case["policy"])
    return scores, forced
