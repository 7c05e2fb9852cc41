"""Prints the results of a model as the rows of its card's table, or a card for a model without one.

    python tools/demo_model/card.py assets/demo_model_sinks --beside assets/demo_model
    python tools/demo_model/card.py assets/demo_model_gated --beside assets/demo_model --whole

With --beside those of another model follow in brackets, with --seeds those of others in columns of
their own. Tasks that were not measured have no row. --whole prints what follows from the checkpoint
and from the results; what was learnt from the model is for its author to add.
"""

import argparse
import json
from pathlib import Path

from checkpoint import layout_of, load_config, load_model

# In the order of the card.
NAMES = {
    "phonebook": "phone book, entries,",
    "phonebook_any_wording": "phone book, any wording, entries,",
    "needle": "needle, tokens,",
    "needle_3_distractors": "needle among 3 distractors, tokens,",
    "needle_any_wording": "needle among 3 distractors, any wording, tokens,",
    "mixed": "prose, 3 needles and a phone book in one, tokens,",
    "prose": "held-out prose, perplexity per token in windows of",
}


def percent(value: float) -> str:
    """Whole, except that what is not all is never shown as all."""
    return f"{value:.1f}" if 99.5 <= value < 100 else f"{value:.0f}"


def cell(measured: dict, sizes) -> str:
    """One model's results of a task at some sizes; a dash is what was not measured."""
    shown = [measured.get(size) for size in sizes]
    return " / ".join("–" if r is None else f"{r['perplexity']:.1f}" if "perplexity" in r
                      else percent(r["percent"]) for r in shown)


# By the layout of the checkpoint: the name in a title, and what its heads have.
ABOUT = {
    "llama": ("", "softmax attention"),
    "gpt_oss": (" with learned sinks",
                "softmax attention with a learned logit per query head, whose share goes to no value, "
                "as in gpt-oss. The checkpoint has the layout of gpt-oss with one expert that "
                "computes SwiGLU, without windows, YaRN and biases of attention"),
    "qwen3_5_text": (" with gated attention",
                     "softmax attention, multiplied by the sigmoid of a projection of the layer's "
                     "input, as in Qwen3.5. The checkpoint has the layout of Qwen3.5 with attention "
                     "in every layer, whole heads that rotate, and norms of queries and keys whose "
                     "epsilon leaves them without effect. Not for float16, in which weights vanish"),
}


def head_of_card(folder: Path) -> str:
    """All that stands above the table of results."""
    cfg, layout = load_config(folder), layout_of(load_config(folder))
    parameters = sum(p.numel() for p in load_model(folder).parameters())
    title, attention = ABOUT[layout.model_type]
    steps = [json.loads(row) for row in (folder / "training_log.jsonl").read_text().splitlines()]
    longest = max(row["length"] for row in steps)
    return f"""---
license: apache-2.0
language: en
library_name: transformers
---

# Keyscope demo model{title}

Trained as [the demo model](../demo_model/README.md) is, from nothing, with its tokenizer, data and
curriculum; the two differ by their attention alone.

| | |
|---|---|
| layout | {layout.architecture}, {cfg.num_hidden_layers} layers, hidden {cfg.hidden_size}, {cfg.num_attention_heads} query and {cfg.num_key_value_heads} key/value heads of {cfg.head_dim}, SwiGLU {cfg.intermediate_size}, RoPE theta {cfg.rope_theta:.0f}, tied embeddings |
| attention | {attention} |
| trained | {parameters / 1e6:.2f} M parameters, stored in bfloat16; texts of up to {longest:,} tokens |

## Results

| task | result |
|---|---|"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--beside", type=Path, metavar="MODEL")
    parser.add_argument("--seeds", type=Path, nargs="+", default=[], metavar="RESULTS",
                        help="results of other seeds, a column each")
    parser.add_argument("--whole", action="store_true", help="the card, with the rows in it")
    args = parser.parse_args()
    if args.whole and args.seeds:
        parser.error("--whole: its table has one column; print the rows of --seeds by themselves")
    found, *others = (json.loads(path.read_text()) for path in (
        *(folder / "results.json" for folder in (args.model, args.beside) if folder), *args.seeds))
    beside = others.pop(0) if args.beside else {}
    if args.whole:
        print(head_of_card(args.model))
    for task in (name for name in NAMES if name in found):
        sizes = " / ".join(f"{int(size):,}" for size in found[task])
        unit = "" if task == "prose" else " %"
        brackets = f" ({cell(beside[task], found[task])})" if task in beside else ""
        columns = [cell(found[task], found[task]) + unit + brackets]
        columns += [cell(other[task], found[task]) + unit if task in other else "–"
                    for other in others]
        print(f"| {NAMES[task]} {sizes} | {' | '.join(columns)} |")


if __name__ == "__main__":
    main()
