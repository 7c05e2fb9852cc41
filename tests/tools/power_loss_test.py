"""What tools/proof/power_loss.py says may be found after a power loss, of one file that is written anew.

    python tests/tools/power_loss_test.py
"""

import random
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/proof"))

from power_loss import GONE, KINDS, Disk, Inode

OLD, NEW = b"as it was", b"new " * 1024  # the new one in several sectors


def found(disk: Disk) -> set[bytes | None]:
    """What OUT may hold; None: there is no such file."""
    draw = random.Random(1)
    return {disk.found(kind, draw).get("out") for kind in KINDS * 100}


class Rewritten(unittest.TestCase):

    def setUp(self) -> None:
        self.disk = Disk({"out": OLD}, {"."})
        self.part = Inode()
        self.disk.change({"out.part": self.part})
        self.part.write(0, NEW)

    def rename(self) -> None:
        self.disk.change({"out": self.part, "out.part": GONE})

    def test_is_the_old_one_until_it_has_its_name(self) -> None:
        self.assertEqual(found(self.disk), {OLD})

    def test_is_old_or_new_where_data_come_before_the_name(self) -> None:
        self.part.sync()
        self.rename()
        self.assertEqual(found(self.disk), {OLD, NEW})
        self.disk.sync_folder(".")
        self.assertEqual(found(self.disk), {NEW})

    def test_is_torn_where_the_name_comes_before_data(self) -> None:
        self.rename()
        self.disk.sync_folder(".")
        self.assertNotIn(OLD, found(self.disk))
        self.assertIn(b"", found(self.disk))
        self.assertTrue(any(held not in (b"", NEW) for held in found(self.disk)))

    def test_is_cut_where_it_is_written_in_place(self) -> None:
        self.disk.names["out"].cut(0)
        self.disk.names["out"].write(0, NEW)
        self.assertTrue({OLD, b"", NEW} <= found(self.disk))


if __name__ == "__main__":
    unittest.main()
