#!/usr/bin/env python3
"""Golden splits: what Hugging Face's `tokenizers` library cuts texts into by regular expressions whose meaning
Oniguruma's syntax decides, under every behaviour.

    python make_split_goldens.py        writes splits.golden.json here

Made with tokenizers 0.23.3. Nothing is drawn at random.
"""

import json
import pathlib

from tokenizers import Regex, normalizers, pre_tokenizers

HERE = pathlib.Path(__file__).parent

EXPRESSIONS = {
    "a plus behind an interval is greedy, not possessive": r"\p{N}{1,3}+",
    "newer cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"
                    r"|\s*[\r\n]|\s+(?!\S)|\s",
    "BLOOM": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "Kimi": r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
            r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "a hexadecimal digit": r"\h+",
    "line beginnings": r"^.",
    "line ends": r".$",
    "lower bound left out": r"a{,2}b",
    "nested classes": r"[a-c[x-z]]+",
    "intersection": r"[\p{L}&&[^aeiou]]+",
    "a parenthesis and a bracket in a class": r"[(\[]+",
    "words": r"\w+",
    "edges of words": r"\b",
    "posix": r"[[:alpha:]]+|[[:digit:]]+|[[:^space:]]",
    "spaces": r"\s",
    "empty matches": r"x*",
    "look behind": r"(?<=\d)(?=(\d\d\d)+(?!\d))",
    "back reference": r"(.)\1",
    "absence and atoms": r"(?>a+)b|\Z|\X",
    "options": r"(?i)straße|(?m:a.b)|(?x: d  e)",
    "properties": r"\p{Greek}+|\p{^Alpha}|\P{Lu}{2}",
    "any line break": r"\R",
}

TEXTS = [
    "", "x", "Numbers 7654321 and 89", "face feed\tdecade 12", "first\nsecond\r\nthird\n", "bb b  bbb\n\na aab ab",
    "Straße STRASSE straSSe ﬁ", "naïve Ελληνικά кириллица हिन्दी 中文字 かな ١٢٣ ½ Ⅷ", "a|b (c) [d] {e} ]x[",
    "don't I'LL we've 'S x's", "a\x0bb\x0cc\x85d\u2028e\u180ef\u00a0g\u3000h\u200bi", "e\u0301 🙂👩‍👩‍👧 🇩🇪",
    "tail   ", "  \n  \n ", "a\nb a\r\nb de d e", "αβγ ABC xyz", "xxaxx", "Aa1_b-2", "مرحبا، العالم۔ नमस्ते। 你好。", "aaab aab b",
]

BEHAVIOURS = {"Isolated": "isolated", "Removed": "removed", "MergedWithPrevious": "merged_with_previous",
              "MergedWithNext": "merged_with_next", "Contiguous": "contiguous"}


def pieces(expression, behaviour, invert, text):
    split = pre_tokenizers.Split(Regex(expression), behaviour, invert)
    return [piece for piece, _ in split.pre_tokenize_str(text)]


def main():
    cases = []
    for name, expression in EXPRESSIONS.items():
        case = {"name": name, "expression": expression, "splits": {}}
        for text in TEXTS:
            case.setdefault("isolated", []).append(pieces(expression, "isolated", False, text))
            case.setdefault("replaced", []).append(normalizers.Replace(Regex(expression), "<>").normalize_str(text))
        for behaviour, word in BEHAVIOURS.items():
            for invert in (False, True):
                text = "Numbers 7654321\n (xaab) x\n"
                case["splits"][f"{behaviour}{' inverted' if invert else ''}"] = pieces(expression, word, invert, text)
        case["split"] = text
        cases.append(case)
    with open(HERE / "splits.golden.json", "w", encoding="utf-8") as file:
        json.dump({"texts": TEXTS, "cases": cases}, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
