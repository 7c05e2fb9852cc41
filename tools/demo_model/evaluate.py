"""Measures the saved model through transformers' LlamaForCausalLM, in float32.

    python tools/demo_model/evaluate.py --text war-and-peace.txt --model assets/demo_model

Greedy decoding under the full cache; an answer counts when the digits that the
model writes are exactly the number asked for and something else follows them.
Needles lie in the chapters held out of training. Writes results.json; tasks that it
holds and that are not asked for stay as they are.
"""

import argparse
import json
import random
import re
import time
from pathlib import Path

import corpus
import tasks
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

BOOKS = (8, 16, 32, 64, 128, 256)
LENGTHS = (128, 256, 512, 1024, 2048, 4096)
WINDOWS = (256, 1024, 4096)
# Needles: how many distractors, and whether the wording is always the same.
NEEDLES = {"needle": (0, True), "needle_3_distractors": (3, True), "needle_any_wording": (3, False)}
TASKS = ("prose", "phonebook", "phonebook_any_wording", *NEEDLES, "mixed")


def load(folder: Path, device: str = "cpu"):
    """The model in float32 and its tokenizer, from a Hugging Face folder."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device)
    return model.eval(), AutoTokenizer.from_pretrained(folder, padding_side="left")


@torch.inference_mode()
def complete(model, tok, prompts: list[str], new_tokens: int = 12) -> list[tuple[str, int]]:
    """Of every prompt the greedy continuation and its own length in tokens."""
    inputs = tok(prompts, return_tensors="pt", padding=len(prompts) > 1).to(model.device)
    out = model.generate(input_ids=inputs.input_ids, attention_mask=inputs.attention_mask,
                         do_sample=False, max_new_tokens=new_tokens)  # [N, T + new_tokens]
    texts = tok.batch_decode(out[:, inputs.input_ids.shape[1]:])
    return list(zip(texts, inputs.attention_mask.sum(dim=1).tolist(), strict=True))


def is_right(text: str, expected: str) -> bool:
    """Whether a continuation answers with exactly the digits expected."""
    found = re.match(r"\s*(\d+)\D", text)
    return found is not None and found.group(1) == expected


def score(model, tok, draw, prompts: int, batch: int) -> dict:
    """Exact match, in percent, over `prompts` prompts from `draw(i)`, `batch` at a time."""
    right, lengths = 0, []
    for begin in range(0, prompts, batch):
        asked = [draw(i) for i in range(begin, min(begin + batch, prompts))]
        answers = complete(model, tok, [prompt for prompt, _ in asked])
        for (text, tokens), (_, expected) in zip(answers, asked, strict=True):
            right += is_right(text, expected)
            lengths.append(tokens)
    return {"right": right, "prompts": prompts, "percent": round(100 * right / prompts, 1),
            "mean_prompt_tokens": round(sum(lengths) / prompts)}


@torch.inference_mode()
def perplexity(model, tok, chapters: list[str], window: int) -> dict:
    """Per-token perplexity of held-out prose in windows of `window` tokens after BOS."""
    ids = tok("\n\n".join(chapters), add_special_tokens=False, return_tensors="pt",
              verbose=False).input_ids[0]
    rows = ids[: len(ids) // window * window].view(-1, window)  # [N, window]
    total = 0.0
    for row in rows.split(8):
        row = row.to(model.device)
        bos = torch.full_like(row[:, :1], tok.bos_token_id)
        logits = model(torch.cat([bos, row[:, :-1]], dim=1)).logits  # [n, window, V]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), row.flatten(),
                                                 reduction="sum")
        total += float(loss)
    return {"perplexity": round(float(torch.tensor(total / rows.numel()).exp()), 2),
            "tokens": rows.numel()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--model", type=Path, default=Path("assets/demo_model"))
    parser.add_argument("--prompts", type=int, default=60)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1,
                        help="one is fast enough, and does not suffer on a busy machine")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--batch", type=int, default=1,
                        help="prompts at a time: worth it on a GPU")
    parser.add_argument("--out", type=Path, help="default: results.json beside the model")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model, tok = load(args.model, args.device)
    _, held = corpus.split_chapters(args.text)
    prose = corpus.Prose(held, tok.backend_tokenizer)

    def rng(*key):
        return random.Random("/".join(map(str, ("evaluate", args.seed, *key))))

    how = {"decoding": "greedy, full cache, float32 from the saved bfloat16",
           "seed": args.seed, "text_sha256": corpus.sha256(args.text)}
    out = args.out or args.model / "results.json"
    before = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    if any(before.get(key, value) != value for key, value in how.items()):
        parser.error(f"{out} holds results of another seed or text; choose another --out")
    results = {**how, **before, **{task: {} for task in args.tasks}}
    began = time.time()
    for window in WINDOWS if "prose" in args.tasks else ():
        results["prose"][window] = perplexity(model, tok, held, window)
        print("prose", window, results["prose"][window], flush=True)

    def run(task, size, draw):
        results[task][size] = score(model, tok, draw, args.prompts, args.batch)
        print(task, size, results[task][size], flush=True)

    for task in ("phonebook", "phonebook_any_wording"):
        for entries in BOOKS if task in args.tasks else ():
            run(task, entries, lambda i, n=entries, t=task: tasks.phonebook_prompt(
                rng(t, n, i), n, plain=t == "phonebook"))
    for task, (distractors, plain) in NEEDLES.items():
        for length in LENGTHS if task in args.tasks else ():
            run(task, length, lambda i, n=length, t=task, k=distractors, p=plain:
                tasks.needle_prompt(rng(t, n, i), prose, n, k, p))
    for length in LENGTHS[1:] if "mixed" in args.tasks else ():
        run("mixed", length, lambda i, n=length: tasks.mixed_prompt(rng("mixed", n, i), prose, n))
    out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(f"{time.time() - began:.0f} s", out)


if __name__ == "__main__":
    main()
