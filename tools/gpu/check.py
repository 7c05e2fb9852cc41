#!/usr/bin/env python3
"""Checks Keyscope on this machine: the engine's tests, then prefill, decoding and recording of models of true shape
with random weights, in turns with Transformers and kvpress, against targets. check.sh starts it; README.md says what
check.json holds.

Runs inside what pack.sh packed, by the Python whose PyTorch is the LibTorch to load. Every part has a time limit of its
own and leaves its figures whatever becomes of the others. Exit status: 0 if every part that can run here succeeded,
whether targets were met or not, 1 if one did not, 2 if nothing could be started.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator

from host import (
    cache_bytes_per_token,
    device_numbers,
    machine,
    need_bytes,
    scratch_parent,
    source_link,
    visible_to_peers,
    why_not,
)
from processes import Ended, Served, run_together, stop
from report import Part, Report, table
from turns import ROUNDS, WARM_UP, Load, Peer, Table, fits_another

HERE = pathlib.Path(__file__).resolve().parent
ON_DEVICE = "*OnCuda*:Cuda.*"  # the tests that compare a GPU with the CPU; all others run on either
LIMITS_S = {"loads": 60, "device tests": 90, "engine tests": 150, "model": 60, "prefill": 330, "capture": 75,
            "memory": 120, "recording": 75}
# Whose turns alternate with Keyscope's under a policy, and how many samples a round of theirs has, as many as peer.py
# has cases: Transformers has KeyDiff as one writes it, kvpress has presses.
PEERS = {"none": {"transformers": 2}, "keydiff": {"transformers": 1, "kvpress": 3}, "snapkv": {"kvpress": 1},
         "h2o": {"kvpress": 1}}
FIRST = "keydiff"  # the policy whose times have a target; all others come after every shape's
RECORDED_TOKENS = 8192  # at most so many are recorded, unless told otherwise
SECONDS_TO_START = 5  # of a program, where nothing better is known
WARM_UP_SHARE = 1 / 3  # of a part's limit, in which its peers must have loaded and warmed up
# What a round of `bench capture` may take, in samples without recording: one, and one with it, which may take four
# times as long.
SAMPLES_PER_CAPTURE = 5


class Stopped(Exception):
    """Somebody ended this check before its time."""


def device(text: str) -> str:
    if not re.fullmatch(r"cpu|cuda(:\d+(,\d+)*)?", text):
        raise argparse.ArgumentTypeError(f"{text} is neither cpu nor cuda, cuda:1, cuda:0,1")
    return text


def lengths(text: str) -> list[int]:
    return sorted(int(n) for n in text.split(","))


def parse():
    parser = argparse.ArgumentParser(prog="check.sh", description=__doc__.split("\n\n")[0])
    parser.add_argument("--pack", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--device", default="cuda", type=device,
                        help="cpu, cuda, cuda:1, or several GPUs by layers: cuda:0,1, whose first has the peers "
                        "(default cuda)")
    parser.add_argument("--shapes", default="1b,3b,8b", help="of shapes.json: tiny, 1b, 3b, 8b")
    parser.add_argument("--policies", default="none,keydiff,snapkv,h2o")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"))
    parser.add_argument("--tokens", default="8192,32768", help="of the prompts (default 8192,32768)")
    parser.add_argument("--capture-tokens", help="of the prompts that are recorded (default: those of --tokens up to "
                        f"{RECORDED_TOKENS}, or the shortest)")
    parser.add_argument("--memory-tokens", default="32768,131072", help="of the prompts whose memory is measured "
                        "(default 32768,131072)")
    for option, default, what in (("budget", 2048, "rows kept per KV head"),
                                  ("memory-budget", 8192, "rows kept where memory is measured"),
                                  ("block", 128, "prompt tokens per block"), ("generate", 17, "tokens after it"),
                                  ("turns", 3, f"turns of {ROUNDS} rounds that Keyscope and its peers take"),
                                  ("repeat", 6, "rounds with and without recording")):
        parser.add_argument("--" + option, type=int, default=default, help=f"{what} (default {default})")
    parser.add_argument("--skip", default="", metavar="KIND,…", help=f"leave out parts of kinds: {', '.join(LIMITS_S)}")
    parser.add_argument("--limit", type=float, default=465, help="seconds for everything (default 465)")
    parser.add_argument("--part-limit", action="append", default=[], metavar="KIND=SECONDS",
                        help=f"seconds for each part of a kind: {', '.join(LIMITS_S)}")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-check-results"),
                        help="folder for check.json and check.log (default gpu-check-results)")
    parser.add_argument("--scratch", type=pathlib.Path,
                        help="folder for models and recordings (default: memory if it suffices, else a temporary one)")
    arguments = parser.parse_args()
    arguments.shapes, arguments.policies = arguments.shapes.split(","), arguments.policies.split(",")
    arguments.tokens, arguments.memory_tokens = lengths(arguments.tokens), lengths(arguments.memory_tokens)
    arguments.capture_tokens = lengths(arguments.capture_tokens) if arguments.capture_tokens else (
        [n for n in arguments.tokens if n <= RECORDED_TOKENS] or arguments.tokens[:1])
    arguments.skip = arguments.skip.split(",") if arguments.skip else []
    known = json.loads((HERE / "shapes.json").read_text())
    for shape in arguments.shapes:
        if shape not in known:
            parser.error(f"--shapes: {shape} is none of {', '.join(known)}")
    for policy in arguments.policies:
        if policy not in PEERS:
            parser.error(f"--policies: {policy} is none of {', '.join(PEERS)}")
    for kind in arguments.skip:
        if kind not in LIMITS_S:
            parser.error(f"--skip: {kind} is none of {', '.join(LIMITS_S)}")
    arguments.limits = dict(LIMITS_S)
    for setting in arguments.part_limit:
        kind, _, seconds = setting.partition("=")
        if kind not in LIMITS_S or not re.fullmatch(r"[0-9.]+", seconds):
            parser.error(f"--part-limit {setting}: expected KIND=SECONDS, KIND one of {', '.join(LIMITS_S)}")
        arguments.limits[kind] = float(seconds)
    return arguments, known


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
        self.sample_s: dict[tuple[str, int], float] = {}  # of a shape and prompt: what reading it once takes
        self.start_s: dict[str, float] = {}  # of a shape: what starting Keyscope takes, and loading

    def part(self, name: str, kind: str, body) -> bool:
        """Runs body(part) as a part; whatever it raises is the part's failure. Returns whether it was ok or skipped."""
        if kind in self.arguments.skip:
            return True
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
        if part.status == "ok" and not passed and self.arguments.device != "cpu":
            part.status, part.reason = "failed", "every test was skipped: check.log says why"

    def model(self, part: Part, shape: str, folder: pathlib.Path):
        config = self.scratch / f"{shape}.json"
        config.write_text(json.dumps(self.known[shape]))
        self.run(part, [[sys.executable, str(self.pack / "bench/make_random_model.py"), str(config), str(folder),
                         "--quick", "--dtype", self.arguments.dtype]], [self.environment])

    def common(self, n_tokens: int) -> list[str]:
        a = self.arguments
        return ["--dtype", a.dtype, "--budget", str(a.budget), "--block", str(a.block), "--tokens", str(n_tokens)]

    def bench(self, part: Part, what: str, folder: pathlib.Path, policy: str, options: list[str],
              limit_s: float) -> tuple[dict, Ended]:
        """What a `keyscope bench` of one policy says; nothing where it fails or takes longer."""
        command = [self.keyscope, "bench", what, "--model", str(folder), "--policy", policy, "--device",
                   self.arguments.device, *options, "--quiet", "--json", "-"]
        ended = self.run(part, [command], [self.native], limit_s)[0]
        return (json.loads(ended.stdout) if ended.status == 0 else {}), ended

    @contextlib.contextmanager
    def serve(self, tool: str, folder: pathlib.Path, n_tokens: int, policy: str) -> Iterator[Served]:
        """A peer that waits for its turns; what it answers is logged by who listens, its errors at its end."""
        command, environment = self.peer(tool, folder, n_tokens, policy)
        self.report.log(f"\n$ {' '.join(command)}")
        with Served(command, environment, self.scratch) as served:
            try:
                yield served
            finally:
                stop(served.process)
                self.report.log(f"\n[standard error of {tool}]\n{served.error_text()}")

    def peer(self, tool: str, folder: pathlib.Path, n_tokens: int, policy: str) -> tuple[list[str], dict]:
        environment = dict(self.environment)
        if tool == "kvpress":  # the wheels carried for it, before the machine's own packages
            before = os.environ.get("PYTHONPATH")
            environment["PYTHONPATH"] = str(self.pack / "site") + (f":{before}" if before else "")
        visible = visible_to_peers(self.arguments.device)
        if visible is not None:
            environment["CUDA_VISIBLE_DEVICES"] = visible
        return [sys.executable, str(self.pack / "tools/gpu/peer.py"), tool, str(folder), "--policy", policy, "--device",
                self.arguments.device.partition(":")[0], *self.common(n_tokens), "--generate",
                str(self.arguments.generate), "--threads", str(len(os.sched_getaffinity(0)))], environment

    def prefill(self, part: Part, shape: str, folder: pathlib.Path, policy: str, n_tokens: int):
        """Keyscope and the peers of a policy in turns, as many as the limit has room for."""
        deadline = time.monotonic() + part.limit_s
        warm_by = time.monotonic() + WARM_UP_SHARE * part.limit_s
        taken, load = Table(), Load()
        part.setting = {"peers": list(PEERS[policy]), "rounds_per_turn": ROUNDS, "turns": 0}
        peers: list[Peer] = []
        with contextlib.ExitStack() as stack:
            for tool in PEERS[policy]:  # all load and warm up at the same time
                served = stack.enter_context(self.serve(tool, folder, n_tokens, policy))
                peers.append(Peer(tool, served, self.report.log))
            for peer in peers:
                peer.warm_up(warm_by, taken)
            load.look()
            of_peers = sum(PEERS[policy][peer.tool] for peer in peers if peer.alive)
            last_s = self.expected_s(shape, n_tokens, 1, WARM_UP + (1 + of_peers) * ROUNDS)
            for turn in range(self.arguments.turns):
                if part.status != "ok" or not fits_another(last_s, deadline):
                    break
                started = time.monotonic()
                everyone = [None, *peers]
                for peer in reversed(everyone) if turn % 2 else everyone:
                    if peer is None:
                        self.keyscope_turn(part, shape, folder, policy, n_tokens, turn, taken, deadline)
                    elif peer.alive:
                        peer.take(turn, deadline, taken)
                    load.look()
                    complete = part.status == "ok" and time.monotonic() < deadline
                    if not complete:  # Keyscope has failed, or somebody took all the time that was left
                        break
                last_s = time.monotonic() - started
                part.setting |= {"turns": part.setting["turns"] + complete, "load": load.most,
                                 "processors": load.processors}
                part.rows = taken.rows()
                self.report.save(part)
        self.say_how_it_went(part, peers)

    def keyscope_turn(self, part: Part, shape: str, folder: pathlib.Path, policy: str, n_tokens: int, turn: int,
                      taken: Table, deadline: float):
        result, ended = self.bench(part, "prefill", folder, policy, [
            *self.common(n_tokens), "--schedule", "block", "--generate", str(self.arguments.generate), "--repeat",
            str(WARM_UP + ROUNDS)], deadline - time.monotonic())
        for row in result.get("rows", []):
            taken.add_keyscope(turn, row)
            part.setting |= {key: value for key, value in result.items() if key not in ("rows", "model", "ratios")}
            generating = self.arguments.generate / row["generated_per_second"] if row["generated_per_second"] else 0
            self.sample_s[shape, n_tokens] = row["ttft_ms"] / 1e3 + generating
            self.start_s[shape] = max(0, ended.elapsed_s - (WARM_UP + ROUNDS) * self.sample_s[shape, n_tokens])

    def say_how_it_went(self, part: Part, peers: list[Peer]):
        n_turns, wanted = part.setting["turns"], self.arguments.turns
        notes = [note for peer in peers for note in peer.notes]
        if part.status == "ok" and any(peer.failed for peer in peers):
            part.status = "failed"
        elif part.status == "ok" and (n_turns < wanted or any(peer.stopped for peer in peers)):
            part.status = "timeout"
        if n_turns < wanted:
            notes.insert(0, f"{n_turns} of {wanted} turns")
        if device_numbers(self.arguments.device)[1:]:
            notes.append("peers on the first GPU alone")
        part.reason = "; ".join([part.reason] * bool(part.reason) + notes)

    def expected_s(self, shape: str, n_tokens: int, n_starts: int, n_samples: int) -> float:
        """What so many starts and samples may take; little where nothing is known."""
        start_s = self.start_s.get(shape, SECONDS_TO_START)
        return n_starts * start_s + n_samples * self.expected_sample_s(shape, n_tokens)

    def expected_sample_s(self, shape: str, n_tokens: int) -> float:
        """What reading a prompt once takes: as measured, or in proportion to a shorter one; 0 where none was."""
        known = [n for of_shape, n in self.sample_s if of_shape == shape and n <= n_tokens]
        return self.sample_s[shape, max(known)] * n_tokens / max(known) if known else 0

    def capture(self, part: Part, shape: str, folder: pathlib.Path, policy: str, n_tokens: int):
        """What recording adds, in as many rounds as the limit has room for; figures come only after the last."""
        round_s = SAMPLES_PER_CAPTURE * self.expected_sample_s(shape, n_tokens)
        room = part.limit_s - self.expected_s(shape, n_tokens, 1, 0) - round_s  # of which as much for warming up
        repeat = self.arguments.repeat if round_s == 0 else max(1, min(self.arguments.repeat, int(room / round_s)))
        result, _ = self.bench(part, "capture", folder, policy, [
            *self.common(n_tokens), "--schedule", "block", "--repeat", str(repeat)], part.limit_s)
        part.setting = {key: value for key, value in result.items() if key not in ("rows", "model")}
        part.rows = [{"tool": "keyscope", "repeat": repeat} | {k: v for k, v in row.items() if v is not None}
                     for row in result.get("rows", [])]
        if part.status == "ok" and repeat < self.arguments.repeat:
            part.status, part.reason = "timeout", f"{repeat} of {self.arguments.repeat} rounds fit into its limit"

    def memory(self, part: Part, folder: pathlib.Path):
        """What prompts of several lengths take at most, when only so many rows are kept: a process for each."""
        a, deadline = self.arguments, time.monotonic() + part.limit_s
        for n_tokens in a.memory_tokens:
            result, _ = self.bench(part, "memory", folder, FIRST, [
                "--dtype", a.dtype, "--budget", str(a.memory_budget), "--block", str(a.block), "--tokens",
                str(n_tokens)], deadline - time.monotonic())
            part.rows += [{"tool": "keyscope"} | {k: v for k, v in row.items() if v is not None}
                          for row in result.get("rows", [])]
            if part.status != "ok":
                part.reason = f"{n_tokens} tokens: {part.reason}"
                break

    def recording_peer(self, part: Part, folder: pathlib.Path, n_tokens: int):
        """What output_attentions of Transformers adds, of as many rounds as there is time for."""
        command, environment = self.peer("recording", folder, n_tokens, "none")
        ended = self.run(part, [[*command, "--repeat", str(self.arguments.repeat)]], [environment])[0]
        taken, notes = Table(), []
        for line in ended.stdout.splitlines():
            with contextlib.suppress(ValueError):
                message = json.loads(line)
                if "sample" in message:
                    taken.add_peer(0, message["sample"])
                elif "done" not in message:
                    part.status = "absent" if "absent" in message else part.status
                    notes += message.values()
        part.rows = taken.rows()
        part.reason = "; ".join(notes) or part.reason

    def targets_of(self, shape: str, folder: pathlib.Path) -> list[tuple]:
        """Parts with a target, those of short prompts first: name, kind and body of each."""
        a, parts = self.arguments, []
        for n in sorted({*a.tokens, *a.capture_tokens}):
            if n in a.tokens and FIRST in a.policies:
                parts.append((f"{FIRST} {n}", "prefill",
                              lambda part, n=n: self.prefill(part, shape, folder, FIRST, n)))
            if n in a.capture_tokens:
                parts += [(f"capture {policy} {n}", "capture",
                           lambda part, n=n, policy=policy: self.capture(part, shape, folder, policy, n))
                          for policy in ("none", FIRST) if policy in a.policies]
        if shape == a.shapes[0]:
            parts.append(("memory", "memory", lambda part: self.memory(part, folder)))
        return parts

    def others_of(self, shape: str, folder: pathlib.Path) -> list[tuple]:
        a = self.arguments
        parts = [(f"{policy} {n}", "prefill",
                  lambda part, n=n, policy=policy: self.prefill(part, shape, folder, policy, n))
                 for n in a.tokens for policy in a.policies if policy != FIRST]
        return parts + [(f"recording {n}", "recording", lambda part, n=n: self.recording_peer(part, folder, n))
                        for n in a.capture_tokens]

    def shape(self, shape: str, parts_of, again: str = ""):
        """Parts of one model, which is there only as long."""
        folder = self.scratch / shape
        parts = [part for part in parts_of(shape, folder) if part[1] not in self.arguments.skip]
        if not parts:
            return
        try:
            made = self.part(f"{shape}/model{again}", "model", lambda part: self.model(part, shape, folder))
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
            self.shape(shape, self.targets_of)
        for shape in self.arguments.shapes:  # with the time that is left
            self.shape(shape, self.others_of, " again")


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
               ("device", "shapes", "policies", "dtype", "tokens", "capture_tokens", "memory_tokens", "budget",
                "memory_budget", "block", "generate", "turns", "repeat", "skip")}
    kept = {key: packed[key] for key in ("version", "commit", "torch", "glibc", "wheels")}
    facts = {"options": options | {"scratch": str(parent)}, "machine": here, "pack": kept}
    per_token = {shape: cache_bytes_per_token(known[shape], arguments.dtype) for shape in arguments.shapes}
    report = Report(arguments.out.resolve(), facts, arguments.limit, per_token)
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
