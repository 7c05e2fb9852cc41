#!/usr/bin/env python3
"""Fails or kills every command that writes at each of its system calls, and looks at what is left: older outputs as they
were, new ones whole and all there or none, one sentence, and a second run that ends as if nothing had happened.

    tools/proof/faults.py build/release/keyscope                       # every case, errors and kills
    tools/proof/faults.py build/release/keyscope --case eval-niah --attack errors --only fsync:3
    tools/proof/faults.py build/release/keyscope --attack random --random-kills 300

Needs strace. A call is counted in each thread by itself, as strace does: the n-th is failed in every thread that has
one. Of calls on files only those in the command's folder are tried, of others all that follow the beginning of `main`;
of more than --most of a kind the first --most, and as many of the others, evenly.
"""

import argparse
import collections
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import fault_cases
from fault_cases import Case

SECONDS = 60  # after which a command hangs
ON_FILES = {"openat": "ENOSPC", "write": "ENOSPC", "writev": "ENOSPC", "pwrite64": "ENOSPC", "fallocate": "ENOSPC",
            "ftruncate": "EIO", "fsync": "EIO", "fdatasync": "EIO", "rename": "EIO", "renameat2": "EIO",
            "link": "EIO", "unlink": "EIO", "unlinkat": "EIO", "mkdir": "ENOSPC"}
ON_MEMORY = {"mmap": "ENOMEM", "clone": "EAGAIN", "clone3": "EAGAIN", "vfork": "EAGAIN"}
ERRORS = ON_FILES | ON_MEMORY
OWN_PART = re.compile(r"\.[0-9a-f]{12}-\d+-\d+\.part$")
WORKERS_PART = re.compile(r"/\.([0-9a-f]+\.json)\.[^/]+$")
LEFT_BY_A_KILL = "left by a capture that was killed"
IS_THERE = ": exists already; choose another name"


@dataclasses.dataclass
class Ran:
    status: int  # negative: ended by that signal
    said: str
    hangs: bool = False

    def sentences(self) -> list[str]:
        return [line for line in self.said.splitlines()
                if line.startswith("keyscope: ") and not line.startswith("keyscope: warning: ")]


@dataclasses.dataclass
class Reference:
    """What an unbroken run leaves, and which of it is the same in another one."""

    files: dict[str, bytes]
    outputs: list[str]
    timed: set[str]
    proof: bytes
    seconds: float


class Bench:
    """A folder in which one command after another is run and broken."""

    def __init__(self, keyscope: pathlib.Path, scratch: pathlib.Path) -> None:
        self.keyscope = keyscope.resolve()
        self.materials = scratch / "materials"
        self.folder = scratch / "work"
        scratch.mkdir(parents=True)  # a new one: it is removed at the end
        fault_cases.make_materials(self.keyscope, self.materials)
        # The plans say where they lie.
        for plan in self.materials.glob("*/plan.json"):
            plan.write_text(plan.read_text().replace(str(self.materials), str(self.folder)))
        self.environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}

    def lay_out(self, case: Case, older: dict[str, bytes]) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        for name in case.needs:
            there = self.materials / name
            if there.is_dir():
                shutil.copytree(there, self.folder / name)
            else:
                shutil.copy(there, self.folder / name)
        for name, held in older.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(held)

    def files(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.folder)): path.read_bytes()
                for path in sorted(self.folder.rglob("*")) if path.is_file()}

    def run(self, words: str, under: str = "", seconds: float = SECONDS) -> Ran:
        process = subprocess.Popen(f"exec {under} {self.keyscope} {words}", shell=True, cwd=self.folder,
                                   env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, start_new_session=True)
        try:
            said = process.communicate(timeout=seconds)[1]
            return Ran(process.returncode, said.decode(errors="replace"))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return Ran(-signal.SIGKILL, process.communicate()[1].decode(errors="replace"), True)

    def reference(self, case: Case, words: str) -> Reference:
        runs, proofs, seconds = [], [], 0.0
        for number in range(2):
            time.sleep(number)  # what holds a time, in seconds, shall differ
            self.lay_out(case, {})
            before = set(self.files())
            began = time.monotonic()
            ran = self.run(words)
            seconds = time.monotonic() - began
            if ran.status != 0:
                raise Unfit(f"cannot be run at all: {ran.said}")
            runs.append(self.files())
            proofs.append(self.proof(case))
        if proofs[0] != proofs[1]:
            raise Unfit("its proof differs from run to run")
        new = [name for name in runs[0] if name not in before]
        timed = {name for name in new if runs[0][name] != runs[1].get(name)}
        return Reference(runs[1], [name for name in new if not case.is_state(name)], timed, proofs[0], seconds)

    def proof(self, case: Case) -> bytes:
        if not case.proof:
            return b""
        file = self.folder / "proof.h5"
        ran = self.run(case.proof)
        held = file.read_bytes() if file.exists() else ran.said.encode()
        file.unlink(missing_ok=True)
        return held


def calls_of(bench: Bench, words: str) -> dict[str, list[int]]:
    """Which calls of each kind are worth breaking, counted from 1 in their threads."""
    log = bench.folder.parent / "calls"
    bench.run(words, f"strace -f -y -qq --seccomp-bpf -o {log} -e trace={','.join(ERRORS)},rt_sigprocmask")
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    found: dict[str, set[int]] = collections.defaultdict(set)
    loader: dict[str, int] = {}  # the calls of each kind before main, whose failures are not the program's
    for line in log.read_text(errors="replace").splitlines():
        begun = re.match(r"(\d+) +(\w+)\((.*)", line)
        if not begun:
            continue
        thread, call, arguments = begun.groups()
        if call == "rt_sigprocmask":
            if not loader and arguments.startswith("SIG_BLOCK, [INT TERM]"):
                loader = {call: counts[thread, call] for call in ERRORS}
            continue
        counts[thread, call] += 1
        number = counts[thread, call]
        if loader and number > loader[call] and (call in ON_MEMORY or touches(arguments, str(bench.folder))):
            found[call].add(number)
    if not found:
        raise Unfit("no call of it is seen, so that none can be broken: does strace work here?")
    return {call: sorted(numbers) for call, numbers in found.items()}


def touches(arguments: str, folder: str) -> bool:
    """Whether a call is about a file below a folder, the working one."""
    named = re.match(r'(?:AT_FDCWD<[^>]*>, )?"([^"]*)"', arguments)
    if named:
        return not named[1].startswith("/") or named[1].startswith(folder)
    opened = re.match(r"\d+<([^>]*)>", arguments)
    return bool(opened) and opened[1].startswith(folder)


def without_texts(value: object) -> object:
    """The same with every text blank: times and places are texts that differ from run to run."""
    if isinstance(value, dict):
        return {name: without_texts(held) for name, held in value.items()}
    if isinstance(value, list):
        return [without_texts(held) for held in value]
    return "" if isinstance(value, str) else value


def some_of(numbers: list[int], most: int) -> list[int]:
    rest = numbers[most:]
    return numbers[:most] + rest[::max(1, -(-len(rest) // most))]


def plain(name: str) -> str:
    """A file's name without the process that it belongs to."""
    return WORKERS_PART.sub(r"/.\1.OWN", OWN_PART.sub(".OWN.part", name))


class Judge:
    """Says what is wrong with what a broken run of one case left."""

    def __init__(self, bench: Bench, case: Case, older: bool) -> None:
        self.bench, self.case = bench, case
        self.words = case.words + (f" {case.force}" if older else "")
        self.reference = bench.reference(case, self.words)
        self.older = {}
        if older:
            self.older = {name: held for name, held in self.reference.files.items() if case.is_state(name)}
            self.older |= {name: f"older {name}\n".encode() for name in self.reference.outputs}
        self.judged: dict[str, list[str]] = {}  # by what lay in the folder

    def lay_out(self) -> None:
        self.bench.lay_out(self.case, self.older)

    def same_kind(self, name: str, held: bytes) -> bool:
        """Whether this is what an unbroken run makes of a file."""
        expected = self.reference.files[name]
        if held == expected:
            return True
        if name not in self.reference.timed or not fault_cases.is_whole(self.bench.keyscope, self.bench.folder / name):
            return False
        return not name.endswith(".json") or \
            without_texts(fault_cases.shape(json.loads(held))) == without_texts(fault_cases.shape(json.loads(expected)))

    def of_outputs(self, after: dict[str, bytes], ended: str) -> list[str]:
        """ended: "done", "failed" or "killed"."""
        wrong, new = [], set()
        for name in self.reference.outputs:
            was, held = self.older.get(name), after.get(name)
            if held == was:
                continue
            if held is None:
                wrong.append(f"{name} is gone")
            elif self.same_kind(name, held):
                new.add(name)
            else:
                wrong.append(f"{name} is damaged")
        missing = set(self.reference.outputs) - new
        if ended == "done" and missing:
            wrong.append(f"done, without {sorted(missing)}")
        if ended == "failed" and new:
            wrong.append(f"failed, but new are {sorted(new)}" + (f", not {sorted(missing)}" if missing else ""))
        if ended == "killed" and self.case.last in new and missing:
            wrong.append(f"{self.case.last} is new, not {sorted(missing)}")
        return wrong

    def of_ending(self, ran: Ran, killed: bool) -> list[str]:
        if ran.hangs:
            return ["hangs"]
        if killed and ran.status in (-signal.SIGKILL, 0, 1):
            return []
        if ran.status not in (0, 1):
            return [f"ends with {ran.status}: {ran.said.strip()[-200:]}"]
        if ran.status == 1 and len(ran.sentences()) != 1:
            return [f"says {ran.said.strip()[-200:]!r}"]
        return []

    def of_second_run(self, failed: bool) -> list[str]:
        """What the same command, unbroken, makes of what is left."""
        ran = self.bench.run(self.words)
        if ran.status == 1 and IS_THERE in ran.said and not failed:
            ran = self.bench.run(f"{self.words} --force")
        if ran.status == 1 and LEFT_BY_A_KILL in ran.said:
            part = next(self.bench.folder.rglob("*.h5.part"))
            if self.bench.run(f"inspect {part}").status != 0:
                return [f"{part.name} of a killed run cannot be read"]
            ran = self.bench.run(f"{self.words} --force")
        if ran.status != 0:
            return [f"run again, it ends with {ran.status}: {ran.said.strip()[-300:]}"]
        after = self.bench.files()
        wrong = [f"run again, it: {what}" for what in self.of_outputs(after, "done")]
        wrong += [f"run again, {name} is not what it was" for name in self.reference.files
                  if self.case.is_state(name) and not self.case.proof and
                  (name not in after or not self.same_kind(name, after[name]))]
        if self.case.proof and self.bench.proof(self.case) != self.reference.proof:
            wrong.append("run again, its proof differs")
        return wrong if self.case.proof else wrong + self.of_litter(after)

    def of_litter(self, after: dict[str, bytes]) -> list[str]:
        litter = {name for name in after if name not in self.reference.files and not self.case.is_state(name)}
        return [f"litter: {sorted(litter)}"] if litter else []

    def complaints(self, ran: Ran, killed: bool) -> list[str]:
        after = self.bench.files()
        ended = "done" if ran.status == 0 else "killed" if killed else "failed"
        wrong = self.of_ending(ran, killed) + self.of_outputs(after, ended)
        left = hashlib.sha256(repr([ended, *((plain(name), held) for name, held in sorted(after.items()))]).encode()).hexdigest()
        if left not in self.judged:
            self.judged[left] = self.of_second_run(ended == "failed")
        wrong = wrong + self.judged[left]
        return wrong + [f"it said {ran.said.strip()[-200:]!r}"] if wrong and ran.said else wrong


class Unfit(Exception):
    """A case that says nothing, as it ends differently without any attack."""


class Table:
    """Tries and failures by attack and case."""

    def __init__(self) -> None:
        self.tries: collections.Counter[tuple[str, str]] = collections.Counter()
        self.failures: collections.Counter[tuple[str, str]] = collections.Counter()

    def add(self, attack: str, case: str, wrong: list[str], command: str) -> None:
        self.tries[attack, case] += 1
        if wrong:
            self.failures[attack, case] += 1
            print(f"{attack} {case}: {'; '.join(wrong)}\n    {command}", flush=True)

    def show(self) -> None:
        print(f"{'attack':8} {'case':26} {'tries':>6} {'survived':>8}")
        for attack, case in self.tries:
            n = self.tries[attack, case]
            print(f"{attack:8} {case:26} {n:6} {n - self.failures[attack, case]:8}")


def break_calls(bench: Bench, judge: Judge, attack: str, table: Table, asked: argparse.Namespace, older: bool) -> None:
    judge.lay_out()
    calls = calls_of(bench, judge.words)
    if asked.only:
        call, number = asked.only.split(":")
        calls = {call: [int(number)]}
    for call, numbers in calls.items():
        for number in some_of(numbers, asked.most):
            what = f"error={ERRORS[call]}" if attack == "errors" else "signal=KILL"
            judge.lay_out()
            ran = bench.run(judge.words, f"strace -f -qq --seccomp-bpf -o /dev/null -e trace={call}"
                            f" -e inject={call}:{what}:when={number}")
            wrong = judge.complaints(ran, attack == "kills")
            name = judge.case.name + (" (older)" if older else "")
            table.add(attack, name, wrong, f"{sys.argv[0]} {asked.keyscope} --case {judge.case.name} --attack {attack}"
                      f"{' --older yes' if older else ' --older no'} --only {call}:{number}")


def kill_at_random(bench: Bench, judges: list[Judge], table: Table, asked: argparse.Namespace) -> None:
    """Up to three kills of one command in one folder, at any moment, before it is left alone."""
    for number in range(asked.random_kills):
        draw = random.Random(f"{asked.seed} {number}")
        judge = draw.choice(judges)
        judge.lay_out()
        moments = [draw.uniform(0, judge.reference.seconds) for _ in range(draw.randint(1, 3))]
        name = judge.case.name + (" (older)" if judge.older else "")
        wrong = []
        for moment in moments:
            ran = bench.run(judge.words, seconds=moment)
            ran.hangs = False
            if ran.status == 1 and (LEFT_BY_A_KILL in ran.said or IS_THERE in ran.said):
                ran = Ran(-signal.SIGKILL, "")  # of what the kills before it have left
            wrong += judge.of_ending(ran, True) + judge.of_outputs(bench.files(), "done" if ran.status == 0 else "killed")
        wrong += judge.complaints(ran, True)
        table.add("random", name, wrong, f"killed after {moments} s (seed {asked.seed}, number {number})")


def attack_all(bench: Bench, cases: list[Case], olders: list[bool], table: Table, asked: argparse.Namespace) -> None:
    at_random = []
    for case in cases:
        for older in olders:
            try:
                judge = Judge(bench, case, older)
            except Unfit as why:
                table.add("none", case.name, [str(why)], f"{sys.argv[0]} {asked.keyscope} --case {case.name}")
                continue
            if not older:
                print(f"{case.name}: {len(judge.reference.outputs)} outputs, {judge.reference.seconds:.1f} s; "
                      f"differ from run to run: {sorted(judge.reference.timed) or 'none'}", flush=True)
            for attack in asked.attack:
                if attack == "random":
                    at_random.append(judge)
                else:
                    try:
                        break_calls(bench, judge, attack, table, asked, older)
                    except Unfit as why:
                        table.add(attack, case.name, [str(why)], f"{sys.argv[0]} {asked.keyscope} --case {case.name}")
    if at_random:
        kill_at_random(bench, at_random, table, asked)


def new_folder(name: str) -> pathlib.Path:
    if os.path.lexists(name):
        raise argparse.ArgumentTypeError(f"{name} is there; expected the name of a new folder, which is removed at the end")
    return pathlib.Path(name)


def add_scratch(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("--scratch", type=new_folder, default=f"/dev/shm/{name}",
                        help="a folder that is made, worked in and removed")


def show_attacks(attack, scratch: pathlib.Path) -> None:
    """Runs what fills a table and shows it, whole or ended early; exits with 1 where there were failures."""
    table = Table()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended early"))
    try:
        attack(table)
    finally:
        table.show()
        shutil.rmtree(scratch)
    sys.exit(bool(table.failures))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("keyscope", type=pathlib.Path)
    parser.add_argument("--case", nargs="*", help="of " + ", ".join(case.name for case in fault_cases.CASES))
    parser.add_argument("--attack", nargs="*", default=["errors", "kills"], choices=["errors", "kills", "random"])
    parser.add_argument("--older", choices=["no", "yes", "both"], default="both", help="outputs of an earlier run there")
    parser.add_argument("--only", help="CALL:NUMBER")
    parser.add_argument("--most", type=int, default=50)
    parser.add_argument("--random-kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    add_scratch(parser, f"keyscope-faults-{os.getpid()}")
    asked = parser.parse_args()
    bench = Bench(asked.keyscope, asked.scratch)
    cases = [case for case in fault_cases.CASES if not asked.case or case.name in asked.case]
    olders = {"no": [False], "yes": [True], "both": [False, True]}[asked.older]
    show_attacks(lambda table: attack_all(bench, cases, olders, table, asked), asked.scratch)


if __name__ == "__main__":
    main()
