"""Writes longbench_goldens.json: LongBench's prompts, as the lm-evaluation-harness has them in its package, but for
where it departs from the benchmark's own dataset2prompt.json (noted below); prompts cut in the middle by
Transformers, as LongBench's pred.py does it; and percentages by Python's `round`, as its eval.py does it.

    python3 longbench_goldens.py
"""

import ast
import importlib.util
import json
import pathlib
import random

import transformers

SEED = 11
HERE = pathlib.Path(__file__).parent
MODEL = HERE.parents[3] / "assets" / "demo_model"
ENGLISH = ["narrativeqa", "qasper", "multifieldqa_en", "hotpotqa", "2wikimqa", "musique", "gov_report", "qmsum",
           "multi_news", "trec", "triviaqa", "samsum", "passage_count", "passage_retrieval_en", "lcc", "repobench-p"]


def harness_table(name):
    package = pathlib.Path(importlib.util.find_spec("lm_eval").origin).parent
    tree = ast.parse((package / "tasks" / "longbench" / "_generate_config.py").read_text(encoding="utf-8"))
    tables = [node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == name]
    return ast.literal_eval(tables[0])


# The harness calls the input "question", ends no prompt with white space, and parts examples and input by one
# line break where the benchmark has two.
def own_prompt(task, prompt):
    prompt = prompt.replace("{question}", "{input}")
    if task in ("triviaqa", "samsum"):
        prompt = prompt.replace("{context}\n{input}", "{context}\n\n{input}")
    if task in ("passage_count", "passage_retrieval_en"):
        prompt += " "
    if task in ("lcc", "repobench-p"):
        prompt += "\n"
    return prompt


def cut(tokenizer, text, max_length):
    ids = tokenizer(text).input_ids
    if len(ids) > max_length:
        half = int(max_length / 2)
        text = tokenizer.decode(ids[:half], skip_special_tokens=True) + tokenizer.decode(
            ids[-half:], skip_special_tokens=True
        )
    return {"max_tokens": max_length, "n_whole": len(ids), "text": text, "ids": tokenizer(text).input_ids}


def main():
    prompts, lengths = harness_table("dataset2prompt"), harness_table("dataset2maxlen")
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    text = (MODEL / "prompts" / "needle.txt").read_text(encoding="utf-8")[:3000]
    text = text[:1500] + " caf\u00e9 \u4f60\u597d \U0001f600 na\u00efve " * 12 + text[1500:]
    generator = random.Random(SEED)
    sums = [(generator.random() * n, n) for n in generator.choices(range(1, 400), k=400)]
    sums += [(i, 800) for i in range(0, 800, 7)] + [(k + 0.5, 20000) for k in range(0, 20000, 97)]
    # Of so many wholly right answers, the percentages are other ones by the order of the steps.
    sums += [(i, n) for n in range(32, 1001, 32) for i in range(n)
             if round(100 * i / n, 2) != round(100 * (i / n), 2)]
    goldens = {
        "versions": {"lm_eval": "0.4.13", "transformers": transformers.__version__, "seed": SEED},
        "tasks": {task: {"prompt": own_prompt(task, prompts[task]).format(context="{input} <c>", input="{context} <i>"),
                         "max_new_tokens": lengths[task]} for task in ENGLISH},
        "text": text,
        "cuts": [cut(tokenizer, text, n) for n in [2, 3, 64, 65, 100, 333, 514, 700, 701, 702, 703, 704, 705, 5000]],
        "percents": [{"total": total, "n": n, "percent": round(100 * total / n, 2)} for total, n in sums],
    }
    with open(HERE / "longbench_goldens.json", "w", encoding="utf-8") as file:
        json.dump(goldens, file, indent=0, ensure_ascii=True)
        file.write("\n")


if __name__ == "__main__":
    main()
