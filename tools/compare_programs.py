"""What the programs of two commits print and write when they run the same commands."""

import argparse
import difflib
import fnmatch
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from compare_sources import ROOT, Verdict, git, listed

PROGRAM_PARTS = ("help", "recordings", "figures", "export", "commands")

# What may differ between two runs of one program: files, what in them, and why. Replaced by "*" on both sides.
TEXT_FIELDS = (
    ("*.pdf", r"/CreationDate \([^)]*\)", "cairo writes the time of drawing"),
    ("*.h5", r"(?s)(\x12\x00\x08\x00.\x00\x00\x00\x01\x00\x00\x00).{4}", "HDF5 writes the time of every dataset"),
    ("commands/*.json", r'("seconds": )[0-9.e+-]+', "how long an evaluation took"),
    ("commands/*.log", r"(a factor of [0-9.]+\), )[^\n]* tokens run a second", "how long an evaluation took"),
    ("commands/dry_capture.log", r"( of memory, )[^\n]*", "an estimated time, from a short measurement"),
    ("commands/bench_*.log", r"[ ]+|-?[0-9][0-9.,]*", "measured times and memory; columns are as wide as they need"),
    ("commands/bench_*.json",
     r'("(?:load|load_before|load_after|(?:product_gflops|ttft_ms|plain_ms|recorded_ms|overhead|peak_bytes|\w+_us|'
     r'\w+_share|\w+_per_second|relative|\w+_relative)(?:_min|_max|_low|_high)?)": )-?[0-9][0-9.e+-]*', "the same"),
    ("commands/bench_*.json", r'("ttft_ms_rounds": )\[[^\]]*\]', "the same"),
)
# The same in HDF5 files, by path or path@attribute; with a pattern only that part of a text, else the whole value.
HDF5_FIELDS = (
    ("recordings/*", "/entry/provenance@started", None, "when the command began"),
    ("commands/*", "/entry/provenance@started", None, "when the command began"),
    ("recordings/*", "/entry/runs/*/block_ms", None, "how long each block took"),
    ("recordings/demo/figures.h5", "/entry/block_times/*", None, "how long each block took"),
    ("*", "/entry/provenance@versions", r"keyscope [0-9.]+", "the project's own version; of libraries it is compared"),
)
# Files that only have to be there on both sides, and why.
UNCOMPARED = (
    ("recordings/demo/block-times.png", "drawn from how long each block took"),
)

# Files that the commands read.
INPUTS = {"budgets.json": [96, [64, 48, 32, 16], 80, [40, 40, 72, 72]],
          "ids.json": [(37 * i * i + 11) % 1000 + 78 for i in range(120)]}
NEEDLE = "--model assets/demo_model --prompt-file assets/demo_model/prompts/needle.txt --threads 1 --quiet"
NEEDLE_2048 = NEEDLE.replace("needle.txt", "needle_2048.txt")
BOOK = "--model assets/demo_model_sinks --prompt-file assets/demo_model/prompts/phonebook.txt --threads 1 --quiet"
EVAL = "--model assets/demo_model --threads 1 --quiet --seed 5"

# A command a paragraph, behind its name; `+x` stands for `--policy x`. `fixed` has the old program's recordings.
RECORDINGS = f"""
blockwise capture {NEEDLE} --max-tokens 384 --budget 96 --block 48 --schedule block --generate 8
  +none +keydiff +sink +l2norm +tova +h2o +snapkv +random +manifold +cur +leverage +logdet
  --record keys,queries,values,logits --out blockwise.h5
layerwise capture {NEEDLE} --max-tokens 300 --budget 80 --block 40 --seed 3 --generate 4
  +none +random +keydiff:anchor=median +keydiff:anchor=pairwise +keydiff:anchor=normalized-mean +keydiff:metric=dot
  +keydiff:metric=euclidean +keydiff:recent=0.2 +sink:first=8 +l2norm:skip=2 +tova:heads=all +h2o:recent=0.5
  +snapkv:window=16 +random:seed=9 +logdet:ridge=2 --record keys,queries,values,logits --out layerwise.h5
attention capture {NEEDLE} --max-tokens 160 --budget 64 --block 32 --schedule block +none +keydiff +tova +h2o
  --record keys,queries,values,attention,logits --generate 3 --out attention.h5
large capture {NEEDLE_2048} --budget 512 --block 128 +none +keydiff --out large.h5
sinks capture {BOOK} --budget 100 --block 50 --schedule block +none +keydiff +sink --generate 6 --out sinks.h5
oracle capture {BOOK} --budget 100 --block 50 --oracle +none +keydiff +snapkv --out oracle.h5
cache_positions capture {BOOK} --budget 100 --block 50 --positions cache +none +sink +keydiff --out cache_positions.h5
float32 capture {NEEDLE} --max-tokens 256 --dtype float32 --budget 64 --block 32 +none +keydiff --out float32.h5
float16 capture {NEEDLE} --max-tokens 256 --dtype float16 --store float16 --budget 64 --block 32 +none +h2o
  --out float16.h5
packed capture {NEEDLE} --max-tokens 256 --store bfloat16 --compress --budget 64 --block 32 +none +keydiff
  --record keys,queries,values --hash-weights --out packed.h5
some_heads capture {NEEDLE} --max-tokens 256 --layers 1,3 --heads 0,2 --budget 64 --block 32 +none +keydiff
  --score-last 8 --record keys,queries,values,logits --out some_heads.h5
budgets capture {NEEDLE} --max-tokens 256 --budget-file budgets.json --block 32 +none +keydiff +h2o --out budgets.h5
ids capture --model assets/demo_model --prompt-ids ids.json --budget 24 --block 16 +none +snapkv --quiet --out ids.h5
replayed replay fixed/blockwise.h5 --budget 100 --block 50 --seed 2 --quiet --json replayed.json --out replayed.h5
  +keydiff +sink +l2norm +tova +h2o +random +manifold +cur +leverage +logdet +keydiff:anchor=pairwise
replayed_attention replay fixed/attention.h5 --budget 40 --block 20 +snapkv +h2o:recent=0.5 --layers 0,2 --quiet
  --out replayed_attention.h5
demo demo --no-window --quiet --out demo
"""

# A line of options a figure, each as svg and as h5 of the recording `blockwise`.
FIGURES = """
keyspace --run keydiff --layer 1 --kv-head 2 --colour position
keyspace --run keydiff --layer 2 --kv-head 1 --colour attention --queries
keyspace --run keydiff --layer 3 --kv-head 3 --colour score --block 3
keyspace --run keydiff --colour margin
keyspace --run sink --colour class
keyspace --run none --run keydiff --run random
keyspace --run keydiff --components 3
keyspace --run logdet --projection pca3d --colour score
keyspace --run keydiff --projection anchor --block 5 --width single
keyspace --run keydiff --layers 0-3 --kv-heads all
keyspace --run h2o --layers 1,3 --kv-heads 0,2 --projection anchor --dark
cosine-matrix --run keydiff --retained
cosine-matrix --run keydiff --order dendrogram --block 2
cosine-matrix --run sink --order dendrogram --retained --layer 2
cosine-matrix --layers all --kv-heads 0
attention --query-head 3 --linear
attention --run keydiff --query-head 6 --layer 2 --reduce mean
attention --layers 0,2 --query-heads 0,5
cosine-and-attention --run tova --layer 1 --kv-head 1 --reduce min
score-attention --run keydiff --ranks --layer 2
score-attention --layers all --ranks --dark
lifespans --run keydiff --margins --layer 2
lifespans --run h2o --kv-head 3 --width 4.5
head-map --run keydiff --measure retained_overlap --reference sink
head-map --run keydiff --measure log_volume_nats --reference none
head-map --run random --measure attention_mass_kept --dark
head-map --run none --measure spearman_given_position
head-map --run h2o --measure output_error
head-map --run sink --measure effective_rank --reference cur
head-map --measure sink_metric
head-map --run keydiff --measure no_such_measure
rank-correlation --run keydiff
mean-cosines --run keydiff --width single
key-norms --run tova --dark
log-volume --block 3
redundancy --run none --run keydiff
attention-mass --width 12
diversity --run none --run keydiff
diversity --run keydiff --run sink --run h2o --run random
bounds --run keydiff
overlap --run keydiff --run manifold --run cur
relaxation-gap --run keydiff --run l2norm
ablation --width single
block-times --run none --run keydiff
keyspace --run no_such_run
keyspace --layer 99
no-such-figure
"""
PAPER_FIGURES = "fig2 fig4 fig5 fig8 fig9 fig10 fig11 fig12 fig13 fig14 fig15 fig16 table3 table15 table16".split()
ALL_FORMATS = ("blockwise",)  # of these recordings every figure as svg, h5, png and pdf; of the next ones as svg
SVG_ONLY = ("layerwise", "attention", "large", "some_heads", "replayed")

EXPORTS = """
blockwise export fixed/blockwise.h5 --quiet --out blockwise.h5
blockwise_some export fixed/blockwise.h5 --quiet --figure keyspace --figure attention --figure head-map --run keydiff
  --run h2o --layers 1-2 --kv-heads 0,3 --block 4 --components 3 --out blockwise_some.h5
""" + "".join(f"{name} export fixed/{name}.h5 --quiet --out {name}.h5\n" for name in (
    "layerwise", "attention", "sinks", "oracle", "cache_positions", "float16", "packed", "some_heads", "budgets",
    "replayed"))

COMMANDS = f"""
analyze_blockwise analyze fixed/blockwise.h5 --quiet --json blockwise.json --csv blockwise.csv
analyze_some analyze fixed/blockwise.h5 --run keydiff --layers 1,2 --kv-heads 0,3 --no-bounds --quiet --json some.json
analyze_unknown analyze fixed/blockwise.h5 --run no_such_run
analyze_text analyze assets/demo_model/README.md
inspect_token inspect fixed/blockwise.h5 --token 40 --run keydiff --layer 1 --kv-head 2 --json token.json
inspect_evicted inspect fixed/attention.h5 --token 20
inspect_model inspect assets/demo_model --json model.json
compare_same compare fixed/blockwise.h5 fixed/blockwise.h5 --quiet --json same.json
compare_other compare fixed/oracle.h5 fixed/cache_positions.h5 --quiet --json other.json
compare_prompts compare fixed/blockwise.h5 fixed/attention.h5
prompts prompts assets/demo_model/prompts/passages.jsonl --model assets/demo_model --budget 128 --budget 64
  --json prompts.json --out prompts.svg
tokenize tokenize --model assets/demo_model --prompt "The magic number of Ünïcode 東京 is 4711." --special
tokenize_text tokenize --model assets/demo_model --prompt-file assets/demo_model/prompts/needle.txt
detokenize tokenize --model assets/demo_model --decode --prompt "[78,470,465,11,415]"
validate validate --model assets/demo_model --prompts assets/demo_model/prompts/passages.jsonl --max-tokens 128
  --block 32 --threads 1 --seed 4 --quiet --out validation
niah eval niah {EVAL} +keydiff +sink +random --budget 25%,64 --length 200,256 --depth 10,90 --samples 2 --block 32
  --distractors 1 --json niah.json --figure niah.svg --figure niah_too.h5 --out niah
phonebook eval phonebook {EVAL} +keydiff +tova --budget 25% --entries 8,16 --block 32 --json phonebook.json
longbench eval longbench {EVAL} --data assets/eval/longbench.jsonl +keydiff --budget 25% --block 32
  --json longbench.json --out longbench
math500 eval math500 {EVAL} --data assets/eval/math.jsonl +keydiff --generate 24 --budget 16 --block 16
  --temperature 0.9 --top-p 0.9 --samples 2 --json math500.json
perplexity eval perplexity {EVAL} --text assets/demo_model/prompts/needle.txt --length 256 --stride 128 +keydiff +sink
  --budget 25% --block 32 --json perplexity.json --figure perplexity.svg --figure perplexity.h5
ruler eval ruler {EVAL} --task niah_multikey_1,vt,fwe --length 1K --samples 2 --needles paraphrased,heterogeneous
  +keydiff --budget 25% --block 64 --json ruler.json --figure ruler.svg --out ruler
report report --model assets/demo_model --policies keydiff,sink --budgets 50% --length 256 --examples 4 --repeat 0
  --diagnose 2 --text assets/demo_model/prompts/needle.txt --threads 1 --quiet --json report.json --out report
bench_prefill bench prefill --model assets/demo_model +none +keydiff +h2o --budget 64 --block 32 --tokens 128
  --repeat 1 --schedule both --threads 1 --quiet --json bench_prefill.json
bench_score bench score +keydiff +h2o +random --keys 256,512 --head-dim 32 --repeat 1 --quiet --json bench_score.json
bench_capture bench capture --model assets/demo_model +keydiff --budget 64 --block 32 --tokens 128 --repeat 1
  --threads 1 --quiet --json bench_capture.json
bench_memory bench memory --model assets/demo_model +keydiff --budget 64 --block 32 --tokens 128 --threads 1 --quiet
  --json bench_memory.json
dry_capture capture {NEEDLE} --budget 128 +none +keydiff --dry-run --out dry.h5
dry_replay replay fixed/blockwise.h5 --budget 64 +keydiff --dry-run --out dry.h5
dry_niah eval niah {EVAL} --length 256 +keydiff --dry-run
no_budget capture {NEEDLE} +keydiff --out refused.h5
no_such_policy capture {NEEDLE} --budget 64 +no_such_policy --out refused.h5
no_such_option capture {NEEDLE} +none --no-such-option --out refused.h5
no_such_command no-such-command
no_such_file figure no_such_file.h5 keyspace --out refused.svg
no_overwrite analyze fixed/ids.h5 --no-bounds --quiet --json same.json
no_display view fixed/ids.h5
""" + "".join(f"inspect_{name} inspect fixed/{name}.h5 --json inspect_{name}.json\n"
              f"analyze_{name} analyze fixed/{name}.h5 --quiet --json analyze_{name}.json\n" for name in (
                  "layerwise", "attention", "sinks", "oracle", "cache_positions", "float32", "float16", "packed",
                  "some_heads", "budgets", "ids", "replayed", "replayed_attention"))


def digest(*data: bytes) -> str:
    return hashlib.sha256(b"\0".join(data)).hexdigest()[:12]


def built(commit: str, out: Path) -> Path:
    """The program of a commit, from a git worktree of it under `out`."""
    tree, own = out / f"tree-{git('rev-parse', '--short=12', commit + '^{commit}').decode().strip()}", ROOT / ".deps"
    if not tree.exists():
        git("worktree", "add", "--detach", str(tree), commit)
    if own.exists() and not (tree / ".deps").exists():
        # Links of its own: where this commit wants another LibTorch, `./run build` replaces them, not the original.
        copy = ["cp", "--recursive", "--preserve", str(own.resolve()), str(tree / ".deps")]
        if subprocess.run([*copy, "--link"], stderr=subprocess.DEVNULL).returncode:
            shutil.rmtree(tree / ".deps", ignore_errors=True)
            subprocess.run([*copy, "--reflink=auto"], check=True)
    subprocess.run(["./run", "build"], cwd=tree, check=True, stdout=sys.stderr)
    return tree / "build/release/keyscope"


@dataclass(frozen=True)
class Side:
    """A program, and the folder that holds a subfolder of its artefacts for each part."""

    program: Path
    folder: Path
    links: dict[str, Path]

    def run(self, part: str, name: str, arguments: list[str]) -> str:
        """Runs a command in the part's folder, and keeps what it printed as `name`.log."""
        folder = self.folder / part
        environment = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
        try:
            done = subprocess.run(["keyscope", *arguments], executable=self.program, cwd=folder, env=environment,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=600)
            log = f"exit status {done.returncode}\n--- stdout\n".encode() + done.stdout + b"--- stderr\n" + done.stderr
        except subprocess.TimeoutExpired:
            log = b"not done after 600 s\n"
        (folder / f"{name}.log").write_bytes(log)
        return log.decode(errors="replace")

    def make(self, part: str, commands: list[tuple[str, list[str]]], stamp: str = "") -> None:
        """All artefacts of a part, unless those of the same stamp are there."""
        folder = self.folder / part
        if stamp and (folder / "stamp").is_file() and (folder / "stamp").read_text() == stamp:
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, target in self.links.items():
            (folder / name).symlink_to(target)
        for name, content in INPUTS.items():
            (folder / name).write_text(json.dumps(content))
        for name, arguments in commands:
            self.run(part, name, arguments)
        if part == "help":
            self.helps([])
        (folder / "stamp").write_text(stamp)

    def helps(self, subcommand: list[str]) -> None:
        """--help of a subcommand and of those below it."""
        text = self.run("help", "-".join(["keyscope", *subcommand]), [*subcommand, "--help"])
        for name in re.findall(r"^  (\S+)  ", text.partition("\nSubcommands:\n")[2], re.M):
            self.helps([*subcommand, name])


def table(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a table, by name."""
    lines = [shlex.split(line) for line in re.sub(r"\n +", " ", text).strip().splitlines()]
    return [(words[0], [x for word in words[1:] for x in (["--policy", word[1:]] if word[0] == "+" else [word])])
            for words in lines]


def figure_commands(figures: list[str], extra: list[str]) -> list[tuple[str, list[str]]]:
    made = [(f"{recording}-{figure}.{suffix}", [f"fixed/{recording}.h5", figure])
            for recordings, suffixes in ((ALL_FORMATS, ("svg", "h5", "png", "pdf")), (SVG_ONLY, ("svg",)))
            for recording in recordings for figure in figures for suffix in suffixes]
    made += [(f"extra-{stem}-{figure}.svg", [f"extra/{stem}.h5", figure]) for stem in extra for figure in figures]
    made += [(f"{n:02}-{figure}.{suffix}", ["fixed/blockwise.h5", figure, *options])
             for n, (figure, options) in enumerate(table(FIGURES)) for suffix in ("svg", "h5")]
    made += [(f"paper-{figure}.svg", ["fixed/blockwise.h5", figure]) for figure in PAPER_FIGURES]
    return [(name, ["figure", *arguments, "--out", name]) for name, arguments in made]


def commands_of(part: str, old: Side, extra: list[str]) -> list[tuple[str, list[str]]]:
    if part == "figures":
        text = subprocess.run([old.program, "figure", "--help"], check=True, capture_output=True, text=True).stdout
        return figure_commands(re.findall(r"[\w-]+", re.search(r"Which figure: (.*)", text)[1]), extra)
    added = {"export": "extra-{0} export extra/{0}.h5 --quiet --out extra-{0}.h5\n",
             "commands": "extra-{0} analyze extra/{0}.h5 --quiet --json extra-{0}.json\n"}.get(part, "")
    tables = {"help": "version --version", "recordings": RECORDINGS, "export": EXPORTS, "commands": COMMANDS}
    return table(tables[part] + "".join(added.format(stem) for stem in extra))


def values(of: object, file: h5py.File, names: dict[int, str]) -> object:
    """A value of HDF5 that can be compared: references by what they refer to, numbers as they lie in memory."""
    if isinstance(of, h5py.Reference):
        return names[h5py.h5o.get_info(file[of].id).addr] if of else None
    if isinstance(of, np.ndarray) and (of.dtype.hasobject or of.dtype.names):
        return [values(item, file, names) for item in of.ravel()]
    if isinstance(of, np.void):
        return [values(item, file, names) for item in of.item()]
    return (str(of.dtype), of.shape, of.tobytes()) if isinstance(of, (np.ndarray, np.generic)) else of


def hdf5_contents(path: Path) -> dict[str, tuple[str, object, object]]:
    """Everything that a file holds: path or path@attribute -> what it is, its value, and the value to compare."""
    contents = {}
    with h5py.File(path) as file:
        items = {"": file["/"]}
        file.visititems(lambda name, item: items.update({name: item}))
        names = {h5py.h5o.get_info(item.id).addr: name for name, item in items.items()}
        for name, item in items.items():
            kind, value = type(item).__name__, None
            if isinstance(item, h5py.Dataset):
                kind += f" {item.dtype.str}{item.dtype.names or ''} {item.shape} of {item.maxshape}, chunks "
                kind += f"{item.chunks}, {item.compression} {item.compression_opts} {item.shuffle} {item.fletcher32}"
                value = item[()]
            contents[f"/{name}"] = kind, value, values(value, file, names)
            for attribute, value in item.attrs.items():
                of = item.attrs.get_id(attribute)
                kind = f"attribute {of.dtype.str} {of.shape}"
                contents[f"/{name}@{attribute}"] = kind, value, values(value, file, names)
    return contents


def hdf5_differences(name: str, old: Path, new: Path, varied: Counter) -> list[str]:
    before, after = hdf5_contents(old), hdf5_contents(new)
    lines = [f"{'-' if path in before else '+'} {path}" for path in before.keys() ^ after.keys()]
    for path in before.keys() & after.keys():
        (old_kind, a, comparable), (kind, b, other) = before[path], after[path]
        if old_kind != kind:
            lines.append(f"  {path}: {old_kind}, now {kind}")
        elif comparable != other:
            for files, pattern, within, why in HDF5_FIELDS:
                if fnmatch.fnmatch(name, files) and fnmatch.fnmatch(path, pattern):
                    varied[f"{files} {pattern}: {why}"] += 1
                    a, b = (re.sub(within, "*", str(x)) if within else "*" for x in (a, b))
            if isinstance(a, str) and a == b:
                continue
            lines.append(f"  {path}: {difference(a, b)}")
    return sorted(lines)


def difference(a: object, b: object) -> str:
    if isinstance(a, np.ndarray) and a.dtype.kind in "iuf" and a.shape == b.shape:
        apart = (a != b) & ~((a != a) & (b != b))
        largest = np.nanmax(np.abs(a.astype(float) - b.astype(float))[apart], initial=0)
        return f"{np.count_nonzero(apart)} of {a.size} values, by up to {largest:.3g}"
    return f"{a!s:.300}, now {b!s:.300}"


def file_differences(name: str, old: Path, new: Path, verdict: Verdict) -> list[str]:
    """What differs between two files apart from the listed fields: no line if nothing does."""
    before, after = old.read_bytes(), new.read_bytes()
    if before == after:
        verdict.counts["same bytes"] += 1
        return []
    for pattern, why in UNCOMPARED:
        if fnmatch.fnmatch(name, pattern):
            verdict.counts["not compared"] += 1
            verdict.varied[f"{pattern}: {why}"] += 1
            return []
    for pattern, regex, why in TEXT_FIELDS:
        if fnmatch.fnmatch(name, pattern):
            rule = re.compile(regex.encode())
            differ = [m[0] for m in rule.finditer(before)] != [m[0] for m in rule.finditer(after)]
            verdict.varied[f"{pattern}: {why}"] += differ
            before, after = (rule.sub(lambda m: (m[1] if m.lastindex else b"") + b"*", x) for x in (before, after))
    if before == after:
        verdict.counts["but for fields"] += 1
        return []
    if name.endswith(".h5") and h5py.is_hdf5(old) and h5py.is_hdf5(new):
        lines = hdf5_differences(name, old, new, verdict.varied)
        verdict.counts["same content"] += not lines
        return lines
    try:
        texts = before.decode().splitlines(), after.decode().splitlines()
    except UnicodeDecodeError:
        return [f"{len(before)} bytes ({digest(before)}), now {len(after)} ({digest(after)})"]
    return list(difflib.unified_diff(*texts, lineterm="", n=1)) or ["line ends differ"]


def compare_folders(part: str, old: Path, new: Path, out: Path) -> Verdict:
    """Compares the artefacts of a part; every difference in full goes into a file under `out`."""
    verdict, allowed = Verdict(), listed()
    names = sorted({str(p.relative_to(side)) for side in (old, new) for p in side.rglob("*")
                    if p.is_file() and not p.is_symlink() and p.name != "stamp"})
    for name in names:
        verdict.counts["compared"] += 1
        path = f"{part}/{name}"
        if not (old / name).exists() or not (new / name).exists():
            lines = ["is new" if (new / name).exists() else "is not written any more"]
        elif not (lines := file_differences(path, old / name, new / name, verdict)):
            continue
        mark = digest("\n".join(lines).encode())
        if allowed.get(path, ("", ""))[0] == mark:
            verdict.intended.append(f"{path}: {allowed[path][1]}")
            continue
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).with_name(Path(path).name + ".diff").write_text("\n".join(lines) + "\n")
        shown = [f"    {line[:160]}" for line in lines[:12]] + [f"    … {len(lines)} lines"] * (len(lines) > 12)
        verdict.lost.append("\n".join([f"{path} (difference {mark})", *shown]))
    return verdict


def both_sides(given: argparse.Namespace, out: Path) -> tuple[Side, Side]:
    """The two programs, with folders for their artefacts, assets of OLD and recordings by the old program."""
    programs = [(path or built(commit, out)).resolve() for path, commit in
                ((given.old_program, given.old), (given.new_program, given.new))]
    hashes = [digest(path.read_bytes()) for path in programs]
    commit = git("rev-parse", "--short=12", given.old + "^{commit}").decode().strip()
    old_folder, assets = out / f"old-{commit}-{hashes[0]}", out / f"assets-{commit}"
    if not assets.exists():
        with tarfile.open(fileobj=io.BytesIO(git("archive", commit, "assets"))) as archive:
            archive.extractall(assets.with_suffix(".part"))
        assets.with_suffix(".part").rename(assets)
    links = {"assets": assets / "assets", "fixed": old_folder / "recordings"}
    if given.recordings:
        links["extra"] = given.recordings.resolve()
    return Side(programs[0], old_folder, links), Side(programs[1], out / f"new-{hashes[1]}", links)


def compare_programs(given: argparse.Namespace) -> Iterator[tuple[str, Verdict]]:
    out = given.out.resolve()
    old, new = both_sides(given, out)
    extra = sorted(given.recordings.resolve().glob("*.h5")) if given.recordings else []
    # The last digits depend on the processor.
    about = re.findall(r"model name.*", Path("/proc/cpuinfo").read_text())[:1]
    shutil.rmtree(out / "differences", ignore_errors=True)
    for part in [part for part in PROGRAM_PARTS if part in given.programs or part == "recordings"]:
        begun = time.monotonic()
        commands = commands_of(part, old, [path.stem for path in extra])
        read: list[object] = []
        if part not in ("help", "recordings"):  # these read recordings, and are of no use beside newer ones
            read = [(str(path), path.stat().st_mtime) for path in [old.folder / "recordings/stamp", *extra]]
        if part in given.programs or set(given.programs) - {"help"}:
            old.make(part, commands, digest(json.dumps([commands, INPUTS, table(RECORDINGS), about, read]).encode()))
        if part in given.programs:
            new.make(part, commands)
            verdict = compare_folders(part, old.folder / part, new.folder / part, out / "differences")
            verdict.seconds = time.monotonic() - begun
            yield part, verdict
