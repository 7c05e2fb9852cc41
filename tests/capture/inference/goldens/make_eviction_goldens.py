"""Which rows each policy keeps, by the float64 reference of block_reference.py on tiny_llama, or on the model that a
case names: tiny_gemma2 has a window of 12 in its first layer, tiny_mistral_window of 10 in both.

    python make_eviction_goldens.py         writes eviction.golden.json beside itself; deterministic
    made with numpy 2.x; seeds as stored

The C++ code works in float32, so a prompt is taken only if no eviction and no generated token was a closer
call than the contract's tolerances: 2e-5 between scores at the cut, and 1e-4 of the largest logit; where the
cache is quantised, only if no number came closer to the middle of two steps than 1.5e-6 of the largest beside it.
"""

import json
import math
import pathlib

import numpy as np

from block_reference import BlockLlama, Run

HERE = pathlib.Path(__file__).parent
SCORE_GAP, LOGIT_GAP, ROUNDING_GAP = 2e-5, 1e-4, 1.5e-6

GEMMA2 = dict(model="tiny_gemma2", n=32, generate=3)
MISTRAL = dict(model="tiny_mistral_window", n=32, generate=3)
CASES = [
    dict(policy="none", options={}, budget=0, block=16, n=24, generate=4),
    dict(policy="keydiff", options={}, budget=12, block=8, n=40, generate=6),
    dict(policy="keydiff", options={}, budget=16, block=16, n=40, generate=0),
    dict(policy="keydiff", options={}, budget=7, block=1, n=30, generate=3),
    dict(policy="keydiff", options={}, budget=5, block=64, n=33, generate=2),
    dict(policy="keydiff", options={"recent": "0.25"}, budget=10, block=6, n=40, generate=3),
    dict(policy="keydiff", options={"anchor": "normalized-mean"}, budget=12, block=8, n=40, generate=0),
    dict(policy="keydiff", options={"anchor": "median"}, budget=12, block=7, n=40, generate=0),
    dict(policy="sink", options={}, budget=12, block=8, n=40, generate=6),
    dict(policy="sink", options={}, budget=3, block=5, n=23, generate=3),
    dict(policy="sink", options={"first": "1"}, budget=9, block=1, n=30, generate=0),
    dict(policy="tova", options={}, budget=12, block=8, n=40, generate=6),
    dict(policy="tova", options={}, budget=9, block=1, n=30, generate=4),
    dict(policy="tova", options={"heads": "all"}, budget=12, block=8, n=40, generate=4),
    dict(policy="h2o", options={}, budget=12, block=8, n=40, generate=6),
    dict(policy="h2o", options={"recent": "0.5"}, budget=9, block=5, n=33, generate=4),
    dict(policy="h2o", options={"normalize": "1"}, budget=12, block=8, n=40, generate=4),
    dict(policy="snapkv", options={}, budget=40, block=16, n=72, generate=4),
    dict(policy="snapkv", options={"window": "3", "kernel": "3", "recent": "2"}, budget=10, block=7, n=40, generate=4),
    dict(policy="snapkv", options={"window": "8", "kernel": "1", "recent": "0"}, budget=9, block=1, n=30, generate=3),
    dict(policy="l2norm", options={}, budget=12, block=8, n=40, generate=4),
    dict(policy="l2norm", options={"skip": "1"}, budget=12, block=8, n=40, generate=4),
    dict(policy="manifold", options={}, budget=12, block=8, n=40, generate=4),
    dict(policy="cur", options={}, budget=12, block=8, n=40, generate=4),
    dict(policy="leverage", options={}, budget=12, block=8, n=40, generate=4),
    dict(policy="logdet", options={}, budget=12, block=8, n=40, generate=4),
    dict(policy="logdet", options={"ridge": "0.01"}, budget=12, block=7, n=40, generate=0),
    dict(policy="keydiff", options={}, budget=12, block=8, n=40, generate=4, oracle=True),
    dict(policy="h2o", options={}, budget=12, block=7, n=40, generate=0, oracle=True),
    dict(policy="snapkv", options={"window": "3", "kernel": "3", "recent": "2"}, budget=10, block=7, n=40, generate=3,
         oracle=True),
    dict(policy="sink", options={}, budget=12, block=8, n=40, generate=6, positions="cache"),
    dict(policy="keydiff", options={}, budget=12, block=7, n=40, generate=4, positions="cache"),
    dict(policy="keydiff", options={}, budget=20, block=8, n=40, generate=4, budgets=[[12, 7], [20, 3]]),
    dict(policy="tova", options={}, budget=15, block=6, n=40, generate=3, budgets=[[15, 4], [8, 8]]),
    dict(policy="h2o", options={"recent": "0.5"}, budget=15, block=6, n=40, generate=3, budgets=[[15, 4], [9, 7]],
         positions="cache"),
    GEMMA2 | dict(policy="none", options={}, budget=0, block=7),
    GEMMA2 | dict(policy="keydiff", options={}, budget=8, block=5),
    GEMMA2 | dict(policy="sink", options={}, budget=8, block=16),
    GEMMA2 | dict(policy="tova", options={}, budget=8, block=4),
    GEMMA2 | dict(policy="h2o", options={}, budget=8, block=5),
    GEMMA2 | dict(policy="h2o", options={"normalize": "1"}, budget=10, block=1),
    GEMMA2 | dict(policy="snapkv", options={"window": "4", "kernel": "3", "recent": "2"}, budget=8, block=6),
    GEMMA2 | dict(policy="l2norm", options={}, budget=8, block=20),
    MISTRAL | dict(policy="none", options={}, budget=0, block=16),
    MISTRAL | dict(policy="keydiff", options={}, budget=6, block=4),
    MISTRAL | dict(policy="tova", options={"heads": "all"}, budget=6, block=3),
    MISTRAL | dict(policy="h2o", options={}, budget=20, block=8),
    MISTRAL | dict(policy="snapkv", options={"window": "12", "recent": "3"}, budget=7, block=16),
    MISTRAL | dict(policy="cur", options={}, budget=6, block=7),
    dict(policy="none", options={}, budget=0, block=48, n=70, generate=3, cache=("int4", "channel")),
    dict(policy="keydiff", options={}, budget=40, block=16, n=72, generate=5, cache=("int4", "channel")),
    dict(policy="keydiff", options={}, budget=36, block=1, n=46, generate=2, cache=("int4", "channel")),
    dict(policy="keydiff", options={}, budget=20, block=40, n=40, generate=0, cache=("int8", "channel")),
    dict(policy="h2o", options={}, budget=12, block=8, n=40, generate=3, cache=("int4", "token")),
    dict(policy="keydiff", options={}, budget=10, block=8, n=24, generate=0, cache=("int8", "token")),
    dict(policy="keydiff", options={}, budget=12, block=7, n=40, generate=3, cache=("int4", "token"), positions="cache"),
    dict(policy="keydiff", options={}, budget=12, block=8, n=26, generate=2, cache=("fp8", "head")),
    dict(policy="snapkv", options={"window": "3", "kernel": "3", "recent": "2"}, budget=10, block=7, n=26, generate=2,
         cache=("fp8", "token")),
    MISTRAL | dict(policy="keydiff", options={}, budget=20, block=40, n=48, cache=("int4", "channel")),
]


def rounded(value):
    """Ten digits are enough for a float32 comparison, and keep the file small; what is not finite becomes null."""
    if isinstance(value, list):
        return [rounded(v) for v in value]
    if isinstance(value, float):
        return None if not math.isfinite(value) else float(f"{value:.9g}")
    return value


def solve(model: BlockLlama, case: dict) -> dict:
    for seed in range(400 if "cache" in case else 100):
        prompt = np.random.default_rng(seed).integers(4, model.config["vocab_size"], case["n"]).tolist()
        result = Run(model, case | {"prompt": prompt}).run()
        clear = result.get("rounding_gap", ROUNDING_GAP) >= ROUNDING_GAP
        if clear and result["smallest_gap"] >= SCORE_GAP and result["logit_gap"] >= LOGIT_GAP:
            if case["policy"] == "none":
                result["smallest_gap"] = None
            if case["generate"] == 0:
                result["logit_gap"] = None
            return case | {"seed": seed, "prompt": prompt} | {k: rounded(v) for k, v in result.items()}
    raise RuntimeError(f"no prompt without a close call for {case}")


def main() -> None:
    solved = [solve(BlockLlama(HERE / case.get("model", "tiny_llama")), case) for case in CASES]
    for case in solved:
        print(case.get("model", ""), case["policy"], case["options"], case["budget"], case["block"], *case.get("cache", ()), "seed", case["seed"],
              "gap", case["smallest_gap"])
    text = ",\n".join(json.dumps(case, separators=(",", ":")) for case in solved)
    (HERE / "eviction.golden.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
