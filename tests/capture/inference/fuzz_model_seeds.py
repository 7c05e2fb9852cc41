#!/usr/bin/env python3
"""Seeds for fuzz_model: configuration and weights' header of each of the goldens' models.

    fuzz_model_seeds.py CORPUS        writes into the folder; deterministic, needs no package
"""

import pathlib
import struct
import sys

MOST_BYTES = 1 << 20


def main(corpus):
    for weights in sorted((pathlib.Path(__file__).parent / "goldens").glob("*/model.safetensors")):
        data = weights.read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        n_bytes = len(data) - 8 - length
        if n_bytes > MOST_BYTES:
            continue
        config = (weights.parent / "config.json").read_bytes()
        (corpus / weights.parent.name).write_bytes(
            struct.pack("<II", len(config), n_bytes) + config + data[8:8 + length])


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
