#!/usr/bin/env python3
"""Changes a recording in a few bytes, many times, and lets commands read it: every one must end with exit status 0 or 1
and, where it refuses, with one sentence; none may crash, hang or take more memory than it should.

    tools/proof/damaged_recordings.py build/release/keyscope needle.h5 --changes 3000
"""

import argparse
import collections
import os
import pathlib
import random
import resource
import subprocess
import tempfile

SECONDS = 60
MEBIBYTES = 2048


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEBIBYTES << 20, MEBIBYTES << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def changed(sound, draw):
    """Half of the changes lie near the beginning, where what a file says of itself is densest."""
    damaged = bytearray(sound)
    reach = len(sound) if draw.random() < 0.5 else min(len(sound), 20_000)
    for _ in range(draw.randint(1, 4)):
        damaged[draw.randrange(reach)] = draw.randrange(256)
    if draw.random() < 0.1:
        del damaged[draw.randrange(len(damaged)):]
    return bytes(damaged)


def outcome(command):
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, preexec_fn=limited, check=False)
    except subprocess.TimeoutExpired:
        return "hangs"
    if done.returncode not in (0, 1):
        return f"ends with {done.returncode}"
    said = done.stderr.decode(errors="replace").splitlines()
    sentences = [line for line in said if line.startswith("keyscope: ") and not line.startswith("keyscope: warning: ")]
    if len(sentences) != done.returncode:
        return f"says {len(sentences)} sentences"
    return "read" if done.returncode == 0 else "refused"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("keyscope")
    parser.add_argument("recording")
    parser.add_argument("--changes", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    sound = pathlib.Path(asked.recording).read_bytes()
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "damaged.h5")
        commands = {
            "inspect": [asked.keyscope, "inspect", file],
            "analyze": [asked.keyscope, "analyze", file, "--no-bounds", "--quiet"],
            "figure": [asked.keyscope, "figure", file, "keyspace", "--out", os.path.join(folder, "f.svg"), "--force"],
        }
        for number in range(asked.changes):
            pathlib.Path(file).write_bytes(changed(sound, random.Random(f"{asked.seed} {number}")))
            for name, command in commands.items():
                found = outcome(command)
                counts[name, found] += 1
                if found not in ("read", "refused"):
                    kept = f"damaged-{asked.seed}-{number}.h5"
                    pathlib.Path(kept).write_bytes(pathlib.Path(file).read_bytes())
                    print(f"{name} {found}: {kept}", flush=True)
    for (name, found), n in sorted(counts.items()):
        print(f"{name}: {found} {n}")
    raise SystemExit(any(found not in ("read", "refused") for _, found in counts))


if __name__ == "__main__":
    main()
