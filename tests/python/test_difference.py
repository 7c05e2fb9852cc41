"""What one run kept and another evicted: by hand, and against `keyscope diff --csv`."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable

import h5py
import handmade
import keyscope
import numpy as np
import pandas as pd
import pytest
from keyscope.difference import COLUMNS

TOKENS = [b"a", b" b", b"\n", b"d\xff", b'"', b"f"]
# The program's columns beside ours, whichever of these names it has for them.
NAMES = {"text": "token", "received": "attention_before", "afterwards": "attention_after"}


def program_rows(run_keyscope: Callable[..., str], path, a: str, b: str, layer: int, kv_head: int) -> pd.DataFrame:
    options = ("--run", a, "--run", b, "--layer", layer, "--kv-head", kv_head)
    said = run_keyscope("diff", path, *options, "--csv", "-", "--quiet")
    numbers = ("margin", "received", "afterwards", "attention_before", "attention_after")
    rows = pd.read_csv(io.StringIO(said), keep_default_na=False, dtype=dict.fromkeys(numbers, str))
    for name in numbers:
        if name in rows:  # pandas' own parser of numbers is not exact in all of its versions
            rows[name] = [float(text) if text else np.nan for text in rows[name]]
    return rows.rename(columns=NAMES)


def assert_same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Exactly, but for attention, which both compute from keys and queries in float32, and which gives the order."""
    after = "attention_after"
    np.testing.assert_allclose(found[after], expected[after].astype(float), rtol=1e-5, atol=1e-5)
    found, expected = found.set_index("position"), expected.set_index("position")
    moved = found.index != expected.index  # only among rows whose attention is the same to rounding
    there = expected.loc[found.index[moved], after].astype(float)
    np.testing.assert_allclose(there, expected[after][moved].astype(float), rtol=1e-5, atol=1e-5)
    expected = expected.loc[found.index]
    for name in ("token", "kept_by", "evicted_at"):
        assert found[name].tolist() == expected[name].tolist(), name
    np.testing.assert_array_equal(found.margin, expected.margin.astype(float))
    np.testing.assert_allclose(found.attention_before, expected.attention_before.astype(float), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("a,b", [("keydiff", "snapkv"), ("sink", "keydiff"), ("none", "sink")])
def test_rows_order_and_values_are_the_programs(needle, run_keyscope, a, b):
    n_rows = 0
    for layer, kv_head in ((0, 0), (1, 0), (3, 2)):
        found = needle.difference(a, b, layer=layer, kv_head=kv_head)
        assert_same(found, program_rows(run_keyscope, needle.path, a, b, layer, kv_head))
        assert (found.layer == layer).all() and (found.kv_head == kv_head).all()
        n_rows += len(found)
    assert n_rows > 300


def test_all_heads_together_are_those_of_each(needle):
    found = needle.difference("keydiff", "snapkv")
    assert list(found.columns) == COLUMNS and found.attrs == {"attention_missing": ""}
    parts = [needle.difference("keydiff", "snapkv", layer, head) for layer in range(4) for head in range(4)]
    expected = pd.concat(parts).sort_values("attention_after", ascending=False, kind="stable", ignore_index=True)
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
    one_layer = needle.difference("keydiff", "snapkv", layer=2)
    pd.testing.assert_frame_equal(one_layer, found[found.layer == 2].reset_index(drop=True))
    assert len(needle.difference("keydiff", "snapkv", kv_head=1)) == (found.kv_head == 1).sum()


@pytest.mark.parametrize("family", ["gemma2", "gpt_oss", "granite"])
def test_other_rules_of_attention(tiny, run_keyscope, family):
    """Soft caps, sliding windows, learned sinks, scales of their own."""
    path = tiny(family, "plain")
    with keyscope.open(path) as recording:
        n_rows = 0
        for layer in recording.layers:
            for kv_head in recording["none"][layer].recorded_heads[:2]:
                found = recording.difference("keydiff", "h2o", layer, kv_head)
                assert_same(found, program_rows(run_keyscope, path, "keydiff", "h2o", layer, kv_head))
                assert not found.attention_before.isna().any()
                n_rows += len(found)  # of layers whose window is narrower than the budget, none
        assert n_rows > 0


def test_recorded_attention_replays_and_quantised_caches(tiny, capture, replayed_path, run_keyscope):
    options = ("--max-tokens", 200, "--budget", 64, "--block", 32, "--policy", "none", "--policy", "keydiff")
    quantised = capture("quantised", *options, "--cache-dtype", "model,int4")
    by_place = capture("by-place", *options, "--policy", "sink", "--positions", "cache")
    for path, a, b in [
        (tiny("gpt_oss", "attention", "--record", "keys,queries,attention"), "keydiff", "h2o"),
        (replayed_path, "keydiff", "h2o"),
        (quantised, "keydiff", "keydiff-int4"),
        (by_place, "keydiff", "sink"),
    ]:
        with keyscope.open(path) as recording:
            layer = recording.layers[-1]
            found = recording.difference(a, b, layer=layer, kv_head=0)
            assert_same(found, program_rows(run_keyscope, path, a, b, layer, 0))
            assert len(found) > 0 and recording.difference(a, b).attrs["attention_missing"] == ""


def test_by_hand(tmp_path):
    """Blocks of two: run `early` evicts row 0 after block 0, run `late` rows 1 and 4 after block 2."""
    layer = handmade.layer(6, n_kv_heads=1, n_heads=2)
    early = {**layer, "evicted_at": np.array([[0, -1, -1, -1, 2, -1]], np.int32),
             "evicted_margin": np.array([[0.25, np.nan, np.nan, np.nan, 1, np.nan]], np.float32)}  # fmt: skip
    late = {**layer, "evicted_at": np.array([[-1, 2, -1, -1, 2, -1]], np.int32),
            "evicted_margin": np.array([[np.nan, 0.5, np.nan, np.nan, 1, np.nan]], np.float32)}  # fmt: skip
    path = handmade.write(tmp_path / "two.h5", TOKENS, {"none": {1: layer}, "early": {1: early}, "late": {1: late}})
    with keyscope.open(path) as recording:
        found = recording.difference("early", "late")
        assert sorted(zip(found.position, found.token, found.kept_by, found.evicted_at, found.margin)) == [
            (0, "a", "late", 0, 0.25),
            (1, " b", "early", 2, 0.5),
        ]
        assert found.score.isna().all()  # of policies that are not known here
        received = recording["none"][1][0].attention_received
        np.testing.assert_allclose(found.attention_before + found.attention_after, received[found.position], rtol=1e-5)
        row = found[found.position == 1].iloc[0]
        assert row.attention_after == 0  # evicted with the prompt's last block: no query came after
        weights = recording["none"][1][0].weights()
        row = found[found.position == 0].iloc[0]
        assert row.attention_before == pytest.approx(np.nansum(weights[:, :2, 0]) / 2)
        assert row.attention_after == pytest.approx(np.nansum(weights[:, 2:, 0]) / 2)
        at_first = recording.difference("early", "late", block=0)
        assert list(at_first.position) == [0] and list(at_first.kept_by) == ["late"]


def test_without_a_full_cache_the_rest_is_told(tmp_path):
    layer = handmade.layer(6)
    lost = {**layer, "evicted_at": np.where(np.arange(6) < 3, 2, -1)[None].repeat(2, 0).astype(np.int32)}
    with keyscope.open(handmade.write(tmp_path / "a.h5", TOKENS, {"a": {0: layer}, "b": {0: lost}})) as recording:
        found = recording.difference("a", "b")
        assert list(found.position) == [0, 1, 2] * 2 and found.attention_after.isna().all()
        assert found.attrs["attention_missing"] == "there is no finished run none, which would say what was lost"
    bare = {name: layer[name] for name in layer if name not in ("keys", "queries", "values")}
    runs = {"none": {0: bare}, "b": {0: {**bare, "evicted_at": lost["evicted_at"]}}}
    with keyscope.open(handmade.write(tmp_path / "b.h5", TOKENS, runs)) as recording:
        found = recording.difference("none", "b")
        assert found.attrs["attention_missing"] == "neither attention nor keys and queries were recorded"
        assert len(found) == 6 and found.attention_before.isna().all()


def test_scores_take_a_window_from_what_was_dropped_where_nobody_counted(tmp_path):
    layer = handmade.layer(6)
    del layer["attention_queries"]
    lost = {**layer, "evicted_at": np.array([[2, -1, 2, -1, -1, -1]] * 2, np.int32)}
    with keyscope.open(
        handmade.write(tmp_path / "a.h5", TOKENS, {"none": {0: layer}, "keydiff": {0: lost}})
    ) as recording:
        found = recording.difference("none", "keydiff", kv_head=0)
        keys = layer["keys"][0].astype(np.float64)
        mean = keys.mean(axis=0)
        score = -(keys @ mean) / np.linalg.norm(keys, axis=1) / np.linalg.norm(mean)
        np.testing.assert_allclose(found.sort_values("position").score, score[[0, 2]], rtol=1e-6)


def test_runs_that_agree_differ_in_nothing(needle, capture):
    found = needle.difference("none", "keydiff", block=0)  # 64 rows fit into the budget
    assert found.empty and list(found.columns) == COLUMNS
    assert needle.difference("none", "keydiff", layer=0, kv_head=0, attention=False).attention_after.isna().all()


class TestScores:
    POLICIES = (
        "keydiff",
        "keydiff:anchor=median,recent=0.2",
        "keydiff:anchor=pairwise",
        "keydiff:anchor=normalized-mean",
        "keydiff:metric=euclidean",
        "keydiff:metric=dot",
        "l2norm",
        "manifold",
        "cur",
        "sink",
        "random:seed=7",
        "leverage",
        "logdet",
    )

    @pytest.fixture
    def many(self, capture):
        chosen = [option for policy in self.POLICIES for option in ("--policy", policy)]
        options = ("--budget", 100, "--block", 50, "--max-tokens", 300, "--record", "keys,queries,values")
        with keyscope.open(capture("policies", "--policy", "none", *chosen, *options)) as recording:
            yield recording

    def test_the_cut_less_the_score_is_the_recorded_margin(self, many):
        for run in list(many)[1:]:
            for layer in (0, 3):
                head = run[layer][1]
                found = many.difference("none", run.name, layer, 1)
                assert not found.score.isna().any()
                known = found.dropna(subset="margin")
                assert len(known) > 100
                cuts = known.score + known.margin  # one number per block: the lowest score that stayed unforced
                spread = cuts.groupby(known.evicted_at).agg(np.ptp)
                assert (spread <= 2e-5 * np.maximum(1, cuts.abs().max())).all(), run.name
                for block, cut in cuts.groupby(known.evicted_at).mean().items():
                    ranked = head.scores(block)
                    kept = ranked[head.evicted_at[ranked.index] != block]
                    assert np.isclose(kept, cut, rtol=1e-4, atol=1e-5).any()  # it is some row's that stayed

    def test_rows_are_ranked_whatever_windows_the_configuration_has(self, tmp_path, many):
        """Without a run `none` that shows it: rows that leave with a margin were ranked."""
        shutil.copy(many.path, tmp_path / "alone.h5")
        with h5py.File(tmp_path / "alone.h5", "r+") as alone:
            del alone["entry/runs/none"]
            alone["entry/model"].attrs["config"] = json.dumps({"sliding_window": 60})
        with keyscope.open(tmp_path / "alone.h5") as recording:
            found, expected = recording["keydiff"][0][1].scores(3), many["keydiff"][0][1].scores(3)
            np.testing.assert_array_equal(found.index, expected.index)
            np.testing.assert_array_equal(found, expected)

    @pytest.mark.parametrize("policy", ["python", "python:evil/x=p.py:f", "kvpress:KeyDiffPress"])
    def test_policies_of_ones_own_are_not_run(self, tmp_path, monkeypatch, policy):
        """Whatever a recording names: with the parameters, it is a file that is there."""
        (tmp_path / "evil").mkdir()
        for name in ("x=p.py", "x.py"):
            (tmp_path / "evil" / name).write_text("import sys; sys.was_run = True\ndef f(head): return head.positions")
        monkeypatch.chdir(tmp_path)
        layer = handmade.layer(6)
        lost = {**layer, "evicted_at": np.array([[2, -1, 2, -1, -1, -1]] * 2, np.int32)}
        path = handmade.write(tmp_path / "own.h5", TOKENS, {"none": {0: layer}, "own": {0: lost}})
        with h5py.File(path, "r+") as file:
            file["entry/runs/own"].attrs.update(policy=policy, parameters=json.dumps({"evil/x": "p.py:f"}))
        with keyscope.open(path) as recording:
            sentence = f"no scores: policy {policy} is the user's own, none of keyscope's, and its .* are not known$"
            with pytest.raises(keyscope.MissingError, match=sentence):
                recording["own"][0][0].scores()
            found = recording.difference("none", "own")
            assert len(found) == 4 and found.score.isna().all()
        assert not hasattr(sys, "was_run")

    def test_scores_by_attention_are_not_told(self, needle):
        with pytest.raises(keyscope.MissingError, match="snapkv scores by attention as it was at each block"):
            needle["snapkv"][0][0].scores()
        with pytest.raises(keyscope.MissingError, match="evicts nothing"):
            needle["none"][0][0].scores()
        found = needle.difference("none", "snapkv", 0, 0)
        assert found.score.isna().all() and not found.margin.isna().all()
