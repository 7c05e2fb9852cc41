#!/usr/bin/env python3
"""Peak memory of a capture of a mixture that is larger than memory, streamed layer by layer.

    streamed_experts.py build/release/keyscope CONFIG.json FOLDER [--layers N] [--tokens 256]

Writes a model of CONFIG.json's shape with random weights into FOLDER (Qwen3-30B-A3B's is 57 GB in bfloat16), with as
many of its layers as the disk has room for if not all, captures a prompt of random tokens by layers, and compares the
process's peak of resident memory with three layers and what lies outside them. Where not even four layers fit on the disk it says so and does nothing. Needs NumPy.
"""

import argparse
import json
import pathlib
import resource
import shutil
import subprocess
import sys

from make_random_model import tensors

GIB = 1 << 30


def sizes(config):
    """Bytes of one layer and of what lies outside all of them, in bfloat16."""
    one, two = (sum(2 * count(shape) for _, shape in tensors(config | {"num_hidden_layers": n})) for n in (1, 2))
    return two - one, 2 * one - two


def count(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("keyscope")
    parser.add_argument("config", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--tokens", type=int, default=256)
    arguments = parser.parse_args()

    config = json.loads(arguments.config.read_text())
    layer, outside = sizes(config)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(arguments.folder).free - 4 * GIB
    fit = (free - outside) // layer
    n_layers = arguments.layers or config["num_hidden_layers"]
    if fit < min(4, n_layers):
        sys.exit(f"{arguments.folder}: {free / GIB:.0f} GiB are free, and four layers of this shape need "
                 f"{(4 * layer + outside) / GIB:.0f}; skipped")
    if fit < n_layers:
        print(f"the disk has room for {fit} of {n_layers} layers, which are taken instead")
        n_layers = fit
    model = arguments.folder / "model"
    maker = pathlib.Path(__file__).with_name("make_random_model.py")
    subprocess.run([sys.executable, maker, arguments.config, model, "--layers", str(n_layers), "--quick"], check=True)
    ids = arguments.folder / "ids.json"
    ids.write_text(json.dumps([7 + 13 * i % 1000 for i in range(arguments.tokens)]))
    out = arguments.folder / "capture.h5"
    subprocess.run([arguments.keyscope, "capture", "--model", model, "--prompt-ids", ids, "--policy", "none",
                    "--policy", "keydiff", "--budget", "25%", "--schedule", "layer", "--record", "keys",
                    "--out", out, "--force", "--quiet"], check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    weights = sum(file.stat().st_size for file in model.glob("*.safetensors"))
    print(f"{n_layers} layers, {weights / GIB:.1f} GiB of weights: a layer {layer / GIB:.2f} GiB, outside layers "
          f"{outside / GIB:.2f} GiB")
    print(f"peak of resident memory {peak / GIB:.2f} GiB; three layers and what lies outside "
          f"{(3 * layer + outside) / GIB:.2f} GiB")


if __name__ == "__main__":
    main()
