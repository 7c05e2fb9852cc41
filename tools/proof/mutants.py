#!/usr/bin/env python3
"""Makes small faults in C++ sources, one at a time, and says which of them the tests notice.

    tools/proof/mutants.py analysis/*.cpp analysis/policies/*.cpp --target analysis_test --count 200 --out analysis.jsonl
    tools/proof/mutants.py capture/inference/eviction.cpp --target inference_test --filter '*Evict*' --out eviction.jsonl
    tools/proof/mutants.py --again analysis.jsonl --target analysis_test --out again.jsonl    # the survivors once more

The checkout itself is only read: its files, those that git does not know yet included, are copied to --tree, where the
faults are made and where the target is built, every source by itself and without warnings. A copy that is there is
brought up to date, so that later runs build little. Of a mutant that does not compile nothing is said. A line of
--out is a mutant: what was changed where, and whether a test failed ("killed"), ran out of time ("time") or not
("survived"). Ends with 1 where a mutant survived.
"""

import argparse
import collections
import dataclasses
import filecmp
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import time

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
MEMORY = 12 << 30

SWAPPED = {
    "comparison": {"<": ["<=", ">"], "<=": ["<", ">"], ">": [">=", "<"], ">=": [">", "<"], "==": ["!="], "!=": ["=="]},
    "arithmetic": {"+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "+=": ["-="], "-=": ["+="], "*=": ["/="],
                   "/=": ["*="]},
    "logic": {"&&": ["||"], "||": ["&&"]},
}
STEPS = {"++": "--", "--": "++"}
EXTREMES = {"min": "max", "max": "min", "minCoeff": "maxCoeff", "maxCoeff": "minCoeff"}
# What is only said: faults in it are for tests of messages.
MESSAGES = re.compile(r"\bthrow\b|\b(?:fmt::format|refuse|InvalidInput|UsageError|FileError)\s*\(")
HIDDEN = re.compile(r"""//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|(?<![\w'])'(?:\\.|[^'\\\n])+'"""
                    r"""|^[ \t]*#(?:\\\n|[^\n])*""", re.DOTALL | re.MULTILINE)
ASSIGNMENT = re.compile(r"(?:\*?this->|\*)?[A-Za-z_][\w.]*(?:(?:->|\.|::)[\w.]+|\[[^;{}]*?\]|\([^;{}=]*?\))*"
                        r"\s(?:=|\+=|-=|\*=|/=)\s[^;{}]*;")
CALL = re.compile(r"(?!return\b|throw\b|if\b|for\b|while\b|switch\b|using\b|static_assert\b|case\b|else\b|do\b)"
                  r"[A-Za-z_][\w.]*(?:(?:->|\.|::)[\w.]+|\[[^;{}]*?\])*\([^;{}]*\);")


@dataclasses.dataclass(frozen=True)
class Mutant:
    file: str
    at: int
    operator: str
    before: str
    after: str

    def applied(self, text: str) -> str:
        if not text.startswith(self.before, self.at):
            raise SystemExit(f"{self.file}: at {self.at} no longer stands {self.before!r}; make the mutants anew")
        return text[:self.at] + self.after + text[self.at + len(self.before):]

    def place(self, text: str) -> dict:
        """Of use also after lines were added elsewhere in the file."""
        start = text.rfind("\n", 0, self.at) + 1
        return {"line": text.count("\n", 0, self.at) + 1, "column": self.at - start + 1,
                "text": text[start:].split("\n", 1)[0].strip()}


def blanked(text: str) -> str:
    """The source with blanks where comments, strings, directives and messages stand, as long as before."""
    def blank(part: str) -> str:
        return re.sub(r"[^\n]", " ", part)

    code = HIDDEN.sub(lambda found: blank(found[0]), text)
    while found := MESSAGES.search(code):
        opens = found[0].endswith("(")
        end = closing(code, found.end() - 1) + 1 if opens else code.index(";", found.end())
        code = code[:found.start()] + blank(code[found.start():end]) + code[end:]
    return code


def closing(code: str, opening: int) -> int:
    """Where the bracket that opens there closes."""
    depth = 0
    for at in range(opening, len(code)):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if depth == 0:
            return at
    return len(code) - 1


def body_start(code: str) -> int:
    """What stands before the first function or class is declarations."""
    found = re.search(r"[)\w]\s*\{\n(?!\s*namespace)", code)
    return found.start() if found else 0


def operator_mutants(code: str):
    """Binary operators stand between blanks, unlike template brackets, pointers and references."""
    for found in re.finditer(r"(?<=[\w)\]}] )([<>=!]=|[<>+\-*/]=?|&&|\|\|)(?=[ \n])", code):
        for operator, table in SWAPPED.items():
            for other in table.get(found[1], []):
                yield found.start(1), operator, found[1], other
    for found in re.finditer(r"\+\+|--", code):
        yield found.start(), "step", found[0], STEPS[found[0]]
    for found in re.finditer(r"\b(min|max|minCoeff|maxCoeff)(?=(?:<[\w:]+>)?\((?!\)))|\b(?:min|max)Coeff(?=\(\))", code):
        yield found.start(), "extreme", found[0], EXTREMES[found[0]]


def constant_mutants(code: str):
    for found in re.finditer(r"(?<![\w.<'])(\d+(?:\.\d*)?(?:e-?\d+)?)(?![\w.'>])", code):
        for change in (1, -1):
            number = found[1]
            other = str(int(number) + change) if number.isdigit() else f"({number} + {change})"
            yield found.start(), "constant", number, other if not other.startswith("-") else f"({other})"


def condition_mutants(code: str):
    for found in re.finditer(r"\b(?:if|while) \(", code):
        end = closing(code, found.end() - 1)
        start = found.end()
        if ";" in code[start:end]:
            start = code.rindex(";", start, end) + 2
        condition = code[start:end]
        if not re.search(r"[^=!<>]=[^=]", condition):
            yield start, "negated", condition, f"!({condition})"


def statement_mutants(code: str):
    for found in re.finditer(r"(?:(?<=[;{}])\s*\n\s*|(?<=\)) |(?<=\))\n\s*|\belse )", code):
        for pattern in (ASSIGNMENT, CALL):
            if (statement := pattern.match(code, found.end())) and ".reserve(" not in statement[0]:
                yield statement.start(), "removed", statement[0], "{}"
    for found in re.finditer(r"\breturn ([^;{}]+);", code):
        if found[1] not in ("nullptr", "false", "0", "{}"):  # which are the same
            yield found.start(1), "return 0", found[1], "{}"


def mutants_of(file: str) -> list[Mutant]:
    text = (CHECKOUT / file).read_text()
    code = blanked(text)
    start = body_start(code)
    found = []
    for maker in (operator_mutants, constant_mutants, condition_mutants, statement_mutants):
        for at, operator, before, after in maker(code):
            exact = text[at:at + len(before)]  # what was blanked of it, too
            if at >= start and not before[0].isspace():
                found.append(Mutant(file, at, operator, exact, after.replace(before, exact)))
    return found


def drawn(files: list[str], count: int, seed: int) -> list[Mutant]:
    """Every operator has its turn, so that constants, the most, do not crowd out the others."""
    draw = random.Random(seed)
    kinds = collections.defaultdict(list)
    for file in files:
        for mutant in mutants_of(file):
            kinds[mutant.operator].append(mutant)
    for kind in kinds.values():
        draw.shuffle(kind)
    chosen = []
    while len(chosen) < count and any(kinds.values()):
        chosen += [kind.pop() for kind in kinds.values() if kind]
    order = {file: draw.random() for file in files}  # so that a run that is broken off is a sample, too
    return sorted(chosen[:count], key=lambda mutant: (order[mutant.file], mutant.at))  # a file's are built in a row


class Copy:
    """A copy of the checkout, in which faults are made, and what is built of it."""

    def __init__(self, folder: pathlib.Path, target: str, jobs: int):
        self.folder, self.build, self.target = folder, folder / "build" / "develop", target
        self.ninja = ["ninja", "-C", str(self.build), f"-j{jobs}", target]
        self.bring_up_to_date()
        if not (self.build / "build.ninja").exists():
            subprocess.run(["cmake", "--preset", "develop", "-DCMAKE_CXX_FLAGS=-w", "-DKEYSCOPE_BENCHMARKS=OFF",
                            "-DKEYSCOPE_CCACHE="], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    def bring_up_to_date(self):
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=CHECKOUT,
                                check=True, capture_output=True, text=True).stdout
        for name in filter(None, listed.split("\0")):
            source, copy = CHECKOUT / name, self.folder / name
            if source.is_file() and not (copy.exists() and filecmp.cmp(source, copy, shallow=False)):
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, copy)
        if not (self.folder / ".deps").exists():
            (self.folder / ".deps").symlink_to(CHECKOUT / ".deps")

    def built(self) -> bool:
        return subprocess.run(self.ninja, capture_output=True, check=False).returncode == 0

    def own_suites(self, file: str) -> str:
        """Those of the source's own test, which is the likeliest to fail and is run first."""
        tests = (self.folder / "tests").rglob(pathlib.Path(file).stem + "_test.cpp")
        suites = {suite for test in tests for suite in re.findall(r"^TEST(?:_[FP])?\((\w+),", test.read_text(), re.MULTILINE)}
        return ":".join(f"{suite}.*:*/{suite}.*" for suite in sorted(suites))

    def tested(self, choice: str, seconds: float) -> str:
        def limited():
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        command = [str(self.build / self.target), "--gtest_fail_fast", "--gtest_brief=1", f"--gtest_filter={choice}"]
        with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", start_new_session=True, preexec_fn=limited) as running:
            try:
                said, _ = running.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                return "time"
        self.failed = re.findall(r"^\[  FAILED  \] ([\w/.]+)", said, re.MULTILINE)[:1]
        return "survived" if running.returncode == 0 else "killed"

    def outcome(self, mutant: Mutant, choice: str, seconds: float) -> str:
        file = self.folder / mutant.file
        sound = file.read_text()
        try:
            file.write_text(mutant.applied(sound))
            self.failed = []
            if not self.built():
                return "does not compile"
            own = self.own_suites(mutant.file)
            found = self.tested(own, seconds) if own else "survived"
            return self.tested(choice, seconds) if found == "survived" else found
        finally:
            file.write_text(sound)


def read_again(path: str) -> list[Mutant]:
    """Survivors of an earlier run, where they stand now."""
    found = []
    for line in pathlib.Path(path).read_text().splitlines():
        said = json.loads(line)
        if said["outcome"] != "survived":
            continue
        text = (CHECKOUT / said["file"]).read_text()
        places = []
        for mutant in mutants_of(said["file"]):
            place = mutant.place(text)
            if all(said[key] == (place | vars(mutant))[key] for key in ("operator", "before", "after", "column", "text")):
                places.append((abs(place["line"] - said["line"]), mutant))
        if places:
            found.append(min(places, key=lambda each: each[0])[1])
        else:
            print(f"{said['file']}:{said['line']}: was changed since; left out")
    return found


def summary(results: list[dict]):
    width = max(len(result["file"]) for result in results)
    counts = collections.defaultdict(collections.Counter)
    for result in results:
        if result["outcome"] != "does not compile":
            for row in (result["file"], os.path.dirname(result["file"]) + "/", "all"):
                counts[row][result["outcome"]] += 1
    print(f"{'':{width}}  mutants  killed  by time  survived  share")
    for row, n in sorted(counts.items(), key=lambda item: (item[0] == "all", item[0])):
        noticed = n["killed"] + n["time"]
        print(f"{row:{width}}  {n.total():7}  {n['killed']:6}  {n['time']:7}  {n['survived']:8}  "
              f"{noticed / n.total():5.0%}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", help="from the top of the checkout")
    parser.add_argument("--target", required=True, help="the test program")
    parser.add_argument("--filter", default="*", help="as --gtest_filter; by default all its tests")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", help="lines of an earlier run, whose survivors are tried once more")
    parser.add_argument("--tree", type=pathlib.Path, default=CHECKOUT / "build" / "mutants" / "tree")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", required=True, help="a line of JSON for each mutant")
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    return parser.parse_args()


def main():
    asked = arguments()
    mutants = read_again(asked.again) if asked.again else drawn(asked.sources, asked.count, asked.seed)
    if asked.list:
        for mutant in mutants:
            line = mutant.place((CHECKOUT / mutant.file).read_text())["line"]
            print(f"{mutant.file}:{line}: {mutant.operator}: {mutant.before!r} -> {mutant.after!r}")
        return
    copy = Copy(asked.tree, asked.target, asked.jobs)
    if not copy.built():
        raise SystemExit(f"{asked.target} cannot be built in {asked.tree}: {' '.join(copy.ninja)}")
    start = time.monotonic()
    if copy.tested(asked.filter, 3600) != "survived":
        raise SystemExit(f"{asked.target} fails without a fault: {copy.failed}")
    limit = 5 + 3 * (time.monotonic() - start)
    results = []
    with open(asked.out, "w", encoding="utf-8") as out:
        for mutant in mutants:
            start = time.monotonic()
            outcome = copy.outcome(mutant, asked.filter, limit)
            place = mutant.place((CHECKOUT / mutant.file).read_text())
            results.append({"file": mutant.file} | place | {
                "operator": mutant.operator, "before": mutant.before, "after": mutant.after, "outcome": outcome,
                "test": "".join(copy.failed), "seconds": round(time.monotonic() - start, 1)})
            print(json.dumps(results[-1]), file=out, flush=True)
    copy.built()
    summary(results)
    raise SystemExit(any(result["outcome"] == "survived" for result in results))


if __name__ == "__main__":
    main()
