"""How tools/gpu takes turns with a peer, here a few lines of Python, and what rows hold of it.

    python tests/tools/gpu_turns_test.py
"""

import os
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/gpu"))

from processes import Served
from turns import ROUNDS, Peer, Table

LONG_S = 60  # that no test waits for
# As peer.py says it.
BEGIN = """
import json, sys, time
def say(kind, what): print(json.dumps({kind: what}), flush=True)
def sample(ms): say("sample", {"tool": "fake", "policy": "none", "budget": None, "block": 8, "n_tokens": 64} | ms)
"""
ANSWERS = """
say("done", 0)
for line in sys.stdin:
    for i in range(int(line)): sample({"ttft_ms": 10 + i})
    say("done", int(line))
"""


class Peers(unittest.TestCase):
    def serve(self, script):
        served = Served([sys.executable, "-c", BEGIN + script], dict(os.environ), Path("/"))
        self.addCleanup(served.__exit__)
        self.logged = []
        return Peer("fake", served, self.logged.append)

    def setUp(self):
        self.table = Table()

    def soon(self, seconds=LONG_S):
        return time.monotonic() + seconds

    def test_rounds_are_heard_turn_by_turn(self):
        peer = self.serve(ANSWERS)
        peer.warm_up(self.soon(), self.table)
        for turn in range(2):
            peer.take(turn, self.soon(), self.table)
        self.assertTrue(peer.alive)
        self.assertFalse(peer.failed or peer.stopped or peer.notes)
        row, = self.table.rows()
        self.assertEqual(row["ttft_ms_turns"], [[10, 11]] * 2)
        self.assertEqual((row["repeat"], row["ttft_ms"]), (2 * ROUNDS, 10.5))
        self.assertEqual(len(self.logged), 1 + 2 * (ROUNDS + 1))

    def test_one_that_dies_has_failed_and_leaves_its_samples(self):
        peer = self.serve('say("done", 0)\nsys.stdin.readline()\nsample({"ttft_ms": 10})\nsys.exit("out of memory")\n')
        peer.warm_up(self.soon(), self.table)
        peer.take(0, self.soon(), self.table)
        self.assertTrue(peer.failed)
        self.assertFalse(peer.alive or peer.stopped)
        self.assertEqual(peer.notes, ["fake: out of memory"])
        self.assertEqual(peer.served.error_text(), "out of memory\n")
        self.assertEqual(self.table.rows()[0]["repeat"], 1)

    def test_one_that_is_absent_has_not_failed(self):
        peer = self.serve('say("absent", "no such package")\nsys.exit(3)\n')
        peer.warm_up(self.soon(), self.table)
        self.assertFalse(peer.alive or peer.failed or peer.stopped)
        self.assertEqual(peer.notes, ["no such package"])

    def test_one_that_hangs_is_stopped(self):
        peer = self.serve(f"time.sleep({LONG_S})\n")
        peer.warm_up(self.soon(0.3), self.table)
        self.assertTrue(peer.stopped)
        self.assertFalse(peer.alive or peer.failed)
        self.assertEqual(peer.notes, ["fake was stopped before it had warmed up"])
        self.assertIsNotNone(peer.served.process.poll())

    def test_one_that_hangs_in_its_turn_leaves_the_samples_before(self):
        peer = self.serve(f'say("done", 0)\nsys.stdin.readline()\nsample({{"ttft_ms": 10}})\ntime.sleep({LONG_S})\n')
        peer.warm_up(self.soon(), self.table)
        peer.take(0, self.soon(1), self.table)
        self.assertTrue(peer.stopped)
        self.assertEqual(peer.notes, ["fake was stopped at the limit"])
        self.assertEqual(self.table.rows()[0]["ttft_ms_turns"], [[10]])


class Rows(unittest.TestCase):
    def test_times_of_keyscope_leave_out_the_warm_up_and_shares_do_not(self):
        table = Table()
        table.add_keyscope(0, {"policy": "keydiff", "budget": 32, "block": 8, "n_tokens": 64, "schedule": "block",
                               "peak_cache_rows": 40, "peak_cache_bytes": 1000, "ttft_ms_rounds": [90, 10, 12],
                               "eviction_share": 0.02, "eviction_share_min": 0.01, "eviction_share_max": 0.09})
        row, = table.rows()
        self.assertEqual((row["ttft_ms_turns"], row["repeat"]), ([[10, 12]], 2))
        self.assertEqual(row["eviction_share_rounds"], [0.01, 0.02, 0.09])

    def test_rounds_to_the_first_token_are_only_where_they_were_taken(self):
        table = Table()
        table.add_peer(0, {"tool": "fake", "policy": "none", "budget": None, "block": 8, "n_tokens": 64, "plain_ms": 3})
        row, = table.rows()
        self.assertEqual(row["plain_ms"], 3)
        self.assertFalse({"repeat", "ttft_ms_turns"} & set(row))


if __name__ == "__main__":
    unittest.main()
