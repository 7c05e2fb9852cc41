"""Writes row_quantisation_goldens.json: what a quantised cache makes of the rows that the tests draw, to the bit.

    python3 row_quantisation_goldens.py

Slow and plain: number by number, in NumPy's float32, from the formulas. Integers as KIVI (arXiv 2402.02750,
Section 3) has them; E4M3 (arXiv 2209.05433, Section 3) by a table of all its numbers, among which the nearest is
looked for, so that nothing is shared with the code that is tested. Results are the bits of float32 numbers.
"""

import json
import pathlib

import numpy as np

from sample_rows import rows

GROUP = 32
F = np.float32
SMALLEST_NORMAL = np.finfo(F).tiny


def e4m3_numbers():
    """Every finite number of E4M3 that is not negative, ascending, with the mantissa's lowest bit."""
    numbers = []
    for code in range(0x7F):  # 0x7F is NaN
        exponent, mantissa = code >> 3, code & 7
        value = mantissa * 2.0**-9 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
        numbers.append((value, code & 1))
    return numbers


E4M3 = e4m3_numbers()
VALUES = np.array([value for value, _ in E4M3])


def to_e4m3(x):
    magnitude = min(abs(float(x)), 448.0)
    distance = np.abs(VALUES - magnitude)
    nearest = np.flatnonzero(distance == distance.min())
    best = nearest[0] if len(nearest) == 1 else next(i for i in nearest if E4M3[i][1] == 0)  # ties to even
    return F(np.copysign(VALUES[best], x))


def integers(numbers, bits):
    """Numbers with one scale and one zero point."""
    levels = F(2**bits - 1)
    low, high = F(min(numbers)), F(max(numbers))
    step = F(F(high - low) / levels)
    if step < SMALLEST_NORMAL:
        return [F(low + F(0))] * len(numbers)
    return [F(F(F(np.rint(F(F(x - low) / step))) * step) + low) for x in numbers]


def round_rows(x, dtype, scales, keys, scale=1):
    out = np.empty_like(x)
    n, d = x.shape
    if dtype == "fp8":
        for i in range(n):
            s = F(F(max(abs(x[i]))) / F(448)) if scales == "token" else F(scale)
            s = F(1) if s < SMALLEST_NORMAL else s
            for j in range(d):
                out[i, j] = F(to_e4m3(F(x[i, j] / s)) * s)
        return out
    bits = int(dtype[3:])
    if scales == "channel" and keys:
        for first in range(0, n, GROUP):
            for j in range(d):
                out[first:first + GROUP, j] = integers(x[first:first + GROUP, j], bits)
        return out
    for i in range(n):
        for first in range(0, d, GROUP):
            out[i, first:first + GROUP] = integers(x[i, first:first + GROUP], bits)
    return out


def bits_of(x):
    return np.ascontiguousarray(x, F).view(np.uint32).ravel().tolist()


def cases():
    made = []
    shapes = [(501, 64, 8, 0.0, 0), (502, 32, 40, 0.5, 8), (503, 32, 64, -3.0, 1), (504, 32, 3, 1e-3, 0)]
    formats = [("int4", "channel"), ("int8", "channel"), ("int4", "token"), ("int8", "token"), ("fp8", "token"),
               ("fp8", "head")]
    for seed, n, d, offset, halve_every in shapes:
        x = rows(seed, n, d, offset, halve_every)
        for dtype, scales in formats:
            for keys in ((True, False) if scales == "channel" else (True,)):
                scale = 0.0013
                made.append({"seed": seed, "rows": n, "cols": d, "offset": offset, "halve_every": halve_every,
                             "dtype": dtype, "scales": scales, "keys": keys, "scale": scale,
                             "bits": bits_of(round_rows(x, dtype, scales, keys, scale))})
    return made


def e4m3_cases():
    """Every number of E4M3, the middle of each two, and what lies just beside it."""
    given = []
    for low, high in zip(VALUES[:-1], VALUES[1:]):
        middle = F((low + high) / 2)
        given += [F(low), middle, np.nextafter(middle, F(0)), np.nextafter(middle, F(1e9))]
    given += [F(448), F(449), F(1e30), F(1e-30), F(2.0**-130)]
    given += [-x for x in given]
    return {"given": bits_of(np.array(given)), "bits": bits_of(np.array([to_e4m3(x) for x in given]))}


def main():
    goldens = {"versions": {"numpy": np.__version__}, "rows": cases(), "e4m3": e4m3_cases()}
    path = pathlib.Path(__file__).with_name("row_quantisation_goldens.json")
    path.write_text(json.dumps(goldens, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
