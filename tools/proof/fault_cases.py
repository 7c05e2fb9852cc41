"""What `faults.py` runs: every command that writes files, small; and what makes one of its files whole."""

import dataclasses
import fnmatch
import json
import pathlib
import struct
import subprocess
import xml.etree.ElementTree
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = f"--model {ROOT}/assets/demo_model"
PROMPT = '--prompt "The magic number is 12."'
SMALL = "--policy keydiff --budget 4 --block 4"

EVALUATION = ("*/examples.jsonl", "*/settings.json", "*/recordings/*", "examples.jsonl")
STUDY = ("study/results/*", "study/failures/*", "study/claims/*", "study/worker*", "study/slurm/*")


@dataclasses.dataclass(frozen=True)
class Case:
    """
    words: what follows `keyscope`, for a shell, in a folder of its own
    needs: of the materials, what it reads there
    last: the output that points to the others: where it is new, all are
    state: patterns of files that are kept whatever happens, since the next run goes on from them
    force: what lets it replace older outputs
    proof: a command afterwards, which writes proof.h5; its bytes are compared in place of files that hold times
    """

    name: str
    words: str
    needs: tuple[str, ...] = ()
    last: str = ""
    state: tuple[str, ...] = ()
    force: str = "--force"
    proof: str = ""

    def is_state(self, name: str) -> bool:
        return any(fnmatch.fnmatch(name, pattern) for pattern in self.state)


CASES = (
    Case("capture", f"capture {MODEL} {PROMPT} --policy none {SMALL} --out out.h5 --quiet"),
    Case("capture-block", f"capture {MODEL} {PROMPT} {SMALL} --schedule block --generate 2 --out out.h5 --quiet"),
    Case("capture-compress", f"capture {MODEL} {PROMPT} {SMALL} --compress --out out.h5 --quiet"),
    Case("replay", f"replay r.h5 {SMALL} --out out.h5 --json out.json --quiet", ("r.h5",), "out.json"),
    Case("demo", "demo --no-window --out out --quiet", force=""),
    Case("calibrate", "calibrate qfilters r.h5 --out out.json", ("r.h5",)),
    Case("calibrate-triattention", "calibrate triattention r.h5 --out out.json", ("r.h5",)),
    Case("analyze", "analyze r.h5 --no-bounds --json out.json --csv out.csv --quiet", ("r.h5",), "out.json"),
    Case("view", "view r.h5 --fresh --screenshot out.png", ("r.h5",)),  # where there is a display
    Case("figure-svg", "figure r.h5 keyspace --out out.svg", ("r.h5",)),
    Case("figure-pdf", "figure r.h5 keyspace --out out.pdf", ("r.h5",)),
    Case("figure-png", "figure r.h5 keyspace --out out.png", ("r.h5",)),
    Case("figure-h5", "figure r.h5 keyspace --out out.h5", ("r.h5",)),
    Case("figure-apng", "figure r.h5 keyspace --out out.apng", ("r.h5",)),
    Case("export", "export r.h5 --figure keyspace --figure lifespans --out out.h5", ("r.h5",)),
    Case("export-html", "export r.h5 --html out.html", ("r.h5",)),
    Case("diff", "diff r.h5 --run none --run keydiff --json out.json --csv out.csv", ("r.h5",), "out.json"),
    Case("compare", "compare r.h5 r.h5 --json out.json", ("r.h5",)),
    Case("inspect", "inspect r.h5 --json out.json", ("r.h5",)),
    Case("prompts", f"prompts two.jsonl {MODEL} --out out.svg --json out.json", ("two.jsonl",), "out.json"),
    Case("eval-niah", f"eval niah {MODEL} --policy keydiff --budget 25% --length 64 --depth 50 --block 16 --record 1"
         " --out out --json out.json --figure out.svg --figure out.pdf --quiet", (), "out.json", EVALUATION),
    Case("eval-phonebook", f"eval phonebook {MODEL} --policy keydiff --budget 8 --block 16 --entries 4"
         " --json out.json --figure out.svg --quiet", (), "out.json"),
    Case("eval-ruler", f"eval ruler {MODEL} --task niah_single_1 --length 512 --samples 1 --policy keydiff --budget 64 --block 64"
         " --out out --quiet", (), "out/results.json", EVALUATION),
    Case("eval-longbench", f"eval longbench {MODEL} --data {ROOT}/assets/eval/longbench.jsonl --rows 1"
         " --max-tokens 64 --policy keydiff --block 16 --out out --quiet", (), "out/results.json", EVALUATION),
    Case("eval-perplexity", f"eval perplexity {MODEL} --text text.txt --length 16 --policy keydiff --budget 8 --block 8"
         " --out out --quiet", ("text.txt",), "out/results.json", EVALUATION),
    Case("grid", f"grid {MODEL} --scorer keydiff,random --task niah --budget 50% --length 64 --examples 1 --block 16"
         " --out out --json out.json --quiet", (), "out.json", EVALUATION),
    Case("reproduce", f"reproduce {ROOT}/experiments/cliff-eviction.json {MODEL} --length 128 --samples 1 --out out"
         " --json out.json --quiet", (), "out.json", EVALUATION),
    Case("validate", f"validate {MODEL} --prompts two.jsonl --max-tokens 16 --policy sink --block 4 --keep-recordings"
         " --out out --quiet", ("two.jsonl",), "out/validation.json", (*EVALUATION, "out/prompts/*")),
    Case("report", f"report {MODEL} --policies keydiff --budgets 50% --tasks niah --length 64 --examples 2 --block 16"
         " --repeat 0 --diagnose 1 --out out --json out.json --quiet", (), "out.json",
         (*EVALUATION, "out/geometry*")),
    Case("sweep-plan", "sweep plan study.json --out study --quiet", ("study.json", "two.jsonl"), "study/plan.json",
         force=""),
    Case("sweep-run", "sweep run study --retry-failed --quiet --lease 1", ("study", "study.json", "two.jsonl"), "",
         STUDY, "", "sweep merge study --copy --out proof.h5 --quiet"),
    Case("sweep-merge", "sweep merge done --out out.h5 --csv out.csv --quiet", ("done",), "out.csv"),
    Case("sweep-status", "sweep status done --json out.json", ("done",)),
    Case("sweep-submit", "sweep submit study --slurm --tasks 1", ("study", "study.json", "two.jsonl", "bin"), "",
         (*STUDY, "study/sbatch.template"), ""),
    Case("bench-score", "bench score --policy keydiff --keys 64 --block 16 --repeat 1 --json out.json --out out.svg"
         " --quiet", (), "out.json"),
    Case("bench-capture", f"bench capture {MODEL} --policy none --block 16 --tokens 32 --repeat 1 --json out.json"
         " --out out.svg --quiet", (), "out.json"),
)

STUDY_JSON = {
    "name": "small",
    "models": [f"{ROOT}/assets/demo_model"],
    "seeds": [0],
    "jobs": [
        {"command": "eval niah", "policy": ["keydiff"], "budget": ["25%"], "block": [16], "length": [64], "depth": [50]},
        {"command": "capture", "prompts": "two.jsonl", "max-tokens": 8, "policy": ["none"], "budget": [4], "block": [4]},
    ],
}


def make_materials(keyscope: pathlib.Path, folder: pathlib.Path) -> None:
    """What cases read: a recording, prompts, a text, a study that is planned, one that is done, a Slurm that takes all."""
    folder.mkdir(parents=True)
    prompts = [{"prompt": "The magic number is 12."}, {"prompt": "A key for every lock."}]
    (folder / "two.jsonl").write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    (folder / "text.txt").write_text("The magic number is 12, and a key is for every lock.\n" * 2)
    (folder / "study.json").write_text(json.dumps(STUDY_JSON))
    (folder / "bin").mkdir()
    for name, says in ("sbatch", "echo 42"), ("squeue", "echo 42"):
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{says}\n")
        (folder / "bin" / name).chmod(0o755)
    for words in (f"capture {MODEL} {PROMPT} --policy none {SMALL} --out r.h5 --quiet",
                  "sweep plan study.json --out study --quiet", "sweep plan study.json --out done --quiet",
                  "sweep run done --quiet"):
        subprocess.run(f"{keyscope} {words}", shell=True, cwd=folder, check=True, capture_output=True)


def shape(value: object) -> object:
    """Of JSON, all but the numbers: what two runs have in common that took different times."""
    if isinstance(value, dict):
        return {name: shape(held) for name, held in value.items()}
    if isinstance(value, list):
        return [shape(held) for held in value]
    return value if isinstance(value, (str, bool)) else None


def chunks_are_whole(png: bytes) -> bool:
    at, kind = 8, b""
    while at + 12 <= len(png) and kind != b"IEND":
        size = struct.unpack(">I", png[at:at + 4])[0]
        kind = png[at + 4:at + 8]
        if zlib.crc32(png[at + 4:at + 8 + size]) != struct.unpack(">I", png[at + 8 + size:at + 12 + size])[0]:
            return False
        at += 12 + size
    return kind == b"IEND" and at == len(png)


def is_whole(keyscope: pathlib.Path, file: pathlib.Path) -> bool:
    """Whether a file is one of its kind from the first byte to the last."""
    held = file.read_bytes()
    kind = file.suffix
    try:
        if kind == ".h5":
            return subprocess.run([keyscope, "inspect", file], capture_output=True, check=False).returncode == 0
        if kind == ".json":
            return json.loads(held) is not None
        if kind == ".jsonl":
            return held.endswith(b"\n") and all(json.loads(line) for line in held.splitlines())
        if kind == ".svg":
            return xml.etree.ElementTree.fromstring(held) is not None
    except (ValueError, xml.etree.ElementTree.ParseError):
        return False
    if kind == ".pdf":
        return held.startswith(b"%PDF") and held.rstrip().endswith(b"%%EOF")
    if kind in (".png", ".apng"):
        return chunks_are_whole(held)
    return held.rstrip().endswith(b"</html>") if kind == ".html" else held.endswith(b"\n")
