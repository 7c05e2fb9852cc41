"""Rows that the C++ tests draw bit for bit the same: tests/analysis/sample_rows.hpp."""

import numpy as np

GOLDEN_RATIO = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


def uniform(seed, n):
    """n numbers of [0, 1): the SplitMix64 stream of a seed, 53 bits each."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (np.arange(n, dtype=np.uint64) + np.uint64(1)) * np.uint64(GOLDEN_RATIO)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def rows(seed, n_rows, n_cols, offset=0.0, halve_every=0):
    """float32 (n_rows, n_cols), uniform over offset ± 1/2; every `halve_every` columns half as large."""
    values = (uniform(seed, n_rows * n_cols) - 0.5).reshape(n_rows, n_cols) + offset
    if halve_every:
        values *= 2.0 ** -(np.arange(n_cols) // halve_every).astype(np.float64)
    return values.astype(np.float32)


def low_rank_rows(seed, n_rows, n_cols, rank):
    """float32 of exactly that rank: small integers times multiples of 2^-10, exact in float32."""
    left = np.floor(uniform(seed, n_rows * rank) * 7).reshape(n_rows, rank) - 3
    right = (np.floor(uniform(seed + 1, rank * n_cols) * 1024) - 512).reshape(rank, n_cols) * 2.0**-10
    return (left @ right).astype(np.float32)
