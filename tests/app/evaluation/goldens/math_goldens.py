"""Writes math_goldens.json: answers in LaTeX as hendrycks_math and minerva_math of the lm-evaluation-harness
normalise and compare them, and whether math-verify takes two of them for the same.

    python3 math_goldens.py
"""

import importlib.util
import itertools
import json
import pathlib
import random
import re
from importlib.metadata import version

from math_verify import LatexExtractionConfig, parse, verify

SEED = 5
HERE = pathlib.Path(__file__).parent
ANSWERS = [
    r"\frac{1}{2}", r"\dfrac{1}{2}", r"\tfrac12", r"\frac12", r"1/2", "0.5", ".5", "{.5}", r"\frac1{2}", r"\frac{1}2",
    r"-\frac{2}{3}", r"\frac{-2}{3}", "-2/3", r"\sqrt2", r"\sqrt{2}", r"\sqrt 2", r"2\sqrt3", r"2\sqrt{3}",
    r"\sqrt{12}", r"\sqrt[3]{8}", r"\sqrt[3]8", "2", "2.0", "02", "+2", "x=2", "x = 2", "k=2", "abc=2", "5 \\text{ cm}",
    "5", r"5\text{ cm}\text{ or so}", r"5\text{cm}", "5cm", r"90^\circ", r"90^{\circ}", "90", r"90\text{ degrees}",
    r"50\%", "50%", "50", r"\$32{,}348", "32348", "32,348", "1,000,000", "1000000", "0,1", "(0,1)", "(0, 1)",
    r"\left(0, 1\right)", r"(3, \frac{\pi}{2})", r"\left( 3, \frac{\pi}{2} \right)", "(3,\\pi/2)", "[2,5)", r"\left[2,5\right)",
    r"(-\infty, 3]", r"\{1, 2\}", r"\{2,1\}", "1,2", "2,1", "1, -2", "x^2+1", "1+x^2", "x^2 + 2x + 1", "(x+1)^2",
    "x^3", r"\text{Evelyn}", "Evelyn", r"\text{(C)}", "(C)", "C", r"\mbox{C}", r"\text{even}", "even", r"\pi", r"2\pi", r"\pi\cdot2",
    r"\frac{3\pi}{4}", "3\\pi/4", r"\frac{\sqrt{3}}{2}", r"\frac{\sqrt3}2", r"\sqrt{3}/2", "6 - 5i", "6-5i", "-5i+6",
    r"3\frac{1}{2}", r"\frac{7}{2}", "3.5", "11\\sqrt2", r"11\sqrt{2}", "2^{10}", "1024", "4!", "24", r"10\cdot3",
    "30", r"10\times 3", "204_5", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}",
    "y = 2x + 3", "2x+3", "3+2x", r"\theta", "a an the", "", " ", "x/2", r"x \in [-2,7]", r"\frac", r"\sqrt", "frac", "a/b/c", "3/4",
    "3 / 4", r"\frac{a}{b}", "12 square feet", "12", r"12\text{ ft}^2", "13 \\mbox{ inches}", "13", r"\boxed{7}", "7", "$7$",
    r"the answer $\frac{3}{4}$ it is", r"\overline{AB}", "AB", r"\textbf{9}", "9", r"1{,}000", "1000", r"10^{-3}", "0.001",
    "|x|", r"\left|x\right|", r"e^{2}", "e^2", "99th", r"99\mathrm{th}", "four", "\\sqrt{\\sqrt2}", "x\ny", "1\n2",
]
SOLUTIONS = [
    r"We get $\frac{6}{8} = \boxed{\frac{3}{4}}$.", r"First \boxed{1}, then \boxed{{2}}.", r"\fbox{3} or \boxed{4}",
    r"it is $\boxed 5$ then", r"\boxed{\text{(C)}} it is", r"\boxed{6", "no box", "", r"\boxed{}", r"$\boxed{\left\{1, 2\right\}}$",
    "lines\n\\boxed{7}\nmore {braces} and } others",
]
NUMBERS = ["12 and 13", "-4", "5-3", "a 1,234.5 b", "it costs $5.", "3 4 5", "7,", "x9y", "-$2.50 each", "1.000,00", "- 8"]
DIGITS = ["1", "2", "3", "10", "12"]


# Expressions of whole numbers and x, of which many pairs are equal.
def drawn(generator, depth=2):
    if depth == 0 or generator.random() < 0.25:
        return generator.choice(DIGITS + ["x"])
    a, b = drawn(generator, depth - 1), drawn(generator, depth - 1)
    form = generator.choice([r"{a}+{b}", r"({a})({b})", r"\frac{{{a}}}{{{b}}}", r"{a}\cdot {b}", r"({a})-({b})",
                             r"\sqrt{{{a}}}", r"({a})^{{2}}", r"-({a})"])
    return form.format(a=a, b=b)


# The same in another way of writing.
def rewritten(generator, text):
    for old, new in [(r"\cdot ", "*"), (r"\frac", r"\dfrac"), ("(", r"\left("), (")", r"\right)"), ("+", " + "),
                     (r"\cdot ", r"\times ")]:
        if generator.random() < 0.5:
            text = text.replace(old, new)
    return text


def load(task):
    root = pathlib.Path(importlib.util.find_spec("lm_eval").origin).parent / "tasks" / task / "utils.py"
    spec = importlib.util.spec_from_file_location(task, root)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def normal_or_none(hendrycks, text):
    try:
        return hendrycks.strip_string(text)
    except Exception:
        return None


def boxed_or_none(hendrycks, text):
    try:
        return hendrycks.remove_boxed(hendrycks.last_boxed_only_string(text))
    except (AssertionError, TypeError):
        return None


# `flexible-extract` of gsm8k.yaml in the same harness.
def last_number(text):
    return ["".join(groups) for groups in re.findall(r"(-?[$0-9.,]{2,})|(-?[0-9]+)", text)][-1]


def same(first, second):
    config = [LatexExtractionConfig(boxed_match_priority=0)]
    parsed = [parse(f"$\\boxed{{{text}}}$", extraction_config=config) for text in (first, second)]
    return bool(verify(parsed[0], parsed[1]))


def main():
    hendrycks, minerva = load("hendrycks_math"), load("minerva_math")
    generator = random.Random(SEED)
    pairs = [pair for pair in itertools.combinations(ANSWERS, 2)
             if hendrycks.is_equiv(*pair) or generator.random() < 0.02]
    values = []
    for _ in range(250):
        text = drawn(generator)
        values.append((text, rewritten(generator, text) if generator.random() < 0.5 else drawn(generator)))
    goldens = {
        "versions": {"lm_eval": "0.4.13", "math-verify": version("math-verify"), "sympy": version("sympy"), "seed": SEED},
        "boxed": [{"text": text, "answer": boxed_or_none(hendrycks, text)} for text in SOLUTIONS],
        "numbers": [{"text": text, "answer": last_number(text)} for text in NUMBERS],
        "answers": [{"text": text, "hendrycks": normal_or_none(hendrycks, text),
                     "minerva": minerva.normalize_final_answer(text)} for text in ANSWERS],
        "equal": [[a, b, bool(hendrycks.is_equiv(a, b))] for a, b in pairs],
        "same": [[a, b, same(a, b)] for a, b in values],
    }
    with open(HERE / "math_goldens.json", "w", encoding="utf-8") as file:
        json.dump(goldens, file, indent=0, ensure_ascii=True)
        file.write("\n")


if __name__ == "__main__":
    main()
