"""Prints the tables of adoption reports as Markdown, one for each block size.

    python tools/demo_model/tables.py reports/demo_model_b64 reports/demo_model_b128 …
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


def geometry(report: dict) -> str:
    """The model's own geometry, under the full cache."""
    found = report["diagnosis"]
    return (f"ρ(−cosine, attention) {number(found['spearman'], 2)}, "
            f"cos(k̄, q̄) {number(found['key_query_mean_cosine'], 2)}, "
            f"sink metric {number(found['sink_metric'], 2)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("reports", type=Path, nargs="+", help="folders of `keyscope report`")
    for folder in parser.parse_args().reports:
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        print(f"\n{report['model']['name']}, blocks of {report['block']}: {geometry(report)}\n")
        head, *rows = table(report)
        for row in (head, ["---"] * len(head), *rows):
            print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
