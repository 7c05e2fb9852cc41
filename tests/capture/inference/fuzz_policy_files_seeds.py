"""Seeds for fuzz_policy_files: files that fit its model of two layers with two KV heads of two channels, and words.

    python3 fuzz_policy_files_seeds.py FOLDER
"""

import pathlib
import sys

SEEDS = {
    "d": ["[[1, 0], [0, 1]]", "[[1, 0], []]", "[[2, 0], [0, 1]]"],
    "q": ["[[[0.1, -0.2], [0.3, 0.1]], [[1, 0], [0, 1]]]", "[[[1e39, 0], [0, 0]], [[1], [2]]]"],
    "t": ['[[[{"mean": [1, 2], "moduli": [3]}, {"mean": [0, 0], "moduli": [0]}], [{"mean": [1, 2], "moduli": [3]}, '
          '{"mean": [1, 1], "moduli": [1]}]], []]', '[[[{"mean": [1], "moduli": []}]], [[]]]'],
    "w": ["[1, 2]", "[[1, 2.5], 0.25]", "[1e308, 1e308]", "[5e-324, 1e308]", "[[1e-9, 1], [1, 1]]", "[0, 1]"],
    "l": ["[1, 3]", "[[2, 2], 1e300]", "[[1, 2], 1]"],
    "r": ["[512, [256, 128]]", "[1e3, 1]", "[[1], [2]]", "[2147483649, 1]"],
    "b": ["64", "25%", "0.25", "1", "100%", "0", "-1", "1e3", "99999999999999999999", "0.0000001"],
    "p": ["none", "keydiff:anchor=median,metric=cosine,recent=0.1", "sink:first=4", "snapkv:window=8,kernel=5", "random:seed=7",
          "tova:heads=all,protect=sinks:4+recent:0.1+boundaries:0.2,granularity=page:16,split=pyramid,critical=shift",
          "keydiff:granularity=model", "keydiff:split=cake:1.5/0.5", "keydiff:split=adakv,critical=on", "qfilters:file=/nowhere",
          "compactor:blend=budget", "compactor:sketch=48", "manifold:window=4096", "rkv:weight=0.1,kernel=7,threshold=0.5", "triattention:group=max"],
}


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    for letter, seeds in SEEDS.items():
        for i, seed in enumerate(seeds):
            (folder / f"{letter}_{i}").write_text(letter + seed)


if __name__ == "__main__":
    main()
