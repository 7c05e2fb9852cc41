#!/usr/bin/env python3
"""Seeds for fuzz_packed_weights, one of each case of the goldens.

    fuzz_packed_weights_seeds.py CORPUS        writes into the folder; deterministic, needs no package
"""

import json
import pathlib
import struct
import sys

GOLDENS = pathlib.Path(__file__).parent / "goldens/quantised.golden.safetensors"


def main(corpus):
    data = GOLDENS.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    configs = json.loads(header.pop("__metadata__")["goldens"])["configs"]
    for case, config in configs.items():
        entries, body = {}, b""
        for name, entry in header.items():
            if not name.startswith(case + "|") or name.startswith(case + "|=|"):
                continue
            begin, end = entry["data_offsets"]
            entries[name.removeprefix(case + "|")] = {
                "dtype": entry["dtype"], "shape": entry["shape"],
                "data_offsets": [len(body), len(body) + end - begin]}
            body += data[8 + length + begin:8 + length + end]
        text, head = json.dumps(config).encode(), json.dumps(entries).encode()
        (corpus / f"golden_{case}").write_bytes(
            struct.pack("<I", len(text)) + text + struct.pack("<Q", len(head)) + head + body)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
