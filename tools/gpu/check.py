#!/usr/bin/env python3
"""Checks Keyscope on this machine: the engine's tests, then prefill, decoding and recording of models of true shape
with random weights, beside Transformers and kvpress. check.sh starts it; README.md says what check.json holds.

Runs inside what pack.sh packed, by the Python whose PyTorch is the LibTorch to load. Every part has a time limit of its
own and leaves its figures whatever becomes of the others. Exit status: 0 if every part that can run here succeeded, 1
if one did not, 2 if nothing could be started.
"""

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from processes import Ended, run_together
from report import Part, Report, table

HERE = pathlib.Path(__file__).resolve().parent
GOLDENS = "tests/capture/inference/goldens"
ON_DEVICE = "*OnCuda*:Cuda.*"  # the tests that compare a GPU with the CPU; all others run on either
LIMITS_S = {"loads": 60, "device tests": 90, "engine tests": 150, "model": 60, "prefill": 75, "capture": 75,
            "transformers": 75, "kvpress": 60, "memory": 75}
MEMORY_BUDGET = 8192  # rows, with which prompts of different lengths are to take the same memory


class Stopped(Exception):
    """Somebody ended this check before its time."""


def parse():
    parser = argparse.ArgumentParser(prog="check.sh", description=__doc__.split("\n\n")[0])
    parser.add_argument("--pack", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--shapes", default="1b,3b,8b", help="of shapes.json: tiny, 1b, 3b, 8b")
    parser.add_argument("--policies", default="none,keydiff,snapkv,h2o")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"))
    parser.add_argument("--tokens", default="8192,32768", help="of the prompt, one length or several (default 8192,32768)")
    parser.add_argument("--memory-tokens", default="32768,131072", help="of the prompts whose memory is measured "
                        "(default 32768,131072)")
    for option, default, what in (("budget", 2048, "rows kept per KV head"),
                                  ("block", 128, "prompt tokens per block"), ("generate", 17, "tokens after it"),
                                  ("repeat", 3, "samples of every time")):
        parser.add_argument("--" + option, type=int, default=default, help=f"{what} (default {default})")
    parser.add_argument("--limit", type=float, default=465, help="seconds for everything (default 465)")
    parser.add_argument("--part-limit", action="append", default=[], metavar="KIND=SECONDS",
                        help=f"seconds for each part of a kind: {', '.join(LIMITS_S)}")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-check-results"),
                        help="folder for check.json and check.log (default gpu-check-results)")
    parser.add_argument("--scratch", type=pathlib.Path,
                        help="folder for models and recordings (default: memory if it suffices, else a temporary one)")
    arguments = parser.parse_args()
    arguments.shapes, arguments.policies = arguments.shapes.split(","), arguments.policies.split(",")
    arguments.tokens = sorted(int(n) for n in arguments.tokens.split(","))
    known = json.loads((HERE / "shapes.json").read_text())
    for shape in arguments.shapes:
        if shape not in known:
            parser.error(f"--shapes: {shape} is none of {', '.join(known)}")
    arguments.limits = dict(LIMITS_S)
    for setting in arguments.part_limit:
        kind, _, seconds = setting.partition("=")
        if kind not in LIMITS_S or not re.fullmatch(r"[0-9.]+", seconds):
            parser.error(f"--part-limit {setting}: expected KIND=SECONDS, KIND one of {', '.join(LIMITS_S)}")
        arguments.limits[kind] = float(seconds)
    return arguments, known


# --- the machine

def version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def first_line(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout.strip() else None
    except (OSError, subprocess.TimeoutExpired):
        return None


def machine() -> dict:
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    gpu = first_line(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"])
    return {"gpu": gpu, "cpu": model[1] if model else None, "n_cores": len(os.sched_getaffinity(0)),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "kernel": os.uname().release,
            "glibc": os.confstr("CS_GNU_LIBC_VERSION").split()[-1], "python": sys.version.split()[0],
            "torch": version_of("torch"), "transformers": version_of("transformers"), "numpy": version_of("numpy")}


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0]))


def why_not(pack: dict, here: dict, device: str, torch_lib: pathlib.Path | None) -> str:
    """Empty where the packed programs can start here."""
    if os.uname().machine != "x86_64":
        return f"this machine is {os.uname().machine}; the packed programs are for x86_64"
    if numbers(here["glibc"]) < numbers(pack["glibc"]):
        return (f"glibc here is {here['glibc']}, the packed programs need {pack['glibc']} or newer: take a newer system, "
                f"or pack a build made on one with glibc {here['glibc']} or older")
    if torch_lib is None or not (torch_lib / "libtorch_cpu.so").is_file():
        return f"{sys.executable}: its PyTorch has no lib/libtorch_cpu.so"
    if numbers(here["torch"])[:2] != numbers(pack["torch"])[:2]:
        return (f"{sys.executable} has PyTorch {here['torch']}, the packed programs are built for {pack['torch']}: name "
                "another Python with --python")
    if device == "cuda" and not (torch_lib / "libtorch_cuda.so").is_file():
        return f"{torch_lib}: no libtorch_cuda.so, so this PyTorch is one for the CPU: name another Python with --python"
    return ""


@contextlib.contextmanager
def source_link(pack: pathlib.Path, path: pathlib.Path):
    """Lets the tests find their goldens, whose absolute path in the checkout of the build is compiled in: a link at that
    path for as long as they run. Yields what is wrong, or an empty text."""
    made: list[pathlib.Path] = []
    problem = ""
    try:
        if not (path / GOLDENS).is_dir():
            missing = [folder for folder in reversed(path.parents) if not folder.exists()]
            for folder in missing:
                folder.mkdir()
                made.append(folder)
            path.symlink_to(pack, target_is_directory=True)
            made.append(path)
    except OSError as error:
        problem = f"the tests look for their goldens in {path}, and no link could be made there: {error}"
    try:
        yield problem
    finally:
        for entry in reversed(made):
            entry.unlink() if entry.is_symlink() else entry.rmdir()


def need_bytes(config: dict, arguments) -> int:
    """Of a model's file and two recordings beside it."""
    d, layers, head_dim = config["hidden_size"], config["num_hidden_layers"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    tables = config["vocab_size"] * d * (1 if config["tie_word_embeddings"] else 2)
    layer = 2 * d * (heads + kv_heads) * head_dim + 3 * d * config["intermediate_size"]
    recorded = 4 * arguments.tokens[0] * layers * (heads + kv_heads) * head_dim
    return (tables + layers * layer) * (4 if arguments.dtype == "float32" else 2) + 2 * recorded


def scratch_parent(arguments, need: int) -> pathlib.Path:
    """Memory, if files of that size and as much again for whoever reads them have room in it."""
    if arguments.scratch:
        return arguments.scratch
    shm = pathlib.Path("/dev/shm")
    available = re.search(r"MemAvailable:\s*(\d+) kB", pathlib.Path("/proc/meminfo").read_text())
    if os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > 1.1 * need and available \
            and 1024 * int(available[1]) > 2.5 * need:
        return shm
    return pathlib.Path(tempfile.gettempdir())


# --- parts

class Check:
    """What all parts share."""

    def __init__(self, arguments, known: dict, pack: pathlib.Path, report: Report, torch_lib: pathlib.Path,
                 scratch: pathlib.Path):
        self.arguments, self.known, self.pack, self.report, self.scratch = arguments, known, pack, report, scratch
        self.facts = json.loads((pack / "pack.json").read_text())
        self.environment = dict(os.environ, PYTHONUNBUFFERED="1", HF_HUB_OFFLINE="1")
        before = os.environ.get("LD_LIBRARY_PATH")
        self.native = dict(self.environment, LD_LIBRARY_PATH=f"{torch_lib}:{before}" if before else str(torch_lib))
        self.keyscope = str(pack / "bin/keyscope")

    def part(self, name: str, kind: str, body) -> bool:
        """Runs body(part) as a part; whatever it raises is the part's failure. Returns whether it was ok."""
        part = Part(name, round(min(self.arguments.limits[kind], self.report.seconds_left()), 1))
        started = time.monotonic()
        try:
            if part.limit_s < 2:
                part.reason = "no time was left"
            else:
                part.status = "ok"
                body(part)
        except Stopped:
            part.status, part.reason = "failed", "the check was ended from outside"
            raise
        except Exception as error:  # noqa: BLE001 - one part's failure leaves the others
            part.status, part.reason = "failed", f"{type(error).__name__}: {error}"
        finally:
            part.elapsed_s = round(time.monotonic() - started, 1)
            self.report.add(part)
        return part.status == "ok"

    def run(self, part: Part, commands: list[list[str]], environments: list[dict], limit_s=None) -> list[Ended]:
        """Runs commands in the scratch folder, logs them, and lets the part say if one failed or took too long."""
        limit_s = part.limit_s if limit_s is None else limit_s
        all_ended = run_together(commands, limit_s, environments, self.scratch)
        for command, ended in zip(commands, all_ended):
            self.report.log(f"\n$ {' '.join(command)}\n{ended.stdout}{ended.stderr}"
                            f"[{'stopped' if ended.status is None else f'exit status {ended.status}'} after "
                            f"{ended.elapsed_s:.1f} s]\n")
            if ended.status is None:
                part.status, part.reason = "timeout", f"stopped after {limit_s:.0f} s"
            elif ended.status != 0 and part.status == "ok":
                part.status, part.reason = "failed", ended.last_words()
        return all_ended

    def loads(self, part: Part):
        """The programs start, with this PyTorch's LibTorch and no other."""
        for program in self.facts["bin"]:  # the engine, which is a library, among them
            listed = self.run(part, [["/lib64/ld-linux-x86-64.so.2", "--list", str(self.pack / "bin" / program)]],
                              [self.native])[0].stdout
            lacking = re.findall(r"(\S+) => not found", listed)
            found = re.search(r"libtorch_cpu\.so => (\S+)", listed)
            if lacking:
                raise RuntimeError(f"{program}: libraries that are not here: {', '.join(lacking)}")
            if program == "keyscope":  # it opens the engine only when a model computes
                continue
            if not found or not os.path.samefile(found[1], part.setting.setdefault(
                    "libtorch", str(pathlib.Path(self.native["LD_LIBRARY_PATH"].split(":")[0]) / "libtorch_cpu.so"))):
                raise RuntimeError(f"{program} would load another LibTorch: {found and found[1]}")
        part.setting["version"] = self.run(part, [[self.keyscope, "--version"]], [self.native])[0].stdout.strip()

    def tests(self, part: Part, chosen: str, n_shards: int):
        environment = dict(self.native, KEYSCOPE_TEST_DEVICE=self.arguments.device, GTEST_COLOR="no",
                           OMP_NUM_THREADS=str(max(1, len(os.sched_getaffinity(0)) // n_shards)))
        shards = [dict(environment, GTEST_TOTAL_SHARDS=str(n_shards), GTEST_SHARD_INDEX=str(i))
                  for i in range(n_shards)]
        command = [str(self.pack / "bin/inference_test"), f"--gtest_filter={chosen}"]
        with source_link(self.pack, pathlib.Path(self.facts["source_dir"])) as problem:
            if problem:
                raise RuntimeError(problem)
            all_ended = self.run(part, [command] * n_shards, shards)
        text = "\n".join(ended.stdout for ended in all_ended)
        names = {mark: set(re.findall(rf"^\[ *{mark} *\] (\w[\w/.]*)(?=, where|\s\(|$)", text, re.M))
                 for mark in ("RUN", "OK", "FAILED", "SKIPPED")}
        started, passed, failed = names["RUN"], names["OK"], names["FAILED"]
        skipped = names["SKIPPED"]
        unfinished = started - passed - failed - skipped
        part.tests = {"passed": len(passed), "failed": len(failed), "skipped": len(skipped),
                      "unfinished": len(unfinished), "failures": sorted(failed | unfinished)}
        if part.status == "ok" and not passed and self.arguments.device == "cuda":
            part.status, part.reason = "failed", "every test was skipped: check.log says why"

    def model(self, part: Part, shape: str, folder: pathlib.Path):
        config = self.scratch / f"{shape}.json"
        config.write_text(json.dumps(self.known[shape]))
        self.run(part, [[sys.executable, str(self.pack / "bench/make_random_model.py"), str(config), str(folder), "--quick",
                         "--dtype", self.arguments.dtype]], [self.environment])

    def common(self, n_tokens: int) -> list[str]:
        a = self.arguments
        return ["--device", a.device, "--dtype", a.dtype, "--budget", str(a.budget), "--block", str(a.block),
                "--tokens", str(n_tokens), "--repeat", str(a.repeat)]

    def bench(self, part: Part, what: str, folder: pathlib.Path, n_tokens: int):
        """`keyscope bench`, all policies in one process; after a failure each by itself, so that one that fails costs
        only its own figures."""
        started = time.monotonic()
        options = self.common(n_tokens) + ["--schedule", "block", "--quiet", "--json", "-"]
        if what == "prefill":
            options += ["--generate", str(self.arguments.generate)]

        def measure(policies: list[str]) -> Ended:
            chosen = [word for policy in policies for word in ("--policy", policy)]
            left = part.limit_s - (time.monotonic() - started)
            ended = self.run(part, [[self.keyscope, "bench", what, "--model", str(folder), *chosen, *options]],
                             [self.native], left)[0]
            if ended.status == 0:
                result = json.loads(ended.stdout)
                part.setting = {key: value for key, value in result.items() if key not in ("rows", "model")}
                part.rows += [{"tool": "keyscope"} | {k: v for k, v in row.items() if v is not None}
                              for row in result["rows"]]
            return ended

        if measure(self.arguments.policies).status in (0, None) or len(self.arguments.policies) == 1:
            return
        failures = []
        for policy in self.arguments.policies:
            if part.status == "timeout":
                break
            ended = measure([policy])
            if ended.status not in (0, None):
                failures.append(f"{policy}: {ended.last_words()}")
        if part.status == "failed":
            part.reason = "; ".join(failures) or f"{part.reason} (each policy by itself: no failure)"

    def memory(self, part: Part, folder: pathlib.Path):
        """What prompts of several lengths take at most, when only so many rows are kept."""
        a = self.arguments
        ended = self.run(part, [[self.keyscope, "bench", "memory", "--model", str(folder), "--device", a.device, "--dtype",
                                 a.dtype, "--policy", "keydiff", "--budget", str(MEMORY_BUDGET), "--block", str(a.block),
                                 "--tokens", a.memory_tokens, "--quiet", "--json", "-"]], [self.native])[0]
        if ended.status == 0:
            part.rows = [{"tool": "keyscope"} | {k: v for k, v in row.items() if v is not None}
                         for row in json.loads(ended.stdout)["rows"]]

    def peer(self, part: Part, tool: str, folder: pathlib.Path, n_tokens: int):
        environment = dict(self.environment)
        if tool == "kvpress":  # the wheels carried for it, before the machine's own packages
            before = os.environ.get("PYTHONPATH")
            environment["PYTHONPATH"] = str(self.pack / "site") + (f":{before}" if before else "")
        threads = ["--threads", str(len(os.sched_getaffinity(0)))]
        ended = self.run(part, [[sys.executable, str(self.pack / "tools/gpu/peer.py"), tool, str(folder), *self.common(n_tokens),
                                 "--generate", str(self.arguments.generate), *threads]], [environment])[0]
        rows, failures = {}, []
        for line in ended.stdout.splitlines():
            with contextlib.suppress(ValueError):
                message = json.loads(line)
                if "row" in message:
                    row = message["row"]
                    rows[row["policy"], row["block"], "recorded_ms" in row] = row
                elif "absent" in message:
                    part.status, part.reason = "absent", message["absent"]
                elif "failed" in message:
                    failures.append(message["failed"])
        part.rows = list(rows.values())
        if failures:
            part.reason = "; ".join(failures)

    def shape(self, shape: str):
        """All parts of one model, which is there only as long."""
        folder = self.scratch / shape
        try:
            made = self.part(f"{shape}/model", "model", lambda part: self.model(part, shape, folder))
            parts = []
            for n in self.arguments.tokens:
                parts += [(f"prefill {n}", "prefill", lambda part, n=n: self.bench(part, "prefill", folder, n)),
                          (f"transformers {n}", "transformers", lambda part, n=n: self.peer(part, "transformers", folder, n)),
                          (f"kvpress {n}", "kvpress", lambda part, n=n: self.peer(part, "kvpress", folder, n))]
            parts.insert(1, ("capture", "capture",
                             lambda part: self.bench(part, "capture", folder, self.arguments.tokens[0])))
            if shape == self.arguments.shapes[0]:
                parts.append(("memory", "memory", lambda part: self.memory(part, folder)))
            for name, kind, body in parts:
                if made:
                    self.part(f"{shape}/{name}", kind, body)
                else:
                    self.report.add(Part(f"{shape}/{name}", 0, reason="there is no model"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def all(self):
        if not self.part("loads", "loads", self.loads):
            return
        n_shards = max(1, min(4, len(os.sched_getaffinity(0)) // 2))
        self.part("device tests", "device tests", lambda part: self.tests(part, ON_DEVICE, 1))
        self.part("engine tests", "engine tests", lambda part: self.tests(part, "-" + ON_DEVICE, n_shards))
        for shape in self.arguments.shapes:
            self.shape(shape)


SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def end_from_outside(*_):
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # once is enough: what follows cleans up
    raise Stopped


def main() -> int:
    arguments, known = parse()
    for number in SIGNALS:
        signal.signal(number, end_from_outside)
    pack = (arguments.pack or HERE.parents[1]).resolve()
    packed, here = json.loads((pack / "pack.json").read_text()), machine()
    spec = importlib.util.find_spec("torch")
    torch_lib = pathlib.Path(spec.submodule_search_locations[0]) / "lib" if spec else None
    need = max(need_bytes(known[shape], arguments) for shape in arguments.shapes)
    parent = scratch_parent(arguments, need)
    options = {name: getattr(arguments, name) for name in
               ("device", "shapes", "policies", "dtype", "tokens", "budget", "block", "generate", "repeat")}
    kept = {key: packed[key] for key in ("version", "commit", "torch", "glibc", "wheels")}
    facts = {"options": options | {"scratch": str(parent)}, "machine": here, "pack": kept}
    report = Report(arguments.out.resolve(), facts, arguments.limit)
    report.say(f"{packed['version']} ({packed['commit']}) on {here['gpu'] or here['cpu']}; PyTorch {here['torch']}, "
               f"Transformers {here['transformers'] or 'absent'}, glibc {here['glibc']}; files in {parent}")
    problem = why_not(packed, here, arguments.device, torch_lib)
    if problem:
        report.add(Part("loads", 0, "failed", problem))
        report.finish()
        return 2
    try:
        with tempfile.TemporaryDirectory(prefix="keyscope-check-", dir=parent, ignore_cleanup_errors=True) as scratch:
            Check(arguments, known, pack, report, torch_lib, pathlib.Path(scratch)).all()
            report.finish()
    except Stopped:
        report.say("ended from outside")
    report.say("\n" + table(report) + f"\n\n{report.path}")
    return 0 if report.finished and report.ok() else 1


if __name__ == "__main__":
    sys.exit(main())
