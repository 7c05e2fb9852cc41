"""Seeds for fuzz_gguf_model: the golden files, weights, tokenizers and all.

    python3 fuzz_gguf_model_seeds.py FOLDER
"""

import pathlib
import sys

LARGEST = 36_000  # bytes: what is longer is mutated for nothing


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    for file in (pathlib.Path(__file__).parent / "goldens").glob("*.gguf"):
        if file.stat().st_size <= LARGEST:
            (folder / file.name).write_bytes(file.read_bytes())


if __name__ == "__main__":
    main()
