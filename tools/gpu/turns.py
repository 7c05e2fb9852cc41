"""Keyscope and its peers in turns: who takes them, and rows of what they took."""

import contextlib
import json
import os
import statistics
import time

from processes import Served, stop

ROUNDS = 2  # of a turn, after one that warms up where a process starts
WARM_UP = 1


class Load:
    """The highest load average of the last minute that was seen."""

    def __init__(self):
        self.most, self.processors = 0.0, os.cpu_count() or 1
        self.look()

    def look(self):
        self.most = max(self.most, os.getloadavg()[0])


class Samples:
    """Samples of one tool under one policy, turn by turn."""

    def __init__(self, named: dict):
        self.named, self.facts, self.values, self.turns = named, {}, {}, []

    def add(self, turn: int, field: str, values: list[float]):
        self.values.setdefault(field, []).extend(values)
        if field == "ttft_ms":
            self.turns += [[] for _ in range(turn + 1 - len(self.turns))]
            self.turns[turn] += values

    def row(self) -> dict:
        row = self.named | self.facts
        for field, values in self.values.items():
            if field == "peak_bytes":
                row[field] = max(values)
                continue
            row |= {field: statistics.median(values), field + "_min": min(values), field + "_max": max(values)}
            if field == "eviction_share":
                row["eviction_share_rounds"] = values
        if "ttft_ms" in self.values:
            row |= {"repeat": len(self.values["ttft_ms"]), "ttft_ms_turns": self.turns}
        return row


class Table:
    """Rows by tool, policy, budget and block."""

    def __init__(self):
        self.samples: dict[tuple, Samples] = {}

    def of(self, named: dict) -> Samples:
        return self.samples.setdefault(tuple(named.values()), Samples(named))

    def rows(self) -> list[dict]:
        return [samples.row() for samples in self.samples.values()]

    def add_peer(self, turn: int, sample: dict):
        names = ("tool", "policy", "budget", "block", "n_tokens")
        samples = self.of({name: sample[name] for name in names})
        for field, value in sample.items():
            if field not in names:
                samples.add(turn, field, [value])

    def add_keyscope(self, turn: int, row: dict):
        """Of a `keyscope bench prefill` of WARM_UP + ROUNDS rounds, the first of which warmed up: it counts in all but
        the time to the first token, of which alone every round is known."""
        assert WARM_UP + ROUNDS == 3  # the least, the median and the most of three are all, in whichever order
        samples = self.of({"tool": "keyscope", "policy": row["policy"], "budget": row["budget"], "block": row["block"],
                           "n_tokens": row["n_tokens"]})
        samples.add(turn, "ttft_ms", row["ttft_ms_rounds"][WARM_UP:])
        for field in ("attention_share", "eviction_share", "products_share", "generated_per_second"):
            if row.get(field) is not None:
                samples.add(turn, field, [row[field + "_min"], row[field], row[field + "_max"]])
        samples.facts = {field: row[field] for field in ("schedule", "peak_cache_rows", "peak_cache_bytes")}


class Peer:
    """A peer's process: what it says goes into a table, and why it says no more into notes."""

    def __init__(self, tool: str, served: Served, log):
        self.tool, self.served, self.log = tool, served, log
        self.alive, self.failed, self.stopped, self.notes = True, False, False, []

    def warm_up(self, deadline: float, table: Table):
        self.hear(deadline, 0, table, "before it had warmed up")

    def hear(self, deadline: float, turn: int, table: Table, when: str = "at the limit"):
        """What it says until it is done; at the deadline it is stopped. It is no longer alive then, nor where it ends
        before."""
        try:
            for line in self.served.lines(deadline):
                if line is None:
                    self._ended()
                    return
                self.log(line)
                with contextlib.suppress(ValueError):
                    message = json.loads(line)
                    if "sample" in message:
                        table.add_peer(turn, message["sample"])
                    elif "done" in message:
                        return
                    else:
                        self.failed |= "failed" in message
                        self.notes += message.values()
        except TimeoutError:
            self.alive, self.stopped = False, True
            stop(self.served.process)  # whoever comes next needs the machine
            self.notes.append(f"{self.tool} was stopped {when}")

    def _ended(self):
        self.alive = False
        with contextlib.suppress(Exception):
            self.served.process.wait(timeout=10)
        if self.served.process.returncode != 3:  # 3: it is absent, and has said so
            self.failed = True
            self.notes.append(f"{self.tool}: {self.served.last_words()}")

    def take(self, turn: int, deadline: float, table: Table):
        self.served.order(str(ROUNDS))
        self.hear(deadline, turn, table)


def fits_another(last_s: float, deadline: float) -> bool:
    return time.monotonic() + 1.1 * last_s < deadline
