"""Seeds for fuzz_sentencepiece: the golden models behind a text, and the least there can be of one.

    python3 fuzz_sentencepiece_seeds.py FOLDER
"""

import pathlib
import struct
import sys

TEXT = "Hello  wörld 123 中\n".encode()


def field(number: int, body: bytes) -> bytes:
    """Of a message of protocol buffers: bytes, or a message, shorter than 128."""
    return bytes([number << 3 | 2, len(body)]) + body


def piece(text: str, score: float, kind: int) -> bytes:
    return field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + bytes([3 << 3, kind]))


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    for file in (pathlib.Path(__file__).parent / "goldens").glob("*.model"):
        (folder / file.name).write_bytes(TEXT + file.read_bytes())
    pieces = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("<0x0A>", 0, 6)
    pieces += piece("▁", -1, 1) + piece("a", -2, 1) + piece("lo", -3, 4) + piece("b", -4, 5)
    for name, kind in ("unigram", 1), ("bpe", 2), ("word", 3), ("char", 4):
        (folder / name).write_bytes(TEXT + pieces + field(2, bytes([3 << 3, kind])))


if __name__ == "__main__":
    main()
