"""Prints the tables of adoption reports as Markdown, one for each block size.

    python tools/demo_model/tables.py reports/demo_model_b64 reports/demo_model_b128 …

With --cost what each policy saves instead: time and memory, in place of scores.
"""

import argparse
import json
import math
from pathlib import Path


def share(cell: dict) -> str:
    """A score in per cent with its interval."""
    return f"{100 * cell['mean']:.0f} [{100 * cell['low']:.0f}, {100 * cell['high']:.0f}]"


def number(cell: dict, digits: int) -> str:
    """A mean with its interval."""
    return f"{cell['mean']:.{digits}f} [{cell['low']:.{digits}f}, {cell['high']:.{digits}f}]"


def perplexity(cell: dict) -> str:
    """A mean negative log-likelihood, nats, and its interval as perplexities."""
    return number({name: math.exp(cell[name]) for name in ("mean", "low", "high")}, 1)


def task_cells(report: dict, scores: dict[str, dict]) -> list[str]:
    """The score of every task, as a report's own list orders them."""
    return [perplexity(scores[task["task"]]) if task["kind"] == "negative log-likelihood"
            else share(scores[task["task"]]) for task in report["tasks"]]


def kept_cells(retained: dict) -> list[str]:
    """The geometry of what is kept; the full cache keeps all attention and loses nothing."""
    mass = retained.get("attention_mass_kept")
    return [number(retained["log_volume_nats"], 0),
            number(retained["mean_pairwise_cosine"], 2),
            share(mass) if mass else "100"]


def heading(task: dict) -> str:
    """Of a task's column: what was asked and by which measure, once where they are the same."""
    name, metric = task["task"], task["metric"]
    return name if name == metric else f"{name}, {metric}, %"


def table(report: dict) -> list[list[str]]:
    """Head, the full cache, and every policy and budget."""
    rows = [["policy", "budget", *map(heading, report["tasks"]),
             "log volume, nats", "mean cosine", "attention kept, %"]]
    full = {t["task"]: t["full"] for t in report["tasks"]}
    rows.append(["none", "", *task_cells(report, full),
                 *kept_cells(report["full_cache"]["retained"])])
    for candidate in report["candidates"]:
        scores = {t["task"]: t["score"] for t in candidate["tasks"]}
        rows.append([candidate["policy"], candidate["budget_text"], *task_cells(report, scores),
                     *kept_cells(candidate["retained"])])
    return rows


def cost_cells(measured: dict) -> list[str]:
    """Time to the first token, and the cache of the prompt of the 95th-percentile length."""
    time, memory = measured["first_token_ms"], measured["memory"]
    return [f"{time['median']:.0f} [{time['least']:.0f}, {time['most']:.0f}]",
            f"{100 * memory['occupancy']:.0f}",
            f"{memory['p95_bytes'] / 2**20:.2f}",
            f"{memory['p95_peak_bytes'] / 2**20:.2f}"]


def cost_table(report: dict) -> list[list[str]]:
    """Head, the full cache, and every policy and budget."""
    return [["policy", "budget", "time to first token, ms", "cache kept, %", "cache, MiB",
             "at its peak, MiB"],
            ["none", "", *cost_cells(report["full_cache"])],
            *([c["policy"], c["budget_text"], *cost_cells(c)] for c in report["candidates"])]


def geometry(report: dict) -> str:
    """The model's own geometry, under the full cache."""
    found = report["diagnosis"]
    return (f"ρ(−cosine, attention) {number(found['spearman'], 2)}, "
            f"cos(k̄, q̄) {number(found['key_query_mean_cosine'], 2)}, "
            f"sink metric {number(found['sink_metric'], 2)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("reports", type=Path, nargs="+", help="folders of `keyscope report`")
    parser.add_argument("--cost", action="store_true", help="time and memory in place of scores")
    args = parser.parse_args()
    for folder in args.reports:
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        below = f"{report['prompts']['p95_tokens']:,} tokens" if args.cost else geometry(report)
        print(f"\n{report['model']['name']}, blocks of {report['block']}: {below}\n")
        head, *rows = cost_table(report) if args.cost else table(report)
        for row in (head, ["---"] * len(head), *rows):
            print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
