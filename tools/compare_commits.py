"""Whether anything was lost between two commits of Keyscope.

Both programs run the same commands in folders of the same layout, so that whatever they print or write can be
compared byte by byte. The recordings that figures and numbers are made from are those of the old program, for both.
What has to differ (times, the version) is listed in compare_programs.py, what is meant to differ in
tests/renamed_cases.txt. Needs Debian's python3-h5py; runs one process at a time.
"""

import argparse
import sys
from pathlib import Path

from compare_programs import PROGRAM_PARTS, compare_programs
from compare_sources import ROOT, Verdict, compare_names, print_trees, sources

PARTS = ("names", "tree", *PROGRAM_PARTS)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/compare_commits.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD", help="a commit")
    parser.add_argument("new", metavar="NEW", help="a commit, or . for the working tree")
    parser.add_argument("--old-program", type=Path, help="keyscope of OLD (default: built in a git worktree in --out)")
    parser.add_argument("--new-program", type=Path, help="keyscope of NEW (likewise)")
    parser.add_argument("--out", type=Path, default=ROOT / "build/compare", help="folder of artefacts; those of OLD "
                        "are used again by later runs (default: build/compare)")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"only these, of {','.join(PARTS)}")
    parser.add_argument("--recordings", type=Path, metavar="DIR", help="recordings to draw and analyse as well")
    parser.add_argument("--results", type=Path, metavar="PATH", help="JUnit XML of NEW's tests, a file or a folder: "
                        "every case must have passed")
    given = parser.parse_args()
    given.parts = given.parts.split(",")
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    given.programs = [part for part in given.parts if part not in ("names", "tree")]
    if given.programs and given.new == "." and not given.new_program:
        parser.error("the working tree has no program of its own: give --new-program, or --parts names,tree")
    return given


def report(part: str, verdict: Verdict) -> None:
    print(f"{part}:")
    for title, lines in (("lost or changed", verdict.lost), ("intended", verdict.intended), ("note", verdict.notes)):
        for line in lines:
            print(f"  {title}: {line}")
    for name, count in sorted((+verdict.varied).items()):
        print(f"  varied and left out, {count} times: {name}")
    sys.stdout.flush()


def main() -> int:
    given, verdicts = arguments(), {}
    trees = [sources(commit) for commit in (given.old, given.new)] if {"names", "tree"} & {*given.parts} else []
    if "names" in given.parts:
        verdicts["names"] = compare_names(*trees, given.results)
        report("names", verdicts["names"])
    if "tree" in given.parts:
        verdicts["tree"] = print_trees(*trees)
    for part, verdict in compare_programs(given) if given.programs else ():
        verdicts[part] = verdict
        report(part, verdict)
    columns = ("compared", "same bytes", "but for fields", "same content", "not compared")
    print(f"\n{'part':10}", *(f"{x:>14}" for x in (*columns, "intended", "lost", "seconds")), " verdict")
    for part, verdict in verdicts.items():
        numbers = [*(verdict.counts[column] for column in columns), len(verdict.intended), len(verdict.lost)]
        print(f"{part:10}", *(f"{x:>14}" for x in numbers), f"{verdict.seconds:>14.0f}",
              " LOST" if verdict.lost else " nothing lost")
    if (given.out / "differences").exists():
        print(f"All differences in full: {given.out / 'differences'}")
    return int(any(verdict.lost for verdict in verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
