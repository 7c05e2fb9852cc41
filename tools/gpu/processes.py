"""Processes with a limit: they and their children end with it, and what they wrote until then is there."""

import contextlib
import dataclasses
import os
import pathlib
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator


@dataclasses.dataclass
class Ended:
    """How a process ended: `status` is None where it was stopped at its limit."""

    status: int | None
    stdout: str
    stderr: str
    elapsed_s: float

    def last_words(self) -> str:
        """The last line that says what went wrong."""
        lines = [line.strip() for line in (self.stderr or self.stdout).splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.status}, without a word"


def stop(process: subprocess.Popen):
    """Ends a process and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_together(commands: list[list[str]], limit_s: float, environments: list[dict],
                 folder: pathlib.Path) -> list[Ended]:
    """Runs commands at the same time, in `folder`, each with its environment; stops those that take longer."""
    started = time.monotonic()
    ended: list[Ended] = []
    with tempfile.TemporaryDirectory() as scratch:
        files = [(open(f"{scratch}/{i}.out", "w+b"), open(f"{scratch}/{i}.err", "w+b")) for i in range(len(commands))]
        processes: list[subprocess.Popen] = []
        try:
            for command, environment, (out, err) in zip(commands, environments, files):
                processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                                  cwd=folder, env=environment, start_new_session=True))
            times: dict[int, float] = {}
            while len(times) < len(processes) and time.monotonic() - started < limit_s:
                for i, process in enumerate(processes):
                    if i not in times and process.poll() is not None:
                        times[i] = time.monotonic() - started
                time.sleep(0.02)
        finally:
            unfinished = {i for i, process in enumerate(processes) if process.poll() is None}
            for process in processes:
                stop(process)
        for i, (process, (out, err)) in enumerate(zip(processes, files)):
            out.seek(0), err.seek(0)
            text = [file.read().decode(errors="replace") for file in (out, err)]
            out.close(), err.close()
            status = None if i in unfinished else process.returncode
            ended.append(Ended(status, *text, times.get(i, time.monotonic() - started)))
    return ended


class Served:
    """A process that waits between orders, a line each, and answers each with lines; as a context it ends with that."""

    def __init__(self, command: list[str], environment: dict, folder: pathlib.Path):
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end of the context
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        cwd=folder, env=environment, start_new_session=True, text=True)
        self.heard: queue.SimpleQueue[str | None] = queue.SimpleQueue()  # None: it has closed its output
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *_):
        stop(self.process)
        with contextlib.suppress(OSError):  # an order that it no longer took
            self.process.stdin.close()
        self.errors.close()

    def _listen(self):
        with self.process.stdout:
            for line in self.process.stdout:
                self.heard.put(line.rstrip("\n"))
        self.heard.put(None)

    def order(self, line: str):
        with contextlib.suppress(OSError):  # one that has ended says so itself, in lines()
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def lines(self, deadline: float) -> Iterator[str | None]:
        """What it says, until the caller has enough: None where it has ended. Raises TimeoutError at the deadline, a
        time of time.monotonic()."""
        while True:
            try:
                yield self.heard.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError from None

    def error_text(self) -> str:
        """What it wrote to its standard error; where it goes on writing stays as it is."""
        size = os.fstat(self.errors.fileno()).st_size
        return os.pread(self.errors.fileno(), size, 0).decode(errors="replace")

    def last_words(self) -> str:
        return Ended(self.process.poll(), "", self.error_text(), 0).last_words()
