"""Seeds for fuzz_recording: two recordings of the golden model tiny_llama, whole and cut short.

    python3 fuzz_recording_seeds.py FOLDER

goldens/small.h5.xz has keys and queries of one layer under KeyDiff; whole.h5.xz has all that is recorded of both layers,
with two generated tokens, in full and under KeyDiff. They are `keyscope capture`'s files of twelve tokens, N = 4 and
B = 4, copied object by object by h5py, which leaves out the room that a recording keeps free.
"""

import lzma
import pathlib
import sys


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    for file in (pathlib.Path(__file__).parent / "goldens").glob("*.h5.xz"):
        recording = lzma.decompress(file.read_bytes())
        (folder / file.stem).write_bytes(recording)
        (folder / f"{file.stem}.cut").write_bytes(recording[: len(recording) // 2])


if __name__ == "__main__":
    main()
