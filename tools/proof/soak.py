#!/usr/bin/env python3
"""Uses a live window at random for a long time, by real input events, while captures under random policies come and
go beside it, some of them killed: memory, handles and threads of the window at the beginning, in the middle, at the end.

    tools/proof/soak.py build/release/keyscope --minutes 120 --seed 1 --out soak.jsonl

Needs Xvfb and xdotool (`./run test` installs them). A soak may be had in parts: of the same file what is measured is
appended under its seed, and `--summary` prints the table of all parts. Ends with 1 where the window or a capture crashed, where a
recording cannot be read, or where the window's memory grew: median of the last fifth over that of the second fifth by
more than `--growth`.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "assets/demo_model"
SIZE = (1280, 800)
SCORERS = ["keydiff", "sink", "l2norm", "tova", "h2o", "snapkv", "random", "manifold", "cur", "leverage", "lagkv", "expected",
           "capkv", "triattention", "compactor", "rkv", "dropkv", "defensive"]
SLOTS = ["", "protect=sinks:4+recent:0.1", "granularity=layer", "granularity=page:16", "granularity=model", "split=adakv",
         "split=pyramid", "split=cake", "critical=on", "critical=shift"]
KEYS = ["Left", "Right", "Home", "End", "space", "Up", "Down", "shift+Left", "shift+Right", *"123456789", "shift+2", "shift+3",
        "m", "q", "f", "n", "e", "ctrl+t", "ctrl+z", "ctrl+y", "ctrl+shift+c", "question", "Escape", "Escape",
        "ctrl+Page_Up", "ctrl+Page_Down"]
PALETTE = ["layer 2 head 1", "layer 0 head 3", "measure spearman", "measure log volume", "pause", "step", "resume", "cancel the model",
           "heads", "text", "bounds", "difference", "density", "hexagons", "3d", "layout", "reset"]


class Events:
    """What a person does, drawn at random, each followed by a moment in which the window draws."""

    def __init__(self, draw, window, recordings):
        self.draw, self.window, self.recordings = draw, window, recordings
        self.went = True  # whether every part of the event reached the window

    def tool(self, *words):
        try:
            done = subprocess.run(["xdotool", *map(str, words)], check=False, capture_output=True, timeout=60)
            self.went &= done.returncode == 0
        except subprocess.TimeoutExpired:
            self.went = False

    def place(self):
        return self.draw.randrange(SIZE[0]), self.draw.randrange(SIZE[1])

    def key(self):
        self.tool("key", self.draw.choice(KEYS))

    def click(self):
        self.tool("mousemove", *self.place(), "click", self.draw.choice([1, 1, 1, 3]))

    def wheel(self):
        self.tool("mousemove", *self.place(), "click", "--repeat", self.draw.randint(1, 6), self.draw.choice([4, 5]))

    def drag(self):
        button = self.draw.choice([1, 1, 2, 3])
        self.tool("mousemove", *self.place(), "mousedown", button)
        for _ in range(4):
            self.tool("mousemove", *self.place())
        self.tool("mouseup", button)

    def resize(self):
        self.tool("windowsize", self.window, self.draw.randint(500, SIZE[0]), self.draw.randint(400, SIZE[1]))

    def palette(self):
        self.tool("key", "ctrl+p")
        self.tool("type", "--delay", 15, self.draw.choice(PALETTE))
        self.tool("key", "Return")

    def run_again(self):
        self.tool("key", "ctrl+shift+r")
        self.tool("key", "Return")

    def open(self):
        if not self.recordings:
            return
        self.tool("key", "ctrl+o", "ctrl+a")
        self.tool("type", "--delay", 10, self.draw.choice(self.recordings))
        self.tool("key", "Return")

    def act(self):
        """Whether it has happened."""
        self.went = True
        kinds = [self.key] * 8 + [self.click] * 4 + [self.wheel] * 3 + [self.drag] * 3 + [self.palette] * 3
        self.draw.choice(kinds + [self.resize, self.run_again, self.open])()
        self.tool("key", "Escape")
        return self.went


def measured(process):
    """Nothing of one that has just ended. Its own memory is that without mapped files, libraries among them."""
    folder = pathlib.Path(f"/proc/{process.pid}")
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
    if "VmRSS" not in status:
        return {}
    return {"rss_mib": int(status["VmRSS"].split()[0]) / 1024, "own_mib": int(status["RssAnon"].split()[0]) / 1024,
            "threads": int(status["Threads"]), "handles": len(os.listdir(folder / "fd"))}


class Captures(threading.Thread):
    """One after another beside the window, of random policies; half of them are interrupted or killed."""

    def __init__(self, keyscope, folder, draw):
        super().__init__(daemon=True)
        self.keyscope, self.folder, self.draw, self.over = keyscope, folder, draw, threading.Event()
        self.problems, self.counts, self.whole = [], dict.fromkeys(("finished", "interrupted", "killed", "refused"), 0), []

    def run(self):
        try:
            while not self.over.is_set():
                self.capture(self.folder / f"capture-{sum(self.counts.values())}.h5")
        except Exception as error:  # or the soak would go on without captures, and say that all was well
            self.problems.append(f"captures ended: {error!r}")

    def capture(self, out):
        slot = self.draw.choice(SLOTS)
        policy = self.draw.choice(SCORERS) + (":" + slot if slot else "")
        command = [self.keyscope, "capture", "--model", MODEL, "--prompt-file",
                   self.draw.choice(sorted((MODEL / "prompts").glob("*.txt"))), "--policy", policy, "--budget",
                   f"{self.draw.randint(10, 90)}%", "--block", str(self.draw.choice([5, 16, 64, 128])), "--generate",
                   str(self.draw.randint(0, 8)), "--quiet", "--out", out]
        fate = self.draw.choice(["finished", "finished", "interrupted", "killed"])
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            _, said = running.communicate(timeout=self.draw.uniform(0.02, 1.5) if fate != "finished" else None)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL if fate == "killed" else signal.SIGINT)
            _, said = running.communicate()
        ended = {0: "finished", 130: "interrupted", -signal.SIGKILL: "killed"}.get(running.returncode, "refused")
        self.counts[ended] += 1
        self.judge(out, fate, running.returncode, said.decode(errors="replace").strip(), " ".join(map(str, command[1:])))

    def judge(self, out, fate, status, said, words):
        fitting = {"finished": (0,), "interrupted": (0, 130), "killed": (0, -signal.SIGKILL)}[fate]
        refused = status == 2 and said.startswith("keyscope: ")  # a policy or a budget that this prompt does not allow
        if status not in fitting and not refused:
            self.problems.append(f"ended with {status}: {words}: {said[:200]}")
        file = out if out.exists() else pathlib.Path(f"{out}.part")
        if not file.exists():
            return
        looked = subprocess.run([self.keyscope, "inspect", file], capture_output=True, check=False)
        if looked.returncode not in (0, 1) or (out.exists() and looked.returncode):
            self.problems.append(f"unreadable after {fate}: {words}: {looked.stderr.decode()[:200]}")
        if out.exists() and len(self.whole) < 4:
            self.whole.append(str(out))
        else:
            file.unlink()


def window_id(process):
    for _ in range(600):
        found = subprocess.run(["xdotool", "search", "--pid", str(process.pid)], capture_output=True, text=True, check=False)
        if found.stdout.split():
            return found.stdout.split()[-1]
        time.sleep(0.1)
    raise SystemExit("soak: the window did not open")


def soak(asked):
    draw = random.Random(asked.seed)
    out = pathlib.Path(asked.out)
    with tempfile.TemporaryDirectory() as name, out.open("a") as lines:
        folder = pathlib.Path(name)
        os.environ |= {"XDG_CONFIG_HOME": str(folder / "config"), "LIBGL_ALWAYS_SOFTWARE": "1"}
        window = subprocess.Popen(
            [asked.keyscope, "view", "--model", MODEL, "--prompt-file", MODEL / "prompts/needle.txt", "--policy", "none",
             "--policy", "keydiff", "--policy", "snapkv", "--budget", "25%", "--block", "16", "--size",
             f"{SIZE[0]}x{SIZE[1]}", "--state-file", folder / "state.json"], stdout=subprocess.DEVNULL, stderr=(folder / "stderr").open("wb"))
        captures = Captures(asked.keyscope, folder, random.Random(asked.seed + 1000))
        events = Events(draw, window_id(window), captures.whole)
        captures.start()
        began, next_measure, n_events, n_lost = time.monotonic(), 0.0, 0, 0
        while time.monotonic() - began < 60 * asked.minutes and window.poll() is None:
            n_events, n_lost = (n_events + 1, n_lost) if events.act() else (n_events, n_lost + 1)
            if time.monotonic() >= next_measure and window.poll() is None:
                lines.write(json.dumps({"part": asked.seed, "minute": (time.monotonic() - began) / 60, "events": n_events,
                                        **measured(window)}) + "\n")
                lines.flush()
                next_measure = time.monotonic() + 10
        captures.over.set()
        captures.join()
        problems = captures.problems
        if n_lost > n_events:
            problems.append(f"{n_lost} events did not reach the window, and only {n_events} did")
        if window.poll() is not None:
            problems.append(f"the window ended with {window.returncode}: "
                            f"{(folder / 'stderr').read_text(errors='replace')[-500:]}")
        window.send_signal(signal.SIGTERM)
        try:
            window.wait(60)
        except subprocess.TimeoutExpired:
            problems.append("the window did not end within a minute of SIGTERM")
            window.kill()
        lines.write(json.dumps({"part": asked.seed, "events": n_events, "captures": captures.counts,
                                "problems": problems}) + "\n")
    return problems


def summary(asked):
    """Of every part the medians of four of its fifths; whether the last took much more than the second."""
    grown = False
    rows = [json.loads(line) for line in pathlib.Path(asked.out).read_text().splitlines()]
    print("part  minutes  events  captures              fifth       MiB  threads  handles")
    for part in dict.fromkeys(row["part"] for row in rows):
        samples = [row for row in rows if row["part"] == part and "rss_mib" in row]
        ends = [row for row in rows if row["part"] == part and "captures" in row]
        if not samples:
            continue
        fifth = max(1, len(samples) // 5)
        medians = {}
        for name, some in (("first", samples[:fifth]), ("second", samples[fifth:2 * fifth] or samples),
                           ("middle", samples[2 * fifth:3 * fifth] or samples), ("last", samples[-fifth:])):
            medians[name] = {key: statistics.median(row[key] for row in some) for key in ("rss_mib", "threads", "handles")}
            told = f"{part:>4}  {samples[-1]['minute']:7.1f}  {samples[-1]['events']:6}  " + (
                "/".join(str(n) for n in ends[-1]["captures"].values()) if ends else "under way").ljust(20)
            print(f"{told if name == 'first' else ' ' * len(told)}  {name:<9}{medians[name]['rss_mib']:6.0f}"
                  f"  {medians[name]['threads']:7.0f}  {medians[name]['handles']:7.0f}")
        for problem in ends[-1]["problems"] if ends else []:
            print("  problem:", problem)
        grown |= medians["last"]["rss_mib"] > asked.growth * medians["second"]["rss_mib"]
    return grown


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("keyscope", type=os.path.abspath)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seed", type=int, required=True, help="of what is drawn, and the part's name")
    parser.add_argument("--growth", type=float, default=1.25)
    parser.add_argument("--summary", action="store_true")
    asked = parser.parse_args()
    if asked.summary:
        return summary(asked)
    if "DISPLAY" not in os.environ or os.environ.get("KEYSCOPE_SOAK_INSIDE") != "1":
        os.environ["KEYSCOPE_SOAK_INSIDE"] = "1"
        os.execvp("xvfb-run", ["xvfb-run", "-a", "-s", f"-screen 0 {SIZE[0]}x{SIZE[1]}x24 -noreset", sys.executable, __file__,
                               *sys.argv[1:]])
    problems = soak(asked)
    return bool(summary(asked) or problems)


if __name__ == "__main__":
    sys.exit(main())
