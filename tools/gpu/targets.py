"""Whether what was measured meets what is wanted: ratios of times by the rules of docs/bench.md, and verdicts.

A verdict is `met` or `missed` where the whole interval lies on one side of the target, and `cannot be told` elsewhere,
with the reason. Without a target it is only a ratio.
"""

import math
import statistics

LEAST_SPEEDUP = 1.2  # Transformers' time to the first token over Keyscope's
MOST_EVICTION = 0.05  # of the time to the first token
MOST_RECORDING = 0.2  # that recording adds to the run without it
# Of the peak at the longest prompt over that at the shortest. What the allocator holds counts, and it takes segments of
# 20 MiB and more, a few of which are some hundredths of a small model. A full cache must add at least five times as
# much for a flat peak to say anything.
MOST_GROWTH, LEAST_FULL_GROWTH = 0.05, 0.25

# As in app/benchmarks/paired_ratio.hpp.
CONFIDENCE, LEAST_ROUNDS, MOST_WAITING, MOST_SPREAD, MOST_WIDTH = 0.95, 6, 0.5, 4, 2

HOW = f"""How ratios were taken: by turns, a few rounds of Keyscope, then as many of each peer, every second turn in the
opposite order. A peer's process stays for all turns, Keyscope's is a new one each time; the first round of every
process warms up and does not count, except in Keyscope's shares (attention, eviction, products) and its tokens
generated a second, which are of all its rounds. Round i of Keyscope's turn is paired with round i of the peer's: a pair
is of the same turn, not of the same moment. A ratio is the median of the pairs' with its exact {100 * CONFIDENCE:.0f} %
interval. It cannot be told from fewer than {LEAST_ROUNDS} rounds, with a load average of more than {MOST_WAITING} above
the machine's processors, where one side's times differ by a factor of more than {MOST_SPREAD}, or where the interval
spans one of more than {MOST_WIDTH}; eviction's share may span any, as it is judged by its distance from the target.
Recording is measured by one process, in rounds with and without it. Memory is flat where its peak at the longest prompt
is at most {1 + MOST_GROWTH:g} times that at the shortest: the allocator's segments of 20 MiB and more may reach it."""


def median_interval(values: list[float]) -> tuple[float, float, float]:
    """The median and from the k-th smallest to the k-th largest value, which leave at least the confidence of
    Binomial(n, 1/2); NaN where there are too few."""
    values, n = sorted(values), len(values)
    low = high = math.nan
    below = 0.0
    for i in range(n // 2):
        below += math.comb(n, i) / 2 ** n
        if 1 - 2 * below < CONFIDENCE:
            break
        low, high = values[i], values[n - 1 - i]
    return (statistics.median(values) if values else math.nan), low, high


def ratio_of(values: list[float], sides: list[list[float]], load: float | None, processors: int,
             of: str = "times") -> dict:
    """The median of the rounds' ratios, its interval, and why it cannot be told, if so. sides: the times compared, or
    the `shares` themselves, which may be 0 and whose interval may be of any width."""
    median, low, high = median_interval(values)
    spread = max((max(side) / min(side) for side in sides if side and min(side) > 0), default=1)
    doubt = ""
    if len(values) < LEAST_ROUNDS:
        doubt = f"{len(values)} round{'' if len(values) == 1 else 's'}, of which at least {LEAST_ROUNDS} are needed"
    elif load is not None and load > processors + MOST_WAITING:
        doubt = f"the load average was {load:.2f} with {processors} processors"
    elif spread > MOST_SPREAD:
        doubt = f"{of} of one and the same work differ by a factor of {spread:.1f}, more than {MOST_SPREAD}"
    elif of == "times" and (low <= 0 or high / low > MOST_WIDTH):
        doubt = f"its interval [{low:.2g}, {high:.2g}] spans a factor of more than {MOST_WIDTH}"
    return {"value": median, "low": low, "high": high, "rounds": len(values), "doubt": doubt}


def judged(ratio: dict, least: float | None = None, most: float | None = None) -> dict:
    """The ratio with its target and verdict."""
    verdict, reason = "cannot be told", ratio["doubt"]
    if not reason and least is None and most is None:
        verdict = ""
    elif not reason:
        met = ratio["low"] >= least if most is None else ratio["high"] <= most
        missed = ratio["high"] < least if most is None else ratio["low"] > most
        if met or missed:
            verdict = "met" if met else "missed"
        else:
            reason = "the target lies within the interval"
    # JSON has no NaN.
    known = {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in ratio.items()}
    return known | {"target": least if most is None else most, "verdict": verdict, "reason": reason}


def pairs_of(ours: dict, theirs: dict) -> list[tuple[float, float]]:
    """Times of the same round of the same turn."""
    return [pair for our_turn, their_turn in zip(ours["ttft_ms_turns"], theirs["ttft_ms_turns"])
            for pair in zip(our_turn, their_turn)]


def against_peers(ours: dict, rows: list[dict], load: float | None, processors: int) -> list[dict]:
    """A peer's time to the first token over Keyscope's, for each of them."""
    found = []
    for theirs in rows:
        if theirs["tool"] == "keyscope":
            continue
        pairs = pairs_of(ours, theirs)
        sides = [[pair[side] for pair in pairs] for side in (0, 1)]
        ratio = ratio_of([peer / mine for mine, peer in pairs], sides, load, processors)
        same_work = theirs["tool"] == "transformers" and theirs["block"] == ours["block"]
        at_once = theirs["block"] == theirs["n_tokens"]
        name = f"{theirs['tool']}{', at once' if at_once else ''}: its time over Keyscope's"
        found.append({"what": name} | judged(ratio, least=LEAST_SPEEDUP if same_work else None))
    return found


def evictions_share(row: dict, load: float | None, processors: int) -> dict:
    shares = row["eviction_share_rounds"]
    return {"what": "eviction's share", "percent": True} | judged(
        ratio_of(shares, [shares], load, processors, "shares"), most=MOST_EVICTION)


def recordings_overhead(row: dict) -> dict:
    """By the rules above, which `keyscope bench capture` applied itself."""
    ratio = {"value": row["overhead"], "low": row.get("overhead_low", math.nan),
             "high": row.get("overhead_high", math.nan), "rounds": row["repeat"],
             "doubt": row.get("overhead_doubt") or ("" if row.get("overhead_told") else "its rounds are not known")}
    return {"what": "recording adds", "percent": True} | judged(ratio, most=MOST_RECORDING)


def flatness(rows: list[dict], bytes_per_token: int) -> dict:
    """The peak at the longest prompt over that at the shortest; a sample each, as memory does not vary as times do."""
    short, long = rows[0], rows[-1]
    value = full = math.nan
    if short.get("peak_bytes") and long.get("peak_bytes"):
        value = long["peak_bytes"] / short["peak_bytes"]
        full = 1 + (long["n_tokens"] - short["n_tokens"]) * bytes_per_token / short["peak_bytes"]
    doubt = ""
    if math.isnan(value):
        doubt = "a peak is not known"
    elif len(rows) < 2:
        doubt = "only one prompt was measured"
    elif short.get("budget") is None:
        doubt = "how many rows were kept is not known"
    elif short["n_tokens"] <= short["budget"] + short["block"]:
        doubt = f"the shorter prompt has no more tokens than the {short['budget']} rows that are kept and a block"
    elif full < 1 + LEAST_FULL_GROWTH:
        doubt = f"a cache that keeps everything would take {full:.3f} times as much, too little to tell"
    # One sample is its own interval.
    ratio = {"value": value, "low": value, "high": value, "rounds": 1, "doubt": doubt}
    what = f"peak memory over that at {short['n_tokens']} tokens"
    with_full = "" if math.isnan(full) else f"; {full:.2f} with a full cache"
    return {"what": what + with_full} | judged(ratio, most=1 + MOST_GROWTH)


def targets_of(parts, bytes_per_token: dict[str, int]) -> list[dict]:
    """All that can be said of the rows of parts, whose names begin with a shape."""
    found = []

    def add(shape, row, targets):
        found.extend({"shape": shape, "n_tokens": row["n_tokens"], "policy": row["policy"]} | each for each in targets)

    for part in parts:
        shape = part.name.split("/")[0]
        load, processors = part.setting.get("load"), part.setting.get("processors", 1)
        for row in part.rows:
            if row["tool"] != "keyscope":
                continue
            if "ttft_ms_turns" in row:
                add(shape, row, against_peers(row, part.rows, load, processors))
                if row["budget"] is not None and row.get("eviction_share_rounds"):
                    add(shape, row, [evictions_share(row, load, processors)])
            if "overhead" in row:
                add(shape, row, [recordings_overhead(row)])
        if part.name.endswith("/memory") and part.rows:
            add(shape, part.rows[-1], [flatness(part.rows, bytes_per_token[shape])])
        ours = next((row for row in part.rows if "ttft_ms_turns" in row and row["tool"] == "keyscope"), None)
        for tool in part.setting.get("peers", []) if ours else []:
            if not any(row["tool"] == tool for row in part.rows):
                nothing = {"value": math.nan, "low": math.nan, "high": math.nan, "rounds": 0,
                           "doubt": f"{tool} was not measured; the part says why"}
                add(shape, ours, [{"what": f"{tool}: its time over Keyscope's"} | judged(
                    nothing, least=LEAST_SPEEDUP if tool == "transformers" else None)])
    return found


def target_line(target: dict) -> str:
    """A line of the report; no figure where it cannot be told."""
    scale, unit = (100, " %") if target.get("percent") else (1, "")
    sign = "at most" if target.get("percent") or target["what"].startswith("peak") else "at least"
    wanted = "" if target["target"] is None else f"{sign} {scale * target['target']:g}{unit}"
    figure = ""
    if target["verdict"] != "cannot be told" or target["reason"].startswith("the target"):
        digits = 1 if target.get("percent") else 3 if target["what"].startswith("peak") else 2
        figure = f"{scale * target['value']:.{digits}f}{unit}"
        if target["rounds"] > 1:
            figure += f" [{scale * target['low']:.{digits}f}, {scale * target['high']:.{digits}f}]"
    verdict = target["verdict"] + (f": {target['reason']}" if target["reason"] else "")
    return (f"{target['shape']:6}{target['n_tokens']:7} {target['policy']:9}{target['what']:62}{wanted:14}"
            f"{figure:22}{verdict}").rstrip()
