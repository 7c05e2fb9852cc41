"""Policies that have names against the program's, on the same keys; and functions of one's own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="recordings are written with PyTorch")
pytest.importorskip("transformers", minversion="5", reason="and Transformers 5")

from transformers_models import make, prompt  # noqa: E402

from keyscope.policies import PolicyError, PolicyInput, call, load, needs_of, policy  # noqa: E402
from keyscope.record import record  # noqa: E402
from keyscope.record.named_policies import budget_of, parse, select, select_rows  # noqa: E402

BUDGET, BLOCK = 100, 64
BY_KEYS = [
    "keydiff", "keydiff:anchor=normalized-mean", "keydiff:anchor=median", "keydiff:anchor=pairwise",
    "keydiff:metric=dot", "keydiff:metric=euclidean", "keydiff:recent=0.125", "sink", "sink:first=0", "l2norm",
    "l2norm:skip=1", "random:seed=5", "manifold", "manifold:window=48", "leverage", "logdet", "logdet:ridge=0.01", "cur", "cur:window=8,sinks=2",
]  # fmt: skip


@pytest.fixture(scope="module")
def replayed(
    capture: Any, run_keyscope: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """The demo model's keys, and what the program's replay evicts of them."""
    full = capture("keys", "--record", "keys,queries,values", "--max-tokens", 500)
    out = tmp_path_factory.mktemp("replayed") / "replayed.h5"
    policies = [part for name in BY_KEYS for part in ("--policy", name)]
    run_keyscope("replay", full, *policies, "--budget", BUDGET, "--block", BLOCK, "--out", out)
    return full, out


def evict_by_blocks(
    name: str, keys: np.ndarray, values: np.ndarray, layer: int, head: int
) -> tuple[np.ndarray, np.ndarray]:
    """What a policy evicts of one head's keys (n, d), block by block: the block, and the margin."""
    chosen = parse(name, 0)
    n = len(keys)
    evicted_at, margin = np.full(n, -1), np.full(n, np.nan, np.float32)
    present = np.empty(0, np.int64)
    for block, first in enumerate(range(0, n, BLOCK)):
        present = np.concatenate([present, np.arange(first, min(first + BLOCK, n))])
        if len(present) <= BUDGET or layer < chosen.first_layer:
            continue
        head_input = PolicyInput(
            keys=keys[present], positions=present.astype(np.int32), n_new_rows=min(BLOCK, n - first), budget=BUDGET,
            layer=layer, kv_head=head, values=values[present],
        )  # fmt: skip
        selection = select(chosen, head_input)
        evicted_at[present[selection.evicted]] = block
        margin[present[selection.evicted]] = selection.margin
        present = present[selection.retained]
    return evicted_at, margin


@pytest.mark.parametrize("index", range(len(BY_KEYS)), ids=BY_KEYS)
def test_a_named_policy_evicts_what_the_program_evicts(index: int, replayed: tuple[Path, Path]) -> None:
    full, by_program = replayed
    with h5py.File(full) as keys_file, h5py.File(by_program) as file:
        runs = {run.attrs["index"]: run for run in file["entry/runs"].values()}
        run = runs[sorted(i for i in runs if runs[i].attrs["replayed"])[index]]
        n_agreeing = n_all = 0
        for layer in (0, 1):
            group, none = run[f"layer_{layer:02}"], keys_file[f"entry/runs/none/layer_{layer:02}"]
            for head in range(none["keys"].shape[0]):
                at, margin = evict_by_blocks(BY_KEYS[index], none["keys"][head], none["values"][head], layer, head)
                expected, margins = group["evicted_at"][head], group["evicted_margin"][head]
                same = at == expected
                # Rows so close to the cut that rounding decides.
                close = (np.abs(margins) < 2e-5) | (np.abs(margin) < 2e-5)
                assert (same | close).all()
                evicted = same & (at >= 0)
                assert np.allclose(margin[evicted], margins[evicted], rtol=1e-4, atol=2e-5, equal_nan=True)
                n_agreeing, n_all = n_agreeing + int(same.sum()), n_all + len(at)
        assert n_agreeing >= n_all - 4


def test_ties_go_to_the_lower_row_and_margins_leave_forced_rows_out() -> None:
    scores = np.array([1.0, 3.0, 1.0, 9.0, 1.0])
    forced = np.array([False, False, False, True, False])
    selection = select_rows(scores, forced, 3)
    assert selection.retained.tolist() == [0, 1, 3]
    assert selection.evicted.tolist() == [2, 4]
    assert selection.margin.tolist() == [0.0, 0.0]
    all_forced = select_rows(scores, np.array([True, True, False, False, False]), 2)
    assert all_forced.retained.tolist() == [0, 1]
    assert np.isnan(all_forced.margin).all()
    assert select_rows(scores, forced, 5).evicted.tolist() == []


def test_budgets_mean_what_the_program_says() -> None:
    assert [budget_of(given, 90) for given in (64, "64", 0.25, "25%", "0.25", 1, 1.0, 0.001)] == [
        64, 64, 23, 23, 23, 1, 90, 1,
    ]  # fmt: skip
    for wrong in (0, -1, "0", "110%", 1.5, "many", True):
        with pytest.raises(ValueError, match="expected 1 or more rows"):
            budget_of(wrong, 90)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("keydif", "is not known; there are none, keydiff"),
        ("keydiff:anchor=middle", "anchor takes mean, normalized-mean, median, pairwise"),
        ("keydiff:window=3", "is not an option of it; it takes anchor=, metric=, recent="),
        ("keydiff:recent=0.1,recent=0.2", "option recent is given twice"),
        ("keydiff:anchor=pairwise,metric=dot", "is defined with metric=cosine only"),
        ("snapkv:kernel=4", "kernel=4 is even"),
        ("logdet:ridge=0", "ridge takes a number above 0"),
        ("sink:first=-1", "first takes a whole number"),
        ("python:nowhere.py:f", "there is no file nowhere.py"),
        ("python:nowhere", "expected python:FILE.py:FUNCTION"),
    ],
)
def test_a_policy_that_is_not_known_is_one_sentence(name: str, sentence: str) -> None:
    with pytest.raises(PolicyError, match=sentence):
        parse(name, 0)


# Functions of one's own.


@pytest.fixture(scope="module")
def model() -> Any:
    return make("Llama")


def record_with(model: Any, policies: Any, path: Path, **more: Any) -> h5py.File:
    options = {"budget": 24, "block": 16, "generate": 4, "ignore_eos": True, "progress": False, **more}
    record(model, None, prompt(), policies, out=path, **options).close()
    return h5py.File(path)


def manifold(head: PolicyInput) -> Any:
    return np.linalg.norm(head.keys.astype(float) - head.keys.mean(axis=0, dtype=float), axis=1)


@policy(needs="attention_received")
def heavy_hitters(head: PolicyInput) -> Any:
    assert head.attention_queries is not None and (head.attention_queries > 0).all()
    return head.attention_received


@policy(needs="last_row")
def last_attended(head: PolicyInput) -> Any:
    return head.last_row


@policy(needs="window_sums", window=5)
def snap(head: PolicyInput) -> Any:
    padded = np.pad(head.window_sums.astype(float), 3)
    scores = np.convolve(padded, np.ones(7) / 7, mode="valid")
    scores[-4:] = np.inf  # kept whatever they score
    return scores


@policy(needs=("values",))
def cur(head: PolicyInput) -> Any:
    return (head.keys.astype(float) ** 2).sum(1) * (head.values.astype(float) ** 2).sum(1)


def test_functions_reproduce_the_policies_that_have_names(model: Any, tmp_path: Path) -> None:
    names = ["manifold", "h2o", "tova", "snapkv:window=5,recent=4", "cur"]
    functions = [manifold, heavy_hitters, last_attended, snap, cur]
    with record_with(model, [*names, *functions], tmp_path / "f.h5") as file:
        runs = file["entry/runs"]
        assert runs["heavy_hitters"].attrs["policy"] == "python"
        assert "cur-2" in runs and "manifold-2" in runs
        for name, function in zip(
            names, ["manifold-2", "heavy_hitters", "last_attended", "snap", "cur-2"], strict=True
        ):
            for layer in range(3):
                place = f"layer_{layer:02}/evicted_at"
                expected = runs[name.partition(":")[0]][place][:]
                assert np.array_equal(runs[function][place][:], expected)
                assert (expected >= 0).any()


def test_lagkv_in_ten_lines_keeps_what_its_definition_says(model: Any, tmp_path: Path) -> None:
    def lagkv(head: PolicyInput) -> Any:
        """Each row against the range of the 8 rows behind it (arXiv 2504.04704); the last 8 stay."""
        n, lag = head.n_rows, 8
        scores = np.zeros(n)
        for first in range(0, n - lag, lag):
            here, behind = head.keys[first : first + lag], head.keys[first + lag : first + 2 * lag]
            low, high = behind.min(axis=0), behind.max(axis=0)
            spread = ((here - low) / np.maximum(high - low, 1e-6)).std(axis=1)
            scores[first : first + lag] = np.exp(spread) / np.exp(spread).sum()
        scores[n - min(lag, head.budget) :] = np.inf
        return scores

    with record_with(model, lagkv, tmp_path / "lag.h5", generate=0) as file:
        for layer in range(3):
            evicted_at = file[f"entry/runs/lagkv/layer_{layer:02}/evicted_at"][:]
            assert ((evicted_at < 0).sum(axis=1) == 24).all()
            assert (evicted_at[:, -8:] < 0).all()


def test_a_function_sees_what_it_asked_for_and_no_more(model: Any, tmp_path: Path) -> None:
    seen: list[PolicyInput] = []

    @policy(needs=["values", "last_row", "attention_received", "window_sums"], window=3)
    def everything(head: PolicyInput) -> Any:
        seen.append(head)
        return head.positions

    def nothing(head: PolicyInput) -> Any:
        seen.append(head)
        return head.positions

    with record_with(model, [everything], tmp_path / "a.h5"):
        pass
    first = seen[0]
    assert (first.layer, first.kv_head, first.budget, first.n_new_rows, first.n_rows) == (0, 0, 24, 16, 32)
    assert first.keys.shape == (32, 16) and first.keys.dtype == np.float32
    assert first.positions.tolist() == list(range(32))
    assert first.values is not None and first.values.shape == (32, 16)
    assert first.last_row is not None and np.isclose(first.last_row.sum(), 1, atol=1e-5)
    assert first.window_sums is not None and np.isclose(first.window_sums.sum(), 3, atol=1e-5)
    assert first.attention_received is not None and np.isclose(first.attention_received.sum(), 32, atol=1e-4)
    assert first.attention_queries is not None and first.attention_queries.tolist() == list(range(32, 0, -1))
    after_prompt = seen[-1]
    assert (after_prompt.n_new_rows, after_prompt.n_rows) == (1, 25)
    seen.clear()
    with record_with(model, [nothing], tmp_path / "b.h5"):
        pass
    assert (seen[0].values, seen[0].last_row, seen[0].attention_received, seen[0].window_sums) == (None,) * 4


def returns(value: Any) -> Any:
    def scorer(head: PolicyInput) -> Any:
        return value(head)

    return scorer


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (
            returns(lambda head: np.zeros(3)),
            r"policy scorer, layer 0, KV head 0: returned shape \(3,\); expected \(32,\)",
        ),
        (returns(lambda head: "none"), "policy scorer, layer 0, KV head 0: returned str; expected 32 numbers"),
        (returns(lambda head: np.full(head.n_rows, np.nan)), "the score of row 0 is nan; expected a number"),
        (
            returns(lambda head: np.full(head.n_rows, np.inf)),
            r"32 rows score \+inf, which keeps them; the budget is 24",
        ),
        (returns(lambda head: 1 / 0), "policy scorer, layer 0, KV head 0: raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_function_that_fails_is_one_sentence(model: Any, function: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=sentence):
        record_with(model, function, tmp_path / "e.h5")
    assert not (tmp_path / "e.h5.part").exists()
    # `none` came first, and is kept.
    with h5py.File(tmp_path / "e.h5") as file:
        assert file["entry/provenance"].attrs["complete"] == 0
        assert file["entry/runs/none/blocks_done"][()] == 6 + 3
        assert file["entry/runs/scorer/blocks_done"][()] == 0


def test_a_function_in_a_file_is_a_policy_by_its_name(model: Any, tmp_path: Path) -> None:
    file_name = tmp_path / "mine.py"
    file_name.write_text(
        "import keyscope.policies as p\n\n@p.policy(needs='values')\ndef norm(h):\n    return (h.values ** 2).sum(1)\n"
    )
    name = f"python:{file_name}:norm"
    assert needs_of(load(name)).values
    with record_with(model, name, tmp_path / "m.h5") as file:
        run = file["entry/runs/norm"].attrs
        assert run["policy"] == "python"
        assert json.loads(run["parameters"]) == {
            "file": str(file_name), "function": "norm", "sha256": hashlib.sha256(file_name.read_bytes()).hexdigest(),
        }  # fmt: skip
    with pytest.raises(PolicyError, match="has no function 'other'; it has norm"):
        load(f"python:{file_name}:other")


def test_what_a_policy_needs_is_checked() -> None:
    with pytest.raises(PolicyError, match="needs holds 'queries'; expected some of values, last_row"):
        policy(needs="queries")
    with pytest.raises(PolicyError, match="window is 0"):
        policy(needs="window_sums", window=0)
    assert not needs_of(manifold).attention
    rows = PolicyInput(np.ones((4, 2), np.float32), np.arange(4, dtype=np.int32), 4, 2, 0, 0)
    assert call(lambda head: [1, 2, 3, np.inf], rows).tolist() == [1, 2, 3, np.inf]
