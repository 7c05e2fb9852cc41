"""The sources of two commits: which test cases they have, and the sizes of the product's files."""

import io
import re
import statistics
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as xml
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
LISTED = ROOT / "tests/renamed_cases.txt"


@dataclass
class Verdict:
    """What a part found: `lost` has what makes the comparison fail, `intended` what the list allows."""

    counts: Counter = field(default_factory=Counter)
    varied: Counter = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    intended: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0


def listed() -> dict[str, tuple[str, str]]:
    """tests/renamed_cases.txt: what is no longer as it was -> (what it is now, why)."""
    lines = [line.split(maxsplit=2) for line in LISTED.read_text().splitlines() if line and not line.startswith("#")]
    if bad := [line for line in lines if len(line) != 3]:
        sys.exit(f"{LISTED}: expected a name, its new name or -, and a reason, found: {' '.join(bad[0])}")
    return {old: (new, why) for old, new, why in lines}


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True).stdout


def sources(commit: str) -> dict[str, str]:
    """Text files of a commit, or of the working tree for `.`, by path; without assets and goldens."""
    if commit == ".":
        paths = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").decode().split("\0")
        files = {path: (ROOT / path).read_bytes() for path in paths if path and (ROOT / path).is_file()}
    else:
        with tarfile.open(fileobj=io.BytesIO(git("archive", commit))) as archive:
            files = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
    return {path: data.decode() for path, data in files.items()
            if not re.search(r"(^assets|goldens|images)/", path) and re.search(r"\.(\w?pp|sh|py|txt|frag|vert)$", path)}


CASE = re.compile(r"^[ \t]*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)([^\n]*\}$|.*?^\})", re.M | re.S)
INSTANCE = re.compile(r"^[ \t]*INSTANTIATE_(?:TYPED_)?TEST_SUITE_P\(\s*(\w*)\s*,\s*(\w+)\s*,", re.M)
LOOP = re.compile(r"foreach\((\w+) ([^)]*)\)(.*?)endforeach\(\)", re.S)
PROGRAM = re.compile(r"add_test\(NAME\s+(\S+)|add_executable\((fuzz_\w+)")


def first_argument(text: str) -> str:
    """The text up to the comma or parenthesis that ends an argument, without spaces, namespaces and type names."""
    depth = 0
    for end, letter in enumerate(text):
        if depth == 0 and letter in ",)":
            break
        depth += (letter in "([{") - (letter in ")]}")
    return re.sub(r"(?:\w*::)+|\w+(?=\{)|\s+", "", text[:end])


def test_names(files: dict[str, str]) -> tuple[Counter, dict[str, set[str]], Counter, list[str]]:
    """How often each test case is there, the values of each instance, assertions by case, and what is not built."""
    cases, instances, assertions, unbuilt = Counter(), defaultdict(set), Counter(), []
    lists = "".join(text for path, text in files.items() if path.endswith("CMakeLists.txt"))
    for path, text in files.items():
        if path.startswith("tests/") and path.endswith(".cpp"):
            found = [(f"{suite}.{case}", body) for suite, case, body in CASE.findall(text)]
            if found and not re.search(rf"\b{Path(path).stem}\b", lists):
                unbuilt.append(path)
                continue
            cases.update(name for name, _ in found)
            for name, body in found:
                assertions[name] += len(re.findall(r"\b(?:EXPECT|ASSERT)_", body))
            for match in INSTANCE.finditer(text):
                instances[f"{match[1]}/{match[2]}"].add(first_argument(text[match.end():]))
        elif path.endswith("CMakeLists.txt"):
            unrolled = LOOP.sub(lambda m: "".join(m[3].replace(f"${{{m[1]}}}", x) for x in m[2].split()), text)
            cases.update(a or b for a, b in PROGRAM.findall(unrolled) if "$" not in a)
    return cases, instances, assertions, unbuilt


def results(path: Path) -> dict[str, set[str]]:
    """passed, failed or skipped of each Suite.Case: JUnit XML by GoogleTest (--gtest_output=xml) or by ctest."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in sorted(path.rglob("*.xml")) if path.is_dir() else [path]:
        for case in xml.parse(file).iter("testcase"):
            name, suite = case.get("name", ""), case.get("classname", "")
            match = re.match(r"(?:\w+/)?(\w+\.\w+)", name if suite == name else f"{suite}.{name}")
            failed = case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail"
            skipped = case.find("skipped") is not None or case.get("status") == "notrun"
            found[match[1] if match else name].add("failed" if failed else "skipped" if skipped else "passed")
    return found


def compare_names(old: dict[str, str], new: dict[str, str], new_results: Path | None) -> Verdict:
    verdict, allowed = Verdict(), listed()
    (old_cases, old_instances, old_assertions, _), (cases, instances, assertions, unbuilt) = map(test_names, (old, new))
    ran = results(new_results) if new_results else {}
    verdict.counts.update(compared=old_cases.total() + len(old_instances))
    verdict.lost += [f"{path}: has test cases, and no CMakeLists.txt names it" for path in unbuilt]
    for name, count in sorted(old_cases.items()):
        target, why = allowed.get(name, (name, ""))
        if cases[name] >= count:
            target = name
        elif name in allowed and (target == "-" or cases[target]):
            verdict.intended.append(f"{name} -> {target}: {why}")
        else:
            verdict.lost.append(f"{name}: {cases[name]} of {count} left" + (f", and no {target}" if why else ""))
            continue
        outcomes = ran.get(target, {"did not run"}) if new_results and not re.match("-|fuzz_", target) else set()
        verdict.lost += [f"{target}: {outcome}" for outcome in sorted(outcomes & {"failed", "did not run"})]
        verdict.notes += [f"{target}: skipped"] * ("skipped" in outcomes)
        if assertions[target] < old_assertions[name] and target != "-":
            verdict.notes.append(f"{target}: {old_assertions[name]} assertions, now {assertions[target]}")
    for name, values in sorted(old_instances.items()):
        target, why = allowed.get(name, (name, ""))
        if values <= instances[name]:
            continue
        if why and (target == "-" or instances[target]):
            verdict.intended.append(f"{name} -> {target}: {why}")
        else:
            verdict.lost.append(f"{name}: its values are not the same\n    old {values}\n    new {instances[name]}")
    verdict.notes.append(f"{sum((cases - old_cases).values())} cases are new: {cases.total()} in all")
    return verdict


# Product: what the program is built from. Not its CMake files, nor tests, benchmarks, tools, assets or pages.
PRODUCT = re.compile(r"(base|analysis|capture|app|shaders)/.*\.(hpp|cpp|frag|vert|glsl)$")


def measure_tree(files: dict[str, str]) -> dict[str, str]:
    """Rows of the table of trees. A header's users are the product files that include it, less its own source."""
    n_lines = {path: text.count("\n") for path, text in files.items()}
    product = {path: n for path, n in n_lines.items() if PRODUCT.match(path)}
    tests = {path: n for path, n in n_lines.items() if re.match(r"tests/.*\.(hpp|cpp|sh|py)$", path)}
    users: dict[str, set[str]] = defaultdict(set)
    for path in [*product, *tests]:
        for header in re.findall(r'^#include "([^"]+)"', files[path], re.M):
            users[header].add(path)
    headers = [path for path in product if path.endswith(".hpp")]
    of_product = {h: [u for u in users[h] if u in product and u[:-4] != h[:-4]] for h in headers}
    one_user = [h for h in headers if len(of_product[h]) == 1]
    largest = max(product, key=product.get)

    def median(suffix: str) -> str:
        return f"{statistics.median(n for path, n in product.items() if path.endswith(suffix)):.0f}"

    def share(keep: Callable[[int], bool]) -> str:
        return f"{100 * sum(map(keep, product.values())) / len(product):.0f} %"

    return {"product files": f"{len(product):,}", "product lines": f"{sum(product.values()):,}",
            "folders of product files": str(len({str(Path(p).parent) for p in product})), "median lines": median(""),
            "median lines of sources": median(".cpp"), "median lines of headers": median(".hpp"),
            "90th percentile": f"{np.percentile(list(product.values()), 90):.0f}",
            "under 60 lines": share(lambda n: n < 60), "150 to 500 lines": share(lambda n: 150 <= n <= 500),
            "over 500 lines": share(lambda n: n > 500), "largest": f"{largest} ({product[largest]})",
            "headers": str(len(headers)), "headers with exactly one user": str(len(one_user)),
            "of these read by a test too": str(sum(any(u in tests for u in users[h]) for h in one_user)),
            "headers without a user": str(sum(not of_product[h] for h in headers)),
            "test files": str(len(tests)), "test lines": f"{sum(tests.values()):,}"}


def print_trees(old: dict[str, str], new: dict[str, str]) -> Verdict:
    before, after = measure_tree(old), measure_tree(new)
    print(f"tree: {'OLD':>69} {'NEW':>44}")
    for name, value in before.items():
        print(f"  {name:30} {value:>44} {after[name]:>44}")
    return Verdict(counts=Counter(compared=len(before)))
