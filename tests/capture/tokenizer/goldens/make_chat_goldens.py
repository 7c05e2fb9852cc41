#!/usr/bin/env python3
"""Writes chat.golden.json: chat templates of public models and what Transformers' apply_chat_template makes of them.

    KEYSCOPE_TEST_DATA=… python3 make_chat_goldens.py     (transformers, jinja2, tokenizers)

Each template is kept with the prompts that it renders (or that it raises on, or whose system text it passes over) for
a user's turn with and without a system text, and with whole conversations. Ids are of the real tokenizers of Llama 3 and Qwen3 in the folder that
KEYSCOPE_TEST_DATA names. The date is fixed.
"""
import datetime
import json
import os
import pathlib

import jinja2
import tokenizers
import transformers
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

from chat_templates import TEMPLATES

HERE = pathlib.Path(__file__).parent
DATA = pathlib.Path(os.environ["KEYSCOPE_TEST_DATA"])
TODAY = datetime.datetime(2025, 3, 4, 12)
USERS = ["Which key is evicted first?", "  two\nlines {user} \u3000\n", "", "\x1c\u00a0 é日 {{ bos_token }} <|im_end|>[/INST]"]
SYSTEMS = [None, "Answer briefly.", " \tkeep {system}\n ", ""]
TEMPLATES["Qwen3"] = (*TEMPLATES["Qwen3"][:2], json.loads(
    (DATA / "tokenizers/qwen3/tokenizer_config.json").read_text())["chat_template"])


class FixedDate(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return TODAY


def messages(user, system):
    turns = [{"role": "user", "content": user}]
    return turns if system is None else [{"role": "system", "content": system}] + turns


def render(tokenizer, template, user, system, tokenize=False):
    return tokenizer.apply_chat_template(messages(user, system), chat_template=template, tokenize=tokenize,
                                         return_dict=False, add_generation_prompt=True)


def rendered_cases(bos, eos, template):
    empty = tokenizers.Tokenizer(tokenizers.models.BPE())
    special = {name: text for name, text in (("bos_token", bos), ("eos_token", eos)) if text}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=empty, **special)
    cases = []
    for system in SYSTEMS:
        for user in USERS:
            case = {"user": user, "system": system}
            try:
                case["text"] = render(tokenizer, template, user, system)
                if system is not None and "Where?" not in render(tokenizer, template, user, "Where?"):
                    case = {"user": user, "system": system, "passed_over": True}
            except jinja2.exceptions.TemplateError as error:
                case["raises"] = str(error)
            cases.append(case)
    return {"bos": bos, "eos": eos, "template": template, "cases": cases,
            "conversations": conversations(tokenizer, template)}


REQUESTS = [
    [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nTwo. "},
     {"role": "user", "content": "Three?"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " One?\n"},
     {"role": "assistant", "content": "Two.", "reasoning": "because", "tool_calls": None}, {"role": "user", "content": "Three?"}],
    {"messages": [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "Two."}],
     "add_generation_prompt": False},
    {"messages": [{"role": "user", "content": "One?"}], "enable_thinking": False},
    {"messages": [{"role": "user", "content": "One?"}], "tools": [
        {"type": "function", "function": {"name": "look", "description": "Looks <up>, é", "parameters": {
            "type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}}]},
    [{"role": "user", "content": "One?"}, {"role": "user", "content": "Two?"}],
]


def conversations(tokenizer, template):
    cases = []
    for request in REQUESTS:
        case = {"request": request}
        options = {} if isinstance(request, list) else {key: value for key, value in request.items() if key != "messages"}
        messages = request if isinstance(request, list) else request["messages"]
        options.setdefault("add_generation_prompt", True)
        try:
            case["text"] = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, **options)
        except jinja2.exceptions.TemplateError as error:
            case["raises"] = str(error)
        cases.append(case)
    return cases


def ids_of(folder, template):
    tokenizer = AutoTokenizer.from_pretrained(DATA / "tokenizers" / folder)
    return [{"user": user, "system": system, "ids": render(tokenizer, template, user, system, tokenize=True)}
            for system in SYSTEMS for user in USERS]


def main():
    chat_template_utils.datetime = FixedDate
    golden = {
        "versions": {"transformers": transformers.__version__, "jinja2": jinja2.__version__,
                     "tokenizers": tokenizers.__version__},
        "today": [TODAY.year, TODAY.month, TODAY.day],
        "templates": {name: rendered_cases(*parts) for name, parts in TEMPLATES.items()},
        "ids": {"llama3": {"template": "Llama 3.2", "cases": ids_of("llama3", TEMPLATES["Llama 3.2"][2])},
                "qwen3": {"template": "Qwen3", "cases": ids_of("qwen3", None)}},
    }
    text = json.dumps(golden, ensure_ascii=True, indent=None, separators=(",", ":"))
    # One line per template and per case: differences stay readable.
    for mark in ('{"user":', '{"request":', '"templates":', '{"template":', '"ids":{', '{"bos":'):
        text = text.replace(mark, "\n" + mark)
    (HERE / "chat.golden.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
