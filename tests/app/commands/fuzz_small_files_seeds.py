"""Seeds for fuzz_small_files: one of each kind, behind the letter that it goes by.

    python3 fuzz_small_files_seeds.py FOLDER
"""

import json
import pathlib
import sys

TOP = pathlib.Path(__file__).parents[3]
CASES = {"deep": "[" * 100 + "]" * 100, "very_deep": "[" * 2_000, "nan": '{"format": NaN, "x": NaN, "recording": NaN}',
         "large": '{"format": 1e300, "lease_ms": 9223372036854775807, "pid": 1e300, "began": 18446744073709551615}'}
TALLY = {"pairs": 4, "violations": 0, "min_slack": 0.25}
RECORD = {"key": "0" * 64, "n_tokens": 8, "budget": 4, "runs": [{"run": "none", "kl_nats": None, "top1_agreement": 1, "heads": []}],
          "bounds": [{"layer": 0, "kv_head": 1, "theorem": TALLY, "lemma_stated": TALLY, "lemma_proof": TALLY,
                      "lemma_always": TALLY, "theorem_share": 0.5, "theorem_share_causal": None, "lemma_share": 1}]}
SCALE = {"id": "s", "long_name": "scale", "units": "", "colour_map": "viridis", "low": 0, "high": 1.5, "logarithmic": False,
         "categories": ["a"], "category_colours": ["#A0b1C2"]}
AXIS = {"label": "x", "units": "tokens", "categories": ["a", "b"], "counted": True}
SERIES = {"id": "s", "label": "l", "colour": "#112233"}
FIGURE = {"name": "keyspace", "title": "t", "caption": "c", "columns": 2, "shared_ranges": False, "view": {
    "runs": ["none"], "layer": 0, "kv_head": -1, "query_head": 1, "block": 2, "components": 2, "projection": "pca"}, "panels": [{
        "id": "p", "title": "t", "note": "", "x": AXIS, "y": AXIS, "z": AXIS, "equal_aspect": True, "legend": False, "points": [
            SERIES | {"marker": "disc", "size_px": 3.5, "faded": True}], "lines": [SERIES | {"dashed": True, "marker": "ring"}],
        "bands": [SERIES], "scale": SCALE, "ordered": True, "heatmap": SCALE | {
            "x": [0, 1, 0], "y": [0, 0.5, 4], "decimals": 2, "reduction": "mean"}}], "multiples": {
                "row_label": "layer", "column_label": "KV head", "rows": ["0"], "columns": ["1"]}}
SETTINGS = {"recording": "/recording.h5", "run": "none", "layer": 1, "kv_head": 0, "block": 3, "beside": ["keydiff"],
            "view": "keyspace", "measure": "spearman", "look": {"projection": "pca", "colour": "position", "queries": True,
                                                                "density": "off"},
            "settings": {"ranks": True, "linear": False, "retained": True, "order": "position", "reduce": "mean"},
            "arrangement": {"docking": "[Window]", "layout": "wide", "views": ["keyspace", "tokens"], "closed": ["runs"]},
            "views": ["keyspace"], "closed": [], "recent": ["/a.h5", "relative", "/a.h5", 3], "docking": "", "layout": "wide"}
EVIDENCE = {"answer": "42", "evidence": [[0, 2], [1, 4]], "score_last": 32, "policies": ["none"], "first": 4}
CLAIM = {"host": "node", "pid": 1, "machine": "m", "began": 17, "token": "0123456789abcdef", "lease_ms": 0}


def main() -> None:
    folder = pathlib.Path(sys.argv[1])

    def write(name: str, text: str) -> None:
        (folder / name).write_text(name[0] + text)

    for file in (TOP / "experiments").glob("*.json"):
        write(f"x_{file.stem}", file.read_text())
    for letter, seed in {"v": RECORD, "f": FIGURE, "s": SETTINGS, "e": EVIDENCE, "c": CLAIM, "o": {
            "format": 3, "task": "niah", "blocks": [64]}}.items():
        write(f"{letter}_seed", json.dumps(seed))
        for name, text in CASES.items():
            write(f"{letter}_{name}", text)
    write("s_prompts", json.dumps([{"file": "needle.txt", "expected": "42"}]))
    write("o_other", json.dumps({"format": 2, "task": "ruler", "seconds": float("inf")}))


if __name__ == "__main__":
    main()
