"""Seeds for fuzz_safetensors: small files of all types, sound ones, and each wrong in one way.

    python3 fuzz_safetensors_seeds.py FOLDER
"""

import json
import pathlib
import struct
import sys

BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
         "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8}
WRONG = [{"shape": [-1]}, {"shape": [1 << 62, 8]}, {"shape": [0, 1 << 63]}, {"shape": 3}, {"shape": [1.5]}, {"dtype": "F4"},
         {"dtype": 1}, {"data_offsets": [4, 0]}, {"data_offsets": [0]}, {"data_offsets": [0, 1 << 64]},
         {"data_offsets": [1, 5]}, {"data_offsets": None}]


def file_of(header: object, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for dtype, n_bytes in BYTES.items():
        header[dtype] = {"dtype": dtype, "shape": [2, 1], "data_offsets": [at, at + 2 * n_bytes]}
        at += 2 * n_bytes
    (folder / "types").write_bytes(file_of(header, bytes(at)))
    sound = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    for i, wrong in enumerate([{}, *WRONG]):
        (folder / f"one_{i}").write_bytes(file_of({"a": sound | wrong}, bytes(4)))
    (folder / "empty").write_bytes(file_of({"a": {"dtype": "F16", "shape": [], "data_offsets": [0, 2]}, "b": {
        "dtype": "F16", "shape": [0, 7], "data_offsets": [2, 2]}}, bytes(2)))
    (folder / "no_object").write_bytes(file_of([], b""))
    (folder / "long").write_bytes(struct.pack("<Q", 1 << 40) + b"{}")


if __name__ == "__main__":
    main()
