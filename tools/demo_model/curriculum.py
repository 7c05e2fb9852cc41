"""What every stage reads, how long, and at which rate."""

import math

STEP_TOKENS = 8192
LOOK_UP = {"phonebook": 2, "big book": 4, "needle": 3, "mixed": 3, "repeat": 0.1, "prose": 0.8}
# length, million tokens, mix
CURRICULUM = [
    (128, 0.2, {"phonebook": 5, "needle": 4, "mixed": 0, "repeat": 0.5, "prose": 0.7}),
    (256, 0.4, {"phonebook": 4, "needle": 4, "mixed": 2, "repeat": 0.3, "prose": 0.7}),
    (512, 0.8, LOOK_UP),
    (1024, 1.4, LOOK_UP),
    (2048, 1.8, LOOK_UP),
    (4096, 2.6, LOOK_UP),
]
# A refinement, at a fraction of these rates: texts with large books, or full books. On long texts
# alone short books are forgotten.
REFINEMENT = [(256, 0.2, LOOK_UP), (512, 0.3, LOOK_UP), (1024, 0.4, LOOK_UP),
              (2048, 0.5, LOOK_UP), (4096, 1.4, LOOK_UP)]
BOOKS = [(4096, 2.4, {"phonebook": 1, "full book": 6, "needle": 2, "mixed": 3, "repeat": 0.1,
                      "prose": 0.8})]
REFINEMENT_RATE = 0.5
# How the twin finds its sinks, mostly on short texts; it keeps them in its refinements.
FIND = [(512, 0.7, LOOK_UP), (1024, 0.3, LOOK_UP), (2048, 0.3, LOOK_UP), (4096, 0.4, LOOK_UP)]
FIND_RATE = 0.8
WARMUP, FLOOR = 20, 0.02


def schedule(curriculum) -> list[tuple[int, dict[str, float]]]:
    """(length, mix) of every step."""
    plan = []
    for length, million, mix in curriculum:
        plan += [(length, mix)] * round(million * 1e6 / STEP_TOKENS)
    return plan


def chosen_curriculum(args):
    """The curriculum, and the factor of its rates."""
    if not args.refine:
        return CURRICULUM, 1.0
    if args.sinks == "find":
        return FIND, FIND_RATE
    return (BOOKS if args.books else REFINEMENT), REFINEMENT_RATE


def rate(step: int, steps: int) -> float:
    """Learning-rate factor: linear warm-up, then cosine down to FLOOR."""
    if step < WARMUP:
        return (step + 1) / WARMUP
    done = (step - WARMUP) / max(1, steps - WARMUP)
    return FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * done))
