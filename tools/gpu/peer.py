#!/usr/bin/env python3
"""Times Transformers or kvpress on a model, as Keyscope is timed; a process of its own for each.

    peer.py transformers|kvpress|recording MODEL --policy keydiff --device cuda --tokens 8192 [--repeat 3]

Takes all samples of a round, one after the other, and prints a line of JSON after each: {"sample": …}, {"failed": …}
where one could not be taken, {"left_out": …} where it cannot fit into memory, {"absent": …}. The first round warms up
and is not printed. Then come --repeat rounds; without it, as many as each line of the standard input says. {"done": n}
ends the warming up (n is 0) and every n rounds. Exit status: 0, 1 where a sample could not be taken, 3 where what it
needs is not there.

`transformers`: prompts are read with SDPA, block by block, with KeyDiff after every block for the policy `keydiff` (as
bench/prefill_peer.py does); for `none` without it, and at once. `kvpress`: presses that see the whole prompt at once,
attend to all of it and evict afterwards; for `keydiff` also as if block by block (BlockPress) and a share of each block
(ChunkPress); for `h2o` ObservedAttentionPress, which needs the eager attention: all weights of a layer in memory, at
32,768 tokens hundreds of gigabytes. `recording`: block by block with and without output_attentions (as
bench/capture_peer.py does).
"""

import argparse
import dataclasses
import json
import pathlib
import re
import sys
from collections.abc import Callable, Iterator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

PRESSES = {"keydiff": "KeyDiffPress", "snapkv": "SnapKVPress", "h2o": "ObservedAttentionPress"}


def emit(kind, what):
    print(json.dumps({kind: what}), flush=True)


@dataclasses.dataclass
class Case:
    """What is measured, under which name, and what takes a sample of it in the given round."""

    tool: str
    policy: str
    budget: int | None
    block: int
    sample: Callable[[int], dict]
    failed: bool = False


def as_sample(times):
    return {"ttft_ms": times["ttft_ms"]} | (
        {"generated_per_second": times["decode"]} if times["decode"] is not None else {})


def transformers_cases(arguments):
    from prefill_peer import Peer, time_at_once
    peer = Peer(arguments)
    block, everything = arguments.block, arguments.tokens + arguments.generate

    def by_blocks(budget):
        def sample(_):
            peer.arguments = argparse.Namespace(**(vars(arguments) | {"budget": budget}))
            return as_sample(peer.run(arguments.tokens, arguments.generate))
        return sample

    if arguments.policy == "keydiff":
        return peer, [Case("transformers", "keydiff", arguments.budget, block, by_blocks(arguments.budget))]
    return peer, [Case("transformers", "none", None, block, by_blocks(everything)),
                  Case("transformers", "none", None, arguments.tokens, lambda _: as_sample(time_at_once(peer)))]


def recording_cases(arguments):
    import capture_peer
    peer = capture_peer.Peer(arguments)

    def sample(repetition):
        times = peer.run(repetition % 2 == 1)
        return times | {"overhead": times["recorded_ms"] / times["plain_ms"] - 1}

    return peer, [Case("transformers", "none", None, arguments.block, sample)]


def eager_bytes(config, n_tokens, width):
    """What the eager attention of one layer takes at its most: weights in float32 beside two copies in the model's
    dtype, of so many bytes a number."""
    return config.num_attention_heads * n_tokens ** 2 * (4 + 2 * width)


def free_bytes(torch, device):
    if device == "cuda":
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info()[0]
    return 1024 * int(re.search(r"MemAvailable:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())[1])


def kvpress_cases(arguments):
    import kvpress
    from prefill_peer import Peer, kvpress_press, time_at_once, with_cache
    peer = Peer(arguments)
    policy, n, block = arguments.policy, arguments.tokens, arguments.block
    if policy == "h2o":
        need = eager_bytes(peer.model.config, n, peer.model.dtype.itemsize)
        free = free_bytes(peer.torch, arguments.device)
        if need > 0.9 * free:
            emit("left_out", f"kvpress' h2o is left out: at {n} tokens its eager attention takes about "
                             f"{need / 1e9:.0f} GB a layer, {free / 1e9:.0f} GB are free")
            return peer, []
    peer.model.set_attn_implementation("eager" if policy == "h2o" else "sdpa")

    def once():
        return kvpress_press(arguments, PRESSES[policy])

    def case(tool, block, press):
        return Case(tool, policy, arguments.budget, block,
                    lambda _: as_sample(time_at_once(peer, with_cache(press()))))

    cases = [case("kvpress", n, once)]
    if policy == "keydiff":
        cases += [case("kvpress block", block, lambda: kvpress.BlockPress(once(), block_size=block)),
                  case("kvpress chunk", block, lambda: kvpress.ChunkPress(once(), chunk_length=block))]
    return peer, cases


CASES = {"transformers": transformers_cases, "kvpress": kvpress_cases, "recording": recording_cases}


def take_round(torch, cases, arguments, repetition, warm_up):
    """A sample of every case; one that fails is not taken again."""
    on_cuda = arguments.device == "cuda"
    for case in cases:
        if case.failed:
            continue
        try:
            if on_cuda:
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            sample = {"tool": case.tool, "policy": case.policy, "budget": case.budget, "block": case.block,
                      "n_tokens": arguments.tokens} | case.sample(repetition)
            if on_cuda:
                sample["peak_bytes"] = torch.cuda.max_memory_allocated()
            if not warm_up:
                emit("sample", sample)
        except Exception as error:  # noqa: BLE001 - one case's failure leaves the others' figures
            case.failed = True
            emit("failed", f"{case.tool} {case.policy}: {type(error).__name__}: {error}")
    if on_cuda:
        torch.cuda.empty_cache()  # whoever comes next needs it


def orders(arguments) -> Iterator[int]:
    """How many rounds to take, each time."""
    if arguments.repeat:
        yield arguments.repeat
        return
    for line in sys.stdin:
        yield int(line)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", choices=tuple(CASES))
    parser.add_argument("model")
    parser.add_argument("--policy", default="keydiff", choices=("none", *PRESSES))
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default="bfloat16")
    for option, default in (("tokens", 8192), ("budget", 2048), ("block", 128), ("generate", 17), ("repeat", 0),
                            ("threads", 2)):
        parser.add_argument("--" + option, type=int, default=default)
    arguments = parser.parse_args()
    if arguments.policy not in {"transformers": ("none", "keydiff"), "kvpress": PRESSES}.get(arguments.tool, ("none",)):
        parser.error(f"{arguments.tool} has no {arguments.policy}")
    return arguments


def main():
    arguments = parse()
    try:
        import torch  # noqa: F401
        import transformers
        if arguments.tool == "kvpress":
            import kvpress  # noqa: F401
    except Exception as error:  # noqa: BLE001 - whatever hinders the import
        emit("absent", f"{arguments.tool}: {type(error).__name__}: {error}")
        return 3
    transformers.logging.set_verbosity_error()
    peer, cases = CASES[arguments.tool](arguments)
    take_round(peer.torch, cases, arguments, 0, warm_up=True)
    emit("done", 0)
    for n_rounds in orders(arguments):
        for repetition in range(n_rounds):
            take_round(peer.torch, cases, arguments, repetition, warm_up=False)
        emit("done", n_rounds)
    return 1 if any(case.failed for case in cases) else 0


if __name__ == "__main__":
    sys.exit(main())
