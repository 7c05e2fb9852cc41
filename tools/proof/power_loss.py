#!/usr/bin/env python3
"""Stops the power, in thought, at every moment of a command: from its system calls it builds the folder as it may stand
then, and looks at it as `faults.py` does after a kill.

    tools/proof/power_loss.py build/release/keyscope --case capture eval-niah sweep-run --states 300

What survives of a file is what was synced, and any part of what was written since; of a folder's names those that were
there at its last sync, and as many of the changes since, in their order, as it likes. A file's sync does not save its
name. Needs strace.
"""

import argparse
import copy
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import signal
import sys

import fault_cases
from faults import Bench, Judge, Ran, Table, Unfit, add_scratch, show_attacks

CALLS = "openat,write,writev,pwrite64,ftruncate,fallocate,fsync,fdatasync,rename,renameat2,link,unlink,unlinkat,mkdir,rmdir"
SECTOR = 512
KINDS = ("nothing", "names", "all", "random", "random")  # what survives of what was not synced


@dataclasses.dataclass
class Inode:
    """A file: what is on the disk, and what was done to it since: bytes at a place, or a size."""

    durable: bytes = b""
    since: list[tuple[int, bytes | None]] = dataclasses.field(default_factory=list)
    size: int = 0

    def write(self, at: int, held: bytes) -> None:
        self.since.append((at, held))
        self.size = max(self.size, at + len(held))

    def cut(self, size: int) -> None:
        self.since.append((size, None))
        self.size = size

    def sync(self) -> None:
        self.durable, self.since = self.content(None), []

    def content(self, draw: random.Random | None, share: float = 1) -> bytes:
        """With a draw, each change since the last sync survives with a chance, and of a write perhaps some sectors."""
        held = bytearray(self.durable)
        for at, new in self.since:
            if draw and draw.random() >= share:
                continue
            if new is None:
                held[at:] = bytes(max(0, at - len(held)))
                continue
            if draw and draw.random() < 0.3:
                new = new[:SECTOR * draw.randint(0, len(new) // SECTOR)]
            held.extend(bytes(max(0, at - len(held))))
            held[at:at + len(new)] = new
        return bytes(held)


class Disk:
    """Names and files below a folder, as a process sees them and as they may be found after a power loss."""

    def __init__(self, files: dict[str, bytes], folders: set[str]) -> None:
        self.names: dict[str, Inode | None] = {name: Inode(held, [], len(held)) for name, held in files.items()}
        self.names |= dict.fromkeys(folders)  # None: a folder
        self.durable = dict(self.names)
        self.since: dict[str, list[dict[str, Inode | None | str]]] = {}  # by folder: names and what they became

    def change(self, names: dict[str, Inode | None | str]) -> None:
        """GONE stands for a name that is taken away. All names of one change survive or none."""
        apply(self.names, names)
        self.since.setdefault(parent(next(iter(names))), []).append(names)

    def sync_folder(self, folder: str) -> None:
        for names in self.since.pop(folder, []):
            apply(self.durable, names)

    def found(self, kind: str, draw: random.Random) -> dict[str, bytes | None]:
        names = dict(self.durable)
        for changes in self.since.values():
            n = {"nothing": 0, "names": len(changes), "all": len(changes)}.get(kind, draw.randint(0, len(changes)))
            for change in changes[:n]:
                apply(names, change)
        share = {"nothing": 0.0, "names": 0.0, "all": 1.0}.get(kind, draw.random())
        return {name: None if inode is None else inode.content(None if kind == "all" else draw, share)
                for name, inode in names.items() if all(folder in names for folder in parents(name))}


GONE = "gone"


def parent(name: str) -> str:
    return str(pathlib.PurePath(name).parent)


def parents(name: str) -> list[str]:
    return [str(folder) for folder in pathlib.PurePath(name).parents]


def apply(names: dict[str, Inode | None], change: dict[str, Inode | None | str]) -> None:
    for name, becomes in change.items():
        if becomes == GONE:
            names.pop(name, None)
        else:
            names[name] = becomes


def text(quoted: str) -> bytes:
    return bytes.fromhex(quoted.replace("\\x", ""))


class Replay:
    """Does to a Disk what a log of strace says."""

    def __init__(self, disk: Disk, folder: pathlib.Path) -> None:
        self.disk, self.folder = disk, folder
        self.places: dict[int, int] = {}  # by file: where the next write goes

    def name_of(self, quoted: str) -> str | None:
        path = self.folder / text(quoted).decode(errors="replace").removesuffix(" (deleted)")
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else None

    def step(self, call: str, arguments: str, result: int) -> bool:
        """Whether anything of the folder has changed or was synced."""
        quoted = re.findall(r'(?<![<\w])"((?:\\x[0-9a-f]{2})*)"', arguments)
        opened = re.match(r"\d+<((?:\\x[0-9a-f]{2})*)", arguments)
        if opened:
            name = self.name_of(opened[1])
            return name in self.disk.names and self.on_open_file(call, name, arguments, quoted, result)
        named = [self.name_of(path) for path in quoted]
        if not named or None in named:
            return False
        return self.on_names(call, named, arguments)

    def on_open_file(self, call: str, name: str, arguments: str, quoted: list[str], result: int) -> bool:
        inode = self.disk.names[name]
        if inode is None:
            if call == "fsync":
                self.disk.sync_folder(name)
            return call == "fsync"
        if call in ("fsync", "fdatasync"):
            inode.sync()
        elif call == "ftruncate":
            inode.cut(int(arguments.rsplit(",", 1)[1]))
        elif call == "fallocate":
            inode.cut(max(inode.size, sum(map(int, arguments.split(",")[2:]))))
        elif call == "pwrite64":
            inode.write(int(arguments.rsplit(",", 1)[1]), text(quoted[0])[:result])
        else:
            at = self.places.get(id(inode), 0)
            inode.write(inode.size if at < 0 else at, b"".join(map(text, quoted))[:result])
            self.places[id(inode)] = at if at < 0 else at + result
        return True

    def on_names(self, call: str, named: list[str], arguments: str) -> bool:
        disk = self.disk
        name = named[0]
        if call == "openat":
            if "O_WRONLY" not in arguments and "O_RDWR" not in arguments:
                return False
            fresh = name not in disk.names
            if fresh:
                disk.change({name: Inode()})
            inode = disk.names[name]
            if "O_TRUNC" in arguments and inode.size:
                inode.cut(0)
            self.places[id(inode)] = -1 if "O_APPEND" in arguments else 0
            return fresh
        if call in ("unlink", "unlinkat", "rmdir"):
            disk.change({name: GONE})
        elif call == "mkdir":
            disk.change({name: None})
        elif call == "link":
            disk.change({named[1]: disk.names[name]})
        elif "RENAME_EXCHANGE" in arguments:
            disk.change({name: disk.names[named[1]], named[1]: disk.names[name]})
        else:
            disk.change({named[1]: disk.names[name], name: GONE})
        return True


def calls_of(log: pathlib.Path) -> list[tuple[str, str, int]]:
    """What succeeded, in the order in which it ended."""
    calls, begun = [], {}
    for line in log.read_text(errors="replace").splitlines():
        thread, rest = line.split(" ", 1)
        rest = rest.strip()
        resumed = re.match(r"<\.\.\. \w+ resumed>(.*)", rest)
        if resumed:
            rest = begun.pop(thread, "") + resumed[1]
        elif rest.endswith("<unfinished ...>"):
            begun[thread] = rest.removesuffix("<unfinished ...>")
            continue
        found = re.match(r"(\w+)\((.*)\) += (\d+)", rest)
        if found:
            calls.append((found[1], found[2], int(found[3])))
    return calls


def traced(bench: Bench, judge: Judge) -> list[tuple[str, str, int]]:
    log = bench.folder.parent / "calls"
    ran = bench.run(judge.words, f"strace -f -y -xx -s 1000000000 -qq --seccomp-bpf -o {log} -e trace={CALLS}", 600)
    if ran.status != 0:
        sys.exit(f"{judge.case.name}: cannot be traced: {ran.said}")
    return calls_of(log)


def lay_out(bench: Bench, found: dict[str, bytes | None]) -> None:
    shutil.rmtree(bench.folder)
    bench.folder.mkdir()
    for name, held in sorted(found.items()):
        path = bench.folder / name
        if held is None:
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(held)
    if (bench.folder / "bin").is_dir():
        for program in (bench.folder / "bin").iterdir():
            program.chmod(0o755)


def counted_blocks_are_sound(bench: Bench, judge: Judge, whole: pathlib.Path) -> list[str]:
    """Of a part that opens: rows of counted blocks are those of the whole recording."""
    wrong = []
    for part in bench.folder.rglob("*.h5.part"):
        name = str(part.relative_to(bench.folder)).removesuffix(".part")
        if name not in judge.reference.files or bench.run(f"inspect {part}").status != 0:
            continue
        (whole / "whole.h5").write_bytes(judge.reference.files[name])
        bench.run(f"compare {part} {whole}/whole.h5 --json {whole}/out.json --force")
        rows = [entry for entry in json.loads((whole / "out.json").read_text())["datasets"]
                if entry["dataset"] in ("keys", "queries")]
        wrong += [f"{part.name}: {entry['dataset']} of run {entry['run']}, layer {entry['layer']} are not what they were"
                  for entry in rows if not entry["agree"]]
    return wrong


def lose_power(bench: Bench, judge: Judge, table: Table, asked: argparse.Namespace, older: bool) -> None:
    judge.lay_out()
    folders = {str(path.relative_to(bench.folder)) for path in bench.folder.rglob("*") if path.is_dir()} | {"."}
    disk = Disk(bench.files(), folders)
    calls = traced(bench, judge)
    judge.reference.files = bench.files()  # what is whole is what this very run has made
    replay = Replay(disk, bench.folder)
    moments = []
    for number, call in enumerate(calls):
        if replay.step(*call):
            moments.append((number, copy.deepcopy(disk)))
    if {name: inode.content(None) for name, inode in disk.names.items() if inode} != judge.reference.files:
        sys.exit(f"{judge.case.name}: the replayed calls do not make the folder that the command made")
    draw = random.Random(asked.seed)
    tried = [(moment, kind) for moment in moments for kind in KINDS]
    name = judge.case.name + (" (older)" if older else "")
    whole = bench.folder.parent / "whole"
    whole.mkdir(exist_ok=True)
    for (number, at), kind in sorted(draw.sample(tried, min(len(tried), asked.states)), key=lambda one: one[0][0]):
        found = at.found(kind, draw)
        found.pop(".", None)
        lay_out(bench, found)
        wrong = counted_blocks_are_sound(bench, judge, whole)
        wrong += judge.complaints(Ran(-signal.SIGKILL, ""), True)
        table.add("power", name, wrong, f"{kind} of what was not synced survives after call {number}: "
                  f"{calls[number][0]}({readable(calls[number][1])[:150]}")


def readable(arguments: str) -> str:
    return re.sub(r"(?:\\x[0-9a-f]{2})+", lambda hexed: text(hexed[0]).decode(errors="replace"), arguments[:800])


def lose_power_in_all(bench: Bench, table: Table, asked: argparse.Namespace) -> None:
    for case in (case for case in fault_cases.CASES if case.name in asked.case):
        for older in {"no": [False], "yes": [True], "both": [False, True]}[asked.older]:
            try:
                lose_power(bench, Judge(bench, case, older), table, asked, older)
            except Unfit as why:
                table.add("power", case.name, [str(why)], f"{sys.argv[0]} {asked.keyscope} --case {case.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("keyscope", type=pathlib.Path)
    parser.add_argument("--case", nargs="*", default=["capture", "capture-block", "eval-niah", "sweep-run"])
    parser.add_argument("--older", choices=["no", "yes", "both"], default="both")
    parser.add_argument("--states", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    add_scratch(parser, f"keyscope-power-loss-{os.getpid()}")
    asked = parser.parse_args()
    bench = Bench(asked.keyscope, asked.scratch)
    show_attacks(lambda table: lose_power_in_all(bench, table, asked), asked.scratch)


if __name__ == "__main__":
    main()
