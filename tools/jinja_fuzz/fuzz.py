#!/usr/bin/env python3
"""Holds Keyscope's Jinja against Transformers' on random programs, and on templates in a folder.

    ./run build release jinja_lines
    tools/jinja_fuzz/fuzz.py [--programs 100000] [--seed 1]
    tools/jinja_fuzz/fuzz.py --templates DIR     (every *.jinja below it, with conversations of many kinds)

A program must give the same text in both, or fail in both. What Keyscope says that it does not support is counted
apart. Differences are printed; the exit status is 1 where there is one. Needs the packages of requirements.txt beside
it; nothing of it is needed to build Keyscope.
"""

import argparse
import copy
import json
import pathlib
import subprocess
import sys

from transformers.utils import chat_template_utils

from programs import VARIABLES, Programs

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
BATCH = 2000

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather <now>, é", "parameters": {
        "type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "City"}, "unit": {"type": "string", "enum": ["c", "f"]},
            "days": {"type": "array", "items": {"type": "number"}}}}}}
USER = {"role": "user", "content": "  Which key?\n"}
SYSTEM = {"role": "system", "content": "Be brief. é"}
THOUGHT = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nThis one. "}
ANSWER = {"role": "assistant", "content": "No thoughts"}


def call(arguments):
    return [{"id": "call00001", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}]


CONVERSATIONS = [
    {"messages": [USER]}, {"messages": [SYSTEM, USER]}, {"messages": [USER, THOUGHT, USER]},
    {"messages": [SYSTEM, USER, THOUGHT, USER, ANSWER, USER]},
    {"messages": [SYSTEM, USER, ANSWER], "add_generation_prompt": False}, {"messages": [USER], "tools": [WEATHER]},
    {"messages": [SYSTEM, USER, {"role": "assistant", "content": "", "tool_calls": call({"city": "Paris", "days": [1, 2.5]})},
                  {"role": "tool", "name": "get_weather", "tool_call_id": "call00001", "content": "{\"t\": 20}"}, USER],
     "tools": [WEATHER]},
    {"messages": [USER, {"role": "assistant", "content": "x", "tool_calls": call('{"city": "Paris"}')},
                  {"role": "tool", "content": "20"}], "tools": [WEATHER]},
    {"messages": [USER, {"role": "assistant", "content": "a", "reasoning_content": "r", "thinking": "r"}, USER]},
    {"messages": [USER], "enable_thinking": False}, {"messages": [SYSTEM, USER], "enable_thinking": True},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": " you"}]}]},
    {"messages": [{"role": "system", "content": ""}, {"role": "user", "content": ""}]},
    {"messages": [USER], "reasoning_effort": "high", "thinking": True}, {"messages": [{"role": "developer", "content": "d"}, USER]},
    {"messages": [SYSTEM, SYSTEM, USER]}, {"messages": [ANSWER, USER]}, {"messages": [USER, USER]},
    {"messages": [USER], "documents": [{"title": "t", "text": "x"}]}, {"messages": [{"role": "user", "content": None}, ANSWER]},
]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def random_jobs(n, seed):
    programs = Programs(seed)
    for i in range(n):
        yield f"program {i}", programs.program(), VARIABLES


def template_jobs(folder):
    for path in sorted(pathlib.Path(folder).rglob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for i, conversation in enumerate(CONVERSATIONS):
            variables = {"tools": None, "documents": None, "add_generation_prompt": True, **TOKENS, **conversation}
            yield f"{path}, conversation {i}", source, json.loads(json.dumps(variables))


def reference(source, variables):
    try:
        text = chat_template_utils._compile_jinja_template(source).render(**copy.deepcopy(variables))
        return (None, "prints an address") if " at 0x" in text else (text, "")
    except Exception as error:
        return None, repr(error)


def compare(jobs, renderer):
    lines = "\n".join(json.dumps({"template": source, "variables": variables}) for _, source, variables in jobs)
    results = subprocess.run([renderer], input=lines, capture_output=True, text=True, check=False).stdout.split("\n")[:-1]
    counts = {"same": 0, "both fail": 0, "not supported": 0, "different": 0}
    for i, (name, source, variables) in enumerate(jobs):
        got = json.loads(results[i]) if i < len(results) else {"error": "the program died"}
        expected, why = reference(source, variables)
        if expected is not None and got.get("text") == expected:
            counts["same"] += 1
        elif expected is None and "error" in got and got["error"] != "the program died":
            counts["both fail"] += 1
        elif "not supported" in got.get("error", "") or "more than 64 bits" in got.get("error", ""):
            counts["not supported"] += 1
        else:
            counts["different"] += 1
            print(f"{name}: {source[-2000:]!r}\n  expected {expected!r} {why}\n  found    {got!r}")
        if i >= len(results):
            raise SystemExit(1)
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--templates")
    parser.add_argument("--renderer", default=TOP / "build/release/jinja_lines")
    arguments = parser.parse_args()
    jobs = template_jobs(arguments.templates) if arguments.templates else random_jobs(arguments.programs, arguments.seed)
    total = {}
    batch = []

    def flush():
        for key, n in compare(batch, arguments.renderer).items():
            total[key] = total.get(key, 0) + n
        batch.clear()
        print(", ".join(f"{n:,} {key}" for key, n in total.items()), file=sys.stderr, flush=True)

    for job in jobs:
        batch.append(job)
        if len(batch) == BATCH:
            flush()
    if batch:
        flush()
    return 1 if total.get("different", 0) else 0


if __name__ == "__main__":
    sys.exit(main())
