#!/usr/bin/env python3
"""Times prefill and decoding under eviction: Keyscope, Hugging Face Transformers, and others that are there.

    make_random_model.py CONFIG.json MODEL
    prefill_peer.py build/release/keyscope MODEL [--tokens 2048] [--budget 1024] [--block 128] [--generate 32]

Every repetition runs all of them, one after the other, so that whatever else the machine does meets them alike;
medians and their ratios are printed. All compute the same: a prompt read block by block, and after each block, in
every layer and KV head, the keys least similar to the mean key kept (KeyDiff), true positions, logits of the last
position only. PyTorch's side runs in the dtype that is the faster one for it on this processor. Needs PyTorch and
Transformers 5 in the Python that runs it. llama.cpp's `llama-bench` (no eviction) is run where --gguf names a model for
it and it is on the PATH; kvpress where it can be imported. Its presses see the whole prompt at once, attend to all of
it, and evict afterwards: KeyDiffPress once, BlockPress as if block by block, ChunkPress a share of each block. They
need Transformers below 5.3; what later ones no longer hand on (`cache_position`, `past_key_values`) is given here.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import time

from transformers_peer import TransformersPeer, add_common_options, bench_keyscope, best_seconds


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_common_options(parser, tokens=2048)
    parser.add_argument("--budget", type=int, default=1024)
    parser.add_argument("--generate", type=int, default=33)
    parser.add_argument("--gguf", help="the same model for llama-bench")
    parser.add_argument("--json", help="also write all samples here")
    return parser.parse_args()


def time_keyscope(arguments, schedule):
    result = bench_keyscope(arguments, "prefill", "--policy", "keydiff", "--budget", str(arguments.budget),
                            "--generate", str(arguments.generate), "--schedule", schedule)
    row = result["rows"][0]
    return {"ttft_ms": row["ttft_ms"], "decode": row["generated_per_second"], "products": result["product_gflops"]}


class Peer(TransformersPeer):
    """Transformers with KeyDiff after every block: what one writes who needs it and has no tool for it."""

    def __init__(self, arguments):
        super().__init__(arguments)
        self.run(2 * arguments.block, 2)  # warm up

    def evict(self, cache):
        torch, budget = self.torch, self.arguments.budget
        for layer in cache.layers:
            if layer.keys.shape[2] <= budget:
                continue
            keys = layer.keys.float()
            score = -torch.cosine_similarity(keys, keys.mean(2, keepdim=True), dim=-1)
            kept = score.topk(budget, dim=-1).indices.sort(-1).values[..., None].expand(-1, -1, -1, keys.shape[3])
            layer.keys, layer.values = layer.keys.gather(2, kept), layer.values.gather(2, kept)

    def forward(self, ids, start, cache):
        """ids at positions start, start + 1, …: every row of the cache is visible, the block itself causally."""
        torch, n = self.torch, ids.shape[1]
        n_cached = cache.get_seq_length()
        mask = (torch.ones(n, n_cached + n, dtype=torch.bool, device=ids.device).tril(n_cached)[None, None]
                if n > 1 else None)
        return self.model(input_ids=ids, past_key_values=cache, use_cache=True, attention_mask=mask,
                          position_ids=torch.arange(start, start + n, device=ids.device)[None], logits_to_keep=1)

    def decode(self, next_id, cache, n_tokens, n_generated, evict):
        """Greedy tokens a second after the first one."""
        if n_generated < 2:
            return None
        started = time.perf_counter()
        for i in range(n_generated - 1):  # the last id is not fed back
            out = self.forward(next_id, n_tokens + i, cache)
            evict(cache)
            next_id = out.logits[:, -1].argmax(-1, keepdim=True)
        self.wait()
        return (n_generated - 1) / (time.perf_counter() - started)

    def run(self, n_tokens, n_generated):
        from transformers import DynamicCache
        torch, cache = self.torch, DynamicCache()
        with torch.inference_mode():
            self.wait()
            started = time.perf_counter()
            for first in range(0, n_tokens, self.arguments.block):
                out = self.forward(self.ids[:, first:min(first + self.arguments.block, n_tokens)], first, cache)
                self.evict(cache)
            next_id = out.logits[:, -1].argmax(-1, keepdim=True)
            self.wait()
            prompt_seconds = time.perf_counter() - started
            decode = self.decode(next_id, cache, n_tokens, n_generated, self.evict)
        return {"ttft_ms": 1e3 * prompt_seconds, "decode": decode}

    def products(self):
        """What matrix products alone reach here, 10⁹ operations a second."""
        torch, config = self.torch, self.model.config
        rows = max(512, min(1024, self.arguments.tokens))
        kind = {"dtype": self.model.dtype, "device": self.model.device}
        x = torch.rand(rows, config.hidden_size, **kind)
        w = torch.rand(config.intermediate_size, config.hidden_size, **kind)
        best = best_seconds(lambda: torch.nn.functional.linear(x, w), self.wait)
        return 2 * x.numel() * w.shape[0] / best / 1e9


def kvpress_press(arguments, name="KeyDiffPress"):
    import kvpress
    return getattr(kvpress, name)(compression_ratio=max(0, 1 - arguments.budget / arguments.tokens))


def kvpress_presses(arguments):
    import kvpress
    return {"kvpress, KeyDiff once": kvpress_press(arguments),
            "kvpress, BlockPress": kvpress.BlockPress(kvpress_press(arguments), block_size=arguments.block),
            "kvpress, ChunkPress": kvpress.ChunkPress(kvpress_press(arguments), chunk_length=arguments.block)}


def with_cache(press):
    """kvpress 0.5 looks for the cache under the name that Transformers gave it before 5.3."""
    hook = press.forward_hook

    def forward_hook(module, args, kwargs, output):
        cache = kwargs.get("past_key_values", kwargs.get("cache"))
        return hook(module, args, {**kwargs, "past_key_values": cache}, output)
    press.forward_hook = forward_hook
    return press


def time_at_once(peer, press=None):
    """The whole prompt in one piece. A press evicts once, after it; what is decoded then is kept."""
    from transformers import DynamicCache
    torch, arguments, cache = peer.torch, peer.arguments, DynamicCache()
    positions = torch.arange(arguments.tokens, device=peer.ids.device)
    with torch.inference_mode():
        peer.wait()
        started = time.perf_counter()
        with press(peer.model) if press else contextlib.nullcontext():
            out = peer.model(input_ids=peer.ids, past_key_values=cache, use_cache=True, logits_to_keep=1,
                             cache_position=positions)  # which presses read, and newer Transformers do not add
        next_id = out.logits[:, -1].argmax(-1, keepdim=True)
        peer.wait()
        prompt_seconds = time.perf_counter() - started
        decode = peer.decode(next_id, cache, arguments.tokens, arguments.generate, lambda _: None)
    return {"ttft_ms": 1e3 * prompt_seconds, "decode": decode}


def time_llama_bench(arguments):
    command = ["llama-bench", "-m", arguments.gguf, "-p", str(arguments.tokens), "-n", str(arguments.generate),
               "-ub", "512", "-fa", "1", "-t", str(arguments.threads), "-r", "1", "-o", "json"]
    runs = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    prompt = next(run for run in runs if run["n_prompt"] > 0)
    decode = next((run["avg_ts"] for run in runs if run["n_gen"] > 0), None)
    return {"ttft_ms": 1e3 * arguments.tokens / prompt["avg_ts"], "decode": decode}


def contenders(arguments, peer):
    runs = {"keyscope, block schedule": lambda: time_keyscope(arguments, "block"),
            "keyscope, layer schedule": lambda: time_keyscope(arguments, "layer"),
            "Transformers, KeyDiff by blocks": lambda: peer.run(arguments.tokens, arguments.generate)}
    try:
        for name, press in kvpress_presses(arguments).items():
            runs[name] = lambda press=with_cache(press): time_at_once(peer, press)
    except ImportError:
        print("kvpress: not installed, skipped")
    if arguments.gguf and shutil.which("llama-bench"):
        runs["llama.cpp, no eviction"] = lambda: time_llama_bench(arguments)
    else:
        print("llama.cpp: llama-bench is not on the PATH, or no --gguf was given; skipped")
    return runs


class OtherDtypePeer(Peer):
    """Transformers in the model's own dtype, where that is the slower one for products: tokens after the prompt wait
    for the weights, of which there are fewer bytes then. After one block of a prompt, as a whole one would take long."""

    def __init__(self, arguments):
        super().__init__(argparse.Namespace(**{**vars(arguments), "peer_dtype": arguments.dtype}))

    def decode_rate(self):
        return self.run(self.arguments.block, self.arguments.generate)["decode"]


def median(samples, name):
    values = [sample[name] for sample in samples if sample.get(name) is not None]
    return statistics.median(values) if values else None


def print_table(samples, arguments):
    reference = samples["Transformers, KeyDiff by blocks"]
    print(f"{'':34}{'ttft ms':>10}{'least':>9}{'most':>9}{'tokens/s':>10}{'ratio':>8}{'from to':>12}"
          f"{'decode/s':>10}{'ratio':>8}")
    for name, runs in samples.items():
        ttft, decode = median(runs, "ttft_ms"), median(runs, "decode")
        times = [run["ttft_ms"] for run in runs]
        ratios = [theirs["ttft_ms"] / ours["ttft_ms"] for ours, theirs in zip(runs, reference)]
        line = f"{name:34}{ttft:10.0f}{min(times):9.0f}{max(times):9.0f}{1e3 * arguments.tokens / ttft:10.1f}"
        line += f"{statistics.median(ratios):7.2f}x   {min(ratios):4.2f} {max(ratios):4.2f}"
        if decode:
            line += f"{decode:10.2f}{decode / median(reference, 'decode'):7.2f}x"
        print(line)


def main():
    arguments = parse()
    load = [os.getloadavg()[0]]
    peer = Peer(arguments)
    runs = contenders(arguments, peer)
    samples = {name: [] for name in runs}
    other = OtherDtypePeer(arguments) if peer.dtype_name() != arguments.dtype else None
    peer_products, other_decodes = [], []
    for repetition in range(arguments.repeat):
        peer_products.append(peer.products())
        for name, run in runs.items():
            samples[name].append(run())
            print(f"repetition {repetition + 1}: {name} {samples[name][-1]['ttft_ms']:.0f} ms", flush=True)
        if other and arguments.generate > 1:
            other_decodes.append(other.decode_rate())
    load.append(os.getloadavg()[0])

    print(f"\n{arguments.model}: {arguments.tokens} tokens, N = {arguments.budget}, B = {arguments.block}, "
          f"{arguments.dtype}, PyTorch in {peer.dtype_name()}, {arguments.threads} threads, medians of "
          f"{arguments.repeat}; ratio: Transformers' time over each one's, repetition by repetition\n")
    print_table(samples, arguments)
    if other_decodes:
        print(f"Transformers in {other.dtype_name()}, after one block: {statistics.median(other_decodes):.2f} tokens/s")
    products = median(samples["keyscope, block schedule"] + samples["keyscope, layer schedule"], "products")
    print(f"\nmatrix products alone: {products:.0f} GFLOP/s in keyscope, {statistics.median(peer_products):.0f} in "
          f"PyTorch; load average {load[0]:.2f} before, {load[1]:.2f} after")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"samples": samples, "peer_products": peer_products, "other_decodes": other_decodes,
                       "load": load}, file, indent=1)


if __name__ == "__main__":
    main()
