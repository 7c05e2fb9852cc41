"""Seeds for fuzz_study: a study, a plan with its cells, a result, a failure, a merged study (needs h5py), and figures:
goldens/figure.h5.xz, the key space of fuzz_recording's larger recording.

    python3 fuzz_study_seeds.py FOLDER
"""

import io
import json
import lzma
import pathlib
import sys

import h5py
import numpy as np

CELL = "0123456789abcdef0123456789abcdef"  # the one that fuzz_study asks for
STUDY = {"name": "needles", "models": ["a", "b"], "seeds": [0, 1],
         "jobs": [{"command": "eval niah", "policy": ["keydiff", "sink"], "budget": ["25%"], "samples": 2, "chat": True}]}


def merged() -> bytes:
    lines = b'{"cell":1,"recall":0.5}\n'
    image = io.BytesIO()
    with h5py.File(image, "w", track_order=True) as file:
        file.attrs["keyscope_study"] = 1
        file.attrs["keyscope_format"] = 1
        file.attrs["default"] = "study"
        study = file.create_group("study")
        study.attrs.update({"NX_class": "NXentry", "name": "needles", "program": "1", "plan": json.dumps(STUDY),
                            "default": "cells"})
        cells = study.create_group("cells")
        cells.attrs.update({"NX_class": "NXdata", "signal": "recall"})
        cells["cell"] = [CELL, "fedcba9876543210fedcba9876543210"]
        cells["state"] = ["done", "missing"]
        cells["recall"] = [0.5, np.nan]
        study["lines"] = np.frombuffer(lines, np.uint8)
        study["line_offset"] = np.array([0, len(lines), len(lines)], np.int64)
    return image.getvalue()


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    model = {"name": "a", "sha256": "1", "weights_sha256": "2"}
    plan = {"format": 1, "program": "1", "folder": "/", "study": STUDY, "models": [model, model], "n_cells": 1}
    cell = {"cell": CELL, "batch": CELL, "joint": "", "job": 0, "model": 1, "seed": 1, "index": 0, "tokens": 3,
            "seconds": 0.5, "memory_bytes": 9, "about": {"policy": "keydiff"}}
    result = {"format": 1, "cell": CELL, "program": "1", "worker": "node:1", "seconds": 1.5, "lines": 1}
    failure = {"cell": CELL, "worker": "node:1", "error": "no"}
    seeds = {
        "study": "s" + json.dumps(STUDY),
        "plan": "p" + json.dumps(plan) + "\n" + json.dumps(cell) + "\n",
        "result": "r" + json.dumps(result) + "\n" + '{"recall":1}\n',
        "failure": "f" + json.dumps(failure) + "\n",
    }
    for name, text in seeds.items():
        (folder / name).write_text(text)
    (folder / "merged").write_bytes(b"m" + merged())
    figure = pathlib.Path(__file__).parent / "goldens/figure.h5.xz"
    (folder / "figure").write_bytes(b"m" + lzma.decompress(figure.read_bytes()))


if __name__ == "__main__":
    main()
