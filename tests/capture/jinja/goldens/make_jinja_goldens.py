#!/usr/bin/env python3
"""Writes jinja.golden.json: templates and what Jinja, as Transformers sets it up, makes of them.

    python3 make_jinja_goldens.py     (transformers 5.24.0, jinja2 3.1.6)

The templates are those of templates.txt, one a line, and random programs of tools/jinja_fuzz/programs.py with a seed.
Where Jinja fails, no text is kept. What Keyscope does not support is left out.
"""
import copy
import json
import pathlib
import sys

from transformers.utils import chat_template_utils

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[3] / "tools/jinja_fuzz"))
from programs import VARIABLES, Programs  # noqa: E402

SEED = 36
N_PROGRAMS = 400


def rendered(source):
    try:
        text = chat_template_utils._compile_jinja_template(source).render(**copy.deepcopy(VARIABLES))
        return "an address" if " at 0x" in text else text
    except Exception:
        return None


def main():
    programs = Programs(SEED)
    sources = (HERE / "templates.txt").read_text(encoding="utf-8").splitlines()
    sources += [programs.program() for _ in range(N_PROGRAMS)]
    cases = [{"template": source.replace("\\u000a", "\n"), "text": rendered(source)} for source in sources]
    cases = [case for case in cases if case["text"] != "an address"]
    golden = {"variables": VARIABLES, "cases": cases}
    (HERE / "jinja.golden.json").write_text(json.dumps(golden, ensure_ascii=True, indent=0) + "\n")


main()
