"""Writes perplexity_goldens.json: minus ln p of every token of the demo model's needle prompt in windows, by
Transformers in float64, each window in one forward pass.

    python3 perplexity_goldens.py
"""

import json
import pathlib

import torch
import transformers

HERE = pathlib.Path(__file__).parent
MODEL = HERE.parents[3] / "assets" / "demo_model"
LENGTH = 256
BINS = 5


def main():
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float64)
    text = (MODEL / "prompts" / "needle_2048.txt").read_text(encoding="utf-8")
    ids = tokenizer(text, add_special_tokens=False).input_ids
    windows = []
    n_scored, n_bytes = 0, 0
    for first in range(0, len(ids) - LENGTH + 2, LENGTH - 1):
        window = [tokenizer.bos_token_id] + ids[first:first + LENGTH - 1]
        with torch.no_grad():
            logits = model(torch.tensor([window])).logits[0]
        nll = -torch.log_softmax(logits[:-1], -1).gather(1, torch.tensor(window[1:])[:, None])[:, 0]
        edges = [b * len(nll) // BINS for b in range(BINS + 1)]
        windows.append({"first": first, "nll_nats": nll.mean().item(),
                        "bins": [nll[a:b].mean().item() for a, b in zip(edges, edges[1:])]})
        n_scored += len(nll)
        n_bytes += len(tokenizer.decode(window[1:]).encode())
    goldens = {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "length": LENGTH, "bins": BINS, "windows": windows, "n_scored": n_scored, "n_bytes": n_bytes,
        "n_left_out": len(ids) - len(windows) * (LENGTH - 1),
    }
    with open(HERE / "perplexity_goldens.json", "w", encoding="utf-8") as file:
        json.dump(goldens, file, indent=0)
        file.write("\n")


if __name__ == "__main__":
    main()
