"""How a study scales over workers, by simulation with the times that its cells took, and what the shared folder bears.

    python bench/sweep_scaling.py STUDY_FOLDER [--start SECONDS] [--operation-ms MS …] [--calls KEYSCOPE]

The study has been run (`sweep run`): its workers noted what each cell took. Workers are simulated that do as
`keyscope sweep run` does: each begins with its own share of the batches and goes on with what nobody has; a batch is
claimed, done cell by cell, and given up; a new job's model is loaded. Every operation on the shared folder takes its
turn at one server. With --calls, a copy of the plan is run by one worker under strace, and the system calls in the
folder are counted.
"""

from __future__ import annotations

import argparse
import collections
import heapq
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

# System calls in the shared folder, all of which may go to its server, as --calls counts them: of a batch that is
# claimed and given up; of a cell, whose result is looked for, written beside and renamed; and of all folders of results,
# which are listed once a worker's share is done, and then four times a lease of two minutes.
OPERATIONS_OF_BATCH, OPERATIONS_OF_CELL, OPERATIONS_OF_LOOK, SECONDS_BETWEEN_LOOKS = 9, 6, 1028, 30.0


def read_batches(folder: Path) -> list[tuple[tuple[int, int, int], list[float]]]:
    """Every batch: its job, model and seed, and what each of its cells took."""
    took = {}
    for log in (folder / "workers").glob("*.jsonl"):
        for line in log.read_text().splitlines():
            try:
                noted = json.loads(line)
            except json.JSONDecodeError:
                continue  # the last line of a worker that was killed
            took[noted["cell"]] = noted["seconds"]
    batches: dict[str, tuple[tuple[int, int, int], list[float]]] = {}
    for line in (folder / "cells.jsonl").read_text().splitlines():
        cell = json.loads(line)
        if cell["cell"] in took:
            key = (cell["job"], cell["model"], cell["seed"])
            batches.setdefault(cell["batch"], (key, []))[1].append(took[cell["cell"]])
    return list(batches.values())


def simulate(batches, n_workers: int, start: float, operation: float) -> tuple[float, float]:
    """Seconds until the last worker ends, and the share of them in which the folder's server was busy."""
    left = collections.deque(range(len(batches)))
    share = [collections.deque() for _ in range(n_workers)]
    for i in range(len(batches)):
        share[i * n_workers // len(batches)].append(i)
    taken = [False] * len(batches)
    job_of = [None] * n_workers
    looked = [-SECONDS_BETWEEN_LOOKS] * n_workers
    server_free, server_busy, last = 0.0, 0.0, 0.0
    ready = [(start, worker) for worker in range(n_workers)]
    heapq.heapify(ready)

    def serve(now: float, n_operations: int) -> float:
        nonlocal server_free, server_busy
        begin = max(now, server_free)
        server_free = begin + n_operations * operation
        server_busy += n_operations * operation
        return server_free

    while ready:  # always the worker that is first, so that the server serves them in the order in which they come
        now, worker = heapq.heappop(ready)
        mine = share[worker]
        while mine and taken[mine[0]]:
            mine.popleft()
        if not mine:
            while left and taken[left[0]]:
                left.popleft()
            if not left:
                last = max(last, now)
                continue
            mine = left
            if now - looked[worker] >= SECONDS_BETWEEN_LOOKS:
                looked[worker] = serve(now, OPERATIONS_OF_LOOK)
                heapq.heappush(ready, (looked[worker], worker))
                continue
        key, cells = batches[mine[0]]
        if job_of[worker] not in (None, key):  # its examples are made, or another model is loaded
            job_of[worker] = key
            heapq.heappush(ready, (now + start, worker))
            continue
        job_of[worker] = key
        taken[mine.popleft()] = True
        now = serve(now, OPERATIONS_OF_BATCH + OPERATIONS_OF_CELL * len(cells)) + sum(cells)
        heapq.heappush(ready, (now, worker))
    return last, server_busy / last


def count_calls(keyscope: str, folder: Path) -> None:
    """System calls of one worker that have to do with the shared folder, by batch and cell."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "study"
        shutil.copytree(folder, copy)
        for part in ("results", "workers", "failures", "claims"):
            for file in (copy / part).rglob("*"):
                if file.is_file():
                    file.unlink()
        trace = Path(scratch) / "trace"
        calls = "openat,open,stat,lstat,newfstatat,statx,access,link,linkat,unlink,unlinkat,rename,renameat2,write,"
        calls += "pwrite64,fsync,fdatasync,getdents64,ftruncate,mkdir"
        subprocess.run(
            ["strace", "-f", "-y", "-qq", "-e", f"trace={calls}", "-o", trace, keyscope, "sweep", "run", copy,
             "--threads", "1", "--quiet"], check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        counts: collections.Counter[str] = collections.Counter()
        for line in trace.read_text(errors="replace").splitlines():
            found = re.match(r"\d+ +(\w+)\(", line)
            if found and str(copy) in line:
                counts[found[1]] += 1
        cells = [json.loads(line) for line in (copy / "cells.jsonl").read_text().splitlines()]
        n_cells, n_batches = len({cell["cell"] for cell in cells}), len({cell["batch"] for cell in cells})
        print(f"system calls in the folder, {n_cells} cells in {n_batches} batches:", dict(counts.most_common()))
        print(f"{sum(counts.values()) / n_cells:.1f} a cell, {sum(counts.values())} in all")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--start", type=float, default=0.5, help="seconds until a worker or a new job begins")
    parser.add_argument("--operation-ms", type=float, nargs="+", default=[0.02, 0.5], help="of the shared folder")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--repeat", type=int, default=1, help="the study so many times over")
    parser.add_argument("--slower", type=float, default=1, help="cells that take so many times as long")
    parser.add_argument("--calls", metavar="KEYSCOPE")
    arguments = parser.parse_args()
    if arguments.calls:
        count_calls(arguments.calls, arguments.folder)
    batches = [(key, [arguments.slower * one for one in cells]) for key, cells in read_batches(arguments.folder)]
    batches *= arguments.repeat
    work = sum(sum(cells) for _, cells in batches)
    longest = max(sum(cells) for _, cells in batches)
    n_cells = sum(len(cells) for _, cells in batches)
    print(f"{n_cells} cells in {len(batches)} batches, {work:.0f} s of work, the longest batch {longest:.1f} s")
    print(f"{'operation':>10} {'workers':>8} {'seconds':>9} {'efficiency':>11} {'server busy':>12} {'bound':>12}")
    for milliseconds in arguments.operation_ms:
        for n_workers in arguments.workers:
            seconds, busy = simulate(batches, n_workers, arguments.start, milliseconds / 1000)
            bound = "server" if busy > 0.9 else "batches" if n_workers > len(batches) / 4 else "start" if (
                arguments.start > 0.05 * seconds) else "work"
            print(f"{milliseconds:>7} ms {n_workers:>8} {seconds:>9.1f} {work / (n_workers * seconds):>11.1%} {busy:>12.1%} "
                  f"{bound:>12}")


if __name__ == "__main__":
    main()
