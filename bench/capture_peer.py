#!/usr/bin/env python3
"""What recording costs: Keyscope's keys, queries and exact statistics, and Transformers' output_attentions.

    capture_peer.py build/release/keyscope MODEL [--tokens 1024] [--block 128]

Both read the same number of random tokens with and without recording, interleaved and repeated. Keyscope writes a
file; Transformers is asked for the attention weights (output_attentions, which needs its eager attention) and the
cache, and computes from them what Keyscope records: the attention that each key receives and the entropy of each
query's weights; nothing is written. Needs PyTorch and Transformers 5 in the Python that runs it.
"""

import argparse
import os
import statistics
import time

from transformers_peer import TransformersPeer, add_common_options, bench_keyscope


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_common_options(parser, tokens=1024)
    return parser.parse_args()


def time_keyscope(arguments, schedule):
    row = bench_keyscope(arguments, "capture", "--policy", "none", "--schedule", schedule)["rows"][0]
    return {"plain_ms": row["plain_ms"], "recorded_ms": row["recorded_ms"]}


class Peer(TransformersPeer):
    def __init__(self, arguments, model=None):
        super().__init__(arguments, model)
        self.read(False, 2 * arguments.block)  # warm up

    def statistics(self, attentions):
        """Per layer: attention received per key, mean over each group, and each query's entropy."""
        torch, config = self.torch, self.model.config
        group = config.num_attention_heads // config.num_key_value_heads
        taken = []
        for weights in attentions:  # (1, heads, n, n_rows)
            weights = weights[0].float()
            received = weights.sum(1).unflatten(0, (-1, group)).mean(1)
            taken.append((received, torch.special.entr(weights).sum(-1)))
        return taken

    def read(self, recorded, n_tokens=None):
        """The prompt block by block, as keyscope reads it; in milliseconds."""
        from transformers import DynamicCache
        torch, block = self.torch, self.arguments.block
        n_tokens = n_tokens or self.arguments.tokens
        self.model.set_attn_implementation("eager" if recorded else "sdpa")
        cache, kept = DynamicCache(), []
        self.wait()
        started = time.perf_counter()
        with torch.inference_mode():
            for first in range(0, n_tokens, block):
                ids = self.ids[:, first:min(first + block, n_tokens)]
                out = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1,
                                 output_attentions=recorded)
                if recorded:
                    kept.append(self.statistics(out.attentions))
        self.wait()
        return 1e3 * (time.perf_counter() - started)

    def run(self, recorded_first):
        order = (True, False) if recorded_first else (False, True)
        times = {recorded: self.read(recorded) for recorded in order}
        return {"plain_ms": times[False], "recorded_ms": times[True]}


def main():
    arguments = parse()
    load = [os.getloadavg()[0]]
    peer = Peer(arguments)
    samples = {}
    for repetition in range(arguments.repeat):
        for name, run in (("keyscope, block schedule", lambda: time_keyscope(arguments, "block")),
                          ("keyscope, layer schedule", lambda: time_keyscope(arguments, "layer")),
                          ("Transformers", lambda: peer.run(repetition % 2 == 1))):
            samples.setdefault(name, []).append(run())
            print(f"repetition {repetition + 1}: {name} {samples[name][-1]['recorded_ms']:.0f} ms", flush=True)
    load.append(os.getloadavg()[0])

    print(f"\n{arguments.model}: {arguments.tokens} tokens, B = {arguments.block}, {arguments.dtype}, "
          f"Transformers in {peer.dtype_name()}, {arguments.threads} threads, medians of {arguments.repeat}\n")
    print(f"{'':28}{'plain ms':>10}{'recorded ms':>13}{'overhead':>11}{'ratio':>8}")
    reference = samples["Transformers"]
    for name, runs in samples.items():
        plain, recorded = (statistics.median(run[key] for run in runs) for key in ("plain_ms", "recorded_ms"))
        overhead = statistics.median(run["recorded_ms"] / run["plain_ms"] - 1 for run in runs)
        ratio = statistics.median(theirs["recorded_ms"] / ours["recorded_ms"] for ours, theirs in zip(runs, reference))
        print(f"{name:28}{plain:10.0f}{recorded:13.0f}{100 * overhead:9.1f} %{ratio:7.2f}x")
    print(f"\nratio: Transformers' time with recording over each one's; load average {load[0]:.2f} before, "
          f"{load[1]:.2f} after")


if __name__ == "__main__":
    main()
