"""The eviction scorers of 2024 to 2026 on one KV head, in float64 and as plainly as their papers put them.

Every scorer takes a Head and gives one score a row; larger ones stay. Rows that stay whatever they score are a
second list, the first of which go in first. What a paper or the authors' code leaves open is decided here, and
the docstring says what was chosen and from where. None of them reads the project's code.

Query heads of the KV head's group are the first axis of all that belongs to queries. Standard deviations divide
by the count unless it is said; kvpress is version 0.5.5.
"""

import dataclasses
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "goldens"))
import pinned_blas  # noqa: F401, E402, before NumPy
import numpy as np  # noqa: E402


@dataclasses.dataclass
class Head:
    """What a scorer may look at: n rows of d numbers, G query heads, a window of the last w queries."""

    unrotated_keys: np.ndarray  # (n, d), before RoPE
    keys: np.ndarray  # (n, d), after RoPE: what the cache holds
    values: np.ndarray  # (n, d)
    positions: np.ndarray  # (n,), true ones, ascending
    inverse_frequencies: np.ndarray  # (d/2,)
    window_queries: np.ndarray  # (G, w, d), after RoPE; of the last w rows
    attention: np.ndarray  # (G, w, n), 0 where the row comes after the query
    outputs: np.ndarray  # (G, w, d), Σ_j p_j v_j
    query_means: np.ndarray  # (G, d), of the unrotated queries of all positions so far
    query_covariances: np.ndarray  # (G, d, d), of the same, divided by their count
    query_moduli: np.ndarray  # (G, d/2), mean of |q_f| over the same, q_f = q[f] + i q[f + d/2]
    query_filter: np.ndarray  # (d,), of Q-Filters
    output_weights: np.ndarray  # (G, hidden, d), the columns of W_O that a query head's output meets
    layer: int = 0
    kv_head: int = 0

    @property
    def n(self):
        return len(self.positions)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def unit(x):
    """Rows of length 1; a row of zeros stays one, so that its cosines are 0."""
    norms = np.linalg.norm(x, axis=-1, keepdims=True)
    return np.divide(x, norms, out=np.zeros_like(x), where=norms > 0)


def share(part, whole):
    """part / whole, and 0 where whole is 0."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole != 0)


def z_scores(x):
    return (x - x.mean()) / max(x.std(), 1e-6)


def as_complex(x):
    """Llama's pairs: channel f with channel f + d/2."""
    half = x.shape[-1] // 2
    return x[..., :half] + 1j * x[..., half:]


def rotate(x, positions, inverse_frequencies):
    """RoPE of rows at `positions` turns pair f by position · ω_f."""
    z = as_complex(x) * np.exp(1j * np.multiply.outer(positions, inverse_frequencies))
    return np.concatenate([z.real, z.imag], axis=-1)


def mean_rotation(head, n_future=512):
    """R̄ (d, d): the mean RoPE of the n_future positions after the last one, which is last + 1, …, last + 512,
    counted from the true position of the last row and not from the number of rows that are left."""
    future = head.positions[-1] + 1 + np.arange(n_future)
    factor = np.exp(1j * np.multiply.outer(future, head.inverse_frequencies)).mean(axis=0)
    c, s = np.diag(factor.real), np.diag(factor.imag)
    return np.block([[c, -s], [s, c]])


def pool(x, kernel, how):
    """Over rows in time order, as many on either side. `mean` takes rows beyond the ends as 0 and always divides
    by the kernel, as SnapKV's does; `max` leaves them out."""
    side = kernel // 2
    out = np.empty_like(x)
    for j in range(x.shape[-1]):
        near = x[..., max(0, j - side):j + side + 1]
        out[..., j] = near.max(axis=-1) if how == "max" else near.sum(axis=-1) / kernel
    return out


def first_and_last(n, n_first, n_last):
    """Rows that stay, in the order in which they go in: the first ones, then the last ones, latest first."""
    first = list(range(min(n, n_first)))
    return first + [j for j in range(n - 1, max(n - n_last, len(first)) - 1, -1)]


def splitmix(x):
    """The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) of uint64."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def uniform_draws(seed, layer, kv_head, counts):
    """Numbers of [0, 1), each a hash of its four arguments alone: the leading 53 bits of
    s(s(s(s(seed) ^ layer) ^ kv_head) ^ count), s: SplitMix64's output function."""
    hashed = splitmix(np.full(np.shape(counts), seed, np.uint64))
    for part in (layer, kv_head, counts):
        hashed = splitmix(hashed ^ np.asarray(part, np.uint64))
    return (hashed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def gaussian_sketch(head, n_columns):
    """Compactor's sketch of a layer and KV head, (d, n_columns): normal numbers of variance 1/n_columns by Box and
    Muller's method; entry i, row after row, of draws 2i and 2i + 1 with seed 0."""
    d = head.keys.shape[1]
    drawn = uniform_draws(0, head.layer, head.kv_head, np.arange(2 * d * n_columns)).reshape(d, n_columns, 2)
    return np.sqrt(-2 / n_columns * np.log1p(-drawn[..., 0])) * np.cos(2 * math.pi * drawn[..., 1])


def keydiff(head):
    """-cos(k_j, mean key) (arXiv 2504.15364, the anchor of the paper's experiments). A key of zeros scores 0."""
    return -(unit(head.keys) @ unit(head.keys.mean(axis=0))), []


def manifold(head, window=0):
    """‖k_j - mean key‖ (ManifoldKV, arXiv 2602.08343), of rotated keys, over all rows present.

    With a window (WindowedManifoldKV; the paper's is of 4096 tokens) the mean is that of the row's window: windows of so
    many rows follow one another without overlap from the first row present, and the last is as short as what is left,
    down to one row, which is its own mean and scores 0. They are counted in rows of the cache: the paper compresses a
    finished prefill, of which all tokens are there.
    """
    means = np.empty_like(head.keys)
    for start in range(0, head.n, window or head.n):
        stop = start + (window or head.n)
        means[start:stop] = head.keys[start:stop].mean(axis=0)
    return np.linalg.norm(head.keys - means, axis=1), []


def partition_scores(head, rows, after):
    """LagKV's scores of a partition before they are ranked; `after` is the next one."""
    score = np.zeros(rows.stop - rows.start)
    for x in (head.keys, head.values):
        low, high = x[after].min(axis=0), x[after].max(axis=0)
        relative = share(x[rows] - low, np.broadcast_to(high - low, x[rows].shape))
        score += softmax(relative.std(axis=1, ddof=1)) / 2
    return score


def lagkv(head, sinks=4, lag=128):
    """LagKV (arXiv 2504.04704; kvpress's LagKVPress, by its authors, agrees but for ties and empty ranges).

    After the first `sinks` rows, rows are cut into partitions of `lag`, by rank in the cache and not by position.
    A row's channels become (x - min)/(max - min), min and max over the next partition; the deviation over channels
    (divided by d - 1, as torch's std, which the authors use) goes through a softmax over the partition; K's and V's
    are averaged. The score is the row's rank in its partition, from 0, over `lag`: of two equal ones the lower
    position ranks higher, because ties keep it. A channel that the next partition holds constant counts 0 in all
    rows (0/0 in the authors' code). Sinks, the last whole partition and the incomplete one after it stay, score 1,
    the latest first once the sinks are in. With fewer than sinks + 2 lag rows nothing has a next partition: row i
    after the sinks scores (i - sinks)/(n - sinks), which is recency, as the authors' code does it.
    """
    n = head.n
    scores = np.ones(n)
    if n < sinks + 2 * lag:
        scores[sinks:] = np.arange(max(0, n - sinks)) / max(1, n - sinks)
        return scores, first_and_last(n, sinks, 0)
    n_parts = (n - sinks) // lag
    for part in range(n_parts - 1):
        rows = slice(sinks + part * lag, sinks + (part + 1) * lag)
        score = partition_scores(head, rows, slice(rows.stop, rows.stop + lag))
        ascending = sorted(range(lag), key=lambda i: (score[i], -i))
        scores[rows.start + np.array(ascending)] = np.arange(lag) / lag
    return scores, first_and_last(n, sinks, n - sinks - (n_parts - 1) * lag)


def expected(head, epsilon=1e-2, sinks=0):
    """Expected Attention (arXiv 2510.00636): softmax over rows of k·R̄μ/√d + kᵀR̄ΣR̄ᵀk/(2d), a query head at a time,
    mean over the group, (· + ε)·‖v‖.

    ε: kvpress's press defaults to 0 and its published runs take 1e-2, which is the default here. Σ divides by the
    count, as kvpress's. `sinks` rows of the cache stay and are left out of the softmax; the default is 0, since
    protection is a slot of its own, where kvpress has 4 (and leaves the first 4 queries out of μ and Σ).
    """
    d = head.keys.shape[1]
    r = mean_rotation(head)
    keys, scores = head.keys[sinks:], np.zeros(head.n)
    weights = [softmax(keys @ (r @ mu) / math.sqrt(d) + ((keys @ (r @ sigma @ r.T)) * keys).sum(axis=1) / (2 * d))
               for mu, sigma in zip(head.query_means, head.query_covariances) if len(keys)]
    if weights:
        scores[sinks:] = (np.mean(weights, axis=0) + epsilon) * np.linalg.norm(head.values[sinks:], axis=1)
    return scores, first_and_last(head.n, sinks, 0)


def capkv(head, tau=5.0, sinks=0):
    """CapKV (arXiv 2604.25975): w_j = exp(τ cos(k_j, q̄)), A = I + Σ w v vᵀ, score w_j v_jᵀA⁻¹v_j, a query head at a
    time, mean over the group.

    q̄ is R̄μ, the mean query under the mean rotation of the next 512 positions: the paper does not say how a mean of
    queries meets rotated keys, kvpress does it so. The paper's exponent is a plain product of vectors; cosines are
    kvpress's. w is not divided by its largest, as kvpress does against overflow: that scales w against the I of A,
    so it is another ranking, and e^5 does not overflow. kvpress's 1e-6 beside w in A is left out.
    """
    d = head.values.shape[1]
    r = mean_rotation(head)
    keys, values, scores = head.keys[sinks:], head.values[sinks:], np.zeros(head.n)
    for mu in head.query_means:
        w = np.exp(tau * (unit(keys) @ unit(r @ mu)))
        a = np.eye(d) + (values * w[:, None]).T @ values
        scores[sinks:] += w * (values * np.linalg.solve(a, values.T).T).sum(axis=1) / len(head.query_means)
    return scores, first_and_last(head.n, sinks, 0)


def triattention(head, group="max"):
    """TriAttention (arXiv 2604.04921): the mean over o = 1, 2, 4, …, 65536 of
    Σ_f |E q_f||k_f| cos((t + o - p)ω_f + φ_f), plus Σ_f (E|q_f| - |E q_f|)|k_f|; φ_f = arg E q_f - arg k_f.

    t is the position of the last row, so that o = 1 is the very next query; the authors' code counts from the
    number of tokens, one later. The offsets are its default, 2^0 to 2^16. Scores of a query head are z-scored over
    the rows (deviation at least 1e-6), and the largest of the group counts: the largest is the default of the
    authors' code, the z-scores that of TensorRT-LLM's port; `group="mean"` is the plain mean, without z-scores.
    """
    offsets = 2.0 ** np.arange(17)
    t, omega = head.positions[-1], head.inverse_frequencies
    k = as_complex(head.unrotated_keys)
    per_head = []
    for mu, moduli in zip(head.query_means, head.query_moduli):
        q = as_complex(mu)
        distance = t + offsets[:, None] - head.positions[None, :]  # (offsets, n)
        phase = distance[:, :, None] * omega + (np.angle(q) - np.angle(k))
        waves = (np.abs(q) * np.abs(k) * np.cos(phase)).sum(axis=2).mean(axis=0)
        per_head.append(waves + np.abs(k) @ (moduli - np.abs(q)))
    if group == "mean":
        return np.mean(per_head, axis=0), []
    return np.max([z_scores(s) for s in per_head], axis=0), []


def qfilters(head):
    """Q-Filters (arXiv 2503.02812): -f·k, rotated keys.

    The paper keeps the keys with the largest product with u, the main right singular vector of a head's rotated
    queries, oriented so that their mean product with it is positive (its theorem: E q·k ≈ κ u·k, κ > 0), and
    averages u over the group. -f·k, as kvpress scores with the published filters, is that rule if f = -u: so the
    filter here is minus the group's mean of u. f = +u would keep the keys that queries turn away from.
    """
    return -(head.keys @ head.query_filter), []


def query_filter(rotated_queries):
    """f of `qfilters` from (G, T, d) rotated queries: not centred, each head's vector of length 1."""
    oriented = []
    for q in rotated_queries:
        u = np.linalg.svd(q, full_matrices=False)[2][0]
        oriented.append(u if (q @ u).mean() >= 0 else -u)
    return -np.mean(oriented, axis=0)


def leverage(x, ridge):
    """x_jᵀ(XᵀX + ridge·I)⁻¹x_j of rows about their mean; ridge 0: the pseudo-inverse."""
    x = x - x.mean(axis=0)
    gram = x.T @ x
    if ridge > 0:
        return (x * np.linalg.solve(gram + ridge * np.eye(len(gram)), x.T).T).sum(axis=1)
    return (x * (x @ np.linalg.pinv(gram, rcond=1e-10, hermitian=True))).sum(axis=1)


def compactor(head, blend, sketch=0, chunk=256):
    """Compactor (arXiv 2507.08143): blend · z(leverage of centred unrotated keys) + z(chunk attention · ‖v‖).

    Leverage: of (K - mean)Φ, Φ the Gaussian sketch (d × sketch, of variance 1/sketch; the authors have 48), with 1e-2 on
    the diagonal of its Gram matrix, as kvpress; with sketch 0, of K - mean, exact. kvpress draws Φ anew at every call;
    here it is one of the layer and head. Chunk attention: the rows in chunks of `chunk` from the
    first, in each a softmax over its rows, later ones included, of q·k, which neither kvpress nor the authors' engine
    divides by √d; summed over queries, mean over the group, times ‖v‖, mean over 3 neighbouring rows (0 beyond the
    ends, divisor 3). The queries of every chunk are those of the window: the authors' are the chunk's own, which are
    gone once a block has passed; with one chunk and a window of all its rows the two are the same. blend: the share
    of rows that is evicted, 1 - N/n (kvpress's default; the authors' engine has 0.5). z-scores are a head's own, not
    the layer's; whether their deviation divides by n or n - 1 scales both terms alike. kvpress's 8 first and 4 last
    rows, which stay and count in no mean, are left to the protection slot.
    """
    x = head.unrotated_keys - head.unrotated_keys.mean(axis=0)
    geometry = leverage(x @ gaussian_sketch(head, sketch), 1e-2) if sketch else leverage(x, 0)
    received = np.zeros(head.n)
    for start in range(0, head.n, chunk):
        keys = head.keys[start:start + chunk]
        for queries in head.window_queries:
            received[start:start + chunk] += softmax(queries @ keys.T).sum(axis=0) / len(head.window_queries)
    weighed = pool(received * np.linalg.norm(head.values, axis=1), 3, "mean")
    return blend * z_scores(geometry) + z_scores(weighed), []


def rkv(head, window=8, weight=0.1, kernel=7, threshold=0.5):
    """R-KV (arXiv 2505.24133): weight · pooled window attention - (1 - weight) · redundancy.

    Attention: mean over the last `window` queries and the group, maximum over `kernel` neighbouring rows. The
    authors' code takes the group's largest logit before one softmax over the rows before the window; these are the
    weights that the model computed, over all rows. Redundancy: cosines of all pairs of rotated keys, 0 on the
    diagonal; in each row i of that table the latest j whose cosine is above `threshold` is spared (set to 0);
    softmax over j of the mean over i. Cosines below the threshold stay in the mean, as in the authors' code. Where
    row i has none above it, nothing is spared (their code then spares j = 0). The last `window` rows stay.
    """
    n = head.n
    window = min(window, head.attention.shape[1])
    attention = pool(head.attention[:, -window:].mean(axis=(0, 1)), kernel, "max")
    cosines = unit(head.keys) @ unit(head.keys).T
    np.fill_diagonal(cosines, 0)
    for i in range(n):
        similar = np.flatnonzero(cosines[i] > threshold)
        if len(similar):
            cosines[i, similar[-1]] = 0
    redundancy = softmax(cosines.mean(axis=0))
    return weight * attention - (1 - weight) * redundancy, first_and_last(n, 0, window)


def dropkv(head):
    """Σ over the window of (p/(1 - p))²‖v - o‖², mean over the group: what the squared output of a query changes by
    when this row alone goes and the others' weights are scaled up, since o' - o = p(o - v)/(1 - p) (the closed form
    of CAOTE, arXiv 2504.14051, squared). 1 - p is at least 1e-6; where p = 1, v = o, and the score is 0.
    """
    p = head.attention
    squares = ((head.values[None, None] - head.outputs[:, :, None]) ** 2).sum(axis=3)
    return ((p / np.maximum(1 - p, 1e-6)) ** 2 * squares).sum(axis=1).mean(axis=0), []


def defensive(head, kernel=0):
    """Defensive aggregation (DefensiveKV, arXiv 2510.13334): the largest weight over window and group,
    and no less than the mean of that over the rows.

    Of all rows, the window's included, and without the authors' norms of W_O v, which are `critical`. Rows at the
    floor tie, and the lower position stays. With `kernel`, each query's weights are averaged over so many
    neighbouring rows first, as SnapKV pools; the authors then scale a query's weights back to what they summed up
    to, which matters within half a kernel of the ends alone and is left out.
    """
    weights = pool(head.attention, kernel, "mean") if kernel else head.attention
    largest = weights.max(axis=(0, 1))
    return np.maximum(largest, largest.mean()), []


def window_attention(head):
    """Sum over the window, mean over the group: what SnapKV pools."""
    return head.attention.sum(axis=1).mean(axis=0), []


def cur(head, window=16, sinks=4):
    """CurDKV (arXiv 2509.15038) as kvpress approximates it: (‖k‖²/Σ_w ‖k‖²)(‖v‖²/Σ_w ‖v‖²), w the row's window of 16
    consecutive rows of the cache, the last one short. The first 4 rows stay, score 1. kvpress then divides by the
    sum of all scores, which ranks alike; a window of zeros scores 0 (0/0 there)."""
    scores = np.ones(head.n)
    for start in range(0, head.n, window):
        k, v = ((x[start:start + window] ** 2).sum(axis=1) for x in (head.keys, head.values))
        scores[start:start + window] = share(k, np.full_like(k, k.sum())) * share(v, np.full_like(v, v.sum()))
    scores[:sinks] = 1
    return scores, first_and_last(head.n, sinks, 0)


def output_norms(head):
    """‖W_O v_j‖₁, W_O's columns of one query head, mean over the group (CriticalKV, arXiv 2502.03805)."""
    return np.mean([np.abs(head.values @ w.T).sum(axis=1) for w in head.output_weights], axis=0)


def critical(head, scores, budget, shift=False):
    """CriticalKV over another's scores: the best half of the budget by s stays (at least one row, half rounded down,
    as kvpress), and the others score (s + 1e-4)·‖W_O v‖₁.

    The paper's s is an attention weight. Of scores below 0, KeyDiff's, a large ‖W_O v‖₁ then speaks against a row;
    `shift` takes the least score from s first, so that it never does.
    """
    first = sorted(range(head.n), key=lambda j: (-scores[j], j))[:max(1, budget // 2)]
    base = scores - scores.min() if shift else scores
    return (base + 1e-4) * output_norms(head), first


def duo(head, streaming, sinks=4):
    """DuoAttention (arXiv 2410.10819): a streaming head keeps its first `sinks` positions and its latest rows, within
    the budget; the others keep everything (None). Which heads stream is a list, found by training."""
    if not streaming:
        return None, []
    return head.positions.astype(np.float64), [j for j in range(head.n) if head.positions[j] < sinks]


def retain(positions, scores, stays, budget):
    """The `budget` positions that stay, in time order, and by how much the last of them beat the first that goes
    (0: a tie, which the lower position won; None: nothing went, or none stayed by score)."""
    stays = stays[:budget]
    others = sorted(set(range(len(scores))) - set(stays), key=lambda j: (-scores[j], j))
    cut = budget - len(stays)
    kept = sorted(stays + others[:cut])
    gap = float(scores[others[cut - 1]] - scores[others[cut]]) if 0 < cut < len(others) else None
    return [int(positions[j]) for j in kept], gap
