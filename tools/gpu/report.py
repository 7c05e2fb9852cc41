"""check.json, which is rewritten after every part and turn so that a killed check leaves what it had; its tables."""

import dataclasses
import json
import os
import pathlib
import time

from targets import HOW, target_line, targets_of

# ok: it ran and nothing failed; failed; timeout: its limit was too short, its figures so far are there; absent: what it
# needs is not on this machine; not run: no time was left, or an earlier part that it needs failed.
STATUSES = ("ok", "failed", "timeout", "absent", "not run")
GOOD = ("ok", "absent")


@dataclasses.dataclass
class Part:
    """One part of the check: its result, and why if that is not `ok`."""

    name: str
    limit_s: float
    status: str = "not run"
    reason: str = ""
    elapsed_s: float = 0.0
    rows: list = dataclasses.field(default_factory=list)  # measurements, a dictionary each
    tests: dict = dataclasses.field(default_factory=dict)  # counts, and names of failures
    setting: dict = dataclasses.field(default_factory=dict)  # what the rows have in common


class Report:
    def __init__(self, folder: pathlib.Path, facts: dict, limit_s: float, bytes_per_token: dict[str, int]):
        """bytes_per_token: what a full cache takes, of each shape"""
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "check.json"
        self.log_path = folder / "check.log"
        self.log_path.write_text("")
        self.parts: list[Part] = []
        self.facts = facts
        self.bytes_per_token = bytes_per_token
        self.limit_s = limit_s
        self.started = time.time()
        self.finished = False
        self.save()

    def seconds_left(self) -> float:
        return self.limit_s - (time.time() - self.started)

    def ok(self) -> bool:
        return bool(self.parts) and all(part.status in GOOD for part in self.parts)

    def targets(self, parts: list[Part] | None = None) -> list[dict]:
        return targets_of(self.parts if parts is None else parts, self.bytes_per_token)

    def save(self, running: Part | None = None):
        parts = self.parts + [running] * (running is not None)
        text = {"format": 2, "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.started)),
                "elapsed_s": round(time.time() - self.started, 1), "limit_s": self.limit_s,
                "finished": self.finished, "ok": self.finished and self.ok(), **self.facts,
                "targets": self.targets(parts), "parts": [dataclasses.asdict(part) for part in parts]}
        new = self.path.with_suffix(".part")
        new.write_text(json.dumps(text, indent=1) + "\n")
        os.replace(new, self.path)

    def log(self, text: str):
        with open(self.log_path, "a") as file:
            file.write(text if text.endswith("\n") or not text else text + "\n")

    def say(self, text: str):
        print(text, flush=True)
        self.log(text)

    def add(self, part: Part):
        """A part that has ended."""
        self.parts.append(part)
        self.save()
        line = f"{part.name:26}{part.status:9}{part.elapsed_s:7.1f} s"
        self.say(line + (f"  {part.reason}" if part.reason else ""))

    def finish(self):
        self.finished = True
        self.save()


# Column, field, width, digits, factor.
COLUMNS = (("ttft ms", "ttft_ms", 9, 1, 1), ("least", "ttft_ms_min", 9, 1, 1), ("most", "ttft_ms_max", 9, 1, 1),
           ("decode/s", "generated_per_second", 10, 1, 1), ("plain ms", "plain_ms", 10, 1, 1),
           ("recorded ms", "recorded_ms", 13, 1, 1), ("overhead %", "overhead", 12, 0, 100),
           ("attention %", "attention_share", 13, 0, 100), ("eviction %", "eviction_share", 12, 0, 100),
           ("peak GB", "peak_bytes", 9, 2, 1e-9))


def merged_rows(report: Report) -> list[tuple[str, dict]]:
    """Rows of all parts, with the shape; those of one shape, prompt, tool, policy, budget and block put together. Where
    two have the same field, the one without recording counts: the time to the first token is that of prefill."""
    rows: dict[tuple, dict] = {}
    found = [(part.name.split("/")[0], row) for part in report.parts for row in part.rows]
    for shape, row in sorted(found, key=lambda each: "recorded_ms" in each[1]):
        key = (shape, row["n_tokens"], row["tool"], row["policy"], row.get("budget"), row["block"])
        rows[key] = row | rows.get(key, {})
    shapes = list(report.bytes_per_token)
    return [(key[0], row) for key, row in sorted(rows.items(), key=lambda each: (shapes.index(each[0][0]), each[0][1]))]


def table(report: Report) -> str:
    lines = [f"{'shape':6}{'tokens':>7} {'tool':14}{'policy':9}{'budget':>7}{'block':>6}"
             + "".join(f"{name:>{width}}" for name, _, width, *_ in COLUMNS)]
    for shape, row in merged_rows(report):
        line = (f"{shape:6}{row['n_tokens']:7} {row['tool']:14}{row['policy']:9}{row.get('budget') or '-':>7}"
                f"{row['block']:6}")
        for _, field, width, digits, factor in COLUMNS:
            value = row.get(field)
            line += f"{'-':>{width}}" if value is None else f"{value * factor:{width}.{digits}f}"
        lines.append(line)
    targets = report.targets()
    if targets:
        verdicts = [target["verdict"] for target in targets if target["target"] is not None]
        counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in ("met", "missed", "cannot be told"))
        lines += ["", f"targets: {counts}", *map(target_line, targets), "", HOW]
    lines.append("")
    for part in report.parts:
        if part.tests:
            counts = ", ".join(f"{part.tests[key]} {key}" for key in ("passed", "failed", "skipped", "unfinished"))
            lines.append(f"{part.name}: {counts}")
            lines += [f"  failed: {name}" for name in part.tests["failures"]]
    counts = {status: sum(part.status == status for part in report.parts) for status in STATUSES}
    lines.append(f"parts: {', '.join(f'{n} {status}' for status, n in counts.items() if n)}; "
                 f"{time.time() - report.started:.0f} s of {report.limit_s:.0f} s")
    return "\n".join(lines)
