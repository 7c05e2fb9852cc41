"""Seeds for fuzz_gguf: the smaller golden files, and headers alone that say one thing each.

    python3 fuzz_gguf_seeds.py FOLDER
"""

import pathlib
import struct
import sys

GOLDENS = pathlib.Path(__file__).parent.parent / "model/goldens"
LARGEST = 12_000  # bytes: what is longer is mutated for nothing
BLOCKS = {0: (4, 1), 1: (2, 1), 2: (18, 32), 8: (34, 32), 12: (144, 256), 14: (210, 256), 30: (2, 1), 39: (17, 32)}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def value(number: int, kind: str) -> bytes:
    """A pair whose value is one number: of type NUMBER, packed as KIND."""
    return text(f"a.{kind}") + struct.pack("<I" + kind, number, 1)


def header(pairs: list[bytes], tensors: list[bytes], version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs)) + b"".join(pairs) + b"".join(tensors)


def tensor(name: str, sizes: list[int], kind: int) -> bytes:
    return text(name) + struct.pack("<I", len(sizes)) + b"".join(struct.pack("<Q", n) for n in sizes) + struct.pack(
        "<IQ", kind, 0)


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    for file in GOLDENS.glob("*.gguf"):
        if file.stat().st_size <= LARGEST:
            (folder / file.name).write_bytes(file.read_bytes())
    for number, kind in enumerate("BbHhIif?"):
        (folder / f"value_{kind}").write_bytes(header([value(number, kind)], []))
    words = text("a.words") + struct.pack("<IIQ", 9, 8, 2) + text("one") + text("two")
    (folder / "words").write_bytes(header([words, text("general.alignment") + struct.pack("<II", 4, 64)], []))
    for kind, (n_bytes, n_values) in BLOCKS.items():
        head = header([], [tensor("a", [n_values, 2], kind)])
        (folder / f"tensor_{kind}").write_bytes(head + bytes(-len(head) % 32) + bytes(range(1, 2)) * n_bytes * 2)


if __name__ == "__main__":
    main()
