"""What tools/gpu says of figures: whether a target is met, missed, or cannot be told.

    python tests/tools/gpu_targets_test.py
"""

import math
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/gpu"))

import targets


class Intervals(unittest.TestCase):
    def test_are_those_of_the_binomial_distribution(self):
        # Binomial(n, 1/2): of six rounds the range leaves 96.9 %, of five 93.8; of nine the second to the eighth 96.1.
        self.assertEqual(targets.median_interval([3, 1, 2, 6, 5, 4]), (3.5, 1, 6))
        self.assertTrue(math.isnan(targets.median_interval([1, 2, 3, 4, 5])[1]))
        self.assertEqual(targets.median_interval(list(range(9))), (4, 1, 7))


class Verdicts(unittest.TestCase):
    def verdict(self, values, load=1.0, least=1.2, most=None, sides=()):
        return targets.judged(targets.ratio_of(values, list(sides), load, 2), None if most else least, most)

    def test_need_the_whole_interval(self):
        self.assertEqual(self.verdict([1.3] * 6)["verdict"], "met")
        self.assertEqual(self.verdict([1.1] * 6)["verdict"], "missed")
        self.assertEqual(self.verdict([1.1, 1.3] * 3)["verdict"], "cannot be told")
        self.assertEqual(self.verdict([0.04] * 6, most=0.05)["verdict"], "met")
        self.assertEqual(self.verdict([0.06] * 6, most=0.05)["verdict"], "missed")

    def test_say_why_there_is_none(self):
        doubtful = {"rounds": {"values": [1.3] * 5}, "load": {"values": [1.3] * 6, "load": 2.6},
                    "factor": {"values": [1.3, 2.8] * 3}, "times": {"values": [1.3] * 6, "sides": [[1, 5]]}}
        for reason, asked in doubtful.items():
            found = self.verdict(**asked)
            self.assertEqual(found["verdict"], "cannot be told")
            self.assertIn(reason, found["reason"])
            line = targets.target_line({"shape": "1b", "n_tokens": 8192, "policy": "keydiff", "what": "time"} | found)
            self.assertNotIn("1.30", line)  # no figure where none can be told


    def test_of_a_share_is_by_its_distance_from_the_target(self):
        def verdict(shares):
            return targets.evictions_share({"eviction_share_rounds": shares}, 1.0, 2)
        self.assertEqual(verdict([0.01, 0.03] * 3)["verdict"], "met")  # an interval of any width
        self.assertEqual(verdict([0, 0.01] * 3)["verdict"], "met")  # nothing is a share too
        self.assertEqual(verdict([0.06, 0.18] * 3)["verdict"], "missed")
        self.assertIn("shares of one and the same work differ", verdict([0.01, 0.045] * 3)["reason"])


class Recorded(unittest.TestCase):
    def row(self, tool, turns, **more):
        return {"tool": tool, "ttft_ms_turns": turns, "block": 128, "n_tokens": 8192, "policy": "keydiff",
                "budget": 1024} | more

    def test_rounds_of_a_turn_are_paired(self):
        ours = self.row("keyscope", [[10, 20], [10, 20], [10, 20]], eviction_share_rounds=[0.04] * 6)
        part = SimpleNamespace(name="1b/keydiff 8192",
                               setting={"load": 0.5, "processors": 2, "peers": ["transformers"]},
                               rows=[ours, self.row("transformers", [[15, 30], [15, 30], [15, 30]])])
        ratio, share = targets.targets_of([part], {"1b": 1})
        self.assertEqual((ratio["value"], ratio["rounds"], ratio["verdict"]), (1.5, 6, "met"))
        self.assertEqual(share["verdict"], "met")

    def test_memory_is_flat_where_a_full_cache_would_not_be(self):
        def rows(peak, tokens=131072):
            return [self.row("keyscope", [[1]], budget=8192, n_tokens=n, peak_bytes=b)
                    for n, b in ((32768, 1e9), (tokens, peak))]
        self.assertEqual(targets.flatness(rows(1.04e9), 32768)["verdict"], "met")
        self.assertEqual(targets.flatness(rows(1.10e9), 32768)["verdict"], "missed")
        self.assertIn("too little", targets.flatness(rows(1.04e9), 32)["reason"])

    def test_fields_that_are_missing_leave_a_doubt(self):
        rows = [self.row("keyscope", [[1]], n_tokens=n, peak_bytes=1e9) for n in (32768, 131072)]
        for field, reason in (("budget", "rows were kept"), ("peak_bytes", "a peak is not known")):
            del rows[0][field]
            found = targets.flatness(rows, 32768)
            self.assertEqual(found["verdict"], "cannot be told")
            self.assertIn(reason, found["reason"])
            targets.target_line({"shape": "1b", "n_tokens": 131072, "policy": "keydiff"} | found)
        self.assertIsNone(found["value"])

    def test_a_peer_that_is_missing_is_said_to_be(self):
        part = SimpleNamespace(name="1b/keydiff 8192", setting={"peers": ["transformers"]},
                               rows=[self.row("keyscope", [[10]])])
        self.assertIn("was not measured", targets.targets_of([part], {"1b": 1})[-1]["reason"])


if __name__ == "__main__":
    unittest.main()
