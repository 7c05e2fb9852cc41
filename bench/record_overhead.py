"""What `keyscope.record` costs over the same forward pass: time, and memory beside the model.

    OMP_NUM_THREADS=1 PYTHONPATH=python/src python bench/record_overhead.py [TOKENS [LAYERS [REPEATS]]]

Random weights in the shape of a model of a billion parameters, a few layers of it; needs PyTorch and Transformers 5.
The least of several turns is taken of each, in turn, since other work on the machine makes some of them slower.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
import transformers
from keyscope.record import record


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(work: Callable[[], None]) -> tuple[float, float, int]:
    """Seconds by the clock, seconds of the processor, and the most bytes beyond what was held before."""
    before, most, over = resident_bytes(), [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            most[0] = max(most[0], resident_bytes() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    started, used = time.perf_counter(), time.process_time()
    work()
    seconds = time.perf_counter() - started, time.process_time() - used
    over.set()
    watcher.join()
    return (*seconds, most[0])


def main(n_tokens: int = 16384, n_layers: int = 1, n_repeats: int = 4) -> None:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=4096, hidden_size=2048, intermediate_size=8192, num_hidden_layers=n_layers, num_attention_heads=32,
        num_key_value_heads=8, head_dim=64, max_position_embeddings=1 << 17,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    ids = torch.randint(0, config.vocab_size, (1, n_tokens))

    def forward() -> None:
        with torch.inference_mode():
            model(ids, use_cache=True, logits_to_keep=1)

    with tempfile.TemporaryDirectory() as folder:

        def recorded() -> None:
            record(model, None, ids, out=Path(folder) / "rec.h5", force=True, progress=False).close()

        found: dict[str, list[tuple[float, float, int]]] = {"forward pass": [], "recording": []}
        for _ in range(n_repeats):
            found["forward pass"].append(measure(forward))
            found["recording"].append(measure(recorded))
    least = {name: [min(column) for column in zip(*rows, strict=True)] for name, rows in found.items()}
    for name, (wall, cpu, n_bytes) in least.items():
        print(f"{name:<14}{wall:8.1f} s {cpu:8.1f} s of the processor {n_bytes / 1e6:8.0f} MB beside the model")
    wall, cpu = (least["recording"][i] / least["forward pass"][i] - 1 for i in (0, 1))
    print(f"{n_tokens} tokens, {n_layers} layers: recording takes {wall:.0%} more time, {cpu:.0%} more processor time")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
