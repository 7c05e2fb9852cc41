"""Seeds for fuzz_chat_template: the golden templates with and without a request, and one line of Jinja each.

    python3 fuzz_chat_template_seeds.py FOLDER
"""

import json
import pathlib
import sys

REQUEST = {"messages": [{"role": "system", "content": "be short"}, {"role": "user", "content": [{
    "type": "text", "text": "hi"}]}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {
        "name": "f", "arguments": {"x": 1}}}]}, {"role": "tool", "content": "2"}], "tools": [{
            "type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
           "enable_thinking": True, "add_generation_prompt": False}


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    tests = pathlib.Path(__file__).parent.parent
    request = json.dumps(REQUEST)
    goldens = json.loads((tests / "tokenizer/goldens/chat.golden.json").read_text())
    for name, golden in goldens["templates"].items():
        (folder / f"chat_{name}").write_text("\n" + golden["template"])
        (folder / f"request_{name}").write_text(f"{request}\n{golden['template']}")
    lines = (tests / "jinja/goldens/templates.txt").read_text().splitlines()
    for i, line in enumerate(lines):
        (folder / f"line_{i}").write_text(f"\n{line}")


if __name__ == "__main__":
    main()
