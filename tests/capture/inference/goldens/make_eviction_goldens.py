"""Which rows each policy keeps, by the float64 reference of block_reference.py on tiny_llama, or on the model that a
case names: tiny_gemma2 has a window of 12 in its first layer, tiny_mistral_window of 10 in both, tiny_smollm3 of 11 in
every second layer and tiny_gpt_oss of 10 in its first, tiny_gemma4 of 10 in every second layer, whose last two
layers have the cache of earlier ones; demo_model and demo_model_sinks are those of assets/. In tiny_qwen3_next every second layer has keys, and the others
are null; of tiny_deepseek2 and tiny_deepseek3 the latent rows are what is kept.

    python make_eviction_goldens.py [all]   writes eviction.golden.json beside itself; deterministic
    made with numpy 2.x; seeds as stored

Cases that the file has already stay as they stand, unless `all` is asked for: NumPy's float32 powers and exponentials
differ between processors, by some 1e-8 of the results.

Before a model's cases, what the reference computes of it is held against NAME.golden.safetensors, that is, against
Transformers; of the demo models, which are Llamas as tiny_llama is, there is no such file.

The C++ code works in float32, so a prompt is taken only if no eviction, no generated token and no choice of an expert
was a closer call than the contract's tolerances: 2e-5 between scores at the cut, 1e-4 of the largest logit, and 1e-4
of the largest score of a router; where the cache is quantised, only if no number came closer to the middle of two
steps than 1.5e-6 of the largest beside it. What a scorer decides before there are scores counts as well: LagKV's
ranks, which keys R-KV takes for similar, which rows lie at Defensive's floor. Rows at that floor are equal in any
precision, so a cut among them is none of these.
"""

import json
import math
import pathlib
import sys

from block_reference import Run  # before NumPy, whose threads it pins
from block_scorers import newer
import numpy as np

from reference_mixtures import load
from reference_models import Llama, read_safetensors

HERE = pathlib.Path(__file__).parent
SCORE_GAP, LOGIT_GAP, ROUTER_GAP, ROUNDING_GAP = 2e-5, 1e-4, 1e-4, 1.5e-6

GEMMA2 = dict(model="tiny_gemma2", n=32, generate=3)
MISTRAL = dict(model="tiny_mistral_window", n=32, generate=3)
SMOLLM3 = dict(model="tiny_smollm3", n=24, generate=3)
OLMO2 = dict(model="tiny_olmo2", n=24, generate=3)
GLM = dict(model="tiny_glm", n=24, generate=3)
MINISTRAL3 = dict(model="tiny_ministral3", n=40, generate=3)  # queries grow every 16 positions
QWEN3_MOE = dict(model="tiny_qwen3_moe", n=24, generate=3)
GPT_OSS = dict(model="tiny_gpt_oss", n=28, generate=3)
QWEN3_NEXT = dict(model="tiny_qwen3_next", n=24, generate=3)
DEEPSEEK3 = dict(model="tiny_deepseek3", n=24, generate=3)
GEMMA4 = dict(model="tiny_gemma4", n=28, generate=3)
GEMMA4_MOE = dict(model="tiny_gemma4_moe", n=26, generate=3)
DEEPSEEK2 = dict(model="tiny_deepseek2", n=36, generate=3)
PLAIN = dict(n=36, generate=4)
DEMO = dict(model="demo_model", n=56, generate=4)
SINKS = dict(model="demo_model_sinks", n=56, generate=4)
SNAPKV = dict(options={"window": "3", "kernel": "3", "recent": "2"})


def slotted(policy, settings, *slots):
    """One case for each of the slots."""
    return [settings | dict(policy=policy, options=settings.get("options", {}) | options) for options in slots]


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
    SMOLLM3 | dict(policy="keydiff", options={}, budget=7, block=5),
    SMOLLM3 | dict(policy="h2o", options={}, budget=8, block=16),
    SMOLLM3 | dict(policy="sink", options={}, budget=6, block=3),
    SMOLLM3 | dict(policy="tova", options={}, budget=6, block=1),
    OLMO2 | dict(policy="keydiff", options={}, budget=8, block=16),
    OLMO2 | dict(policy="snapkv", options={"window": "4", "kernel": "3", "recent": "2"}, budget=8, block=5),
    OLMO2 | dict(policy="h2o", options={}, budget=7, block=1),
    OLMO2 | dict(policy="sink", options={}, budget=8, block=7, positions="cache"),
    GLM | dict(policy="keydiff", options={"recent": "0.25"}, budget=8, block=5),
    GLM | dict(policy="tova", options={}, budget=8, block=16),
    GLM | dict(policy="sink", options={}, budget=7, block=1),
    GLM | dict(policy="keydiff", options={}, budget=9, block=7, positions="cache"),
    MINISTRAL3 | dict(policy="keydiff", options={}, budget=8, block=5),
    MINISTRAL3 | dict(policy="h2o", options={}, budget=9, block=1),
    MINISTRAL3 | dict(policy="tova", options={}, budget=10, block=16),
    MINISTRAL3 | dict(policy="sink", options={}, budget=8, block=7, positions="cache"),
    QWEN3_MOE | dict(policy="keydiff", options={}, budget=7, block=1),
    QWEN3_MOE | dict(policy="snapkv", options={"window": "3", "kernel": "3", "recent": "2"}, budget=8, block=7),
    QWEN3_MOE | dict(policy="sink", options={}, budget=8, block=16),
    QWEN3_MOE | dict(policy="h2o", options={}, budget=8, block=5, positions="cache"),
    GPT_OSS | dict(policy="none", options={}, budget=0, block=9),
    GPT_OSS | dict(policy="keydiff", options={}, budget=7, block=5),
    GPT_OSS | dict(policy="h2o", options={}, budget=8, block=1),
    GPT_OSS | dict(policy="tova", options={}, budget=8, block=16),
    GPT_OSS | dict(policy="snapkv", options={"window": "4", "kernel": "3", "recent": "2"}, budget=8, block=7),
    QWEN3_NEXT | dict(policy="keydiff", options={}, budget=8, block=5),
    QWEN3_NEXT | dict(policy="h2o", options={}, budget=7, block=1),
    QWEN3_NEXT | dict(policy="sink", options={}, budget=8, block=16),
    QWEN3_NEXT | dict(policy="tova", options={}, budget=8, block=7, positions="cache"),
    DEEPSEEK3 | dict(policy="keydiff", options={}, budget=8, block=16),
    DEEPSEEK3 | dict(policy="cur", options={}, budget=8, block=5),
    DEEPSEEK3 | dict(policy="h2o", options={}, budget=7, block=1),
    DEEPSEEK3 | dict(policy="keydiff", options={}, budget=8, block=7, positions="cache"),
    DEEPSEEK2 | dict(policy="keydiff", options={}, budget=9, block=1),
    DEEPSEEK2 | dict(policy="cur", options={}, budget=10, block=16),
    DEEPSEEK2 | dict(policy="h2o", options={}, budget=10, block=5),
    DEEPSEEK2 | dict(policy="tova", options={}, budget=9, block=7),
    GEMMA4 | dict(policy="none", options={}, budget=0, block=9),
    GEMMA4 | dict(policy="keydiff", options={}, budget=7, block=5),
    GEMMA4 | dict(policy="h2o", options={}, budget=8, block=1),
    GEMMA4 | dict(policy="tova", options={}, budget=8, block=16),
    GEMMA4 | dict(policy="snapkv", options={"window": "4", "kernel": "3", "recent": "2"}, budget=8, block=7),
    GEMMA4 | dict(policy="cur", options={}, budget=8, block=6),
    GEMMA4_MOE | dict(policy="keydiff", options={}, budget=7, block=5),
    GEMMA4_MOE | dict(policy="h2o", options={}, budget=8, block=1),
    GEMMA4_MOE | dict(policy="tova", options={"heads": "all"}, budget=8, block=16),
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
    *slotted("keydiff", PLAIN | dict(budget=16, block=8),
             dict(protect="sinks:4"), dict(granularity="layer"), dict(split="adakv"), dict(split="pyramid"),
             dict(protect="sinks:2+recent:4", split="adakv"), dict(protect="sinks:4", granularity="model")),
    *slotted("keydiff", PLAIN | dict(budget=16, block=12), dict(protect="boundaries:0.5")),
    *slotted("keydiff", PLAIN | dict(budget=18, block=7),
             dict(granularity="page:4"), dict(granularity="page:4", split="pyramid")),
    *slotted("keydiff", PLAIN | dict(budget=20, block=9), dict(split="pyramid")),  # no layer has more than the prompt
    *slotted("snapkv", PLAIN | SNAPKV | dict(budget=16, block=8),
             dict(protect="recent:0.25"), dict(split="adakv"), dict(protect="boundaries:0.25", granularity="page:4")),
    *slotted("snapkv", PLAIN | SNAPKV | dict(budget=18, block=16), dict(protect="recent:4", split="pyramid")),
    *slotted("snapkv", PLAIN | SNAPKV | dict(budget=32, block=8, n=48), dict(granularity="page:16")),
    *slotted("snapkv", PLAIN | dict(budget=18, block=8), dict(protect="sinks:4", recent="16")),  # all of them forced
    *slotted("h2o", PLAIN | dict(budget=18, block=7), dict(protect="sinks:2+recent:4")),
    *slotted("h2o", PLAIN | dict(budget=20, block=16),
             dict(recent="0.25", granularity="layer"),
             dict(protect="boundaries:0.25", granularity="layer", split="pyramid")),
    *slotted("keydiff", MISTRAL | dict(budget=8, block=6), dict(granularity="page:4")),
    *slotted("h2o", GEMMA2 | dict(budget=8, block=5), dict(protect="sinks:2", granularity="layer")),
    *slotted("snapkv", GPT_OSS | SNAPKV | dict(budget=8, block=7), dict(granularity="layer")),
    *slotted("h2o", SMOLLM3 | dict(budget=8, block=5), dict(protect="sinks:1", split="adakv")),
    *slotted("keydiff", OLMO2 | dict(budget=8, block=7, positions="cache"), dict(granularity="layer")),
    *slotted("keydiff", OLMO2 | dict(budget=20, block=16, n=48), dict(granularity="page:16")),  # of one page
    *slotted("keydiff", GEMMA4 | dict(budget=7, block=5), dict(granularity="layer"), dict(split="pyramid")),
    *slotted("keydiff", QWEN3_NEXT | dict(budget=8, block=5), dict(granularity="model"), dict(split="pyramid")),
    PLAIN | dict(policy="manifold", options={"window": "10"}, budget=16, block=8),
    OLMO2 | dict(policy="manifold", options={"window": "5", "protect": "sinks:2"}, budget=8, block=7),
    PLAIN | dict(policy="lagkv", options={"sinks": "2", "lag": "8"}, budget=18, block=8),
    PLAIN | dict(policy="expected", options={}, budget=16, block=8),
    PLAIN | dict(policy="capkv", options={}, budget=16, block=9),
    PLAIN | dict(policy="triattention", options={}, budget=16, block=8),
    PLAIN | dict(policy="triattention", options={"group": "mean"}, budget=16, block=12),
    PLAIN | dict(policy="triattention", options={"file": "tiny_llama.means.json"}, budget=16, block=8),
    PLAIN | dict(policy="triattention", options={"file": "tiny_llama.means.json", "group": "mean", "protect": "sinks:2",
                                                 "split": "adakv"}, budget=14, block=9),
    PLAIN | dict(policy="random", options={"seed": "3"}, budget=12, block=7),
    PLAIN | dict(policy="random", options={"seed": "18446744073709551615", "protect": "sinks:2"}, budget=14, block=1),
    QWEN3_NEXT | dict(policy="random", options={"seed": "4"}, budget=8, block=5),
    GEMMA4 | dict(policy="random", options={"seed": "5"}, budget=7, block=5),
    *slotted("keydiff", PLAIN | dict(budget=12, block=8),
             dict(split="file:tiny_llama.head_weights.json"),
             dict(split="file:tiny_llama.head_weights.json", protect="sinks:2+recent:3"),
             dict(split="file:tiny_llama.layer_weights.json"),
             dict(split="file:tiny_llama.layer_weights.json", granularity="layer")),
    *slotted("h2o", PLAIN | dict(budget=13, block=5), dict(split="file:tiny_llama.head_weights.json", recent="0.25")),
    *slotted("tova", PLAIN | dict(budget=18, block=7), dict(split="file:tiny_llama.layer_weights.json", granularity="page:4")),
    PLAIN | dict(policy="compactor", options={"blend": "budget"}, budget=16, block=12),
    PLAIN | dict(policy="compactor", options={"sketch": "48"}, budget=16, block=8),
    OLMO2 | dict(policy="compactor", options={"sketch": "5", "blend": "0.5"}, budget=10, block=7),
    PLAIN | dict(policy="rkv", options={"window": "4"}, budget=16, block=8),
    PLAIN | dict(policy="dropkv", options={"window": "8"}, budget=16, block=12),
    PLAIN | dict(policy="defensive", options={"window": "8", "kernel": "3"}, budget=10, block=16),
    PLAIN | dict(policy="cur", options={"window": "8", "sinks": "2"}, budget=16, block=8),
    GPT_OSS | dict(policy="defensive", options={"window": "8"}, budget=6, block=9),
    GPT_OSS | dict(policy="dropkv", options={"window": "8"}, budget=8, block=11),
    GEMMA2 | dict(policy="dropkv", options={"window": "4"}, budget=8, block=7),
    OLMO2 | dict(policy="lagkv", options={"sinks": "1", "lag": "8"}, budget=12, block=6),  # by recency after the prompt
    OLMO2 | dict(policy="expected", options={"protect": "sinks:2", "split": "adakv"}, budget=8, block=5),
    OLMO2 | dict(policy="compactor", options={"blend": "0.3", "window": "4", "granularity": "layer"}, budget=12,
                 block=6),
    QWEN3_MOE | dict(policy="triattention", options={"granularity": "page:4"}, budget=8, block=6),
    PLAIN | dict(policy="qfilters", options={"file": "tiny_llama.filters.json"}, budget=16, block=8),
    PLAIN | dict(policy="qfilters", options={"file": "tiny_llama.filters.json", "protect": "sinks:2+recent:4",
                                             "split": "adakv"}, budget=14, block=9),
    DEMO | dict(policy="qfilters", options={"file": "demo_model.filters.json"}, budget=20, block=12),
    SINKS | dict(policy="qfilters", options={"file": "demo_model_sinks.filters.json", "protect": "sinks:1"}, budget=20,
                 block=16),
    PLAIN | dict(policy="duo", options={"file": "tiny_llama.streams.json", "sinks": "2"}, budget=16, block=8),
    PLAIN | dict(policy="duo", options={"file": "tiny_llama.streams.json", "protect": "boundaries:0.5",
                                        "split": "pyramid"}, budget=14, block=9),
    DEMO | dict(policy="duo", options={"file": "demo_model.streams.json"}, budget=20, block=12),
    SINKS | dict(policy="duo", options={"file": "demo_model.streams.json", "sinks": "1"}, budget=16, block=1),
    *slotted("keydiff", PLAIN | dict(budget=16, block=8),
             dict(critical="on"), dict(critical="shift"), dict(critical="on", split="adakv", protect="sinks:2"),
             dict(critical="shift", split="adakv"), dict(critical="on", granularity="page:4"),
             dict(critical="shift", granularity="model", protect="recent:4")),
    *slotted("snapkv", PLAIN | SNAPKV | dict(budget=15, block=9),
             dict(critical="on"), dict(critical="on", granularity="layer", protect="boundaries:0.2")),
    *slotted("tova", GPT_OSS | dict(budget=8, block=7), dict(critical="on")),
    *slotted("keydiff", OLMO2 | dict(budget=8, block=7), dict(critical="shift", split="pyramid")),
    *slotted("h2o", DEEPSEEK2 | dict(budget=10, block=7), dict(critical="on")),
    *slotted("cur", DEEPSEEK3 | dict(budget=8, block=5), dict(critical="on")),
    *slotted("keydiff", GEMMA4 | dict(budget=7, block=5), dict(critical="on")),
    *slotted("keydiff", DEMO | dict(budget=20, block=12), dict(critical="on", granularity="layer")),
    *slotted("keydiff", SINKS | dict(budget=20, block=16), dict(critical="on", protect="sinks:1")),
    *slotted("keydiff", PLAIN | dict(budget=14, block=9), dict(split="cake"), dict(split="cake", protect="sinks:4"),
             dict(split="cake", granularity="layer"), dict(split="cake", granularity="page:4"),
             dict(split="cake", critical="on")),
    *slotted("keydiff", PLAIN | dict(budget=14, block=5, n=41), dict(split="cake")),  # the last block has one token
    *slotted("snapkv", PLAIN | SNAPKV | dict(budget=18, block=16), dict(split="cake", protect="recent:4")),
    *slotted("l2norm", PLAIN | dict(budget=10, block=7, oracle=True), dict(split="cake")),
    *slotted("keydiff", GEMMA2 | dict(budget=14, block=9), dict(split="cake")),  # one layer holds fewer than N
    *slotted("h2o", GPT_OSS | dict(budget=8, block=7), dict(split="cake")),
    *slotted("keydiff", QWEN3_NEXT | dict(budget=8, block=5), dict(split="cake")),
    *slotted("keydiff", GEMMA4 | dict(budget=7, block=5), dict(split="cake")),
    *slotted("rkv", DEMO | dict(budget=20, block=12), dict(split="cake")),
    *slotted("keydiff", DEMO | dict(budget=8, block=16), dict(split="cake", granularity="page:4", protect="sinks:2")),
]


def rounded(value):
    """Ten digits are enough for a float32 comparison, and keep the file small; what is not finite becomes null."""
    if isinstance(value, list):
        return [rounded(v) for v in value]
    if isinstance(value, float):
        return None if not math.isfinite(value) else float(f"{value:.9g}")
    return value


def expect_close(what: str, found: np.ndarray, expected: np.ndarray) -> None:
    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert error <= 1e-5, f"{what}: off by {error} of the largest value"


def check_against_transformers(name: str, model: Llama) -> None:
    """Every position's logits, what is cached, and the attention that every position receives."""
    golden = read_safetensors(HERE / f"{name}.golden.safetensors")
    prompt = golden["prompt_ids"].astype(int).tolist()
    run = Run(model, dict(prompt=prompt, generate=0, policy="none", options={}, budget=0))
    logits = [model.logits(run.run_block([token], True)) for token in prompt]
    expect_close(f"{name}, logits", np.array(logits), golden["logits"])
    for layer in filter(model.attends, range(model.n_layers)):
        received = golden[f"attention.{layer}"].sum(axis=1).reshape(model.kv_heads(layer), model.group(layer), -1).mean(axis=1)
        expect_close(f"{name}, attention in layer {layer}", run.received[layer][:len(received)], received)
        keys = golden.get(f"latent_keys.{layer}", golden[f"keys.{layer}"])
        for head, expected in zip(run.cache[model.lender(layer)], keys):
            expect_close(f"{name}, keys in layer {layer}", np.array(head.keys), expected[head.positions])


def folder_of(name: str) -> pathlib.Path:
    return HERE.parents[3] / "assets" / name if name.startswith("demo_model") else HERE / name


def queries_asked(model: Llama, seed: int) -> list:
    """By layer, position and query head: the queries of 200 random tokens, before rotation."""
    prompt = np.random.default_rng(seed).integers(4, model.config["vocab_size"], 200).tolist()
    run = Run(model, dict(prompt=prompt, generate=0, policy="none", options={}, budget=0))
    for token in prompt:
        run.run_block([token], True)
    return run.asked


def write_means(name: str, model: Llama) -> None:
    """NAME.means.json, which cases of triattention name, to six digits."""
    layers = []
    for layer, asked in enumerate(queries_asked(model, 2604)):
        queries = np.array(asked).swapaxes(0, 1)  # (query heads, positions, d)
        means = [{"mean": [float(f"{x:.6g}") for x in q.mean(axis=0)],
                  "moduli": [float(f"{x:.6g}") for x in np.abs(newer.as_complex(q)).mean(axis=0)]} for q in queries]
        group = model.group(layer)
        layers.append([means[first:first + group] for first in range(0, len(means), group)])
    lines = ",\n".join(json.dumps(layer) for layer in layers)
    (HERE / f"{name}.means.json").write_text(f"[{lines}]\n")


def write_filters(name: str, model: Llama) -> None:
    """NAME.filters.json, which cases of qfilters name: of the queries of 200 random tokens, to six digits."""
    layers = []
    for layer, asked in enumerate(queries_asked(model, 2503)):
        queries = np.array([[model.rotate_query(layer, q, at, at) for q in heads] for at, heads in enumerate(asked)])
        groups = np.split(queries.swapaxes(0, 1), model.kv_heads(layer))
        layers.append([[float(f"{x:.6g}") for x in newer.query_filter(group)] for group in groups])
    lines = ",\n".join(json.dumps(layer) for layer in layers)
    (HERE / f"{name}.filters.json").write_text(f"[{lines}]\n")


def solve(model: Llama, case: dict) -> dict:
    for seed in range(400 if "cache" in case else 100):
        prompt = np.random.default_rng(seed).integers(4, model.config["vocab_size"], case["n"]).tolist()
        result = Run(model, case | {"prompt": prompt}).run()
        close_call = result["smallest_gap"] < SCORE_GAP or result["logit_gap"] < LOGIT_GAP
        close_call |= result.get("router_gap", np.inf) < ROUTER_GAP
        if close_call or result.get("rounding_gap", np.inf) < ROUNDING_GAP:
            continue
        if case["policy"] == "none":
            result["smallest_gap"] = None
        if case["generate"] == 0:
            result["logit_gap"] = None
        return case | {"seed": seed, "prompt": prompt} | {k: rounded(v) for k, v in result.items()}
    raise RuntimeError(f"no prompt without a close call for {case}")


def definition(entry: dict) -> dict:
    """What CASES says of a case, without what is made of it."""
    said = set().union(*CASES)
    return json.loads(json.dumps({key: value for key, value in entry.items() if key in said}))


def main() -> None:
    path = HERE / "eviction.golden.json"
    lines = [] if sys.argv[1:] == ["all"] else path.read_text().split("\n")[1:-2]
    stored = [(definition(json.loads(line)), line) for line in (line.rstrip(",") for line in lines)]
    written = [[line for known, line in stored if known == definition(case)] for case in CASES]
    names = [case.get("model", "tiny_llama") for case, found in zip(CASES, written) if not found]
    models = {name: load(folder_of(name)) for name in dict.fromkeys(names)}
    for name, model in models.items():
        if folder_of(name).parent == HERE:
            check_against_transformers(name, model)
        if not (HERE / f"{name}.filters.json").exists() and any(case["policy"] == "qfilters" and
                                                                case.get("model", "tiny_llama") == name for case in CASES):
            write_filters(name, model)
        if name == "tiny_llama" and not (HERE / f"{name}.means.json").exists():
            write_means(name, model)
    for case, found in zip(CASES, written):
        if not found:
            solved = solve(models[case.get("model", "tiny_llama")], case)
            print(case.get("model", ""), case["policy"], case["options"], case["budget"], case["block"],
                  *case.get("cache", ()), "seed", solved["seed"], "gap", solved["smallest_gap"], flush=True)
            found.append(json.dumps(solved, separators=(",", ":")))
    path.write_text("[\n" + ",\n".join(found[0] for found in written) + "\n]\n")


if __name__ == "__main__":
    main()
