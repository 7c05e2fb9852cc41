#!/usr/bin/env python3
"""Times Transformers or kvpress on a model, as Keyscope is timed; a process of its own for each.

    peer.py transformers|kvpress MODEL --device cuda --tokens 2048 --budget 1024 --block 128 --generate 17 --repeat 3

Prints a line of JSON after each measurement: {"row": …}, whose last one for a policy and a kind counts, {"failed": …}
or {"absent": …}. Exit status: 0, 1 where a measurement failed, 3 where what it needs is not there.

`transformers`: prompts are read with SDPA, without eviction at once and block by block, and block by block with
KeyDiff after every block (as bench/prefill_peer.py does), then block by block with and without recording (as
bench/capture_peer.py does). `kvpress`: a press evicts once, after the whole prompt was read at once; its `h2o` is
ObservedAttentionPress, which needs the eager attention.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

PRESSES = {"keydiff": "KeyDiffPress", "snapkv": "SnapKVPress", "h2o": "ObservedAttentionPress"}


def emit(kind, what):
    print(json.dumps({kind: what}), flush=True)


class Measured:
    """Samples of one tool under one policy; each sample emits the row that all so far make."""

    def __init__(self, arguments, case):
        self.row = {"tool": arguments.tool, "policy": case.policy, "budget": case.budget, "block": case.block,
                    "n_tokens": arguments.tokens}
        self.samples, self.peak = {}, 0

    def add(self, sample, peak_bytes):
        for field, value in sample.items():
            if value is not None:
                self.samples.setdefault(field, []).append(value)
        self.peak = max(self.peak, peak_bytes)
        row = dict(self.row, repeat=len(next(iter(self.samples.values()))))
        for field, values in self.samples.items():
            row |= {field: statistics.median(values), field + "_min": min(values), field + "_max": max(values)}
        if self.peak:
            row["peak_bytes"] = self.peak
        emit("row", row)


@dataclasses.dataclass
class Case:
    """What is measured: one policy, and what takes one sample of it in the given repetition."""

    policy: str
    budget: int | None
    block: int
    sample: Callable[[int], dict]


def as_row(times):
    return {"ttft_ms": times["ttft_ms"], "generated_per_second": times["decode"]}


def transformers_cases(arguments):
    import capture_peer
    from prefill_peer import Peer, time_at_once
    peer = Peer(arguments)
    recording = []

    def prefill(budget):
        peer.arguments = argparse.Namespace(**(vars(arguments) | {"budget": budget}))
        return as_row(peer.run(arguments.tokens, arguments.generate))

    def record(repetition):
        if not recording:
            recording.append(capture_peer.Peer(arguments, peer.model))
        sample = recording[0].run(repetition % 2 == 1)
        return sample | {"overhead": sample["recorded_ms"] / sample["plain_ms"] - 1}

    everything = arguments.tokens + arguments.generate
    time_at_once(peer)  # warm up
    prefills = [Case("none", None, arguments.tokens, lambda _: as_row(time_at_once(peer))),
                Case("none", None, arguments.block, lambda _: prefill(everything)),
                Case("keydiff", arguments.budget, arguments.block, lambda _: prefill(arguments.budget))]
    return peer, [prefills, [Case("none", None, arguments.block, record)]]


def kvpress_cases(arguments):
    from prefill_peer import Peer, kvpress_press, time_at_once, with_cache
    peer = Peer(arguments)

    def press(policy):
        def sample(_):
            peer.model.set_attn_implementation("eager" if policy == "h2o" else "sdpa")
            return as_row(time_at_once(peer, with_cache(kvpress_press(arguments, PRESSES[policy]))))
        return Case(policy, arguments.budget, arguments.tokens, sample)

    time_at_once(peer)  # warm up
    return peer, [[press(policy) for policy in PRESSES]]


def measure(torch, groups, arguments):
    """All samples; every repetition takes all cases of a group, one after the other. Returns whether none failed."""
    on_cuda, failed = arguments.device == "cuda", set()
    for group in groups:
        measured = [Measured(arguments, case) for case in group]
        for repetition in range(arguments.repeat):
            for case, samples in zip(group, measured):
                if id(case) in failed:
                    continue
                try:
                    if on_cuda:
                        torch.cuda.empty_cache()
                        torch.cuda.reset_peak_memory_stats()
                    taken = case.sample(repetition)
                    samples.add(taken, torch.cuda.max_memory_allocated() if on_cuda else 0)
                except Exception as error:  # noqa: BLE001 - one policy's failure leaves the others' figures
                    failed.add(id(case))
                    emit("failed", f"{case.policy}: {type(error).__name__}: {error}")
    return not failed


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", choices=("transformers", "kvpress"))
    parser.add_argument("model")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    for option, default in (("tokens", 2048), ("budget", 1024), ("block", 128), ("generate", 17), ("repeat", 3),
                            ("threads", 2)):
        parser.add_argument("--" + option, type=int, default=default)
    return parser.parse_args()


def main():
    arguments = parse()
    try:
        import torch  # noqa: F401
        import transformers
        if arguments.tool == "kvpress":
            import kvpress  # noqa: F401
    except Exception as error:  # noqa: BLE001 - whatever hinders the import
        emit("absent", f"{type(error).__name__}: {error}")
        return 3
    transformers.logging.set_verbosity_error()
    peer, groups = (transformers_cases if arguments.tool == "transformers" else kvpress_cases)(arguments)
    return 0 if measure(peer.torch, groups, arguments) else 1


if __name__ == "__main__":
    sys.exit(main())
